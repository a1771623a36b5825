//! Git worktrees of agents: where they are, what would be lost with one, and how one is made and removed.
//!
//! They lie in `.haft/worktrees/NAME` of the working directory, on a branch `haft/NAME`, so whatever a
//! session left behind is found by name (`git worktree list`, `git branch --list 'haft/*'`), and a session
//! can go on in one. Nothing is removed here that can't be had again: changes that were not committed and
//! commits that no other branch has are a reason to stop until somebody says otherwise. The branch goes only
//! while it is what was looked at.
//!
//! The way to them is never a link: a repository can have `.haft` or `.haft/worktrees` as one, and git would
//! follow it. The files of a new worktree are checked out in a second step, because only there git can say
//! which programs the repository would have it start.

pub mod enter_worktree;
pub mod exit_worktree;
mod git;

use std::path::{Path, PathBuf};
use std::time::Duration;

use haft::effects::table::ConcurrencyClass;
use haft::ports::PortName;
use haft::tool::CallTimeout;
use haft::view::CallStage;
use haft::{CallView, Context, ToolError, ToolSpec};

pub use enter_worktree::EnterWorktree;
pub use exit_worktree::ExitWorktree;
use git::GitOutput;

/// The feature that tools for worktrees belong to.
pub const FEATURE: &str = "worktrees";
/// Where worktrees lie in a working directory.
pub const FOLDER: &str = ".haft/worktrees";
/// What the names of their branches begin with.
pub const BRANCHES: &str = "haft/";
/// The longest name of a worktree, in characters.
pub const NAME_CHARS_MAX: usize = 64;
/// How long a tool on one may take.
pub const TIMEOUT: Duration = Duration::from_secs(600);
/// How many changes and commits are named.
const NAMED_MAX: usize = 20;
/// How many commits are counted.
const COUNTED_MAX: usize = 1_000;

/// What both tools are.
fn worktree_tool_spec(name: &'static str) -> ToolSpec {
    ToolSpec::new(name)
        .group("git")
        .feature(FEATURE)
        .listed_class(ConcurrencyClass::WriteExclusive)
        .timeout(CallTimeout::After(TIMEOUT))
        .needs(PortName::Processes)
}

/// What a person sees of a call.
fn render_stage(stage: &CallStage<'_>, title: &str) -> CallView {
    let view = CallView::titled(title);
    view.why(stage)
}

/// A worktree of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitWorktree {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its branch.
    pub branch: String,
}

/// A worktree that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorktree {
    /// The commit that it is at.
    pub commit: String,
    /// Filters that the repository has. They were not run, so files that need one are as they were committed.
    pub filters: Vec<String>,
}

/// What would be lost with a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorktreeLosses {
    /// How many files have changes that were not committed.
    pub files: usize,
    /// How many commits no other branch, tag or remote has; at most a thousand are counted.
    pub commits: usize,
    /// Some of both, a line each.
    pub named: Vec<String>,
    /// What the branch was when this was looked at.
    tip: Option<String>,
}

impl WorktreeLosses {
    /// Whether nothing would be lost.
    pub fn is_empty(&self) -> bool {
        self.files == 0 && self.commits == 0
    }

    /// What would be lost, in a few words.
    pub fn words(&self) -> String {
        let many = |count: usize, one: &str, more: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {more}")),
        };
        let files = many(self.files, "changed file", "changed files");
        let commits =
            many(self.commits, "commit that no other branch has", "commits that no other branch has");
        match (files, commits) {
            (Some(files), Some(commits)) => format!("{files} and {commits}"),
            (one, other) => one.or(other).unwrap_or_else(|| "nothing".to_owned()),
        }
    }

    /// The same with what it is, a line each.
    pub fn list(&self) -> String {
        let rest = (self.files + self.commits).saturating_sub(self.named.len());
        let rest = (rest > 0).then(|| format!("  … {rest} more"));
        self.named.iter().map(|line| format!("  {line}")).chain(rest).collect::<Vec<_>>().join("\n")
    }
}

