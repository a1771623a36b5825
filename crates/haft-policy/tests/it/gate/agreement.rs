//! `check` and the engine agree: generated calls of every built-in tool, in every mode, with random rules
//! and hooks.
//!
//! Tools are the real ones with their schemas, effects and checks. Their calls are answered by the test and
//! never run.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use haft::decision::{DecisionReason, Verdict};
use haft::files::RootExtent;
use haft::hooks::{HookSet, PreHookResponse};
use haft::ports::{PathUse, PermissionMode, SandboxView};
use haft::testing::{ScriptedProcesses, TestCaller, TestHook};
use haft::tool::AnyTool;
use haft::{Registry, Workspace};
use haft_policy::gate::{CheckedCall, CoverageGap, Policy, PolicyContext, SandboxCoverage, shell_analyzer};
use haft_policy::source::RuleList;
use haft_tools::{Bash, BuiltIns};
use serde_json::{Value, json};

use super::User;
use crate::room::Room;

/// The number of generated calls.
const CALLS: u64 = 6_000;

/// Counts the calls that ran.
static RAN: AtomicU64 = AtomicU64::new(0);

/// Every built-in tool, answered by the test.
static TOOLS: LazyLock<Registry> = LazyLock::new(|| {
    let answered = |tool: AnyTool| {
        tool.answered_by(|_| {
            RAN.fetch_add(1, Ordering::SeqCst);
            Ok(haft::ResultBlock::text("ran").into())
        })
    };
    let tools: Vec<AnyTool> = BuiltIns::new().tools().into_iter().map(answered).collect();
    Registry::new().with(tools).unwrap()
});

/// A deterministic random generator: the same calls in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len())]
    }
}

const PATHS: &[&str] =
    &["a.txt", "src/b.txt", "../outside/c.txt", ".git/config", "/etc/hosts", "new.txt", "src", ".", "~/x"];
const COMMANDS: &[&str] = &[
    "ls",
    "cat a.txt",
    "rm a.txt",
    "rm -rf /",
    "make",
    "git push",
    "$X y",
    "echo hi > new.txt",
    "npm test && ls",
    "cat ../outside/c.txt",
    "cd src && ls",
    "curl https://x.io",
    "sed -i s/a/b/ a.txt",
    "cat $X",
];
const URLS: &[&str] = &[
    "https://docs.rs/serde",
    "https://x.io/",
    "https://docs.python.org/3/",
    "file:///etc/passwd",
    "https://u:p@x.io/",
];
const RULES: &[&str] = &[
    "Bash",
    "Bash(ls)",
    "Bash(cat *)",
    "Bash(git push *)",
    "Bash(npm test)",
    "Read",
    "Read(./src/**)",
    "Read(a.txt)",
    "Edit",
    "Edit(src/**)",
    "Edit(/new.txt)",
    "Write",
    "WebFetch",
    "WebFetch(domain:docs.rs)",
    "WebFetch(domain:x.io)",
    "Glob",
    "TaskCreate",
    "CronCreate",
    "Agent",
    "Skill",
    "Monitor",
];

/// Returns a value for a field of an input.
fn value(dice: &mut Dice, name: &str, schema: &Value) -> Value {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values[dice.roll(values.len())].clone();
    }
    if let Some(kinds) = schema.get("anyOf").and_then(Value::as_array) {
        let kind = dice.roll(kinds.len());
        return value(dice, name, &kinds[kind]);
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[0].as_str().unwrap_or("null"),
        Value::String(kind) => kind,
        _ => "string",
    };
    match kind {
        "boolean" => json!(dice.roll(2) == 0),
        "integer" | "number" => {
            json!(schema.get("minimum").and_then(Value::as_u64).unwrap_or(0) + dice.roll(3) as u64 + 1)
        }
        "array" => {
            let items = 1 + dice.roll(2);
            (0..items).map(|_| value(dice, name, &schema["items"])).collect()
        }
        "object" => object(dice, schema),
        "null" => Value::Null,
        _ => json!(match name {
            "command" => dice.pick(COMMANDS),
            "url" => dice.pick(URLS),
            "cron" => "0 9 * * *",
            name if name.contains("path") || name.contains("file") => dice.pick(PATHS),
            _ => dice.pick(&["x", "a.txt", "some words"]),
        }),
    }
}

