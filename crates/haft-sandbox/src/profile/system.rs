//! The system as every child sees it, and which folders of it are more than a working directory can be.

use std::fs;
use std::path::{Path, PathBuf};

use super::mount_map::MountMap;
use super::{PRIVATE_TEMP, etc, limits};
use crate::mount_plan::MountEntry;

/// Folders of the system that are readable; of `/etc` only [what programs need](super::etc).
pub(super) const SYSTEM: [&str; 11] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/etc", "/gnu/store"];
/// What of `/etc` isn't, also where it is shown as a whole: it matters for root, whom permissions don't stop.
const SYSTEM_HIDDEN: [&str; 12] = [
    "/etc/NetworkManager/system-connections",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/krb5.keytab",
    "/etc/letsencrypt",
    "/etc/security/opasswd",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/wireguard",
];
/// Where systems keep certificates to which links in `/etc` lead.
const CERTIFICATES: [&str; 1] = ["/var/lib/ca-certificates"];
/// Folders that no working directory may be or hold if commands are to write it.
const TOO_WIDE: [&str; 8] = ["/dev", "/etc", "/proc", "/root", "/run", "/sys", "/usr", "/var"];

/// Why a folder is too wide to be written by commands, if it is.
pub(super) fn is_too_wide(path: &Path, home: Option<&Path>) -> Option<&'static str> {
    if path == Path::new("/") {
        return Some(
            "it is the root of the file system, of which they see the usual folders of the system only",
        );
    }
    if home == Some(path) {
        return Some("it is your home folder, of which they see what isn't secret");
    }
    if home.is_some_and(|home| home.starts_with(path)) {
        return Some("your home folder lies in it");
    }
    let system = SYSTEM.iter().chain(&TOO_WIDE).any(|folder| Path::new(folder).starts_with(path));
    system.then_some("it is or holds a folder of the system")
}

/// What a folder is that isn't one of files, but a view of the kernel or of devices, which every child has of
/// its own: by the numbers of proc, sysfs, both kinds of cgroup, debugfs, tracefs and devpts.
pub(super) fn is_of_the_kernel(path: &Path) -> Option<&'static str> {
    const VIEWS: [(u64, &str); 7] = [
        (0x9fa0, "it shows processes, and each command sees its own"),
        (0x6265_6572, "it shows devices of the machine"),
        (0x0027_e0eb, "it shows groups of processes"),
        (0x6367_7270, "it shows groups of processes"),
        (0x6462_6720, "it shows the inside of the kernel"),
        (0x7472_6163, "it shows the inside of the kernel"),
        (0x1cd1, "it holds terminals"),
    ];
    let kind = rustix::fs::statfs(path).ok().and_then(|found| u64::try_from(found.f_type).ok());
    let view = VIEWS.iter().find(|(magic, _)| kind == Some(*magic)).map(|(_, what)| *what);
    // Not by its kind: in containers it is a folder in memory like others.
    let devices = path.starts_with("/dev") && !path.starts_with("/dev/shm");
    view.or(devices.then_some("it holds devices, and each command has its own"))
}

/// The system as every child sees it.
pub(super) fn system_mounts() -> MountMap {
    let mut places = MountMap::default();
    let system = SYSTEM.iter().chain(&CERTIFICATES).map(Path::new);
    for folder in system.filter(|folder| *folder != Path::new(etc::ETC)) {
        let Ok(found) = folder.symlink_metadata() else { continue };
        match fs::read_link(folder) {
            Ok(to) => places.put(MountEntry::Link { at: folder.to_owned(), to }),
            Err(_) if found.is_dir() => places.bind(folder, false),
            Err(_) => {}
        }
    }
    places.put(MountEntry::Proc);
    places.put(MountEntry::Dev);
    let folder = |at: &str, bytes_max, mode| MountEntry::Tmpfs { at: at.into(), bytes_max, mode };
    places.put(folder("/run", limits::SMALL_BYTES, 0o755));
    places.put(folder(PRIVATE_TEMP, limits::PRIVATE_TEMP_BYTES, 0o1777));
    // Where a system has its programs, if it has them in a store.
    let current = Path::new("/run/current-system");
    if let Ok(to) = fs::read_link(current) {
        places.put(MountEntry::Link { at: current.to_owned(), to });
    }
    places
}

/// Secrets of the system.
pub(super) fn hidden_paths() -> impl Iterator<Item = PathBuf> {
    let host_keys = fs::read_dir("/etc/ssh").into_iter().flatten().flatten().filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("ssh_host_") && name.ends_with("_key")
    });
    SYSTEM_HIDDEN.map(PathBuf::from).into_iter().chain(host_keys.map(|entry| entry.path()))
}

/// The file that names the name server, if a child would look at one that isn't ours.
pub(super) fn resolver_path() -> Option<PathBuf> {
    let path = Path::new("/etc/resolv.conf");
    if path.symlink_metadata().ok()?.is_file() {
        return Some(path.to_owned());
    }
    let to = Path::new("/etc").join(fs::read_link(path).ok()?);
    // As far as `..` go: `../run/systemd/resolve/stub-resolv.conf`.
    let to = to
        .canonicalize()
        .ok()
        .or_else(|| to.strip_prefix("/etc/..").ok().map(|rest| Path::new("/").join(rest)))?;
    (to.starts_with("/run") || to.starts_with("/etc")).then_some(to)
}
