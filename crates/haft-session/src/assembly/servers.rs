//! From settings to the servers of a session: which may be used, how each is reached, and who answers for it. Starts nothing.
//!
//! A server that the user named, by a flag or in a file of their own, is taken as it comes and runs as they would run it. One
//! that came with the workspace runs in the sandbox, unless the user's own settings let it out, and only once it was approved:
//! [`crate::mcp::approvals`] knows that.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use haft::DecisionReason;
use haft::env::Lookup;
use haft::ports::Confinement;
use haft_mcp::{OAuth, Remote, ServerConfig, Stdio, Transport, Trust, limits};
use haft_policy::settings::{self, Places, Refused, Server, Settings, Withheld};
use haft_policy::source::Scope;
use serde_json::Value;

use crate::run::proxy;
use crate::text::one_line;

/// The servers that settings name.
#[derive(Default, Clone)]
pub struct Planned {
    /// All of them, those that may be used first; of those no two have one name.
    pub servers: Vec<PlannedServer>,
}

/// A server that settings name, and what is to become of it.
#[derive(Clone)]
pub struct PlannedServer {
    pub server: Server,
    /// How it is reached, or why it isn't used, in words.
    pub plan: Result<ServerConfig, NotUsed>,
    /// What its entry names that isn't set.
    pub unset: Vec<String>,
    /// Settings approve it by its name: what it offers is approved when it is first seen.
    pub enabled: bool,
}

/// Why a server isn't used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotUsed {
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
    /// What is said of its sign-in makes no sense: why.
    BadSignIn(String),
}

impl NotUsed {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            NotUsed::Untrusted => "the workspace is not trusted; `haft trust` shows it".to_owned(),
            NotUsed::Disabled(by) => format!("turned off by {by}"),
            NotUsed::Hidden(by) => format!("{by} names one that is called the same"),
            NotUsed::Denied(by) => format!("denied by {by} (`deniedMcpServers`)"),
            NotUsed::ByRule(by) => format!("denied by {by}"),
            NotUsed::BadSignIn(words) => format!("its `oauth` can't be used: {words}"),
            NotUsed::NotAllowed => "`allowedMcpServers` does not name it".to_owned(),
        }
    }
}

/// Understands what settings say about servers.
pub(super) fn plan(settings: &Settings, places: &Places, lookup: Lookup<'_>) -> Planned {
    let mcp = &settings.mcp;
    if mcp.servers.is_empty() && mcp.withheld.is_empty() {
        return Planned::default();
    }
    let variable = |name: &str| match name {
        "CLAUDE_PROJECT_DIR" => Some(places.cwd.display().to_string()),
        _ => lookup(name).and_then(|value: OsString| value.into_string().ok()),
    };
    let mut servers = Vec::new();
    for server in &mcp.servers {
        let written = config(server, settings, &places.cwd, lookup);
        let (config, mut unset) = written.clone().expanded(&variable);
        unset.sort();
        unset.dedup();
        // What is written is denied as well as what it becomes; allowed is what it becomes.
        let refused = refused(settings, &written).filter(|refused| matches!(refused, Refused::Denied(_)));
        let refused = refused.or_else(|| self::refused(settings, &config));
        let plan = match refused {
            None => oauth(server).map(|_| config).map_err(NotUsed::BadSignIn),
            Some(Refused::Denied(by)) => Err(NotUsed::Denied(by.to_string())),
            Some(Refused::NotAllowed) => Err(NotUsed::NotAllowed),
        };
        let enabled = server.of_workspace && mcp.is_enabled(&server.name);
        servers.push(PlannedServer { server: server.clone(), plan, unset, enabled });
    }
    for (server, why) in &mcp.withheld {
        let why = match why {
            Withheld::Untrusted => NotUsed::Untrusted,
            Withheld::Disabled(by) => NotUsed::Disabled(by.to_string()),
            Withheld::Hidden(by) => NotUsed::Hidden(by.to_string()),
        };
        servers.push(PlannedServer {
            server: server.clone(),
            plan: Err(why),
            unset: Vec::new(),
            enabled: false,
        });
    }
    Planned { servers }
}

fn refused(settings: &Settings, config: &ServerConfig) -> Option<Refused> {
    let (command, url) = match &config.transport {
        Transport::Stdio(stdio) => {
            (Some(std::iter::once(&stdio.command).chain(&stdio.args).cloned().collect::<Vec<_>>()), None)
        }
        Transport::Http(remote) | Transport::Sse(remote) | Transport::WebSocket(remote) => {
            (None, Some(remote.url.as_str()))
        }
        Transport::InProcess(_) => (None, None),
    };
    settings.mcp.refuses(&config.name, command.as_deref(), url)
}

/// A server as it is written, with what the user's settings say about it.
fn config(server: &Server, settings: &Settings, cwd: &Path, lookup: Lookup<'_>) -> ServerConfig {
    let options = &settings.mcp.options;
    let own = options.of_server(&server.name);
    let confinement = match own.sandbox.unwrap_or(server.of_workspace) {
        true => Confinement::Session,
        false => Confinement::Outside,
    };
    let transport = match &server.transport {
        settings::Transport::Stdio { command, args, env } => Transport::Stdio(Stdio {
            command: command.clone(),
            args: args.clone(),
            env: env.clone(),
            cwd: Some(cwd.to_owned()),
            confinement,
        }),
        settings::Transport::Remote { kind, url, headers, headers_helper, .. } => {
            let oauth = oauth(server).unwrap_or_default();
            let mut remote = Remote::new(url.as_str());
            remote.headers = headers.clone();
            remote.headers_helper = headers_helper.clone();
            remote.confinement = confinement;
            remote.proxy = proxy::of(url, lookup);
            remote.oauth = oauth;
            match kind {
                settings::Remote::Http => Transport::Http(remote),
                settings::Remote::Sse => Transport::Sse(remote),
                settings::Remote::Ws => Transport::WebSocket(remote),
            }
        }
    };
    let mut config = ServerConfig::new(server.name.as_str(), transport);
    config.trust = if server.of_workspace { Trust::Approvals } else { Trust::Given };
    if let Some(limit) = options.connect_timeout_ms() {
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
    config.background_after = match options.background_after_ms() {
        Some(0) => None,
        Some(after) => Some(Duration::from_millis(after)),
        None => Some(limits::BACKGROUND_AFTER),
    };
    config
}

/// How a sign-in goes, by a server's entry.
fn oauth(server: &Server) -> Result<OAuth, String> {
    match &server.transport {
        settings::Transport::Remote { oauth: Some(oauth), .. } => OAuth::read(&Value::Object(oauth.clone())),
        _ => Ok(OAuth::default()),
    }
}

impl Planned {
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
    pub fn only(mut self, name: &str) -> Planned {
        self.servers.retain(|planned| planned.server.name == name);
        self
    }

    /// Where everything of a server is denied by a rule, it is not used at all: it has more than tools.
    pub fn without_denied(mut self, denies: impl Fn(&str) -> Option<DecisionReason>) -> Planned {
        for planned in self.servers.iter_mut().filter(|planned| planned.plan.is_ok()) {
            if let Some(reason) = denies(&planned.server.name) {
                planned.plan = Err(NotUsed::ByRule(reason.text.into_owned()));
            }
        }
        self
    }

    /// What is doubtful about those that are to be started, in words.
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
                Err(why) if planned.server.source.scope == Scope::CommandLine => {
                    warnings.push(format!("{source}: the server `{name}` is not used: {}", why.words()));
                }
                Err(_) => {}
            }
        }
        warnings
    }
}
