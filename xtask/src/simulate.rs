//! `cargo xtask simulate --seed N`: the story of one seed, as the simulator's tests tell it.
//!
//! With the profile of proofs, because that is where a seed that failed mostly comes from: what was built for them is used
//! again.

use crate::Done;
use crate::cargo::cargo;

pub(crate) fn run(seed: u64) -> Done {
    let seed = seed.to_string();
    cargo(["run", "--quiet", "--profile", "prove", "--package", "haft-sim", "--", "--seed", &seed]).run()
}
