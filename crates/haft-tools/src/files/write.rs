//! `Write`: a whole file, all of it or nothing.
//!
//! The file is written beside its place and put there in one step, keeping its mode; see [`Files::write`].
//! What is written is what was given, to the byte: line ends and a final one are the model's business. A file
//! in UTF-16 with a byte order mark stays in UTF-16.
//!
//! [`Files::write`]: haft::files::Files::write

use std::path::{Path, PathBuf};

use haft::effects::table::ConcurrencyClass;
use haft::files::{Bytes, FileErrorKind, FileMetadata, WriteMode};
use haft::view::{CallStage, ViewPart};
use haft::{CallView, Chars, Context, Effects, IntoOutput as _, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::blocking::off_thread;
use crate::charset::{self, Utf16Order};
use crate::paths::{self, count_noun};
use crate::read_tracker::{ContentHash, ReadTracker};
use crate::text_diff::LineDiff;
use crate::transaction::{RetryCounter, describe_losses};

/// Characters that the model sees of a result.
const RESULT_CHARS: usize = 2_000;
/// Room for the words that say how much of a text isn't shown.
const NOTE_BYTES: usize = 64;

/// Writes a whole file: creates it, with the directories that lead to it, or replaces all that is in it.
///
/// Use it for new files, and for files that change nearly everywhere; for a change in a part of a file use
/// Edit. Read a file that exists before you replace it: what you don't write again is gone. A file that was
/// not read in this session, or that changed since, is not replaced.
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
    seen: ReadTracker,
}

impl Write {
    /// The tool with the memory of others: what they have read, it knows.
    pub fn new(seen: &ReadTracker) -> Write {
        Write { seen: seen.clone() }
    }
}

impl Tool for Write {
    type Input = WriteInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Write")
            .granted_files_only()
            .alias("write_file")
            .group("files")
            .feature("files")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("create replace overwrite save a file")
    }

    fn effects(&self, input: &WriteInput) -> Effects {
        Effects::writes(&input.file_path)
    }

    async fn check(&self, input: &WriteInput, _: &Context) -> Result<(), ToolError> {
        paths::check_path("file_path", &input.file_path)?;
        let max = haft::limits::FILE_BYTES_MAX;
        if input.content.len() as u64 > max {
            return Err(ToolError::invalid_input(format!(
                "`content` has more than {max} bytes; write a part of it"
            )));
        }
        Ok(())
    }

    async fn call(&self, input: WriteInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let path = input.file_path.clone();
        let text = Bytes::copy_from_slice(input.content.as_bytes());
        let shown = paths::display_path(&paths::normalize_path(&path, cx), cx.cwd());
        let mut again = RetryCounter::default();
        let (old, new, written) = loop {
            let old = read_existing(cx, &path).await?;
            if let Some(ExistingFile { metadata, content, .. }) = &old
                && self.seen.has_changed(cx, &path, metadata, *content)
            {
                return Err(ToolError::new(format!(
                    "`{shown}` has changed on disk since it was read, and was not written; \
                     read all of it again, then write what it shall be"
                )));
            }
            if let Some(ExistingFile { metadata, .. }) = &old
                && self.seen.is_unread(cx, &path, metadata)
            {
                return Err(ToolError::new(format!(
                    "`{shown}` exists and was not read in this session, so it was not written: what you don't know would \
                     be gone; read it first, or change a part of it with Edit"
                )));
            }
            let new = match old.as_ref().and_then(ExistingFile::utf16) {
                Some(encoding) => encoding.encode(&text).into(),
                None => text.clone(),
            };
            let written = match &old {
                Some(ExistingFile { bytes: Some(was), .. }) => {
                    cx.files().swap(&path, was.clone(), new.clone()).await
                }
                Some(_) => cx.files().write(&path, &new, WriteMode::Replace).await,
                None => cx.files().write(&path, &new, WriteMode::Create).await,
            };
            match written {
                Ok(written) => break (old, new, written),
                Err(error) if again.may_try(error.kind()).await => {}
                Err(error) => return Err(error.into()),
            }
        };
        let old = old.filter(|_| written.existed);
        // What is too large to be read can't be kept either.
        let kept = old.as_ref().is_none_or(|old| old.bytes.is_some());
        if kept {
            let was = old.as_ref().and_then(|old| old.bytes.clone());
            self.seen.checkpoints().record(cx, "Write", &path, was, Some(new.clone()));
        }
        let bytes = old.as_ref().map_or(0, |old| old.metadata.len as usize).max(input.content.len());
        let now = cx.files().metadata(&path).await;
        let losses = describe_losses(&written, &shown);
        let (content, text, view) = off_thread(bytes, move || {
            let (text, view) = render_written(&input.content, old, &shown);
            (ContentHash::from_bytes(&new), text, view)
        })
        .await?;
        if let Ok(now) = now {
            if kept {
                self.seen.wrote(cx, &path, &now, content)
            } else {
                self.seen.whole(cx, &path, &now, content)
            }
        }
        let location = if written.existed { None } else { paths::describe_location(&path, cx) };
        let text = [Some(text), losses, location].into_iter().flatten().collect::<Vec<_>>().join("\n");
        Ok(text.into_output()?.with_view(view))
    }

    async fn preview(&self, input: &WriteInput, cx: &Context) -> Option<CallView> {
        let old = read_existing(cx, &input.file_path).await.ok().flatten()?.text()?;
        let shown = paths::display_path(&paths::normalize_path(&input.file_path, cx), cx.cwd());
        let new = input.content.clone();
        off_thread(old.len().max(new.len()), move || {
            let diff = LineDiff::between(&old, new.as_bytes());
            CallView::titled(&shown).summary(diff.counts()).with(diff.into_part(&shown))
        })
        .await
        .ok()
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let path = stage.text("file_path")?;
        let view = CallView::titled(path.strip_prefix("./").unwrap_or(path));
        Some(match stage {
            CallStage::Use { .. } => {
                let content = stage.text("content").unwrap_or_default();
                let lines = count_noun(content.lines().count(), "line", "lines");
                view.summary(lines).with(view_text(content))
            }
            _ => view.why(stage),
        })
    }
}

