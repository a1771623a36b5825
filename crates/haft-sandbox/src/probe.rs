//! Which parts of a sandbox this machine can make: each is tried for real, in a process of its own.
//!
//! What a setting says and what the kernel then does are two things, so settings are only read to say what can be done
//! about a part that failed.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::net::RecvFlags;

use crate::confined::{Helper, HelperProgram};
use crate::init::Walls;
use crate::sandbox::Stack;
use crate::scene::{Part, Scene};
use crate::sys::{self, Forked, OneThread};
use crate::{helper, init, limits, loopback, seccomp, stage, start, wire};

/// One part of a sandbox, and whether this machine can make it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The part.
    pub part: &'static str,
    /// Whether it works.
    pub works: bool,
    /// What was found, in a few words.
    pub detail: String,
    /// What it takes to have it, if it doesn't work and something can be done.
    pub advice: Option<String>,
    /// The stack that is impossible without it; none if it is only an addition.
    pub needed_for: Option<Stack>,
}

/// How a part is tried, and what came of it in words.
type Attempt = fn() -> Result<String, String>;

/// What is tried: name, the stack that can't do without it, and how.
const PARTS: [(&str, Option<Stack>, Attempt); 8] = [
    ("user namespace", Some(Stack::Full), user_namespace),
    ("mounts and processes of its own", Some(Stack::Full), scene),
    ("private copies of caches (overlayfs)", None, overlay),
    ("network namespace", Some(Stack::Full), network),
    ("Landlock", Some(Stack::Fallback), landlock),
    ("filter of system calls (seccomp)", Some(Stack::Fallback), filter),
    ("bounds on memory and processes (cgroup)", None, cgroup),
    ("bubblewrap", None, bubblewrap),
];

/// Tries every part. The program has to begin with [`entry`](crate::entry), or `helper` to name one that does.
pub fn probe(helper: Option<&Path>) -> Vec<Finding> {
    let program = helper.map_or(HelperProgram::ThisProgram, |path| HelperProgram::At(path.to_owned()));
    let helper = Helper::start(&program, Walls::Probe, &[]);
    let finding = |(part, needed_for, _): (&'static str, Option<Stack>, Attempt)| {
        let answer = helper.as_ref().map_err(String::clone).and_then(Helper::answer);
        let advice = if answer.is_ok() { None } else { advice(part) };
        let (works, detail) = (answer.is_ok(), answer.unwrap_or_else(|words| words));
        Finding { part, works, detail, advice, needed_for }
    };
    PARTS.into_iter().map(finding).collect()
}

/// The stack that these findings come to.
pub fn stack_of(findings: &[Finding]) -> Stack {
    let missing = |stack| findings.iter().any(|found| !found.works && found.needed_for == Some(stack));
    match (missing(Stack::Fallback), missing(Stack::Full)) {
        (true, _) => Stack::None,
        (false, true) => Stack::Fallback,
        (false, false) => Stack::Full,
    }
}

/// What can be done about a part that doesn't work.
fn advice(part: &str) -> Option<String> {
    let says = |file: &str, value: &str| std::fs::read_to_string(file).is_ok_and(|text| text.trim() == value);
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/usr/bin/haft"));
    match part {
        "user namespace" | "mounts and processes of its own" | "network namespace" => {
            if says("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
                return Some(format!(
                    "AppArmor lets only programs with a profile make user namespaces; as root write this to \
                     `/etc/apparmor.d/haft` and run `apparmor_parser -r /etc/apparmor.d/haft`:\nabi <abi/4.0>,\n\
                     include <tunables/global>\nprofile haft {} flags=(unconfined) {{\n  userns,\n}}",
                    program.display()
                ));
            }
            if says("/proc/sys/kernel/unprivileged_userns_clone", "0") {
                return Some("as root: `sysctl kernel.unprivileged_userns_clone=1`".into());
            }
            if says("/proc/sys/user/max_user_namespaces", "0") {
                return Some("as root: `sysctl user.max_user_namespaces=10000`".into());
            }
            Some(
                "in a container, start it so that it may make namespaces, and with an unmasked `/proc`"
                    .into(),
            )
        }
        "Landlock" => Some("Linux 5.13 or later with `landlock` in `/sys/kernel/security/lsm`".into()),
        "private copies of caches (overlayfs)" => {
            Some("Linux 5.11 or later; without it caches can be read and not written".into())
        }
        "bounds on memory and processes (cgroup)" => {
            Some("a session of systemd delegates them: `systemd-run --user --scope -p Delegate=yes`".into())
        }
        _ => None,
    }
}

/// In the helper: tries each part in a copy of itself, says what came of it, and ends.
pub(crate) fn run() -> ! {
    let (Some(socket), Some(one_thread)) = (sys::inherited(helper::SOCKET), OneThread::look()) else {
        sys::exit_now(1)
    };
    let _ = wire::send(socket.as_fd(), b"+", &[]);
    for (.., attempt) in PARTS {
        match sys::fork(&one_thread, 0) {
            Ok(Forked::Child) => {
                say(&socket, attempt());
                sys::exit_now(0);
            }
            Ok(Forked::Parent(child)) => {
                let options = rustix::process::WaitIdOptions::EXITED;
                let ended = rustix::process::waitid(rustix::process::WaitId::PidFd(child.as_fd()), options);
                if !ended.is_ok_and(|ended| ended.is_some_and(|ended| ended.exit_status() == Some(0))) {
                    say(&socket, Err("the process that tried it was killed".into()));
                }
            }
            Err(errno) => say(&socket, Err(std::io::Error::from(errno).to_string())),
        }
    }
    sys::exit_now(0)
}

