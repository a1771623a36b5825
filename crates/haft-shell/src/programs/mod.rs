//! The entries of all known programs, and how an entry is found by its program's name.
//!
//! Each program has one entry with everything that is known of it, so a new program is one edit. The page
//! `docs/programs.md` is generated from these entries.

#[rustfmt::skip]
mod archives;
#[rustfmt::skip]
mod build;
#[rustfmt::skip]
mod databases;
#[rustfmt::skip]
mod editors;
#[rustfmt::skip]
mod files;
#[rustfmt::skip]
mod git;
#[rustfmt::skip]
mod interpreters;
#[rustfmt::skip]
mod machines;
#[rustfmt::skip]
mod network;
#[rustfmt::skip]
mod runners;
#[rustfmt::skip]
mod shell;
#[rustfmt::skip]
mod text;
#[rustfmt::skip]
mod wrappers;

use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;

use super::model::{
    AllowScope, EntryCoverage, MeaningKind, NameFamily, ProgramEntry, ProgramTraits, RunLocation,
    TextLanguage,
};
use super::words::read_words;
use super::{ArgumentUses, Word, base_name};

/// All entries.
pub(crate) const TABLE: &[&[ProgramEntry]] = &[
    shell::ENTRIES,
    text::ENTRIES,
    files::ENTRIES,
    archives::ENTRIES,
    wrappers::ENTRIES,
    runners::ENTRIES,
    interpreters::ENTRIES,
    editors::ENTRIES,
    databases::ENTRIES,
    build::ENTRIES,
    machines::ENTRIES,
    network::ENTRIES,
    git::ENTRIES,
];

/// A pager that shows everything at once and starts nothing.
pub(crate) const PLAIN_PAGER: &str = "cat";

/// The folders in which a program with a known name is assumed to be the known one.
const FOLDERS: &[&str] = &["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/"];

/// The extensions of script files.
const SCRIPT_ENDS: &[&str] =
    &["sh", "bash", "py", "js", "mjs", "cjs", "ts", "rb", "pl", "lua", "php", "fish", "zsh"];

/// Returns whether a file name looks like a script.
pub(crate) fn is_script_name(name: &str) -> bool {
    let end = Path::new(name).extension().and_then(|end| end.to_str());
    end.is_some_and(|end| SCRIPT_ENDS.contains(&end))
}

/// A program with an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownProgram<'n> {
    pub(crate) entry: &'static ProgramEntry,
    /// It was called by a name other than its own.
    pub(crate) renamed: bool,
    /// The name contains a sub-command: `git-push`.
    pub(crate) subcommand: Option<&'n str>,
}

/// Returns every entry, in order.
pub(crate) fn all() -> impl Iterator<Item = &'static ProgramEntry> {
    TABLE.iter().flat_map(|group| group.iter())
}

/// Returns the entry of a program, given by its name without a folder.
pub(crate) fn find(name: &str) -> Option<KnownProgram<'_>> {
    static INDEX: OnceLock<HashMap<&'static str, &'static ProgramEntry>> = OnceLock::new();
    static PREFIXES: OnceLock<Vec<&'static ProgramEntry>> = OnceLock::new();
    let index = INDEX
        .get_or_init(|| all().flat_map(|entry| entry.all_names().map(move |name| (name, entry))).collect());
    let known =
        |entry: &&'static ProgramEntry, renamed: bool| KnownProgram { entry, renamed, subcommand: None };
    let of_family = |name: &str, families: &[NameFamily]| {
        index.get(name).filter(|entry| families.contains(&entry.family))
    };
    if let Some(entry) = index.get(name) {
        return Some(known(entry, false));
    }
    if let Some(entry) = name.strip_prefix('g').and_then(|name| of_family(name, &[NameFamily::Gnu])) {
        return Some(known(entry, true));
    }
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').trim_end_matches('-');
    if let Some(entry) = of_family(plain, &[NameFamily::Versioned, NameFamily::Cross]) {
        return Some(known(entry, true));
    }
    if plain.contains("-linux-")
        && let Some(entry) = plain.rsplit('-').next().and_then(|name| of_family(name, &[NameFamily::Cross]))
    {
        return Some(known(entry, true));
    }
    if let Some((program, subcommand)) = name.split_once('-')
        && let Some(entry) = of_family(program, &[NameFamily::Dashed])
        && !subcommand.is_empty()
        && subcommand.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    {
        return Some(KnownProgram { entry, renamed: true, subcommand: Some(subcommand) });
    }
    let prefixes =
        PREFIXES.get_or_init(|| all().filter(|entry| entry.family == NameFamily::Prefix).collect());
    let found = prefixes.iter().find(|entry| entry.all_names().any(|prefix| name.starts_with(prefix)));
    found.map(|entry| KnownProgram { entry, renamed: true, subcommand: None })
}

