//! Parses the words of a command by the entry of its program: options with their values, and operands.
//!
//! An option that isn't listed may or may not take the next word, and an abbreviated name may be ambiguous.
//! Then there are several readings, and the findings of all of them count: a deny rule sees all of them,
//! and nothing uncertain counts as read-only.

use std::borrow::Cow;

use super::model::*;
use super::{DynamicWord, Word, marks};

/// The maximum number of readings of one command.
const READINGS_MAX: usize = 8;

/// One possible reading of the words.
#[derive(Debug, Clone, Default)]
pub(crate) struct WordReading<'w> {
    pub(crate) options: Vec<GivenOption<'w>>,
    /// The indexes of operands.
    pub(crate) operands: Vec<usize>,
    /// The indexes of option values.
    pub(crate) values: Vec<usize>,
    pub(crate) modes: ModeBits,
    /// The indexes of words with an option that isn't listed.
    pub(crate) unknown: Vec<usize>,
    /// A long name was abbreviated, or a value looks like an option: versions of a program may differ.
    pub(crate) loose: bool,
    /// The index of the first operand that can't be an option.
    pub(crate) options_end: usize,
    /// The number of operands before `--`.
    pub(crate) dashes: Option<usize>,
    /// A command that needs a terminator has none.
    pub(crate) unfinished: bool,
    next: usize,
    ended: bool,
}

/// An option in the words.
#[derive(Debug, Clone)]
pub(crate) struct GivenOption<'w> {
    pub(crate) spec: &'static OptionSpec,
    pub(crate) values: Cow<'w, [Word]>,
    /// The index of the word at which the value begins.
    pub(crate) at: usize,
    /// The value is a part of the word.
    pub(crate) attached: bool,
    /// The name was abbreviated.
    pub(crate) shortened: bool,
}

static PLUS: OptionSpec = flags("+");

/// Returns every possible reading of the words, the most likely first. If all options are known there is
/// only one.
pub(crate) fn read_words<'w>(entry: &'static ProgramEntry, words: &'w [Word]) -> Vec<WordReading<'w>> {
    let (mut next, mut open, mut closed) = (Some(WordReading::default()), Vec::new(), Vec::new());
    while let Some(reading) = next.take().or_else(|| open.pop()) {
        let room = READINGS_MAX.saturating_sub(open.len() + closed.len() + 1);
        let mut reader = WordReader { entry, words, reading, others: Vec::new(), room, shortened: false };
        while reader.reading.next < words.len() {
            reader.read_word();
        }
        reader.finish();
        open.append(&mut reader.others);
        closed.push(reader.reading);
    }
    closed
}

struct WordReader<'w> {
    entry: &'static ProgramEntry,
    words: &'w [Word],
    reading: WordReading<'w>,
    others: Vec<WordReading<'w>>,
    room: usize,
    shortened: bool,
}

impl<'w> WordReader<'w> {
    fn read_word(&mut self) {
        let at = self.reading.next;
        self.reading.next += 1;
        let (syntax, word) = (self.entry.syntax, &self.words[at]);
        let text = word.prefix();
        if self.reading.ended {
            return self.read_operand(at);
        }
        if syntax.first_word_letters && at == 0 && !text.starts_with('-') {
            return self.read_letters(at, text, 0, true);
        }
        if let Some(rest) = text.strip_prefix('+') {
            match syntax.plus {
                PlusWords::Operand => {}
                PlusWords::Options if !rest.is_empty() => {
                    self.reading.modes |= PLUS_OPTION;
                    return self.read_letters(at, rest, 1, false);
                }
                PlusWords::Options => {}
                PlusWords::Value(_) => {
                    return self.add_option(&PLUS, Cow::Owned(vec![without_front(word, 1)]), at, true);
                }
            }
        }
        let expression = syntax.stop == StopRule::Expression;
        if expression && matches!(word.literal(), Some("(" | ")" | "!" | ",")) {
            return;
        }
        let dash = word.literal().filter(|text| *text == "-").and_then(|text| find_long(self.entry, text));
        if dash.is_none() && (text.len() < 2 || !text.starts_with('-')) {
            return self.read_operand(at);
        }
        if word.literal() == Some("--") && !expression {
            self.reading.ended = true;
            self.reading.modes |= DASHES;
            self.reading.dashes = Some(self.reading.operands.len());
            return;
        }
        self.reading.modes |= ANY_OPTION;
        if let Some(spec) = dash {
            return self.read_option(spec, None, at);
        }
        if let Some((spec, length)) = find_dashed(self.entry, &text[1..]) {
            let value = (length + 1 < text.len()).then(|| without_front(word, length + 1));
            return self.read_option(spec, value, at);
        }
        match text.strip_prefix("--").or(text.strip_prefix('-').filter(|_| syntax.one_dash)) {
            Some(name) => self.read_long(at, name),
            None if syntax.clusters => self.read_letters(at, &text[1..], 1, false),
            None => self.read_letter(at, &text[1..]),
        }
    }

