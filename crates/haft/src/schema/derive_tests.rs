//! Schemas of every kind of type that serde knows: what serde accepts the schema accepts, and an
//! unknown field is refused where the type is closed.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU8;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::*;
use crate::schema::{InputSchema, decode_input};

#[track_caller]
fn schema<T: JsonSchema>(expected: Value) {
    assert_eq!(InputSchema::derive::<T>().expect("the type has a schema").as_value(), &expected);
}

/// Both the schema and serde accept the input.
#[track_caller]
fn accepts<T: JsonSchema + DeserializeOwned>(input: Value) {
    let schema = InputSchema::derive::<T>().expect("the type has a schema");
    if let Err(violations) = schema.validate(input.clone()) {
        panic!("{input}: {violations:?}\n{}", schema.as_value());
    }
    if let Err(violation) = decode_input::<T>(&input) {
        panic!("{input}: {violation}");
    }
}

/// The schema refuses the input at `path`.
#[track_caller]
fn refuses<T: JsonSchema>(input: Value, path: &str) {
    let schema = InputSchema::derive::<T>().expect("the type has a schema");
    let violations = schema.validate(input).expect_err("the input is refused");
    assert!(violations.iter().any(|v| v.path() == path), "{violations:?}\n{}", schema.as_value());
}

/// Reads things.
///
/// At length.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Plain {
    /// A path.
    path: String,
    limit: Option<u32>,
    #[serde(default)]
    all: bool,
}

#[test]
fn plain_struct() {
    let derived = InputSchema::derive::<Plain>().unwrap();
    assert_eq!(derived.description(), Some("Reads things.\n\nAt length."));
    schema::<Plain>(json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "A path."},
            "limit": {"type": ["integer", "null"], "minimum": 0, "maximum": u32::MAX},
            "all": {"type": "boolean", "default": false},
        },
        "required": ["path"],
        "additionalProperties": false,
    }));
    accepts::<Plain>(json!({"path": "a"}));
    accepts::<Plain>(json!({"path": "a", "limit": null, "all": true}));
    refuses::<Plain>(json!({"path": "a", "lmit": 1}), "/lmit");
    refuses::<Plain>(json!({"path": "a", "limit": -1}), "/limit");
    refuses::<Plain>(json!({"path": "a", "limit": 4_294_967_296_u64}), "/limit");
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Nested {
    one: Plain,
    maybe: Option<Plain>,
    many: Vec<Plain>,
    named: HashMap<String, Plain>,
    numbered: BTreeMap<u8, i8>,
    pair: (u8, String),
    anything: Value,
    boxed: Box<Plain>,
}

#[test]
fn nested_structs_are_inlined_and_closed() {
    let fine = |key: &str, value: Value| {
        let mut input = json!({
            "one": {"path": "a"}, "many": [{"path": "a"}], "named": {"x": {"path": "a"}}, "numbered": {"1": -1},
            "pair": [1, "a"], "anything": {"x": 1}, "boxed": {"path": "a"}
        });
        input[key] = value;
        input
    };
    let derived = InputSchema::derive::<Nested>().unwrap().as_value().to_string();
    assert!(!derived.contains("$ref") && !derived.contains("$defs"), "{derived}");
    accepts::<Nested>(fine("maybe", json!(null)));
    accepts::<Nested>(fine("maybe", json!({"path": "a"})));
    accepts::<Nested>(fine("named", json!({"any name": {"path": "a"}})));
    for key in ["one", "maybe", "boxed"] {
        refuses::<Nested>(fine(key, json!({"path": "a", "x": 1})), &format!("/{key}/x"));
    }
    refuses::<Nested>(fine("many", json!([{"path": "a"}, {"path": "a", "x": 1}])), "/many/1/x");
    refuses::<Nested>(fine("named", json!({"n": {"path": "a", "x": 1}})), "/named/n/x");
    refuses::<Nested>(fine("more", json!(1)), "/more");
    refuses::<Nested>(fine("pair", json!([256, "a"])), "/pair/0");
}

#[derive(Deserialize, JsonSchema)]
struct Empty {}

#[derive(Deserialize, JsonSchema)]
struct Unit;

#[test]
fn no_input() {
    schema::<Empty>(json!({"type": "object", "properties": {}, "additionalProperties": false}));
    schema::<Unit>(json!({"type": "object", "properties": {}, "additionalProperties": false}));
    accepts::<Empty>(json!({}));
    accepts::<Unit>(json!({}));
    accepts::<()>(json!({}));
    refuses::<Empty>(json!({"a": 1}), "/a");
    refuses::<Unit>(json!({"a": 1}), "/a");
    accepts::<HashMap<String, u8>>(json!({"a": 1}));
    accepts::<serde_json::Map<String, Value>>(json!({"a": 1}));
}

