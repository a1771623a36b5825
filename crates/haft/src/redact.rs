//! Redaction of secrets in what leaves a session for people and programs: logs, exports, telemetry.
//!
//! Access tokens are recognized by the prefix that their issuer gives them, JSON Web Tokens and private keys
//! by their form, passwords by their place in a URL. A secret without a form of its own, such as a random
//! password, isn't recognized; the journal's redactor replaces those by their values. What goes to a model, a
//! tool or the journal isn't redacted: a resumed request must be the same bytes.

use std::borrow::Cow;

/// A kind of token.
struct TokenForm {
    name: &'static str,
    prefixes: &'static [&'static str],
    /// Fewest characters after the prefix, unless the text ends there.
    chars_min: usize,
    /// Characters of the rest beside letters, digits and `_`.
    extra: &'static [u8],
    /// Whether the prefix may also stand in ordinary words, so that it counts only at the beginning of a
    /// word, and only before at least one digit.
    is_common: bool,
}

impl TokenForm {
    const fn new(name: &'static str, chars_min: usize, prefixes: &'static [&'static str]) -> TokenForm {
        TokenForm { name, prefixes, chars_min, extra: b"-", is_common: false }
    }

    const fn common(self) -> TokenForm {
        TokenForm { is_common: true, ..self }
    }

    const fn with(self, extra: &'static [u8]) -> TokenForm {
        TokenForm { extra, ..self }
    }
}

/// Longer prefixes stand before those that begin like them.
const TOKENS: &[TokenForm] = &[
    TokenForm::new("GitHub token", 16, &["github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"]),
    TokenForm::new(
        "GitLab token",
        12,
        &["glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-", "gloas-"],
    )
    .with(b"-."),
    TokenForm::new("Anthropic key", 12, &["sk-ant-"]),
    TokenForm::new("OpenAI key", 12, &["sk-proj-", "sk-svcacct-", "sk-admin-"]),
    TokenForm::new("API key", 16, &["sk-"]).common(),
    TokenForm::new("Stripe key", 12, &["sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"]),
    TokenForm::new("AWS key id", 16, &["AKIA", "ASIA"]).with(b"").common(),
    TokenForm::new(
        "Slack token",
        8,
        &["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xoxe.", "xoxc-", "xoxd-", "xapp-"],
    )
    .with(b"-.%"),
    TokenForm::new("Google key", 30, &["AIza"]),
    TokenForm::new("Google token", 16, &["ya29."]).with(b"-."),
    TokenForm::new("npm token", 24, &["npm_"]).common(),
    TokenForm::new("PyPI token", 24, &["pypi-AgE"]),
    TokenForm::new("Hugging Face token", 20, &["hf_"]).common(),
    TokenForm::new("DigitalOcean token", 24, &["dop_v1_", "doo_v1_", "dor_v1_"]),
    TokenForm::new("SendGrid key", 30, &["SG."]).with(b"-.").common(),
    TokenForm::new("age key", 30, &["AGE-SECRET-KEY-1"]),
];

/// Fewest characters of the first part of a JSON Web Token, and of the others.
const JWT_HEADER_MIN: usize = 10;
const JWT_PAYLOAD_MIN: usize = 8;
/// The longest label of a PEM block.
const PEM_LABEL_MAX: usize = 64;
/// The longest user name and password in a URL.
const URL_USER_MAX: usize = 256;

/// Replaces secrets in a text by what they are, such as `[redacted: GitHub token]`.
///
/// ```
/// let text = "GH_TOKEN=ghp_abcdefghijklmnopqrstuvwxyz0123456789 gh pr list";
/// assert_eq!(haft::redact::redact_text(text), "GH_TOKEN=[redacted: GitHub token] gh pr list");
/// ```
pub fn redact_text(text: &str) -> Cow<'_, str> {
    redact(text, false)
}

