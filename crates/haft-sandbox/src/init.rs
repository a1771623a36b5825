//! The first process of a child's namespaces: makes the scene, starts the program, collects what ends, and
//! ends with it.
//!
//! When this process ends the kernel ends every other in its namespace, whatever they did to get away. It
//! ends when nothing is left, when its socket closes (the host is gone or wants no more), and with the helper
//! (PDEATHSIG). Until then it answers four things: how the program ended, signals for all, folders that are
//! to be closed, and names that are to be covered again. For the last two it keeps one right, to mount in its
//! own namespaces; no program that it starts has any.
//!
//! Where there are no namespaces the same process is a subreaper: what loses its parent becomes its child,
//! and it kills what it can find before it ends. That is best effort: a killed subreaper kills nobody but the
//! program itself.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use haft::ports::ProcessExit;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{DumpableBehavior, Pid, WaitOptions};
use rustix::thread::{CapabilitySet, CapabilitySets, LinkNameSpaceType};

use crate::change_attempts::SyscallListener;
use crate::landlock::{self, LandlockRules};
use crate::mount_plan::{MountEntry, MountPlan, NetworkAccessKind, ResourceLimit};
use crate::prefork::PreforkedChild;
use crate::seccomp::{self, AllowedSockets, ChangeHandling};
use crate::start::{self, DESCRIPTOR_MIN, NotifyFilter, ProcessRestraints, StartStep};
use crate::wire::{ChildJob, ChildReport};
use crate::{bare, limits, mounts, program, sys, wire};

/// How much of the kernel the helper can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IsolationLevel {
    /// Namespaces, Landlock and filters.
    Namespaces,
    /// Landlock and filters alone.
    Bare,
    /// It is to be found out.
    Probe,
    /// None: it only keeps together what a program starts, which can do what its user can do.
    Open,
}

/// A sandbox in which nothing runs yet.
pub(crate) struct PreparedSandbox {
    /// What it sees, where there are namespaces, and of what that was made.
    stage: Option<(mounts::MountTree, Vec<MountEntry>)>,
    /// What keeps that.
    view: Option<OwnedFd>,
    rules: Option<LandlockRules>,
    locks: ProcessRestraints,
    /// Whether rights are taken away.
    confines: bool,
    /// A process that is locked in already.
    ahead: Option<PreforkedChild>,
}

/// Everything before the program is known, and what only it has.
///
/// # Errors
/// What could not be made, in words. The process must end then.
pub(crate) fn prepare_sandbox(
    walls: IsolationLevel,
    scene: &MountPlan,
    session_net: Option<BorrowedFd<'_>>,
) -> Result<PreparedSandbox, String> {
    sys::ignore_children(false);
    if walls == IsolationLevel::Open {
        become_subreaper()?;
        return Ok(PreparedSandbox {
            stage: None,
            view: None,
            rules: None,
            locks: ProcessRestraints::default(),
            confines: false,
            ahead: None,
        });
    }
    // Rather this and what comes of it than anything else on the machine; not worth failing for.
    let _ = std::fs::write("/proc/self/oom_score_adj", limits::OOM_SCORE.to_string());
    let mut view = None;
    let (stage, rules, sockets) = match walls {
        IsolationLevel::Namespaces => {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            view = rustix::fs::openat(CWD, "/proc/self/ns/mnt", flags, Mode::empty()).ok();
            if let (NetworkAccessKind::Session, Some(net)) = (scene.network, session_net) {
                rustix::thread::move_into_link_name_space(net, Some(LinkNameSpaceType::Network))
                    .map_err(|errno| failure_text("its network", errno))?;
            }
            let stage = mounts::set_root(scene).map_err(|fault| fault.to_string())?;
            let rules =
                write_rules(&scene.parts).map_err(|errno| failure_text("the rules for its files", errno))?;
            let sockets = if scene.apart { AllowedSockets::NotLocal } else { AllowedSockets::All };
            (Some((stage, scene.parts.clone())), rules, sockets)
        }
        IsolationLevel::Bare | IsolationLevel::Probe | IsolationLevel::Open => {
            become_subreaper()?;
            let rules = bare::landlock_rules(scene)
                .map_err(|errno| failure_text("the rules for its files", errno))?;
            (None, Some(rules), bare::allowed_sockets(scene))
        }
    };
    // From here on nobody of the same user can look into this process either.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|errno| failure_text("a process", errno))?;
    forget_capabilities().map_err(|errno| failure_text("taking rights away", errno))?;
    let looks = only_looks(&scene.parts);
    let changes = if looks && walls != IsolationLevel::Namespaces {
        ChangeHandling::Refused
    } else {
        ChangeHandling::Made
    };
    let filter = seccomp::build_filter(sockets, changes);
    let mut locks =
        ProcessRestraints { rlimits: resource_limits(walls, scene), rules: None, filter, heard: None };
    if looks && walls == IsolationLevel::Namespaces {
        // Only an addition: without it nothing is heard of what was tried.
        locks.heard = NotifyFilter::new(seccomp::build_filter(sockets, ChangeHandling::Heard)).ok();
    }
    Ok(PreparedSandbox { stage, view, rules, locks, confines: true, ahead: None })
}

