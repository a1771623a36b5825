//! Each refusal stands beside something of the same shape that is allowed.

use std::fs;
use std::future::{Future, poll_fn};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use rustix::fs::{CWD, RenameFlags, mkfifoat, renameat_with};

use super::super::GrantedRoot;
use super::super::scoped::ScopedFiles;
use super::FileErrorKind::*;
use super::*;

/// How often the racer reads; every so many rounds it also writes, which waits for the disk.
const RACE_ROUNDS: u64 = 6_000;
const RACE_WRITE_EVERY: u64 = 40;

/// `root/` (granted) and `outside/`, side by side.
struct Place {
    _temp: tempfile::TempDir,
    root: PathBuf,
    outside: PathBuf,
    access: GrantedAccess,
}

impl Place {
    fn new() -> Place {
        Place::at(tempfile::tempdir().unwrap())
    }

    /// Where no write waits for the disk, if that is possible.
    fn in_memory() -> Place {
        Place::at(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    fn at(temp: tempfile::TempDir) -> Place {
        let base = temp.path().canonicalize().unwrap();
        let (root, outside) = (base.join("root"), base.join("outside"));
        for dir in [root.join("d/e"), outside.join("deep"), base.join("root_evil")] {
            fs::create_dir_all(dir).unwrap();
        }
        fs::write(root.join("d/f"), "inside").unwrap();
        fs::write(outside.join("f"), "outside").unwrap();
        fs::write(base.join("root_evil/f"), "outside").unwrap();
        let access = GrantedAccess { write: vec![GrantedRoot::subtree(&root)], ..GrantedAccess::default() };
        Place { _temp: temp, root, outside, access }
    }

    fn read_only(mut self) -> Place {
        self.access.read.append(&mut self.access.write);
        self
    }

    /// Runs a check with both ways of walking.
    fn both(&self, check: impl Fn(ScopedFiles<'_>)) {
        for files in [DirFiles::new(), DirFiles::walking()] {
            check(ScopedFiles::new(&files, &self.access, &self.root));
        }
    }

    fn links(&self) {
        symlink("d/f", self.root.join("in_rel")).unwrap();
        symlink(self.root.join("d/f"), self.root.join("in_abs")).unwrap();
        symlink(self.root.join("d"), self.root.join("in_dir")).unwrap();
        symlink("../root/d/f", self.root.join("in_round")).unwrap();
        symlink("../outside/f", self.root.join("out_rel")).unwrap();
        symlink(self.outside.join("f"), self.root.join("out_abs")).unwrap();
        symlink(&self.outside, self.root.join("out_dir")).unwrap();
        symlink("../outside/new", self.root.join("out_dangling")).unwrap();
        symlink("d/new", self.root.join("in_dangling")).unwrap();
        symlink("turn", self.root.join("turn")).unwrap();
        symlink(self.root.join("d"), self.outside.join("back")).unwrap();
    }
}

/// Runs a future that never really waits: without a runtime everything happens in the first poll.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("waited without a runtime"),
    }
}

fn kind<T>(answer: Result<T, FileError>) -> Result<T, FileErrorKind> {
    answer.map_err(|error| error.kind())
}

#[test]
fn reads_stay_inside() {
    let place = Place::new().read_only();
    place.links();
    let outside = place.outside.clone();
    let table = [
        ("d/f".into(), Ok("inside")),
        (place.root.join("d/f"), Ok("inside")),
        ("d/e/../f".into(), Ok("inside")),
        ("./d//f".into(), Ok("inside")),
        ("../root/d/f".into(), Ok("inside")),
        ("in_rel".into(), Ok("inside")),
        ("in_abs".into(), Ok("inside")),
        ("in_dir/f".into(), Ok("inside")),
        ("in_round".into(), Ok("inside")),
        // A way around outside that comes back: what counts is the real path.
        (outside.join("back/f"), Ok("inside")),
        ("../outside/f".into(), Err(NotGranted)),
        ("d/../../outside/f".into(), Err(NotGranted)),
        (outside.join("f"), Err(NotGranted)),
        (outside.join("none"), Err(NotGranted)),
        ("../root_evil/f".into(), Err(NotGranted)),
        (place.root.with_file_name("root_evil").join("f"), Err(NotGranted)),
        ("out_rel".into(), Err(NotGranted)),
        ("out_abs".into(), Err(NotGranted)),
        ("out_dir/f".into(), Err(NotGranted)),
        ("out_dir/none".into(), Err(NotGranted)),
        ("out_dir/f/none".into(), Err(NotGranted)),
        ("out_dangling".into(), Err(NotGranted)),
        ("in_dangling".into(), Err(NotFound)),
        ("d/none".into(), Err(NotFound)),
        ("".into(), Err(NotFound)),
        ("d/\0".into(), Err(NotFound)),
        ("d/f/x".into(), Err(NotADirectory)),
        ("d/f/".into(), Err(NotADirectory)),
        ("d".into(), Err(IsDirectory)),
        (".".into(), Err(IsDirectory)),
        ("turn".into(), Err(Io)),
    ];
    place.both(|files| {
        for (path, expected) in &table {
            let got = kind(now(files.read_to_string(path)));
            assert_eq!(got.as_deref().map_err(|kind| *kind), *expected, "{}", path.display());
        }
    });
}

#[test]
fn writes_stay_inside() {
    let table: [(&str, Result<&str, FileErrorKind>); 13] = [
        ("d/f", Ok("d/f")),
        ("new", Ok("new")),
        ("a/b/new", Ok("a/b/new")),
        ("in_rel", Ok("d/f")),
        ("in_abs", Ok("d/f")),
        ("in_dir/new", Ok("d/new")),
        ("in_dangling", Ok("d/new")),
        ("out_rel", Err(NotGranted)),
        ("out_dir/new", Err(NotGranted)),
        ("out_dangling", Err(NotGranted)),
        ("../root_evil/new", Err(NotGranted)),
        ("../root/../outside/new/deep/f", Err(NotGranted)),
        ("d", Err(IsDirectory)),
    ];
    for (path, expected) in table {
        for local in [DirFiles::new(), DirFiles::walking()] {
            let place = Place::new();
            place.links();
            let files = ScopedFiles::new(&local, &place.access, &place.root);
            let before = snapshot(&place.outside);
            let got = kind(now(files.write(Path::new(path), b"text", WriteMode::Replace)));
            assert_eq!(got.map(drop), expected.map(drop), "{path}");
            if let Ok(landed) = expected {
                assert_eq!(fs::read(place.root.join(landed)).unwrap(), b"text", "{path}");
                assert!(!place.root.join(landed).is_symlink());
            }
            assert_eq!(snapshot(&place.outside), before, "{path}");
            assert_eq!(temps(&place.root), 0, "{path}");
        }
    }
}

fn snapshot(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() && !entry.is_symlink() {
            all.extend(snapshot(&entry));
        }
        all.push((entry.clone(), fs::read(&entry).unwrap_or_default()));
    }
    all.sort();
    all
}

