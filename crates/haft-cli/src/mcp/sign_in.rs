//! `haft mcp login` and `haft mcp logout`: an account with a server over HTTP.
//!
//! The address is shown, and the user opens it: it came from a server, so no program is started with it. The answer comes to
//! a port of this machine; who has their browser elsewhere brings the address back that it ends up at.

use std::sync::Arc;

use haft::future::BoxFuture;
use haft_mcp::{Browser, Page, Server};
use haft_session::SessionPurpose;
use haft_session::assembly::ServerPorts;

use super::args::AccountArgs;
use super::unknown;
use crate::args::Common;
use crate::interrupt::Interrupts;
use crate::output::{self, one_line};
use crate::{Exit, Usage, session, terminal, threads};

pub(super) fn login(args: &AccountArgs, common: &Common) -> Result<Exit, Usage> {
    with_server(args, common, async |server| {
        let signed_in = server.sign_in().await?;
        let scopes = match signed_in.scopes.is_empty() {
            true => String::new(),
            false => format!(", for {}", one_line(&signed_in.scopes.join(" "))),
        };
        let renewed = if signed_in.renews { "; it is renewed by itself" } else { "" };
        Ok(format!("signed in to `{}` by {}{scopes}{renewed}", args.server, one_line(&signed_in.issuer)))
    })
}

pub(super) fn logout(args: &AccountArgs, common: &Common) -> Result<Exit, Usage> {
    with_server(args, common, async |server| {
        Ok(match server.sign_out().await? {
            true => format!("signed out of `{}`", args.server),
            false => format!("there was no sign-in to `{}`", args.server),
        })
    })
}

/// Connects to the server, as far as that goes, and does something with the account. Says what came of it.
fn with_server(
    args: &AccountArgs,
    common: &Common,
    act: impl AsyncFnOnce(&Server) -> Result<String, String>,
) -> Result<Exit, Usage> {
    let _interrupts =
        Interrupts::listen().map_err(|error| Usage(format!("signals can't be heard: {error}")))?;
    let mut session = session::open(&common.options(), SessionPurpose::Inspect)?;
    let planned = std::mem::take(&mut session.server_starter.planned);
    let found = planned.find(&args.server).ok_or_else(|| unknown(&args.server, &planned))?;
    if let Err(why) = &found.plan {
        return Err(Usage(format!("the MCP server `{}` is not used: {}", args.server, why.message())));
    }
    session.server_starter.planned = planned.only(&args.server);
    session.server_starter.warn();
    let runtime = threads::runtime_for_calls(1)?;
    let said = runtime.block_on(async {
        let ports = ServerPorts { browser: Some(Arc::new(Person)), ..ServerPorts::default() };
        let pool = session.start_servers(ports)?;
        let server = pool.servers().get(&args.server).expect("it is the one that was planned");
        let said = act(server).await;
        pool.close().await;
        Ok::<_, Usage>(said)
    });
    runtime.shutdown_background();
    Ok(match said? {
        Ok(words) => {
            output::say(&words);
            Exit::Done
        }
        Err(words) => {
            output::say(&format!("`{}`: {}", args.server, one_line(&words)));
            Exit::Failed
        }
    })
}

/// The user, who opens pages.
struct Person;

impl Browser for Person {
    fn open<'a>(&'a self, page: &'a Page) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            output::say(&format!(
                "`{}` wants you to sign in at {}. Open this address in your browser:\n\n  {}\n",
                one_line(&page.server),
                one_line(&page.host),
                one_line(&page.url)
            ));
            if !terminal::has_user() {
                output::say(&format!("waiting for the answer at {}", one_line(&page.redirect)));
                return None;
            }
            output::say(
                "The answer is waited for here. If your browser is on another machine, paste the address that it ends up at.",
            );
            terminal::line("  address: ").await.filter(|line| !line.trim().is_empty())
        })
    }
}
