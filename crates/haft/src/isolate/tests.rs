//! A call and everything that it may do, over a pipe that is narrower than most frames.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use haft_scheduler::Cause;
use haft_scheduler::sync::lock;
use serde_json::json;

use super::scene::*;
use super::*;
use crate::content::Output;
use crate::error::ErrorKind;
use crate::future::BoxFuture;
use crate::ports::Ports;
use crate::{Engine, Registry, ToolCall, ToolSpec};

/// Runs one call and sees that the other side ends too.
async fn run(scene: &Scene, act: &str, path: &Path) -> Result<Output, ToolError> {
    let (ours, theirs) = narrow();
    let child = child(theirs);
    let outcome = within(serve_parent(Box::new(ours), "worker", &input(act, path), &scene.cx)).await;
    within(child).await.expect("a child never panics");
    outcome
}

async fn say(scene: &Scene, act: &str, path: &Path) -> String {
    run(scene, act, path).await.map_or_else(|error| format!("{error:?}"), |output| output.to_text())
}

#[tokio::test(start_paused = true)]
async fn files_are_reached_through_the_host_and_with_its_access() {
    let scene = scene();
    assert_eq!(say(&scene, "read", &scene.inside.join("in")).await, "granted");
    assert_eq!(say(&scene, "read", Path::new("in")).await, "granted", "relative to the host's directory");
    for outside in
        [scene.outside.join("in"), scene.inside.join("../outside/in"), scene.inside.join("link/in")]
    {
        let error = run(&scene, "read", &outside).await.unwrap_err();
        assert!(error.message().contains("what this call may read"), "{error}");
        assert!(error.source().is_none(), "sources stay in the child");
        let error = run(&scene, "write", &outside.with_file_name("new")).await.unwrap_err();
        assert!(error.message().contains("what this call may write"), "{error}");
    }
    assert_eq!(std::fs::read_dir(&scene.outside).unwrap().count(), 2);

    assert_eq!(
        say(&scene, "write", Path::new("sub/new")).await,
        "Written { existed: false, other_names: 0, lost_owner: false, lost_attributes: false }"
    );
    assert_eq!(std::fs::read(scene.inside.join("sub/new")).unwrap(), b"\0\xffnew");
    assert!(say(&scene, "write", Path::new("sub/new")).await.contains("exists already"));
    assert_eq!(say(&scene, "list", Path::new(".")).await, "\"in\" File\n\"link\" Link\n\"sub\" Directory\n");
    let here = scene.cx.files().metadata(Path::new("in")).await.unwrap();
    assert_eq!(say(&scene, "look", Path::new("in")).await, format!("{here:?}"));
    assert_eq!(say(&scene, "tidy", &scene.inside).await, "tidied");
    assert!(say(&scene, "look", Path::new("")).await.contains("the path is empty"));
}

#[tokio::test(start_paused = true)]
async fn names_need_not_be_text() {
    use std::os::unix::ffi::OsStrExt as _;
    let scene = scene();
    let name = std::ffi::OsStr::from_bytes(b"sub/\xff\n");
    std::fs::create_dir(scene.inside.join("sub")).unwrap();
    std::fs::write(scene.inside.join(name), "x").unwrap();
    assert_eq!(say(&scene, "list", Path::new("sub")).await, "\"\\xFF\\n\" File\n");
}

