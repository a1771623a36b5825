//! Tools in a process of their own: they do what they declared, they can't get out, and their end is a
//! result.
//!
//! The child is this test program again, which becomes it before libtest's `main`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use haft::event::{Event, EventKind};
use haft::files::WriteMode;
use haft::isolate::{ChildResources, IsolatedDefinition, IsolatedRun};
use haft::ports::Processes;
use haft::testing::EventLog;
use haft::{
    Context, Effects, Engine, EngineBuilder, ErrorKind, PermissionRules, Registry, Tool, ToolCall, ToolError,
    ToolSpec, Workspace, isolated, tool,
};
use haft_sandbox::{LocalProcesses, SandboxStack, UserNamespaceMaker, maker_of, probe, stack_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::confined::{Ground, HELPER};
#[cfg(target_arch = "x86_64")]
use crate::escapes::CALL;
use crate::lives::{count, mark};
use crate::profile::User;
use crate::until;

/// What the tool does, what it declares, and where it does it.
#[derive(Deserialize, JsonSchema)]
struct ActInput {
    act: String,
    #[serde(default)]
    reads: Vec<PathBuf>,
    #[serde(default)]
    writes: Vec<PathBuf>,
    #[serde(default)]
    path: PathBuf,
}

/// Does what it is told.
struct Act;

impl Tool for Act {
    type Input = ActInput;
    type Output = String;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("act").description("For tests.").timeout(Duration::from_secs(60))
    }

    fn effects(&self, input: &ActInput) -> Effects {
        let reads = input.reads.iter().map(Effects::reads);
        reads.chain(input.writes.iter().map(Effects::writes)).fold(Effects::none(), Effects::and)
    }

    async fn call(&self, input: ActInput, cx: &Context) -> Result<String, ToolError> {
        let path = &input.path;
        Ok(match &*input.act {
            "abort" => std::process::abort(),
            "exit" => std::process::exit(0),
            "killed" => {
                use rustix::process::{Signal, getpid, kill_process};
                kill_process(getpid(), Signal::KILL)?;
                "still there".into()
            }
            "hog" => {
                let mut all: Vec<Vec<u8>> = Vec::new();
                while all.len() < 64 {
                    // Address space is what is limited: pages that nothing touches cost none of the machine's
                    // memory.
                    all.push(std::hint::black_box(vec![0; 64 << 20]));
                }
                format!("took {} pieces", all.len())
            }
            "overflow" => deeper(u64::from(std::process::id())).to_string(),
            "panic" => panic!("it panics"),
            "loop" => loop {
                std::hint::spin_loop();
            },
            "fail" => return Err(ToolError::new("no, ü").retryable()),
            "print" => {
                let _ = writeln!(std::io::stdout(), "not the result");
                "the result".into()
            }
            "rubbish" => {
                for number in 3..64 {
                    let _ = fs::write(format!("/proc/self/fd/{number}"), b"\xffrubbish");
                }
                "after the rubbish".into()
            }
            "flood" => {
                let piece = vec![b' '; 1 << 20];
                for entry in fs::read_dir("/proc/self/fd")?.flatten() {
                    let is_pipe =
                        fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("pipe:"));
                    let number = entry.file_name().to_string_lossy().parse().unwrap_or(0);
                    let mut pipe = if is_pipe && number > 3 {
                        fs::File::options().write(true).open(entry.path())?
                    } else {
                        continue;
                    };
                    (0..200).try_for_each(|_| pipe.write_all(&piece))?;
                }
                "after the flood".into()
            }
            "tell" => {
                cx.progress(0.5, "half");
                "told".into()
            }
            "ports" => format!("{} {}", cx.ports().processes().is_some(), cx.ports().asker().is_some()),
            "script" | "leave" => script(cx.cwd(), &input.act == "script")?,
            "escape" => format!("did: {}.", escapes(cx.cwd()).join(", ")),
            "connect" => match std::net::TcpStream::connect(path.to_string_lossy().as_ref()) {
                Ok(_) => "connected".into(),
                Err(error) => return Err(error.into()),
            },
            "read" => cx.files().read_to_string(path).await?,
            "read by std" => fs::read_to_string(path)?,
            "write" => format!("{:?}", cx.files().write(path, b"written", WriteMode::Replace).await?),
            "write by std" => {
                fs::write(path, "written")?;
                "done".into()
            }
            _ => format!("{} in {}", 6 * 7, std::process::id()),
        })
    }
}

/// Takes more of the stack than there is: a crash as programs crash.
#[expect(unconditional_recursion, reason = "that it doesn't end is what it is for")]
fn deeper(number: u64) -> u64 {
    let room = std::hint::black_box([number; 512]);
    deeper(number + 1) + room[1]
}

