//! The crate from outside: what a host and a tool's author can rely on, one module for each subject.
//!
//! One binary, so that one link serves all. `known_bugs` holds what is right and not so today.
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it means here")]

mod agents;
mod background;
mod bombs;
mod busy;
mod contract;
mod dispatch;
mod execution;
mod masses;
mod misuse;
mod own_writes;
mod panics;
mod permission;
mod permission_panics;
mod pipeline;
mod pipeline_hooks;
mod registry;
mod regressions;
mod results;
mod sandbox_rules;
mod search;

use std::future::Ready;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use haft::decision::DecisionReason;
use haft::ports::Authorizer;
use haft::testing::TestCaller;
use haft::tool::{AnyTool, DynamicTool, IntoTools};
use haft::{Context, Effects, ToolError, Workspace, dynamic_tool};
use serde_json::{Value, json};

/// A tool that says `done`.
type Plain = DynamicTool<fn(Value, Context) -> Ready<Result<&'static str, ToolError>>>;

fn plain(name: &str, effects: Effects) -> Plain {
    fn done(_: Value, _: Context) -> Ready<Result<&'static str, ToolError>> {
        std::future::ready(Ok("done"))
    }
    let schema = json!({"type": "object"});
    dynamic_tool(name, "Says that it is done.", schema, done as fn(_, _) -> _)
        .effects(move |_| effects.clone())
}

/// A tool that changes nothing.
fn reader(name: &str) -> Plain {
    plain(name, Effects::none())
}

/// A tool that changes something that isn't a file, and vouches for it.
fn changer(name: &str) -> Plain {
    plain(name, Effects::writes_state("test")).permission(|_| Some(DecisionReason::allow()))
}

fn any<Kind>(tool: impl IntoTools<Kind>) -> AnyTool {
    tool.into_tools().expect("a tool of a test is a good one").remove(0)
}

/// A folder of its own for one test.
struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Dir {
        Dir(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        // Real, so that it can be compared with what the engine says.
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn link(&self, name: &str, to: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::symlink(to, &path).unwrap();
        path
    }

    /// A workspace in a folder `w` of this one, so that there is an outside too.
    fn workspace(&self) -> Workspace {
        Workspace::new(self.folder("w")).unwrap()
    }
}

/// What happened, in order, from anywhere.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn say(&self, words: impl Into<String>) {
        self.0.lock().unwrap().push(words.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A caller in a workspace of its own, with these rules.
fn caller_in(dir: &Dir, tool: impl IntoTools<()>, rules: impl Authorizer) -> TestCaller {
    let workspace = dir.workspace();
    TestCaller::new().tool(tool).engine(|engine| engine.workspace(workspace).permissions(rules))
}

/// A file that nobody declared would be silently not tested.
#[test]
fn every_file_is_a_module() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = std::fs::read_to_string(folder.join("main.rs")).unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let declared = name == "main" || main.contains(&format!("mod {name};"));
        assert!(declared, "`{}` is not declared in main.rs", path.display());
    }
}
