//! `NotebookEdit`: one cell of a Jupyter notebook.
//!
//! Ids, metadata and layout of everything else stay to the byte; see `notebook`. Rules about files that
//! changed since they were read are those of `Edit`, but for one: a cell is named and not quoted, so a
//! notebook that changed has to be read again.

use std::path::PathBuf;
use std::sync::Arc;

use haft::effects::table::ConcurrencyClass;
use haft::files::Bytes;
use haft::text::truncate_chars;
use haft::view::{CallStage, ViewPart};
use haft::{CallView, Chars, Context, Effects, IntoOutput as _, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::blocking::off_thread;
use crate::notebook::{CellType, Notebook};
use crate::path_suggestions;
use crate::paths;
use crate::read::BYTE_ORDER_MARK;
use crate::read_tracker::{ContentHash, ReadTracker};
use crate::text_diff::LineDiff;
use crate::transaction::{RetryCounter, describe_losses};

/// Characters that the model sees of a result.
const RESULT_CHARS: usize = 4_000;
/// Ids that an error names.
const IDS_SHOWN: usize = 20;

/// Changes one cell of a Jupyter notebook (`.ipynb`): replaces its source, inserts a new cell, or deletes
/// one.
///
/// Read the notebook first: it shows the id of each cell. Replacing a code cell clears its outputs, as they
/// belong to the old source. Everything else in the notebook stays as it is. A new cell goes after the one
/// that `cell_id` names, or to the beginning. For other files use Edit.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct NotebookEditInput {
    /// Path of the notebook: absolute, or relative to the working directory.
    pub notebook_path: PathBuf,
    /// The id of the cell as Read shows it; or `cell-N`, its place counted from 0. Left out only to insert at
    /// the beginning.
    #[serde(default)]
    pub cell_id: Option<String>,
    /// The whole source of the cell. Not used to delete.
    #[serde(default)]
    pub new_source: String,
    /// The type of the cell. Default: to replace, as it was; to insert, `code`.
    #[serde(default)]
    pub cell_type: Option<EditedCellType>,
    /// What to do. Default: `replace`.
    #[serde(default)]
    pub edit_mode: Option<EditMode>,
}

/// The type of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EditedCellType {
    /// A program.
    Code,
    /// Text.
    Markdown,
}

/// What to do with a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EditMode {
    /// Gives a cell another source.
    Replace,
    /// Adds a cell after this one.
    Insert,
    /// Removes a cell.
    Delete,
}

/// The tool `NotebookEdit`.
#[derive(Default)]
pub struct NotebookEdit {
    seen: ReadTracker,
}

impl NotebookEdit {
    /// The tool with the memory of others: what they have read, it knows.
    pub fn new(seen: &ReadTracker) -> NotebookEdit {
        NotebookEdit { seen: seen.clone() }
    }
}

impl Tool for NotebookEdit {
    type Input = NotebookEditInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("NotebookEdit")
            .granted_files_only()
            .alias("notebook_edit")
            .group("files")
            .feature("notebooks")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("jupyter notebook ipynb cell insert replace delete")
    }

    fn effects(&self, input: &NotebookEditInput) -> Effects {
        let effects = Effects::reads(&input.notebook_path).and(Effects::writes(&input.notebook_path));
        // What an insertion changes stands in the call.
        if input.edit_mode == Some(EditMode::Insert) { effects.recoverable() } else { effects }
    }

    async fn check(&self, input: &NotebookEditInput, _: &Context) -> Result<(), ToolError> {
        paths::check_path("file_path", &input.notebook_path).map_err(|error| {
            ToolError::invalid_input(error.message().replace("file_path", "notebook_path"))
        })?;
        if input.notebook_path.extension().is_none_or(|extension| extension != "ipynb") {
            return Err(ToolError::invalid_input(
                "`notebook_path` does not end with `.ipynb`; for other files use Edit",
            ));
        }
        let mode = input.edit_mode.unwrap_or(EditMode::Replace);
        if input.cell_id.is_none() && mode != EditMode::Insert {
            return Err(ToolError::invalid_input(
                "`cell_id` is missing; give the id of the cell, as Read shows it",
            ));
        }
        Ok(())
    }

    async fn call(&self, input: NotebookEditInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let path = input.notebook_path.clone();
        let shown = paths::display_path(&paths::normalize_path(&path, cx), cx.cwd());
        let input = Arc::new(input);
        let mut again = RetryCounter::default();
        let (old, NotebookPlan { new, done, diff }, written) = loop {
            let before = match cx.files().metadata(&path).await {
                Ok(metadata) => metadata,
                Err(error) => return Err(path_suggestions::explain_missing(error, &path, cx).await),
            };
            let old = Bytes::from(cx.files().read(&path).await?);
            let (size, name, asked) = (old.len(), shown.clone(), input.clone());
            let (old, content, plan) = off_thread(size, move || {
                let (content, plan) = (ContentHash::from_bytes(&old), plan_edit(&old, &asked, &name));
                (old, content, plan)
            })
            .await?;
            if self.seen.has_changed(cx, &path, &before, Some(content)) {
                return Err(ToolError::new(format!(
                    "`{shown}` has changed on disk since it was read, and was not edited; read it again, then edit"
                )));
            }
            let plan = plan?;
            match cx.files().swap(&path, old.clone(), plan.new.clone()).await {
                Ok(written) => break (old, plan, written),
                Err(error) if again.may_try(error.kind()).await => {}
                Err(error) => return Err(error.into()),
            }
        };
        self.seen.checkpoints().record(cx, "NotebookEdit", &path, Some(old), Some(new.clone()));
        if let Ok(now) = cx.files().metadata(&path).await {
            self.seen.wrote(cx, &path, &now, ContentHash::from_bytes(&new));
        }
        let counts = diff.counts();
        let view = CallView::titled(&shown).summary(&counts).with(diff.into_part(&shown));
        let losses =
            describe_losses(&written, &shown).map(|losses| format!("\n{losses}")).unwrap_or_default();
        Ok(format!("`{shown}`: {done}{losses}").into_output()?.with_view(view))
    }

    async fn preview(&self, input: &NotebookEditInput, cx: &Context) -> Option<CallView> {
        let old = cx.files().read(&input.notebook_path).await.ok()?;
        let shown = paths::display_path(&paths::normalize_path(&input.notebook_path, cx), cx.cwd());
        let NotebookPlan { diff, .. } = plan_edit(&old, input, &shown).ok()?;
        Some(CallView::titled(&shown).summary(diff.counts()).with(diff.into_part(&shown)))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let path = stage.text("notebook_path")?;
        let view = CallView::titled(path.strip_prefix("./").unwrap_or(path));
        Some(match stage {
            CallStage::Use { .. } => {
                let mode = stage.text("edit_mode").unwrap_or("replace");
                let cell = stage.text("cell_id").map(|id| format!(" {id}")).unwrap_or_default();
                let text = stage.text("new_source").unwrap_or_default().to_owned();
                view.summary(format!("{mode} cell{cell}")).with(ViewPart::Code { language: None, text })
            }
            _ => view.why(stage),
        })
    }
}

