//! `Edit`: one text for another in a file.
//!
//! The old text has to be there exactly, and once. The file's own line ends count: text that was given with `\n` finds
//! `\r\n`, and what is put in its place has them too. Everything else stays to the byte: a byte order mark, a missing
//! end of the last line, bytes that are no UTF-8, the mode.
//!
//! A file that changed since it was read is edited all the same if the old text is still there once: then it is the
//! place that was meant. Otherwise it has to be read again.

mod find;

use std::path::{Path, PathBuf};

use haft::files::{FileErrorKind, WriteMode};
use haft::{Chars, Class, Context, Effects, IntoOutput as _, Output, Stage, Tool, ToolError, ToolSpec, View};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::diff::Diff;
use crate::near;
use crate::paths;
use crate::read::{BYTE_ORDER_MARK, SNIFF_BYTES};
use crate::seen::{Content, Seen};
use find::{Places, closest, line_of};

/// Characters that the model sees of a result.
const RESULT_CHARS: usize = 4_000;
/// Line numbers that a message gives.
const NUMBERS_SHOWN: usize = 10;

/// Replaces a text in a file by another one.
///
/// `old_string` must be in the file exactly as it is there, white space and indentation included, and only once; give
/// as many lines around the change as make it unique. To replace it everywhere, set `replace_all`. The line numbers that
/// Read shows, and the tab after them, are not part of the file. Read a file before you edit it. For a new file, or one
/// that changes nearly everywhere, use Write.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EditInput {
    /// Path of the file: absolute, or relative to the working directory.
    pub file_path: PathBuf,
    /// The text to replace. An empty one creates the file, or fills an empty one.
    pub old_string: String,
    /// The text to put in its place; an empty one removes it.
    pub new_string: String,
    /// Whether to replace all matches instead of a single one. Default: false.
    #[serde(default)]
    pub replace_all: Option<bool>,
}

/// The tool `Edit`.
#[derive(Default)]
pub struct Edit {
    seen: Seen,
}

impl Edit {
    /// The tool with the memory of others: what they have read, it knows.
    pub fn new(seen: &Seen) -> Edit {
        Edit { seen: seen.clone() }
    }
}

impl Tool for Edit {
    type Input = EditInput;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Edit")
            .group("files")
            .feature("files")
            .listed_class(Class::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("change replace text in a file")
    }

    fn effects(&self, input: &EditInput) -> Effects {
        Effects::reads(&input.file_path).and(Effects::writes(&input.file_path))
    }

    async fn check(&self, input: &EditInput, _: &Context) -> Result<(), ToolError> {
        paths::check("file_path", &input.file_path)?;
        if input.old_string == input.new_string {
            return Err(ToolError::senseless(
                "`old_string` and `new_string` are the same, so nothing would change",
            ));
        }
        Ok(())
    }

