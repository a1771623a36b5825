//! `haft tools`: what a model would be offered, for people and for programs.

use std::collections::BTreeMap;

use haft::Registry;
use haft::effects::table::ConcurrencyClass;
use haft::ports::PortName;
use haft::registry::{Snapshot, ToolOrigin, WithheldReason};
use haft::results::ResultLimit;
use haft::search::{TOOL_SEARCH, ToolSearch};
use haft::tool::{AnyTool, ListedClass};
use haft_mcp::{HostServices, ServerSet, ServerStatus};
use haft_provider::{DefinitionCache, DefinitionForm, Wire};
use haft_session::SessionPurpose;
use haft_session::assembly::{ReportLevel, ServerPool, ServerPorts};
use serde::Serialize;

use crate::args::{CommonArgs, StrictMode, ToolsArgs, ToolsFormat};
use crate::interrupt::InterruptHandler;
use crate::output::OutputReader;
use crate::{ExitStatus, UsageError, output, session, threads};

pub(crate) fn run(args: &ToolsArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let session = session::open_session(&common.options(), SessionPurpose::Inspect)?;
    session.server_starter.warn();
    if session.server_starter.is_fixed() {
        return Ok(print_tools(args, &session.snapshot(), session.confined, &BTreeMap::new()));
    }
    let _interrupts =
        InterruptHandler::listen().map_err(|error| UsageError(format!("signals can't be heard: {error}")))?;
    let runtime = threads::runtime_for_calls(1)?;
    let printed = runtime.block_on(async {
        let pool = session.start_servers(ServerPorts::default())?;
        pool.settled(|_| false).await;
        pool.say(ReportLevel::Everything);
        let printed = print_tools(args, &session.snapshot(), session.confined, &server_facts(&pool));
        pool.close().await;
        Ok(printed)
    });
    runtime.shutdown_background();
    printed
}

fn print_tools(args: &ToolsArgs, snapshot: &Snapshot, confined: bool, servers: &ServerFacts) -> ExitStatus {
    if let Some(form) = provider_form(args.format) {
        return print_definitions(args, form, snapshot);
    }
    let mut rows = if args.all { all_tool_rows(snapshot) } else { tool_rows(snapshot) };
    // Where children are held to what they declare, nothing has to be believed.
    rows.iter_mut().for_each(|row| row.unconfined &= !confined);
    let (text, reader) = match args.format {
        ToolsFormat::Table => {
            rows.retain(|row| args.all || row.offered);
            (render_table(&rows, args.all, servers), OutputReader::Sampler)
        }
        _ => {
            rows.retain(|row| args.all || (row.offered && !row.deferred));
            (serde_json::to_string(&rows).expect("rows have text keys"), OutputReader::Whole)
        }
    };
    output::write_result(&text, reader).err().unwrap_or(ExitStatus::Done)
}

/// How many characters a row of the table has at most.
const ROW_CHARS: usize = 100;

/// Why agents are not offered to who only looks.
const NO_MODEL: &str = "agents need a model; `haft run` has one, and `haft call` where one is configured";

/// Why what looks for tools is not offered where all are shown.
const NO_SEARCH: &str = "all tools are shown to the model, so none has to be searched for";

/// Why what is for servers is not offered where there is none.
const NO_SERVER: &str = "no MCP server is configured; `haft mcp add` adds one";

/// What a table says about servers, by name.
type ServerFacts = BTreeMap<String, String>;

fn server_facts(pool: &ServerPool) -> ServerFacts {
    let fact = |server: &haft_mcp::ServerHandle| match server.status() {
        ServerStatus::Ready { facts, took } => {
            let words = format!("(mcp, {}, {} ms)", facts.revision, took.as_millis());
            Some((server.config().name.clone(), words))
        }
        _ => None,
    };
    pool.servers().iter().filter_map(fact).collect()
}

/// The tools that a model is offered, as `haft tools` lists them.
pub(crate) fn list_tools(snapshot: &Snapshot, confined: bool) -> String {
    let mut rows = tool_rows(snapshot);
    rows.retain(|row| row.offered);
    rows.iter_mut().for_each(|row| row.unconfined &= !confined);
    render_table(&rows, false, &ServerFacts::new())
}

/// The provider's form, if it is one.
fn provider_form(format: ToolsFormat) -> Option<DefinitionForm> {
    match format {
        ToolsFormat::Table | ToolsFormat::Json => None,
        ToolsFormat::Anthropic => Some(Wire::Anthropic.into()),
        ToolsFormat::OpenAi => Some(Wire::OpenAi.into()),
        ToolsFormat::OpenAiChat => Some(Wire::OpenAiChat.into()),
        ToolsFormat::Gemini => Some(Wire::Gemini.into()),
        ToolsFormat::Mcp => Some(DefinitionForm::Mcp),
    }
}

