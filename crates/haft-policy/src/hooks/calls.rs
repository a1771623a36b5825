//! Applies configured hooks to calls: implements the engine's hook traits, each for all hooks of one event.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use haft::decision::{DecisionReason, Verdict};
use haft::future::BoxFuture;
use haft::hooks::{
    BatchHook, DeniedHook, HookBatch, HookCall, HookError, PermissionHook, PermissionRequest, PostHook,
    PostHookResponse, PreHook, PreHookResponse,
};
use haft::results::OffloadStore;
use haft::sync::lock;
use haft::{ErrorKind, ResultBlock, ToolOutput, ToolResult};
use serde_json::{Map, Value, json};

use super::event::HookEvent;
use super::input::{self, EventContext};
use super::reply::HookReply;
use super::run::{FiredEvent, HookRun};
use super::{ConfiguredHook, Hooks, limits};

/// All hooks of one event, as one hook of the engine.
pub(super) struct EventHooks {
    pub(super) hooks: Hooks,
    pub(super) event: HookEvent,
    pub(super) timeout: Duration,
}

/// The name of this hook in the engine. Messages name the configured hook instead.
const NAME: &str = "settings";

impl Hooks {
    /// Returns the hooks that match a call.
    fn matching_call(&self, event: HookEvent, call: &HookCall<'_>) -> Vec<Arc<ConfiguredHook>> {
        let condition =
            |hook: &ConfiguredHook| hook.condition.as_ref().is_none_or(|condition| condition.matches(call));
        self.0.matching(event, Some(call.tool), condition)
    }

    async fn run_for_call(
        &self,
        event: HookEvent,
        hooks: Vec<Arc<ConfiguredHook>>,
        call: &HookCall<'_>,
        more: impl FnOnce(&mut Map<String, Value>),
    ) -> Vec<HookRun> {
        if hooks.is_empty() {
            return Vec::new();
        }
        let mut object = input::call_object(&self.0.session, event, call);
        more(&mut object);
        let (cwd, cancel) = (call.context.cwd(), call.cancel);
        let begin = |hook: &ConfiguredHook| {
            if let Some(words) = &hook.handler.status_message {
                call.context.progress(None, words.as_str());
            }
        };
        self.0.run(hooks, FiredEvent { object, cwd, cancel }, begin).await
    }
}

/// The combined answers of several hooks, in configuration order.
struct CombinedReplies<'a> {
    store: Option<&'a Arc<OffloadStore>>,
    warn: &'a (dyn Fn(String) + Sync),
    context: Vec<String>,
    messages: Vec<String>,
    /// The hook that ends the turn, and its reason.
    stop: Option<(String, String)>,
}

impl<'a> CombinedReplies<'a> {
    fn new(store: Option<&'a Arc<OffloadStore>>, warn: &'a (dyn Fn(String) + Sync)) -> CombinedReplies<'a> {
        CombinedReplies { store, warn, context: Vec::new(), messages: Vec::new(), stop: None }
    }

    fn within(&self, text: String) -> String {
        input::limit_text(text, "hook", self.store)
    }

    /// Adds the parts of an answer that every event has.
    fn take(&mut self, hook: &ConfiguredHook, reply: &mut HookReply) {
        let context: Vec<String> = std::mem::take(&mut reply.context);
        let context = context.into_iter().map(|words| self.within(words)).collect::<Vec<_>>();
        self.context.extend(context);
        self.messages.extend(reply.message.take().map(|words| self.within(words)));
        if let (None, Some(reason)) = (&self.stop, reply.stop.take()) {
            self.stop = Some((hook.label.clone(), self.within(reason)));
        }
    }

    fn warn(&self, hook: &ConfiguredHook, words: impl AsRef<str>) {
        (self.warn)(format!("hook `{}` of `{}`: {}", hook.label, hook.event, words.as_ref()));
    }

    /// Returns a hook's answer, if it gave one. A failure is reported, and stored if it blocks.
    fn heard(
        &self,
        ran: HookRun,
        failed: &mut Option<HookError>,
    ) -> Option<(Arc<ConfiguredHook>, HookReply)> {
        let blocks = ran.blocks();
        let HookRun { hook, outcome } = ran;
        match outcome {
            Ok(reply) => return reply.map(|reply| (hook, reply)),
            Err(why) if blocks => {
                failed.get_or_insert_with(|| HookError::new(why).by(&hook.label));
            }
            Err(why) => self.failed(&hook, &why),
        }
        None
    }

    fn failed(&self, hook: &ConfiguredHook, why: &str) {
        self.warn(hook, format!("it failed, and what it should look at goes on: {why}"));
    }
}

