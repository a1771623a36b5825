//! The port to the user: approvals of calls, and questions that tools ask.

use serde_json::{Map, Value};

use crate::decision::{CallWarning, Decision};
use crate::effects::Effects;
use crate::future::BoxFuture;
use crate::view::CallView;

/// How many lasting rules have a line each.
const LASTING_LINES_MAX: usize = 5;

/// Asks the user.
///
/// The engine calls [`approve`](Asker::approve) for a call that needs a yes, from the call's own task, while
/// it holds no slot and no lock: an answer may take as long as it takes. Several calls may ask at once; an
/// implementation with one screen queues them. A panic counts as no.
///
/// # Cancel safety
/// The future is dropped when the call is cancelled; the question should then disappear.
pub trait Asker: Send + Sync + 'static {
    /// Returns whether a user can answer now. If not, a call that would ask is denied, and tools that need a
    /// user are not offered. It is checked for each question, so a user may come and go.
    fn is_available(&self) -> bool {
        true
    }

    /// Asks whether a call may run.
    fn approve<'a>(&'a self, approval: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer>;

    /// Asks what a tool wants to know; the texts chosen or typed, or nothing if the user declined.
    fn question<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>>;

    /// Asks for several things at once, where there is a place to show them together. By default there is
    /// none, and whoever asks does so one by one.
    fn form<'a>(&'a self, form: &'a UserForm) -> BoxFuture<'a, FormAnswer> {
        let _ = form;
        Box::pin(std::future::ready(FormAnswer::OneByOne))
    }

    /// Shows a page that the user is to open, where there is a way to show addresses as such; no values is a
    /// yes. By default there is none, and whoever asks puts it as a question.
    fn page<'a>(&'a self, page: &'a UserPage) -> BoxFuture<'a, FormAnswer> {
        let _ = page;
        Box::pin(std::future::ready(FormAnswer::OneByOne))
    }
}

/// A call that needs a yes, as the user is shown it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The call's id.
    pub call_id: String,
    /// The sub-agent that makes it; none for the main one.
    pub agent: Option<String>,
    /// The tool.
    pub tool: String,
    /// The input as it will run.
    pub input: Value,
    /// The call in a sentence, where the tool has one.
    pub description: Option<String>,
    /// What it will touch.
    pub effects: Effects,
    /// The decision: that it asks, all reasons, and warnings; with a warning never default to yes.
    pub decision: Decision,
    /// What would allow it for good, in words, where something would.
    pub proposed_rule: Option<String>,
    /// The rules that [`ApprovalAnswer::Session`] and [`ApprovalAnswer::Always`] would add; none where they
    /// count for this call alone.
    pub lasting_rules: Vec<String>,
    /// What the tool shows of the call.
    pub view: CallView,
    /// Nothing confines it: it runs in a child process that can do more than it declares, or nothing is known
    /// of what it touches.
    pub unconfined: bool,
    /// What the call touches changed since the user said yes.
    pub again: bool,
}

impl ApprovalRequest {
    /// The lasting rules in lines: one for each of a few, one for all of many, as those of a group of hosts.
    pub fn lasting_lines(&self) -> Vec<String> {
        match &*self.lasting_rules {
            rules if rules.len() > LASTING_LINES_MAX => vec![rules.join(", ")],
            rules => rules.to_vec(),
        }
    }

    /// Why the call asks.
    pub fn reason(&self) -> String {
        self.decision.question()
    }

    /// What the user should know before they say yes.
    pub fn warnings(&self) -> &[CallWarning] {
        &self.decision.warnings
    }

    /// Whether one yes may allow it together with others: nothing warns, and what it may destroy is known to
    /// be nothing.
    pub fn is_harmless(&self) -> bool {
        let destructive = self.decision.effects.class.destructive && self.effects.needs_warning();
        self.warnings().is_empty() && !destructive
    }
}

/// The user's answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ApprovalAnswer {
    /// Yes, this once.
    Once,
    /// Yes, and don't ask again in this session.
    Session,
    /// Yes, and never ask again here.
    Always,
    /// No; the turn ends.
    No,
    /// No, for a reason that the model is told; the turn goes on.
    NoBecause(String),
    /// Yes, but with this input; it is checked and judged like any other.
    Edit(Value),
}

/// A question that a tool asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserQuestion {
    /// The question.
    pub text: String,
    /// What can be chosen; free text if there is nothing.
    pub choices: Vec<AnswerChoice>,
    /// Whether several may be chosen.
    pub several: bool,
}

/// Several things that are asked for at once.
#[derive(Debug, Clone, PartialEq)]
pub struct UserForm {
    /// What is asked, and by whom.
    pub text: String,
    /// The fields: the JSON Schema of an object without objects in it.
    pub schema: Value,
    /// The names of all fields, in the order in which they are asked for: JSON has none.
    pub order: Vec<String>,
}

/// A page that the user is to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserPage {
    /// Who asks, and what for.
    pub text: String,
    /// The address, with `http` or `https`.
    pub url: String,
}

/// What became of a form.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FormAnswer {
    /// It can't be shown; each thing has to be asked for by itself.
    OneByOne,
    /// The user declined.
    Declined,
    /// The user put it away.
    Dismissed,
    /// What the user filled in. Nobody held it against the schema.
    Values(Map<String, Value>),
}

/// Something that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerChoice {
    /// What is chosen.
    pub label: String,
    /// What it means.
    pub description: Option<String>,
}
