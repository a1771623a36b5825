//! What a command is taken for, and what follows: beside others or alone, and how it is confined.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft::future::BoxFuture;
use haft::ports::{
    ApprovalAnswer, CapturedOutput, ConfinementLevel, ConfinementRefusal, EnforcedRules, HostAnswer,
    ProcessError, ProcessExit, ProcessOutcome, ProcessRequest, UndoneAnswer, UndoneChange, UndoneChanges,
    WantedHost,
};
use haft::testing::{LiveMode, ScriptedAsker};
use tokio::sync::Barrier;

use super::*;
use crate::confined::{ConfinedProcesses, ended};

/// Processes that run nothing: those who only look wait until two of them are here. The number is how many
/// others a child that may change something met.
fn meeting() -> (Arc<dyn Processes>, Arc<AtomicUsize>) {
    let crowd_of_changers = Arc::<AtomicUsize>::default();
    let (two, inside, crowd) =
        (Arc::new(Barrier::new(2)), Arc::<AtomicUsize>::default(), crowd_of_changers.clone());
    let processes = ConfinedProcesses(move |request: ProcessRequest| {
        let (two, inside, crowd) = (two.clone(), inside.clone(), crowd.clone());
        async move {
            let others = inside.fetch_add(1, Ordering::SeqCst);
            if request.confinement == ConfinementLevel::ReadOnly {
                two.wait().await;
            } else {
                crowd.fetch_max(others, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
            inside.fetch_sub(1, Ordering::SeqCst);
            ended(ProcessExit::Code(0), Vec::new())
        }
    });
    (Arc::new(processes), crowd_of_changers)
}

fn refused(host: &str, port: u16, grantable: bool) -> ConfinementRefusal {
    ConfinementRefusal::Host {
        host: host.into(),
        port: Some(port),
        why: "no rule allows it".into(),
        grantable,
    }
}

#[tokio::test]
async fn what_only_looks_runs_side_by_side_and_the_rest_alone() {
    let (processes, crowd_of_changers) = meeting();
    let scene = Scene::of(Bash::new(), processes);
    let commands =
        ["ls", "cat sub/x", "rm sub/x", "ls -l sub", "grep -r x . | wc -l", "make", "$UNKNOWN", "rm a"];
    let calls = commands
        .iter()
        .enumerate()
        .map(|(at, command)| ToolCall::new(at.to_string(), "Bash", json!({"command": command})));
    let turn = scene.engine.turn().run(calls.collect::<Vec<_>>());
    let results = tokio::time::timeout(Duration::from_secs(30), turn).await.expect("two who look meet");
    assert!(results.iter().all(|result| !result.is_error()), "{results:?}");
    let beside: Vec<bool> = results.iter().map(ToolResult::was_concurrent).collect();
    assert_eq!(beside, [true, true, false, true, true, false, false, false]);
    assert_eq!(crowd_of_changers.load(Ordering::SeqCst), 0);
}

/// Answers as it is told, and keeps how commands were to be confined.
#[derive(Default)]
struct Told {
    outcomes: Mutex<Vec<ProcessOutcome>>,
    asked: Mutex<Vec<(ConfinementLevel, Vec<String>)>>,
}

impl Processes for Told {
    fn confines(&self) -> bool {
        true
    }

    fn enforced_rules(&self) -> EnforcedRules {
        EnforcedRules::None
    }

    fn run<'a>(&'a self, request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>> {
        self.asked.lock().unwrap().push((request.confinement, request.access.hosts.clone()));
        assert!(request.merged);
        let outcome =
            self.outcomes.lock().unwrap().pop().unwrap_or_else(|| ended(ProcessExit::Code(0), Vec::new()));
        Box::pin(std::future::ready(Ok(outcome)))
    }
}

impl Told {
    fn asked(&self) -> Vec<ConfinementLevel> {
        self.asked.lock().unwrap().iter().map(|(confinement, _)| *confinement).collect()
    }
}

#[tokio::test]
async fn a_command_is_confined_by_what_it_is() {
    for (command, expected) in [
        ("ls -la", ConfinementLevel::ReadOnly),
        ("cat a | sort | uniq -c", ConfinementLevel::ReadOnly),
        ("git status", ConfinementLevel::ReadOnly),
        ("cd sub && ls", ConfinementLevel::ReadOnly),
        ("cat a > b", ConfinementLevel::Session),
        ("rm a", ConfinementLevel::Session),
        ("make", ConfinementLevel::Session),
        ("$X", ConfinementLevel::Session),
        ("sort --compress-program=./x a", ConfinementLevel::Session),
        ("find . -fprint x", ConfinementLevel::Session),
        ("LD_PRELOAD=./x ls", ConfinementLevel::Session),
    ] {
        let told = Arc::new(Told::default());
        let scene = Scene::of(Bash::new(), told.clone());
        scene.bash(command).await;
        assert_eq!(told.asked(), [expected], "{command}");
    }
}

#[tokio::test]
async fn without_the_sandbox_only_where_the_host_allows_it_and_the_user_says_yes() {
    let input = json!({"command": "ls", "dangerouslyDisableSandbox": true});
    let told = Arc::new(Told::default());
    let scene = Scene::of(Bash::new(), told.clone());
    let said = scene.says("Bash", input.clone()).await;
    assert!(
        said.starts_with("Denied: Bash refuses this call: `dangerouslyDisableSandbox` is not allowed"),
        "{said}"
    );

    let scene = Scene::of(Bash::new().allow_unsandboxed(true), told.clone());
    let said = scene.says("Bash", input.clone()).await;
    assert!(
        said.starts_with("Denied: ") && said.contains("it wants to run without the sandbox"),
        "nobody to ask: {said}"
    );
    assert_eq!(told.asked(), []);

    let asker = ScriptedAsker::new().then(ApprovalAnswer::Once);
    let scene = scene.with(|engine| engine.asker(asker.clone()));
    assert_eq!(scene.says("Bash", input).await, "(no output)");
    assert_eq!(told.asked(), [ConfinementLevel::Outside]);
    assert!(asker.approvals()[0].reason().contains("without the sandbox"));
}

fn written(path: &str) -> ConfinementRefusal {
    ConfinementRefusal::Path { path: path.into(), write: true }
}

fn printed(exit: ProcessExit, text: &str) -> ProcessOutcome {
    ProcessOutcome { stdout: CapturedOutput::cut(text.as_bytes().to_vec(), 100), ..ended(exit, Vec::new()) }
}

#[tokio::test]
async fn one_that_was_taken_for_looking_says_where_it_ran() {
    let told = Arc::new(Told::default());
    told.outcomes.lock().unwrap().extend([
        ended(ProcessExit::Code(1), Vec::new()),
        printed(ProcessExit::Code(1), "touch: cannot touch 'x': Read-only file system"),
        ended(ProcessExit::Code(128), vec![written("/repo/.git/index.lock")]),
    ]);
    let scene = Scene::of(Bash::new(), told.clone());
    let said = scene.bash("git status").await;
    assert!(said.contains("it could not write `/repo/.git/index.lock`, it seems"), "{said}");
    assert!(said.contains("it ran where nothing can be written and no host reached"), "{said}");
    let said = scene.bash("git log").await;
    assert!(said.contains("it ran where nothing can be written and no host reached"), "{said}");
    // A plain failure needs no such words.
    assert_eq!(scene.bash("cat missing").await, "Failed: (no output)\nexit code 1");
    // A failure of one that may write needs no such words.
    told.outcomes.lock().unwrap().push(ended(ProcessExit::Code(1), Vec::new()));
    assert_eq!(scene.bash("make").await, "Failed: (no output)\nexit code 1");
}

#[tokio::test]
async fn with_a_user_it_is_offered_again_with_more_but_never_for_words_alone() {
    let choose = |word: &str| ScriptedAsker::new().then_choose(Some(vec![word.to_owned()]));
    for (answer, confinements) in [
        ("yes", vec![ConfinementLevel::ReadOnly, ConfinementLevel::Session]),
        ("no", vec![ConfinementLevel::ReadOnly]),
    ] {
        let told = Arc::new(Told::default());
        told.outcomes.lock().unwrap().push(ended(ProcessExit::Code(1), vec![written("x")]));
        let asker = choose(answer);
        let scene = Scene::of(Bash::new(), told.clone()).with(|engine| engine.asker(asker.clone()));
        let said = scene.bash("git status").await;
        assert_eq!(told.asked(), confinements, "{said}");
        assert!(
            asker.questions()[0].text.starts_with("`git status` was taken for a command that only looks")
        );
        assert_eq!(said.starts_with("(no output)\nthe user let it run again"), answer == "yes", "{said}");
    }
    // Nothing was refused, whatever it says: nobody is asked.
    let told = Arc::new(Told::default());
    told.outcomes.lock().unwrap().push(printed(ProcessExit::Code(1), "Read-only file system"));
    let asker = choose("yes");
    let scene = Scene::of(Bash::new(), told.clone()).with(|engine| engine.asker(asker.clone()));
    scene.bash("cat x").await;
    assert_eq!((told.asked().len(), asker.questions().len()), (1, 0));
}

#[tokio::test]
async fn hosts_that_a_command_names_go_with_it() {
    let told = Arc::new(Told::default());
    let scene = Scene::of(Bash::new(), told.clone());
    scene.bash("curl -s https://example.com/a | head -1").await;
    assert_eq!(*told.asked.lock().unwrap(), [(ConfinementLevel::Session, vec!["example.com".to_owned()])]);
    let mut outcome = ended(ProcessExit::Code(6), Vec::new());
    outcome.refused = vec![refused("evil.example", 443, true)];
    told.outcomes.lock().unwrap().push(outcome);
    let said = scene.bash("npm install").await;
    assert!(said.contains("it could not reach evil.example:443: no rule allows it"), "{said}");
}

/// The hosts that each run was given, and what the model is told, with a user who gives this answer.
async fn refused_hosts(
    command: &str,
    outcome: ProcessOutcome,
    asker: Option<&ScriptedAsker>,
) -> (Vec<Vec<String>>, String) {
    let told = Arc::new(Told::default());
    told.outcomes.lock().unwrap().push(outcome);
    let mut scene = Scene::of(Bash::new(), told.clone());
    if let Some(asker) = asker {
        scene = scene.with(|engine| engine.asker(asker.clone()));
    }
    let said = scene.bash(command).await;
    let hosts = told.asked.lock().unwrap().iter().map(|(_, hosts)| hosts.clone()).collect();
    (hosts, said)
}

/// Hosts are asked about while the command runs; what was refused is told, and the command isn't run again.
#[tokio::test]
async fn refused_hosts_are_told_and_nothing_runs_again() {
    for exit in [ProcessExit::Code(0), ProcessExit::Code(1)] {
        let asker = ScriptedAsker::new();
        let outcome = ended(exit, vec![refused("a.example", 443, true), refused("b.example", 8443, true)]);
        let (hosts, said) = refused_hosts("npm ci", outcome, Some(&asker)).await;
        assert_eq!((hosts.len(), asker.questions().len()), (1, 0));
        assert!(said.contains("it could not reach b.example:8443: no rule allows it"), "{said}");
    }
}

/// A session whose commands ask this user for a host, and run until that was answered.
fn asking_for_host(asker: &ScriptedAsker) -> Scene {
    let processes = ConfinedProcesses(|request: ProcessRequest| async move {
        let requests = request.child_requests.expect("a confined command can ask for hosts");
        let wanted = WantedHost { host: "a.example".into(), port: 443, port_rule: None, group: None };
        let exit = tokio::select! {
            _ = request.cancel.cancelled() => ProcessExit::Cancelled,
            answer = requests.ask(wanted) => match answer {
                HostAnswer::Granted(_) => ProcessExit::Code(0),
                HostAnswer::Refused(_) => ProcessExit::Code(1),
            },
        };
        ended(exit, Vec::new())
    });
    Scene::of(Bash::new(), Arc::new(processes)).with(|engine| {
        let permissions = haft::PermissionRules::new().allow("Bash").unwrap();
        engine.permissions(permissions).asker(asker.clone())
    })
}

/// A command at whose time limit the user has not answered yet neither moves to the background nor ends.
#[tokio::test]
async fn the_time_of_a_question_is_not_the_commands() {
    let asker = ScriptedAsker::waiting();
    let scene = asking_for_host(&asker);
    let limit = Duration::from_millis(50);
    let call = scene.says("Bash", json!({"command": "make", "timeout": limit.as_millis() as u64}));
    let answered = async {
        let asked = asker.asked().await;
        // Longer than the command may run.
        tokio::time::sleep(4 * limit).await;
        assert!(!asked.is_withdrawn());
        asked.answer(ApprovalAnswer::Once);
    };
    let (said, ()) = tokio::join!(call, answered);
    assert_eq!(said, "(no output)");
}

/// The call of a command in the background has its answer, and the user is asked all the same.
#[tokio::test]
async fn a_command_in_the_background_asks_too() {
    let asker = ScriptedAsker::waiting();
    let scene = asking_for_host(&asker);
    for (answer, exit) in [(ApprovalAnswer::Once, "exit code 0"), (ApprovalAnswer::No, "exit code 1")] {
        let task = scene.background("make").await;
        asker.asked().await.answer(answer);
        let said = scene.says("TaskOutput", json!({"task_id": task, "block": true})).await;
        assert!(said.contains(exit), "{said}");
    }
}

/// A question is withdrawn with the command that it is about.
#[tokio::test]
async fn a_question_of_a_stopped_command_is_withdrawn() {
    let asker = ScriptedAsker::waiting();
    let scene = asking_for_host(&asker);
    let task = scene.background("make").await;
    let asked = asker.asked().await;
    scene.says("TaskStop", json!({"task_id": task})).await;
    until(|| asked.is_withdrawn()).await;
}

/// A child that asks about a file that was taken away, and tells the answer by its exit code.
async fn asks_about_file(request: ProcessRequest) -> ProcessOutcome {
    let requests = request.child_requests.expect("a confined command can ask");
    let change = |name: &str| UndoneChange {
        path: name.into(),
        executed: "direnv: on `cd`".into(),
        done: "it was taken away and is kept in `/state/1`".into(),
    };
    let changes = vec![change("/w/.envrc"), change("/w/a\u{1b}[31m/.envrc")];
    let undone = UndoneChanges { changes, is_running: true, is_paused: true };
    let exit = match requests.ask_about_undone(undone).await {
        None => 1,
        Some(UndoneAnswer::StayUndone) => 2,
        Some(UndoneAnswer::Redo) => 3,
        Some(UndoneAnswer::StopChild) => 4,
    };
    ended(ProcessExit::Code(exit), Vec::new())
}

/// Only the user decides on a file, only where the mode asks, and everything but a plain choice leaves it
/// undone.
#[tokio::test]
async fn the_user_decides_on_files_that_were_taken_away() {
    use PermissionMode::{Auto, BypassPermissions, Default, DontAsk};
    let choice = |text: &str| Some(vec![text.to_owned()]);
    for (mode, answer, code) in [
        (Default, choice("leave it undone"), 2),
        (Auto, choice("it is mine"), 3),
        (Default, choice("stop the command"), 4),
        (Default, choice("something else"), 2),
        (Default, None, 2),
        (DontAsk, choice("it is mine"), 1),
        (BypassPermissions, choice("it is mine"), 1),
    ] {
        let asker = ScriptedAsker::new().then_choose(answer);
        let scene = Scene::of(Bash::new(), Arc::new(ConfinedProcesses(asks_about_file))).with(|engine| {
            let permissions = haft::PermissionRules::new().allow("Bash").unwrap();
            let engine = engine.permissions(permissions).asker(asker.clone());
            engine.ports(|ports| ports.mode = Some(Arc::new(LiveMode::new(mode))))
        });
        let said = scene.bash("make").await;
        assert!(said.contains(&format!("exit code {code}")), "{mode}: {said}");
        for question in asker.questions() {
            let expected = "`$ make` was paused, because these files appeared or changed:\n\
                - `/w/.envrc` (executed by another program: direnv: on `cd`): it was taken away and is kept in `/state/1`\n\
                - `/w/a\\u{1b}[31m/.envrc` (executed by another program: direnv: on `cd`): it was taken away and is kept in `/state/1`\n\
                Did you do that?";
            assert_eq!(question.text, expected);
        }
        assert_eq!(asker.questions().len(), usize::from(code > 1), "{mode}");
    }
}

/// Who comes after a command that moves depends on where it leaves.
#[test]
fn a_command_that_moves_runs_alone() {
    let alone = |command: &str| {
        let input = serde_json::from_value(json!({"command": command})).unwrap();
        Bash::new().effects(&input).claims.concurrency_safe == Some(false)
    };
    assert!(alone("cd sub") && alone("cd sub && ls") && alone("pushd sub; ls; popd"));
    assert!(!alone("ls sub") && !alone("cat cd"));
}

#[tokio::test]
async fn an_editor_that_waits_for_keys_is_not_started() {
    let told = Arc::new(Told::default());
    let scene = Scene::of(Bash::new(), told.clone());
    for command in ["vim", "vim a b", "cd sub && nano x", "timeout 5 emacs a"] {
        let said = scene.bash(command).await;
        assert!(said.starts_with("InvalidInput: ") && said.contains("waits for keys"), "{command}: {said}");
    }
    assert_eq!(told.asked(), []);
    for command in ["vim -es -c 'wq' a", "echo vim", "vim --version", "emacs --batch", "vim +q"] {
        scene.bash(command).await;
    }
    assert_eq!(told.asked().len(), 5);
}

/// Programs that start an editor by themselves don't wait for one.
#[tokio::test]
async fn no_editor_is_waited_for() {
    let scene = Scene::new();
    let said = scene.bash("git init -q . && git -c user.name=x -c user.email=x@x commit --allow-empty").await;
    assert!(said.contains("empty commit message"), "{said}");
}

/// A rule for commands opens names. What lies behind an address, and the user's own machine, has a rule of
/// its own.
#[tokio::test]
async fn no_command_is_granted_an_address_by_naming_it() {
    for (command, expected) in [
        ("curl https://a.example", &["a.example"][..]),
        ("curl http://10.0.0.7/ https://a.example", &["a.example"]),
        ("curl http://169.254.169.254/latest", &[]),
        ("curl http://[fd00::1]/", &[]),
        ("curl http://localhost:3000/ http://127.0.0.1/ http://app.localhost/", &[]),
        ("curl http://LOCALHOST./", &[]),
    ] {
        let told = Arc::new(Told::default());
        let scene = Scene::of(Bash::new(), told.clone());
        scene.bash(command).await;
        let asked = told.asked.lock().unwrap().clone();
        assert_eq!(
            asked,
            [(ConfinementLevel::Session, expected.iter().map(|host| host.to_string()).collect())],
            "{command}"
        );
    }
}

/// What was let through and could not be reached, and what is held, is said and never offered.
#[tokio::test]
async fn what_no_grant_changes_is_explained_and_not_offered() {
    let unreached = ConfinementRefusal::Unreached {
        host: "a.example".into(),
        port: 443,
        why: "the name can't be resolved".into(),
    };
    let held = ConfinementRefusal::Held { paths: vec!["/w/.git".into()], why: "it is protected".into() };
    let refused = vec![unreached, held];
    for (exit, expected) in [
        (
            ProcessExit::Code(1),
            "could not reach a.example:443: the name can't be resolved\nit could not change `/w/.git`",
        ),
        (ProcessExit::Code(0), "(no output)\nit could not change `/w/.git`, it seems: it is protected"),
    ] {
        let asker = ScriptedAsker::new();
        let outcome = ended(exit, refused.clone());
        let (_, said) = refused_hosts("curl https://a.example", outcome, Some(&asker)).await;
        assert!(said.contains(expected), "{said}");
        assert_eq!(asker.questions().len(), 0);
    }
}

/// Processes in which those who only look stay until the user was asked and a while longer; one of them wants
/// to write. The number is how many others the second run of that one met.
fn crowd(asker: &ScriptedAsker) -> (Arc<dyn Processes>, Arc<AtomicUsize>) {
    let beside_the_second_run = Arc::<AtomicUsize>::default();
    let (asker, inside, beside) =
        (asker.clone(), Arc::<AtomicUsize>::default(), beside_the_second_run.clone());
    let processes = ConfinedProcesses(move |request: ProcessRequest| {
        let (asker, inside, beside) = (asker.clone(), inside.clone(), beside.clone());
        async move {
            let wants_more = request.argv.iter().any(|word| word == "git status");
            if wants_more && request.confinement == ConfinementLevel::ReadOnly {
                return ended(ProcessExit::Code(1), vec![written("x")]);
            }
            let others = inside.fetch_add(1, Ordering::SeqCst);
            let second = request.confinement == ConfinementLevel::Session;
            while !second && asker.questions().is_empty() {
                tokio::task::yield_now().await;
            }
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            if second {
                beside.fetch_add(others + inside.load(Ordering::SeqCst) - 1, Ordering::SeqCst);
            }
            inside.fetch_sub(1, Ordering::SeqCst);
            ended(ProcessExit::Code(0), Vec::new())
        }
    });
    (Arc::new(processes), beside_the_second_run)
}

/// The first run only looked, beside others; what the second one may write is in nobody's way.
#[tokio::test]
async fn the_second_run_is_alone() {
    for rule in [haft::dispatch::ConflictRule::Classes, haft::dispatch::ConflictRule::Effects] {
        for cap in [2, 10] {
            let asker = ScriptedAsker::new().then_choose(Some(vec!["yes".to_owned()]));
            let (processes, beside_the_second_run) = crowd(&asker);
            let scene = Scene::of(Bash::new(), processes)
                .with(|engine| engine.asker(asker.clone()).schedule(rule).max_concurrency(cap));
            let commands = ["cat sub/a", "git status", "cat sub/b", "cat sub/c", "cat sub/d"];
            let calls = commands
                .iter()
                .enumerate()
                .map(|(at, command)| ToolCall::new(at.to_string(), "Bash", json!({"command": command})));
            let turn = scene.engine.turn().run(calls.collect::<Vec<_>>());
            let results =
                tokio::time::timeout(Duration::from_secs(60), turn).await.expect("nobody waits for ever");
            assert!(results.iter().all(|result| !result.is_error()), "{results:?}");
            assert_eq!(beside_the_second_run.load(Ordering::SeqCst), 0, "{rule:?}, {cap}");
        }
    }
}
