//! `haft mcp add`, `add-json` and `remove`: changes to the files that name servers. Starts nothing.

use std::path::Path;

use haft_session::SessionEnvironment;
use haft_session::mcp::server_files::{ServerFiles, ServerFilesError};
use serde_json::{Map, Value, json};

use super::args::{AddJsonArgs, McpAddArgs, RemoveArgs, ScopeArg, TransportArg};
use crate::args::CommonArgs;
use crate::output::{self, one_line};
use crate::{ExitStatus, UsageError, call};

pub(super) fn add_server(args: &McpAddArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    put_entry(common, args.scope, &args.name, server_entry(args)?)
}

pub(super) fn add_json(args: &AddJsonArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let text = call::read_input(Some(&args.json))?;
    let server: Value =
        serde_json::from_str(&text).map_err(|error| UsageError(format!("the entry: {error}")))?;
    put_entry(common, args.scope, &args.name, server)
}

/// The entry that the flags describe.
fn server_entry(args: &McpAddArgs) -> Result<Value, UsageError> {
    let scheme = args.target.split_once("://").map(|(scheme, _)| scheme);
    let kind = args.transport.unwrap_or(match scheme {
        Some("http" | "https") => TransportArg::Http,
        Some("ws" | "wss") => TransportArg::Ws,
        _ => TransportArg::Stdio,
    });
    if args.transport.is_none()
        && scheme.is_none()
        && args.args.is_empty()
        && looks_like_address(&args.target)
    {
        return Err(UsageError(format!(
            "`{0}` looks like an address and would be taken for a command; write `http://{0}` for an address, or give \
             `--transport stdio` for a command of this name",
            one_line(&args.target)
        )));
    }
    let known = matches!(
        (kind, scheme),
        (TransportArg::Stdio, None)
            | (TransportArg::Http | TransportArg::Sse, Some("http" | "https"))
            | (TransportArg::Ws, Some("ws" | "wss"))
    );
    if let Some(scheme) = scheme.filter(|scheme| !known && !scheme.contains("${")) {
        let accepted = match kind {
            TransportArg::Stdio => "a command, or an address with http, https, ws or wss",
            TransportArg::Http | TransportArg::Sse => "an address with http or https",
            TransportArg::Ws => "an address with ws or wss",
        };
        return Err(UsageError(format!(
            "`{}` is an address with `{}`, and no server is reached so; {accepted} is accepted",
            one_line(&args.target),
            one_line(scheme)
        )));
    }
    let word = match kind {
        TransportArg::Stdio => {
            if let Some(header) = args.header.first() {
                return Err(UsageError(format!(
                    "--header `{}`: a process has no headers; --env sets a variable",
                    one_line(header)
                )));
            }
            let mut server = json!({"command": args.target, "args": args.args});
            let env = parse_pairs("--env", &args.env, '=', "NAME=VALUE")?;
            if !env.is_empty() {
                server["env"] = Value::Object(env);
            }
            return Ok(server);
        }
        TransportArg::Http => "http",
        TransportArg::Sse => "sse",
        TransportArg::Ws => "ws",
    };
    if let Some(argument) = args.args.first() {
        return Err(UsageError(format!("`{}`: an address has no arguments", one_line(argument))));
    }
    if let Some(variable) = args.env.first() {
        return Err(UsageError(format!(
            "--env `{}`: an address has no environment; --header sets a header",
            one_line(variable)
        )));
    }
    if scheme.is_none() && !args.target.contains("${") {
        return Err(UsageError(format!("`{}` is no address; https://… is accepted", one_line(&args.target))));
    }
    let mut server = json!({"type": word, "url": args.target});
    let headers = parse_pairs("--header", &args.header, ':', "\"Name: value\"")?;
    if !headers.is_empty() {
        server["headers"] = Value::Object(headers);
    }
    Ok(server)
}

/// Whether a target could be an address without its beginning: a host and a port, or a host and a path as
/// servers have them.
fn looks_like_address(target: &str) -> bool {
    let (place, path) = target.split_once('/').unwrap_or((target, ""));
    let is_host = |host: &str| {
        !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
    };
    match place.split_once(':') {
        Some((host, port)) => is_host(host) && port.parse::<u16>().is_ok(),
        None => {
            let ends = matches!(path.trim_end_matches('/').rsplit('/').next(), Some("mcp" | "sse"));
            is_host(place)
                && (place == "localhost" || (place.contains('.') && !place.starts_with('.') && ends))
        }
    }
}

fn parse_pairs(
    flag: &str,
    given: &[String],
    between: char,
    form: &str,
) -> Result<Map<String, Value>, UsageError> {
    let pair = |text: &String| match text.split_once(between) {
        Some((name, value)) if !name.trim().is_empty() => {
            let value = if between == ':' { value.trim() } else { value };
            Ok((name.trim().to_owned(), json!(value)))
        }
        // What was given may be a secret.
        _ => Err(UsageError(format!("{flag} takes {form}"))),
    };
    given.iter().map(pair).collect()
}

/// The files of the workspace and the user.
fn server_files(common: &CommonArgs) -> Result<ServerFiles, UsageError> {
    let cwd = common.cwd.as_deref().unwrap_or(Path::new("."));
    Ok(ServerFiles::new(cwd, &SessionEnvironment::default())?)
}

/// Puts an entry into the file of a scope.
fn put_entry(
    common: &CommonArgs,
    scope: ScopeArg,
    name: &str,
    server: Value,
) -> Result<ExitStatus, UsageError> {
    let added = server_files(common)?.add(scope.into(), name, &server).map_err(|error| match error {
        ServerFilesError::AlreadyThere { file } => UsageError(format!(
            "{file} names `{name}` already; `haft mcp remove {name} --scope {}` removes it",
            scope.name()
        )),
        other => UsageError(other.to_string()),
    })?;
    added.warnings.iter().for_each(|warning| output::print_warning(&one_line(warning)));
    let whom = match scope {
        ScopeArg::Local => "for you, in this workspace",
        ScopeArg::User => "for you, everywhere",
        ScopeArg::Project => "for everybody in this workspace",
    };
    output::print_line(&format!("added `{name}` to {} ({whom})", added.file));
    match scope {
        ScopeArg::Project => output::print_line(&format!(
            "it counts once you said yes to it: `haft trust`, then `haft mcp approve {name}`"
        )),
        _ => output::print_line(&format!("`haft mcp get {name}` tries it and shows its tools")),
    }
    Ok(ExitStatus::Done)
}

pub(super) fn remove_server(args: &RemoveArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let name = &args.name;
    let file =
        server_files(common)?.remove(args.scope.map(Into::into), name).map_err(|error| match error {
            ServerFilesError::NotFound { claude_file } => {
                let hint = match claude_file {
                    Some(file) => format!("; {file} is Claude Code's own, `claude mcp remove` changes it"),
                    None => "; `haft mcp list` shows what there is".to_owned(),
                };
                UsageError(format!(
                    "no file of yours or of this workspace names a server `{}`{hint}",
                    one_line(name)
                ))
            }
            ServerFilesError::Ambiguous(scopes) => {
                let scopes: Vec<&str> =
                    scopes.into_iter().map(|scope| ScopeArg::from(scope).name()).collect();
                UsageError(format!(
                    "`{name}` is named in several places; give --scope with {}",
                    scopes.join(" or ")
                ))
            }
            other => UsageError(other.to_string()),
        })?;
    output::print_line(&format!("removed `{name}` from {file}"));
    Ok(ExitStatus::Done)
}
