//! The tools of a build, put together: a group at a time, as the host wants them.
//!
//! The lists are written out: a tool that isn't here isn't there. Tools of one group share what they know of
//! a session (what was read of files, plans, task lists), so they are made together.

#[cfg(feature = "cron")]
use std::sync::Arc;

#[cfg(feature = "planning")]
use haft::call_log::CallLog;
use haft::tool::AnyTool;

#[cfg(feature = "planning")]
use crate::config::SettingsSource;
#[cfg(feature = "cron")]
use crate::cron::CronTable;
#[cfg(feature = "skills")]
use crate::skill::TurnGrants;
#[allow(unused_imports, reason = "each group uses its own, and a build may have none")]
use crate::*;

/// The built-in tools, with what a host may want otherwise.
///
/// ```
/// # #[cfg(feature = "shell")] {
/// use haft_tools::{Bash, BuiltIns};
///
/// let tools = BuiltIns::new().bash(Bash::new()).tools();
/// assert!(tools.iter().any(|tool| tool.name() == "Bash"));
/// # }
/// ```
#[derive(Default)]
#[must_use]
pub struct BuiltIns {
    #[cfg(feature = "agents")]
    agent: Agent,
    #[cfg(feature = "shell")]
    bash: Bash,
    #[cfg(feature = "browser")]
    browser: Browser,
    #[cfg(feature = "files")]
    reads_first: bool,
    #[cfg(any(feature = "files", feature = "planning", feature = "tasks"))]
    shelf: SessionFolders,
    #[cfg(feature = "files")]
    continues: Option<String>,
    #[cfg(feature = "files")]
    seen: ReadTracker,
    session: SessionTools,
    #[cfg(feature = "web")]
    web: (WebFetch, WebSearch),
    #[cfg(feature = "worktrees")]
    enter_worktree: EnterWorktree,
}

/// What tools get from the session that they belong to. One value serves all agents of the session.
#[derive(Clone, Default)]
pub struct SessionArguments {
    /// The calls that the session has made: `ExitPlanMode`, `VerifyPlan`.
    #[cfg(feature = "planning")]
    pub calls: Option<CallLog>,
    /// The prompts that it schedules: `CronCreate`, `CronDelete`, `CronList`.
    #[cfg(feature = "cron")]
    pub crons: Option<Arc<CronTable>>,
    /// What lets the tools of a skill run unasked: `Skill`.
    #[cfg(feature = "skills")]
    pub grants: Option<TurnGrants>,
    /// Its settings: `Config`.
    #[cfg(feature = "planning")]
    pub settings: Option<SettingsSource>,
}

/// The tools that belong to one session: with [arguments](SessionArguments) of their own, and what sessions
/// share of them.
///
/// ```
/// # #[cfg(feature = "planning")] {
/// use haft::Registry;
/// use haft::call_log::CallLog;
/// use haft_tools::{BuiltIns, SessionArguments};
///
/// let built_ins = BuiltIns::new();
/// let session_tools = built_ins.session_tools();
/// let shared = Registry::new().with(built_ins.tools()).unwrap();
/// // And for each session:
/// let arguments = SessionArguments { calls: Some(CallLog::new()), ..SessionArguments::default() };
/// let own = Registry::new().with(session_tools.with(arguments).tools()).unwrap();
/// let registry = shared.replace_tools(&own);
/// # assert_eq!(registry.len(), shared.len());
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct SessionTools {
    #[cfg(feature = "planning")]
    plans: SessionPlans,
    #[cfg(feature = "skills")]
    skill: Skill,
    #[cfg_attr(
        not(any(feature = "cron", feature = "planning", feature = "skills")),
        allow(dead_code, reason = "no tool of the build has an argument")
    )]
    arguments: SessionArguments,
}

impl SessionTools {
    /// The tools of another session.
    pub fn with(mut self, arguments: SessionArguments) -> SessionTools {
        self.arguments = arguments;
        self
    }

    /// The tools. One whose argument is missing says so where it would be offered.
    pub fn tools(self) -> Vec<AnyTool> {
        #[allow(unused_mut, reason = "a build may have no tools")]
        let mut tools: Vec<AnyTool> = Vec::new();
        #[cfg(feature = "cron")]
        {
            let crons = self.arguments.crons;
            let (create, delete) = (CronCreate::new(crons.clone()), CronDelete::new(crons.clone()));
            tools.extend([built_in(create), built_in(delete), built_in(CronList::new(crons))]);
        }
        #[cfg(feature = "planning")]
        {
            let SessionArguments { calls, settings, .. } = self.arguments;
            let (exit, verify) =
                (ExitPlanMode::new(&self.plans, calls.clone()), VerifyPlan::new(&self.plans, calls));
            tools.extend([built_in(Config::new(settings)), built_in(exit), built_in(verify)]);
        }
        #[cfg(feature = "skills")]
        tools.extend([built_in(match self.arguments.grants {
            Some(grants) => self.skill.with_grants(grants),
            None => self.skill,
        })]);
        tools
    }
}

impl BuiltIns {
    /// All tools, each with its defaults.
    pub fn new() -> BuiltIns {
        BuiltIns::default()
    }

    /// Agents of these kinds.
    #[cfg(feature = "agents")]
    pub fn agent(mut self, agent: Agent) -> BuiltIns {
        self.agent = agent;
        self
    }

    /// A shell as the host wants it: the user's home, time limits, whether the sandbox may be left.
    #[cfg(feature = "shell")]
    pub fn bash(mut self, bash: Bash) -> BuiltIns {
        self.bash = bash;
        self
    }

