//! What is to be connected, and how: data, nothing started.
//!
//! The host makes these from its settings; nothing here reads a file or the environment. A [`ServerConfig`]
//! is whole: what has variables in it becomes so by [`expanded`](ServerConfig::expanded).

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use haft::future::BoxFuture;
use haft::ports::ConfinementLevel;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::expand::expand_variables;
use crate::host::CarrierInfo;
use crate::limits;
use crate::sign_in::secret::Secret;
use crate::sign_in::settings::OAuth;

/// A server, as its configuration has it.
///
/// ```
/// use haft_mcp::{ServerConfig, ServerTransport};
///
/// let time = ServerConfig::new("time", ServerTransport::stdio("uvx", ["mcp-server-time"]));
/// let docs = ServerConfig::new("docs", ServerTransport::http("https://docs.example/mcp"));
/// assert!(time.transport.is_local() && !docs.transport.is_local());
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Its name: letters, digits, `_` and `-`.
    pub name: String,
    /// How it is reached.
    pub transport: ServerTransport,
    /// Who answers for it.
    pub trust: ServerTrust,
    /// How long a connection may take until its tools are known.
    pub connect_timeout: Duration,
    /// How long a call may take in all.
    pub call_timeout: Duration,
    /// How long a call may go without a sign of life. Default: five minutes over the network, half an hour
    /// for a process.
    pub idle_timeout: Option<Duration>,
    /// How many of its calls run at once.
    pub concurrency: usize,
    /// Whether its tools are always shown whole; where nothing is said, the server may say so of single
    /// tools.
    pub always_load: Option<bool>,
    /// Whether the user says that its `readOnlyHint`s are true. Then such calls run beside others; they are
    /// still asked for.
    pub read_only_hints_hold: bool,
    /// Whether it may ask the model something.
    pub may_sample: bool,
    /// After how long a call goes on in the background, where the host has background tasks. Default: never.
    pub background_after: Option<Duration>,
    /// How it was written, where something was put in since.
    written: Option<Value>,
}

impl ServerConfig {
    /// A server that the user named, with the usual limits.
    pub fn new(name: impl Into<String>, transport: ServerTransport) -> ServerConfig {
        ServerConfig {
            name: name.into(),
            transport,
            trust: ServerTrust::Given,
            connect_timeout: limits::CONNECT_TIMEOUT,
            call_timeout: limits::CALL_TIMEOUT,
            idle_timeout: None,
            concurrency: limits::CONCURRENCY,
            always_load: None,
            read_only_hints_hold: false,
            may_sample: false,
            background_after: None,
            written: None,
        }
    }

    /// The same with `${NAME}` and `${NAME:-default}` put in; and the names that are not set.
    pub fn expanded(mut self, lookup: &dyn Fn(&str) -> Option<String>) -> (ServerConfig, Vec<String>) {
        let written = self.identity();
        let mut unset = Vec::new();
        let mut put_in = |text: &mut String| {
            let (done, missing) = expand_variables(text, lookup);
            *text = done;
            unset.extend(missing);
        };
        match &mut self.transport {
            ServerTransport::Stdio(stdio) => {
                put_in(&mut stdio.command);
                stdio.args.iter_mut().chain(stdio.env.values_mut()).for_each(put_in);
            }
            ServerTransport::Http(remote)
            | ServerTransport::Sse(remote)
            | ServerTransport::WebSocket(remote) => {
                put_in(&mut remote.url);
                remote.headers.values_mut().for_each(&mut put_in);
                remote.oauth.client_id.iter_mut().for_each(&mut put_in);
                if let Some(secret) = &mut remote.oauth.client_secret {
                    let mut text = secret.reveal().to_owned();
                    put_in(&mut text);
                    *secret = Secret::new(text);
                }
            }
            ServerTransport::InProcess(_) => {}
        }
        self.written = Some(written);
        (self, unset)
    }

