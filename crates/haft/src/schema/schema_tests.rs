//! The whole way: text, schema, type, message.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use super::json::parse_json;
use super::*;
use crate::limits::SCHEMA_HOPS_MAX;

/// Even a busy machine needs less for work that is linear; what is exponential takes years.
const BEARABLE: Duration = Duration::from_secs(60);

#[track_caller]
fn refused(schema: Value, message: &str) -> SchemaError {
    let started = Instant::now();
    let error = InputSchema::given(schema).expect_err("the schema is refused");
    assert!(error.to_string().contains(message), "{error}");
    assert!(started.elapsed() < BEARABLE, "{error}: took {:?}", started.elapsed());
    error
}

#[test]
fn given_schemas_are_used_as_given() {
    for schema in [
        json!(true),
        json!({}),
        json!({"title": "T", "description": "D", "$schema": "https://json-schema.org/draft/2020-12/schema"}),
        json!({"properties": {"a": {"type": "string"}}}),
        json!({"type": ["object", "null"]}),
        json!({"oneOf": [{"type": "object"}, {"type": "array"}]}),
        json!({"type": "object", "properties": {"a": {"type": "integer", "format": "uint8"}}}),
    ] {
        let given = InputSchema::given(schema.clone()).unwrap();
        assert_eq!(given.as_value(), &schema);
        assert_eq!(given.description(), None);
        assert!(given.validate(json!({})).is_ok());
    }
}

#[test]
fn schemas_that_cannot_be_used() {
    refused(json!(false), "accepts no object");
    refused(json!({"type": "array"}), "accepts no object");
    refused(json!({"enum": ["a"]}), "accepts no object");
    refused(json!("object"), "a JSON object is accepted");
    refused(json!(null), "a JSON object is accepted");
    assert_eq!(refused(json!({"type": "objekt"}), "objekt").path(), "/type");
    let error = refused(json!({"properties": {"a": {"minimum": "1"}}}), "not a valid schema");
    assert_eq!(error.path(), "/properties/a/minimum");
    let error = refused(
        json!({"properties": {"a/b": {"anyOf": [{}, {"$ref": "#/$defs/Nope"}]}}}),
        "`$ref` to `#/$defs/Nope` leads nowhere; a place that the schema has is accepted",
    );
    assert_eq!(error.path(), "/properties/a~1b/anyOf/1/$ref");
    refused(json!({"properties": {"a": {"$ref": "https://example.com/a.json"}}}), "leaves the document");
    let error = refused(json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}), "leaves the document");
    assert_eq!(error.path(), "/properties/a/$ref");
    let error = refused(json!({"items": [{}, {"$id": "b"}]}), "it is accepted at the root only");
    assert_eq!(error.path(), "/items/1/$id");
    refused(json!({"$schema": "https://example.com/meta.json", "type": "object"}), "");
}

#[test]
fn billions_of_laughs_are_refused_at_once() {
    let mut defs = serde_json::Map::new();
    for n in 0..10 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        defs.insert(format!("d{n}"), json!({"allOf": vec![next; 10]}));
    }
    defs.insert("d10".to_owned(), json!({"type": "object"}));
    refused(json!({"$ref": "#/$defs/d0", "$defs": defs}), "once its `$ref`s are followed");
}

#[test]
fn patterns_take_linear_time() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}});
    let schema = InputSchema::given(schema).unwrap();
    let started = Instant::now();
    assert!(schema.validate(json!({"a": format!("{}!", "a".repeat(100_000))})).is_err());
    assert!(schema.validate(json!({"a": "a".repeat(100_000)})).is_ok());
    assert!(started.elapsed() < BEARABLE, "{:?}", started.elapsed());

    for pattern in ["(?=a)b", r"(a)\1", "(", "(?<!a)b"] {
        let error = refused(json!({"properties": {"a": {"pattern": pattern}}}), "the pattern");
        assert!(error.to_string().contains(pattern.trim_end_matches(r"\1")), "{error}");
        assert_eq!(error.path(), "/properties/a/pattern");
    }
    refused(json!({"properties": {"a": {"pattern": "((a{100}){100}){100}"}}}), "the pattern");
    refused(json!({"patternProperties": {"(?=a)": {}}}), "(?=a)");
}

