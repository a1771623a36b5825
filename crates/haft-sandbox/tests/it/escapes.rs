//! Attempts to get out, each made twice: in the sandbox, where it must fail, and outside, where it must work.
//!
//! An attempt prints `DONE` when it worked. Without the second half a test would also pass if the attempt
//! were broken.

use std::os::unix::net::UnixListener;

use haft::ports::{ConfinementLevel, Processes as _};
use haft_sandbox::{LocalProcesses, SandboxStack};

use crate::confined::{Ground, is_root, said};

/// Who can do this outside.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Anybody,
    Root,
    /// Nobody: this kernel hasn't got it.
    Nobody,
}
use Outside::{Anybody, Nobody, Root};

/// A call of the kernel by number, and what it answers. Big enough arguments that none is refused for being
/// null.
pub(crate) const CALL: &str = "import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    answer = libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    return answer if answer >= 0 else -ctypes.get_errno()
";

async fn both(ground: &Ground, sandbox: &haft_sandbox::Sandbox, what: &str, python: &str, outside: Outside) {
    let script = format!("{CALL}{python}");
    for confinement in [ConfinementLevel::Session, ConfinementLevel::ReadOnly] {
        let outcome = sandbox.run(ground.python(&script).with_confinement(confinement)).await.unwrap();
        assert!(!said(&outcome).contains("DONE"), "{what} worked ({confinement:?}): {}", said(&outcome));
    }
    if outside == Anybody || (outside == Root && is_root()) {
        let local = LocalProcesses::new(std::env::vars_os());
        let outcome = local.run(ground.python(&script)).await.unwrap();
        assert!(said(&outcome).contains("DONE"), "{what} doesn't even work outside: {}", said(&outcome));
    }
}

#[tokio::test]
async fn files_outside() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    let outside = ground.at("outside");
    let outside = outside.display();
    std::fs::write(ground.at("outside/old"), "").unwrap();
    for (what, python) in [
        ("reading a file", format!("assert 'SECRET' in open('{outside}/secret').read(); print('DONE')")),
        ("listing a folder", format!("assert 'secret' in os.listdir('{outside}'); print('DONE')")),
        ("writing a file", format!("open('{outside}/new', 'w').write('x'); print('DONE')")),
        ("linking to a file", format!("os.link('{outside}/old', 'linked'); print('DONE')")),
        (
            "a link through",
            format!(
                "os.path.lexists('l') and os.remove('l'); os.symlink('{outside}/secret', 'l'); assert open('l').read(); print('DONE')"
            ),
        ),
        ("by way of /proc", format!("assert open('/proc/self/root{outside}/secret').read(); print('DONE')")),
        (
            "by way of a parent",
            format!("assert open(f'/proc/{{os.getppid()}}/root{outside}/secret').read(); print('DONE')"),
        ),
    ] {
        let _ = std::fs::remove_file(ground.workspace().join("l"));
        both(&ground, &sandbox, what, &python, Anybody).await;
        let _ = std::fs::remove_file(ground.workspace().join("l"));
        let _ = std::fs::remove_file(ground.workspace().join("linked"));
    }
}

#[tokio::test]
async fn the_network() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let _unix = UnixListener::bind(ground.at("outside/socket")).unwrap();
    let (tcp, udp) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    let socket = ground.at("outside/socket");
    let socket = socket.display();
    for (what, python) in [
        ("TCP", format!("import socket; socket.create_connection(('127.0.0.1', {tcp}), 2); print('DONE')")),
        (
            "UDP",
            format!(
                "import socket; s = socket.socket(2, 2); s.sendto(b'x', ('127.0.0.1', {udp})); print('DONE')"
            ),
        ),
        (
            "a unix socket",
            format!("import socket; s = socket.socket(1); s.connect('{socket}'); print('DONE')"),
        ),
    ] {
        both(&ground, &sandbox, what, &python, Anybody).await;
    }
    let families = "import socket
