//! A process that the kernel itself holds (state D), which no signal ends: who waits for it gets an answer
//! all the same.
//!
//! The kernel holds whoever asks a file system whose server took the question and never answers. That is one
//! of FUSE here, in a namespace of its own, served by a few lines of shell: what it holds goes when the
//! server does.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::room::{PATH, Room};

/// Mounts, answers the first question (the version), takes others and is silent; runs what follows, and says
/// how many processes are held then, and how many when the server has ended. 77: there is no FUSE here.
const SERVES: &str = r#"
dir=$1; shift
exec 3<>/dev/fuse || exit 77
mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 none "$dir" || exit 77
dd bs=65536 count=1 <&3 >/dev/null 2>&1
printf '\120\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\7\0\0\0\37\0\0\0\0\0\2\0\0\0\0\0\20\0\20\0\0\20\0\0\1\0\0\0' > answer
head -c 36 /dev/zero >> answer
dd bs=80 count=1 if=answer >&3 2>/dev/null
dd bs=65536 of=/dev/null <&3 2>/dev/null & server=$!
exec 3>&-
"$@"; code=$?
held() { for one in /proc/[0-9]*; do
    grep -q '^State:.D' $one/status 2>/dev/null && [ "$(readlink $one/cwd)" = "$PWD" ] && echo ${one#/proc/}; done 2>/dev/null; }
echo "held: $(held | wc -l)" >&2
echo "pid: $(held)" >&2
kill -9 $server; wait $server 2>/dev/null
while [ "$(held)" ]; do :; done
echo "held: $(held | wc -l)" >&2
exit $code
"#;

/// What the command started.
#[test]
fn what_the_kernel_holds_holds_nobody_else() {
    check_held("echo begun; d=$(echo ../stu); cat ${d}ck/x; echo after");
}

#[test]
fn a_command_that_the_kernel_holds_holds_nobody_else() {
    check_held("echo begun; d=$(echo ../stu); exec cat ${d}ck/x");
}

fn check_held(command: &str) {
    let room = Room::new();
    let one = |name: &str, input: Value| json!({"tool_calls": [{"name": name, "input": input}]});
    let turns = json!({"turns": [
        one("Bash", json!({"command": command, "timeout": 1_500})),
        one("TaskStop", json!({"task_id": "task-1"})),
        one("TaskOutput", json!({"task_id": "task-1"})),
        one("TaskOutput", json!({})),
        one("Bash", json!({"command": "echo next"})),
        {"text": "Done."}]});
    room.write("script.json", &turns.to_string());
    std::fs::create_dir(room.path("stuck")).unwrap();
    // In the sandbox such a file system isn't seen.
    let settings = r#"{"sandbox": {"enabled": false}}"#;
    let mut shell = Command::new("unshare");
    shell.args(["-r", "-m", "bash", "-c", SERVES, "bash"]).arg(room.path("stuck"));
    shell.arg(env!("CARGO_BIN_EXE_haft")).args([
        "run",
        "--script",
        "../script.json",
        "go",
        "--output",
        "json",
    ]);
    shell.args(["--permission-mode", "bypassPermissions", "--settings", settings]);
    shell.current_dir(room.path("work")).env_clear();
    shell.env("HOME", room.path("home")).env(PATH, std::env::var_os(PATH).unwrap());
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = room.run(shell, "");
    if ran.code == Some(77) {
        eprintln!("skipped: no file system of one's own can be mounted here: {}", ran.stderr);
        return;
    }
    assert_eq!(ran.code, Some(0), "{command}: {ran:?}");
    let held: Vec<&str> = ran.stderr.lines().filter_map(|line| line.strip_prefix("held: ")).collect();
    assert_eq!(held, ["1", "0"], "{command}: {ran:?}");
    let found: Value = serde_json::from_str(&ran.stdout.replace(":T", ":0")).unwrap();
    let result = |at: usize| {
        let call = &found["calls"][at];
        call["result"].as_str().or(call["error"]["message"].as_str()).unwrap_or_default().to_owned()
    };
    assert!(result(0).contains("begun") && result(0).contains("not finished after 1.5 s"), "{found}");
    // It is said who is still there, and to whoever asks later as well.
    let left = ran.stderr.lines().find_map(|line| line.strip_prefix("pid: ")).unwrap();
    let words = format!("process {left} of it could not be ended and is still there");
    assert!(result(1).starts_with("task-1 could not be ended: "), "{found}");
    assert!(result(2).contains("task-1 was given up after "), "{found}");
    assert!(result(3).starts_with("task-1  was given up after "), "{found}");
    assert!((1..4).all(|at| result(at).contains(&words)), "{words}: {found}");
    assert_eq!((result(4).trim(), &found["text"]), ("next", &json!("Done.")), "{found}");
}
