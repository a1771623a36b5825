//! Effects as they really are: every path absolute and free of links, with the identity of what is there.
//!
//! A tool declares with the paths it was given. The engine resolves them when nothing that could still change
//! them runs before the call, and again after the user's answer. Rules see both forms; conflicts and locks
//! use this one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::table::{EffectClass, EffectFacts};
use super::{Effects, PathSet, RootExtent};
use crate::files::resolve::ResolveErrorKind;
use crate::files::{
    GrantedAccess, GrantedRoot, PathTable, RealPath, ResolveError, beneath_tidy, is_beneath, resolve_path,
};

/// The directories that a session works in.
#[derive(Debug, Clone)]
pub struct Workspace {
    cwd: PathBuf,
    /// Each directory as the user named it and as it really is.
    dirs: Vec<(PathBuf, PathBuf)>,
    /// Readable always, never writable by tools: the session's own kept results.
    readable: Vec<PathBuf>,
    /// What no tool may write in any mode.
    protected: Vec<PathBuf>,
    /// Where the paths of the session lie. The folder of its own counts as inside.
    paths: PathTable,
}

impl Workspace {
    /// A workspace of one directory.
    ///
    /// # Errors
    /// The directory doesn't exist or can't be looked at.
    pub fn new(cwd: impl AsRef<Path>) -> std::io::Result<Workspace> {
        let (given, real) = canonical_directory(cwd.as_ref())?;
        Ok(Workspace {
            cwd: real.clone(),
            dirs: vec![(given, real)],
            readable: Vec::new(),
            protected: Vec::new(),
            paths: PathTable::default(),
        })
    }

    /// The same workspace with another working directory: the real path of one inside.
    pub(crate) fn at(&self, cwd: &Path) -> Workspace {
        Workspace { cwd: cwd.to_owned(), ..self.clone() }
    }

    /// The same workspace with its scope moved into a directory inside: the directories around that one are
    /// outside now.
    #[must_use]
    pub fn moved_into(&self, dir: &Path) -> Workspace {
        let mut moved = self.at(dir);
        moved.dirs.retain(|(_, real)| !beneath_tidy(dir, real));
        moved.dirs.insert(0, (dir.to_owned(), dir.to_owned()));
        moved
    }

    /// Nothing is inside: everything that a call touches asks.
    pub(crate) fn without_dirs() -> Workspace {
        let paths = PathTable::default();
        let cwd = PathBuf::from("/");
        Workspace { cwd, dirs: Vec::new(), readable: Vec::new(), protected: Vec::new(), paths }
    }

    /// Only what lies within another workspace too; what that one protects is protected.
    pub(crate) fn narrowed_to(mut self, outer: &Workspace) -> Workspace {
        self.dirs.retain(|(_, real)| outer.dirs().any(|dir| beneath_tidy(real, dir)));
        self.protected.extend(outer.protected.iter().cloned());
        self.paths = outer.paths.clone();
        self
    }

    /// Adds a directory that counts as inside.
    ///
    /// # Errors
    /// The directory doesn't exist or can't be looked at.
    pub fn with_dir(mut self, dir: impl AsRef<Path>) -> std::io::Result<Workspace> {
        let dir = canonical_directory(&self.cwd.join(dir))?;
        self.dirs.push(dir);
        Ok(self)
    }

    /// Adds a folder that may always be read.
    #[must_use]
    pub fn with_readable(mut self, dir: impl AsRef<Path>) -> Workspace {
        self.readable.push(self.real(dir.as_ref()));
        self
    }

    /// Adds a file or folder that no tool may write, in any mode. It need not exist yet.
    #[must_use]
    pub fn with_protected(mut self, path: impl AsRef<Path>) -> Workspace {
        self.protected.push(self.real(path.as_ref()));
        self
    }

    /// Says where the paths of the session lie.
    #[must_use]
    pub fn with_paths(self, paths: PathTable) -> Workspace {
        Workspace { paths, ..self }
    }

    /// Where the paths of the session lie.
    pub fn paths(&self) -> &PathTable {
        &self.paths
    }

    /// Where a path of the host really leads, as far as it exists.
    fn real(&self, path: &Path) -> PathBuf {
        resolve_path(&self.cwd, path).map_or_else(|_| self.cwd.join(path), |path| path.real)
    }