fn say(socket: &OwnedFd, answer: Result<String, String>) {
    let text = match answer {
        Ok(text) => format!("+{text}"),
        Err(text) => format!("-{text}"),
    };
    let _ = wire::send(socket.as_fd(), text.as_bytes(), &[]);
}

impl Helper {
    /// What the probing helper says next.
    fn answer(&self) -> Result<String, String> {
        let silent = || "no answer".to_owned();
        if !self.waits(limits::HELPER_WAIT) {
            return Err(silent());
        }
        let mut buffer = [0; limits::WORDS_BYTES_MAX];
        let (count, _) = self.receive(&mut buffer, RecvFlags::empty()).map_err(|_| silent())?;
        match buffer[..count].split_first() {
            Some((b'+', text)) => Ok(String::from_utf8_lossy(text).into_owned()),
            Some((b'-', text)) => Err(String::from_utf8_lossy(text).into_owned()),
            _ => Err(silent()),
        }
    }
}

fn user_namespace() -> Result<String, String> {
    helper::enter_user_namespace()?;
    Ok("can be made by this user".into())
}

fn scene() -> Result<String, String> {
    helper::enter_user_namespace()?;
    let namespaces = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWNET;
    let one_thread = OneThread::look().ok_or("there is more than one thread")?;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(|error| error.to_string())?;
    match sys::fork(&one_thread, namespaces).map_err(|errno| std::io::Error::from(errno).to_string())? {
        Forked::Child => {
            let scene = Scene { parts: vec![Part::Proc, Part::Dev], ..Scene::default() };
            let answer = init::prepare(Walls::Namespaces, &scene, None)
                .and_then(|prepared| prepared.finish(&[]).map(|_| String::new()));
            let words = answer.err().unwrap_or_default();
            use std::io::Write as _;
            let _ = (&theirs).write_all(format!("={words}").as_bytes());
            sys::exit_now(0)
        }
        Forked::Parent(_) => {
            use std::io::Read as _;
            drop(theirs);
            let mut words = String::new();
            let _ = (&ours).read_to_string(&mut words);
            match words.strip_prefix('=') {
                Some("") => Ok("a root, `/proc` and `/dev` of its own".into()),
                Some(words) => Err(words.to_owned()),
                None => Err("the process that tried it was killed".into()),
            }
        }
    }
}

fn overlay() -> Result<String, String> {
    let failed = |error: std::io::Error| error.to_string();
    let folder = std::env::temp_dir().join(format!("haft-probe-{}", std::process::id()));
    for name in ["lower", "upper", "work"] {
        std::fs::create_dir_all(folder.join(name)).map_err(failed)?;
    }
    let tried = helper::enter_user_namespace().and_then(|()| {
        let [lower, upper, work] = ["lower", "upper", "work"].map(|name| folder.join(name));
        stage::overlay(&lower, &upper, &work).map_err(|errno| failed(errno.into()))
    });
    let _ = std::fs::remove_dir_all(&folder);
    tried.map(|_| "can be made by this user".into())
}

fn network() -> Result<String, String> {
    helper::enter_user_namespace()?;
    loopback::make(&[]).map(|_| "with a loopback, a proxy and a name server on it".into())
}

fn landlock() -> Result<String, String> {
    let abi = sys::landlock_abi().ok_or("this kernel has none, or it is switched off")?;
    let scopes = if abi >= 6 { "" } else { "; signals and abstract sockets need version 6" };
    Ok(format!("version {abi}{scopes}"))
}

/// Starts this program once more with the filter on; it ends at once.
fn filter() -> Result<String, String> {
    let plan = start::Plan {
        program: c"/proc/self/exe".to_owned(),
        opened: None,
        argv: vec![c"haft: sandbox".to_owned(), c"nothing".to_owned()],
        envp: Vec::new(),
        cwd: c"/".to_owned(),
        locks: start::Locks {
            filter: seccomp::filter(seccomp::Sockets::All, seccomp::Changes::Made),
            ..start::Locks::default()
        },
    };
    match start::start(&plan, &[]) {
        Ok(child) => {
            child.reap();
            Ok("takes filters".into())
        }
        Err((_, errno)) => Err(std::io::Error::from(errno).to_string()),
    }
}

/// Whether a group of our own can be made beneath the one that we are in.
fn cgroup() -> Result<String, String> {
    let own = std::fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::/")).ok_or("no cgroup v2")?;
    let folder = Path::new("/sys/fs/cgroup").join(path);
    let controllers = std::fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
    if !["memory", "pids"].iter().all(|wanted| controllers.split_whitespace().any(|found| found == *wanted)) {
        return Err("memory and pids are not delegated to this session".into());
    }
    let child = folder.join(format!("haft-probe-{}", std::process::id()));
    std::fs::create_dir(&child).map_err(|error| format!("no group can be made: {error}"))?;
    let _ = std::fs::remove_dir(&child);
    Ok("delegated to this session; not used yet".into())
}

fn bubblewrap() -> Result<String, String> {
    let places = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];
    let found = places.iter().find(|path| rustix::fs::access(**path, rustix::fs::Access::EXEC_OK).is_ok());
    let found = found.ok_or("not installed; it isn't needed where namespaces can be made")?;
    Ok(format!("`{found}`; not used where namespaces can be made"))
}
