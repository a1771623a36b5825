//! Programs that can be told by an option to run another: such a command is allowed by an exact rule only.
//!
//! `Bash(tar *)` is meant for archives, not for `tar --to-command=…`. What is run this way isn't looked at, and a
//! program can have more ways to run another than are listed here; the list holds those that are known to be used.

use super::{Word, base_name, marks};

struct Told {
    name: &'static str,
    /// Single letters.
    letters: &'static str,
    /// Long options; any beginning of one counts.
    long: &'static [&'static str],
    /// Words that stand anywhere.
    words: &'static [&'static str],
}

const fn told(
    name: &'static str,
    letters: &'static str,
    long: &'static [&'static str],
    words: &'static [&'static str],
) -> Told {
    Told { name, letters, long, words }
}

const TOLD: &[Told] = &[
    told("fd", "xX", &["exec", "exec-batch"], &[]),
    told("fdfind", "xX", &["exec", "exec-batch"], &[]),
    told("find", "", &[], &["-delete", "-exec", "-execdir", "-ok", "-okdir"]),
    told(
        "git",
        "cx",
        &["config-env", "exec-path", "exec", "extcmd", "upload-pack", "receive-pack", "open-files-in-pager"],
        &["run", "foreach", "filter-branch"],
    ),
    told("man", "PH", &["pager", "html"], &[]),
    told("rg", "", &["pre", "hostname-bin"], &[]),
    told("rsync", "e", &["rsh", "rsync-path"], &[]),
    told("scp", "oS", &[], &[]),
    told("sort", "", &["compress-program"], &[]),
    told(
        "tar",
        "IF",
        &[
            "to-command",
            "checkpoint-action",
            "use-compress-program",
            "rsh-command",
            "info-script",
            "new-volume-script",
        ],
        &[],
    ),
    told("zip", "", &["unzip-command"], &["-TT"]),
];

/// Why only an exact rule allows this command, if it may be told to run another.
pub(super) fn to_run(argv: &[Word]) -> Option<&'static str> {
    let name = base_name(argv.first()?.literal()?);
    let told = TOLD.iter().find(|told| told.name == name)?;
    let arguments = &argv[1..];
    if name == "find" && arguments.iter().any(|word| word.literal() == Some("-delete")) {
        return Some("removes what it finds");
    }
    let tells = arguments.iter().any(|word| {
        let text = word.prefix();
        let named = text.strip_prefix("--").map(|long| long.split('=').next().unwrap_or(long));
        match named {
            Some(name) => !name.is_empty() && told.long.iter().any(|long| long.starts_with(name)),
            None if told.words.contains(&text) => true,
            None => text.starts_with('-') && text.contains(|c| told.letters.contains(c)),
        }
    });
    let may_tell = (0..arguments.len()).any(|at| may_be_option(name, arguments, at));
    (tells || may_tell).then_some("can be told to run another command")
}

/// Whether an argument that is known only when it runs may be an option then, or bring one along. What is quoted after
/// an option is its value, as in `git commit -m "$x"`; a pattern names files.
fn may_be_option(name: &str, arguments: &[Word], at: usize) -> bool {
    let Word::Dynamic(open) = &arguments[at] else { return false };
    let expands = open.shape.contains(marks::EXPANSION);
    let listed = open.shape.contains(marks::BRACE) && open.shape.starts_with('{');
    if listed || open.shape.starts_with('-') || (expands && open.splits) {
        return true;
    }
    let is_option = |word: &Word| word.literal().is_some_and(|text| text.starts_with('-'));
    let ended = name != "find" && arguments[..at].iter().any(|word| word.literal() == Some("--"));
    // The options of git itself come first, and most have no value.
    let value = at > 0 && is_option(&arguments[at - 1]) && (name != "git" || !is_option(&arguments[0]));
    open.shape.starts_with(marks::EXPANSION) && !ended && !value
}
