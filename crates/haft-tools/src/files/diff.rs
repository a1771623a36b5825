//! `Diff`: two files compared, as a unified diff.

use std::path::PathBuf;
use std::time::Duration;

use haft::effects::table::ConcurrencyClass;
use haft::tool::Interrupt;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, IntoOutput as _, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use similar::TextDiff;

use crate::blocking::off_thread;

use crate::ls::format_size;
use crate::path_suggestions;
use crate::paths;
use crate::read::{self, SNIFF_BYTES};
use crate::text_diff::LineDiff;

/// Lines that stayed around those that changed, if the call doesn't say.
const CONTEXT_LINES: u32 = 3;
/// The most that a call can ask for.
const CONTEXT_LINES_MAX: u32 = 100;
/// The largest file that is compared line by line, in bytes.
const COMPARED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long to look for a small difference before a larger one will do.
const TIME_MAX: Duration = Duration::from_secs(2);

/// Compares two text files and returns their differences as a unified diff.
///
/// Lines that are only in `a` begin with `-`, those only in `b` with `+`. Use it to see how two files differ
/// without reading both. Line ends count as part of a line. For what changed in a repository use git.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DiffInput {
    /// Path of the first, older file: absolute, or relative to the working directory.
    pub a: PathBuf,
    /// Path of the second, newer file.
    pub b: PathBuf,
    /// How many lines that stayed to show around each change. Default: 3.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub context: Option<u32>,
}

/// The tool `Diff`.
pub struct Diff;

impl Tool for Diff {
    type Input = DiffInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Diff")
            .granted_files_only()
            .alias("diff")
            .group("files")
            .feature("files")
            .listed_class(ConcurrencyClass::ReadOnly)
            .result_limit(Chars(haft::limits::RESULT_CHARS))
            .interrupt(Interrupt::Cancel)
            .search_hint("compare two files differences")
    }

    fn effects(&self, input: &DiffInput) -> Effects {
        Effects::reads(&input.a).and(Effects::reads(&input.b))
    }

    async fn check(&self, input: &DiffInput, _: &Context) -> Result<(), ToolError> {
        paths::check_path("a", &input.a)?;
        paths::check_path("b", &input.b)?;
        if let Some(lines) = input.context.filter(|lines| *lines > CONTEXT_LINES_MAX) {
            let words = format!("`context` must be between 0 and {CONTEXT_LINES_MAX}, got {lines}");
            return Err(ToolError::invalid_input(words));
        }
        Ok(())
    }

    async fn call(&self, input: DiffInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let mut texts = Vec::new();
        for path in [&input.a, &input.b] {
            match cx.files().read(path).await {
                Ok(bytes) => texts.push(bytes),
                Err(error) => return Err(path_suggestions::explain_missing(error, path, cx).await),
            }
        }
        let shown = |path: &PathBuf| paths::display_path(&paths::normalize_path(path, cx), cx.cwd());
        let (a, b) = (shown(&input.a), shown(&input.b));
        let context = input.context.unwrap_or(CONTEXT_LINES) as usize;
        let bytes = texts.iter().map(Vec::len).sum();
        let (text, view) =
            off_thread(bytes, move || compare_texts(&texts[0], &texts[1], &a, &b, context)).await?;
        Ok(text.into_output()?.with_view(view))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = CallView::titled(format!("{} and {}", stage.text("a")?, stage.text("b")?));
        Some(view.why(stage))
    }
}

fn compare_texts(old: &[u8], new: &[u8], a: &str, b: &str, context: usize) -> (String, CallView) {
    let view = CallView::titled(format!("{a} and {b}"));
    if old == new {
        return (
            format!("[`{a}` and `{b}` are the same, {}]", format_size(old.len() as u64)),
            view.summary("the same"),
        );
    }
    let huge = old.len().max(new.len()) > COMPARED_BYTES_MAX;
    // Text in other encodings is compared as `Read` shows it.
    let text = |bytes| if huge { None } else { read::decode_legacy(bytes) };
    let (old_text, new_text) = (text(old), text(new));
    let (given, is_decoded) = ((old, new), old_text.is_some() || new_text.is_some());
    let old = old_text.as_deref().map_or(old, str::as_bytes);
    let new = new_text.as_deref().map_or(new, str::as_bytes);
    let is_binary = |bytes: &[u8]| bytes[..bytes.len().min(SNIFF_BYTES)].contains(&0);
    if huge || is_binary(old) || is_binary(new) {
        let (old, new) = given;
        let first = old.iter().zip(new).take_while(|(old, new)| old == new).count();
        let why = if huge { "too large to compare by lines" } else { "binary" };
        let words = format!(
            "[`{a}` ({} bytes) and `{b}` ({} bytes) are {why}; they differ from byte {first} on, counted from 0]",
            old.len(),
            new.len()
        );
        return (words, view.summary("they differ"));
    }
    let lines = LineDiff::between(old, new);
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let diff = TextDiff::configure().timeout(TIME_MAX).diff_lines(&*old, &*new);
    let mut text = diff.unified_diff().context_radius(context).header(a, b).to_string();
    if text.is_empty() {
        // Otherwise they differ in bytes that are no UTF-8, which are shown alike.
        text = if is_decoded {
            format!("[`{a}` and `{b}` have the same text, and differ only in how it is encoded]")
        } else {
            format!("[`{a}` and `{b}` differ only in bytes that are not UTF-8]")
        };
    }
    let counts = lines.counts();
    (text, view.summary(counts).with(lines.into_part(b)))
}
