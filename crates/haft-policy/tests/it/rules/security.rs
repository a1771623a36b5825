//! Known bypasses of similar systems, by class, each with a call that must still be allowed.

use super::{check, parse};

// Paths compared as text.

#[test]
fn a_name_that_begins_like_an_allowed_folder_is_another_folder() {
    check(
        &["allow Edit(//allowed/**)", "allow Edit(//data)"],
        &[
            "allow: Edit /allowed/a",
            "silent: Edit /allowed_evil/a",
            "allow: Edit /data/x",
            "silent: Edit /database/x",
        ],
    );
}

#[test]
fn going_up_leads_out() {
    check(
        &["allow Edit(src/**)", "deny Read(/w/secrets/**)"],
        &[
            "allow: Edit src/x/../a",
            "silent: Edit src/../../etc/passwd",
            "silent: Edit src/../a",
            "deny: Read src/../secrets/key",
            "deny: Read ./secrets//./key",
        ],
    );
    check(&["allow Edit(src/../../**)"], &["silent: Edit src/a", "silent: Edit ../a"]);
    assert!(parse("deny Edit(src/../../**)").is_err());
}

#[test]
fn case_and_composition_do_not_hide_a_denied_name() {
    check(
        &["deny Edit(.Cursor/mcp.json)", "deny Read(caf\u{e9}/**)", "deny Read(//etc/Secret[a-c])"],
        &[
            "deny: Edit .cursor/MCP.json",
            "deny: Edit .CURSOR/mcp.JSON",
            "deny: Read cafe\u{301}/a",
            "deny: Read CAF\u{c9}/a",
            "deny: Read caf\u{e9}\u{200b}/a",
            "deny: Read /ETC/secretB",
            "silent: Edit .cursor/other.json",
            "silent: Read cafe/a",
        ],
    );
    // Allow rules match a name exactly.
    check(&["allow Edit(/w/Src/**)"], &["allow: Edit Src/a", "silent: Edit src/a"]);
    check(&["ask Read(.ENV)"], &["ask: Read .env"]);
}

#[test]
fn a_name_that_looks_like_a_pattern_is_taken_literally_by_the_escape() {
    check(&[r"allow Edit(/w/\[a\]\*)"], &["allow: Edit [a]*", "silent: Edit [a]x", "silent: Edit a"]);
}

// Symlinks.

#[test]
fn a_link_to_a_denied_file_is_denied_and_from_an_allowed_folder_leads_nowhere() {
    check(
        &["deny Read(/w/secrets/**)", "allow Read(public/**)", "allow Edit"],
        &[
            "allow: Read public/a",
            "deny: Read public/a -> secrets/key",
            "deny: Read secrets/a -> public/a",
            "deny: Edit public/a -> secrets/key",
            "silent: Edit public/a -> /etc/passwd",
            "silent: Read public/a -> /etc/passwd",
        ],
    );
}

#[test]
fn a_grant_for_a_folder_is_none_for_what_is_denied_in_it() {
    check(
        &["allow Edit(/w/**)", "deny Edit(/w/a/secret/**)"],
        &["allow: Edit a/b", "deny: Edit a/secret/x", "deny: script | writes-below a"],
    );
}

// Commands.

#[test]
fn an_allowed_command_carries_no_other() {
    check(
        &["allow Bash(echo *)"],
        &["allow: Bash echo a", "silent: Bash echo a; ls", "silent: Bash echo a; rm -rf x"],
    );
    // A wildcard is for one command, whatever the whole line looks like.
    let line = r#"Bash {"command": "echo a && rm x"} | runs echo a | runs rm x"#;
    check(&["allow Bash(echo *)"], &[&format!("silent: {line}")]);
    check(&["allow Bash(echo *)", "deny Bash(rm *)"], &[&format!("deny: {line}")]);
}

#[test]
fn a_denied_command_is_found_among_many() {
    let many = (0..200).map(|n| format!("echo {n}")).collect::<Vec<_>>().join("; ");
    check(
        &["allow Bash(echo *)", "deny Bash(rm *)"],
        &[&format!("allow: Bash {many}"), &format!("deny: Bash {many}; rm x")],
    );
}

// Trust: what a repository says about itself.

#[test]
fn a_stranger_gets_nothing_by_declaring_a_builtin_effect() {
    check(
        &["allow Edit", "allow Read", "allow Bash(make)", "allow WebFetch"],
        &[
            "allow: Edit a",
            "silent: mcp__evil__write | writes a",
            "silent: mcp__evil__read | reads a",
            "silent: mcp__evil__run | runs make",
            "silent: mcp__evil__get | reaches a.org",
            "silent: mcp__evil__Edit | alias Edit",
        ],
    );
}

#[test]
fn servers_with_similar_names_are_different() {
    check(&["allow mcp__git"], &["allow: mcp__git__x", "silent: mcp__git_evil__x", "silent: mcp__gitevil"]);
    // A server's name may contain the separator between server and tool.
    check(&["deny mcp__a__b"], &["deny: mcp__a__b", "deny: mcp__a__b__c", "silent: mcp__a__bc"]);
    check(&["allow mcp__a__b"], &["allow: mcp__a__b", "silent: mcp__a__b__c"]);
}

#[test]
fn no_rules_let_nothing_through() {
    check(&[], &["silent: Read a", "silent: Bash ls", "silent: WebFetch a.org", "silent: mcp__x__y"]);
}
