//! What `haft` knows of git, in one place: how much of a repository a command may write ([`RepositoryLevel`]), what a
//! configuration says ([`config`]), what its keys start and who may set them ([`keys`]), and how a repository is laid out
//! ([`layout`], [`index`], [`sequence`]).
//!
//! The crate performs no I/O and depends on nothing: callers read files and pass their bytes. Sub-commands and options of
//! git are an ordinary entry of the shell analysis, which names a level for each of them.
//!
//! The decision to question: names in a folder of git are held unless they are listed here, and keys of a configuration
//! start something unless they are listed here. git learns new ones, and what a list has forgotten then fails visibly.

pub mod config;
pub mod include;
pub mod index;
pub mod keys;
pub mod layout;
mod level;
pub mod sequence;

pub use config::ConfigEntry;
pub use level::{RepositoryLevel, RepositoryUse};