for family in [17, 38, 40, 29, 31]:
    try: socket.socket(family, socket.SOCK_RAW); print('DONE', family)
    except OSError: pass
    try: socket.socket(family, socket.SOCK_STREAM); print('DONE', family)
    except OSError: pass";
    both(&ground, &sandbox, "another family", families, Root).await;
    let keys = "import socket; socket.socket(16, 3, 15); print('DONE')";
    both(&ground, &sandbox, "netlink of another kind", keys, Anybody).await;
}

/// Abstract sockets belong to a network; where that is the host's, Landlock keeps them apart.
#[tokio::test]
async fn abstract_sockets_of_the_host_when_its_network_is_granted() {
    use std::os::linux::net::SocketAddrExt as _;
    let ground = Ground::new();
    let sandbox = ground.sandbox_of(SandboxStack::Full, ground.scene().host_network());
    let name = format!("haft-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let python = format!("import socket; s = socket.socket(1); s.connect('\\0{name}'); print('DONE')");
    both(&ground, &sandbox, "an abstract socket", &python, Anybody).await;
    // What was granted works.
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let python = format!(
        "import socket; socket.create_connection(('127.0.0.1', {}), 2); print('DONE')",
        tcp.local_addr().unwrap().port()
    );
    let outcome = sandbox.run(ground.python(&python)).await.unwrap();
    assert!(said(&outcome).contains("DONE"), "{}", said(&outcome));
}

#[tokio::test]
async fn the_machine_through_proc() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    let rewrite = |file: &str| {
        format!("t = open('{file}').read(); f = open('{file}', 'w'); f.write(t); f.flush(); print('DONE')")
    };
    for file in ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/panic", "/proc/sys/vm/swappiness"] {
        both(&ground, &sandbox, file, &rewrite(file), Root).await;
    }
    // Not every kernel has it.
    let sysrq = if std::path::Path::new("/proc/sysrq-trigger").exists() { Root } else { Nobody };
    both(&ground, &sandbox, "sysrq", "open('/proc/sysrq-trigger', 'w'); print('DONE')", sysrq).await;
    let host = std::process::id();
    let program = std::env::args().next().unwrap();
    for (what, python) in [
        (
            "seeing the host",
            format!("assert '{program}' in open('/proc/{host}/cmdline').read(); print('DONE')"),
        ),
        ("signalling the host", format!("os.kill({host}, 0); print('DONE')")),
    ] {
        // The number could be somebody's inside, which `kill` can't tell apart; but there are few.
        both(&ground, &sandbox, what, &python, Anybody).await;
    }
    // The first process of the namespace is the parent, and ours; outside the parent is this test.
    for file in ["environ", "mem", "root/etc/passwd", "maps"] {
        let python = format!("open(f'/proc/{{os.getppid()}}/{file}', 'rb'); print('DONE')");
        both(&ground, &sandbox, file, &python, Anybody).await;
    }
}

#[tokio::test]
async fn rights() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    let outcome =
        sandbox.run(ground.bash("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")).await.unwrap();
    let status = said(&outcome);
    for line in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(status.contains(&format!("{line}:\t0000000000000000")), "{line} in {status}");
    }
    assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"), "{status}");
    for (what, python) in [
        ("chmod", "open('f', 'w').close(); os.chmod('f', 0o4755); print('DONE')"),
        ("fchmod", "f = open('f', 'w'); os.fchmod(f.fileno(), 0o2755); print('DONE')"),
        ("fchmodat", "open('f', 'w').close(); assert call(268, -100, b'f', 0o4755) == 0; print('DONE')"),
        ("open", "os.close(os.open('g', os.O_CREAT | os.O_WRONLY, 0o4755)); print('DONE')"),
    ] {
        let _ = std::fs::remove_file(ground.workspace().join("g"));
        both(&ground, &sandbox, what, python, Anybody).await;
    }
    for (what, python, outside) in [
        ("another user", "os.setuid(1 if os.getuid() == 0 else 0); print('DONE')", Root),
        ("chown", "open('f', 'w').close(); os.chown('f', 1, 1); print('DONE')", Root),
        ("a device", "os.mknod('d', 0o20666, os.makedev(1, 1)); print('DONE')", Root),
    ] {
        let _ = std::fs::remove_file(ground.workspace().join("d"));
        both(&ground, &sandbox, what, python, outside).await;
    }
}

