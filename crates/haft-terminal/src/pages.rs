//! Includes the documentation page of this crate, so that its example is compiled.

#[doc = include_str!("../../../docs/terminal.md")]
struct Terminal;
