//! The seam between the protocol and whoever has tools: what is offered to one client, and who decides that.
//!
//! The protocol's side (`crate::server`) reads and writes messages, keeps sessions, bounds what comes, and asks an [`Offer`]
//! for everything else. An offer knows no JSON-RPC, no transport and no revision; where a question to the client is asked by
//! a request in one revision and by a result in another, it awaits [`Peer::ask`](super::Peer::ask) and doesn't see which.

use std::collections::HashMap;
use std::sync::Arc;

use haft::Cancel;
use haft::future::BoxFuture;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::broadcast;

use super::peer::Peer;
use super::reply::{Completion, Contents, Freshness, PromptReply, Refusal, Reply};
use super::who::Client;

/// Decides what a client is offered.
///
/// Called once for a connection over stdio and for each session of the revisions with a handshake; for requests of the newest
/// one over HTTP, which stand alone, it is called with each. So what is costly is made once and handed out again: one offer
/// for a principal is the usual shape. Several clients may be asked for at the same time.
///
/// An offer that is dropped is one whose client is gone.
pub trait Offers: Send + Sync + 'static {
    /// What this client is offered.
    ///
    /// # Errors
    /// A client that is offered nothing at all; each of its requests is refused with this.
    fn offer<'a>(&'a self, client: &'a Client) -> BoxFuture<'a, Result<Arc<dyn Offer>, Refusal>>;
}

/// One offer for everybody.
impl<O: Offer> Offers for Arc<O> {
    fn offer<'a>(&'a self, _: &'a Client) -> BoxFuture<'a, Result<Arc<dyn Offer>, Refusal>> {
        let offer: Arc<dyn Offer> = self.clone();
        Box::pin(std::future::ready(Ok(offer)))
    }
}

/// What one client is offered.
///
/// All methods may be called at any time and many at once, from tasks of the server. A panic in one is that request's
/// internal error and nothing more.
///
/// # Cancellation
/// When nobody waits for an answer any more (the client said so, its connection is gone, or the server ends) the
/// [`Cancel`] of the request is raised. The future is still polled for [`CANCEL_GRACE`](crate::limits::CANCEL_GRACE), so that
/// it can put things in order, and then dropped; what it gives is thrown away.
///
/// ```
/// use std::sync::Arc;
///
/// use haft::future::BoxFuture;
/// use haft_mcp::server::{About, Call, Features, Listing, Offer, Refusal, Reply};
/// use serde_json::json;
///
/// struct Greeter(Listing);
///
/// impl Offer for Greeter {
///     fn about(&self) -> About {
///         About::new("greeter", "1.0.0")
///     }
///     fn features(&self) -> Features {
///         Features::default().with_tools()
///     }
///     fn tools(&self) -> BoxFuture<'_, Result<Listing, Refusal>> {
///         Box::pin(async { Ok(self.0.clone()) })
///     }
///     fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Refusal>> {
///         Box::pin(async move {
///             match &*call.name {
///                 "greet" => Ok(Reply::text("hello")),
///                 other => Err(Refusal::unknown_tool(other)),
///             }
///         })
///     }
/// }
///
/// let tool = json!({"name": "greet", "description": "Greets.", "inputSchema": {"type": "object"}});
/// let server = haft_mcp::server::Server::new(Arc::new(Greeter(Listing::new([tool]))));
/// # drop(server);
/// ```
pub trait Offer: Send + Sync + 'static {
    /// Who offers. Asked for at each handshake and discovery.
    fn about(&self) -> About;

    /// What is offered at all. What isn't named here is refused without asking.
    fn features(&self) -> Features;

    /// The tools, as they are now. Asked for with each page of the list, so a list that is kept answers fastest.
    fn tools(&self) -> BoxFuture<'_, Result<Listing, Refusal>> {
        empty()
    }

    /// The same without waiting for anything, for a look at one of them. By default the list itself.
    fn tools_now(&self) -> BoxFuture<'_, Result<Listing, Refusal>> {
        self.tools()
    }

    /// Calls a tool. Many calls may be under way at once; what must not overlap is for the offer to hold apart.
    ///
    /// # Errors
    /// [`Refusal::unknown_tool`] for a name that isn't offered. Anything else that goes wrong with a tool, bad arguments
    /// first of all, is a [`Reply`] that says so, since a model reads it.
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Refusal>> {
        refused(Refusal::unknown_tool(&call.name))
    }

    /// The resources that can be listed.
    fn resources(&self) -> BoxFuture<'_, Result<Listing, Refusal>> {
        empty()
    }

    /// Shapes of addresses of resources that can't be listed.
    fn resource_templates(&self) -> BoxFuture<'_, Result<Listing, Refusal>> {
        empty()
    }

    /// What a resource holds.
    ///
    /// # Errors
    /// [`Refusal::unknown_resource`] for an address that isn't known.
    fn read(&self, read: Read) -> BoxFuture<'_, Result<ReadReply, Refusal>> {
        refused(Refusal::unknown_resource(&read.uri))
    }

    /// The client wants to hear of changes of a resource, by [`Change::Resource`]. Called for the first of several wishes.
    ///
    /// # Errors
    /// A resource that is not known, or can't be watched.
    fn watch(&self, uri: &str) -> Result<(), Refusal> {
        Err(Refusal::unknown_resource(uri))
    }

    /// It no longer wants to. Called for each resource that was watched, at the latest when the client is gone.
    fn unwatch(&self, uri: &str) {
        let _ = uri;
    }

    /// The prompts.
    fn prompts(&self) -> BoxFuture<'_, Result<Listing, Refusal>> {
        empty()
    }

    /// A prompt with its arguments put in.
    ///
    /// # Errors
    /// [`Refusal::unknown_prompt`], or arguments that make no sense.
    fn prompt(&self, get: GetPrompt) -> BoxFuture<'_, Result<PromptReply, Refusal>> {
        refused(Refusal::unknown_prompt(&get.name))
    }

    /// Proposals for an argument of a prompt or a template.
    ///
    /// # Errors
    /// A prompt or template that is not known.
    fn complete(&self, complete: Complete) -> BoxFuture<'_, Result<Completion, Refusal>> {
        let _ = complete;
        Box::pin(std::future::ready(Ok(Completion::default())))
    }

    /// What changes, from now on. Default: nothing ever does.
    fn changes(&self) -> Option<broadcast::Receiver<Change>> {
        None
    }
}

