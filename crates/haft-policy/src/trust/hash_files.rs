//! Hashes files of a workspace and lists its folders, within limits.
//!
//! A file that can't be hashed (a FIFO, a huge file, an endless folder) is an obstacle: a workspace with an
//! obstacle can't be trusted, because a later change of it could not be detected.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::digest::Digest;
use crate::settings::read_file::{self, UnreadableFile};

/// The maximum size of a hashed file, in bytes.
pub const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The maximum number of workspace files that are examined for trust.
pub const FILES_MAX: usize = 5_000;
/// The maximum nesting depth of folders of tools, agents and skills.
pub const FOLDER_DEPTH_MAX: usize = 8;

/// Returns the digest of a file's content, or `None` if the file doesn't exist.
pub(crate) fn hash_file(path: &Path) -> Result<Option<Digest>, String> {
    let words = |UnreadableFile { why, .. }| why;
    let Some((file, size)) = read_file::open_regular(path).map_err(words)? else { return Ok(None) };
    let too_long = || format!("it is longer than {FILE_BYTES_MAX} bytes");
    if size > FILE_BYTES_MAX {
        return Err(too_long());
    }
    let mut bounded = file.take(FILE_BYTES_MAX + 1);
    let digest = Digest::from_reader(&mut bounded).map_err(|error| error.to_string())?;
    if bounded.limit() == 0 { Err(too_long()) } else { Ok(Some(digest)) }
}

/// Returns everything in a folder and below that isn't a folder, sorted. Symlinks to folders are followed,
/// as by the code that loads the files.
pub(crate) fn list_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    walk_folder(folder, 0, &mut found)?;
    found.sort();
    Ok(found)
}

fn walk_folder(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    if depth > FOLDER_DEPTH_MAX {
        return Err(format!("folders nest deeper than {FOLDER_DEPTH_MAX}"));
    }
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            walk_folder(&path, depth + 1, found)?;
        } else {
            found.push(path);
        }
        if found.len() > FILES_MAX {
            return Err(format!("there are more than {FILES_MAX} files"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_without_an_end_are_an_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/b/f"), "x").unwrap();
        std::fs::write(dir.path().join("e"), "x").unwrap();
        assert_eq!(list_files(dir.path()).unwrap(), [dir.path().join("a/b/f"), dir.path().join("e")]);
        assert!(list_files(&dir.path().join("absent")).unwrap().is_empty());
        std::os::unix::fs::symlink(dir.path(), dir.path().join("a/again")).unwrap();
        assert!(list_files(dir.path()).unwrap_err().contains("deeper"));
    }

    #[test]
    fn what_is_no_file_is_an_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
        assert!(hash_file(&fifo).unwrap_err().contains("fifo"));
        let sparse = dir.path().join("sparse");
        std::fs::File::create(&sparse).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        assert!(hash_file(&sparse).unwrap_err().contains("longer"));
        assert_eq!(hash_file(&dir.path().join("absent")), Ok(None));
    }
}
