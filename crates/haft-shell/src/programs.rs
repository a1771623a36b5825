//! Whether a program with its arguments changes nothing.
//!
//! Answered from the table in [`super::readers`]; what isn't in it may do anything. In doubt the answer is no: a
//! shortened option, an unknown one, a pattern that may expand to an option where the program has dangerous ones.

use super::options::{Found, Options};
use super::readers::{FIND_ALONE, FIND_VALUED, READERS, Reader, Rule, VERSIONS};
use super::{Word, base_name, git, script, touch};

/// The folders in which a program of a known name is taken for the known one.
const FOLDERS: &[&str] = &["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/"];

/// The entry of a program in the table.
pub(super) fn reader(argv: &[Word]) -> Option<&'static Reader> {
    let program = argv.first()?.literal()?;
    let name = base_name(program);
    let usual = program == name || FOLDERS.iter().any(|folder| program.strip_prefix(folder) == Some(name));
    READERS.iter().find(|reader| usual && reader.name == name)
}

/// Why a command may change something, or nothing if it doesn't. `moved` says that it runs elsewhere than the session.
pub(super) fn only_looks(argv: &[Word], moved: bool) -> Result<(), String> {
    let name = argv.first().and_then(Word::literal).unwrap_or("it");
    if name == "command" {
        // What is left of it once wrappers are taken off only looks programs up.
        return Ok(());
    }
    if says_version(argv) {
        return Ok(());
    }
    let Some(reader) = reader(argv) else { return Err(format!("`{name}` isn't known to change nothing")) };
    let arguments = &argv[1..];
    match &reader.rule {
        Rule::Plain => Ok(()),
        Rule::Only(options, operands) => listed(name, arguments, options, *operands),
        Rule::Find => find(arguments),
        Rule::Sed => sed(arguments),
        Rule::Awk => awk(name, arguments),
        Rule::Git if moved => Err("git in another folder".to_owned()),
        Rule::Git => git::only_looks(arguments),
    }
}

fn listed(name: &str, arguments: &[Word], options: &Options, most: usize) -> Result<(), String> {
    // A pattern with a folder before it is some files, and none of them an option.
    let files = |word: &Word| word.prefix().contains('/') && touch::pattern_folder(word).is_some();
    let (patterns, arguments): (Vec<Word>, Vec<Word>) = match most {
        usize::MAX => arguments.iter().cloned().partition(files),
        _ => (Vec::new(), arguments.to_vec()),
    };
    let (operands, _) = split(name, &arguments, options)?;
    let fits = operands.len() + patterns.len() <= most
        && (name != "date" || operands.iter().all(|word| word.prefix().starts_with('+')));
    if fits { Ok(()) } else { Err(format!("`{name}` with these arguments may change something")) }
}

type Values<'w> = Vec<(&'w str, &'w str)>;

/// Operands, and options with their values, of a program that may have only these.
fn split<'w>(
    name: &str,
    arguments: &'w [Word],
    options: &Options,
) -> Result<(Vec<&'w Word>, Values<'w>), String> {
    let (mut operands, mut values) = (Vec::new(), Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.literal() else {
            return Err(format!("`{name}` with an argument that isn't known"));
        };
        if text == "--" {
            operands.extend(words.by_ref());
            break;
        }
        if text.len() < 2 || !text.starts_with('-') {
            operands.push(word);
            continue;
        }
        for found in options.read(text) {
            match found {
                Found::Unknown => return Err(format!("`{name}` with `{text}`")),
                Found::Flag(_) => {}
                Found::Valued(option, Some(value)) => values.push((option, value)),
                Found::Valued(option, None) => match words.next().and_then(Word::literal) {
                    Some(value) if !value.starts_with('-') => values.push((option, value)),
                    _ => return Err(format!("`{name}` with a value of `{text}` that isn't known")),
                },
            }
        }
    }
    if operands.iter().any(|word| word.literal().is_none()) {
        return Err(format!("`{name}` with an argument that isn't known"));
    }
    Ok((operands, values))
}

fn find(arguments: &[Word]) -> Result<(), String> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.literal() else {
            return Err("`find` with an argument that isn't known".to_owned());
        };
        let level = text.strip_prefix("-O").is_some_and(|level| level.bytes().all(|b| b.is_ascii_digit()));
        if !text.starts_with('-') || FIND_ALONE.contains(&text) || level {
            continue;
        }
        if !FIND_VALUED.contains(&text) {
            return Err(format!("`find` with `{text}`"));
        }
        // Versions differ on what takes a value; a value that looks like an action isn't taken for one.
        let value = words.next().and_then(Word::literal);
        if value.is_none_or(|value| {
            value.starts_with('-') && value[1..].starts_with(|c: char| c.is_ascii_alphabetic())
        }) {
            return Err(format!("`find` with a value of `{text}` that isn't known"));
        }
    }
    Ok(())
}

fn sed(arguments: &[Word]) -> Result<(), String> {
    const SED: Options = Options {
        flags: "nErsuz",
        valued: "e",
        long: &["quiet", "silent", "regexp-extended", "separate", "unbuffered", "null-data", "posix"],
        long_valued: &["expression"],
    };
    let (operands, values) = split("sed", arguments, &SED)?;
    let mut scripts: Vec<&str> = values.iter().map(|(_, value)| *value).collect();
    if scripts.is_empty() {
        scripts.extend(operands.first().and_then(|word| word.literal()));
    }
    if scripts.iter().all(|text| script::only_prints(text)) {
        Ok(())
    } else {
        Err("`sed` with a script that isn't known only to print".to_owned())
    }
}

/// `awk` with a program that is known. What in it would start or write something is found elsewhere.
fn awk(name: &str, arguments: &[Word]) -> Result<(), String> {
    const AWK: Options = Options { flags: "", valued: "Fv", long: &[], long_valued: &[] };
    let mut words = arguments.iter();
    let program = loop {
        let Some(text) = words.next().map(|word| word.literal()) else { break None };
        let text = text.ok_or_else(|| format!("`{name}` with an argument that isn't known"))?;
        if text.len() < 2 || !text.starts_with('-') {
            break Some(text);
        }
        match AWK.read(text).last() {
            Some(Found::Valued(_, Some(_))) => {}
            Some(Found::Valued(_, None)) => drop(words.next()),
            _ => return Err(format!("`{name}` with `{text}`")),
        }
    };
    // Which files are read can be changed by the program itself.
    match program.filter(|program| !program.contains("ARG")) {
        Some(_) => Ok(()),
        None => Err(format!("`{name}` with a program that isn't known only to print")),
    }
}

/// Whether all that is asked of a program is its version.
fn says_version(argv: &[Word]) -> bool {
    let [program, option] = argv else { return false };
    let (Some(program), Some(option)) = (program.literal(), option.literal()) else { return false };
    VERSIONS.iter().any(|(options, programs)| options.contains(&option) && programs.contains(&program))
}

/// The words that aren't options, for programs with ordinary ones.
pub(super) fn operands(arguments: &[Word]) -> impl Iterator<Item = &Word> {
    let mut ended = false;
    arguments.iter().filter(move |word| {
        if !ended && word.literal() == Some("--") {
            ended = true;
            return false;
        }
        ended || !(word.prefix().len() > 1 && word.prefix().starts_with('-'))
    })
}
