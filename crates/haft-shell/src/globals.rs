//! Options in front of a sub-command: `git -C x push` is a `git push`.
//!
//! For programs with sub-commands, rules that deny or ask meet the text without the options that come before the
//! sub-command too. Rules that allow don't: `git -c …` isn't what `git push` is. An option that isn't in the table may
//! take the next word or not, so both readings are offered.

use super::options::{Found, Options};
use super::{Word, base_name};

struct Program {
    name: &'static str,
    options: Options,
}

const fn program(
    name: &'static str,
    flags: &'static str,
    valued: &'static str,
    long: &'static [&'static str],
    long_valued: &'static [&'static str],
) -> Program {
    Program { name, options: Options { flags, valued, long, long_valued } }
}

/// How many readings of unknown options are offered.
const READINGS_MAX: usize = 4;

const PROGRAMS: &[Program] = &[
    program(
        "apt",
        "yqsdfmuVb",
        "octa",
        &["yes", "assume-yes", "quiet"],
        &["option", "config-file", "target-release"],
    ),
    program(
        "apt-get",
        "yqsdfmuVb",
        "octa",
        &["yes", "assume-yes", "quiet"],
        &["option", "config-file", "target-release"],
    ),
    program(
        "aws",
        "",
        "",
        &["debug", "no-verify-ssl", "no-paginate", "no-sign-request", "no-cli-pager"],
        &[
            "profile",
            "region",
            "endpoint-url",
            "output",
            "query",
            "ca-bundle",
            "color",
            "cli-read-timeout",
            "cli-connect-timeout",
        ],
    ),
    program("az", "", "o", &["debug", "verbose", "only-show-errors"], &["output", "query", "subscription"]),
    program("bundle", "", "", &["no-color", "verbose"], &["retry"]),
    program(
        "cargo",
        "vq",
        "ZC",
        &["verbose", "quiet", "frozen", "locked", "offline"],
        &["color", "config", "manifest-path", "target-dir", "explain"],
    ),
    program("docker", "Dv", "Hlcfp", &["tls", "tlsverify", "debug"], DOCKER),
    program("docker-compose", "", "fpcH", &["verbose", "no-ansi", "compatibility", "dry-run"], DOCKER),
    program(
        "gcloud",
        "q",
        "",
        &["quiet"],
        &["project", "account", "configuration", "format", "verbosity", "impersonate-service-account"],
    ),
    program("gh", "", "R", &[], &["repo", "hostname"]),
    program(
        "git",
        "pPhv",
        "Cc",
        &[
            "no-pager",
            "paginate",
            "bare",
            "no-replace-objects",
            "literal-pathspecs",
            "glob-pathspecs",
            "noglob-pathspecs",
            "icase-pathspecs",
            "no-optional-locks",
            "no-lazy-fetch",
            "no-advice",
            "exec-path",
            "html-path",
            "version",
            "help",
        ],
        &["git-dir", "work-tree", "namespace", "super-prefix", "config-env", "attr-source", "list-cmds"],
    ),
    program("glab", "", "R", &[], &["repo", "hostname"]),
    program("go", "", "C", &[], &[]),
    program(
        "gradle",
        "qiwdsSm",
        "bpcgIDPx",
        &["quiet", "info", "offline", "no-daemon", "stacktrace", "continue"],
        &["build-file", "project-dir", "init-script", "gradle-user-home"],
    ),
    program(
        "helm",
        "",
        "n",
        &["debug"],
        &[
            "namespace",
            "kube-context",
            "kubeconfig",
            "kube-apiserver",
            "kube-token",
            "registry-config",
            "repository-config",
        ],
    ),
    program("heroku", "", "ar", &[], &["app", "remote"]),
    program(
        "hg",
        "yvq",
        "R",
        &["noninteractive", "verbose", "quiet", "debug"],
        &["repository", "cwd", "config", "encoding"],
    ),
    program(
        "kubectl",
        "",
        "nsv",
        &["insecure-skip-tls-verify", "match-server-version", "warnings-as-errors"],
        KUBE,
    ),
    program(
        "make",
        "BbdeikLnpqrRsStvw",
        "CfIjloW",
        &["silent", "quiet", "keep-going", "dry-run", "always-make"],
        &["directory", "file", "makefile", "include-dir"],
    ),
    program(
        "mvn",
        "qXBUoeNV",
        "fPplTDs",
        &["quiet", "batch-mode", "offline"],
        &["file", "activate-profiles", "projects", "settings", "define"],
    ),
    program("npm", "sqdgfyDSEOP", "Cw", NPM_FLAGS, NPM_VALUED),
    program("oc", "", "nsv", &["insecure-skip-tls-verify"], KUBE),
    program("pip", "qvhV", "", PIP_FLAGS, PIP_VALUED),
    program("pip3", "qvhV", "", PIP_FLAGS, PIP_VALUED),
    program("pnpm", "sqdgfyDSEOPrw", "CF", NPM_FLAGS, NPM_VALUED),
    program("podman", "", "c", &["remote", "noout"], DOCKER),
    program(
        "poetry",
        "qnv",
        "CP",
        &["quiet", "no-interaction", "verbose", "no-ansi", "no-plugins", "no-cache"],
        &["directory", "project"],
    ),
    program("rustup", "vq", "", &["verbose", "quiet"], &[]),
    program(
        "svn",
        "qv",
        "",
        &["quiet", "verbose", "non-interactive", "no-auth-cache", "trust-server-cert"],
        &["username", "password", "config-dir", "config-option"],
    ),
    program(
        "systemctl",
        "alqfri",
        "HMtpPonsS",
        &[
            "user",
            "system",
            "global",
            "no-pager",
            "quiet",
            "now",
            "force",
            "runtime",
            "no-block",
            "no-legend",
            "all",
            "full",
            "wait",
            "no-ask-password",
        ],
        &[
            "host",
            "machine",
            "type",
            "state",
            "property",
            "output",
            "lines",
            "root",
            "image",
            "job-mode",
            "signal",
            "kill-whom",
        ],
    ),
    program("terraform", "", "", &[], &[]),
    program("tmux", "2CDlNuvV", "cfLST", &[], &[]),
    program(
        "uv",
        "qvn",
        "",
        &["quiet", "verbose", "offline", "no-cache", "no-config"],
        &["directory", "project", "config-file", "cache-dir", "color", "python"],
    ),
    program("yarn", "sv", "", NPM_FLAGS, NPM_VALUED),
];

