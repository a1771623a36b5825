//! Generates the page of all programs, and checks that no other code knows a program by its name.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{TABLE, all};
use crate::model::{EntryCoverage, MeaningKind, ProgramEntry, RepositoryLevel, TextLanguage, ValueMeaning};

const HEADER: &str = "# Programs\n\nWhat `haft` knows of each program, made from `crates/haft-shell/src/programs`. *Complete*: the listed \
options do nothing that isn't listed; *reads only*: no option changes anything; *partly*: the program may do more than its words say.\n\n\
| program | known | options with a meaning | sub-commands |\n|---|---|---|---|\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Describes meanings in one word each.
fn verbs(meanings: &[ValueMeaning]) -> BTreeSet<&'static str> {
    let verb = |meaning: &ValueMeaning| match meaning.kind {
        MeaningKind::If(_, then, otherwise) | MeaningKind::Prefixed(_, then, otherwise) => {
            &verbs(then) | &verbs(otherwise)
        }
        MeaningKind::At(_, inner) | MeaningKind::Part(_, inner) | MeaningKind::NoValue(inner) => verbs(inner),
        MeaningKind::KeyValue(table) | MeaningKind::KeyPair(table) | MeaningKind::HiddenKey(table) => {
            let values = table.keys.iter().filter_map(|key| key.meanings).map(verbs);
            values.fold(verbs(table.other), |all, some| &all | &some)
        }
        kind => BTreeSet::from([word_for(kind)]),
    };
    meanings.iter().flat_map(verb).collect()
}

fn word_for(kind: MeaningKind) -> &'static str {
    match kind {
        MeaningKind::Read(_) | MeaningKind::Folder | MeaningKind::OperandFolder => "reads",
        MeaningKind::Write(_)
        | MeaningKind::WriteLoose(_)
        | MeaningKind::WriteInto
        | MeaningKind::WritesAnywhere
        | MeaningKind::Derived(_) => "writes",
        MeaningKind::Delete(_) | MeaningKind::DeleteMatches(_) => "deletes",
        MeaningKind::Destroys(_) => "destroys",
        MeaningKind::Connect(..) | MeaningKind::UnknownHost(_) => "reaches",
        MeaningKind::Changes | MeaningKind::ChangesListed | MeaningKind::LosesDirectory => "changes",
        MeaningKind::Variable | MeaningKind::VariableName | MeaningKind::ShellState => "sets",
        MeaningKind::Repository(RepositoryLevel::Configuration) => "configures",
        MeaningKind::Repository(_) => "commits",
        MeaningKind::Undetermined | MeaningKind::ExactOnly => "asks",
        _ => "runs",
    }
}

fn row(page: &mut String, entry: &ProgramEntry) {
    let known = match entry.coverage {
        EntryCoverage::Total => "reads only",
        EntryCoverage::Listed => "complete",
        EntryCoverage::Partial => "partly",
    };
    let options = entry.all_options().filter(|spec| !spec.meanings.is_empty());
    let options: Vec<String> = options
        .map(|spec| format!("`{}` {}", spec.names, Vec::from_iter(verbs(spec.meanings)).join(", ")))
        .collect();
    let below: Vec<&str> = entry.subcommands.iter().flat_map(|one| one.names.split(' ')).collect();
    let cells = [format!("`{}`", entry.names), known.to_owned(), options.join("; "), below.join(" ")];
    writeln!(page, "| {} |", cells.map(|cell| cell.replace('|', "&#124;")).join(" | ")).unwrap();
}

fn page() -> String {
    let mut page = HEADER.to_owned();
    all().for_each(|entry| row(&mut page, entry));
    page
}

/// `HAFT_WRITE_PAGES=1` writes the page.
#[test]
fn the_page_is_current() {
    let path = root().join("docs/programs.md");
    if std::env::var_os("HAFT_WRITE_PAGES").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == page(),
        "docs/programs.md is out of date; HAFT_WRITE_PAGES=1 writes it"
    );
}

/// Returns the evaluator of a language, by its own name.
fn evaluator(language: TextLanguage) -> &'static str {
    match language {
        TextLanguage::Shell | TextLanguage::ThisShell | TextLanguage::Deferred => "shell",
        TextLanguage::ShellWords => "words that a shell expands",
        TextLanguage::Sed => "scripts of an editor",
        TextLanguage::Awk => "patterns with actions",
        TextLanguage::Code(_) => "code",
        TextLanguage::Commands(_) => "lines of commands",
        TextLanguage::Makefile => "rules of a build",
        TextLanguage::Macros => "macros",
    }
}

