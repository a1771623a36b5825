//! The automation of the repository: `cargo xtask <command>`, one file per command.
//!
//! It needs cargo, rustfmt, clippy and the registries, nothing else: no shell, and git only for `test --quick`, so that
//! `cargo xtask test` says the same on a fresh machine as on yours. (`deny` and `fuzz` install their own tools, `python`
//! and `node` what tests use of those; nextest is used where it is installed.)
//!
//! Arguments are matched as slices, not by a parser library: there are eleven commands and eight flags, and this
//! program is compiled before anything else can be checked.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program talks to its terminal"
)]

mod test;

mod attack;
mod bench;
mod deny;
mod docs;
mod fuzz;
mod lint;
mod programs;
mod prove;
mod simulate;

mod cargo;
mod features;
mod node;
mod picture;
mod python;
mod quick;
mod repository;
mod runner;
mod rustdoc;
mod sections;
mod soak;
mod source;
mod steps;

use std::process::ExitCode;

use crate::programs::InstallConsent;
use crate::test::TestScope;

const HELP: &str = "\
usage: cargo xtask <command>

  test [--yes]          what every commit passes: format, repository rules, lints, tests, features, docs, licences;
                        asks before it installs system packages, unless `--yes` is given or CI is set
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
    let command = match parse(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(command) => command,
        Err(text) => {
            eprintln!("error: {text}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("error: {text}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, PartialEq)]
enum Command {
    Test { scope: test::TestScope, consent: InstallConsent },
    Lint,
    Deny(deny::Advisories),
    Docs(docs::Action),
    Prove { only: Option<String>, build: prove::Build },
    Simulate { seed: u64 },
    Bench { only: Option<String> },
    Fuzz { minutes: u32, only: Option<String> },
    Soak { minutes: u32 },
    Attack,
    Help,
}

fn parse(args: &[&str]) -> Result<Command, String> {
    Ok(match args {
        ["test"] => Command::Test { scope: TestScope::Everything, consent: InstallConsent::Ask },
        ["test", "--yes"] => Command::Test { scope: TestScope::Everything, consent: InstallConsent::Given },
        ["test", "--quick"] => Command::Test { scope: TestScope::Quick, consent: InstallConsent::Ask },
        ["test", "--only", name] if !name.starts_with('-') => {
            Command::Test { scope: TestScope::Only((*name).to_string()), consent: InstallConsent::Ask }
        }
        ["lint"] => Command::Lint,
        ["deny"] => Command::Deny(deny::Advisories::Skip),
        ["deny", "--advisories"] => Command::Deny(deny::Advisories::Fetch),
        ["docs"] => Command::Docs(docs::Action::Write),
        ["docs", "--check"] => Command::Docs(docs::Action::Check),
        ["prove"] => Command::Prove { only: None, build: prove::Build::Optimised },
        ["prove", "--only", name] if !name.starts_with('-') => {
            Command::Prove { only: Some((*name).to_string()), build: prove::Build::Optimised }
        }
        ["prove", "--only", name, "--debug"] if !name.starts_with('-') => {
            Command::Prove { only: Some((*name).to_string()), build: prove::Build::Debug }
        }
        ["simulate", "--seed", seed] => match seed.parse() {
            Ok(seed) => Command::Simulate { seed },
            Err(_) => return Err(format!("`{seed}` is no seed; a number is accepted")),
        },
        ["bench"] => Command::Bench { only: None },
        ["bench", "--only", name] if !name.starts_with('-') => {
            Command::Bench { only: Some((*name).to_string()) }
        }
        ["fuzz"] => Command::Fuzz { minutes: fuzz::MINUTES, only: None },
        ["fuzz", "--minutes", minutes] => Command::Fuzz { minutes: number(minutes)?, only: None },
        ["fuzz", "--minutes", minutes, name] if !name.starts_with('-') => {
            Command::Fuzz { minutes: number(minutes)?, only: Some((*name).to_string()) }
        }
        ["fuzz", name] if !name.starts_with('-') => {
            Command::Fuzz { minutes: fuzz::MINUTES, only: Some((*name).to_string()) }
        }
        ["soak", "--minutes", minutes] => Command::Soak { minutes: number(minutes)? },
        ["attack"] => Command::Attack,
        ["help" | "--help" | "-h"] => Command::Help,
        [] => return Err("no command given".to_string()),
        ["bench", rest @ ..] => {
            return Err(format!("`bench` accepts `--only NAME`, got `{}`", rest.join(" ")));
        }
        ["test", rest @ ..] => {
            return Err(format!(
                "`test` accepts `--yes`, `--quick` or `--only NAME`, got `{}`",
                rest.join(" ")
            ));
        }
        [name @ ("lint" | "attack" | "help"), rest @ ..] => {
            return Err(format!("`{name}` takes no arguments, got `{}`", rest.join(" ")));
        }
        ["deny", rest @ ..] => {
            return Err(format!("`deny` accepts `--advisories`, got `{}`", rest.join(" ")));
        }
        ["docs", rest @ ..] => return Err(format!("`docs` accepts `--check`, got `{}`", rest.join(" "))),
        ["prove", rest @ ..] => {
            return Err(format!("`prove` accepts `--only NAME [--debug]`, got `{}`", rest.join(" ")));
        }
        ["simulate", rest @ ..] => {
            return Err(format!("`simulate` accepts `--seed N`, got `{}`", rest.join(" ")));
        }
        ["fuzz", rest @ ..] => {
            return Err(format!("`fuzz` accepts `--minutes N` and then a NAME, got `{}`", rest.join(" ")));
        }
        ["soak", rest @ ..] => {
            return Err(format!("`soak` needs `--minutes N`, got `{}`", rest.join(" ")));
        }
        [name, ..] => {
            return Err(format!(
                "no command `{name}`; accepted: test, lint, deny, docs, prove, simulate, bench, fuzz, attack, soak, help"
            ));
        }
    })
}

/// A number of minutes.
fn number(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=1_440).contains(number));
    number.ok_or_else(|| format!("`--minutes` takes a whole number from 1 to 1440, got `{text}`"))
}

