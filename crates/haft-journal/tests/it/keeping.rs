//! The session directory: sessions are created, found, resumed and cleaned up.

use std::time::Duration;

use haft_journal::{
    Durability, JournalOptions, JournalStore, Record, SecretRedactor, SessionStart, StoreError,
};
use serde_json::json;

fn note(text: &str) -> Record {
    Record::note(text)
}

fn notes(store: &JournalStore, id: &str) -> Vec<String> {
    let contents = store.read(id).unwrap();
    assert!(contents.damage.is_empty(), "{} lines", contents.damage.len());
    let numbers: Vec<u64> = contents.records.iter().map(|record| record.n).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    let text = |record: &haft_journal::StampedRecord| match &record.record {
        Record::Note { text } => text.clone(),
        Record::Began(_) => "began".to_owned(),
        other => format!("{other:?}"),
    };
    contents.records.iter().map(text).collect()
}

#[test]
fn a_session_is_continued_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let store = JournalStore::at(folder.path());
    let first = store.create("a", SessionStart::in_folder("/w"), JournalOptions::default()).unwrap();
    first.note(note("one")).unwrap();
    drop(first);
    let (second, contents) =
        store.open("a", SessionStart::in_folder("/w"), JournalOptions::default()).unwrap();
    assert_eq!(contents.records.len(), 2);
    second.note(note("two")).unwrap();
    second.close().unwrap();
    assert_eq!(notes(&store, "a"), ["began", "one", "began", "two"]);
    assert_eq!(second.note(note("late")).unwrap_err().message, "the journal is closed");
}

#[test]
fn what_runs_is_not_opened_twice_and_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = JournalStore::at(folder.path());
    let journal = store.create("a", SessionStart::in_folder("/w"), JournalOptions::default()).unwrap();
    let refused = store.create("a", SessionStart::in_folder("/w"), JournalOptions::default());
    assert!(matches!(refused, Err(StoreError::Running(_))), "{refused:?}");
    assert!(matches!(store.remove("a"), Err(StoreError::Running(_))));
    assert!(store.list()[0].is_running);
    assert_eq!(store.clean(Duration::ZERO, 0), 0);
    drop(journal);
    assert!(!store.list()[0].is_running);
    assert_eq!(store.clean(Duration::ZERO, 0), 1);
    assert!(store.list().is_empty());
}

/// Resuming a session while it is removed resumes it, starts it anew, or fails; no process writes
/// to a deleted file.
#[test]
fn what_is_removed_while_it_is_opened_is_not_written_to() {
    let folder = crate::folder_in_memory();
    let store = JournalStore::at(folder.path());
    let begin = || store.open("a", SessionStart::in_folder("/w"), JournalOptions::default());
    let mut opened = 0;
    // On a busy machine, the removing thread may win many times in a row.
    for round in 0..20_000 {
        if round >= 200 && opened > 0 {
            break;
        }
        drop(begin().unwrap());
        std::thread::scope(|scope| {
            let remover = scope.spawn(|| (store.clean(Duration::ZERO, 0), store.remove("a").is_ok()));
            match begin() {
                Ok((journal, _)) => {
                    // A locked session can't be removed.
                    assert!(journal.path().exists(), "round {round}");
                    opened += 1;
                }
                Err(StoreError::Running(_) | StoreError::Io(..)) => {}
                Err(other) => panic!("{other}"),
            }
            remover.join().unwrap();
        });
    }
    assert!(opened > 0, "it was never opened");
}

#[test]
fn a_session_is_found_by_the_beginning_of_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let store = JournalStore::at(folder.path());
    for id in ["abc-1", "abd-1"] {
        store.create(id, SessionStart::in_folder("/w"), JournalOptions::default()).unwrap();
    }
    assert_eq!(store.find("abc").unwrap().id, "abc-1");
    assert!(matches!(store.find("ab"), Err(StoreError::AmbiguousId(_, ids)) if ids.len() == 2));
    assert!(matches!(store.find("x"), Err(StoreError::Unknown(_))));
    for bad in ["", "../a", "a/b", ".x", "a b", &"x".repeat(200)] {
        assert!(matches!(store.find(bad), Err(StoreError::InvalidId(_))), "{bad:?}");
    }
}

