//! `Glob`: files by the pattern of their path, newest first.
//!
//! The walk begins where the pattern stops being plain text, and so does the declared effect: `src/**/*.rs`
//! reads `src`. Rules of `.gitignore` have no effect, so that what was just built can be found; `.git` itself
//! is left out.

use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use haft::effects::table::ConcurrencyClass;
use haft::files::{FileError, FileErrorKind, OpenDir};
use haft::tool::Interrupt;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, IntoOutput as _, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::blocking::run_blocking;
use crate::path_suggestions;
use crate::paths::{self, PathKey, count_noun};
use crate::walk::{DirectoryListing, WalkEntry, WalkVisitor, walk_tree};

/// Files that one result names.
const FILES_MAX: usize = 100;
/// The longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 4_096;

/// Finds files by a pattern of their path and returns the paths, the file that changed last first.
///
/// Use it when you know something of a file's name or place, such as `**/*.rs`, `src/**/*_test.py` or
/// `{README,CHANGES}*`. `*` is any part of one name, `**` any directories, `?` one character, `[a-z]` one of
/// these, `{a,b}` one of these. Without `**/`, only the directory itself is looked at. It returns up to 100
/// files, hidden and ignored ones included, but nothing in `.git`, no directories and no links. To search
/// what is in files, use Grep.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GlobInput {
    /// The pattern, relative to `path`, or an absolute one.
    pub pattern: String,
    /// Directory to look in: absolute, or relative to the working directory. Default: the working directory.
    #[serde(default)]
    pub path: Option<PathBuf>,
}

/// The tool `Glob`.
pub struct Glob;

impl Tool for Glob {
    type Input = GlobInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Glob")
            .granted_files_only()
            .alias("glob")
            .group("files")
            .feature("files")
            .listed_class(ConcurrencyClass::ReadOnly)
            .result_limit(Chars(haft::limits::RESULT_CHARS))
            .interrupt(Interrupt::Cancel)
            .search_hint("find files by name path extension wildcard")
    }

    fn effects(&self, input: &GlobInput) -> Effects {
        Effects::reads_tree(GlobSplit::from_input(input).base)
    }

    async fn check(&self, input: &GlobInput, _: &Context) -> Result<(), ToolError> {
        if let Some(path) = &input.path {
            paths::check_path("path", path)?;
        }
        if input.pattern.is_empty() {
            return Err(ToolError::invalid_input("`pattern` is empty; `**/*` is every file"));
        }
        if input.pattern.len() > PATTERN_BYTES_MAX {
            let words = format!("`pattern` has more than {PATTERN_BYTES_MAX} bytes; give a shorter one");
            return Err(ToolError::invalid_input(words));
        }
        paths::check_path("pattern", Path::new(&input.pattern))?;
        let split = GlobSplit::from_input(input);
        if Path::new(&split.rest).components().any(|part| part == Component::ParentDir) {
            let words =
                "`..` in `pattern` must come before the first wildcard; or give the directory as `path`";
            return Err(ToolError::invalid_input(words));
        }
        if leads_apart(&input.pattern) {
            let words = "`{…}` at the beginning of `pattern` has a part that begins with `/` or `..`, which leads to \
                         another directory; give each in a call of its own";
            return Err(ToolError::invalid_input(words));
        }
        split.compile().map(drop)
    }

    async fn call(&self, input: GlobInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let split = GlobSplit::from_input(&input);
        let base = paths::normalize_path(&split.base, cx);
        let dir = match cx.files().open_dir(&split.base).await {
            Ok(dir) => dir,
            Err(error) => return not_opened(error, &input, cx).await,
        };
        let search = GlobSearch {
            pattern: split.compile()?,
            levels: split.levels(),
            base_len: base.as_os_str().len() + usize::from(base.as_os_str() != "/"),
        };
        let (kept, problems) = run_blocking(move |stop| walk_tree(dir, &base, (), &search, stop)).await?;
        let total: usize = kept.iter().map(|local| local.count).sum();
        let mut found: Vec<GlobMatch> = kept.into_iter().flat_map(|local| local.newest).collect();
        found.sort_unstable();
        found.truncate(FILES_MAX);
        let mut lines: Vec<String> =
            found.iter().map(|file| paths::display_path(file.path.path(), cx.cwd())).collect();
        if total == 0 {
            lines.push(no_match_text(&input, cx));
        } else if total > found.len() {
            lines.push(format!(
                "[the {} newest of {total} files; a narrower pattern or `path` shows others]",
                found.len()
            ));
        }
        lines.extend(paths::unnameable_note(found.iter().map(|file| file.path.path())));
        lines.extend(problems.words());
        let view = CallView::titled(paths::search_subject(&input.pattern, input.path.as_deref()));
        let summary =
            if total == 0 { "nothing found".to_owned() } else { count_noun(total, "file", "files") };
        Ok(lines.join("\n").into_output()?.with_view(view.summary(summary)))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = CallView::titled(paths::search_subject(
            stage.text("pattern")?,
            stage.text("path").map(Path::new),
        ));
        Some(view.why(stage))
    }
}

/// What to say when the directory to begin in isn't one.
async fn not_opened(error: FileError, input: &GlobInput, cx: &Context) -> Result<ToolOutput, ToolError> {
    let missing = matches!(error.kind(), FileErrorKind::NotFound | FileErrorKind::NotADirectory);
    // A directory that only the pattern names is a pattern that matches nothing.
    let given = input.path.as_deref().unwrap_or(Path::new("."));
    if missing && !Path::new(&input.pattern).is_absolute() && cx.files().list(given).await.is_ok() {
        let view =
            CallView::titled(paths::search_subject(&input.pattern, Some(given))).summary("nothing found");
        return Ok(no_match_text(input, cx).into_output()?.with_view(view));
    }
    if error.kind() == FileErrorKind::NotADirectory {
        let words = format!("`{}` is not a directory; give the directory to look in", given.display());
        return Err(ToolError::new(words).with_source(error));
    }
    let base = GlobSplit::from_input(input).base;
    Err(path_suggestions::explain_missing(error, &base, cx).await)
}

