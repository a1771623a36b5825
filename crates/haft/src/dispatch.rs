//! Many calls at once, one result each, in order.
//!
//! A [`Turn`] takes the calls of one message, possibly while the message is still arriving, and gives exactly one
//! result for each, in call order, whatever happens. It knows order, slots and siblings and nothing of what a call
//! goes through; the [pipeline](crate::pipeline) knows that and nothing of siblings.
//!
//! [`scheduler`] decides who may go, [`board`] holds what the calls of a turn share, [`locks`] keeps writers of
//! different agents apart, [`background`] has what was given an answer and goes on.

pub(crate) mod background;
pub(crate) mod board;
pub(crate) mod locks;
pub(crate) mod scheduler;
pub(crate) mod turn;

pub use background::TaskTable;
pub use scheduler::ConflictRule;
pub use turn::{Detached, Turn, TurnHandle};
