//! Turns this process into the sandbox helper before `main` runs, if it was started as the helper; or into
//! the child that runs [isolated](haft::isolate) code, if it was started as that.
//!
//! The helper is this program again, and the kernel lets only a process with one thread enter a user
//! namespace. `#[tokio::main]` and libtest start threads before the first line that a developer writes, so
//! the decision can't be made in `main`. A function in `.init_array` makes it. Its priority puts it before
//! the constructors of other libraries that are linked into the program: they could start threads, and in the
//! helper they never run.
//!
//! The command line comes from `/proc/self/cmdline`, because only glibc passes it to constructors. Every
//! other process pays for this with one `open`, `read` and `close`, and allocates nothing.
#![expect(unsafe_code, reason = "a function in `.init_array`, and the disposition of a signal")]

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use haft::isolate::CHILD_NAME;

use crate::helper::{self, UserNamespace};
use crate::{probe, sys};

static HAS_RUN: AtomicBool = AtomicBool::new(false);

/// Whether this program becomes the helper or the child when it is started as one.
pub(crate) fn has_run() -> bool {
    HAS_RUN.load(Ordering::Relaxed)
}

// SAFETY: the loader calls every function in `.init_array` once, before `main`, with one thread. The C
// calling convention lets it ignore the arguments that some loaders pass. It needs nothing that a later entry
// or `main` sets up: memory comes from an allocator that initialises itself, and the command line from the
// kernel.
#[used]
#[unsafe(link_section = ".init_array.00101")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    HAS_RUN.store(true, Ordering::Relaxed);
    let Some(arguments) = own_arguments() else { return };
    // As the runtime of Rust sets it before `main`: a reader that is gone is an error, not a signal.
    // SAFETY: no other thread runs, and `SIG_IGN` is a valid disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    if arguments.first().is_some_and(|name| name == CHILD_NAME) {
        let arguments = arguments.into_iter().skip(1);
        sys::exit_now(haft::isolate::run_child(
            arguments,
            sys::inherited_descriptor(PROGRESS),
            sys::inherited_descriptor(CONTENT),
        ));
    }
    become_helper(arguments);
}

/// The descriptors of a child with isolated code.
const PROGRESS: i32 = 3;
const CONTENT: i32 = 4;

/// The longest of our names in bytes, with the NUL after it.
const NAME_BYTES_MAX: usize = 32;

/// The command line, if it is that of the helper or of a child with isolated code.
fn own_arguments() -> Option<Vec<OsString>> {
    let mut file = File::open("/proc/self/cmdline").ok()?;
    let mut start = [0; NAME_BYTES_MAX];
    let count = file.read(&mut start).ok()?;
    let name = start[..count].split(|byte| *byte == 0).next()?;
    if ![helper::NAME.as_bytes(), helper::PASSED.to_bytes(), CHILD_NAME.as_bytes()].contains(&name) {
        return None;
    }
    let mut line = start[..count].to_vec();
    file.read_to_end(&mut line).ok()?;
    // Each argument ends with a NUL.
    let line = line.strip_suffix(&[0])?;
    Some(line.split(|byte| *byte == 0).map(|argument| OsString::from_vec(argument.to_vec())).collect())
}

/// Returns only if the arguments are not the helper's.
fn become_helper(arguments: Vec<OsString>) {
    let mut arguments = arguments.into_iter();
    let name = arguments.next().unwrap_or_default();
    let by_bubblewrap = name.as_encoded_bytes() == helper::PASSED.to_bytes();
    let name = if by_bubblewrap { arguments.next().unwrap_or_default() } else { name };
    if name == helper::NAME
        && let Some(walls) = arguments.next()
    {
        let user = if by_bubblewrap { UserNamespace::made_for_us() } else { UserNamespace::ToBeMade };
        if walls == helper::PROBE {
            probe::run_probe(user);
        }
        let ports: Vec<u16> = arguments.filter_map(|port| port.to_str()?.parse().ok()).collect();
        helper::run_helper(&walls.to_string_lossy(), &ports, user);
    }
}
