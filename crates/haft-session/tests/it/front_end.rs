//! Services for front ends besides sessions: workspace trust, MCP server files, views of clients, checks
//! and replays.

use std::path::Path;
use std::sync::{Arc, Mutex};

use haft::ToolCall;
use haft::decision::Verdict;
use haft_session::assembly::{NoticeEvents, SessionAssembler};
use haft_session::clients::{ClientViewError, ClientViews};
use haft_session::mcp::server_files::{ServerFiles, ServerFilesError, ServerScope};
use haft_session::replay::{CallRecording, check_calls};
use haft_session::trust::{TrustState, UntrustedReason, WorkspaceTrust};
use haft_session::{NoticeSink, SessionEnvironment, SessionOptions, SessionPurpose};
use serde_json::json;

/// A workspace `work`, with settings and state next to it.
fn workspace(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in [("work/notes.txt", "plain notes\n")].iter().chain(files) {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

fn environment(dir: &Path) -> SessionEnvironment {
    let (folders, home) = (SessionEnvironment::with_folders_in(dir), dir.join("home"));
    SessionEnvironment::new(move |name| match name {
        "HOME" => Some(home.clone().into_os_string()),
        name => folders.get(name),
    })
}

fn options(dir: &Path) -> SessionOptions {
    SessionOptions {
        cwd: Some(dir.join("work")),
        environment: environment(dir),
        non_interactive: true,
        ..SessionOptions::default()
    }
}

#[test]
fn trust_is_for_exactly_what_was_inspected() {
    let dir = workspace(&[("work/.haft/settings.json", r#"{"permissions": {"allow": ["Bash(make *)"]}}"#)]);
    let (work, options) = (dir.path().join("work"), options(dir.path()));
    let state = || WorkspaceTrust::inspect(&work, &options).unwrap().state();
    assert_eq!(state(), TrustState::Untrusted(UntrustedReason::NeverTrusted));
    let mut trust = WorkspaceTrust::inspect(&work, &options).unwrap();
    assert_eq!(trust.items().iter().map(|item| item.text.as_str()).collect::<Vec<_>>(), ["Bash(make *)"]);
    trust.grant().unwrap();
    assert!(trust.is_trusted());
    assert_eq!(state(), TrustState::Trusted);

    std::fs::write(
        work.join(".haft/settings.json"),
        r#"{"permissions": {"allow": ["Bash(make *)", "Bash(sh *)"]}}"#,
    )
    .unwrap();
    assert!(
        matches!(state(), TrustState::Untrusted(UntrustedReason::Changed(changes)) if changes.len() == 1)
    );

    let forgotten = WorkspaceTrust::forget(&work, &options.environment).unwrap();
    assert!(forgotten.was_trusted);
    assert_eq!(state(), TrustState::Untrusted(UntrustedReason::NeverTrusted));
}

#[test]
fn servers_are_added_once_and_removed_from_the_file_that_names_them() {
    let dir = workspace(&[]);
    let files = ServerFiles::new(&dir.path().join("work"), &environment(dir.path())).unwrap();
    let entry = json!({"command": "uvx", "args": ["mcp-server-time"]});
    files.add(ServerScope::Project, "time", &entry).unwrap();
    let written = std::fs::read_to_string(dir.path().join("work/.mcp.json")).unwrap();
    assert!(written.contains("mcp-server-time"), "{written}");
    let again = files.add(ServerScope::Project, "time", &entry).unwrap_err();
    assert!(matches!(again, ServerFilesError::AlreadyThere { .. }), "{again:?}");
    assert!(matches!(
        files.add(ServerScope::User, "a__b", &entry),
        Err(ServerFilesError::Unusable(error)) if error.message().contains("`__`")
    ));

    files.add(ServerScope::User, "time", &entry).unwrap();
    assert_eq!(
        files.remove(None, "time"),
        Err(ServerFilesError::Ambiguous(vec![ServerScope::Project, ServerScope::User]))
    );
    files.remove(Some(ServerScope::User), "time").unwrap();
    files.remove(None, "time").unwrap();
    assert_eq!(files.remove(None, "time"), Err(ServerFilesError::NotFound { claude_file: None }));
}

#[test]
fn each_client_has_the_tools_of_its_view() {
    let settings = r#"{"serve": {"clients": [
        {"name": "reader", "tokenSha256": "0000000000000000000000000000000000000000000000000000000000000000",
         "tools": ["Read", "Glob"], "deny": ["Glob"]}]}}"#;
    let dir = workspace(&[("config/settings.json", settings)]);
    let assembler = SessionAssembler::load(&options(dir.path()), SessionPurpose::Run).unwrap();
    let views = ClientViews::new(&assembler, None, &[]).unwrap();
    let view = views.view_of(Some("reader"));
    assert!(view.has_tool("Read") && !view.has_tool("Write") && views.default_view().has_tool("Write"));
    let session = view.assembler().open_client(None, NoticeEvents(NoticeSink::default())).unwrap();
    assert!(session.denies_tool("Glob") && !session.denies_tool("Read"));
    session.set_tools(&view.filter_tools(view.assembler().registry()));
    let snapshot = session.engine().snapshot();
    assert_eq!(snapshot.offers().iter().map(|offer| offer.name()).collect::<Vec<_>>(), ["Read"]);

    assert_eq!(
        ClientViews::new(&assembler, Some("writer"), &[]).err(),
        Some(ClientViewError::UnknownClient(vec!["reader".to_owned()]))
    );
    let unknown = ClientViews::new(&assembler, None, &["Raed".to_owned()]).err().unwrap();
    assert_eq!(unknown.to_string(), "no tool is called that; closest: `Read`");
}

/// Clients share their tools, but what a tool gets from a session is that of its own client.
#[tokio::test]
async fn a_tool_reads_the_calls_of_its_own_client() {
    let dir = workspace(&[]);
    let assembler = SessionAssembler::load(&options(dir.path()), SessionPurpose::Run).unwrap();
    let open = || {
        let session = assembler.open_client(None, NoticeEvents(NoticeSink::default())).unwrap();
        session.set_tools(assembler.registry());
        session
    };
    let (first, second) = (open(), open());
    let read = ToolCall::new("1", "Read", json!({"file_path": "notes.txt"}).to_string());
    assert!(!first.engine().turn().run([read]).await[0].is_error());
    for (session, expected) in [(&first, "1 of 1 steps"), (&second, "0 of 1 steps")] {
        let verify = ToolCall::new("2", "VerifyPlan", json!({"plan": "1. Read `notes.txt`"}).to_string());
        let results = session.engine().turn().run([verify]).await;
        let text = results[0].outcome().unwrap().to_text();
        assert!(text.starts_with(expected), "{text}");
    }
    let snapshot = first.engine().snapshot();
    let missing = snapshot.withheld().find(|(entry, _)| entry.tool().name() == "CronList").unwrap();
    assert_eq!(missing.1.to_string(), "this session schedules no prompts");
}

#[tokio::test]
async fn a_factory_opens_sessions_that_decide_by_its_rules() {
    let dir = workspace(&[]);
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let received = warnings.clone();
    let options = SessionOptions {
        deny: vec!["Read(./notes.txt)".to_owned()],
        notices: NoticeSink::new(move |notice| received.lock().unwrap().push(notice.to_string())),
        ..options(dir.path())
    };
    let assembler = SessionAssembler::load(&options, SessionPurpose::Inspect).unwrap();
    let (first, second) = (assembler.open().unwrap(), assembler.open().unwrap());
    for session in [&first, &second] {
        let report = session.check("Read", json!({"file_path": "notes.txt"})).await.unwrap();
        assert_eq!(report.verdict, Verdict::Deny);
    }
    assert!(first.check("Raed", json!({})).await.unwrap_err().message().contains("Raed"));

    let transcript = json!([
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "1", "name": "Read", "input": {"file_path": "notes.txt"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "plain notes"}]},
    ]);
    let recording = CallRecording::read(transcript.to_string().as_bytes(), "chat.json").unwrap();
    let replayed = std::thread::spawn(move || check_calls(&recording, &options)).join().unwrap().unwrap();
    assert_eq!((replayed[0].today.as_str(), replayed[0].differs), ("deny", true));
    assert_eq!(*warnings.lock().unwrap(), [""; 0]);
}
