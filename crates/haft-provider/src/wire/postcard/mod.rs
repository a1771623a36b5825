//! A made-up wire for tests: what a wire needs, in one folder, without a change elsewhere but its
//! registration.
//!
//! A message is a card with lines. A line is text (`say`) or a call (`do`, `no`, `with`), and `end` says why
//! the card ends. A stream is cards with more lines.

use haft::ToolResult;
use haft_agent::{CallKind, ModelRequest, RequestedCall, StopReason, ToolDefinitions, UserPart};
use serde_json::{Map, Value, json};

use super::decoder::{DecodeResult, MessageDecoder, input_value, message_with, required_member};
use super::json_text::{JsonObject, JsonText};
use super::message_draft::{MessageDraft, TextRanges};
use super::request_history::{RequestHistory, required_list, value_text};
use super::result_content::{error_text, result_text};
use super::script_message::{ScriptMessage, ScriptTarget, plain_event, split_text};
use super::{EncodedResult, PartKind, ResultFormat, ScriptFormat, WireFormat};
use crate::definitions::{DefinitionFormat, json_text};
use crate::request::{RequestBody, RequestOptions, tools_json, write_json};
use crate::scripted::StopKind;
use crate::transcript::content_text;

pub(super) static WIRE: WireFormat = WireFormat {
    name: "postcard",
    key_variable: "POSTCARD_KEY",
    base_url_variable: "POSTCARD_URL",
    base_url: "https://postcard.example",
    request_url: |base, model, _| Ok(format!("{base}/cards/{model}")),
    request_headers: |key| key.map(|key| ("stamp", key.to_owned())).into_iter().collect(),
    definitions: DefinitionFormat::plain(|name, _, schema| {
        format!("{{\"can\":{},\"takes\":{}}}", json_text(name), schema.json)
    }),
    search_tool: None,
    supports_deferral: |_| false,
    write_request,
    decoder: || Box::new(CardDecoder::default()),
    owns_frame: |fields| Ok(fields.has("card")),
    owns_event: |event| event.has("card"),
    classify_part: |line| match () {
        () if line.has("do") => Some(PartKind::Call("do")),
        () if line.has("did") => Some(PartKind::Result),
        () => line.has("say").then_some(PartKind::Other),
    },
    wrapping_keys: &[],
    part_keys: &["card"],
    history_key: "post",
    content_key: "card",
    text_key: "say",
    has_item_list: false,
    has_answers_in_user_message: true,
    user_part: |part| match part {
        UserPart::Text(text) => json!({"say": text}),
        UserPart::Image(blob) => json!({"picture": blob.to_base64()}),
    },
    user_item: |lines| message_with("user", "card", lines),
    encode_result,
    encode_note: |note| json!({"say": note}),
    results: ResultFormat {
        wrapper: None,
        id_key: "did",
        content_key: "said",
        is_clearable: |line| line["did"].is_string(),
        clear: Value::String,
    },
    loaded_tools: |_| Vec::new(),
    awaits_reply: |item| item["role"] == "user",
    unnamed_call: |_| None,
    past_result: |line| {
        Ok((line.string("did").unwrap_or_default().into_owned(), content_text(line.get("said"))))
    },
    script: ScriptFormat {
        base_path: "",
        call_prefix: "card",
        parse_path: |path| path.ends_with("/cards").then(ScriptTarget::default),
        read_history,
        write_events,
        write_response: |message| card_object(message, card_lines(message), true),
        write_error: |status, kind, message| json!({"error": {"code": status, "type": kind, "message": message}}),
        write_error_event: plain_event,
    },
};

fn write_request(options: &RequestOptions, request: &ModelRequest<'_>, body: &mut RequestBody<'_>) {
    body.put("to", &json!(options.model));
    if let Some(tools) = tools_json(request) {
        body.raw("tools", |json| json.push_str(tools));
    }
    body.put_stream(options);
    body.list("post", request.conversation.items().iter(), |item, json| write_json(json, item));
}

fn encode_result(call: &RequestedCall, result: &ToolResult, _: Option<&ToolDefinitions>) -> EncodedResult {
    (json!({"did": &*call.call.id, "said": result_text(result)}), None)
}

