//! Many simulations: all invariants hold, equal seeds give equal traces, and the checks find
//! planted bugs.
#![expect(clippy::print_stdout, reason = "what a proof finds is printed for its page")]

use std::collections::BTreeMap;

use haft_sim::{EventCounts, PlantedBug, SimulationReport, simulate};

/// How many seeds every test run simulates.
const SEEDS: u64 = 150;
/// How many seeds a proof simulates.
const SEEDS_PROVEN: u64 = 20_000;
/// Every planted bug must be found within this many seeds.
const SEEDS_PER_BUG: u64 = 120;

/// Simulates a range of seeds on all cores; returns the total counts and the reports with
/// violations.
fn simulate_range(seeds: std::ops::Range<u64>) -> (EventCounts, Vec<SimulationReport>) {
    let threads = std::thread::available_parallelism().map_or(2, usize::from) as u64;
    let parts: Vec<(EventCounts, Vec<SimulationReport>)> = std::thread::scope(|scope| {
        let tellers: Vec<_> = (0..threads)
            .map(|teller| {
                let seeds = seeds.clone();
                scope.spawn(move || {
                    let (mut counts, mut violations) = (EventCounts::default(), Vec::new());
                    for seed in seeds.filter(|seed| seed % threads == teller) {
                        let report = simulate(seed, None);
                        counts.add(&report.counts);
                        if !report.violations.is_empty() && violations.len() < 3 {
                            violations.push(report);
                        }
                    }
                    (counts, violations)
                })
            })
            .collect();
        tellers.into_iter().map(|teller| teller.join().expect("a story ends")).collect()
    });
    let (mut counts, mut violations) = (EventCounts::default(), Vec::new());
    for (part, reports) in parts {
        counts.add(&part);
        violations.extend(reports);
    }
    (counts, violations)
}

fn check(seeds: std::ops::Range<u64>) -> EventCounts {
    let (counts, violations) = simulate_range(seeds);
    for report in violations.iter().take(2) {
        println!("{}", report.text());
    }
    let lines: Vec<String> =
        violations.iter().map(|report| format!("{}: {:?}", report.seed, report.violations)).collect();
    assert!(
        violations.is_empty(),
        "cargo xtask simulate --seed {}\n{}",
        violations[0].seed,
        lines.join("\n")
    );
    counts
}

#[test]
fn all_invariants_hold() {
    let counts = check(0..SEEDS);
    // Simulations without faults prove nothing.
    for (what, much) in [
        ("changes", counts.changed),
        ("deaths", counts.deaths),
        ("finished calls taken up", counts.taken),
        ("unknown outcomes", counts.unknown),
        ("failures of the journal", counts.journal_failures),
        ("calls that could not be recorded", counts.not_recorded),
        ("refusals", counts.refused),
        ("panics", counts.panics),
        ("timeouts", counts.timeouts),
        ("cancelled calls", counts.cancelled),
        ("results in files", counts.offloaded),
    ] {
        assert!(much >= 10, "only {much} {what} in {SEEDS} stories: {counts:?}");
    }
}

/// Seeds that found bugs: a result out of the order of the calls (4106, 4937), a script that
/// repeated a turn after a paused one (6165, 9977), and a missing notice although the delegating
/// call had its result (1038, 3038).
#[test]
fn what_was_found_once_stays_mended() {
    for seed in [1038, 3038, 4106, 4937, 6165, 9977] {
        let report = simulate(seed, None);
        assert!(report.violations.is_empty(), "{}", report.text());
    }
}

#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in 0..30 {
        let (first, second) = (simulate(seed, None), simulate(seed, None));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.counts, second.counts, "seed {seed}");
    }
}

#[test]
fn every_planted_bug_is_found() {
    let mut first_seeds = BTreeMap::new();
    for bug in PlantedBug::ALL {
        let seed = (0..SEEDS_PER_BUG).find(|seed| !simulate(*seed, Some(bug)).violations.is_empty());
        let seed = seed.unwrap_or_else(|| panic!("{bug:?} is not found in {SEEDS_PER_BUG} stories"));
        first_seeds.insert(format!("{bug:?}"), seed);
    }
    println!("found at the seeds {first_seeds:?}");
}

#[test]
#[ignore = "prove"]
fn prove_that_all_invariants_hold() {
    let counts = check(0..SEEDS_PROVEN);
    println!(
        "proof: {SEEDS_PROVEN} sessions, {} processes died; {} calls answered, {} tools began, {} of them \
         to change something",
        counts.deaths, counts.answered, counts.started, counts.changed
    );
    println!(
        "proof: {} finished calls were taken up by another process and {} outcomes said to be unknown; \
         none ran twice",
        counts.taken, counts.unknown
    );
    println!(
        "proof: {} panics, {} timeouts, {} cancelled, {} refused, {} not recorded; {} operations of the \
         journal failed",
        counts.panics,
        counts.timeouts,
        counts.cancelled,
        counts.refused,
        counts.not_recorded,
        counts.journal_failures
    );
}
