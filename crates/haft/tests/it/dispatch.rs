//! The calls of one message: who waits for whom, who is stopped by what, and that each has exactly one
//! result.

mod submit;

use std::sync::Arc;
use std::time::Duration;

use haft::decision::DecisionReason;
use haft::dispatch::{ConflictRule, TaskTable};
use haft::future::BoxFuture;
use haft::ports::{ApprovalAnswer, CallIntent, PermissionMode, RecordError, Recorder, Tasks};
use haft::testing::{
    EventLog, RunningTurn, ScriptedAsker, ScriptedTool, StartedCall, TestCaller, ToolHandle, let_tasks_run,
    scripted_tool,
};
use haft::tool::{AnyTool, Interrupt, SiblingPolicy};
use haft::{
    Cause, Effects, EngineBuilder, ErrorKind, PermissionRules, ToolCall, ToolError, ToolResult, limits,
};
use serde_json::{Value, json};

use crate::{Dir, changer, plain, reader};

const RULES: [ConflictRule; 2] = [ConflictRule::Classes, ConflictRule::Effects];

/// A tool that changes nothing and waits for its test.
pub(crate) fn read(name: &str) -> ScriptedTool {
    scripted_tool(name).effects(|_| Effects::none())
}

/// A tool that changes something that isn't a file, and waits for its test.
pub(crate) fn write(name: &str) -> ScriptedTool {
    scripted_tool(name)
        .effects(|_| Effects::writes_state("s"))
        .with(|tool| tool.permission(|_| Some(DecisionReason::allow())))
}

/// A tool that reads or writes the file of its input.
pub(crate) fn on_file(name: &str, effects: fn(&str) -> Effects) -> ScriptedTool {
    scripted_tool(name).effects(move |input| effects(input["path"].as_str().unwrap()))
}

pub(crate) fn edit(name: &str) -> ScriptedTool {
    on_file(name, |path| Effects::writes(path))
}

pub(crate) fn look(name: &str) -> ScriptedTool {
    on_file(name, |path| Effects::reads(path))
}

pub(crate) fn stoppable(tool: ScriptedTool) -> ScriptedTool {
    tool.with(|tool| tool.interrupt(Interrupt::Cancel))
}

pub(crate) fn path(name: &str) -> Value {
    json!({"path": name})
}

pub(crate) fn caller(tools: Vec<AnyTool>) -> TestCaller {
    tools.into_iter().fold(TestCaller::new(), TestCaller::tool)
}

/// A caller that asks for nothing, in a folder of its own.
pub(crate) fn free_caller(dir: &Dir, rule: ConflictRule, tools: Vec<AnyTool>) -> TestCaller {
    let (workspace, rules) =
        (dir.workspace(), PermissionRules::new().mode(PermissionMode::BypassPermissions));
    caller(tools).engine(|engine| engine.workspace(workspace).permissions(rules).schedule(rule))
}

pub(crate) fn with_tasks(caller: TestCaller) -> (TestCaller, Arc<TaskTable>) {
    let tasks = Arc::new(TaskTable::new());
    let port = tasks.clone();
    (caller.engine(|engine| engine.ports(|ports| ports.tasks = Some(port))), tasks)
}

pub(crate) fn call(id: &str, tool: &str) -> ToolCall {
    ToolCall::new(id, tool, "{}")
}

pub(crate) fn lines(results: &[ToolResult]) -> Vec<String> {
    let line = |result: &ToolResult| match result.outcome() {
        Ok(output) => format!("{} ok: {}", result.call_id(), output.to_text()),
        Err(error) => format!("{} {:?}: {}", result.call_id(), error.kind(), error.message()),
    };
    results.iter().map(line).collect()
}

pub(crate) async fn started(turn: &mut RunningTurn, handle: &ToolHandle) -> StartedCall {
    turn.meanwhile(handle.started()).await
}

#[track_caller]
fn none_started(handle: &ToolHandle, why: &str) {
    assert!(handle.try_started().is_none(), "{why}");
}

// ---- While a message arrives.

