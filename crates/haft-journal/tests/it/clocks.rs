//! Clock jumps: records are ordered by number, and no duration is negative.

use std::fs::FileTimes;
use std::time::{Duration, SystemTime};

use haft_journal::{JournalOptions, JournalStore, Record, RecoveredSession, SessionStart};
use serde_json::{Value, json};

/// The same journal with these timestamps.
fn with_times(times: &[u64]) -> (tempfile::TempDir, JournalStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = JournalStore::at(folder.path());
    let journal = store.create("a", SessionStart::in_folder("/w"), JournalOptions::default()).unwrap();
    for at in 0..times.len() - 1 {
        journal
            .note(Record::Items { from: at, items: vec![json!({"role": "user", "content": at})] })
            .unwrap();
    }
    drop(journal);
    let path = store.find("a").unwrap().folder.join("journal.log");
    let lines = std::fs::read_to_string(&path).unwrap();
    let moved: String = lines
        .lines()
        .zip(times)
        .map(|(line, time)| {
            let json = &line[line.find('{').unwrap()..];
            let record: Value = serde_json::from_str(json).unwrap();
            let json = json.replacen(&format!("\"at\":{}", record["at"]), &format!("\"at\":{time}"), 1);
            format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
        })
        .collect();
    std::fs::write(&path, moved).unwrap();
    (folder, store)
}

#[test]
fn the_order_of_records_is_their_number_whatever_the_clock_did() {
    const HOUR: u64 = 60 * 60 * 1_000;
    let now = 1_794_789_059_000;
    for times in [
        [now, now - HOUR, now + HOUR, now],
        // Times before 1970 can't be represented; times after 2038 and the largest numbers can.
        [0, 2_147_483_648_000, u64::MAX, 1],
    ] {
        let (_folder, store) = with_times(&times);
        let contents = store.read("a").unwrap();
        assert_eq!(contents.damage, [], "{times:?}");
        assert_eq!(contents.records.iter().map(|record| record.at).collect::<Vec<_>>(), times);
        let recovered = RecoveredSession::from_contents(&contents);
        assert!(!recovered.is_damaged);
        let texts: Vec<&Value> = recovered.items.iter().map(|item| &item["content"]).collect();
        assert_eq!(texts, [&json!(0), &json!(1), &json!(2)]);
        let (journal, _) = store.open("a", SessionStart::in_folder("/w"), JournalOptions::default()).unwrap();
        journal.note(Record::note("goes on")).unwrap();
        drop(journal);
        let numbers: Vec<u64> = store.read("a").unwrap().records.iter().map(|record| record.n).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
    }
}

#[test]
fn what_comes_from_the_future_is_not_old() {
    let (_folder, store) = with_times(&[0, 1]);
    let path = store.find("a").unwrap().folder.join("journal.log");
    let file = std::fs::File::options().append(true).open(path).unwrap();
    let later = SystemTime::now() + Duration::from_secs(60 * 60);
    file.set_times(FileTimes::new().set_modified(later)).unwrap();
    assert_eq!(store.clean(Duration::ZERO, u64::MAX), 0);
    assert_eq!(store.list().len(), 1);
    let before = SystemTime::now() - Duration::from_secs(60 * 60);
    file.set_times(FileTimes::new().set_modified(before)).unwrap();
    assert_eq!(store.clean(Duration::from_secs(60), u64::MAX), 1);
}
