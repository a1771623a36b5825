//! Programs that take a script from their standard input: `awk -f-`, `python3 /dev/stdin`, `ed`.
//!
//! Where that comes from a here-document or a here-string it is read as far as a language can be (`code`, `script`); where
//! it comes from a pipe or a descriptor nobody knows it, which is a doubt, as with `… | sh`. A script in a file is a
//! program like any other.

use super::told::Told;
use super::{Word, streams};

/// Where a script comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// A file.
    File,
    /// Standard input.
    Input,
    /// Another descriptor, or what another command prints.
    Unknown,
}

/// What a word stands for that names a script; `-` counts for programs that take it so.
pub(super) fn from(word: &Word) -> From {
    match word {
        Word::Literal(text) if text == "-" => From::Input,
        Word::Literal(text) => match streams::descriptor(text) {
            Some(0) => From::Input,
            Some(_) => From::Unknown,
            None => From::File,
        },
        Word::Dynamic(open) if open.written.starts_with("<(") => From::Unknown,
        Word::Dynamic(_) => From::File,
    }
}

/// The text of a script that a word names, if it isn't one of a file: nothing if nobody knows it.
pub(super) fn text<'t>(word: &Word, input: Option<&'t str>) -> Option<Option<&'t str>> {
    match from(word) {
        From::File => None,
        From::Input => Some(input),
        From::Unknown => Some(None),
    }
}

/// The values of an option that names a script: `-f x`, `-fx`, `--file x`, `--file=x`, and any beginning of the long
/// name. `valued` are all letters with a value.
pub(super) fn named(arguments: &[Word], valued: &str, letters: &str, long: &[&str]) -> Vec<Word> {
    let mut found = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let given = word.prefix();
        if given == "--" && word.literal().is_some() {
            break;
        }
        let inside = |rest: &str| match word {
            Word::Literal(_) => Word::Literal(rest.to_owned()),
            // What follows isn't known, nor whether it is a file.
            Word::Dynamic(_) => Word::anything(),
        };
        if let Some(name) = given.strip_prefix("--") {
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (name, None),
            };
            if name.is_empty() || !long.iter().any(|long| long.starts_with(name)) {
                continue;
            }
            found.extend(value.map(inside).or_else(|| words.next().cloned()));
            continue;
        }
        let Some(cluster) = given.strip_prefix('-') else { continue };
        let Some(at) = cluster.find(|letter| valued.contains(letter)) else { continue };
        let (letter, rest) = (&cluster[at..=at], &cluster[at + 1..]);
        let attached = !rest.is_empty() || word.literal().is_none();
        let value = if attached { Some(inside(rest)) } else { words.next().cloned() };
        found.extend(value.filter(|_| letters.contains(letter)));
    }
    found
}

/// What programs with a language of their own are told by their script, where that isn't a file.
pub(super) fn told(name: &str, arguments: &[Word], input: Option<&str>, told: &mut Told) {
    match name {
        "ed" | "red" => bangs(input, told),
        "ex" | "vi" | "vim" | "nvim" | "view" => {
            let silent = |word: &Word| {
                let text = word.prefix();
                text.starts_with('-') && !text.starts_with("--") && text.contains(['s', 'e', 'E'])
            };
            if name == "ex" || arguments.iter().any(silent) {
                bangs_of(input, told);
            }
        }
        "dc" => {
            let scripts = named(arguments, "efI", "e", &["expression"]);
            scripts.iter().for_each(|script| bangs(script.literal(), told));
            for file in named(arguments, "efI", "f", &["file"]) {
                if let Some(script) = text(&file, input) {
                    bangs(script, told);
                }
            }
            match input {
                Some(_) => bangs(input, told),
                // Without a script it takes one from what comes in.
                None if arguments.is_empty() => told.unknown(),
                None => {}
            }
        }
        "ftp" | "lftp" | "gnuplot" | "mail" | "mailx" | "telnet" | "sftp" | "gdb" | "lldb" => {
            bangs_of(input, told)
        }
        "m4" => macros(arguments, input, told),
        "make" | "gmake" => {
            for file in named(arguments, "CfIjloOW", "f", &["file", "makefile"]) {
                if let Some(script) = text(&file, input) {
                    recipes(script, told);
                }
            }
        }
        "cmake" => {
            let script = arguments.iter().position(|word| word.literal() == Some("-P"));
            if script.and_then(|at| arguments.get(at + 1)).is_some_and(|file| from(file) != From::File) {
                told.unknown();
            }
        }
        _ => {}
    }
}

