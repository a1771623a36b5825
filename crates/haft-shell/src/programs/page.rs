//! The page of all programs, and checks that the entries are the only place that knows them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{TABLE, all};
use crate::model::{Coverage, MeaningKind, ProgramEntry, ValueMeaning};

const HEADER: &str = "# Programs\n\nWhat `haft` knows of each program, made from `crates/haft-shell/src/programs`. *Complete*: the listed \
options do nothing that isn't listed; *reads only*: no option changes anything; *partly*: the program may do more than its words say.\n\n\
| program | known | options that read, write, reach or run something | sub-commands |\n|---|---|---|---|\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What meanings do, in one word each.
fn verbs(meanings: &[ValueMeaning]) -> Vec<&'static str> {
    let verb = |meaning: &ValueMeaning| match meaning.kind {
        MeaningKind::Read(_) | MeaningKind::Folder | MeaningKind::OperandFolder => "reads",
        MeaningKind::Write(_)
        | MeaningKind::WriteLoose(_)
        | MeaningKind::WriteInto
        | MeaningKind::Derived(_) => "writes",
        MeaningKind::Delete(_) | MeaningKind::DeleteMatches => "deletes",
        MeaningKind::Connect(..) | MeaningKind::UnknownHost(_) => "reaches",
        MeaningKind::Changes | MeaningKind::ChangesListed => "changes",
        MeaningKind::Repository(_) => "configures",
        _ => "runs",
    };
    let mut verbs: Vec<&str> = meanings.iter().map(verb).collect();
    verbs.sort_unstable();
    verbs.dedup();
    verbs
}

fn row(page: &mut String, entry: &ProgramEntry) {
    let known = match entry.coverage {
        Coverage::Total => "reads only",
        Coverage::Listed => "complete",
        Coverage::Partial => "partly",
    };
    let options = entry.all_options().filter(|spec| !spec.meanings.is_empty());
    let options: Vec<String> =
        options.map(|spec| format!("`{}` {}", spec.names, verbs(spec.meanings).join(", "))).collect();
    let below: Vec<&str> = entry.subcommands.iter().flat_map(|one| one.names.split(' ')).collect();
    let cells = [format!("`{}`", entry.names), known.to_owned(), options.join("; "), below.join(" ")];
    writeln!(page, "| {} |", cells.map(|cell| cell.replace('|', "&#124;")).join(" | ")).unwrap();
}

fn page() -> String {
    let mut page = HEADER.to_owned();
    all().for_each(|entry| row(&mut page, entry));
    page
}

/// `HAFT_WRITE_PAGES=1` writes it.
#[test]
fn the_page_is_current() {
    let path = root().join("docs/programs.md");
    if std::env::var_os("HAFT_WRITE_PAGES").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == page(),
        "docs/programs.md is out of date; HAFT_WRITE_PAGES=1 writes it"
    );
}

#[test]
fn no_program_has_two_entries() {
    let mut names: Vec<&str> = all().flat_map(|entry| entry.all_names()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(count > 450 && TABLE.len() == 13, "{count} programs");
}

/// Names that are words of the grammar or of other languages as well.
const AMBIGUOUS: &[&str] = &[
    "time", "[", ".", ":", "!", "test", "system", "set", "-", ",", "host", "file", "at", "exec", "eval",
    "import", "include",
];

#[test]
fn only_entries_know_a_program_by_its_name() {
    let names: Vec<&str> =
        all().flat_map(|entry| entry.all_names()).filter(|name| !AMBIGUOUS.contains(name)).collect();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let folders = [source.clone(), source.join("languages")];
    let files =
        folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    for path in files.filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let literals = line.split('"').skip(1).step_by(2);
            let known: Vec<&str> = literals.filter(|literal| names.contains(literal)).collect();
            let grammar = path.ends_with("parse.rs") || path.ends_with("tree.rs");
            assert!(known.is_empty() || grammar, "{}: {known:?}", path.display());
        }
    }
}
