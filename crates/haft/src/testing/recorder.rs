//! A journal in memory.

use std::sync::{Arc, Mutex};

use haft_scheduler::sync::lock;
use serde_json::Value;

use crate::future::BoxFuture;
use crate::ports::{CallIntent, RecordError, Recorder};
use crate::result::ToolResult;

/// A [`Recorder`] that keeps intents and results in order, and refuses when it is told to.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use haft::testing::{TestCaller, MemoryRecorder, scripted_tool};
/// use haft::Effects;
/// use serde_json::json;
/// use std::sync::Arc;
///
/// let recorder = MemoryRecorder::new();
/// let (read, _) = scripted_tool("read").effects(|_| Effects::none()).then("text").build();
/// let port = Arc::new(recorder.clone());
/// let caller = TestCaller::new().tool(read).engine(|engine| engine.ports(|ports| ports.recorder = Some(port)));
/// caller.turn([("1", "read", json!({}))]).await;
/// assert_eq!(recorder.lines(), ["before 1 read, by its effects", "after 1 ok"]);
/// # }
/// ```
#[derive(Clone, Default)]
pub struct MemoryRecorder(Arc<Mutex<RecorderState>>);

#[derive(Default)]
struct RecorderState {
    notes: Vec<RecordedNote>,
    before: RecorderFault,
    after: RecorderFault,
}

#[derive(Clone, Default)]
enum RecorderFault {
    #[default]
    None,
    Refuses(String),
    Panics,
}

/// What a [`MemoryRecorder`] was told.
#[derive(Debug, Clone)]
pub enum RecordedNote {
    /// A call is about to run.
    Before {
        /// The turn.
        turn: u64,
        /// The call's id.
        call_id: String,
        /// The tool.
        tool: String,
        /// The input.
        input: Value,
        /// Whether it can change anything.
        side_effects: bool,
        /// Whether it may be run again after a crash.
        rerunnable: bool,
        /// Who allowed it.
        allowed_by: String,
    },
    /// A call has its result.
    After(ToolResult),
}

impl MemoryRecorder {
    /// A recorder that takes everything.
    pub fn new() -> MemoryRecorder {
        MemoryRecorder::default()
    }

    /// Refuses intents from now on.
    pub fn refuse(&self, words: impl Into<String>) {
        lock(&self.0).before = RecorderFault::Refuses(words.into());
    }

    /// Refuses results from now on.
    pub fn refuse_results(&self, words: impl Into<String>) {
        lock(&self.0).after = RecorderFault::Refuses(words.into());
    }

    /// Panics at intents and results from now on.
    pub fn panic(&self) {
        let mut book = lock(&self.0);
        (book.before, book.after) = (RecorderFault::Panics, RecorderFault::Panics);
    }

    /// Takes everything again.
    pub fn accept(&self) {
        let mut book = lock(&self.0);
        (book.before, book.after) = (RecorderFault::None, RecorderFault::None);
    }

    /// What was taken, in order; refused notes are not among it.
    pub fn notes(&self) -> Vec<RecordedNote> {
        lock(&self.0).notes.clone()
    }

    /// What was taken, a line each.
    pub fn lines(&self) -> Vec<String> {
        let line = |note: &RecordedNote| match note {
            RecordedNote::Before { call_id, tool, allowed_by, .. } => {
                format!("before {call_id} {tool}, by {allowed_by}")
            }
            RecordedNote::After(result) => match result.error_kind() {
                None => format!("after {} ok", result.call_id()),
                Some(kind) => format!("after {} {kind:?}", result.call_id()),
            },
        };
        lock(&self.0).notes.iter().map(line).collect()
    }

    fn take(
        &self,
        note: RecordedNote,
        trouble: impl FnOnce(&RecorderState) -> &RecorderFault,
    ) -> Result<(), RecordError> {
        let trouble = trouble(&lock(&self.0)).clone();
        match trouble {
            RecorderFault::None => lock(&self.0).notes.push(note),
            RecorderFault::Refuses(message) => return Err(RecordError { message }),
            RecorderFault::Panics => panic!("a memory recorder was told to panic"),
        }
        Ok(())
    }
}

impl Recorder for MemoryRecorder {
    fn before<'a>(&'a self, intent: &'a CallIntent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
        let note = RecordedNote::Before {
            turn: intent.turn,
            call_id: intent.call_id.to_owned(),
            tool: intent.tool.to_owned(),
            input: intent.input.clone(),
            side_effects: intent.side_effects,
            rerunnable: intent.rerunnable,
            allowed_by: intent.decision.allowed_by().to_owned(),
        };
        Box::pin(async move { self.take(note, |book| &book.before) })
    }

    fn after<'a>(
        &'a self,
        _: &'a CallIntent<'a>,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Result<(), RecordError>> {
        Box::pin(async move { self.take(RecordedNote::After(result.clone()), |book| &book.after) })
    }
}
