//! Tools in a process of their own: they compute, they can't get out, and their end is a result.

use std::sync::Arc;

use haft::{Engine, Registry, ToolCall, Workspace};
use haft_sandbox::testing::{TestScene, escapes, sandbox, tools};
use haft_sandbox::{Maker, SandboxIsolator, Stack, maker_of, probe, stack_of};

use crate::confined::{Ground, HELPER};
#[cfg(target_arch = "x86_64")]
use crate::escapes::CALL;
use crate::lives::{count, mark};
use crate::until;

#[tokio::test]
async fn a_tool_runs_in_the_sandbox_and_its_death_is_an_error() {
    let ground = Ground::new();
    let isolator = Arc::new(SandboxIsolator::new(Arc::new(ground.sandbox())).unwrap());
    let engine = Engine::builder(Registry::new().with(tools()).unwrap())
        .workspace(Workspace::new(ground.workspace()).unwrap())
        .ports(|ports| ports.isolator = Some(isolator))
        .build();
    let run = |name: &'static str| {
        let engine = engine.clone();
        async move {
            let results = engine.turn().run([ToolCall::new("1", name, "{}")]).await;
            serde_json::to_string(&results[0].to_json()).unwrap()
        }
    };
    // The first process of its namespace started it, so it is the second.
    let answer = run("compute").await;
    assert!(answer.contains("42 in 2"), "{answer}");
    let _listener = std::os::unix::net::UnixListener::bind(ground.workspace().join("socket")).unwrap();
    let outside = escapes(&ground.workspace());
    for can in ["write ", "open ", "send", "connect"] {
        assert!(outside.iter().any(|did| did.starts_with(can)), "it doesn't even work outside: {outside:?}");
    }
    for _ in 0..3 {
        let answer = run("escape").await;
        assert!(answer.contains("did: ."), "{answer}");
    }
    assert!(!ground.workspace().join("escaped").exists());
    // A crash, an abort, an end without a word, and what the kernel does when memory runs out.
    for end in ["overflow", "abort", "exit", "killed"] {
        let answer = run(end).await;
        assert!(answer.contains("its process ended before it gave a result"), "{end}: {answer}");
        assert!(answer.contains("\"is_error\":true"), "{end}: {answer}");
        assert!(run("compute").await.contains("42 in 2"), "the next one runs");
    }
    let answer = run("panic").await;
    assert!(answer.contains("\"is_error\":true") && !answer.contains("it panics"), "{answer}");
    assert!(run("compute").await.contains("42 in 2"), "the next one runs");
}

/// The kernel gives it no more memory, and it ends as programs do then.
#[tokio::test]
async fn a_tool_that_wants_too_much_memory_is_an_error() {
    const ADDRESS_SPACE: u32 = 9;
    let ground = Ground::new();
    let looking = || TestScene::system().bind(ground.workspace(), false);
    for (bound, expected) in
        [(512 << 20, "its process ended before it gave a result"), (1 << 40, "took 64 pieces")]
    {
        let read_only = looking().rlimit(ADDRESS_SPACE, bound);
        let sandbox = sandbox(HELPER, Stack::Full, ground.scene(), read_only).unwrap();
        let isolator = Arc::new(SandboxIsolator::new(Arc::new(sandbox)).unwrap());
        let engine = Engine::builder(Registry::new().with(tools()).unwrap())
            .workspace(Workspace::new(ground.workspace()).unwrap())
            .ports(|ports| ports.isolator = Some(isolator))
            .build();
        let results = engine.turn().run([ToolCall::new("1", "hog", "{}")]).await;
        let answer = serde_json::to_string(&results[0].to_json()).unwrap();
        assert!(answer.contains(expected), "{answer}");
        let results = engine.turn().run([ToolCall::new("1", "compute", "{}")]).await;
        assert!(serde_json::to_string(&results[0].to_json()).unwrap().contains("42"), "the next one runs");
    }
}

/// An engine with these tools, in a sandbox on this ground.
fn engine_on(ground: &Ground) -> Engine {
    let isolator = Arc::new(SandboxIsolator::new(Arc::new(ground.sandbox())).unwrap());
    Engine::builder(Registry::new().with(tools()).unwrap())
        .workspace(Workspace::new(ground.workspace()).unwrap())
        .ports(|ports| ports.isolator = Some(isolator))
        .build()
}

async fn answer(engine: &Engine, name: &str) -> String {
    let results = engine.turn().run([ToolCall::new("1", name, "{}")]).await;
    serde_json::to_string(&results[0].to_json()).unwrap()
}

