//! Calls of the kernel that a child may not make: what it is told inside, and that the same call says
//! something else outside, so that it is our rule that speaks and not a machine that can't do it anyway.
//!
//! Numbers are those of x86-64.
#![cfg(target_arch = "x86_64")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use haft::ports::{ConfinementLevel, ProcessExit, ProcessRequest, Processes as _};
use haft_sandbox::{LocalProcesses, Sandbox, SandboxStack};

use crate::confined::{Ground, is_root, said};
use crate::escapes::CALL;

const EPERM: i64 = 1;
const EIO: i64 = 5;
const ENOSYS: i64 = 38;

/// What is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outside {
    /// It works there, for anybody.
    Works,
    /// It works there for root; others are told the same by the kernel itself.
    WorksForRoot,
    /// It can't work there without harm, but fails in another way.
    FailsOtherwise,
    /// The same, for root; others are told the same by the kernel itself.
    FailsOtherwiseForRoot,
}
use Outside::{FailsOtherwise, FailsOtherwiseForRoot, Works, WorksForRoot};

/// What a script prints after `answer `: what the kernel returned, or minus the error.
fn answer(said: impl AsRef<str>) -> i64 {
    let said = said.as_ref();
    let answer = said.split("answer ").nth(1).and_then(|rest| rest.split_whitespace().next());
    answer.and_then(|answer| answer.parse().ok()).unwrap_or_else(|| panic!("no answer: {said}"))
}

/// The system's own python, which both stacks show.
fn python(ground: &Ground, script: &str) -> ProcessRequest {
    ground.python(&format!("{CALL}{script}")).with_env("PATH", "/usr/bin:/bin")
}

async fn inside(ground: &Ground, sandbox: &Sandbox, script: &str, confinement: ConfinementLevel) -> String {
    said(&sandbox.run(python(ground, script).with_confinement(confinement)).await.unwrap())
}

async fn outside(ground: &Ground, script: &str) -> String {
    let local = LocalProcesses::new(std::env::vars_os());
    said(&local.run(python(ground, script)).await.unwrap())
}

/// The script prints `answer N`.
async fn check(
    ground: &Ground,
    sandboxes: &[Sandbox],
    what: &str,
    script: &str,
    errno: i64,
    control: Outside,
) {
    for sandbox in sandboxes {
        for confinement in [ConfinementLevel::Session, ConfinementLevel::ReadOnly] {
            let told = answer(inside(ground, sandbox, script, confinement).await);
            assert_eq!(told, -errno, "{what}, {:?}, {confinement:?}", sandbox.stack());
        }
    }
    if matches!(control, WorksForRoot | FailsOtherwiseForRoot) && !is_root() {
        return;
    }
    let told = answer(outside(ground, script).await);
    assert_ne!(told, -errno, "{what} says the same outside");
    if matches!(control, Works | WorksForRoot) {
        assert!(told >= 0, "{what} doesn't even work outside: {told}");
    }
}