#[tokio::test(start_paused = true)]
async fn a_tree_is_walked_over_the_pipe_and_links_are_not_followed() {
    let scene = scene();
    std::fs::create_dir(scene.inside.join("sub")).unwrap();
    std::fs::write(scene.inside.join("sub/f"), "text").unwrap();
    std::fs::write(scene.inside.join("sub/empty"), "").unwrap();
    std::os::unix::fs::symlink("f", scene.inside.join("sub/inner")).unwrap();
    assert_eq!(
        say(&scene, "walk", Path::new(".")).await,
        "\"in\" File granted 7\n\"link\" Link refused [true, true]\n\"sub\" Directory (\n\"empty\" File  0\n\
         \"f\" File text 4\n\"inner\" Link refused [true, true]\n)\n"
    );
    let refused = say(&scene, "walk", &scene.outside).await;
    assert!(refused.contains("what this call may read"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn files_can_be_read_in_pieces_and_held_only_so_many_at_once() {
    let scene = scene();
    std::fs::write(scene.inside.join("abc"), "abcdefghij").unwrap();
    assert_eq!(say(&scene, "seek", Path::new("abc")).await, "defg");
    let said = say(&scene, "hoard", Path::new("abc")).await;
    assert!(said.starts_with("64, then: "), "{said}");
    // Larger than one answer, so several of them.
    let large = "0123456789abcdef".repeat(150_000);
    std::fs::write(scene.inside.join("large"), &large).unwrap();
    assert_eq!(say(&scene, "read", Path::new("large")).await, large);
}

#[tokio::test(start_paused = true)]
async fn many_requests_are_under_way_at_once() {
    let scene = scene();
    (0..40).for_each(|n| std::fs::write(scene.inside.join(format!("{n}")), format!("{n};")).unwrap());
    let expected: String = (0..40).rev().map(|n| format!("{n};")).collect();
    assert_eq!(say(&scene, "many", &scene.inside).await, expected);
}

#[tokio::test(start_paused = true)]
async fn events_reach_the_hosts_watchers_and_never_pile_up() {
    let scene = scene();
    assert_eq!(say(&scene, "tell", Path::new("")).await, "told");
    let events = lock(&scene.events.0);
    let shown: Vec<_> = events.iter().take(4).map(|what| format!("{what:?}")).collect();
    assert_eq!(
        shown,
        [
            "Progress(Progress { fraction: Some(0.5), message: Some(\"half\") })",
            "Progress(Progress { fraction: None, message: None })",
            "Partial(\"some\")",
            "Warning(\"look\")",
        ]
    );
    assert_eq!(events.len(), crate::limits::ISOLATE_EVENTS_MAX / 2, "the rest was dropped");
}

#[tokio::test(start_paused = true)]
async fn questions_are_answered_by_the_hosts_user() {
    assert_eq!(say(&scene(), "ask", Path::new("")).await, r#"Some(["which?", "1", ""])"#);
    assert!(say(&scene_of("c", None), "ask", Path::new("")).await.contains("nobody to ask"));
}

#[tokio::test(start_paused = true)]
async fn questions_that_nobody_waits_for_are_withdrawn() {
    let scene = scene_without_answers();
    let (ours, theirs) = narrow();
    let child = child(theirs);
    let input = input("withdraw", Path::new(""));
    let parent = serve_parent(Box::new(ours), "worker", &input, &scene.cx);
    let user = async {
        scene.question_gone.notified().await;
        assert!(!scene.cancel.is_cancelled());
        scene.cancel.cancel(Cause::User);
    };
    let (outcome, ()) = within(async { tokio::join!(parent, user) }).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
    within(child).await.unwrap();
    // More of them than the host takes at once wait in the child, and nothing is left of them.
    assert_eq!(say(&scene_without_answers(), "crowd", Path::new("")).await, "granted");
}

#[tokio::test(start_paused = true)]
async fn a_result_is_the_same_as_in_one_process() {
    let scene = scene();
    assert_eq!(run(&scene, "picture", Path::new("")).await.unwrap(), picture());
    assert_eq!(say(&scene, "who", Path::new("")).await, "session agent 7 call-1 3 true 0");

    let error = run(&scene, "fail", Path::new("")).await.unwrap_err();
    assert_eq!((error.kind(), error.message(), error.is_retryable()), (ErrorKind::Blocked, "no, ü", true));
    assert!(error.source().is_none());
    let error = run(&scene, "senseless", Path::new("")).await.unwrap_err();
    assert_eq!((error.kind(), error.is_semantic()), (ErrorKind::InvalidInput, true));
    let error = run(&scene, "panic", Path::new("")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Panicked);
    assert!(!error.message().contains("told to"));
    let error = run(&scene, "huge", Path::new("")).await.unwrap_err();
    assert!(error.message().contains("its result is lost"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_the_child_does_not_have_is_an_error() {
    let scene = scene();
    let (ours, theirs) = narrow();
    let child = child(theirs);
    let error = within(serve_parent(Box::new(ours), "other", &json!({}), &scene.cx)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownTool);
    within(child).await.unwrap();
    let error = run(&scene, "look", Path::new("")).await;
    assert!(error.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_child_is_told_why_and_then_left() {
    let scene = scene_of("cancelled-one", Some(true));
    let (ours, theirs) = narrow();
    let child = child(theirs);
    let input = input("wait", Path::new(""));
    let parent = serve_parent(Box::new(ours), "worker", &input, &scene.cx);
    let cancel = async {
        // Long after the child has begun to wait: the clock moves when nothing else does.
        tokio::time::sleep(Duration::from_secs(1)).await;
        scene.cancel.cancel(Cause::Sibling);
    };
    let (outcome, ()) = within(async { tokio::join!(parent, cancel) }).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.cause()), (ErrorKind::Cancelled, Some(Cause::Sibling)));
    within(child).await.unwrap();
    assert_eq!(causes_of("cancelled-one"), [Cause::Sibling]);
}

#[tokio::test(start_paused = true)]
async fn dropping_either_side_ends_the_other_and_withdraws_questions() {
    let scene = scene_of("dropped", Some(false));
    // The parent goes.
    let (ours, theirs) = narrow();
    let child_task = child(theirs);
    let ask = input("ask", Path::new(""));
    let parent = serve_parent(Box::new(ours), "worker", &ask, &scene.cx);
    assert!(tokio::time::timeout(Duration::from_secs(1), parent).await.is_err(), "the user doesn't answer");
    within(child_task).await.unwrap();
    within(scene.question_gone.notified()).await;
    // The child goes.
    let (ours, theirs) = narrow();
    let child_task = child(theirs);
    let kill = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        child_task.abort();
    };
    let parent = serve_parent(Box::new(ours), "worker", &ask, &scene.cx);
    let (outcome, ()) = within(async { tokio::join!(parent, kill) }).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert!(error.message().contains("its process ended"), "{error}");
    within(scene.question_gone.notified()).await;
    // Nobody tells the child, it only loses its host.
    let (ours, theirs) = narrow();
    let child_task = child(theirs);
    let wait = input("wait", Path::new(""));
    let parent = serve_parent(Box::new(ours), "worker", &wait, &scene.cx);
    assert!(tokio::time::timeout(Duration::from_secs(1), parent).await.is_err());
    within(child_task).await.unwrap();
    assert_eq!(causes_of("dropped"), [Cause::Shutdown]);
}

/// The other end of the pipe in the same process.
struct SameProcess;

impl Isolator for SameProcess {
    fn connect<'a>(
        &'a self,
        tool: &'a str,
        _: &'a Context,
    ) -> BoxFuture<'a, Result<Box<dyn Pipe>, ToolError>> {
        Box::pin(async move {
            assert_eq!(tool, "worker");
            let (ours, theirs) = narrow();
            child(theirs);
            Ok(Box::new(ours) as Box<dyn Pipe>)
        })
    }
}

async fn through_engine(ports: impl FnOnce(&mut Ports), act: &str) -> crate::ToolResult {
    let engine = Engine::builder(Registry::new().with(tools()).unwrap()).ports(ports).build();
    let call = ToolCall::new("engine", "worker", input(act, Path::new("")).to_string());
    within_engine(engine.turn().run([call])).await.remove(0)
}

async fn within_engine<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(300), work).await.expect("hangs")
}

#[tokio::test(start_paused = true)]
async fn the_engine_runs_it_here_or_there_with_the_same_result() {
    let isolator = |ports: &mut Ports| ports.isolator = Some(Arc::new(SameProcess));
    for act in ["picture", "fail", "panic", "senseless"] {
        let here = through_engine(|_| {}, act).await.to_json();
        let there = through_engine(isolator, act).await.to_json();
        assert_eq!((here.output, here.is_error), (there.output, there.is_error), "{act}");
        assert_eq!(format!("{:?}", here.error), format!("{:?}", there.error), "{act}");
    }
    let here = through_engine(|_| {}, "wait").await;
    let there = through_engine(isolator, "wait").await;
    assert_eq!(here.error().unwrap().kind(), ErrorKind::TimedOut);
    assert_eq!(there.error().unwrap().kind(), ErrorKind::TimedOut);
    assert_eq!(here.error().unwrap().message(), there.error().unwrap().message());
    assert_eq!(causes_of("engine"), [Cause::Timeout, Cause::Timeout]);
}

struct Needy;

impl Tool for Needy {
    type Input = crate::NoInput;
    type Output = ();
    fn spec(&self) -> ToolSpec {
        ToolSpec::new("needy").description("Needs.").needs(Port::Isolator).needs(Port::Processes)
    }
    async fn call(&self, _: crate::NoInput, _: &Context) -> Result<(), ToolError> {
        Ok(())
    }
}

#[test]
fn what_a_child_does_not_have_can_not_be_needed() {
    let Err(error) = Registry::new().with(isolated(|| Needy)) else { panic!("registered") };
    assert_eq!(
        error.to_string(),
        "tool `needy` can't be isolated: it needs Processes, which is not there in a child process"
    );
    let registry = Registry::new().with(tools()).unwrap().with(Needy).unwrap();
    let isolated: Vec<_> = registry.entries().map(|entry| entry.tool().spec().is_isolated()).collect();
    assert_eq!(isolated, [true, false]);
}

struct Blocker;

impl Tool for Blocker {
    type Input = crate::NoInput;
    type Output = String;
    fn spec(&self) -> ToolSpec {
        ToolSpec::new("blocker").description("Blocks.").blocking()
    }
    async fn call(&self, _: crate::NoInput, cx: &Context) -> Result<String, ToolError> {
        // Its own thread may sleep; the pipe goes on beside it.
        std::thread::sleep(Duration::from_millis(20));
        Ok(cx.files().read_to_string(Path::new("in")).await?)
    }
}

#[tokio::test]
async fn a_blocking_tool_has_a_thread_in_the_child() {
    let scene = scene();
    let (ours, theirs) = narrow();
    let child =
        tokio::spawn(async move { run_child(theirs, &[isolated(|| Worker), isolated(|| Blocker)]).await });
    let output = within(serve_parent(Box::new(ours), "blocker", &json!({}), &scene.cx)).await.unwrap();
    assert_eq!(output.to_text(), "granted");
    within(child).await.unwrap();
}
