//! What a request wants: its method and parameters, read once and owned from then on.

use std::borrow::Cow;

use haft::schema::parse_json;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::message::present;
use super::offer::{Complete, CompleteOf};
use super::peer::Level;
use super::reply::{Refusal, RefusalKind};
use super::who::{Abilities, Client, Revision, Way};
use crate::limits;
use crate::text;

/// Keys that the newest revision puts into `_meta` of each request.
const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The parameters of any method, as far as they are the same everywhere.
#[derive(Default)]
pub(crate) struct Params {
    fields: Fields,
    pub(crate) meta: Map<String, Value>,
    /// Answers to what was asked in an earlier round.
    pub(crate) given: Option<Map<String, Value>>,
    /// What an earlier round wants to be reminded of.
    pub(crate) state: Option<String>,
}

#[derive(Default)]
struct Fields {
    name: Option<String>,
    uri: Option<String>,
    cursor: Option<String>,
    level: Option<String>,
    arguments: Option<Box<RawValue>>,
    reference: Option<Value>,
    argument: Option<Value>,
    context: Option<Value>,
    notifications: Option<Value>,
}

#[derive(serde::Deserialize)]
struct Raw<'a> {
    name: Option<String>,
    uri: Option<String>,
    cursor: Option<String>,
    level: Option<String>,
    #[serde(borrow, default, deserialize_with = "present")]
    arguments: Option<&'a RawValue>,
    #[serde(rename = "ref")]
    reference: Option<Value>,
    argument: Option<Value>,
    context: Option<Value>,
    notifications: Option<Value>,
    #[serde(rename = "_meta")]
    meta: Option<Map<String, Value>>,
    #[serde(rename = "inputResponses", borrow, default, deserialize_with = "present")]
    given: Option<&'a RawValue>,
    #[serde(rename = "requestState")]
    state: Option<String>,
}

impl Params {
    /// Reads what came as `params`.
    ///
    /// # Errors
    /// They make no sense for any method.
    pub(crate) fn read(params: Option<&RawValue>) -> Result<Params, Refusal> {
        let Some(params) = params else { return Ok(Params::default()) };
        let senseless =
            |error: serde_json::Error| Refusal::invalid(format!("the parameters make no sense: {error}"));
        let raw: Raw<'_> = serde_json::from_str(params.get()).map_err(senseless)?;
        let given = raw.given.map(|given| {
            // A yes beside a no under the same key is no yes.
            let given = parse_json(given.get()).ok().and_then(|given| serde_json::from_value(given).ok());
            given.ok_or_else(|| {
                Refusal::invalid("`inputResponses` has to be an object with an object for each key")
            })
        });
        Ok(Params {
            fields: Fields {
                name: raw.name,
                uri: raw.uri,
                cursor: raw.cursor,
                level: raw.level,
                arguments: raw.arguments.map(RawValue::to_owned),
                reference: raw.reference,
                argument: raw.argument,
                context: raw.context,
                notifications: raw.notifications,
            },
            meta: raw.meta.unwrap_or_default(),
            given: given.transpose()?,
            state: raw.state,
        })
    }

    /// Whether the request stands alone, as those of the newest revision do.
    pub(crate) fn is_alone(&self) -> bool {
        self.meta.contains_key(PROTOCOL_VERSION)
    }

    /// The revision that it names, as it names it.
    pub(crate) fn revision(&self) -> Option<&Value> {
        self.meta.get(PROTOCOL_VERSION)
    }

    /// What a tool, prompt or resource is called, for methods that have such a thing.
    pub(crate) fn named(&self, method: &str) -> Option<&str> {
        match method {
            "tools/call" | "prompts/get" => self.fields.name.as_deref(),
            "resources/read" => self.fields.uri.as_deref(),
            _ => None,
        }
    }

    /// The arguments of a tool, as they came.
    pub(crate) fn arguments(&self) -> Option<&RawValue> {
        self.fields.arguments.as_deref()
    }

    /// Whether the request says who asks, whatever it says.
    ///
    /// # Errors
    /// It doesn't.
    pub(crate) fn check_sender(&self) -> Result<(), Refusal> {
        match [PROTOCOL_VERSION, CLIENT_CAPABILITIES].into_iter().find(|key| !self.meta.contains_key(*key)) {
            Some(key) => {
                Err(Refusal::invalid(format!("`_meta` lacks `{key}`; each request of this revision has it")))
            }
            None => Ok(()),
        }
    }

