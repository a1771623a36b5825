//! `haft check`: what would become of a call, and why. Runs nothing, writes nothing, asks nobody.
//!
//! The decision is the one that a call would meet; here it is only printed and made an exit code.

use haft::decision::Verdict;
use haft_session::SessionPurpose;
use serde_json::Value;

use crate::args::{CheckArgs, CommonArgs, OutputForm};
use crate::output::OutputReader;
use crate::{ExitStatus, UsageError, call, output, session, threads};

pub(crate) fn run(args: &CheckArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let session = session::open_session(&common.options(), SessionPurpose::Inspect)?;
    let input = call::read_input(args.input.as_deref())?;
    let input: Value = serde_json::from_str(&input)
        .map_err(|error| UsageError(format!("the input can't be taken: {error}")))?;
    let report = threads::single_threaded_runtime()?.block_on(session.check(&args.tool, input))?;
    let (text, reader) = match args.output {
        OutputForm::Text => (report.to_text(session::rule_flags), OutputReader::Sampler),
        OutputForm::Json => (serde_json::to_string(&report).expect("it has text keys"), OutputReader::Whole),
    };
    Ok(match (output::write_result(&text, reader), report.verdict) {
        (Err(exit), _) => exit,
        (Ok(()), Verdict::Allow) => ExitStatus::Done,
        (Ok(()), Verdict::Ask) => ExitStatus::Asks,
        (Ok(()), Verdict::Deny) => ExitStatus::Denied,
    })
}
