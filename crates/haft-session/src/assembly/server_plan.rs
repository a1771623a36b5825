//! From settings to the servers of a session: which may be used, how each is reached, and who answers for it. Starts nothing.
//!
//! A server that the user named, by a flag or in a file of their own, is taken as it comes and runs as they would run it. One
//! that came with the workspace runs in the sandbox, unless the user's own settings let it out, and only once it was approved:
//! [`crate::mcp::approvals`] knows that.

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
    /// All of them, those that may be used first; of those no two have one name.
    pub servers: Vec<PlannedServer>,
}

/// A server that settings name, and what is to become of it.
#[derive(Clone)]
pub struct PlannedServer {
    pub(crate) server: McpServer,
    /// How it is reached, or why it isn't used.
    pub plan: Result<ServerConfig, UnusedReason>,
    /// What its entry names that isn't set.
    pub unset: Vec<String>,
    /// Settings approve it by its name: what it offers is approved when it is first seen.
    pub(crate) enabled: bool,
}

/// How a server is reached.
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
    /// Its name.
    pub fn name(&self) -> &str {
        &self.server.name
    }

    /// The file that names it, with the line where that is known.
    pub fn source(&self) -> String {
        self.server.source.to_string()
    }

    /// The kind of place that names it.
    pub fn scope(&self) -> SettingScope {
        self.server.source.scope.into()
    }

    /// Whether it came with the workspace.
    pub fn is_of_workspace(&self) -> bool {
        self.server.of_workspace
    }

    /// How it is reached.
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

    /// Its command line as it is written, or its address; without what looks like a secret.
    pub fn target(&self) -> String {
        mcp::server_target(&self.server)
    }

    /// Everything that an approval of it is about, as pairs of a name and a value. Nothing is left out.
    pub fn details(&self) -> Vec<(&'static str, String)> {
        mcp::server_details(&self.server)
    }

    /// The arguments of its command, without what looks like a secret.
    pub fn masked_arguments(&self) -> Vec<String> {
        match &self.server.transport {
            settings::McpTransport::Stdio { args, .. } => secrets::mask_arguments(args),
            settings::McpTransport::Remote { .. } => Vec::new(),
        }
    }

    /// Names of variables in its environment, or of headers of its requests.
    pub fn variable_names(&self) -> Vec<String> {
        match &self.server.transport {
            settings::McpTransport::Stdio { env, .. } => env.keys().cloned().collect(),
            settings::McpTransport::Remote { headers, .. } => headers.keys().cloned().collect(),
        }
    }

    /// The text without the secrets that the server was given.
    pub fn hide_secrets(&self, text: &str) -> String {
        secrets::mask_secrets(text, &secrets::configured_secrets(&self.server))
    }
}

/// Why a server isn't used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnusedReason {
    /// The workspace that names it isn't trusted.
    Untrusted,
    /// Settings turn it off: where.
    Disabled(String),
    /// A stronger file names one that is called the same: which.
    Hidden(String),
    /// A list of settings forbids it: where.
    Denied(String),
    /// It is not among those that settings allow.
    NotAllowed,
    /// A rule denies everything of it: which.
    ByRule(String),
    /// Its sign-in settings are invalid, for this reason.
    BadSignIn(String),
}

impl UnusedReason {
    /// The reason as a message.
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

/// Understands what settings say about servers.
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
        // What is written is denied as well as what it becomes; allowed is what it becomes.
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

/// A server as it is written, with what the user's settings say about it.
fn server_config(
    server: &McpServer,
    settings: &Settings,
    cwd: &Path,
    lookup: VariableLookup<'_>,
) -> ServerConfig {
    let options = &settings.mcp.options;
    let own = options.servers.get(&server.name).cloned().unwrap_or_default();
    let confinement = match own.sandbox.unwrap_or(server.of_workspace) {
        true => ConfinementLevel::Session,
        false => ConfinementLevel::Outside,
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

/// How a sign-in goes, by a server's entry.
fn oauth_settings(server: &McpServer) -> Result<OAuth, String> {
    match &server.transport {
        settings::McpTransport::Remote { oauth: Some(oauth), .. } => {
            OAuth::read(&Value::Object(oauth.clone()))
        }
        _ => Ok(OAuth::default()),
    }
}

impl ServerPlan {
    /// Whether there is nothing to start.
    pub fn is_empty(&self) -> bool {
        self.usable().next().is_none()
    }

    /// Those that may be used.
    pub fn usable(&self) -> impl Iterator<Item = (&PlannedServer, &ServerConfig)> {
        self.servers.iter().filter_map(|server| Some((server, server.plan.as_ref().ok()?)))
    }

    /// The one of this name that counts.
    pub fn find(&self, name: &str) -> Option<&PlannedServer> {
        self.servers.iter().find(|planned| planned.server.name == name)
    }

    /// Without all others.
    pub fn only(mut self, name: &str) -> ServerPlan {
        self.servers.retain(|planned| planned.server.name == name);
        self
    }

    /// Where everything of a server is denied by a rule, it is not used at all: it has more than tools.
    pub fn without_denied(mut self, denies: impl Fn(&str) -> Option<DecisionReason>) -> ServerPlan {
        for planned in self.servers.iter_mut().filter(|planned| planned.plan.is_ok()) {
            if let Some(reason) = denies(&planned.server.name) {
                planned.plan = Err(UnusedReason::ByRule(reason.text.into_owned()));
            }
        }
        self
    }

    /// Warnings about the servers that are to be started.
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
                // Who names a file wants what is in it.
                Err(why) if planned.server.source.scope == SourceScope::CommandLine => {
                    warnings.push(format!("{source}: the server `{name}` is not used: {}", why.message()));
                }
                Err(_) => {}
            }
        }
        warnings
    }
}
