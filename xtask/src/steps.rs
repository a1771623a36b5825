//! A run of named steps: each is announced, timed and remembered; the first failure ends the run.
//!
//! A step that mostly waits (an installation, a check that needs one core) runs in the background, beside others.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Done;

/// The steps that have run so far.
pub(crate) struct Steps {
    started: Instant,
    passed: Vec<PassedStep>,
}

struct PassedStep {
    name: &'static str,
    duration: Duration,
    in_background: bool,
}

/// A step that runs beside others until it is joined.
pub(crate) struct BackgroundStep<T> {
    name: &'static str,
    thread: JoinHandle<(Result<T, String>, Duration)>,
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
        self.record(name, started.elapsed(), false, done)
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
        let (result, duration) =
            step.thread.join().unwrap_or_else(|_| (Err("it panicked".to_owned()), Duration::ZERO));
        let (value, done) = match result {
            Ok(value) => (Some(value), Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.record(step.name, duration, true, done)?;
        value.ok_or_else(|| format!("step `{}` has no result", step.name))
    }

    /// Prints that everything passed, and how long each step took.
    pub(crate) fn finish(self) {
        self.print_summary();
        println!("all {} steps passed in {}", self.passed.len(), seconds(self.started.elapsed()));
    }

    fn record(&mut self, name: &'static str, duration: Duration, in_background: bool, done: Done) -> Done {
        match done {
            Ok(()) => {
                println!("--- {name}: passed in {}", seconds(duration));
                self.passed.push(PassedStep { name, duration, in_background });
                Ok(())
            }
            Err(text) => {
                println!("--- {name}: FAILED after {}", seconds(duration));
                self.print_summary();
                println!("{name:<12} FAILED {:>10}\n", seconds(duration));
                Err(format!("step `{name}` failed: {text}"))
            }
        }
    }

    fn print_summary(&self) {
        println!("\n=== summary");
        for PassedStep { name, duration, in_background } in &self.passed {
            let aside = if *in_background { "  in the background" } else { "" };
            println!("{name:<12} passed {:>10}{aside}", seconds(*duration));
        }
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_in_the_background_gives_its_value_or_names_itself() {
        let mut steps = Steps::new();
        let fine = steps.start("fine", || Ok(7));
        let wrong = steps.start("wrong", || Err::<(), _>("no network".to_owned()));
        assert_eq!(steps.join(fine), Ok(7));
        assert_eq!(steps.join(wrong), Err("step `wrong` failed: no network".to_owned()));
    }
}
