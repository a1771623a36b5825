//! Effects of all tools: rules for paths and hosts apply to every tool that declares them, and settings
//! declare effects for tools that don't.

use haft::{Effects, ToolSpec};
use haft_policy::gate::PolicyContext;
use serde_json::json;

use super::{declaring, fetches, input, rules, with};
use crate::room::Room;

#[tokio::test]
async fn path_rules_reach_every_tool_that_declares_a_path() {
    let session =
        with(rules("-Edit(locked/in/**); ?Edit(careful/in/**); +stranger; +delete_tree; +Write; +Edit"))
            .open();
    session
        .holds(
            "deny stranger locked/in/x
             deny Write locked/in/x
             deny delete_tree locked
             deny Bash echo > locked/in/x
             ask stranger careful/in/x
             ask Write careful/in/x
             allow stranger src/x
             allow Write src/x
             allow delete_tree src",
        )
        .await;
    let session = with(rules("-Edit(/locked/**); +stranger")).open();
    session.holds("deny stranger @/config/locked/x\nallow stranger locked/x").await;
}

/// An allow rule for an effect applies only if the effect is enforced.
#[tokio::test]
async fn a_stranger_needs_its_name() {
    let session = with(rules("+Edit(src/**)")).open();
    session.holds("allow Write src/x\nask stranger src/x").await;
    let session = with(rules("+stranger")).open();
    session.holds("allow stranger src/x\nask Write src/x").await;
}

#[tokio::test]
async fn settings_declare_for_tools_that_do_not() {
    let mut settings = rules("-Edit(locked/**); -WebFetch(domain:evil.io); +mcp__fs__write_file");
    settings["effects"] = json!({
        "mcp__fs__write_file": {"writes": ["{path}"]},
        "mcp__fs__read_*": {"reads": ["{path}"]},
        "mcp__hub__*": {"reaches": ["{host}"]},
    });
    let session = with(settings).open();
    session
        .holds(
            r#"allow mcp__fs__write_file {"path": "src/x"}
               deny mcp__fs__write_file {"path": "locked/x"}
               deny mcp__fs__write_file {"path": "src/../locked/x"}
               allow mcp__fs__read_file {"path": "a.txt"}
               ask mcp__fs__read_file {"path": "/etc/passwd"}
               deny mcp__hub__get {"host": "evil.io"}
               ask mcp__hub__get {"host": "good.io"}
               ask mcp__fs__read_file {"path": {"odd": 1}}"#,
        )
        .await;
    // Without them the effects are unknown, and only a rule for the name applies.
    let session = with(rules("-Edit(locked/**); +mcp__fs__write_file")).open();
    session
        .holds(
            r#"allow mcp__fs__write_file {"path": "locked/x"}
               ask mcp__fs__read_file {"path": "a.txt"}"#,
        )
        .await;
}

#[tokio::test]
async fn a_denied_name_is_not_shown_and_a_scoped_one_is() {
    let session = with(rules("-Bash; -mcp__fs; -Read(.env); -*ranger")).open();
    let snapshot = session.caller.as_engine().snapshot();
    let names: Vec<&str> = snapshot.offers().iter().map(haft::registry::OfferedTool::name).collect();
    assert!(names.contains(&"Read") && names.contains(&"mcp__hub__get"), "{names:?}");
    for hidden in ["Bash", "mcp__fs__write_file", "mcp__fs__read_file", "stranger"] {
        assert!(!names.contains(&hidden), "{names:?}");
    }
    session.holds("deny Bash ls\ndeny Read .env\nallow Read a.txt").await;
}

