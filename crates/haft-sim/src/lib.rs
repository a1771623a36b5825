//! The simulator: whole sessions with faults, made from one number.
//!
//! [`simulate`] runs a session with the real dispatcher, pipeline, rules, result store, loop and journal, on one thread
//! under a clock that only moves when nobody has anything to do. What is not real is what would not repeat: the tools, the
//! hooks, the user, the model's words, and the disk below the journal. They are made from the seed, and misbehave by it. The
//! process "dies" once or more: everything is dropped, the disk keeps what a real one would, and another one takes up the
//! session from there. Beside all this stand the checks of the eight invariants, I1 to I8 in `docs/reliability.md`, which
//! look at what the tools, the disk and the user saw, and not at what the engine says of itself.
//!
//! Every decision is a die whose number comes from the seed and from *what* is decided, not from when: a change to the engine
//! that asks in another order doesn't turn a seed into another story.
//!
//! ```
//! let story = haft_sim::simulate(7, None);
//! assert_eq!(story.broken, [] as [String; 0], "{}", story.text());
//! assert_eq!(story.trace, haft_sim::simulate(7, None).trace);
//! ```
#![warn(missing_docs)]

mod check;
mod dice;
mod disk;
mod guards;
mod history;
mod keep;
mod plan;
mod run;
mod tools;
mod world;

pub use self::plan::Bug;
pub use self::run::simulate;
pub use self::world::{Story, Tally};
