//! Events of a run, one a line: those of `haft run`, and those of Claude Code, which wrap Anthropic's
//! messages.
//!
//! A run tells of a call several times: when the model has made it, when it starts with the input that hooks
//! left, and in the results of its turn, which are those that the model got. The later word counts.

use serde_json::Value;

use super::items::at_line;
use super::{InvalidTranscript, PastCall, PastResult, TranscriptForm, TranscriptReader};
use crate::wire::json_text::{JsonObject, JsonText};

/// Kinds of events that say nothing of calls.
const OTHERS: [&str; 19] = [
    "call_begun",
    "call_input",
    "cleared",
    "ended",
    "finishing",
    "message",
    "replied",
    "restarted",
    "retrying",
    "started",
    "summarised",
    "text",
    "thinking",
    "tool_asking",
    "tool_blocks",
    "tool_finished_later",
    "tool_output",
    "usage",
    "warning",
];

impl<'t> TranscriptReader<'t> {
    /// Reads an event, if it is one; whether it says anything.
    pub(super) fn event(
        &mut self,
        fields: &JsonObject<'t>,
        line: usize,
        depth: usize,
    ) -> Result<Option<bool>, InvalidTranscript> {
        // What `haft run --output json` prints, and its last event.
        if let Some(calls) = fields.get("calls").and_then(JsonText::array).filter(|_| fields.has("stop")) {
            if !self.has_events {
                calls.into_iter().try_for_each(|call| self.told(call))?;
            }
            return Ok(Some(true));
        }
        let Some(kind) = fields.string("type") else { return Ok(None) };
        let agent = fields.string("agent").filter(|agent| *agent != "main");
        let agent = agent.as_deref();
        match &*kind {
            // Claude Code: the message is Anthropic's; those of sub-agents name the call that they work for.
            "assistant" | "user" if fields.get("message").is_some_and(JsonText::is_object) => {
                let parent = fields.string("parent_tool_use_id");
                let aside = fields.get("isSidechain").is_some_and(|given| given.text() == "true");
                let parent = parent.as_deref().or(aside.then_some("sub-agent"));
                self.place(fields);
                if let Some(message) = fields.get("message") {
                    self.claude(message, parent)?;
                }
                Ok(Some(true))
            }
            "system" if fields.has("subtype") => {
                self.place(fields);
                Ok(Some(true))
            }
            "session" if fields.has("session_id") => {
                self.place(fields);
                self.has_events = true;
                Ok(Some(true))
            }
            "turn" if fields.has("turn") => {
                if agent.is_none() {
                    self.model_speaks = false;
                    self.model();
                }
                Ok(Some(true))
            }
            "call" if fields.has("call_id") && fields.has("tool_name") => {
                self.model();
                self.form(TranscriptForm::Run);
                let text = |key: &str| fields.string(key).unwrap_or_default().into_owned();
                let input = fields.get("input").map(|input| input.text().to_owned());
                self.call(PastCall {
                    id: text("call_id"),
                    name: text("tool_name"),
                    input,
                    turn: self.turn,
                    line,
                    agent: agent.map(str::to_owned),
                    result: None,
                })?;
                Ok(Some(true))
            }
            "tool_started" => {
                let id = fields.string("call_id").unwrap_or_default();
                if let (Some(call), Some(input)) = (self.latest(agent, &id), fields.get("input")) {
                    call.input = Some(input.text().to_owned());
                }
                Ok(Some(true))
            }
            "tool_finished" => {
                if let Some(result) = fields.get("result") {
                    self.finished(result, agent);
                }
                Ok(Some(true))
            }
            "results" if fields.has("results") => {
                for result in fields.get("results").and_then(JsonText::array).unwrap_or_default() {
                    self.finished(result, agent);
                }
                Ok(Some(true))
            }
            "user" if fields.has("text") => Ok(Some(true)),
            kind if self.has_events && OTHERS.contains(&kind) => Ok(Some(true)),
            // The last event of Claude Code, and pieces of a message that comes whole as well.
            "result" if fields.has("subtype") => Ok(Some(true)),
            "stream_event" | "summary" | "file-history-snapshot" | "queue-operation" if depth <= 1 => {
                Ok(Some(true))
            }
            _ => Ok(None),
        }
    }