/// Tries what no isolated tool may do, beside a folder `outside` and with a socket `socket` where it works;
/// says what it did.
fn escapes(cwd: &Path) -> Vec<String> {
    let mut did = Vec::new();
    let outside = cwd.with_file_name("outside");
    for path in [cwd.join("escaped"), outside.join("escaped"), "/etc/escaped".into(), "/escaped".into()] {
        if fs::write(&path, "x").is_ok() {
            let _ = fs::remove_file(&path);
            did.push(format!("write {}", path.display()));
        }
    }
    for path in
        [outside.join("secret"), "/proc/1/mem".into(), "/proc/1/environ".into(), "/proc/1/root/etc".into()]
    {
        if fs::symlink_metadata(&path).is_ok() && fs::File::open(&path).is_ok() {
            did.push(format!("open {}", path.display()));
        }
    }
    let datagram = std::net::UdpSocket::bind("127.0.0.1:0");
    if datagram.and_then(|socket| socket.send_to(b"x", "127.0.0.1:9")).is_ok() {
        did.push("send".into());
    }
    if std::os::unix::net::UnixStream::connect(cwd.join("socket")).is_ok() {
        did.push("connect".into());
    }
    for entry in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let Ok(to) = fs::read_link(entry.path()) else { continue };
        if to.is_absolute() && !["/dev", "/proc"].iter().any(|own| to.starts_with(own)) {
            did.push(format!("inherit {}", to.display()));
        }
    }
    did
}

/// Runs what the file `script` in the working directory says to bash. Waits for its end and gives what it
/// printed, or leaves it there.
fn script(cwd: &Path, waits: bool) -> Result<String, ToolError> {
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(fs::read_to_string(cwd.join("script"))?).stdin(std::process::Stdio::null());
    if waits {
        return Ok(String::from_utf8(bash.output()?.stdout)?);
    }
    bash.spawn()?;
    Ok("left".into())
}

fn builder(processes: Arc<dyn Processes>, workspace: &Path) -> EngineBuilder {
    Engine::builder(Registry::new().with(isolated(|| Act)).unwrap())
        .workspace(Workspace::new(workspace).unwrap())
        .ports(|ports| ports.processes = Some(processes))
}

fn engine_with(processes: Arc<dyn Processes>, workspace: &Path) -> Engine {
    builder(processes, workspace).permissions(PermissionRules::new().allow("act").unwrap()).build()
}

/// An engine whose children see this ground and can change nothing of it.
fn engine_on(ground: &Ground) -> Engine {
    engine_with(Arc::new(ground.sandbox()), &ground.workspace())
}

/// What a call says.
async fn call(engine: &Engine, input: Value) -> Result<String, ToolError> {
    let result = engine.turn().run([ToolCall::new("1", "act", input.to_string())]).await.remove(0);
    result.outcome().map(haft::ToolOutput::to_text).map_err(|error| {
        let again = ToolError::with_kind(error.kind(), error.message());
        if error.is_retryable() { again.retryable() } else { again }
    })
}

async fn act(engine: &Engine, act: &str) -> Result<String, ToolError> {
    call(engine, json!({"act": act})).await
}

/// Runs an act that fails, and says how; the session goes on.
async fn failure(engine: &Engine, name: &str) -> String {
    let error = act(engine, name).await.expect_err(name);
    let words = error.message().to_owned();
    assert!(act(engine, "compute").await.expect("the next one runs").contains("42 in"), "after {name}");
    words
}

/// A crash, an abort, an end without a word, and the kernel's way are each one failed call.
async fn assert_each_end_is_one_failed_call(engine: &Engine) {
    for (name, how) in [
        ("overflow", "by signal 11 (SIGSEGV)"),
        ("abort", "by signal 6 (SIGABRT)"),
        ("killed", "by signal 9 (SIGKILL"),
    ] {
        let words = failure(engine, name).await;
        let expected = format!("act did not finish: its process ended before it gave a result, {how}");
        assert!(words.starts_with(&expected), "{name}: {words}");
    }
    let words = failure(engine, "exit").await;
    assert_eq!(words, "act did not finish: its process sent something that is not understood");
    let words = failure(engine, "hog").await;
    assert_eq!(words, "act did not finish: its process needed more than 2048 MB of memory");
    let words = failure(engine, "panic").await;
    assert!(words.starts_with("act panicked") && !words.contains("it panics"), "{words}");
}

