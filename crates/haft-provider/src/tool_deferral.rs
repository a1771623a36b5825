//! Deferred tools, as a provider knows them: which endpoints have them, and the fallback where they don't.
//!
//! A model is shown few of many tools and finds the rest with `ToolSearch`. Two providers have a form for
//! that in which the found definitions stand in the conversation, so that the `tools` of the session stay the
//! same bytes and their prompt cache stays valid: Anthropic (`defer_loading`, `tool_reference`) and OpenAI's
//! Responses (`tool_search`, run by the client). Everywhere else the found tools are added to the `tools` of
//! the next request.
//!
//! A conversation keeps its items in the form in which they were made. Which form an endpoint takes is
//! decided with each request, and the wire writes the one as the other, so a conversation can go on at an
//! endpoint that knows less.

use haft_agent::{ModelFailure, ToolDeferral};

use crate::Wire;

/// Returns where an endpoint keeps deferred tools if nothing else is configured: the provider's own form at
/// the vendor's own address, unless the model is known to be too old for it.
pub fn default_deferral(wire: Wire, base_url: &str, model: &str) -> ToolDeferral {
    let is_vendors = base_url.trim().trim_end_matches('/') == wire.format().base_url;
    if is_vendors && has_native_form(wire) && (wire.format().supports_deferral)(model) {
        ToolDeferral::Native
    } else {
        ToolDeferral::Fallback
    }
}

/// Returns whether a wire has a form for deferred tools at all.
pub(crate) fn has_native_form(wire: Wire) -> bool {
    wire.format().definitions.deferral.is_some()
}

/// Returns whether a provider rejected a request because of deferred tools: it doesn't know them, or not with
/// this model.
pub(crate) fn is_rejection(failure: &ModelFailure) -> bool {
    let words = failure.message.to_ascii_lowercase();
    let named = ["defer_loading", "tool_reference", "tool reference", "tool_search"];
    matches!(failure.status, Some(400 | 404 | 422)) && named.iter().any(|name| words.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure;

    #[test]
    fn the_vendors_own_address_and_a_model_that_may_know() {
        let check = |wire: Wire, url: &str, model: &str, expected: ToolDeferral| {
            assert_eq!(default_deferral(wire, url, model), expected, "{wire} {url} {model}");
        };
        let (anthropic, openai) = ("https://api.anthropic.com/", "https://api.openai.com/v1");
        check(Wire::Anthropic, anthropic, "claude-sonnet-4-5", ToolDeferral::Native);
        check(Wire::Anthropic, anthropic, "claude-3-5-haiku", ToolDeferral::Fallback);
        check(Wire::Anthropic, "http://127.0.0.1:1", "claude-sonnet-4-5", ToolDeferral::Fallback);
        check(Wire::OpenAi, openai, "gpt-5.4", ToolDeferral::Native);
        check(Wire::OpenAi, openai, "gpt-5.10-mini", ToolDeferral::Native);
        check(Wire::OpenAi, openai, "gpt-6", ToolDeferral::Native);
        for old in ["gpt-5", "gpt-5.3-codex", "gpt-5-mini-2025.08", "gpt-4o", "gpt-4.1", "o3"] {
            check(Wire::OpenAi, openai, old, ToolDeferral::Fallback);
        }
        check(Wire::OpenAiChat, openai, "gpt-6", ToolDeferral::Fallback);
        check(Wire::Gemini, "https://generativelanguage.googleapis.com", "gemini-3", ToolDeferral::Fallback);
    }

    #[test]
    fn refusals_in_the_words_of_providers() {
        let check = |status: u16, words: &str, expected: bool| {
            assert_eq!(is_rejection(&failure::from_parts(Some(status), "", words)), expected, "{words}");
        };
        check(400, "tools.3.custom.defer_loading: Extra inputs are not permitted", true);
        check(
            400,
            "messages.2.content.0: Input tag 'tool_reference' found using 'type' does not match",
            true,
        );
        check(400, "Tool reference 'a' not found in available tools", true);
        check(400, "Invalid value: 'tool_search'. Supported values are: 'function'", true);
        check(400, "Tool 'tool_search' is not supported with gpt-5.", true);
        check(422, "body.tools.0.defer_loading extra fields not permitted", true);
        check(400, "max_tokens: 99 > 8192", false);
        check(500, "defer_loading broke something", false);
        check(429, "tool_search was used too often", false);
    }
}
