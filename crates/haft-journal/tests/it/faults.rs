//! Disk errors, crashes in the middle of a line, and corrupted bytes.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use haft_journal::{
    Durability, Journal, JournalDisk, JournalOptions, JournalStore, LineFault, Record, SessionStart, read,
};

fn note(text: &str) -> Record {
    Record::note(text)
}

#[test]
fn a_file_cut_at_every_byte_goes_on() {
    let folder = crate::folder_in_memory();
    let store = JournalStore::at(folder.path());
    let journal = store.create("a", SessionStart::in_folder("/w"), JournalOptions::default()).unwrap();
    for text in ["one", "two", "three"] {
        journal.note(note(text)).unwrap();
    }
    drop(journal);
    let path = store.find("a").unwrap().folder.join("journal.log");
    let whole = std::fs::read(&path).unwrap();
    // As after a kill: with and without preallocated zeros.
    for (end, room) in (0..=whole.len()).flat_map(|end| [(end, 0), (end, 5_000), (end, 70_000)]) {
        let mut bytes = whole[..end].to_vec();
        bytes.resize(end + room, 0);
        std::fs::write(&path, bytes).unwrap();
        let before = read(&path).unwrap();
        assert!(before.damage.is_empty(), "cut at {end}: {:?}", before.damage);
        assert_eq!(before.torn, end > 0 && whole[end - 1] != b'\n', "cut at {end}");
        let began = SessionStart::in_folder("/w");
        let journal = match end % 2 {
            0 => store.open("a", began, JournalOptions::default()).map(|(journal, contents)| {
                assert_eq!(contents.records, before.records);
                journal
            }),
            _ => store.resume("a", store.recover("a").unwrap().1, began, JournalOptions::default()),
        };
        let journal = journal.unwrap();
        journal.note(note("after")).unwrap();
        drop(journal);
        let after = read(&path).unwrap();
        assert_eq!((after.damage.len(), after.torn), (0, false), "cut at {end}");
        assert_eq!(after.records.len(), before.records.len() + 2, "cut at {end}");
        assert_eq!(after.records[..before.records.len()], before.records[..]);
    }
}

#[test]
fn a_line_that_rotted_is_said_and_the_others_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = JournalStore::at(folder.path());
    let journal = store.create("a", SessionStart::in_folder("/w"), JournalOptions::default()).unwrap();
    for text in ["one", "two", "three"] {
        journal.note(note(text)).unwrap();
    }
    drop(journal);
    let path = store.find("a").unwrap().folder.join("journal.log");
    let text = std::fs::read_to_string(&path).unwrap().replace("two", "tow");
    std::fs::write(&path, text).unwrap();
    let contents = read(&path).unwrap();
    assert_eq!(contents.records.len(), 3);
    assert_eq!(contents.damage.iter().map(|damage| damage.fault).collect::<Vec<_>>(), [LineFault::Sum]);
}

/// An in-memory disk that fails on request.
#[derive(Clone, Default)]
struct Faulty(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    bytes: Vec<u8>,
    appends: usize,
    /// Fails at this append, after writing half of it.
    fail_append: Option<usize>,
    /// Fails at every append, after writing half of it.
    full: bool,
    fail_sync: bool,
    fail_cut: bool,
}

impl JournalDisk for Faulty {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut book = self.0.lock().unwrap();
        book.appends += 1;
        if book.full || book.fail_append == Some(book.appends) {
            book.bytes.extend_from_slice(&bytes[..bytes.len() / 2]);
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        book.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.0.lock().unwrap().fail_sync { Err(io::Error::other("input/output error")) } else { Ok(()) }
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let mut book = self.0.lock().unwrap();
        if book.fail_cut {
            return Err(io::Error::other("input/output error"));
        }
        book.bytes.truncate(usize::try_from(length).unwrap());
        Ok(())
    }
}

fn on(disk: &Faulty) -> Journal {
    with(disk, Durability::Batch)
}

fn with(disk: &Faulty, durability: Durability) -> Journal {
    let options = JournalOptions { durability, ..JournalOptions::default() };
    Journal::with_disk(Box::new(disk.clone()), ("a", Path::new("a")), (0, 0), options).unwrap()
}

fn contents(disk: &Faulty) -> haft_journal::JournalContents {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    std::fs::write(&path, &disk.0.lock().unwrap().bytes).unwrap();
    read(&path).unwrap()
}

