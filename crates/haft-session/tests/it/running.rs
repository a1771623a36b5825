//! What begins and ends with a session: MCP servers, threads, events, and a session that is dropped at any
//! moment.

use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use haft::{Effects, NoInput, ToolCall, tool};
use haft_agent::RunEvent;
use haft_provider::scripted::ScriptedModel;
use haft_session::{ResumeFrom, Session, SessionBuilder, SessionEventKind, SessionStore, UserAnswer};
use serde_json::json;

use crate::embedding::{Workspace, scripted};

/// Returns a builder with an MCP server that records each start in `work/counts`.
fn with_server(workspace: &Workspace) -> SessionBuilder {
    let peer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../haft-mcp/tests/peers/faulty.py");
    let script = workspace.work().join("peer.py");
    std::fs::copy(peer, &script).unwrap();
    let server = json!({
        "command": "python3", "args": ["-u", script, ""], "env": {"COUNTS": workspace.work().join("counts")}
    });
    let file = workspace.work().with_file_name("servers.json");
    std::fs::write(&file, json!({"mcpServers": {"f": server}}).to_string()).unwrap();
    workspace.builder().mcp_config(file).allow("mcp__f__*")
}

fn counted(workspace: &Workspace, what: &str) -> usize {
    let counts = std::fs::read_to_string(workspace.work().join("counts")).unwrap_or_default();
    counts.lines().filter(|line| *line == what).count()
}

fn echo(id: &str) -> ToolCall {
    ToolCall::new(id, "mcp__f__echo", json!({"text": "hi"}))
}

/// Calls before the agent exists, its own calls and parallel calls reach one server, which was started
/// once.
#[tokio::test(flavor = "multi_thread")]
async fn servers_belong_to_the_session() {
    let workspace = Workspace::new();
    let session = with_server(&workspace).build().await.unwrap();
    let turn = session.run_turn([echo("1")]).await;
    assert!(turn[0].text().contains("hi"), "{}", turn[0].text());
    assert!(session.submit(echo("2")).await.text().contains("hi"));
    let model = scripted(&json!([
        {"tool_calls": [{"name": "mcp__f__echo", "input": {"text": "of the agent"}}]},
        {"text": "Done."}
    ]));
    let mut agent = session.agent_with(model).await.unwrap();
    assert_eq!(agent.run("Echo.").await.text, "Done.");
    assert!(session.submit(echo("3")).await.text().contains("hi"));
    assert_eq!(counted(&workspace, "start"), 1);
    session.close().await;
}

/// An unused server begins to connect too, and a session can wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_waits_for_its_servers() {
    let workspace = Workspace::new();
    let session = with_server(&workspace).build().await.unwrap();
    session.wait_for_servers().await;
    assert!(session.submit(echo("1")).await.error().is_none());
    assert!(session.check("mcp__f__echo", json!({"text": "hi"})).await.is_ok());
}

/// The variable that makes [`loading_starts_nothing`] the process that loads.
const LOADS: &str = "HAFT_TEST_LOADS";

/// Runs in a separate process, since the threads of a process are counted.
#[test]
fn loading_starts_nothing() {
    if std::env::var_os(LOADS).is_some() {
        return load_and_count();
    }
    let test = std::env::current_exe().unwrap();
    let arguments = ["running::loading_starts_nothing", "--exact", "--test-threads=1", "--nocapture"];
    let output = Command::new(test).args(arguments).env(LOADS, "1").output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains("loaded: nothing started"), "{output:?}");
}

#[expect(clippy::print_stdout, reason = "the process that counts reads it")]
fn load_and_count() {
    let workspace = Workspace::new();
    let before = tasks_of_this_process();
    let factory = with_server(&workspace).deny("Read(./secrets/**)").load().unwrap();
    assert_eq!(tasks_of_this_process(), before);
    println!("loaded: nothing started");
    drop(factory);
}

