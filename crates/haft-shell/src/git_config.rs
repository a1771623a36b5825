//! The forms of `git` that have to write the configuration of their repository: remotes, and what branches follow, and
//! `git config` itself.
//!
//! Not a judgement of what may be written: whoever lets them write sees to it that only such keys stay. So a form too many
//! is harmless, and one too few fails.

use super::{Word, base_name, globals};

/// Whether a command writes the configuration of the repository that it runs in.
pub(super) fn writes(argv: &[Word]) -> bool {
    let Some(name) = argv.first().and_then(Word::literal).map(base_name) else { return false };
    let Some(verb) = globals::verb(argv, 1) else { return false };
    let arguments = &argv[verb + 1..];
    let has = |letters: &[char], names: &[&str]| {
        arguments.iter().map(Word::prefix).any(|text| match text.strip_prefix("--") {
            Some(long) => {
                let long = long.split_once('=').map_or(long, |(long, _)| long);
                long.len() > 2 && names.iter().any(|name| name.starts_with(long))
            }
            None => text.starts_with('-') && text.contains(letters),
        })
    };
    let operand = |at: usize| arguments.iter().filter(|word| !word.prefix().starts_with('-')).nth(at);
    let first = || operand(0).and_then(Word::literal);
    match (name, argv[verb].literal().unwrap_or_default()) {
        ("git", "remote") => {
            matches!(first(), Some("add" | "set-url" | "rename" | "remove" | "rm" | "set-branches"))
        }
        ("git", "push" | "pull" | "fetch") => has(&['u'], &["set-upstream"]),
        // By its name alone a branch of a remote becomes one that follows it.
        ("git", "checkout" | "switch") => {
            operand(0).is_some() && arguments.first().is_none_or(|word| word.literal() != Some("--"))
        }
        ("git", "branch") => {
            operand(0).is_some() || has(&['u'], &["set-upstream-to", "unset-upstream", "edit-description"])
        }
        ("git", "worktree") => matches!(first(), Some("add")),
        ("git", "submodule") => {
            matches!(first(), Some("add" | "update" | "init" | "sync" | "deinit" | "set-url" | "set-branch"))
        }
        // Those of the user and of the machine are other files.
        ("git", "config") => !has(&[], &["global", "system"]) && !arguments.is_empty(),
        ("gh", "pr") => matches!(first(), Some("checkout" | "co")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Place, analyse};

    #[test]
    fn forms_that_write_and_forms_that_do_not() {
        for (line, expected) in [
            ("git remote add origin https://x.io/r", true),
            ("git -C sub remote set-url origin x", true),
            ("git remote -v rename a b", true),
            ("git remote -v", false),
            ("git remote show origin", false),
            ("git push -u origin main", true),
            ("git push -fu origin main", true),
            ("git push --set-upstream origin main", true),
            ("git push origin main", false),
            ("git push --force", false),
            ("git checkout -b x origin/x", true),
            ("git switch --track origin/x", true),
            ("git switch x", true),
            ("git checkout -- file", false),
            ("git branch --set-upstream-to=origin/x", true),
            ("git branch -d x", true),
            ("git branch", false),
            ("git branch -a", false),
            ("git submodule update --init", true),
            ("git submodule status", false),
            ("git config branch.main.remote origin", true),
            ("git config --unset remote.origin.url", true),
            ("git config core.fsmonitor evil", true),
            ("git config user.name x", true),
            ("git config --local user.name x", true),
            ("git config --global user.name x", false),
            ("git config --system user.name x", false),
            ("git status", false),
            ("timeout 5 git fetch && env A=1 git remote add x y", true),
            ("sh -c 'git remote add x y'", true),
            ("echo git remote add", false),
        ] {
            assert_eq!(analyse(line, &Place::new("/repo")).configures_git(), expected, "{line}");
        }
    }
}
