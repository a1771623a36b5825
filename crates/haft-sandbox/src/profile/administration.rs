//! What git keeps of a repository, and what of that a command may make.
//!
//! git obeys more names in its folders than anybody remembers, and learns new ones. So it is said which of them commands
//! may make, change and remove: objects, references, logs, indexes, lock files, messages, what git goes on with. Every
//! other name is *held*: one that is there can't be changed, one that a command makes is taken away when it has ended, or,
//! if this program is killed, when the next session starts. The same list counts in every folder that git takes for one of
//! its own: `.git`, `modules/**`, `worktrees/*`, `worktrees/*/modules/**`.
//!
//! Folders are read again only when they have changed. Where there are more of them than can be held one by one, `modules`
//! and `worktrees` are held as a whole; nothing is ever left out.
//!
//! Left to others: holding (`guard`), taking away (`guard::clean`), what is in lists of things to do (`sequence`).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::strays::Links;
use super::{limits, nested, read_small, sequence, standing, undo};

/// What a folder is to git.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The administration of a repository.
    Git,
    /// What a worktree has of its own.
    Worktree,
    /// `modules`, and folders in it that only group others.
    Modules,
    /// `worktrees`.
    Worktrees,
}

impl Kind {
    const LETTERS: [(Kind, u8); 4] =
        [(Kind::Git, b'g'), (Kind::Worktree, b't'), (Kind::Modules, b'm'), (Kind::Worktrees, b'l')];

    /// How it is written down.
    pub(super) fn letter(self) -> u8 {
        Kind::LETTERS.iter().find(|(kind, _)| *kind == self).map_or(b'?', |(_, letter)| *letter)
    }

    pub(super) fn of_letter(letter: u8) -> Option<Kind> {
        Kind::LETTERS.iter().find(|(_, of)| *of == letter).map(|(kind, _)| *kind)
    }
}

/// Names of one administration that commands may make, change and remove.
const FREE: [&str; 29] = [
    "ADD_EDIT.patch",
    "AUTO_MERGE",
    "BISECT_ANCESTORS_OK",
    "BISECT_EXPECTED_REV",
    "BISECT_FIRST_PARENT",
    "BISECT_LOG",
    "BISECT_NAMES",
    "BISECT_RUN",
    "BISECT_START",
    "BISECT_TERMS",
    "COMMIT_EDITMSG",
    "EDIT_DESCRIPTION",
    "HEAD",
    "MERGE_AUTOSTASH",
    "MERGE_MODE",
    "MERGE_RR",
    "NOTES_MERGE_PARTIAL",
    "NOTES_MERGE_REF",
    "NOTES_MERGE_WORKTREE",
    "REPLACE_EDITOBJ",
    "addp-hunk-edit.diff",
    "gc.log",
    "gc.pid",
    "index",
    "info",
    "locked",
    "logs",
    "refs",
    "reftable",
];
/// The same where it is a repository, and not only a worktree of one.
const FREE_IN_GIT: [&str; 8] =
    ["description", "filter-repo", "lfs", "objects", "packed-refs", "packed-refs.new", "rr-cache", "shallow"];
/// How such names begin and end.
const FREE_BEGINS: [&str; 5] = ["fast_import_crash_", "index.", "next-index-", "sharedindex.", "shallow_"];
const FREE_ENDS: [&str; 4] = [".lock", "_HEAD", "_MSG", "_EDITMSG"];
/// What a name holds that was put aside, and that nobody obeys.
const ASIDE: &str = ".undone-";

/// Held names that git obeys wherever they are.
const OBEYED: [&str; 5] = ["config", "hooks", "config.worktree", "commondir", "gitdir"];
/// Files by one of which git knows an administration, or a careful reader the rest of one.
const MARKS: [&str; 6] = ["HEAD", "config", "commondir", "config.worktree", "packed-refs", "index"];

/// Which folder it is: numbers are used again, so when it was made counts too.
pub(super) type Id = (u64, u64, u128);

/// Which folder or file a path names now.
pub(super) fn id(path: &Path) -> Option<Id> {
    let found = path.symlink_metadata().ok()?;
    let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    Some((found.dev(), found.ino(), born.map_or(0, |born| born.as_nanos())))
}

