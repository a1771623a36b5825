//! The policy in the real engine: settings in files, tools that are called, a user who is asked.

mod advisories;
mod agreement;
mod answers;
mod check;
mod classifier;
mod declared;
mod everyday;
mod fetches;
mod granted;
mod knowing;
mod meaning;
mod modes;
mod proposed;
mod repositories;
mod shells;
mod unknown;
mod warnings;

use std::sync::{Arc, LazyLock, Mutex};

use haft::decision::Verdict;
use haft::future::BoxFuture;
use haft::ports::{ApprovalAnswer, ApprovalRequest, Asker, PermissionMode, UserQuestion};
use haft::testing::TestCaller;
use haft::{Effects, ErrorKind, Registry, ToolResult, ToolSpec, Workspace, dynamic_tool};
use haft_policy::conventions;
use haft_policy::gate::{
    CheckedCall, CoverageGap, DecisionReport, InvalidCall, Policy, PolicyContext, SandboxCoverage,
};
use haft_policy::settings::SettingsFlags;
use serde_json::{Value, json};

use crate::room::Room;

/// A session in a room.
pub(crate) struct Session {
    pub(crate) room: Room,
    pub(crate) caller: TestCaller,
    pub(crate) policy: Policy,
    pub(crate) user: User,
}

/// A user who gives the same answer to every prompt, and records the prompts.
#[derive(Clone)]
pub(crate) struct User {
    answer: Arc<Mutex<ApprovalAnswer>>,
    asked: Arc<Mutex<Vec<ApprovalRequest>>>,
}

impl User {
    fn saying(answer: ApprovalAnswer) -> User {
        User { answer: Arc::new(Mutex::new(answer)), asked: Arc::default() }
    }

    pub(crate) fn now_says(&self, answer: ApprovalAnswer) {
        *self.answer.lock().unwrap() = answer;
    }

    pub(crate) fn asked(&self) -> Vec<ApprovalRequest> {
        self.asked.lock().unwrap().clone()
    }
}

impl Asker for User {
    fn approve<'a>(&'a self, approval: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        self.asked.lock().unwrap().push(approval.clone());
        Box::pin(std::future::ready(self.answer.lock().unwrap().clone()))
    }

    fn question<'a>(&'a self, _: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(std::future::ready(None))
    }
}

/// The configuration of a session.
#[derive(Clone)]
pub(crate) struct With {
    pub(crate) settings: Value,
    pub(crate) mode: &'static str,
    pub(crate) no_sandbox: bool,
    pub(crate) non_interactive: bool,
    pub(crate) confined: bool,
    /// Tools that replace those of every session.
    pub(crate) registry: Option<Registry>,
}

/// Mode `default`, only rules and mode, no rules.
pub(crate) fn with(settings: Value) -> With {
    With {
        settings,
        mode: "default",
        no_sandbox: true,
        non_interactive: false,
        confined: false,
        registry: None,
    }
}

/// Parses rules in a line: `-deny ?ask +allow`, separated by `;`.
pub(crate) fn rules(text: &str) -> Value {
    let of = |sign: char| -> Vec<&str> {
        text.split(';').map(str::trim).filter_map(|rule| rule.strip_prefix(sign)).collect()
    };
    json!({"permissions": {"deny": of('-'), "ask": of('?'), "allow": of('+')}})
}

impl With {
    pub(crate) fn mode(mut self, mode: &'static str) -> With {
        self.mode = mode;
        self
    }

    /// Adds built-in and external tools.
    pub(crate) fn with_tools(
        mut self,
        tools: Vec<haft::tool::AnyTool>,
        from_outside: Vec<haft::tool::AnyTool>,
    ) -> With {
        let caller = TestCaller::with_registry(TOOLS.clone()).tool(tools).external("outside", from_outside);
        self.registry = Some(caller.registry().clone());
        self
    }

    pub(crate) fn open(self) -> Session {
        self.open_in(Room::new(), |setup| setup)
    }