    fn read_operand(&mut self, at: usize) {
        let stop = self.entry.syntax.stop;
        self.reading.operands.push(at);
        let count = self.reading.operands.len();
        let ends = match stop {
            StopRule::AtOperand => true,
            StopRule::AfterOperands(number) => count > number,
            // An operand that isn't a listed sub-command leaves the program's options in effect.
            StopRule::Never | StopRule::Expression => {
                self.words[at].literal().is_some_and(|name| self.entry.subcommand(name).is_some())
            }
        };
        if ends && !self.reading.ended {
            self.reading.ended = true;
            self.reading.options_end = count;
        }
    }

    /// Reads `--name` or `--name=value`.
    fn read_long(&mut self, at: usize, text: &str) {
        let word = &self.words[at];
        let dashes = word.prefix().len() - text.len();
        let (name, inline) = match text.split_once('=') {
            Some((name, _)) => (name, Some(without_front(word, dashes + name.len() + 1))),
            None => (text, None),
        };
        // The name itself is known only at run time.
        if word.literal().is_none() && inline.is_none() {
            if self.entry.syntax.one_dash
                && let Some(spec) = find_attached(self.entry, name)
            {
                return self.read_option(spec, Some(without_front(word, dashes + 1)), at);
            }
            return self.add_unknown(at, false);
        }
        if let Some(spec) = find_long(self.entry, name) {
            return self.read_option(spec, inline, at);
        }
        if self.entry.syntax.one_dash
            && dashes == 1
            && let Some(spec) = find_attached(self.entry, text)
        {
            return self.read_option(spec, Some(without_front(word, 2)), at);
        }
        let shortened: Vec<&'static OptionSpec> = if self.entry.syntax.abbreviations {
            self.entry.all_options().filter(|spec| is_beginning(spec, name)).collect()
        } else {
            Vec::new()
        };
        let Some((first, others)) = shortened.split_first() else {
            return self.add_unknown(at, inline.is_some());
        };
        (self.reading.loose, self.shortened) = (true, true);
        for other in others.iter().take(self.room.saturating_sub(self.others.len())) {
            let before = self.reading.clone();
            self.read_option(other, inline.clone(), at);
            self.others.push(std::mem::replace(&mut self.reading, before));
        }
        self.read_option(first, inline, at);
        self.shortened = false;
    }

    /// Reads one letter, possibly with its value, for programs without clusters of letters.
    fn read_letter(&mut self, at: usize, text: &str) {
        let word = &self.words[at];
        let first = text.chars().next().map_or(0, char::len_utf8);
        let spec = find_letter(self.entry, &text[..first]);
        match spec {
            Some(spec) if text.len() == first && word.literal().is_some() => self.read_option(spec, None, at),
            Some(spec) if spec.arity != ValueArity::None => {
                self.read_option(spec, Some(without_front(word, first + 1)), at)
            }
            _ => self.add_unknown(at, false),
        }
    }

    /// Reads letters in one word: the first with a value takes the rest, or the next word.
    fn read_letters(&mut self, at: usize, letters: &str, front: usize, in_order: bool) {
        let word = &self.words[at];
        for (place, letter) in letters.char_indices() {
            let end = place + letter.len_utf8();
            let digit = self.entry.syntax.digits && letter.is_ascii_digit();
            let Some(spec) = find_letter(self.entry, &letters[place..end]) else {
                if !digit {
                    let last = end == letters.len() && word.literal().is_some();
                    self.add_unknown(at, !last);
                }
                continue;
            };
            let follows = end < letters.len() || word.literal().is_none();
            match spec.arity {
                ValueArity::None | ValueArity::Next => self.read_option(spec, None, at),
                _ if in_order => self.read_option(spec, None, at),
                _ => return self.read_option(spec, follows.then(|| without_front(word, front + end)), at),
            }
        }
        if word.literal().is_none() {
            self.add_unknown(at, true);
        }
    }

    /// Adds an option that isn't listed.
    fn add_unknown(&mut self, at: usize, has_value: bool) {
        let policy = self.entry.unknown;
        if self.reading.unknown.last() != Some(&at) {
            self.reading.unknown.push(at);
        }
        let next = self.words.get(self.reading.next);
        let may_take = next.is_some_and(|word| !word.prefix().starts_with('-'));
        let both = matches!(policy, UnknownOption::Either | UnknownOption::Doubt | UnknownOption::Value);
        if has_value || !may_take || !both || self.entry.coverage == EntryCoverage::Total {
            return;
        }
        if self.others.len() >= self.room {
            return;
        }
        let mut other = self.reading.clone();
        other.values.push(other.next);
        other.next += 1;
        let long = self.words[at].prefix().starts_with("--");
        if policy == UnknownOption::Value && long {
            std::mem::swap(&mut other, &mut self.reading);
        }
        self.others.push(other);
    }

    fn read_option(&mut self, spec: &'static OptionSpec, inline: Option<Word>, at: usize) {
        let attached = inline.is_some();
        let first = self.reading.next;
        let mut end = None;
        match spec.arity {
            ValueArity::None | ValueArity::Attached => {}
            ValueArity::One if attached => {}
            ValueArity::One | ValueArity::Next => self.take_value(),
            ValueArity::Maybe => {
                let next = self.words.get(first);
                if !attached && next.is_some_and(|word| !word.prefix().starts_with('-')) {
                    self.take_value();
                }
            }
            ValueArity::Two => {
                if !attached {
                    self.take_value();
                }
                self.take_value();
            }
            ValueArity::Rest => while self.take_word().is_some() {},
            ValueArity::Until => end = self.take_until_end(inline.as_ref()),
        }
        let taken = &self.words[first..end.unwrap_or(self.reading.next)];
        let values = match inline.filter(|_| !matches!(spec.arity, ValueArity::None | ValueArity::Next)) {
            Some(value) => Cow::Owned([std::slice::from_ref(&value), taken].concat()),
            None => Cow::Borrowed(taken),
        };
        self.add_option(spec, values, if attached { at } else { first }, attached);
    }

    fn take_word(&mut self) -> Option<&'w Word> {
        let word = self.words.get(self.reading.next)?;
        self.reading.values.push(self.reading.next);
        self.reading.next += 1;
        Some(word)
    }

    /// Takes the next word as a value. Programs differ on a word that looks like an option.
    fn take_value(&mut self) {
        let Some(word) = self.take_word() else { return };
        let text = word.prefix();
        let expression = self.entry.syntax.stop == StopRule::Expression;
        let like_option = text.starts_with('-')
            && (!expression || text[1..].starts_with(|c: char| c.is_ascii_alphabetic()));
        self.reading.loose |= like_option && text.len() > 1;
    }

    /// Returns the end of the values, if a word ends them.
    fn take_until_end(&mut self, inline: Option<&Word>) -> Option<usize> {
        let mut last = inline.and_then(Word::literal);
        while let Some(word) = self.take_word() {
            let text = word.literal();
            if text == Some(";") || (last == Some("{}") && text == Some("+")) {
                return Some(self.reading.next - 1);
            }
            last = text;
        }
        self.reading.unfinished = self.entry.syntax.stop == StopRule::Expression;
        None
    }

    fn add_option(&mut self, spec: &'static OptionSpec, values: Cow<'w, [Word]>, at: usize, attached: bool) {
        let first = values.first().filter(|_| !spec.except.is_empty()).and_then(Word::literal);
        if !first.is_some_and(|value| spec.except.split(' ').any(|name| name == value)) {
            self.reading.modes |= spec.sets;
        }
        let shortened = self.shortened;
        self.reading.options.push(GivenOption { spec, values, at, attached, shortened });
    }

    fn finish(&mut self) {
        let reading = &mut self.reading;
        if !reading.ended {
            reading.options_end = usize::MAX;
        } else if let Some(before) = reading.dashes {
            reading.options_end = before;
        }
        let operands = reading.operands.len();
        reading.modes |= if self.words.is_empty() { NO_ARGUMENT } else { 0 };
        reading.modes |= if operands == 0 { NO_OPERAND } else { 0 };
        reading.modes |= if operands > 1 { TWO_OPERANDS } else { 0 };
    }
}

