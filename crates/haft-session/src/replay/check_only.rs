//! Decides each recorded call: finds its tool, parses its input, and evaluates the rules. Runs nothing,
//! asks no user, starts no server.
//!
//! Tools of servers are decided by their names, as for a check: only the servers know their inputs.

use haft::Engine;
use haft_policy::gate::{CheckedCall, Policy};

use super::current_decision::CurrentDecision;
use super::recording::{CallRecording, RecordedCall};
use super::{ReplayedCall, open_session};
use crate::assembly::{PlannedServer, SessionParts};
use crate::{SessionError, SessionOptions, SessionPurpose};

/// The minimum number of calls that justify another thread.
const CALLS_PER_THREAD_MIN: usize = 500;
/// The maximum number of threads.
const THREADS_MAX: usize = 8;

/// Decides recorded calls by the current rules.
///
/// # Errors
/// Returns an error if the session can't be opened.
pub fn check_calls(
    recording: &CallRecording,
    options: &SessionOptions,
) -> Result<Vec<ReplayedCall>, SessionError> {
    let session = open_session(options, SessionPurpose::Inspect)?;
    let checker = CallChecker::new(&session);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| SessionError::tools(format!("no runtime can be started: {error}")))?;
    let calls = &recording.calls;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (calls.len() / CALLS_PER_THREAD_MIN).clamp(1, cores.min(THREADS_MAX));
    let part_size = calls.len().div_ceil(threads).max(1);
    let check_part = |(part, calls): (usize, &[RecordedCall])| -> Vec<ReplayedCall> {
        let numbered = calls.iter().enumerate();
        let check = |(at, recorded)| runtime.block_on(checker.check(part * part_size + at, recorded));
        numbered.map(check).collect()
    };
    let check_part = &check_part;
    // No decision depends on another one, so each thread has its part.
    let parts: Vec<Vec<ReplayedCall>> = std::thread::scope(|scope| {
        let parts = calls.chunks(part_size).enumerate();
        let handles: Vec<_> = parts.map(|part| scope.spawn(move || check_part(part))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap_or_default()).collect()
    });
    let checked: Vec<ReplayedCall> = parts.into_iter().flatten().collect();
    if checked.len() == calls.len() {
        Ok(checked)
    } else {
        Err(SessionError::tools("judging a call failed; please report this"))
    }
}

/// Decides calls as a session would.
pub(super) struct CallChecker {
    policy: Policy,
    engine: Engine,
    /// The names of the configured servers.
    servers: Vec<String>,
}

impl CallChecker {
    pub(super) fn new(session: &SessionParts) -> CallChecker {
        let planned = &session.server_starter.planned.servers;
        let servers = planned.iter().map(PlannedServer::name).map(str::to_owned).collect();
        CallChecker { policy: session.policy.clone(), engine: session.engine().clone(), servers }
    }

    /// Returns the current decision on one call.
    pub(super) async fn check(&self, at: usize, recorded: &RecordedCall) -> ReplayedCall {
        let Some(input) = &recorded.input else {
            let why = "its input was never whole";
            return ReplayedCall::new(
                at,
                recorded,
                recorded.name.clone(),
                "not whole",
                why.to_owned(),
                false,
            );
        };
        let servers: Vec<&str> = self.servers.iter().map(String::as_str).collect();
        let call = CheckedCall::new(&recorded.name, input.clone()).with_servers(&servers);
        let decided = self.policy.decide(&self.engine, call).await;
        let (tool, today, why) = CurrentDecision::from_check(&self.policy, decided, &recorded.name);
        ReplayedCall::new(at, recorded, tool, &today.name(), why, today.contradicts(recorded))
    }
}
