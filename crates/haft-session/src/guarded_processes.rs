//! Child processes as settings and trust require: their environment, and that only trusted files start.
//!
//! This port wraps the port that starts processes. Tools don't know settings, and the sandbox doesn't know
//! trust. A call may wait long for an answer, and a file that was trusted before may have changed since.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::future::BoxFuture;
use haft::ports::{EnforcedRules, ProcessError, ProcessOutcome, ProcessRequest, Processes};
use haft_policy::trust::{ScriptReference, TrustInventory};

/// Starts processes with the environment of the settings, and only files that are unchanged since they were
/// trusted.
pub(crate) struct GuardedProcesses<P> {
    processes: Arc<P>,
    /// Variables of the settings. Those of a request override them.
    env: Vec<(OsString, OsString)>,
    /// The folder of the workspace's script tools if they are in use, with the trusted inventory.
    trusted: Option<(PathBuf, TrustInventory)>,
}

impl<P: Processes> GuardedProcesses<P> {
    pub(crate) fn new(
        processes: Arc<P>,
        env: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> GuardedProcesses<P> {
        GuardedProcesses { processes, env: env.into_iter().collect(), trusted: None }
    }

    /// Starts files in this folder only if they are unchanged since they were trusted.
    pub(crate) fn with_trusted(mut self, folder: PathBuf, inventory: TrustInventory) -> GuardedProcesses<P> {
        self.trusted = Some((folder, inventory));
        self
    }

    /// Returns what has changed since it was trusted among the files that the request starts: the files
    /// that it names, and all files of a tool if one of them is a tool's.
    fn changed(&self, request: &ProcessRequest) -> Option<String> {
        let (folder, inventory) = self.trusted.as_ref()?;
        let named: BTreeSet<PathBuf> = request.argv.iter().map(|word| request.cwd.join(word)).collect();
        let tool_of = |path: &Path| {
            let name = path.strip_prefix(folder).ok()?.components().next()?;
            Some(folder.join(name))
        };
        let tools: BTreeSet<PathBuf> =
            named.iter().map(PathBuf::as_path).chain([&*request.cwd]).filter_map(tool_of).collect();
        let meant =
            |file: &Path| named.contains(file) || tool_of(file).is_some_and(|tool| tools.contains(&tool));
        let mut changes = inventory.stale(|item| item.file().is_some_and(meant));
        changes.extend(tools.iter().flat_map(|tool| inventory.stale_scripts(&ScriptReference::Tool(tool))));
        changes.first().map(ToString::to_string)
    }
}

impl<P: Processes> Processes for GuardedProcesses<P> {
    fn confines(&self) -> bool {
        self.processes.confines()
    }

    fn enforced_rules(&self) -> EnforcedRules {
        self.processes.enforced_rules()
    }

    fn begin_writes(&self, paths: &[PathBuf]) {
        self.processes.begin_writes(paths);
    }

    fn end_writes(&self, paths: &[PathBuf]) {
        self.processes.end_writes(paths);
    }

