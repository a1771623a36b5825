//! Commands that a command starts: after it, in its arguments, and with words that are filled in.

use super::*;

/// Why only an exact rule allows a program that starts others in its own way.
const STARTS: &str = "starts another command";

impl CommandExaminer<'_> {
    /// Adds text for another shell.
    pub(super) fn hold_text(&mut self, text: &str, place: &ValuePlace<'_>) {
        self.hold(HeldCommand::Text(text.to_owned()), place, HeldShell::Another);
    }

    fn hold_words(&mut self, words: Vec<Word>, place: &ValuePlace<'_>) {
        if words.first().and_then(Word::literal).is_none() {
            return self.add_undetermined(place.reason);
        }
        self.hold(HeldCommand::Words(words), place, HeldShell::Another);
    }

    pub(super) fn hold(&mut self, command: HeldCommand, place: &ValuePlace<'_>, shell: HeldShell) {
        let (traits, reason) = (place.entry.traits, place.reason);
        let given = traits.has(ProgramTraits::COMMANDS_ELSEWHERE) && reason == RUNS_GIVEN;
        let elsewhere = traits.has(ProgramTraits::RUNS_ELSEWHERE) || given || shell == HeldShell::Later;
        let quiet = traits.has(ProgramTraits::QUIET) && !self.findings.contains(&Finding::Undetermined);
        self.push(Finding::Held(HeldFinding { command, elsewhere, quiet, shell, reason }));
    }

    /// Adds a program, to which more arguments are appended.
    pub(super) fn start_program(&mut self, word: &Word, place: &ValuePlace<'_>) {
        let Some(text) = word.literal() else { return self.add_undetermined(place.reason) };
        match plain_words(text) {
            Some(mut words) => {
                words.push(Word::anything());
                self.hold_words(words, place);
            }
            None => self.hold_text(text, place),
        }
    }

    /// Adds the words, preceded by others.
    pub(super) fn start_prepended(&mut self, names: &str, values: &[Word], place: &ValuePlace<'_>) {
        let words = match values {
            [Word::Literal(text)] => plain_words(text),
            values => Some(values.to_vec()),
        };
        let Some(words) = words else { return self.add_undetermined(place.reason) };
        let mut argv: Vec<Word> = names.split(' ').map(literal_word).collect();
        argv.extend(words);
        if place.from.is_none() || place.attached {
            argv.push(Word::anything());
        }
        self.hold_words(argv, place);
    }

    /// Adds the words up to `:::`, joined, filled in and parsed by a shell.
    pub(super) fn start_template(&mut self, values: &[Word], place: &ValuePlace<'_>) {
        let ends = |word: &&Word| word.literal().is_some_and(|text| text.starts_with(":::"));
        let words = values.iter().take_while(|word| !ends(word));
        let texts: Option<Vec<&str>> = words.map(Word::literal).collect();
        // Without a template the values are the commands.
        let Some(texts) = texts.filter(|texts| !texts.is_empty()) else {
            return self.add_undetermined(place.reason);
        };
        let plain = |text: &str| plain_words(&text.replace(['{', '}'], "")).is_some();
        if !texts.iter().all(|text| plain(text) || *text == "{}") || texts[0].contains('{') {
            self.add_undetermined(place.reason);
        }
        let text = texts.join(" ");
        if !plain(&text) {
            return self.hold_text(&text, place);
        }
        let mut words = text.split(' ').filter(|word| !word.is_empty()).map(literal_word).collect();
        fill_braces(&mut words);
        self.hold_words(words, place);
    }

    /// Adds a module of an interpreter, which may have an entry of its own.
    pub(super) fn start_module(&mut self, values: &[Word]) {
        let Some(name) = values.first().and_then(Word::literal) else { return };
        let mut argv = values.to_vec();
        let module = format!("-m:{name}");
        if programs::find(&module).is_some() {
            argv[0] = literal_word(&module);
        } else if programs::find(name).is_none() {
            return;
        }
        if self.depth < SPLICES_MAX {
            let nested = examine_nested(&argv, self.incoming, self.depth + 1);
            nested.into_iter().filter(|one| !matches!(one, Finding::Layer(_))).for_each(|one| self.push(one));
        }
    }

    /// Adds a sub-command in a value.
    pub(super) fn start_subcommand(
        &mut self,
        entries: &'static [ProgramEntry],
        word: &Word,
        place: &ValuePlace<'_>,
    ) {
        match (word.literal(), place.from) {
            (None, _) => self.add_undetermined(place.reason),
            (Some(name), Some(from)) => {
                if let Some(entry) = find_entry(entries, name) {
                    self.examine_entry(entry, from + 1);
                }
            }
            (Some(_), None) => {}
        }
    }

    /// Adds words of the same program from one word.
    pub(super) fn splice_words(&mut self, word: &Word, place: &ValuePlace<'_>) {
        let words = word.literal().and_then(plain_words);
        let Some(words) = words.filter(|_| self.depth < SPLICES_MAX) else {
            return self.add_undetermined(TELLS);
        };
        let rest = place.start + place.reading.next_after(place);
        let mut argv = vec![self.argv[0].clone()];
        argv.extend(words);
        argv.extend_from_slice(&self.argv[rest.min(self.argv.len())..]);
        for finding in examine_nested(&argv, self.incoming, self.depth + 1) {
            self.push(match finding {
                Finding::Layer(layer) => Finding::Layer(LayerFinding { from: None, ..layer }),
                other => other,
            });
        }
    }

    /// Adds an address that may be a command.
    pub(super) fn start_transport(&mut self, word: &Word, place: &ValuePlace<'_>) {
        let text = word.prefix();
        let plain = |helper: &str| helper.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let helper = text.split_once("::").filter(|(helper, _)| !helper.is_empty() && plain(helper));
        match (helper, word.literal()) {
            (Some(("ext", command)), Some(_)) => self.hold_text(command, place),
            (Some(_), _) => self.add_undetermined(place.reason),
            (None, _) => {}
        }
    }

    /// Returns whether the words before a value may be missing.
    pub(super) fn is_displaced(&self, place: &ValuePlace<'_>) -> bool {
        let before = place.reading.operands.iter().map(|at| place.start + at);
        let mut before = before.filter(|at| place.from.is_some_and(|from| *at < from));
        before.any(|at| !is_certain(&self.argv[at]))
    }

    /// Adds a command that begins with a value.
    pub(super) fn start_command(&mut self, form: CommandForm, values: &[Word], place: &ValuePlace<'_>) {
        let whole = place.from.filter(|_| form.scope != AllowScope::Held);
        let words = whole.map_or(values, |from| &self.argv[from.min(self.argv.len())..]).to_vec();
        let mut started = StartedWords { words, from: place.from };
        if self.is_displaced(place) || !self.take_front(&mut started, place) {
            return self.add_undetermined(STARTS);
        }
        match started.words.first().map(Word::literal) {
            None => return,
            Some(None) => return self.add_undetermined(STARTS),
            Some(Some(_)) => {}
        }
        if !self.fill_words(form.fill, &mut started, place) {
            return self.add_undetermined(STARTS);
        }
        let CommandForm { location, quiet, .. } = form;
        let StartedWords { words, from } = started;
        let started = match form.scope {
            AllowScope::Held if words[0].literal().is_none() => return self.add_undetermined(place.reason),
            AllowScope::Held => {
                let (elsewhere, reason) = (location != RunLocation::Here, place.reason);
                let (command, shell) = (HeldCommand::Words(words), HeldShell::Another);
                return self.push(Finding::Held(HeldFinding { command, elsewhere, quiet, shell, reason }));
            }
            AllowScope::Past if !self.renamed => StartMethod::Wrapped,
            AllowScope::OwnName => StartMethod::Launched,
            AllowScope::Past | AllowScope::Exact => StartMethod::Executed,
        };
        let likely = self.likely;
        self.push(Finding::Layer(LayerFinding { argv: words, from, started, location, quiet, likely }));
    }

    /// Removes what precedes the program: `--`, and variables. Returns whether all of it is known.
    fn take_front(&mut self, started: &mut StartedWords, place: &ValuePlace<'_>) -> bool {
        if started.words.first().and_then(Word::literal) == Some("--") {
            started.take_first();
        }
        while place.entry.traits.has(ProgramTraits::TAKES_VARIABLES)
            && let Some(first) = started.words.first()
            && let Some((name, _)) = first.prefix().split_once('=')
        {
            if !is_certain(first) {
                return false;
            }
            let value = first.literal().map(|text| text[name.len() + 1..].to_owned());
            self.push(Finding::Variable { name: name.to_owned(), value });
            started.take_first();
            // Options may follow.
            while started.words.first().is_some_and(|word| word.prefix().starts_with("--")) {
                started.take_first();
            }
        }
        let Some(head) = place.head else { return true };
        let Some(front) = head.literal().and_then(plain_words) else { return false };
        started.words.splice(0..0, front);
        started.from = None;
        true
    }

    /// Inserts the words that the program inserts. Returns whether their position is known.
    fn fill_words(&self, fill: ArgvFill, started: &mut StartedWords, place: &ValuePlace<'_>) -> bool {
        let unknown = Word::anything();
        let words = &mut started.words;
        match fill {
            ArgvFill::Plain => {}
            ArgvFill::Append => words.push(self.incoming.names.cloned().unwrap_or(unknown)),
            ArgvFill::Mark(usual) => {
                let mark = place.mark.map_or(usual, |word| word.literal().unwrap_or_default());
                if mark.is_empty() || words[0].plain().contains(mark) {
                    return false;
                }
                replace_marks(words, mark, self.incoming.names.unwrap_or(&unknown));
            }
            ArgvFill::Matches => {
                replace_marks(words, "{}", &self.found_names(place).unwrap_or(unknown));
            }
            ArgvFill::Braces => fill_braces(words),
            ArgvFill::Package => {
                if let Some(name) = package_program(words[0].plain()) {
                    words[0] = literal_word(name);
                    started.from = None;
                }
            }
        }
        true
    }
}

