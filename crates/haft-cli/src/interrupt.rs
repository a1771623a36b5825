//! Ctrl-C: the first interrupts the turn, the second stops what would rather finish, the third ends the
//! program.
//!
//! Being told to end (SIGTERM), or losing the terminal (SIGHUP), counts as the second: what the program
//! started has to end with it, and would not if the kernel ended it at once. SIGQUIT ends the program at
//! once, but gives the terminal back first.
//!
//! Signals are taken by a thread of their own, so that they are heard while a tool keeps all others busy.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::sync::lock;
use haft::{Cancel, Cause};
use haft_agent::RunHandle;
use haft_session::TurnHandle;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{ExitStatus, output, run, session, terminal};

/// How long calls that were stopped by force have to end.
const GRACE: Duration = Duration::from_secs(1);

/// What was heard so far, and whom to tell.
#[derive(Clone, Default)]
pub(crate) struct InterruptHandler(Arc<Mutex<InterruptState>>);

#[derive(Default)]
struct InterruptState {
    heard: usize,
    whom: Option<InterruptTarget>,
}

/// Who is told.
#[derive(Clone)]
enum InterruptTarget {
    Turn(TurnHandle),
    Run(RunHandle),
    Server(Cancel),
}

impl InterruptHandler {
    /// Begins to listen. As long as there is no turn, an interrupt ends the program.
    pub(crate) fn listen() -> io::Result<InterruptHandler> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
        let interrupts = InterruptHandler::default();
        let heard = interrupts.clone();
        let listen = move || signals.forever().for_each(|signal| heard.hear(signal));
        std::thread::Builder::new().name("haft-interrupt".into()).spawn(listen)?;
        Ok(interrupts)
    }

    /// Interrupts go to this turn from now on, or end the program if there is none.
    pub(crate) fn tell(&self, turn: Option<TurnHandle>) {
        self.state(|state| state.whom = turn.map(InterruptTarget::Turn));
    }

    /// The same for a whole run, which says itself what it waits for.
    pub(crate) fn tell_run(&self, run: Option<RunHandle>) {
        self.state(|state| state.whom = run.map(InterruptTarget::Run));
    }

    /// The same for a server, which ends by this: the first time it lets what is under way come to its end.
    pub(crate) fn tell_server(&self, stop: Option<Cancel>) {
        self.state(|state| state.whom = stop.map(InterruptTarget::Server));
    }

    /// Whether the user interrupted.
    pub(crate) fn any(&self) -> bool {
        self.state(|state| state.heard > 0)
    }

    fn hear(&self, signal: i32) {
        if signal == SIGQUIT {
            exit_now();
        }
        let (heard, whom) = self.state(|state| {
            state.heard = (state.heard + 1).max(if signal == SIGINT { 1 } else { 2 });
            (state.heard, state.whom.clone())
        });
        match (heard, whom) {
            (_, Some(InterruptTarget::Server(stop))) if !stop.is_cancelled() => stop.cancel(Cause::Shutdown),
            (_, Some(InterruptTarget::Server(_))) => exit_now(),
            (1, Some(InterruptTarget::Run(run))) => run.interrupt(),
            (1, Some(InterruptTarget::Turn(turn))) => {
                let going_on = turn.interrupt();
                if !going_on.is_empty() {
                    let tools = going_on.join(", ");
                    output::print_line(&format!("waiting for {tools} to finish; interrupt again to stop it"));
                }
            }
            (2, Some(whom)) => {
                match whom {
                    InterruptTarget::Turn(turn) => turn.cancel(Cause::User),
                    InterruptTarget::Run(run) => run.force(),
                    InterruptTarget::Server(_) => {}
                }
                let late = || {
                    std::thread::sleep(GRACE);
                    exit_now();
                };
                if std::thread::Builder::new().spawn(late).is_err() {
                    exit_now();
                }
            }
            _ => exit_now(),
        }
    }

    fn state<T>(&self, change: impl FnOnce(&mut InterruptState) -> T) -> T {
        change(&mut lock(&self.0))
    }
}

/// Ends the program at once, with what it started, and leaves the terminal as it was.
pub(crate) fn exit_now() -> ! {
    haft_terminal::restore();
    terminal::cancel_line();
    session::close_sessions();
    // Nothing runs in it any more.
    run::remove_leftovers();
    std::process::exit(ExitStatus::Interrupted as i32)
}