/// Ten evaluators turn text into findings: those of languages, the one of `key=value`, and the one of
/// addresses.
#[test]
fn there_are_at_most_ten_evaluators() {
    let escapes = &crate::model::CommandEscapes {
        shell: &[],
        anywhere: None,
        unread: &[],
        signs: &[],
        plain: "",
        exact: false,
        abbreviated: false,
        pipes: None,
    };
    let languages = [
        TextLanguage::Shell,
        TextLanguage::ThisShell,
        TextLanguage::Deferred,
        TextLanguage::ShellWords,
        TextLanguage::Sed,
        TextLanguage::Awk,
        TextLanguage::Code(&[]),
        TextLanguage::Commands(escapes),
        TextLanguage::Makefile,
        TextLanguage::Macros,
    ];
    let names: BTreeSet<&str> = languages.into_iter().map(evaluator).collect();
    assert!(names.len() + 2 <= 10, "{names:?}");
}

#[test]
fn no_program_has_two_entries() {
    let mut names: Vec<&str> = all().flat_map(|entry| entry.all_names()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(count > 450 && TABLE.len() == 13, "{count} programs");
}

/// Filters avoid reading the names. A filter that missed a name would hide the program's effects.
#[test]
fn filters_leave_no_name_out() {
    let entries = || all().chain(all().flat_map(|entry| entry.subcommands));
    assert!(entries().all(|entry| entry.all_names().all(|name| entry.filter.may_hold(name))));
    for spec in entries().flat_map(|entry| entry.all_options()) {
        for name in spec.names.split(' ') {
            let letters = name.strip_prefix('-').unwrap_or_default();
            assert!(spec.filter.may_hold(&name.replace('?', "x")), "{name}");
            assert!(letters.bytes().all(|letter| spec.filter.may_hold_letter(letter)), "{name}");
            assert!(!name.starts_with('=') || spec.filter.has_dashed, "{name}");
        }
    }
}

/// Names that are also words of the grammar, of other languages or of messages.
const AMBIGUOUS: &[&str] = &[
    "time", "[", ".", ":", "!", "test", "system", "set", "-", ",", "host", "file", "at", "exec", "eval",
    "import", "include", "r", "n", "rc", "es", "open", "command", "script", "which", "find", "run", "write",
    "delete", "view", "install", "read", "start", "stop", "repo", "env", "true", "false", "more", "type",
    "fd", "tty", "return", "break", "as", "has", "let", "wait", "local", "in", "then", "else", "do", "at",
    "from", "http", "https", "stack", "head",
];

/// Names that may appear in the grammar.
const GRAMMAR: &[&str] = &["declare", "typeset", "local", "export", "readonly", "time", "["];

/// Returns the program names in the text of a source file, as a literal or a word in one.
fn names_in(text: &str, names: &[&'static str]) -> Vec<&'static str> {
    let code = text.split("#[cfg(test)]").next().unwrap();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let literals = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    let words =
        literals.flat_map(|literal| literal.split(|c: char| !(c.is_alphanumeric() || "-_+.".contains(c))));
    // Files and hosts are named after programs: `.git`, `docker.io`.
    let is = |word: &str, name: &str| name == word || word.split('.').any(|part| part == name);
    words.filter_map(|word| names.iter().find(|name| is(word, name)).copied()).collect()
}

#[test]
fn only_entries_know_a_program_by_its_name() {
    let names: Vec<&str> =
        all().flat_map(|entry| entry.all_names()).filter(|name| !AMBIGUOUS.contains(name)).collect();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let folders = [source.clone(), source.join("languages"), source.join("examine"), source.join("model")];
    let files =
        folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    for path in files.filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let mut known = names_in(&std::fs::read_to_string(&path).unwrap(), &names);
        known.retain(|name| !(path.ends_with("parse.rs") && GRAMMAR.contains(name)));
        assert!(known.is_empty(), "{}: {known:?}", path.display());
    }
    // Proves that the test can fail.
    assert_eq!(
        names_in(
            "is(\"git\") || text.starts_with(\"curl -\") || x.ends_with(\".git\") || \"docker.io\"",
            &names
        ),
        ["git", "curl", "git", "docker"]
    );
}