fn temps(dir: &Path) -> usize {
    snapshot(dir).iter().filter(|(path, _)| path.to_string_lossy().contains(".haft-")).count()
}

#[test]
fn a_read_grant_is_no_write_grant() {
    let place = Place::new().read_only();
    place.both(|files| {
        let path = Path::new("d/f");
        assert_eq!(kind(now(files.read_to_string(path))), Ok("inside".to_owned()));
        assert_eq!(kind(now(files.write(path, b"x", WriteMode::Replace))), Err(NotGranted));
        assert_eq!(kind(now(files.remove(path))), Err(NotGranted));
        assert_eq!(kind(now(files.rename(path, Path::new("d/g")))), Err(NotGranted));
        assert_eq!(kind(now(files.create_dir(Path::new("d/g")))), Err(NotGranted));
        assert_eq!(fs::read_dir(place.root.join("d")).unwrap().count(), 2);
    });
}

#[test]
fn one_file_is_exactly_one_file() {
    let mut place = Place::new();
    place.links();
    fs::write(place.root.join("d/g"), "other").unwrap();
    let new = place.root.join("made/on/the/way");
    place.access = GrantedAccess {
        read: vec![GrantedRoot::file(place.root.join("d/f")), GrantedRoot::file(place.root.join("out_rel"))],
        write: vec![GrantedRoot::file(&new)],
        ..GrantedAccess::default()
    };
    place.both(|files| {
        assert_eq!(kind(now(files.read_to_string(Path::new("d/f")))), Ok("inside".to_owned()));
        assert_eq!(kind(now(files.read_to_string(Path::new("in_rel")))), Ok("inside".to_owned()));
        assert_eq!(kind(now(files.read_to_string(Path::new("d/g")))), Err(NotGranted));
        assert_eq!(kind(now(files.list(Path::new("d")))), Err(NotGranted));
        // A grant whose name is a link grants nothing.
        assert_eq!(kind(now(files.read_to_string(Path::new("out_rel")))), Err(NotGranted));
        assert_eq!(kind(now(files.write(&new, b"x", WriteMode::Replace))).map(drop), Ok(()));
        assert_eq!(
            kind(now(files.write(&new.with_file_name("x"), b"x", WriteMode::Replace))),
            Err(NotGranted)
        );
    });
    // The grant of a name does not move a tree that took the name.
    fs::remove_file(&new).unwrap();
    fs::create_dir(&new).unwrap();
    place.access.write.push(GrantedRoot::file(place.root.join("moved")));
    place.both(|files| {
        assert_eq!(kind(now(files.rename(&new, Path::new("moved")))), Err(NotGranted));
    });
}

