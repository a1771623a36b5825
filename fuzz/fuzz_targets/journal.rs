//! The journal reader: no bytes make it panic, each line is a record or damage, truncating a journal doesn't
//! change the records before the cut, and every journal can be recovered.
#![no_main]

use std::cell::RefCell;
use std::io::Write as _;

use haft_journal::{JournalContents, RecoveredSession, read};
use libfuzzer_sys::fuzz_target;
use tempfile::NamedTempFile;

thread_local! {
    static FILE: RefCell<NamedTempFile> = RefCell::new(NamedTempFile::new().expect("a file can be made"));
}

fuzz_target!(|bytes: &[u8]| {
    let [signed, cut, lines @ ..] = bytes else { return };
    let bytes = if signed % 4 == 0 { lines.to_vec() } else { with_checksums(lines) };
    let contents = read_bytes(&bytes);
    let written = &bytes[..bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)];
    // A power failure: zeros in a line, and unsynced lines after it.
    let whole = usize::try_from(contents.whole).expect("a file of a few bytes");
    let is_cut = written[whole..].contains(&b'\n');
    assert!(!is_cut || written[whole..].split(|byte| *byte == b'\n').next().is_some_and(|line| line.contains(&0)));
    let ends = written[..whole].iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(contents.records.len() + contents.damage.len(), ends, "each line is a record or damage");
    assert!(whole == 0 || written[whole - 1] == b'\n');
    assert_eq!(contents.torn, whole < written.len());
    let _ = RecoveredSession::from_contents(&contents);

    // Preallocated zeros after the lines change nothing.
    let padded = [&bytes[..], &[0; 100]].concat();
    assert_eq!(read_bytes(&padded), contents);

    // A crash: the file is truncated anywhere.
    let end = bytes.len() * usize::from(*cut) / 255;
    let before = read_bytes(&bytes[..end]);
    // Whether lines after zeros count depends on the other lines.
    assert!(
        bytes.contains(&0) || contents.records.starts_with(&before.records),
        "records before the cut stay the same"
    );
    let _ = RecoveredSession::from_contents(&before);
});

fn read_bytes(bytes: &[u8]) -> JournalContents {
    FILE.with_borrow_mut(|file| {
        file.as_file().set_len(0).expect("the file is ours");
        std::io::Seek::rewind(file).expect("the file is ours");
        file.write_all(bytes).expect("the file is ours");
        read(file.path()).expect("the file is there")
    })
}

/// Replaces the checksum of each line by the right one; otherwise hardly any line would be a valid record.
fn with_checksums(lines: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let (json, end) = line.strip_suffix(b"\n").map_or((line, ""), |json| (json, "\n"));
        out.extend_from_slice(format!("{:08x} ", crc32fast::hash(json)).as_bytes());
        out.extend_from_slice(json);
        out.extend_from_slice(end.as_bytes());
    }
    out
}
