//! Authorization policy: permission rules, settings, workspace trust and hooks.
#![warn(missing_docs)]

pub mod classifier;
pub mod conventions;
mod credentials;
pub mod gate;
pub mod hooks;
pub mod rule;
pub mod settings;
pub mod source;
pub mod trust;
