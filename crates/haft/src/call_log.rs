//! The record of a session's calls: what ran, what it touched, whether it failed.
//!
//! It is a hook after calls, and what tools read that compare what was done with something else: one value
//! for both. In memory and bounded: the newest calls are kept, with inputs cut to what is needed to tell one
//! call from another. A journal on disk is something else, and refuses calls that it can't write down; this
//! one never stands in anybody's way. Where a session goes on in another process, the journal is where the
//! calls of the one before come from.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use haft_scheduler::sync::lock;
use serde_json::Value;

use crate::effects::Effects;
use crate::future::{BoxFuture, catch_panic};
use crate::hooks::{HookCall, HookError, PostHook, PostHookResponse};
use crate::limits;
use crate::registry::{RegisteredTool, Registry};
use crate::result::ToolResult;
use crate::text::truncate_chars;
use crate::text::truncate_in_place;
use crate::tool::erased::AnyTool;
use crate::view::CallStage;

/// The calls of a session, the newest of them. Clones share it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use haft::call_log::CallLog;
/// use haft::hooks::HookSet;
/// use haft::{Effects, Engine, NoInput, Registry, ToolCall, tool};
///
/// let log = CallLog::new();
/// let answer = tool("answer", "Returns the answer.", |_: NoInput, _| async { Ok(42) }).effects(|_| Effects::none());
/// let engine = Engine::builder(Registry::new().with(answer).unwrap()).hooks(HookSet::new().after(log.clone())).build();
/// engine.turn().run(vec![ToolCall::new("a", "answer", "{}")]).await;
/// assert_eq!(log.calls()[0].tool, "answer");
/// # }
/// ```
#[derive(Clone, Default)]
pub struct CallLog(Arc<Mutex<RetainedCalls>>);

#[derive(Default)]
struct RetainedCalls {
    calls: VecDeque<PastCall>,
    /// How many there were.
    count: u64,
    /// Those of an earlier process, until somebody wants to know.
    earlier: Option<Box<dyn FnOnce() -> RetainedCalls + Send>>,
}

/// A call that an earlier process of the session ran, as a journal has it.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlierCall {
    /// The agent that made it.
    pub agent: String,
    /// The tool.
    pub tool: String,
    /// The input, all of it.
    pub input: Value,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// A call that ran.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PastCall {
    /// Its number in the session, from 1.
    pub number: u64,
    /// The agent that made it.
    pub agent: String,
    /// The tool.
    pub tool: String,
    /// The input; long texts in it are cut.
    pub input: Value,
    /// What it declared.
    pub effects: Effects,
    /// What it was about, as its view says: a path, a command.
    pub about: String,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

impl CallLog {
    /// Nothing has been done.
    pub fn new() -> CallLog {
        CallLog::default()
    }

    /// The session goes on in this process: `earlier` says how many calls ran before, and the newest of them,
    /// oldest first.
    ///
    /// It is asked once, and only when somebody wants to know: to read them may take a while. What they
    /// touched is what the tools of the registry say of these inputs now. None of these tools may hold this
    /// log: they would keep each other alive.
    pub fn goes_on(
        &self,
        registry: Registry,
        earlier: impl FnOnce() -> (u64, Vec<EarlierCall>) + Send + 'static,
    ) {
        lock(&self.0).earlier = Some(Box::new(move || {
            let (count, calls) = earlier();
            let mut kept =
                RetainedCalls { count: count.saturating_sub(calls.len() as u64), ..RetainedCalls::default() };
            calls.into_iter().for_each(|call| kept.add(call.past(&registry)));
            kept
        }));
    }

    /// The calls that are known, oldest first, those of sub-agents too. Only calls whose execution began are
    /// there.
    pub fn calls(&self) -> Vec<PastCall> {
        self.known().calls.iter().cloned().collect()
    }

