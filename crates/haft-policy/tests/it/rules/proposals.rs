//! Proposals of the narrowest rules that would allow a call.

use super::{call, set};

#[track_caller]
fn check(rules: &[&str], text: &str, expected: &[&str]) {
    let proposed = call(text).with(|subject| set(rules).propose(subject));
    assert_eq!(proposed, expected, "{text} under {rules:?}");
}

#[test]
fn a_command_is_proposed_word_by_word() {
    check(&[], "Bash npm run test", &["Bash(npm run test)"]);
    check(&[], "Bash ls *.rs", &[r"Bash(ls \*.rs)"]);
    check(&[], "Bash rm a | it-deletes /etc/a", &["Bash(rm a)"]);
    check(&[], "Monitor tail -f x", &["Bash(tail -f x)"]);
    check(&[], "PowerShell Get-Item", &["PowerShell(Get-Item)"]);
}

#[test]
fn several_commands_have_a_rule_each_as_far_as_they_need_one() {
    check(&["allow Bash(npm *)"], "Bash npm test; make; ls", &["Bash(make)", "Bash(ls)"]);
    check(&[], "Bash a; b; a", &["Bash(a)", "Bash(b)"]);
    check(&[], "Bash a; b; c; d; e", &["Bash(a)", "Bash(b)", "Bash(c)", "Bash(d)", "Bash(e)"]);
    // Too many rules to review: the whole line or nothing.
    check(&[], "Bash a; b; c; d; e; f", &["Bash(a; b; c; d; e; f)"]);
}

/// A rule with a backslash before each parenthesis may be a saved one, and mean the command without
/// backslashes.
#[test]
fn what_could_be_read_as_another_command_is_not_proposed() {
    check(&[], r"Bash \(", &[]);
    check(&[], r"Bash \(x\)", &[]);
    check(&[], r"Bash echo $\(x\)", &[]);
    check(&[], r#"Bash echo "\(x\)""#, &[]);
    check(&[], r"Bash find . \( -name a \)", &[r"Bash(find . \( -name a \))"]);
    check(&[], r"Bash find . \( -name *.a \)", &[r"Bash(find . \\( -name \*.a \\))"]);
    check(&[], "Bash (x)", &["Bash((x))"]);
}

#[test]
fn a_redirection_is_proposed_with_its_command() {
    check(&[], "Bash echo a | writes out", &["Bash(echo a)", "Edit(//p/w/out)"]);
    check(&["allow Bash"], "Bash echo a | writes /etc/x", &["Edit(//etc/x)"]);
}

#[test]
fn a_file_is_proposed_by_its_whole_path() {
    check(&[], "Read /etc/hosts", &["Read(//etc/hosts)"]);
    check(&[], "Write a [1]*.txt", &[r"Edit(//p/w/a \[1\]\*.txt)"]);
    check(&[], "Grep /etc", &["Read(//etc/**)"]);
    check(&[], "Edit a -> /b", &["Edit(//p/w/a)", "Edit(//b)"]);
    // A rule for changing a file also allows reading it.
    check(&[], "Edit a | reads a", &["Edit(//p/w/a)"]);
    check(&[], "Edit a | reads b", &["Read(//p/w/b)", "Edit(//p/w/a)"]);
    check(&["allow Edit"], "Edit a -> /b", &["Edit(//p/w/a)", "Edit(//b)"]);
}

#[test]
fn others_are_proposed_by_host_or_name() {
    check(&[], "WebFetch Example.com.", &["WebFetch(domain:example.com)"]);
    check(&[], "mcp__x__y | writes a | open", &["mcp__x__y"]);
    check(&[], "script | writes a", &["script"]);
    check(&[], "Agent Explore", &["Agent(Explore)"]);
    check(&[], "Skill commit -m x", &["Skill(commit -m x)"]);
}

#[test]
fn nothing_is_proposed_where_nothing_helps() {
    check(&[], "Bash | runs-unclear $X", &[]);
    check(&["allow Read"], "Read a", &[]);
}

#[test]
fn what_would_deny_a_call_is_as_narrow() {
    let check = |text: &str, expected: &str| {
        assert_eq!(call(text).with(|subject| set(&[]).propose_deny(subject)), expected, "{text}");
    };
    check("Bash rm -rf x; ls", "Bash(rm -rf x)");
    check("Bash | runs-unclear $X *", r"Bash($X \*)");
    check("Write a", "Edit(//p/w/a)");
    check("Read a", "Read(//p/w/a)");
    check("Grep .", "Read(//p/w/**)");
    check("WebFetch a.org", "WebFetch(domain:a.org)");
    check("mcp__x__y | reads a", "Read(//p/w/a)");
    check("mcp__x__y", "mcp__x__y");
    check("Agent Explore", "Agent(Explore)");
}
