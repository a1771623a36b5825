//! A sandbox with a scene that a test writes down itself, and a helper that isn't the test.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haft::ports::{ConfinementLevel, ConfinementRefusal, ProcessRequest};

use crate::confined::HelperProgram;
use crate::mount_plan::{BindSource, MountEntry, MountPlan, NetworkAccessKind, ResourceLimit};
use crate::sandbox::{self, MountPlanner, Sandbox, SandboxStack, SandboxUnavailable, UserNamespaceMaker};
use crate::{seccomp, sys};

/// A scene, part by part.
#[derive(Clone, Debug, Default)]
pub struct TestScene(MountPlan);

impl TestScene {
    /// The system's programs and libraries, `/etc`, `/proc`, `/dev` and an empty `/tmp`; no network.
    pub fn system() -> TestScene {
        let mut scene = TestScene::default();
        for path in ["/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc", "/opt"] {
            scene = scene.bind(path, false);
        }
        scene.0.parts.extend([MountEntry::Proc, MountEntry::Dev]);
        scene.tmpfs("/tmp").tmpfs("/run")
    }

    fn with(mut self, part: MountEntry) -> TestScene {
        self.0.parts.push(part);
        self
    }

    /// A path of the host, at the same place.
    #[must_use]
    pub fn bind(self, path: impl AsRef<Path>, writable: bool) -> TestScene {
        let at = path.as_ref().to_owned();
        self.with(MountEntry::Bind { from: BindSource::Path(at.clone()), at, writable })
    }

    /// What this descriptor stands for, at this place.
    #[must_use]
    pub fn bind_held(
        self,
        held: impl Into<std::os::fd::OwnedFd>,
        at: impl Into<PathBuf>,
        writable: bool,
    ) -> TestScene {
        let from = BindSource::Held(Arc::new(held.into()));
        self.with(MountEntry::Bind { from, at: at.into(), writable })
    }

    /// An empty folder in memory.
    #[must_use]
    pub fn tmpfs(self, at: impl Into<PathBuf>) -> TestScene {
        self.with(MountEntry::Tmpfs { at: at.into(), bytes_max: 64 << 20, mode: 0o755 })
    }

    /// A folder that can be changed without changing it.
    #[must_use]
    pub fn overlay(self, at: &Path, upper: &Path, work: &Path) -> TestScene {
        let [lower, upper, work, at] = [at, upper, work, at].map(Path::to_owned);
        self.with(MountEntry::Overlay { lower, upper, work, at, writable: true })
    }

    /// Nothing to see there.
    #[must_use]
    pub fn mask(self, at: impl Into<PathBuf>) -> TestScene {
        self.with(MountEntry::Mask { at: at.into() })
    }

    /// Readable, and can't be changed.
    #[must_use]
    pub fn protect(self, at: impl Into<PathBuf>) -> TestScene {
        self.with(MountEntry::Protect { at: at.into() })
    }

    /// Can't be renamed or removed.
    #[must_use]
    pub fn pin(self, at: impl Into<PathBuf>) -> TestScene {
        self.with(MountEntry::Pin { at: at.into() })
    }

    /// A small file.
    #[must_use]
    pub fn file(self, at: impl Into<PathBuf>, content: &str) -> TestScene {
        self.with(MountEntry::File { at: at.into(), content: content.into() })
    }

    /// The session's network.
    #[must_use]
    pub fn session_network(mut self) -> TestScene {
        self.0.network = NetworkAccessKind::Session;
        self
    }

    /// The host's network.
    #[must_use]
    pub fn host_network(mut self) -> TestScene {
        self.0.network = NetworkAccessKind::Host;
        self
    }

    /// A bound, as `setrlimit` takes it.
    #[must_use]
    pub fn rlimit(mut self, resource: u32, most: u64) -> TestScene {
        self.0.rlimits.push(ResourceLimit { resource, soft: most, hard: most });
        self
    }
}

struct FixedPlans {
    session: MountPlan,
    read_only: MountPlan,
    number: AtomicU64,
}

/// Named by a request, this makes its scene one that there never was.
pub const EVER_NEW: &str = "HAFT_TEST_EVER_NEW";

impl MountPlanner for FixedPlans {
    fn scene(&self, request: &ProcessRequest) -> Result<MountPlan, String> {
        let read_only = request.confinement != ConfinementLevel::Session;
        let mut scene = if read_only { self.read_only.clone() } else { self.session.clone() };
        if request.env.iter().any(|(name, _)| name == EVER_NEW) {
            let content = self.number.fetch_add(1, Ordering::Relaxed).to_string().into_bytes();
            scene.parts.push(MountEntry::File { at: "/run/number".into(), content });
        }
        Ok(scene)
    }

    fn environment(&self, _: &ProcessRequest) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        Vec::new()
    }

    fn could_write(&self, path: &Path) -> bool {
        self.session
            .parts
            .iter()
            .any(|part| matches!(part, MountEntry::Bind { at, writable: true, .. } if path.starts_with(at)))
    }

    fn finished(&self, _: &ProcessRequest) -> Vec<ConfinementRefusal> {
        Vec::new()
    }

    fn is_incomplete(&self) -> bool {
        false
    }
}

/// Set to `bubblewrap`, this has the tests of the full sandbox run in one that bubblewrap makes.
pub const MAKER: &str = "HAFT_TEST_MAKER";

/// Who makes the namespaces in tests: whoever can, or whom [`MAKER`] names.
pub fn maker() -> UserNamespaceMaker {
    match std::env::var(MAKER) {
        Ok(name) if name == "bubblewrap" => UserNamespaceMaker::Bubblewrap,
        _ => UserNamespaceMaker::Either,
    }
}

/// A sandbox whose children all see this scene, or the other one if they are only to look.
///
/// # Errors
/// What the machine refuses.
pub fn sandbox(
    helper: impl Into<PathBuf>,
    stack: SandboxStack,
    session: TestScene,
    read_only: TestScene,
) -> Result<Sandbox, SandboxUnavailable> {
    let program = HelperProgram::At(helper.into());
    let helper = match stack {
        SandboxStack::Fallback => {
            let started =
                crate::confined::HelperHandle::start(&program, crate::init::IsolationLevel::Bare, &[]);
            started.map_err(|message| SandboxUnavailable { message })?
        }
        _ => sandbox::start_helper(&program, maker(), SandboxStack::Full, &[])?.helper,
    };
    let scenes =
        Arc::new(FixedPlans { session: session.0, read_only: read_only.0, number: AtomicU64::new(0) });
    Ok(Sandbox::with_helper(helper, scenes, std::env::vars_os()))
}

/// From now on nobody whom this thread starts can make a user namespace by `unshare`, as we do it. By
/// `clone`, as bubblewrap does it, they can.
///
/// # Panics
/// The kernel takes no filters.
pub fn without_own_namespaces() {
    sys::filter_this_thread(&seccomp::no_user_namespace()).expect("filters are taken");
}

/// From now on nobody whom this thread starts can make a process by `clone3`, nor a user namespace: so it is
/// in containers with the usual filter.
///
/// # Panics
/// The kernel takes no filters.
pub fn as_in_a_container() {
    sys::filter_this_thread(&seccomp::no_clone3()).expect("filters are taken");
    without_own_namespaces();
}
