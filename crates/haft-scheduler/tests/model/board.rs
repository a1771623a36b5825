//! The races of a turn on the real board, the real cancellation and the real scheduler.
//!
//! A small turn is played by threads that do what `dispatch/turn.rs` of `haft` does, in its order: calls
//! arrive while others run, each call is driven by a thread of its own, and at the same time somebody
//! interrupts, a call is answered by a third party, siblings are stopped, the session ends. Shuttle chooses
//! who goes next at every lock, wake-up and atomic; it says so if everybody waits. What has to hold:
//!
//! - exactly one result for each call, in call order; the first counts and whoever is late gets its own back;
//! - all results are there as soon as the last one is, and not before;
//! - no more at once than may be, nothing beside a call that must be alone, over all turns of the board;
//! - calls that conflict run in the order in which they came, over all turns and submitted calls;
//! - the board forgets every call and every turn;
//! - nothing starts to run after it was ended or cancelled;
//! - everything that was begun is reached by the stop, and nothing is left in the tree of cancellations;
//! - no foreign code under the lock: jobs and wakers look at the board when they are dropped or called.

use std::pin::Pin;
use std::sync::Mutex as Plain;
use std::task::{Context, Wake, Waker};

use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::{check_pct, check_random, thread};

use crate::board::{CallBatch, CallBoard, NewCall, StartedCall};
use crate::cancel::{Cancel, Cause, until_cancelled};
use crate::scheduler::{ConflictRule, Footprint, Interrupt, SchedulerLimits};
use crate::sync::{Arc, Weak, explore};

/// Who said what about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Own(usize),
    Cancelled(usize, Cause),
    ByOthers(usize),
    Refused(usize, Cause),
}

impl Said {
    fn call(self) -> usize {
        let (Said::Own(call) | Said::Cancelled(call, _) | Said::ByOthers(call) | Said::Refused(call, _)) =
            self;
        call
    }
}

/// What a call does on its way.
#[derive(Clone, Copy, Default)]
struct Plan {
    safe: bool,
    interruptible: bool,
    asks: bool,
    /// It turns out to be the other class after all.
    turns: bool,
    fails: bool,
}

struct Job {
    call: usize,
    plan: Plan,
    turn: Weak<Turn>,
}

impl Drop for Job {
    fn drop(&mut self) {
        // The input of a tool may do anything when it is dropped. Under the lock this would never return.
        if let Some(turn) = self.turn.upgrade() {
            turn.batch.is_done(self.call);
        }
    }
}

/// What the turns of an agent share.
struct Agent {
    board: CallBoard<Job, Said>,
    session: Cancel,
    cap: usize,
    runs: Plain<Runs>,
}

/// The runs of an agent, kept beside the board by plain means.
#[derive(Default)]
struct Runs {
    /// The numbers of the calls that run, and whether they are safe.
    running: Vec<(usize, bool)>,
    /// The calls that have run and never changed their class.
    order: Vec<(usize, bool)>,
}

impl Agent {
    fn new(cap: usize) -> Arc<Agent> {
        let (board, session) = (new_board(cap), Cancel::new());
        Arc::new(Agent { board, session, cap, runs: Plain::default() })
    }

    /// A call starts to run.
    fn start(&self, number: usize, safe: bool, changed: bool) {
        let mut runs = self.runs.lock().unwrap();
        runs.running.push((number, safe));
        assert!(runs.running.len() <= self.cap, "{:?}", runs.running);
        assert!(safe && runs.running.iter().all(|(_, safe)| *safe) || runs.running.len() == 1);
        if !changed {
            let conflicting = runs.order.iter().filter(|(_, other)| !(safe && *other));
            for (earlier, _) in conflicting {
                assert!(*earlier < number, "{number} came before {earlier} and runs after it");
            }
            runs.order.push((number, safe));
        }
    }

    fn end(&self, number: usize) {
        self.runs.lock().unwrap().running.retain(|(running, _)| *running != number);
    }

    /// After the last turn.
    fn audit(&self) {
        assert_eq!(self.board.remembered(), (0, 0), "ended calls and turns are forgotten");
        assert_eq!(self.session.child_count(), 0, "ended calls are forgotten");
        assert!(self.runs.lock().unwrap().running.is_empty());
    }
}

