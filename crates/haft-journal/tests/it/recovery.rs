//! The state of each call, recovered from a journal that a real engine wrote.

use std::path::Path;
use std::sync::Arc;

use haft::decision::{DecisionSource, Verdict};
use haft::{Context, Effects, Engine, Registry, Tool, ToolCall, ToolError, ToolSpec, tool};
use haft_journal::{
    CallState, FileChange, JournalContents, JournalOptions, JournalStore, Record, RecordedBlock,
    RecoveredSession, SessionStart,
};
use serde_json::{Value, json};

/// Appends a line to a file, and fails if no file is named.
struct Append;

/// Appends a line to a file.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Line {
    /// Where.
    path: std::path::PathBuf,
}

impl Tool for Append {
    type Input = Line;
    type Output = String;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("append")
    }

    fn effects(&self, input: &Line) -> Effects {
        Effects::writes(&input.path)
    }

    async fn call(&self, input: Line, _: &Context) -> Result<String, ToolError> {
        let text =
            std::fs::read_to_string(&input.path).map_err(|_| ToolError::new("there is no such file"))?;
        std::fs::write(&input.path, text + "line\n").map_err(|error| ToolError::new(error.to_string()))?;
        Ok("appended".to_owned())
    }
}

async fn session(folder: &Path, calls: Vec<ToolCall>) -> JournalContents {
    session_with(folder, haft::PermissionRules::new().allow("append").unwrap(), calls).await
}

async fn session_with(folder: &Path, rules: haft::PermissionRules, calls: Vec<ToolCall>) -> JournalContents {
    let store = JournalStore::at(folder);
    let journal = store.create("a", SessionStart::in_folder(folder), JournalOptions::default()).unwrap();
    let look = tool("look", "Looks.", |_: haft::NoInput, _| async { Ok(1) }).effects(|_| Effects::none());
    let registry = Registry::new().with(Append).unwrap().with(look).unwrap();
    let recorder = Arc::new(journal.clone());
    let engine = Engine::builder(registry)
        .workspace(haft::Workspace::new(folder).unwrap())
        .permissions(rules)
        .ports(|ports| ports.recorder = Some(recorder))
        .build();
    journal.note(Record::Items { from: 0, items: vec![json!({"role": "user"})] }).unwrap();
    journal.note(Record::Reply { turn: 1, items: vec![json!({"role": "assistant"})] }).unwrap();
    engine.turn().run(calls).await;
    drop(engine);
    drop(journal);
    store.read("a").unwrap()
}

/// A refused call is recorded with its decision and all reasons; a call that reached no decision
/// has none.
#[tokio::test]
async fn refused_calls_have_their_decision() {
    let folder = tempfile::tempdir().unwrap();
    let refused = async |rules: haft::PermissionRules, input: Value| {
        let folder = tempfile::tempdir_in(folder.path()).unwrap();
        let contents = session_with(folder.path(), rules, vec![call("1", "append", input)]).await;
        let refused = contents.records.into_iter().find_map(|stamped| match stamped.record {
            Record::Refused(refused) => Some(refused),
            _ => None,
        });
        refused.unwrap()
    };
    let (rules, path) = (haft::PermissionRules::new(), json!({"path": "list.txt"}));
    let asks = refused(rules.clone().ask("append").unwrap(), path.clone()).await;
    assert_eq!((asks.source, asks.unanswered), (Some(DecisionSource::NoUser), true));
    let [rule, no_user] = &asks.reasons[..] else { panic!("{asks:?}") };
    assert_eq!((rule.source, rule.verdict), (DecisionSource::Rule, Verdict::Ask));
    assert_eq!(rule.rule.as_ref().map(|rule| (&*rule.text, rule.list)), Some(("append", Verdict::Ask)));
    assert_eq!((no_user.source, no_user.verdict), (DecisionSource::NoUser, Verdict::Deny));
    let plan = refused(rules.clone().mode(haft::ports::PermissionMode::Plan), path).await;
    assert_eq!((plan.source, plan.unanswered), (Some(DecisionSource::Mode), false));
    let invalid = refused(rules, json!({})).await;
    assert_eq!((invalid.source, invalid.unanswered, invalid.reasons.len()), (None, false, 0));
}

fn call(id: &str, name: &str, input: Value) -> ToolCall {
    ToolCall::new(id, name, input)
}

