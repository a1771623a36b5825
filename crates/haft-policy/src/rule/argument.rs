//! Argument rules, `Tool(argument:value)`: top-level fields, and nested fields with dots between the names.
//!
//! The input is matched as the model sent it. An absent argument never matches. For a list every element is
//! compared, also for a list on the path to a nested argument: deny and ask rules apply if one element
//! matches, allow rules only if all match. The same holds for the [spellings](super::spelling) of a text.
//! Numbers are compared by value: `1.0` is `1`.

use serde_json::Value;

use super::fold_names::fold_name;
use super::pattern::{IndexedPattern, WildcardPattern};
use super::spelling;

/// The argument and the value that a rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArgumentSpec {
    pub(super) name: String,
    pub(super) value: WildcardPattern,
}

/// How many of an argument's values have to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequiredMatches {
    One,
    All,
}

impl ArgumentSpec {
    /// Parses `name:value`, or returns `None` for another form.
    pub(super) fn parse(text: &str) -> Option<ArgumentSpec> {
        let (name, value) = text.split_once(':')?;
        let (name, value) = (name.trim(), value.trim());
        let plain = |c: char| c.is_alphanumeric() || "_-.$".contains(c);
        let named = !name.is_empty() && name.chars().all(plain);
        named.then(|| ArgumentSpec { name: name.to_owned(), value: WildcardPattern::escaped(value) })
    }

    pub(super) fn matches(&self, input: &Value, needs: RequiredMatches) -> bool {
        let mut values = Vec::new();
        // A field name may contain a dot, so both readings count.
        input.get(&self.name).into_iter().for_each(|place| collect_scalars(place, &mut values));
        if let Some((first, rest)) = self.name.split_once('.')
            && let Some(place) = input.get(first)
        {
            collect_nested(place, rest, &mut values);
        }
        let matches = |value: &Option<&Value>| value.is_some_and(|value| self.is_met(value, needs));
        match needs {
            RequiredMatches::One => values.iter().any(matches),
            RequiredMatches::All => !values.is_empty() && values.iter().all(matches),
        }
    }

    fn is_met(&self, value: &Value, needs: RequiredMatches) -> bool {
        match (value, needs) {
            (Value::String(text), RequiredMatches::One) => {
                let folded = self.value.map(fold_name);
                self.value.matches(text)
                    || spelling::all_spellings(text).iter().any(|text| folded.matches(text))
            }
            (Value::String(text), RequiredMatches::All) => {
                let stays = || spelling::going_back(text).is_none_or(|end| self.value.matches(&end));
                self.value.matches(text) && stays()
            }
            (Value::Number(number), _) => {
                let number = number.to_string();
                let same =
                    |rule: &str| parse_decimal(rule).is_some_and(|rule| Some(rule) == parse_decimal(&number));
                self.value.matches(&number) || self.value.exact().is_some_and(same)
            }
            (Value::Bool(value), _) => self.value.matches(if *value { "true" } else { "false" }),
            _ => false,
        }
    }
}

/// Collects the values of a nested argument. If a list is on the path, a missing value is collected as
/// `None`, so that "all elements match" fails.
fn collect_nested<'v>(place: &'v Value, names: &str, into: &mut Vec<Option<&'v Value>>) {
    match place {
        Value::Object(fields) => {
            // A field name may contain dots here too.
            let whole = fields.get(names);
            whole.into_iter().for_each(|value| collect_scalars(value, into));
            let inner = names.split_once('.').and_then(|(first, rest)| Some((fields.get(first)?, rest)));
            if let Some((inner, rest)) = inner {
                collect_nested(inner, rest, into);
            }
        }
        Value::Array(items) => {
            for item in items {
                let before = into.len();
                collect_nested(item, names, into);
                if into.len() == before {
                    into.push(None);
                }
            }
        }
        _ => {}
    }
}

/// Collects a scalar or the scalars of a list. Values without a text are skipped.
fn collect_scalars<'v>(value: &'v Value, into: &mut Vec<Option<&'v Value>>) {
    match value {
        Value::String(_) | Value::Bool(_) | Value::Number(_) => into.push(Some(value)),
        Value::Array(items) => items.iter().for_each(|item| match item {
            Value::Array(_) => into.push(None),
            item => collect_scalars(item, into),
        }),
        Value::Null | Value::Object(_) => into.push(None),
    }
}

