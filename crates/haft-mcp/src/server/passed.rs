//! What another server sent, as a reply of this one: for offers that pass on what they got.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::offer::ReadReply;
use super::reply::{Block, Body, Contents, PromptReply, Role};

impl ReadReply {
    /// The result of `resources/read`, as it came. What can't be understood in it is left out.
    pub fn passed(read: &Value) -> ReadReply {
        ReadReply::new(read["contents"].as_array().into_iter().flatten().filter_map(Contents::passed))
    }
}

impl Contents {
    fn passed(contents: &Value) -> Option<Contents> {
        let body = match (contents["text"].as_str(), contents["blob"].as_str()) {
            (Some(text), _) => Body::Text(text.into()),
            (None, Some(data)) => {
                // Some servers break the lines.
                let packed: String = data.split_ascii_whitespace().collect();
                Body::Bytes(BASE64_STANDARD.decode(packed).ok()?.into())
            }
            (None, None) => return None,
        };
        let media_type = contents["mimeType"].as_str().map(Arc::from);
        let meta = contents["_meta"].as_object().cloned().filter(|meta: &Map<_, _>| !meta.is_empty());
        Some(Contents { uri: contents["uri"].as_str()?.into(), media_type, body, meta })
    }
}

impl PromptReply {
    /// The result of `prompts/get`, as it came. What can't be understood in it is left out.
    pub fn passed(prompt: &Value) -> PromptReply {
        let message = |message: &Value| {
            let role = match message["role"].as_str()? {
                "user" => Role::User,
                "assistant" => Role::Assistant,
                _ => return None,
            };
            let content = message.get("content").filter(|content| content["type"].is_string())?;
            Some((role, Block::raw(content)))
        };
        let messages = prompt["messages"].as_array().into_iter().flatten().filter_map(message);
        let mut reply = PromptReply::new(messages);
        reply.description = prompt["description"].as_str().map(str::to_owned);
        reply
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_makes_sense_is_passed_on() {
        let read = ReadReply::passed(&json!({"contents": [
            {"uri": "x://1", "text": "words", "mimeType": "text/plain", "_meta": {"a": 1}},
            {"uri": "x://2", "blob": "YW\nJj"},
            {"uri": "x://3"}, {"text": "no address"}, {"uri": "x://4", "blob": "!"}, 7]}));
        let [first, second] = &read.contents[..] else { panic!("{read:?}") };
        assert!(matches!(&first.body, Body::Text(text) if &**text == "words"));
        assert_eq!((first.media_type.as_deref(), first.meta.is_some()), (Some("text/plain"), true));
        assert!(matches!(&second.body, Body::Bytes(bytes) if &**bytes == b"abc"));
        let prompt = PromptReply::passed(&json!({"description": "d", "messages": [
            {"role": "user", "content": {"type": "text", "text": "hi"}},
            {"role": "system", "content": {"type": "text", "text": "no"}},
            {"role": "assistant", "content": "odd"}]}));
        assert_eq!((prompt.messages.len(), prompt.description.as_deref()), (1, Some("d")));
    }
}
