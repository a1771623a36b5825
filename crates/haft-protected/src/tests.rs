//! Tests of name matching and of the page that is generated from the table.

use std::fmt::Write as _;
use std::path::Path;

use super::*;

fn protected(path: &str) -> Option<&'static str> {
    find(Path::new(path)).map(|found| found.row.name)
}

fn kept_from_commands(path: &str) -> Option<(&'static str, String)> {
    let found = find_for_commands(Path::new(path))?;
    Some((found.row.name, found.top(Path::new(path)).display().to_string()))
}

#[test]
fn the_table_is_ordered_and_in_lower_case() {
    assert!(TABLE.is_sorted_by(|one, next| one.name < next.name));
    for row in TABLE {
        assert_eq!(folded(row.name), row.name);
        assert!(
            may_begin(&row.name.replace('*', "x").split('/').next().unwrap().to_uppercase()),
            "{}",
            row.name
        );
    }
    assert!(!may_begin("src") && !may_begin(".code-workspace"));
    let any = |row: &&ProtectedName| row.depth == NameDepth::Any && row.class != ProtectionClass::Repository;
    for row in TABLE.iter().filter(any) {
        assert!(is_any_depth(row.name) && is_any_depth(&row.name.to_uppercase()), "{}", row.name);
    }
    assert!(!is_any_depth("main.rs") && !is_any_depth(".vscode"));
}

#[test]
fn file_tools_are_asked_at_any_depth() {
    for (path, name) in [
        ("/w/.git/hooks/pre-commit", Some(".git")),
        ("/w/sub/.VSCODE/tasks.json", Some(".vscode")),
        ("/w/.mcp\u{200b}.json", Some(".mcp.json")),
        ("/w/GIT~1/config", Some(".git")),
        ("/w/a/b.code-workspace", Some("*.code-workspace")),
        ("/w/.github/workflows/ci.yml", Some(".github/workflows")),
        ("/w/.github/CODEOWNERS", None),
        ("/w/.claude/worktrees", Some(".claude")),
        ("/w/.claude/worktrees/a/src/lib.rs", None),
        ("/w/.claude/worktrees/a/.git/config", Some(".git")),
        ("/w/.yarn/cache/x.zip", Some(".yarn")),
        ("/w/src/main.rs", None),
        ("/", None),
    ] {
        assert_eq!(protected(path), name, "{path}");
    }
}

#[test]
fn commands_are_kept_from_names_where_they_count() {
    let at = |name: &'static str, top: &str| Some((name, top.to_owned()));
    for (path, expected) in [
        (".vscode/tasks.json", at(".vscode", ".vscode")),
        ("sub/.vscode/tasks.json", None),
        ("sub/deep/.envrc", at(".envrc", "sub/deep/.envrc")),
        ("sub/mise.toml", at("mise.toml", "sub/mise.toml")),
        ("sub/.dir-locals.el", at(".dir-locals.el", "sub/.dir-locals.el")),
        (".jj/repo/config.toml", at(".jj/repo/config.toml", ".jj/repo/config.toml")),
        (".jj/repo/store/x", None),
        ("tools/bazel", at("tools/bazel", "tools/bazel")),
        ("tools/build", None),
        ("x.code-workspace", at("*.code-workspace", "x.code-workspace")),
        (".bundle/config", at(".bundle/config", ".bundle/config")),
        (".bundle/other", None),
        (".cargo/config.toml", at(".cargo", ".cargo")),
        (".cargo/registry/index/x", None),
        (".yarn/install-state.gz", None),
        (".yarn/releases/yarn.cjs", at(".yarn", ".yarn")),
        (".haft/worktrees", at(".haft", ".haft")),
        (".haft/worktrees/x/file", None),
        (".git/config", None),
    ] {
        assert_eq!(kept_from_commands(path), expected, "{path}");
    }
}

const HEADER: &str = "# Protected names

Files that another program executes, or that say what it executes, made from the table in
`crates/haft-protected/src/table.rs`. Names are compared without case.

Rules and file tools ask before any of them is written, wherever it lies, also inside a folder of that name. What the
[sandbox](sandbox.md#protected-names) does depends on the class:

- *held*: no command leaves it changed, and unknown content is removed as it appears;
- *reviewed*: it is compared after each command; an unknown change is reverted and reported;
- *repository*: folders of git have rules of their own.

*top* is directly in a working directory or at the top of a repository that was there when the session began; *any* is in
any folder.

| name | where | class | executed by | plain work for commands |
|---|---|---|---|---|
";

fn page() -> String {
    let mut page = HEADER.to_owned();
    for row in TABLE {
        let depth = match row.depth {
            NameDepth::Top => "top",
            NameDepth::Any => "any",
        };
        let class = match row.class {
            ProtectionClass::Held => "held",
            ProtectionClass::Reviewed => "reviewed",
            ProtectionClass::Repository => "repository",
        };
        let plain = row.plain.iter().chain(row.plain_for_commands).map(|name| format!("`{name}`"));
        let plain = plain.collect::<Vec<_>>().join(" ");
        writeln!(page, "| `{}` | {depth} | {class} | {} | {plain} |", row.name, row.executed).unwrap();
    }
    page
}

/// `HAFT_WRITE_PAGES=1` writes the page.
#[test]
fn the_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protected-names.md");
    if std::env::var_os("HAFT_WRITE_PAGES").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap_or_default() == page(),
        "docs/protected-names.md is out of date; HAFT_WRITE_PAGES=1 writes it"
    );
}