/// Returns whether the option is a plus word.
pub(crate) fn is_plus(spec: &'static OptionSpec) -> bool {
    std::ptr::eq(spec, &PLUS)
}

fn find_letter(entry: &ProgramEntry, letter: &str) -> Option<&'static OptionSpec> {
    let &[letter] = letter.as_bytes() else { return None };
    let has = |token: &str| token.as_bytes().strip_prefix(b"-").is_some_and(|all| all.contains(&letter));
    entry.all_options().find(|spec| spec.filter.may_hold_letter(letter) && spec.names.split(' ').any(has))
}

fn find_long(entry: &ProgramEntry, name: &str) -> Option<&'static OptionSpec> {
    let is = |token: &str| {
        token == name && (token == "-" || !token.starts_with(['-', '='])) || is_wild(token, name)
    };
    entry.all_options().find(|spec| spec.filter.may_hold(name) && spec.names.split(' ').any(is))
}

/// `?` matches one character other than the first, in names of three or more characters.
fn is_wild(pattern: &str, name: &str) -> bool {
    pattern.len() == name.len()
        && pattern.len() > 2
        && pattern.contains('?')
        && pattern.bytes().zip(name.bytes()).all(|(sign, byte)| sign == b'?' || sign == byte)
}

/// Finds an option of one letter with an attached value, where long names have one dash.
fn find_attached(entry: &ProgramEntry, text: &str) -> Option<&'static OptionSpec> {
    let first = text.chars().next().filter(char::is_ascii)?;
    let is = |token: &str| token.len() == 1 && token.starts_with(first);
    let mut fitting = entry.all_options().filter(|spec| spec.filter.may_hold(&text[..1]));
    fitting.find(|spec| spec.arity != ValueArity::None && spec.names.split(' ').any(is))
}

