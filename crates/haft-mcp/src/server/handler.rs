//! The interface between the protocol and the program that has tools.
//!
//! The protocol's side (`crate::server`) reads and writes messages, keeps sessions, limits what clients send,
//! and asks a [`ServerHandler`] for everything else. Results are the SDK's types. A handler knows no
//! JSON-RPC, no transport and no revision: where one revision asks the client by a request and another by a
//! result, it awaits [`ClientPeer::ask`](super::ClientPeer::ask) in both.

use std::sync::Arc;

use haft::Cancel;
use haft::future::BoxFuture;
use rmcp::model::{
    CallToolResult, CompleteRequestParams, CompletionInfo, ErrorData, GetPromptResult, Implementation,
    ReadResourceResult,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::broadcast;

use super::client_info::ClientInfo;
use super::definitions::DefinitionList;
use super::peer::ClientPeer;
use super::results::{unknown_prompt, unknown_resource, unknown_tool};

/// Chooses the handler of a client.
///
/// Called once for a connection over stdio and for each session of the revisions with a handshake. Over HTTP
/// in the stateless revision it is called for each request, so an implementation usually keeps one handler
/// per principal. Several clients may connect at the same time. A handler is dropped when its client is gone.
pub trait HandlerFactory: Send + Sync + 'static {
    /// The handler of this client.
    ///
    /// # Errors
    /// Each request of the client is answered with this error.
    fn handler<'a>(
        &'a self,
        client: &'a ClientInfo,
    ) -> BoxFuture<'a, Result<Arc<dyn ServerHandler>, ErrorData>>;
}

/// One handler for every client.
impl<H: ServerHandler> HandlerFactory for Arc<H> {
    fn handler<'a>(&'a self, _: &'a ClientInfo) -> BoxFuture<'a, Result<Arc<dyn ServerHandler>, ErrorData>> {
        let handler: Arc<dyn ServerHandler> = self.clone();
        ready_result(Ok(handler))
    }
}

/// Serves the requests of one client.
///
/// All methods may be called at any time and concurrently, from tasks of the server. A panic becomes an
/// internal error of that request.
///
/// # Cancellation
/// The [`Cancel`] of a request is raised when the client cancels it or disconnects, or the server shuts down.
/// The future is still polled for [`CANCEL_GRACE`](crate::limits::CANCEL_GRACE) for cleanup, and then
/// dropped.
///
/// ```
/// use std::sync::Arc;
///
/// use haft::future::BoxFuture;
/// use haft_mcp::server::{
///     CallToolResult, ContentBlock, DefinitionList, ErrorData, ServerFeatures, Implementation, ServerHandler, ToolCallRequest,
///     unknown_tool,
/// };
/// use serde_json::json;
///
/// struct Greeter(DefinitionList);
///
/// impl ServerHandler for Greeter {
///     fn info(&self) -> Implementation {
///         Implementation::new("greeter", "1.0.0")
///     }
///     fn features(&self) -> ServerFeatures {
///         ServerFeatures { tools: true, ..ServerFeatures::default() }
///     }
///     fn tools(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
///         Box::pin(async { Ok(self.0.clone()) })
///     }
///     fn call(&self, call: ToolCallRequest) -> BoxFuture<'_, Result<CallToolResult, ErrorData>> {
///         Box::pin(async move {
///             match &*call.name {
///                 "greet" => Ok(CallToolResult::success(vec![ContentBlock::text("hello")])),
///                 other => Err(unknown_tool(other)),
///             }
///         })
///     }
/// }
///
/// let tool = json!({"name": "greet", "description": "Greets.", "inputSchema": {"type": "object"}});
/// let server = haft_mcp::server::McpServer::new(Arc::new(Greeter(DefinitionList::new([tool]))));
/// # drop(server);
/// ```
pub trait ServerHandler: Send + Sync + 'static {
    /// Name and version of the program, read at each handshake and discovery.
    fn info(&self) -> Implementation;

    /// What the model should know before it uses anything.
    fn instructions(&self) -> Option<String> {
        None
    }

    /// What is supported. Requests for other features are refused without calling the handler.
    fn features(&self) -> ServerFeatures;

    /// The tools. Called for each page of the list.
    fn tools(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
        ready_result(Ok(DefinitionList::default()))
    }

    /// The same without waiting, to look one of them up.
    fn current_tools(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
        self.tools()
    }

    /// Calls a tool. The handler orders calls that must not overlap.
    ///
    /// # Errors
    /// [`unknown_tool`] for a tool that is not offered. Other failures of a tool, invalid arguments included,
    /// are a [`CallToolResult`], because the model reads it.
    fn call(&self, call: ToolCallRequest) -> BoxFuture<'_, Result<CallToolResult, ErrorData>> {
        ready_result(Err(unknown_tool(&call.name)))
    }

    /// The resources that can be listed.
    fn resources(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
        ready_result(Ok(DefinitionList::default()))
    }

    /// URI templates of resources that can't be listed.
    fn resource_templates(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
        ready_result(Ok(DefinitionList::default()))
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// [`unknown_resource`] for an unknown URI.
    fn read(&self, read: ReadRequest) -> BoxFuture<'_, Result<ReadResourceResult, ErrorData>> {
        ready_result(Err(unknown_resource(&read.uri)))
    }

    /// The client subscribes to [`ListChange::Resource`] of this URI. Called for the first of several
    /// subscriptions.
    ///
    /// # Errors
    /// The resource is unknown or can't be watched.
    fn subscribe(&self, uri: &str) -> Result<(), ErrorData> {
        Err(unknown_resource(uri))
    }

    /// Ends a subscription; called for each one, at the latest when the client is gone.
    fn unsubscribe(&self, uri: &str) {
        let _ = uri;
    }

    /// The prompts.
    fn prompts(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
        ready_result(Ok(DefinitionList::default()))
    }

    /// A prompt with its arguments filled in.
    ///
    /// # Errors
    /// [`unknown_prompt`], or invalid arguments.
    fn prompt(&self, get: PromptRequest) -> BoxFuture<'_, Result<GetPromptResult, ErrorData>> {
        ready_result(Err(unknown_prompt(&get.name)))
    }

    /// Completions for an argument of a prompt or a template.
    ///
    /// # Errors
    /// The prompt or template is unknown.
    fn complete(&self, params: CompleteRequestParams) -> BoxFuture<'_, Result<CompletionInfo, ErrorData>> {
        let _ = params;
        ready_result(Ok(CompletionInfo::default()))
    }

    /// Changes from now on. Default: nothing changes.
    fn changes(&self) -> Option<broadcast::Receiver<ListChange>> {
        None
    }
}

