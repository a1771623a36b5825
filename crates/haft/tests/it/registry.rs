//! Which tools there are, which of them a turn has, and under which names.

use std::collections::HashSet;

use haft::ports::{HostPorts, PortName};
use haft::registry::{
    AssemblyInputs, RegistryError, Snapshot, ToolGates, ToolNotFound, ToolOrigin, WithheldReason,
};
use haft::testing::{ScriptedAsker, TestCaller, scripted_tool};
use haft::tool::{AnyTool, ToolExposure};
use haft::{Effects, ErrorKind, PermissionRules, Registry};
use serde_json::json;

use crate::{any, reader};

fn snapshot(registry: &Registry) -> Snapshot {
    registry.snapshot(&AssemblyInputs::new(&ToolGates::default(), &HostPorts::default()))
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.offers().iter().map(|offer| offer.name()).collect()
}

/// The tools that aren't offered, with their reason in words.
fn withheld(snapshot: &Snapshot) -> Vec<String> {
    snapshot
        .withheld()
        .map(|(entry, why)| format!("{} ({}): {why}", entry.tool().name(), entry.origin()))
        .collect()
}

#[test]
fn clashes_are_errors_when_a_tool_is_registered() {
    let base = Registry::new().with(reader("Read").alias("read_file")).unwrap();
    let check = |registered: Result<Registry, RegistryError>, expected: &str| {
        assert_eq!(registered.err().map(|error| error.to_string()).unwrap_or_default(), expected);
    };
    check(base.with(reader("Write")), "");
    check(base.with(reader("Read")), "tool `Read` can't be called `Read`: that is a name of `Read`");
    check(
        base.with(reader("read_file")),
        "tool `read_file` can't be called `read_file`: that is a name of `Read`",
    );
    check(base.with(reader("x").alias("Read")), "tool `x` can't be called `Read`: that is a name of `Read`");
    check(
        base.with(reader("x").alias("read_file")),
        "tool `x` can't be called `read_file`: that is a name of `Read`",
    );
    check(base.with(reader("x").alias("x")), "tool `x` can't be called `x`: that is a name of `x`");
    check(
        base.with(vec![any(reader("x")), any(reader("x"))]),
        "tool `x` can't be called `x`: that is a name of `x`",
    );
    // Between sources nothing clashes here: assembly decides, and says so.
    check(base.with_external("server", reader("Read")), "");
    let server = base.with_external("server", reader("x")).unwrap();
    check(server.with_external("server", reader("x")), "tool `x` can't be called `x`: that is a name of `x`");
    check(server.with_external("other", reader("x")), "");

    assert_eq!(base.len(), 1, "registering makes a new registry");
}

/// A closure so that the tool can be made again with the same facts.
fn all_stages() -> Vec<AnyTool> {
    vec![
        any(reader("feature").spec(|spec| spec.feature("pdf"))),
        any(reader("group").group("web")),
        any(reader("by_name")),
        any(reader("user").needs_user()),
        any(reader("port").needs(PortName::Processes)),
        any(reader("disabled").unavailable_reason(|| Some("it has no key".into()))),
        any(reader("denied")),
        any(reader("fine").group("files")),
    ]
}

#[test]
fn every_stage_withholds_with_its_reason() {
    let mut gates = ToolGates::default();
    gates.features_off.insert("pdf".into());
    gates.groups_off.insert("web".into());
    gates.tools_off.insert("by_name".into());
    let rules = PermissionRules::new().deny("denied").unwrap();
    let ports = HostPorts::default();
    let registry =
        Registry::new().with(all_stages()).unwrap().with_external("server", reader("fine")).unwrap();

    let taken = registry.snapshot(&AssemblyInputs::new(&gates, &ports).authorizer(&rules));
    assert_eq!(names(&taken), ["fine"]);
    assert_eq!(*taken.find("fine").unwrap().origin(), ToolOrigin::BuiltIn);
    assert_eq!(
        withheld(&taken),
        [
            "by_name (built-in): it is switched off",
            "denied (built-in): denied by rule `denied` (Permissions::deny)",
            "disabled (built-in): it has no key",
            "feature (built-in): its build feature `pdf` is off",
            "fine (server): a built-in tool has its name",
            "group (built-in): it is switched off",
            "port (built-in): this host has no child processes",
            "user (built-in): it needs a user, and this session has none",
        ]
    );

    // With everything on, all of them are there.
    let ports = HostPorts {
        asker: Some(std::sync::Arc::new(ScriptedAsker::new())),
        processes: Some(std::sync::Arc::new(haft::testing::ScriptedProcesses::new())),
        ..HostPorts::default()
    };
    let taken = registry.snapshot(&AssemblyInputs::new(&ToolGates::default(), &ports));
    assert_eq!(withheld(&taken).len(), 2, "only the disabled and the shadowed one");
    assert_eq!(names(&taken), ["by_name", "denied", "feature", "fine", "group", "port", "user"]);
}

