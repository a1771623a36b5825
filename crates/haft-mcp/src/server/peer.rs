//! The client as an offer sees it while it works on a request: told of progress, asked for what only it knows.
//!
//! How a question reaches the client is the business of [`Line`]: a request of ours where the revision has them, a result
//! that asks for input where it has not. In both cases the offer's future waits where it stands and goes on with the
//! answer; nothing of it is run twice.

use std::fmt;
use std::sync::Arc;

use haft::future::BoxFuture;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value, json};

use super::reply::{Refusal, RefusalKind};
use super::who::Client;

/// The client of one request. Clones are the same.
#[derive(Clone)]
pub struct Peer(Arc<Shared>);

struct Shared {
    client: Arc<Client>,
    line: Option<Arc<dyn Line>>,
}

/// What carries words to a client, for one request.
pub(crate) trait Line: Send + Sync {
    /// Sends a notification, or drops it where it can't be sent now.
    fn notify(&self, method: &'static str, params: &dyn Params);

    /// What the client wants progress to be called, if it wants any.
    fn progress(&self) -> Option<Value>;

    /// Whether lines of a log of this level are wanted.
    fn wants(&self, level: Level) -> bool;

    /// Lets the client go, where it can come back for the rest.
    fn hang_up(&self) {}

    /// Asks all of these; one answer for each, in order.
    fn ask<'a>(&'a self, asks: Vec<Ask>) -> BoxFuture<'a, Result<Vec<Value>, NotAnswered>>;
}

/// Parameters that can be written.
pub(crate) trait Params {
    fn write(&self, to: &mut Vec<u8>) -> serde_json::Result<()>;
}

impl<T: serde::Serialize> Params for T {
    fn write(&self, to: &mut Vec<u8>) -> serde_json::Result<()> {
        serde_json::to_writer(to, self)
    }
}

impl Peer {
    pub(crate) fn new(client: Arc<Client>, line: Arc<dyn Line>) -> Peer {
        Peer(Arc::new(Shared { client, line: Some(line) }))
    }

    /// A client that hears nothing and answers nothing, for tests of an offer.
    pub fn silent(client: Client) -> Peer {
        Peer(Arc::new(Shared { client: Arc::new(client), line: None }))
    }

    /// Who it is.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Whether it wants to hear of progress; if not, telling costs nothing.
    pub fn wants_progress(&self) -> bool {
        self.0.line.as_ref().is_some_and(|line| line.progress().is_some())
    }