fn ready_result<'a, T: Send + 'a>(result: Result<T, ErrorData>) -> BoxFuture<'a, Result<T, ErrorData>> {
    Box::pin(std::future::ready(result))
}

/// What a handler supports. Nothing by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal with defaults")]
pub struct ServerFeatures {
    /// Tools.
    pub tools: bool,
    /// Resources.
    pub resources: bool,
    /// Subscriptions to changes of resources.
    pub subscriptions: bool,
    /// Prompts.
    pub prompts: bool,
    /// Completions of arguments.
    pub completions: bool,
    /// Log messages, by [`ClientPeer::log`](super::ClientPeer::log).
    pub logging: bool,
    /// Calls that become tasks, by [`ClientPeer::start_task`](super::ClientPeer::start_task).
    pub tasks: bool,
    /// Lists that change; [`ServerHandler::changes`] reports it.
    pub list_changes: bool,
}

/// A call of a tool.
#[non_exhaustive]
pub struct ToolCallRequest {
    /// The name under which the tool is offered.
    pub name: String,
    /// The arguments as the client wrote them, `{}` if there are none. Only known to be JSON;
    /// `haft::ToolCall` takes this text.
    pub arguments: Box<RawValue>,
    /// The request's `_meta`.
    pub meta: Map<String, Value>,
    /// The client, for progress and questions.
    pub peer: ClientPeer,
    /// Raised when the result is no longer wanted.
    pub cancel: Cancel,
}

/// A request for the contents of a resource.
#[non_exhaustive]
pub struct ReadRequest {
    /// The resource.
    pub uri: String,
    /// The client.
    pub peer: ClientPeer,
    /// Raised when the result is no longer wanted.
    pub cancel: Cancel,
}

/// A request for a prompt.
#[non_exhaustive]
pub struct PromptRequest {
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// The client.
    pub peer: ClientPeer,
    /// Raised when the result is no longer wanted.
    pub cancel: Cancel,
}

/// A change that clients are notified of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ListChange {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources, or of their templates.
    Resources,
    /// The contents of one resource.
    Resource(Arc<str>),
}

/// Notifies clients of changes; clones notify the same clients. A handler keeps one and returns
/// [`ChangeNotifier::subscribe`] from [`ServerHandler::changes`]. A client that is too slow gets a
/// notification of every list.
#[derive(Debug, Clone)]
pub struct ChangeNotifier(broadcast::Sender<ListChange>);

impl Default for ChangeNotifier {
    fn default() -> ChangeNotifier {
        ChangeNotifier(broadcast::Sender::new(crate::limits::CHANGES_QUEUED_MAX))
    }
}

impl ChangeNotifier {
    /// Notifies every subscriber. Never waits.
    pub fn notify(&self, change: ListChange) {
        // Without subscribers nothing is lost: a later client reads the current list.
        let _ = self.0.send(change);
    }

    /// Changes from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<ListChange> {
        self.0.subscribe()
    }
}
