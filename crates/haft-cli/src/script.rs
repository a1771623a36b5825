//! `haft read_script serve`: a scripted model for anybody's agent, by all four wires, on this machine alone.

use haft_provider::Wire;
use haft_provider::scripted::serve_script;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::output::{self, OutputReader};
use crate::run::args::{ScriptArgs, ScriptCommand, ScriptServeArgs};
use crate::run::provider::read_script;
use crate::{ExitStatus, UsageError};

pub(crate) fn run(args: &ScriptArgs) -> Result<ExitStatus, UsageError> {
    let ScriptCommand::Serve(args) = &args.command;
    serve_until_told(args)
}

/// Serves until a signal tells it to end, which is how it is meant to end.
fn serve_until_told(args: &ScriptServeArgs) -> Result<ExitStatus, UsageError> {
    let script = read_script(&args.file)?;
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]);
    let mut signals = signals.map_err(|error| UsageError(format!("signals can't be heard: {error}")))?;
    let runtime = crate::threads::build_runtime(2)?;
    let serving = runtime
        .block_on(serve_script(script, args.addr))
        .map_err(|error| UsageError(format!("--addr `{}`: {error}", args.addr)))?;
    if let Err(exit) = output::write_result(&format!("http://{}", serving.address()), OutputReader::Whole) {
        return Ok(exit);
    }
    for wire in Wire::ALL {
        let variable = haft_provider::endpoint::base_url_variable(wire);
        output::print_line(&format!("{:12} {variable}={}", wire.to_string(), serving.base_url(wire)));
    }
    let _ = signals.forever().next();
    drop(serving);
    runtime.shutdown_background();
    Ok(ExitStatus::Done)
}
