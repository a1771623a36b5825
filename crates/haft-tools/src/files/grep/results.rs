//! Putting what threads find into one order, within bounds, and into words.
//!
//! Results are kept by their key: the path, or the age where files are listed. Once there are enough of them,
//! the last ones fall out again, and where the key is the path, whatever lies behind the last one isn't
//! searched any more. So the answer is the same as if everything had been found and sorted, with less work
//! and bounded memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use haft::sync::lock;
use haft::text::truncate_chars;

use super::OutputMode;
use super::query::GrepQuery;
use crate::paths::{self, PathKey, count_noun};
use crate::walk::WalkProblems;

/// Bytes of all that one search keeps.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What a kept entry costs beside its text.
const ENTRY_BYTES: usize = 64;
/// Characters of the pattern in a message.
const PATTERN_CHARS_SHOWN: usize = 200;

/// What was found in one file.
#[derive(Default)]
pub(super) struct FileHits {
    pub(super) matches: u64,
    pub(super) lines: Vec<HitLine>,
    /// Bytes of the lines.
    pub(super) bytes: usize,
    /// The file is binary, at least from some place on.
    pub(super) binary: bool,
    /// There was more than fits into the memory of one search.
    pub(super) is_cut: bool,
}

pub(super) struct HitLine {
    pub(super) number: Option<u64>,
    pub(super) text: String,
    pub(super) is_match: bool,
    /// Whether lines were left out before it.
    pub(super) gap: bool,
}

impl FileHits {
    /// How many entries of the answer these are.
    fn entries(&self, mode: OutputMode) -> usize {
        match mode {
            OutputMode::Content => self.lines.len() + usize::from(self.binary),
            OutputMode::FilesWithMatches | OutputMode::Count => 1,
        }
    }
}

/// By age, newest first, where files are listed; then by path.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct HitKey {
    age: Reverse<Option<SystemTime>>,
    path: PathKey,
}

pub(super) struct HitCollector {
    mode: OutputMode,
    /// How many entries are of use: one more than are shown, to know that there are more.
    need: usize,
    kept: Mutex<KeptHits>,
    /// Whether `KeptHits::horizon` is set: most files are looked at without the lock.
    has_horizon: AtomicBool,
}

#[derive(Default)]
struct KeptHits {
    files: BTreeMap<HitKey, FileHits>,
    entries: usize,
    bytes: usize,
    /// What lies behind this path is of no use.
    horizon: Option<PathKey>,
    /// Files with matches and matches in them, those that fell out included.
    all_files: usize,
    all_matches: u64,
    /// Something fell out.
    cut: bool,
    /// Something fell out because it was too much for the memory.
    full: bool,
}