/// What loses its parent from here on becomes a child of this process.
fn become_subreaper() -> Result<(), String> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|errno| failure_text("a process", errno))
}

impl PreparedSandbox {
    /// For one that will wait: locks a process in already.
    pub(crate) fn go_ahead(mut self) -> PreparedSandbox {
        if self.stage.is_some() {
            self.ahead =
                PreforkedChild::make(&self.locks, self.rules.as_ref().map(LandlockRules::descriptor));
        }
        self
    }

    /// For one that has waited: whatever somebody did to what it holds, it holds that again.
    ///
    /// # Errors
    /// What could not be made, in words. The process must end then.
    pub(crate) fn look_again(mut self) -> Result<PreparedSandbox, String> {
        if let Some((stage, usual)) = &mut self.stage {
            stage.hold_again(usual).map_err(|fault| fault.to_string())?;
        }
        Ok(self)
    }

    /// Adds what only this child has, as [`mounts::clone_trees`] made it, and locks the sandbox. What comes
    /// back is for [`perform_job`].
    ///
    /// # Errors
    /// What could not be made, in words. The process must end then.
    pub(crate) fn finish(self, more: &[MountEntry]) -> Result<SealedSandbox, String> {
        let PreparedSandbox { stage, view, rules, mut locks, confines, ahead } = self;
        let mut sealed = None;
        if !confines {
            return Ok(SealedSandbox { locks, view, sealed, ahead });
        }
        let kept = if stage.is_some() { CapabilitySet::SYS_ADMIN } else { CapabilitySet::empty() };
        let is_bare = stage.is_none();
        if let Some((mut stage, usual)) = stage {
            stage.widen(&usual, more).map_err(|fault| fault.to_string())?;
            sealed = Some(stage.seal().map_err(|fault| fault.to_string())?);
        }
        if let Some(rules) = &rules {
            let allowed = if is_bare { bare::allow_held(rules, more) } else { allow_writes(rules, more) };
            allowed.map_err(|errno| failure_text("the rules for its files", errno))?;
        }
        // What can be changed beyond the scene it has no rules for.
        let ahead = ahead.filter(|_| only_looks(more) && mounts::writable_paths(more).next().is_none());
        if !only_looks(more) {
            locks.heard = None;
        }
        let rules = rules.map(|rules| move_high(rules.into_descriptor().as_fd())).transpose();
        locks.rules = rules.map_err(|errno| failure_text("the rules for its files", errno))?;
        keep_capabilities(kept).map_err(|errno| failure_text("taking rights away", errno))?;
        Ok(SealedSandbox { locks, view, sealed, ahead })
    }
}

/// A sandbox to which nothing is added any more.
pub(crate) struct SealedSandbox {
    locks: ProcessRestraints,
    view: Option<OwnedFd>,
    /// What it sees, where there are namespaces.
    sealed: Option<mounts::SealedTree>,
    ahead: Option<PreforkedChild>,
}

/// The bounds of a scene. That on processes counts all of the user in the session, so that one command could
/// starve the others; where the process namespace has a bound of its own it may be wider.
fn resource_limits(walls: IsolationLevel, scene: &MountPlan) -> Vec<ResourceLimit> {
    let mut bounds = scene.rlimits.clone();
    if walls == IsolationLevel::Namespaces && mounts::pid_max_is_ours() {
        let most = rustix::process::getrlimit(rustix::process::Resource::Nproc).maximum.unwrap_or(u64::MAX);
        for bound in bounds.iter_mut().filter(|bound| bound.resource == libc::RLIMIT_NPROC) {
            let wider = bound.hard.saturating_mul(limits::BOMBS_MAX).min(most);
            (bound.soft, bound.hard) = (wider, wider);
        }
    }
    bounds
}

/// Whether nothing of the host can be changed.
fn only_looks(parts: &[MountEntry]) -> bool {
    let changes = |part: &MountEntry| {
        matches!(
            part,
            MountEntry::Bind { writable: true, .. } | MountEntry::Overlay { .. } | MountEntry::StandIn { .. }
        )
    };
    !parts.iter().any(changes)
}

fn failure_text(what: &str, errno: Errno) -> String {
    mounts::MountError { what: what.into(), errno }.to_string()
}

