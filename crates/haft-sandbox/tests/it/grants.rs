//! What a user has allowed for one call really happens at the real place, and nothing beside it does.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haft::files::{GrantedAccess, GrantedRoot, PinnedPaths, resolve_path};
use haft::ports::{ConfinementLevel, ConfinementRefusal, ProcessExit};
use haft::testing::with_restrictions;

use crate::profile::{Session, User, git};

fn write(roots: impl IntoIterator<Item = GrantedRoot>) -> GrantedAccess {
    GrantedAccess { write: roots.into_iter().collect(), ..GrantedAccess::default() }
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Runs a script with these grants, after one without; it must end well, and nothing be said of it.
async fn allowed(session: &Session<'_>, script: &str, access: GrantedAccess) -> String {
    session.good("true").await;
    allowed_now(session, script, access).await
}

async fn allowed_now(session: &Session<'_>, script: &str, access: GrantedAccess) -> String {
    let (exit, said, refused) = session.run(session.request(script).with_access(access, Vec::new())).await;
    assert_eq!((exit, refused), (ProcessExit::Code(0), vec![]), "`{script}` said: {said}");
    said
}

#[tokio::test]
async fn a_granted_file_can_be_replaced_and_removed() {
    let user = User::new();
    let session = user.session();
    let file = user.at("other/file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let grant = || write([GrantedRoot::file(&file)]);
    let content = || fs::read_to_string(&file).unwrap();

    let before = file.metadata().unwrap().ino();
    allowed(&session, "echo in place >> ../other/file", grant()).await;
    assert_eq!((content().as_str(), file.metadata().unwrap().ino()), ("otherin place\n", before));
    assert_eq!(file.metadata().unwrap().nlink(), 1, "no second name is left");

    allowed(&session, "sed -i s/other/sed/ ../other/file", grant()).await;
    assert_eq!(content(), "sedin place\n");
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640);

    allowed(&session, "echo moved > new && mv new ../other/file", grant()).await;
    assert_eq!(content(), "moved\n");
    assert_eq!(names(&user.at("other")), ["file"]);

    allowed(&session, "rm ../other/file", grant()).await;
    assert_eq!(names(&user.at("other")), [] as [&str; 0]);

    allowed(&session, "test ! -e ../other/file && echo again > ../other/file", grant()).await;
    assert_eq!(content(), "again\n");
    allowed(&session, "true", grant()).await;
    assert_eq!(content(), "again\n");
}

#[tokio::test]
async fn settings_of_the_user_can_be_changed_if_they_are_granted() {
    let user = User::new();
    let session = user.session();
    let grant = || write([GrantedRoot::file(user.at("home/.gitconfig"))]);
    allowed(&session, "git config --global core.editor vim && ls ~/.local/bin ~/.npm/_cacache", grant())
        .await;
    let content = fs::read_to_string(user.at("home/.gitconfig")).unwrap();
    assert!(content.contains("vim") && content.contains("SECRET"), "{content}");
    // Neither what else is in the home folder is seen, nor does anything stay there.
    let (_, said, refused) = session
        .run(session.request("echo x > ~/.bashrc; cat ~/.ssh/id_ed25519").with_access(grant(), vec![]))
        .await;
    assert!(!said.contains("SECRET") && refused.is_empty(), "{said} {refused:?}");
    assert!(!user.at("home/.bashrc").exists());
}

#[tokio::test]
async fn what_is_granted_and_not_there_is_made_where_it_was_granted() {
    let user = User::new();
    let session = user.session();
    let file = |path: &str| GrantedRoot::file(user.at(path));
    let tree = |path: &str| GrantedRoot::subtree(user.at(path));

    allowed(&session, "mkdir ../out", write([file("out")])).await;
    assert!(user.at("out").is_dir());
    allowed(&session, "mkdir -p ../a/b && echo 1 > ../a/b/c", write([file("a/b"), file("a/b/c")])).await;
    assert_eq!(fs::read_to_string(user.at("a/b/c")).unwrap(), "1\n");
    allowed(&session, "git init -q ../repo/x && git -C ../repo/x config a.b c", write([tree("repo/x")]))
        .await;
    assert!(user.at("repo/x/.git/HEAD").exists());
    allowed(&session, "mkdir from && echo 2 > from/f && mv from ../to", write([tree("to")])).await;
    assert_eq!(names(&user.at("to")), ["f"]);
    allowed(&session, "ln -s ../out ../link", write([file("link")])).await;
    assert_eq!(fs::read_link(user.at("link")).unwrap(), Path::new("../out"));

    // Who makes nothing leaves nothing.
    allowed(&session, "true", write([file("none/at/all"), tree("nothing"), file("nor/this")])).await;
    let all = ["a", "home", "link", "other", "out", "repo", "state", "to", "work"];
    assert_eq!(names(&user.root), all);
    assert_eq!(names(&user.at("state/caches/standing-in")), [] as [&str; 0]);
}

#[tokio::test]
async fn a_grant_of_a_name_is_no_grant_of_its_neighbours() {
    let user = User::new();
    fs::write(user.at("other/kept"), "kept").unwrap();
    let session = user.session();
    session.good("true").await;
    let grant = || write([GrantedRoot::file(user.at("other/file")), GrantedRoot::file(user.at("new/dir"))]);
    let script = "cat ../other/kept; echo x > ../other/kept; echo y > ../other/more; mkdir -p ../new/dir/sub; \
                  ln -s /etc/passwd ../new/link; rm -f ../other/none; echo z > ../other/file";
    let (_, said, refused) = session.run(session.request(script).with_access(grant(), vec![])).await;
    assert!(!said.contains("kept\n"), "{said}");
    assert_eq!(fs::read_to_string(user.at("other/kept")).unwrap(), "kept");
    assert_eq!(fs::read_to_string(user.at("other/file")).unwrap(), "z\n");
    assert_eq!(
        (names(&user.at("other")), names(&user.at("new"))),
        (vec!["file".to_owned(), "kept".to_owned()], vec!["dir".to_owned()])
    );
    assert_eq!(names(&user.at("new/dir")), [] as [&str; 0]);
    let told: Vec<PathBuf> = refused
        .iter()
        .map(|refused| match refused {
            ConfinementRefusal::Protected { path, done } => {
                assert!(done.contains("was not kept") || done.contains("was not put there"), "{done}");
                path.clone()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let mut expected =
        ["new/dir/sub", "new/link", "other/kept", "other/more"].map(|path| user.at(path)).to_vec();
    let mut told = told;
    told.sort();
    expected.sort();
    assert_eq!(told, expected);
}

#[tokio::test]
async fn no_tree_is_made_that_brings_along_what_is_never_written() {
    let mut user = User::new();
    user.config.rules = with_restrictions(&user.config.rules, |rules| {
        rules.unwritable_paths.push(user.at("later/.config/own"))
    });
    let session = user.session();
    let script = "mkdir -p ../later/.config/own && echo evil > ../later/.config/own/x; mkdir ../fine";
    let access =
        write([GrantedRoot::subtree(user.at("later/.config")), GrantedRoot::subtree(user.at("fine"))]);
    session.run(session.request(script).with_access(access, Vec::new())).await;
    assert!(!user.at("later/.config/own").exists() && user.at("fine").is_dir());
}

#[tokio::test]
async fn what_is_granted_in_the_temporary_folder_of_the_machine_is_made_there() {
    let mut user = User::new();
    // As it is for a user: on the same disk as what it stands in for.
    let temp = tempfile::tempdir_in("/tmp").unwrap();
    user.config.temp = temp.path().canonicalize().unwrap().join("session");
    let session = user.session();
    let real = tempfile::Builder::new().prefix("granted-").tempdir_in("/tmp").unwrap();
    let name = real.path().file_name().unwrap().to_str().unwrap().to_owned();
    let (new, folder) = (format!("/tmp/{name}.txt"), format!("/tmp/{name}.d"));

    allowed(&session, &format!("echo 1 > {new}; echo private > /tmp/mine"), write([GrantedRoot::file(&new)]))
        .await;
    assert_eq!(fs::read_to_string(&new).unwrap(), "1\n");
    allowed(&session, &format!("sed -i s/1/2/ {new}"), write([GrantedRoot::file(&new)])).await;
    assert_eq!(fs::read_to_string(&new).unwrap(), "2\n");
    // Not granted: the session's own, in which what is granted isn't left either.
    session.bad(&format!("cat {new}")).await;
    assert_eq!(session.good("cat /tmp/mine").await, "private\n");
    allowed(&session, &format!("rm {new}"), write([GrantedRoot::file(&new)])).await;
    assert!(!Path::new(&new).exists());

    allowed(
        &session,
        &format!("mkdir -p {folder}/a && echo 3 > {folder}/a/b"),
        write([GrantedRoot::subtree(&folder)]),
    )
    .await;
    assert_eq!(fs::read_to_string(format!("{folder}/a/b")).unwrap(), "3\n");
    let inside = format!("/tmp/{name}/in");
    allowed(&session, &format!("echo 4 > {inside}"), write([GrantedRoot::file(&inside)])).await;
    assert_eq!(fs::read_to_string(inside).unwrap(), "4\n");
    fs::remove_dir_all(folder).unwrap();
    session.good("test ! -e /tmp/new && echo 5 > /tmp/new").await;
    assert!(user.config.temp.join("new").exists());
}

#[tokio::test]
async fn a_name_beside_a_folder_above_the_workspace_can_be_granted() {
    let shared = tempfile::tempdir_in("/tmp").unwrap();
    let shared = shared.path().canonicalize().unwrap();
    let (work, deep) = (shared.join("above/further/work"), shared.join("above/new/deep"));
    fs::create_dir_all(&work).unwrap();
    fs::write(work.join("file"), "workspace").unwrap();
    let mut user = User::new();
    user.config.workspace = vec![work.clone()];
    let session = user.session();
    for granted in [shared.join("new"), shared.join("above/new.txt"), deep] {
        let script = format!(
            "mkdir -p {0} && echo 1 > {1} && cat file && touch made",
            granted.parent().unwrap().display(),
            granted.display()
        );
        let mut request =
            session.request(&script).with_access(write([GrantedRoot::file(&granted)]), Vec::new());
        request.cwd = work.clone();
        let (exit, said, refused) = session.run(request).await;
        assert_eq!((exit, &*said, refused), (ProcessExit::Code(0), "workspace", vec![]), "{granted:?}");
        assert_eq!(fs::read_to_string(&granted).unwrap(), "1\n");
        assert!(work.join("made").exists() && !shared.join("above/further/work/above").exists());
        fs::remove_file(work.join("made")).unwrap();
    }
    assert_eq!(names(&shared), ["above", "new"]);
    assert_eq!(names(&shared.join("above")), ["further", "new", "new.txt"]);
}

#[tokio::test]
async fn what_a_killed_session_left_goes_when_the_next_one_starts() {
    let user = User::new();
    let left = user.at("state/caches/standing-in/1-0");
    fs::create_dir_all(left.join("x")).unwrap();
    let beside = user.at("other/.haft-standing-in-1-1");
    fs::create_dir(&beside).unwrap();
    std::os::unix::fs::symlink(&beside, user.at("state/caches/standing-in/1-1")).unwrap();
    // A record that leads to something of the user's is none of ours.
    std::os::unix::fs::symlink(user.at("other"), user.at("state/caches/standing-in/1-2")).unwrap();
    drop(user.session());
    assert!(!left.exists() && !beside.exists() && user.at("other/file").exists());
}

#[tokio::test]
async fn a_call_sees_what_was_held_when_it_was_allowed() {
    let user = User::new();
    let session = user.session();
    fs::create_dir(user.at("evil")).unwrap();
    for (path, content) in [("evil/file", "EVIL"), ("other/sub", "sub")] {
        fs::write(user.at(path), content).unwrap();
    }
    let held = |paths: &[&str]| {
        let judged: Vec<_> =
            paths.iter().map(|path| resolve_path(&user.root, Path::new(path)).unwrap()).collect();
        PinnedPaths::hold(&judged)
    };
    let access = GrantedAccess {
        read: vec![GrantedRoot::subtree(user.at("other"))],
        write: vec![GrantedRoot::file(user.at("work2/new"))],
        held: held(&["other", "work2/new"]),
        ..GrantedAccess::default()
    };
    // After the yes another folder has its name.
    fs::rename(user.at("other"), user.at("away")).unwrap();
    fs::rename(user.at("evil"), user.at("other")).unwrap();
    let said = allowed(&session, "cat ../other/file", access).await;
    assert_eq!(said, "other");

    // What is different already when it is to be held isn't shown at all.
    let judged = resolve_path(&user.root, Path::new("away")).unwrap();
    fs::rename(user.at("away"), user.at("once")).unwrap();
    fs::create_dir(user.at("away")).unwrap();
    let access = GrantedAccess {
        read: vec![GrantedRoot::subtree(user.at("away"))],
        held: PinnedPaths::hold([&judged]),
        ..GrantedAccess::default()
    };
    let request = session.request("true").with_access(access, Vec::new());
    let refused = haft::ports::Processes::run(&session.sandbox, request).await.unwrap_err().message;
    assert!(refused.contains("is no longer what it was when this call was allowed"), "{refused}");
}

#[tokio::test]
async fn nobody_who_renames_meanwhile_changes_what_is_shown() {
    const ROUNDS: usize = 100;
    let user = User::new();
    let session = user.session();
    for (path, content) in [("one/file", "MINE"), ("two/file", "EVIL")] {
        fs::create_dir_all(user.at(path).parent().unwrap()).unwrap();
        fs::write(user.at(path), content).unwrap();
    }
    let judged = ["one", "one/file"].map(|path| resolve_path(&user.root, Path::new(path)).unwrap());
    let held = PinnedPaths::hold(&judged);
    let stop = Arc::new(AtomicBool::new(false));
    let racer = {
        let (stop, one, two) = (stop.clone(), user.at("one"), user.at("two"));
        std::thread::spawn(move || {
            let mut swaps = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &one, rustix::fs::CWD, &two, flags).unwrap();
                swaps += 1;
            }
            swaps
        })
    };
    let mut seen = 0;
    for round in 0..ROUNDS {
        let (roots, script) = match round % 2 {
            0 => (vec![GrantedRoot::subtree(user.at("one"))], "cat ../one/file"),
            _ => (vec![GrantedRoot::file(user.at("one/file"))], "cat ../one/file"),
        };
        let access = GrantedAccess { read: roots, held: held.clone(), ..GrantedAccess::default() };
        let request = session.request(script).with_access(access, Vec::new());
        let request = request.with_confinement(ConfinementLevel::ReadOnly);
        // It may be refused, where the racer always wins.
        if let Ok(outcome) = haft::ports::Processes::run(&session.sandbox, request).await {
            let said = String::from_utf8_lossy(&outcome.stdout.head).into_owned();
            assert_eq!(said, "MINE", "round {round}");
            seen += 1;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let swaps = racer.join().unwrap();
    assert!(swaps > 1_000 && seen > ROUNDS / 2, "{swaps} swaps, {seen} of {ROUNDS} calls ran");
}

#[tokio::test]
async fn a_protected_name_that_is_granted_can_be_written_and_no_other() {
    let user = User::new();
    fs::create_dir(user.at("work/.vscode")).unwrap();
    fs::write(user.at("work/.vscode/settings.json"), "{}").unwrap();
    let session = user.session();
    let grant = write([GrantedRoot::file(user.at("work/.vscode/settings.json"))]);
    allowed(&session, "echo 1 > .vscode/settings.json", grant.clone()).await;
    assert_eq!(fs::read_to_string(user.at("work/.vscode/settings.json")).unwrap(), "1\n");
    let request = session.request("echo 1 > .vscode/tasks.json").with_access(grant, Vec::new());
    let (_, said, refused) = session.run(request).await;
    assert!(format!("{refused:?}").contains("tasks.json"), "{said} {refused:?}");
    assert!(!user.at("work/.vscode/tasks.json").exists());
    git(&user.at("work"), &["status", "--short"]);
}

/// The children of a process, as far as the kernel tells.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

#[tokio::test]
async fn what_is_granted_comes_to_a_sandbox_that_was_made_before() {
    if !crate::confined::is_root() {
        eprintln!("skipped: only root can see in which namespace a spare waits");
        return;
    }
    let user = User::new();
    // A helper that can be told from those of other tests.
    let helper = user.at("helper");
    fs::copy(crate::confined::HELPER, &helper).unwrap();
    let session = user.session_with(&helper);
    session.good("true").await;
    let is_ours = |pid: &u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == helper);
    let ours = children(std::process::id()).into_iter().find(is_ours).unwrap();
    // A namespace and when its first process began: numbers of namespaces are used again.
    let namespaces = || -> Vec<String> {
        let one = |pid: u32| {
            let namespace = fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()?;
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some(format!("{} {}", namespace.display(), stat.rsplit(") ").next()?.split(' ').nth(19)?))
        };
        children(ours).into_iter().filter_map(one).collect()
    };
    let file = user.at("other/file");
    for (script, access) in [
        (
            "cat ../other/file",
            GrantedAccess { read: vec![GrantedRoot::file(&file)], ..GrantedAccess::default() },
        ),
        ("echo 1 > ../other/file", write([GrantedRoot::file(&file)])),
        ("mkdir -p ../new/sub && touch README", write([GrantedRoot::file(user.at("new/sub"))])),
    ] {
        // A spare is made while the command before runs, if the machine is idle enough.
        let tell = "echo $(readlink /proc/self/ns/mnt) $(cut -d' ' -f22 /proc/1/stat)";
        let mut found = 0;
        for _ in 0..20 {
            let waiting = namespaces();
            let said = allowed_now(&session, &format!("{tell}; {script}"), access.clone()).await;
            found += usize::from(waiting.iter().any(|waiting| said.lines().next() == Some(waiting)));
        }
        assert!(found >= 5, "`{script}` ran in a sandbox that had waited {found} times of 20");
    }
}

/// What was said of each path, sorted.
fn told(refused: Vec<ConfinementRefusal>) -> Vec<(PathBuf, String)> {
    let mut told: Vec<(PathBuf, String)> = refused
        .into_iter()
        .map(|refused| match refused {
            ConfinementRefusal::Protected { path, done } => (path, done),
            other => panic!("{other:?}"),
        })
        .collect();
    told.sort();
    told
}

/// All files that were kept, by what is in them.
fn recovered(user: &User) -> Vec<String> {
    let (mut contents, mut folders) = (Vec::new(), vec![user.at("state/caches/recovered")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path())
            } else {
                contents.push(fs::read_to_string(entry.path()).unwrap())
            }
        }
    }
    contents.sort();
    contents
}

#[tokio::test]
async fn a_granted_file_that_is_moved_away_is_not_lost() {
    let user = User::new();
    let session = user.session();
    session.good("true").await;
    let file = user.at("other/file");
    let links = || file.metadata().unwrap().nlink();
    let run = async |script: &str| {
        let access = write([GrantedRoot::file(&file)]);
        let (exit, said, refused) =
            session.run(session.request(script).with_access(access, Vec::new())).await;
        assert_eq!(exit, ProcessExit::Code(0), "{said}");
        (told(refused), fs::read_to_string(&file).unwrap_or_default())
    };
    let none: Vec<String> = Vec::new();

    for script in ["mv ../other/file ../other/g", "cd ../other; mkdir d; ln file d/g; rm file"] {
        let (told, content) = run(script).await;
        assert_eq!(
            (content.as_str(), names(&user.at("other"))),
            ("other", vec!["file".to_owned()]),
            "{script}"
        );
        assert!(told.len() == 1 && told[0].1.contains("stays where it was"), "{told:?}");
        assert_eq!((recovered(&user), links()), (none.clone(), 1));
    }
    // A second name is nothing that could be lost.
    run("ln ../other/file ../other/g").await;
    assert_eq!((recovered(&user), links()), (none.clone(), 1));

    // The old one under another name, and a new one: both are there.
    let (said, content) = run("cd ../other; mv file file.bak; echo new > file").await;
    assert_eq!((content.as_str(), recovered(&user)), ("new\n", vec!["other".to_owned()]));
    assert!(said.len() == 1 && said[0].0 == user.at("other/file.bak"), "{said:?}");
    let kept = user.at("state/caches/recovered").display().to_string();
    assert!(said[0].1.contains(&kept), "{said:?}");

    // What comes from the workspace.
    run("echo mine > mine; mv mine ../other/elsewhere").await;
    assert_eq!(recovered(&user), ["mine\n", "other"]);

    let (said, content) = run("cd ../other; rm file; mkdir file; echo q > file/q").await;
    assert_eq!(
        (content.as_str(), recovered(&user)),
        ("new\n", vec!["mine\n".into(), "other".into(), "q\n".into()])
    );
    assert!(
        said.iter().any(|(path, done)| *path == file && done.contains("would be a folder now")),
        "{said:?}"
    );

    // In the home folder, where nothing else stays.
    let home = user.at("home/.gitconfig");
    let before = fs::read_to_string(&home).unwrap();
    let access = || write([GrantedRoot::file(&home)]);
    let request = session.request("mv ~/.gitconfig ~/other").with_access(access(), Vec::new());
    assert_eq!(told(session.run(request).await.2).len(), 1);
    assert_eq!(fs::read_to_string(&home).unwrap(), before);
    let script = "mv ~/.gitconfig ~/other; echo '[a]' > ~/.gitconfig";
    let request = session.request(script).with_access(access(), Vec::new());
    assert_eq!(told(session.run(request).await.2).len(), 1);
    assert_eq!(fs::read_to_string(&home).unwrap(), "[a]\n");
    assert!(recovered(&user).contains(&before), "{:?}", recovered(&user));
}

#[tokio::test]
async fn a_granted_file_in_the_temporary_folder_is_not_lost_either() {
    let mut user = User::new();
    let temp = tempfile::tempdir_in("/tmp").unwrap();
    user.config.temp = temp.path().canonicalize().unwrap().join("session");
    let session = user.session();
    let file = tempfile::Builder::new().prefix("granted-").tempfile_in("/tmp").unwrap();
    let path = file.path().to_owned();
    fs::write(&path, "precious").unwrap();
    let run = async |script: &str| {
        let script = script.replace("FILE", &path.display().to_string());
        let request = session.request(&script).with_access(write([GrantedRoot::file(&path)]), Vec::new());
        let (exit, said, refused) = session.run(request).await;
        assert_eq!(exit, ProcessExit::Code(0), "{said}");
        told(refused)
    };
    assert_eq!(run("mv FILE /tmp/g").await.len(), 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    // And the next command has no second name of it, through which it could be written.
    run("mkdir /tmp/d; ln FILE /tmp/d/g").await;
    assert_eq!(path.metadata().unwrap().nlink(), 1);
    session.bad("cat /tmp/g").await;
    session.bad("cat /tmp/d/g").await;
    assert_eq!(run("mv FILE /tmp/g; echo new > FILE").await.len(), 1);
    assert_eq!(
        (fs::read_to_string(&path).unwrap().as_str(), recovered(&user)),
        ("new\n", vec!["precious".to_owned()])
    );
    assert!(run("rm FILE").await.is_empty());
    assert!(!path.exists());
}

#[tokio::test]
async fn what_a_killed_session_had_made_is_kept_and_told() {
    let user = User::new();
    let left = user.at("state/caches/standing-in/1-0");
    let beside = user.at("other/.haft-standing-in-1-1");
    fs::create_dir_all(left.join("deep")).unwrap();
    fs::create_dir(&beside).unwrap();
    fs::write(left.join("deep/made"), "made").unwrap();
    fs::write(beside.join("replaced"), "replaced").unwrap();
    fs::hard_link(user.at("other/file"), beside.join("file")).unwrap();
    std::os::unix::fs::symlink(&beside, user.at("state/caches/standing-in/1-1")).unwrap();
    // One for the home folder: only what was granted counts.
    let home = user.at("state/caches/standing-in/1-2");
    fs::create_dir(&home).unwrap();
    for name in [".gitconfig", ".npmrc", ".history"] {
        fs::write(home.join(name), name).unwrap();
    }
    let record = format!("{}\0quiet\0+.gitconfig\0-.npmrc\0", user.at("home").display());
    fs::write(user.at("state/caches/standing-in/1-2.of"), record).unwrap();

    let session = user.session();
    let notes = session.sandbox.notes();
    let kept = user.at("state/caches/recovered").display().to_string();
    assert!(notes.len() == 1 && notes[0].contains("was killed") && notes[0].contains(&kept), "{notes:?}");
    assert!(!left.exists() && !beside.exists() && !home.exists());
    assert_eq!(names(&user.at("state/caches/standing-in")), [] as [&str; 0]);
    assert_eq!(recovered(&user), [".gitconfig", "made", "replaced"]);
    assert_eq!(user.at("other/file").metadata().unwrap().nlink(), 1);
}

#[tokio::test]
async fn a_workspace_a_home_and_a_grant_may_share_a_folder_of_the_temporary_one() {
    let shared = tempfile::tempdir_in("/tmp").unwrap();
    let shared = shared.path().canonicalize().unwrap();
    for inside in [&["work"][..], &["home"], &["state"], &["work", "home"], &["work", "home", "state"]] {
        let mut user = User::new();
        for name in ["home", "work", "state", "out"] {
            fs::create_dir_all(shared.join(name)).unwrap();
        }
        let place = |name: &str| if inside.contains(&name) { shared.join(name) } else { user.at(name) };
        let (work, home, state) = (place("work"), place("home"), place("state"));
        user.config.workspace = vec![work.clone()];
        user.config.home = Some(home);
        user.config.temp = state.join("temp/session");
        user.config.caches = state.join("caches");
        let session = user.session();
        let run = async |script: String, roots: Vec<GrantedRoot>| {
            let mut request = session.request(&script).with_access(write(roots), Vec::new());
            request.cwd = work.clone();
            let (exit, said, refused) = session.run(request).await;
            assert_eq!(
                (exit, refused),
                (ProcessExit::Code(0), vec![]),
                "{inside:?}: `{script}` said: {said}"
            );
        };
        let out = shared.join("out");
        let shown = out.display();
        run(format!("touch {shown}/q"), vec![GrantedRoot::file(out.join("q"))]).await;
        let deep = out.join("miss/deep");
        run(
            format!("mkdir -p {shown}/miss/deep; echo z > {shown}/miss/deep/x"),
            vec![GrantedRoot::file(&deep), GrantedRoot::file(deep.join("x"))],
        )
        .await;
        run(format!("sed -i s/z/y/ {shown}/miss/deep/x"), vec![GrantedRoot::file(deep.join("x"))]).await;
        assert_eq!(names(&out), ["miss", "q"], "{inside:?}");
        assert_eq!(fs::read_to_string(deep.join("x")).unwrap(), "y\n", "{inside:?}");
        drop(session);
        fs::remove_dir_all(&shared).unwrap();
    }
}
