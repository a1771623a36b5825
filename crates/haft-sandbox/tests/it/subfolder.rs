//! A working directory that is a part of a repository: git works in it, and nothing else of the repository is
//! written.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use haft::files::HiddenPaths;
use haft::ports::{ConfinementRefusal, ProcessExit, ProcessRequest};
use haft::testing::with_restrictions;

use crate::confined::is_root;
use crate::profile::{Session, User, git};

/// A user who works in `work/sub` of the repository `work`.
fn user() -> User {
    let mut user = User::new();
    fs::create_dir_all(user.at("work/sub")).unwrap();
    fs::create_dir_all(user.at("work/beside")).unwrap();
    for (name, content) in [("work/sub/a", "a"), ("work/beside/b", "b"), ("work/.env", "SECRET")] {
        fs::write(user.at(name), content).unwrap();
    }
    let work = user.at("work");
    git(&work, &["add", "sub", "beside"]);
    git(&work, &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "two"]);
    user.config.workspace = vec![user.at("work/sub")];
    user
}

fn request(user: &User, session: &Session<'_>, script: &str) -> ProcessRequest {
    let mut request = session.request(script);
    request.cwd = user.at("work/sub");
    request
}

async fn run(
    user: &User,
    session: &Session<'_>,
    script: &str,
) -> (ProcessExit, String, Vec<ConfinementRefusal>) {
    session.run(request(user, session, script)).await
}

#[tokio::test]
async fn git_works_in_a_subfolder() {
    let user = user();
    let session = user.session();
    assert_eq!(session.sandbox.notes(), [] as [&str; 0]);
    for (script, expected) in [
        ("git status --short --untracked-files=no", ""),
        ("git log --format=%s", "two\none\n"),
        ("git rev-parse --show-prefix", "sub/\n"),
        ("cat ../README ../beside/b", "read meb"),
        ("echo new > c && git add c && git commit -qm three && git log -n 1 --format=%s", "three\n"),
        ("echo more >> a && git diff --stat | tail -n 1", " 1 file changed, 1 insertion(+), 1 deletion(-)\n"),
        ("git commit -qam four && git show --stat --format=%s | head -n 1", "four\n"),
        ("git ls-files --full-name", "sub/a\nsub/c\n"),
    ] {
        let (exit, said, refused) = run(&user, &session, script).await;
        assert_eq!((exit, &*said, refused), (ProcessExit::Code(0), expected, vec![]), "{script}");
    }
    drop(session);
    assert_eq!(fs::read_to_string(user.at("work/beside/b")).unwrap(), "b");
    git(&user.at("work"), &["diff", "--quiet", "HEAD", "--", "beside", "README"]);
}

#[tokio::test]
async fn nothing_else_of_the_repository_is_written_or_shown_that_is_hidden() {
    let mut user = user();
    user.config.rules = with_restrictions(&user.config.rules, |rules| {
        rules.unreadable = Some(HiddenPaths::new(|path| path.ends_with(".env")))
    });
    let session = user.session();
    for attempt in [
        "echo x > ../README",
        "echo x > ../new",
        "rm ../beside/b",
        "echo evil > ../.git/hooks/pre-commit",
        "git config core.fsmonitor evil",
        "echo evil >> ../.git/config",
        "mv ../.git ../gone",
        "mv ../sub ../sub2",
        "cat ../.env",
        "cat ../../other/file",
        "cat ../../home/.netrc",
        "echo x > ../.mcp.json",
        "git switch -q -c side && git rm -q ../beside/b",
    ] {
        let (exit, said, _) = run(&user, &session, attempt).await;
        assert!(
            matches!(exit, ProcessExit::Code(code) if code != 0),
            "`{attempt}` ended with {exit:?}: {said}"
        );
        assert!(!said.contains("SECRET"), "{said}");
    }
    assert!(user.at("work/beside/b").exists());
}

/// What commands see of a repository above, for a user that was made ready so.
async fn sees(user: &User) -> bool {
    let session = user.session();
    let mut request = session.request("git rev-parse --git-dir");
    request.cwd.clone_from(&user.config.workspace[0]);
    let (exit, said, _) = session.run(request).await;
    let noted = session.sandbox.notes().iter().any(|note| note.contains("begins above it"));
    assert_ne!(exit == ProcessExit::Code(0), noted, "{said}");
    exit == ProcessExit::Code(0)
}

#[tokio::test]
async fn some_folders_are_never_shown_for_it() {
    assert!(sees(&user()).await);
    // A home folder, and one that holds it.
    for top in ["home", "."] {
        let mut user = user();
        fs::create_dir_all(user.at("home/project")).unwrap();
        git(&user.at(top), &["init", "-q"]);
        user.config.workspace = vec![user.at("home/project")];
        assert!(!sees(&user).await, "{top}");
    }
    // What belongs to another user, at the top or on the way there.
    let paths = ["work", "work/.git"];
    for path in paths.into_iter().filter(|_| is_root()) {
        let user = user();
        chown(user.at(path), Some(65534), None).unwrap();
        assert!(!sees(&user).await, "{path}");
    }
    // One of this program's own.
    let mut user = user();
    user.config.own.push(user.at("work"));
    assert!(!sees(&user).await);
}

/// In an added folder the same holds, and a repository in a working directory needs none of it.
#[tokio::test]
async fn a_folder_that_was_added_is_a_part_of_one_too() {
    let mut user = user();
    fs::create_dir(user.at("plain")).unwrap();
    user.config.workspace.insert(0, user.at("plain"));
    let session = user.session();
    let (exit, said, _) = run(&user, &session, "git log --format=%s && ! touch ../new").await;
    assert_eq!(exit, ProcessExit::Code(0), "{said}");
    assert!(Path::new(&user.at("work")).exists());
    let mut whole = user_of_all();
    whole.config.workspace.push(whole.at("work/sub"));
    let session = whole.session();
    let (exit, said, _) = run(&whole, &session, "git status --short && touch ../new").await;
    assert_eq!(exit, ProcessExit::Code(0), "{said}");
}

fn user_of_all() -> User {
    let mut user = user();
    user.config.workspace = vec![user.at("work")];
    user
}
