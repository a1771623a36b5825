//! A panic, wherever it happens, is one failed result; the turn goes on, and nobody is told its words.

use std::future::Future;
use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use haft::decision::DecisionReason;
use haft::event::EventKind;
use haft::hooks::{HookSet, PreHookResponse};
use haft::ports::ApprovalAnswer;
use haft::testing::{EventLog, ScriptedAsker, TestCaller, TestHook, scripted_tool};
use haft::view::CallStage;
use haft::{
    CallView, Cause, Context, Effects, ErrorKind, IntoOutput, Json, NoInput, Tool, ToolError, ToolOutput,
    ToolSpec, tool,
};
use serde_json::json;

use crate::reader;

const SECRET: &str = "secret words of a panic";

/// Where a [`Bad`] tool panics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    Decode,
    Effects,
    Check,
    CheckLater,
    Permission,
    PermissionLater,
    Describe,
    View,
    Guard,
    GuardLater,
    MakeCall,
    Call,
    CallLater,
    DropFuture,
    DropInputInCall,
    DropOutput,
    IntoOutput,
    Payload,
}

impl Place {
    fn reached(self, place: Place) {
        assert_ne!(self, place, "{SECRET}");
    }
}

/// Panics somewhere.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Anything {
    #[serde(default, deserialize_with = "decode")]
    #[expect(dead_code, reason = "decoding it is what matters")]
    decode_panics: bool,
    #[serde(skip)]
    armed: Option<Bomb>,
}

fn decode<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let panics: bool = serde::Deserialize::deserialize(deserializer)?;
    assert!(!panics, "{SECRET}");
    Ok(panics)
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("{SECRET}");
    }
}

struct Bad(Place);

/// What it gives back.
struct Given(Place, #[expect(dead_code, reason = "dropping it is what matters")] Option<Bomb>);

impl IntoOutput for Given {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        self.0.reached(Place::IntoOutput);
        "text".into_output()
    }
}

impl Tool for Bad {
    type Input = Anything;
    type Output = Given;

    fn spec(&self) -> ToolSpec {
        let place = self.0;
        ToolSpec::new("bad").guard(move |input, _| {
            place.reached(Place::Guard);
            async move {
                tokio::task::yield_now().await;
                place.reached(Place::GuardLater);
                Ok(input)
            }
        })
    }

    fn effects(&self, _: &Anything) -> Effects {
        self.0.reached(Place::Effects);
        Effects::none()
    }

    fn check(&self, _: &Anything, _: &Context) -> impl Future<Output = Result<(), ToolError>> + Send {
        self.0.reached(Place::Check);
        async {
            tokio::task::yield_now().await;
            self.0.reached(Place::CheckLater);
            Ok(())
        }
    }

    fn permission(&self, _: &Anything, _: &Context) -> impl Future<Output = Option<DecisionReason>> + Send {
        self.0.reached(Place::Permission);
        async {
            tokio::task::yield_now().await;
            self.0.reached(Place::PermissionLater);
            // So that a person is asked, and `describe` with it.
            Some(DecisionReason::ask("it is bad"))
        }
    }

    fn call(
        &self,
        mut input: Anything,
        _: &Context,
    ) -> impl Future<Output = Result<Given, ToolError>> + Send {
        self.0.reached(Place::MakeCall);
        let place = self.0;
        let bomb = |at: Place| (place == at).then(|| Bomb);
        let (in_future, in_output) = (bomb(Place::DropFuture), bomb(Place::DropOutput));
        input.armed = bomb(Place::DropInputInCall);
        let work = async move {
            place.reached(Place::Call);
            if place == Place::Payload {
                panic_any(Bomb);
            }
            tokio::task::yield_now().await;
            place.reached(Place::CallLater);
            drop(input);
            Ok(Given(place, in_output))
        };
        let mut work = Box::pin(work);
        std::future::poll_fn(move |cx| {
            let _in_future = &in_future;
            work.as_mut().poll(cx)
        })
    }

    fn describe(&self, _: &Anything) -> Option<String> {
        self.0.reached(Place::Describe);
        Some("Does something bad".into())
    }

    fn view(&self, _: &CallStage<'_>) -> Option<CallView> {
        self.0.reached(Place::View);
        None
    }
}