    /// A browser as the host wants it: which program, how it is reached.
    #[cfg(feature = "browser")]
    pub fn browser(mut self, browser: Browser) -> BuiltIns {
        self.browser = browser;
        self
    }

    /// Whether a file has to be read before `Write` replaces it: where calls of a session come one after
    /// another. Default: no.
    #[cfg(feature = "files")]
    pub fn reads_first(mut self, reads_first: bool) -> BuiltIns {
        self.reads_first = reads_first;
        self
    }

    /// Keeps task lists, plans and checkpoints in the folders of their sessions; those of one that
    /// `continues` are there from the beginning. Default: in memory.
    #[cfg(any(feature = "files", feature = "planning", feature = "tasks"))]
    pub fn kept_in(mut self, shelf: SessionFolders, continues: Option<&str>) -> BuiltIns {
        self.shelf = shelf;
        #[cfg(feature = "planning")]
        {
            self.session.plans = SessionPlans::kept_in(&self.shelf);
        }
        #[cfg(feature = "files")]
        {
            self.continues = continues.map(str::to_owned);
        }
        #[cfg(not(feature = "files"))]
        let _ = continues;
        self
    }

    /// What is known of files, shared with who keeps the session.
    #[cfg(feature = "files")]
    pub fn seen(mut self, seen: &ReadTracker) -> BuiltIns {
        self.seen = seen.clone();
        self
    }

    /// These skills. Without any the tool is there and not offered.
    #[cfg(feature = "skills")]
    pub fn skill(mut self, skill: Skill) -> BuiltIns {
        self.session.skill = skill;
        self
    }

    /// What tools get from their session. Default: nothing, so those that can't do without are not offered.
    pub fn session(mut self, arguments: SessionArguments) -> BuiltIns {
        self.session.arguments = arguments;
        self
    }

    /// The tools that belong to one session, for a host with several sessions that share the others.
    pub fn session_tools(&self) -> SessionTools {
        self.session.clone()
    }

    /// The web as the host wants it: what may be reached, who searches, who answers questions about pages.
    #[cfg(feature = "web")]
    pub fn web(mut self, fetch: WebFetch, search: WebSearch) -> BuiltIns {
        self.web = (fetch, search);
        self
    }

    /// Worktrees of another repository than that of the working directory.
    #[cfg(feature = "worktrees")]
    pub fn worktrees(mut self, enter: EnterWorktree) -> BuiltIns {
        self.enter_worktree = enter;
        self
    }

    /// The tools, by name. Those of one list share what they know of a session: `Edit` knows what `Read` has
    /// read.
    #[cfg_attr(
        not(all(feature = "files", feature = "shell")),
        allow(unused_mut, reason = "only both share anything")
    )]
    pub fn tools(mut self) -> Vec<AnyTool> {
        #[allow(unused_mut, reason = "a build may have no tools")]
        let mut tools: Vec<AnyTool> = Vec::new();
        #[cfg(feature = "agents")]
        tools.extend([built_in(self.agent), built_in(SendMessage)]);
        #[cfg(feature = "browser")]
        tools.extend(self.browser.tools());
        #[cfg(feature = "files")]
        {
            let seen = self.seen.kept_in(&self.shelf, self.continues.as_deref());
            #[cfg(feature = "shell")]
            {
                self.bash = self.bash.checkpoints(&seen);
            }
            tools.extend(file_tools(&seen.reads_first(self.reads_first)));
        }
        #[cfg(feature = "planning")]
        tools.extend([built_in(AskUserQuestion), built_in(EnterPlanMode::new(&self.session.plans))]);
        tools.extend(self.session.tools());
        #[cfg(feature = "shell")]
        tools.extend([
            built_in(Monitor::new(&self.bash)),
            built_in(self.bash),
            built_in(TaskOutput),
            built_in(TaskStop),
        ]);
        #[cfg(feature = "tasks")]
        tools.extend(task_tools(&self.shelf));
        #[cfg(feature = "web")]
        tools.extend(web_tools(self.web));
        #[cfg(feature = "worktrees")]
        tools.extend([built_in(self.enter_worktree), built_in(ExitWorktree)]);
        tools.sort_by(|one, other| one.name().cmp(other.name()));
        tools
    }
}

#[cfg(feature = "files")]
fn file_tools(seen: &ReadTracker) -> Vec<AnyTool> {
    vec![
        built_in(ApplyPatch::new(seen)),
        built_in(Diff),
        built_in(Edit::new(seen)),
        built_in(Glob),
        built_in(Grep),
        built_in(Ls),
        built_in(MultiEdit::new(seen)),
        #[cfg(feature = "notebooks")]
        built_in(NotebookEdit::new(seen)),
        built_in(Read::new(seen)),
        built_in(Rewind::new(seen)),
        built_in(Sleep),
        built_in(Write::new(seen)),
    ]
}

#[cfg(feature = "web")]
fn web_tools((fetch, search): (WebFetch, WebSearch)) -> [AnyTool; 2] {
    [built_in(fetch), built_in(search)]
}

#[cfg(feature = "tasks")]
fn task_tools(shelf: &SessionFolders) -> Vec<AnyTool> {
    let lists = TaskLists::kept_in(shelf);
    vec![
        built_in(TaskCreate::new(&lists)),
        built_in(TaskGet::new(&lists)),
        built_in(TaskList::new(&lists)),
        built_in(TaskUpdate::new(&lists)),
        built_in(TodoWrite::new(&lists)),
    ]
}
