//! Scripts as people write them: the committed schema, and the examples of the documentation.

use haft::call::CallInput;
use haft_agent::{Conversation, Model, ModelRequest, StopReason, ToolDefinitions};
use haft_provider::Wire;
use haft_provider::scripted::{ModelScript, ScriptedModel, script_schema};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The schema is committed, so that editors and other programs find it. `UPDATE_SCHEMAS=1` writes it anew.
#[test]
fn the_committed_schema_is_the_real_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas/script.schema.json");
    let now = script_schema();
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(path, format!("{now:#}\n")).unwrap();
    }
    // Compared as a value: the order of keys is a matter of features.
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let committed: Value = serde_json::from_str(&committed).unwrap_or_default();
    assert_eq!(committed, now, "run with UPDATE_SCHEMAS=1 to write it anew");
}

/// Whatever is shown in the documentation is read, and fits the schema.
#[test]
fn documented_scripts_are_read() {
    let page = include_str!("../../../../docs/scripted-model.md");
    let validator = jsonschema::validator_for(&script_schema()).unwrap();
    let mut shown = 0;
    for block in page.split("```").skip(1).step_by(2) {
        let Some((kind, text)) = block.split_once('\n').filter(|(kind, _)| matches!(*kind, "yaml" | "json"))
        else {
            continue;
        };
        if let Err(bad) = ModelScript::parse(text) {
            panic!("{bad}\n{text}");
        }
        if kind == "json" {
            let value: Value = serde_json::from_str(text).unwrap();
            assert!(validator.is_valid(&value), "{text}");
        }
        shown += 1;
    }
    assert!(shown >= 3, "{shown}");
}

/// What the reader refuses, the schema refuses, where a schema can say it.
#[test]
fn schema_and_reader_agree() {
    let validator = jsonschema::validator_for(&script_schema()).unwrap();
    for text in [
        r#"{}"#,
        r#"{"turns": [{"txt": "a"}]}"#,
        r#"{"turns": [{"text": 1}]}"#,
        r#"{"turns": [{"tool_calls": [{"input": {}}]}]}"#,
        r#"{"turns": [{"text": "a", "stop": "never"}]}"#,
        r#"{"turns": [{"error": {"status": 200}}]}"#,
        r#"{"turns": [{"text": "a", "stream": {"chunk_chars": 0}}]}"#,
        r#"{"turns": [{"text": "a", "delay_ms": -1}]}"#,
    ] {
        let value: Value = serde_json::from_str(text).unwrap();
        assert!(ModelScript::parse(text).is_err() && !validator.is_valid(&value), "{text}");
    }
    let all = r#"{"$schema": "x", "model": "m", "stream": {"chunk_chars": 3, "chunk_delay_ms": 1}, "side": {"text": "t"}, "turns": [
        {"text": "a", "thinking": "b", "delay_ms": 1, "stop": "max_tokens", "tool_calls": [{"name": "n", "raw_input": "{", "id": "i"}, {"name": "m", "input": {"a": null}}],
         "error": {"status": 529, "type": "overloaded_error", "message": "m", "retry_after_ms": 1, "times": 2, "after_events": 3, "disconnect": true},
         "expect": [{"result": 0, "tool": "n", "pointer": "/a", "equals": null, "contains": "c", "regex": "r", "is_error": false, "not": true}],
         "cases": [{"when": {"prompt": true, "equals": "x"}, "turn": {"text": "y"}}]}]}"#;
    assert!(ModelScript::parse(all).is_ok());
    assert!(validator.is_valid(&serde_json::from_str(all).unwrap()));
}

fn object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from)
    ];
    let inner = leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|fields| fields.into_iter().collect()),
        ]
    });
    prop::collection::btree_map(any::<String>(), inner, 0..4).prop_map(|fields| fields.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is said comes out as it was said, by every wire, in pieces of every size.
    #[test]
    fn what_is_said_is_read(text in "\\PC{1,80}", thinking in any::<String>(), inputs in prop::collection::vec(object(), 0..4), chars in 1_usize..40) {
        prop_assume!(!text.trim().is_empty());
        let calls: Vec<Value> = inputs.iter().map(|input| json!({"name": "tool", "input": input})).collect();
        let script = json!({"stream": {"chunk_chars": chars}, "turns": [{"text": text, "thinking": thinking, "tool_calls": calls}]});
        let script = ModelScript::parse(&script.to_string()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        for wire in Wire::ALL {
            let mut conversation = Conversation::new(wire);
            conversation.say("go");
            let model = ScriptedModel::new(script.clone(), wire);
            let mut incoming = model.ask(&ModelRequest { system: &[], conversation: &conversation, tools: &ToolDefinitions::none() });
            runtime.block_on(async { while incoming.more(&mut Vec::new()).await {} });
            let reply = incoming.finish();
            prop_assert_eq!(reply.text(), text.as_str());
            let stop = if inputs.is_empty() { StopReason::End } else { StopReason::Calls };
            prop_assert_eq!(reply.stop(), &stop, "{}", wire);
            let found: Vec<Value> = reply.calls().into_iter().map(|call| match call.input {
                CallInput::Text(text) => serde_json::from_str(&text).unwrap(),
                CallInput::Value(value) => value,
            }).collect();
            prop_assert_eq!(&found, &inputs, "{}", wire);
        }
    }

    #[test]
    fn rubbish_is_no_script_and_no_panic(text in any::<String>(), yaml in "[-a-z0-9:{}\\[\\],'\"|>&*!#% \n]{0,80}") {
        let _ = ModelScript::parse(&text);
        let _ = ModelScript::parse(&yaml);
        let _ = ModelScript::parse(&format!("turns:\n- text: a\n  {yaml}"));
    }
}