    /// The working directory.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// The directories that count as inside, as they really are; the working directory is the first.
    pub fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.dirs.iter().map(|(_, real)| real.as_path())
    }

    /// The same directories, each as it was named and as it really is.
    pub fn named_dirs(&self) -> impl Iterator<Item = (&Path, &Path)> {
        self.dirs.iter().map(|(named, real)| (named.as_path(), real.as_path()))
    }

    /// Whether a path is inside, both as it was given and as it really is.
    pub fn contains(&self, path: &RealPath) -> bool {
        self.contains_both(&path.given, &path.real)
    }

    /// The same for the two forms of a path, absolute and without `.` and `..`.
    pub fn contains_both(&self, given: &Path, real: &Path) -> bool {
        let really = |(_, dir): &(PathBuf, PathBuf)| beneath_tidy(real, dir);
        let named =
            |(named, dir): &(PathBuf, PathBuf)| beneath_tidy(given, dir) || beneath_tidy(given, named);
        let is_named = || self.dirs.iter().any(named) || self.paths.is_private(&self.paths.host_path(given));
        (self.dirs.iter().any(really) || self.paths.is_private(real)) && (given == real || is_named())
    }

    /// Whether a path may be read without asking: inside, or one of the folders that always may.
    pub fn is_readable(&self, path: &RealPath) -> bool {
        self.is_readable_both(&path.given, &path.real)
    }

    /// The same for the two forms of a path, absolute and without `.` and `..`.
    pub fn is_readable_both(&self, given: &Path, real: &Path) -> bool {
        self.contains_both(given, real) || self.readable.iter().any(|root| beneath_tidy(real, root))
    }

    /// What no tool may write in any mode.
    pub(crate) fn protected(&self) -> &[PathBuf] {
        &self.protected
    }

    /// The protected root that a path lies in, contains or is.
    fn protecting(&self, path: &ResolvedPath) -> Option<&Path> {
        let real = &path.at.real;
        let meets = |root: &PathBuf| {
            is_beneath(real, root)
                || (path.extent == RootExtent::Subtree || path.at.is_dir) && is_beneath(root, real)
        };
        self.protected.iter().find(|root| meets(root)).map(PathBuf::as_path)
    }

    /// What may be read before anything was granted: the insides, and nothing written.
    pub fn access(&self) -> GrantedAccess {
        let own = self.paths.private_folder().map(Path::to_owned);
        let dirs = self.dirs().map(Path::to_path_buf).chain(self.readable.iter().cloned()).chain(own);
        let read = dirs.map(|path| GrantedRoot { path, extent: RootExtent::Subtree }).collect();
        GrantedAccess { read, ..GrantedAccess::default() }
    }
}

/// A directory as the user named it (absolute, without `.` and without a slash at the end), and as it really
/// is.
fn canonical_directory(path: &Path) -> std::io::Result<(PathBuf, PathBuf)> {
    let given: PathBuf = std::path::absolute(path)?.components().collect();
    let real = given.canonicalize()?;
    if !real.is_dir() {
        let words = format!("`{}` is not a directory", given.display());
        return Err(std::io::Error::new(std::io::ErrorKind::NotADirectory, words));
    }
    Ok((given, real))
}

/// One declared path, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedPath {
    /// Where it is.
    pub at: RealPath,
    /// How much below it.
    pub extent: RootExtent,
}

/// A declaration with its paths resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedEffects {
    /// What the tool said.
    pub declared: Arc<Effects>,
    /// Resolved reads, those of understood commands included.
    pub reads: Vec<ResolvedPath>,
    /// Resolved writes, likewise.
    pub writes: Vec<ResolvedPath>,
    /// Resolved removals, likewise.
    pub deletes: Vec<ResolvedPath>,
    /// Why a path could not be resolved; such a call asks, and conflicts with all.
    pub failed: Option<(PathBuf, String)>,
}

impl ResolvedEffects {
    /// Looks at the disk, at where `paths` says. Without paths in the declaration this looks at nothing.
    pub fn resolve(declared: Arc<Effects>, cwd: &Path, paths: &PathTable) -> ResolvedEffects {
        let mut resolved = ResolvedEffects {
            reads: Vec::new(),
            writes: Vec::new(),
            deletes: Vec::new(),
            failed: None,
            declared: declared.clone(),
        };
        if !declared.has_paths() && declared.runs.is_empty() {
            return resolved;
        }
        let mut written = Vec::new();
        collect_written(&declared, &mut written);
        let lookup = PathLookup { cwd, paths, written };
        resolved.take(&declared, &lookup, false);
        resolved
    }

