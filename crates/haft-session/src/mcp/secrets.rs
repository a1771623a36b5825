//! Masks secrets in a server's command line and address.
//!
//! Users write keys into arguments, and paste lists of servers into public questions. So a value that is
//! named like a key, or looks like one, is masked where a server is listed or its log is shown. This is a
//! heuristic and no guarantee. The approval of a server shows all of it.

use haft_policy::settings::{McpServer, McpTransport};

/// The placeholder of a secret.
const LEFT_OUT: &str = "…";
/// Words in the names of secrets, and prefixes and suffixes of such words.
const NAMES: [&str; 7] = ["key", "pwd", "auth", "bearer", "cookie", "pat", "authorization"];
const BEGIN: [&str; 4] = ["secret", "password", "passwd", "credential"];
const END: [&str; 5] = ["token", "secret", "password", "apikey", "accesskey"];
/// Prefixes of the keys of well-known vendors.
const BEGINNINGS: [&str; 13] = [
    "sk-",
    "pk-",
    "rk_",
    "sk_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "eyJ",
];
/// The minimum length of a word without a known form to count as a key.
const KEY_CHARS_MIN: usize = 32;
/// The minimum length of a value that can be distinguished from other text.
const VALUE_CHARS_MIN: usize = 8;

/// Masks likely secrets in arguments. Variables are kept.
pub(crate) fn mask_arguments(args: &[String]) -> Vec<String> {
    let mut of_before = false;
    let mut mask = |arg: &String| {
        let is_value = std::mem::take(&mut of_before);
        if is_variable(arg) {
            return arg.clone();
        }
        if is_value && !arg.starts_with('-') {
            return LEFT_OUT.to_owned();
        }
        if arg.contains("://") {
            return match arg.split_once('=').filter(|(name, _)| !name.contains("://")) {
                Some((name, url)) => format!("{name}={}", without_secrets(url)),
                None => without_secrets(arg),
            };
        }
        if let Some((name, value)) = arg.split_once(['=', ':']).filter(|(name, _)| is_name(name)) {
            let between = &arg[name.len()..=name.len()];
            return if value.is_empty() || is_variable(value) || !(is_secret(name) || is_key(value)) {
                arg.clone()
            } else {
                format!("{name}{between}{LEFT_OUT}")
            };
        }
        of_before = arg.starts_with('-') && is_secret(arg);
        if is_key(arg) { LEFT_OUT.to_owned() } else { arg.clone() }
    };
    args.iter().map(&mut mask).collect()
}

fn is_variable(text: &str) -> bool {
    text.starts_with("${") && text.ends_with('}')
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// Returns whether a value with this name is a secret: one of the words in the name says so.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| {
        NAMES.contains(&word)
            || BEGIN.iter().any(|begin| word.starts_with(begin))
            || END.iter().any(|end| word.ends_with(end))
    })
}

/// Returns whether a word looks like a key: it has a known prefix, or is long and has only characters that
/// keys have.
fn is_key(word: &str) -> bool {
    if word.contains(char::is_whitespace) {
        return word.to_ascii_lowercase().starts_with("bearer ");
    }
    let known =
        BEGINNINGS.iter().any(|begin| word.starts_with(begin) && word.len() >= begin.len() + VALUE_CHARS_MIN);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '=');
    let any = |of: fn(&char) -> bool| word.chars().any(|c| of(&c));
    let long = word.len() >= KEY_CHARS_MIN
        && !word.starts_with('-')
        && word.chars().all(plain)
        && any(char::is_ascii_digit)
        && any(char::is_ascii_alphabetic);
    known || long
}

/// Removes user, password and query values from an address. Variables are kept.
pub(crate) fn without_secrets(url: &str) -> String {
    let (start, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let (rest, fragment) = rest.split_once('#').map_or((rest, ""), |(rest, _)| (rest, "#…"));
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => authority.to_owned(),
    };
    let pair = |pair: &str| match pair.split_once('=') {
        Some((_, value)) if value.is_empty() || (value.starts_with("${") && value.ends_with('}')) => {
            pair.to_owned()
        }
        Some((name, _)) => format!("{name}=…"),
        None => "…".to_owned(),
    };
    let query = query.map(|query| format!("?{}", query.split('&').map(pair).collect::<Vec<_>>().join("&")));
    format!("{start}{authority}{path}{}{fragment}", query.unwrap_or_default())
}

