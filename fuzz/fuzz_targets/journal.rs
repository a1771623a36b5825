//! The reader of journals: no bytes make it panic, each line is a record or damage, what was read before a cut is what is
//! read after it, and what is left of a session can be said of anything.
#![no_main]

use std::cell::RefCell;
use std::io::Write as _;

use haft_journal::{Kept, Recovered, read};
use libfuzzer_sys::fuzz_target;
use tempfile::NamedTempFile;

thread_local! {
    static FILE: RefCell<NamedTempFile> = RefCell::new(NamedTempFile::new().expect("a file can be made"));
}

fuzz_target!(|bytes: &[u8]| {
    let [signed, cut, lines @ ..] = bytes else { return };
    let bytes = if signed % 4 == 0 { lines.to_vec() } else { sum(lines) };
    let kept = kept(&bytes);
    let written = &bytes[..bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)];
    // A power failure: zeros in a line, and lines behind it that nobody counted on.
    let whole = usize::try_from(kept.whole).expect("a file of a few bytes");
    let is_cut = written[whole..].contains(&b'\n');
    assert!(!is_cut || written[whole..].split(|byte| *byte == b'\n').next().is_some_and(|line| line.contains(&0)));
    let ends = written[..whole].iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(kept.records.len() + kept.damage.len(), ends, "each line is a record or damage");
    assert!(whole == 0 || written[whole - 1] == b'\n');
    assert_eq!(kept.torn, whole < written.len());
    let _ = Recovered::of(&kept);

    // Room behind the lines changes nothing.
    let roomy = [&bytes[..], &[0; 100]].concat();
    assert_eq!(self::kept(&roomy), kept);

    // A crash: the file ends somewhere.
    let end = bytes.len() * usize::from(*cut) / 255;
    let before = self::kept(&bytes[..end]);
    // What is behind zeros counts or not by what else is there.
    assert!(
        bytes.contains(&0) || kept.records.starts_with(&before.records),
        "what was whole before the end stays what it was"
    );
    let _ = Recovered::of(&before);
});

fn kept(bytes: &[u8]) -> Kept {
    FILE.with_borrow_mut(|file| {
        file.as_file().set_len(0).expect("the file is ours");
        std::io::Seek::rewind(file).expect("the file is ours");
        file.write_all(bytes).expect("the file is ours");
        read(file.path()).expect("the file is there")
    })
}

/// The same lines, each with the sum that it should have: otherwise next to nothing would be read as a record.
fn sum(lines: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let (json, end) = line.strip_suffix(b"\n").map_or((line, ""), |json| (json, "\n"));
        out.extend_from_slice(format!("{:08x} ", crc32fast::hash(json)).as_bytes());
        out.extend_from_slice(json);
        out.extend_from_slice(end.as_bytes());
    }
    out
}
