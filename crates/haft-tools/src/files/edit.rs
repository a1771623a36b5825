//! `Edit`: one text for another in a file. [`MultiEdit`](crate::multi_edit) does the same several times.
//!
//! The old text has to be there exactly, and once. The file's own line ends count: text that was given with
//! `\n` finds `\r\n`, and what is put in its place has them too. Everything else stays to the byte: a byte
//! order mark, a missing end of the last line, bytes that are no UTF-8, the mode. A file in UTF-16 with a
//! byte order mark stays in UTF-16.
//!
//! A file that changed since the session read it is not edited, also where the old text is still there: what
//! was to be changed may stand in another light by now. It has to be read again. A file that somebody else
//! changes between the look at it and the write is looked at again, so no change is lost whoever makes them.

mod find_text;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::effects::table::ConcurrencyClass;
use haft::files::{Bytes, FileErrorKind, FileKind, WriteMode};
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, IntoOutput as _, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::blocking::off_thread;
use crate::charset::{self, Utf16Order};
use crate::path_suggestions;
use crate::paths;
use crate::read::{BYTE_ORDER_MARK, SNIFF_BYTES};
use crate::read_tracker::{ContentHash, ReadTracker};
use crate::text_diff::LineDiff;
use crate::transaction::{RetryCounter, describe_losses};
use find_text::{TextMatches, describe_closest};

/// Characters that the model sees of a result.
const RESULT_CHARS: usize = 4_000;
/// Line numbers that a message gives.
const NUMBERS_SHOWN: usize = 10;

/// Replaces a text in a file by another one.
///
/// `old_string` must be in the file exactly as it is there, white space and indentation included, and only
/// once; give as many lines around the change as make it unique. To replace it everywhere, set `replace_all`.
/// The line numbers that Read shows, and the tab after them, are not part of the file. Read a file before you
/// edit it; one that has changed since you read it is not edited. For a new file, or one that changes nearly
/// everywhere, use Write.
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
    seen: ReadTracker,
}

impl Edit {
    /// The tool with the memory of others: what they have read, it knows.
    pub fn new(seen: &ReadTracker) -> Edit {
        Edit { seen: seen.clone() }
    }
}

impl Tool for Edit {
    type Input = EditInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Edit")
            .granted_files_only()
            .alias("edit_file")
            .group("files")
            .feature("files")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("change replace text in a file")
    }

    fn effects(&self, input: &EditInput) -> Effects {
        // What it replaces stands in the call.
        Effects::reads(&input.file_path).and(Effects::writes(&input.file_path)).recoverable()
    }

    async fn check(&self, input: &EditInput, _: &Context) -> Result<(), ToolError> {
        paths::check_path("file_path", &input.file_path)?;
        if input.old_string == input.new_string {
            return Err(ToolError::invalid_input(
                "`old_string` and `new_string` are the same, so nothing would change",
            ));
        }
        Ok(())
    }

    async fn call(&self, input: EditInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let (path, one) = input.split();
        EditJob { tool: "Edit", edits: vec![one] }.run(&self.seen, &path, cx).await
    }

    async fn preview(&self, input: &EditInput, cx: &Context) -> Option<CallView> {
        let one = TextReplacement {
            old_string: input.old_string.clone(),
            new_string: input.new_string.clone(),
            replace_all: input.replace_all,
        };
        EditJob { tool: "Edit", edits: vec![one] }.preview(&input.file_path, cx).await
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let path = stage.text("file_path")?;
        let path = path.strip_prefix("./").unwrap_or(path);
        let view = CallView::titled(path);
        Some(match stage {
            // Where in the file it is isn't known here; the lines are numbered from 1.
            CallStage::Use { .. } => {
                let text = |field: &str| stage.text(field).unwrap_or_default().as_bytes();
                let diff = LineDiff::between(text("old_string"), text("new_string"));
                view.summary(diff.counts()).with(diff.into_part(path))
            }
            _ => view.why(stage),
        })
    }
}

impl EditInput {
    fn split(self) -> (PathBuf, TextReplacement) {
        let EditInput { file_path, old_string, new_string, replace_all } = self;
        (file_path, TextReplacement { old_string, new_string, replace_all })
    }
}

/// One text for another.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct TextReplacement {
    /// The text to replace, exactly as it is in the file then, and there only once.
    pub old_string: String,
    /// The text to put in its place; an empty one removes it.
    pub new_string: String,
    /// Whether to replace all matches instead of a single one. Default: false.
    #[serde(default)]
    pub replace_all: Option<bool>,
}

/// Edits of one file, each on what the one before it left; all of them or none.
pub(crate) struct EditJob {
    pub(crate) tool: &'static str,
    pub(crate) edits: Vec<TextReplacement>,
}