/// Returns the server's configured values that may be secrets: those of its variables and headers, and the
/// masked arguments.
pub(crate) fn configured_secrets(server: &McpServer) -> Vec<String> {
    let mut values: Vec<String> = match &server.transport {
        McpTransport::Stdio { args, env, .. } => {
            let shown = mask_arguments(args);
            let hidden = args.iter().zip(&shown).filter(|(arg, shown)| arg != shown);
            let values = hidden.map(|(arg, shown)| {
                let kept = shown.find(LEFT_OUT).unwrap_or_default();
                arg[kept.min(arg.len())..].to_owned()
            });
            env.values().cloned().chain(values).collect()
        }
        McpTransport::Remote { headers, .. } => headers.values().cloned().collect(),
    };
    let expanded = |value: &String| match value.strip_prefix("${").and_then(|name| name.strip_suffix('}')) {
        Some(name) => std::env::var(name.split(":-").next().unwrap_or(name)).ok(),
        None => Some(value.clone()),
    };
    let bare = |value: String| value.strip_prefix("Bearer ").unwrap_or(&value).trim().to_owned();
    values = values.iter().filter_map(expanded).map(bare).collect();
    values.retain(|value| value.chars().count() >= VALUE_CHARS_MIN);
    // The longest first: one may be a part of another.
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    values
}

/// Replaces these values in a text.
pub(crate) fn mask_secrets(text: &str, values: &[String]) -> String {
    values.iter().fold(text.to_owned(), |text, value| text.replace(value.as_str(), LEFT_OUT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_what_lets_somebody_in() {
        for (url, shown) in [
            (
                "https://me:pw@h.example:8/mcp?token=abc&x=${KEY}&raw#frag",
                "https://…@h.example:8/mcp?token=…&x=${KEY}&…#…",
            ),
            ("https://a@b:p@h.example", "https://…@h.example"),
            ("https://h.example/@me?q=", "https://h.example/@me?q="),
            ("${BASE}/mcp?k=v", "${BASE}/mcp?k=…"),
            ("wss://h.example/mcp", "wss://h.example/mcp"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }

    fn check(args: &str, shown: &str) {
        let words = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(mask_arguments(&words(args)), words(shown));
    }

    #[test]
    fn arguments_are_shown_without_what_is_called_a_secret() {
        check("--token|abc|x", "--token|…|x");
        check("--api-key=abc|--verbose|-p|7", "--api-key=…|--verbose|-p|7");
        check("-e|GITHUB_TOKEN=abc|-e|MODE=fast", "-e|GITHUB_TOKEN=…|-e|MODE=fast");
        check("--apikey|abc|--monkey|see|--max-tokens=9", "--apikey|…|--monkey|see|--max-tokens=9");
        check("--token|${TOKEN}|--password=${PW}", "--token|${TOKEN}|--password=${PW}");
        check("--token|--verbose", "--token|--verbose");
        check("Authorization: Bearer abc|X-Mode: fast", "Authorization:…|X-Mode: fast");
        check("postgres://me:pw@h/db|--url=https://h/?k=v", "postgres://…@h/db|--url=https://h/?k=…");
    }

    #[test]
    fn arguments_are_shown_without_what_looks_like_a_secret() {
        check("sk-abcdefgh12|ghp_abcdefghij|AKIAABCDEFGH", "…|…|…");
        check("0123456789abcdef0123456789abcdef", "…");
        check("bearer abc", "…");
        let plain = "-y|@scope/server-of-things@1.2.3|/srv/data/a-long-path/with/many/folders|--keyboard|us|src/path.py";
        check(plain, plain);
    }

    #[test]
    fn what_a_server_was_given_is_not_in_its_log() {
        let text = mask_secrets("start abcdefgh-more end", &["abcdefgh-more".into(), "abcdefgh".into()]);
        assert_eq!(text, "start … end");
    }
}
