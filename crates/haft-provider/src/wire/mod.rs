//! The wires of model providers. Each one is a folder with everything that is known of its JSON.
//!
//! A wire is a [`WireFormat`], registered in the table of [`Wire`]; nothing else names it. The modules beside
//! the folders hold what all wires share: JSON that is read in place, the draft of a message, the history of
//! a scripted request.

use std::fmt;
use std::str::FromStr;

use haft::ToolResult;
use haft_agent::{MessageFormat, ModelRequest, RequestedCall, ToolDefinitions, UserPart};
use serde_json::{Map, Value};

use self::json_text::{JsonError, JsonObject, JsonText};
use self::request_history::RequestHistory;
use self::script_message::{ScriptMessage, ScriptTarget};
use crate::definitions::DefinitionFormat;
use crate::request::{RequestBody, RequestOptions};
use crate::transcript::PastResult;

mod anthropic;
mod gemini;
mod openai_chat;
mod openai_responses;
#[cfg(test)]
mod postcard;

pub(crate) mod decoder;
pub(crate) mod detection;
pub(crate) mod json_text;
pub(crate) mod message_draft;
pub(crate) mod request_history;
pub(crate) mod result_content;
pub(crate) mod script_message;

pub(crate) use self::decoder::MessageDecoder;

/// Makes the enumeration of wires from the table of their folders.
macro_rules! register_wires {
    ($($(#[doc = $doc:literal])+ $(#[cfg($only:meta)])? $wire:ident => $folder:ident;)+) => {
        /// A provider's JSON for messages with calls and results.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Wire {
            $($(#[doc = $doc])+ $(#[cfg($only)])? $wire,)+
        }

        impl Wire {
            /// All wires.
            pub const ALL: [Wire; Wire::COUNT] = [$($(#[cfg($only)])? Wire::$wire,)+];
            const COUNT: usize = [$($(#[cfg($only)])? stringify!($wire),)+].len();

            pub(crate) fn format(self) -> &'static WireFormat {
                match self {
                    $($(#[cfg($only)])? Wire::$wire => &$folder::WIRE,)+
                }
            }
        }
    };
}

register_wires! {
    /// Anthropic Messages.
    Anthropic => anthropic;
    /// OpenAI Responses.
    OpenAi => openai_responses;
    /// OpenAI Chat Completions, which most local servers speak too.
    OpenAiChat => openai_chat;
    /// Gemini's `generateContent`.
    Gemini => gemini;
    /// A made-up wire for tests.
    #[cfg(test)] Postcard => postcard;
}

/// Everything that depends on one provider's JSON.
///
/// Functions leave alone what they do not understand, unless their type has an error for it.
pub(crate) struct WireFormat {
    /// The name by which the wire is chosen.
    pub(crate) name: &'static str,
    /// The environment variables that conventionally hold the key and the base URL.
    pub(crate) key_variable: &'static str,
    pub(crate) base_url_variable: &'static str,
    /// The vendor's own base URL.
    pub(crate) base_url: &'static str,
    /// Builds the address of a request from a base URL that has been checked, a model, and whether the reply
    /// is streamed. The error is a message about a model name that can't be part of an address.
    pub(crate) request_url: fn(&str, &str, bool) -> Result<String, String>,
    /// Builds the headers that authenticate a request and name the version of the API.
    pub(crate) request_headers: fn(Option<&str>) -> Vec<(&'static str, String)>,

    pub(crate) definitions: DefinitionFormat,
    /// The provider's own tool that searches the web, as it stands among the tools of a request.
    pub(crate) search_tool: Option<&'static str>,
    /// Returns whether one of the vendor's models supports natively deferred tools, as far as its name tells.
    pub(crate) supports_deferral: fn(&str) -> bool,
    /// Writes the body of a request.
    pub(crate) write_request: fn(&RequestOptions, &ModelRequest<'_>, &mut RequestBody<'_>),

    /// Creates the decoder of one message of the model.
    pub(crate) decoder: fn() -> Box<dyn MessageDecoder>,
    /// Returns whether an object is a whole response, a message, or another frame of this wire alone.
    pub(crate) owns_frame: fn(&JsonObject<'_>) -> Result<bool, JsonError>,
    /// Returns whether an object is the first event of a stream of this wire.
    pub(crate) owns_event: fn(&JsonObject<'_>) -> bool,
    /// Classifies a part or an item that this wire alone has.
    pub(crate) classify_part: fn(&JsonObject<'_>) -> Option<PartKind>,
    /// The keys that wrap a message in a response, and those of the lists that parts stand in.
    pub(crate) wrapping_keys: &'static [&'static str],
    pub(crate) part_keys: &'static [&'static str],

    /// The keys of the conversation in a request, of the text or the parts in a message, and of the text in a
    /// part.
    pub(crate) history_key: &'static str,
    pub(crate) content_key: &'static str,
    pub(crate) text_key: &'static str,
    /// Whether a message of the model is a list of items.
    pub(crate) has_item_list: bool,
    /// Whether all answers to one message stand in one user message, together with what the user says next.
    pub(crate) has_answers_in_user_message: bool,
    /// Makes a part of a user message.
    pub(crate) user_part: fn(&UserPart) -> Value,
    /// Makes a user message.
    pub(crate) user_item: fn(Vec<Value>) -> Value,
    /// Encodes a result as the answer to its call.
    pub(crate) encode_result: fn(&RequestedCall, &ToolResult, Option<&ToolDefinitions>) -> EncodedResult,
    /// Makes the item or part that holds a note, which follows the answers.
    pub(crate) encode_note: fn(String) -> Value,
    pub(crate) results: ResultFormat,
    /// Returns the names of the tools whose definitions an item holds because the model searched for them.
    pub(crate) loaded_tools: fn(&Value) -> Vec<String>,
    /// Returns whether a conversation that ends with this item waits for the model.
    pub(crate) awaits_reply: fn(&Value) -> bool,
    /// Returns the only call of a message, if it has an old form that is answered by name.
    pub(crate) unnamed_call: for<'t> fn(&JsonObject<'t>) -> Option<JsonText<'t>>,
    /// Reads a result of an old conversation: the call's id and the result. The error is a result without
    /// that id.
    pub(crate) past_result: fn(&JsonObject<'_>) -> Result<(String, PastResult), JsonError>,

    pub(crate) script: ScriptFormat,
}

/// What a part of a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartKind {
    /// A call of a tool, and what the wire names it.
    Call(&'static str),
    /// A call that the host answers, and no tool.
    HostCall,
    Result,
    /// Text, reasoning, and what the provider does itself.
    Other,
}

/// Where results are in the items of a conversation, and how their content is cleared.
pub(crate) struct ResultFormat {
    /// The key that wraps a result, where it has one.
    pub(crate) wrapper: Option<&'static str>,
    /// The keys of the call's id and of the result's content.
    pub(crate) id_key: &'static str,
    pub(crate) content_key: &'static str,
    /// Returns whether an object is a result whose content may be cleared.
    pub(crate) is_clearable: fn(&Value) -> bool,
    /// Makes the content that replaces a cleared one.
    pub(crate) clear: fn(String) -> Value,
}

/// The wire's side of the scripted model.
pub(crate) struct ScriptFormat {
    /// What a base URL of the scripted server ends with.
    pub(crate) base_path: &'static str,
    /// How ids of scripted calls begin.
    pub(crate) call_prefix: &'static str,
    /// Reads what a request path asks for. `None`: it is no path of this wire.
    pub(crate) parse_path: for<'p> fn(&'p str) -> Option<ScriptTarget<'p>>,
    /// Reads the conversation of a request. The error is a message about what the provider would reject.
    pub(crate) read_history: fn(&Map<String, Value>, &mut RequestHistory) -> Result<(), String>,
    /// Writes a message as the events of a stream, in pieces of so many characters.
    pub(crate) write_events: fn(&ScriptMessage, usize) -> Vec<String>,
    /// Writes a message as one response.
    pub(crate) write_response: fn(&ScriptMessage) -> Value,
    /// Writes the body of an error response from its status, its kind and its message.
    pub(crate) write_error: fn(u16, Option<&str>, &str) -> Value,
    /// Writes an error that interrupts a stream, from the body of an error response.
    pub(crate) write_error_event: fn(&Value) -> String,
}

/// An answer, and a note that belongs to it and has no place in it.
pub(crate) type EncodedResult = (Value, Option<String>);

/// The wires in static memory, where references to them last.
static WIRES: [Wire; Wire::COUNT] = Wire::ALL;

impl Wire {
    /// Returns the name by which the wire is chosen: `anthropic`, `openai`, `openai-chat`, `gemini`.
    pub fn name(self) -> &'static str {
        self.format().name
    }

    /// Returns whether providers of this wire search the web by themselves.
    pub fn searches(self) -> bool {
        self.format().search_tool.is_some()
    }
}

impl From<Wire> for &'static dyn MessageFormat {
    fn from(wire: Wire) -> &'static dyn MessageFormat {
        &WIRES[wire as usize]
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

/// A name that no wire has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownWire(String);

impl fmt::Display for UnknownWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Wire::ALL.map(|wire| format!("`{wire}`"));
        let (last, others) = names.split_last().expect("there are wires");
        write!(f, "`{}` is no provider's wire; {} and {last} are", self.0, others.join(", "))
    }
}

impl std::error::Error for UnknownWire {}

#[cfg(test)]
mod wire_tests;

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