#[tokio::test]
async fn a_call_of_a_withheld_tool_says_why() {
    let mut gates = ToolGates::default();
    gates.tools_off.insert("off".into());
    let rules = PermissionRules::new().deny("denied").unwrap();
    let caller = TestCaller::new()
        .tool(reader("off").alias("was_on"))
        .tool(reader("denied"))
        .tool(reader("user").needs_user())
        .tool(reader("port").needs(PortName::SubAgents))
        .engine(|engine| engine.gates(gates).permissions(rules));
    let calls = ["off", "was_on", "denied", "user", "port"].map(|name| (name, name, "{}"));
    let results = caller.turn(calls).await;
    // A rule or a missing user decides without the input; a tool that is off is not decided on.
    let decisions = results.iter().map(|result| {
        let decision = result.error()?.decision()?;
        let touches = &decision.effects.resolved.declared;
        Some(format!("{} by {:?}: {}; it {touches}", decision.verdict, decision.source, decision.reason()?))
    });
    assert_eq!(
        decisions.flatten().collect::<Vec<_>>(),
        [
            "deny by Rule: rule `denied` (Permissions::deny); it may touch anything",
            "deny by NoUser: it needs a user to answer, and this session has none; it may touch anything",
        ]
    );
    results.check([
        "off UnknownTool: off is not offered: it is switched off",
        "was_on UnknownTool: off is not offered: it is switched off",
        "denied Denied: denied is denied by rule `denied` (Permissions::deny)\ndo not try another tool for the same purpose",
        "user NotInteractive: user can't be used: it needs a user, and this session has none",
        "port UnknownTool: port is not offered: this host has no model for sub-agents",
    ]);
}

/// Every port that a tool can need.
#[test]
fn a_tool_whose_port_is_absent_is_not_offered() {
    use std::sync::Arc;
    type Change = fn(&mut HostPorts);
    let check = |port: PortName, add: Option<Change>| {
        let registry = Registry::new().with(reader("t").needs(port)).unwrap();
        let gates = ToolGates::default();
        let mut ports = HostPorts::default();
        let without = registry.snapshot(&AssemblyInputs::new(&gates, &ports));
        assert_eq!(without.offers().len(), usize::from(add.is_none()), "{port:?}");
        if let Some(add) = add {
            add(&mut ports);
            let with = registry.snapshot(&AssemblyInputs::new(&gates, &ports));
            assert_eq!(names(&with), ["t"], "{port:?}");
        }
    };
    check(PortName::Files, None);
    check(
        PortName::Processes,
        Some(|ports| {
            ports.processes = Some(Arc::new(haft::testing::ScriptedProcesses::new()));
        }),
    );
    check(PortName::Asker, Some(|ports| ports.asker = Some(Arc::new(ScriptedAsker::new()))));
    check(
        PortName::Recorder,
        Some(|ports| {
            ports.recorder = Some(Arc::new(haft::testing::MemoryRecorder::new()));
        }),
    );
    check(
        PortName::Mode,
        Some(|ports| {
            ports.mode = Some(Arc::new(haft::testing::LiveMode::new(Default::default())));
        }),
    );
    check(
        PortName::SubAgents,
        Some(|ports| {
            ports.sub_agents = Some(Arc::new(haft::testing::ScriptedSubAgents::new()));
        }),
    );
    check(PortName::Tasks, Some(|ports| ports.tasks = Some(Arc::new(haft::dispatch::TaskTable::new()))));
}

#[test]
fn replaced_tools_keep_their_places() {
    let shared = Registry::new().with(vec![any(reader("a")), any(reader("b")), any(reader("c"))]).unwrap();
    let shared = shared.with_external("server", reader("b")).unwrap();
    let own = Registry::new().with(vec![any(reader("b").group("own")), any(reader("d"))]).unwrap();
    let tools: Vec<String> = shared
        .replace_tools(&own)
        .entries()
        .map(|entry| format!("{} {} {}", entry.tool().name(), entry.origin(), entry.tool().group()))
        .collect();
    assert_eq!(tools, ["a built-in other", "b built-in own", "c built-in other", "b server other"]);
}

