//! Model requests of a server (`sampling/createMessage`). They are disabled unless the user's settings
//! enable them for the server. Then the user approves each request, or all requests of a server in this
//! session.
//!
//! The model receives the server's messages as a separate conversation, without tools and without the
//! session's conversation.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use haft::future::BoxFuture;
use haft::ports::{AnswerChoice, Asker, UserQuestion};
use haft::sync::lock;
use haft_agent::Model;
use haft_mcp::{SamplingHandler, text};
use serde_json::{Value, json};

use crate::run::single_reply::single_reply;

/// The maximum number of requests of servers in one session.
const ASKED_MAX: usize = 50;
/// The maximum length of a request, in characters.
const QUESTION_CHARS_MAX: usize = 100_000;
/// The maximum number of characters shown to the user.
const SHOWN_CHARS_MAX: usize = 2_000;

const ONCE: &str = "Yes, this once";
const ALWAYS: &str = "Yes, whatever it asks in this session";
const NO: &str = "No";

/// Answers with the model of a session, once it has one.
pub struct ModelSampler {
    model: OnceLock<Arc<dyn Model>>,
    asker: Option<Arc<dyn Asker>>,
    asked: AtomicUsize,
    allowed: Mutex<BTreeSet<String>>,
}

impl ModelSampler {
    pub fn new(asker: Option<Arc<dyn Asker>>) -> ModelSampler {
        ModelSampler { model: OnceLock::new(), asker, asked: AtomicUsize::new(0), allowed: Mutex::default() }
    }

    /// Sets the model. Only the first call has an effect.
    pub fn set_model(&self, model: Arc<dyn Model>) {
        let _ = self.model.set(model);
    }

    async fn may(&self, server: &str, question: &str) -> Result<(), String> {
        if lock(&self.allowed).contains(server) {
            return Ok(());
        }
        let asker = self
            .asker
            .as_ref()
            .filter(|asker| asker.is_available())
            .ok_or("nobody is there who could allow it")?;
        let words = format!(
            "The MCP server `{server}` wants to ask the model, at your cost:\n{}",
            text::display_text(question, SHOWN_CHARS_MAX)
        );
        let choice = |label: &str| AnswerChoice { label: label.to_owned(), description: None };
        let choices = vec![choice(ONCE), choice(ALWAYS), choice(NO)];
        let answer = asker.question(&UserQuestion { text: words, choices, several: false }).await;
        match answer.as_deref() {
            Some([answer]) if answer == ONCE => Ok(()),
            Some([answer]) if answer == ALWAYS => {
                lock(&self.allowed).insert(server.to_owned());
                Ok(())
            }
            _ => Err("the user said no".to_owned()),
        }
    }
}

impl SamplingHandler for ModelSampler {
    fn sample<'a>(&'a self, server: &'a str, params: Value) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move {
            let model = self.model.get().ok_or("this session has no model")?;
            let question = sample_question(&params)?;
            if self.asked.fetch_add(1, Ordering::Relaxed) >= ASKED_MAX {
                return Err(format!("servers may ask {ASKED_MAX} times in a session"));
            }
            self.may(server, &question).await?;
            let mut system = vec!["Another program asks you something. Answer it, and nothing else.".into()];
            system.extend(params["systemPrompt"].as_str().map(Arc::from));
            let reply = single_reply(&**model, &system, &question).await;
            if reply.text().is_empty() {
                return Err("the model gave no answer".to_owned());
            }
            Ok(json!({
                "role": "assistant", "model": model.name(), "stopReason": "endTurn",
                "content": {"type": "text", "text": reply.text()},
            }))
        })
    }
}

/// Returns the server's messages as one text.
fn sample_question(params: &Value) -> Result<String, String> {
    let messages = params["messages"].as_array().filter(|messages| !messages.is_empty());
    let messages = messages.ok_or("there are no messages")?;
    let mut parts = Vec::new();
    for message in messages {
        let blocks = match &message["content"] {
            Value::Array(blocks) => blocks.clone(),
            block => vec![block.clone()],
        };
        for block in blocks {
            let words = block["text"].as_str().filter(|_| block["type"] == "text");
            let words = words.ok_or("only text can be asked here")?;
            match (messages.len(), message["role"].as_str()) {
                (1, _) => parts.push(words.to_owned()),
                (_, Some("assistant")) => parts.push(format!("You said:\n{words}")),
                _ => parts.push(format!("The program said:\n{words}")),
            }
        }
    }
    let text = parts.join("\n\n");
    match text.chars().nth(QUESTION_CHARS_MAX) {
        Some(_) => Err(format!("a question may have {QUESTION_CHARS_MAX} characters")),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_text_and_only_text_is_asked() {
        let text =
            |role: &str, words: &str| json!({"role": role, "content": {"type": "text", "text": words}});
        let ask = |messages: Value| sample_question(&json!({"messages": messages}));
        assert_eq!(ask(json!([text("user", "Why?")])), Ok("Why?".to_owned()));
        let both = ask(json!([text("user", "a"), text("assistant", "b")])).unwrap();
        assert_eq!(both, "The program said:\na\n\nYou said:\nb");
        assert!(ask(json!([])).is_err());
        assert!(ask(json!([{"role": "user", "content": {"type": "image", "data": ""}}])).is_err());
        assert!(ask(json!([text("user", &"x".repeat(QUESTION_CHARS_MAX + 1))])).is_err());
    }
}
