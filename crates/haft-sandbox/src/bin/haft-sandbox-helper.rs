//! The helper alone, for programs that can't begin with `haft_sandbox::entry()`: tests and benchmarks.

fn main() {
    #[cfg(feature = "testing")]
    haft_sandbox::entry_with(haft_sandbox::testing::tools);
    haft_sandbox::entry();
}
