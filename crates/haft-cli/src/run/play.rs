//! One run, from what was put together for it to how the program ends.

use std::sync::Arc;

use haft::Engine;
use haft::ports::{Asker, Mode as _};
use haft_policy::hooks::Hooks;
use haft_provider::Model;
use haft_provider::run::{Account, Ended, Handle, Loop, RunOptions, ToolEvents};
use haft_session::NoticeSink;
use haft_session::agents::kinds::Kinds;
use haft_session::agents::{Agents, Setup};
use haft_session::run::hooks::{Fired, Notifying};
use haft_session::run::kept::Kept;
use haft_session::run::planned::Planned;
use haft_session::run::provider::Others;
use haft_terminal::Look;
use tokio::runtime::Runtime;

use super::args::RunForm;
use super::show::{Facts, Show};
use super::{live, prompt};
use crate::interrupt::Interrupts;
use crate::mcp::sample::ModelSampler;
use crate::session::{self, Lent, Links, Pool, Session};
use crate::{Exit, Usage, output};

/// The fewest worker threads: one for the calls, one for time limits while a call keeps the first busy.
const WORKERS_MIN: usize = 2;
/// The most: calls wait more than they work.
const WORKERS_MAX: usize = 8;

/// Everything that one run needs.
pub(super) struct Play {
    pub(super) session: Session,
    pub(super) model: Arc<dyn Model>,
    pub(super) provider: &'static str,
    /// Other models, for agents that ask another one.
    pub(super) others: Others,
    pub(super) kinds: Kinds,
    pub(super) options: RunOptions,
    /// None for a conversation.
    pub(super) prompt: Option<String>,
    pub(super) form: RunForm,
    /// On a live screen, and how that looks.
    pub(super) look: Option<Look>,
    pub(super) kept: Kept,
}

impl Play {
    pub(super) fn finish(mut self, interrupts: &Interrupts) -> Result<Exit, Usage> {
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
        let Session { engine, policy, hooks, tasks, crons, workspace, id, links, notices, .. } = session;
        let planned = Arc::new(Planned::begin(crons, notices.clone()));
        let agents = Agents::new(kinds);
        let handle = Handle::new();
        let show = Show::pick(form, workspace.cwd(), &handle);
        let asker = notifying(links.asker.clone(), &hooks, &notices);
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
            keeping: kept.keeping(),
            notices: notices.clone(),
        });
        kept.places(&engine);
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
        let fired =
            Fired::new(hooks.clone(), pool, notices.clone()).waiting_for(&tasks).ending_grants_of(&policy);
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
            let outcome = due.beside(&handle, &*fired, played).await;
            fired.end().await;
            kept.ended(&outcome.ended);
            Ok(outcome)
        });
        interrupts.tell_run(None);
        agents.close();
        // A thread that a tool keeps busy is not waited for.
        runtime.shutdown_background();
        session::report_tasks(&tasks, &notices);
        planned.report();
        crate::hooks::report(&hooks, &notices);
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

pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Usage> {
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
pub(super) fn notifying(
    asker: Option<Arc<dyn Asker>>,
    hooks: &Hooks,
    notices: &NoticeSink,
) -> Option<Arc<dyn Asker>> {
    let notify = |asker| Notifying { asker, hooks: hooks.clone(), notices: notices.clone() };
    asker.map(|asker| Arc::new(notify(asker)) as _)
}

/// The servers of a run, which begin to connect; nobody waits for them.
pub(super) fn pool(
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
    let lent = Lent { asker: asker.clone(), sampler: Some(sampler), ..Lent::default() };
    let pool = links.open(engine, lent)?;
    if let Some(asker) = &asker {
        pool.ask_for_approvals(&links.planned, asker);
    }
    Ok(Some(Arc::new(pool)))
}

pub(super) fn ended_by_hook(reason: &str) -> Exit {
    output::say(&format!("haft: a hook ended the session: {}", output::one_line(reason)));
    Exit::Failed
}

pub(super) fn exit(ended: &Ended, shown: Result<(), Exit>, interrupts: &Interrupts) -> Exit {
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
