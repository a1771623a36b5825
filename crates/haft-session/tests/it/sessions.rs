//! The guarantees of a session: one winning answer for each prompt, ordered calls, a recorded end, no
//! shared state.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haft::ToolCall;
use haft::future::BoxFuture;
use haft::ports::PermissionMode;
use haft_session::{
    AnswerError, CallKey, FrontEnd, FrontEndGuard, NotSaid, PromptKind, ResumeFrom, SessionClosed,
    SessionEvent, SessionEventKind, SessionHandle, SessionStore, SetModeError, UserAnswer, UserPrompt,
};
use serde_json::json;
use tokio::sync::{Notify, mpsc};

use crate::embedding::{Workspace, scripted};

fn write(id: &str, file: &str) -> ToolCall {
    ToolCall::new(id, "Write", json!({"file_path": file, "content": id}))
}

fn read(id: &str, file: &str) -> ToolCall {
    ToolCall::new(id, "Read", json!({"file_path": file}))
}

/// A front end that passes its prompts to the test, and answers when the test says so.
struct TestFrontEnd {
    name: &'static str,
    asked: mpsc::UnboundedSender<UserPrompt>,
    answer: Arc<Notify>,
    /// The number of questions that were dropped or answered.
    ended: Arc<AtomicUsize>,
}

struct AskGuard(Arc<AtomicUsize>);

impl Drop for AskGuard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl FrontEnd for TestFrontEnd {
    fn name(&self) -> &str {
        self.name
    }

    fn show(&self, _: &SessionEvent) {}

    fn can_ask(&self, _: PromptKind) -> bool {
        true
    }

    fn ask<'a>(&'a self, prompt: &'a UserPrompt) -> BoxFuture<'a, Option<UserAnswer>> {
        let guard = AskGuard(self.ended.clone());
        let _ = self.asked.send(prompt.clone());
        Box::pin(async move {
            self.answer.notified().await;
            drop(guard);
            Some(UserAnswer::allow_once())
        })
    }
}

struct TestUser {
    asked: mpsc::UnboundedReceiver<UserPrompt>,
    answer: Arc<Notify>,
    ended: Arc<AtomicUsize>,
}

fn front_end(name: &'static str) -> (TestFrontEnd, TestUser) {
    let (sender, asked) = mpsc::unbounded_channel();
    let (answer, ended) = (Arc::<Notify>::default(), Arc::<AtomicUsize>::default());
    let user = TestUser { asked, answer: answer.clone(), ended: ended.clone() };
    (TestFrontEnd { name, asked: sender, answer, ended }, user)
}

#[tokio::test]
async fn two_front_ends_are_asked_and_one_answer_counts() {
    let workspace = Workspace::new();
    let ((first, mut first_user), (second, mut second_user)) = (front_end("first"), front_end("second"));
    let session = workspace.builder().front_end(first).build().await.unwrap();
    let handle = session.handle();
    let _second = handle.attach(second).unwrap();
    let mut events = handle.events();
    let pending = session.submit(write("1", "new.txt"));
    let (shown, other) = (first_user.asked.recv().await.unwrap(), second_user.asked.recv().await.unwrap());
    assert_eq!((shown.id, &shown.digest), (other.id, &other.digest));
    assert_eq!(handle.prompts().len(), 1);
    second_user.answer.notify_one();
    assert!(pending.await.error().is_none());
    assert_eq!(first_user.ended.load(Ordering::SeqCst), 1, "the other question is dropped");
    assert!(handle.prompts().is_empty());
    let late = handle.answer(shown.id, &shown.digest, UserAnswer::allow_once());
    assert_eq!(late, Err(AnswerError::AlreadyAnswered { by: "second".to_owned() }));
    let mut answered_by = None;
    let mut last = 0;
    while let Some(event) = events.try_next() {
        assert!(event.seq > last, "events are in order");
        last = event.seq;
        if let SessionEventKind::PromptAnswered { by, .. } = &event.kind {
            answered_by = Some(by.clone());
        }
    }
    assert_eq!(answered_by.as_deref(), Some("second"));
}

