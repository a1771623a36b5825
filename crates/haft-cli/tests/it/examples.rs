//! The examples run and show what their readers are told they show.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::room::crate_path;

/// The standard output of an example. `cargo test` builds the examples of what it tests, and leaves those of other
/// crates as they are; what is missing or old is left to cargo.
fn example(package: &str, name: &str, args: &[&str]) -> String {
    let built = Path::new(env!("CARGO_BIN_EXE_haft")).with_file_name("examples").join(name);
    let mut command = if is_current(&built, package) {
        Command::new(built)
    } else {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "--package", package, "--example", name, "--"]);
        cargo
    };
    let output = command.args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("panicked"), "{name}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Whether a program is younger than everything that it is made of in this workspace.
fn is_current(built: &Path, package: &str) -> bool {
    let Ok(made) = built.metadata().and_then(|data| data.modified()) else { return false };
    // Examples of `haft` use no other crate with tools; a change there doesn't make cargo build them again.
    let folders = match package {
        "haft" => vec!["../haft-scheduler/src", "../haft/src", "../haft/examples"],
        "haft-cli" => vec!["../haft/src", "../haft-tools/src", "../haft-cli/examples"],
        other => panic!("what the examples of {other} are made of is not listed here"),
    };
    let mut waiting: Vec<PathBuf> = folders.into_iter().map(crate_path).collect();
    while let Some(path) = waiting.pop() {
        let data = path.metadata().unwrap();
        if data.is_dir() {
            waiting.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
        } else if data.modified().unwrap() > made {
            return false;
        }
    }
    true
}

#[track_caller]
fn says(shown: &str, parts: &[&str]) {
    for part in parts {
        assert!(shown.contains(part), "`{part}` is missing in:\n{shown}");
    }
}

#[test]
fn word_counter() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("text.txt");
    std::fs::write(&file, "four words are here").unwrap();
    let shown = example("haft", "word_counter", &[file.to_str().unwrap()]);
    says(
        &shown,
        &["`count_words`: Counts the words in a text file.", "text.txt has 4 words", r#""output":4"#],
    );
}

#[test]
fn closures() {
    let shown = example("haft", "closures", &[]);
    says(
        &shown,
        &[
            "lookup   Denied: lookup was denied: it reaches crm.example.com, so it needs a yes",
            "to allow it: allow rule `lookup`",
            r#"lookup   {"id":"c-17","name":"Ada","since":1843}"#,
            "Failed: no customer c-99",
            "InvalidInput: invalid input for lookup (1 problem)",
        ],
    );
}

#[test]
fn turn() {
    let shown = example("haft-cli", "turn", &[]);
    says(
        &shown,
        &[
            "Write, log, save_text, weather",
            "1\tThe tide goes out",
            "beside others",
            "no tool named `read_fil`; closest: `read_file` (alias of Read), `Read`",
            "invalid input for Read (2 problems):",
            "to allow it: allow rule `save_text`",
            "the whole result is in ",
            "7 results after",
            "done already     weather     Rome",
            "all 3 results are there",
        ],
    );
}