#[test]
fn a_refusal_says_what_is_allowed() {
    let place = Place::new().read_only();
    place.links();
    let root = place.root.display();
    place.both(|files| {
        let said = |path: &str| now(files.read(Path::new(path))).unwrap_err().to_string();
        assert_eq!(
            said("/etc/passwd"),
            format!("`/etc/passwd` is outside of what this call may read; it may read: {root}")
        );
        assert_eq!(
            said("out_rel"),
            format!(
                "`{root}/out_rel` leads by a link outside of what this call may read; it may read: {root}"
            )
        );
    });
}

#[test]
fn what_is_not_a_file_is_refused_at_once() {
    let mut place = Place::new();
    place.access.read.extend(["/dev", "/proc"].map(GrantedRoot::subtree));
    mkfifoat(CWD, place.root.join("pipe"), Mode::from_raw_mode(0o600)).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(place.root.join("socket")).unwrap();
    fs::write(place.root.join("empty"), "").unwrap();
    let mem = format!("/proc/{}/mem", std::process::id());
    place.both(|files| {
        let names =
            ["pipe", "socket", "/dev/zero", "/dev/null", "/proc/self/mem", "/proc/self/environ", &mem];
        for path in names {
            assert_eq!(kind(now(files.read(Path::new(path)))), Err(NotAFile), "{path}");
            assert!(now(files.exists(Path::new(path))).unwrap(), "{path}");
        }
        assert_eq!(kind(now(files.read(Path::new("empty")))), Ok(Vec::new()));
        let written = now(files.write(Path::new("pipe"), b"x", WriteMode::Replace));
        assert_eq!(kind(written), Err(NotAFile));
        assert_eq!(kind(now(files.metadata(Path::new("pipe")))).map(|m| m.kind), Ok(FileKind::Other));
    });
    // Magic links lead nowhere, even where everything may be read.
    place.access.read.push(GrantedRoot::subtree("/"));
    let cwd = format!("/proc/self/root{}", place.root.join("empty").display());
    place.both(|files| {
        assert_eq!(kind(now(files.read(&place.root.join("empty")))), Ok(Vec::new()));
        assert_eq!(kind(now(files.read(Path::new(&cwd)))), Err(NotGranted));
    });
}

