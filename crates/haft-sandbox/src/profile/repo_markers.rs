//! What makes a folder a repository to git: `HEAD`, `objects` and `refs`.
//!
//! All three are a command's to change, since git changes them. Where one is missing git passes the folder
//! by, and takes the folder around it for a bare repository, or goes on above: then files of the working
//! directory say what runs. So a repository of the user's stays one.

use std::fs;
use std::path::Path;

use haft_git::layout::is_head;

use super::{display_path, read_small, undo};

/// What `HEAD` says, if a folder is a repository.
pub(super) fn read_head(root: &Path) -> Option<Vec<u8>> {
    let head = root.join("HEAD");
    let bytes = match fs::read_link(&head) {
        // Old versions of git make it a link, which leads nowhere before the first commit.
        Ok(to) => [b"ref: ", to.as_os_str().as_encoded_bytes(), b"\n"].concat(),
        Err(_) => read_small(&head)?,
    };
    (is_head(&bytes) && ["objects", "refs"].iter().all(|name| can_be_entered(&root.join(name))))
        .then_some(bytes)
}

fn can_be_entered(folder: &Path) -> bool {
    // Only a folder has such a name, and only who may enter it finds it.
    folder.join(".").symlink_metadata().is_ok()
}

/// Makes a folder a repository again. What was done, if something was.
pub(super) fn put_back(root: &Path, before: &[u8]) -> Option<String> {
    if read_head(root).is_some() {
        return None;
    }
    let mut done = Vec::new();
    for name in ["objects", "refs"] {
        let folder = root.join(name);
        undo::open_up(&folder);
        if can_be_entered(&folder) {
            continue;
        }
        done.push(match undo::make_folder(&folder) {
            Ok(()) => format!("an empty `{name}` was put there (look for what was in it before)"),
            Err(error) => format!("no `{name}` can be put there: {error}"),
        });
    }
    let says = root.join("HEAD");
    if read_head(root).is_none() {
        done.push(match undo::replace_file(&says, before) {
            Ok(()) => {
                format!("`HEAD` was put back as `{}`", display_path(String::from_utf8_lossy(before).trim()))
            }
            Err(error) => format!("`HEAD` can't be put back: {error}; look at it before you use git there"),
        });
    }
    let now = if read_head(root).is_some() { "" } else { "; it still is none" };
    Some(format!("while a command ran it stopped being a repository, so {}{now}", done.join(", and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_stays_one() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join(".git");
        for folder in ["objects/ab", "refs"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let before = b"ref: refs/heads/main\n";
        fs::write(root.join("HEAD"), before).unwrap();
        assert_eq!(read_head(&root).as_deref(), Some(&before[..]));
        assert_eq!(put_back(&root, before), None);
        let harm: [&dyn Fn(); 6] = [
            &|| fs::remove_file(root.join("HEAD")).unwrap(),
            &|| fs::write(root.join("HEAD"), "junk").unwrap(),
            &|| fs::rename(root.join("objects"), root.join("info")).unwrap(),
            &|| fs::remove_dir(root.join("refs")).unwrap(),
            &|| {
                fs::remove_dir(root.join("refs")).unwrap();
                fs::write(root.join("refs"), "").unwrap();
            },
            &|| {
                fs::remove_file(root.join("HEAD")).unwrap();
                std::os::unix::fs::symlink("../a", root.join("HEAD")).unwrap();
            },
        ];
        for harm in harm {
            harm();
            assert_eq!(read_head(&root), None);
            let said = put_back(&root, before).unwrap();
            assert_eq!(read_head(&root).as_deref(), Some(&before[..]), "{said}");
        }
    }
}
