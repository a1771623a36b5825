//! What tests of the file tools play in: a folder, and a session that works there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use haft::ports::{ApprovalAnswer, ApprovalRequest, Asker, UserQuestion};
use haft::{
    CallView, Engine, EngineBuilder, ErrorKind, PermissionRules, Registry, ToolCall, ToolResult, Workspace,
};
use haft_sandbox::LocalProcesses;
use serde_json::Value;
use tempfile::TempDir;

/// A folder with one session in it.
pub(crate) struct Room {
    temp: TempDir,
    builder: EngineBuilder,
    engine: Engine,
}

impl Room {
    pub(crate) fn new() -> Room {
        Room::at(tempfile::tempdir().unwrap())
    }

    /// A room that waits for no disk, where there is a place for that.
    pub(crate) fn in_memory() -> Room {
        Room::at(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    /// A session that remembers what it has read.
    pub(crate) fn remembering() -> Room {
        Room::of(tempfile::tempdir().unwrap(), haft_tools::BuiltIns::new().reads_first(true))
    }

    fn at(temp: TempDir) -> Room {
        Room::of(temp, haft_tools::BuiltIns::new())
    }

    fn of(temp: TempDir, tools: haft_tools::BuiltIns) -> Room {
        let names = ["ApplyPatch", "Edit", "MultiEdit", "NotebookEdit", "Rewind", "Write"];
        let permissions =
            names.into_iter().fold(PermissionRules::new(), |rules, name| rules.allow(name).unwrap());
        let builder = Engine::builder(Registry::new().with(tools.tools()).unwrap())
            .workspace(Workspace::new(temp.path()).unwrap())
            .ports(|ports| ports.processes = Some(Arc::new(LocalProcesses::new(std::env::vars_os()))))
            .permissions(permissions);
        Room { temp, engine: builder.clone().build(), builder }
    }

    /// A room with these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Room {
        let room = Room::new();
        files.iter().for_each(|(name, text)| room.put(name, text));
        room
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn real(&self) -> String {
        self.path("").display().to_string().trim_end_matches('/').to_owned()
    }

    /// Writes a file behind the session's back.
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    #[track_caller]
    pub(crate) fn content(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    /// Makes a file this many seconds old.
    pub(crate) fn age(&self, name: &str, seconds: u64) {
        let file = fs::File::options().write(true).open(self.path(name)).unwrap();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000);
        file.set_modified(now - Duration::from_secs(seconds)).unwrap();
    }

    /// A builder for other engines in this room.
    pub(crate) fn builder(&self) -> EngineBuilder {
        self.builder.clone()
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn call(&self, tool: &str, input: Value) -> ToolResult {
        run(&self.engine, tool, input)
    }

    /// The text of a call that succeeds, with the room's path as `ROOM`.
    #[track_caller]
    pub(crate) fn text(&self, tool: &str, input: Value) -> String {
        match self.call(tool, input).outcome() {
            Ok(output) => output.to_text().replace(&self.real(), "ROOM"),
            Err(error) => panic!("{error:?}"),
        }
    }

    /// Kind and words of a call that fails.
    #[track_caller]
    pub(crate) fn error(&self, tool: &str, input: Value) -> (ErrorKind, String) {
        match self.call(tool, input).outcome() {
            Ok(output) => panic!("{}", output.to_text()),
            Err(error) => (error.kind(), error.message().replace(&self.real(), "ROOM")),
        }
    }

    /// What a person is asked before this call.
    pub(crate) fn asked(&self, tool: &str, input: Value) -> ApprovalRequest {
        let caught: Arc<Mutex<Option<ApprovalRequest>>> = Arc::default();
        let engine =
            self.builder.clone().permissions(PermissionRules::new()).asker(Catch(caught.clone())).build();
        run(&engine, tool, input);
        caught.lock().unwrap().take().expect("it asks")
    }

    pub(crate) fn view(&self, tool: &str, input: Value) -> CallView {
        self.call(tool, input).view()
    }
}

/// Keeps what is asked, and says no.
struct Catch(Arc<Mutex<Option<ApprovalRequest>>>);

impl Asker for Catch {
    fn approve<'a>(&'a self, approval: &'a ApprovalRequest) -> haft::future::BoxFuture<'a, ApprovalAnswer> {
        *self.0.lock().unwrap() = Some(approval.clone());
        Box::pin(async { ApprovalAnswer::No })
    }

    fn question<'a>(&'a self, _: &'a UserQuestion) -> haft::future::BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(async { None })
    }
}

pub(crate) fn run(engine: &Engine, tool: &str, input: Value) -> ToolResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(engine.turn().run([ToolCall::new("1", tool, input)])).remove(0)
}

pub(crate) fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}
