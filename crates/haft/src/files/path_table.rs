//! Where the paths that a session names lie on the host.
//!
//! The children of a session see a folder of its own at `/tmp`. File tools and rules have to mean the same
//! files, so the resolver looks paths up here, component by component: a path that is given, and the target
//! of every symlink on the way. Folders that the session shares with the host stay the host's: working
//! directories, and what path rules name.
//!
//! Left to others: making the folder, mounting it, and deciding whether a path may be touched.
//!
//! The decision to question: what is written belongs to the session, and what is read may be the host's. A
//! file that only the host has is found by readers ([`PathTable::resolve_read`]) at its real path, so it
//! needs approval like every other file outside of the working directories. A writer makes a file of the
//! session's own instead.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::error::{FileError, FileErrorKind};
use super::nolink::OpenMethod;
use super::resolve::{RealPath, ResolveError, resolve_entry_with, resolve_read_with, resolve_with};

/// Says where the paths of a session lie on the host. By default they lie where they say.
#[derive(Clone, Default)]
pub struct PathTable(Option<Arc<PathMapping>>);

type RoomCheck = Box<dyn Fn(u64) -> Result<(), String> + Send + Sync>;

struct PathMapping {
    /// The path of which the session has a folder of its own.
    prefix: PathBuf,
    /// Where that folder really is.
    target: PathBuf,
    /// Paths below the prefix that are the host's.
    host: Vec<PathBuf>,
    /// Makes the folder. Says whether the mapping applies.
    make: Box<dyn Fn(&Path) -> bool + Send + Sync>,
    /// Whether so many bytes more may be written to the folder.
    room: Option<RoomCheck>,
    is_made: OnceLock<bool>,
}

impl PathTable {
    /// Maps what lies below `prefix` into the folder `target`, but for the paths of the host. All are
    /// absolute and real.
    ///
    /// `make` is called once, with the folder, before the first path is mapped. It makes the folder, and
    /// returns false if the mapping doesn't apply: then every path lies where it says. If the prefix itself
    /// is among the paths of the host, nothing is mapped.
    pub fn new(
        prefix: impl Into<PathBuf>,
        target: impl Into<PathBuf>,
        host: impl IntoIterator<Item = PathBuf>,
        make: impl Fn(&Path) -> bool + Send + Sync + 'static,
    ) -> PathTable {
        let (prefix, target) = (prefix.into(), target.into());
        let mut host: Vec<PathBuf> = host.into_iter().filter(|path| path.starts_with(&prefix)).collect();
        if host.contains(&prefix) {
            return PathTable::default();
        }
        // The folder itself has a path of the host, by which it is known as well.
        host.push(target.clone());
        let (make, is_made) = (Box::new(make), OnceLock::new());
        PathTable(Some(Arc::new(PathMapping { prefix, target, host, make, room: None, is_made })))
    }

    /// Bounds the session's folder: `room` is asked before file tools write so many bytes to it, and its
    /// error says why there is no room. Without effect on a clone.
    #[must_use]
    pub fn with_room(
        mut self,
        room: impl Fn(u64) -> Result<(), String> + Send + Sync + 'static,
    ) -> PathTable {
        if let Some(mapping) = self.0.as_mut().and_then(Arc::get_mut) {
            mapping.room = Some(Box::new(room));
        }
        self
    }

    /// Whether so many bytes may be written at a real path.
    ///
    /// # Errors
    /// The folder of the session has no room for them.
    pub(super) fn check_room(&self, real: &Path, bytes: usize) -> Result<(), FileError> {
        let room =
            self.0.as_ref().and_then(|mapping| mapping.room.as_ref()).filter(|_| self.is_private(real));
        let checked = room.map_or(Ok(()), |room| room(bytes as u64));
        checked.map_err(|why| FileError::new(FileErrorKind::NoSpace, why))
    }

    /// Resolves a path as [`resolve`](fn@super::resolve_path) does, to where the session writes it.
    ///
    /// # Errors
    /// As for [`resolve`](fn@super::resolve_path).
    pub fn resolve(&self, cwd: &Path, path: &Path) -> Result<RealPath, ResolveError> {
        resolve_with(OpenMethod::Openat2, self, cwd, path)
    }

    /// Resolves a path to where the session reads it: where only the host has something at it, that.
    ///
    /// # Errors
    /// As for [`resolve`](fn@super::resolve_path).
    pub fn resolve_read(&self, cwd: &Path, path: &Path) -> Result<RealPath, ResolveError> {
        resolve_read_with(OpenMethod::Openat2, self, cwd, path)
    }