#[tokio::test]
async fn forbidden_calls_work_outside() {
    let ground = Ground::new();
    let sandboxes =
        [SandboxStack::Full, SandboxStack::Fallback].map(|stack| ground.sandbox_of(stack, ground.scene()));
    for (what, script, errno, control) in [
        ("a key", "call(248, b'user', b'haft-test', b'x', 1, -2)", EPERM, Works),
        ("the keyring of the session", "call(250, 0, -3, 1)", EPERM, Works),
        ("a keyring of one's own", "call(250, 1, 0)", EPERM, Works),
        ("asking for a key", "call(249, b'user', b'haft-none', 0, 0)", EPERM, FailsOtherwise),
        ("bpf", "call(321, 0, (ctypes.c_uint32 * 32)(2, 4, 4, 1), 128)", EPERM, WorksForRoot),
        (
            "perf",
            "call(298, ctypes.create_string_buffer(b'\\1\\0\\0\\0\\x80\\0\\0\\0\\x09' + b'\\0' * 31 + b'\\x61', 128), 0, -1, -1, 0)",
            EPERM,
            Works,
        ),
        ("userfaultfd", "call(323, 1)", EPERM, Works),
        ("io_uring", "call(425, 4, (ctypes.c_uint32 * 32)())", ENOSYS, Works),
        ("io_uring of nobody", "call(426, -1, 0, 0, 0, 0, 0)", ENOSYS, FailsOtherwise),
        ("a file by its handle", "call(304, -1, 0, 0)", EPERM, FailsOtherwise),
        ("fanotify", "call(300, 0, 0)", EPERM, WorksForRoot),
        ("the log of the kernel", "call(103, 10, 0, 0)", EPERM, WorksForRoot),
        ("a module", "call(313, -1, b'', 0)", EPERM, FailsOtherwiseForRoot),
        ("another kernel", "call(246, 0, 1 << 20, 0, 0)", EPERM, FailsOtherwiseForRoot),
        ("quotas", "call(179, 0x80000700, 0, 0, 0)", EPERM, FailsOtherwise),
        ("accounting", "call(163, b'/no/such/file')", EPERM, FailsOtherwiseForRoot),
        ("swap", "call(167, b'/no/such/file', 0)", EPERM, FailsOtherwiseForRoot),
        ("unmounting", "call(166, b'/no/such/folder', 0)", EPERM, FailsOtherwise),
        ("another root", "call(155, b'/no/such/folder', b'/no')", EPERM, FailsOtherwiseForRoot),
        ("moving a mount", "call(429, -1, b'', -1, b'', 0)", EPERM, FailsOtherwiseForRoot),
        ("changing a mount", "call(442, -1, b'', 0x1000, 0, 0)", EPERM, FailsOtherwise),
        ("ports", "call(173, 0x80, 1, 1)", EPERM, FailsOtherwiseForRoot),
    ] {
        check(&ground, &sandboxes, what, &format!("print('answer', {script})"), errno, control).await;
    }
}

/// Numbers of the x32 kind would pass a filter that only knows the others. Where the kernel has them they
/// work outside; where it has none it says so itself, in our words, and there is nothing to tell apart: what
/// our filter does with them is tested on the filter then (`seccomp::tests`).
#[tokio::test]
async fn calls_of_the_x32_kind_are_unknown() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    let script = "print('answer', call(0x40000000 | 39))";
    let told = answer(inside(&ground, &sandbox, script, ConfinementLevel::Session).await);
    assert_eq!(told, -ENOSYS);
    let told = answer(outside(&ground, script).await);
    if told == -ENOSYS {
        eprintln!("skipped: the control, because this kernel is built without x32");
    } else {
        assert!(told > 0, "{told}");
    }
}

/// Calls in the way of 32-bit programs have other numbers: whoever makes one is killed.
#[tokio::test]
async fn calls_of_32_bit_programs_kill() {
    const SIGSYS: i32 = 31;
    const SIGSEGV: i32 = 11;
    let ground = Ground::new();
    // push rbx; mov eax, getpid; int 0x80; pop rbx; ret
    let script = "import mmap
m = mmap.mmap(-1, 4096, prot=7)
m.write(b'\\x53\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\x5b\\xc3')
f = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(m)))
print('begun', flush=True)
print('DONE', f() == os.getpid())";
    for stack in [SandboxStack::Full, SandboxStack::Fallback] {
        let sandbox = ground.sandbox_of(stack, ground.scene());
        let outcome = sandbox.run(python(&ground, script)).await.unwrap();
        assert_eq!(said(&outcome), format!("{:?} begun\n", ProcessExit::Signal(SIGSYS)));
    }
    let outcome = LocalProcesses::new(std::env::vars_os()).run(python(&ground, script)).await.unwrap();
    if outcome.exit == ProcessExit::Signal(SIGSEGV) {
        eprintln!("skipped: the control, because this kernel runs no 32-bit programs");
    } else {
        assert_eq!(said(&outcome), "Code(0) begun\nDONE True\n");
    }
}