/// Finds a name with one dash among letters, and returns it with its length: `-TT`.
fn find_dashed(entry: &ProgramEntry, text: &str) -> Option<(&'static OptionSpec, usize)> {
    entry.all_options().filter(|spec| spec.filter.has_dashed).find_map(|spec| {
        let names = spec.names.split(' ').filter_map(|token| token.strip_prefix('='));
        let fits = |name: &&str| match spec.arity {
            ValueArity::None => text == *name,
            _ => text.starts_with(name),
        };
        names.into_iter().find(fits).map(|name| (spec, name.len()))
    })
}

fn is_beginning(spec: &OptionSpec, name: &str) -> bool {
    !name.is_empty()
        && spec
            .names
            .split(' ')
            .any(|token| token.len() > 1 && !token.starts_with(['-', '=']) && token.starts_with(name))
}

/// Removes the given number of known bytes from the front of a word.
pub(crate) fn without_front(word: &Word, front: usize) -> Word {
    match word {
        Word::Literal(text) => Word::Literal(text[front..].to_owned()),
        Word::Dynamic(open) => Word::Dynamic(DynamicWord {
            written: open.written.get(front..).unwrap_or_default().to_owned(),
            shape: open.shape[front..].to_owned(),
            splits: open.splits,
        }),
    }
}

/// Returns whether a word is known to be exactly one word that isn't an option.
pub(crate) fn is_certain(word: &Word) -> bool {
    match word {
        Word::Literal(_) => true,
        Word::Dynamic(open) => !open.splits && !word.prefix().is_empty() && !word.prefix().starts_with('-'),
    }
}

/// Replaces a placeholder in a word by something unknown.
pub(crate) fn replace_mark(word: &Word, mark: &str, shape: &str) -> Word {
    match word {
        Word::Literal(text) if text.contains(mark) => Word::Dynamic(DynamicWord {
            written: text.clone(),
            shape: text.replace(mark, shape),
            splits: false,
        }),
        other => other.clone(),
    }
}

/// Splits a text into words, if it contains nothing that a shell would treat specially.
pub(crate) fn plain_words(text: &str) -> Option<Vec<Word>> {
    let plain = |c: char| c.is_alphanumeric() || " _-./=:,@%+".contains(c);
    let words: Vec<Word> =
        text.split(' ').filter(|word| !word.is_empty()).map(|word| Word::Literal(word.to_owned())).collect();
    (text.chars().all(plain) && !words.is_empty()).then_some(words)
}

/// Returns a file below the home directory, which the shell would write with `~`.
pub(crate) fn at_home(rest: &str) -> Word {
    Word::Dynamic(DynamicWord {
        written: format!("~{rest}"),
        shape: format!("{}{rest}", marks::HOME),
        splits: false,
    })
}
