//! Becoming another program.
//!
//! The child is made by `clone` with `CLONE_VM | CLONE_VFORK`, as the C library's own `posix_spawn` does it:
//! it borrows our memory until it becomes another program, and the thread that made it stands still
//! meanwhile. So a start costs the same from a small host and from one with gigabytes, where `fork` copies
//! page tables; and what goes wrong in the child is simply written to memory that we read afterwards.
//! `posix_spawn` itself can't be used: it knows no `PDEATHSIG`.
//!
//! The price is that the child runs in our memory. It therefore calls nothing but system calls, allocates
//! nothing, takes no lock, and runs with every signal blocked until no handler of ours is left in it.
#![expect(
    unsafe_code,
    reason = "a new process has to be set up between clone and exec, and no safe API does that"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};

use crate::limits;
use crate::mount_plan::ResourceLimit;

/// What is to be started, ready for the kernel.
pub(crate) struct StartPlan {
    pub(crate) program: CString,
    /// The program itself, where it need not be found at its path any more.
    pub(crate) opened: Option<OwnedFd>,
    pub(crate) argv: Vec<CString>,
    pub(crate) envp: Vec<CString>,
    pub(crate) cwd: CString,
    pub(crate) locks: ProcessRestraints,
    /// The list of tasks of the control group that it enters, open for writing.
    pub(crate) group: Option<OwnedFd>,
    /// Whether it is killed when the thread that started it ends, as it should be unless that would leave
    /// something behind.
    pub(crate) dies_with_us: bool,
}

/// What is taken from the child, and from everything that it starts, for good. In this order.
#[derive(Default)]
pub(crate) struct ProcessRestraints {
    pub(crate) rlimits: Vec<ResourceLimit>,
    /// Landlock's rules.
    pub(crate) rules: Option<OwnedFd>,
    /// The calls that it may not make; empty if it may make all.
    pub(crate) filter: Vec<libc::sock_filter>,
    /// In its place, where the kernel can do that and nobody else does it already: a filter that hands calls
    /// to a listener.
    pub(crate) heard: Option<NotifyFilter>,
}

/// A filter that hands calls to a listener.
pub(crate) struct NotifyFilter {
    filter: Vec<libc::sock_filter>,
    /// Where the child sends the listener's descriptor.
    theirs: OwnedFd,
    /// Where it arrives.
    pub(crate) ours: OwnedFd,
}

impl NotifyFilter {
    pub(crate) fn new(filter: Vec<libc::sock_filter>) -> Result<NotifyFilter, Errno> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let high = |end: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(end, DESCRIPTOR_MIN);
        Ok(NotifyFilter { filter, theirs: high(&pair.0)?, ours: high(&pair.1)? })
    }

    /// The same for another child.
    pub(crate) fn duplicate_filter(&self) -> Result<NotifyFilter, Errno> {
        NotifyFilter::new(self.filter.clone())
    }
}

/// What the child could not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartStep {
    /// Come to be.
    Clone,
    /// Get a session, descriptors and signals of its own.
    SetUp,
    /// Be locked in.
    Lock,
    /// Enter its working directory.
    Enter,
    /// Become the program.
    Exec,
}

/// A child that runs. Dropped, it and its whole group are killed.
pub(crate) struct StartedChild {
    pid: Pid,
    pidfd: OwnedFd,
    reaped: bool,
}

/// What the child reads and where it says what went wrong. Lives on the stack of the thread that waits for
/// it.
pub(crate) struct VforkShared<'a> {
    program: &'a CStr,
    argv: *const *const c_char,
    envp: *const *const c_char,
    cwd: &'a CStr,
    opened: c_int,
    locks: &'a ProcessRestraints,
    /// Landlock's rules, or -1.
    rules: c_int,
    /// The control group, or -1.
    group: c_int,
    /// What becomes descriptor 0, 1, 2 and so on; none of them is one of these itself.
    descriptors: &'a [c_int],
    parent: c_int,
    dies_with_us: bool,
    step: StartStep,
    errno: c_int,
}

impl<'a> VforkShared<'a> {
    /// The lists end with a null pointer, and outlive it.
    pub(crate) fn new(
        plan: &'a StartPlan,
        argv: &'a [*const c_char],
        envp: &'a [*const c_char],
        descriptors: &'a [c_int],
    ) -> VforkShared<'a> {
        VforkShared {
            program: &plan.program,
            argv: argv.as_ptr(),
            envp: envp.as_ptr(),
            cwd: &plan.cwd,
            opened: plan.opened.as_ref().map_or(-1, |opened| opened.as_raw_fd()),
            locks: &plan.locks,
            rules: plan.locks.rules.as_ref().map_or(-1, |rules| rules.as_raw_fd()),
            group: plan.group.as_ref().map_or(-1, |group| group.as_raw_fd()),
            descriptors,
            parent: rustix::process::getpid().as_raw_nonzero().get(),
            dies_with_us: plan.dies_with_us,
            step: StartStep::SetUp,
            errno: 0,
        }
    }

    /// What went wrong, once the child has left our memory.
    pub(crate) fn fault(&self) -> Option<(StartStep, Errno)> {
        // SAFETY: Plain reads of values that are still alive. Volatile, because the compiler can't know that
        // they were written.
        let (step, errno) =
            unsafe { (ptr::read_volatile(&raw const self.step), ptr::read_volatile(&raw const self.errno)) };
        (errno != 0).then(|| (step, Errno::from_raw_os_error(errno)))
    }
}

