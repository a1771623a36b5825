//! Asking through the client: its user is shown a form, and only what they clearly said counts.
//!
//! A client may fill a form by itself, take the first choice, or say yes with an empty form. So no choice is
//! preset, the first one is no, and anything that isn't one of the choices is a no as well.

use std::path::PathBuf;

use haft::future::BoxFuture;
use haft::ports::{ApprovalAnswer, ApprovalRequest, Asker, FormAnswer, UserForm, UserPage, UserQuestion};
use haft::text::truncate_chars;
use haft_mcp::server::{ClientPeer, ElicitationAnswer, InputRequest, random_secret};
use serde_json::{Map, Value, json};

use super::active_calls::ActiveCalls;
use crate::output::one_line;
use crate::terminal;

/// How many characters of a reason the model is told.
const REASON_CHARS_MAX: usize = 1_000;
/// How many characters of an answer are taken.
const ANSWER_CHARS_MAX: usize = 20_000;

const DENY: &str = "deny";
const ONCE: &str = "allow once";
const SESSION: &str = "allow for this session";

/// The user of one client.
pub(super) struct ClientAsker {
    pub(super) calls: ActiveCalls,
    pub(super) client: u64,
    pub(super) cwd: PathBuf,
}

impl Asker for ClientAsker {
    fn approve<'a>(&'a self, approval: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let Some(peer) = self.calls.peer(&approval.call_id) else {
                return ApprovalAnswer::NoBecause("nobody waits for this call any more".to_owned());
            };
            let lasting = !approval.lasting_rules.is_empty();
            let message = terminal::approval_text(approval, &self.cwd, "session");
            match peer.elicit(&message, approval_form(lasting)).await {
                Ok(said) => interpret_answer(said, lasting),
                Err(why) => ApprovalAnswer::NoBecause(format!("the question got no answer, {why}")),
            }
        })
    }

    fn question<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(async move { ask_client(&self.calls.of_client(self.client)?, question).await })
    }
}

/// Whoever waits for what servers work on: servers belong to all clients, and their questions to the one that
/// made the call.
pub(super) struct ServerQuestions(pub(super) ActiveCalls);

impl Asker for ServerQuestions {
    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::No))
    }

    fn question<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(async move { ask_client(&self.0.of_servers()?, question).await })
    }

    fn form<'a>(&'a self, form: &'a UserForm) -> BoxFuture<'a, FormAnswer> {
        Box::pin(async move {
            // Whose question it is isn't known: nobody's.
            let Some(peer) = self.0.of_servers() else { return FormAnswer::Declined };
            let ask =
                InputRequest::form(&form.text, form.schema.clone()).with_field_order(form.order.clone());
            match peer.ask(ask).await.and_then(ElicitationAnswer::from_value) {
                Ok(ElicitationAnswer::Accepted(values)) => FormAnswer::Values(values),
                Ok(ElicitationAnswer::Declined) | Err(_) => FormAnswer::Declined,
                Ok(ElicitationAnswer::Dismissed) => FormAnswer::Dismissed,
            }
        })
    }

    fn page<'a>(&'a self, page: &'a UserPage) -> BoxFuture<'a, FormAnswer> {
        Box::pin(async move {
            let Some(peer) = self.0.of_servers() else { return FormAnswer::Declined };
            let Some(id) = random_secret(16).filter(|_| peer.client().capabilities.url) else {
                return FormAnswer::OneByOne;
            };
            match peer.elicit_url(&page.text, &page.url, &id).await {
                Ok(ElicitationAnswer::Accepted(_)) => FormAnswer::Values(Map::new()),
                Ok(ElicitationAnswer::Declined) | Err(_) => FormAnswer::Declined,
                Ok(ElicitationAnswer::Dismissed) => FormAnswer::Dismissed,
            }
        })
    }
}

fn approval_form(lasting: bool) -> Value {
    let choices: &[&str] = if lasting { &[DENY, ONCE, SESSION] } else { &[DENY, ONCE] };
    json!({"type": "object", "required": ["decision"], "properties": {
        "decision": {"type": "string", "title": "Allow this call?", "enum": choices},
        "reason": {"type": "string", "title": "Reason", "maxLength": REASON_CHARS_MAX,
            "description": "If you deny: what the model is told. May be left empty."},
    }})
}

/// What an answer means. Only a clear yes is one.
fn interpret_answer(said: ElicitationAnswer, lasting: bool) -> ApprovalAnswer {
    let fields = match said {
        ElicitationAnswer::Accepted(fields) => fields,
        ElicitationAnswer::Declined => return ApprovalAnswer::No,
        ElicitationAnswer::Dismissed => {
            return ApprovalAnswer::NoBecause("they put the question away".to_owned());
        }
    };
    let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default().trim();
    match text("decision") {
        ONCE => ApprovalAnswer::Once,
        SESSION if lasting => ApprovalAnswer::Session,
        _ => match text("reason") {
            "" => ApprovalAnswer::No,
            reason => ApprovalAnswer::NoBecause(one_line(truncate_chars(reason, REASON_CHARS_MAX))),
        },
    }
}

