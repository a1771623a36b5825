//! Real programs that start others: what they start must have been found, or the command must not have been understood.
//!
//! Like [`crate::bash`], but `git`, `tar`, `sed`, `sort`, `find` and the like are the real ones, each with stand-ins for
//! what they are told to run. Stand-ins write down how they were called. Programs that aren't installed are left out, and
//! the test says how many commands started something.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use haft_shell::{Place, Word, analyse};

use crate::table::read;

/// What is told to be run.
const STUBS: &[&str] = &["p1", "p2", "rm", "curl"];

/// A folder with the stand-ins in front of the usual programs, and something to work on.
struct World {
    dir: tempfile::TempDir,
}

fn installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).exists())
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let log = dir.path().join("log");
        let stub = format!(
            "#!/usr/bin/env -S bash -p\nprintf -v call '%s\\037' \"${{0##*/}}\" \"$@\"\nprintf '%s\\036' \"$call\" >> {log}\n",
            log = log.display()
        );
        for name in STUBS {
            fs::write(bin.join(name), &stub).unwrap();
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        World { dir }
    }

    fn path(&self) -> std::ffi::OsString {
        let mut folders: Vec<PathBuf> = vec![self.dir.path().join("bin")];
        folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        std::env::join_paths(folders).unwrap()
    }

    /// Runs a command in a fresh folder with a repository, a few files and an archive. Returns what was started.
    fn run(&self, command: &str) -> Vec<Vec<String>> {
        let work = self.dir.path().join("work");
        let made = self.dir.path().join("made");
        let _ = fs::remove_dir_all(&work);
        fs::create_dir_all(&work).unwrap();
        let sh = |text: &str| {
            Command::new("timeout")
                .args(["-s", "KILL", "60", "bash", "--norc", "--noprofile", "-c", text])
                .env_clear()
                .env("PATH", self.path())
                .env("HOME", self.dir.path())
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_AUTHOR_NAME", "x")
                .env("GIT_AUTHOR_EMAIL", "x@x")
                .env("GIT_COMMITTER_NAME", "x")
                .env("GIT_COMMITTER_EMAIL", "x@x")
                .current_dir(&work)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap()
        };
        // Made once, and copied for each.
        if !made.exists() {
            fs::create_dir_all(work.join("d")).unwrap();
            for name in ["a", "b", "d/c"] {
                fs::write(work.join(name), "one\ntwo\n").unwrap();
            }
            sh(
                "tar cf t.tar a b; git init -q --template= .; git add a b; git commit -qm 1; echo 3 >> a; git commit -qam 2",
            );
            sh("cp -a . ../made");
        }
        let copied = Command::new("cp").args(["-a", "../made/.", "."]).current_dir(&work).status().unwrap();
        assert!(copied.success());
        let _ = fs::remove_file(self.dir.path().join("log"));
        sh(command);
        let log = fs::read(self.dir.path().join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let calls = log.split('\u{1e}').filter(|call| !call.is_empty());
        calls
            .map(|call| call.trim_end_matches('\u{1f}').split('\u{1f}').map(str::to_owned).collect())
            .collect()
    }
}

/// Whether words fit arguments: known ones exactly, others anything, also none or several.
fn fits(words: &[Word], arguments: &[String]) -> bool {
    match words.split_first() {
        None => arguments.is_empty(),
        Some((Word::Literal(text), rest)) => arguments.split_first().is_some_and(|(first, others)| {
            first.rsplit('/').next() == text.rsplit('/').next() && fits(rest, others)
        }),
        Some((Word::Dynamic(_), rest)) => (0..=arguments.len()).any(|taken| fits(rest, &arguments[taken..])),
    }
}

/// The program that must be installed, and a command.
const COMMANDS: &str = include_str!("../../testdata/real.txt");

#[test]
fn programs_start_nothing_that_was_not_found() {
    let world = World::new();
    let (mut started, mut asked) = (0, 0);
    let rows: Vec<(&str, String)> = COMMANDS
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, line)| (name, read(line)))
        .collect();
    for (program, command) in rows.iter().filter(|(program, _)| installed(program)) {
        let found = analyse(command, &Place::new("/repo"));
        let calls = world.run(command);
        started += usize::from(!calls.is_empty());
        if !found.doubts.is_empty() {
            asked += 1;
            continue;
        }
        for call in &calls {
            let layers = found.commands.iter().flat_map(|command| &command.layers);
            let held = layers.into_iter().any(|layer| fits(&layer.argv, call));
            assert!(
                held,
                "{program} started {call:?}, which wasn't found in:\n{command}\nfound: {:#?}",
                found.commands.iter().map(|command| &command.text).collect::<Vec<_>>()
            );
        }
    }
    eprintln!("{} commands, {started} started something, {asked} were not understood", rows.len());
    assert!(
        started >= 10 || !installed("git"),
        "only {started} commands started something, so nothing was tested"
    );
    assert!(asked * 2 < rows.len(), "{asked} of {} were not understood", rows.len());
}

/// The test must be able to fail.
#[test]
fn a_program_that_was_not_found_is_noticed() {
    if !installed("tar") {
        return;
    }
    let calls = World::new().run("tar xf t.tar --to-command='rm x'");
    assert!(calls.contains(&vec!["rm".to_owned(), "x".to_owned()]), "{calls:?}");
    let other = analyse("tar xf t.tar", &Place::new("/repo"));
    assert!(!other.commands.iter().flat_map(|one| &one.layers).any(|layer| fits(&layer.argv, &calls[0])));
}