#[tokio::test]
async fn a_full_disk_fails_that_note_and_the_next_may_go() {
    for failing in 1..=4 {
        let disk = Faulty::default();
        disk.0.lock().unwrap().fail_append = Some(failing);
        let journal = on(&disk);
        let mut failed = 0;
        for _ in 0..4 {
            failed += usize::from(journal.settle().await.is_err());
        }
        drop(journal);
        assert_eq!(failed, 1, "append {failing}");
        let contents = contents(&disk);
        assert_eq!(
            (contents.records.len(), contents.damage.len(), contents.torn),
            (3, 0, false),
            "append {failing}"
        );
        assert_eq!(contents.records.iter().map(|record| record.n).collect::<Vec<_>>(), [0, 1, 2]);
    }
}

/// Records that were queued while the disk was full are written later, so the conversation has no
/// gap.
#[tokio::test]
async fn nothing_is_missing_after_a_full_disk_has_room_again() {
    let disk = Faulty::default();
    let journal = on(&disk);
    journal.settle().await.unwrap();
    disk.0.lock().unwrap().full = true;
    journal.note(note("first")).unwrap();
    assert!(journal.settle().await.is_err(), "a waiting caller gets the error");
    assert!(journal.note(note("second")).is_err(), "other callers get it with the next record");
    assert!(journal.note(note("third")).is_err());
    disk.0.lock().unwrap().full = false;
    journal.settle().await.unwrap();
    drop(journal);
    let contents = contents(&disk);
    let notes: Vec<&str> = contents
        .records
        .iter()
        .filter_map(|one| match &one.record {
            Record::Note { text } if text != "turn" => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(notes, ["first", "second", "third"]);
    assert_eq!((contents.damage.len(), contents.torn), (0, false));
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_trusted() {
    let disk = Faulty::default();
    let journal = with(&disk, Durability::Call);
    journal.settle().await.unwrap();
    disk.0.lock().unwrap().fail_sync = true;
    let first = journal.settle().await.unwrap_err();
    assert!(first.message.contains("accepts no more records"), "{first}");
    disk.0.lock().unwrap().fail_sync = false;
    assert_eq!(journal.settle().await.unwrap_err(), first);
    assert_eq!(journal.note(note("x")).unwrap_err(), first);
}

#[tokio::test]
async fn a_half_line_that_can_not_be_cut_off_ends_the_journal() {
    let disk = Faulty::default();
    {
        let mut book = disk.0.lock().unwrap();
        (book.fail_append, book.fail_cut) = (Some(2), true);
    }
    let journal = on(&disk);
    journal.settle().await.unwrap();
    assert!(journal.settle().await.is_err());
    assert!(journal.settle().await.unwrap_err().message.contains("nor truncated"));
    drop(journal);
    assert_eq!((contents(&disk).records.len(), contents(&disk).torn), (1, true));
}

/// A disk that records which thread syncs it.
#[derive(Clone, Default)]
struct Watched(Arc<Mutex<Vec<bool>>>);

impl JournalDisk for Watched {
    fn append(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.lock().unwrap().push(std::thread::current().name() == Some("haft-journal"));
        Ok(())
    }

    fn truncate(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// A slow disk must not block the task of a caller.
#[tokio::test]
async fn the_disk_is_used_by_the_journals_own_thread() {
    let disk = Watched::default();
    let options = JournalOptions { durability: Durability::Call, ..JournalOptions::default() };
    let journal = Journal::with_disk(Box::new(disk.clone()), ("a", Path::new("a")), (0, 0), options).unwrap();
    for _ in 0..3 {
        journal.settle().await.unwrap();
    }
    let by_own_thread = disk.0.lock().unwrap().clone();
    assert!(by_own_thread.len() >= 3 && by_own_thread.iter().all(|own| *own), "{by_own_thread:?}");
}

/// A turn's records are synced even if new records keep coming.
#[tokio::test]
async fn what_a_turn_left_is_synced_although_more_is_noted() {
    let disk = Watched::default();
    let journal =
        Journal::with_disk(Box::new(disk.clone()), ("a", Path::new("a")), (0, 0), JournalOptions::default())
            .unwrap();
    // Synced by the journal's thread, for which no caller waits.
    let synced = || disk.0.lock().unwrap().len();
    let began = Instant::now();
    for syncs in 1..=3 {
        let assert_in_time =
            |what| assert!(began.elapsed() < Duration::from_secs(60), "{what}: it is never synced");
        journal.finish_turn().await.unwrap();
        // Batched records, and records that callers wait for.
        while synced() < 2 * syncs - 1 {
            journal.note(note("more")).unwrap();
            assert_in_time("notes");
            std::thread::yield_now();
        }
        while synced() < 2 * syncs {
            journal.settle().await.unwrap();
            assert_in_time("settled");
        }
    }
}
