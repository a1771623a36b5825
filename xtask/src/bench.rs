//! `cargo xtask bench`: runs the benchmark of the core and keeps what it printed in `docs/proof/bench.md`.
//!
//! What is measured, and against what, is the benchmark's own business; this file only records it.

use serde_json::Value;

use crate::Done;
use crate::cargo::{cargo, metadata, root};
use crate::source::write;

const PACKAGE: &str = "haft";
const BENCH: &str = "core";
const PAGE: &str = "docs/proof/bench.md";

pub(crate) fn run() -> Done {
    if !exists(&metadata()?) {
        return Err(format!("there is no benchmark `{BENCH}` in the crate `{PACKAGE}` yet"));
    }
    let mut printed = String::new();
    cargo(["bench", "--package", PACKAGE, "--bench", BENCH]).run_lines(|line| {
        println!("{line}");
        printed.push_str(line);
        printed.push('\n');
    })?;
    write(&root()?, PAGE, &page(&printed))
}

fn exists(metadata: &Value) -> bool {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages
        .filter(|package| package["name"] == PACKAGE)
        .flat_map(|package| package["targets"].as_array().into_iter().flatten());
    targets.into_iter().any(|target| target["name"] == BENCH && target["kind"][0] == "bench")
}

fn page(printed: &str) -> String {
    format!(
        "# Benchmark of the core\n\n\
         What `cargo xtask bench` printed last. Times belong to the machine that ran it; read the ratios.\n\n\
         ```text\n{}\n```\n",
        printed.trim_matches('\n'),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_is_found_by_crate_kind_and_name() {
        let one = |package: &str, kind: &str, name: &str| serde_json::json!({"packages": [{"name": package, "targets": [{"name": name, "kind": [kind]}]}]});
        assert!(exists(&one("haft", "bench", "core")));
        assert!(!exists(&one("haft", "test", "core")));
        assert!(!exists(&one("haft", "bench", "other")));
        assert!(!exists(&one("haft-tools", "bench", "core")));
    }

    #[test]
    fn the_page_holds_what_was_printed() {
        assert!(page("\na 1.0\nb 2.0\n\n").ends_with("```text\na 1.0\nb 2.0\n```\n"));
    }
}