fn run(command: Command) -> Done {
    match command {
        Command::Test { scope, consent } => test::run(scope, consent),
        Command::Lint => lint::run(),
        Command::Deny(advisories) => deny::run(advisories),
        Command::Docs(action) => docs::run(action),
        Command::Prove { only, build } => prove::run(only.as_deref(), build),
        Command::Simulate { seed } => simulate::run(seed),
        Command::Bench { only } => bench::run(only.as_deref()),
        Command::Fuzz { minutes, only } => fuzz::run(minutes, only.as_deref()),
        Command::Soak { minutes } => soak::run(minutes),
        Command::Attack => attack::run(),
        Command::Help => {
            print!("{HELP}");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(line: &str, expected: Command) {
        assert_eq!(parse(&line.split_whitespace().collect::<Vec<_>>()), Ok(expected));
    }

    fn refused(line: &str, expected: &str) {
        assert_eq!(parse(&line.split_whitespace().collect::<Vec<_>>()), Err(expected.to_string()));
    }

    #[test]
    fn commands_and_their_flags() {
        accepted("test", Command::Test { scope: TestScope::Everything, consent: InstallConsent::Ask });
        accepted(
            "test --yes",
            Command::Test { scope: TestScope::Everything, consent: InstallConsent::Given },
        );
        accepted("test --quick", Command::Test { scope: TestScope::Quick, consent: InstallConsent::Ask });
        let scope = TestScope::Only("a::b".to_string());
        accepted("test --only a::b", Command::Test { scope, consent: InstallConsent::Ask });
        accepted("docs", Command::Docs(docs::Action::Write));
        accepted("docs --check", Command::Docs(docs::Action::Check));
        accepted("deny --advisories", Command::Deny(deny::Advisories::Fetch));
        let only = || Some("order".to_string());
        accepted("prove --only order", Command::Prove { only: only(), build: prove::Build::Optimised });
        accepted("prove --only order --debug", Command::Prove { only: only(), build: prove::Build::Debug });
        accepted("simulate --seed 7", Command::Simulate { seed: 7 });
        accepted("fuzz", Command::Fuzz { minutes: 5, only: None });
        accepted("fuzz --minutes 7 url", Command::Fuzz { minutes: 7, only: Some("url".to_string()) });
        accepted("soak --minutes 10", Command::Soak { minutes: 10 });
        accepted("--help", Command::Help);
    }

    #[test]
    fn a_refusal_says_what_is_accepted() {
        refused("", "no command given");
        refused(
            "tset",
            "no command `tset`; accepted: test, lint, deny, docs, prove, simulate, bench, fuzz, attack, soak, help",
        );
        refused("soak", "`soak` needs `--minutes N`, got ``");
        refused("soak --minutes 0", "`--minutes` takes a whole number from 1 to 1440, got `0`");
        refused("test --fast", "`test` accepts `--yes`, `--quick` or `--only NAME`, got `--fast`");
        refused("lint x", "`lint` takes no arguments, got `x`");
        refused("docs --chek", "`docs` accepts `--check`, got `--chek`");
        refused("prove --only", "`prove` accepts `--only NAME [--debug]`, got `--only`");
        refused("simulate", "`simulate` accepts `--seed N`, got ``");
        refused("simulate --seed x", "`x` is no seed; a number is accepted");
        refused("prove --only --x", "`prove` accepts `--only NAME [--debug]`, got `--only --x`");
    }

    #[test]
    fn the_help_names_every_command() {
        for name in ["test", "lint", "deny", "docs", "prove", "simulate", "bench", "fuzz", "soak", "help"] {
            assert!(HELP.contains(&format!("\n  {name} ")), "`{name}` is missing");
        }
    }
}
