//! The conventional rules, row by row: grammar, order, commands, paths, hosts, servers, agents and skills.

use super::{check, parse, set};

// Grammar.

#[test]
fn a_bare_name_is_every_use() {
    check(&["allow mcp__x__y"], &["allow: mcp__x__y", "allow: mcp__x__y {\"a\": 1}", "silent: mcp__x__z"]);
    check(&["deny Bash"], &["deny: Bash ls", "deny: Bash", "silent: Read a"]);
}

#[test]
fn a_star_in_parentheses_is_the_bare_name() {
    for tool in ["Bash", "Read", "Edit", "WebFetch", "Agent", "Skill", "mcp__x__y", "WebSearch", "Write"] {
        assert!(parse(&format!("deny {tool}(*)")).unwrap().is_bare(), "{tool}(*)");
        assert_eq!(set(&[&format!("deny {tool}(*)")]).tool_denial(tool).map(|id| id.index()), Some(0));
    }
    assert!(parse("allow WebFetch(domain:*)").unwrap().is_bare());
    assert!(parse("allow Bash(:*)").unwrap().is_bare());
}

#[test]
fn a_display_label_is_no_name() {
    check(&["deny Stop Task"], &["silent: TaskStop"]);
}

#[test]
fn a_bare_or_glob_deny_hides_the_tool_and_a_scoped_one_does_not() {
    let hides = |rule: &str, tool: &str| set(&[rule]).tool_denial(tool).is_some();
    assert!(hides("deny Bash", "Bash"));
    assert!(hides("deny mcp__*", "mcp__x__y"));
    assert!(hides("deny mcp__x", "mcp__x__y"));
    assert!(hides("deny *", "Read"));
    assert!(!hides("deny Bash(rm *)", "Bash"));
    assert!(!hides("deny Agent(model:opus)", "Agent"));
    assert!(!hides("ask Bash", "Bash"));
    assert!(!hides("allow Bash", "Bash"));
    assert!(!hides("deny Bash", "BashOutput"));
}

#[test]
fn name_globs_in_deny_and_ask_match_the_whole_name() {
    check(&["deny mcp__*"], &["deny: mcp__a__b", "silent: Read a", "silent: xmcp__a__b"]);
    check(&["ask *Edit"], &["ask: NotebookEdit a", "ask: Edit a", "silent: EditX"]);
    check(&["deny *"], &["deny: Read a", "deny: mcp__a__b"]);
}

#[test]
fn name_globs_in_allow_need_a_server() {
    check(&["allow mcp__github__get_*"], &["allow: mcp__github__get_issue", "silent: mcp__github__delete"]);
    for wide in ["*", "B*", "mcp__*", "mcp__git*__get", "mcp__*__get", "mcp__github*"] {
        check(
            &[&format!("allow {wide}")],
            &["silent: mcp__github__get", "silent: Bash ls", "silent: Read a"],
        );
    }
}

