//! An in-memory disk with faults that outlives its process.
//!
//! The simulation sets the fault before each journal operation. The disk doesn't count operations,
//! because how the journal's thread batches lines depends on real time.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use haft::sync::lock;
use haft_journal::JournalDisk;

/// The fault of the next operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum DiskFault {
    #[default]
    None,
    /// An append fails after some bytes; truncating works.
    Full,
    /// An append fails after some bytes, and truncating fails too.
    Broken,
    /// Appends work, fsync fails.
    NoSync,
}

/// How a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessDeath {
    /// The process is killed: written data stays.
    Killed,
    /// The power fails: unsynced data may be lost, completely, from its end, or with a hole in the
    /// middle.
    PowerCut,
}

/// The disk. Clones share one state.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultyDisk(Arc<Mutex<DiskState>>);

#[derive(Debug, Default)]
struct DiskState {
    bytes: Vec<u8>,
    /// The length that survives a power failure.
    synced: usize,
    fault: DiskFault,
    /// The writing process is dead: its writes are rejected.
    dead: bool,
    /// fsync reports success without effect (a planted bug).
    drops_syncs: bool,
    /// Whether an fsync has no effect now. Only the fsyncs that the simulation orders count; the
    /// journal's own come at unpredictable times.
    ignores_syncs: bool,
}

impl FaultyDisk {
    fn state(&self) -> MutexGuard<'_, DiskState> {
        lock(&self.0)
    }

    pub(crate) fn set_fault(&self, fault: DiskFault) {
        self.state().fault = fault;
    }

    pub(crate) fn fault(&self) -> DiskFault {
        self.state().fault
    }

    pub(crate) fn drop_all_syncs(&self) {
        self.state().drops_syncs = true;
    }

    pub(crate) fn ignore_syncs(&self, ignores_syncs: bool) {
        self.state().ignores_syncs = ignores_syncs;
    }

    pub(crate) fn len(&self) -> usize {
        self.state().bytes.len()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    /// Returns whether an intent record that contains the mark is written, or synced if `safe` is
    /// set.
    pub(crate) fn has_intent(&self, mark: &str, safe: bool) -> bool {
        let state = self.state();
        let end = if safe { state.synced } else { state.bytes.len() };
        let text = String::from_utf8_lossy(&state.bytes[..end]);
        text.lines().any(|line| line.contains("\"is\":\"intent\"") && line.contains(mark))
    }

    /// Kills the writing process. Of the data that may be lost, `part` thousandths stay, except a
    /// hole between the two given thousandths. Returns the number of bytes that certainly stay.
    pub(crate) fn crash(&self, death: ProcessDeath, part: u64, hole: (u64, u64)) -> usize {
        let mut state = self.state();
        state.dead = true;
        if death == ProcessDeath::PowerCut {
            let share = |bytes: usize, part: u64| {
                usize::try_from(bytes as u64 * part.min(1_000) / 1_000).unwrap_or_default()
            };
            let synced = state.synced;
            let kept_bytes = share(state.bytes.len() - synced, part);
            state.bytes.truncate(synced + kept_bytes);
            let (from, to) = (share(kept_bytes, hole.0.min(hole.1)), share(kept_bytes, hole.0.max(hole.1)));
            if from < to {
                state.bytes[synced + from..synced + to].fill(0);
                return synced + from;
            }
        }
        state.bytes.len()
    }

    /// Opens the disk for a new process, truncated to its complete records.
    pub(crate) fn reopen(&self, whole: usize) {
        let mut state = self.state();
        state.bytes.truncate(whole);
        (state.dead, state.synced, state.fault) = (false, whole, DiskFault::None);
    }

    /// Returns a handle for one process; it stops working when that process dies.
    pub(crate) fn handle(&self) -> DiskHandle {
        DiskHandle { disk: self.clone(), gone: false }
    }
}

/// The disk as opened by one process.
pub(crate) struct DiskHandle {
    disk: FaultyDisk,
    /// The process of this handle died. The next process has its own handle.
    gone: bool,
}

impl DiskHandle {
    fn open(&mut self) -> io::Result<MutexGuard<'_, DiskState>> {
        let state = self.disk.state();
        self.gone |= state.dead;
        if self.gone { Err(io::Error::other("the process is dead")) } else { Ok(state) }
    }
}

impl JournalDisk for DiskHandle {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.open()?;
        match state.fault {
            DiskFault::Full | DiskFault::Broken => {
                // Fewer bytes than any line has, so that the result doesn't depend on how lines
                // were batched.
                state.bytes.extend_from_slice(&bytes[..bytes.len().min(9)]);
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            DiskFault::None | DiskFault::NoSync => {
                state.bytes.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.open()?;
        // An fsync without a waiting caller happens at an unpredictable time, so its failure must
        // not affect the run.
        if state.fault == DiskFault::NoSync && !state.ignores_syncs {
            return Err(io::Error::other("input/output error"));
        }
        if !state.drops_syncs && !state.ignores_syncs {
            state.synced = state.bytes.len();
        }
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let mut state = self.open()?;
        if state.fault == DiskFault::Broken {
            return Err(io::Error::other("input/output error"));
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        state.bytes.truncate(length);
        state.synced = state.synced.min(length);
        Ok(())
    }
}
