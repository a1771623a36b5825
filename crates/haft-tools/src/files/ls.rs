//! `LS`: what is in a directory and below it, as a tree with sizes.
//!
//! The tree is read level by level, so that a cut takes from the deep end: what is near the top is always all
//! there, as far as one directory shows its entries. Like `Glob` it shows hidden and ignored files and goes
//! into no `.git`; links are shown and not followed.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use globset::{Glob, GlobSet, GlobSetBuilder};
use haft::effects::table::ConcurrencyClass;
use haft::files::{FileErrorKind, FileKind, OpenDir};
use haft::tool::Interrupt;
use haft::view::{CallStage, visible_line};
use haft::{CallView, Chars, Context, Effects, IntoOutput as _, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::blocking::run_blocking;
use crate::path_suggestions;
use crate::paths::{self, count_noun};

/// Levels that are shown, if the call doesn't say.
const DEPTH: u32 = 2;
/// Levels that a call can ask for.
const DEPTH_MAX: u32 = 20;
/// Entries of one result.
const ENTRIES_MAX: usize = 1_000;
/// Entries of one directory that are shown.
const ENTRIES_PER_DIR: usize = 200;
/// Entries of one directory that are looked at; the rest of a huge one is only counted.
const LOOKED_AT_MAX: usize = 100_000;
/// Patterns of a call, and the longest of them in bytes.
const PATTERNS_MAX: usize = 100;
const PATTERN_BYTES_MAX: usize = 1_024;

/// Shows what is in a directory, as a tree with the sizes of files.
///
/// Use it to get to know a directory. It shows two levels unless `depth` says more, up to 1000 entries,
/// directories first in each; where something is left out the result says how much. Hidden and ignored files
/// are shown, but nothing in `.git`; links are not followed. To find files by name use Glob, to search what
/// is in them use Grep.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct LsInput {
    /// The directory: absolute, or relative to the working directory. Default: the working directory.
    #[serde(default)]
    pub path: Option<PathBuf>,
    /// How many levels to show; 1 is only the directory itself. Default: 2.
    #[serde(default)]
    #[schemars(range(min = 1, max = 20))]
    pub depth: Option<u32>,
    /// Patterns of names to leave out, such as `node_modules` or `*.log`.
    #[serde(default)]
    pub ignore: Option<Vec<String>>,
}

/// The tool `LS`.
pub struct Ls;

impl Tool for Ls {
    type Input = LsInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("LS")
            .granted_files_only()
            .alias("ls")
            .alias("list_dir")
            .alias("list_directory")
            .group("files")
            .feature("files")
            .listed_class(ConcurrencyClass::ReadOnly)
            .result_limit(Chars(haft::limits::RESULT_CHARS))
            .interrupt(Interrupt::Cancel)
            .search_hint("list directory folder tree files sizes")
    }

    fn effects(&self, input: &LsInput) -> Effects {
        Effects::reads_tree(input.path.clone().unwrap_or_else(|| PathBuf::from(".")))
    }

    async fn check(&self, input: &LsInput, _: &Context) -> Result<(), ToolError> {
        if let Some(path) = &input.path {
            paths::check_path("path", path)?;
        }
        if let Some(depth) = input.depth.filter(|depth| !(1..=DEPTH_MAX).contains(depth)) {
            let words = format!("`depth` must be between 1 and {DEPTH_MAX}, got {depth}");
            return Err(ToolError::invalid_input(words));
        }
        compile_patterns(input.ignore.as_deref().unwrap_or_default()).map(drop)
    }

    async fn call(&self, input: LsInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let path = input.path.clone().unwrap_or_else(|| PathBuf::from("."));
        let shown = paths::display_path(&paths::normalize_path(&path, cx), cx.cwd());
        let dir = match cx.files().open_dir(&path).await {
            Ok(dir) => dir,
            Err(error) if error.kind() == FileErrorKind::NotADirectory => {
                let words = format!("`{shown}` is not a directory; Read shows what is in a file");
                return Err(ToolError::new(words).with_source(error));
            }
            Err(error) => return Err(path_suggestions::explain_missing(error, &path, cx).await),
        };
        let ignore = compile_patterns(input.ignore.as_deref().unwrap_or_default())?;
        let depth = input.depth.unwrap_or(DEPTH);
        let tree = run_blocking(move |stop| DirectoryTree::read(dir, depth, &ignore, stop)).await?;
        let mut text = format!("{}/\n", shown.trim_end_matches('/'));
        tree.show(&mut text);
        let view =
            CallView::titled(input.path.as_ref().map_or(".".to_owned(), |path| path.display().to_string()));
        let summary = count_noun(tree.nodes.len() - 1, "entry", "entries");
        Ok(text.trim_end().to_owned().into_output()?.with_view(view.summary(summary)))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = CallView::titled(stage.text("path").unwrap_or("."));
        Some(view.why(stage))
    }
}

fn compile_patterns(patterns: &[String]) -> Result<GlobSet, ToolError> {
    if patterns.len() > PATTERNS_MAX || patterns.iter().any(|pattern| pattern.len() > PATTERN_BYTES_MAX) {
        return Err(ToolError::invalid_input(format!(
            "`ignore` takes at most {PATTERNS_MAX} patterns of {PATTERN_BYTES_MAX} bytes each"
        )));
    }
    let senseless = |pattern: &str, error: &globset::Error| {
        ToolError::invalid_input(format!(
            "`ignore` has a pattern that is not understood, `{pattern}`: {}",
            error.kind()
        ))
    };
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        // A slash at the end only says that it is a directory.
        let glob = Glob::new(pattern.trim_end_matches('/')).map_err(|error| senseless(pattern, &error))?;
        set.add(glob);
    }
    set.build().map_err(|error| senseless("", &error))
}

