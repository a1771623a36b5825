//! Changes of several files, all of them or none.
//!
//! Each file is replaced in one step, several are not: there is no such step. What was done before one fails is undone,
//! and if that fails too the error says which files are left changed. Once begun, the work goes on even if nobody waits
//! for it any more, so that a call that is cut off leaves all or nothing as well.

use std::path::PathBuf;
use std::sync::Arc;

use haft::files::{FileError, WriteMode};
use haft::{Context, ToolError};

use crate::paths;

/// One step.
pub(crate) enum Step {
    /// A file is created, or replaced if there was one.
    Write { path: PathBuf, old: Option<Arc<[u8]>>, new: Arc<[u8]> },
    /// A file is removed.
    Remove { path: PathBuf, old: Arc<[u8]> },
    /// A file gets another name, which nothing has.
    Rename { from: PathBuf, to: PathBuf },
}

/// Does all the steps, in order, or none.
pub(crate) async fn apply(cx: &Context, steps: Vec<Step>) -> Result<(), ToolError> {
    let cx = cx.clone();
    let work = tokio::spawn(async move {
        for (at, step) in steps.iter().enumerate() {
            let Err(error) = step.run(&cx).await else { continue };
            let mut left = Vec::new();
            // The one that failed may have been done all the same: a disk can fail after it.
            let begun = if step.was_done(&cx).await { &steps[..=at] } else { &steps[..at] };
            for done in begun.iter().rev() {
                if done.undo(&cx).await.is_err() && done.was_done(&cx).await {
                    left.push(format!("`{}`", paths::shown(&paths::tidy(done.path(), &cx), cx.cwd())));
                }
            }
            let state = match left.is_empty() {
                true => "nothing was changed".to_owned(),
                false => format!("undoing the rest failed: {} changed", left.join(", ")),
            };
            return Err(ToolError::new(format!("{error}; {state}")).with_source(error));
        }
        Ok(())
    });
    match work.await {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(ToolError::new("the program is ending")),
    }
}

impl Step {
    fn path(&self) -> &std::path::Path {
        match self {
            Step::Write { path, .. } | Step::Remove { path, .. } => path,
            Step::Rename { from, .. } => from,
        }
    }

    async fn run(&self, cx: &Context) -> Result<(), FileError> {
        match self {
            Step::Write { path, old: None, new } => {
                cx.files().write(path, new, WriteMode::Create).await.map(drop)
            }
            Step::Write { path, new, .. } => cx.files().write(path, new, WriteMode::Replace).await.map(drop),
            Step::Remove { path, .. } => cx.files().remove(path).await,
            Step::Rename { from, to } => cx.files().rename(from, to).await,
        }
    }

    /// Whether the files are as they are after it.
    async fn was_done(&self, cx: &Context) -> bool {
        match self {
            Step::Write { path, new, .. } => cx.files().read(path).await.is_ok_and(|found| *found == **new),
            Step::Remove { path, .. } => cx.files().exists(path).await.is_ok_and(|exists| !exists),
            Step::Rename { from, to } => {
                let there = cx.files().exists(to).await.unwrap_or(false);
                there && cx.files().exists(from).await.is_ok_and(|exists| !exists)
            }
        }
    }

    async fn undo(&self, cx: &Context) -> Result<(), FileError> {
        match self {
            Step::Write { path, old: None, .. } => cx.files().remove(path).await,
            Step::Write { path, old: Some(old), .. } | Step::Remove { path, old } => {
                cx.files().write(path, old, WriteMode::Replace).await.map(drop)
            }
            Step::Rename { from, to } => cx.files().rename(to, from).await,
        }
    }
}