    /// How many older ones are forgotten.
    pub fn forgotten(&self) -> u64 {
        let kept = self.known();
        kept.count - kept.calls.len() as u64
    }

    /// What is known, that of earlier processes included.
    fn known(&self) -> MutexGuard<'_, RetainedCalls> {
        let mut kept = lock(&self.0);
        if let Some(earlier) = kept.earlier.take() {
            let later = std::mem::replace(&mut *kept, earlier());
            later.calls.into_iter().for_each(|call| kept.add(call));
        }
        kept
    }
}

impl RetainedCalls {
    fn add(&mut self, mut call: PastCall) {
        self.count += 1;
        call.number = self.count;
        if self.calls.len() == limits::PAST_CALLS_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
    }
}

impl EarlierCall {
    fn past(self, registry: &Registry) -> PastCall {
        let EarlierCall { agent, tool, input, error } = self;
        let known = registry.entries().map(RegisteredTool::tool).find(|known| known.name() == tool);
        let stage = CallStage::Use { input: &input, complete: true };
        let about = known.and_then(|known| catch_panic(|| known.view(&stage).title).ok());
        past_call(known, (agent, tool), &input, about.unwrap_or_default(), error)
    }
}

/// A call with everything within its bounds.
fn past_call(
    tool: Option<&AnyTool>,
    (agent, name): (String, String),
    input: &Value,
    mut about: String,
    mut error: Option<String>,
) -> PastCall {
    let declared = || Some(tool?.invoke(input).ok()?.effects());
    let effects = catch_panic(declared).ok().flatten().unwrap_or_else(Effects::unknown);
    truncate_in_place(&mut about, limits::PAST_CALL_TEXT_CHARS_MAX);
    error.iter_mut().for_each(|words| truncate_in_place(words, limits::PAST_CALL_TEXT_CHARS_MAX));
    let mut left = limits::PAST_CALL_CHARS_MAX;
    PastCall { number: 0, agent, tool: name, input: truncate_value(input, &mut left), effects, about, error }
}

impl PostHook for CallLog {
    fn name(&self) -> &str {
        "the record of calls"
    }

    fn after<'a>(
        &'a self,
        call: &'a HookCall<'a>,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        let cx = call.context;
        let about = catch_panic(|| result.view().title).unwrap_or_default();
        let error = result.error().map(|error| error.message().to_owned());
        let made = (cx.call().agent_id().to_owned(), call.tool.to_owned());
        let call = past_call(cx.entry().map(|entry| entry.tool()), made, call.input, about, error);
        lock(&self.0).add(call);
        Box::pin(std::future::ready(Ok(PostHookResponse::default())))
    }
}

