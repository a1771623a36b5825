//! Compares the entries with the real programs. Every command that a program starts must have been found
//! with its arguments, or the analysis must have a doubt. A command that starts a planted program must be
//! denied or asked about.
//!
//! The first half of the forms is generated from the entries: every option that runs something, with its
//! value in the next word, attached, after `=`, under an abbreviated name and in a cluster. That checks the
//! table against itself, so the other half tries every letter and every long name of `--help`. Programs
//! that aren't installed are skipped, and nothing leaves this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::find;
use crate::model::{MeaningKind, OptionSpec, ProgramEntry};
use crate::{CommandAnalysis, ShellDirectories, Word, analyse_command, base_name};

/// Commands in which `@` is replaced by an option.
const PROBES: &[&str] = &[
    "git grep @ one", "git difftool -y @ HEAD~1", "git rebase @ HEAD~1", "git clone @ ./ e", "git fetch @ .", "git ls-remote @ .",
    "git push @ . HEAD:x", "git archive @ --remote=. HEAD", "git @ log", "tar @ -cf u.tar a", "tar @ -xf t.tar", "sort @ a", "split -l1 @ a",
    "scp @ a 127.0.0.1:b", "sftp @ 127.0.0.1", "ssh @ 127.0.0.1 ls", "vim -es @ a", "node @", "make @ -f /dev/null", "python3 @",
    "python3 -m timeit -n1 -r1 @", "perl @ a", "gdb -batch @", "sed @ a", "awk @ a", "find a @", "xargs @ < a", "env @ ls", "strace @ true",
    "zip @ z.zip a", "rsync @ a 127.0.0.1:b", "sqlite3 :memory: @", "curl @ file:///dev/null", "man @ ls", "rg @ one", "fd @ a", "jobs @", "script @ l",
    "timeout @ 1 true", "flock @ l true", "nice @ true", "su @", "watch @ true", "bash @ a", "m4 @ a", "dc @", "less @ a", "npm @ ls", "install @ a b",
    "lua5.4 @ a", "ruby @ a", "php @ a", "parallel @ true ::: a", "stdbuf @ true", "setsid @ true", "unshare @ true", "chrt @ 0 true", "nohup @ true",
    "ls @", "cat @ a", "grep @ one a", "diff @ a b", "file @ a", "jq @ . a", "objdump @ a", "nm @ a", "gcc @ -c a", "ld @ a", "shuf @ a", "du @", "column @ a",
    "gawk @ a", "ed @ a", "dd @", "bash @ -c true", "unzip @ -l z.zip", "xz @ -c a", "zstd @ -c a", "tree @", "uniq @ a", "date @",
];

/// Returns values that start `zap` if the option of a program runs its value.
fn values_of(program: &str) -> &'static [&'static str] {
    match program {
        "git" => &["zap", "core.sshCommand=zap", "core.pager=zap", "alias.log='!zap'"],
        "ssh" | "scp" | "sftp" => &["zap", "ProxyCommand=zap"],
        "tar" => &["zap", "exec=zap"],
        "make" => &["'$(shell zap)'", "'x:;zap'", "SHELL=zap"],
        "vim" => &["'!zap'"],
        "less" | "dc" => &["'!zap'"],
        "gdb" => &["'shell zap'", "'!zap'"],
        "node" => &["'require(\"child_process\").execSync(\"zap\")'"],
        "python3" => &["'import os;os.system(\"zap\")'"],
        "lua5.4" => &["'os.execute(\"zap\")'"],
        "ruby" => &["'system(\"zap\")'"],
        "php" => &["'system(\"zap\");'", "sendmail_path=zap"],
        "perl" => &["'system(\"zap\")'", "'POSIX;system(\"zap\")'"],
        "sed" => &["'1e zap'"],
        "awk" => &["'BEGIN{system(\"zap\")}'"],
        "find" | "fd" => &["zap {} \\;", "zap"],
        "sqlite3" => &["'.shell zap'"],
        "m4" => &["'x=syscmd(zap)'"],
        _ => &["zap"],
    }
}

