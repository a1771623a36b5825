//! The command line of `haft replay`.

use clap::{Args, ValueEnum};

use crate::args::{CommonArgs, OutputForm};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  haft replay 1a1e20                        would what this session did still be allowed?\n  haft replay chat.json --deny 'Bash(curl *)'  what would a new rule have stopped?\n  haft replay events.jsonl --results recorded  would the model get the same results today?\n  haft replay 1a1e20 --run                  make the calls again, in a copy of this folder\n\n\
                  Exit codes: 0 nothing differs, 1 something does, 2 the file can't be read, or wrong usage."
)]
pub(crate) struct ReplayArgs {
    /// A session, the beginning of its id, or a file: a journal, messages of Anthropic, OpenAI or Gemini as
    /// JSON or one a line, the events of `haft run --output stream-json` or of Claude Code; `-` reads
    /// standard input.
    #[arg(value_name = "FILE|SESSION")]
    pub(crate) file: String,
    /// Only look whether each call is valid and allowed; the default.
    #[arg(long, conflicts_with_all = ["results", "run"])]
    pub(crate) dry: bool,
    /// Take the recorded results in place of running anything, and bring them through the pipeline.
    #[arg(long, value_enum, value_name = "WHICH", conflicts_with = "run")]
    pub(crate) results: Option<ResultsSource>,
    /// Make the calls again in a copy of the working directory, sandboxed, and compare what comes of them.
    #[arg(long)]
    pub(crate) run: bool,
    /// Also show calls that don't differ.
    #[arg(long)]
    pub(crate) all: bool,
    /// Form: a table for people, or one JSON object.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResultsSource {
    Recorded,
}
