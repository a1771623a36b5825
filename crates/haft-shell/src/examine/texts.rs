//! Text of other languages in values, files and standard input.

use super::*;

const CODE_HIDDEN: &str = "has code that is known only when it runs";
const SCRIPT_HIDDEN: &str = "has a script that is known only when it runs";

/// The source of a script.
enum ScriptSource {
    File,
    Input,
    /// Another descriptor, or the output of another command.
    Unknown,
}

impl CommandExaminer<'_> {
    /// Evaluates text of a language.
    pub(super) fn evaluate(&mut self, language: TextLanguage, word: &Word, place: &ValuePlace<'_>) {
        let Some(text) = word.literal() else { return self.evaluate_hidden(language, word, place) };
        match language {
            TextLanguage::Sed => self.sed_parts.push(Some(text.to_owned())),
            TextLanguage::Shell => self.hold_text(text, place),
            TextLanguage::ThisShell => self.hold(HeldCommand::Text(text.to_owned()), place, HeldShell::This),
            TextLanguage::Deferred => self.hold(HeldCommand::Text(text.to_owned()), place, HeldShell::Later),
            TextLanguage::ShellWords if text.contains(['$', '`', '<', '>']) => {
                self.hold_text(&format!(": {text}"), &ValuePlace { reason: RUNS_GIVEN, ..*place });
            }
            TextLanguage::ShellWords => {}
            TextLanguage::Awk => self.evaluate_awk(text, place),
            TextLanguage::Code(signs) => self.add_text_findings(languages::read_code(signs, text), place),
            TextLanguage::Commands(escapes) => {
                self.add_text_findings(languages::read_commands(escapes, text), place)
            }
            TextLanguage::Makefile => self.add_text_findings(languages::read_makefile(text), place),
            TextLanguage::Macros => self.add_text_findings(languages::read_macros(text), place),
        }
    }

    /// Evaluates text that is known only at run time.
    fn evaluate_hidden(&mut self, language: TextLanguage, word: &Word, place: &ValuePlace<'_>) {
        match language {
            TextLanguage::Sed => self.sed_parts.push(None),
            TextLanguage::Awk | TextLanguage::Code(_) if !place.attached => self.add_exact_only(CODE_HIDDEN),
            // The known part is examined.
            TextLanguage::Commands(escapes) if escapes.plain.is_empty() && !escapes.exact => {
                self.add_text_findings(languages::read_commands(escapes, word.prefix()), place);
            }
            TextLanguage::ThisShell => {
                self.add_undetermined(place.reason);
                self.push(Finding::LosesDirectory);
            }
            _ => self.add_undetermined(place.reason),
        }
    }

    /// Evaluates the word and all following ones, joined with spaces.
    pub(super) fn evaluate_joined(
        &mut self,
        language: TextLanguage,
        values: &[Word],
        place: &ValuePlace<'_>,
    ) {
        let words = place.from.map_or(values, |from| &self.argv[from..]);
        let words = words.strip_prefix(&[literal_word("--")]).unwrap_or(words);
        if self.is_displaced(place) {
            self.add_undetermined(place.reason);
        }
        match words.iter().map(Word::literal).collect::<Option<Vec<_>>>() {
            Some(words) => self.evaluate(language, &literal_word(&words.join(" ")), place),
            None => self.evaluate_hidden(language, &Word::anything(), place),
        }
    }

    /// Evaluates standard input as text of a language.
    pub(super) fn evaluate_input(&mut self, language: TextLanguage, needed: bool, place: &ValuePlace<'_>) {
        match self.incoming.text {
            Some(text) => self.evaluate(language, &literal_word(text), place),
            None if needed && matches!(language, TextLanguage::Shell) => {
                self.push(Finding::CommandsIn(place.reason));
            }
            None if needed => self.add_undetermined(place.reason),
            None => {}
        }
    }

    /// Evaluates a file with text of a language.
    pub(super) fn evaluate_script(&mut self, language: TextLanguage, word: &Word, place: &ValuePlace<'_>) {
        match script_source(word) {
            ScriptSource::File => self.add_read(&below_base(place, word), PathExtent::File),
            ScriptSource::Unknown => self.add_undetermined(place.reason),
            ScriptSource::Input => self.evaluate_input(language, true, place),
        }
    }

    fn evaluate_awk(&mut self, text: &str, place: &ValuePlace<'_>) {
        let found = languages::read_awk(text);
        if found.writes {
            self.add_exact_only("may write files");
        }
        if text.contains("ARG") {
            let changes = format!("`{}` with a program that isn't known only to print", self.shown);
            self.push(Finding::Changes(changes));
        }
        self.add_text_findings(found.told, place);
    }

    /// Adds what a text runs.
    fn add_text_findings(&mut self, told: languages::TextFindings, place: &ValuePlace<'_>) {
        for text in &told.commands {
            self.hold_text(text, place);
        }
        if told.unknown {
            self.add_undetermined(place.reason);
        }
        if told.exact {
            self.add_exact_only(place.reason);
        }
    }

    /// Evaluates all parts of a sed script as one.
    pub(super) fn evaluate_sed(&mut self, place: &ValuePlace<'_>) {
        let parts = std::mem::take(&mut self.sed_parts);
        if parts.is_empty() {
            return;
        }
        let hidden = parts.iter().any(Option::is_none);
        let text = parts.iter().flatten().map(String::as_str).collect::<Vec<_>>().join("\n");
        let script = languages::read_sed(&text);
        for command in &script.runs {
            if command.is_empty() { self.add_undetermined(TELLS) } else { self.hold_text(command, place) }
        }
        let is_file = |file: &&&str| !file.is_empty() && !streams::is_stream(file);
        for file in script.reads.iter().filter(is_file) {
            self.add_read(&literal_word(file), PathExtent::File);
        }
        for file in script.writes.iter().filter(is_file) {
            self.add_write(literal_word(file), PathExtent::File, false);
        }
        if script.unread {
            self.add_undetermined(TELLS);
        } else if hidden {
            self.add_exact_only(SCRIPT_HIDDEN);
        }
        if hidden || script.unread || !script.runs.is_empty() {
            self.push(Finding::Open);
        }
        if !script.prints || hidden {
            let changes = format!("`{}` with a script that isn't known only to print", self.shown);
            self.push(Finding::Changes(changes));
        }
    }
}

fn script_source(word: &Word) -> ScriptSource {
    match word {
        Word::Literal(text) if text == "-" => ScriptSource::Input,
        Word::Literal(text) => match streams::parse_descriptor(text) {
            Some(0) => ScriptSource::Input,
            Some(_) => ScriptSource::Unknown,
            None => ScriptSource::File,
        },
        Word::Dynamic(open) if open.written.starts_with("<(") => ScriptSource::Unknown,
        Word::Dynamic(_) => ScriptSource::File,
    }
}
