//! Lints for rules at load time.

use haft_policy::rule::LintKind::{self, *};

use super::{compile, set};

#[track_caller]
fn check(rules: &[&str], expected: &[(usize, LintKind, &str)]) {
    let (_, lints) = compile(rules);
    let got: Vec<_> = lints.iter().map(|lint| (lint.rule.index(), lint.kind, &*lint.words)).collect();
    assert_eq!(got, expected, "{rules:?}");
}

#[test]
fn good_rules_are_not_talked_about() {
    check(
        &[
            "allow Bash(npm run *)",
            "allow Edit(src/**)",
            "deny Read(.env)",
            "ask Bash(git push *)",
            "allow Bash",
            "deny Bash(rm *)",
            "allow mcp__x__get_*",
            "deny mcp__*",
            "allow WebFetch(domain:*.a.org)",
            "deny Skill(x)",
        ],
        &[],
    );
}

/// A path that can't match is ignored in `allow`, where it is common in existing settings. In `deny` it is
/// an error.
#[test]
fn a_path_that_can_match_nothing_is_left_out_of_allow_alone() {
    let (_, lints) = compile(&["allow Read(../../x)", "allow Edit(!x)", "allow Read(a..b/..c)"]);
    let told: Vec<_> = lints.iter().map(|lint| (lint.rule.index(), lint.kind)).collect();
    assert_eq!(told, [(0, NeverConsulted), (1, NeverConsulted)]);
    assert!(lints[0].words.starts_with("left out: a path can't go up with `..`"), "{}", lints[0].words);
    super::check(&["allow Read(../../x)", "allow Edit(!x)"], &["silent: Read ../../x", "silent: Edit x"]);
    for rule in ["deny Read(../../x)", "ask Edit(a/../b)", "deny Read(!x)"] {
        super::parse(rule).unwrap_err();
    }
}

#[test]
fn rules_that_are_never_consulted() {
    check(
        &[
            "deny Write(/x/**)",
            "allow Glob(src/**)",
            "deny WebSearch(x)",
            "deny Cd(/x)",
            "deny Bash(command:rm *)",
        ],
        &[
            (0, NeverConsulted, "never consulted; paths of Write are judged by `Edit(path)` rules"),
            (1, NeverConsulted, "never consulted; paths of Glob are judged by `Read(path)` rules"),
            (2, NeverConsulted, "never consulted; `WebSearch` or `WebSearch(argument:value)` is accepted"),
            (3, NeverConsulted, "never consulted; `Cd` or `Cd(argument:value)` is accepted"),
            (4, PrimaryField, "never consulted; `command` is judged by rules of the form `Bash(command)`"),
        ],
    );
}

#[test]
fn patterns_that_mean_less_than_they_seem_to() {
    let literal = "`[` is never closed and stands for itself; a class is written `[ab]`";
    check(
        &[
            "deny Read(x))",
            "deny Read([)",
            "deny Read(src/[ab)",
            "deny Edit(src/{a,b}/**)",
            "deny Edit(src/a**b)",
            r"deny Read(\[)",
            "deny Read([ab]/[!c])",
            "deny Read({a}/(b)/**/c)",
            r"deny Read(x\))",
        ],
        &[
            (0, OddPattern, "names a path with a parenthesis in it, `x)`"),
            (1, OddPattern, literal),
            (2, OddPattern, literal),
            (3, OddPattern, "braces stand for themselves; write a rule for each name"),
            (4, OddPattern, "`**` crosses folders only as a whole segment; in `a**b` it is one `*`"),
        ],
    );
    // These mean what they say.
    super::check(
        &["deny Read(x))", "deny Read([)", "deny Edit({a,b})", "deny Edit(q**z)"],
        &[
            "deny: Read x)",
            "silent: Read x",
            "deny: Read [",
            "deny: Write x/{a,b}",
            "silent: Write a",
            "deny: Write qxz",
            "silent: Write q/z",
        ],
    );
}

#[test]
fn rules_for_several_commands_at_once() {
    check(
        &[
            "allow Bash(cd * && make *)",
            "allow Bash(cd a && make)",
            "deny Bash(curl * | sh)",
            "allow Bash(git commit -m 'a; b' *)",
        ],
        &[(0, NeverConsulted, "never matches: a command line is taken apart; write a rule for each command")],
    );
}

