//! Faulty guards between the model and the tools: hooks, rules and the user.

use std::time::Duration;

use haft::decision::{DecisionReason, DecisionSource, Verdict};
use haft::future::BoxFuture;
use haft::hooks::{
    BatchHook, HookBatch, HookCall, HookError, OnFailure, PostHook, PostHookResponse, PreHook,
    PreHookResponse,
};
use haft::ports::{ApprovalAnswer, ApprovalRequest, Asker, AuthorizationRequest, Authorizer, UserQuestion};
use haft::tool::AnyTool;
use haft::{PermissionRules, ResultBlock, ToolOutput, ToolResult};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::seeded_dice::SeededDice;
use crate::simulated_tools::{PANIC_TEXT, mark_of};
use crate::simulated_world::SimulatedWorld;
use crate::simulation_plan::PlantedBug;

/// The timeout of a hook.
const HOOK_TIMEOUT: Duration = Duration::from_secs(2);

impl SimulatedWorld {
    /// Records that this call must not start any more.
    fn bar_call(&self, mark: &str, why: &'static str) {
        if !self.is_dead() {
            self.state().barred_calls.insert(mark.to_owned(), why);
        }
    }
}

/// Hooks before and after calls and batches.
#[derive(Clone)]
pub(crate) struct SimulatedHook(pub(crate) SimulatedWorld);

impl PreHook for SimulatedHook {
    fn name(&self) -> &str {
        "sim"
    }

    fn before<'a>(&'a self, call: &'a HookCall<'a>) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        Box::pin(async move {
            let (world, mark) = (&self.0, mark_of(call.input));
            let mut dice = SeededDice::for_decision(world.0.seed, &["pre", mark]);
            if dice.chance(30) {
                sleep(Duration::from_millis(dice.roll(1_500))).await;
            }
            match dice.roll(28) {
                0 => {
                    world.bar_call(mark, "a hook blocked it");
                    Ok(PreHookResponse::block("not today"))
                }
                1 => {
                    world.bar_call(mark, "a hook failed");
                    Err(HookError::new("the hook is broken"))
                }
                2 => {
                    world.bar_call(mark, "a hook took too long");
                    std::future::pending().await
                }
                3 => {
                    world.bar_call(mark, "a hook panicked");
                    std::panic::panic_any(PANIC_TEXT.to_owned())
                }
                4 => {
                    world.bar_call(mark, "a hook made its input senseless");
                    Ok(PreHookResponse::rewrite(json!({"t": 5, "v": "x"})))
                }
                5 | 6 if call.input["v"] != 77 => Ok(PreHookResponse::rewrite(json!({"t": mark, "v": 77}))),
                7 => Ok(PreHookResponse::with_context("a word of a hook")),
                _ => Ok(PreHookResponse::go_on()),
            }
        })
    }

    fn timeout(&self) -> Duration {
        HOOK_TIMEOUT
    }

    fn on_failure(&self) -> OnFailure {
        if self.0.has_bug(PlantedBug::HooksFailOpen) { OnFailure::Continue } else { OnFailure::Block }
    }
}

impl PostHook for SimulatedHook {
    fn name(&self) -> &str {
        "sim"
    }

    fn after<'a>(
        &'a self,
        call: &'a HookCall<'a>,
        _: &'a ToolResult,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        Box::pin(async move {
            let mark = mark_of(call.input);
            let mut dice = SeededDice::for_decision(self.0.0.seed, &["post", mark]);
            match dice.roll(28) {
                0 => Err(HookError::new("the hook is broken")),
                1 => std::future::pending().await,
                2 => std::panic::panic_any(PANIC_TEXT.to_owned()),
                3 => {
                    let output = ToolOutput::new(vec![ResultBlock::text(format!("ran {mark}, says a hook"))]);
                    Ok(PostHookResponse { output: Some(output), ..PostHookResponse::default() })
                }
                4 => Ok(PostHookResponse {
                    context: vec!["a word of a hook".to_owned()],
                    ..PostHookResponse::default()
                }),
                5 => Ok(PostHookResponse {
                    stop: Some("a hook has seen enough".to_owned()),
                    ..PostHookResponse::default()
                }),
                _ => Ok(PostHookResponse::default()),
            }
        })
    }

    fn timeout(&self) -> Duration {
        HOOK_TIMEOUT
    }
}

