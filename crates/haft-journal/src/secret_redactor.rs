//! Redaction: replaces secrets from the settings by their names before records are written.
//!
//! Only text values are changed, not keys, so records stay valid JSON. A text may contain JSON
//! itself, such as the call arguments of some providers, so the JSON-escaped form of each secret is
//! replaced too.

use aho_corasick::AhoCorasick;
use serde_json::Value;

use crate::limits::SECRET_CHARS_MIN;

/// Replaces secret values in records.
#[derive(Clone, Default)]
pub struct SecretRedactor {
    finder: Option<AhoCorasick>,
    names: Vec<String>,
    /// Matches the secrets in encoded JSON, where texts are escaped once more.
    in_json: Option<AhoCorasick>,
}

impl std::fmt::Debug for SecretRedactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("names", &self.names).finish()
    }
}

impl SecretRedactor {
    /// Creates a redactor that replaces values by names. Values that are too short are ignored,
    /// because they would match ordinary text.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> SecretRedactor {
        let (mut names, mut values) = (Vec::new(), Vec::new());
        // Tools that number lines split a multi-line key, so each line is a secret too. Header and
        // footer lines are not.
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

    /// Redacts all texts of a record, which is JSON without its opening brace. Most records contain
    /// no secret and are only scanned.
    pub(crate) fn redact_json(&self, json: Vec<u8>) -> Vec<u8> {
        let Some(in_json) = &self.in_json else { return json };
        if !in_json.is_match(&json) {
            return json;
        }
        let whole: Vec<u8> = [b"{", &json[..]].concat();
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(&whole) else { return json };
        // The kind must stay first.
        let kind = fields.remove("is").unwrap_or_default();
        let mut value = Value::Object(fields);
        self.redact(&mut value);
        let rest = value.to_string();
        let comma = if rest.len() > 2 { "," } else { "" };
        format!("\"is\":{kind}{comma}{}", &rest[1..]).into_bytes()
    }

    /// Redacts all texts of a value.
    pub(crate) fn redact(&self, value: &mut Value) {
        let Some(finder) = &self.finder else { return };
        match value {
            Value::String(text) if finder.is_match(text.as_str()) => {
                *text = finder.replace_all(text, &self.names);
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.redact(field)),
            _ => {}
        }
    }
}

/// Returns the text in JSON-escaped form.
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
        redactor.redact(&mut value);
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
        let cleaned = redactor.redact_json(line(&value));
        redactor.redact(&mut value);
        let clean = json!({"KEY1234": ["[redacted: KEY]", "x [redacted: LONG] y", "1234"], "changes": "{\"a\":\"[redacted: KEY]\"}"});
        assert_eq!(value, clean);
        assert_eq!(String::from_utf8(cleaned), String::from_utf8(line(&value)));
        let plain = line(&json!({"text": "nothing of it"}));
        assert_eq!(redactor.redact_json(plain.clone()), plain);
    }
}
