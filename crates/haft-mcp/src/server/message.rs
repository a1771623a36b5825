//! Messages of JSON-RPC: what one says, and how answers are written. Nothing here knows a method.
//!
//! A message is read once. What it carries stays the text that it was; whoever needs it reads it. A key that stands twice makes
//! a message senseless, so that nobody can read it differently than somebody before us did. It isn't `haft::schema::parse_json`
//! because the envelope borrows from the text; what it carries is read with that reader.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::offer::{Listing, ReadReply};
use super::peer::Ask;
use super::reply::{As, Completion, Freshness, PromptReply, Refusal, Reply, Stamp};
use crate::limits;

/// A message as it came.
pub(crate) enum Incoming<'a> {
    /// Wants an answer.
    Request(Request<'a>),
    /// Wants none.
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// Answers a request of ours.
    Answer { id: &'a RawValue, outcome: Result<&'a RawValue, &'a RawValue> },
}

/// A request as it came.
#[derive(Clone)]
pub(crate) struct Request<'a> {
    pub(crate) id: &'a RawValue,
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: Option<&'a RawValue>,
}

/// What can't be a message.
pub(crate) struct NoMessage {
    pub(crate) code: i32,
    pub(crate) words: Cow<'static, str>,
    /// Whose it would have been, where that much can be read.
    pub(crate) id: Option<Box<RawValue>>,
}

const PARSE_ERROR: i32 = -32700;
pub(crate) const INVALID_REQUEST: i32 = -32600;

#[derive(serde::Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// A key that is there, also if it holds `null`.
pub(crate) fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(from).map(Some)
}

/// Whether a text is one value and nothing else.
pub(crate) fn is_whole(text: &[u8]) -> bool {
    !text.trim_ascii().is_empty() && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

/// Whether a text is a list of messages.
pub(crate) fn is_batch(text: &[u8]) -> bool {
    text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

/// The messages of a batch, as texts.
pub(crate) fn batch(text: &[u8]) -> Result<Vec<&RawValue>, NoMessage> {
    let senseless = |words: &'static str| NoMessage { code: INVALID_REQUEST, words: words.into(), id: None };
    match serde_json::from_slice::<Vec<&RawValue>>(text) {
        Ok(all) if all.is_empty() => Err(senseless("the batch is empty")),
        Ok(all) if all.len() > limits::BATCH_MAX => Err(senseless("the batch is too long")),
        Ok(all) => Ok(all),
        Err(_) => Err(NoMessage { code: PARSE_ERROR, words: "this is not JSON".into(), id: None }),
    }
}

/// Reads a message.
pub(crate) fn read(text: &[u8]) -> Result<Incoming<'_>, NoMessage> {
    let senseless = |words: &'static str, id: Option<&RawValue>| {
        let id = id.filter(|id| is_id(id)).map(RawValue::to_owned);
        NoMessage { code: INVALID_REQUEST, words: words.into(), id }
    };
    let envelope: Envelope<'_> = match serde_json::from_slice(text) {
        Ok(envelope) => envelope,
        Err(error) if error.is_data() => return Err(senseless("this is no message of JSON-RPC", None)),
        Err(_) => return Err(NoMessage { code: PARSE_ERROR, words: "this is not JSON".into(), id: None }),
    };
    let Envelope { jsonrpc, id, method, params, result, error } = envelope;
    if jsonrpc.as_deref() != Some("2.0") {
        return Err(senseless("`jsonrpc` has to be \"2.0\"", id));
    }
    match (method, id, result, error) {
        (Some(method), Some(id), None, None) if is_id(id) => {
            Ok(Incoming::Request(Request { id, method, params }))
        }
        (Some(_), Some(_), None, None) => Err(senseless("`id` has to be a string or an integer", None)),
        (Some(method), None, None, None) => Ok(Incoming::Notification { method, params }),
        (None, Some(id), Some(result), None) => Ok(Incoming::Answer { id, outcome: Ok(result) }),
        (None, Some(id), None, Some(error)) => Ok(Incoming::Answer { id, outcome: Err(error) }),
        (_, id, _, _) => Err(senseless("a message is a request, a notification or an answer", id)),
    }
}

