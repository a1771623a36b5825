//! The forms of `git` that only look.
//!
//! A list of sub-commands with the options that are known to be harmless for each. Any global option makes git do
//! something else (`-c core.fsmonitor=…` runs a program), so none is accepted. The configuration of a repository can
//! make even these run helpers: the judgement is for display and concurrency.

use super::Word;
use super::options::{Found, Options};

struct Form {
    name: &'static str,
    options: Options,
    operands: Operands,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// Revisions and paths.
    Any,
    /// None, or only together with a listing option.
    Listed,
    /// The first is one of these.
    First(&'static [&'static str]),
}

const LOG_LONG: &[&str] = &[
    "oneline",
    "stat",
    "numstat",
    "shortstat",
    "name-only",
    "name-status",
    "patch",
    "no-patch",
    "graph",
    "all",
    "decorate",
    "no-decorate",
    "abbrev-commit",
    "no-abbrev-commit",
    "follow",
    "merges",
    "no-merges",
    "first-parent",
    "reverse",
    "color",
    "no-color",
    "cached",
    "staged",
    "word-diff",
    "summary",
    "raw",
    "full-index",
    "minimal",
    "patience",
    "histogram",
    "ignore-all-space",
    "ignore-space-change",
    "ignore-blank-lines",
    "branches",
    "tags",
    "remotes",
    "topo-order",
    "date-order",
    "no-ext-diff",
    "no-textconv",
    "no-renames",
    "find-renames",
    "check",
    "exit-code",
    "quiet",
    "text",
    "merge-base",
    "unified",
    "abbrev",
    "pretty",
    "dirstat",
    "cc",
    "left-right",
    "cherry-pick",
    "boundary",
    "pickaxe-all",
    "pickaxe-regex",
    "regexp-ignore-case",
    "extended-regexp",
    "fixed-strings",
    "function-context",
    "no-prefix",
];
const LOG_VALUED: &[&str] = &[
    "max-count",
    "skip",
    "since",
    "after",
    "until",
    "before",
    "author",
    "committer",
    "grep",
    "format",
    "date",
    "diff-filter",
    "stat-width",
    "diff-algorithm",
    "inter-hunk-context",
];

const fn form(
    name: &'static str,
    flags: &'static str,
    valued: &'static str,
    long: &'static [&'static str],
    operands: Operands,
) -> Form {
    Form { name, options: Options { flags, valued, long, long_valued: &[] }, operands }
}

const fn logs(name: &'static str) -> Form {
    let options = Options {
        flags: "psuzwbMCDRqitaEF0123456789",
        valued: "nSGLU",
        long: LOG_LONG,
        long_valued: LOG_VALUED,
    };
    Form { name, options, operands: Operands::Any }
}

