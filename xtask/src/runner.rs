//! Runs the tests: with nextest where it is installed, otherwise with `cargo test`.
//!
//! nextest runs tests of all crates side by side and tells how long each one took. Both print what they
//! print; the lines of tests that passed are left out, and the slowest ones and the failures are listed at
//! the end.

use std::time::Instant;

use crate::Done;
use crate::cargo::{Call, cargo};

/// How many of the slowest tests are listed.
const SLOWEST: usize = 10;
/// How many failures are described at the end, and in how many lines each.
const FAILURES_DESCRIBED: usize = 4;
const FAILURE_LINES: usize = 5;

/// Which tests to build and to run.
#[derive(Default)]
pub(crate) struct TestSelection {
    /// Options for cargo that choose what is built, such as `--lib`.
    pub(crate) targets: Vec<String>,
    /// A filter expression of nextest. `cargo test` runs everything that was built.
    pub(crate) filter: Option<String>,
    /// Run only tests whose name contains this.
    pub(crate) name: Option<String>,
}

/// Runs tests with these variables. Documentation tests are not among them: see [`crate::rustdoc`].
pub(crate) fn run(selection: &TestSelection, variables: &[(&str, String)]) -> Done {
    let has_nextest = cargo(["nextest", "--version"]).read().is_ok();
    let call = if has_nextest { nextest_call(selection) } else { cargo_test_call(selection) };
    let call = variables.iter().fold(call, |call, (name, value)| call.with_env(name, value)).with_lints();
    let mut report = TestReport::default();
    let done = call.with_errors().run_lines(|line| {
        if report.read_line(line) {
            println!("{line}");
        }
    });
    if !has_nextest {
        println!(
            "hint: `cargo install --locked cargo-nextest` runs the tests faster and shows how long each one takes"
        );
    }
    report.print_slowest();
    match done {
        Ok(()) => Ok(()),
        Err(_) if !report.failures.is_empty() => Err(report.describe_failures()),
        Err(error) => Err(format!("{error}; its last lines:\n{}", report.last_lines())),
    }
}

fn nextest_call(selection: &TestSelection) -> Call {
    // Many tests wait for child processes: two for each core keep the cores busy.
    let threads = std::thread::available_parallelism().map_or(2, |cores| 2 * cores.get()).to_string();
    let mut args = vec!["nextest", "run", "--workspace", "--all-features", "--no-fail-fast"];
    args.extend(["--test-threads", &threads]);
    args.extend(["--status-level", "pass", "--final-status-level", "none", "--show-progress", "none"]);
    args.extend(selection.targets.iter().map(String::as_str));
    if let Some(filter) = &selection.filter {
        args.extend(["--filterset", filter]);
    }
    args.extend(selection.name.as_deref());
    cargo(args)
}

fn cargo_test_call(selection: &TestSelection) -> Call {
    let mut args = vec!["test", "--workspace", "--all-features", "--no-fail-fast"];
    if selection.targets.is_empty() {
        args.extend(["--lib", "--bins", "--tests"]);
    }
    args.extend(selection.targets.iter().map(String::as_str));
    args.extend(selection.name.as_deref());
    cargo(args)
}

/// What a run of tests printed, as far as a reader needs it at the end.
#[derive(Default)]
struct TestReport {
    /// Seconds and name: of a test with nextest, of a test program without.
    durations: Vec<(f64, String)>,
    failures: Vec<FailedTest>,
    recent: Vec<String>,
    /// The test program that `cargo test` runs now, and since when.
    program: Option<(String, Instant)>,
}

struct FailedTest {
    name: String,
    output: Vec<String>,
}

impl TestReport {
    /// Reads one line. Returns whether it is worth printing: passed tests are not.
    fn read_line(&mut self, line: &str) -> bool {
        let plain = without_colors(line);
        if self.recent.len() == 24 {
            self.recent.remove(0);
        }
        self.recent.push(plain.clone());
        if let Some(status) = NextestStatus::parse(&plain) {
            return self.read_status(status);
        }
        if let Some(program) = plain.trim_start().strip_prefix("Running ") {
            self.end_program();
            self.program = Some((program.to_owned(), Instant::now()));
        }
        if let Some((name, result)) = plain.strip_prefix("test ").and_then(|test| test.rsplit_once(" ... ")) {
            if result == "FAILED" {
                self.add_failure(name);
            }
            return result == "FAILED";
        }
        // `cargo test` repeats the output of each failed test under its name.
        if let Some(name) = plain.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.add_failure(name);
        } else if let Some(failure) = self.failures.last_mut()
            && failure.output.len() < 400
        {
            failure.output.push(plain);
        }
        true
    }

    fn read_status(&mut self, status: NextestStatus<'_>) -> bool {
        match status.word {
            "PASS" | "LEAK" | "FLAKY" => {
                self.durations.push((status.seconds, status.name.to_owned()));
                false
            }
            "SLOW" => false,
            _ => {
                self.durations.push((status.seconds, status.name.to_owned()));
                self.add_failure(status.name);
                true
            }
        }
    }

    /// Makes this test the one that the following lines belong to.
    fn add_failure(&mut self, name: &str) {
        let known = self.failures.iter().position(|failure| failure.name == name);
        let failure = match known {
            Some(place) => self.failures.remove(place),
            None => FailedTest { name: name.to_owned(), output: Vec::new() },
        };
        self.failures.push(failure);
    }

    fn end_program(&mut self) {
        if let Some((program, started)) = self.program.take() {
            self.durations.push((started.elapsed().as_secs_f64(), program));
        }
    }

    fn print_slowest(&mut self) {
        self.end_program();
        self.durations.sort_by(|a, b| b.0.total_cmp(&a.0));
        println!("\nslowest of {}:", self.durations.len());
        for (seconds, name) in self.durations.iter().take(SLOWEST) {
            println!("  {seconds:>8.1} s  {name}");
        }
    }

    /// Names what failed, with the first words of each failure and the command that repeats it, in thirty
    /// lines at most.
    fn describe_failures(&self) -> String {
        let mut text = format!("{} tests failed", self.failures.len());
        for failure in self.failures.iter().take(FAILURES_DESCRIBED) {
            text.push_str(&format!("\n{}", failure.name));
            for line in failure.excerpt() {
                text.push_str(&format!("\n    {line}"));
            }
            let test = failure.name.rsplit(' ').next().unwrap_or(&failure.name);
            text.push_str(&format!("\n  repeat with: cargo xtask test --only {test}"));
        }
        if self.failures.len() > FAILURES_DESCRIBED {
            text.push_str(&format!("\nand {} more, listed above", self.failures.len() - FAILURES_DESCRIBED));
        }
        text
    }

    fn last_lines(&self) -> String {
        self.recent.iter().map(|line| format!("  {line}\n")).collect()
    }
}

