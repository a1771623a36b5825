//! All of this again as an ordinary user, where whoever runs it is root.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::confined::{HELPER, is_root};

/// Nobody in particular.
pub(crate) const USER: u32 = 65534;

/// Whether that user can start this program.
pub(crate) fn reaches(path: &Path) -> bool {
    let mut test = Command::new("/usr/bin/test");
    test.args(["-x".as_ref(), path.as_os_str()]).uid(USER).gid(USER);
    test.status().unwrap().success()
}

#[test]
#[ignore = "prove"]
fn prove_that_an_ordinary_user_is_held_too() {
    assert!(is_root(), "run `cargo test -p haft-sandbox`: you are an ordinary user already");
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    std::os::unix::fs::chown(home.path(), Some(USER), Some(USER)).unwrap();
    let own = std::env::current_exe().unwrap();
    assert!(
        reaches(&own) && reaches(HELPER.as_ref()),
        "{} must be readable for other users; set CARGO_TARGET_DIR to a folder that is",
        own.display()
    );
    let output = Command::new(&own)
        .arg("--test-threads=2")
        .env_clear()
        .envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("TMPDIR", "/tmp")])
        .env("HOME", home.path())
        .env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .uid(USER)
        .gid(USER)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let passed = said.split("test result: ok. ").nth(1).and_then(|rest| rest.split(' ').next());
    println!("proof: as an ordinary user: {} tests with real processes passed, 0 failed", passed.unwrap());
}
