//! A run of named steps: each is announced, timed and remembered; the first failure ends the run.

use std::time::{Duration, Instant};

use crate::Done;

/// What has run so far.
pub(crate) struct Steps {
    started: Instant,
    passed: Vec<(&'static str, Duration)>,
}

impl Steps {
    pub(crate) fn new() -> Steps {
        Steps { started: Instant::now(), passed: Vec::new() }
    }

    /// Runs one step. On failure the error names the step, so `?` is all a caller needs.
    pub(crate) fn run(&mut self, name: &'static str, step: impl FnOnce() -> Done) -> Done {
        println!("\n=== {name}");
        let started = Instant::now();
        let done = step();
        let took = started.elapsed();
        match done {
            Ok(()) => {
                println!("--- {name}: passed in {}", seconds(took));
                self.passed.push((name, took));
                Ok(())
            }
            Err(text) => {
                println!("--- {name}: FAILED after {}", seconds(took));
                self.summary();
                println!("{name:<12} FAILED {:>10}", seconds(took));
                Err(format!("step `{name}` failed: {text}"))
            }
        }
    }

    /// Says that everything passed, and how long each step took.
    pub(crate) fn finish(self) {
        self.summary();
        println!("all {} steps passed in {}", self.passed.len(), seconds(self.started.elapsed()));
    }

    fn summary(&self) {
        println!("\n=== summary");
        for (name, took) in &self.passed {
            println!("{name:<12} passed {:>10}", seconds(*took));
        }
    }
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}
