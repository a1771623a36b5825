//! Arguments of a call in `Tool(argument:value)`: top-level fields, and nested ones with dots between the names.
//!
//! The input is the one that the model sent. An absent argument never matches. Of a list every element counts: one is
//! enough to stop a call, all are needed to let it through.

use serde_json::Value;

use super::pattern::{Shape, Wild};

/// An argument and its value as a rule writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArgumentSpec {
    pub(super) name: String,
    pub(super) value: Wild,
}

/// What has to match where an argument holds several values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    One,
    All,
}

impl ArgumentSpec {
    /// Reads `name:value`; none if it isn't of that form.
    pub(super) fn parse(text: &str) -> Option<ArgumentSpec> {
        let (name, value) = text.split_once(':')?;
        let (name, value) = (name.trim(), value.trim());
        let plain = |c: char| c.is_alphanumeric() || "_-.$".contains(c);
        let named = !name.is_empty() && name.chars().all(plain);
        named.then(|| ArgumentSpec { name: name.to_owned(), value: Wild::escaped(value) })
    }

    pub(super) fn matches(&self, input: &Value, needs: Needs) -> bool {
        // A field may have a dot in its own name; then both readings count.
        let mut places = [input.get(&self.name), None];
        if self.name.contains('.') {
            places[1] = self.name.split('.').try_fold(input, |value, name| value.as_object()?.get(name));
        }
        let mut values = Vec::new();
        places.into_iter().flatten().for_each(|place| scalars(place, &mut values));
        let matches =
            |value: &Option<String>| value.as_deref().is_some_and(|value| self.value.matches(value));
        match needs {
            Needs::One => values.iter().any(matches),
            Needs::All => !values.is_empty() && values.iter().all(matches),
        }
    }
}

/// A scalar as text; nothing for what has no text.
fn scalars(value: &Value, into: &mut Vec<Option<String>>) {
    match value {
        Value::String(text) => into.push(Some(text.clone())),
        Value::Bool(_) | Value::Number(_) => into.push(Some(value.to_string())),
        Value::Array(items) => items.iter().for_each(|item| match item {
            Value::Array(_) => into.push(None),
            item => scalars(item, into),
        }),
        Value::Null | Value::Object(_) => into.push(None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_compared_as_the_model_sent_them() {
        let check = |rule: &str, input: Value, one: bool, all: bool| {
            let spec = ArgumentSpec::parse(rule).unwrap();
            let got = (spec.matches(&input, Needs::One), spec.matches(&input, Needs::All));
            assert_eq!(got, (one, all), "{rule} on {input}");
        };
        check("model:opus", json!({"model": "opus"}), true, true);
        check("model : opus", json!({"model": "opus"}), true, true);
        check("model:o*", json!({"model": "opus"}), true, true);
        check("model:opus", json!({"model": "opus2"}), false, false);
        check("model:*", json!({}), false, false);
        check("on:true", json!({"on": true}), true, true);
        check("n:5", json!({"n": 5}), true, true);
        check("n:null", json!({"n": null}), false, false);
        check("a.b:x", json!({"a": {"b": "x"}}), true, true);
        check("a.b:x", json!({"a.b": "x"}), true, true);
        check("a.b:x", json!({"a.b": "y", "a": {"b": "x"}}), true, false);
        check("a:x", json!({"a": ["x", "y"]}), true, false);
        check("a:x", json!({"a": ["x", "x"]}), true, true);
        check("a:*", json!({"a": ["x", {"b": 1}]}), true, false);
        check("a:*", json!({"a": []}), false, false);
        check("a:*", json!({"a": {"b": 1}}), false, false);
        check("url:http://x*", json!({"url": "http://x.y"}), true, true);
    }

    #[test]
    fn other_texts_are_no_argument() {
        for text in ["a b:c", ":c", "abc", "", "a/b:c", "*:c"] {
            assert_eq!(ArgumentSpec::parse(text), None, "{text}");
        }
    }
}
