//! The port to the rules.

use serde_json::Value;

use super::{ApprovalAnswer, RuleSetId};
use crate::decision::{CallGrants, CallWarning, DecisionReason, DecisionSource};
use crate::effects::Effects;
use crate::effects::resolved::{ResolvedEffects, Workspace};
use crate::effects::table::EffectClass;
use crate::files::HiddenPaths;
use crate::future::BoxFuture;
use crate::tool::AnyTool;

/// Decides which calls may run.
///
/// The engine asks for [`reasons`](Authorizer::reasons) on each version of a call's input, after hooks, from
/// the call's own task, and again whenever what the call touches changed meanwhile. It must not wait: asking
/// the user is the engine's part, after this said ask. A panic denies.
pub trait Authorizer: Send + Sync + 'static {
    /// What the rules and the mode say of this call. If there are none, the effects decide whether it asks.
    fn reasons(&self, request: &AuthorizationRequest<'_>) -> Vec<DecisionReason>;

    /// Whether anybody may be asked in the mode that holds now, for a reason of this source. If not, what
    /// would ask is denied, before hooks and classifier are asked. The default is yes: who isn't there can't
    /// be asked anyway.
    fn may_ask(&self, source: DecisionSource) -> bool {
        let _ = source;
        true
    }

    /// What an allowed call may touch, of what it declares; `approved` means that the user, a hook or the
    /// classifier lifted an ask. The default grants all of it: an authorizer that doesn't distinguish allowed
    /// the call with everything in view.
    ///
    /// Called once for each allowed call. A panic denies.
    fn grants(&self, request: &AuthorizationRequest<'_>, approved: bool) -> CallGrants {
        let _ = approved;
        CallGrants::everything(request.effects)
    }

    /// Identifies the rules for child processes: a sandbox that was made from rules with another id starts no
    /// process for an engine with this authorizer. Authorizers with the same id have the same such rules, as
    /// clones have. The default fits no sandbox that enforces rules.
    ///
    /// Called once, when the engine is built. A panic counts as the default.
    fn rule_set(&self) -> Option<RuleSetId> {
        None
    }

    /// Whether the user may be shown a question. If not, what neither a hook nor the classifier allowed is
    /// denied. The default is yes.
    fn may_prompt(&self) -> bool {
        true
    }

    /// What a call of a tool touches that can't say so itself, in place of "anything". The default doesn't
    /// know.
    ///
    /// Asked for each version of a call's input, as soon as it was read; never for tools that declare what
    /// they touch.
    fn effects(&self, name: &str, tool: &AnyTool, input: &Value) -> Option<Effects> {
        let _ = (name, tool, input);
        None
    }

    /// Decides in the user's place on a call that would ask, after hooks and before the user; `reason` is why
    /// it asks. Never for what a rule wants asked. An ask adds its text to the question. The default leaves
    /// it to the user, and so does a panic.
    fn classify<'a>(
        &'a self,
        request: &'a AuthorizationRequest<'a>,
        reason: &'a str,
    ) -> BoxFuture<'a, Option<DecisionReason>> {
        let _ = (request, reason);
        Box::pin(std::future::ready(None))
    }

    /// What [`classify`](Authorizer::classify) says as far as that needs no program: for calls that are only
    /// checked. The default says nothing.
    fn classify_statically(
        &self,
        request: &AuthorizationRequest<'_>,
        reason: &str,
    ) -> Option<DecisionReason> {
        let _ = (request, reason);
        None
    }

    /// Whether a tool is denied whatever its input, so that the model isn't shown it; with the rule. `name`
    /// is the one under which it would be offered.
    fn tool_denial(&self, name: &str, tool: &AnyTool) -> Option<DecisionReason>;

    /// What a call that was allowed isn't shown: of the folders that it walks, and of files with several
    /// names ([`HiddenPaths::with_hard_links`]). The default hides nothing.
    ///
    /// Asked only for calls that read or write files. A panic denies.
    fn hidden(&self, request: &AuthorizationRequest<'_>) -> Option<HiddenPaths> {
        let _ = request;
        None
    }

    /// Keeps an answer for later calls. The default forgets, so the user is asked again.
    ///
    /// # Errors
    /// Why an answer for always lasts no longer than the session, in words; the user is told.
    fn remember(&self, request: &AuthorizationRequest<'_>, answer: &ApprovalAnswer) -> Result<(), String> {
        let _ = (request, answer);
        Ok(())
    }

    /// The rules that an answer for the session or for always would add, each as narrow as it can be; none
    /// where such an answer counts for this call alone. The default knows none.
    fn lasting_rules(&self, request: &AuthorizationRequest<'_>) -> Vec<String> {
        let _ = request;
        Vec::new()
    }

    /// What a person should know before they allow a call. The default goes by what the call declares.
    ///
    /// Asked for calls that ask, and for those that are only checked. After a panic nothing is warned of.
    fn warnings(&self, request: &AuthorizationRequest<'_>) -> Vec<CallWarning> {
        CallWarning::from_effects(request)
    }

    /// What would allow this call for good, as narrow as it can be. The default knows nothing.
    fn propose(&self, request: &AuthorizationRequest<'_>) -> Option<String> {
        let _ = request;
        None
    }
}

/// A call as the rules see it.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct AuthorizationRequest<'a> {
    /// The name under which the tool is offered.
    pub name: &'a str,
    /// The tool.
    pub tool: &'a AnyTool,
    /// Whether the tool came from outside.
    pub external: bool,
    /// Who it came from then: the name of the server or folder. What it is called says nothing of that.
    pub source: Option<&'a str>,
    /// The input, final.
    pub input: &'a Value,
    /// What it touches, as declared and as resolved.
    pub effects: &'a ResolvedEffects,
    /// What follows from that.
    pub effect_class: &'a EffectClass,
    /// Where the session works.
    pub workspace: &'a Workspace,
    /// Whether the call runs in a child process that nothing holds to what it declares. Its effects are then
    /// only believed: good enough to keep calls apart, not to allow one.
    pub unconfined_child: bool,
    /// The agent that makes it.
    pub agent: &'a str,
    /// The number of the turn in which it is made, from 1 for each agent; 0 for a call that is only looked
    /// at.
    pub turn: u64,
    /// The call runs, and a child process of it wants to reach the hosts of `effects`. A rule that allows the
    /// tool doesn't allow that.
    pub wants_host: bool,
}

impl AuthorizationRequest<'_> {
    /// What the tool declared.
    pub fn declared(&self) -> &Effects {
        &self.effects.declared
    }
}