/// Runs the bad call between two good ones, of which the first runs all the while.
async fn check(place: Place, expected: Option<ErrorKind>) {
    let (slow, handle) = scripted_tool("slow").effects(|_| Effects::none()).build();
    let log = EventLog::new();
    let asker = ScriptedAsker::new().then(ApprovalAnswer::Once);
    let caller = TestCaller::new()
        .tool(Bad(place))
        .tool(slow)
        .tool(reader("read"))
        .engine(|engine| engine.asker(asker.clone()).events(log.clone()));
    let input = json!({"decode_panics": place == Place::Decode});
    let turn = caller.start([
        ("1", "slow", json!({})),
        ("2", "bad", input),
        ("3", "read", json!({})),
        ("4", "slow", json!({})),
    ]);
    // Each says its id, whichever starts first.
    let end = |call: haft::testing::StartedCall| {
        let id = call.context().call().id().to_owned();
        call.succeed(id);
    };
    let first = handle.started().await;
    // What can't be read, or is unknown, waits for what runs before it; the rest runs beside it.
    if !matches!(place, Place::Decode | Place::Effects) {
        log.wait_for(|event| {
            let bad = event.call.as_ref().is_some_and(|call| &*call.id == "2");
            bad && matches!(event.what, EventKind::Finished(_))
        })
        .await;
        assert!(!first.is_dropped(), "{place:?}: siblings run on");
    }
    end(first);
    end(handle.started().await);
    let results = turn.results().await;
    assert_eq!(results[1].error_kind(), expected, "{place:?}: {results:?}");
    assert_eq!(results[0].to_json().output, "1", "{place:?}");
    assert_eq!(results[2].to_json().output, "done", "{place:?}");
    assert_eq!(results[3].to_json().output, "4", "{place:?}");
    let mut told = format!("{results:?}");
    for result in results.iter() {
        told.push_str(&format!("{:?} {:?} {:?}", result.to_json(), result.view(), result.for_model()));
        told.push_str(&format!("{:?}", result.error().and_then(|error| error.source())));
    }
    told.push_str(&format!("{:?}", asker.approvals()));
    told.push_str(&format!("{:?}", log.events()));
    assert!(!told.contains(SECRET), "{place:?}: {told}");
    // And the session goes on.
    assert_eq!(caller.call("read", "{}").await.error_kind(), None);
}

#[tokio::test]
async fn panics_before_a_call_runs() {
    check(Place::Nowhere, None).await;
    check(Place::Decode, Some(ErrorKind::Panicked)).await;
    // Unknown effects ask, and the user said yes.
    check(Place::Effects, None).await;
    check(Place::Check, Some(ErrorKind::Panicked)).await;
    check(Place::CheckLater, Some(ErrorKind::Panicked)).await;
    check(Place::Permission, Some(ErrorKind::Denied)).await;
    check(Place::PermissionLater, Some(ErrorKind::Denied)).await;
    check(Place::Guard, Some(ErrorKind::Blocked)).await;
    check(Place::GuardLater, Some(ErrorKind::Blocked)).await;
}

#[tokio::test]
async fn panics_where_a_person_looks_on_change_nothing() {
    check(Place::Describe, None).await;
    check(Place::View, None).await;
}