#[tokio::test]
async fn namespaces_and_mounts() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    for (what, python, outside) in [
        ("unshare", "assert call(272, 0x10000000) == 0; print('DONE')", Anybody),
        (
            "clone",
            "p = call(56, 0x10000000 | 17, 0, 0, 0, 0)\nif p == 0: os._exit(0)\nassert p > 0; print('DONE')",
            Anybody,
        ),
        (
            "clone3",
            "b = (ctypes.c_uint64 * 11)(0x10000000); b[4] = 17\np = call(435, b, 88)\nif p == 0: os._exit(0)\nassert p > 0; print('DONE')",
            Anybody,
        ),
        ("setns", "f = os.open('/proc/self/ns/net', 0); assert call(308, f, 0) == 0; print('DONE')", Root),
        (
            "mount",
            "assert call(165, b'x', b'/tmp', b'tmpfs', 0, 0) == 0; assert call(166, b'/tmp', 0) == 0; print('DONE')",
            Root,
        ),
        ("fsopen", "assert call(430, b'tmpfs', 0) >= 0; print('DONE')", Root),
        ("open_tree", "assert call(428, -100, b'/', 1) >= 0; print('DONE')", Root),
        ("chroot", "os.chroot('/'); print('DONE')", Root),
    ] {
        both(&ground, &sandbox, what, python, outside).await;
    }
}

/// `git` finds its configuration, and nothing that a child does can change it or put another in its place.
#[tokio::test]
async fn protected_names() {
    let ground = Ground::new();
    let git = ground.workspace().join("a/.git");
    std::fs::create_dir_all(&git).unwrap();
    std::fs::write(git.join("config"), "mine").unwrap();
    std::fs::create_dir(git.join("hooks")).unwrap();
    let scene = ground
        .scene()
        .pin(ground.workspace().join("a"))
        .pin(&git)
        .protect(git.join("config"))
        .protect(git.join("hooks"));
    let sandbox = ground.sandbox_of(SandboxStack::Full, scene);
    let attempts = [
        "echo x > a/.git/config",
        "echo x >> a/.git/config",
        "rm -f a/.git/config",
        "mv a/.git/config c",
        "echo x > n && mv n a/.git/config",
        "mv a/.git g",
        "mv a b",
        "mv a b; mkdir -p a/.git; echo x > a/.git/config",
        "rm -rf a",
        "ln a/.git/config c && echo x > c",
        "chmod 777 a/.git/config",
        "touch a/.git/hooks/post-checkout",
        "rmdir a/.git/hooks",
        "mv a/.git/hooks h",
    ];
    for script in attempts {
        let outcome = sandbox.run(ground.bash(&format!("{script} && echo DONE"))).await.unwrap();
        assert!(!said(&outcome).contains("DONE"), "{script}: {}", said(&outcome));
        assert_eq!(std::fs::read_to_string(git.join("config")).unwrap(), "mine", "{script}");
        assert_eq!(std::fs::read_dir(git.join("hooks")).unwrap().count(), 0, "{script}");
    }
    // The control: where nothing is pinned and nothing protected each of them works.
    for script in attempts {
        let free = Ground::new();
        std::fs::create_dir_all(free.workspace().join("a/.git/hooks")).unwrap();
        std::fs::write(free.workspace().join("a/.git/config"), "mine").unwrap();
        let outcome = free.sandbox().run(free.bash(&format!("{script} && echo DONE"))).await.unwrap();
        assert!(
            said(&outcome).contains("DONE"),
            "{script} doesn't even work unprotected: {}",
            said(&outcome)
        );
    }
    // Beside them everything goes on.
    let outcome = sandbox
        .run(ground.bash("cat a/.git/config; echo x > a/.git/index; mkdir a/b && mv a/b a/c && echo DONE"))
        .await;
    assert_eq!(said(&outcome.unwrap()), "Code(0) mineDONE\n");
}

