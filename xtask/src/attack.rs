//! `cargo xtask attack`: the corpus of attacks on the built program, and the page that records what came of them.
//!
//! The corpus is a test of the program, `attack.rs` in the tests of `haft-cli`, and one of the proofs of `cargo xtask prove`.

use crate::Done;
use crate::cargo::{cargo, root};
use crate::source::write;

const PAGE: &str = "docs/proof/attack.md";
const MARK: &str = "proof: ";
const TEST: &str = "attack::prove_that_attacks_fail";

pub(crate) fn run() -> Done {
    let args = ["test", "--package", "haft-cli", "--all-features", "--test", "it-cli"];
    let only = ["--", "--exact", TEST, "--ignored", "--nocapture", "--test-threads=2"];
    let mut found = Vec::new();
    let done = cargo(args.into_iter().chain(only)).run_lines(|line| {
        println!("{line}");
        found.extend(line.strip_prefix(MARK).map(str::to_owned));
    });
    // What succeeded is recorded, too.
    if !found.is_empty() {
        write(&root()?, PAGE, &page(&found))?;
    }
    done
}

fn page(found: &[String]) -> String {
    let found: Vec<String> = found.iter().map(|line| format!("- {line}")).collect();
    format!(
        "# Attacks\n\nWhat `cargo xtask attack` found last: each attack of the corpus in `crates/haft-cli/tests/it/attack` was made on \
         the built program, in fresh folders, as root and as an ordinary user. Its control is the same attempt without the \
         protection, and has to succeed.\n\n{}\n",
        found.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_what_came_of_each_class() {
        let page = page(&["probes as root: 8 attempts, 0 succeeded".to_string()]);
        assert!(
            page.starts_with("# Attacks\n")
                && page.ends_with("\n\n- probes as root: 8 attempts, 0 succeeded\n")
        );
    }
}
