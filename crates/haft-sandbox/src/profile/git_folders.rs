//! What git keeps of a repository, and what of that a command may make.
//!
//! Which names are free and which are held says [`haft_git::layout`]. A held name that is there can't be
//! changed; one that a command makes is taken away when it has ended, or, if this program is killed, when the
//! next session starts.
//!
//! Folders are read again only when they have changed. Where there are more of them than can be held one by
//! one, `modules` and `worktrees` are held as a whole; nothing is ever left out.
//!
//! Left to others: holding (`guard`), taking away (`guard::clean`), what is in lists of things to do
//! (`sequence`).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use haft_git::layout::{ASIDE, FolderKind, MARKS, is_free, is_obeyed};
use haft_git::sequence;

use super::symlink_cleanup::GitSymlinks;
use super::{limits, nested_repos, read_small, repo_markers, undo};

/// Which folder it is: numbers are used again, so when it was made counts too.
pub(super) type FolderId = (u64, u64, u128);

/// Which folder or file a path names now.
pub(super) fn folder_id(path: &Path) -> Option<FolderId> {
    let found = path.symlink_metadata().ok()?;
    let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    Some((found.dev(), found.ino(), born.map_or(0, |born| born.as_nanos())))
}

/// A folder of git.
#[derive(Clone, Debug)]
pub(super) struct GitFolder {
    pub(super) kind: FolderKind,
    pub(super) id: Option<FolderId>,
    /// Names in it that no command may make or change.
    pub(super) held: BTreeSet<OsString>,
    /// A command has made it, so it can be removed again.
    pub(super) made: bool,
    /// When it changed, unless that was just before it was read.
    pub(super) changed: Option<(i64, i64)>,
    inside: Vec<OsString>,
    sequences: Vec<OsString>,
}

/// All folders of git of one repository.
#[derive(Clone, Debug, Default)]
pub(super) struct GitFolders {
    pub(super) folders: BTreeMap<PathBuf, GitFolder>,
    /// What the outermost one is.
    pub(super) kind: Option<FolderKind>,
    /// Files that say what git goes on with, as they are.
    pub(super) sequences: BTreeMap<PathBuf, Vec<u8>>,
    /// Folders with too much in them to be told apart.
    pub(super) whole: BTreeSet<PathBuf>,
    /// Links among the names that commands may make; not where only names were written down.
    pub(super) links: Option<GitSymlinks>,
    /// What `HEAD` says, if all that makes the outermost folder a repository is there.
    pub(super) head: Option<Vec<u8>>,
}

impl GitFolders {
    /// What is there now; what hasn't changed since `before` isn't read again. No more than `max` folders are
    /// told apart.
    pub(super) fn look(root: &Path, kind: FolderKind, before: Option<&GitFolders>, max: usize) -> GitFolders {
        let mut found = GitFolders { kind: Some(kind), ..GitFolders::default() };
        let mut links = GitSymlinks::default();
        let mut left = vec![(root.to_owned(), None)];
        while let Some((path, above)) = left.pop() {
            let known = before.and_then(|before| before.folders.get(&path));
            let folder = match GitFolder::read(&path, above.ok_or(kind), known) {
                Ok(Some(folder)) => folder,
                Ok(None) => continue,
                Err(TooMuch) => {
                    found.whole.insert(path);
                    continue;
                }
            };
            for name in &folder.sequences {
                for file in sequence::judged_files(&path.join(name)) {
                    if let Some(bytes) = read_small(&file) {
                        found.sequences.insert(file, bytes);
                    }
                }
            }
            if matches!(folder.kind, FolderKind::Git | FolderKind::Worktree | FolderKind::Bare) {
                links.look(&path, before.and_then(|before| before.links.as_ref()));
            }
            left.extend(folder.inside.iter().map(|name| (path.join(name), Some(folder.kind))));
            found.folders.insert(path, folder);
            if found.folders.len() > max {
                found.hold_inside(root);
                break;
            }
        }
        found.links = Some(links);
        found.head = repo_markers::read_head(root);
        found
    }