/// The same in serialized JSON, which stays JSON: nothing is replaced across the end of a string.
///
/// ```
/// let json = r#"{"env": "A\nsk-ant-api03-abcdefghijklmnop", "n": 1}"#;
/// assert_eq!(haft::redact::redact_json(json), r#"{"env": "A\n[redacted: Anthropic key]", "n": 1}"#);
/// ```
pub fn redact_json(json: &str) -> Cow<'_, str> {
    redact(json, true)
}

/// The kinds of the secrets in a text, in order.
pub fn find_secrets(text: &str) -> impl Iterator<Item = &'static str> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < text.len() {
            let Some((name, _, end)) = find_secret(text, at, true) else {
                at += 1;
                continue;
            };
            at = end;
            return Some(name);
        }
        None
    })
}

fn redact(text: &str, in_json: bool) -> Cow<'_, str> {
    let mut redacted = String::new();
    let (mut at, mut copied) = (0, 0);
    while at < text.len() {
        let Some((name, start, end)) = find_secret(text, at, in_json) else {
            at += 1;
            continue;
        };
        redacted.push_str(&text[copied..start]);
        redacted.push_str("[redacted: ");
        redacted.push_str(name);
        redacted.push(']');
        (at, copied) = (end, end);
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    redacted.push_str(&text[copied..]);
    Cow::Owned(redacted)
}

/// The secret that begins at a place or is announced there: its name, where it begins and where it ends.
fn find_secret(text: &str, at: usize, in_json: bool) -> Option<(&'static str, usize, usize)> {
    let rest = &text.as_bytes()[at..];
    match rest[0] {
        b'-' => find_private_key(rest, in_json).map(|length| ("private key", at, at + length)),
        b':' => find_url_password(rest).map(|(start, end)| ("password", at + start, at + end)),
        b'B' | b'b' => find_bearer(rest).map(|(start, end)| ("access token", at + start, at + end)),
        b'e' if rest.starts_with(b"eyJ") => find_jwt(rest).map(|length| ("JSON Web Token", at, at + length)),
        first if first.is_ascii_alphabetic() => find_token(text.as_bytes(), at),
        _ => None,
    }
}

fn find_token(bytes: &[u8], at: usize) -> Option<(&'static str, usize, usize)> {
    let rest = &bytes[at..];
    for form in TOKENS {
        let Some(prefix) = form.prefixes.iter().find(|prefix| rest.starts_with(prefix.as_bytes())) else {
            continue;
        };
        let body = &rest[prefix.len()..];
        let length = run_length(body, form.extra);
        // A text that was cut may end in the middle of a token.
        let is_cut = !form.is_common && is_end_of_text(&body[length..]);
        let has_digit = body[..length].iter().any(u8::is_ascii_digit);
        let fits = length >= form.chars_min || is_cut;
        if fits && (!form.is_common || (has_digit && begins_word(bytes, at))) {
            return Some((form.name, at, at + prefix.len() + length));
        }
    }
    None
}

/// How many characters of a token are at the beginning.
fn run_length(bytes: &[u8], extra: &[u8]) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || extra.contains(byte);
    bytes.iter().position(|byte| !is_part(byte)).unwrap_or(bytes.len())
}

fn is_end_of_text(rest: &[u8]) -> bool {
    rest.is_empty() || rest.starts_with("…".as_bytes())
}

/// Whether no word goes on here. An escape of JSON before it ends in a letter or digit and is no part of a
/// word.
fn begins_word(bytes: &[u8], at: usize) -> bool {
    let before = &bytes[..at];
    let is_escape = |length: usize| {
        before.len() >= length && before[before.len() - length] == b'\\' && {
            let escape = &before[before.len() - length + 1..];
            matches!(escape, [b'n' | b'r' | b't' | b'b' | b'f'])
                || (escape[0] == b'u' && escape[1..].iter().all(u8::is_ascii_hexdigit))
        }
    };
    match before.last() {
        Some(last) if last.is_ascii_alphanumeric() || matches!(last, b'_' | b'-') => {
            is_escape(2) || is_escape(6)
        }
        _ => true,
    }
}