/// Landlock beside the mounts: changes only in what can be changed. A kernel without it leaves the mounts
/// alone.
fn write_rules(parts: &[MountEntry]) -> Result<Option<LandlockRules>, Errno> {
    let rules = match LandlockRules::new(landlock::CHANGE, false) {
        Ok(rules) => rules,
        Err(Errno::NOSYS | Errno::OPNOTSUPP) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    allow_writes(&rules, parts)?;
    allow_at(&rules, landlock::USE_DEVICE, Path::new("/dev"))?;
    allow_at(&rules, landlock::CHANGE, Path::new("/dev/shm"))?;
    Ok(Some(rules))
}

fn allow_writes(rules: &LandlockRules, parts: &[MountEntry]) -> Result<(), Errno> {
    mounts::writable_paths(parts).try_for_each(|at| allow_at(rules, landlock::CHANGE, at))
}

fn allow_at(rules: &LandlockRules, access: u64, at: &Path) -> Result<(), Errno> {
    match rustix::fs::openat(CWD, at, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(place) => rules.allow(access, place.as_fd()),
        // Not there, so nothing to allow.
        Err(_) => Ok(()),
    }
}

/// No program that this process becomes or starts has any.
fn forget_capabilities() -> Result<(), Errno> {
    for capability in CapabilitySet::all() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // The kernel doesn't know it; or we had no right to, and then there is nothing to take.
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
    }
    let _ = rustix::thread::clear_ambient_capability_set();
    Ok(())
}

/// This process itself has only these from here on.
fn keep_capabilities(kept: CapabilitySet) -> Result<(), Errno> {
    let inheritable = CapabilitySet::empty();
    rustix::thread::set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })
}

/// Out of the way of 0 … 3, which are about to be overwritten.
fn move_high(descriptor: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(descriptor, DESCRIPTOR_MIN)
}

/// Runs the job and never returns. `descriptors` are the child's own, and its program if the job says so.
pub(crate) fn perform_job(
    walls: IsolationLevel,
    locked: SealedSandbox,
    mut job: ChildJob,
    socket: OwnedFd,
    mut descriptors: Vec<OwnedFd>,
) -> ! {
    // The host may be gone while the helper isn't yet; then nobody wants the program any more.
    if is_hung_up(&socket) {
        sys::exit_now(0);
    }
    let SealedSandbox { locks, view, sealed, ahead } = locked;
    let ended = match sys::ended_children() {
        Ok(ended) => ended,
        Err(errno) => report_failure(&socket, failure_text("a process", errno)),
    };
    let opened = if job.opened { descriptors.pop() } else { None };
    let started = start_program(walls, locks, ahead, &mut job, opened, &descriptors);
    drop(descriptors);
    match started {
        Ok((main, listener)) => {
            // A host that is gone is noticed below.
            let _ = ChildReport::Started(view).send(socket.as_fd());
            follow_program(walls, main, &ended, &socket, listener, sealed.as_ref());
        }
        Err(words) => report_failure(&socket, words),
    }
    sys::exit_now(0)
}