/// What is at a path.
struct ExistingFile {
    metadata: FileMetadata,
    /// Nothing if they are too many, or can't be read.
    bytes: Option<Bytes>,
    content: Option<ContentHash>,
}

impl ExistingFile {
    fn utf16(&self) -> Option<Utf16Order> {
        Utf16Order::detect(self.bytes.as_ref()?)
    }

    /// What it is compared by: its text as UTF-8 where it is in UTF-16, else its bytes.
    fn text(&self) -> Option<Bytes> {
        let bytes = self.bytes.as_ref()?;
        let decoded = self.utf16().and_then(|encoding| encoding.decode(bytes).ok());
        Some(decoded.map_or_else(|| bytes.clone(), |text| text.into_bytes().into()))
    }
}

async fn read_existing(cx: &Context, path: &Path) -> Result<Option<ExistingFile>, ToolError> {
    let metadata = match cx.files().metadata(path).await {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == FileErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // Whatever can't be read is for the write to refuse, in its own words.
    let bytes = cx.files().read(path).await.ok().map(Bytes::from);
    let existing = off_thread(bytes.as_ref().map_or(0, Bytes::len), move || {
        let content = bytes.as_deref().map(ContentHash::from_bytes);
        ExistingFile { metadata, bytes, content }
    });
    existing.await.map(Some)
}

/// What was done, for the model and for a person.
fn render_written(new: &str, old: Option<ExistingFile>, shown: &str) -> (String, CallView) {
    let lines = count_noun(new.lines().count(), "line", "lines");
    let view = CallView::titled(shown);
    let text = old.as_ref().and_then(ExistingFile::text);
    match old {
        None => (
            format!("created `{shown}`: {lines}"),
            view.summary(format!("created, {lines}")).with(view_text(new)),
        ),
        Some(ExistingFile { bytes: Some(bytes), .. }) => {
            let old = text.unwrap_or_default();
            let diff = LineDiff::between(&old, new.as_bytes());
            let (counts, was) = (diff.counts(), lines_of(&old));
            let note = match Utf16Order::detect(&bytes) {
                Some(_) => "\n[in UTF-16, as the file was]",
                None if charset::is_legacy(&bytes) => {
                    "\n[the file was in another encoding than UTF-8; it is UTF-8 now]"
                }
                None => "",
            };
            (
                format!("replaced `{shown}`: {lines} instead of {was} ({counts}){note}"),
                view.summary(counts).with(diff.into_part(shown)),
            )
        }
        Some(ExistingFile { metadata, .. }) => (
            format!("replaced `{shown}`: {lines} instead of {} bytes", metadata.len),
            view.summary(format!("replaced, {lines}")).with(view_text(new)),
        ),
    }
}

fn lines_of(bytes: &[u8]) -> usize {
    bytes.split_inclusive(|byte| *byte == b'\n').count()
}

/// A text for a person: all of it, but for what no view can hold.
fn view_text(text: &str) -> ViewPart {
    let mut left = haft::limits::VIEW_CHARS_MAX - NOTE_BYTES;
    let mut shown = String::new();
    let mut lines = text.split_inclusive('\n');
    let mut hidden = 0;
    for line in lines.by_ref() {
        if line.len() > left {
            hidden = 1;
            break;
        }
        left -= line.len();
        shown.push_str(line);
    }
    hidden += lines.count();
    if hidden > 0 {
        shown.push_str(&format!("… {}", count_noun(hidden, "more line", "more lines")));
    }
    ViewPart::Code { language: None, text: shown }
}
