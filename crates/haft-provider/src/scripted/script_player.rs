//! Which turn answers a request, and as what.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::sync::lock;
use haft::text::truncate_with_ellipsis;
use regex::Regex;
use serde_json::Value;

use super::script_format::{InjectedError, ModelScript, RequestCondition, ScriptTurn, StreamPace};
use crate::Wire;
use crate::limits::SCRIPT_ERRORS_MAX;
use crate::wire::request_history::{RequestHistory, SentResult};
use crate::wire::script_message::{ScriptCall, ScriptMessage};

/// How much of a prompt or result an error shows, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// How many characters come at once, where nothing else is said.
const CHUNK_CHARS: usize = 24;

/// Plays a script.
pub(super) struct ScriptPlayer {
    script: Arc<ModelScript>,
    /// How often an error was given to the same request.
    given: Mutex<HashMap<u64, u32>>,
}

/// How a request is answered.
#[derive(Debug)]
pub(super) struct ScriptedResponse {
    /// What passes before anything comes.
    pub(super) delay: Duration,
    pub(super) act: ResponseAction,
}

#[derive(Debug)]
pub(super) enum ResponseAction {
    Refuse {
        status: u16,
        body: String,
        retry_after: Option<Duration>,
    },
    Whole(String),
    Stream {
        frames: Vec<String>,
        between: Duration,
        cut: bool,
    },
    /// The connection is closed without a word.
    HangUp,
}

impl ScriptPlayer {
    pub(super) fn new(script: Arc<ModelScript>) -> ScriptPlayer {
        ScriptPlayer { script, given: Mutex::default() }
    }

    /// Answers a request. `stream` and `model` are what the address says, where it says it.
    pub(super) fn play(
        &self,
        wire: Wire,
        body: &str,
        stream: Option<bool>,
        model: Option<&str>,
    ) -> ScriptedResponse {
        let refuse = |words: &str| ScriptedResponse {
            delay: Duration::ZERO,
            act: ResponseAction::Refuse {
                status: 400,
                body: (wire.format().script.write_error)(400, None, words).to_string(),
                retry_after: None,
            },
        };
        let request: Value = match serde_json::from_str(body) {
            Ok(request) => request,
            Err(error) => return refuse(&format!("the request is not JSON: {error}")),
        };
        let mut seen = match RequestHistory::read(wire, &request) {
            Ok(seen) => seen,
            Err(words) => return refuse(&words),
        };
        if let Some(unknown) = seen.deferral_feature.filter(|_| !self.script.deferral.unwrap_or(true)) {
            return refuse(&format!("`{unknown}` is not known here: extra inputs are not permitted"));
        }
        seen.stream = stream.unwrap_or(seen.stream);
        if let Some(model) = model {
            model.clone_into(&mut seen.model);
        }
        if let Some(side) = self.script.side.as_ref().filter(|_| !seen.has_tools) {
            let turn = ScriptTurn { text: Some(side.text.clone()), ..ScriptTurn::default() };
            return self.say(wire, &turn, &seen, body);
        }
        let part = self
            .script
            .agents
            .iter()
            .find(|part| check_text(&part.when, &seen.first_prompt, None) != part.when.not);
        let turns = part.map_or(&self.script.turns, |part| &part.turns);
        let Some(turn) = turns.get(seen.turn) else {
            let (all, next) = (turns.len(), seen.turn + 1);
            return refuse(&format!("the script has {all} turns, and turn {next} was asked for"));
        };
        let turn = choose_turn(turn, &seen);
        for (at, condition) in turn.expect.iter().enumerate() {
            if let Err(words) = check_condition(condition, &seen) {
                return refuse(&format!(
                    "turn {} of the script expects something else (`expect/{at}`): {words}",
                    seen.turn + 1
                ));
            }
        }
        self.say(wire, turn, &seen, body)
    }

