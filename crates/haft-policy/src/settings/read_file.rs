//! Reads a file that another user may have created: regular files only, with a size limit, and without
//! blocking.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::jsonc::TextPosition;

/// Why a file can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnreadableFile {
    pub(crate) why: String,
    /// The location in the file, if it is known.
    pub(crate) at: Option<TextPosition>,
}

impl UnreadableFile {
    fn new(why: impl Into<String>) -> UnreadableFile {
        UnreadableFile { why: why.into(), at: None }
    }
}

/// Opens a regular file. Returns `None` if there is none. A dangling symlink is an error, because a file
/// was intended to be there.
///
/// Opening doesn't block on a FIFO and doesn't acquire a controlling terminal.
pub(crate) fn open_regular(path: &Path) -> Result<Option<(File, u64)>, UnreadableFile> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened: OwnedFd = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::NOENT) if path.symlink_metadata().is_ok_and(|found| found.is_symlink()) => {
            return Err(UnreadableFile::new("it is a link that leads nowhere"));
        }
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(Errno::ACCESS | Errno::PERM) => {
            return Err(UnreadableFile::new("its permissions don't allow it"));
        }
        Err(Errno::LOOP) => return Err(UnreadableFile::new("its links go round in a circle")),
        // The error for a socket.
        Err(Errno::NXIO) => return Err(UnreadableFile::new(not_a_file("a socket"))),
        Err(error) => return Err(UnreadableFile::new(error.to_string())),
    };
    let stat = rustix::fs::fstat(&opened).map_err(|error| UnreadableFile::new(error.to_string()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(UnreadableFile::new(not_a_file("a directory"))),
        FileType::Fifo => return Err(UnreadableFile::new(not_a_file("a fifo"))),
        FileType::Socket => return Err(UnreadableFile::new(not_a_file("a socket"))),
        _ => return Err(UnreadableFile::new(not_a_file("a device"))),
    }
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    Ok(Some((File::from(opened), size)))
}

fn not_a_file(what: &str) -> String {
    format!("it is {what}; a regular file is accepted")
}

/// Reads a whole file of at most `max` bytes.
pub(crate) fn read_bytes(path: &Path, max: u64) -> Result<Option<Vec<u8>>, UnreadableFile> {
    let Some((file, size)) = open_regular(path)? else { return Ok(None) };
    let too_long = || UnreadableFile::new(format!("it is longer than {max} bytes"));
    if size > max {
        return Err(too_long());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    // The size may be wrong (`/proc`) or grow during the read.
    file.take(max + 1).read_to_end(&mut bytes).map_err(|error| UnreadableFile::new(error.to_string()))?;
    if bytes.len() as u64 > max {
        return Err(too_long());
    }
    Ok(Some(bytes))
}

/// Reads a whole text of at most `max` bytes.
pub(crate) fn read_text(path: &Path, max: u64) -> Result<Option<String>, UnreadableFile> {
    let Some(bytes) = read_bytes(path, max)? else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let good = std::str::from_utf8(good).unwrap_or_default();
        let good = good.strip_prefix('\u{feff}').unwrap_or(good);
        let last = good.rsplit('\n').next().unwrap_or_default();
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let line = good.matches('\n').count();
        let at = TextPosition { line: number(line + 1), column: number(last.chars().count() + 1) };
        let byte = error.as_bytes().get(error.utf8_error().valid_up_to()).copied().unwrap_or_default();
        UnreadableFile { why: format!("the byte 0x{byte:02x} is not UTF-8 here"), at: Some(at) }
    });
    text.map(Some)
}

/// Returns why a file is missing although it was intended to exist: its folder is not a folder.
pub(crate) fn folder_fault(path: &Path) -> Option<UnreadableFile> {
    let folder = path.parent()?;
    let name = folder.file_name()?.to_string_lossy().into_owned();
    let found = folder.symlink_metadata().ok()?;
    let words = match folder.metadata() {
        Ok(real) if real.is_dir() => return None,
        Ok(_) => "is not a folder",
        Err(_) if found.is_symlink() => "is a link that leads nowhere",
        // The folder was removed in the meantime.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(_) => "can't be looked into",
    };
    Some(UnreadableFile::new(format!("`{name}`, where it would be, {words}")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_are_read_and_none_waits() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let refused = |name: &str, part: &str| {
            let Err(UnreadableFile { why, .. }) = read_text(&at(name), 100) else {
                panic!("{name} was read")
            };
            assert!(why.contains(part), "{name}: {why}");
        };
        std::fs::write(at("good"), "yes").unwrap();
        assert_eq!(read_text(&at("good"), 3), Ok(Some("yes".to_owned())));
        assert_eq!(read_text(&at("absent"), 100), Ok(None));
        assert_eq!(read_text(&at("good/absent"), 100), Ok(None));

        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), Mode::RUSR).unwrap();
        refused("fifo", "a fifo");
        let _listener = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        refused("socket", "a socket");
        std::fs::create_dir(at("folder")).unwrap();
        refused("folder", "a directory");
        symlink("/dev/zero", at("device")).unwrap();
        refused("device", "a device");
        symlink("nowhere", at("dangling")).unwrap();
        refused("dangling", "leads nowhere");
        symlink("circle", at("circle")).unwrap();
        refused("circle", "circle");
        std::fs::write(at("long"), "x".repeat(101)).unwrap();
        refused("long", "longer than 100 bytes");
        std::fs::write(at("bytes"), b"a\n\xc3\xa4b\xff").unwrap();
        refused("bytes", "the byte 0xff is not UTF-8");
        assert_eq!(read_text(&at("bytes"), 100).unwrap_err().at, Some(TextPosition { line: 2, column: 3 }));
        let fault = |name: &str| folder_fault(&at(name)).map(|fault| fault.why);
        assert_eq!((fault("folder/x"), fault("x/y"), fault("x")), (None, None, None));
        assert_eq!(fault("good/x").unwrap(), "`good`, where it would be, is not a folder");
        assert_eq!(
            fault("dangling/x").unwrap(),
            "`dangling`, where it would be, is a link that leads nowhere"
        );
        symlink("good", at("link")).unwrap();
        assert_eq!(read_text(&at("link"), 100), Ok(Some("yes".to_owned())));
    }
}
