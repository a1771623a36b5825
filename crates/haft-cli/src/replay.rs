//! `haft replay`: recorded calls again, by today's tools and rules, and what differs from then.
//!
//! Three ways, each in a file: [`dry`] only looks, [`fed`] brings recorded results through the pipeline, [`again`] makes the
//! calls in a copy of the workspace. All read a [`Recording`](recording::Recording), whatever kind of file it came from, and
//! give rows for one [`Report`](report::Report). Hooks of settings are not run in any of them: they are programs with effects
//! of their own, and inputs are recorded as hooks left them.

mod again;
pub(crate) mod args;
mod compare;
mod copy;
mod dry;
mod fed;
mod forms;
mod recording;
pub(crate) mod report;
mod verdict;

use self::args::{ReplayArgs, Results};
use self::report::{Mode, Report};
use crate::args::{Common, Form};
use crate::output::Reader;
use crate::{Exit, Usage, output};

pub(crate) fn run(args: &ReplayArgs, common: &Common) -> Result<Exit, Usage> {
    let recording = recording::open(&args.file, common)?;
    for words in recording.warnings() {
        output::warning(&output::one_line(&words));
    }
    let (mode, rows) = match (args.run, args.results) {
        (true, _) => (Mode::Run, again::rows(&recording, common)?),
        (_, Some(Results::Recorded)) => (Mode::Recorded, fed::rows(&recording, common)?),
        _ => (Mode::Dry, dry::rows(&recording, common)?),
    };
    let report = Report::new(mode, &recording, rows, args.all);
    let written = match args.output {
        Form::Text => output::result(&report.table(), Reader::Sampler),
        Form::Json => {
            let text = serde_json::to_string(&report).expect("a report has text keys");
            output::result(&text, Reader::Whole)
        }
    };
    Ok(match written {
        Err(exit) => exit,
        Ok(()) if report.differ > 0 => Exit::Failed,
        Ok(()) => Exit::Done,
    })
}
