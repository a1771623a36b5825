//! File tools that are led out of the workspace, or to what a rule denies.

use serde_json::{Value, json};

use super::{Attack, SECRET, Success};

const LINKS: &str = "ln -s ~/.ssh/id_rsa link; ln -s ~/.ssh dir; ln -s ../beside/secret beside; ln -s dir/id_rsa twice; \
                     ln -s ~/.bashrc rc; ln -s ~/.config/new dangling; mkdir -p sub; ln -s ../.. sub/up";

/// The tool, its input, and the flags of the control.
fn reads() -> Vec<(&'static str, Value)> {
    let paths = [
        "link",
        "dir/id_rsa",
        "beside",
        "twice",
        "../beside/secret",
        "sub/up/beside/secret",
        "sub/../../beside/secret",
        "./sub/up/home/.ssh/id_rsa",
    ];
    let mut calls: Vec<(&str, Value)> = Vec::new();
    for path in paths {
        calls.push(("Read", json!({"file_path": path})));
        calls.push(("Grep", json!({"pattern": "S3CRET", "path": path, "output_mode": "content"})));
        calls.push(("Diff", json!({"a": path, "b": "readme.txt"})));
    }
    for path in ["dir", "sub/up/home/.ssh", "../beside"] {
        calls.push(("Grep", json!({"pattern": "S3CRET", "path": path, "output_mode": "content"})));
    }
    calls
}

/// The same, and where the mark would be.
fn writes() -> Vec<(&'static str, Value, &'static str)> {
    let write = |path: &str| json!({"file_path": path, "content": "PWNED\n"});
    let patch = |path: &str| json!({"input": format!("*** Begin Patch\n*** Add File: {path}\n+PWNED\n*** End Patch")});
    vec![
        ("Write", write("../beside/new"), "beside"),
        ("Write", write("dangling"), "home/.config"),
        ("Write", write("dir/authorized_keys"), "home/.ssh"),
        ("Write", write("sub/up/beside/new"), "beside"),
        ("Write", write("sub/up/home/.profile"), "home/.profile"),
        ("Edit", json!({"file_path": "rc", "old_string": "# mine", "new_string": "PWNED"}), "home/.bashrc"),
        ("Edit", json!({"file_path": "../beside/x", "old_string": "", "new_string": "PWNED"}), "beside"),
        ("ApplyPatch", patch("../beside/new"), "beside"),
        ("ApplyPatch", patch("dir/config"), "home/.ssh"),
        ("Write", write(".git/hooks/pre-commit"), "work/.git/hooks"),
        ("Write", write(".git/config"), "work/.git/config"),
        ("Write", write(".mcp.json"), "work/.mcp.json"),
        ("Write", write(".vscode/tasks.json"), "work/.vscode"),
        ("Write", write(".envrc"), "work/.envrc"),
        ("Write", write(".claude/settings.json"), "work/.claude"),
        ("ApplyPatch", patch(".husky/pre-commit"), "work/.husky"),
        ("Write", write(".GIT/hooks/x"), "work/.GIT"),
        ("Write", write(".git./config"), "work/.git."),
        ("Write", write(".gitmodules"), "work/.gitmodules"),
        ("Write", write(".Cargo/config.toml"), "work/.Cargo"),
        ("Write", write(".mise/config.toml"), "work/.mise"),
        ("Write", write(".windsurf/hooks.json"), "work/.windsurf"),
        ("Write", write("crush.json"), "work/crush.json"),
        ("Write", write("opencode.jsonc"), "work/opencode.jsonc"),
        ("Write", write(".vimrc"), "work/.vimrc"),
        ("Write", write("sub/.dir-locals.el"), "work/sub"),
        ("Write", write(".helix/languages.toml"), "work/.helix"),
        ("Write", write(".github/hooks/a.json"), "work/.github"),
        ("Write", write(".roo/mcp.json"), "work/.roo"),
        ("Write", write("lefthook.toml"), "work/lefthook.toml"),
        ("Write", write(".irbrc"), "work/.irbrc"),
        ("Write", write(".devcontainer.json"), "work/.devcontainer.json"),
        ("Write", write("sub/.git"), "work/sub"),
    ]
}

pub(super) fn rows() -> Vec<Attack> {
    let mut rows = Vec::new();
    for (tool, input) in reads() {
        let row = Attack::call("file tools", format!("{tool} {input}"), tool, &input).prepared(LINKS);
        rows.push(row.opened_by(&["--allow", "Read"]));
    }
    for (tool, input, place) in writes() {
        let row = Attack::call("file tools", format!("{tool} {input}"), tool, &input).prepared(LINKS);
        let row = row.with(&["--permission-mode", "acceptEdits"]).succeeds(Success::Marks(place));
        rows.push(row.opened_by(&["--permission-mode", "bypassPermissions", "--no-sandbox"]));
    }
    // Another name of what a rule denies.
    for path in ["name", "sub/name", "sub/up/work/name"] {
        let read = json!({"file_path": path});
        let grep = |path: &str| json!({"pattern": "S3CRET", "path": path, "output_mode": "content"});
        let edit = json!({"file_path": path, "old_string": "S3CRET", "new_string": "PWNED"});
        let marked = if path == "sub/name" { "work/sub/name" } else { "work/name" };
        for (tool, input, success) in [
            ("Read", read, Success::Tells(SECRET)),
            ("Grep", grep(path), Success::Tells(SECRET)),
            ("Grep", grep("."), Success::Tells(SECRET)),
            ("Edit", edit, Success::Marks(marked)),
        ] {
            let row = Attack::call("file tools", format!("hard link: {tool} {input}"), tool, &input)
                .file("work/.env", "S3CRET-of-the-user\n")
                .prepared("mkdir -p sub; ln -s ../.. sub/up; ln .env name; ln .env sub/name")
                .with(&["--deny", "Read(.env)", "--allow", "Edit", "--allow", "Read"])
                .succeeds(success);
            rows.push(row.opened_by(&["--allow", "Edit", "--allow", "Read"]));
        }
    }
    rows
}
