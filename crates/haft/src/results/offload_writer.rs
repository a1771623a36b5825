//! A result that is too long for memory: written to its file piece by piece, while it comes.
//!
//! The file is one of the store's, so it is as private and as short-lived as the others. It is there for good
//! only once the writer says that it is finished; a call that ends before leaves nothing. What has to be
//! known to show a part of the text is counted on the way, so that nobody reads the file again.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;

/// A file of whole results that is being written. Dropped unfinished, it is removed.
#[derive(Debug)]
pub struct OffloadWriter {
    folder: OwnedFd,
    name: String,
    /// Empty once it is finished.
    path: PathBuf,
    file: File,
    bytes_max: u64,
    count: OffloadCounts,
}

/// What was written, and what more there was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct OffloadCounts {
    bytes: u64,
    held_bytes: u64,
    chars: usize,
    newlines: usize,
    open_line: bool,
}

impl OffloadWriter {
    pub(super) fn new(
        folder: OwnedFd,
        name: String,
        path: PathBuf,
        file: File,
        bytes_max: u64,
    ) -> OffloadWriter {
        OffloadWriter { folder, name, path, file, bytes_max, count: OffloadCounts::default() }
    }

    /// Writes a piece. What goes beyond the bound is counted and dropped.
    ///
    /// # Errors
    /// The disk doesn't take it. Nothing of use can be done with the file then; drop it.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = self.bytes_max - self.count.held_bytes;
        let taken = usize::try_from(room).map_or(bytes, |room| &bytes[..bytes.len().min(room)]);
        self.file.write_all(taken)?;
        let count = &mut self.count;
        count.held_bytes += taken.len() as u64;
        count.bytes += bytes.len() as u64;
        // Floods go through here long after the file is full.
        for block in bytes.chunks(COUNTED_BYTES) {
            count.chars += of_kind(block, |byte| byte & 0xC0 != 0x80);
            count.newlines += of_kind(block, |byte| byte == b'\n');
        }
        count.open_line = bytes.last().map_or(count.open_line, |last| *last != b'\n');
        Ok(())
    }

    /// The file, which may go away again.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the file where it is.
    pub fn finish(mut self) -> OffloadedFile {
        OffloadedFile { path: std::mem::take(&mut self.path), count: self.count }
    }
}

/// How many bytes are counted at once: no more than fit a byte, and whole registers of the machine.
const COUNTED_BYTES: usize = 192;

/// How many bytes of a block are of a kind. The sum is a byte as well, so that the machine adds up many at
/// once.
fn of_kind(block: &[u8], kind: impl Fn(u8) -> bool) -> usize {
    debug_assert!(block.len() <= COUNTED_BYTES, "the sum fits a byte");
    usize::from(block.iter().fold(0u8, |sum, byte| sum.wrapping_add(u8::from(kind(*byte)))))
}

impl Drop for OffloadWriter {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let _ = rustix::fs::unlinkat(&self.folder, self.name.as_str(), AtFlags::empty());
        }
    }
}

/// A file of whole results, and what is in it. [`OffloadStore::show`](super::OffloadStore::show) makes it the
/// result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffloadedFile {
    path: PathBuf,
    count: OffloadCounts,
}

impl OffloadedFile {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes there were.
    pub fn bytes(&self) -> u64 {
        self.count.bytes
    }

    /// How many of them the file holds: the first ones, if not all.
    pub fn held_bytes(&self) -> u64 {
        self.count.held_bytes
    }

    /// Removes the file: nobody will be told of it.
    pub fn discard(self) {
        let _ = std::fs::remove_file(self.path);
    }

    pub(super) fn chars(&self) -> usize {
        self.count.chars
    }

    pub(super) fn newlines(&self) -> usize {
        self.count.newlines
    }

    pub(super) fn lines(&self) -> usize {
        self.count.newlines + usize::from(self.count.open_line)
    }
}

#[cfg(test)]
mod tests {
    use super::super::OffloadStore;

    #[test]
    fn what_is_finished_stays_and_what_is_not_goes() {
        let store = OffloadStore::temporary();
        let mut keeping = store.begin("T", "txt", 1_000).unwrap();
        keeping.write("grün\nbl".as_bytes()).unwrap();
        keeping.write(b"au").unwrap();
        let path = keeping.path.clone();
        assert!(path.exists());
        let kept = keeping.finish();
        assert_eq!((kept.path(), kept.bytes(), kept.held_bytes()), (path.as_path(), 10, 10));
        assert_eq!((kept.chars(), kept.newlines(), kept.lines()), (9, 1, 2));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "grün\nblau");

        let mut other = store.begin("T", "txt", 1_000).unwrap();
        other.write(b"half").unwrap();
        let left = other.path.clone();
        drop(other);
        assert!(!left.exists() && path.exists());
        kept.discard();
        assert!(!path.exists());
    }

    #[test]
    fn characters_and_lines_are_counted_whatever_the_length() {
        let store = OffloadStore::temporary();
        for text in ["\n", "x", "ü", "漢\n", "a\nb", "grün\n"] {
            for times in [0, 1, 63, 64, 191, 192, 193, 255, 256, 257, 1_000] {
                let (mut keeping, text) = (store.begin("T", "txt", 10).unwrap(), text.repeat(times));
                keeping.write(text.as_bytes()).unwrap();
                let (chars, newlines) = (keeping.count.chars, keeping.count.newlines);
                assert_eq!((chars, newlines), (text.chars().count(), text.matches('\n').count()), "{text:?}");
            }
        }
    }

    #[test]
    fn a_file_has_a_bound_and_says_what_is_missing() {
        let store = OffloadStore::temporary();
        let mut keeping = store.begin("T", "txt", 6).unwrap();
        keeping.write(b"1234").unwrap();
        keeping.write(b"56\n8").unwrap();
        let kept = keeping.finish();
        assert_eq!((kept.bytes(), kept.held_bytes(), kept.lines()), (8, 6, 2));
        assert_eq!(std::fs::read(kept.path()).unwrap(), b"123456");
    }
}
