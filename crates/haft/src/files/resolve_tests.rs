//! Tables over one small tree, walked both ways.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use super::*;

/// `d/e/f` (file), `d/two` (a second name of f), links of every kind.
fn tree() -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let base = temp.path().canonicalize().unwrap();
    std::fs::create_dir_all(base.join("d/e")).unwrap();
    std::fs::create_dir_all(base.join("other/deep")).unwrap();
    std::fs::write(base.join("d/e/f"), "x").unwrap();
    std::fs::write(base.join("d/single"), "x").unwrap();
    std::fs::hard_link(base.join("d/e/f"), base.join("d/two")).unwrap();
    symlink("d/e", base.join("rel")).unwrap();
    symlink(base.join("d/e"), base.join("abs")).unwrap();
    symlink("rel", base.join("chain")).unwrap();
    symlink("chain/f", base.join("chainfile")).unwrap();
    symlink("../other/deep", base.join("d/up")).unwrap();
    symlink("gone/for/good", base.join("dangling")).unwrap();
    symlink("dangling/more", base.join("dangling2")).unwrap();
    symlink("loop2", base.join("loop1")).unwrap();
    symlink("loop1", base.join("loop2")).unwrap();
    symlink("d/e/f/", base.join("fileslash")).unwrap();
    (temp, base)
}

const KERNELS: [OpenMethod; 2] = [OpenMethod::Openat2, OpenMethod::Walk];

#[test]
fn paths_lead_where_the_kernel_would_go() {
    let (_temp, base) = tree();
    // (asked, given, real, exists), all beneath the base
    let table = [
        ("d/e/f", "d/e/f", "d/e/f", true),
        (".", "", "", true),
        ("d/e/", "d/e", "d/e", true),
        ("./d//e/./f", "d/e/f", "d/e/f", true),
        ("d/../d/e", "d/e", "d/e", true),
        ("d/e/../../other", "other", "other", true),
        ("rel/f", "rel/f", "d/e/f", true),
        ("abs/f", "abs/f", "d/e/f", true),
        ("chain/f", "chain/f", "d/e/f", true),
        ("chainfile", "chainfile", "d/e/f", true),
        ("rel", "rel", "d/e", true),
        // `..` behind a link is the parent of its target.
        ("d/up/../x", "other/x", "other/x", false),
        ("d/up/..", "other", "other", true),
        ("rel/../single", "d/single", "d/single", true),
        ("rel/../../rel/f", "rel/f", "d/e/f", true),
        // What does not exist yet.
        ("d/new", "d/new", "d/new", false),
        ("d/new/", "d/new", "d/new", false),
        ("a/b/c", "a/b/c", "a/b/c", false),
        ("rel/new/er", "rel/new/er", "d/e/new/er", false),
        ("a/../d/e", "d/e", "d/e", true),
        ("a/../rel/f", "rel/f", "d/e/f", true),
        // A dangling link is its target, at the end and in the middle.
        ("dangling", "dangling", "gone/for/good", false),
        ("dangling/x", "dangling/x", "gone/for/good/x", false),
        ("dangling2", "dangling2", "gone/for/good/more", false),
        ("dangling/../x", "gone/for/x", "gone/for/x", false),
    ];
    for (asked, given, real, exists) in table {
        for kernel in KERNELS {
            for asked in [PathBuf::from(asked), base.join(asked)] {
                let got = resolve_with(kernel, &PathTable::default(), &base, &asked).unwrap();
                let place = format!("{kernel:?} {}", asked.display());
                assert_eq!(got.given, base.join(given).components().collect::<PathBuf>(), "given of {place}");
                assert_eq!(got.real, base.join(real).components().collect::<PathBuf>(), "real of {place}");
                assert_eq!(got.exists, exists, "{place}");
                // The tidy form matters: `PathBuf` compares components, rules may look at the text.
                assert!(!got.real.as_os_str().as_bytes().ends_with(b"/"), "{place}");
                let anchor = got.real.ancestors().find(|path| path.exists()).unwrap();
                let stat = std::fs::metadata(anchor).unwrap();
                assert_eq!(got.anchor, FileId { device: stat.dev(), inode: stat.ino() }, "anchor of {place}");
                assert_eq!(got.is_dir, exists && stat.is_dir(), "{place}");
                if exists {
                    assert_eq!(
                        got.real,
                        base.join(&asked).canonicalize().unwrap_or(got.real.clone()),
                        "{place}"
                    );
                }
            }
        }
    }
}

