//! git in a working directory that is only a part of a repository.
//!
//! A command in the sandbox sees all of the work tree and writes only the working directory. A subcommand of
//! git that may change files anywhere would stop halfway, with an index that says otherwise than the files.
//! So it isn't started.

use std::path::{Path, PathBuf};

use haft::{Context, ToolError};
use haft_shell::{CommandAnalysis, SubCommand, Word};

/// Subcommands that may write anywhere in the work tree.
const WIDE: [&str; 16] = [
    "am",
    "checkout",
    "cherry-pick",
    "clean",
    "merge",
    "mv",
    "pull",
    "read-tree",
    "rebase",
    "reset",
    "restore",
    "revert",
    "rm",
    "stash",
    "submodule",
    "switch",
];
/// Options of git itself with a value in the next word.
const WITH_VALUE: [&str; 6] = ["-C", "-c", "--config-env", "--git-dir", "--namespace", "--work-tree"];

/// Refuses a command that may write outside of the working directories because it works on the whole
/// repository.
///
/// # Errors
/// Which one, why, and what to do instead.
pub(super) fn check_subfolder(analysis: &CommandAnalysis, cx: &Context) -> Result<(), ToolError> {
    let Some(subcommand) = analysis.commands.iter().find_map(wide_subcommand) else { return Ok(()) };
    let Some(top) = top_above(cx) else { return Ok(()) };
    let (top, cwd) = (top.display(), cx.cwd().display());
    Err(ToolError::invalid_input(format!(
        "`git {subcommand}` was not started: it may change files anywhere in the repository, which begins above the working \
         directory, in `{top}`; commands see all of it and write only `{cwd}` and what git keeps. Change the files there by \
         themselves, or ask the user to start in `{top}` or to add it to the working directories"
    )))
}

/// The subcommand, if it may write anywhere.
fn wide_subcommand(command: &SubCommand) -> Option<&str> {
    if command.program() != Some("git") {
        return None;
    }
    let mut words = command.argv()[1..].iter().map(Word::literal);
    while let Some(Some(word)) = words.next() {
        if WITH_VALUE.contains(&word) {
            words.next();
        } else if !word.starts_with('-') {
            return Some(word).filter(|word| WIDE.contains(word));
        }
    }
    None
}

/// The top of the repository, if it lies above the working directories.
fn top_above(cx: &Context) -> Option<PathBuf> {
    let has_repository = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
    let top = cx.cwd().ancestors().find(has_repository)?;
    let inside = cx.location().workspace().dirs().any(|dir| top.starts_with(dir));
    (!inside).then(|| top.to_owned())
}

#[cfg(test)]
mod tests {
    use haft_shell::{ShellDirectories, analyse_command};

    use super::*;

    #[track_caller]
    fn check_subfolder(line: &str, expected: Option<&str>) {
        let analysis = analyse_command(line, &ShellDirectories::new("/repo/sub"));
        assert_eq!(analysis.commands.iter().find_map(wide_subcommand), expected, "{line}");
    }

    #[test]
    fn subcommands_that_write_the_whole_work_tree_are_found() {
        check_subfolder("git switch main", Some("switch"));
        check_subfolder("make && git stash -u", Some("stash"));
        check_subfolder("git -c a=b -C x --no-pager checkout -- f", Some("checkout"));
        check_subfolder("timeout 5 git pull", Some("pull"));
        check_subfolder("sh -c 'git reset --hard'", Some("reset"));
        check_subfolder("git status", None);
        check_subfolder("git commit -m switch", None);
        check_subfolder("git log --oneline", None);
        check_subfolder("git", None);
        check_subfolder("git -C", None);
        check_subfolder("echo git switch", None);
    }
}
