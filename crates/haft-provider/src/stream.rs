//! A model's message while it arrives: bytes in, what they say out, and at the end the message as it must be sent back.
//!
//! A [`Reader`] splits server-sent events by itself and gives each to the assembler of its wire. The four assemblers
//! know their provider's events; everything that must hold for all of them is in the draft: a call is ready only when
//! its input is a whole JSON value, calls get ready in the order of the message, and everything is bounded.
//!
//! What a reader would question: a call whose input isn't whole JSON at the end of its block waits for the end of the
//! message, with every call after it. Only there it is known whether the model wrote nonsense (which is that call's
//! error) or was cut off (which is never run).
//!
//! Connections, retries and tools are not known here.

mod anthropic;
mod draft;
mod gemini;
mod openai;
mod openai_chat;

use haft::sse::{Event, EventReader, EventTooLarge};

use self::draft::{Draft, Read};
use crate::decode::{Message, decode};
use crate::limits::{STREAM_BYTES_MAX, STREAM_LINE_BYTES_MAX};
use crate::{BadMessage, Wire};
use haft_agent::{FailureKind, ModelFailure, ModelReply, ReplyDelta};

/// Reads one streamed message.
///
/// ```
/// use haft_provider::stream::Reader;
/// use haft_agent::{ReplyDelta, StopReason};
/// use haft_provider::Wire;
///
/// let mut reader = Reader::new(Wire::OpenAiChat);
/// let mut deltas = Vec::new();
/// reader.feed(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel", &mut deltas);
/// reader.feed(b"lo\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", &mut deltas);
/// assert!(deltas.contains(&ReplyDelta::Text("Hello".into())));
///
/// let reply = reader.finish(&mut deltas);
/// assert_eq!((reply.text(), reply.stop()), ("Hello", &StopReason::End));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Reader {
    events: EventReader,
    draft: Draft,
    assembler: Assembler,
    bytes: u64,
}

/// What knows the events of one provider.
trait Assemble {
    /// Takes an event's data.
    fn event(&mut self, data: &str, draft: &mut Draft) -> Read;

    /// Takes a whole response, one that wasn't streamed: for some wires what a stream has one of after the other.
    fn whole(&mut self, body: &str, draft: &mut Draft) -> Read {
        self.event(body, draft)
    }

    /// Gives the message as it is sent back.
    fn items(&mut self, draft: &mut Draft) -> Vec<serde_json::Value>;
}

#[derive(Debug, Clone, PartialEq)]
enum Assembler {
    Anthropic(anthropic::Blocks),
    OpenAi(openai::Items),
    OpenAiChat(openai_chat::Chunks),
    Gemini(gemini::Parts),
}

impl Assembler {
    fn new(wire: Wire) -> Assembler {
        match wire {
            Wire::Anthropic => Assembler::Anthropic(Default::default()),
            Wire::OpenAi => Assembler::OpenAi(Default::default()),
            Wire::OpenAiChat => Assembler::OpenAiChat(Default::default()),
            Wire::Gemini => Assembler::Gemini(Default::default()),
        }
    }

    fn inner(&mut self) -> &mut dyn Assemble {
        match self {
            Assembler::Anthropic(blocks) => blocks,
            Assembler::OpenAi(items) => items,
            Assembler::OpenAiChat(chunks) => chunks,
            Assembler::Gemini(parts) => parts,
        }
    }
}

impl Reader {
    /// A reader for one message of this wire.
    pub fn new(wire: Wire) -> Reader {
        Reader {
            events: EventReader::new(STREAM_LINE_BYTES_MAX),
            draft: Draft::new(wire),
            assembler: Assembler::new(wire),
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
        let Reader { events, draft, assembler, .. } = self;
        if draft.is_over() {
            return;
        }
        std::mem::swap(out, &mut draft.out);
        let give = |sent: Event<'_>| {
            if let Some(data) = sent.data {
                event(assembler, draft, &data);
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

    /// Ends the message, wherever it is: what came becomes a reply that can be sent back and whose calls can be
    /// answered.
    pub fn finish(mut self, out: &mut Vec<ReplyDelta>) -> ModelReply {
        self.take_rest(out);
        reply(self.draft, self.assembler)
    }

    /// Ends the message for its calls alone, as they are found in a message that came whole.
    pub(crate) fn finish_message(mut self, out: &mut Vec<ReplyDelta>) -> Message {
        self.take_rest(out);
        let (mut draft, mut assembler) = (self.draft, self.assembler);
        draft.end_of_bytes();
        assembler.inner().items(&mut draft);
        draft.into_message()
    }

    /// Takes the last event, which may lack its line end.
    fn take_rest(&mut self, out: &mut Vec<ReplyDelta>) {
        let Reader { events, draft, assembler, .. } = self;
        std::mem::swap(out, &mut draft.out);
        events.finish(|sent| {
            let Some(data) = sent.data.as_deref() else { return };
            // The last line of a stream that was cut may be half an event, which is not worth an error of its own.
            let is_whole =
                data.trim_end().ends_with('}') && serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok();
            if is_whole || data == DONE {
                event(assembler, draft, data);
            }
        });
        std::mem::swap(out, &mut draft.out);
    }
}

/// What some streams say after their last event.
const DONE: &str = "[DONE]";

fn event(assembler: &mut Assembler, draft: &mut Draft, data: &str) {
    if draft.is_over() {
        return;
    }
    if data == DONE {
        draft.close();
    } else if let Err(failure) = assembler.inner().event(data, draft) {
        draft.fail(failure);
    }
}

/// What came, as a reply.
fn reply(mut draft: Draft, mut assembler: Assembler) -> ModelReply {
    draft.end_of_bytes();
    let items = assembler.inner().items(&mut draft);
    draft.into_reply(items)
}

/// Reads a whole response, one that wasn't streamed.
///
/// # Errors
/// A body that is no response of this wire.
pub fn whole(wire: Wire, body: &str) -> Result<ModelReply, ModelFailure> {
    whole_of(wire, body)
}

/// The same, which lets go of the body as soon as it was read: a long answer is kept no more often than it must be.
pub(crate) fn whole_of(wire: Wire, body: impl AsRef<str>) -> Result<ModelReply, ModelFailure> {
    let malformed = |bad: BadMessage| ModelFailure::new(FailureKind::Malformed, bad.to_string());
    let (mut draft, mut assembler) = (Draft::silent(wire), Assembler::new(wire));
    assembler.inner().whole(body.as_ref(), &mut draft)?;
    if let Some(failure) = draft.failure() {
        return Err(failure.clone());
    }
    // The reader of messages sees inputs as they were written, which a stream's events can't always show.
    let message = decode(body.as_ref(), Some(wire));
    drop(body);
    let reply = reply(draft, assembler);
    match reply.items().is_empty() {
        true => Ok(reply),
        false => Ok(reply.with_requested(message.map_err(malformed)?.requested)),
    }
}
