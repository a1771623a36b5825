//! Everyday commands that ask, and in which modes: a corpus with the expected answers.

use std::path::Path;
use std::sync::Arc;

use haft_policy::gate::PolicyContext;
use serde_json::json;

use super::with;
use crate::room::Room;

/// One command per line, after a mark: `-` runs without asking in `default` and `auto`, `d` asks only in
/// `default`, `a` in both.
const CORPUS: &str = include_str!("../../../../haft-shell/testdata/everyday.txt");

/// The page with the counts.
const PAGE: &str = include_str!("../../../../../docs/shell.md");

/// Returns the lines of the corpus with their current marks.
fn marked() -> String {
    let [default, auto] = ["default", "auto"].map(|mode| {
        with(json!({})).mode(mode).open_in(Room::new(), |setup| PolicyContext {
            confined: true,
            full_sandbox: Some(Arc::new(|| true)),
            no_sandbox: false,
            ..setup
        })
    });
    let lines = CORPUS.lines().map(|line| {
        let command = &line[2..];
        let input = json!({"command": command.replace("\\n", "\n")});
        let [asks, asks_in_auto] = [&default, &auto]
            .map(|session| session.explain("Bash", &input).verdict != haft::decision::Verdict::Allow);
        let mark = if asks_in_auto {
            'a'
        } else if asks {
            'd'
        } else {
            '-'
        };
        format!("{mark} {command}\n")
    });
    lines.collect()
}

fn count(corpus: &str, mark: char) -> usize {
    corpus.lines().filter(|line| line.starts_with(mark)).count()
}

/// `HAFT_WRITE_PAGES=1` writes the marks.
#[test]
fn everyday_commands_ask_as_the_corpus_says() {
    let marked = marked();
    if std::env::var_os("HAFT_WRITE_PAGES").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../haft-shell/testdata/everyday.txt");
        std::fs::write(path, &marked).unwrap();
    }
    let (all, auto) = (CORPUS.lines().count(), count(CORPUS, 'a'));
    let counts =
        format!("Of {all} commands {} ask in `default` and {auto} in `auto`", count(CORPUS, 'd') + auto);
    assert!(PAGE.contains(&counts), "docs/shell.md has to say: {counts}");
    let different: Vec<_> = marked.lines().zip(CORPUS.lines()).filter(|(now, then)| now != then).collect();
    assert!(different.is_empty(), "HAFT_WRITE_PAGES=1 writes them: {different:#?}");
    assert!(all > 500 && marked.lines().all(|line| !line.starts_with("a") || count(&marked, 'a') < all / 20));
}

#[test]
fn commands_that_only_look_run_by_themselves() {
    let unasked = [
        "find . -name '*.rs' -exec wc -l {} +",
        "find . -name '*.rs' | xargs grep -n unwrap",
        "for f in *.md; do wc -l \"$f\"; done",
        "X=1; echo $X",
        "bash -c 'ls'",
        "tar tzf archive.tar.gz",
        "unzip -l archive.zip",
        "git reflog",
        "nm target/debug/app",
    ];
    for command in unasked {
        assert!(CORPUS.contains(&format!("- {command}\n")), "{command}");
    }
    for command in ["PYTHONPATH=. pytest", "source .venv/bin/activate && pytest"] {
        assert!(CORPUS.contains(&format!("d {command}\n")), "{command}");
    }
}
