//! What is found in shell commands, by tables. Beside each thing that must not pass stands one that does.

use haft_shell::{Analysis, FileAccess, Place, SubCommand, analyse};

pub(crate) fn place() -> Place {
    Place::new("/repo/app").with_home("/home/me").with_added("/data/set")
}

pub(crate) fn found(command: &str) -> Analysis {
    analyse(command, &place())
}

/// The innermost commands, by their text, in order; `?` at the end if something wasn't understood.
pub(crate) fn parts(command: &str) -> String {
    let found = found(command);
    let mut parts: Vec<String> = found
        .commands
        .iter()
        .map(|command| command.layers.last().map_or(command.text.clone(), |layer| layer.text.clone()))
        .collect();
    if !found.doubts.is_empty() {
        parts.push("?".to_owned());
    }
    parts.join(" | ")
}

#[track_caller]
pub(crate) fn check(command: &str, expected: &str) {
    assert_eq!(parts(command), expected, "{command}\n{:?}", found(command).doubts);
}

#[track_caller]
pub(crate) fn may_change(command: &str) {
    assert!(!found(command).is_read_only(), "{command}");
}

#[track_caller]
pub(crate) fn not_understood(command: &str) {
    assert!(!found(command).doubts.is_empty(), "{command}");
}

pub(crate) fn last(command: &str) -> SubCommand {
    found(command).commands.pop().unwrap()
}

#[test]
fn a_move_counts_for_what_follows() {
    // CVE-2026-25722: `cd` first, then a relative write.
    let moved = found("cd .claude && echo '{}' > settings.json");
    assert_eq!(moved.redirects[0].paths.as_deref().unwrap(), [std::path::Path::new(".claude/settings.json")]);
    let stayed = found("cd .claude; echo '{}' > settings.json");
    assert_eq!(stayed.redirects[0].paths.as_ref().unwrap().len(), 2, "it may have failed");
}

#[test]
fn the_bound_on_commands_fails_closed() {
    let many = vec!["true"; 300].join(" && ") + " && rm x";
    assert!(!found(&many).doubts.is_empty());
    assert_eq!(found(&vec!["true"; 60].join(" && ")).doubts, []);
}

#[test]
fn texts_for_rules() {
    let allow = |command: &str| last(command).texts_for_allow();
    assert_eq!(allow("npm test > out 2>&1"), ["npm test"]);
    assert_eq!(allow("timeout 5 nice npm test"), ["timeout 5 nice npm test", "nice npm test", "npm test"]);
    assert_eq!(allow("xargs grep x"), ["xargs grep x", "grep x"]);
    assert_eq!(allow("xargs -n1 grep x"), ["xargs -n1 grep x"]);
    assert_eq!(allow("LC_ALL=C npm test"), ["LC_ALL=C npm test", "npm test"]);
    assert_eq!(allow("FOO=1 npm test"), ["FOO=1 npm test"]);
    assert_eq!(allow("sudo npm test"), ["sudo npm test"]);
    assert_eq!(allow("env A=1 npm test"), ["env A=1 npm test"]);
    assert_eq!(allow("echo  a   'b'"), ["echo a 'b'"]);

    let deny = |command: &str, text: &str| last(command).texts_for_deny().iter().any(|found| found == text);
    for command in [
        "rm x",
        "\\rm x",
        "'rm' x",
        "r\"\"m x",
        "/bin/rm x",
        "FOO=1 rm x",
        "env A=1 rm x",
        "sudo -u me rm x",
        "timeout 5 env rm x",
        "$'\\x72m' x",
        "command rm x",
        "setsid rm x",
    ] {
        assert!(deny(command, "rm x"), "{command}: {:?}", last(command).texts_for_deny());
    }
    assert!(!deny("echo rm x", "rm x"));
    assert!(deny("sudo rm x", "sudo rm x"), "the wrapper itself can be denied");
}

