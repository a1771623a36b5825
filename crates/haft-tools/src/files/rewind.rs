//! `Rewind`: undoes changes of files, by going back to before one of them.
//!
//! What was there before each change is kept by `checkpoints`; this tool lists, compares and restores. Going
//! back is a change like any other, so it can be undone too. It covers what the file tools did, also those of
//! sub-agents, and what a command was known to do.
//!
//! What a call will write follows from the number that it names. Should another call change one more file
//! before this one runs, that file was not declared, and the call is refused rather than done by half.

use std::path::{Path, PathBuf};

use haft::effects::table::ConcurrencyClass;
use haft::files::{Bytes, FileErrorKind};
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, IntoOutput as _, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::blocking::off_thread;
use crate::checkpoints::{FileChange, FileRestore};
use crate::paths::{self, count_noun};
use crate::read_tracker::{ContentHash, ReadTracker};
use crate::text_diff::LineDiff;
use crate::transaction::{self, ChangeStep};

/// Characters that the model sees of a result.
const RESULT_CHARS: usize = 30_000;
/// Changes that a list shows, the newest.
const LISTED_MAX: usize = 200;

/// Undoes changes of files that were made in this session by Write, Edit, MultiEdit, NotebookEdit,
/// ApplyPatch, Rewind and Bash.
///
/// `list` shows the changes, each with a number. `preview` shows what going back would change, and `restore`
/// goes back: every file that changed becomes what it was before the change with the number `to`. So `to` 1
/// more than the last change that shall stay undoes everything after it, also over several calls. A restore
/// is a change too, and can be undone. Of what commands changed, only files are known here that Bash could
/// tell from the text of a command; use git for the rest.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RewindInput {
    /// What to do.
    pub action: RewindAction,
    /// The number of the first change to undo, as `list` shows it; it and all after it are undone. Needed for
    /// `preview` and `restore`.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub to: Option<u64>,
    /// Only these files; the others stay as they are. Default: all that changed.
    #[serde(default)]
    pub paths: Option<Vec<PathBuf>>,
    /// Whether to restore also files that something else has changed since; what it wrote is lost, but can be
    /// brought back by undoing the restore. Default: false.
    #[serde(default)]
    pub force: Option<bool>,
}

/// What `Rewind` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RewindAction {
    /// Shows the changes with their numbers.
    List,
    /// Shows what a restore would change.
    Preview,
    /// Goes back.
    Restore,
}

/// The tool `Rewind`.
#[derive(Default)]
pub struct Rewind {
    seen: ReadTracker,
}

impl Rewind {
    /// The tool with the memory of those that change files.
    pub fn new(seen: &ReadTracker) -> Rewind {
        Rewind { seen: seen.clone() }
    }
}