/// All orders of some things.
fn permutations<T: Clone>(things: &[T]) -> Vec<Vec<T>> {
    let [first, rest @ ..] = things else { return vec![vec![]] };
    let mut all = Vec::new();
    for shorter in permutations(rest) {
        for place in 0..=shorter.len() {
            let mut longer = shorter.clone();
            longer.insert(place, first.clone());
            all.push(longer);
        }
    }
    all
}

#[test]
fn the_order_of_registration_changes_nothing() {
    let tools: [(&str, Option<&str>); 6] = [
        ("b", None),
        ("a", None),
        ("z", Some("server")),
        ("same", Some("server")),
        ("same", Some("another")),
        ("b", Some("another")),
    ];
    let mut seen = HashSet::new();
    for order in permutations(&tools) {
        let mut registry = Registry::new();
        for (name, source) in order {
            registry = match source {
                None => registry.with(reader(name).alias(format!("{name}_alias"))).unwrap(),
                Some(source) => registry.with_external(source, reader(name)).unwrap(),
            };
        }
        let taken = snapshot(&registry);
        let offers: Vec<String> =
            taken.offers().iter().map(|offer| format!("{} of {}", offer.name(), offer.origin())).collect();
        seen.insert((offers, withheld(&taken), format!("{:?}", taken.find("c").err())));
    }
    assert_eq!(seen.len(), 1, "{seen:#?}");
    let (offers, withheld, _) = seen.into_iter().next().unwrap();
    assert_eq!(offers[..3], ["a of built-in", "b of built-in", "same of another"], "built-ins first");
    assert!(offers[3].starts_with("same_") && offers[3].ends_with(" of server"), "{offers:?}");
    assert_eq!(offers[4..], ["z of server"]);
    assert_eq!(withheld, ["b (another): a built-in tool has its name"]);
}

/// Those of outside tools too, but they take nothing away: no name, no alias of a built-in tool, offered or
/// not.
#[test]
fn an_alias_leads_to_its_tool_where_nothing_is_called_that() {
    let others = ["free", "Read", "read_file", "shell", "denied", "here", "shared"];
    let outside = others.iter().fold(reader("outside"), |tool, alias| tool.alias(*alias));
    let registry = Registry::new()
        .with(vec![any(reader("Read").alias("read_file")), any(reader("Bash").alias("shell"))])
        .unwrap()
        .with_external("server", outside)
        .unwrap()
        .with_external("other", vec![any(reader("read_file")), any(reader("denied")), any(reader("here"))])
        .unwrap()
        .with_external("another", reader("z").alias("shared"))
        .unwrap();
    let (gates, ports) = (ToolGates::default(), HostPorts::default());
    let rules = PermissionRules::new().deny("Bash").unwrap().deny("denied").unwrap();
    let taken = registry.snapshot(&AssemblyInputs::new(&gates, &ports).authorizer(&rules));
    let found = |name: &str| taken.find(name).map(|offer| offer.name().to_owned()).unwrap_or_default();
    for (name, expected) in [
        ("outside", "outside"),
        ("free", "outside"),
        ("Read", "Read"),
        ("read_file", "Read"),
        ("here", "here"),
        ("shell", ""),
        ("denied", ""),
        // Of two sources the first by name.
        ("shared", "z"),
    ] {
        assert_eq!(found(name), expected, "{name}");
    }
    assert!(withheld(&taken).contains(&"read_file (other): a built-in tool has its name".to_owned()));
}

/// Also the names of a built-in tool that isn't offered: denying one must not hand its name over.
#[test]
fn an_external_tool_takes_no_name_of_a_built_in_one() {
    let registry = Registry::new()
        .with(reader("Bash").alias("shell"))
        .unwrap()
        .with_external("server", vec![any(reader("Bash")), any(reader("shell"))])
        .unwrap();
    let (gates, ports) = (ToolGates::default(), HostPorts::default());
    let rules = PermissionRules::new().deny("Bash").unwrap();
    let taken = registry.snapshot(&AssemblyInputs::new(&gates, &ports).authorizer(&rules));
    assert_eq!(names(&taken), [""; 0]);
    assert!(matches!(taken.find("Bash"), Err(ToolNotFound::Withheld(..))));
    assert!(matches!(taken.find("shell"), Err(ToolNotFound::Withheld(..))));

    let without = snapshot(&registry.without_external("server"));
    assert_eq!((names(&without), withheld(&without).len()), (vec!["Bash"], 0));
}