impl PreHook for EventHooks {
    fn name(&self) -> &str {
        NAME
    }

    fn before<'a>(&'a self, call: &'a HookCall<'a>) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        Box::pin(self.gate(call))
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }
}

/// The strictness of an answer.
const ALLOWS: u8 = 1;
const ASKS: u8 = 2;
/// Stops the call without deciding it.
const BLOCKS: u8 = 3;
const DENIES: u8 = 4;

/// The strictest of several answers, with its hook.
#[derive(Default)]
struct StrictestReply {
    decision: Option<(u8, String, DecisionReason)>,
    stops: bool,
}

impl StrictestReply {
    fn add(&mut self, hook: &ConfiguredHook, rank: u8, decision: DecisionReason) {
        if self.decision.as_ref().is_none_or(|(least, ..)| rank > *least) {
            self.decision = Some((rank, hook.label.clone(), decision));
        }
    }
}

impl EventHooks {
    async fn gate(&self, call: &HookCall<'_>) -> Result<PreHookResponse, HookError> {
        let mut hooks = self.hooks.matching_call(self.event, call);
        // The hook that wrote this input has already decided about it. Its answer stands, whether or not
        // the hook still matches.
        let author = call.rewrote.and_then(|rewrote| {
            let label = rewrote.by.as_ref()?;
            let hook = self.hooks.0.hooks.get(&self.event)?.iter().find(|hook| hook.label == *label)?;
            Some((hook.clone(), rewrote))
        });
        if let Some((author, _)) = &author {
            hooks.retain(|hook| hook.label != author.label);
        }
        let author_place = author.as_ref().map(|(author, _)| author.place);
        let mut ran = self.hooks.run_for_call(self.event, hooks, call, |_| {}).await;
        if let Some((hook, rewrote)) = author {
            let decision = rewrote.decision.clone().filter(|decision| decision.verdict != Verdict::Deny);
            let reply = HookReply { decision, context: rewrote.context.clone(), ..HookReply::default() };
            ran.insert(0, HookRun { hook, outcome: Ok(Some(reply)) });
        }
        if ran.is_empty() {
            return Ok(PreHookResponse::default());
        }
        let shown = input::shown_input(call);
        let warn = |words: String| call.context.warn(words);
        let mut together = CombinedReplies::new(call.context.ports().result_store(), &warn);
        let (mut strictest, mut failed, mut rewrite) = (
            StrictestReply::default(),
            None,
            None::<(Arc<ConfiguredHook>, Value, Option<DecisionReason>, Vec<String>)>,
        );
        for ran in ran {
            let Some((hook, mut reply)) = together.heard(ran, &mut failed) else { continue };
            let said_before = together.context.len();
            together.take(&hook, &mut reply);
            let decision = reply.decision.map(|mut decision| {
                let rank = match (decision.verdict, reply.is_deferred) {
                    (Verdict::Allow, _) => ALLOWS,
                    (Verdict::Ask, _) => ASKS,
                    (Verdict::Deny, false) => DENIES,
                    (Verdict::Deny, true) => {
                        let text = &decision.text;
                        decision.text =
                            format!("it was put off, and nothing takes it up again here: {text}").into();
                        BLOCKS
                    }
                };
                decision.text = together.within(decision.text.into_owned()).into();
                (rank, decision)
            });
            if let Some((rank, decision)) = &decision {
                strictest.add(&hook, *rank, decision.clone());
            }
            // An input returned unchanged is not a rewrite. A hook before the author of the current input
            // may not rewrite it.
            let updated = reply.updated_input.filter(|updated| *updated != shown);
            if let Some(updated) = updated.filter(|_| author_place.is_none_or(|author| hook.place > author)) {
                let decision = decision.map(|(_, decision)| decision);
                let context = together.context[said_before..].to_vec();
                if let Some((earlier, ..)) = rewrite.replace((hook.clone(), updated, decision, context)) {
                    let words = format!("its rewrite was left out, because `{}` comes later", hook.label);
                    together.warn(&earlier, words);
                }
            }
        }
        let denies = matches!(&strictest.decision, Some((DENIES, ..))) || together.stop.is_some();
        if let (Some(failed), false) = (failed, denies) {
            return Err(failed);
        }
        let CombinedReplies { context, messages, stop, .. } = together;
        let (stopper, stop) = stop.map_or((None, None), |(by, reason)| (Some(by), Some(reason)));
        let refuses = stop.is_some() || matches!(&strictest.decision, Some((BLOCKS.., ..)));
        let (decider, decision, blocked) = match strictest.decision {
            None => (None, None, None),
            Some((BLOCKS, by, reason)) => (Some(by), None, Some(reason.text.into_owned())),
            Some((_, by, reason)) => (Some(by), Some(reason), None),
        };
        let before =
            PreHookResponse { context, decision, blocked, stop, messages, ..PreHookResponse::default() };
        Ok(match rewrite {
            _ if refuses => PreHookResponse { by: stopper.or(decider), ..before },
            None => before,
            // Only the author's answer is about the new input; the other hooks are asked again.
            Some((hook, input, decision, context)) => {
                let (input, by) = (Some(input), Some(hook.label.clone()));
                PreHookResponse { input, by, decision, context, ..before }
            }
        })
    }
}