#[tokio::test]
async fn both_paths_of_a_link_count() {
    let session = with(rules("-Read(hidden/**); +Edit(open/**)")).open();
    session.room.write("work/hidden/key", "k");
    session.room.write("work/open/fine", "f");
    let link = |from: &str, to: &str| {
        std::os::unix::fs::symlink(session.room.at(to), session.room.at(from)).unwrap()
    };
    link("work/open/key", "work/hidden/key");
    link("work/open/out", "outside/new");
    link("work/way", "outside");
    session
        .holds(
            "deny Read open/key
             deny Read hidden/key
             deny Bash cat open/key
             allow Read open/fine
             ask Write open/out
             allow Write open/other
             ask Read way/c.txt
             ask Bash cat way/c.txt",
        )
        .await;
}

/// A rule whose own path is a symlink: a deny rule also matches the target, an allow rule only the named
/// path.
#[tokio::test]
async fn the_path_of_a_rule_may_be_a_link() {
    let room = || {
        let room = crate::room::Room::new();
        for path in ["work/real/x", "work/other/x", "work/deep/real/x", "outside/key"] {
            room.write(path, "x");
        }
        let link = |from: &str, to: &str| std::os::unix::fs::symlink(room.at(to), room.at(from)).unwrap();
        link("work/link", "work/real");
        link("work/deep/link", "work/deep/real");
        link("work/.secret", "outside/key");
        room
    };
    let open = |given: &str| with(rules(given)).mode("acceptEdits").open_in(room(), |setup| setup);
    for list in ["-", "?"] {
        let verdict = if list == "-" { "deny" } else { "ask" };
        let session = open(&format!("{list}Edit(./link/**); {list}Edit(deep/link/*.txt)"));
        session
            .holds(&format!(
                "{verdict} Write link/y
                 {verdict} Write real/y
                 {verdict} Bash touch real/y
                 {verdict} Write deep/real/a.txt
                 {verdict} Write deep/link/a.txt
                 allow Write deep/real/a.md
                 allow Write other/y"
            ))
            .await;
    }
    let session = open("-Read(.secret); +Read");
    session.holds("deny Read .secret\ndeny Read @/outside/key\nallow Read @/outside/c.txt").await;
    let session = with(rules("+Edit(./link/**)")).open_in(room(), |setup| setup);
    session.holds("ask Write link/y\nask Write real/y\nask Write other/y").await;
    let session = with(rules("+Edit(./link/**); +Edit(./real/**)")).open_in(room(), |setup| setup);
    session.holds("allow Write link/y\nallow Write real/y\nask Write other/y").await;
}

/// A rule for a file in the folder doesn't stop a search; the search omits the file.
#[tokio::test]
async fn searches_leave_out_what_is_denied() {
    let session = with(rules("-Read(.env); -Read(secrets/**); ?Read(*.pem)")).open();
    for path in [".env", "src/.env", "src/secrets/key", "src/a.pem", "src/plain"] {
        session.room.write(&format!("work/{path}"), "needle\n");
    }
    let text = async |tool, input| session.call(tool, input).await.outcome().as_ref().unwrap().to_text();
    let found = text("Grep", json!({"pattern": "needle", "path": "."})).await;
    assert!(found.contains("src/plain"), "{found}");
    for hidden in [".env", "secrets", "a.pem"] {
        assert!(!found.contains(hidden), "{found}");
    }
    let found = text("Glob", json!({"pattern": "**/*"})).await;
    assert!(found.contains("src/plain") && !found.contains("env") && !found.contains("key"), "{found}");
    assert!(session.user.asked().is_empty());
    session
        .holds("deny Read .env\ndeny Grep src/secrets\ndeny Grep .env\nallow Grep src\nask Read src/a.pem")
        .await;
    let session = with(rules("?Grep")).open();
    session.holds("ask Grep src\nallow Glob src").await;
}

