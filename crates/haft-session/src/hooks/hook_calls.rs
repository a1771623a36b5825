//! Hooks that call tools of servers, and the rules for such calls.
//!
//! A hook in the user's own settings expresses what the user wants, so only a rule that denies the tool
//! prevents the call. A hook of the workspace needs an allow rule like any call of the tool: the user is
//! never asked for a hook. Hooks are not fired for such a call, or it would never end.

use std::sync::{Arc, OnceLock};

use haft::decision::{DecisionReason, DecisionSource, Verdict};
use haft::future::BoxFuture;
use haft::ports::{AuthorizationRequest, Authorizer};
use haft::tool::AnyTool;
use haft::{Engine, Registry, ToolCall};
use haft_mcp::ServerSet;
use haft_mcp::names::wire_name;
use haft_policy::gate::{CheckedCall, Policy};
use haft_policy::hooks::{CallTool, HookToolUse};
use haft_policy::settings::{HookAction, Settings};
use haft_policy::source::SourceScope;

use crate::text::one_line;

/// The servers of a session, once they are started.
pub type ServerSlot = Arc<OnceLock<Arc<ServerSet>>>;

/// Returns whether any hook calls a tool of a server.
pub fn use_servers(settings: &Settings) -> bool {
    let handlers = settings.hooks.groups.iter().flat_map(|group| &group.handlers);
    handlers.into_iter().any(|handler| matches!(handler.action, HookAction::McpTool { .. }))
}

/// Returns a function that calls tools for hooks. `engine` has the tools and the rules, and no hooks.
pub(super) fn tool_caller(engine: &Engine, policy: &Policy, servers: &ServerSlot) -> CallTool {
    let (engine, policy, servers) = (engine.clone(), policy.clone(), servers.clone());
    Arc::new(move |wanted: HookToolUse| -> BoxFuture<'static, Result<String, String>> {
        let (engine, policy, servers) = (engine.clone(), policy.clone(), servers.clone());
        Box::pin(async move {
            check_allowed(&engine, &policy, &wanted).await?;
            let HookToolUse { server: name, tool: own, input, .. } = wanted;
            let server = servers.get().and_then(|servers| servers.get(&name)).cloned();
            let server =
                server.ok_or_else(|| format!("there is no MCP server `{}` here", one_line(&name)))?;
            server.settled().await;
            let offered = server.tools().into_iter().find(|(offered, _)| *offered == own);
            let (_, tool) = offered.ok_or_else(|| {
                let why = server.failure().map(|why| format!(": {why}")).unwrap_or_default();
                format!("the MCP server `{name}` offers no tool `{}`{why}", one_line(&own))
            })?;
            call_tool(&name, tool, input).await
        })
    })
}

/// Checks that rules permit this call of a hook.
async fn check_allowed(engine: &Engine, policy: &Policy, wanted: &HookToolUse) -> Result<(), String> {
    let name = wire_name(&wanted.server, &wanted.tool);
    let call = CheckedCall::new(&name, wanted.input.clone());
    let explained = policy.check(engine, call).await.map_err(|bad| bad.to_string())?;
    let of_workspace = matches!(wanted.source.scope, SourceScope::Project | SourceScope::Local);
    match (explained.verdict, &explained.decided_by) {
        (Verdict::Allow, _) => Ok(()),
        (Verdict::Deny, Some(rule)) => Err(format!("`{}` ({}) denies `{name}`", rule.text, rule.source)),
        (_, _) if !of_workspace => Ok(()),
        (_, _) => Err(format!(
            "it came with the workspace, and no rule allows `{name}`; a rule `{name}` in `permissions.allow` does"
        )),
    }
}

/// Makes one call that was checked already.
async fn call_tool(server: &str, tool: AnyTool, input: serde_json::Value) -> Result<String, String> {
    let name = tool.name().to_owned();
    let registry = Registry::new().with_external(server, vec![tool]).map_err(|error| error.to_string())?;
    let engine = Engine::builder(registry).permissions(AlreadyChecked).build();
    let mut results = engine.turn().run([ToolCall::new("hook-1", name, input)]).await;
    let result = results.pop().ok_or_else(|| "the call has no result".to_owned())?;
    match result.outcome() {
        Ok(output) => Ok(output.to_text()),
        Err(error) => Err(error.message().to_owned()),
    }
}

/// The rules were evaluated before.
struct AlreadyChecked;

impl Authorizer for AlreadyChecked {
    fn reasons(&self, _: &AuthorizationRequest<'_>) -> Vec<DecisionReason> {
        vec![DecisionReason::new(DecisionSource::Rule, Verdict::Allow, "the hook")]
    }

    fn tool_denial(&self, _: &str, _: &AnyTool) -> Option<DecisionReason> {
        None
    }
}
