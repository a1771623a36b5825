//! Who may do what, and who is asked: every denial beside the same call that runs.

use std::sync::Arc;

use haft::decision::DecisionReason;
use haft::effects::CommandEffect;
use haft::ports::{ApprovalAnswer, ModeControl, PermissionMode};
use haft::testing::{
    EventLog, MemoryRecorder, RecordedNote, ScriptedAsker, ScriptedProcesses, TestCaller, scripted_tool,
};
use haft::{Context, Effects, ErrorKind, PermissionRules, Workspace, dynamic_tool};
use serde_json::{Value, json};

use crate::{Dir, any, caller_in, plain, reader};

/// One call, and everything that decides about it.
struct Case<'a> {
    dir: &'a Dir,
    effects: Effects,
    mode: PermissionMode,
    rule: &'a str,
    opinion: Option<DecisionReason>,
    answer: Option<ApprovalAnswer>,
    confined: bool,
}

impl<'a> Case<'a> {
    fn new(dir: &'a Dir, effects: Effects) -> Case<'a> {
        Case {
            dir,
            effects,
            mode: PermissionMode::Default,
            rule: "",
            opinion: None,
            answer: Some(ApprovalAnswer::Once),
            confined: false,
        }
    }

    fn rules(&self) -> PermissionRules {
        let mut rules = PermissionRules::new().mode(self.mode);
        for word in self.rule.split_whitespace() {
            rules = match word {
                "allow" => rules.allow("t").unwrap(),
                "ask" => rules.ask("t").unwrap(),
                "deny" => rules.deny("t").unwrap(),
                other => panic!("no rule `{other}`"),
            };
        }
        rules
    }

    /// What came of it: `runs (WHO)`, `asks (WHY), …`, or the kind of the error.
    async fn outcome(self) -> String {
        let rules = self.rules();
        let opinion = self.opinion;
        let tool = plain("t", self.effects).permission(move |_| opinion.clone());
        let recorder = MemoryRecorder::new();
        let asker = self.answer.map(|answer| ScriptedAsker::new().then(answer));
        let processes = self.confined.then(|| ScriptedProcesses::new().confining());
        let workspace = self.dir.workspace().with_protected(self.dir.path("w/.haft"));
        let caller = TestCaller::new().tool(tool).engine(|engine| {
            engine.workspace(workspace).permissions(rules).ports(|ports| {
                ports.recorder = Some(Arc::new(recorder.clone()));
                ports.asker = asker.clone().map(|asker| Arc::new(asker) as _);
                ports.processes = processes.map(|processes| Arc::new(processes) as _);
            })
        });
        let result = caller.call("t", "{}").await;
        let mut words = String::new();
        for approval in asker.iter().flat_map(ScriptedAsker::approvals) {
            words.push_str(&format!("asks ({}), ", approval.reason()));
        }
        match (result.error_kind(), recorder.notes().first()) {
            (None, Some(RecordedNote::Before { allowed_by, .. })) => {
                words.push_str(&format!("runs ({allowed_by})"))
            }
            (Some(kind), None) => words.push_str(&format!("{kind:?}")),
            (kind, note) => panic!("{kind:?} beside {note:?}"),
        }
        words.replace(self.dir.path("").to_str().unwrap(), "/")
    }
}

/// A tool that runs a program in a child that nothing confines asks, however harmless it claims to be, unless
/// somebody allows it; where the child is confined its effects count.
#[tokio::test]
async fn a_child_that_nothing_confines_always_asks() {
    let dir = Dir::new();
    dir.file("w/a", "");
    let check = async |effects: Effects,
                       confined: bool,
                       rules: PermissionRules,
                       opinion: Option<DecisionReason>,
                       expected: &str| {
        let asker = ScriptedAsker::new().then(ApprovalAnswer::Once);
        let processes = ScriptedProcesses::new();
        let processes = if confined { processes.confining() } else { processes };
        let recorder = MemoryRecorder::new();
        let tool =
            plain("t", effects).permission(move |_| opinion.clone()).spec(|spec| spec.in_child().group("x"));
        let workspace = dir.workspace();
        let caller = TestCaller::new().tool(tool).engine(|engine| {
            engine.workspace(workspace).permissions(rules).asker(asker.clone()).ports(|ports| {
                ports.recorder = Some(Arc::new(recorder.clone()));
                ports.processes = Some(Arc::new(processes));
            })
        });
        assert_eq!(caller.call("t", "{}").await.error_kind(), None);
        let Some(RecordedNote::Before { allowed_by, .. }) = recorder.notes().into_iter().next() else {
            panic!("it ran")
        };
        let asked = asker
            .approvals()
            .into_iter()
            .map(|approval| format!("asks ({}, unconfined: {}), ", approval.reason(), approval.unconfined));
        assert_eq!(format!("{}{allowed_by}", asked.collect::<String>()), expected);
    };
    let believed = "what it declares is only believed, as nothing confines the program that it runs";
    let asks = format!("asks ({believed}, unconfined: true), the user");
    let (none, rules) = (Effects::none, PermissionRules::new);
    check(none(), false, rules(), None, &asks).await;
    check(Effects::reads("a"), false, rules(), None, &asks).await;
    check(none(), false, rules(), Some(DecisionReason::allow()), &asks).await;
    check(none(), true, rules(), None, "its effects").await;
    check(none(), false, rules().allow("t").unwrap(), None, "rule `t` (Permissions::allow)").await;
    let bypass = rules().mode(PermissionMode::BypassPermissions);
    check(none(), false, bypass, None, "mode `bypassPermissions`").await;
    let unknown = "asks (nothing is known of what it touches, unconfined: true), the user";
    check(Effects::unknown(), false, rules(), None, unknown).await;
    check(Effects::unknown(), false, rules(), Some(DecisionReason::allow()), unknown).await;
    check(
        Effects::writes("a"),
        false,
        rules(),
        Some(DecisionReason::allow()),
        "asks (it writes a, unconfined: true), the user",
    )
    .await;
}

/// Where no rule speaks the effects do: mode `default` with a user, the same without one, `dontAsk`,
/// `bypassPermissions`.
#[tokio::test]
async fn effects_decide_where_no_rule_speaks() {
    let dir = Dir::new();
    dir.file("w/a", "");
    dir.file("out", "");
    dir.link("w/away", "../out");
    let check = async |effects: Effects, why: Option<&str>| {
        let case = || Case::new(&dir, effects.clone());
        let asking = why.map(|why| format!("asks ({why}), runs (the user)"));
        let (default, alone, silent) = match asking {
            Some(asking) => (asking, "Denied", "Denied"),
            None => ("runs (its effects)".to_owned(), "runs (its effects)", "runs (its effects)"),
        };
        let said = effects.to_string();
        assert_eq!(case().outcome().await, default, "{said}");
        assert_eq!(Case { answer: None, ..case() }.outcome().await, alone, "{said}, nobody to ask");
        let mode = PermissionMode::DontAsk;
        assert_eq!(Case { mode, ..case() }.outcome().await, silent, "{said}, dontAsk");
        let mode = PermissionMode::BypassPermissions;
        let bypass = "runs (mode `bypassPermissions`)";
        assert_eq!(Case { mode, ..case() }.outcome().await, bypass, "{said}, bypassPermissions");
    };
    let outside = "it touches `/out`, outside of the working directories";
    check(Effects::none(), None).await;
    check(Effects::reads("a"), None).await;
    check(Effects::reads("not/there/yet"), None).await;
    check(Effects::reads_tree("."), None).await;
    check(Effects::reads_state("session:tasks"), None).await;
    check(Effects::delegates(), None).await;
    check(Effects::reads("../out"), Some(outside)).await;
    check(Effects::reads(dir.path("out")), Some(outside)).await;
    check(Effects::reads("away"), Some(outside)).await;
    check(Effects::reads("a").and(Effects::reads("away")), Some(outside)).await;
    check(Effects::observes("x.io"), Some("it reaches x.io")).await;
    check(Effects::writes("a"), Some("it writes a")).await;
    check(Effects::writes("../out"), Some(outside)).await;
    check(Effects::writes("away"), Some(outside)).await;
    check(Effects::deletes("a"), Some("it deletes a")).await;
    // Removing a link is about the link, which is inside.
    check(Effects::deletes("away"), Some("it deletes away")).await;
    check(Effects::changes("x.io"), Some("it changes x.io")).await;
    check(Effects::writes_state("session:mode"), Some("it changes the permission mode")).await;
    check(Effects::runs("make"), Some("it runs make")).await;
    check(Effects::unknown(), Some("nothing is known of what it touches")).await;
    check(Effects::none().and(Effects::unknown()), Some("nothing is known of what it touches")).await;
    let asks = || Case::new(&dir, Effects::asks_user());
    assert_eq!(asks().outcome().await, "runs (its effects)");
    assert_eq!(Case { answer: None, ..asks() }.outcome().await, "NotInteractive");
}

#[tokio::test]
async fn a_command_is_judged_by_its_effects_only_where_a_sandbox_enforces_them() {
    let dir = Dir::new();
    let run = |inner: Effects| {
        let mut effects = Effects::none();
        effects.runs.push(CommandEffect { text: "ls".into(), effects: Some(Box::new(inner)) });
        effects
    };
    let check = async |inner: Effects, confined: &str, believed: &str| {
        let case = || Case::new(&dir, run(inner.clone()));
        assert_eq!(Case { confined: true, ..case() }.outcome().await, confined);
        assert_eq!(case().outcome().await, believed);
    };
    let asks = "asks (it runs ls), runs (the user)";
    check(Effects::reads("a"), "runs (its effects)", asks).await;
    check(Effects::writes("a"), asks, asks).await;
    check(
        Effects::reads("/etc/passwd"),
        "asks (it touches `/etc/passwd`, outside of the working directories), runs (the user)",
        "asks (it touches `/etc/passwd`, outside of the working directories), runs (the user)",
    )
    .await;
}

/// Rules by name: deny before ask before allow, whatever the mode.
#[tokio::test]
async fn rules_decide_in_their_order() {
    let dir = Dir::new();
    let check = async |rule: &str, mode: PermissionMode, effects: Effects, expected: &str| {
        let said = format!("{rule}, {mode}, {effects}");
        let case = Case { rule, mode, ..Case::new(&dir, effects) };
        assert_eq!(case.outcome().await, expected, "{said}");
    };
    use PermissionMode::{BypassPermissions, Default, DontAsk};
    let write = || Effects::writes("a");
    let (by_rule, by_mode) = ("runs (rule `t` (Permissions::allow))", "runs (mode `bypassPermissions`)");
    let by_ask = "asks (rule `t` (Permissions::ask)), runs (the user)";
    for effects in [write(), Effects::unknown(), Effects::none(), Effects::runs("make")] {
        check("allow", Default, effects.clone(), by_rule).await;
        check("allow", DontAsk, effects.clone(), by_rule).await;
        check("allow", BypassPermissions, effects.clone(), by_mode).await;
        check("ask", Default, effects.clone(), by_ask).await;
        check("ask", BypassPermissions, effects.clone(), by_ask).await;
        check("ask allow", Default, effects.clone(), by_ask).await;
        for rule in ["deny", "deny allow", "deny ask allow"] {
            for mode in [Default, DontAsk, BypassPermissions] {
                check(rule, mode, effects.clone(), "Denied").await;
            }
        }
    }
    // A name covers what lies inside; a path outside wants a yes of its own.
    let asks_outside = "asks (it touches `/out`, outside of the working directories), runs (the user)";
    check("allow", Default, Effects::writes("../out"), asks_outside).await;
    check("allow", Default, Effects::reads("../out"), asks_outside).await;
    check("allow", DontAsk, Effects::writes("../out"), "Denied").await;
    check("allow", BypassPermissions, Effects::writes("../out"), by_mode).await;
}

/// An ask rule in a mode that asks nobody is a denial: no rule that asks is lifted by not asking.
#[tokio::test]
async fn an_ask_rule_without_anybody_to_ask_denies() {
    let dir = Dir::new();
    let case =
        |answer: Option<ApprovalAnswer>| Case { rule: "ask", answer, ..Case::new(&dir, Effects::none()) };
    assert_eq!(case(None).outcome().await, "Denied");
    assert_eq!(
        case(Some(ApprovalAnswer::Once)).outcome().await,
        "asks (rule `t` (Permissions::ask)), runs (the user)"
    );
}

/// The tool's own opinion: between the rules that deny or ask and those that allow.
#[tokio::test]
async fn the_opinion_of_the_tool_has_its_place() {
    let dir = Dir::new();
    let check = async |opinion: Option<DecisionReason>, rule: &str, effects: Effects, expected: &str| {
        let said = format!("{opinion:?}, {rule}, {effects}");
        let case = Case { opinion, rule, ..Case::new(&dir, effects) };
        assert_eq!(case.outcome().await, expected, "{said}");
    };
    let state = || Effects::writes_state("s");
    let ask = || Some(DecisionReason::ask("mind this"));
    let deny = || Some(DecisionReason::deny("never"));
    let asked = "asks (mind this), runs (the user)";
    check(Some(DecisionReason::allow()), "", state(), "runs (the tool itself)").await;
    check(Some(DecisionReason::allow()), "", Effects::writes("a"), "runs (the tool itself)").await;
    check(
        Some(DecisionReason::allow()),
        "ask",
        state(),
        "asks (rule `t` (Permissions::ask)), runs (the user)",
    )
    .await;
    check(Some(DecisionReason::allow()), "deny", state(), "Denied").await;
    // It may vouch for what is known and inside, not for the rest.
    let outside = "asks (it touches `/out`, outside of the working directories), runs (the user)";
    check(Some(DecisionReason::allow()), "", Effects::writes("../out"), outside).await;
    check(Some(DecisionReason::allow()), "", Effects::reads("../out"), outside).await;
    let unknown = "asks (nothing is known of what it touches), runs (the user)";
    check(Some(DecisionReason::allow()), "", Effects::unknown(), unknown).await;

    check(ask(), "", Effects::none(), asked).await;
    check(ask(), "allow", state(), asked).await;
    check(ask(), "deny", state(), "Denied").await;
    check(deny(), "", Effects::none(), "Denied").await;
    check(deny(), "allow", Effects::none(), "Denied").await;
    let bypass = |opinion: Option<DecisionReason>| {
        let mode = PermissionMode::BypassPermissions;
        Case { opinion, mode, ..Case::new(&dir, state()) }
    };
    assert_eq!(bypass(None).outcome().await, "runs (mode `bypassPermissions`)");
    assert_eq!(bypass(ask()).outcome().await, asked);
    assert_eq!(bypass(deny()).outcome().await, "Denied");
}

#[tokio::test]
async fn protected_places_are_written_in_no_mode() {
    let dir = Dir::new();
    dir.file("w/.haft/settings.json", "{}");
    dir.link("w/settings", ".haft/settings.json");
    dir.link("w/folder", ".haft");
    let check = async |effects: Effects, written: bool| {
        let said = effects.to_string();
        for mode in [PermissionMode::Default, PermissionMode::BypassPermissions] {
            for rule in ["", "allow"] {
                let opinion = Some(DecisionReason::allow());
                let case = Case { mode, rule, opinion, ..Case::new(&dir, effects.clone()) };
                let outcome = case.outcome().await;
                assert_eq!(outcome != "Denied", written, "{said}, {mode}, {rule}: {outcome}");
                assert!(written || !outcome.contains("asks"), "{said}: nobody is asked about it");
            }
        }
    };
    check(Effects::writes(".haft/settings.json"), false).await;
    check(Effects::writes(".haft/new/file"), false).await;
    check(Effects::writes("settings"), false).await;
    check(Effects::writes("folder/x"), false).await;
    check(Effects::writes("x/../.haft/settings.json"), false).await;
    check(Effects::deletes(".haft"), false).await;
    check(Effects::deletes_tree("."), false).await;
    check(Effects::writes_tree("."), false).await;
    check(Effects::writes("a").and(Effects::deletes(".haft/settings.json")), false).await;
    let mut run = Effects::none();
    let inner = Some(Box::new(Effects::writes(".haft/settings.json")));
    run.runs.push(CommandEffect { text: "tee".into(), effects: inner });
    check(run, false).await;

    check(Effects::writes("a"), true).await;
    check(Effects::writes(".haft2/settings.json"), true).await;
    check(Effects::reads(".haft/settings.json"), true).await;
    check(Effects::deletes("settings"), true).await;
    check(Effects::deletes_tree("other"), true).await;

    let rules = PermissionRules::new().mode(PermissionMode::BypassPermissions);
    let write = plain("write", Effects::writes(".haft/settings.json"));
    let workspace = dir.workspace().with_protected(dir.path("w/.haft"));
    let caller =
        TestCaller::new().tool(write).engine(|engine| engine.workspace(workspace).permissions(rules));
    let place = dir.path("w/.haft");
    let words = format!("1 Denied: write was denied: no tool may write `{}`, in any mode", place.display());
    caller.turn([("1", "write", "{}")]).await.check([words.as_str()]);
}

#[tokio::test]
async fn a_path_that_leads_nowhere_fails_and_nobody_is_asked() {
    let dir = Dir::new();
    dir.folder("w");
    std::fs::write(dir.path("w/file"), "x").unwrap();
    dir.link("w/loop", "loop");
    let long = "n".repeat(300);
    for (path, words) in [
        ("file/x", "`/w/file` is not a directory"),
        ("loop", "`loop` leads through more than 40 links"),
        (&long, "` is too long: a name may have 255 bytes, a path 4095"),
        ("a\0b", "` contains a NUL byte"),
        ("/proc/self/exe", "` is a link of the kernel and is not followed"),
    ] {
        for mode in [PermissionMode::Default, PermissionMode::DontAsk] {
            let rules = PermissionRules::new().mode(mode);
            let caller = caller_in(&dir, any(plain("t", Effects::reads(path))), rules);
            let said = caller.turn([("1", "t", "{}")]).await.lines()[0].clone();
            let said = said.replace(dir.path("").to_str().unwrap(), "/");
            assert!(said.starts_with("1 Failed: `") && said.ends_with(words), "{said}");
        }
        // Where nothing asks it runs, and meets the file system as it is by then: an earlier call may change
        // it.
        let rules = PermissionRules::new().mode(PermissionMode::BypassPermissions);
        let caller = caller_in(&dir, any(plain("t", Effects::reads(path))), rules);
        caller.turn([("1", "t", "{}")]).await.check(["1 ok: done"]);
    }
}

#[tokio::test]
async fn a_denial_names_no_folder_that_would_not_help() {
    let dir = Dir::new();
    for path in ["/proc/self/environ", "/nothing-here", "/sys/kernel/x", "/dev/null"] {
        let caller = caller_in(&dir, any(plain("t", Effects::reads(path))), PermissionRules::new());
        let said = caller.turn([("1", "t", "{}")]).await.lines()[0].clone();
        assert!(said.ends_with("nobody can be asked here"), "{said}");
    }
    // A folder that is not there can't be added: the nearest one that is.
    dir.folder("other");
    let effects = Effects::reads("../other/new/deep/f");
    let caller = caller_in(&dir, any(plain("t", effects)), PermissionRules::new());
    let said = caller.turn([("1", "t", "{}")]).await.lines()[0].clone();
    assert!(said.ends_with(&format!("working directory `{}`", dir.path("other").display())), "{said}");
}

#[tokio::test]
async fn a_denial_says_how_to_allow_it() {
    let dir = Dir::new();
    dir.folder("other");
    let check = async |effects: Effects, rules: PermissionRules, expected: &str| {
        let caller = caller_in(&dir, any(plain("t", effects)), rules);
        let results = caller.turn([("1", "t", "{}")]).await;
        let lines = results.lines()[0].replace(dir.path("").to_str().unwrap(), "/");
        assert_eq!(lines, format!("1 Denied: {expected}"));
    };
    check(
        Effects::writes("a"),
        PermissionRules::new(),
        "t was denied: it writes a, so it needs a yes, and nobody can be asked here\nto allow it: allow rule `t`",
    )
    .await;
    check(
        Effects::reads("../other/b"),
        PermissionRules::new(),
        "t was denied: it touches `/other/b`, outside of the working directories, so it needs a yes, and nobody \
         can be asked here\nto allow it: working directory `/other`",
    )
    .await;
    check(
        Effects::writes("a"),
        PermissionRules::new().mode(PermissionMode::DontAsk),
        "t was denied: it writes a, so it needs a yes, and this mode doesn't ask\nto allow it: allow rule `t`",
    )
    .await;
    // And it is true: both ways allow it.
    let caller =
        caller_in(&dir, any(plain("t", Effects::writes("a"))), PermissionRules::new().allow("t").unwrap());
    caller.turn([("1", "t", "{}")]).await.check(["1 ok: done"]);
    let workspace = dir.workspace().with_dir(dir.path("other")).unwrap();
    let caller = TestCaller::new()
        .tool(plain("t", Effects::reads("../other/b")))
        .engine(|engine| engine.workspace(workspace));
    caller.turn([("1", "t", "{}")]).await.check(["1 ok: done"]);
}

/// What was granted is what can be opened: a yes to one file opens that file.
#[tokio::test]
async fn a_yes_grants_what_was_declared_and_no_more() {
    let dir = Dir::new();
    dir.file("one", "1");
    dir.file("two", "2");
    let read =
        dynamic_tool("read", "Reads.", json!({"type": "object"}), |args: Value, cx: Context| async move {
            let open = args["open"].as_str().unwrap_or_default().to_owned();
            Ok(cx.files().read_to_string(open).await?)
        })
        .effects(|args| Effects::reads(args["declare"].as_str().unwrap()));
    let asker = ScriptedAsker::new().then(ApprovalAnswer::Once).then(ApprovalAnswer::Once);
    let workspace = dir.workspace();
    let caller =
        TestCaller::new().tool(read).engine(|engine| engine.workspace(workspace).asker(asker.clone()));
    let call = |declare: &str, open: &str| ("1", "read", json!({"declare": declare, "open": open}));
    caller.turn([call("../one", "../one")]).await.check(["1 ok: 1"]);
    let other = caller.turn([call("../one", "../two")]).await;
    assert!(other.lines()[0].contains("outside of what this call may read"), "{other:?}");
    assert_eq!(asker.approvals().len(), 2);
}

/// What was granted outside is held open from then on, for who starts a child: its name may lead elsewhere by
/// then.
#[tokio::test]
async fn what_a_yes_was_about_is_held() {
    use std::os::fd::AsRawFd as _;
    let dir = Dir::new();
    dir.file("one", "1");
    let root = dir.path("").canonicalize().unwrap();
    let (one, new, inside) = (root.join("one"), root.join("new/x"), root.join("w/x"));
    let run = dynamic_tool("run", "Runs.", json!({"type": "object"}), move |_, cx: Context| {
        let (one, new, inside) = (one.clone(), new.clone(), inside.clone());
        async move {
            std::fs::rename(&one, one.with_extension("moved")).unwrap();
            std::fs::write(&one, "evil").unwrap();
            let place = |path: &std::path::Path| match cx.access().held.place(path) {
                haft::files::pinned_paths::PinState::Is(place) => {
                    let content = place.itself().map(|itself| {
                        std::fs::read_to_string(format!("/proc/self/fd/{}", itself.as_raw_fd())).unwrap()
                    });
                    format!("{} {content:?}", place.rest().display())
                }
                other => format!("{other:?}"),
            };
            Ok(format!("{}, {}, {}", place(&one), place(&new), place(&inside)))
        }
    })
    .effects(|_| Effects::reads("../one").and(Effects::writes("../new/x")).and(Effects::writes("x")));
    let asker = ScriptedAsker::new().then(ApprovalAnswer::Once);
    let workspace = dir.workspace();
    let caller = TestCaller::new().tool(run).engine(|engine| engine.workspace(workspace).asker(asker));
    let held = "1 ok: one Some(\"1\"), new/x None, Unknown";
    caller.turn([("1", "run", "{}")]).await.check([held]);
}

/// Asks about a write through a link, which the test moves while the user thinks.
struct Swap {
    dir: Dir,
    asker: ScriptedAsker,
    caller: TestCaller,
}

impl Swap {
    fn new() -> Swap {
        let dir = Dir::new();
        for folder in ["w/a", "w/b", "w/c"] {
            dir.folder(folder);
        }
        dir.link("w/link", "a");
        let write =
            dynamic_tool("write", "Writes.", json!({"type": "object"}), |_, cx: Context| async move {
                let how = haft::files::WriteMode::Replace;
                cx.files().write("link/x", b"text", how).await?;
                Ok("written")
            })
            .effects(|_| Effects::writes("link/x"));
        let asker = ScriptedAsker::waiting();
        let (workspace, port) = (dir.workspace(), asker.clone());
        let caller = TestCaller::new().tool(write).engine(|engine| engine.workspace(workspace).asker(port));
        Swap { dir, asker, caller }
    }