/// Three parts in the alphabet of URLs, of which the first two are JSON objects; the third may be missing.
fn find_jwt(rest: &[u8]) -> Option<usize> {
    let header = run_length(rest, b"-");
    if header < JWT_HEADER_MIN {
        return None;
    }
    if is_end_of_text(&rest[header..]) {
        return Some(header);
    }
    let payload = rest[header..].strip_prefix(b".")?;
    let payload_length = run_length(payload, b"-");
    if payload_length < JWT_PAYLOAD_MIN && !is_end_of_text(&payload[payload_length..]) {
        return None;
    }
    Some(header + 1 + run_length(payload, b"-."))
}

/// `-----BEGIN … PRIVATE KEY-----` to its end, or to the end of the text.
fn find_private_key(rest: &[u8], in_json: bool) -> Option<usize> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    let label = rest.strip_prefix(BEGIN)?;
    let label = &label[..label.len().min(PEM_LABEL_MAX)];
    let label_length = find_bytes(label, b"-----")?;
    find_bytes(&label[..label_length], b"PRIVATE KEY")?;
    let body = BEGIN.len() + label_length;
    let limit = if in_json { end_of_string(rest, body) } else { rest.len() };
    let Some(end) = find_bytes(&rest[body..limit], b"-----END ") else { return Some(limit) };
    let end = body + end + b"-----END ".len();
    Some(find_bytes(&rest[end..limit], b"-----").map_or(limit, |dashes| end + dashes + 5))
}

/// Where the quote stands that ends a JSON string.
fn end_of_string(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

/// The password in `://user:password@`.
fn find_url_password(rest: &[u8]) -> Option<(usize, usize)> {
    let user = rest.strip_prefix(b"://")?;
    let user = &user[..user.len().min(URL_USER_MAX)];
    let is_end =
        |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'"' | b'\'' | b'\\' | b'<' | b'`');
    let user = &user[..user.iter().position(is_end).unwrap_or(user.len())];
    let at_sign = user.iter().rposition(|byte| *byte == b'@')?;
    let colon = user[..at_sign].iter().position(|byte| *byte == b':')?;
    // A variable is no password.
    let is_variable = matches!(user[colon + 1..at_sign], [] | [b'$', ..]);
    (!is_variable).then_some((3 + colon + 1, 3 + at_sign))
}

/// The token after `Bearer`.
fn find_bearer(rest: &[u8]) -> Option<(usize, usize)> {
    const BEARER: &[u8] = b"bearer ";
    const CHARS_MIN: usize = 16;
    let scheme = rest.get(..BEARER.len())?;
    let length = run_length(&rest[BEARER.len()..], b"-.~+/=");
    let has_digit = rest[BEARER.len()..][..length].iter().any(u8::is_ascii_digit);
    (scheme.eq_ignore_ascii_case(BEARER) && length >= CHARS_MIN && has_digit)
        .then_some((BEARER.len(), BEARER.len() + length))
}