#[test]
fn a_huge_file_is_refused_unread() {
    let place = Place::new();
    let huge = fs::File::create(place.root.join("huge")).unwrap();
    huge.set_len(100 << 30).unwrap();
    let edge = fs::File::create(place.root.join("edge")).unwrap();
    edge.set_len(limits::FILE_BYTES_MAX).unwrap();
    let local = DirFiles::new();
    let files = ScopedFiles::new(&local, &place.access, &place.root);
    let error = now(files.read_to_string(Path::new("huge"))).unwrap_err();
    assert_eq!(error.kind(), TooLarge);
    assert!(error.to_string().contains("107374182400 bytes"), "{error}");
    assert_eq!(now(files.read(Path::new("edge"))).unwrap().len() as u64, limits::FILE_BYTES_MAX);

    // It can still be read in parts.
    let mut open = now(files.open(Path::new("huge"))).unwrap();
    assert_eq!(open.metadata().len, 100 << 30);
    open.seek(99 << 30);
    assert_eq!(now(open.read(10)).unwrap(), [0; 10]);
    open.seek(u64::MAX);
    assert_eq!(now(open.read(10)).unwrap(), Vec::<u8>::new());
}

#[test]
fn parts_follow_each_other_on_and_off_the_runtime() {
    let place = Place::new();
    let all: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
    let local = DirFiles::new();
    let files = ScopedFiles::new(&local, &place.access, &place.root);
    let work = async || {
        let path = Path::new("large");
        files.write(path, &all, WriteMode::Replace).await.unwrap();
        assert_eq!(files.read(path).await.unwrap(), all);
        for size in [1000, limits::INLINE_IO_BYTES, limits::INLINE_IO_BYTES + 1] {
            let mut open = files.open(path).await.unwrap();
            let mut got = Vec::new();
            loop {
                let part = open.read(size).await.unwrap();
                if part.is_empty() {
                    break;
                }
                assert!(part.len() <= size);
                got.extend(part);
            }
            assert_eq!(got, all, "{size}");
        }
    };
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work());
    now(work());
}

/// A change that is given up was made when its future is gone, or is never made.
#[test]
fn nothing_changes_after_a_change_was_given_up() {
    let place = Place::in_memory();
    let local = DirFiles::new();
    let files = ScopedFiles::new(&local, &place.access, &place.root);
    for round in 0..60 {
        let name = format!("new-{round}");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut write = Box::pin(files.write(&name, b"x", WriteMode::Create));
            // A fast thread may have made the change already.
            let _ = poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx).is_ready())).await;
            // In other rounds the thread has begun by then.
            (0..round).for_each(|_| std::thread::yield_now());
        });
        let made = place.root.join(&name).exists();
        // Waits for the threads of the runtime.
        drop(runtime);
        assert_eq!(place.root.join(&name).exists(), made, "round {round}");
    }
}

#[test]
fn text_is_utf8_or_says_where_not() {
    let place = Place::new();
    fs::write(place.root.join("bad"), b"good\xff").unwrap();
    fs::write(place.root.join("good"), "gööd").unwrap();
    place.both(|files| {
        assert_eq!(now(files.read_to_string(Path::new("good"))).unwrap(), "gööd");
        let error = now(files.read_to_string(Path::new("bad"))).unwrap_err();
        assert_eq!(error.kind(), NotText);
        assert!(error.to_string().contains("offset 4"), "{error}");
    });
}