impl Tool for Rewind {
    type Input = RewindInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Rewind")
            .granted_files_only()
            .alias("rewind")
            .group("files")
            .feature("files")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("undo revert restore go back checkpoint changes of files")
    }

    fn effects(&self, input: &RewindInput) -> Effects {
        let (RewindAction::Preview | RewindAction::Restore, Some(to)) = (input.action, input.to) else {
            return Effects::none();
        };
        // Names are compared as the call gives them where they are whole; others can only leave too much in.
        let named = |path: &Path| match &input.paths {
            Some(paths) => paths.iter().any(|named| named.is_relative() || named == path),
            None => true,
        };
        let files = self.seen.checkpoints().files_since(to);
        let files = files.into_iter().filter(|(path, _)| named(path));
        files.fold(Effects::none(), |effects, (path, was_there)| {
            let effects = effects.and(Effects::reads(&path));
            match (input.action, was_there) {
                (RewindAction::Restore, true) => effects.and(Effects::writes(&path)),
                (RewindAction::Restore, false) => effects.and(Effects::deletes(&path)),
                _ => effects,
            }
        })
    }

    async fn check(&self, input: &RewindInput, _: &Context) -> Result<(), ToolError> {
        if input.action != RewindAction::List && input.to.is_none() {
            let words = "`to` is missing; give the number of the first change to undo, as `list` shows it";
            return Err(ToolError::invalid_input(words));
        }
        for path in input.paths.iter().flatten() {
            paths::check_path("paths", path)?;
        }
        if input.paths.as_ref().is_some_and(Vec::is_empty) {
            return Err(ToolError::invalid_input(
                "`paths` is empty; name files, or leave it out for all of them",
            ));
        }
        Ok(())
    }

    async fn call(&self, input: RewindInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let (changes, forgotten) = self.seen.checkpoints().list(cx.call().session_id());
        let to = match (input.action, input.to) {
            (RewindAction::List, _) | (_, None) => return list_changes(&changes, forgotten, cx),
            (_, Some(to)) => to,
        };
        if !changes.iter().any(|change| change.number == to) {
            return Err(unknown_change(to, &changes, forgotten));
        }
        let to = self.seen.checkpoints().begin(to);
        let mut restores = self.seen.checkpoints().before(cx.call().session_id(), to);
        if let Some(named) = &input.paths {
            let named: Vec<PathBuf> = named.iter().map(|path| paths::normalize_path(path, cx)).collect();
            if let Some(other) =
                named.iter().find(|path| restores.iter().all(|restore| restore.path != **path))
            {
                let shown = paths::display_path(other, cx.cwd());
                let words = format!("`{shown}` has not changed from change {to} on; `list` shows what has");
                return Err(ToolError::new(words));
            }
            restores.retain(|restore| named.contains(&restore.path));
        }
        let files = self.compare(restores, cx).await?;
        let (done, losses) = match input.action {
            RewindAction::Restore => {
                ("restored", self.restore(&files, input.force.unwrap_or(false), cx).await?)
            }
            _ => ("would restore", Vec::new()),
        };
        let (cwd, shows_lines) = (cx.cwd().to_owned(), input.action == RewindAction::Preview);
        let bytes = files.iter().map(|file| file.now.as_ref().map_or(0, |now| now.len())).sum();
        let (text, view) =
            off_thread(bytes, move || render_restored(&files, done, to, &cwd, shows_lines)).await?;
        let text = [vec![text], losses].concat().join("\n");
        Ok(text.into_output()?.with_view(view))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let to = stage.input().get("to").and_then(serde_json::Value::as_u64);
        let view = CallView::titled(match (stage.text("action")?, to) {
            ("list", _) => "list of changes".to_owned(),
            (action, Some(to)) => format!("{action} to before change {to}"),
            (action, None) => action.to_owned(),
        });
        Some(view.why(stage))
    }
}

/// A file that would go back.
struct RewindFile {
    restore: FileRestore,
    now: Option<Bytes>,
    /// Its mode now.
    mode: Option<u32>,
    /// Whether something else has changed it since the session did.
    foreign: bool,
}

impl Rewind {
    /// Looks at what the files are now.
    async fn compare(&self, restores: Vec<FileRestore>, cx: &Context) -> Result<Vec<RewindFile>, ToolError> {
        let mut files = Vec::new();
        for restore in restores {
            let now: Option<Bytes> = match cx.files().read(&restore.path).await {
                Ok(bytes) => Some(bytes.into()),
                Err(error) if error.kind() == FileErrorKind::NotFound => None,
                Err(error) if error.kind() == FileErrorKind::IsDirectory => {
                    return Err(ToolError::new(format!(
                        "`{}` is a directory now, where a file was; nothing was restored: move it away, or name other files \
                         in `paths`",
                        paths::display_path(&restore.path, cx.cwd())
                    )));
                }
                Err(error) => return Err(error.into()),
            };
            let foreign = now != restore.last && now != restore.to;
            let mode = cx.files().metadata(&restore.path).await.ok().and_then(|metadata| metadata.mode);
            files.push(RewindFile { restore, now, mode, foreign });
        }
        Ok(files)
    }

