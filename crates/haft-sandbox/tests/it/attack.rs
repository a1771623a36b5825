//! Attacks on the user's next git, as tables of steps. Every attempt has its control: outside of the sandbox
//! it works.
//!
//! An attempt is a name on a line of its own, and below it one step a line; what stands above the first name
//! belongs to all of them, `user` at the beginning and everything else at the end.
//!
//! | step | meaning |
//! |---|---|
//! | `in` | the attempt is made once for each of these words, which stand for `FOLDER` |
//! | `writable` | a folder beside the working directory that settings let commands write |
//! | `user` | a script of the user, outside of the sandbox |
//! | `run` | a command that may write configurations; it ends well |
//! | `try`, `data` | the same, and a command that may not write configurations; it may fail |
//! | `session` | what follows runs in another session |
//! | `then` | what the user does at the end: this runs the planted program, but not after the sandbox |
//! | `says`, `silent` | words that the commands or what was refused do and don't contain |
//! | `good`, `free` | what commands do in the sandbox afterwards: it ends well and nothing is refused; `free` as `run` |
//! | `bad` | what fails there |

use std::fs;
use std::process::{Command, Output};

use haft::ports::{ProcessExit, ProtectionLevel};

use crate::appears;
use crate::profile::{GIT_TEMPLATE, Session, User, configuration};

/// What scripts may use. A planted program makes the file `$RAN`.
const WORDS: &str = r#"
poison() { printf '[core]\n\tfsmonitor = touch %s; false\n' $RAN; }
programs() { printf '[core]\n\tpager = touch %s; cat\n\tfsmonitor = touch %s; false\n[alias]\n\tst = !touch %s\n' $RAN $RAN $RAN; }
hook() { for at in "$@"; do printf '#!/bin/sh\ntouch %s\n' $RAN > $at; chmod +x $at; done; }
make() { mkdir -p $1 && git init -q $1 && echo z > $1/z && git -C $1 add z && git -C $1 commit -qm i; }
by_hand() { mkdir -p $1/refs $1/objects && echo ref: refs/heads/main > $1/HEAD && programs > $1/config; }
lib() { git init -q $ROOT/lib; git -C $ROOT/lib commit -qm i --allow-empty; git config protocol.file.allow always
    git config --global protocol.file.allow always; git submodule -q add $ROOT/lib p/lib; git commit -qm s; }
enter() { for at in "$@"; do git -C $at status; git -C $at checkout -q -b zz; done; }
enter_bare() { mkdir -p $1/below; for at in $1 $1/below; do
    for run in "git status" "git st" "git diff" "python3 -c __import__('pty').spawn(['git','branch','-a'])"; do
        (cd $at; $run); test -e $RAN && return; done; done; }
"#;

const STEPS: [&str; 13] = [
    "free", "in", "writable", "user", "run", "try", "data", "session", "then", "says", "silent", "good",
    "bad",
];

struct Attempt<'t> {
    name: &'t str,
    folders: Vec<&'t str>,
    steps: Vec<(&'t str, &'t str)>,
}

fn parse(table: &str) -> Vec<Attempt<'_>> {
    let (mut attempts, mut first, mut last): (Vec<Attempt<'_>>, Vec<_>, Vec<_>) = Default::default();
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let step = line.split_once(':').filter(|(step, _)| STEPS.contains(step));
        let step = step.map(|(step, script)| (step, script.trim()));
        match (step, attempts.last_mut()) {
            (Some(("in", folders)), Some(attempt)) => attempt.folders = folders.split(' ').collect(),
            (Some(step), Some(attempt)) => attempt.steps.push(step),
            (Some(step @ ("user", _)), None) => first.push(step),
            (Some(step), None) => last.push(step),
            (None, _) => attempts.push(Attempt { name: line, folders: vec![""], steps: first.clone() }),
        }
    }
    attempts.iter_mut().for_each(|attempt| attempt.steps.extend(&last));
    attempts
}

/// A script with what it may use.
pub(crate) fn with_words(user: &User, script: &str) -> String {
    format!("RAN={}; ROOT={};{WORDS}{script}", user.at("ran").display(), user.root.display())
}

