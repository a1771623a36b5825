//! Everything that `haft` knows of git: how much of a repository a command may write ([`RepositoryLevel`]),
//! configuration files ([`config`]), the meaning of keys ([`keys`]), and the layout of a repository
//! ([`layout`], [`index`], [`sequence`]).
//!
//! The crate performs no I/O and has no dependencies: callers read files and pass their bytes. Sub-commands
//! and options of git are an ordinary entry of the shell analysis, which assigns a level to each of them.
//!
//! A questionable decision: names in a folder of git are held unless they are listed here, and keys count
//! as starting something unless they are listed here. New versions of git add names and keys. An entry that
//! is missing in a list then causes a visible failure.

pub mod config;
pub mod include;
pub mod index;
pub mod keys;
pub mod layout;
mod level;
pub mod sequence;

pub use config::ConfigEntry;
pub use level::{RepositoryLevel, RepositoryUse};
