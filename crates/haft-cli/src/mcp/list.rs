//! `haft mcp list` and `haft mcp get`: the servers that settings name, tried for real: how they are, how long
//! they took, what they offer.

use std::fmt::Write as _;

use haft::ports::ConfinementLevel;
use haft::text::truncate_chars;
use haft_mcp::names::wire_name;
use haft_mcp::{ServerHandle, ServerStatus, ServerTransport};
use haft_session::SessionPurpose;
use haft_session::assembly::{PlannedServer, ServerPool, ServerPorts, SessionParts, UnusedReason};
use serde::Serialize;

use super::args::{McpGetArgs, McpListArgs};
use super::{scope_word, transport_word, unknown_server};
use crate::args::{CommonArgs, OutputForm};
use crate::interrupt::InterruptHandler;
use crate::output::{self, OutputReader, one_line};
use crate::{ExitStatus, UsageError, session, threads};

/// How wide the columns of names and states are at most.
const NAME_WIDTH_MAX: usize = 30;
const STATE_WIDTH_MAX: usize = 60;
/// How much of a description is shown in a line.
const ABOUT_CHARS: usize = 90;

pub(super) fn list_servers(args: &McpListArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let session = session::open_session(&common.options(), SessionPurpose::Inspect)?;
    let planned = &session.server_starter.planned;
    let shown = with_servers(&session, |pool| {
        let mut rows: Vec<ServerRow> =
            planned.servers.iter().map(|planned| ServerRow::new(planned, pool)).collect();
        rows.sort_by(|a, b| {
            (&a.name, a.state == ServerState::NotUsed).cmp(&(&b.name, b.state == ServerState::NotUsed))
        });
        rows
    })?;
    let (text, reader) = match args.output {
        OutputForm::Json => {
            (serde_json::to_string(&shown).expect("rows have text keys"), OutputReader::Whole)
        }
        OutputForm::Text if shown.is_empty() => {
            output::print_line("no MCP server is configured here; `haft mcp add` adds one");
            return Ok(ExitStatus::Done);
        }
        OutputForm::Text => (render_table(&shown), OutputReader::Sampler),
    };
    Ok(output::write_result(&text, reader).err().unwrap_or(ExitStatus::Done))
}

pub(super) fn show_server(args: &McpGetArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let mut session = session::open_session(&common.options(), SessionPurpose::Inspect)?;
    let planned = std::mem::take(&mut session.server_starter.planned);
    planned.find(&args.server).ok_or_else(|| unknown_server(&args.server, &planned))?;
    session.server_starter.planned = planned.only(&args.server);
    let planned = &session.server_starter.planned;
    let shown = with_servers(&session, |pool| {
        planned.find(&args.server).map(|planned| ServerDetails::new(planned, pool))
    })?;
    let Some(shown) = shown else { return Ok(ExitStatus::Failed) };
    let (text, reader) = match args.output {
        OutputForm::Json => (serde_json::to_string(&shown).expect("it has text keys"), OutputReader::Whole),
        OutputForm::Text => (shown.text(&planned.servers[0]), OutputReader::Sampler),
    };
    // Whoever asks for one wants to know whether it can be used.
    let exit = if shown.row.state == ServerState::Failed { ExitStatus::Failed } else { ExitStatus::Done };
    Ok(output::write_result(&text, reader).err().unwrap_or(exit))
}

/// Starts the servers, waits for them, looks, and ends them.
fn with_servers<T>(
    session: &SessionParts,
    look: impl FnOnce(Option<&ServerPool>) -> T,
) -> Result<T, UsageError> {
    if session.server_starter.planned.is_empty() {
        return Ok(look(None));
    }
    session.server_starter.warn();
    let _interrupts =
        InterruptHandler::listen().map_err(|error| UsageError(format!("signals can't be heard: {error}")))?;
    let runtime = threads::runtime_for_calls(1)?;
    let looked = runtime.block_on(async {
        let pool = session.start_servers(ServerPorts::default())?;
        pool.settled_quietly().await;
        let looked = look(Some(&pool));
        pool.close().await;
        Ok(looked)
    });
    runtime.shutdown_background();
    looked
}