/// Forms that once bypassed rules that deny `zap`.
const ONCE_OVERLOOKED: &[&str] = &[
    "git grep -iOzap one", "git difftool -yx zap HEAD~1", "git rebase -qx zap HEAD~1", "git rebase -vx zap HEAD~1", "git rebase -fx zap HEAD~1",
    "git clone -qu zap ./ e", "git clone -nu zap ./ e", "scp -qo ProxyCommand=zap a 127.0.0.1:b", "vim -es -nc '!zap' a",
    "node -pe 'require(\"child_process\").execSync(\"zap\")'", "make -sE '$(shell zap)' -f /dev/null", "jobs -x zap", "BASH_CMDS[ls]=zap; ls",
    "BASH_CMDS=([ls]=\"$PWD/../bin/zap\"); ls", "env 'BASH_FUNC_ls%%=() { zap; }' bash -c ls", "perl '-MPOSIX;system(\"zap\")' -e 1",
    "python3 -m timeit -n1 -r1 'import os;os.system(\"zap\")'", "scp -D zap a 127.0.0.1:b", "curl -sK f",
];

/// The number of forms in each ordinary test run.
const SAMPLE: usize = 50;

/// A folder with stubs that shadow the usual programs, and with files to work on. Stubs record how they
/// were called.
struct TestFolder {
    dir: tempfile::TempDir,
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    name == "jobs" || std::env::split_paths(&path).any(|folder| folder.join(name).exists())
}

