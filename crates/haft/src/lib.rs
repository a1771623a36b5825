//! The tool system of a language-model agent.
#![warn(missing_docs)]

pub mod limits;
pub mod results;
