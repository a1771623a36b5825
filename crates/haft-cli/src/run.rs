//! `haft run`: a model is asked, its calls are run, until it has an answer.
//!
//! The loop is `haft-provider`'s, the engine a session's; here both are put together. [`args`] is what can be said,
//! [`provider`] who is asked, [`prompt`] and [`memory`] what the model is told, [`hooks`] the places where the user's hooks
//! step in, [`show`] what is seen of it, [`live`] what is seen and typed on a terminal, [`tour`] what is played where there
//! is no model.

pub(crate) mod args;
mod hooks;
mod live;
pub(crate) mod memory;
mod planned;
mod prompt;
pub(crate) mod provider;
pub(crate) mod proxy;
mod show;
mod tour;

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use haft::Engine;
use haft::env::Lookup;
use haft::ports::{Asker, Mode as _};
use haft_journal::Began;
use haft_policy::hooks::Hooks;
use haft_policy::settings::{RunSettings, Search};
use haft_provider::run::{Account, Ended, Handle, Loop, Outcome, RunOptions, ToolEvents};
use haft_provider::{Conversation, Deferral, Model};
use haft_terminal::Look;
use tokio::runtime::Runtime;

use self::args::{RunArgs, RunForm};
use self::hooks::{Fired, Notifying};
use self::planned::Planned;
pub(crate) use self::prompt::surroundings;
use self::provider::Others;
use self::show::{Facts, Show};
use self::tour::Tour;
use crate::agents::kinds::Kinds;
use crate::agents::{Agents, Setup};
use crate::args::Common;
use crate::given;
use crate::interrupt::Interrupts;
use crate::kept::{Journaled, Keeping, Resumed};
use crate::mcp::sample::ModelSampler;
use crate::session::{self, Lent, Links, Pool, Session};
use crate::{Exit, Usage, output};

/// The fewest worker threads: one for the calls, one for time limits while a call keeps the first busy.
const WORKERS_MIN: usize = 2;
/// The most: calls wait more than they work.
const WORKERS_MAX: usize = 8;

/// Why nobody was asked.
const NO_KEY: &str = "no key is configured: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or name a server of \
                      yours with --provider and --base-url; `haft run` without a prompt plays a tour";

pub(crate) fn run(args: &RunArgs, common: &Common) -> Result<Exit, Usage> {
    let interrupts =
        Interrupts::listen().map_err(|error| Usage(format!("signals can't be heard: {error}")))?;
    let common = args.rules(common.clone());
    let lookup = |name: &str| std::env::var_os(name);
    let resumed = resumed(args, &common, &lookup)?;
    let args = &match &resumed {
        Some(resumed) => args.like(&resumed.recovered.last)?,
        None => args.clone(),
    };
    if !provider::is_configured(args, &common, &lookup)? {
        if args.prompt.is_some() && !tour_may_answer(args) {
            return Err(Usage(NO_KEY.to_owned()));
        }
        return tour(args, &common, &interrupts);
    }
    let mut session = match &resumed {
        Some(resumed) => session::open_again(&common, &resumed.id)?,
        None => session::open(&common)?,
    };
    let settings = &session.given.loaded.settings.run;
    let search = session.given.loaded.settings.tool_search.as_ref();
    let deferral = search.and_then(|at| at.value.native).map(|native| match native {
        true => Deferral::Native,
        false => Deferral::Fallback,
    });
    let wishes = provider::Wishes { deferral, web_search: searches_by_itself(&session) };
    let chosen = provider::choose(args, settings, wishes, &session.id, &lookup)?;
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
    let memory = memory::read(&session.given, &common);
    let mut options = limits(args, settings);
    options.system = prompt::system(&session.workspace, memory, &args.append_system_prompt);
    options.window_tokens = chosen.window_tokens;
    options.prices = chosen.prices;
    if options.max_cost.is_some() && options.prices.is_none() {
        output::warning(&format!(
            "`run.maxCost` limits nothing: your settings have no price for `{}` in `run.prices`",
            output::one_line(chosen.model.name())
        ));
    }
    let kinds = Kinds::load(&session.given, &common);
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
    let talked = resumed.as_ref().map(|resumed| resumed.conversation(model.wire())).transpose()?;
    let given = &session.given;
    let state = given.places.state_dir.as_deref();
    let expected = resumed.as_ref().map(|resumed| resumed.next);
    let keeping =
        Keeping::open(state, &given.loaded.settings.journal, (&session.id, began), expected, &lookup)?;
    if let Some(recorder) = keeping.recorder() {
        session.engine = session.engine.ports(|ports| ports.recorder = Some(recorder));
    }
    let talk = Kept { keeping, resumed: resumed.zip(talked) };
    Play { session, model, provider, others, kinds, options, prompt, form, look, kept: talk }
        .finish(&interrupts)
}

