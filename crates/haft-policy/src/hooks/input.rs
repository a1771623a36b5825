//! The JSON input that a hook reads on its standard input.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use haft::hooks::{HookBatch, HookCall, PermissionRequest};
use haft::registry::ToolOrigin;
use haft::results::{OffloadStore, ResultLimit, limit_output};
use haft::text::truncate_chars;
use haft::{ResultBlock, ToolOutput, ToolResult};
use serde_json::{Map, Value, json};

use super::event::HookEvent;
use super::{HookSession, limits};

/// The fields that every event has.
pub(super) struct EventContext<'a> {
    pub(super) session_id: &'a str,
    pub(super) cwd: &'a Path,
    pub(super) mode: String,
    /// The agent, if it isn't the main one.
    pub(super) agent: Option<&'a str>,
}

impl<'a> EventContext<'a> {
    pub(super) fn for_call(session: &'a HookSession, call: &HookCall<'a>) -> EventContext<'a> {
        let cx = call.context;
        let mode = session.mode_or(|| cx.ports().mode().map(|mode| mode.current().to_string()));
        EventContext {
            session_id: cx.call().session_id(),
            cwd: cx.cwd(),
            mode,
            agent: sub_agent(cx.call().agent_id()),
        }
    }

    pub(super) fn for_batch(session: &'a HookSession, batch: &HookBatch<'a>) -> EventContext<'a> {
        let mode = session.mode_or(|| batch.mode.map(|mode| mode.current().to_string()));
        EventContext { session_id: batch.session, cwd: batch.cwd, mode, agent: sub_agent(batch.agent) }
    }

    pub(super) fn for_session(session: &'a HookSession) -> EventContext<'a> {
        EventContext {
            session_id: &session.id,
            cwd: &session.cwd,
            mode: session.mode_or(|| None),
            agent: None,
        }
    }

    /// Returns the JSON object with the fields that every event has.
    pub(super) fn object(&self, session: &HookSession, event: HookEvent) -> Map<String, Value> {
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
        put("session_id", self.session_id.into());
        let transcript = session.transcript_path.as_deref().map_or_else(String::new, path_text);
        put("transcript_path", transcript.into());
        put("cwd", path_text(self.cwd).into());
        put("permission_mode", self.mode.as_str().into());
        put("hook_event_name", event.name().into());
        if let Some(agent) = self.agent {
            put("agent_id", agent.into());
            put("agent_type", agent.into());
        }
        object
    }
}