/// The least number that a descriptor may have to be moved to 0 … 4 without being overwritten on the way.
pub(crate) const DESCRIPTOR_MIN: c_int = 10;

/// The last signal, and the size of a set of them, as the kernel counts.
const SIGNAL_MAX: c_int = 64;
const SIGSET_BYTES: usize = 8;

/// More than the few frames between `clone` and `execve` take.
pub(crate) const STACK_BYTES: usize = 64 * 1024;

/// Blocks every signal on this thread, for good: handlers of the host run on its own threads, never on ours,
/// and a pipe that nobody reads is an error and no signal.
pub(crate) fn block_signals() {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set that it is given; `pthread_sigmask` only reads it, and the
    // null pointer says that the old mask isn't wanted. Only the calling thread's mask changes.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut());
    }
}

/// Starts a child with these descriptors as its 0, 1, 2 and so on, each at least [`DESCRIPTOR_MIN`].
///
/// The calling thread has called [`block_signals`], and lives as long as the child: the child dies with it,
/// if the plan says so.
///
/// # Errors
/// Which step failed, and why. No process is left then.
pub(crate) fn start_child(
    plan: &StartPlan,
    descriptors: &[BorrowedFd<'_>],
) -> Result<StartedChild, (StartStep, Errno)> {
    let (argv, envp) = (null_terminated(&plan.argv), null_terminated(&plan.envp));
    let descriptors: Vec<c_int> = descriptors.iter().map(|descriptor| descriptor.as_raw_fd()).collect();
    debug_assert!(descriptors.iter().all(|descriptor| *descriptor >= DESCRIPTOR_MIN));
    let mut shared = VforkShared::new(plan, &argv, &envp, &descriptors);
    // 16 bytes are the alignment that every supported machine wants of a stack.
    let mut stack: Vec<MaybeUninit<u128>> = Vec::with_capacity(STACK_BYTES / 16);
    let mut pidfd: c_int = -1;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: The stack is ours, aligned, and grows down from its end; it and `shared`, with everything that
    // it points to, outlive the child's use of them, because CLONE_VFORK suspends this thread until the child
    // has become another program or is gone. `in_child` keeps to what may be done there. The kernel writes
    // the descriptor to `pidfd`.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.capacity()).cast::<c_void>();
        libc::clone(in_child, top, flags, ptr::from_mut(&mut shared).cast(), ptr::from_mut(&mut pidfd))
    };
    if pid == -1 {
        return Err((StartStep::Clone, last_error()));
    }
    // SAFETY: `clone` succeeded, so the kernel has just made this descriptor, close-on-exec, and nobody else
    // owns it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let pid = Pid::from_raw(pid).expect("a child has a number");
    let Some(fault) = shared.fault() else { return Ok(StartedChild { pid, pidfd, reaped: false }) };
    // It is gone already; this takes its number back.
    let _ = rustix::process::waitid(WaitId::PidFd(std::os::fd::AsFd::as_fd(&pidfd)), WaitIdOptions::EXITED);
    Err(fault)
}

/// A list as the kernel wants it.
pub(crate) fn null_terminated(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// The same, again and again for a moment if the program is just being written: another thread has forked
/// while the file was open for writing, which passes.
///
/// # Errors
/// As [`start_child`].
pub(crate) fn start_patiently(
    plan: &StartPlan,
    descriptors: &[BorrowedFd<'_>],
) -> Result<StartedChild, (StartStep, Errno)> {
    let mut tries = 0;
    loop {
        match start_child(plan, descriptors) {
            Err((StartStep::Exec, Errno::TXTBSY)) if tries < limits::BUSY_TRIES_MAX => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(10) * tries);
            }
            done => return done,
        }
    }
}

