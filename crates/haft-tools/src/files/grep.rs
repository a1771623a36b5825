//! `Grep`: lines, files and counts by a regular expression, with ripgrep's own search.
//!
//! What is searched is what `rg --hidden --no-require-git --glob '!.git'` searches: no ignored files, nothing
//! in `.git`, nothing binary, no links. Rules outside of what the call may read, such as the user's own for
//! git, have no effect.
//!
//! The order of a result doesn't depend on threads: lines and counts stand by path, files by age. Where only
//! the first so many are asked for, what lies behind them is not searched once they are there (`results.rs`).

mod query;
mod results;
mod search;

use std::io;
use std::path::{Path, PathBuf};

use haft::effects::table::ConcurrencyClass;
use haft::files::{FileErrorKind, OpenFile};
use haft::tool::Interrupt;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, IntoOutput as _, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::blocking::run_blocking;
use crate::ignore_rules::IgnoreRules;
use crate::walk::walk_tree;
use crate::{path_suggestions, paths};
use query::GrepQuery;
use results::GrepResults;
use search::GrepSearch;

/// Lines, files or counts of one result, if the call doesn't say.
const ENTRIES: u32 = 250;
/// Lines around a match at most.
const CONTEXT_MAX: u32 = 1_000;

/// Searches files with a regular expression and returns matching lines, the files that have any, or how many
/// each has.
///
/// Use it to find where something is said or done, in one file or in a whole directory; to find files by
/// name, use Glob. The syntax is that of ripgrep: `log.*Error`, `fn \w+\(`, `\bTODO\b`; put `\` before a sign
/// that is meant as itself, as in `interface\{\}`. Files that .gitignore names, `.git` and binary files are
/// left out. A pattern matches within one line unless `multiline` is set.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct GrepInput {
    /// The regular expression.
    pub pattern: String,
    /// File or directory to search: absolute, or relative to the working directory. Default: the working
    /// directory.
    #[serde(default)]
    pub path: Option<PathBuf>,
    /// Only files whose path matches, such as `*.rs` or `src/**/*.{ts,tsx}`. Several are separated by commas;
    /// one that begins with `!` leaves files out.
    #[serde(default)]
    pub glob: Option<String>,
    /// Only files of this type, such as `rust`, `py`, `js` or `md`.
    #[serde(default, rename = "type")]
    pub file_type: Option<String>,
    /// What to return. `files_with_matches`, the default: paths, the file that changed last first. `content`:
    /// the matching lines. `count`: how many lines match in each file.
    #[serde(default)]
    pub output_mode: Option<OutputMode>,
    /// Lines to show after each match. Only with `content`.
    #[serde(default, rename = "-A")]
    pub after: Option<u32>,
    /// Lines to show before each match. Only with `content`.
    #[serde(default, rename = "-B")]
    pub before: Option<u32>,
    /// Lines to show before and after each match. Only with `content`.
    #[serde(default, rename = "-C")]
    pub around: Option<u32>,
    /// The same as `-C`.
    #[serde(default)]
    pub context: Option<u32>,
    /// Whether to show line numbers. Only with `content`. Default: true.
    #[serde(default, rename = "-n")]
    pub line_numbers: Option<bool>,
    /// Whether upper and lower case are the same. Default: false.
    #[serde(default, rename = "-i")]
    pub ignore_case: Option<bool>,
    /// Whether to show only the part of a line that matches, one for each match. Only with `content`.
    /// Default: false.
    #[serde(default, rename = "-o")]
    pub only_matching: Option<bool>,
    /// How many lines, files or counts to return at most; 0 is all. Default: 250.
    #[serde(default)]
    pub head_limit: Option<u32>,
    /// How many lines, files or counts to leave out at the beginning, to go on where a result was cut.
    /// Default: 0.
    #[serde(default)]
    pub offset: Option<u32>,
    /// Whether a match may go over several lines, and `.` matches the end of a line too. Default: false.
    #[serde(default)]
    pub multiline: Option<bool>,
}

/// What a search returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// Matching lines.
    Content,
    /// Files that have a match.
    #[default]
    FilesWithMatches,
    /// How many lines match in each file.
    Count,
}

