//! Secrets that settings name are not kept: each is replaced by its name wherever it stands.
//!
//! The replacement is made in texts, not in keys, and before they become lines: what a line is made of stays readable. A text
//! may be JSON itself, as arguments of calls are for some providers, so the form that JSON gives a value is looked for too.

use aho_corasick::AhoCorasick;
use serde_json::Value;

use crate::limits::SECRET_CHARS_MIN;

/// Finds the values that are not to be kept.
#[derive(Clone, Default)]
pub struct Redactor {
    finder: Option<AhoCorasick>,
    names: Vec<String>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("names", &self.names).finish()
    }
}

impl Redactor {
    /// Replaces these values by these names. Values that are too short to be told from other text are left out.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Redactor {
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for (name, value) in secrets {
            if value.chars().count() >= SECRET_CHARS_MIN {
                let name = format!("[redacted: {}]", name.replace(['"', '\\'], ""));
                let json = serde_json::to_string(&value).unwrap_or_default();
                let json = json[1..json.len() - 1].to_owned();
                if json != value {
                    values.push(json);
                    names.push(name.clone());
                }
                values.push(value);
                names.push(name);
            }
        }
        if values.is_empty() {
            return Redactor::default();
        }
        let kind = aho_corasick::MatchKind::LeftmostLongest;
        let finder = AhoCorasick::builder().match_kind(kind).build(&values).ok();
        Redactor { finder, names }
    }

    /// Whether there is anything to find.
    pub(crate) fn is_empty(&self) -> bool {
        self.finder.is_none()
    }

    /// Takes secrets out of every text.
    pub(crate) fn clean(&self, value: &mut Value) {
        let Some(finder) = &self.finder else { return };
        match value {
            Value::String(text) if finder.is_match(text.as_str()) => {
                *text = finder.replace_all(text, &self.names);
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.clean(field)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_replaced_by_their_names() {
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let redactor = Redactor::new([
            named("KEY", "sk-\"quoted\""),
            named("LONG", "sk-\"quoted\"-more"),
            named("PIN", "1234"),
        ]);
        let mut value = json!({"KEY1234": ["sk-\"quoted\"", "x sk-\"quoted\"-more y", "1234"], "changes": "{\"a\":\"sk-\\\"quoted\\\"\"}"});
        redactor.clean(&mut value);
        let clean = json!({"KEY1234": ["[redacted: KEY]", "x [redacted: LONG] y", "1234"], "changes": "{\"a\":\"[redacted: KEY]\"}"});
        assert_eq!(value, clean);
    }
}
