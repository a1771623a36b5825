//! `haft script serve`: a scripted model for anybody's agent, by all four wires, on this machine alone.

use haft_provider::Wire;
use haft_provider::scripted::serve_script;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::output::{self, Reader};
use crate::run::args::{ScriptArgs, ScriptCommand, ServeArgs};
use crate::run::provider::script;
use crate::{Exit, Usage};

pub(crate) fn run(args: &ScriptArgs) -> Result<Exit, Usage> {
    let ScriptCommand::Serve(args) = &args.command;
    serve_until_told(args)
}

/// Serves until a signal tells it to end, which is how it is meant to end.
fn serve_until_told(args: &ServeArgs) -> Result<Exit, Usage> {
    let script = script(&args.file)?;
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]);
    let mut signals = signals.map_err(|error| Usage(format!("signals can't be heard: {error}")))?;
    let runtime = crate::threads::runtime(2)?;
    let serving = runtime
        .block_on(serve_script(script, args.addr))
        .map_err(|error| Usage(format!("--addr `{}`: {error}", args.addr)))?;
    if let Err(exit) = output::result(&format!("http://{}", serving.address()), Reader::Whole) {
        return Ok(exit);
    }
    for wire in Wire::ALL {
        let variable = haft_provider::endpoint::base_url_variable(wire);
        output::say(&format!("{:12} {variable}={}", wire.to_string(), serving.base_url(wire)));
    }
    let _ = signals.forever().next();
    drop(serving);
    runtime.shutdown_background();
    Ok(Exit::Done)
}
