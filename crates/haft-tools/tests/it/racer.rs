//! Somebody swaps directories, parents and files for links to the outside while the tools work.
//!
//! A round is one call through an engine while the racer runs. The control does what is often done instead:
//! resolve the path, compare it with the root, then open it. It leaks, so the race is one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use haft::{Engine, PermissionRules, Registry, ToolCall, Workspace};
use rustix::fs::{CWD, RenameFlags};
use serde_json::{Value, json};

const SECRET: &str = "SECRET";
/// How often the control is tried before it counts as safe, which it is not.
const CONTROL_TRIES_MAX: usize = 5_000_000;

/// `work` with `d/f`, `up/d/f` and `file`; `outside` with the same, but secret.
struct Arena {
    _temp: tempfile::TempDir,
    work: PathBuf,
    outside: PathBuf,
}

impl Arena {
    fn new() -> Arena {
        // In memory where there is a place for that: waiting for a disk would slow both sides down.
        let temp = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let base = temp.path().canonicalize().unwrap();
        let (work, outside) = (base.join("work"), base.join("outside"));
        for (root, text) in [(&work, "needle inside"), (&outside, SECRET)] {
            for dir in ["d", "up/d"] {
                fs::create_dir_all(root.join(dir)).unwrap();
            }
            for file in ["d/f", "up/d/f", "file"] {
                fs::write(root.join(file), format!("{text}\nneedle\n")).unwrap();
            }
        }
        fs::write(outside.join("d/ONLY_OUTSIDE"), SECRET).unwrap();
        fs::write(outside.join("up/d/ONLY_OUTSIDE"), SECRET).unwrap();
        // The links lie ready beside the places that they take.
        for name in ["d", "up", "file"] {
            symlink(outside.join(name), base.join(format!("{name}.link"))).unwrap();
        }
        Arena { _temp: temp, work, outside }
    }

