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
