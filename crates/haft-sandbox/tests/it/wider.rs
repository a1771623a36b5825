//! Folders that settings let commands write beside the working directories, other names of what is hidden,
//! and where a remote may lead.
//!
//! Each attempt has its control: outside of the sandbox, or without what is tried, it works.

use std::fs;
use std::path::Path;

use haft::files::{GrantedAccess, GrantedRoot, HiddenPaths};
use haft::ports::{ConfinementRefusal, ProcessExit};
use haft::testing::with_restrictions;

use crate::appears;
use crate::attack::attack;
use crate::profile::{User, git};

/// A folder that commands may write, with a repository of the user's in it.
fn with_out() -> User {
    let mut user = User::new();
    fs::create_dir_all(user.at("out/r")).unwrap();
    git(&user.at("out/r"), &["init", "-q"]);
    user.config.allow_write.push(user.at("out"));
    user
}

fn told(refused: &[ConfinementRefusal]) -> String {
    format!("{refused:?}")
}

#[tokio::test]
async fn names_are_protected_where_settings_let_commands_write() {
    let user = with_out();
    let session = user.session();
    session.good("echo x > ../out/f && mkdir ../out/d && echo x > ../out/r/f && git -C ../out/r add f").await;
    for script in [
        "echo '[core] fsmonitor = x' >> ../out/r/.git/config",
        "echo x > ../out/r/.git/hooks/pre-commit",
        "mv ../out/r ../out/s",
    ] {
        session.bad(script).await;
    }
    let script = "cd ../out; echo x > .envrc; echo x > r/.envrc; mkdir .vscode; echo '{}' > .vscode/x; echo '{}' > .mcp.json";
    let (exit, said, refused) = session.run(session.request(script)).await;
    assert_eq!((exit, refused.len()), (ProcessExit::Code(0), 4), "{said} {refused:?}");
    for name in [".envrc", "r/.envrc", ".vscode", ".mcp.json"] {
        assert!(!user.at("out").join(name).exists(), "{name} is left");
    }
}

