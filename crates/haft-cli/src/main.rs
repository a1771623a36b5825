//! The binary `haft`: wiring, words and screen.
//!
//! What the command line promises (names, flags, exit codes, what goes to standard output) is relied on by
//! others; `tests/it` holds it. Nothing is decided here that the engine decides: a command is turned into an
//! [`Engine`](haft::Engine) and calls, and results into text.
//!
//! Start-up is kept short: no runtime and no thread before a call needs one.

mod allocator;
mod args;
mod call;
mod check;
mod dispatch;
mod doctor;
mod interrupt;
mod mcp;
mod output;
mod replay;
mod run;
mod script;
mod serve;
mod session;
mod sessions;
mod settings;
mod telemetry;
mod terminal;
mod threads;
mod tools;
mod trust;

use std::process::ExitCode;

use clap::Parser as _;
use haft_session::{SessionError, SessionOption};

use args::{CliArgs, CliCommand};

/// How a run of the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExitStatus {
    /// Done.
    Done = 0,
    /// The call got an error result, or the result could not be written.
    Failed = 1,
    /// Wrong usage, unreadable input or settings; nothing ran.
    Usage = 2,
    /// `haft check`: the call would ask.
    Asks = 10,
    /// `haft check`: the call would be denied.
    Denied = 11,
    /// The user interrupted.
    Interrupted = 130,
}

impl From<ExitStatus> for ExitCode {
    fn from(exit: ExitStatus) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why nothing was run, in words for the user.
#[derive(Debug)]
struct UsageError(String);

impl From<SessionError> for UsageError {
    fn from(error: SessionError) -> UsageError {
        match error.option().and_then(option_flag) {
            Some(flag) => UsageError(format!("{error} ({flag})")),
            None => UsageError(error.to_string()),
        }
    }
}

/// The flag that sets an option of the library.
fn option_flag(option: SessionOption) -> Option<&'static str> {
    Some(match option {
        SessionOption::Provider => "--provider",
        SessionOption::Model => "--model",
        SessionOption::BaseUrl => "--base-url",
        SessionOption::Script => "--script FILE",
        SessionOption::ToolsOff => "--tools-off",
        SessionOption::WorkingDirectory => "--cwd",
        SessionOption::AddedDirectory => "--add-dir",
        SessionOption::ToolsDirectory => "--tools-dir",
        SessionOption::Resume => "--resume ID",
        _ => return None,
    })
}

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(output::report_panic));
    // Ends the program itself where there is nothing more to do: help, version, wrong usage.
    let cli = CliArgs::parse();
    let done = match cli.command {
        CliCommand::Call(args) => call::run(&args, &cli.common.with(args.common.clone())),
        CliCommand::Check(args) => check::run(&args, &cli.common.with(args.common.clone())),
        CliCommand::Dispatch(args) => dispatch::run(&args, &cli.common.with(args.common.clone())),
        CliCommand::Doctor(args) => doctor::run(&args, &cli.common.with(args.common.clone())),
        CliCommand::Log(args) => sessions::log::run(&args, &cli.common),
        CliCommand::Mcp(args) => mcp::run(&args, &cli.common),
        CliCommand::Replay(args) => replay::run(&args, &cli.common.with(args.common.clone())),
        CliCommand::Run(args) => run::run(&args, &cli.common.with(args.common.clone())),
        CliCommand::Script(args) => script::run(&args),
        CliCommand::Serve(args) => serve::run(&args, &cli.common.with(args.common.clone())),
        CliCommand::Sessions(args) => sessions::manage::run(&args, &cli.common),
        CliCommand::Settings(args) => settings::run(&args, &cli.common),
        CliCommand::Stats(args) => sessions::stats::run(&args, &cli.common),
        CliCommand::Trust(args) => trust::run(&args, &cli.common.with(args.common.clone())),
        CliCommand::Tools(args) => tools::run(&args, &cli.common.with(args.common.clone())),
    };
    let exit = done.unwrap_or_else(|UsageError(words)| {
        output::print_error(&words);
        ExitStatus::Usage
    });
    session::close_sessions();
    telemetry::close();
    exit.into()
}