    fn written(&self) -> Vec<&'static str> {
        ["a", "b", "c"].into_iter().filter(|name| self.dir.path(&format!("w/{name}/x")).exists()).collect()
    }
}

#[tokio::test]
async fn an_approval_is_bound_to_what_it_was_asked_about() {
    // Nothing moves: one question.
    let swap = Swap::new();
    let mut turn = swap.caller.start([("1", "write", "{}")]);
    let asked = turn.meanwhile(swap.asker.asked()).await;
    assert!(!asked.approval().again);
    asked.answer(ApprovalAnswer::Once);
    turn.results().await.check(["1 ok: written"]);
    assert_eq!(swap.written(), ["a"]);

    // The link moves while the user thinks: the yes was for something else, so there is another question.
    let swap = Swap::new();
    let mut turn = swap.caller.start([("1", "write", "{}")]);
    let asked = turn.meanwhile(swap.asker.asked()).await;
    swap.dir.link("w/link", "b");
    asked.answer(ApprovalAnswer::Once);
    let asked = turn.meanwhile(swap.asker.asked()).await;
    assert!(asked.approval().again);
    assert_eq!(swap.written(), [""; 0]);
    asked.answer(ApprovalAnswer::Once);
    turn.results().await.check(["1 ok: written"]);
    assert_eq!(swap.written(), ["b"], "where it was asked about the second time");

    // The same where nothing is there yet, so that only the names differ.
    let swap = Swap::new();
    swap.dir.link("w/a/x", "one");
    let mut turn = swap.caller.start([("1", "write", "{}")]);
    let asked = turn.meanwhile(swap.asker.asked()).await;
    swap.dir.link("w/a/x", "two");
    asked.answer(ApprovalAnswer::Once);
    let asked = turn.meanwhile(swap.asker.asked()).await;
    assert!(asked.approval().again);
    asked.answer(ApprovalAnswer::Once);
    turn.results().await.check(["1 ok: written"]);
    assert!(swap.dir.path("w/a/two").exists() && !swap.dir.path("w/a/one").exists());

    // It moves again: denied.
    let swap = Swap::new();
    let mut turn = swap.caller.start([("1", "write", "{}")]);
    for place in ["b", "c"] {
        let asked = turn.meanwhile(swap.asker.asked()).await;
        swap.dir.link("w/link", place);
        asked.answer(ApprovalAnswer::Once);
    }
    let words = "1 Denied: write was denied: what it touches changed twice while the user was being asked";
    turn.results().await.check([words]);
    assert_eq!(swap.written(), [""; 0]);
    assert_eq!(swap.asker.approvals().len(), 2);
}