impl PermissionHook for EventHooks {
    fn name(&self) -> &str {
        NAME
    }

    fn decide<'a>(
        &'a self,
        call: &'a HookCall<'a>,
        asked: &'a PermissionRequest<'a>,
    ) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        Box::pin(self.answer(call, asked))
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl EventHooks {
    async fn answer(
        &self,
        call: &HookCall<'_>,
        asked: &PermissionRequest<'_>,
    ) -> Result<PreHookResponse, HookError> {
        if let Some(rewrote) = call.rewrote.filter(|rewrote| rewrote.by.is_some()) {
            // The hook is asked for the same reason about its own rewrite, so its answer stands.
            let (by, decision) = (rewrote.by.clone(), rewrote.decision.clone());
            return Ok(PreHookResponse { by, decision, ..PreHookResponse::default() });
        }
        let hooks = self.hooks.matching_call(self.event, call);
        let more = |object: &mut Map<String, Value>| {
            object.insert("permission_suggestions".into(), input::permission_suggestions(asked));
        };
        let ran = self.hooks.run_for_call(self.event, hooks, call, more).await;
        let warn = |words: String| call.context.warn(words);
        let mut together = CombinedReplies::new(call.context.ports().result_store(), &warn);
        let (mut strictest, mut failed, mut input) = (StrictestReply::default(), None, None);
        let mut updates = Vec::new();
        for ran in ran {
            let Some((hook, mut reply)) = together.heard(ran, &mut failed) else { continue };
            together.take(&hook, &mut reply);
            let Some(decision) = reply.decision else { continue };
            match decision.verdict {
                Verdict::Allow => {
                    strictest.add(&hook, ALLOWS, decision);
                    input = reply.updated_input.or(input);
                    updates.push((hook, reply.permissions));
                }
                // A permission hook can't pass the question on.
                Verdict::Ask | Verdict::Deny => {
                    let reason = together.within(decision.text.into_owned());
                    strictest.add(&hook, DENIES, DecisionReason::deny(reason));
                    strictest.stops |= reply.interrupt;
                }
            }
        }
        let denies = matches!(&strictest.decision, Some((DENIES, ..))) || together.stop.is_some();
        if let (Some(failed), false) = (failed, denies) {
            return Err(failed);
        }
        if !denies {
            for (hook, updates) in updates.iter().filter(|(_, updates)| !updates.is_empty()) {
                let taken = match &self.hooks.0.session.on_permissions {
                    Some(take) => take(updates),
                    None => Err("changes of permissions are not taken here".into()),
                };
                if let Err(words) = taken {
                    together.warn(hook, format!("its `updatedPermissions` were left out: {words}"));
                }
            }
        }
        let interrupts = strictest.stops;
        let CombinedReplies { context, messages, stop, .. } = together;
        let (stopper, mut stop) = stop.map_or((None, None), |(by, reason)| (Some(by), Some(reason)));
        let (decider, decision) =
            strictest.decision.map_or((None, None), |(_, by, decision)| (Some(by), Some(decision)));
        if let (true, Some(reason)) = (interrupts, &decision) {
            stop.get_or_insert_with(|| reason.text.to_string());
        }
        let input = input.filter(|input| !denies && *input != input::shown_input(call));
        Ok(PreHookResponse {
            input,
            context,
            decision,
            blocked: None,
            stop,
            messages,
            by: stopper.or(decider),
        })
    }
}

