//! The pages of the manual whose programs are tested here.

#[doc = include_str!("../../../docs/terminal.md")]
mod terminal {}