/// A yes for the session that came too late is a yes to nothing.
#[tokio::test]
async fn a_yes_to_something_that_changed_is_not_remembered() {
    let swap = Swap::new();
    let mut turn = swap.caller.start([("1", "write", "{}")]);
    let asked = turn.meanwhile(swap.asker.asked()).await;
    swap.dir.link("w/link", "b");
    asked.answer(ApprovalAnswer::Session);
    turn.meanwhile(swap.asker.asked()).await.answer(ApprovalAnswer::NoBecause("it moved".into()));
    turn.results().await.check(["1 Rejected: the user said no to write: it moved"]);
    let mut turn = swap.caller.start([("2", "write", "{}")]);
    turn.meanwhile(swap.asker.asked()).await.answer(ApprovalAnswer::Once);
    turn.results().await.check(["2 ok: written"]);
}

#[tokio::test]
async fn once_is_once_and_the_session_is_remembered() {
    async fn check(answer: ApprovalAnswer, expected: usize) {
        let dir = Dir::new();
        let asker = ScriptedAsker::new().then(answer).then(ApprovalAnswer::Once).then(ApprovalAnswer::Once);
        let caller = caller_in(&dir, any(plain("t", Effects::writes("a"))), PermissionRules::new());
        let caller = caller.engine(|engine| engine.asker(asker.clone()));
        for _ in 0..3 {
            assert_eq!(caller.call("t", "{}").await.error_kind(), None);
        }
        assert_eq!(asker.approvals().len(), expected);
    }
    check(ApprovalAnswer::Once, 3).await;
    check(ApprovalAnswer::Session, 1).await;
    check(ApprovalAnswer::Always, 1).await;
}