/// Returns whether a program has a trait.
pub(crate) fn has_trait(name: &str, wanted: ProgramTraits) -> bool {
    find(name).is_some_and(|known| known.entry.traits.has(wanted))
}

/// Returns whether a program is called in the usual way: by its name, or by a system folder.
pub(crate) fn is_usual(program: &str, name: &str) -> bool {
    program == name || FOLDERS.iter().any(|folder| program.strip_prefix(folder) == Some(name))
}

/// Returns whether the operands of a program, given by its name or path, may be of a kind.
fn operands_have(program: &str, wanted: fn(&MeaningKind) -> bool) -> bool {
    find(base_name(program)).is_some_and(|known| has_operand(known.entry, wanted))
}

fn has_operand(entry: &ProgramEntry, wanted: fn(&MeaningKind) -> bool) -> bool {
    entry.operands.iter().flat_map(|spec| spec.meanings).any(|meaning| meaning.has(wanted))
}

/// Returns whether a program starts a command in its operands.
pub(crate) fn starts_operands(program: &str) -> bool {
    operands_have(program, |kind| matches!(kind, MeaningKind::Command(_)))
}

/// Returns programs that run arbitrary code: shells, interpreters, and programs that start their operands
/// in their own way or on another machine.
pub(crate) fn open_ended() -> impl Iterator<Item = &'static ProgramEntry> {
    let runs = |kind: &MeaningKind| match kind {
        MeaningKind::Command(form) => form.scope != AllowScope::Past,
        MeaningKind::Joined(_) | MeaningKind::Template | MeaningKind::Prepend(_) => true,
        MeaningKind::Text(language) => {
            matches!(language, TextLanguage::Shell | TextLanguage::Awk | TextLanguage::Code(_))
        }
        _ => false,
    };
    let contains = |kind: &MeaningKind| matches!(kind, MeaningKind::Command(form) if form.location == RunLocation::OtherMachine);
    all().filter(move |entry| {
        entry.traits.has(ProgramTraits::RUNS_SCRIPT)
            || has_operand(entry, runs)
            || entry.subcommands.iter().any(|below| has_operand(below, contains))
    })
}

/// Returns what a program may do with an argument that is known only at run time. If its entry doesn't say,
/// the result is every use.
pub(crate) fn argument_uses(name: &str) -> ArgumentUses {
    let mut uses = ArgumentUses::default();
    let mut look = |kind: &MeaningKind| match kind {
        MeaningKind::Read(_) | MeaningKind::Folder | MeaningKind::OperandFolder => uses.reads = true,
        MeaningKind::Write(_)
        | MeaningKind::WriteLoose(_)
        | MeaningKind::WriteInto
        | MeaningKind::Derived(_)
        | MeaningKind::Delete(_)
        | MeaningKind::DeleteMatches(_)
        | MeaningKind::Changes => uses.changes = true,
        MeaningKind::Text(TextLanguage::Sed)
        | MeaningKind::PrintsPaths
        | MeaningKind::PrintsNumbers
        | MeaningKind::Opens
        | MeaningKind::ChangesListed
        | MeaningKind::Head
        | MeaningKind::Destroys(_)
        | MeaningKind::Exclusive => {}
        _ => uses = ArgumentUses::ANYTHING,
    };
    let Some(entry) = find(name).filter(|known| !known.renamed).map(|known| known.entry) else {
        return ArgumentUses::ANYTHING;
    };
    let values = entry.all_options().flat_map(|spec| spec.meanings);
    let operands = entry.operands.iter().flat_map(|spec| spec.meanings);
    values.chain(operands).for_each(|meaning| meaning.each(&mut look));
    let described = match entry.coverage {
        EntryCoverage::Total => true,
        EntryCoverage::Listed => {
            [ProgramTraits::CHANGES_FILES, ProgramTraits::COMPLETE].iter().any(|one| entry.traits.has(*one))
        }
        EntryCoverage::Partial => false,
    };
    uses.reads |= entry.coverage == EntryCoverage::Total;
    if described { uses } else { ArgumentUses::ANYTHING }
}

