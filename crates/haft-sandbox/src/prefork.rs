//! A process that is locked in before anybody knows what it is to become.
//!
//! To lock a process in takes longer than to make it: the kernel compiles the filter, and tries it on every
//! call that there is. In a spare sandbox that is done while nobody waits. What is left for later is to take
//! descriptors, to enter a folder and to become the program.
//!
//! It sees what its sandbox sees, also what is added to that later; but to change something there, it would
//! need rules that it can't be given any more. Then it isn't used, and another one is started as if there was
//! none.
//!
//! Like a child of [`start`](crate::start) it borrows our memory until it becomes another program, so that
//! there is nothing to copy and nothing to take down. We don't stand still meanwhile, so the two take turns:
//! it runs until it is locked in, then sleeps until it is told to go on, and we wait until it has left. While
//! it runs it keeps to what a child of `start` may do.
#![expect(unsafe_code, reason = "a process that borrows our memory is made by `clone` alone")]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use rustix::thread::{CapabilitySet, CapabilitySets, futex};

use crate::start::{self, NotifyFilter, ProcessRestraints, STACK_BYTES, StartPlan, StartStep, VforkShared};

/// What the two tell each other.
const LOCKING: u32 = 0;
const LOCKED: u32 = 1;
const GO: u32 = 2;

/// The process, for the one who made it. Dropped, it is killed.
pub(crate) struct PreforkedChild {
    pid: Pid,
    process: OwnedFd,
    memory: Box<SharedMemory>,
    /// What it stands on.
    _stack: Vec<MaybeUninit<u128>>,
    /// What it was locked in by.
    locks: Box<ProcessRestraints>,
    used: bool,
}

/// The number of a program, and where the listener of its filter arrived.
type ChildIdentity = (Pid, Option<OwnedFd>);

/// What both see.
struct SharedMemory {
    /// Whose turn it is.
    turn: AtomicU32,
    /// The kernel makes it 0 when the process has left our memory.
    there: AtomicU32,
    /// What it is to become.
    shared: AtomicPtr<c_void>,
    locks: *const ProcessRestraints,
    /// Landlock's rules, or -1.
    rules: c_int,
    parent: c_int,
}

impl PreforkedChild {
    /// Makes one that is locked in. None if it can't be had.
    ///
    /// The calling process has one thread.
    pub(crate) fn make(locks: &ProcessRestraints, rules: Option<BorrowedFd<'_>>) -> Option<PreforkedChild> {
        if !can_part() {
            return None;
        }
        // Its own, since another process may come in its place.
        let heard = locks.heard.as_ref().map(NotifyFilter::duplicate_filter).transpose().ok()?;
        let locks = ProcessRestraints {
            rlimits: locks.rlimits.clone(),
            rules: None,
            filter: locks.filter.clone(),
            heard,
        };
        let locks = Box::new(locks);
        let memory = Box::new(SharedMemory {
            turn: AtomicU32::new(LOCKING),
            there: AtomicU32::new(1),
            shared: AtomicPtr::new(ptr::null_mut()),
            locks: &raw const *locks,
            rules: rules.map_or(-1, |rules| rules.as_raw_fd()),
            parent: rustix::process::getpid().as_raw_nonzero().get(),
        });
        let mut stack: Vec<MaybeUninit<u128>> = Vec::with_capacity(STACK_BYTES / 16);
        let mut process: c_int = -1;
        let flags = libc::CLONE_VM
            | libc::CLONE_FILES
            | libc::CLONE_PIDFD
            | libc::CLONE_CHILD_CLEARTID
            | libc::SIGCHLD;
        // SAFETY: The stack is ours, aligned, and grows down from its end. It, `memory` and `locks` are kept
        // until the process has left our memory (`Drop` waits for that). `in_process` keeps to what may be
        // done there, and we wait below and in `become_program` while it runs, so that the C library's
        // `errno` is never used by both. The kernel writes the descriptor to `process`, and to `there` when
        // the process has left.
        let pid = unsafe {
            let top = stack.as_mut_ptr().add(stack.capacity()).cast::<c_void>();
            let (memory, there) = (&raw const *memory, memory.there.as_ptr());
            let no_tls = ptr::null_mut::<c_void>();
            libc::clone(
                in_process,
                top,
                flags,
                memory.cast_mut().cast(),
                ptr::from_mut(&mut process),
                no_tls,
                there,
            )
        };
        let pid = if pid > 0 { Pid::from_raw(pid)? } else { return None };
        // SAFETY: `clone` succeeded, so the kernel has just made this descriptor, and nobody else owns it.
        let process = unsafe { OwnedFd::from_raw_fd(process) };
        let ahead = PreforkedChild { pid, process, memory, _stack: stack, locks, used: false };
        ahead.await_turn();
        Some(ahead)
    }