/// Prints the bare `tools` array of a provider; tools that it can't take are said.
fn print_definitions(args: &ToolsArgs, form: DefinitionForm, snapshot: &Snapshot) -> ExitStatus {
    let mut definitions = DefinitionCache::new(form).with_deferred(args.all);
    if let Some(strict) = args.strict {
        definitions = definitions.strict(strict == StrictMode::Yes);
    }
    let tools = definitions.define(snapshot);
    for left_out in tools.left_out() {
        output::print_warning(&output::one_line(&left_out.to_string()));
    }
    output::write_result(tools.json(), OutputReader::Whole).err().unwrap_or(ExitStatus::Done)
}

/// A tool, as `--format json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Row"))]
pub(crate) struct ToolRow {
    /// The name by which it is called.
    name: String,
    /// The group under which it is listed.
    group: String,
    /// Where it comes from: `built-in`, or the name of a server or folder.
    origin: String,
    /// How its calls get along with others.
    class: ToolClass,
    /// How many characters of a result the model sees at once; a longer result goes to a file.
    #[cfg_attr(test, schemars(schema_with = "limit_schema"))]
    max_result_chars: ResultLimit,
    /// How many seconds a call may take; null where a call is bounded by what it starts.
    time_limit_s: Option<u64>,
    /// How many of its calls may run at once; null where only the session's own limit holds.
    calls_at_once: Option<usize>,
    /// Whether its calls run a program that nothing holds to what they declare.
    unconfined: bool,
    /// Other names that find it.
    aliases: Vec<String>,
    /// What the model is told of it.
    description: String,
    /// The JSON Schema of its input.
    #[cfg_attr(test, schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    input_schema: serde_json::Value,
    /// Whether the model has to search for it before it is shown the schema.
    deferred: bool,
    /// Whether it can be called now.
    offered: bool,
    /// Why it is not offered; null if it is.
    withheld: Option<String>,
}

/// The class of a tool where there is no call to judge.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[cfg_attr(test, schemars(rename = "Listed"))]
enum ToolClass {
    /// Changes nothing; runs beside others.
    ReadOnly,
    /// Starts calls that are judged one by one; runs beside others.
    Delegating,
    /// Changes something that is named; alone.
    WriteExclusive,
    /// Changes what nobody can bound; alone.
    Unsafe,
    /// It depends on the call.
    Depends,
}

impl ToolClass {
    fn marker(self) -> char {
        match self {
            ToolClass::ReadOnly | ToolClass::Delegating => '≡',
            ToolClass::WriteExclusive | ToolClass::Unsafe => '!',
            ToolClass::Depends => '?',
        }
    }
}

impl From<ListedClass> for ToolClass {
    fn from(class: ListedClass) -> ToolClass {
        match class {
            ListedClass::Always(ConcurrencyClass::ReadOnly) => ToolClass::ReadOnly,
            ListedClass::Always(ConcurrencyClass::Delegating) => ToolClass::Delegating,
            ListedClass::Always(ConcurrencyClass::WriteExclusive) => ToolClass::WriteExclusive,
            ListedClass::Always(ConcurrencyClass::Unsafe) => ToolClass::Unsafe,
            ListedClass::Depends => ToolClass::Depends,
        }
    }
}

/// All tools of a snapshot, by the bytes of their names.
fn tool_rows(snapshot: &Snapshot) -> Vec<ToolRow> {
    let offered = snapshot.offers().iter().map(|offer| ToolRow {
        deferred: offer.is_deferred(),
        offered: true,
        ..ToolRow::from_tool(offer.name(), offer.tool(), offer.origin())
    });
    let withheld = snapshot.withheld().map(|(entry, why)| ToolRow {
        withheld: Some(match why {
            WithheldReason::PortAbsent(PortName::SubAgents) => NO_MODEL.to_owned(),
            why => why.to_string(),
        }),
        ..ToolRow::from_tool(entry.tool().name(), entry.tool(), entry.origin())
    });
    let mut rows: Vec<ToolRow> = offered.chain(withheld).collect();
    rows.sort_by(|a, b| (&a.name, &a.origin).cmp(&(&b.name, &b.origin)));
    rows
}

