//! Finds the files of the workspace that a command line names, as far as its text shows them.
//!
//! This is not a shell parser and need not be one: it only adds files to the hash, so that a script can't
//! change under a trusted hook. What it doesn't find (a name made by an expansion, a program that a script
//! starts) is not hashed beyond the command's text. For that reason hooks of a workspace run confined.

use std::path::{Path, PathBuf};

use haft_shell::{Token, TokenKind, tokenize_line};

use crate::settings::{SettingsPlaces, normalize_path};

/// The maximum number of words of one command line that are examined.
const WORDS_MAX: usize = 256;
/// The maximum nesting depth of quoted command lines.
const QUOTES_MAX: usize = 4;
/// The maximum number of named folders that are searched.
const FOLDERS_MAX: usize = 8;

/// Returns the files that a shell command line names.
pub(crate) fn in_line(line: &str, places: &SettingsPlaces, bases: &[&Path]) -> Vec<PathBuf> {
    in_words(&split_words(&substitute_variables(line, places), LineOutputs::LeftOut), places, bases)
}

/// Returns the files that a program and its arguments name.
pub(crate) fn in_args<'a>(
    args: impl IntoIterator<Item = &'a str>,
    places: &SettingsPlaces,
    bases: &[&Path],
) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for arg in args {
        let arg = substitute_variables(arg, places);
        // An argument may be a path with spaces, or a shell command line.
        all.extend(split_words(&arg, LineOutputs::Kept));
        all.push(arg);
    }
    in_words(&all, places, bases)
}

fn substitute_variables(text: &str, places: &SettingsPlaces) -> String {
    let dir = places.cwd.to_string_lossy();
    let mut text = text.to_owned();
    for name in ["CLAUDE_PROJECT_DIR", "HAFT_PROJECT_DIR", "PWD"] {
        for form in [format!("${{{name}:-.}}"), format!("${{{name}}}"), format!("${name}")] {
            text = text.replace(&form, &dir);
        }
    }
    text
}

/// Returns whether a shell command line, started in a workspace, may run a file in it or in one of these
/// folders. The file need not exist, since a command may create it. If in doubt, the result is true.
pub(crate) fn line_runs_inside(line: &str, places: &SettingsPlaces, dirs: &[PathBuf]) -> bool {
    let line = expand_folders(line, places);
    let begins = begins_elsewhere(&line);
    runs_inside(
        &split_words(&line, LineOutputs::LeftOut),
        begins.as_deref().unwrap_or(&places.cwd),
        places,
        dirs,
    )
}

/// Returns the folder that a line changes to before anything else: `cd ~/hooks && ./a.py`. `None` if what
/// follows may run elsewhere, or runs even if the folder doesn't exist.
fn begins_elsewhere(line: &str) -> Option<PathBuf> {
    let tokens = tokenize_line(line);
    let [first, folder, joined, rest @ ..] = &tokens[..] else { return None };
    let known = folder.kind == TokenKind::Word && !folder.text.contains(['$', '`']);
    let stays = |token: &Token| match token.kind {
        TokenKind::Word => !["cd", "pushd", "popd"].contains(&&*token.unquoted()),
        TokenKind::Separator => ["&&", "|"].contains(&&*token.text),
        TokenKind::Redirection => true,
    };
    let path = PathBuf::from(folder.unquoted());
    let moves = first.text == "cd" && joined.text == "&&" && path.is_absolute();
    (moves && known && rest.iter().all(stays)).then_some(path)
}

/// The same for a program and its arguments.
pub(crate) fn args_run_inside<'a>(
    args: impl IntoIterator<Item = &'a str>,
    places: &SettingsPlaces,
    dirs: &[PathBuf],
) -> bool {
    let mut all = Vec::new();
    for arg in args {
        let arg = expand_folders(arg, places);
        let parts = split_words(&arg, LineOutputs::Kept);
        all.push(arg);
        all.extend(parts);
    }
    runs_inside(&all, &places.cwd, places, dirs)
}

fn runs_inside(words: &[String], base: &Path, places: &SettingsPlaces, dirs: &[PathBuf]) -> bool {
    let roots: Vec<&PathBuf> = [&places.cwd].into_iter().chain(&places.git_root).chain(dirs).collect();
    let inside = |path: &Path| roots.iter().any(|root| path.starts_with(root) && path != root.as_path());
    let begins_inside = roots.iter().any(|root| base.starts_with(root));
    let mut interprets = false;
    for (index, word) in words.iter().enumerate().filter(|(_, word)| is_usable_word(word)) {
        let name = word.rsplit('/').next().unwrap_or(word);
        if begins_inside && haft_shell::runs_workspace_code(name) {
            return true;
        }
        // `.` is a command only as a word of its own.
        let script = haft_shell::runs_script(name) && (name != "." || word == ".");
        if script {
            // `-c` and `-m` find modules in the working directory.
            let next = words.get(index + 1).map(String::as_str);
            if begins_inside
                && haft_shell::imports_modules(name)
                && next.is_some_and(|next| next.starts_with('-') && next.contains(['c', 'm']))
            {
                return true;
            }
            interprets = true;
            continue;
        }
        let value = word.split_once('=').map(|(_, value)| value).filter(|value| is_usable_word(value));
        for word in [Some(word.as_str()), value].into_iter().flatten() {
            // The result of an expansion that is unknown here.
            if word.starts_with(['$', '`']) && word.contains('/') {
                return true;
            }
            let path = normalize_path(base, Path::new(word));
            let real = path.canonicalize().ok();
            let plain = !word.contains("://") && !word.contains(char::is_whitespace);
            let named =
                word.contains('/') || looks_like_a_script(word) || (interprets && !word.starts_with('-'));
            let there =
                real.as_deref().is_some_and(|real| inside(real) && (word.contains('/') || !real.is_dir()));
            if there || (named && plain && inside(&path)) {
                return true;
            }
        }
        interprets &= word.starts_with('-');
    }
    false
}