    /// What a command names is partly guessed: `cp a b` writes `b/a` only if `b` is a folder. Behind a file
    /// nothing is and nothing can be made, so such a guess of a `command` is dropped, and granted to nobody.
    fn take(&mut self, effects: &Effects, lookup: &PathLookup<'_>, command: bool) {
        let (cwd, failed) = (lookup.cwd, &mut self.failed);
        type Look = fn(&PathLookup<'_>, &Path) -> Result<RealPath, ResolveError>;
        let mut all = |into: &mut Vec<ResolvedPath>, sets: &[PathSet], look: Look| {
            for set in sets {
                match look(lookup, &set.path) {
                    Ok(at) => into.push(ResolvedPath { at, extent: set.extent }),
                    Err(error) if command && error.kind == ResolveErrorKind::NotADirectory => {}
                    Err(error) => *failed = Some((cwd.join(&set.path), error.to_string())),
                }
            }
        };
        all(&mut self.reads, &effects.reads, |lookup, path| lookup.read(path));
        all(&mut self.writes, &effects.writes, |lookup, path| lookup.paths.resolve(lookup.cwd, path));
        // Removing a link concerns the link and not what it leads to.
        all(&mut self.deletes, &effects.deletes, |lookup, path| lookup.paths.resolve_entry(lookup.cwd, path));
        for inner in effects.runs.iter().filter_map(|command| command.effects.as_deref()) {
            self.take(inner, lookup, true);
        }
    }

    /// What the table needs to know.
    pub fn facts(&self, workspace: &Workspace, surroundings: HostCapabilities) -> EffectFacts {
        EffectFacts {
            reads_outside: self.failed.is_some()
                || self.reads.iter().any(|path| !workspace.is_readable(&path.at)),
            overwrites: !surroundings.checkpoints && self.writes.iter().any(|path| path.at.exists),
            confined: surroundings.confined,
        }
    }

    /// What follows from this declaration here.
    pub fn judge(&self, workspace: &Workspace, surroundings: HostCapabilities) -> EffectClass {
        self.declared.judge(&self.facts(workspace, surroundings))
    }

    /// The protected place that this would change, if any.
    pub fn meets_protected<'a>(&'a self, workspace: &'a Workspace) -> Option<&'a Path> {
        self.writes.iter().chain(&self.deletes).find_map(|path| workspace.protecting(path))
    }

    /// The protected place in which this would change something, if any. Unlike
    /// [`meets_protected`](ResolvedEffects::meets_protected) this leaves folders alone that a protected place
    /// lies in.
    pub fn within_protected<'a>(&'a self, workspace: &'a Workspace) -> Option<&'a Path> {
        let within = |path: &ResolvedPath| {
            workspace.protected.iter().find(|root| is_beneath(&path.at.real, root)).map(PathBuf::as_path)
        };
        self.writes.iter().chain(&self.deletes).find_map(within)
    }

    /// The paths that this touches outside of the working directories, those first that nobody could resolve.
    pub fn outside<'a>(&'a self, workspace: &'a Workspace) -> impl Iterator<Item = &'a Path> {
        let ResolvedEffects { reads, writes, deletes, failed, .. } = self;
        let reads = reads.iter().filter(|path| !workspace.is_readable(&path.at));
        let changes = writes.iter().chain(deletes).filter(|path| !workspace.contains(&path.at));
        let failed = failed.iter().map(|(path, _)| path.as_path());
        failed.chain(reads.chain(changes).map(|path| path.at.real.as_path()))
    }

    /// What of a call's access it declared: without the rest of the working directories.
    pub(crate) fn declared_access(&self, granted: &GrantedAccess) -> GrantedAccess {
        let root = |path: &ResolvedPath| GrantedRoot { path: path.at.real.clone(), extent: path.extent };
        // Looked up anew, so a link that leads elsewhere since the call was allowed leads to nothing.
        let within = |roots: &[GrantedRoot], root: &GrantedRoot| {
            roots.iter().any(|granted| match root.extent {
                RootExtent::File => granted.covers(&root.path),
                RootExtent::Subtree => {
                    granted.extent == RootExtent::Subtree && is_beneath(&root.path, &granted.path)
                }
            })
        };
        // A folder is shown as a whole, so it has to be declared as one.
        let fits = |path: &&ResolvedPath| path.extent == RootExtent::Subtree || !path.at.is_dir;
        let read = self.reads.iter().filter(fits).map(root);
        let write = self.writes.iter().chain(&self.deletes).filter(fits).map(root);
        GrantedAccess {
            read: read.filter(|root| within(&granted.read, root) || within(&granted.write, root)).collect(),
            write: write.filter(|root| within(&granted.write, root)).collect(),
            ..granted.clone()
        }
    }

    /// The hosts that this reaches, each with whether a command in it names it.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, bool)> {
        fn of_commands(effects: &Effects) -> Vec<&str> {
            let inner = effects.runs.iter().filter_map(|command| command.effects.as_deref());
            inner
                .flat_map(|inner| inner.reaches.iter().map(|reach| &*reach.host).chain(of_commands(inner)))
                .collect()
        }
        let own = self.declared.reaches.iter().map(|reach| (&*reach.host, false));
        own.chain(of_commands(&self.declared).into_iter().map(|host| (host, true)))
    }
}

/// How the paths of a declaration are resolved.
struct PathLookup<'a> {
    cwd: &'a Path,
    paths: &'a PathTable,
    /// What the declaration changes: it reads there what it has written itself.
    written: Vec<&'a Path>,
}

impl PathLookup<'_> {
    fn read(&self, path: &Path) -> Result<RealPath, ResolveError> {
        if self.written.contains(&path) {
            self.paths.resolve(self.cwd, path)
        } else {
            self.paths.resolve_read(self.cwd, path)
        }
    }
}

fn collect_written<'e>(effects: &'e Effects, written: &mut Vec<&'e Path>) {
    written.extend(effects.writes.iter().chain(&effects.deletes).map(|set| set.path.as_path()));
    let inner = effects.runs.iter().filter_map(|command| command.effects.as_deref());
    inner.for_each(|inner| collect_written(inner, written));
}

/// What the host can do about effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCapabilities {
    /// Commands run where only their declared effects can happen.
    pub confined: bool,
    /// The content before each change is kept.
    pub checkpoints: bool,
}