/// The words of a command that is started.
struct StartedWords {
    words: Vec<Word>,
    /// The index of its first word in the argument list, if its words are the last ones as written.
    from: Option<usize>,
}

impl StartedWords {
    fn take_first(&mut self) {
        self.words.remove(0);
        self.from = self.from.map(|from| from + 1);
    }
}

fn replace_marks(words: &mut [Word], mark: &str, value: &Word) {
    words.iter_mut().for_each(|word| *word = replace_mark(word, mark, value.shape()));
}

/// Replaces `{…}` by unknown words, and appends others.
fn fill_braces(words: &mut Vec<Word>) {
    replace_marks(words, "{", &Word::anything());
    words.push(Word::anything());
}

/// Returns the program of a package, without scope and version.
fn package_program(text: &str) -> Option<&str> {
    let name = match text.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/')?.1,
        None => text,
    };
    let name = name.split(['@', '=', '[']).next()?;
    (!name.is_empty() && name != text).then_some(name)
}

impl WordReading<'_> {
    /// Returns the first word after the option that contains a value.
    fn next_after(&self, place: &ValuePlace<'_>) -> usize {
        match place.from {
            Some(from) => from - place.start + 1,
            None => self.options.iter().find(|given| given.attached).map_or(0, |given| given.at + 1),
        }
    }
}
