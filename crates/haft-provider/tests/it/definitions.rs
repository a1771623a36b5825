//! The `tools` array of each form, its order, and that it is kept.

use std::sync::Arc;

use haft::{Effects, Engine, Json, NoInput, PermissionRules, Registry, dynamic_tool, tool};
use haft_provider::{DefinitionCache, DefinitionForm, Wire};
use serde_json::json;

use crate::shared::{registry, snapshot};

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Answer {
    /// How many.
    count: u32,
}

#[test]
fn each_form() {
    let count = tool("count", "Counts \"things\".", |_: NoInput, _| async { Ok(Json(Answer { count: 1 })) })
        .effects(|_| Effects::none())
        .spec(|spec| spec.listed_class(haft::effects::table::ConcurrencyClass::ReadOnly));
    let find = dynamic_tool(
        "find",
        "Finds.",
        json!({"required": ["q"], "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}, "type": "object"}),
        |_, _| async { Ok("") },
    );
    let registry = Registry::new().with(count).unwrap().with(find).unwrap();
    let snapshot = Engine::new(registry).snapshot();
    let check = |form: Wire, expected: &str| {
        assert_eq!(DefinitionCache::new(form).define(&snapshot).json(), expected)
    };
    let none = r#"{"type":"object","properties":{},"additionalProperties":false}"#;
    let q =
        r#"{"type":"object","properties":{"n":{"type":"integer"},"q":{"type":"string"}},"required":["q"]}"#;
    let strict_q = r#"{"type":"object","properties":{"n":{"type":["integer","null"]},"q":{"type":"string"}},"required":["n","q"],"additionalProperties":false}"#;
    let (c, f) =
        (r#""name":"count","description":"Counts \"things\".""#, r#""name":"find","description":"Finds.""#);
    check(Wire::Anthropic, &format!(r#"[{{{c},"input_schema":{none}}},{{{f},"input_schema":{q}}}]"#));
    check(
        Wire::OpenAi,
        &format!(
            r#"[{{"type":"function",{c},"parameters":{none},"strict":true}},{{"type":"function",{f},"parameters":{strict_q},"strict":true}}]"#
        ),
    );
    check(
        Wire::OpenAiChat,
        &format!(
            r#"[{{"type":"function","function":{{{c},"parameters":{none},"strict":true}}}},{{"type":"function","function":{{{f},"parameters":{strict_q},"strict":true}}}}]"#
        ),
    );
    check(
        Wire::Gemini,
        &format!(r#"[{{"functionDeclarations":[{{{c}}},{{{f},"parametersJsonSchema":{q}}}]}}]"#),
    );
    let output = r#"{"type":"object","properties":{"count":{"type":"integer","description":"How many.","minimum":0}},"required":["count"]}"#;
    let made = DefinitionCache::new(DefinitionForm::Mcp).define(&snapshot);
    assert!(
        made.json().starts_with(&format!(r#"[{{{c},"inputSchema":{none},"outputSchema":{{"type":"object""#)),
        "{}",
        made.json()
    );
    assert!(
        made.json().contains(r#""annotations":{"readOnlyHint":true}},{"name":"find""#),
        "{} {output}",
        made.json()
    );
    let empty = Engine::new(Registry::new()).snapshot();
    let forms = Wire::ALL.map(DefinitionForm::Wire).into_iter().chain([DefinitionForm::Mcp]);
    for form in forms {
        assert_eq!(DefinitionCache::new(form).define(&empty).json(), "[]");
    }
}

#[test]
fn the_order_of_registration_does_not_count() {
    let tools: Vec<_> =
        ["b", "a", "c"].map(|name| (name.to_owned(), "Does.".to_owned(), json!({"type": "object"}))).into();
    let mut turned = tools.clone();
    turned.reverse();
    let bytes = |tools: &[(String, String, serde_json::Value)]| {
        DefinitionCache::new(Wire::OpenAi).define(&Engine::new(registry(tools).0).snapshot()).shared()
    };
    assert_eq!(bytes(&tools), bytes(&turned));
}

#[test]
fn what_stays_the_same_is_kept() {
    let now =
        || tool("now", "Tells the time.", |_: NoInput, _| async { Ok("noon") }).effects(|_| Effects::none());
    let registry = Registry::new().with(now()).unwrap();
    let engine = Engine::new(registry.clone());
    let definitions = DefinitionCache::new(Wire::Anthropic);
    let first = definitions.define(&engine.snapshot()).shared();
    assert!(Arc::ptr_eq(&first, &definitions.define(&engine.snapshot()).shared()));
    // Another snapshot of the same tools.
    engine.refresh();
    assert!(Arc::ptr_eq(&first, &definitions.define(&engine.snapshot()).shared()));
    // One more tool, then one less.
    let later = tool("later", "Waits.", |_: NoInput, _| async { Ok("") });
    engine.refresh_with(registry.with(later).unwrap());
    let more = definitions.define(&engine.snapshot());
    assert!(more.json().contains("\"later\"") && more.json().contains("\"now\""));
    engine.refresh_with(registry);
    assert_eq!(definitions.define(&engine.snapshot()).json(), &*first);
    // An equal tool is another tool, and the same bytes.
    engine.refresh_with(Registry::new().with(now()).unwrap());
    assert_eq!(definitions.define(&engine.snapshot()).json(), &*first);
}

#[test]
fn what_a_provider_does_not_take_is_left_out_alone() {
    let odd = json!({"type": "object", "properties": {"a b": {"type": "string"}}});
    let snapshot = snapshot(&[("fine", json!({"type": "object"})), ("odd", odd)]);
    let made = DefinitionCache::new(Wire::Anthropic).define(&snapshot);
    assert_eq!(
        made.json(),
        r#"[{"name":"fine","description":"Does fine.","input_schema":{"type":"object","properties":{}}}]"#
    );
    let said: Vec<String> = made.left_out().iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "odd is left out: its argument `a b` has a name that this provider doesn't take; letters, digits, `_`, `.` and `-` are accepted, at most 64"
        ]
    );
    assert!(DefinitionCache::new(Wire::OpenAi).define(&snapshot).left_out().is_empty());
}

#[test]
fn denied_tools_are_not_shown() {
    let hidden = tool("hidden", "Hides.", |_: NoInput, _| async { Ok("") });
    let rules = PermissionRules::new().deny("hidden").unwrap();
    let engine = Engine::builder(Registry::new().with(hidden).unwrap()).permissions(rules).build();
    assert_eq!(
        DefinitionCache::new(DefinitionForm::Mcp).with_deferred(true).define(&engine.snapshot()).json(),
        "[]"
    );
}

#[test]
fn anthropic_strict_stops_at_what_a_request_takes() {
    let tools: Vec<_> = (0..30)
        .map(|at| {
            let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]});
            (format!("t{at:02}"), "Does.".to_owned(), schema)
        })
        .collect();
    let snapshot = Engine::new(registry(&tools).0).snapshot();
    let made = DefinitionCache::new(Wire::Anthropic).strict(true).define(&snapshot).to_value();
    let strict: Vec<bool> = made.as_array().unwrap().iter().map(|tool| tool["strict"] == true).collect();
    assert_eq!(strict, [vec![true; 20], vec![false; 10]].concat());
}
