//! Effects reach everywhere: rules for paths and hosts stop every tool that declares them, and settings declare for
//! tools that don't.

use serde_json::json;

use super::{rules, with};

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

/// An allow by effect counts only where the effect is enforced.
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
    // Without them nothing is known, and nothing but the name counts.
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
    let names: Vec<&str> = snapshot.offers().iter().map(haft::Offer::name).collect();
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

#[tokio::test]
async fn an_address_with_a_password_is_refused() {
    let session = with(rules("+WebFetch")).mode("bypassPermissions").open();
    session.holds("deny WebFetch https://me:pw@x.io/\nallow WebFetch https://x.io/").await;
}

/// A search isn't stopped by a rule for a file in the folder; the file isn't there for it.
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

/// A server's tool that calls itself a shell has to be allowed like any other, and is denied like a shell.
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