impl DeniedHook for EventHooks {
    fn name(&self) -> &str {
        NAME
    }

    fn denied<'a>(
        &'a self,
        call: &'a HookCall<'a>,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        Box::pin(async move {
            let hooks = self.hooks.matching_call(self.event, call);
            let more = |object: &mut Map<String, Value>| {
                object.insert("reason".into(), reason.into());
            };
            let ran = self.hooks.run_for_call(self.event, hooks, call, more).await;
            let warn = |words: String| call.context.warn(words);
            let mut together = CombinedReplies::new(call.context.ports().result_store(), &warn);
            for HookRun { hook, outcome } in ran {
                match outcome {
                    Ok(Some(mut reply)) => {
                        together.take(&hook, &mut reply);
                        if reply.retry {
                            let words =
                                format!("hook `{}` says that this call may be tried again", hook.label);
                            together.context.push(words);
                        }
                    }
                    Ok(None) => {}
                    Err(why) => together.failed(&hook, &why),
                }
            }
            Ok(combine_output(together, None))
        })
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl PostHook for EventHooks {
    fn name(&self) -> &str {
        NAME
    }

    fn after<'a>(
        &'a self,
        call: &'a HookCall<'a>,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        Box::pin(self.observe(call, result))
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl EventHooks {
    async fn observe(&self, call: &HookCall<'_>, result: &ToolResult) -> Result<PostHookResponse, HookError> {
        let event = match result.error_kind() {
            None => HookEvent::PostToolUse,
            // A cancelled call has no outcome to report.
            Some(ErrorKind::Cancelled) => return Ok(PostHookResponse::default()),
            Some(_) => HookEvent::PostToolUseFailure,
        };
        let hooks = self.hooks.matching_call(event, call);
        let store = call.context.ports().result_store();
        let more = |object: &mut Map<String, Value>| {
            match result.error() {
                None => object.insert("tool_response".into(), input::tool_response(result, store)),
                Some(error) => {
                    let words = input::failure_text(result.tool_name(), error.message());
                    let words = input::without_middle(&words, limits::ERROR_CHARS_MAX);
                    object.insert("is_interrupt".into(), false.into());
                    object.insert("error".into(), words.into())
                }
            };
            object.insert("duration_ms".into(), duration_ms(result.duration()));
        };
        let ran = self.hooks.run_for_call(event, hooks, call, more).await;
        let warn = |words: String| call.context.warn(words);
        let mut together = CombinedReplies::new(store, &warn);
        let mut output = None;
        for ran in ran {
            let blocks = ran.blocks();
            let HookRun { hook, outcome } = ran;
            match outcome {
                Ok(Some(mut reply)) => {
                    together.take(&hook, &mut reply);
                    add_feedback(&mut together, &hook, reply.denial());
                    if let (Some(updated), Ok(given)) = (reply.updated_output, result.outcome()) {
                        match matching_output(updated, given) {
                            Some(fitting) => output = Some(fitting),
                            None => together.warn(
                                &hook,
                                "its `updatedToolOutput` has another shape than the tool's and was left out",
                            ),
                        }
                    }
                }
                Ok(None) => {}
                Err(why) if blocks => {
                    let words = format!("it failed: {why}");
                    add_feedback(&mut together, &hook, Some(words));
                }
                Err(why) => together.failed(&hook, &why),
            }
        }
        Ok(combine_output(together, output))
    }
}

impl BatchHook for EventHooks {
    fn name(&self) -> &str {
        NAME
    }

    fn after_batch<'a>(
        &'a self,
        batch: &'a HookBatch<'a>,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        Box::pin(async move {
            // Invalid calls fire nothing, and neither does a message whose calls were all cancelled.
            let valid: Vec<&ToolResult> =
                batch.results.iter().filter(|result| result.input().is_some()).collect();
            if valid.iter().all(|result| result.error_kind() == Some(ErrorKind::Cancelled)) {
                return Ok(PostHookResponse::default());
            }
            let inner = &self.hooks.0;
            let hooks = inner.matching(self.event, None, |_| true);
            if hooks.is_empty() {
                return Ok(PostHookResponse::default());
            }
            let mut object =
                EventContext::for_batch(&inner.session, batch).object(&inner.session, self.event);
            let calls = valid.iter().map(|result| {
                json!({
                    "tool_name": result.tool_name(),
                    "tool_input": result.input().map(|given| input::make_paths_absolute(result.tool_name(), given, batch.cwd)),
                    "tool_use_id": result.call_id(),
                    "tool_response": input::tool_response(result, Some(batch.results_in)),
                })
            });
            object.insert("tool_calls".into(), calls.collect());
            let (cwd, cancel): (&Path, _) = (batch.cwd, batch.cancel);
            let fire = FiredEvent { object, cwd, cancel };
            let ran = inner.run(hooks, fire, |_| {}).await;
            let failures = std::sync::Mutex::new(Vec::new());
            let warn = |words: String| {
                lock(&failures).push(words);
            };
            let mut together = CombinedReplies::new(Some(batch.results_in), &warn);
            for ran in ran {
                let blocks = ran.blocks();
                let HookRun { hook, outcome } = ran;
                let denial = match outcome {
                    Ok(Some(mut reply)) => {
                        together.take(&hook, &mut reply);
                        reply.denial()
                    }
                    Ok(None) => None,
                    Err(why) if blocks => Some(format!("it failed: {why}")),
                    Err(why) => {
                        together.failed(&hook, &why);
                        None
                    }
                };
                // For this event a denial ends the turn, and the model reads the reason when it continues.
                if let Some(reason) = &denial
                    && together.stop.is_none()
                {
                    together.stop = Some((hook.label.clone(), together.within(reason.clone())));
                }
                add_feedback(&mut together, &hook, denial);
            }
            let mut after = combine_output(together, None);
            after.messages.extend(failures.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner));
            Ok(after)
        })
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }
}