fn object(dice: &mut Dice, schema: &Value) -> Value {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    let mut made = serde_json::Map::new();
    for (name, schema) in &fields {
        if required.iter().any(|one| one == name) || dice.roll(4) == 0 {
            made.insert(name.clone(), value(dice, name, schema));
        }
    }
    Value::Object(made)
}

/// Returns the answer of a pre-call hook, or of a permission hook.
fn hook(dice: &mut Dice) -> Option<DecisionReason> {
    match dice.roll(9) {
        0 => Some(DecisionReason::allow()),
        1 => Some(DecisionReason::ask("a hook wants it")),
        2 => Some(DecisionReason::deny("a hook is against it")),
        _ => None,
    }
}

/// The answers of hooks to a call.
#[derive(Debug, Clone, Default)]
struct HookReplies {
    before: Option<DecisionReason>,
    permission: Option<DecisionReason>,
}

struct Agreement {
    policy: Policy,
    caller: TestCaller,
    user: User,
    replies: Arc<Mutex<HookReplies>>,
    _room: Room,
}

impl Agreement {
    fn new(confined: bool, interactive: bool) -> Agreement {
        let room = Room::new();
        room.write("config/settings.json", r#"{"repetitionGuard": false}"#);
        for (path, text) in [("work/a.txt", "a"), ("work/src/b.txt", "b"), ("outside/c.txt", "c")] {
            room.write(path, text);
        }
        let loaded = room.load();
        let workspace = Workspace::new(room.at("work")).unwrap();
        let places = room.places();
        let setup = PolicyContext {
            no_sandbox: !confined,
            confined,
            non_interactive: !interactive,
            coverage: if interactive {
                SandboxCoverage::new(|| CoverageGap::Nothing)
            } else {
                SandboxCoverage::unknown()
            },
            ..PolicyContext::new(&places, &workspace)
        };
        let (policy, _) = Policy::new(&loaded, setup).unwrap_or_else(|error| panic!("{error}"));
        let user = User::saying(haft::ports::ApprovalAnswer::NoBecause("no".into()));
        let replies: Arc<Mutex<HookReplies>> = Arc::default();
        let (before, permission) = (replies.clone(), replies.clone());
        let reply = |decision| Ok(PreHookResponse { decision, ..PreHookResponse::default() });
        let before = TestHook::new("before").on_before(move |_| reply(before.lock().unwrap().before.clone()));
        let permission = TestHook::new("permission")
            .on_permission(move |_, _| Ok(permission.lock().unwrap().permission.clone()));
        let hooks = HookSet::new().before(before).permission(permission);
        let (rules, asker) = (policy.clone(), user.clone());
        let caller = TestCaller::with_registry(TOOLS.clone()).engine(|engine| {
            let engine = engine.workspace(workspace).permissions(rules).hooks(hooks);
            if interactive { engine.asker(asker) } else { engine }
        });
        Agreement { policy, caller, user, replies, _room: room }
    }

    /// Returns whether the call reached authorization. If so, the check has to agree with the outcome.
    async fn holds(&self, tool: &str, input: &Value, said: HookReplies) -> bool {
        let call = CheckedCall::new(tool, input.clone())
            .with_hooks(said.before.iter().cloned().collect())
            .with_permission_hooks(said.permission.iter().cloned().collect());
        let Ok(report) = self.policy.check(self.caller.as_engine(), call).await else { return false };
        *self.replies.lock().unwrap() = said.clone();
        let (asked_before, ran_before) = (self.user.asked().len(), RAN.load(Ordering::SeqCst));
        let result = self.caller.call(tool, input.clone()).await;
        let outcome = if self.user.asked().len() > asked_before {
            Verdict::Ask
        } else if RAN.load(Ordering::SeqCst) > ran_before {
            Verdict::Allow
        } else {
            Verdict::Deny
        };
        if matches!(
            result.error().map(haft::ToolError::kind),
            Some(haft::ErrorKind::UnknownTool | haft::ErrorKind::InvalidInput)
        ) {
            return false;
        }
        let mode = haft::ports::ModeControl::current(&self.policy);
        let told = result.error().map(haft::ToolError::message);
        let why = self.user.asked().last().map(haft::ports::ApprovalRequest::reason);
        assert_eq!(
            report.verdict, outcome,
            "{tool} {input} in `{mode}`, hooks said {said:?}: {told:?}, asked {why:?}\nchecked:\n{report}"
        );
        true
    }
}

/// A sandbox that shows everything to every command.
struct EverythingOpen;

impl SandboxView for EverythingOpen {
    fn is_path_open(&self, _: &Path, _: RootExtent, _: PathUse) -> bool {
        true
    }

