//! The home folder of a child: empty, but for tool chains, caches and settings without secrets.
//!
//! Nothing is there that isn't on a list. So a secret that nobody thought of is hidden as well as those that have a
//! name here; [`HIDDEN`] is for the places where something that is on a list holds one, and for who works in the home
//! folder itself.

use std::path::{Path, PathBuf};

use haft_git::{config, keys};

use super::caches::{CACHES, Caches};
use super::places::Places;
use super::toolchains::ToolChains;
use super::{ProfileConfig, limits, read_small, shown};
use crate::scene::{Part, Source};

/// Readable in a home folder.
pub(super) const TOOLCHAINS: [&str; 24] = [
    ".asdf",
    ".bun/bin",
    ".cargo/bin",
    ".cargo/env",
    ".config/git/attributes",
    ".config/git/ignore",
    ".deno/bin",
    ".dotnet",
    ".ghcup/bin",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".volta",
    "go",
];

/// Never seen, wherever a home folder is shown: keys, tokens, histories, the settings of agents, profiles of browsers.
pub const HIDDEN: &[&str] = &[
    ".aws",
    ".azure",
    ".bash_history",
    ".cache/BraveSoftware",
    ".cache/chromium",
    ".cache/gh",
    ".cache/google-chrome",
    ".cache/mozilla",
    ".cache/thunderbird",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude",
    ".claude.json",
    ".codex",
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/glab-cli",
    ".config/google-chrome",
    ".config/haft",
    ".config/op",
    ".docker",
    ".dotnet/corefx/cryptography",
    ".gem/credentials",
    ".gemini",
    ".git-credentials",
    ".gnupg",
    ".gradle/gradle.properties",
    ".kube",
    ".lesshst",
    ".local/share/keyrings",
    ".local/share/uv/credentials",
    ".local/state/haft",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".mozilla",
    ".mysql_history",
    ".netrc",
    ".node_repl_history",
    ".password-store",
    ".pgpass",
    ".pki",
    ".psql_history",
    ".pypirc",
    ".python_history",
    ".sqlite_history",
    ".ssh",
    ".terraform.d",
    ".thunderbird",
    ".vault-token",
    ".viminfo",
    ".zsh_history",
];

/// Settings of git, of which a child gets a copy.
const GIT: [&str; 2] = [".gitconfig", ".config/git/config"];
/// Settings of package managers, of which a child gets the lines without secrets.
const SETTINGS: [&str; 5] =
    [".cargo/config", ".cargo/config.toml", ".config/pip/pip.conf", ".npmrc", ".pip/pip.conf"];

/// Puts what a child may see of a home folder where it is. `is_shown` says that the folder itself is there already.
pub(super) fn furnish(places: &mut Places, home: &Path, is_shown: bool, notes: &mut Vec<String>) {
    if !is_shown {
        places.put(Part::Tmpfs { at: home.to_owned(), bytes_max: limits::HOME_BYTES, mode: 0o700 });
        for name in TOOLCHAINS {
            let at = home.join(name);
            // What is a link is shown at its name: programs look for it there.
            if let Ok(real) = at.canonicalize() {
                places.put(Part::Bind { from: Source::Path(real), at, writable: false });
            }
        }
    }
    for name in GIT {
        let at = home.join(name);
        let Some(bytes) = read_small(&real(&at)) else { continue };
        match config::parse(&bytes) {
            Ok(entries) => {
                if entries.iter().any(|entry| entry.section == "commit" && entry.key == "gpgsign") {
                    notes.push("commits that commands make aren't signed: signing keys are hidden".into());
                }
                let kept = entries.iter().filter(|entry| keys::is_shown(entry));
                places.put(Part::File { at, content: config::render(kept) });
            }
            Err(why) => {
                notes.push(format!("commands don't see `{}`: {why}", shown(&at)));
                places.put(Part::File { at, content: Vec::new() });
            }
        }
    }
    SETTINGS.iter().filter_map(|name| settings(home.join(name))).for_each(|part| places.put(part));
}

/// The settings of package managers in folders that variables move.
pub(super) fn moved_settings(chains: &ToolChains) -> impl Iterator<Item = Part> {
    SETTINGS.iter().filter_map(|name| settings(chains.moved(name)?))
}

/// A settings file without secrets.
fn settings(at: PathBuf) -> Option<Part> {
    let bytes = read_small(&real(&at))?;
    let content = without_secrets(&String::from_utf8_lossy(&bytes)).into_bytes();
    Some(Part::File { at, content })
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The caches of package managers, each with the user's own where there is one, as who may change them sees them.
pub(super) fn caches(
    places: &Places,
    config: &ProfileConfig,
    chains: &ToolChains,
    caches: &Caches,
) -> Result<Vec<Part>, String> {
    let mut found = Vec::new();
    for name in CACHES.into_iter().chain(chains.caches_apart()) {
        let Some(at) = chains.cache(name, config) else { continue };
        let lower = at.canonicalize().ok().filter(|lower| lower.is_dir());
        // There is no place to put it, in a folder that is the user's own.
        if lower.is_none() && at.parent().is_some_and(|parent| places.shows(parent)) {
            continue;
        }
        let failed = |error| format!("no private copy of the cache `{}` can be made: {error}", shown(&at));
        found.push(caches.part(name, lower, at.clone()).map_err(failed)?);
    }
    Ok(found)
}

/// The same cache, with what earlier commands have added, for who can't change it.
pub(super) fn unchangeable(mut cache: Part) -> Part {
    if let Part::Overlay { writable, .. } | Part::Bind { writable, .. } = &mut cache {
        *writable = false;
    }
    cache
}

/// The lines of a settings file that hold no secret, as far as their names tell.
fn without_secrets(text: &str) -> String {
    const SECRET: [&str; 9] =
        ["token", "password", "passwd", "secret", "_auth", "credential", "username", "email", "proxy"];
    let (mut kept, mut within) = (String::new(), false);
    for line in text.lines() {
        let lower = line.to_lowercase();
        if within {
            within = !lower.contains(']');
            continue;
        }
        let name = lower.split('=').next().unwrap_or_default().trim();
        // `cafile` and the like name public things.
        let secret = SECRET.iter().any(|part| lower.contains(part)) || name.ends_with("key");
        if secret || keys::has_user(line) {
            let value = lower.split_once('=').map_or("", |(_, value)| value);
            within = value.contains('[') && !value.contains(']');
            continue;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_lose_their_secrets() {
        for (given, kept) in [
            ("registry=https://r/\n//r/:_authToken=abc\n", "registry=https://r/\n"),
            (
                "[source.x]\nregistry = \"sparse+https://m/\"\n",
                "[source.x]\nregistry = \"sparse+https://m/\"\n",
            ),
            ("[registry]\ncredential-provider = [\n \"a\",\n]\nx = 1\n", "[registry]\nx = 1\n"),
            ("index-url = https://me:pw@host/simple\ntimeout = 5\n", "timeout = 5\n"),
            ("key=\"-----BEGIN\"\ncafile=/etc/ssl/x.pem\n", "cafile=/etc/ssl/x.pem\n"),
        ] {
            assert_eq!(without_secrets(given), kept);
        }
    }
}