/// A folder of git.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub(super) kind: Kind,
    pub(super) id: Option<Id>,
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
pub(super) struct Administration {
    pub(super) folders: BTreeMap<PathBuf, Folder>,
    /// Files that say what git goes on with, as they are.
    pub(super) sequences: BTreeMap<PathBuf, Vec<u8>>,
    /// Folders with too much in them to be told apart.
    pub(super) whole: BTreeSet<PathBuf>,
    /// Links among the names that commands may make; not where only names were written down.
    pub(super) links: Option<Links>,
    /// What `HEAD` says, if all that makes the outermost folder a repository is there.
    pub(super) head: Option<Vec<u8>>,
}

impl Administration {
    /// What is there now; what hasn't changed since `before` isn't read again. No more than `max` folders are told apart.
    pub(super) fn look(root: &Path, before: Option<&Administration>, max: usize) -> Administration {
        let mut found = Administration::default();
        let mut links = Links::default();
        let mut left = vec![(root.to_owned(), None)];
        while let Some((path, above)) = left.pop() {
            let known = before.and_then(|before| before.folders.get(&path));
            let folder = match Folder::read(&path, above, known) {
                Ok(Some(folder)) => folder,
                Ok(None) => continue,
                Err(TooMuch) => {
                    found.whole.insert(path);
                    continue;
                }
            };
            for name in &folder.sequences {
                for file in sequence::judged(&path.join(name)) {
                    if let Some(bytes) = read_small(&file) {
                        found.sequences.insert(file, bytes);
                    }
                }
            }
            if matches!(folder.kind, Kind::Git | Kind::Worktree) {
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
        found.head = standing::head(root);
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
        let Administration { folders, whole, .. } = self;
        folders.retain(|path, _| !whole.iter().any(|whole| path.starts_with(whole)));
    }

    /// Everything that no command may change, and whether git obeys it for certain. Hooks also where there are none.
    pub(super) fn held(&self) -> impl Iterator<Item = (PathBuf, bool)> + '_ {
        let of_folder = |(path, folder): (&PathBuf, &Folder)| {
            let hooks = (folder.kind == Kind::Git && !folder.made).then(|| OsString::from("hooks"));
            let hooks = hooks.filter(|hooks| !folder.held.contains(hooks));
            let free = |name: &&OsString| !(folder.made && (*name == "gitdir" || *name == "commondir"));
            let names: Vec<OsString> = folder.held.iter().filter(free).cloned().chain(hooks).collect();
            let path = path.clone();
            names.into_iter().map(move |name| {
                let obeyed = OBEYED.iter().any(|obeyed| name == *obeyed);
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

/// Whether a folder is one of those that [`Administration::look`] finds from a root, as the administration of a submodule.
///
/// Not by its path alone: `modules/a/objects/x` lies where nobody looks, if `modules/a` is an administration.
pub(super) fn is_module_of(there: &Path, root: &Path) -> bool {
    let Ok(rest) = there.strip_prefix(root) else { return false };
    let (mut at, mut kind) = (root.to_owned(), Kind::Git);
    for name in rest {
        at.push(name);
        kind = match kind {
            Kind::Git | Kind::Worktree if name == "modules" => Kind::Modules,
            Kind::Git if name == "worktrees" => Kind::Worktrees,
            Kind::Git | Kind::Worktree => return false,
            Kind::Worktrees => Kind::Worktree,
            Kind::Modules => match names(&at, None) {
                Ok((_, true)) => Kind::Git,
                Ok((_, false)) => Kind::Modules,
                Err(TooMuch) => return false,
            },
        };
        if !at.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            return false;
        }
    }
    kind == Kind::Git && there != root
}

/// More names than can be looked at.
struct TooMuch;

impl Folder {
    /// One that was written down: of which only the names are known.
    pub(super) fn recorded(kind: Kind, held: BTreeSet<OsString>) -> Folder {
        Folder { kind, id: None, held, made: false, changed: None, inside: Vec::new(), sequences: Vec::new() }
    }

    /// Whether this is the same folder, as far as is known.
    pub(super) fn is_same(&self, other: &Folder) -> bool {
        self.kind == other.kind && (self.id.is_none() || other.id.is_none() || self.id == other.id)
    }

    /// Folders with lists of what is to be done.
    pub(super) fn sequences(&self) -> &[OsString] {
        &self.sequences
    }

    /// Reads one that lies in a folder of this kind.
    fn read(path: &Path, above: Option<Kind>, known: Option<&Folder>) -> Result<Option<Folder>, TooMuch> {
        let Ok(found) = path.symlink_metadata() else { return Ok(None) };
        if !found.is_dir() {
            return Ok(None);
        }
        let changed = (found.ctime(), found.ctime_nsec());
        if let Some(known) = known.filter(|known| known.changed == Some(changed)) {
            return Ok(Some(known.clone()));
        }
        let id = id(path);
        // Nothing that a command puts into a folder makes it something else.
        let same = known.filter(|known| known.id.is_none() || known.id == id);
        let known = match above {
            None => Some(Kind::Git),
            Some(Kind::Git | Kind::Worktree) if path.ends_with("worktrees") => Some(Kind::Worktrees),
            Some(Kind::Git | Kind::Worktree) => Some(Kind::Modules),
            Some(Kind::Worktrees) => Some(Kind::Worktree),
            Some(Kind::Modules) => same.map(|known| known.kind),
        };
        let (names, is_administration) = names(path, known)?;
        let kind = known.unwrap_or(if is_administration { Kind::Git } else { Kind::Modules });
        let changed = (!nested::is_fresh(found.ctime())).then_some(changed);
        let (held, inside, sequences) = Default::default();
        let mut folder = Folder { kind, id, held, made: false, changed, inside, sequences };
        for (name, is_folder) in names {
            let text = name.to_str().unwrap_or_default();
            match kind {
                Kind::Modules | Kind::Worktrees if is_folder => folder.inside.push(name),
                Kind::Git | Kind::Worktree if is_free(kind, text) => {}
                Kind::Git if is_folder && text == "worktrees" => folder.inside.push(name),
                Kind::Git | Kind::Worktree if is_folder && text == "modules" => folder.inside.push(name),
                Kind::Git | Kind::Worktree if is_folder && sequence::FOLDERS.contains(&text) => {
                    folder.sequences.push(name);
                }
                _ => drop(folder.held.insert(name)),
            }
        }
        Ok(Some(folder))
    }
}

/// The names in a folder that matter, and which are folders; and whether it is an administration or what is left of one,
/// and doesn't just group others. One that can't be read at all is too much.
fn names(path: &Path, kind: Option<Kind>) -> Result<(Vec<(OsString, bool)>, bool), TooMuch> {
    let (mut names, mut marked, mut objects, mut refs) = (Vec::new(), false, false, false);
    let entries = fs::read_dir(path).or_else(|_| {
        undo::open_up(path);
        fs::read_dir(path)
    });
    for entry in entries.map_err(|_| TooMuch)?.flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name();
        let text = name.to_str().unwrap_or_default();
        marked |= !is_folder && MARKS.contains(&text);
        objects |= is_folder && text == "objects";
        refs |= is_folder && text == "refs";
        // There may be many that are free, and none of them is needed where that is known.
        let free = match kind {
            Some(kind @ (Kind::Git | Kind::Worktree)) => is_free(kind, text),
            // Where folders are expected, a file that was put aside is nothing.
            Some(_) => text.contains(ASIDE) && entry.file_type().is_ok_and(|kind| kind.is_file()),
            None => !is_folder && is_free(Kind::Git, text) && !MARKS.contains(&text),
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

/// Whether commands may make a name and change it.
fn is_free(kind: Kind, name: &str) -> bool {
    FREE.contains(&name)
        || kind == Kind::Git && FREE_IN_GIT.contains(&name)
        || FREE_BEGINS.iter().any(|begin| name.starts_with(begin))
        || FREE_ENDS.iter().any(|end| name.ends_with(end))
        || name.contains(ASIDE)
}

/// Whether git obeys a name in its folders for certain.
pub(super) fn is_obeyed(name: &OsStr) -> bool {
    OBEYED.iter().any(|obeyed| name == *obeyed)
}

/// The names that git obeys for certain in a folder of its own, whether they are there or not.
pub(super) fn obeyed(folder: &Path) -> impl Iterator<Item = (&'static str, PathBuf)> + '_ {
    OBEYED.iter().map(move |name| (*name, folder.join(name)))
}
