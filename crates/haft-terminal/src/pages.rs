//! The page of the documentation that shows this crate, so that its program is compiled.

#[doc = include_str!("../../../docs/terminal.md")]
struct Terminal;
