//! What a tool writes by itself is told to whoever watches what children do.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use haft::testing::TestCaller;
use haft::{Context, Effects, NoInput, PermissionRules, Tool, ToolError, ToolSpec};

use crate::plain;

/// Remembers what it was told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn tell(&self, what: &str, paths: &[PathBuf]) {
        let names = paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap());
        self.0.lock().unwrap().push(format!("{what} {}", names.collect::<Vec<_>>().join(" ")));
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl haft::ports::Processes for Told {
    fn confines(&self) -> bool {
        true
    }

    fn enforced_rules(&self) -> haft::ports::EnforcedRules {
        haft::ports::EnforcedRules::None
    }

    fn run<'a>(
        &'a self,
        _: haft::ports::ProcessRequest,
    ) -> haft::future::BoxFuture<'a, Result<haft::ports::ProcessOutcome, haft::ports::ProcessError>> {
        unreachable!("no tool here starts anything")
    }

    fn begin_writes(&self, paths: &[PathBuf]) {
        self.tell("begin", paths);
    }

    fn end_writes(&self, paths: &[PathBuf]) {
        self.tell("end", paths);
    }
}

/// Writes two files; or panics.
struct Writes(Told, bool);

impl Tool for Writes {
    type Input = NoInput;
    type Output = String;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(if self.1 { "panics" } else { "writes" }).description("Writes files.")
    }

    fn effects(&self, _: &NoInput) -> Effects {
        Effects::writes("a").and(Effects::deletes("b"))
    }

    async fn call(&self, _: NoInput, _: &Context) -> Result<String, ToolError> {
        assert!(!self.1, "it panics");
        Ok(self.0.take().join(", "))
    }
}

#[tokio::test]
async fn whoever_watches_children_is_told_of_own_writes() {
    let told = Told::default();
    let processes = told.clone();
    let rules = ["writes", "panics", "runs"]
        .into_iter()
        .fold(PermissionRules::new(), |rules, name| rules.allow(name).unwrap());
    let caller = TestCaller::new()
        .tool(Writes(told.clone(), false))
        .tool(Writes(told.clone(), true))
        .tool(plain("reads", Effects::reads("a")))
        .tool(plain("runs", Effects::runs("touch a").and(Effects::writes("a"))))
        .tool(plain("child", Effects::writes("a")).spec(|spec| spec.in_child().group("x")))
        .engine(|engine| {
            engine.permissions(rules).ports(|ports| ports.processes = Some(Arc::new(processes)))
        });
    let result = caller.call("writes", "{}").await;
    assert_eq!(result.text(), "begin a b");
    assert_eq!(told.take(), ["end a b"]);
    assert!(caller.call("panics", "{}").await.is_error());
    assert_eq!(told.take(), ["begin a b", "end a b"]);
    for name in ["reads", "runs", "child"] {
        caller.call(name, "{}").await;
        assert_eq!(told.take(), [] as [String; 0], "{name}");
    }
}