/// A terminal of one's own, into which anybody may type unless the kernel is told otherwise. The kernel
/// itself answers `EIO` where that is switched off, and ours is `EPERM`; the terminal can be asked for other
/// things. The upper half of the number is no way round.
#[tokio::test]
async fn typing_into_a_terminal() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    let off = fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti").is_ok_and(|value| value.trim() == "0");
    for (number, expected) in
        [("0x5412", 0), ("0x7700005412", 0), ("0x541c", -25 /* no console */), ("0x770000541c", -25)]
    {
        let script = format!(
            "import pty, fcntl
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, 0x5413, b'12345678')
    os.write(1, b' answer %d end ' % call(16, 0, {number}, b'x'))
    os._exit(0)
said = b''
while True:
    try: piece = os.read(terminal, 100)
    except OSError: break
    if not piece: break
    said += piece
print(said.decode())"
        );
        for confinement in [ConfinementLevel::Session, ConfinementLevel::ReadOnly] {
            let told = inside(&ground, &sandbox, &script, confinement).await;
            assert_eq!(answer(&told), -EPERM, "{number}: {told}");
        }
        let told = outside(&ground, &script).await;
        let expected = if off && expected == 0 && !is_root() { -EIO } else { expected };
        assert_eq!(answer(&told), expected, "{number} outside: {told}");
        assert!(expected != 0 || told.contains('x'), "what was typed shows: {told}");
    }
}

/// Nobody becomes another user by a file that says so. Root makes such a file for this; others take `su`.
#[tokio::test]
async fn set_user_id_programs_change_nobody() {
    const NOBODY: u32 = 65534;
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    if is_root() {
        let copy = ground.workspace().join("id");
        fs::copy("/usr/bin/id", &copy).unwrap();
        std::os::unix::fs::chown(&copy, Some(NOBODY), None).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
        for confinement in [ConfinementLevel::Session, ConfinementLevel::ReadOnly] {
            let outcome = sandbox.run(ground.bash("./id -u").with_confinement(confinement)).await.unwrap();
            assert_eq!(said(&outcome), "Code(0) 0\n", "{confinement:?}");
        }
        let outcome = LocalProcesses::new(std::env::vars_os()).run(ground.bash("./id -u")).await.unwrap();
        assert_eq!(said(&outcome), format!("Code(0) {NOBODY}\n"));
        return;
    }
    let is_set = |path: &str| fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o4000 != 0);
    let Some(program) = ["/usr/bin/su", "/bin/su"].into_iter().find(|path| is_set(path)) else {
        eprintln!("skipped: there is no set-user-id program");
        return;
    };
    // When it asks for a password, or complains, it is who it will be.
    let script = format!(
        "import subprocess
p = subprocess.Popen(['{program}'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
p.stderr.read(1)
try: user = [int(l.split()[2]) for l in open(f'/proc/{{p.pid}}/status') if l.startswith('Uid')][0]
except (OSError, IndexError): user = os.getuid()
p.stdin.close()
print('answer', user)"
    );
    let user = i64::from(rustix::process::geteuid().as_raw());
    assert_eq!(answer(inside(&ground, &sandbox, &script, ConfinementLevel::Session).await), user);
    assert_eq!(answer(outside(&ground, &script).await), 0, "{program} outside");
}

/// Whoever traces the host is the host. The number of the host is nobody's inside, and the first process of
/// the namespace, which is ours, lets nobody look into it.
#[tokio::test]
async fn tracing_the_host() {
    const SEIZE: u32 = 0x4206;
    let ground = Ground::new();
    let host = std::process::id();
    let restricted = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope")
        .is_ok_and(|value| value.trim() != "0" && !(is_root() && value.trim() < "3"));
    for stack in [SandboxStack::Full, SandboxStack::Fallback] {
        let sandbox = ground.sandbox_of(stack, ground.scene());
        for target in [host.to_string(), "os.getppid()".into()] {
            for script in [
                format!("print('answer', call(101, {SEIZE}, {target}, 0, 0))"),
                format!(
                    "try: os.open(f'/proc/{{{target}}}/mem', 0); print('answer 0')\nexcept OSError as e: print('answer', -e.errno)"
                ),
                format!(
                    "try: open(f'/proc/{{{target}}}/environ', 'rb').read(1); print('answer 0')\nexcept OSError as e: print('answer', -e.errno)"
                ),
                format!(
                    "try: os.stat(f'/proc/{{{target}}}/root/etc'); print('answer 0')\nexcept OSError as e: print('answer', -e.errno)"
                ),
            ] {
                for confinement in [ConfinementLevel::Session, ConfinementLevel::ReadOnly] {
                    let told = answer(inside(&ground, &sandbox, &script, confinement).await);
                    assert!(told < 0, "{stack:?} {confinement:?} {script}: {told}");
                }
                let told = answer(outside(&ground, &script).await);
                if !restricted {
                    assert_eq!(told, 0, "not even outside: {script}");
                }
            }
        }
    }
}

/// Everything that one process can do to another of its user, to `target`; prints what it did.
const REACHES: &str = "
import signal, struct, time
did = []
def tried(what, answer):
    if answer >= 0: did.append(what)
def opened(name, flags=os.O_RDONLY):
    try: os.open(f'/proc/{target}/{name}', flags); did.append(name)
    except OSError: pass
for name in ['mem', 'environ', 'maps', 'ns/mnt', 'ns/user', 'root', 'cwd', 'exe']: opened(name)
for number in range(32): opened(f'fd/{number}')
for name in ['oom_score_adj', 'comm', 'timerslack_ns']: opened(name, os.O_WRONLY)
tried('prlimit', call(302, target, 7, struct.pack('QQ', 64, 64), None))
tried('priority', call(141, 0, target, 19))
tried('scheduler', call(144, target, 5, struct.pack('i', 0)))
tried('affinity', call(203, target, 8, struct.pack('Q', 1)))
tried('input and output', call(251, 1, target, 3 << 13))
pidfd = call(434, target, 0)
if pidfd >= 0:
    for number in range(32): tried('pidfd_getfd', call(438, pidfd, number, 0))
for number in [signal.SIGSTOP, signal.SIGCONT, signal.SIGUSR1, signal.SIGSEGV, signal.SIGKILL]:
    tried(f'signal {int(number)}', call(62, target, int(number)))
time.sleep(0.05)
print('did', ','.join(sorted(set(did))))
";

/// The first process of a child's namespace may mount there, so nothing of the child may get at it or hinder
/// it.
#[tokio::test]
async fn the_first_process_is_out_of_reach() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    let inside_one = format!("target = 1\n{REACHES}");
    for confinement in [ConfinementLevel::Session, ConfinementLevel::ReadOnly] {
        let told = inside(&ground, &sandbox, &inside_one, confinement).await;
        assert!(told.contains("did \n"), "{confinement:?}: {told}");
    }
    let other = "target = os.fork()\nif target == 0:\n    import time\n    time.sleep(1000)\n";
    let told = outside(&ground, &format!("{other}{REACHES}")).await;
    for does in ["mem", "ns/mnt", "fd/0", "prlimit", "priority", "affinity", "pidfd_getfd", "signal 9"] {
        assert!(told.contains(does), "{does} doesn't even work outside: {told}");
    }
}

