//! A program that uses the sandbox and does nothing else: the helper of tests and benchmarks.

fn main() {
    #[cfg(feature = "testing")]
    let tools = haft_sandbox::testing::tools;
    #[cfg(not(feature = "testing"))]
    let tools = Vec::new;
    // In a runtime, as in a program with `#[tokio::main]`.
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made");
    runtime.block_on(async { haft_sandbox::serve_isolated_tools(tools) });
}
