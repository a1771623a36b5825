//! Decides which calls of an agent run at the same time.
//!
//! This crate is the part of `haft` whose races are model-checked. It knows call numbers, conflict keys and
//! cancellation; it knows no tool, no runtime, no clock and no file system.
//!
//! - [`Scheduler`] is a pure state machine: events in, the next step out.
//! - [`CallBoard`] is the one lock around it, with the wakers; a [`CallBatch`] is the calls of one turn with
//!   their results.
//! - [`Cancel`] is the tree of cancellations.
//! - [`ConflictKeys`] say what a call touches.
//!
//! # Example
//!
//! Three calls: two that may run together, and one that must run alone.
//!
//! ```
//! use haft_scheduler::{ConflictRule, Footprint, Scheduler, SchedulerLimits, SchedulerStep::{Prepare, Run}};
//!
//! let limits = SchedulerLimits { running: 10, preparing: 64 };
//! let mut scheduler = Scheduler::new(ConflictRule::Classes, limits);
//! let batch = scheduler.open_batch();
//! for safe in [true, true, false] {
//!     scheduler.push(batch, Footprint { safe, keys: None }, 1, None);
//! }
//! scheduler.complete(batch);
//!
//! assert_eq!([scheduler.step(), scheduler.step()], [Some(Prepare(0)), Some(Prepare(1))]);
//! assert_eq!(scheduler.step(), None, "the third call waits for the first two");
//! for call in [0, 1] {
//!     assert!(scheduler.authorize(call), "there is a free slot");
//!     scheduler.finish(call);
//! }
//! assert_eq!(scheduler.step(), Some(Prepare(2)));
//! ```
//!
//! # The model check
//!
//! `tests/model` compiles these sources a second time, with the locks of shuttle instead of those of the
//! standard library, and explores interleavings. That is why every module takes its locks from `crate::sync`,
//! and why unit tests are modules of this file.
#![warn(missing_docs)]

mod board;
mod call_map;
mod cancel;
mod conflict;
mod scheduler;
pub mod sync;

pub use board::{CallBatch, CallBoard, CollectResults, NewCall, StartedCall};
pub use cancel::{Cancel, CancelledFuture, Cause, until_cancelled};
pub use conflict::{ConflictKeys, FileKey, KeySet, PathKey};
pub use scheduler::{BatchId, ConflictRule, Footprint, Interrupt, Scheduler, SchedulerLimits, SchedulerStep};

#[cfg(test)]
mod board_tests;
#[cfg(test)]
mod cancel_tests;
#[cfg(test)]
mod scheduler_tests;