#[test]
fn a_suffix_is_the_same_for_the_same_source_whoever_else_is_there() {
    let long = "x".repeat(64);
    let named = |sources: &[&str], tool: &str| {
        let mut registry = Registry::new();
        for source in sources {
            registry = registry.with_external(*source, reader(tool)).unwrap();
        }
        let taken = snapshot(&registry);
        let name =
            |offer: &haft::registry::OfferedTool| (offer.origin().to_string(), offer.name().to_owned());
        taken.offers().iter().map(name).collect::<std::collections::BTreeMap<_, _>>()
    };
    let two = named(&["a", "b"], "send");
    let three = named(&["c", "a", "b"], "send");
    assert_eq!(two["a"], "send");
    assert_eq!(two["b"], three["b"]);
    assert_ne!(three["b"], three["c"]);
    // A known value: it is in transcripts, so it must not change.
    assert_eq!(two["b"], "send_26983693");
    let long = named(&["a", "b"], &long);
    assert_eq!(long["b"].len(), 64);
    assert_ne!(long["a"], long["b"]);
}

#[tokio::test]
async fn a_suffixed_tool_is_called_by_the_name_it_is_offered_under() {
    let (first, _) = scripted_tool("send").effects(|_| Effects::none()).then("from a").build();
    let (second, _) = scripted_tool("send").effects(|_| Effects::none()).then("from b").build();
    let caller = TestCaller::new().external("a", first).external("b", second);
    let snapshot = caller.as_engine().snapshot();
    let other = names(&snapshot)[1].to_owned();
    let calls = [("1", "send".to_owned(), "{}"), ("2", other, "{}")];
    caller.turn(calls).await.check(["1 ok: from a", "2 ok: from b"]);
}

#[test]
fn closest_names() {
    let registry = Registry::new()
        .with(vec![
            any(reader("Read").alias("read_file")),
            any(reader("Write").alias("write_file")),
            any(reader("WebFetch")),
            any(reader("Grep")),
            any(reader("TodoWrite")),
        ])
        .unwrap();
    let taken = snapshot(&registry);
    let check = |wanted: &str, expected: &[&str]| match taken.find(wanted) {
        Err(ToolNotFound::Unknown(near)) => assert_eq!(near, expected, "{wanted}"),
        other => panic!("{wanted}: {:?}", other.map(|offer| offer.name().to_owned())),
    };
    check("read", &["`Read`", "`read_file` (alias of Read)"]);
    check("read_fil", &["`read_file` (alias of Read)", "`Read`"]);
    check("ReadFile", &["`read_file` (alias of Read)", "`Read`"]);
    check("web_fetch", &["`WebFetch`"]);
    check("Gerp", &["`Grep`"]);
    check("write", &["`Write`", "`TodoWrite`", "`write_file` (alias of Write)"]);
    check("quantum_teleport", &[]);
    check("", &[]);
    check(&"x".repeat(100_000), &[]);
}

#[tokio::test]
async fn a_turn_keeps_its_tools_while_the_engine_gets_others() {
    let caller = TestCaller::new().tool(reader("old"));
    let engine = caller.as_engine();
    let turn = engine.turn();
    engine.refresh_with(Registry::new().with(reader("new")).unwrap());
    assert_eq!(names(turn.snapshot()), ["old"]);
    assert_eq!(names(&engine.snapshot()), ["new"]);
    let calls = || [("1", "old", "{}"), ("2", "new", "{}")];
    let results = caller.start_in(turn, calls()).results().await;
    results.check(["1 ok: done", "2 UnknownTool: no tool named `new`"]);
    caller.turn(calls()).await.check(["1 UnknownTool: no tool named `old`", "2 ok: done"]);
}

