//! In which order a form has its fields.
//!
//! The keys of JSON have no order, and where messages are read they are sorted; yet who writes a form means
//! its fields to be asked for as they stand there. So their names are read from the text once more, and noted
//! beside the form, in `_meta`, which every layer between here and the user leaves alone. Only forms are
//! looked at, and only where a server asks for one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};

use crate::limits::FORM_FIELDS_MAX;

/// Where the names stand in `_meta`. What a server itself says there is replaced.
pub(crate) const ORDER: &str = "haft/order";

const FORM: &[u8] = b"\"requestedSchema\"";
const METHOD: &str = "elicitation/create";

/// The names that were noted beside a form.
pub(crate) fn noted_field_order(params: &Value) -> Vec<String> {
    let names = params["_meta"][ORDER].as_array().into_iter().flatten();
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// The text of a message, with the order of its forms noted in it.
pub(super) fn with_field_order(text: &[u8]) -> Cow<'_, [u8]> {
    if !has_form(text) {
        return text.into();
    }
    let Ok(mut message) = serde_json::from_slice(text) else { return text.into() };
    note_field_order(&mut message, text);
    serde_json::to_vec(&message).map_or_else(|_| text.into(), Cow::Owned)
}

/// Notes in a message, or a batch of them, the order of the forms that its text has. One that can't be told
/// stays sorted.
pub(super) fn note_field_order(message: &mut Value, text: &[u8]) {
    if !has_form(text) {
        return;
    }
    match message {
        Value::Array(batch) => {
            let read: Vec<OrderedMessage> = serde_json::from_slice(text).unwrap_or_default();
            batch.iter_mut().zip(read).for_each(|(message, read)| read.note(message));
        }
        message => {
            if let Ok(read) = serde_json::from_slice::<OrderedMessage>(text) {
                read.note(message);
            }
        }
    }
}

fn has_form(text: &[u8]) -> bool {
    text.windows(FORM.len()).any(|part| part == FORM)
}

/// What of a message may hold forms: a request of the server, or a result that wants more input.
#[derive(serde::Deserialize)]
struct OrderedMessage {
    method: Option<String>,
    params: Option<OrderedParams>,
    result: Option<InputRequests>,
}

#[derive(serde::Deserialize)]
struct InputRequests {
    #[serde(rename = "inputRequests", default)]
    requests: BTreeMap<String, OrderedRequest>,
}

#[derive(serde::Deserialize)]
struct OrderedRequest {
    method: Option<String>,
    params: Option<OrderedParams>,
}

#[derive(serde::Deserialize)]
struct OrderedParams {
    #[serde(rename = "requestedSchema")]
    schema: Option<OrderedSchema>,
}

#[derive(serde::Deserialize)]
struct OrderedSchema {
    properties: Option<FieldOrder>,
}

impl OrderedMessage {
    fn note(self, message: &mut Value) {
        OrderedRequest { method: self.method, params: self.params }.note(message);
        let asked = message.get_mut("result").and_then(|result| result.get_mut("inputRequests"));
        let Some(Value::Object(asked)) = asked else { return };
        for (key, request) in self.result.into_iter().flat_map(|wanting| wanting.requests) {
            if let Some(asked) = asked.get_mut(&key) {
                request.note(asked);
            }
        }
    }
}

impl OrderedRequest {
    fn note(self, request: &mut Value) {
        let names = self.params.and_then(|params| params.schema?.properties);
        let (Some(METHOD), Some(FieldOrder(names))) = (self.method.as_deref(), names) else { return };
        // A list is read as a message as well, and is none.
        let Some(Value::Object(params)) = request.get_mut("params") else { return };
        if let Value::Object(meta) = params.entry("_meta").or_insert_with(|| json!({})) {
            meta.insert(ORDER.to_owned(), names.into());
        }
    }
}

/// The keys of an object, as they stand; one more than a form may have at most.
struct FieldOrder(Vec<String>);

impl<'de> Deserialize<'de> for FieldOrder {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<FieldOrder, D::Error> {
        struct KeysVisitor;