/// Returns the meaning of exit code 1 of a command, if it is not a failure.
pub(crate) fn exit_one(argv: &[Word]) -> Option<&'static str> {
    let entry = find(base_name(argv.first()?.literal()?))?.entry;
    let reading = read_words(entry, &argv[1..]).swap_remove(0);
    let name = reading.operands.first().and_then(|at| argv[at + 1].literal());
    name.and_then(|name| entry.subcommand(name)).unwrap_or(entry).exit_one
}

/// Returns whether a command may change the directory of the shell.
pub(crate) fn may_move(name: &str) -> bool {
    let moves = |kind: &MeaningKind| {
        matches!(
            kind,
            MeaningKind::ChangeDirectory
                | MeaningKind::LosesDirectory
                | MeaningKind::Joined(TextLanguage::ThisShell)
                | MeaningKind::Text(TextLanguage::Deferred)
        )
    };
    operands_have(name, moves)
}

/// Returns whether a function or alias of this name would change the findings.
pub(crate) fn is_special(name: &str) -> bool {
    let starts = |kind: &MeaningKind| matches!(kind, MeaningKind::Command(form) if matches!(form.scope, AllowScope::Past | AllowScope::Exact));
    has_trait(name, ProgramTraits::SPECIAL) || operands_have(name, starts)
}

/// Returns the texts of a command without the options before its sub-command, and before the sub-command's
/// own one: one for each reading. Empty if there are no such options.
pub(crate) fn texts_without_options(argv: &[Word]) -> Vec<String> {
    let mut texts = Vec::new();
    let Some(name) = argv.first().and_then(Word::literal).map(base_name) else { return texts };
    let Some(entry) = find(name).map(|known| known.entry) else { return texts };
    let join = |names: &[&str], from: usize| {
        let rest = argv[from.min(argv.len())..].iter().map(Word::plain);
        names.iter().copied().chain(rest).collect::<Vec<_>>().join(" ")
    };
    // A script is looked up like a program, and a module like a program of its own: `python -m pip …` is
    // `pip …`.
    for reading in read_words(entry, &argv[1..]) {
        let named =
            |at: &&usize| argv[**at + 1].literal().is_some_and(|name| !name.contains(char::is_whitespace));
        let script =
            reading.operands.first().filter(|_| entry.traits.has(ProgramTraits::RUNS_SCRIPT)).filter(named);
        texts.extend(script.map(|at| join(&[], at + 1)));
        let module = reading.options.iter().find(|given| {
            given.spec.meanings.iter().any(|meaning| matches!(meaning.kind, MeaningKind::Module))
        });
        if let Some(given) = module.filter(|given| !given.values.is_empty()) {
            texts.push(given.values.iter().map(Word::plain).collect::<Vec<_>>().join(" "));
            texts.extend(texts_without_options(&given.values));
        }
    }
    if !entry.traits.has(ProgramTraits::SUBCOMMANDS) {
        return texts;
    }
    for first in operands_from(entry, argv, 1) {
        if first > 1 {
            texts.push(join(&[name], first));
        }
        for second in operands_from(entry, argv, first + 1) {
            if second > first + 1 {
                texts.push(join(&[name, argv[first].plain()], second));
            }
        }
    }
    texts
}

/// Returns where the first operand may be, from a word on.
fn operands_from(entry: &'static ProgramEntry, argv: &[Word], from: usize) -> Vec<usize> {
    let words = &argv[from.min(argv.len())..];
    let readings = read_words(entry, words);
    let mut found: Vec<usize> =
        readings.iter().filter_map(|reading| reading.operands.first()).map(|at| from + at).collect();
    found.dedup();
    found
}

#[cfg(test)]
#[rustfmt::skip]
#[path = "tests/real_forms.rs"]
mod real_forms;
#[cfg(test)]
mod page;