    /// A message of Claude Code. One message of the model comes in several, with the same id.
    fn claude(&mut self, message: JsonText<'t>, parent: Option<&str>) -> Result<(), InvalidTranscript> {
        let line = self.line(message.text());
        let Some(fields) = message.object().map_err(at_line(line, message))? else { return Ok(()) };
        if let Some(id) = fields.string("id").filter(|_| fields.is("role", "assistant")) {
            self.model_speaks |= self.message.as_deref() == Some(&*id);
            if self.message.as_deref() != Some(&*id) && parent.is_none() {
                self.model_speaks = false;
            }
            self.message = Some(id.into_owned());
        }
        let before = self.out.calls.len();
        self.item(message, &fields, parent)?;
        if self.out.calls.len() > before {
            self.out.form = Some(TranscriptForm::ClaudeCode);
        }
        Ok(())
    }

    /// Where it was held; the first word counts.
    fn place(&mut self, fields: &JsonObject<'t>) {
        if self.out.cwd.is_none() {
            self.out.cwd = fields.string("cwd").map(|cwd| cwd.into_owned().into());
        }
    }

    /// The newest call of this id.
    fn latest(&mut self, agent: Option<&str>, id: &str) -> Option<&mut PastCall> {
        self.out.calls.iter_mut().rev().find(|call| call.id == id && call.agent.as_deref() == agent)
    }

    /// A result of a run, which may be told twice: once when it is there, and once as the turn's budget left
    /// it.
    fn finished(&mut self, result: JsonText<'t>, agent: Option<&str>) {
        let Ok(value) = serde_json::from_str::<Value>(result.text()) else { return };
        let id = value["call_id"].as_str().unwrap_or_default();
        let past = past_result(&value["output"], &value["error"], &value["is_error"]);
        if self
            .open
            .get(&(agent.unwrap_or_default().to_owned(), id.to_owned()))
            .is_some_and(|open| !open.is_empty())
        {
            let speaks = self.model_speaks;
            self.result(agent, id, past);
            // The model may go on while its first calls have ended.
            self.model_speaks = speaks;
        } else if let Some(call) = self.latest(agent, id) {
            let place = call.result.as_ref().map_or(0, |before| before.place);
            call.result = Some(PastResult { place, ..past });
        } else {
            self.out.stray_results += 1;
        }
    }

    /// A call with its result, as the outcome of a run has it.
    fn told(&mut self, call: JsonText<'t>) -> Result<(), InvalidTranscript> {
        let line = self.line(call.text());
        let Ok(value) = serde_json::from_str::<Value>(call.text()) else { return Ok(()) };
        let (Some(id), Some(name)) = (value["id"].as_str(), value["tool_name"].as_str()) else {
            return Err(InvalidTranscript::at(
                line,
                "the call has no `id` or no `tool_name`; strings are required",
            ));
        };
        // Nothing says where a message of the model ends.
        self.turn = 1;
        self.form(TranscriptForm::Run);
        self.call(PastCall {
            id: id.to_owned(),
            name: name.to_owned(),
            input: Some(value["input"].to_string()),
            turn: 1,
            line,
            agent: None,
            result: None,
        })?;
        self.result(None, id, past_result(&value["result"], &value["error"], &value["is_error"]));
        Ok(())
    }
}

fn past_result(output: &Value, error: &Value, is_error: &Value) -> PastResult {
    let text = match (error["message"].as_str(), output) {
        (Some(words), _) => words.to_owned(),
        (None, Value::String(text)) => text.clone(),
        (None, Value::Null) => String::new(),
        (None, other) => other.to_string(),
    };
    PastResult {
        text,
        is_error: is_error.as_bool().unwrap_or(false),
        kind: error["kind"].as_str().map(str::to_owned),
        ..PastResult::default()
    }
}
