//! The opener of paths: whatever is asked for, in a folder full of links that somebody adds to, nothing
//! outside of what was granted is opened, listed, changed or made.
#![no_main]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use haft::files::{GrantedAccess, DirFiles, GrantedRoot, ScopedFiles, WriteMode};
use libfuzzer_sys::fuzz_target;

/// How many operations an input has at most.
const STEPS_MAX: usize = 12;

fuzz_target!(|bytes: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime without threads can be made");
    let world = World::new();
    for step in bytes.split(|byte| *byte == b'\n').take(STEPS_MAX) {
        let [what, path @ ..] = step else { continue };
        let path = OsStr::from_bytes(path);
        runtime.block_on(world.step(*what, Path::new(path)));
        world.outside_is_as_it_was();
    }
});

struct World {
    _folder: tempfile::TempDir,
    inside: PathBuf,
    outside: PathBuf,
    files: DirFiles,
    access: GrantedAccess,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().expect("the temporary folder can be written");
        let root = folder.path().canonicalize().expect("it is there");
        let (inside, outside) = (root.join("in"), root.join("out"));
        for dir in [inside.join("d/e"), inside.join("ro"), outside.join("d")] {
            fs::create_dir_all(dir).expect("the folder is ours");
        }
        for (file, text) in
            [("in/f", "inside"), ("in/d/f", "inside"), ("out/f", "OUTSIDE"), ("out/d/f", "OUTSIDE")]
        {
            fs::write(root.join(file), text).expect("the folder is ours");
        }
        for (to, link) in [
            ("../out", "in/l"),
            ("../out/f", "in/lf"),
            ("../out/new", "in/ln"),
            ("d", "in/ld"),
            ("../../out/d", "in/d/l"),
            ("loop", "in/loop"),
            ("..", "in/up"),
            ("/", "in/root"),
            ("../in/d", "out/in"),
        ] {
            symlink(to, root.join(link)).expect("the folder is ours");
        }
        let access = GrantedAccess { write: vec![GrantedRoot::subtree(&inside)], ..GrantedAccess::default() };
        World { _folder: folder, inside, outside, files: DirFiles::new(), access }
    }

    async fn step(&self, what: u8, path: &Path) {
        let files = ScopedFiles::new(&self.files, &self.access, &self.inside);
        let real = self.real(path);
        match what % 9 {
            0 => {
                if let Ok(bytes) = files.read(path).await {
                    assert!(bytes == b"inside" || bytes == b"written", "{path:?} gave {bytes:?}");
                    self.is_inside(&real, path);
                }
            }
            1 => {
                if files.metadata(path).await.is_ok() {
                    self.is_inside(&real, path);
                }
            }
            2 => {
                if files.list(path).await.is_ok() {
                    self.is_inside(&real, path);
                }
            }
            3 => {
                if files.write(path, b"written", WriteMode::Replace).await.is_ok() {
                    self.is_inside(&self.real(path), path);
                }
            }
            4 => drop(files.remove(path).await),
            5 => drop(files.rename(Path::new("d"), path).await),
            6 => drop(files.rename(path, Path::new("moved")).await),
            7 => drop(files.create_dir(path).await),
            // Somebody else puts a link into the folder.
            _ => drop(symlink(path, self.inside.join(format!("s{}", path.as_os_str().len() % 4)))),
        }
    }

    /// Where a path leads, one name after the other. `..` behind what isn't there takes that away again.
    fn real(&self, path: &Path) -> PathBuf {
        let mut at = self.inside.clone();
        for part in path.components() {
            match part {
                Component::ParentDir => drop(at.pop()),
                Component::CurDir => {}
                part => at.push(part),
            }
            at = at.canonicalize().unwrap_or(at);
        }
        at
    }

    fn is_inside(&self, real: &Path, path: &Path) {
        assert!(real.starts_with(&self.inside), "{path:?} is {real:?}");
    }

    fn outside_is_as_it_was(&self) {
        let names = |dir: &Path| {
            let mut names: Vec<String> = fs::read_dir(dir)
                .expect("it is there")
                .map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(&self.outside), ["d", "f", "in"]);
        assert_eq!(names(&self.outside.join("d")), ["f"]);
        for file in ["f", "d/f"] {
            assert_eq!(fs::read(self.outside.join(file)).expect("it is there"), b"OUTSIDE");
        }
        let around = self.outside.parent().expect("it has one");
        assert_eq!(names(around), ["in", "out"]);
    }
}
