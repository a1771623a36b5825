//! `haft check`: what would become of a call, and why. Runs nothing, writes nothing, asks nobody.
//!
//! The decision is the one that a call would meet; here it is only printed and made an exit code.

use haft::Verdict;
use haft_policy::gate::CheckedCall;
use serde_json::Value;

use crate::args::{CheckArgs, Common, Form};
use crate::output::Reader;
use crate::session::{SessionParts, SessionPurpose};
use crate::{Exit, Usage, call, output, session, turn};

pub(crate) fn run(args: &CheckArgs, common: &Common) -> Result<Exit, Usage> {
    let SessionParts { engine, policy, links, .. } =
        session::open(&common.options(), SessionPurpose::Inspect)?;
    let input = call::input(args.input.as_deref())?;
    let input: Value =
        serde_json::from_str(&input).map_err(|error| Usage(format!("the input can't be taken: {error}")))?;
    let servers: Vec<&str> =
        links.planned.servers.iter().map(|planned| planned.server.name.as_str()).collect();
    let call = CheckedCall::new(&args.tool, input).with_servers(&servers);
    let report = turn::one_thread()?.block_on(policy.check(&engine.build(), call));
    let report = report.map_err(|error| Usage(error.to_string()))?;
    let (text, reader) = match args.output {
        Form::Text => (report.to_string(), Reader::Sampler),
        Form::Json => (serde_json::to_string(&report).expect("it has text keys"), Reader::Whole),
    };
    Ok(match (output::result(&text, reader), report.verdict) {
        (Err(exit), _) => exit,
        (Ok(()), Verdict::Allow) => Exit::Done,
        (Ok(()), Verdict::Ask) => Exit::Asks,
        (Ok(()), Verdict::Deny) => Exit::Denied,
    })
}
