//! `cargo xtask attack` and `cargo xtask soak`: one long test of the program, and the page that records what
//! it found.
//!
//! The tests are `attack.rs` and `soak.rs` of `haft-cli`. The corpus of attacks is one of the proofs of
//! `cargo xtask prove`, too, and every `cargo xtask test` runs the load for seconds.

use crate::Done;
use crate::cargo::{Call, cargo, root};
use crate::source::write;

/// What begins a line of a test that goes onto a page.
pub(crate) const MARK: &str = "proof: ";

pub(crate) fn attack() -> Done {
    let introduction = "# Attacks\n\nWhat `cargo xtask attack` found last: each attack of the corpus in \
         `crates/haft-cli/tests/it/attack` was made on the built program, in fresh folders, as root and as an ordinary user. Its \
         control is the same attempt without the protection, and has to succeed.";
    record(&program_test("dev", "attack::prove_that_attacks_fail"), "docs/proof/attack.md", introduction)
}

/// Mixed load for minutes, with optimised code.
pub(crate) fn soak(minutes: u32) -> Done {
    let introduction = format!(
        "# Soak\n\nWhat `cargo xtask soak --minutes {minutes}` saw last: one `haft serve` over HTTP with three clients and an MCP \
         server that dies now and then, others that come and go beside it, and turns that are interrupted. The middle and the \
         end are medians of the second and the last third of the time; the run fails where the end is more than a quarter \
         above the middle."
    );
    let test = program_test("prove", "soak::soak_for_minutes");
    record(&test.with_env("HAFT_SOAK_MINUTES", &minutes.to_string()), "docs/proof/soak.md", &introduction)
}

/// A test of the program that is run by its name alone.
fn program_test(profile: &str, name: &str) -> Call {
    let args = ["test", "--profile", profile, "--package", "haft-cli", "--all-features", "--test", "it-cli"];
    let only = ["--", "--exact", name, "--ignored", "--nocapture", "--test-threads=2"];
    cargo(args.into_iter().chain(only))
}

/// Runs the test and writes what it found; what failed is recorded, too.
fn record(test: &Call, page: &str, introduction: &str) -> Done {
    let (found, done) = run_and_collect(test);
    if !found.is_empty() {
        let found: String = found.iter().map(|line| format!("- {line}\n")).collect();
        write(&root()?, page, &format!("{introduction}\n\n{found}"))?;
    }
    done
}

/// Runs a test, passes on all that it prints, and returns the lines with the mark.
pub(crate) fn run_and_collect(test: &Call) -> (Vec<String>, Done) {
    let mut found = Vec::new();
    let done = test.run_lines(|line| {
        println!("{line}");
        found.extend(line.strip_prefix(MARK).map(|text| text.trim().to_owned()));
    });
    (found, done)
}
