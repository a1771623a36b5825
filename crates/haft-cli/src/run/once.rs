//! Agents for a single call: the model of a run, without the run.
//!
//! `haft call Agent` has no model of its own that gives the task; the caller is that. Who the agent asks is chosen as for
//! `haft run` without flags, or is a script.

use std::path::PathBuf;
use std::sync::Arc;

use haft_agent::RunEvent;
use haft_session::agents::kinds::Kinds;
use haft_session::agents::{Agents, Setup};
use haft_session::run::prompt::system;

use super::args::{Choice, RunArgs, RunForm};
use super::provider;
use crate::Usage;
use crate::args::Common;
use crate::output;
use crate::session::SessionParts;
use haft_session::run::plan::limits;

/// What is said where there is none.
const NO_MODEL: &str = "an agent needs a model, and none is configured: set ANTHROPIC_API_KEY, OPENAI_API_KEY or \
                        GEMINI_API_KEY, `run.provider` in your settings, or give a script with --script";

/// Gives a session agents, if the call is for one. They have to be closed at its end.
pub(crate) fn agents(
    session: &mut SessionParts,
    tool: &str,
    script: Option<PathBuf>,
    common: &Common,
) -> Result<Option<Arc<Agents>>, Usage> {
    let is_meant = session.engine.registry().entries().any(|entry| {
        let found = entry.tool();
        found.name() == "Agent" && (tool == "Agent" || found.aliases().iter().any(|alias| alias == tool))
    });
    if !is_meant {
        return match script {
            Some(_) => {
                Err(Usage(format!("--script is for Agent, and `{}` asks no model", output::one_line(tool))))
            }
            None => Ok(None),
        };
    }
    let lookup = |name: &str| std::env::var_os(name);
    let args = RunArgs::of_call(script, common.clone());
    let options = common.options();
    if !provider::is_configured(&args.model_options(), &options, &lookup)? {
        return Err(Usage(NO_MODEL.to_owned()));
    }
    let settings = &session.given.loaded.settings.run;
    let chosen = provider::choose(
        &args.model_options(),
        settings,
        provider::ModelRequirements::default(),
        &session.id,
        &lookup,
        &session.notices,
    )?;
    let mut run_options = limits(None, settings);
    run_options.system = system(&session.workspace, None, &[]);
    run_options.window_tokens = chosen.window_tokens;
    run_options.prices = chosen.prices;
    let kinds = Kinds::load(&session.given, &options);
    kinds.problems.iter().for_each(|words| output::warning(words));
    let agents = Agents::new(kinds);
    session.engine = session.engine.clone().ports(|ports| ports.sub_agents = Some(agents.clone()));
    agents.open(Setup {
        engine: session.engine.clone(),
        policy: session.policy.clone(),
        model: chosen.model,
        others: chosen.others,
        options: run_options,
        // The result is all that a call shows.
        sink: Arc::new(|_: RunEvent| {}),
        hooks: session.hooks.clone(),
        asker: session.links.asker.clone(),
        cwd: session.workspace.cwd().to_owned(),
        // Nothing is kept of a single call.
        keeping: None,
        notices: session.notices.clone(),
    });
    Ok(Some(agents))
}

impl RunArgs {
    /// A run with this script, or with whom the environment and settings name.
    fn of_call(script: Option<PathBuf>, common: Common) -> RunArgs {
        RunArgs {
            prompt: None,
            provider: Choice::Auto,
            model: None,
            base_url: None,
            script,
            go_on: false,
            resume: None,
            max_turns: None,
            output: RunForm::Text,
            append_system_prompt: Vec::new(),
            allowed_tools: Vec::new(),
            disallowed_tools: Vec::new(),
            common,
        }
    }
}