    /// Tells how far the request is. `progress` has to grow. Never waits; what a slow client can't take is left out.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        #[derive(serde::Serialize)]
        struct Told<'a> {
            #[serde(rename = "progressToken")]
            token: &'a Value,
            progress: f64,
            #[serde(skip_serializing_if = "Option::is_none")]
            total: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            message: Option<&'a str>,
        }
        let total = total.filter(|total| total.is_finite());
        if let Some(line) = &self.0.line
            && progress.is_finite()
            && let Some(token) = &line.progress()
        {
            line.notify("notifications/progress", &Told { token, progress, total, message });
        }
    }

    /// Writes a line to the client's log, if it wants lines of this level. Never waits.
    pub fn log(&self, level: Level, logger: Option<&str>, data: &Value) {
        let Some(line) = self.0.line.as_ref().filter(|line| line.wants(level)) else { return };
        let mut params = json!({"level": level.name(), "data": data});
        if let Some(logger) = logger {
            params["logger"] = logger.into();
        }
        line.notify("notifications/message", &params);
    }

    /// Lets the client go while this takes long, where it can come back for the rest: over HTTP, in the revision that has words
    /// for it (2025-11-25). Elsewhere nothing happens.
    pub fn hang_up(&self) {
        if let Some(line) = &self.0.line {
            line.hang_up();
        }
    }

    /// Asks for one thing.
    ///
    /// # Errors
    /// The client can't be asked that, said no, or is gone.
    ///
    /// # Cancel safety
    /// Dropped, the client is told that nobody waits any more, where its revision has words for that.
    pub async fn ask(&self, ask: Ask) -> Result<Value, NotAnswered> {
        let mut answers = self.ask_all(vec![ask]).await?;
        answers.pop().ok_or(NotAnswered::Gone)
    }

    /// Asks for several things at once: in the newest revision that is one round. One answer for each, in order.
    ///
    /// # Errors
    /// As [`Peer::ask`], for the first that has no answer.
    pub async fn ask_all(&self, asks: Vec<Ask>) -> Result<Vec<Value>, NotAnswered> {
        for ask in &asks {
            self.can(ask)?;
        }
        match &self.0.line {
            Some(line) => line.ask(asks).await,
            None => Err(NotAnswered::Gone),
        }
    }

    fn can(&self, ask: &Ask) -> Result<(), NotAnswered> {
        let can = self.0.client.can;
        let fits = match ask.needs {
            Needs::Form => can.form,
            Needs::Url => can.url,
            Needs::Sampling => can.sampling,
            Needs::SamplingTools => can.sampling_tools,
            Needs::Roots => can.roots,
        };
        if fits { Ok(()) } else { Err(NotAnswered::Unable(ask.needs)) }
    }

    /// Shows a form to the user.
    ///
    /// # Errors
    /// As [`Peer::ask`]. A user who says no is an answer.
    pub async fn elicit(&self, message: &str, schema: Value) -> Result<Elicited, NotAnswered> {
        Elicited::of(self.ask(Ask::form(message, schema)).await?)
    }

    /// Shows an address to the user, who does something there. The answer says only whether they agreed to go.
    ///
    /// # Errors
    /// As [`Peer::ask`].
    pub async fn elicit_url(&self, message: &str, url: &str, id: &str) -> Result<Elicited, NotAnswered> {
        Elicited::of(self.ask(Ask::url(message, url, id)).await?)
    }

    /// Asks the client's model: parameters and result of `sampling/createMessage` as the protocol has them.
    ///
    /// # Errors
    /// As [`Peer::ask`].
    pub async fn sample(&self, params: Value) -> Result<Value, NotAnswered> {
        self.ask(Ask::sample(params)).await
    }

    /// The folders that the client works in: addresses, and names where they have one.
    ///
    /// # Errors
    /// As [`Peer::ask`].
    pub async fn roots(&self) -> Result<Vec<(String, Option<String>)>, NotAnswered> {
        let answer = self.ask(Ask::roots()).await?;
        let root =
            |root: &Value| Some((root["uri"].as_str()?.to_owned(), root["name"].as_str().map(str::to_owned)));
        let roots = answer["roots"].as_array().ok_or(NotAnswered::Senseless)?;
        Ok(roots.iter().take(crate::limits::ROOTS_MAX).filter_map(root).collect())
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("client", &self.0.client).finish_non_exhaustive()
    }
}

/// Something that a client is asked for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Ask {
    /// The name of the question, where it has one of its own.
    ///
    /// In the newest revision an answer that came with the request under this name is taken without asking. So a question
    /// has a name only if it means the same whenever it is asked; a question about one thing, such as an approval, has
    /// none, and then nobody can answer it before it was asked.
    pub key: Option<String>,
    pub(crate) method: &'static str,
    pub(crate) params: Value,
    pub(crate) needs: Needs,
    /// The fields of a form, in the order in which they are sent.
    order: Vec<String>,
}

/// What a client must be able to do for a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Needs {
    /// Show forms.
    Form,
    /// Show addresses.
    Url,
    /// Ask a model.
    Sampling,
    /// Ask a model that has tools.
    SamplingTools,
    /// Name its folders.
    Roots,
}

impl Needs {
    /// As it is announced.
    pub(crate) fn capability(self) -> Value {
        match self {
            Needs::Form => json!({"elicitation": {"form": {}}}),
            Needs::Url => json!({"elicitation": {"url": {}}}),
            Needs::Sampling => json!({"sampling": {}}),
            Needs::SamplingTools => json!({"sampling": {"tools": {}}}),
            Needs::Roots => json!({"roots": {}}),
        }
    }
}

impl Ask {
    fn new(method: &'static str, params: Value, needs: Needs) -> Ask {
        Ask { key: None, method, params, needs, order: Vec::new() }
    }

    /// A form: a flat schema of an object, as the protocol allows it.
    pub fn form(message: &str, schema: Value) -> Ask {
        let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
        Ask::new("elicitation/create", params, Needs::Form)
    }

    /// An address to go to. The id tells this wish from others.
    pub fn url(message: &str, url: &str, id: &str) -> Ask {
        let params = json!({"mode": "url", "message": message, "url": url, "elicitationId": id});
        Ask::new("elicitation/create", params, Needs::Url)
    }

