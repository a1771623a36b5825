//! `cargo xtask simulate --seed N`: prints the event trace of a seed.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program talks to its terminal"
)]

use std::process::ExitCode;

use haft_sim::{PlantedBug, simulate};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (seed, bug) = match parse(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(wanted) => wanted,
        Err(text) => {
            eprintln!("error: {text}\n\nusage: cargo xtask simulate --seed N [--bug NAME]");
            return ExitCode::from(2);
        }
    };
    let report = simulate(seed, bug);
    print!("{}", report.text());
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(args: &[&str]) -> Result<(u64, Option<PlantedBug>), String> {
    let (seed, bug) = match args {
        ["--seed", seed] => (seed, None),
        ["--seed", seed, "--bug", bug] => (seed, Some(bug)),
        _ => return Err(format!("`--seed N` is accepted, got `{}`", args.join(" "))),
    };
    let seed = seed.parse().map_err(|_| format!("`{seed}` is no seed; a number is accepted"))?;
    let bug = bug.map(|name| {
        let matching = PlantedBug::ALL.into_iter().find(|bug| format!("{bug:?}") == **name);
        matching.ok_or_else(|| format!("no bug `{name}`; there are: {:?}", PlantedBug::ALL))
    });
    Ok((seed, bug.transpose()?))
}
