//! The words of every kind of problem.

use serde_json::json;

use crate::schema::InputSchema;

use super::*;

/// Validates `input` as the field `f` of an object; `expected` are the lines `path: message`.
#[track_caller]
fn field(schema: Value, input: Value, expected: &[&str]) {
    check(json!({"type": "object", "properties": {"f": schema}}), json!({"f": input}), expected);
}

#[track_caller]
fn check(schema: Value, input: Value, expected: &[&str]) {
    let schema = InputSchema::given(schema).expect("the schema is fine");
    let violations = schema.validate(input).expect_err("the input is refused");
    let lines: Vec<String> = violations.iter().map(InputViolation::to_string).collect();
    assert_eq!(lines, expected);
}

#[test]
fn fields() {
    let schema = json!({
        "type": "object",
        "properties": {"pattern": {"type": "string"}, "head_limit": {"type": "integer", "minimum": 0}, "a/b": {"type": "boolean"}},
        "required": ["pattern", "a/b", "undeclared"],
    });
    check(
        schema,
        json!({"head_limit": "ten"}),
        &[
            "/a~1b: missing; a boolean is required",
            "/head_limit: \"ten\" is a string; an integer ≥ 0 is accepted",
            "/pattern: missing; a string is required",
            "/undeclared: missing; a value is required",
        ],
    );
    let closed =
        json!({"type": "object", "properties": {"path": {}, "limit": {}}, "additionalProperties": false});
    check(
        closed.clone(),
        json!({"paht": 1, "zzz": 1}),
        &[
            "/paht: unknown field; did you mean `path`? accepted: limit, path",
            "/zzz: unknown field; accepted: limit, path",
        ],
    );
    check(
        json!({"type": "object", "properties": {}, "additionalProperties": false}),
        json!({"a": 1}),
        &["/a: unknown field; no fields are accepted here"],
    );
    check(
        json!({"type": "object", "allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": false}),
        json!({"b": 1}),
        &["/b: unknown field; accepted: a"],
    );
    field(json!(false), json!(1), &["/f: not accepted here; leave it out"]);
    field(
        json!({"propertyNames": {"type": "string", "maxLength": 2}}),
        json!({"abc": 1}),
        &["/f/abc: the name is not accepted; a string of up to 2 characters is"],
    );
}

#[test]
fn types() {
    field(json!({"type": "integer"}), json!(1.5), &["/f: 1.5 is a number; an integer is accepted"]);
    check(
        json!({"type": "object", "properties": {"f": {"type": "string"}}, "required": ["f"]}),
        json!({"f": null}),
        &["/f: null is not accepted; a string is"],
    );
    field(json!({"type": "string"}), json!({"a": 1}), &["/f: {\"a\":1} is an object; a string is accepted"]);
    field(json!({"type": ["string", "null"]}), json!(true), &["/f: true is a boolean; a string is accepted"]);
    check(json!({"type": "object"}), json!([1]), &["[1] is an array; an object is accepted"]);
    field(
        json!({"type": "array", "items": {"type": "string"}}),
        json!(["a", 1]),
        &["/f/1: 1 is a number; a string is accepted"],
    );
}

#[test]
fn bounds() {
    let range = json!({"type": "integer", "minimum": 1, "maximum": 2000});
    field(range.clone(), json!(0), &["/f: 0 is too small; an integer between 1 and 2000 is accepted"]);
    field(range, json!(2001), &["/f: 2001 is too large; an integer between 1 and 2000 is accepted"]);
    field(
        json!({"type": "number", "exclusiveMinimum": 0}),
        json!(0),
        &["/f: 0 is too small; a number > 0 is accepted"],
    );
    field(
        json!({"type": "string", "minLength": 1}),
        json!(""),
        &["/f: \"\" is too short; a string of 1 or more characters is accepted"],
    );
    field(
        json!({"type": "string", "maxLength": 1}),
        json!("ab"),
        &["/f: \"ab\" is too long; a string of up to 1 character is accepted"],
    );
    field(json!({"type": "array", "minItems": 1}), json!([]), &["/f: has 0 items; at least 1 is accepted"]);
    field(json!({"maxItems": 2}), json!([1, 2, 3]), &["/f: has 3 items; at most 2 are accepted"]);
    field(json!({"minProperties": 2}), json!({"a": 1}), &["/f: has 1 field; at least 2 are accepted"]);
    field(json!({"uniqueItems": true}), json!([1, 1]), &["/f: the items repeat; each may appear once"]);
    field(
        json!({"type": "integer", "multipleOf": 5}),
        json!(7),
        &["/f: 7 is not a multiple of 5; an integer that is a multiple of 5 is accepted"],
    );
    field(
        json!({"pattern": "^a"}),
        json!("b"),
        &["/f: \"b\" does not match; a string that matches `^a` is accepted"],
    );
    field(json!({"contains": {"const": 1}}), json!([2]), &["/f: no item of [2] is the one that is required"]);
    field(json!({"not": {"const": 1}}), json!(1), &["/f: 1 is excluded by the schema; give another value"]);
    check(
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"f": {"format": "date"}}}),
        json!({"f": "x"}),
        &["/f: \"x\" is not in the format date; a string in that format is accepted"],
    );
}