impl HitCollector {
    pub(super) fn new(query: &GrepQuery) -> HitCollector {
        let need = query.limit.map_or(usize::MAX, |limit| (query.offset + limit).saturating_add(1));
        HitCollector { mode: query.mode, need, kept: Mutex::default(), has_horizon: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, KeptHits> {
        lock(&self.kept)
    }

    /// How many entries and bytes of one file are of use at most.
    pub(super) fn room(&self) -> (usize, usize) {
        (self.need, KEPT_BYTES_MAX)
    }

    /// Whether nothing at this path, or beneath it, can be in the answer.
    pub(super) fn is_beyond(&self, path: &Path) -> bool {
        self.has_horizon.load(Ordering::Relaxed)
            && self.lock().horizon.as_ref().is_some_and(|horizon| horizon.cmp_path(path).is_lt())
    }

    pub(super) fn add(&self, path: &Path, modified: Option<SystemTime>, hits: FileHits) {
        let by_age = self.mode == OutputMode::FilesWithMatches;
        let key = HitKey { age: Reverse(modified.filter(|_| by_age)), path: PathKey::from_path(path) };
        let bytes = |hits: &FileHits| hits.bytes + ENTRY_BYTES * (1 + hits.lines.len());
        let mut kept = self.lock();
        kept.all_files += 1;
        kept.all_matches += hits.matches;
        kept.cut |= hits.is_cut;
        kept.full |= hits.is_cut;
        kept.entries += hits.entries(self.mode);
        kept.bytes += bytes(&hits);
        kept.files.insert(key, hits);
        while kept.files.len() > 1 {
            let Some((_, last)) = kept.files.last_key_value() else { break };
            let (entries, size) = (last.entries(self.mode), bytes(last));
            let too_large = kept.bytes > KEPT_BYTES_MAX;
            if !too_large && kept.entries - entries < self.need {
                break;
            }
            kept.files.pop_last();
            kept.entries -= entries;
            kept.bytes -= size;
            kept.cut = true;
            kept.full |= too_large;
            if !by_age && too_large {
                kept.horizon = kept.files.last_key_value().map(|(key, _)| key.path.clone());
            }
        }
        if !by_age && kept.entries >= self.need {
            kept.horizon = kept.files.last_key_value().map(|(key, _)| key.path.clone());
        }
        if kept.horizon.is_some() {
            self.has_horizon.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn into_answer(self, query: GrepQuery, walked: bool, problems: WalkProblems) -> GrepResults {
        let kept = self.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        // A file whose lines were cut short has more of them too.
        let cut = kept.cut || kept.entries >= self.need;
        GrepResults { query, walked, problems, kept, cut }
    }
}

/// Everything that was found, ready to be said.
pub(super) struct GrepResults {
    query: GrepQuery,
    walked: bool,
    problems: WalkProblems,
    kept: KeptHits,
    cut: bool,
}

impl GrepResults {
    /// For a person: `6 matches in 3 files`.
    pub(super) fn summary(&self) -> String {
        let files = count_noun(self.kept.all_files, "file", "files");
        match self.query.mode {
            _ if self.kept.all_files == 0 => "no matches".to_owned(),
            OutputMode::FilesWithMatches => files,
            _ => {
                let matches = count_noun(self.kept.all_matches as usize, "match", "matches");
                let more = if self.cut { "more than " } else { "" };
                format!("{more}{matches} in {files}")
            }
        }
    }

    /// For the model.
    pub(super) fn text(&self, cwd: &Path) -> String {
        let mut out = PagedOutput {
            text: String::new(),
            skip: self.query.offset,
            left: self.query.limit.unwrap_or(usize::MAX),
            taken: 0,
            seen: 0,
        };
        for (key, hits) in &self.kept.files {
            let path = paths::display_path(key.path.path(), cwd);
            match self.query.mode {
                OutputMode::FilesWithMatches => out.entry(|text| text.push_str(&path)),
                OutputMode::Count => out.entry(|text| text.push_str(&format!("{path}:{}", hits.matches))),
                OutputMode::Content => self.lines(&path, hits, &mut out),
            }
        }
        self.end(&mut out);
        out.text.truncate(out.text.trim_end_matches('\n').len());
        out.text
    }

    fn lines(&self, path: &str, hits: &FileHits, out: &mut PagedOutput) {
        // As ripgrep has it: what was asked for by name isn't named again.
        let named = self.walked;
        let has_context = self.query.before + self.query.after > 0 && !self.query.only_matching;
        for (at, line) in hits.lines.iter().enumerate() {
            if has_context && (at == 0 || line.gap) {
                out.gap();
            }
            let sign = if line.is_match { ':' } else { '-' };
            out.entry(|text| {
                if named {
                    text.push_str(path);
                    text.push(sign);
                }
                if let Some(number) = line.number.filter(|_| self.query.line_numbers) {
                    text.push_str(&number.to_string());
                    text.push(sign);
                }
                text.push_str(&line.text);
            });
        }
        if hits.binary {
            let what = if self.walked {
                "is binary further on; the rest is not searched"
            } else {
                "is binary, and matches"
            };
            out.entry(|text| text.push_str(&format!("[{path} {what}]")));
        }
    }

    /// What has to be said after the entries.
    fn end(&self, out: &mut PagedOutput) {
        let (offset, mode) = (self.query.offset, self.query.mode);
        let what = match mode {
            OutputMode::Content => "lines",
            OutputMode::FilesWithMatches | OutputMode::Count => "files",
        };
        let mut note = |words: String| {
            out.text.push_str(&words);
            out.text.push('\n');
        };
        if self.kept.all_files == 0 {
            let pattern = truncate_chars(&self.query.pattern, PATTERN_CHARS_SHOWN);
            note(format!("[no matches for `{pattern}`]"));
        } else if out.taken == 0 {
            note(format!("[there are {} {what}; an `offset` of {offset} is beyond them]", out.seen));
        } else if self.kept.full && out.seen == offset + out.taken {
            let next = offset + out.taken;
            note(format!(
                "[{what} {} to {next}; more follow than fit here, narrow the search, or go on with offset {next} \
                 and a `head_limit`]",
                offset + 1,
            ));
        } else if self.cut || out.seen > offset + out.taken {
            let next = offset + out.taken;
            let of = match mode {
                OutputMode::FilesWithMatches => format!(" of {}", self.kept.all_files),
                _ => String::new(),
            };
            note(format!("[{what} {} to {next}{of}; more follow, go on with offset {next}]", offset + 1));
        }
        let names = paths::unnameable_note(self.kept.files.keys().map(|key| key.path.path()));
        names.into_iter().chain(self.problems.words()).for_each(note);
    }
}

/// Entries as they are written: some left out, some taken, the rest counted.
struct PagedOutput {
    text: String,
    skip: usize,
    left: usize,
    taken: usize,
    seen: usize,
}

impl PagedOutput {
    fn entry(&mut self, write: impl FnOnce(&mut String)) {
        self.seen += 1;
        if self.seen <= self.skip || self.taken >= self.left {
            return;
        }
        self.taken += 1;
        write(&mut self.text);
        self.text.push('\n');
    }

    /// A line between lines that don't follow each other.
    fn gap(&mut self) {
        if self.taken > 0 && self.taken < self.left {
            self.text.push_str("--\n");
        }
    }
}
