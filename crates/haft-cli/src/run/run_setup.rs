//! One run, from what was put together for it to how the program ends.

use std::sync::Arc;

use haft_agent::{Model, RunEnd, RunHandle, RunSink};
use haft_session::assembly::SessionParts;
use haft_session::run::prepared::{PreparedRun, RunPlan};
use haft_session::{FrontEnd, SessionEvent, SessionEventKind};
use haft_terminal::ColorMode;
use tokio::runtime::Runtime;

use super::args::RunForm;
use super::run_output::{RunFacts, RunOutput};
use super::{live_screen, prompt};
use crate::interrupt::InterruptHandler;
use crate::{ExitStatus, UsageError, output};

/// The fewest worker threads: one for the calls, one for time limits while a call keeps the first busy.
const WORKERS_MIN: usize = 2;
/// The most: calls wait more than they work.
const WORKERS_MAX: usize = 8;

/// Everything that one run needs.
pub(super) struct RunSetup {
    pub(super) session: SessionParts,
    pub(super) plan: RunPlan,
    /// None for a conversation.
    pub(super) prompt: Option<String>,
    pub(super) form: RunForm,
    /// On a live screen, and how that looks.
    pub(super) look: Option<ColorMode>,
}

impl RunSetup {
    pub(super) fn finish(mut self, interrupts: &InterruptHandler) -> Result<ExitStatus, UsageError> {
        if let Some(look) = self.look {
            match live_screen::open_screen(&self, look) {
                Ok(screen) => return self.on(screen, interrupts),
                Err(error) => output::print_warning(&format!("the terminal can't be drawn on: {error}")),
            }
        }
        let prompt = match self.prompt.take() {
            None if !self.plan.run_journal.awaits_reply() => Some(prompt::read_prompt(None)?),
            prompt => prompt,
        };
        let RunSetup { session, plan, form, .. } = self;
        let handle = RunHandle::new();
        let show = RunOutput::pick(form, session.workspace.cwd(), &handle);
        let facts = RunFacts {
            session: session.id.clone(),
            cwd: session.workspace.cwd().to_owned(),
            provider: plan.provider,
            model: plan.model.name().to_owned(),
            mode: session.permission_mode().to_string(),
            tools: Vec::new(),
        };
        let runtime = run_runtime()?;
        let front_end = Arc::new(PlainFrontEnd(show.sink()));
        let mut run = PreparedRun::new(session, plan, Some(front_end), runtime.handle())?;
        let tools = run.engine.snapshot().offers().iter().map(|offer| offer.name().to_string()).collect();
        show.begin(&RunFacts { tools, ..facts });
        let interrupted = interrupts.clone();
        let (run, outcome) = on_worker(&runtime, async move {
            let outcome = match run.start().await {
                Err(reason) => Err(reason),
                Ok(mut conversation) => {
                    if let Some(prompt) = &prompt {
                        run.run_journal.record_title(prompt);
                    }
                    interrupted.tell_run(Some(handle.clone()));
                    let outcome = run.play(&mut conversation, prompt.as_deref(), &handle).await;
                    run.end(&outcome.ended).await;
                    Ok(outcome)
                }
            };
            (run, outcome)
        });
        interrupts.tell_run(None);
        // A thread that a tool keeps busy is not waited for.
        runtime.shutdown_background();
        run.report();
        match outcome {
            Ok(outcome) => {
                let ended = outcome.ended.clone();
                let shown = show.end(outcome);
                Ok(exit_status(&ended, shown, interrupts))
            }
            Err(reason) => Ok(ended_by_hook(&reason)),
        }
    }
}

/// Lines or JSON on standard output; the terminal of the session answers questions.
struct PlainFrontEnd(Arc<dyn RunSink>);

impl FrontEnd for PlainFrontEnd {
    fn name(&self) -> &str {
        "output"
    }

    fn show(&self, event: &SessionEvent) {
        if let SessionEventKind::Run(event) = &event.kind {
            self.0.send(event.clone());
        }
    }
}

pub(super) fn run_runtime() -> Result<tokio::runtime::Runtime, UsageError> {
    let cores = std::thread::available_parallelism().map_or(WORKERS_MIN, usize::from);
    let workers = cores.clamp(WORKERS_MIN, WORKERS_MAX);
    crate::threads::build_runtime(workers)
}

/// Runs to the end on a thread of the runtime, beside the connections and the calls: from the main thread,
/// each piece of an answer and each result would cost a switch of threads.
fn on_worker<T: Send + 'static>(runtime: &Runtime, work: impl Future<Output = T> + Send + 'static) -> T {
    let ended = runtime.block_on(runtime.spawn(work));
    ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

pub(super) fn ended_by_hook(reason: &str) -> ExitStatus {
    output::print_line(&format!("haft: a hook ended the session: {}", output::one_line(reason)));
    ExitStatus::Failed
}

pub(super) fn exit_status(
    ended: &RunEnd,
    shown: Result<(), ExitStatus>,
    interrupts: &InterruptHandler,
) -> ExitStatus {
    match shown {
        _ if interrupts.any() => ExitStatus::Interrupted,
        Err(exit) => exit,
        Ok(()) => match ended {
            RunEnd::Finished => ExitStatus::Done,
            RunEnd::Interrupted => ExitStatus::Interrupted,
            _ => ExitStatus::Failed,
        },
    }
}
