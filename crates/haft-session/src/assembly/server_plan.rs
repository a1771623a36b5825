//! Plans the servers of a session from settings: which may be used, how each is reached, and whether it
//! needs an approval. Starts nothing.
//!
//! A server that the user named, with a flag or in a file of their own, is used as it is and runs with the
//! user's permissions. A server of the workspace runs in the sandbox, unless the user's own settings exempt
//! it, and only after an approval ([`crate::mcp::approvals`]).

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use haft::decision::DecisionReason;
use haft::env::VariableLookup;
use haft::ports::ConfinementLevel;
use haft_mcp::{OAuth, RemoteTransport, ServerConfig, ServerTransport, ServerTrust, StdioTransport, limits};
use haft_policy::settings::{self, McpServer, RefusalReason, Settings, SettingsPlaces, WithheldReason};
use haft_policy::source::SourceScope;
use serde_json::Value;

use crate::mcp::{self, secrets};
use crate::run::proxy;
use crate::settings_view::SettingScope;
use crate::text::one_line;

/// The servers that settings name.
#[derive(Default, Clone)]
pub struct ServerPlan {
    /// All servers. Those that may be used come first and have unique names.
    pub servers: Vec<PlannedServer>,
}

/// A server that settings name, with its plan.
#[derive(Clone)]
pub struct PlannedServer {
    pub(crate) server: McpServer,
    /// How it is reached, or why it isn't used.
    pub plan: Result<ServerConfig, UnusedReason>,
    /// The variables that its entry names and that aren't set.
    pub unset: Vec<String>,
    /// Settings approve it by its name: what it offers is approved when it is first seen.
    pub(crate) enabled: bool,
}

/// The transport of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportKind {
    /// A process, over its standard input and output.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP with server-sent events, the older form.
    Sse,
    /// WebSocket.
    WebSocket,
}

impl PlannedServer {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.server.name
    }

    /// Returns the file that names it, with the line if it is known.
    pub fn source(&self) -> String {
        self.server.source.to_string()
    }

    /// Returns the scope that names it.
    pub fn scope(&self) -> SettingScope {
        self.server.source.scope.into()
    }

    /// Returns whether it comes from the workspace.
    pub fn is_of_workspace(&self) -> bool {
        self.server.of_workspace
    }

    /// Returns the transport.
    pub fn transport_kind(&self) -> TransportKind {
        match &self.server.transport {
            settings::McpTransport::Stdio { .. } => TransportKind::Stdio,
            settings::McpTransport::Remote { kind: settings::RemoteProtocol::Http, .. } => {
                TransportKind::Http
            }
            settings::McpTransport::Remote { kind: settings::RemoteProtocol::Sse, .. } => TransportKind::Sse,
            settings::McpTransport::Remote { kind: settings::RemoteProtocol::Ws, .. } => {
                TransportKind::WebSocket
            }
        }
    }

    /// Returns its command line as written, or its address, with likely secrets masked.
    pub fn target(&self) -> String {
        mcp::server_target(&self.server)
    }

    /// Returns everything that an approval of it covers, as pairs of a name and a value. Nothing is
    /// omitted.
    pub fn details(&self) -> Vec<(&'static str, String)> {
        mcp::server_details(&self.server)
    }

    /// Returns the arguments of its command, with likely secrets masked.
    pub fn masked_arguments(&self) -> Vec<String> {
        match &self.server.transport {
            settings::McpTransport::Stdio { args, .. } => secrets::mask_arguments(args),
            settings::McpTransport::Remote { .. } => Vec::new(),
        }
    }

    /// Returns the names of its environment variables, or of the headers of its requests.
    pub fn variable_names(&self) -> Vec<String> {
        match &self.server.transport {
            settings::McpTransport::Stdio { env, .. } => env.keys().cloned().collect(),
            settings::McpTransport::Remote { headers, .. } => headers.keys().cloned().collect(),
        }
    }

    /// Removes the secrets in the server's configuration from a text.
    pub fn hide_secrets(&self, text: &str) -> String {
        secrets::mask_secrets(text, &secrets::configured_secrets(&self.server))
    }
}

