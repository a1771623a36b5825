//! Script tools from the outside: folders on the disk, and programs that really run.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use haft::event::EventKind;
use haft::future::BoxFuture;
use haft::ports::{
    ApprovalAnswer, CallIntent, ConfinementRefusal, HostAnswer, PermissionMode, ProcessExit, ProcessOutcome,
    ProcessRequest, RecordError, Recorder, RequestDecision, WantedHost,
};
use haft::results::OffloadStore;
use haft::testing::{EventLog, ScriptedAsker};
use haft::{Engine, EngineBuilder, ErrorKind, PermissionRules, Registry, ToolCall, ToolResult, Workspace};
use haft_sandbox::LocalProcesses;
use serde_json::{Value, json};

use haft_tools::scripts::*;

use crate::confined::{ConfinedProcesses, ended};

/// A folder `tools` with scripts, and a folder `work` to run them in.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { dir: tempfile::tempdir().unwrap() };
        for dir in ["tools", "work"] {
            fs::create_dir(place.path(dir)).unwrap();
        }
        place
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }

    /// A tool `NAME` that runs this shell script, with these fields besides.
    fn script(&self, name: &str, script: &str, fields: Value) {
        self.write(&format!("tools/{name}/run.sh"), &format!("#!/bin/bash\n{script}\n"), 0o755);
        self.manifest(name, manifest(name, fields));
    }

    fn manifest(&self, name: &str, manifest: Value) {
        self.write(&format!("tools/{name}/tool.json"), &format!("{manifest:#}"), 0o644);
    }

    fn write(&self, path: &str, text: &str, mode: u32) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn load(&self) -> LoadedScripts {
        load_scripts(&self.path("tools")).unwrap()
    }

    /// What is wrong, with the place's own path left out.
    fn problems(&self) -> Vec<String> {
        let plain =
            |problem: &ScriptProblem| problem.to_string().replace(self.path("").to_str().unwrap(), "");
        self.load().problems.iter().map(plain).collect()
    }

    /// An engine that has the scripts, asks nobody and allows these.
    fn engine(&self, allowed: &[&str]) -> EngineBuilder {
        let loaded = self.load();
        assert_eq!(loaded.problems, []);
        let (registry, problems) = loaded.register(&Registry::new(), "script:test");
        assert_eq!(problems, []);
        let permissions =
            allowed.iter().try_fold(PermissionRules::new(), |all, name| all.allow(*name)).unwrap();
        Engine::builder(registry)
            .workspace(Workspace::new(self.path("work")).unwrap())
            .permissions(permissions)
            .result_store(OffloadStore::at(self.path("results")))
            .ports(|ports| ports.processes = Some(Arc::new(LocalProcesses::new(std::env::vars_os()))))
    }

    /// Calls one script that is allowed.
    async fn call(&self, name: &str, arguments: Value) -> ToolResult {
        one(&self.engine(&[name]).build(), name, arguments).await
    }

    /// The result of a script with this body: its text, or kind and words of its error.
    async fn result(&self, script: &str, fields: Value) -> Result<String, (ErrorKind, String)> {
        self.script("t", script, fields);
        outcome(&self.call("t", json!({})).await)
    }
}

/// A child that wants a host, and fails without it.
async fn wants_host(request: ProcessRequest) -> ProcessOutcome {
    let wanted = WantedHost { host: "a.example".into(), port: 443, port_rule: None, group: None };
    match request.child_requests.expect("a script can ask").ask(wanted).await {
        HostAnswer::Granted(_) => ended(ProcessExit::Code(0), Vec::new()),
        HostAnswer::Refused(why) => {
            let host = "a.example".to_owned();
            ended(
                ProcessExit::Code(1),
                vec![ConfinementRefusal::Host { host, port: Some(443), why, grantable: true }],
            )
        }
    }
}

/// What the journal is told of requests.
#[derive(Default)]
struct DecidedRequests(Mutex<Vec<String>>);

