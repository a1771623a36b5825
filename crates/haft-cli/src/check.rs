//! `haft check`: what would become of a call, and why. Runs nothing, writes nothing, asks nobody.
//!
//! The decision is the one that a call would meet; here it is only printed and made an exit code.

use haft::decision::Verdict;
use haft_session::SessionPurpose;
use serde_json::Value;

use crate::args::{CheckArgs, Common, Form};
use crate::output::Reader;
use crate::{Exit, Usage, call, output, session, threads};

pub(crate) fn run(args: &CheckArgs, common: &Common) -> Result<Exit, Usage> {
    let session = session::open(&common.options(), SessionPurpose::Inspect)?;
    let input = call::input(args.input.as_deref())?;
    let input: Value =
        serde_json::from_str(&input).map_err(|error| Usage(format!("the input can't be taken: {error}")))?;
    let report = threads::single_threaded_runtime()?.block_on(session.check(&args.tool, input))?;
    let (text, reader) = match args.output {
        Form::Text => (report.to_text(session::rule_flags), Reader::Sampler),
        Form::Json => (serde_json::to_string(&report).expect("it has text keys"), Reader::Whole),
    };
    Ok(match (output::result(&text, reader), report.verdict) {
        (Err(exit), _) => exit,
        (Ok(()), Verdict::Allow) => Exit::Done,
        (Ok(()), Verdict::Ask) => Exit::Asks,
        (Ok(()), Verdict::Deny) => Exit::Denied,
    })
}