#[test]
fn a_replaced_file_keeps_its_mode_and_leaves_its_other_names() {
    let place = Place::new();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    fs::write(place.root.join("plain"), "").unwrap();
    let usual = mode(&place.root.join("plain"));
    place.both(|files| {
        let _ = fs::remove_file(place.root.join("linked"));
        fs::hard_link(place.outside.join("f"), place.root.join("linked")).unwrap();
        for wanted in [0o755, 0o600, 0o664] {
            set_mode(&place.root.join("d/f"), wanted);
            let written = now(files.write(Path::new("d/f"), b"new", WriteMode::Replace)).unwrap();
            assert_eq!((written.existed, mode(&place.root.join("d/f"))), (true, wanted));
        }
        let fresh = Path::new("fresh");
        let written = now(files.write(fresh, b"new", WriteMode::Create)).unwrap();
        assert_eq!((written.existed, mode(&place.root.join(fresh))), (false, usual));
        assert_eq!(kind(now(files.write(fresh, b"newer", WriteMode::Create))), Err(AlreadyExists));
        assert_eq!(fs::read(place.root.join(fresh)).unwrap(), b"new");
        fs::remove_file(place.root.join(fresh)).unwrap();

        now(files.write(Path::new("linked"), b"new", WriteMode::Replace)).unwrap();
        assert_eq!(fs::read(place.root.join("linked")).unwrap(), b"new");
        assert_eq!(fs::read(place.outside.join("f")).unwrap(), b"outside");
        assert_eq!(fs::metadata(place.outside.join("f")).unwrap().nlink(), 1);
        assert_eq!(temps(&place.root), 0);
    });
}

#[test]
fn a_failed_write_leaves_the_old_file_and_nothing_else() {
    let place = Place::new();
    let dir = place.root.join("d");
    let root = rustix::process::geteuid().is_root();
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    place.both(|files| {
        let write = || kind(now(files.write(Path::new("d/f"), b"new", WriteMode::Replace)));
        for (path, denied, allowed) in [(&dir, 0o555, 0o755), (&dir.join("f"), 0o444, 0o644)] {
            fs::write(dir.join("f"), "inside").unwrap();
            set_mode(path, denied);
            let got = write();
            set_mode(path, allowed);
            // Root may write into any directory; a file that nobody may write is meant for root too.
            let may = root && path == &dir;
            let (expected, content) = if may { (Ok(()), "new") } else { (Err(Io), "inside") };
            assert_eq!(got.map(drop), expected);
            assert_eq!(fs::read_to_string(dir.join("f")).unwrap(), content);
            assert_eq!(temps(&place.root), 0);
            assert!(write().is_ok());
        }
    });
    // The last step fails, for root too: the name leads into a directory that is not there.
    let fd = nolink::open_nolink(OpenMethod::Openat2, &dir, OFlags::RDONLY | OFlags::DIRECTORY).unwrap();
    for how in [WriteMode::Create, WriteMode::Replace] {
        let got = replace_file(&fd, OsStr::new("none/x"), Path::new("none/x"), b"new", how.into());
        assert_eq!(kind(got), Err(NotFound));
        assert_eq!(temps(&place.root), 0);
        assert!(
            replace_file(&fd, OsStr::new(&format!("{how:?}")), Path::new("x"), b"new", how.into()).is_ok()
        );
    }
}

