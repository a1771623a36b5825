//! What a sandbox costs: the start of `bash -c true` in the profile of a session with a home folder and
//! caches, as ratios to a plain child of the same run, from a small host and from one with 1 GiB in use.
//!
//! Rounds alternate, so that a busy machine slows all of them; the ratio is the median over the rounds.
//! Between calls there is a moment, as there is between the calls of a model: that is when a spare sandbox is
//! made. What a call was granted for itself is new to the spare that it finds.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haft::files::{GrantedAccess, GrantedRoot};
use haft::ports::{ConfinementLevel, ProcessExit, ProcessRequest, Processes};
use haft_sandbox::testing::{TestScene, sandbox};
use haft_sandbox::{LocalProcesses, ProfileConfig, Sandbox, SandboxConfig, SandboxStack};

const ROUNDS: usize = 101;
const PAUSE: Duration = Duration::from_millis(12);
const FILES: usize = 10_000;
const HELPER: &str = env!("CARGO_BIN_EXE_haft-sandbox-helper");

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::spawn(all()).await.unwrap() });
}

/// A user with tool chains, caches, settings, secrets, and a repository to work in.
fn user(root: &Path) -> ProfileConfig {
    for folder in [
        "home/.cargo/bin",
        "home/.cargo/git",
        "home/.cargo/registry",
        "home/.cache/pip",
        "home/.local/bin",
        "home/.npm/_cacache",
        "home/.nvm",
        "home/.rustup",
        "home/.ssh",
        "home/go/pkg",
        "other",
        "work/.git/hooks",
        "work/.git/objects",
        "work/.git/refs",
    ] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for (file, content) in [
        ("home/.gitconfig", "[user]\nname = Me\n"),
        ("home/.cargo/config.toml", "[net]\nretry = 2\n"),
        ("home/.cargo/credentials.toml", "[registry]\ntoken = \"x\"\n"),
        ("work/.git/HEAD", "ref: refs/heads/main\n"),
        ("work/.git/config", "[core]\nbare = false\n"),
    ] {
        fs::write(root.join(file), content).unwrap();
    }
    let mut config = ProfileConfig::new(
        root.join("work"),
        root.join("state/tmp"),
        root.join("state/caches"),
        haft::ports::SandboxRules::from_authorizer(&haft::PermissionRules::new()),
    );
    config.home = Some(root.join("home"));
    config.own.push(root.join("state"));
    config
}

struct Kind<'a> {
    name: &'static str,
    processes: &'a dyn Processes,
    confinement: ConfinementLevel,
    /// What each call is granted for itself.
    granted: Granted,
    to_reach: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Granted {
    Nothing,
    /// To read a file.
    Read,
    /// To write, replace or remove a file.
    Write,
}

async fn all() {
    // Not in `/tmp`, which is another one in a sandbox.
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = dir.path().canonicalize().unwrap();
    let profile = user(&root);
    let work = root.join("work");
    start_up(&profile);
    let local = LocalProcesses::new(std::env::vars_os());
    let mut config =
        SandboxConfig::new(profile).unwrap().with_helper(HELPER).with_variables(std::env::vars_os());
    config.full_only = true;
    let full = Sandbox::start(config).unwrap();
    let (session, read_only) = (scene(&work, true).session_network(), scene(&work, false));
    let fallback = sandbox(HELPER, SandboxStack::Fallback, session, read_only).unwrap();
    use ConfinementLevel::{Outside, ReadOnly, Session};
    let kind = |name, processes, confinement, granted, to_reach| Kind {
        name,
        processes,
        confinement,
        granted,
        to_reach,
    };
    let kinds = [
        kind("plain", &local as &dyn Processes, Outside, Granted::Nothing, ""),
        kind("in the full sandbox", &full, Session, Granted::Nothing, "≤ 1.8"),
        kind("read-only, as unasked calls are", &full, ReadOnly, Granted::Nothing, "≤ 1.4"),
        kind("in the full sandbox, a file to read granted", &full, Session, Granted::Read, "≤ 1.8"),
        kind("in the full sandbox, a file to write granted", &full, Session, Granted::Write, "≤ 1.8"),
        kind("read-only, a file to read granted", &full, ReadOnly, Granted::Read, "≤ 1.4"),
        kind("Landlock and filter", &fallback, Session, Granted::Nothing, ""),
        kind("Landlock and filter, read-only", &fallback, ReadOnly, Granted::Nothing, ""),
    ];
    println!("| `bash -c true` from a host with … in use | plain | measured | ratio | to reach |");
    println!("|---|---|---|---|---|");
    for ballast in [0, 1 << 30] {
        // Touched, so that it is there.
        let memory = black_box(vec![1u8; ballast]);
        let mut times = vec![Vec::new(); kinds.len()];
        for round in 0..ROUNDS {
            for (kind, times) in kinds.iter().zip(&mut times) {
                std::thread::sleep(PAUSE);
                let mut request =
                    ProcessRequest::new(["bash", "-c", "true"], &work).with_confinement(kind.confinement);
                if kind.granted != Granted::Nothing {
                    request = request.with_access(granted(&root, round, kind.granted), Vec::new());
                }
                let begun = Instant::now();
                let outcome = kind.processes.run(request).await.unwrap();
                times.push(begun.elapsed().as_secs_f64() * 1e6);
                assert_eq!(outcome.exit, ProcessExit::Code(0));
            }
        }
        let plain = median(times[0].iter().copied());
        for (kind, own) in kinds.iter().zip(&times).skip(1) {
            let ratio = median(own.iter().zip(&times[0]).map(|(time, plain)| time / plain));
            println!(
                "| {} MiB: {} | {plain:.0} µs | {:.0} µs | {ratio:.2} | {} |",
                memory.len() >> 20,
                kind.name,
                median(own.iter().copied()),
                kind.to_reach
            );
        }
    }
}

/// What the start of a session takes, in a small workspace and in a large one.
fn start_up(small: &ProfileConfig) {
    let large = small.workspace[0].with_file_name("large");
    for file in 0..FILES {
        let folder = large.join(format!("{}/{}", file % 50, file % 500));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file.to_string()), "").unwrap();
    }
    let start = |workspace: &Path| {
        let mut profile = small.clone();
        profile.workspace = vec![workspace.to_owned()];
        let config = SandboxConfig::new(profile).unwrap().with_helper(HELPER);
        let begun = Instant::now();
        let sandbox = Sandbox::start(config).unwrap();
        let took = begun.elapsed().as_secs_f64() * 1e3;
        drop(sandbox);
        took
    };
    println!("| start of a session in a workspace of | measured |");
    println!("|---|---|");
    for (name, workspace) in [("a few files", &small.workspace[0]), ("10,000 files", &large)] {
        println!("| {name} | {:.2} ms |", median((0..11).map(|_| start(workspace))));
    }
    println!();
    fs::remove_dir_all(large).unwrap();
}

/// A file that no call was granted before.
fn granted(root: &Path, round: usize, how: Granted) -> GrantedAccess {
    let file: PathBuf = root.join(format!("other/{round}"));
    fs::write(&file, "").unwrap();
    let mut access = GrantedAccess::default();
    let roots = if how == Granted::Write { &mut access.write } else { &mut access.read };
    roots.push(GrantedRoot::file(file));
    access
}

/// Parts without a profile, for the way without namespaces.
fn scene(work: &Path, writable: bool) -> TestScene {
    TestScene::system().bind(work, writable).mask("/etc/shadow").mask("/etc/sudoers")
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
