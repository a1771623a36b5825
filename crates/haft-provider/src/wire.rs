//! The four wires by which providers speak of calls and results.

use std::fmt;
use std::str::FromStr;

/// A provider's JSON for messages with calls and results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    OpenAi,
    /// OpenAI Chat Completions, which most local servers speak too.
    OpenAiChat,
    /// Gemini's `generateContent`.
    Gemini,
}

impl Wire {
    /// All of them.
    pub const ALL: [Wire; 4] = [Wire::Anthropic, Wire::OpenAi, Wire::OpenAiChat, Wire::Gemini];

    /// The name by which it is chosen: `anthropic`, `openai`, `openai-chat`, `gemini`.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Anthropic => "anthropic",
            Wire::OpenAi => "openai",
            Wire::OpenAiChat => "openai-chat",
            Wire::Gemini => "gemini",
        }
    }

    /// Whether providers that speak it search the web by themselves.
    pub fn searches(self) -> bool {
        self.search_tool().is_some()
    }

    /// Their tool for that, as it stands among the tools of a request.
    pub(crate) fn search_tool(self) -> Option<&'static str> {
        match self {
            // Bounded, since each search is paid for.
            Wire::Anthropic => Some(r#"{"type":"web_search_20250305","name":"web_search","max_uses":8}"#),
            Wire::OpenAi => Some(r#"{"type":"web_search"}"#),
            Wire::Gemini => Some(r#"{"googleSearch":{}}"#),
            Wire::OpenAiChat => None,
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Wire {
    type Err = UnknownWire;

    fn from_str(name: &str) -> Result<Wire, UnknownWire> {
        Wire::ALL.into_iter().find(|wire| wire.name() == name).ok_or_else(|| UnknownWire(name.to_owned()))
    }
}

/// A name that is no wire's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownWire(String);

impl fmt::Display for UnknownWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no provider's wire; `anthropic`, `openai`, `openai-chat` and `gemini` are", self.0)
    }
}

impl std::error::Error for UnknownWire {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for wire in Wire::ALL {
            assert_eq!(wire.to_string().parse(), Ok(wire));
        }
        let error = "azure".parse::<Wire>().unwrap_err().to_string();
        assert!(error.starts_with("`azure` is no provider's wire; `anthropic`"), "{error}");
    }
}
