//! Classifiers that decide before the user: the built-in one, and a program that receives the call as JSON.

use std::sync::Arc;

use haft::testing::ScriptedProcesses;
use serde_json::{Value, json};

use super::{Session, rules, with};
use crate::room::Room;

fn session(mut settings: Value, mode: &'static str, processes: &ScriptedProcesses) -> Session {
    settings["classifier"] = json!({"command": ["judge", "--fast"], "timeoutMs": 500});
    let processes = processes.clone();
    with(settings).mode(mode).open_in(Room::new(), |setup| haft_policy::gate::PolicyContext {
        processes: Some(Arc::new(processes)),
        ..setup
    })
}

#[tokio::test]
async fn a_program_decides_in_the_users_place() {
    let processes = ScriptedProcesses::new()
        .prints(r#"{"decision": "allow"}"#)
        .prints(r#"{"decision": "deny", "reason": "not on a Friday"}"#)
        .prints(r#"{"decision": "ask", "reason": "looks odd"}"#);
    let session = session(json!({}), "default", &processes);
    let make = || session.call("Bash", json!({"command": "make"}));
    assert!(make().await.error().is_none());
    let denied = make().await;
    let words = denied.error().unwrap().message();
    assert!(words.contains("classifier `judge`: not on a Friday"), "{words}");
    assert!(session.user.asked().is_empty());
    make().await;
    assert!(session.user.asked()[0].reason().contains("looks odd"));

    let given: Value = serde_json::from_slice(&processes.requests()[0].stdin).unwrap();
    assert_eq!(given["tool_name"], "Bash");
    assert_eq!(given["tool_input"], json!({"command": "make"}));
    assert_eq!(given["permission_mode"], "default");
    assert_eq!(given["commands"], json!(["make"]));
    assert_eq!(processes.requests()[0].argv, ["judge", "--fast"]);
}

#[tokio::test]
async fn every_failure_asks() {
    let failing = [
        ScriptedProcesses::new().exits(1, "no"),
        ScriptedProcesses::new().prints("yes, go on"),
        ScriptedProcesses::new().prints(r#"{"decision": "sure"}"#),
        ScriptedProcesses::new().prints(""),
        ScriptedProcesses::new().refuses("there is no such program"),
    ];
    for processes in failing {
        let session = session(json!({}), "auto", &processes);
        session.call("Bash", json!({"command": "make"})).await;
        let asked = session.user.asked();
        assert_eq!(asked.len(), 1);
        assert!(asked[0].reason().contains("classifier `judge` failed"), "{}", asked[0].reason());
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever() {
    let session = session(json!({}), "auto", &ScriptedProcesses::new().hangs());
    session.call("Bash", json!({"command": "make"})).await;
    assert_eq!(session.user.asked().len(), 1);
}

/// Calls that rules ask for, critical removals and asks of the plan mode are left to the user.
#[tokio::test]
async fn some_questions_are_the_users() {
    let settings = rules("?Bash(git push *)");
    for (mode, command) in [
        ("auto", "git push"),
        ("auto", "rm -rf /"),
        ("default", "rm -rf ~"),
        ("bypassPermissions", "git push"),
    ] {
        let processes = ScriptedProcesses::new().prints(r#"{"decision": "allow"}"#);
        let session = session(settings.clone(), mode, &processes);
        session.call("Bash", json!({"command": command})).await;
        assert_eq!(session.user.asked().len(), 1, "{mode} {command}");
        assert!(processes.requests().is_empty(), "{mode} {command}");
    }
    let processes = ScriptedProcesses::new().prints(r#"{"decision": "allow"}"#);
    let planning = session(json!({}), "plan", &processes);
    planning.call("WebFetch", json!({"url": "https://x.io"})).await;
    assert!(planning.user.asked().len() == 1 && processes.requests().is_empty());
    // The classifier isn't consulted if nothing asks, and a denial stays one.
    let processes = ScriptedProcesses::new().prints(r#"{"decision": "allow"}"#);
    let session = session(rules("-Bash(curl *)"), "auto", &processes);
    session.call("Bash", json!({"command": "curl x.io"})).await;
    session.call("Read", json!({"file_path": "a.txt"})).await;
    assert!(processes.requests().is_empty() && session.user.asked().is_empty());
}

#[tokio::test]
async fn dont_ask_asks_nobody_at_all() {
    let processes = ScriptedProcesses::new().prints(r#"{"decision": "allow"}"#);
    let session = session(json!({}), "dontAsk", &processes);
    assert!(session.call("Bash", json!({"command": "make"})).await.error().is_some());
    assert!(processes.requests().is_empty());
}

/// If the host doesn't describe its sandbox, denied files may be accessible to commands.
#[tokio::test]
async fn a_sandbox_of_which_nothing_is_said_hides_nothing() {
    for (given, asks) in [(rules("-Read(**/.env)"), true), (json!({}), false)] {
        let session = with(given).open_in(Room::new(), |setup| haft_policy::gate::PolicyContext {
            confined: true,
            ..haft_policy::gate::PolicyContext::new(setup.places, setup.workspace)
        });
        session.call("Bash", json!({"command": "ls src"})).await;
        assert_eq!(!session.user.asked().is_empty(), asks);
    }
}

/// If the host starts no processes, the built-in classifier doesn't replace the user's.
#[tokio::test]
async fn a_classifier_that_can_not_be_started_asks() {
    let settings = json!({"classifier": {"command": ["judge"]}});
    let session = with(settings).open();
    session.call("Bash", json!({"command": "make"})).await;
    let asked = session.user.asked();
    assert!(asked[0].reason().contains("`judge` can't be started"), "{}", asked[0].reason());
}

#[tokio::test]
async fn the_careful_one_lets_through_what_stays_inside() {
    let confined =
        with(json!({})).mode("auto").open_in(Room::new(), |setup| haft_policy::gate::PolicyContext {
            confined: true,
            full_sandbox: Some(std::sync::Arc::new(|| true)),
            no_sandbox: false,
            ..setup
        });
    let partly =
        with(json!({})).mode("auto").open_in(Room::new(), |setup| haft_policy::gate::PolicyContext {
            confined: true,
            full_sandbox: Some(std::sync::Arc::new(|| false)),
            no_sandbox: false,
            ..setup
        });
    for (command, asks) in [
        ("make", false),
        ("make > new.log", false),
        // Existing files are backed up first.
        ("make > a.txt", false),
        ("rm -r src", false),
        ("rm -r .", true),
        ("curl https://x.io", true),
        ("cat /etc/passwd", true),
        ("touch /tmp/x", true),
        // A script could do the same.
        ("$X y", false),
        ("touch .git/config", true),
    ] {
        let before = confined.user.asked().len();
        confined.call("Bash", json!({"command": command})).await;
        assert_eq!(confined.user.asked().len() > before, asks, "{command}");
        // A partial sandbox is not enough, except for read-only commands.
        let before = partly.user.asked().len();
        partly.call("Bash", json!({"command": command})).await;
        assert!(partly.user.asked().len() > before, "{command}");
    }
}

/// If the sandbox could not visit everything, denied files may be accessible to commands. Then commands
/// that no rule allows ask, in every mode. Without deny rules for files nothing changes, and the sandbox
/// isn't queried.
#[tokio::test]
async fn a_sandbox_that_misses_something_lets_no_command_run_unasked() {
    use haft_policy::gate::{CoverageGap, SandboxCoverage};
    let misses = |rules: serde_json::Value, mode: &'static str, misses: CoverageGap| {
        with(rules).mode(mode).open_in(Room::new(), move |setup| haft_policy::gate::PolicyContext {
            confined: true,
            full_sandbox: Some(std::sync::Arc::new(move || misses != CoverageGap::Anything)),
            coverage: SandboxCoverage::new(move || misses),
            no_sandbox: false,
            ..setup
        })
    };
    let denied = || rules("-Read(**/.env)");
    let allowed =
        || json!({"permissions": {"deny": ["Read(**/.env)"], "allow": ["Bash(ls *)", "Bash(cat *)"]}});
    for (given, mode, command, asks) in [
        (denied(), "default", "ls src", true),
        (denied(), "acceptEdits", "ls src", true),
        (denied(), "auto", "ls src", true),
        (denied(), "bypassPermissions", "ls src", false),
        (allowed(), "default", "ls src", false),
        // It may be `.env`, and nothing hides that file any more.
        (allowed(), "default", "cat $X", true),
        // The effects of a program without an entry: a rule has to name it.
        (rules("-Read(**/.env);+Bash"), "default", "make", true),
        (rules("-Read(**/.env);+Bash"), "default", "touch new", false),
        (rules("-Read(**/.env);+Bash"), "bypassPermissions", "make", false),
        (rules("-Read(**/.env);+Bash(make)"), "default", "make", false),
        (
            json!({"permissions": {"deny": ["Read(**/.env)"], "allow": ["Bash(make *)"]}}),
            "default",
            "make x",
            false,
        ),
        (rules("+Bash"), "default", "make", false),
        (json!({}), "default", "ls src", false),
    ] {
        let session = misses(given.clone(), mode, CoverageGap::Anything);
        session.call("Bash", json!({"command": command})).await;
        assert_eq!(!session.user.asked().is_empty(), asks, "{given} {mode} {command}");
        let whole = misses(given, mode, CoverageGap::Nothing);
        whole.call("Bash", json!({"command": command})).await;
        assert!(whole.user.asked().is_empty(), "{mode} {command}");
    }
    // If only files outside of the working directories may be accessible, commands that are known to stay
    // inside run.
    for (given, mode, command, asks) in [
        (rules("-Read(//**/tok)"), "default", "ls src", false),
        (rules("-Read(//**/tok)"), "auto", "ls src", false),
        (rules("-Read(//**/tok)"), "auto", "make", true),
        (rules("-Read(//**/tok);+Bash"), "default", "make", true),
        (rules("-Read(//**/tok);+Bash"), "default", "X=$(echo /usr/tok); cat $X", true),
        (rules("-Read(//**/tok)"), "bypassPermissions", "X=$(echo /usr/tok); cat $X", true),
        (rules("-Read(//**/tok);+Bash(make)"), "default", "make", false),
    ] {
        let session = misses(given.clone(), mode, CoverageGap::Elsewhere);
        session.call("Bash", json!({"command": command})).await;
        assert_eq!(!session.user.asked().is_empty(), asks, "{given} {mode} {command}");
    }
}
