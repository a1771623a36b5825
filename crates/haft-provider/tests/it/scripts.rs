//! Scripts as people write them: the committed schema, and the examples of the documentation.

use haft_provider::scripted::{Script, schema};
use serde_json::Value;

/// The schema is committed, so that editors and other programs find it. `HAFT_BLESS=1` writes it anew.
#[test]
fn the_committed_schema_is_the_real_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas/script.schema.json");
    let now = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
    if std::env::var_os("HAFT_BLESS").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(committed, now, "run with HAFT_BLESS=1 to write it anew");
}

/// Whatever is shown in the documentation is read, and fits the schema.
#[test]
fn documented_scripts_are_read() {
    let page = include_str!("../../../../docs/scripted-model.md");
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let mut shown = 0;
    for block in page.split("```").skip(1).step_by(2) {
        let Some((kind, text)) = block.split_once('\n').filter(|(kind, _)| matches!(*kind, "yaml" | "json"))
        else {
            continue;
        };
        if let Err(bad) = Script::parse(text) {
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
    let validator = jsonschema::validator_for(&schema()).unwrap();
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
        assert!(Script::parse(text).is_err() && !validator.is_valid(&value), "{text}");
    }
    let all = r#"{"$schema": "x", "model": "m", "stream": {"chunk_chars": 3, "chunk_delay_ms": 1}, "side": {"text": "t"}, "turns": [
        {"text": "a", "thinking": "b", "delay_ms": 1, "stop": "max_tokens", "tool_calls": [{"name": "n", "raw_input": "{", "id": "i"}, {"name": "m", "input": {"a": null}}],
         "error": {"status": 529, "type": "overloaded_error", "message": "m", "retry_after_ms": 1, "times": 2, "after_events": 3, "disconnect": true},
         "expect": [{"result": 0, "tool": "n", "pointer": "/a", "equals": null, "contains": "c", "regex": "r", "is_error": false, "not": true}],
         "cases": [{"when": {"prompt": true, "equals": "x"}, "turn": {"text": "y"}}]}]}"#;
    assert!(Script::parse(all).is_ok());
    assert!(validator.is_valid(&serde_json::from_str(all).unwrap()));
}