    /// Resolves the place of a name as [`resolve_entry`](super::resolve_entry) does.
    ///
    /// # Errors
    /// As for [`resolve`](fn@super::resolve_path).
    pub fn resolve_entry(&self, cwd: &Path, path: &Path) -> Result<RealPath, ResolveError> {
        resolve_entry_with(OpenMethod::Openat2, self, cwd, path)
    }

    /// Where a path of the session lies on the host, symlinks aside. The path has no `..`.
    pub fn host_path<'p>(&self, path: &'p Path) -> Cow<'p, Path> {
        let Some(mapping) = self.mapping_of(path) else { return path.into() };
        if mapping.host.iter().any(|host| path.starts_with(host)) {
            return path.into();
        }
        join_rest(&mapping.target, path.strip_prefix(&mapping.prefix).unwrap_or(path)).into()
    }

    /// How the session names a path of the host, symlinks aside.
    pub fn session_path<'p>(&self, real: &'p Path) -> Cow<'p, Path> {
        match &self.0 {
            Some(mapping) if real.starts_with(&mapping.target) => {
                join_rest(&mapping.prefix, real.strip_prefix(&mapping.target).unwrap_or(real)).into()
            }
            _ => real.into(),
        }
    }

    /// Whether a real path lies in the folder that is the session's own.
    pub fn is_private(&self, real: &Path) -> bool {
        self.private_folder().is_some_and(|folder| real.starts_with(folder))
    }

    /// The folder that is the session's own.
    pub fn private_folder(&self) -> Option<&Path> {
        self.0.as_ref().map(|mapping| mapping.target.as_path())
    }

    /// The path at which the session has a folder of its own.
    pub fn prefix(&self) -> Option<&Path> {
        self.0.as_ref().map(|mapping| mapping.prefix.as_path())
    }

    /// Whether every path lies where it says.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a path lies elsewhere on the host, symlinks aside.
    pub(super) fn moves(&self, path: &Path) -> bool {
        matches!(self.host_path(path), Cow::Owned(_))
    }

    /// Whether something below a folder lies elsewhere on the host.
    pub(super) fn moves_within(&self, folder: &Path) -> bool {
        self.0.as_ref().is_some_and(|mapping| mapping.prefix.starts_with(folder))
    }

    /// Where a path begins that its parent doesn't lead to: the session's own folder, or one of the host's in
    /// it.
    pub(super) fn begins(&self, path: &Path) -> Option<&Path> {
        let mapping = self.mapping_of(path)?;
        if path == mapping.prefix {
            return Some(&mapping.target);
        }
        mapping.host.iter().find(|host| *host == path).map(PathBuf::as_path)
    }

    /// Whether a path leads to one of the host's. Such folders of the session's are made when a child is
    /// started.
    pub(super) fn leads_to_host(&self, path: &Path) -> bool {
        self.mapping_of(path)
            .is_some_and(|mapping| mapping.host.iter().any(|host| host != path && host.starts_with(path)))
    }

    /// The mapping, for a path that it is about.
    fn mapping_of(&self, path: &Path) -> Option<&PathMapping> {
        let mapping = self.0.as_deref().filter(|mapping| path.starts_with(&mapping.prefix))?;
        mapping.is_made.get_or_init(|| (mapping.make)(&mapping.target)).then_some(mapping)
    }
}

fn join_rest(folder: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { folder.to_owned() } else { folder.join(rest) }
}

