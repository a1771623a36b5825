//! The session's temporary folder: what one call is shown in it is gone afterwards, and its size has a bound.

use std::fs;

use haft::files::{GrantedAccess, GrantedRoot};
use haft::ports::{ConfinementRefusal, KillReason, ProcessExit};

use crate::profile::User;

#[tokio::test]
async fn a_file_of_the_host_is_shown_to_be_read_and_leaves_no_mount_point() {
    let user = User::new();
    let session = user.session();
    let host = tempfile::Builder::new().prefix("of-the-host-").tempfile_in("/tmp").unwrap();
    fs::write(&host, "theirs").unwrap();
    let folder = tempfile::Builder::new().prefix("folder-of-the-host-").tempdir_in("/tmp").unwrap();
    fs::write(folder.path().join("in"), "inside").unwrap();
    let paths = (host.path().display(), folder.path().display());
    let script = format!(
        "cat {0} {1}/in; ! echo more >> {0}; ! touch {1}/new; echo mine > /tmp/beside; ls /tmp",
        paths.0, paths.1
    );
    let access = GrantedAccess {
        read: vec![GrantedRoot::file(host.path()), GrantedRoot::subtree(folder.path())],
        ..GrantedAccess::default()
    };
    let (exit, said, _) = session.run(session.request(&script).with_access(access, Vec::new())).await;
    assert_eq!(exit, ProcessExit::Code(0), "{said}");
    assert!(said.starts_with("theirsinside") && said.contains("beside"), "{said}");
    // The control: they were there, and only then.
    assert!(said.contains("of-the-host-"), "{said}");
    let left = session.good("ls /tmp").await;
    assert!(left.contains("beside") && !left.contains("of-the-host-"), "{left}");
    assert_eq!(fs::read_to_string(&host).unwrap(), "theirs");
    assert!(!folder.path().join("new").exists());
}

#[tokio::test]
async fn a_command_that_makes_it_too_large_is_killed() {
    const MIB: u64 = 1024 * 1024;
    let mut user = User::new();
    user.config.temp_bytes_max = 8 * MIB;
    let session = user.session();
    // The control: below the bound it goes on.
    session.good("head -c 4M /dev/zero > /tmp/small && sleep 0.4 && rm /tmp/small").await;
    let fill = "while :; do head -c 1M /dev/zero >> /tmp/large; sleep 0.01; done";
    let (exit, said, refused) = session.run(session.request(fill)).await;
    assert_eq!(exit, ProcessExit::Killed(KillReason::TempTooLarge), "{said} {refused:?}");
    let says = |refusal: &ConfinementRefusal| matches!(refusal, ConfinementRefusal::Changed { done, .. } if done.contains("more than the 8 MiB"));
    assert!(refused.iter().any(says), "{refused:?}");
    // Many small files take space as well.
    session.good("rm /tmp/large").await;
    let many = "i=0; while :; do i=$((i+1)); mkdir -p /tmp/d/$i/{1..50}; done";
    let (exit, said, refused) = session.run(session.request(many)).await;
    assert_eq!(exit, ProcessExit::Killed(KillReason::TempTooLarge), "{said} {refused:?}");
    // What makes it smaller may run.
    session.good("sleep 0.6; rm -r /tmp/d; echo more > /tmp/more").await;
}
