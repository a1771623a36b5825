//! A tool as its server defines it: read field by field, cleaned for readers, and with a fingerprint of what
//! came.

use haft::Effects;
use serde_json::{Map, Value, json};

use crate::config::ServerConfig;
use crate::limits::{DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX, RESULT_CHARS_MAX};
use crate::text;
use crate::transport::deep_json::TOO_DEEP;

/// A tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolDefinition {
    /// As the server calls it.
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: String,
    pub(crate) input_schema: Value,
    pub(crate) output_schema: Option<Value>,
    pub(crate) read_only_hint: bool,
    pub(crate) result_chars: Option<usize>,
    pub(crate) needs_user: bool,
    /// Calls have to be tasks (revision 2025-11-25).
    pub(crate) needs_task: bool,
    pub(crate) always_load: Option<bool>,
    /// What an approval is bound to: everything of the definition that the model or we act upon, as it came.
    pub(crate) approved_as: Value,
}

impl ToolDefinition {
    /// Reads one.
    ///
    /// # Errors
    /// Why it can't be used, in words.
    pub(crate) fn read(value: &Value) -> Result<ToolDefinition, String> {
        let name = value["name"].as_str().filter(|name| !name.is_empty()).ok_or("it has no name")?;
        if name.chars().count() > NAME_CHARS_MAX {
            return Err(format!("its name is longer than {NAME_CHARS_MAX} characters"));
        }
        let words = |value: &Value, most: usize| value.as_str().map(|words| text::display_text(words, most));
        let annotations = &value["annotations"];
        let title =
            words(&value["title"], NAME_CHARS_MAX).or_else(|| words(&annotations["title"], NAME_CHARS_MAX));
        let description = words(&value["description"], DESCRIPTION_CHARS_MAX);
        let description = description.filter(|words| !words.trim().is_empty()).or_else(|| title.clone());
        let mut input_schema = match &value["inputSchema"] {
            Value::Object(schema) => Value::Object(schema.clone()),
            Value::String(words) if words == TOO_DEEP => return Err(TOO_DEEP.to_owned()),
            _ => return Err("it has no input schema".to_owned()),
        };
        text::clean_schema(&mut input_schema);
        let output_schema =
            value.get("outputSchema").filter(|schema| !schema.is_null()).cloned().map(|mut schema| {
                text::clean_schema(&mut schema);
                schema
            });
        let meta = &value["_meta"];
        let result_chars = meta["anthropic/maxResultSizeChars"].as_u64();
        let kept = ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"];
        let approved_as: Map<String, Value> = kept
            .iter()
            .filter_map(|key| {
                Some(((*key).to_owned(), value.get(*key).filter(|value| !value.is_null())?.clone()))
            })
            .collect();
        Ok(ToolDefinition {
            name: name.to_owned(),
            description: description.unwrap_or_else(|| "No description was given.".to_owned()),
            title,
            input_schema,
            output_schema,
            read_only_hint: annotations["readOnlyHint"] == true
                && annotations["destructiveHint"] != json!(true),
            result_chars: result_chars
                .and_then(|chars| usize::try_from(chars).ok())
                .filter(|chars| (1..=RESULT_CHARS_MAX).contains(chars)),
            needs_task: value["execution"]["taskSupport"] == "required",
            needs_user: meta["anthropic/requiresUserInteraction"] == true,
            always_load: meta["anthropic/alwaysLoad"].as_bool(),
            approved_as: Value::Object(approved_as),
        })
    }

    /// What a call will touch, as far as anybody but the server knows: anything. Where the user says that the
    /// hints of this server hold, a tool that says it only looks may run beside others; it is asked for all
    /// the same.
    pub(crate) fn effects(&self, config: &ServerConfig) -> Effects {
        if self.read_only_hint && config.read_only_hints_hold {
            only_looks(config)
        } else {
            Effects::unknown()
        }
    }
}