    /// Tells nothing apart that lies in the outermost folder.
    fn hold_inside(&mut self, root: &Path) {
        self.folders.retain(|path, _| path == root);
        let inside = self.folders.get(root).map(|folder| folder.inside.clone()).unwrap_or_default();
        self.whole.extend(inside.iter().map(|name| root.join(name)));
    }

    /// Holds folders whole in which there is more than can be held name by name.
    pub(super) fn bound(&mut self) {
        let many = self.folders.iter().filter(|(_, folder)| folder.held.len() > limits::GIT_NAMES_MAX);
        self.whole.extend(many.map(|(path, _)| path.clone()));
        let GitFolders { folders, whole, .. } = self;
        folders.retain(|path, _| !whole.iter().any(|whole| path.starts_with(whole)));
    }

    /// Everything that no command may change, and whether git obeys it for certain. Hooks also where there
    /// are none.
    pub(super) fn held(&self) -> impl Iterator<Item = (PathBuf, bool)> + '_ {
        let of_folder = |(path, folder): (&PathBuf, &GitFolder)| {
            let hooks = (folder.kind == FolderKind::Git && !folder.made).then(|| OsString::from("hooks"));
            let hooks = hooks.filter(|hooks| !folder.held.contains(hooks));
            let free = |name: &&OsString| !(folder.made && (*name == "gitdir" || *name == "commondir"));
            let names: Vec<OsString> = folder.held.iter().filter(free).cloned().chain(hooks).collect();
            let path = path.clone();
            names.into_iter().map(move |name| {
                let obeyed = is_obeyed(&name);
                (path.join(name), obeyed)
            })
        };
        self.whole.iter().map(|path| (path.clone(), false)).chain(self.folders.iter().flat_map(of_folder))
    }

    /// What the user had in files of the same folder as this one.
    pub(super) fn sequence(&self, file: &Path) -> Vec<&[u8]> {
        let beside = self.sequences.iter().filter(|(path, _)| path.parent() == file.parent());
        beside.map(|(_, bytes)| bytes.as_slice()).collect()
    }
}

/// Whether a folder is one of those that [`GitFolders::look`] finds from a root, as the administration of a
/// submodule.
///
/// Not by its path alone: `modules/a/objects/x` lies where nobody looks, if `modules/a` is an administration.
pub(super) fn is_module_of(there: &Path, root: &Path) -> bool {
    let Ok(rest) = there.strip_prefix(root) else { return false };
    let (mut at, mut kind) = (root.to_owned(), FolderKind::Git);
    for name in rest {
        at.push(name);
        kind = match kind {
            FolderKind::Git | FolderKind::Worktree | FolderKind::Bare if name == "modules" => {
                FolderKind::Modules
            }
            FolderKind::Git | FolderKind::Bare if name == "worktrees" => FolderKind::Worktrees,
            FolderKind::Git | FolderKind::Worktree | FolderKind::Bare => return false,
            FolderKind::Worktrees => FolderKind::Worktree,
            FolderKind::Modules => match read_names(&at, None) {
                Ok((_, true)) => FolderKind::Git,
                Ok((_, false)) => FolderKind::Modules,
                Err(TooMuch) => return false,
            },
        };
        if !at.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            return false;
        }
    }
    kind == FolderKind::Git && there != root
}

/// More names than can be looked at.
struct TooMuch;

impl GitFolder {
    /// One that was written down: of which only the names are known.
    pub(super) fn recorded(kind: FolderKind, held: BTreeSet<OsString>) -> GitFolder {
        GitFolder {
            kind,
            id: None,
            held,
            made: false,
            changed: None,
            inside: Vec::new(),
            sequences: Vec::new(),
        }
    }

    /// Whether this is the same folder, as far as is known.
    pub(super) fn is_same(&self, other: &GitFolder) -> bool {
        self.kind == other.kind && (self.id.is_none() || other.id.is_none() || self.id == other.id)
    }