    fn is_host_open(&self, _: &str) -> bool {
        true
    }
}

/// Whatever of a [`PolicyContext`] is left out, no call is allowed that would not be allowed with it.
#[tokio::test]
async fn what_is_left_out_allows_nothing_more() {
    type Leave = for<'a> fn(PolicyContext<'a>, PolicyContext<'a>) -> PolicyContext<'a>;
    let left_out: [(&str, Leave); 6] = [
        ("no_sandbox", |all, none| PolicyContext { no_sandbox: none.no_sandbox, ..all }),
        ("confined", |all, none| PolicyContext { confined: none.confined, ..all }),
        ("full_sandbox", |all, none| PolicyContext { full_sandbox: none.full_sandbox, ..all }),
        ("coverage", |all, none| PolicyContext { coverage: none.coverage, ..all }),
        ("view", |all, none| PolicyContext { view: none.view, ..all }),
        ("processes", |all, none| PolicyContext { processes: none.processes, ..all }),
    ];
    let mut dice = Dice(7);
    let names: Vec<String> = TOOLS.entries().map(|entry| entry.tool().name().to_owned()).collect();
    let (mut allowed, mut differed) = (0, 0);
    for (round, confined) in (0..6).map(|round| (round, round % 2 == 0)) {
        let room = Room::new();
        let denied = (0..round / 2).map(|_| dice.pick(RULES));
        let deny: Vec<&str> = denied.chain(["Read(**/.env)"]).collect();
        let settings = json!({
            "permissions": {"deny": deny, "allow": [dice.pick(RULES), dice.pick(RULES)]},
            "sandbox": {"autoAllowBashIfSandboxed": true},
            "classifier": {"command": ["judge"]},
        });
        room.write("config/settings.json", &settings.to_string());
        for (path, text) in [("work/a.txt", "a"), ("work/src/b.txt", "b"), ("outside/c.txt", "c")] {
            room.write(path, text);
        }
        let (loaded, places) = (room.load(), room.places());
        let workspace = Workspace::new(room.at("work")).unwrap();
        let session = |leave: Option<Leave>| {
            let all = PolicyContext {
                no_sandbox: !confined,
                confined,
                full_sandbox: Some(Arc::new(|| true)),
                coverage: SandboxCoverage::new(|| CoverageGap::Nothing),
                view: Some(Arc::new(EverythingOpen)),
                processes: Some(Arc::new(ScriptedProcesses::new())),
                ..PolicyContext::new(&places, &workspace)
            };
            let setup = match leave {
                Some(leave) => leave(all, PolicyContext::new(&places, &workspace)),
                None => all,
            };
            let (policy, _) = Policy::new(&loaded, setup).unwrap_or_else(|error| panic!("{error}"));
            let rules = policy.clone();
            let engine = |engine: haft::EngineBuilder| engine.workspace(workspace.clone()).permissions(rules);
            (policy, TestCaller::with_registry(TOOLS.clone()).engine(engine))
        };
        let (policy, caller) = session(None);
        let less: Vec<_> = left_out.iter().map(|(name, leave)| (name, session(Some(*leave)))).collect();
        for _ in 0..100 {
            let tool = match dice.roll(2) {
                0 => "Bash".to_owned(),
                _ => names[dice.roll(names.len())].clone(),
            };
            let entry = TOOLS.entries().find(|entry| entry.tool().name() == tool).unwrap();
            let input = object(&mut dice, entry.tool().input_schema());
            let (_, mode) = PermissionMode::ALL[dice.roll(PermissionMode::ALL.len())];
            haft::ports::ModeControl::set(&policy, mode);
            let call = || CheckedCall::new(&tool, input.clone());
            let Ok((_, with_all)) = policy.decide(caller.as_engine(), call()).await else { continue };
            allowed += u64::from(with_all.verdict == Verdict::Allow);
            for (name, (policy, caller)) in &less {
                haft::ports::ModeControl::set(policy, mode);
                let (_, with_less) = policy.decide(caller.as_engine(), call()).await.unwrap();
                let more = with_less.verdict == Verdict::Allow && with_all.verdict != Verdict::Allow;
                assert!(!more, "without `{name}` {tool} {input} runs in `{mode}`");
                differed += u64::from(with_less.verdict != with_all.verdict);
            }
        }
    }
    assert!(allowed > 100 && differed > 20, "{allowed} allowed, {differed} differ");
}

/// A regression: `haft check` did not ask the tool.
#[tokio::test]
async fn a_check_knows_what_the_tool_says() {
    let agreement = Agreement::new(true, true);
    let unsandboxed = json!({"command": "ls", "dangerouslyDisableSandbox": true});
    assert!(agreement.holds("Bash", &unsandboxed, HookReplies::default()).await);
    let known = json!({"url": "https://docs.rs/serde", "prompt": "x"});
    assert!(agreement.holds("WebFetch", &known, HookReplies::default()).await);
}

#[tokio::test]
async fn check_and_outcome_agree() {
    let mut dice = Dice(42);
    let names: Vec<String> = TOOLS.entries().map(|entry| entry.tool().name().to_owned()).collect();
    let mut reached = 0;
    for session in 0..20u64 {
        let agreement = Agreement::new(session % 2 == 0, session % 5 != 4);
        for n in 0..CALLS / 20 {
            if n % 50 == 0 {
                let list = [RuleList::Allow, RuleList::Ask, RuleList::Deny, RuleList::Allow][dice.roll(4)];
                let _ = agreement.policy.add_rules(&[dice.pick(RULES).to_owned()], list, false);
            }
            let (_, mode) = PermissionMode::ALL[dice.roll(PermissionMode::ALL.len())];
            haft::ports::ModeControl::set(&agreement.policy, mode);
            let tool = match dice.roll(3) {
                0 => dice.pick(&["Bash", "WebFetch", "Write", "Read"]).to_owned(),
                _ => names[dice.roll(names.len())].clone(),
            };
            let entry = TOOLS.entries().find(|entry| entry.tool().name() == tool).unwrap();
            let input = object(&mut dice, entry.tool().input_schema());
            let said = HookReplies { before: hook(&mut dice), permission: hook(&mut dice) };
            reached += u64::from(agreement.holds(&tool, &input, said).await);
        }
    }
    assert!(reached >= 5_000, "{reached} of {CALLS} calls reached authorization");
}

/// Bash and the policy of a session share an analyzer: one analysis for each command, allowed or asked.
#[tokio::test]
async fn a_command_is_analysed_once() {
    let room = Room::new();
    room.write("config/settings.json", "{}");
    room.write("work/a.txt", "a");
    let loaded = room.load();
    let workspace = Workspace::new(room.at("work")).unwrap();
    let places = room.places();
    let analyzer = shell_analyzer(&workspace, places.home.as_deref());
    let setup = PolicyContext {
        no_sandbox: true,
        analyzer: Some(analyzer.clone()),
        ..PolicyContext::new(&places, &workspace)
    };
    let (policy, _) = Policy::new(&loaded, setup).unwrap();
    let tools = BuiltIns::new().bash(Bash::new().analyzer(analyzer.clone())).tools();
    let bash = tools.into_iter().find(|tool| tool.name() == "Bash").unwrap();
    let bash = bash.answered_by(|_| Ok(haft::ResultBlock::text("ran").into()));
    let user = User::saying(haft::ports::ApprovalAnswer::Session);
    let (rules, asker) = (policy.clone(), user.clone());
    let caller = TestCaller::with_registry(Registry::new().with(bash).unwrap())
        .engine(|engine| engine.workspace(workspace).permissions(rules).asker(asker));
    for (command, asks) in [("ls a.txt", 0), ("make all > out.txt", 1), ("rm a.txt && npm test", 1)] {
        let (before, asked) = (analyzer.count(), user.asked().len());
        caller.call("Bash", json!({ "command": command })).await;
        assert_eq!(user.asked().len() - asked, asks, "{command}");
        assert_eq!(analyzer.count() - before, 1, "{command}");
    }
}