/// A hard link is another name of a file: a file that is denied under one name isn't read under the other.
#[tokio::test]
async fn hard_links_to_denied_files_are_not_read() {
    let session = with(rules("-Read(.env); -Read(secrets/**); +Edit")).open();
    for path in [".env", "src/secrets/key"] {
        session.room.write(&format!("work/{path}"), "needle hidden\n");
    }
    session.room.write("work/plain", "needle shown\n");
    for (file, link) in [(".env", "notes"), ("src/secrets/key", "src/readme"), ("plain", "same")] {
        let at = |path: &str| session.room.at(&format!("work/{path}"));
        std::fs::hard_link(at(file), at(link)).unwrap();
    }
    let read = async |tool, input| {
        let result = session.call(tool, input).await;
        match result.outcome() {
            Ok(output) => output.to_text(),
            Err(error) => error.message().to_owned(),
        }
    };
    for link in ["notes", "src/readme"] {
        for (tool, input) in [
            ("Read", json!({"file_path": link})),
            ("Grep", json!({"pattern": "needle", "path": link, "output_mode": "content"})),
            ("Edit", json!({"file_path": link, "old_string": "needle", "new_string": "x"})),
        ] {
            let told = read(tool, input).await;
            assert!(told.contains("a hard link") && !told.contains("hidden"), "{tool} {link}: {told}");
        }
    }
    let found = read("Grep", json!({"pattern": "needle", "path": ".", "output_mode": "content"})).await;
    assert!(found.contains("plain:1:needle shown") && found.contains("same:1:needle shown"), "{found}");
    assert!(!found.contains("needle hidden"), "{found}");
    assert!(read("Read", json!({"file_path": "same"})).await.contains("needle shown"));
}

/// A server's tool that presents itself as a shell has to be allowed like any other tool, and is denied
/// like a shell.
#[tokio::test]
async fn a_stranger_is_no_shell_by_its_name() {
    let session = with(rules("-Monitor(rm *); -Bash(rm *)")).open();
    session
        .holds(
            r#"ask Monitor {"command": "ls"}
               deny Monitor {"command": "ls; rm x"}
               allow Bash ls"#,
        )
        .await;
}

