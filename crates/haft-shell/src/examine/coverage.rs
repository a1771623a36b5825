//! What an entry doesn't cover: unlisted options, and words that are known only at run time.

use super::*;

impl CommandExaminer<'_> {
    /// Determines whether more may be touched than was found, and whether something may be changed.
    pub(super) fn judge_coverage(
        &mut self,
        entry: &ProgramEntry,
        below: &ProgramEntry,
        words: &[Word],
        reading: &WordReading<'_>,
        sure: bool,
    ) {
        if reading.modes & OPEN_ENDED != 0 {
            self.push(Finding::Open);
        }
        let name = entry.all_names().next().unwrap_or_default();
        // A sub-command has its own coverage. Options before it make it another one.
        if !std::ptr::eq(entry, below) {
            let folders = reading.options.iter().filter(|given| names_folder(given)).count();
            let plain = |given: &GivenOption| is_plain_flag(given) || names_folder(given);
            if !reading.unknown.is_empty() || !reading.options.iter().all(plain) || folders > 1 {
                self.push(Finding::Open);
                self.push(Finding::Changes(format!("`{name}` with an option before its sub-command")));
            }
            return;
        }
        if entry.traits.has(ProgramTraits::OF_REPOSITORY) {
            self.push(Finding::LooksAt(literal_word(".")));
        }
        match entry.coverage {
            EntryCoverage::Partial => {
                self.push(Finding::Open);
                let shown = self.shown.clone();
                self.push(not_known(&shown));
            }
            EntryCoverage::Listed => {
                let changes =
                    |found: &Finding| matches!(found, Finding::Write { .. } | Finding::Delete { .. });
                let complete = entry.traits.has(ProgramTraits::COMPLETE)
                    || entry.traits.has(ProgramTraits::CHANGES_FILES);
                if !complete && self.findings.iter().any(changes) {
                    self.push(Finding::Open);
                }
                if let Some(at) = reading.unknown.first() {
                    self.push(Finding::Open);
                    self.push(Finding::Changes(format!("`{name}` with `{}`", words[*at].plain())));
                } else if reading.loose || !sure {
                    self.push(Finding::Changes(format!(
                        "`{name}` with options that versions read differently"
                    )));
                    if !sure {
                        self.push(Finding::Open);
                    }
                }
                self.judge_hidden_words(entry, words, reading);
            }
            EntryCoverage::Total => self.judge_hidden_words(entry, words, reading),
        }
    }

    /// Judges words that are known only at run time.
    fn judge_hidden_words(&mut self, entry: &ProgramEntry, words: &[Word], reading: &WordReading<'_>) {
        let name = entry.all_names().next().unwrap_or_default();
        for (at, word) in words.iter().enumerate() {
            let Word::Dynamic(open) = word else { continue };
            if is_pipe(word) {
                continue;
            }
            let number = reading.operands.iter().position(|operand| *operand == at);
            let names_file = entry.operands.iter().any(|spec| !spec.meanings.is_empty());
            let hidden = (open.splits && pattern_folder(word).is_none())
                || word.prefix().starts_with('-')
                || (open.shape.starts_with(marks::EXPANSION) && number.is_some());
            if hidden && names_file {
                self.push(Finding::Open);
            }
            // A word that may be an option may be any option. The value of an option is not an option.
            let ended = number.is_some_and(|number| number >= reading.options_end)
                || (reading.values.contains(&at) && !open.splits);
            let counts = |spec: &OperandSpec| {
                let later = matches!(spec.position, OperandPosition::Nth(1..) | OperandPosition::From(1..));
                let reads = |meaning: &ValueMeaning| matches!(meaning.kind, MeaningKind::Read(_));
                later && !spec.meanings.iter().all(reads)
            };
            let files = word.prefix().contains('/')
                && pattern_folder(word).is_some()
                && !entry.operands.iter().any(counts);
            if entry.coverage == EntryCoverage::Listed && !ended && !files {
                let home =
                    open.shape.starts_with(marks::HOME) && entry.traits.has(ProgramTraits::CHANGES_FILES);
                if !home {
                    self.push(Finding::Open);
                }
                self.push(Finding::Changes(format!("`{name}` with an argument that isn't known")));
            }
        }
    }

    /// Checks words and patterns that may become an option that runs or writes something.
    pub(super) fn guard_words(&mut self, entry: &ProgramEntry) {
        let arguments = &self.argv[1..];
        let named = arguments.iter().find_map(|word| entry.subcommand(word.literal()?));
        let told =
            self.findings.iter().any(|found| matches!(found, Finding::ExactOnly(_) | Finding::Held(_)));
        let files = named.is_some_and(|one| one.traits.has(ProgramTraits::PATTERNS_ARE_FILES));
        let positions = || 0..arguments.len();
        if entry.traits.has(ProgramTraits::GUARDS_WORDS)
            && !told
            && positions().any(|at| may_be_option(entry, arguments, at))
        {
            self.add_exact_only(TELLS);
        } else if entry.traits.has(ProgramTraits::GUARDS_PATTERNS)
            && !told
            && !files
            && positions().any(|at| pattern_may_be_option(entry, arguments, at))
        {
            self.add_exact_only("has a pattern that may become an option, unlike `./*`");
        }
    }
}

/// Returns whether an option doesn't affect what is done.
fn is_plain_flag(given: &GivenOption<'_>) -> bool {
    given.spec.arity == ValueArity::None && given.spec.meanings.is_empty() && given.spec.sets == 0
}

/// Returns whether an option only sets the folder that the command works in.
fn names_folder(given: &GivenOption<'_>) -> bool {
    matches!(given.spec.meanings, [meaning] if matches!(meaning.kind, MeaningKind::Folder))
}

/// Returns whether an argument that is known only at run time may become an option, or include one. A
/// quoted word after an option is its value, as in `git commit -m "$x"`. Patterns are judged separately.
fn may_be_option(entry: &ProgramEntry, arguments: &[Word], at: usize) -> bool {
    let Word::Dynamic(open) = &arguments[at] else { return false };
    if is_pipe(&arguments[at]) {
        return false;
    }
    let expands = open.shape.contains(marks::EXPANSION);
    let listed = open.shape.contains(marks::BRACE) && open.shape.starts_with('{');
    // The name of the option is known, and the expansion is its value.
    let prefix = arguments[at].prefix();
    if prefix.starts_with("--") && prefix.contains('=') && !open.splits {
        return false;
    }
    if listed || open.shape.starts_with('-') || (expands && open.splits) {
        return true;
    }
    let is_option = |word: &Word| word.literal().is_some_and(|text| text.starts_with('-'));
    // Options before a sub-command usually have no value.
    let front = !entry.subcommands.is_empty() && is_option(&arguments[0]);
    let value = at > 0 && is_option(&arguments[at - 1]) && !front;
    open.shape.starts_with(marks::EXPANSION) && !is_ended(entry, arguments, at) && !value
}

/// Returns whether a pattern may expand to a file that is named like an option. Other people may choose
/// file names.
fn pattern_may_be_option(entry: &ProgramEntry, arguments: &[Word], at: usize) -> bool {
    let Word::Dynamic(open) = &arguments[at] else { return false };
    open.shape.starts_with(marks::GLOB) && !is_ended(entry, arguments, at)
}

fn is_ended(entry: &ProgramEntry, arguments: &[Word], at: usize) -> bool {
    entry.syntax.stop != StopRule::Expression
        && arguments[..at].iter().any(|word| word.literal() == Some("--"))
}