    /// Returns what files that were replaced have lost.
    async fn restore(
        &self,
        files: &[RewindFile],
        force: bool,
        cx: &Context,
    ) -> Result<Vec<String>, ToolError> {
        let foreign: Vec<String> = files
            .iter()
            .filter(|file| file.foreign)
            .map(|file| format!("`{}`", paths::display_path(&file.restore.path, cx.cwd())))
            .collect();
        if !foreign.is_empty() && !force {
            return Err(ToolError::new(format!(
                "nothing was restored: {} changed since by something else than the file tools; look at `preview`, then set \
                 `force`, or name other files in `paths`",
                match &foreign[..] {
                    [one] => format!("{one} was"),
                    all => format!("{} were", all.join(", ")),
                }
            )));
        }
        let undeclared = files.iter().find(|file| {
            file.now != file.restore.to && !cx.access().may_write(&real_path(cx, &file.restore.path))
        });
        if let Some(file) = undeclared {
            return Err(ToolError::new(format!(
                "nothing was restored: `{}` changed while this call waited; call it again",
                paths::display_path(&file.restore.path, cx.cwd())
            )));
        }
        // A file that was moved is moved back, so that it keeps its mode and owner.
        let back: Vec<(&RewindFile, &RewindFile)> =
            files.iter().filter_map(|file| Some((file, moved_from(file, files)?))).collect();
        let moves = back.iter().flat_map(|(moved, origin)| {
            let (from, path) = (moved.restore.path.clone(), origin.restore.path.clone());
            let (old, new) = (moved.now.clone(), origin.restore.to.clone());
            let write = old.zip(new).filter(|(old, new)| old != new);
            let write = write.map(|(old, new)| ChangeStep::Write { path: path.clone(), old, new });
            [Some(ChangeStep::Rename { from, to: path }), write].into_iter().flatten()
        });
        let is_moved = |file: &RewindFile| {
            let path = &file.restore.path;
            back.iter().any(|(moved, origin)| [&moved.restore.path, &origin.restore.path].contains(&path))
        };
        let step = |file: &RewindFile| {
            let (path, old) = (file.restore.path.clone(), file.now.clone());
            match (&file.restore.to, old) {
                (to, old) if *to == old => None,
                (Some(new), Some(old)) => Some(ChangeStep::Write { path, old, new: new.clone() }),
                (Some(new), None) => {
                    Some(ChangeStep::Create { path, new: new.clone(), mode: file.restore.mode })
                }
                (None, Some(old)) => Some(ChangeStep::Remove { path, old, mode: file.mode }),
                (None, None) => None,
            }
        };
        let others = files.iter().filter(|file| !is_moved(file)).filter_map(step);
        let losses = transaction::apply_changes(cx, moves.chain(others).collect()).await?;
        for RewindFile { restore: FileRestore { path, to, .. }, now, mode, .. } in
            files.iter().filter(|file| file.now != file.restore.to)
        {
            self.seen.checkpoints().record(cx, "Rewind", path, now.clone(), to.clone());
            if let Some(mode) = mode.filter(|_| to.is_none()) {
                self.seen.checkpoints().had_mode(cx, path, mode);
            }
            if let (Some(to), Ok(metadata)) = (to, cx.files().metadata(path).await) {
                self.seen.wrote(cx, path, &metadata, ContentHash::from_bytes(to));
            }
        }
        Ok(losses)
    }
}

/// What a file was moved from, if it can be moved back: it is there and the other name is free.
fn moved_from<'a>(moved: &RewindFile, files: &'a [RewindFile]) -> Option<&'a RewindFile> {
    let from = moved.restore.from.as_deref()?;
    let origin = files.iter().find(|file| file.restore.path == from)?;
    let goes = moved.now.is_some() && moved.restore.to.is_none();
    (goes && origin.now.is_none() && origin.restore.to.is_some()).then_some(origin)
}