#[tokio::test]
async fn an_answer_from_outside_names_what_it_was_shown() {
    let workspace = Workspace::new();
    let (front, mut user) = front_end("front");
    let session = workspace.builder().front_end(front).build().await.unwrap();
    let handle = session.handle();
    let one = session.submit(write("1", "one.txt"));
    let prompt = user.asked.recv().await.unwrap();
    let text = prompt.to_string();
    assert!(text.contains("Write") && text.contains("one.txt"), "{text}");
    let wrong = handle.answer(prompt.id, &prompt.digest, UserAnswer::Choices(vec![]));
    assert_eq!(wrong, Err(AnswerError::WrongKind));
    assert!(!workspace.work().join("one.txt").exists(), "a wrong answer runs nothing");
    handle.answer(prompt.id, &prompt.digest, UserAnswer::deny("not now")).unwrap();
    let denied = one.await;
    assert!(denied.text().contains("not now"), "{}", denied.text());
    // The same call again is another prompt. The old answer is rejected for it.
    let again = session.submit(write("4", "one.txt"));
    let next = user.asked.recv().await.unwrap();
    let changed = handle.answer(next.id, &prompt.digest, UserAnswer::allow_once());
    assert_eq!(changed, Err(AnswerError::Changed));
    drop(again);
    let closed = handle.answer(next.id, &next.digest, UserAnswer::allow_once());
    assert!(matches!(closed, Err(AnswerError::Closed) | Ok(())), "{closed:?}");
    drop(session);
    assert_eq!(
        handle.answer(next.id, &next.digest, UserAnswer::allow_once()),
        Err(AnswerError::Closed),
        "a handle doesn't keep the session alive"
    );
    assert!(!workspace.work().join("one.txt").exists());
}

/// A front end that attaches while a prompt is open is asked too, and its answer counts. The question to a
/// detached one is dropped.
#[tokio::test]
async fn a_front_end_that_comes_later_is_asked_too() {
    let workspace = Workspace::new();
    let ((first, mut first_user), (second, mut second_user)) = (front_end("first"), front_end("second"));
    let session = workspace.builder().build().await.unwrap();
    let first_guard = session.handle().attach(first);
    let pending = session.submit(write("1", "new.txt"));
    let shown = first_user.asked.recv().await.unwrap();
    let second_guard = session.handle().attach(second);
    let other = second_user.asked.recv().await.unwrap();
    assert_eq!((shown.id, &shown.digest), (other.id, &other.digest));
    drop(first_guard);
    second_user.answer.notify_one();
    assert!(pending.await.error().is_none());
    assert_eq!(first_user.ended.load(Ordering::SeqCst), 1, "the other question is dropped");

    // With the last front end the prompt is closed too, and the call is denied.
    let (third, mut third_user) = front_end("third");
    drop(second_guard);
    let guard = session.handle().attach(third);
    let pending = session.submit(write("2", "other.txt"));
    third_user.asked.recv().await.unwrap();
    drop(guard);
    assert!(pending.await.error().is_some());
    assert!(!workspace.work().join("other.txt").exists());
}

/// Attaches another front end when it is asked, and leaves the answer to that one.
#[derive(Clone, Default)]
struct ReferringFrontEnd(Arc<Referral>);

#[derive(Default)]
struct Referral {
    handle: std::sync::OnceLock<SessionHandle>,
    other: Mutex<Option<TestFrontEnd>>,
    attached: Mutex<Option<FrontEndGuard>>,
}

impl FrontEnd for ReferringFrontEnd {
    fn name(&self) -> &str {
        "referring"
    }

    fn show(&self, _: &SessionEvent) {}

    fn can_ask(&self, _: PromptKind) -> bool {
        true
    }