impl fmt::Debug for PathTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(PathMapping { prefix, target, host, .. }) = self.0.as_deref() else {
            return f.write_str("PathTable");
        };
        f.debug_struct("PathTable")
            .field("prefix", prefix)
            .field("target", target)
            .field("host", host)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder `tmp` of which a session has one of its own, with a working directory of the host's in it.
    struct Machine {
        _dir: tempfile::TempDir,
        root: PathBuf,
        table: PathTable,
    }

    impl Machine {
        fn new() -> Machine {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            for folder in ["tmp/a/work", "own", "etc", "away"] {
                fs::create_dir_all(root.join(folder)).unwrap();
            }
            for file in ["tmp/host", "tmp/both", "own/both", "own/mine", "etc/passwd", "tmp/a/work/f"] {
                fs::write(root.join(file), file).unwrap();
            }
            let host = [root.join("tmp/a/work"), root.join("tmp/rule/out")];
            let table = PathTable::new(root.join("tmp"), root.join("own"), host, |_| true);
            Machine { _dir: dir, root, table }
        }

        fn leads(
            &self,
            look: impl Fn(&PathTable, &Path, &Path) -> Result<RealPath, ResolveError>,
            path: &str,
        ) -> String {
            let found = look(&self.table, &self.root.join("away"), &self.root.join(path)).unwrap();
            let real = found.real.strip_prefix(&self.root).unwrap().display().to_string();
            if found.exists { real } else { format!("{real} (missing)") }
        }

        fn writes(&self, path: &str) -> String {
            self.leads(PathTable::resolve, path)
        }
    }

    #[test]
    fn maps_paths_to_where_they_lie() {
        let machine = Machine::new();
        for (path, expected) in [
            ("tmp", "own"),
            ("tmp/both", "own/both"),
            ("tmp/new/deep", "own/new/deep (missing)"),
            ("tmp/host", "own/host (missing)"),
            ("tmp/a/work", "tmp/a/work"),
            ("tmp/a/work/f", "tmp/a/work/f"),
            ("tmp/a/work/../x", "own/a/x (missing)"),
            ("tmp/a", "own/a (missing)"),
            ("tmp/a/work/../../both", "own/both"),
            ("tmp/a/work/../../../etc/passwd", "etc/passwd"),
            ("tmp/../etc/passwd", "etc/passwd"),
            ("away/../tmp/mine", "own/mine"),
            ("tmp/rule/out", "tmp/rule/out (missing)"),
            ("tmp/rule/out/x", "tmp/rule/out/x (missing)"),
            ("tmp/rule/x", "own/rule/x (missing)"),
            ("own/mine", "own/mine"),
            ("tmpx", "tmpx (missing)"),
        ] {
            assert_eq!(machine.writes(path), expected, "{path}");
        }
        assert_eq!(machine.leads(PathTable::resolve_read, "tmp/host"), "tmp/host");
        assert_eq!(machine.leads(PathTable::resolve_read, "tmp/both"), "own/both");
        assert_eq!(machine.leads(PathTable::resolve_read, "tmp/new"), "own/new (missing)");
    }

    #[test]
    fn maps_the_targets_of_symlinks() {
        let machine = Machine::new();
        let Machine { root, .. } = &machine;
        for (link, target) in [
            ("own/away", root.join("etc/passwd")),
            ("own/up", "../etc/passwd".into()),
            ("own/inner", root.join("tmp/mine")),
            ("away/in", root.join("tmp/mine")),
            ("away/dir", root.join("tmp")),
            ("away/rel", "../tmp/mine".into()),
            ("own/host", root.join("tmp/a/work/f")),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        for (path, expected) in [
            ("tmp/away", "etc/passwd"),
            ("tmp/up", "etc/passwd"),
            ("tmp/inner", "own/mine"),
            ("away/in", "own/mine"),
            ("away/rel", "own/mine"),
            ("away/dir/both", "own/both"),
            ("away/dir/a/work/f", "tmp/a/work/f"),
            ("away/dir/../etc/passwd", "etc/passwd"),
            ("tmp/host", "tmp/a/work/f"),
        ] {
            assert_eq!(machine.writes(path), expected, "{path}");
        }
        for (path, expected) in [
            ("tmp/away", "own/away"),
            ("away/in", "away/in"),
            ("away/dir/a/work", "tmp/a/work"),
            ("away/dir/rule/out", "tmp/rule/out (missing)"),
            ("tmp", "own"),
        ] {
            assert_eq!(machine.leads(PathTable::resolve_entry, path), expected, "{path}");
        }
    }

    #[test]
    fn maps_nothing_where_the_folder_is_shared_or_there_is_none() {
        let machine = Machine::new();
        let root = &machine.root;
        let (tmp, own) = (root.join("tmp"), root.join("own"));
        let shared = PathTable::new(&tmp, &own, [tmp.clone()], |_| true);
        let without = PathTable::new(&tmp, &own, [], |_| false);
        for table in [shared, without, PathTable::default()] {
            assert_eq!(table.resolve(root, &tmp.join("both")).unwrap().real, tmp.join("both"), "{table:?}");
        }
        assert_eq!(machine.table.session_path(&own.join("x")), tmp.join("x"));
        assert_eq!(machine.table.session_path(&own), tmp);
        assert!(machine.table.is_private(&own.join("x")) && !machine.table.is_private(&tmp.join("x")));
    }
}