/// As root without any capability `core_pattern` could still be written: the file belongs to root. Both walls
/// before it hold alone: the read-only mount here, and Landlock where there are no mounts.
#[tokio::test]
async fn settings_of_the_kernel() {
    let ground = Ground::new();
    for file in ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/panic", "/proc/sys/vm/swappiness"] {
        let script = format!(
            "try:
    text = open('{file}').read(); f = open('{file}', 'r+'); f.write(text); f.flush(); print('answer 0')
except OSError as e: print('answer', -e.errno)"
        );
        for stack in [SandboxStack::Full, SandboxStack::Fallback] {
            let sandbox = ground.sandbox_of(stack, ground.scene());
            for confinement in [ConfinementLevel::Session, ConfinementLevel::ReadOnly] {
                let told = answer(inside(&ground, &sandbox, &script, confinement).await);
                assert!(told < 0, "{stack:?} {confinement:?} {file}");
            }
        }
        // Root without capabilities: what a child would be without these walls.
        if is_root() && Path::new("/usr/bin/setpriv").exists() {
            let bare = "setpriv --bounding-set=-all --inh-caps=-all --no-new-privs python3 -c \"$0\"";
            let request = ProcessRequest::new(["bash", "-c", bare, &script], ground.workspace());
            let outcome = LocalProcesses::new(std::env::vars_os()).run(request).await.unwrap();
            assert_eq!(answer(said(&outcome)), 0, "{file}: not even outside: {}", said(&outcome));
        }
    }
}