/// Whatever a tool starts ends with its call: in sessions of its own, without a parent, deaf to signals, stopped, and with
/// the pipe in its hands.
#[tokio::test]
async fn nothing_that_a_tool_starts_outlives_its_call() {
    let ground = Ground::new();
    let engine = engine_on(&ground);
    let mark = mark();
    let script = format!(
        "trap '' TERM INT HUP QUIT USR1
         setsid bash -c 'trap \"\" TERM INT HUP; (setsid sleep {mark} &) ; exec sleep {mark}' &
         (setsid setsid bash -c 'kill -STOP $$; sleep {mark}' &)
         python3 -c 'import os, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
pidfd = os.pidfd_open(2)
import ctypes
held = ctypes.CDLL(None).syscall(438, pidfd, 3, 0)
os.execvp(\"sleep\", [\"sleep\", \"{mark}\"])'
         "
    );
    for end in ["", "sleep 1000"] {
        std::fs::write(ground.workspace().join("script"), format!("{script}{end}")).unwrap();
        for _ in 0..5 {
            if end.is_empty() {
                assert!(answer(&engine, "leave").await.contains("left"));
            } else {
                // The control: while the call lasts they are there.
                let calls = engine.clone();
                let call = tokio::spawn(async move { answer(&calls, "script").await });
                let there = mark.clone();
                let seen = move || until("they run", || count(&there, None) >= 4);
                tokio::task::spawn_blocking(seen).await.unwrap();
                call.abort();
                let _ = call.await;
            }
            until("nothing of them is left", || count(&mark, None) == 0);
        }
    }
    assert!(answer(&engine, "compute").await.contains("42"), "the next one runs");
}

/// It sees neither the host nor the process and the pipe of another call; what it writes to its own is its own matter.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn a_tool_reaches_neither_the_host_nor_another_tool() {
    let ground = Ground::new();
    let engine = engine_on(&ground);
    let host = std::process::id();
    let reach = |others: &str| {
        format!(
            "{CALL}
did = []
for target in {others}:
    if call(101, 0x4206, target, 0, 0) >= 0: did.append(f'ptrace {{target}}')
    if call(62, target, 0) >= 0: did.append(f'signal {{target}}')
    if call(302, target, 7, None, None) >= 0: did.append(f'prlimit {{target}}')
    pidfd = call(434, target, 0)
    if pidfd >= 0 and any(call(438, pidfd, number, 0) >= 0 for number in range(64)):
        did.append(f'descriptor {{target}}')
    for name in ['mem', 'fd/0', 'fd/1', 'fd/3', 'root', 'ns/mnt']:
        try: os.open(f'/proc/{{target}}/{{name}}', os.O_RDWR if name == 'mem' else os.O_RDONLY); did.append(f'{{name}} {{target}}')
        except OSError: pass
print('did', did)"
        )
    };
    let write = |python: &str| {
        std::fs::write(ground.workspace().join("script"), format!("exec python3 - <<'X'\n{python}\nX\n"))
    };
    // Another call that lasts meanwhile: its processes are there, seen from outside.
    let mark = mark();
    std::fs::write(ground.workspace().join("script"), format!("sleep {mark}")).unwrap();
    let calls = engine.clone();
    let other = tokio::spawn(async move { answer(&calls, "script").await });
    let there = mark.clone();
    tokio::task::spawn_blocking(move || until("it runs", || count(&there, None) > 0)).await.unwrap();
    // The numbers that there are in its namespace are those of its own; everything else is nobody.
    let all = format!("[1, {host}, os.getppid() + 1000] + list(range(20, 400))");
    write(&reach(&all)).unwrap();
    let told = answer(&engine, "script").await;
    assert!(told.contains("did [\\\"prlimit") || told.contains("did []"), "{told}");
    assert!(!told.contains("ptrace") && !told.contains("descriptor") && !told.contains("mem "), "{told}");
    assert!(!told.contains(&format!(" {host}")), "{told}");
    // The control: its own parent, the tool, it reaches.
    write(&reach("[2]")).unwrap();
    let told = answer(&engine, "script").await;
    assert!(told.contains("descriptor 2") && told.contains("signal 2"), "{told}");
    // Into its own pipe it writes what it likes, which is an error of this call and of no other.
    for rubbish in [
        "b'\\xff' * 4096",
        "b'\\0' * (1 << 20)",
        "b'\\xff\\xff\\xff\\x7f' + b'x' * (64 << 20)",
        "os.urandom(1 << 16)",
    ] {
        write(&format!(
            "{CALL}
pidfd = call(434, 2, 0)
call(62, 2, 19)
pipe = call(438, pidfd, 3, 0)
import socket
pipe = socket.socket(fileno=pipe); pipe.setblocking(True)
try: pipe.sendall({rubbish})
except OSError: pass
call(62, 2, 9)"
        ))
        .unwrap();
        let told = answer(&engine, "script").await;
        assert!(told.contains("\"is_error\":true"), "{rubbish}: {told}");
        assert!(answer(&engine, "compute").await.contains("42"), "the next one runs");
    }
    assert!(count(&mark, None) > 0 && !other.is_finished(), "the other goes on");
    other.abort();
    let _ = other.await;
    until("nothing of it is left", || count(&mark, None) == 0);
}

/// Where the tests of the full sandbox pass, the parts of it are found.
#[test]
fn the_machine_is_probed() {
    let found = probe(Some(HELPER.as_ref()));
    for finding in &found {
        eprintln!("{} {}: {} {:?}", finding.works, finding.part, finding.detail, finding.advice);
    }
    assert_eq!(found.len(), 7);
    assert_eq!(stack_of(&found), haft_sandbox::Stack::Full, "{found:?}");
    assert_eq!(maker_of(&found), Some(Maker::Ourselves), "{found:?}");
}
