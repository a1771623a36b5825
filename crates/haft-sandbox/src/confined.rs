//! The host's side of the helper: it is started, given orders, and what it makes is watched like any other
//! child.

use std::collections::VecDeque;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haft::ports::ProcessExit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair};
use rustix::process::Signal;

use crate::bubblewrap::{self, TrustedBubblewrap};
use crate::init::IsolationLevel;
use crate::mount_plan::MountPlan;
use crate::process_group::ProcessGroup;
use crate::remount_watch::CoverGuard;
use crate::start::{self, DESCRIPTOR_MIN, ProcessRestraints, StartPlan};
use crate::wire::{self, ChildJob, ChildReport};
use crate::{before_main, helper, leftover_processes, limits, watch};

/// Which program is the helper.
#[derive(Clone, Debug, Default)]
pub(crate) enum HelperProgram {
    /// This one, which becomes the helper [before `main`](crate::before_main).
    #[default]
    ThisProgram,
    /// Another one that uses this crate.
    At(PathBuf),
}

/// A helper that runs. Dropped, it ends, and everything that it made.
pub(crate) struct HelperHandle {
    socket: Arc<OwnedFd>,
    walls: IsolationLevel,
    /// Whether bubblewrap made its user namespace.
    through_bubblewrap: bool,
    /// Waits for its end, and is the thread that the helper dies with.
    keeper: Option<JoinHandle<()>>,
    /// See [`HelperHandle::take_listeners`].
    listeners: VecDeque<OwnedFd>,
}

impl HelperHandle {
    /// Starts it and waits until it is ready. Beside proxy and name server it binds these ports in the
    /// session's network.
    ///
    /// # Errors
    /// What the machine refuses, in words.
    pub(crate) fn start(
        program: &HelperProgram,
        walls: IsolationLevel,
        ports: &[u16],
    ) -> Result<HelperHandle, String> {
        let null = open_null().map_err(start_failure)?;
        HelperHandle::begun(helper_plan(program, walls, ports)?, [&null; 3], &[], walls)
    }

    /// The same in namespaces that bubblewrap makes.
    ///
    /// # Errors
    /// What the machine refuses, in words; also bubblewrap's own.
    pub(crate) fn start_through(
        bubblewrap: &TrustedBubblewrap,
        program: &HelperProgram,
        walls: IsolationLevel,
        ports: &[u16],
    ) -> Result<HelperHandle, String> {
        let (null, complaints) =
            (open_null().map_err(start_failure)?, bubblewrap::open_error_file().map_err(start_failure)?);
        let mut plan = helper_plan(program, walls, ports)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let itself = rustix::fs::open(&*plan.program, flags, Mode::empty()).map_err(start_failure)?;
        plan.argv = bubblewrap.argv(plan.argv);
        plan.program = bubblewrap.program()?;
        plan.dies_with_us = false;
        match HelperHandle::begun(plan, [&null, &null, &complaints], &[&itself], walls) {
            Ok(mut helper) => {
                helper.through_bubblewrap = true;
                Ok(helper)
            }
            Err(words) => Err(bubblewrap::read_error_file(complaints.as_fd()).unwrap_or(words)),
        }
    }