const DOCKER: &[&str] = &[
    "config",
    "context",
    "host",
    "log-level",
    "tlscacert",
    "tlscert",
    "tlskey",
    "file",
    "project-name",
    "profile",
    "project-directory",
    "env-file",
    "ansi",
    "progress",
    "parallel",
    "url",
    "connection",
    "root",
    "runroot",
    "storage-driver",
    "identity",
];
const KUBE: &[&str] = &[
    "namespace",
    "context",
    "cluster",
    "user",
    "kubeconfig",
    "server",
    "token",
    "as",
    "as-group",
    "as-uid",
    "request-timeout",
    "certificate-authority",
    "client-key",
    "client-certificate",
    "cache-dir",
    "tls-server-name",
    "username",
    "password",
    "v",
    "vmodule",
    "profile",
    "profile-output",
];
const NPM_FLAGS: &[&str] = &[
    "silent",
    "quiet",
    "verbose",
    "global",
    "force",
    "yes",
    "no",
    "json",
    "offline",
    "prefer-offline",
    "no-audit",
    "no-fund",
    "ignore-scripts",
    "workspaces",
    "recursive",
    "no-color",
    "workspace-root",
    "no-save",
    "dry-run",
];
const NPM_VALUED: &[&str] = &[
    "prefix",
    "registry",
    "workspace",
    "userconfig",
    "globalconfig",
    "cache",
    "loglevel",
    "tag",
    "otp",
    "access",
    "dir",
    "filter",
    "cwd",
    "modules-folder",
    "cache-folder",
    "script-shell",
    "scope",
    "proxy",
    "https-proxy",
];
const PIP_FLAGS: &[&str] = &[
    "isolated",
    "require-virtualenv",
    "verbose",
    "quiet",
    "no-input",
    "debug",
    "disable-pip-version-check",
    "no-color",
    "no-cache-dir",
    "no-python-version-warning",
];
const PIP_VALUED: &[&str] = &[
    "proxy",
    "cache-dir",
    "log",
    "timeout",
    "retries",
    "trusted-host",
    "cert",
    "client-cert",
    "python",
    "exists-action",
    "keyring-provider",
    "use-feature",
    "use-deprecated",
];

