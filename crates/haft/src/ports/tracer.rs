//! The port to whoever measures calls across programs.
//!
//! A tracer is told what an event sink is told, and one thing more is asked of it: in which place of a trace
//! a call works, so that servers and child processes which the call uses can go on with it. It is a port and
//! no sink because sub-agents bring sinks of their own, and share their session's tracer.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::{EnforcedRules, ProcessError, ProcessOutcome, ProcessRequest, Processes};
use crate::event::{CallRef, Event};
use crate::future::BoxFuture;

/// Watches calls for somebody who measures them.
///
/// Called from the engine's tasks: no method may block. A panic is caught, and what it was told is lost.
/// Nothing depends on what a tracer does.
pub trait Tracer: Send + Sync + 'static {
    /// Told of everything that happens, as an [`EventSink`](crate::event::EventSink) is, whoever else
    /// watches.
    fn see(&self, event: &Event);

    /// The place in a trace in which this call works; none where the call isn't traced. The same each time it
    /// is asked.
    fn context(&self, call: CallPlace<'_>) -> Option<TraceContext>;

    /// Takes a fact about a call that runs, by its name in the conventions of OpenTelemetry.
    fn note(&self, call: CallPlace<'_>, name: &'static str, value: Value);
}

/// Which call is meant, in the whole program.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct CallPlace<'a> {
    /// The session.
    pub session: &'a str,
    /// The agent within it.
    pub agent: &'a str,
    /// The turn.
    pub turn: u64,
    /// The call.
    pub call: &'a CallRef,
}

impl<'a> CallPlace<'a> {
    /// This call.
    pub fn new(session: &'a str, agent: &'a str, turn: u64, call: &'a CallRef) -> CallPlace<'a> {
        CallPlace { session, agent, turn, call }
    }
}

/// A place in a trace, in the form of the W3C's Trace Context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The header `traceparent`.
    pub traceparent: String,
    /// The header `tracestate`, where there is one.
    pub tracestate: Option<String>,
}

/// The variable that tells a child process its place in a trace.
pub const TRACEPARENT: &str = "TRACEPARENT";
/// What goes with it.
pub const TRACESTATE: &str = "TRACESTATE";

/// The processes of one call: each child is told its place in the trace.
pub(crate) struct TracedProcesses {
    inner: Arc<dyn Processes>,
    context: TraceContext,
}

impl TracedProcesses {
    pub(crate) fn new(inner: Arc<dyn Processes>, context: TraceContext) -> TracedProcesses {
        TracedProcesses { inner, context }
    }
}

impl Processes for TracedProcesses {
    fn confines(&self) -> bool {
        self.inner.confines()
    }

    fn enforced_rules(&self) -> EnforcedRules {
        self.inner.enforced_rules()
    }

    fn run<'a>(&'a self, mut request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>> {
        let mut tell = |name: &str, value: &str| {
            // What the tool itself says stands.
            if !request.env.iter().any(|(known, _)| known.as_os_str() == name) {
                request.env.push((OsString::from(name), OsString::from(value)));
            }
        };
        tell(TRACEPARENT, &self.context.traceparent);
        if let Some(state) = &self.context.tracestate {
            tell(TRACESTATE, state);
        }
        self.inner.run(request)
    }

    fn begin_writes(&self, paths: &[PathBuf]) {
        self.inner.begin_writes(paths);
    }

    fn end_writes(&self, paths: &[PathBuf]) {
        self.inner.end_writes(paths);
    }

    fn check_host<'a>(
        &'a self,
        host: &'a str,
        port: u16,
        grants: &'a [String],
    ) -> BoxFuture<'a, Result<(), String>> {
        self.inner.check_host(host, port, grants)
    }
}
