//! Logs of commands: bounded in memory, read in pages.

use std::fs;

use haft::ports::TaskLog as _;

use super::*;

/// Whatever comes, what a log holds is bounded.
#[test]
fn a_log_holds_little() {
    let store = Arc::new(OffloadStore::temporary());
    let log = OutputLog::new(Some(store.clone()));
    let piece = vec![b'y'; 64 * 1024];
    for _ in 0..1_100 {
        log.add(&piece);
    }
    assert!(log.held_in_memory() <= MEMORY_BYTES_MAX + 12 * TAIL_BYTES_MAX, "{}", log.held_in_memory());
    let printed = log.finish();
    assert_eq!(printed.kept.unwrap().held_bytes(), 64 * 1024 * 1024);
}

#[test]
fn where_no_file_can_be_written_beginning_and_end_stay() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("taken"), "").unwrap();
    let log = OutputLog::new(Some(Arc::new(OffloadStore::at(dir.path().join("taken")))));
    for line in 0..100_000 {
        log.add(format!("{line}\n").as_bytes());
    }
    let printed = log.finish();
    assert!(printed.head.starts_with("0\n1\n") && printed.tail.ends_with("\n99999\n"));
    assert!(printed.lost.unwrap().contains("is a link or no folder"));
}

#[test]
fn a_log_is_read_in_pages() {
    for background in [false, true] {
        let log = OutputLog::new(Some(Arc::new(OffloadStore::temporary())));
        if background {
            log.to_background();
        }
        let text: String = (0..20_000).map(|line| format!("grün {line}\n")).collect();
        text.as_bytes().chunks(1_000).for_each(|piece| log.add(piece));
        let mut read = String::new();
        loop {
            let page = log.read(read.len() as u64, 1_001).unwrap();
            if page.is_empty() {
                break;
            }
            read.push_str(&page);
        }
        assert_eq!(read, text);
        assert_eq!(log.size().held_bytes, text.len() as u64);
        assert!(log.size().file.is_some());
    }
}

/// A port may hand over more at once than is held in memory: the beginning is there all the same.
#[test]
fn the_beginning_is_kept_however_large_the_pieces_are() {
    for store in [Some(Arc::new(OffloadStore::temporary())), None] {
        let log = OutputLog::new(store.clone());
        log.add("line\n".repeat(MEMORY_BYTES_MAX).as_bytes());
        log.add(b"end\n");
        let printed = log.finish();
        assert_eq!(printed.head.len(), MEMORY_BYTES_MAX, "{}", store.is_some());
        assert!(printed.head.starts_with("line\nline\n") && printed.tail.ends_with("line\nend\n"));
        let shown = (printed.head.len() + printed.tail.len()) as u64;
        assert!(shown < printed.bytes && printed.bytes == 5 * MEMORY_BYTES_MAX as u64 + 4);
    }
}
