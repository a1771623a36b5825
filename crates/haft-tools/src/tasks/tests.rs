//! The task tools on one list, as a session has it.

use haft::testing::TestCaller;
use haft::{Registry, ToolOutput};
use serde_json::{Value, json};

use super::*;
use crate::{TaskCreate, TaskGet, TaskList, TaskUpdate, TodoWrite};

fn caller() -> TestCaller {
    let lists = TaskLists::default();
    let registry = Registry::new()
        .with(TaskCreate::new(&lists))
        .and_then(|registry| registry.with(TaskGet::new(&lists)))
        .and_then(|registry| registry.with(TaskList::new(&lists)))
        .and_then(|registry| registry.with(TaskUpdate::new(&lists)))
        .and_then(|registry| registry.with(TodoWrite::new(&lists)));
    TestCaller::with_registry(registry.unwrap())
}

/// What a call says, an error with `!` before it.
async fn say(caller: &TestCaller, tool: &str, input: Value) -> String {
    let result = caller.call(tool, input).await;
    match result.outcome() {
        Ok(output) => ToolOutput::to_text(output),
        Err(error) => format!("! {}", error.message()),
    }
}

async fn create(caller: &TestCaller, subject: &str) {
    say(caller, "TaskCreate", json!({"subject": subject, "description": "do it"})).await;
}

#[tokio::test]
async fn tasks_wait_for_each_other() {
    let caller = caller();
    for subject in ["one", "two", "three"] {
        create(&caller, subject).await;
    }
    let update = |input: Value| say(&caller, "TaskUpdate", input);
    update(json!({"taskId": "2", "addBlockedBy": ["1"]})).await;
    update(json!({"taskId": "2", "addBlocks": ["#3"]})).await;
    assert_eq!(
        say(&caller, "TaskList", json!({})).await,
        "#1 [pending] one\n#2 [pending] two [waits for #1]\n#3 [pending] three [waits for #2]\n0 of 3 done; the first that \
         waits for nothing is #1"
    );
    let refused = update(json!({"taskId": "3", "status": "in_progress"})).await;
    assert!(refused.starts_with("! #3 waits for #2, so it can't be in progress yet"), "{refused}");
    let refused = update(json!({"taskId": "3", "status": "completed"})).await;
    assert!(refused.contains("can't be completed yet"), "{refused}");
    assert_eq!(
        update(json!({"taskId": "1", "status": "completed"})).await,
        "#1 [completed] one\n#2 can begin now\n1 of 3 done"
    );
    update(json!({"taskId": "2", "status": "in_progress", "owner": "ann"})).await;
    assert_eq!(
        say(&caller, "TaskGet", json!({"taskId": "2"})).await,
        "#2 two\nstatus: in progress\nowner: ann\nblocked by: #1\nblocks: #3\n\ndo it"
    );
    // Who is gone blocks nobody.
    assert_eq!(update(json!({"taskId": "2", "status": "deleted"})).await, "deleted #2 two; 1 of 2 done");
    assert_eq!(
        update(json!({"taskId": "3", "status": "completed"})).await,
        "#3 [completed] three\n2 of 2 done"
    );
}

#[tokio::test]
async fn cycles_are_refused_and_nothing_of_the_call_counts() {
    let caller = caller();
    for subject in ["one", "two", "three"] {
        create(&caller, subject).await;
    }
    let update = |input: Value| say(&caller, "TaskUpdate", input);
    update(json!({"taskId": "2", "addBlockedBy": ["1"]})).await;
    update(json!({"taskId": "3", "addBlockedBy": ["2"]})).await;
    let refused = update(json!({"taskId": "1", "subject": "other", "addBlockedBy": ["3"]})).await;
    assert!(refused.starts_with("! #1 can't wait for #3: #3 → #2 → #1"), "{refused}");
    assert!(update(json!({"taskId": "1", "addBlockedBy": ["1"]})).await.contains("#1 can't wait for #1"));
    assert!(update(json!({"taskId": "1", "addBlocks": ["3"]})).await.starts_with("#1"), "no cycle");
    assert!(say(&caller, "TaskGet", json!({"taskId": "1"})).await.starts_with("#1 one\n"));
    update(json!({"taskId": "3", "removeBlockedBy": ["2", "1"]})).await;
    assert!(update(json!({"taskId": "1", "addBlockedBy": ["3"]})).await.starts_with("#1 [pending]"));
}

