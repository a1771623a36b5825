//! The run as plain lines, for pipes, logs and simple terminals.

use std::path::Path;
use std::time::Instant;

use haft::view::{CallStage, CallView};
use haft_agent::RunEvent;

use crate::style::Line;
use crate::transcript::RunTranscript;

/// Converts the events of a run to the finished lines that a screen would print.
///
/// ```
/// use haft_agent::{ReplyDelta, RunEvent};
/// use haft_terminal::PlainLines;
///
/// let mut lines = PlainLines::new(80, ".");
/// let text = |text: &str| RunEvent::Model(ReplyDelta::Text(text.into()));
/// assert!(lines.event(text("Hello *you")).is_empty(), "the line isn't finished");
/// let finished = lines.event(text("*.\n"));
/// assert_eq!(finished[0].text(), "● Hello you.");
/// ```
pub struct PlainLines(RunTranscript);

impl PlainLines {
    /// Creates a converter for lines of at most `columns` columns; paths inside the working
    /// directory are shown relative to it.
    pub fn new(columns: usize, cwd: impl AsRef<Path>) -> PlainLines {
        PlainLines(RunTranscript::new(columns.max(20), cwd.as_ref(), Instant::now()))
    }

    /// Sets the views for calls that did not run.
    #[must_use]
    pub fn views(
        mut self,
        views: impl Fn(&str, &CallStage<'_>) -> Option<CallView> + Send + Sync + 'static,
    ) -> PlainLines {
        self.0.set_views(std::sync::Arc::new(views));
        self
    }

    /// Hides the user's first message.
    #[must_use]
    pub fn hide_first_words(mut self) -> PlainLines {
        self.0.hide_first_message();
        self
    }

    /// Processes an event, and returns the lines that it finished.
    pub fn event(&mut self, event: RunEvent) -> Vec<Line> {
        self.0.event(event, Instant::now());
        self.0.take()
    }
}
