//! `cargo xtask bench`: runs the benchmarks, or one, and keeps what they printed in `docs/proof/bench.md`.
//!
//! Every benchmark of the workspace is run. What is measured, and against what, is each benchmark's own
//! business; this file only records it.

use serde_json::Value;

use crate::cargo::{cargo, metadata, root};
use crate::sections::{self, Sections};
use crate::source::write;
use crate::{Done, tools};

const PAGE: &str = "docs/proof/bench.md";

pub(crate) fn run(only: Option<&str>) -> Done {
    let benches = benches(&metadata()?);
    let wanted: Vec<&(String, String)> = benches
        .iter()
        .filter(|(package, bench)| only.is_none_or(|only| only == name(package, bench)))
        .collect();
    if wanted.is_empty() {
        let names: Vec<String> = benches.iter().map(|(package, bench)| name(package, bench)).collect();
        return Err(format!(
            "no benchmark `{}`; there are:\n  {}",
            only.unwrap_or_default(),
            names.join("\n  ")
        ));
    }
    let root = root()?;
    let mut printed = sections::read(&std::fs::read_to_string(root.join(PAGE)).unwrap_or_default());
    // What is gone is forgotten; what this run has not tried yet stays.
    printed.retain(|name, _| benches.iter().any(|(package, bench)| *name == self::name(package, bench)));
    for (package, bench) in wanted {
        let mut call = cargo(["bench", "--all-features", "--package", package, "--bench", bench]);
        if (&**package, &**bench) == ("haft-tools", "files") {
            // What searches are measured against.
            call = call.with_env("RG", &tools::installed("ripgrep", "rg", "15.2.0", &[])?.to_string_lossy());
        }
        let mut lines = String::new();
        call.run_lines(|line| {
            println!("{line}");
            lines.push_str(line);
            lines.push('\n');
        })?;
        printed.insert(name(package, bench), format!("{}\n", lines.trim_matches('\n')));
        // Each as soon as it is there: all of them take long.
        write(&root, PAGE, &page(&printed))?;
    }
    Ok(())
}

fn name(package: &str, bench: &str) -> String {
    format!("{package}/{bench}")
}

/// The benchmarks of the workspace, as crate and name.
fn benches(metadata: &Value) -> Vec<(String, String)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let mut benches = Vec::new();
    for package in list(&metadata["packages"]) {
        let targets = list(&package["targets"]).into_iter().filter(|target| target["kind"][0] == "bench");
        benches.extend(targets.map(|target| (text(&package), text(&target))));
    }
    benches.sort();
    benches
}

fn page(printed: &Sections) -> String {
    let beginning = "# Benchmarks\n\n\
        What `cargo xtask bench` printed last. Times belong to the machine that ran it; read the ratios.\n";
    sections::page(beginning, printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_is_on_the_list() {
        let benches = benches(&metadata().unwrap());
        assert!(benches.contains(&("haft-policy".to_owned(), "gate".to_owned())), "{benches:?}");
        let packages = std::fs::read_dir(root().unwrap().join("crates")).unwrap().flatten();
        let folders = packages.filter_map(|package| std::fs::read_dir(package.path().join("benches")).ok());
        assert_eq!(benches.len(), folders.map(Iterator::count).sum::<usize>());
        assert!(run(Some("haft/cor")).unwrap_err().contains("\n  haft/core\n"));
    }
}