#[test]
fn redirections() {
    let targets = |command: &str| -> Vec<String> {
        let found = found(command);
        let show = |paths: &Option<Vec<std::path::PathBuf>>| match paths {
            Some(paths) => paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join("|"),
            None => "?".to_owned(),
        };
        let sign = |access| if access == FileAccess::Read { "<" } else { ">" };
        found.redirects.iter().map(|one| format!("{}{}", sign(one.access), show(&one.paths))).collect()
    };
    assert_eq!(
        targets("a > x >> y 2> z &> w >| v < r <> t &>> u"),
        [">x", ">y", ">z", ">w", ">v", "<r", ">t", ">u"]
    );
    assert!(targets("a > /dev/null 2>&1 <&3 3>&- 2>/dev/stderr >&2 <<< x").is_empty());
    assert_eq!(targets("a >& x"), [">x"]);
    assert_eq!(targets("a > ~you/x > *.y > $z > \"$z\" > {a,b} > `c`"), [">?"; 6]);
    assert_eq!(targets("a > ~/x"), [">/home/me/x"]);
    assert_eq!(targets("a > 'b c' > \"d\" > \\e"), [">b c", ">d", ">e"]);
    assert_eq!(targets("{ a; } > x; (b) > y; if c; then d; fi > z; > w"), [">x", ">y", ">z", ">w"]);
    assert_eq!(targets("echo $(a > x) <(b > y)"), [">x", ">y"]);
    assert_eq!(targets("exec 3> x {fd}> y"), [">x", ">y"]);
    assert_eq!(targets("cd d && a > x"), [">d/x"]);
    assert_eq!(targets("cd d && cd e && a > x"), [">d/e/x"]);
    assert_eq!(targets("cd /d && a > x && b > /y"), [">/d/x", ">/y"]);
    assert_eq!(targets("cd d || a > x"), [">x"]);
    assert_eq!(targets("cd d; a > x"), [">d/x|x"]);
    assert_eq!(targets("(cd d && a > x); b > y"), [">d/x", ">y"]);
    assert_eq!(targets("cd d | a > x"), [">x"]);
    assert_eq!(targets("cd .. && a > x"), [">../x"]);
    assert_eq!(targets("cd d && cd .. && a > x"), [">?"], "a link may be left by another way");
    for command in [
        "cd $d && a > x",
        "cd - && a > x",
        "pushd d && a > x",
        "for i in 1 2; do cd d; a > x; done",
        "f() { cd d; }; f; a > x",
        "eval 'cd d'; cd $e; a > x",
        "cd -P d && a > x",
        "source x; a > x",
        "while cd d; do a > x; done",
    ] {
        assert_eq!(targets(command), [">?"], "{command}");
    }
    assert_eq!(targets("eval 'cd d' && a > x"), [">d/x|x"]);
    assert_eq!(targets("cd && a > x"), [">/home/me/x"]);
    assert_eq!(targets("cd ~/y && a > x"), [">/home/me/y/x"]);
    assert_eq!(targets("f() { a > x; }; cd d && f"), [">?"], "called from elsewhere");
    assert_eq!(targets("command cd d && a > x"), [">d/x"]);
    assert_eq!(targets("if cd d; then a > x; fi"), [">x|d/x"]);
    assert_eq!(targets("! cd d && a > x"), [">d/x|x"]);
}

#[test]
fn shown_part_by_part() {
    let lines: Vec<_> = found("sh -c 'ls; rm -rf /' > log && $x")
        .lines()
        .into_iter()
        .map(|line| format!("{}{}: {}", "  ".repeat(line.depth), line.text, line.note))
        .collect();
    assert_eq!(
        lines,
        [
            "sh -c 'ls; rm -rf /': runs what it is given; only an exact rule allows it",
            "  ls: read-only",
            "  rm -rf /: removes `/`; always asks",
            "$x: `it` isn't known to change nothing",
            "> log: writes log",
            "not understood: which program `$x` starts is known only when it runs",
        ]
    );
}

/// Removing the table of jobs changes something, though listing it doesn't.
#[test]
fn what_destroys_is_no_look() {
    for command in ["crontab -r", "crontab -ri", "git stash drop", "git reset --hard", "docker volume rm x"] {
        let command = last(command);
        assert!(command.destroys.is_some() && command.read_only.is_err(), "{}", command.text);
    }
    for command in ["crontab -l", "git stash list", "git reset", "docker volume ls"] {
        assert_eq!(last(command).destroys, None, "{command}");
    }
}
