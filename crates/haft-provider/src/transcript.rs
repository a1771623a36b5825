//! Conversations that were held earlier, read back as calls and what came of them: for replaying and
//! comparing.
//!
//! A file may be a whole request or response of any [wire](crate::Wire), a list of messages or items, one of
//! these a line, a stream as a provider sent it, or the events of a run: those of
//! `haft run --output stream-json`, its `--output json`, and those that Claude Code writes. The shape says
//! which; nobody has to. A call's input stays the text that it was: whether it is valid is for whoever
//! replays it to say. What is wrong with the frame (no JSON, a call without an id) is an error with its line.
//!
//! ```
//! let text = r#"[
//!   {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a"}}]},
//!   {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "1\tone"}]}
//! ]"#;
//! let transcript = haft_provider::transcript::read_transcript(text)?;
//! let call = &transcript.calls[0];
//! assert_eq!((call.name.as_str(), call.turn, call.line), ("Read", 1, 2));
//! assert_eq!(call.result.as_ref().unwrap().text, "1\tone");
//! # Ok::<(), haft_provider::transcript::InvalidTranscript>(())
//! ```

mod events;
mod items;
mod streamed;

pub(crate) use self::items::content_text;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::PathBuf;

use haft::schema::not_json;

use crate::limits::{TRANSCRIPT_BYTES_MAX, TRANSCRIPT_CALLS_MAX, TRANSCRIPT_LINES_MAX};
use crate::wire::json_text::JsonText;

/// What a conversation was.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct PastConversation {
    /// What kind of file it is; none where it has no calls.
    pub form: Option<TranscriptForm>,
    /// Where it was held, where that is said.
    pub cwd: Option<PathBuf>,
    /// Its calls, in the order in which the model made them.
    pub calls: Vec<PastCall>,
    /// Kinds of parts that a provider answers itself and no tool does, such as `shell_call`, each once.
    pub passed_over: Vec<String>,
    /// Results that answer no call of the file.
    pub stray_results: usize,
}

/// What kind of file a transcript is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TranscriptForm {
    /// Messages of a provider.
    Messages(crate::Wire),
    /// A provider's stream.
    Stream(crate::Wire),
    /// Events or the outcome of `haft run`.
    Run,
    /// Events of Claude Code, which hold Anthropic's messages.
    ClaudeCode,
}

impl fmt::Display for TranscriptForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TranscriptForm::Messages(wire) => write!(f, "{wire} transcript"),
            TranscriptForm::Stream(wire) => write!(f, "{wire} stream"),
            TranscriptForm::Run => f.write_str("haft run events"),
            TranscriptForm::ClaudeCode => f.write_str("claude code events"),
        }
    }
}

/// A call that was made.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PastCall {
    /// Its id.
    pub id: String,
    /// The tool, as the model named it.
    pub name: String,
    /// The input as JSON text; none where it was never whole.
    pub input: Option<String>,
    /// The message of the model that it was in, from 1.
    pub turn: usize,
    /// The line of the file that it is on, from 1.
    pub line: usize,
    /// The sub-agent that made it, or the call that this one works for; none for the main one.
    pub agent: Option<String>,
    /// What came of it; none where the file doesn't say.
    pub result: Option<PastResult>,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct PastResult {
    /// The text that the model got.
    pub text: String,
    /// Whether it was an error. OpenAI's forms don't say; there the words are looked at.
    pub is_error: bool,
    /// The kind of the error, where the file knows kinds.
    pub kind: Option<String>,
    /// Pictures and documents beside the text.
    pub others: usize,
    /// Its place among all results of the file, from 0.
    pub place: usize,
}

/// Why a file is no transcript: what, and on which line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidTranscript {
    /// From 1; none for the whole file.
    pub line: Option<usize>,
    message: String,
}

impl InvalidTranscript {
    fn whole(message: impl Into<String>) -> InvalidTranscript {
        InvalidTranscript { line: None, message: message.into() }
    }

    fn at(line: usize, message: impl Into<String>) -> InvalidTranscript {
        InvalidTranscript { line: Some(line), message: message.into() }
    }
}

impl fmt::Display for InvalidTranscript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for InvalidTranscript {}

const ACCEPTED: &str = "accepted are messages of Anthropic, OpenAI or Gemini as JSON or one a line, and the events of \
                        `haft run --output stream-json` or of Claude Code";

