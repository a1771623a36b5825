//! The helper: one small process that makes every sandbox of a session.
//!
//! It is this program again, from its own file in memory of the kernel (`/proc/self/exe`), so a program that
//! was replaced meanwhile isn't started. It has one thread, so its copies are whole, and is small, so they
//! are cheap, however large the host is. It enters a user namespace (in which it may do what takes rights,
//! and outside of which it may do no more than before), or finds itself in one that
//! [`bubblewrap`](crate::bubblewrap) has made, makes the session's network, and then waits for orders. It
//! ends when its socket closes, and everything that it made with it.
//!
//! Spare sandboxes wait for scenes that come again; each is used once, and only if what it was made of is
//! still there. What one call was granted is mounted here first, nowhere, and moved into the spare, which
//! keeps its rights until then. They are made when nothing else is asked: one of a scene that came, and a
//! second where calls came faster than that.

use std::collections::{HashMap, VecDeque};
use std::ffi::CStr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use crate::init::{self, IsolationLevel};
use crate::mount_plan::{BindSource, MountEntry, MountPlan, NetworkAccessKind};
use crate::sys::{self, ForkSide, OneThread};
use crate::wire::{self, ChildReport, OrderParts};
use crate::{limits, loopback, mounts};

/// How a program is called that is to be the helper, and the descriptor of its socket.
pub(crate) const NAME: &str = "haft: sandbox";
pub(crate) const SOCKET: i32 = 3;
/// Where its own program is, and so how it is called, if bubblewrap starts it; the name comes after that.
pub(crate) const PASSED: &CStr = c"/proc/self/fd/4";
const PROGRAM: i32 = 4;
/// Its first argument; the others are ports.
pub(crate) const NAMESPACES: &str = "namespaces";
pub(crate) const BARE: &str = "bare";
pub(crate) const PROBE: &str = "probe";
pub(crate) const OPEN: &str = "open";

/// The helper's whole life. The first thing that it says is `+` with the session's listening sockets, or `-`
/// and why not.
pub(crate) fn run_helper(walls: &str, ports: &[u16], user: UserNamespace) -> ! {
    let Some(socket) = sys::inherited_descriptor(SOCKET) else { sys::exit_now(1) };
    let walls = match walls {
        NAMESPACES => IsolationLevel::Namespaces,
        OPEN => IsolationLevel::Open,
        _ => IsolationLevel::Bare,
    };
    match HelperProcess::new(socket, walls, ports, user) {
        Ok(helper) => helper.serve(),
        Err((socket, words)) => {
            let _ = wire::send_message(socket.as_fd(), format!("-{words}").as_bytes(), &[]);
        }
    }
    sys::exit_now(0)
}

struct HelperProcess {
    socket: OwnedFd,
    walls: IsolationLevel,
    one_thread: OneThread,
    itself: HelperIdentity,
    session_net: Option<OwnedFd>,
    spares: VecDeque<SpareSandbox>,
    /// Scenes of which a spare is made when there is time.
    wanted: VecDeque<SceneOrder>,
    /// The last scenes that came.
    seen: VecDeque<Vec<u8>>,
    /// The folders for overlays and excerpts, and whether one is mounted on it here.
    mounted: HashMap<PathBuf, bool>,
}

/// A scene that is made already.
struct SpareSandbox {
    scene: Vec<u8>,
    sources: mounts::SourceIdentities,
    process: OwnedFd,
    socket: OwnedFd,
}

impl SpareSandbox {
    /// Waits until it is made; not if it has ended or takes too long.
    fn is_made(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        let at_most = Timespec { tv_sec: 0, tv_nsec: limits::SPARE_WAIT.subsec_nanos().into() };
        let told = matches!(poll(&mut polled, Some(&at_most)), Ok(1));
        let mut word = [0];
        told && matches!(
            wire::receive_message(self.socket.as_fd(), &mut word, RecvFlags::DONTWAIT),
            Ok((1, _))
        )
    }
}

/// A scene as it was written, with its descriptors.
struct SceneOrder {
    scene: Vec<u8>,
    held: Vec<OwnedFd>,
}

