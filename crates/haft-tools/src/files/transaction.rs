//! Changes of several files, all of them or none.
//!
//! Each file is replaced in one step, several are not: there is no such step. What was done before one fails
//! is undone, and if that fails too the error says which files are left changed. Once begun, the work goes on
//! even if nobody waits for it any more, so that a call that is cut off leaves all or nothing as well.
//!
//! Nothing of somebody else is lost: a file is replaced or removed only if it is still what it was when the
//! change was made up, also at the last moment. If it isn't, the change is made up anew, on what the file is
//! by then ([`RetryCounter`]).

use std::path::PathBuf;
use std::time::Duration;

use haft::files::{Bytes, FileError, FileErrorKind, WriteMode, WriteOutcome};
use haft::{Context, ToolError};

use crate::paths;

/// How often a change is made up anew because somebody else was faster. With eight who change one file as
/// fast as they can, one in eight comes through each time; so many failures in a row don't happen.
const TRIES_MAX: u32 = 400;

/// Counts how often a change was made up.
#[derive(Default)]
pub(crate) struct RetryCounter(u32);

impl RetryCounter {
    /// Whether a change that failed may be made up anew: the file was changed by somebody else just then.
    /// Lets others go first, a little more so each time.
    pub(crate) async fn may_try(&mut self, error: FileErrorKind) -> bool {
        self.0 += 1;
        let lost = matches!(error, FileErrorKind::Changed | FileErrorKind::AlreadyExists);
        if lost && self.0 < TRIES_MAX {
            // Nobody waits as long as anybody else: the process decides, and the try.
            let step = u64::from((std::process::id() ^ self.0).wrapping_mul(0x9e37_79b9) >> 20) % 997;
            tokio::time::sleep(Duration::from_micros(step * u64::from(self.0.min(8)))).await;
            return true;
        }
        false
    }
}

/// One step.
pub(crate) enum ChangeStep {
    /// A file is replaced.
    Write { path: PathBuf, old: Bytes, new: Bytes },
    /// A file is created; one that was there before has the mode that it had.
    Create { path: PathBuf, new: Bytes, mode: Option<u32> },
    /// A file is removed, which has this mode.
    Remove { path: PathBuf, old: Bytes, mode: Option<u32> },
    /// A file gets another name, which nothing has.
    Rename { from: PathBuf, to: PathBuf },
}

/// Says what a file that was replaced has lost, as a line for the model and the user.
pub(crate) fn describe_losses(written: &WriteOutcome, shown: &str) -> Option<String> {
    let mut losses = Vec::new();
    match written.other_names {
        0 => {}
        1 => losses.push("another name of the file (a hard link) keeps the old content".to_owned()),
        names => losses.push(format!("{names} other names of the file (hard links) keep the old content")),
    }
    if written.lost_owner {
        losses.push("its owner or group could not be kept".to_owned());
    }
    if written.lost_attributes {
        losses.push("an extended attribute or its access control list could not be kept".to_owned());
    }
    (!losses.is_empty()).then(|| format!("[`{shown}`: {}]", losses.join("; ")))
}

/// Does all the steps, in order, or none. Returns what files that were replaced have lost.
pub(crate) async fn apply_changes(
    cx: &Context,
    steps: Vec<ChangeStep>,
) -> Result<Vec<String>, TransactionError> {
    let cx = cx.clone();
    let work = tokio::spawn(async move {
        let mut losses = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            let error = match step.run(&cx).await {
                Ok(written) => {
                    let shown = || paths::display_path(&paths::normalize_path(step.path(), &cx), cx.cwd());
                    losses.extend(written.and_then(|written| describe_losses(&written, &shown())));
                    continue;
                }
                Err(error) => error,
            };
            let mut left = Vec::new();
            // The one that failed may have been done all the same: a disk can fail after it.
            let begun = if step.was_done(&cx).await { &steps[..=at] } else { &steps[..at] };
            for done in begun.iter().rev() {
                if done.undo(&cx).await.is_err() && done.was_done(&cx).await {
                    left.push(format!(
                        "`{}`",
                        paths::display_path(&paths::normalize_path(done.path(), &cx), cx.cwd())
                    ));
                }
            }
            let state = if left.is_empty() {
                "nothing was changed".to_owned()
            } else {
                format!("undoing the rest failed: {} changed", left.join(", "))
            };
            let undone = left.is_empty().then(|| error.kind());
            let error = ToolError::new(format!("{error}; {state}")).with_source(error);
            return Err(TransactionError { error, undone });
        }
        Ok(losses)
    });
    match work.await {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(TransactionError { error: ToolError::new("the program is ending"), undone: None }),
    }
}

/// Why nothing, or not all, was done.
pub(crate) struct TransactionError {
    error: ToolError,
    /// The kind of the error, if everything is as it was.
    pub(crate) undone: Option<FileErrorKind>,
}

impl From<TransactionError> for ToolError {
    fn from(failed: TransactionError) -> ToolError {
        failed.error
    }
}

impl ChangeStep {
    fn path(&self) -> &std::path::Path {
        match self {
            ChangeStep::Write { path, .. }
            | ChangeStep::Create { path, .. }
            | ChangeStep::Remove { path, .. } => path,
            ChangeStep::Rename { from, .. } => from,
        }
    }

    /// Returns what replacing a file did.
    async fn run(&self, cx: &Context) -> Result<Option<WriteOutcome>, FileError> {
        match self {
            ChangeStep::Write { path, old, new } => {
                return cx.files().swap(path, old.clone(), new.clone()).await.map(Some);
            }
            ChangeStep::Create { path, new, mode } => {
                cx.files().write(path, new, create_mode(*mode)).await?;
            }
            ChangeStep::Remove { path, old, .. } => cx.files().remove_if(path, old).await?,
            ChangeStep::Rename { from, to } => cx.files().rename(from, to).await?,
        }
        Ok(None)
    }

    /// Whether the files are as they are after it.
    async fn was_done(&self, cx: &Context) -> bool {
        match self {
            ChangeStep::Write { path, new, .. } | ChangeStep::Create { path, new, .. } => {
                cx.files().read(path).await.is_ok_and(|found| *found == **new)
            }
            ChangeStep::Remove { path, .. } => cx.files().exists(path).await.is_ok_and(|exists| !exists),
            ChangeStep::Rename { from, to } => {
                let there = cx.files().exists(to).await.unwrap_or(false);
                there && cx.files().exists(from).await.is_ok_and(|exists| !exists)
            }
        }
    }

    async fn undo(&self, cx: &Context) -> Result<(), FileError> {
        match self {
            ChangeStep::Write { path, old, new } => {
                cx.files().swap(path, new.clone(), old.clone()).await.map(drop)
            }
            ChangeStep::Create { path, new, .. } => cx.files().remove_if(path, new).await,
            ChangeStep::Remove { path, old, mode } => {
                cx.files().write(path, old, create_mode(*mode)).await.map(drop)
            }
            ChangeStep::Rename { from, to } => cx.files().rename(to, from).await,
        }
    }
}

fn create_mode(mode: Option<u32>) -> WriteMode {
    mode.map_or(WriteMode::Create, WriteMode::CreateAs)
}
