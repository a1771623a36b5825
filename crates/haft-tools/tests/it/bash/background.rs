//! Commands in the background: started there, moved there, looked at, stopped, and gone with the session.

use std::process::Command;

use haft::ports::{TaskId, Tasks as _};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn it_answers_at_once_with_the_name_of_a_task() {
    let scene = Scene::new();
    let said =
        scene.says("Bash", json!({"command": "echo begun; sleep 1000", "run_in_background": true})).await;
    assert_eq!(
        said,
        "runs in the background as task-1; it is ended after 1800 s\n\
         TaskOutput {\"task_id\": \"task-1\"} shows what it prints, TaskStop ends it"
    );
    let look = |block: bool| scene.says("TaskOutput", json!({"task_id": "task-1", "block": block}));
    let said = look(true).await;
    assert!(said.starts_with("begun\ntask-1 still runs, since "), "{said}");
    let said = look(false).await;
    assert!(said.starts_with("(nothing new)\ntask-1 still runs"), "{said}");
}

/// What is printed between two looks is new, and only that.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_shows_what_is_new() {
    let scene = Scene::new();
    assert!(Command::new("mkfifo").arg(scene.path("gate")).status().unwrap().success());
    let task = scene.background("echo begun; read x < gate; echo got $x; exec sleep 1000").await;
    let look = || scene.says("TaskOutput", json!({"task_id": "task-1", "block": true, "timeout": 20_000}));
    assert!(look().await.starts_with("begun\n"));
    fs::write(scene.path("gate"), "word\n").unwrap();
    let said = look().await;
    assert!(said.starts_with("got word\ntask-1 still runs"), "{said}");
    let again = scene.says("TaskOutput", json!({"task_id": "task-1", "offset": 0})).await;
    assert!(again.starts_with("begun\ngot word\n"), "{again}");
    let filtered = scene.says("TaskOutput", json!({"task_id": "1", "offset": 0, "filter": "^got"})).await;
    assert!(filtered.starts_with("got word\ntask-1"), "{filtered}");
    let list = scene.says("TaskOutput", json!({})).await;
    assert!(
        list.starts_with("task-1  runs since ") && list.contains(", 15 bytes printed  Bash: echo begun"),
        "{list}"
    );

    let stopped = scene.says("TaskStop", json!({"task_id": task})).await;
    assert!(
        stopped.starts_with("stopped task-1: echo begun")
            && stopped.ends_with("ended by haft: it was stopped"),
        "{stopped}"
    );
    let again = scene.says("KillShell", json!({"shell_id": "task-1"})).await;
    assert!(again.starts_with("it was not running any more; task-1 ended after"), "{again}");
    let list = scene.says("TaskOutput", json!({})).await;
    assert!(list.starts_with("task-1  ended after "), "{list}");
}

