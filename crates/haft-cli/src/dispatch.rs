//! `haft dispatch`: a model's message in, the message with the results out, in the same provider's JSON.
//!
//! Whose JSON that is, is known to `haft-provider` alone; here a message is read, run as one turn and
//! printed.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};

use haft_provider::limits::MESSAGE_BYTES_MAX;
use haft_provider::{ModelMessage, decode_message};
use haft_session::SessionPurpose;

use crate::args::{CommonArgs, DispatchArgs};
use crate::interrupt::InterruptHandler;
use crate::output::OutputReader;
use crate::{ExitStatus, UsageError, output, session};

pub(crate) fn run(args: &DispatchArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let interrupts =
        InterruptHandler::listen().map_err(|error| UsageError(format!("signals can't be heard: {error}")))?;
    let session = session::open_session(&common.options(), SessionPurpose::Once)?;
    let message = read_message(args)?;
    for kind in message.passed_over() {
        output::print_warning(&format!(
            "a `{kind}` waits for an answer that is not a tool's; it is left to you"
        ));
    }
    let results = session::run_calls(&session, message.calls(), &interrupts)?;
    session.report_tasks();
    session.report_hooks();
    session.report_turn_end(&results);
    let written =
        output::write_result(&haft::canonical::to_string(&message.answer(&results)), OutputReader::Whole);
    Ok(match written {
        _ if interrupts.any() => ExitStatus::Interrupted,
        Err(exit) => exit,
        Ok(()) => ExitStatus::Done,
    })
}

fn read_message(args: &DispatchArgs) -> Result<ModelMessage, UsageError> {
    let (bytes, source) = match args.file.as_deref() {
        None if io::stdin().is_terminal() => {
            let words = "no message; give a file, or pipe an assistant message to standard input";
            return Err(UsageError(words.to_owned()));
        }
        None => (read_all(io::stdin().lock(), "standard input")?, "standard input".to_owned()),
        Some(path) if path.as_os_str() == "-" => {
            (read_all(io::stdin().lock(), "standard input")?, "standard input".to_owned())
        }
        Some(path) => {
            let name = format!("`{}`", output::one_line(&path.display().to_string()));
            let file = File::open(path).map_err(|error| unreadable_error(&name, &error))?;
            (read_all(file, &name)?, name)
        }
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        UsageError(format!("{source} is not JSON: the bytes from offset {at} on are not valid UTF-8"))
    })?;
    // Some editors and shells put a mark before the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    decode_message(text, args.from).map_err(|bad| {
        let flag = if bad.wire_helps() { " (--from)" } else { "" };
        UsageError(format!("{source}: {}{flag}", output::one_line(&bad.to_string())))
    })
}

fn read_all(from: impl Read, name: &str) -> Result<Vec<u8>, UsageError> {
    let mut bytes = Vec::new();
    let read = from.take(MESSAGE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable_error(name, &error))?;
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(UsageError(format!("{name} has more than {MESSAGE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

fn unreadable_error(name: &str, error: &io::Error) -> UsageError {
    let reason = match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        io::ErrorKind::PermissionDenied => "its permissions don't allow it".to_owned(),
        _ => error.to_string(),
    };
    UsageError(format!("{name} can't be read: {reason}; give a file with an assistant message, or `-`"))
}