/// Why a server isn't used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnusedReason {
    /// The workspace that names it isn't trusted.
    Untrusted,
    /// Settings disable it. Contains the origin.
    Disabled(String),
    /// A stronger file names a server with the same name. Contains the origin.
    Hidden(String),
    /// A list in settings forbids it. Contains the origin.
    Denied(String),
    /// It is not in the allow-list of settings.
    NotAllowed,
    /// A rule denies everything of it. Contains the rule.
    ByRule(String),
    /// Its sign-in settings are invalid, for this reason.
    BadSignIn(String),
}

impl UnusedReason {
    /// Returns the reason as a message.
    pub fn message(&self) -> String {
        match self {
            UnusedReason::Untrusted => "the workspace is not trusted; `haft trust` shows it".to_owned(),
            UnusedReason::Disabled(by) => format!("turned off by {by}"),
            UnusedReason::Hidden(by) => format!("{by} names one that is called the same"),
            UnusedReason::Denied(by) => format!("denied by {by} (`deniedMcpServers`)"),
            UnusedReason::ByRule(by) => format!("denied by {by}"),
            UnusedReason::BadSignIn(words) => format!("its `oauth` can't be used: {words}"),
            UnusedReason::NotAllowed => "`allowedMcpServers` does not name it".to_owned(),
        }
    }
}

/// Plans the servers of the settings.
pub(super) fn plan_servers(
    settings: &Settings,
    places: &SettingsPlaces,
    lookup: VariableLookup<'_>,
) -> ServerPlan {
    let mcp = &settings.mcp;
    if mcp.servers.is_empty() && mcp.withheld.is_empty() {
        return ServerPlan::default();
    }
    let variable = |name: &str| match name {
        "CLAUDE_PROJECT_DIR" => Some(places.cwd.display().to_string()),
        _ => lookup(name).and_then(|value: OsString| value.into_string().ok()),
    };
    let mut servers = Vec::new();
    for server in &mcp.servers {
        let written = server_config(server, settings, &places.cwd, lookup);
        let (config, mut unset) = written.clone().expanded(&variable);
        unset.sort();
        unset.dedup();
        // Deny entries match the entry as written and its expanded form. Allow entries match only the
        // expanded form.
        let refused =
            refused_server(settings, &written).filter(|refused| matches!(refused, RefusalReason::Denied(_)));
        let refused = refused.or_else(|| self::refused_server(settings, &config));
        let plan = match refused {
            None => oauth_settings(server).map(|_| config).map_err(UnusedReason::BadSignIn),
            Some(RefusalReason::Denied(by)) => Err(UnusedReason::Denied(by.to_string())),
            Some(RefusalReason::NotAllowed) => Err(UnusedReason::NotAllowed),
        };
        let enabled = server.of_workspace && mcp.is_enabled(&server.name);
        servers.push(PlannedServer { server: server.clone(), plan, unset, enabled });
    }
    for (server, why) in &mcp.withheld {
        let why = match why {
            WithheldReason::Untrusted => UnusedReason::Untrusted,
            WithheldReason::Disabled(by) => UnusedReason::Disabled(by.to_string()),
            WithheldReason::Hidden(by) => UnusedReason::Hidden(by.to_string()),
        };
        servers.push(PlannedServer {
            server: server.clone(),
            plan: Err(why),
            unset: Vec::new(),
            enabled: false,
        });
    }
    ServerPlan { servers }
}

fn refused_server(settings: &Settings, config: &ServerConfig) -> Option<RefusalReason> {
    let (command, url) = match &config.transport {
        ServerTransport::Stdio(stdio) => {
            (Some(std::iter::once(&stdio.command).chain(&stdio.args).cloned().collect::<Vec<_>>()), None)
        }
        ServerTransport::Http(remote) | ServerTransport::Sse(remote) | ServerTransport::WebSocket(remote) => {
            (None, Some(remote.url.as_str()))
        }
        ServerTransport::InProcess(_) => (None, None),
    };
    settings.mcp.refuses(&config.name, command.as_deref(), url)
}