    fn say(&self, wire: Wire, turn: &ScriptTurn, seen: &RequestHistory, body: &str) -> ScriptedResponse {
        let delay = Duration::from_millis(turn.delay_ms);
        let error = turn.error.as_ref().filter(|error| self.is_due(error, seen.turn, body));
        if let Some(error) = error.filter(|error| error.after_events.is_none()) {
            let act = if error.disconnect { ResponseAction::HangUp } else { refuse_request(wire, error) };
            return ScriptedResponse { delay, act };
        }
        let pace = turn.stream.or(self.script.stream).unwrap_or_default();
        let message = self.message(wire, turn, seen, body);
        if !seen.stream {
            // An error in the middle of what comes at once is one in its place.
            let act = match error {
                Some(error) if error.disconnect => ResponseAction::HangUp,
                Some(error) => refuse_request(wire, error),
                None => ResponseAction::Whole((wire.format().script.write_response)(&message).to_string()),
            };
            return ScriptedResponse { delay, act };
        }
        let mut frames =
            (wire.format().script.write_events)(&message, pace.chunk_chars.unwrap_or(CHUNK_CHARS));
        let mut cut = false;
        if let Some(error) = error {
            frames.truncate(error.after_events.unwrap_or_default());
            cut = true;
            if !error.disconnect {
                frames.push(error_event(wire, error));
            }
        }
        ScriptedResponse { delay, act: ResponseAction::Stream { frames, between: chunk_delay(pace), cut } }
    }

    /// Whether an error is still to be given to this request.
    fn is_due(&self, error: &InjectedError, turn: usize, body: &str) -> bool {
        let Some(times) = error.times else { return true };
        let mut hasher = DefaultHasher::new();
        (turn, body).hash(&mut hasher);
        let mut given = lock(&self.given);
        if given.len() >= SCRIPT_ERRORS_MAX {
            given.clear();
        }
        let count = given.entry(hasher.finish()).or_default();
        let due = *count < times;
        *count += u32::from(due);
        due
    }

    fn message(&self, wire: Wire, turn: &ScriptTurn, seen: &RequestHistory, body: &str) -> ScriptMessage {
        let number = seen.turn + 1;
        let call = |(at, call): (usize, &super::script_format::ScriptedCall)| {
            let made = format!("{}_scripted_{number}_{at}", wire.format().script.call_prefix);
            let input = match (&call.input, &call.raw_input) {
                (_, Some(raw)) => raw.clone(),
                (Some(input), None) => input.to_string(),
                (None, None) => "{}".to_owned(),
            };
            ScriptCall { id: call.id.clone().unwrap_or(made), name: call.name.clone(), input }
        };
        let calls: Vec<ScriptCall> = turn.tool_calls.iter().enumerate().map(call).collect();
        let text = turn.text.clone().unwrap_or_default();
        let thinking = turn.thinking.clone().unwrap_or_default();
        let written =
            text.len() + thinking.len() + calls.iter().map(|call| call.input.len() + 8).sum::<usize>();
        ScriptMessage {
            id: format!("scripted_{number}"),
            model: self.script.model.clone().unwrap_or_else(|| seen.model.clone()),
            text,
            thinking,
            calls,
            has_native_search: seen.has_native_search,
            stop: turn.stop,
            input_tokens: (body.len() / 4) as u64,
            output_tokens: (written / 4 + 1) as u64,
        }
    }
}

fn chunk_delay(pace: StreamPace) -> Duration {
    Duration::from_millis(pace.chunk_delay_ms)
}

fn error_message(error: &InjectedError) -> &str {
    error.message.as_deref().unwrap_or("the script has an error here")
}

/// Writes an error that interrupts a stream.
fn error_event(wire: Wire, error: &InjectedError) -> String {
    let script = &wire.format().script;
    (script.write_error_event)(&(script.write_error)(500, error.kind.as_deref(), error_message(error)))
}

fn refuse_request(wire: Wire, error: &InjectedError) -> ResponseAction {
    let status = error.status.unwrap_or(500);
    let body =
        (wire.format().script.write_error)(status, error.kind.as_deref(), error_message(error)).to_string();
    ResponseAction::Refuse { status, body, retry_after: error.retry_after_ms.map(Duration::from_millis) }
}

