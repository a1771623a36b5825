//! What is printed: in order, made safe, bounded, and none of it lost.

use haft::event::EventKind;
use haft::testing::EventLog;

use super::*;

#[tokio::test]
async fn both_streams_come_in_order() {
    let scene = Scene::new();
    let said = scene.bash("for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done").await;
    let expected: Vec<String> = (1..=5).flat_map(|i| [format!("out {i}"), format!("err {i}")]).collect();
    assert_eq!(said, expected.join("\n"));
}

#[tokio::test]
async fn what_a_terminal_would_obey_is_made_safe() {
    let scene = Scene::new();
    for (command, expected) in [
        (r"printf '\033[31mred\033[0m \033]0;title\007x\n'", "red x"),
        (r"printf '1%%\r2%%\r3%%\ndone'", "3%\ndone"),
        (r"printf 'a\377b\n'", "a\u{fffd}b\n[haft: this is not all UTF-8; \u{fffd} stands for what is not]"),
        (r"printf '\0\0\0'", "(no output)\n[haft left out 3 NUL bytes]"),
        (r"printf '\342\200\256evil\n'", "\\u{202e}evil"),
        (r"printf 'no newline'", "no newline"),
        (r"printf '\n\n  \n'", "(no output)"),
        (r"printf 'a\r\nb\r\n'", "a\nb"),
    ] {
        assert_eq!(scene.bash(command).await, expected, "{command}");
    }
}

#[tokio::test]
async fn a_long_result_is_in_a_file() {
    let scene = Scene::new();
    // Held in memory, and too long for the model.
    let result = scene.call("Bash", json!({"command": "seq 10000"})).await;
    let text = result.outcome().unwrap().to_text();
    assert!(
        text.chars().count() <= 30_000 && text.starts_with("1\n2\n") && text.ends_with("\n10000"),
        "{text}"
    );
    let file = fs::read_to_string(result.offloaded_to().unwrap()).unwrap();
    assert_eq!(file.lines().count(), 10_000);

    // Too long for memory.
    let result = scene.call("Bash", json!({"command": "seq 100000; exit 0"})).await;
    let text = result.outcome().unwrap().to_text();
    assert!(
        text.chars().count() <= 30_000 && text.starts_with("1\n2\n") && text.ends_with("\n100000"),
        "{}",
        &text[text.len() - 300..]
    );
    let file = fs::read_to_string(result.offloaded_to().unwrap()).unwrap();
    assert_eq!((file.lines().count(), file.lines().last()), (100_000, Some("100000")));
    assert!(text.contains(&result.offloaded_to().unwrap().display().to_string()));
}

#[tokio::test]
async fn a_long_failure_is_short_and_says_where_the_rest_is() {
    let scene = Scene::new();
    for lines in [5_000, 100_000] {
        let said = scene.bash(&format!("seq {lines}; exit 7")).await;
        assert!(said.chars().count() <= 10_000, "{}", said.len());
        assert!(
            said.starts_with("Failed: 1\n2\n") && said.ends_with(&format!("\n{lines}\nexit code 7")),
            "{said}"
        );
        let file = said.lines().find_map(|line| line.split(" bytes are in ").nth(1)).unwrap();
        let kept = fs::read_to_string(file.trim_end_matches(']')).unwrap();
        assert_eq!(kept.lines().count(), lines);
    }
}

/// 70 MB, of which a file takes 64 MiB.
#[tokio::test]
async fn a_flood_is_bounded_and_counted() {
    let scene = Scene::new();
    let command = "head -c 70000000 /dev/zero | tr '\\0' x; echo; echo the end";
    let result = scene.call("Bash", json!({"command": command})).await;
    let text = result.outcome().unwrap().to_text();
    assert!(text.chars().count() <= 30_000 && text.starts_with("xxxx"));
    let end = &text[text.len() - 200..];
    assert!(end.contains("the end\n[haft kept the first 67108864 of 700000"), "{end}");
    let file = fs::metadata(result.offloaded_to().unwrap()).unwrap();
    assert_eq!(file.len(), 64 * 1024 * 1024);
}

#[tokio::test]
async fn only_nuls_are_nothing_but_counted() {
    let said = Scene::new().bash("head -c 5000000 /dev/zero").await;
    assert_eq!(said, "(no output)\n[haft left out 5000000 NUL bytes]");
}

#[tokio::test]
async fn progress_is_told_as_it_comes() {
    let events = EventLog::new();
    let scene = Scene::new().with(|engine| engine.events(events.clone()));
    scene.bash("echo compiling 1/2; echo compiling 2/2").await;
    let told = events.events().into_iter().filter_map(|event| match event.what {
        EventKind::Progress(progress) => progress.message,
        _ => None,
    });
    let told: Vec<String> = told.collect();
    assert!(!told.is_empty() && told[0].starts_with("compiling "), "{told:?}");
}

/// Halves are counted in characters: text of two bytes each is not shown by half.
#[tokio::test]
async fn a_long_failure_is_cut_by_characters() {
    let said = Scene::new().bash("for i in $(seq 5000); do echo äöü; done; exit 1").await;
    let shown = said.chars().filter(|c| "äöü\n".contains(*c)).count();
    assert!((9_000..9_100).contains(&shown), "{shown}");
    assert!(said.starts_with("Failed: äöü\n") && said.ends_with("äöü\nexit code 1"));
}

#[tokio::test]
async fn a_cancelled_command_says_what_it_had_printed() {
    let events = EventLog::new();
    let scene = Scene::new().with(|engine| engine.events(events.clone()));
    // Another program, which writes both at once.
    let command = "env printf 'one\\ntwo'; sleep 600";
    let turn = scene.engine.turn();
    let handle = turn.handle();
    let heard = || events.events().iter().any(|event| matches!(event.what, EventKind::Progress(_)));
    let interrupted = async {
        until(heard).await;
        handle.interrupt();
    };
    let calls = [ToolCall::new("1", "Bash", json!({"command": command}))];
    let (results, ()) = tokio::join!(turn.run(calls), interrupted);
    let error = results[0].error().unwrap();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(error.cause(), Some(haft::Cause::User));
    assert_eq!(error.message(), "one\ntwo\nBash was cancelled: the user interrupted this turn");
}

#[tokio::test]
async fn what_is_left_running_is_ended_and_said() {
    let scene = Scene::new();
    let said = scene.bash("sleep 600 & sleep 600 & echo $!").await;
    let (pid, note) = said.split_once('\n').unwrap();
    assert_eq!(
        note,
        "what it left running with `&` was ended with it; to let something go on set `run_in_background`"
    );
    until(|| !lives(pid)).await;
    assert_eq!(scene.bash("sleep 0 & wait; echo done").await, "done");
    // Its number is no working directory.
    assert_eq!(scene.bash("cd sub; sleep 600 & cd deep").await.lines().count(), 2);
    assert_eq!(scene.bash("pwd").await, "WORK/sub/deep");
}