/// Returns the configuration of a server as written, with the user's options for it.
fn server_config(
    server: &McpServer,
    settings: &Settings,
    cwd: &Path,
    lookup: VariableLookup<'_>,
) -> ServerConfig {
    let options = &settings.mcp.options;
    let own = options.servers.get(&server.name).cloned().unwrap_or_default();
    let confinement = if own.sandbox.unwrap_or(server.of_workspace) {
        ConfinementLevel::Session
    } else {
        ConfinementLevel::Outside
    };
    let transport = match &server.transport {
        settings::McpTransport::Stdio { command, args, env } => ServerTransport::Stdio(StdioTransport {
            command: command.clone(),
            args: args.clone(),
            env: env.clone(),
            cwd: Some(cwd.to_owned()),
            confinement,
        }),
        settings::McpTransport::Remote { kind, url, headers, headers_helper, .. } => {
            let oauth = oauth_settings(server).unwrap_or_default();
            let mut remote = RemoteTransport::new(url.as_str());
            remote.headers = headers.clone();
            remote.headers_helper = headers_helper.clone();
            remote.confinement = confinement;
            remote.proxy = proxy::proxy_for(url, lookup);
            remote.oauth = oauth;
            match kind {
                settings::RemoteProtocol::Http => ServerTransport::Http(remote),
                settings::RemoteProtocol::Sse => ServerTransport::Sse(remote),
                settings::RemoteProtocol::Ws => ServerTransport::WebSocket(remote),
            }
        }
    };
    let mut config = ServerConfig::new(server.name.as_str(), transport);
    config.trust = if server.of_workspace { ServerTrust::Approvals } else { ServerTrust::Given };
    if let Some(limit) = options.connect_timeout_ms {
        config.connect_timeout = Duration::from_millis(limit);
    }
    if let Some(limit) = server.timeout_ms {
        config.call_timeout = Duration::from_millis(limit);
    }
    config.idle_timeout = own.idle_timeout_ms.map(Duration::from_millis);
    if let Some(calls) = own.concurrency {
        config.concurrency = usize::try_from(calls).unwrap_or(usize::MAX);
    }
    config.always_load = server.always_load;
    config.read_only_hints_hold = own.read_only_hints == Some(true);
    config.may_sample = own.sampling == Some(true);
    config.background_after = match options.background_after_ms {
        Some(0) => None,
        Some(after) => Some(Duration::from_millis(after)),
        None => Some(limits::BACKGROUND_AFTER),
    };
    config
}

/// Returns the OAuth configuration of a server's entry.
///
/// # Errors
/// Returns a message if it is invalid.
fn oauth_settings(server: &McpServer) -> Result<OAuth, String> {
    match &server.transport {
        settings::McpTransport::Remote { oauth: Some(oauth), .. } => {
            OAuth::read(&Value::Object(oauth.clone()))
        }
        _ => Ok(OAuth::default()),
    }
}

impl ServerPlan {
    /// Returns whether there is nothing to start.
    pub fn is_empty(&self) -> bool {
        self.usable().next().is_none()
    }

    /// Returns the servers that may be used.
    pub fn usable(&self) -> impl Iterator<Item = (&PlannedServer, &ServerConfig)> {
        self.servers.iter().filter_map(|server| Some((server, server.plan.as_ref().ok()?)))
    }

    /// Returns the effective server of this name.
    pub fn find(&self, name: &str) -> Option<&PlannedServer> {
        self.servers.iter().find(|planned| planned.server.name == name)
    }

    /// Removes all other servers.
    pub fn only(mut self, name: &str) -> ServerPlan {
        self.servers.retain(|planned| planned.server.name == name);
        self
    }

    /// Marks servers as unused if a rule denies everything of them: a server has more than tools.
    pub fn without_denied(mut self, denies: impl Fn(&str) -> Option<DecisionReason>) -> ServerPlan {
        for planned in self.servers.iter_mut().filter(|planned| planned.plan.is_ok()) {
            if let Some(reason) = denies(&planned.server.name) {
                planned.plan = Err(UnusedReason::ByRule(reason.text.into_owned()));
            }
        }
        self
    }

    /// Returns warnings about the servers that are to be started.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for planned in &self.servers {
            let (name, source) = (&planned.server.name, &planned.server.source);
            match &planned.plan {
                Ok(_) => warnings.extend(planned.unset.iter().map(|variable| {
                    let variable = one_line(variable);
                    format!(
                        "{source}: the server `{name}` names `${{{variable}}}`, which is not set; it stays as it is written"
                    )
                })),
                // A file that the user named on the command line is meant to be used.
                Err(why) if planned.server.source.scope == SourceScope::CommandLine => {
                    warnings.push(format!("{source}: the server `{name}` is not used: {}", why.message()));
                }
                Err(_) => {}
            }
        }
        warnings
    }
}
