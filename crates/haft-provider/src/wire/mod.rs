//! The wires of model providers. Each one is a folder with everything that is known of its JSON.
//!
//! A wire implements [`WireFormat`] and is registered in the table of [`Wire`]; nothing else names it. The modules beside
//! the folders hold what all wires share: JSON that is read in place, the draft of a message, the writer of a request.

use std::fmt;
use std::str::FromStr;

use haft::ToolResult;
use haft_agent::{MessageFormat, ModelRequest, RequestedCall, ToolDefinitions, UserPart};
use serde_json::{Map, Value};

use self::decoder::message_with;
use self::json::{Json, Object};
use self::request_history::RequestHistory;
use self::script_message::{ScriptMessage, ScriptTarget};
use crate::decode::BadMessage;
use crate::definitions::DefinitionFormat;
use crate::request::{RequestBody, RequestOptions};
use crate::transcript::{PastResult, TranscriptItem};

mod anthropic;
mod gemini;
mod openai_chat;
mod openai_responses;
//POSTCARDMOD

pub(crate) mod decoder;
pub(crate) mod detection;
pub(crate) mod json;
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

            pub(crate) fn format(self) -> &'static dyn WireFormat {
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
//POSTCARDROW
}

/// Everything that depends on one provider's JSON.
///
/// Implementations are static and have no state. Values that a method does not understand are left alone, unless its type
/// has an error for them.
pub(crate) trait WireFormat: Sync {
    /// Returns the constants of this wire.
    fn facts(&self) -> &'static WireFacts;

    /// Builds the address of a request below a base URL that has been checked.
    ///
    /// # Errors
    /// As a message: a model name that can't be part of an address.
    fn request_url(&self, base: &str, model: &str, stream: bool) -> Result<String, String>;

    /// Builds the headers that authenticate a request and name the version of the API.
    fn request_headers(&self, key: Option<&str>) -> Vec<(String, String)> {
        key.map(|key| ("authorization".to_owned(), format!("Bearer {key}"))).into_iter().collect()
    }

    /// Returns whether one of the vendor's own models supports natively deferred tools, as far as its name tells.
    fn supports_deferral(&self, model: &str) -> bool {
        let _ = model;
        false
    }

    /// Writes the body of a request.
    fn write_request(&self, options: &RequestOptions, request: &ModelRequest<'_>, body: &mut RequestBody<'_>);

    /// Creates the decoder of one message of the model.
    fn decoder(&self) -> Box<dyn MessageDecoder>;

    /// Returns a message of the model as JSON, from the items that store it.
    fn stored_message(&self, items: &[Value]) -> String {
        items.first().map(Value::to_string).unwrap_or_default()
    }

