//! `Bash` and its companions, with a real bash through a real engine.

mod background;
mod judged;
mod output;
mod rewound;
mod waits;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use haft::dispatch::TaskTable;
use haft::ports::{PermissionMode, Processes};
use haft::results::OffloadStore;
use haft::{
    Engine, EngineBuilder, ErrorKind, PermissionRules, Registry, Tool as _, ToolCall, ToolResult, Workspace,
};
use haft_sandbox::LocalProcesses;
use serde_json::{Value, json};

use haft_tools::Bash;

/// A folder with a session in it that may run everything.
struct Scene {
    dir: tempfile::TempDir,
    builder: EngineBuilder,
    engine: Engine,
    tasks: Arc<TaskTable>,
}

impl Scene {
    fn new() -> Scene {
        Scene::of(Bash::new(), Arc::new(LocalProcesses::new(std::env::vars_os())))
    }

    fn of(bash: Bash, processes: Arc<dyn Processes>) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("work/sub/deep")).unwrap();
        let permissions = PermissionRules::new().mode(PermissionMode::BypassPermissions);
        let tasks = Arc::new(TaskTable::new());
        let builder = Engine::builder(
            Registry::new().with(haft_tools::BuiltIns::new().bash(bash.clone()).tools()).unwrap(),
        )
        .workspace(Workspace::new(dir.path().join("work")).unwrap())
        .permissions(permissions)
        .result_store(OffloadStore::at(dir.path().join("results")))
        .ports(|ports| {
            ports.processes = Some(processes.clone());
            ports.tasks = Some(tasks.clone());
        });
        Scene { dir, engine: builder.clone().build(), builder, tasks }
    }

    fn with(self, change: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Scene {
        let builder = change(self.builder);
        Scene { engine: builder.clone().build(), builder, ..self }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("work").join(path)
    }

    async fn call(&self, tool: &str, input: Value) -> ToolResult {
        self.engine.turn().run([ToolCall::new("1", tool, input)]).await.remove(0)
    }

    /// What a call says, with the folder's path as `WORK`; an error with its kind before it.
    async fn says(&self, tool: &str, input: Value) -> String {
        let result = self.call(tool, input).await;
        let text = match result.outcome() {
            Ok(output) => output.to_text(),
            Err(error) => format!("{:?}: {}", error.kind(), error.message()),
        };
        text.replace(self.path("").display().to_string().trim_end_matches('/'), "WORK")
    }

    async fn bash(&self, command: &str) -> String {
        self.says("Bash", json!({"command": command})).await
    }

    /// Starts a command in the background.
    async fn background(&self, command: &str) -> String {
        let said = self.says("Bash", json!({"command": command, "run_in_background": true})).await;
        let task = said.split(['(', ';', ' ']).find(|word| word.starts_with("task-"));
        task.unwrap_or_else(|| panic!("{said}")).to_owned()
    }
}

/// Waits for what another process does.
async fn until(what: impl Fn() -> bool) {
    let met = async {
        while !what() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), met).await.expect("it should have happened");
}

