//! A program that uses the sandbox and does nothing else: the helper of tests and benchmarks.

use haft_sandbox as _;

fn main() {}
