//! `haft mcp approve`: what a workspace's servers would run and what they offer, and the user's yes to
//! exactly that.
//!
//! In two steps, because a server has to be started before anybody knows what it offers: first the command or
//! the address, then each definition. What was seen is what is kept. Without a clear yes nothing is, and the
//! exit code is 1.

use haft::ports::ConfinementLevel;
use haft_mcp::{
    ApprovalStore as _, ApprovalSubject, KnownApproval, ServerConfig, ServerStatus, ServerTransport,
    ServerTrust, WithheldItem,
};
use haft_session::SessionPurpose;
use haft_session::assembly::{PlannedServer, ServerPorts, UnusedReason};
use haft_session::mcp::prompt::definition_text;

use super::args::ApproveArgs;
use super::unknown_server;
use crate::args::CommonArgs;
use crate::interrupt::InterruptHandler;
use crate::output::{self, OutputReader, one_line};
use crate::{ExitStatus, UsageError, session, terminal, threads};

pub(crate) fn run(args: &ApproveArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let _interrupts =
        InterruptHandler::listen().map_err(|error| UsageError(format!("signals can't be heard: {error}")))?;
    let mut session = session::open_session(&common.options(), SessionPurpose::Inspect)?;
    let mut wanted = Vec::new();
    let mut whole = true;
    match &args.server {
        Some(name) => {
            let found = session
                .server_starter
                .planned
                .find(name)
                .ok_or_else(|| unknown_server(name, &session.server_starter.planned))?;
            match needed_approval(found) {
                Ok(config) => wanted.extend(config.map(|config| (found.clone(), config.clone()))),
                Err(why) => return refuse_approval(found, &why),
            }
            if wanted.is_empty() {
                output::print_line(&format!(
                    "`{name}` needs no approval: you named it yourself ({})",
                    found.source()
                ));
                return Ok(ExitStatus::Done);
            }
        }
        None => {
            for planned in
                session.server_starter.planned.servers.iter().filter(|planned| planned.is_of_workspace())
            {
                match needed_approval(planned) {
                    Ok(config) => wanted.extend(config.map(|config| (planned.clone(), config.clone()))),
                    Err(UnusedReason::Untrusted) => {
                        refuse_approval(planned, &UnusedReason::Untrusted)?;
                        whole = false;
                    }
                    Err(_) => {}
                }
            }
            if wanted.is_empty() && whole {
                output::print_line("no server of this workspace needs an approval");
                return Ok(ExitStatus::Done);
            }
        }
    }

    let approvals = session.server_starter.approvals();
    if let Some(words) = approvals.damaged() {
        output::print_warning(&one_line(&words));
    }
    let mut started = Vec::new();
    for (planned, config) in wanted {
        let subject = ApprovalSubject { server: config.name.clone(), tool: None, value: config.identity() };
        let before = match approvals.known(&subject) {
            KnownApproval::Approved => {
                started.push(planned.name().to_owned());
                continue;
            }
            KnownApproval::New => None,
            KnownApproval::Changed(before) => Some(before),
        };
        print_reviewed(&server_text(
            &planned,
            &config,
            before.map(|before| WithheldItem::new(subject.clone(), Some(before))),
        ))?;
        if says_yes(args, common, &format!("start `{}`, here and from now on?", config.name)) {
            approvals
                .approve(&subject)
                .map_err(|words| UsageError(format!("the yes can't be kept: {words}")))?;
            started.push(planned.name().to_owned());
        } else {
            whole = false
        }
    }
    session
        .server_starter
        .planned
        .servers
        .retain(|planned| started.iter().any(|name| name == planned.name()));
    if session.server_starter.planned.is_empty() {
        return Ok(if whole { ExitStatus::Done } else { ExitStatus::Failed });
    }

    session.server_starter.warn();
    let runtime = threads::runtime_for_calls(1)?;
    let pool = runtime.block_on(async {
        let pool = session.start_servers(ServerPorts::default())?;
        pool.settled_quietly().await;
        Ok::<_, UsageError>(pool)
    })?;
    let answered = (|| {
        let mut whole = true;
        for server in pool.servers().iter() {
            let name = &server.config().name;
            if !matches!(server.status(), ServerStatus::Ready { .. }) {
                let reason = server.failure().unwrap_or_else(|| "it is still being connected".to_owned());
                output::print_line(&format!("`{name}` can't be used: {}", one_line(&reason)));
                whole = false;
                continue;
            }
            let mut withheld = server.withheld();
            let tools = withheld.len();
            withheld.extend(server.withheld_instructions());
            if withheld.is_empty() {
                output::print_line(&format!("`{name}`: all {} tools are approved", server.tool_count()));
                continue;
            }
            let text: String = withheld.iter().map(definition_text).collect();
            print_reviewed(&format!("server {name}\n{text}"))?;
            let count = match (tools, withheld.len() - tools) {
                (0, _) => "these instructions".to_owned(),
                (1, 0) => "this tool".to_owned(),
                (count, 0) => format!("these {count} tools"),
                (1, _) => "this tool and these instructions".to_owned(),
                (count, _) => format!("these {count} tools and these instructions"),
            };
            if says_yes(args, common, &format!("offer {count} of `{name}` as shown?")) {
                let subjects: Vec<ApprovalSubject> =
                    withheld.into_iter().map(|withheld| withheld.subject).collect();
                approvals
                    .approve_all(&subjects)
                    .map_err(|words| UsageError(format!("the yes can't be kept: {words}")))?;
                output::print_line("approved, until one of them changes");
            } else {
                whole = false;
            }
        }
        Ok::<bool, UsageError>(whole)
    })();
    runtime.block_on(pool.close());
    runtime.shutdown_background();
    Ok(if whole && answered? { ExitStatus::Done } else { ExitStatus::Failed })
}

