//! The permission modes, row by row, and the restrictions that no mode lifts.

use haft::ports::{ModeControl as _, PermissionMode};
use haft_policy::gate::{Policy, PolicyContext};
use haft_policy::settings::SettingsFlags;
use serde_json::json;

use super::{rules, with};
use crate::room::Room;

#[tokio::test]
async fn default_looks_and_asks_for_the_rest() {
    let session = with(json!({})).open();
    session
        .holds(
            "allow Read a.txt
             allow Grep src
             allow Glob .
             allow nothing
             allow Bash ls -la src
             allow Bash cat a.txt | wc -l
             ask Read @/outside/c.txt
             ask Write new.txt
             ask Bash touch x
             ask Bash cat @/outside/c.txt
             ask Bash make
             ask Bash ls > out.txt
             ask WebFetch https://x.io
             ask delete_tree src
             ask note
             ask stranger x
             ask mcp__hub__get",
        )
        .await;
}

#[tokio::test]
async fn accept_edits_edits_inside() {
    let session = with(json!({})).mode("acceptEdits").open();
    session
        .holds(
            "allow Read a.txt
             allow Write new.txt
             allow Write src/deep/new.txt
             allow Bash mkdir -p x/y
             allow Bash touch x
             allow Bash rm src/b.txt
             allow Bash rmdir x
             allow Bash mv a.txt z.txt
             allow Bash cp z.txt a.txt
             allow Bash sed -i s/a/b/ a.txt
             allow Bash ls > out.txt
             allow Bash mkdir x && touch x/y
             ask Write @/outside/new.txt
             ask Bash touch @/outside/x
             ask Bash mkdir ../x
             ask Bash rm -rf .
             ask Bash make
             ask Bash tee x
             ask Bash mkdir x && make
             ask Bash env touch x
             ask WebFetch https://x.io
             ask stranger x
             ask mcp__hub__get
             ask Write .git/config
             ask Bash touch .bashrc",
        )
        .await;
}

#[tokio::test]
async fn plan_changes_nothing() {
    let allowing = rules("+Edit; +Bash(touch *); +Bash(npm test); +Read(//etc/hosts)");
    let session = with(allowing).mode("plan").open();
    session
        .holds(
            "allow Read a.txt
             allow Grep src
             allow Bash ls
             allow Bash git log | head
             allow Read /etc/hosts
             deny Write new.txt
             deny Bash touch x
             deny Bash ls > x
             deny Read @/outside/c.txt
             deny Bash cat @/outside/c.txt
             deny delete_tree src
             deny stranger x
             deny Bash rm -rf /
             deny Bash npm test
             deny Bash make
             ask WebFetch https://x.io
             deny mcp__hub__get",
        )
        .await;
}

