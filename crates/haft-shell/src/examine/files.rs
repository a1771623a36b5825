//! Files that a command reads, writes and deletes, as far as its words show.

use super::*;

impl CommandExaminer<'_> {
    pub(super) fn add_read(&mut self, word: &Word, extent: PathExtent) {
        if !is_stream(word) {
            self.push(Finding::Read { word: word.clone(), extent });
        }
    }

    /// Adds a write; `loose`: if the path is unknown, it is left to the effects.
    pub(super) fn add_write(&mut self, word: Word, extent: PathExtent, loose: bool) {
        self.push(Finding::Write { word, extent, loose });
    }

    /// Adds a deletion; `matches`: only what is found below.
    pub(super) fn add_delete(&mut self, word: Word, extent: PathExtent, matches: bool) {
        let recursive = extent != PathExtent::File;
        self.push(Finding::Delete { word, extent, recursive, matches });
    }

    /// Adds a path that is derived from other words.
    pub(super) fn add_derived(&mut self, rule: DerivedPath, values: &[Word], place: &ValuePlace<'_>) {
        let text = values[0].literal();
        match rule {
            DerivedPath::UrlFileName => {
                if let Some(text) = text {
                    self.add_write(literal_word(url_file_name(text)), PathExtent::File, false);
                }
            }
            DerivedPath::LastName(end) => {
                let name = text.map(|text| text.trim_end_matches('/').trim_end_matches(end));
                let name = name.and_then(|text| text.rsplit(['/', ':']).next());
                if let Some(name) = name.filter(|name| !matches!(*name, "" | ".")) {
                    self.add_write(literal_word(name), PathExtent::Tree, false);
                }
            }
            DerivedPath::PiecePrefix(end) => {
                let word =
                    text.map_or_else(|| values[0].clone(), |text| literal_word(&format!("{text}{end}")));
                self.add_write(word, PathExtent::File, false);
            }
            DerivedPath::BaseName => match text {
                Some(text) => self.add_write(literal_word(last_part(text)), PathExtent::File, false),
                None => self.push(Finding::Open),
            },
            DerivedPath::IntoTarget(extent) => self.write_into_target(extent, values, place),
        }
    }

    /// Adds sources and a target, which is a file or a folder.
    fn write_into_target(&mut self, extent: PathExtent, values: &[Word], place: &ValuePlace<'_>) {
        let (target, sources) = match (place.head, values.split_last()) {
            (Some(target), _) => (target, values),
            (None, Some((target, sources))) if !sources.is_empty() => (target, sources),
            _ => return self.push(Finding::Open),
        };
        for source in sources {
            let name = last_part(source.plain());
            let plain = !matches!(name, "" | "." | "..") && is_place(source);
            if plain && is_place(target) {
                self.add_write(path_below(target, &literal_word(name)), extent, true)
            } else {
                self.push(Finding::Open)
            }
        }
        if is_place(target) {
            self.add_write(target.clone(), extent, true);
        }
    }

    /// Returns the pattern for names of found files: below the operands, if these are plain folders.
    pub(super) fn found_names(&self, place: &ValuePlace<'_>) -> Option<Word> {
        let operands = place.reading.operands.iter();
        let roots: Option<Vec<&str>> = operands.map(|at| self.argv[place.start + at].literal()).collect();
        let plain = |root: &&str| {
            !root.is_empty() && !root.starts_with(['/', '-']) && root.split('/').all(|part| part != "..")
        };
        let roots = roots.filter(|roots| roots.iter().all(plain))?;
        Some(names_below(if let [only] = roots[..] { only } else { "." }))
    }

    /// Adds printed paths; `from_here`: relative to this folder, whatever the operands are.
    pub(super) fn add_printed_paths(&mut self, place: &ValuePlace<'_>, from_here: bool) {
        if !place.reading.unknown.is_empty() || place.reading.loose {
            return;
        }
        let word = if from_here { Some(bare_names()) } else { self.found_names(place) };
        if let Some(word) = word {
            self.push(Finding::PrintsPaths(word));
        }
    }

    /// An unknown word may be an option that prints something else.
    pub(super) fn add_printed_numbers(&mut self) {
        if self.argv.iter().all(|word| word.literal().is_some()) {
            self.push(Finding::PrintsNumbers);
        }
    }

    /// Adds the effects of a program that changes files if an option or an operand is unknown: each word
    /// that may be a file counts, with everything below it.
    pub(super) fn change_roughly(&mut self, place: &ValuePlace<'_>, words: &[Word]) -> bool {
        let (entry, reading) = (place.entry, place.reading);
        let operands = || reading.operands.iter().map(|at| &words[*at]);
        if reading.unknown.is_empty() && operands().chain(place.head).all(is_place) {
            return false;
        }
        self.push(Finding::Open);
        let meanings = || entry.operands.iter().flat_map(|spec| spec.meanings);
        let has = |wanted: fn(&MeaningKind) -> bool| meanings().any(|meaning| wanted(&meaning.kind));
        // A list in braces may contain an option.
        let brace = |word: &Word| matches!(word, Word::Dynamic(open) if open.shape.contains(marks::BRACE) && open.shape.contains('-'));
        let trees = |meaning: &ValueMeaning| {
            matches!(meaning.kind, MeaningKind::Delete(PathExtent::Tree)) && meaning.applies(reading.modes)
        };
        let recursive = operands().any(brace) || meanings().any(trees);
        let copies = has(|kind| matches!(kind, MeaningKind::Derived(_)));
        let deletes = has(|kind| matches!(kind, MeaningKind::Delete(_))) && !copies;
        let extent = PathExtent::Tree;
        for word in operands().chain(place.head).cloned() {
            if deletes {
                self.push(Finding::Delete { word, extent, recursive, matches: false });
            } else if is_place(&word) {
                if copies {
                    self.push(Finding::Read { word: word.clone(), extent });
                }
                self.add_write(word, extent, true);
            }
        }
        true
    }
}