#[tokio::test(start_paused = true)]
async fn while_a_message_arrives_only_what_is_safe_starts() {
    let (read, reads) = read("read").build();
    let (write, writes) = write("write").build();
    let caller = caller(vec![read, write]);
    let mut turn = caller.as_engine().turn();
    assert_eq!(turn.push(call("a", "read")), 0);
    let a = reads.started().await;
    assert_eq!(turn.push(call("b", "read")), 1);
    let b = reads.started().await;
    assert_eq!(turn.push(call("c", "write")), 2);
    assert_eq!(turn.push(call("d", "read")), 3);
    b.succeed("b");
    a.succeed("a");
    let_tasks_run().await;
    assert_eq!(
        (writes.calls(), reads.calls()),
        (0, 2),
        "the write waits for the end, and the read for the write"
    );

    let finish = tokio::spawn(turn.finish());
    let c = writes.started().await;
    let_tasks_run().await;
    none_started(&reads, "a read behind a write sees what it wrote");
    c.succeed("c");
    reads.started().await.succeed("d");
    assert_eq!(lines(&finish.await.unwrap()), ["a ok: a", "b ok: b", "c ok: c", "d ok: d"]);
}

/// A stream that was cut: what runs is dropped, what waited never runs.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_dropped_stops_everything() {
    for rule in RULES {
        let ((read, reads), (write, writes)) = (read("read").build(), write("write").build());
        let caller = caller(vec![read, write]).engine(|engine| engine.schedule(rule));
        let mut turn = caller.as_engine().turn();
        turn.push(call("a", "read"));
        turn.push(call("b", "read"));
        turn.push(call("c", "write"));
        turn.push(call("d", "read"));
        let handle = turn.handle();
        let (a, b) = (reads.started().await, reads.started().await);
        drop(turn);
        a.dropped().await;
        b.dropped().await;
        let_tasks_run().await;
        assert_eq!(a.context().cancel().cause(), Some(Cause::Shutdown));
        assert_eq!((reads.running(), reads.dropped()), (0, reads.calls()));
        assert_eq!(writes.calls(), 0, "half of a message does nothing");
        assert_eq!(handle.interrupt(), [""; 0], "a handle of a turn that is gone does nothing");
        assert!(handle.detach(0).is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_dropped_while_it_finishes_stops_everything() {
    let ((read, reads), (write, writes)) = (read("read").build(), write("write").build());
    let caller = caller(vec![read, write]);
    let turn = caller.start([("1", "write", "{}"), ("2", "read", "{}"), ("3", "write", "{}")]);
    let running = writes.started().await;
    turn.abort();
    running.dropped().await;
    let_tasks_run().await;
    assert_eq!((writes.calls(), reads.calls()), (1, 0));
}

// ---- Order.

#[tokio::test(start_paused = true)]
async fn a_write_splits_a_message_into_batches() {
    let ((read, reads), (write, writes)) = (read("read").build(), write("write").build());
    let caller = caller(vec![read, write]);
    let calls = [("A", "read"), ("B", "read"), ("C", "write"), ("D", "read"), ("E", "read")];
    let mut turn = caller.start(calls.map(|(id, tool)| call(id, tool)));
    let (a, b) = (started(&mut turn, &reads).await, started(&mut turn, &reads).await);
    b.succeed("b");
    let_tasks_run().await;
    assert_eq!((reads.calls(), writes.calls()), (2, 0), "C waits for all before it, D and E for C");
    a.succeed("a");
    let c = started(&mut turn, &writes).await;
    let_tasks_run().await;
    assert_eq!((reads.calls(), reads.running()), (2, 0));
    c.succeed("c");
    let (d, e) = (started(&mut turn, &reads).await, started(&mut turn, &reads).await);
    assert_eq!((d.context().call().id(), e.context().call().id()), ("D", "E"));
    e.succeed("e");
    d.succeed("d");
    let results = turn.results().await;
    results.check(["A ok: a", "B ok: b", "C ok: c", "D ok: d", "E ok: e"]);
    let concurrent: Vec<bool> = results.iter().map(ToolResult::was_concurrent).collect();
    assert_eq!(concurrent, [true, true, false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn by_effects_only_what_overlaps_waits() {
    let dir = Dir::new();
    let ((edit, edits), (look, looks)) = (edit("edit").build(), look("look").build());
    let caller = free_caller(&dir, ConflictRule::Effects, vec![edit, look]);
    let mut turn = caller.start([
        ("1", "edit", path("a")),
        ("2", "edit", path("b")),
        ("3", "look", path("a")),
        ("4", "edit", path("a")),
        ("5", "look", path("c")),
    ]);
    let (first, second) = (started(&mut turn, &edits).await, started(&mut turn, &edits).await);
    assert_eq!((first.context().call().id(), second.context().call().id()), ("1", "2"));
    let fifth = started(&mut turn, &looks).await;
    assert_eq!(fifth.context().call().id(), "5");
    fifth.succeed("five");
    second.succeed("two");
    let_tasks_run().await;
    assert_eq!((edits.calls(), looks.calls()), (2, 1), "the rest is about a, which is being written");
    first.succeed("one");
    let third = started(&mut turn, &looks).await;
    let_tasks_run().await;
    none_started(&edits, "a is being read");
    third.succeed("three");
    started(&mut turn, &edits).await.succeed("four");
    let results = turn.results().await;
    results.check(["1 ok: one", "2 ok: two", "3 ok: three", "4 ok: four", "5 ok: five"]);
    let concurrent: Vec<bool> = results.iter().map(ToolResult::was_concurrent).collect();
    assert_eq!(concurrent, [true, true, false, false, true]);
}

// ---- How many.

#[tokio::test(start_paused = true)]
async fn no_more_run_at_once_than_may() {
    for (cap, rule) in [(1, RULES[0]), (7, RULES[0]), (7, RULES[1]), (limits::CONCURRENCY, RULES[0])] {
        let (read, reads) = read("read").build();
        let caller = TestCaller::new().tool(read).engine(|engine| engine.schedule(rule).max_concurrency(cap));
        let turn = caller.start((0..50).map(|id| call(&id.to_string(), "read")));
        let mut running = std::collections::VecDeque::new();
        let mut order = Vec::new();
        for _ in 0..50 {
            if running.len() == cap {
                let_tasks_run().await;
                none_started(&reads, "all slots are taken");
                let oldest: StartedCall = running.pop_front().unwrap();
                oldest.succeed("text");
            }
            let call = reads.started().await;
            order.push(call.context().call().index());
            running.push_back(call);
        }
        running.into_iter().for_each(|call| call.succeed("text"));
        assert!(turn.results().await.iter().all(|result| !result.is_error()));
        assert_eq!(reads.most_running(), cap);
        assert_eq!(order, (0..50).collect::<Vec<_>>(), "slots go out in call order");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_has_a_limit_of_its_own() {
    let (few, fews) = read("few").with(|tool| tool.concurrency(2)).build();
    let (read, reads) = read("read").build();
    let caller = caller(vec![few, read]).engine(|engine| engine.max_concurrency(4));
    let calls = [("1", "few"), ("2", "few"), ("3", "few"), ("4", "few"), ("5", "read"), ("6", "read")];
    let mut turn = caller.start(calls.map(|(id, tool)| call(id, tool)));
    let (one, two) = (started(&mut turn, &fews).await, started(&mut turn, &fews).await);
    let (five, six) = (started(&mut turn, &reads).await, started(&mut turn, &reads).await);
    let_tasks_run().await;
    none_started(&fews, "two is its limit, and waiting for it takes no slot");
    five.succeed("5");
    let_tasks_run().await;
    none_started(&fews, "a free slot is not room in the tool");
    two.succeed("2");
    let three = started(&mut turn, &fews).await;
    one.succeed("1");
    let four = started(&mut turn, &fews).await;
    [(three, "3"), (four, "4"), (six, "6")].into_iter().for_each(|(call, text)| call.succeed(text));
    turn.results().await.check(["1 ok: 1", "2 ok: 2", "3 ok: 3", "4 ok: 4", "5 ok: 5", "6 ok: 6"]);
    assert_eq!(fews.most_running(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_a_tool_holds_over_turns_and_engines() {
    let (few, fews) = read("few").with(|tool| tool.concurrency(2)).build();
    let caller = TestCaller::new().tool(few);
    let other = TestCaller::with_registry(caller.registry().clone());
    let calls = || ["1", "2", "3"].map(|id| call(id, "few"));
    let turns = [caller.start(calls()), caller.start(calls()), other.start(calls())];
    let mut running = vec![fews.started().await];
    for _ in 0..8 {
        running.push(fews.started().await);
        let_tasks_run().await;
        none_started(&fews, "two is its limit");
        running.remove(0).succeed("text");
    }
    running.remove(0).succeed("text");
    for turn in turns {
        turn.results().await.check(["1 ok: text", "2 ok: text", "3 ok: text"]);
    }
    assert_eq!((fews.most_running(), fews.calls()), (2, 9));
}

// ---- Questions.

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_starves_nobody() {
    for rule in RULES {
        let asker = ScriptedAsker::waiting();
        let (read, reads) = read("read").build();
        // More questions than there are slots, and than may be prepared at once.
        let questions = 40;
        let caller = TestCaller::new()
            .tool(plain("look", Effects::observes("x.io")))
            .tool(read)
            .engine(|engine| engine.asker(asker.clone()).schedule(rule).max_concurrency(2));
        let looks = (0..questions).map(|id| call(&format!("q{id}"), "look"));
        let mut turn = caller.start(looks.chain((0..10).map(|id| call(&format!("r{id}"), "read"))));
        for _ in 0..10 {
            started(&mut turn, &reads).await.succeed("text");
        }
        let_tasks_run().await;
        assert_eq!((asker.approvals().len(), reads.running()), (questions, 0));
        assert!(!turn.is_finished());
        let asked = asker.asked().await;
        turn.handle().cancel(Cause::User);
        let results = turn.results().await;
        assert!(asked.is_withdrawn());
        for (at, line) in results.lines().iter().enumerate() {
            let question =
                format!("q{at} Cancelled: look was not run; cancelled: the user interrupted this turn");
            let expected = if at < questions { question } else { format!("r{} ok: text", at - questions) };
            assert_eq!(*line, expected);
        }
    }
}

// ---- Exactly one result.

#[tokio::test(start_paused = true)]
async fn odd_calls_have_one_result_each_in_their_place() {
    for rule in RULES {
        let caller = TestCaller::new()
            .tool(reader("read"))
            .tool(changer("write"))
            .engine(|engine| engine.schedule(rule));
        let calls = [
            ("same", "read", "{}"),
            ("same", "write", "{}"),
            ("", "rread", "{}"),
            ("same", "read", "{"),
            ("same", "read", "[]"),
            ("", "read", "{}"),
        ];
        let lines = caller.turn(calls).await.lines();
        let starts = [
            "same ok: done",
            "same ok: done",
            " UnknownTool: no tool named `rread`; closest: `read`",
            "same InvalidInput: ",
            "same InvalidInput: ",
            " ok: done",
        ];
        let fits = lines.iter().zip(starts).all(|(line, start)| line.starts_with(start));
        assert!(fits && lines.len() == starts.len(), "{lines:#?}");
        assert_eq!(caller.turn([(); 0].map(|()| call("", ""))).await.len(), 0, "no calls, no results");
    }
}

/// What can't run has its own words, also when it was not its turn yet.
#[tokio::test(start_paused = true)]
async fn odd_calls_behind_a_call_that_is_cancelled_keep_their_own_words() {
    let (write, writes) = write("write").build();
    let caller = TestCaller::new().tool(write);
    let calls = [("1", "write", "{}"), ("2", "none", "{}"), ("1", "write", "{}"), ("3", "write", "{")];
    let mut turn = caller.start(calls);
    let _running = started(&mut turn, &writes).await;
    turn.handle().cancel(Cause::Shutdown);
    let lines = turn.results().await.lines();
    assert_eq!(
        lines[..3],
        [
            "1 Cancelled: write was cancelled: the session is ending; the user did not interrupt this call",
            "2 UnknownTool: no tool named `none`",
            "1 Cancelled: write was not run; cancelled: the session is ending; the user did not interrupt this call",
        ]
    );
    assert!(lines[3].starts_with("3 InvalidInput"), "{lines:?}");
    assert_eq!(writes.calls(), 1);
}

#[tokio::test]
async fn ten_thousand_calls_have_ten_thousand_results() {
    for rule in RULES {
        let caller = TestCaller::new()
            .tool(reader("read"))
            .tool(changer("write"))
            .engine(|engine| engine.schedule(rule).turn_budget(usize::MAX));
        let kinds = [("read", "{}"), ("write", "{}"), ("read", "{"), ("none", "{}"), ("read", "{}")];
        let calls = (0..10_000).map(|at| {
            let (tool, input) = kinds[at % kinds.len()];
            (at.to_string(), tool, input)
        });
        // The caller compares ids and order.
        let results = caller.turn(calls).await;
        for (at, result) in results.iter().enumerate() {
            let expected = match at % kinds.len() {
                2 => Some(ErrorKind::InvalidInput),
                3 => Some(ErrorKind::UnknownTool),
                _ => None,
            };
            assert_eq!(result.error_kind(), expected, "call {at}");
        }
    }
}

// ---- Interrupts.

#[tokio::test(start_paused = true)]
async fn an_interrupt_stops_what_may_be_stopped_and_names_the_rest() {
    let (stops, stopping) = stoppable(read("stops")).build();
    let (lasts, lasting) = read("lasts").build();
    let (write, writes) = write("write").build();
    let caller = caller(vec![stops, lasts, write]);
    let calls = [("1", "stops"), ("2", "lasts"), ("3", "lasts"), ("4", "write"), ("5", "stops")];
    let mut turn = caller.start(calls.map(|(id, tool)| call(id, tool)));
    let stopped = started(&mut turn, &stopping).await;
    let (two, three) = (started(&mut turn, &lasting).await, started(&mut turn, &lasting).await);
    three.succeed("three");
    let_tasks_run().await;
    assert_eq!(turn.handle().interrupt(), ["lasts"]);
    stopped.dropped().await;
    assert_eq!(stopped.context().cancel().cause(), Some(Cause::User));
    let_tasks_run().await;
    assert!(!two.is_dropped() && !turn.is_finished());
    assert_eq!(turn.handle().interrupt(), ["lasts"], "a second one says the same");
    two.succeed("two");
    let results = turn.results().await;
    results.check([
        "1 Cancelled: stops was cancelled: the user interrupted this turn",
        "2 ok: two",
        "3 ok: three",
        "4 Cancelled: write was not run; cancelled: the user interrupted this turn",
        "5 Cancelled: stops was not run; cancelled: the user interrupted this turn",
    ]);
    let causes: Vec<Option<Cause>> =
        results.iter().map(|result| result.error().and_then(ToolError::cause)).collect();
    assert_eq!(causes, [Some(Cause::User), None, None, Some(Cause::User), Some(Cause::User)]);
    assert_eq!((writes.calls(), stopping.calls()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_after_an_interrupt_stops_the_rest() {
    let (lasts, lasting) = read("lasts").build();
    let caller = TestCaller::new().tool(lasts);
    let mut turn = caller.start([call("1", "lasts")]);
    let running = started(&mut turn, &lasting).await;
    assert_eq!(turn.handle().interrupt(), ["lasts"]);
    turn.handle().cancel(Cause::User);
    running.dropped().await;
    turn.results().await.check(["1 Cancelled: lasts was cancelled: the user interrupted this turn"]);
}

/// What arrives after the interrupt is not begun either.
#[tokio::test(start_paused = true)]
async fn a_call_that_arrives_after_an_interrupt_does_not_run() {
    let ((read, reads), (write, writes)) = (read("read").build(), write("write").build());
    let caller = caller(vec![read, write]);
    let mut turn = caller.as_engine().turn();
    turn.handle().interrupt();
    turn.push(call("1", "read"));
    turn.push(call("2", "write"));
    let results = turn.finish().await;
    assert!(results.iter().all(|result| result.error().unwrap().cause() == Some(Cause::User)), "{results:?}");
    assert_eq!((reads.calls(), writes.calls()), (0, 0));
}

/// A call that has a slot and waits for a file that another agent writes has not begun, whatever its tool
/// says of interrupts.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_file_does_not_start_after_an_interrupt() {
    let dir = Dir::new();
    let ((edit, edits), (other, others)) = (edit("edit").build(), edit("other").build());
    let caller = free_caller(&dir, ConflictRule::Classes, vec![edit, other]);
    let mut first = caller.start([("1", "other", path("a"))]);
    let holding = started(&mut first, &others).await;
    let second = caller.start([("2", "edit", path("a"))]);
    let_tasks_run().await;
    assert_eq!(second.handle().interrupt(), [""; 0], "it doesn't run, so nothing is waited for");
    let_tasks_run().await;
    assert!(second.is_finished(), "nobody has to wait for the other agent");
    holding.succeed("one");
    second
        .results()
        .await
        .check(["2 Cancelled: edit was not run; cancelled: the user interrupted this turn"]);
    first.results().await.check(["1 ok: one"]);
    assert_eq!(edits.calls(), 0, "the user said stop");
}

/// The same for a tool with a limit that another agent has used up.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_its_tool_does_not_start_after_an_interrupt() {
    let (one, ones) = read("one").with(|tool| tool.concurrency(1)).build();
    let caller = TestCaller::new().tool(one);
    let mut first = caller.start([call("1", "one")]);
    let holding = started(&mut first, &ones).await;
    let second = caller.start([call("2", "one")]);
    let_tasks_run().await;
    assert_eq!(second.handle().interrupt(), [""; 0]);
    let_tasks_run().await;
    holding.succeed("text");
    second.results().await.check(["2 Cancelled: one was not run; cancelled: the user interrupted this turn"]);
    assert_eq!(ones.calls(), 1);
}

/// The same while the journal notes what is about to run.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_being_noted_does_not_start_after_an_interrupt() {
    /// Notes when it is told to.
    struct Slow(Arc<tokio::sync::Semaphore>);
    impl Recorder for Slow {
        fn before<'a>(&'a self, _: &'a CallIntent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
            Box::pin(async {
                self.0.acquire().await.unwrap().forget();
                Ok(())
            })
        }
        fn after<'a>(
            &'a self,
            _: &'a CallIntent<'a>,
            _: &'a ToolResult,
        ) -> BoxFuture<'a, Result<(), RecordError>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }
    let may = Arc::new(tokio::sync::Semaphore::new(0));
    let port = Arc::new(Slow(may.clone()));
    let (write, writes) = write("write").build();
    let caller =
        TestCaller::new().tool(write).engine(|engine| engine.ports(|ports| ports.recorder = Some(port)));
    let turn = caller.start([call("1", "write")]);
    let_tasks_run().await;
    assert_eq!(turn.handle().interrupt(), [""; 0]);
    may.add_permits(1);
    turn.results().await.check(["1 Cancelled: write was cancelled: the user interrupted this turn"]);
    assert_eq!(writes.calls(), 0);
}

// ---- Siblings.

#[tokio::test(start_paused = true)]
async fn who_fails_stops_its_siblings_only_where_the_policy_says_so() {
    #[derive(Clone, Copy)]
    enum End {
        Fails,
        Panics,
        IsLate,
    }
    async fn check(session: SiblingPolicy, tool: Option<SiblingPolicy>, end: End, stops: bool) {
        let bad = read("bad")
            .with(|bad| tool.into_iter().fold(bad.timeout_ms(1_000), |bad, tool| bad.on_error(tool)));
        let ((bad, bads), (read, reads)) = (bad.build(), read("read").build());
        let (write, writes) = write("write").build();
        let caller = caller(vec![bad, read, write]).engine(|engine| engine.sibling_policy(session));
        let calls = [("1", "read"), ("2", "bad"), ("3", "read"), ("4", "write"), ("5", "read")];
        let mut turn = caller.start(calls.map(|(id, tool)| call(id, tool)));
        let failing = started(&mut turn, &bads).await;
        let (one, three) = (started(&mut turn, &reads).await, started(&mut turn, &reads).await);
        one.succeed("one");
        let_tasks_run().await;
        match end {
            End::Fails => failing.fail(ToolError::new("bad luck")),
            End::Panics => failing.panic(),
            End::IsLate => tokio::time::advance(Duration::from_millis(1_010)).await,
        }
        let_tasks_run().await;
        assert_eq!(three.is_dropped(), stops);
        three.succeed("three");
        started(&mut turn, &writes).await.succeed("four");
        started(&mut turn, &reads).await.succeed("five");
        let lines = turn.results().await.lines();
        let third = if stops {
            "3 Cancelled: read was cancelled: another call of the same message failed, and this session stops \
             the rest then; the user did not interrupt"
        } else {
            "3 ok: three"
        };
        assert_eq!(
            [&lines[0], &lines[2], &lines[3], &lines[4]],
            ["1 ok: one", third, "4 ok: four", "5 ok: five"]
        );
    }
    use SiblingPolicy::{Never, OnError};
    check(Never, None, End::Fails, false).await;
    check(OnError, None, End::Fails, true).await;
    check(OnError, None, End::Panics, true).await;
    check(OnError, None, End::IsLate, true).await;
    check(Never, Some(OnError), End::Fails, true).await;
    check(Never, Some(OnError), End::Panics, true).await;
    check(OnError, Some(Never), End::Fails, false).await;
}

/// What never ran can't have failed.
#[tokio::test(start_paused = true)]
async fn who_never_ran_stops_no_siblings() {
    let (read, reads) = read("read").build();
    let panics = reader("panics").check(|_, _| async { panic!("in check") });
    let senseless = reader("senseless").check(|_, _| async { Err(ToolError::invalid_input("no")) });
    let caller = TestCaller::new()
        .tool(read)
        .tool(panics)
        .tool(senseless)
        .tool(plain("asks", Effects::observes("x.io")))
        .engine(|engine| engine.sibling_policy(SiblingPolicy::OnError));
    let calls = [("1", "read"), ("2", "panics"), ("3", "senseless"), ("4", "asks"), ("5", "none")];
    let mut turn = caller.start(calls.map(|(id, tool)| call(id, tool)));
    let running = started(&mut turn, &reads).await;
    let_tasks_run().await;
    assert!(!running.is_dropped());
    running.succeed("one");
    let results = turn.results().await;
    let kinds: Vec<Option<ErrorKind>> = results.iter().map(ToolResult::error_kind).collect();
    assert_eq!(kinds[0], None);
    assert!(kinds[1..].iter().all(Option::is_some), "{kinds:?}");
}

/// Being stopped is not failing: one cancelled call stops no other.
#[tokio::test(start_paused = true)]
async fn who_is_stopped_stops_no_siblings() {
    let (stops, stopping) = stoppable(read("stops")).build();
    let (lasts, lasting) = read("lasts").build();
    let caller = caller(vec![stops, lasts]).engine(|engine| engine.sibling_policy(SiblingPolicy::OnError));
    let mut turn = caller.start([call("1", "stops"), call("2", "lasts")]);
    let stopped = started(&mut turn, &stopping).await;
    let running = started(&mut turn, &lasting).await;
    turn.handle().interrupt();
    stopped.dropped().await;
    let_tasks_run().await;
    running.succeed("two");
    let results = turn.results().await;
    assert_eq!(results.lines()[1], "2 ok: two");
}

// ---- A bare no.

#[tokio::test(start_paused = true)]
async fn a_bare_no_ends_the_turn() {
    for rule in RULES {
        let asker = ScriptedAsker::waiting();
        let (stops, stopping) = stoppable(read("stops")).build();
        let (lasts, lasting) = read("lasts").build();
        let (write, writes) = write("write").build();
        let caller = caller(vec![stops, lasts, write, crate::any(plain("look", Effects::observes("x.io")))])
            .engine(|engine| engine.asker(asker.clone()).schedule(rule).max_concurrency(2));
        let calls = [
            ("1", "look"),
            ("2", "look"),
            ("3", "stops"),
            ("4", "lasts"),
            ("5", "stops"),
            ("6", "write"),
            ("7", "write"),
        ];
        let calls = calls.map(|(id, tool)| call(id, tool));
        let turn = caller.start(calls);
        let (first, second) = (asker.asked().await, asker.asked().await);
        let (stopped, lasting_call) = (stopping.started().await, lasting.started().await);
        first.answer(ApprovalAnswer::No);
        stopped.dropped().await;
        let_tasks_run().await;
        assert!(second.is_withdrawn(), "no further question");
        assert!(!lasting_call.is_dropped() && !turn.is_finished());
        lasting_call.succeed("four");
        turn.results().await.check([
            "1 Rejected: the user said no to look and ended the turn; wait for what they say",
            "2 Cancelled: look was not run; cancelled: the user interrupted this turn",
            "3 Cancelled: stops was cancelled: the user interrupted this turn",
            "4 ok: four",
            "5 Cancelled: stops was cancelled: the user interrupted this turn",
            if rule == ConflictRule::Classes {
                "6 Cancelled: write was not run; cancelled: the user interrupted this turn"
            } else {
                "6 Cancelled: write was cancelled: the user interrupted this turn"
            },
            "7 Cancelled: write was not run; cancelled: the user interrupted this turn",
        ]);
        assert_eq!((writes.calls(), stopping.calls()), (0, 1), "nothing begins after it");
    }
}

// ---- Time, and the end of the session.

#[tokio::test(start_paused = true)]
async fn a_time_limit_ends_one_call_and_no_other() {
    let (slow, slows) = read("slow").with(|tool| tool.timeout_ms(5_000)).build();
    let (read, reads) = read("read").build();
    let caller = caller(vec![slow, read]);
    let mut turn = caller.start([call("1", "slow"), call("2", "read")]);
    let (slow, read) = (started(&mut turn, &slows).await, started(&mut turn, &reads).await);
    tokio::time::advance(Duration::from_millis(5_010)).await;
    slow.dropped().await;
    assert_eq!(slow.context().cancel().cause(), Some(Cause::Timeout));
    let_tasks_run().await;
    assert!(!read.is_dropped());
    read.succeed("two");
    turn.results().await.check([
        "1 TimedOut: slow was stopped: it did not finish within 5 s; the user did not interrupt. Ask for less at once",
        "2 ok: two",
    ]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_session_ends_its_turns() {
    let ((read, reads), (write, writes)) = (read("read").build(), write("write").build());
    let (caller, tasks) = with_tasks(caller(vec![read, write]));
    let mut early = caller.start([call("0", "read")]);
    let background = started(&mut early, &reads).await;
    let task = early.handle().detach(0).unwrap().task;
    early.results().await;
    let mut turn = caller.start([call("1", "read"), call("2", "write"), call("3", "read")]);
    let running = started(&mut turn, &reads).await;
    caller.as_engine().shutdown(Cause::Shutdown);
    running.dropped().await;
    background.dropped().await;
    let results = turn.results().await;
    let causes: Vec<_> = results.iter().map(|result| result.error().and_then(ToolError::cause)).collect();
    assert_eq!(causes, [Some(Cause::Shutdown); 3]);
    assert_eq!((reads.calls(), writes.calls()), (2, 0));
    let_tasks_run().await;
    assert_eq!(tasks.result(task).unwrap().error().unwrap().cause(), Some(Cause::Shutdown));
    let later = caller.turn([call("4", "read")]).await;
    assert_eq!(later[0].error().unwrap().cause(), Some(Cause::Shutdown), "nothing starts after the end");
}

// ---- Background.

#[tokio::test(start_paused = true)]
async fn events_of_a_call_come_in_order() {
    let log = EventLog::new();
    let asker = ScriptedAsker::waiting();
    let (look, looks) = scripted_tool("look").effects(|_| Effects::observes("x.io")).build();
    let (write, _) = write("write").then("text").build();
    let change = |engine: EngineBuilder| engine.events(log.clone()).asker(asker.clone());
    let caller = caller(vec![look, write]).engine(change);
    let mut turn = caller.start([("1", "look", "{}"), ("2", "none", "{}"), ("3", "write", "{}")]);
    turn.meanwhile(asker.asked()).await.answer(ApprovalAnswer::Once);
    let running = started(&mut turn, &looks).await;
    running.context().progress(0.5, "half");
    running.context().partial("some");
    running.succeed("text");
    turn.results().await;
    assert_eq!(
        log.lines(),
        [
            "1 asking",
            "1 started",
            "1 progress 50 % half",
            "1 partial some",
            "1 finished",
            "2 finished: UnknownTool",
            "3 started",
            "3 finished",
        ]
    );
    let places: Vec<_> = log.events().iter().filter_map(|event| Some(event.call.as_ref()?.index)).collect();
    assert_eq!(places, [0, 0, 0, 0, 0, 1, 2, 2]);
}
