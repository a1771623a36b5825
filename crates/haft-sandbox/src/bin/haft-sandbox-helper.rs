//! The helper alone, for programs that can't begin with `haft_sandbox::entry()`: tests and benchmarks.

fn main() {
    haft_sandbox::entry();
}
