//! `MultiEdit`: several edits of one file, all of them or none.
//!
//! Each is what `Edit` does, on what the one before it left; the file is written once, when all have found
//! their place.

use std::path::PathBuf;

use haft::effects::table::ConcurrencyClass;
use haft::view::{CallStage, ViewPart};
use haft::{CallView, Chars, Context, Effects, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::edit::{EditJob, TextReplacement};
use crate::paths::{self, count_noun};
use crate::read_tracker::ReadTracker;
use crate::text_diff::LineDiff;

/// Characters that the model sees of a result.
const RESULT_CHARS: usize = 4_000;
/// Edits of one call.
const EDITS_MAX: usize = 1_000;

/// Replaces several texts in one file, all of them or none.
///
/// Use it instead of several calls of Edit on the same file. The edits are done in order, each on what the
/// one before it left: an `old_string` must be in the file, exactly and only once, when its turn comes, or
/// `replace_all` be set. If one of them fails, the file stays as it was and the error says which. Read the
/// file before you edit it. For several files use several calls, or ApplyPatch.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MultiEditInput {
    /// Path of the file: absolute, or relative to the working directory.
    pub file_path: PathBuf,
    /// The edits, in the order in which they are done. An empty `old_string` in the first one creates the
    /// file.
    #[schemars(length(min = 1, max = 1000))]
    pub edits: Vec<TextReplacement>,
}

/// The tool `MultiEdit`.
#[derive(Default)]
pub struct MultiEdit {
    seen: ReadTracker,
}

impl MultiEdit {
    /// The tool with the memory of others: what they have read, it knows.
    pub fn new(seen: &ReadTracker) -> MultiEdit {
        MultiEdit { seen: seen.clone() }
    }
}

impl Tool for MultiEdit {
    type Input = MultiEditInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("MultiEdit")
            .granted_files_only()
            .alias("multi_edit")
            .group("files")
            .feature("files")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("several changes replacements in one file at once")
    }

    fn effects(&self, input: &MultiEditInput) -> Effects {
        // What it replaces stands in the call.
        Effects::reads(&input.file_path).and(Effects::writes(&input.file_path)).recoverable()
    }

    async fn check(&self, input: &MultiEditInput, _: &Context) -> Result<(), ToolError> {
        paths::check_path("file_path", &input.file_path)?;
        let all = input.edits.len();
        if all == 0 || all > EDITS_MAX {
            let words = format!("`edits` has {all} edits; give between 1 and {EDITS_MAX}");
            return Err(ToolError::invalid_input(words));
        }
        for (at, edit) in input.edits.iter().enumerate() {
            if edit.old_string == edit.new_string {
                let words = format!(
                    "`old_string` and `new_string` of edit {} are the same, so it would change nothing; leave it out",
                    at + 1
                );
                return Err(ToolError::invalid_input(words));
            }
            if edit.old_string.is_empty() && at > 0 {
                let words = format!(
                    "`old_string` of edit {} is empty; only the first edit may create a file, give the text to replace",
                    at + 1
                );
                return Err(ToolError::invalid_input(words));
            }
        }
        Ok(())
    }

    async fn call(&self, input: MultiEditInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let MultiEditInput { file_path, edits } = input;
        EditJob { tool: "MultiEdit", edits }.run(&self.seen, &file_path, cx).await
    }

    async fn preview(&self, input: &MultiEditInput, cx: &Context) -> Option<CallView> {
        EditJob { tool: "MultiEdit", edits: input.edits.clone() }.preview(&input.file_path, cx).await
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let path = stage.text("file_path")?;
        let path = path.strip_prefix("./").unwrap_or(path);
        let view = CallView::titled(path);
        Some(match stage {
            CallStage::Use { input, .. } => {
                let edits = input.get("edits").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let text = |edit: &Value, field: &str| {
                    edit.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
                };
                let parts = edits.iter().map(|edit| -> ViewPart {
                    let (old, new) = (text(edit, "old_string"), text(edit, "new_string"));
                    LineDiff::between(old.as_bytes(), new.as_bytes()).into_part(path)
                });
                let view = view.summary(count_noun(edits.len(), "edit", "edits"));
                parts.take(haft::limits::VIEW_PARTS_MAX).fold(view, CallView::with)
            }
            _ => view.why(stage),
        })
    }
}
