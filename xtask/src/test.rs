//! `cargo xtask test`: what every commit passes.
//!
//! Cheap steps come first, so that a forgotten `cargo fmt` costs a second. What waits for the network or needs one core
//! runs in the background. What takes longer, or is only worth checking before a release, is `cargo xtask prove`.

use crate::cargo::{Call, cargo};
use crate::peers::{NODE, PYTHON};
use crate::steps::{BackgroundStep, Steps};
use crate::{Done, deny, docs, features, lint, programs, quick, repository, rustdoc};

/// How much is tested.
pub(crate) enum TestScope {
    /// With the packages of the system that tests use installed, if they may be.
    Everything { may_install: bool },
    /// What changed since the last commit, and what depends on it.
    Quick,
    /// Tests whose name contains this.
    Only(String),
}

pub(crate) fn run(scope: TestScope) -> Done {
    match scope {
        TestScope::Everything { may_install } => run_everything(may_install),
        TestScope::Quick => quick::run(|steps| Installations::start(steps).join(steps)),
        TestScope::Only(name) => {
            let mut steps = Steps::new();
            let variables = Installations::start(&mut steps).join(&mut steps)?;
            run_tests(&TestSelection { name: Some(name), ..TestSelection::default() }, &variables)
        }
    }
}

fn run_everything(may_install: bool) -> Done {
    let mut steps = Steps::new();
    steps.run("fetch", deny::fetch)?;
    steps.run("fmt", lint::fmt)?;
    steps.run("repository", repository::run)?;
    steps.run("docs", || docs::run(docs::Action::Check))?;
    steps.run("programs", || programs::install(may_install))?;
    let peers = Installations::start(&mut steps);
    steps.run("build", build_with_lints)?;
    let variables = peers.join(&mut steps)?;
    let deny = steps.start("deny", deny::run_quietly);
    steps.run("test", || run_tests(&TestSelection::default(), &variables))?;
    steps.run("rustdoc", rustdoc::run)?;
    steps.join(deny)?;
    steps.run("features", features::check)?;
    steps.finish();
    Ok(())
}

/// Packages of Python and Node that are being installed in the background.
struct Installations([BackgroundStep<String>; 2]);

impl Installations {
    fn start(steps: &mut Steps) -> Installations {
        let python = steps.start("python", || PYTHON.installed());
        Installations([python, steps.start("node", || NODE.installed())])
    }

    /// Waits for the installations. Returns the variables by which tests find them.
    fn join(self, steps: &mut Steps) -> Result<Vec<(&'static str, String)>, String> {
        let [python, node] = self.0;
        Ok(vec![(PYTHON.variable, steps.join(python)?), (NODE.variable, steps.join(node)?)])
    }
}

/// Builds and lints every target: the time of the step `test` is that of running the tests.
///
/// Benchmarks have a build of their own, because `--all-targets` compiles each example as a test as well.
fn build_with_lints() -> Done {
    let build = ["test", "--workspace", "--all-features", "--no-run", "--quiet"];
    cargo(build).with_lints().run()?;
    cargo(build.into_iter().chain(["--benches"])).with_lints().run()
}

/// Which tests to build and to run.
#[derive(Default)]
pub(crate) struct TestSelection {
    /// Options for cargo that choose what is built, such as `--lib`.
    pub(crate) targets: Vec<String>,
    /// A filter expression of nextest. `cargo test` runs everything that was built.
    pub(crate) filter: Option<String>,
    /// Run only tests whose name contains this.
    pub(crate) name: Option<String>,
}

/// Runs tests with these variables: with nextest where it is installed, otherwise with `cargo test`. Documentation tests are
/// not among them: see [`rustdoc`].
pub(crate) fn run_tests(selection: &TestSelection, variables: &[(&str, String)]) -> Done {
    let has_nextest = cargo(["nextest", "--version"]).read().is_ok();
    let call = if has_nextest { nextest_call(selection) } else { cargo_test_call(selection) };
    let done =
        variables.iter().fold(call, |call, (name, value)| call.with_env(name, value)).with_lints().run();
    if !has_nextest {
        println!(
            "hint: `cargo install --locked cargo-nextest` runs the tests faster and names those that are slow"
        );
    }
    done
}

/// Prints what failed and what took longer than a test may, as `.config/nextest.toml` says, and both once more at the end.
fn nextest_call(selection: &TestSelection) -> Call {
    // Many tests wait for child processes: two for each core keep the cores busy.
    let threads = std::thread::available_parallelism().map_or(2, |cores| 2 * cores.get()).to_string();
    let mut args = vec!["nextest", "run", "--workspace", "--all-features", "--no-fail-fast"];
    args.extend(["--test-threads", &threads, "--show-progress", "none", "--status-level", "slow"]);
    args.extend(["--final-status-level", "slow", "--failure-output", "immediate"]);
    args.extend(selection.targets.iter().map(String::as_str));
    args.extend(selection.filter.iter().flat_map(|filter| ["--filterset", filter]));
    args.extend(selection.name.as_deref());
    cargo(args)
}

fn cargo_test_call(selection: &TestSelection) -> Call {
    let mut args = vec!["test", "--workspace", "--all-features", "--no-fail-fast", "--quiet"];
    if selection.targets.is_empty() {
        args.extend(["--lib", "--bins", "--tests"]);
    }
    args.extend(selection.targets.iter().map(String::as_str));
    args.extend(selection.name.as_deref());
    cargo(args)
}