fn last_error() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// What the child does: a session of its own, default signals, its descriptors and no others, its folder, the
/// program.
extern "C" fn in_child(shared: *mut c_void) -> c_int {
    // SAFETY: `start_child` passes its `VforkShared` and stands still while we run, so nobody else uses it.
    // Everything called here is a thin wrapper of a system call, safe between clone and exec; our descriptor
    // table, signal table, mask and directory are copies, so nothing here changes the parent's.
    unsafe {
        let shared = &mut *shared.cast::<VforkShared<'_>>();
        if shared.group != -1 {
            // Only a bound: without it there are others. By itself, because the kernel makes every other
            // process wait until no processor uses the old group any more.
            libc::write(shared.group, c"0".as_ptr().cast(), 1);
        }
        if own_session(shared.dies_with_us, shared.parent)
            && take_descriptors(shared.descriptors, 0)
            && enter_program(shared)
        {
            shared.step = StartStep::Lock;
            if apply_restraints(shared.locks, shared.rules) {
                become_program(shared);
            }
        }
        exit_with_error(shared)
    }
}

/// The same in a process that has a session of its own and is locked in, and whose descriptors are still
/// those of its parent.
///
/// # Safety
/// Only in such a process, while its parent waits.
pub(crate) unsafe fn part_and_become(shared: &mut VforkShared<'_>) -> ! {
    // SAFETY: As in `in_child`; the descriptor table becomes a copy before anything in it changes.
    unsafe {
        if take_descriptors(shared.descriptors, libc::CLOSE_RANGE_UNSHARE) && enter_program(shared) {
            become_program(shared);
        }
        exit_with_error(shared)
    }
}

/// Says what went wrong, and ends.
///
/// # Safety
/// Only in the child, before it becomes another program.
unsafe fn exit_with_error(shared: &mut VforkShared<'_>) -> ! {
    // SAFETY: The parent waits, so nobody else uses this.
    unsafe {
        // Zero would be taken for success.
        ptr::write_volatile(&raw mut shared.errno, (*libc::__errno_location()).max(1));
        libc::_exit(127)
    }
}

/// The working directory, and no signal blocked. Whether that worked; if not, `errno` says why.
///
/// # Safety
/// Only in the child, before it becomes another program.
unsafe fn enter_program(shared: &mut VforkShared<'_>) -> bool {
    shared.step = StartStep::Enter;
    // SAFETY: System calls on texts and sets that live long enough.
    unsafe {
        if libc::chdir(shared.cwd.as_ptr()) == -1 {
            return false;
        }
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
    true
}

/// Default signals, and a session of one's own. Whether everything worked; if not, `errno` says why.
///
/// # Safety
/// Only in the child, before it becomes another program.
pub(crate) unsafe fn own_session(dies_with_us: bool, parent: c_int) -> bool {
    // SAFETY: System calls on plain numbers, and on structures that live here; see `in_child`.
    unsafe {
        // Ignored signals stay ignored in the new program, and Rust ignores SIGPIPE. By the kernel's own
        // call, since the C library keeps some numbers to itself; all zeroes is the default action in the
        // kernel's form of it, and what can't be set (SIGKILL) is refused.
        let default = [0u64; 8];
        for signal in 1..=SIGNAL_MAX {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null_mut::<u64>(),
                SIGSET_BYTES,
            );
        }
        if libc::setsid() == -1 {
            return false;
        }
        if dies_with_us {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) == -1 {
                return false;
            }
            // A parent that ended before the line above would never be noticed.
            if libc::getppid() != parent {
                libc::_exit(127);
            }
        }
        true
    }
}

/// These as 0, 1, 2 and so on, and no others. Whether everything worked; if not, `errno` says why.
///
/// # Safety
/// Only in the child, before it becomes another program.
unsafe fn take_descriptors(descriptors: &[c_int], table: c_uint) -> bool {
    // SAFETY: System calls on plain numbers; see `in_child`.
    unsafe {
        // Before the first one is overwritten: the table may not be ours until then.
        if !close_from(descriptors.len() as c_int, table) {
            return false;
        }
        for (number, descriptor) in (0..).zip(descriptors) {
            // The copy stays open across exec, the original doesn't.
            if libc::dup2(*descriptor, number) == -1 {
                return false;
            }
        }
        true
    }
}

/// Whether everything was taken that is to be taken; if not, `errno` says why.
///
/// # Safety
/// Only in the child, before it becomes another program.
pub(crate) unsafe fn apply_restraints(locks: &ProcessRestraints, rules: c_int) -> bool {
    // SAFETY: System calls on plain numbers, and on structures that the parent keeps; see `in_child`.
    unsafe {
        for limit in &locks.rlimits {
            let bound = libc::rlimit64 { rlim_cur: limit.soft, rlim_max: limit.hard };
            let unwanted = ptr::null_mut::<libc::rlimit64>();
            if libc::syscall(libc::SYS_prlimit64, 0, limit.resource, &raw const bound, unwanted) == -1 {
                return false;
            }
        }
        let filter = &locks.filter;
        if rules == -1 && filter.is_empty() {
            return true;
        }
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 {
            return false;
        }
        if rules != -1 && libc::syscall(libc::SYS_landlock_restrict_self, rules, 0u32) == -1 {
            return false;
        }
        if filter.is_empty() {
            return true;
        }
        if let Some(heard) = &locks.heard
            && hand_over(heard)
        {
            return true;
        }
        // The kernel only reads it; the C library's structure doesn't say so.
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program, 0, 0) == 0
    }
}

