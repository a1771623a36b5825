//! `haft run`: a model is asked, its calls are run, until it has an answer.
//!
//! The loop is `haft-provider`'s, the engine a session's; here both are put together. [`args`] is what can be said,
//! [`provider`] who is asked, [`prompt`] and [`memory`] what the model is told, [`hooks`] the places where the user's hooks
//! step in, [`play`] a run itself, [`kept`] what is kept of it, [`once`] the agents of a single call, [`show`] what is seen
//! of it, [`live`] what is seen and typed on a terminal, [`tour`] what is played where there is no model.

pub(crate) mod args;
mod live;
pub(crate) mod once;
mod play;
mod prompt;
mod show;
mod tour;

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;

use haft::ports::PermissionMode;
use haft_session::loaded_settings::SessionFolders;
use haft_session::run::plan::{ModelSource, RunRequest};
use haft_session::run::prepared::{BackgroundAgents, RunPlan};
pub(crate) use haft_session::run::provider;
use haft_session::{Environment, SessionOptions, SessionPurpose};

use self::args::{RunArgs, RunForm};
use self::play::Play;
use self::tour::Tour;
use crate::args::Common;
use crate::interrupt::Interrupts;
use crate::kept::ResumedSession;
use crate::{Exit, Usage, output, session};

/// Why nobody was asked.
const NO_KEY: &str = "no key is configured: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or name a server of \
                      yours with --provider and --base-url; `haft run` without a prompt plays a tour";

pub(crate) fn run(args: &RunArgs, common: &Common) -> Result<Exit, Usage> {
    let interrupts =
        Interrupts::listen().map_err(|error| Usage(format!("signals can't be heard: {error}")))?;
    let common = args.rules(common.clone());
    let lookup = |name: &str| std::env::var_os(name);
    let resumed = resumed(args, &common)?;
    let mut options = common.options();
    let args = &match &resumed {
        Some(resumed) => args.like(&resumed.recovered.last)?,
        None => args.clone(),
    };
    if !provider::is_configured(&args.model_options(), &options, &lookup)? {
        if args.prompt.is_some() && !tour_may_answer(args) {
            return Err(Usage(NO_KEY.to_owned()));
        }
        return tour(args, &common, &interrupts);
    }
    options.resume = resumed.as_ref().map(|resumed| resumed.id.clone());
    let session = session::open(&options, SessionPurpose::Run)?;
    if resumed.is_some() && common.permission_mode.is_none() && session.was_planning(&options) {
        session.set_permission_mode(PermissionMode::Plan);
        output::say(
            "the session plans on: nothing is changed until you approve a plan; --permission-mode begins another way",
        );
    }
    let look = live::look(args.output, &common, &lookup);
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
        (_, given) => Some(prompt::read(given.as_deref())?),
    };
    if let Some((resumed, _)) = &plan.run_journal.resumed {
        resumed.show(look.is_some());
    }
    Play { session, plan, prompt, form: args.output, look }.finish(&interrupts)
}

/// The session to go on with, if one is asked for.
fn resumed(args: &RunArgs, common: &Common) -> Result<Option<ResumedSession>, Usage> {
    if !args.go_on && args.resume.is_none() {
        return Ok(None);
    }
    let cwd = common.cwd.as_deref().unwrap_or(Path::new("."));
    let folders = SessionFolders::find(cwd, &Environment::default())?;
    let (state, id) = (folders.state.as_deref(), args.resume.as_deref());
    Ok(Some(ResumedSession::find(state, id, &folders.workspace, &output::notices())?))
}

/// Whether the tour may be played though something was asked: a person sees it and reads that it is no answer. A program
/// would take it for one, and who names a model wants that model.
fn tour_may_answer(args: &RunArgs) -> bool {
    args.model.is_none() && args.output == RunForm::Text && std::io::stdout().is_terminal()
}

fn tour(args: &RunArgs, common: &Common, interrupts: &Interrupts) -> Result<Exit, Usage> {
    let tour = Tour::set_up()?;
    tour::introduce(args.prompt.is_some());
    let environment = tour.environment();
    let session_options = SessionOptions { environment, ..tour.common(common).options() };
    let mut session = session::open(&session_options, SessionPurpose::Run)?;
    if !session.confined {
        tour::unconfined(common.no_sandbox);
    }
    let asked = std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && !common.non_interactive;
    if !asked {
        session.server_starter.asker =
            Some(Arc::new(tour::Answers { cwd: session.workspace.cwd().to_owned() }));
    }
    let max_turns = args.max_turns.map(|turns| turns.get() as u64);
    let plan = RunPlan::without_journal(&session, &session_options, "scripted", tour::model(), max_turns);
    let play = Play {
        session,
        plan,
        prompt: Some(tour::PROMPT.to_owned()),
        form: args.output,
        look: live::look(args.output, common, &|name| std::env::var_os(name)),
    };
    let exit = play.finish(interrupts)?;
    // Before its folder is removed, nothing may run in it.
    session::close();
    if args.output == RunForm::Text && exit == Exit::Done {
        output::say(
            "that was the tour. With a key, or with `--base-url` of a server of yours, `haft run \"…\"` asks a model: docs/run.md",
        );
    }
    Ok(exit)
}

/// Removes what a run would leave behind that is ended in the middle.
pub(crate) fn clean() {
    tour::clean();
}