impl FailedTest {
    /// The lines that say what went wrong: those from the panic on, or the last ones.
    fn excerpt(&self) -> impl Iterator<Item = String> {
        let lines: Vec<&str> =
            self.output.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
        let panic = lines.iter().position(|line| line.contains("panicked at"));
        let start = panic.unwrap_or(lines.len().saturating_sub(FAILURE_LINES));
        let excerpt: Vec<String> =
            lines[start..].iter().take(FAILURE_LINES).map(|line| line.chars().take(160).collect()).collect();
        excerpt.into_iter()
    }
}

/// A line such as `PASS [   0.5s] (12/90) haft-cli::it-cli mcp::a_name`.
struct NextestStatus<'a> {
    word: &'a str,
    seconds: f64,
    name: &'a str,
}

impl NextestStatus<'_> {
    fn parse(line: &str) -> Option<NextestStatus<'_>> {
        let (word, rest) = line.trim_start().split_once(" [")?;
        if word.is_empty() || !word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit()) {
            return None;
        }
        let (seconds, rest) = rest.split_once("s] ")?;
        let seconds = seconds.trim_start_matches(['>', ' ']).parse().ok()?;
        let name = rest.split_once(") ").map_or(rest, |(_, name)| name).trim();
        Some(NextestStatus { word, seconds, name })
    }
}

/// The text without the escape sequences of colors.
fn without_colors(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: &[&str]) -> TestReport {
        let mut report = TestReport::default();
        for line in lines {
            report.read_line(line);
        }
        report
    }

    #[test]
    fn a_run_of_nextest_tells_durations_and_failures() {
        let report = report(&[
            "   Compiling haft v0.1.0",
            "        PASS [   0.999s] (2134/2723) haft-shell::it-shell bash::files",
            "\u{1b}[31m        FAIL\u{1b}[0m [   1.500s] (2135/2723) haft-cli::it-cli mcp::lost",
            "  stderr ───",
            "    thread 'mcp::lost' panicked at crates/haft-cli/tests/it/mcp.rs:3:5:",
            "    left: 1",
            "     Summary [   2.5s] 2 tests run: 1 passed, 1 failed",
            "        FAIL [   1.500s] (2135/2723) haft-cli::it-cli mcp::lost",
        ]);
        assert_eq!(report.durations[0], (0.999, "haft-shell::it-shell bash::files".to_owned()));
        assert_eq!(
            report.describe_failures().lines().take(4).collect::<Vec<_>>(),
            [
                "1 tests failed",
                "haft-cli::it-cli mcp::lost",
                "    thread 'mcp::lost' panicked at crates/haft-cli/tests/it/mcp.rs:3:5:",
                "    left: 1",
            ]
        );
        assert!(report.describe_failures().ends_with("repeat with: cargo xtask test --only mcp::lost"));
    }

    #[test]
    fn a_run_of_cargo_test_tells_failures() {
        let report = report(&[
            "     Running unittests src/lib.rs (target/debug/deps/haft-1)",
            "test a::good ... ok",
            "test a::bad ... FAILED",
            "failures:",
            "---- a::bad stdout ----",
            "thread 'a::bad' panicked at src/a.rs:1:1:",
            "no",
        ]);
        assert_eq!(
            report.describe_failures(),
            "1 tests failed\na::bad\n    thread 'a::bad' panicked at src/a.rs:1:1:\n    no\n  \
             repeat with: cargo xtask test --only a::bad"
        );
    }

    #[test]
    fn many_failures_fit_the_screen() {
        let mut report = TestReport::default();
        for test in 0..50 {
            report.read_line(&format!("FAIL [ 0.1s] ({test}/50) a::b test_{test}"));
            for line in 0..100 {
                report.read_line(&format!("panicked at line {line}"));
            }
        }
        assert!(report.describe_failures().lines().count() <= 30);
    }
}