/// Returns the name of a file that is downloaded from an address.
fn url_file_name(text: &str) -> &str {
    let path = text.split_once("://").map_or(text, |(_, rest)| rest);
    let path = path.split(['?', '#']).next().unwrap_or(path);
    path.split('/').skip(1).last().filter(|name| !name.is_empty()).unwrap_or("index.html")
}

fn last_part(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

/// Returns whether a word is standard input or output, or is not a file.
pub(super) fn is_stream(word: &Word) -> bool {
    is_pipe(word) || word.literal().is_some_and(|text| matches!(text, "-" | "") || streams::is_stream(text))
}

/// Returns whether a word is the output of another command: `<(…)`.
pub(super) fn is_pipe(word: &Word) -> bool {
    let Word::Dynamic(open) = word else { return false };
    let whole = open.written.starts_with("<(") && open.written.ends_with(')');
    whole && open.shape.chars().eq([marks::EXPANSION])
}

/// Returns whether the path of a word is known.
pub(crate) fn is_place(word: &Word) -> bool {
    match word {
        Word::Literal(_) => true,
        Word::Dynamic(open) => open.shape.starts_with(marks::HOME),
    }
}

pub(super) fn below_base(place: &ValuePlace<'_>, word: &Word) -> Word {
    place.base.map_or_else(|| word.clone(), |base| path_below(base, word))
}

/// Returns a word relative to a folder.
pub(super) fn path_below(base: &Word, word: &Word) -> Word {
    match (base, word) {
        _ if base == word => word.clone(),
        (_, Word::Literal(text)) if text.starts_with('/') => word.clone(),
        (Word::Literal(base), Word::Literal(text)) => {
            literal_word(&format!("{}/{text}", base.trim_end_matches('/')))
        }
        (Word::Dynamic(open), Word::Literal(text)) if open.shape.starts_with(marks::HOME) => {
            at_home(&format!("{}/{text}", open.shape[1..].trim_end_matches('/')))
        }
        (_, Word::Dynamic(open)) if open.shape.starts_with(marks::HOME) => word.clone(),
        _ => Word::anything(),
    }
}

/// Returns the folder that contains everything that a pattern matches: `.` for `*.rs`, `src` for
/// `src/*/mod.rs`. Only for a relative pattern without other expansions that can't lead up again: `.*` may
/// match `..`.
pub(crate) fn pattern_folder(word: &Word) -> Option<std::path::PathBuf> {
    let Word::Dynamic(open) = word else { return None };
    let shape = open.shape.as_str();
    let is_pattern = |part: &str| part.contains(marks::GLOB);
    let plain = |part: &str| {
        part.chars().all(|c| c >= marks::GLOB) && part != ".." && !(is_pattern(part) && part.starts_with('.'))
    };
    if shape.starts_with(['/', '-']) || !is_pattern(shape) || !shape.split('/').all(plain) {
        return None;
    }
    let folder: std::path::PathBuf = shape.split('/').take_while(|part| !is_pattern(part)).collect();
    Some(if folder.as_os_str().is_empty() { ".".into() } else { folder })
}

/// Returns a word for names in this folder, which may begin in any way.
fn bare_names() -> Word {
    Word::Dynamic(DynamicWord { written: "…".to_owned(), shape: format!("{}_", marks::GLOB), splits: true })
}

/// Returns a word for names below a folder.
pub(crate) fn names_below(folder: &str) -> Word {
    let folder = folder.trim_end_matches('/');
    Word::Dynamic(DynamicWord {
        written: "…".to_owned(),
        // Not everything in the folder.
        shape: format!("{folder}/{}_", marks::GLOB),
        splits: true,
    })
}