impl HelperProcess {
    fn new(
        socket: OwnedFd,
        walls: IsolationLevel,
        ports: &[u16],
        user: UserNamespace,
    ) -> Result<HelperProcess, (OwnedFd, String)> {
        let prepared = OneThread::verify().and_then(|one_thread| match walls {
            IsolationLevel::Namespaces => {
                user.enter()?;
                let made = loopback::make_session_network(&one_thread, ports)?;
                Ok((one_thread, Some(made.namespace), made.listeners))
            }
            IsolationLevel::Bare | IsolationLevel::Probe | IsolationLevel::Open => {
                Ok((one_thread, None, Vec::new()))
            }
        });
        let (one_thread, session_net, listeners) = match prepared {
            Ok(prepared) => prepared,
            Err(message) => return Err((socket, message)),
        };
        sys::ignore_children(true);
        let sent: Vec<_> = listeners.iter().map(|listener| listener.as_fd()).collect();
        let _ = wire::send_message(socket.as_fd(), b"+", &sent);
        Ok(HelperProcess {
            socket,
            walls,
            one_thread,
            itself: HelperIdentity::look(),
            session_net,
            spares: VecDeque::new(),
            wanted: VecDeque::new(),
            seen: VecDeque::new(),
            mounted: HashMap::new(),
        })
    }

