//! `ApplyPatch`: changes of several files in the patch form that GPT models are trained on, all of them or
//! none.
//!
//! The whole patch is worked out in memory first (`place`), file by file in its order, so a file may be named
//! twice. Then it is written (`changes`). A file that moves is renamed, so it keeps its mode and owner.
//!
//! The decision to question: a file that changed since the session read it is changed all the same if every
//! place is found to the letter and only once, as by `Edit`.

mod hunk_placement;
mod parse;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use haft::effects::table::ConcurrencyClass;
use haft::files::{Bytes, FileErrorKind, FileKind};
use haft::text::truncate_chars;
use haft::view::{CallStage, ViewPart};
use haft::{CallView, Chars, Context, Effects, IntoOutput as _, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::blocking::off_thread;
use crate::charset::{self, Utf16Order};
use crate::path_suggestions;
use crate::paths::{self, count_noun};
use crate::read_tracker::{ContentHash, ReadTracker};
use crate::text_diff::LineDiff;
use crate::transaction::{self, ChangeStep, RetryCounter};
use parse::{PatchLine, PatchSection};

/// Characters that the model sees of a result.
const RESULT_CHARS: usize = 10_000;
/// Sections of one patch.
const SECTIONS_MAX: usize = 200;

/// Applies a patch to one or more files: all of it, or nothing if a part of it has no place.
///
/// The patch is text in this form; every line of a change begins with a space (stays), `-` (goes) or `+`
/// (comes):
///
/// *** Begin Patch
/// *** Add File: path/new.txt
/// +its only line
/// *** Update File: path/old.py
/// *** Move to: path/renamed.py
/// @@ def greet():
///  # a line that stays
/// -print("hi")
/// +print("hello")
/// *** Delete File: path/gone.txt
/// *** End Patch
///
/// Give about three lines that stay around each change. `@@ line` names a line above the place, such as the
/// head of its function, where the lines alone are not unique. Changes of one file come in its order.
/// `*** Move to:` is optional. Read files before you change them. For a change or two in one file, Edit is
/// simpler.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ApplyPatchInput {
    /// The patch, from `*** Begin Patch` to `*** End Patch`. Paths are absolute, or relative to the working
    /// directory.
    pub input: String,
}

/// The tool `ApplyPatch`.
#[derive(Default)]
pub struct ApplyPatch {
    seen: ReadTracker,
}

impl ApplyPatch {
    /// The tool with the memory of others: what they have read, it knows.
    pub fn new(seen: &ReadTracker) -> ApplyPatch {
        ApplyPatch { seen: seen.clone() }
    }
}

