//! Pairs each call of a conversation with its result, and rejects what the provider would reject.
//!
//! This code is independent of the tested crate, which implements the same rules for its own use.

use haft_provider::Wire;
use serde_json::Value;

/// A call and its result, as text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallResultPair {
    pub(crate) call: String,
    pub(crate) result: String,
}

/// Returns the calls of a conversation with their results.
///
/// # Errors
/// A call has not exactly one result in its place, or a result has no call.
pub(crate) fn pair_calls_with_results(wire: Wire, items: &[Value]) -> Result<Vec<CallResultPair>, String> {
    let mut pairs = Vec::new();
    let mut open: Vec<(String, String)> = Vec::new();
    let mut answers = 0;
    for (at, item) in items.iter().enumerate() {
        let parts = split_item(wire, item);
        for part in parts {
            match part {
                ConversationPart::Call(id, text) => {
                    if answers > 0 {
                        open.drain(..std::mem::take(&mut answers));
                    }
                    open.push((id, text));
                }
                ConversationPart::Result(id, text) => {
                    let Some((call, asked)) = open.get(answers) else {
                        return Err(format!("item {at} has a result for `{id}`, which no call waits for"));
                    };
                    if *call != id {
                        return Err(format!("item {at} has a result for `{id}` in the place of `{call}`"));
                    }
                    pairs.push(CallResultPair { call: asked.clone(), result: text });
                    answers += 1;
                }
                ConversationPart::OtherContent => {
                    if answers < open.len() {
                        let (id, _) = &open[answers];
                        return Err(format!("item {at} comes before the result of `{id}`"));
                    }
                    (answers, open) = (0, Vec::new());
                }
            }
        }
        // The model's message is complete before results follow.
        if wire != Wire::OpenAi && answers == 0 && !open.is_empty() && is_user_item(item) {
            return Err(format!("item {at} is the user's, and `{}` has no result in it", open[0].0));
        }
    }
    match open.get(answers) {
        Some((id, _)) => Err(format!("`{id}` has no result")),
        None => Ok(pairs),
    }
}

enum ConversationPart {
    Call(String, String),
    Result(String, String),
    /// Any other content; it ends the list of results.
    OtherContent,
}

fn is_user_item(item: &Value) -> bool {
    item["role"] == "user" || item["role"] == "tool"
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn split_item(wire: Wire, item: &Value) -> Vec<ConversationPart> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match wire {
        Wire::Anthropic => {
            let is_assistant = item["role"] == "assistant";
            let content = list(&item["content"]);
            if content.is_empty() {
                return vec![ConversationPart::OtherContent];
            }
            let part = |part: &Value| match part["type"].as_str() {
                Some("tool_use") => Some(ConversationPart::Call(text(&part["id"]), part.to_string())),
                Some("tool_result") => {
                    Some(ConversationPart::Result(text(&part["tool_use_id"]), text(&part["content"])))
                }
                _ if is_assistant => None,
                _ => Some(ConversationPart::OtherContent),
            };
            let mut parts: Vec<ConversationPart> = content.iter().filter_map(part).collect();
            if is_assistant && !matches!(parts.first(), Some(ConversationPart::Call(..))) {
                parts.insert(0, ConversationPart::OtherContent);
            }
            parts
        }
        Wire::OpenAi => match item["type"].as_str() {
            Some("function_call") => vec![ConversationPart::Call(text(&item["call_id"]), item.to_string())],
            Some("function_call_output") => {
                vec![ConversationPart::Result(text(&item["call_id"]), text(&item["output"]))]
            }
            Some("message") if item["role"] == "assistant" => Vec::new(),
            Some("reasoning") => Vec::new(),
            _ => vec![ConversationPart::OtherContent],
        },
        Wire::OpenAiChat => match item["role"].as_str() {
            Some("assistant") => {
                let calls = list(&item["tool_calls"]);
                let mut parts = vec![ConversationPart::OtherContent];
                parts.extend(
                    calls.iter().map(|call| ConversationPart::Call(text(&call["id"]), call.to_string())),
                );
                parts
            }
            Some("tool") => {
                vec![ConversationPart::Result(text(&item["tool_call_id"]), text(&item["content"]))]
            }
            _ => vec![ConversationPart::OtherContent],
        },
        Wire::Gemini => {
            let mut parts =
                if item["role"] == "model" { vec![ConversationPart::OtherContent] } else { Vec::new() };
            for part in list(&item["parts"]) {
                // Gemini pairs calls and results by position and name; ids are optional.
                let call = &part["functionCall"];
                let answer = &part["functionResponse"];
                match () {
                    () if call.is_object() => {
                        parts.push(ConversationPart::Call(text(&call["name"]), call.to_string()))
                    }
                    () if answer.is_object() => {
                        parts.push(ConversationPart::Result(
                            text(&answer["name"]),
                            answer["response"].to_string(),
                        ));
                    }
                    () if item["role"] == "user" => parts.push(ConversationPart::OtherContent),
                    () => {}
                }
            }
            parts
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(id: &str) -> Value {
        json!({"type": "tool_use", "id": id, "name": "x", "input": {}})
    }

    fn result(id: &str) -> Value {
        json!({"type": "tool_result", "tool_use_id": id, "content": id})
    }

    fn check(users: Value) -> Result<usize, String> {
        let items = [json!({"role": "assistant", "content": [call("a"), call("b")]}), users];
        pair_calls_with_results(Wire::Anthropic, &items).map(|pairs| pairs.len())
    }

    #[test]
    fn one_result_for_each_call_in_order() {
        let text_part = json!({"type": "text", "text": "and?"});
        assert_eq!(check(json!({"role": "user", "content": [result("a"), result("b"), text_part]})), Ok(2));
        for wrong in [
            json!([result("a")]),
            json!([result("b"), result("a")]),
            json!([result("a"), result("b"), result("b")]),
            json!([result("a"), text_part, result("b")]),
            json!([text_part]),
            json!([]),
        ] {
            assert!(check(json!({"role": "user", "content": wrong})).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_other_wires_too() {
        let open = |output: &str| {
            let items = [
                json!({"type": "function_call", "call_id": "a", "name": "x", "arguments": "{}"}),
                json!({"type": "function_call_output", "call_id": output, "output": "done"}),
            ];
            pair_calls_with_results(Wire::OpenAi, &items).is_ok()
        };
        assert!(open("a") && !open("b"));
        let chat = |id: &str| {
            let items = [
                json!({"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "x"}}]}),
                json!({"role": "tool", "tool_call_id": id, "content": "done"}),
            ];
            pair_calls_with_results(Wire::OpenAiChat, &items).is_ok()
        };
        assert!(chat("a") && !chat("b"));
        let gemini = |name: &str| {
            let items = [
                json!({"role": "model", "parts": [{"functionCall": {"name": "x", "args": {}}}]}),
                json!({"role": "user", "parts": [{"functionResponse": {"name": name, "response": {}}}]}),
            ];
            pair_calls_with_results(Wire::Gemini, &items).is_ok()
        };
        assert!(gemini("x") && !gemini("y"));
    }
}
