//! `cargo xtask test`: what every commit passes.
//!
//! Cheap steps come first, so that a forgotten `cargo fmt` costs a second. What waits for the network or needs one core
//! runs in the background. What takes longer, or is only worth checking before a release, is `cargo xtask prove`.

use crate::cargo::cargo;
use crate::programs::Consent;
use crate::runner::{self, Selection};
use crate::steps::{BackgroundStep, Steps};
use crate::{Done, deny, docs, features, lint, node, programs, python, quick, repository};

/// How much is tested.
#[derive(Debug, PartialEq)]
pub(crate) enum Scope {
    Everything,
    /// What changed since the last commit, and what depends on it.
    Quick,
    /// Tests whose name contains this.
    Only(String),
}

pub(crate) fn run(scope: Scope, consent: Consent) -> Done {
    match scope {
        Scope::Everything => run_everything(consent),
        Scope::Quick => quick::run(|steps| Peers::start(steps).join(steps)),
        Scope::Only(name) => {
            let mut steps = Steps::new();
            let variables = Peers::start(&mut steps).join(&mut steps)?;
            runner::run(&Selection { name: Some(name), ..Selection::default() }, &variables)
        }
    }
}

fn run_everything(consent: Consent) -> Done {
    let mut steps = Steps::new();
    steps.run("fetch", deny::fetch)?;
    steps.run("fmt", lint::fmt)?;
    steps.run("repository", repository::run)?;
    steps.run("docs", || docs::run(docs::Action::Check))?;
    steps.run("programs", || programs::install(consent))?;
    let peers = Peers::start(&mut steps);
    steps.run("clippy", lint::clippy)?;
    steps.run("build", build_tests)?;
    let variables = peers.join(&mut steps)?;
    let deny = steps.start("deny", deny::run_quietly);
    steps.run("test", || runner::run(&Selection::default(), &variables))?;
    steps.run("doc tests", runner::run_doc_tests)?;
    steps.join(deny)?;
    steps.run("features", features::check)?;
    steps.run("rustdoc", rustdoc)?;
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

/// Builds every test, so that the time of the step `test` is that of running them.
fn build_tests() -> Done {
    cargo(["test", "--workspace", "--all-features", "--no-run", "--quiet"]).run()
}

fn rustdoc() -> Done {
    cargo(["doc", "--workspace", "--no-deps", "--all-features"]).with_env("RUSTDOCFLAGS", "-D warnings").run()
}
