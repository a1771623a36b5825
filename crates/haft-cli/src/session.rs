//! Sessions of this program: those of `haft-session`, with this program's terminal, messages and telemetry.

use std::sync::{Arc, Mutex};

use haft::sync::lock;
pub(crate) use haft_session::assembly::{
    Base, Ground, Joining, Lent, Links, Member, NotUsed, Planned, PlannedServer, Pool, ProcessGuard,
    RESULTS_KEPT, Said, SessionParts, Warnings, report_tasks, skills_of,
};
pub(crate) use haft_session::{Environment, SessionOptions, SessionPurpose};

use crate::args::Common;
use crate::{Usage, output, telemetry, terminal};

/// The processes of every session that was opened. None may be left when the program ends.
static PROCESSES: Mutex<Vec<ProcessGuard>> = Mutex::new(Vec::new());

/// Ends the processes of every session. To be called before the program ends.
pub(crate) fn close() {
    let guards = std::mem::take(&mut *lock(&PROCESSES));
    guards.iter().for_each(ProcessGuard::shut_down);
}

/// Opens a session and prints its warnings.
pub(crate) fn open(options: &SessionOptions, purpose: SessionPurpose) -> Result<SessionParts, Usage> {
    let session = inspect(options, purpose)?;
    session.report_warnings();
    Ok(session)
}

/// Opens a session and leaves its warnings to the caller.
pub(crate) fn inspect(options: &SessionOptions, purpose: SessionPurpose) -> Result<SessionParts, Usage> {
    let session = SessionParts::open(options, purpose)?;
    register(session.process_guard.share());
    Ok(session)
}

/// Ends these processes with the program.
pub(crate) fn register(guard: ProcessGuard) {
    lock(&PROCESSES).push(guard);
}

impl Common {
    /// The options of a session, with this program's terminal, messages and telemetry.
    pub(crate) fn options(&self) -> SessionOptions {
        SessionOptions {
            cwd: self.cwd.clone(),
            add_dir: self.add_dir.clone(),
            tools_dir: self.tools_dir.clone(),
            tools_off: self.tools_off.clone(),
            permission_mode: self.permission_mode,
            allow: self.allow.clone(),
            ask: self.ask.clone(),
            deny: self.deny.clone(),
            settings: self.settings.clone(),
            mcp_config: self.mcp_config.clone(),
            trust_hash: self.trust_hash.clone(),
            schedule: self.schedule.map(Into::into),
            max_concurrency: self.max_concurrency,
            non_interactive: self.non_interactive,
            no_sandbox: self.no_sandbox,
            tools: Vec::new(),
            without_built_in_tools: false,
            resume: None,
            environment: Environment::default(),
            notices: output::notices(),
            asker: Some(Arc::new(terminal::TerminalSource)),
            channels: None,
            telemetry: Some(Arc::new(telemetry::ProgramTelemetry)),
        }
    }
}
