//! Searching one file, and what of it is worth keeping.

use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch,
};
use haft::ToolError;
use haft::files::{FileError, FileErrorKind, OpenDir};

use super::OutputMode;
use super::query::GrepQuery;
use super::results::{FileHits, GrepResults, HitCollector, HitLine};
use crate::ignore_rules::IgnoreRules;
use crate::walk::{DirectoryListing, WalkEntry, WalkProblems, WalkVisitor};

/// Characters of one line that are shown.
pub(super) const LINE_CHARS: usize = 500;
/// Characters before a match that are shown of a line that is cut before it.
const LEAD_CHARS: usize = 80;
/// The longest line that is searched, in bytes.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The largest file that is searched if matches may go over lines, in bytes.
const MULTILINE_BYTES_MAX: usize = haft::limits::FILE_BYTES_MAX as usize;

/// A search in progress.
pub(super) struct GrepSearch {
    query: GrepQuery,
    /// Whether files are come across, rather than named by the call.
    walked: bool,
    collector: HitCollector,
}

/// What a thread uses again for every file.
pub(super) struct ThreadSearcher {
    searcher: Searcher,
    matcher: RegexMatcher,
}

impl GrepSearch {
    pub(super) fn new(query: GrepQuery, walked: bool) -> GrepSearch {
        let collector = HitCollector::new(&query);
        GrepSearch { query, walked, collector }
    }

    pub(super) fn into_answer(self, problems: WalkProblems) -> GrepResults {
        self.collector.into_answer(self.query, self.walked, problems)
    }

    /// Searches the one file that the call names.
    pub(super) fn one(
        &self,
        path: &Path,
        modified: Option<SystemTime>,
        file: impl Read,
    ) -> Result<(), ToolError> {
        let mut engine = self.local();
        let searched = self.search(&mut engine, path, modified, file);
        searched.map_err(|error| ToolError::new(unsearched_note(path, &error)).with_source(error))
    }

    fn search(
        &self,
        engine: &mut ThreadSearcher,
        path: &Path,
        modified: Option<SystemTime>,
        file: impl Read,
    ) -> io::Result<()> {
        let (entries, bytes) = self.collector.room();
        let mut sink = HitSink {
            query: &self.query,
            matcher: &engine.matcher,
            walked: self.walked,
            entries,
            bytes,
            hits: FileHits::default(),
            gap: false,
            binary: false,
        };
        let searched = engine.searcher.search_reader(&engine.matcher, file, &mut sink);
        searched.map_err(|error| self.in_own_words(error))?;
        let hits = sink.hits;
        if hits.matches > 0 {
            self.collector.add(path, modified, hits);
        }
        Ok(())
    }

    /// The searcher's memory has a bound, and what it says of it tells nothing of the file.
    fn in_own_words(&self, error: io::Error) -> io::Error {
        if error.kind() != io::ErrorKind::Other || !error.to_string().contains("allocation limit") {
            return error;
        }
        io::Error::other(if self.query.multiline {
            format!("it has more than {MULTILINE_BYTES_MAX} bytes, which is too much for `multiline`")
        } else {
            format!("it has a line of more than {LINE_BYTES_MAX} bytes")
        })
    }
}

fn unsearched_note(path: &Path, error: &io::Error) -> String {
    format!("`{}` can't be searched: {error}", path.display())
}

impl WalkVisitor for GrepSearch {
    type Local = ThreadSearcher;
    type Rules = IgnoreRules;

    fn local(&self) -> ThreadSearcher {
        // A file that is come across is text or is left; one that was asked for is searched in any case.
        let binary = if self.walked { BinaryDetection::quit(0) } else { BinaryDetection::convert(0) };
        let lines = self.query.mode == OutputMode::Content;
        let searcher = SearcherBuilder::new()
            .line_number(lines)
            .multi_line(self.query.multiline)
            .before_context(self.query.before)
            .after_context(self.query.after)
            .binary_detection(binary)
            .heap_limit(Some(if self.query.multiline { MULTILINE_BYTES_MAX } else { LINE_BYTES_MAX }))
            .build();
        ThreadSearcher { searcher, matcher: self.query.matcher.clone() }
    }

    fn enter(&self, dir: &DirectoryListing<'_>, rules: &IgnoreRules) -> IgnoreRules {
        rules.enter(dir)
    }

    fn wants(&self, rules: &IgnoreRules, entry: &WalkEntry<'_>) -> bool {
        if entry.name == ".git" {
            return false;
        }
        let wanted = self.query.chooses(entry.path, entry.is_dir).unwrap_or_else(|| {
            !rules.ignores(entry.path, entry.is_dir)
                && (entry.is_dir || !self.query.is_of_other_type(entry.path))
        });
        wanted && !self.collector.is_beyond(entry.path)
    }

    fn file(
        &self,
        engine: &mut ThreadSearcher,
        dir: &dyn OpenDir,
        entry: &WalkEntry<'_>,
    ) -> Result<(), FileError> {
        if self.collector.is_beyond(entry.path) {
            return Ok(());
        }
        let file = dir.open(entry.name)?;
        if file.metadata().len == 0 {
            return Ok(());
        }
        let modified = file.metadata().modified;
        self.search(engine, entry.path, modified, file).map_err(|error| {
            FileError::new(FileErrorKind::Io, unsearched_note(entry.path, &error)).with_source(error)
        })
    }
}

/// Takes what the search finds in one file.
struct HitSink<'a> {
    query: &'a GrepQuery,
    matcher: &'a RegexMatcher,
    walked: bool,
    /// How many entries and bytes are of use at most.
    entries: usize,
    bytes: usize,
    hits: FileHits,
    /// Whether lines were left out since the last one.
    gap: bool,
    binary: bool,
}