/// Remembering is by name, and a path outside still wants a yes of its own.
#[tokio::test]
async fn a_remembered_yes_does_not_reach_outside_or_past_rules() {
    let dir = Dir::new();
    let tool = plain("t", Effects::none()).effects(|args| Effects::writes(args["path"].as_str().unwrap()));
    let asker =
        ScriptedAsker::new().then(ApprovalAnswer::Session).then(ApprovalAnswer::NoBecause("outside".into()));
    let rules = PermissionRules::new();
    let caller = caller_in(&dir, any(tool), rules.clone()).engine(|engine| engine.asker(asker.clone()));
    let call = async |path: &str| caller.call("t", json!({"path": path})).await.error_kind();
    assert_eq!(call("a").await, None);
    assert_eq!(call("b").await, None);
    assert_eq!(call("../c").await, Some(ErrorKind::Rejected));
    rules.set(PermissionMode::DontAsk);
    assert_eq!(call("b").await, None);
    assert_eq!(call("../c").await, Some(ErrorKind::Denied));
}

#[tokio::test]
async fn a_bare_no_ends_the_turn_and_a_reason_lets_it_go_on() {
    let check = async |answer: ApprovalAnswer, expected: [&str; 3]| {
        let dir = Dir::new();
        let asker = ScriptedAsker::new().then(answer).then(ApprovalAnswer::Once);
        let workspace = dir.workspace();
        let caller = TestCaller::new()
            .tool(plain("t", Effects::writes("a")))
            .tool(reader("read"))
            .engine(|engine| engine.workspace(workspace).asker(asker.clone()));
        let calls = [("1", "t", "{}"), ("2", "t", "{}"), ("3", "read", "{}")];
        let results = caller.turn(calls).await;
        results.check(expected);
        assert_eq!(results[0].error().unwrap().ends_turn(), expected[1].contains("not run"));
        // The next turn is another one.
        assert_eq!(caller.call("read", "{}").await.error_kind(), None);
    };
    check(
        ApprovalAnswer::No,
        [
            "1 Rejected: the user said no to t and ended the turn; wait for what they say",
            "2 Cancelled: t was not run; cancelled: the user interrupted this turn",
            "3 Cancelled: read was not run; cancelled: the user interrupted this turn",
        ],
    )
    .await;
    check(
        ApprovalAnswer::NoBecause("not that one".into()),
        ["1 Rejected: the user said no to t: not that one", "2 ok: done", "3 ok: done"],
    )
    .await;
}

