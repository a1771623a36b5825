//! The kernel runs out of memory, for real, in a group of processes that may have little: it takes the
//! command and nobody else, and the result says so.
//!
//! Only root can make such a group. Others have the bound on address space (`faults`, `isolated`), and what
//! the kernel does then is the same signal to the same process.

use std::fs;
use std::path::{Path, PathBuf};

use haft::ports::{ProcessExit, Processes as _};
use haft_sandbox::SandboxStack;
use haft_sandbox::testing::{EVER_NEW, TestScene, sandbox};

use crate::confined::{Ground, is_root, said};
use crate::lives::first_of_its_kind;

const BYTES_MAX: u64 = 96 << 20;

/// A group of processes with little memory; it goes when nobody is in it any more.
struct Group(PathBuf);

impl Group {
    /// None where there can't be one.
    fn new() -> Option<Group> {
        let name = format!("haft-test-{}-{:?}", std::process::id(), std::thread::current().id());
        let name: String = name.chars().filter(|one| one.is_alphanumeric() || *one == '-').collect();
        for (root, bound) in
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
        {
            let group = Path::new(root).join(&name);
            if is_root() && fs::create_dir(&group).is_ok() {
                if fs::write(group.join(bound), BYTES_MAX.to_string()).is_ok() {
                    // Where there is swap, none of it.
                    let _ = fs::write(group.join("memory.swap.max"), "0");
                    let _ = fs::write(group.join("memory.memsw.limit_in_bytes"), BYTES_MAX.to_string());
                    return Some(Group(group));
                }
                let _ = fs::remove_dir(&group);
            }
        }
        None
    }

    /// The helper of this name enters, and with it whatever it starts.
    fn take(&self, helper: &Path) {
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let runs = fs::read_link(entry.path().join("exe")).ok();
            if runs.as_deref() == Some(helper) && first_of_its_kind(&entry.path()) {
                let pid = entry.file_name().into_string().unwrap();
                fs::write(self.0.join("cgroup.procs"), pid).unwrap();
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[tokio::test]
async fn the_kernel_takes_the_command_and_nobody_else() {
    let Some(group) = Group::new() else {
        eprintln!("skipped: no group with little memory can be made");
        return;
    };
    let ground = Ground::new();
    let helper = ground.own_helper();
    let looking = TestScene::system().bind(ground.workspace(), false);
    let hog = "x = []\nwhile len(x) < 300: x.append(bytearray(b'x' * (1 << 20)))\nprint('DONE')";
    {
        let sandbox = sandbox(&helper, SandboxStack::Full, ground.scene(), looking).unwrap();
        // The control: with all the memory of the machine it ends well.
        let outcome = sandbox.run(ground.python(hog)).await.unwrap();
        assert_eq!(said(&outcome), "Code(0) DONE\n");
        group.take(&helper);
        for _ in 0..3 {
            // In one that wasn't made before.
            let outcome = sandbox.run(ground.python(hog).with_env(EVER_NEW, "")).await.unwrap();
            assert_eq!((outcome.exit, said(&outcome).contains("DONE")), (ProcessExit::Signal(9), false));
            // The helper is still there, and what needs little runs.
            assert_eq!(said(&sandbox.run(ground.bash("echo on")).await.unwrap()), "Code(0) on\n");
        }
    }
    crate::until("the helper is gone", || {
        fs::read_to_string(group.0.join("cgroup.procs")).is_ok_and(|left| left.trim().is_empty())
    });
}