/// Strings and integers of a sensible length.
fn is_id(id: &RawValue) -> bool {
    let text = id.get();
    let is_integer =
        || text.bytes().enumerate().all(|(at, byte)| byte.is_ascii_digit() || (at == 0 && byte == b'-'));
    text.len() <= limits::ID_BYTES_MAX && (text.starts_with('"') || is_integer())
}

/// What a request came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Nothing to say but yes.
    Done,
    /// Something that was made for this answer alone.
    Value(Map<String, Value>),
    Reply(Reply),
    List {
        key: &'static str,
        listing: Listing,
        from: usize,
    },
    Read(ReadReply),
    Prompt(PromptReply),
    Completion(Completion),
    /// More input is needed.
    InputRequired {
        requests: BTreeMap<String, Ask>,
        state: String,
    },
    /// A subscription ended.
    Listened,
}

/// Writes the answer to a request.
pub(crate) fn write_answer(
    to: &mut Vec<u8>,
    id: &RawValue,
    outcome: &Result<Outcome, Refusal>,
    stamp: &Stamp,
) {
    let start = to.len();
    to.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    to.extend_from_slice(id.get().as_bytes());
    let written = match outcome {
        Ok(outcome) => {
            to.extend_from_slice(br#","result":"#);
            serde_json::to_writer(&mut *to, &Written { outcome, id, stamp })
        }
        Err(refusal) => {
            to.extend_from_slice(br#","error":"#);
            serde_json::to_writer(&mut *to, &As(refusal, stamp))
        }
    };
    if let Err(error) = written {
        to.truncate(start);
        let refusal = Refusal::internal(format!("the answer can't be written: {error}"));
        return write_answer(to, id, &Err(refusal), stamp);
    }
    to.push(b'}');
}

/// Writes the answer to something that was no message.
pub(crate) fn write_no_message(to: &mut Vec<u8>, wrong: &NoMessage) {
    let id = wrong.id.as_deref().map_or("null", RawValue::get);
    let words = serde_json::to_string(&wrong.words).unwrap_or_default();
    let code = wrong.code;
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{words}}}}}"#);
    to.extend_from_slice(text.as_bytes());
}

