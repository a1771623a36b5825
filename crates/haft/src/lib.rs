//! The tool system of a language-model agent.
#![warn(missing_docs)]

pub mod files;
pub mod limits;
pub mod schema;

pub mod results;
