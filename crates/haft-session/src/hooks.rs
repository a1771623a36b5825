//! The hooks of the settings, connected to the rules, trust, messages and servers of a session.
//!
//! `haft-policy` implements hooks. This module only connects them. An engine without hooks evaluates the
//! `if` of a hook, so that a hook sees a call as the rules will.

mod hook_calls;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use haft::hooks::HookCall;
use haft::ports::{ModeControl as _, PermissionMode, Processes};
use haft::registry::OfferedTool;
use haft::results::OffloadStore;
use haft::{Engine, ToolResult};
use haft_policy::gate::{Policy, RuleFilter};
use haft_policy::hooks::{HookCondition, HookSession, Hooks, PermissionUpdate, RuleUpdate};
use haft_policy::settings::HookHandler;
use haft_policy::source::{RuleList, SourceScope};
use haft_policy::trust::{ScriptReference, TrustInventory};

pub use self::hook_calls::{ServerSlot, use_servers};
use crate::loaded_settings::LoadedSettings;
use crate::text::one_line;
use crate::{NoticeSink, SessionError};

/// Creates the hooks of the settings, without starting any. They will be added to `engine`.
///
/// # Errors
/// Returns an error if hooks are invalid.
pub fn read_hooks(
    given: &LoadedSettings,
    engine: &Engine,
    id: &str,
    policy: &Policy,
    processes: Arc<dyn Processes>,
    results: Option<OffloadStore>,
    servers: &ServerSlot,
) -> Result<Hooks, SessionError> {
    let mode = policy.clone();
    let (rules, looking) = (policy.clone(), engine.clone());
    let inventory = given.loaded.inventory.clone();
    let around = inventory.clone();
    let changed = policy.clone();
    let mut session = HookSession::new(id, given.places.cwd.as_path())
        .with_mode(move || mode.current().to_string())
        .with_environment(std::env::vars_os())
        .with_conditions(Arc::new(move |rule, source| {
            let meaning =
                rules.rule_filter(rule, source).map_err(|bad| format!("bad rule `{rule}`: {}", bad.what))?;
            Ok(Arc::new(RuleCondition { meaning, engine: looking.clone() }) as Arc<dyn HookCondition>)
        }))
        .with_verify(Arc::new(move |handler| as_trusted(handler, &inventory)))
        .with_confined(Arc::new(move |handler| around.runs_workspace(&handler.action)))
        .with_on_permissions(Arc::new(move |updates| {
            updates.iter().try_for_each(|update| apply_update(&changed, update))
        }))
        .with_call_tool(hook_calls::tool_caller(engine, policy, servers));
    if let Some(results) = results {
        session = session.with_results(Arc::new(results));
    }
    Hooks::from_settings(&given.loaded.settings, processes, session)
        .map_err(|error| SessionError::settings(error.to_string()))
}

/// Returns a session id that is unique on this machine.
pub fn session_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let process = std::process::id();
    match COUNT.fetch_add(1, Ordering::Relaxed) {
        0 => format!("{time:x}-{process:x}"),
        count => format!("{time:x}.{count:x}-{process:x}"),
    }
}

/// Reports the messages of background hooks so far.
pub fn report_hooks(hooks: &Hooks, notices: &NoticeSink) {
    for report in hooks.take_reports() {
        notices.warn(format!("hook `{}`: {}", report.hook, report.words));
    }
}

/// Reports that the turn ends with these results, so that the caller should stop the conversation here. The
/// JSON of providers has no field for it.
pub fn report_hook_results(results: &[ToolResult], notices: &NoticeSink) {
    let of_calls = results.iter().filter(|result| result.ends_turn()).filter_map(ToolResult::error);
    let mut reasons = results.iter().filter_map(ToolResult::stop_reason);
    if let Some(reason) = reasons.next() {
        notices.info(format!("a hook ended the turn: {}", one_line(reason)));
    } else if let Some(error) = of_calls.into_iter().next() {
        notices.info(format!("the turn ends here: {}", one_line(error.message())));
    }
}