#[tokio::test]
async fn a_tool_runs_in_the_sandbox_and_its_death_is_an_error() {
    let ground = Ground::new();
    let engine = engine_on(&ground);
    // The first process of its namespace started it, so it is the second.
    assert_eq!(act(&engine, "compute").await.unwrap(), "42 in 2");
    let _listener = std::os::unix::net::UnixListener::bind(ground.workspace().join("socket")).unwrap();
    let outside = escapes(&ground.workspace());
    for can in ["write ", "open ", "send", "connect"] {
        assert!(outside.iter().any(|did| did.starts_with(can)), "it doesn't even work outside: {outside:?}");
    }
    for _ in 0..3 {
        assert_eq!(act(&engine, "escape").await.unwrap(), "did: .");
    }
    assert!(!ground.workspace().join("escaped").exists());
    assert_each_end_is_one_failed_call(&engine).await;
}

/// Without a sandbox the limit of memory still holds, and so does that a crash is one failed call.
#[tokio::test]
async fn without_a_sandbox_a_death_is_an_error_too() {
    let ground = Ground::new();
    let local = Arc::new(LocalProcesses::new(std::env::vars_os()));
    let engine = engine_with(local.clone(), &ground.workspace());
    assert_each_end_is_one_failed_call(&engine).await;
    // Nothing holds it to its effects then, so it asks, however harmless it claims to be.
    let engine = builder(local, &ground.workspace()).build();
    let error = act(&engine, "compute").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
}

/// Where only Landlock is there, this program can still be started, and reads nothing but what it declared.
#[tokio::test]
async fn without_namespaces_a_tool_is_held_by_landlock() {
    let ground = Ground::new();
    fs::write(ground.at("outside/secret"), "SECRET").unwrap();
    let engine =
        engine_with(Arc::new(ground.sandbox_of(SandboxStack::Fallback, ground.scene())), &ground.workspace());
    assert!(act(&engine, "compute").await.unwrap().starts_with("42 in"));
    let secret = ground.at("outside/secret");
    assert!(call(&engine, json!({"act": "read by std", "path": secret})).await.is_err());
    assert_each_end_is_one_failed_call(&engine).await;
}

#[tokio::test]
async fn a_tool_that_takes_too_long_is_ended() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    let slow = tool("slow", "Runs a loop.", |_: haft::NoInput, cx: Context| async move {
        let run = IsolatedRun::new("the loop").with_timeout(Duration::from_millis(200));
        run.run(endless, &(), &cx).await
    });
    let engine = Engine::builder(Registry::new().with(slow.effects(|_| Effects::none())).unwrap())
        .workspace(Workspace::new(ground.workspace()).unwrap())
        .ports(|ports| ports.processes = Some(Arc::new(sandbox)))
        .build();
    let result = engine.turn().run([ToolCall::new("1", "slow", "{}")]).await.remove(0);
    let error = result.outcome().unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::TimedOut, "the loop did not finish within 0.2 s")
    );
}

fn endless(_: (), _: &ChildResources) -> Result<String, ToolError> {
    loop {
        std::hint::spin_loop();
    }
}

/// What a tool says reaches the host whatever it prints, and nothing that it writes elsewhere is taken for
/// it.
#[tokio::test]
async fn the_result_and_progress_of_a_tool_reach_the_host() {
    let ground = Ground::new();
    let engine = engine_on(&ground);
    assert_eq!(act(&engine, "print").await.unwrap(), "the result");
    assert_eq!(act(&engine, "ports").await.unwrap(), "false false");
    let error = act(&engine, "fail").await.unwrap_err();
    assert_eq!((error.message(), error.is_retryable()), ("no, ü", true));
    let words = failure(&engine, "rubbish").await;
    assert_eq!(words, "act did not finish: its process sent something that is not understood");
    let words = failure(&engine, "flood").await;
    assert!(words.ends_with("bytes is too large; ask for less at once"), "{words}");
    let events = EventLog::new();
    let engine = builder(Arc::new(ground.sandbox()), &ground.workspace()).events(events.clone()).build();
    assert_eq!(act(&engine, "tell").await.unwrap(), "told");
    let told = |event: &Event| matches!(&event.what, EventKind::Progress(progress) if progress.fraction == Some(0.5) && progress.message.as_deref() == Some("half"));
    assert!(events.events().iter().any(told), "{:?}", events.lines());
}