    /// Takes who asks out of a request that stands alone.
    ///
    /// # Errors
    /// It doesn't say, or speaks a revision that isn't known.
    pub(crate) fn take_sender(&mut self) -> Result<Sender, Refusal> {
        self.check_sender()?;
        let revision = self.meta.remove(PROTOCOL_VERSION).unwrap_or_default();
        let can = self.meta.remove(CLIENT_CAPABILITIES).unwrap_or_default();
        if !can.is_object() {
            return Err(Refusal::invalid(format!("`{CLIENT_CAPABILITIES}` has to be an object")));
        }
        let Value::String(revision) = revision else {
            return Err(Refusal::invalid(format!("`{PROTOCOL_VERSION}` has to be a string")));
        };
        match Revision::of(&revision) {
            Some(revision) if revision.is_stateless() => {}
            _ => return Err(unsupported(&revision)),
        }
        let info = self.meta.remove(CLIENT_INFO).unwrap_or(Value::Null);
        let level = self.meta.remove(LOG_LEVEL);
        let level = level.as_ref().and_then(Value::as_str).and_then(Level::of);
        Ok(Sender { can, info, level })
    }
}

/// A revision that isn't spoken without a handshake.
pub(crate) fn unsupported(requested: &str) -> Refusal {
    let requested = text::line(requested, 60);
    let supported: Vec<&str> = Revision::ALL
        .iter()
        .filter(|revision| revision.is_stateless())
        .map(|revision| revision.name())
        .collect();
    let words = format!("revision `{requested}` is not spoken here; spoken are {}", supported.join(", "));
    Refusal::new(RefusalKind::Code(-32022), words)
        .with_data(serde_json::json!({"supported": supported, "requested": requested}))
}

/// Who asks, as a request that stands alone says it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sender {
    can: Value,
    info: Value,
    pub(crate) level: Option<Level>,
}

impl Sender {
    /// Whether the other is the same client.
    pub(crate) fn is_same(&self, other: &Sender) -> bool {
        self.can == other.can && self.info == other.info
    }

    pub(crate) fn client(&self, way: Way) -> Client {
        client(way, Revision::V2026_07_28, &self.info, &self.can)
    }
}

fn client(way: Way, revision: Revision, info: &Value, can: &Value) -> Client {
    let words = |key: &str| text::line(info[key].as_str().unwrap_or_default(), limits::NAME_CHARS_MAX);
    let mut client = Client::new(way, revision).with_abilities(Abilities::of(can));
    client.name = words("name");
    client.version = words("version");
    client
}

/// Who shakes hands, and by which revision.
///
/// # Errors
/// The parameters make no sense.
pub(crate) fn handshake(params: Option<&RawValue>, way: Way) -> Result<Client, Refusal> {
    #[derive(serde::Deserialize)]
    struct Handshake<'a> {
        #[serde(rename = "protocolVersion", borrow)]
        revision: Cow<'a, str>,
        #[serde(default)]
        capabilities: Value,
        #[serde(rename = "clientInfo", default)]
        info: Value,
    }
    let params = params.map_or("{}", RawValue::get);
    let asked: Handshake<'_> = serde_json::from_str(params).map_err(|error| {
        Refusal::invalid(format!("the parameters of `initialize` make no sense: {error}"))
    })?;
    // One that isn't known, or has no handshake, is answered with the newest that can be had this way.
    let revision = Revision::of(&asked.revision).filter(|revision| !revision.is_stateless());
    Ok(client(way, revision.unwrap_or(Revision::LATEST_WITH_HANDSHAKE), &asked.info, &asked.capabilities))
}

/// What a request wants.
#[derive(Debug)]
pub(crate) enum Wish {
    Ping,
    Discover,
    SetLevel(Level),
    ListTools(usize),
    CallTool { name: String, arguments: Box<RawValue> },
    ListResources(usize),
    ListTemplates(usize),
    Read(String),
    Watch(String),
    Unwatch(String),
    ListPrompts(usize),
    GetPrompt { name: String, arguments: Map<String, Value> },
    Complete(Complete),
    Listen(Filter),
}

/// What a subscription is for.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Filter {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    pub(crate) watches: Vec<String>,
}