impl BatchHook for SimulatedHook {
    fn name(&self) -> &str {
        "sim"
    }

    fn after_batch<'a>(
        &'a self,
        batch: &'a HookBatch<'a>,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        Box::pin(async move {
            let last = batch.results.last().and_then(ToolResult::input).map(mark_of).unwrap_or("?");
            let mut dice = SeededDice::for_decision(self.0.0.seed, &["batch", last]);
            match dice.roll(20) {
                0 => Err(HookError::new("the hook is broken")),
                1 => std::future::pending().await,
                2 => std::panic::panic_any(PANIC_TEXT.to_owned()),
                _ => Ok(PostHookResponse::default()),
            }
        })
    }

    fn timeout(&self) -> Duration {
        HOOK_TIMEOUT
    }
}

/// Rules that panic or deny for some calls.
pub(crate) struct SimulatedRules {
    pub(crate) world: SimulatedWorld,
    pub(crate) rules: PermissionRules,
}

impl Authorizer for SimulatedRules {
    fn reasons(&self, request: &AuthorizationRequest<'_>) -> Vec<DecisionReason> {
        let by_rule =
            |verdict, text: &'static str| vec![DecisionReason::new(DecisionSource::Rule, verdict, text)];
        let mark = mark_of(request.input);
        let mut dice = SeededDice::for_decision(self.world.0.seed, &["rules", mark]);
        match dice.roll(20) {
            0 => {
                self.world.bar_call(mark, "the rules could not be read");
                if self.world.has_bug(PlantedBug::RulesFailOpen) {
                    by_rule(Verdict::Allow, "a planted bug")
                } else {
                    std::panic::panic_any(PANIC_TEXT.to_owned())
                }
            }
            1 => {
                self.world.bar_call(mark, "a rule denies it");
                by_rule(Verdict::Deny, "a rule of the simulation")
            }
            _ => self.rules.reasons(request),
        }
    }

    fn tool_denial(&self, name: &str, tool: &AnyTool) -> Option<DecisionReason> {
        self.rules.tool_denial(name, tool)
    }
}

/// A user who may be absent.
pub(crate) struct SimulatedUser(pub(crate) SimulatedWorld);

impl Asker for SimulatedUser {
    fn approve<'a>(&'a self, approval: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let (world, mark) = (&self.0, mark_of(&approval.input));
            world.log(format!("{mark} asks"));
            let mut dice = SeededDice::for_decision(world.0.seed, &["user", mark]);
            sleep(Duration::from_millis(dice.roll(4_000))).await;
            let yes = |input: Value| {
                if !world.is_dead() {
                    world.state().approved.push((mark.to_owned(), input));
                }
            };
            let no = |answer: ApprovalAnswer| {
                world.bar_call(mark, "the user did not say yes");
                if world.has_bug(PlantedBug::NoMeansYes) { ApprovalAnswer::Once } else { answer }
            };
            match dice.roll(10) {
                0 => no(ApprovalAnswer::No),
                1 | 2 => no(ApprovalAnswer::NoBecause("I don't like it".to_owned())),
                3 => {
                    world.bar_call(mark, "the question could not be asked");
                    std::panic::panic_any(PANIC_TEXT.to_owned())
                }
                4 => {
                    // The user is absent for an hour.
                    sleep(Duration::from_secs(3_600)).await;
                    no(ApprovalAnswer::NoBecause("I was away".to_owned()))
                }
                5 if approval.input["v"] != 88 => {
                    let edited = json!({"t": mark, "v": 88});
                    yes(edited.clone());
                    ApprovalAnswer::Edit(edited)
                }
                _ => {
                    yes(approval.input.clone());
                    ApprovalAnswer::Once
                }
            }
        })
    }

    fn question<'a>(&'a self, _: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(async { None })
    }
}
