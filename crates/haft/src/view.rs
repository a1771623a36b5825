//! What a person is shown of a call: data that a screen lays out, never text with escape codes.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::content::ToolOutput;
use crate::error::ToolError;
use crate::limits;
use crate::text::{is_hidden, truncate_in_place};

/// The moment of a call that a view is asked for.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum CallStage<'a> {
    /// The call as the model asks for it. While the input is still streaming in, `complete` is false and
    /// parts of the input are missing.
    Use {
        /// The input, as far as it came.
        input: &'a Value,
        /// Whether that is all of it.
        complete: bool,
    },
    /// The call runs.
    Progress {
        /// The input.
        input: &'a Value,
        /// How far it is.
        progress: &'a CallProgress,
    },
    /// The call succeeded.
    Result {
        /// The input.
        input: &'a Value,
        /// What came back.
        output: &'a ToolOutput,
    },
    /// The call failed.
    Error {
        /// The input.
        input: &'a Value,
        /// Why.
        error: &'a ToolError,
    },
    /// The user said no, or a rule did.
    Rejected {
        /// The input.
        input: &'a Value,
        /// The reason that was given.
        reason: &'a str,
    },
}

impl<'a> CallStage<'a> {
    /// The input, as far as it is known.
    pub fn input(&self) -> &'a Value {
        match *self {
            CallStage::Use { input, .. }
            | CallStage::Progress { input, .. }
            | CallStage::Result { input, .. }
            | CallStage::Error { input, .. }
            | CallStage::Rejected { input, .. } => input,
        }
    }

    /// A text field of the input, if it is there already.
    pub fn text(&self, field: &str) -> Option<&'a str> {
        self.input().get(field)?.as_str()
    }
}

/// How far a running call is.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct CallProgress {
    /// Between 0 and 1, where it can be known.
    pub fraction: Option<f64>,
    /// What is being done.
    pub message: Option<String>,
}

/// What to show.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CallView {
    /// What the call is about, for example a path. One line.
    pub title: String,
    /// What came of it, for example `214 lines`. One line.
    pub summary: Option<String>,
    /// More, for those who look closer.
    pub body: Vec<ViewPart>,
}

/// A part of a view's body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ViewPart {
    /// Running text.
    Text {
        /// The text.
        text: String,
    },
    /// Text in fixed width.
    Code {
        /// The language, where known.
        language: Option<String>,
        /// The text.
        text: String,
    },
    /// A change to a file.
    Diff {
        /// The file.
        path: String,
        /// The lines, each with what happened to it.
        lines: Vec<DiffLine>,
    },
}

/// A line of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiffLine {
    /// What happened to it.
    pub change: LineChange,
    /// Its number, in the new file if it is there, else in the old one.
    pub number: usize,
    /// The line without its end.
    pub text: String,
}

/// What happened to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LineChange {
    /// Stayed.
    Same,
    /// Is new.
    Added,
    /// Is gone.
    Removed,
}

impl LineChange {
    /// The sign before the line in a listing: ` `, `+` or `-`.
    pub fn sign(self) -> char {
        match self {
            LineChange::Same => ' ',
            LineChange::Added => '+',
            LineChange::Removed => '-',
        }
    }
}

impl CallView {
    /// A view with a title.
    pub fn titled(title: impl Into<String>) -> CallView {
        CallView { title: title.into(), ..CallView::default() }
    }

    /// Says what came of it.
    #[must_use]
    pub fn summary(mut self, summary: impl Into<String>) -> CallView {
        self.summary = Some(summary.into());
        self
    }

    /// Says why, if the call failed or was refused. Otherwise the view stays as it is.
    ///
    /// ```
    /// # use haft::view::CallStage;
    /// # use haft::{ToolError, CallView};
    /// let (input, error) = (serde_json::json!({}), ToolError::new("no such page"));
    /// let view = CallView::titled("a page");
    /// assert_eq!(view.clone().why(&CallStage::Use { input: &input, complete: true }), view);
    /// assert_eq!(view.why(&CallStage::Error { input: &input, error: &error }).summary.as_deref(), Some("no such page"));
    /// ```
    #[must_use]
    pub fn why(self, stage: &CallStage<'_>) -> CallView {
        match stage {
            CallStage::Error { error, .. } => self.summary(error.message()),
            CallStage::Rejected { reason, .. } => self.summary(*reason),
            _ => self,
        }
    }

    /// Adds a part.
    #[must_use]
    pub fn with(mut self, part: ViewPart) -> CallView {
        self.body.push(part);
        self
    }