impl Wish {
    /// What these parameters of a method want.
    ///
    /// # Errors
    /// The revision has no such method, or the parameters don't fit it.
    pub(crate) fn new(method: &str, params: &mut Params, revision: Revision) -> Result<Wish, Refusal> {
        let Fields { name, uri, cursor, level, arguments, reference, argument, context, notifications } =
            std::mem::take(&mut params.fields);
        let from = || cursor_of(cursor.as_deref());
        let named = |name: Option<String>| {
            name.ok_or_else(|| Refusal::invalid("`name` is missing; a string is required"))
        };
        let at = |uri: Option<String>| {
            uri.ok_or_else(|| Refusal::invalid("`uri` is missing; a string is required"))
        };
        let alone = revision.is_stateless();
        Ok(match method {
            "tools/call" => Wish::CallTool {
                name: named(name)?,
                arguments: arguments.unwrap_or_else(|| RawValue::NULL.to_owned()),
            },
            "tools/list" => Wish::ListTools(from()?),
            "resources/list" => Wish::ListResources(from()?),
            "resources/templates/list" => Wish::ListTemplates(from()?),
            "resources/read" => Wish::Read(at(uri)?),
            "prompts/list" => Wish::ListPrompts(from()?),
            "prompts/get" => Wish::GetPrompt { name: named(name)?, arguments: object(arguments)? },
            "completion/complete" => Wish::Complete(complete(reference, argument, context)?),
            "ping" if !alone => Wish::Ping,
            "logging/setLevel" if !alone => {
                let level = level.as_deref().and_then(Level::of);
                Wish::SetLevel(level.ok_or_else(|| {
                    Refusal::invalid("`level` has to be one of debug, info, notice, warning, error, critical, alert, emergency")
                })?)
            }
            "resources/subscribe" if !alone => Wish::Watch(at(uri)?),
            "resources/unsubscribe" if !alone => Wish::Unwatch(at(uri)?),
            "server/discover" if alone => Wish::Discover,
            "subscriptions/listen" if alone => Wish::Listen(filter(notifications)?),
            other => return Err(Refusal::unknown_method(other)),
        })
    }

    /// Whether the client may be asked for input while this is carried out.
    pub(crate) fn may_ask(&self) -> bool {
        matches!(self, Wish::CallTool { .. } | Wish::Read(_) | Wish::GetPrompt { .. })
    }
}

fn cursor_of(cursor: Option<&str>) -> Result<usize, Refusal> {
    let Some(cursor) = cursor else { return Ok(0) };
    let senseless = || Refusal::invalid("`cursor` is not one that was given out here");
    let at: usize = cursor.parse().map_err(|_| senseless())?;
    if at.is_multiple_of(limits::PAGE_ITEMS) { Ok(at) } else { Err(senseless()) }
}

fn object(arguments: Option<Box<RawValue>>) -> Result<Map<String, Value>, Refusal> {
    let Some(arguments) = arguments else { return Ok(Map::new()) };
    serde_json::from_str(arguments.get()).map_err(|_| Refusal::invalid("`arguments` has to be an object"))
}

fn complete(
    reference: Option<Value>,
    argument: Option<Value>,
    context: Option<Value>,
) -> Result<Complete, Refusal> {
    let reference = reference.unwrap_or_default();
    let words = |value: &Value, key: &str| {
        let missing = || Refusal::invalid(format!("`{key}` is missing; a string is required"));
        value[key].as_str().map(str::to_owned).ok_or_else(missing)
    };
    let of = match reference["type"].as_str() {
        Some("ref/prompt") => CompleteOf::Prompt(words(&reference, "name")?),
        Some("ref/resource") => CompleteOf::Template(words(&reference, "uri")?),
        _ => return Err(Refusal::invalid("`ref` has to have the type `ref/prompt` or `ref/resource`")),
    };
    let argument = argument.unwrap_or_default();
    let settled = match context.unwrap_or_default()["arguments"].take() {
        Value::Object(settled) => settled,
        _ => Map::new(),
    };
    Ok(Complete { of, argument: words(&argument, "name")?, value: words(&argument, "value")?, settled })
}

