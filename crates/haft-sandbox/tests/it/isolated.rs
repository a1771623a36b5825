//! Tools in a process of their own: they compute, they can't get out, and their end is a result.

use std::sync::Arc;

use haft::{Engine, Registry, ToolCall, Workspace};
use haft_sandbox::testing::{TestScene, escapes, sandbox, tools};
use haft_sandbox::{Maker, SandboxIsolator, Stack, maker_of, probe, stack_of};

use crate::confined::{Ground, HELPER};

#[tokio::test]
async fn a_tool_runs_in_the_sandbox_and_its_death_is_an_error() {
    let ground = Ground::new();
    let isolator = Arc::new(SandboxIsolator::new(Arc::new(ground.sandbox())).unwrap());
    let engine = Engine::new(Registry::new().with(tools()).unwrap())
        .workspace(Workspace::new(ground.workspace()).unwrap())
        .ports(|ports| ports.isolator = Some(isolator));
    let run = |name: &'static str| {
        let engine = engine.clone();
        async move {
            let results = engine.turn().run([ToolCall::new("1", name, "{}")]).await;
            serde_json::to_string(&results[0].to_json()).unwrap()
        }
    };
    // The first process of its namespace started it, so it is the second.
    let answer = run("compute").await;
    assert!(answer.contains("42 in 2"), "{answer}");
    let _listener = std::os::unix::net::UnixListener::bind(ground.workspace().join("socket")).unwrap();
    let outside = escapes(&ground.workspace());
    for can in ["write ", "open ", "send", "connect"] {
        assert!(outside.iter().any(|did| did.starts_with(can)), "it doesn't even work outside: {outside:?}");
    }
    for _ in 0..3 {
        let answer = run("escape").await;
        assert!(answer.contains("did: ."), "{answer}");
    }
    assert!(!ground.workspace().join("escaped").exists());
    // A crash, an abort, an end without a word, and what the kernel does when memory runs out.
    for end in ["overflow", "abort", "exit", "killed"] {
        let answer = run(end).await;
        assert!(answer.contains("its process ended before it gave a result"), "{end}: {answer}");
        assert!(answer.contains("\"is_error\":true"), "{end}: {answer}");
        assert!(run("compute").await.contains("42 in 2"), "the next one runs");
    }
    let answer = run("panic").await;
    assert!(answer.contains("\"is_error\":true") && !answer.contains("it panics"), "{answer}");
    assert!(run("compute").await.contains("42 in 2"), "the next one runs");
}

/// The kernel gives it no more memory, and it ends as programs do then.
#[tokio::test]
async fn a_tool_that_wants_too_much_memory_is_an_error() {
    const ADDRESS_SPACE: u32 = 9;
    let ground = Ground::new();
    let looking = || TestScene::system().bind(ground.workspace(), false);
    for (bound, expected) in
        [(512 << 20, "its process ended before it gave a result"), (1 << 40, "took 64 pieces")]
    {
        let read_only = looking().rlimit(ADDRESS_SPACE, bound);
        let sandbox = sandbox(HELPER, Stack::Full, ground.scene(), read_only).unwrap();
        let isolator = Arc::new(SandboxIsolator::new(Arc::new(sandbox)).unwrap());
        let engine = Engine::new(Registry::new().with(tools()).unwrap())
            .workspace(Workspace::new(ground.workspace()).unwrap())
            .ports(|ports| ports.isolator = Some(isolator));
        let results = engine.turn().run([ToolCall::new("1", "hog", "{}")]).await;
        let answer = serde_json::to_string(&results[0].to_json()).unwrap();
        assert!(answer.contains(expected), "{answer}");
        let results = engine.turn().run([ToolCall::new("1", "compute", "{}")]).await;
        assert!(serde_json::to_string(&results[0].to_json()).unwrap().contains("42"), "the next one runs");
    }
}

/// Where the tests of the full sandbox pass, the parts of it are found.
#[test]
fn the_machine_is_probed() {
    let found = probe(Some(HELPER.as_ref()));
    for finding in &found {
        eprintln!("{} {}: {} {:?}", finding.works, finding.part, finding.detail, finding.advice);
    }
    assert_eq!(found.len(), 7);
    assert_eq!(stack_of(&found), haft_sandbox::Stack::Full, "{found:?}");
    assert_eq!(maker_of(&found), Some(Maker::Ourselves), "{found:?}");
}
