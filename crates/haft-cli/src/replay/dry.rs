//! `--dry`: each call is found, its input read, and judged. Nothing runs, nobody is asked, no server is started.
//!
//! Tools of servers are judged by their names, as `haft check` does it; what they take is known to the servers alone.

use haft::Engine;
use haft_policy::gate::{CheckedCall, Policy};
use tokio::runtime::Runtime;

use super::recording::{Past, Recording};
use super::report::Row;
use super::verdict::Today;
use crate::args::Common;
use crate::session::{self, SessionParts, SessionPurpose};
use crate::{Usage, turn};

/// The fewest calls for which a second thread is worth its start.
const CALLS_PER_THREAD_MIN: usize = 500;
/// The most threads.
const THREADS_MAX: usize = 8;

pub(super) fn rows(recording: &Recording, common: &Common) -> Result<Vec<Row>, Usage> {
    let judge = Judge::of(&session::open(&common.options(), SessionPurpose::Inspect)?)?;
    let calls = &recording.calls;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (calls.len() / CALLS_PER_THREAD_MIN).clamp(1, cores.min(THREADS_MAX));
    let each = calls.len().div_ceil(threads).max(1);
    let judged = |(part, calls): (usize, &[Past])| -> Vec<Row> {
        let numbered = calls.iter().enumerate();
        numbered.map(|(at, past)| judge.row(part * each + at, past)).collect()
    };
    let judged = &judged;
    // Judging is the same whoever else is judged, so each thread has its part.
    let parts: Vec<Vec<Row>> = std::thread::scope(|scope| {
        let handles: Vec<_> =
            calls.chunks(each).enumerate().map(|part| scope.spawn(move || judged(part))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap_or_default()).collect()
    });
    let rows: Vec<Row> = parts.into_iter().flatten().collect();
    match rows.len() == calls.len() {
        true => Ok(rows),
        false => Err(Usage("judging a call failed; please report this".to_owned())),
    }
}

/// Judges calls as a session would.
pub(super) struct Judge {
    policy: Policy,
    engine: Engine,
    /// Names of the servers that are configured.
    servers: Vec<String>,
    runtime: Runtime,
}

impl Judge {
    pub(super) fn of(session: &SessionParts) -> Result<Judge, Usage> {
        let planned = &session.links.planned.servers;
        let servers = planned.iter().map(|planned| planned.server.name.clone()).collect();
        let (policy, engine) = (session.policy.clone(), session.engine.clone().build());
        Ok(Judge { policy, engine, servers, runtime: turn::one_thread()? })
    }

    /// What today says of one call.
    pub(super) fn row(&self, at: usize, past: &Past) -> Row {
        let Some(input) = &past.input else {
            let why = "its input was never whole";
            return Row::of(at, past, past.name.clone(), "not whole", why.to_owned(), false);
        };
        let servers: Vec<&str> = self.servers.iter().map(String::as_str).collect();
        let call = CheckedCall::new(&past.name, input.clone()).with_servers(&servers);
        let judged = self.runtime.block_on(self.policy.decide(&self.engine, call));
        let (tool, today, why) = Today::of(&self.policy, judged, &past.name);
        Row::of(at, past, tool, today.word(), why, today.contradicts(past))
    }
}