/// The journal of a process that died before it wrote the last records.
fn without_last(contents: &JournalContents, count: usize) -> JournalContents {
    let mut contents = contents.clone();
    contents.records.truncate(contents.records.len() - count);
    contents
}

#[tokio::test]
async fn each_call_is_finished_to_be_run_or_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("list.txt");
    std::fs::write(&file, "").unwrap();
    let calls = vec![
        call("1", "append", json!({"path": file})),
        call("2", "look", json!({})),
        call("3", "append", json!({"path": "none.txt"})),
        call("4", "append", json!({})),
    ];
    let contents = session(folder.path(), calls).await;
    let whole = RecoveredSession::from_contents(&contents);
    let text = |text: &str| vec![RecordedBlock::Text(text.to_owned())];
    assert_eq!(
        whole.calls["1"],
        CallState::Finished { tool: "append".to_owned(), error: None, blocks: text("appended") }
    );
    assert_eq!(whole.calls["2"], CallState::Run);
    assert!(matches!(&whole.calls["3"], CallState::Finished { error: Some(kind), .. } if kind == "Failed"));
    // The call was refused, so it may be tried again with the same result.
    assert!(!whole.calls.contains_key("4"));
    assert!(
        contents
            .records
            .iter()
            .any(|record| matches!(&record.record, Record::Refused(refused) if refused.call == "4"))
    );
    assert_eq!(whole.items, [json!({"role": "user"})]);
    assert_eq!(whole.reply, Some(vec![json!({"role": "assistant"})]));

    // As if the process had died after the intent of the first call.
    let first = contents
        .records
        .iter()
        .position(|record| matches!(&record.record, Record::Intent(one) if one.call == "1"));
    let cut = without_last(&contents, contents.records.len() - first.unwrap() - 1);
    let recovered = RecoveredSession::from_contents(&cut);
    let CallState::Unknown(started) = &recovered.calls["1"] else { panic!("{recovered:?}") };
    let real = file.canonicalize().unwrap();
    assert_eq!(started.files, [(real, FileChange::Changed)]);
    assert!(started.to_string().contains("outcome is unknown"), "{started}");
    assert!(!recovered.calls.contains_key("2"));

    // The call did not reach its file.
    std::fs::write(&file, "").unwrap();
    let CallState::Unknown(started) = &RecoveredSession::from_contents(&cut).calls["1"] else {
        panic!("it started")
    };
    assert_eq!(started.files[0].1, FileChange::Same);
}

/// The message of the call was never complete, or a worker made the call: its result can't reach
/// the conversation, and the model would repeat it.
#[tokio::test]
async fn what_was_finished_and_has_no_result_to_go_to_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("list.txt");
    std::fs::write(&file, "").unwrap();
    let calls = vec![call("1", "append", json!({"path": file})), call("2", "look", json!({}))];
    let whole = session(folder.path(), calls).await;
    let mut never_whole = whole.clone();
    let reply = never_whole.records.iter().position(|one| matches!(one.record, Record::Reply { .. }));
    never_whole.records.remove(reply.unwrap());
    let mut by_worker = whole.clone();
    for one in &mut by_worker.records {
        match &mut one.record {
            Record::Intent(intent) => intent.agent = "worker".to_owned(),
            Record::Outcome(outcome) => outcome.agent = "worker".to_owned(),
            _ => {}
        }
    }
    for contents in [never_whole, by_worker] {
        let recovered = RecoveredSession::from_contents(&contents);
        assert!(recovered.calls.is_empty(), "{recovered:?}");
        let [notes] = &recovered.stray[..] else { panic!("{recovered:?}") };
        let message = notes.to_string();
        assert!(message.contains("was run to its end (ok)") && message.contains("list.txt"), "{message}");
    }
}

#[tokio::test]
async fn items_end_a_turn() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("list.txt");
    std::fs::write(&file, "").unwrap();
    let mut contents = session(folder.path(), vec![call("1", "append", json!({"path": file}))]).await;
    let mut last = contents.records.last().unwrap().clone();
    last.record = Record::Items { from: 1, items: vec![json!("reply"), json!("answer")] };
    contents.records.push(last);
    let recovered = RecoveredSession::from_contents(&contents);
    assert_eq!(recovered.items.len(), 3);
    assert!(recovered.reply.is_none() && recovered.calls.is_empty() && recovered.stray.is_empty());
}
