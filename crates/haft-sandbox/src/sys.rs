//! The system calls that no safe library has: thin, one each, and nothing is decided here.
//!
//! Everything else of the helper goes through rustix. Numbers and structures are the kernel's; they are
//! written out where the C library's headers don't have them.
#![expect(unsafe_code, reason = "system calls that rustix doesn't have")]

use std::ffi::{c_int, c_long, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;
use std::time::{Duration, Instant};

use rustix::io::{Errno, Result};

use crate::limits;

/// The proof that this process has one thread, so that a copy of it is whole.
pub(crate) struct OneThread(());

impl OneThread {
    /// Verifies it. The holder of the proof starts no thread any more.
    ///
    /// A thread that was joined can be listed for a moment: `pthread_join` returns when the kernel has
    /// cleared the thread's id, and the kernel removes the thread from its process after that. So this waits
    /// for a short while.
    ///
    /// # Errors
    /// The list of threads can't be read, or there are others.
    pub(crate) fn verify() -> std::result::Result<OneThread, String> {
        let until = Instant::now() + limits::THREAD_EXIT_WAIT;
        loop {
            let threads = std::fs::read_dir("/proc/self/task")
                .map_err(|error| format!("`/proc/self/task` can't be read: {error}"))?
                .count();
            match threads {
                1 => return Ok(OneThread(())),
                _ if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                _ => return Err(format!("the helper has {threads} threads before it begins")),
            }
        }
    }
}

/// Who one is after [`fork_into`].
pub(crate) enum ForkSide {
    /// The one who called; a descriptor of the other.
    Parent(OwnedFd),
    /// The other.
    Child,
}

/// `clone3` without new memory or stack: what `fork_into` does, in new namespaces (`CLONE_NEW…`).
pub(crate) fn fork_into(_: &OneThread, namespaces: c_int) -> Result<ForkSide> {
    #[repr(C, align(8))]
    struct CloneArguments {
        flags: u64,
        pidfd: u64,
        child_tid: u64,
        parent_tid: u64,
        exit_signal: u64,
        stack: u64,
        stack_size: u64,
        tls: u64,
    }
    let mut pidfd: c_int = -1;
    let arguments = CloneArguments {
        flags: u64::from((namespaces | libc::CLONE_PIDFD) as u32),
        pidfd: ptr::from_mut(&mut pidfd) as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
    };
    // SAFETY: The structure has the kernel's first layout, and its size is passed. Without CLONE_VM the child
    // has a copy of all memory; the process has one thread, so no lock in that copy is held by somebody who
    // isn't there.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArguments>()) };
    let pid = match check_result(pid) {
        // Filters of containers can't see what it is asked for, and say that there is no such call.
        Err(Errno::NOSYS) => {
            let flags = c_long::from(namespaces | libc::CLONE_PIDFD | libc::SIGCHLD);
            let (no_stack, none) = (ptr::null_mut::<c_void>(), ptr::null_mut::<c_void>());
            // SAFETY: The same as above by the older call, which puts the descriptor where its third argument
            // points.
            check_result(unsafe {
                libc::syscall(libc::SYS_clone, flags, no_stack, &raw mut pidfd, none, none)
            })?
        }
        pid => pid?,
    };
    match pid {
        0 => Ok(ForkSide::Child),
        // SAFETY: The kernel has just made this descriptor for us.
        _ => Ok(ForkSide::Parent(unsafe { OwnedFd::from_raw_fd(pidfd) })),
    }
}

/// Leaves namespaces for new ones (`CLONE_NEW…`, nothing else): this thread alone, or the process if it has
/// no other.
pub(crate) fn unshare_namespaces(namespaces: c_int) -> Result<()> {
    // SAFETY: Takes a number. Namespaces hold no memory and no descriptors, so nothing that anybody relies on
    // is parted.
    let done = unsafe { libc::unshare(namespaces) };
    check_result(c_long::from(done)).map(drop)
}

/// Puts a filter on this thread, and on what it starts, for good.
#[cfg(feature = "testing")]
pub(crate) fn filter_this_thread(filter: &[libc::sock_filter]) -> Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: The kernel copies the filter, which outlives the call. It answers calls of this thread with an
    // error at most.
    unsafe {
        check_result(c_long::from(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)))?;
        let mode = libc::SECCOMP_MODE_FILTER;
        check_result(c_long::from(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program, 0, 0)))
            .map(drop)
    }
}

/// Ends this process at once, without what `exit` does at the end of a program.
pub(crate) fn exit_now(code: c_int) -> ! {
    // SAFETY: Takes a number and doesn't return.
    unsafe { libc::_exit(code) }
}

/// A descriptor that whoever started this program left open under a known number.
pub(crate) fn inherited_descriptor(number: c_int) -> Option<OwnedFd> {
    // SAFETY: A question about a number.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return None;
    }
    // SAFETY: It is open, and by agreement with whoever started us nobody else uses this number: the caller
    // asks once, before or at the beginning of `main`.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Collects ended children without being asked (`true`), or only when asked.
pub(crate) fn ignore_children(ignore: bool) {
    let action = if ignore { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: Neither action runs any code of ours.
    unsafe { libc::signal(libc::SIGCHLD, action) };
}

/// Blocks SIGCHLD and gives a descriptor that is readable when a child has ended.
pub(crate) fn ended_children() -> Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set; the others read it. The mask of this thread changes, which
    // is what the descriptor needs. The new descriptor is ours.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut());
        let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        check_result(c_long::from(fd)).map(|_| OwnedFd::from_raw_fd(fd))
    }
}

