//! Hosts that are switched on together: where public packages come from. All off unless a user asks for them.
//!
//! One table of official names. Mirrors change from country to country and are left to a rule of the user's own.

use std::fmt;
use std::str::FromStr;

use crate::host::{BadHost, Host, HostRule};

/// A set of hosts with a name.
///
/// ```
/// use haft_net::preset::Preset;
///
/// let preset: Preset = "package-registries".parse().unwrap();
/// assert!(preset.hosts().contains(&"static.crates.io"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Preset {
    /// Where the packages of languages and systems come from.
    PackageRegistries,
    /// Where sources and releases on GitHub are loaded from. Whoever can reach these can also send there.
    GithubDownloads,
}

const PACKAGE_REGISTRIES: &[&str] = &[
    // Rust
    "crates.io",
    "index.crates.io",
    "static.crates.io",
    "static.rust-lang.org",
    // JavaScript
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    // Python
    "pypi.org",
    "files.pythonhosted.org",
    // Go
    "proxy.golang.org",
    "sum.golang.org",
    // Ruby
    "rubygems.org",
    "index.rubygems.org",
    // Java
    "repo.maven.apache.org",
    "repo1.maven.org",
    // Debian, Ubuntu, Alpine
    "deb.debian.org",
    "security.debian.org",
    "archive.ubuntu.com",
    "security.ubuntu.com",
    "ports.ubuntu.com",
    "dl-cdn.alpinelinux.org",
];

const GITHUB_DOWNLOADS: &[&str] = &[
    "github.com",
    "codeload.github.com",
    "raw.githubusercontent.com",
    "objects.githubusercontent.com",
    "release-assets.githubusercontent.com",
];

impl Preset {
    /// Every preset.
    pub const ALL: [Preset; 2] = [Preset::PackageRegistries, Preset::GithubDownloads];

    /// How settings write it.
    pub fn name(self) -> &'static str {
        match self {
            Preset::PackageRegistries => "package-registries",
            Preset::GithubDownloads => "github-downloads",
        }
    }

    /// Its hosts.
    pub fn hosts(self) -> &'static [&'static str] {
        match self {
            Preset::PackageRegistries => PACKAGE_REGISTRIES,
            Preset::GithubDownloads => GITHUB_DOWNLOADS,
        }
    }

    /// Whether it has this host.
    pub fn has(self, host: &Host) -> bool {
        matches!(host, Host::Name(name) if self.hosts().contains(&name.as_str()))
    }

    /// The same as rules.
    pub fn rules(self) -> impl Iterator<Item = HostRule> {
        self.hosts().iter().map(|host| host.parse().expect("a test reads every name of the table"))
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = BadHost;

    fn from_str(text: &str) -> Result<Preset, BadHost> {
        let found = Preset::ALL.into_iter().find(|preset| preset.name() == text);
        found.ok_or_else(|| {
            let names = Preset::ALL.map(|preset| format!("`{preset}`")).join(" and ");
            BadHost::new(format!("there is no preset `{}`; {names} are known", crate::host::shown(text)))
        })
    }
}
