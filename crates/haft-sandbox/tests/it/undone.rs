//! Changes of protected names that may be the user's: the command is paused, the user is asked, and nothing
//! is lost.

use std::fs;
use std::path::Path;
use std::time::Duration;

use haft::Cancel;
use haft::ports::{
    BackgroundFlag, ChildRequest, ChildRequestQueue, ChildRequests, ConfinementRefusal, KillReason,
    PendingRequest, ProcessExit, ProcessOutcome, ProcessRequest, Processes as _, UndoneAnswer, UndoneChanges,
};
use haft_git::RepositoryLevel;

use crate::profile::{Session, User, level};
use crate::until;

type Question = PendingRequest<UndoneChanges, UndoneAnswer>;

/// A request whose child can ask, and where its questions come.
fn asking(session: &Session<'_>, script: &str) -> (ProcessRequest, ChildRequestQueue) {
    let (requests, queue) = ChildRequests::channel();
    let request = session.request(script).with_protection(level(RepositoryLevel::None));
    (request.with_child_requests(Some(requests.with_user(true))), queue)
}

/// The next question; none once the child has ended.
async fn next(queue: &mut ChildRequestQueue) -> Option<Question> {
    match queue.next().await? {
        ChildRequest::Undone(question) => Some(question),
        other => panic!("{other:?}"),
    }
}

/// Runs a command and answers every question in the same way. What was asked: the names, and whether it was
/// paused.
async fn answered(
    user: &User,
    session: &Session<'_>,
    request: (ProcessRequest, ChildRequestQueue),
    answer: UndoneAnswer,
) -> (ProcessOutcome, Vec<(Vec<String>, bool)>) {
    let (request, mut queue) = request;
    let asked = async {
        let mut asked = Vec::new();
        while let Some(question) = next(&mut queue).await {
            let UndoneChanges { changes, is_running, is_paused } = question.content().clone();
            assert_eq!(is_running, is_paused);
            let relative = |path: &Path| path.strip_prefix(user.at("work")).unwrap().display().to_string();
            asked.push((changes.iter().map(|change| relative(&change.path)).collect(), is_paused));
            question.answer(answer);
        }
        asked
    };
    let (outcome, asked) = tokio::join!(session.sandbox.run(request), asked);
    (outcome.unwrap(), asked)
}

/// The states of processes in whose command line this stands.
fn states(marker: &str) -> Vec<char> {
    let processes = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        entry.file_name().to_string_lossy().parse::<u32>().is_ok()
            && String::from_utf8_lossy(&line).contains(marker)
    });
    let state = |entry: fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        stat.rsplit(')').next()?.trim().chars().next()
    };
    processes.filter_map(state).filter(|state| !"ZX".contains(*state)).collect()
}

/// A script that plants and then waits to be allowed to go on, with a mark in the command line.
fn plants(user: &User) -> (String, String) {
    let mark = format!("mark-{}", user.root.file_name().unwrap().to_string_lossy());
    (format!(": {mark}; echo mine > .mcp.json; until [ -e go ]; do :; done; echo end"), mark)
}

fn is_undone(refused: &[ConfinementRefusal]) -> bool {
    refused.iter().any(|refused| matches!(refused, ConfinementRefusal::Protected { .. }))
}