    /// Returns whether an object is a whole response, a message, or another frame of this wire alone.
    ///
    /// # Errors
    /// An object in the frame that has a key twice.
    fn owns_message(&self, fields: &Object<'_>) -> Result<bool, BadMessage>;

    /// Returns whether an object is a part of a message of this wire alone.
    fn owns_part(&self, fields: &Object<'_>) -> bool;

    /// Returns whether an object is the first event of a stream of this wire.
    fn owns_event(&self, fields: &Object<'_>) -> bool;

    /// Returns what this wire names a call, if the object is one of its calls.
    fn call_name(&self, part: &Object<'_>) -> Option<&'static str>;

    /// Makes a part of a user message.
    fn user_part(&self, part: &UserPart) -> Value;

    /// Makes the item of a user message.
    fn user_item(&self, parts: Vec<Value>) -> Value {
        message_with("user", self.facts().content_key, parts)
    }

    /// Encodes a result as the answer to its call.
    fn encode_result(
        &self,
        call: &RequestedCall,
        result: &ToolResult,
        tools: Option<&ToolDefinitions>,
    ) -> Answer;

    /// Encodes the answer to a call that was not run.
    fn encode_refusal(&self, call: &RequestedCall, message: &str) -> Answer;

    /// Gives an answer the id that the provider gave the call.
    fn set_call_id(&self, answer: &mut Value, id: &str) {
        answer[self.facts().results.id_key] = id.into();
    }

    /// Makes the item or part that holds a note, which follows the answers.
    fn encode_note(&self, note: String) -> Value {
        serde_json::json!({"type": "text", "text": note})
    }

    /// Returns the names of the tools whose definitions an item holds because the model searched for them.
    fn loaded_tools(&self, item: &Value) -> Vec<String> {
        let _ = item;
        Vec::new()
    }

    /// Returns whether a conversation that ends with this item waits for the model.
    fn awaits_reply(&self, item: &Value) -> bool {
        item["role"] == "user"
    }

    /// Returns the names of the tools that an item calls.
    fn called_tools<'v>(&self, item: &'v Value) -> Vec<&'v str>;

    /// Classifies an item of an old conversation. `None`: another wire's, or unknown.
    fn classify_item<'t>(&self, fields: &Object<'t>, item: Json<'t>) -> Option<TranscriptItem<'t>>;

    /// Reads a piece that [`classify_item`](WireFormat::classify_item) named a result: the call's id and the result.
    /// `None`: it is another part of the message.
    ///
    /// # Errors
    /// A result without the id of its call, and a key that is there twice.
    fn past_result(&self, piece: Json<'_>) -> Result<Option<(String, PastResult)>, BadMessage>;

    /// Reads what a request path of the scripted server asks for. `None`: it is no path of this wire.
    fn parse_script_path<'p>(&self, path: &'p str) -> Option<ScriptTarget<'p>>;

    /// Reads the conversation of a request to the scripted model.
    ///
    /// # Errors
    /// As a message: what the provider would reject.
    fn read_history(&self, body: &Map<String, Value>, history: &mut RequestHistory) -> Result<(), String>;

    /// Writes a scripted message as the events of a stream.
    fn script_events(&self, message: &ScriptMessage, chunk_chars: usize) -> Vec<String>;

    /// Writes a scripted message as one response.
    fn script_response(&self, message: &ScriptMessage) -> Value;

    /// Writes an error that interrupts a stream.
    fn script_error_event(&self, kind: Option<&str>, message: &str) -> String;

    /// Writes the body of an error response.
    fn script_error_body(&self, status: u16, kind: Option<&str>, message: &str) -> Value;
}

/// The constants of a wire.
pub(crate) struct WireFacts {
    /// The name by which the wire is chosen.
    pub(crate) name: &'static str,
    /// The environment variables that conventionally hold the key and the base URL.
    pub(crate) key_variable: &'static str,
    pub(crate) base_url_variable: &'static str,
    /// The vendor's own base URL.
    pub(crate) base_url: &'static str,
    /// What a base URL of the scripted server ends with.
    pub(crate) script_base_path: &'static str,
    /// How ids of scripted calls begin.
    pub(crate) script_call_prefix: &'static str,
    /// The provider's own tool that searches the web, as it stands among the tools of a request.
    pub(crate) search_tool: Option<&'static str>,
    /// The keys that wrap a message in a response, and those of the lists that calls stand in.
    pub(crate) wrapping_keys: &'static [&'static str],
    pub(crate) part_keys: &'static [&'static str],
    /// The key of the conversation in a request.
    pub(crate) history_key: &'static str,
    /// The key of the text or the parts in a message.
    pub(crate) content_key: &'static str,
    /// Whether all answers to one message stand in one user message, together with what the user says next.
    pub(crate) has_answers_in_user_message: bool,
    pub(crate) results: ResultFacts,
    pub(crate) definitions: DefinitionFormat,
}

/// Where results are in the items of a conversation.
pub(crate) struct ResultFacts {
    /// The key that wraps a result, where it has one.
    pub(crate) wrapper: Option<&'static str>,
    /// The keys of the call's id and of the result's content.
    pub(crate) id_key: &'static str,
    pub(crate) content_key: &'static str,
    /// Whether an object is a result whose content may be cleared.
    pub(crate) is_clearable: fn(&Value) -> bool,
    /// Makes the content that replaces a cleared one.
    pub(crate) clear: fn(String) -> Value,
}

/// An answer, and a note that belongs to it and has no place in it.
pub(crate) type Answer = (Value, Option<String>);

/// The wires in static memory, where references to them last.
static WIRES: [Wire; Wire::COUNT] = Wire::ALL;

impl Wire {
    /// Returns the name by which the wire is chosen: `anthropic`, `openai`, `openai-chat`, `gemini`.
    pub fn name(self) -> &'static str {
        self.format().facts().name
    }

    /// Returns whether providers of this wire search the web by themselves.
    pub fn searches(self) -> bool {
        self.format().facts().search_tool.is_some()
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
