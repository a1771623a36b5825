//! The helper alone, for tests and benchmarks that don't start their own program again.

fn main() {
    #[cfg(feature = "testing")]
    haft_sandbox::entry_with(haft_sandbox::testing::tools);
    haft_sandbox::entry_with(Vec::new);
}
