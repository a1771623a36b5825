//! `cargo xtask bench`: runs the benchmarks and keeps what they printed in `docs/proof/bench.md`.
//!
//! What is measured, and against what, is each benchmark's own business; this file only records it.

use serde_json::Value;

use crate::Done;
use crate::cargo::{Call, cargo, metadata, root};
use crate::source::write;

/// Crate and benchmark, in the order of the page.
const BENCHES: [(&str, &str); 17] = [
    ("haft", "core"),
    ("haft", "search"),
    ("haft-journal", "turns"),
    ("haft-mcp", "serve"),
    ("haft-policy", "rules"),
    ("haft-provider", "definitions"),
    ("haft-provider", "stream"),
    ("haft-provider", "gap"),
    ("haft-sandbox", "start"),
    ("haft-sandbox", "work"),
    ("haft-terminal", "screen"),
    ("haft-tools", "files"),
    ("haft-tools", "scripts"),
    ("haft-tools", "web"),
    ("haft-cli", "replay"),
    ("haft-cli", "start"),
    ("haft-cli", "journal"),
];
const PAGE: &str = "docs/proof/bench.md";

pub(crate) fn run() -> Done {
    let metadata = metadata()?;
    let mut printed = String::new();
    for (package, bench) in BENCHES {
        if !exists(&metadata, package, bench) {
            return Err(format!("there is no benchmark `{bench}` in the crate `{package}`"));
        }
        let mut call = cargo(["bench", "--all-features", "--package", package, "--bench", bench]);
        if (package, bench) == ("haft-tools", "files") {
            call = call.with_env("RG", &ripgrep(&metadata)?);
        }
        call.run_lines(|line| {
            println!("{line}");
            printed.push_str(line);
            printed.push('\n');
        })?;
        printed.push('\n');
    }
    write(&root()?, PAGE, &page(&printed))
}

/// The ripgrep that searches are measured against: the one on the path, or one of our own, installed once.
fn ripgrep(metadata: &Value) -> Result<String, String> {
    let works = |program: &str| Call::new(program.into(), program, ["--version"]).read().is_ok();
    if works("rg") {
        return Ok("rg".to_string());
    }
    let target = metadata["target_directory"].as_str().ok_or("`cargo metadata` names no target directory")?;
    let tools = format!("{target}/tools");
    let own = format!("{tools}/bin/rg");
    if !works(&own) {
        let build = format!("{tools}/build");
        cargo(["install", "--locked", "ripgrep", "--root", &tools, "--target-dir", &build]).run()?;
    }
    Ok(own)
}

fn exists(metadata: &Value, package: &str, bench: &str) -> bool {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages
        .filter(|found| found["name"] == package)
        .flat_map(|found| found["targets"].as_array().into_iter().flatten());
    targets.into_iter().any(|target| target["name"] == bench && target["kind"][0] == "bench")
}

fn page(printed: &str) -> String {
    format!(
        "# Benchmarks\n\n\
         What `cargo xtask bench` printed last. Times belong to the machine that ran it; read the ratios.\n\n\
         {}\n",
        printed.trim_matches('\n'),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_is_found_by_crate_kind_and_name() {
        let one = |package: &str, kind: &str, name: &str| serde_json::json!({"packages": [{"name": package, "targets": [{"name": name, "kind": [kind]}]}]});
        assert!(exists(&one("haft", "bench", "core"), "haft", "core"));
        assert!(!exists(&one("haft", "test", "core"), "haft", "core"));
        assert!(!exists(&one("haft", "bench", "other"), "haft", "core"));
        assert!(!exists(&one("haft-tools", "bench", "core"), "haft", "core"));
    }

    #[test]
    fn the_page_holds_what_was_printed() {
        assert!(page("\na 1.0\nb 2.0\n\n").ends_with("\n\na 1.0\nb 2.0\n"));
    }
}
