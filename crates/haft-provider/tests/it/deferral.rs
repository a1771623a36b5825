//! Tools that the model has to search for, by every wire: found, called, and in a history that stays valid.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use haft::registry::ToolGates;
use haft::search::ToolSearch;
use haft::{Effects, Engine, ErrorKind, Registry, dynamic_tool};
use haft_agent::{
    AgentLoop, Conversation, MessageFormat, Model, ModelRequest, ReplyDelta, ReplyStream, RunEnd, RunEvent,
    RunOptions, RunOutcome, ToolDeferral, ToolDefiner, ToolDefinitions,
};
use haft_provider::scripted::ScriptedModel;
use haft_provider::{DefinitionCache, RequestOptions, Wire, decode_message};
use serde_json::{Value, json};

use crate::loops::{check_history, model};
use crate::shared::{data, fits, json as read_json, request_schema};

/// A model that keeps what it was asked with.
struct Recording {
    model: ScriptedModel,
    asked: Asked,
}

type Asked = Arc<Mutex<Vec<Request>>>;

/// A request: its tools as they were sent, and all of it.
#[derive(Clone)]
pub(crate) struct Request {
    tools: String,
    pub(crate) body: Value,
}

impl Request {
    /// The names of the tools that are defined, with `(deferred)` after those that are marked so.
    fn names(&self) -> Vec<String> {
        let tools: Value = serde_json::from_str(&self.tools).unwrap();
        let tools = tools[0].get("functionDeclarations").unwrap_or(&tools).clone();
        let named = |tool: &Value| {
            let function = tool.get("function").unwrap_or(tool);
            let name = function["name"].as_str().or(tool["type"].as_str()).unwrap();
            format!("{name}{}", if tool["defer_loading"] == true { " (deferred)" } else { "" })
        };
        tools.as_array().unwrap().iter().map(named).collect()
    }
}

impl Recording {
    fn wire(&self) -> Wire {
        self.format().name().parse().unwrap()
    }
}

impl Model for Recording {
    fn format(&self) -> &'static dyn MessageFormat {
        self.model.format()
    }

    fn name(&self) -> &str {
        self.model.name()
    }

    fn ask(&self, prompt: &ModelRequest<'_>) -> Box<dyn ReplyStream> {
        let body = serde_json::from_str(&RequestOptions::new("m").body(self.wire(), prompt)).unwrap();
        self.asked.lock().unwrap().push(Request { tools: prompt.tools.json().to_owned(), body });
        self.model.ask(prompt)
    }

    fn deferral(&self) -> ToolDeferral {
        self.model.deferral()
    }

    fn disable_deferral(&self) {
        self.model.disable_deferral();
    }
}

