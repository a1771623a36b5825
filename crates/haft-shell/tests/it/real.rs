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

const COMMANDS: &[(&str, &str)] = &[
    ("git", "git -c alias.x='!rm a' x"),
    ("git", "git -c alias.x='!p1' x b c"),
    ("git", "git -c alias.x='!rm a; p1 b' x"),
    ("git", "git -c core.pager=p1 -p log"),
    ("git", "git -c core.pager='rm a' --paginate log"),
    ("git", "git -c pager.log=p1 --paginate log"),
    ("git", "git -c core.editor=p1 commit --allow-empty --amend"),
    ("git", "git -c diff.external=p1 diff HEAD~1"),
    ("git", "git -c core.fsmonitor=p1 status"),
    ("git", "git -c core.sshCommand=p1 fetch ssh://x.invalid/y"),
    ("git", "git -c credential.helper='!p1' credential fill"),
    ("git", "git rebase -q --exec 'rm a' HEAD~1"),
    ("git", "git rebase -q -x p1 HEAD~1"),
    ("git", "git difftool -y -x p1 HEAD~1"),
    ("git", "git clone -u p1 ./ e"),
    ("git", "git clone --upload-pack='rm a' ./ e"),
    ("git", "git ls-remote --upload-pack=p1 ."),
    ("git", "git fetch --upload-pack p1 ."),
    ("git", "git push --receive-pack=p1 . HEAD:x"),
    ("git", "git -c protocol.ext.allow=always ls-remote 'ext::p1 x'"),
    ("git", "git grep -Op1 one"),
    ("git", "git config alias.y '!rm a' && git y"),
    ("git", "git -c core.hooksPath=d commit --allow-empty -m x"),
    ("git", "git bisect start HEAD HEAD~1; git bisect run rm a"),
    ("tar", "tar xf t.tar --to-command='rm x'"),
    ("tar", "tar xf t.tar --to-command=p1"),
    ("tar", "tar --checkpoint=1 --checkpoint-action=exec='rm x' -cf u.tar a"),
    ("tar", "tar -I p1 -cf u.tar a"),
    ("tar", "tar --use-compress-program='p1 x' -cf u.tar a"),
    ("tar", "tar cfI u.tar p1 a"),
    ("tar", "tar --rsh-command=p1 -cf h:u.tar a"),
    ("tar", "tar cf u.tar --use-comp=p1 a"),
    ("sed", "sed '1e rm x' a"),
    ("sed", "sed 's/.*/rm x/e' a"),
    ("sed", "sed -n -e p -e '$e p1' a"),
    ("sed", "sed '1{e p1 y\n}' a"),
    ("sort", "yes | head -n 400000 | sort -S 1k --compress-program=p1"),
    ("sort", "yes | head -n 400000 | sort -S 1k --compress-p p1"),
    ("split", "split -l 1 --filter='rm x' a"),
    ("split", "split -l 1 --filter=p1 a"),
    ("find", "find . -name a -exec rm {} +"),
    ("find", "find . -name a -exec p1 x{}y \\; -execdir p2 \\;"),
    ("awk", "awk 'BEGIN{system(\"rm x\")}'"),
    ("awk", "awk '{print | \"p1 x\"}' a"),
    ("awk", "awk '{\"p1 x\" | getline y}' a"),
    ("perl", "perl -e 'system(\"rm x\")'"),
    ("perl", "perl -e '`p1 x`'"),
    ("perl", "perl -e 'open(F, \"p1 x|\"); <F>'"),
    ("python3", "python3 -c 'import os; os.system(\"rm x\")'"),
    ("python3", "python3 -c 'import subprocess; subprocess.run([\"rm\", \"x\"])'"),
    ("python3", "python3 - <<'E'\nimport os\nos.system('rm x')\nE"),
    ("python3", "python3 /dev/stdin <<< 'import os;os.system(\"rm x\")'"),
    ("python3", "python3 <(echo 'import os;os.system(\"rm x\")')"),
    ("awk", "awk -f- <<< 'BEGIN{system(\"rm x\")}'"),
    ("awk", "awk -f - <<< 'BEGIN{system(\"p1 x\")}'"),
    ("awk", "awk -f /dev/stdin <<< 'BEGIN{system(\"rm x\")}'"),
    ("mawk", "mawk -f/proc/self/fd/0 <<< 'BEGIN{system(\"rm x\")}'"),
    ("sed", "sed -f- a <<< '1e rm x'"),
    ("sed", "sed -n --file=/dev/stdin a <<< '1e p1 x'"),
    ("make", "make -f /dev/stdin <<< 'q:;rm x'"),
    ("make", "make -f- <<< 'q:;p1 x'"),
    ("perl", "perl /dev/stdin <<< 'system(\"rm x\")'"),
    ("ed", "ed -s a <<< '!rm x'"),
    ("ed", "ed -s a <<< 'r !p1 x'"),
    ("ex", "ex -s a <<< '!rm x'"),
    ("dc", "dc -e '!rm x'"),
    ("dc", "dc <<< '!p1 x'"),
    ("m4", "m4 <<< 'syscmd(rm x)'"),
    ("bash", "compgen -W '$(rm x)'"),
    ("bash", "compgen -W '`p1 x`' -- q"),
    ("bash", "bash /proc/self/fd/0 <<< 'rm x'"),
    ("zip", "zip -q z.zip a; zip -q -T -TT'rm x' z.zip b"),
    ("gcc", "gcc -wrapper rm,x -c a.c; echo 'int x;' > a.c; gcc -wrapper p1 -c a.c"),
    ("cmake", "cmake -E env A=1 rm x"),
    ("cmake", "cmake -E time p1 x"),
    ("man", "man -Hp1 ls"),
    ("install", "printf '#!/bin/sh\\n' > s; install -s --strip-program=p1 s t"),
    ("sdiff", "sdiff --diff-program=p1 a b"),
    ("git", "\"$(git --exec-path)/git\" -c alias.x='!p1' x"),
    ("node", "node -e 'require(\"child_process\").execSync(\"rm x\")'"),
    ("make", "make -f /dev/null --eval='x:;rm x' x"),
    ("make", "printf 'x:\\n\\techo 1;\\n' > m; make -f m SHELL=p1 x"),
    ("vim", "vim -es -c '!rm x' -c q a"),
    ("less", "less '+!rm x' a"),
    ("man", "man -P p1 ls"),
    ("zip", "zip -q z.zip a; zip -q -T -TT 'rm x' z.zip b"),
    ("sqlite3", "sqlite3 :memory: '.shell rm x'"),
    ("sqlite3", "sqlite3 :memory: '.sys rm x'"),
    ("gdb", "gdb -batch -ex 'shell rm x'"),
    ("gdb", "gdb -batch -ex '!p1 x'"),
    ("strace", "strace -o l rm x"),
    ("script", "script -qec 'rm x' l"),
    ("unshare", "unshare -r rm x"),
    ("prlimit", "prlimit --nofile=100 rm x"),
    ("chrt", "chrt -o 0 rm x"),
    ("taskset", "taskset -c 0 rm x"),
    ("setpriv", "setpriv --nnp rm x"),
    ("runuser", "runuser -u root -- rm x"),
    ("su", "su -c 'rm x' -p root"),
    ("capsh", "capsh -- -c 'rm x'"),
    ("watch", "watch -n 0.1 -g 'rm x'"),
    ("env", "env -S 'rm x' y"),
    ("ssh", "ssh -o BatchMode=yes -o ProxyCommand='rm x' h.invalid ls"),
    ("scp", "scp -S p1 a h.invalid:b"),
    ("perl", "perl -pe 's/a/b/' a; rm x"),
    ("git", "cd d && git -C .. -c alias.x='!p1' x"),
    ("tar", "touch -- '--checkpoint=1' '--checkpoint-action=exec=rm x'; tar cf u.tar -- *"),
];

#[test]
fn programs_start_nothing_that_was_not_found() {
    let world = World::new();
    let (mut started, mut asked) = (0, 0);
    for (program, command) in COMMANDS.iter().filter(|(program, _)| installed(program)) {
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
    eprintln!("{} commands, {started} started something, {asked} were not understood", COMMANDS.len());
    assert!(
        started >= 10 || !installed("git"),
        "only {started} commands started something, so nothing was tested"
    );
    assert!(asked * 2 < COMMANDS.len(), "{asked} of {} were not understood", COMMANDS.len());
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
