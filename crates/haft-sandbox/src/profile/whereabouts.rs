//! Which folder a path meant, should it have another name by now.
//!
//! What a killed session has left is undone by whoever comes next, and the user may have renamed the folder meanwhile. So
//! what is kept for that says also which folders its paths lead through. One that isn't there any more is looked for
//! beside its old name, and where the next session works; elsewhere nobody finds it, and what is kept waits.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::limits;

/// Which file or folder it is: numbers are used again, so when it was made counts too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id {
    device: u64,
    number: u64,
    born: u128,
}

impl Id {
    /// Of what is at a path; of a link itself.
    pub(super) fn at(path: &Path) -> Option<Id> {
        let found = path.symlink_metadata().ok()?;
        let born = found.created().ok().and_then(|born| born.duration_since(SystemTime::UNIX_EPOCH).ok());
        Some(Id { device: found.dev(), number: found.ino(), born: born.map_or(0, |born| born.as_nanos()) })
    }

    /// As text before a path.
    pub(super) fn write(self, path: &Path) -> Vec<u8> {
        let Id { device, number, born } = self;
        let mut bytes = format!("{device}:{number}:{born}:").into_bytes();
        bytes.extend_from_slice(path.as_os_str().as_bytes());
        bytes
    }

    /// The two again.
    pub(super) fn read(line: &[u8]) -> Option<(Id, PathBuf)> {
        let mut parts = line.splitn(4, |byte| *byte == b':');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<u128>().ok();
        let (device, inode, born) = (number()?, number()?, number()?);
        let id = Id { device: device.try_into().ok()?, number: inode.try_into().ok()?, born };
        Some((id, PathBuf::from(OsStr::from_bytes(parts.next()?))))
    }
}

/// The folders that some paths lead through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Whereabouts(BTreeMap<PathBuf, Id>);

/// What a record begins with that has them.
const MARK: &[u8] = &[0, 0, 0];

impl Whereabouts {
    /// Of all folders above these paths, and of those that are folders themselves.
    pub(super) fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Whereabouts {
        let mut all = BTreeMap::new();
        for path in paths {
            for above in path.ancestors() {
                if all.contains_key(above) || all.len() >= limits::WHEREABOUTS_MAX {
                    break;
                }
                if let Some(id) = Id::at(above).filter(|_| above.is_dir()) {
                    all.insert(above.to_owned(), id);
                }
            }
        }
        Whereabouts(all)
    }

    /// A record with them before it.
    pub(super) fn before(&self, record: &[u8]) -> Vec<u8> {
        let mut bytes = MARK.to_vec();
        for (path, id) in &self.0 {
            bytes.extend(id.write(path));
            bytes.push(0);
        }
        bytes.push(0);
        bytes.extend(record);
        bytes
    }

    /// The two again; a record without them has none.
    pub(super) fn parse(record: &[u8]) -> (Whereabouts, &[u8]) {
        let Some(mut rest) = record.strip_prefix(MARK) else { return (Whereabouts::default(), record) };
        let mut all = BTreeMap::new();
        while let Some(end) = rest.iter().position(|byte| *byte == 0) {
            let line = &rest[..end];
            rest = &rest[end + 1..];
            if line.is_empty() {
                break;
            }
            all.extend(Id::read(line).map(|(id, path)| (path, id)));
        }
        (Whereabouts(all), rest)
    }

    /// Where a path leads now. Nothing if the folder that it meant is nowhere to be found. `here` are folders in which it
    /// may be, or which may be it.
    pub(super) fn now(&self, path: &Path, here: &[PathBuf]) -> Option<PathBuf> {
        let Some(known) = path.ancestors().find(|above| self.0.contains_key(*above)) else {
            return Some(path.to_owned());
        };
        let Some(found) = self.find(known, here) else {
            // Not every file system keeps numbers: what has the name is meant, if there is nothing better.
            return known.is_dir().then(|| path.to_owned());
        };
        let rest = path.strip_prefix(known).ok()?;
        Some(if rest.as_os_str().is_empty() { found } else { found.join(rest) })
    }

    fn find(&self, folder: &Path, here: &[PathBuf]) -> Option<PathBuf> {
        let id = *self.0.get(folder)?;
        let is_it = |path: &Path| Id::at(path) == Some(id);
        if is_it(folder) {
            return Some(folder.to_owned());
        }
        let parent = folder.parent().and_then(|parent| self.find(parent, here));
        if let (Some(parent), Some(name)) = (&parent, folder.file_name()) {
            let same = parent.join(name);
            if is_it(&same) {
                return Some(same);
            }
            let entries = fs::read_dir(parent).into_iter().flatten().flatten();
            // The number alone is read with the name, and few have the right one.
            let alike = |entry: &fs::DirEntry| {
                use std::os::unix::fs::DirEntryExt as _;
                entry.ino() == id.number
            };
            let found = entries.take(limits::RENAMED_LOOKED_AT_MAX).filter(alike).map(|entry| entry.path());
            if let Some(found) = found.into_iter().find(|path| is_it(path)) {
                return Some(found);
            }
        }
        let above = here.iter().flat_map(|here| here.ancestors());
        let directly = here.iter().flat_map(|here| folder.file_name().map(|name| here.join(name)));
        above.map(Path::to_owned).chain(directly).find(|path| is_it(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_found_under_another_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let config = root.join("a/b/.git/config");
        fs::create_dir_all(root.join("a/b/.git")).unwrap();
        fs::create_dir_all(root.join("elsewhere/deep")).unwrap();
        fs::write(&config, "").unwrap();
        let known = Whereabouts::of([config.as_path()]);
        let (known, rest) = {
            let bytes = known.before(b"x\0y");
            let (one, rest) = Whereabouts::parse(&bytes);
            (one, rest.to_vec())
        };
        assert_eq!(rest, b"x\0y");
        assert_eq!(known.now(&config, &[]), Some(config.clone()));
        // Two names on the way are others, and another folder has the old one.
        fs::rename(root.join("a/b"), root.join("a/c")).unwrap();
        fs::rename(root.join("a"), root.join("z")).unwrap();
        fs::create_dir_all(root.join("a/b/.git")).unwrap();
        assert_eq!(known.now(&config, &[]), Some(root.join("z/c/.git/config")));
        // Somewhere else it is found by who works there, and by nobody else.
        fs::remove_dir_all(root.join("a")).unwrap();
        fs::rename(root.join("z/c"), root.join("elsewhere/deep/d")).unwrap();
        assert_eq!(known.now(&config, &[]), None);
        let here = [root.join("elsewhere/deep/d/sub")];
        assert_eq!(known.now(&config, &here), Some(root.join("elsewhere/deep/d/.git/config")));
        // A record of old has none.
        assert_eq!(Whereabouts::parse(b"/w/config\0x"), (Whereabouts::default(), &b"/w/config\0x"[..]));
        assert_eq!(Whereabouts::default().now(&config, &[]), Some(config));
    }
}