    fn ask<'a>(&'a self, _: &'a UserPrompt) -> BoxFuture<'a, Option<UserAnswer>> {
        Box::pin(async move {
            let (handle, other) = (self.0.handle.get().unwrap(), self.0.other.lock().unwrap().take());
            *self.0.attached.lock().unwrap() = other.map(|other| handle.attach(other).unwrap());
            None
        })
    }
}

/// The only front end detaches without an answer at the moment when another one attaches.
#[tokio::test]
async fn a_front_end_that_comes_as_the_last_one_goes_is_asked() {
    let workspace = Workspace::new();
    let (other, user) = front_end("other");
    let referring = ReferringFrontEnd::default();
    *referring.0.other.lock().unwrap() = Some(other);
    let session = workspace.builder().front_end(referring.clone()).build().await.unwrap();
    assert!(referring.0.handle.set(session.handle()).is_ok());
    user.answer.notify_one();
    let result = session.submit(write("1", "new.txt")).await;
    assert!(result.error().is_none(), "{}", result.text());
}

/// Whether a user can answer is determined when a prompt opens, not when the session is built.
#[tokio::test]
async fn front_ends_come_and_go() {
    let workspace = Workspace::new();
    let session = workspace.builder().build().await.unwrap();
    assert!(session.submit(write("1", "new.txt")).await.error().is_some(), "nobody can be asked");
    let (front, user) = front_end("front");
    let guard = session.handle().attach(front).unwrap();
    user.answer.notify_one();
    assert!(session.submit(write("2", "new.txt")).await.error().is_none());
    drop(guard);
    assert!(session.submit(write("3", "new.txt")).await.error().is_some(), "nobody can be asked any more");
}

#[tokio::test]
async fn a_forbidden_mode_is_an_error_and_a_change_is_an_event() {
    let workspace = Workspace::new();
    let settings = r#"{"permissions": {"disableBypassPermissionsMode": "disable"}}"#;
    let session = workspace.builder().settings(settings).build().await.unwrap();
    let handle = session.handle();
    let mut events = handle.events();
    let error = handle.set_mode(PermissionMode::BypassPermissions).unwrap_err();
    assert!(error.to_string().contains("bypassPermissions"));
    assert_eq!(handle.mode(), Some(PermissionMode::Default));
    handle.set_mode(PermissionMode::AcceptEdits).unwrap();
    let event = events.try_next().unwrap();
    assert!(matches!(event.kind, SessionEventKind::ModeChanged(PermissionMode::AcceptEdits)), "{event}");
    assert!(session.submit(write("1", "new.txt")).await.error().is_none());
}

/// The handle of a dropped or closed session returns errors.
#[tokio::test]
async fn a_handle_of_a_closed_session_returns_errors() {
    let workspace = Workspace::new();
    let (dropped, closed) =
        (workspace.builder().build().await.unwrap(), workspace.builder().build().await.unwrap());
    // An agent keeps the session's parts alive, so that session's handle still reaches them.
    let agent = dropped.agent_with(scripted(&json!([{"text": "Hello."}]))).await.unwrap();
    let handles = [dropped.handle(), closed.handle()];
    drop(dropped);
    closed.close().await;
    for handle in handles {
        let error = handle.set_mode(PermissionMode::AcceptEdits).unwrap_err();
        assert_eq!((error, error.to_string().as_str()), (SetModeError::Closed, "the session is closed"));
        assert_eq!((handle.mode(), handle.usage()), (None, None));
        assert_eq!((handle.interrupt(), handle.force()), (Err(SessionClosed), Err(SessionClosed)));
        assert_eq!(handle.attach(front_end("late").0).err(), Some(SessionClosed));
        assert_eq!(handle.say("hello"), Err(NotSaid));
        assert!(handle.detach(CallKey { turn: 1, index: 0 }).is_err());
        assert!(handle.prompts().is_empty());
        assert!(handle.events().next().await.is_none(), "the stream has ended");
    }
    drop(agent);
}