        impl<'de> Visitor<'de> for KeysVisitor {
            type Value = FieldOrder;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FieldOrder, A::Error> {
                let mut names = Vec::new();
                while let Some((name, IgnoredAny)) = map.next_entry()? {
                    if names.len() <= FORM_FIELDS_MAX {
                        names.push(name);
                    }
                }
                Ok(FieldOrder(names))
            }
        }

        from.deserialize_map(KeysVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order_in(text: &str) -> Vec<String> {
        let message: Value = serde_json::from_slice(&with_field_order(text.as_bytes())).unwrap();
        noted_field_order(&message["params"])
    }

    #[test]
    fn fields_are_noted_as_they_stand() {
        let form = r#"{"_meta": {"a": 1, "haft/order": ["x"]}, "requestedSchema": {"properties": {"z": {}, "a": {"k": [1]}, "m": 1}}}"#;
        let request = format!(r#"{{"id": 1, "method": "elicitation/create", "params": {form}}}"#);
        assert_eq!(order_in(&request), ["z", "a", "m"]);
        let message: Value = serde_json::from_slice(&with_field_order(request.as_bytes())).unwrap();
        assert_eq!(message["params"]["_meta"]["a"], 1, "what else stands there stays");

        let batch = format!(r#"[{{"method": "x"}}, {request}]"#);
        let mut messages: Value = serde_json::from_str(&batch).unwrap();
        note_field_order(&mut messages, batch.as_bytes());
        assert_eq!(noted_field_order(&messages[1]["params"]), ["z", "a", "m"]);

        let asking = format!(
            r#"{{"id": 1, "result": {{"inputRequests": {{"q": {{"method": "elicitation/create", "params": {form}}}}}}}}}"#
        );
        let message: Value = serde_json::from_slice(&with_field_order(asking.as_bytes())).unwrap();
        assert_eq!(noted_field_order(&message["result"]["inputRequests"]["q"]["params"]), ["z", "a", "m"]);
    }

    #[test]
    fn nothing_else_is_touched() {
        for text in [
            r#"{"id":1,"result":{"structuredContent":{"requestedSchema":{"properties":{"b":1,"a":2}}}}}"#,
            r#"{"id":1,"method":"other","params":{"requestedSchema":{"properties":{"b":1,"a":2}}}}"#,
            r#"{"id":1,"method":"elicitation/create","params":{"requestedSchema":{"properties":7}}}"#,
            r#"{"id":1,"method":"elicitation/create","params":{"_meta":7,"requestedSchema":{"properties":{"b":1}}}}"#,
            r#"{"id":1,"method":7,"params":[{"requestedSchema":1}],"result":[]}"#,
            r#"["requestedSchema"]"#,
            r#"["elicitation/create",{"requestedSchema":{"properties":{"b":1}}},null]"#,
            r#"[["elicitation/create",{"requestedSchema":{"properties":{"b":1}}},null]]"#,
            r#"[{"method":"elicitation/create","params":[{"properties":{"b":1}}],"x":{"requestedSchema":1}}]"#,
            r#"{"result":[{"q":["elicitation/create",[[{"b":1}]]],"requestedSchema":1}]}"#,
        ] {
            let before: Value = serde_json::from_str(text).unwrap();
            let mut after = before.clone();
            note_field_order(&mut after, text.as_bytes());
            assert_eq!(after, before, "{text}");
        }
        assert_eq!(
            *with_field_order(br#"{"requestedSchema": "#),
            *br#"{"requestedSchema": "#,
            "no JSON stays what it is"
        );
        let many: Vec<String> = (0..500).map(|n| format!(r#""f{n}":1"#)).collect();
        let many = format!(
            r#"{{"method":"elicitation/create","params":{{"requestedSchema":{{"properties":{{{}}}}}}}}}"#,
            many.join(",")
        );
        assert_eq!(order_in(&many).len(), FORM_FIELDS_MAX + 1);
    }
}