    /// A message of the client's model: the parameters of `sampling/createMessage`.
    pub fn sample(params: Value) -> Ask {
        let needs = if params.get("tools").is_some() { Needs::SamplingTools } else { Needs::Sampling };
        Ask::new("sampling/createMessage", params, needs)
    }

    /// The folders that the client works in.
    pub fn roots() -> Ask {
        Ask::new("roots/list", json!({}), Needs::Roots)
    }

    /// The same with the fields of its form in this order; what isn't named comes last, by name. JSON has no order, and most
    /// clients show a form as it comes.
    #[must_use]
    pub fn with_order(mut self, names: Vec<String>) -> Ask {
        self.order = names;
        self
    }

    /// Its parameters, as a client is sent them: the mode only where the revision has it.
    pub(crate) fn written(&self, with_mode: bool) -> Written<'_> {
        Written { ask: self, with_mode }
    }

    /// The same under a name of its own.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Ask {
        self.key = Some(key.into());
        self
    }
}

/// The parameters of a question on their way to a client.
pub(crate) struct Written<'a> {
    ask: &'a Ask,
    with_mode: bool,
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Value::Object(params) = &self.ask.params else { return self.ask.params.serialize(to) };
        let is_form = self.ask.needs == Needs::Form;
        let without_mode = !self.with_mode && self.ask.method == "elicitation/create";
        let mut map = to.serialize_map(None)?;
        for (key, value) in params {
            match key.as_str() {
                "mode" if without_mode => {}
                "requestedSchema" if is_form => map.serialize_entry(key, &Form(value, &self.ask.order))?,
                _ => map.serialize_entry(key, value)?,
            }
        }
        map.end()
    }
}

/// The schema of a form with its fields in an order.
struct Form<'a>(&'a Value, &'a [String]);

impl Serialize for Form<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Value::Object(schema) = self.0 else { return self.0.serialize(to) };
        let mut map = to.serialize_map(None)?;
        for (key, value) in schema {
            match (key.as_str(), value) {
                ("properties", Value::Object(fields)) => {
                    map.serialize_entry(key, &Fields(fields, self.1))?;
                }
                _ => map.serialize_entry(key, value)?,
            }
        }
        map.end()
    }
}

struct Fields<'a>(&'a Map<String, Value>, &'a [String]);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Fields(fields, order) = *self;
        let first = order.iter().enumerate().filter(|(at, name)| !order[..*at].contains(name));
        let first = first.filter_map(|(_, name)| fields.get_key_value(name));
        to.collect_map(first.chain(fields.iter().filter(|(name, _)| !order.contains(name))))
    }
}

/// What the user said to a form or an address.
#[derive(Debug, Clone, PartialEq)]
pub enum Elicited {
    /// Yes, with the fields of the form. They are not checked: a client may send anything.
    Accepted(Map<String, Value>),
    /// No.
    Declined,
    /// Nothing: the question was put away.
    Dismissed,
}

impl Elicited {
    /// From an answer as it came.
    ///
    /// # Errors
    /// It says nothing that makes sense.
    pub fn of(mut answer: Value) -> Result<Elicited, NotAnswered> {
        match answer["action"].as_str() {
            Some("accept") => Ok(Elicited::Accepted(match answer["content"].take() {
                Value::Object(content) => content,
                Value::Null => Map::new(),
                _ => return Err(NotAnswered::Senseless),
            })),
            Some("decline") => Ok(Elicited::Declined),
            Some("cancel") => Ok(Elicited::Dismissed),
            _ => Err(NotAnswered::Senseless),
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum NotAnswered {
    /// The client announced no such ability. Nothing was sent.
    Unable(Needs),
    /// The client refused, in its own words.
    Refused {
        /// Its number.
        code: i64,
        /// Its words.
        message: String,
    },
    /// What came makes no sense.
    Senseless,
    /// Too much is being asked already, or was asked too often.
    TooMuch,
    /// The client is gone, or nobody waits for the request any more.
    Gone,
}

impl fmt::Display for NotAnswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAnswered::Unable(Needs::Form) => f.write_str("the client can't show forms to its user"),
            NotAnswered::Unable(Needs::Url) => f.write_str("the client can't show addresses to its user"),
            NotAnswered::Unable(Needs::Sampling) => f.write_str("the client lends no model"),
            NotAnswered::Unable(Needs::SamplingTools) => f.write_str("the client lends no model with tools"),
            NotAnswered::Unable(Needs::Roots) => f.write_str("the client names no folders"),
            NotAnswered::Refused { message, .. } => {
                write!(f, "the client refused: {}", crate::text::line(message, 500))
            }
            NotAnswered::Senseless => f.write_str("the client's answer makes no sense"),
            NotAnswered::TooMuch => f.write_str("the client is asked too much at once"),
            NotAnswered::Gone => f.write_str("the client is gone"),
        }
    }
}

