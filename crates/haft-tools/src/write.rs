//! `Write`: a whole file, all of it or nothing.
//!
//! The file is written beside its place and put there in one step, keeping its mode; see [`Files::write`]. What is
//! written is what was given, to the byte: line ends and a final one are the model's business.
//!
//! [`Files::write`]: haft::files::Files::write

use std::path::PathBuf;

use haft::files::{FileErrorKind, Metadata, WriteMode};
use haft::view::Part;
use haft::{Chars, Class, Context, Effects, IntoOutput as _, Output, Stage, Tool, ToolError, ToolSpec, View};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::diff::Diff;
use crate::paths::{self, count};
use crate::seen::{Content, Seen};

/// Characters that the model sees of a result.
const RESULT_CHARS: usize = 2_000;
/// Lines of a new file that a person is shown.
const LINES_SHOWN: usize = 20;

/// Writes a whole file: creates it, with the directories that lead to it, or replaces all that is in it.
///
/// Use it for new files, and for files that change nearly everywhere; for a change in a part of a file use Edit. Read a
/// file that exists before you replace it: what you don't write again is gone. A file that changed since it was read in
/// this session is not replaced.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WriteInput {
    /// Path of the file: absolute, or relative to the working directory.
    pub file_path: PathBuf,
    /// The whole content of the file, as it shall be.
    pub content: String,
}

/// The tool `Write`.
#[derive(Default)]
pub struct Write {
    seen: Seen,
}

impl Write {
    /// The tool with the memory of others: what they have read, it knows.
    pub fn new(seen: &Seen) -> Write {
        Write { seen: seen.clone() }
    }
}

impl Tool for Write {
    type Input = WriteInput;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Write")
            .group("files")
            .feature("files")
            .listed_class(Class::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("create replace overwrite save a file")
    }

    fn effects(&self, input: &WriteInput) -> Effects {
        Effects::writes(&input.file_path)
    }

    async fn check(&self, input: &WriteInput, _: &Context) -> Result<(), ToolError> {
        paths::check("file_path", &input.file_path)?;
        let max = haft::limits::FILE_BYTES_MAX;
        if input.content.len() as u64 > max {
            return Err(ToolError::senseless(format!(
                "`content` has more than {max} bytes; write a part of it"
            )));
        }
        Ok(())
    }

    async fn call(&self, input: WriteInput, cx: &Context) -> Result<Output, ToolError> {
        let path = &input.file_path;
        let shown = paths::shown(&paths::tidy(path, cx), cx.cwd());
        let old = existing(cx, path).await?;
        if let Some((metadata, bytes)) = &old {
            let content = bytes.as_deref().map(Content::of);
            if self.seen.has_changed(cx, path, metadata, content) {
                return Err(ToolError::new(format!(
                    "`{shown}` has changed on disk since it was read, and was not written; \
                     read all of it again, then write what it shall be"
                )));
            }
        }
        let new = input.content.as_bytes();
        let written = cx.files().write(path, new, WriteMode::Replace).await?;
        if let Ok(metadata) = cx.files().metadata(path).await {
            self.seen.whole(cx, path, &metadata, Content::of(new));
        }
        let lines = count(input.content.lines().count(), "line", "lines");
        let view = View::titled(paths::shown(path, cx.cwd()));
        let old = if written.existed { old } else { None };
        let (text, view) = match old {
            None => (
                format!("created `{shown}`: {lines}"),
                view.summary(format!("created, {lines}")).with(beginning(&input.content)),
            ),
            Some((_, Some(old))) => {
                let diff = Diff::of(&old, new);
                let (counts, was) = (diff.counts(), lines_of(&old));
                (
                    format!("replaced `{shown}`: {lines} instead of {was} ({counts})"),
                    view.summary(counts).with(diff.into_part(&shown)),
                )
            }
            Some((metadata, None)) => (
                format!("replaced `{shown}`: {lines} instead of {} bytes", metadata.len),
                view.summary(format!("replaced, {lines}")).with(beginning(&input.content)),
            ),
        };
        Ok(text.into_output()?.with_view(view))
    }

    fn view(&self, stage: &Stage<'_>) -> Option<View> {
        let path = stage.text("file_path")?;
        let view = View::titled(path.strip_prefix("./").unwrap_or(path));
        Some(match stage {
            Stage::Use { .. } => {
                let content = stage.text("content").unwrap_or_default();
                let lines = count(content.lines().count(), "line", "lines");
                view.summary(lines).with(beginning(content))
            }
            Stage::Error { error, .. } => view.summary(error.message()),
            Stage::Rejected { reason, .. } => view.summary(*reason),
            _ => view,
        })
    }
}

/// What is at the path, and its bytes if they are not too many.
async fn existing(
    cx: &Context,
    path: &std::path::Path,
) -> Result<Option<(Metadata, Option<Vec<u8>>)>, ToolError> {
    let metadata = match cx.files().metadata(path).await {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == FileErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // Whatever can't be read is for the write to refuse, in its own words.
    let bytes = cx.files().read(path).await.ok();
    Ok(Some((metadata, bytes)))
}

fn lines_of(bytes: &[u8]) -> usize {
    bytes.split_inclusive(|byte| *byte == b'\n').count()
}

/// The first lines of a text.
fn beginning(text: &str) -> Part {
    let mut shown: String = text.split_inclusive('\n').take(LINES_SHOWN).collect();
    let lines = text.lines().count();
    if lines > LINES_SHOWN {
        shown.push_str(&format!("… {} more lines", lines - LINES_SHOWN));
    }
    Part::Code { language: None, text: shown }
}

#[cfg(test)]
mod tests;