/// The rule in the `if` of a hook.
struct RuleCondition {
    meaning: RuleFilter,
    /// The engine with tools and rules, without hooks.
    engine: Engine,
}

impl HookCondition for RuleCondition {
    fn matches(&self, call: &HookCall<'_>) -> bool {
        let snapshot = self.engine.snapshot();
        let mut offers = snapshot.offers().iter();
        // If two tools have the same name, the second is offered under another one.
        let is_named = |offer: &OfferedTool| offer.name() == call.tool || offer.tool().name() == call.tool;
        let offer = offers.find(|offer| is_named(offer) && offer.origin() == call.origin);
        let Some(offer) = offer else { return true };
        let look = |request: &haft::ports::AuthorizationRequest<'_>| self.meaning.is_meant(request);
        self.engine.consider(offer.tool(), offer.origin(), call.input.clone().into(), look).unwrap_or(true)
    }
}

/// Verifies that the scripts of a hook are unchanged: for a hook of the workspace since they were trusted,
/// for a hook of the user, as far as they are in the workspace, since the session began. Scripts of other
/// hooks don't matter.
fn as_trusted(handler: &HookHandler, inventory: &TrustInventory) -> Result<(), String> {
    if !matches!(handler.source.scope, SourceScope::Project | SourceScope::Local) {
        let named = ScriptReference::Hook(&handler.source);
        return match inventory.stale_users(&named) {
            None => Ok(()),
            Some(path) => Err(format!(
                "`{}`, which it runs, has changed since this session began; look at it, and start another session",
                path.display()
            )),
        };
    }
    match inventory.stale_scripts(&ScriptReference::Hook(&handler.source)).first() {
        None => Ok(()),
        Some(change) => Err(format!(
            "this workspace has changed since it was trusted ({change}); the user can look at it with `haft trust`"
        )),
    }
}

/// Applies a change that a permission hook requests. Rules apply to the session. Local ones are stored with
/// the user's answers, since no file of the workspace is written without asking.
fn apply_update(policy: &Policy, update: &PermissionUpdate) -> Result<(), String> {
    match update {
        PermissionUpdate::AddRules { rules, behavior, destination } => {
            let list = match behavior.as_str() {
                "allow" => RuleList::Allow,
                "ask" => RuleList::Ask,
                "deny" => RuleList::Deny,
                other => {
                    return Err(format!("`behavior` is `{other}`; `allow`, `ask` and `deny` are accepted"));
                }
            };
            let lasting = match destination.as_str() {
                "session" => false,
                "localSettings" => true,
                other => {
                    return Err(format!(
                        "no rule is kept in `{other}`; `session` and `localSettings` are accepted"
                    ));
                }
            };
            let rules: Vec<String> = rules.iter().map(rule_text).collect();
            policy.add_rules(&rules, list, lasting)
        }
        PermissionUpdate::SetMode { mode, destination } if destination == "session" => {
            let wanted: PermissionMode = mode.parse().map_err(|error| format!("{error}"))?;
            if wanted == PermissionMode::BypassPermissions {
                return Err(format!("no hook turns on the mode `{wanted}`; only the user can"));
            }
            policy.set(wanted);
            if policy.current() == wanted {
                Ok(())
            } else {
                Err(format!("settings forbid the mode `{wanted}`"))
            }
        }
        PermissionUpdate::SetMode { destination, .. } => {
            Err(format!("no mode is kept in `{destination}`; `session` is accepted"))
        }
        _ => Err("only `addRules` and `setMode` are accepted here".to_owned()),
    }
}

fn rule_text(rule: &RuleUpdate) -> String {
    match &rule.rule_content {
        Some(content) => format!("{}({content})", rule.tool_name),
        None => rule.tool_name.clone(),
    }
}
