//! The life of one child, on one thread: start, feed, listen, wait, end.
//!
//! There are four ways to the end: the child ends by itself, its time is over, the call is cancelled, or
//! nobody waits for its answer. In the last three its group is told to end (TERM), and killed if it doesn't
//! within a grace. In all of them, once the child itself is gone, output is read for a bounded time only,
//! since something that it left behind may hold a pipe open for ever; then what is left of the group is
//! killed. The child stays a zombie until that is done, so that the group's number can't have become somebody
//! else's.
//!
//! Children that may have changed protected names are paused while the user is asked about them: they may be
//! the user's own. What is paused can't run out of time, and every way to the end works as it does otherwise.
//!
//! A child that floods writes small pieces, and whoever waits for each of them is woken for each of them,
//! which costs more than reading it. So a flood is left alone for a moment whenever there is no more of it,
//! and the pipe gathers.

mod undone;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Wake;
use std::time::{Duration, Instant};

use haft::ports::{
    CapturedOutput, ChildRequests, ConfinementRefusal, KillReason, OnOutput, ProcessError, ProcessExit,
    ProcessOutcome, ProcessRequest, UndoneChange,
};
use haft::sync::lock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::capture::{LineCapture, OutputCapture};
use crate::child_pool::refused_error;
use crate::leftover_processes;
use crate::limits;
use crate::start::{self, DESCRIPTOR_MIN};

use undone::UndoneState;
pub(crate) use undone::{PauseHold, ask_at_end};

/// What the thread of a child is told from outside.
#[derive(Clone)]
pub(crate) struct ChildOrders(Arc<OrdersInner>);

pub(crate) struct OrdersInner {
    order: AtomicU8,
    /// It has moved to the background, and nobody has looked at that yet.
    moved: AtomicBool,
    /// What was undone while it runs, and was not looked at yet; none once it has ended.
    undone: Mutex<Option<Vec<UndoneNotice>>>,
    wake: OwnedFd,
}

/// What a child's thread is told when a change of a protected name was undone while children run.
pub(crate) enum UndoneNotice {
    /// This child's thread decides about the change.
    Decide {
        /// What the user can be asked about; none where it can't be made again.
        change: Option<UndoneChange>,
        /// It was the child, and not for the first time.
        is_again: bool,
        /// Pauses the other children until there is a decision.
        hold: Arc<PauseHold>,
    },
    /// The thread of another child decides, and this child is paused until then: it may have made the change.
    Pause(Weak<PauseHold>),
}

const CANCEL: u8 = 1;
const ABANDON: u8 = 2;

impl Wake for OrdersInner {
    fn wake(self: Arc<OrdersInner>) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

impl ChildOrders {
    pub(crate) fn new() -> io::Result<ChildOrders> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (order, moved) = Default::default();
        let undone = Mutex::new(Some(Vec::new()));
        Ok(ChildOrders(Arc::new(OrdersInner { order, moved, undone, wake })))
    }

    /// Look at a change of a protected name that was undone.
    pub(crate) fn undone(&self, notice: UndoneNotice) {
        if let Some(undone) = &mut *lock(&self.0.undone)
            && undone.len() < limits::UNDONE_NOTICES_MAX
        {
            undone.push(notice);
        }
        self.wake();
    }

    fn take_undone(&self) -> Vec<UndoneNotice> {
        lock(&self.0.undone).as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Nothing is looked at any more: what waits to be looked at would keep others paused.
    fn close_undone(&self) {
        lock(&self.0.undone).take();
    }

    /// End the child, and answer.
    pub(crate) fn cancel(&self) {
        self.give_order(CANCEL);
    }

    /// End the child soon: nobody waits for an answer.
    pub(crate) fn abandon(&self) {
        self.give_order(ABANDON);
    }

    /// It runs in the background from now on.
    fn moved(&self) {
        self.0.moved.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        self.0.clone().wake();
    }

    /// What wakes the thread.
    pub(crate) fn waker(&self) -> &Arc<OrdersInner> {
        &self.0
    }

    /// Whether the child is to end.
    pub(crate) fn is_over(&self) -> bool {
        self.0.order.load(Ordering::Acquire) != 0
    }

    /// Waits until the thread is woken, or until then.
    pub(crate) fn wait_until(&self, at: Instant) {
        let left = left_until(at, Instant::now());
        let _ = poll(&mut [PollFd::new(&self.0.wake, PollFlags::IN)], Some(&left));
        let _ = rustix::io::read(&self.0.wake, &mut [0; 8]);
    }

    fn take_moved(&self) -> bool {
        self.0.moved.swap(false, Ordering::AcqRel)
    }

    fn give_order(&self, order: u8) {
        self.0.order.fetch_max(order, Ordering::AcqRel);
        self.wake();
    }

    /// The order, and quiet until the next one.
    fn take(&self) -> Option<StopReason> {
        let _ = rustix::io::read(&self.0.wake, &mut [0; 8]);
        match self.0.order.load(Ordering::Acquire) {
            CANCEL => Some(StopReason::Cancelled),
            ABANDON => Some(StopReason::Abandoned),
            _ => None,
        }
    }
}

/// Why a child is ended. A later reason replaces an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StopReason {
    /// Because of what it did.
    Killed(KillReason),
    TimedOut,
    Cancelled,
    Abandoned,
}