#[test]
fn hard_links_are_counted_and_have_one_identity() {
    let (_temp, base) = tree();
    for kernel in KERNELS {
        let links = |path: &str| resolve_with(kernel, &PathTable::default(), &base, Path::new(path)).unwrap();
        assert_eq!(links("d/single").links, 1);
        assert_eq!(links("d/two").links, 2);
        assert_eq!(links("d").links, 1);
        assert_eq!(links("d/none").links, 0);
        assert_eq!(links("d/two").anchor, links("chainfile").anchor);
        assert_ne!(links("d/two").anchor, links("d/single").anchor);
    }
}

#[test]
fn bad_paths_are_refused_with_what_was_wrong() {
    use ResolveErrorKind::*;
    let (_temp, base) = tree();
    let long_name = "n".repeat(300);
    let long_path = "d/".repeat(3000);
    let table = [
        ("", Empty, ""),
        ("a\0b", Nul, ""),
        ("loop1", TooManyLinks, ""),
        ("loop1/x", TooManyLinks, ""),
        (&long_name, NameTooLong, ""),
        (&format!("missing/{long_name}"), NameTooLong, ""),
        (&long_path, NameTooLong, ""),
        ("d/e/f/x", NotADirectory, "d/e/f"),
        ("d/e/f/../x", NotADirectory, "d/e/f"),
        ("d/e/f/", NotADirectory, "d/e/f"),
        ("chainfile/x", NotADirectory, "d/e/f"),
        ("fileslash", NotADirectory, "d/e/f"),
        ("/proc/self/root/etc", MagicLink, ""),
        ("/proc/self/cwd", MagicLink, ""),
    ];
    for (asked, kind, at) in table {
        for kernel in KERNELS {
            let error = resolve_with(kernel, &PathTable::default(), &base, Path::new(asked)).unwrap_err();
            assert_eq!(error.kind, kind, "{kernel:?} {asked}: {error}");
            assert_eq!(error.path, Path::new(asked));
            if !at.is_empty() {
                assert_eq!(error.at, base.join(at), "{kernel:?} {asked}");
            }
        }
    }
    // Positive controls: the same shapes, just allowed.
    for kernel in KERNELS {
        for fine in [&"n".repeat(255), &"d/../".repeat(500), "/proc/self/status", "/"] {
            resolve_with(kernel, &PathTable::default(), &base, Path::new(fine)).unwrap();
        }
        let error =
            resolve_with(kernel, &PathTable::default(), Path::new("here"), Path::new("x")).unwrap_err();
        assert_eq!(error.kind, RelativeStart);
    }
}

#[test]
fn forty_links_pass_and_forty_one_do_not() {
    let (_temp, base) = tree();
    let mut target = "d/e/f".to_owned();
    for n in 1..=limits::LINKS_MAX + 1 {
        let name = format!("l{n}");
        symlink(&target, base.join(&name)).unwrap();
        target = name;
    }
    for kernel in KERNELS {
        let at = |n: usize| resolve_with(kernel, &PathTable::default(), &base, Path::new(&format!("l{n}")));
        assert_eq!(at(limits::LINKS_MAX).unwrap().real, base.join("d/e/f"));
        assert_eq!(at(limits::LINKS_MAX + 1).unwrap_err().kind, ResolveErrorKind::TooManyLinks);
    }
}

