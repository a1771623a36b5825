//! A model's message while it arrives: bytes in, deltas out, and at the end the message as it must be sent
//! back.
//!
//! A [`MessageReader`] splits server-sent events and gives each to the decoder of its wire. The decoders know
//! the events of their provider; what must hold for all of them is in the draft: a call is ready only when
//! its input is a whole JSON value, calls get ready in the order of the message, and everything has a limit.
//!
//! A call whose input isn't whole JSON at the end of its block waits for the end of the message, with every
//! call after it. Only there it is known whether the model wrote nonsense (the error of that call) or was cut
//! off (which is never run).
//!
//! Connections, retries and tools are not known here.

use std::fmt;

use haft::sse::{EventReader, EventTooLarge, ServerSentEvent};
use haft_agent::{FailureKind, ModelFailure, ModelReply, ReplyDelta};

use crate::Wire;
use crate::decode_message::{ModelMessage, decode_into, open_message};
use crate::limits::{STREAM_BYTES_MAX, STREAM_LINE_BYTES_MAX};
use crate::wire::MessageDecoder;
use crate::wire::decoder::{DecodeError, is_json, unreadable_event};
use crate::wire::json_text::JsonText;
use crate::wire::message_draft::MessageDraft;

/// Reads one streamed message.
///
/// ```
/// use haft_provider::stream::MessageReader;
/// use haft_agent::{ReplyDelta, StopReason};
/// use haft_provider::Wire;
///
/// let mut reader = MessageReader::new(Wire::OpenAiChat);
/// let mut deltas = Vec::new();
/// reader.feed(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel", &mut deltas);
/// reader.feed(b"lo\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", &mut deltas);
/// assert!(deltas.contains(&ReplyDelta::Text("Hello".into())));
///
/// let reply = reader.finish(&mut deltas);
/// assert_eq!((reply.text(), reply.stop()), ("Hello", &StopReason::End));
/// ```
#[derive(Debug)]
pub struct MessageReader {
    events: EventReader,
    draft: MessageDraft,
    decoder: Box<dyn MessageDecoder>,
    bytes: u64,
}

impl Clone for MessageReader {
    fn clone(&self) -> MessageReader {
        let (events, draft, decoder) = (self.events.clone(), self.draft.clone(), self.decoder.clone_box());
        MessageReader { events, draft, decoder, bytes: self.bytes }
    }
}

impl PartialEq for MessageReader {
    fn eq(&self, other: &MessageReader) -> bool {
        (&self.events, &self.draft, self.bytes) == (&other.events, &other.draft, other.bytes)
            && self.decoder.is_equal(&*other.decoder)
    }
}

impl MessageReader {
    /// A reader for one message of this wire.
    pub fn new(wire: Wire) -> MessageReader {
        MessageReader {
            events: EventReader::new(STREAM_LINE_BYTES_MAX),
            draft: MessageDraft::for_stream(wire),
            decoder: (wire.format().decoder)(),
            bytes: 0,
        }
    }

