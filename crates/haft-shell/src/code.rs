//! Code for an interpreter in an argument or a here-document: `python -c`, `perl -e`, `awk`, `sqlite3`.
//!
//! A language isn't read here. Code that names what starts programs is a doubt, code that doesn't is a command like any
//! other: whoever hides the name gets past, and the sandbox is what holds then. A plain command in it is found, so that
//! a rule which denies it does. `awk` is so common that the signs which start something are told from patterns.

use super::scripted::{self, From};
use super::told::Told;
use super::{Word, streams};

/// An interpreter and the options that give it code.
struct Language {
    /// How its name begins; a version may follow.
    name: &'static str,
    letters: &'static str,
    long: &'static [&'static str],
    /// Single letters with a value that isn't code.
    valued: &'static str,
    /// Words that start programs, load code or evaluate text.
    starts: &'static [&'static str],
}

const PYTHON: &[&str] = &[
    "system",
    "popen",
    "spawn",
    "exec",
    "subprocess",
    "fork",
    "pty",
    "eval",
    "__import__",
    "importlib",
    "ctypes",
    "getattr",
    "compile",
    "runpy",
];
const PERL: &[&str] = &[
    "system", "exec", "qx", "`", "fork", "eval", "popen", "open3", "open2", "\"|", "'|", "|\"", "|'",
    "require", "syscall",
];
const RUBY: &[&str] = &[
    "system", "exec", "%x", "`", "fork", "spawn", "popen", "open3", "eval", "\"|", "'|", "send", "Fiddle",
    "load",
];
const NODE: &[&str] = &[
    "child_process",
    "exec",
    "spawn",
    "fork",
    "eval",
    "Function(",
    "binding",
    "dlopen",
    "import(",
    "Worker",
];
const PHP: &[&str] =
    &["system", "exec", "passthru", "popen", "proc_open", "`", "eval", "pcntl", "assert", "dl("];
const LUA: &[&str] = &["execute", "popen", "load", "dofile", "require"];
const TCL: &[&str] = &["exec", "open", "eval", "source", "load", "subst"];
const OTHER: &[&str] =
    &["system", "shell", "exec", "run", "spawn", "popen", "eval", "process", "Command", "`"];

const LANGUAGES: &[Language] = &[
    Language { name: "python", letters: "c", long: &[], valued: "WXm", starts: PYTHON },
    Language { name: "pypy", letters: "c", long: &[], valued: "WXm", starts: PYTHON },
    Language { name: "perl", letters: "eE", long: &[], valued: "IMmFx", starts: PERL },
    Language { name: "ruby", letters: "e", long: &[], valued: "rICEF", starts: RUBY },
    Language { name: "node", letters: "ep", long: &["eval", "print"], valued: "rC", starts: NODE },
    Language { name: "bun", letters: "ep", long: &["eval", "print"], valued: "r", starts: NODE },
    Language { name: "php", letters: "rBRE", long: &["run", "process-code"], valued: "cdfzt", starts: PHP },
    Language { name: "lua", letters: "e", long: &[], valued: "l", starts: LUA },
    Language { name: "osascript", letters: "e", long: &[], valued: "l", starts: OTHER },
    Language { name: "Rscript", letters: "e", long: &[], valued: "", starts: OTHER },
    Language { name: "julia", letters: "eE", long: &["eval", "print"], valued: "LJptH", starts: OTHER },
    Language { name: "groovy", letters: "e", long: &[], valued: "c", starts: OTHER },
    Language { name: "elixir", letters: "e", long: &["eval"], valued: "rS", starts: OTHER },
    Language { name: "tclsh", letters: "", long: &[], valued: "", starts: TCL },
    Language { name: "guile", letters: "c", long: &[], valued: "Ll", starts: OTHER },
];

const CODE: &str = "has code that is known only when it runs";