#[tokio::test]
async fn a_repository_that_a_command_makes_there_runs_nothing() {
    attack(
        r#"
        a new repository
          in: out/n out/deep/er/n
          writable: out
          run: git init -q ../FOLDER && poison >> ../FOLDER/.git/config
          then: git -C ../FOLDER status
          says: core.fsmonitor
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_folder_that_is_named_by_a_link_is_protected_too() {
    let mut user = with_out();
    std::os::unix::fs::symlink(user.at("out"), user.at("way")).unwrap();
    user.config.allow_write = vec![user.at("way")];
    let session = user.session();
    session.good("echo x > ../way/f && echo x > ../out/g").await;
    let (_, said, refused) = session.run(session.request("echo x > ../way/.envrc")).await;
    assert!(told(&refused).contains("out/.envrc") && !user.at("out/.envrc").exists(), "{said} {refused:?}");
    session.bad("echo x > ../way/r/.git/hooks/pre-commit").await;
}

/// Whoever pushes there runs the hooks that a command has put into it; where no command writes it may lead.
#[tokio::test]
async fn a_remote_may_not_lead_to_where_commands_write() {
    attack(
        r#"
        user: git init -q --bare $ROOT/up.git; git remote add origin ../up.git
        then: git push -q origin HEAD:refs/heads/new
        says: `remote.origin.url` was changed, and that was undone
        good: test $(git config remote.origin.url) = ../up.git
        free: git remote set-url origin ../other.git
        git remote set-url origin "$PWD/.x.git"
          run: git init -q --bare .x.git && hook .x.git/hooks/pre-receive && git remote set-url origin "$PWD/.x.git"
        git remote set-url origin .x.git
          run: git init -q --bare .x.git && hook .x.git/hooks/pre-receive && git remote set-url origin .x.git
        git remote set-url origin "file://$PWD/.x.git"
          run: git init -q --bare .x.git && hook .x.git/hooks/pre-receive && git remote set-url origin "file://$PWD/.x.git"
        git remote remove origin; git remote add origin ./.x.git
          run: git init -q --bare .x.git && hook .x.git/hooks/pre-receive && git remote remove origin; git remote add origin ./.x.git
        ln -s "$PWD/.x.git" l; git remote set-url origin ./l
          run: git init -q --bare .x.git && hook .x.git/hooks/pre-receive && ln -s "$PWD/.x.git" l; git remote set-url origin ./l
        "#,
    )
    .await;
}

#[tokio::test]
async fn what_is_hidden_is_hidden_by_its_other_names() {
    let mut user = User::new();
    fs::create_dir_all(user.at("work/deep/er")).unwrap();
    fs::create_dir_all(user.at("work/sec")).unwrap();
    fs::write(user.at("work/.env"), "SECRET").unwrap();
    fs::write(user.at("work/sec/key"), "SECRET").unwrap();
    fs::hard_link(user.at("work/.env"), user.at("work/deep/er/other")).unwrap();
    fs::hard_link(user.at("work/sec/key"), user.at("work/copy")).unwrap();
    assert!(user.session().good("cat deep/er/other copy").await.contains("SECRET"), "the control");
    let sec = user.at("work/sec");
    let denies = move |path: &Path| path.ends_with(".env") || path.starts_with(&sec);
    user.config.rules =
        with_restrictions(&user.config.rules, |rules| rules.unreadable = Some(HiddenPaths::new(denies)));
    let session = user.session();
    for script in
        ["cat .env", "cat deep/er/other", "cat sec/key", "cat copy", "mv deep d2 && cat d2/er/other"]
    {
        session.bad(script).await;
    }
    session.good("cat README && touch deep/er/new").await;
}

#[tokio::test]
async fn a_name_in_a_folder_that_is_not_there_is_put_aside() {
    let mut user = User::new();
    user.config.rules =
        with_restrictions(&user.config.rules, |rules| rules.unwritable_paths.push(user.at("work/d/later")));
    let session = user.session();
    let (exit, said, refused) =
        session.run(session.request("mkdir d && echo x > d/later && echo x > d/other")).await;
    assert_eq!(exit, ProcessExit::Code(0), "{said}");
    assert!(told(&refused).contains("d/later"), "{refused:?}");
    assert!(!user.at("work/d/later").exists() && user.at("work/d/other").exists());
    // Also where the folder is there.
    let (_, _, refused) = session.run(session.request("echo x > d/later")).await;
    assert!(told(&refused).contains("d/later"), "{refused:?}");
    session.good("echo x > d/more").await;
    assert!(!user.at("work/d/later").exists());
}

/// What a call was granted ends with it: it can't be handed to a command that goes on.
#[tokio::test]
async fn a_grant_is_not_handed_to_another_command() {
    const TAKE: &str = "import socket, array, os, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(1); open('begun', 'w').close()
s.settimeout(0.02)
while True:
    ended = os.path.exists('ended')
    try: c, _ = s.accept(); break
    except TimeoutError:
        if ended: sys.exit()
c.settimeout(60)
_, sent, _, _ = c.recvmsg(9, socket.CMSG_SPACE(8))
os.write(array.array('i', sent[0][2])[0], b'LATER'); open('taken', 'w').close()";
    const GIVE: &str = "import socket, array, os, sys
f = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND); os.write(f, b'NOW')
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [f]))])";
    let user = User::new();
    fs::write(user.at("work/take.py"), TAKE).unwrap();
    fs::write(user.at("work/give.py"), GIVE).unwrap();
    let session = user.session();
    let file = user.at("other/file");
    let granted = || GrantedAccess { write: vec![GrantedRoot::file(&file)], ..GrantedAccess::default() };
    for way in ["/tmp/s", "./s"] {
        for name in ["begun", "ended"] {
            let _ = fs::remove_file(user.at("work").join(name));
        }
        let taking = session.run(session.request(&format!("python3 take.py {way}; true")));
        let giving = async {
            appears(user.at("work/begun")).await;
            let mut give = session.request(&format!("python3 give.py {way} {}", file.display()));
            give.access = granted();
            let given = session.run(give).await;
            fs::write(user.at("work/ended"), "").unwrap();
            given
        };
        let (_, (exit, said, _)) = tokio::join!(taking, giving);
        assert!(
            exit != ProcessExit::Code(0) && said.contains("ermission") || said.contains("upported"),
            "{said}"
        );
        assert!(!user.at("work/taken").exists(), "{way}");
        assert!(fs::read_to_string(&file).unwrap().ends_with("NOW"), "the grant itself counts");
    }
    // Without another command there is nobody to hand it to, and sockets work as always.
    let mut alone = session.request("python3 -c 'import socket; socket.socket(socket.AF_UNIX)'");
    alone.access = granted();
    assert_eq!(session.run(alone).await.0, ProcessExit::Code(0));
}

/// To read in `/proc`, of which each command has its own, is nothing that could be handed over.
#[tokio::test]
async fn commands_with_nothing_of_the_hosts_talk_to_each_other() {
    const LISTEN: &str = "import socket
s = socket.socket(socket.AF_UNIX); s.bind('/tmp/talk'); s.listen(1); open('listens', 'w').close()
s.settimeout(60); c, _ = s.accept(); print(c.recv(9))";
    const TALK: &str =
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/tmp/talk'); s.send(b'hello')";
    let mut user = User::new();
    fs::write(user.at("work/listen.py"), LISTEN).unwrap();
    fs::write(user.at("work/talk.py"), TALK).unwrap();
    user.config.results = Some(user.at("state/results"));
    let session = user.session();
    fs::create_dir_all(user.at("state/results")).unwrap();
    let request = |script: &str| {
        let mut request = session.request(script);
        let nothing = [
            GrantedRoot::file("/proc/cpuinfo"),
            GrantedRoot::file(user.at("none")),
            GrantedRoot::subtree(user.at("state/results")),
        ];
        request.access.read.extend(nothing);
        request
    };
    let talking = async {
        appears(user.at("work/listens")).await;
        session.run(request("python3 talk.py")).await
    };
    let ((heard, said, _), (talked, words, _)) =
        tokio::join!(session.run(request("python3 listen.py")), talking);
    assert_eq!((heard, talked), (ProcessExit::Code(0), ProcessExit::Code(0)), "{said} {words}");
    assert!(said.contains("hello"), "{said}");
}
