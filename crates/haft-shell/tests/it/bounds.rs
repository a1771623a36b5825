//! Commands that are designed to cost time or stack, and random ones. Each gets a result quickly.

use haft_shell::{CHARS_MAX, DEPTH_MAX, Doubt, ShellDirectories, analyse_command};
use proptest::prelude::*;

fn place() -> ShellDirectories {
    ShellDirectories::new("/repo")
}

/// Fills the longest accepted command with a repeated text.
fn filled(open: &str, middle: &str, close: &str) -> String {
    let room = (CHARS_MAX - middle.chars().count()) / (open.chars().count() + close.chars().count()).max(1);
    format!("{}{middle}{}", open.repeat(room), close.repeat(room))
}

#[test]
fn bombs_are_answered() {
    for (open, close) in [
        ("(", ")"),
        ("{ ", "; }"),
        ("((", "))"),
        ("$(", ")"),
        ("echo $(", ")"),
        ("\"$(", ")\""),
        ("${x:-", "}"),
        ("\"${x:-", "}\""),
        ("[[ ( ", " ) ]]"),
        ("if ", "; then a; fi"),
        ("while a; do ", "; done"),
        ("case x in a) ", ";; esac"),
        ("f() { ", "; }"),
        ("$((", "))"),
        ("<(", ")"),
        ("a && ", ""),
        ("! ", ""),
        ("time ", ""),
        ("{", ""),
        ("{a,", "}"),
        ("`", "`"),
        ("\\", ""),
        ("'", "'"),
        ("\"", "\""),
        ("$", ""),
        ("a[", "]"),
        ("a=(", ")"),
        ("<<E\n", ""),
        ("a <<E\nE\n", ""),
        ("sudo ", ""),
        ("env ", ""),
        ("eval ", ""),
        ("timeout 1 ", ""),
        ("xargs ", ""),
        ("coproc ", ""),
        ("function f ", ""),
        ("a | ", ""),
        ("a\n", ""),
        ("[[ a =~ (", ")"),
        ("~", ""),
        ("#", ""),
        ("*", ""),
        ("a>", ""),
        (";", ""),
        ("find -exec ", ""),
        ("cd a;", ""),
        ("cd a||", ""),
        ("sh -c '", "'"),
        ("x=$((1+", "))"),
        ("${x[", "]}"),
        ("${x//", "}"),
        ("é", ""),
    ] {
        let bomb = filled(open, "a", close);
        let found = analyse_command(&bomb, &place());
        assert!(!found.doubts.is_empty() || found.commands.len() <= 200, "{open}");
        // The same, truncated at several positions.
        for part in 1..8 {
            let cut =
                bomb.char_indices().nth(bomb.chars().count() * part / 8).map_or(bomb.len(), |(at, _)| at);
            analyse_command(&bomb[..cut], &place());
        }
    }
}

#[test]
fn quoted_texts_nest_to_a_bound() {
    // `sh -c` in `sh -c`, each level quoted once more. The text grows, so the length limit is reached
    // first.
    let mut command = "rm x".to_owned();
    for _ in 0..8 {
        command = format!("sh -c '{}'", command.replace('\'', "'\\''"));
    }
    assert!(
        !analyse_command(&command, &place()).doubts.is_empty()
            || analyse_command(&command, &place()).commands.len() == 9
    );
    let evals = format!("{}rm x", "eval ".repeat(DEPTH_MAX + 10));
    assert!(analyse_command(&evals, &place()).doubts.contains(&Doubt::TooDeep));
    let evals = format!("{}rm x", "eval ".repeat(5));
    assert_eq!(analyse_command(&evals, &place()).commands.last().unwrap().text, "rm x");
}

#[test]
fn bounds_are_exact() {
    let at = "a".repeat(CHARS_MAX);
    assert_eq!(analyse_command(&at, &place()).doubts, []);
    let over = "é".repeat(CHARS_MAX + 1);
    assert_eq!(analyse_command(&over, &place()).doubts, [Doubt::TooLong]);
    assert_eq!(analyse_command(&vec!["a"; 200].join(";"), &place()).doubts, []);
    assert_eq!(analyse_command(&vec!["a"; 201].join(";"), &place()).doubts, [Doubt::TooMany]);
    assert_eq!(analyse_command(&format!("{}a{}", "( ".repeat(40), " )".repeat(40)), &place()).doubts, []);
    assert_eq!(
        analyse_command(&format!("{}a{}", "( ".repeat(60), " )".repeat(60)), &place()).doubts,
        [Doubt::TooDeep]
    );
}

fn fragments() -> impl Strategy<Value = String> {
    let bits = prop::sample::select(vec![
        "a",
        "b ",
        " ",
        "\n",
        ";",
        "&",
        "&&",
        "|",
        "||",
        "(",
        ")",
        "{",
        "}",
        "{ ",
        " }",
        "[[",
        "]]",
        "((",
        "))",
        "$",
        "$(",
        "${",
        "$((",
        "`",
        "'",
        "\"",
        "\\",
        "#",
        "<",
        ">",
        "<<",
        "<<E",
        "\nE\n",
        "<<<",
        "<(",
        ">(",
        "=",
        "x=",
        "if ",
        "then ",
        "fi",
        "do ",
        "done",
        "for x in ",
        "while ",
        "case x in ",
        "esac",
        ";;",
        "function ",
        "f()",
        "eval ",
        "sh -c ",
        "env ",
        "sudo ",
        "timeout 5 ",
        "xargs ",
        "find . -exec ",
        "{}",
        "+",
        "cd d",
        "rm -rf ",
        "/",
        "*",
        "~",
        "é",
        "\t",
        "!",
        "time ",
        "coproc ",
        "trap ",
        "-c",
        "-n",
        "--x=y",
        "$'",
        "@(",
        "$\"",
        "1>",
        "&>",
        "2>&1",
    ]);
    prop::collection::vec(bits, 0..40).prop_map(|bits| bits.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_fragments_are_answered(command in fragments()) {
        let found = analyse_command(&command, &place());
        for one in &found.commands {
            one.texts_for_allow();
            one.texts_for_deny();
        }
        found.lines();
        let effects = found.effects();
        prop_assert!(found.doubts.is_empty() || effects.unknown);
        prop_assert!(effects.consistent().is_ok());
    }

    #[test]
    fn any_text_is_answered(command in ".{0,200}") {
        analyse_command(&command, &place());
    }

    /// Text in single quotes is only text.
    #[test]
    fn quoted_text_starts_nothing(text in "[^'\u{0}-\u{1f}\u{7f}-\u{9f}\u{202a}-\u{202e}\u{2066}-\u{2069}]{0,60}") {
        let found = analyse_command(&format!("echo '{text}'"), &place());
        prop_assert!(found.doubts.is_empty(), "{:?}", found.doubts);
        prop_assert_eq!(found.commands.len(), 1);
        prop_assert_eq!(found.commands[0].argv()[1].literal(), Some(&*text));
    }
}
