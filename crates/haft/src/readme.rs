//! The Rust code in the documents of the repository, compiled and run by `cargo test --doc`.
//!
//! A block that is no Rust names its language there, or it is taken for Rust and fails here.

#[doc = include_str!("../../../README.md")]
mod readme {}

#[doc = include_str!("../../../docs/tools.md")]
mod tools {}

#[doc = include_str!("../../../docs/effects.md")]
mod effects {}

#[doc = include_str!("../../../docs/pipeline.md")]
mod pipeline {}

#[doc = include_str!("../../../docs/scheduling.md")]
mod dispatch {}

#[doc = include_str!("../../../docs/results.md")]
mod results {}

#[doc = include_str!("../../../docs/errors.md")]
mod errors {}

#[cfg(feature = "testing")]
#[doc = include_str!("../../../docs/testing.md")]
mod testing {}