/// A denial after the fact becomes a message for the model.
fn add_feedback(together: &mut CombinedReplies<'_>, hook: &ConfiguredHook, denial: Option<String>) {
    if let Some(reason) = denial {
        let reason = together.within(reason);
        together.context.push(format!("hook `{}` says: {reason}", hook.label));
    }
}

fn combine_output(together: CombinedReplies<'_>, output: Option<ToolOutput>) -> PostHookResponse {
    let CombinedReplies { context, messages, stop, .. } = together;
    PostHookResponse { context, output, stop: stop.map(|(_, reason)| reason), messages }
}

fn duration_ms(duration: Duration) -> Value {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).into()
}

/// Returns a replaced output, if it has the shape of the tool's output.
fn matching_output(updated: Value, given: &ToolOutput) -> Option<ToolOutput> {
    let text = |text: String| Some(ToolOutput::from(ResultBlock::text(text)));
    if let (Value::Object(updated), Some(Value::Object(_))) = (&updated, given.response()) {
        // For a command's output, the model reads what the command printed.
        let part = |name: &str| updated.get(name)?.as_str();
        return text([part("stdout")?, part("stderr")?].concat());
    }
    match (updated, given.to_json()) {
        (Value::String(updated), Value::String(_) | Value::Array(_)) => text(updated),
        (Value::Array(blocks), Value::String(_) | Value::Array(_)) => {
            let block = |block: &Value| match (block.get("type")?.as_str()?, block.get("text")?.as_str()?) {
                ("text", words) => Some(ResultBlock::text(words)),
                _ => None,
            };
            blocks.iter().map(block).collect::<Option<Vec<_>>>().map(ToolOutput::new)
        }
        (updated @ Value::Object(_), Value::Object(given)) => {
            // Fields that the tool always returns must still exist and have the same type.
            let same = given.iter().all(|(key, value)| {
                updated
                    .get(key)
                    .is_some_and(|new| std::mem::discriminant(new) == std::mem::discriminant(value))
            });
            same.then(|| ToolOutput::from(ResultBlock::Structured(updated)))
        }
        (updated @ Value::Number(_), Value::Number(_)) | (updated @ Value::Bool(_), Value::Bool(_)) => {
            Some(ToolOutput::from(ResultBlock::Structured(updated)))
        }
        _ => None,
    }
}
