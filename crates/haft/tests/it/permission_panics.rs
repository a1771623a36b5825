//! Askers, rules, tools and effects that panic: the call is denied and the turn continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haft::decision::{DecisionReason, DecisionSource, Verdict};
use haft::ports::{ApprovalAnswer, ApprovalRequest, AuthorizationRequest, Authorizer, PermissionMode};
use haft::testing::{MemoryRecorder, RecordedNote, ScriptedAsker, TestCaller};
use haft::tool::AnyTool;
use haft::{Effects, PermissionRules};
use serde_json::Value;

use crate::{Dir, any, caller_in, plain, reader};

#[tokio::test]
async fn an_asker_that_panics_says_no_and_the_turn_goes_on() {
    let dir = Dir::new();
    let asker = ScriptedAsker::new().then_panic().then(ApprovalAnswer::Once);
    let caller = caller_in(&dir, any(plain("t", Effects::writes("a"))), PermissionRules::new());
    let caller = caller.engine(|engine| engine.asker(asker));
    caller.turn([("1", "t", "{}"), ("2", "t", "{}")]).await.check([
        "1 Rejected: the user said no to t: the question could not be asked: the screen failed",
        "2 ok: done",
    ]);
}

/// Rules that panic where they are told to.
struct Shaky {
    judge: bool,
    hides: bool,
    rest: bool,
    reason: DecisionReason,
}

impl Authorizer for Shaky {
    fn reasons(&self, _: &AuthorizationRequest<'_>) -> Vec<DecisionReason> {
        assert!(!self.judge, "secret words");
        vec![self.reason.clone()]
    }

    fn tool_denial(&self, _: &str, _: &AnyTool) -> Option<DecisionReason> {
        assert!(!self.hides, "secret words");
        None
    }

    fn remember(&self, _: &AuthorizationRequest<'_>, _: &ApprovalAnswer) -> Result<(), String> {
        assert!(!self.rest, "secret words");
        Ok(())
    }

    fn propose(&self, _: &AuthorizationRequest<'_>) -> Option<String> {
        assert!(!self.rest, "secret words");
        None
    }
}

#[tokio::test]
async fn rules_that_panic_deny() {
    let check = async |rules: Shaky, expected: &str| {
        let asker = ScriptedAsker::new().then(ApprovalAnswer::Session);
        let caller =
            TestCaller::new().tool(reader("t")).engine(|engine| engine.permissions(rules).asker(asker));
        caller.turn([("1", "t", "{}")]).await.check([expected]);
    };
    let by_rule = |verdict| DecisionReason::new(DecisionSource::Rule, verdict, "a test");
    let rules = || Shaky { judge: false, hides: false, rest: false, reason: by_rule(Verdict::Allow) };
    check(rules(), "1 ok: done").await;
    check(
        Shaky { judge: true, ..rules() },
        "1 Denied: t was denied by the rules, which failed\ndo not try another tool for the same purpose",
    )
    .await;
    check(
        Shaky { hides: true, ..rules() },
        "1 Denied: t is denied by the rules, which failed\ndo not try another tool for the same purpose",
    )
    .await;
    // What only helps may fail: the user said yes.
    check(Shaky { rest: true, reason: by_rule(Verdict::Ask), ..rules() }, "1 ok: done").await;
}

#[tokio::test]
async fn an_opinion_that_panics_denies() {
    let shaky = Arc::new(AtomicBool::new(true));
    let flag = shaky.clone();
    let tool = reader("t").permission(move |_| {
        assert!(!flag.load(Ordering::SeqCst), "secret words");
        None
    });
    let rules = PermissionRules::new().mode(PermissionMode::BypassPermissions);
    let caller = TestCaller::new().tool(tool).engine(|engine| engine.permissions(rules));
    let words = "1 Denied: t refuses this call: it could not say whether this call is safe";
    caller.turn([("1", "t", "{}")]).await.check([words]);
    shaky.store(false, Ordering::SeqCst);
    caller.turn([("1", "t", "{}")]).await.check(["1 ok: done"]);
}

#[tokio::test]
async fn effects_that_panic_or_contradict_themselves_are_unknown() {
    async fn check(effects: impl Fn(&Value) -> Effects + Send + Sync + 'static, unknown: bool) {
        let asker = ScriptedAsker::new().then(ApprovalAnswer::Once);
        let recorder = MemoryRecorder::new();
        let port = Arc::new(recorder.clone());
        let tool = reader("t").effects(effects);
        let caller = TestCaller::new()
            .tool(tool)
            .engine(|engine| engine.asker(asker.clone()).ports(|ports| ports.recorder = Some(port)));
        assert_eq!(caller.call("t", "{}").await.error_kind(), None);
        let asked: Vec<_> = asker.approvals().iter().map(ApprovalRequest::reason).collect();
        let RecordedNote::Before { side_effects, rerunnable, .. } = &recorder.notes()[0] else {
            panic!("an intent")
        };
        if unknown {
            assert_eq!(asked, ["nothing is known of what it touches"]);
            assert!(*side_effects && !*rerunnable);
            assert!(asker.approvals()[0].warnings().is_empty() && !asker.approvals()[0].is_harmless());
        } else {
            assert_eq!(asked, [""; 0]);
            assert!(!*side_effects && *rerunnable);
        }
    }
    check(|_| Effects::none(), false).await;
    check(|_| panic!("secret words"), true).await;
    check(
        |_| {
            let mut lie = Effects::writes("a");
            lie.claims.read_only = Some(true);
            lie
        },
        true,
    )
    .await;
    check(|_| Effects::unknown().synchronised(), true).await;
}
