//! Which parts of a sandbox this machine can make: each is tried for real, in a process of its own.
//!
//! What a setting says and what the kernel then does are two things, so settings are only read to say what
//! can be done about a part that failed.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::net::RecvFlags;

use crate::bubblewrap::TrustedBubblewrap;
use crate::confined::{HelperHandle, HelperProgram};
use crate::helper::{HelperIdentity, UserNamespace};
use crate::init::IsolationLevel;
use crate::mount_plan::{MountEntry, MountPlan};
use crate::sandbox::{SandboxStack, UserNamespaceMaker};
use crate::sys::{self, ForkSide, OneThread};
use crate::{helper, init, limits, loopback, mounts, seccomp, start, wire};

/// One part of a sandbox, and whether this machine can make it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResult {
    /// The part.
    pub part: &'static str,
    /// Whether it works.
    pub works: bool,
    /// What was found, in a few words.
    pub detail: String,
    /// What it takes to have it, if it is missed and something can be done; at the first of several that need
    /// the same.
    pub advice: Option<String>,
    /// The stack that is impossible without it; none if it is only an addition.
    pub needed_for: Option<SandboxStack>,
}

/// How a part is tried, in or out of a user namespace, and what came of it in words.
type ProbeFn = fn(UserNamespace) -> Result<String, String>;

const USER: &str = "user namespace";
const SCENE: &str = "mounts and processes of its own";
const OVERLAY: &str = "private copies of caches (overlayfs)";
const NETWORK: &str = "network namespace";
const LANDLOCK: &str = "Landlock";
const FILTER: &str = "filter of system calls (seccomp)";
const BUBBLEWRAP: &str = "bubblewrap";

/// What is tried: name, the stack that can't do without it, and how.
const PARTS: [(&str, Option<SandboxStack>, ProbeFn); 6] = [
    (USER, Some(SandboxStack::Full), user_namespace),
    (SCENE, Some(SandboxStack::Full), try_mounts),
    (OVERLAY, None, try_overlay),
    (NETWORK, Some(SandboxStack::Full), try_network),
    (LANDLOCK, Some(SandboxStack::Fallback), try_landlock),
    (FILTER, Some(SandboxStack::Fallback), try_filter),
];

/// What is tried again in a user namespace of bubblewrap's.
const IN_BUBBLEWRAP: [(&str, Option<SandboxStack>, ProbeFn); 3] = [
    (SCENE, Some(SandboxStack::Full), try_mounts),
    (OVERLAY, None, try_overlay),
    (NETWORK, Some(SandboxStack::Full), try_network),
];

/// Tries every part, with this program as the helper or with the one that `helper` names.
pub fn probe(helper: Option<&Path>) -> Vec<ProbeResult> {
    let program = helper.map_or(HelperProgram::ThisProgram, |path| HelperProgram::At(path.to_owned()));
    let mut findings = ask_helper(HelperHandle::start(&program, IsolationLevel::Probe, &[]), &PARTS);
    let own = stack_of(&findings);
    let bubblewrap = try_bubblewrap(&program);
    let (works, detail) = (bubblewrap.is_ok(), bubblewrap.as_ref().unwrap_or_else(|words| words));
    let detail = match own {
        SandboxStack::Full => format!("{detail}; not needed here, because namespaces can be made without it"),
        SandboxStack::Fallback | SandboxStack::None => detail.clone(),
    };
    if own == SandboxStack::Fallback && works {
        // It makes what we can't make ourselves, so nothing is missing.
        for found in findings.iter_mut().filter(|found| found.needed_for == Some(SandboxStack::Full)) {
            found.needed_for = None;
        }
    }
    let mut said = Vec::new();
    for found in findings.iter_mut().filter(|found| !found.works) {
        let missing = found.needed_for.is_some() || found.part == OVERLAY;
        // What helps against several is said at the first.
        found.advice = advice_for(found.part).filter(|advice| missing && !said.contains(advice));
        said.extend(found.advice.clone());
    }
    let advice = (own == SandboxStack::Fallback && !works).then(|| advice_for(BUBBLEWRAP)).flatten();
    findings.push(ProbeResult { part: BUBBLEWRAP, works, detail, advice, needed_for: None });
    findings
}