impl HitSink<'_> {
    /// Adds a line; false when no more is of use.
    fn add(&mut self, number: Option<u64>, bytes: &[u8], is_match: bool) -> bool {
        let first = |text: &[u8]| self.matcher.find(text).ok().flatten().map(|found| found.start());
        let text = shorten_line(bytes, |text| if is_match { first(text) } else { None });
        self.hits.bytes += text.len();
        let gap = std::mem::take(&mut self.gap);
        self.hits.lines.push(HitLine { number, text, is_match, gap });
        self.hits.is_cut = self.hits.bytes >= self.bytes;
        self.hits.lines.len() < self.entries && !self.hits.is_cut
    }

    /// Adds each match of the lines at hand by itself.
    fn add_matches(&mut self, found: &SinkMatch<'_>) -> bool {
        let range = found.bytes_range_in_buffer();
        let end = if self.query.multiline { range.end } else { range.start + trim_line(found.bytes()).len() };
        let text = &found.buffer()[..end];
        let mut parts = Vec::new();
        let _ = self.matcher.find_iter_at(text, range.start, |part| {
            if part.start() >= range.end {
                return false;
            }
            parts.push((part.start(), part.end()));
            true
        });
        let mut line = found.line_number();
        let mut from = range.start;
        for (start, end) in parts.into_iter().filter(|(start, end)| start < end) {
            let passed = text[from..start].iter().filter(|byte| **byte == b'\n').count();
            line = line.map(|line| line + passed as u64);
            from = start;
            // A match over several lines is as many entries.
            let parts = text[start..end]
                .strip_suffix(b"\n")
                .unwrap_or(&text[start..end])
                .split(|byte| *byte == b'\n');
            for (below, part) in parts.enumerate() {
                if !self.add(line.map(|line| line + below as u64), part, true) {
                    return false;
                }
            }
        }
        true
    }
}

impl Sink for &mut HitSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.binary && !self.walked && self.query.mode == OutputMode::Content {
            // Lines of a binary file are no lines; that there is a match is all that can be said.
            self.hits.matches += 1;
            self.hits.binary = true;
            return Ok(false);
        }
        match self.query.mode {
            OutputMode::FilesWithMatches => {
                self.hits.matches = 1;
                Ok(false)
            }
            OutputMode::Count if self.query.multiline => {
                let range = found.bytes_range_in_buffer();
                let mut matches = 0;
                let _ = self.matcher.find_iter_at(&found.buffer()[..range.end], range.start, |part| {
                    matches += u64::from(part.start() < range.end);
                    part.start() < range.end
                });
                self.hits.matches += matches;
                Ok(true)
            }
            OutputMode::Count => {
                self.hits.matches += 1;
                Ok(true)
            }
            OutputMode::Content if self.query.only_matching => {
                let before = self.hits.lines.len();
                let go_on = self.add_matches(found);
                self.hits.matches += (self.hits.lines.len() - before) as u64;
                Ok(go_on)
            }
            OutputMode::Content => {
                let mut number = found.line_number();
                for line in found.lines() {
                    self.hits.matches += 1;
                    if !self.add(number, line, true) {
                        return Ok(false);
                    }
                    number = number.map(|number| number + 1);
                }
                Ok(true)
            }
        }
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        if self.query.only_matching || *context.kind() == SinkContextKind::Other {
            return Ok(true);
        }
        Ok(self.add(context.line_number(), context.bytes(), false))
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.gap = true;
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        if self.walked && end.binary_byte_offset().is_some() {
            // What turns out to be binary was none of the files that are searched; lines that were there
            // stay.
            if self.query.mode != OutputMode::Content {
                self.hits.matches = 0;
            }
            self.hits.binary = true;
        }
        Ok(())
    }
}

/// A line without its end.
fn trim_line(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A line as the model sees it. One that is too long is cut, and shows where its match is.
fn shorten_line(line: &[u8], found: impl Fn(&[u8]) -> Option<usize>) -> String {
    let line = trim_line(line);
    let text = String::from_utf8_lossy(line);
    // Every character has at least one byte.
    let text = if text.contains('\0') { text.replace('\0', "␀").into() } else { text };
    if text.len() <= LINE_CHARS || text.chars().count() <= LINE_CHARS {
        return text.into_owned();
    }
    let chars = text.chars().count();
    let at = found(line).map_or(0, |at| String::from_utf8_lossy(&line[..at]).chars().count());
    let from = if at < LINE_CHARS - LEAD_CHARS { 0 } else { at - LEAD_CHARS };
    let from = from.min(chars - LINE_CHARS);
    let part: String = text.chars().skip(from).take(LINE_CHARS).collect();
    let (before, after) = (if from > 0 { "…" } else { "" }, if from + LINE_CHARS < chars { "…" } else { "" });
    format!("{before}{part}{after} [line cut: {LINE_CHARS} of {chars} characters]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_shows_its_match() {
        assert_eq!(shorten_line(b"abc\r\n", |_| None), "abc");
        let long = format!("{}needle{}", "x".repeat(2_000), "y".repeat(2_000));
        let cut = shorten_line(long.as_bytes(), |_| Some(2_000));
        assert!(cut.starts_with(&format!("…{}needleyyy", "x".repeat(80))), "{cut}");
        assert!(cut.ends_with("y… [line cut: 500 of 4006 characters]"), "{cut}");
        let end = shorten_line(format!("{}needle", "ü".repeat(2_000)).as_bytes(), |_| Some(4_000));
        assert!(end.ends_with("needle [line cut: 500 of 2006 characters]"), "{end}");
        let begin = shorten_line(long.as_bytes(), |_| Some(10));
        assert!(begin.starts_with("xxx") && begin.ends_with("x… [line cut: 500 of 4006 characters]"));
    }
}