/// A server, as `haft mcp list --output json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Row"))]
pub(crate) struct ServerRow {
    /// Its name.
    name: String,
    /// How it is.
    state: ServerState,
    /// Why it is not ready, in words; null if it is.
    reason: Option<String>,
    /// The kind of place that names it: `command-line`, `local`, `project` or `user`.
    scope: String,
    /// The file that names it, with the line where that is known.
    source: String,
    /// How it is reached: `stdio`, `http`, `sse` or `ws`.
    transport: String,
    /// Its command line as it is written, or its address without passwords and values of its query.
    target: String,
    /// The revision of the protocol; null if it isn't connected.
    revision: Option<String>,
    /// What it calls itself; null if it doesn't say.
    implementation: Option<String>,
    /// How long it took until its tools were known, in milliseconds; null if it isn't connected.
    latency_ms: Option<f64>,
    /// How many tools it offers; null if it isn't connected.
    tools: Option<usize>,
    /// How many of its tools wait for an approval.
    withheld: usize,
}

/// How a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, schemars(rename = "State"))]
enum ServerState {
    /// It can be used.
    Ready,
    /// It was tried, and can't be used.
    Failed,
    /// It came with the workspace, and the user has not approved it as it is.
    NotApproved,
    /// It wants the user to sign in: `haft mcp login`.
    NeedsSignIn,
    /// The workspace that names it is not trusted.
    NotTrusted,
    /// Settings rule it out, or another one of its name counts.
    NotUsed,
}

impl ServerRow {
    fn new(planned: &PlannedServer, pool: Option<&ServerPool>) -> ServerRow {
        let mut row = ServerRow {
            name: planned.name().to_owned(),
            state: ServerState::NotUsed,
            reason: None,
            scope: scope_word(planned.scope()).to_owned(),
            source: planned.source(),
            transport: transport_word(planned).to_owned(),
            target: planned.target(),
            revision: None,
            implementation: None,
            latency_ms: None,
            tools: None,
            withheld: 0,
        };
        let live = match &planned.plan {
            Ok(_) => pool.and_then(|pool| pool.servers().get(planned.name())),
            Err(why) => {
                row.state = if *why == UnusedReason::Untrusted {
                    ServerState::NotTrusted
                } else {
                    ServerState::NotUsed
                };
                row.reason = Some(why.message());
                None
            }
        };
        if let Some(live) = live {
            row.fill(live);
            // Its last words may be what it was given.
            row.reason = row.reason.map(|reason| planned.hide_secrets(&reason));
        }
        row
    }

    fn fill(&mut self, live: &ServerHandle) {
        self.withheld = live.withheld().len();
        match live.status() {
            ServerStatus::Ready { facts, took } => {
                self.state = ServerState::Ready;
                self.revision = Some(facts.revision);
                self.implementation = facts.implementation;
                self.latency_ms = Some((took.as_secs_f64() * 1e4).round() / 10.0);
                self.tools = Some(live.tool_count());
            }
            ServerStatus::Unapproved(withheld) => {
                self.state = ServerState::NotApproved;
                let why =
                    if withheld.before.is_some() { "changed since you approved it" } else { "not approved" };
                self.reason = Some(format!("{why}; `haft mcp approve {}` shows it", self.name));
            }
            ServerStatus::NeedsSignIn { reason } => {
                self.state = ServerState::NeedsSignIn;
                self.reason = Some(reason);
            }
            ServerStatus::Failed { reason, .. } => {
                self.state = ServerState::Failed;
                self.reason = Some(reason);
            }
            _ => {
                let reason = live.failure().unwrap_or_else(|| "it is still being connected".to_owned());
                (self.state, self.reason) = (ServerState::Failed, Some(reason));
            }
        }
    }

    fn marker(&self) -> char {
        match self.state {
            ServerState::Ready => '✓',
            ServerState::Failed => '✗',
            ServerState::NotApproved | ServerState::NotTrusted | ServerState::NeedsSignIn => '?',
            ServerState::NotUsed => '–',
        }
    }

    /// Its tools, the revision and the time, where it is there.
    fn live_words(&self) -> Option<[String; 3]> {
        let (tools, revision, latency) = (self.tools?, self.revision.as_deref()?, self.latency_ms?);
        let noun = if tools == 1 { "tool" } else { "tools" };
        let waits = match self.withheld {
            0 => String::new(),
            waits => format!(", {waits} to approve"),
        };
        Some([format!("{tools} {noun}{waits}"), one_line(revision), format!("{latency:.0} ms")])
    }

