//! Results as items of OpenAI's Responses, and the searches for deferred tools among them.

use haft::search::TOOL_SEARCH;
use haft::{ResultBlock, ToolResult};
use haft_agent::{CallKind, RequestedCall, ToolDefinitions};
use serde_json::{Value, json};

use crate::limits::DOCUMENT_BYTES_MAX;
use crate::schema::{SchemaDialect, SchemaRefusal, encode_schema};
use crate::wire::EncodedResult;
use crate::wire::result_content::{PDF, data_url, error_text, found_tools, image_type, is_pdf, result_text};

/// Encodes a result. `output` is a string where there is only text, otherwise a list of parts. There is no
/// flag for errors: their text begins with `error: `.
pub(super) fn encode_result(
    call: &RequestedCall,
    result: &ToolResult,
    tools: Option<&ToolDefinitions>,
) -> EncodedResult {
    let (id, kind) = match (&*call.call.id, call.kind) {
        (id, CallKind::ToolSearch) => return encode_search(id, result, tools),
        (id, CallKind::FreeForm) => (id, "custom_tool_call_output"),
        (id, CallKind::Function) => (id, "function_call_output"),
    };
    let parts: Vec<Option<Value>> = result.for_model().iter().map(encode_part).collect();
    let output = if parts.iter().all(Option::is_none) {
        Value::String(result_text(result))
    } else {
        let text = |block: &ResultBlock| json!({"type": "input_text", "text": block.to_text()});
        let blocks = result.for_model();
        let parts = parts.into_iter().zip(&blocks).map(|(part, block)| part.unwrap_or_else(|| text(block)));
        parts.filter(|part| part["text"] != "").collect()
    };
    (json!({"type": kind, "call_id": id, "output": output}), None)
}

fn encode_part(block: &ResultBlock) -> Option<Value> {
    match block {
        ResultBlock::Image(blob) if blob.bytes.len() <= DOCUMENT_BYTES_MAX => {
            let url = data_url(image_type(blob)?, blob);
            Some(json!({"type": "input_image", "image_url": url, "detail": "auto"}))
        }
        ResultBlock::Document(blob) if is_pdf(blob) && blob.bytes.len() <= DOCUMENT_BYTES_MAX => {
            let name = blob.name.as_deref().unwrap_or("document.pdf");
            Some(json!({"type": "input_file", "filename": name, "file_data": data_url(PDF, blob)}))
        }
        _ => None,
    }
}

/// Encodes the result of a search, which holds definitions. What else there is to say goes beside it: an
/// error, the notes of hooks, tools that the model has already. Without `tools` it holds everything that was
/// found.
fn encode_search(id: &str, result: &ToolResult, tools: Option<&ToolDefinitions>) -> EncodedResult {
    let mut notes: Vec<String> = result.error().map(|error| error.message().to_owned()).into_iter().collect();
    let mut definitions = Vec::new();
    for tool in found_tools(result) {
        let (name, description) = (tool["name"].as_str(), tool["description"].as_str());
        let Some(name) = name else { continue };
        if tools.is_some_and(|tools| !tools.is_referable(name)) {
            notes.push(format!("{name} is among your tools already"));
            continue;
        }
        match deferred_definition(name, description.unwrap_or_default(), &tool["input_schema"]) {
            Ok(definition) => definitions.push(definition),
            Err(SchemaRefusal(reason)) => notes.push(format!("{name} can't be shown to you: {reason}")),
        }
    }
    notes.extend(result.notes().iter().cloned());
    let output = json!({
        "type": "tool_search_output", "call_id": id, "execution": "client", "status": "completed", "tools": definitions,
    });
    (output, (!notes.is_empty()).then(|| notes.join("\n")))
}

fn deferred_definition(name: &str, description: &str, schema: &Value) -> Result<Value, SchemaRefusal> {
    let json =
        super::write_definition(name, description, &encode_schema(schema, SchemaDialect::OpenAiStrict)?);
    let mut definition: Value = serde_json::from_str(&json).expect("definitions are JSON");
    definition["defer_loading"] = true.into();
    Ok(definition)
}

fn is_client_item(item: &Value) -> bool {
    item["execution"] != "server" && item["call_id"].is_string()
}

fn is_search_output(item: &Value) -> bool {
    item["type"] == "tool_search_output" && is_client_item(item)
}

fn found_definitions(output: &Value) -> impl Iterator<Item = &Value> {
    output["tools"].as_array().into_iter().flatten()
}

/// Returns the names of the tools whose definitions an item holds.
pub(super) fn loaded_tools(item: &Value) -> Vec<String> {
    let definitions = found_definitions(item).filter(|_| is_search_output(item));
    definitions.filter_map(|tool| Some(tool["name"].as_str()?.to_owned())).collect()
}

/// Writes a search and its output as the call of a function, for endpoints that don't know searches. `None`
/// for every other item.
pub(super) fn as_function(item: &Value) -> Option<Value> {
    if is_search_output(item) {
        let definition = |tool: &Value| json!({"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]});
        let definitions: Vec<Value> = found_definitions(item).map(definition).collect();
        let output = if definitions.is_empty() {
            error_text("nothing was found")
        } else {
            Value::Array(definitions).to_string()
        };
        return Some(json!({"type": "function_call_output", "call_id": item["call_id"], "output": output}));
    }
    if item["type"] != "tool_search_call" || !is_client_item(item) {
        return None;
    }
    let arguments = item["arguments"].as_str().map_or_else(|| item["arguments"].to_string(), str::to_owned);
    // Its id is that of another kind of item, and is optional.
    Some(json!({
        "type": "function_call", "call_id": item["call_id"], "name": TOOL_SEARCH, "arguments": arguments,
    }))
}