#[test]
fn coercion_in_validate() {
    let schema = InputSchema::given(json!({
        "type": "object",
        "properties": {
            "edits": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
            "text": {"type": "string"},
        },
    }))
    .unwrap();
    // Valid as it is: nothing is touched, not even what could be.
    assert_eq!(schema.validate(json!({"edits": [{"n": 5.0}]})).unwrap(), json!({"edits": [{"n": 5.0}]}));
    assert_eq!(schema.coerced(&json!({"edits": [{"n": 5.0}]})), Some(json!({"edits": [{"n": 5}]})));
    assert_eq!(schema.coerced(&json!({"edits": [{"n": 5}]})), None);
    assert_eq!(schema.coerced(&json!({"edits": [{"n": 5.0}], "text": 1})), None);

    let dressed = json!({"edits": r#"[{"n": 1}]"#, "text": "{}"});
    assert_eq!(schema.validate(dressed).unwrap(), json!({"edits": [{"n": 1}], "text": "{}"}));
    let violations = schema.validate(json!({"edits": r#"[{"n": 1}, {}]"#})).unwrap_err();
    assert_eq!(violations, [InputViolation::new("/edits/1/n", "missing; an integer is required")]);
    assert_eq!(schema.validate(json!(r#"{"text": "a"}"#)).unwrap(), json!({"text": "a"}));
    // JSON that is still no JSON.
    let violations = schema.validate(json!({"edits": "[{"})).unwrap_err();
    assert_eq!(
        violations[0].to_string(),
        "/edits: \"[{\" is a string; an array of objects with `n` is accepted"
    );
}

#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
struct Input {
    path: String,
    #[serde(default)]
    modes: Vec<Mode>,
    even: Option<Even>,
}

#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
enum Mode {
    Fast,
    Slow { seconds: u8 },
}

/// A type that knows more than its schema.
#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(try_from = "u8")]
struct Even(u8);

impl TryFrom<u8> for Even {
    type Error = String;
    fn try_from(n: u8) -> Result<Even, String> {
        if n.is_multiple_of(2) { Ok(Even(n)) } else { Err(format!("{n} is odd; an even number is accepted")) }
    }
}

#[test]
fn decoding() {
    #[track_caller]
    fn fails(input: Value, path: &str, message: &str) {
        let violation = decode_input::<Input>(&input).unwrap_err();
        assert_eq!(violation.path(), path);
        assert!(violation.message().contains(message), "{violation}");
    }
    let input = json!({"path": "a", "modes": ["Fast", {"Slow": {"seconds": 1}}], "even": 2});
    assert!(InputSchema::derive::<Input>().unwrap().validate(input.clone()).is_ok());
    let expected = Input {
        path: "a".to_owned(),
        modes: vec![Mode::Fast, Mode::Slow { seconds: 1 }],
        even: Some(Even(2)),
    };
    assert_eq!(decode_input::<Input>(&input).unwrap(), expected);
    fails(json!({"path": "a", "even": 3}), "/even", "3 is odd");
    fails(
        json!({"path": "a", "modes": ["Fast", {"Slow": {"seconds": 300}}]}),
        "/modes/1/Slow/seconds",
        "300",
    );
    fails(json!({"path": "a", "modes": ["Quick"]}), "/modes/0", "Quick");
    fails(json!({}), "", "missing field `path`");
}

/// What jsonschema calls an integer and serde does not.
#[test]
fn integral_floats_decode_after_coercion() {
    #[derive(Debug, Deserialize, JsonSchema, PartialEq)]
    struct Count {
        n: u8,
    }
    let schema = InputSchema::derive::<Count>().unwrap();
    let input = schema.validate(json!({"n": 5.0})).unwrap();
    assert!(decode_input::<Count>(&input).is_err());
    assert_eq!(decode_input::<Count>(&schema.coerced(&input).unwrap()).unwrap(), Count { n: 5 });
}

#[test]
fn the_message() {
    let schema = InputSchema::given(json!({
        "type": "object",
        "properties": {"pattern": {"type": "string"}, "head_limit": {"type": "integer", "minimum": 0}},
        "required": ["pattern"],
    }))
    .unwrap();
    let mut violations = schema.validate(json!({"head_limit": "ten"})).unwrap_err();
    violations.reverse();
    assert_eq!(
        describe_violations("Grep", &violations),
        "invalid input for Grep (2 problems):
  /pattern      missing; a string is required
  /head_limit   \"ten\" is a string; an integer ≥ 0 is accepted
fix these fields and call Grep again"
    );
    let root = schema.validate(json!(1)).unwrap_err();
    assert_eq!(
        describe_violations("Grep", &root),
        "invalid input for Grep (1 problem):
  (input)   1 is a number; an object with `pattern` is accepted
fix this field and call Grep again"
    );
}

#[test]
fn the_message_is_bounded() {
    let many: Vec<_> = (0..1000)
        .map(|n| InputViolation::new(format!("/{n}\n/{}", "x".repeat(9999)), "é\n".repeat(9999)))
        .collect();
    let text = describe_violations("T", &many);
    assert_eq!(text.lines().count(), 1 + VIOLATIONS_MAX + 2);
    assert!(text.contains("\n  and 980 more\n"), "{text}");
    assert!(text.len() < 40_000, "{}", text.len());
}

#[test]
fn deep_values_are_refused_without_recursion() {
    let schema = InputSchema::given(json!({"type": "object", "additionalProperties": {"$ref": "#/$defs/a"}, "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}})).unwrap();
    let nested = |depth| (0..depth).fold(json!(1), |value, _| json!([value]));
    assert!(schema.validate(json!({"a": nested(INPUT_DEPTH_MAX - 1)})).is_ok());
    for depth in [INPUT_DEPTH_MAX, 1000] {
        let violations = schema.validate(json!({"a": nested(depth)})).unwrap_err();
        assert!(violations[0].message().contains("nested too deep"), "{violations:?}");
        assert_eq!(schema.coerced(&json!({"a": nested(depth)})), None);
    }
    // A string that unpacks to more than may be.
    let schema =
        InputSchema::given(json!({"type": "object", "properties": {"a": {"type": "array"}}})).unwrap();
    let violations = schema.validate(json!({"a": nested(INPUT_DEPTH_MAX).to_string()})).unwrap_err();
    assert!(violations[0].message().contains("nested too deep"), "{violations:?}");
}

/// The deepest recursion that the limits allow, on half the stack of an ordinary thread.
#[test]
fn the_longest_chain_fits_the_stack() {
    fn chain(hops: usize, keyword: &str) {
        let mut defs = serde_json::Map::new();
        for n in 0..hops {
            defs.insert(format!("d{n}"), json!({keyword: [{"$ref": format!("#/$defs/d{}", n + 1)}]}));
        }
        defs.insert(format!("d{hops}"), json!({"type": "array", "items": {"$ref": "#/$defs/d0"}}));
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs});
        let schema = InputSchema::given(schema).expect("the chain is just short enough");
        for depth in 2..INPUT_DEPTH_MAX {
            let nested = |inner: Value| (2..depth).fold(inner, |value, _| json!([value]));
            assert!(schema.validate(json!({"a": nested(json!([]))})).is_ok());
            assert!(schema.validate(json!({"a": nested(json!(["x"]))})).is_err());
        }
    }
    let run = || {
        for hops in 0..SCHEMA_HOPS_MAX / 2 {
            ["allOf", "anyOf", "oneOf"].iter().for_each(|keyword| chain(hops, keyword));
        }
    };
    std::thread::Builder::new().stack_size(1024 * 1024).spawn(run).unwrap().join().unwrap();
}

#[test]
fn odd_inputs_do_no_harm() {
    let schema = InputSchema::derive::<Input>().unwrap();
    for text in [
        "1e308",
        "-1e308",
        "\"\\u0000\"",
        "[]",
        "null",
        "{\"path\":\"\\u0000\"}",
        "{\"\":{\"\":0}}",
        "{\"path\":123456789012345678901234567890.0}",
        "{\"path\":\"a\",\"even\":1e300}",
        "{\"path\":\"a\",\"even\":-0.0}",
    ] {
        let input = parse_json(text).unwrap();
        let _ = schema.coerced(&input);
        if let Err(violations) = schema.validate(input) {
            assert!(!violations.is_empty());
            assert!(describe_violations("T", &violations).len() < 2000);
        }
    }
    let mut huge = serde_json::Map::new();
    for key in 0..1_000_000 {
        huge.insert(key.to_string(), json!(0));
    }
    assert!(!schema.validate(Value::Object(huge)).unwrap_err().is_empty());
}

/// Not a bound on any machine; run with `--release -- --ignored --nocapture timing`.
#[test]
#[ignore = "prints timings"]
fn timing() {
    fn time<T>(name: &str, mut run: impl FnMut() -> T) {
        const ROUNDS: u32 = 300_000;
        let best = (0..7)
            .map(|_| {
                let started = Instant::now();
                for _ in 0..ROUNDS {
                    std::hint::black_box(run());
                }
                started.elapsed() / ROUNDS
            })
            .min();
        eprintln!("{name}: {best:?}");
    }
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Small {
        path: String,
        limit: Option<u32>,
        all: bool,
    }
    let text = r#"{"path":"/home/me/notes/today.md","limit":200,"all":true}"#;
    let schema = InputSchema::derive::<Small>().unwrap();
    let mut value = Some(parse_json(text).unwrap());
    time("serde_json::from_str", || serde_json::from_str::<Value>(std::hint::black_box(text)).unwrap());
    time("parse_json", || parse_json(std::hint::black_box(text)).unwrap());
    time("is_valid", || schema.inner.validator().is_valid(value.as_ref().unwrap()));
    time("validate", || value = Some(schema.validate(value.take().unwrap()).unwrap()));
    time("decode", || decode_input::<Small>(value.as_ref().unwrap()).unwrap());
}

/// A schema that says nothing of its type would let anything through; a call's arguments are an object all
/// the same.
#[test]
fn what_is_no_object_is_refused() {
    let open = InputSchema::given(json!({})).unwrap();
    assert_eq!(open.validate(json!({"a": 1})), Ok(json!({"a": 1})));
    for input in [json!(5), json!([]), json!(null), json!("{}")] {
        let violations = open.validate(input.clone()).unwrap_err();
        assert_eq!(violations, [InputViolation::new("", format!("{input} came; a JSON object is accepted"))]);
    }
    let maybe = InputSchema::given(json!({"type": ["object", "integer"]})).unwrap();
    assert!(maybe.validate(json!(5.0)).is_err() && maybe.validate(json!("{}")) == Ok(json!({})));
}
