//! What the board promises, one thread at a time; the races are in `tests/model`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::{
    CallBatch, CallBoard, Cancel, Cause, ConflictRule, Footprint, Interrupt, NewCall, SchedulerLimits,
};

type Said = (usize, &'static str);

fn new_board(cap: usize) -> CallBoard<usize, Said> {
    CallBoard::new(ConflictRule::Classes, SchedulerLimits { running: cap, preparing: 32 })
}

/// A batch whose jobs are their own indexes, alone on its board.
fn board(cap: usize, calls: &str) -> CallBatch<usize, Said> {
    let board = new_board(cap).open_batch();
    for (call, word) in calls.split_whitespace().enumerate() {
        push(&board, call, word);
    }
    board
}

/// `R` is safe, `W` isn't; `!` after it lets an interrupt cancel it.
fn push(board: &CallBatch<usize, Said>, job: usize, word: &str) {
    let interrupt = if word.ends_with('!') { Interrupt::Cancel } else { Interrupt::Block };
    let footprint = Footprint { safe: word.starts_with('R'), keys: None };
    assert_eq!(board.push(NewCall { job, footprint, tool: 1, limit: None, interrupt }), job);
}

fn begun(board: &CallBatch<usize, Said>, root: &Cancel) -> Vec<(usize, Cancel)> {
    board.board().start_all(|| root.child()).into_iter().map(|(begin, cancel)| (begin.job, cancel)).collect()
}

fn finish(board: &CallBatch<usize, Said>, call: usize, words: &'static str) -> Result<(), Said> {
    board.finish(call, (call, words), |done, _| done).map(drop)
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Count>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls once; the count says how often it was woken since.
fn poll<F: Future + Unpin>(future: &mut F, count: &Arc<Count>) -> Option<F::Output> {
    let waker = Waker::from(count.clone());
    match Pin::new(future).poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

fn count() -> Arc<Count> {
    Arc::new(Count(AtomicUsize::new(0)))
}

#[test]
fn results_come_in_call_order_when_the_last_one_is_there() {
    let (board, root, woken) = (board(10, "R R R"), Cancel::new(), count());
    assert_eq!(begun(&board, &root).len(), 3);
    let mut results = board.results();
    assert_eq!(poll(&mut results, &woken), None);
    for call in [2, 0] {
        finish(&board, call, "own").unwrap();
    }
    assert_eq!((poll(&mut results, &woken), woken.0.load(Ordering::Relaxed)), (None, 0));
    finish(&board, 1, "own").unwrap();
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert_eq!(poll(&mut results, &woken), Some(vec![(0, "own"), (1, "own"), (2, "own")]));
}

#[test]
fn no_calls_are_no_results_at_once() {
    assert_eq!(poll(&mut board(10, "").results(), &count()), Some(vec![]));
}

/// A call that was answered by others, because it took too long or moved to the background, may come back
/// when the results were taken: its own was counted as a second one then, and the count of unfinished calls
/// went below zero.
#[test]
fn a_late_result_is_given_back_also_after_the_turn() {
    let (board, root, woken) = (board(10, "R"), Cancel::new(), count());
    begun(&board, &root);
    finish(&board, 0, "abandoned").unwrap();
    assert_eq!(finish(&board, 0, "late"), Err((0, "late")));
    assert_eq!(poll(&mut board.results(), &woken), Some(vec![(0, "abandoned")]));
    assert!(board.is_done(0), "taken is still done");
    assert_eq!(finish(&board, 0, "later"), Err((0, "later")));
    board.stop(Cause::User, true, |_, _| panic!("there is nothing to refuse"));
}

#[test]
fn stopping_refuses_what_has_not_begun_and_cancels_what_may_be() {
    for force in [false, true] {
        let (board, root, woken) = (board(3, "R R! R R W R"), Cancel::new(), count());
        let cancels: Vec<Cancel> = begun(&board, &root).into_iter().map(|(_, cancel)| cancel).collect();
        assert_eq!(cancels.len(), 4);
        // 0 and 1 run, 2 has a slot and waits for something else, 3 has to wait for a slot.
        assert!(board.authorize(0) && board.authorize(1));
        assert!(board.authorize(2));
        assert!(!board.authorize(3));
        assert_eq!((board.mark_running(0), board.mark_running(1)), (None, None));
        board.stop(Cause::User, force, |_, job| (job, "refused"));
        assert_eq!(board.mark_running(2), Some(Cause::User), "it comes too late");
        let expected =
            [force.then_some(Cause::User), Some(Cause::User), Some(Cause::User), Some(Cause::User)];
        assert_eq!(cancels.iter().map(Cancel::cause).collect::<Vec<_>>(), expected);
        assert!(board.is_done(4) && board.is_done(5));
        for call in 0..4 {
            finish(&board, call, "own").unwrap();
        }
        let results = poll(&mut board.results(), &woken).expect("all are done");
        assert_eq!(results[4..], [(4, "refused"), (5, "refused")]);
    }
}

/// The user says no, or interrupts, while the message still arrives: what arrives later is not run either.
#[test]
fn what_arrives_after_the_stop_is_cancelled_as_it_begins() {
    let (board, root) = (board(10, "R"), Cancel::new());
    begun(&board, &root);
    assert!(board.authorize(0));
    board.stop(Cause::User, false, |_, job| (job, "refused"));
    board.stop(Cause::Shutdown, false, |_, job| (job, "refused"));
    push(&board, 1, "R");
    push(&board, 2, "W");
    board.complete();
    let late = begun(&board, &root);
    assert_eq!(
        late.iter().map(|(call, cancel)| (*call, cancel.cause())).collect::<Vec<_>>(),
        [(1, Some(Cause::User))]
    );
    finish(&board, 0, "own").unwrap();
    finish(&board, 1, "cancelled").unwrap();
    assert_eq!(begun(&board, &root)[0].1.cause(), Some(Cause::User));
}

#[test]
fn siblings_are_those_that_have_begun() {
    let (board, root) = (board(10, "R R R W"), Cancel::new());
    board.complete();
    let cancels: Vec<Cancel> = begun(&board, &root).into_iter().map(|(_, cancel)| cancel).collect();
    finish(&board, 1, "own").unwrap();
    finish(&board, 0, "failed").unwrap();
    board.stop_siblings(0);
    assert_eq!(cancels.iter().map(Cancel::cause).collect::<Vec<_>>(), [None, None, Some(Cause::Sibling)]);
    assert!(!board.is_done(3), "the next batch is not concerned");
}

#[test]
fn a_call_waits_for_its_slot_and_is_woken_for_it() {
    let (board, root, woken) = (board(1, "R R"), Cancel::new(), count());
    begun(&board, &root);
    assert!(board.authorize(0));
    assert!(!board.authorize(1));
    {
        let mut wait = Box::pin(board.wait(1));
        assert_eq!(poll(&mut wait, &woken), None);
        begun(&board, &root);
        assert_eq!((poll(&mut wait, &woken), woken.0.load(Ordering::Relaxed)), (None, 0));
        finish(&board, 0, "own").unwrap();
        begun(&board, &root);
        assert_eq!((poll(&mut wait, &woken), woken.0.load(Ordering::Relaxed)), (Some(()), 1));
    }
    let interrupted =
        |board: &CallBatch<usize, Said>| board.stop(Cause::User, false, |_, job| (job, "refused"));
    interrupted(&board);
    finish(&board, 1, "own").unwrap();
}

#[test]
fn what_ran_beside_others_is_told_so() {
    let (board, root) = (board(10, "R R W"), Cancel::new());
    board.complete();
    begun(&board, &root);
    assert!(board.authorize(0) && board.authorize(1));
    let mut seen = Vec::new();
    for call in [0, 1] {
        board
            .finish(call, (call, ""), |done, beside| {
                seen.push(beside);
                done
            })
            .unwrap();
    }
    begun(&board, &root);
    assert!(board.authorize(2));
    board
        .finish(2, (2, ""), |done, beside| {
            seen.push(beside);
            done
        })
        .unwrap();
    assert_eq!(seen, [true, true, false]);
}

/// Dropped calls are forgotten by the session: its tree of cancellations doesn't grow with the turns.
#[test]
fn ended_calls_leave_nothing_in_the_tree() {
    let (board, root) = (board(10, "R R W"), Cancel::new());
    drop(begun(&board, &root));
    assert_eq!(root.child_count(), 2, "the board keeps them while they are not done");
    finish(&board, 0, "own").unwrap();
    finish(&board, 1, "own").unwrap();
    assert_eq!(root.child_count(), 0);
}

/// Results, interrupts and siblings belong to a batch; order and slots to the board.
#[test]
fn batches_share_the_order_and_nothing_else() {
    let (board, root, woken) = (new_board(2), Cancel::new(), count());
    let (first, second) = (board.open_batch(), board.open_batch());
    push(&first, 0, "R!");
    push(&second, 0, "R!");
    push(&second, 1, "W");
    let cancels: Vec<Cancel> = begun(&first, &root).into_iter().map(|(_, cancel)| cancel).collect();
    assert_eq!(cancels.len(), 2, "whoever asks begins the calls of all batches");
    assert!(first.authorize(0) && second.authorize(0));
    first.stop_siblings(0);
    second.stop(Cause::User, false, |_, job| (job, "refused"));
    assert_eq!((cancels[0].cause(), cancels[1].cause()), (None, Some(Cause::User)));
    finish(&second, 0, "own").unwrap();
    assert_eq!(poll(&mut second.results(), &woken), Some(vec![(0, "own"), (1, "refused")]));
    assert_eq!(poll(&mut first.results(), &woken), None);
    finish(&first, 0, "own").unwrap();
    assert_eq!(poll(&mut first.results(), &woken), Some(vec![(0, "own")]));
    assert_eq!(board.remembered(), (0, 2));
    drop((first, second));
    assert_eq!(board.remembered(), (0, 0));
}

#[test]
fn a_batch_knows_the_numbers_of_its_calls_whatever_comes_in_between() {
    let board = new_board(2);
    let batches = [board.open_batch(), board.open_batch()];
    let mut expected = [Vec::new(), Vec::new()];
    for (number, batch) in [0, 0, 1, 0, 1, 1, 0, 0].into_iter().enumerate() {
        push(&batches[batch], expected[batch].len(), "R");
        expected[batch].push(number);
    }
    for (batch, expected) in batches.iter().zip(expected) {
        let numbers: Vec<usize> = (0..expected.len()).map(|call| batch.number(call)).collect();
        assert_eq!(numbers, expected);
    }
}

/// A batch that is dropped with calls in it is in no other batch's way.
#[test]
fn a_dropped_batch_is_forgotten_with_its_calls() {
    let (board, root) = (new_board(2), Cancel::new());
    let (first, second) = (board.open_batch(), board.open_batch());
    push(&first, 0, "W");
    push(&second, 0, "W");
    second.complete();
    assert!(begun(&second, &root).is_empty(), "the first call waits for its message");
    drop(first);
    assert_eq!(begun(&second, &root).len(), 1);
    assert_eq!(board.remembered(), (1, 1));
}