/// The server's configuration, if it needs an approval.
fn needed_approval(planned: &PlannedServer) -> Result<Option<&ServerConfig>, UnusedReason> {
    match &planned.plan {
        Ok(config) if config.trust == ServerTrust::Approvals => Ok(Some(config)),
        Ok(_) => Ok(None),
        Err(why) => Err(why.clone()),
    }
}

fn refuse_approval(planned: &PlannedServer, why: &UnusedReason) -> Result<ExitStatus, UsageError> {
    output::print_line(&format!("`{}` can't be approved: {}", planned.name(), why.message()));
    Ok(ExitStatus::Failed)
}

/// What would be started or reached.
fn server_text(planned: &PlannedServer, config: &ServerConfig, changed: Option<WithheldItem>) -> String {
    let mut text = format!("server {}   {}\n", planned.name(), planned.source());
    for (name, value) in planned.details() {
        text.push_str(&format!("    {name:16} {value}\n"));
    }
    if let ServerTransport::Stdio(stdio) = &config.transport {
        text.push_str(match stdio.confinement {
            ConfinementLevel::Outside => "    runs outside of the sandbox: your settings say so\n",
            _ => "    runs in the sandbox of commands\n",
        });
    }
    if let Some(changed) = changed {
        text.push_str("    what changed since you approved it:\n");
        changed.diff().lines().for_each(|line| text.push_str(&format!("    {}\n", one_line(line))));
    }
    text
}

/// A yes is to what was seen, so all of it has to be.
fn print_reviewed(text: &str) -> Result<(), UsageError> {
    output::write_result(text, OutputReader::Whole)
        .map_err(|_| UsageError("nothing more was approved".to_owned()))
}

fn says_yes(args: &ApproveArgs, common: &CommonArgs, question: &str) -> bool {
    if args.yes {
        return true;
    }
    let asked = (!common.non_interactive)
        .then(|| terminal::ask_confirmation(&format!("{question}   y yes   n no   [n] ")))
        .flatten();
    match asked {
        Some(true) => true,
        Some(false) => {
            output::print_line("not approved");
            false
        }
        None => {
            output::print_line("not approved: nobody was asked; --yes says yes to what is shown");
            false
        }
    }
}