impl Tool for ApplyPatch {
    type Input = ApplyPatchInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("ApplyPatch")
            .granted_files_only()
            .alias("apply_patch")
            .group("files")
            .feature("files")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("patch diff change add delete move several files")
    }

    fn effects(&self, input: &ApplyPatchInput) -> Effects {
        // What can't be read as a patch is refused by the check, and does nothing.
        let sections = parse::parse_patch(&input.input).unwrap_or_default();
        let mut removes = false;
        let effects = sections.iter().fold(Effects::none(), |effects, section| match section {
            PatchSection::Add { path, .. } => effects.and(Effects::writes(path)),
            PatchSection::Delete { path } => {
                removes = true;
                effects.and(Effects::reads(path)).and(Effects::deletes(path))
            }
            PatchSection::Update { path, to: None, .. } => {
                effects.and(Effects::reads(path)).and(Effects::writes(path))
            }
            PatchSection::Update { path, to: Some(to), .. } => {
                removes = true;
                effects.and(Effects::reads(path)).and(Effects::deletes(path)).and(Effects::writes(to))
            }
        });
        // What it replaces stands in the call.
        if removes { effects } else { effects.recoverable() }
    }

    async fn check(&self, input: &ApplyPatchInput, _: &Context) -> Result<(), ToolError> {
        let sections = parse::parse_patch(&input.input)?;
        if sections.len() > SECTIONS_MAX {
            let words = format!("the patch has {} sections; give at most {SECTIONS_MAX}", sections.len());
            return Err(ToolError::invalid_input(words));
        }
        for path in sections.iter().flat_map(|section| [Some(section.path()), section.to()]).flatten() {
            paths::check_path("file_path", path).map_err(|error| {
                ToolError::invalid_input(error.message().replace("`file_path`", "a path in the patch"))
            })?;
        }
        Ok(())
    }

    async fn call(&self, input: ApplyPatchInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let mut again = RetryCounter::default();
        let (ended, notes) = loop {
            let mut work = PatchWork {
                cx,
                seen: &self.seen,
                files: HashMap::new(),
                order: Vec::new(),
                notes: Vec::new(),
            };
            for section in parse::parse_patch(&input.input)? {
                work.section(section).await?;
            }
            let PatchWork { mut files, order, notes, .. } = work;
            let ended: Vec<(PathBuf, PatchedFile)> =
                order.into_iter().filter_map(|path| files.remove_entry(&path)).collect();
            let steps = change_steps(&ended);
            if steps.is_empty() {
                return Err(ToolError::new("the patch leaves every file as it is; nothing was changed"));
            }
            match transaction::apply_changes(cx, steps).await {
                Ok(losses) => break (ended, [notes, losses].concat()),
                Err(failed) => match failed.undone {
                    Some(kind) if again.may_try(kind).await => {}
                    _ => return Err(failed.into()),
                },
            }
        };
        for (path, file) in ended.iter().filter(|(_, file)| file.was != file.now) {
            self.seen.checkpoints().record(cx, "ApplyPatch", path, file.was.clone(), file.now.clone());
            if let Some(mode) = file.mode.filter(|_| file.now.is_none()) {
                self.seen.checkpoints().had_mode(cx, path, mode);
            }
            if let Some(from) = file.from.as_ref().filter(|_| file.was.is_none() && file.now.is_some()) {
                self.seen.checkpoints().moved(cx, from, path);
            }
            let (Some(now), Ok(metadata)) = (&file.now, cx.files().metadata(path).await) else { continue };
            self.seen.wrote(cx, path, &metadata, ContentHash::from_bytes(now));
        }
        let cwd = cx.cwd().to_owned();
        let bytes = ended.iter().map(|(_, file)| file.now.as_ref().map_or(0, |now| now.len())).sum();
        let (lines, view) = off_thread(bytes, move || render_changes(&ended, &cwd)).await?;
        let text = [lines, notes].concat().join("\n");
        Ok(text.into_output()?.with_view(view))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let patch = stage.text("input")?;
        let names: Vec<&str> = patch
            .lines()
            .filter_map(|line| line.strip_prefix("*** ")?.split_once(" File: ").map(|(_, path)| path.trim()))
            .collect();
        let title = match names[..] {
            [] => "a patch".to_owned(),
            [one] => one.to_owned(),
            [first, ..] => format!("{first} and {} more", names.len() - 1),
        };
        let view = CallView::titled(title);
        Some(match stage {
            CallStage::Use { .. } => {
                let text = truncate_chars(patch, haft::limits::VIEW_CHARS_MAX).to_owned();
                view.with(ViewPart::Code { language: Some("diff".to_owned()), text })
            }
            _ => view.why(stage),
        })
    }
}

/// A file as it was, and as the patch has left it so far.
struct PatchedFile {
    was: Option<Bytes>,
    now: Option<Bytes>,
    /// Its mode before.
    mode: Option<u32>,
    /// Whether it has changed since the session saw it.
    changed: bool,
    /// The file that it was, if it moved here.
    from: Option<PathBuf>,
}

struct PatchWork<'a> {
    cx: &'a Context,
    seen: &'a ReadTracker,
    files: HashMap<PathBuf, PatchedFile>,
    order: Vec<PathBuf>,
    notes: Vec<String>,
}

