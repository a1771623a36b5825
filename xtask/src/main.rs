//! The automation of the repository: `cargo xtask <command>`, one file per command.
//!
//! It needs cargo, rustfmt, clippy and the registries, nothing else: no shell, and git only for
//! `test --quick`, so that `cargo xtask test` says the same on a fresh machine as on yours. (`tools` and
//! `peers` install what commands and tests use besides; nextest is used where it is installed.)
//!
//! Arguments are matched as slices, not by a parser library: this program is compiled before anything else
//! can be checked.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program talks to its terminal"
)]

mod bench;
mod cargo;
mod deny;
mod docs;
mod features;
mod fuzz;
mod lint;
mod naming;
mod peers;
mod picture;
mod programs;
mod prove;
mod quick;
mod recorded;
mod repository;
mod runner;
mod rustdoc;
mod sections;
mod source;
mod steps;
mod test;
mod tools;

use std::process::ExitCode;

use crate::cargo::cargo;
use crate::programs::InstallConsent;
use crate::test::TestScope;

const HELP: &str = "\
usage: cargo xtask <command>

  test [--yes]          what every commit passes: format, repository rules, lints, tests, features, docs, licences;
                        asks before it installs system packages; `--yes` and CI answer yes
  test --quick          lints and all tests of crates that changed since the last commit, lints and unit tests of the
                        crates that depend on them
  test --only NAME      the tests whose name contains NAME
  lint                  the quick part of `test`: format, repository rules, clippy
  deny [--advisories]   licences, bans and sources of the dependencies; with the flag, known advisories too (network)
  docs [--check]        writes the pages made from code; with the flag, only says whether they are current
  fuzz [--minutes N] [NAME]  each fuzz target, or one, for so many minutes (5), recorded in docs/proof/fuzz.md
  attack                the corpus of attacks on the built program, recorded in docs/proof/attack.md; `prove` runs it, too
  soak --minutes N      mixed load for so many minutes, recorded in docs/proof/soak.md
  prove [--only NAME]   lints of each feature alone, the long proofs in release mode and the fuzz targets, recorded in
                        docs/proof/latest.md; `--only features` for the lints alone;
                        a NAME with its package, like haft-sim/it-sim::prove_x, builds only that; with `--debug` behind the
                        NAME it is not optimised, for proofs in which processes are started and nothing is measured
  simulate --seed N     the story of one seed of the simulator, event by event
  bench [--only NAME]   the benchmarks, or one like haft/core, recorded in docs/proof/bench.md
  help                  this text

exit code: 0 passed, 1 failed, 2 not understood
";

/// How a command ends: well, or with a sentence about what failed.
type Done = Result<(), String>;

fn main() -> ExitCode {
    if let Some(exit) = rustdoc::run_as_rustdoc() {
        return exit;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(text)) => {
            eprintln!("error: {text}");
            ExitCode::FAILURE
        }
        None => {
            eprintln!("error: `{}` is not understood\n\n{HELP}", args.join(" "));
            ExitCode::from(2)
        }
    }
}

/// Runs a command; `None` where the arguments name none.
fn run(args: &[&str]) -> Option<Done> {
    Some(match args {
        ["test"] => test::run(TestScope::Everything(InstallConsent::Ask)),
        ["test", "--yes"] => test::run(TestScope::Everything(InstallConsent::Given)),
        ["test", "--quick"] => test::run(TestScope::Quick),
        ["test", "--only", name] => test::run(TestScope::Only((*name).to_owned())),
        ["lint"] => lint::run(),
        ["deny"] => deny::run(false),
        ["deny", "--advisories"] => deny::run(true),
        ["docs"] => docs::run(docs::Action::Write),
        ["docs", "--check"] => docs::run(docs::Action::Check),
        ["prove"] => prove::run(None, "prove"),
        ["prove", "--only", name] => prove::run(Some(name), "prove"),
        ["prove", "--only", name, "--debug"] => prove::run(Some(name), "dev"),
        // With the profile of proofs: most seeds that failed come from there, and its build is used again.
        ["simulate", "--seed", seed] => {
            cargo(["run", "--quiet", "--profile", "prove", "--package", "haft-sim", "--", "--seed", seed])
                .run()
        }
        ["bench"] => bench::run(None),
        ["bench", "--only", name] => bench::run(Some(name)),
        ["fuzz"] => fuzz::run(fuzz::MINUTES, None),
        ["fuzz", "--minutes", minutes] => fuzz::run(parse_minutes(minutes)?, None),
        ["fuzz", "--minutes", minutes, name] => fuzz::run(parse_minutes(minutes)?, Some(name)),
        ["fuzz", name] => fuzz::run(fuzz::MINUTES, Some(name)),
        ["soak", "--minutes", minutes] => recorded::soak(parse_minutes(minutes)?),
        ["attack"] => recorded::attack(),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => return None,
    })
}

fn parse_minutes(text: &str) -> Option<u32> {
    text.parse().ok().filter(|minutes| (1..=1_440).contains(minutes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_command_is_not_run() {
        for line in
            ["", "tset", "test --fast", "lint x", "soak", "soak --minutes 0", "prove --only", "simulate"]
        {
            assert!(run(&line.split_whitespace().collect::<Vec<_>>()).is_none(), "{line}");
        }
    }
}