#[tokio::test]
async fn a_session_without_an_agent_is_listed_ended_and_resumed() {
    let workspace = Workspace::new();
    let store = SessionStore::open(&workspace.environment()).unwrap();
    let session = workspace.builder().build().await.unwrap();
    assert!(store.list().is_empty(), "a session without calls leaves no journal");
    assert!(session.run_turn([read("1", "notes.txt")]).await[0].error().is_none());
    let id = session.id().to_owned();
    assert!(store.list()[0].is_running);
    drop(session);
    let listed = store.list();
    assert_eq!((listed.len(), listed[0].id.as_str(), listed[0].calls), (1, id.as_str(), 1));
    assert!(listed[0].is_ended && !listed[0].is_running, "{}", listed[0]);

    let session = workspace.builder().resume(ResumeFrom::Latest).build().await.unwrap();
    assert_eq!(session.id(), id);
    assert!(session.submit(read("2", "notes.txt")).await.error().is_none());
    // A model can join later, and continue later still.
    let model = scripted(&json!([{"text": "Hello."}, {"text": "Again."}]));
    let mut agent = session.agent_with(model.clone()).await.unwrap();
    assert_eq!(agent.run("Hi.").await.text, "Hello.");
    let report = session.close().await;
    assert!(report.is_journaled && report.id == id);
    let listed = store.list();
    assert_eq!((listed.len(), listed[0].calls, listed[0].is_ended), (1, 2, true));
    let session = workspace.builder().resume(ResumeFrom::Latest).build().await.unwrap();
    let mut agent = session.agent_with(model).await.unwrap();
    assert_eq!(agent.run("And?").await.text, "Again.");
}

/// A session is dropped while its agent waits for an answer: the call doesn't run, and the session is ended
/// and resumable.
#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_session_ends_what_runs() {
    let workspace = Workspace::new();
    let (front, mut user) = front_end("front");
    let session = workspace.builder().front_end(front).build().await.unwrap();
    let model = scripted(&json!([
        {"tool_calls": [{"name": "Write", "input": {"file_path": "new.txt", "content": "x"}}]},
        {"text": "Never said."}
    ]));
    let mut agent = session.agent_with(model).await.unwrap();
    let running = tokio::spawn(async move { (agent.run("Write.").await, agent) });
    let prompt = user.asked.recv().await.unwrap();
    let handle = session.handle();
    let id = session.id().to_owned();
    drop(session);
    let (outcome, mut agent) = running.await.unwrap();
    assert_ne!(outcome.text, "Never said.");
    assert!(!workspace.work().join("new.txt").exists());
    assert_eq!(handle.answer(prompt.id, &prompt.digest, UserAnswer::allow_once()), Err(AnswerError::Closed));
    assert!(agent.run("More.").await.text.is_empty(), "an agent ends with its session");
    let listed = SessionStore::open(&workspace.environment()).unwrap().list();
    assert!(listed[0].id == id && listed[0].is_ended, "{}", listed[0]);
    let again = workspace.builder().resume(ResumeFrom::Id(id.clone())).build().await.unwrap();
    assert_eq!(again.id(), id);
}

/// Two sessions of one process share no answer, no event and no end.
#[tokio::test]
async fn two_sessions_share_nothing() {
    let (one, two) = (Workspace::new(), Workspace::new());
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = seen.clone();
    let always = |_: UserPrompt| async { UserAnswer::allow_for_session() };
    let first = one
        .builder()
        .on_prompt(always)
        .on_event(move |event| noted.lock().unwrap().push(event.to_string()))
        .build()
        .await
        .unwrap();
    let second = two.builder().build().await.unwrap();
    assert!(first.submit(write("1", "a.txt")).await.error().is_none());
    assert!(second.submit(write("2", "a.txt")).await.error().is_some(), "the answer counts in the first one");
    first.close().await;
    let seen = seen.lock().unwrap().clone();
    assert!(seen.iter().any(|line| line.contains("Write is done")), "{seen:?}");
    assert!(!seen.iter().any(|line| line.contains("failed")), "{seen:?}");
    assert!(second.submit(read("3", "notes.txt")).await.error().is_none(), "the other session goes on");
}