/// In the profile of a real session: files that the call declared, and nothing beside them.
#[tokio::test]
async fn a_tool_reads_and_writes_what_it_declared() {
    let user = User::new();
    for (name, content) in
        [("work/secret.txt", "SECRET"), ("work/input.txt", "input"), ("work/out.txt", "old")]
    {
        fs::write(user.at(name), content).unwrap();
    }
    let sandbox = Arc::new(user.session().sandbox);
    let engine = engine_with(sandbox, &user.at("work"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let home = user.at("home/.ssh/id_ed25519");
    for (input, expected) in [
        (json!({"act": "read", "reads": ["input.txt"], "path": "input.txt"}), Some("input")),
        (json!({"act": "read by std", "reads": ["input.txt"], "path": "input.txt"}), Some("input")),
        (json!({"act": "read", "reads": ["input.txt"], "path": "secret.txt"}), None),
        (json!({"act": "read by std", "reads": ["input.txt"], "path": "secret.txt"}), None),
        (json!({"act": "read by std", "path": "input.txt"}), None),
        (json!({"act": "read by std", "path": home}), None),
        (json!({"act": "write by std", "reads": ["input.txt"], "path": "input.txt"}), None),
        (json!({"act": "write", "reads": ["input.txt"], "path": "out.txt"}), None),
        (json!({"act": "write by std", "writes": ["new.txt"], "path": "new.txt"}), Some("done")),
        // In memory, from where nothing but what was declared is carried out.
        (json!({"act": "write by std", "writes": ["new.txt"], "path": "other.txt"}), Some("done")),
        (json!({"act": "connect", "path": address}), None),
    ] {
        let said = call(&engine, input.clone()).await;
        match expected {
            Some(expected) => assert_eq!(said.unwrap(), expected, "{input}"),
            None => assert!(!said.expect_err(&input.to_string()).message().contains("SECRET"), "{input}"),
        }
    }
    let said =
        call(&engine, json!({"act": "write", "writes": ["out.txt"], "path": "out.txt"})).await.unwrap();
    assert!(!said.is_empty());
    let content = |name: &str| fs::read_to_string(user.at(name)).unwrap();
    assert_eq!((content("work/input.txt"), content("work/out.txt")), ("input".into(), "written".into()));
    assert_eq!(content("work/new.txt"), "written");
    assert!(!user.at("work/other.txt").exists());
    // The control: the same outside of any sandbox.
    assert!(std::net::TcpStream::connect(address).is_ok());
}

/// Whatever a tool starts ends with its call: in sessions of its own, without a parent, deaf to signals,
/// stopped, and with the pipe in its hands.
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
        fs::write(ground.workspace().join("script"), format!("{script}{end}")).unwrap();
        for _ in 0..5 {
            if end.is_empty() {
                assert_eq!(act(&engine, "leave").await.unwrap(), "left");
            } else {
                // The control: while the call lasts they are there.
                let calls = engine.clone();
                let call = tokio::spawn(async move { act(&calls, "script").await });
                let there = mark.clone();
                let seen = move || until("they run", || count(&there, None) >= 4);
                tokio::task::spawn_blocking(seen).await.unwrap();
                call.abort();
                let _ = call.await;
            }
            until("nothing of them is left", || count(&mark, None) == 0);
        }
    }
    assert!(act(&engine, "compute").await.is_ok(), "the next one runs");
}

/// It sees neither the host nor the process and the pipe of another call.
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
        fs::write(ground.workspace().join("script"), format!("exec python3 - <<'X'\n{python}\nX\n"))
    };
    // Another call that lasts meanwhile: its processes are there, seen from outside.
    let mark = mark();
    fs::write(ground.workspace().join("script"), format!("sleep {mark}")).unwrap();
    let calls = engine.clone();
    let other = tokio::spawn(async move { act(&calls, "script").await });
    let there = mark.clone();
    tokio::task::spawn_blocking(move || until("it runs", || count(&there, None) > 0)).await.unwrap();
    // The numbers that there are in its namespace are those of its own; everything else is nobody.
    let all = format!("[1, {host}, os.getppid() + 1000] + list(range(20, 400))");
    write(&reach(&all)).unwrap();
    let told = act(&engine, "script").await.unwrap();
    assert!(told.contains("did ['prlimit") || told.contains("did []"), "{told}");
    assert!(!told.contains("ptrace") && !told.contains("descriptor") && !told.contains("mem "), "{told}");
    assert!(!told.contains(&format!(" {host}")), "{told}");
    // The control: its own parent, the tool, it reaches.
    write(&reach("[2]")).unwrap();
    let told = act(&engine, "script").await.unwrap();
    assert!(told.contains("descriptor 2") && told.contains("signal 2"), "{told}");
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
    assert_eq!(stack_of(&found), haft_sandbox::SandboxStack::Full, "{found:?}");
    assert_eq!(maker_of(&found), Some(UserNamespaceMaker::Ourselves), "{found:?}");
}

/// The only tools here, for the compiler to see that lists of them can be registered.
#[test]
fn a_list_of_isolated_tools_is_registered() {
    let tools: Vec<IsolatedDefinition> = vec![isolated(|| Act)];
    assert_eq!(Registry::new().with(tools).unwrap().len(), 1);
}
