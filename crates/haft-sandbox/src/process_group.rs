//! A bound on all processes of a session where the user is root, whom `RLIMIT_NPROC` doesn't bind.
//!
//! The helper enters a control group of its own below the one that this process is in, where the kernel lets
//! that be done; everything that it starts is in there too. In the second version of control groups only the
//! root may hold processes beside bounded children, so there it is mostly not possible: moving this program
//! and whoever started it to another group, with other bounds, is not ours to do. Then each command has the
//! bound of its process namespace alone.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::geteuid;

use crate::init::IsolationLevel;
use crate::{limits, mounts};

/// How groups are called that this program makes; then come the process and a number.
const PREFIX: &str = "haft-";
/// How often it is tried to remove a group of which processes are just ending, and how long apart at first
/// and at last.
const REMOVE_TRIES_MAX: u32 = 50;
const REMOVE_PAUSE_MIN: Duration = Duration::from_micros(100);
const REMOVE_PAUSE_MAX: Duration = Duration::from_millis(2);

/// The control group of one helper. Dropped, it is removed, once its processes are gone.
pub(crate) struct ProcessGroup {
    folder: PathBuf,
}

impl ProcessGroup {
    /// The group for a helper with these walls, if the user is root and the kernel allows it.
    pub(crate) fn for_helper(walls: IsolationLevel) -> Option<ProcessGroup> {
        if !geteuid().is_root() || walls == IsolationLevel::Probe {
            return None;
        }
        ProcessGroup::make(session_processes_max(walls == IsolationLevel::Namespaces)).ok()
    }

    fn make(processes_max: u64) -> Result<ProcessGroup, String> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let parent = parent_group()?;
        sweep_groups(&parent);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("`{}` can't be made: {error}", folder.display()))?;
        let group = ProcessGroup { folder };
        fs::write(group.folder.join("pids.max"), processes_max.to_string())
            .map_err(|error| format!("`pids.max` can't be set in `{}`: {error}", parent.display()))?;
        Ok(group)
    }

    /// The list of its tasks, to which a process writes `0` to enter it. What it starts from then on is
    /// there, too.
    pub(crate) fn open_tasks(&self) -> io::Result<OwnedFd> {
        let open = |name: &str| fs::OpenOptions::new().write(true).open(self.folder.join(name));
        // In the second version a thread can't leave the others of its process, so there is only a list of
        // processes.
        Ok(open("tasks").or_else(|_| open("cgroup.procs"))?.into())
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // Of what was killed the last threads may still be ending; the next session removes what is left.
        let mut pause = REMOVE_PAUSE_MIN;
        for _ in 0..REMOVE_TRIES_MAX {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(pause),
                _ => break,
            }
            pause = (pause * 2).min(REMOVE_PAUSE_MAX);
        }
    }
}

/// How many processes all commands of a session may have.
fn session_processes_max(in_namespaces: bool) -> u64 {
    // Where each command has a bound of its own, a few may reach it before the others can't start any.
    let has_own = in_namespaces && mounts::pid_max_is_ours();
    limits::PROCESSES_MAX * if has_own { limits::BOMBS_MAX } else { 1 }
}

/// Says what bounds the processes of commands, and of what there is no bound.
pub fn describe_process_limits() -> String {
    let each = limits::PROCESSES_MAX;
    let of_each = mounts::pid_max_is_ours();
    if !geteuid().is_root() {
        return if of_each {
            format!("a command has at most {each} processes, all of a session {}", each * limits::BOMBS_MAX)
        } else {
            format!("all commands of a session have at most {each} processes")
        };
    }
    let group = ProcessGroup::make(each);
    match (group, of_each) {
        (Ok(_), true) => {
            format!(
                "a command has at most {each} processes, all of a session {}",
                session_processes_max(true)
            )
        }
        (Ok(_), false) => format!("all commands of a session have at most {each} processes"),
        (Err(why), true) => format!(
            "a command has at most {each} processes; all of a session together have no limit, since you are root and no \
             control group can be used: {why}"
        ),
        (Err(why), false) => format!(
            "processes have no limit: you are root, this kernel is older than Linux 6.14, and no control group can be used: \
             {why}"
        ),
    }
}

