//! The binary `haft`.

fn main() {}
