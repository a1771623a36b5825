//! `haft serve`: all tools of a session as one MCP server, with rules, hooks and sandbox in between.
//!
//! | file | knows |
//! |---|---|
//! | [`args`] | what can be said |
//! | [`http_auth`] | who may come in over HTTP |
//! | [`client_pool`] | which client a request belongs to, and that servers come and go |
//! | [`client`] | one client: its engine, its calls, its results |
//! | [`active_calls`], [`client_questions`] | the calls under way, and how their users are asked |
//! | [`tool_listing`], [`stored_results`] | tools and whole results as the protocol has them |
//! | [`relay`] | resources and prompts of connected servers |
//!
//! The protocol and the transports are `haft-mcp`'s. Nothing slow is done before the first answer: servers
//! connect in the background, and clients are told when tools come. Only a list waits for them, for a short
//! while after the first one: there are clients that ask once and don't hear what changes.

mod active_calls;
pub(crate) mod args;
mod client;
mod client_pool;
mod client_questions;
mod http_auth;
mod relay;
mod stored_results;
mod tool_listing;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use haft::Cancel;
use haft::env::HAFT_MCP_SERVER;
use haft::ports::Asker;
use haft_mcp::limits::{
    CONNECTIONS_MAX, DESCRIPTORS_RESERVED, SHUTDOWN_GRACE, UNAUTHENTICATED_CONNECTIONS_MAX,
};
use haft_mcp::server::{McpServer, UnixSocket};
use haft_session::SessionPurpose;
use haft_session::assembly::{ServerPool, SessionAssembler};
use haft_session::clients::{ClientView, ClientViewError, ClientViews};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;

use self::active_calls::ActiveCalls;
use self::args::ServeArgs;
use self::client::SharedServices as Shared;
use self::client_pool::{ClientFactory, ClientPool};
use self::client_questions::ServerQuestions;
use self::relay::RelayedResources;
use crate::args::CommonArgs;
use crate::interrupt::InterruptHandler;
use crate::{ExitStatus, UsageError, output, session, threads};

/// How long calls may take once a client that started this has gone: it waits for two seconds before it
/// kills, and servers have to end as well.
const STDIO_GRACE: Duration = Duration::from_secs(1);
/// How long after the first of them lists wait for servers that are still being connected.
const LISTS_WAIT: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &ServeArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let interrupts =
        InterruptHandler::listen().map_err(|error| UsageError(format!("signals can't be heard: {error}")))?;
    let assembler = SessionAssembler::load(&common.options(), SessionPurpose::Run)?;
    let views = client_views(&assembler, args)?;
    let stop = Cancel::new();
    let runtime = threads::runtime_for_calls(usize::MAX)?;
    let served = runtime.block_on(async {
        let calls = ActiveCalls::default();
        let pool = server_pool(views.default_view(), &calls, common.non_interactive)?;
        let passed = pool.clone().map(|pool| Arc::new(RelayedResources::new(pool)));
        let lists_wait = args.server_wait.map_or(LISTS_WAIT, Duration::from_secs);
        let shared = Arc::new(Shared {
            calls,
            pool: pool.clone(),
            passed,
            written: tool_listing::ToolDefinitionCache::default(),
            lists_wait,
            first_list: OnceLock::new(),
            said_missing: AtomicBool::new(false),
        });
        let desk = Arc::new(ClientPool::new(shared, views, common.non_interactive));
        let following = pool.clone().map(|pool| tokio::spawn(desk.clone().follow(pool)));
        interrupts.tell_server(Some(stop.clone()));
        let server = McpServer::new(ClientFactory(desk.clone()))
            .with_limits(|limits| limits.shutdown_grace = grace_period(args));
        let served = run_server(args, &assembler, &server, &stop).await;
        desk.close();
        if let Some(following) = following {
            following.abort();
        }
        if let Some(pool) = pool {
            pool.close().await;
        }
        served
    });
    // A thread that a tool keeps busy is not waited for.
    runtime.shutdown_background();
    served.map(|()| ExitStatus::Done)
}

/// How long calls may take once the server has to end.
fn grace_period(args: &ServeArgs) -> Duration {
    match args.grace {
        Some(seconds) => Duration::from_secs(seconds),
        None if args.http.is_some() || args.unix.is_some() => SHUTDOWN_GRACE,
        None => STDIO_GRACE,
    }
}

/// The views of all clients. Their processes end with the program.
fn client_views(assembler: &SessionAssembler, args: &ServeArgs) -> Result<ClientViews, UsageError> {
    let views = ClientViews::new(assembler, args.view.as_deref(), &args.tools).map_err(|error| {
        let flag = match &error {
            ClientViewError::UnknownClient(_) => ("--view", args.view.as_deref().unwrap_or_default()),
            ClientViewError::UnknownTool(unknown) => ("--tools", unknown.pattern.as_str()),
            _ => return UsageError(error.to_string()),
        };
        UsageError(format!("{} `{}`: {error}", flag.0, output::one_line(flag.1)))
    })?;
    views.iter().for_each(|view| session::register_guard(view.assembler().process_guard()));
    Ok(views)
}

/// The servers of the settings, if there are any.
fn server_pool(
    view: &ClientView,
    calls: &ActiveCalls,
    non_interactive: bool,
) -> Result<Option<Arc<ServerPool>>, UsageError> {
    let asker = (!non_interactive).then(|| Arc::new(ServerQuestions(calls.clone())) as Arc<dyn Asker>);
    let servers = view.assembler().shared_servers(asker)?;
    if servers.is_empty() {
        return Ok(None);
    }
    if std::env::var_os(HAFT_MCP_SERVER).is_some() {
        output::print_line(
            "haft: started as a server of another haft, so the servers that settings name are not connected",
        );
        return Ok(None);
    }
    Ok(Some(Arc::new(servers.start()?)))
}

async fn run_server(
    args: &ServeArgs,
    assembler: &SessionAssembler,
    server: &McpServer,
    stop: &Cancel,
) -> Result<(), UsageError> {
    let settings = assembler.serve_settings();
    if args.http.is_some() || args.unix.is_some() {
        raise_descriptor_limit();
    }
    if let Some(given) = &args.http {
        let address = http_auth::parse_address(given, args.allow_remote)?;
        let (http, made) = http_auth::http_options(args, settings, assembler.home())?;
        let failed = |error: std::io::Error| UsageError(format!("{address} can't be listened on: {error}"));
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        output::print_line(&format!("listening on http://{address}/mcp"));
        if let Some(token) = made {
            output::print_line(&format!("token, shown only now: {token}"));
        }
        return server.serve_http(listener, http, stop).await.map_err(failed);
    }
    if let Some(path) = &args.unix {
        let shown = output::one_line(&path.display().to_string());
        let failed =
            |error: std::io::Error| UsageError(format!("--unix `{shown}` can't be listened on: {error}"));
        let socket = UnixSocket::bind(path).map_err(failed)?;
        output::print_line(&format!("listening on {shown}"));
        server.serve_unix(socket, http_auth::plain_options(args, settings), stop).await;
        return Ok(());
    }
    server.serve_stdio(stop).await;
    Ok(())
}

/// Raises the soft limit for descriptors to what a listener can use, as far as the hard limit allows. The
/// listener accepts fewer connections otherwise.
fn raise_descriptor_limit() {
    let wanted = CONNECTIONS_MAX + UNAUTHENTICATED_CONNECTIONS_MAX + DESCRIPTORS_RESERVED;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(u64::MAX).min(wanted as u64);
    if current.is_some_and(|current| current < wanted) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}