    fn serve(mut self) {
        loop {
            if !self.wanted.is_empty() && self.is_idle() {
                self = self.make_spare();
                continue;
            }
            match wire::receive_long(self.socket.as_fd()) {
                // What the host has asked for before it went nobody wants any more.
                Ok(Some(_)) if init::is_hung_up(&self.socket) => return,
                Ok(Some((text, descriptors))) => self = self.execute_order(&text, descriptors),
                Err(Errno::INTR) => {}
                // The host is gone.
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Whether nothing is asked for a moment.
    fn is_idle(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        let moment = Timespec { tv_sec: 0, tv_nsec: limits::SPARE_AFTER.subsec_nanos().into() };
        matches!(poll(&mut polled, Some(&moment)), Ok(0))
    }

    /// One order: the first descriptor is the socket for reports, then the child's own, then those of the
    /// scene.
    ///
    /// Takes and gives the helper, since the process that comes of it has to let go of it.
    fn execute_order(mut self, text: &[u8], mut descriptors: VecDeque<OwnedFd>) -> HelperProcess {
        let Some(reports) = descriptors.pop_front() else { return self };
        let Some(OrderParts { scene, held, more: more_text, job: job_text }) = wire::split_order(text) else {
            return self;
        };
        let Some(job) = wire::read_job(job_text) else { return self };
        let own: Vec<OwnedFd> = descriptors.drain(..job.own.min(descriptors.len())).collect();
        let held: Vec<OwnedFd> = descriptors.drain(..held.min(descriptors.len())).collect();
        let Some(more) = wire::read_more(more_text, descriptors.into()) else { return self };

        let again = self.notice(scene);
        if again && let Some(spare) = self.take_spare(scene, &held) {
            // What can't be had fails below as well, and is said there.
            let trees = mounts::clone_trees(&more).unwrap_or_default();
            let ours = [reports.as_fd()].into_iter().chain(own.iter().map(|own| own.as_fd()));
            let sent: Vec<_> = ours.chain(trees.iter().map(|tree| tree.as_fd())).collect();
            if trees.len() == wire::held_descriptors(&more).count()
                && wire::send_long(spare.socket.as_fd(), &wire::write_late_order(more_text, job_text), &sent)
                    .is_ok()
            {
                let _ = ChildReport::Made(spare.process).send(reports.as_fd());
                if job.wants_spare {
                    self.queue_order(SceneOrder { scene: scene.to_vec(), held });
                }
                return self;
            }
        }
        let held_again: Result<Vec<OwnedFd>, _> = held.iter().map(OwnedFd::try_clone).collect();
        let Some(mut made) = self.read(scene, held) else { return self };
        made.add(more);
        match sys::fork_into(&self.one_thread, namespace_flags(self.walls, made.network)) {
            Ok(ForkSide::Parent(process)) => {
                let _ = ChildReport::Made(process).send(reports.as_fd());
                // One that never came before takes nobody's place.
                let room = self.spares.len() + self.wanted.len() < limits::SPARES_MAX;
                if let (true, Ok(held)) = (job.wants_spare && (again || room), held_again) {
                    self.queue_order(SceneOrder { scene: scene.to_vec(), held });
                }
                self
            }
            Ok(ForkSide::Child) => {
                let (walls, session_net) = self.let_go();
                let prepared =
                    init::prepare_sandbox(walls, &made, session_net.as_ref().map(|net| net.as_fd()));
                drop((made, session_net, held_again));
                match prepared.and_then(|prepared| prepared.finish(&[])) {
                    Ok(locks) => init::perform_job(walls, locks, job, reports, own),
                    Err(words) => init::report_failure(&reports, words),
                }
            }
            Err(errno) => {
                let words = format!("no process can be started: {}", std::io::Error::from(errno));
                let _ = ChildReport::Failed(words).send(reports.as_fd());
                self
            }
        }
    }

    /// In the copy: dies with the helper, and lets go of the socket to the host and of the spares.
    fn let_go(self) -> (IsolationLevel, Option<OwnedFd>) {
        // One without walls that was killed would leave behind what it looks after; it hears itself when the
        // host is gone.
        if self.walls != IsolationLevel::Open {
            self.itself.bind_copy();
        }
        (self.walls, self.session_net)
    }

    /// A scene as it was written. Its overlays and excerpts are mounted here, if they aren't yet, and bound
    /// from here.
    fn read(&mut self, scene: &[u8], held: Vec<OwnedFd>) -> Option<MountPlan> {
        let mut scene = wire::read_scene(scene, held)?;
        if self.walls != IsolationLevel::Namespaces {
            return Some(scene);
        }
        for part in &mut scene.parts {
            match part {
                MountEntry::Overlay { lower, upper, work, at, writable } => {
                    let mounted = self.mount_once(work, || mounts::mount_overlay(lower, upper, work));
                    // Where a kernel can't do this for ordinary users, what is there can be read.
                    let (from, writable) = if mounted { (work, *writable) } else { (lower, false) };
                    let from = BindSource::Path(std::mem::take(from));
                    *part = MountEntry::Bind { from, at: std::mem::take(at), writable };
                }
                MountEntry::Excerpt { at, work: Some(work), entries }
                    if self.mount_once(work, || mounts::mount_excerpt(at, work, entries)) =>
                {
                    let from = BindSource::Path(std::mem::take(work));
                    *part = MountEntry::Bind { from, at: std::mem::take(at), writable: false };
                }
                _ => {}
            }
        }
        Some(scene)
    }

    /// Mounts something on a folder, unless that was done or tried before. Whether it is mounted there.
    fn mount_once(&mut self, work: &Path, mount: impl FnOnce() -> rustix::io::Result<()>) -> bool {
        match self.mounted.get(work) {
            Some(mounted) => *mounted,
            None if self.mounted.len() >= limits::OVERLAYS_MAX => false,
            None => {
                let mounted = mount().is_ok();
                self.mounted.insert(work.to_owned(), mounted);
                mounted
            }
        }
    }

    /// Whether a scene came before, lately; from now on it has.
    fn notice(&mut self, scene: &[u8]) -> bool {
        let again = self.seen.iter().position(|seen| seen == scene);
        let scene = again.and_then(|again| self.seen.remove(again)).unwrap_or_else(|| scene.to_vec());
        self.seen.push_back(scene);
        keep_last(&mut self.seen, limits::SCENES_SEEN_MAX);
        again.is_some()
    }

    /// Asks for a spare of a scene.
    fn queue_order(&mut self, order: SceneOrder) {
        if self.walls == IsolationLevel::Open {
            return;
        }
        let made = self.spares.iter().filter(|spare| spare.scene == order.scene).count();
        let wanted = self.wanted.iter().filter(|wanted| wanted.scene == order.scene).count();
        if made + wanted < limits::SPARES_EACH_MAX {
            self.wanted.push_back(order);
            keep_last(&mut self.wanted, limits::SPARES_MAX);
        }
    }

    /// A spare that is what is wanted, and made of what there is now. Stale ones are thrown away.
    fn take_spare(&mut self, scene: &[u8], held: &[OwnedFd]) -> Option<SpareSandbox> {
        loop {
            let found = self.spares.iter().position(|spare| spare.scene == scene)?;
            let spare = self.spares.remove(found)?;
            // One that could not be made has ended: what it was to hold was gone at that moment.
            if spare.sources.are_still(held) && spare.is_made() {
                return Some(spare);
            }
        }
    }

    fn make_spare(mut self) -> HelperProcess {
        let Some(SceneOrder { scene, held }) = self.wanted.pop_front() else { return self };
        let Some(made) = self.read(&scene, held) else { return self };
        let pair =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let Ok((ours, theirs)) = pair else { return self };
        let sources = mounts::SourceIdentities::for_plan(&made);
        match sys::fork_into(&self.one_thread, namespace_flags(self.walls, made.network)) {
            Ok(ForkSide::Parent(process)) => {
                self.spares.push_back(SpareSandbox { scene, sources, process, socket: ours });
                keep_last(&mut self.spares, limits::SPARES_MAX);
                self
            }
            Ok(ForkSide::Child) => {
                drop(ours);
                let (walls, session_net) = self.let_go();
                let prepared =
                    init::prepare_sandbox(walls, &made, session_net.as_ref().map(|net| net.as_fd()));
                drop((made, session_net));
                let Ok(prepared) = prepared else { sys::exit_now(1) };
                let prepared = prepared.go_ahead();
                let _ = wire::send_message(theirs.as_fd(), b"+", &[]);
                let Ok(Some((text, mut descriptors))) = wire::receive_long(theirs.as_fd()) else {
                    sys::exit_now(0)
                };
                drop(theirs);
                let late = wire::split_late(&text).and_then(|(more, job)| Some((more, wire::read_job(job)?)));
                let (Some((more, job)), Some(reports)) = (late, descriptors.pop_front()) else {
                    sys::exit_now(1)
                };
                let own: Vec<OwnedFd> = descriptors.drain(..job.own.min(descriptors.len())).collect();
                let Some(more) = wire::read_more(more, descriptors.into()) else { sys::exit_now(1) };
                match prepared.look_again().and_then(|prepared| prepared.finish(&more)) {
                    Ok(locks) => init::perform_job(walls, locks, job, reports, own),
                    Err(words) => init::report_failure(&reports, words),
                }
            }
            Err(_) => self,
        }
    }
}

/// Who the helper is, for its copies.
pub(crate) struct HelperIdentity {
    /// Its number as `/proc` shows it, which may be that of another namespace than ours.
    number: Option<String>,
}

impl HelperIdentity {
    /// Before a copy is made.
    pub(crate) fn look() -> HelperIdentity {
        let number = std::fs::read_link("/proc/self").ok();
        HelperIdentity { number: number.map(|number| number.to_string_lossy().into_owned()) }
    }

    /// In a copy, while it still sees the helper's `/proc`: dies with the helper from here on, and at once if
    /// that is dead already, which it would never be told.
    pub(crate) fn bind_copy(&self) {
        let bound = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
        // The first process of a namespace can't just ask for its parent, who is outside.
        let parent = std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| {
            let (_, after_name) = stat.rsplit_once(')')?;
            after_name.split_whitespace().nth(1).map(str::to_owned)
        });
        if bound.is_err() || parent != self.number {
            sys::exit_now(1);
        }
    }
}

fn keep_last<T>(list: &mut VecDeque<T>, most: usize) {
    let too_many = list.len().saturating_sub(most);
    list.drain(..too_many);
}

fn namespace_flags(walls: IsolationLevel, network: NetworkAccessKind) -> i32 {
    if walls != IsolationLevel::Namespaces {
        return 0;
    }
    let empty = if network == NetworkAccessKind::Empty { libc::CLONE_NEWNET } else { 0 };
    libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC | empty
}

/// The session's user namespace, with a mount namespace in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserNamespace {
    /// We make it ourselves.
    ToBeMade,
    /// Bubblewrap has made it, and we are in it.
    Entered,
}

impl UserNamespace {
    /// In a helper that bubblewrap has started: lets go of what only bubblewrap needed, and ends with it.
    pub(crate) fn made_for_us() -> UserNamespace {
        drop(sys::inherited_descriptor(PROGRAM));
        // One that was killed before this isn't noticed; then the helper ends when the host does, as it would
        // anyway.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
        UserNamespace::Entered
    }

    /// Makes it if need be. From then on this process can mount, and nobody else sees that.
    ///
    /// # Errors
    /// Why not, in words.
    pub(crate) fn enter(self) -> Result<(), String> {
        if self == UserNamespace::ToBeMade {
            enter_namespaces()?;
        }
        // What the host mounts later shows here too, and nothing that is mounted here shows there.
        mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)
            .map_err(|errno| failure_text("nothing can be mounted", errno))
    }
}

fn failure_text(what: &str, errno: Errno) -> String {
    format!("{what}: {}", std::io::Error::from(errno))
}

fn enter_namespaces() -> Result<(), String> {
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    sys::unshare_namespaces(libc::CLONE_NEWUSER | libc::CLONE_NEWNS).map_err(|errno| match errno {
        // What the kernel means by "no space left".
        Errno::NOSPC => "no user namespace can be made: there are as many as the machine allows".to_owned(),
        errno => failure_text("no user namespace can be made", errno),
    })?;
    // Everybody stays who they are; of the others there is nobody.
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ] {
        std::fs::write(format!("/proc/self/{file}"), text)
            .map_err(|error| format!("no user namespace can be made: `{file}`: {error}"))?;
    }
    Ok(())
}
