//! `haft call`: one call, through everything that any call goes through.

use std::io::{self, Read as _};

use haft::effects::{AccessKind, ResourceEffect};
use haft::schema::not_json;
use haft::{ToolCall, ToolResult};
use haft_session::SessionPurpose;
use haft_session::assembly::SessionParts;
use serde::de::IgnoredAny;

use crate::args::{CallArgs, CommonArgs, OutputForm};
use crate::interrupt::InterruptHandler;
use crate::output::OutputReader;
use crate::run::single_call_agents;
use crate::{ExitStatus, UsageError, output, session};

pub(crate) fn run(args: &CallArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let interrupts =
        InterruptHandler::listen().map_err(|error| UsageError(format!("signals can't be heard: {error}")))?;
    let mut session = session::open_session(&common.options(), SessionPurpose::Once)?;
    let agents = single_call_agents::add_agents(&mut session, &args.tool, args.script.clone(), common)?;
    let exit = carry_out(&session, &args.tool, args.input.as_deref(), args.output, &interrupts);
    if let Some(agents) = agents {
        agents.close();
    }
    exit
}

/// Makes one call in a session, and prints what came of it.
pub(crate) fn carry_out(
    session: &SessionParts,
    tool: &str,
    given: Option<&str>,
    form: OutputForm,
    interrupts: &InterruptHandler,
) -> Result<ExitStatus, UsageError> {
    let call = ToolCall::new("call-1", tool, read_input(given)?);
    let is_of_session = is_of_session(session, &call);
    let mut results = session::run_calls(session, vec![call], interrupts)?;
    let result = results.pop().expect("one call has one result");
    session.report_tasks();
    if !result.is_error() && is_of_session {
        output::print_warning(
            "a single call has no memory: what it noted ends with it; `haft run` has a session",
        );
    }
    session.report_hooks();
    if !result.is_error() {
        session.report_turn_end(std::slice::from_ref(&result));
    }
    let written = match form {
        OutputForm::Text => write_text(&result),
        OutputForm::Json => write_json(&result),
    };
    Ok(match written {
        _ if interrupts.any() => ExitStatus::Interrupted,
        Err(exit) => exit,
        Ok(()) if result.is_error() => ExitStatus::Failed,
        Ok(()) => ExitStatus::Done,
    })
}

/// Whether a call of the groups that plan changes what a session remembers.
fn is_of_session(session: &SessionParts, call: &ToolCall) -> bool {
    let snapshot = session.snapshot();
    let plans =
        snapshot.find(&call.name).is_ok_and(|offer| matches!(offer.tool().group(), "planning" | "tasks"));
    let changes =
        |state: &ResourceEffect| state.access == AccessKind::Change && state.resource.starts_with("session:");
    plans && session.declared_effects(call).is_some_and(|effects| effects.state.iter().any(changes))
}

/// The input as text, of `haft check` too. That it is JSON is made sure of here; what the tool thinks of it
/// is the call's own result.
pub(crate) fn read_input(given: Option<&str>) -> Result<String, UsageError> {
    let (text, source) = match given {
        None => return Ok("{}".to_owned()),
        Some("-") => (standard_input()?, "standard input"),
        Some(text) => (text.to_owned(), "the input"),
    };
    if text.trim().is_empty() {
        return Err(UsageError(format!("{source} is empty; a JSON object is accepted")));
    }
    match serde_json::from_str::<IgnoredAny>(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(UsageError(format!("{source} is not JSON: {}", not_json(&error)))),
    }
}

fn standard_input() -> Result<String, UsageError> {
    let max = haft::limits::INPUT_BYTES_MAX;
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(max as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| UsageError(format!("standard input can't be read: {error}")))?;
    if bytes.len() > max {
        return Err(UsageError(format!("standard input has more than {max} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        UsageError(format!("standard input is not JSON: the bytes from offset {at} on are not valid UTF-8"))
    })
}

/// The text of a result on standard output, or the words of its error on standard error.
fn write_text(result: &ToolResult) -> Result<(), ExitStatus> {
    let written = match result.outcome() {
        Ok(out) => output::write_result(&out.to_text(), OutputReader::Sampler),
        Err(error) => {
            output::print_line(error.message());
            Ok(())
        }
    };
    result.notes().iter().for_each(|note| output::print_line(&format!("note: {note}")));
    written
}

fn write_json(result: &ToolResult) -> Result<(), ExitStatus> {
    let line = serde_json::to_string(&result.to_json()).expect("a result has text keys and finite numbers");
    output::write_result(&line, OutputReader::Whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_says_where() {
        let check = |given: &str, expected: Result<&str, &str>| {
            let found = read_input(Some(given));
            let found = found.as_deref().map_err(|UsageError(words)| words.as_str());
            assert_eq!(found, expected);
        };
        check(r#"{"a": 1}"#, Ok(r#"{"a": 1}"#));
        check("5", Ok("5"));
        check(r#"{"a" 1}"#, Err("the input is not JSON: expected `:` at line 1 column 6"));
        check("{\n\n oops", Err("the input is not JSON: expected a key in double quotes at line 3 column 2"));
        check("{} {}", Err("the input is not JSON: expected nothing after the value at line 1 column 4"));
        check("  ", Err("the input is empty; a JSON object is accepted"));
        assert_eq!(read_input(None).unwrap(), "{}");
    }
}