    fn state_words(&self) -> String {
        match self.live_words() {
            Some(words) => words.join("   "),
            None => match self.state {
                ServerState::Ready => String::new(),
                ServerState::Failed => "can't be used".to_owned(),
                ServerState::NotApproved => "not approved".to_owned(),
                ServerState::NeedsSignIn => "wants a sign-in".to_owned(),
                ServerState::NotTrusted => "not trusted".to_owned(),
                ServerState::NotUsed => "not used".to_owned(),
            },
        }
    }
}

/// How each server is, those that are there in columns of their own.
fn describe_states(rows: &[ServerRow]) -> Vec<String> {
    let live: Vec<[String; 3]> = rows.iter().filter_map(ServerRow::live_words).collect();
    let width = |of: usize| live.iter().map(|words| words[of].chars().count()).max().unwrap_or(0);
    let [tools, revisions, times] = [0, 1, 2].map(width);
    let state = |row: &ServerRow| match row.live_words() {
        Some([tool, revision, time]) => format!("{tool:tools$}   {revision:revisions$}   {time:>times$}"),
        None => row.state_words(),
    };
    rows.iter().map(state).collect()
}

/// One line for each server: marker, name, how it is, who named it, what it is; below it why it can't be
/// used.
fn render_table(rows: &[ServerRow]) -> String {
    let width = |of: &dyn Fn(&ServerRow) -> String, most: usize| {
        rows.iter().map(|row| of(row).chars().count()).max().unwrap_or(0).min(most)
    };
    let names = width(&|row| row.name.clone(), NAME_WIDTH_MAX);
    let states = describe_states(rows);
    let width_of_states =
        states.iter().map(|state| state.chars().count()).max().unwrap_or(0).min(STATE_WIDTH_MAX);
    let scopes = width(&|row| row.scope.clone(), NAME_WIDTH_MAX);
    let mut text = String::new();
    for (row, state) in rows.iter().zip(&states) {
        let (marker, name, scope, target) = (row.marker(), &row.name, &row.scope, &row.target);
        let _ =
            writeln!(text, "{marker} {name:names$}   {state:width_of_states$}   {scope:scopes$}   {target}");
        if let Some(reason) = &row.reason {
            let _ = writeln!(text, "  {:names$}   {}", "", one_line(reason));
        }
    }
    text
}

/// A server in detail, as `haft mcp get --output json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ServerDetails {
    #[serde(flatten)]
    row: ServerRow,
    /// Names of variables in its environment, or of headers of its requests.
    names: Vec<String>,
    /// Whether its process runs in the sandbox.
    sandboxed: bool,
    /// What it says about how to use it.
    instructions: Option<String>,
    /// Whether it has resources.
    resources: bool,
    /// Whether it has prompts.
    prompts: bool,
    /// The tools that it offers.
    offered: Vec<OfferedTool>,
    /// Its tools that wait for an approval.
    to_approve: Vec<WaitingTool>,
    /// What it listed and can't be offered.
    left_out: Vec<LeftOutTool>,
    /// Messages of it that were dropped: senseless ones, answers to nothing, floods.
    dropped: u64,
}

/// A tool that a server offers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OfferedTool {
    /// As the server calls it.
    name: String,
    /// As models and rules call it.
    wire_name: String,
    /// What the model is told of it.
    description: String,
}

/// A tool that waits for an approval.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WaitingTool {
    /// As the server calls it.
    name: String,
    /// Whether it was approved when it was different.
    changed: bool,
}

/// A tool that can't be offered.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LeftOutTool {
    /// As the server calls it.
    name: String,
    /// Why, in words.
    reason: String,
}

