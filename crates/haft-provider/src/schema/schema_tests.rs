//! Flattening, strict modes and the size limit, each as a table of schemas and what is sent.

use serde_json::json;

use super::*;

#[track_caller]
fn sent(schema: &Value, dialect: SchemaDialect) -> WireSchema {
    let sent = encode_schema(schema, dialect).unwrap_or_else(|why| panic!("{schema} is refused: {why}"));
    let value: Value = serde_json::from_str(&sent.json).unwrap();
    assert!(jsonschema::draft202012::meta::is_valid(&value), "{value} is no schema");
    assert_eq!(value["type"], "object");
    assert!(sent.json.len() <= WIRE_SCHEMA_BYTES_MAX);
    sent
}

#[track_caller]
fn plain(schema: Value, expected: &str) {
    assert_eq!(sent(&schema, SchemaDialect::Plain).json, expected);
}

/// The schema of the property `p`.
#[track_caller]
fn part(schema: Value, rest: Value, expected: &str) {
    let mut root = json!({"type": "object", "properties": {"p": schema}});
    for (key, value) in rest.as_object().unwrap() {
        root[key] = value.clone();
    }
    plain(root, &format!(r#"{{"type":"object","properties":{{"p":{expected}}}}}"#));
}

#[test]
fn order_is_canonical() {
    plain(
        json!({"additionalProperties": false, "required": ["b", "a", "b"], "title": "T", "description": "D", "$schema": "x", "x-own": 1,
            "properties": {"b": {"maximum": 9, "default": {"z": 1, "y": 2}, "type": "integer", "minimum": 1, "examples": [3]}, "a": {"enum": ["y", "x"]}, "B": {}}, "type": "object"}),
        r#"{"type":"object","title":"T","description":"D","properties":{"B":{},"a":{"type":"string","enum":["y","x"]},"b":{"type":"integer","minimum":1,"maximum":9,"default":{"y":2,"z":1},"examples":[3]}},"required":["a","b"],"additionalProperties":false}"#,
    );
    plain(json!({}), r#"{"type":"object","properties":{}}"#);
    plain(json!(true), r#"{"type":"object","properties":{}}"#);
    plain(json!({"type": ["object", "null"]}), r#"{"type":"object","properties":{}}"#);
}

#[test]
fn references_are_replaced() {
    let defs = json!({"$defs": {"a/b": {"type": "string", "description": "theirs"}, "n": {"$anchor": "num", "type": "integer"}}, "definitions": {"o": {"type": "boolean"}}});
    part(json!({"$ref": "#/$defs/a~1b"}), defs.clone(), r#"{"type":"string","description":"theirs"}"#);
    part(json!({"$ref": "#/%24defs/a~1b"}), defs.clone(), r#"{"type":"string","description":"theirs"}"#);
    part(
        json!({"$ref": "#/$defs/a~1b", "description": "ours", "minLength": 1}),
        defs.clone(),
        r#"{"type":"string","description":"ours","minLength":1}"#,
    );
    part(json!({"$ref": "#/definitions/o"}), defs.clone(), r#"{"type":"boolean"}"#);
    part(json!({"$ref": "#num"}), defs.clone(), r#"{"type":"integer"}"#);
    part(json!({"$ref": "#/$defs/n"}), defs, r#"{"type":"integer"}"#);
    // Before 2019 nothing beside a reference counted, so a bound there must not come to count.
    part(
        json!({"$ref": "#/definitions/s", "maxLength": 1, "description": "ours"}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"s": {"type": "string"}}}),
        r#"{"type":"string","description":"ours"}"#,
    );
    part(
        json!({"items": [{"type": "string"}], "additionalItems": {"type": "null"}}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#"}),
        r#"{"prefixItems":[{"type":"string"}],"items":{"type":"null"}}"#,
    );
    for reference in ["https://example.com/a.json", "other.json#/x", "file:///etc/passwd"] {
        let refused = encode_schema(&json!({"properties": {"p": {"$ref": reference}}}), SchemaDialect::Plain)
            .unwrap_err();
        assert!(refused.0.contains(reference) && refused.0.contains("not followed"), "{refused}");
    }
    let refused = encode_schema(&json!({"$ref": "#/$defs/gone"}), SchemaDialect::Plain).unwrap_err();
    assert_eq!(refused.0, "its schema refers to `#/$defs/gone`, which is not there");
}

#[test]
fn all_of_is_merged() {
    plain(
        json!({"allOf": [
            {"type": "object", "properties": {"a": {"type": "number", "minimum": 1}}, "required": ["a"]},
            {"properties": {"a": {"type": "integer", "minimum": 3, "maximum": 9}, "b": {"enum": [1, 2, "x"]}}, "required": ["b"]},
            {"properties": {"b": {"enum": [2.0, "x", "y"]}}}]}),
        r#"{"type":"object","properties":{"a":{"type":"integer","minimum":3,"maximum":9},"b":{"type":["string","integer"],"enum":[2,"x"]}},"required":["a","b"]}"#,
    );
    // What one part closes, the other can't open.
    plain(
        json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false, "allOf": [{"properties": {"b": {}}}]}),
        r#"{"type":"object","properties":{"a":{}},"additionalProperties":false}"#,
    );
    part(
        json!({"allOf": [{"type": "string"}, {"maxLength": 5}, {"maxLength": 3}, {"minLength": 1}]}),
        json!({}),
        r#"{"type":"string","minLength":1,"maxLength":3}"#,
    );
    plain(
        json!({"properties": {"p": {"allOf": [{"type": "string"}, {"type": "integer"}]}, "q": false}, "required": ["q"]}),
        r#"{"type":"object","properties":{}}"#,
    );
    assert!(
        encode_schema(&json!({"allOf": [{"type": "object"}, {"type": "array"}]}), SchemaDialect::Plain)
            .is_err()
    );
}

#[test]
fn alternatives_are_said_simply() {
    part(
        json!({"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]}),
        json!({}),
        r#"{"type":["string","null"],"minLength":1}"#,
    );
    part(
        json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
        json!({}),
        r#"{"anyOf":[{"type":"string"},{"type":"integer"}]}"#,
    );
    part(json!({"anyOf": [{"type": "string"}, false]}), json!({}), r#"{"type":"string"}"#);
    part(
        json!({"description": "How.", "oneOf": [{"const": "fast", "type": "string", "description": "Uses less."}, {"const": "slow", "type": "string"}]}),
        json!({}),
        r#"{"type":"string","description":"How. [\"fast\": Uses less.]","enum":["fast","slow"]}"#,
    );
    part(
        json!({"type": "integer", "not": {"const": 0}, "if": {"minimum": 5}, "then": {"multipleOf": 5}}),
        json!({}),
        r#"{"type":"integer","description":"[if {\"minimum\":5}; not {\"const\":0}; then {\"multipleOf\":5}]"}"#,
    );
}

#[test]
fn root_alternatives_become_one_object() {
    plain(
        json!({"description": "Moves.", "oneOf": [
            {"type": "object", "title": "By name", "properties": {"kind": {"const": "name"}, "name": {"type": "string"}}, "required": ["kind", "name"], "additionalProperties": false},
            {"type": "object", "properties": {"kind": {"const": "id"}, "id": {"type": "integer"}, "deep": {"type": "boolean"}}, "required": ["kind", "id"], "additionalProperties": false},
            {"type": "string"}]}),
        r#"{"type":"object","description":"Moves.\nUse one of these forms:\n- kind = \"name\", name (By name)\n- id, kind = \"id\"; optional: deep","properties":{"deep":{"type":"boolean"},"id":{"type":"integer"},"kind":{"type":"string","enum":["name","id"]},"name":{"type":"string"}},"required":["kind"],"additionalProperties":false}"#,
    );
    plain(
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        r#"{"type":"object","description":"Use one of these forms:\n- a\n- b","properties":{"a":{"type":"string"},"b":{"type":"string"}}}"#,
    );
    let refused =
        encode_schema(&json!({"anyOf": [{"type": "string"}, {"type": "array"}]}), SchemaDialect::Plain)
            .unwrap_err();
    assert_eq!(refused.0, "its schema accepts no object, and the arguments of a call are one");
}

#[test]
fn types_inside_themselves_are_cut() {
    let tree = json!({"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}, "n": {"type": "integer"}}});
    let sent = sent(&tree, SchemaDialect::Plain).json;
    assert_eq!(sent.matches("\"kids\"").count(), 1 + RECURSION_MAX + 1, "{sent}");
    assert!(
        sent.contains(r#""items":{"type":"object","description":"[nested further in the same way]"}"#),
        "{sent}"
    );
    let validator = jsonschema::validator_for(&serde_json::from_str(&sent).unwrap()).unwrap();
    let mut deep = json!({"n": 1});
    for _ in 0..20 {
        deep = json!({"kids": [deep], "n": 2});
    }
    assert!(validator.is_valid(&deep));
    // A circle that goes into no value accepts nothing to think about, and ends.
    let _ = encode_schema(&json!({"$ref": "#"}), SchemaDialect::Plain);
    let _ =
        encode_schema(&json!({"allOf": [{"$ref": "#"}, {"anyOf": [{"$ref": "#"}]}]}), SchemaDialect::Plain);
}

use crate::limits::RECURSION_MAX;

#[test]
fn bombs_are_bounded() {
    // Each name stands for two of the next: 2^30 parts.
    let mut defs = serde_json::Map::new();
    for at in 0..30 {
        let next = format!("#/$defs/d{}", at + 1);
        defs.insert(
            format!("d{at}"),
            json!({"type": "object", "properties": {"l": {"$ref": next}, "r": {"$ref": next}}}),
        );
    }
    defs.insert("d30".into(), json!({"type": "string"}));
    let bomb = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs});
    for dialect in [
        SchemaDialect::Plain,
        SchemaDialect::Gemini,
        SchemaDialect::OpenAiStrict,
        SchemaDialect::AnthropicStrict,
    ] {
        let sent = sent(&bomb, dialect);
        assert!(sent.strict.is_none() && sent.json.contains("left out here"));
    }
    // Forty types that all hold each other.
    let mut defs = serde_json::Map::new();
    for at in 0..40 {
        let all: serde_json::Map<String, Value> =
            (0..40).map(|to| (format!("p{to}"), json!({"$ref": format!("#/$defs/t{to}")}))).collect();
        defs.insert(format!("t{at}"), json!({"type": "object", "properties": all}));
    }
    sent(&json!({"$ref": "#/$defs/t0", "$defs": defs}), SchemaDialect::Plain);
    // In place, without going into a value.
    let mut all_of = json!({"type": "object"});
    for _ in 0..60 {
        all_of = json!({"allOf": [all_of], "anyOf": [{"minProperties": 1}, {"maxProperties": 3}, {"required": ["a"]}]});
    }
    let _ = encode_schema(&all_of, SchemaDialect::Plain);
    let wide: serde_json::Map<String, Value> = (0..10_000).map(|at| (format!("p{at}"), json!({}))).collect();
    let refused =
        encode_schema(&json!({"type": "object", "properties": wide}), SchemaDialect::Plain).unwrap_err();
    assert!(refused.0.contains("too many parts"), "{refused}");
}

#[test]
fn detail_goes_in_the_order_that_is_documented() {
    let schema = |filler: usize| {
        json!({"type": "object", "description": "ROOT", "properties": {"p": {"type": "object", "title": "TITLE", "description": "OUTER", "examples": ["EXAMPLE".repeat(filler)],
            "properties": {"q": {"type": "string", "default": "DEFAULT".repeat(filler), "title": "TITLE".repeat(filler), "pattern": "PATTERN".repeat(filler),
                "description": "INNER".repeat(filler)}}}}})
    };
    let order = ["EXAMPLE", "DEFAULT", "TITLE", "PATTERN", "INNER"];
    let mut before = usize::MAX;
    for filler in [1, 1_500, 1_900, 2_600, 4_000, 8_000] {
        let sent = sent(&schema(filler), SchemaDialect::Plain).json;
        let there: Vec<bool> = order.iter().map(|word| sent.contains(word)).collect();
        let gone = there.iter().filter(|there| !**there).count();
        assert!(there.is_sorted(), "what goes first goes first: {there:?}");
        assert!(order.len() - gone <= before);
        before = order.len() - gone;
        assert!(sent.contains("OUTER") && sent.contains("ROOT"));
    }
    assert_eq!(before, 0);
    let wide: serde_json::Map<String, Value> = (0..900)
        .map(|at| (format!("property_{at}"), json!({"type": "object", "properties": {"inner": {"type": "object", "properties": {"x": {"type": "string"}}}}})))
        .collect();
    let sent = sent(
        &json!({"type": "object", "properties": {"p": {"type": "object", "properties": wide}}}),
        SchemaDialect::Plain,
    )
    .json;
    assert!(sent.contains("\"p\"") && !sent.contains("\"x\""), "{}", &sent[..200]);
    let long: serde_json::Map<String, Value> =
        (0..3_000).map(|at| (format!("property_{at:030}"), json!({}))).collect();
    let refused =
        encode_schema(&json!({"type": "object", "properties": long}), SchemaDialect::Plain).unwrap_err();
    assert!(refused.0.contains("bytes without any detail"), "{refused}");
}

#[track_caller]
fn strict(schema: Value, dialect: SchemaDialect, expected: Option<&str>) {
    let sent = sent(&schema, dialect);
    assert_eq!(sent.strict.is_some().then_some(sent.json.as_str()), expected, "{schema}");
}

#[test]
fn openai_strict() {
    let check = |schema: Value, expected: Option<&str>| strict(schema, SchemaDialect::OpenAiStrict, expected);
    check(
        json!({"type": "object", "properties": {}}),
        Some(r#"{"type":"object","properties":{},"additionalProperties":false}"#),
    );
    check(
        json!({"type": "object", "properties": {"a": {"type": "string", "minLength": 2, "format": "uri"}, "b": {"type": "integer", "minimum": 1},
            "c": {"enum": ["x", "y"]}, "d": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "e": {"type": "object", "properties": {"f": {"type": "boolean"}}}}, "required": ["a"]}),
        Some(
            r#"{"type":"object","properties":{"a":{"type":"string","description":"[format \"uri\"; minLength 2]"},"b":{"type":["integer","null"],"minimum":1},"c":{"type":["string","null"],"enum":["x","y",null]},"d":{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]},"e":{"type":["object","null"],"properties":{"f":{"type":["boolean","null"]}},"required":["f"],"additionalProperties":false}},"required":["a","b","c","d","e"],"additionalProperties":false}"#,
        ),
    );
    // Alternatives inside alternatives: null is not in there by itself.
    check(
        json!({"type": "object", "properties": {"d": {"anyOf": [{"type": "string"}, {"anyOf": [{"type": "integer"}, {"type": "boolean"}]}]}}}),
        Some(
            r#"{"type":"object","properties":{"d":{"anyOf":[{"type":"string"},{"anyOf":[{"type":"integer"},{"type":"boolean"}]},{"type":"null"}]}},"required":["d"],"additionalProperties":false}"#,
        ),
    );
    for part in [
        json!({}),
        json!({"type": "object"}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "properties": {}, "additionalProperties": true}),
        json!({"type": "object", "properties": {}, "patternProperties": {"^x": {}}}),
        json!({"type": "object", "properties": {}, "required": ["unnamed"]}),
        json!({"type": "array"}),
        json!({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}}),
        json!({"enum": [{"a": 1}]}),
        json!({"oneOf": [{"type": "string", "maxLength": 3}, {"type": "string", "minLength": 2}]}),
        json!({"$ref": "#"}),
        json!({"$ref": "#far"}),
        json!({"allOf": [{"properties": {"x": {"type": "string"}}}, {"properties": {"x": {"minLength": 1}}}], "type": "object"}),
        json!({"anyOf": [{"type": "object", "properties": {"x": {"type": "string"}}}, {"type": "object", "properties": {"y": {"type": "string"}}}]}),
    ] {
        check(
            json!({"type": "object", "properties": {"p": part}, "$defs": {"f": {"$anchor": "far", "type": "string"}}}),
            None,
        );
    }
    let mut deep = json!({"type": "string"});
    for _ in 0..6 {
        deep = json!({"type": "object", "properties": {"p": deep}});
    }
    check(deep, None);
    let wide: serde_json::Map<String, Value> =
        (0..101).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect();
    check(json!({"type": "object", "properties": wide}), None);
    let values: Vec<String> = (0..501).map(|at| at.to_string()).collect();
    check(json!({"type": "object", "properties": {"p": {"enum": values}}}), None);
}

#[test]
fn anthropic_strict() {
    let check =
        |schema: Value, expected: Option<&str>| strict(schema, SchemaDialect::AnthropicStrict, expected);
    check(
        json!({"type": "object", "properties": {"a": {"type": ["string", "null"], "format": "uri", "pattern": "x"}, "b": {"type": "array", "items": {"type": "number", "maximum": 3}, "minItems": 2}}, "required": ["a"]}),
        Some(
            r#"{"type":"object","properties":{"a":{"description":"[pattern \"x\"]","anyOf":[{"type":"string"},{"type":"null"}]},"b":{"type":"array","description":"[minItems 2]","items":{"type":"number","description":"[maximum 3]"}}},"required":["a"],"additionalProperties":false}"#,
        ),
    );
    check(json!({"type": "object", "properties": {"a": {}}}), None);
    let demands = sent(
        &json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": {"type": "string"}}}),
        SchemaDialect::AnthropicStrict,
    );
    assert_eq!(demands.strict, Some(StrictDemands { optional: 2, unions: 1 }));
}

#[test]
fn gemini_takes_fewer_words() {
    let sent = sent(
        &json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 3, "default": "x"}, "m": {"type": "object", "patternProperties": {"^x": {"type": "string"}}, "additionalProperties": false}}}),
        SchemaDialect::Gemini,
    );
    assert_eq!(
        sent.json,
        r#"{"type":"object","properties":{"a":{"type":"string","description":"[maxLength 3; default \"x\"]"},"m":{"type":"object","description":"[further names match ^x]"}}}"#
    );
}
