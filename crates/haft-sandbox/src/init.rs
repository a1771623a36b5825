//! The first process of a child's namespaces: makes the scene, starts the program, collects what ends, and ends with it.
//!
//! When this process ends the kernel ends every other in its namespace, whatever they did to get away. It ends when
//! nothing is left, when its socket closes (the host is gone or wants no more), and with the helper (PDEATHSIG). Until
//! then it answers four things: how the program ended, signals for all, folders that are to be closed, and names that are to
//! be covered again. For the last two it keeps one right, to mount in its own namespaces; no program that it starts has any.
//!
//! Where there are no namespaces the same process is a subreaper: what loses its parent becomes its child, and it kills
//! what it can find before it ends. That is best effort: a killed subreaper kills nobody but the program itself.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use haft::ports::Exit;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{DumpableBehavior, Pid, WaitOptions};
use rustix::thread::{CapabilitySet, CapabilitySets, LinkNameSpaceType};

use crate::ahead::Ahead;
use crate::evidence::Listener;
use crate::landlock::{self, Rules};
use crate::scene::{Network, Part, Rlimit, Scene};
use crate::seccomp::{self, Changes, Sockets};
use crate::start::{self, DESCRIPTOR_MIN, Heard, Locks, Step};
use crate::wire::{Job, Report};
use crate::{bare, limits, program, stage, sys, wire};

/// How much of the kernel the helper can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walls {
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
pub(crate) struct Prepared {
    /// What it sees, where there are namespaces, and of what that was made.
    stage: Option<(stage::Stage, Vec<Part>)>,
    /// What keeps that.
    view: Option<OwnedFd>,
    rules: Option<Rules>,
    locks: Locks,
    /// Whether rights are taken away.
    confines: bool,
    /// A process that is locked in already.
    ahead: Option<Ahead>,
}

/// Everything before the program is known, and what only it has.
///
/// # Errors
/// What could not be made, in words. The process must end then.
pub(crate) fn prepare(
    walls: Walls,
    scene: &Scene,
    session_net: Option<BorrowedFd<'_>>,
) -> Result<Prepared, String> {
    sys::ignore_children(false);
    if walls == Walls::Open {
        become_subreaper()?;
        return Ok(Prepared {
            stage: None,
            view: None,
            rules: None,
            locks: Locks::default(),
            confines: false,
            ahead: None,
        });
    }
    // Rather this and what comes of it than anything else on the machine; not worth failing for.
    let _ = std::fs::write("/proc/self/oom_score_adj", limits::OOM_SCORE.to_string());
    let mut view = None;
    let (stage, rules, sockets) = match walls {
        Walls::Namespaces => {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            view = rustix::fs::openat(CWD, "/proc/self/ns/mnt", flags, Mode::empty()).ok();
            if let (Network::Session, Some(net)) = (scene.network, session_net) {
                rustix::thread::move_into_link_name_space(net, Some(LinkNameSpaceType::Network))
                    .map_err(|errno| words("its network", errno))?;
            }
            let stage = stage::set(scene).map_err(|fault| fault.to_string())?;
            let rules = changes(&scene.parts).map_err(|errno| words("the rules for its files", errno))?;
            let sockets = if scene.apart { Sockets::NotLocal } else { Sockets::All };
            (Some((stage, scene.parts.clone())), rules, sockets)
        }
        Walls::Bare | Walls::Probe | Walls::Open => {
            become_subreaper()?;
            let rules = bare::rules(scene).map_err(|errno| words("the rules for its files", errno))?;
            (None, Some(rules), bare::sockets(scene))
        }
    };
    // From here on nobody of the same user can look into this process either.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|errno| words("a process", errno))?;
    forget_capabilities().map_err(|errno| words("taking rights away", errno))?;
    let looks = only_looks(&scene.parts);
    let changes = if looks && walls != Walls::Namespaces { Changes::Refused } else { Changes::Made };
    let filter = seccomp::filter(sockets, changes);
    let mut locks = Locks { rlimits: bounds(walls, scene), rules: None, filter, heard: None };
    if looks && walls == Walls::Namespaces {
        // Only an addition: without it nothing is heard of what was tried.
        locks.heard = Heard::new(seccomp::filter(sockets, Changes::Heard)).ok();
    }
    Ok(Prepared { stage, view, rules, locks, confines: true, ahead: None })
}

/// What loses its parent from here on becomes a child of this process.
fn become_subreaper() -> Result<(), String> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|errno| words("a process", errno))
}

impl Prepared {
    /// For one that will wait: locks a process in already.
    pub(crate) fn go_ahead(mut self) -> Prepared {
        if self.stage.is_some() {
            self.ahead = Ahead::make(&self.locks, self.rules.as_ref().map(Rules::descriptor));
        }
        self
    }

