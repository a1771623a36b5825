//! What a session left besides its journal: background tasks and worktrees.
//!
//! Tasks end with their process. Worktrees stay, with everything in them. `haft` names them where the
//! session is shown or continued, and removes them with the session if no work would be lost.

use std::path::Path;
use std::sync::{Arc, Mutex};

use haft::decision::{DecisionReason, DecisionSource, Verdict};
use haft::dispatch::TaskTable;
use haft::effects::WORKTREES;
use haft::future::BoxFuture;
use haft::ports::{
    AuthorizationRequest, Authorizer, NewTask, RuleSetId, TaskId, TaskLog, TaskState, Tasks, TooManyTasks,
};
use haft::sync::lock;
use haft::tool::AnyTool;
use haft::{Context, Effects, NoInput, Registry, ToolCall, ToolResult, tool};
use haft_journal::{Record, RecoveredSession};
use haft_policy::gate::Policy;
use haft_tools::worktrees::GitWorktree;
use serde_json::json;

use super::LazyJournal;
use crate::assembly::SessionAssembler;
use crate::{SessionOptions, SessionPurpose};

/// Returns what is left of a session, one line each: tasks that did not end by themselves, and existing
/// worktrees.
pub fn describe_leftovers(recovered: &RecoveredSession) -> Vec<String> {
    let tasks = recovered.tasks.iter().map(|(id, words)| format!("{id} ended with its process: {words}"));
    let there = recovered.worktrees.iter().filter(|(path, ..)| path.is_dir());
    let worktrees = there.map(|(path, _, branch)| {
        format!("a worktree of this session is in {} (branch {branch})", path.display())
    });
    tasks.chain(worktrees).collect()
}

/// Removes the worktrees of a session whose removal loses no work. Returns the result for each.
pub fn remove_worktrees(recovered: &RecoveredSession, common: &SessionOptions) -> Vec<String> {
    let there = recovered.worktrees.iter().filter(|(path, ..)| path.is_dir());
    there.map(|(path, repository, _)| remove_and_describe(path, repository, common)).collect()
}

fn remove_and_describe(path: &Path, repository: &Path, common: &SessionOptions) -> String {
    let shown = path.display();
    let named = path.parent().zip(path.file_name().and_then(|name| name.to_str()));
    let Some((folder, name)) = named else { return format!("{shown} is no worktree of ours") };
    let worktree = GitWorktree::named(folder, name);
    let branch = worktree.branch.clone();
    let common = SessionOptions { cwd: Some(repository.to_owned()), non_interactive: true, ..common.clone() };
    match remove_worktree(worktree, &common) {
        Ok(None) => format!("removed the worktree {shown} and its branch {branch}"),
        Ok(Some(lost)) => format!("the worktree {shown} (branch {branch}) stays: it has {lost}"),
        Err(why) => format!("the worktree {shown} (branch {branch}) stays: {why}"),
    }
}

/// Removes a worktree as a call does, with the same rules for programs that git may start. Returns what
/// would be lost instead.
fn remove_worktree(worktree: GitWorktree, common: &SessionOptions) -> Result<Option<String>, String> {
    const NAME: &str = "remove_worktree";
    let lost = Arc::new(Mutex::new(None));
    let found = lost.clone();
    let work = move |_: NoInput, cx: Context| {
        let (worktree, found) = (worktree.clone(), found.clone());
        async move {
            let losses = worktree.losses(&cx).await?;
            if !losses.is_empty() {
                *lock(&found) = Some(losses.words());
                return Ok(false);
            }
            worktree.remove(&losses, false, &cx).await.map(|()| true)
        }
    };
    let removing = tool(NAME, "Removes a worktree.", work).effects(|_| Effects::writes_state(WORKTREES));
    let registry = Registry::new().with(removing).map_err(|error| error.to_string())?;
    let session = SessionAssembler::load(common, SessionPurpose::Once).and_then(|factory| factory.open());
    let session = session.map_err(|error| error.to_string())?;
    let engine = session.engine.permissions(RemovalRules(session.policy)).build();
    engine.refresh_with(registry);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let results = runtime.block_on(engine.turn().run([ToolCall::new("1", NAME, json!({}))]));
    if let Some(error) = results.iter().find_map(ToolResult::error) {
        return Err(error.message().to_owned());
    }
    Ok(lock(&lost).take())
}

/// The rules of an engine whose only tool is the removal that the user requested. Its processes stay within
/// the session's rules.
struct RemovalRules(Policy);

impl Authorizer for RemovalRules {
    fn reasons(&self, _: &AuthorizationRequest<'_>) -> Vec<DecisionReason> {
        vec![DecisionReason::new(DecisionSource::User, Verdict::Allow, "the user removes the session")]
    }

    fn rule_set(&self) -> Option<RuleSetId> {
        self.0.rule_set()
    }

    fn tool_denial(&self, _: &str, _: &AnyTool) -> Option<DecisionReason> {
        None
    }
}

/// Background tasks that are recorded in the journal.
pub struct RecordedTasks {
    pub tasks: Arc<TaskTable>,
    pub journal: Arc<LazyJournal>,
}

impl Tasks for RecordedTasks {
    fn adopt(&self, task: NewTask) -> Result<TaskId, TooManyTasks> {
        let words = format!("{}: {}", task.tool, task.about);
        let id = self.tasks.adopt(task)?;
        self.journal.note(Record::Task { id: id.to_string(), words });
        Ok(id)
    }

    fn finish(&self, task: TaskId, result: ToolResult) {
        self.tasks.finish(task, result);
        self.journal.note_if_open(Record::TaskEnded { id: task.to_string() });
    }

    fn list(&self) -> Vec<TaskState> {
        self.tasks.list()
    }

    fn result(&self, task: TaskId) -> Option<ToolResult> {
        self.tasks.result(task)
    }

    fn stop(&self, task: TaskId) -> bool {
        self.tasks.stop(task)
    }

    fn log(&self, task: TaskId) -> Option<Arc<dyn TaskLog>> {
        self.tasks.log(task)
    }

    fn ended<'a>(&'a self, task: TaskId) -> BoxFuture<'a, ()> {
        self.tasks.ended(task)
    }
}
