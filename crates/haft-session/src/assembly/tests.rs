//! Tests of the engine that flags and environment produce, with tools that this binary doesn't have.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use haft::tool::IntoTools as _;
use haft::{Chars, Effects, ErrorKind, ToolCall, ToolResult, dynamic_tool};
use serde_json::{Value, json};

use super::workspace::real_path;
use super::*;
use crate::SessionEnvironment;

/// A session in a folder of its own: `work` to work in, `real_path` for state and settings, `link` to get
/// there.
struct Session {
    dir: tempfile::TempDir,
    builder: EngineBuilder,
    engine: Engine,
}

impl Session {
    fn new() -> Session {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["work", "real"] {
            fs::create_dir(path(name)).unwrap();
        }
        symlink(path("real"), path("link")).unwrap();
        let environment = SessionEnvironment::new({
            let (state, config, home) = (path("link/state"), path("link/config"), path("home"));
            move |name| match name {
                haft::env::HAFT_STATE_DIR => Some(state.clone().into_os_string()),
                haft::env::HAFT_CONFIG_DIR => Some(config.clone().into_os_string()),
                "HOME" => Some(home.clone().into_os_string()),
                _ => None,
            }
        });
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        let path_of = |input: &Value| input["path"].as_str().unwrap_or_default().to_owned();
        let touch = dynamic_tool("touch", "Pretends to write.", schema.clone(), |_, _| async { Ok("done") })
            .effects(move |input| Effects::writes(path_of(input)));
        let long = dynamic_tool("long", "Says much.", schema, |_, _| async { Ok("word\n".repeat(1_000)) })
            .effects(|_| Effects::none())
            .result_limit(Chars(600));
        let options = SessionOptions {
            cwd: Some(path("work")),
            permission_mode: Some(haft::ports::PermissionMode::BypassPermissions),
            allow: vec![
                "touch".to_owned(),
                format!("Edit(/{}/**)", dir.path().canonicalize().unwrap().display()),
            ],
            // A terminal that runs the tests doesn't affect them.
            non_interactive: true,
            tools: [touch.into_tools().unwrap(), long.into_tools().unwrap()].concat(),
            environment,
            ..SessionOptions::default()
        };
        let factory = SessionAssembler::load(&options, SessionPurpose::Inspect).unwrap();
        let builder = factory.open().unwrap().engine;
        Session { dir, engine: builder.clone().build(), builder }
    }

    fn call(&self, tool: &str, input: Value) -> ToolResult {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(self.engine.turn().run([ToolCall::new("1", tool, input)])).remove(0)
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }
}

#[test]
fn no_tool_writes_state_or_settings() {
    let session = Session::new();
    let touch = |name: &str| session.call("touch", json!({"path": session.path(name)})).error_kind();
    for protected in
        ["link/state/x", "real/state/x", "real/state", "link/config/settings.json", "real/config"]
    {
        assert_eq!(touch(protected), Some(ErrorKind::Denied), "{protected}");
    }
    // The default locations, where other sessions read them.
    for usual in [".config/haft/settings.json", ".local/state/haft/x", ".claude/settings.json"] {
        assert_eq!(touch(&format!("home/{usual}")), Some(ErrorKind::Denied), "{usual}");
    }
    for free in ["work/x", "home/.config/other", "real/stated", "real/other"] {
        assert_eq!(touch(free), None, "{free}");
    }
}

#[test]
fn long_results_are_kept_in_the_state_folder_and_can_be_read() {
    let session = Session::new();
    let result = session.call("long", json!({}));
    let kept = result.offloaded_to().unwrap().to_owned();
    let results = fs::canonicalize(session.path("real/state/results")).unwrap();
    assert_eq!(kept.parent(), Some(results.as_path()));
    assert_eq!(fs::metadata(&results).unwrap().permissions().mode() & 0o777, 0o700);
    let text = result.outcome().unwrap().to_text();
    assert!(text.contains("read it with Read") && text.contains("search it with Grep"), "{text}");

    // Without a rule that allows reads outside: a session's own results are always readable.
    let builder = session.builder.clone().permissions(haft::PermissionRules::new());
    let session = Session { engine: builder.build(), ..session };
    let read = session.call("Read", json!({"file_path": kept, "limit": 1}));
    assert!(read.outcome().unwrap().to_text().starts_with("1\tword"));
    let found = session.call("Grep", json!({"pattern": "word", "path": kept, "output_mode": "count"}));
    assert!(found.outcome().unwrap().to_text().ends_with(":1000"));
    let beside = session.path("real/state/other");
    fs::write(&beside, "x").unwrap();
    assert_eq!(session.call("Read", json!({"file_path": beside})).error_kind(), Some(ErrorKind::Denied));
}

#[test]
fn a_folder_that_is_not_there_is_resolved_as_far_as_it_goes() {
    let session = Session::new();
    let expected = fs::canonicalize(session.path("real")).unwrap().join("not/yet");
    assert_eq!(real_path(Path::new(&session.path("link/not/yet"))), expected);
}