/// Whether a process with this number is there and no zombie.
fn lives(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn how_a_command_ended_is_told_apart() {
    let scene = Scene::new();
    fs::write(scene.path("a"), "one\n").unwrap();
    fs::write(scene.path("b"), "two\n").unwrap();
    for (command, expected) in [
        ("true", "(no output)"),
        ("echo hi", "hi"),
        ("echo hi; exit 3", "Failed: hi\nexit code 3"),
        ("false", "Failed: (no output)\nexit code 1"),
        ("set -euo pipefail; echo hi", "hi"),
        ("set -euo pipefail; echo $missing", "Failed: bash: line 1: missing: unbound variable\nexit code 1"),
        // Answers, not failures.
        ("grep zzz a", "(no output)\nexit code 1: nothing matches"),
        ("cat a | grep zzz", "(no output)\nexit code 1: nothing matches"),
        ("grep zzz missing", "Failed: grep: missing: No such file or directory\nexit code 2"),
        ("diff -q a b", "Files a and b differ\nexit code 1: they differ"),
        ("test -e missing", "(no output)\nexit code 1: it is not so"),
        ("[ 1 = 2 ]", "(no output)\nexit code 1: it is not so"),
        ("git diff --no-index --name-only a b", "b\nexit code 1: they differ"),
        // Only the last one answers.
        ("grep zzz a | false", "Failed: (no output)\nexit code 1"),
        ("grep zzz a; false", "Failed: (no output)\nexit code 1"),
        (
            "nosuchprogram",
            "Failed: bash: line 1: nosuchprogram: command not found\nexit code 127: a program in it was not found",
        ),
        (
            "./a",
            "Failed: bash: line 1: ./a: Permission denied\nexit code 126: a program in it could not be executed",
        ),
        (
            "kill -9 $$",
            "Failed: (no output)\nkilled by SIGKILL (9), as when memory runs out or a limit is reached",
        ),
        ("kill -TERM $$", "Failed: (no output)\nkilled by SIGTERM (15)"),
        ("exit 139", "Failed: (no output)\nexit code 139: a program in it was killed by SIGSEGV (11)"),
        (
            "exit 137",
            "Failed: (no output)\nexit code 137: a program in it was killed by SIGKILL (9), as when memory runs out or a limit is reached",
        ),
        // Codes that programs use themselves, as git does for wrong usage.
        ("exit 129", "Failed: (no output)\nexit code 129"),
        ("exit 130", "Failed: (no output)\nexit code 130"),
        ("exit 138", "Failed: (no output)\nexit code 138"),
    ] {
        let said = scene.bash(command).await;
        assert_eq!(said, expected, "{command}");
    }
}

#[tokio::test]
async fn a_command_means_what_it_means_to_bash() {
    let scene = Scene::new();
    for (command, expected) in [
        ("cat <<EOF\nhere $((1+1))\nEOF", "here 2"),
        ("cat <<'EOF'\n$HOME `x`\nEOF\n", "$HOME `x`"),
        ("echo a # comment", "a"),
        ("echo a \\\n  b", "a b"),
        ("echo a\\", "a\\"),
        ("echo one\n\necho two\n", "one\ntwo"),
        ("echo $#:$1:$0", "0::bash"),
        ("echo \"$(echo \"in 'quotes'\")\"", "in 'quotes'"),
        ("set -e; false; echo never", "Failed: (no output)\nexit code 1"),
        (
            "set -eu; echo a; echo $undefined_name 2>&1; echo never",
            "Failed: a\nbash: line 1: undefined_name: unbound variable\nexit code 1",
        ),
        ("exec echo replaced", "replaced"),
        ("trap 'echo bye' EXIT; echo hi; exit 4", "Failed: hi\nbye\nexit code 4"),
        ("x() { return 5; }; x", "Failed: (no output)\nexit code 5"),
        ("[[ a == a ]] && echo yes; echo {1..3}", "yes\n1 2 3"),
        ("read x; echo \"[$x]\"", "[]"),
        ("exec 3>&1; echo three >&3", "three"),
    ] {
        assert_eq!(scene.bash(command).await, expected, "{command}");
    }
    let unbalanced = scene.bash("echo \"open").await;
    assert!(
        unbalanced.starts_with("Failed: bash: ") && unbalanced.ends_with("\nexit code 2"),
        "{unbalanced}"
    );
}

#[tokio::test]
async fn the_working_directory_is_carried() {
    let scene = Scene::new();
    for (command, then) in [
        ("cd sub", "WORK/sub"),
        ("cd deep && false", "WORK/sub/deep"),
        ("(cd /)", "WORK/sub/deep"),
        ("cd .. ; exit 3", "WORK/sub"),
        ("set -e; cd deep; false", "WORK/sub/deep"),
        ("cd \"$OLDPWD/nowhere\" 2>/dev/null", "WORK/sub/deep"),
        ("cd .. | cat", "WORK/sub/deep"),
        ("bash -c 'cd /'", "WORK/sub/deep"),
        // The shell is gone before it could tell.
        ("cd ..; exec true", "WORK/sub/deep"),
        ("pushd ../.. >/dev/null", "WORK"),
        ("mkdir 'a b'; ln -s 'a b' link; cd link", "WORK/a b"),
        ("trap 'echo bye' EXIT; cd ..", "WORK/a b"),
        ("cd ..", "WORK"),
    ] {
        scene.bash(command).await;
        assert_eq!(scene.bash("pwd -P").await, then, "{command}");
    }
    scene.bash("cd sub; echo x > file").await;
    assert_eq!(scene.says("Read", json!({"file_path": "file"})).await, "1\tx", "all tools work there");
}

#[tokio::test]
async fn outside_of_the_allowed_directories_it_is_reset() {
    let scene = Scene::new();
    let said = scene.bash("cd sub; cd /; pwd").await;
    assert_eq!(
        said,
        "/\nthe next command runs in the workspace again: `/` lies outside of the working directories"
    );
    assert_eq!(scene.bash("pwd").await, "WORK");
    scene.bash("cd sub").await;
    assert_eq!(scene.bash("rm -r ../sub; echo removed").await, "removed");
    let said = scene.bash("pwd").await;
    assert!(
        said.starts_with("Failed: the working directory `WORK/sub` is gone; the next command runs in"),
        "{said}"
    );
    assert_eq!(scene.bash("pwd").await, "WORK");

    let added = tempfile::tempdir().unwrap();
    let real = added.path().canonicalize().unwrap();
    let scene = Scene::new();
    let workspace = Workspace::new(scene.path("")).unwrap().with_dir(&real).unwrap();
    let scene = scene.with(|engine| engine.workspace(workspace));
    scene.bash(&format!("cd {}", real.display())).await;
    assert_eq!(scene.bash("pwd -P").await, real.display().to_string());
}

#[tokio::test]
async fn what_makes_no_sense_is_said() {
    let scene = Scene::new();
    for (input, expected) in [
        (json!({"command": " "}), "InvalidInput: `command` is empty; give a command"),
        (
            json!({"command": "ls", "timeout": 600_001}),
            "InvalidInput: `timeout` must be between 1 and 600000 milliseconds, got 600001; for longer ones set `run_in_background`",
        ),
        (
            json!({"command": "ls", "timeout": 0}),
            "InvalidInput: `timeout` must be between 1 and 600000 milliseconds, got 0; for longer ones set `run_in_background`",
        ),
        (
            json!({"command": "ls", "timeout": 7_200_001, "run_in_background": true}),
            "InvalidInput: `timeout` must be between 1 and 7200000 milliseconds, got 7200001",
        ),
    ] {
        assert_eq!(scene.says("Bash", input.clone()).await, expected, "{input}");
    }
    let long = scene.says("Bash", json!({"command": format!("echo {}", "x".repeat(200_000))})).await;
    assert!(long.starts_with("InvalidInput: `command` has 200005 bytes and may have 131071"), "{long}");
    let without = Scene::new().with(|engine| engine.ports(|ports| ports.tasks = None));
    let said = without.says("Bash", json!({"command": "ls", "run_in_background": true})).await;
    assert!(said.contains("this host has no background tasks"), "{said}");
}

#[tokio::test]
async fn a_person_sees_the_command_and_its_end() {
    let scene = Scene::new();
    let view = scene.call("Bash", json!({"command": "seq 30", "description": "Counts"})).await.view();
    assert_eq!((&*view.title, view.summary.as_deref()), ("$ seq 30", Some("30 lines")));
    let shown = format!("{:?}", view.body);
    assert!(shown.contains("… 10 lines before\\n11\\n") && shown.contains("\\n30"), "{shown}");
    let view = scene.call("Bash", json!({"command": "echo no; exit 2"})).await.view();
    assert_eq!((&*view.title, view.summary.as_deref()), ("$ echo no; exit 2", Some("exit code 2")));
}

#[tokio::test]
async fn hooks_see_the_object_that_they_know() {
    let scene = Scene::new();
    let result = scene.call("Bash", json!({"command": "echo out; echo err >&2"})).await;
    let expected = json!({"stdout": "out\nerr\n", "stderr": "", "interrupted": false, "isImage": false});
    assert_eq!(result.outcome().unwrap().response(), Some(&expected));
    let result = scene.call("Bash", json!({"command": "sleep 100", "run_in_background": true})).await;
    assert_eq!(result.outcome().unwrap().response().unwrap()["backgroundTaskId"], "task-1");
}

/// A cancelled call leaves nothing, and its kind says that it was no failure of the command.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_command_is_gone() {
    let scene = Scene::new();
    let mut turn = scene.engine.turn();
    let command = "echo $$ > pid.tmp; mv pid.tmp pid; sleep 1000 & wait";
    turn.push(ToolCall::new("1", "Bash", json!({"command": command})));
    let handle = turn.handle();
    let results = tokio::spawn(turn.finish());
    until(|| scene.path("pid").exists()).await;
    let pid = fs::read_to_string(scene.path("pid")).unwrap();
    assert!(lives(&pid));
    assert_eq!(handle.interrupt(), [""; 0], "it stops when the user says so");
    let results = results.await.unwrap();
    assert_eq!(results[0].error_kind(), Some(ErrorKind::Cancelled));
    until(|| !lives(&pid)).await;
}
