//! The one line that a program which uses the sandbox begins with.

use haft::isolate::Isolated;

use crate::helper::UserNamespace;
use crate::{confined, helper, isolator, probe};

/// Has to be the first thing that `main` does.
///
/// The sandbox is made by a small process that is this program again. Here it turns into that; in every other case this
/// returns at once and has done nothing. It must come before anything that starts a thread (a runtime, a logger), because
/// the kernel lets only a process with one thread enter a user namespace.
///
/// ```no_run
/// // The first line of `main`:
/// haft_sandbox::entry();
/// // … the program
/// ```
pub fn entry() {
    entry_with(Vec::new);
}

/// The same for a program with [isolated](haft::isolated) tools: their processes are this program again too.
///
/// ```no_run
/// use haft::isolate::Isolated;
///
/// fn tools() -> Vec<Isolated> {
///     Vec::new() // haft::isolated(|| MyTool), …
/// }
///
/// // The first line of `main`:
/// haft_sandbox::entry_with(tools);
/// // … the program, which registers `tools()` and sets the port `isolator`
/// ```
pub fn entry_with(tools: fn() -> Vec<Isolated>) {
    confined::enter();
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    if name == isolator::NAME {
        isolator::run(tools);
    }
    let by_bubblewrap = name.as_encoded_bytes() == helper::PASSED.to_bytes();
    let name = if by_bubblewrap { arguments.next().unwrap_or_default() } else { name };
    if name == helper::NAME
        && let Some(walls) = arguments.next()
    {
        let user = if by_bubblewrap { UserNamespace::made_for_us() } else { UserNamespace::ToBeMade };
        if walls == helper::PROBE {
            probe::run(user);
        }
        let ports: Vec<u16> = arguments.filter_map(|port| port.to_str()?.parse().ok()).collect();
        helper::run(&walls.to_string_lossy(), &ports, user);
    }
}