#[test]
fn roots_that_are_no_objects() {
    #[track_caller]
    fn refused<T: JsonSchema>() {
        let error = InputSchema::derive::<T>().expect_err("the root is refused").to_string();
        assert!(error.contains("a struct with named fields is accepted"), "{error}");
    }
    refused::<String>();
    refused::<Vec<Plain>>();
    refused::<Option<Plain>>();
    refused::<(u8, u8)>();
    refused::<Value>();
    refused::<External>();
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
enum External {
    Unit,
    New(Plain),
    Fields { x: u8 },
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum Internal {
    Unit,
    NewType(Plain),
    Fields { x: u8 },
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "t", content = "c")]
#[expect(dead_code, reason = "only its schema is used")]
enum Adjacent {
    Unit,
    New(Plain),
    Fields { x: u8 },
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Untagged {
    Text(String),
    Plain(Plain),
    Fields { x: u8 },
}

#[derive(Deserialize, JsonSchema)]
struct Of<T> {
    #[expect(dead_code, reason = "only its schema is used")]
    e: T,
}

#[test]
fn enums() {
    accepts::<Of<External>>(json!({"e": "Unit"}));
    accepts::<Of<External>>(json!({"e": {"New": {"path": "a"}}}));
    accepts::<Of<External>>(json!({"e": {"Fields": {"x": 1}}}));
    refuses::<Of<External>>(json!({"e": {"Fields": {"x": 1, "y": 1}}}), "/e/Fields/y");
    refuses::<Of<External>>(json!({"e": {"Fields": {"x": 1}, "New": {"path": "a"}}}), "/e");
    refuses::<Of<External>>(json!({"e": "Other"}), "/e");

    accepts::<Of<Internal>>(json!({"e": {"kind": "unit"}}));
    accepts::<Of<Internal>>(json!({"e": {"kind": "new_type", "path": "a"}}));
    accepts::<Internal>(json!({"kind": "fields", "x": 1}));
    assert_eq!(InputSchema::derive::<Internal>().unwrap().as_value()["type"], "object");
    refuses::<Internal>(json!({"kind": "fields", "x": 1, "y": 1}), "/y");
    refuses::<Of<Internal>>(json!({"e": {"kind": "unit", "y": 1}}), "/e/y");
    refuses::<Of<Internal>>(json!({"e": {"kind": "new_type", "path": "a", "y": 1}}), "/e/y");
    refuses::<Of<Internal>>(json!({"e": {"kind": "other"}}), "/e/kind");
    refuses::<Of<Internal>>(json!({"e": {"x": 1}}), "/e/kind");

    accepts::<Of<Adjacent>>(json!({"e": {"t": "Unit"}}));
    accepts::<Of<Adjacent>>(json!({"e": {"t": "New", "c": {"path": "a"}}}));
    accepts::<Adjacent>(json!({"t": "Fields", "c": {"x": 1}}));
    refuses::<Of<Adjacent>>(json!({"e": {"t": "Fields", "c": {"x": 1}, "d": 1}}), "/e/d");
    refuses::<Of<Adjacent>>(json!({"e": {"t": "Fields", "c": {"x": 1, "y": 1}}}), "/e/c/y");

    accepts::<Of<Untagged>>(json!({"e": "a"}));
    accepts::<Of<Untagged>>(json!({"e": {"path": "a"}}));
    accepts::<Of<Untagged>>(json!({"e": {"x": 1}}));
    refuses::<Of<Untagged>>(json!({"e": {"x": 1, "y": 1}}), "/e");
    refuses::<Of<Untagged>>(json!({"e": {"x": 256}}), "/e/x");
}

#[derive(Deserialize, JsonSchema)]
struct Flat<T> {
    #[expect(dead_code, reason = "only its schema is used")]
    own: u8,
    #[serde(flatten)]
    #[expect(dead_code, reason = "only its schema is used")]
    rest: T,
}

#[derive(Deserialize, JsonSchema)]
struct Twice<T, U> {
    #[serde(flatten)]
    #[expect(dead_code, reason = "only its schema is used")]
    one: T,
    #[serde(flatten)]
    #[expect(dead_code, reason = "only its schema is used")]
    two: U,
}

#[test]
fn flattened() {
    accepts::<Flat<Plain>>(json!({"own": 1, "path": "a"}));
    refuses::<Flat<Plain>>(json!({"own": 1, "path": "a", "x": 1}), "/x");
    accepts::<Flat<Option<Plain>>>(json!({"own": 1}));
    accepts::<Flat<Option<Plain>>>(json!({"own": 1, "path": "a"}));
    accepts::<Flat<HashMap<String, u8>>>(json!({"own": 1, "more": 2}));
    refuses::<Flat<HashMap<String, u8>>>(json!({"own": 1, "more": "x"}), "/more");
    accepts::<Flat<HashMap<String, Value>>>(json!({"own": 1, "more": "x"}));
    accepts::<Flat<External>>(json!({"own": 1, "New": {"path": "a"}}));
    accepts::<Flat<External>>(json!({"own": 1, "Fields": {"x": 1}}));
    refuses::<Flat<External>>(json!({"own": 1, "Fields": {"x": 1, "y": 1}}), "/Fields/y");
    accepts::<Flat<Internal>>(json!({"own": 1, "kind": "fields", "x": 1}));
    accepts::<Flat<Internal>>(json!({"own": 1, "kind": "new_type", "path": "a"}));
    accepts::<Flat<Option<Internal>>>(json!({"own": 1}));
    accepts::<Flat<Adjacent>>(json!({"own": 1, "t": "Fields", "c": {"x": 1}}));
    refuses::<Flat<Adjacent>>(json!({"own": 1, "t": "Fields", "c": {"x": 1, "y": 1}}), "/c/y");
    accepts::<Flat<Untagged>>(json!({"own": 1, "x": 1}));
    // Open: no branch knows all the fields, so serde has the last word.
    accepts::<Flat<Internal>>(json!({"own": 1, "kind": "unit", "unknown": 1}));

    accepts::<Twice<Internal, Adjacent>>(json!({"kind": "fields", "x": 1, "t": "New", "c": {"path": "a"}}));
    accepts::<Twice<Internal, Untagged>>(json!({"kind": "unit", "path": "a"}));
    accepts::<Twice<Internal, HashMap<String, Value>>>(json!({"kind": "fields", "x": 1, "y": 1}));
    accepts::<Twice<Plain, Flat<Internal>>>(json!({"path": "a", "own": 1, "kind": "unit"}));
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Tree {
    name: String,
    #[serde(default)]
    children: Vec<Tree>,
}

#[test]
fn recursive_types_keep_their_references() {
    accepts::<Tree>(json!({"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}));
    refuses::<Tree>(json!({"name": "a", "children": [{"name": "b", "x": 1}]}), "/children/0/x");
    accepts::<Of<Tree>>(json!({"e": {"name": "a", "children": [{"name": "b"}]}}));
    refuses::<Of<Tree>>(
        json!({"e": {"name": "a", "children": [{"children": [], "name": "b", "x": 1}]}}),
        "/e/children/0/x",
    );
    accepts::<Flat<Tree>>(json!({"own": 1, "name": "a", "children": [{"name": "b"}]}));
}

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Attributes {
    two_words: u8,
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip)]
    hidden: u8,
}

#[test]
fn attributes() {
    accepts::<Attributes>(json!({}));
    accepts::<Attributes>(json!({"twoWords": 1, "type": "a"}));
    refuses::<Attributes>(json!({"two_words": 1}), "/two_words");
    refuses::<Attributes>(json!({"hidden": 1}), "/hidden");
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Numbers {
    a: i8,
    b: u64,
    c: i64,
    d: usize,
    e: f64,
    f: NonZeroU8,
    #[schemars(range(min = 1, max = 2000))]
    g: u16,
    h: u128,
    i: f32,
}

#[test]
fn sized_integers_have_bounds() {
    let derived = InputSchema::derive::<Numbers>().unwrap();
    assert_eq!(
        derived.as_value()["properties"],
        json!({
            "a": {"type": "integer", "minimum": -128, "maximum": 127},
            "b": {"type": "integer", "minimum": 0, "maximum": u64::MAX},
            "c": {"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX},
            "d": {"type": "integer", "minimum": 0, "maximum": u64::MAX},
            "e": {"type": "number"},
            "f": {"type": "integer", "minimum": 1, "maximum": 255},
            "g": {"type": "integer", "minimum": 1, "maximum": 2000},
            "h": {"type": "integer", "minimum": 0},
            "i": {"type": "number"},
        })
    );
    accepts::<Of<u64>>(json!({"e": u64::MAX}));
    accepts::<Of<i64>>(json!({"e": i64::MIN}));
    refuses::<Of<u64>>(json!({"e": 1.0e20}), "/e");
    refuses::<Of<i64>>(json!({"e": u64::MAX}), "/e");
}

#[derive(Serialize, JsonSchema)]
struct Report {
    /// How many.
    count: u8,
    #[serde(skip_deserializing)]
    only_out: String,
    inner: Vec<Tree2>,
}

#[derive(Serialize, JsonSchema)]
struct Tree2 {
    x: Option<bool>,
}

#[test]
fn outputs_are_open_and_as_serialized() {
    assert_eq!(
        derive_output::<Report>(),
        json!({
            "type": "object",
            "properties": {
                "count": {"type": "integer", "minimum": 0, "maximum": 255, "description": "How many."},
                "only_out": {"type": "string", "default": "", "readOnly": true},
                "inner": {"type": "array", "items": {
                    "type": "object",
                    "properties": {"x": {"type": ["boolean", "null"]}},
                    "required": ["x"],
                }},
            },
            "required": ["count", "only_out", "inner"],
        })
    );
    assert_eq!(derive_output::<usize>(), json!({"type": "integer", "minimum": 0, "maximum": u64::MAX}));
    assert_eq!(derive_output::<String>(), json!({"type": "string"}));
}
