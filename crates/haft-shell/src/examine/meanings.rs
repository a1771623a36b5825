//! Turns what an entry says about a value into findings.

use super::*;

impl CommandExaminer<'_> {
    /// What a value means.
    pub(super) fn meaning(
        &mut self,
        meaning: &ValueMeaning,
        values: &[Word],
        place: &ValuePlace<'_>,
        sed: &mut Vec<Option<String>>,
    ) {
        let modes = place.reading.modes;
        if modes & meaning.when != meaning.when || modes & meaning.unless != 0 {
            return;
        }
        let each =
            |examiner: &mut Self, meanings: &[ValueMeaning], word: &Word, sed: &mut Vec<Option<String>>| {
                for meaning in meanings {
                    examiner.meaning(meaning, std::slice::from_ref(word), place, sed);
                }
            };
        let reason = meaning.reason;
        match (meaning.kind, values) {
            // These need no value.
            (MeaningKind::At(path, meanings), _) => {
                let word = match path.strip_prefix('~') {
                    Some(rest) => at_home(rest),
                    None => literal(path),
                };
                each(self, meanings, &word, sed);
            }
            (MeaningKind::UnknownHost(why), _) => self.push(Finding::UnknownHost(why.to_owned())),
            (MeaningKind::Input(language, needed), _) => match self.incoming.text {
                Some(text) => self.language(language, &literal(text), place, reason, sed),
                None if needed && matches!(language, TextLanguage::Shell) => {
                    self.push(Finding::CommandsIn(reason))
                }
                None if needed => self.undetermined(reason),
                None => {}
            },
            (MeaningKind::Repository(level), _) => self.push(Finding::Repository(level)),
            (MeaningKind::ChangeDirectory, _) => self.push(Finding::ChangeDirectory(values.first().cloned())),
            (MeaningKind::LosesDirectory, _) => self.push(Finding::LosesDirectory),
            (MeaningKind::ShellState, _) => {
                self.exact_only(reason);
                self.push(Finding::ShellState);
            }
            (MeaningKind::Undetermined, _) => self.undetermined(reason),
            (MeaningKind::ExactOnly, _) => self.exact_only(reason),
            (MeaningKind::Changes, _) => {
                let changes = format!("`{}` with these arguments may change something", self.shown);
                self.push(Finding::Changes(changes));
                self.push(Finding::Open);
            }
            (MeaningKind::ChangesListed, _) => {
                let changes = format!("`{}` with these arguments may change something", self.shown);
                self.push(Finding::Changes(changes));
            }
            (MeaningKind::NoValue(meanings), []) => {
                for meaning in meanings {
                    self.meaning(meaning, &[], place, sed);
                }
            }
            (MeaningKind::NoValue(_), _) => {}
            (MeaningKind::Opens, _) => self.push(Finding::Open),
            (MeaningKind::WritesAnywhere, _) => {
                self.push(Finding::Write { word: Word::anything(), extent: PathExtent::Tree, loose: false });
            }
            (MeaningKind::Exclusive, _) => self.push(Finding::Exclusive),
            (MeaningKind::PrintsPaths, _) => self.prints_paths(place),
            (MeaningKind::Head | MeaningKind::Mark, _) => {}
            (MeaningKind::Command(form), []) if place.head.is_some() => {
                self.command(form, &[], place, reason)
            }
            (_, []) => {}
            (MeaningKind::Read(extent), [word, ..]) => self.file(&below_base(place, word), extent),
            (MeaningKind::Write(extent) | MeaningKind::WriteLoose(extent), [word, ..]) => {
                let loose = matches!(meaning.kind, MeaningKind::WriteLoose(_));
                if !is_stream(word) && (!loose || is_place(word)) {
                    self.push(Finding::Write { word: below_base(place, word), extent, loose });
                }
            }
            (MeaningKind::WriteInto, [word, ..]) => {
                if !matches!(word.literal(), Some("." | "./" | "")) {
                    let word = below_base(place, word);
                    self.push(Finding::Write { word, extent: PathExtent::Tree, loose: false });
                }
            }
            (MeaningKind::Delete(extent), [word, ..]) => {
                let recursive = extent == PathExtent::Tree;
                self.push(Finding::Delete {
                    word: below_base(place, word),
                    extent,
                    recursive,
                    matches: false,
                });
            }
            (MeaningKind::DeleteMatches, [word, ..]) => {
                let (extent, recursive) = (PathExtent::Tree, true);
                self.push(Finding::Delete {
                    word: below_base(place, word),
                    extent,
                    recursive,
                    matches: true,
                });
            }
            (MeaningKind::Folder | MeaningKind::OperandFolder, [word, ..]) => {
                if matches!(meaning.kind, MeaningKind::Folder) {
                    self.file(word, PathExtent::File);
                }
            }
            (MeaningKind::Derived(rule), values) => self.derived(rule, values, place),
            (MeaningKind::Connect(form, access), [word, ..]) => {
                address::connect(form, word, access, &mut self.findings)
            }
            (MeaningKind::Text(language), [word, ..]) => self.language(language, word, place, reason, sed),
            (MeaningKind::Joined(language), values) => {
                let words = match place.from {
                    Some(from) => &self.argv[from..],
                    None => values,
                };
                let words = words.strip_prefix(&[literal("--")]).unwrap_or(words);
                let before = place.reading.operands.iter().map(|at| place.start + at);
                let mut before = before.filter(|at| place.from.is_some_and(|from| *at < from));
                if before.any(|at| !is_certain(&self.argv[at])) {
                    self.undetermined(reason);
                }
                match words.iter().map(Word::literal).collect::<Option<Vec<_>>>() {
                    Some(words) => {
                        let text = literal(&words.join(" "));
                        self.language(language, &text, place, reason, sed);
                    }
                    None => {
                        self.undetermined(reason);
                        if matches!(language, TextLanguage::ThisShell) {
                            self.push(Finding::LosesDirectory);
                        }
                    }
                }
            }
            (MeaningKind::Script(language), [word, ..]) => match script_source(word) {
                ScriptSource::File => self.file(&below_base(place, word), PathExtent::File),
                ScriptSource::Unknown => self.undetermined(reason),
                ScriptSource::Input => {
                    let input = ValueMeaning { kind: MeaningKind::Input(language, true), ..*meaning };
                    self.meaning(&input, &[], place, sed);
                }
            },
            (MeaningKind::Program, [word, ..]) => match word.literal() {
                Some(text) => self.program(text, place, reason),
                None => self.undetermined(reason),
            },
            (MeaningKind::ProgramList(sign), [word, ..]) => match word.literal() {
                Some(text) => self.program(&text.replace(sign, " "), place, reason),
                None => self.undetermined(reason),
            },
            (MeaningKind::Command(form), values) => self.command(form, values, place, reason),
            (MeaningKind::Template, values) => self.template(values, place),
            (MeaningKind::Splice, [word, ..]) => self.splice(word, place),
            (MeaningKind::Prepend(names), values) => {
                let words = match values {
                    [Word::Literal(text)] => plain_words(text),
                    values => Some(values.to_vec()),
                };
                match words {
                    Some(words) => {
                        let mut argv: Vec<Word> = names.split(' ').map(literal).collect();
                        argv.extend(words);
                        if place.from.is_none() || place.attached {
                            argv.push(Word::anything());
                        }
                        self.held(HeldCommand::Words(argv), place, reason, HeldShell::Another);
                    }
                    None => self.undetermined(reason),
                }
            }
            (MeaningKind::Module, values) => self.module(values),
            (MeaningKind::Variable, [word, ..]) => self.variable(word),
            (MeaningKind::VariableName, [word, ..]) => {
                if word.literal().is_none_or(|name| !parse::is_name(name)) {
                    self.meaning_of_state();
                }
            }
            (MeaningKind::KeyValue(table), [word, ..]) => {
                let text = word.prefix();
                match text.find(table.separators) {
                    Some(end) => {
                        let value = without(word, end + 1);
                        self.key(table, &text[..end], &value, place, sed, table.other);
                    }
                    None if word.literal().is_some() => {
                        self.key(table, text, &literal(table.alone), place, sed, table.other);
                    }
                    None => self.undetermined(reason),
                }
            }
            (MeaningKind::KeyPair(table), [key, value, ..]) => match key.literal() {
                Some(key) => {
                    const OTHER: &[ValueMeaning] = &[EXACT_ONLY.reason("changes how it works")];
                    self.key(table, key, value, place, sed, OTHER);
                }
                None => self.undetermined(reason),
            },
            (MeaningKind::KeyPair(_), _) => {}
            (MeaningKind::Prefixed(prefix, rest, other), [word, ..]) => {
                let text = word.prefix();
                let may_be = word.literal().is_none() && prefix.starts_with(text);
                if text.starts_with(prefix) {
                    each(self, rest, &without(word, prefix.len()), sed);
                } else {
                    each(self, other, word, sed);
                    if may_be {
                        each(self, rest, word, sed);
                    }
                }
            }
            (MeaningKind::Contains(sign, with, other), [word, ..]) => {
                if word.prefix().contains(sign) || word.literal().is_none() {
                    each(self, with, word, sed);
                } else {
                    each(self, other, word, sed);
                }
            }
            (MeaningKind::IfHidden(hidden, known), [word, ..]) => {
                each(self, if word.literal().is_none() { hidden } else { known }, word, sed);
            }
            (MeaningKind::Activates(script, other), [word, ..]) => {
                let inside = |text: &str| !text.starts_with('/') && text.split('/').all(|part| part != "..");
                let activates =
                    word.literal().is_some_and(|text| inside(text) && text.ends_with("/bin/activate"));
                each(self, if activates { script } else { other }, word, sed);
            }
            (MeaningKind::NotContaining(sign, meanings), [word, ..]) => {
                if !word.prefix().contains(sign) {
                    each(self, meanings, word, sed);
                }
            }
            (MeaningKind::Mentions(names, meanings), [word, ..]) => {
                let text = word.plain().to_ascii_lowercase();
                if names.split(' ').any(|name| text.contains(name)) {
                    each(self, meanings, word, sed);
                }
            }
            (MeaningKind::Starts(prefix, with, other), [word, ..]) => {
                let fits = word.prefix().starts_with(prefix);
                each(self, if fits { with } else { other }, word, sed);
            }
            (MeaningKind::PrefixedFold(prefix, rest), [word, ..]) => {
                let front = word.prefix().get(..prefix.len());
                if front.is_some_and(|front| front.eq_ignore_ascii_case(prefix)) {
                    each(self, rest, &without(word, prefix.len()), sed);
                }
            }
            (MeaningKind::Until(sign, meanings), [word, ..]) => {
                let part = word.literal().map(|text| literal(text.split(sign).next().unwrap_or_default()));
                each(self, meanings, part.as_ref().unwrap_or(word), sed);
            }
            (MeaningKind::IfContains(sign, meanings), [word, ..]) => {
                if word.prefix().contains(sign) {
                    each(self, meanings, word, sed);
                }
            }
            (MeaningKind::SeveralWords(meanings), [word, ..]) => {
                let one = word.literal().is_some_and(|text| {
                    text.is_empty() || plain_words(text).is_some_and(|words| words.len() == 1)
                });
                if !one {
                    each(self, meanings, word, sed);
                }
            }
            (MeaningKind::Local(meanings), [word, ..]) => {
                let text = shape(word);
                let first = text.split('/').next().unwrap_or_default();
                if !text.contains("://") && !first.contains(':') {
                    each(self, meanings, word, sed);
                }
            }
            (MeaningKind::LeadsElsewhere(meanings), [word, ..]) => {
                let outside = |text: &str| text.starts_with('/') || text.starts_with("../") || text == "..";
                if word.literal().is_none_or(outside) {
                    each(self, meanings, word, sed);
                }
            }
            (MeaningKind::BeforeDashes(meanings), [word, ..]) => {
                let number =
                    place.reading.operands.iter().position(|at| Some(place.start + at) == place.from);
                if place.reading.dashes.is_none_or(|dashes| number.is_some_and(|number| number < dashes)) {
                    each(self, meanings, word, sed);
                }
            }
            (MeaningKind::Descriptor, [word, ..]) => {
                if streams::descriptor(word.plain()).is_some() {
                    self.undetermined(reason);
                }
            }
            (MeaningKind::Transport, [word, ..]) => {
                let text = word.prefix();
                let plain = |helper: &str| helper.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
                match (text.strip_prefix("ext::"), word.literal()) {
                    (Some(command), Some(_)) => {
                        self.held(HeldCommand::Text(command.to_owned()), place, reason, HeldShell::Another);
                    }
                    (Some(_), None) => self.undetermined(reason),
                    (None, _)
                        if text
                            .split_once("::")
                            .is_some_and(|(helper, _)| !helper.is_empty() && plain(helper)) =>
                    {
                        self.undetermined(reason);
                    }
                    _ => {}
                }
            }
            (MeaningKind::HiddenKey(table), [word, ..]) => {
                let name = word.prefix().split('=').next().unwrap_or_default().to_owned();
                self.key(table, &name, &Word::anything(), place, sed, table.other);
            }
            (MeaningKind::Subcommand(entries), [word, ..]) => {
                let named = |entry: &&ProgramEntry| {
                    word.literal().is_some_and(|name| entry.all_names().any(|known| known == name))
                };
                match (entries.iter().find(named), place.from) {
                    (Some(entry), Some(from)) => self.entry(entry, from + 1),
                    _ if word.literal().is_none() => self.undetermined(reason),
                    _ => {}
                }
            }
            (MeaningKind::PackageOf(names), [word, ..]) => {
                let text = word.plain();
                let program = package_program(text).unwrap_or(text);
                match word.literal() {
                    None => self.undetermined(reason),
                    Some(_) if is_one_of(names, program) => {
                        each(self, &[LAUNCH_PACKAGE], word, sed);
                    }
                    Some(_) => {}
                }
            }
            (MeaningKind::Multiplexes(quiet), [word, ..]) => {
                if place.reading.operands.first().map(|at| place.start + at) != place.from {
                    return;
                }
                let looks =
                    word.literal().is_some_and(|verb| quiet.split(' ').any(|start| verb.starts_with(start)));
                if looks && !self.argv.iter().any(|word| word.plain() == ";") {
                    return;
                }
                // What is sent or started: each literal word may be a text for a shell.
                let last =
                    self.argv.iter().skip(2).filter_map(Word::literal).rfind(|text| text.contains(' '));
                if let Some(text) = last.map(str::to_owned) {
                    self.held(HeldCommand::Text(text), place, reason, HeldShell::Another);
                }
                self.undetermined(reason);
            }
            (MeaningKind::Second(meanings), [_, word, ..]) => each(self, meanings, word, sed),
            (MeaningKind::Second(_), _) => {}
            (MeaningKind::After(sign, meanings), [word, ..]) => {
                if let Some(at) = word.prefix().find(sign) {
                    each(self, meanings, &without(word, at + sign.len()), sed);
                }
            }
            (MeaningKind::List(sign, meanings), [word, ..]) => match word.literal() {
                Some(text) => text.split(sign).for_each(|part| each(self, meanings, &literal(part), sed)),
                None => each(self, meanings, word, sed),
            },
            (MeaningKind::OneOf(names, listed, other), [word, ..]) => match word.literal() {
                Some(text) if is_one_of(names, text) => each(self, listed, word, sed),
                Some(_) => each(self, other, word, sed),
                None => {
                    each(self, listed, word, sed);
                    each(self, other, word, sed);
                }
            },
        }
    }

    /// The value of a key.
    pub(super) fn key(
        &mut self,
        table: &'static KeyTable,
        name: &str,
        value: &Word,
        place: &ValuePlace<'_>,
        sed: &mut Vec<Option<String>>,
        other: &[ValueMeaning],
    ) {
        let name = name.trim();
        let name = if table.fold_case { name.to_ascii_lowercase() } else { name.to_owned() };
        let fits = |spec: &&KeySpec| spec.keys.split(' ').any(|pattern| fits_key(pattern, &name));
        let meanings = table.keys.iter().find(fits).map_or(other, |spec| spec.meanings);
        let place = ValuePlace { from: None, attached: true, ..*place };
        for meaning in meanings {
            self.meaning(meaning, std::slice::from_ref(value), &place, sed);
        }
    }

    pub(super) fn variable(&mut self, word: &Word) {
        let text = word.prefix();
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.trim_end_matches('+'), Some(value)),
            None => (text, None),
        };
        let known = word.literal().is_some() || value.is_some();
        if !known || !parse::is_name(name) {
            return self.meaning_of_state();
        }
        let value = word.literal().and(value).map(str::to_owned);
        self.push(Finding::Variable { name: name.to_owned(), value });
    }

    pub(super) fn held(
        &mut self,
        command: HeldCommand,
        place: &ValuePlace<'_>,
        reason: &'static str,
        shell: HeldShell,
    ) {
        if let HeldCommand::Words(words) = &command
            && words.first().and_then(Word::literal).is_none()
        {
            return self.undetermined(reason);
        }
        let traits = place.entry.traits;
        let given = traits.has(ProgramTraits::COMMANDS_ELSEWHERE) && reason == RUNS_GIVEN;
        let elsewhere = traits.has(ProgramTraits::RUNS_ELSEWHERE) || given || shell == HeldShell::Later;
        let quiet = traits.has(ProgramTraits::QUIET)
            && self.findings.iter().all(|found| !matches!(found, Finding::Undetermined));
        self.push(Finding::Held(HeldFinding { command, elsewhere, quiet, shell, reason }));
    }

    /// A program, to which more arguments are added.
    pub(super) fn program(&mut self, text: &str, place: &ValuePlace<'_>, reason: &'static str) {
        let command = match plain_words(text) {
            Some(mut words) => {
                words.push(Word::anything());
                HeldCommand::Words(words)
            }
            None => HeldCommand::Text(text.to_owned()),
        };
        self.held(command, place, reason, HeldShell::Another);
    }

    /// Words up to `:::` that are joined, filled in and read by a shell.
    pub(super) fn template(&mut self, values: &[Word], place: &ValuePlace<'_>) {
        let ends = |word: &&Word| word.literal().is_some_and(|text| text.starts_with(":::"));
        let words: Vec<&Word> = values.iter().take_while(|word| !ends(word)).collect();
        let texts: Option<Vec<&str>> = words.iter().map(|word| word.literal()).collect();
        // The values are the commands.
        let Some(texts) = texts.filter(|texts| !texts.is_empty()) else { return self.undetermined(TELLS) };
        let plain = |text: &&str| plain_words(&text.replace(['{', '}'], "")).is_some() || *text == "{}";
        if !texts.iter().all(plain) || texts[0].contains('{') {
            self.undetermined(TELLS);
        }
        let text = texts.join(" ");
        let shape = marks::EXPANSION.to_string();
        match plain_words(&text.replace(['{', '}'], "")) {
            Some(_) => {
                let split = text.split(' ').filter(|word| !word.is_empty()).map(literal);
                let mut argv: Vec<Word> = split.map(|word| replace_mark(&word, "{", &shape)).collect();
                argv.push(Word::anything());
                self.held(HeldCommand::Words(argv), place, TELLS, HeldShell::Another);
            }
            None => self.held(HeldCommand::Text(text), place, TELLS, HeldShell::Another),
        }
    }

    /// A module of an interpreter, which may have an entry of its own.
    pub(super) fn module(&mut self, values: &[Word]) {
        let Some(name) = values.first().and_then(Word::literal) else { return };
        let mut argv = values.to_vec();
        if programs::find(&format!("-m:{name}")).is_some() {
            argv[0] = literal(&format!("-m:{name}"));
        } else if programs::find(name).is_none() {
            return;
        }
        if self.depth < SPLICES_MAX {
            for finding in examine_nested(&argv, self.incoming, self.depth + 1) {
                if !matches!(finding, Finding::Layer(_)) {
                    self.push(finding);
                }
            }
        }
    }

    /// Words of the same program, in one word.
    pub(super) fn splice(&mut self, word: &Word, place: &ValuePlace<'_>) {
        let words = word.literal().and_then(plain_words);
        let Some(words) = words.filter(|_| self.depth < SPLICES_MAX) else {
            return self.undetermined(TELLS);
        };
        let mut argv = vec![self.argv[0].clone()];
        argv.extend(words);
        let rest = place.start + place.reading.next_after(place);
        argv.extend_from_slice(&self.argv[rest.min(self.argv.len())..]);
        for finding in examine_nested(&argv, self.incoming, self.depth + 1) {
            let finding = match finding {
                Finding::Layer(layer) => Finding::Layer(LayerFinding { from: None, ..layer }),
                other => other,
            };
            self.push(finding);
        }
    }

    pub(super) fn command(
        &mut self,
        form: CommandForm,
        values: &[Word],
        place: &ValuePlace<'_>,
        reason: &'static str,
    ) {
        let mut from = place.from;
        let mut words: Vec<Word> = match from {
            Some(from) if form.scope != AllowScope::Held => self.argv[from.min(self.argv.len())..].to_vec(),
            _ => values.to_vec(),
        };
        // What stands before the command must be known to be there.
        let before = place.reading.operands.iter().map(|at| place.start + at);
        let uncertain =
            before.filter(|at| from.is_some_and(|from| *at < from)).any(|at| !is_certain(&self.argv[at]));
        if uncertain {
            return self.undetermined("starts another command");
        }
        if words.first().and_then(Word::literal) == Some("--") {
            words.remove(0);
            from = from.map(|from| from + 1);
        }
        if place.entry.traits.has(ProgramTraits::TAKES_VARIABLES) {
            while let Some((name, _)) = words.first().and_then(|word| word.prefix().split_once('=')) {
                if !is_certain(&words[0]) {
                    return self.undetermined("starts another command");
                }
                let value = words[0].literal().map(|text| text[name.len() + 1..].to_owned());
                let name = name.to_owned();
                self.push(Finding::Variable { name, value });
                words.remove(0);
                from = from.map(|from| from + 1);
                // Options may follow.
                while words.first().is_some_and(|word| word.prefix().starts_with("--")) {
                    words.remove(0);
                    from = from.map(|from| from + 1);
                }
            }
        }
        if let Some(head) = place.head {
            let Some(front) = head.literal().and_then(plain_words) else {
                return self.undetermined("starts another command");
            };
            words.splice(0..0, front);
            from = None;
        }
        let Some(first) = words.first() else { return };
        if first.literal().is_none() {
            return self.undetermined("starts another command");
        }
        match form.fill {
            ArgvFill::Plain => {}
            ArgvFill::Append => words.push(self.incoming.names.cloned().unwrap_or_else(Word::anything)),
            ArgvFill::Mark(usual) => {
                let mark = match place.mark {
                    Some(word) => word.literal().unwrap_or_default(),
                    None => usual,
                };
                if mark.is_empty() || words[0].plain().contains(mark) {
                    return self.undetermined("starts another command");
                }
                let shape = self.incoming.names.map_or(marks::EXPANSION.to_string(), shape);
                words = words.iter().map(|word| replace_mark(word, mark, &shape)).collect();
            }
            ArgvFill::Matches => {
                let shape = self.found_names(place).map_or(marks::EXPANSION.to_string(), |word| shape(&word));
                words = words.iter().map(|word| replace_mark(word, "{}", &shape)).collect();
            }
            ArgvFill::Braces => {
                let shape = marks::EXPANSION.to_string();
                words = words.iter().map(|word| replace_mark(word, "{", &shape)).collect();
                words.push(Word::anything());
            }
            ArgvFill::Package => {
                if let Some(name) = package_program(words[0].plain()) {
                    words[0] = literal(name);
                    from = None;
                }
            }
        }
        let started = match form.scope {
            AllowScope::Held => {
                let elsewhere = form.location != RunLocation::Here;
                let Some(_) = words.first().and_then(Word::literal) else { return self.undetermined(reason) };
                let command = HeldCommand::Words(words);
                let held =
                    HeldFinding { command, elsewhere, quiet: form.quiet, shell: HeldShell::Another, reason };
                return self.push(Finding::Held(held));
            }
            AllowScope::Past if !self.renamed => Started::Wrapped,
            AllowScope::OwnName => Started::Launched,
            AllowScope::Past | AllowScope::Exact => Started::Executed,
        };
        let CommandForm { location, quiet, .. } = form;
        let likely = self.likely;
        self.push(Finding::Layer(LayerFinding { argv: words, from, started, location, quiet, likely }));
    }

    pub(super) fn derived(&mut self, rule: DerivedPath, values: &[Word], place: &ValuePlace<'_>) {
        let write = |word: Word, extent: PathExtent| Finding::Write { word, extent, loose: false };
        let first = values.first().and_then(Word::literal);
        match rule {
            DerivedPath::UrlFileName => {
                let Some(text) = first else { return };
                let path = text.split_once("://").map_or(text, |(_, rest)| rest);
                let path = path.split(['?', '#']).next().unwrap_or(path);
                let name = path.split('/').skip(1).last().filter(|name| !name.is_empty());
                self.push(write(literal(name.unwrap_or("index.html")), PathExtent::File));
            }
            DerivedPath::RepositoryName => {
                let name = first.map(|text| text.trim_end_matches('/').trim_end_matches(".git"));
                let name =
                    name.and_then(|text| text.rsplit(['/', ':']).next()).filter(|name| !name.is_empty());
                if let Some(name) = name.filter(|name| *name != ".") {
                    self.push(write(literal(name), PathExtent::Tree));
                }
            }
            DerivedPath::PiecePrefix(end) => {
                let word = match first {
                    Some(text) => literal(&format!("{text}{end}")),
                    None => values[0].clone(),
                };
                self.push(write(word, PathExtent::File));
            }
            DerivedPath::BaseName => {
                match first.and_then(|text| text.trim_end_matches('/').rsplit('/').next()) {
                    Some(name) => self.push(write(literal(name), PathExtent::File)),
                    None => self.push(Finding::Open),
                }
            }
            DerivedPath::IntoTarget(extent) => {
                let (target, sources) = match (place.head, values.split_last()) {
                    (Some(target), _) => (target, values),
                    (None, Some((target, sources))) => (target, sources),
                    (None, None) => return,
                };
                if sources.is_empty() && place.head.is_none() {
                    return self.push(Finding::Open);
                }
                for source in sources {
                    let name = source.plain().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                    let plain = !matches!(name, "" | "." | "..") && is_place(source);
                    let joined = below(target, &literal(name));
                    match plain && is_place(target) {
                        true => self.push(Finding::Write { word: joined, extent, loose: true }),
                        false => self.push(Finding::Open),
                    }
                }
                if is_place(target) {
                    self.push(Finding::Write { word: target.clone(), extent, loose: true });
                }
            }
        }
    }

    /// The pattern that names of found files fit: below the operands, if these are plain folders.
    pub(super) fn found_names(&self, place: &ValuePlace<'_>) -> Option<Word> {
        let operands = place.reading.operands.iter();
        let roots: Option<Vec<&str>> = operands.map(|at| self.argv[place.start + at].literal()).collect();
        let roots = roots?;
        let plain = |root: &&str| {
            !root.is_empty() && !root.starts_with(['/', '-']) && root.split('/').all(|part| part != "..")
        };
        match roots[..] {
            _ if !roots.iter().all(plain) => None,
            [only] => Some(names_below(only)),
            _ => Some(names_below(".")),
        }
    }

    pub(super) fn prints_paths(&mut self, place: &ValuePlace<'_>) {
        if place.reading.unknown.is_empty()
            && !place.reading.loose
            && let Some(word) = self.found_names(place)
        {
            self.push(Finding::PrintsPaths(word));
        }
    }

    /// Text of another language.
    pub(super) fn language(
        &mut self,
        language: TextLanguage,
        word: &Word,
        place: &ValuePlace<'_>,
        reason: &'static str,
        sed: &mut Vec<Option<String>>,
    ) {
        let text = word.literal();
        let shell = match language {
            TextLanguage::ThisShell => HeldShell::This,
            TextLanguage::Deferred => HeldShell::Later,
            _ => HeldShell::Another,
        };
        match (language, text) {
            (TextLanguage::Sed, _) => sed.push(text.map(str::to_owned)),
            (TextLanguage::Shell | TextLanguage::ThisShell | TextLanguage::Deferred, Some(text)) => {
                self.held(HeldCommand::Text(text.to_owned()), place, reason, shell);
            }
            (TextLanguage::Awk | TextLanguage::Code(_), None) if !place.attached => {
                self.exact_only(CODE_HIDDEN)
            }
            (TextLanguage::Commands(escapes), None) if escapes.plain.is_empty() && !escapes.exact => {
                // What is known of it is looked at.
                let found = languages::read_commands(escapes, word.prefix());
                self.told(found, place, reason);
            }
            (_, None) => {
                self.undetermined(reason);
                if shell == HeldShell::This {
                    self.push(Finding::LosesDirectory);
                }
            }
            (TextLanguage::ShellWords, Some(text)) => {
                if text.contains(['$', '`', '<', '>']) {
                    self.held(HeldCommand::Text(format!(": {text}")), place, RUNS_GIVEN, shell);
                }
            }
            (TextLanguage::Awk, Some(text)) => {
                let found = languages::read_awk(text);
                if found.writes {
                    self.exact_only("may write files");
                }
                if text.contains("ARG") {
                    let changes = format!("`{}` with a program that isn't known only to print", self.shown);
                    self.push(Finding::Changes(changes));
                }
                self.told(found.told, place, reason);
            }
            (TextLanguage::Code(signs), Some(text)) => {
                self.told(languages::read_code(signs, text), place, reason)
            }
            (TextLanguage::Commands(escapes), Some(text)) => {
                self.told(languages::read_commands(escapes, text), place, reason);
            }
            (TextLanguage::Makefile, Some(text)) => self.told(languages::read_makefile(text), place, reason),
            (TextLanguage::Macros, Some(text)) => self.told(languages::read_macros(text), place, reason),
        }
    }

    /// What a text runs.
    pub(super) fn told(
        &mut self,
        told: languages::TextFindings,
        place: &ValuePlace<'_>,
        reason: &'static str,
    ) {
        for text in told.commands {
            self.held(HeldCommand::Text(text), place, reason, HeldShell::Another);
        }
        if told.unknown {
            self.undetermined(reason);
        }
        if told.exact {
            self.exact_only(reason);
        }
    }

    /// All parts of a script for `sed`, as one.
    pub(super) fn sed(&mut self, parts: &[Option<String>], place: &ValuePlace<'_>) {
        if parts.is_empty() {
            return;
        }
        let hidden = parts.iter().any(Option::is_none);
        let text = parts.iter().flatten().map(String::as_str).collect::<Vec<_>>().join("\n");
        let script = languages::read_sed(&text);
        for command in &script.runs {
            match command.is_empty() {
                true => self.undetermined(TELLS),
                false => {
                    self.held(HeldCommand::Text((*command).to_owned()), place, TELLS, HeldShell::Another)
                }
            }
        }
        let is_file = |file: &&&str| !file.is_empty() && !streams::is_stream(file);
        for file in script.reads.iter().filter(is_file) {
            self.file(&literal(file), PathExtent::File);
        }
        for file in script.writes.iter().filter(is_file) {
            self.push(Finding::Write { word: literal(file), extent: PathExtent::File, loose: false });
        }
        if script.unread {
            self.undetermined(TELLS);
        } else if hidden {
            self.exact_only(SCRIPT_HIDDEN);
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
