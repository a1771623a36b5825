//! More knowledge never causes an ask: if a script of unknown effects runs without asking, so does every
//! command whose effects the script could have in the same sandbox.

use std::fs;
use std::sync::Arc;

use haft::decision::Verdict;
use haft_policy::gate::PolicyContext;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Session, rules, with};
use crate::room::Room;

/// Opens a session with a complete sandbox.
fn walled(mode: &'static str, settings: Value) -> Session {
    let room = Room::new();
    for name in [
        "work/a.txt",
        "work/b.txt",
        "work/src/c.rs",
        "work/src/d.pyc",
        "work/t.sh",
        "work/.venv/bin/activate",
    ] {
        room.write(name, "x\n");
    }
    with(settings).mode(mode).open_in(room, |setup| PolicyContext {
        confined: true,
        full_sandbox: Some(Arc::new(|| true)),
        no_sandbox: false,
        ..setup
    })
}

fn auto(settings: Value) -> Session {
    walled("auto", settings)
}

fn verdict(session: &Session, command: &str) -> (Verdict, String) {
    let report = session.explain("Bash", &json!({"command": command}));
    (report.verdict, report.reason)
}

/// Known and unknown paths in the workspace.
const PLACES: &[&str] = &[
    "a.txt",
    "src/c.rs",
    "new",
    "src/new",
    "./b.txt",
    "src",
    "$f",
    "\"$f\"",
    "*.txt",
    "src/*",
    "{a,b}.txt",
    "$(cat t)",
];
/// Commands in which `@` is a path.
const FORMS: &[&str] = &[
    "cat @",
    "touch @",
    "sed -i s/a/b/ @",
    "rm @",
    "rm -f @",
    "cp @ copy",
    "mv @ moved",
    "cp a.txt @",
    "mv b.txt @",
    "echo x > @",
    "echo x >> @",
    "tee @ < a.txt",
    "mkdir -p @",
    "chmod +x @",
    "ln -s @ link",
    "truncate -s 0 @",
    "sort -o @ a.txt",
    "find @ -name '*.pyc' -delete",
    "find @ -exec rm {} \\;",
    "xargs rm < @",
    "perl -pi -e s/a/b/ @",
    "dd of=@",
    "bash @",
    "python3 @",
    "sh -c 'rm @'",
    "f=a.txt; rm @",
    "for f in @; do wc -l \"$f\"; done",
    "if true; then rm @; fi",
    "(cd src && touch @)",
    "make @",
    "source .venv/bin/activate && pytest @",
    "python3 -c 'import sqlite3, pty' @",
    "timeout 5 rm @",
    "env X=1 touch @",
    "git add @",
    "tar xf @",
    "unzip @",
    "patch -p1 < @",
    "$tool @",
    "eval \"rm @\"",
    "f=$(mktemp) && echo 1 > $f",
    "PATH=. @",
    "while read -r f; do rm \"$f\"; done < @",
    "{ echo a; echo b; } > @",
    "cat @ | tee b.txt",
    "./t.sh @ && rm a.txt",
];

/// Generates commands of one to three parts.
fn commands() -> impl Strategy<Value = String> {
    let place = || prop::sample::select(PLACES);
    let part = (prop::sample::select(FORMS), place()).prop_map(|(form, place)| form.replace('@', place));
    let joined = (prop::collection::vec(part, 1..4), prop::sample::select(&[" && ", "; ", " || ", "\n"][..]));
    joined.prop_map(|(parts, join)| parts.join(join))
}

/// Returns whether a command may ask for this reason.
fn may_ask(reason: &str) -> bool {
    // A critical removal, or text that isn't a command.
    reason.contains("it removes `") || reason.contains("can't be parsed") || reason.contains("more than")
}

/// Returns sessions for every mode, with settings that let commands run.
fn sessions() -> Vec<(String, Session)> {
    let by_sandbox = json!({"sandbox": {"autoAllowBashIfSandboxed": true}});
    let settings = [json!({}), by_sandbox, rules("+Bash"), rules("+Bash(sh t.sh)")];
    let modes = ["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"];
    let all = modes.into_iter().flat_map(|mode| settings.iter().map(move |settings| (mode, settings)));
    all.map(|(mode, settings)| (format!("{mode} with {settings}"), walled(mode, settings.clone()))).collect()
}

/// Returns whether a script runs of which only the name is known. A rule for the script alone doesn't apply
/// to other commands.
fn runs_unknown(session: &Session) -> bool {
    verdict(session, "sh other.sh").0 == Verdict::Allow
}

#[test]
fn an_unknown_script_runs_where_the_sandbox_holds_it_or_a_rule_allows_everything() {
    let runs: Vec<String> =
        sessions().into_iter().filter(|(_, session)| runs_unknown(session)).map(|(name, _)| name).collect();
    let of = |mode: &str| runs.iter().filter(|name| name.starts_with(mode)).count();
    let counts = ["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"].map(of);
    assert_eq!(counts, [2, 2, 0, 4, 2, 4], "{runs:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_known_command_runs_where_an_unknown_script_does(commands in prop::collection::vec(commands(), 4)) {
        thread_local! {
            static SESSIONS: Vec<(String, Session)> =
                sessions().into_iter().filter(|(_, session)| runs_unknown(session)).collect();
        }
        SESSIONS.with(|sessions| {
            prop_assert!(sessions.len() > 10);
            for (name, session) in sessions {
                for command in &commands {
                    let (verdict, reason) = verdict(session, command);
                    prop_assert!(verdict == Verdict::Allow || may_ask(&reason), "{}: {}: {}", name, command, reason);
                }
            }
            Ok(())
        })?;
    }
}