#[test]
fn a_directory_that_may_not_be_searched_is_an_error() {
    let (_temp, base) = tree();
    for kernel in KERNELS {
        assert!(resolve_with(kernel, &PathTable::default(), &base, Path::new("d/e/f")).is_ok());
        std::fs::set_permissions(base.join("d"), std::fs::Permissions::from_mode(0o000)).unwrap();
        let got = resolve_with(kernel, &PathTable::default(), &base, Path::new("d/e/f"));
        std::fs::set_permissions(base.join("d"), std::fs::Permissions::from_mode(0o755)).unwrap();
        match got {
            Err(error) => assert_eq!((error.kind, error.at), (ResolveErrorKind::Denied, base.join("d"))),
            Ok(_) => assert!(rustix::process::geteuid().is_root(), "only root may pass"),
        }
    }
}

#[test]
fn names_need_not_be_utf8() {
    let (_temp, base) = tree();
    let name = OsStr::from_bytes(b"d/\xff\xfe");
    for kernel in KERNELS {
        assert!(!resolve_with(kernel, &PathTable::default(), &base, Path::new(name)).unwrap().exists);
    }
    std::fs::write(base.join(name), "x").unwrap();
    symlink(OsStr::from_bytes(b"\xff\xfe"), base.join("d/bytes")).unwrap();
    for kernel in KERNELS {
        assert!(resolve_with(kernel, &PathTable::default(), &base, Path::new(name)).unwrap().exists);
        assert_eq!(
            resolve_with(kernel, &PathTable::default(), &base, Path::new("d/bytes")).unwrap().real,
            base.join(name)
        );
    }
}

#[test]
fn an_entry_is_the_name_and_not_the_target() {
    let (_temp, base) = tree();
    let table = [
        ("rel", "rel", true),
        ("dangling", "dangling", true),
        ("loop1", "loop1", true),
        ("rel/f", "d/e/f", true),
        ("rel/new", "d/e/new", false),
        ("dangling/x", "gone/for/good/x", false),
        ("d/up/..", "other", true),
    ];
    for (asked, real, exists) in table {
        for kernel in KERNELS {
            let got = resolve_entry_with(kernel, &PathTable::default(), &base, Path::new(asked)).unwrap();
            assert_eq!((got.real, got.exists), (base.join(real), exists), "{kernel:?} {asked}");
        }
    }
    let error = resolve_entry(&base, Path::new("d/e/f/x")).unwrap_err();
    assert_eq!(error.kind, ResolveErrorKind::NotADirectory);
    assert_eq!(resolve_entry(&base, Path::new("/")).unwrap().real, Path::new("/"));
}

#[test]
fn beneath_compares_components() {
    let table = [
        ("/allowed", "/allowed", true),
        ("/allowed/x", "/allowed", true),
        ("/allowed/x", "/allowed/", true),
        ("/allowed", "/", true),
        ("/allowed_evil", "/allowed", false),
        ("/allowed_evil/x", "/allowed", false),
        ("/allow", "/allowed", false),
        ("/", "/allowed", false),
        ("/allowed/../etc", "/allowed", false),
        ("/allowed/..x", "/allowed", true),
        ("/x/../allowed/y", "/allowed", false),
        ("/etc", "/etc/..", false),
        ("/etc", "", false),
        ("etc", "etc", false),
    ];
    for (path, root, expected) in table {
        assert_eq!(is_beneath(Path::new(path), Path::new(root)), expected, "{path} in {root}");
    }
    let (_temp, base) = tree();
    let at = |path: &str| resolve_path(&base, Path::new(path)).unwrap();
    assert!(at("chain/new").is_beneath(&at("d")));
    assert!(!at("d/up/x").is_beneath(&at("d")));
}

#[test]
fn tidy_paths_compare_by_components_too() {
    let check = |path: &str, root: &str, expected: bool| {
        assert_eq!(beneath_tidy(Path::new(path), Path::new(root)), expected, "{path} in {root}");
        assert_eq!(
            is_beneath(Path::new(path), Path::new(root)),
            expected,
            "{path} in {root}, component by component"
        );
    };
    check("/a/b", "/a", true);
    check("/a", "/a", true);
    check("/a_evil", "/a", false);
    check("/a", "/a/b", false);
    check("/a", "/", true);
    check("/", "/", true);
    check("/b", "/a", false);
}
