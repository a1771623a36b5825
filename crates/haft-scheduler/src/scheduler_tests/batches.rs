//! Calls of several batches on one scheduler.

use super::*;

/// Calls of another batch wait for those that came before, also while the message of the earlier batch still arrives; calls
/// that don't conflict don't wait.
#[test]
fn batches_are_in_one_order() {
    let mut machine = Machine::new(ConflictRule::Effects, 10);
    machine.push_all("w(a) r(b)");
    machine.open_batch();
    machine.push_all("r(a) w(c)");
    machine.complete_batch(1);
    machine.settle();
    assert_eq!(machine.shows(), ".r.r", "the write waits for its message, and the read for the write");
    machine.complete_batch(0);
    machine.settle();
    assert_eq!(machine.shows(), "rr.r");
    machine.finish(0);
    machine.settle();
    assert_eq!(machine.shows(), "drrr");

    let mut machine = Machine::new(ConflictRule::Classes, 10);
    machine.push_all("R");
    machine.open_batch();
    machine.push_all("W R");
    machine.complete_batch(1);
    machine.settle();
    assert_eq!(machine.shows(), "r..");
    machine.finish(0);
    machine.settle();
    assert_eq!(machine.shows(), "dr.");
}

/// One call runs all the time, the others come and go: the scheduler remembers as many as are there.
#[test]
fn ended_calls_are_forgotten() {
    for rule in [ConflictRule::Classes, ConflictRule::Effects] {
        let mut scheduler = Scheduler::new(rule, limits(4));
        let first = scheduler.open_batch();
        scheduler.push(first, Foot::parse("r(a)").footprint(rule), 1, Some(2));
        assert_eq!(scheduler.step(), Some(SchedulerStep::Prepare(0)));
        for call in 1..10_000 {
            let batch = scheduler.open_batch();
            let tool = call as u32 % 7;
            scheduler.push(batch, Foot::parse("r(a)+rs(b)").footprint(rule), tool, Some(3));
            scheduler.complete(batch);
            assert_eq!(scheduler.step(), Some(SchedulerStep::Prepare(call)));
            assert!(scheduler.authorize(call));
            scheduler.finish(call);
            assert_eq!((scheduler.unfinished(), scheduler.limited.len()), (1, 1));
        }
        assert!(scheduler.work < 200_000, "{}", scheduler.work);
    }
}