impl Recorder for DecidedRequests {
    fn before<'a>(&'a self, _: &'a CallIntent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
        Box::pin(async { Ok(()) })
    }

    fn after<'a>(
        &'a self,
        _: &'a CallIntent<'a>,
        _: &'a ToolResult,
    ) -> BoxFuture<'a, Result<(), RecordError>> {
        Box::pin(async { Ok(()) })
    }

    fn request_decided(&self, decided: &RequestDecision<'_>) {
        let RequestDecision { agent, call_id, wanted, outcome, source, .. } = decided;
        self.0.lock().unwrap().push(format!("{agent} {call_id} {wanted:?} {outcome} {source:?}"));
    }
}

/// A script asks for hosts as commands do, its failure says what would open one, and the journal has what was
/// decided.
#[tokio::test]
async fn a_script_asks_for_hosts() {
    let place = Place::new();
    place.script("t", "true", json!({}));
    let allowed = "main 1 [\"a.example:443\"] allowed User";
    for (answer, says, decided) in [
        (Some(ApprovalAnswer::Once), "", allowed),
        (
            Some(ApprovalAnswer::NoBecause("not now".into())),
            "the user said no to `a.example`: not now",
            "not now User",
        ),
        (None, "nobody can be asked here", "NoUser"),
    ] {
        let requests = Arc::<DecidedRequests>::default();
        let mut engine = place.engine(&["t"]).ports(|ports| {
            ports.processes = Some(Arc::new(ConfinedProcesses(wants_host)));
            ports.recorder = Some(requests.clone());
        });
        if let Some(answer) = answer {
            engine = engine.asker(ScriptedAsker::new().then(answer));
        }
        let result = outcome(&one(&engine.build(), "t", json!({})).await);
        match result {
            Ok(text) => assert_eq!((text.as_str(), says), ("", "")),
            Err((_, text)) => {
                let refused = "[haft: it could not reach a.example:443: ";
                assert!(!says.is_empty() && text.contains(refused) && text.contains(says), "{text}");
            }
        }
        let requests = requests.0.lock().unwrap();
        assert!(requests.len() == 1 && requests[0].ends_with(decided), "{requests:?}");
    }
}

async fn one(engine: &Engine, name: &str, arguments: Value) -> ToolResult {
    engine.turn().run([ToolCall::new("1", name, arguments)]).await.remove(0)
}

fn outcome(result: &ToolResult) -> Result<String, (ErrorKind, String)> {
    let error = |error: &haft::ToolError| (error.kind(), error.message().to_owned());
    result.outcome().map(haft::ToolOutput::to_text).map_err(error)
}

fn manifest(name: &str, fields: Value) -> Value {
    let mut all = json!({
        "name": name,
        "description": "A tool of a test.",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}, "paths": {"type": "array"}}},
        "command": ["./run.sh"],
    });
    let fields = fields.as_object().unwrap().clone();
    let all_fields = all.as_object_mut().unwrap();
    for (name, value) in fields {
        match value {
            // For a field that has to be missing.
            Value::Null => all_fields.remove(&name),
            value => all_fields.insert(name, value),
        };
    }
    all
}

#[tokio::test]
async fn arguments_go_in_and_the_result_comes_out() {
    let place = Place::new();
    let program = "#!/usr/bin/env python3\nimport json, sys\nargs = json.load(sys.stdin)\nprint(len(args['path']), end='')\n";
    place.write("tools/py/run.py", program, 0o755);
    place.manifest("py", manifest("py", json!({"command": ["./run.py"]})));
    assert_eq!(outcome(&place.call("py", json!({"path": "four"})).await), Ok("4".into()));
    // One line, so that a shell can read it.
    place.script(
        "sh",
        "read -r line; echo \"$line\"; pwd; echo \"$@\"",
        json!({"command": ["./run.sh", "a b", "c"]}),
    );
    let expected = format!("{{\"path\":\"ü\"}}\n{}\na b c", place.path("work").display());
    assert_eq!(outcome(&place.call("sh", json!({"path": "ü"})).await), Ok(expected));
}

