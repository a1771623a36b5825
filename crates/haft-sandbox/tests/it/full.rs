//! What a child in the full sandbox can do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use haft::ports::{ConfinementLevel, ProcessExit, Processes as _, SpillFile};
use haft::results::OffloadStore;
use haft_sandbox::SandboxStack;

use crate::confined::{Ground, said};
use crate::until;

#[tokio::test]
async fn what_is_granted_works() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    for (script, expected) in [
        ("echo hello > made; cat made", "hello\n"),
        ("echo out > /dev/stdout; echo x > /dev/null; head -c 2 /dev/zero | wc -c", "out\n2\n"),
        ("cat /proc/self/comm; echo $$", "cat\n2\n"),
        ("mkfifo f; echo through > f & cat f; rm f", "through\n"),
        ("touch a; mkdir d; mv a d/b; ln d/b c; ls d; rm -r d c", "b\n"),
        ("echo x > /dev/shm/x && cat /dev/shm/x", "x\n"),
        (
            "python3 -c 'import multiprocessing as m; l = m.Lock(); print(m.Pool(2).map(abs, [-1, 2]))'",
            "[1, 2]\n",
        ),
        ("python3 -c 'import pty; pty.spawn([\"echo\", \"terminal\"])' | tr -d '\\r'", "terminal\n"),
        (
            "gdb --version > /dev/null 2>&1; ls / | tr '\\n' ' '",
            "bin dev etc lib lib64 opt proc run sbin tmp usr \n",
        ),
    ] {
        let outcome = sandbox.run(ground.bash(script)).await.unwrap();
        let answer = said(&outcome);
        assert_eq!(answer.trim_end(), format!("Code(0) {expected}").trim_end(), "{script}");
    }
    assert_eq!(std::fs::read_to_string(ground.workspace().join("made")).unwrap(), "hello\n");
}

/// Tracing stays inside: leak checkers and debuggers need it.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn children_can_trace_their_own() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    let script = "import ctypes, os, time
libc = ctypes.CDLL(None)
child = os.fork()
if child == 0: time.sleep(100)
print(libc.ptrace(16, child, 0, 0)); os.waitpid(child, 0); os.kill(child, 9)";
    assert_eq!(said(&sandbox.run(ground.python(script)).await.unwrap()), "Code(0) 0\n");
}

/// Changes of a cache stay in its private copy.
#[tokio::test]
async fn an_overlay_keeps_what_lies_below() {
    let ground = Ground::new();
    for name in ["cache", "upper", "work"] {
        std::fs::create_dir(ground.at(name)).unwrap();
    }
    std::fs::write(ground.at("cache/old"), "old").unwrap();
    let scene = ground.scene().overlay(&ground.at("cache"), &ground.at("upper"), &ground.at("work"));
    let sandbox = ground.sandbox_of(SandboxStack::Full, scene);
    let cache = ground.at("cache");
    let cache = cache.display();
    let script =
        format!("cat {cache}/old; echo new > {cache}/new; echo changed > {cache}/old; cat {cache}/*");
    let outcome = sandbox.run(ground.bash(&script)).await.unwrap();
    assert_eq!(said(&outcome), "Code(0) oldnew\nchanged\n");
    let outcome = sandbox.run(ground.bash(&format!("cat {cache}/*"))).await.unwrap();
    assert_eq!(said(&outcome), "Code(0) new\nchanged\n", "the next call sees it");
    assert_eq!(std::fs::read_to_string(ground.at("cache/old")).unwrap(), "old");
    assert!(!ground.at("cache/new").exists());
}

