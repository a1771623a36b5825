//! A conversation in the form of its provider, as it is sent with every request.
//!
//! Its items are opaque: what has to be known about them, its format knows. So a conversation belongs to one
//! format.

use std::collections::{HashMap, HashSet};

use haft::ToolResult;
use serde_json::Value;

use crate::message_format::{MessageFormat, UserPart};
use crate::reply::ModelReply;

/// A conversation with a model, as far as it has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    format: &'static dyn MessageFormat,
    items: Vec<Value>,
    /// Where the whole of long results is, by call.
    offloaded: HashMap<String, String>,
}

impl Conversation {
    /// Creates an empty conversation.
    pub fn new(format: impl Into<&'static dyn MessageFormat>) -> Conversation {
        Conversation::from_items(format, Vec::new())
    }

    /// Restores a conversation from its items as [`items`](Conversation::items) gave them.
    pub fn from_items(format: impl Into<&'static dyn MessageFormat>, items: Vec<Value>) -> Conversation {
        Conversation { format: format.into(), items, offloaded: HashMap::new() }
    }

    /// Returns the format of its items.
    pub fn format(&self) -> &'static dyn MessageFormat {
        self.format
    }

    /// Returns its items, in the provider's form.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// Returns whether it has no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds words of the user.
    pub fn say(&mut self, text: &str) {
        self.say_parts(&[UserPart::Text(text.to_owned())]);
    }

    /// Adds what the user says. Right after results it goes into the same item, where the format has results
    /// there.
    pub fn say_parts(&mut self, parts: &[UserPart]) {
        self.format.push_user(&mut self.items, parts);
    }

    /// Puts words of the user before everything else, unless the conversation starts with the user already.
    /// Some providers take no other conversation.
    pub fn start_with_user(&mut self, text: &str) {
        if !self.format.starts_with_user(&self.items) {
            let mut first = Vec::new();
            self.format.push_user(&mut first, &[UserPart::Text(text.to_owned())]);
            self.items.splice(0..0, first);
        }
    }

    /// Adds a model's reply. Calls that wait for an answer there have to be answered next.
    ///
    /// # Panics
    /// The reply has another format.
    pub fn reply(&mut self, reply: &ModelReply) {
        assert_eq!(reply.format(), self.format, "a conversation belongs to one format");
        self.items.extend(reply.items().iter().cloned());
    }

    /// The same without a copy: the reply's items are here from now on.
    pub(crate) fn take(&mut self, reply: &mut ModelReply) {
        assert_eq!(reply.format(), self.format, "a conversation belongs to one format");
        self.items.append(&mut reply.items);
    }

    /// Remembers where the whole of long results is, for the time when they are cleared.
    pub(crate) fn remember(&mut self, results: &[ToolResult]) {
        for result in results {
            // Calls without an id can't be distinguished later.
            if let Some(path) = result.offloaded_to().filter(|_| !result.call_id().is_empty()) {
                self.offloaded.insert(result.call_id().to_owned(), path.display().to_string());
            }
        }
    }

    /// Adds the answer to a reply's calls, as [`ModelReply::answer`] made it.
    pub fn answer(&mut self, answer: Vec<Value>) {
        self.items.extend(answer);
    }

    /// Returns the names of the tools whose definitions it holds because the model searched for them. None in
    /// formats that have no form for that.
    pub fn loaded_tools(&self) -> HashSet<String> {
        self.format.loaded_tools(&self.items)
    }

    /// Returns whether it ends with something that the model has not answered.
    pub fn awaits_reply(&self) -> bool {
        self.format.awaits_reply(&self.items)
    }

    /// Estimates how many tokens it has, for lack of the model's own count.
    pub fn estimate_tokens(&self) -> u64 {
        self.estimate_tokens_from(0)
    }

    /// The same from an item on.
    pub(crate) fn estimate_tokens_from(&self, first: usize) -> u64 {
        self.format.estimate_tokens(self.items.get(first..).unwrap_or_default())
    }

    /// Clears old results: all but the newest `keep` lose their content and get the text that `note` returns
    /// for the call's id. Results that are shorter than their note stay. Returns how many were cleared.
    pub fn clear_results(&mut self, keep: usize, note: impl Fn(&str) -> String) -> usize {
        self.format.clear_results(&mut self.items, keep, &note)
    }

    /// The same, with notes that name the file with the whole result, if there is one.
    pub(crate) fn clear_old_results(&mut self, keep: usize) -> usize {
        let note = |id: &str| cleared_note(self.offloaded.get(id));
        self.format.clear_results(&mut self.items, keep, &note)
    }

    /// Returns whether there is anything that could be cleared so.
    pub(crate) fn has_old_results(&self, keep: usize) -> bool {
        self.format.has_clearable_results(&self.items, keep, &|_| cleared_note(None))
    }
}

/// What a result says that was cleared.
fn cleared_note(offloaded: Option<&String>) -> String {
    match offloaded {
        Some(path) => format!("[cleared to make room; the whole output is in {path}]"),
        None => "[cleared to make room; call the tool again if it is needed; it may have changed since]"
            .to_owned(),
    }
}