/// A process with all that it starts, however it was made.
pub(crate) trait ChildProcess: Send {
    /// Readable once there may be something to hear of its end.
    fn news(&self) -> BorrowedFd<'_>;

    /// How it ended, if it has. Whatever it left behind is still there.
    ///
    /// # Errors
    /// Why that will never be known, in words. It counts as gone then.
    fn ended(&mut self) -> Result<Option<ProcessExit>, String>;

    /// Sends a signal to all of it, as far as all can be reached; KILL ends all of it.
    fn signal(&self, signal: Signal);

    /// What it is known to have tried to change where it may not.
    fn refused(&mut self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Makes folders read-only for all of it from now on.
    ///
    /// # Errors
    /// Why that can't be, in words.
    fn close(&mut self, _: &[PathBuf]) -> Result<(), String> {
        Ok(())
    }

    /// What keeps its view of the file system as it is, also when it has ended; once.
    fn view(&mut self) -> Option<OwnedFd> {
        None
    }

    /// Ends what is left, and waits until it is gone. What isn't after a while, however often it is killed,
    /// is returned.
    fn end(&mut self) -> Vec<u32>;

    /// What of it is there now, by its numbers.
    fn there(&self) -> Vec<u32>;
}

/// Who looks after what children may do to each other.
pub(crate) trait ChildSupervisor {
    /// It goes on in the background. What is to be said about what it did before.
    fn moved(&mut self, _: &mut dyn ChildProcess) -> Vec<ConfinementRefusal> {
        Vec::new()
    }

    /// It is about to be killed, or has ended; said once.
    fn ending(&mut self, _: &mut dyn ChildProcess) {}

    /// The user has answered about changes that were undone; if they are the user's, they are made again.
    /// Returns what to report.
    fn answered(&mut self, _: &[PathBuf], _is_users: bool) -> Vec<ConfinementRefusal> {
        Vec::new()
    }

    /// Looks at what it has done while it runs.
    fn check(&mut self) -> KeeperCheck {
        KeeperCheck::default()
    }
}

/// What a keeper found while a child runs.
#[derive(Debug, Default)]
pub(crate) struct KeeperCheck {
    /// After how long to check again; none if there is nothing to check.
    pub(crate) next: Option<Duration>,
    /// Why the child is killed.
    pub(crate) stop: Option<(KillReason, ConfinementRefusal)>,
}

/// Nobody has to.
pub(crate) struct NoKeeper;

impl ChildSupervisor for NoKeeper {}

impl ChildProcess for start::StartedChild {
    fn news(&self) -> BorrowedFd<'_> {
        self.pidfd()
    }

    fn ended(&mut self) -> Result<Option<ProcessExit>, String> {
        match start::StartedChild::ended(self) {
            Ok(status) => Ok(status.map(|status| {
                let signal = status.terminating_signal().map(ProcessExit::Signal);
                signal.unwrap_or_else(|| ProcessExit::Code(status.exit_status().unwrap_or(-1)))
            })),
            Err(errno) => {
                self.forget_pid();
                Err(format!(
                    "how the process ended is not known: this program collects all of its children, or ignores SIGCHLD ({})",
                    io::Error::from(errno)
                ))
            }
        }
    }

    fn signal(&self, signal: Signal) {
        start::StartedChild::signal(self, signal);
    }

    fn end(&mut self) -> Vec<u32> {
        self.reap();
        leftover_processes::wait_for_end(limits::KILL_WAIT, || self.there())
    }

    fn there(&self) -> Vec<u32> {
        leftover_processes::of_group(self.pid())
    }
}