#[test]
fn the_oldest_go_when_all_are_too_large() {
    let folder = tempfile::tempdir().unwrap();
    let store = JournalStore::at(folder.path());
    for id in ["a", "b", "c"] {
        let journal = store.create(id, SessionStart::in_folder("/w"), JournalOptions::default()).unwrap();
        journal.note(note(&"x".repeat(10_000))).unwrap();
        drop(journal);
    }
    let old = std::fs::File::open(store.find("b").unwrap().folder.join("journal.log")).unwrap();
    old.set_modified(std::time::SystemTime::now() - Duration::from_secs(1000)).unwrap();
    assert_eq!(store.clean(Duration::from_secs(3600), 25_000), 1);
    let mut left: Vec<String> = store.list().into_iter().map(|session| session.id).collect();
    left.sort();
    assert_eq!(left, ["a", "c"]);
}

#[test]
fn secrets_are_not_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = JournalStore::at(folder.path());
    let redactor = SecretRedactor::new([("KEY".to_owned(), "sk-\"secret\"".to_owned())]);
    let options = JournalOptions { redactor, ..JournalOptions::default() };
    let journal = store.create("a", SessionStart::in_folder("/w"), options).unwrap();
    journal.note(Record::Items { from: 0, items: vec![json!({"say": "it is sk-\"secret\""})] }).unwrap();
    drop(journal);
    let bytes = std::fs::read_to_string(store.find("a").unwrap().folder.join("journal.log")).unwrap();
    assert!(!bytes.contains("secret"), "{bytes}");
    assert_eq!(
        store.read("a").unwrap().records[1].record,
        Record::Items { from: 0, items: vec![json!({"say": "it is [redacted: KEY]"})] }
    );
}

#[tokio::test]
async fn many_notes_at_once_are_all_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = JournalStore::at(folder.path());
    for durability in [Durability::Off, Durability::Batch, Durability::Call] {
        let id = format!("{durability:?}");
        let options = JournalOptions { durability, ..JournalOptions::default() };
        let journal = store.create(&id, SessionStart::in_folder("/w"), options).unwrap();
        let writers = (0..8).map(|writer| {
            let journal = journal.clone();
            tokio::spawn(async move {
                for count in 0..100 {
                    journal.note(note(&format!("{writer} {count}"))).unwrap();
                }
                journal.settle().await.unwrap();
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        drop(journal);
        let mut expected = vec!["began".to_owned()];
        expected.extend((0..8).flat_map(|writer| (0..100).map(move |count| format!("{writer} {count}"))));
        expected.extend(std::iter::repeat_n("turn".to_owned(), 8));
        let mut found = notes(&store, &id);
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_long_conversation_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = JournalStore::at(folder.path());
    let redactor = SecretRedactor::new([("KEY".to_owned(), "hidden-value".to_owned())]);
    let journal = store
        .create("a", SessionStart::in_folder("/w"), JournalOptions { redactor, ..JournalOptions::default() })
        .unwrap();
    let long = json!({"text": format!("{}hidden-value", "long \"text\"\n".repeat(200_000))});
    journal.note(note("before")).unwrap();
    journal.items(3, std::slice::from_ref(&long)).unwrap();
    journal.note(note("after")).unwrap();
    drop(journal);
    let contents = store.read("a").unwrap();
    assert!(contents.damage.is_empty() && !contents.torn);
    let clean = json!({"text": long["text"].as_str().unwrap().replace("hidden-value", "[redacted: KEY]")});
    assert_eq!(contents.records[2].record, Record::Items { from: 3, items: vec![clean] });
    assert_eq!(contents.records.iter().map(|record| record.n).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

/// The same length with other content: another process wrote between reading and locking.
#[test]
fn a_mark_knows_the_bytes_that_it_was_made_from() {
    let folder = tempfile::tempdir().unwrap();
    let store = JournalStore::at(folder.path());
    let journal = store.create("a", SessionStart::in_folder("/w"), JournalOptions::default()).unwrap();
    journal.note(note("one")).unwrap();
    drop(journal);
    let path = store.find("a").unwrap().folder.join("journal.log");
    let mark = store.recover("a").unwrap().1;
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("one", "two")).unwrap();
    let gone = store.resume("a", mark, SessionStart::in_folder("/w"), JournalOptions::default());
    assert!(matches!(gone, Err(StoreError::ChangedMeanwhile(_))), "{gone:?}");
    std::fs::write(&path, text).unwrap();
    assert!(store.resume("a", mark, SessionStart::in_folder("/w"), JournalOptions::default()).is_ok());
}