/// Everyday commands that once asked although a script with the same text ran.
#[test]
fn everyday_work_runs_in_auto() {
    let session = auto(json!({}));
    for command in [
        "make",
        "sh t.sh",
        "touch f",
        "touch a.txt",
        "sed -i s/a/b/ a.txt",
        "rm a.txt",
        "rm -rf src",
        "find . -name '*.pyc' -delete",
        "f=$(mktemp) && echo 1 > $f",
        ". .venv/bin/activate && pytest",
        "python3 -c 'import sqlite3; print(sqlite3.connect(\"a.db\").execute(\"select 1\").fetchall())'",
        "python3 -c 'import pty; pty.spawn(\"ls\")'",
    ] {
        assert_eq!(
            verdict(&session, command).0,
            Verdict::Allow,
            "{command}: {}",
            verdict(&session, command).1
        );
    }
}

/// In a folder with more files than can be backed up, a command with a pattern runs as a script would. A
/// command that is known to affect all files asks.
#[test]
fn patterns_run_where_not_everything_can_be_kept() {
    let session = auto(json!({}));
    for number in 0..600 {
        session.room.write(&format!("work/many/{number}.txt"), "x");
    }
    for command in [
        "find . -name '*.pyc' -delete",
        "rm -f many/*.pyc",
        "sed -i s/a/b/ many/*.txt",
        "rm *.o",
        "touch many/*.txt",
        "mv many gone",
    ] {
        let (verdict, reason) = verdict(&session, command);
        assert_eq!(verdict, Verdict::Allow, "{command}: {reason}");
    }
    for command in ["rm -rf many", "rm -rf many/*", "rm many/*"] {
        let (verdict, reason) = verdict(&session, command);
        assert_eq!(verdict, Verdict::Ask, "{command}: {reason}");
    }
}

/// Restricted, critical and outside paths, and files that can't be backed up, still ask.
#[test]
fn what_a_script_may_not_do_asks() {
    let check = |settings: Value, command: &str, expected: Verdict| {
        let session = auto(settings);
        let large = fs::File::create(session.room.at("work/large")).unwrap();
        large.set_len(1 << 30).unwrap();
        let (verdict, reason) = verdict(&session, command);
        assert_eq!(verdict, expected, "{command}: {reason}");
    };
    for command in
        ["rm -rf .", "rm -rf \"$x\"/*", "rm large", "echo x > large", "rm -rf ~", "cp a.txt /etc/x"]
    {
        check(json!({}), command, Verdict::Ask);
    }
    check(json!({}), "curl https://x.io", Verdict::Ask);
    check(rules("-Bash(rm *)"), "rm a.txt", Verdict::Deny);
    check(rules("-Bash(rm *)"), "$x a.txt", Verdict::Ask);
    check(rules("?Bash(rm *)"), "rm a.txt", Verdict::Ask);
    check(rules("?Edit(a.txt)"), "rm a.txt", Verdict::Ask);
}

/// A mode that leaves out a rule says so, in the prompt and in a check.
#[test]
fn a_mode_says_which_rules_it_leaves_out() {
    let ask = |settings: Value| {
        let session = auto(settings);
        fs::File::create(session.room.at("work/large")).unwrap().set_len(1 << 30).unwrap();
        session.explain("Bash", &json!({"command": "rm large"}))
    };
    let report = ask(rules("+Bash; +Bash(npm test)"));
    assert_eq!(report.verdict, Verdict::Ask);
    let told = "`Bash` (";
    let why = "doesn't count, as mode `auto` leaves out rules that allow any program";
    assert!(report.reason.contains(told) && report.reason.contains(why), "{}", report.reason);
    let other = report.other_rules.iter().find(|other| other.rule.text == "Bash").unwrap();
    assert_eq!(other.why, "mode `auto` leaves out rules that allow any program");
    // If nothing is left out, nothing is said.
    let other = ask(rules("+Bash(npm test)"));
    assert!(!other.reason.contains("leaves out"), "{}", other.reason);
}

/// Everyday commands in every mode: a command that runs in a mode runs in each looser one, and `plan` runs
/// what `default` does.
#[test]
fn everyday_commands_run_in_every_looser_mode() {
    let corpus = include_str!("../../../../haft-shell/testdata/everyday.txt");
    let modes = ["plan", "default", "acceptEdits", "auto", "bypassPermissions"];
    let sessions = modes.map(|mode| walled(mode, json!({})));
    let mut counts = [0; 5];
    for line in corpus.lines() {
        let command = line[2..].replace("\\n", "\n");
        let runs = [0, 1, 2, 3, 4].map(|at| verdict(&sessions[at], &command).0 == Verdict::Allow);
        assert!(runs.is_sorted() && runs[0] == runs[1], "{command}: {modes:?} {runs:?}");
        counts.iter_mut().zip(runs).for_each(|(count, runs)| *count += usize::from(runs));
    }
    let all = corpus.lines().count();
    eprintln!("of {all} everyday commands these run unasked in {modes:?}: {counts:?}");
    assert!(all >= 500 && counts[3] * 100 >= all * 95, "{counts:?}");
}