#[tokio::test]
async fn a_command_that_plants_is_paused_until_the_user_has_answered() {
    for answer in [UndoneAnswer::StayUndone, UndoneAnswer::Redo, UndoneAnswer::StopChild] {
        let user = User::new();
        let session = user.session();
        let (script, mark) = plants(&user);
        let (request, mut queue) = asking(&session, &script);
        // Shorter than it is paused.
        let limit = Duration::from_millis(400);
        let request = request.with_timeout(limit);
        let planted = user.at("work/.mcp.json");
        let meanwhile = async {
            let question = next(&mut queue).await.unwrap();
            let open = queue.begin_question();
            let content = question.content().clone();
            assert!(content.is_running && content.is_paused, "{content:?}");
            let [change] = &content.changes[..] else { panic!("{content:?}") };
            assert_eq!(change.path, planted);
            assert!(change.done.contains("it was taken away and is kept in `"), "{change:?}");
            assert!(!planted.exists());
            until("all of it is paused", || {
                let states = states(&mark);
                !states.is_empty() && states.iter().all(|state| *state == 'T')
            });
            tokio::time::sleep(2 * limit).await;
            fs::write(user.at("work/go"), "").unwrap();
            drop(open);
            question.answer(answer);
            assert!(next(&mut queue).await.is_none(), "it is asked once");
        };
        let (outcome, ()) = tokio::join!(session.sandbox.run(request), meanwhile);
        let outcome = outcome.unwrap();
        let said = String::from_utf8_lossy(&outcome.stdout.head).into_owned();
        match answer {
            UndoneAnswer::StayUndone => {
                assert_eq!((outcome.exit, said.as_str()), (ProcessExit::Code(0), "end\n"));
                assert!(is_undone(&outcome.refused) && !planted.exists());
            }
            UndoneAnswer::Redo => {
                assert_eq!((outcome.exit, said.as_str()), (ProcessExit::Code(0), "end\n"));
                assert_eq!(fs::read_to_string(&planted).unwrap(), "mine\n");
                let [ConfinementRefusal::Changed { path, done }] = &outcome.refused[..] else {
                    panic!("{:?}", outcome.refused)
                };
                assert!(*path == planted && done.contains("this is their work"), "{done}");
                // It is the user's from now on.
                let script = "cat .mcp.json; echo x > .mcp.json";
                let request = session.request(script).with_protection(level(RepositoryLevel::None));
                let (_, said, refused) = session.run(request).await;
                assert!(said.starts_with("mine\n") && said.contains("Read-only"), "{said} {refused:?}");
                assert_eq!(fs::read_to_string(&planted).unwrap(), "mine\n");
            }
            UndoneAnswer::StopChild => {
                assert_eq!(
                    (outcome.exit, said.as_str()),
                    (ProcessExit::Killed(KillReason::StoppedByUser), "")
                );
                assert!(format!("{:?}", outcome.refused).contains("the user stopped the command"));
                assert!(!planted.exists());
            }
        }
    }
}

/// In every way to the end nothing of a paused command is left.
#[tokio::test]
async fn a_paused_command_can_be_cancelled_and_left() {
    for is_cancelled in [true, false] {
        let user = User::new();
        let session = user.session();
        let (script, mark) = plants(&user);
        let (request, mut queue) = asking(&session, &script);
        let cancel = Cancel::new();
        let mut run = Box::pin(session.sandbox.run(request.with_cancel(cancel.clone())));
        let mut question = tokio::select! {
            question = next(&mut queue) => question.unwrap(),
            outcome = &mut run => panic!("{outcome:?}"),
        };
        until("it is paused", || states(&mark).contains(&'T'));
        if is_cancelled {
            cancel.cancel(haft::Cause::User);
            assert_eq!(run.await.unwrap().exit, ProcessExit::Cancelled);
        } else {
            drop(run);
        }
        question.withdrawn().await;
        until("nothing is left", || states(&mark).is_empty());
        assert!(!user.at("work/.mcp.json").exists());
    }
}

