//! A run of named steps: each is announced and timed; the first failure ends the run.
//!
//! A step that mostly waits (an installation, a check that needs one core) runs in the background, beside
//! others.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Done;

/// The steps that have run so far.
pub(crate) struct Steps {
    started: Instant,
    summary: String,
}

/// A step that runs beside others until it is joined.
pub(crate) struct BackgroundStep<T> {
    name: &'static str,
    thread: JoinHandle<(Result<T, String>, Duration)>,
}

impl Steps {
    pub(crate) fn new() -> Steps {
        Steps { started: Instant::now(), summary: "\n=== summary\n".to_owned() }
    }

    /// Runs one step. On failure the error names the step, so `?` is all a caller needs.
    pub(crate) fn run(&mut self, name: &'static str, step: impl FnOnce() -> Done) -> Done {
        println!("\n=== {name}");
        let started = Instant::now();
        let done = step();
        self.record(name, started.elapsed(), done)
    }

    /// Starts a step that prints nothing, beside those that follow.
    pub(crate) fn start<T: Send + 'static>(
        &mut self,
        name: &'static str,
        step: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> BackgroundStep<T> {
        println!("\n=== {name}: started in the background");
        let started = Instant::now();
        BackgroundStep { name, thread: std::thread::spawn(move || (step(), started.elapsed())) }
    }

    /// Waits for a step in the background.
    pub(crate) fn join<T>(&mut self, step: BackgroundStep<T>) -> Result<T, String> {
        let joined = step.thread.join();
        let (result, duration) = joined.unwrap_or_else(|_| (Err("it panicked".to_owned()), Duration::ZERO));
        self.record(step.name, duration, result)
    }

    /// Prints that everything passed, and how long each step took.
    pub(crate) fn finish(self) {
        println!("{}all steps passed in {:.1} s", self.summary, self.started.elapsed().as_secs_f64());
    }

    fn record<T>(
        &mut self,
        name: &'static str,
        duration: Duration,
        result: Result<T, String>,
    ) -> Result<T, String> {
        let passed = if result.is_ok() { "passed" } else { "FAILED" };
        println!("--- {name}: {passed} after {:.1} s", duration.as_secs_f64());
        self.summary.push_str(&format!("{name:<12} {passed} {:>8.1} s\n", duration.as_secs_f64()));
        result.map_err(|text| {
            println!("{}", self.summary);
            format!("step `{name}` failed: {text}")
        })
    }
}
