//! Named sets of hosts: the official package registries and GitHub downloads. All are off by
//! default.
//!
//! One table of official names. Mirrors differ between countries; users allow them with rules of
//! their own.

use std::fmt;
use std::str::FromStr;

use crate::host::{Host, HostParseError, HostRule};

/// A named set of hosts.
///
/// ```
/// use haft_net::host_preset::HostPreset;
///
/// let preset: HostPreset = "package-registries".parse().unwrap();
/// assert!(preset.hosts().contains(&"static.crates.io"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HostPreset {
    /// The package registries of languages and operating systems.
    PackageRegistries,
    /// Sources and releases on GitHub. These hosts also accept uploads.
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

impl HostPreset {
    /// All presets.
    pub const ALL: [HostPreset; 2] = [HostPreset::PackageRegistries, HostPreset::GithubDownloads];

    /// Returns the name that settings use.
    pub fn name(self) -> &'static str {
        match self {
            HostPreset::PackageRegistries => "package-registries",
            HostPreset::GithubDownloads => "github-downloads",
        }
    }

    /// Returns the hosts of the preset.
    pub fn hosts(self) -> &'static [&'static str] {
        match self {
            HostPreset::PackageRegistries => PACKAGE_REGISTRIES,
            HostPreset::GithubDownloads => GITHUB_DOWNLOADS,
        }
    }

    /// Returns whether the preset contains a host.
    pub fn contains(self, host: &Host) -> bool {
        matches!(host, Host::Name(name) if self.hosts().contains(&name.as_str()))
    }

    /// Returns one rule for each host.
    pub fn rules(self) -> impl Iterator<Item = HostRule> {
        self.hosts().iter().map(|host| host.parse().expect("a test reads every name of the table"))
    }
}

impl fmt::Display for HostPreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for HostPreset {
    type Err = HostParseError;

    fn from_str(text: &str) -> Result<HostPreset, HostParseError> {
        let matching = HostPreset::ALL.into_iter().find(|preset| preset.name() == text);
        matching.ok_or_else(|| {
            let names = HostPreset::ALL.map(|preset| format!("`{preset}`")).join(" and ");
            HostParseError::new(format!(
                "there is no preset `{}`; {names} are known",
                crate::host::printable_excerpt(text)
            ))
        })
    }
}