    /// Takes its number back, once it has ended.
    fn reap(&self) {
        let _ = rustix::process::waitid(WaitId::PidFd(self.process.as_fd()), WaitIdOptions::EXITED);
    }

    /// Waits until it is locked in, or gone.
    fn await_turn(&self) {
        let SharedMemory { turn, there, .. } = &*self.memory;
        // One that is killed meanwhile says nothing.
        let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        while turn.load(Ordering::Acquire) == LOCKING && there.load(Ordering::Acquire) != 0 {
            let _ = futex::wait(turn, futex::Flags::empty(), LOCKING, Some(&moment));
        }
    }

    /// Waits until it has left our memory: by becoming a program, or by its end.
    fn await_leaving(&self) {
        let there = &self.memory.there;
        loop {
            match there.load(Ordering::Acquire) {
                0 => return,
                now => drop(futex::wait(there, futex::Flags::empty(), now, None)),
            }
        }
    }

    /// Has it become a program, with descriptors as for [`start`](start::start_child); gives its number, and
    /// where the listener arrived. None if it is gone, or could not be locked in: then nothing has happened.
    ///
    /// # Errors
    /// Which step failed, and why. It is gone then.
    pub(crate) fn become_program(
        mut self,
        plan: &StartPlan,
        descriptors: &[BorrowedFd<'_>],
    ) -> Option<Result<ChildIdentity, (StartStep, Errno)>> {
        let SharedMemory { turn, there, shared: place, .. } = &*self.memory;
        if turn.load(Ordering::Acquire) != LOCKED || there.load(Ordering::Acquire) == 0 {
            return None;
        }
        let (argv, envp) = (start::null_terminated(&plan.argv), start::null_terminated(&plan.envp));
        let descriptors: Vec<c_int> = descriptors.iter().map(|descriptor| descriptor.as_raw_fd()).collect();
        let mut shared = VforkShared::new(plan, &argv, &envp, &descriptors);
        place.store(ptr::from_mut(&mut shared).cast(), Ordering::Relaxed);
        turn.store(GO, Ordering::Release);
        let _ = futex::wake(turn, futex::Flags::empty(), 1);
        self.await_leaving();
        self.used = true;
        Some(match shared.fault() {
            None => Ok((self.pid, self.locks.heard.take().map(|heard| heard.ours))),
            Some(fault) => {
                self.reap();
                Err(fault)
            }
        })
    }
}

impl Drop for PreforkedChild {
    fn drop(&mut self) {
        if !self.used {
            // Its number is its own until it is reaped, so it may be used where the other way is closed.
            if rustix::process::pidfd_send_signal(&self.process, Signal::KILL).is_err() {
                let _ = rustix::process::kill_process(self.pid, Signal::KILL);
            }
            // What it stands on is about to go.
            self.await_leaving();
            self.reap();
        }
    }
}

/// Whether a process that shares our descriptors can get a table of its own later: filters allow nothing else
/// for that.
fn can_part() -> bool {
    // SAFETY: A call on numbers that no descriptor has.
    unsafe { libc::syscall(libc::SYS_close_range, u32::MAX - 1, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) == 0 }
}

/// What the process does: it locks itself in, sleeps, and becomes what it is told to.
extern "C" fn in_process(memory: *mut c_void) -> c_int {
    // SAFETY: `make` passes its `SharedMemory`, which is kept until we have left. Everything called here is a
    // thin wrapper of a system call, safe in memory that is borrowed; our signal table, mask and directory
    // are copies, and our descriptors are from the moment on at which `part` was called. Those who wait for
    // us do nothing else meanwhile.
    unsafe {
        let memory = &*memory.cast::<SharedMemory>();
        // A program can get no more rights than who becomes it has, and the other one has them still.
        let none = CapabilitySet::empty();
        let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
        if rustix::thread::set_capabilities(None, none).is_err()
            || !start::own_session(true, memory.parent)
            || !start::apply_restraints(&*memory.locks, memory.rules)
        {
            libc::_exit(1);
        }
        memory.turn.store(LOCKED, Ordering::Release);
        let _ = futex::wake(&memory.turn, futex::Flags::empty(), 1);
        while memory.turn.load(Ordering::Acquire) != GO {
            let _ = futex::wait(&memory.turn, futex::Flags::empty(), LOCKED, None);
        }
        let shared = memory.shared.load(Ordering::Acquire).cast::<VforkShared<'_>>();
        start::part_and_become(&mut *shared)
    }
}
