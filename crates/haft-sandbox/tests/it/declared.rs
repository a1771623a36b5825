//! Programs that declare what they touch: nothing else is there for them, also of the working directory.

use std::fs;

use haft::Effects;
use haft::files::{GrantedAccess, GrantedRoot, PathTable};
use haft::ports::{ConfinementLevel, ProcessExit, ProcessRequest};

use crate::profile::{Session, User};

fn user() -> User {
    let user = User::new();
    fs::create_dir_all(user.at("work/src/deep")).unwrap();
    for (name, content) in [
        ("work/secret.txt", "SECRET"),
        ("work/input.txt", "input"),
        ("work/src/a.rs", "source"),
        ("work/src/deep/b.rs", "deep"),
    ] {
        fs::write(user.at(name), content).unwrap();
    }
    user
}

/// A program with these effects, in a call that may read the working directory and change what it declared.
fn request(user: &User, session: &Session<'_>, effects: &Effects, script: &str) -> ProcessRequest {
    let write = ["work/out.txt", "work/gen"].map(|name| GrantedRoot::subtree(user.at(name)));
    let granted = GrantedAccess {
        read: vec![GrantedRoot::subtree(user.at("work"))],
        write: write.into(),
        ..GrantedAccess::default()
    };
    session.request(script).with_declared_effects(effects, &granted, &PathTable::default())
}

#[tokio::test]
async fn only_what_is_declared_can_be_read() {
    let user = user();
    let session = user.session();
    for (effects, script, expected) in [
        (Effects::reads("input.txt"), "cat input.txt", Some("input")),
        (Effects::reads("input.txt"), "ls", Some("input.txt\n")),
        (Effects::reads("input.txt"), "cat secret.txt", None),
        (Effects::reads("input.txt"), "cat .git/config", None),
        (Effects::reads("input.txt"), "cat ../state/results/1.txt", None),
        (Effects::reads("input.txt"), "cat ~/.npm/_cacache/cached", None),
        (Effects::reads("input.txt"), "echo x > input.txt", None),
        (Effects::reads("input.txt"), "cat ../other/file", None),
        (Effects::reads("src"), "cat src/a.rs", None),
        (Effects::reads_tree("src"), "cat src/a.rs src/deep/b.rs", Some("sourcedeep")),
        (Effects::reads_tree("src"), "cat secret.txt", None),
        (Effects::reads_tree("src"), "cat src/../secret.txt", None),
        (Effects::reads_tree("."), "cat secret.txt", Some("SECRET")),
        (Effects::reads_tree("../other"), "cat ../other/file", None),
        (Effects::none(), "pwd | grep -c work", Some("1\n")),
        (Effects::none(), "ls -A", Some("")),
        (Effects::none(), "cat input.txt", None),
        (Effects::none(), "f=$(mktemp) && echo x > $f && cat $f", Some("x\n")),
        (Effects::none(), "test -r ~/.local/bin/greet && git config user.name", Some("Me\n")),
        (Effects::none(), "touch new && cat new", None),
    ] {
        let (exit, said, _) = session.run(request(&user, &session, &effects, script)).await;
        match expected {
            Some(expected) => {
                assert_eq!((exit, &*said), (ProcessExit::Code(0), expected), "{script} with {effects:?}")
            }
            None => {
                assert!(
                    matches!(exit, ProcessExit::Code(code) if code != 0),
                    "{script} with {effects:?}: {said}"
                );
                assert!(!said.contains("SECRET"), "{script} with {effects:?}: {said}");
            }
        }
    }
}

/// The control: the same attempts where nothing is declared.
#[tokio::test]
async fn what_is_not_declared_is_what_a_session_may_do() {
    let user = user();
    let session = user.session();
    let request = request(
        &user,
        &session,
        &Effects::unknown(),
        "cat secret.txt ~/.npm/_cacache/cached && echo x > input.txt",
    );
    assert_eq!(request.confinement, ConfinementLevel::Session);
    let (exit, said, _) = session.run(request).await;
    assert_eq!((exit, &*said), (ProcessExit::Code(0), "SECRETcached"));
}

#[tokio::test]
async fn what_is_declared_is_written_and_nothing_beside_it() {
    let user = user();
    let session = user.session();
    let effects =
        Effects::reads("input.txt").and(Effects::writes("out.txt")).and(Effects::writes_tree("gen"));
    let script =
        "cp input.txt out.txt && mkdir -p gen && echo 1 > gen/a && ! cat secret.txt && echo x > beside; true";
    let (exit, said, _) = session.run(request(&user, &session, &effects, script)).await;
    assert_eq!(exit, ProcessExit::Code(0), "{said}");
    assert_eq!(fs::read_to_string(user.at("work/out.txt")).unwrap(), "input");
    assert_eq!(fs::read_to_string(user.at("work/gen/a")).unwrap(), "1\n");
    assert!(!user.at("work/beside").exists() && !said.contains("SECRET"), "{said}");
    assert_eq!(fs::read_to_string(user.at("work/secret.txt")).unwrap(), "SECRET");
    // What the call wasn't granted isn't written, whatever is declared.
    let effects = Effects::writes("secret.txt");
    let (_, _, _) = session.run(request(&user, &session, &effects, "echo x > secret.txt")).await;
    assert_eq!(fs::read_to_string(user.at("work/secret.txt")).unwrap(), "SECRET");
}