#[test]
fn names_are_removed_renamed_and_made() {
    for local in [DirFiles::new(), DirFiles::walking()] {
        let place = Place::new();
        place.links();
        let files = ScopedFiles::new(&local, &place.access, &place.root);
        let remove = |path: &str| kind(now(files.remove(Path::new(path))));
        let rename = |from: &str, to: &str| kind(now(files.rename(Path::new(from), Path::new(to))));
        let create_dir = |path: &str| kind(now(files.create_dir(Path::new(path))));

        // Of a link, the link goes and the target stays; behind a link to outside nothing is touched.
        assert_eq!(remove("out_rel"), Ok(()));
        assert_eq!(rename("out_abs", "moved_link"), Ok(()));
        assert_eq!(remove("out_dir/f"), Err(NotGranted));
        assert_eq!(rename("out_dir/f", "stolen"), Err(NotGranted));
        assert_eq!(rename("d/f", "out_dir/given"), Err(NotGranted));
        assert_eq!(create_dir("out_dir/x"), Err(NotGranted));
        assert_eq!(create_dir("out_dangling"), Err(NotGranted));
        assert_eq!(fs::read(place.outside.join("f")).unwrap(), b"outside");

        assert_eq!(create_dir("x/y/z"), Ok(()));
        assert_eq!(create_dir("x/y/z"), Err(AlreadyExists));
        assert_eq!(remove("x"), Err(IsDirectory));
        assert_eq!(remove("x/y/z"), Ok(()));
        assert_eq!(remove("x/y/z"), Err(NotFound));
        assert_eq!(rename("x", "d/moved"), Ok(()));
        assert!(place.root.join("d/moved/y").is_dir());
        assert_eq!(rename("in_dir/f", "deep/down/g"), Ok(()));
        assert_eq!(fs::read(place.root.join("deep/down/g")).unwrap(), b"inside");
        assert_eq!(rename("deep/down/g", "d"), Err(IsDirectory));
        fs::write(place.root.join("taken"), "taken").unwrap();
        assert_eq!(rename("deep/down/g", "taken"), Err(AlreadyExists));
        assert_eq!(fs::read(place.root.join("taken")).unwrap(), b"taken");
        let remove_if = |path: &str, old: &str| kind(now(files.remove_if(path, old.as_bytes())));
        assert_eq!(remove_if("taken", "take"), Err(Changed));
        assert_eq!(remove_if("d", ""), Err(Changed));
        assert_eq!(remove_if("in_dir/none", ""), Err(NotFound));
        assert_eq!(remove_if("taken", "taken"), Ok(()));
        assert!(!place.root.join("taken").exists());
        assert_eq!(rename("none", "d/x"), Err(NotFound));
        assert_eq!(remove("/"), Err(NotGranted));
        assert_eq!(snapshot(&place.outside).iter().filter(|(path, _)| path.ends_with("given")).count(), 0);
    }
}

#[test]
fn listings_are_sorted_and_name_what_is_there() {
    let place = Place::new();
    place.links();
    let odd = OsString::from_vec(b"\xff\xfe".to_vec());
    place.both(|files| {
        now(files.write(&Path::new("d").join(&odd), b"x", WriteMode::Replace)).unwrap();
        assert_eq!(now(files.read(&Path::new("d").join(&odd))).unwrap(), b"x");
        let entry = |name: &OsStr, kind| DirEntry { name: name.to_owned(), kind };
        let expected = vec![
            entry(OsStr::new("e"), FileKind::Directory),
            entry(OsStr::new("f"), FileKind::File),
            entry(&odd, FileKind::File),
        ];
        assert_eq!(now(files.list(Path::new("d"))).unwrap(), expected);
        assert_eq!(now(files.list(Path::new("in_dir"))).unwrap(), expected);
        assert_eq!(kind(now(files.list(Path::new("d/f")))), Err(NotADirectory));
        assert_eq!(kind(now(files.list(Path::new("out_dir")))), Err(NotGranted));
        let root = now(files.list(Path::new("."))).unwrap();
        assert!(root.contains(&entry(OsStr::new("out_dir"), FileKind::Link)));
    });
}

#[test]
fn metadata_says_what_std_says() {
    let place = Place::new();
    place.links();
    place.both(|files| {
        for path in ["d/f", "in_abs", "d"] {
            let got = now(files.metadata(Path::new(path))).unwrap();
            let std = fs::metadata(place.root.join(path)).unwrap();
            let kind = if std.is_dir() { FileKind::Directory } else { FileKind::File };
            let id = FileId { device: std.dev(), inode: std.ino() };
            assert_eq!(
                got,
                FileMetadata {
                    kind,
                    len: std.len(),
                    modified: std.modified().ok(),
                    id,
                    mode: Some(std.permissions().mode() & 0o777)
                }
            );
        }
        assert_eq!(kind(now(files.exists(Path::new("d/none")))), Ok(false));
        assert_eq!(kind(now(files.exists(Path::new("out_rel")))), Err(NotGranted));
    });
}