#[derive(Debug, Clone, Default, PartialEq)]
struct CardDecoder {
    calls: Vec<(usize, Value)>,
    text: TextRanges,
}

impl MessageDecoder for CardDecoder {
    fn decode_event(&mut self, event: &JsonObject<'_>, draft: &mut MessageDraft) -> DecodeResult {
        draft.check_error(event.get("error"))?;
        draft.start(event.string("from"));
        let end = event.string("end").unwrap_or_default();
        let lines = event.items("card");
        for (at, line) in (1..).zip(&lines) {
            let line = line.required_object("a line")?;
            if !line.has("do") {
                draft.text(line.text("say")?, &mut self.text)?;
                continue;
            }
            let (id, name) =
                (required_member(&line, "no", "the call")?, required_member(&line, "do", "the call")?);
            let (call, input) = (draft.begin(&id, &name)?, line.get("with").map_or("{}", JsonText::text));
            if end == "cut" && at == lines.len() {
                draft.refuse_cut(CallKind::Function, call, &id, &name)
            } else {
                draft.end_call(CallKind::Function, call, &id, &name, input)
            }
            self.calls.push((call, json!({"do": name, "no": id, "with": input_value(input)})));
        }
        match &*end {
            "" => {}
            "cut" => draft.stop(StopReason::MaxTokens { in_call: true }),
            _ => draft.stop(StopReason::End),
        }
        Ok(())
    }

    fn decode_message(&mut self, message: JsonText<'_>, draft: &mut MessageDraft) -> DecodeResult {
        let card = message.required_object("a card")?;
        if !card.has("card") && !card.has("error") {
            return Err(card.error("the message has no `card`; an array is required").into());
        }
        self.decode_event(&card, draft)
    }

    fn take_items(&mut self, draft: &mut MessageDraft) -> Vec<Value> {
        let calls = self.calls.drain(..).filter(|(call, _)| draft.has_answer(*call));
        let mut lines: Vec<Value> = calls.map(|(_, line)| line).collect();
        if !draft.is_blank(&self.text) {
            lines.insert(0, json!({"say": draft.text_of(&self.text)}));
        }
        if lines.is_empty() { Vec::new() } else { vec![message_with("assistant", "card", lines)] }
    }
}

fn read_history(body: &Map<String, Value>, history: &mut RequestHistory) -> Result<(), String> {
    for item in required_list(body, "post")? {
        let lines = item["card"].as_array().into_iter().flatten();
        if item["role"] == "assistant" {
            history.begin_message();
            let calls = lines.filter(|line| line.get("do").is_some());
            calls.for_each(|call| history.push_call(value_text(call.get("no")), value_text(call.get("do"))));
            continue;
        }
        for line in lines {
            match line["did"].as_str() {
                Some(id) => {
                    let said = value_text(line.get("said"));
                    let is_error = said.starts_with(&error_text(""));
                    history.push_result(id, said, None, is_error)?;
                }
                None => history.push_user(value_text(line.get("say"))),
            }
        }
    }
    Ok(())
}

fn card_lines(message: &ScriptMessage) -> Vec<Value> {
    let text = (!message.text.is_empty()).then(|| json!({"say": message.text}));
    let call = |at: usize| json!({"do": message.calls[at].name, "no": message.calls[at].id, "with": message.input_value(at)});
    text.into_iter().chain((0..message.calls.len()).map(call)).collect()
}

fn card_object(message: &ScriptMessage, lines: Vec<Value>, is_last: bool) -> Value {
    let end = match message.stopping() {
        _ if !is_last => Value::Null,
        StopKind::MaxTokens => "cut".into(),
        _ => "done".into(),
    };
    json!({"from": message.model, "card": lines, "end": end})
}

fn write_events(message: &ScriptMessage, chunk_chars: usize) -> Vec<String> {
    let mut calls = card_lines(message);
    if !message.text.is_empty() {
        calls.remove(0);
    }
    let text = split_text(&message.text, chunk_chars)
        .map(|piece| card_object(message, vec![json!({"say": piece})], false));
    let cards = text.chain([card_object(message, calls, true)]);
    cards.map(|card| plain_event(&card)).collect()
}
