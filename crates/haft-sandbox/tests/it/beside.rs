//! Commands that run beside others, and people who use git meanwhile: what one of them opens is open to none
//! of the others.
//!
//! Each attempt has its control: before the folder was closed, or in the foreground, it works.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use haft::ports::{BackgroundFlag, ConfinementRefusal, ProcessExit, Processes as _};
use haft::testing::with_restrictions;
use haft_git::RepositoryLevel;

use crate::profile::{Session, User, configuration, git, level};
use crate::until;

const EVIL: &str = "[core]\\n\\tfsmonitor = evil\\n";

fn in_background() -> BackgroundFlag {
    let background = BackgroundFlag::default();
    background.begin();
    background
}

fn config(user: &User) -> String {
    fs::read_to_string(user.at("work/.git/config")).unwrap()
}

/// Runs a command, and meanwhile something else until it has ended.
async fn beside<T: Send + 'static>(
    session: &Session<'_>,
    request: haft::ports::ProcessRequest,
    other: impl FnOnce() -> T + Send + 'static,
) -> (ProcessExit, String, Vec<ConfinementRefusal>, T) {
    let other = tokio::task::spawn_blocking(other);
    let outcome = session.sandbox.run(request).await.unwrap();
    let said = String::from_utf8_lossy(&outcome.stdout.head).into_owned();
    (outcome.exit, said, outcome.refused, other.await.unwrap())
}

/// Tries to write the configuration until it can or is told to stop.
fn tries() -> String {
    format!(
        "touch ready; until printf '{EVIL}' >> .git/config; do test -e stop && exit 3; sleep 0.01; done 2>/dev/null; \
         touch wrote; until test -e stop; do sleep 0.01; done"
    )
}

/// Who gives the name to another file takes away the mount that lies on it.
#[tokio::test]
async fn a_configuration_that_is_replaced_outside_stays_as_it_is() {
    for background in [false, true] {
        let user = User::new();
        let session = user.session();
        let mut request = session.request(&tries());
        if background {
            request = request.with_background(in_background());
        }
        let work = user.at("work");
        let user_meanwhile = move || {
            until("the command runs", || work.join("ready").exists());
            git(&work, &["config", "user.name", "other"]);
            // Another one that works with git, which nothing hinders.
            git(&work, &["config", "user.email", "o@ther"]);
            let meanwhile = fs::read_to_string(work.join(".git/config")).unwrap();
            fs::write(work.join("stop"), "").unwrap();
            meanwhile
        };
        let (exit, said, refused, meanwhile) = beside(&session, request, user_meanwhile).await;
        // In the foreground there is a moment until it is covered again, and then what was written there
        // counts until the end.
        let wrote = exit == ProcessExit::Code(0);
        assert!(exit == ProcessExit::Code(3) || wrote && !background, "{exit:?}: {said}");
        assert!(wrote || !meanwhile.contains("evil"));
        let now = config(&user);
        assert!(!now.contains("evil") && now.contains("other") && now.contains("o@ther"), "{now}");
        let told = refused.iter().find_map(|refused| match refused {
            ConfinementRefusal::Changed { done, .. } if done.contains("was changed") => Some(done.clone()),
            _ => None,
        });
        assert!(!background || told.is_none(), "{refused:?}");
        if let Some(told) = told.filter(|_| wrote) {
            assert!(told.contains("`core.fsmonitor`") && !told.contains("a command changed"), "{told}");
            let kept = told.rsplit('`').nth(1).unwrap();
            assert!(fs::read_to_string(kept).unwrap().contains("evil"), "{told}");
        }
    }
}

