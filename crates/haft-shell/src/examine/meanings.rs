//! Turns the meaning of a value into findings, with one arm for each kind of meaning.

use haft_git::keys::fits_pattern;

use super::*;

impl CommandExaminer<'_> {
    /// Applies a meaning to a value.
    pub(super) fn apply_meaning(&mut self, meaning: &ValueMeaning, values: &[Word], place: &ValuePlace<'_>) {
        if !meaning.applies(place.reading.modes) {
            return;
        }
        let place = &ValuePlace { reason: meaning.reason, ..*place };
        match (meaning.kind, values) {
            (MeaningKind::At(path, meanings), _) => self.apply_all(meanings, &[named_place(path)], place),
            (MeaningKind::Input(language, needed), _) => self.evaluate_input(language, needed, place),
            (MeaningKind::UnknownHost(why), _) => self.push(Finding::UnknownHost(why.to_owned())),
            (MeaningKind::Repository(level), _) => self.add_repository(level),
            (MeaningKind::ChangeDirectory, _) => self.push(Finding::ChangeDirectory(values.first().cloned())),
            (MeaningKind::LosesDirectory, _) => self.push(Finding::LosesDirectory),
            (MeaningKind::ShellState, _) => self.add_shell_state(place.reason),
            (MeaningKind::Undetermined, _) => self.add_undetermined(place.reason),
            (MeaningKind::ExactOnly, _) => self.add_exact_only(place.reason),
            (MeaningKind::Destroys(what), _) => self.push(Finding::Destroys(what)),
            (MeaningKind::Changes, _) => {
                self.add_changes();
                self.push(Finding::Open);
            }
            (MeaningKind::ChangesListed, _) => self.add_changes(),
            (MeaningKind::Opens, _) => self.push(Finding::Open),
            (MeaningKind::WritesAnywhere, _) => self.add_write(Word::anything(), PathExtent::Tree, false),
            (MeaningKind::Exclusive, _) => self.push(Finding::Exclusive),
            (MeaningKind::PrintsPaths, values) => self.add_printed_paths(place, !values.is_empty()),
            (MeaningKind::PrintsNumbers, _) => self.add_printed_numbers(),
            (MeaningKind::NoValue(meanings), []) => self.apply_all(meanings, &[], place),
            (MeaningKind::Command(form), []) if place.head.is_some() => self.start_command(form, &[], place),
            (_, []) => {}
            (MeaningKind::Command(form), values) => self.start_command(form, values, place),
            (MeaningKind::Joined(language), values) => self.evaluate_joined(language, values, place),
            (MeaningKind::Template, values) => self.start_template(values, place),
            (MeaningKind::Prepend(names), values) => self.start_prepended(names, values, place),
            (MeaningKind::Module, values) => self.start_module(values),
            (MeaningKind::Derived(rule), values) => self.add_derived(rule, values, place),
            (MeaningKind::KeyPair(table), [key, value, ..]) => self.apply_key_pair(table, key, value, place),
            (MeaningKind::Part(part, meanings), values) => {
                for word in word_parts(part, values) {
                    self.apply_all(meanings, &[word], place);
                }
            }
            (kind, [word, ..]) => self.apply_to_word(kind, word, place),
        }
    }

    /// Applies a meaning to one word.
    fn apply_to_word(&mut self, kind: MeaningKind, word: &Word, place: &ValuePlace<'_>) {
        match kind {
            MeaningKind::Read(extent) => self.add_read(&below_base(place, word), extent),
            MeaningKind::Folder => self.add_read(word, PathExtent::File),
            MeaningKind::Write(extent) if !is_stream(word) => {
                self.add_write(below_base(place, word), extent, false);
            }
            MeaningKind::WriteLoose(extent) if !is_stream(word) && is_place(word) => {
                self.add_write(below_base(place, word), extent, true);
            }
            MeaningKind::WriteInto if !matches!(word.literal(), Some("." | "./" | "")) => {
                self.add_write(below_base(place, word), PathExtent::Tree, false);
            }
            MeaningKind::Delete(extent) => self.add_delete(below_base(place, word), extent, false),
            MeaningKind::DeleteMatches(extent) => self.add_delete(below_base(place, word), extent, true),
            MeaningKind::Connect(form, access) => {
                address::add_connection(form, word, access, &mut self.findings)
            }
            MeaningKind::Text(language) => self.evaluate(language, word, place),
            MeaningKind::Script(language) => self.evaluate_script(language, word, place),
            MeaningKind::Program => self.start_program(word, place),
            MeaningKind::Splice => self.splice_words(word, place),
            MeaningKind::Subcommand(entries) => self.start_subcommand(entries, word, place),
            MeaningKind::Variable => self.add_variable(word),
            MeaningKind::VariableName if word.literal().is_none_or(|name| !parse::is_name(name)) => {
                self.add_shell_state(TAKES_COMMANDS);
            }
            MeaningKind::KeyValue(table) => self.apply_key_value(table, word, place),
            MeaningKind::HiddenKey(table) => {
                let name = word.prefix().split('=').next().unwrap_or_default();
                self.apply_key(table, name, &Word::anything(), place, table.other);
            }
            MeaningKind::Prefixed(prefix, rest, other) => {
                self.apply_prefixed(prefix, rest, other, word, place)
            }
            MeaningKind::If(test, then, otherwise) => {
                let holds = test_holds(test, word);
                for (wanted, meanings) in [(true, then), (false, otherwise)] {
                    if holds.is_none_or(|holds| holds == wanted) {
                        self.apply_all(meanings, std::slice::from_ref(word), place);
                    }
                }
            }
            MeaningKind::Transport => self.start_transport(word, place),
            _ => {}
        }
    }

    /// Applies each of these meanings.
    pub(super) fn apply_all(&mut self, meanings: &[ValueMeaning], values: &[Word], place: &ValuePlace<'_>) {
        for meaning in meanings {
            self.apply_meaning(meaning, values, place);
        }
    }

    fn apply_prefixed(
        &mut self,
        prefix: &str,
        rest: &[ValueMeaning],
        other: &[ValueMeaning],
        word: &Word,
        place: &ValuePlace<'_>,
    ) {
        let text = word.prefix();
        if text.starts_with(prefix) {
            return self.apply_all(rest, &[without_front(word, prefix.len())], place);
        }
        self.apply_all(other, std::slice::from_ref(word), place);
        if word.literal().is_none() && prefix.starts_with(text) {
            self.apply_all(rest, std::slice::from_ref(word), place);
        }
    }

    /// Applies `key=value` in one word.
    fn apply_key_value(&mut self, table: &'static KeyTable, word: &Word, place: &ValuePlace<'_>) {
        let text = word.prefix();
        match text.find(table.separators) {
            Some(end) => {
                self.apply_key(table, &text[..end], &without_front(word, end + 1), place, table.other)
            }
            None if word.literal().is_some() => {
                self.apply_key(table, text, &literal_word(table.alone), place, table.other);
            }
            None => self.add_undetermined(place.reason),
        }
    }

    fn apply_key_pair(&mut self, table: &'static KeyTable, key: &Word, value: &Word, place: &ValuePlace<'_>) {
        const OTHER: &[ValueMeaning] = &[EXACT_ONLY.reason("changes how it works")];
        match key.literal() {
            Some(key) => self.apply_key(table, key, value, place, OTHER),
            None => self.add_undetermined(place.reason),
        }
    }

    /// Applies the value of a key.
    fn apply_key(
        &mut self,
        table: &'static KeyTable,
        name: &str,
        value: &Word,
        place: &ValuePlace<'_>,
        other: &[ValueMeaning],
    ) {
        let name = name.trim();
        let name = if table.fold_case { name.to_ascii_lowercase() } else { name.to_owned() };
        let fits = |spec: &&KeySpec| fits_any(spec.keys, &name);
        let meanings = table.keys.iter().find(fits).and_then(|spec| spec.meanings).unwrap_or(other);
        let place = ValuePlace { from: None, attached: true, ..*place };
        self.apply_all(meanings, std::slice::from_ref(value), &place);
    }

    fn add_variable(&mut self, word: &Word) {
        let text = word.prefix();
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.trim_end_matches('+'), Some(value)),
            None => (text, None),
        };
        let known = word.literal().is_some() || value.is_some();
        if !known || !parse::is_name(name) {
            return self.add_shell_state(TAKES_COMMANDS);
        }
        let value = word.literal().and(value).map(str::to_owned);
        self.push(Finding::Variable { name: name.to_owned(), value });
    }

    pub(super) fn add_shell_state(&mut self, reason: &'static str) {
        self.add_exact_only(reason);
        self.push(Finding::ShellState);
    }

    fn add_changes(&mut self) {
        let changes = format!("`{}` with these arguments may change something", self.shown);
        self.push(Finding::Changes(changes));
    }
}