/// A folder that was opened when it was allowed is what is shown, or nothing.
#[tokio::test]
async fn a_held_folder_is_the_one_that_was_held() {
    let ground = Ground::new();
    let granted = ground.at("granted");
    std::fs::create_dir(&granted).unwrap();
    std::fs::write(granted.join("file"), "mine").unwrap();
    let held = std::fs::File::open(&granted).unwrap();
    let sandbox = ground.sandbox_of(SandboxStack::Full, ground.scene().bind_held(held, &granted, true));
    let script = format!("cat {0}/file; echo x > {0}/new", granted.display());
    assert_eq!(said(&sandbox.run(ground.bash(&script)).await.unwrap()), "Code(0) mine");
    // Somebody puts another in its place.
    std::fs::rename(&granted, ground.at("elsewhere")).unwrap();
    std::os::unix::fs::symlink(ground.at("outside"), &granted).unwrap();
    let answer = sandbox.run(ground.bash(&format!("ls {}", granted.display()))).await;
    assert!(!format!("{answer:?}").contains("secret"), "{answer:?}");
}

/// Small files lie over what is there.
#[tokio::test]
async fn small_files_are_put_over_those_of_the_host() {
    let ground = Ground::new();
    let scene = ground.scene().file("/etc/hostname", "inside").file("/run/made", "made");
    let sandbox = ground.sandbox_of(SandboxStack::Full, scene);
    let outcome =
        sandbox.run(ground.bash("cat /etc/hostname /run/made; echo x 2>/dev/null > /etc/hostname")).await;
    let answer = said(&outcome.unwrap());
    let there = std::path::Path::new("/etc/hostname").exists();
    assert!(answer.starts_with(if there { "Code(1) insidemade" } else { "Code(1) made" }), "{answer}");
}

/// Calls of a session meet on their loopback; one that only looks doesn't.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_has_a_loopback_of_its_own() {
    let ground = Ground::new();
    let sandbox = Arc::new(ground.sandbox_of(SandboxStack::Full, ground.scene().session_network()));
    let server = "import socket
s = socket.socket(); s.setsockopt(1, 2, 1); s.bind(('127.0.0.1', 8000)); s.listen()
open('ready', 'w').close()
while True: c, _ = s.accept(); c.sendall(b'served'); c.close()";
    let (own, request) = (sandbox.clone(), ground.python(server));
    let serving = tokio::spawn(async move { own.run(request).await });
    until("the server is ready", || ground.workspace().join("ready").exists());
    let client = "import socket; print(socket.create_connection(('127.0.0.1', 8000), 2).recv(9))";
    let outcome = sandbox.run(ground.python(client)).await.unwrap();
    assert_eq!(said(&outcome), "Code(0) b'served'\n");
    let looking = ground.python(client).with_confinement(ConfinementLevel::ReadOnly);
    assert_eq!(sandbox.run(looking).await.unwrap().exit, ProcessExit::Code(1));
    serving.abort();
}

/// Output of 4 GiB costs no memory, and comes at least half as fast as a plain pipe to a file.
#[tokio::test]
#[ignore = "prove"]
async fn prove_that_a_flood_costs_no_memory() {
    const GIB: u64 = 4;
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    let store = Arc::new(OffloadStore::at(ground.at("results")));
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap() * 4096
    };
    let script = format!("head -c {GIB}G /dev/zero");
    let begun = Instant::now();
    let to_file = ground.bash(&format!("{script} | cat > {}/plain", ground.at("").display()));
    let local = crate::processes();
    let plain = local.run(to_file);
    assert_eq!(plain.await.unwrap().exit, ProcessExit::Code(0));
    let plain = begun.elapsed();
    std::fs::remove_file(ground.at("plain")).unwrap();
    let (before, begun) = (resident(), Instant::now());
    let spill = SpillFile { bytes_max: GIB << 30, ..SpillFile::new(store, "flood") };
    let outcome =
        sandbox.run(ground.bash(&script).with_spill(spill).with_timeout(Duration::from_secs(600))).await;
    let (own, after) = (begun.elapsed(), resident());
    let outcome = outcome.unwrap();
    assert_eq!((outcome.exit, outcome.stdout.total_bytes), (ProcessExit::Code(0), GIB << 30));
    let grown = after.saturating_sub(before) >> 20;
    let speed = plain.as_secs_f64() / own.as_secs_f64();
    println!(
        "proof: {GIB} GiB of output: the host grew by {grown} MiB; {speed:.2} × as fast as a plain pipe to a file"
    );
    assert!(grown < 16, "{grown} MiB");
    assert!(speed > 0.5, "{speed}");
}