/// An editor that saves a file gives its name to another one, and takes away what lay on it.
#[tokio::test]
async fn names_that_are_given_to_other_files_are_covered_again() {
    for background in [false, true] {
        let mut user = User::new();
        fs::create_dir(user.at("work/deep")).unwrap();
        for name in [".env", "deep/.env", ".mcp.json"] {
            fs::write(user.at("work").join(name), "SECRET").unwrap();
        }
        user.config.rules = with_restrictions(&user.config.rules, |rules| {
            rules.unreadable_paths.extend([user.at("work/.env"), user.at("work/deep/.env")])
        });
        let session = user.session();
        let script = "cat .env deep/.env && exit 4; (: >> .mcp.json) && exit 5; \
                      touch ready; until test -e replaced; do sleep 0.01; done; \
                      while cat .env > was || cat deep/.env > was || (: >> .mcp.json); do \
                      test -e stop && exit 6; sleep 0.01; done 2> /dev/null; touch covered; \
                      cat plain; until test -e stop; do sleep 0.01; done; cat .env deep/.env && exit 7; \
                      (: >> .mcp.json) && exit 8; true";
        // A command that writes repositories may replace files that git replaces.
        let mut request = session.request(script).with_protection(level(RepositoryLevel::None));
        if background {
            request = request.with_background(in_background());
        }
        let work = user.at("work");
        let editor = move || {
            until("the command runs", || work.join("ready").exists());
            let save = |name: &str| {
                let meanwhile = work.join("deep/.saved");
                fs::write(&meanwhile, "SECRET").unwrap();
                fs::rename(&meanwhile, work.join(name)).unwrap();
            };
            for _ in 0..50 {
                [".env", "deep/.env", ".mcp.json", "plain"].into_iter().for_each(save);
            }
            fs::write(work.join("replaced"), "").unwrap();
            let came = std::panic::catch_unwind(|| until("all is covered", || work.join("covered").exists()));
            fs::write(work.join("stop"), "").unwrap();
            came.is_ok()
        };
        let (exit, said, refused, came) = beside(&session, request, editor).await;
        assert!(came && exit == ProcessExit::Code(0), "{exit:?}: {said} {refused:?}");
        assert_eq!(said.matches("SECRET").count(), 1, "only what isn't hidden: {said}");
        assert_eq!(fs::read_to_string(user.at("work/.mcp.json")).unwrap(), "SECRET");
    }
}

#[tokio::test]
async fn a_command_that_moves_to_the_background_loses_the_folders_of_git() {
    let user = User::new();
    let session = user.session();
    let script = format!(
        "exec 9>>.git/config; mkdir .git/rebase-merge; exec 8>.git/rebase-merge/git-rebase-todo; echo pick >&8; cd .git; \
         touch index.lock && rm index.lock && touch ../ready; \
         while (: > index.lock); do rm index.lock; sleep 0.01; done 2>/dev/null; \
         cd \"$OLDPWD\"; touch closed; until test -e look; do sleep 0.01; done; \
         printf '{EVIL}' >&9; echo 'exec evil' >&8; printf '{EVIL}' >> .git/config; git commit -q --allow-empty -m x; \
         echo x > plain; touch done; until test -e stop; do sleep 0.01; done"
    );
    let background = BackgroundFlag::default();
    let request =
        session.request(&script).with_protection(configuration()).with_background(background.clone());
    let work = user.at("work");
    let meanwhile = move || {
        until("it writes there", || work.join("ready").exists());
        let numbers = || {
            let of = |name: &str| fs::metadata(work.join(".git").join(name)).map_or(0, |found| found.ino());
            [of("config"), of("rebase-merge/git-rebase-todo")]
        };
        let before = numbers();
        background.begin();
        until("it can't any more", || work.join("closed").exists());
        // Both are other files as soon as somebody has looked at them.
        until("somebody has looked", || numbers().iter().zip(before).all(|(now, before)| *now != before));
        fs::write(work.join("look"), "").unwrap();
        until("it has tried", || work.join("done").exists());
        let now = ["config", "rebase-merge/git-rebase-todo"]
            .map(|name| fs::read_to_string(work.join(".git").join(name)).unwrap());
        fs::write(work.join("stop"), "").unwrap();
        now
    };
    let (exit, said, refused, now) = beside(&session, request, meanwhile).await;
    assert_eq!(exit, ProcessExit::Code(0), "{said}");
    assert!(now.iter().all(|now| !now.contains("evil")), "{now:?}");
    assert!(user.at("work/plain").exists() && said.contains("ead-only file system"), "{said}");
    let explained = |refused: &ConfinementRefusal| matches!(refused, ConfinementRefusal::Held { why, .. } if why.contains("in the foreground"));
    assert!(refused.iter().any(explained), "{refused:?}");
}

