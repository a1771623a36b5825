//! Folders that are repositories by the names in them, without any `.git`: git obeys what else is there, in
//! the folder and everywhere below.

use std::fs;
use std::path::Path;

use haft::ports::{BackgroundFlag, Processes as _};

use crate::attack::{attack, kill_session, outside, with_words};
use crate::profile::{User, configuration};
use crate::until;

#[tokio::test]
async fn a_folder_that_a_command_makes_a_repository_by_hand_runs_nothing() {
    attack(
        r#"
        says: Protected
        by hand
          try: by_hand sub
          then: enter_bare sub
        deep
          try: by_hand a/b/c/d/e
          then: enter_bare a/b/c/d/e
        with files
          try: mkdir sub; cd sub; touch objects refs; chmod +x objects refs; echo ref: refs/heads/x > HEAD; programs > config
          then: enter_bare sub
        with a link
          try: by_hand sub; ln -sf refs/heads/none sub/HEAD
          then: enter_bare sub
        one in another
          try: by_hand sub; mkdir -p sub/objects/in; cd sub/objects; by_hand in
          then: enter_bare sub/objects/in
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_repository_whose_configuration_changes_runs_nothing() {
    attack(
        r#"
        says: Protected
        another key
          try: by_hand sub; printf '[core]\n\tbare = true\n' >> sub/config
          then: enter_bare sub
        what git has made
          try: git init -q --bare sub.git; programs >> sub.git/config
          then: enter_bare sub.git
        closed
          try: by_hand sub; chmod 555 sub
          then: enter_bare sub
        renamed
          try: by_hand sub; mv sub other; mv other sub
          then: enter_bare sub
        another name
          try: by_hand sub; cp sub/config keep; rm sub/config; ln keep sub/config
          then: enter_bare sub
        a configuration elsewhere
          try: mkdir -p sub o/refs o/objects; echo ref: refs/heads/x | tee o/HEAD > sub/HEAD; echo ../o > sub/commondir; printf '[core]\nrepositoryformatversion = 1\n[extensions]\nworktreeConfig = true\n' > o/config; programs > sub/config.worktree; printf '[core]\nbare = false\nworktree = %s\n' $PWD/sub >> sub/config.worktree
          then: enter_bare sub
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_folder_of_the_user_becomes_no_repository_that_runs_something() {
    attack(
        r#"
        the working directory
          user: rm -rf .git
          try: by_hand .
          then: enter_bare .
          says: HEAD.undone-
        the temporary folder
          try: t=/tmp; [ "$TMPDIR" = /tmp ] || { t=$ROOT/state/tmp; mkdir -p $t; }; by_hand $t/x
          then: enter_bare $ROOT/state/tmp/x
          says: Protected
        two commands with git
          try: git init -q --bare r.git
          try: programs >> r.git/config
          then: enter_bare r.git
          says: Protected
        two commands by hand
          try: mkdir -p r/refs r/objects; programs > r/config
          try: echo ref: refs/heads/x > r/HEAD
          then: enter_bare r
          says: Protected
        "#,
    )
    .await;
}

/// The user's folder keeps its files; it only isn't a repository.
#[tokio::test]
async fn a_folder_of_the_user_is_completed_by_no_command() {
    attack(
        r#"
        a head
          user: mkdir -p data/refs data/objects data/hooks; programs > data/config; echo x > data/hooks/update; cp data/config before
          try: echo ref: refs/heads/main > data/HEAD
          then: enter_bare data
          says: Protected
          good: cmp data/config before && test -e data/hooks/update -a ! -e data/HEAD
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_bare_repository_of_the_user_stays_as_it_is() {
    attack(
        r#"
        user: git init -q --bare mine.git
        then: enter_bare mine.git
        its configuration
          try: programs >> mine.git/config
          says: Read-only
        another one
          try: programs > mine.git/new; mv -f mine.git/new mine.git/config
          says: busy
        with git
          try: git -C mine.git config core.pager "touch $RAN; cat"
          says: busy
        "#,
    )
    .await;
}

#[tokio::test]
async fn hooks_of_a_bare_repository_are_held_and_files_beside_are_plain_work() {
    attack(
        r#"
        a hook that a push runs
          try: git init -q --bare r.git; hook r.git/hooks/update
          then: git push -q ./r.git HEAD:refs/heads/x
          says: hooks/update
        "#,
    )
    .await;
    let user = User::new();
    outside(&user, "git init -q --bare mine.git; echo mine > mine.git/notes");
    let session = user.session();
    let script = "mkdir -p mine.git/hooks; echo exit > mine.git/hooks/update; echo /none > mine.git/commondir; echo x > mine.git/notes";
    let (_, said, refused) = session.run(session.request(script)).await;
    let hook = user.at("work/mine.git/hooks/update");
    assert!(!hook.exists() && !user.at("work/mine.git/commondir").exists(), "{said} {refused:?}");
    assert_eq!(
        fs::read_to_string(user.at("work/mine.git/notes")).unwrap(),
        "x\n",
        "files beside are plain work"
    );
}

/// What a command has made is looked at when it moves to the background, and before a program outside is
/// started.
#[tokio::test]
async fn a_command_in_the_background_is_looked_at_too() {
    let user = User::new();
    let session = user.session();
    let script = with_words(
        &user,
        "by_hand one; touch made; until test -e go; do sleep 0.01; done; by_hand two; touch again; \
         until test -e stop; do sleep 0.01; done",
    );
    let background = BackgroundFlag::default();
    let request = session.request(&script).with_background(background.clone());
    let work = user.at("work");
    let is_poisoned = |work: &Path, name: &str| {
        fs::read_to_string(work.join(name).join("config")).is_ok_and(|text| text.contains("pager"))
    };
    let meanwhile = async {
        let at = work.clone();
        let moved = tokio::task::spawn_blocking(move || {
            until("it made one", || at.join("made").exists());
            assert!(is_poisoned(&at, "one"), "the control");
            background.begin();
            until("one is harmless", || !is_poisoned(&at, "one") || !at.join("one/HEAD").exists());
            fs::write(at.join("go"), "").unwrap();
            until("it made another one", || at.join("again").exists());
        });
        moved.await.unwrap();
        let own = haft::ports::ProcessRequest::new(["git", "--version"], &work)
            .with_confinement(haft::ports::ConfinementLevel::Outside);
        session.sandbox.run(own).await.unwrap();
        let harmless = !is_poisoned(&work, "two") || !work.join("two/HEAD").exists();
        fs::write(work.join("stop"), "").unwrap();
        harmless
    };
    let (outcome, harmless) = tokio::join!(session.sandbox.run(request), meanwhile);
    assert!(harmless, "{:?}", outcome.unwrap().refused);
}

/// Whoever comes after a killed session finds what it has left.
#[tokio::test]
async fn what_a_killed_session_left_runs_nothing() {
    let user = User::new();
    outside(&user, "git init -q --bare mine.git; programs >> mine.git/config");
    let mine = fs::read(user.at("work/mine.git/config")).unwrap();
    kill_session(&user, configuration()).await;
    outside(&user, "by_hand a/b; git init -q --bare fine.git; echo /none > mine.git/commondir");
    let session = user.session();
    let notes = session.sandbox.notes().join("\n");
    assert!(!user.at("work/a/b/HEAD").exists() && notes.contains("a/b/HEAD"), "{notes}");
    assert!(user.at("work/fine.git/HEAD").exists() && !notes.contains("fine.git"), "{notes}");
    assert!(!user.at("work/mine.git/commondir").exists(), "{notes}");
    assert_eq!(fs::read(user.at("work/mine.git/config")).unwrap(), mine, "the user's own: {notes}");
}

/// The control of all this: what test suites and people do with bare repositories works.
#[tokio::test]
async fn honest_bare_repositories_work() {
    let user = User::new();
    let session = user.session();
    let push = "git init -q --bare remote.git && git push -q ./remote.git HEAD:refs/heads/main && git clone -q --mirror . m.git";
    session.good(push).await;
    session.good("git -C remote.git log --format=%s main && git clone -q remote.git copy").await;
    session.good("git init -q --bare /tmp/r.git && git push -q /tmp/r.git HEAD:refs/heads/x").await;
    session.good("git --git-dir=/tmp/r.git log --format=%s x && rm -rf remote.git m.git /tmp/r.git").await;
    session
        .good("mkdir -p assets/objects assets/refs && touch assets/HEAD assets/config.txt && rm -r assets")
        .await;
    outside(&user, "git init -q --bare mine.git");
    session.good("git push -q ./mine.git HEAD:refs/heads/main && git -C mine.git log --format=%s main").await;
}