/// Removes what processes that are gone have left.
fn sweep_groups(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten().take(limits::GROUPS_SWEPT_MAX) {
        let name = entry.file_name();
        let maker =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<u32>().ok());
        if maker.is_some_and(|maker| !Path::new(&format!("/proc/{maker}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The group below which one with a bound on processes can be made: that of this process.
fn parent_group() -> Result<PathBuf, String> {
    let read =
        |path: &str| fs::read_to_string(path).map_err(|error| format!("`{path}` can't be read: {error}"));
    find_group(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)
        .ok_or_else(|| "no control groups for processes are mounted".to_owned())
}

/// The folder of a process's group that counts processes, from what the kernel says of its groups and mounts.
fn find_group(groups: &str, mounts: &str) -> Option<PathBuf> {
    let group_of = |wanted: &str| {
        groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            controllers.split(',').any(|controller| controller == wanted).then_some(path)
        })
    };
    // In the second version the line has no controllers.
    let (group, is_first) =
        group_of("pids").map(|group| (group, true)).or(group_of("").map(|group| (group, false)))?;
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, at) = (place.next()?, place.next()?);
        let mut kind = kind.split(' ');
        let (name, options) = (kind.next()?, kind.nth(1)?);
        let counts = if is_first {
            name == "cgroup" && options.split(',').any(|option| option == "pids")
        } else {
            name == "cgroup2"
        };
        // A mount may show a part of the groups alone.
        let below = Path::new(group).strip_prefix(root).ok().filter(|_| counts)?;
        Some(Path::new(at).join(below))
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::{program, start};

    #[test]
    fn the_group_is_found_where_it_is_mounted() {
        let check = |groups: &str, mounts: &str, expected: Option<&str>| {
            assert_eq!(find_group(groups, mounts).as_deref(), expected.map(Path::new), "{groups} {mounts}");
        };
        let first = "33 24 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                     34 24 0:30 / /sys/fs/cgroup/pids rw,nosuid shared:9 - cgroup cgroup rw,pids\n";
        let second = "35 24 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        check("8:pids:/\n0::/x", first, Some("/sys/fs/cgroup/pids"));
        check("8:pids:/user/1\n", first, Some("/sys/fs/cgroup/pids/user/1"));
        check("0::/user.slice/x\n", second, Some("/sys/fs/cgroup/user.slice/x"));
        check(
            "8:pids:/box/a\n",
            "34 24 0:30 /box /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids",
            Some("/sys/fs/cgroup/pids/a"),
        );
        check("8:pids:/other\n", "34 24 0:30 /box /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids", None);
        check("0::/\n", first, None);
        check("", "", None);
    }

    /// On a machine where this user may make such groups; elsewhere the reason is told.
    #[test]
    fn a_group_bounds_what_is_in_it_and_goes() {
        let group = match ProcessGroup::make(3) {
            Ok(group) => group,
            Err(why) => return assert!(why.len() > 10, "{why}"),
        };
        assert_eq!(fs::read_to_string(group.folder.join("pids.max")).unwrap().trim(), "3");
        let words = ["sh", "-c", "for i in 1 2 3 4 5 6; do sleep 5 > /dev/null 2>&1 & done"];
        let environment = [("PATH".into(), std::env::var_os("PATH").unwrap())].into();
        let mut plan =
            program::start_plan(&words.map(Into::into), Path::new("/"), &environment, None).unwrap();
        plan.group = Some(group.open_tasks().unwrap());
        let (mut errors, written) = io::pipe().unwrap();
        let theirs = rustix::io::fcntl_dupfd_cloexec(&written, start::DESCRIPTOR_MIN).unwrap();
        drop(written);
        // On a thread of its own, because signals stay blocked on one that starts a child.
        let told = std::thread::spawn(move || {
            start::block_signals();
            let shell = start::start_child(&plan, &[theirs.as_fd(), theirs.as_fd(), theirs.as_fd()]).unwrap();
            drop(theirs);
            let mut told = String::new();
            io::Read::read_to_string(&mut errors, &mut told).unwrap();
            drop(shell);
            told
        });
        let told = told.join().unwrap();
        for process in fs::read_to_string(group.folder.join("cgroup.procs")).unwrap().lines() {
            let pid = rustix::process::Pid::from_raw(process.parse().unwrap()).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        assert!(told.to_lowercase().contains("fork"), "{told}");
        let folder = group.folder.clone();
        drop(group);
        assert!(!folder.exists());
    }
}
