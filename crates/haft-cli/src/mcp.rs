//! `haft mcp`: the servers that settings name, and what the user does with them.
//!
//! | file | does |
//! |---|---|
//! | [`args`] | what can be said |
//! | [`list`] | `list` and `get`: how servers are, tried for real |
//! | [`edit`] | `add`, `add-json`, `remove`: changes to files of servers |
//! | [`approve`] | the user's yes to servers of a workspace and to what they offer |
//! | [`sign_in`] | `login` and `logout` |
//!
//! How servers become tools of a session, and how files that name them are changed, is `haft-session`'s.

mod approve;
pub(crate) mod args;
mod edit;
pub(crate) mod list;
mod sign_in;

use std::path::Path;

use haft::redact::redact_text;
use haft::view::escape_invisible;
use haft_mcp::names::wire_name;
use haft_session::assembly::{PlannedServer, ServerPlan, TransportKind};
use haft_session::loaded_settings::SessionFolders;
use haft_session::mcp::logs::ServerLogs;
use haft_session::settings_view::SettingScope;
use haft_session::{SessionEnvironment, SessionPurpose};

use self::args::{LogsArgs, McpArgs, McpCallArgs, McpCommand};
use crate::args::CommonArgs;
use crate::interrupt::InterruptHandler;
use crate::output::{self, OutputReader, one_line};
use crate::{ExitStatus, UsageError, call, session};

pub(crate) fn run(args: &McpArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let common = common.clone();
    match &args.command {
        McpCommand::List(args) => list::list_servers(args, &common.with(args.common.clone())),
        McpCommand::Get(args) => list::show_server(args, &common.with(args.common.clone())),
        McpCommand::Add(args) => edit::add_server(args, &common.with(args.common.clone())),
        McpCommand::AddJson(args) => edit::add_json(args, &common.with(args.common.clone())),
        McpCommand::Remove(args) => edit::remove_server(args, &common.with(args.common.clone())),
        McpCommand::Approve(args) => approve::run(args, &common.with(args.common.clone())),
        McpCommand::Login(args) => sign_in::sign_in(args, &common.with(args.common.clone())),
        McpCommand::Logout(args) => sign_in::sign_out(args, &common.with(args.common.clone())),
        McpCommand::Logs(args) => show_logs(args, &common.with(args.common.clone())),
        McpCommand::Call(args) => self::call_tool(args, &common.with(args.common.clone())),
    }
}

/// Calls one tool of one server, through everything that any call goes through.
fn call_tool(args: &McpCallArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let interrupts =
        InterruptHandler::listen().map_err(|error| UsageError(format!("signals can't be heard: {error}")))?;
    let mut session = session::open_session(&common.options(), SessionPurpose::Once)?;
    let planned = std::mem::take(&mut session.server_starter.planned);
    let found = planned.find(&args.server).ok_or_else(|| unknown_server(&args.server, &planned))?;
    if let Err(why) = &found.plan {
        return Err(UsageError(format!("the MCP server `{}` is not used: {}", args.server, why.message())));
    }
    session.server_starter.planned = planned.only(&args.server);
    let tool = wire_name(&args.server, &args.tool);
    call::carry_out(&session, &tool, args.input.as_deref(), args.output, &interrupts)
}

/// Shows what is kept of what a server complained about.
fn show_logs(args: &LogsArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let cwd = common.cwd.as_deref().unwrap_or(Path::new("."));
    let folders = SessionFolders::find(cwd, &SessionEnvironment::default())?;
    let state = folders.state.as_deref().ok_or_else(|| {
        UsageError(
            "there is no folder that logs are kept in; set HAFT_STATE_DIR, or HOME, to an absolute path"
                .into(),
        )
    })?;
    let plain = args.server.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let kept = plain.then(|| ServerLogs::new(state, &folders.workspace).read(&args.server)).flatten();
    let Some(kept) = kept else {
        let planned =
            session::inspect_session(&common.options(), SessionPurpose::Inspect)?.server_starter.planned;
        planned.find(&args.server).ok_or_else(|| unknown_server(&args.server, &planned))?;
        output::print_line(&format!("nothing is kept of `{}`: it has not complained here", args.server));
        return Ok(ExitStatus::Done);
    };
    // What a server was given it may have printed.
    let planned =
        session::inspect_session(&common.options(), SessionPurpose::Inspect)?.server_starter.planned;
    let text = String::from_utf8_lossy(&kept);
    let text = match planned.find(&args.server) {
        Some(planned) => planned.hide_secrets(&text),
        None => text.into_owned(),
    };
    Ok(output::write_result(&escape_invisible(&redact_text(&text)), OutputReader::Sampler)
        .err()
        .unwrap_or(ExitStatus::Done))
}

/// There is no server of this name.
fn unknown_server(name: &str, planned: &ServerPlan) -> UsageError {
    let mut names: Vec<String> =
        planned.servers.iter().map(|planned| format!("`{}`", planned.name())).collect();
    names.sort();
    names.dedup();
    let there = if names.is_empty() {
        "none is configured here; `haft mcp add` adds one".to_owned()
    } else {
        format!("there are {}", names.join(", "))
    };
    UsageError(format!("no MCP server named `{}`; {there}", one_line(name)))
}

/// The word for a scope, as `--scope` takes it.
fn scope_word(scope: SettingScope) -> &'static str {
    match scope {
        SettingScope::CommandLine => "command-line",
        SettingScope::Local => "local",
        SettingScope::Project => "project",
        SettingScope::User => "user",
        SettingScope::Answer => "session",
        SettingScope::Managed => "managed",
    }
}

fn transport_word(server: &PlannedServer) -> &'static str {
    match server.transport_kind() {
        TransportKind::Stdio => "stdio",
        TransportKind::Http => "http",
        TransportKind::Sse => "sse",
        TransportKind::WebSocket => "ws",
    }
}