const FORMS: &[Form] = &[
    logs("log"),
    logs("diff"),
    logs("show"),
    logs("whatchanged"),
    logs("shortlog"),
    logs("diff-tree"),
    logs("rev-list"),
    form(
        "status",
        "sbvzuno",
        "",
        &[
            "short",
            "branch",
            "porcelain",
            "long",
            "verbose",
            "untracked-files",
            "ignored",
            "show-stash",
            "ahead-behind",
            "no-renames",
        ],
        Operands::Any,
    ),
    form(
        "rev-parse",
        "q",
        "",
        &[
            "show-toplevel",
            "abbrev-ref",
            "short",
            "verify",
            "quiet",
            "git-dir",
            "is-inside-work-tree",
            "show-prefix",
            "show-cdup",
            "is-bare-repository",
            "absolute-git-dir",
            "git-common-dir",
            "symbolic-full-name",
            "all",
            "branches",
            "tags",
        ],
        Operands::Any,
    ),
    form(
        "branch",
        "arvil",
        "",
        &[
            "list",
            "all",
            "remotes",
            "verbose",
            "show-current",
            "contains",
            "no-contains",
            "merged",
            "no-merged",
            "points-at",
            "sort",
            "format",
            "color",
            "no-color",
            "ignore-case",
            "column",
            "no-column",
        ],
        Operands::Listed,
    ),
    form(
        "tag",
        "li",
        "n",
        &[
            "list",
            "contains",
            "no-contains",
            "merged",
            "no-merged",
            "points-at",
            "sort",
            "format",
            "ignore-case",
            "column",
        ],
        Operands::Listed,
    ),
    form("remote", "v", "", &["verbose"], Operands::First(&["get-url"])),
    form("stash", "p", "", &["patch", "stat", "oneline"], Operands::First(&["list", "show"])),
    form("worktree", "vz", "", &["porcelain", "verbose"], Operands::First(&["list"])),
    form("reflog", "n", "", &["all", "oneline"], Operands::First(&["show"])),
    form(
        "config",
        "lz",
        "",
        &["get", "get-all", "get-regexp", "list", "show-origin", "show-scope", "name-only", "null"],
        Operands::Listed,
    ),
    form(
        "ls-files",
        "cdmoiskutvz",
        "x",
        &[
            "cached",
            "deleted",
            "modified",
            "others",
            "ignored",
            "stage",
            "unmerged",
            "exclude-standard",
            "full-name",
            "error-unmatch",
            "eol",
        ],
        Operands::Any,
    ),
    form(
        "ls-tree",
        "drtlz",
        "",
        &["name-only", "name-status", "full-name", "full-tree", "long", "abbrev", "format"],
        Operands::Any,
    ),
    form(
        "show-ref",
        "qsd",
        "",
        &["head", "heads", "tags", "verify", "hash", "abbrev", "quiet", "dereference"],
        Operands::Any,
    ),
    form(
        "describe",
        "",
        "",
        &[
            "all",
            "tags",
            "always",
            "dirty",
            "long",
            "contains",
            "abbrev",
            "exact-match",
            "first-parent",
            "match",
            "exclude",
            "broken",
        ],
        Operands::Any,
    ),
    form(
        "blame",
        "wMCeflnps",
        "L",
        &["porcelain", "line-porcelain", "show-email", "show-name", "show-number", "date", "abbrev", "root"],
        Operands::Any,
    ),
    form("cat-file", "tspe", "", &[], Operands::Any),
    form(
        "merge-base",
        "a",
        "",
        &["all", "octopus", "is-ancestor", "independent", "fork-point"],
        Operands::Any,
    ),
    form("name-rev", "", "", &["tags", "name-only", "always", "no-undefined"], Operands::Any),
    form(
        "for-each-ref",
        "",
        "",
        &["format", "sort", "count", "contains", "merged", "no-merged", "points-at"],
        Operands::Any,
    ),
    form("check-ignore", "vqnz", "", &["verbose", "quiet", "non-matching", "no-index"], Operands::Any),
    form("count-objects", "vH", "", &["verbose", "human-readable"], Operands::Any),
    form(
        "grep",
        "inlcEFPwvhHLqIoWpa",
        "eABCm",
        &[
            "ignore-case",
            "line-number",
            "files-with-matches",
            "count",
            "name-only",
            "word-regexp",
            "cached",
            "untracked",
            "show-function",
            "column",
            "heading",
            "break",
            "and",
            "or",
            "not",
            "all-match",
        ],
        Operands::Any,
    ),
];

/// Why the arguments of `git` may change something, or nothing if they don't.
pub(super) fn only_looks(arguments: &[Word]) -> Result<(), String> {
    let Some(name) = arguments.first() else { return Ok(()) };
    let Some(name) = name.literal() else { return Err("which git command it is isn't known".to_owned()) };
    if matches!(name, "--version" | "version") && arguments.len() == 1 {
        return Ok(());
    }
    if name.starts_with('-') {
        return Err(format!("git with the global option `{name}`"));
    }
    let Some(form) = FORMS.iter().find(|form| form.name == name) else {
        return Err(format!("`git {name}` may change something"));
    };
    let mut operands = Vec::new();
    let mut listing = false;
    let mut words = arguments[1..].iter();
    while let Some(word) = words.next() {
        let Some(text) = word.literal() else {
            return Err("git with an argument that isn't known".to_owned());
        };
        if text == "--" {
            operands.extend(words.by_ref().map(Word::plain));
            break;
        }
        if text.len() < 2 || !text.starts_with('-') {
            operands.push(text);
            continue;
        }
        for found in form.options.read(text) {
            match found {
                Found::Unknown => return Err(format!("`git {name}` with `{text}`")),
                Found::Flag(flag) => {
                    listing |= matches!(
                        flag,
                        "l" | "list"
                            | "contains"
                            | "no-contains"
                            | "merged"
                            | "no-merged"
                            | "points-at"
                            | "get"
                            | "get-all"
                            | "get-regexp"
                    ) || (name == "branch" && matches!(flag, "a" | "r"));
                }
                Found::Valued(_, Some(_)) => {}
                Found::Valued(_, None) => {
                    // Versions differ on which options take the next word.
                    if words.next().is_some_and(|value| value.prefix().starts_with('-')) {
                        return Err(format!("`git {name}` with an option as the value of `{text}`"));
                    }
                }
            }
        }
    }
    let fits = match form.operands {
        Operands::Any => true,
        Operands::Listed => listing || (operands.is_empty() && name != "config"),
        Operands::First(names) => match operands.first() {
            None => name != "stash" && name != "worktree",
            Some(first) => names.contains(first),
        },
    };
    if fits { Ok(()) } else { Err(format!("`git {name}` with these arguments may change something")) }
}