    /// A helper of which the first descriptors are these; then comes its socket, and then what else there is.
    fn begun(
        plan: StartPlan,
        first: [&OwnedFd; 3],
        others: &[&OwnedFd],
        walls: IsolationLevel,
    ) -> Result<HelperHandle, String> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(start_failure)?;
        let own = first.into_iter().chain([&theirs]).chain(others.iter().copied());
        let own = own.map(|own| rustix::io::fcntl_dupfd_cloexec(own, DESCRIPTOR_MIN));
        let own = own.collect::<Result<Vec<OwnedFd>, Errno>>().map_err(start_failure)?;
        drop(theirs);
        let (say, started) = mpsc::sync_channel(1);
        let keeper = std::thread::Builder::new()
            .name("haft-sandbox".into())
            .stack_size(limits::THREAD_STACK_BYTES)
            .spawn(move || keep_helper(plan, own, &say, ProcessGroup::for_helper(walls)))
            .map_err(|error| format!("its helper can't be started: no thread for it: {error}"))?;
        started
            .recv()
            .map_err(|_| "its helper can't be started: the thread for it failed".to_owned())?
            .map_err(|(_, errno)| start_failure(errno))?;
        // From here on dropping it ends it.
        let mut helper = HelperHandle {
            socket: Arc::new(ours),
            walls,
            through_bubblewrap: false,
            keeper: Some(keeper),
            listeners: VecDeque::new(),
        };
        helper.listeners = helper.read_greeting()?;
        Ok(helper)
    }

    fn read_greeting(&self) -> Result<VecDeque<OwnedFd>, String> {
        let silent = || "its helper doesn't answer".to_owned();
        if !wait_readable(self.socket.as_fd(), limits::HELPER_WAIT) {
            return Err(silent());
        }
        let mut buffer = [0; limits::WORDS_BYTES_MAX];
        let (count, descriptors) =
            wire::receive_message(self.socket.as_fd(), &mut buffer, RecvFlags::empty())
                .map_err(|_| silent())?;
        match buffer[..count].split_first() {
            Some((b'+', _)) => Ok(descriptors),
            Some((b'-', words)) => Err(String::from_utf8_lossy(words).into_owned()),
            _ => Err(silent()),
        }
    }

    /// The listening sockets, once: proxy, name server by UDP, by TCP, and the ports that were asked for.
    pub(crate) fn take_listeners(&mut self) -> VecDeque<OwnedFd> {
        std::mem::take(&mut self.listeners)
    }

    /// Whether it says something within this time, or ends.
    pub(crate) fn waits(&self, at_most: Duration) -> bool {
        wait_readable(self.socket.as_fd(), at_most)
    }

    pub(crate) fn receive(
        &self,
        buffer: &mut [u8],
        flags: RecvFlags,
    ) -> rustix::io::Result<(usize, VecDeque<OwnedFd>)> {
        wire::receive_message(self.socket.as_fd(), buffer, flags)
    }

    pub(crate) fn isolation_level(&self) -> IsolationLevel {
        self.walls
    }

    pub(crate) fn is_through_bubblewrap(&self) -> bool {
        self.through_bubblewrap
    }

    /// Starts a child in a scene. `own` are its descriptors 0, 1, 2 and maybe 3; `opened` is its program,
    /// where that isn't to be found by its name.
    ///
    /// # Errors
    /// What was wrong, in words. Nothing is left then.
    pub(crate) fn begin(
        &self,
        scene: &MountPlan,
        mut job: ChildJob,
        own: &[BorrowedFd<'_>],
        opened: Option<BorrowedFd<'_>>,
    ) -> Result<ConfinedChild, String> {
        let failed = |errno: Errno| format!("no process can be started: {}", std::io::Error::from(errno));
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(failed)?;
        job.own = own.len() + usize::from(opened.is_some());
        job.opened = opened.is_some();
        let sent: Vec<BorrowedFd<'_>> = [theirs.as_fd()]
            .into_iter()
            .chain(own.iter().copied())
            .chain(opened)
            .chain(wire::held_descriptors(&scene.parts))
            .chain(wire::held_descriptors(&scene.more))
            .collect();
        if sent.len() > limits::DESCRIPTORS_SENT_MAX {
            return Err("no process can be started: too many folders are granted to it at once".into());
        }
        let text = wire::write_order(scene, &job);
        wire::send_long(self.socket.as_fd(), &text, &sent).map_err(|errno| match errno {
            Errno::PIPE | Errno::CONNRESET => helper_gone(),
            errno => failed(errno),
        })?;
        drop(theirs);
        ConfinedChild::wait(ours, self.walls, self.socket.clone())
    }
}

