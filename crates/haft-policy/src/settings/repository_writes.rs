//! Writes that turn a folder into a git repository, or change its configuration.
//!
//! Git recognizes a repository by the names in a folder, even without `.git`: `HEAD` next to `objects` and
//! `refs`, or next to `commondir`. From then on the folder's `config` and `hooks` decide what runs at the
//! user's next `git status` there and below. Each of these writes alone is harmless, so the one that
//! completes the set needs approval.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use haft_git::layout::{OBEYED, REPOSITORY_NAMES, is_repository};

/// Returns the folder that these writes turn into a repository, or whose configuration they change.
pub fn repository_write<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Option<PathBuf> {
    let mut added: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for path in paths {
        for above in path.ancestors() {
            let name = above.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase());
            let (Some(name), Some(folder)) = (name, above.parent()) else { continue };
            if REPOSITORY_NAMES.iter().any(|known| known.eq_ignore_ascii_case(&name))
                || OBEYED.contains(&&*name)
            {
                added.entry(folder.to_owned()).or_default().push(name);
            }
        }
    }
    let is_there = |folder: &Path, name: &str| folder.join(name).symlink_metadata().is_ok();
    let changes = |(folder, names): &(PathBuf, Vec<String>)| {
        let will_be =
            |name: &str| is_there(folder, name) || names.iter().any(|added| added.eq_ignore_ascii_case(name));
        let was = is_repository(|name| is_there(folder, name));
        let obeyed = names.iter().any(|name| OBEYED.contains(&&**name));
        is_repository(will_be) && (!was || obeyed)
    };
    added.into_iter().find(changes).map(|(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Checks which folder these writes concern, given the existing names.
    fn check(there: &[&str], writes: &[&str], expected: Option<&str>) {
        let dir = tempfile::tempdir().unwrap();
        for name in there {
            fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            fs::write(dir.path().join(name), "").unwrap();
        }
        let paths: Vec<PathBuf> = writes.iter().map(|path| dir.path().join(path)).collect();
        let found = repository_write(paths.iter().map(PathBuf::as_path));
        assert_eq!(found, expected.map(|folder| dir.path().join(folder)), "{there:?} {writes:?}");
    }

    #[test]
    fn the_write_that_completes_the_set_is_found() {
        check(&["r/HEAD", "r/refs/x"], &["r/objects/y"], Some("r"));
        check(&["r/objects/x", "r/refs/x"], &["r/HEAD"], Some("r"));
        check(&["r/objects/x", "r/refs/x"], &["r/head"], Some("r"));
        check(&["r/HEAD"], &["r/commondir"], Some("r"));
        check(&[], &["r/HEAD", "r/config", "r/objects/a", "r/refs/b"], Some("r"));
        check(&["r/HEAD", "r/objects/x", "r/refs/x"], &["r/config"], Some("r"));
        check(&["r/HEAD", "r/objects/x", "r/refs/x"], &["r/hooks/post-checkout"], Some("r"));
        check(&["r/HEAD", "r/objects/x", "r/refs/x"], &["r/commondir"], Some("r"));
        check(&[], &["a/objects/r/HEAD", "a/objects/r/objects/x", "a/objects/r/refs/x"], Some("a/objects/r"));
    }

    #[test]
    fn other_writes_are_not() {
        check(&["r/HEAD", "r/objects/x", "r/refs/x"], &["r/objects/y", "r/README"], None);
        check(&["r/HEAD"], &["r/refs/x"], None);
        check(&[], &["config", "hooks/x", "refs/y", "src/objects/z"], None);
        check(&["config/a", "hooks/b"], &["config/c"], None);
    }
}
