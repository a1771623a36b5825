//! Secrets that settings name are not kept: each is replaced by its name wherever it stands.
//!
//! The replacement is made in the JSON of a line, so the secrets are looked for in the form that JSON gives them.

use aho_corasick::AhoCorasick;

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
                let json = serde_json::to_string(&value).unwrap_or_default();
                values.push(json[1..json.len() - 1].to_owned());
                names.push(format!("[redacted: {}]", name.replace(['"', '\\'], "")));
            }
        }
        if values.is_empty() {
            return Redactor::default();
        }
        let kind = aho_corasick::MatchKind::LeftmostLongest;
        let finder = AhoCorasick::builder().match_kind(kind).build(&values).ok();
        Redactor { finder, names }
    }

    /// The same line without secrets.
    pub(crate) fn clean(&self, json: Vec<u8>) -> Vec<u8> {
        match &self.finder {
            Some(finder) if finder.is_match(&json) => finder.replace_all_bytes(&json, &self.names),
            _ => json,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_replaced_by_their_names() {
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let redactor = Redactor::new([
            named("KEY", "sk-\"quoted\""),
            named("LONG", "sk-\"quoted\"-more"),
            named("PIN", "1234"),
        ]);
        let text = serde_json::to_vec(&["sk-\"quoted\"", "x sk-\"quoted\"-more y", "1234"]).unwrap();
        let clean = String::from_utf8(redactor.clean(text)).unwrap();
        assert_eq!(clean, r#"["[redacted: KEY]","x [redacted: LONG] y","1234"]"#);
        assert_eq!(Redactor::default().clean(b"x".to_vec()), b"x");
    }
}