/// What follows a `!` in each line is for a shell, wherever it stands: `!x`, `r !x`, `g/a/!x`.
fn bangs(script: Option<&str>, told: &mut Told) {
    match script {
        Some(_) => bangs_of(script, told),
        None => told.unknown(),
    }
}

/// The same, where a script that nobody knows is none.
fn bangs_of(script: Option<&str>, told: &mut Told) {
    for line in script.into_iter().flat_map(str::lines) {
        if let Some((_, command)) = line.split_once('!') {
            told.text(command.trim_start_matches('!').trim());
        } else if ["shell ", "system", "pipe", "python"].iter().any(|begin| line.trim().starts_with(begin)) {
            told.unknown();
        }
    }
}

/// `syscmd(x)` and `esyscmd(x)` of `m4`.
fn macros(arguments: &[Word], input: Option<&str>, told: &mut Told) {
    let operands =
        || arguments.iter().filter(|word| word.literal() == Some("-") || !word.prefix().starts_with('-'));
    let comes_in = operands().next().is_none() || operands().any(|word| from(word) != From::File);
    let scripts = arguments.iter().map(Word::plain).filter(|text| text.starts_with("-D"));
    match input {
        Some(input) if comes_in => runs_of_macros(input, told),
        None if comes_in => told.unknown(),
        _ => {}
    }
    scripts.for_each(|script| runs_of_macros(script, told));
}

fn runs_of_macros(text: &str, told: &mut Told) {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("syscmd") {
        if let Some(command) = after.strip_prefix('(').and_then(|inside| inside.split(')').next()) {
            told.text(command.trim_matches(['`', '\'', ' ']));
        }
        told.unknown();
        rest = after;
    }
}

/// The recipes of a makefile: lines that begin with a tab, and what follows `;` in a rule.
fn recipes(script: Option<&str>, told: &mut Told) {
    told.unknown();
    for line in script.into_iter().flat_map(str::lines) {
        let recipe = line.strip_prefix('\t').or_else(|| line.split_once(';').map(|(_, recipe)| recipe));
        if let Some(recipe) = recipe {
            told.text(recipe.trim_start().trim_start_matches(['@', '-', '+']));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_script_comes_from() {
        let word = |text: &str| Word::Literal(text.to_owned());
        for text in
            ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "/dev/./fd//0", "/proc/self/../self/fd/0"]
        {
            assert_eq!(from(&word(text)), From::Input, "{text}");
        }
        for text in ["/dev/fd/3", "/proc/self/fd/9", "/dev/stderr"] {
            assert_eq!(from(&word(text)), From::Unknown, "{text}");
        }
        for text in ["a", "./-", "dev/stdin", "/dev/null", "/dev/fd/x"] {
            assert_eq!(from(&word(text)), From::File, "{text}");
        }
    }

    #[test]
    fn options_in_all_their_forms() {
        let words = |text: &str| -> Vec<Word> {
            text.split(' ').map(|word| Word::Literal(word.to_owned())).collect()
        };
        for text in ["-f x", "-fx", "-nf x", "-nfx", "--file x", "--file=x", "--fi=x"] {
            let found = named(&words(text), "fe", "f", &["file"]);
            assert_eq!(found, [Word::Literal("x".to_owned())], "{text}");
        }
        assert_eq!(named(&words("-e f -- -f x"), "fe", "f", &["file"]), []);
    }
}