impl PatchWork<'_> {
    fn shown(&self, path: &Path) -> String {
        paths::display_path(path, self.cx.cwd())
    }

    /// Makes sure that a file is known; says where.
    async fn look(&mut self, path: &Path) -> Result<PathBuf, ToolError> {
        let tidy = paths::normalize_path(path, self.cx);
        if self.files.contains_key(&tidy) {
            return Ok(tidy);
        }
        let files = self.cx.files();
        let file = match files.metadata(&tidy).await {
            Ok(metadata) if metadata.kind == FileKind::Directory => {
                let words = format!("`{}` is a directory; ApplyPatch works on files only", self.shown(&tidy));
                return Err(nothing_changed(ToolError::new(words)));
            }
            Ok(metadata) => {
                let bytes: Bytes = files.read(&tidy).await?.into();
                let content = Some(ContentHash::from_bytes(&bytes));
                let changed = self.seen.has_changed(self.cx, &tidy, &metadata, content);
                let mode = metadata.mode;
                PatchedFile { was: Some(bytes.clone()), now: Some(bytes), mode, changed, from: None }
            }
            Err(error) if error.kind() == FileErrorKind::NotFound => {
                PatchedFile { was: None, now: None, mode: None, changed: false, from: None }
            }
            Err(error) => return Err(error.into()),
        };
        self.files.insert(tidy.clone(), file);
        self.order.push(tidy.clone());
        Ok(tidy)
    }

    /// What a file is at this point of the patch.
    async fn there(&mut self, path: &Path) -> Result<(PathBuf, Bytes), ToolError> {
        let tidy = self.look(path).await?;
        match &self.files[&tidy] {
            PatchedFile { now: Some(now), .. } => Ok((tidy.clone(), now.clone())),
            PatchedFile { was: None, .. } => match self.cx.files().metadata(&tidy).await {
                Err(error) => {
                    Err(nothing_changed(path_suggestions::explain_missing(error, path, self.cx).await))
                }
                Ok(_) => Err(nothing_changed(ToolError::new(format!(
                    "`{}` came into being just now",
                    self.shown(&tidy)
                )))),
            },
            _ => Err(nothing_changed(ToolError::new(format!(
                "`{}` was moved or deleted by an earlier section of the patch",
                self.shown(&tidy)
            )))),
        }
    }

    fn set(&mut self, path: &Path, now: Option<Bytes>) {
        if let Some(file) = self.files.get_mut(path) {
            file.now = now;
        }
    }

    async fn section(&mut self, section: PatchSection) -> Result<(), ToolError> {
        match section {
            PatchSection::Add { path, text } => {
                let path = self.free(&path).await?;
                self.set(&path, Some(text.into_bytes().into()));
            }
            PatchSection::Delete { path } => {
                let (path, _) = self.there(&path).await?;
                if self.files[&path].changed {
                    return Err(self.stale(&path));
                }
                self.is_no_link(&path, "deletes")?;
                self.set(&path, None);
            }
            PatchSection::Update { path, to, hunks } => {
                let (path, now) = self.there(&path).await?;
                if self.files[&path].changed {
                    return Err(self.stale(&path));
                }
                let shown = self.shown(&path);
                let encoding = Utf16Order::detect(&now);
                let now = match encoding {
                    Some(encoding) => encoding
                        .decode(&now)
                        .map_err(|why| nothing_changed(ToolError::new(format!("`{shown}` {why}"))))?
                        .into_bytes()
                        .into(),
                    None => now,
                };
                if now[..now.len().min(crate::read::SNIFF_BYTES)].contains(&0) {
                    let words = format!("`{shown}` is a binary file; ApplyPatch changes text only");
                    return Err(nothing_changed(ToolError::new(words)));
                }
                let comes = hunks.iter().flat_map(|hunk| &hunk.lines).filter_map(PatchLine::added);
                charset::check_encodable(&now, comes, "ApplyPatch", &shown).map_err(nothing_changed)?;
                let placed = off_thread(now.len(), move || hunk_placement::place_hunks(&now, &hunks)).await?;
                let placed = placed.map_err(|words| {
                    nothing_changed(ToolError::new(format!(
                        "`{shown}`, {words}\nread the file again and give its lines as they stand there"
                    )))
                })?;
                let shown = self.shown(&path);
                if placed.fuzzy > 0 {
                    let places = count_noun(placed.fuzzy, "place matches", "places match");
                    self.notes
                        .push(format!("[`{shown}`: {places} only but for white space or typographic signs]"));
                }
                let text: Option<Bytes> = Some(match encoding {
                    Some(encoding) => encoding.encode(&placed.text).into(),
                    None => placed.text.into(),
                });
                match to {
                    Some(to) if paths::normalize_path(&to, self.cx) != path => {
                        self.is_no_link(&path, "moves")?;
                        let to = self.free(&to).await?;
                        let from = self.files[&path].was.is_some().then(|| path.clone());
                        self.set(&path, None);
                        self.set(&to, text);
                        if let Some(file) = self.files.get_mut(&to) {
                            file.from = from;
                        }
                    }
                    _ => self.set(&path, text),
                }
            }
        }
        Ok(())
    }

    /// A path that nothing has at this point of the patch.
    async fn free(&mut self, path: &Path) -> Result<PathBuf, ToolError> {
        let path = self.look(path).await?;
        match self.files[&path].now {
            Some(_) => Err(nothing_changed(ToolError::new(format!(
                "`{}` exists already; change it with `*** Update File: `, or delete it first",
                self.shown(&path)
            )))),
            None => Ok(path),
        }
    }

    /// A link that is gone could not be brought back as one, nor be moved without what it leads to.
    fn is_no_link(&self, path: &Path, does: &str) -> Result<(), ToolError> {
        let (cwd, real) = (self.cx.cwd(), |found: haft::files::RealPath| found.real);
        let paths = self.cx.location().workspace().paths();
        let leads = paths.resolve(cwd, path).map(real).ok();
        match leads.filter(|leads| paths.resolve_entry(cwd, path).is_ok_and(|found| found.real != *leads)) {
            Some(leads) => {
                let (link, file) = (self.shown(path), self.shown(&leads));
                Err(nothing_changed(ToolError::new(format!(
                    "`{link}` is a link to `{file}`, and ApplyPatch {does} files only; name `{file}`, or use Bash for the link"
                ))))
            }
            None => Ok(()),
        }
    }

    fn stale(&self, path: &Path) -> ToolError {
        nothing_changed(ToolError::new(format!(
            "`{}` has changed on disk since it was read; read it again, then patch",
            self.shown(path)
        )))
    }
}

