//! `haft mcp login` and `haft mcp logout`: an account with a server over HTTP.
//!
//! The address is shown, and the user opens it: it came from a server, so no program is started with it. The
//! answer comes to a port of this machine; who has their browser elsewhere brings the address back that it
//! ends up at.

use std::sync::Arc;

use haft::future::BoxFuture;
use haft_mcp::{PageOpener, ServerHandle, SignInPage};
use haft_session::SessionPurpose;
use haft_session::assembly::ServerPorts;

use super::args::AccountArgs;
use super::unknown_server;
use crate::args::CommonArgs;
use crate::interrupt::InterruptHandler;
use crate::output::{self, one_line};
use crate::{ExitStatus, UsageError, session, terminal, threads};

pub(super) fn sign_in(args: &AccountArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    with_server(args, common, async |server| {
        let signed_in = server.sign_in().await?;
        let scopes = if signed_in.scopes.is_empty() {
            String::new()
        } else {
            format!(", for {}", one_line(&signed_in.scopes.join(" ")))
        };
        let renewed = if signed_in.renews { "; it is renewed by itself" } else { "" };
        Ok(format!("signed in to `{}` by {}{scopes}{renewed}", args.server, one_line(&signed_in.issuer)))
    })
}

pub(super) fn sign_out(args: &AccountArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    with_server(args, common, async |server| {
        Ok(if server.sign_out().await? {
            format!("signed out of `{}`", args.server)
        } else {
            format!("there was no sign-in to `{}`", args.server)
        })
    })
}

/// Connects to the server, as far as that goes, and does something with the account. Says what came of it.
fn with_server(
    args: &AccountArgs,
    common: &CommonArgs,
    act: impl AsyncFnOnce(&ServerHandle) -> Result<String, String>,
) -> Result<ExitStatus, UsageError> {
    let _interrupts =
        InterruptHandler::listen().map_err(|error| UsageError(format!("signals can't be heard: {error}")))?;
    let mut session = session::open_session(&common.options(), SessionPurpose::Inspect)?;
    let planned = std::mem::take(&mut session.server_starter.planned);
    let found = planned.find(&args.server).ok_or_else(|| unknown_server(&args.server, &planned))?;
    if let Err(why) = &found.plan {
        return Err(UsageError(format!("the MCP server `{}` is not used: {}", args.server, why.message())));
    }
    session.server_starter.planned = planned.only(&args.server);
    session.server_starter.warn();
    let runtime = threads::runtime_for_calls(1)?;
    let said = runtime.block_on(async {
        let ports = ServerPorts { browser: Some(Arc::new(SignInUser)), ..ServerPorts::default() };
        let pool = session.start_servers(ports)?;
        let server = pool.servers().get(&args.server).expect("it is the one that was planned");
        let said = act(server).await;
        pool.close().await;
        Ok::<_, UsageError>(said)
    });
    runtime.shutdown_background();
    Ok(match said? {
        Ok(words) => {
            output::print_line(&words);
            ExitStatus::Done
        }
        Err(words) => {
            output::print_line(&format!("`{}`: {}", args.server, one_line(&words)));
            ExitStatus::Failed
        }
    })
}

/// The user, who opens pages.
struct SignInUser;

impl PageOpener for SignInUser {
    fn open<'a>(&'a self, page: &'a SignInPage) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            output::print_line(&format!(
                "`{}` wants you to sign in at {}. Open this address in your browser:\n\n  {}\n",
                one_line(&page.server),
                one_line(&page.host),
                one_line(&page.url)
            ));
            if !terminal::has_user() {
                output::print_line(&format!("waiting for the answer at {}", one_line(&page.redirect)));
                return None;
            }
            output::print_line(
                "The answer is waited for here. If your browser is on another machine, paste the address that it ends up at.",
            );
            terminal::read_line("  address: ").await.filter(|line| !line.trim().is_empty())
        })
    }
}