/// Returns the threads of this process, and their child processes.
fn tasks_of_this_process() -> (usize, String) {
    let threads: Vec<_> = std::fs::read_dir("/proc/self/task").unwrap().flatten().collect();
    let children = |thread: &std::fs::DirEntry| {
        std::fs::read_to_string(thread.path().join("children")).unwrap_or_default()
    };
    (threads.len(), threads.iter().map(children).collect())
}

#[tokio::test]
async fn sessions_of_one_factory_share_no_answer_and_no_end() {
    let workspace = Workspace::new();
    let always = |_| async { UserAnswer::allow_for_session() };
    let factory = workspace.builder().on_prompt(always).load().unwrap();
    let checked = factory.check("Read", json!({"file_path": "notes.txt"})).await.unwrap();
    assert_eq!(checked.verdict, haft::decision::Verdict::Allow);
    let (first, second) = (factory.open().await.unwrap(), factory.open().await.unwrap());
    assert_ne!(first.id(), second.id());
    let write =
        |id: &str| ToolCall::new(id, "Write", json!({"file_path": format!("{id}.txt"), "content": "x"}));
    assert!(first.submit(write("1")).await.error().is_none());
    drop(first);
    assert!(second.submit(write("2")).await.error().is_none(), "the other session goes on");
}

/// All events of a run or a turn have arrived when it returns.
#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_before_a_run_returns() {
    let workspace = Workspace::new();
    let seen: Arc<Mutex<Vec<u64>>> = Arc::default();
    let (noted, ended) = (seen.clone(), Arc::<AtomicUsize>::default());
    let ends = ended.clone();
    let session = workspace
        .builder()
        .on_event(move |event| {
            // As slow as a terminal.
            std::thread::yield_now();
            noted.lock().unwrap().push(event.seq);
            if matches!(event.kind, SessionEventKind::Run(RunEvent::Ended { .. })) {
                ends.fetch_add(1, Ordering::SeqCst);
            }
        })
        .build()
        .await
        .unwrap();
    let mut events = session.handle().events();
    let read = |id: &str| ToolCall::new(id, "Read", json!({"file_path": "notes.txt"}));
    for round in 0..20 {
        session.run_turn([read("1"), read("2")]).await;
        let mut last = 0;
        while let Some(event) = events.try_next() {
            last = event.seq;
        }
        assert_eq!(seen.lock().unwrap().last(), Some(&last), "round {round}");
    }
    let mut agent = session.agent_with(scripted(&json!([{"text": "One."}, {"text": "Two."}]))).await.unwrap();
    for run in 1..=2 {
        agent.run("Go on.").await;
        assert_eq!(ended.load(Ordering::SeqCst), run);
    }
    assert!(seen.lock().unwrap().is_sorted());
}

/// Polls a future at most this many times.
struct PolledAtMost<'a, F> {
    future: Pin<&'a mut F>,
    left: usize,
}

impl<F: Future> Future for PolledAtMost<'_, F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        match self.future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            // Gives up immediately, and not at the next wake-up.
            Poll::Pending if self.left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Counts the calls that run.
struct RunningCall(Arc<AtomicUsize>);

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How a session ends during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionEnd {
    Dropped,
    Closed,
}

/// A run is dropped at each of its await points, and the session ends then: no call continues, and the
/// session is listed, ended and can be resumed.
#[tokio::test]
async fn a_run_that_is_dropped_at_any_await_leaves_nothing() {
    for end in [SessionEnd::Dropped, SessionEnd::Closed] {
        let mut completed = false;
        for polls in 0..200 {
            completed = drop_after(polls, end).await;
            if completed {
                assert!(polls > 3, "the run has await points");
                break;
            }
        }
        assert!(completed, "{end:?}: a run needs fewer polls");
    }
}