/// Returns whether a test is true, if that is known.
fn test_holds(test: WordTest, word: &Word) -> Option<bool> {
    let text = word.literal();
    Some(match test {
        WordTest::Fits(patterns) => return matches_patterns(patterns, word),
        WordTest::Holds(parts) => {
            let text = word.plain().to_ascii_lowercase();
            parts.split(' ').any(|part| text.contains(part))
        }
        WordTest::Hidden => text.is_none(),
        WordTest::Outside => {
            text.is_none_or(|text| text.starts_with('/') || text.split('/').any(|part| part == ".."))
        }
        WordTest::Remote => {
            let text = word.shape();
            text.contains("://") || text.split('/').next().is_some_and(|first| first.contains(':'))
        }
        WordTest::Descriptor => streams::parse_descriptor(word.plain()).is_some(),
        WordTest::SeveralWords => {
            let one = |text: &str| plain_words(text).is_some_and(|words| words.len() == 1);
            !text.is_some_and(|text| text.is_empty() || one(text))
        }
    })
}

/// Returns whether a word matches one of these patterns, if that is known.
fn matches_patterns(patterns: &str, word: &Word) -> Option<bool> {
    let mut known = true;
    for pattern in patterns.split(' ').map(|pattern| if pattern == "''" { "" } else { pattern }) {
        let front = pattern.split('*').next().unwrap_or_default();
        let text = word.prefix();
        match word {
            Word::Literal(text) if fits_pattern(pattern, text) => return Some(true),
            Word::Literal(_) => {}
            Word::Dynamic(_) if pattern.ends_with('*') && fits_pattern(pattern, text) => return Some(true),
            // It may become one that matches.
            Word::Dynamic(_) => {
                known &= !(front.starts_with(text) || (text.starts_with(front) && front != pattern));
            }
        }
    }
    known.then_some(false)
}