/// Every set of dependencies that was taken can be worked off; every one that was refused would close a
/// circle.
#[test]
fn what_is_taken_never_has_a_cycle() {
    let mut seed = 7u64;
    let mut random = move |most: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % most
    };
    for _ in 0..200 {
        let mut list = SessionTasks::default();
        let count = 2 + random(7);
        (0..count).for_each(|at| {
            list.add(&format!("t{at}"), "").unwrap();
        });
        for _ in 0..random(30) {
            let (task, blocker) = (1 + random(count), 1 + random(count));
            let taken = list.block(task, blocker).is_ok();
            // Work it off naively.
            let mut left = list.clone();
            if !taken {
                left.find_mut(task).unwrap().blocked_by.insert(blocker);
            }
            let mut done = 0;
            while let Some(at) = left.tasks.iter().position(|task| task.blocked_by.is_empty()) {
                let id = left.tasks[at].id;
                left.remove(id);
                done += 1;
            }
            assert_eq!(done == count, taken, "{list:?} {task} waits for {blocker}");
        }
    }
}

#[tokio::test]
async fn todos_are_the_same_list() {
    let caller = caller();
    create(&caller, "read the code").await;
    say(&caller, "TaskUpdate", json!({"taskId": "1", "owner": "ann"})).await;
    let todo = |content: &str, status: &str| json!({"content": content, "status": status, "activeForm": format!("{content} now")});
    let written = caller
        .call("TodoWrite", json!({"todos": [todo("write it", "in_progress"), todo("read the code", "completed"), todo("test it", "pending")]}))
        .await;
    assert_eq!(written.outcome().unwrap().to_text(), "1 of 3 done, 1 in progress");
    let view = written.view();
    assert_eq!((view.title.as_str(), view.summary.as_deref()), ("write it now", Some("1 of 3 done")));
    let ViewPart::Text { text } = &view.body[0] else { panic!("{view:?}") };
    assert_eq!(text, "▸ write it now\n☑ read the code  (ann)\n☐ test it");
    assert!(
        say(&caller, "TaskList", json!({})).await.starts_with(
            "#2 [in progress] write it\n#1 [completed] read the code (ann)\n#3 [pending] test it"
        )
    );
    say(&caller, "TodoWrite", json!({"todos": [todo("test it", "pending")]})).await;
    assert!(say(&caller, "TaskList", json!({})).await.starts_with("#3 [pending] test it\n"));
    let twice =
        say(&caller, "TodoWrite", json!({"todos": [todo("a", "pending"), todo("a ", "pending")]})).await;
    assert!(twice.contains("`todos[1].content` is there twice"), "{twice}");
}

#[tokio::test]
async fn the_list_has_a_bound_and_words_for_what_is_wrong() {
    let caller = caller();
    let todos: Vec<Value> =
        (0..TASKS_MAX).map(|at| json!({"content": format!("t{at}"), "status": "pending"})).collect();
    say(&caller, "TodoWrite", json!({"todos": todos})).await;
    let full = say(&caller, "TaskCreate", json!({"subject": "more", "description": ""})).await;
    assert!(full.starts_with("! the list has 500 tasks"), "{full}");
    for (tool, input, words) in [
        ("TaskGet", json!({"taskId": "x"}), "`x` is no task"),
        ("TaskGet", json!({"taskId": "9999"}), "no task #9999; there are #1"),
        ("TaskCreate", json!({"subject": " ", "description": ""}), "`subject` is empty"),
        ("TaskCreate", json!({"subject": "x".repeat(301), "description": ""}), "at most 300"),
        ("TaskUpdate", json!({"taskId": "1", "status": "done"}), "status"),
    ] {
        let said = say(&caller, tool, input).await;
        assert!(said.starts_with("! ") && said.contains(words), "{said}");
    }
}

#[tokio::test]
async fn each_session_has_its_own() {
    let lists = TaskLists::default();
    let caller = |session: &'static str| {
        let registry =
            Registry::new().with(TaskCreate::new(&lists)).unwrap().with(TaskList::new(&lists)).unwrap();
        TestCaller::with_registry(registry).engine(|engine| engine.session_id(session))
    };
    let (one, two) = (caller("a"), caller("b"));
    create(&one, "mine").await;
    assert!(say(&two, "TaskList", json!({})).await.contains("no tasks"));
    assert!(say(&one, "TaskList", json!({})).await.contains("mine"));
}

#[test]
fn long_lists_are_shown_by_what_comes_next() {
    let mut list = SessionTasks::default();
    (0..12).for_each(|at| {
        list.add(&format!("t{at}"), "").unwrap().status =
            if at < 4 { TaskStatus::Completed } else { TaskStatus::Pending };
    });
    list.tasks[6].status = TaskStatus::InProgress;
    let view = list.view("x");
    let ViewPart::Text { text } = &view.body[0] else { panic!("{view:?}") };
    assert_eq!(text, "☑ 4 done\n▸ t6\n☐ t4\n☐ t5\n☐ and 5 more");
}