#[test]
fn rules_that_are_too_wide() {
    let words = "left out: in `allow` a name may have `*` only after `mcp__<server>__`";
    check(
        &["allow *", "allow mcp__*", "ask *"],
        &[
            (0, TooWide, words),
            (0, Unreachable, "never takes effect; `*` in `ask` (/p/.haft/settings.json:3) goes first"),
            (1, TooWide, words),
        ],
    );
    check(
        &["allow Bash(run_in_background:true)"],
        &[(
            0,
            TooWide,
            "left out: it would allow every command with that argument; name the command, `Bash(command)`",
        )],
    );
    check(
        &["allow Bash(* --version)", "deny Bash(* --force)"],
        &[(0, LeadingWildcard, "allows any program: it begins with `*`; begin with the program's name")],
    );
}

#[test]
fn paths_that_begin_elsewhere_than_they_seem_to() {
    check(
        &[
            "deny Read(/etc/passwd)",
            "deny Read($HOME/.ssh/**)",
            "deny Read(~root/x)",
            "deny Read(//etc/x)",
            "deny Read(~/x)",
        ],
        &[
            (
                0,
                OddPath,
                "one `/` starts in /p, where the rule stands; for the root of the disk write `//etc/passwd`",
            ),
            (1, OddPath, "`$HOME` is not expanded; write `~/` for home, or the path"),
            (2, OddPath, "`~root` is not expanded; only `~/`, your own home, is"),
        ],
    );
}

#[test]
fn rules_that_another_always_goes_before() {
    let first = |rule: &str, list: &str| {
        format!("never takes effect; `{rule}` in `{list}` (/p/.haft/settings.json:3) goes first")
    };
    check(&["allow Bash(ls)", "deny Bash"], &[(0, Unreachable, &first("Bash", "deny"))]);
    check(&["allow Bash(ls)", "deny Bash(ls)"], &[(0, Unreachable, &first("Bash(ls)", "deny"))]);
    check(&["ask Bash(ls)", "deny Bash(ls)"], &[(0, Unreachable, &first("Bash(ls)", "deny"))]);
    check(&["allow Bash(ls)", "ask Bash(ls)"], &[(0, Unreachable, &first("Bash(ls)", "ask"))]);
    check(&["allow mcp__x__y", "deny mcp__x"], &[(0, Unreachable, &first("mcp__x", "deny"))]);
    check(&["allow mcp__x__y", "deny mcp__*"], &[(0, Unreachable, &first("mcp__*", "deny"))]);
    check(
        &["allow WebFetch(domain:a.b)", "deny WebFetch(*)"],
        &[(0, Unreachable, &first("WebFetch(*)", "deny"))],
    );
    // It still allows `Write`.
    check(&["allow Edit(src/**)", "deny Edit"], &[]);
    // The same text from another origin is about other files.
    check(&["user allow Edit(/src/**)", "deny Edit(/src/**)"], &[]);
    check(&["allow Bash", "deny Bash(ls)"], &[]);
}

#[test]
fn tools_that_nobody_has() {
    let set = set(&[
        "deny Bsh",
        "ask bash(ls)",
        "deny mcp__x__y",
        "deny my_tool",
        "deny B*",
        "allow Zebra",
        "deny Read",
        "deny Custom",
        "deny mcp__x,mcp__y",
        "deny mcp__x mcp__y",
    ]);
    let lints = set.unknown_tools(["Custom"]);
    let words: Vec<&str> = lints.iter().map(|lint| &*lint.words).collect();
    assert_eq!(
        words,
        [
            "no tool named `Bsh`; did you mean `Bash`?",
            "no tool named `bash`; did you mean `Bash`?",
            "no tool named `Zebra`",
            "no tool named `mcp__x,mcp__y`; a rule names one tool, so write a rule for each",
            "no tool named `mcp__x mcp__y`; a rule names one tool, so write a rule for each",
        ]
    );
    assert!(lints.iter().all(|lint| lint.kind == UnknownTool));
    assert_eq!(
        lints[0].to_string(),
        "/p/.haft/settings.json:3: rule `Bsh`: no tool named `Bsh`; did you mean `Bash`?"
    );
}
