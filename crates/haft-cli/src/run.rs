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
use std::time::Duration;

use haft::env::Lookup;
use haft::ports::{Mode as _, PermissionMode};
use haft_journal::Began;
use haft_policy::settings::{RunSettings, Search};
use haft_provider::Deferral;
use haft_provider::run::RunOptions;

use haft_session::agents::kinds::Kinds;
use haft_session::run::kept::Kept;
use haft_session::run::prompt::system;
pub(crate) use haft_session::run::{memory, provider};

use self::args::{RunArgs, RunForm};
use self::play::Play;
use self::tour::Tour;
use crate::args::Common;
use crate::given;
use crate::interrupt::Interrupts;
use crate::kept::{Keeping, Resumed};
use crate::session::{self, SessionOptions, SessionParts, SessionPurpose};
use crate::{Exit, Usage, output};

/// Why nobody was asked.
const NO_KEY: &str = "no key is configured: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or name a server of \
                      yours with --provider and --base-url; `haft run` without a prompt plays a tour";

pub(crate) fn run(args: &RunArgs, common: &Common) -> Result<Exit, Usage> {
    let interrupts =
        Interrupts::listen().map_err(|error| Usage(format!("signals can't be heard: {error}")))?;
    let common = args.rules(common.clone());
    let lookup = |name: &str| std::env::var_os(name);
    let mut resumed = resumed(args, &common, &lookup)?;
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
    let mut session = session::open(&options, SessionPurpose::Run)?;
    if resumed.is_some() && common.permission_mode.is_none() && session.was_planning(&options) {
        session.policy.set(PermissionMode::Plan);
        output::say(
            "the session plans on: nothing is changed until you approve a plan; --permission-mode begins another way",
        );
    }
    let settings = &session.given.loaded.settings.run;
    let search = session.given.loaded.settings.tool_search.as_ref();
    let deferral = search.and_then(|at| at.value.native).map(|native| match native {
        true => Deferral::Native,
        false => Deferral::Fallback,
    });
    let wishes = provider::Wishes { deferral, web_search: searches_by_itself(&session) };
    let chosen =
        provider::choose(&args.model_options(), settings, wishes, &session.id, &lookup, &session.notices)?;
    session.engine = session.engine.window_tokens(chosen.window_tokens);
    let settings = &session.given.loaded.settings.run;
    let look = live::look(args.output, &common, &lookup);
    let prompt = match (look, &args.prompt) {
        // A conversation.
        (Some(_), None) => None,
        // What was cut off needs no new words.
        (None, None) if resumed.as_ref().is_some_and(Resumed::waits) => None,
        (_, given) => Some(prompt::read(given.as_deref())?),
    };
    let memory = memory::read(&session.given, &options);
    let mut run_options = limits(args, settings);
    run_options.system = system(&session.workspace, memory, &args.append_system_prompt);
    run_options.window_tokens = chosen.window_tokens;
    run_options.prices = chosen.prices;
    if run_options.max_cost.is_some() && run_options.prices.is_none() {
        output::warning(&format!(
            "`run.maxCost` limits nothing: your settings have no price for `{}` in `run.prices`",
            output::one_line(chosen.model.name())
        ));
    }
    let kinds = Kinds::load(&session.given, &options);
    kinds.problems.iter().for_each(|words| output::warning(words));
    let (model, provider, others, form) = (chosen.model, chosen.provider, chosen.others, args.output);
    let began = Began {
        provider: provider.to_owned(),
        model: model.name().to_owned(),
        wire: model.wire().name().to_owned(),
        mode: session.policy.current().to_string(),
        command: "run".to_owned(),
        base_url: args.base_url.clone().unwrap_or_default(),
        ..Began::in_folder(session.workspace.cwd())
    };
    let wire = model.wire();
    if let Some(resumed) = &resumed {
        resumed.fits(wire)?;
    }
    let given = &session.given;
    let state = given.places.state_dir.as_deref();
    let mark = resumed.as_ref().map(|resumed| resumed.mark);
    let keeping = Keeping::open(
        state,
        &given.loaded.settings.journal,
        (&session.id, began),
        mark,
        &lookup,
        &session.notices,
    )?;
    if let Some(recorder) = keeping.recorder() {
        session.engine = session.engine.ports(|ports| ports.recorder = Some(recorder));
    }
    if let Some(resumed) = &resumed {
        resumed.recalls(state, &session.calls, &session.engine);
        if keeping.is_not() {
            output::warning("what follows is not kept: `journal.enabled` is false in your settings");
        }
        resumed.show(look.is_some());
    }
    let talked = resumed.as_mut().map(|resumed| resumed.conversation(wire)).transpose()?;
    let talk =
        Kept { keeping, resumed: resumed.zip(talked), not_there: None, notices: session.notices.clone() };
    session.engine = talk.notes(session.engine, &session.tasks, (&session.id, &session.seen));
    Play { session, model, provider, others, kinds, options: run_options, prompt, form, look, kept: talk }
        .finish(&interrupts)
}

/// The session to go on with, if one is asked for.
fn resumed(args: &RunArgs, common: &Common, lookup: Lookup<'_>) -> Result<Option<Resumed>, Usage> {
    if !args.go_on && args.resume.is_none() {
        return Ok(None);
    }
    let places = given::places(common.cwd.as_deref().unwrap_or(Path::new(".")), lookup)?;
    let (state, id) = (places.state_dir.as_deref(), args.resume.as_deref());
    Ok(Some(Resumed::find(state, id, &places.cwd, &output::notices())?))
}

/// Whether the provider is to search the web by itself: settings want it, and no rule denies the tool in whose place it does.
fn searches_by_itself(session: &SessionParts) -> bool {
    if session.given.loaded.settings.web.search() != Some(Search::Provider) {
        return false;
    }
    let denied = session.policy.denies_tool("WebSearch");
    if let Some(because) = &denied {
        output::warning(&format!("the provider does not search the web: {because}"));
    }
    denied.is_none()
}

/// How far a run may go: what flags say, else what settings say.
fn limits(args: &RunArgs, settings: &RunSettings) -> RunOptions {
    let mut options = RunOptions::new();
    options.max_turns = args.max_turns.map(|turns| turns.get() as u64).or_else(|| settings.max_turns());
    options.max_tokens = settings.max_tokens();
    options.max_time = settings.max_seconds().map(Duration::from_secs);
    options.max_cost = settings.max_cost();
    options
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
        session.links.asker = Some(Arc::new(tour::Answers { cwd: session.workspace.cwd().to_owned() }));
    }
    let mut options = RunOptions::new();
    options.max_turns = args.max_turns.map(|turns| turns.get() as u64);
    options.system = system(&session.workspace, None, &[]);
    let model = tour::model();
    let play = Play {
        others: provider::only(&model),
        kinds: Kinds::load(&session.given, &session_options),
        session,
        model,
        provider: "scripted",
        options,
        prompt: Some(tour::PROMPT.to_owned()),
        form: args.output,
        look: live::look(args.output, common, &|name| std::env::var_os(name)),
        kept: Kept::default(),
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