    /// Folders with lists of what is to be done.
    pub(super) fn sequences(&self) -> &[OsString] {
        &self.sequences
    }

    /// Reads one that lies in a folder of this kind, or the outermost one of that kind.
    fn read(
        path: &Path,
        above: Result<FolderKind, FolderKind>,
        known: Option<&GitFolder>,
    ) -> Result<Option<GitFolder>, TooMuch> {
        let Ok(found) = path.symlink_metadata() else { return Ok(None) };
        if !found.is_dir() {
            return Ok(None);
        }
        let changed = (found.ctime(), found.ctime_nsec());
        if let Some(known) = known.filter(|known| known.changed == Some(changed)) {
            return Ok(Some(known.clone()));
        }
        let id = folder_id(path);
        // Nothing that a command puts into a folder makes it something else.
        let same = known.filter(|known| known.id.is_none() || known.id == id);
        let known = match above {
            Err(outermost) => Some(outermost),
            Ok(FolderKind::Worktrees) => Some(FolderKind::Worktree),
            Ok(FolderKind::Modules) => same.map(|known| known.kind),
            Ok(_) if path.ends_with("worktrees") => Some(FolderKind::Worktrees),
            Ok(_) => Some(FolderKind::Modules),
        };
        let (names, is_administration) = read_names(path, known)?;
        let kind = known.unwrap_or(if is_administration { FolderKind::Git } else { FolderKind::Modules });
        let changed = (!nested_repos::is_fresh(found.ctime())).then_some(changed);
        let (held, inside, sequences) = Default::default();
        let mut folder = GitFolder { kind, id, held, made: false, changed, inside, sequences };
        for (name, is_folder) in names {
            let text = name.to_str().unwrap_or_default();
            match kind {
                FolderKind::Modules | FolderKind::Worktrees if is_folder => folder.inside.push(name),
                FolderKind::Modules | FolderKind::Worktrees => drop(folder.held.insert(name)),
                _ if is_free(kind, text) => {}
                _ if is_folder && text == "modules" => folder.inside.push(name),
                FolderKind::Git | FolderKind::Bare if is_folder && text == "worktrees" => {
                    folder.inside.push(name)
                }
                FolderKind::Git | FolderKind::Worktree
                    if is_folder && sequence::SEQUENCE_FOLDERS.contains(&text) =>
                {
                    folder.sequences.push(name);
                }
                _ => drop(folder.held.insert(name)),
            }
        }
        Ok(Some(folder))
    }
}

/// The names in a folder that matter, and which are folders; and whether it is an administration or what is
/// left of one, and doesn't just group others. One that can't be read at all is too much.
fn read_names(path: &Path, kind: Option<FolderKind>) -> Result<(Vec<(OsString, bool)>, bool), TooMuch> {
    let (mut names, mut marked, mut objects, mut refs) = (Vec::new(), false, false, false);
    for entry in undo::read_dir(path).map_err(|_| TooMuch)?.flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name();
        let text = name.to_str().unwrap_or_default();
        marked |= !is_folder && MARKS.contains(&text);
        objects |= is_folder && text == "objects";
        refs |= is_folder && text == "refs";
        // There may be many that are free, and none of them is needed where that is known.
        let free = match kind {
            Some(kind @ (FolderKind::Git | FolderKind::Worktree | FolderKind::Bare)) => is_free(kind, text),
            // Where folders are expected, a file that was put aside is nothing.
            Some(_) => text.contains(ASIDE) && entry.file_type().is_ok_and(|kind| kind.is_file()),
            None => !is_folder && is_free(FolderKind::Git, text) && !MARKS.contains(&text),
        };
        if free {
            continue;
        }
        if names.len() >= limits::GIT_ENTRIES_MAX {
            return Err(TooMuch);
        }
        names.push((name, is_folder));
    }
    Ok((names, marked || objects && refs))
}