/// The tool `Grep`.
pub struct Grep;

impl GrepInput {
    fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new("."))
    }

    fn mode(&self) -> OutputMode {
        self.output_mode.unwrap_or_default()
    }
}

impl Tool for Grep {
    type Input = GrepInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Grep")
            .granted_files_only()
            .alias("grep")
            .group("files")
            .feature("files")
            .listed_class(ConcurrencyClass::ReadOnly)
            .result_limit(Chars(haft::limits::RESULT_CHARS))
            .interrupt(Interrupt::Cancel)
            .search_hint("search find text lines in files regular expression ripgrep rg")
    }

    fn effects(&self, input: &GrepInput) -> Effects {
        Effects::reads_tree(input.path())
    }

    async fn check(&self, input: &GrepInput, cx: &Context) -> Result<(), ToolError> {
        paths::check_path("path", input.path())?;
        for (name, lines) in
            [("-A", input.after), ("-B", input.before), ("-C", input.around), ("context", input.context)]
        {
            if lines.is_some_and(|lines| lines > CONTEXT_MAX) {
                let words = format!("`{name}` is more than {CONTEXT_MAX} lines; read the file instead");
                return Err(ToolError::invalid_input(words));
            }
        }
        let (place, cwd, input) =
            (paths::normalize_path(input.path(), cx), cx.cwd().to_owned(), input.clone());
        run_blocking(move |_| GrepQuery::compile(&input, &place, &cwd).map(drop)).await?
    }

    async fn call(&self, input: GrepInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let path = input.path().to_owned();
        let place = paths::normalize_path(&path, cx);
        let view = search_title(&input.pattern, input.path.as_deref());
        let cwd = cx.cwd().to_owned();
        // A pattern may take long to compile, and an answer to write: all of it is done on the thread for
        // that.
        let compile = {
            let (place, cwd) = (place.clone(), cwd.clone());
            move || GrepQuery::compile(&input, &place, &cwd)
        };
        let said = move |answer: &GrepResults| (answer.text(&cwd), answer.summary());
        let (text, summary) = match cx.files().open_dir(&path).await {
            Ok(dir) => {
                let above = IgnoreRules::above(&place, cx).await;
                run_blocking(move |stop| {
                    let search = GrepSearch::new(compile()?, true);
                    let (_, problems) = walk_tree(dir, &place, above, &search, stop);
                    Ok::<_, ToolError>(said(&search.into_answer(problems)))
                })
                .await??
            }
            Err(error) if error.kind() == FileErrorKind::NotADirectory => {
                let file = match cx.files().open(&path).await {
                    Ok(file) => file,
                    Err(error) => return Err(path_suggestions::explain_missing(error, &path, cx).await),
                };
                let runtime = tokio::runtime::Handle::current();
                run_blocking(move |stop| {
                    let file = BlockingFile { file, runtime, stop };
                    one_file(file, &place, compile()?).map(|answer| said(&answer))
                })
                .await??
            }
            Err(error) => return Err(path_suggestions::explain_missing(error, &path, cx).await),
        };
        Ok(text.into_output()?.with_view(view.summary(summary)))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = search_title(stage.text("pattern")?, stage.text("path").map(Path::new));
        Some(view.why(stage))
    }
}

fn search_title(pattern: &str, path: Option<&Path>) -> CallView {
    CallView::titled(paths::search_subject(&format!("\"{pattern}\""), path))
}

/// Searches a file that the call names. It may be a link, and binary; ignored or of another type it may be
/// too.
fn one_file(file: BlockingFile<'_>, path: &Path, query: GrepQuery) -> Result<GrepResults, ToolError> {
    let search = GrepSearch::new(query, false);
    let modified = file.file.metadata().modified;
    search.one(path, modified, file)?;
    Ok(search.into_answer(Default::default()))
}

/// A file of the port, read from a thread that may block.
struct BlockingFile<'a> {
    file: Box<dyn OpenFile>,
    runtime: tokio::runtime::Handle,
    stop: &'a std::sync::atomic::AtomicBool,
}

impl io::Read for BlockingFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(0);
        }
        let bytes = self.runtime.block_on(self.file.read(buffer.len())).map_err(io::Error::other)?;
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }
}
