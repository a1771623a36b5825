//! `ExitWorktree`: back to the checkout; the worktree stays, or goes if nothing is lost with it.
//!
//! Changes that were not committed and commits that no other branch has are removed only where the call says
//! so and the user says yes to exactly these, in every mode. What a person is asked about is counted again
//! when it is removed.

use haft::decision::DecisionReason;
use haft::effects::WORKTREES;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{FOLDER, GitWorktree, WorktreeLosses, render_stage, worktree_tool_spec};

/// Characters of a result that the model sees.
pub const RESULT_CHARS: usize = 4_000;

/// Leaves the worktree that you entered with EnterWorktree and goes back to the checkout.
///
/// `keep` leaves it and its branch as they are. `remove` removes both; what was not committed and commits
/// that no other branch has are in its way: merge or keep them, or set `discard_changes`, and the user is
/// asked.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ExitWorktreeInput {
    /// What becomes of it; `keep` unless said.
    #[serde(default)]
    pub action: Option<ExitAction>,
    /// With `remove`: what would be lost may be lost. The user is asked, whatever the mode.
    #[serde(default)]
    pub discard_changes: Option<bool>,
}

/// What becomes of a worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitAction {
    /// It stays.
    Keep,
    /// It goes, with its branch.
    Remove,
}

impl ExitWorktreeInput {
    fn removes(&self) -> bool {
        self.action == Some(ExitAction::Remove)
    }

    fn discards(&self) -> bool {
        self.removes() && self.discard_changes == Some(true)
    }
}

/// The tool `ExitWorktree`.
#[derive(Debug, Clone, Default)]
pub struct ExitWorktree;

impl Tool for ExitWorktree {
    type Input = ExitWorktreeInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        worktree_tool_spec("ExitWorktree")
            .alias("exit_worktree")
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("leave remove keep a git worktree")
    }

    fn effects(&self, input: &ExitWorktreeInput) -> Effects {
        let moves = Effects::writes_state("session:workspace");
        match (input.removes(), input.discards()) {
            (false, _) => moves,
            (true, false) => moves.and(Effects::writes_state(WORKTREES)),
            (true, true) => moves.and(Effects::writes_state(WORKTREES)).destructive(),
        }
    }

    async fn check(&self, input: &ExitWorktreeInput, cx: &Context) -> Result<(), ToolError> {
        let worktree = entered_worktree(cx)?;
        if !input.removes() || input.discards() {
            return Ok(());
        }
        kept_back(&worktree, &worktree.losses(cx).await?)
    }

    async fn permission(&self, input: &ExitWorktreeInput, cx: &Context) -> Option<DecisionReason> {
        if !input.discards() {
            // Where something would be lost nothing is removed.
            return Some(DecisionReason::allow());
        }
        let losses = match entered_worktree(cx) {
            Ok(worktree) => worktree.losses(cx).await,
            Err(error) => Err(error),
        };
        match losses {
            Ok(losses) if losses.is_empty() => Some(DecisionReason::allow()),
            Ok(losses) => Some(DecisionReason::ask(format!("it removes {}", losses.words()))),
            Err(error) => {
                Some(DecisionReason::ask(format!("nobody knows what it removes: {}", error.message())))
            }
        }
    }

    async fn preview(&self, input: &ExitWorktreeInput, cx: &Context) -> Option<CallView> {
        let worktree = entered_worktree(cx).ok().filter(|_| input.discards())?;
        let losses = worktree.losses(cx).await.ok()?;
        let view = CallView::titled(worktree.name).summary(format!("removes {}", losses.words()));
        Some(view.with(haft::view::ViewPart::Text { text: losses.list() }))
    }

    async fn call(&self, input: ExitWorktreeInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let worktree = entered_worktree(cx)?;
        let (name, branch, path) = (&worktree.name, &worktree.branch, worktree.path.display());
        let (text, summary) = if input.removes() {
            let losses = worktree.losses(cx).await?;
            if !input.discards() {
                kept_back(&worktree, &losses)?;
            }
            worktree.remove(&losses, input.discards(), cx).await?;
            let lost =
                if losses.is_empty() { String::new() } else { format!(", and with it {}", losses.words()) };
            (format!("the worktree `{name}` and its branch `{branch}` were removed{lost}"), "removed")
        } else {
            let words = format!(
                "the worktree stays in `{path}`, on the branch `{branch}`; EnterWorktree {{\"name\": \"{name}\"}} goes on in it"
            );
            (words, "kept")
        };
        cx.location().leave();
        let text = format!("{text}\nyou are in the checkout again from the next call on");
        Ok(ToolOutput::from(ResultBlock::text(text))
            .with_view(CallView::titled(name.as_str()).summary(summary)))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        Some(render_stage(stage, stage.text("action").unwrap_or("keep")))
    }
}

/// The worktree that the agent is in.
fn entered_worktree(cx: &Context) -> Result<GitWorktree, ToolError> {
    let outside =
        || ToolError::invalid_input("you are in no worktree; EnterWorktree makes one and enters it");
    let path = cx.location().entered().ok_or_else(outside)?;
    let folder = path.parent().filter(|folder| folder.ends_with(FOLDER)).ok_or_else(outside)?;
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(outside)?;
    Ok(GitWorktree::named(folder, name))
}

/// Says what is in the way of removing a worktree.
fn kept_back(worktree: &GitWorktree, losses: &WorktreeLosses) -> Result<(), ToolError> {
    if losses.is_empty() {
        Ok(())
    } else {
        Err(ToolError::invalid_input(format!(
            "the worktree `{}` was not removed: it has {}\n{}\ncommit and merge them, use `keep`, or set \
             `discard_changes` if the user wants them gone",
            worktree.name,
            losses.words(),
            losses.list()
        )))
    }
}
