//! The same story as lines, for pipes, logs and terminals that can do no more.

use std::path::Path;
use std::time::Instant;

use haft::view::{Stage, View};
use haft_agent::RunEvent;

use crate::style::Line;
use crate::transcript::RunTranscript;

/// Turns the events of a run into the lines that a screen would have finished.
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
    /// Lines of at most so many columns; paths inside of the working directory are shown from there.
    pub fn new(columns: usize, cwd: impl AsRef<Path>) -> PlainLines {
        PlainLines(RunTranscript::new(columns.max(20), cwd.as_ref(), Instant::now()))
    }

    /// Shows calls that were not run by these views.
    #[must_use]
    pub fn views(
        mut self,
        views: impl Fn(&str, &Stage<'_>) -> Option<View> + Send + Sync + 'static,
    ) -> PlainLines {
        self.0.set_views(std::sync::Arc::new(views));
        self
    }

    /// The first words of the user are not shown.
    #[must_use]
    pub fn hide_first_words(mut self) -> PlainLines {
        self.0.hide_said();
        self
    }

    /// Takes an event; gives the lines that are finished with it.
    pub fn event(&mut self, event: RunEvent) -> Vec<Line> {
        self.0.event(event, Instant::now());
        self.0.take()
    }
}