/// A command that ends at once is asked about when it has ended.
#[tokio::test]
async fn what_is_the_users_is_put_back_as_it_was() {
    let tree = "mkdir -p .vscode a/b; echo 1 > .vscode/tasks.json; printf '#!/bin/sh' > x; chmod +x x; mv x a/b/.envrc; ln -s a .idea";
    for (prepare, script, names) in [
        ("", "echo 1 > .mcp.json", &[".mcp.json"][..]),
        ("", tree, &[".idea", ".vscode/tasks.json", "a/b/.envrc"]),
        // Class *reviewed*, which is looked at when the command has ended.
        ("", "echo 1 > .npmrc", &[".npmrc"]),
        ("echo 0 > .npmrc", "echo 1 > .npmrc", &[".npmrc"]),
        ("echo 0 > .npmrc", "rm .npmrc", &[".npmrc"]),
    ] {
        // The content is on the line of its file.
        let state = "find . -name .git -prune -o -type d -printf '%P\\n' -o -type l -printf '%P %l\\n' \
                     -o -type f -printf '%P %m ' -exec sh -c 'tr \"\\n\" \" \" < \"$0\"; echo' {} \\; | sort";
        let bash = |user: &User, script: &str| {
            let mut bash = std::process::Command::new("bash");
            let done = bash.args(["-c", script]).current_dir(user.at("work")).output().unwrap();
            String::from_utf8(done.stdout).unwrap()
        };
        let (user, control) = (User::new(), User::unconfined());
        bash(&user, prepare);
        let before = bash(&user, state);
        bash(&control, &format!("{prepare}\n{script}"));
        let session = user.session();
        let (outcome, asked) = answered(&user, &session, asking(&session, script), UndoneAnswer::Redo).await;
        assert_eq!(outcome.exit, ProcessExit::Code(0), "{script}");
        let mut all: Vec<String> = asked.into_iter().flat_map(|(names, _)| names).collect();
        all.sort();
        assert_eq!(all, names, "{script}");
        assert_eq!(bash(&user, state), bash(&control, state), "{script}");
        assert!(!is_undone(&outcome.refused), "{:?}", outcome.refused);
        // It stays, whatever runs next, and it is asked once.
        let (_, asked) = answered(&user, &session, asking(&session, "true"), UndoneAnswer::Redo).await;
        assert_eq!(asked, []);
        assert_eq!(bash(&user, state), bash(&control, state), "{script}");
        drop(session);
        // The other answer: nothing changes but what is kept.
        let user = User::new();
        bash(&user, prepare);
        let session = user.session();
        let (outcome, asked) =
            answered(&user, &session, asking(&session, script), UndoneAnswer::StayUndone).await;
        assert!(!asked.is_empty() && is_undone(&outcome.refused));
        // Folders that aren't protected are the command's work.
        let after = bash(&user, &format!("rmdir -p a/b; {state}"));
        assert_eq!(after, before, "{script}");
    }
}

#[tokio::test]
async fn a_command_that_plants_without_end_is_killed_after_three_questions() {
    let user = User::new();
    let session = user.session();
    let request = asking(&session, "while :; do echo evil > .mcp.json; done");
    let (outcome, asked) = answered(&user, &session, request, UndoneAnswer::StayUndone).await;
    assert_eq!(outcome.exit, ProcessExit::Killed(KillReason::ProtectedFiles));
    // And one more when it has ended.
    assert!(asked.len() <= 4 && asked.iter().filter(|(_, is_paused)| *is_paused).count() == 3, "{asked:?}");
    assert!(!user.at("work/.mcp.json").exists());
}

/// Any of several commands may have planted, so all of them are paused until the one that asks is answered,
/// or has ended.
#[tokio::test]
async fn all_commands_that_may_have_planted_are_paused_and_one_asks() {
    for is_answered in [true, false] {
        let user = User::new();
        let session = user.session();
        let mark = format!("mark-{}", user.root.file_name().unwrap().to_string_lossy());
        let wait = "until [ -e go ]; do sleep 0.01; done; echo end";
        let plants = format!(": {mark}; until [ -e ready ]; do sleep 0.01; done; echo x > .mcp.json; {wait}");
        let (one, mut one_queue) = asking(&session, &plants);
        let (other, mut other_queue) = asking(&session, &format!(": {mark}; touch ready; {wait}"));
        // Shorter than it is paused.
        let limit = Duration::from_secs(2);
        let (one_cancel, other_cancel) = (Cancel::new(), Cancel::new());
        let one = session.sandbox.run(one.with_cancel(one_cancel.clone()));
        let other = session.sandbox.run(other.with_cancel(other_cancel.clone()).with_timeout(limit));
        let meanwhile = async {
            let (question, is_one) = tokio::select! {
                question = next(&mut one_queue) => (question.unwrap(), true),
                question = next(&mut other_queue) => (question.unwrap(), false),
            };
            let open = if is_one { one_queue.begin_question() } else { other_queue.begin_question() };
            until("both are paused", || {
                let states = states(&mark);
                states.len() >= 2 && states.iter().all(|state| *state == 'T')
            });
            tokio::time::sleep(limit + limit / 4).await;
            fs::write(user.at("work/go"), "").unwrap();
            drop(open);
            if is_answered {
                question.answer(UndoneAnswer::StayUndone);
            } else {
                if is_one { &one_cancel } else { &other_cancel }.cancel(haft::Cause::User);
            }
            let (one, other) = tokio::join!(next(&mut one_queue), next(&mut other_queue));
            assert!(one.is_none() && other.is_none(), "it is asked once");
        };
        let (one, other, ()) = tokio::join!(one, other, meanwhile);
        let mut exits = [one.unwrap().exit, other.unwrap().exit];
        exits.sort_by_key(|exit| *exit != ProcessExit::Code(0));
        let expected = if is_answered { ProcessExit::Code(0) } else { ProcessExit::Cancelled };
        assert_eq!(exits, [ProcessExit::Code(0), expected]);
        assert!(!user.at("work/.mcp.json").exists());
    }
}