fn empty<'a>() -> BoxFuture<'a, Result<Listing, Refusal>> {
    Box::pin(std::future::ready(Ok(Listing::default())))
}

fn refused<'a, T: Send + 'a>(refusal: Refusal) -> BoxFuture<'a, Result<T, Refusal>> {
    Box::pin(std::future::ready(Err(refusal)))
}

/// Who offers, in words.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct About {
    /// The name of the program.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What the model should know before it uses anything.
    pub instructions: Option<String>,
}

impl About {
    /// A program of this name and version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> About {
        About { name: name.into(), version: version.into(), title: None, instructions: None }
    }

    /// The same with a name for people.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> About {
        self.title = Some(title.into());
        self
    }

    /// The same with instructions for the model.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> About {
        self.instructions = Some(instructions.into());
        self
    }
}

/// What an offer has. Nothing by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Features {
    /// Tools.
    pub tools: bool,
    /// Resources.
    pub resources: bool,
    /// Resources whose changes can be watched.
    pub watches: bool,
    /// Prompts.
    pub prompts: bool,
    /// Proposals for arguments.
    pub completions: bool,
    /// Lines of a log, by [`Peer::log`](super::Peer::log).
    pub logging: bool,
    /// Its lists may change, and [`Offer::changes`] says so.
    pub changes: bool,
}

impl Features {
    /// And tools.
    #[must_use]
    pub fn with_tools(self) -> Features {
        Features { tools: true, ..self }
    }

    /// And resources.
    #[must_use]
    pub fn with_resources(self) -> Features {
        Features { resources: true, ..self }
    }

    /// And resources that can be watched.
    #[must_use]
    pub fn with_watches(self) -> Features {
        Features { resources: true, watches: true, ..self }
    }

    /// And prompts.
    #[must_use]
    pub fn with_prompts(self) -> Features {
        Features { prompts: true, ..self }
    }

    /// And proposals for arguments.
    #[must_use]
    pub fn with_completions(self) -> Features {
        Features { completions: true, ..self }
    }

    /// And lines of a log.
    #[must_use]
    pub fn with_logging(self) -> Features {
        Features { logging: true, ..self }
    }