/// The implementation is pinned with the definition: the same name may be another tool in the next turn.
#[tokio::test]
async fn a_turn_keeps_the_implementation_that_was_advertised() {
    let (first, _) = scripted_tool("t").effects(|_| Effects::none()).then("first").build();
    let (second, _) = scripted_tool("t").effects(|_| Effects::none()).then("second").build();
    let caller = TestCaller::new().external("server", first);
    let turn = caller.as_engine().turn();
    let replaced = caller.registry().without_external("server").with_external("server", second).unwrap();
    caller.as_engine().refresh_with(replaced);
    caller.start_in(turn, [("1", "t", "{}")]).results().await.check(["1 ok: first"]);
    caller.turn([("1", "t", "{}")]).await.check(["1 ok: second"]);
}

#[test]
fn a_filtered_view_has_the_same_tools_and_fewer() {
    let registry = Registry::new()
        .with(vec![any(reader("a").group("web")), any(reader("b")), any(reader("c"))])
        .unwrap()
        .with_external("server", reader("d"))
        .unwrap();
    let view = registry.only(|entry| entry.tool().name() != "b" && *entry.origin() == ToolOrigin::BuiltIn);
    assert_eq!(names(&snapshot(&view)), ["a", "c"]);
    assert_eq!(names(&snapshot(&registry)), ["a", "b", "c", "d"]);
    let same = |registry: &Registry| {
        registry.entries().find(|entry| entry.tool().name() == "a").map(|entry| *entry.fingerprint())
    };
    assert_eq!(same(&view), same(&registry));
    assert!(Registry::new().only(|_| true).is_empty());
}

#[test]
fn a_fingerprint_is_of_what_the_model_was_told() {
    let print = |tool: AnyTool| {
        let registry = Registry::new().with(tool).unwrap();
        *registry.entries().next().unwrap().fingerprint()
    };
    let base = print(any(reader("t")));
    assert_eq!(base, print(any(reader("t").alias("other").timeout_ms(5))), "the rest is ours");
    assert_ne!(base, print(any(reader("u"))));
    assert_ne!(base, print(any(reader("t").spec(|spec| spec.description("Does something else.")))));
}

/// `n` external tools, a search tool, and some with wishes of their own.
fn many(external: usize, search: bool) -> Registry {
    let mut registry = Registry::new()
        .with(vec![
            any(reader("normal")),
            any(reader("later").exposure(ToolExposure::Deferred)),
            any(reader("always").exposure(ToolExposure::AlwaysLoaded)),
        ])
        .unwrap();
    if search {
        registry = registry.with(reader("ToolSearch").spec(|spec| spec.finds_tools())).unwrap();
    }
    let mut tools: Vec<AnyTool> = (0..external).map(|n| any(reader(&format!("ext{n}")))).collect();
    tools.push(any(reader("ext_always").exposure(ToolExposure::AlwaysLoaded)));
    registry.with_external("server", tools).unwrap()
}

#[test]
fn tools_are_deferred_above_the_threshold_and_only_if_they_can_be_found() {
    let check = |external: usize, search: bool, above: usize, expected: &[&str]| {
        let mut gates = ToolGates::default();
        gates.defer_above = above;
        let taken = many(external, search).snapshot(&AssemblyInputs::new(&gates, &HostPorts::default()));
        let deferred: Vec<_> = taken.deferred().map(|offer| offer.name()).collect();
        assert_eq!(deferred, expected, "{external} {search} {above}");
        let shown = taken.definitions().count();
        assert_eq!(shown + deferred.len(), taken.offers().len());
    };
    check(2, true, 7, &[]);
    check(2, true, 6, &["later", "ext0", "ext1"]);
    check(2, false, 5, &[]);
    check(0, true, 0, &["later"]);
    assert_eq!(ToolGates::default().defer_above, 60);
    check(54, true, 60, &[]);
    check(55, true, 60, &[]);
    let taken = many(56, true).snapshot(&AssemblyInputs::new(&ToolGates::default(), &HostPorts::default()));
    assert_eq!(taken.deferred().count(), 57);
}

