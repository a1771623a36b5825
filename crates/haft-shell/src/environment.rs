//! Variables: which are harmless to set, and which change what programs do.
//!
//! An allowed program is no longer what was allowed if `PATH`, `LD_PRELOAD` or `GIT_SSH_COMMAND` was set before, by an
//! assignment or by `export`, `declare`, `read` and the like. A few names are known to be harmless, a few to be
//! dangerous, and ordinary names of a script are its own affair; everything else only costs the read-only judgement.

use super::programs::PLAIN_PAGER;

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
    "BASH_",
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

/// What setting this variable means. The value counts for pagers and for modules of the project.
pub(super) fn weight(name: &str, value: Option<&str>) -> Weight {
    if HARMLESS.contains(&name) || name.starts_with("LC_") {
        return Weight::Harmless;
    }
    if name.ends_with("PAGER") {
        return if value.is_some_and(|value| value.is_empty() || value == PLAIN_PAGER) {
            Weight::Harmless
        } else {
            Weight::Dangerous
        };
    }
    // Where modules of the project are: the interpreter finds them in its folder anyway.
    let inside =
        |part: &str| !part.starts_with('/') && !part.is_empty() && part.split('/').all(|name| name != "..");
    if name == "PYTHONPATH" && value.is_some_and(|value| value.split(':').all(inside)) {
        return Weight::Unclear;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights() {
        assert_eq!(weight("LC_ALL", None), Weight::Harmless);
        assert_eq!(weight("GIT_PAGER", Some("cat")), Weight::Harmless);
        assert_eq!(weight("GIT_PAGER", Some("sh -c x")), Weight::Dangerous);
        assert_eq!(weight("LD_PRELOAD", None), Weight::Dangerous);
        assert_eq!(weight("PYTHONPATH", Some("src:.")), Weight::Unclear);
        assert_eq!(weight("PYTHONPATH", Some("/x")), Weight::Dangerous);
        assert_eq!(weight("BASH_CMDS", None), Weight::Dangerous);
        assert_eq!(weight("https_proxy", None), Weight::Dangerous);
        assert_eq!(weight("line", None), Weight::Ordinary);
        assert_eq!(weight("IFS", None), Weight::Ordinary);
        assert_eq!(weight("FILE", None), Weight::Unclear);
    }
}