    /// Takes bytes as they came, wherever they were split, and adds what they say to `out`.
    ///
    /// What comes after the end of the message, or after something that can't be read, is not looked at.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<ReplyDelta>) {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > STREAM_BYTES_MAX {
            let words = format!("the stream is longer than {STREAM_BYTES_MAX} bytes");
            self.draft.fail(ModelFailure::new(FailureKind::TooLarge, words));
        }
        let MessageReader { events, draft, decoder, .. } = self;
        if draft.is_over() {
            return;
        }
        std::mem::swap(out, &mut draft.out);
        let give = |sent: ServerSentEvent<'_>| {
            if let Some(data) = sent.data {
                decode_event(&mut **decoder, draft, &data);
            }
        };
        if let Err(EventTooLarge) = events.feed(bytes, give) {
            let words = format!("the stream has a line longer than {STREAM_LINE_BYTES_MAX} bytes");
            draft.fail(ModelFailure::new(FailureKind::TooLarge, words));
        }
        std::mem::swap(out, &mut draft.out);
    }

    /// Whether the message has ended; nothing that follows is read.
    pub fn is_over(&self) -> bool {
        self.draft.is_over()
    }

    /// Whether the message came to a valid end.
    pub fn is_whole(&self) -> bool {
        self.draft.is_whole()
    }

    /// Whether anything came that somebody may have seen: text, thinking, a call.
    pub fn has_content(&self) -> bool {
        self.draft.has_content()
    }

    /// How many calls got ready: these may have been run.
    pub fn calls_ready(&self) -> usize {
        self.draft.calls_ready()
    }

    /// What went wrong, if something did.
    pub fn failure(&self) -> Option<&ModelFailure> {
        self.draft.failure()
    }

    /// Ends the message, wherever it is: what came becomes a reply that can be sent back and whose calls can
    /// be answered.
    pub fn finish(mut self, out: &mut Vec<ReplyDelta>) -> ModelReply {
        self.take_rest(out);
        finish_reply(self.draft, self.decoder)
    }

    /// Ends the message for its calls alone, as they are found in a message that came whole.
    pub(crate) fn finish_message(mut self, out: &mut Vec<ReplyDelta>) -> ModelMessage {
        self.take_rest(out);
        self.draft.end_of_bytes();
        self.decoder.take_items(&mut self.draft);
        self.draft.into_message()
    }

    /// Takes the last event, which may lack its line end.
    fn take_rest(&mut self, out: &mut Vec<ReplyDelta>) {
        let MessageReader { events, draft, decoder, .. } = self;
        std::mem::swap(out, &mut draft.out);
        events.finish(|sent| {
            let Some(data) = sent.data.as_deref() else { return };
            // The last line of a stream that was cut may be half an event, which is not worth an error of its
            // own.
            let is_whole = data.trim_end().ends_with('}') && is_json(data);
            if is_whole || data == DONE {
                decode_event(&mut **decoder, draft, data);
            }
        });
        std::mem::swap(out, &mut draft.out);
    }
}

/// What some streams say after their last event.
const DONE: &str = "[DONE]";

fn decode_event(decoder: &mut dyn MessageDecoder, draft: &mut MessageDraft, data: &str) {
    if draft.is_over() {
        return;
    }
    if data == DONE {
        return draft.close();
    }
    let event = match JsonText::new_event(data) {
        Ok(event) => event,
        Err(error) => return draft.fail(unreadable_event(error)),
    };
    let event = event.required_object("an event object").map_err(DecodeError::from);
    if let Err(error) = event.and_then(|event| decoder.decode_event(&event, draft)) {
        draft.fail_decoding(error, data);
    }
}

/// Makes a reply of what came.
fn finish_reply(mut draft: MessageDraft, mut decoder: Box<dyn MessageDecoder>) -> ModelReply {
    draft.end_of_bytes();
    let items = decoder.take_items(&mut draft);
    draft.into_reply(items)
}

/// Reads a whole response, one that wasn't streamed: a stream of one event.
///
/// # Errors
/// A body that is no response of this wire.
pub fn read_response(wire: Wire, body: &str) -> Result<ModelReply, ModelFailure> {
    decode_response(wire, body)
}

/// The same, which drops the body as soon as it was read: a long answer is stored no more often than it must
/// be.
pub(crate) fn decode_response(wire: Wire, body: impl AsRef<str>) -> Result<ModelReply, ModelFailure> {
    let mut draft = MessageDraft::for_reply(wire);
    let malformed = |reason: &dyn fmt::Display| ModelFailure::new(FailureKind::Malformed, reason.to_string());
    let message = open_message(body.as_ref()).map_err(|bad| malformed(&bad))?;
    if !message.is_object() {
        return Err(malformed(&format!("{} came; a response object is accepted", message.shown())));
    }
    let decoder = decode_into(message, wire, &mut draft).map_err(|error| match error {
        DecodeError::Failure(failure) => failure,
        DecodeError::Message(error) => malformed(&error.locate(body.as_ref())),
    })?;
    drop(body);
    Ok(finish_reply(draft, decoder))
}