#[tokio::test]
async fn one_line_break_at_the_end_is_trimmed() {
    let place = Place::new();
    for (script, expected) in
        [("printf x", "x"), ("echo x", "x"), ("printf 'x\\n\\n'", "x\n"), ("true", ""), ("printf '\\n'", "")]
    {
        assert_eq!(place.result(script, json!({})).await, Ok(expected.into()), "{script}");
    }
    let not_text = place.result(r"printf 'a\xffb'", json!({})).await.unwrap();
    assert_eq!(not_text, "a\u{FFFD}b\n[haft: this is not all UTF-8; \u{FFFD} stands for what is not]");
}

#[tokio::test]
async fn each_failure_has_its_kind_and_words() {
    let place = Place::new();
    let failed = |words: &str| Err((ErrorKind::Failed, words.to_owned()));
    for (script, expected) in [
        ("echo result; echo 'no such user: 7' >&2; exit 1", "no such user: 7"),
        ("exit 3", "t ended with exit code 3 and said nothing"),
        ("echo half; exit 3", "t ended with exit code 3 and said nothing; its output ends: half"),
        ("kill -9 $$", "t was killed by signal 9 (SIGKILL, as when memory runs out)"),
        ("echo oh >&2; kill -SEGV $$", "t was killed by signal 11 (SIGSEGV); it said: oh"),
    ] {
        assert_eq!(place.result(script, json!({})).await, failed(expected), "{script}");
    }
    let late = place.result("echo begun >&2; sleep 100", json!({"timeout_ms": 200})).await;
    let words = "t was stopped: it did not finish within 0.2 s; the user did not interrupt. Ask for less at once; it said: begun";
    assert_eq!(late, Err((ErrorKind::TimedOut, words.into())));
    let long = place.result("seq 1 100000 >&2; exit 1", json!({})).await.unwrap_err().1;
    assert!(long.starts_with("1\n2\n3") && long.contains("\n…\n") && long.ends_with("100000"), "{long}");
    assert!(long.len() < 9_000);
}