/// A session is dropped while its run continues in another task, after each number of runtime steps: the
/// run ends completely.
#[tokio::test]
async fn a_session_that_is_dropped_at_any_step_ends_its_run() {
    let mut steps = 0;
    loop {
        let interrupted = InterruptedSession::default();
        let session = interrupted.builder().build().await.unwrap();
        let id = session.id().to_owned();
        let mut agent = session.agent_with(InterruptedSession::model()).await.unwrap();
        let run = tokio::spawn(async move { agent.run("Go.").await });
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        let completed = run.is_finished();
        drop(session);
        let outcome = run.await.unwrap();
        interrupted.check_end(&id, &format!("{steps} steps")).await;
        if completed {
            assert!(steps > 3 && outcome.text == "Done.", "{steps} steps: {}", outcome.text);
            break;
        }
        // Further steps wait for threads that read and write files.
        steps = match steps {
            0..24 => steps + 1,
            24..64 => steps + 4,
            _ => steps * 2,
        };
    }
}

async fn take_time(count: Arc<AtomicUsize>) -> Result<&'static str, haft::ToolError> {
    count.fetch_add(1, Ordering::SeqCst);
    let _call = RunningCall(count);
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
    Ok("done")
}

/// A workspace whose sessions have a slow tool and are interrupted.
struct InterruptedSession {
    workspace: Workspace,
    running: Arc<AtomicUsize>,
}

impl Default for InterruptedSession {
    fn default() -> InterruptedSession {
        InterruptedSession { workspace: Workspace::new(), running: Arc::default() }
    }
}

impl InterruptedSession {
    fn builder(&self) -> SessionBuilder {
        let count = self.running.clone();
        let slow = tool("slow", "Takes its time.", move |_: NoInput, _| take_time(count.clone()));
        let slow = slow.effects(|_| Effects::none());
        self.workspace.builder().tool(slow).on_prompt(|_| async { UserAnswer::allow_once() })
    }

    /// A model that makes parallel calls, and one that asks and writes a file.
    fn model() -> ScriptedModel {
        scripted(&json!([
            {"tool_calls": [{"name": "slow", "input": {}}, {"name": "Read", "input": {"file_path": "notes.txt"}}]},
            {"tool_calls": [{"name": "Write", "input": {"file_path": "new.txt", "content": "x"}}]},
            {"text": "Done."}
        ]))
    }

    /// Checks that no call continues, and that the session is listed, ended and can be resumed.
    async fn check_end(&self, id: &str, when: &str) {
        // A cancelled call ends at its next poll.
        while self.running.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
        let is_written = || self.workspace.work().join("new.txt").exists();
        let written = is_written();
        let listed = SessionStore::open(&self.workspace.environment()).unwrap().list();
        if let Some(entry) = listed.first() {
            assert!(entry.id == id && entry.is_ended && !entry.is_running, "{when}: {entry}");
            let again = self.builder().resume(ResumeFrom::Id(id.to_owned())).build().await;
            assert!(again.is_ok_and(|again| again.id() == id), "{when}");
        } else {
            assert!(!written, "{when}: a call without a journal");
        }
        assert_eq!(is_written(), written, "{when}: a call ran on");
    }
}

/// Returns whether the run completed.
async fn drop_after(polls: usize, end: SessionEnd) -> bool {
    let interrupted = InterruptedSession::default();
    let session = interrupted.builder().build().await.unwrap();
    let id = session.id().to_owned();
    let completed = give_up(&session, polls).await;
    match end {
        SessionEnd::Dropped => drop(session),
        SessionEnd::Closed => drop(session.close().await),
    }
    interrupted.check_end(&id, &format!("{polls} polls, {end:?}")).await;
    completed
}

/// Makes calls, begins an agent and runs it, and makes a call again. Gives up after this many polls.
async fn give_up(session: &Session, polls: usize) -> bool {
    let work = async {
        session.run_turn([ToolCall::new("0", "slow", json!({}))]).await;
        let mut agent = session.agent_with(InterruptedSession::model()).await.unwrap();
        let outcome = agent.run("Go.").await;
        assert_eq!(outcome.text, "Done.");
        session.submit(ToolCall::new("9", "slow", json!({}))).await;
    };
    let mut work = pin!(work);
    PolledAtMost { future: work.as_mut(), left: polls }.await.is_some()
}