impl HelperHandle {
    /// Ends it, and waits until it is gone.
    pub(crate) fn end(&mut self) {
        let _ = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

impl Drop for HelperHandle {
    fn drop(&mut self) {
        self.end();
    }
}

fn start_failure(errno: Errno) -> String {
    format!("its helper can't be started: {}", std::io::Error::from(errno))
}

fn open_null() -> Result<OwnedFd, Errno> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

fn helper_gone() -> String {
    "the sandbox's helper has ended, and nothing can be run any more; end this session and start another"
        .into()
}

/// Starts the helper in its group of processes, and stays until it has ended.
fn keep_helper(
    mut plan: StartPlan,
    own: Vec<OwnedFd>,
    say: &mpsc::SyncSender<Result<(), (start::StartStep, Errno)>>,
    group: Option<ProcessGroup>,
) {
    start::block_signals();
    let theirs: Vec<BorrowedFd<'_>> = own.iter().map(|own| own.as_fd()).collect();
    // Without a bound on all commands there is still that of each.
    plan.group = group.as_ref().and_then(|group| group.open_tasks().ok());
    match start::start_child(&plan, &theirs) {
        Ok(mut child) => {
            drop((own, plan));
            let _ = say.send(Ok(()));
            wait_readable(child.pidfd(), Duration::MAX);
            child.reap();
        }
        Err(error) => {
            let _ = say.send(Err(error));
        }
    }
}

fn helper_plan(program: &HelperProgram, walls: IsolationLevel, ports: &[u16]) -> Result<StartPlan, String> {
    let argument = match walls {
        IsolationLevel::Namespaces => helper::NAMESPACES,
        IsolationLevel::Bare => helper::BARE,
        IsolationLevel::Probe => helper::PROBE,
        IsolationLevel::Open => helper::OPEN,
    };
    let text = |text: &OsStr| {
        CString::new(text.as_bytes()).map_err(|_| "its helper has a name with a NUL in it".to_owned())
    };
    let program = match program {
        // It would run `main` once more.
        HelperProgram::ThisProgram if !before_main::has_run() => {
            return Err("this program can't be its own helper: functions in `.init_array` didn't run".into());
        }
        HelperProgram::ThisProgram => c"/proc/self/exe".to_owned(),
        HelperProgram::At(path) => text(path.as_os_str())?,
    };
    let ports = ports.iter().map(u16::to_string);
    let argv = [helper::NAME.to_owned(), argument.to_owned()].into_iter().chain(ports);
    let argv = argv.map(|argument| text(OsStr::new(&argument))).collect::<Result<Vec<_>, _>>()?;
    let (envp, cwd, locks) = (Vec::new(), c"/".to_owned(), ProcessRestraints::default());
    Ok(StartPlan { program, opened: None, argv, envp, cwd, locks, group: None, dies_with_us: true })
}

/// A child in its sandbox.
pub(crate) struct ConfinedChild {
    reports: OwnedFd,
    /// Its first process; when that ends, all of it ends.
    first: OwnedFd,
    walls: IsolationLevel,
    helper: Arc<OwnedFd>,
    /// How it ended, where that was heard before anybody asked.
    ended: Option<ProcessExit>,
    /// Nothing of it is left.
    alone: bool,
    /// What it tried to change where nothing can be changed.
    refused: Vec<PathBuf>,
    /// What keeps its view of the file system, whether it lives or not.
    view: Option<OwnedFd>,
    /// What sees to it that covered names stay so.
    covered: Option<CoverGuard>,
}

impl ConfinedChild {
    fn wait(reports: OwnedFd, walls: IsolationLevel, helper: Arc<OwnedFd>) -> Result<ConfinedChild, String> {
        let until = Instant::now() + limits::SCENE_WAIT;
        let (mut first, mut started, mut ended, mut refused) = (None, None, None, Vec::new());
        // The helper and the process that it made speak both, so what they say comes in any order.
        loop {
            // Neither is taken before both are there.
            if first.is_some()
                && let Some(view) = started.take()
                && let Some(first) = first.take()
            {
                let alone = matches!(ended, Some((_, true)));
                return Ok(ConfinedChild {
                    reports,
                    first,
                    walls,
                    helper,
                    ended: ended.map(|(exit, _)| exit),
                    alone,
                    refused,
                    view,
                    covered: None,
                });
            }
            if !wait_readable(reports.as_fd(), until.saturating_duration_since(Instant::now())) {
                first.iter().for_each(kill_process);
                return Err(
                    "the sandbox could not be set up: it takes too long; a file system may hang".into()
                );
            }
            match ChildReport::receive(reports.as_fd(), RecvFlags::empty()) {
                Ok(Some(ChildReport::Made(process))) => first = Some(process),
                Ok(Some(ChildReport::Started(view))) => started = Some(view),
                Ok(Some(ChildReport::Closed(_))) => {}
                Ok(Some(ChildReport::Refused(path))) => refused.push(path),
                Ok(Some(ChildReport::Ended(exit, alone))) => ended = Some((exit, alone)),
                Ok(Some(ChildReport::Failed(words))) => return Err(words),
                // It ended before it could say why: killed, most likely for want of memory.
                Ok(None) | Err(_) => {
                    let words =
                        "the sandbox could not be set up: the process that makes it was killed".to_owned();
                    return Err(if hung_up(&helper) { helper_gone() } else { words });
                }
            }
        }
    }
}

impl ConfinedChild {
    /// Waits until folders are closed; what is heard beside that is kept.
    fn hear_closed(&mut self) -> Result<(), String> {
        let until = Instant::now() + limits::KILL_WAIT;
        loop {
            if !wait_readable(self.reports.as_fd(), until.saturating_duration_since(Instant::now())) {
                return Err("it takes too long".into());
            }
            match ChildReport::receive(self.reports.as_fd(), RecvFlags::empty()) {
                Ok(Some(ChildReport::Closed(closed))) => return closed,
                Ok(Some(ChildReport::Ended(exit, alone))) => (self.ended, self.alone) = (Some(exit), alone),
                Ok(Some(ChildReport::Refused(path))) => self.refused.push(path),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Err("it has ended".into()),
            }
        }
    }

    /// Names that are covered in its view are covered again when somebody gives them to other files.
    pub(crate) fn stays_covered(&mut self, covered: Option<CoverGuard>) {
        if let Some(covered) = &covered {
            covered.started(self.reports.as_fd());
        }
        self.covered = covered;
    }
}

impl watch::ChildProcess for ConfinedChild {
    fn news(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }

    fn ended(&mut self) -> Result<Option<ProcessExit>, String> {
        if self.ended.is_some() {
            return Ok(self.ended);
        }
        match ChildReport::receive(self.reports.as_fd(), RecvFlags::DONTWAIT) {
            Ok(Some(ChildReport::Ended(exit, alone))) => {
                (self.ended, self.alone) = (Some(exit), alone);
                Ok(Some(exit))
            }
            Ok(Some(ChildReport::Refused(path))) => {
                self.refused.push(path);
                Ok(None)
            }
            Ok(Some(_)) | Err(Errno::AGAIN) => Ok(None),
            // Its first process was killed, and so was all of it.
            Ok(None) | Err(_) if !hung_up(&self.helper) => Ok(Some(ProcessExit::Signal(libc::SIGKILL))),
            Ok(None) | Err(_) => Err(format!("how the process ended is not known: {}", helper_gone())),
        }
    }

    fn signal(&self, signal: Signal) {
        if signal == Signal::KILL && self.walls == IsolationLevel::Namespaces {
            kill_process(&self.first);
        } else {
            let _ = wire::send_message(self.reports.as_fd(), &signal.as_raw().to_le_bytes(), &[]);
        }
    }

    fn refused(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.refused)
    }

    fn close(&mut self, folders: &[PathBuf]) -> Result<(), String> {
        let failed = |errno: Errno| std::io::Error::from(errno).to_string();
        // So many as fit into a message each.
        for some in folders.chunks(limits::FOLDERS_CLOSED_AT_ONCE) {
            wire::send_message(self.reports.as_fd(), &wire::write_closing(some), &[]).map_err(failed)?;
            self.hear_closed()?;
        }
        Ok(())
    }

    fn view(&mut self) -> Option<OwnedFd> {
        self.view.take()
    }

    fn end(&mut self) -> Vec<u32> {
        if self.alone {
            return Vec::new();
        }
        // Known only as long as the first process is there to be asked.
        let below = leftover_processes::processes_below(self.first.as_fd());
        self.kill_all();
        leftover_processes::wait_for_end(limits::KILL_WAIT, || {
            below.iter().filter_map(leftover_processes::ProcessId::is_there).collect()
        })
    }

    fn there(&self) -> Vec<u32> {
        leftover_processes::processes_below(self.first.as_fd())
            .iter()
            .filter_map(leftover_processes::ProcessId::is_there)
            .collect()
    }
}

impl Drop for ConfinedChild {
    fn drop(&mut self) {
        self.kill_all();
    }
}

impl ConfinedChild {
    /// Kills what is left, once.
    fn kill_all(&mut self) {
        if std::mem::replace(&mut self.alone, true) {
            return;
        }
        watch::ChildProcess::signal(self, Signal::KILL);
        // Without namespaces it kills the others first, and then ends because nobody is left to talk to.
        let _ = rustix::net::shutdown(&self.reports, rustix::net::Shutdown::Both);
        if !wait_readable(self.first.as_fd(), limits::KILL_WAIT) {
            kill_process(&self.first);
        }
    }
}

fn kill_process(process: &OwnedFd) {
    let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
}

/// Waits until something can be read, or the other end is gone; at most this long.
fn wait_readable(descriptor: BorrowedFd<'_>, at_most: Duration) -> bool {
    let until = Instant::now().checked_add(at_most);
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], left.as_ref()) {
            Err(Errno::INTR) => {}
            ready => return !matches!(ready, Ok(0) | Err(_)),
        }
    }
}

fn hung_up(socket: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_err() || polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}