/// What a request to a server touches that only looks: it may run beside others, and is asked for.
pub(crate) fn only_looks(config: &ServerConfig) -> Effects {
    match host_of(config) {
        Some(host) => Effects::observes(host),
        None => Effects::writes_state(format!("mcp:{}", config.name)).synchronised(),
    }
}

/// The host that a remote server is at.
pub(crate) fn host_of(config: &ServerConfig) -> Option<String> {
    use crate::config::ServerTransport::{Http, InProcess, Sse, Stdio, WebSocket};
    match &config.transport {
        Http(remote) | Sse(remote) | WebSocket(remote) => {
            url::Url::parse(&remote.url).ok()?.host_str().map(str::to_owned)
        }
        Stdio(_) | InProcess(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use haft::effects::table::{ApprovalNeed, ConcurrencyClass, EffectFacts};

    use super::*;
    use crate::config::ServerTransport;

    fn hinting() -> Value {
        json!({"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}})
    }

    #[test]
    fn a_definition_without_name_or_schema_is_none() {
        for bad in [
            json!({}),
            json!({"name": ""}),
            json!({"name": "x"}),
            json!({"name": "x", "inputSchema": true}),
            json!(3),
        ] {
            assert!(ToolDefinition::read(&bad).is_err(), "{bad}");
        }
        let long = json!({"name": "x".repeat(NAME_CHARS_MAX + 1), "inputSchema": {}});
        assert!(ToolDefinition::read(&long).is_err());
        let bare = ToolDefinition::read(&json!({"name": "x", "inputSchema": {}})).unwrap();
        assert_eq!((bare.description.as_str(), bare.read_only_hint), ("No description was given.", false));
    }

    #[test]
    fn words_are_bounded_and_visible_but_approved_as_they_came() {
        let value = json!({"name": "x", "description": format!("a\u{200b}{}", "b".repeat(5_000)), "inputSchema": {},
            "execution": {"taskSupport": "optional"}});
        let read = ToolDefinition::read(&value).unwrap();
        assert!(read.description.starts_with("a\\u{200b}b") && read.description.ends_with("… (cut)"));
        assert_eq!(read.approved_as["description"], value["description"]);
        assert!(read.approved_as.get("execution").is_none());
    }

    #[test]
    fn hints_never_loosen_and_count_for_concurrency_only_where_the_user_said_so() {
        let judged = |definition: &Value, config: &ServerConfig| {
            let effects = ToolDefinition::read(definition).unwrap().effects(config);
            effects.consistent().unwrap();
            let judged = effects.judge(&EffectFacts::unresolved());
            (judged.concurrency_safe, judged.asks)
        };
        let mut local = ServerConfig::new("s", ServerTransport::stdio("x", ["y"]));
        let mut remote = ServerConfig::new("s", ServerTransport::http("https://x.example/mcp"));
        for config in [&local, &remote] {
            assert_eq!(judged(&hinting(), config), (false, ApprovalNeed::Always));
        }
        local.read_only_hints_hold = true;
        remote.read_only_hints_hold = true;
        assert_eq!(judged(&hinting(), &local), (true, ApprovalNeed::ByTool));
        assert_eq!(judged(&hinting(), &remote), (true, ApprovalNeed::Yes));
        let mut both = hinting();
        both["annotations"]["destructiveHint"] = json!(true);
        assert_eq!(judged(&both, &remote), (false, ApprovalNeed::Always), "a contradiction is no promise");
        let unknown = ToolDefinition::read(&both).unwrap().effects(&remote);
        assert_eq!(unknown.judge(&EffectFacts::unresolved()).class, ConcurrencyClass::Unsafe);
    }

    #[test]
    fn what_a_server_says_in_meta_is_bounded() {
        let with = |chars: Value| {
            let value =
                json!({"name": "x", "inputSchema": {}, "_meta": {"anthropic/maxResultSizeChars": chars}});
            ToolDefinition::read(&value).unwrap().result_chars
        };
        assert_eq!(
            (with(json!(400_000)), with(json!(500_001)), with(json!(0)), with(json!("9"))),
            (Some(400_000), None, None, None)
        );
    }
}