/// A descriptor of a folder outlives the view that it is of.
#[tokio::test]
async fn what_another_command_hands_over_opens_nothing() {
    let receives = "
import socket,os,time,array
s=socket.socket(socket.AF_UNIX); s.bind('/tmp/s'); s.listen(1); open('ready','w'); c,_=s.accept()
m,sent,_,_=c.recvmsg(9,socket.CMSG_SPACE(64)); top,git,config,plain=array.array('i',sent[0][2])
open('got','w')
while not os.path.exists('go'): time.sleep(0.01)
evil=b'[core]\\n\\tfsmonitor = evil\\n'
def tried(what,act):
  try: act(); print('did',what)
  except OSError as e: print('refused',what,e.errno)
tried('file',lambda: os.write(config,evil))
for name,at in ('.git/config',top),('config',git),('.git/hooks/pre-commit',top),('.mcp.json',top):
  tried(name,lambda: os.write(os.open(name,os.O_WRONLY|os.O_CREAT|os.O_APPEND,dir_fd=at),evil))
tried('secret',lambda: print(os.read(os.open('secret',os.O_RDONLY,dir_fd=top),99)))
tried('README',lambda: os.read(os.open('README',os.O_RDONLY,dir_fd=top),99))
tried('plain',lambda: os.write(plain,b'x'))
open('done','w')
while not os.path.exists('stop'): time.sleep(0.01)
";
    let sends = "
import socket,os,array
fds=[os.open('.',0),os.open('.git',0),os.open('.git/config',os.O_RDWR|os.O_APPEND),os.open('plain',os.O_RDWR|os.O_CREAT)]
s=socket.socket(socket.AF_UNIX); s.connect('/tmp/s'); s.sendmsg([b'x'],[(socket.SOL_SOCKET,socket.SCM_RIGHTS,array.array('i',fds))])
import time
while not os.path.exists('got'): time.sleep(0.01)
";
    let mut user = User::new();
    for (name, content) in [("receives.py", receives), ("sends.py", sends), ("secret", "SECRET")] {
        fs::write(user.at("work").join(name), content).unwrap();
    }
    fs::write(user.at("work/.mcp.json"), "{}").unwrap();
    user.config.rules =
        with_restrictions(&user.config.rules, |rules| rules.unreadable_paths.push(user.at("work/secret")));
    let session = user.session();
    let behind = session.request("python3 receives.py").with_background(in_background());
    let front = session.request("python3 sends.py").with_protection(configuration());
    let in_front = async {
        let work = user.at("work");
        let ready = work.join("ready");
        tokio::task::spawn_blocking(move || until("it listens", || ready.exists())).await.unwrap();
        let (exit, said, _) = session.run(front).await;
        assert_eq!(exit, ProcessExit::Code(0), "{said}");
        fs::write(work.join("go"), "").unwrap();
        let done = work.join("done");
        tokio::task::spawn_blocking(move || until("it has tried", || done.exists())).await.unwrap();
        let now = (config(&user), fs::read_to_string(work.join(".mcp.json")).unwrap());
        fs::write(work.join("stop"), "").unwrap();
        now
    };
    let ((exit, said, _), (config, servers)) = tokio::join!(session.run(behind), in_front);
    assert_eq!(exit, ProcessExit::Code(0), "{said}");
    assert!(!config.contains("evil") && servers == "{}", "{said}\n{config}");
    assert!(!said.contains("SECRET") && !user.at("work/.git/hooks/pre-commit").exists(), "{said}");
    // The controls: what was handed over can be used.
    for honest in ["did README", "did plain", "did file"] {
        assert!(said.contains(honest), "{said}");
    }
    for refused in [".git/config", "config", ".git/hooks/pre-commit", ".mcp.json", "secret"] {
        assert!(said.contains(&format!("refused {refused} ")), "{refused}: {said}");
    }
}

/// What is open to a command while another one runs in the background is the user's as before.
#[tokio::test]
async fn git_goes_on_beside_a_command_in_the_background() {
    let user = User::new();
    let session = user.session();
    let behind = session
        .request("touch ready; until test -e stop; do git status --short > seen; sleep 0.01; done")
        .with_background(in_background());
    let in_front = async {
        let ready = user.at("work/ready");
        tokio::task::spawn_blocking(move || until("it runs", || ready.exists())).await.unwrap();
        for script in [
            "git add README; git commit -q --allow-empty -m x",
            "git config pull.rebase true && git switch -q -c other && git switch -q main",
            "git worktree add -q wt && git -C wt commit -q --allow-empty -m y && git worktree remove --force wt",
        ] {
            let (exit, said, refused) =
                session.run(session.request(script).with_protection(configuration())).await;
            assert_eq!((exit, refused), (ProcessExit::Code(0), vec![]), "{script}: {said}");
            // What the user does meanwhile is nobody's fault.
            let work = user.at("work");
            git(&work, &["config", "core.editor", "vim"]);
            git(&work, &["config", "core.pager", "less"]);
        }
        assert!(config(&user).contains("vim"));
        fs::write(user.at("work/stop"), "").unwrap();
    };
    let ((exit, said, refused), ()) = tokio::join!(session.run(behind), in_front);
    assert_eq!(exit, ProcessExit::Code(0), "{said}");
    assert!(
        refused.iter().all(|refused| matches!(refused, ConfinementRefusal::Changed { .. })),
        "{refused:?}"
    );
    assert!(config(&user).contains("vim"));
    let shown = Command::new("git").args(["log", "--oneline"]).current_dir(user.at("work")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&shown.stdout).lines().count(), 2);
}
