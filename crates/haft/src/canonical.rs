//! JSON with one spelling: keys sorted by bytes, no spaces.
//!
//! Digests and definitions must not depend on the order in which a map happens to keep its keys.

use std::fmt::Write;

use serde_json::Value;

/// The one spelling of a value.
pub fn to_string(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| key.as_str());
            text.push('{');
            for (at, (key, value)) in fields.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_canonical(&Value::String(key.clone()), text);
                text.push(':');
                write_canonical(value, text);
            }
            text.push('}');
        }
        scalar => {
            let _ = write!(text, "{scalar}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_at_every_depth() {
        let value = serde_json::json!({"b": [{"d": 1, "c": "x\""}], "a": null});
        assert_eq!(to_string(&value), r#"{"a":null,"b":[{"c":"x\"","d":1}]}"#);
    }
}