/// What the user makes in an editor while commands run comes back, however often, and no command is killed
/// for it.
#[tokio::test]
async fn what_the_user_makes_in_an_editor_is_asked_about_and_never_lost() {
    for in_background in [false, true] {
        let user = User::new();
        let session = user.session();
        let (request, mut queue) = asking(&session, "touch here; until [ -e go ]; do sleep 0.01; done");
        let background = BackgroundFlag::default();
        if in_background {
            background.begin();
        }
        let request = request.with_background(background).with_timeout(Duration::from_secs(60));
        let editor = async {
            let here = user.at("work/here");
            tokio::task::spawn_blocking(move || until("it runs", || here.exists())).await.unwrap();
            for name in [".mcp.json", ".envrc", ".mcp.json"] {
                let (file, content) = (user.at("work").join(name), format!("{name} by the user"));
                fs::write(user.at("work/new"), &content).unwrap();
                fs::rename(user.at("work/new"), &file).unwrap();
                // The second time it is the same content, which is the user's already.
                if let Some(question) = if name == ".mcp.json" && user.at("work/.envrc").exists() {
                    None
                } else {
                    next(&mut queue).await
                } {
                    assert_eq!(question.content().is_paused, !in_background);
                    question.answer(UndoneAnswer::Redo);
                    let (file, content) = (file.clone(), content.clone());
                    let is_back = move || fs::read_to_string(&file).is_ok_and(|read| read == content);
                    tokio::task::spawn_blocking(move || until("it is back", is_back)).await.unwrap();
                }
            }
            fs::write(user.at("work/go"), "").unwrap();
            assert!(next(&mut queue).await.is_none());
        };
        let (outcome, ()) = tokio::join!(session.sandbox.run(request), editor);
        let outcome = outcome.unwrap();
        assert_eq!(outcome.exit, ProcessExit::Code(0));
        assert!(!is_undone(&outcome.refused), "{:?}", outcome.refused);
    }
}

/// Without a user the file is kept, and the result names the place.
#[tokio::test]
async fn without_a_user_the_result_names_the_place_where_a_file_is_kept() {
    let user = User::new();
    let session = user.session();
    let (requests, _queue) = ChildRequests::channel();
    let wait = session.request("touch here; until [ -e go ]; do sleep 0.01; done");
    let editor = async {
        let here = user.at("work/here");
        tokio::task::spawn_blocking(move || until("it runs", || here.exists())).await.unwrap();
        fs::write(user.at("work/.mcp.json"), "by the user").unwrap();
        let planted = user.at("work/.mcp.json");
        tokio::task::spawn_blocking(move || until("it is gone", || !planted.exists())).await.unwrap();
        fs::write(user.at("work/go"), "").unwrap();
    };
    let (outcome, ()) = tokio::join!(session.sandbox.run(wait.with_child_requests(Some(requests))), editor);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.exit, ProcessExit::Code(0));
    let [ConfinementRefusal::Protected { done, .. }] = &outcome.refused[..] else {
        panic!("{:?}", outcome.refused)
    };
    let kept = done.split("kept in `").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    assert_eq!(fs::read_to_string(kept).unwrap(), "by the user");
}
