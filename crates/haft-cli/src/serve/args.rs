//! What can be said to `haft serve`.

use std::path::PathBuf;

use clap::Args;

use crate::args::CommonArgs;

#[derive(Debug, Args)]
#[command(
    after_help = "Over standard input and output (the default) and over a socket in the file system no token is needed.\n\
                  Over HTTP one is: that of --token-file, those of settings (`serve.clients`, `serve.oauth`), or one that is made\n\
                  and shown once on standard error. Standard output carries the protocol and nothing else.\n\n\
                  Examples:\n  claude mcp add haft -- haft serve --cwd ~/project\n  haft serve --http 127.0.0.1:7070 --permission-mode acceptEdits"
)]
pub(crate) struct ServeArgs {
    /// Speak with whoever started this, over standard input and output. Default.
    #[arg(long, conflicts_with_all = ["http", "unix"])]
    pub(crate) stdio: bool,
    /// Listen here over HTTP: an address and port, or a port of this machine; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", conflicts_with = "unix")]
    pub(crate) http: Option<String>,
    /// Listen over HTTP on a socket in the file system that only you can open.
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,
    /// Let other machines come: without it, only addresses of this machine are listened on.
    #[arg(long, requires = "http")]
    pub(crate) allow_remote: bool,
    /// Name of a host, beside those of this machine, by which clients reach the server; repeatable.
    #[arg(long, value_name = "NAME", requires = "http")]
    pub(crate) host: Vec<String>,
    /// Origin of pages, beside those of this machine, that may use the server; repeatable.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) origin: Vec<String>,
    /// File with the token that clients need over HTTP, on one line; nobody else may be able to read it.
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) token_file: Option<PathBuf>,
    /// Offer what the settings offer to the client of this name, to whoever comes without a token of their
    /// own.
    #[arg(long, value_name = "NAME")]
    pub(crate) view: Option<String>,
    /// Offer only tools of this name, `*` for any run of characters; repeatable.
    #[arg(long, value_name = "GLOB")]
    pub(crate) tools: Vec<String>,
    /// How long after the first of them lists wait for servers that are still being connected; 0 for not at
    /// all. Default: 2.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=600))]
    pub(crate) server_wait: Option<u64>,
    /// How long calls may take once the server has to end. Default: 10, over standard input and output 1.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=3_600))]
    pub(crate) grace: Option<u64>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}
