//! `cargo xtask soak`: mixed load for minutes, with optimised code, and the page that records what was seen.
//!
//! The load is a test of the program, `soak.rs` in the tests of `haft-cli`, which every `cargo xtask test` runs for seconds.

use crate::Done;
use crate::cargo::{cargo, root};
use crate::source::write;

const PAGE: &str = "docs/proof/soak.md";
const MARK: &str = "proof: ";
const TEST: &str = "soak::soak_for_minutes";

pub(crate) fn run(minutes: u32) -> Done {
    let args = ["test", "--profile", "prove", "--package", "haft-cli", "--all-features", "--test", "it"];
    let only = ["--", "--exact", TEST, "--ignored", "--nocapture"];
    let mut found = Vec::new();
    let call = cargo(args.into_iter().chain(only)).with_env("HAFT_SOAK_MINUTES", &minutes.to_string());
    let done = call.run_lines(|line| {
        println!("{line}");
        found.extend(line.strip_prefix(MARK).map(str::to_owned));
    });
    done?;
    write(&root()?, PAGE, &page(minutes, &found))
}

fn page(minutes: u32, found: &[String]) -> String {
    let found: Vec<String> = found.iter().map(|line| format!("- {line}")).collect();
    format!(
        "# Soak\n\nWhat `cargo xtask soak --minutes {minutes}` saw last: one `haft serve` over HTTP with three clients and an MCP \
         server that dies now and then, others that come and go beside it, and turns that are interrupted. The middle and the \
         end are medians of the second and the last third of the time; the run fails where the end is more than a quarter \
         above the middle.\n\n{}\n",
        found.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_what_was_seen() {
        let page = page(10, &["5 reads".to_string()]);
        assert!(page.contains("--minutes 10") && page.ends_with("\n\n- 5 reads\n"), "{page}");
    }
}