/// The canonical form of a decimal number: its sign, its digits without leading and trailing zeros, and the
/// exponent. Nothing is rounded, so two large numbers that differ in the last digit differ.
fn parse_decimal(text: &str) -> Option<(bool, String, i64)> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (rest, 0),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_number =
        !whole.is_empty() && [whole, part].iter().all(|text| text.bytes().all(|b| b.is_ascii_digit()));
    if !is_number {
        return None;
    }
    let digits = format!("{whole}{part}");
    let kept = digits.trim_end_matches('0');
    let power = i64::from(exponent) - i64::try_from(part.len()).ok()?
        + i64::try_from(digits.len() - kept.len()).ok()?;
    match kept.trim_start_matches('0') {
        "" => Some((false, String::new(), 0)),
        kept => Some((negative, kept.to_owned(), power)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_compared_with_what_the_model_sent() {
        let check = |rule: &str, input: Value, one: bool, all: bool| {
            let spec = ArgumentSpec::parse(rule).unwrap();
            let got =
                (spec.matches(&input, RequiredMatches::One), spec.matches(&input, RequiredMatches::All));
            assert_eq!(got, (one, all), "{rule} on {input}");
        };
        check("model:opus", json!({"model": "opus"}), true, true);
        check("model : opus", json!({"model": "opus"}), true, true);
        check("model:o*", json!({"model": "opus"}), true, true);
        check("model:opus", json!({"model": "opus2"}), false, false);
        check("model:*", json!({}), false, false);
        // Other spellings match deny and ask rules, but not allow rules.
        check("model:opus", json!({"model": "Opus"}), true, false);
        check("p:/a/*", json!({"p": "/a/b"}), true, true);
        check("p:/a/*", json!({"p": "/a/../a/b"}), true, true);
        check("p:/a/*", json!({"p": "/a/../etc"}), true, false);
        check("p:/a/*", json!({"p": "/x/../a/b"}), true, false);
        check("p:/a/*", json!({"p": "/%61/b"}), true, false);
        check("p:/a/*", json!({"p": "/x"}), false, false);
        check("p:*", json!({"p": "../.."}), true, true);
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
        // A list on the path.
        check("a.b:x", json!({"a": [{"b": "x"}, {"b": "x"}]}), true, true);
        check("a.b:x", json!({"a": [{"b": "y"}, {"b": "x"}]}), true, false);
        check("a.b:x", json!({"a": [{"b": "x"}, {}]}), true, false);
        check("a.b:x", json!({"a": [{"b": "y"}, 1]}), false, false);
        check("a.b:x", json!({"a": []}), false, false);
        check("a.b.c:x", json!({"a": [{"b": [{"c": "x"}, {"c": ["x", "y"]}]}]}), true, false);
        check("a.b.c:x", json!({"a": {"b.c": "x"}}), true, true);
        check("a.b:x", json!({"a": [[{"b": "x"}]]}), true, true);
        // Numbers are compared by value.
        check("n:1", json!({"n": 1.0}), true, true);
        check("n:1.0", json!({"n": 1}), true, true);
        check("n:1000", json!({"n": 1e3}), true, true);
        check("n:1e-3", json!({"n": 0.001}), true, true);
        check("n:0", json!({"n": -0.0}), true, true);
        check("n:-1", json!({"n": 1}), false, false);
        check("n:1", json!({"n": 1.5}), false, false);
        check("n:9007199254740993", json!({"n": 9007199254740992_i64}), false, false);
        check("n:1.0", json!({"n": "1"}), false, false);
        check("n:1*", json!({"n": 15}), true, true);
        check("url:http://x*", json!({"url": "http://x.y"}), true, true);
    }

    #[test]
    fn other_texts_are_no_argument() {
        for text in ["a b:c", ":c", "abc", "", "a/b:c", "*:c"] {
            assert_eq!(ArgumentSpec::parse(text), None, "{text}");
        }
    }
}