#[test]
fn an_argument_is_compared_with_the_raw_input() {
    let rules = ["deny Agent(model:opus)", "ask Bash(run_in_background:true)"];
    check(
        &rules,
        &[
            r#"deny: Agent {"model": "opus"}"#,
            r#"silent: Agent {"model": "sonnet"}"#,
            r#"silent: Agent {}"#,
            r#"ask: Bash {"command": "ls", "run_in_background": true} | runs ls"#,
            r#"silent: Bash {"command": "ls"} | runs ls"#,
        ],
    );
    check(&["deny Agent( model : op* )"], &[r#"deny: Agent {"model": "opus"}"#]);
}

#[test]
fn an_argument_rule_on_the_primary_field_is_ignored() {
    for (rule, call) in [
        ("deny Bash(command:rm *)", "silent: Bash rm x"),
        ("deny Read(file_path:/p/w/a)", r#"silent: Read {"file_path": "/p/w/a"} | reads a"#),
        ("deny Write(file_path:*)", r#"silent: Write {"file_path": "/p/w/a"} | writes a"#),
        ("deny Grep(path:*)", r#"silent: Grep {"path": "/p/w"} | reads-below ."#),
        ("deny NotebookEdit(notebook_path:*)", r#"silent: NotebookEdit {"notebook_path": "a"} | writes a"#),
        ("deny WebFetch(url:*)", r#"silent: WebFetch {"url": "https://a.b"} | reaches a.b"#),
    ] {
        check(&[rule], &[call]);
    }
}

// Order.

#[test]
fn deny_goes_before_ask_before_allow_over_all_scopes() {
    check(
        &["user allow Bash(git *)", "ask Bash(git push *)", "managed deny Bash(git push --force *)"],
        &[
            "allow: Bash git log",
            "ask: Bash git push",
            "deny: Bash git push --force",
            "silent: Bash ls",
            "deny: Bash git log; git push --force",
        ],
    );
}

#[test]
fn a_narrow_allow_lifts_no_wide_deny() {
    check(
        &[
            "local allow Bash(rm ./tmp)",
            "deny Bash(rm *)",
            "allow Read(secrets/public)",
            "deny Read(secrets/**)",
        ],
        &["deny: Bash rm ./tmp", "deny: Read secrets/public"],
    );
    check(&["ask Bash(git *)", "local allow Bash(git status)"], &["ask: Bash git status"]);
}

// Commands.

#[test]
fn a_command_without_a_star_is_exact() {
    check(
        &["allow Bash(npm test)"],
        &["allow: Bash npm test", "silent: Bash npm test x", "silent: Bash npm"],
    );
    check(&["allow Bash(npm run a:b)"], &["allow: Bash npm run a:b", "silent: Bash npm run a"]);
}

#[test]
fn a_star_is_any_run_of_characters() {
    check(
        &["allow Bash(git * main)"],
        &["allow: Bash git push origin main", "silent: Bash git push origin dev", "silent: Bash git main"],
    );
}

#[test]
fn a_star_after_a_blank_is_a_prefix_of_words() {
    check(
        &["allow Bash(ls *)"],
        &["allow: Bash ls", "allow: Bash ls -la", "silent: Bash lsof", "silent: Bash als"],
    );
    check(&["allow Bash(ls*)"], &["allow: Bash lsof", "allow: Bash ls -la"]);
}

#[test]
fn the_old_prefix_is_the_new_one_at_the_end_only() {
    check(
        &["allow Bash(npm run:*)"],
        &["allow: Bash npm run", "allow: Bash npm run x", "silent: Bash npm runx"],
    );
    check(&["allow Bash(a:* b)"], &["allow: Bash a:x b", "silent: Bash a x b"]);
    check(&["allow Bash(timeout:*)"], &["allow: Bash timeout 5 x"]);
}

#[test]
fn every_subcommand_has_to_be_allowed_and_any_denied_one_decides() {
    check(
        &["allow Bash(npm test)", "allow Bash(ls *)", "deny Bash(rm *)", "ask Bash(git push *)"],
        &[
            "allow: Bash npm test; ls -l",
            "silent: Bash npm test; make",
            "deny: Bash npm test; rm x",
            "ask: Bash ls; git push",
        ],
    );
}

#[test]
fn texts_past_wrappers_are_looked_at_as_they_come() {
    check(
        &["allow Bash(npm test)", "deny Bash(rm *)"],
        &[
            "allow: Bash | runs timeout 5 npm test | it-allows npm test",
            "silent: Bash | runs env X=1 npm test",
            "deny: Bash | runs sudo rm x | it-denies rm x",
        ],
    );
}

#[test]
fn commands_that_start_others_need_an_exact_rule() {
    let call = "Bash | runs-exact find . -delete";
    check(&["allow Bash(find *)"], &[&format!("silent: {call}"), "allow: Bash find ."]);
    check(&["allow Bash(find . -delete)"], &[&format!("allow: {call}")]);
    check(&["allow Bash"], &[&format!("allow: {call}")]);
}

#[test]
fn a_leading_wildcard_works() {
    check(&["allow Bash(* --version)"], &["allow: Bash node --version", "silent: Bash node"]);
}

#[test]
fn a_redirection_is_a_write() {
    let to_out = "Bash echo hi | writes out.txt";
    check(&["allow Bash(echo *)"], &["allow: Bash echo hi", &format!("silent: {to_out}")]);
    check(&["allow Bash(echo *)", "allow Edit(out.txt)"], &[&format!("allow: {to_out}")]);
    check(
        &["allow Bash(echo *)", "deny Edit(out.txt)"],
        &[&format!("deny: {to_out}"), "allow: Bash echo hi"],
    );
    check(&["allow Edit(out.txt)"], &[&format!("silent: {to_out}")]);
}

/// The name of a shell covers every command, but files that the shell itself writes only in the working
/// directories.
#[test]
fn the_name_of_a_shell_lets_no_redirection_write_elsewhere() {
    for rule in ["allow Bash", "allow Bash(*)"] {
        check(
            &[rule],
            &[
                "allow: Bash echo hi | writes out.txt",
                "allow: Bash echo hi | reads /etc/hosts",
                "allow: Bash rm /srv/x | it-deletes /srv/x",
                "silent: Bash echo hi | writes /srv/x",
                "silent: Bash echo hi | writes out -> /srv/x",
                "silent: Monitor echo hi | writes /srv/x",
            ],
        );
        check(&[rule, "allow Edit(//srv/x)"], &["allow: Bash echo hi | writes /srv/x"]);
        check(&[rule, "allow Bash(echo hi)"], &["allow: Bash echo hi | writes /srv/x"]);
    }
}

#[test]
fn monitor_uses_bash_rules() {
    check(
        &["allow Bash(tail *)", "deny Bash(rm *)"],
        &["allow: Monitor tail -f x", "deny: Monitor rm x", "silent: Monitor make"],
    );
    check(&["deny Bash"], &["deny: Monitor make", "silent: Monitor"]);
    check(&["allow Bash"], &["allow: Monitor make"]);
    check(&["allow Monitor(make *)"], &["allow: Monitor make x", "silent: Bash make x"]);
}

#[test]
fn powershell_has_rules_of_its_own_without_regard_to_case() {
    check(
        &["allow PowerShell(Get-ChildItem *)", "allow Bash(ls *)", "deny PowerShell(Remove-Item *)"],
        &[
            "allow: PowerShell get-childitem -Force",
            "deny: PowerShell REMOVE-ITEM x",
            "silent: PowerShell ls",
            "silent: Bash Get-ChildItem",
        ],
    );
    check(&["deny Bash(rm *)"], &["deny: PowerShell rm x"]);
}

// Paths.

#[test]
fn read_rules_are_for_every_tool_that_reads() {
    check(
        &["deny Read(/w/x/**)"],
        &[
            "deny: Read x/a",
            "deny: Grep x",
            "deny: Glob x/y",
            "deny: LSP x/a",
            "deny: Bash cat x/a | it-reads x/a",
            "silent: Read y/a",
        ],
    );
    check(&["allow Read(/w/x/**)"], &["allow: Read x/a", "allow: Grep x", "allow: Glob x", "allow: LSP x/a"]);
}

#[test]
fn edit_rules_are_for_edit_write_and_notebooks() {
    for tool in ["Edit", "Write", "NotebookEdit"] {
        check(&["deny Edit(x/**)"], &[&format!("deny: {tool} x/a"), &format!("silent: {tool} y/a")]);
        check(&["allow Edit(x/**)"], &[&format!("allow: {tool} x/a"), &format!("silent: {tool} y/a")]);
    }
    check(&["deny Edit(x/**)"], &["silent: Read x/a"]);
}

#[test]
fn path_rules_on_other_tools_are_never_consulted() {
    check(&["deny Write(x/**)"], &["silent: Write x/a"]);
    check(&["deny NotebookEdit(x/**)"], &["silent: NotebookEdit x/a"]);
    check(&["deny Glob(x/**)"], &["silent: Glob x"]);
    check(&["deny MultiEdit(x/**)"], &["silent: Write x/a"]);
    check(&["allow Write(x/**)"], &["silent: Write x/a"]);
}

#[test]
fn an_edit_allow_is_a_read_allow() {
    check(&["allow Edit(/w/x/**)"], &["allow: Read x/a", "allow: Edit x/a"]);
    check(&["allow Read(/w/x/**)"], &["allow: Read x/a", "silent: Edit x/a"]);
}

#[test]
fn a_read_deny_blocks_edit_and_write_but_no_notebook() {
    check(
        &["deny Read(x/**)"],
        &["deny: Edit x/a", "deny: Write x/a", "silent: NotebookEdit x/a", "silent: Write y/a"],
    );
    check(&["ask Read(x/**)", "allow Edit(x/**)"], &["ask: Read x/a", "allow: Edit x/a"]);
}

#[test]
fn four_anchors() {
    check(&["deny Read(//etc/x)"], &["deny: Read /etc/x", "silent: Read etc/x", "silent: Read /p/etc/x"]);
    check(&["deny Read(~/.ssh/**)"], &["deny: Read /home/me/.ssh/id", "silent: Read .ssh/id"]);
    check(&["deny Read(/x)"], &["deny: Read /p/x", "silent: Read /x", "silent: Read x"]);
    check(&["user deny Read(/x)"], &["deny: Read /home/me/.claude/x", "silent: Read /p/x"]);
    check(&["local deny Read(/x)"], &["deny: Read x", "silent: Read /p/x"]);
    check(&["deny Read(a/b)"], &["deny: Read a/b", "silent: Read /p/a/b"]);
    check(&["deny Read(./a/b)"], &["deny: Read a/b", "silent: Read /p/a/b"]);
}

#[test]
fn one_star_stays_in_a_segment_and_two_cross_them() {
    check(&["allow Edit(/src/*)"], &["allow: Edit /p/src/a", "silent: Edit /p/src/a/b"]);
    check(&["allow Edit(/src/*.rs)"], &["allow: Edit /p/src/a.rs", "silent: Edit /p/src/x/a.rs"]);
    check(
        &["allow Edit(/src/**)"],
        &["allow: Edit /p/src/a", "allow: Edit /p/src/a/b", "silent: Edit /p/src"],
    );
    check(
        &["allow Edit(/src/**/*.rs)"],
        &["allow: Edit /p/src/a.rs", "allow: Edit /p/src/x/y/a.rs", "silent: Edit /p/src/x/a.c"],
    );
    check(
        &["allow Edit(/a/**/b/c)"],
        &["allow: Edit /p/a/b/c", "allow: Edit /p/a/x/y/b/c", "silent: Edit /p/a/c"],
    );
    check(&["allow Edit(/a?[0-9].txt)"], &["allow: Edit /p/ab1.txt", "silent: Edit /p/abc.txt"]);
}

#[test]
fn a_rule_matches_only_below_its_anchor() {
    check(&["deny Read(**)"], &["deny: Read a", "silent: Read /p/a", "silent: Read /etc/a"]);
    check(&["deny Read(.env)"], &["deny: Read .env", "silent: Read /p/.env", "silent: Read /etc/.env"]);
    check(&["deny Read(/**)"], &["deny: Read /p/a", "silent: Read /etc/a"]);
    check(&["deny Read(//**)"], &["deny: Read /etc/a", "deny: Read a"]);
}

#[test]
fn a_bare_filename_is_found_at_any_depth() {
    for rule in ["deny Read(.env)", "deny Read(**/.env)"] {
        check(&[rule], &["deny: Read .env", "deny: Read a/b/.env", "silent: Read a/b/x.env"]);
    }
    check(&["allow Read(*.md)"], &["allow: Read a.md", "allow: Read x/y/a.md", "silent: Read a.rs"]);
}

#[test]
fn a_single_folder_is_found_at_any_depth_by_deny_and_ask_but_not_by_allow() {
    check(&["deny Edit(src/**)"], &["deny: Edit src/a", "deny: Edit x/src/a", "silent: Edit srcs/a"]);
    check(&["ask Edit(src/**)"], &["ask: Edit src/a", "ask: Edit x/src/a"]);
    check(&["allow Edit(src/**)"], &["allow: Edit src/a", "silent: Edit x/src/a"]);
    // Other patterns have the same depth in all lists.
    check(&["deny Edit(a/src/**)"], &["deny: Edit a/src/x", "silent: Edit b/a/src/x"]);
    check(&["deny Edit(/src/**)"], &["deny: Edit /p/src/x", "silent: Edit src/x"]);
}

#[test]
fn through_a_link_allow_needs_both_paths_and_deny_needs_one() {
    check(&["deny Read(secrets/**)"], &["deny: Read a -> secrets/x", "deny: Read secrets/x -> /tmp/x"]);
    check(
        &["allow Read(a/**)"],
        &["allow: Read a/x -> a/y", "silent: Read a/x -> b/y", "silent: Read b/x -> a/y"],
    );
    check(&["allow Read(a/**)", "allow Read(b/**)"], &["allow: Read a/x -> b/y"]);
}

#[test]
fn a_drive_is_a_folder_of_the_root() {
    check(&[r"deny Read(C:\x\**)"], &["deny: Read /c/x/y", "silent: Read /d/x/y"]);
}

#[test]
fn a_folder_with_a_slash_is_what_is_in_it() {
    check(&["allow Edit(/build/)"], &["allow: Edit /p/build/a", "silent: Edit /p/build"]);
    check(&["deny Edit(/build/)"], &["deny: Edit /p/build/a", "deny: Edit /p/build"]);
}

#[test]
fn a_pattern_for_a_folder_is_for_all_in_it() {
    check(&["deny Read(secrets)"], &["deny: Read secrets", "deny: Read a/secrets/b/c"]);
    check(&["allow Edit(/docs)"], &["allow: Edit /p/docs/a/b"]);
    check(&["deny Read(/keys/*)"], &["deny: Read /p/keys/a", "deny: Read /p/keys/a/b"]);
}

// Others.

#[test]
fn hosts_are_compared_by_label() {
    check(
        &["allow WebFetch(domain:Example.com)"],
        &[
            "allow: WebFetch example.com",
            "allow: WebFetch EXAMPLE.COM.",
            "silent: WebFetch a.example.com",
            "silent: WebFetch example.com.evil.net",
            "silent: WebFetch notexample.com",
        ],
    );
    check(
        &["allow WebFetch(domain:*.example.com)"],
        &["allow: WebFetch a.example.com", "allow: WebFetch a.b.example.com", "silent: WebFetch example.com"],
    );
    check(&["allow WebFetch(domain:*)"], &["allow: WebFetch anything.org"]);
    check(
        &["allow WebFetch(domain:example.*)"],
        &[
            "allow: WebFetch example.org",
            "silent: WebFetch example.evil.com",
            "silent: WebFetch x.example.org",
        ],
    );
    check(&["allow WebFetch(domain:a*.b.c)"], &["allow: WebFetch ax.b.c", "silent: WebFetch ax.y.b.c"]);
    check(&["deny WebFetch(domain:*.x*.org)"], &["deny: WebFetch a.b.xy.org", "silent: WebFetch xy.org"]);
    check(&["deny WebFetch(domain:[::1])"], &["deny: WebFetch [::1]", "deny: WebFetch ::1"]);
}

#[test]
fn a_server_is_all_its_tools() {
    for rule in ["mcp__git", "mcp__git__*"] {
        for list in ["allow", "ask", "deny"] {
            let rule = format!("{list} {rule}");
            check(&[&rule], &[&format!("{list}: mcp__git__x"), "silent: mcp__github__x", "silent: mcp__git"]);
        }
    }
    check(&["allow mcp__git__log"], &["allow: mcp__git__log", "silent: mcp__git__log2"]);
    check(&["allow mcp__plugin_a_b__c"], &["allow: mcp__plugin_a_b__c"]);
}

#[test]
fn agents_and_skills_go_by_name() {
    check(&["deny Agent(Explore)"], &["deny: Agent Explore", "silent: Agent Explorer"]);
    check(&["allow Task(Explore)"], &["allow: Agent Explore", "silent: Agent other"]);
    check(&["deny Agent(general-purpose)"], &["deny: Agent {}"]);
    check(
        &["allow Skill(commit)"],
        &["allow: Skill commit", "silent: Skill commit -m x", "silent: Skill com"],
    );
    check(
        &["allow Skill(commit *)"],
        &["allow: Skill commit", "allow: Skill commit -m x", "silent: Skill commits"],
    );
    check(&["deny Skill(deploy)"], &["deny: Skill deploy", "deny: Skill deploy now"]);
    check(&["allow Skill(pack:commit)"], &["allow: Skill pack:commit", "silent: Skill commit"]);
}

#[test]
fn search_is_bare_only_and_cd_is_for_users() {
    check(&["allow WebSearch"], &["allow: WebSearch {\"query\": \"x\"}"]);
    check(&["deny WebSearch(x)"], &["silent: WebSearch {\"query\": \"x\"}"]);
    check(&["deny Cd(/x)"], &["silent: Cd {\"path\": \"/x\"}"]);
}

#[test]
fn bad_rules_say_what_is_wrong() {
    let check = |rule: &str, expected: &str| {
        let bad = parse(&format!("deny {rule}")).unwrap_err().to_string();
        assert_eq!(bad, format!("/p/.haft/settings.json:3: bad rule `{rule}`: {expected}"));
    };
    let forms = "`Tool` or `Tool(specifier)` is accepted";
    check("", &format!("empty; {forms}"));
    check("Bash(ls", &format!("no closing `)`; {forms}"));
    check("Bash)", &format!("`)` without `(`; {forms}"));
    check("(ls)", &format!("no tool name before `(`; {forms}"));
    check("Bash(ls), Read", &format!("`, Read` after the closing `)`; {forms}, one to a rule"));
    check("Bash()", "nothing in the parentheses; write `Bash` for every use");
    check(
        "Read(../x)",
        "a path can't go up with `..`: a rule matches only below its anchor; write `//` and the absolute path, or \
         `~/` and the path from home",
    );
    check(
        "Read(!x)",
        "a path can't begin with `!`: nothing is excepted from a rule; for a file whose name begins so write `\\!`",
    );
    check("WebFetch(https://a.b)", "`https://a.b` is no host; write `WebFetch(domain:example.com)`");
    check(
        "WebFetch(domain:https://a.b/c)",
        "`https://a.b/c` is no host name; a host name such as `example.com`, `*.example.com` or `*` is accepted, \
         without scheme, port and path",
    );
    let no_host = |host: &str| {
        let accepted = "a host name such as `example.com`, `*.example.com` or `*` is accepted, without scheme, port and path";
        check(&format!("WebFetch(domain:{host})"), &format!("`{host}` is no host name; {accepted}"));
    };
    for host in ["a.org:80", "a b", "me@a.org", "b\u{fc}*.de", "xn--\u{fc}", "1.2.3.4.5", "[::1]:80", "a%2fb"]
    {
        no_host(host);
    }
}