    pub(crate) fn open_in(
        self,
        room: Room,
        change: impl for<'a> FnOnce(PolicyContext<'a>) -> PolicyContext<'a>,
    ) -> Session {
        room.write("config/settings.json", &self.settings.to_string());
        for (path, text) in [("work/a.txt", "a"), ("work/src/b.txt", "b"), ("outside/c.txt", "c")] {
            room.write(path, text);
        }
        let flags =
            SettingsFlags { permission_mode: Some(self.mode.parse().unwrap()), ..SettingsFlags::default() };
        let loaded = room.load_with(&flags);
        let mut workspace = Workspace::new(room.at("work")).unwrap();
        for directory in &loaded.settings.permissions.additional_directories {
            workspace = workspace.with_dir(&directory.value).unwrap();
        }
        let places = room.places();
        let setup = PolicyContext {
            no_sandbox: self.no_sandbox,
            non_interactive: self.non_interactive,
            confined: self.confined,
            coverage: SandboxCoverage::new(|| CoverageGap::Nothing),
            ..PolicyContext::new(&places, &workspace)
        };
        let (policy, _) = Policy::new(&loaded, change(setup)).unwrap_or_else(|error| panic!("{error}"));
        let user = User::saying(ApprovalAnswer::Once);
        let (rules, asker) = (policy.clone(), user.clone());
        let registry = self.registry.unwrap_or_else(|| TOOLS.clone());
        let caller = TestCaller::with_registry(registry).engine(|engine| {
            let engine = engine.workspace(workspace).permissions(rules);
            if self.non_interactive { engine } else { engine.asker(asker) }
        });
        Session { room, caller, policy, user }
    }
}

/// The tools of every session, built once: their schemas take longer than any question to a session.
static TOOLS: LazyLock<Registry> = LazyLock::new(|| {
    let caller = TestCaller::new()
        .tool(
            haft_tools::core()
                .into_iter()
                .filter(|tool| !["shell", "web"].contains(&tool.group()))
                .collect::<Vec<_>>(),
        )
        .tool(shell("Bash"))
        .tool(declaring("WebFetch", fetches, ToolSpec::hosts_only))
        .tool(
            ["GetMcpPrompt", "ListMcpResources", "ReadMcpResource"]
                .map(|name| {
                    stand_in(name, |input| conventions::declared_effects(name, input).unwrap_or_default())
                })
                .to_vec(),
        )
        .tool(stand_in("delete_tree", |input| Effects::deletes_tree(input["path"].as_str().unwrap())))
        .tool(stand_in("note", |_| Effects::writes_state("session:notes")))
        .tool(stand_in("nothing", |_| Effects::none()))
        .external("fs", stand_in("mcp__fs__write_file", |_| Effects::unknown()))
        .external("fs", stand_in("mcp__fs__read_file", |_| Effects::unknown()))
        .external("odd", shell("Monitor"))
        .external("hub__evil", stand_in("mcp__hub__evil__c_0123abcd", |_| Effects::unknown()))
        .external("hub", stand_in("mcp__hub__get", |_| Effects::unknown()))
        .external("mine", stand_in("stranger", |input| Effects::writes(input["path"].as_str().unwrap())));
    caller.registry().clone()
});

fn fetches(input: &Value) -> Effects {
    match input["url"].as_str().and_then(haft::effects::template::parse_host) {
        Some(host) => Effects::observes(host),
        None => Effects::unknown(),
    }
}

/// Creates a tool with fixed facts.
fn declaring(
    name: &str,
    effects: impl Fn(&Value) -> Effects + Send + Sync + 'static,
    facts: impl FnOnce(ToolSpec) -> ToolSpec,
) -> haft::tool::AnyTool {
    let schema = json!({"type": "object"});
    let tool = dynamic_tool(name, "Stands in for a tool.", schema, |_, _| async { Ok("ran") });
    tool.effects(effects).spec(facts).build().unwrap()
}

