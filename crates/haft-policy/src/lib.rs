//! Who may do what: rules, shell commands, settings, trust and hooks.
#![warn(missing_docs)]

pub mod classify;
pub mod conventions;
pub mod gate;
pub mod rule;
pub mod settings;
pub mod shell;
pub mod source;
pub mod trust;
