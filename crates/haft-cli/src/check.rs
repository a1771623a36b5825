//! `haft check`: what would become of a call, and why. Runs nothing, writes nothing, asks nobody.
//!
//! The answer comes from the rules that a call would meet; here it is only printed and made an exit code.

use haft_policy::gate::VerdictName;
use serde_json::Value;

use crate::args::{CheckArgs, Common, Form};
use crate::output::Reader;
use crate::session::{SessionParts, SessionPurpose};
use crate::{Exit, Usage, call, output, session};

pub(crate) fn run(args: &CheckArgs, common: &Common) -> Result<Exit, Usage> {
    let SessionParts { engine, policy, links, .. } =
        session::open(&common.options(), SessionPurpose::Inspect)?;
    let input = call::input(args.input.as_deref())?;
    let input: Value =
        serde_json::from_str(&input).map_err(|error| Usage(format!("the input can't be taken: {error}")))?;
    let servers: Vec<&str> =
        links.planned.servers.iter().map(|planned| planned.server.name.as_str()).collect();
    let explained = policy.check_among(&engine, &servers, &args.tool, &input);
    let explained = explained.map_err(|error| Usage(error.to_string()))?;
    let (text, reader) = match args.output {
        Form::Text => (explained.to_string(), Reader::Sampler),
        Form::Json => (serde_json::to_string(&explained).expect("it has text keys"), Reader::Whole),
    };
    Ok(match (output::result(&text, reader), explained.verdict) {
        (Err(exit), _) => exit,
        (Ok(()), VerdictName::Allow) => Exit::Done,
        (Ok(()), VerdictName::Ask) => Exit::Asks,
        (Ok(()), VerdictName::Deny) => Exit::Denied,
    })
}
