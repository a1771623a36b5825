//! Known bypasses of similar policies: each with the attack, and a similar call that has to keep working.

use super::{rules, with};

/// A: allow lists that matched text. CVE-2025-54795, -58764, -64755, -66032, CVE-2026-25722, -22708,
/// gemini-cli #11510.
#[tokio::test]
async fn a_text_that_begins_well_is_not_enough() {
    let session =
        with(rules("+Bash(echo *); +Bash(rg *); +Bash(git log *); +Bash(cd *); +Bash(npm test)")).open();
    session
        .holds(
            "allow Bash echo hello
             ask Bash echo hello; make
             ask Bash echo \"$(make)\"
             ask Bash echo `make`
             ask Bash echo a && make
             ask Bash echo a | tee x
             ask Bash echo a > /etc/cron.d/x
             allow Bash rg foo src
             ask Bash rg --pre ./evil foo
             allow Bash sed -n 1p a.txt
             ask Bash sed -n 1e a.txt
             ask Bash sed 'w /etc/x' a.txt
             ask Bash cd /tmp && echo x > y
             allow Bash git log -1
             ask Bash git logout
             ask Bash git -c core.pager=evil log
             ask Bash export PATH=/evil; npm test
             ask Bash PATH=/evil npm test
             ask Bash LD_PRELOAD=x npm test
             allow Bash npm test",
        )
        .await;
    let many = vec!["echo a"; 60].join(" && ");
    session.holds(&format!("allow Bash {many}\nask Bash {many} && make")).await;
    let too_many = vec!["echo a"; 300].join(" && ");
    session.holds(&format!("ask Bash {too_many}")).await;
}

/// A: a complexity limit must not fail open in a non-interactive session.
#[tokio::test]
async fn what_is_too_much_is_denied_without_a_user() {
    let mut alone = with(rules("+Bash(echo *)"));
    alone.non_interactive = true;
    let too_many = vec!["echo a"; 300].join(" && ");
    alone
        .open()
        .holds(&format!("deny Bash {too_many}\ndeny Bash $X y\ndeny Bash echo 'a\nallow Bash echo a"))
        .await;
}

/// A command that isn't understood may contain a denied one, so a rule for every command doesn't allow it.
#[tokio::test]
async fn a_denied_command_does_not_hide_in_what_is_not_understood() {
    let session = with(rules("+Bash; -Bash(curl *)")).open();
    session
        .holds(
            "deny Bash curl x.io
             ask Bash $(echo cu)rl x.io
             ask Bash eval \"$X\"
             allow Bash make",
        )
        .await;
    // Without a deny rule that it could bypass, a rule for every command allows it.
    with(rules("+Bash")).open().holds("allow Bash $X y").await;
}

/// B: prefixes of paths. CVE-2025-53110, -54794, -59944.
#[tokio::test]
async fn a_path_is_compared_name_by_name() {
    let session = with(rules("+Edit(src/**); -Edit(./locked/**)")).open();
    session
        .holds(
            "allow Write src/x
             ask Write src_evil/x
             ask Write src/../x
             ask Write @/work_evil/x
             ask Read @/work_evil/x
             deny Write locked/x
             deny Write LOCKED/x
             deny Write src/../locked/x
             deny Write src/../Locked/X
             allow Write src/locked2/x",
        )
        .await;
}

/// C: symlinks. CVE-2025-53109, CVE-2026-25724.
#[tokio::test]
async fn a_link_has_two_paths_and_both_count() {
    let session = with(rules("+Edit(src/**); -Read(./secret.txt)")).open();
    session.room.write("work/secret.txt", "s");
    let link = |from: &str, to: &str| {
        std::os::unix::fs::symlink(session.room.at(to), session.room.at(from)).unwrap()
    };
    link("work/src/door", "outside");
    link("work/src/name", "work/secret.txt");
    link("work/src/inner", "work/src/b.txt");
    session
        .holds(
            "ask Write src/door/x
             ask Read src/door/c.txt
             deny Read src/name
             deny Write src/name
             deny Bash cat src/name
             allow Read src/inner
             allow Write src/inner",
        )
        .await;
}

/// D: a repository's own settings. CVE-2025-59536, CVE-2026-33068, CVE-2025-53773, CVE-2025-54135.
#[tokio::test]
async fn a_workspace_loosens_nothing_and_tightens_at_once() {
    let room = crate::room::Room::new();
    let project = r#"{"permissions": {"allow": ["Bash(make)"], "deny": ["Bash(npm *)"], "defaultMode": "bypassPermissions"},
        "effects": {"mcp__hub__get": {}}, "classifier": {"command": ["true"]}}"#;
    room.write("work/.haft/settings.json", project);
    let session = with(rules("+Bash(npm test); +Bash(ls)")).open_in(room, |setup| setup);
    session
        .holds(
            "ask Bash make
             deny Bash npm test
             allow Bash ls
             ask mcp__hub__get
             ask Bash other",
        )
        .await;
    // The agent can't extend its own permissions either.
    session.holds("ask Write .haft/settings.json\nask Bash echo > .mcp.json").await;
    let room = session.room;
    room.write("work/.haft/settings.json", project);
    room.trust();
    let trusted = with(rules("+Bash(npm test); +Bash(ls)")).open_in(room, |setup| setup);
    trusted.holds("allow Bash make\ndeny Bash npm test\nallow mcp__hub__get").await;
}
