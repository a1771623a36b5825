//! The MCP server: serves the tools of a program to any client, over every transport.
//!
//! | file | contents |
//! |---|---|
//! | `handler.rs`, `definitions.rs` | the interface to the program that has tools |
//! | `client_info.rs`, `peer.rs` | clients: what is known of them; progress and questions |
//! | `results.rs` | results of the engine as the SDK's types |
//! | `json_rpc.rs`, `batch.rs`, `request.rs` | messages, batches of messages, MCP requests |
//! | `session.rs` | dispatch of one client's requests |
//! | `suspended_calls.rs`, `tasks.rs` | questions of the stateless revision; calls that run as tasks |
//! | `lines.rs`, `stdio.rs` | connections of lines, standard input and output |
//! | `http.rs`, `unix_socket.rs` | configuration of a listener; a socket for its owner alone |
//! | `http_listener.rs`, `connection_limits.rs`, `http_stream.rs` | connections of a listener and their limits |
//! | `http_auth.rs`, `tokens.rs` | hosts, origins, tokens, rate limits |
//! | `exchange.rs`, `http_message.rs` | HTTP requests and responses |
//! | `http_session.rs`, `event_stream.rs` | sessions over HTTP; event streams and their resumption |
//!
//! Results are the SDK's types. Transports and requests are not: `docs/design/012-own-mcp-server.md` has the
//! measurements.

pub(crate) mod batch;
pub(crate) mod client_info;
pub(crate) mod connection_limits;
pub(crate) mod definitions;
pub(crate) mod event_stream;
pub(crate) mod exchange;
pub(crate) mod handler;
pub(crate) mod http;
pub(crate) mod http_auth;
pub(crate) mod http_listener;
pub(crate) mod http_message;
pub(crate) mod http_session;
pub(crate) mod http_stream;
pub(crate) mod json_rpc;
pub(crate) mod lines;
pub(crate) mod peer;
pub(crate) mod request;
pub(crate) mod results;
pub(crate) mod session;
pub(crate) mod stdio;
pub(crate) mod suspended_calls;
pub(crate) mod tasks;
pub(crate) mod tokens;
pub(crate) mod unix_socket;

use std::sync::Arc;
use std::time::Duration;

use haft::{Cancel, Cause};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

pub use client_info::{ClientCapabilities, ClientInfo, Principal, ProtocolRevision, TransportKind};
pub use definitions::{DefinitionList, ListedDefinition};
pub use handler::{
    ChangeNotifier, HandlerFactory, ListChange, PromptRequest, ReadRequest, ServerFeatures, ServerHandler,
    ToolCallRequest,
};
pub use http::{HttpConfig, ProtectedResource};
pub use peer::{ClientPeer, ElicitationAnswer, InputError, InputRequest, LogLevel, NeededCapability};
pub use results::{
    binary_contents, content_block, output_result, relay_prompt, relay_resource, tool_result, unknown_prompt,
    unknown_resource, unknown_tool,
};
pub use rmcp::model::{
    CallToolResult, CompleteRequestParams, CompletionInfo, ContentBlock, EmbeddedResource, ErrorCode,
    ErrorData, GetPromptResult, Implementation, MetaObject, PromptMessage, ReadResourceResult, Resource,
    ResourceContents, Role,
};
pub use tokens::{StaticTokens, TokenIntrospection, TokenVerifier, random_secret};
pub use unix_socket::UnixSocket;
pub use url::Url;

use crate::limits;

/// An MCP server. Cheap to clone; it can serve several transports at once.
///
/// Each `serve_…` method ends when its [`Cancel`] is raised: no new request is accepted, requests in flight
/// get a grace period ([`ServerLimits::shutdown_grace`]) and are cancelled after it.
#[derive(Clone)]
pub struct McpServer {
    handlers: Arc<dyn HandlerFactory>,
    limits: ServerLimits,
}

/// Limits for each client, and for the shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// The longest message, in bytes.
    pub message_bytes: usize,
    /// Requests of one client in flight.
    pub in_flight: usize,
    /// How long requests in flight may take at a shutdown.
    pub shutdown_grace: Duration,
}

/// What all clients of one transport share.
pub(crate) struct ServerCore {
    handlers: Arc<dyn HandlerFactory>,
    limits: ServerLimits,
    suspended: suspended_calls::SuspendedCalls,
    /// No new request is accepted.
    stopping: Cancel,
    /// The parent of all requests.
    cancel: Cancel,
}

impl ServerCore {
    fn cancel_all(&self, cause: Cause) {
        self.cancel.cancel(cause);
        self.suspended.cancel_all(cause);
    }
}

/// Cancels all requests when serving ends, also where its future is dropped.
pub(crate) struct CancelOnDrop(pub(crate) Arc<ServerCore>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel_all(Cause::Shutdown);
    }
}

impl McpServer {
    /// A server with these handlers.
    pub fn new(handlers: impl HandlerFactory) -> McpServer {
        let limits = ServerLimits {
            message_bytes: limits::MESSAGE_BYTES_MAX,
            in_flight: limits::IN_FLIGHT_MAX,
            shutdown_grace: limits::SHUTDOWN_GRACE,
        };
        McpServer { handlers: Arc::new(handlers), limits }
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(mut self, change: impl FnOnce(&mut ServerLimits)) -> McpServer {
        change(&mut self.limits);
        self
    }

    fn core(&self, stop: &Cancel) -> Arc<ServerCore> {
        Arc::new(ServerCore {
            handlers: self.handlers.clone(),
            limits: self.limits,
            suspended: suspended_calls::SuspendedCalls::new(),
            stopping: stop.clone(),
            cancel: Cancel::new(),
        })
    }

    /// Serves the parent process over standard input and output. Nothing else may use them.
    pub async fn serve_stdio(&self, stop: &Cancel) {
        self.serve_lines(stdio::open_stdin(), stdio::open_stdout(), stop).await;
    }

    /// Serves one client over a connection with one message a line, until it disconnects. Dropping the future
    /// ends the connection at once.
    pub async fn serve_lines<R, W>(&self, reader: R, writer: W, stop: &Cancel)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        // In a task: the caller may wait on a thread that would have to be woken for each message.
        let mut task = JoinSet::new();
        task.spawn(lines::serve_lines(self.core(stop), reader, writer));
        task.join_next().await;
    }
}
