//! Bubblewrap, for machines that let it make a user namespace and don't let us.
//!
//! Where a security module allows namespaces only to programs that it knows (AppArmor on Ubuntu), the helper
//! can't make the session's user namespace itself. It is then started by bubblewrap, which makes a user and a
//! mount namespace that show all of the host, and leaves the helper all rights inside. Everything else is the
//! helper's own work as everywhere: the session's network, and the namespaces, mounts, rules and filter of
//! each child. So a sandbox is the same either way, and nothing of it is written in bubblewrap's language,
//! which has no binds from held descriptors.
//!
//! That takes a bubblewrap whose programs may use their rights. A set-user-id one gives none to ordinary
//! users, and the profile that some systems have for it takes them away from whatever it starts; then there
//! is the fallback.
//!
//! It must not be killed with the host. Between making its process and telling it to go on it would leave
//! that waiting for ever, and no option of it helps: what it was asked for by `--die-with-parent` comes
//! later. So it ends because the helper does, which notices that its socket has closed; and the helper, once
//! it is one, dies with it.
//!
//! It is looked for in folders of the system and never by `PATH`, and has to be root's with all folders above
//! it: whoever could replace it would be the one who makes the walls.

use std::ffi::CString;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::{helper, limits};

const PLACES: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// One that can be relied on.
#[derive(Clone, Debug)]
pub(crate) struct TrustedBubblewrap {
    path: PathBuf,
}

impl TrustedBubblewrap {
    /// The first that there is; none if it isn't installed.
    ///
    /// # Errors
    /// Why the one that there is isn't used, in words.
    pub(crate) fn find() -> Result<Option<TrustedBubblewrap>, String> {
        let Some(path) = PLACES.iter().find_map(|place| Path::new(place).canonicalize().ok()) else {
            return Ok(None);
        };
        check_trust(&path).map(|()| Some(TrustedBubblewrap { path }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What starts the helper with these arguments. Its program is [`helper::PASSED`], since bubblewrap has
    /// no other way to name a file that may have been replaced meanwhile.
    pub(crate) fn argv(&self, arguments: impl IntoIterator<Item = CString>) -> Vec<CString> {
        [
            c"bwrap",
            c"--unshare-user",
            // The rights that whoever makes a user namespace has in it.
            c"--cap-add",
            c"ALL",
            // All of the host, devices too. What a child sees of it is the scene's matter.
            c"--dev-bind",
            c"/",
            c"/",
            c"--chdir",
            c"/",
            c"--",
            helper::PASSED,
        ]
        .into_iter()
        .map(ToOwned::to_owned)
        .chain(arguments)
        .collect()
    }

    pub(crate) fn program(&self) -> Result<CString, String> {
        CString::new(self.path.as_os_str().as_bytes()).map_err(|_| "it has a name with a NUL in it".into())
    }
}

/// Whether only root could have put this program there, and it does what we need.
fn check_trust(path: &Path) -> Result<(), String> {
    let not_used = |why: &str| Err(format!("`{}` isn't used: {why}", path.display()));
    for place in path.ancestors() {
        match place.symlink_metadata() {
            Ok(found) => {
                if let Some(why) = distrust_reason(place, found.uid(), found.mode()) {
                    return not_used(&why);
                }
            }
            Err(error) => return not_used(&error.to_string()),
        }
    }
    let is_root = rustix::process::getuid().is_root();
    if path.symlink_metadata().is_ok_and(|found| found.mode() & 0o4000 != 0) && !is_root {
        return not_used("it is set-user-id, and such a one gives programs no rights in their namespace");
    }
    Ok(())
}

/// Who is shown as the owner where the user namespace doesn't know the real one, which may well be root.
const OVERFLOW_UID: u32 = 65_534;

/// Why it isn't certain that only root could change what has this owner and these permissions.
fn distrust_reason(place: &Path, uid: u32, mode: u32) -> Option<String> {
    let place = place.display();
    match (uid, mode & 0o022) {
        (0, 0) => None,
        (OVERFLOW_UID, 0) => Some(format!(
            "who owns `{place}` can't be told here: its owner is shown as {OVERFLOW_UID}, as in a user namespace that \
             doesn't know them"
        )),
        _ => Some(format!("others than root could change `{place}`")),
    }
}

/// Where bubblewrap complains: a file in memory, which takes what it gets and keeps nobody waiting.
pub(crate) fn open_error_file() -> rustix::io::Result<OwnedFd> {
    rustix::fs::memfd_create("haft-bubblewrap", rustix::fs::MemfdFlags::CLOEXEC)
}

/// The first line of what it has said, if it has said anything.
pub(crate) fn read_error_file(file: BorrowedFd<'_>) -> Option<String> {
    let mut buffer = [0; limits::WORDS_BYTES_MAX];
    let count = rustix::io::pread(file, &mut buffer, 0).ok()?;
    let text = String::from_utf8_lossy(&buffer[..count]);
    let line: String = text.lines().next()?.chars().filter(|char| !char.is_control()).collect();
    (!line.trim().is_empty()).then(|| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One in a folder that others may write is nobody's friend, whatever its own permissions.
    #[test]
    fn only_what_is_roots_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let planted = folder.path().canonicalize().unwrap().join("bwrap");
        std::fs::copy("/bin/sh", &planted).unwrap();
        let refused = check_trust(&planted).unwrap_err();
        assert!(refused.contains("isn't used: others than root could change"), "{refused}");
        // The control: a program of the system.
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        assert_eq!(check_trust(&shell), Ok(()));
    }

    /// In a user namespace of others, root's files belong to nobody: that accuses nobody.
    #[test]
    fn an_owner_who_can_not_be_told_is_no_stranger() {
        let place = Path::new("/usr/bin/bwrap");
        assert_eq!(distrust_reason(place, 0, 0o755), None);
        let unknown = distrust_reason(place, OVERFLOW_UID, 0o755).unwrap();
        assert!(unknown.starts_with("who owns `/usr/bin/bwrap` can't be told here"), "{unknown}");
        for (uid, mode) in [(1000, 0o755), (0, 0o775), (0, 0o757), (OVERFLOW_UID, 0o777)] {
            assert_eq!(
                distrust_reason(place, uid, mode).unwrap(),
                "others than root could change `/usr/bin/bwrap`"
            );
        }
    }

    #[test]
    fn complaints_are_one_line() {
        let file = open_error_file().unwrap();
        assert_eq!(read_error_file(std::os::fd::AsFd::as_fd(&file)), None);
        rustix::io::write(&file, b"bwrap: \x1b[1mno\nmore\n").unwrap();
        assert_eq!(read_error_file(std::os::fd::AsFd::as_fd(&file)).as_deref(), Some("bwrap: [1mno"));
    }
}