struct Turn {
    agent: Arc<Agent>,
    batch: CallBatch<Job, Said>,
    books: Plain<Books>,
}

/// Kept beside the board by plain means, which add no interleavings.
#[derive(Default)]
struct Books {
    running: Vec<usize>,
    began: Vec<(usize, Cancel)>,
    /// How often a result was accepted, by call.
    accepted: Vec<usize>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Turn {
    /// A turn that is alone on its board.
    fn new(cap: usize) -> Arc<Turn> {
        Turn::of(&Agent::new(cap))
    }

    fn of(agent: &Arc<Agent>) -> Arc<Turn> {
        let batch = agent.board.open_batch();
        Arc::new(Turn { agent: agent.clone(), batch, books: Plain::default() })
    }

    fn books<T>(&self, look: impl FnOnce(&mut Books) -> T) -> T {
        look(&mut self.books.lock().unwrap())
    }

    fn push(self: &Arc<Turn>, plan: Plan) -> usize {
        let call = self.books(|books| {
            books.accepted.push(0);
            books.accepted.len() - 1
        });
        let job = Job { call, plan, turn: Arc::downgrade(self) };
        let footprint = Footprint { safe: plan.safe, keys: None };
        let interrupt = if plan.interruptible { Interrupt::Cancel } else { Interrupt::Block };
        assert_eq!(self.batch.push(NewCall { job, footprint, tool: 1, limit: None, interrupt }), call);
        call
    }

    /// Begins the calls of all turns of the agent that may.
    fn go(&self) {
        for (StartedCall { call, job, .. }, cancel) in
            self.agent.board.start_all(|| self.agent.session.child())
        {
            let turn = job.turn.upgrade().expect("a turn outlives its calls");
            let plan = job.plan;
            drop(job);
            turn.books(|books| books.began.push((call, cancel.clone())));
            let driven = turn.clone();
            let thread = thread::spawn(move || driven.drive(call, plan, &cancel));
            turn.books(|books| books.threads.push(thread));
        }
    }

    fn drive(self: &Arc<Turn>, call: usize, plan: Plan, cancel: &Cancel) {
        let said = match block_on(self.lead(call, plan, cancel)) {
            Ok(()) => Said::Own(call),
            Err(cause) => Said::Cancelled(call, cause),
        };
        self.end(said);
        if plan.fails && said == Said::Own(call) {
            self.batch.stop_siblings(call);
        }
        self.go();
    }

    async fn lead(self: &Arc<Turn>, call: usize, plan: Plan, cancel: &Cancel) -> Result<(), Cause> {
        until_cancelled(cancel, std::future::ready(())).await?;
        if plan.asks {
            self.batch.begin_asking(call);
            self.go();
            thread::yield_now();
        }
        if plan.turns && !self.batch.reconsider(call, Footprint { safe: !plan.safe, keys: None }) {
            self.go();
            until_cancelled(cancel, self.batch.wait(call)).await?;
        }
        if !self.batch.authorize(call) {
            self.go();
            until_cancelled(cancel, self.batch.wait(call)).await?;
        }
        let safe = plan.safe != plan.turns;
        let number = self.batch.number(call);
        self.books(|books| {
            assert_eq!(books.accepted[call], 0, "{call} runs although it has its answer");
            books.running.push(call);
            self.agent.start(number, safe, plan.turns);
        });
        thread::yield_now();
        let ended = until_cancelled(cancel, std::future::ready(())).await;
        self.books(|books| {
            books.running.retain(|running| *running != call);
            self.agent.end(number);
        });
        ended
    }

    /// Gives a call its result, once.
    fn end(&self, said: Said) -> bool {
        let call = said.call();
        let number = self.batch.number(call);
        let accept = || {
            self.books(|books| {
                books.accepted[call] += 1;
                books.running.retain(|running| *running != call);
                self.agent.end(number);
            });
        };
        // Half of the calls have something to say between being over and having a result.
        if call % 2 == 1 {
            let claimed = self.batch.claim(call).is_some();
            if claimed {
                accept();
                thread::yield_now();
                self.batch.deliver(call, said);
            }
            return claimed;
        }
        // Said in the same breath as it is accepted, so that nobody can see the one without the other.
        let accepted = self.batch.finish(call, said, |said, _| {
            accept();
            said
        });
        if let Err(back) = accepted {
            assert_eq!(back, said, "whoever is late gets back what it gave");
        }
        accepted.is_ok()
    }

    fn stop(&self, cause: Cause, force: bool) {
        self.batch.stop(cause, force, |_, job| {
            let call = job.call;
            self.books(|books| books.accepted[call] += 1);
            Said::Refused(call, cause)
        });
        if force {
            // Whatever had begun and was not done then has been told.
            let began = self.books(|books| books.began.clone());
            for (call, cancel) in began {
                assert!(cancel.is_cancelled() || self.batch.is_done(call), "{call} was not told");
            }
        }
        self.go();
    }

    /// Waits for everything, and looks at what came of it.
    fn results(self: &Arc<Turn>) -> Vec<Said> {
        let results = block_on(self.batch.results());
        let calls = self.books(|books| books.accepted.len());
        assert_eq!(
            results.iter().map(|said| said.call()).collect::<Vec<_>>(),
            (0..calls).collect::<Vec<_>>()
        );
        results
    }

    /// After the last thread of the turn.
    fn audit(self: Arc<Turn>) {
        while let Some(thread) = self.books(|books| books.threads.pop()) {
            thread.join().unwrap();
        }
        self.books(|books| {
            assert!(books.accepted.iter().all(|accepted| *accepted == 1), "{:?}", books.accepted);
            assert!(books.running.is_empty());
            books.began.clear();
        });
        assert_eq!(Arc::strong_count(&self), 1, "nobody holds on to the turn");
        let agent = self.agent.clone();
        drop(self);
        // Only the test itself is left.
        if Arc::strong_count(&agent) == 1 {
            agent.audit();
        }
    }
}

fn new_board<Job, Done>(running: usize) -> CallBoard<Job, Done> {
    CallBoard::new(ConflictRule::Classes, SchedulerLimits { running, preparing: 32 })
}

/// Adds a safe call that an interrupt spares.
fn push_safe<Done>(board: &CallBatch<(), Done>) {
    let footprint = Footprint { safe: true, keys: None };
    board.push(NewCall { job: (), footprint, tool: 1, limit: None, interrupt: Interrupt::Block });
}

fn random_plan() -> Plan {
    let mut random = thread_rng();
    Plan {
        safe: random.gen_bool(0.7),
        interruptible: random.gen_bool(0.5),
        asks: random.gen_bool(0.3),
        turns: random.gen_bool(0.2),
        fails: random.gen_bool(0.2),
    }
}

/// Somebody who meddles with the turn while it runs.
fn meddle(turn: &Arc<Turn>) {
    let mut random = thread_rng();
    match random.gen_range(0..6) {
        0 => turn.stop(Cause::User, false),
        1 => turn.stop(Cause::Shutdown, true),
        2 => turn.agent.session.cancel(Cause::Shutdown),
        // A third party answers a call that runs: it took too long, or moved to the background.
        3 | 4 => {
            let running = turn.books(|books| books.running.first().copied());
            if let Some(call) = running
                && turn.end(Said::ByOthers(call))
            {
                turn.go();
            }
        }
        _ => turn.batch.stop_siblings(0),
    }
}

/// A turn of up to five calls, with two who meddle.
fn a_turn() {
    let mut random = thread_rng();
    let turn = Turn::new(random.gen_range(1..3));
    let calls = random.gen_range(1..5);
    let plans: Vec<Plan> = (0..calls).map(|_| random_plan()).collect();
    let meddlers: Vec<_> = (0..2)
        .map(|_| {
            let turn = turn.clone();
            thread::spawn(move || meddle(&turn))
        })
        .collect();
    for plan in plans {
        turn.push(plan);
        turn.go();
    }
    turn.batch.complete();
    turn.go();
    turn.results();
    meddlers.into_iter().for_each(|meddler| meddler.join().unwrap());
    turn.audit();
}

#[test]
fn a_turn_comes_to_one_result_for_each_call() {
    check_random(a_turn, 6_000);
}

#[test]
fn a_turn_comes_to_one_result_for_each_call_with_few_preemptions() {
    check_pct(a_turn, 2_000, 3);
}

/// Submits one call and waits for its result, or drops it at some time.
fn submit(agent: &Arc<Agent>, plan: Plan, is_dropped: bool) {
    let turn = Turn::of(agent);
    turn.push(plan);
    turn.batch.complete();
    turn.go();
    if is_dropped {
        turn.stop(Cause::Shutdown, true);
    }
    assert_eq!(turn.results().len(), 1);
    turn.audit();
}

/// A turn with one who meddles, while two threads submit calls and drop some of them.
fn a_turn_beside_submitted_calls() {
    let mut random = thread_rng();
    let agent = Agent::new(random.gen_range(1..3));
    let submitters: Vec<_> = (0..2)
        .map(|_| {
            let agent = agent.clone();
            let plans: Vec<(Plan, bool)> =
                (0..random.gen_range(1..3)).map(|_| (random_plan(), random.gen_bool(0.3))).collect();
            thread::spawn(move || {
                plans.into_iter().for_each(|(plan, is_dropped)| submit(&agent, plan, is_dropped));
            })
        })
        .collect();
    let turn = Turn::of(&agent);
    let meddler = {
        let turn = turn.clone();
        thread::spawn(move || meddle(&turn))
    };
    for _ in 0..random.gen_range(1..3) {
        turn.push(random_plan());
        turn.go();
    }
    turn.batch.complete();
    turn.go();
    turn.results();
    meddler.join().unwrap();
    submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
    turn.audit();
    agent.audit();
}

#[test]
fn turns_and_submitted_calls_are_in_one_order() {
    check_random(a_turn_beside_submitted_calls, 4_000);
}

#[test]
fn turns_and_submitted_calls_are_in_one_order_with_few_preemptions() {
    check_pct(a_turn_beside_submitted_calls, 2_000, 3);
}

/// Everything that begins after the turn was stopped, or had begun before, is reached.
#[test]
fn a_stopped_turn_stays_stopped() {
    let body = || {
        let turn = Turn::new(2);
        let stopper = {
            let turn = turn.clone();
            thread::spawn(move || turn.stop(Cause::User, true))
        };
        for _ in 0..3 {
            turn.push(Plan { safe: true, ..Plan::default() });
            turn.go();
        }
        stopper.join().unwrap();
        let late = turn.push(Plan { safe: true, ..Plan::default() });
        turn.batch.complete();
        turn.go();
        let results = turn.results();
        assert_eq!(results[late], Said::Cancelled(late, Cause::User), "it came after the stop");
        for said in results {
            let cause = match said {
                Said::Cancelled(_, cause) | Said::Refused(_, cause) => Some(cause),
                Said::Own(_) | Said::ByOthers(_) => None,
            };
            assert!(cause.is_none_or(|cause| cause == Cause::User), "{said:?}");
        }
        turn.audit();
    };
    check_random(body, 3_000);
}

/// Two results of one call race, while somebody waits for it: one is accepted, the waiter is woken. All
/// interleavings.
#[test]
fn the_first_result_counts() {
    let body = || {
        let board: Arc<CallBatch<(), &str>> = Arc::new(new_board(1).open_batch());
        push_safe(&board);
        board.board().start_all(Cancel::new);
        let other = {
            let board = board.clone();
            thread::spawn(move || board.finish(0, "other", |said, _| said).map(drop))
        };
        let waiter = {
            let board = board.clone();
            thread::spawn(move || block_on(board.results()))
        };
        let own = board.finish(0, "own", |said, _| said).map(drop);
        let (other, results) = (other.join().unwrap(), waiter.join().unwrap());
        match results[..] {
            ["own"] => assert_eq!((own, other), (Ok(()), Err("other"))),
            ["other"] => assert_eq!((own, other), (Err("own"), Ok(()))),
            _ => panic!("{results:?}"),
        }
    };
    explore("two results of one call", 200_000, body);
}

/// A slot is freed while the next call comes to wait for it: the wake-up isn't lost. All interleavings.
#[test]
fn a_freed_slot_wakes_the_next() {
    let body = || {
        let board: Arc<CallBatch<(), ()>> = Arc::new(new_board(1).open_batch());
        for _ in 0..2 {
            push_safe(&board);
        }
        let cancels = board.board().start_all(Cancel::new);
        assert!(board.authorize(0));
        let next = {
            let board = board.clone();
            thread::spawn(move || {
                if !board.authorize(1) {
                    board.board().start_all(Cancel::new);
                    block_on(board.wait(1));
                }
                board.finish(1, (), |done, _| done).unwrap();
                board.board().start_all(Cancel::new);
            })
        };
        board.finish(0, (), |done, _| done).unwrap();
        board.board().start_all(Cancel::new);
        assert_eq!(block_on(board.results()).len(), 2);
        next.join().unwrap();
        drop(cancels);
    };
    explore("a slot is freed", 200_000, body);
}

/// A call waits for its slot while the turn is stopped: it goes one way or the other, and never hangs.
#[test]
fn a_waiting_call_is_reached_by_the_stop() {
    let body = || {
        let turn = Turn::new(1);
        turn.push(Plan { safe: true, ..Plan::default() });
        turn.push(Plan { safe: true, interruptible: true, ..Plan::default() });
        turn.batch.complete();
        turn.go();
        turn.stop(Cause::User, false);
        let results = turn.results();
        assert_ne!(results[0], Said::ByOthers(0));
        turn.audit();
    };
    check_random(body, 3_000);
}

/// Two calls that were taken for safe turn out not to be, at the same time: each runs alone.
#[test]
fn calls_that_turn_out_unsafe_take_their_turns() {
    let body = || {
        let turn = Turn::new(3);
        for turns in [true, true, false] {
            turn.push(Plan { safe: true, turns, ..Plan::default() });
        }
        turn.batch.complete();
        turn.go();
        assert_eq!(turn.results(), [Said::Own(0), Said::Own(1), Said::Own(2)]);
        turn.audit();
    };
    check_random(body, 3_000);
}

/// A waker that looks at the board, as a foreign executor's may: called under the lock it would never return.
struct Curious(Arc<CallBatch<(), ()>>);

impl Wake for Curious {
    fn wake(self: Arc<Curious>) {
        self.0.is_done(0);
    }
}

impl Drop for Curious {
    fn drop(&mut self) {
        self.0.is_done(0);
    }
}

#[test]
fn wakers_are_called_and_dropped_without_the_lock() {
    let body = || {
        let board: Arc<CallBatch<(), ()>> = Arc::new(new_board(1).open_batch());
        for _ in 0..2 {
            push_safe(&board);
        }
        let session = Cancel::new();
        let cancels: Vec<Cancel> =
            board.board().start_all(|| session.child()).into_iter().map(|(_, cancel)| cancel).collect();
        assert!(board.authorize(0) && !board.authorize(1));
        let poll = |future: Pin<&mut dyn Future<Output = ()>>| {
            let waker = Waker::from(std::sync::Arc::new(Curious(board.clone())));
            let _ = future.poll(&mut Context::from_waker(&waker));
        };
        let (mut wait, mut results) = (std::pin::pin!(board.wait(1)), board.results());
        let mut cancelled = cancels[0].cancelled();
        for _ in 0..2 {
            poll(wait.as_mut());
            let waker = Waker::from(std::sync::Arc::new(Curious(board.clone())));
            let mut cx = Context::from_waker(&waker);
            assert!(Pin::new(&mut results).poll(&mut cx).is_pending());
            assert!(Pin::new(&mut cancelled).poll(&mut cx).is_pending());
        }
        // Whichever of the two comes first takes the wakers.
        if thread_rng().gen_bool(0.5) {
            board.stop_siblings(1);
        }
        board.stop(Cause::User, true, |_, ()| ());
        board.finish(0, (), |done, _| done).unwrap();
        board.board().start_all(|| session.child());
        board.finish(1, (), |done, _| done).unwrap();
    };
    check_random(body, 20);
}
