//! A disk in memory that fails, and that survives its process.
//!
//! Whether it fails is set from outside before each operation of the journal, never counted here: how the journal's thread
//! puts lines together is a matter of real time, and nothing in a simulation may depend on that.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use haft::sync::lock;
use haft_journal::JournalDisk;

/// What goes wrong with the next operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Trouble {
    #[default]
    None,
    /// Appending fails after some bytes; they can be cut off again.
    Full,
    /// Appending fails after some bytes, and cutting fails too.
    Broken,
    /// Appending works, syncing doesn't.
    NoSync,
}

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// The process is killed: what the system has, stays.
    Killed,
    /// The power fails: what was not synced may be gone, or a part of it: its end, or what is before that.
    PowerCut,
}

/// The disk. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultyDisk(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
struct Book {
    bytes: Vec<u8>,
    /// Up to here it survives a power failure.
    synced: usize,
    trouble: Trouble,
    /// The process that writes is dead: nothing of it gets here any more.
    dead: bool,
    /// It says that it synced, and didn't. (A planted bug.)
    lies: bool,
    /// Whether what is synced now counts: the rest is for the simulation's own order, or comes when the machine likes.
    pretends: bool,
}

impl FaultyDisk {
    fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.0)
    }

    pub(crate) fn set(&self, trouble: Trouble) {
        self.book().trouble = trouble;
    }

    pub(crate) fn trouble(&self) -> Trouble {
        self.book().trouble
    }

    pub(crate) fn lie(&self) {
        self.book().lies = true;
    }

    pub(crate) fn pretend(&self, pretends: bool) {
        self.book().pretends = pretends;
    }

    pub(crate) fn len(&self) -> usize {
        self.book().bytes.len()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.book().bytes.clone()
    }

    /// Whether an intent with this in it is there, safe or at least written.
    pub(crate) fn has_intent(&self, mark: &str, safe: bool) -> bool {
        let book = self.book();
        let end = if safe { book.synced } else { book.bytes.len() };
        let text = String::from_utf8_lossy(&book.bytes[..end]);
        text.lines().any(|line| line.contains("\"is\":\"intent\"") && line.contains(mark))
    }

    /// Ends the process that writes; `part` of a thousand of what may be lost stays, and of that not what is between these
    /// two parts of a thousand. Returns how many bytes are left for sure.
    pub(crate) fn die(&self, death: Death, part: u64, hole: (u64, u64)) -> usize {
        let mut book = self.book();
        book.dead = true;
        if death == Death::PowerCut {
            let of = |bytes: usize, part: u64| {
                usize::try_from(bytes as u64 * part.min(1_000) / 1_000).unwrap_or_default()
            };
            let synced = book.synced;
            let kept = of(book.bytes.len() - synced, part);
            book.bytes.truncate(synced + kept);
            let (from, to) = (of(kept, hole.0.min(hole.1)), of(kept, hole.0.max(hole.1)));
            if from < to {
                book.bytes[synced + from..synced + to].fill(0);
                return synced + from;
            }
        }
        book.bytes.len()
    }

    /// Another process opens it, and cuts it to its whole lines.
    pub(crate) fn reopen(&self, whole: usize) {
        let mut book = self.book();
        book.bytes.truncate(whole);
        (book.dead, book.synced, book.trouble) = (false, whole, Trouble::None);
    }

    /// The way to it for one process, which loses it when that one dies.
    pub(crate) fn handle(&self) -> Handle {
        Handle { disk: self.clone(), gone: false }
    }
}

/// The disk as one process has it open.
pub(crate) struct Handle {
    disk: FaultyDisk,
    /// It died once, and is dead for good: the next process has a handle of its own.
    gone: bool,
}

impl Handle {
    fn open(&mut self) -> io::Result<MutexGuard<'_, Book>> {
        let book = self.disk.book();
        self.gone |= book.dead;
        if self.gone { Err(io::Error::other("the process is dead")) } else { Ok(book) }
    }
}

impl JournalDisk for Handle {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut book = self.open()?;
        match book.trouble {
            Trouble::Full | Trouble::Broken => {
                // Less than any line has, so that it is the same however lines were put together.
                book.bytes.extend_from_slice(&bytes[..bytes.len().min(9)]);
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            Trouble::None | Trouble::NoSync => {
                book.bytes.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut book = self.open()?;
        // What nobody waits for is synced when the machine likes, and no story may depend on that.
        if book.trouble == Trouble::NoSync && !book.pretends {
            return Err(io::Error::other("input/output error"));
        }
        if !book.lies && !book.pretends {
            book.synced = book.bytes.len();
        }
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        let mut book = self.open()?;
        if book.trouble == Trouble::Broken {
            return Err(io::Error::other("input/output error"));
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        book.bytes.truncate(length);
        book.synced = book.synced.min(length);
        Ok(())
    }
}
