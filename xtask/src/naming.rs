//! Rules on names and comments: what a Rust engineer expects to read, as far as a program can check it.
//!
//! The product's own code counts: `src` of every crate without test modules.

use std::collections::BTreeMap;

use crate::repository::{Rule, each_line, rust, shipped};
use crate::source::{File, code_only};

/// Participles that say nothing as the name of a type: a type is a noun.
const PARTICIPLES: &[&str] = &[
    "Added",
    "Allowed",
    "Answered",
    "Approved",
    "Arrived",
    "Asked",
    "Attached",
    "Blocked",
    "Broken",
    "Cancelled",
    "Captured",
    "Changed",
    "Checked",
    "Chosen",
    "Classified",
    "Cleaned",
    "Configured",
    "Confined",
    "Considered",
    "Covered",
    "Decided",
    "Declared",
    "Decoded",
    "Denied",
    "Detached",
    "Dropped",
    "Elicited",
    "Ended",
    "Failed",
    "Fetched",
    "Filled",
    "Fired",
    "Fixed",
    "Folded",
    "Forked",
    "Found",
    "Given",
    "Granted",
    "Guarded",
    "Heard",
    "Held",
    "Hooked",
    "Injected",
    "Isolated",
    "Judged",
    "Kept",
    "Known",
    "Led",
    "Left",
    "Lent",
    "Lifted",
    "Limited",
    "Listed",
    "Loaded",
    "Locked",
    "Looked",
    "Made",
    "Meant",
    "Mended",
    "Merged",
    "Moved",
    "Named",
    "Needed",
    "Noted",
    "Notified",
    "Offered",
    "Opened",
    "Owed",
    "Passed",
    "Pinned",
    "Piped",
    "Placed",
    "Planned",
    "Posted",
    "Prepared",
    "Printed",
    "Protected",
    "Ran",
    "Reached",
    "Recorded",
    "Recovered",
    "Refused",
    "Remembered",
    "Replied",
    "Resolved",
    "Resumed",
    "Saved",
    "Sealed",
    "Seen",
    "Sent",
    "Served",
    "Settled",
    "Shown",
    "Spent",
    "Stamped",
    "Started",
    "Taken",
    "Told",
    "Touched",
    "Traced",
    "Typed",
    "Used",
    "Waiting",
    "Walked",
    "Wanted",
    "Watched",
    "Went",
    "Withheld",
    "Written",
];

/// Names that a module completes: `board::State` and `cancel::State` are two things that nobody confuses.
const COMPLETED_BY_MODULE: &[&str] = &["Error", "Kind", "Options", "State"];

pub(crate) const RULES: &[Rule] =
    &[participles, functions_named_of, duplicate_types, matches_on_bools, long_comments];

/// Files with comments and literals blanked.
fn blanked(files: impl Iterator<Item = File>) -> Vec<File> {
    files.map(|file| File { text: code_only(&file.text), path: file.path }).collect()
}

/// The type that a line defines.
fn defined_type(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => line,
    };
    let rest =
        ["struct ", "enum ", "trait "].iter().find_map(|keyword| line.trim_start().strip_prefix(keyword))?;
    Some(rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
}

/// No type is named by a bare participle.
fn participles(files: &[File]) -> Vec<String> {
    each_line(blanked(shipped(files)).iter(), |line| {
        let name = defined_type(line).filter(|name| PARTICIPLES.contains(name))?;
        Some(format!("`{name}` is a participle; a type is named by a noun that says what it holds"))
    })
}

/// No function is named `of`.
fn functions_named_of(files: &[File]) -> Vec<String> {
    each_line(blanked(shipped(files)).iter(), |line| {
        let is_of = line.contains("fn of(") || line.contains("fn of<");
        is_of.then(|| "`fn of`: a constructor is `new`, `from_…`, `for_…` or a verb".to_owned())
    })
}

/// No two types of a crate share a name.
fn duplicate_types(files: &[File]) -> Vec<String> {
    let mut places: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for file in blanked(shipped(files)) {
        let crate_name = file.path.split('/').nth(1).unwrap_or_default().to_owned();
        for (index, line) in file.text.lines().enumerate() {
            let Some(name) = defined_type(line) else { continue };
            if name.is_empty() || COMPLETED_BY_MODULE.contains(&name) {
                continue;
            }
            let place = format!("{}:{}", file.path, index + 1);
            places.entry((crate_name.clone(), name.to_owned())).or_default().push(place);
        }
    }
    let shared = places.into_iter().filter(|(_, places)| places.len() > 1);
    shared
        .map(|((_, name), places)| format!("{}: `{name}` is also at {}", places[0], places[1..].join(", ")))
        .collect()
}

/// No `match` on a bool, unless an arm has a guard.
fn matches_on_bools(files: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in blanked(rust(files).map(|file| File { path: file.path.clone(), text: file.text.clone() })) {
        let lines: Vec<&str> = file.text.lines().map(str::trim_start).collect();
        for (index, line) in lines.iter().enumerate() {
            let begins = line.ends_with(" {") && (line.starts_with("match ") || line.contains(" match "));
            let arms = lines.get(index + 1..index + 3).unwrap_or_default();
            if begins
                && matches!(arms, [first, second] if first.starts_with("true => ") && second.starts_with("false => "))
            {
                findings.push(format!("{}:{}: `match` on a bool: write `if`", file.path, index + 1));
            }
        }
    }
    findings
}

const COMMENT_CHARS_MAX: usize = 110;

/// No comment line is too long to read beside code. Code, tables and drawings in comments can't be broken.
fn long_comments(files: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in rust(files) {
        let mut in_code = false;
        for (index, line) in file.text.lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("//") else {
                in_code = false;
                continue;
            };
            let text = comment.trim_start_matches(['/', '!']).trim_start();
            in_code ^= text.starts_with("```");
            if !in_code && !text.starts_with('|') && line.chars().count() > COMMENT_CHARS_MAX {
                findings.push(format!(
                    "{}:{}: more than {COMMENT_CHARS_MAX} characters",
                    file.path,
                    index + 1
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: Rule, text: &str, expected: usize) {
        let file =
            |name: &str, text: &str| File { path: format!("crates/a/src/{name}.rs"), text: text.to_owned() };
        let findings = rule(&[file("b", text), file("c", "struct Taken2;\nstruct Twice;\nstruct State;")]);
        assert_eq!(findings.len(), expected, "{text}: {findings:?}");
    }

    #[test]
    fn names_and_comments_are_checked() {
        check(participles, "pub(crate) struct Kept {", 1);
        check(participles, "// struct Kept\nstruct KeptFile;", 0);
        check(functions_named_of, "fn of(x: u8) {}", 1);
        check(functions_named_of, "fn of_turn(x: u8) {}", 0);
        check(duplicate_types, "enum Twice {}", 1);
        check(duplicate_types, "enum State {}", 0);
        check(matches_on_bools, "let x = match y {\n    true => 1,\n    false => 2,\n};", 1);
        check(matches_on_bools, "match y {\n    true if z => 1,\n    true => 3,\n    false => 2,\n}", 0);
        check(long_comments, &format!("/// {}", "word ".repeat(30)), 1);
        check(
            long_comments,
            &format!("/// ```\n/// {}\n/// ```\n/// | {} |", "x".repeat(120), "y".repeat(120)),
            0,
        );
    }
}
