//! Environment variables: which are harmless to set, and which change what programs do.
//!
//! An allowed program does something else if `PATH`, `LD_PRELOAD` or `GIT_SSH_COMMAND` was set before, by
//! an assignment or by `export`, `declare`, `read` and the like. A few names are known to be harmless, and
//! a few to be dangerous. Ordinary names belong to the script. Any other variable only means that the
//! command doesn't count as read-only.

use super::examine::fits_any;
use super::programs::PLAIN_PAGER;

/// The effect of setting a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum VariableWeight {
    /// Language, color, width: allow rules ignore it.
    Harmless,
    /// A script's own variable.
    Ordinary,
    /// May be read by some program.
    Unclear,
    /// Changes which programs run, or what they load.
    Dangerous,
}

/// `*` matches anything.
const HARMLESS: &str = "LANG LANGUAGE LC_* TZ NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE TERM COLORTERM COLUMNS LINES RUST_BACKTRACE RUST_LOG \
    CARGO_TERM_COLOR NODE_ENV CI PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONIOENCODING PYTHONUTF8 GOOS GOARCH CGO_ENABLED DEBIAN_FRONTEND \
    HUSKY GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS";

/// Names and patterns of names. The last part of a variable's name usually shows that it names a program,
/// its options or its configuration.
const DANGEROUS: &[&str] = &[
    // Search paths of programs and libraries.
    "PATH CDPATH HOME SHELL ENV EXECIGNORE FPATH ZDOTDIR LD LD_* DYLD_* GCONV_PATH LOCPATH NLSPATH GLIBC_TUNABLES TMPDIR COMPILER_PATH \
     GCC_EXEC_PREFIX COLLECT_* CCC_OVERRIDE_OPTIONS CLASSPATH AWKPATH AWKLIBPATH EMACSLOADPATH TCLLIBPATH",
    // Shells.
    "BASH_* BASHOPTS SHELLOPTS PROMPT_COMMAND PS0 PS1 PS2 PS3 PS4 HISTFILE INPUTRC",
    // Programs that other programs start.
    "*EDITOR *PAGER *BROWSER *_ASKPASS *_WRAPPER *_LAUNCHER *_COMMAND *_COMPILER *_EXECUTABLE *_HELPER *_PROG *_PROGRAM *_PROXY *_proxy *_PREFIX_CMD \
     *_RSH *_SSH *_EXTERNAL_DIFF FCEDIT VISUAL EMACS JAVACMD PKG_CONFIG PACMAN",
    // Build programs.
    "AR AS CC CPP CXX FC LEX LINT MAKEINFO NM OBJCOPY RANLIB STRIP YACC RUSTC RUSTC_* RUSTDOC RUSTDOC* RUSTUP_* RUSTFLAGS CARGO CARGO_* CCACHE_* \
     DISTCC_* CMAKE_* MAKE MAKEFILES *MAKEFLAGS",
    // Options and configuration of programs.
    "*_OPTIONS *_OPTS *OPT *OPTS LESS* MAN* GREP_OPTIONS GZIP BZIP BZIP2 XZ_* ZIP UNZIP CURL_HOME WGETRC RIPGREP_CONFIG_PATH BAT_CONFIG_PATH FZF_* VIMINIT EXINIT \
     MYVIMRC PSQLRC PHPRC PHP_INI_* IRBRC R_PROFILE* R_ENVIRON* R_LIBS* TERMINFO* HOSTALIASES SSL_* OPENSSL_* KUBECONFIG XDG_CONFIG_* XDG_DATA_DIRS \
     GOFLAGS GOPATH GOROOT GOENV GOPROXY GOTOOLCHAIN PYTEST_ADDOPTS PYTEST_PLUGINS RUBYLIB ERL_*FLAGS ELIXIR_ERL_* DOTNET_STARTUP_HOOKS",
    // Everything that one program reads.
    "GIT_* PYTHON* NODE_* PERL* RUBYOPT BUNDLE_* GEM_* LUA_* JULIA_* GUILE_* npm_config_* NPM_CONFIG_* YARN_* PIP_* UV_* CONDA_* DOCKER_* AWS_* CLOUDSDK_* \
     ANSIBLE_* HELM_* TF_CLI* SSH_* SUDO_* DBUS_* GNUPGHOME GIO_* GTK_* GST_* QT_* ANTHROPIC_* OPENAI_* HAFT_* CLAUDE_*",
];