impl ServerDetails {
    fn new(planned: &PlannedServer, pool: Option<&ServerPool>) -> ServerDetails {
        let sandboxed = planned.plan.as_ref().is_ok_and(|config| match &config.transport {
            ServerTransport::Stdio(stdio) => stdio.confinement != ConfinementLevel::Outside,
            _ => false,
        });
        let mut details = ServerDetails {
            row: ServerRow::new(planned, pool),
            names: planned.variable_names(),
            sandboxed,
            instructions: None,
            resources: false,
            prompts: false,
            offered: Vec::new(),
            to_approve: Vec::new(),
            left_out: Vec::new(),
            dropped: 0,
        };
        let Some(live) = pool.and_then(|pool| pool.servers().get(planned.name())) else { return details };
        if let ServerStatus::Ready { facts, .. } = live.status() {
            details.instructions = facts.instructions;
            (details.resources, details.prompts) = (facts.has_resources, facts.has_prompts);
        }
        let offered = |(name, tool): (String, haft::tool::AnyTool)| OfferedTool {
            wire_name: wire_name(planned.name(), &name),
            description: tool.description().to_owned(),
            name,
        };
        details.offered = live.tools().into_iter().map(offered).collect();
        let waiting = live.withheld().into_iter().filter_map(|withheld| {
            Some(WaitingTool { changed: withheld.before.is_some(), name: withheld.subject.tool? })
        });
        details.to_approve = waiting.collect();
        let left_out = live.left_out().into_iter();
        details.left_out =
            left_out.map(|left| LeftOutTool { name: left.name, reason: left.reason }).collect();
        let dropped = live.dropped();
        details.dropped = dropped.invalid + dropped.unknown + dropped.floods + dropped.refused;
        details
    }

    fn text(&self, server: &PlannedServer) -> String {
        let row = &self.row;
        let mut text = format!("{} {}   {}\n", row.marker(), row.name, one_line(&row.state_words()));
        let mut line = |name: &str, words: &str| {
            let _ = writeln!(text, "  {name:14} {}", one_line(words));
        };
        if let Some(reason) = &row.reason {
            line("why", reason);
        }
        line("named by", &format!("{} ({})", row.source, row.scope));
        line("transport", &row.transport);
        let mut shown = server.masked_arguments().into_iter();
        for (name, words) in server.details() {
            // Only who approves them has to see all of these.
            match name {
                "address" => line(name, &row.target),
                "argument" => line(name, &one_line(&shown.next().unwrap_or_default())),
                _ => line(name, &words),
            }
        }
        if row.transport == "stdio" {
            line("runs", if self.sandboxed { "in the sandbox" } else { "outside of the sandbox, as you" });
        }
        if let Some(implementation) = &row.implementation {
            line("calls itself", implementation);
        }
        let also: Vec<&str> = [(self.resources, "resources"), (self.prompts, "prompts")]
            .into_iter()
            .filter_map(|(has, what)| has.then_some(what))
            .collect();
        if !also.is_empty() {
            line("has also", &also.join(", "));
        }
        if let Some(instructions) = &self.instructions {
            line("says", instructions);
        }
        if self.dropped > 0 {
            line("dropped", &format!("{} messages that made no sense or came too fast", self.dropped));
        }
        for tool in &self.offered {
            let about = tool.description.lines().next().unwrap_or_default();
            let about = truncate_chars(about, ABOUT_CHARS);
            line("tool", &format!("{}   {about}", tool.wire_name));
        }
        for tool in &self.to_approve {
            let how = if tool.changed { "changed since you approved it" } else { "to approve" };
            line("not offered", &format!("{}   {how}", haft_mcp::text::display_line(&tool.name, 200)));
        }
        for tool in &self.left_out {
            line("left out", &format!("{}   {}", tool.name, tool.reason));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, live: Option<(usize, f64)>, withheld: usize) -> ServerRow {
        ServerRow {
            name: name.to_owned(),
            state: if live.is_some() { ServerState::Ready } else { ServerState::Failed },
            reason: live.is_none().then(|| "it is not there".to_owned()),
            scope: "local".to_owned(),
            source: String::new(),
            transport: "stdio".to_owned(),
            target: format!("run-{name}"),
            revision: live.map(|_| "2025-11-25".to_owned()),
            implementation: None,
            latency_ms: live.map(|(_, latency)| latency),
            tools: live.map(|(tools, _)| tools),
            withheld,
        }
    }

    #[test]
    fn servers_stand_in_columns() {
        let rows = [row("a", Some((14, 1_111.0)), 0), row("long", Some((1, 42.0)), 2), row("c", None, 0)];
        let wanted = [
            "✓ a      14 tools               2025-11-25   1111 ms   local   run-a",
            "✓ long   1 tool, 2 to approve   2025-11-25     42 ms   local   run-long",
            "✗ c      can't be used                                 local   run-c",
            "         it is not there",
        ];
        assert_eq!(render_table(&rows).lines().collect::<Vec<_>>(), wanted);
        assert_eq!(render_table(&rows[2..]).lines().next(), Some("✗ c   can't be used   local   run-c"));
    }
}