/// The turn, or the first of its cases that holds.
fn choose_turn<'t>(turn: &'t ScriptTurn, seen: &RequestHistory) -> &'t ScriptTurn {
    match turn.cases.iter().find(|case| check_condition(&case.when, seen).is_ok()) {
        Some(case) => choose_turn(&case.turn, seen),
        None => turn,
    }
}

/// Whether a condition holds; if not, why.
fn check_condition(condition: &RequestCondition, seen: &RequestHistory) -> Result<(), String> {
    let found = if condition.prompt {
        check_text(condition, &seen.prompt, None)
    } else {
        let fitting = |(at, result): (usize, &SentResult)| {
            condition.result.is_none_or(|wanted| wanted == at)
                && condition.tool.as_ref().is_none_or(|tool| *tool == result.tool)
                && condition.is_error.is_none_or(|is_error| is_error == result.is_error)
                && check_text(condition, &result.text, result.value.as_ref())
        };
        seen.results.iter().enumerate().any(fitting)
    };
    if found != condition.not {
        return Ok(());
    }
    let came = match (condition.prompt, &seen.results[..]) {
        (true, _) => format!("the user said {:?}", truncate_with_ellipsis(&seen.prompt, SHOWN_CHARS_MAX)),
        (false, []) => "no results came".to_owned(),
        (false, results) => {
            let shown = |result: &SentResult| {
                format!("{}: {:?}", result.tool, truncate_with_ellipsis(&result.text, SHOWN_CHARS_MAX))
            };
            format!("the results are {}", results.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
    };
    Err(came)
}

fn check_text(condition: &RequestCondition, text: &str, value: Option<&Value>) -> bool {
    let parsed = || value.cloned().or_else(|| serde_json::from_str(text).ok());
    let at = match &condition.pointer {
        None => None,
        Some(pointer) => match parsed().and_then(|value| value.pointer(pointer).cloned()) {
            Some(found) => Some(found),
            None => return false,
        },
    };
    let shown = match &at {
        None => text.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let equals = |wanted: &Value| match &at {
        Some(found) => found == wanted,
        None => wanted.as_str() == Some(text) || parsed().as_ref() == Some(wanted),
    };
    condition.equals.as_ref().is_none_or(equals)
        && condition.contains.as_ref().is_none_or(|part| shown.contains(part))
        && condition
            .regex
            .as_ref()
            .is_none_or(|regex| Regex::new(regex).is_ok_and(|regex| regex.is_match(&shown)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(text: &str) -> RequestHistory {
        let body = json!({"model": "m", "messages": [
            {"role": "user", "content": "do it now"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "Read", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": text, "is_error": true}]},
        ]});
        RequestHistory::read(Wire::Anthropic, &body).unwrap()
    }

    #[track_caller]
    fn check(condition: Value, text: &str, expected: bool) {
        let condition: RequestCondition = serde_json::from_value(condition).unwrap();
        assert_eq!(check_condition(&condition, &seen(text)).is_ok(), expected, "{condition:?} {text}");
    }

    #[test]
    fn conditions() {
        check(json!({"equals": "abc"}), "abc", true);
        check(json!({"equals": "ab"}), "abc", false);
        check(json!({"equals": {"a": 1}}), "{\"a\": 1}", true);
        check(json!({"contains": "bc"}), "abcd", true);
        check(json!({"regex": "^a.c$"}), "abc", true);
        check(json!({"regex": "^b"}), "abc", false);
        check(json!({"pointer": "/a/0", "equals": 2}), "{\"a\": [2]}", true);
        check(json!({"pointer": "/a/1"}), "{\"a\": [2]}", false);
        check(json!({"pointer": "/a", "contains": "x"}), "{\"a\": \"xyz\"}", true);
        check(json!({"pointer": "/a", "contains": "x"}), "no json", false);
        check(json!({"tool": "Read", "is_error": true}), "", true);
        check(json!({"tool": "Grep"}), "", false);
        check(json!({"result": 1, "contains": ""}), "", false);
        check(json!({"prompt": true, "contains": "now"}), "", true);
        check(json!({"contains": "bc", "not": true}), "abcd", false);
    }
}
