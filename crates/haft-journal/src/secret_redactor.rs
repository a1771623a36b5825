//! Secrets that settings name are not kept: each is replaced by its name wherever it stands.
//!
//! The replacement is made in texts, not in keys, and before they become lines: what a line is made of stays readable. A text
//! may be JSON itself, as arguments of calls are for some providers, so the form that JSON gives a value is looked for too.

use aho_corasick::AhoCorasick;
use serde_json::Value;

use crate::limits::SECRET_CHARS_MIN;

/// Finds the values that are not to be kept.
#[derive(Clone, Default)]
pub struct SecretRedactor {
    finder: Option<AhoCorasick>,
    names: Vec<String>,
    /// Finds the same in JSON, where texts are escaped once more.
    in_json: Option<AhoCorasick>,
}

impl std::fmt::Debug for SecretRedactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("names", &self.names).finish()
    }
}

impl SecretRedactor {
    /// Replaces these values by these names. Values that are too short to be told from other text are left out.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> SecretRedactor {
        let (mut names, mut values) = (Vec::new(), Vec::new());
        // A key of several lines is shown line by line by those who number them; its first and last line are no secret.
        let lines = |(name, value): &(String, String)| -> Vec<(String, String)> {
            let several = value.trim().contains('\n');
            let lines = value.lines().map(str::trim).filter(|line| several && !line.starts_with("-----"));
            lines.map(|line| (name.clone(), line.to_owned())).collect()
        };
        for (name, value) in secrets.into_iter().flat_map(|secret| {
            let lines = lines(&secret);
            std::iter::once(secret).chain(lines)
        }) {
            if value.chars().count() >= SECRET_CHARS_MIN {
                let name = format!("[redacted: {}]", name.replace(['"', '\\'], ""));
                let json = escaped(&value);
                if json != value {
                    values.push(json);
                    names.push(name.clone());
                }
                values.push(value);
                names.push(name);
            }
        }
        if values.is_empty() {
            return SecretRedactor::default();
        }
        let kind = aho_corasick::MatchKind::LeftmostLongest;
        let finder = AhoCorasick::builder().match_kind(kind).build(&values).ok();
        let in_json = AhoCorasick::new(values.iter().map(|value| escaped(value))).ok();
        SecretRedactor { finder, names, in_json }
    }

    /// Takes secrets out of every text of a record, which is JSON without its first brace. Most have none, and are only
    /// looked through.
    pub(crate) fn clean_json(&self, json: Vec<u8>) -> Vec<u8> {
        let Some(in_json) = &self.in_json else { return json };
        if !in_json.is_match(&json) {
            return json;
        }
        let whole: Vec<u8> = [b"{", &json[..]].concat();
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(&whole) else { return json };
        // The kind stays first.
        let kind = fields.remove("is").unwrap_or_default();
        let mut value = Value::Object(fields);
        self.clean(&mut value);
        let rest = value.to_string();
        let comma = if rest.len() > 2 { "," } else { "" };
        format!("\"is\":{kind}{comma}{}", &rest[1..]).into_bytes()
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

/// A text as it stands in JSON.
fn escaped(text: &str) -> String {
    let json = serde_json::to_string(text).unwrap_or_default();
    json.get(1..json.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_of_a_key_are_replaced_one_by_one() {
        let key = "-----BEGIN KEY-----\nAAAABBBB\nCCCCDDDD\n-----END KEY-----\n";
        let redactor = SecretRedactor::new([("PEM".to_owned(), key.to_owned())]);
        let mut value = json!(["1\t-----BEGIN KEY-----\n2\tAAAABBBB\n3\tCCCCDDDD", key]);
        redactor.clean(&mut value);
        let shown = "1\t-----BEGIN KEY-----\n2\t[redacted: PEM]\n3\t[redacted: PEM]";
        assert_eq!(value, json!([shown, "[redacted: PEM]"]));
    }

    #[test]
    fn secrets_are_replaced_by_their_names() {
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let redactor = SecretRedactor::new([
            named("KEY", "sk-\"quoted\""),
            named("LONG", "sk-\"quoted\"-more"),
            named("PIN", "1234"),
        ]);
        let mut value = json!({"KEY1234": ["sk-\"quoted\"", "x sk-\"quoted\"-more y", "1234"], "changes": "{\"a\":\"sk-\\\"quoted\\\"\"}"});
        let line = |value: &Value| format!("\"is\":\"note\",{}", &value.to_string()[1..]).into_bytes();
        let cleaned = redactor.clean_json(line(&value));
        redactor.clean(&mut value);
        let clean = json!({"KEY1234": ["[redacted: KEY]", "x [redacted: LONG] y", "1234"], "changes": "{\"a\":\"[redacted: KEY]\"}"});
        assert_eq!(value, clean);
        assert_eq!(String::from_utf8(cleaned), String::from_utf8(line(&value)));
        let plain = line(&json!({"text": "nothing of it"}));
        assert_eq!(redactor.clean_json(plain.clone()), plain);
    }
}
