//! What people run all day to look at something, and what only seems to be the same.

use crate::commands::{may_change, reads_only};

#[test]
fn everyday_commands_only_look() {
    for command in [
        "awk '{print $1}' x",
        "awk -F: -v n=2 '$2 > n { print $1 }' x",
        "python3 --version",
        "node -v",
        "go version",
        "cargo -V",
        "fd -e rs main src",
        "cat src/*",
        "ls src/*/mod.rs",
        "cat ./*.md",
        "sort -u src/*.txt",
        "rg x src/*",
        "head -c 16 /dev/urandom | xxd",
        "cat x | base64 -w 0",
        "expr 1 + 1",
        "free -h",
    ] {
        reads_only(command);
    }
}

#[test]
fn what_seems_to_be_the_same_may_change_something() {
    for command in [
        "awk '{print > \"out\"}' x",
        "awk '{ system(\"rm x\") }' x",
        "awk -f prog x",
        "awk \"$prog\" x",
        "awk 'BEGIN { ARGV[1] = \"/etc/passwd\" }' x",
        "./node -v",
        "node -v x",
        "python3 -v",
        "fd -x rm",
        "fd --exec rm",
        "fd -l",
        "sort src/* -o x",
        "uniq src/*",
        "cat src/.*",
        "cat */../../x",
    ] {
        may_change(command);
    }
}

/// Names that come from elsewhere than what they seem to come from, and what an archive on another machine starts.
#[test]
fn names_from_elsewhere_are_not_known() {
    for command in [
        "find . | xargs -a list cat",
        "find . -printf '/etc/shadow\\n' | xargs cat",
        "find .. -name x | xargs cat",
        "echo /etc/shadow | xargs cat",
        "find . -name x | xargs cat < list",
        "for f in *.md; do f=/etc/shadow; cat \"$f\"; done",
        "for f in *.md; do read f; cat \"$f\"; done",
        "for f in *.md; do cat $f; done",
        "for f in /etc/*; do cat \"$f\"; done",
        "find . -exec touch {} +",
        "bash -c 'ls; touch x'",
        "bash -lc pwd",
        "X=1; make",
        "tar tf host:a.tar",
        "nm --plugin x.so a.o",
        "pip list --outdated",
        "unzip -p a.zip",
    ] {
        may_change(command);
    }
    for command in [
        "find src -name x | xargs cat",
        "find . -print0 | xargs -0 grep -n x",
        "for f in src/*.md; do cat \"${f}\"; done",
        "bash -c 'cat a | wc -l'",
        "X=1; echo $X",
        "tar tzf a.tar.gz",
        "unzip -l a.zip",
        "nm -C a.o",
        "git reflog show main",
    ] {
        reads_only(command);
    }
}
