//! Empty folders that wait until they are needed again.
//!
//! To make and remove a folder costs some file systems a hundred times what a rename does, and a command needs several. So
//! what stood in for a name while a command ran is put on a shelf of the session, under a number, and taken from there for
//! the next one. It is the same folder then, so that a sandbox that was prepared with it still fits. Where the shelf lies
//! on another file system than the name, folders are made and removed.
//!
//! What somebody puts into one of them stays under its name, and comes back there if it was put in while the folder lay on
//! the shelf.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::limits;
use super::whereabouts::Id;

#[derive(Debug)]
pub(super) struct Shelf {
    /// Made with the first that is put there.
    folder: PathBuf,
    /// Which folder waits for which name.
    waiting: BTreeMap<PathBuf, Waiting>,
    put: u64,
}

#[derive(Debug)]
struct Waiting {
    place: PathBuf,
    id: Option<Id>,
}

impl Shelf {
    /// A shelf in this folder, which only this session has.
    pub(super) fn at(folder: PathBuf) -> Shelf {
        Shelf { folder, waiting: BTreeMap::new(), put: 0 }
    }

    /// Whether a folder waits for this name.
    pub(super) fn has(&self, name: &Path) -> bool {
        self.waiting.contains_key(name)
    }

    /// Puts an empty folder where nothing is, and says which.
    ///
    /// # Errors
    /// `AlreadyExists` where something is, and what the file system says.
    pub(super) fn stand(&mut self, name: &Path) -> io::Result<Option<Id>> {
        if let Some(waiting) = self.waiting.remove(name) {
            match move_to(&waiting.place, name) {
                Ok(()) => return Ok(waiting.id),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.waiting.insert(name.to_owned(), waiting);
                    return Err(error);
                }
                Err(_) => {
                    let _ = fs::remove_dir(&waiting.place);
                }
            }
        }
        fs::create_dir(name)?;
        Ok(Id::at(name))
    }

    /// Takes this folder away if it is empty.
    pub(super) fn away(&mut self, name: &Path, id: Option<Id>) {
        if self.waiting.len() >= limits::SHELF_MAX
            || self.waiting.contains_key(name)
            || (self.put == 0 && fs::create_dir_all(&self.folder).is_err())
        {
            let _ = fs::remove_dir(name);
            return;
        }
        self.put += 1;
        let place = self.folder.join(self.put.to_string());
        if move_to(name, &place).is_err() {
            let _ = fs::remove_dir(name);
        } else if is_empty(&place) {
            self.waiting.insert(name.to_owned(), Waiting { place, id });
        } else {
            // If somebody took the name as well, what was put into it is kept where it is now.
            let _ = move_to(&place, name);
        }
    }
}

/// Takes a shelf away, with the empty folders on it.
pub(super) fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let _ = fs::remove_dir(entry.path());
    }
    let _ = fs::remove_dir(folder);
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Gives something another name, unless that is taken.
fn move_to(from: &Path, to: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_folder_stands_again_and_nothing_is_lost() {
        use std::os::unix::fs::MetadataExt as _;
        let dir = tempfile::tempdir().unwrap();
        let (folder, name) = (dir.path().join("shelf"), dir.path().join(".idea"));
        let number = |path: &Path| path.symlink_metadata().unwrap().ino();
        let mut shelf = Shelf::at(folder.clone());
        shelf.stand(&name).unwrap();
        let first = number(&name);
        for _ in 0..3 {
            shelf.away(&name, Id::at(&name));
            assert!(!name.exists() && fs::read_dir(&folder).unwrap().count() == 1);
            shelf.stand(&name).unwrap();
            assert_eq!(number(&name), first);
        }
        // What somebody put into it stays, and who was there first too.
        fs::write(name.join("x"), "mine").unwrap();
        shelf.away(&name, Id::at(&name));
        assert!(name.join("x").exists());
        fs::remove_file(name.join("x")).unwrap();
        shelf.away(&name, Id::at(&name));
        fs::write(&name, "mine").unwrap();
        assert_eq!(shelf.stand(&name).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        fs::remove_file(&name).unwrap();
        shelf.stand(&name).unwrap();
        assert_eq!(number(&name), first, "it waited");
        // What was put into it on the shelf, by a descriptor that was held, isn't lost either.
        let shelved = || fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        shelf.away(&name, Id::at(&name));
        fs::write(shelved().join("x"), "late").unwrap();
        shelf.stand(&name).unwrap();
        shelf.away(&name, Id::at(&name));
        assert!(name.join("x").exists());
        fs::remove_file(name.join("x")).unwrap();
        shelf.away(&name, Id::at(&name));
        fs::write(shelved().join("x"), "late").unwrap();
        clear(&folder);
        assert!(shelved().join("x").exists());
    }
}