impl EditJob {
    pub(crate) async fn run(
        self,
        seen: &ReadTracker,
        path: &Path,
        cx: &Context,
    ) -> Result<ToolOutput, ToolError> {
        let EditJob { tool, edits } = self;
        let shown = paths::display_path(&paths::normalize_path(path, cx), cx.cwd());
        let ask = Arc::new(EditRequest { tool, shown, edits });
        let mut again = RetryCounter::default();
        let mut trusts = true;
        let (before, old, EditPlan { new, content, done, diff }, losses) = loop {
            let (before, old, plan) = ask.clone().look(seen, path, cx, trusts).await?;
            trusts = false;
            let written = match before {
                OriginalState::File => cx.files().swap(path, old.clone(), plan.new.clone()).await,
                OriginalState::Nothing => cx.files().write(path, &plan.new, WriteMode::Create).await,
            };
            match written {
                Ok(written) => break (before, old, plan, describe_losses(&written, &ask.shown)),
                Err(error) if again.may_try(error.kind()).await => {}
                Err(error) => return Err(error.into()),
            }
        };
        let was = (before == OriginalState::File).then_some(old);
        seen.checkpoints().record(cx, tool, path, was, Some(new));
        if let Ok(now) = cx.files().metadata(path).await {
            seen.wrote(cx, path, &now, content);
        }
        let (shown, counts) = (&ask.shown, diff.counts());
        let text = match before {
            OriginalState::File => format!("`{shown}` {done} ({counts})"),
            OriginalState::Nothing => format!("created `{shown}`"),
        };
        let view = CallView::titled(shown).summary(counts).with(diff.into_part(shown));
        let text = [Some(text), losses].into_iter().flatten().collect::<Vec<_>>().join("\n");
        Ok(text.into_output()?.with_view(view))
    }

    /// The change to a file that is there, for who is asked about it.
    pub(crate) async fn preview(self, path: &Path, cx: &Context) -> Option<CallView> {
        let len = cx.files().metadata(path).await.ok()?.len;
        if len > haft::limits::FILE_BYTES_MAX {
            return None;
        }
        let old = cx.files().read(path).await.ok()?;
        let shown = paths::display_path(&paths::normalize_path(path, cx), cx.cwd());
        let ask = EditRequest { tool: self.tool, shown, edits: self.edits };
        let plan = off_thread(old.len(), move || {
            let EditPlan { diff, .. } = ask.plan(&old).ok()?;
            Some(CallView::titled(&ask.shown).summary(diff.counts()).with(diff.into_part(&ask.shown)))
        });
        plan.await.ok().flatten()
    }
}

/// What is asked of a file.
struct EditRequest {
    tool: &'static str,
    shown: String,
    edits: Vec<TextReplacement>,
}

/// What was there when it was looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OriginalState {
    File,
    Nothing,
}

/// What to write, and what to say of it.
struct EditPlan {
    new: Bytes,
    content: ContentHash,
    done: String,
    diff: LineDiff,
}

impl EditRequest {
    /// What the file is, and what becomes of it. Who `trusts` takes it for what the session left of it, and
    /// finds out when it is written; so a file that is edited again and again isn't read each time.
    async fn look(
        self: Arc<EditRequest>,
        seen: &ReadTracker,
        path: &Path,
        cx: &Context,
        trusts: bool,
    ) -> Result<(OriginalState, Bytes, EditPlan), ToolError> {
        let EditRequest { tool, shown, edits } = &*self;
        let creates = edits.first().is_some_and(|first| first.old_string.is_empty());
        let before = match cx.files().metadata(path).await {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == FileErrorKind::NotFound && creates => None,
            Err(error) => return Err(path_suggestions::explain_missing(error, path, cx).await),
        };
        let left = before.as_ref().filter(|_| trusts).and_then(|now| seen.left(cx, path, now));
        if let Some(old) = left {
            let (asked, size, known) = (self.clone(), old.len(), old.clone());
            // Whatever is wrong with it is said of what is really there.
            if let Ok(plan) = off_thread(size, move || asked.plan(&known)).await? {
                return Ok((OriginalState::File, old, plan));
            }
        }
        let old = match &before {
            Some(before) => {
                let max = haft::limits::FILE_BYTES_MAX;
                if before.kind == FileKind::File && before.len > max {
                    return Err(ToolError::new(format!(
                        "`{shown}` has {} bytes; {tool} changes files of at most {max}",
                        before.len
                    )));
                }
                Bytes::from(cx.files().read(path).await?)
            }
            None => Bytes::new(),
        };
        let size = old.len();
        let asked = self.clone();
        let (old, content, plan) = off_thread(size, move || {
            let (content, plan) = (ContentHash::from_bytes(&old), asked.plan(&old));
            (old, content, plan)
        })
        .await?;
        if before.as_ref().is_some_and(|now| seen.has_changed(cx, path, now, Some(content))) {
            return Err(ToolError::new(format!(
                "`{shown}` has changed on disk since it was read, and was not edited; read it again, then edit"
            )));
        }
        Ok((if before.is_some() { OriginalState::File } else { OriginalState::Nothing }, old, plan?))
    }