/// Whether something can be the name of a worktree.
///
/// # Errors
/// Why not, in words for the model.
pub fn name_fits(name: &str) -> Result<(), ToolError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = name.len() <= NAME_CHARS_MAX
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(plain)
        // git has names like these for itself.
        && !name.contains("..")
        && !name.ends_with('.')
        && !name.ends_with(".lock");
    if fits {
        Ok(())
    } else {
        Err(ToolError::invalid_input(format!(
            "`name` must begin with a letter or digit and have at most {NAME_CHARS_MAX} letters, digits, `-`, `_` and \
             single `.`; leave it out to get one"
        )))
    }
}

impl GitWorktree {
    /// The one of this name in a folder of worktrees, whether it is there or not.
    pub fn named(folder: &Path, name: &str) -> GitWorktree {
        GitWorktree { name: name.to_owned(), path: folder.join(name), branch: format!("{BRANCHES}{name}") }
    }

    /// The working directory that it lies in.
    fn around(&self) -> &Path {
        self.path.ancestors().nth(3).unwrap_or(&self.path)
    }

    /// That no link leads to it, or would lead elsewhere.
    ///
    /// # Errors
    /// One does, or nobody can say.
    pub fn is_plain(&self) -> Result<(), ToolError> {
        let around = self.around();
        let unclear = |error: haft::files::ResolveError| ToolError::new(error.to_string());
        let found = haft::files::resolve_path(around, &self.path).map_err(unclear)?;
        let expected =
            haft::files::resolve_path(around, around).map_err(unclear)?.real.join(FOLDER).join(&self.name);
        if found.real == expected {
            Ok(())
        } else {
            Err(ToolError::new(format!(
                "there can be no worktree in `{}`: a link leads from there to `{}`; `.haft` and `{FOLDER}` have to be \
                 plain folders",
                self.path.display(),
                found.real.display()
            )))
        }
    }

    /// Makes it, at the commit that the calling agent has in front of it.
    ///
    /// # Errors
    /// The working directory is not the top of a repository or has no commit, a link is in the way, the name
    /// is taken, or git refuses.
    pub async fn add(&self, cx: &Context) -> Result<NewWorktree, ToolError> {
        self.is_plain()?;
        let around = self.around();
        let shown = around.display();
        let prefix = git::run_reading(cx, around, ["rev-parse", "--show-prefix"]).await?;
        match prefix {
            Ok(GitOutput { text, .. }) if text.is_empty() => {}
            Ok(_) => {
                return Err(ToolError::new(format!(
                    "`{shown}` is in the middle of a git repository; a worktree needs a session that works at its top"
                )));
            }
            Err(_) => {
                return Err(ToolError::new(format!(
                    "`{shown}` is not the top of a git repository, so there can be no worktree of it; work where you are"
                )));
            }
        }
        let commit =
            git::run_reading(cx, cx.cwd(), ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).await?;
        let Ok(GitOutput { text: commit, .. }) = commit else {
            return Err(ToolError::new(
                "the repository has no commit yet, so a worktree would have nothing in it; commit something first",
            ));
        };
        let path = self.path.as_os_str();
        let add: [&std::ffi::OsStr; 9] = [
            "worktree".as_ref(),
            "add".as_ref(),
            "--quiet".as_ref(),
            "--no-track".as_ref(),
            "--no-checkout".as_ref(),
            "-b".as_ref(),
            self.branch.as_ref(),
            path,
            commit.as_ref(),
        ];
        git::run_changing(cx, around, None, add).await.map_err(|error| {
            if error.message().contains("already exists") {
                ToolError::new(format!(
                    "a worktree or a branch `{}` is there already; give another name",
                    self.branch
                ))
            } else {
                error
            }
        })?;
        if let Some(folder) = self.path.parent() {
            // It works without; the checkout's status only shows the folder then.
            let _ = git::hide_folder(cx, folder).await;
        }
        match self.check_out(cx).await {
            Ok(filters) => Ok(NewWorktree { commit, filters }),
            Err(error) => {
                // Nothing is in it yet.
                let losses = WorktreeLosses { tip: Some(commit), ..WorktreeLosses::default() };
                let _ = self.remove(&losses, true, cx).await;
                Err(error)
            }
        }
    }

    /// Puts the files of its commit into a new one, and tells which filters did not run.
    async fn check_out(&self, cx: &Context) -> Result<Vec<String>, ToolError> {
        let filters = git::configured_filters(cx, &self.path).await?;
        git::run_changing(cx, &self.path, None, ["reset", "--hard", "--quiet", "--no-recurse-submodules"])
            .await?;
        Ok(filters)
    }