    fn check_host<'a>(
        &'a self,
        host: &'a str,
        port: u16,
        grants: &'a [String],
    ) -> BoxFuture<'a, Result<(), String>> {
        self.processes.check_host(host, port, grants)
    }

    fn run<'a>(&'a self, mut request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>> {
        if let Some(change) = self.changed(&request) {
            let message = format!(
                "it was not started: this workspace has changed since it was trusted ({change}); the user can look at it with `haft trust`"
            );
            return Box::pin(async { Err(ProcessError { message }) });
        }
        let asked = std::mem::take(&mut request.env);
        request.env = self.env.iter().cloned().chain(asked).collect();
        self.processes.run(request)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use haft::testing::ScriptedProcesses;
    use haft_policy::settings::SettingsPlaces;
    use haft_policy::trust;

    use super::*;

    /// A workspace with one script tool and a script outside of it, and its child processes.
    struct Scene {
        dir: tempfile::TempDir,
        started: ScriptedProcesses,
        children: GuardedProcesses<ScriptedProcesses>,
    }

    impl Scene {
        fn new() -> Scene {
            let dir = tempfile::tempdir().unwrap();
            let cwd = dir.path().canonicalize().unwrap();
            let tool = cwd.join(".haft/tools/t");
            fs::create_dir_all(&tool).unwrap();
            fs::write(tool.join("tool.json"), r#"{"command": ["sh", "lib.sh"]}"#).unwrap();
            fs::write(tool.join("run"), "1").unwrap();
            let other = cwd.join(".haft/tools/u");
            fs::create_dir_all(&other).unwrap();
            fs::write(other.join("tool.json"), r#"{"command": ["./run"]}"#).unwrap();
            fs::write(other.join("run"), "1").unwrap();
            fs::write(cwd.join("lib.sh"), "1").unwrap();
            let places = SettingsPlaces::from_env(&cwd, &|_| None).unwrap();
            let inventory = trust::inspect_workspace(&SettingsPlaces {
                managed: None,
                claude_managed_dir: None,
                ..places
            })
            .unwrap();
            let started = ScriptedProcesses::new().prints("a").prints("b").prints("c").prints("d");
            let env = [("A", "settings"), ("B", "settings")].map(|(name, value)| (name.into(), value.into()));
            let children = GuardedProcesses::new(Arc::new(started.clone()), env)
                .with_trusted(cwd.join(".haft/tools"), inventory);
            Scene { dir, started, children }
        }

        fn start(&self, argv: &[&str]) -> Result<Vec<String>, String> {
            let cwd = self.dir.path().canonicalize().unwrap();
            let request = ProcessRequest::new(argv, cwd).with_env("B", "tool");
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let outcome = runtime.block_on(self.children.run(request));
            outcome.map_err(|error| error.message)?;
            let request = self.started.requests().pop().unwrap();
            let shown =
                |(name, value): &(OsString, OsString)| format!("{}={}", name.display(), value.display());
            Ok(request.env.iter().map(shown).collect())
        }

        fn write(&self, file: &str) {
            fs::write(self.dir.path().join(file), "2").unwrap();
        }
    }

    fn program_of(scene: &Scene, tool: &str) -> String {
        let cwd = scene.dir.path().canonicalize().unwrap();
        cwd.join(".haft/tools").join(tool).join("run").display().to_string()
    }

    #[test]
    fn settings_come_first_and_a_tool_has_the_last_word() {
        let env = Scene::new().start(&["true"]).unwrap();
        assert_eq!(env, ["A=settings", "B=settings", "B=tool"]);
    }

    /// The user may take a minute to answer whether a tool may run. The files that were trusted before are
    /// those that run after.
    #[test]
    fn what_changed_since_it_was_trusted_is_not_started() {
        let scene = Scene::new();
        let program = program_of(&scene, "t");
        assert!(scene.start(&[&program]).is_ok());
        assert!(scene.start(&["sh", "lib.sh"]).is_ok());
        scene.write(".haft/tools/t/run");
        let refused = scene.start(&[&program]).unwrap_err();
        assert!(refused.contains("changed file of a script tool `.haft/tools/t/run`"), "{refused}");
        assert!(scene.start(&["true"]).is_ok(), "what has nothing to do with it runs");
        let other = program.replace("/t/", "/u/");
        assert!(scene.start(&[&other]).is_ok(), "so does another tool");

        // A script of the tool outside of its folder is a part of the tool.
        let scene = Scene::new();
        scene.write("lib.sh");
        let refused = scene.start(&[&program_of(&scene, "t")]).unwrap_err();
        assert!(refused.contains("changed script `lib.sh`"), "{refused}");
        assert!(scene.start(&[&program_of(&scene, "u")]).is_ok());
        let refused = scene.start(&["sh", "lib.sh"]).unwrap_err();
        assert!(refused.contains("changed script `lib.sh`"), "{refused}");
    }
}