    async fn call(&self, input: EditInput, cx: &Context) -> Result<Output, ToolError> {
        let path = &input.file_path;
        let shown = paths::shown(&paths::tidy(path, cx), cx.cwd());
        let metadata = match cx.files().metadata(path).await {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == FileErrorKind::NotFound && input.old_string.is_empty() => {
                return self.create(&input, &shown, cx).await;
            }
            Err(error) => return Err(near::explain(error, path, cx).await),
        };
        let old = cx.files().read(path).await?;
        let text = old.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&old);
        if text[..text.len().min(SNIFF_BYTES)].contains(&0) {
            let words = format!("`{shown}` is a binary file, {} bytes; Edit changes text only", old.len());
            return Err(ToolError::new(words));
        }
        if input.old_string.is_empty() {
            if !text.is_empty() {
                return Err(ToolError::new(format!(
                    "`old_string` is empty, and `{shown}` is not; give the text to replace, or use Write to replace \
                     the whole file"
                )));
            }
            let new = [&old[..], input.new_string.as_bytes()].concat();
            return self.put(&input, &shown, &old, new, "filled", None, cx).await;
        }
        let places = Places::find(&old, &input.old_string, &input.new_string);
        let changed = self.seen.has_changed(cx, path, &metadata, Some(Content::of(&old)));
        let all = input.replace_all.unwrap_or(false);
        if changed && places.at.len() != 1 {
            return Err(ToolError::new(format!(
                "`{shown}` has changed on disk since it was read, and `old_string` is {} now; read it again, then edit",
                match places.at.len() {
                    0 => "not in it".to_owned(),
                    found => format!("in it {found} times"),
                }
            )));
        }
        match places.at.len() {
            0 => {
                let near = closest(&old, &input.old_string);
                return Err(ToolError::new(format!("Edit found no match for `old_string` in {shown}{near}")));
            }
            found if found > 1 && !all => {
                let lines = lines(&old, &places.at);
                return Err(ToolError::new(format!(
                    "Edit found {found} matches for `old_string` in {shown} ({lines}); it must be unique\n\
                     give more surrounding lines, or set `replace_all`"
                )));
            }
            _ => {}
        }
        let (new, at) = places.replace(&old);
        let done = if at.len() == 1 {
            format!("edited at {}", lines(&old, &at))
        } else {
            format!("edited in {} places, {}", at.len(), lines(&old, &at))
        };
        let note = changed.then_some(
            "[the file had changed on disk since it was read; read it again before you rely on the rest of it]",
        );
        self.put(&input, &shown, &old, new, &done, note, cx).await
    }

    fn view(&self, stage: &Stage<'_>) -> Option<View> {
        let path = stage.text("file_path")?;
        let path = path.strip_prefix("./").unwrap_or(path);
        let view = View::titled(path);
        Some(match stage {
            // Where in the file it is isn't known before the file was read; the lines are numbered from 1.
            Stage::Use { .. } => {
                let text = |field: &str| stage.text(field).unwrap_or_default().as_bytes();
                let diff = Diff::of(text("old_string"), text("new_string"));
                view.summary(diff.counts()).with(diff.into_part(path))
            }
            Stage::Error { error, .. } => view.summary(error.message()),
            Stage::Rejected { reason, .. } => view.summary(*reason),
            _ => view,
        })
    }
}

impl Edit {
    async fn create(&self, input: &EditInput, shown: &str, cx: &Context) -> Result<Output, ToolError> {
        let path = &input.file_path;
        let new = input.new_string.as_bytes();
        cx.files().write(path, new, WriteMode::Create).await?;
        self.remember(path, new, cx).await;
        let diff = Diff::of(b"", new);
        let view = View::titled(shown).summary(diff.counts()).with(diff.into_part(shown));
        Ok(format!("created `{shown}`").into_output()?.with_view(view))
    }

    #[expect(clippy::too_many_arguments, reason = "one place writes, says and remembers")]
    async fn put(
        &self,
        input: &EditInput,
        shown: &str,
        old: &[u8],
        new: Vec<u8>,
        done: &str,
        note: Option<&str>,
        cx: &Context,
    ) -> Result<Output, ToolError> {
        cx.files().write(&input.file_path, &new, WriteMode::Replace).await?;
        self.remember(&input.file_path, &new, cx).await;
        let diff = Diff::of(old, &new);
        let counts = diff.counts();
        let mut text = format!("`{shown}` {done} ({counts})");
        if let Some(note) = note {
            text.push('\n');
            text.push_str(note);
        }
        let view = View::titled(shown).summary(counts).with(diff.into_part(shown));
        Ok(text.into_output()?.with_view(view))
    }

    /// What was just written is what the session knows.
    async fn remember(&self, path: &Path, new: &[u8], cx: &Context) {
        if let Ok(metadata) = cx.files().metadata(path).await {
            self.seen.whole(cx, path, &metadata, Content::of(new));
        }
    }
}

/// `line 12`, `lines 12, 40, 96`.
fn lines(text: &[u8], at: &[usize]) -> String {
    let numbers: Vec<String> =
        at.iter().take(NUMBERS_SHOWN).map(|at| line_of(text, *at).to_string()).collect();
    let more = at.len().saturating_sub(NUMBERS_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let word = if at.len() == 1 { "line" } else { "lines" };
    format!("{word} {}{more}", numbers.join(", "))
}

#[cfg(test)]
mod tests;