/// What code in the arguments starts, as far as it can be seen.
pub(super) fn told(name: &str, arguments: &[Word], input: Option<&str>, told: &mut Told) {
    match name {
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => return awk(arguments, input, told),
        "sqlite3" | "sqlite" => return sqlite(arguments, input, told),
        "psql" | "mysql" | "mariadb" => return client(arguments, input, told),
        _ => {}
    }
    let versioned = |language: &&Language| {
        name.strip_prefix(language.name).is_some_and(|rest| {
            rest.bytes().all(|b| b.is_ascii_digit() || b == b'.') || rest == "js" || rest == "jit"
        })
    };
    let Some(language) = LANGUAGES.iter().find(versioned) else { return };
    let mut at = 0;
    let mut file = false;
    // A script comes in from elsewhere than a file: because it is said so, or because nothing else is.
    let mut comes_in = arguments.is_empty();
    while let Some(word) = arguments.get(at) {
        at += 1;
        let text = word.prefix();
        match scripted::from(word) {
            From::Input => {
                comes_in = true;
                break;
            }
            From::Unknown => return told.unknown(),
            From::File => {}
        }
        if text == "-" || text == "--" && word.literal().is_some() {
            continue;
        }
        let Some(option) = text.strip_prefix('-') else {
            file = true;
            break;
        };
        if let Some(long) = option.strip_prefix('-') {
            let (long, inline) = match long.split_once('=') {
                Some((long, value)) => (long, Some(value)),
                None => (long, None),
            };
            if language.long.contains(&long) {
                file = true;
                match inline {
                    Some(value) if word.literal().is_some() => code(language, value, told),
                    Some(_) => told.unknown(),
                    None => given(language, arguments.get(at), told),
                }
                at += usize::from(inline.is_none());
            }
            continue;
        }
        for (place, letter) in option.char_indices() {
            let rest = &option[place + letter.len_utf8()..];
            if language.letters.contains(letter) {
                file = true;
                if rest.is_empty() {
                    given(language, arguments.get(at), told);
                    at += 1;
                } else if word.literal().is_some() {
                    code(language, rest, told);
                } else {
                    told.unknown();
                }
                // With Python what follows is for the code.
                if language.letters == "c" {
                    return;
                }
                break;
            }
            if language.valued.contains(letter) {
                file |= language.letters == "c" && letter == 'm';
                let value = if rest.is_empty() { arguments.get(at).map(Word::plain) } else { Some(rest) };
                if value.is_some_and(|value| streams::descriptor(value).is_some()) {
                    told.unknown();
                }
                at += usize::from(rest.is_empty());
                break;
            }
        }
    }
    match input.filter(|_| !file) {
        Some(input) => code(language, input, told),
        None if comes_in && !file => told.unknown(),
        None => {}
    }
}

fn given(language: &Language, word: Option<&Word>, told: &mut Told) {
    match word {
        Some(Word::Literal(text)) => code(language, text, told),
        Some(Word::Dynamic(_)) => told.exact = Some(CODE),
        None => {}
    }
}

fn code(language: &Language, text: &str, told: &mut Told) {
    if !language.starts.iter().any(|word| text.contains(word)) {
        return;
    }
    for command in strings(text) {
        told.text(command);
    }
    told.unknown();
}

/// How many strings of a code are looked at, and how long one may be.
const STRINGS_MAX: usize = 8;
const STRING_CHARS_MAX: usize = 400;

/// The plain strings of a code that may be commands: what stands in quotes right after `(` or beside a
/// pipe, or between backticks.
fn strings(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, quote) in text.char_indices().filter(|(_, c)| matches!(c, '"' | '\'' | '`')) {
        let before = text[..at].trim_end();
        let Some(end) = text[at + 1..].find(quote) else { continue };
        let inside = &text[at + 1..at + 1 + end];
        let opens = before.ends_with(['(', '`', '{', '|', '&'])
            || before.ends_with("system")
            || before.ends_with("exec")
            || quote == '`'
            || text[at + end + 2..].trim_start().starts_with('|');
        let plain = !inside.is_empty()
            && inside.len() < STRING_CHARS_MAX
            && inside.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '.'))
            && !inside.contains(['\\', '\n', '$', '(', ')', '{', '`', '\'', '"']);
        if opens && plain && found.len() < STRINGS_MAX {
            found.push(inside);
        }
    }
    found
}

fn awk(arguments: &[Word], input: Option<&str>, told: &mut Told) {
    for file in scripted::named(arguments, "FvfeiElWD", "fE", &["file", "exec"]) {
        if let Some(script) = scripted::text(&file, input) {
            match script {
                Some(text) => program(Some(&Word::Literal(text.to_owned())), told),
                None => told.unknown(),
            }
        }
    }
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.prefix() {
            "-v" | "-F" | "--assign" | "--field-separator" => {
                words.next();
            }
            // A file is a program like any other.
            "-f" | "--file" | "-E" | "--exec" => return,
            "-e" | "--source" => return program(words.next(), told),
            "-i" | "--include" | "-l" | "--load" => return told.unknown(),
            "--" => return program(words.next(), told),
            text if ["-f", "-E", "--file=", "--exec="].iter().any(|begin| text.starts_with(begin)) => return,
            text if text.starts_with("--source=") || text.starts_with("-e") => return told.unknown(),
            text if text.len() > 1 && text.starts_with('-') => {}
            _ => return program(Some(word), told),
        }
    }
}

