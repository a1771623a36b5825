//! A walk by descriptors: what it opens, and what it does not whatever happens to the path.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::fs::{CWD, mkfifoat};

use super::super::scoped::ScopedFiles;
use super::super::{DirFiles, GrantedAccess, GrantedRoot};
use super::*;
use crate::future::block_on;

struct Place {
    _temp: tempfile::TempDir,
    base: PathBuf,
    root: PathBuf,
}

impl Place {
    /// `root/{a,d/f,link,dirlink,pipe}` and `outside/f`.
    fn new() -> Place {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let root = base.join("root");
        fs::create_dir_all(root.join("d")).unwrap();
        fs::create_dir(base.join("outside")).unwrap();
        fs::write(base.join("outside/f"), "outside").unwrap();
        fs::write(root.join("a"), "aaa").unwrap();
        fs::write(root.join("d/f"), "inside").unwrap();
        symlink("a", root.join("link")).unwrap();
        symlink("d", root.join("dirlink")).unwrap();
        mkfifoat(CWD, root.join("pipe"), Mode::from_raw_mode(0o600)).unwrap();
        Place { _temp: temp, base, root }
    }

    fn open(&self, access: &GrantedAccess, path: &str) -> Result<Box<dyn OpenDir>, FileErrorKind> {
        let files = DirFiles::new();
        block_on(ScopedFiles::new(&files, access, &self.root).open_dir(path)).map_err(|error| error.kind())
    }

    fn inside(&self) -> GrantedAccess {
        GrantedAccess { read: vec![GrantedRoot::subtree(&self.root)], ..GrantedAccess::default() }
    }
}

fn names(dir: &dyn OpenDir) -> Vec<(String, FileKind)> {
    let mut names = Vec::new();
    dir.each(&mut |name, kind| names.push((name.to_str().unwrap().to_owned(), kind))).unwrap();
    names.sort_by(|one, other| one.0.cmp(&other.0));
    names
}

fn text(dir: &dyn OpenDir, name: &str) -> Result<String, FileErrorKind> {
    let mut file = dir.open(OsStr::new(name)).map_err(|error| error.kind())?;
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    Ok(text)
}

#[test]
fn entries_are_seen_as_what_they_are_and_as_often_as_asked() {
    let place = Place::new();
    let dir = place.open(&place.inside(), ".").unwrap();
    let all = [
        ("a", FileKind::File),
        ("d", FileKind::Directory),
        ("dirlink", FileKind::Link),
        ("link", FileKind::Link),
        ("pipe", FileKind::Other),
    ];
    let all: Vec<(String, FileKind)> = all.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect();
    assert_eq!(names(&*dir), all);
    assert_eq!(names(&*dir), all, "a second time from the beginning");
    assert_eq!(dir.metadata(OsStr::new("link")).unwrap().kind, FileKind::Link);
    assert_eq!(dir.metadata(OsStr::new("a")).unwrap().len, 3);
}

#[test]
fn only_files_are_opened_and_no_link_is_followed() {
    let place = Place::new();
    let dir = place.open(&place.inside(), ".").unwrap();
    assert_eq!(text(&*dir, "a"), Ok("aaa".into()));
    assert_eq!(text(&*dir.open_dir(OsStr::new("d")).unwrap(), "f"), Ok("inside".into()));
    for (name, expected) in [
        ("link", FileErrorKind::NotAFile),
        ("pipe", FileErrorKind::NotAFile),
        ("d", FileErrorKind::IsDirectory),
        ("none", FileErrorKind::NotFound),
        ("..", FileErrorKind::NotGranted),
        ("d/f", FileErrorKind::NotGranted),
        ("", FileErrorKind::NotGranted),
    ] {
        assert_eq!(text(&*dir, name), Err(expected), "{name}");
    }
    for (name, expected) in [
        ("dirlink", FileErrorKind::NotAFile),
        ("a", FileErrorKind::NotADirectory),
        ("..", FileErrorKind::NotGranted),
        (".", FileErrorKind::NotGranted),
    ] {
        let refused = dir.open_dir(OsStr::new(name)).map(drop).map_err(|error| error.kind());
        assert_eq!(refused, Err(expected), "{name}");
    }
}

#[test]
fn a_walk_begins_inside_of_a_whole_subtree_only() {
    let place = Place::new();
    let access = place.inside();
    assert!(place.open(&access, "dirlink").is_ok(), "the path to it may lead through links that stay inside");
    assert_eq!(place.open(&access, "..").map(drop), Err(FileErrorKind::NotGranted));
    assert_eq!(place.open(&access, "../outside").map(drop), Err(FileErrorKind::NotGranted));
    assert_eq!(place.open(&access, "a").map(drop), Err(FileErrorKind::NotADirectory));
    symlink("../outside", place.root.join("out")).unwrap();
    assert_eq!(place.open(&access, "out").map(drop), Err(FileErrorKind::NotGranted));
    let one =
        GrantedAccess { read: vec![GrantedRoot::file(place.root.join("d"))], ..GrantedAccess::default() };
    assert_eq!(place.open(&one, "d").map(drop), Err(FileErrorKind::NotGranted));
}

#[test]
fn what_happens_to_the_path_does_not_lead_elsewhere() {
    let place = Place::new();
    let root = place.open(&place.inside(), ".").unwrap();
    let dir = root.open_dir(OsStr::new("d")).unwrap();
    fs::rename(place.root.join("d"), place.root.join("gone")).unwrap();
    symlink(place.base.join("outside"), place.root.join("d")).unwrap();
    assert_eq!(text(&*dir, "f"), Ok("inside".into()), "it is still the directory that it was");
    let again = root.open_dir(OsStr::new("d")).map(drop).map_err(|error| error.kind());
    assert_eq!(again, Err(FileErrorKind::NotAFile));
    assert_eq!(fs::read_to_string(place.root.join("d/f")).unwrap(), "outside", "the link does lead there");
}
