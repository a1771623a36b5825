//! Variables: which are harmless to set, which change what programs do, and commands that set them.
//!
//! An allowed program is no longer what was allowed if `PATH`, `LD_PRELOAD` or `GIT_SSH_COMMAND` was set before, by an
//! assignment or by `export`, `declare`, `read` and the like. A few names are known to be harmless, a few to be
//! dangerous, and ordinary names of a script are its own affair; everything else only costs the read-only judgement.

use super::Word;
use super::parse::is_name;

/// What setting a variable means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// Language, colour, width: allow rules look past it.
    Harmless,
    /// A script's own variable.
    Ordinary,
    /// May be read by some program.
    Unclear,
    /// Changes which programs run, or what they load.
    Dangerous,
}

const HARMLESS: &[&str] = &[
    "LANG",
    "LANGUAGE",
    "TZ",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "TERM",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "CARGO_TERM_COLOR",
    "NODE_ENV",
    "CI",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONIOENCODING",
    "PYTHONUTF8",
    "GOOS",
    "GOARCH",
    "CGO_ENABLED",
    "DEBIAN_FRONTEND",
    "HUSKY",
    "GIT_TERMINAL_PROMPT",
    "GIT_OPTIONAL_LOCKS",
];

const DANGEROUS: &[&str] = &[
    "PATH",
    "CDPATH",
    "HOME",
    "SHELL",
    "ENV",
    "BASH_ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "EXECIGNORE",
    "FPATH",
    "ZDOTDIR",
    "EDITOR",
    "VISUAL",
    "BROWSER",
    "LESS",
    "LESSOPEN",
    "LESSCLOSE",
    "LESSEDIT",
    "LESSKEY",
    "LESSKEYIN",
    "MAKEFLAGS",
    "GNUMAKEFLAGS",
    "MAKEFILES",
    "CC",
    "CXX",
    "LD",
    "AR",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOC",
    "RUSTFLAGS",
    "CARGO",
    "CARGO_HOME",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PERL5OPT",
    "PERL5LIB",
    "PERL5DB",
    "PERLLIB",
    "RUBYOPT",
    "RUBYLIB",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "CLASSPATH",
    "GOFLAGS",
    "GOPATH",
    "GOROOT",
    "GOPROXY",
    "RIPGREP_CONFIG_PATH",
    "GREP_OPTIONS",
    "TAR_OPTIONS",
    "GZIP",
    "XZ_OPT",
    "CURL_HOME",
    "WGETRC",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "SSH_AUTH_SOCK",
    "RSYNC_RSH",
    "EMACS",
    "VIMINIT",
    "EXINIT",
    "GCONV_PATH",
    "LOCPATH",
    "NLSPATH",
    "TERMINFO",
    "TERMINFO_DIRS",
    "HOSTALIASES",
    "OPENSSL_CONF",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "DOCKER_HOST",
    "KUBECONFIG",
    "XDG_CONFIG_HOME",
    "XDG_DATA_DIRS",
    "XDG_CONFIG_DIRS",
    "TMPDIR",
    "HISTFILE",
];

const DANGEROUS_STARTS: &[&str] = &[
    "LD_",
    "DYLD_",
    "GIT_",
    "BASH_FUNC_",
    "PYTHON",
    "CARGO_",
    "npm_config_",
    "NPM_CONFIG_",
    "YARN_",
    "PIP_",
    "BUNDLE_",
    "GEM_",
    "DOCKER_",
    "AWS_",
    "ANTHROPIC_",
    "OPENAI_",
    "HAFT_",
    "CLAUDE_",
    "LUA_",
    "GIO_",
    "GTK_",
    "QT_",
];

/// What setting this variable means. The value counts for pagers only.
pub(super) fn weight(name: &str, value: Option<&str>) -> Weight {
    if HARMLESS.contains(&name) || name.starts_with("LC_") {
        return Weight::Harmless;
    }
    if name.ends_with("PAGER") {
        return if matches!(value, Some("cat" | "")) { Weight::Harmless } else { Weight::Dangerous };
    }
    if DANGEROUS.contains(&name) || DANGEROUS_STARTS.iter().any(|start| name.starts_with(start)) {
        return Weight::Dangerous;
    }
    if name.to_ascii_lowercase().ends_with("_proxy") {
        return Weight::Dangerous;
    }
    if name == "IFS" || name.bytes().any(|b| b.is_ascii_lowercase()) {
        Weight::Ordinary
    } else {
        Weight::Unclear
    }
}

