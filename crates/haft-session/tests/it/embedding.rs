//! Programs that embed a session: rules hold in the sandbox, omitted options fail closed, sessions end and
//! continue.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use haft::ports::PermissionMode;
use haft::{Effects, NoInput, ToolCall, tool};
use haft_journal::JournalStore;
use haft_provider::Wire;
use haft_provider::scripted::{ModelScript, ScriptedModel};
use haft_session::{ResumeFrom, Session, SessionBuilder, SessionEnvironment, SessionErrorKind, UserAnswer};
use serde_json::json;

/// A workspace with a readable file and one that a rule denies, and a home directory without settings.
pub(crate) struct Workspace {
    dir: tempfile::TempDir,
}

impl Workspace {
    pub(crate) fn new() -> Workspace {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in
            [("work/notes.txt", "plain notes\n"), ("work/secrets/key.txt", "top-secret-key\n")]
        {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Workspace { dir }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// Returns a variable of this process, except for those with settings and state locations.
    fn variable(dir: &Path, name: &str) -> Option<OsString> {
        match name {
            "HOME" => Some(dir.join("home").into()),
            "HAFT_STATE_DIR" => Some(dir.join("state").into()),
            "HAFT_CONFIG_DIR" => Some(dir.join("config").into()),
            "CLAUDE_CONFIG_DIR" => Some(dir.join("claude").into()),
            name if name.ends_with("_API_KEY") => None,
            name => std::env::var_os(name),
        }
    }

    pub(crate) fn environment(&self) -> SessionEnvironment {
        let dir = self.dir.path().to_owned();
        SessionEnvironment::new(move |name| Workspace::variable(&dir, name))
    }

    pub(crate) fn builder(&self) -> SessionBuilder {
        Session::builder(self.work()).environment(self.environment())
    }

    /// Runs an example of this crate, and returns its output.
    fn run_example(&self, name: &str) -> String {
        let test = std::env::current_exe().unwrap();
        let example = test.parent().unwrap().with_file_name("examples").join(name);
        let mut command = Command::new(example);
        command.arg(self.work()).current_dir(self.work());
        for name in ["HOME", "HAFT_STATE_DIR", "HAFT_CONFIG_DIR", "CLAUDE_CONFIG_DIR"] {
            command.env(name, Workspace::variable(self.dir.path(), name).unwrap());
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn bash(command: &str) -> ToolCall {
    ToolCall::new("1", "Bash", json!({"command": command}))
}

pub(crate) fn scripted(turns: &serde_json::Value) -> ScriptedModel {
    let script = ModelScript::parse(&json!({"turns": turns}).to_string()).unwrap();
    ScriptedModel::new(script, Wire::Anthropic)
}

/// An agent with rules, a sandbox and a journal once printed a denied file through `python3`: the rules did
/// not reach the sandbox unless the program copied eight fields by hand.
#[tokio::test(flavor = "multi_thread")]
async fn a_denied_file_is_denied_to_commands_too() {
    let workspace = Workspace::new();
    let session = workspace.builder().deny("Read(./secrets/**)").allow("Bash").build().await.unwrap();
    let open = |path: &str| format!("python3 -c \"print(open('{path}').read())\"");
    for command in
        [open("secrets/key.txt"), "cat secrets/*".to_owned(), "cp -r secrets copy; cat copy/*".into()]
    {
        let results = session.run_turn([bash(&command)]).await;
        assert!(!results[0].text().contains("top-secret-key"), "{command}: {}", results[0].text());
    }
    let results = session.run_turn([bash(&open("notes.txt"))]).await;
    if haft_sandbox::is_possible() {
        assert!(results[0].text().contains("plain notes"), "{}", results[0].text());
    }
}

/// The optional lines of a program besides rules and settings. A session without some of them never does
/// what it would not do with them.
#[tokio::test(flavor = "multi_thread")]
async fn lines_that_are_left_out_allow_nothing_more() {
    type Line = fn(SessionBuilder, &Path) -> SessionBuilder;
    const LINES: [(&str, Line); 4] = [
        ("on_prompt", |builder, _| builder.on_prompt(|_| async { UserAnswer::allow_once() })),
        ("mode", |builder, _| builder.mode(PermissionMode::AcceptEdits)),
        ("add_dir", |builder, outside| builder.add_dir(outside)),
        ("without_sandbox", |builder, _| builder.without_sandbox()),
    ];
    let mut done: Vec<BTreeSet<&str>> = Vec::new();
    for lines in 0..1usize << LINES.len() {
        let workspace = Workspace::new();
        let outside = workspace.dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("far.txt"), "far away\n").unwrap();
        let builder = workspace.builder().deny("Read(./secrets/**)").allow("Bash(python3 *)");
        let said = LINES.iter().enumerate().filter(|(line, _)| lines & (1 << line) != 0);
        let session = said.fold(builder, |builder, (_, (_, line))| line(builder, &outside));
        let session = session.build().await.unwrap();
        let far = outside.join("far.txt").display().to_string();
        let read = |path: &str| ToolCall::new("1", "Read", json!({"file_path": path}));
        let write = |path: &str| ToolCall::new("1", "Write", json!({"file_path": path, "content": "x"}));
        let python = |code: &str| bash(&format!("python3 -c \"{code}\""));
        let calls = [
            read("secrets/key.txt"),
            python("print(open('secrets/key.txt').read())"),
            bash("cat secrets/key.txt"),
            read(&far),
            python(&format!("print(open('{far}').read())")),
            write("by-tool.txt"),
            write(&outside.join("by-tool.txt").display().to_string()),
            python(&format!("open('{}', 'w')", outside.join("by-command.txt").display())),
            bash("touch asked-for.txt"),
        ];
        let mut facts = BTreeSet::new();
        for call in calls {
            let text = session.run_turn([call]).await[0].text();
            facts.extend(["top-secret-key", "far away"].iter().filter(|shown| text.contains(*shown)));
        }
        let made =
            ["work/by-tool.txt", "outside/by-tool.txt", "outside/by-command.txt", "work/asked-for.txt"];
        facts.extend(made.iter().filter(|made| workspace.dir.path().join(made).exists()));
        done.push(facts);
    }
    for (all, with_all) in done.iter().enumerate() {
        for (some, with_some) in done.iter().enumerate().filter(|(some, _)| some & all == *some) {
            let names = |lines: usize| {
                let said = LINES.iter().enumerate().filter(move |(line, _)| lines & (1 << line) != 0);
                said.map(|(_, (name, _))| *name).collect::<Vec<_>>()
            };
            let more: Vec<_> = with_some.difference(with_all).collect();
            assert!(more.is_empty(), "{more:?} with {:?} and not with {:?}", names(some), names(all));
        }
    }
    assert!(done[0].is_empty(), "{:?}", done[0]);
    assert!(done.last().unwrap().len() > 3, "{:?}", done.last());
    // Whatever is omitted, the denied file is never shown in a sandbox.
    let sandboxed = done.iter().take(1 << (LINES.len() - 1));
    assert!(!sandboxed.into_iter().any(|facts| facts.contains("top-secret-key")));
}

#[tokio::test]
async fn without_an_asker_calls_that_would_ask_are_denied() {
    let workspace = Workspace::new();
    let session = workspace.builder().build().await.unwrap();
    let write = ToolCall::new("1", "Write", json!({"file_path": "new.txt", "content": "x"}));
    let results = session.run_turn([write]).await;
    assert!(results[0].error().is_some(), "{}", results[0].text());
    assert!(!workspace.work().join("new.txt").exists());
}

#[tokio::test]
async fn an_approval_lets_one_call_run() {
    let workspace = Workspace::new();
    let session =
        workspace.builder().on_prompt(|_| async { UserAnswer::allow_once() }).build().await.unwrap();
    let write = ToolCall::new("1", "Write", json!({"file_path": "new.txt", "content": "x"}));
    let results = session.run_turn([write]).await;
    assert!(results[0].error().is_none(), "{}", results[0].text());
    assert!(workspace.work().join("new.txt").exists());
}

#[tokio::test]
async fn a_session_can_have_own_tools_only() {
    let workspace = Workspace::new();
    let answer =
        tool("answer", "Returns the answer.", |_: NoInput, _| async { Ok(42) }).effects(|_| Effects::none());
    let session = workspace.builder().without_built_in_tools().tool(answer).build().await.unwrap();
    let calls = ["answer", "Read"].map(|name| ToolCall::new(name, name, json!({})));
    let results = session.run_turn(calls).await;
    assert_eq!(results[0].text(), "42");
    assert!(results[1].error().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_listed_ended_and_resumed() {
    let workspace = Workspace::new();
    let session = workspace.builder().build().await.unwrap();
    let model = scripted(&json!([
        {"tool_calls": [{"name": "Read", "input": {"file_path": "notes.txt"}}]},
        {"text": "Read it."},
        {"text": "As I said."}
    ]));
    let mut agent = session.agent_with(model.clone()).await.unwrap();
    assert_eq!(agent.run("Read the notes.").await.text, "Read it.");
    assert!(session.agent_with(model.clone()).await.is_err(), "a session has one agent");
    let report = session.close().await;

    let store = JournalStore::at(&workspace.state());
    let id = report.id;
    let listed = store.list();
    assert!(listed.len() == 1 && listed[0].id == id, "{listed:?}");
    let head = store.summary(&id).unwrap();
    assert!(head.is_ended && head.calls == 1 && head.title.as_deref() == Some("Read the notes."), "{head:?}");

    let session = workspace.builder().resume(ResumeFrom::Latest).build().await.unwrap();
    assert_eq!(session.id(), id);
    let mut agent = session.agent_with(model).await.unwrap();
    assert_eq!(agent.run("What did you say?").await.text, "As I said.");
    session.close().await;
}

#[tokio::test]
async fn a_wrong_rule_or_directory_fails_the_build() {
    let workspace = Workspace::new();
    let check = async |builder: SessionBuilder, kind: SessionErrorKind, text: &str| {
        let error = builder.build().await.err().unwrap();
        assert!(error.kind() == kind && error.to_string().contains(text), "{error:?}");
    };
    check(workspace.builder().deny("Read("), SessionErrorKind::Settings, "Read(").await;
    check(Session::builder("/nowhere/at/all"), SessionErrorKind::Workspace, "/nowhere/at/all").await;
    let resuming = workspace.builder().resume(ResumeFrom::Latest);
    check(resuming, SessionErrorKind::Journal, "nothing to continue").await;
}

/// The program of the README: `#[tokio::main]`, and no line about the sandbox.
#[test]
fn the_whole_product_in_forty_lines() {
    let source = include_str!("../../examples/agent.rs");
    let lines = source.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
    assert!(lines.count() < 40);
    let program = &source[source.find("use ").unwrap()..];
    for (page, text) in [
        ("README.md", include_str!("../../../../README.md")),
        ("docs/embedding.md", include_str!("../../../../docs/embedding.md")),
    ] {
        assert!(text.contains(program), "{page} shows the example as it is");
    }
    let workspace = Workspace::new();
    let shown = workspace.run_example("agent");
    assert!(shown.contains("asked: Bash") && shown.contains("answer: I can read the notes"), "{shown}");
    assert!(!shown.contains("top-secret-key"), "{shown}");
    if haft_sandbox::is_possible() {
        assert!(shown.contains("plain notes"), "{shown}");
    }
}

#[test]
fn the_other_examples_run() {
    let check = |example: &str, expected: &[&str]| {
        let shown = Workspace::new().run_example(example);
        for text in expected {
            assert!(shown.contains(text), "{example}: {text} is missing in {shown}");
        }
    };
    check("own_tools", &["1: 2", "2: 1", "submitted: 3"]);
    check("resume", &["first: I have read the notes.", "ended  1 calls", "resumed: The notes, as I said."]);
    check("sub_agents", &["[looker] Read is done", "answer: My agent read the notes."]);
    check("front_end", &["asks: Write", "answered prompt 1", "result: "]);
}
