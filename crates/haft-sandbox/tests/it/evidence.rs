//! What a command that may only look tried to change is known, and costs it nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use haft::ports::{ConfinementLevel, ConfinementRefusal, ProcessExit, Processes as _};

use crate::confined::Ground;
use crate::profile::{User, git};

fn paths(refused: &[ConfinementRefusal]) -> Vec<PathBuf> {
    let path = |refused: &ConfinementRefusal| match refused {
        ConfinementRefusal::Path { path, write: true } => path.clone(),
        other => panic!("{other:?}"),
    };
    refused.iter().map(path).collect()
}

/// Everything that changes something by its name, and what isn't worth a word.
#[tokio::test]
async fn attempts_are_told() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    fs::write(ground.workspace().join("old"), "x").unwrap();
    fs::create_dir(ground.workspace().join("folder")).unwrap();
    let at = |name: &str| ground.workspace().join(name);
    for (script, expected) in [
        ("echo x > new", Some("new")),
        ("echo x >> old", Some("old")),
        ("cd folder; echo x > new", Some("folder/new")),
        ("sort -o old old", Some("old")),
        ("rm -f old", Some("old")),
        ("mv old new", Some("old")),
        ("mkdir -p folder/new/er", Some("folder/new")),
        ("rmdir folder", Some("folder")),
        ("ln old new", Some("new")),
        ("ln -s old new", Some("new")),
        ("chmod 600 old", Some("old")),
        ("touch old", Some("old")),
        ("truncate -s 0 old", Some("old")),
        (
            "python3 -c 'import os; os.open(\"new\", os.O_CREAT | os.O_WRONLY, dir_fd=os.open(\"folder\", 0))'",
            Some("folder/new"),
        ),
        ("find . -name old -fprint new", Some("new")),
        // Not a refusal of ours, or none at all.
        ("echo x > /dev/null", None),
        ("echo x > /tmp/x && rm /tmp/x", None),
        ("cat old missing", None),
        ("rm missing", None),
        ("mkdir folder", None),
        ("echo x > /usr/bin/x", None),
        ("echo x > /proc/self/comm", None),
        ("echo x > missing/new", None),
        ("ls -la; git --version", None),
    ] {
        let request = ground.bash(script).with_confinement(ConfinementLevel::ReadOnly);
        let outcome = sandbox.run(request).await.unwrap();
        let expected: Vec<PathBuf> = expected.into_iter().map(at).collect();
        assert_eq!(paths(&outcome.refused), expected, "{script}");
    }
    assert_eq!(fs::read_to_string(at("old")).unwrap(), "x");
    // Who may write is told of nothing.
    let outcome = sandbox.run(ground.bash("echo y > new; echo x > /usr/bin/x")).await.unwrap();
    assert_eq!(outcome.refused, []);
}

/// Commands that look harmless and aren't.
#[tokio::test]
async fn what_looks_harmless_is_told() {
    let user = User::new();
    let helper = user.at("work/helper");
    fs::write(&helper, "#!/bin/sh\necho x > planted\nexit 1\n").unwrap();
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(user.at("work/bin")).unwrap();
    fs::copy(&helper, user.at("work/bin/ls")).unwrap();
    git(&user.at("work"), &["config", "core.fsmonitor", "./helper"]);
    let session = user.session();
    let seq = "seq 1 300000 > $TMPDIR/many; ";
    for (script, expected) in [
        ("git status --short".to_owned(), Some("planted")),
        ("bin/ls".to_owned(), Some("planted")),
        (format!("{seq} sort -S 32K --compress-program=./helper $TMPDIR/many > /dev/null"), Some("planted")),
        ("sort -o planted README".to_owned(), Some("planted")),
        ("git -c core.fsmonitor=false log --oneline".to_owned(), None),
        ("/bin/ls".to_owned(), None),
    ] {
        let request = session.request(&script).with_confinement(ConfinementLevel::ReadOnly);
        let (_, said, refused) = session.run(request).await;
        let found = paths(&refused);
        let expected = expected.map(|name| user.at("work").join(name));
        assert!(expected.iter().all(|path| found.contains(path)), "{script}: {found:?}; {said}");
        assert!(expected.is_some() || found.is_empty(), "{script}: {found:?}");
        assert!(!user.at("work/planted").exists());
    }
    // Where it may, it does.
    session.run(session.request("bin/ls")).await;
    assert!(user.at("work/planted").exists());
}

/// Many at once, signals in between, and callers that are killed while somebody hears of them.
#[tokio::test]
async fn nobody_waits_for_an_answer() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    let script = "import os, signal, threading
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
def work():
    for number in range(300):
        try: open(f'new{number}', 'w')
        except OSError as e: assert e.errno == 30, e
        open('/tmp/x', 'w').close()
if os.fork() == 0:
    work()
    os._exit(0)
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
children = []
for number in range(50):
    child = os.fork()
    if child == 0:
        while True:
            try: open('new', 'w')
            except OSError: pass
    children.append(child)
for child in children: os.kill(child, 9)
for child in children: os.waitpid(child, 0)
print('DONE')";
    let request = ground.python(script).with_confinement(ConfinementLevel::ReadOnly);
    let outcome = sandbox.run(request.with_timeout(Duration::from_secs(60))).await.unwrap();
    assert!(outcome.stdout.head.starts_with(b"DONE"), "{}", crate::confined::said(&outcome));
    assert!(!outcome.refused.is_empty() && outcome.refused.len() <= haft_sandbox::limits::ATTEMPTS_MAX);
    // One that doesn't stop is ended like any other.
    let request = ground
        .bash("trap '' TERM; while :; do : > new; done 2>/dev/null")
        .with_confinement(ConfinementLevel::ReadOnly);
    let outcome = sandbox.run(request.with_timeout(Duration::from_millis(200))).await.unwrap();
    assert_eq!(outcome.exit, ProcessExit::TimedOut);
}

/// Printed, not judged: how long a thousand calls take that somebody hears of, and as many that nobody does.
#[tokio::test]
#[ignore = "prove"]
async fn prove_what_hearing_costs() {
    let user = User::new();
    let session = user.session();
    for script in ["ls", "git status", "for i in $(seq 1000); do : > /dev/null; done"] {
        for confinement in [ConfinementLevel::ReadOnly, ConfinementLevel::Session] {
            let mut times = Vec::new();
            for _ in 0..60 {
                let begin = Instant::now();
                session.run(session.request(script).with_confinement(confinement)).await;
                times.push(begin.elapsed());
            }
            times.sort();
            println!("proof: `{script}` {confinement:?}: {:?} in the middle", times[30]);
        }
    }
}