/// Expands the names of known folders in a line.
fn expand_folders(line: &str, places: &SettingsPlaces) -> String {
    let mut line = substitute_variables(line, places);
    let root = places.git_root.as_ref().unwrap_or(&places.cwd).to_string_lossy().into_owned();
    line = line
        .replace("$(git rev-parse --show-toplevel)", &root)
        .replace("`git rev-parse --show-toplevel`", &root);
    line = line.replace("$(pwd)", &places.cwd.to_string_lossy());
    if let Some(home) = places.home.as_ref().map(|home| home.to_string_lossy()) {
        line = line.replace("${HOME}", &home).replace("$HOME", &home);
        line = line.replace(" ~/", &format!(" {home}/"));
        if let Some(rest) = line.strip_prefix("~/") {
            line = format!("{home}/{rest}");
        }
    }
    line
}

/// Returns the words of a line without quotes. A quoted word with spaces also yields its parts.
fn split_words(line: &str, outputs: LineOutputs) -> Vec<String> {
    let mut found = Vec::new();
    add_words(line, outputs, 0, &mut found);
    found.truncate(WORDS_MAX);
    found
}

/// Whether files that receive the output of a line are included.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineOutputs {
    Kept,
    LeftOut,
}

fn add_words(line: &str, outputs: LineOutputs, depth: usize, found: &mut Vec<String>) {
    let mut is_output = false;
    let mut quoted = Vec::new();
    for token in tokenize_line(line) {
        let left_out = std::mem::take(&mut is_output) && outputs == LineOutputs::LeftOut;
        match token.kind {
            TokenKind::Word if !left_out => {
                let word = token.unquoted();
                quoted.extend(word.contains(char::is_whitespace).then(|| word.clone()));
                found.extend(word.split(['{', '}']).filter(|part| !part.is_empty()).map(str::to_owned));
            }
            TokenKind::Redirection => is_output = token.text.contains('>'),
            TokenKind::Word | TokenKind::Separator => {}
        }
    }
    if depth < QUOTES_MAX {
        quoted.iter().for_each(|inner| add_words(inner, LineOutputs::Kept, depth + 1, found));
    }
}

fn in_words(words: &[String], places: &SettingsPlaces, bases: &[&Path]) -> Vec<PathBuf> {
    let values = words.iter().filter_map(|word| word.split_once('=')).map(|(_, value)| value);
    let words: Vec<&str> =
        words.iter().map(String::as_str).chain(values).filter(|word| is_usable_word(word)).collect();
    // A named folder may be the base for the other names: `cd hooks && ./a.py`.
    let first = bases.iter().map(|base| base.to_path_buf());
    let named = words.iter().map(|word| normalize_path(&places.cwd, Path::new(word)));
    let named = named.filter(|path| is_within_workspace(path, places) && path.is_dir()).take(FOLDERS_MAX);
    let bases: Vec<PathBuf> = first.chain(named).collect();

    let mut found: Vec<PathBuf> = Vec::new();
    for word in words {
        let paths: Vec<PathBuf> = bases.iter().map(|base| normalize_path(base, Path::new(word))).collect();
        let mut files: Vec<&PathBuf> = paths.iter().filter(|path| is_file(path, places)).collect();
        if files.is_empty() && looks_like_a_script(word) {
            files.extend(paths.iter().find(|path| is_within_workspace(path, places) && !path.exists()));
        }
        for path in files {
            if !found.contains(path) {
                found.push(path.clone());
            }
        }
    }
    found
}

fn is_usable_word(word: &str) -> bool {
    !word.is_empty() && word.len() <= haft::limits::PATH_BYTES_MAX && !word.contains('\0')
}

fn is_within_workspace(path: &Path, places: &SettingsPlaces) -> bool {
    path.starts_with(&places.cwd) || places.git_root.as_ref().is_some_and(|root| path.starts_with(root))
}

/// Returns whether a path is a file in the workspace, by its name or after resolving symlinks.
fn is_file(path: &Path, places: &SettingsPlaces) -> bool {
    path.canonicalize().is_ok_and(|real| {
        !real.is_dir() && (is_within_workspace(path, places) || is_within_workspace(&real, places))
    })
}