fn nothing_changed(error: ToolError) -> ToolError {
    ToolError::new(format!("{}; nothing was changed", error.message()))
}

/// What leads from what the files were to what they shall be.
fn change_steps(files: &[(PathBuf, PatchedFile)]) -> Vec<ChangeStep> {
    let was = |path: &Path| files.iter().find(|(other, _)| other == path).map(|(_, file)| file);
    // A move keeps the file itself only where nothing else happens to both names.
    let moved = |file: &PatchedFile| {
        let from = file.from.as_deref()?;
        let old = was(from).filter(|old| old.now.is_none())?.was.clone()?;
        (file.was.is_none() && file.now.is_some()).then(|| (from.to_owned(), old))
    };
    let gone: Vec<PathBuf> = files.iter().filter_map(|(_, file)| Some(moved(file)?.0)).collect();
    let mut steps = Vec::new();
    for (path, file) in files {
        let path = path.clone();
        match (&file.was, &file.now, moved(file)) {
            (_, Some(now), Some((from, old))) => {
                steps.push(ChangeStep::Rename { from, to: path.clone() });
                if old != *now {
                    steps.push(ChangeStep::Write { path, old, new: now.clone() });
                }
            }
            (Some(_), None, _) if gone.contains(&path) => {}
            (Some(old), None, _) => {
                steps.push(ChangeStep::Remove { path, old: old.clone(), mode: file.mode });
            }
            (Some(old), Some(now), _) if old != now => {
                steps.push(ChangeStep::Write { path, old: old.clone(), new: now.clone() });
            }
            (None, Some(now), _) => steps.push(ChangeStep::Create { path, new: now.clone(), mode: None }),
            _ => {}
        }
    }
    steps
}

/// What was done, for the model and for a person.
fn render_changes(files: &[(PathBuf, PatchedFile)], cwd: &Path) -> (Vec<String>, CallView) {
    let mut lines = Vec::new();
    let mut view = CallView::default();
    let (mut added, mut removed) = (0, 0);
    let moved: Vec<&PathBuf> = files.iter().filter_map(|(_, file)| file.from.as_ref()).collect();
    for (path, file) in files {
        let shown = paths::display_path(path, cwd);
        let from = file.from.as_ref().filter(|_| file.now.is_some());
        if file.was == file.now || file.now.is_none() && moved.contains(&path) {
            continue;
        }
        let origin = from.and_then(|from| files.iter().find(|(other, _)| other == from));
        let was = origin.and_then(|(_, origin)| origin.was.as_ref()).or(file.was.as_ref());
        let empty = Bytes::new();
        let diff = LineDiff::between(was.unwrap_or(&empty), file.now.as_ref().unwrap_or(&empty));
        let counts = diff.counts();
        lines.push(match (from, &file.was, &file.now) {
            (Some(from), ..) => format!("moved `{}` to `{shown}` ({counts})", paths::display_path(from, cwd)),
            (None, None, _) => format!("added `{shown}` ({counts})"),
            (None, Some(_), None) => format!("deleted `{shown}` ({counts})"),
            (None, Some(_), Some(_)) => format!("changed `{shown}` ({counts})"),
        });
        (added, removed) = (added + diff.added, removed + diff.removed);
        if view.title.is_empty() {
            view.title.clone_from(&shown);
        }
        view = view.with(diff.into_part(&shown));
    }
    if lines.len() > 1 {
        view.title = format!("{} and {} more", view.title, lines.len() - 1);
    }
    (lines, view.summary(format!("+{added} −{removed}")))
}