    /// For one that has waited: whatever somebody did to what it holds, it holds that again.
    ///
    /// # Errors
    /// What could not be made, in words. The process must end then.
    pub(crate) fn look_again(mut self) -> Result<Prepared, String> {
        if let Some((stage, usual)) = &mut self.stage {
            stage.hold_again(usual).map_err(|fault| fault.to_string())?;
        }
        Ok(self)
    }

    /// Adds what only this child has, as [`stage::trees`] made it, and locks the sandbox. What comes back is for
    /// [`perform`].
    ///
    /// # Errors
    /// What could not be made, in words. The process must end then.
    pub(crate) fn finish(self, more: &[Part]) -> Result<Locked, String> {
        let Prepared { stage, view, rules, mut locks, confines, ahead } = self;
        let mut sealed = None;
        if !confines {
            return Ok(Locked { locks, view, sealed, ahead });
        }
        let kept = if stage.is_some() { CapabilitySet::SYS_ADMIN } else { CapabilitySet::empty() };
        let is_bare = stage.is_none();
        if let Some((mut stage, usual)) = stage {
            stage.widen(&usual, more).map_err(|fault| fault.to_string())?;
            sealed = Some(stage.seal().map_err(|fault| fault.to_string())?);
        }
        if let Some(rules) = &rules {
            let allowed = if is_bare { bare::allow_held(rules, more) } else { allow(rules, more) };
            allowed.map_err(|errno| words("the rules for its files", errno))?;
        }
        // What can be changed beyond the scene it has no rules for.
        let ahead = ahead.filter(|_| only_looks(more) && stage::writable(more).next().is_none());
        if !only_looks(more) {
            locks.heard = None;
        }
        let rules = rules.map(|rules| high(rules.into_descriptor().as_fd())).transpose();
        locks.rules = rules.map_err(|errno| words("the rules for its files", errno))?;
        keep_capabilities(kept).map_err(|errno| words("taking rights away", errno))?;
        Ok(Locked { locks, view, sealed, ahead })
    }
}

/// A sandbox to which nothing is added any more.
pub(crate) struct Locked {
    locks: Locks,
    view: Option<OwnedFd>,
    /// What it sees, where there are namespaces.
    sealed: Option<stage::Sealed>,
    ahead: Option<Ahead>,
}

/// The bounds of a scene. That on processes counts all of the user in the session, so that one command could starve the
/// others; where the process namespace has a bound of its own it may be wider.
fn bounds(walls: Walls, scene: &Scene) -> Vec<Rlimit> {
    let mut bounds = scene.rlimits.clone();
    if walls == Walls::Namespaces && stage::pid_max_is_ours() {
        let most = rustix::process::getrlimit(rustix::process::Resource::Nproc).maximum.unwrap_or(u64::MAX);
        for bound in bounds.iter_mut().filter(|bound| bound.resource == libc::RLIMIT_NPROC) {
            let wider = bound.hard.saturating_mul(limits::BOMBS_MAX).min(most);
            (bound.soft, bound.hard) = (wider, wider);
        }
    }
    bounds
}

/// Whether nothing of the host can be changed.
fn only_looks(parts: &[Part]) -> bool {
    let changes = |part: &Part| {
        matches!(part, Part::Bind { writable: true, .. } | Part::Overlay { .. } | Part::StandIn { .. })
    };
    !parts.iter().any(changes)
}

fn words(what: &str, errno: Errno) -> String {
    stage::Fault { what: what.into(), errno }.to_string()
}