    /// Looks for the places and puts the new texts there, all in memory.
    fn plan(&self, old: &[u8]) -> Result<EditPlan, ToolError> {
        let Some(encoding) = Utf16Order::detect(old) else { return self.plan_text(old) };
        let text = encoding.decode(old).map_err(|why| ToolError::new(format!("`{}` {why}", self.shown)))?;
        let plan = self.plan_text(text.as_bytes())?;
        let new = encoding.encode(&plan.new);
        Ok(EditPlan { content: ContentHash::from_bytes(&new), new: new.into(), ..plan })
    }

    fn plan_text(&self, old: &[u8]) -> Result<EditPlan, ToolError> {
        let EditRequest { tool, shown, edits } = self;
        let text = old.strip_prefix(BYTE_ORDER_MARK).unwrap_or(old);
        if text[..text.len().min(SNIFF_BYTES)].contains(&0) {
            let words = format!(
                "`{shown}` is a binary file, {} bytes; {tool} changes text only, encoded as UTF-8, or as UTF-16 with a \
                 byte order mark",
                old.len()
            );
            return Err(ToolError::new(words));
        }
        charset::check_encodable(old, edits.iter().map(|edit| edit.new_string.as_str()), tool, shown)?;
        let mut now = Cow::Borrowed(old);
        let mut done = String::new();
        for (at, edit) in edits.iter().enumerate() {
            let (new, what) = self.replace(&now, edit).map_err(|error| match edits.len() {
                1 => error,
                all => ToolError::new(format!(
                    "edit {} of {all}: {}\nnothing was changed",
                    at + 1,
                    error.message()
                )),
            })?;
            (now, done) = (Cow::Owned(new), what);
        }
        if edits.len() > 1 {
            done = format!("changed by {} edits", edits.len());
        }
        let (content, diff) = (ContentHash::from_bytes(&now), LineDiff::between(old, &now));
        Ok(EditPlan { new: now.into_owned().into(), content, done, diff })
    }

    /// One replacement, and what it did.
    fn replace(&self, old: &[u8], edit: &TextReplacement) -> Result<(Vec<u8>, String), ToolError> {
        let EditRequest { tool, shown, .. } = self;
        let TextReplacement { old_string, new_string, replace_all } = edit;
        if old_string.is_empty() {
            if !old.strip_prefix(BYTE_ORDER_MARK).unwrap_or(old).is_empty() {
                return Err(ToolError::new(format!(
                    "`old_string` is empty, and `{shown}` is not; give the text to replace, or use Write to replace \
                     the whole file"
                )));
            }
            return Ok(([old, new_string.as_bytes()].concat(), "filled".to_owned()));
        }
        let places = TextMatches::find(old, old_string, new_string);
        let found = places.len();
        match found {
            0 => {
                let near = describe_closest(old, old_string);
                return Err(ToolError::new(format!(
                    "{tool} found no match for `old_string` in {shown}{near}"
                )));
            }
            found if found > 1 && !replace_all.unwrap_or(false) => {
                let lines = describe_lines(old, &places.starts().collect::<Vec<_>>());
                return Err(ToolError::new(format!(
                    "{tool} found {found} matches for `old_string` in {shown} ({lines}); it must be unique\n\
                     give more surrounding lines, or set `replace_all`"
                )));
            }
            _ => {}
        }
        let (new, at) = places.replace(old);
        let lines = describe_lines(old, &at);
        let done = match at.len() {
            1 => format!("edited at {lines}"),
            places => format!("edited in {places} places, {lines}"),
        };
        Ok((new, done))
    }
}

/// `line 12`, `lines 12, 40 (3 times), 96`.
fn describe_lines(text: &[u8], at: &[usize]) -> String {
    let mut numbers: Vec<(usize, usize)> = Vec::new();
    let (mut line, mut from) = (1, 0);
    let mut more = 0;
    for &at in at {
        line += memchr::memchr_iter(b'\n', &text[from..at]).count();
        from = at;
        let full = numbers.len() == NUMBERS_SHOWN;
        match numbers.last_mut() {
            Some((last, times)) if *last == line => *times += 1,
            _ if full => more += 1,
            _ => numbers.push((line, 1)),
        }
    }
    let word = if numbers.len() == 1 { "line" } else { "lines" };
    let numbers: Vec<String> = numbers
        .into_iter()
        .map(|(line, times)| if times == 1 { line.to_string() } else { format!("{line} ({times} times)") })
        .collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{word} {}{more}", numbers.join(", "))
}
