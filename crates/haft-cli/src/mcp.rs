//! `haft mcp`: the servers that settings name, and what the user does with them.
//!
//! | file | does |
//! |---|---|
//! | [`args`] | what can be said |
//! | [`list`] | `list` and `get`: how servers are, tried for real |
//! | [`edit`] | `add`, `add-json`, `remove`: changes to files of servers |
//! | [`approve`], [`prompt`] | the user's yes to servers of a workspace and to what they offer, here and in a run |
//! | [`approvals`], [`logs`] | what is kept of both in the state folder |
//! | [`secrets`] | what of a server is not shown |
//! | [`sign_in`] | `login` and `logout` |
//! | [`sample`] | a server asks the model, with the user's yes |
//!
//! How servers become tools of a session is [`crate::session`]'s.

mod approve;
pub(crate) mod args;
mod edit;
pub(crate) mod list;
mod sign_in;

use std::path::Path;

use haft::view::visible;
use haft_mcp::names::wire_name;
use haft_policy::settings::{Remote, Server, Transport};
use haft_policy::source::Scope;

pub(crate) use haft_session::mcp::{approvals, logs, prompt, rows, secrets, target};

use self::args::{LogsArgs, McpArgs, McpCallArgs, McpCommand};
use crate::args::Common;
use crate::interrupt::Interrupts;
use crate::output::{self, Reader, one_line};
use crate::session::{Planned, SessionParts, SessionPurpose};
use crate::{Exit, Usage, call, given, session};

pub(crate) fn run(args: &McpArgs, common: &Common) -> Result<Exit, Usage> {
    let common = common.clone();
    match &args.command {
        McpCommand::List(args) => list::list(args, &common.with(args.common.clone())),
        McpCommand::Get(args) => list::get(args, &common.with(args.common.clone())),
        McpCommand::Add(args) => edit::add(args, &common.with(args.common.clone())),
        McpCommand::AddJson(args) => edit::add_json(args, &common.with(args.common.clone())),
        McpCommand::Remove(args) => edit::remove(args, &common.with(args.common.clone())),
        McpCommand::Approve(args) => approve::run(args, &common.with(args.common.clone())),
        McpCommand::Login(args) => sign_in::login(args, &common.with(args.common.clone())),
        McpCommand::Logout(args) => sign_in::logout(args, &common.with(args.common.clone())),
        McpCommand::Logs(args) => logs(args, &common.with(args.common.clone())),
        McpCommand::Call(args) => self::call(args, &common.with(args.common.clone())),
    }
}

/// Calls one tool of one server, through everything that any call goes through.
fn call(args: &McpCallArgs, common: &Common) -> Result<Exit, Usage> {
    let interrupts =
        Interrupts::listen().map_err(|error| Usage(format!("signals can't be heard: {error}")))?;
    let mut session = session::open(&common.options(), SessionPurpose::Once)?;
    let planned = std::mem::take(&mut session.links.planned);
    let found = planned.find(&args.server).ok_or_else(|| unknown(&args.server, &planned))?;
    if let Err(why) = &found.plan {
        return Err(Usage(format!("the MCP server `{}` is not used: {}", args.server, why.words())));
    }
    session.links.planned = planned.only(&args.server);
    let tool = wire_name(&args.server, &args.tool);
    let engine = session.engine.clone().build();
    call::carry_out(&engine, session, &tool, args.input.as_deref(), args.output, &interrupts)
}

/// Shows what is kept of what a server complained about.
fn logs(args: &LogsArgs, common: &Common) -> Result<Exit, Usage> {
    let cwd = common.cwd.as_deref().unwrap_or(Path::new("."));
    let lookup = |name: &str| std::env::var_os(name);
    let places = given::places(cwd, &lookup)?;
    let state = places.state_dir.as_deref().ok_or_else(|| {
        Usage(
            "there is no folder that logs are kept in; set HAFT_STATE_DIR, or HOME, to an absolute path"
                .into(),
        )
    })?;
    let plain = args.server.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let kept = plain.then(|| logs::Logs::new(state, &places.cwd).read(&args.server)).flatten();
    let Some(kept) = kept else {
        let SessionParts { links, .. } = session::inspect(&common.options(), SessionPurpose::Inspect)?;
        links.planned.find(&args.server).ok_or_else(|| unknown(&args.server, &links.planned))?;
        output::say(&format!("nothing is kept of `{}`: it has not complained here", args.server));
        return Ok(Exit::Done);
    };
    // What a server was given it may have printed.
    let planned = session::inspect(&common.options(), SessionPurpose::Inspect)?.links.planned;
    let given = planned.find(&args.server).map(|planned| secrets::given(&planned.server)).unwrap_or_default();
    let text = secrets::hidden(&String::from_utf8_lossy(&kept), &given);
    let text = visible(&text);
    Ok(output::result(&text, Reader::Sampler).err().unwrap_or(Exit::Done))
}

/// There is no server of this name.
fn unknown(name: &str, planned: &Planned) -> Usage {
    let mut names: Vec<String> =
        planned.servers.iter().map(|planned| format!("`{}`", planned.server.name)).collect();
    names.sort();
    names.dedup();
    let there = match names.is_empty() {
        true => "none is configured here; `haft mcp add` adds one".to_owned(),
        false => format!("there are {}", names.join(", ")),
    };
    Usage(format!("no MCP server named `{}`; {there}", one_line(name)))
}

/// The word for a scope, as `--scope` takes it.
fn scope_word(scope: Scope) -> &'static str {
    match scope {
        Scope::CommandLine => "command-line",
        Scope::Local => "local",
        Scope::Project => "project",
        Scope::User => "user",
        Scope::Session => "session",
        Scope::Managed => "managed",
    }
}

fn transport_word(server: &Server) -> &'static str {
    match &server.transport {
        Transport::Stdio { .. } => "stdio",
        Transport::Remote { kind: Remote::Http, .. } => "http",
        Transport::Remote { kind: Remote::Sse, .. } => "sse",
        Transport::Remote { kind: Remote::Ws, .. } => "ws",
    }
}
