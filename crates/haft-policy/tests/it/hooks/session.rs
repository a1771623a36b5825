//! Events that the loop fires.

use haft_policy::hooks::StopInput;
use serde_json::{Value, json};

use super::{Scene, answer, print, run};

#[tokio::test]
async fn what_the_user_said() {
    let outcome = async |command: &str| {
        let scene = Scene::new();
        let hooks = scene.hooks(json!({"UserPromptSubmit": run(command)}));
        (hooks.user_prompt_submit("delete all").await, scene)
    };
    let (said, scene) = outcome("cat > seen.json; echo 'the branch is main'").await;
    assert_eq!((said.blocked, said.outcome.context), (None, vec!["the branch is main".to_owned()]));
    let seen = scene.read_json("seen.json");
    assert_eq!(
        (&seen["prompt"], &seen["hook_event_name"]),
        (&json!("delete all"), &json!("UserPromptSubmit"))
    );
    assert_eq!((&seen["session_id"], &seen["permission_mode"]), (&json!("s-1"), &json!("default")));

    let (said, _) = outcome("echo 'not that' >&2; exit 2").await;
    assert_eq!(said.blocked.expect("blocked").reason, "not that");
    let (said, _) = outcome(&print(&json!({"decision": "block", "reason": "secrets"}))).await;
    assert_eq!(said.blocked.expect("blocked").reason, "secrets");
    let (said, _) = outcome(&answer("UserPromptSubmit", json!({"additionalContext": "c"}))).await;
    assert_eq!(said.outcome.context, ["c"]);
    let (said, _) =
        outcome(&print(&json!({"continue": false, "stopReason": "r", "systemMessage": "m"}))).await;
    assert_eq!(
        (said.outcome.stop.as_deref(), &said.outcome.messages[..]),
        (Some("r"), &["m".to_owned()][..])
    );
    // Not a gate: a failure is reported, and the message is sent.
    let (said, _) = outcome("exit 1").await;
    assert!(said.blocked.is_none() && said.outcome.warnings[0].contains("exit code 1"), "{said:?}");
    // Unless the hook is configured otherwise.
    let scene = Scene::new();
    let hook = json!([{"hooks": [{"type": "command", "command": "exit 1", "onFailure": "block"}]}]);
    let said = scene.hooks(json!({"UserPromptSubmit": hook})).user_prompt_submit("x").await;
    assert!(said.blocked.expect("blocked").reason.starts_with("the hook failed: exit code 1"));
    // The middle of a long text is omitted, or the text goes to a file if there is a store.
    let (said, _) = outcome("yes word | head -c 50000").await;
    assert!(said.outcome.context[0].chars().count() < 10_100, "{}", said.outcome.context[0].len());
}

#[tokio::test]
async fn a_session_begins_and_ends() {
    let scene = Scene::new();
    let start = answer(
        "SessionStart",
        json!({"additionalContext": "c", "initialUserMessage": "hello", "watchPaths": ["a"], "sessionTitle": "t", "reloadSkills": true}),
    );
    let only_resume = json!({"type": "command", "command": "echo resumed"});
    let hooks = json!({"SessionStart": [
        {"hooks": [{"type": "command", "command": format!("cat > start.json; echo X=1 >> $CLAUDE_ENV_FILE\n{start}")}]},
        {"matcher": "resume", "hooks": [only_resume]},
    ], "SessionEnd": run("cat > end.json")});
    let session = scene.session().with_env_file(scene.dir().join("env"));
    let hooks = scene.try_hooks(&json!({"hooks": hooks}), session).expect("hooks");
    let started = hooks.session_start("startup", Some("m-1")).await;
    assert_eq!(started.outcome.context, ["c"]);
    assert_eq!(started.initial_user_message.as_deref(), Some("hello"));
    assert_eq!((started.session_title.as_deref(), started.reload_skills), (Some("t"), true));
    assert_eq!(started.watch_paths, ["a"]);
    assert_eq!(scene.read("env"), "X=1\n");
    let seen = scene.read_json("start.json");
    assert_eq!((&seen["source"], &seen["model"]), (&json!("startup"), &json!("m-1")));
    assert_eq!(hooks.session_start("resume", None).await.outcome.context, ["c", "resumed"]);

    hooks.session_end("other").await;
    assert_eq!(scene.read_json("end.json")["reason"], "other");
    // The end of a session waits only a moment.
    let scene = Scene::new();
    let hooks = scene.hooks(json!({"SessionEnd": run("sleep 300")}));
    assert!(hooks.session_end("other").await.warnings[0].contains("it took longer than 1.5 s"));
}