/// Returns the id of a sub-agent. The engine's own agent is not one.
fn sub_agent(agent: &str) -> Option<&str> {
    (agent != "main").then_some(agent)
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns the JSON object of an event about one call.
pub(super) fn call_object(
    session: &HookSession,
    event: HookEvent,
    call: &HookCall<'_>,
) -> Map<String, Value> {
    let mut object = EventContext::for_call(session, call).object(session, event);
    object.insert("tool_name".into(), call.tool.into());
    object.insert("tool_input".into(), shown_input(call));
    if event != HookEvent::PermissionRequest {
        object.insert("tool_use_id".into(), call.context.call().id().into());
    }
    if let (ToolOrigin::External(server), true) = (call.origin, call.tool.starts_with("mcp__")) {
        object.insert("mcp_server".into(), json!({"name": &**server}));
    }
    object
}

/// Returns the input that hooks receive: paths of file tools are absolute.
pub(super) fn shown_input(call: &HookCall<'_>) -> Value {
    make_paths_absolute(call.tool, call.input, call.context.cwd())
}

/// Makes the paths of file tools in an input absolute.
pub(super) fn make_paths_absolute(tool: &str, input: &Value, cwd: &Path) -> Value {
    let mut input = input.clone();
    if matches!(tool, "Read" | "Write" | "Edit" | "MultiEdit" | "NotebookEdit") {
        for key in ["file_path", "notebook_path"] {
            if let Some(Value::String(path)) = input.get_mut(key)
                && !Path::new(&*path).is_absolute()
            {
                *path = path_text(&cwd.join(&*path));
            }
        }
    }
    input
}

/// Returns the suggestions of a permission request: rules that would allow the call permanently, in the
/// form in which a hook may return them.
pub(super) fn permission_suggestions(asked: &PermissionRequest<'_>) -> Value {
    let rule = |rule: &String| match rule.strip_suffix(')').and_then(|rule| rule.split_once('(')) {
        Some((tool, content)) => json!({"toolName": tool, "ruleContent": content}),
        None => json!({"toolName": rule}),
    };
    let rules: Vec<Value> = asked.lasting_rules.iter().map(rule).collect();
    if rules.is_empty() {
        return json!([]);
    }
    json!([{"type": "addRules", "rules": rules, "behavior": "allow", "destination": "localSettings"}])
}

/// Returns a tool's output. A long output is truncated, with the path of a file that contains all of it.
pub(super) fn tool_response(result: &ToolResult, store: Option<&Arc<OffloadStore>>) -> Value {
    let value = match result.outcome() {
        Ok(output) => output.response().cloned().unwrap_or_else(|| output.to_json()),
        Err(error) => Value::String(error.message().to_owned()),
    };
    let long = match &value {
        Value::String(text) => text.len() > limits::RESPONSE_BYTES_MAX,
        value => value.to_string().len() > limits::RESPONSE_BYTES_MAX,
    };
    if !long {
        return value;
    }
    let text = match value {
        Value::String(text) => text,
        value => value.to_string(),
    };
    Value::String(limit_text(text, result.tool_name(), store))
}

/// Truncates a text to the limit of hooks. If a store is available, the whole text goes to a file.
pub(super) fn limit_text(text: String, name: &str, store: Option<&Arc<OffloadStore>>) -> String {
    let limit = limits::TEXT_CHARS_MAX;
    if text.len() <= limit || text.chars().nth(limit).is_none() {
        return text;
    }
    match store {
        Some(store) => {
            let output = ToolOutput::from(ResultBlock::text(text));
            limit_output(output, name, ResultLimit::Chars(limit), store).output.to_text()
        }
        None => without_middle(&text, limit),
    }
}

/// Returns the text of a failure in the form that hooks expect: the exit code of a command comes first,
/// whereas the model reads it last.
pub(super) fn failure_text<'m>(tool: &str, message: &'m str) -> Cow<'m, str> {
    let (before, last) = message.rsplit_once('\n').unwrap_or(("", message));
    let said = last.strip_prefix("exit code ").filter(|_| tool == "Bash");
    match said.map(|said| said.split_once(": ").unwrap_or((said, ""))) {
        Some((code, more)) if code.bytes().all(|b| b.is_ascii_digit()) => {
            let rest = [before, more].into_iter().filter(|text| !text.is_empty());
            let rest: String = rest.map(|text| format!("\n{text}")).collect();
            Cow::Owned(format!("Exit code {code}{rest}"))
        }
        _ => Cow::Borrowed(message),
    }
}

/// Removes the middle of a text.
pub(super) fn without_middle(text: &str, chars_max: usize) -> String {
    let chars = text.chars().count();
    if chars <= chars_max {
        return text.to_owned();
    }
    let half = chars_max / 2;
    let (head, tail) = (truncate_chars(text, half), &text[truncate_chars(text, chars - half).len()..]);
    let left_out = chars - 2 * half;
    format!("{head}\n… ({left_out} characters left out)\n{tail}")
}

#[cfg(test)]
mod tests {
    use super::failure_text;

    #[test]
    fn the_exit_code_of_a_command_stands_first() {
        for (message, expected) in [
            ("x\ny\nexit code 3", "Exit code 3\nx\ny"),
            ("exit code 1", "Exit code 1"),
            (
                "x\nexit code 127: a program in it was not found",
                "Exit code 127\nx\na program in it was not found",
            ),
            ("x\nexit code unknown", "x\nexit code unknown"),
            ("it took too long", "it took too long"),
        ] {
            assert_eq!(failure_text("Bash", message), expected);
        }
        assert_eq!(failure_text("deploy", "x\nexit code 3"), "x\nexit code 3");
    }
}