/// The session to go on with, if one is asked for.
fn resumed(args: &RunArgs, common: &Common, lookup: Lookup<'_>) -> Result<Option<Resumed>, Usage> {
    if !args.go_on && args.resume.is_none() {
        return Ok(None);
    }
    let places = given::places(common.cwd.as_deref().unwrap_or(Path::new(".")), lookup)?;
    Resumed::find(places.state_dir.as_deref(), args.resume.as_deref(), &places.cwd).map(Some)
}

/// Whether the provider is to search the web by itself: settings want it, and no rule denies the tool in whose place it does.
fn searches_by_itself(session: &Session) -> bool {
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
    let mut session = session::open_with(&tour.common(common), &|name| tour.variable(name))?;
    if !session.confined {
        tour::unconfined(common.no_sandbox);
    }
    let asked = std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && !common.non_interactive;
    if !asked {
        session.links.asker = Some(Arc::new(tour::Answers { cwd: session.workspace.cwd().to_owned() }));
    }
    let mut options = RunOptions::new();
    options.max_turns = args.max_turns.map(|turns| turns.get() as u64);
    options.system = prompt::system(&session.workspace, None, &[]);
    let model = tour::model();
    let play = Play {
        others: provider::only(&model),
        kinds: Kinds::load(&session.given, common),
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

/// Everything that one run needs.
struct Play {
    session: Session,
    model: Arc<dyn Model>,
    provider: &'static str,
    /// Other models, for agents that ask another one.
    others: Others,
    kinds: Kinds,
    options: RunOptions,
    /// None for a conversation.
    prompt: Option<String>,
    form: RunForm,
    /// On a live screen, and how that looks.
    look: Option<Look>,
    kept: Kept,
}

/// What is kept of a run, and what it goes on from.
#[derive(Default)]
struct Kept {
    keeping: Journaled,
    resumed: Option<(Resumed, Conversation)>,
}

impl Kept {
    /// The conversation to begin with; what hooks said first is in a new one.
    fn conversation(&self, model: &dyn Model, first: Option<&str>) -> Conversation {
        let mut conversation = match &self.resumed {
            Some((_, talked)) => talked.clone(),
            None => Conversation::new(model.wire()),
        };
        if let Some(first) = first {
            conversation.say(first);
            if let Some(keeping) = self.keeping.keeping() {
                keeping.begins(&conversation);
            }
        }
        conversation
    }

    /// What a session that goes on says first; a new one is named after it.
    fn said(&self, words: &str) {
        if let (Some(keeping), None) = (self.keeping.keeping(), &self.resumed) {
            keeping.title(words);
        }
    }

    /// A loop that keeps what is said.
    fn keeps(&self, agent: Loop) -> Loop {
        match self.keeping.keeping() {
            Some(keeping) => agent.keeper(keeping.clone()),
            None => agent,
        }
    }

    /// Whether there is something to go on with before anybody says a word.
    fn waits(&self) -> bool {
        self.resumed.as_ref().is_some_and(|(resumed, _)| resumed.waits())
    }

    /// Says something to the model, after what was cut off the last time, if something was.
    async fn play(
        &mut self,
        agent: &Loop,
        handle: &Handle,
        conversation: &mut Conversation,
        words: Option<&str>,
    ) -> Outcome {
        let resumed = self.resumed.take().map(|(resumed, _)| resumed);
        if let Some(told) = resumed.as_ref().and_then(Resumed::told) {
            // A run that has not begun takes it.
            let _ = handle.post(told);
        }
        let cut_off = resumed.as_ref().and_then(|resumed| resumed.cut_off(conversation.wire()));
        let Some(cut_off) = cut_off else {
            return match words {
                Some(words) => agent.run(conversation, words).await,
                None => agent.resume(conversation).await,
            };
        };
        // They go in behind the results.
        if let Some(words) = words {
            let _ = handle.post(words);
        }
        match agent.take_up(conversation, cut_off).await {
            Ok(outcome) => outcome,
            Err(error) => {
                output::warning(&format!("the last message can't be read and is left out: {error}"));
                agent.resume(conversation).await
            }
        }
    }

    /// The conversation begins again.
    fn begins(&self, conversation: &Conversation) {
        if let Some(keeping) = self.keeping.keeping() {
            keeping.begins(conversation);
        }
    }

    fn ended(&self, why: &Ended) {
        if let Some(keeping) = self.keeping.keeping() {
            keeping.ended(why.word());
        }
    }
}

impl Play {
    fn finish(mut self, interrupts: &Interrupts) -> Result<Exit, Usage> {
        if let Some(look) = self.look {
            match live::open(&self, look) {
                Ok(screen) => return self.on(screen, interrupts),
                Err(error) => output::warning(&format!("the terminal can't be drawn on: {error}")),
            }
        }
        let prompt = match self.prompt.take() {
            None if !self.kept.waits() => Some(prompt::read(None)?),
            prompt => prompt,
        };
        let Play { session, model, provider, others, kinds, options, form, mut kept, .. } = self;
        let Session { engine, policy, hooks, tasks, crons, workspace, id, links, .. } = session;
        let planned = Arc::new(Planned::begin(crons));
        let agents = Agents::new(kinds);
        let handle = Handle::new();
        let show = Show::pick(form, workspace.cwd(), &handle);
        let asker = notifying(links.asker.clone(), &hooks);
        let engine = engine.events(ToolEvents::new(show.sink()));
        let engine = engine.ports(|ports| {
            ports.asker = asker.clone().or(ports.asker.take());
            ports.sub_agents = Some(agents.clone());
        });
        agents.open(Setup {
            engine: engine.clone(),
            policy: policy.clone(),
            model: model.clone(),
            others,
            options: options.clone(),
            sink: show.sink(),
            hooks: hooks.clone(),
            asker: asker.clone(),
            cwd: workspace.cwd().to_owned(),
        });
        // What can't be removed is tried again next time. Where nothing was ever kept, this is one look at the disk.
        let _ = engine.clean_results(session::RESULTS_KEPT);
        show.begin(&Facts {
            session: &id,
            cwd: workspace.cwd(),
            provider,
            model: model.name(),
            mode: policy.current().to_string(),
            tools: engine.snapshot().offers().iter().map(|offer| offer.name().to_string()).collect(),
        });
        let runtime = runtime()?;
        let pool = pool(&runtime, &links, &engine, &model, asker)?;
        let fired = Fired::new(hooks.clone(), pool).waiting_for(&tasks).ending_grants_of(&policy);
        let (fired, due) = (Arc::new(fired), planned.clone());
        let (sink, told, working) = (show.sink(), interrupts.clone(), agents.clone());
        let outcome = on_worker(&runtime, async move {
            let first = match fired.start(model.name()).await {
                Ok(first) => first,
                Err(reason) => return Err(reason),
            };
            let mut conversation = kept.conversation(&*model, first.as_deref());
            if let Some(prompt) = &prompt {
                kept.said(prompt);
            }
            let account = Account::new();
            working.main_runs(&handle, &account);
            let agent = Loop::new(engine, model)
                .options(options)
                .events(sink)
                .session(fired.clone())
                .account(account)
                .handle(handle.clone());
            let agent = kept.keeps(agent);
            told.tell_run(Some(handle.clone()));
            let played = kept.play(&agent, &handle, &mut conversation, prompt.as_deref());
            let outcome = due.beside(&handle, played).await;
            fired.end().await;
            kept.ended(&outcome.ended);
            Ok(outcome)
        });
        interrupts.tell_run(None);
        agents.close();
        // A thread that a tool keeps busy is not waited for.
        runtime.shutdown_background();
        session::report_tasks(&tasks);
        planned.report();
        crate::hooks::report(&hooks);
        match outcome {
            Ok(outcome) => {
                let ended = outcome.ended.clone();
                let shown = show.end(outcome);
                Ok(exit(&ended, shown, interrupts))
            }
            Err(reason) => Ok(ended_by_hook(&reason)),
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Usage> {
    let cores = std::thread::available_parallelism().map_or(WORKERS_MIN, usize::from);
    let workers = cores.clamp(WORKERS_MIN, WORKERS_MAX);
    crate::threads::runtime(workers)
}

/// Runs to the end on a thread of the runtime, beside the connections and the calls: from the main thread, each piece of
/// an answer and each result would cost a switch of threads.
fn on_worker<T: Send + 'static>(runtime: &Runtime, work: impl Future<Output = T> + Send + 'static) -> T {
    let ended = runtime.block_on(runtime.spawn(work));
    ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// The user, of whom hooks are told that they are asked.
fn notifying(asker: Option<Arc<dyn Asker>>, hooks: &Hooks) -> Option<Arc<dyn Asker>> {
    asker.map(|asker| Arc::new(Notifying { asker, hooks: hooks.clone() }) as _)
}

/// The servers of a run, which begin to connect; nobody waits for them.
fn pool(
    runtime: &Runtime,
    links: &Links,
    engine: &Engine,
    model: &Arc<dyn Model>,
    asker: Option<Arc<dyn Asker>>,
) -> Result<Option<Arc<Pool>>, Usage> {
    links.warn();
    if links.is_fixed() {
        return Ok(None);
    }
    let _entered = runtime.enter();
    let sampler = Arc::new(ModelSampler::new(model.clone(), asker.clone()));
    let pool = links.open(engine, Lent { asker: asker.clone(), sampler: Some(sampler), browser: None })?;
    if let Some(asker) = &asker {
        pool.ask_for_approvals(&links.planned, asker);
    }
    Ok(Some(Arc::new(pool)))
}

fn ended_by_hook(reason: &str) -> Exit {
    output::say(&format!("haft: a hook ended the session: {}", output::one_line(reason)));
    Exit::Failed
}

fn exit(ended: &Ended, shown: Result<(), Exit>, interrupts: &Interrupts) -> Exit {
    match shown {
        _ if interrupts.any() => Exit::Interrupted,
        Err(exit) => exit,
        Ok(()) => match ended {
            Ended::Finished => Exit::Done,
            Ended::Interrupted => Exit::Interrupted,
            _ => Exit::Failed,
        },
    }
}