/// What a probing helper finds of these parts.
fn ask_helper(
    helper: Result<HelperHandle, String>,
    parts: &[(&'static str, Option<SandboxStack>, ProbeFn)],
) -> Vec<ProbeResult> {
    let finding = |(part, needed_for, _): &(&'static str, Option<SandboxStack>, ProbeFn)| {
        let answer = helper.as_ref().map_err(String::clone).and_then(HelperHandle::answer);
        let (works, detail) = (answer.is_ok(), answer.unwrap_or_else(|words| words));
        ProbeResult { part, works, detail, advice: None, needed_for: *needed_for }
    };
    parts.iter().map(finding).collect()
}

/// Whether bubblewrap makes what takes namespaces.
fn try_bubblewrap(program: &HelperProgram) -> Result<String, String> {
    let Some(found) = TrustedBubblewrap::find()? else { return Err("not installed".into()) };
    let path = found.path().display();
    let fails = |words: &str| format!("`{path}` can't make what is needed: {words}");
    let helper = HelperHandle::start_through(&found, program, IsolationLevel::Probe, &[])
        .map_err(|words| fails(&words))?;
    let tried = ask_helper(Ok(helper), &IN_BUBBLEWRAP);
    if let Some(missing) = tried.iter().find(|part| !part.works && part.needed_for.is_some()) {
        return Err(fails(&format!("{}: {}", missing.part, missing.detail)));
    }
    let copies = tried.iter().all(|part| part.works);
    Ok(format!("`{path}` makes namespaces{}", if copies { "" } else { ", but no private copies of caches" }))
}

/// Who makes the namespaces, by these findings; nobody without the [`SandboxStack::Full`] that they come to.
pub fn maker_of(findings: &[ProbeResult]) -> Option<UserNamespaceMaker> {
    let own = |part: &str| findings.iter().any(|found| found.part == part && found.works);
    let ourselves = [USER, SCENE, NETWORK].into_iter().all(own);
    (stack_of(findings) == SandboxStack::Full).then_some(if ourselves {
        UserNamespaceMaker::Ourselves
    } else {
        UserNamespaceMaker::Bubblewrap
    })
}

/// The stack that these findings come to.
pub fn stack_of(findings: &[ProbeResult]) -> SandboxStack {
    let missing = |stack| findings.iter().any(|found| !found.works && found.needed_for == Some(stack));
    match (missing(SandboxStack::Fallback), missing(SandboxStack::Full)) {
        (true, _) => SandboxStack::None,
        (false, true) => SandboxStack::Fallback,
        (false, false) => SandboxStack::Full,
    }
}

/// What can be done about a part that doesn't work.
fn advice_for(part: &str) -> Option<String> {
    let says = |file: &str, value: &str| std::fs::read_to_string(file).is_ok_and(|text| text.trim() == value);
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/usr/bin/haft"));
    match part {
        USER | SCENE | NETWORK => {
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
        LANDLOCK => Some("Linux 5.13 or later with `landlock` in `/sys/kernel/security/lsm`".into()),
        OVERLAY => {
            Some("Linux 5.11 or later; without it caches can be read and not written".into())
        }
        BUBBLEWRAP => Some(
            "the other way: the package `bubblewrap`, if a profile lets it make namespaces and leaves programs in them their rights"
                .into(),
        ),
        _ => None,
    }
}

/// In the helper: tries each part in a copy of itself, says what came of it, and ends.
pub(crate) fn run_probe(user: UserNamespace) -> ! {
    let Some(socket) = sys::inherited_descriptor(helper::SOCKET) else { sys::exit_now(1) };
    let one_thread = match OneThread::verify() {
        Ok(one_thread) => one_thread,
        Err(message) => {
            send_answer(&socket, Err(message));
            sys::exit_now(1)
        }
    };
    let _ = wire::send_message(socket.as_fd(), b"+", &[]);
    let parts: &[_] = match user {
        UserNamespace::ToBeMade => &PARTS,
        UserNamespace::Entered => &IN_BUBBLEWRAP,
    };
    for (.., attempt) in parts {
        match sys::fork_into(&one_thread, 0) {
            Ok(ForkSide::Child) => {
                send_answer(&socket, attempt(user));
                sys::exit_now(0);
            }
            Ok(ForkSide::Parent(child)) => {
                let options = rustix::process::WaitIdOptions::EXITED;
                let ended = rustix::process::waitid(rustix::process::WaitId::PidFd(child.as_fd()), options);
                if !ended.is_ok_and(|ended| ended.is_some_and(|ended| ended.exit_status() == Some(0))) {
                    send_answer(&socket, Err("the process that tried it was killed".into()));
                }
            }
            Err(errno) => send_answer(&socket, Err(std::io::Error::from(errno).to_string())),
        }
    }
    sys::exit_now(0)
}

fn send_answer(socket: &OwnedFd, answer: Result<String, String>) {
    let text = match answer {
        Ok(text) => format!("+{text}"),
        Err(text) => format!("-{text}"),
    };
    let _ = wire::send_message(socket.as_fd(), text.as_bytes(), &[]);
}

impl HelperHandle {
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

fn user_namespace(user: UserNamespace) -> Result<String, String> {
    user.enter()?;
    Ok("can be made by this user".into())
}

fn try_mounts(user: UserNamespace) -> Result<String, String> {
    user.enter()?;
    let namespaces = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWNET;
    let one_thread = OneThread::verify()?;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(|error| error.to_string())?;
    let itself = HelperIdentity::look();
    match sys::fork_into(&one_thread, namespaces).map_err(|errno| std::io::Error::from(errno).to_string())? {
        ForkSide::Child => {
            itself.bind_copy();
            let scene = MountPlan { parts: vec![MountEntry::Proc, MountEntry::Dev], ..MountPlan::default() };
            let answer = init::prepare_sandbox(IsolationLevel::Namespaces, &scene, None)
                .and_then(|prepared| prepared.finish(&[]).map(|_| String::new()));
            let words = answer.err().unwrap_or_default();
            use std::io::Write as _;
            let _ = (&theirs).write_all(format!("={words}").as_bytes());
            sys::exit_now(0)
        }
        ForkSide::Parent(_) => {
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

fn try_overlay(user: UserNamespace) -> Result<String, String> {
    let failed = |error: std::io::Error| error.to_string();
    let folder = std::env::temp_dir().join(format!("haft-probe-{}", std::process::id()));
    for name in ["lower", "upper", "work"] {
        std::fs::create_dir_all(folder.join(name)).map_err(failed)?;
    }
    let tried = user.enter().and_then(|()| {
        let [lower, upper, work] = ["lower", "upper", "work"].map(|name| folder.join(name));
        mounts::make_overlay(&lower, &upper, &work).map_err(|errno| failed(errno.into()))
    });
    let _ = std::fs::remove_dir_all(&folder);
    tried.map(|_| "can be made by this user".into())
}

fn try_network(user: UserNamespace) -> Result<String, String> {
    user.enter()?;
    loopback::make_session_network(&OneThread::verify()?, &[])
        .map(|_| "with a loopback, a proxy and a name server on it".into())
}

fn try_landlock(_: UserNamespace) -> Result<String, String> {
    let abi = sys::landlock_abi().ok_or("this kernel has none, or it is switched off")?;
    let scopes = if abi >= 6 { "" } else { "; signals and abstract sockets need version 6" };
    Ok(format!("version {abi}{scopes}"))
}

/// Starts this program once more with the filter on; it ends at once.
fn try_filter(_: UserNamespace) -> Result<String, String> {
    let plan = start::StartPlan {
        program: c"/proc/self/exe".to_owned(),
        opened: None,
        argv: vec![c"haft: sandbox".to_owned(), c"nothing".to_owned()],
        envp: Vec::new(),
        cwd: c"/".to_owned(),
        locks: start::ProcessRestraints {
            filter: seccomp::build_filter(seccomp::AllowedSockets::All, seccomp::ChangeHandling::Made),
            ..start::ProcessRestraints::default()
        },
        group: None,
        dies_with_us: true,
    };
    match start::start_child(&plan, &[]) {
        Ok(mut child) => {
            child.reap();
            Ok("takes filters".into())
        }
        Err((_, errno)) => Err(std::io::Error::from(errno).to_string()),
    }
}