/// Returns whether a text matches one of these patterns.
pub(crate) fn fits_any(patterns: &str, text: &str) -> bool {
    patterns.split_ascii_whitespace().any(|pattern| fits_pattern(pattern, text))
}

/// Returns the parts of a word, or of several.
fn word_parts(part: WordPart, values: &[Word]) -> Vec<Word> {
    let text = values[0].literal();
    let map =
        |change: &dyn Fn(&str) -> String| text.map_or(values[0].clone(), |text| literal_word(&change(text)));
    match part {
        WordPart::After(sign) => {
            let at = values[0].prefix().find(sign);
            at.map(|at| without_front(&values[0], at + sign.len())).into_iter().collect()
        }
        WordPart::Before(sign) => vec![map(&|text| text.split(sign).next().unwrap_or_default().to_owned())],
        WordPart::Spaced(sign) => vec![map(&|text| text.replace(sign, " "))],
        WordPart::Each(sign) => match text {
            Some(text) => text.split(sign).map(literal_word).collect(),
            None => vec![values[0].clone()],
        },
        WordPart::Second => values.get(1).cloned().into_iter().collect(),
    }
}

/// Returns a path that an entry names; `~` is the home directory.
fn named_place(path: &str) -> Word {
    path.strip_prefix('~').map_or_else(|| literal_word(path), at_home)
}