/// Compiler options, which are harmless if each of them is in `PLAIN_FLAGS`.
const COMPILER_FLAGS: &str = "CFLAGS CXXFLAGS CPPFLAGS FFLAGS LDFLAGS CGO_CFLAGS CGO_CXXFLAGS CGO_LDFLAGS";
const PLAIN_FLAGS: &str =
    "-O* -g* -W* -D* -U* -I* -L* -l* -std=* -m* -f* -pthread -pipe -static -shared -s -w -pedantic";

/// Returns the effect of setting this variable. The value matters for pagers, compiler options and module
/// paths.
pub(super) fn variable_weight(name: &str, value: Option<&str>) -> VariableWeight {
    let plain = |fits: &dyn Fn(&str) -> bool| value.is_some_and(fits);
    let harmless = match name {
        _ if name.ends_with("PAGER") => plain(&|value| value.is_empty() || value == PLAIN_PAGER),
        _ if fits_any(COMPILER_FLAGS, name) => return weight_of_flags(value),
        _ => fits_any(HARMLESS, name),
    };
    if harmless {
        return VariableWeight::Harmless;
    }
    // Module paths inside the project: the interpreter finds modules in its folder anyway.
    let inside =
        |part: &str| !part.starts_with('/') && !part.is_empty() && part.split('/').all(|name| name != "..");
    if name == "PYTHONPATH" && plain(&|value| value.split(':').all(inside)) {
        return VariableWeight::Unclear;
    }
    if DANGEROUS.iter().any(|patterns| fits_any(patterns, name)) {
        return VariableWeight::Dangerous;
    }
    let ordinary = name == "IFS" || name.bytes().any(|b| b.is_ascii_lowercase());
    if ordinary { VariableWeight::Ordinary } else { VariableWeight::Unclear }
}

fn weight_of_flags(value: Option<&str>) -> VariableWeight {
    let plain = |flag: &str| {
        let loads = ["plugin", "specs", "-Wl,", "-Xlinker"].iter().any(|sign| flag.contains(sign));
        fits_any(PLAIN_FLAGS, flag)
            && !loads
            && !flag.starts_with("-wrapper")
            && !flag.starts_with("-fuse-ld=/")
    };
    let known = value.is_some_and(|value| value.split_whitespace().all(plain));
    if known { VariableWeight::Unclear } else { VariableWeight::Dangerous }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights() {
        assert_eq!(variable_weight("LC_ALL", None), VariableWeight::Harmless);
        assert_eq!(variable_weight("GIT_PAGER", Some("cat")), VariableWeight::Harmless);
        assert_eq!(variable_weight("GIT_PAGER", Some("sh -c x")), VariableWeight::Dangerous);
        assert_eq!(variable_weight("LD_PRELOAD", None), VariableWeight::Dangerous);
        assert_eq!(variable_weight("PYTHONPATH", Some("src:.")), VariableWeight::Unclear);
        assert_eq!(variable_weight("PYTHONPATH", Some("/x")), VariableWeight::Dangerous);
        assert_eq!(variable_weight("BASH_CMDS", None), VariableWeight::Dangerous);
        assert_eq!(variable_weight("https_proxy", None), VariableWeight::Dangerous);
        assert_eq!(variable_weight("MANOPT", None), VariableWeight::Dangerous);
        assert_eq!(variable_weight("CFLAGS", Some("-O2 -Wall")), VariableWeight::Unclear);
        assert_eq!(variable_weight("CFLAGS", Some("-O2 -wrapper x")), VariableWeight::Dangerous);
        assert_eq!(variable_weight("line", None), VariableWeight::Ordinary);
        assert_eq!(variable_weight("IFS", None), VariableWeight::Ordinary);
        assert_eq!(variable_weight("FILE", None), VariableWeight::Unclear);
    }
}