    /// And lists that change.
    #[must_use]
    pub fn with_changes(self) -> Features {
        Features { changes: true, ..self }
    }
}

/// A call of a tool.
#[non_exhaustive]
pub struct Call {
    /// The tool, by the name it is offered under.
    pub name: String,
    /// The arguments as they came, `{}` if none did. They are JSON and nothing else is known of them: neither that they are
    /// an object nor that they fit the tool. `haft::ToolCall` takes the text as it is.
    pub arguments: Box<RawValue>,
    /// What came in `_meta`; empty if nothing did.
    pub meta: Map<String, Value>,
    /// The client, for progress and questions.
    pub peer: Peer,
    /// Raised when nobody waits for the answer any more.
    pub cancel: Cancel,
}

/// A wish to read a resource.
#[non_exhaustive]
pub struct Read {
    /// Its address.
    pub uri: String,
    /// The client.
    pub peer: Peer,
    /// Raised when nobody waits for the answer any more.
    pub cancel: Cancel,
}

/// What was read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReadReply {
    /// One, or those of everything below an address.
    pub contents: Vec<Contents>,
    /// How long it may be believed.
    pub fresh: Freshness,
}

impl ReadReply {
    /// These contents, to be read again each time.
    pub fn new(contents: impl IntoIterator<Item = Contents>) -> ReadReply {
        ReadReply { contents: contents.into_iter().collect(), fresh: Freshness::default() }
    }

    /// The same, believed for a while.
    #[must_use]
    pub fn with_freshness(mut self, fresh: Freshness) -> ReadReply {
        self.fresh = fresh;
        self
    }
}

/// A wish for a prompt.
#[non_exhaustive]
pub struct GetPrompt {
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// The client.
    pub peer: Peer,
    /// Raised when nobody waits for the answer any more.
    pub cancel: Cancel,
}

/// A wish for proposals.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Complete {
    /// For what.
    pub of: CompleteOf,
    /// The argument.
    pub argument: String,
    /// What was typed of it so far.
    pub value: String,
    /// Arguments that are settled already.
    pub settled: Map<String, Value>,
}

/// What an argument belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompleteOf {
    /// A prompt, by name.
    Prompt(String),
    /// A template of resources, by the template.
    Template(String),
}

/// Something that changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources, or of their templates.
    Resources,
    /// What one resource holds.
    Resource(Arc<str>),
}

/// Tells clients of changes. Clones tell the same ones.
///
/// Whoever makes an offer keeps one and gives [`Changes::listen`] out in [`Offer::changes`]. Telling never waits; a client
/// that can't follow is told that everything changed.
#[derive(Debug, Clone)]
pub struct Changes(broadcast::Sender<Change>);

impl Default for Changes {
    fn default() -> Changes {
        Changes::new()
    }
}

impl Changes {
    /// Nobody listens yet.
    pub fn new() -> Changes {
        Changes(broadcast::Sender::new(crate::limits::CHANGES_QUEUED_MAX))
    }

    /// Something changed.
    pub fn tell(&self, change: Change) {
        // Nobody listening is fine: whoever comes reads the list as it is then.
        let _ = self.0.send(change);
    }

    /// What is told from now on.
    pub fn listen(&self) -> broadcast::Receiver<Change> {
        self.0.subscribe()
    }
}

/// A list of definitions, each as the protocol writes it. Cheap to clone; kept, it is written once and sent many times.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    entries: Arc<[Definition]>,
    /// Arguments of tools that have to stand in headers as well, by the name of the tool.
    headers: Arc<HashMap<String, Vec<InHeader>>>,
    /// How long it may be believed.
    pub fresh: Freshness,
}

/// One definition, written. Cheap to clone: lists that have it in common share it.
#[derive(Debug, Clone)]
pub struct Definition(Arc<Entry>);

#[derive(Debug)]
struct Entry {
    written: Box<RawValue>,
    /// For revisions that take less, where that makes a difference.
    older: Option<Box<RawValue>>,
    name: String,
    headers: Vec<InHeader>,
}

impl PartialEq for Definition {
    fn eq(&self, other: &Definition) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.written.get() == other.0.written.get()
    }
}

impl Listing {
    /// A list of JSON objects: tools with at least `name` and `inputSchema`, resources with `uri` and `name`, templates with
    /// `uriTemplate` and `name`, prompts with `name`.
    pub fn new(definitions: impl IntoIterator<Item = Value>) -> Listing {
        Listing::of(definitions.into_iter().filter_map(Definition::new))
    }