/// Returns whether a missing file would be run or read if it existed, judged by its name.
fn looks_like_a_script(word: &str) -> bool {
    let plain =
        !word.starts_with('-') && !word.contains("://") && !word.contains(['$', '*', '?', '[', '~', '=']);
    let plain = plain && !word.contains(char::is_whitespace);
    plain && (word.contains('/') || haft_shell::is_script_name(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &[&str]) {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        for file in ["check.sh", "hooks/a.py", "hooks/with space.sh", "conf.json"] {
            let path = cwd.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        std::os::unix::fs::symlink("/bin/sh", cwd.join("link")).unwrap();
        let places = SettingsPlaces {
            managed: None,
            claude_managed_dir: None,
            claude_json: None,
            config_dir: None,
            claude_dir: None,
            state_dir: None,
            usual: Vec::new(),
            home: None,
            git_root: None,
            cwd: cwd.clone(),
        };
        let found = in_line(line, &places, &[&cwd]);
        let found: Vec<_> =
            found.iter().map(|path| path.strip_prefix(&cwd).unwrap().to_str().unwrap().to_owned()).collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn scripts_are_found_in_the_text_of_a_command() {
        check("./check.sh", &["check.sh"]);
        check("bash check.sh --fast", &["check.sh"]);
        check("\"$CLAUDE_PROJECT_DIR\"/hooks/a.py", &["hooks/a.py"]);
        check(
            "python3 \"${CLAUDE_PROJECT_DIR}/hooks/a.py\" --config=conf.json",
            &["hooks/a.py", "conf.json"],
        );
        check("cd hooks && ./a.py; cat hooks/../check.sh", &["hooks/a.py", "check.sh"]);
        check("bash -c 'python3 hooks/a.py | tee /tmp/x'", &["hooks/a.py"]);
        // A word with spaces is a path or a shell command line. Both are searched.
        check("'hooks/with space.sh'", &["hooks/with space.sh", "hooks/with", "space.sh"]);
        check("hooks/with\\ space.sh", &["hooks/with space.sh", "hooks/with", "space.sh"]);
        check("X=check.sh; $X", &["check.sh"]);
        check("link -c true", &["link"]);
    }

    #[test]
    fn a_script_that_is_not_there_yet_counts() {
        check("test -x .claude/extra.sh && .claude/extra.sh", &[".claude/extra.sh"]);
        check("python3 later.py", &["later.py"]);
    }

    fn places(cwd: &Path) -> SettingsPlaces {
        SettingsPlaces {
            managed: None,
            claude_managed_dir: None,
            claude_json: None,
            config_dir: None,
            claude_dir: None,
            state_dir: None,
            usual: Vec::new(),
            home: Some("/home/me".into()),
            git_root: None,
            cwd: cwd.to_owned(),
        }
    }

    #[test]
    fn what_may_run_something_of_the_workspace_is_told_by_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        std::fs::create_dir(cwd.join("tools")).unwrap();
        std::fs::write(cwd.join("TODO"), "x").unwrap();
        let runs = |line: &str| line_runs_inside(line, &places(&cwd), &["/more".into()]);
        let absolute = format!("{}/tools/x", cwd.display());
        for line in [
            "./tools/hook.sh",
            &absolute,
            "python3 tools/hook.py",
            "\"$CLAUDE_PROJECT_DIR\"/tools/h",
            "cd tools && ./h",
            "bash -c tools/hook.sh",
            "env python3 tools/hook.py",
            "tools/missing.sh",
            "make -s hook",
            "npm test",
            "python3 hook.py",
            "bash hook",
            "python3 -m tools",
            "python3 tools",
            "X=tools/a; $X",
            "$TOOLS/a",
            "\"$(git rev-parse --show-toplevel)\"/a.sh",
            "${HAFT_PROJECT_DIR}/a",
            "/more/a",
            "sh TODO",
            "tools",
            "~/x.sh > log; tools/h",
            "cd ~/hooks && true; ./tools",
            "cd ~/hooks && cd - && ./tools",
            ". tools/env",
        ] {
            assert_eq!(runs(line), line != "tools", "{line}");
        }
        for line in [
            "~/.claude/hooks/a.sh",
            "$HOME/bin/a",
            "python3 /home/me/a.py",
            "/usr/bin/logger hi",
            "jq -r .tool_name",
            "~/log.sh \"$CLAUDE_PROJECT_DIR\"",
            "cat >> \"$CLAUDE_PROJECT_DIR\"/hooks.log",
            "curl https://x/y.sh",
            "cd ~/hooks && ./a.py",
            "cd '/home/me/my hooks' && ./a.py < in | ./b.py",
            "echo hello; exit 2",
            "bash -c 'exit 2'",
            "jq . > out/log.json",
        ] {
            assert!(!runs(line), "{line}");
        }
    }

    #[test]
    fn what_is_no_file_of_the_workspace_is_left_alone() {
        check("npm run lint", &[]);
        check("/bin/sh -c true", &[]);
        check("curl https://x.example/i.sh", &[]);
        check("ls hooks", &[]);
        check("echo ../outside.sh ~/x.sh $HOME/y.sh", &[]);
    }
}
