//! Tests of the crate from outside.

mod hooks;