/// A path as grants have it.
fn real_path(cx: &Context, path: &Path) -> PathBuf {
    cx.location()
        .workspace()
        .paths()
        .resolve(cx.cwd(), path)
        .map_or_else(|_| path.to_owned(), |found| found.real)
}

fn unknown_change(to: u64, changes: &[FileChange], forgotten: Option<u64>) -> ToolError {
    let known = match (changes.first(), changes.last()) {
        (Some(first), Some(last)) => {
            format!("this session has changes from {} to {}; `list` shows them", first.number, last.number)
        }
        _ => "no file was changed in this session".to_owned(),
    };
    let lost = match forgotten {
        Some(last) if to <= last => format!(" any more (those up to {last} are forgotten)"),
        _ => String::new(),
    };
    ToolError::new(format!("there is no change {to}{lost}; {known}"))
}

fn list_changes(
    changes: &[FileChange],
    forgotten: Option<u64>,
    cx: &Context,
) -> Result<ToolOutput, ToolError> {
    let mut lines = Vec::new();
    if let Some(last) = forgotten {
        lines.push(format!("[changes up to {last} are forgotten]"));
    }
    let hidden = changes.len().saturating_sub(LISTED_MAX);
    if hidden > 0 {
        lines.push(format!("[{} before these]", count_noun(hidden, "older change", "older changes")));
    }
    for change in &changes[hidden..] {
        let what = match (change.was, change.is) {
            (None, _) => "created",
            (Some(_), None) => "deleted",
            (Some(_), Some(_)) => "changed",
        };
        let sizes = match (change.was, change.is) {
            (Some(was), Some(is)) => format!("{was} → {is} bytes"),
            (Some(bytes), None) | (None, Some(bytes)) => format!("{bytes} bytes"),
            (None, None) => String::new(),
        };
        let shown = paths::display_path(&change.path, cx.cwd());
        let from =
            change.from.as_ref().map(|from| format!(", moved from {}", paths::display_path(from, cx.cwd())));
        lines.push(format!(
            "{}\t{what} {shown} ({sizes}{}) by {}, turn {}",
            change.number,
            from.unwrap_or_default(),
            change.tool,
            change.turn
        ));
    }
    if changes.is_empty() {
        lines.push("[no file was changed in this session]".to_owned());
    }
    let view = CallView::titled("list of changes").summary(count_noun(changes.len(), "change", "changes"));
    Ok(lines.join("\n").into_output()?.with_view(view))
}

/// What was or would be done.
fn render_restored(
    files: &[RewindFile],
    done: &str,
    to: u64,
    cwd: &Path,
    shows_lines: bool,
) -> (String, CallView) {
    let mut lines =
        vec![format!("{done} {} to before change {to}:", count_noun(files.len(), "file", "files"))];
    let mut view = CallView::titled(format!("to before change {to}"));
    let (mut added, mut removed) = (0, 0);
    for file in files {
        let shown = paths::display_path(&file.restore.path, cwd);
        let (now, to) = (file.now.as_deref(), file.restore.to.as_deref());
        let diff = LineDiff::between(now.unwrap_or_default(), to.unwrap_or_default());
        let what = match (now, to) {
            (now, to) if now == to => "is that already".to_owned(),
            (_, None) => "removed, as it was not there".to_owned(),
            (None, Some(_)) => "brought back".to_owned(),
            _ => diff.counts(),
        };
        let foreign = if file.foreign { "; something else has changed it since" } else { "" };
        lines.push(format!("{shown}: {what}{foreign}"));
        if shows_lines {
            lines.extend(diff.to_lines());
        }
        (added, removed) = (added + diff.added, removed + diff.removed);
        view = view.with(diff.into_part(&shown));
    }
    (
        lines.join("\n"),
        view.summary(format!("{}, +{added} −{removed}", count_noun(files.len(), "file", "files"))),
    )
}
