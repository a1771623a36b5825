//! What is kept of a child's output: all of it while it fits, then its beginning and its end, and the whole
//! in a file.
//!
//! The memory of a stream never exceeds its bound, whatever the child prints. The file is begun only when the
//! bound is passed, so that ordinary output touches no disk; a disk that fails costs the middle and says so.

use std::collections::VecDeque;

use haft::ports::{CapturedOutput, SpillFile};
use haft::results::OffloadWriter;

use crate::limits;

/// One stream on its way in.
pub(crate) struct OutputCapture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes_max: usize,
    total: u64,
    spill: Option<SpillFile>,
    file: Option<OffloadWriter>,
    not_kept: Option<String>,
}

impl OutputCapture {
    pub(crate) fn new(bytes_max: usize, spill: Option<SpillFile>) -> OutputCapture {
        let (head, tail) = (Vec::new(), VecDeque::new());
        OutputCapture { head, tail, bytes_max, total: 0, spill, file: None, not_kept: None }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let fits = self.head.len() as u64 == self.total && self.head.len() + bytes.len() <= self.bytes_max;
        self.total += bytes.len() as u64;
        if fits {
            self.head.extend_from_slice(bytes);
            return;
        }
        self.keep(bytes);
        let (head_max, tail_max) = (self.bytes_max - self.bytes_max / 2, self.bytes_max / 2);
        if self.head.len() > head_max {
            // The first time: what was all until now becomes beginning and end.
            self.tail.extend(self.head.drain(head_max..));
        }
        let room = (head_max - self.head.len()).min(bytes.len());
        let (first, rest) = if self.tail.is_empty() { bytes.split_at(room) } else { (&[][..], bytes) };
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(tail_max)..];
        let too_many = (self.tail.len() + rest.len()).saturating_sub(tail_max);
        self.tail.drain(..too_many);
        self.tail.extend(rest);
    }

    /// Writes to the file, if there is to be one; the first time also what came before.
    fn keep(&mut self, bytes: &[u8]) {
        let written = match (&mut self.file, self.spill.take()) {
            (Some(file), _) => file.write(bytes),
            (None, Some(SpillFile { store, name, bytes_max })) => {
                store.begin(&name, "txt", bytes_max).and_then(|mut file| {
                    file.write(&self.head)?;
                    file.write(bytes)?;
                    self.file = Some(file);
                    Ok(())
                })
            }
            (None, None) => Ok(()),
        };
        if let Err(error) = written {
            self.file = None;
            self.not_kept = Some(error.to_string());
        }
    }

    pub(crate) fn finish(self) -> CapturedOutput {
        CapturedOutput {
            head: self.head,
            tail: self.tail.into(),
            total_bytes: self.total,
            kept: self.file.map(OffloadWriter::finish),
            not_kept: self.not_kept,
        }
    }
}

/// Lines on their way in, each bounded, and bounded in number.
pub(crate) struct LineCapture {
    line: Vec<u8>,
    too_long: bool,
    passed: usize,
}

impl LineCapture {
    pub(crate) fn new() -> LineCapture {
        LineCapture { line: Vec::new(), too_long: false, passed: 0 }
    }

    /// Passes on each line that is complete now. A last one without a line break is passed on by
    /// [`LineCapture::end`].
    pub(crate) fn add(&mut self, bytes: &[u8], mut on_line: impl FnMut(&[u8])) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            if self.line.len() + text.len() > limits::LINE_BYTES_MAX {
                self.too_long = true;
                self.line.clear();
            }
            if !self.too_long {
                self.line.extend_from_slice(text);
            }
            if ends {
                self.end(&mut on_line);
            }
        }
    }

    /// Ends the line.
    pub(crate) fn end(&mut self, mut on_line: impl FnMut(&[u8])) {
        if !self.line.is_empty() && !self.too_long && self.passed < limits::LINES_MAX {
            self.passed += 1;
            on_line(&self.line);
        }
        self.line.clear();
        self.too_long = false;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use haft::results::OffloadStore;

    use super::*;

    /// Feeds bytes in pieces of every size and compares with cutting the whole.
    #[test]
    fn pieces_of_any_size_give_what_cutting_the_whole_gives() {
        let text: Vec<u8> = (0..=255).cycle().take(1_000).collect();
        for bytes_max in [0, 1, 2, 7, 64, 999, 1_000, 1_001] {
            for piece in [1, 3, 8, 63, 64, 65, 500, 1_000] {
                let mut capture = OutputCapture::new(bytes_max, None);
                text.chunks(piece).for_each(|piece| capture.add(piece));
                assert!(capture.head.len() + capture.tail.len() <= bytes_max, "{bytes_max} {piece}");
                assert_eq!(
                    capture.finish(),
                    CapturedOutput::cut(text.clone(), bytes_max),
                    "{bytes_max} {piece}"
                );
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_whole_in_a_file() {
        let store = Arc::new(OffloadStore::temporary());
        let spill = |bytes_max| Some(SpillFile { store: store.clone(), name: "T".into(), bytes_max });
        let mut fits = OutputCapture::new(6, spill(100));
        fits.add(b"123456");
        let fits = fits.finish();
        assert_eq!((fits.whole(), &fits.kept, store.dir().exists()), (Some(&b"123456"[..]), &None, false));

        let mut longer = OutputCapture::new(6, spill(100));
        [&b"1234"[..], b"56", b"7", b"89"].into_iter().for_each(|piece| longer.add(piece));
        let longer = longer.finish();
        assert_eq!((&*longer.head, &*longer.tail, longer.whole()), (&b"123"[..], &b"789"[..], None));
        assert_eq!(std::fs::read(longer.kept.unwrap().path()).unwrap(), b"123456789");

        let mut too_long = OutputCapture::new(2, spill(5));
        [&b"1234"[..], b"5678"].into_iter().for_each(|piece| too_long.add(piece));
        let kept = too_long.finish().kept.unwrap();
        assert_eq!((kept.bytes(), kept.held_bytes()), (8, 5));
        assert_eq!(std::fs::read(kept.path()).unwrap(), b"12345");
    }

    #[test]
    fn a_store_that_fails_costs_the_middle_and_says_why() {
        let store = Arc::new(OffloadStore::at("/dev/null/nowhere"));
        let mut capture = OutputCapture::new(4, Some(SpillFile::new(store, "T")));
        capture.add(b"123456");
        capture.add(b"78");
        let captured = capture.finish();
        assert_eq!((&*captured.head, &*captured.tail, captured.kept), (&b"12"[..], &b"78"[..], None));
        assert!(captured.not_kept.is_some());
    }

    #[test]
    fn lines_are_bounded_in_length_and_number() {
        let (mut lines, mut seen) = (LineCapture::new(), Vec::new());
        let mut on_line = |line: &[u8]| seen.push(String::from_utf8_lossy(line).into_owned());
        lines.add(b"a\nb", &mut on_line);
        lines.add(b"c\n\n", &mut on_line);
        lines.add(&vec![b'x'; limits::LINE_BYTES_MAX], &mut on_line);
        lines.add(b"y\nd", &mut on_line);
        lines.end(&mut on_line);
        assert_eq!(seen, ["a", "bc", "d"]);
        let (mut lines, mut count) = (LineCapture::new(), 0);
        lines.add(&b"x\n".repeat(limits::LINES_MAX + 5), |_| count += 1);
        assert_eq!(count, limits::LINES_MAX);
    }
}
