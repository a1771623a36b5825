//! Plans a run for a session and a model choice: model, limits, system prompt, sub-agents and journal.

use std::sync::Arc;
use std::time::Duration;

use haft::env::VariableLookup;
use haft::ports::ModeControl as _;
use haft_agent::{Model, RunOptions, ToolDeferral};
use haft_journal::SessionStart;
use haft_policy::settings::{RunSettings, Search};

use super::memory;
use super::prepared::{BackgroundAgents, RunPlan};
use super::prompt::system_prompt;
use super::provider::{self, ChosenModel, ModelOptions, ModelRequirements};
use super::run_journal::RunJournal;
use crate::agents::kinds::AgentKinds;
use crate::assembly::SessionParts;
use crate::session_journal::{LazyJournal, ResumedSession};
use crate::text::one_line;
use crate::{SessionError, SessionOptions};

/// The model of a run.
pub enum ModelSource {
    /// The configured model of options, environment and settings.
    Configured(ModelOptions),
    /// This model.
    Custom(Arc<dyn Model>),
}

/// The options of a run.
pub struct RunRequest {
    /// The model.
    pub model: ModelSource,
    /// The session to continue.
    pub resumed: Option<ResumedSession>,
    /// The journal of the session.
    pub journal: Arc<LazyJournal>,
    /// The maximum number of model requests. Default: from the settings.
    pub max_turns: Option<u64>,
    /// Text to add to the system prompt.
    pub append_system_prompt: Vec<String>,
    /// What happens at the end of an answer while agents work in the background.
    pub background: BackgroundAgents,
}

impl RunPlan {
    /// Plans a run: chooses the model, reads the memory files, opens the journal. Sends nothing yet.
    ///
    /// # Errors
    /// Returns an error if no model is configured, the journal belongs to another process, or the
    /// conversation can't continue with this model.
    pub fn new(
        session: &SessionParts,
        options: &SessionOptions,
        request: RunRequest,
    ) -> Result<RunPlan, SessionError> {
        let lookup: VariableLookup<'_> = &|name| options.environment.get(name);
        let RunRequest { model, mut resumed, journal, max_turns, append_system_prompt, background } = request;
        let (chosen, base_url) = match model {
            ModelSource::Custom(model) => (ChosenModel::custom(model), String::new()),
            ModelSource::Configured(wanted) => {
                let chosen = choose_model(session, &wanted, lookup)?;
                (chosen, wanted.base_url.unwrap_or_default())
            }
        };
        let settings = &session.given.loaded.settings.run;
        let memory = memory::read_memory(&session.given, options);
        let mut run_options = run_limits(max_turns, settings);
        run_options.system = system_prompt(&session.workspace, memory, &append_system_prompt);
        run_options.window_tokens = chosen.window_tokens;
        run_options.prices = chosen.prices;
        if run_options.max_cost.is_some() && run_options.prices.is_none() {
            session.notices.warn(format!(
                "`run.maxCost` limits nothing: your settings have no price for `{}` in `run.prices`",
                one_line(chosen.model.name())
            ));
        }
        let kinds = AgentKinds::load(&session.given, options);
        kinds.problems.iter().for_each(|problem| session.notices.warn(problem));
        let ChosenModel { model, provider, others, .. } = chosen;
        let began = SessionStart {
            provider: provider.to_owned(),
            model: model.name().to_owned(),
            wire: model.format().name().to_owned(),
            mode: session.policy.current().to_string(),
            command: "run".to_owned(),
            base_url,
            ..SessionStart::in_folder(session.workspace.cwd())
        };
        let format = model.format();
        if let Some(resumed) = &resumed {
            resumed.check_format(format)?;
        }
        let recorded = journal.begin_run(began)?;
        if resumed.is_some() && recorded.is_off() {
            session.notices.warn("what follows is not kept: `journal.enabled` is false in your settings");
        }
        let conversation = resumed.as_mut().map(|resumed| resumed.conversation(format)).transpose()?;
        let resumed = resumed.zip(conversation);
        let run_journal =
            RunJournal { journal: recorded, resumed, lost_directory: None, notices: session.notices.clone() };
        Ok(RunPlan { model, provider, others, kinds, options: run_options, journal, run_journal, background })
    }
}

impl RunPlan {
    /// Plans a run with only this model, without journal and memory files.
    pub fn without_journal(
        session: &SessionParts,
        options: &SessionOptions,
        provider: &'static str,
        model: Arc<dyn Model>,
        max_turns: Option<u64>,
    ) -> RunPlan {
        let mut run_options = RunOptions::new();
        run_options.max_turns = max_turns;
        run_options.system = system_prompt(&session.workspace, None, &[]);
        RunPlan {
            others: provider::only_model(&model),
            provider,
            kinds: AgentKinds::load(&session.given, options),
            model,
            options: run_options,
            journal: LazyJournal::none(),
            run_journal: RunJournal::default(),
            background: BackgroundAgents::Awaited,
        }
    }
}

fn choose_model(
    session: &SessionParts,
    wanted: &ModelOptions,
    lookup: VariableLookup<'_>,
) -> Result<ChosenModel, SessionError> {
    let search = session.given.loaded.settings.tool_search.as_ref();
    let deferral = search
        .and_then(|at| at.value.native)
        .map(|native| if native { ToolDeferral::Native } else { ToolDeferral::Fallback });
    let requirements = ModelRequirements { deferral, web_search: uses_provider_search(session) };
    let settings = &session.given.loaded.settings.run;
    provider::choose_provider(wanted, settings, requirements, &session.id, lookup, &session.notices)
}

/// Returns whether the provider searches the web itself: settings want it, and no rule denies the tool that
/// it replaces.
fn uses_provider_search(session: &SessionParts) -> bool {
    if session.given.loaded.settings.web.search != Some(Search::Provider) {
        return false;
    }
    let denied = session.policy.denies_tool("WebSearch");
    if let Some(because) = &denied {
        session.notices.warn(format!("the provider does not search the web: {because}"));
    }
    denied.is_none()
}

/// Returns the limits of a run: the caller's, otherwise those of the settings.
pub fn run_limits(max_turns: Option<u64>, settings: &RunSettings) -> RunOptions {
    let mut options = RunOptions::new();
    options.max_turns = max_turns.or(settings.max_turns);
    options.max_tokens = settings.max_tokens;
    options.max_time = settings.max_seconds.map(Duration::from_secs);
    options.max_cost = settings.max_cost;
    options
}