/// One thread swaps a directory with a link to outside; another reads and writes through it. The usual way
/// (canonicalise, compare, open) runs beside it to show that the swaps do come between.
#[test]
fn a_swapped_link_never_leads_out() {
    let place = Place::in_memory();
    let dir = place.root.join("d");
    let link = place.root.join("link");
    symlink(&place.outside, &link).unwrap();
    let before = snapshot(&place.outside);
    let (done, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut inside, mut refused, mut naive_leaks) = (0u64, 0u64, 0u64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Ends the swapping also when an assertion below fails.
        struct Done<'a>(&'a AtomicBool);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _done = Done(&done);
        for round in 0..100 * RACE_ROUNDS {
            // On a busy machine one side may wait while the other works.
            if round >= RACE_ROUNDS && inside > 0 && refused > 0 && swaps.load(Ordering::Relaxed) > 0 {
                break;
            }
            let local = if round % 4 == 3 { DirFiles::walking() } else { DirFiles::new() };
            let files = ScopedFiles::new(&local, &place.access, &place.root);
            match now(files.read(Path::new("d/f"))) {
                Ok(text) => {
                    assert_ne!(text, b"outside", "a read got out in round {round}");
                    inside += 1;
                }
                Err(_) => refused += 1,
            }
            if round % RACE_WRITE_EVERY == 0 {
                let text = format!("round {round}");
                let _ = now(files.write(Path::new("d/f"), text.as_bytes(), WriteMode::Replace));
                let _ = now(files.write(Path::new("d/new/x"), b"x", WriteMode::Replace));
                let _ = now(files.create_dir(Path::new("d/made")));
                let _ = now(files.rename(Path::new("d/new/x"), Path::new("d/stray")));
                let _ = now(files.remove(Path::new("d/deep")));
            }
            if let Ok(real) = dir.join("f").canonicalize()
                && real.starts_with(&place.root)
                && fs::read(dir.join("f")).is_ok_and(|text| text == b"outside")
            {
                naive_leaks += 1;
            }
        }
    });
    assert_eq!(snapshot(&place.outside), before, "a write got out");
    assert!(inside > 0 && refused > 0, "{inside} inside, {refused} refused");
    assert!(swaps.load(Ordering::Relaxed) > 0);
    eprintln!(
        "{swaps:?} swaps; {inside} inside, {refused} refused; the usual way leaked {naive_leaks} times"
    );
    assert!(naive_leaks > 0 || refused > 0, "the race never happened");
}