fn program(word: Option<&Word>, told: &mut Told) {
    match word {
        Some(Word::Literal(text)) => {
            let signs = signs(text);
            if ["system", "getline", "@"].iter().any(|word| text.contains(word)) || signs.pipes {
                for command in strings(text) {
                    told.text(command);
                }
                told.unknown();
            } else if signs.writes {
                told.exact = Some("may write files");
            }
        }
        Some(Word::Dynamic(_)) => told.exact = Some(CODE),
        None => {}
    }
}

/// What a program for `awk` holds outside of its strings and patterns.
struct Signs {
    pipes: bool,
    writes: bool,
}

fn signs(text: &str) -> Signs {
    let mut signs = Signs { pipes: false, writes: false };
    // The last thing that isn't a blank: after a value a slash divides, after anything else it opens a pattern.
    let mut last = '{';
    let mut printing = false;
    let mut unsure = false;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                while let Some((_, inside)) = chars.next() {
                    match inside {
                        '\\' => {
                            chars.next();
                        }
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '/' if !(last.is_alphanumeric() || matches!(last, '_' | ')' | ']' | '$' | '"')) => {
                let mut bracket = false;
                while let Some((_, inside)) = chars.next() {
                    match inside {
                        '\\' => {
                            chars.next();
                        }
                        '[' => bracket = true,
                        ']' => bracket = false,
                        // Versions differ on a slash in brackets.
                        '/' if bracket => unsure = true,
                        '/' => break,
                        _ => {}
                    }
                }
            }
            '/' if last == ')' => unsure = true,
            '|' if chars.peek().is_some_and(|(_, next)| *next == '|') => {
                chars.next();
            }
            '|' => signs.pipes = true,
            '>' if printing => signs.writes = true,
            ';' | '}' | '\n' => printing = false,
            'p' if text[at..].starts_with("print") => printing = true,
            _ => {}
        }
        if !c.is_whitespace() {
            last = c;
        }
    }
    signs.pipes |= unsure && text.replace("||", "").contains('|');
    signs.writes |= unsure && text.contains('>');
    signs
}

/// `.shell` and `.system` run what follows; commands may be shortened.
fn sqlite(arguments: &[Word], input: Option<&str>, told: &mut Told) {
    let mut scripts: Vec<&str> = input.into_iter().collect();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.prefix() {
            "-init" | "--init" => return told.unknown(),
            "-cmd" | "--cmd" => scripts.extend(words.next().map(Word::plain)),
            text if text.starts_with('-') => {}
            _ => scripts.push(word.plain()),
        }
    }
    for line in scripts.iter().flat_map(|script| script.lines()) {
        let line = line.trim();
        if let Some(command) = line.strip_prefix('.') {
            let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
            if name.len() > 1 && ("shell".starts_with(name) || "system".starts_with(name)) {
                told.text(rest);
            } else if rest.contains('|')
                || ["load", "read", "excel", "import"].iter().any(|other| other.starts_with(name))
            {
                told.unknown();
            }
        } else if line.contains("load_extension") || line.contains("edit(") {
            told.unknown();
        }
    }
}

/// `\!` in a client of a database, and programs that a server is asked to run.
fn client(arguments: &[Word], input: Option<&str>, told: &mut Told) {
    let texts = arguments.iter().map(Word::plain).chain(input);
    for line in texts.flat_map(str::lines) {
        if let Some((_, command)) = line.split_once("\\!") {
            told.text(command.trim());
        } else if let Some(command) = line.trim().strip_prefix("system ") {
            told.text(command);
        } else if line.contains("PROGRAM")
            || line.contains("program '")
            || line.contains("\\o |")
            || line.contains("\\g |")
        {
            told.unknown();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_awk() {
        for text in [
            "/a|b/ {print}",
            "{print $1}",
            "{print $1/2}",
            "$1 > 3",
            "a || b",
            "{print \"|>\"}",
            "/[|]/",
            "NR>1{print}",
        ] {
            let found = signs(text);
            assert!(!found.pipes && !found.writes, "{text}");
        }
        assert!(signs("{print | \"sh\"}").pipes && signs("{print |& \"sh\"}").pipes);
        assert!(signs("{print > \"f\"}").writes && signs("{printf \"x\" >> \"f\"}").writes);
        assert!(signs("{a = b / c; print | d / e}").pipes);
    }
}