    /// The view of a tool that has none of its own.
    pub(crate) fn default_for(_tool: &str, stage: &CallStage<'_>) -> CallView {
        let view = CallView::titled(format_arguments(stage.input()));
        match stage {
            CallStage::Use { .. } => view,
            CallStage::Progress { progress, .. } => CallView {
                summary: progress.message.clone().or_else(|| format_percent(progress.fraction)),
                ..view
            },
            CallStage::Result { output, .. } => {
                let text = output.to_text();
                let lines = text.lines().count();
                let summary = if lines > 1 { format!("{lines} lines") } else { text.clone() };
                let text_part = (lines > 1).then_some(ViewPart::Text { text });
                CallView { summary: Some(summary), body: text_part.into_iter().collect(), ..view }
            }
            CallStage::Error { .. } | CallStage::Rejected { .. } => view.why(stage),
        }
    }

    /// The view with everything that a terminal would obey made visible, and with bounded lengths.
    pub(crate) fn harmless(mut self) -> CallView {
        self.title = one_line(&self.title);
        self.summary = self.summary.as_deref().map(one_line);
        self.body.truncate(limits::VIEW_PARTS_MAX);
        for part in &mut self.body {
            match part {
                ViewPart::Text { text } | ViewPart::Code { text, .. } => {
                    *text = escape_invisible(text).into_owned();
                    truncate_in_place(text, limits::VIEW_CHARS_MAX);
                }
                ViewPart::Diff { path, lines } => {
                    *path = one_line(path);
                    lines.truncate(limits::VIEW_LINES_MAX);
                    lines.iter_mut().for_each(|line| line.text = one_line(&line.text));
                }
            }
        }
        self
    }
}

/// The arguments of a call on one line: a single text as it is, else compact JSON.
fn format_arguments(input: &Value) -> String {
    match input.as_object() {
        Some(fields) if fields.len() == 1 => match fields.values().next() {
            Some(Value::String(text)) => text.clone(),
            _ => input.to_string(),
        },
        Some(fields) if fields.is_empty() => String::new(),
        None if input.is_null() => String::new(),
        _ => input.to_string(),
    }
}

fn format_percent(fraction: Option<f64>) -> Option<String> {
    fraction.map(|fraction| format!("{:.0} %", fraction.clamp(0.0, 1.0) * 100.0))
}

/// Escapes [hidden](is_hidden) characters as `\u{…}`; line ends and tabs stay.
///
/// ```
/// use haft::view::escape_invisible;
///
/// assert_eq!(escape_invisible("plain\ttext\n"), "plain\ttext\n");
/// assert_eq!(escape_invisible("a\u{200b}b\u{202e}c"), "a\\u{200b}b\\u{202e}c");
/// ```
pub fn escape_invisible(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut before = None;
    for character in text.chars() {
        if is_hidden(character, before) {
            shown.extend(character.escape_unicode())
        } else {
            shown.push(character)
        }
        before = Some(character);
    }
    Cow::Owned(shown)
}

/// The same on one line: for names of files and whatever else comes from outside and stands in a sentence.
///
/// ```
/// assert_eq!(haft::view::visible_line("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
/// ```
pub fn visible_line(text: &str) -> String {
    escape_invisible(text).replace('\n', "\\n").replace('\t', "\\t")
}

fn one_line(text: &str) -> String {
    let mut line = escape_invisible(text).replace(['\n', '\t'], " ");
    truncate_in_place(&mut line, limits::VIEW_TITLE_CHARS_MAX);
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let view = CallView::titled("a\x1b[31mb\nc")
            .summary("\u{202e}evil")
            .with(ViewPart::Text { text: "x\x07\ny".into() });
        let view = view.harmless();
        assert_eq!(view.title, "a\\u{1b}[31mb c");
        assert_eq!(view.summary.as_deref(), Some("\\u{202e}evil"));
        assert_eq!(view.body, [ViewPart::Text { text: "x\\u{7}\ny".into() }]);
    }

    #[test]
    fn the_default_view_shows_arguments_and_outcome() {
        let input = json!({"path": "a.txt"});
        let view = CallView::default_for("t", &CallStage::Use { input: &input, complete: false });
        assert_eq!(view.title, "a.txt");
        let progress = CallProgress { fraction: Some(0.5), message: None };
        let view = CallView::default_for("t", &CallStage::Progress { input: &input, progress: &progress });
        assert_eq!(view.summary.as_deref(), Some("50 %"));
        let output = ToolOutput::new(vec![crate::ResultBlock::text("one\ntwo")]);
        let view = CallView::default_for("t", &CallStage::Result { input: &input, output: &output });
        assert_eq!(view.summary.as_deref(), Some("2 lines"));
    }
}