/// Puts a question of a tool or a server to the user of a client.
async fn ask_client(peer: &ClientPeer, question: &UserQuestion) -> Option<Vec<String>> {
    let mut message = question.text.clone();
    for choice in question.choices.iter().filter(|choice| choice.description.is_some()) {
        let about = choice.description.as_deref().unwrap_or_default();
        message.push_str(&format!("\n- {}: {}", one_line(&choice.label), one_line(about)));
    }
    match peer.elicit(&message, question_form(question)).await {
        Ok(ElicitationAnswer::Accepted(fields)) => chosen_texts(question, &fields),
        _ => None,
    }
}

fn question_form(question: &UserQuestion) -> Value {
    let labels: Vec<&str> = question.choices.iter().map(|choice| choice.label.as_str()).collect();
    if question.several {
        // A list of choices is younger than most clients; every one of them can show a box to tick.
        let boxes = labels
            .iter()
            .enumerate()
            .map(|(at, label)| (format!("choice_{}", at + 1), json!({"type": "boolean", "title": label})));
        return json!({"type": "object", "properties": boxes.collect::<Map<_, _>>()});
    }
    let field = if labels.is_empty() {
        json!({"type": "string", "title": "Answer", "maxLength": ANSWER_CHARS_MAX})
    } else {
        json!({"type": "string", "title": "Choice", "enum": labels})
    };
    json!({"type": "object", "required": ["answer"], "properties": {"answer": field}})
}

/// The texts chosen or typed; nothing for what isn't among the choices.
fn chosen_texts(question: &UserQuestion, fields: &Map<String, Value>) -> Option<Vec<String>> {
    let labels = question.choices.iter().map(|choice| choice.label.clone());
    if question.several {
        let ticked = |at: usize| fields.get(&format!("choice_{}", at + 1)) == Some(&Value::Bool(true));
        return Some(labels.enumerate().filter(|(at, _)| ticked(*at)).map(|(_, label)| label).collect());
    }
    let answer = fields.get("answer")?.as_str()?;
    let known = question.choices.is_empty() || question.choices.iter().any(|choice| choice.label == answer);
    known.then(|| vec![truncate_chars(answer, ANSWER_CHARS_MAX).to_owned()])
}

#[cfg(test)]
mod tests {
    use haft::ports::AnswerChoice;

    use super::*;

    fn accepted(fields: Value) -> ElicitationAnswer {
        ElicitationAnswer::Accepted(fields.as_object().unwrap().clone())
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        let of = |fields: Value| interpret_answer(accepted(fields), true);
        assert_eq!(of(json!({"decision": ONCE})), ApprovalAnswer::Once);
        assert_eq!(of(json!({"decision": SESSION, "reason": "x"})), ApprovalAnswer::Session);
        assert_eq!(
            of(json!({"decision": DENY, "reason": " too\nbold "})),
            ApprovalAnswer::NoBecause("too\\nbold".into())
        );
        for unclear in [
            json!({}),
            json!({"decision": "yes"}),
            json!({"decision": true}),
            json!({"decision": "Allow once"}),
        ] {
            assert_eq!(of(unclear.clone()), ApprovalAnswer::No, "{unclear}");
        }
        assert_eq!(
            interpret_answer(accepted(json!({"decision": SESSION})), false),
            ApprovalAnswer::No,
            "it was not offered"
        );
        assert_eq!(interpret_answer(ElicitationAnswer::Declined, true), ApprovalAnswer::No);
        assert!(matches!(interpret_answer(ElicitationAnswer::Dismissed, true), ApprovalAnswer::NoBecause(_)));
    }

    #[test]
    fn a_form_presets_nothing_and_begins_with_no() {
        let form = approval_form(true);
        assert_eq!(form["properties"]["decision"]["enum"][0], DENY);
        assert!(!form.to_string().contains("default"));
        assert_eq!(approval_form(false)["properties"]["decision"]["enum"], json!([DENY, ONCE]));
    }

    #[test]
    fn questions_take_what_was_offered() {
        let choice = |label: &str| AnswerChoice { label: label.into(), description: None };
        let mut question =
            UserQuestion { text: "?".into(), choices: vec![choice("a"), choice("b")], several: false };
        let of = |question: &UserQuestion, fields: Value| chosen_texts(question, fields.as_object().unwrap());
        assert_eq!(of(&question, json!({"answer": "b"})), Some(vec!["b".to_owned()]));
        assert_eq!(of(&question, json!({"answer": "c"})), None);
        question.several = true;
        assert_eq!(of(&question, json!({"choice_1": true, "choice_2": "true"})), Some(vec!["a".to_owned()]));
        let open = UserQuestion { text: "?".into(), choices: Vec::new(), several: false };
        assert_eq!(of(&open, json!({"answer": "free"})), Some(vec!["free".to_owned()]));
        assert_eq!(of(&open, json!({})), None);
    }
}