    /// What an approval of the server is bound to: the exact command or address as it is written, and the
    /// names of what goes with it, but no values that may be secret: what stands for `${TOKEN}` is not in it.
    pub fn identity(&self) -> Value {
        if let Some(written) = &self.written {
            return written.clone();
        }
        let names = |of: &BTreeMap<String, String>| of.keys().cloned().collect::<Vec<_>>();
        match &self.transport {
            ServerTransport::Stdio(stdio) => json!({
                "type": "stdio", "command": stdio.command, "args": stdio.args, "env": names(&stdio.env),
                "cwd": stdio.cwd.as_ref().map(|cwd| cwd.display().to_string()),
            }),
            ServerTransport::Http(remote)
            | ServerTransport::Sse(remote)
            | ServerTransport::WebSocket(remote) => {
                let mut identity = json!({
                    "type": self.transport.kind(), "url": remote.url, "headers": names(&remote.headers),
                    "headersHelper": remote.headers_helper,
                });
                if let Some(oauth) = remote.oauth.identity() {
                    identity["oauth"] = oauth;
                }
                identity
            }
            ServerTransport::InProcess(_) => json!({"type": "in-process"}),
        }
    }

    pub(crate) fn idle(&self) -> Duration {
        let usual = if self.transport.is_local() { limits::IDLE_LOCAL } else { limits::IDLE_REMOTE };
        self.idle_timeout.unwrap_or(usual)
    }
}

/// Who answers for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerTrust {
    /// The user named it: in their own settings or by a flag. What it offers is taken as it comes.
    Given,
    /// It came with a workspace: the server and each definition of a tool need an approval, and a changed one
    /// a new one.
    Approvals,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum ServerTransport {
    /// A process, over its standard input and output.
    Stdio(StdioTransport),
    /// Streamable HTTP.
    Http(RemoteTransport),
    /// HTTP with server-sent events, the older form.
    Sse(RemoteTransport),
    /// WebSocket, subprotocol `mcp`.
    WebSocket(RemoteTransport),
    /// Something in this process, or whatever else gives a connection of bytes: one message a line.
    InProcess(PipeConnector),
}

impl ServerTransport {
    /// The way to the server, in the words of OpenTelemetry.
    pub(crate) fn carrier(&self) -> CarrierInfo {
        let over = |protocol: &'static str, remote: &RemoteTransport| {
            let url = url::Url::parse(&remote.url).ok();
            CarrierInfo {
                transport: "tcp",
                protocol: Some(protocol),
                address: url.as_ref().and_then(|url| url.host_str().map(str::to_owned)),
                port: url.as_ref().and_then(url::Url::port_or_known_default),
            }
        };
        match self {
            ServerTransport::Stdio(_) | ServerTransport::InProcess(_) => {
                CarrierInfo { transport: "pipe", protocol: None, address: None, port: None }
            }
            ServerTransport::Http(remote) | ServerTransport::Sse(remote) => over("http", remote),
            ServerTransport::WebSocket(remote) => over("websocket", remote),
        }
    }

    /// A process in the session's folder, which can do what the user can.
    pub fn stdio<A: Into<String>>(
        command: impl Into<String>,
        args: impl IntoIterator<Item = A>,
    ) -> ServerTransport {
        ServerTransport::Stdio(StdioTransport {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            cwd: None,
            confinement: ConfinementLevel::Outside,
        })
    }

    /// An address of Streamable HTTP.
    pub fn http(url: impl Into<String>) -> ServerTransport {
        ServerTransport::Http(RemoteTransport::new(url))
    }

    /// An address of the older form of HTTP.
    pub fn sse(url: impl Into<String>) -> ServerTransport {
        ServerTransport::Sse(RemoteTransport::new(url))
    }

    /// An address of a WebSocket.
    pub fn web_socket(url: impl Into<String>) -> ServerTransport {
        ServerTransport::WebSocket(RemoteTransport::new(url))
    }

    /// Whatever this gives, each time a connection is wanted.
    pub fn in_process<F, Fut>(connect: F) -> ServerTransport
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Box<dyn BytePipe>, String>> + Send + 'static,
    {
        ServerTransport::InProcess(PipeConnector(Arc::new(move || Box::pin(connect()))))
    }

    /// The name of the kind, as settings have it.
    pub fn kind(&self) -> &'static str {
        match self {
            ServerTransport::Stdio(_) => "stdio",
            ServerTransport::Http(_) => "http",
            ServerTransport::Sse(_) => "sse",
            ServerTransport::WebSocket(_) => "ws",
            ServerTransport::InProcess(_) => "in-process",
        }
    }

    /// Whether it is on this machine by its nature.
    pub fn is_local(&self) -> bool {
        matches!(self, ServerTransport::Stdio(_) | ServerTransport::InProcess(_))
    }
}

