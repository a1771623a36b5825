//! Repositories in a repository that git enters by itself.
//!
//! A command that makes a repository in a folder that the index calls a submodule decides what runs at the
//! user's next `git status` further up. The index is read again when it has changed, and as git reads it:
//! through a symlink, and with the shared one that it may be split from.
//!
//! This decides which repositories are held from then on; that no other one runs anything either is seen to
//! by `nested`, unless there was too much to look at.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use haft_git::index::parse_submodules;

use super::{limits, open_plain};

/// What is known of indexes, by path.
#[derive(Debug, Default)]
pub(super) struct GitIndexes(BTreeMap<PathBuf, IndexLinks>);

#[derive(Debug)]
struct IndexLinks {
    stamp: IndexStamp,
    /// Folders of submodules, from the top of the working tree.
    links: Vec<PathBuf>,
}

/// Number, size, and when it last changed.
type IndexStamp = (u64, u64, i64, i64);

fn stamp_of(found: &Metadata) -> IndexStamp {
    (found.ino(), found.size(), found.ctime(), found.ctime_nsec())
}

impl GitIndexes {
    /// The folders that this index calls submodules. One that can't be read names none: git can't use it
    /// either.
    pub(super) fn links(&mut self, index: &Path) -> &[PathBuf] {
        let Ok(found) = index.metadata() else { return &[] };
        if self.0.get(index).is_some_and(|read| read.stamp == stamp_of(&found)) {
            return self.0.get(index).map_or(&[], |read| &read.links);
        }
        let real = index.canonicalize().ok();
        let Some(file) = real.and_then(|real| open_plain(&real)) else { return &[] };
        let Ok(found) = file.metadata() else { return &[] };
        let mut stamp = stamp_of(&found);
        if self.0.get(index).is_none_or(|read| read.stamp != stamp) {
            let mut bytes = Vec::new();
            let read = file.take(limits::INDEX_BYTES_MAX).read_to_end(&mut bytes);
            let found = read.ok().and_then(|_| parse_submodules(&bytes)).unwrap_or_default();
            let mut links = found.folders;
            if let Some(shared) = found.shared {
                let shared = index.with_file_name(format!("sharedindex.{shared}")).canonicalize().ok();
                let mut bytes = Vec::new();
                let read = shared.and_then(|shared| {
                    open_plain(&shared)?.take(limits::INDEX_BYTES_MAX).read_to_end(&mut bytes).ok()
                });
                links.extend(read.and_then(|_| parse_submodules(&bytes)).unwrap_or_default().folders);
                // What it is split from may change alone.
                stamp = Default::default();
            }
            self.0.insert(index.to_owned(), IndexLinks { stamp, links });
        }
        self.0.get(index).map_or(&[], |read| &read.links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_read_as_git_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let done = std::process::Command::new("git").arg("-C").arg(dir.path()).args(arguments).output();
            assert!(done.unwrap().status.success(), "{arguments:?}");
        };
        git(&["init", "-q"]);
        let entry = format!("160000,{},p/q/c", "1".repeat(40));
        git(&["update-index", "--add", "--cacheinfo", &entry]);
        git(&["update-index", "--split-index"]);
        let index = dir.path().join(".git/index");
        let links = || GitIndexes::default().links(&index).to_owned();
        assert_eq!(links(), [Path::new("p/q/c")]);
        std::fs::rename(&index, dir.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", &index).unwrap();
        assert_eq!(links(), [Path::new("p/q/c")]);
    }
}