/// The server's effects of an answer are unknown: its resources and prompts ask as its tools do.
#[tokio::test]
async fn resources_and_prompts_of_servers_ask() {
    let ask = r#"ask ReadMcpResource {"server": "s", "uri": "note://1"}
        ask GetMcpPrompt {"server": "s", "name": "p"}
        allow ListMcpResources {}"#;
    with(json!({})).open().holds(ask).await;
    // A rule for another server, for a tool of this one, or for the address isn't enough.
    with(rules("+mcp__t; +mcp__s__read; +mcp__s__get_*; +Read; +WebFetch(domain:x.io)"))
        .open()
        .holds(ask)
        .await;
    for allowing in ["+mcp__s", "+mcp__s__*", "+ReadMcpResource(server:s); +GetMcpPrompt(server:s)"] {
        let session =
            with(rules(&format!("{allowing}; -Read(.env); -WebFetch(domain:evil.io); ?mcp__asked"))).open();
        session
            .holds(
                &r#"allow ReadMcpResource {"server": "s", "uri": "note://1"}
                   allow GetMcpPrompt {"server": "s", "name": "p"}
                   ask ReadMcpResource {"server": "other", "uri": "note://1"}
                   ask GetMcpPrompt {"server": "other", "name": "p"}
                   allow ReadMcpResource {"server": "s", "uri": "file://@/HERE/a.txt"}
                   deny ReadMcpResource {"server": "s", "uri": "file://@/HERE/.env"}
                   deny ReadMcpResource {"server": "s", "uri": "FILE:@/HERE/%2eenv"}
                   ask ReadMcpResource {"server": "s", "uri": "file:///etc/passwd"}
                   allow ReadMcpResource {"server": "s", "uri": "https://x.io/a"}
                   deny ReadMcpResource {"server": "s", "uri": "https://evil.io/a"}"#
                    .replace("HERE", "work"),
            )
            .await;
    }
    let session =
        with(rules("+mcp__s; +Read(//etc/hosts); ?mcp__asked; -ReadMcpResource(uri:secret://*)")).open();
    session
        .holds(
            r#"allow ReadMcpResource {"server": "s", "uri": "file:///etc/hosts"}
               ask ReadMcpResource {"server": "asked", "uri": "note://1"}
               deny ReadMcpResource {"server": "s", "uri": "secret://1"}"#,
        )
        .await;
    // The name in the conventions.
    let session = with(rules("+ReadMcpResourceTool(server:s)")).open();
    session.holds(r#"allow ReadMcpResource {"server": "s", "uri": "note://1"}"#).await;
    let verdict = session.explain("ReadMcpResourceTool", &json!({"server": "t", "uri": "note://1"})).verdict;
    assert_eq!(verdict, haft::decision::Verdict::Ask);
    let to_allow = |uri: &str| {
        let input = json!({"server": "s", "uri": uri});
        with(json!({})).open().explain("ReadMcpResource", &input).to_allow.unwrap().to_string()
    };
    assert_eq!(to_allow("note://1"), "allow rule `ReadMcpResource(server:s)`");
    assert_eq!(to_allow("file:///etc/x"), "allow rules `ReadMcpResource(server:s)`, `Read(//etc/x)`");
}

/// Facts that used to be derived from the names `WebFetch` and `WebSearch` are declared by the tool. For an
/// external tool they don't count.
#[tokio::test]
async fn declared_facts_count_and_names_do_not() {
    fn same(spec: ToolSpec) -> ToolSpec {
        spec
    }
    let page = |name: &str, facts: fn(ToolSpec) -> ToolSpec| declaring(name, fetches, facts);
    let session = |given: &str| {
        let tools = vec![page("page", ToolSpec::hosts_only), page("plain_page", same)];
        with(rules(given)).with_tools(tools, vec![page("outside_page", ToolSpec::hosts_only)]).open()
    };
    session("+WebFetch(domain:good.io); +page; +plain_page; +outside_page")
        .holds(
            r#"allow page {"url": "https://good.io/"}
               ask page {"url": "no host"}
               allow plain_page {"url": "no host"}
               allow outside_page {"url": "no host"}"#,
        )
        .await;
    session("+WebFetch(domain:good.io)")
        .holds(
            r#"allow page {"url": "https://good.io/"}
               ask page {"url": "https://evil.io/"}
               ask plain_page {"url": "https://good.io/"}
               ask outside_page {"url": "https://good.io/"}"#,
        )
        .await;

    let lookup = |name: &str, facts: fn(ToolSpec) -> ToolSpec| {
        declaring(name, |_| Effects::observes("search.io"), facts)
    };
    // This mode denies calls that only a grant opens.
    let session = with(rules(""))
        .mode("bypassPermissions")
        .with_tools(
            vec![lookup("lookup", ToolSpec::configured_hosts), lookup("plain_lookup", same)],
            Vec::new(),
        )
        .open_in(Room::new(), |setup| PolicyContext { confined: true, no_sandbox: false, ..setup });
    session.holds("allow lookup {}\ndeny plain_lookup {}").await;
}

/// Files that a tool changes through its context are backed up, if the tool declares that.
#[tokio::test]
async fn files_of_tools_that_open_granted_files_are_kept() {
    let change = |name: &str, facts: fn(ToolSpec) -> ToolSpec| {
        declaring(name, |input| Effects::writes(input["path"].as_str().unwrap()), facts)
    };
    let session = with(rules(""))
        .with_tools(
            vec![change("change", ToolSpec::granted_files_only), change("plain_change", |spec| spec)],
            vec![change("outside_change", ToolSpec::granted_files_only)],
        )
        .open();
    session.room.write("work/there.txt", "x");
    for (tool, warns) in [("change", false), ("plain_change", true), ("outside_change", true)] {
        let report = session.explain(tool, &input(tool, r#"{"path": "there.txt"}"#, &session.room));
        assert_eq!(!report.warnings.is_empty(), warns, "{tool}: {:?}", report.warnings);
    }
}