/// Runs a script as the user does.
pub(crate) fn outside(user: &User, script: &str) -> Output {
    let mut command = Command::new("bash");
    for (name, value) in
        [("AUTHOR_NAME", "a"), ("AUTHOR_EMAIL", "a@b"), ("COMMITTER_NAME", "a"), ("COMMITTER_EMAIL", "a@b")]
    {
        command.env(format!("GIT_{name}"), value);
    }
    command.args(["-c", &with_words(user, script)]).current_dir(user.at("work")).env("HOME", user.at("home"));
    command.env("GIT_TEMPLATE_DIR", GIT_TEMPLATE).env("TERM", "xterm");
    command.env_remove("GIT_PAGER").env_remove("PAGER").env_remove("XDG_CONFIG_HOME").output().unwrap()
}

/// Makes every attempt of a table outside of the sandbox, where it works, and in it.
pub(crate) async fn attack(table: &str) {
    for attempt in parse(table) {
        for folder in &attempt.folders {
            play_outside(&attempt, folder);
            play_inside(&attempt, folder).await;
        }
    }
}

fn play_outside(attempt: &Attempt<'_>, folder: &str) {
    let user = User::unconfined();
    for (step, script) in &attempt.steps {
        let script = script.replace("FOLDER", folder);
        match *step {
            "writable" => fs::create_dir_all(user.at(&script)).unwrap(),
            "user" | "run" | "try" | "data" => drop(outside(&user, &script)),
            "then" => {
                let _ = fs::remove_file(user.at("ran"));
                let done = outside(&user, &script);
                assert!(user.at("ran").exists(), "{}: it doesn't even work outside: {done:?}", attempt.name);
            }
            _ => {}
        }
    }
}

async fn play_inside(attempt: &Attempt<'_>, folder: &str) {
    let mut user = User::new();
    for (_, at) in attempt.steps.iter().filter(|(step, _)| *step == "writable") {
        fs::create_dir_all(user.at(at)).unwrap();
        user.config.allow_write.push(user.at(at));
    }
    let name = attempt.name;
    let mut session: Option<Session<'_>> = None;
    let mut reported = String::new();
    for (step, script) in &attempt.steps {
        let script = script.replace("FOLDER", folder);
        match *step {
            "user" => drop(outside(&user, &script)),
            "session" => session = None,
            "run" | "try" | "data" => {
                let session = session.get_or_insert_with(|| user.session());
                let mut request = session.request(&with_words(&user, &script));
                if *step != "data" {
                    request = request.with_protection(configuration());
                }
                let (exit, printed, refused) = session.run(request).await;
                reported.push_str(&format!("{printed} {refused:?}"));
                assert!(
                    *step != "run" || exit == ProcessExit::Code(0),
                    "{name} {folder}: `{script}`: {reported}"
                );
            }
            "then" => {
                assert!(!user.at("ran").exists(), "{name} {folder}: {reported}");
                outside(&user, &script);
                assert!(!user.at("ran").exists(), "{name} {folder}: {reported}");
            }
            "says" => assert!(reported.contains(&script), "{name} {folder}: no `{script}`: {reported}"),
            "silent" => assert!(!reported.contains(&script), "{name} {folder}: `{script}`: {reported}"),
            "free" => {
                let session = session.as_ref().unwrap();
                let (exit, said, refused) =
                    session.run(session.request(&script).with_protection(configuration())).await;
                assert_eq!((exit, refused), (ProcessExit::Code(0), vec![]), "{name} {folder}: {said}");
            }
            "good" => drop(session.as_ref().unwrap().good(&with_words(&user, &script)).await),
            "bad" => drop(session.as_ref().unwrap().bad(&with_words(&user, &script)).await),
            _ => {}
        }
    }
}

/// Lets a session run a command at this level, and leaves its records as if it had been killed meanwhile.
pub(crate) async fn kill_session(user: &User, level: ProtectionLevel) {
    let session = user.session();
    let (records, copies) = (user.at("state/caches/git-configs"), user.at("copies"));
    let wait = session.request("touch here; until [ -e go ]; do sleep 0.01; done; rm here go");
    let meanwhile = async {
        appears(user.at("work/here")).await;
        assert!(Command::new("cp").arg("-r").arg(&records).arg(&copies).status().unwrap().success());
        fs::write(user.at("work/go"), "").unwrap();
    };
    let ((exit, said, refused), ()) = tokio::join!(session.run(wait.with_protection(level)), meanwhile);
    assert_eq!((exit, refused), (ProcessExit::Code(0), vec![]), "{said}");
    drop(session);
    // What nobody holds is what a killed session has left.
    fs::remove_dir_all(&records).unwrap();
    fs::rename(copies, records).unwrap();
}
