//! How this program becomes a process of the sandbox: its helper, or an isolated tool.

use haft::isolate::Isolated;

use crate::helper::UserNamespace;
use crate::{before_main, helper, isolator, probe};

/// Has to be the first thing that `main` of a program with [isolated](haft::isolated) tools does: their processes are this
/// program again. Every other program needs no such line.
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
    // The reference also keeps the function that runs before `main` in a program that uses nothing else of this crate.
    assert!(before_main::is_entered(), "`.init_array` runs before `main`");
    if std::env::args_os().next().unwrap_or_default() == isolator::NAME {
        isolator::run(tools);
    }
}

/// Becomes the sandbox helper if this program was started as one; `prepare` runs first. Returns at once otherwise.
pub(crate) fn become_helper(prepare: impl FnOnce()) {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let by_bubblewrap = name.as_encoded_bytes() == helper::PASSED.to_bytes();
    let name = if by_bubblewrap { arguments.next().unwrap_or_default() } else { name };
    if name == helper::NAME
        && let Some(walls) = arguments.next()
    {
        prepare();
        let user = if by_bubblewrap { UserNamespace::made_for_us() } else { UserNamespace::ToBeMade };
        if walls == helper::PROBE {
            probe::run(user);
        }
        let ports: Vec<u16> = arguments.filter_map(|port| port.to_str()?.parse().ok()).collect();
        helper::run(&walls.to_string_lossy(), &ports, user);
    }
}
