//! A deterministic simulator: complete sessions with faults, generated from one seed.
//!
//! [`simulate`] runs a session with the real dispatcher, pipeline, rules, result store, agent loop
//! and journal, on one thread with a virtual clock. The parts that would not be reproducible are
//! simulated: the tools, the hooks, the user, the model's replies, and the disk below the journal.
//! The seed determines their content and their faults. The simulated process dies one or more
//! times: its state is dropped, the disk keeps what a real disk would keep, and a new process
//! resumes the session. Checks of the eight invariants, I1 to I8 in `docs/reliability.md`, run
//! beside the session. They observe the tools, the disk and the user, and don't trust the engine's
//! own reports.
//!
//! Each random decision depends on the seed and on *what* is decided, not on when. A change of the
//! engine that asks in another order therefore doesn't change the scenario of a seed.
//!
//! ```
//! let report = haft_sim::simulate(7, None);
//! assert_eq!(report.violations, [] as [String; 0], "{}", report.text());
//! assert_eq!(report.trace, haft_sim::simulate(7, None).trace);
//! ```
#![warn(missing_docs)]

mod conversation_pairs;
mod faulty_disk;
mod faulty_guards;
mod invariants;
mod seeded_dice;
mod simulated_journal;
mod simulated_tools;
mod simulated_world;
mod simulation;
mod simulation_plan;

pub use self::simulated_world::{EventCounts, SimulationReport};
pub use self::simulation::simulate;
pub use self::simulation_plan::PlantedBug;