/// A rule that names a server's tool doesn't make it read-only; settings can.
#[tokio::test]
async fn plan_runs_only_tools_that_are_known_to_look() {
    let mut settings = rules("+mcp__fs; ?mcp__hub; +ReadMcpResource");
    settings["effects"] = json!({"mcp__fs__read_file": {"reads": ["{path}"]}});
    let session = with(settings).mode("plan").open();
    session
        .holds(
            r#"deny mcp__hub__get {}
               deny mcp__fs__write_file {"path": "a.txt"}
               allow mcp__fs__read_file {"path": "a.txt"}
               deny mcp__fs__read_file {"path": "/etc/passwd"}
               deny ReadMcpResource {"server": "s", "uri": "note://1"}"#,
        )
        .await;
    session.set(PermissionMode::Default);
    session.holds(r#"allow mcp__fs__write_file {"path": "a.txt"}"#).await;
}

/// A rule that allows a command doesn't make it read-only.
#[tokio::test]
async fn plan_runs_only_commands_that_are_known_to_look() {
    let session = with(rules("+Bash; ?Bash(git push *)")).mode("plan").open();
    session
        .holds(
            "allow Bash ls
             allow Bash git status
             deny Bash git commit -m x
             deny Bash git push
             deny Bash make
             deny Bash ls && make
             deny Bash sudo touch x
             deny Bash env -S 'rm x'",
        )
        .await;
    session.set(PermissionMode::Default);
    session.holds("allow Bash git commit -m x\nallow Bash make\nallow Bash sudo touch x").await;
}

/// An ask rule doesn't lift a denial of the mode.
#[tokio::test]
async fn ask_rules_loosen_no_plan() {
    let asking = rules("?Write; ?Read(//etc/**); ?Read(src/**); ?Bash(touch *); +Read(//etc/passwd)");
    let session = with(asking).mode("plan").open();
    session
        .holds(
            "deny Write new.txt
             deny Read /etc/hosts
             deny Bash touch x
             ask Read /etc/passwd
             ask Read src/b.txt",
        )
        .await;
    session.set(PermissionMode::DontAsk);
    session.holds("deny Write new.txt\ndeny Read src/b.txt").await;
    session.set(PermissionMode::Default);
    session.holds("ask Write new.txt\nask Read /etc/hosts\nask Bash touch x").await;
}

#[tokio::test]
async fn auto_lets_the_classifier_decide() {
    let session = with(rules("+Bash; +Bash(python *); +Bash(npm test); ?Bash(git push *); -Bash(curl *)"))
        .mode("auto")
        .open();
    session
        .holds(
            "allow Read a.txt
             allow Write new.txt
             allow Bash npm test
             ask Bash python x.py
             ask Bash make
             ask Bash git push origin main
             deny Bash curl x.io
             ask WebFetch https://x.io
             ask Write .git/config
             ask Write @/outside/x
             ask mcp__hub__get",
        )
        .await;
    // The same rules allow it in other modes.
    session.set(PermissionMode::Default);
    session.holds("allow Bash python x.py\nallow Bash make").await;
}

#[tokio::test]
async fn dont_ask_denies_what_would_ask() {
    let session = with(rules("+Bash(npm test); ?Bash(git push *); +Bash(git push *); +Write(*)"))
        .mode("dontAsk")
        .open();
    session
        .holds(
            "allow Read a.txt
             allow Bash ls
             allow Bash npm test
             deny Bash make
             deny Bash git push
             deny Read @/outside/c.txt
             deny WebFetch https://x.io
             deny Write .git/config
             deny Bash rm -rf /
             deny mcp__hub__get",
        )
        .await;
    let result = session.call("Bash", json!({"command": "make"})).await;
    let words = result.error().unwrap().message().to_owned();
    assert!(words.contains("this mode doesn't ask") && words.contains("allow rule `Bash(make)`"), "{words}");
}

#[tokio::test]
async fn bypass_runs_all_but_what_rules_and_care_hold() {
    let session =
        with(rules("-Bash(curl *); ?Bash(git push *); -Read(keep/secret.txt); ?Write; +Bash(rm *)"))
            .mode("bypassPermissions")
            .open();
    session
        .holds(
            "allow Read a.txt
             allow Read @/outside/c.txt
             allow Bash make
             ask Bash $X y
             allow WebFetch https://x.io
             allow mcp__hub__get
             allow delete_tree src
             allow Bash touch .git/config
             deny Bash curl x.io
             deny Bash make; curl x.io
             deny Read keep/secret.txt
             deny Bash rm -rf /
             ask Bash git push
             ask Write a.txt",
        )
        .await;
}

/// A deny rule for a command also concerns commands that can't be parsed. Without such a rule they run.
#[tokio::test]
async fn bypass_asks_for_what_may_hide_a_command_that_a_rule_stops() {
    for (given, expected) in [
        ("-Bash(rm *)", "ask"),
        ("?Bash(rm *)", "ask"),
        ("-Bash(rm *); +Bash", "ask"),
        ("-Bash(rm *); +Bash(zsh -c 'rm x')", "allow"),
        ("-Read(keep/**); +Bash(rm *)", "ask"),
        ("-mcp__fs; +Bash(rm *)", "allow"),
        ("", "allow"),
    ] {
        let session = with(rules(given)).mode("bypassPermissions").open();
        session.holds(&format!("{expected} Bash zsh -c 'rm x'\nallow Bash make")).await;
    }
}

/// Conventions §2.2: no allow rule, no mode and no pre-call hook lifts these.
#[tokio::test]
async fn some_removals_always_ask() {
    for mode in ["default", "acceptEdits", "auto", "bypassPermissions"] {
        let session =
            with(rules("+Bash; +Bash(rm *); +Bash(rm -rf /); +Bash(rm -rf \"$X\"/*)")).mode(mode).open();
        session
            .holds(
                "ask Bash rm -rf /
                 ask Bash rm -rf /usr
                 ask Bash rm -r ~
                 ask Bash rmdir ..
                 ask Bash rm -rf \"$X\"/*
                 ask Bash echo `rm -rf /`
                 ask Bash cat <(rm -rf /)
                 ask Bash sudo rm -rf /",
            )
            .await;
        // The control: the same rules allow an ordinary removal, in modes where they apply.
        if mode != "auto" {
            session.holds("allow Bash rm -rf build").await;
        }
    }
}

#[tokio::test]
async fn files_that_decide_what_runs_want_a_yes_of_their_own() {
    let settings = rules("+Edit; +Write; +Edit(.git/**); +Bash(touch *)");
    let table = |verdict: &str| {
        [
            ".git/hooks/pre-commit",
            ".haft/settings.json",
            ".claude/settings.json",
            ".mcp.json",
            ".envrc",
            "sub/.GIT/config",
            ".github/workflows/ci.yml",
            "x.code-workspace",
        ]
        .map(|path| format!("{verdict} Write {path}"))
        .join("\n")
    };
    for (mode, verdict) in [
        ("default", "ask"),
        ("acceptEdits", "ask"),
        ("auto", "ask"),
        ("dontAsk", "deny"),
        ("bypassPermissions", "allow"),
    ] {
        let session = with(settings.clone()).mode(mode).open();
        session.holds(&table(verdict)).await;
        session.holds("allow Write .github/CODEOWNERS").await;
    }
}

/// Git recognizes a repository by the names in a folder, and then obeys its configuration.
#[tokio::test]
async fn the_write_that_makes_a_folder_a_repository_wants_a_yes_of_its_own() {
    for (mode, verdict) in [
        ("default", "ask"),
        ("acceptEdits", "ask"),
        ("auto", "ask"),
        ("dontAsk", "deny"),
        ("bypassPermissions", "allow"),
    ] {
        let session = with(rules("+Edit; +Write; +Bash")).mode(mode).open();
        session.holds("allow Write r/HEAD\nallow Write r/objects/x\nallow Write r/config").await;
        session.room.write("work/r/HEAD", "ref: refs/heads/x");
        session.room.write("work/r/objects/x", "");
        let table = ["Write r/refs/x", "Write r/commondir", "Bash echo x > r/commondir"];
        session.holds(&table.map(|call| format!("{verdict} {call}")).join("\n")).await;
        session.room.write("work/r/refs/x", "");
        session
            .holds(&["r/config", "r/hooks/update"].map(|path| format!("{verdict} Write {path}")).join("\n"))
            .await;
        session.holds("allow Write r/objects/y\nallow Write r/README").await;
    }
}

#[tokio::test]
async fn what_is_the_users_own_is_written_in_no_mode() {
    for mode in ["default", "acceptEdits", "bypassPermissions"] {
        let session = with(rules("+Edit; +Bash; +Edit(//**)")).mode(mode).open();
        session
            .holds(
                "deny Write @/config/settings.json
                 deny Write @/state/trust/x
                 deny Bash touch ~/.claude/settings.json
                 deny Bash touch @/config/settings.json
                 deny Bash echo x > @/config/settings.json
                 ask Bash foo @/state/trust/x
                 ask Bash foo --out=@/config/settings.json
                 ask Bash git -C @/state init
                 deny stranger @/state/x
                 allow Write @/outside/fine.txt",
            )
            .await;
    }
}

#[tokio::test]
async fn blocks_hold_in_every_mode_and_against_every_rule() {
    let mut settings = rules("+Read; +Edit; +Edit(//**); +Bash; +Bash(cat *)");
    settings["permissions"]["blockReadsOutsideWorkingDirectories"] = json!(true);
    settings["permissions"]["blockWritesOutsideWorkingDirectories"] = json!(true);
    for mode in ["default", "bypassPermissions"] {
        let session = with(settings.clone()).mode(mode).open();
        session
            .holds(
                "deny Read @/outside/c.txt
                 deny Write @/outside/d.txt
                 deny Bash cat @/outside/c.txt
                 deny Bash ls > @/outside/x
                 allow Read a.txt
                 allow Write e.txt
                 allow Bash cat a.txt",
            )
            .await;
    }
}

#[tokio::test]
async fn added_directories_count_as_inside() {
    let room = Room::new();
    let settings = json!({"permissions": {"additionalDirectories": [room.at("outside")]}});
    std::fs::create_dir_all(room.at("outside")).unwrap();
    let session = with(settings).mode("acceptEdits").open_in(room, |setup| setup);
    session
        .holds(
            "allow Read @/outside/c.txt
             allow Write @/outside/d.txt
             allow Bash touch @/outside/e
             ask Bash rm -rf @/outside
             ask Read @/etc/settings.json",
        )
        .await;
}

#[tokio::test]
async fn the_mode_is_live() {
    let session = with(json!({})).open();
    session.holds("ask Write new.txt").await;
    session.set(PermissionMode::AcceptEdits);
    session.holds("allow Write new.txt").await;
    session.set(PermissionMode::Plan);
    session.holds("deny Write new.txt").await;
}

#[tokio::test]
async fn a_forbidden_mode_can_not_be_had() {
    let room = Room::new();
    room.write("etc/settings.json", r#"{"permissions": {"disableBypassPermissionsMode": "disable"}}"#);
    let flags = |mode: &str| SettingsFlags {
        permission_mode: Some(mode.parse().unwrap()),
        ..SettingsFlags::default()
    };
    let places = room.places();
    let workspace = haft::Workspace::new(room.at("work")).unwrap();
    let make = |mode| Policy::new(&room.load_with(&flags(mode)), PolicyContext::new(&places, &workspace));
    let (policy, _) = make("bypassPermissions").unwrap();
    assert_eq!(policy.current(), PermissionMode::Default);
    policy.set(PermissionMode::BypassPermissions);
    assert_eq!(policy.current(), PermissionMode::Default);
    policy.set(PermissionMode::Auto);
    assert_eq!(policy.current(), PermissionMode::Auto);
}

#[tokio::test]
async fn without_a_sandbox_commands_ask_unless_a_rule_allows_them() {
    let mut session = with(rules("+Bash(npm test)"));
    session.no_sandbox = false;
    let session = session.open();
    session
        .holds(
            "ask Bash ls
             ask Bash cat a.txt
             allow Bash npm test
             ask Bash npm test && ls
             allow Read a.txt",
        )
        .await;
    let mut edits = with(json!({})).mode("acceptEdits");
    edits.no_sandbox = false;
    edits.open().holds("ask Bash touch x\nallow Write x").await;
}

#[tokio::test]
async fn no_question_is_a_denial_with_the_rule_that_helps() {
    let mut alone = with(json!({}));
    alone.non_interactive = true;
    let session = alone.open();
    session.holds("deny Bash make && npm test\nallow Bash ls\ndeny Write x.txt").await;
    let words = session.call("Bash", json!({"command": "make && npm test"})).await;
    let words = words.error().unwrap().message().to_owned();
    assert!(words.contains("allow rules `Bash(make)`, `Bash(npm test)`"), "{words}");

    let session = with(json!({"permissions": {"denyInsteadOfPrompting": true}})).open();
    session.holds("deny Bash make\nallow Bash ls").await;
    assert!(session.user.asked().is_empty());
}
