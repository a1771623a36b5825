//! What a refusal says: the header `WWW-Authenticate` of an answer.

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

use crate::limits::{CHALLENGE_CHARS_MAX, SCOPES_MAX};

/// A refusal, read. Of several, those for bearers and for proofs of possession count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AuthChallenge {
    /// Whether it wants tokens that come with a proof.
    pub(crate) wants_proof: bool,
    /// Where the server describes itself.
    pub(crate) resource_metadata: Option<String>,
    /// What is needed for what was asked.
    pub(crate) scopes: Option<Vec<String>>,
    /// The kind of refusal.
    pub(crate) error: Option<String>,
    /// The same in words.
    pub(crate) words: Option<String>,
}

impl AuthChallenge {
    pub(crate) fn read(headers: &HeaderMap) -> AuthChallenge {
        let mut challenge = AuthChallenge::default();
        for value in headers.get_all(WWW_AUTHENTICATE) {
            let Ok(text) = value.to_str() else { continue };
            let text = text.get(..CHALLENGE_CHARS_MAX).unwrap_or(text);
            challenge.take_in(text);
        }
        challenge
    }

    fn take_in(&mut self, text: &str) {
        let mut rest = text;
        let mut counts = false;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            let end = rest.find(|c: char| !is_token(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            if word.is_empty() {
                // Something that is no challenge: there is no telling where the next one begins.
                return;
            }
            let spaced = after.trim_start_matches([' ', '\t']);
            let Some(value) = spaced.strip_prefix('=') else {
                counts = word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("dpop");
                self.wants_proof |= word.eq_ignore_ascii_case("dpop");
                rest = after;
                continue;
            };
            let (value, after) = read_value(value.trim_start_matches([' ', '\t']));
            rest = after;
            if counts {
                self.set(&word.to_ascii_lowercase(), value);
            }
        }
    }

    fn set(&mut self, name: &str, value: String) {
        match name {
            "resource_metadata" => _ = self.resource_metadata.get_or_insert(value),
            "error" => _ = self.error.get_or_insert(value),
            "error_description" => _ = self.words.get_or_insert(value),
            "scope" => _ = self.scopes.get_or_insert_with(|| split_scopes(&value)),
            _ => {}
        }
    }
}

/// The scopes of a text, each once.
pub(crate) fn split_scopes(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for scope in text.split_ascii_whitespace().take(SCOPES_MAX) {
        if !all.iter().any(|known| known == scope) {
            all.push(scope.to_owned());
        }
    }
    all
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

/// A value, quoted or not, and what comes after it.
fn read_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, character)| character)),
            _ => value.push(character),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> AuthChallenge {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
        }
        AuthChallenge::read(&headers)
    }

    #[test]
    fn challenges_are_read_in_every_form() {
        let one =
            read(&[r#"Bearer scope="a b a", resource_metadata="https://x/m", error="insufficient_scope""#]);
        assert_eq!(one.scopes.unwrap(), ["a", "b"]);
        assert_eq!(
            (one.resource_metadata.as_deref(), one.error.as_deref()),
            (Some("https://x/m"), Some("insufficient_scope"))
        );
        assert!(!one.wants_proof);

        let two = read(&[r#"Basic realm="scope=\"x\", Bearer error=z", bearer Error=y , DPoP algs="ES256""#]);
        assert_eq!((two.error.as_deref(), two.scopes, two.wants_proof), (Some("y"), None, true));

        let three =
            read(&["Negotiate", "Bearer", r#"Bearer error_description="a \"quoted\" word, and more""#]);
        assert_eq!(three.words.as_deref(), Some(r#"a "quoted" word, and more"#));

        for odd in
            ["", "=", "Bearer =", "Bearer scope=", r#"Bearer scope=""#, "Bearer ,,,", "\"", "Basic abc=="]
        {
            assert_eq!(read(&[odd]).error, None, "{odd}");
        }
    }
}