#[tokio::test]
async fn what_is_no_task_is_said() {
    let scene = Scene::new();
    let none = "nothing was started in the background";
    assert_eq!(scene.says("TaskOutput", json!({})).await, none);
    assert_eq!(
        scene.says("TaskStop", json!({"task_id": "task-9"})).await,
        format!("InvalidInput: there is no background task `task-9`; {none}")
    );
    scene.background("sleep 1000").await;
    assert_eq!(
        scene.says("TaskOutput", json!({"task_id": "bash_1"})).await,
        "InvalidInput: there is no background task `bash_1`; these run: task-1"
    );
    assert_eq!(
        scene.says("TaskStop", json!({})).await,
        "InvalidInput: `task_id` is missing; TaskOutput lists the background tasks"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn how_a_task_ended_is_said() {
    let scene = Scene::new();
    for (command, expected) in [
        ("echo well", "well\ntask-1 ended after T s: exit code 0"),
        ("echo badly; exit 4", "badly\ntask-2 ended after T s: exit code 4"),
        (
            "kill -9 $$",
            "(no output so far)\ntask-3 ended after T s: killed by SIGKILL (9), as when memory runs out or a limit is reached",
        ),
        ("read x < /dev/null", "(no output so far)\ntask-4 ended after T s: exit code 1"),
    ] {
        let task = scene.background(command).await;
        scene.tasks.ended(TaskId::parse(&task).unwrap()).await;
        let said = scene.says("TaskOutput", json!({"task_id": task})).await;
        let seconds = said.split("after ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
        assert_eq!(said.replace(&format!("after {seconds} s"), "after T s"), expected, "{command}");
    }
    let said =
        scene.says("Bash", json!({"command": "sleep 1000", "run_in_background": true, "timeout": 100})).await;
    assert!(said.contains("ended after 0.1 s"), "{said}");
    scene.tasks.ended(TaskId(5)).await;
    let said = scene.says("TaskOutput", json!({"task_id": "task-5"})).await;
    assert!(said.contains("it did not finish within 0.1 s"), "{said}");
}

/// The clock stands still until nothing else is to do, so that two minutes pass at once.
#[tokio::test]
async fn at_its_limit_a_command_goes_on_in_the_background() {
    let scene = Scene::new();
    let said = scene
        .says("Bash", json!({"command": "echo early; exec 2>&1; tail -f /dev/null", "timeout": 300}))
        .await;
    assert_eq!(
        said,
        "early\nnot finished after 0.3 s, so it goes on in the background as task-1; it is ended after 1800 s\n\
         TaskOutput {\"task_id\": \"task-1\"} shows what it prints, TaskStop ends it"
    );
    assert!(scene.tasks.list()[0].running);
    let stopped = scene.says("TaskStop", json!({"task_id": "task-1"})).await;
    assert!(stopped.ends_with("ended by haft: it was stopped"), "{stopped}");
}

#[tokio::test]
async fn what_only_waits_or_locks_does_not_go_on() {
    let over = "did not finish within 0.1 s; the user did not interrupt";
    let scene = Scene::new();
    for command in ["sleep 1000", "git --version; tail -f /dev/null", "$0 -c 'sleep 1000'"] {
        let said = scene.says("Bash", json!({"command": command, "timeout": 100})).await;
        assert!(said.starts_with("TimedOut: ") && said.contains(over), "{command}: {said}");
    }
    let processes = Arc::new(LocalProcesses::new(std::env::vars_os()));
    let told = Scene::of(Bash::new().moves_at_limit(false), processes.clone());
    let without = Scene::of(Bash::new(), processes).with(|engine| engine.ports(|ports| ports.tasks = None));
    for scene in [told, without] {
        let said = scene.says("Bash", json!({"command": "tail -f /dev/null", "timeout": 100})).await;
        assert!(said.starts_with("TimedOut: ") && said.contains(over), "{said}");
        assert_eq!(scene.tasks.list(), []);
    }
}

/// A long time limit of the host, and a clock that stands still until there is nothing else to do.
#[tokio::test(start_paused = true)]
async fn the_usual_limit_is_two_minutes() {
    let scene = Scene::new();
    let began = tokio::time::Instant::now();
    let said = scene.bash("tail -f /dev/null").await;
    assert!(said.starts_with("not finished after 120 s"), "{said}");
    assert_eq!(began.elapsed().as_secs(), 120);
    let fast = Scene::of(
        Bash::new().timeouts(Duration::from_secs(5), Duration::from_secs(6)),
        Arc::new(LocalProcesses::new(std::env::vars_os())),
    );
    assert!(fast.bash("tail -f /dev/null").await.starts_with("not finished after 5 s"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_ends_with_the_session() {
    let processes = Arc::new(LocalProcesses::new(std::env::vars_os()));
    let scene = Scene::of(Bash::new(), processes.clone());
    scene.background("echo $$ > pid.tmp; mv pid.tmp pid; trap '' TERM; while :; do sleep 1000; done").await;
    until(|| scene.path("pid").exists()).await;
    let pid = fs::read_to_string(scene.path("pid")).unwrap();
    assert!(lives(&pid), "it runs after its call was answered");
    let Scene { engine, tasks, dir, .. } = scene;
    drop(engine);
    until(|| !lives(&pid)).await;
    tasks.ended(TaskId(1)).await;
    until(|| processes.running() == 0).await;
    drop(dir);
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_tasks_and_no_more() {
    let processes = Arc::new(LocalProcesses::new(std::env::vars_os()));
    let scene = Scene::of(Bash::new(), processes.clone());
    for number in 1..=haft::limits::TASKS_MAX {
        assert_eq!(scene.background("exec sleep 1000").await, format!("task-{number}"));
    }
    until(|| processes.running() == haft::limits::TASKS_MAX).await;
    let said = scene.says("Bash", json!({"command": "sleep 1000", "run_in_background": true})).await;
    assert_eq!(said, "Failed: it was not started: 500 tasks already run in the background, and no more may");
    assert_eq!(scene.bash("echo beside").await, "beside", "the foreground has room");
    let list = scene.says("TaskOutput", json!({})).await;
    assert!(list.ends_with("and 400 more that were started earlier"), "{list}");
    drop(scene);
    until(|| processes.running() == 0).await;
}

/// What the user moves can be looked at as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_the_user_moves_shows_what_it_prints() {
    let scene = Scene::new();
    let mut turn = scene.engine.turn();
    turn.push(ToolCall::new("1", "Bash", json!({"command": "echo one; touch begun; tail -f /dev/null"})));
    let handle = turn.handle();
    let results = tokio::spawn(turn.finish());
    until(|| scene.path("begun").exists()).await;
    let task = handle.detach(0).unwrap().task;
    assert!(results.await.unwrap()[0].outcome().is_ok());
    let said = scene.says("TaskOutput", json!({"task_id": task.to_string(), "block": true})).await;
    assert!(said.starts_with("one\ntask-1 still runs"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_overlap_are_told_and_those_that_look_at_tasks_are_not() {
    let scene = Scene::new();
    scene.background("sleep 1000").await;
    let overlaps = scene.call("Bash", json!({"command": "true"})).await;
    assert_eq!(overlaps.notes(), ["this call overlapped with what ran in the background: task-1 (Bash)"]);
    let looks = scene.call("TaskOutput", json!({"task_id": "task-1"})).await;
    assert_eq!(looks.notes(), [""; 0]);
    // Once is enough of a task that overlaps with everything.
    let other = scene.call("Bash", json!({"command": "sleep 1000", "run_in_background": true})).await;
    assert_eq!(other.notes(), [""; 0], "nor of itself");
    let later = scene.call("Bash", json!({"command": "true"})).await;
    assert_eq!(later.notes(), ["this call overlapped with what ran in the background: task-2 (Bash)"]);
}

/// What a task printed outlives the session, in its file.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_task_printed_is_kept() {
    let scene = Scene::new();
    scene.background("seq 50000; sleep 1000").await;
    // Printed isn't read yet.
    until(|| scene.tasks.log(TaskId(1)).is_some_and(|log| log.size().bytes == 288_894)).await;
    let look = scene.says("TaskOutput", json!({"task_id": "task-1"})).await;
    assert!(look.contains("[bytes 0 to 24576 of ") && look.contains("[all of it is in "), "{look}");
    let next = scene.says("TaskOutput", json!({"task_id": "task-1"})).await;
    assert!(next.contains("[bytes 24576 to 49152 of "), "{next}");
    let Scene { engine, tasks, dir, .. } = scene;
    drop(engine);
    tasks.ended(TaskId(1)).await;
    let file = tasks.log(TaskId(1)).unwrap().keep().unwrap().unwrap();
    assert_eq!(fs::read_to_string(file).unwrap().lines().count(), 50_000);
    drop(dir);
}