fn find_bytes(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// `…` stands for what a token has after its prefix.
    fn check(text: &str, expected: &str) {
        let text = text.replace('…', "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5");
        assert_eq!(redact_text(&text), expected, "{text}");
    }

    #[test]
    fn secrets_are_found_in_order() {
        let text = "a ghp_0123456789abcdefghij b https://me:secret@x.io c";
        assert_eq!(find_secrets(text).collect::<Vec<_>>(), ["GitHub token", "password"]);
        assert_eq!(find_secrets("nothing here").next(), None);
    }

    #[test]
    fn tokens_are_recognized_by_their_prefix() {
        for (prefix, name) in
            TOKENS.iter().flat_map(|form| form.prefixes.iter().map(|prefix| (prefix, form.name)))
        {
            check(&format!("a {prefix}… b"), &format!("a [redacted: {name}] b"));
            check(&format!("K={prefix}…\n"), &format!("K=[redacted: {name}]\n"));
            check(&format!("\"{prefix}…\""), &format!("\"[redacted: {name}]\""));
        }
        check("AKIAIOSFODNN7EXAMPLE", "[redacted: AWS key id]");
        check("ghp_…,ghp_…", "[redacted: GitHub token],[redacted: GitHub token]");
        check("Xgithub_pat_11AB…_…", "X[redacted: GitHub token]");
    }

    #[test]
    fn other_text_stays() {
        for text in [
            "task-list-of-the-2nd-desk-in-the-office",
            "a disk-usage-report-2026-11-19-final.txt",
            "hf_ and npm_config_cache=/tmp, sk-learn, AKIA, ghp_ x",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "http://host:8080/a@b https://$USER:$TOKEN@host/ ssh://git@host:22/x",
            "the bearer of this letter, bearer authentication-of-requests",
            "eyJ is how they begin; eyJhbGciOiJ.x y",
            "xoxo-",
        ] {
            assert!(
                matches!(redact_text(text), Cow::Borrowed(same) if same == text),
                "{}",
                redact_text(text)
            );
        }
    }

    #[test]
    fn keys_passwords_and_web_tokens_are_recognized_by_their_form() {
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        check(&format!("t={jwt};"), "t=[redacted: JSON Web Token];");
        check(&format!("Authorization: Bearer {jwt}"), "Authorization: Bearer [redacted: access token]");
        check("authorization: bearer …", "authorization: bearer [redacted: access token]");
        check(
            "git clone https://oauth2:hunter2@host/x.git",
            "git clone https://oauth2:[redacted: password]@host/x.git",
        );
        let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END OPENSSH PRIVATE KEY-----";
        check(&format!("a\n{key}\nb"), "a\n[redacted: private key]\nb");
        check("1\t-----BEGIN PRIVATE KEY-----\n2\tMIIE\n3\tAAAA", "1\t[redacted: private key]");
    }

    #[test]
    fn a_token_that_was_cut_is_one() {
        check("run with ghp_ab", "run with [redacted: GitHub token]");
        assert_eq!(redact_text("glpat-xy… (cut)"), "[redacted: GitLab token]… (cut)");
        check("eyJhbGciOiJI", "[redacted: JSON Web Token]");
    }

    #[test]
    fn json_stays_json() {
        let key = "-----BEGIN RSA PRIVATE KEY-----\n\"MIIE\"\n";
        let json = serde_json::json!({"a": [key, "b"], "AKIAIOSFODNN7EXAMPLE": "x\nAKIAIOSFODNN7EXAMPLE"});
        let redacted: Value = serde_json::from_str(&redact_json(&json.to_string())).unwrap();
        let expected = serde_json::json!(
            {"a": ["[redacted: private key]", "b"], "[redacted: AWS key id]": "x\n[redacted: AWS key id]"}
        );
        assert_eq!(redacted, expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_json_stays_json(parts in proptest::collection::vec(
            prop_oneof![
                Just("-----BEGIN PRIVATE KEY-----".to_owned()), Just("-----END PRIVATE KEY-----".to_owned()),
                Just("ghp_0123456789abcdef0123".to_owned()), Just("sk-0123456789abcdef0123".to_owned()),
                Just("https://a:b@c".to_owned()), Just("\\".to_owned()), Just("\"".to_owned()), ".{0,4}",
            ], 0..12))
        {
            let json = Value::from(parts).to_string();
            let redacted = redact_json(&json);
            prop_assert!(serde_json::from_str::<Value>(&redacted).is_ok(), "{json} became {redacted}");
            prop_assert!(!redacted.contains("0123456789abcdef0123"), "{redacted}");
        }
    }
}
