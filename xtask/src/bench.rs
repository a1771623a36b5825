//! `cargo xtask bench`: runs the benchmarks, or one, and keeps what they printed in `docs/proof/bench.md`.
//!
//! What is measured, and against what, is each benchmark's own business; this file only records it.

use serde_json::Value;

use crate::Done;
use crate::cargo::{Call, cargo, metadata, root};
use crate::sections::{self, Sections};
use crate::source::write;

/// Crate and benchmark, in the order of the page.
const BENCHES: [(&str, &str); 18] = [
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
    ("haft-shell", "analyse"),
    ("haft-terminal", "screen"),
    ("haft-tools", "files"),
    ("haft-tools", "scripts"),
    ("haft-tools", "web"),
    ("haft-cli", "replay"),
    ("haft-cli", "start"),
    ("haft-cli", "journal"),
];
const PAGE: &str = "docs/proof/bench.md";

pub(crate) fn run(only: Option<&str>) -> Done {
    let names: Vec<String> = BENCHES.iter().map(|(package, bench)| format!("{package}/{bench}")).collect();
    if let Some(only) = only
        && !names.iter().any(|name| name == only)
    {
        return Err(format!("no benchmark `{only}`; there are:\n  {}", names.join("\n  ")));
    }
    let (root, metadata) = (root()?, metadata()?);
    // A full run forgets what is gone; a partial run keeps what it did not try.
    let mut printed = match only {
        Some(_) => sections::of(&std::fs::read_to_string(root.join(PAGE)).unwrap_or_default()),
        None => Sections::new(),
    };
    for ((package, bench), name) in BENCHES.into_iter().zip(&names) {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        if !exists(&metadata, package, bench) {
            return Err(format!("there is no benchmark `{bench}` in the crate `{package}`"));
        }
        let mut call = cargo(["bench", "--all-features", "--package", package, "--bench", bench]);
        if (package, bench) == ("haft-tools", "files") {
            call = call.with_env("RG", &ripgrep(&metadata)?);
        }
        let mut lines = String::new();
        call.run_lines(|line| {
            println!("{line}");
            lines.push_str(line);
            lines.push('\n');
        })?;
        printed.insert(name.clone(), format!("{}\n", lines.trim_matches('\n')));
        // Each as soon as it is there: all of them take long.
        write(&root, PAGE, &page(&names, &printed))?;
    }
    Ok(())
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

/// What was printed, in the order in which it is measured.
fn page(names: &[String], printed: &Sections) -> String {
    let beginning = "# Benchmarks\n\n\
        What `cargo xtask bench` printed last. Times belong to the machine that ran it; read the ratios.\n";
    sections::page(beginning, names.iter().filter_map(|name| printed.get_key_value(name)))
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
    fn the_page_holds_what_was_printed_in_the_order_of_benchmarks() {
        let names = ["b/x", "a/y", "a/z"].map(str::to_owned);
        let printed = [("a/y", "1\n"), ("b/x", "2\n")].map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert!(page(&names, &printed.into()).ends_with("\n## `b/x`\n\n2\n\n## `a/y`\n\n1\n"));
    }

    #[test]
    fn who_names_one_that_is_not_there_is_told_which_are() {
        let error = run(Some("haft/cor")).unwrap_err();
        assert!(error.contains("no benchmark `haft/cor`") && error.contains("\n  haft/core\n"), "{error}");
    }
}
