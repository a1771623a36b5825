//! What rules deny, by whatever name it is reached and whenever it comes to be; and who is told to have done
//! what.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use haft::files::HiddenPaths;
use haft::ports::DeniedRead;
use haft::ports::{ConfinementRefusal, ProcessExit, Processes as _};
use haft::testing::with_restrictions;

use crate::profile::User;
use crate::until;

/// A rule for this path and what lies below it, which doesn't look at the case of letters.
fn whole(user: &User, path: &str) -> DeniedRead {
    let path = user.at(path);
    let folded = path.to_string_lossy().to_lowercase();
    let covers = move |other: &Path| Path::new(&other.to_string_lossy().to_lowercase()).starts_with(&folded);
    DeniedRead::new("Read(x)", path, HiddenPaths::new(covers))
}

/// A folder beside the working directory that commands may write.
fn with_out() -> User {
    let mut user = User::new();
    fs::create_dir_all(user.at("out/v1")).unwrap();
    fs::write(user.at("out/v1/tok"), "SECRET").unwrap();
    user.config.allow_write.push(user.at("out"));
    user
}

#[tokio::test]
async fn a_name_behind_links_is_hidden_with_what_they_lead_to() {
    let mut user = with_out();
    user.config.rules =
        with_restrictions(&user.config.rules, |rules| rules.denied_reads = vec![whole(&user, "out/cur/tok")]);
    let session = user.session();
    assert_eq!(session.good("cat ../out/v1/tok").await, "SECRET", "nothing leads there yet");
    // A command can make the link itself; that hides more, and stops nobody.
    session.good("ln -s v1 ../out/cur").await;
    session.bad("cat ../out/v1/tok").await;
    session.bad("cat ../out/cur/tok").await;
    // What it has led to stays hidden, though it leads elsewhere now.
    session.good("mkdir ../out/v2 && echo new > ../out/v2/tok && ln -sfn v2 ../out/cur").await;
    session.bad("cat ../out/v1/tok").await;
    session.bad("cat ../out/v2/tok").await;
    session.bad("mv ../out/v1 ../out/v3").await;
    session.good("cat README && touch ../out/v1/other").await;
}

#[tokio::test]
async fn a_link_in_the_way_of_a_name_that_settings_deny_refuses_nothing() {
    let mut user = with_out();
    symlink("v1", user.at("out/cur")).unwrap();
    user.config.rules =
        with_restrictions(&user.config.rules, |rules| rules.unreadable_paths.push(user.at("out/cur/tok")));
    let session = user.session();
    session.bad("cat ../out/v1/tok").await;
    session.good("cat README").await;
}

#[tokio::test]
async fn a_link_in_the_way_of_what_is_not_to_be_written_refuses_nothing() {
    let mut user = with_out();
    user.config.rules =
        with_restrictions(&user.config.rules, |rules| rules.unwritable_paths.push(user.at("out/cur/tok")));
    let session = user.session();
    session.good("echo x > ../out/v1/tok").await;
    let (exit, _, refused) = session.run(session.request("ln -s v1 ../out/cur")).await;
    let told = |done: &str| done.contains("a command may have made it");
    assert!(
        exit == ProcessExit::Code(0)
            && matches!(&*refused, [ConfinementRefusal::Changed { done, .. }] if told(done)),
        "{refused:?}"
    );
    session.bad("echo x > ../out/v1/tok").await;
    session.bad("echo x > ../out/cur/tok").await;
    session.good("echo x > ../out/v1/other").await;
}

#[tokio::test]
async fn letters_of_another_case_are_the_same_name_whenever_they_come() {
    let mut user = with_out();
    user.config.rules = with_restrictions(&user.config.rules, |rules| {
        rules.denied_reads = vec![whole(&user, "out/.ENV"), whole(&user, "work/Keys")]
    });
    let session = user.session();
    session.good("ls ../out").await;
    fs::write(user.at("out/.env"), "SECRET").unwrap();
    fs::create_dir(user.at("work/keys")).unwrap();
    fs::write(user.at("work/keys/one"), "SECRET").unwrap();
    session.bad("cat ../out/.env").await;
    session.bad("cat keys/one").await;
    session.good("cat ../out/v1/tok").await;
}

#[tokio::test]
async fn a_pattern_finds_a_tool_chain_to_which_a_link_leads() {
    let mut user = User::new();
    fs::create_dir_all(user.at("chains/bin")).unwrap();
    fs::write(user.at("chains/bin/tok"), "SECRET").unwrap();
    symlink(user.at("chains"), user.at("home/.cargo")).unwrap();
    assert_eq!(user.session().good("cat ~/.cargo/bin/tok").await, "SECRET", "the control");
    for start in ["chains", "chains/bin", ""] {
        let covers = HiddenPaths::new(|path| path.ends_with("chains/bin/tok"));
        user.config.rules = with_restrictions(&user.config.rules, |rules| {
            rules.denied_reads = vec![DeniedRead::new("Read(x)", user.at(start), covers).with_pattern()]
        });
        user.session().bad("cat ~/.cargo/bin/tok").await;
    }
}

/// What was there when the session began was made by no command, also if it is hidden and its folder changes.
#[tokio::test]
async fn nobody_is_told_to_have_made_what_was_there() {
    let mut user = User::new();
    fs::write(user.at("work/.env"), "SECRET").unwrap();
    let rule = HiddenPaths::new(|path| path.ends_with(".env"));
    user.config.rules = with_restrictions(&user.config.rules, |rules| {
        (rules.unreadable, rules.unwritable) = (Some(rule.clone()), Some(rule));
    });
    let session = user.session();
    session.good("touch one").await;
    session.good("rm one").await;
    // The control: one that it did make.
    let (_, _, refused) = session.run(session.request("mkdir sub; echo x > sub/.env")).await;
    assert!(
        matches!(&*refused, [ConfinementRefusal::Protected { path, .. }] if path.ends_with("sub/.env")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn what_a_command_in_the_background_does_is_not_told_of_another() {
    let mut user = User::new();
    user.config.rules = with_restrictions(&user.config.rules, |rules| {
        rules.unwritable = Some(HiddenPaths::new(|path| path.extension().is_some_and(|end| end == "key")))
    });
    let session = user.session();
    let script = "touch here; until [ -e go ]; do sleep 0.01; done; echo n > a.key; touch made; until [ -e end ]; do sleep 0.01; done";
    let slow = session.sandbox.run(session.request(script));
    let rest = async {
        let (here, made) = (user.at("work/here"), user.at("work/made"));
        tokio::task::spawn_blocking(move || until("it runs", || here.exists())).await.unwrap();
        session.good("echo harmless").await;
        fs::write(user.at("work/go"), "").unwrap();
        tokio::task::spawn_blocking(move || until("it made it", || made.exists())).await.unwrap();
        let (exit, _, refused) = session.run(session.request("echo harmless")).await;
        assert_eq!(exit, ProcessExit::Code(0));
        let told = |path: &Path, done: &str| path.ends_with("a.key") && done.contains("in the background");
        assert!(
            matches!(&*refused, [ConfinementRefusal::Changed { path, done }] if told(path, done)),
            "{refused:?}"
        );
        fs::write(user.at("work/end"), "").unwrap();
    };
    let (outcome, ()) = tokio::join!(slow, rest);
    assert_eq!(outcome.unwrap().refused, [], "it was told");
    // Alone there is nobody else.
    let (_, _, refused) = session.run(session.request("echo n > b.key")).await;
    assert!(
        matches!(&*refused, [ConfinementRefusal::Protected { path, .. }] if path.ends_with("b.key")),
        "{refused:?}"
    );
}
