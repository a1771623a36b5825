//! What is still there of a child that was killed with everything: what the kernel holds, which no signal
//! ends.
//!
//! Whether there is anything is one question to the kernel; who it is, which is a look through `/proc`, is
//! asked only where there is. A process that has ended and waits to be collected by somebody else is not
//! there any more.

use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::bare;

/// How long is waited between two looks, at most.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// Somebody who was seen, told from whoever has the same number later by the time of the beginning.
pub(crate) struct ProcessId {
    pid: u32,
    began: u64,
}

impl ProcessId {
    fn seen(pid: u32) -> Option<ProcessId> {
        let ProcessStat { ended, began, .. } = ProcessStat::read_stat(pid)?;
        (!ended).then_some(ProcessId { pid, began })
    }

    /// Its number, if it is still there.
    pub(crate) fn is_there(&self) -> Option<u32> {
        ProcessId::seen(self.pid).filter(|now| now.began == self.began).map(|now| now.pid)
    }
}

/// Looks until nobody is there, at most for this long, and says who is.
pub(crate) fn wait_for_end(at_most: Duration, there: impl Fn() -> Vec<u32>) -> Vec<u32> {
    let until = Instant::now() + at_most;
    let mut pause = Duration::from_micros(100);
    loop {
        let found = there();
        if found.is_empty() || Instant::now() >= until {
            return found;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LOOK_PERIOD);
    }
}

/// Who is there of a group of processes.
pub(crate) fn of_group(group: Pid) -> Vec<u32> {
    if rustix::process::test_kill_process_group(group) == Err(rustix::io::Errno::SRCH) {
        return Vec::new();
    }
    let number = i64::from(group.as_raw_nonzero().get());
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| ProcessStat::read_stat(*pid).is_some_and(|stat| !stat.ended && stat.group == number))
        .collect()
}

/// Who is there below the process of this descriptor; it itself, if it is and nobody else.
pub(crate) fn processes_below(first: BorrowedFd<'_>) -> Vec<ProcessId> {
    let about = format!("/proc/self/fdinfo/{}", first.as_raw_fd());
    let text = std::fs::read_to_string(about).unwrap_or_default();
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse::<i32>().ok());
    // It has ended, or is none of those that are seen from here.
    let Some(pid) = pid.filter(|pid| *pid > 0) else { return Vec::new() };
    let mut found = bare::descendants_of(pid);
    if found.is_empty() {
        found.push(pid);
    }
    found.into_iter().filter_map(|pid| ProcessId::seen(u32::try_from(pid).ok()?)).collect()
}

struct ProcessStat {
    ended: bool,
    group: i64,
    began: u64,
}

impl ProcessStat {
    fn read_stat(pid: u32) -> Option<ProcessStat> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // A name may hold anything, brackets and blanks too.
        let mut words = text[text.rfind(')')? + 1..].split_ascii_whitespace();
        let ended = matches!(words.next()?, "Z" | "X" | "x");
        let group = words.nth(1)?.parse().ok()?;
        let began = words.nth(16)?.parse().ok()?;
        Some(ProcessStat { ended, group, began })
    }
}