/// What was found.
#[derive(Default)]
struct DirectoryTree {
    /// The first is the directory itself.
    nodes: Vec<DirectoryNode>,
    /// Where the levels were cut because there was too much.
    full: bool,
}

#[derive(Default)]
struct DirectoryNode {
    name: OsString,
    kind: Option<FileKind>,
    len: u64,
    children: Vec<usize>,
    /// Entries that are not shown.
    hidden: usize,
    /// Why it could not be looked at.
    problem: Option<String>,
    /// Whether it was looked at.
    is_open: bool,
}

impl DirectoryTree {
    fn read(root: Box<dyn OpenDir>, depth: u32, ignore: &GlobSet, stop: &AtomicBool) -> DirectoryTree {
        let mut tree = DirectoryTree { nodes: vec![DirectoryNode::default()], full: false };
        let mut queue: VecDeque<(Box<dyn OpenDir>, usize, u32)> = VecDeque::from([(root, 0, 1)]);
        while let Some((dir, at, level)) = queue.pop_front() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            tree.nodes[at].is_open = true;
            let mut entries: Vec<(bool, OsString, FileKind)> = Vec::new();
            let mut beyond = 0;
            let listed = dir.each(&mut |name, kind| match entries.len() < LOOKED_AT_MAX {
                _ if ignore.is_match(name) => {}
                true => entries.push((kind != FileKind::Directory, name.to_owned(), kind)),
                false => beyond += 1,
            });
            if let Err(error) = listed {
                tree.nodes[at].problem = Some(error.to_string());
                continue;
            }
            entries.sort_unstable_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
            let room = ENTRIES_PER_DIR.min((ENTRIES_MAX + 1).saturating_sub(tree.nodes.len()));
            tree.nodes[at].hidden = beyond + entries.len().saturating_sub(room);
            tree.full |= entries.len() > room && room < ENTRIES_PER_DIR;
            entries.truncate(room);
            for (_, name, kind) in entries {
                let child = tree.nodes.len();
                let mut node = DirectoryNode { name, kind: Some(kind), ..DirectoryNode::default() };
                match kind {
                    FileKind::File => node.len = dir.metadata(&node.name).map_or(0, |metadata| metadata.len),
                    FileKind::Directory if level < depth && node.name != OsStr::new(".git") => {
                        match dir.open_dir(&node.name) {
                            Ok(inside) => queue.push_back((inside, child, level + 1)),
                            Err(error) => node.problem = Some(error.to_string()),
                        }
                    }
                    _ => {}
                }
                tree.nodes[at].children.push(child);
                tree.nodes.push(node);
            }
        }
        tree
    }

    fn show(&self, text: &mut String) {
        let mut unnameable = 0;
        self.show_node(0, 1, text, &mut unnameable);
        if self.nodes.len() == 1 && self.nodes[0].hidden == 0 && self.nodes[0].problem.is_none() {
            text.push_str("[empty]\n");
        }
        if self.full {
            text.push_str(&format!(
                "[cut at {ENTRIES_MAX} entries, the deepest level is not complete; give a `path` below, a smaller `depth`, or \
                 patterns to `ignore`]\n"
            ));
        }
        if unnameable > 0 {
            let names = if unnameable == 1 { "1 name is" } else { &format!("{unnameable} names are") };
            text.push_str(&format!("[{names} not UTF-8 and shown with �; no call can name such a file]\n"));
        }
    }

    fn show_node(&self, at: usize, level: usize, text: &mut String, unnameable: &mut usize) {
        let node = &self.nodes[at];
        let indent = "  ".repeat(level);
        for &child in &node.children {
            let entry = &self.nodes[child];
            *unnameable += usize::from(entry.name.to_str().is_none());
            let name = visible_line(&entry.name.to_string_lossy());
            let line = match entry.kind {
                Some(FileKind::Directory) if entry.is_open || entry.problem.is_some() => format!("{name}/"),
                Some(FileKind::Directory) => format!("{name}/ …"),
                Some(FileKind::Link) => format!("{name} (link)"),
                Some(FileKind::Other) => format!("{name} (pipe, socket or device)"),
                _ => format!("{name} ({})", format_size(entry.len)),
            };
            text.push_str(&format!("{indent}{line}\n"));
            self.show_node(child, level + 1, text, unnameable);
        }
        if let Some(problem) = &node.problem {
            text.push_str(&format!("{indent}[{problem}]\n"));
        }
        if node.hidden > 0 {
            text.push_str(&format!("{indent}… {} more\n", node.hidden));
        }
    }
}

/// `812 B`, `4.2 KiB`, `31 MiB`.
pub(crate) fn format_size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return match unit {
                "B" => format!("{bytes} B"),
                _ if value < 10.0 => format!("{value:.1} {unit}"),
                _ => format!("{value:.0} {unit}"),
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// Names of one directory as a call of another tool shows them: directories with a slash.
pub(crate) fn entry_names(entries: &[haft::files::DirEntry], max: usize) -> Vec<String> {
    let mut kinds: HashMap<FileKind, &str> = HashMap::new();
    kinds.extend([
        (FileKind::Directory, "/"),
        (FileKind::Link, " (link)"),
        (FileKind::Other, " (pipe, socket or device)"),
    ]);
    let name = |entry: &haft::files::DirEntry| {
        let sign = kinds.get(&entry.kind).copied().unwrap_or_default();
        format!("{}{sign}", visible_line(&entry.name.to_string_lossy()))
    };
    entries.iter().take(max).map(name).collect()
}