/// The value with at most so many characters of text in all; what comes too late is left out. Inputs don't
/// nest deeper than [`limits::INPUT_DEPTH_MAX`].
fn truncate_value(value: &Value, left: &mut usize) -> Value {
    match value {
        Value::String(text) => {
            let most = (*left).min(limits::PAST_CALL_TEXT_CHARS_MAX);
            let kept = truncate_chars(text, most);
            *left -= kept.chars().count();
            kept.into()
        }
        Value::Array(values) => {
            let mut kept = Vec::new();
            for value in values {
                if *left == 0 {
                    break;
                }
                *left -= 1;
                kept.push(truncate_value(value, left));
            }
            kept.into()
        }
        Value::Object(fields) => {
            let mut kept = serde_json::Map::new();
            for (key, value) in fields {
                if *left <= key.len() {
                    break;
                }
                *left -= key.len() + 1;
                kept.insert(key.clone(), truncate_value(value, left));
            }
            kept.into()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ToolError;
    use crate::hooks::HookSet;
    use crate::testing::{TestCaller, scripted_tool};

    #[tokio::test]
    async fn what_ran_is_there_and_what_did_not_is_not() {
        let log = CallLog::new();
        let (write, handle) = scripted_tool("write").effects(|_| Effects::writes("a.txt")).build();
        let caller = TestCaller::new().tool(write).engine(|engine| {
            let allowed = crate::PermissionRules::new().allow("write").unwrap();
            engine.permissions(allowed).hooks(HookSet::new().after(log.clone()))
        });
        let long = "x".repeat(50_000);
        let calls = [
            ("1", "write", json!({"text": long, "n": 1})),
            ("2", "write", json!({"text": "short"})),
            ("3", "wrote", json!({})),
        ];
        let turn = caller.start(calls);
        handle.started().await.succeed("written");
        handle.started().await.fail(ToolError::new("no room"));
        turn.results().await;
        let calls = log.calls();
        assert_eq!(calls.iter().map(|call| call.number).collect::<Vec<_>>(), [1, 2]);
        assert!(calls[0].input["text"].as_str().unwrap().len() <= limits::PAST_CALL_TEXT_CHARS_MAX);
        assert_eq!((calls[0].effects.clone(), &calls[0].error), (Effects::writes("a.txt"), &None));
        assert_eq!(calls[1].error.as_deref(), Some("no room"));
        assert_eq!(log.forgotten(), 0);
    }

    #[test]
    fn only_the_newest_are_kept() {
        let log = CallLog::new();
        let call = PastCall {
            number: 0,
            agent: String::new(),
            tool: "t".into(),
            input: Value::Null,
            effects: Effects::none(),
            about: String::new(),
            error: None,
        };
        (0..limits::PAST_CALLS_MAX + 3).for_each(|_| lock(&log.0).add(call.clone()));
        assert_eq!((log.calls().len(), log.forgotten()), (limits::PAST_CALLS_MAX, 3));
        assert_eq!(log.calls()[0].number, 4);
    }

    #[tokio::test]
    async fn calls_of_an_earlier_process_come_first() {
        let log = CallLog::new();
        let (write, handle) = scripted_tool("write").effects(|_| Effects::writes("a.txt")).build();
        let registry = Registry::new().with(write.clone()).unwrap();
        let caller = TestCaller::new().tool(write).engine(|engine| {
            let allowed = crate::PermissionRules::new().allow("write").unwrap();
            engine.permissions(allowed).hooks(HookSet::new().after(log.clone()))
        });
        let call = |tool: &str, error: Option<&str>| EarlierCall {
            agent: "main".into(),
            tool: tool.into(),
            input: json!({"text": "x".repeat(5_000)}),
            error: error.map(str::to_owned),
        };
        let earlier = vec![call("write", None), call("gone", Some("no"))];
        log.goes_on(registry, move || (7, earlier));
        let turn = caller.start([("1", "write", json!({"text": "now"}))]);
        handle.started().await.succeed("written");
        turn.results().await;
        let calls = log.calls();
        assert_eq!(calls.iter().map(|call| call.number).collect::<Vec<_>>(), [6, 7, 8]);
        assert_eq!(log.forgotten(), 5);
        let of = |at: usize| (calls[at].tool.as_str(), calls[at].effects.clone(), calls[at].error.as_deref());
        assert_eq!(of(0), ("write", Effects::writes("a.txt"), None));
        assert_eq!(of(1), ("gone", Effects::unknown(), Some("no")));
        assert_eq!(calls[0].input["text"].as_str().unwrap().len(), limits::PAST_CALL_TEXT_CHARS_MAX);
        assert_eq!(calls[2].input["text"], "now");
    }

    #[test]
    fn inputs_are_cut() {
        let wide = json!({"list": vec!["y"; 100_000], "deep": {"a": "z".repeat(100_000)}});
        let mut left = limits::PAST_CALL_CHARS_MAX;
        assert!(truncate_value(&wide, &mut left).to_string().len() < 5 * limits::PAST_CALL_CHARS_MAX);
        let small = json!({"a": [1, "b", null]});
        let mut left = 100;
        assert_eq!(truncate_value(&small, &mut left), small);
    }
}