impl std::error::Error for NotAnswered {}

impl From<NotAnswered> for Refusal {
    fn from(why: NotAnswered) -> Refusal {
        match why {
            NotAnswered::Unable(needs) => Refusal::new(RefusalKind::MissingAbility, why.to_string())
                .with_data(json!({"requiredCapabilities": needs.capability()})),
            why => Refusal::internal(why.to_string()),
        }
    }
}

/// How much a line of a log matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of syslog")]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Level {
    const ALL: [Level; 8] = [
        Level::Debug,
        Level::Info,
        Level::Notice,
        Level::Warning,
        Level::Error,
        Level::Critical,
        Level::Alert,
        Level::Emergency,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Notice => "notice",
            Level::Warning => "warning",
            Level::Error => "error",
            Level::Critical => "critical",
            Level::Alert => "alert",
            Level::Emergency => "emergency",
        }
    }

    /// The level of this name.
    pub fn of(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::who::{Abilities, Revision, Way};

    #[tokio::test]
    async fn what_a_client_cannot_do_is_not_asked() {
        let client = Client::new(Way::Stdio, Revision::V2026_07_28)
            .with_abilities(Abilities::of(&json!({"elicitation": {}})));
        let peer = Peer::silent(client);
        assert_eq!(peer.roots().await, Err(NotAnswered::Unable(Needs::Roots)));
        assert_eq!(
            peer.elicit_url("m", "https://x.example", "1").await,
            Err(NotAnswered::Unable(Needs::Url))
        );
        assert_eq!(peer.sample(json!({"tools": []})).await, Err(NotAnswered::Unable(Needs::SamplingTools)));
        assert_eq!(peer.elicit("m", json!({})).await, Err(NotAnswered::Gone));
        let refusal = Refusal::from(NotAnswered::Unable(Needs::Sampling));
        assert_eq!(refusal.code(Revision::V2026_07_28), -32021);
        assert_eq!(refusal.data, Some(json!({"requiredCapabilities": {"sampling": {}}})));
    }

    #[test]
    fn an_answer_says_yes_no_or_nothing() {
        let of = |value| Elicited::of(value);
        assert_eq!(of(json!({"action": "accept"})), Ok(Elicited::Accepted(Map::new())));
        assert_eq!(of(json!({"action": "decline", "content": 3})), Ok(Elicited::Declined));
        assert_eq!(of(json!({"action": "cancel"})), Ok(Elicited::Dismissed));
        for odd in [json!({"action": "accept", "content": 3}), json!({}), json!(3), json!({"action": "yes"})]
        {
            assert_eq!(of(odd), Err(NotAnswered::Senseless));
        }
    }

    #[test]
    fn a_form_is_written_in_its_order() {
        let schema = json!({"type": "object", "properties": {"a": 1, "b": 2, "c": 3}});
        let ask = Ask::form("?", schema).with_order(["c", "x", "c", "a"].map(str::to_owned).to_vec());
        let text = |with_mode| serde_json::to_string(&ask.written(with_mode)).unwrap();
        let form = r#""requestedSchema":{"properties":{"c":3,"a":1,"b":2},"type":"object"}"#;
        assert_eq!(text(true), format!(r#"{{"message":"?","mode":"form",{form}}}"#));
        assert_eq!(text(false), format!(r#"{{"message":"?",{form}}}"#));
        let roots = Ask::roots();
        assert_eq!(serde_json::to_string(&roots.written(false)).unwrap(), "{}");
    }

    #[test]
    fn levels_are_ordered_as_they_matter() {
        assert!(Level::of("warning") > Level::of("info"));
        assert_eq!(Level::of("loud"), None);
    }
}
