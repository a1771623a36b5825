//! Child processes of sessions: on every kind of runtime, and separate for each session.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::process::Command;

use haft::{Effects, NoInput, ToolCall, tool};
use haft_session::{Session, SessionBuilder};
use serde_json::json;
use tokio::runtime::Builder;

use crate::embedding::Workspace;

/// A rule binds a command on either kind of runtime. The tests of this file run under libtest or nextest,
/// without a line about the sandbox in `main`.
#[test]
fn commands_run_in_the_sandbox_on_every_runtime() {
    for mut runtime in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let workspace = Workspace::new();
        let results = runtime.enable_all().build().unwrap().block_on(async {
            let session = workspace.builder().deny("Read(./secrets/**)").allow("Bash").build().await.unwrap();
            let command = "python3 -c \"print(open('notes.txt').read(), open('secrets/key.txt').read())\"";
            let read = |id: &str| ToolCall::new(id, "Bash", json!({ "command": command }));
            let notes = ToolCall::new("3", "Bash", json!({"command": "cat notes.txt"}));
            let results = session.run_turn([read("1"), read("2"), notes]).await;
            session.close().await;
            results
        });
        assert!(!results.iter().any(|result| result.text().contains("top-secret-key")));
        if haft_sandbox::is_possible() {
            assert!(results[2].text().contains("plain notes"), "{}", results[2].text());
        }
    }
}

/// A session whose command waits in the background until something is written to its gate.
struct WaitingSession {
    workspace: Workspace,
    session: Session,
    gate: File,
}

impl WaitingSession {
    async fn start(change: fn(SessionBuilder) -> SessionBuilder) -> WaitingSession {
        let workspace = Workspace::new();
        let gate = workspace.work().join("gate");
        assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
        let session = change(workspace.builder().allow("Bash")).build().await.unwrap();
        let command = "read line < gate; echo \"passed $line\"";
        let input = json!({"command": command, "run_in_background": true});
        let started = session.run_turn([ToolCall::new("1", "Bash", input)]).await;
        assert!(started[0].error().is_none(), "{}", started[0].text());
        // Opening waits until the command has opened the other end.
        let gate = tokio::task::spawn_blocking(|| File::options().write(true).open(gate)).await.unwrap();
        WaitingSession { workspace, session, gate: gate.unwrap() }
    }
}

/// The end of one session ends only its own child processes and tasks.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_its_own_children_only() {
    if !haft_sandbox::is_possible() {
        return;
    }
    let changes: [fn(SessionBuilder) -> SessionBuilder; 2] =
        [|builder| builder, |builder| builder.without_sandbox()];
    for change in changes {
        let (mut first, mut second) =
            (WaitingSession::start(change).await, WaitingSession::start(change).await);
        drop(first.session);
        let gone = first.gate.write_all(b"first\n").map_err(|error| error.kind());
        assert_eq!(gone, Err(ErrorKind::BrokenPipe), "the command of the first session is gone");
        second.gate.write_all(b"second\n").unwrap();
        let look = json!({"task_id": "task-1", "block": true});
        let looked = second.session.run_turn([ToolCall::new("2", "TaskOutput", look)]).await;
        assert!(looked[0].text().contains("passed second"), "{}", looked[0].text());
        drop((first.workspace, second.workspace));
    }
}

/// Without a sandbox, the hosts that a browser may reach are those of its own session.
#[tokio::test]
async fn rules_for_hosts_are_those_of_the_session() {
    let workspace = Workspace::new();
    let checked = || {
        tool("check_host", "Checks a host.", |_: NoInput, cx| async move {
            let processes = cx.ports().processes().expect("a session has processes");
            let checked = processes.check_host("8.8.8.8", 443, &[]).await;
            Ok(checked.map_or_else(|denied| denied, |()| "reachable".to_owned()))
        })
        .effects(|_| Effects::none())
    };
    let builder = || workspace.builder().without_sandbox().tool(checked());
    let open = builder().allow("WebFetch(domain:8.8.8.8)").build().await.unwrap();
    let denying = builder().deny("WebFetch(domain:8.8.8.8)").build().await.unwrap();
    let plain = builder().build().await.unwrap();
    let check = async |session: &Session| {
        session.run_turn([ToolCall::new("1", "check_host", json!({}))]).await[0].text()
    };
    assert_eq!(check(&open).await, "reachable");
    let denied = check(&denying).await;
    assert!(denied.contains("denies `8.8.8.8`"), "{denied}");
    let unknown = check(&plain).await;
    assert!(unknown.contains("8.8.8.8") && unknown != "reachable", "{unknown}");
    drop((denying, plain));
    assert_eq!(check(&open).await, "reachable");
}