fn no_match_text(input: &GlobInput, cx: &Context) -> String {
    let place = input.path.as_deref().map_or_else(
        || "the working directory".to_owned(),
        |path| format!("`{}`", paths::display_path(&paths::normalize_path(path, cx), cx.cwd())),
    );
    let pattern = &input.pattern;
    if pattern.contains('/') || pattern.starts_with("**") {
        format!("[no file matches `{pattern}` in {place}]")
    } else {
        format!(
            "[no file matches `{pattern}` in {place} itself; `**/{pattern}` looks in all directories below]"
        )
    }
}

/// Whether braces at the very beginning have a part that begins elsewhere: `{/etc,src}/*` begins in two
/// places.
fn leads_apart(pattern: &str) -> bool {
    // For each brace that is open, whether it is at the beginning.
    let mut open: Vec<bool> = Vec::new();
    let mut begins = true;
    for (at, c) in pattern.char_indices() {
        let rest = &pattern[at..];
        let up = rest.strip_prefix("..").is_some_and(|rest| rest.starts_with(['/', ',', '}']));
        if begins && open.last() == Some(&true) && (c == '/' || up) {
            return true;
        }
        match c {
            '{' => open.push(begins),
            ',' => begins = open.last() == Some(&true),
            '}' => {
                open.pop();
                begins = false;
            }
            _ => begins = false,
        }
        if open.is_empty() && !begins {
            return false;
        }
    }
    false
}

/// A pattern, and where to begin with it.
struct GlobSplit {
    base: PathBuf,
    rest: String,
}

impl GlobSplit {
    fn from_input(input: &GlobInput) -> GlobSplit {
        let mut base = input.path.clone().unwrap_or_else(|| PathBuf::from("."));
        let mut rest = input.pattern.as_str();
        if rest.starts_with('/') {
            base = PathBuf::from("/");
            rest = rest.trim_start_matches('/');
        }
        // The last name stays: it is what is looked for.
        while let Some((name, after)) = rest.split_once('/') {
            if name.contains(['*', '?', '[', '{', '\\']) {
                break;
            }
            if !matches!(name, "" | ".") {
                base.push(name);
            }
            rest = after;
        }
        // `src/` means what is in it.
        let rest = if rest.is_empty() || rest.ends_with('/') { format!("{rest}**") } else { rest.to_owned() };
        GlobSplit { base, rest }
    }

    fn compile(&self) -> Result<GlobSet, ToolError> {
        let senseless = |error: globset::Error| {
            let words = format!(
                "`pattern` is not understood: {}; put `\\` before a sign that is meant as itself",
                error.kind()
            );
            ToolError::invalid_input(words)
        };
        let glob = GlobBuilder::new(&self.rest).literal_separator(true).empty_alternates(true).build();
        let mut set = GlobSetBuilder::new();
        set.add(glob.map_err(senseless)?);
        set.build().map_err(senseless)
    }

    /// How many directories below the base a match can lie; nothing if any number.
    fn levels(&self) -> Option<usize> {
        let mut inside = 0_usize;
        let mut levels = 0;
        for c in self.rest.chars() {
            match c {
                '{' => inside += 1,
                '}' => inside = inside.saturating_sub(1),
                '/' if inside > 0 => return None,
                '/' => levels += 1,
                _ => {}
            }
        }
        (!self.rest.contains("**")).then_some(levels)
    }
}

struct GlobSearch {
    pattern: GlobSet,
    levels: Option<usize>,
    /// How many bytes of a path lie before what is matched.
    base_len: usize,
}

/// What one thread found: how many, and the newest of them. The heap's greatest is the oldest.
#[derive(Default)]
struct LocalMatches {
    count: usize,
    newest: BinaryHeap<GlobMatch>,
}

/// Sorts by age, newest first, then by path.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct GlobMatch {
    modified: std::cmp::Reverse<Option<SystemTime>>,
    path: PathKey,
}

impl WalkVisitor for GlobSearch {
    type Local = LocalMatches;
    type Rules = ();

    fn local(&self) -> LocalMatches {
        LocalMatches::default()
    }

    fn enter(&self, _: &DirectoryListing<'_>, (): &()) {}

    fn wants(&self, (): &(), entry: &WalkEntry<'_>) -> bool {
        if entry.is_dir {
            return entry.name != ".git" && self.levels.is_none_or(|levels| entry.depth < levels);
        }
        let relative = &entry.path.as_os_str().as_bytes()[self.base_len..];
        self.pattern.is_match_candidate(&Candidate::new(OsStr::from_bytes(relative)))
    }

    fn file(
        &self,
        local: &mut LocalMatches,
        dir: &dyn OpenDir,
        entry: &WalkEntry<'_>,
    ) -> Result<(), FileError> {
        let modified = std::cmp::Reverse(dir.metadata(entry.name)?.modified);
        local.count += 1;
        if local.newest.len() == FILES_MAX {
            let Some(oldest) = local.newest.peek() else { return Ok(()) };
            let newer = modified < oldest.modified
                || modified == oldest.modified && oldest.path.cmp_path(entry.path).is_gt();
            if !newer {
                return Ok(());
            }
            local.newest.pop();
        }
        local.newest.push(GlobMatch { modified, path: PathKey::from_path(entry.path) });
        Ok(())
    }
}
