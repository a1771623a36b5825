//! `cargo xtask test`: what every commit passes.
//!
//! Cheap steps come first, so that a forgotten `cargo fmt` costs a second. What waits for the network or
//! needs one core runs in the background. What takes longer, or is only worth checking before a release, is
//! `cargo xtask prove`.

use crate::cargo::cargo;
use crate::peers::{NODE, PYTHON};
use crate::programs::InstallConsent;
use crate::runner::{self, TestSelection};
use crate::steps::{BackgroundStep, Steps};
use crate::{Done, deny, docs, features, lint, programs, quick, repository, rustdoc};

/// How much is tested.
pub(crate) enum TestScope {
    /// With the packages of the system that tests use, if the developer agrees.
    Everything(InstallConsent),
    /// What changed since the last commit, and what depends on it.
    Quick,
    /// Tests whose name contains this.
    Only(String),
}

pub(crate) fn run(scope: TestScope) -> Done {
    match scope {
        TestScope::Everything(consent) => run_everything(consent),
        TestScope::Quick => quick::run(|steps| Installations::start(steps).join(steps)),
        TestScope::Only(name) => {
            let mut steps = Steps::new();
            let variables = Installations::start(&mut steps).join(&mut steps)?;
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
    let peers = Installations::start(&mut steps);
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