#[tokio::test]
async fn masks_hide_files_and_folders() {
    let ground = Ground::new();
    std::fs::write(ground.workspace().join(".env"), "SECRET").unwrap();
    std::fs::create_dir(ground.workspace().join("keys")).unwrap();
    std::fs::write(ground.workspace().join("keys/k"), "SECRET").unwrap();
    let scene = ground
        .scene()
        .mask(ground.workspace().join(".env"))
        .mask(ground.workspace().join("keys"))
        .mask(ground.workspace().join("not/there"));
    let sandbox = ground.sandbox_of(SandboxStack::Full, scene);
    let attempts = [
        "cat .env",
        "cat keys/k",
        "ls keys",
        "echo x > .env",
        "touch keys/new",
        "chmod 777 .env keys",
        "mv .env e && cat e",
        "rm -rf keys",
    ];
    for script in attempts {
        let outcome = sandbox.run(ground.bash(&format!("{script} && echo DONE"))).await.unwrap();
        assert!(
            !said(&outcome).contains("DONE") && !said(&outcome).contains("SECRET"),
            "{script}: {}",
            said(&outcome)
        );
    }
    assert_eq!(std::fs::read_to_string(ground.workspace().join(".env")).unwrap(), "SECRET");
    for script in attempts {
        let free = Ground::new();
        std::fs::write(free.workspace().join(".env"), "SECRET").unwrap();
        std::fs::create_dir(free.workspace().join("keys")).unwrap();
        std::fs::write(free.workspace().join("keys/k"), "SECRET").unwrap();
        let outcome = free.sandbox().run(free.bash(&format!("{script} && echo DONE"))).await.unwrap();
        assert!(said(&outcome).contains("DONE"), "{script} doesn't even work unmasked: {}", said(&outcome));
    }
}

#[tokio::test]
async fn read_only_means_it() {
    let ground = Ground::new();
    std::fs::write(ground.workspace().join("file"), "old").unwrap();
    let sandbox = ground.sandbox();
    let look = |script: &str| {
        let request = ground.bash(script).with_confinement(ConfinementLevel::ReadOnly);
        let sandbox = &sandbox;
        async move { said(&sandbox.run(request).await.unwrap()) }
    };
    let attempts = [
        "echo x > file",
        "touch new",
        "rm file",
        "chmod 600 file",
        "mkdir d",
        "ln file f",
        "touch -d 2000-01-01 file",
        "mv file f",
    ];
    for script in attempts {
        let answer = look(&format!("{script} && echo DONE")).await;
        assert!(!answer.contains("DONE"), "{script}: {answer}");
    }
    // Who may write does each of them.
    for script in attempts {
        let free = Ground::new();
        std::fs::write(free.workspace().join("file"), "old").unwrap();
        let outcome = free.sandbox().run(free.bash(&format!("{script} && echo DONE"))).await.unwrap();
        assert!(said(&outcome).contains("DONE"), "{script}: {}", said(&outcome));
    }
    assert_eq!(look("cat file; echo x > /tmp/own && cat /tmp/own").await, "Code(0) oldx\n");
    assert_eq!(look("cat /tmp/own").await, "Code(1) cat: /tmp/own: No such file or directory\n");
}

/// Nothing of the host's is open in a child.
#[tokio::test]
async fn descriptors() {
    let ground = Ground::new();
    let sandbox = ground.sandbox();
    let script = "for f in /proc/self/fd/*; do readlink $f; done | sed 's/[0-9]*//g' | sort | uniq -c";
    for _ in 0..4 {
        let outcome = sandbox.run(ground.bash(script)).await.unwrap();
        let answer = said(&outcome);
        assert!(
            !answer.contains("socket") && !answer.contains("anon_inode") && !answer.contains("net"),
            "{answer}"
        );
    }
}
