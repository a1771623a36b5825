//! `haft run`: a model is asked, its calls are run, until it has an answer.
//!
//! The loop is `haft-provider`'s, the engine a session's; here both are put together. [`args`] is what can be
//! said, [`provider`] who is asked, [`prompt`] and [`memory`] what the model is told, [`hooks`] the places
//! where the user's hooks step in, [`run_setup`] a run itself, [`kept`] what is kept of it,
//! [`single_call_agents`] the agents of a single call, [`run_output`] what is seen of it, [`live_screen`]
//! what is seen and typed on a terminal, [`tour`] what is played where there is no model.

pub(crate) mod args;
mod live_screen;
mod prompt;
mod run_output;
mod run_setup;
pub(crate) mod single_call_agents;
mod tour;

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;

use haft::ports::PermissionMode;
use haft_session::loaded_settings::SessionFolders;
use haft_session::run::plan::{ModelSource, RunRequest};
use haft_session::run::prepared::{BackgroundAgents, RunPlan};
pub(crate) use haft_session::run::provider;
use haft_session::{SessionEnvironment, SessionOptions, SessionPurpose};

use self::args::{RunArgs, RunForm};
use self::run_setup::RunSetup;
use self::tour::TourWorkspace;
use crate::args::CommonArgs;
use crate::interrupt::InterruptHandler;
use crate::sessions::ResumedSession;
use crate::{ExitStatus, UsageError, output, session};

/// Why nobody was asked.
const NO_KEY: &str = "no key is configured: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or name a server of \
                      yours with --provider and --base-url; `haft run` without a prompt plays a tour";

pub(crate) fn run(args: &RunArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let interrupts =
        InterruptHandler::listen().map_err(|error| UsageError(format!("signals can't be heard: {error}")))?;
    let common = args.rules(common.clone());
    let lookup = |name: &str| std::env::var_os(name);
    let resumed = resumed_session(args, &common)?;
    let mut options = common.options();
    let args = &match &resumed {
        Some(resumed) => args.like(&resumed.recovered.last)?,
        None => args.clone(),
    };
    if !provider::is_configured(&args.model_options(), &options, &lookup)? {
        if args.prompt.is_some() && !tour_may_answer(args) {
            return Err(UsageError(NO_KEY.to_owned()));
        }
        return run_tour(args, &common, &interrupts);
    }
    options.resume = resumed.as_ref().map(|resumed| resumed.id.clone());
    let session = session::open_session(&options, SessionPurpose::Run)?;
    if resumed.is_some() && common.permission_mode.is_none() && session.was_planning(&options) {
        session.set_permission_mode(PermissionMode::Plan);
        output::print_line(
            "the session plans on: nothing is changed until you approve a plan; --permission-mode begins another way",
        );
    }
    let look = live_screen::screen_colors(args.output, &common, &lookup);
    let waits = resumed.as_ref().is_some_and(ResumedSession::awaits_reply);
    let background = match (look, &args.prompt) {
        // In a conversation the user has the word while agents work.
        (Some(_), None) => BackgroundAgents::Reported,
        _ => BackgroundAgents::Awaited,
    };
    let journal = session.journal(&options, resumed.as_ref());
    let request = RunRequest {
        model: ModelSource::Configured(args.model_options()),
        resumed,
        journal,
        max_turns: args.max_turns.map(|turns| turns.get() as u64),
        append_system_prompt: args.append_system_prompt.clone(),
        background,
    };
    let plan = RunPlan::new(&session, &options, request)?;
    let prompt = match (look, &args.prompt) {
        // A conversation.
        (Some(_), None) => None,
        // What was cut off needs no new words.
        (None, None) if waits => None,
        (_, given) => Some(prompt::read_prompt(given.as_deref())?),
    };
    if let Some((resumed, _)) = &plan.run_journal.resumed {
        resumed.show(look.is_some());
    }
    RunSetup { session, plan, prompt, form: args.output, look }.finish(&interrupts)
}

/// The session to go on with, if one is asked for.
fn resumed_session(args: &RunArgs, common: &CommonArgs) -> Result<Option<ResumedSession>, UsageError> {
    if !args.go_on && args.resume.is_none() {
        return Ok(None);
    }
    let cwd = common.cwd.as_deref().unwrap_or(Path::new("."));
    let folders = SessionFolders::find(cwd, &SessionEnvironment::default())?;
    let (state, id) = (folders.state.as_deref(), args.resume.as_deref());
    Ok(Some(ResumedSession::find(state, id, &folders.workspace, &output::notice_sink())?))
}

/// Whether the tour may be played though something was asked: a person sees it and reads that it is no
/// answer. A program would take it for one, and who names a model wants that model.
fn tour_may_answer(args: &RunArgs) -> bool {
    args.model.is_none() && args.output == RunForm::Text && std::io::stdout().is_terminal()
}

fn run_tour(
    args: &RunArgs,
    common: &CommonArgs,
    interrupts: &InterruptHandler,
) -> Result<ExitStatus, UsageError> {
    let tour = TourWorkspace::set_up()?;
    tour::print_introduction(args.prompt.is_some());
    let environment = tour.environment();
    let session_options = SessionOptions { environment, ..tour.common(common).options() };
    let mut session = session::open_session(&session_options, SessionPurpose::Run)?;
    if !session.confined {
        tour::print_unconfined(common.no_sandbox);
    }
    let asked = std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && !common.non_interactive;
    if !asked {
        session.server_starter.asker =
            Some(Arc::new(tour::TourAnswers { cwd: session.workspace.cwd().to_owned() }));
    }
    let max_turns = args.max_turns.map(|turns| turns.get() as u64);
    let plan =
        RunPlan::without_journal(&session, &session_options, "scripted", tour::tour_model(), max_turns);
    let play = RunSetup {
        session,
        plan,
        prompt: Some(tour::PROMPT.to_owned()),
        form: args.output,
        look: live_screen::screen_colors(args.output, common, &|name| std::env::var_os(name)),
    };
    let exit = play.finish(interrupts)?;
    // Before its folder is removed, nothing may run in it.
    session::close_sessions();
    if args.output == RunForm::Text && exit == ExitStatus::Done {
        output::print_line(
            "that was the tour. With a key, or with `--base-url` of a server of yours, `haft run \"…\"` asks a model: docs/run.md",
        );
    }
    Ok(exit)
}

/// Removes what a run would leave behind that is ended in the middle.
pub(crate) fn remove_leftovers() {
    tour::remove_tour();
}