/// A tool from outside that says which it is.
fn tool(name: &str) -> haft::tool::AnyTool {
    let schema = json!({"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]});
    let said = format!("this is {name}");
    dynamic_tool(name.to_owned(), format!("Does {name} with a sprocket."), schema, move |_, _| {
        let said = said.clone();
        async move { Ok(said) }
    })
    .effects(|_| Effects::none())
    .build()
    .unwrap()
}

fn registry(names: &[&str]) -> Registry {
    let tools: Vec<_> = names.iter().map(|name| tool(name)).collect();
    Registry::new().with(ToolSearch).unwrap().with_external("many", tools).unwrap()
}

/// An engine with tools `alpha` to `delta` that have to be searched for.
fn engine() -> Engine {
    engine_of(registry(&["alpha", "beta", "delta", "gamma"]))
}

fn engine_of(registry: Registry) -> Engine {
    let mut gates = ToolGates::default();
    gates.defer_above = 0;
    Engine::builder(registry).gates(gates).build()
}

fn search(query: &str) -> Value {
    json!({"name": "ToolSearch", "input": {"query": query}})
}

fn call(name: &str) -> Value {
    json!({"name": name, "input": {"size": 1}})
}

/// A script that searches, calls what it found, and searches and calls again.
fn script() -> Value {
    json!({"turns": [
        {"tool_calls": [search("select:beta,alpha")]},
        {"expect": [{"tool": "ToolSearch", "contains": "Does beta with a sprocket."}], "tool_calls": [call("beta")]},
        {"expect": [{"equals": "this is beta"}], "tool_calls": [search("gamma")]},
        {"tool_calls": [call("gamma"), call("alpha")]},
        {"expect": [{"equals": "this is gamma"}, {"equals": "this is alpha"}], "text": "All done."},
    ]})
}

async fn go(
    engine: Engine,
    model: ScriptedModel,
    conversation: &mut Conversation,
) -> (RunOutcome, Vec<Request>, Vec<String>) {
    let (asked, told): (Asked, Arc<Mutex<Vec<String>>>) = Default::default();
    let seen = told.clone();
    let events = Arc::new(move |event: RunEvent| {
        if let RunEvent::Model(ReplyDelta::Retrying { failure, .. }) = event {
            seen.lock().unwrap().push(failure.message);
        }
    });
    let agent = AgentLoop::new(engine, Recording { model, asked: asked.clone() }).events(events);
    let outcome = agent.run(conversation, "go").await;
    check_searches(conversation);
    let (asked, told) = (asked.lock().unwrap().clone(), told.lock().unwrap().clone());
    (outcome, asked, told)
}

/// Every call has its result, and so has every search.
#[track_caller]
fn check_searches(conversation: &Conversation) {
    check_history(conversation);
    let ids = |kind: &str| -> Vec<Value> {
        let items = conversation.items().iter().filter(|item| item["type"] == kind);
        items.map(|item| item["call_id"].clone()).collect()
    };
    assert_eq!(ids("tool_search_call"), ids("tool_search_output"));
}

#[tokio::test]
async fn what_is_found_is_called_and_the_tools_stay_the_same_where_the_provider_knows() {
    for wire in Wire::ALL {
        let mut conversation = Conversation::new(wire);
        let (outcome, asked, told) = go(engine(), model(script(), wire), &mut conversation).await;
        assert_eq!((outcome.ended, outcome.text.as_str()), (RunEnd::Finished, "All done."), "{wire}");
        assert!(outcome.calls.iter().all(|(_, result)| !result.is_error()), "{wire}");
        assert!(told.is_empty(), "{told:?}");
        let names: Vec<Vec<String>> = asked.iter().map(Request::names).collect();
        match wire {
            Wire::Anthropic => {
                let all = [
                    "ToolSearch",
                    "alpha (deferred)",
                    "beta (deferred)",
                    "delta (deferred)",
                    "gamma (deferred)",
                ];
                assert_eq!(names[0], all);
            }
            Wire::OpenAi => assert_eq!(names[0], ["tool_search"]),
            Wire::OpenAiChat | Wire::Gemini => {
                assert_eq!(names[0], ["ToolSearch"], "{wire}");
                assert_eq!(names[1], ["ToolSearch", "alpha", "beta"], "{wire}");
                assert_eq!(names[4], ["ToolSearch", "alpha", "beta", "gamma"], "{wire}");
            }
        }
        let native = matches!(wire, Wire::Anthropic | Wire::OpenAi);
        let bytes: HashSet<&str> = asked.iter().map(|request| request.tools.as_str()).collect();
        assert_eq!(bytes.len(), if native { 1 } else { 3 }, "{wire}");
        let found: HashSet<String> = ["alpha", "beta", "gamma"].map(str::to_owned).into();
        assert_eq!(conversation.loaded_tools(), if native { found } else { HashSet::new() });
        // Names are known from the start, and finding changes nothing of that either.
        let system: HashSet<String> = asked.iter().map(|request| system(wire, &request.body)).collect();
        assert_eq!(system.len(), 1, "{wire}");
        let words = "These tools are there as well. Find them with ToolSearch before you call them: alpha, beta, delta, gamma";
        assert!(system.iter().all(|system| system.contains(words)), "{system:?}");
    }
}

fn system(wire: Wire, body: &Value) -> String {
    match wire {
        Wire::Anthropic => body["system"].to_string(),
        Wire::OpenAi => body["instructions"].to_string(),
        Wire::OpenAiChat => body["messages"][0].to_string(),
        Wire::Gemini => body["systemInstruction"].to_string(),
    }
}

/// The exact items, as they are in the vendors' documentation and types.
#[tokio::test]
async fn the_shapes_of_both_providers() {
    let mut conversation = Conversation::new(Wire::Anthropic);
    go(engine(), model(script(), Wire::Anthropic), &mut conversation).await;
    let references = json!([{"type": "tool_reference", "tool_name": "beta"}, {"type": "tool_reference", "tool_name": "alpha"}]);
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_scripted_1_0", "content": references});
    assert_eq!(conversation.items()[2]["content"], json!([result]));

    let mut conversation = Conversation::new(Wire::OpenAi);
    let (_, asked, _) = go(engine(), model(script(), Wire::OpenAi), &mut conversation).await;
    let search = &asked[0].body["tools"][0];
    assert_eq!((&search["type"], &search["execution"]), (&json!("tool_search"), &json!("client")));
    assert!(search["description"].as_str().unwrap().starts_with("Finds tools"));
    assert!(search["parameters"]["properties"]["query"].is_object() && search.get("name").is_none());
    let items = conversation.items();
    assert_eq!(
        items[1],
        json!({"type": "tool_search_call", "id": "tsc_scripted_1_0", "call_id": "call_scripted_1_0", "execution": "client",
            "arguments": {"query": "select:beta,alpha"}, "status": "completed"})
    );
    let parameters = json!({"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"], "additionalProperties": false});
    let defined = |name: &str| {
        json!({"type": "function", "name": name, "description": format!("Does {name} with a sprocket."),
            "parameters": parameters, "strict": true, "defer_loading": true})
    };
    assert_eq!(
        items[2],
        json!({"type": "tool_search_output", "call_id": "call_scripted_1_0", "execution": "client", "status": "completed",
            "tools": [defined("beta"), defined("alpha")]})
    );
}

/// An endpoint that doesn't know of it says so once; then everything goes on as it does everywhere else.
#[tokio::test]
async fn a_refusal_falls_back_once_for_the_session() {
    for wire in [Wire::Anthropic, Wire::OpenAi] {
        let mut script = script();
        script["deferral"] = false.into();
        let unknowing = model(script, wire);
        let mut conversation = Conversation::new(wire);
        let (outcome, asked, told) = go(engine(), unknowing.clone(), &mut conversation).await;
        assert_eq!(
            (outcome.ended, outcome.text.as_str()),
            (RunEnd::Finished, "All done."),
            "{wire}: {told:?}"
        );
        assert_eq!(
            (outcome.turns, asked.len(), told.len()),
            (5, 6, 1),
            "{wire}: the refused one isn't a turn"
        );
        assert!(told[0].contains("is not known here"), "{told:?}");
        assert_eq!(asked[1].names(), ["ToolSearch"], "{wire}");
        assert_eq!(asked[2].names(), ["ToolSearch", "alpha", "beta"], "{wire}");
        assert_eq!(unknowing.deferral(), ToolDeferral::Fallback);
        let (_, asked, told) = go(engine(), unknowing, &mut Conversation::new(wire)).await;
        assert_eq!((asked.len(), told.len()), (5, 0), "{wire}: it isn't tried again");
    }
}

/// A conversation that was begun where deferred tools are known goes on where they aren't, and back again.
#[tokio::test]
async fn a_conversation_goes_on_at_another_endpoint() {
    for wire in [Wire::Anthropic, Wire::OpenAi] {
        let mut conversation = Conversation::new(wire);
        let (outcome, ..) = go(engine(), model(script(), wire), &mut conversation).await;
        assert!(outcome.ended.is_finished());
        let before = conversation.items().to_vec();
        // Another process, so nothing is known but the conversation.
        let turns = vec![json!({"text": "played already"}); 5];
        let script = |more: Value, deferral: bool| {
            let turns: Vec<Value> = turns.iter().cloned().chain(more.as_array().unwrap().clone()).collect();
            json!({"turns": turns, "deferral": deferral})
        };
        let more = json!([{"tool_calls": [call("alpha"), search("delta")]}, {"tool_calls": [call("delta")]}, {"text": "Also done."}]);
        let elsewhere = model(script(more, false), wire).with_deferral(ToolDeferral::Fallback);
        let (outcome, asked, told) = go(engine(), elsewhere, &mut conversation).await;
        assert_eq!(
            (outcome.ended, outcome.text.as_str()),
            (RunEnd::Finished, "Also done."),
            "{wire}: {told:?}"
        );
        assert!(told.is_empty() && outcome.calls.iter().all(|(_, result)| !result.is_error()));
        assert_eq!(
            asked[0].names(),
            ["ToolSearch", "alpha", "beta", "gamma"],
            "{wire}: what was found is here"
        );
        let sent = asked[0].body.to_string();
        assert!(
            !["tool_reference", "tool_search", "defer_loading"].iter().any(|word| sent.contains(word)),
            "{sent}"
        );
        assert_eq!(conversation.items()[..before.len()], before, "what is kept isn't touched");
        // Back, where they are known: what was found elsewhere is defined like any other.
        let turns = vec![json!({"text": "played already"}); 8];
        let turns: Vec<Value> = turns
            .into_iter()
            .chain([json!({"tool_calls": [call("delta"), call("beta")]}), json!({"text": "Done again."})])
            .collect();
        let engine = engine();
        engine.load(&["delta".to_owned()]);
        let (outcome, asked, told) =
            go(engine, model(json!({"turns": turns}), wire), &mut conversation).await;
        assert_eq!(
            (outcome.ended, outcome.text.as_str()),
            (RunEnd::Finished, "Done again."),
            "{wire}: {told:?}"
        );
        assert!(asked[0].names().contains(&"delta".to_owned()), "{wire}: {:?}", asked[0].names());
        assert!(!asked[0].names().contains(&"beta".to_owned()), "{wire}: {:?}", asked[0].names());
    }
}

/// A summary has no definitions in it: what was found is defined like any other tool from then on.
#[tokio::test]
async fn what_was_found_outlives_a_summary() {
    for wire in [Wire::Anthropic, Wire::OpenAi] {
        let full = json!({"status": 400, "message": "prompt is too long: 250000 tokens > 200000"});
        let script = json!({"turns": [
            {"tool_calls": [search("beta")], "cases": [{"when": {"prompt": true, "contains": "replaced by this summary"}, "turn": {"tool_calls": [call("beta")]}}]},
            {"error": full, "cases": [
                {"when": {"prompt": true, "contains": "Write a summary"}, "turn": {"text": "A tool was found."}},
                {"when": {"tool": "beta", "contains": "this is beta"}, "turn": {"text": "All done."}}]},
        ]});
        let mut conversation = Conversation::new(wire);
        let (outcome, asked, _) = go(engine(), model(script, wire), &mut conversation).await;
        assert_eq!((outcome.ended, outcome.text.as_str()), (RunEnd::Finished, "All done."), "{wire}");
        assert!(conversation.loaded_tools().is_empty());
        let last = asked.last().unwrap().names();
        assert!(last.contains(&"beta".to_owned()) && !last.contains(&"alpha".to_owned()), "{wire}: {last:?}");
    }
}

/// Old results make room; references stay, since what they refer to would have to be sent in another place.
#[tokio::test]
async fn references_are_not_cleared() {
    let mut conversation = Conversation::new(Wire::Anthropic);
    go(engine(), model(script(), Wire::Anthropic), &mut conversation).await;
    conversation.clear_results(0, |_| String::new());
    assert_eq!(conversation.loaded_tools().len(), 3);
}

/// A tool that is gone is no longer referred to, because the provider would refuse all of the request.
#[tokio::test]
async fn a_tool_that_is_gone_is_not_referred_to() {
    let mut conversation = Conversation::new(Wire::Anthropic);
    go(engine(), model(script(), Wire::Anthropic), &mut conversation).await;
    let turns = vec![json!({"text": "played already"}); 5];
    let turns: Vec<Value> = turns
        .into_iter()
        .chain([json!({"tool_calls": [call("beta"), call("alpha")]}), json!({"text": "So it is."})])
        .collect();
    let fewer = engine_of(registry(&["beta", "delta"]));
    let (outcome, asked, told) =
        go(fewer, model(json!({"turns": turns}), Wire::Anthropic), &mut conversation).await;
    assert_eq!((outcome.ended, outcome.text.as_str()), (RunEnd::Finished, "So it is."), "{told:?}");
    assert!(told.is_empty());
    let kinds: Vec<Option<ErrorKind>> = outcome.calls.iter().map(|(_, result)| result.error_kind()).collect();
    assert_eq!(kinds, [None, Some(ErrorKind::UnknownTool)]);
    let messages = &asked[0].body["messages"];
    assert_eq!(
        messages[2]["content"][0]["content"],
        json!([{"type": "tool_reference", "tool_name": "beta"}])
    );
    assert_eq!(messages[6]["content"][0]["content"], "found gamma");
}

/// A model that guesses a tool's input without having seen its schema: right is run, wrong is told the
/// schema.
#[tokio::test]
async fn a_tool_that_was_not_loaded_runs_if_its_input_fits() {
    for wire in Wire::ALL {
        let script = json!({"turns": [
            {"tool_calls": [call("beta"), {"name": "gamma", "input": {"length": 2}}]},
            {"expect": [{"equals": "this is beta"}, {"tool": "gamma", "is_error": true, "contains": "the input schema is {\"properties\":{\"size\":{\"type\":\"integer\"}}"}],
             "tool_calls": [call("gamma")]},
            {"expect": [{"equals": "this is gamma"}], "text": "All done."},
        ]});
        let mut conversation = Conversation::new(wire);
        let (outcome, ..) = go(engine(), model(script, wire), &mut conversation).await;
        assert_eq!(outcome.text, "All done.", "{wire}: {}", outcome.ended);
    }
}

/// Nothing was found, or the call was refused: said beside the result, which has no place for words.
#[tokio::test]
async fn searches_that_find_nothing() {
    for wire in Wire::ALL {
        let script = json!({"turns": [
            {"tool_calls": [search("+giraffe"), {"name": "ToolSearch", "input": {"nothing": 1}}, call("beta")]},
            {"text": "All done."},
        ]});
        let mut conversation = Conversation::new(wire);
        let (outcome, asked, _) = go(engine(), model(script, wire), &mut conversation).await;
        assert_eq!(outcome.text, "All done.", "{wire}: {}", outcome.ended);
        let sent = asked[1].body.to_string();
        assert!(
            sent.contains("no tool fits `+giraffe`") && sent.contains("invalid input for ToolSearch"),
            "{sent}"
        );
    }
    // What is there already is said to be.
    let mut conversation = Conversation::new(Wire::OpenAi);
    let engine = engine();
    engine.load(&["beta".to_owned()]);
    let script = json!({"turns": [{"tool_calls": [search("select:beta,gamma")]}, {"text": "All done."}]});
    let (_, asked, _) = go(engine, model(script, Wire::OpenAi), &mut conversation).await;
    let output = &asked[1].body["input"][2];
    assert_eq!(
        (output["tools"].as_array().unwrap().len(), &output["tools"][0]["name"]),
        (1, &json!("gamma"))
    );
    assert_eq!(
        asked[1].body["input"][3],
        json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "beta is among your tools already"}]})
    );
}

