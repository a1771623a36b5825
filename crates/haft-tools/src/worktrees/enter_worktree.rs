//! `EnterWorktree`: a git worktree and a branch of its own, and the agent's scope moves there.
//!
//! From the next call on relative paths start in it, commands run in it, and the checkout around it is
//! outside. Where it will be is known before anybody is asked: a name that wasn't given is made by a guard,
//! so that the question, the rules and the call see the same one.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use haft::effects::WORKTREES;
use haft::tool::GuardDenied;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{FOLDER, GitWorktree, NewWorktree, name_fits, render_stage, worktree_tool_spec};

/// Characters of a result that the model sees.
pub const RESULT_CHARS: usize = 2_000;
/// How many filters are named.
const NAMED_MAX: usize = 5;

/// Makes a git worktree with a branch of its own and moves into it: your next calls work there and leave the
/// checkout alone.
///
/// Use it only when the user asks for a worktree or for work apart from the checkout. Changes of the checkout
/// that were not committed are not in it. With the name of a worktree that is there already you go on in that
/// one. Leave it with ExitWorktree.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EnterWorktreeInput {
    /// What it is called, for example `fix-parser`; the branch is `haft/NAME`. Without it one is made.
    #[serde(default)]
    pub name: Option<String>,
}

/// The tool `EnterWorktree`.
#[derive(Debug, Clone, Default)]
pub struct EnterWorktree {
    folder: Option<PathBuf>,
}

impl EnterWorktree {
    /// The tool for a session that works in this directory.
    pub fn new(cwd: &Path) -> EnterWorktree {
        EnterWorktree { folder: Some(cwd.join(FOLDER)) }
    }

    /// Where worktrees lie.
    fn folder(&self) -> &Path {
        self.folder.as_deref().unwrap_or(Path::new(FOLDER))
    }
}

impl Tool for EnterWorktree {
    type Input = EnterWorktreeInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        worktree_tool_spec("EnterWorktree")
            .alias("enter_worktree")
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("git worktree branch isolate work apart from the checkout")
            .guard(|mut input: Value, _| async {
                if input.get("name").is_none_or(Value::is_null) {
                    input["name"] = new_name().into();
                }
                Ok::<Value, GuardDenied>(input)
            })
    }

    fn effects(&self, input: &EnterWorktreeInput) -> Effects {
        let moves = Effects::writes_state("session:workspace").and(Effects::writes_state(WORKTREES));
        match input.name.as_deref().filter(|name| name_fits(name).is_ok()) {
            Some(name) => moves.and(Effects::writes_tree(self.folder().join(name))),
            // It gets one before it is judged.
            None => moves,
        }
    }

    async fn check(&self, input: &EnterWorktreeInput, cx: &Context) -> Result<(), ToolError> {
        if let Some(name) = &input.name {
            name_fits(name)?;
        }
        match cx.location().entered() {
            None => Ok(()),
            Some(path) => Err(ToolError::invalid_input(format!(
                "you are in the worktree `{}` already; leave it with ExitWorktree first",
                path.display()
            ))),
        }
    }

    async fn call(&self, input: EnterWorktreeInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let name = input.name.unwrap_or_else(new_name);
        let worktree = GitWorktree::named(&cx.cwd().join(self.folder()), &name);
        let entered = if worktree.exists(cx).await? {
            "went on in the worktree that was there already".to_owned()
        } else {
            let NewWorktree { commit, filters } = worktree.add(cx).await?;
            let commit = commit.get(..12).unwrap_or(&commit);
            let filters = if filters.is_empty() {
                String::new()
            } else {
                format!(
                    "\nthe repository has filters, which were not run; files that need one are as they were \
                         committed: {}",
                    list_names(&filters)
                )
            };
            format!("made at commit {commit}; changes that were not committed are not in it{filters}")
        };
        cx.location().enter(&worktree.path).map_err(ToolError::new)?;
        let (path, branch) = (worktree.path.display(), &worktree.branch);
        let text = format!("working directory: {path}\nbranch: {branch}\n{entered}");
        Ok(ToolOutput::from(ResultBlock::text(text))
            .with_view(CallView::titled(name).summary(format!("branch {branch}"))))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        Some(render_stage(stage, stage.text("name").unwrap_or("a new worktree")))
    }
}

/// Some names of a repository's, on one line.
fn list_names(names: &[String]) -> String {
    let plain = |name: &String| name.chars().filter(|c| !c.is_control()).take(40).collect::<String>();
    let shown: Vec<String> = names.iter().take(NAMED_MAX).map(|name| format!("`{}`", plain(name))).collect();
    format!("{}{}", shown.join(", "), if names.len() > NAMED_MAX { " …" } else { "" })
}

/// A name that no other worktree has: the time, and a count.
pub fn new_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed) % 36;
    let mut time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let mut name = String::new();
    for _ in 0..7 {
        name.insert(0, digit(time % 36));
        time /= 36;
    }
    format!("w{name}{}", digit(count))
}

fn digit(of: u64) -> char {
    char::from_digit(of as u32, 36).unwrap_or('0')
}
