//! The command line of `haft sessions` and `haft log`.

use clap::{Args, Subcommand};

use crate::args::OutputForm;

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    pub(crate) command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the sessions that are kept, the newest first.
    List(SessionListArgs),
    /// Show one session: what was said, what was called, how it ended.
    Show(SessionShowArgs),
    /// Remove sessions for good.
    Rm(SessionRemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SessionListArgs {
    /// Only those of this working directory.
    #[arg(long)]
    pub(crate) here: bool,
    /// Form of the list: lines for people, or one JSON array.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,
}

#[derive(Debug, Args)]
pub(crate) struct SessionShowArgs {
    /// The session, or the beginning of its id.
    pub(crate) id: String,
    /// Form: lines for people, or one JSON object.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,
}

#[derive(Debug, Args)]
pub(crate) struct SessionRemoveArgs {
    /// The sessions, or the beginnings of their ids.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) ids: Vec<String>,
    /// All that don't run.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  haft log                       the last session\n  haft log --denials             what was not allowed, and why\n  haft log 1a1e20 --output json  one JSON object a line, for other programs"
)]
pub(crate) struct LogArgs {
    /// The session, or the beginning of its id. Default: the last one.
    #[arg(value_name = "SESSION")]
    pub(crate) id: Option<String>,
    /// Only calls.
    #[arg(long, conflicts_with_all = ["denials", "changes"])]
    pub(crate) calls: bool,
    /// Only calls that were not run.
    #[arg(long, conflicts_with = "changes")]
    pub(crate) denials: bool,
    /// Only calls that could change something.
    #[arg(long)]
    pub(crate) changes: bool,
    /// Form: lines for people, or one JSON object a line.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  haft stats                     the last session\n  haft stats --all               all that are kept\n  haft stats 1a1e20 --output json"
)]
pub(crate) struct StatsArgs {
    /// The session, or the beginning of its id. Default: the last one.
    #[arg(value_name = "SESSION", conflicts_with = "all")]
    pub(crate) id: Option<String>,
    /// All sessions together.
    #[arg(long)]
    pub(crate) all: bool,
    /// Form: a table for people, or one JSON object.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,
}
