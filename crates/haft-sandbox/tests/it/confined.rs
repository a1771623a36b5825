//! The ground on which confined children are let loose: a workspace, something outside of it, and the helper.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use haft::ports::{ProcessOutcome, ProcessRequest};
use haft_sandbox::testing::{TestScene, sandbox};
use haft_sandbox::{Sandbox, SandboxStack};

pub(crate) const HELPER: &str = env!("CARGO_BIN_EXE_haft-sandbox-helper");

pub(crate) struct Ground {
    dir: tempfile::TempDir,
}

impl Ground {
    pub(crate) fn new() -> Ground {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        for name in ["workspace", "outside"] {
            std::fs::create_dir(real.join(name)).unwrap();
        }
        std::fs::write(real.join("outside/secret"), "SECRET").unwrap();
        Ground { dir }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.at("workspace")
    }

    /// The system, and the workspace to be changed.
    pub(crate) fn scene(&self) -> TestScene {
        TestScene::system().bind(self.workspace(), true)
    }

    pub(crate) fn sandbox(&self) -> Sandbox {
        self.sandbox_of(SandboxStack::Full, self.scene())
    }

    pub(crate) fn sandbox_of(&self, stack: SandboxStack, scene: TestScene) -> Sandbox {
        let read_only = TestScene::system().bind(self.workspace(), false);
        sandbox(HELPER, stack, scene, read_only).unwrap()
    }

    /// A copy of the helper, which can be told from those of other tests. Not in the workspace.
    pub(crate) fn own_helper(&self) -> PathBuf {
        own_helper(&self.at(""))
    }

    pub(crate) fn bash(&self, script: &str) -> ProcessRequest {
        ProcessRequest::new(["bash", "-c", script], self.workspace())
    }

    pub(crate) fn python(&self, script: &str) -> ProcessRequest {
        // Without `site`, which is half of what it costs to start.
        ProcessRequest::new(["python3", "-I", "-S", "-c", script], self.workspace())
    }
}

/// A copy of the helper in this folder, by whose name its processes can be told from all others, also while
/// they die.
pub(crate) fn own_helper(folder: &Path) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // The kernel keeps 15 bytes of it.
    let copy = folder.join(format!("h{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    std::fs::copy(HELPER, &copy).unwrap();
    copy
}

/// Everything that it printed.
pub(crate) fn said(outcome: &ProcessOutcome) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{:?} {}{}", outcome.exit, text(&outcome.stdout.head), text(&outcome.stderr.head))
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
