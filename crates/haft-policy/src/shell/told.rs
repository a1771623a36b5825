//! Programs that can be told by an option to run another: such a command is allowed by an exact rule only.
//!
//! `Bash(tar *)` is meant for archives, not for `tar --to-command=…`. What is run this way isn't looked at, and a
//! program can have more ways to run another than are listed here; the list holds those that are known to be used.

use super::{Word, base_name};

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
    tells.then_some("can be told to run another command")
}