    /// Swaps everything, there and back, until told to stop: in one step (RENAME_EXCHANGE), so that the name
    /// always leads somewhere, and in two, so that at times it doesn't. Counts.
    fn race(&self, stop: &AtomicBool, swaps: &AtomicU64) {
        let base = self.work.parent().unwrap();
        let exchange = |a: &Path, b: &Path| rustix::fs::renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE);
        while !stop.load(Ordering::Relaxed) {
            for name in ["d", "up", "file"] {
                let (place, link) = (self.work.join(name), base.join(format!("{name}.link")));
                let away = self.work.join(format!(".{name}.away"));
                if exchange(&place, &link).is_ok() {
                    std::hint::spin_loop();
                    exchange(&place, &link).unwrap();
                    self.mend(name, &link);
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
                // Whoever writes may have put something there meanwhile; then it is moved away as well.
                let _ = fs::rename(&place, &away);
                let _ = fs::rename(&link, &place);
                std::hint::spin_loop();
                let _ = fs::rename(&place, &link);
                self.mend(name, &link);
                if fs::symlink_metadata(&place).is_ok_and(|found| found.is_dir()) {
                    let _ = fs::remove_dir_all(&place);
                }
                let _ = fs::rename(&away, &place);
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// A write may have replaced the link by a file: then there is a new one.
    fn mend(&self, name: &str, link: &Path) {
        if !fs::symlink_metadata(link).is_ok_and(|found| found.is_symlink()) {
            let _ = fs::remove_file(link);
            let _ = fs::remove_dir_all(link);
            symlink(self.outside.join(name), link).unwrap();
        }
    }

    /// Everything outside, with its content.
    fn secrets(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn add(dir: &Path, all: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    add(&path, all);
                } else {
                    all.push((path.clone(), fs::read(&path).unwrap()));
                }
            }
        }
        let mut all = Vec::new();
        add(&self.outside, &mut all);
        all.sort();
        all
    }

    fn engine(&self) -> Engine {
        let permissions = PermissionRules::new().allow("Write").unwrap().allow("Edit").unwrap();
        Engine::builder(Registry::new().with(haft_tools::core()).unwrap())
            .workspace(Workspace::new(&self.work).unwrap())
            .permissions(permissions)
            .build()
    }
}

/// The call of a round. Most of them read: a write waits for the disk.
fn call(round: usize) -> (&'static str, Value) {
    let path = ["d/f", "up/d/f", "file"][round / 16 % 3];
    let dir = [".", "d", "up", "up/d"][round / 16 % 4];
    match round % 16 {
        0 => ("Write", json!({"file_path": path, "content": format!("needle\nwritten {round}\n")})),
        8 => ("Write", json!({"file_path": format!("{dir}/new_{}", round % 5), "content": "needle\n"})),
        4 => {
            let input = json!({"file_path": path, "old_string": "needle", "new_string": "needle ", "replace_all": true});
            ("Edit", input)
        }
        1 | 5 | 9 | 13 => {
            ("Grep", json!({"pattern": "SECRET|needle", "output_mode": "content", "path": dir}))
        }
        2 | 6 | 10 | 14 => ("Glob", json!({"pattern": "**/*", "path": dir})),
        12 => ("Grep", json!({"pattern": "SECRET|needle", "output_mode": "content", "path": path})),
        _ => ("Read", json!({"file_path": path})),
    }
}

/// Runs so many rounds, and more until enough calls have succeeded and enough was swapped: on a busy machine
/// either side may have to wait. Returns how many calls succeeded.
fn rounds(arena: &Arena, rounds: usize, swaps: &AtomicU64) -> usize {
    let is_enough =
        |succeeded: usize| succeeded > rounds / 10 && swaps.load(Ordering::Relaxed) > rounds as u64;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let engine = arena.engine();
    let before = arena.secrets();
    let mut succeeded = 0;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| arena.race(&stop, swaps));
        for round in 0..50 * rounds {
            if round >= rounds && is_enough(succeeded) {
                break;
            }
            let (tool, input) = call(round);
            let shown = format!("{tool} {input}");
            let results = runtime.block_on(engine.turn().run([ToolCall::new("1", tool, input)]));
            let result = &results[0];
            let text = match result.outcome() {
                Ok(output) => {
                    succeeded += 1;
                    output.to_text()
                }
                Err(error) => error.message().to_owned(),
            };
            // The pattern of a search that found nothing is said again; what was found says more.
            let text = text.replace("SECRET|needle", "");
            let leaks = text.contains(SECRET) || text.contains("ONLY_OUTSIDE");
            if leaks {
                stop.store(true, Ordering::Relaxed);
            }
            assert!(!leaks, "round {round}: {shown} got {text}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(arena.secrets(), before, "nothing outside was written");
    succeeded
}

/// What is often done instead: resolve, compare, open.
fn resolve_compare_open(root: &Path, path: &Path) -> Option<String> {
    let real = path.canonicalize().ok()?;
    if !real.starts_with(root) {
        return None;
    }
    fs::read_to_string(path).ok()
}

/// How often the control leaks in so many tries; at least once, however many it takes.
fn control(arena: &Arena, tries: usize) -> usize {
    let stop = AtomicBool::new(false);
    let swaps = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| arena.race(&stop, &swaps));
        let mut leaks = 0;
        for round in 0..CONTROL_TRIES_MAX {
            let path = arena.work.join(["d/f", "up/d/f", "file"][round % 3]);
            leaks += usize::from(
                resolve_compare_open(&arena.work, &path).is_some_and(|text| text.contains(SECRET)),
            );
            if leaks > 0 && round + 1 >= tries {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(leaks > 0, "comparing paths leaks, or the race is none");
        leaks
    })
}

#[test]
fn nothing_gets_out_while_directories_are_swapped() {
    let arena = Arena::new();
    control(&arena, 1);
    let swaps = AtomicU64::new(0);
    let succeeded = rounds(&arena, 800, &swaps);
    assert!(succeeded > 80, "the tools do work meanwhile: {succeeded}");
    assert!(swaps.load(Ordering::Relaxed) > 800, "the racer races");
}

#[test]
#[ignore = "prove"]
fn prove_nothing_gets_out_in_100_000_rounds() {
    let arena = Arena::new();
    const ROUNDS: usize = 100_000;
    let leaks = control(&arena, ROUNDS);
    let swaps = AtomicU64::new(0);
    let succeeded = rounds(&arena, ROUNDS, &swaps);
    assert!(succeeded > ROUNDS / 10, "{succeeded}");
    assert!(swaps.load(Ordering::Relaxed) > ROUNDS as u64, "the racer races");
    println!(
        "proof: {ROUNDS} calls of Read, Write, Edit, Grep and Glob while directories, parents and files are swapped for \
         links to the outside (RENAME_EXCHANGE, and renaming twice), {} swaps: escapes: 0 (control: code that resolves, \
         compares and opens leaked {leaks} times in as many tries)",
        swaps.load(Ordering::Relaxed)
    );
}
