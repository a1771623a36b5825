//! Files and folders that the options and operands of `git` name: `--output`, `-o`, `-C`, the folder of a clone.
//!
//! The repository itself isn't named: what git does in it is its own affair.

use super::writes::{Named, at_home, literal, without};
use super::{Word, globals};

/// What a `git` names.
pub(super) fn named(argv: &[Word], found: &mut Named) {
    let Some(verb) = globals::verb(argv, 1) else { return };
    for (at, word) in argv[..verb].iter().enumerate() {
        let text = word.prefix();
        let value = match text {
            "-C" | "--git-dir" | "--work-tree" => argv.get(at + 1).cloned(),
            _ => ["--git-dir=", "--work-tree="]
                .iter()
                .find(|start| text.starts_with(**start))
                .map(|start| without(word, start.len())),
        };
        if let Some(value) = value {
            if text == "-C" {
                found.base = Some(value.clone());
            }
            found.reads.push((value, false));
        }
    }
    let Some(name) = argv[verb].literal() else { return };
    let arguments = &argv[verb + 1..];
    let mut operands: Vec<&Word> = Vec::new();
    let mut words = arguments.iter();
    let mut wide = false;
    while let Some(word) = words.next() {
        let text = word.prefix();
        if text == "--" {
            operands.extend(words.by_ref());
            break;
        }
        let short = match name {
            "format-patch" | "mailsplit" => Some(("-o", true)),
            "archive" => Some(("-o", false)),
            _ => None,
        };
        if let Some((option, folder)) =
            short.filter(|(option, _)| text.starts_with(option) && !text.starts_with("--"))
        {
            let value = if text == option { words.next().cloned() } else { Some(without(word, 2)) };
            value
                .iter()
                .for_each(|value| if folder { found.folder(value) } else { found.write(value, false) });
            continue;
        }
        let (option, inline) = match text.split_once('=') {
            Some((option, _)) if text.starts_with("--") => (option, Some(without(word, option.len() + 1))),
            _ => (text, None),
        };
        let long = |full: &str| option.len() > 4 && full.starts_with(option);
        if (long("--output") && name != "grep")
            || long("--output-directory")
            || (name == "clone" && long("--separate-git-dir"))
        {
            let value = inline.or_else(|| words.next().cloned());
            let folder = option.contains("-d") || name == "clone";
            value
                .iter()
                .for_each(|value| if folder { found.folder(value) } else { found.write(value, false) });
        } else if name == "config" && matches!(option, "-f" | "--file") {
            inline.or_else(|| words.next().cloned()).iter().for_each(|file| found.write(file, false));
        } else if name == "config" && option == "--global" {
            wide = true;
            found.writes.push((at_home("/.gitconfig"), false));
        } else if name == "config" && option == "--system" {
            wide = true;
            found.write(&literal("/etc/gitconfig"), false);
        } else if name == "checkout-index" && option == "--prefix" {
            inline.iter().for_each(|folder| found.folder(folder));
        } else if matches!(
            text,
            "-b" | "-B"
                | "--branch"
                | "-c"
                | "--config"
                | "--depth"
                | "-o"
                | "--origin"
                | "-u"
                | "--reason"
                | "--name"
        ) {
            words.next();
        } else if text.len() < 2 || !text.starts_with('-') {
            operands.push(word);
        }
    }
    let second = |found: &mut Named, operands: &[&Word]| match (
        operands.first().and_then(|word| word.literal()),
        operands.get(1),
    ) {
        (_, Some(folder)) => found.folder(folder),
        (Some(address), None) => {
            let name = address
                .trim_end_matches('/')
                .trim_end_matches(".git")
                .rsplit(['/', ':'])
                .next()
                .unwrap_or("");
            if !name.is_empty() {
                found.folder(&literal(name));
            }
        }
        _ => {}
    };
    match (name, operands.first().and_then(|word| word.literal())) {
        ("bundle", Some("create")) => operands.get(1).into_iter().for_each(|file| found.write(file, false)),
        ("worktree", Some("add")) => operands.get(1).into_iter().for_each(|folder| found.folder(folder)),
        ("worktree", Some("move")) => operands.get(2).into_iter().for_each(|folder| found.folder(folder)),
        ("clone", _) => second(found, &operands),
        ("init", _) => operands.first().into_iter().for_each(|folder| found.folder(folder)),
        ("submodule", Some("add")) => second(found, &operands[1..]),
        // Looking changes nothing.
        ("config", _) if wide => {
            let looks = ["--get", "--get-all", "--get-regexp", "--list", "-l"];
            let reads = operands.len() < 2
                || operands.first().is_some_and(|word| matches!(word.literal(), Some("get" | "list")))
                || arguments.iter().any(|word| looks.contains(&word.prefix()));
            let edits = arguments
                .iter()
                .any(|word| matches!(word.prefix(), "-e" | "--edit" | "--unset" | "--unset-all" | "--add"));
            if reads && !edits {
                found.reads.append(&mut found.writes);
            }
        }
        _ => {}
    }
}
