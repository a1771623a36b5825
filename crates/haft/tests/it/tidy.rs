//! What lies in working directories for children is gone when tools look at files themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft::testing::Caller;
use haft::{Context, Effects, NoInput, Tool, ToolError, ToolSpec};

use crate::plain;

/// Counts how often somebody wants to see only what is really there.
#[derive(Clone, Default)]
struct Untidy(Arc<AtomicUsize>);

impl haft::ports::Processes for Untidy {
    fn confines(&self) -> bool {
        true
    }

    fn run<'a>(
        &'a self,
        _: haft::ports::ProcessRequest,
    ) -> haft::future::BoxFuture<'a, Result<haft::ports::ProcessOutcome, haft::ports::ProcessError>> {
        unreachable!("no tool here starts anything")
    }

    fn tidy(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Looks at a file, already in its check.
struct Looks(Arc<AtomicUsize>);

impl Tool for Looks {
    type Input = NoInput;
    type Output = String;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("looks").description("Looks at a file.")
    }

    fn effects(&self, _: &NoInput) -> Effects {
        Effects::reads("a")
    }

    async fn check(&self, _: &NoInput, _: &Context) -> Result<(), ToolError> {
        assert_eq!(self.0.load(Ordering::Relaxed), 1);
        Ok(())
    }

    async fn call(&self, _: NoInput, _: &Context) -> Result<String, ToolError> {
        Ok(self.0.load(Ordering::Relaxed).to_string())
    }
}

#[tokio::test]
async fn what_lies_there_for_children_goes_before_tools_look_at_files() {
    let untidy = Untidy::default();
    let count = untidy.0.clone();
    let caller = Caller::new()
        .tool(Looks(count.clone()))
        .tool(plain("thinks", Effects::none()))
        .tool(plain("runs", Effects::reads("a")).spec(|spec| spec.in_child().group("x")))
        .engine(|engine| engine.ports(|ports| ports.processes = Some(Arc::new(untidy))));
    let result = caller.call("looks", "{}").await;
    assert!(!result.is_error(), "{result:?}");
    assert_eq!(count.load(Ordering::Relaxed), 2, "and before it runs, since others may have run meanwhile");
    for name in ["thinks", "runs"] {
        caller.call(name, "{}").await;
    }
    assert_eq!(count.load(Ordering::Relaxed), 2, "who doesn't look by itself needs none");
}
