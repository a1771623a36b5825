//! The home folder of a child: empty, but for tool chains, caches and settings without secrets.
//!
//! Nothing is there that isn't on a list. So a secret that nobody thought of is hidden as well as those that
//! have a name here; [`HIDDEN`] is for the places where something that is on a list holds one, and for who
//! works in the home folder itself.

use std::path::{Path, PathBuf};

use haft_git::{config, keys};

use super::caches::{OTHER, ToolCaches, USUAL};
use super::mount_map::MountMap;
use super::toolchains::{ToolChains, find_credentials};
use super::{ProfileConfig, display_path, limits, read_small};
use crate::mount_plan::{BindSource, MountEntry};

/// Readable in a home folder.
pub(super) const TOOLCHAINS: [&str; 30] = [
    ".asdf",
    ".bun/bin",
    ".cargo/bin",
    ".cargo/env",
    ".config/git/attributes",
    ".config/git/ignore",
    ".deno/bin",
    ".dotnet",
    ".elan",
    ".gem/ruby",
    ".ghcup",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/gem",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".volta",
    "go/bin",
];

/// Never seen, wherever a home folder is shown: keys, tokens, histories, the settings of agents, profiles of
/// browsers.
pub const HIDDEN: &[&str] = &[
    ".aws",
    ".azure",
    ".bash_history",
    ".boto",
    ".cache/BraveSoftware",
    ".cache/chromium",
    ".cache/containers",
    ".cache/gh",
    ".cache/google-chrome",
    ".cache/huggingface",
    ".cache/microsoft-edge",
    ".cache/mozilla",
    ".cache/opencode",
    ".cache/thunderbird",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude",
    ".claude.json",
    ".codex",
    ".composer/auth.json",
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/composer/auth.json",
    ".config/containers",
    ".config/doctl",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/glab-cli",
    ".config/google-chrome",
    ".config/haft",
    ".config/hub",
    ".config/op",
    ".config/opencode",
    ".config/pypoetry/auth.toml",
    ".config/rclone",
    ".cursor",
    ".docker",
    ".dotnet/corefx/cryptography",
    ".gem/credentials",
    ".gemini",
    ".git-credentials",
    ".gnupg",
    ".gradle/gradle.properties",
    ".huggingface",
    ".kaggle",
    ".kube",
    ".lesshst",
    ".local/share/keyrings",
    ".local/share/opencode",
    ".local/share/uv/credentials",
    ".local/state/haft",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".mozilla",
    ".my.cnf",
    ".mysql_history",
    ".netrc",
    ".node_repl_history",
    ".npm/_logs",
    ".nuget/NuGet",
    ".oci",
    ".password-store",
    ".pgpass",
    ".pki",
    ".psql_history",
    ".pub-cache/credentials.json",
    ".pypirc",
    ".python_history",
    ".s3cfg",
    ".sbt/.credentials",
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

/// Puts what a child may see of a home folder where it is. `is_shown` says that the folder itself is there
/// already.
pub(super) fn furnish_home(places: &mut MountMap, home: &Path, is_shown: bool, notes: &mut Vec<String>) {
    if !is_shown {
        places.put(MountEntry::Tmpfs { at: home.to_owned(), bytes_max: limits::HOME_BYTES, mode: 0o700 });
        let mut credentials = Vec::new();
        for name in TOOLCHAINS.into_iter().chain(is_go(&home.join("go")).then_some("go")) {
            let at = home.join(name);
            // What is a link is shown at its name: programs look for it there.
            if let Ok(real) = at.canonicalize() {
                find_credentials(&at, &mut credentials);
                places.put(MountEntry::Bind { from: BindSource::Path(real), at, writable: false });
            }
        }
        credentials.iter().for_each(|path| places.hide(path, &[]));
    }
    for at in GIT.map(|name| home.join(name)) {
        if let Some(content) = git_settings(&at, notes) {
            places.put(MountEntry::File { at, content });
        }
    }
    put_settings(places, SETTINGS.iter().map(|name| home.join(name)));
}

/// Whether a folder is Go itself, and not where it puts what it has fetched.
fn is_go(folder: &Path) -> bool {
    folder.join("VERSION").is_file() && folder.join("src/runtime").is_dir()
}

/// What commands see of a configuration of git; nothing if there is none.
pub(super) fn git_settings(at: &Path, notes: &mut Vec<String>) -> Option<Vec<u8>> {
    let bytes = read_small(&real_path(at))?;
    let entries = match config::parse(&bytes) {
        Ok(entries) => entries,
        Err(why) => {
            notes.push(format!("commands don't see `{}`: {why}", display_path(at)));
            return Some(Vec::new());
        }
    };
    if entries.iter().any(|entry| entry.section == "commit" && entry.key == "gpgsign") {
        notes.push("commits that commands make aren't signed: signing keys are hidden".into());
    }
    Some(config::render(entries.iter().filter(|entry| keys::is_shown(entry))))
}

/// Puts settings of package managers there, in the home folder and where variables move it.
pub(super) fn put_settings(places: &mut MountMap, paths: impl Iterator<Item = PathBuf>) {
    for at in paths {
        if let Some(content) = redacted_settings(&at) {
            places.put(MountEntry::File { at, content });
        }
    }
}

/// Where variables move them.
pub(super) fn moved_settings(chains: &ToolChains) -> impl Iterator<Item = PathBuf> {
    SETTINGS.iter().filter_map(|name| chains.moved(name))
}

/// A settings file without secrets.
pub(super) fn redacted_settings(at: &Path) -> Option<Vec<u8>> {
    let bytes = read_small(&real_path(at))?;
    Some(without_secrets(&String::from_utf8_lossy(&bytes)).into_bytes())
}

fn real_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The caches of package managers, each with the user's own where there is one, as who may change them sees
/// them.
pub(super) fn cache_mounts(
    places: &MountMap,
    config: &ProfileConfig,
    chains: &ToolChains,
    caches: &ToolCaches,
) -> Result<Vec<MountEntry>, String> {
    let mut found = Vec::new();
    let names = USUAL.iter().map(|name| (*name, true)).chain(OTHER.iter().map(|name| (*name, false)));
    for (name, is_made) in names {
        let Some(at) = chains.cache(name, config) else { continue };
        let lower = at.canonicalize().ok().filter(|lower| lower.is_dir());
        // There is no place to put it, in a folder that is the user's own.
        let has_place = || !at.parent().is_some_and(|parent| places.shows(parent));
        if lower.is_none() && !(is_made && has_place()) {
            continue;
        }
        let failed =
            |error| format!("no private copy of the cache `{}` can be made: {error}", display_path(&at));
        found.push(caches.part(name, lower, at.clone()).map_err(failed)?);
    }
    Ok(found)
}

/// The same cache, with what earlier commands have added, for who can't change it.
pub(super) fn make_read_only(mut cache: MountEntry) -> MountEntry {
    if let MountEntry::Overlay { writable, .. } | MountEntry::Bind { writable, .. } = &mut cache {
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