/// Counts in a file, from several threads, each of which reads, adds one and swaps. A plain write loses some
/// of them.
#[test]
fn a_swap_loses_no_change_of_others() {
    let place = Place::new();
    fs::write(place.root.join("count"), "0").unwrap();
    let add = || {
        let files = DirFiles::new();
        let scoped = ScopedFiles::new(&files, &place.access, &place.root);
        for _ in 0..50 {
            loop {
                let old = now(scoped.read_to_string("count")).unwrap();
                let new = (old.parse::<u64>().unwrap() + 1).to_string();
                match now(scoped.swap("count", old.clone(), new.clone())) {
                    Ok(_) => break,
                    Err(error) => assert_eq!(error.kind(), Changed, "{error}"),
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(add);
        }
    });
    assert_eq!(fs::read_to_string(place.root.join("count")).unwrap(), "200");
    assert_eq!(fs::read_dir(&place.root).unwrap().count(), 2, "nothing is left behind");
}

/// One thread changes a file, another moves it away and a third removes it: no change is lost with it.
#[test]
fn what_is_removed_or_moved_is_what_was_looked_at() {
    let place = Place::new();
    let work = |job: fn(&ScopedFiles<'_>)| {
        let (root, access) = (place.root.clone(), place.access.clone());
        move || {
            let files = DirFiles::new();
            let scoped = ScopedFiles::new(&files, &access, &root);
            (0..200).for_each(|_| job(&scoped));
        }
    };
    fs::write(place.root.join("count"), "0").unwrap();
    // Everybody adds to one sum: by a change in place, or by taking the file away and bringing back one more.
    let add = |files: &ScopedFiles<'_>| {
        loop {
            let Ok(old) = now(files.read_to_string("count")) else { continue };
            let new = (old.parse::<u64>().unwrap() + 1).to_string();
            if now(files.swap("count", old.clone(), new.clone())).is_ok() {
                return;
            }
        }
    };
    let take = |files: &ScopedFiles<'_>| {
        loop {
            let Ok(old) = now(files.read_to_string("count")) else { continue };
            let new = (old.parse::<u64>().unwrap() + 1).to_string();
            if now(files.remove_if("count", old.as_bytes())).is_ok() {
                now(files.write("count", new.as_bytes(), WriteMode::Create)).unwrap();
                return;
            }
        }
    };
    let carry = |files: &ScopedFiles<'_>| {
        loop {
            if now(files.rename("count", "away")).is_ok() {
                let old = now(files.read_to_string("away")).unwrap();
                let new = (old.parse::<u64>().unwrap() + 1).to_string();
                now(files.swap("away", old.clone(), new.clone())).unwrap();
                now(files.rename("away", "count")).unwrap();
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work(add));
        scope.spawn(work(take));
        scope.spawn(work(carry));
    });
    assert_eq!(fs::read_to_string(place.root.join("count")).unwrap(), "600");
}

#[test]
fn a_swap_changes_only_what_is_still_there_and_granted() {
    let place = Place::new();
    place.links();
    fs::set_permissions(place.root.join("d/f"), fs::Permissions::from_mode(0o751)).unwrap();
    place.both(|files| {
        let swap = |path: &str, old: &str| kind(now(files.swap(path, old.to_owned(), "inside")).map(drop));
        assert_eq!(swap("d/f", "inside"), Ok(()));
        assert_eq!(swap("in_abs", "inside"), Ok(()));
        assert_eq!(swap("d/f", "insidf"), Err(Changed));
        assert_eq!(swap("d/f", "inside and more"), Err(Changed));
        assert_eq!(swap("d/f", ""), Err(Changed));
        assert_eq!(swap("d/none", ""), Err(Changed));
        assert_eq!(swap("d", ""), Err(IsDirectory));
        assert_eq!(swap("out_rel", "outside"), Err(NotGranted));
    });
    let mode = fs::metadata(place.root.join("d/f")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o751);
    assert_eq!(fs::read_to_string(place.outside.join("f")).unwrap(), "outside");
}

/// The session's own folder has a bound for file tools; what is the host's has none.
#[test]
fn writes_to_the_folder_of_the_session_have_a_bound() {
    let place = Place::new();
    let own = place.root.join("own");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("old"), "1").unwrap();
    let table = PathTable::new(place.root.join("tmp"), &own, [], |_| true);
    let room = |bytes| if bytes > 3 { Err(format!("no room for {bytes} bytes")) } else { Ok(()) };
    let local = DirFiles::new().with_paths(table.with_room(room));
    let files = ScopedFiles::new(&local, &place.access, &place.root);
    let write = |path: &str, text: &str| {
        let written = now(files.write(Path::new(path), text.as_bytes(), WriteMode::Replace));
        written.map(drop).map_err(|error| (error.kind(), error.to_string()))
    };
    assert_eq!(write("tmp/new", "123"), Ok(()));
    assert_eq!(write("tmp/new", "1234"), Err((NoSpace, "no room for 4 bytes".into())));
    assert_eq!(write("beside", "1234"), Ok(()));
    let swapped = now(files.swap(Path::new("tmp/old"), "1", "1234"));
    assert_eq!(swapped.unwrap_err().kind(), NoSpace);
    assert_eq!(
        fs::read_to_string(own.join("new")).unwrap() + &fs::read_to_string(own.join("old")).unwrap(),
        "1231"
    );
}
