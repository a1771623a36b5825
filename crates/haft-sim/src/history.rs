//! Reads a conversation as its provider does: each call with its result, or what the provider would refuse.
//!
//! Written anew and not taken from the crate that is tested, which has the same rules for its own use.

use haft_provider::Wire;
use serde_json::Value;

/// A call and its result, as text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pair {
    pub(crate) call: String,
    pub(crate) result: String,
}

/// The calls of a conversation with their results.
///
/// # Errors
/// A call without exactly one result in its place, or a result without a call, in words.
pub(crate) fn pairs(wire: Wire, items: &[Value]) -> Result<Vec<Pair>, String> {
    let mut pairs = Vec::new();
    let mut open: Vec<(String, String)> = Vec::new();
    let mut answers = 0;
    for (at, item) in items.iter().enumerate() {
        let parts = parts(wire, item);
        for part in parts {
            match part {
                Part::Call(id, text) => {
                    if answers > 0 {
                        open.drain(..std::mem::take(&mut answers));
                    }
                    open.push((id, text));
                }
                Part::Result(id, text) => {
                    let Some((call, asked)) = open.get(answers) else {
                        return Err(format!("item {at} has a result for `{id}`, which nobody waits for"));
                    };
                    if *call != id {
                        return Err(format!("item {at} has a result for `{id}` in the place of `{call}`"));
                    }
                    pairs.push(Pair { call: asked.clone(), result: text });
                    answers += 1;
                }
                Part::Words => {
                    if answers < open.len() {
                        let (id, _) = &open[answers];
                        return Err(format!("item {at} comes before the result of `{id}`"));
                    }
                    (answers, open) = (0, Vec::new());
                }
            }
        }
        // The model's own message is whole before results come.
        if wire != Wire::OpenAi && answers == 0 && !open.is_empty() && is_users(item) {
            return Err(format!("item {at} is the user's, and `{}` has no result in it", open[0].0));
        }
    }
    match open.get(answers) {
        Some((id, _)) => Err(format!("`{id}` has no result")),
        None => Ok(pairs),
    }
}

enum Part {
    Call(String, String),
    Result(String, String),
    /// Anything else that ends the wait for results.
    Words,
}

fn is_users(item: &Value) -> bool {
    item["role"] == "user" || item["role"] == "tool"
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn parts(wire: Wire, item: &Value) -> Vec<Part> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match wire {
        Wire::Anthropic => {
            let speaks = item["role"] == "assistant";
            let content = list(&item["content"]);
            if content.is_empty() {
                return vec![Part::Words];
            }
            let part = |part: &Value| match part["type"].as_str() {
                Some("tool_use") => Some(Part::Call(text(&part["id"]), part.to_string())),
                Some("tool_result") => Some(Part::Result(text(&part["tool_use_id"]), text(&part["content"]))),
                _ if speaks => None,
                _ => Some(Part::Words),
            };
            let mut parts: Vec<Part> = content.iter().filter_map(part).collect();
            if speaks && !matches!(parts.first(), Some(Part::Call(..))) {
                parts.insert(0, Part::Words);
            }
            parts
        }
        Wire::OpenAi => match item["type"].as_str() {
            Some("function_call") => vec![Part::Call(text(&item["call_id"]), item.to_string())],
            Some("function_call_output") => {
                vec![Part::Result(text(&item["call_id"]), text(&item["output"]))]
            }
            Some("message") if item["role"] == "assistant" => Vec::new(),
            Some("reasoning") => Vec::new(),
            _ => vec![Part::Words],
        },
        Wire::OpenAiChat => match item["role"].as_str() {
            Some("assistant") => {
                let calls = list(&item["tool_calls"]);
                let mut parts = vec![Part::Words];
                parts.extend(calls.iter().map(|call| Part::Call(text(&call["id"]), call.to_string())));
                parts
            }
            Some("tool") => vec![Part::Result(text(&item["tool_call_id"]), text(&item["content"]))],
            _ => vec![Part::Words],
        },
        Wire::Gemini => {
            let mut parts = if item["role"] == "model" { vec![Part::Words] } else { Vec::new() };
            for part in list(&item["parts"]) {
                // It pairs by place and name; an id is there or isn't.
                let call = &part["functionCall"];
                let answer = &part["functionResponse"];
                match () {
                    () if call.is_object() => parts.push(Part::Call(text(&call["name"]), call.to_string())),
                    () if answer.is_object() => {
                        parts.push(Part::Result(text(&answer["name"]), answer["response"].to_string()));
                    }
                    () if item["role"] == "user" => parts.push(Part::Words),
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
        pairs(Wire::Anthropic, &items).map(|pairs| pairs.len())
    }

    #[test]
    fn one_result_for_each_call_in_order() {
        let said = json!({"type": "text", "text": "and?"});
        assert_eq!(check(json!({"role": "user", "content": [result("a"), result("b"), said]})), Ok(2));
        for wrong in [
            json!([result("a")]),
            json!([result("b"), result("a")]),
            json!([result("a"), result("b"), result("b")]),
            json!([result("a"), said, result("b")]),
            json!([said]),
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
            pairs(Wire::OpenAi, &items).is_ok()
        };
        assert!(open("a") && !open("b"));
        let chat = |id: &str| {
            let items = [
                json!({"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "x"}}]}),
                json!({"role": "tool", "tool_call_id": id, "content": "done"}),
            ];
            pairs(Wire::OpenAiChat, &items).is_ok()
        };
        assert!(chat("a") && !chat("b"));
        let gemini = |name: &str| {
            let items = [
                json!({"role": "model", "parts": [{"functionCall": {"name": "x", "args": {}}}]}),
                json!({"role": "user", "parts": [{"functionResponse": {"name": name, "response": {}}}]}),
            ];
            pairs(Wire::Gemini, &items).is_ok()
        };
        assert!(gemini("x") && !gemini("y"));
    }
}
