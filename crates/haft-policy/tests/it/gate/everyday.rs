//! How often everyday commands ask, counted over a list of them.

use std::sync::Arc;

use haft_policy::gate::Setup;
use serde_json::json;

use super::with;
use crate::room::Room;

const COMMANDS: &str = include_str!("../../../../haft-shell/testdata/everyday.txt");

/// How many of the commands ask or are denied in a mode.
fn stopped(mode: &'static str) -> Vec<String> {
    let session = with(json!({})).mode(mode).open_in(Room::new(), |setup| Setup {
        confined: true,
        full_sandbox: Some(Arc::new(|| true)),
        no_sandbox: false,
        ..setup
    });
    let commands = COMMANDS.lines().map(|line| line.replace("\\n", "\n"));
    let runs = |command: &String| {
        session.explain("Bash", &json!({"command": command})).verdict == haft::decision::Verdict::Allow
    };
    commands.filter(|command| !runs(command)).collect()
}

#[test]
fn everyday_commands_that_only_look_run_by_themselves() {
    let asked = stopped("default");
    for command in [
        "find . -name '*.rs' -exec wc -l {} +",
        "find . -name '*.rs' | xargs grep -n unwrap",
        "for f in *.md; do wc -l \"$f\"; done",
        "X=1; echo $X",
        "bash -c 'ls'",
        "tar tzf archive.tar.gz",
        "unzip -l archive.zip",
        "git reflog",
        "nm target/debug/app",
    ] {
        assert!(
            COMMANDS.lines().any(|line| line == command) && !asked.iter().any(|other| other == command),
            "{command}"
        );
    }
    eprintln!("{} of {} ask in `default`", asked.len(), COMMANDS.lines().count());
    assert!(asked.len() <= 300, "{} ask: {asked:#?}", asked.len());
}

#[test]
fn in_auto_few_everyday_commands_ask() {
    let asked = stopped("auto");
    for command in ["PYTHONPATH=. pytest", "source .venv/bin/activate && pytest"] {
        assert!(
            COMMANDS.lines().any(|line| line == command) && !asked.iter().any(|other| other == command),
            "{command}"
        );
    }
    eprintln!("{} of {} ask in `auto`", asked.len(), COMMANDS.lines().count());
    assert!(asked.len() <= 33, "{} ask: {asked:#?}", asked.len());
}
