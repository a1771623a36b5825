//! The command line: what can be said, and how it is explained.
//!
//! Common flags may stand before and after the subcommand. They are declared at both places and put together
//! by [`CommonArgs::with`], because clap's own global flags keep only one of two lists: a `--deny` before the
//! subcommand would be lost by a `--deny` after it.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use haft::ports::PermissionMode;
use haft_provider::Wire;
use haft_session::ConflictRule;
use haft_session::trust::{Digest, InvalidDigest};

use crate::mcp::args::McpArgs;
use crate::replay::args::ReplayArgs;
use crate::run::args::{RunArgs, ScriptArgs};
use crate::serve::args::ServeArgs;
use crate::sessions::args::{LogArgs, SessionsArgs, StatsArgs};

/// The tool system of a language-model agent.
#[derive(Debug, Parser)]
#[command(
    name = "haft",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "Examples:\n  haft run \"why does the parser drop the last line?\"\n  haft tools\n  haft call Read '{\"file_path\": \"Cargo.toml\", \"limit\": 5}'\n  haft tools --format anthropic\n  haft dispatch < message.json\n  haft check Bash '{\"command\": \"npm test && git push\"}'\n  haft mcp add time -- uvx mcp-server-time\n\n\
                  Exit codes: 0 done, 1 the call got an error result, 2 wrong usage, unreadable input or settings, 130 interrupted;\n\
                  of `check` also 10 it would ask, 11 it would be denied.\n\
                  Standard output carries results only; everything else goes to standard error."
)]
pub(crate) struct CliArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Call one tool and print its result.
    Call(CallArgs),
    /// Explain whether a call would run, and which rule says so; runs nothing.
    Check(CheckArgs),
    /// Run the calls of a model's message and print the message that answers.
    Dispatch(DispatchArgs),
    /// Try what the sandbox needs, and say what is doubtful about the settings.
    Doctor(DoctorArgs),
    /// Show what a session did: what ran, allowed by whom, and what was refused.
    Log(LogArgs),
    /// List, try, add, approve and call servers of the Model Context Protocol.
    Mcp(McpArgs),
    /// Judge recorded calls by today's tools and rules, and show what differs; runs nothing unless told to.
    Replay(ReplayArgs),
    /// Ask a model, run its calls, until it has an answer. Without a key, play a tour.
    Run(RunArgs),
    /// Serve a scripted model, for tests of any agent.
    Script(ScriptArgs),
    /// Offer all tools to any client of the Model Context Protocol, under your rules.
    Serve(ServeArgs),
    /// List, show and remove the sessions that are kept.
    Sessions(SessionsArgs),
    /// Show what all settings say together, and which file says it.
    Settings(SettingsArgs),
    /// Count what sessions did: calls, errors, denials, and how long each tool takes.
    Stats(StatsArgs),
    /// List the tools that a model would be offered.
    Tools(ToolsArgs),
    /// Show what a workspace would run or loosen, and trust exactly that.
    Trust(TrustArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// Name of the tool, case-sensitive.
    pub(crate) tool: String,
    /// Input of the call; `-` reads it from standard input. Default: {}
    #[arg(value_name = "JSON|-", allow_negative_numbers = true)]
    pub(crate) input: Option<String>,
    /// Form of the result: its text, or one JSON object on one line.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,
    /// For Agent: a script in place of a model, in JSON or YAML.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 it would run, 10 it would ask, 11 it would be denied, 2 wrong usage.")]
pub(crate) struct CheckArgs {
    /// Name of the tool, case-sensitive; also one that isn't offered here, such as WebFetch.
    pub(crate) tool: String,
    /// Input of the call; `-` reads it from standard input. Default: {}
    #[arg(value_name = "JSON|-", allow_negative_numbers = true)]
    pub(crate) input: Option<String>,
    /// Form of the explanation: lines for people, or one JSON object on one line.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputForm {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct DispatchArgs {
    /// File with the message; `-`, or none, reads it from standard input.
    #[arg(value_name = "FILE|-")]
    pub(crate) file: Option<PathBuf>,
    /// The provider whose message it is. Default: what its shape says.
    #[arg(long, value_parser = wire_parser(), value_name = "WIRE")]
    pub(crate) from: Option<Wire>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 commands can be confined, 1 they can't, 2 wrong usage or unreadable settings."
)]
pub(crate) struct DoctorArgs {
    /// Form of the report: lines for people, or one JSON object on one line.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// The names of the wires.
fn wire_parser() -> impl TypedValueParser<Value = Wire> {
    PossibleValuesParser::new(Wire::ALL.map(Wire::name)).try_map(|name| name.parse::<Wire>())
}

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct SettingsArgs {
    #[command(subcommand)]
    pub(crate) command: SettingsCommand,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one of it in a run")]
pub(crate) enum SettingsCommand {
    /// Print every value that counts, with the file and line that it comes from.
    Show(SettingsShowArgs),
    /// Print the JSON Schema of a settings file.
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct SettingsShowArgs {
    /// Form of the list: lines for people, or one JSON object on one line.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The workspace. Default: the directory to work in.
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Trust it without a question. `--trust-hash HASH` does so too, if the hash is that of the workspace.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Take the trust back, and forget what you answered with "always" and approved of servers there.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) forget: bool,
    /// Form of what is shown: lines for people, or one JSON object on one line, which never asks.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// Form of the list: a table, JSON, or the `tools` array of a provider.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = ToolsFormat::Table)]
    pub(crate) format: ToolsFormat,
    /// Also list tools that are not offered, and why. Of a provider's form: also those found by searching.
    #[arg(long)]
    pub(crate) all: bool,
    /// Whether a provider's form uses strict mode where a schema fits it. Default: yes for OpenAI, no for
    /// Anthropic.
    #[arg(long, value_enum, value_name = "WHETHER")]
    pub(crate) strict: Option<StrictMode>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolsFormat {
    Table,
    Json,
    Anthropic,
    #[value(name = "openai")]
    OpenAi,
    #[value(name = "openai-chat")]
    OpenAiChat,
    Gemini,
    Mcp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StrictMode {
    Yes,
    No,
}

/// Flags that every subcommand takes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct CommonArgs {
    /// Directory to work in. Default: the current one.
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Another directory to work in; repeatable.
    #[arg(long, value_name = "DIR")]
    pub(crate) add_dir: Vec<PathBuf>,
    /// Folder with script tools, or the folder of one; repeatable.
    #[arg(long, value_name = "DIR")]
    pub(crate) tools_dir: Vec<PathBuf>,
    /// A group of tools to leave out, as `haft tools` lists them: browser, web, …; repeatable.
    #[arg(long, value_name = "GROUP")]
    pub(crate) tools_off: Vec<String>,
    /// How much runs unasked: default, acceptEdits, plan, auto, dontAsk or bypassPermissions.
    #[arg(long, value_name = "MODE")]
    pub(crate) permission_mode: Option<PermissionMode>,
    /// Calls that run unasked, such as `Edit(src/**)`; repeatable.
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<String>,
    /// Calls that always ask; repeatable.
    #[arg(long, value_name = "RULE")]
    pub(crate) ask: Vec<String>,
    /// Calls that never run; a tool's name alone also hides the tool; repeatable.
    #[arg(long, value_name = "RULE")]
    pub(crate) deny: Vec<String>,
    /// File with settings, or the settings themselves as JSON, trusted because you name it; repeatable.
    #[arg(long, value_name = "FILE")]
    pub(crate) settings: Vec<String>,
    /// File with servers, as `.mcp.json`, trusted because you name it; repeatable.
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Vec<PathBuf>,
    /// Trust the workspace in this run if its hash is this one, as `haft trust` shows it.
    #[arg(long, value_name = "HASH", value_parser = parse_hash)]
    pub(crate) trust_hash: Option<String>,
    /// What keeps calls apart: their classes (default), or that their effects overlap.
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) schedule: Option<ScheduleMode>,
    /// Calls that run at once. Default: $HAFT_MAX_CONCURRENCY, or 10.
    #[arg(long, value_name = "N", value_parser = haft::env::parse_count)]
    pub(crate) max_concurrency: Option<NonZeroUsize>,
    /// Ask nobody, also at a terminal; what would ask is denied.
    #[arg(long)]
    pub(crate) non_interactive: bool,
    /// Run programs without the sandbox: they can do what you can, and rules and mode alone decide.
    #[arg(long)]
    pub(crate) no_sandbox: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub(crate) enum ScheduleMode {
    Classes,
    Effects,
}

impl From<ScheduleMode> for ConflictRule {
    fn from(schedule: ScheduleMode) -> ConflictRule {
        match schedule {
            ScheduleMode::Classes => ConflictRule::Classes,
            ScheduleMode::Effects => ConflictRule::Effects,
        }
    }
}

impl CommonArgs {
    /// These flags and those that stood after the subcommand: lists together, of single values the later one.
    pub(crate) fn with(self, later: CommonArgs) -> CommonArgs {
        fn both<T>(mut first: Vec<T>, then: Vec<T>) -> Vec<T> {
            first.extend(then);
            first
        }
        CommonArgs {
            cwd: later.cwd.or(self.cwd),
            add_dir: both(self.add_dir, later.add_dir),
            tools_dir: both(self.tools_dir, later.tools_dir),
            tools_off: both(self.tools_off, later.tools_off),
            permission_mode: later.permission_mode.or(self.permission_mode),
            allow: both(self.allow, later.allow),
            ask: both(self.ask, later.ask),
            deny: both(self.deny, later.deny),
            settings: both(self.settings, later.settings),
            mcp_config: both(self.mcp_config, later.mcp_config),
            trust_hash: later.trust_hash.or(self.trust_hash),
            schedule: later.schedule.or(self.schedule),
            max_concurrency: later.max_concurrency.or(self.max_concurrency),
            non_interactive: self.non_interactive || later.non_interactive,
            no_sandbox: self.no_sandbox || later.no_sandbox,
        }
    }
}

/// A hash that can be read.
fn parse_hash(text: &str) -> Result<String, InvalidDigest> {
    text.parse::<Digest>().map(|hash| hash.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CliArgs::command().debug_assert();
    }

    #[test]
    fn common_flags_count_before_and_after_the_subcommand() {
        let line = "haft --deny A --cwd x --allow B call T --deny C --cwd y --non-interactive";
        let cli = CliArgs::try_parse_from(line.split(' ')).unwrap();
        let CliCommand::Call(args) = cli.command else { panic!("it is a call") };
        let common = cli.common.with(args.common);
        assert_eq!((common.deny, common.allow), (vec!["A".into(), "C".into()], vec!["B".into()]));
        assert_eq!((common.cwd, common.non_interactive), (Some("y".into()), true));
    }
}