fn find(name: &str) -> Option<&'static Program> {
    PROGRAMS.binary_search_by(|program| program.name.cmp(name)).ok().map(|at| &PROGRAMS[at])
}

/// Where the sub-command of a program may be: past the options in front of it. The likeliest is the first.
fn verbs(program: &Program, argv: &[Word], from: usize) -> Vec<usize> {
    let mut open = vec![from];
    let mut found = Vec::new();
    while let Some(mut at) = open.pop() {
        while let Some(word) = argv.get(at) {
            let text = word.prefix();
            if program.name == "cargo" && text.starts_with('+') {
                at += 1;
                continue;
            }
            if text.len() < 2 || !text.starts_with('-') {
                break;
            }
            at += 1;
            let Some(option) = word.literal() else { continue };
            // `terraform -chdir=x`.
            if program.name == "terraform" {
                continue;
            }
            match program.options.read(option).last() {
                Some(Found::Valued(_, None)) => at += 1,
                Some(Found::Unknown)
                    if !option.contains('=') && open.len() + found.len() + 1 < READINGS_MAX =>
                {
                    open.push(at + 1);
                }
                _ => {}
            }
        }
        if at < argv.len() && !found.contains(&at) {
            found.push(at);
        }
    }
    found
}

/// Where the sub-command of a program with such is, from a word on, as far as is known.
pub(super) fn verb(argv: &[Word], from: usize) -> Option<usize> {
    let name = base_name(argv.first()?.literal()?);
    match find(name) {
        Some(program) => verbs(program, argv, from).first().copied(),
        None => (from..argv.len()).find(|at| !argv[*at].prefix().starts_with('-')),
    }
}

/// The text of a command without the options in front of its sub-command, and of the sub-command of that: one for
/// each way in which it may be read. Nothing where that changes nothing.
pub(super) fn without_options(argv: &[Word]) -> Vec<String> {
    let mut texts = Vec::new();
    let Some(name) = argv.first().and_then(Word::literal).map(base_name) else { return texts };
    // `python -m pip …` is `pip …`.
    if name.starts_with("python")
        && let Some(at) = argv.iter().position(|word| word.literal() == Some("-m"))
        && argv.len() > at + 1
    {
        let module = &argv[at + 1..];
        texts.push(module.iter().map(Word::plain).collect::<Vec<_>>().join(" "));
        texts.extend(without_options(module));
        return texts;
    }
    let Some(program) = find(name) else { return texts };
    for at in verbs(program, argv, 1) {
        let rest = |from: usize| argv[from.min(argv.len())..].iter().map(Word::plain);
        if at > 1 {
            texts.push(std::iter::once(name).chain(rest(at)).collect::<Vec<_>>().join(" "));
        }
        for next in verbs(program, argv, at + 1) {
            if next > at + 1 {
                let words = [name, argv[at].plain()].into_iter().chain(rest(next));
                texts.push(words.collect::<Vec<_>>().join(" "));
            }
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(PROGRAMS.is_sorted_by(|a, b| a.name < b.name));
    }
}
