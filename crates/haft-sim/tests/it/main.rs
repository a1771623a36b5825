//! Many stories: all invariants hold in them, the same seed tells the same one, and planted bugs are found.
#![expect(clippy::print_stdout, reason = "what a proof finds is printed for its page")]

use std::collections::BTreeMap;

use haft_sim::{Bug, Story, Tally, simulate};

/// How many stories every test run tells.
const SEEDS: u64 = 150;
/// How many a proof tells.
const SEEDS_PROVEN: u64 = 20_000;
/// Within so many stories every planted bug has to be found.
const SEEDS_CANARY: u64 = 120;

/// Tells these stories on all cores, and gives what they tell of together.
fn tell(seeds: std::ops::Range<u64>) -> (Tally, Vec<Story>) {
    let threads = std::thread::available_parallelism().map_or(2, usize::from) as u64;
    let parts: Vec<(Tally, Vec<Story>)> = std::thread::scope(|scope| {
        let tellers: Vec<_> = (0..threads)
            .map(|teller| {
                let seeds = seeds.clone();
                scope.spawn(move || {
                    let (mut tally, mut broken) = (Tally::default(), Vec::new());
                    for seed in seeds.filter(|seed| seed % threads == teller) {
                        let story = simulate(seed, None);
                        tally.add(&story.tally);
                        if !story.broken.is_empty() && broken.len() < 3 {
                            broken.push(story);
                        }
                    }
                    (tally, broken)
                })
            })
            .collect();
        tellers.into_iter().map(|teller| teller.join().expect("a story ends")).collect()
    });
    let (mut tally, mut broken) = (Tally::default(), Vec::new());
    for (part, stories) in parts {
        tally.add(&part);
        broken.extend(stories);
    }
    (tally, broken)
}

fn check(seeds: std::ops::Range<u64>) -> Tally {
    let (tally, broken) = tell(seeds);
    for story in broken.iter().take(2) {
        println!("{}", story.text());
    }
    let lines: Vec<String> =
        broken.iter().map(|story| format!("{}: {:?}", story.seed, story.broken)).collect();
    assert!(broken.is_empty(), "cargo xtask simulate --seed {}\n{}", broken[0].seed, lines.join("\n"));
    tally
}

#[test]
fn all_invariants_hold() {
    let tally = check(0..SEEDS);
    // Nothing is proven by stories in which nothing goes wrong.
    for (what, much) in [
        ("changes", tally.changed),
        ("deaths", tally.deaths),
        ("finished calls taken up", tally.taken),
        ("unknown outcomes", tally.unknown),
        ("failures of the journal", tally.journal_failures),
        ("calls that could not be recorded", tally.not_recorded),
        ("refusals", tally.refused),
        ("panics", tally.panics),
        ("timeouts", tally.timeouts),
        ("cancelled calls", tally.cancelled),
        ("results in files", tally.offloaded),
    ] {
        assert!(much >= 10, "only {much} {what} in {SEEDS} stories: {tally:?}");
    }
}

/// Stories that once were broken: a result out of the order of the calls (4106, 4937), a script that began a turn again after one
/// that was paused (6165, 9977), and words that were missed though who asked had an answer (1038, 3038).
#[test]
fn what_was_found_once_stays_mended() {
    for seed in [1038, 3038, 4106, 4937, 6165, 9977] {
        let story = simulate(seed, None);
        assert!(story.broken.is_empty(), "{}", story.text());
    }
}

#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in 0..30 {
        let (first, second) = (simulate(seed, None), simulate(seed, None));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.tally, second.tally, "seed {seed}");
    }
}

#[test]
fn every_planted_bug_is_found() {
    let mut found = BTreeMap::new();
    for bug in Bug::ALL {
        let seed = (0..SEEDS_CANARY).find(|seed| !simulate(*seed, Some(bug)).broken.is_empty());
        let seed = seed.unwrap_or_else(|| panic!("{bug:?} is not found in {SEEDS_CANARY} stories"));
        found.insert(format!("{bug:?}"), seed);
    }
    println!("found at the seeds {found:?}");
}

#[test]
#[ignore = "prove"]
fn prove_that_all_invariants_hold() {
    let tally = check(0..SEEDS_PROVEN);
    println!(
        "proof: {SEEDS_PROVEN} sessions, {} processes died; {} calls answered, {} tools began, {} of them to change something",
        tally.deaths, tally.answered, tally.started, tally.changed
    );
    println!(
        "proof: {} finished calls were taken up by another process and {} outcomes said to be unknown; none ran twice",
        tally.taken, tally.unknown
    );
    println!(
        "proof: {} panics, {} timeouts, {} cancelled, {} refused, {} not recorded; {} operations of the journal failed",
        tally.panics,
        tally.timeouts,
        tally.cancelled,
        tally.refused,
        tally.not_recorded,
        tally.journal_failures
    );
}