fn stand_in(name: &str, effects: impl Fn(&Value) -> Effects + Send + Sync + 'static) -> haft::tool::AnyTool {
    let schema = json!({"type": "object"});
    dynamic_tool(name, "Stands in for a tool.", schema, |_, _| async { Ok("ran") })
        .effects(effects)
        .build()
        .unwrap()
}

fn shell(name: &str) -> haft::tool::AnyTool {
    let schema =
        json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
    let effects = |input: &Value| Effects::runs(input["command"].as_str().unwrap());
    dynamic_tool(name, "Runs a command.", schema, |_, _| async { Ok("ran") })
        .effects(effects)
        .build()
        .unwrap()
}

impl Session {
    pub(crate) async fn call(&self, tool: &str, input: Value) -> ToolResult {
        self.caller.call(tool, input).await
    }

    /// Returns the verdict on a call: `allow`, `ask` or `deny`. The explanation has to agree.
    #[track_caller]
    pub(crate) fn verdict(&self, tool: &str, input: &Value) -> impl Future<Output = &'static str> {
        let at = std::panic::Location::caller();
        async move {
            let explained = self.explain(tool, input);
            let before = self.user.asked().len();
            let result = self.call(tool, input.clone()).await;
            let asked = self.user.asked().len() > before;
            let seen = match result.error().map(haft::ToolError::kind) {
                _ if asked => "ask",
                Some(ErrorKind::Denied) => "deny",
                None | Some(ErrorKind::Failed) => "allow",
                Some(_) => panic!("{at}: {tool} {input}: {}", result.error().unwrap().message()),
            };
            let name = match explained.verdict {
                Verdict::Allow => "allow",
                Verdict::Ask => "ask",
                Verdict::Deny => "deny",
            };
            assert_eq!(seen, name, "{at}: what happens and what is explained differ:\n{explained}");
            seen
        }
    }

    pub(crate) fn explain(&self, tool: &str, input: &Value) -> DecisionReport {
        self.check(CheckedCall::new(tool, input.clone())).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Checks a call of a tool whose own check is synchronous.
    pub(crate) fn check(&self, call: CheckedCall<'_>) -> Result<DecisionReport, InvalidCall> {
        let mut checked = std::pin::pin!(self.policy.check(self.caller.as_engine(), call));
        let mut waker = std::task::Context::from_waker(std::task::Waker::noop());
        match checked.as_mut().poll(&mut waker) {
            std::task::Poll::Ready(report) => report,
            std::task::Poll::Pending => panic!("a check waits"),
        }
    }

    /// Checks one call per line: `verdict tool argument`.
    pub(crate) async fn holds(&self, table: &str) {
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (expected, call) = line.split_once(' ').unwrap();
            let (tool, argument) = call.trim().split_once(' ').unwrap_or((call.trim(), ""));
            let seen = self.verdict(tool, &input(tool, argument.trim(), &self.room)).await;
            assert_eq!(
                seen,
                expected,
                "{line}\n{}",
                self.explain(tool, &input(tool, argument.trim(), &self.room))
            );
        }
    }

    pub(crate) fn set(&self, mode: PermissionMode) {
        haft::ports::ModeControl::set(&self.policy, mode);
    }
}

/// Builds an input; `@/` is replaced by the room's folder.
pub(crate) fn input(tool: &str, argument: &str, room: &Room) -> Value {
    let argument = argument.replace("@/", &format!("{}/", room.root.display()));
    if argument.starts_with('{') {
        return serde_json::from_str(&argument).unwrap();
    }
    match tool {
        "Bash" => json!({"command": argument}),
        "Read" => json!({"file_path": argument}),
        "Write" => json!({"file_path": argument, "content": "new"}),
        "Grep" => json!({"pattern": "x", "path": argument}),
        "Glob" => json!({"pattern": "**/*", "path": argument}),
        "WebFetch" => json!({"url": argument}),
        _ => json!({"path": argument}),
    }
}