#[test]
fn choices() {
    field(
        json!({"enum": ["a", "b"]}),
        json!("foo"),
        &["/f: \"foo\" is not accepted; one of \"a\", \"b\" is"],
    );
    field(json!({"const": 1}), json!(2), &["/f: 2 is not accepted; 1 is"]);
    field(
        json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
        json!(1),
        &["/f: 1 is not accepted; a string or an array of strings is"],
    );
    field(
        json!({"oneOf": [{"type": "integer"}, {"minimum": 0}]}),
        json!(3),
        &["/f: 3 fits several alternatives; exactly one of them is accepted: an integer or anything"],
    );
    field(
        json!({"anyOf": [{"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}, {"type": "null"}]}),
        json!({}),
        &["/f/x: missing; an integer is required"],
    );
}

#[test]
fn tagged_alternatives() {
    let branch = |kind: &str, name: &str| json!({"type": "object", "properties": {"kind": {"const": kind}, name: {"type": "integer"}}, "required": ["kind", name], "additionalProperties": false});
    let tagged = json!({"oneOf": [branch("a", "x"), branch("b", "y")]});
    field(tagged.clone(), json!({"kind": "c"}), &["/f/kind: \"c\" is not accepted; one of \"a\", \"b\" is"]);
    field(tagged.clone(), json!({"x": 1}), &["/f/kind: missing; one of \"a\", \"b\" is required"]);
    field(tagged.clone(), json!({"kind": "a"}), &["/f/x: missing; an integer is required"]);
    field(
        tagged.clone(),
        json!({"kind": "b", "y": "s"}),
        &["/f/y: \"s\" is a string; an integer is accepted"],
    );
    field(tagged.clone(), json!({"kind": "b", "x": 1, "y": 1}), &["/f/x: unknown field; accepted: kind, y"]);
    field(
        tagged,
        json!(1),
        &["/f: 1 is not accepted; an object with `kind` \"a\", `x` or an object with `kind` \"b\", `y` is"],
    );
}

#[test]
fn references_find_their_place() {
    let schema = json!({
        "type": "object",
        "properties": {"f": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "object", "properties": {"i": {"type": "integer", "minimum": 3}, "n": {"$ref": "#/$defs/n"}}, "required": ["i"], "additionalProperties": false}},
    });
    check(
        schema,
        json!({"f": {"i": 1, "n": {"m": 1}}}),
        &[
            "/f/i: 1 is too small; an integer ≥ 3 is accepted",
            "/f/n/i: missing; an integer ≥ 3 is required",
            "/f/n/m: unknown field; accepted: i, n",
        ],
    );
}

#[test]
fn values_are_shortened_and_problems_not_repeated() {
    let schema = InputSchema::given(json!({"type": "object", "allOf": [
        {"properties": {"f": {"type": "integer"}}}, {"properties": {"f": {"type": "integer"}}},
    ]}))
    .unwrap();
    let violations = schema.validate(json!({"f": "é".repeat(10_000)})).unwrap_err();
    assert_eq!(violations.len(), 1);
    assert!(violations[0].message().chars().count() < 120, "{}", violations[0]);
    assert!(violations[0].message().contains("éé… is a string"), "{}", violations[0]);
}

#[test]
fn large_inputs_report_their_first_problem() {
    let schema =
        InputSchema::given(json!({"type": "object", "additionalProperties": {"items": {"type": "string"}}}))
            .unwrap();
    let many: Vec<_> = (0..=VIOLATION_NODES_MAX).collect();
    assert_eq!(schema.validate(json!({"a": many})).unwrap_err().len(), 1);
    assert_eq!(schema.validate(json!({"a": [1, 2, 3]})).unwrap_err().len(), 3);
}

/// Explaining this one in full would take 2^64 errors.
#[test]
fn explosive_schemas_are_explained_briefly() {
    let schema = InputSchema::given(json!({
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"anyOf": [
            {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["x"]},
            {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["y"]},
            {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["z"]},
        ]}},
    }))
    .unwrap();
    let mut input = json!({});
    for _ in 0..60 {
        input = json!({"n": input});
    }
    let violations = schema.validate(input).unwrap_err();
    assert_eq!(violations.len(), 1);
    assert!(violations[0].message().contains("does not fit the schema"), "{}", violations[0]);
    // The deepest that is explained in full, in bearable time.
    let mut input = json!({});
    for _ in 1..10 {
        input = json!({"n": input});
    }
    let started = std::time::Instant::now();
    let violations = schema.validate(input).unwrap_err();
    assert!(!violations[0].message().contains("does not fit the schema"), "{}", violations[0]);
    assert!(started.elapsed() < std::time::Duration::from_secs(60), "{:?}", started.elapsed());
}
