//! What files were before a command that is known to change or remove them, so that `Rewind` can bring them
//! back.
//!
//! Known is what the text of a command names, and at most what fits the limits of one call is kept. A command
//! in the background is recorded when it starts; `Rewind` restores by `force` what it has changed since.

use std::path::PathBuf;

use haft::effects::{PathSet, RootExtent};
use haft::files::{Bytes, CheckpointPlan, PlannedChange};
use haft::{Context, Effects};
use haft_shell::CommandAnalysis;

use crate::checkpoints::CheckpointStore;

/// Files as they were.
pub(super) struct CommandBackup {
    checkpoints: Option<CheckpointStore>,
    files: Vec<(PathBuf, Option<Bytes>)>,
}

impl CommandBackup {
    /// Reads what a command is known to change or remove.
    pub(super) async fn take(
        checkpoints: Option<&CheckpointStore>,
        analysis: &CommandAnalysis,
        cx: &Context,
    ) -> CommandBackup {
        let mut backup = CommandBackup { checkpoints: checkpoints.cloned(), files: Vec::new() };
        if backup.checkpoints.is_none() {
            return backup;
        }
        let places: Vec<(PathBuf, RootExtent, bool)> = changed_paths(&analysis.effects())
            .into_iter()
            .map(|set| (cx.cwd().join(&set.path).components().collect(), set.extent, set.partial))
            .collect();
        let planned = places.clone();
        let plan = crate::blocking::off_thread(usize::MAX, move || {
            CheckpointPlan::new(planned.iter().map(|(path, extent, partial)| PlannedChange {
                path,
                extent: *extent,
                partial: *partial,
            }))
        });
        let Ok(Some(plan)) = plan.await else { return backup };
        for path in plan.files {
            if let Ok(bytes) = cx.files().read(&path).await {
                backup.files.push((path, Some(bytes.into())));
            }
        }
        for (path, ..) in places {
            if path.symlink_metadata().is_err() && !backup.files.iter().any(|(known, _)| *known == path) {
                backup.files.push((path, None));
            }
        }
        backup
    }

    /// Records what the command has changed.
    pub(super) async fn record(self, cx: &Context) {
        let Some(checkpoints) = self.checkpoints else { return };
        for (path, was) in self.files {
            let is: Option<Bytes> = match path.symlink_metadata() {
                Ok(found) if found.is_file() => match cx.files().read(&path).await {
                    Ok(bytes) => Some(bytes.into()),
                    Err(_) => continue,
                },
                Ok(_) => continue,
                Err(_) => None,
            };
            if was != is {
                checkpoints.record(cx, "Bash", &path, was, is);
            }
        }
    }

    /// Records files that a command in the background may still change.
    pub(super) fn record_start(self, cx: &Context) {
        let Some(checkpoints) = self.checkpoints else { return };
        for (path, was) in self.files.into_iter().filter(|(_, was)| was.is_some()) {
            checkpoints.record(cx, "Bash", &path, was.clone(), was);
        }
    }
}

/// Everything that a command is known to write or remove.
fn changed_paths(effects: &Effects) -> Vec<PathSet> {
    let inner = effects.runs.iter().filter_map(|command| command.effects.as_deref());
    let all = std::iter::once(effects).chain(inner);
    let of_one = |effects: &Effects| {
        // What is moved is still there.
        let is_moved = |set: &PathSet| {
            !effects.writes.is_empty() && effects.reads.iter().any(|read| read.path == set.path)
        };
        let deletes = effects.deletes.iter().cloned();
        let deletes = deletes.map(|set| PathSet { partial: set.partial || is_moved(&set), ..set });
        effects.writes.iter().cloned().chain(deletes).collect::<Vec<_>>()
    };
    all.flat_map(of_one).collect()
}
