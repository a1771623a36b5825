//! The walk by itself, over files in memory and on disk.

use std::sync::atomic::AtomicUsize;

use haft::files::{DirFiles, GrantedAccess, GrantedRoot, ScopedFiles};
use haft::testing::MemoryFiles;

use super::*;

/// Collects the paths of files whose name isn't `skip`.
struct PathCollector<'a> {
    seen: &'a AtomicUsize,
    panics_at: usize,
    stop: &'a AtomicBool,
    stops_at: usize,
}

impl WalkVisitor for PathCollector<'_> {
    type Local = Vec<String>;
    type Rules = usize;

    fn local(&self) -> Vec<String> {
        Vec::new()
    }

    fn enter(&self, _: &DirectoryListing<'_>, rules: &usize) -> usize {
        rules + 1
    }

    fn wants(&self, rules: &usize, entry: &WalkEntry<'_>) -> bool {
        assert_eq!(*rules, entry.depth + 1, "rules come from the directory above");
        entry.name != "skip"
    }

    fn file(
        &self,
        local: &mut Vec<String>,
        dir: &dyn OpenDir,
        entry: &WalkEntry<'_>,
    ) -> Result<(), FileError> {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(seen != self.panics_at, "told to");
        if seen == self.stops_at {
            self.stop.store(true, Ordering::Relaxed);
        }
        dir.open(entry.name)?;
        local.push(entry.path.display().to_string());
        Ok(())
    }
}

fn walked(files: &dyn haft::files::Files, root: &Path, panics_at: usize, stops_at: usize) -> Vec<String> {
    let access = GrantedAccess { read: vec![GrantedRoot::subtree(root)], ..GrantedAccess::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let dir = runtime.block_on(ScopedFiles::new(files, &access, root).open_dir(root)).unwrap();
    let (seen, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let visit = PathCollector { seen: &seen, panics_at, stop: &stop, stops_at };
    let (found, problems) = walk_tree(dir, root, 0, &visit, &stop);
    assert_eq!(problems.count, 0);
    let mut found: Vec<String> = found.into_iter().flatten().collect();
    found.sort();
    found
}

fn forest() -> (MemoryFiles, Vec<String>) {
    let mut files = MemoryFiles::new();
    let mut paths = Vec::new();
    for n in 0..1_500 {
        // One directory with very many files, and many with few.
        let path = if n < 700 { format!("/w/flat/{n}") } else { format!("/w/d{}/e{}/{n}", n % 7, n % 11) };
        files = files.with(&path, "x");
        paths.push(path);
    }
    paths.sort();
    (files.with("/w/skip/x", "x").with("/w/d0/skip", "x").with("/other", "x"), paths)
}

#[test]
fn every_file_is_seen_once() {
    let (files, paths) = forest();
    assert_eq!(walked(&files, Path::new("/w"), 0, 0), paths);
}

#[test]
fn the_end_comes_soon_after_it_was_asked_for() {
    let (files, paths) = forest();
    let found = walked(&files, Path::new("/w"), 0, 10);
    assert!(found.len() < 10 + THREADS_MAX && found.len() < paths.len(), "{}", found.len());
}

#[test]
fn a_panic_of_one_thread_is_a_panic_of_the_walk() {
    let (files, _) = forest();
    let caught = std::panic::catch_unwind(|| walked(&files, Path::new("/w"), 900, 0));
    assert!(caught.is_err(), "and nobody waits for ever");
}

#[test]
fn a_very_deep_tree_is_walked_as_far_as_said_with_few_files_open() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    let mut dir = root.clone();
    for _ in 0..DEPTH_MAX + 5 {
        dir.push("d");
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("f"), "x").unwrap();
    }
    let access = GrantedAccess { read: vec![GrantedRoot::subtree(&root)], ..GrantedAccess::default() };
    let files = DirFiles::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let open = runtime.block_on(ScopedFiles::new(&files, &access, &root).open_dir(&root)).unwrap();
    let (seen, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let visit = PathCollector { seen: &seen, panics_at: 0, stop: &stop, stops_at: 0 };
    let (found, problems) = walk_tree(open, &root, 0, &visit, &stop);
    assert_eq!(found.iter().map(Vec::len).sum::<usize>(), DEPTH_MAX - 1);
    assert_eq!(problems.count, 1);
    assert!(problems.words().unwrap().contains("more than 256 directories deep"));
}