#[tokio::test]
async fn an_edit_is_judged_like_any_other_input() {
    let dir = Dir::new();
    let write = dynamic_tool(
        "write",
        "Writes.",
        json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
        |args, _| async move { Ok(args) },
    )
    .effects(|args| Effects::writes(args["path"].as_str().unwrap()));
    let edit = |path: Value| ApprovalAnswer::Edit(json!({"path": path}));
    let tool = any(write);
    let check = async |first: ApprovalAnswer, second: Option<ApprovalAnswer>, expected: &str| {
        let mut asker = ScriptedAsker::new().then(first);
        if let Some(second) = second {
            asker = asker.then(second);
        }
        let workspace = dir.workspace().with_protected(dir.path("w/.haft"));
        let caller = TestCaller::new()
            .tool(tool.clone())
            .engine(|engine| engine.workspace(workspace).asker(asker.clone()));
        let results = caller.turn([("1", "write", json!({"path": "a"}))]).await;
        assert!(results.lines()[0].starts_with(expected), "{results:?}");
        asker.approvals()
    };
    let approvals = check(edit(json!("b")), Some(ApprovalAnswer::Once), r#"1 ok: {"path":"b"}"#).await;
    assert_eq!(approvals[1].input, json!({"path": "b"}));
    assert_eq!(approvals[1].effects, Effects::writes("b"));
    check(edit(json!(5)), None, "1 InvalidInput: invalid input for write").await;
    check(edit(json!(".haft/x")), None, "1 Denied: write was denied: no tool may write").await;
}

#[tokio::test]
async fn a_change_of_mode_counts_from_the_next_judgement_on() {
    let rules = PermissionRules::new();
    let caller = TestCaller::new()
        .tool(plain("t", Effects::changes("x.io")))
        .engine(|engine| engine.permissions(rules.clone()));
    let call = async || caller.call("t", "{}").await.error_kind();
    assert_eq!(call().await, Some(ErrorKind::Denied));
    rules.set(PermissionMode::BypassPermissions);
    assert_eq!(call().await, None);
    rules.set(PermissionMode::Default);
    assert_eq!(call().await, Some(ErrorKind::Denied));
}

/// What the parent may, its child may; what the parent may not, no rule of the child's allows.
#[tokio::test]
async fn a_child_is_held_to_the_rules_of_its_parent() {
    let (delegate, handle) = scripted_tool("delegate").effects(|_| Effects::delegates()).build();
    let write = any(plain("write", Effects::changes("x.io")));
    let rules = PermissionRules::new();
    let caller =
        TestCaller::new().tool(delegate).tool(write).engine(|engine| engine.permissions(rules.clone()));
    let turn = caller.start([("1", "delegate", "{}")]);
    let call = handle.started().await;
    let only_write = caller.registry().only(|entry| entry.tool().name() == "write");
    let child = |own: Option<PermissionRules>| {
        let child = caller.as_engine().child("worker", only_write.clone(), call.context());
        match own {
            Some(own) => child.permissions(own).build(),
            None => child.build(),
        }
    };
    let kind = async |own: Option<PermissionRules>| {
        let child = child(own);
        let call = haft::ToolCall::new("1", "write", "{}");
        child.turn().run([call]).await[0].error_kind()
    };
    let allowing = || PermissionRules::new().mode(PermissionMode::BypassPermissions);
    let denying = || PermissionRules::new().deny("write").unwrap();
    assert_eq!(kind(None).await, Some(ErrorKind::Denied));
    assert_eq!(kind(Some(allowing())).await, Some(ErrorKind::Denied), "a child grants itself nothing");
    rules.set(PermissionMode::BypassPermissions);
    assert_eq!(kind(None).await, None, "the parent's grants are inherited, live");
    assert_eq!(kind(Some(denying())).await, Some(ErrorKind::Denied));
    call.succeed("done");
    turn.results().await.check(["1 ok: done"]);
    // Its work is over, so is its child's.
}

#[tokio::test]
async fn a_child_ends_with_the_call_it_belongs_to() {
    let (delegate, handle) = scripted_tool("delegate").effects(|_| Effects::delegates()).build();
    let (slow, slow_handle) = scripted_tool("slow").effects(|_| Effects::none()).build();
    let caller = TestCaller::new().tool(delegate).tool(slow);
    let turn = caller.start([("1", "delegate", "{}")]);
    let call = handle.started().await;
    let child = caller.as_engine().child("worker", caller.registry().clone(), call.context()).build();
    let work = tokio::spawn(child.turn().run([haft::ToolCall::new("c", "slow", "{}")]));
    let inner = slow_handle.started().await;
    assert_eq!(inner.context().call().agent_id(), "worker");
    assert_eq!(inner.context().call().session_id(), call.context().call().session_id());
    turn.handle().cancel(haft::Cause::User);
    inner.dropped().await;
    assert_eq!(work.await.unwrap()[0].error().unwrap().cause(), Some(haft::Cause::User));
    assert_eq!(turn.results().await[0].error_kind(), Some(ErrorKind::Cancelled));
}

#[tokio::test]
async fn watchers_see_that_a_call_asks() {
    let log = EventLog::new();
    let asker = ScriptedAsker::new().then(ApprovalAnswer::Once);
    let caller = TestCaller::new()
        .tool(plain("t", Effects::unknown()))
        .engine(|engine| engine.asker(asker).events(log.clone()));
    caller.turn([("1", "t", "{}")]).await;
    assert_eq!(log.lines(), ["1 asking", "1 started", "1 finished"]);
}

#[test]
fn rules_that_are_not_names_are_refused() {
    for bad in ["", "Bash(git log:*)", "mcp__*", "a b"] {
        let error = PermissionRules::new().deny(bad).err().expect("it is refused").to_string();
        assert!(error.contains(&format!("`{bad}` is not a rule")), "{error}");
    }
    assert_eq!(PermissionRules::new().allow("Read").unwrap().names().collect::<Vec<_>>(), ["Read"]);
    assert!(Workspace::new("/no/such/folder").is_err());
}
