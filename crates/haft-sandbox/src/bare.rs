//! The narrower way, where no namespaces can be made: the same scene, as rules of Landlock.
//!
//! Reads are limited by a list of what may be read. What a scene shows elsewhere than it lies is allowed
//! where it lies. What no such list can say isn't promised: a protected name inside a folder that can be
//! changed (so such calls ask), a host that may be reached (so none may), and the end of everything with a
//! killed host.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::{Errno, Result};

use crate::landlock::{self, LandlockRules};
use crate::mount_plan::{BindSource, ExcerptEntry, MountEntry, MountPlan, NetworkAccessKind};
use crate::seccomp::AllowedSockets;
use crate::wire::ChildJob;
use crate::{limits, sys};

/// Where the folder for temporary files really lies, on its way to the child's environment.
const TEMPORARY: &str = "TMPDIR";

/// What a scene comes to.
pub(crate) fn landlock_rules(scene: &MountPlan) -> Result<LandlockRules> {
    let rules =
        LandlockRules::new(landlock::READ | landlock::CHANGE, scene.network != NetworkAccessKind::Host)?;
    let masks: Vec<&Path> = scene
        .parts
        .iter()
        .filter_map(|part| match part {
            MountEntry::Mask { at } | MountEntry::Tmpfs { at, .. } => Some(at.as_path()),
            _ => None,
        })
        .collect();
    let mut named = 0;
    allow_held(&rules, &scene.parts)?;
    for part in &scene.parts {
        match part {
            MountEntry::Bind { from: BindSource::Path(from), at, writable } => {
                // Where it lies elsewhere than it is shown, nothing of the scene lies over it.
                let masks: &[&Path] = if from == at { &masks } else { &[] };
                allow_path(&rules, access_rights(*writable), from, masks, &mut named)?;
            }
            MountEntry::Overlay { lower, .. } => {
                allow_path(&rules, landlock::READ, lower, &masks, &mut named)?
            }
            // A copy is made by nobody here, so what it was to be made of isn't read either.
            MountEntry::Excerpt { at, entries, .. } => {
                for entry in entries.iter() {
                    if let ExcerptEntry::Host(name) = entry {
                        allow_path(&rules, landlock::READ, &at.join(name), &masks, &mut named)?;
                    }
                }
            }
            MountEntry::Proc => allow_path(&rules, landlock::READ, Path::new("/proc"), &[], &mut named)?,
            MountEntry::Dev => {
                for name in ["null", "zero", "full", "random", "urandom", "tty"] {
                    let rights = landlock::READ | landlock::USE_DEVICE;
                    allow_path(&rules, rights, &Path::new("/dev").join(name), &[], &mut named)?;
                }
            }
            // Allowed already, nothing of the host, or nothing that a list of what is allowed could say.
            MountEntry::Bind { from: BindSource::Held(_), .. }
            | MountEntry::StandIn { .. }
            | MountEntry::Tmpfs { .. }
            | MountEntry::Mask { .. }
            | MountEntry::Protect { .. }
            | MountEntry::Pin { .. }
            | MountEntry::Link { .. }
            | MountEntry::File { .. } => {}
        }
    }
    Ok(rules)
}

/// A host's local sockets could be reached, and there are no hosts to be granted.
pub(crate) fn allowed_sockets(scene: &MountPlan) -> AllowedSockets {
    match scene.network {
        NetworkAccessKind::Host => AllowedSockets::Internet,
        NetworkAccessKind::Empty | NetworkAccessKind::Session => AllowedSockets::Pairs,
    }
}

/// Allows what only one child has, which is held open.
pub(crate) fn allow_held(rules: &LandlockRules, parts: &[MountEntry]) -> Result<()> {
    parts.iter().try_for_each(|part| match part {
        MountEntry::Bind { from: BindSource::Held(held), writable, .. } => {
            rules.allow(access_rights(*writable), held.as_fd())
        }
        _ => Ok(()),
    })
}

/// The file of this program, which a child is to run: Landlock refuses to execute what isn't allowed.
pub(crate) fn program_mount(opened: &OwnedFd) -> std::result::Result<MountEntry, String> {
    let failed = |error: std::io::Error| format!("the file of this program can't be shown: {error}");
    let at = std::fs::read_link("/proc/self/exe").map_err(failed)?;
    let held = opened.try_clone().map_err(failed)?;
    Ok(MountEntry::Bind { from: BindSource::Held(Arc::new(held)), at, writable: false })
}

fn access_rights(writable: bool) -> u64 {
    if writable { landlock::READ | landlock::CHANGE } else { landlock::READ }
}

/// Allows a path, without what is hidden beneath it: then its entries are named one by one.
fn allow_path(
    rules: &LandlockRules,
    access: u64,
    path: &Path,
    masks: &[&Path],
    named: &mut usize,
) -> Result<()> {
    if masks.contains(&path) {
        return Ok(());
    }
    let opened = match rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    if !masks.iter().any(|mask| mask.starts_with(path)) {
        return rules.allow(access, opened.as_fd());
    }
    // Of what is hidden only the name can be seen. What is made anew beside it can be written, and read by
    // the next child.
    rules.allow(access & !landlock::READ | landlock::READ_DIR, opened.as_fd())?;
    let Ok(entries) = std::fs::read_dir(path) else { return Ok(()) };
    for entry in entries.flatten() {
        *named += 1;
        if *named > limits::NAMED_MAX {
            return Err(Errno::TOOBIG);
        }
        // What a link leads to is allowed where that lies, or not at all.
        if !entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            allow_path(rules, access, &entry.path(), masks, named)?;
        }
    }
    Ok(())
}

/// The temporary folder lies where it lies; programs are told by a variable.
pub(crate) fn point_to_temporary(job: &mut ChildJob) {
    if let Some(folder) = job.environment.remove(OsStr::new(PRIVATE_TEMPORARY)) {
        job.environment.insert(TEMPORARY.into(), folder);
    }
}

/// A variable from the host to the helper, not for the child.
const PRIVATE_TEMPORARY: &str = "HAFT_SANDBOX_TEMPORARY";

/// What [`point_to_temporary`] needs to know, if anything is shown as `/tmp`.
pub(crate) fn temp_variable(scene: &MountPlan) -> Option<(OsString, OsString)> {
    scene.parts.iter().rev().find_map(|part| match part {
        MountEntry::Bind { from: BindSource::Path(from), at, writable: true } if at == Path::new("/tmp") => {
            Some((PRIVATE_TEMPORARY.into(), PathBuf::from(from).into_os_string()))
        }
        _ => None,
    })
}

/// The processes below this one, as far as they can be found.
pub(crate) fn list_descendants() -> Vec<i32> {
    descendants_of(rustix::process::getpid().as_raw_nonzero().get())
}

/// The processes below this process.
pub(crate) fn descendants_of(first: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let mut next = vec![first];
    while let Some(pid) = next.pop() {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for task in tasks.flatten() {
            let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children: Vec<i32> = text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
            found.extend(&children);
            next.extend(&children);
        }
    }
    found
}

/// Kills until there is nobody left. Whoever is stopped first can't start another while we look.
pub(crate) fn kill_all() {
    for _ in 0..limits::KILL_ROUNDS_MAX {
        let found = list_descendants();
        if found.is_empty() {
            return;
        }
        found.iter().for_each(|pid| sys::signal_one(*pid, libc::SIGSTOP));
        found.iter().for_each(|pid| sys::signal_one(*pid, libc::SIGKILL));
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOHANG;
        while let Ok(Some(_)) = rustix::process::waitid(rustix::process::WaitId::All, options) {}
        std::thread::yield_now();
    }
}
