//! `cargo xtask test`: what every commit passes.
//!
//! Cheap steps come first, so that a forgotten `cargo fmt` costs a second. What waits for the network or needs one core
//! runs in the background. What takes longer, or is only worth checking before a release, is `cargo xtask prove`.

use crate::cargo::cargo;
use crate::programs::InstallConsent;
use crate::runner::{self, TestSelection};
use crate::steps::{BackgroundStep, Steps};
use crate::{Done, deny, docs, features, lint, node, programs, python, quick, repository, rustdoc};

/// How much is tested.
#[derive(Debug, PartialEq)]
pub(crate) enum TestScope {
    Everything,
    /// What changed since the last commit, and what depends on it.
    Quick,
    /// Tests whose name contains this.
    Only(String),
}

pub(crate) fn run(scope: TestScope, consent: InstallConsent) -> Done {
    match scope {
        TestScope::Everything => run_everything(consent),
        TestScope::Quick => quick::run(|steps| Peers::start(steps).join(steps)),
        TestScope::Only(name) => {
            let mut steps = Steps::new();
            let variables = Peers::start(&mut steps).join(&mut steps)?;
            runner::run(&TestSelection { name: Some(name), ..TestSelection::default() }, &variables)
        }
    }
}

fn run_everything(consent: InstallConsent) -> Done {
    let mut steps = Steps::new();
    steps.run("fetch", deny::fetch)?;
    steps.run("fmt", lint::fmt)?;
    steps.run("repository", repository::run)?;
    steps.run("docs", || docs::run(docs::Action::Check))?;
    steps.run("programs", || programs::install(consent))?;
    let peers = Peers::start(&mut steps);
    steps.run("build", build_with_lints)?;
    let variables = peers.join(&mut steps)?;
    let deny = steps.start("deny", deny::run_quietly);
    steps.run("test", || runner::run(&TestSelection::default(), &variables))?;
    steps.run("rustdoc", rustdoc::run)?;
    steps.join(deny)?;
    steps.run("features", features::check)?;
    steps.finish();
    Ok(())
}

/// Installs the packages of Python and Node that tests talk to, in the background.
struct Peers {
    python: BackgroundStep<String>,
    node: BackgroundStep<String>,
}

impl Peers {
    fn start(steps: &mut Steps) -> Peers {
        Peers {
            python: steps.start("python", || Ok(python::interpreter()?.to_string_lossy().into_owned())),
            node: steps.start("node", || Ok(node::modules()?.to_string_lossy().into_owned())),
        }
    }

    /// Waits for the installations. Returns the variables by which tests find them.
    fn join(self, steps: &mut Steps) -> Result<Vec<(&'static str, String)>, String> {
        let python = steps.join(self.python)?;
        let node = steps.join(self.node)?;
        Ok(vec![(python::VARIABLE, python), (node::VARIABLE, node)])
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
