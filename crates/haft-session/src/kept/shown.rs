//! What was said in a conversation, for a person who comes back to it: the last of it, a line each.

use serde_json::Value;

use crate::text::one_line;

/// How many lines are shown, and the most of one in characters.
const LINES_MAX: usize = 40;
const LINE_CHARS_MAX: usize = 400;

/// The end of a conversation, whatever wire it was held in.
pub(super) fn past(items: &[Value]) -> Vec<String> {
    let mut lines = Vec::new();
    // An item has at least one line, mostly.
    for item in &items[items.len().saturating_sub(LINES_MAX)..] {
        let is_users = item["role"] == "user";
        let blocks = [&item["content"], &item["parts"]].into_iter().filter_map(Value::as_array).flatten();
        let texts = item["content"].as_str().into_iter();
        let texts = texts.chain(blocks.clone().filter_map(|block| block["text"].as_str()));
        if item["role"] != "tool" {
            let mark = if is_users { "> " } else { "" };
            let words = texts.map(str::trim).filter(|text| !text.is_empty());
            lines.extend(words.map(|text| cut(&format!("{mark}{text}"))));
        }
        let calls = item["tool_calls"].as_array().into_iter().flatten();
        let named =
            calls.map(|call| &call["function"]["name"]).chain(blocks.map(|block| match &block["type"] {
                kind if kind == "tool_use" => &block["name"],
                _ => &block["functionCall"]["name"],
            }));
        let own = (item["type"] == "function_call").then(|| &item["name"]);
        lines.extend(named.chain(own).filter_map(Value::as_str).map(|name| cut(&format!("  ● {name}"))));
    }
    lines.split_off(lines.len().saturating_sub(LINES_MAX))
}

fn cut(text: &str) -> String {
    one_line(text).chars().take(LINE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_conversation_is_shown_in_every_wire() {
        let anthropic = [
            json!({"role": "user", "content": "Hello"}),
            json!({"role": "assistant", "content": [{"type": "text", "text": "I look."}, {"type": "tool_use", "name": "Read", "id": "1", "input": {}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}]}),
        ];
        let openai = [
            json!({"role": "user", "content": "Hello"}),
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}),
            json!({"type": "function_call", "name": "Read", "call_id": "1", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "1", "output": "x"}),
        ];
        let chat = [
            json!({"role": "user", "content": "Hello"}),
            json!({"role": "assistant", "content": "I look.", "tool_calls": [{"id": "1", "function": {"name": "Read", "arguments": "{}"}}]}),
            json!({"role": "tool", "tool_call_id": "1", "content": "x"}),
        ];
        let gemini = [
            json!({"role": "user", "parts": [{"text": "Hello"}]}),
            json!({"role": "model", "parts": [{"text": "I look."}, {"functionCall": {"name": "Read", "args": {}}}]}),
            json!({"role": "user", "parts": [{"functionResponse": {"name": "Read", "response": {}}}]}),
        ];
        for items in [&anthropic[..], &openai, &chat, &gemini] {
            assert_eq!(past(items), ["> Hello", "I look.", "  ● Read"], "{items:?}");
        }
    }
}
