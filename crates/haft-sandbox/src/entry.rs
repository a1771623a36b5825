//! The one line that a program which uses the sandbox begins with.

use crate::{confined, helper};

/// Has to be the first thing that `main` does.
///
/// The sandbox is made by a small process that is this program again. Here it turns into that; in every other case this
/// returns at once and has done nothing. It must come before anything that starts a thread (a runtime, a logger), because
/// the kernel lets only a process with one thread enter a user namespace.
///
/// ```no_run
/// fn main() {
///     haft_sandbox::entry();
///     // … the program
/// }
/// ```
pub fn entry() {
    confined::enter();
    let mut arguments = std::env::args_os();
    if arguments.next().is_some_and(|name| name == helper::NAME)
        && let Some(walls) = arguments.next()
    {
        let ports: Vec<u16> = arguments.filter_map(|port| port.to_str()?.parse().ok()).collect();
        helper::run(&walls.to_string_lossy(), &ports);
    }
}