/// What a built-in command sets.
pub(super) enum Sets {
    /// Nothing: it isn't such a command.
    Nothing,
    /// These names.
    Names(Vec<(String, Option<String>)>),
    /// It can't be told, or evaluates what it is given.
    Unknown,
}

/// The variables that a built-in command sets by its arguments.
pub(super) fn sets(argv: &[Word]) -> Sets {
    let Some(name) = argv.first().and_then(Word::literal) else { return Sets::Nothing };
    let arguments = &argv[1..];
    match name {
        "export" | "readonly" | "declare" | "typeset" | "local" => declared(arguments),
        "read" => named(arguments, "ersz", "adinNptu", "a"),
        "mapfile" | "readarray" => named(arguments, "t", "dnOsuCc", ""),
        "unset" => named(arguments, "fvn", "", ""),
        "getopts" => named(arguments.get(1..2).unwrap_or(&[]), "", "", ""),
        "let" => Sets::Unknown,
        "printf" | "wait" => {
            let option = if name == "printf" { "-v" } else { "-p" };
            match arguments.first() {
                Some(Word::Literal(text)) if text == option => {
                    named(&arguments[1..arguments.len().min(2)], "", "", "")
                }
                Some(Word::Literal(text)) if text.starts_with(option) => Sets::Unknown,
                Some(Word::Dynamic(open)) if open.splits => Sets::Unknown,
                _ => Sets::Nothing,
            }
        }
        // `-v` evaluates a subscript.
        "test" | "[" => {
            let evaluates = arguments.iter().enumerate().any(|(at, word)| {
                word.literal() == Some("-v")
                    && arguments.get(at + 1).and_then(Word::literal).is_none_or(|name| !is_name(name))
            });
            if evaluates { Sets::Unknown } else { Sets::Nothing }
        }
        _ => Sets::Nothing,
    }
}

fn declared(arguments: &[Word]) -> Sets {
    let mut names = Vec::new();
    for word in arguments {
        let text = word.prefix();
        if let Some(flags) = text.strip_prefix(['-', '+']) {
            // References and integers evaluate what is assigned later.
            if word.literal().is_none() || !flags.bytes().all(|b| b"-gxraAlupfF".contains(&b)) {
                return Sets::Unknown;
            }
            continue;
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.trim_end_matches('+'), Some(value)),
            None => (text, None),
        };
        let known = word.literal().is_some() || value.is_some();
        if !known || !is_name(name) {
            return Sets::Unknown;
        }
        names.push((name.to_owned(), word.literal().and(value).map(str::to_owned)));
    }
    Sets::Names(names)
}

/// Names as arguments, after options of which some have a value, and some of those are names too.
fn named(arguments: &[Word], flags: &str, valued: &str, naming: &str) -> Sets {
    let mut names = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.literal() else { return Sets::Unknown };
        let Some(letters) = text.strip_prefix('-').filter(|_| names.is_empty()) else {
            if !is_name(text) {
                return Sets::Unknown;
            }
            names.push((text.to_owned(), None));
            continue;
        };
        for (at, letter) in letters.char_indices() {
            if valued.contains(letter) {
                let rest = &letters[at + 1..];
                let value = if rest.is_empty() { words.next().map(Word::literal) } else { Some(Some(rest)) };
                if naming.contains(letter) {
                    match value.flatten() {
                        Some(name) if is_name(name) => names.push((name.to_owned(), None)),
                        _ => return Sets::Unknown,
                    }
                }
                break;
            }
            if !flags.contains(letter) && letter != '-' {
                return Sets::Unknown;
            }
        }
    }
    Sets::Names(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights() {
        assert_eq!(weight("LC_ALL", None), Weight::Harmless);
        assert_eq!(weight("GIT_PAGER", Some("cat")), Weight::Harmless);
        assert_eq!(weight("GIT_PAGER", Some("sh -c x")), Weight::Dangerous);
        assert_eq!(weight("LD_PRELOAD", None), Weight::Dangerous);
        assert_eq!(weight("https_proxy", None), Weight::Dangerous);
        assert_eq!(weight("line", None), Weight::Ordinary);
        assert_eq!(weight("IFS", None), Weight::Ordinary);
        assert_eq!(weight("FILE", None), Weight::Unclear);
    }
}
