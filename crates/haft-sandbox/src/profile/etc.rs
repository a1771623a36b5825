//! What commands see of `/etc`: what programs need, by name, and nothing else.
//!
//! Services keep their passwords there, each in a file of its own name, and root reads them all. So there is
//! a list of what is shown, as in the home folder. Of settings of git, npm and pip there is a copy without
//! secrets.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::home;
use super::mount_map::MountMap;
use super::symlink_trace::without_dots;
use super::toolchains::find_credentials;
use crate::mount_plan::{ExcerptEntry, MountEntry};

/// The folder.
pub(super) const ETC: &str = "/etc";

/// What is shown of it; `*` stands for any end of a name.
const SHOWN: &[&str] = &[
    // Accounts.
    "group",
    "login.defs",
    "nsswitch.conf",
    "passwd",
    "shells",
    "subgid",
    "subuid",
    // Names of hosts and services.
    "gai.conf",
    "host.conf",
    "hostname",
    "hosts",
    "netconfig",
    "networks",
    "protocols",
    "resolv.conf",
    "rpc",
    "services",
    // Certificates that are trusted, and what is asked of them.
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "gnutls",
    "gss",
    "krb5.conf",
    "pki/ca-trust",
    "pki/java",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    // The loader.
    "ld-musl-*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ld.so.preload",
    // Time zone and language.
    "default/locale",
    "locale.alias",
    "locale.conf",
    "locale.gen",
    "localtime",
    "timezone",
    // Which system it is.
    "SuSE-release",
    "alpine-release",
    "arch-release",
    "centos-release",
    "debian_version",
    "fedora-release",
    "lsb-release",
    "mtab",
    "os-release",
    "redhat-release",
    "static",
    "system-release",
    // Shells and terminals.
    "bash.bashrc",
    "bashrc",
    "inputrc",
    "profile",
    "terminfo",
    // Tool chains and everyday programs.
    "ImageMagick-*",
    "OpenCL",
    "R",
    "alternatives",
    "chromium",
    "chromium.d",
    "debuginfod",
    "dotnet",
    "dpkg",
    "fonts",
    "gdb",
    "glvnd",
    "groff",
    "java*",
    "libreoffice",
    "magic",
    "magic.mime",
    "man_db.conf",
    "manpath.config",
    "maven",
    "mime.types",
    "mke2fs.conf",
    "perl",
    "php/*/cli",
    "php/*/mods-available",
    "python*",
    "sgml",
    "ssh/moduli",
    "ssh/ssh_config",
    "ssh/ssh_config.d",
    "ssh/ssh_known_hosts",
    "texmf",
    "vim",
    "vulkan",
    "xattr.conf",
    "xml",
];

/// Settings of git, npm and pip, of which there is a copy.
const COPIED: [&str; 3] = ["gitconfig", "npmrc", "pip.conf"];

/// How often a link among them is followed to what lies there too.
const LINKS_MAX: usize = 8;

/// Shows what is on the list; `work` is an empty folder for the helper.
pub(super) fn show_etc(places: &mut MountMap, work: PathBuf) {
    let etc = Path::new(ETC);
    let mut names = BTreeSet::new();
    for pattern in SHOWN {
        for name in expand_pattern(etc, pattern) {
            add_name(etc, &name, LINKS_MAX, &mut names);
        }
    }
    let copied = COPIED.iter().filter_map(|name| {
        let content = match *name {
            "gitconfig" => home::git_settings(&etc.join(name), &mut Vec::new())?,
            _ => home::redacted_settings(&etc.join(name))?,
        };
        Some(ExcerptEntry::Text { name: name.into(), content })
    });
    let entries: Vec<ExcerptEntry> =
        names.iter().map(|name| ExcerptEntry::Host(name.clone())).chain(copied).collect();
    places.put(MountEntry::Excerpt { at: etc.to_owned(), work: Some(work), entries: entries.into() });
    let mut credentials = Vec::new();
    for folder in names.iter().map(|name| etc.join(name)).filter(|path| path.is_dir()) {
        find_credentials(&folder, &mut credentials);
    }
    credentials.iter().for_each(|path| places.hide(path, &[]));
}