/// The same, with those that the program has and this session doesn't: there is nothing to search for, and no
/// server.
fn all_tool_rows(snapshot: &Snapshot) -> Vec<ToolRow> {
    let mut rows = tool_rows(snapshot);
    let none = ServerSet::start([], HostServices::new(".")).expect("none has a bad name");
    let registry = Registry::new().with(none.tools()).and_then(|all| all.with(ToolSearch));
    for entry in registry.expect("their names differ").entries() {
        let name = entry.tool().name();
        if rows.iter().all(|row| row.name != name) {
            let why = if name == TOOL_SEARCH { NO_SEARCH } else { NO_SERVER };
            rows.push(ToolRow {
                withheld: Some(why.to_owned()),
                ..ToolRow::from_tool(name, entry.tool(), entry.origin())
            });
        }
    }
    rows.sort_by(|a, b| (&a.name, &a.origin).cmp(&(&b.name, &b.origin)));
    rows
}

impl ToolRow {
    fn from_tool(name: &str, tool: &AnyTool, origin: &ToolOrigin) -> ToolRow {
        ToolRow {
            name: name.to_owned(),
            group: tool.group().to_owned(),
            origin: origin.to_string(),
            class: tool.listed_class().into(),
            max_result_chars: tool.result_limit(),
            time_limit_s: tool.time_limit().map(|limit| limit.as_secs()),
            calls_at_once: tool.calls_at_once(),
            unconfined: tool.spec().runs_in_child(),
            aliases: tool.aliases().to_vec(),
            description: tool.description().to_owned(),
            input_schema: tool.input_schema().clone(),
            deferred: false,
            offered: false,
            withheld: None,
        }
    }
}

/// Groups as rows, their tools with a marker, then what the markers mean and how many there are. Tools of a
/// server are a group of their own, under its name; those that a model has to search for are counted, unless
/// all are wanted.
fn render_table(rows: &[ToolRow], all: bool, servers: &ServerFacts) -> String {
    let mut groups: BTreeMap<(bool, &str), Vec<&ToolRow>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.offered) {
        let of_server = row.group == "mcp" && row.origin != ToolOrigin::BuiltIn.to_string();
        let group = if of_server { &row.origin } else { &row.group };
        groups.entry((of_server, group)).or_default().push(row);
    }
    let width = groups.keys().map(|(_, group)| group.chars().count()).max().unwrap_or(0).max(8) + 3;
    let mut text = String::new();
    for ((of_server, group), rows) in groups {
        let shown = rows.iter().filter(|row| all || !row.deferred);
        let mut tools: Vec<String> =
            shown.map(|row| format!("{} {}", row.name, row.class.marker())).collect();
        match (rows.len() - tools.len(), tools.is_empty()) {
            (0, _) => {}
            (1, true) => tools.push("1 tool, found by search".to_owned()),
            (count, true) => tools.push(format!("{count} tools, found by search")),
            (count, false) => tools.push(format!("and {count} more, found by search")),
        }
        tools.extend(servers.get(group).filter(|_| of_server).cloned());
        let believed = if rows.iter().any(|row| row.unconfined) { "     not confined" } else { "" };
        let lines = wrap_words(&tools, ROW_CHARS - width);
        text.push_str(&format!("{group:width$}{}{believed}\n", lines.join(&format!("\n{:width$}", ""))));
    }
    for row in rows {
        if let Some(why) = &row.withheld {
            text.push_str(&format!("{:width$}{}: {why}\n", "not now", row.name));
        }
    }
    text.push_str(&format!(
        "≡ side by side   ! alone   ? depends on the call          {}\n",
        count_tools(rows)
    ));
    text
}

/// Words on as few lines as fit, each with so many characters at most; two blanks between them.
fn wrap_words(words: &[String], chars: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + word.chars().count() <= chars => {
                line.push_str("  ");
                line.push_str(word);
            }
            _ => lines.push(word.clone()),
        }
    }
    lines
}

/// `46 tools, 12 shown to the model, 34 by ToolSearch`.
fn count_tools(rows: &[ToolRow]) -> String {
    let count = |of: &dyn Fn(&ToolRow) -> bool| rows.iter().filter(|row| of(row)).count();
    let (shown, deferred) = (count(&|row| row.offered && !row.deferred), count(&|row| row.deferred));
    let withheld = count(&|row| !row.offered);
    let tools = if rows.len() == 1 { "1 tool".to_owned() } else { format!("{} tools", rows.len()) };
    let mut text = format!("{tools}, {shown} shown to the model");
    if deferred > 0 {
        text.push_str(&format!(", {deferred} by ToolSearch"));
    }
    if withheld > 0 {
        text.push_str(&format!(", {withheld} not now"));
    }
    text
}

#[cfg(test)]
fn limit_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"anyOf": [{"type": "integer", "minimum": 0}, {"const": "unlimited"}]})
}

#[cfg(test)]
mod tests;