/// Few tools with long definitions take as much of the window as many with short ones.
#[test]
fn tools_are_deferred_above_a_share_of_the_window() {
    let long = "long words ".repeat(400);
    let tools: Vec<AnyTool> =
        (0..10).map(|n| any(reader(&format!("big{n}")).spec(|spec| spec.description(&*long)))).collect();
    let registry = many(0, true).with_external("other", tools).unwrap();
    let deferred = |window: Option<u64>, percent: u8| {
        let mut gates = ToolGates::default();
        (gates.window_tokens, gates.defer_above_percent) = (window, percent);
        let taken = registry.snapshot(&AssemblyInputs::new(&gates, &HostPorts::default()));
        let tokens: u64 = taken.offers().iter().map(haft::registry::OfferedTool::tokens_guess).sum();
        assert!((11_000..12_000).contains(&tokens), "{tokens}");
        taken.deferred().count()
    };
    assert_eq!(ToolGates::default().defer_above_percent, 10);
    assert_eq!(deferred(None, 10), 0, "nobody said how large the window is");
    assert_eq!(deferred(Some(200_000), 10), 0);
    assert_eq!(deferred(Some(100_000), 10), 11, "one of the program's own may wait too");
    assert_eq!(deferred(Some(200_000), 5), 11);
    assert_eq!(deferred(Some(u64::MAX), 100), 0);
    assert_eq!(deferred(Some(0), 0), 11);
}

#[test]
fn what_is_always_loaded_is_never_deferred() {
    let deferred = |always: &[&str]| {
        let mut gates = ToolGates::default();
        gates.defer_above = 0;
        gates.always_load = always.iter().map(ToString::to_string).collect();
        let taken = many(3, true).snapshot(&AssemblyInputs::new(&gates, &HostPorts::default()));
        taken.deferred().map(|offer| offer.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(deferred(&[]), ["later", "ext0", "ext1", "ext2"]);
    assert_eq!(deferred(&["ext1", "later", "none"]), ["ext0", "ext2"]);
    assert_eq!(deferred(&["ext*"]), ["later"]);
    assert_eq!(deferred(&["*"]), Vec::<String>::new());
}

#[tokio::test]
async fn a_deferred_tool_is_shown_once_it_was_found() {
    let mut gates = ToolGates::default();
    gates.defer_above = 3;
    let caller = TestCaller::with_registry(many(2, true)).engine(|engine| engine.gates(gates));
    let engine = caller.as_engine();
    let shown =
        |snapshot: &Snapshot| snapshot.definitions().map(|offer| offer.name().to_owned()).collect::<Vec<_>>();
    let hidden = ["ToolSearch", "always", "normal", "ext_always"];
    assert_eq!(shown(&engine.snapshot()), hidden);

    let before = engine.turn();
    let found = engine.load(&["ext1".into(), "none".into(), "later".into()]);
    assert_eq!(found, ["ext1", "later"]);
    assert_eq!(shown(before.snapshot()), hidden, "a turn that began keeps what it showed");
    let loaded = ["ToolSearch", "always", "later", "normal", "ext1", "ext_always"];
    assert_eq!(shown(&engine.snapshot()), loaded);
    engine.refresh();
    assert_eq!(shown(&engine.snapshot()), loaded, "and it stays loaded");
    drop(before);
}

#[tokio::test]
async fn a_deferred_tool_runs_and_a_misfit_carries_its_schema() {
    let schema = json!({
        "type": "object",
        "properties": {"to": {"type": "string"}},
        "required": ["to"],
    });
    let send = || {
        any(haft::dynamic_tool("send", "Sends.", schema.clone(), |_, _| async { Ok("sent") })
            .effects(|_| Effects::none()))
    };
    let call = async |above: usize, input: serde_json::Value| {
        let mut gates = ToolGates::default();
        gates.defer_above = above;
        let caller = TestCaller::new()
            .tool(reader("ToolSearch").spec(|spec| spec.finds_tools()))
            .external("server", send())
            .engine(|engine| engine.gates(gates));
        assert_eq!(caller.as_engine().snapshot().find("send").unwrap().is_deferred(), above == 0);
        caller.call("send", input).await
    };
    assert_eq!(call(0, json!({"to": "me"})).await.to_json().output, "sent");
    let misfit = call(0, json!({})).await;
    assert_eq!(misfit.error_kind(), Some(ErrorKind::InvalidInput));
    let words = misfit.error().unwrap().message();
    let (_, carried) = words.split_once("\nthe input schema is ").expect("it carries the schema");
    assert_eq!(serde_json::from_str::<serde_json::Value>(carried).unwrap(), schema);
    let shown = call(9, json!({})).await;
    assert!(!shown.error().unwrap().message().contains("schema is"), "the model has it already");
}

#[test]
fn withheld_reasons_are_values() {
    let registry = Registry::new().with(reader("t").needs(PortName::Tasks)).unwrap();
    let taken = snapshot(&registry);
    let (_, why) = taken.withheld().next().unwrap();
    assert_eq!(*why, WithheldReason::PortAbsent(PortName::Tasks));
}
