//! The result of a search in the form of a provider that knows of deferred tools.
//!
//! Such a result has no place for words, so what there is to say goes beside it: an error, what a hook had to say, tools
//! that the model has already.

use haft::{Content, ToolResult};
use serde_json::{Value, json};

use crate::definitions::openai_deferred;
use crate::encode::anthropic_result;
use haft_agent::ToolDefinitions;

/// A result, and words that belong to it.
pub(crate) type Answer = (Value, Option<String>);

/// Anthropic's `tool_result` of `tool_reference`s. None if there is nothing that could be referred to: then it is a result
/// like any other.
pub(crate) fn anthropic(result: &ToolResult, tools: &ToolDefinitions) -> Option<Answer> {
    let reference = |tool: &Value| {
        let name = tool["name"].as_str().filter(|name| tools.is_referable(name))?;
        Some(json!({"type": "tool_reference", "tool_name": name}))
    };
    let references: Vec<Value> = found(result).iter().filter_map(reference).collect();
    if references.is_empty() {
        return None;
    }
    let words = (!result.notes().is_empty()).then(|| result.notes().join("\n"));
    Some((anthropic_result(result.call_id(), Value::Array(references), false), words))
}

/// OpenAI's `tool_search_output`. Without `tools` everything that was found is in it.
pub(crate) fn openai(result: &ToolResult, tools: Option<&ToolDefinitions>) -> Answer {
    let mut words: Vec<String> = result.error().map(|error| error.message().to_owned()).into_iter().collect();
    let mut definitions = Vec::new();
    for tool in found(result) {
        let (name, description) = (tool["name"].as_str(), tool["description"].as_str());
        let Some(name) = name else { continue };
        if tools.is_some_and(|tools| !tools.is_referable(name)) {
            words.push(format!("{name} is among your tools already"));
            continue;
        }
        match openai_deferred(name, description.unwrap_or_default(), &tool["input_schema"]) {
            Ok(definition) => definitions.push(definition),
            Err(reason) => words.push(format!("{name} can't be shown to you: {reason}")),
        }
    }
    words.extend(result.notes().iter().cloned());
    (output(result.call_id(), definitions), (!words.is_empty()).then(|| words.join("\n")))
}

/// The answer to a search that was not made.
pub(crate) fn openai_refused(id: &str, words: &str) -> Answer {
    (output(id, Vec::new()), Some(words.to_owned()))
}

fn output(id: &str, tools: Vec<Value>) -> Value {
    json!({"type": "tool_search_output", "call_id": id, "execution": "client", "status": "completed", "tools": tools})
}

/// What a search found, as `ToolSearch` says it: name, description and schema of each.
fn found(result: &ToolResult) -> &[Value] {
    let blocks = result.outcome().map_or(&[][..], |output| output.blocks());
    let mut lists = blocks.iter().filter_map(|block| match block {
        Content::Structured(Value::Array(tools)) => Some(&tools[..]),
        _ => None,
    });
    lists.next().unwrap_or_default()
}
