//! Which variables a child gets: those on a list, minus what looks like a secret.
//!
//! An agent's environment holds keys, sockets and switches that change what programs do. A child inherits
//! none of it by default: only what programs need to find themselves and each other, and what tool chains
//! need. A request may add.
//!
//! | passed | names |
//! |---|---|
//! | the basics | `PATH` `HOME` `USER` `SHELL` `LANG` `LC_*` `TERM` `TZ` `CI` |
//! | tool chains | `CARGO_*` `RUSTUP_*` `GO*` (but not `GOOG*`) `JAVA_HOME` `NVM_DIR` `PYENV_ROOT` `UV_*` `VIRTUAL_ENV` `CC` `CXX` `*FLAGS` `PKG_CONFIG_PATH` `SSL_CERT_*` |
//! | never, unless a request names it | what holds an address with a password; `*TOKEN*` `*SECRET*` `*KEY*` `*PASSWORD*` `*PASSWD*` `BASH_ENV` `LD_*` `GIT_*` `SSH_AUTH_SOCK` `DBUS_*` `XDG_RUNTIME_DIR` `DOCKER_HOST`, and everything else |

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use haft::ports::ProcessRequest;

/// Whether every child gets a variable of this name.
///
/// ```
/// use haft_sandbox::environment::is_passed;
///
/// assert!(is_passed("PATH") && is_passed("LC_ALL") && is_passed("LDFLAGS"));
/// assert!(!is_passed("CARGO_REGISTRY_TOKEN") && !is_passed("LD_PRELOAD") && !is_passed("EDITOR"));
/// ```
pub fn is_passed(name: &str) -> bool {
    const EXACT: [&str; 15] = [
        "PATH",
        "HOME",
        "USER",
        "SHELL",
        "LANG",
        "TERM",
        "TZ",
        "CI",
        "JAVA_HOME",
        "NVM_DIR",
        "PYENV_ROOT",
        "VIRTUAL_ENV",
        "CC",
        "CXX",
        "PKG_CONFIG_PATH",
    ];
    const PREFIXES: [&str; 6] = ["LC_", "CARGO_", "RUSTUP_", "GO", "SSL_CERT_", "UV_"];
    const SECRET: [&str; 5] = ["TOKEN", "SECRET", "KEY", "PASSWORD", "PASSWD"];
    // Only what the list above could let through has to be named: `LD_FLAGS`,
    // `GOOGLE_APPLICATION_CREDENTIALS`.
    const NEVER: [&str; 4] = ["LD_", "GIT_", "DBUS_", "GOOG"];
    let listed = EXACT.contains(&name)
        || name.ends_with("FLAGS")
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let upper = name.to_uppercase();
    listed
        && !SECRET.iter().any(|part| upper.contains(part))
        && !NEVER.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether an address with a password is in a value: `GOPROXY=https://me:secret@proxy.example`.
fn has_password(value: &OsStr) -> bool {
    let value = value.to_string_lossy();
    value.match_indices("://").any(|(at, slashes)| {
        let rest = &value[at + slashes.len()..];
        let authority = rest.split(['/', '?', '#', ',', '|', ' ']).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    })
}

/// The environment of one child, by name.
pub(crate) fn child_environment(
    request: &ProcessRequest,
    variables: &[(OsString, OsString)],
) -> BTreeMap<OsString, OsString> {
    let passed = |name: &OsStr| {
        name.to_str().is_some_and(is_passed) || request.pass_env.iter().any(|wanted| wanted == name)
    };
    let wanted = |name: &OsStr| request.pass_env.iter().any(|wanted| wanted == name);
    let inherited = variables
        .iter()
        .filter(|(name, value)| passed(name) && (wanted(name) || !has_password(value)))
        .cloned();
    inherited.chain(request.env.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_password_is_a_secret() {
        for (value, secret) in [
            ("https://me:secret@proxy.example/a", true),
            ("https://proxy.example,https://me:secret@other.example", true),
            ("direct", false),
            ("https://proxy.example:8080/a@b:c", false),
            ("https://me@proxy.example", false),
            ("/usr/bin:/bin", false),
        ] {
            assert_eq!(has_password(value.as_ref()), secret, "{value}");
            let variables = [("GOPROXY".into(), value.into())];
            let request = ProcessRequest::new(["true"], "/");
            assert_eq!(child_environment(&request, &variables).is_empty(), secret, "{value}");
        }
    }

    #[test]
    fn the_list_is_the_one_in_the_documents() {
        for name in [
            "PATH",
            "HOME",
            "USER",
            "SHELL",
            "LANG",
            "LC_ALL",
            "LC_CTYPE",
            "TERM",
            "TZ",
            "CI",
            "CARGO_HOME",
            "RUSTUP_TOOLCHAIN",
            "GOPATH",
            "GO111MODULE",
            "JAVA_HOME",
            "NVM_DIR",
            "PYENV_ROOT",
            "UV_CACHE_DIR",
            "VIRTUAL_ENV",
            "CC",
            "CXX",
            "CFLAGS",
            "RUSTFLAGS",
            "PKG_CONFIG_PATH",
            "SSL_CERT_FILE",
            "SSL_CERT_DIR",
        ] {
            assert!(is_passed(name), "{name}");
        }
        for name in [
            "",
            "path",
            "EDITOR",
            "ANTHROPIC_API_KEY",
            "CARGO_REGISTRY_TOKEN",
            "cargo_token",
            "CARGO_Secret",
            "GO_PASSWORD",
            "SSL_CERT_KEY",
            "UV_PUBLISH_TOKEN",
            "BASH_ENV",
            "LD_PRELOAD",
            "LD_FLAGS",
            "GIT_FLAGS",
            "GIT_DIR",
            "SSH_AUTH_SOCK",
            "DBUS_SESSION_BUS_ADDRESS",
            "XDG_RUNTIME_DIR",
            "DOCKER_HOST",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "HAFT_STATE_DIR",
            "PYTHONPATH",
            "NODE_OPTIONS",
        ] {
            assert!(!is_passed(name), "{name}");
        }
    }

    #[test]
    fn a_request_adds_and_wins() {
        let host: Vec<(OsString, OsString)> =
            [("PATH", "/bin"), ("A_TOKEN", "t"), ("OTHER", "o"), ("LANG", "C")]
                .map(|(name, value)| (name.into(), value.into()))
                .into();
        let request = ProcessRequest::new(["x"], "/")
            .with_passed_env(["A_TOKEN", "NOT_THERE"])
            .with_env("LANG", "de_DE")
            .with_env("NEW", "n");
        let found: Vec<String> = child_environment(&request, &host)
            .into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        assert_eq!(found, ["A_TOKEN=t", "LANG=de_DE", "NEW=n", "PATH=/bin"]);
    }
}
