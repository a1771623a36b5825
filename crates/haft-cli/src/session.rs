//! Sessions of this program: those of `haft-session`, with this program's terminal, messages and telemetry.

use std::sync::{Arc, Mutex};

use haft::decision::Verdict;
use haft::sync::lock;
use haft::{ToolCall, ToolResult};
use haft_session::assembly::{ProcessGuard, SessionAssembler, SessionParts};
use haft_session::{SessionEnvironment, SessionOptions, SessionPurpose};

use crate::args::CommonArgs;
use crate::interrupt::InterruptHandler;
use crate::{UsageError, output, telemetry, terminal, threads};

/// The processes of every session that was opened. None may be left when the program ends.
static PROCESSES: Mutex<Vec<ProcessGuard>> = Mutex::new(Vec::new());

/// Ends the processes of every session. To be called before the program ends.
pub(crate) fn close_sessions() {
    let guards = std::mem::take(&mut *lock(&PROCESSES));
    guards.iter().for_each(ProcessGuard::shut_down);
}

/// Opens a session and prints its warnings.
pub(crate) fn open_session(
    options: &SessionOptions,
    purpose: SessionPurpose,
) -> Result<SessionParts, UsageError> {
    let session = inspect_session(options, purpose)?;
    session.report_warnings();
    Ok(session)
}

/// Opens a session and leaves its warnings to the caller.
pub(crate) fn inspect_session(
    options: &SessionOptions,
    purpose: SessionPurpose,
) -> Result<SessionParts, UsageError> {
    let session = SessionAssembler::load(options, purpose)?.open()?;
    register_guard(session.process_guard.share());
    Ok(session)
}

/// Runs calls as one turn, with a runtime for as long as it takes. Interrupts go to this turn while it runs.
pub(crate) fn run_calls(
    session: &SessionParts,
    calls: Vec<ToolCall>,
    interrupts: &InterruptHandler,
) -> Result<Vec<ToolResult>, UsageError> {
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let runtime = threads::runtime_for_calls(calls.len())?;
    let results = runtime.block_on(session.run_calls(calls, |turn| interrupts.tell(turn)));
    // A thread that a tool keeps busy is not waited for.
    runtime.shutdown_background();
    Ok(results?)
}

/// Ends these processes with the program.
pub(crate) fn register_guard(guard: ProcessGuard) {
    lock(&PROCESSES).push(guard);
}

/// The flags that add these rules, as a shell takes them.
pub(crate) fn rule_flags(list: Verdict, rules: &[String]) -> String {
    let flags: Vec<String> = rules.iter().map(|rule| format!("--{list} {}", shell_quote(rule))).collect();
    flags.join(" ")
}

/// A text as a shell takes it.
fn shell_quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,@%+=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

impl CommonArgs {
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
            environment: SessionEnvironment::default(),
            rule_wording: Some(rule_flags),
            notices: output::notice_sink(),
            asker: Some(Arc::new(terminal::TerminalSource)),
            channels: None,
            telemetry: Some(Arc::new(telemetry::ProgramTelemetry)),
        }
    }
}