/// Writes a notification or a request of ours.
pub(crate) fn write_call(to: &mut Vec<u8>, id: Option<u64>, method: &str, params: &dyn super::peer::Params) {
    let start = to.len();
    to.extend_from_slice(br#"{"jsonrpc":"2.0","#);
    if let Some(id) = id {
        to.extend_from_slice(format!(r#""id":"haft-{id}","#).as_bytes());
    }
    to.extend_from_slice(br#""method":""#);
    to.extend_from_slice(method.as_bytes());
    to.extend_from_slice(br#"","params":"#);
    if params.write(to).is_err() {
        to.truncate(start);
        return;
    }
    to.push(b'}');
}

/// The number of a request of ours, from an answer to it.
pub(crate) fn own_id(id: &RawValue) -> Option<u64> {
    id.get().strip_prefix("\"haft-")?.strip_suffix('"')?.parse().ok()
}

struct Written<'a> {
    outcome: &'a Outcome,
    id: &'a RawValue,
    stamp: &'a Stamp,
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let stamp = self.stamp;
        let is_newest = stamp.revision.is_stateless();
        match self.outcome {
            Outcome::Reply(reply) => return As(reply, stamp).serialize(to),
            Outcome::Prompt(reply) => return As(reply, stamp).serialize(to),
            _ => {}
        }
        let mut map = to.serialize_map(None)?;
        if !matches!(self.outcome, Outcome::InputRequired { .. }) {
            stamp.begin(&mut map)?;
        }
        match self.outcome {
            Outcome::Reply(_) | Outcome::Prompt(_) => {}
            Outcome::Done => {}
            Outcome::Value(value) => {
                for (key, value) in value {
                    map.serialize_entry(key, value)?;
                }
            }
            Outcome::List { key, listing, from } => {
                map.serialize_entry(key, &Page { listing, from: *from, is_newest })?;
                if from + limits::PAGE_ITEMS < listing.len() {
                    map.serialize_entry("nextCursor", &(from + limits::PAGE_ITEMS).to_string())?;
                }
                if is_newest {
                    freshness(&mut map, listing.fresh)?;
                }
            }
            Outcome::Read(read) => {
                map.serialize_entry("contents", &read.contents)?;
                if is_newest {
                    freshness(&mut map, read.fresh)?;
                }
            }
            Outcome::Completion(completion) => map.serialize_entry("completion", &Proposals(completion))?,
            Outcome::InputRequired { requests, state } => {
                map.serialize_entry("resultType", "input_required")?;
                map.serialize_entry("inputRequests", &Wanted(requests))?;
                map.serialize_entry("requestState", state)?;
            }
            Outcome::Listened => {
                let mut meta = Map::new();
                let id = serde_json::from_str(self.id.get()).unwrap_or(Value::Null);
                meta.insert(SUBSCRIPTION_ID.to_owned(), id);
                stamp.end(&mut map, Some(&meta))?;
                return map.end();
            }
        }
        stamp.end(&mut map, None)?;
        map.end()
    }
}

/// Questions, each under its name.
struct Wanted<'a>(&'a BTreeMap<String, Ask>);

impl Serialize for Wanted<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, ask)| (name, Question(ask))))
    }
}

struct Question<'a>(&'a Ask);

impl Serialize for Question<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(2))?;
        map.serialize_entry("method", self.0.method)?;
        map.serialize_entry("params", &self.0.written(true))?;
        map.end()
    }
}

/// Where a notification says which subscription it belongs to.
pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

fn freshness<M: serde::ser::SerializeMap>(map: &mut M, fresh: Freshness) -> Result<(), M::Error> {
    map.serialize_entry("ttlMs", &u64::try_from(fresh.ttl.as_millis()).unwrap_or(u64::MAX))?;
    map.serialize_entry("cacheScope", if fresh.public { "public" } else { "private" })
}

struct Page<'a> {
    listing: &'a Listing,
    from: usize,
    is_newest: bool,
}

impl Serialize for Page<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut seq = to.serialize_seq(None)?;
        for entry in self.listing.written(self.from, limits::PAGE_ITEMS, self.is_newest) {
            seq.serialize_element(entry)?;
        }
        seq.end()
    }
}

/// How many proposals the protocol lets through.
const PROPOSALS_MAX: usize = 100;

struct Proposals<'a>(&'a Completion);

impl Serialize for Proposals<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Completion { values, total } = self.0;
        let shown = &values[..values.len().min(PROPOSALS_MAX)];
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("values", shown)?;
        if let Some(total) = total {
            map.serialize_entry("total", total)?;
        }
        map.serialize_entry("hasMore", &(total.unwrap_or(values.len()) > shown.len()))?;
        map.end()
    }
}

