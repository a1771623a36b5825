//! Hooks in the real engine, with real programs.

mod calls;
mod events;
mod failures;
#[cfg(feature = "http-hooks")]
mod http;
mod session;

use std::path::Path;
use std::sync::Arc;

use haft::testing::{EventLog, TestCaller};
use haft::{Effects, Registry, ToolError, dynamic_tool};
use haft_policy::hooks::{HookSession, Hooks, InvalidHooks};
use haft_policy::settings::{Settings, SettingsFlags, SettingsLayers, SettingsPlaces, TrustStatus};
use haft_sandbox::LocalProcesses;
use serde_json::{Value, json};

/// A project with hooks in its own folder.
pub(crate) struct Scene {
    dir: tempfile::TempDir,
    pub(crate) log: EventLog,
    processes: Arc<LocalProcesses>,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let dir = tempfile::tempdir().expect("a folder");
        let processes = Arc::new(LocalProcesses::new(std::env::vars_os()));
        Scene { dir, log: EventLog::new(), processes }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a program.
    pub(crate) fn script(&self, name: &str, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.dir().join(name);
        std::fs::write(&path, text).expect("a script");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a program");
        path.to_str().expect("a path in UTF-8").to_owned()
    }

    pub(crate) fn settings(&self, settings: &Value) -> Settings {
        let places = SettingsPlaces {
            managed: None,
            claude_managed_dir: None,
            claude_json: None,
            config_dir: None,
            claude_dir: None,
            state_dir: None,
            usual: Vec::new(),
            home: None,
            cwd: self.dir().canonicalize().expect("the folder"),
            git_root: None,
        };
        let flags = SettingsFlags { settings: vec![settings.to_string()], ..SettingsFlags::default() };
        SettingsLayers::read(&places, &flags).expect("good settings").merge(TrustStatus::Trusted)
    }

    pub(crate) fn session(&self) -> HookSession {
        HookSession::new("s-1", self.dir()).with_transcript("/t/transcript.jsonl")
    }

    pub(crate) fn try_hooks(&self, settings: &Value, session: HookSession) -> Result<Hooks, InvalidHooks> {
        Hooks::from_settings(&self.settings(settings), self.processes.clone(), session)
    }

    /// Creates hooks from `{"PreToolUse": [group…]}`.
    pub(crate) fn hooks(&self, hooks: Value) -> Hooks {
        self.try_hooks(&json!({"hooks": hooks}), self.session()).expect("good hooks")
    }

    /// Returns a caller of some tools with these hooks.
    pub(crate) fn caller(&self, hooks: &Hooks) -> TestCaller {
        TestCaller::with_registry(registry()).engine(|engine| {
            let workspace = haft::Workspace::new(self.dir()).expect("the folder");
            engine
                .workspace(workspace)
                .hooks(hooks.add_to(haft::hooks::HookSet::new()))
                .events(self.log.clone())
        })
    }

    /// Runs one call of `Echo` with these hooks. Returns the line of its result.
    pub(crate) async fn echo(&self, hooks: Value, input: Value) -> String {
        self.call(hooks, "Echo", input).await
    }

    pub(crate) async fn call(&self, hooks: Value, tool: &str, input: Value) -> String {
        let hooks = self.hooks(hooks);
        self.caller(&hooks).turn([("1", tool, input)]).await.lines().remove(0)
    }

    /// Returns what a hook wrote to a file of the project.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir().join(name)).unwrap_or_default()
    }

    pub(crate) fn read_json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).expect("JSON")
    }
}

/// Returns one group with one command for all tools.
pub(crate) fn run(command: &str) -> Value {
    json!([{"hooks": [{"type": "command", "command": command}]}])
}

/// Returns one group with several commands for all tools.
pub(crate) fn run_all<'a>(commands: impl IntoIterator<Item = &'a str>) -> Value {
    let hooks: Vec<Value> =
        commands.into_iter().map(|command| json!({"type": "command", "command": command})).collect();
    json!([{"hooks": hooks}])
}

/// Returns a command that prints this value.
pub(crate) fn print(value: &Value) -> String {
    format!("cat <<'END'\n{value}\nEND")
}

/// Returns a command that answers a gate with this value.
pub(crate) fn answer(event: &str, mut specific: Value) -> String {
    specific["hookEventName"] = event.into();
    print(&json!({"hookSpecificOutput": specific}))
}

/// `Echo` and `Read` run without asking and return their input, `Write` asks first, `Fail` fails, `Data`
/// returns an object.
fn registry() -> Registry {
    let any = json!({
        "type": "object",
        "properties": {"n": {"type": "number"}, "file_path": {"type": "string"}, "by": {"type": "string"}},
    });
    let echo = |name: &str, effects: Effects| {
        dynamic_tool(name, "A tool.", any.clone(), |input: Value, _| async move { Ok(input.to_string()) })
            .effects(move |_| effects.clone())
    };
    let fail = dynamic_tool("Fail", "A tool.", any.clone(), |_, _| async {
        Err::<String, _>(ToolError::new("it broke"))
    });
    let data = dynamic_tool("Data", "A tool.", any.clone(), |_, _| async {
        Ok(haft::Json(json!({"rows": 2, "name": "x"})))
    });
    Registry::new()
        .with(echo("Echo", Effects::none()))
        .and_then(|all| all.with(echo("Read", Effects::none())))
        .and_then(|all| all.with(echo("Write", Effects::writes("out.txt"))))
        .and_then(|all| all.with(fail.effects(|_| Effects::none())))
        .and_then(|all| all.with(data.effects(|_| Effects::none())))
        .expect("tools")
}