/// What to write, and what to say of it.
struct NotebookPlan {
    new: Bytes,
    done: String,
    /// The change of the cell's source.
    diff: LineDiff,
}

fn plan_edit(old: &[u8], input: &NotebookEditInput, shown: &str) -> Result<NotebookPlan, ToolError> {
    let fails = |why: String| ToolError::new(format!("`{shown}` can't be edited as a notebook: {why}"));
    let (mark, text) = match old.strip_prefix(BYTE_ORDER_MARK) {
        Some(text) => (BYTE_ORDER_MARK, text),
        None => (&b""[..], old),
    };
    let text = str::from_utf8(text).map_err(|_| fails("it is not UTF-8".to_owned()))?;
    let notebook = Notebook::parse(text).map_err(fails)?;
    let mode = input.edit_mode.unwrap_or(EditMode::Replace);
    let kind = input.cell_type.map(|kind| match kind {
        EditedCellType::Code => CellType::Code,
        EditedCellType::Markdown => CellType::Markdown,
    });
    let at = match &input.cell_id {
        Some(id) => Some(notebook.find(id).ok_or_else(|| unknown_cell(id, &notebook, shown))?),
        None => None,
    };
    let source = &input.new_source;
    let was = at.map(|at| notebook.cells[at].source()).unwrap_or_default();
    let name = |at: usize| notebook.cells[at].id().unwrap_or_else(|| format!("cell-{at}"));
    let (new, done, diff) = match (mode, at) {
        (EditMode::Insert, at) => {
            let place = at.map_or(0, |at| at + 1);
            let (new, id) = notebook.inserted(place, source, kind.unwrap_or(CellType::Code));
            let id = id.unwrap_or_else(|| format!("cell-{place}"));
            let after = at.map_or("at the beginning".to_owned(), |at| format!("after {}", name(at)));
            (new, format!("cell {id} inserted {after}"), LineDiff::between(b"", source.as_bytes()))
        }
        (EditMode::Replace, Some(at)) => {
            let diff = LineDiff::between(was.as_bytes(), source.as_bytes());
            let changes_type = kind.is_some_and(|kind| kind != notebook.cells[at].kind());
            if was == *source && !changes_type {
                let words =
                    format!("cell {} of `{shown}` has this source already; nothing was changed", name(at));
                return Err(ToolError::new(words));
            }
            let done = format!("cell {} replaced ({})", name(at), diff.counts());
            (notebook.replaced(at, source, kind), done, diff)
        }
        (EditMode::Delete, Some(at)) => (
            notebook.without(at),
            format!("cell {} deleted", name(at)),
            LineDiff::between(was.as_bytes(), b""),
        ),
        (_, None) => return Err(fails("no cell was named".to_owned())),
    };
    Ok(NotebookPlan { new: [mark, new.as_bytes()].concat().into(), done, diff })
}

fn unknown_cell(id: &str, notebook: &Notebook<'_>, shown: &str) -> ToolError {
    let ids: Vec<String> = notebook
        .cells
        .iter()
        .enumerate()
        .take(IDS_SHOWN)
        .map(|(at, cell)| format!("`{}`", cell.id().unwrap_or_else(|| format!("cell-{at}"))))
        .collect();
    let more = if notebook.cells.len() > IDS_SHOWN { " and more" } else { "" };
    let there =
        if ids.is_empty() { "it has none".to_owned() } else { format!("it has {}{more}", ids.join(", ")) };
    let id = truncate_chars(id, 80);
    ToolError::new(format!("`{shown}` has no cell `{id}`; {there}"))
}