/// The names that a pattern means.
fn expand_pattern(etc: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.split('/') {
        found = found.iter().flat_map(|folder| matching_entries(etc, folder, part)).collect();
    }
    found
}

fn matching_entries(etc: &Path, folder: &Path, part: &str) -> Vec<PathBuf> {
    let Some(beginning) = part.strip_suffix('*') else { return vec![folder.join(part)] };
    let entries = fs::read_dir(etc.join(folder)).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with(beginning)).map(|name| folder.join(name)).collect()
}

/// Adds a name as far as the first link in it, and what that leads to, if it lies there too.
fn add_name(etc: &Path, name: &Path, links_left: usize, names: &mut BTreeSet<PathBuf>) {
    let mut so_far = PathBuf::new();
    for component in name.components() {
        match component {
            Component::Normal(part) => so_far.push(part),
            Component::ParentDir => drop(so_far.pop()),
            _ => {}
        }
        let path = etc.join(&so_far);
        let Ok(to) = fs::read_link(&path) else { continue };
        names.insert(so_far.clone());
        let to = path.parent().unwrap_or(etc).join(to);
        let rest: PathBuf = name.iter().skip(so_far.iter().count()).collect();
        // `..` in it is taken by its text, so one that leads out by another link is not found.
        if let (Ok(within), Some(left)) = (without_dots(&to).strip_prefix(etc), links_left.checked_sub(1)) {
            add_name(etc, &within.join(rest), left, names);
        }
        return;
    }
    if etc.join(&so_far).symlink_metadata().is_ok() && !so_far.as_os_str().is_empty() {
        names.insert(so_far);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// What is shown of a folder with these files, and links to these.
    #[track_caller]
    fn check(files: &[&str], links: &[(&str, &str)], pattern: &str, expected: &[&str]) {
        let dir = tempfile::tempdir().unwrap();
        let etc = dir.path().canonicalize().unwrap();
        for file in files {
            fs::create_dir_all(etc.join(file).parent().unwrap()).unwrap();
            fs::write(etc.join(file), "").unwrap();
        }
        for (name, to) in links {
            let to = to.replace('~', etc.to_str().unwrap());
            symlink(to, etc.join(name)).unwrap();
        }
        let mut names = BTreeSet::new();
        expand_pattern(&etc, pattern).iter().for_each(|name| add_name(&etc, name, LINKS_MAX, &mut names));
        let names: Vec<&str> = names.iter().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn names_are_found_with_what_links_lead_to() {
        check(&["hosts", "shadow"], &[], "hosts", &["hosts"]);
        check(&[], &[], "hosts", &[]);
        check(&["java-17/a", "java-8/b", "jav"], &[], "java*", &["java-17", "java-8"]);
        check(&["php/8/cli/a", "php/8/fpm/b"], &[], "php/*/cli", &["php/8/cli"]);
        check(&["pki/tls/certs/a"], &[("ssl", "pki/tls")], "ssl/certs", &["pki/tls/certs", "ssl"]);
        check(&["a/real"], &[("hosts", "a/real")], "hosts", &["a/real", "hosts"]);
        check(&["real"], &[("hosts", "~/real")], "hosts", &["hosts", "real"]);
        check(&["x"], &[("localtime", "/usr/share/zoneinfo/UTC")], "localtime", &["localtime"]);
        check(&["x"], &[("mtab", "../proc/self/mounts")], "mtab", &["mtab"]);
        check(&[], &[("a", "b"), ("b", "a")], "a", &["a", "b"]);
        check(&["x"], &[("hosts", ".")], "hosts", &["hosts"]);
    }
}