#[tokio::test]
async fn json_is_one_value_that_fits() {
    let place = Place::new();
    let json = |schema: Value| json!({"output": "json", "output_schema": schema});
    let any = || json!({"output": "json"});
    place.script("t", r#"echo '{"n": 7}'"#, any());
    assert_eq!(place.call("t", json!({})).await.outcome().unwrap().to_json(), json!({"n": 7}));
    let schema = || json(json!({"type": "array", "items": {"type": "integer"}}));
    assert_eq!(place.result("echo '[1, 2]'", schema()).await, Ok("[1,2]".into()));
    let fault = "this is a fault of the tool, not of your input";
    for (script, fields, expected) in [
        ("true", any(), format!("t printed nothing, and its output has to be JSON; {fault}")),
        (
            "echo hi",
            any(),
            format!(
                "t printed something that is not one JSON value: not valid JSON at line 1 column 1: expected a value; {fault}\nit begins: hi"
            ),
        ),
        (
            "echo '1 2'",
            any(),
            format!(
                "t printed something that is not one JSON value: not valid JSON at line 1 column 3: expected nothing after the value; {fault}\nit begins: 1 2"
            ),
        ),
        (
            r#"echo '{"a": 1, "a": 2}'"#,
            any(),
            format!(
                "t printed something that is not one JSON value: /a: the key \"a\" appears twice in one object; give it once; {fault}\nit begins: {{\"a\": 1, \"a\": 2}}"
            ),
        ),
        (
            "echo 12345678901234567890123",
            any(),
            format!(
                "t printed something that is not one JSON value: the integer 12345678901234567890123 can't be kept exactly; integers from -9223372036854775808 to 18446744073709551615 are accepted; {fault}\nit begins: 12345678901234567890123"
            ),
        ),
        (
            r#"echo '[1, "two"]'"#,
            schema(),
            format!(
                "t printed a value that does not fit its output_schema; {fault}\n  /1: \"two\" is a string; an integer is accepted"
            ),
        ),
        (
            "head -c 20000000 /dev/zero",
            any(),
            "t printed 20000000 bytes; a JSON result may have at most 16777216, so ask for less".into(),
        ),
    ] {
        assert_eq!(place.result(script, fields).await, Err((ErrorKind::Failed, expected)), "{script}");
    }
}

/// The whole is among the session's results, where its Read may go; the model gets the two ends and the path.
#[tokio::test]
async fn a_long_result_is_kept_in_one_file() {
    let place = Place::new();
    // The first fits into memory, the second doesn't.
    for (last, written_while_it_came) in [(20_000, false), (400_000, true)] {
        place.script("t", &format!("seq 1 {last}"), json!({"max_result_chars": 1_000}));
        let result = place.call("t", json!({})).await;
        let text = outcome(&result).unwrap();
        assert!(text.chars().count() <= 1_000 && text.starts_with("1\n2\n"), "{text}");
        let ending = if written_while_it_came { "400000\n" } else { "20000" };
        assert!(text.ends_with(ending), "{text}");
        let kept = result.offloaded_to().unwrap();
        assert!(text.contains(kept.to_str().unwrap()), "{text}");
        let whole: String = (1..=last).map(|number| format!("{number}\n")).collect();
        assert_eq!(fs::read_to_string(kept).unwrap().trim_end(), whole.trim_end());
        assert_eq!(fs::metadata(kept).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(fs::read_dir(place.path("results")).unwrap().count(), 2, "no result is written twice");
}

/// Neither with the smallest limit, nor without one where the turn has a budget: the whole is in a file that
/// is named.
#[tokio::test]
async fn nothing_is_lost_by_a_limit() {
    let place = Place::new();
    let name = "a_tool_with_a_name_of_sixty_four_characters_in_all_as_long_as_ok";
    place.script(name, "seq 1 2000000", json!({"max_result_chars": RESULT_CHARS_MIN}));
    let result = place.call(name, json!({})).await;
    let (text, kept) = (outcome(&result).unwrap(), result.offloaded_to().unwrap().to_owned());
    assert!(text.contains(kept.file_name().unwrap().to_str().unwrap()), "{text}");

    place.script("t", "seq 1 20000", json!({"max_result_chars": "unlimited"}));
    let result = one(&place.engine(&["t"]).turn_budget(5_000).build(), "t", json!({})).await;
    let (text, kept) = (outcome(&result).unwrap(), result.offloaded_to().unwrap().to_owned());
    assert!(text.contains(kept.to_str().unwrap()) && !text.contains("offset 5"), "{text}");
    assert!(fs::read_to_string(kept).unwrap().ends_with("20000"));
}

#[tokio::test]
async fn more_than_a_file_takes_is_said_to_be_missing() {
    let place = Place::new();
    place.script("t", "head -c 70000000 /dev/zero | tr '\\0' x", json!({"max_result_chars": 1_000}));
    let result = place.call("t", json!({})).await;
    let text = outcome(&result).unwrap();
    assert!(text.contains("the whole result had 70,000,000 characters"), "{text}");
    assert!(text.contains("its first 67,108,864 bytes are in"), "{text}");
    assert_eq!(fs::metadata(result.offloaded_to().unwrap()).unwrap().len(), haft::limits::SPILL_BYTES_MAX);
}

#[tokio::test]
async fn progress_is_heard_and_nonsense_is_not() {
    let place = Place::new();
    let script = r#"printf '%s\n' '{"progress": 0.5, "message": "half"}' nonsense '{"other": 1}' '{"message": "on"}' '{"progress": 7}' >&3"#;
    place.script("t", script, json!({}));
    let events = EventLog::new();
    let result = one(&place.engine(&["t"]).events(events.clone()).build(), "t", json!({})).await;
    assert_eq!(outcome(&result), Ok(String::new()));
    let progress: Vec<(Option<f64>, Option<String>)> = events
        .events()
        .into_iter()
        .filter_map(|event| match event.what {
            EventKind::Progress(progress) => Some((progress.fraction, progress.message)),
            _ => None,
        })
        .collect();
    assert_eq!(progress, [(Some(0.5), Some("half".into())), (None, Some("on".into())), (Some(1.0), None)]);
}

/// However harmless it claims to be, it asks; by name, by mode or by the user it is allowed.
#[tokio::test]
async fn a_script_runs_only_where_it_is_allowed() {
    let place = Place::new();
    place.script("t", "echo ran", json!({"effects": {}}));
    let builder = place.engine(&[]);
    let engine = builder.clone().build();
    let words = "t was denied: what it declares is only believed, as nothing confines the program that it runs, so it needs a yes, and nobody can be asked here\nto allow it: allow rule `t`";
    assert_eq!(outcome(&one(&engine, "t", json!({})).await), Err((ErrorKind::Denied, words.into())));
    assert_eq!(outcome(&place.call("t", json!({})).await), Ok("ran".into()));
    let bypass =
        builder.clone().permissions(PermissionRules::new().mode(PermissionMode::BypassPermissions)).build();
    assert_eq!(outcome(&one(&bypass, "t", json!({})).await), Ok("ran".into()));
    let asker = haft::testing::ScriptedAsker::new().then(haft::ports::ApprovalAnswer::Once);
    assert_eq!(outcome(&one(&builder.asker(asker.clone()).build(), "t", json!({})).await), Ok("ran".into()));
    let asked = &asker.approvals()[0];
    assert!(asked.unconfined && !asked.effects.unknown);
}

/// Allowed by name is not allowed outside: neither as a path nor as something that hides one.
#[tokio::test]
async fn what_hides_its_effects_is_not_run() {
    let place = Place::new();
    let schema = json!({"type": "object", "properties": {"a": {}}});
    place.script("wr", "touch ran", json!({"effects": {"writes": ["{a}"]}, "input_schema": schema}));
    let kind = |result: &ToolResult| result.error_kind();
    for (argument, expected) in [
        (json!("/etc/passwd"), ErrorKind::Denied),
        (json!([["/etc/passwd"]]), ErrorKind::InvalidInput),
        (json!({"x": 1}), ErrorKind::InvalidInput),
        (json!(""), ErrorKind::InvalidInput),
    ] {
        let result = place.call("wr", json!({"a": argument})).await;
        assert_eq!(kind(&result), Some(expected), "{argument}: {:?}", outcome(&result));
    }
    assert!(!place.path("work/ran").exists());
    let words = outcome(&place.call("wr", json!({"a": {"x": 1}})).await).unwrap_err().1;
    let expected = "invalid input for wr (1 problem):\n  /a   is an object, which doesn't say what the call would touch; a string, \
                    a number, a boolean or an array of these is accepted\nfix this field and call wr again";
    assert_eq!(words, expected);
    assert_eq!(kind(&place.call("wr", json!({"a": "fine"})).await), None);
}

#[tokio::test]
async fn variables_are_passed_by_name() {
    let place = Place::new();
    // Set for this process's children only: the host is given its variables as a list.
    let variables = [("SCRIPT_TOKEN", "secret"), ("OTHER", "x"), ("PATH", "/usr/bin:/bin")];
    place.script("t", "echo \"$SCRIPT_TOKEN-$OTHER-$PATH\"", json!({"env": ["SCRIPT_TOKEN"]}));
    let engine = place.engine(&["t"]).ports(|ports| {
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        ports.processes = Some(Arc::new(LocalProcesses::new(variables)));
    });
    let engine = engine.build();
    assert_eq!(outcome(&one(&engine, "t", json!({})).await), Ok("secret--/usr/bin:/bin".into()));
}

#[tokio::test]
async fn scripts_that_only_read_run_side_by_side() {
    let place = Place::new();
    // Each waits for the other, so none would end alone.
    let meet =
        "read -r line; own=${line//[^0-9]/}; touch $own; until [ -e $((1 - own)) ]; do sleep 0.01; done";
    place.script("t", meet, json!({"read_only": true, "timeout_ms": 20_000}));
    let engine = place.engine(&["t"]).build();
    let calls = ["0", "1"].map(|path| ToolCall::new(path, "t", json!({"path": path})));
    for result in engine.turn().run(calls).await {
        assert_eq!((outcome(&result), result.was_concurrent()), (Ok(String::new()), true));
    }
}

#[tokio::test]
async fn a_program_that_can_not_be_started_is_an_error() {
    let place = Place::new();
    place.script("t", "", json!({}));
    let engine = place.engine(&["t"]).build();
    fs::remove_file(place.path("tools/t/run.sh")).unwrap();
    let found = outcome(&one(&engine, "t", json!({})).await).unwrap_err().1;
    assert_eq!(found, format!("t can't run: `{}` does not exist", place.path("tools/t/run.sh").display()));
}

#[test]
fn every_field_becomes_a_fact() {
    let place = Place::new();
    let all = json!({
        "output": "json", "output_schema": {"type": "integer"}, "effects": {"writes": ["{path}"]}, "destructive": true,
        "concurrency_safe": true, "read_only": false, "timeout_ms": 1500, "max_result_chars": "unlimited",
        "max_concurrency": 2, "interrupt": "cancel", "aliases": ["other"], "defer": true, "search_hint": "words",
        "requires_user": true, "env": ["A"],
    });
    place.script("t", "", all);
    let tool = &place.load().tools[0].tool;
    assert_eq!((tool.name(), tool.group(), tool.aliases()), ("t", "scripts", &["other".to_owned()][..]));
    assert_eq!(tool.result_limit(), haft::Unlimited);
    assert_eq!(tool.output_schema(), Some(&json!({"type": "integer"})));
    assert!(tool.spec().runs_in_child());
    place.script("t", "", json!({}));
    let tool = &place.load().tools[0].tool;
    assert_eq!(
        (tool.result_limit(), tool.listed_class()),
        (haft::Chars(100_000), haft::tool::ListedClass::default())
    );
}

#[test]
fn a_folder_may_be_one_tool_or_many() {
    let place = Place::new();
    place.script("b", "", json!({}));
    place.script("a", "", json!({}));
    fs::create_dir(place.path("tools/empty")).unwrap();
    place.write("tools/README.md", "", 0o644);
    place.write("elsewhere/run.sh", "#!/bin/sh\n", 0o755);
    place.write("elsewhere/tool.json", &manifest("linked", json!({})).to_string(), 0o644);
    symlink(place.path("elsewhere"), place.path("tools/c")).unwrap();
    let names = |loaded: LoadedScripts| -> Vec<String> {
        assert_eq!(loaded.problems, []);
        loaded.tools.iter().map(|script| script.tool.name().to_owned()).collect()
    };
    assert_eq!(names(place.load()), ["a", "b", "linked"]);
    assert_eq!(names(load_scripts(&place.path("tools/a")).unwrap()), ["a"]);
    assert_eq!(names(load_scripts(&place.path("work")).unwrap()), [""; 0]);
    assert!(load_scripts(&place.path("nowhere")).is_err());
}

/// One line each: what is wrong with a manifest, and what is said.
#[test]
fn a_bad_manifest_says_where_and_why() {
    let check = |fields: Value, expected: &str| {
        let place = Place::new();
        place.script("good", "", json!({}));
        place.script("t", "", fields);
        assert_eq!(place.load().tools.len(), 1, "the others are there: {expected}");
        let found = place.problems();
        assert_eq!(found, [format!("tools/t/tool.json: {expected}")]);
    };
    check(
        json!({"comand": ["x"], "command": null}),
        "2 problems\n  /comand: unknown field; did you mean `command`? accepted: $schema, aliases, always_load, command, concurrency_safe, \
         defer, description, destructive, effects, env, input_schema, interrupt, … (21 in all)\n  /command: \
         missing; an array of 1 or more strings of 1 or more characters is required",
    );
    check(
        json!({"name": "a b"}),
        "/name: \"a b\" does not match; a string that matches `^[A-Za-z_][A-Za-z0-9_-]{0,63}$` is accepted",
    );
    check(
        json!({"timeout_ms": 0}),
        "/timeout_ms: 0 is too small; an integer between 1 and 86400000 is accepted",
    );
    check(
        json!({"timeout_ms": "5000"}),
        "/timeout_ms: \"5000\" is a string; an integer between 1 and 86400000 is accepted",
    );
    check(
        json!({"max_result_chars": "all"}),
        "/max_result_chars: \"all\" is not accepted; an integer ≥ 100 or \"unlimited\" is",
    );
    check(json!({"max_result_chars": 1}), "/max_result_chars: 1 is too small; an integer ≥ 100 is accepted");
    check(json!({"output": "xml"}), "/output: \"xml\" is not accepted; one of \"text\", \"json\" is");
    check(
        json!({"interrupt": "never"}),
        "/interrupt: \"never\" is not accepted; one of \"block\", \"cancel\" is",
    );
    check(json!({"command": []}), "/command: has 0 items; at least 1 is accepted");
    check(
        json!({"command": ["bin/run"]}),
        "/command/0: `bin/run` is not accepted; a file of this folder begins with `./`, others with `/`, and a program on \
         PATH has no `/`",
    );
    check(json!({"command": ["./nope"]}), "/command/0: there is no file `tools/t/nope`");
    check(
        json!({"input_schema": {"type": "strin"}}),
        "/input_schema: at `/type`: not a valid schema: \"strin\" is not valid under any of the schemas listed in the 'anyOf' \
         keyword",
    );
    check(
        json!({"input_schema": {"type": "string"}}),
        "/input_schema: the schema accepts no object; the root has to accept `type: object`",
    );
    check(json!({"input_schema": "x"}), "/input_schema: \"x\" is a string; an object is accepted");
    check(
        json!({"output_schema": {"type": "string"}}),
        "/output_schema: text has no schema; set `output` to \"json\", or leave this out",
    );
    check(
        json!({"effects": {"read": ["x"]}}),
        "/effects/read: unknown field; did you mean `reads`? accepted: deletes, reaches, reads, runs, writes",
    );
    check(
        json!({"effects": {"reads": ["{nope}"]}}),
        "/effects/reads/0: `{nope}` is no argument of `input_schema`; they are `path`, `paths`",
    );
    check(
        json!({"read_only": true, "effects": {"writes": ["x"]}}),
        "/read_only: claims to be read-only and declares a change",
    );
    check(json!({"aliases": ["x", "t"]}), "/aliases/1: `t` is the name already; leave it out");
    check(json!({"aliases": ["y", "y"]}), "/aliases/1: `y` is given twice; give it once");
    check(json!({"aliases": ["good"]}), "/aliases/0: `good` is a name of tools/good/tool.json already");
    check(json!({"defer": true, "always_load": true}), "/always_load: contradicts `defer`; set one of them");
    check(
        json!({"env": ["A=B"]}),
        "/env/0: \"A=B\" does not match; a string that matches `^[A-Za-z_][A-Za-z0-9_]*$` is accepted",
    );
    check(json!({"description": " "}), "/description: is empty; say what the tool does and when to use it");
    check(
        json!({"command": ["no-such-program-anywhere"]}),
        "/command/0: no folder of PATH has a program `no-such-program-anywhere`",
    );
    check(
        json!({"command": ["./../good/run.sh"]}),
        "/command/0: `./../good/run.sh` leaves the tool's folder; others begin with `/`",
    );
    check(json!({"command": ["."]}), "/command/0: `.` is a folder; name a program, such as `./run`");
    check(
        json!({"command": ["./run.sh", "a\0b"]}),
        "/command/1: `a\\0b` has a NUL, which no program can be given",
    );
    check(
        json!({"read_only": true, "destructive": true}),
        "/destructive: contradicts `read_only`; set one of them",
    );
    check(
        json!({"effects": {"reads": ["~/x"]}}),
        "/effects/reads/0: `~/x`: `~` is not expanded; give the whole path",
    );
    check(json!({"max_concurrency": 0}), "/max_concurrency: 0 is too small; an integer ≥ 1 is accepted");
}

#[test]
fn files_that_are_no_manifests_are_problems_and_hang_nobody() {
    let place = Place::new();
    place.script("good", "", json!({}));
    place.write("tools/broken/tool.json", "{\"name\": \"x\",\n oops}", 0o644);
    place.write("tools/empty/tool.json", "", 0o644);
    place.write("tools/double/tool.json", r#"{"name": "x", "name": "y"}"#, 0o644);
    place.write("tools/list/tool.json", "[]", 0o644);
    place.write("tools/large/tool.json", &" ".repeat(1024 * 1024 + 1), 0o644);
    fs::create_dir_all(place.path("tools/folder/tool.json")).unwrap();
    fs::create_dir(place.path("tools/fifo")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.path("tools/fifo/tool.json"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    fs::create_dir(place.path("tools/lost")).unwrap();
    symlink("nowhere", place.path("tools/lost/tool.json")).unwrap();
    symlink("nowhere", place.path("tools/link")).unwrap();
    place.write("tools/plain/run.sh", "#!/bin/sh\n", 0o644);
    place.manifest("plain", manifest("plain", json!({})));
    place.manifest("twin", manifest("good", json!({"command": ["true"]})));
    let expected = [
        "tools/broken/tool.json: not valid JSON at line 2 column 2: expected a key in double quotes".to_owned(),
        "tools/double/tool.json: /name: the key \"name\" appears twice in one object; give it once".into(),
        "tools/empty/tool.json: the input is empty; a JSON object is accepted".into(),
        "tools/fifo/tool.json: is not a plain file".into(),
        "tools/folder/tool.json: is not a plain file".into(),
        "tools/large/tool.json: has more than 1048576 bytes".into(),
        "tools/link/tool.json: can't be read: no such file or directory".into(),
        "tools/list/tool.json: [] is an array; an object with `name`, `description`, `input_schema`, `command` is accepted".into(),
        "tools/lost/tool.json: can't be read: no such file or directory".into(),
        "tools/plain/tool.json: /command/0: `tools/plain/run.sh` is not executable; `chmod +x tools/plain/run.sh` makes it so"
            .into(),
        "tools/twin/tool.json: /name: `good` is a name of tools/good/tool.json already".into(),
    ];
    assert_eq!(place.problems(), expected);
    assert_eq!(place.load().tools.len(), 1);
}

/// No alias takes a name away, whichever folder comes first; of two aliases the first stays.
#[test]
fn names_go_before_aliases() {
    let place = Place::new();
    place.script("a", "", json!({"aliases": ["b"]}));
    place.script("b", "", json!({"aliases": ["x"]}));
    place.script("c", "", json!({"aliases": ["y", "x"]}));
    let expected = [
        "tools/a/tool.json: /aliases/0: `b` is a name of tools/b/tool.json already",
        "tools/c/tool.json: /aliases/1: `x` is a name of tools/b/tool.json already",
    ];
    assert_eq!(place.problems(), expected);
    assert_eq!(place.load().tools[0].tool.name(), "b");
}

/// Registering says what it leaves out and never fails, whatever it is given.
#[test]
fn what_can_not_be_registered_is_a_problem_of_its_tool() {
    let place = Place::new();
    place.script("Read", "", json!({}));
    place.script("a", "", json!({"aliases": ["x", "read_file"]}));
    place.script("good", "", json!({}));
    let read = haft::tool("Read", "Reads.", |_: haft::NoInput, _| async { Ok("") }).alias("read_file");
    let registry = Registry::new().with(read).unwrap();
    let said = |problems: Vec<ScriptProblem>| -> Vec<String> {
        let plain =
            |problem: ScriptProblem| problem.to_string().replace(place.path("").to_str().unwrap(), "");
        problems.into_iter().map(plain).collect()
    };
    let (registry, problems) = place.load().register(&registry, "script:test");
    let expected = [
        "tools/Read/tool.json: /name: `Read` is a name of the built-in tool `Read`; give another",
        "tools/a/tool.json: /aliases/1: `read_file` is a name of the built-in tool `Read`; give another",
    ];
    assert_eq!((said(problems), registry.len()), (expected.map(str::to_owned).into(), 2));
    let (again, problems) =
        load_scripts(&place.path("tools/good")).unwrap().register(&registry, "script:test");
    let expected = "tools/good/tool.json: tool `good` can't be called `good`: that is a name of `good`";
    assert_eq!((said(problems), again.len()), (vec![expected.to_owned()], 2));
}

const SCHEMA_FILE: &str = "schemas/tool.schema.json";

/// `UPDATE_SCHEMAS=1 cargo test -p haft-tools` writes it.
#[test]
fn the_published_schema_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SCHEMA_FILE);
    let expected = format!("{:#}\n", manifest_schema());
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &expected).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(committed, expected, "{SCHEMA_FILE} is not current; write it with UPDATE_SCHEMAS=1");
}