#[tokio::test]
async fn an_agent_would_stop() {
    let scene = Scene::new();
    let hooks = scene.hooks(json!({"Stop": run("cat > stop.json; echo 'run the tests' >&2; exit 2")}));
    for _ in 0..8 {
        let stopped = hooks.stop(&StopInput::new("done").kept_going()).await;
        assert_eq!(stopped.go_on.expect("it goes on").reason, "run the tests");
    }
    let stopped = hooks.stop(&StopInput::new("done")).await;
    assert!(stopped.go_on.is_none(), "it stops after eight times in a row");
    assert!(stopped.outcome.warnings[0].contains("8 times"), "{stopped:?}");
    assert!(hooks.stop(&StopInput::new("done")).await.go_on.is_some(), "and is counted anew");
    let seen = scene.read_json("stop.json");
    let expected = [json!(false), json!("done"), json!([]), json!([])];
    let keys = ["stop_hook_active", "last_assistant_message", "background_tasks", "session_crons"];
    assert_eq!(keys.map(|key| seen[key].clone()), expected);

    // `continue: false` takes precedence over a block.
    let both = print(&json!({"continue": false, "stopReason": "r", "decision": "block", "reason": "more"}));
    let hooks = scene.hooks(json!({"Stop": run(&both)}));
    let stopped = hooks.stop(&StopInput::default()).await;
    assert_eq!((stopped.go_on, stopped.outcome.stop.as_deref()), (None, Some("r")));

    let by_type =
        json!([{"matcher": "Explore", "hooks": [{"type": "command", "command": "cat > sub.json; exit 2"}]}]);
    let hooks = scene.hooks(json!({"SubagentStop": by_type}));
    assert!(hooks.subagent_stop("a-1", "Plan", &StopInput::default()).await.go_on.is_none());
    assert!(hooks.subagent_stop("a-1", "Explore", &StopInput::default()).await.go_on.is_some());
    assert_eq!(scene.read_json("sub.json")["agent_id"], "a-1");
    for _ in 0..7 {
        assert!(hooks.subagent_stop("a-1", "Explore", &StopInput::default()).await.go_on.is_some());
    }
    let stopped = hooks.subagent_stop("a-1", "Explore", &StopInput::default()).await;
    assert!(stopped.go_on.is_none() && stopped.outcome.warnings[0].contains("8 times"), "{stopped:?}");
    let other = hooks.subagent_stop("a-2", "Explore", &StopInput::default()).await;
    assert!(other.go_on.is_some(), "each is counted for itself");
}

#[tokio::test]
async fn notifications_and_shortening() {
    let scene = Scene::new();
    let hooks = json!({
        "Notification": [{"matcher": "permission_prompt", "hooks": [{"type": "command", "command": "cat > note.json; echo x >&2; exit 2"}]}],
        "PreCompact": [{"matcher": "auto", "hooks": [{"type": "command", "command": "cat > compact.json; echo later >&2; exit 2"}]}],
    });
    let hooks = scene.hooks(hooks);
    let none = hooks.notification("idle_prompt", None, "are you there").await;
    assert_eq!(none, Default::default());
    let told = hooks.notification("permission_prompt", Some("haft"), "may I").await;
    assert!(told.outcome.messages[0].ends_with("says: x"), "{told:?}");
    let seen = scene.read_json("note.json");
    let fields: [Value; 3] = ["message", "title", "notification_type"].map(|key| seen[key].clone());
    assert_eq!(fields, [json!("may I"), json!("haft"), json!("permission_prompt")]);
    assert!(hooks.pre_compact("manual", "").await.blocked.is_none());
    assert_eq!(hooks.pre_compact("auto", "").await.blocked.expect("blocked").reason, "later");
    assert_eq!(scene.read_json("compact.json")["trigger"], "auto");
}

/// Dropping an event leaves nothing running.
#[tokio::test]
async fn an_event_that_is_given_up_ends_its_hooks() {
    let scene = Scene::new();
    let begun = scene.dir().join("begun");
    rustix::fs::mkfifoat(rustix::fs::CWD, &begun, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let hooks = scene.hooks(json!({"Stop": run("echo $$ > begun; exec sleep 300")}));
    let firing = tokio::spawn(async move { hooks.stop(&StopInput::new("done")).await });
    let process = tokio::task::spawn_blocking(move || std::fs::read_to_string(begun).unwrap()).await.unwrap();
    firing.abort();
    assert!(firing.await.unwrap_err().is_cancelled());
    let stat = format!("/proc/{}/stat", process.trim());
    // The process is killed in the background; a zombie has ended too.
    let ended = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    let waiting = async {
        while !ended() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await.expect("it ends");
}
