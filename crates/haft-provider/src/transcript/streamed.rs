//! One message as a provider streamed it: server-sent events, or one event a line. The calls are there,
//! results are not.

use super::{InvalidTranscript, PastCall, PastConversation, TranscriptForm};
use crate::Wire;
use crate::limits::TRANSCRIPT_CALLS_MAX;
use crate::stream::MessageReader;
use crate::wire::json_text::JsonText;

/// Returns the wire of an event, if it is the first one of a stream.
pub(super) fn wire_of(event: JsonText<'_>) -> Option<Wire> {
    let fields = event.object().ok()??;
    Wire::ALL.into_iter().find(|wire| (wire.format().owns_event)(&fields))
}

/// Server-sent events.
pub(super) fn read_sse(text: &str) -> Result<PastConversation, InvalidTranscript> {
    let events =
        text.lines().enumerate().filter_map(|(at, line)| Some((at, line.strip_prefix("data:")?.trim())));
    for (at, data) in events {
        let Ok(event) = JsonText::new(data) else { continue };
        let Some(wire) = wire_of(event) else {
            let words = "the stream doesn't begin as one of Anthropic, OpenAI or Gemini does";
            return Err(InvalidTranscript::at(at + 1, words));
        };
        return Ok(read_stream(wire, text.as_bytes()));
    }
    Err(InvalidTranscript::whole("the stream has no event with data"))
}

/// One event a line.
pub(super) fn read_event_lines(text: &str, wire: Wire) -> Result<PastConversation, InvalidTranscript> {
    let mut stream = String::with_capacity(text.len() + text.len() / 8);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        stream.push_str("data: ");
        stream.push_str(line);
        stream.push_str("\n\n");
    }
    Ok(read_stream(wire, stream.as_bytes()))
}

fn read_stream(wire: Wire, bytes: &[u8]) -> PastConversation {
    let mut deltas = Vec::new();
    let mut reader = MessageReader::new(wire);
    reader.feed(bytes, &mut deltas);
    let message = reader.finish_message(&mut deltas);
    let passed_over = message.passed_over().to_vec();
    let requested = message.into_requested().into_iter().take(TRANSCRIPT_CALLS_MAX);
    let calls: Vec<PastCall> = requested
        .map(|(id, name, input)| PastCall { id, name, input, turn: 1, line: 1, agent: None, result: None })
        .collect();
    PastConversation {
        form: Some(TranscriptForm::Stream(wire)),
        calls,
        passed_over,
        ..PastConversation::default()
    }
}
