//! The record of a session's calls: what ran, what it touched, whether it failed.
//!
//! It is a hook after calls and the port that tools read, one value for both. In memory and bounded: the newest calls are
//! kept, with inputs cut to what is needed to tell one call from another. A journal on disk is something else, and refuses
//! calls that it can't write down; this one never stands in anybody's way.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::effects::Effects;
use crate::error::bound;
use crate::future::{BoxFuture, guarded};
use crate::hooks::{After, HookCall, HookError, PostHook};
use crate::limits;
use crate::ports::{History, PastCall};
use crate::result::ToolResult;
use crate::sync::lock;

/// The calls of a session, the newest of them. Clones share it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use haft::ports::History as _;
/// use haft::{CallLog, Effects, Engine, Hooks, NoInput, Registry, ToolCall, tool};
///
/// let log = CallLog::new();
/// let answer = tool("answer", "Returns the answer.", |_: NoInput, _| async { Ok(42) }).effects(|_| Effects::none());
/// let engine = Engine::new(Registry::new().with(answer).unwrap()).hooks(Hooks::new().after(log.clone()));
/// engine.turn().run(vec![ToolCall::new("a", "answer", "{}")]).await;
/// assert_eq!(log.calls()[0].tool, "answer");
/// # }
/// ```
#[derive(Clone, Default)]
pub struct CallLog(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    calls: VecDeque<PastCall>,
    /// How many there were.
    count: u64,
}

impl CallLog {
    /// Nothing has been done.
    pub fn new() -> CallLog {
        CallLog::default()
    }

    fn add(&self, mut call: PastCall) {
        let mut kept = lock(&self.0);
        kept.count += 1;
        call.number = kept.count;
        if kept.calls.len() == limits::PAST_CALLS_MAX {
            kept.calls.pop_front();
        }
        kept.calls.push_back(call);
    }
}

impl History for CallLog {
    fn calls(&self) -> Vec<PastCall> {
        lock(&self.0).calls.iter().cloned().collect()
    }

    fn forgotten(&self) -> u64 {
        let kept = lock(&self.0);
        kept.count - kept.calls.len() as u64
    }
}

impl PostHook for CallLog {
    fn name(&self) -> &str {
        "the record of calls"
    }

    fn after<'a>(
        &'a self,
        call: &'a HookCall<'a>,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Result<After, HookError>> {
        let cx = call.context;
        let declared = || Some(cx.entry()?.tool().invoke(call.input).ok()?.effects());
        let effects = guarded(declared).ok().flatten().unwrap_or_else(Effects::unknown);
        let mut about = guarded(|| result.view().title).unwrap_or_default();
        bound(&mut about, limits::PAST_CALL_TEXT_CHARS_MAX);
        let error = result.error().map(|error| {
            let mut words = error.message().to_owned();
            bound(&mut words, limits::PAST_CALL_TEXT_CHARS_MAX);
            words
        });
        let mut left = limits::PAST_CALL_CHARS_MAX;
        self.add(PastCall {
            number: 0,
            agent: cx.agent_id().to_owned(),
            tool: call.tool.to_owned(),
            input: cut(call.input, &mut left),
            effects,
            about,
            error,
        });
        Box::pin(std::future::ready(Ok(After::default())))
    }
}

/// The value with at most so many characters of text in all; what comes too late is left out. Inputs don't nest deeper
/// than [`limits::INPUT_DEPTH_MAX`].
fn cut(value: &Value, left: &mut usize) -> Value {
    match value {
        Value::String(text) => {
            let most = (*left).min(limits::PAST_CALL_TEXT_CHARS_MAX);
            let kept: String = text.chars().take(most).collect();
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
                kept.push(cut(value, left));
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
                kept.insert(key.clone(), cut(value, left));
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
    use crate::testing::{Caller, scripted};
    use crate::{Hooks, ToolError};

    #[tokio::test]
    async fn what_ran_is_there_and_what_did_not_is_not() {
        let log = CallLog::new();
        let (write, handle) = scripted("write").effects(|_| Effects::writes("a.txt")).build();
        let caller = Caller::new().tool(write).engine(|engine| {
            let allowed = crate::Permissions::new().allow("write").unwrap();
            engine.permissions(allowed).hooks(Hooks::new().after(log.clone()))
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
        (0..limits::PAST_CALLS_MAX + 3).for_each(|_| log.add(call.clone()));
        assert_eq!((log.calls().len(), log.forgotten()), (limits::PAST_CALLS_MAX, 3));
        assert_eq!(log.calls()[0].number, 4);
    }

    #[test]
    fn inputs_are_cut() {
        let wide = json!({"list": vec!["y"; 100_000], "deep": {"a": "z".repeat(100_000)}});
        let mut left = limits::PAST_CALL_CHARS_MAX;
        assert!(cut(&wide, &mut left).to_string().len() < 5 * limits::PAST_CALL_CHARS_MAX);
        let small = json!({"a": [1, "b", null]});
        let mut left = 100;
        assert_eq!(cut(&small, &mut left), small);
    }
}