    /// Whether it is there.
    ///
    /// # Errors
    /// A link leads to it, or git can't be run.
    pub async fn exists(&self, cx: &Context) -> Result<bool, ToolError> {
        self.is_plain()?;
        if cx.files().metadata(&self.path).await.is_err() {
            return Ok(false);
        }
        let top = git::run_reading(cx, &self.path, ["rev-parse", "--show-toplevel"]).await?;
        Ok(top.is_ok_and(|said| Path::new(&said.text) == self.path))
    }

    /// What would be lost with it.
    ///
    /// # Errors
    /// It can't be looked at.
    pub async fn losses(&self, cx: &Context) -> Result<WorktreeLosses, ToolError> {
        let unclear = |complaint: String| {
            ToolError::new(format!("the worktree `{}` can't be looked at: {complaint}", self.path.display()))
        };
        let status = ["status", "--porcelain=v1", "--untracked-files=all", "--ignore-submodules=none"];
        let status = git::run_reading(cx, &self.path, status).await?.map_err(unclear)?;
        let reference = format!("refs/heads/{}", self.branch);
        let tip =
            git::run_reading(cx, &self.path, ["rev-parse", "--verify", "--quiet", &reference]).await?.ok();
        let tip = tip.map(|said| said.text);
        let (most, exclude) = (format!("--max-count={COUNTED_MAX}"), format!("--exclude={}", self.branch));
        let mut log = vec!["log", "--no-show-signature", "--format=%h %s", &most, "HEAD"];
        log.extend(tip.as_deref());
        log.extend(["--not", &exclude, "--branches", "--tags", "--remotes"]);
        let commits = git::run_reading(cx, &self.path, log).await?.map_err(unclear)?;
        let lines = |said: &GitOutput| said.text.lines().map(str::to_owned).collect::<Vec<_>>();
        let (files, commits) = (lines(&status), lines(&commits));
        // What didn't fit is more, not less.
        let count = |lines: &[String], said_whole: bool| lines.len() + usize::from(!said_whole);
        Ok(WorktreeLosses {
            files: count(&files, status.whole),
            commits: commits.len(),
            named: files.iter().take(NAMED_MAX).chain(commits.iter().take(NAMED_MAX)).cloned().collect(),
            tip,
        })
    }

    /// Removes it with its branch. Unless everything is to go, git itself looks once more whether something
    /// would be lost.
    ///
    /// # Errors
    /// Something would be lost, or git refuses.
    pub async fn remove(&self, losses: &WorktreeLosses, all: bool, cx: &Context) -> Result<(), ToolError> {
        if !all && !losses.is_empty() {
            return Err(ToolError::new(format!("it was not removed: it has {}", losses.words())));
        }
        self.is_plain()?;
        let around = self.around();
        let mut remove: Vec<&std::ffi::OsStr> = vec!["worktree".as_ref(), "remove".as_ref()];
        if all {
            remove.push("--force".as_ref());
        }
        remove.push(self.path.as_os_str());
        git::run_changing(cx, around, Some(&self.path), remove).await?;
        if let Some(tip) = &losses.tip {
            // Only while it is what was looked at.
            let reference = format!("refs/heads/{}", self.branch);
            git::run_changing(cx, around, None, ["update-ref", "-d", &reference, tip]).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged() {
        for name in ["a", "fix-12", "A_b.c", "7"] {
            assert!(name_fits(name).is_ok(), "{name}");
        }
        let long = "x".repeat(NAME_CHARS_MAX + 1);
        for name in ["", ".", "..", "-f", "a/b", "a..b", "a.", "a.lock", "a b", "ä", "a\nb", "--force", &long]
        {
            assert!(name_fits(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn losses_are_said() {
        let losses = |files, commits| WorktreeLosses { files, commits, ..WorktreeLosses::default() }.words();
        assert_eq!(losses(0, 0), "nothing");
        assert_eq!(losses(1, 0), "1 changed file");
        assert_eq!(losses(2, 1), "2 changed files and 1 commit that no other branch has");
    }
}
