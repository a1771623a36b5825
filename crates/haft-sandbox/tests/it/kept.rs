//! What a result says of what a command was kept from, and what of git's configuration stays.

use std::fs;

use haft::ports::{ConfinementRefusal, ProcessExit};
use haft_sandbox::{Sandbox, SandboxConfig};

use crate::appears;
use crate::confined::HELPER;
use crate::profile::{User, configuration, git};

/// The names that something is said of, from the working directory, and the words.
fn held(user: &User, refused: &[ConfinementRefusal]) -> Vec<(Vec<String>, String)> {
    let work = user.at("work");
    let short = |path: &std::path::PathBuf| path.strip_prefix(&work).unwrap_or(path).display().to_string();
    refused
        .iter()
        .filter_map(|refused| match refused {
            ConfinementRefusal::Held { paths, why } => Some((paths.iter().map(short).collect(), why.clone())),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn what_is_in_the_way_is_named_with_what_would_allow_it() {
    for (script, paths, words) in [
        ("git config user.name x", &[".git/config"][..], "the user's yes opens the file for that call"),
        ("echo x > .git/hooks/pre-commit", &[".git/hooks"], "the user's yes"),
        ("rm -r .git", &[".git/config", ".git/hooks"], "the user's yes"),
        ("mv vendor/lib elsewhere", &["vendor/lib/.git"], "the user's yes"),
        ("mv vendor other", &["vendor"], "`sandbox.excludedCommands`"),
        ("git worktree remove wt", &["wt"], "work/wt/.git`, "),
        ("python3 -c 'import shutil; shutil.rmtree(\"vendor/lib/.git\")'", &["config"], "decides what runs"),
        ("touch /usr/share/new", &["/usr/share/new"], "`sandbox.filesystem.allowWrite`"),
    ] {
        let user = User::new();
        fs::create_dir_all(user.at("work/vendor/lib")).unwrap();
        git(&user.at("work/vendor/lib"), &["init", "-q"]);
        git(&user.at("work"), &["worktree", "add", "-q", "wt", "-b", "side"]);
        let session = user.session();
        let (exit, said, refused) = session.run(session.request(script)).await;
        assert_ne!(exit, ProcessExit::Code(0), "{script}: {said}");
        let held = held(&user, &refused);
        for path in paths {
            let found = held
                .iter()
                .any(|(paths, why)| paths.iter().any(|found| found.starts_with(path)) && why.contains(words));
            assert!(found, "{script}: {held:?}");
        }
    }
    let user = User::new();
    let session = user.session();
    session.good("touch junk; git clean -fdx").await;
    assert!(!user.at("work/junk").exists());
    // What fails for another reason needs no such words.
    for script in ["cat missing", "false", "echo 'Device or resource busy'; false", "rm missing"] {
        let (_, _, refused) = session.run(session.request(script)).await;
        assert_eq!(refused, [], "{script}");
    }
}

#[tokio::test]
async fn keys_of_git_that_run_nothing_are_set_and_the_file_stays_as_it_was() {
    let user = User::new();
    let config = user.at("work/.git/config");
    let mine = format!("# mine\n{}[alias]\n  st = status ; short\n", fs::read_to_string(&config).unwrap());
    fs::write(&config, &mine).unwrap();
    let session = user.session();
    let (exit, said, refused) = session
        .run(
            session
                .request("git config user.name 'A B' && git config pull.rebase true")
                .with_protection(configuration()),
        )
        .await;
    assert_eq!((exit, refused), (ProcessExit::Code(0), vec![]), "{said}");
    assert_eq!(session.good("git config user.name; git config pull.rebase").await, "A B\ntrue\n");
    let before = fs::read_to_string(&config).unwrap();
    assert!(before.starts_with("# mine\n"), "{before}");

    let script = "git remote add origin https://example.org/r; git config alias.st '!evil'; git config core.pager evil";
    let (_, _, refused) = session.run(session.request(script).with_protection(configuration())).await;
    assert!(format!("{refused:?}").contains("`alias.st`, `core.pager`"), "{refused:?}");
    let added =
        "[remote \"origin\"]\n\turl = https://example.org/r\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n";
    assert_eq!(fs::read_to_string(&config).unwrap(), format!("{before}{added}"));
    let (_, _, refused) =
        session.run(session.request("git config core.pager evil").with_protection(configuration())).await;
    assert_eq!(refused.len(), 1);
    assert_eq!(fs::read_to_string(&config).unwrap(), format!("{before}{added}"), "not a byte is another");
}

/// A worktree is made by writing what git knows of it; nobody else did anything.
#[tokio::test]
async fn nobody_is_blamed_for_what_git_does() {
    let user = User::new();
    let session = user.session();
    for script in [
        "git worktree add -q one -b one",
        "git remote add origin https://example.org/x",
        "git worktree add -q two -b two",
    ] {
        let (exit, said, refused) =
            session.run(session.request(script).with_protection(configuration())).await;
        assert_eq!((exit, refused), (ProcessExit::Code(0), vec![]), "{script}: {said}");
        assert_eq!(session.run(session.request("true")).await.2, [], "after {script}");
    }
}

/// Two commands that may write the same configuration: what one leaves is not what the other began with.
#[tokio::test]
async fn nothing_stays_because_another_command_began_meanwhile() {
    let user = User::new();
    let config = user.at("work/.git/config");
    let before = fs::read_to_string(&config).unwrap();
    let session = user.session();
    for name in ["there", "go", "go-too"] {
        let made = std::process::Command::new("mkfifo").arg(user.at("work").join(name)).status().unwrap();
        assert!(made.success());
    }
    let evil = "git config core.fsmonitor evil; echo > there; read -r _ < go";
    let honest = "read -r _ < there; touch begun; read -r _ < go-too";
    let first = session.run(session.request(evil).with_protection(configuration()));
    let second = session.run(session.request(honest).with_protection(configuration()));
    let third = async {
        appears(user.at("work/begun")).await;
        fs::write(user.at("work/go"), "\n").unwrap();
        fs::write(user.at("work/go-too"), "\n").unwrap();
    };
    let (first, second, ()) = tokio::join!(first, second, third);
    let said = format!("{:?} {:?}", first.2, second.2);
    assert!(said.contains("core.fsmonitor"), "{said}");
    assert!(!said.contains("another program"), "{said}");
    assert_eq!(fs::read_to_string(&config).unwrap(), before);
}

#[tokio::test]
async fn a_view_of_the_kernel_is_no_working_directory() {
    for folder in ["/proc", "/sys", "/dev", "/proc/self/fd"] {
        let user = User::new();
        let mut config = user.config.clone();
        config.workspace = vec![folder.into()];
        let refused =
            Sandbox::start(SandboxConfig::new(config).unwrap().with_helper(HELPER)).err().unwrap().message;
        assert!(
            refused.contains("no command can run in") && refused.contains("such as that of a project"),
            "{folder}: {refused}"
        );
    }
}
