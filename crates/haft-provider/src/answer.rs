//! The answer to the calls of a message, in the provider's JSON: one result for each call, in order.

use haft::ToolResult;
use haft::search::TOOL_SEARCH;
use serde_json::{Map, Value, json};

use crate::deferral::answer::{self, Answer};
use crate::{Wire, encode};
use haft_agent::{CallAnswers, CallKind, RequestedCall, ToolDeferral, ToolDefinitions};

/// Makes the items that answer the calls. Anthropic and Gemini: one message of the user. OpenAI Responses: output items.
/// Chat: tool messages.
pub(crate) fn answer_calls(wire: Wire, answers: &CallAnswers<'_>) -> Vec<Value> {
    let mut results = answers.results.iter();
    let mut items = Vec::with_capacity(answers.requested.len());
    let mut notes = Vec::new();
    for requested in answers.requested {
        let (item, note) = match &requested.refusal {
            Some(refusal) => refuse(wire, requested, refusal),
            None => match results.next() {
                Some(result) => match (answers.replacement)(result) {
                    Some(text) => refuse(wire, requested, &text),
                    None => {
                        let (mut item, note) = encode_result(wire, requested, result, answers.tools);
                        if result.call_id() != &*requested.call.id {
                            set_call_id(wire, &mut item, &requested.call.id);
                        }
                        (item, note)
                    }
                },
                None => refuse(wire, requested, "this call was not run"),
            },
        };
        items.push(item);
        notes.extend(note);
    }
    // After all results: nothing may stand between them.
    for note in notes {
        items.push(match wire {
            Wire::OpenAi => {
                let text = json!({"type": "input_text", "text": note});
                json!({"type": "message", "role": "developer", "content": [text]})
            }
            _ => json!({"type": "text", "text": note}),
        });
    }
    match wire {
        Wire::Anthropic => vec![user_message("content", items)],
        Wire::OpenAi | Wire::OpenAiChat => items,
        Wire::Gemini => vec![user_message("parts", items)],
    }
}

/// Makes a message of the user without a copy of its parts.
pub(crate) fn user_message(key: &str, parts: Vec<Value>) -> Value {
    let mut message = Map::new();
    message.insert("role".to_owned(), "user".into());
    message.insert(key.to_owned(), parts.into());
    Value::Object(message)
}

/// Gives an answer the id that the provider gave the call: within a session a call may have another one, which tells it
/// from its siblings.
fn set_call_id(wire: Wire, answer: &mut Value, id: &str) {
    match wire {
        Wire::Anthropic => answer["tool_use_id"] = id.into(),
        Wire::OpenAi => answer["call_id"] = id.into(),
        Wire::OpenAiChat => answer["tool_call_id"] = id.into(),
        Wire::Gemini => match answer["functionResponse"].as_object_mut() {
            Some(response) if id.is_empty() => drop(response.remove("id")),
            Some(response) => drop(response.insert("id".to_owned(), id.into())),
            None => {}
        },
    }
}

/// Encodes a result in the form that answers its call, with a note that has no place in it.
fn encode_result(
    wire: Wire,
    requested: &RequestedCall,
    result: &ToolResult,
    tools: Option<&ToolDefinitions>,
) -> Answer {
    if requested.kind == CallKind::ToolSearch {
        return answer::openai(result, tools);
    }
    let tools = tools.filter(|tools| tools.deferral() == ToolDeferral::Native);
    if let (Wire::Anthropic, Some(tools), TOOL_SEARCH) = (wire, tools, result.tool_name())
        && let Some(answer) = answer::anthropic(result, tools)
    {
        return answer;
    }
    let answer = match wire {
        Wire::Anthropic => encode::anthropic(result),
        Wire::OpenAi => encode::openai(result),
        Wire::OpenAiChat => encode::openai_chat(result),
        Wire::Gemini => encode::gemini_named(result, &requested.call.name),
    };
    (answer, None)
}

/// Answers a call that was not run.
fn refuse(wire: Wire, requested: &RequestedCall, text: &str) -> Answer {
    let (id, name) = (&*requested.call.id, &*requested.call.name);
    let answer = match (wire, requested.kind) {
        (Wire::OpenAi, CallKind::ToolSearch) => return answer::openai_refused(id, text),
        (Wire::Anthropic, _) => encode::anthropic_result(id, text.into(), true),
        (Wire::OpenAi, kind) => {
            let kind = match kind {
                CallKind::FreeForm => "custom_tool_call_output",
                _ => "function_call_output",
            };
            json!({"type": kind, "call_id": id, "output": encode::error_text(text)})
        }
        (Wire::OpenAiChat, _) => encode::openai_chat_result(id, &encode::error_text(text)),
        (Wire::Gemini, _) => encode::gemini_result(id, name, json!({"error": text}), Vec::new()),
    };
    (answer, None)
}