/// Sends a signal to every process of this process namespace but its first, which has to be who calls this.
pub(crate) fn signal_all(signal: c_int) {
    if rustix::process::getpid().as_raw_nonzero().get() == 1 {
        // SAFETY: Takes numbers. As the first process of a namespace this reaches nobody outside of it.
        unsafe { libc::kill(-1, signal) };
    }
}

/// Sends a signal to one process.
pub(crate) fn signal_one(pid: i32, signal: c_int) {
    if pid > 1 {
        // SAFETY: Takes numbers; more than 1, so it means one process.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Changes a mount, or with `below` it and all below it: adds these `MOUNT_ATTR_…`, and cuts it off from
/// mounts elsewhere.
pub(crate) fn mount_setattr(mount: BorrowedFd<'_>, add: u64, below: bool) -> Result<()> {
    #[repr(C)]
    struct MountAttributes {
        attr_set: u64,
        attr_clr: u64,
        propagation: u64,
        userns_fd: u64,
    }
    let change = MountAttributes { attr_set: add, attr_clr: 0, propagation: libc::MS_PRIVATE, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if below { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: An empty path, so the descriptor itself is meant; the structure has the kernel's layout and its
    // size is given.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const change,
            size_of::<MountAttributes>(),
        )
    };
    check_result(done).map(drop)
}

/// Which version of Landlock the kernel has; none if it has none.
pub(crate) fn landlock_abi() -> Option<u32> {
    const VERSION: u32 = 1;
    // SAFETY: With this flag there is no structure, only a question.
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<u8>(), 0usize, VERSION) };
    u32::try_from(abi).ok().filter(|abi| *abi > 0)
}

/// A new set of Landlock rules. The kernel looks at as many fields as it knows, and refuses others that
/// aren't zero.
pub(crate) fn landlock_ruleset(files: u64, network: u64, scoped: u64) -> Result<OwnedFd> {
    let handled = [files, network, scoped];
    let fields = handled.iter().rposition(|field| *field != 0).map_or(1, |last| last + 1);
    // SAFETY: The structure is three numbers, of which so many are passed as are used.
    let fd = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, handled.as_ptr(), fields * size_of::<u64>(), 0u32)
    };
    // SAFETY: A new descriptor, ours.
    check_result(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

/// Allows this beneath what the descriptor stands for.
pub(crate) fn landlock_allow(ruleset: BorrowedFd<'_>, access: u64, beneath: BorrowedFd<'_>) -> Result<()> {
    const PATH_BENEATH: c_int = 1;
    #[repr(C, packed)]
    struct LandlockPathRule {
        access: u64,
        parent: i32,
    }
    let rule = LandlockPathRule { access, parent: beneath.as_raw_fd() };
    // SAFETY: The structure has the kernel's layout, which is packed.
    let done = unsafe {
        libc::syscall(libc::SYS_landlock_add_rule, ruleset.as_raw_fd(), PATH_BENEATH, &raw const rule, 0u32)
    };
    check_result(done).map(drop)
}

/// A call that a filter handed to us; its caller waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotifiedCall {
    pub(crate) id: u64,
    pub(crate) pid: i32,
    pub(crate) number: c_long,
    pub(crate) arguments: [u64; 6],
}

/// `SECCOMP_IOCTL_NOTIF_RECV` and `_SEND`, which the C library's headers don't have.
const NOTIF_RECV: libc::Ioctl = 0xC050_2100_u32 as libc::Ioctl;
const NOTIF_SEND: libc::Ioctl = 0xC018_2101_u32 as libc::Ioctl;

/// The next call that a filter handed over. Waits for one.
pub(crate) fn receive_notification(listener: BorrowedFd<'_>) -> Result<NotifiedCall> {
    let mut found = MaybeUninit::<libc::seccomp_notif>::zeroed();
    // SAFETY: The kernel wants a structure of zeroes of this size and fills it; all zeroes is a value of it.
    let found = unsafe {
        check_result(c_long::from(libc::ioctl(listener.as_raw_fd(), NOTIF_RECV, found.as_mut_ptr())))?;
        found.assume_init()
    };
    let number = c_long::from(found.data.nr);
    Ok(NotifiedCall { id: found.id, pid: found.pid as i32, number, arguments: found.data.args })
}

/// Lets a call go on as if nobody had looked at it.
pub(crate) fn go_on(listener: BorrowedFd<'_>, id: u64) -> Result<()> {
    let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    let mut answer = libc::seccomp_notif_resp { id, val: 0, error: 0, flags };
    // SAFETY: The kernel reads a structure of this size.
    let done = unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_SEND, &raw mut answer) };
    check_result(c_long::from(done)).map(drop)
}

/// Reads the memory of another process, as far as it goes.
pub(crate) fn read_memory(pid: i32, from: u64, into: &mut [u8]) -> Result<usize> {
    const PAGE: usize = 4096;
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // In two parts: what lies beyond the end of a page may not be there, and then the first part counts.
    let first = (PAGE - from as usize % PAGE).min(into.len());
    let part = |from: u64, iov_len| libc::iovec { iov_base: from as usize as *mut libc::c_void, iov_len };
    let remote = [part(from, first), part(from.wrapping_add(first as u64), into.len() - first)];
    // SAFETY: The kernel writes no more than the local part holds, which is the caller's; addresses of the
    // other process are only numbers to us, and wrong ones are an error.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, remote.as_ptr(), 2, 0) };
    check_result(read as c_long).map(|read| read as usize)
}

fn check_result(returned: c_long) -> Result<c_long> {
    if returned == -1 {
        let error = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        return Err(Errno::from_raw_os_error(error));
    }
    Ok(returned)
}