/// Puts a filter in place whose listener is at the other end of the socket. Whether there is one then.
///
/// # Safety
/// Only in the child, before it becomes another program. Nothing that the filter hands over may be called
/// from here on.
unsafe fn hand_over(heard: &NotifyFilter) -> bool {
    let program =
        libc::sock_fprog { len: heard.filter.len() as u16, filter: heard.filter.as_ptr().cast_mut() };
    // SAFETY: System calls on structures that live here or that the parent keeps.
    unsafe {
        let install = |flags: libc::c_ulong| {
            let operation = libc::SECCOMP_SET_MODE_FILTER;
            libc::syscall(libc::SYS_seccomp, operation, flags, &raw const program) as c_int
        };
        // Where the kernel can, a call that somebody hears of isn't interrupted by signals that it otherwise
        // would not be.
        let mut listener =
            install(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
        if listener == -1 && *libc::__errno_location() == libc::EINVAL {
            listener = install(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
        }
        if listener == -1 {
            return false;
        }
        let mut byte = 0u8;
        let mut text = libc::iovec { iov_base: ptr::from_mut(&mut byte).cast(), iov_len: 1 };
        let mut beside = [0u64; 4];
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut text;
        message.msg_iovlen = 1;
        message.msg_control = beside.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as _;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
        ptr::write_unaligned(libc::CMSG_DATA(head).cast::<c_int>(), listener);
        if libc::sendmsg(heard.theirs.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) == 1 {
            // It is on its way. Who listens is alone with it: when that one is gone, nobody waits for an
            // answer.
            libc::close(listener);
            return true;
        }
        // With nobody to listen such calls would fail: better none at all.
        libc::_exit(127)
    }
}

/// Returns only if that failed.
///
/// # Safety
/// Only in the child.
unsafe fn become_program(shared: &mut VforkShared<'_>) {
    shared.step = StartStep::Exec;
    // SAFETY: The texts and lists of them end as the kernel expects it, and the parent keeps them.
    unsafe {
        if shared.opened == -1 {
            libc::execve(shared.program.as_ptr(), shared.argv, shared.envp);
        } else {
            let (argv, envp) = (shared.argv, shared.envp);
            libc::syscall(libc::SYS_execveat, shared.opened, c"".as_ptr(), argv, envp, libc::AT_EMPTY_PATH);
        }
    }
}

/// Lets the new program have nothing from this number on, also not what somebody in the host opened without
/// close-on-exec.
///
/// # Safety
/// Only in the child, before it becomes another program.
unsafe fn close_from(first: c_int, table: c_uint) -> bool {
    // SAFETY: System calls on plain numbers; the descriptor table is the child's own copy, or becomes it by
    // the first.
    unsafe {
        let flags = libc::CLOSE_RANGE_CLOEXEC | table;
        if libc::syscall(libc::SYS_close_range, first, c_int::MAX, flags) == 0 {
            return true;
        }
        if table != 0 {
            return false;
        }
        for descriptor in first..limits::DESCRIPTORS_MAX {
            libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
        }
        true
    }
}

impl StartedChild {
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Readable once the child has ended.
    pub(crate) fn pidfd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.pidfd)
    }

    /// Sends a signal to the child's whole group. As long as the child isn't reaped its number, which is the
    /// group's, is nobody else's.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = rustix::process::kill_process_group(self.pid, signal);
    }

    /// How the child ended, if it has. It stays a zombie, so that its group can still be reached.
    pub(crate) fn ended(&self) -> Result<Option<WaitIdStatus>, Errno> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        rustix::process::waitid(WaitId::PidFd(self.pidfd()), options)
    }

    /// Somebody else took the child's number back; whose it is now nobody knows, so nothing is sent to it any
    /// more.
    pub(crate) fn forget_pid(&mut self) {
        self.reaped = true;
    }

    /// Kills what is left of the group, and takes the child's number back.
    pub(crate) fn reap(&mut self) {
        if std::mem::replace(&mut self.reaped, true) {
            return;
        }
        self.signal(Signal::KILL);
        let wait = || rustix::process::waitid(WaitId::PidFd(self.pidfd()), WaitIdOptions::EXITED);
        while matches!(wait(), Err(Errno::INTR)) {}
    }
}

impl Drop for StartedChild {
    fn drop(&mut self) {
        self.reap();
    }
}
