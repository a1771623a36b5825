//! The explanation of a decision: which rule decided, why others did not, and what is uncovered.

use super::{call, decide, set};

/// Checks the deciding rule, then the others with their reasons, then what is uncovered.
#[track_caller]
fn check(rules: &[&str], text: &str, expected: &[&str]) {
    let set = set(rules);
    let decision = decide(&set, text);
    let by = decision.by.map_or("nobody".to_owned(), |id| set.rule(id).to_string());
    let mut told = vec![format!("{} by {by}", super::word(decision.verdict))];
    told.extend(decision.others.iter().map(|(id, why)| format!("{}: {why}", set.rule(*id))));
    call(text).with(|subject| {
        told.extend(decision.uncovered.iter().map(|effect| format!("uncovered: {}", subject.show(*effect))));
    });
    assert_eq!(told, expected, "{text} under {rules:?}");
}

#[test]
fn every_rule_that_matched_is_named_with_why_it_lost() {
    check(
        &[
            "allow Bash(git *)",
            "ask Bash(git push *)",
            "deny Bash(git push -f)",
            "deny Bash(git *)",
            "deny Read",
        ],
        "Bash git push -f",
        &[
            "deny by Bash(git push -f)",
            "Bash(git *): a deny rule goes first",
            "Bash(git push *): a deny rule goes first",
            "Bash(git *): says the same",
        ],
    );
    check(
        &["allow Bash(git *)", "ask Bash(git push *)"],
        "Bash git push",
        &["ask by Bash(git push *)", "Bash(git *): an ask rule goes first"],
    );
}

#[test]
fn a_narrow_rule_that_asks_is_named_before_one_for_every_use() {
    let rules = ["ask Bash", "ask Bash(git *)", "allow Bash"];
    check(
        &rules,
        "Bash git push",
        &["ask by Bash(git *)", "Bash: says the same", "Bash: an ask rule goes first"],
    );
    check(&rules, "Bash ls", &["ask by Bash", "Bash: an ask rule goes first"]);
    check(
        &["ask Bash", "deny *"],
        "Bash ls",
        &["deny by *", "Bash: a deny rule goes first", "uncovered: runs ls"],
    );
}

#[test]
fn what_no_rule_covers_is_named() {
    check(
        &["allow Bash(npm *)"],
        "Bash npm test; make; ls | writes out",
        &[
            "silent by nobody",
            "Bash(npm *): covers a part, and the rest is not covered",
            "uncovered: runs make",
            "uncovered: runs ls",
            "uncovered: writes /p/w/out",
        ],
    );
    check(
        &["allow Bash(npm *)", "allow Bash(ls *)"],
        "Bash npm test; ls",
        &["allow by Bash(npm *)", "Bash(ls *): covers a part"],
    );
    // A path rule matches a redirection only if the whole line is allowed.
    check(
        &["allow Bash(a)", "allow Edit(out)"],
        "Bash a; b | writes out",
        &[
            "silent by nobody",
            "Bash(a): covers a part, and the rest is not covered",
            "Edit(out): nothing keeps this tool to what it declares; allow it by its name",
            "uncovered: runs b",
            "uncovered: writes /p/w/out",
        ],
    );
    check(&[], "mcp__x__y", &["silent by nobody", "uncovered: uses mcp__x__y"]);
    check(
        &[],
        "script | open | reaches a.org | deletes a",
        &[
            "silent by nobody",
            "uncovered: may do anything",
            "uncovered: deletes /p/w/a",
            "uncovered: reaches a.org",
        ],
    );
}

#[test]
fn a_rule_that_nearly_covers_says_why_not() {
    check(
        &["allow Edit(src/**)"],
        "script | writes src/a",
        &[
            "silent by nobody",
            "Edit(src/**): nothing keeps this tool to what it declares; allow it by its name",
            "uncovered: writes /p/w/src/a",
        ],
    );
    check(
        &["allow Edit(src/**)"],
        "Edit src/a -> /etc/a",
        &[
            "silent by nobody",
            "Edit(src/**): matches only one of the path as given and the path as resolved",
            "uncovered: writes /p/w/src/a",
        ],
    );
    check(
        &["allow Bash(find *)"],
        "Bash | runs-exact find . -delete",
        &[
            "silent by nobody",
            "Bash(find *): this command needs an exact rule",
            "uncovered: runs find . -delete",
        ],
    );
    check(
        &["allow Bash(x *)"],
        "Bash | runs-unclear x $Y",
        &["silent by nobody", "Bash(x *): the command is not understood", "uncovered: runs x $Y"],
    );
    check(
        &["allow Write"],
        "Write /etc/a",
        &[
            "silent by nobody",
            "Write: this lies outside of the working directories",
            "uncovered: writes /etc/a",
        ],
    );
    check(
        &["deny Edit(.env)", "allow script"],
        "script | deletes-below build",
        &["ask by Edit(.env)", "script: a deny rule that may apply goes first"],
    );
    check(
        &["deny Read(.env)", "allow Read(/w/**)"],
        "Grep . | leaves-out",
        &["allow by Read(/w/**)", "Read(.env): what it names is left out"],
    );
}