impl TestFolder {
    fn new(stubs: &[&str]) -> TestFolder {
        let folder = TestFolder { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(folder.path("bin")).unwrap();
        // One write per call, with a separator after each argument and after each call.
        let stub = format!(
            "#!/bin/sh\nprintf '%s\\036' \"$(printf '%s\\037' \"${{0##*/}}\" \"$@\")\" >> {}\n", folder.path("log").display(),
        );
        for name in stubs.iter().map(|name| folder.path("bin").join(name)) {
            fs::write(&name, &stub).unwrap();
            fs::set_permissions(name, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::create_dir(folder.path("made")).unwrap();
        let setup = "printf 'one\\ntwo\\n' > a; cp a b; mkdir d; cp a d/c; tar cf t.tar a b; : > f; git init -q --template= .; git add a b; \
                     git commit -qm 1; echo 3 >> a; git commit -qam 2";
        folder.shell(setup, "made");
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn shell(&self, text: &str, folder: &str) {
        let mut folders = vec![self.path("bin")];
        folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let _ = Command::new("timeout")
            .args(["-s", "KILL", "2", "bash", "--norc", "--noprofile", "-c", text])
            .env_clear()
            .envs([("HOME", self.dir.path().as_os_str()), ("PATH", &std::env::join_paths(folders).unwrap())])
            .envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_AUTHOR_NAME", "x"), ("GIT_AUTHOR_EMAIL", "x@x"), ("TERM", "dumb")])
            .envs([("GIT_COMMITTER_NAME", "x"), ("GIT_COMMITTER_EMAIL", "x@x")])
            .current_dir(self.path(folder))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }

    /// Runs a command in a fresh folder. Returns the recorded calls.
    fn run(&self, command: &str) -> Vec<Vec<String>> {
        let _ = fs::remove_dir_all(self.path("work"));
        let _ = fs::remove_file(self.path("log"));
        self.shell("cp -a made work", ".");
        self.shell(command, "work");
        let log = fs::read(self.path("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let calls = log.split('\u{1e}').filter(|call| !call.is_empty());
        calls.map(|call| call.trim_end_matches('\u{1f}').split('\u{1f}').map(str::to_owned).collect()).collect()
    }
}

/// Returns whether words match arguments: known words exactly, others any number of arguments. A program
/// may be called by its path.
fn fits(words: &[Word], arguments: &[String]) -> bool {
    match words.split_first() {
        None => arguments.is_empty(),
        Some((Word::Literal(text), rest)) => {
            arguments.split_first().is_some_and(|(first, others)| base_name(first) == base_name(text) && fits(rest, others))
        }
        Some((Word::Dynamic(_), rest)) => (0..=arguments.len()).any(|taken| fits(rest, &arguments[taken..])),
    }
}

fn is_found(found: &CommandAnalysis, call: &[String]) -> bool {
    found.commands.iter().flat_map(|command| &command.layers).any(|layer| fits(&layer.argv, call))
}

/// Returns whether a rule that denies the planted program stops a command, or the command asks.
fn is_noticed(command: &str) -> bool {
    let found = analyse_command(command, &ShellDirectories::new("/repo"));
    let named = |text: &String| text == "zap" || text.starts_with("zap ");
    !found.doubts.is_empty() || found.commands.iter().any(|one| one.texts_for_deny().iter().any(named))
}

/// Returns the entry of the program or sub-command in a probe.
fn entry_of(probe: &str) -> Option<&'static ProgramEntry> {
    let mut words = probe.split(' ');
    let name = words.next()?;
    if probe.contains(" -m timeit") {
        return find("-m:timeit").map(|known| known.entry);
    }
    let entry = find(name)?.entry;
    let below = words.next().and_then(|word| entry.subcommands.iter().find(|one| one.all_names().any(|known| known == word)));
    Some(below.unwrap_or(entry))
}

fn acts(spec: &OptionSpec) -> bool {
    spec.meanings.iter().any(|meaning| !matches!(meaning.kind, MeaningKind::Read(_) | MeaningKind::Changes | MeaningKind::ChangesListed))
}

/// Returns every form of the options that run something.
fn generated_forms() -> Vec<String> {
    let mut forms = Vec::new();
    for probe in PROBES {
        let program = probe.split(' ').next().unwrap();
        let Some(entry) = entry_of(probe).filter(|_| is_installed(program)) else { continue };
        let flags: String = entry.all_options().filter(|spec| spec.meanings.is_empty() && spec.sets == 0)
            .flat_map(|spec| spec.names.split(' ').filter_map(|token| token.strip_prefix('-'))).collect();
        let mut options = Vec::new();
        for token in entry.all_options().filter(|spec| acts(spec)).flat_map(|spec| spec.names.split(' ')) {
            if let Some(letters) = token.strip_prefix('-') {
                for letter in letters.chars() {
                    options.extend([format!("-{letter} "), format!("-{letter}")]);
                    options.extend(flags.chars().take(6).flat_map(|flag| [format!("-{flag}{letter} "), format!("-{flag}{letter}")]));
                }
            } else if let Some(name) = token.strip_prefix('=') {
                options.extend([format!("-{name} "), format!("-{name}")]);
            } else {
                let short = &token[..token.len().saturating_sub(2).max(1)];
                options.extend([format!("--{token} "), format!("--{token}="), format!("--{short}="), format!("--{short} "), format!("-{token} ")]);
            }
        }
        for option in options {
            forms.extend(values_of(program).iter().map(|value| probe.replace('@', &format!("{option}{value}"))));
        }
    }
    forms
}

/// Returns every letter, and every long name that a program lists, with a value.
fn blind_forms() -> Vec<String> {
    let mut forms = Vec::new();
    for probe in PROBES.iter().filter(|probe| is_installed(probe.split(' ').next().unwrap())) {
        let letters = ('a'..='z').chain('A'..='Z').chain('0'..='9');
        forms.extend(letters.flat_map(|letter| [format!("-{letter} zap"), format!("-{letter}zap")]).map(|option| probe.replace('@', &option)));
        let command: Vec<&str> = probe.split(' ').take_while(|word| *word != "@").filter(|word| !word.starts_with('-')).collect();
        let help = Command::new("timeout").args(["4"]).args(&command).arg("--help").stdin(Stdio::null()).output().unwrap();
        let text = [help.stdout, help.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut names: Vec<&str> = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).filter(|word| word.len() > 3 && word.starts_with("--")).collect();
        names.sort_unstable();
        names.dedup();
        forms.extend(names.iter().flat_map(|name| [format!("{name} zap"), format!("{name}=zap")]).map(|option| probe.replace('@', &option)));
    }
    forms
}

/// Runs forms. Returns how many started the program, and which of these weren't noticed.
fn run_forms(forms: &[String]) -> (usize, Vec<String>) {
    let folder = TestFolder::new(&["zap"]);
    let started: Vec<&String> = forms.iter().filter(|form| !folder.run(form).is_empty()).collect();
    (started.len(), started.into_iter().filter(|form| !is_noticed(form)).cloned().collect())
}

/// Returns the forms in a reproducible order that mixes all programs.
fn shuffled(mut forms: Vec<String>) -> Vec<String> {
    let hash = |form: &String| form.bytes().fold(7u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    forms.sort_by_key(|form| hash(form));
    forms.dedup();
    forms
}

/// The program that has to be installed, and a command in which it starts others.
const COMMANDS: &str = include_str!("../../../testdata/real.txt");

#[test]
fn programs_start_nothing_that_was_not_found() {
    let folder = TestFolder::new(&["p1", "p2", "rm", "curl"]);
    let rows = COMMANDS.lines().filter_map(|line| line.split_once(": "));
    let rows: Vec<(&str, String)> = rows.map(|(program, line)| (program, line.replace('␤', "\n"))).collect();
    let (mut started, mut asked) = (0, 0);
    for (program, command) in rows.iter().filter(|(program, _)| is_installed(program)) {
        let found = analyse_command(command, &ShellDirectories::new("/repo"));
        let calls = folder.run(command);
        started += usize::from(!calls.is_empty());
        asked += usize::from(!found.doubts.is_empty());
        for call in calls.iter().filter(|_| found.doubts.is_empty()) {
            assert!(is_found(&found, call), "{program} started {call:?}, which wasn't found in:\n{command}\nfound: {:#?}", found.commands);
        }
    }
    assert!(started >= 10 || !is_installed("git"), "only {started} commands started something, so nothing was tested");
    assert!(asked * 2 < rows.len(), "{asked} of {} were not understood", rows.len());
    // Proves that the test can fail.
    if !is_installed("tar") {
        return;
    }
    let calls = folder.run("tar xf t.tar --to-command='rm x'");
    assert!(!calls.is_empty() && calls.iter().all(|call| call == &["rm", "x"]), "{calls:?}");
    assert!(!is_found(&analyse_command("tar xf t.tar", &ShellDirectories::new("/repo")), &calls[0]));
}

#[test]
fn forms_once_overlooked_are_noticed() {
    for form in ONCE_OVERLOOKED {
        assert!(is_noticed(form), "{form}");
    }
}

#[test]
fn what_starts_a_program_is_noticed() {
    let folder = TestFolder::new(&["zap"]);
    assert!(!folder.run("zap").is_empty() && folder.run("true").is_empty(), "the planted program can't be started");
    // The proof below runs all of them.
    let forms: Vec<String> = shuffled(generated_forms()).into_iter().take(SAMPLE).collect();
    let (started, overlooked) = run_forms(&forms);
    assert_eq!(overlooked, Vec::<String>::new(), "{started} started the program");
    assert!(started > 0 || !is_installed("git"), "none of {} forms started anything", forms.len());
}

#[test]
#[ignore = "prove"]
fn prove_that_no_option_of_a_program_starts_another_unnoticed() {
    for (what, forms) in [("made from the entries", generated_forms()), ("tried blindly", blind_forms())] {
        let (mut ran, mut started, mut overlooked) = (0, 0, Vec::new());
        for forms in shuffled(forms).chunks(1_000) {
            let part = run_forms(forms);
            (ran, started) = (ran + forms.len(), started + part.0);
            overlooked.extend(part.1);
            println!("{ran} forms {what}, {started} started the planted program, neither denied nor asked: {overlooked:?}");
        }
        println!("proof: {ran} forms {what}: {started} started the planted program, {} of these neither denied nor asked", overlooked.len());
        assert_eq!(overlooked, Vec::<String>::new());
    }
}