    /// A list of definitions that are written already.
    pub fn of(definitions: impl IntoIterator<Item = Definition>) -> Listing {
        let entries: Arc<[Definition]> = definitions.into_iter().collect();
        let with_headers = entries.iter().filter(|Definition(entry)| !entry.headers.is_empty());
        let headers =
            with_headers.map(|Definition(entry)| (entry.name.clone(), entry.headers.clone())).collect();
        Listing { entries, headers: Arc::new(headers), fresh: Freshness::default() }
    }

    /// Whether a client would read the same.
    pub fn says_the_same(&self, other: &Listing) -> bool {
        self.entries == other.entries
    }

    /// The same, believed for a while.
    #[must_use]
    pub fn with_freshness(mut self, fresh: Freshness) -> Listing {
        self.fresh = fresh;
        self
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The arguments of a tool that have to stand in headers as well.
    pub(crate) fn in_headers(&self, tool: &str) -> &[InHeader] {
        self.headers.get(tool).map_or(&[], Vec::as_slice)
    }

    /// Whether any tool has such arguments.
    pub(crate) fn has_in_headers(&self) -> bool {
        !self.headers.is_empty()
    }

    /// Some of them as they are written.
    pub(crate) fn written(
        &self,
        from: usize,
        most: usize,
        is_newest: bool,
    ) -> impl Iterator<Item = &RawValue> {
        let entries = self.entries.iter().skip(from).take(most);
        entries.map(move |Definition(entry)| match &entry.older {
            Some(older) if !is_newest => &**older,
            _ => &*entry.written,
        })
    }
}

/// An argument that has to stand in a header as well (revision 2026-07-28): `x-mcp-header` in its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InHeader {
    /// What follows `Mcp-Param-`.
    pub(crate) header: String,
    /// Where the argument is.
    pub(crate) path: Vec<String>,
}

impl InHeader {
    /// How deep arguments are looked for.
    const DEPTH_MAX: usize = 8;

    fn all(schema: &Value) -> Vec<InHeader> {
        let mut found = Vec::new();
        InHeader::add(schema, &mut Vec::new(), &mut found);
        found
    }

    fn add(schema: &Value, path: &mut Vec<String>, found: &mut Vec<InHeader>) {
        if path.len() > InHeader::DEPTH_MAX {
            return;
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            path.push(name.clone());
            if let Some(header) = property["x-mcp-header"].as_str() {
                found.push(InHeader { header: header.to_owned(), path: path.clone() });
            }
            InHeader::add(property, path, found);
            path.pop();
        }
    }
}

impl Definition {
    /// Writes one down. None for what isn't an object: it would make the whole list senseless.
    pub fn new(mut definition: Value) -> Option<Definition> {
        let name = definition["name"].as_str().unwrap_or_default().to_owned();
        let headers = InHeader::all(&definition["inputSchema"]);
        let written = serde_json::value::to_raw_value(&definition).ok()?;
        let entries = definition.as_object_mut()?;
        // Only the newest revision takes results that are no objects.
        let odd = entries.get("outputSchema").is_some_and(|schema| schema["type"] != "object");
        let older = if odd {
            entries.remove("outputSchema");
            serde_json::value::to_raw_value(&definition).ok()
        } else {
            None
        };
        Some(Definition(Arc::new(Entry { written, older, name, headers })))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn older_revisions_see_no_output_schema_that_is_no_object() {
        let listing = Listing::new([
            json!({"name": "a", "outputSchema": {"type": "array"}}),
            json!("odd"),
            json!({"name": "b", "outputSchema": {"type": "object"}}),
        ]);
        let all = |newest| listing.written(0, 9, newest).map(RawValue::get).collect::<Vec<_>>().join(" ");
        assert_eq!(all(false), r#"{"name":"a"} {"name":"b","outputSchema":{"type":"object"}}"#);
        assert!(all(true).contains("array"));
        assert_eq!(listing.written(1, 1, true).count(), 1);
        let again = [json!({"name": "a", "outputSchema": {"type": "array"}}), json!({"name": "b"})];
        assert!(!listing.says_the_same(&Listing::new(again)) && listing.says_the_same(&listing.clone()));
    }
}