/// Landlock beside the mounts: changes only in what can be changed. A kernel without it leaves the mounts alone.
fn changes(parts: &[Part]) -> Result<Option<Rules>, Errno> {
    let rules = match Rules::new(landlock::CHANGE, false) {
        Ok(rules) => rules,
        Err(Errno::NOSYS | Errno::OPNOTSUPP) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    allow(&rules, parts)?;
    allow_at(&rules, landlock::USE_DEVICE, Path::new("/dev"))?;
    allow_at(&rules, landlock::CHANGE, Path::new("/dev/shm"))?;
    Ok(Some(rules))
}

fn allow(rules: &Rules, parts: &[Part]) -> Result<(), Errno> {
    stage::writable(parts).try_for_each(|at| allow_at(rules, landlock::CHANGE, at))
}

fn allow_at(rules: &Rules, access: u64, at: &Path) -> Result<(), Errno> {
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
fn high(descriptor: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(descriptor, DESCRIPTOR_MIN)
}

/// Runs the job and never returns. `descriptors` are the child's own, and its program if the job says so.
pub(crate) fn perform(
    walls: Walls,
    locked: Locked,
    mut job: Job,
    socket: OwnedFd,
    mut descriptors: Vec<OwnedFd>,
) -> ! {
    // The host may be gone while the helper isn't yet; then nobody wants the program any more.
    if is_hung_up(&socket) {
        sys::exit_now(0);
    }
    let Locked { locks, view, sealed, ahead } = locked;
    let ended = match sys::ended_children() {
        Ok(ended) => ended,
        Err(errno) => fail(&socket, words("a process", errno)),
    };
    let opened = if job.opened { descriptors.pop() } else { None };
    let started = begin(walls, locks, ahead, &mut job, opened, &descriptors);
    drop(descriptors);
    match started {
        Ok((main, listener)) => {
            // A host that is gone is noticed below.
            let _ = Report::Started(view).send(socket.as_fd());
            follow(walls, main, &ended, &socket, listener, sealed.as_ref());
        }
        Err(words) => fail(&socket, words),
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
pub(crate) fn fail(socket: &OwnedFd, words: String) -> ! {
    let _ = Report::Failed(words).send(socket.as_fd());
    sys::exit_now(0)
}

fn begin(
    walls: Walls,
    locks: Locks,
    ahead: Option<Ahead>,
    job: &mut Job,
    opened: Option<OwnedFd>,
    descriptors: &[OwnedFd],
) -> Result<(Pid, Option<Listener>), String> {
    let failed = |errno: Errno| words("a process", errno);
    let high = |descriptor: &OwnedFd| high(descriptor.as_fd());
    let descriptors: Result<Vec<OwnedFd>, Errno> = descriptors.iter().map(high).collect();
    let descriptors = descriptors.map_err(failed)?;
    if walls == Walls::Bare {
        bare::point_to_temporary(job);
    }
    let opened = opened.as_ref().map(high).transpose().map_err(failed)?;
    let mut plan = program::plan(&job.argv, &job.cwd, &job.environment, opened)?;
    let listener = locks.heard.as_ref().map(|heard| high(&heard.ours)).transpose().map_err(failed)?;
    plan.locks = locks;
    let theirs: Vec<BorrowedFd<'_>> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
    match ahead.and_then(|ahead| ahead.become_program(&plan, &theirs)) {
        Some(Ok((main, ours))) => return Ok((main, ours.and_then(heard))),
        // Nothing has happened, and another one may do better; or it can wait for the file.
        None | Some(Err((Step::SetUp, _) | (Step::Exec, Errno::TXTBSY))) => {}
        Some(Err((step, errno))) => return Err(program::explain(&plan, step, errno)),
    }
    match start::start_patiently(&plan, &theirs) {
        Ok(mut child) => {
            // Collected with all others.
            child.lose();
            Ok((child.pid(), listener.and_then(heard)))
        }
        Err((step, errno)) => Err(program::explain(&plan, step, errno)),
    }
}

/// The listener that the child has sent before it became its program, if it has.
fn heard(ours: OwnedFd) -> Option<Listener> {
    let (_, mut descriptors) = wire::receive(ours.as_fd(), &mut [0], RecvFlags::DONTWAIT).ok()?;
    descriptors.pop_front().map(Listener::new)
}

/// Until nothing is left, or nobody wants to know.
fn follow(
    walls: Walls,
    main: Pid,
    ended: &OwnedFd,
    socket: &OwnedFd,
    mut listener: Option<Listener>,
    sealed: Option<&stage::Sealed>,
) {
    loop {
        let mut alone = false;
        let mut exit = None;
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == main => {
                    let signal = status.terminating_signal().map(Exit::Signal);
                    exit = Some(signal.unwrap_or_else(|| Exit::Code(status.exit_status().unwrap_or(-1))));
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
            let _ = Report::Ended(exit, alone).send(socket.as_fd());
        }
        // Whoever waits for its end may want to close something in its view, which others may hold a piece of.
        if alone && walls != Walls::Namespaces {
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
            && let Some(path) = listener.as_mut().and_then(Listener::hear)
        {
            let _ = Report::Refused(path).send(socket.as_fd());
        } else if calls.contains(PollFlags::HUP) && !calls.contains(PollFlags::IN) {
            // Nobody is left whom the filter holds.
            listener = None;
        }
        if told {
            let mut told = vec![0; limits::MESSAGE_BYTES_MAX];
            match wire::receive(socket.as_fd(), &mut told, RecvFlags::DONTWAIT) {
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
                    let _ = Report::Closed(close(walls, &told[..count])).send(socket.as_fd());
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
fn close(walls: Walls, told: &[u8]) -> Result<(), String> {
    let Some(folders) = wire::read_closing(told).filter(|_| walls == Walls::Namespaces) else {
        return Ok(());
    };
    let closed: Vec<_> = folders.iter().map(|folder| stage::close(folder)).collect();
    closed.into_iter().collect::<Result<(), _>>().map_err(|fault| fault.to_string())
}

fn send_all(walls: Walls, signal: i32) {
    match walls {
        Walls::Namespaces => sys::signal_all(signal),
        Walls::Bare | Walls::Probe | Walls::Open if signal == libc::SIGKILL => bare::kill_all(),
        Walls::Bare | Walls::Probe | Walls::Open => {
            bare::descendants().into_iter().for_each(|pid| sys::signal_one(pid, signal))
        }
    }
}