/// `dispatch` and hosts with a loop of their own: a search of OpenAI's is answered in its own form.
#[tokio::test]
async fn a_message_with_a_search_is_answered() {
    let search = json!([{"type": "tool_search_call", "id": "tsc_1", "call_id": "c1", "execution": "client", "arguments": {"query": "beta"}, "status": "completed"}]);
    let message = decode_message(&search.to_string(), None).unwrap();
    assert!(message.passed_over().is_empty());
    let results = engine().turn().run(message.calls()).await;
    let answer = message.answer(&results);
    assert_eq!(
        (&answer[0]["type"], &answer[0]["tools"][0]["name"]),
        (&json!("tool_search_output"), &json!("beta"))
    );
    let cut = json!([{"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": null, "status": "incomplete"}]);
    let message = decode_message(&cut.to_string(), Some(Wire::OpenAi)).unwrap();
    assert!(message.calls().is_empty());
    assert_eq!(message.answer(&[])[0]["tools"], json!([]));
    let server = json!([{"type": "tool_search_call", "call_id": null, "execution": "server", "arguments": {}, "status": "completed"}]);
    assert!(decode_message(&server.to_string(), None).unwrap().calls().is_empty());
}

/// Which form is used, and that a wire without one has none.
#[test]
fn definitions_for_each_form() {
    let known = HashSet::new();
    let snapshot = engine().snapshot();
    for wire in Wire::ALL {
        let deferral =
            DefinitionCache::new(wire).define_tools(&snapshot, ToolDeferral::Native, &known).deferral();
        let native = matches!(wire, Wire::Anthropic | Wire::OpenAi);
        assert_eq!(deferral, if native { ToolDeferral::Native } else { ToolDeferral::Fallback }, "{wire}");
        // Nothing to defer, nothing to say.
        let few = Engine::new(registry(&["alpha"])).snapshot();
        let tools = DefinitionCache::new(wire).define_tools(&few, ToolDeferral::Native, &known);
        assert_eq!(
            (tools.deferral(), tools.json()),
            (ToolDeferral::Fallback, DefinitionCache::new(wire).define(&few).json())
        );
    }
    assert_eq!(ToolDefinitions::none().deferral(), ToolDeferral::Fallback);
    // More than the API takes.
    let names: Vec<String> = (0..10_001).map(|number| format!("t{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let many = engine_of(registry(&names)).snapshot();
    assert_eq!(
        DefinitionCache::new(Wire::Anthropic).define_tools(&many, ToolDeferral::Native, &known).deferral(),
        ToolDeferral::Fallback
    );
}

/// Requests by both providers with everything in them that deferral puts there.
pub(crate) async fn requests() -> BTreeMap<String, Vec<Value>> {
    let mut all = BTreeMap::new();
    for wire in [Wire::Anthropic, Wire::OpenAi] {
        let mut conversation = Conversation::new(wire);
        let mut turns = script();
        turns["turns"][0]["tool_calls"].as_array_mut().unwrap().push(search("+giraffe"));
        let (outcome, asked, _) = go(engine(), model(turns, wire), &mut conversation).await;
        assert_eq!(outcome.text, "All done.", "{wire}: {}", outcome.ended);
        all.insert(wire.to_string(), asked.into_iter().map(|request| request.body).collect());
    }
    all
}

#[tokio::test]
async fn requests_fit_the_schemas() {
    let schemas = (request_schema("anthropic"), request_schema("openai"));
    let (Some(anthropic), Some(openai)) = schemas else { return };
    for (wire, requests) in requests().await {
        for mut request in requests {
            request.as_object_mut().unwrap().remove("stream");
            fits(if wire == "anthropic" { &anthropic } else { &openai }, &request);
            if wire == "anthropic" {
                let tools = request["tools"].as_array().unwrap();
                let marked: Vec<bool> =
                    tools.iter().map(|tool| tool.get("cache_control").is_some()).collect();
                assert_eq!(marked, [true, false, false, false, false], "deferred tools can't be marked");
            }
        }
    }
}

/// Every tool of real servers can be reached: searched by its name, loaded, called.
#[tokio::test]
async fn every_real_tool_is_reached_by_every_wire() {
    const AT_ONCE: usize = 20;
    let Some(folder) = data("mcp-tools") else { return };
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let (mut registry, mut names) = (Registry::new().with(ToolSearch).unwrap(), Vec::new());
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "json")) {
        let server = file.file_stem().unwrap().to_string_lossy().into_owned();
        let mut tools = Vec::new();
        for listed in read_json(file).as_array().unwrap() {
            let arguments = listed["arguments"].as_array().into_iter().flatten();
            let properties: serde_json::Map<String, Value> = arguments
                .filter_map(|argument| Some((argument["name"].as_str()?.to_owned(), json!({}))))
                .collect();
            let name = format!("mcp__{server}__{}", listed["name"].as_str().unwrap());
            let description = listed["description"].as_str().unwrap_or_default().to_owned();
            let schema = json!({"type": "object", "properties": properties});
            let said = format!("this is {name}");
            let tool = dynamic_tool(name.clone(), description, schema, move |_, _| {
                let said = said.clone();
                async move { Ok(said) }
            });
            tools.push(tool.effects(|_| Effects::none()).build().unwrap());
            names.push(name);
        }
        registry = registry.with_external(server, tools).unwrap();
    }
    assert!(names.len() > 100, "{}", names.len());
    for wire in Wire::ALL {
        let deferred = Engine::new(registry.clone()).snapshot().deferred().count();
        assert_eq!(deferred, names.len(), "{wire}");
        for some in names.chunks(AT_ONCE) {
            let searches: Vec<Value> = some.iter().map(|name| search(name)).collect();
            let calls: Vec<Value> = some.iter().map(|name| json!({"name": name})).collect();
            let said: Vec<Value> =
                some.iter().map(|name| json!({"tool": name, "equals": format!("this is {name}")})).collect();
            let script = json!({"turns": [{"tool_calls": searches}, {"tool_calls": calls}, {"expect": said, "text": "done"}]});
            let mut conversation = Conversation::new(wire);
            let (outcome, asked, told) =
                go(Engine::new(registry.clone()), model(script, wire), &mut conversation).await;
            assert_eq!(outcome.text, "done", "{wire} {some:?}: {} {told:?}", outcome.ended);
            // The definition of each is there when it is called.
            let shown: HashSet<String> =
                asked[1].names().into_iter().filter(|name| !name.ends_with(" (deferred)")).collect();
            let held = conversation.loaded_tools();
            for name in some {
                assert!(shown.contains(name) || held.contains(name), "{wire} {name}");
            }
        }
    }
}

/// Thousands of names are not told one by one.
#[tokio::test]
async fn of_too_many_tools_only_the_sources_are_named() {
    let names: Vec<String> = (0..3_000).map(|number| format!("mcp__github__tool_{number:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut conversation = Conversation::new(Wire::OpenAi);
    let script = json!({"turns": [{"text": "hello"}]});
    let (_, asked, _) = go(engine_of(registry(&names)), model(script, Wire::OpenAi), &mut conversation).await;
    assert_eq!(
        asked[0].body["instructions"],
        "3000 more tools are there. Find them with ToolSearch before you call them. They are from:\nmany: 3000 tools, such as mcp__github__tool_0000"
    );
    assert_eq!(RunOptions::new().system.len(), 0);
}
