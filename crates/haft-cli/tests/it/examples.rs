//! The examples run and show what their readers are told they show.

use std::path::Path;
use std::process::Command;

/// The standard output of an example. `cargo test` builds the examples of the packages that it tests; cargo
/// builds an example that is missing or outdated.
fn example(package: &str, name: &str, args: &[&str]) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_haft")).with_file_name("examples").join(name);
    let mut command = if is_current(&program) {
        Command::new(program)
    } else {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "--package", package, "--example", name, "--"]);
        cargo
    };
    let output = command.args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!errors.contains("panicked"), "{name}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Whether a program is newer than every source file that cargo's dep-info lists for it.
fn is_current(program: &Path) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified());
    let Ok(built) = modified(program) else { return false };
    let Ok(dep_info) = std::fs::read_to_string(program.with_extension("d")) else { return false };
    let Some((_, sources)) = dep_info.split_once(": ") else { return false };
    let mut sources = sources.lines().next().unwrap_or_default().split(' ');
    sources.all(|source| modified(Path::new(source)).is_ok_and(|changed| changed <= built))
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