/// A process to talk to.
#[derive(Debug, Clone)]
pub struct StdioTransport {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables in its environment, beside those that every child gets.
    pub env: BTreeMap<String, String>,
    /// Where it runs; the session's folder if nothing is said.
    pub cwd: Option<PathBuf>,
    /// How much of the machine it sees.
    pub confinement: ConfinementLevel,
}

/// An address to talk to.
#[derive(Clone)]
pub struct RemoteTransport {
    /// The address.
    pub url: String,
    /// Headers of each request.
    pub headers: BTreeMap<String, String>,
    /// A command that prints more headers as a JSON object; they win.
    pub headers_helper: Option<String>,
    /// How much of the machine that command sees.
    pub confinement: ConfinementLevel,
    /// A proxy for requests by HTTP, in place of the host's.
    pub proxy: Option<String>,
    /// How a sign-in goes, over HTTP; not asked for while a header says who we are.
    pub oauth: OAuth,
}

impl RemoteTransport {
    /// This address and no headers.
    pub fn new(url: impl Into<String>) -> RemoteTransport {
        RemoteTransport {
            url: url.into(),
            headers: BTreeMap::new(),
            headers_helper: None,
            confinement: ConfinementLevel::Outside,
            proxy: None,
            oauth: OAuth::default(),
        }
    }
}

/// Values of headers are secrets more often than not.
impl fmt::Debug for RemoteTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&String> = self.headers.keys().collect();
        f.debug_struct("Remote").field("url", &self.url).field("headers", &headers).finish_non_exhaustive()
    }
}

/// One end of a connection that bytes go through in both directions. Implemented for everything that can.
pub trait BytePipe: AsyncRead + AsyncWrite + Send + 'static {}

impl<P: AsyncRead + AsyncWrite + Send + 'static> BytePipe for P {}

type ConnectFn = dyn Fn() -> BoxFuture<'static, Result<Box<dyn BytePipe>, String>> + Send + Sync;

/// Gives a connection of bytes whenever one is wanted.
#[derive(Clone)]
pub struct PipeConnector(Arc<ConnectFn>);

impl PipeConnector {
    pub(crate) async fn connect(&self) -> Result<Box<dyn BytePipe>, String> {
        (self.0)().await
    }
}

impl fmt::Debug for PipeConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_put_in_and_identity_has_no_values() {
        let ServerTransport::Stdio(mut stdio) = ServerTransport::stdio("${BIN:-npx}", ["-y", "${PKG}"])
        else {
            panic!()
        };
        stdio.env.insert("TOKEN".into(), "${SECRET}".into());
        let config = ServerConfig::new("x", ServerTransport::Stdio(stdio));
        let lookup = |name: &str| (name == "SECRET").then(|| "s3cret".to_owned());
        let (config, unset) = config.expanded(&lookup);
        assert_eq!(unset, ["PKG"]);
        let ServerTransport::Stdio(stdio) = &config.transport else { panic!() };
        assert_eq!((&*stdio.command, &*stdio.env["TOKEN"]), ("npx", "s3cret"));
        assert_eq!(
            config.identity(),
            json!({"type": "stdio", "command": "${BIN:-npx}", "args": ["-y", "${PKG}"], "env": ["TOKEN"], "cwd": null})
        );
        let mut remote = RemoteTransport::new("https://x.example/mcp");
        remote.headers.insert("Authorization".into(), "Bearer s3cret".into());
        let config = ServerConfig::new("x", ServerTransport::Http(remote));
        assert!(!format!("{config:?} {}", config.identity()).contains("s3cret"));
    }
}
