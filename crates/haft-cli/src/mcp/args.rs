//! The command line of `haft mcp`. What can be said to `add` is what people know from Claude Code.

use clap::{Args, Subcommand, ValueEnum};
use haft_session::mcp::server_files::ServerScope;

use crate::args::{CommonArgs, OutputForm};

#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "Examples:\n  haft mcp add time -- uvx mcp-server-time\n  haft mcp add --transport http docs https://docs.example/mcp --header 'Authorization: Bearer ${DOCS_TOKEN}'\n  haft mcp list\n  haft mcp call time get_current_time '{\"timezone\": \"Europe/Berlin\"}'\n  haft mcp approve"
)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) command: McpCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// List the servers that settings name, and how they are: each is tried.
    List(McpListArgs),
    /// Show one server, and the tools that it offers.
    Get(McpGetArgs),
    /// Add a server: a command, or an address.
    Add(McpAddArgs),
    /// Add a server by its entry, as it would stand in `.mcp.json`.
    AddJson(AddJsonArgs),
    /// Remove a server from the file that names it.
    Remove(RemoveArgs),
    /// Show what servers of the workspace would run and offer, and approve exactly that.
    Approve(ApproveArgs),
    /// Sign in to a server over HTTP that wants it; the address to open is shown.
    Login(AccountArgs),
    /// Give back and forget what was given at a sign-in.
    Logout(AccountArgs),
    /// Show the last of what a server complained about, in whichever process.
    Logs(LogsArgs),
    /// Call a tool of a server by the server's own name for it.
    Call(McpCallArgs),
}

#[derive(Debug, Args)]
pub(crate) struct McpListArgs {
    /// Form of the list: lines for people, or one JSON array on one line.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct McpGetArgs {
    /// The server.
    pub(crate) server: String,
    /// Form of what is shown: lines for people, or one JSON object on one line.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AccountArgs {
    /// The server.
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// For whom a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeArg {
    /// You, in this workspace.
    Local,
    /// Everybody who works in this workspace: `.mcp.json`.
    Project,
    /// You, everywhere.
    User,
}

impl ScopeArg {
    /// The name, as `--scope` takes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ScopeArg::Local => "local",
            ScopeArg::Project => "project",
            ScopeArg::User => "user",
        }
    }
}

impl From<ScopeArg> for ServerScope {
    fn from(scope: ScopeArg) -> ServerScope {
        match scope {
            ScopeArg::Local => ServerScope::Local,
            ScopeArg::Project => ServerScope::Project,
            ScopeArg::User => ServerScope::User,
        }
    }
}

impl From<ServerScope> for ScopeArg {
    fn from(scope: ServerScope) -> ScopeArg {
        match scope {
            ServerScope::Local => ScopeArg::Local,
            ServerScope::Project => ScopeArg::Project,
            ServerScope::User => ScopeArg::User,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportArg {
    /// A process, over its standard input and output.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP with server-sent events, the older form.
    Sse,
    /// WebSocket.
    Ws,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  haft mcp add time -- uvx mcp-server-time\n  haft mcp add files --scope user -- npx -y @modelcontextprotocol/server-filesystem /data\n  haft mcp add tickets --env TOKEN='${TICKETS_TOKEN}' -- ./tickets-mcp --read-only\n  haft mcp add --transport http docs https://docs.example/mcp\n\n\
                  `${NAME}` and `${NAME:-default}` are put in from the environment when the server is started."
)]
pub(crate) struct McpAddArgs {
    /// The server's name: letters, digits, `_` and `-`.
    pub(crate) name: String,
    /// The command or the address; after `--` its arguments may begin with `-`.
    #[arg(value_name = "COMMAND|URL")]
    pub(crate) target: String,
    /// Arguments of the command.
    #[arg(value_name = "ARG", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<String>,
    /// For whom it is: you in this workspace, everybody in it, or you everywhere.
    #[arg(short, long, value_enum, value_name = "SCOPE", default_value_t = ScopeArg::Local)]
    pub(crate) scope: ScopeArg,
    /// How it is reached. Default: a process, or for an address what its scheme says.
    #[arg(short, long, value_enum, value_name = "KIND")]
    pub(crate) transport: Option<TransportArg>,
    /// A variable in its environment; repeatable.
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// A header of each request, such as `Authorization: Bearer ${TOKEN}`; repeatable.
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AddJsonArgs {
    /// The server's name: letters, digits, `_` and `-`.
    pub(crate) name: String,
    /// The entry, such as `{"command": "uvx", "args": ["mcp-server-time"]}`; `-` reads it from standard
    /// input.
    #[arg(value_name = "JSON|-")]
    pub(crate) json: String,
    /// For whom it is: you in this workspace, everybody in it, or you everywhere.
    #[arg(short, long, value_enum, value_name = "SCOPE", default_value_t = ScopeArg::Local)]
    pub(crate) scope: ScopeArg,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The server.
    pub(crate) name: String,
    /// From where. Default: the one place that names it.
    #[arg(short, long, value_enum, value_name = "SCOPE")]
    pub(crate) scope: Option<ScopeArg>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 everything is approved, 1 something is not, 2 wrong usage or settings."
)]
pub(crate) struct ApproveArgs {
    /// The server. Default: all of the workspace that need it.
    pub(crate) server: Option<String>,
    /// Approve without a question.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The server.
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct McpCallArgs {
    /// The server.
    pub(crate) server: String,
    /// The tool, as the server calls it.
    pub(crate) tool: String,
    /// Input of the call; `-` reads it from standard input. Default: {}
    #[arg(value_name = "JSON|-", allow_negative_numbers = true)]
    pub(crate) input: Option<String>,
    /// Form of the result: its text, or one JSON object on one line.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}
