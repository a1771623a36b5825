//! Files that programs of the table read because an option names them: `grep -f FILE`, `jq -LDIR`, `find -newer FILE`.
//!
//! In each form that the program takes: the next word, the same word, at the end of a cluster, and any beginning of a long
//! name. Programs of which only listed options count as harmless are here for those of them that name a file.

use super::{Word, scripted};

struct Names {
    program: &'static str,
    /// All single letters with a value, so that a cluster is read as the program does.
    valued: &'static str,
    /// Those of which the value is a file.
    files: &'static str,
    long: &'static [&'static str],
    /// Whether what is named is a folder with everything below it.
    below: bool,
}

const fn names(
    program: &'static str,
    valued: &'static str,
    files: &'static str,
    long: &'static [&'static str],
    below: bool,
) -> Names {
    Names { program, valued, files, long, below }
}

const GREP: &[&str] = &["file", "exclude-from"];
const SUMS: &[&str] = &["files0-from", "exclude-from"];

const TABLE: &[Names] = &[
    names("date", "dfrsI", "fr", &["file", "reference"], false),
    names("diff", "CDFISUWXx", "SX", &["exclude-from", "from-file", "to-file", "starting-file"], false),
    names("du", "BXdt", "X", SUMS, false),
    names("egrep", "ABCDdefm", "f", GREP, false),
    names("fgrep", "ABCDdefm", "f", GREP, false),
    names("file", "FPefm", "fm", &["files-from", "magic-file"], false),
    names("grep", "ABCDdefm", "f", GREP, false),
    names("hd", "efns", "f", &["format-file"], false),
    names("hexdump", "efns", "f", &["format-file"], false),
    names("jq", "L", "L", &["library-path"], true),
    names("lscpu", "s", "s", &["sysroot"], true),
    names("pgrep", "FGOPUdgrstu", "F", &["pidfile"], false),
    names("rg", "ABCEMTdefgjmrt", "f", &["file", "ignore-file"], false),
    names("sort", "STkot", "", &["files0-from", "random-source"], false),
    names("tree", "HILPTo", "", &["infofile", "gitfile"], false),
    names("wc", "", "", &["files0-from"], false),
];

/// What options name: each word, and whether with everything below it.
pub(super) fn named(program: &str, arguments: &[Word]) -> Vec<(Word, bool)> {
    let mut found = Vec::new();
    if let Some(names) = TABLE.iter().find(|names| names.program == program) {
        let words = scripted::named(arguments, names.valued, names.files, names.long);
        found.extend(words.into_iter().map(|word| (word, names.below)));
    }
    match program {
        "find" => {
            const COMPARED: [&str; 4] = ["-newer", "-anewer", "-cnewer", "-samefile"];
            let compared =
                |word: &Word| word.literal().is_some_and(|text| COMPARED.contains(&text) || is_newer(text));
            let pairs = arguments.windows(2).filter(|pair| compared(&pair[0]));
            found.extend(pairs.map(|pair| (pair[1].clone(), false)));
        }
        // The records of who is there may be those of any file.
        "who" => {
            let operands = arguments.iter().filter(|word| !word.prefix().starts_with('-'));
            let operands: Vec<&Word> = operands.collect();
            // `who am i`.
            if let [only] = operands[..] {
                found.push((only.clone(), false));
            }
        }
        // Options from a file.
        "strings" => {
            let files = arguments.iter().filter_map(|word| Some((word, word.prefix().strip_prefix('@')?)));
            found.extend(files.map(|(word, file)| match word {
                Word::Literal(_) => (Word::Literal(file.to_owned()), false),
                Word::Dynamic(_) => (Word::anything(), false),
            }));
        }
        _ => {}
    }
    found
}

/// `-neweraa` and the like; with a `t` at the end a time is named.
fn is_newer(text: &str) -> bool {
    text.strip_prefix("-newer").is_some_and(|rest| rest.len() == 2 && !rest.ends_with('t'))
}

/// Whether the text of a program makes it read files that no argument names: modules of `jq`.
pub(super) fn loads(program: &str, arguments: &[Word]) -> bool {
    let names = |word: &Word| ["import", "include"].iter().any(|load| word.plain().contains(load));
    program == "jq" && arguments.iter().any(names)
}
