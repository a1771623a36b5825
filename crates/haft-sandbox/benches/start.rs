//! What a sandbox costs: the start of `bash -c true`, as ratios to a plain child of the same run, from a small host and
//! from one with 1 GiB in use.
//!
//! Rounds alternate, so that a busy machine slows all of them; the ratio is the median over the rounds. Between calls there
//! is a moment, as there is between the calls of a model: that is when a spare sandbox is made.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use haft::ports::{Confinement, Exit, ProcessRequest, Processes};
use haft_sandbox::testing::{EVER_NEW, TestScene, sandbox};
use haft_sandbox::{LocalProcesses, Stack};

const ROUNDS: usize = 101;
const PAUSE: Duration = Duration::from_millis(12);
const HELPER: &str = env!("CARGO_BIN_EXE_haft-sandbox-helper");

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::spawn(all()).await.unwrap() });
}

/// As many parts as an ordinary profile has.
fn scene(workspace: &std::path::Path, home: &std::path::Path, writable: bool) -> TestScene {
    let mut scene = TestScene::system().tmpfs("/var/tmp").tmpfs(home);
    for tools in [".cargo", ".rustup", ".local"] {
        scene = scene.bind(home.join(tools), false);
    }
    scene = scene.bind(workspace, writable);
    if writable {
        scene = scene.pin(workspace.join(".git")).protect(workspace.join(".git/config"));
        scene = scene.protect(workspace.join(".git/hooks"));
    }
    scene.mask("/etc/shadow").mask("/etc/sudoers").file("/etc/resolv.conf", "nameserver 127.0.0.1\n")
}

async fn all() {
    let dir = tempfile::tempdir().unwrap();
    let (workspace, home) = (dir.path().join("workspace"), dir.path().join("home"));
    std::fs::create_dir_all(workspace.join(".git/hooks")).unwrap();
    std::fs::write(workspace.join(".git/config"), "").unwrap();
    for tools in [".cargo", ".rustup", ".local"] {
        std::fs::create_dir_all(home.join(tools)).unwrap();
    }
    let session = scene(&workspace, &home, true).session_network();
    let read_only = scene(&workspace, &home, false);
    let local = LocalProcesses::new(std::env::vars_os());
    let full = sandbox(HELPER, Stack::Full, session.clone(), read_only.clone()).unwrap();
    let fallback = sandbox(HELPER, Stack::Fallback, session, read_only).unwrap();
    // The last says whether the scene is a new one each time, for which there is no spare.
    let kinds: [(&str, &dyn Processes, Confinement, bool); 7] = [
        ("plain", &local, Confinement::Outside, false),
        ("full sandbox", &full, Confinement::Session, false),
        ("full sandbox, read-only", &full, Confinement::ReadOnly, false),
        ("full sandbox, no spare", &full, Confinement::Session, true),
        ("full sandbox, read-only, no spare", &full, Confinement::ReadOnly, true),
        ("Landlock and filter", &fallback, Confinement::Session, false),
        ("Landlock and filter, read-only", &fallback, Confinement::ReadOnly, false),
    ];
    for ballast in [0, 1 << 30] {
        // Touched, so that it is there.
        let memory = black_box(vec![1u8; ballast]);
        let mut times = vec![Vec::new(); kinds.len()];
        for _ in 0..ROUNDS {
            for ((_, processes, confinement, new), times) in kinds.iter().zip(&mut times) {
                std::thread::sleep(PAUSE);
                let request =
                    ProcessRequest::new(["bash", "-c", "true"], &workspace).with_confinement(*confinement);
                let request = if *new { request.with_env(EVER_NEW, "") } else { request };
                let begun = Instant::now();
                let outcome = processes.run(request).await.unwrap();
                times.push(begun.elapsed().as_secs_f64() * 1e6);
                assert_eq!(outcome.exit, Exit::Code(0));
            }
        }
        println!("`bash -c true` from a host with {} MiB in use", memory.len() >> 20);
        for (index, (name, ..)) in kinds.iter().enumerate() {
            let mut ratios: Vec<f64> =
                times[index].iter().zip(&times[0]).map(|(time, plain)| time / plain).collect();
            ratios.sort_by(f64::total_cmp);
            let mut own = times[index].clone();
            own.sort_by(f64::total_cmp);
            println!("  {name:<34} {:>6.2} × plain {:>8.0} µs", ratios[ROUNDS / 2], own[ROUNDS / 2]);
        }
    }
}