/// Reads a file.
///
/// # Errors
/// Text that is no JSON, messages that no provider has, and more than the bounds in
/// [`limits`](crate::limits).
pub fn read_transcript(text: &str) -> Result<PastConversation, InvalidTranscript> {
    if text.len() > TRANSCRIPT_BYTES_MAX {
        let bytes = text.len();
        return Err(InvalidTranscript::whole(format!(
            "it has {bytes} bytes; at most {TRANSCRIPT_BYTES_MAX} are read"
        )));
    }
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let trimmed = body.trim_start();
    if trimmed.is_empty() {
        return Err(InvalidTranscript::whole(format!("it is empty; {ACCEPTED}")));
    }
    if trimmed.starts_with("event:") || trimmed.starts_with("data:") || trimmed.starts_with(':') {
        return streamed::read_sse(body);
    }
    let mut reading = TranscriptReader::new(text);
    let whole = match JsonText::new(body) {
        Ok(whole) => whole,
        // More than one value: one a line, if the first line is one.
        Err(error) => {
            let first = trimmed.lines().next().unwrap_or_default();
            return match JsonText::new(first) {
                Ok(first) => match streamed::wire_of(first) {
                    Some(wire) => streamed::read_event_lines(body, wire),
                    None => reading.lines(body),
                },
                Err(_) => Err(InvalidTranscript::at(error.line(), format!("no JSON: {}", not_json(&error)))),
            };
        }
    };
    if !reading.value(whole, 0)? {
        return Err(InvalidTranscript::whole(format!(
            "{} doesn't say whose messages it has; {ACCEPTED}",
            whole.shown()
        )));
    }
    Ok(reading.done())
}

/// What is collected on the way.
struct TranscriptReader<'t> {
    text: &'t str,
    /// Where lines were counted to: an offset, and its line.
    counted: (usize, usize),
    out: PastConversation,
    /// Calls by agent and id, the oldest without a result first.
    open: HashMap<(String, String), VecDeque<usize>>,
    turn: usize,
    /// Whether what comes next of the model belongs to the turn that there is.
    model_speaks: bool,
    /// The id of the message that came last, where messages come in pieces.
    message: Option<String>,
    results: usize,
    /// Whether a run's events were seen: its outcome at the end tells the same again.
    has_events: bool,
}

impl<'t> TranscriptReader<'t> {
    fn new(text: &'t str) -> TranscriptReader<'t> {
        TranscriptReader {
            text,
            counted: (0, 1),
            out: PastConversation::default(),
            open: HashMap::new(),
            turn: 0,
            model_speaks: false,
            message: None,
            results: 0,
            has_events: false,
        }
    }

    fn done(self) -> PastConversation {
        self.out
    }

    /// One value a line.
    fn lines(mut self, body: &'t str) -> Result<PastConversation, InvalidTranscript> {
        let mut understood = false;
        for (at, line) in body.lines().enumerate() {
            if at >= TRANSCRIPT_LINES_MAX {
                return Err(InvalidTranscript::at(
                    at + 1,
                    format!("more than {TRANSCRIPT_LINES_MAX} lines are not read"),
                ));
            }
            if line.trim().is_empty() {
                continue;
            }
            let value = JsonText::new(line).map_err(|error| {
                InvalidTranscript::at(at + 1, format!("no JSON: {}", describe_column(&not_json(&error))))
            })?;
            understood |= self.value(value, 0)?;
        }
        if understood {
            Ok(self.done())
        } else {
            Err(InvalidTranscript::whole(format!("none of its lines is a message or an event; {ACCEPTED}")))
        }
    }

    /// The line that a piece of the text begins on.
    fn line(&mut self, piece: &str) -> usize {
        let offset =
            (piece.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize).min(self.text.len());
        let (from, line) = if offset >= self.counted.0 { self.counted } else { (0, 1) };
        let ends = self.text.as_bytes()[from..offset].iter().filter(|byte| **byte == b'\n').count();
        self.counted = (offset, line + ends);
        line + ends
    }

    /// The model speaks, perhaps in several pieces.
    fn model(&mut self) {
        if !std::mem::replace(&mut self.model_speaks, true) {
            self.turn += 1;
        }
    }

    fn form(&mut self, form: TranscriptForm) {
        self.out.form.get_or_insert(form);
    }

    fn call(&mut self, call: PastCall) -> Result<usize, InvalidTranscript> {
        let at = self.out.calls.len();
        if at >= TRANSCRIPT_CALLS_MAX {
            return Err(InvalidTranscript::at(
                call.line,
                format!("more than {TRANSCRIPT_CALLS_MAX} calls are not read"),
            ));
        }
        let key = (call.agent.clone().unwrap_or_default(), call.id.clone());
        self.open.entry(key).or_default().push_back(at);
        self.out.calls.push(call);
        Ok(at)
    }

    fn result(&mut self, agent: Option<&str>, id: &str, result: PastResult) {
        self.model_speaks = false;
        let key = (agent.unwrap_or_default().to_owned(), id.to_owned());
        let Some(at) = self.open.get_mut(&key).and_then(VecDeque::pop_front) else {
            self.out.stray_results += 1;
            return;
        };
        let place = self.results;
        self.results += 1;
        self.out.calls[at].result = Some(PastResult { place, ..result });
    }
}

/// A place on a line that stands alone: its number in there says nothing.
fn describe_column(words: &str) -> String {
    words.replacen(" at line 1 column", " at column", 1)
}