/// Runs one process to its end. `begin` is given its descriptors 0, 1, 2 and maybe 3.
pub(crate) fn run_child(
    request: &ProcessRequest,
    orders: &ChildOrders,
    keeper: &mut dyn ChildSupervisor,
    begin: impl FnOnce(&[BorrowedFd<'_>]) -> Result<Box<dyn ChildProcess>, String>,
) -> Result<ProcessOutcome, ProcessError> {
    start::block_signals();
    let pipes = ChildPipes::new(request)
        .map_err(|error| refused_error(format!("no process can be started: {error}")))?;
    let child = {
        let theirs: Vec<BorrowedFd<'_>> = pipes.theirs.iter().map(|end| end.as_fd()).collect();
        begin(&theirs).map_err(refused_error)?
    };
    // Their ends would keep the pipes open.
    let ChildPipes { theirs, input, output, errors, lines } = pipes;
    drop(theirs);
    let (input, output) = hand_over(request, input, output);
    let told = orders.clone();
    request.background.on_begin(move || told.moved());
    let watched = ChildWatch {
        child,
        keeper,
        is_ending: false,
        said: Vec::new(),
        request,
        orders,
        input,
        fed: 0,
        output: OutputStream::new(
            output,
            OutputCapture::new(request.output_bytes_max, request.spill.clone()),
        ),
        errors: OutputStream::new(errors, OutputCapture::new(request.output_bytes_max, None)),
        lines: lines.map(|pipe| (pipe, LineCapture::new())),
        started: Instant::now(),
        asked_before: requested_timeout(request),
        check_at: Instant::now().checked_add(limits::CHECK_AFTER),
        undone: UndoneState::default(),
        stop: None,
        kill_at: None,
        killed: false,
        ended: None,
        drained_at: None,
    };
    watched.follow()
}

/// Gives input and output away, if somebody else talks to the child; else they are ours.
fn hand_over(
    request: &ProcessRequest,
    input: Option<OwnedFd>,
    output: OwnedFd,
) -> (Option<OwnedFd>, Option<OwnedFd>) {
    match (&request.on_pipes, input) {
        (Some(on_pipes), Some(input)) => {
            // One that panics has dropped them: the child reads the end of its input.
            let _ = catch_unwind(AssertUnwindSafe(|| on_pipes(input, output)));
            (None, None)
        }
        (_, input) => (input, Some(output)),
    }
}

/// Both ends of everything between the child and us.
struct ChildPipes {
    theirs: Vec<OwnedFd>,
    input: Option<OwnedFd>,
    output: OwnedFd,
    /// None where complaints go the way of the output.
    errors: Option<OwnedFd>,
    lines: Option<OwnedFd>,
}

impl ChildPipes {
    fn new(request: &ProcessRequest) -> io::Result<ChildPipes> {
        let (their_input, input) = io::pipe()?;
        let (output, their_output) = io::pipe()?;
        let (errors, their_errors) = if request.merged {
            (None, their_output.try_clone()?)
        } else {
            io::pipe().map(|(ours, theirs)| (Some(OwnedFd::from(ours)), theirs))?
        };
        let mut theirs: Vec<OwnedFd> = vec![their_input.into(), their_output.into(), their_errors.into()];
        let mut lines = None;
        if request.on_line.is_some() {
            let (ours, their_lines) = io::pipe()?;
            theirs.push(their_lines.into());
            lines = Some(ours.into());
            if let Some(content) = &request.content {
                theirs.push(content.try_clone()?);
            }
        }
        // A host without standard streams gives out low numbers, which the child is about to overwrite.
        for end in &mut theirs {
            *end = rustix::io::fcntl_dupfd_cloexec(&*end, DESCRIPTOR_MIN)?;
        }
        let wanted = !request.stdin.is_empty() || request.on_pipes.is_some();
        let input = wanted.then(|| input.into());
        let output = OwnedFd::from(output);
        // Only our ends: whether the child's wait is its own matter.
        for ours in [&output].into_iter().chain(&errors).chain(&input).chain(&lines) {
            rustix::io::ioctl_fionbio(ours, true)?;
        }
        Ok(ChildPipes { theirs, input, output, errors, lines })
    }
}

struct OutputStream {
    pipe: Option<OwnedFd>,
    capture: OutputCapture,
    /// How much came, and until when more of it gathers.
    bytes: u64,
    gathers_until: Option<Instant>,
}

impl OutputStream {
    fn new(pipe: Option<OwnedFd>, capture: OutputCapture) -> OutputStream {
        OutputStream { pipe, capture, bytes: 0, gathers_until: None }
    }

    /// Takes what there is, once.
    fn take(&mut self, buffer: &mut [u8], told: Option<&OnOutput>) {
        let room = buffer.len();
        let mut count = 0;
        read_pipe(&mut self.pipe, buffer, |bytes| {
            count = bytes.len();
            self.capture.add(bytes);
            send_output(told, bytes);
        });
        let before = self.bytes;
        self.bytes += count as u64;
        if self.bytes < limits::FLOOD_BYTES {
            return;
        }
        if before < limits::FLOOD_BYTES
            && let Some(pipe) = &self.pipe
        {
            // Refused to a user who has many pipes, and then it stays as large as any.
            let _ = rustix::pipe::fcntl_setpipe_size(pipe, limits::PIPE_BYTES);
        }
        // Where the buffer was filled there is more already.
        self.gathers_until = (count < room).then(|| Instant::now() + limits::GATHER);
    }

    /// Takes what was printed in time and not read in time, as on a busy machine: a pipe full at most.
    fn drain(&mut self, buffer: &mut [u8], told: Option<&OnOutput>) {
        let last = self.bytes + limits::PIPE_BYTES as u64;
        let mut before = None;
        while self.bytes < last && before.replace(self.bytes) != Some(self.bytes) {
            self.take(buffer, told);
        }
    }

    /// The pipe, if something is to be read of it now.
    fn waited_for(&self, now: Instant) -> Option<&OwnedFd> {
        self.pipe.as_ref().filter(|_| self.gathers_until.is_none_or(|at| now >= at))
    }
}

/// A child that runs, and everything that is known of it.
struct ChildWatch<'a> {
    child: Box<dyn ChildProcess>,
    keeper: &'a mut dyn ChildSupervisor,
    /// The keeper was told of its end.
    is_ending: bool,
    /// What the keeper said.
    said: Vec<ConfinementRefusal>,
    request: &'a ProcessRequest,
    orders: &'a ChildOrders,
    input: Option<OwnedFd>,
    /// How much of the input was written.
    fed: usize,
    output: OutputStream,
    errors: OutputStream,
    lines: Option<(OwnedFd, LineCapture)>,
    started: Instant,
    /// How long the user was asked about hosts before it was started.
    asked_before: Duration,
    /// When the keeper checks what it has done.
    check_at: Option<Instant>,
    undone: UndoneState,
    stop: Option<StopReason>,
    /// When it is killed because it didn't end; afterwards, when it is given up.
    kill_at: Option<Instant>,
    killed: bool,
    ended: Option<ProcessExit>,
    /// When output is read no longer.
    drained_at: Option<Instant>,
}

impl ChildWatch<'_> {
    fn follow(mut self) -> Result<ProcessOutcome, ProcessError> {
        let mut buffer = vec![0; limits::READ_BYTES];
        // It may have been heard of already, and then nothing more comes.
        self.note_end()?;
        while !self.is_over(Instant::now()) {
            let ready = self.wait()?;
            if ready.orders {
                if let Some(stop) = self.orders.take() {
                    self.stop(stop);
                }
                if self.orders.take_moved() && self.ended.is_none() {
                    self.said.extend(self.keeper.moved(&mut *self.child));
                    // It may have been heard of meanwhile, and then nothing more comes.
                    self.note_end()?;
                }
                self.note_undone();
            }
            if ready.input {
                self.feed();
            }
            if ready.output {
                self.output.take(&mut buffer, self.request.on_output.as_ref());
            }
            if ready.errors {
                self.errors.take(&mut buffer, self.request.on_output.as_ref());
            }
            if ready.lines {
                self.hear(&mut buffer);
            }
            if ready.ended {
                self.note_end()?;
            }
            self.keep_time(Instant::now());
        }
        for stream in [&mut self.output, &mut self.errors] {
            stream.drain(&mut buffer, self.request.on_output.as_ref());
        }
        if let Some((_, lines)) = &mut self.lines {
            let told = self.request.on_line.as_ref();
            lines.end(|line| send_output(told, line));
        }
        self.ending();
        let exit = match (self.stop, self.ended) {
            (Some(StopReason::TimedOut), _) => ProcessExit::TimedOut,
            (Some(StopReason::Killed(reason)), None | Some(ProcessExit::Signal(_))) => {
                ProcessExit::Killed(reason)
            }
            (Some(StopReason::Killed(_)) | None, Some(exit)) => exit,
            // Only a child that was stopped is given up.
            (Some(_), _) | (None, None) => ProcessExit::Cancelled,
        };
        let (stdout, stderr): (CapturedOutput, CapturedOutput) =
            (self.output.capture.finish(), self.errors.capture.finish());
        // Where it has not ended it hangs inside the kernel, and so does whoever waits for it: this thread,
        // not the call.
        let gone = self.ended.is_some();
        let mut child = self.child;
        let mut refused: Vec<ConfinementRefusal> =
            child.refused().into_iter().map(|path| ConfinementRefusal::Path { path, write: true }).collect();
        let held = if gone {
            child.end()
        } else {
            let held = child.there();
            let _ = std::thread::Builder::new().name("haft-unkillable".into()).spawn(move || child.end());
            held
        };
        refused.append(&mut self.said);
        Ok(ProcessOutcome { exit, stdout, stderr, refused, held })
    }

    fn ending(&mut self) {
        if !std::mem::replace(&mut self.is_ending, true) {
            self.keeper.ending(&mut *self.child);
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        let silent = self.output.pipe.is_none() && self.errors.pipe.is_none() && self.lines.is_none();
        let given_up = self.killed && self.kill_at.is_some_and(|at| now >= at);
        (self.ended.is_some() && (silent || self.drained_at.is_some_and(|at| now >= at))) || given_up
    }

    /// Waits until there is something to do.
    fn wait(&self) -> Result<ReadyEvents, ProcessError> {
        let next = match self.ended {
            Some(_) => self.drained_at,
            None => {
                let times = self.kill_at.or_else(|| self.wakes_at()).into_iter();
                times.chain(self.check_at).chain(self.undone.wakes_at()).min()
            }
        };
        let now = Instant::now();
        let gathered = [&self.output, &self.errors].map(|stream| stream.gathers_until.filter(|at| *at > now));
        let left = gathered.into_iter().flatten().chain(next).min().map(|at| left_until(at, now));
        let input = self.input.as_ref().filter(|_| self.ended.is_none());
        let news = self.ended.is_none().then(|| self.child.news());
        let watched = [
            Some((self.orders.0.wake.as_fd(), PollFlags::IN)),
            input.map(|pipe| (pipe.as_fd(), PollFlags::OUT)),
            self.output.waited_for(now).map(|pipe| (pipe.as_fd(), PollFlags::IN)),
            self.errors.waited_for(now).map(|pipe| (pipe.as_fd(), PollFlags::IN)),
            self.lines.as_ref().map(|(pipe, _)| (pipe.as_fd(), PollFlags::IN)),
            news.map(|news| (news, PollFlags::IN)),
        ];
        let mut polled: Vec<PollFd<'_>> =
            watched.iter().flatten().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        match poll(&mut polled, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => {
                return Err(refused_error(format!("the process was lost: {}", io::Error::from(errno))));
            }
        }
        let mut polled = polled.iter().map(|polled| !polled.revents().is_empty());
        let [orders, input, output, errors, lines, ended] =
            watched.map(|watched| watched.is_some() && polled.next().unwrap_or(false));
        Ok(ReadyEvents { orders, input, output, errors, lines, ended })
    }

    /// Writes as much of the input as the pipe takes. A child that doesn't want it is no error.
    fn feed(&mut self) {
        let Some(pipe) = &self.input else { return };
        match rustix::io::write(pipe, &self.request.stdin[self.fed..]) {
            Ok(written) => self.fed += written,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => self.fed = self.request.stdin.len(),
        }
        if self.fed == self.request.stdin.len() {
            self.input = None;
        }
    }

    fn hear(&mut self, buffer: &mut [u8]) {
        let told = self.request.on_line.as_ref();
        let Some((pipe, mut lines)) = self.lines.take() else { return };
        let mut pipe = Some(pipe);
        read_pipe(&mut pipe, buffer, |bytes| lines.add(bytes, |line| send_output(told, line)));
        match pipe {
            Some(pipe) => self.lines = Some((pipe, lines)),
            None => lines.end(|line| send_output(told, line)),
        }
    }

    fn note_end(&mut self) -> Result<(), ProcessError> {
        let Some(exit) = self.child.ended().map_err(refused_error)? else { return Ok(()) };
        self.ended = Some(exit);
        self.drained_at = Instant::now().checked_add(limits::DRAIN);
        self.input = None;
        // What was not answered is asked about once everything was looked at.
        self.undone = UndoneState::default();
        self.orders.close_undone();
        Ok(())
    }

    /// When its time is over. Questions to the user don't count, neither about it nor about what runs beside
    /// it.
    fn deadline(&self) -> Option<Instant> {
        let asking = requested_timeout(self.request).saturating_sub(self.asked_before);
        self.started.checked_add(self.request.timeout)?.checked_add(asking)?.checked_add(self.undone.held_for)
    }

    /// When to look at the time again. While a question is open the deadline moves, and nothing tells of its
    /// end.
    fn wakes_at(&self) -> Option<Instant> {
        let is_asking = self.request.child_requests.as_ref().is_some_and(ChildRequests::is_asking);
        let stands_still = is_asking || self.undone.is_paused;
        let deadline = self.deadline()?;
        Some(if stands_still { deadline.max(Instant::now() + limits::QUESTION_POLL) } else { deadline })
    }

    fn keep_time(&mut self, now: Instant) {
        if self.ended.is_some() {
            return;
        }
        if self.stop.is_none() && !self.undone.is_paused && self.deadline().is_some_and(|at| now >= at) {
            self.stop(StopReason::TimedOut);
        }
        if self.undone.ask_at.is_some_and(|at| now >= at) {
            self.ask_about_undone();
        } else if self.undone.wakes_at().is_some_and(|at| now >= at) {
            self.note_undone();
        }
        if self.check_at.is_some_and(|at| now >= at) {
            let KeeperCheck { next, stop } = self.keeper.check();
            self.check_at = next.and_then(|pause| Instant::now().checked_add(pause));
            if let Some((reason, refusal)) = stop.filter(|_| !self.killed) {
                self.said.push(refusal);
                self.stop(StopReason::Killed(reason));
                self.kill_at = Some(now);
            }
        }
        if !self.killed && self.kill_at.is_some_and(|at| now >= at) {
            self.ending();
            self.child.signal(Signal::KILL);
            self.killed = true;
            self.kill_at = Some(now + limits::KILL_WAIT);
        }
    }

    /// Tells the whole group to end, and says how long it may take.
    fn stop(&mut self, stop: StopReason) {
        if self.stop >= Some(stop) || self.ended.is_some() {
            return;
        }
        let grace = match stop {
            StopReason::Killed(_) => Duration::ZERO,
            StopReason::TimedOut | StopReason::Cancelled => limits::GRACE,
            StopReason::Abandoned => limits::GRACE_ABANDONED,
        };
        // What does harm is killed at once, and hears nothing before.
        if self.stop.is_none() && !matches!(stop, StopReason::Killed(_)) {
            self.child.signal(Signal::TERM);
            // One that was stopped hears nothing until it goes on.
            self.child.signal(Signal::CONT);
        }
        self.undone = UndoneState::default();
        // Whoever was cancelled after its time was over still ran out of time.
        self.stop = Some(self.stop.filter(|_| stop == StopReason::Cancelled).unwrap_or(stop));
        if !self.killed {
            let by = Instant::now() + grace;
            self.kill_at = Some(self.kill_at.map_or(by, |at| at.min(by)));
        }
    }
}

/// The time that is left, rounded up: waking too early would only mean to wait again.
fn left_until(at: Instant, now: Instant) -> Timespec {
    let left = at.saturating_duration_since(now) + Duration::from_micros(50);
    Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    }
}

/// How long the user was asked about hosts of the call.
fn requested_timeout(request: &ProcessRequest) -> Duration {
    request.child_requests.as_ref().map_or(Duration::ZERO, ChildRequests::time_asking)
}

/// What there is to do.
struct ReadyEvents {
    orders: bool,
    input: bool,
    output: bool,
    errors: bool,
    lines: bool,
    ended: bool,
}

/// Reads what there is, once, and closes a pipe that has ended.
fn read_pipe(pipe: &mut Option<OwnedFd>, buffer: &mut [u8], mut take: impl FnMut(&[u8])) {
    let Some(open) = pipe else { return };
    match rustix::io::read(open, &mut *buffer) {
        Ok(0) => *pipe = None,
        Ok(count) => take(&buffer[..count]),
        Err(Errno::AGAIN | Errno::INTR) => {}
        Err(_) => *pipe = None,
    }
}

/// A listener that panics hears no more of this, and nobody else is harmed.
fn send_output(listener: Option<&OnOutput>, bytes: &[u8]) {
    if let Some(listener) = listener {
        let _ = catch_unwind(AssertUnwindSafe(|| listener(bytes)));
    }
}