/// Whether the other end is gone, whatever it has said before.
pub(crate) fn is_hung_up(socket: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// Says why there will be no program, and ends.
pub(crate) fn report_failure(socket: &OwnedFd, words: String) -> ! {
    let _ = ChildReport::Failed(words).send(socket.as_fd());
    sys::exit_now(0)
}

fn start_program(
    walls: IsolationLevel,
    locks: ProcessRestraints,
    ahead: Option<PreforkedChild>,
    job: &mut ChildJob,
    opened: Option<OwnedFd>,
    descriptors: &[OwnedFd],
) -> Result<(Pid, Option<SyscallListener>), String> {
    let failed = |errno: Errno| failure_text("a process", errno);
    let high = |descriptor: &OwnedFd| move_high(descriptor.as_fd());
    let descriptors: Result<Vec<OwnedFd>, Errno> = descriptors.iter().map(high).collect();
    let descriptors = descriptors.map_err(failed)?;
    if walls == IsolationLevel::Bare {
        bare::point_to_temporary(job);
    }
    let opened = opened.as_ref().map(high).transpose().map_err(failed)?;
    let mut plan = program::start_plan(&job.argv, &job.cwd, &job.environment, opened)?;
    let listener = locks.heard.as_ref().map(|heard| high(&heard.ours)).transpose().map_err(failed)?;
    plan.locks = locks;
    let theirs: Vec<BorrowedFd<'_>> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
    match ahead.and_then(|ahead| ahead.become_program(&plan, &theirs)) {
        Some(Ok((main, ours))) => return Ok((main, ours.and_then(make_listener))),
        // Nothing has happened, and another one may do better; or it can wait for the file.
        None | Some(Err((StartStep::SetUp, _) | (StartStep::Exec, Errno::TXTBSY))) => {}
        Some(Err((step, errno))) => return Err(program::explain_failure(&plan, step, errno)),
    }
    match start::start_patiently(&plan, &theirs) {
        Ok(mut child) => {
            // Collected with all others.
            child.forget_pid();
            Ok((child.pid(), listener.and_then(make_listener)))
        }
        Err((step, errno)) => Err(program::explain_failure(&plan, step, errno)),
    }
}

/// The listener that the child has sent before it became its program, if it has.
fn make_listener(ours: OwnedFd) -> Option<SyscallListener> {
    let (_, mut descriptors) = wire::receive_message(ours.as_fd(), &mut [0], RecvFlags::DONTWAIT).ok()?;
    descriptors.pop_front().map(SyscallListener::new)
}

/// Until nothing is left, or nobody wants to know.
fn follow_program(
    walls: IsolationLevel,
    main: Pid,
    ended: &OwnedFd,
    socket: &OwnedFd,
    mut listener: Option<SyscallListener>,
    sealed: Option<&mounts::SealedTree>,
) {
    loop {
        let mut alone = false;
        let mut exit = None;
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == main => {
                    let signal = status.terminating_signal().map(ProcessExit::Signal);
                    exit =
                        Some(signal.unwrap_or_else(|| ProcessExit::Code(status.exit_status().unwrap_or(-1))));
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => {
                    alone = true;
                    break;
                }
            }
        }
        if let Some(exit) = exit {
            let _ = ChildReport::Ended(exit, alone).send(socket.as_fd());
        }
        // Whoever waits for its end may want to close something in its view, which others may hold a piece
        // of.
        if alone && walls != IsolationLevel::Namespaces {
            return;
        }
        let mut polled = vec![PollFd::new(socket, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        polled.extend(listener.as_ref().map(|it| PollFd::from_borrowed_fd(it.descriptor(), PollFlags::IN)));
        let _ = poll(&mut polled, None);
        let calls = polled.get(2).map_or(PollFlags::empty(), PollFd::revents);
        if !polled[1].revents().is_empty() {
            let _ = rustix::io::read(ended, &mut [0; 1024]);
        }
        let told = !polled[0].revents().is_empty();
        if calls.contains(PollFlags::IN)
            && let Some(path) = listener.as_mut().and_then(SyscallListener::hear)
        {
            let _ = ChildReport::Refused(path).send(socket.as_fd());
        } else if calls.contains(PollFlags::HUP) && !calls.contains(PollFlags::IN) {
            // Nobody is left whom the filter holds.
            listener = None;
        }
        if told {
            let mut told = vec![0; limits::MESSAGE_BYTES_MAX];
            match wire::receive_message(socket.as_fd(), &mut told, RecvFlags::DONTWAIT) {
                Ok((4, _)) => send_all(walls, i32::from_le_bytes([told[0], told[1], told[2], told[3]])),
                Ok((count, _)) if told[..count].starts_with(b"cover") => {
                    let covers = wire::read_covering(&told[..count]).unwrap_or_default();
                    for cover in covers {
                        // What can't be covered nobody who runs here is to see.
                        if sealed.is_some_and(|sealed| sealed.cover(&cover).is_err()) {
                            send_all(walls, libc::SIGKILL);
                        }
                    }
                }
                Ok((count, _)) if count > 0 => {
                    let _ = ChildReport::Closed(close_folders(walls, &told[..count])).send(socket.as_fd());
                }
                Err(Errno::AGAIN) => {}
                // Nobody is there any more.
                _ => {
                    send_all(walls, libc::SIGKILL);
                    return;
                }
            }
        }
    }
}

/// Closes folders, all of them, whatever comes of one.
fn close_folders(walls: IsolationLevel, told: &[u8]) -> Result<(), String> {
    let Some(folders) = wire::read_closing(told).filter(|_| walls == IsolationLevel::Namespaces) else {
        return Ok(());
    };
    let closed: Vec<_> = folders.iter().map(|folder| mounts::close_folder(folder)).collect();
    closed.into_iter().collect::<Result<(), _>>().map_err(|fault| fault.to_string())
}

fn send_all(walls: IsolationLevel, signal: i32) {
    match walls {
        IsolationLevel::Namespaces => sys::signal_all(signal),
        IsolationLevel::Bare | IsolationLevel::Probe | IsolationLevel::Open if signal == libc::SIGKILL => {
            bare::kill_all()
        }
        IsolationLevel::Bare | IsolationLevel::Probe | IsolationLevel::Open => {
            bare::list_descendants().into_iter().for_each(|pid| sys::signal_one(pid, signal))
        }
    }
}