impl Serialize for As<'_, Refusal> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let As(refusal, stamp) = *self;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("code", &refusal.code(stamp.revision))?;
        map.serialize_entry("message", &refusal.message)?;
        if let Some(data) = &refusal.data {
            map.serialize_entry("data", data)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::server::who::Revision;

    fn kind(text: &str) -> String {
        match read(text.as_bytes()) {
            Ok(Incoming::Request(request)) => format!("request {} {}", request.id, request.method),
            Ok(Incoming::Notification { method, .. }) => format!("notification {method}"),
            Ok(Incoming::Answer { id, outcome }) => format!("answer {id} {}", outcome.is_ok()),
            Err(wrong) => format!("{} {}", wrong.code, wrong.id.map_or("-".to_owned(), |id| id.to_string())),
        }
    }

    #[test]
    fn messages_are_told_apart() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request 1 ping"),
            (r#"{"jsonrpc":"2.0","id":"a","method":"p\u0069ng","params":{}}"#, "request \"a\" ping"),
            (r#"{"jsonrpc":"2.0","method":"n"}"#, "notification n"),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "answer 1 true"),
            (r#"{"jsonrpc":"2.0","id":1,"error":{}}"#, "answer 1 false"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "-32600 -"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "-32600 -"),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, "-32600 -"),
            (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, "-32600 7"),
            (r#"{"id":7,"method":"ping"}"#, "-32600 7"),
            (r#"{"jsonrpc":"2.0","id":7}"#, "-32600 7"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"a","result":1}"#, "-32600 7"),
            (r#"{"jsonrpc":"2.0","id":7,"id":8,"method":"a"}"#, "-32600 -"),
            (r#"{"jsonrpc":"2.0","id":7,"method":3}"#, "-32600 -"),
            ("[]", "-32600 -"),
            ("3", "-32600 -"),
            ("{\"jsonrpc\":", "-32700 -"),
            ("", "-32700 -"),
            ("{\"jsonrpc\":\"2.0\"} x", "-32700 -"),
            ("\u{feff}{}", "-32700 -"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
        assert_eq!(
            kind(&format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"a"}}"#, "x".repeat(400))),
            "-32600 -"
        );
    }

    #[test]
    fn depth_costs_nothing_before_somebody_looks() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{}1{}}}"#,
            "[".repeat(200_000),
            "]".repeat(200_000)
        );
        assert_eq!(kind(&deep), "request 1 a");
    }

    fn answer(outcome: Result<Outcome, Refusal>, revision: Revision) -> Value {
        let mut text = Vec::new();
        write_answer(
            &mut text,
            &RawValue::from_string("7".to_owned()).unwrap(),
            &outcome,
            &Stamp::new(revision),
        );
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn lists_come_in_pages_with_what_the_revision_wants() {
        let listing = Listing::new((0..limits::PAGE_ITEMS + 1).map(|at| json!({"name": at.to_string()})));
        let list = |from| Ok(Outcome::List { key: "tools", listing: listing.clone(), from });
        let first = answer(list(0), Revision::V2025_11_25);
        assert_eq!(first["result"]["tools"].as_array().unwrap().len(), limits::PAGE_ITEMS);
        assert_eq!(first["result"]["nextCursor"], limits::PAGE_ITEMS.to_string());
        let last = answer(list(limits::PAGE_ITEMS), Revision::V2026_07_28);
        let name = limits::PAGE_ITEMS.to_string();
        assert_eq!(
            last,
            json!({"jsonrpc": "2.0", "id": 7, "result":
                {"resultType": "complete", "tools": [{"name": name}], "ttlMs": 0, "cacheScope": "private"}})
        );
    }

    #[test]
    fn answers_have_the_form_of_their_kind() {
        assert_eq!(answer(Ok(Outcome::Done), Revision::V2025_11_25)["result"], json!({}));
        assert_eq!(
            answer(Ok(Outcome::Done), Revision::V2026_07_28)["result"],
            json!({"resultType": "complete"})
        );
        let listened = answer(Ok(Outcome::Listened), Revision::V2026_07_28);
        assert_eq!(listened["result"]["_meta"][SUBSCRIPTION_ID], 7);
        let many = Completion { values: (0..150).map(|at| at.to_string()).collect(), total: None };
        let many = answer(Ok(Outcome::Completion(many)), Revision::V2025_11_25);
        assert_eq!(many["result"]["completion"]["values"].as_array().unwrap().len(), 100);
        assert_eq!(many["result"]["completion"]["hasMore"], true);
        let refused = answer(Err(Refusal::unknown_tool("x")), Revision::V2025_11_25);
        assert_eq!(refused["error"], json!({"code": -32602, "message": "Unknown tool: x"}));
    }
}
