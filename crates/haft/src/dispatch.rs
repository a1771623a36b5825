//! Many calls at once, one result each, in order.
//!
//! A [`Turn`] takes the calls of one message, possibly while the message is still arriving, and gives exactly
//! one result for each, in call order, whatever happens. It knows order, slots and siblings and nothing of
//! what a call goes through; the [pipeline](crate::pipeline) knows that and nothing of siblings.
//!
//! All turns of an engine are batches on one board: calls are ordered by arrival, whichever turn they belong
//! to. A call that is [submitted](crate::Engine::submit) alone is a turn of one call.
//!
//! The crate `haft-scheduler` decides which call may go and holds what the calls of an agent share. `turn`
//! drives each call through it, `locks` keeps writers of different agents apart, `background` has the calls
//! that continue after their result.

pub(crate) mod background;
pub(crate) mod locks;
pub(crate) mod turn;

pub use background::TaskTable;
pub use haft_scheduler::ConflictRule;
pub use turn::{DetachedCall, PendingCall, Turn, TurnHandle};
