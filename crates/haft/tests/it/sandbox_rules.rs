//! A sandbox with the rules of another authorizer than the engine's starts nothing.

use std::sync::Arc;

use haft::decision::DecisionReason;
use haft::future::BoxFuture;
use haft::ports::{
    AuthorizationRequest, Authorizer, EnforcedRules, ProcessError, ProcessOutcome, ProcessRequest,
    ProcessRestrictions, Processes, RestrictProcesses, RuleSetId, SandboxRules,
};
use haft::testing::{ScriptedProcesses, TestCaller};
use haft::tool::AnyTool;
use haft::{Context, Effects, Engine, NoInput, PermissionRules, ToolCall, ToolError, tool};

/// A policy: it allows every call, and keeps commands from a file.
#[derive(Clone)]
struct TestPolicy(Option<RuleSetId>);

impl TestPolicy {
    fn new() -> TestPolicy {
        TestPolicy(Some(RuleSetId::new()))
    }
}

impl Authorizer for TestPolicy {
    fn reasons(&self, _: &AuthorizationRequest<'_>) -> Vec<DecisionReason> {
        vec![DecisionReason::allow()]
    }

    fn rule_set(&self) -> Option<RuleSetId> {
        self.0
    }

    fn tool_denial(&self, _: &str, _: &AnyTool) -> Option<DecisionReason> {
        None
    }
}

impl RestrictProcesses for TestPolicy {
    fn process_restrictions(&self) -> ProcessRestrictions {
        ProcessRestrictions { unreadable_paths: vec!["/secret".into()], ..ProcessRestrictions::none() }
    }
}

/// A sandbox with these rules, in which every program prints `ran`.
fn sandbox(rules: &SandboxRules) -> Arc<dyn Processes> {
    Arc::new(TestSandbox(rules.enforced(), ScriptedProcesses::new().prints("ran").prints("ran")))
}

struct TestSandbox(EnforcedRules, ScriptedProcesses);

impl Processes for TestSandbox {
    fn confines(&self) -> bool {
        true
    }

    fn enforced_rules(&self) -> EnforcedRules {
        self.0
    }

    fn run<'a>(&'a self, request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>> {
        self.1.run(request)
    }
}

fn caller(authorizer: impl Authorizer, processes: Arc<dyn Processes>) -> TestCaller {
    let run = tool("run", "Runs a program.", |_: NoInput, cx: Context| async move {
        let processes = cx.ports().processes().ok_or_else(|| ToolError::new("no processes"))?;
        let outcome = processes.run(ProcessRequest::new(["true"], cx.cwd())).await;
        outcome.map(|outcome| outcome.stdout.to_text().0).map_err(|error| ToolError::new(error.message))
    });
    let run = run.effects(|_| Effects::none());
    TestCaller::new()
        .tool(run)
        .engine(|engine| engine.permissions(authorizer).ports(|ports| ports.processes = Some(processes)))
}

async fn outcome(engine: &Engine) -> String {
    let results = engine.turn().run([ToolCall::new("1", "run", "{}")]).await;
    results[0].text().trim().to_owned()
}

#[tokio::test]
async fn processes_start_only_in_a_sandbox_with_the_rules_of_the_engine() {
    async fn check(what: &str, authorizer: impl Authorizer, rules: &SandboxRules, starts: bool) {
        let text = outcome(caller(authorizer, sandbox(rules)).as_engine()).await;
        let refusal = "it was not started: the sandbox enforces the rules of another authorizer";
        assert_eq!((text == "ran", text.contains(refusal)), (starts, !starts), "{what}: {text}");
    }
    let (policy, other) = (TestPolicy::new(), TestPolicy::new());
    let rules = SandboxRules::from_authorizer(&policy);
    check("its own rules", policy.clone(), &rules, true).await;
    check("those of another policy", other, &rules, false).await;
    check(
        "a policy, and no rules at all",
        policy,
        &SandboxRules::from_authorizer(&PermissionRules::new()),
        false,
    )
    .await;
    check("rules by name, and those of a policy", PermissionRules::new(), &rules, false).await;
    let by_name = PermissionRules::new().deny("Write").unwrap();
    check("rules by name", by_name, &SandboxRules::from_authorizer(&PermissionRules::new()), true).await;
    let unidentified = TestPolicy(None);
    let rules = SandboxRules::from_authorizer(&unidentified);
    check("rules without an id", unidentified, &rules, false).await;
}

/// Rules of a sub-agent's own would not bind its commands: the sandbox has its parent's.
#[tokio::test]
async fn a_child_with_other_rules_starts_nothing() {
    async fn check(own: Option<TestPolicy>, expected: bool) {
        let policy = TestPolicy::new();
        let own = own.unwrap_or_else(|| policy.clone());
        let parent = caller(policy.clone(), sandbox(&SandboxRules::from_authorizer(&policy)));
        let registry = parent.registry().clone();
        let cx = haft::testing::test_context(std::env::temp_dir(), |_| {});
        let child = parent.as_engine().child("worker", registry, &cx).permissions(own).build();
        assert_eq!(outcome(&child).await == "ran", expected);
    }
    check(None, true).await;
    check(Some(TestPolicy::new()), false).await;
    check(Some(TestPolicy(None)), false).await;
}
