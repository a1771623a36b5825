//! Failures out of what providers send: their error objects, codes and HTTP statuses.

use serde_json::Value;

use haft_agent::{FailureKind, ModelFailure};

/// Makes a failure of the status, the error code and the message that a provider sent.
pub(crate) fn from_parts(status: Option<u16>, code: &str, message: &str) -> ModelFailure {
    let kind = classify_failure(status, code, message);
    let text = match (message.trim(), code) {
        ("", "") => match status {
            Some(status) => format!("the provider answered {status} without a word"),
            None => "the provider reported an error without a word".to_owned(),
        },
        ("", code) => format!("the provider reported `{code}`"),
        (message, _) => message.to_owned(),
    };
    ModelFailure::new(kind, text).with_status(status)
}

/// Makes a failure of a provider's error object, in any of their forms: the message is a `message` or the
/// value itself, the code is a `code`, a `status` or a `type`, and a numeric `code` is the HTTP status.
pub(crate) fn from_error(status: Option<u16>, error: &Value) -> ModelFailure {
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let number = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let code = ["code", "status", "type"].into_iter().map(text).find(|code| !code.is_empty());
    let message = match (text("message"), error.as_str()) {
        ("", Some(message)) => message,
        (message, _) => message,
    };
    from_parts(status.or(number), code.unwrap_or_default(), message)
}

fn classify_failure(status: Option<u16>, code: &str, message: &str) -> FailureKind {
    let code = code.to_ascii_lowercase();
    let message = message.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| code.contains(part));
    let says = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    // A request that is too large gets smaller in the same way.
    if has(&["context_length_exceeded", "context_window", "exceed_context", "request_too_large"])
        || says(&[
            "prompt is too long",
            "context window",
            "context length",
            "context limit",
            "context size",
            "input token count (",
            "input is too long",
            "reduce the length of the messages",
        ])
    {
        return FailureKind::ContextFull;
    }
    if has(&["insufficient_quota", "billing"]) || says(&["credit balance is too low"]) {
        return FailureKind::Quota;
    }
    if has(&["overloaded", "unavailable"]) {
        return FailureKind::Overloaded;
    }
    if has(&["rate_limit", "resource_exhausted"]) {
        return FailureKind::RateLimited;
    }
    match status {
        Some(400 | 405 | 409 | 413 | 415 | 422) => return FailureKind::BadRequest,
        Some(401 | 403) => return FailureKind::Unauthorized,
        Some(402) => return FailureKind::Quota,
        Some(404) => return FailureKind::NotFound,
        Some(408 | 504) => return FailureKind::TimedOut,
        Some(429) => return FailureKind::RateLimited,
        Some(503 | 529) => return FailureKind::Overloaded,
        Some(status) if status >= 500 => return FailureKind::Server,
        Some(_) => return FailureKind::BadRequest,
        None => {}
    }
    match () {
        () if has(&["authentication", "permission", "invalid_api_key", "unauthenticated"]) => {
            FailureKind::Unauthorized
        }
        () if has(&["not_found"]) => FailureKind::NotFound,
        () if has(&["timeout", "deadline"]) => FailureKind::TimedOut,
        () if has(&["invalid", "bad_request", "too_large"]) => FailureKind::BadRequest,
        () => FailureKind::Server,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: Option<u16>, code: &str, message: &str, expected: FailureKind) {
        assert_eq!(from_parts(status, code, message).kind, expected, "{status:?} {code} {message}");
    }

    #[test]
    fn kinds_follow_words_before_numbers() {
        check(None, "overloaded_error", "Overloaded", FailureKind::Overloaded);
        check(Some(529), "", "", FailureKind::Overloaded);
        check(Some(429), "insufficient_quota", "You exceeded your current quota", FailureKind::Quota);
        check(Some(429), "RESOURCE_EXHAUSTED", "Quota exceeded for metric", FailureKind::RateLimited);
        check(
            Some(400),
            "invalid_request_error",
            "prompt is too long: 210000 tokens",
            FailureKind::ContextFull,
        );
        check(Some(400), "context_length_exceeded", "", FailureKind::ContextFull);
        check(Some(401), "authentication_error", "invalid x-api-key", FailureKind::Unauthorized);
        check(Some(502), "", "<html>", FailureKind::Server);
        check(None, "server_error", "", FailureKind::Server);
        check(None, "invalid_request_error", "bad", FailureKind::BadRequest);
    }

    #[test]
    fn a_full_window_in_each_providers_words() {
        for (status, code, message) in [
            // Anthropic
            (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
            (
                400,
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
            ),
            (413, "request_too_large", "Request exceeds the maximum size"),
            // OpenAI and Azure
            (400, "context_length_exceeded", "Your input exceeds the context window of this model."),
            (400, "", "This model's maximum context length is 128000 tokens."),
            // Gemini
            (
                400,
                "INVALID_ARGUMENT",
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            ),
            // vLLM, llama.cpp, Groq, Bedrock
            (
                400,
                "BadRequestError",
                "This model's maximum context length is 8192 tokens. However, you requested 9000.",
            ),
            (
                400,
                "exceed_context_size_error",
                "the request exceeds the available context size, try increasing it",
            ),
            (400, "invalid_request_error", "Please reduce the length of the messages or completion."),
            (400, "ValidationException", "Input is too long for requested model."),
        ] {
            check(Some(status), code, message, FailureKind::ContextFull);
        }
        let metric = "Quota exceeded for metric: generate_content_free_tier_input_token_count, limit: 250000";
        check(Some(429), "RESOURCE_EXHAUSTED", metric, FailureKind::RateLimited);
        check(Some(400), "invalid_request_error", "max_tokens: 99 > 8192", FailureKind::BadRequest);
    }
}