#[tokio::test]
async fn panics_while_a_call_runs() {
    for place in [
        Place::MakeCall,
        Place::Call,
        Place::CallLater,
        Place::DropFuture,
        Place::DropInputInCall,
        Place::DropOutput,
        Place::IntoOutput,
        Place::Payload,
    ] {
        check(place, Some(ErrorKind::Panicked)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panics_on_other_threads_are_the_same() {
    check(Place::Call, Some(ErrorKind::Panicked)).await;
    check(Place::DropFuture, Some(ErrorKind::Panicked)).await;
    check(Place::Payload, Some(ErrorKind::Panicked)).await;
}

#[tokio::test]
async fn panics_on_a_thread_of_their_own_are_the_same() {
    let payload = tool("payload", "Panics.", |_: NoInput, _| async {
        if true {
            panic_any(Bomb);
        }
        Ok(())
    });
    let in_drop = tool("in_drop", "Panics.", |_: NoInput, _| {
        let bomb = Bomb;
        std::future::poll_fn(move |_| {
            let _keep = &bomb;
            Poll::Ready(Ok("text"))
        })
    });
    let caller = TestCaller::new()
        .tool(payload.effects(|_| Effects::none()).blocking())
        .tool(in_drop.effects(|_| Effects::none()).blocking())
        .tool(reader("read"));
    let results = caller.turn([("1", "payload", "{}"), ("2", "in_drop", "{}"), ("3", "read", "{}")]).await;
    let kinds: Vec<_> = results.iter().map(|result| result.error_kind()).collect();
    assert_eq!(kinds, [Some(ErrorKind::Panicked), Some(ErrorKind::Panicked), None]);
}

/// A structured output whose own code panics while it is written.
#[tokio::test]
async fn panics_while_an_output_is_written() {
    #[derive(schemars::JsonSchema)]
    struct Unwritable;
    impl serde::Serialize for Unwritable {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            panic!("{SECRET}");
        }
    }
    let write = tool("write", "Panics.", |_: NoInput, _| async { Ok(Json(Unwritable)) });
    let result = TestCaller::new().tool(write.effects(|_| Effects::none())).call("write", "{}").await;
    assert_eq!(result.error_kind(), Some(ErrorKind::Panicked));
}

/// Cancelled while its `Drop` panics: the answer is the cancellation.
#[tokio::test]
async fn panics_in_the_drop_of_a_cancelled_call() {
    let running = Arc::new(AtomicUsize::new(0));
    let started = Arc::new(tokio::sync::Notify::new());
    let (count, notify) = (running.clone(), started.clone());
    let stuck = tool("stuck", "Never ends.", move |_: NoInput, _| {
        count.fetch_add(1, Ordering::SeqCst);
        notify.notify_one();
        let bomb = Bomb;
        std::future::poll_fn(move |_| {
            let _keep = &bomb;
            Poll::<Result<(), ToolError>>::Pending
        })
    });
    let caller = TestCaller::new().tool(stuck.effects(|_| Effects::none())).tool(reader("read"));
    let turn = caller.start([("1", "stuck", "{}"), ("2", "stuck", "{}")]);
    while running.load(Ordering::SeqCst) < 2 {
        started.notified().await;
    }
    turn.handle().cancel(Cause::User);
    let results = turn.results().await;
    let kinds: Vec<_> = results.iter().map(|result| result.error().unwrap().cause()).collect();
    assert_eq!(kinds, [Some(Cause::User), Some(Cause::User)]);
    assert_eq!(caller.call("read", "{}").await.error_kind(), None);
}

#[tokio::test]
async fn a_tool_that_panics_when_asked_whether_it_is_there_is_not() {
    let caller =
        TestCaller::new().tool(reader("bad").unavailable_reason(|| panic!("{SECRET}"))).tool(reader("read"));
    caller
        .turn([("1", "bad", "{}"), ("2", "read", "{}")])
        .await
        .check(["1 UnknownTool: bad is not offered: it is not available now", "2 ok: done"]);
}

#[tokio::test]
async fn hooks_that_panic_do_not_say_their_words() {
    for hook in [
        TestHook::new("bad").panicking(),
        TestHook::new("bad").on_before(|_| -> Result<PreHookResponse, _> { panic!("{SECRET}") }),
        TestHook::new("bad").on_before(|_| -> Result<PreHookResponse, _> { panic_any(Bomb) }),
    ] {
        let log = EventLog::new();
        let hooks = HookSet::new().before(hook);
        let caller =
            TestCaller::new().tool(reader("read")).engine(|engine| engine.hooks(hooks).events(log.clone()));
        let results = caller.turn([("1", "read", "{}"), ("2", "read", "{}")]).await;
        assert!(results.iter().all(|result| result.error_kind() == Some(ErrorKind::HookFailed)));
        assert!(!format!("{results:?} {:?}", log.events()).contains(SECRET));
    }
}

/// An input that is decoded and never used: its call is refused, and it goes when nobody waits for it any
/// more.
#[tokio::test]
async fn panics_in_the_drop_of_an_input_that_is_never_used() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Grenade {}
    impl Drop for Grenade {
        fn drop(&mut self) {
            panic!("{SECRET}");
        }
    }
    let refuses = tool("refuses", "Never runs.", |input: Grenade, _| {
        std::mem::forget(input);
        std::future::ready(Ok("held"))
    })
    .effects(|_| Effects::none())
    .permission(|_| Some(DecisionReason::deny("no")));
    let caller = TestCaller::new().tool(refuses).tool(reader("read"));
    caller
        .turn([("1", "refuses", "{}"), ("2", "read", "{}")])
        .await
        .check(["1 Denied: refuses refuses this call: no", "2 ok: done"]);
}