fn filter(notifications: Option<Value>) -> Result<Filter, Refusal> {
    let Some(Value::Object(wanted)) = notifications else {
        return Err(Refusal::invalid("`notifications` is missing; an object is required"));
    };
    let wants = |key: &str| wanted.get(key) == Some(&Value::Bool(true));
    let watches = match wanted.get("resourceSubscriptions") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(uris)) if uris.len() <= limits::WATCHES_MAX => {
            let uri = |uri: &Value| uri.as_str().map(str::to_owned);
            let all: Option<Vec<String>> = uris.iter().map(uri).collect();
            all.ok_or_else(|| Refusal::invalid("`resourceSubscriptions` has to be a list of strings"))?
        }
        Some(Value::Array(_)) => {
            return Err(Refusal::invalid(format!(
                "at most {} resources can be watched",
                limits::WATCHES_MAX
            )));
        }
        Some(_) => return Err(Refusal::invalid("`resourceSubscriptions` has to be a list of strings")),
    };
    Ok(Filter {
        tools: wants("toolsListChanged"),
        prompts: wants("promptsListChanged"),
        resources: wants("resourcesListChanged"),
        watches,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn params(value: Value) -> Result<Params, Refusal> {
        Params::read(Some(&serde_json::value::to_raw_value(&value).unwrap()))
    }

    fn wish(method: &str, value: Value, revision: Revision) -> Result<Wish, Refusal> {
        Wish::new(method, &mut params(value)?, revision)
    }

    #[test]
    fn methods_belong_to_revisions() {
        let code = |method: &str, revision| {
            wish(method, json!({"level": "info", "uri": "x", "notifications": {}}), revision)
                .map_err(|refusal| refusal.code(revision))
        };
        for method in ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
            assert!(code(method, Revision::V2025_11_25).is_ok(), "{method}");
            assert_eq!(code(method, Revision::V2026_07_28).unwrap_err(), -32601, "{method}");
        }
        for method in ["server/discover", "subscriptions/listen"] {
            assert!(code(method, Revision::V2026_07_28).is_ok(), "{method}");
            assert_eq!(code(method, Revision::V2025_11_25).unwrap_err(), -32601, "{method}");
        }
        assert_eq!(code("tools/eat", Revision::V2025_11_25).unwrap_err(), -32601);
    }

    #[test]
    fn an_answer_that_is_given_twice_is_refused() {
        let twice = r#"{"name": "a", "inputResponses": {"k": {"action": "decline", "action": "accept"}}}"#;
        let params = RawValue::from_string(twice.to_owned()).unwrap();
        assert!(Params::read(Some(&params)).is_err());
    }

    #[test]
    fn senseless_parameters_are_refused() {
        let newest = Revision::V2026_07_28;
        for (method, value) in [
            ("tools/call", json!({})),
            ("tools/call", json!({"name": 3})),
            ("tools/call", json!([])),
            ("tools/list", json!({"cursor": "7"})),
            ("tools/list", json!({"cursor": "-1"})),
            ("tools/call", json!({"name": "a", "inputResponses": null})),
            ("tools/call", json!({"name": "a", "inputResponses": [1]})),
            ("prompts/get", json!({"name": "a", "arguments": 3})),
            (
                "completion/complete",
                json!({"ref": {"type": "ref/odd"}, "argument": {"name": "a", "value": ""}}),
            ),
            ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "p"}})),
            ("subscriptions/listen", json!({})),
            ("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [3]}})),
            ("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": vec!["x"; 999]}})),
        ] {
            assert_eq!(
                wish(method, value.clone(), newest).unwrap_err().code(newest),
                -32602,
                "{method} {value}"
            );
        }
    }

    #[test]
    fn arguments_of_a_tool_pass_as_they_are() {
        let text = r#"{"name":"t","arguments":{"b": 1,  "a":[1.50, 1e400]}}"#;
        let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
        let mut params = Params::read(Some(&raw)).unwrap();
        let Ok(Wish::CallTool { arguments, .. }) =
            Wish::new("tools/call", &mut params, Revision::V2025_11_25)
        else {
            panic!()
        };
        assert_eq!(arguments.get(), r#"{"b": 1,  "a":[1.50, 1e400]}"#);
    }

    #[test]
    fn a_request_that_stands_alone_says_who_asks() {
        let meta = |meta: Value| {
            params(json!({"_meta": meta}))
                .unwrap()
                .take_sender()
                .map_err(|refusal| refusal.code(Revision::V2026_07_28))
        };
        let full = json!({PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {"roots": {}}, LOG_LEVEL: "error",
            CLIENT_INFO: {"name": "c\u{202e}", "version": "1"}, "progressToken": 3});
        let sender = meta(full).unwrap();
        let client = sender.client(Way::Http);
        assert_eq!((client.name.as_str(), client.version.as_str()), ("c\\u{202e}", "1"));
        assert!(client.can.roots && sender.level == Some(Level::Error));
        assert_eq!(meta(json!({})), Err(-32602));
        assert_eq!(meta(json!({PROTOCOL_VERSION: "2026-07-28"})), Err(-32602));
        assert_eq!(meta(json!({PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: 3})), Err(-32602));
        assert_eq!(meta(json!({PROTOCOL_VERSION: 3, CLIENT_CAPABILITIES: {}})), Err(-32602));
        assert_eq!(meta(json!({PROTOCOL_VERSION: "2025-11-25", CLIENT_CAPABILITIES: {}})), Err(-32022));
    }

    #[test]
    fn a_handshake_settles_on_a_revision_that_both_know() {
        let settles = |asked: &str| {
            let params = serde_json::value::to_raw_value(&json!({"protocolVersion": asked})).unwrap();
            handshake(Some(&params), Way::Stdio).unwrap().revision.name()
        };
        for known in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            assert_eq!(settles(known), known);
        }
        assert_eq!(settles("2026-07-28"), "2025-11-25");
        assert_eq!(settles("1.0"), "2025-11-25");
        assert!(handshake(None, Way::Stdio).is_err());
    }
}
