//! Hosts that are killed with -9, and a process that sees everything that they leave behind.
//!
//! Whoever loses its parent becomes a child of the nearest ancestor that has asked for that. The witness
//! asks, so it need not look for processes by name, which misses one that isn't yet what it is about to
//! become, and takes one in its last moment for one that lives. When a host is dead and the witness has no
//! child left, nothing is left; whoever still is there after a long time is described, counted and killed.
//!
//! It is a process of its own, because its children are all its own.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use haft_sandbox::testing::MAKER;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use crate::bubblewrap::is_installed;
use crate::confined::is_root;
use crate::user::{USER, reaches};

const ROUNDS: &str = "HAFT_TEST_ROUNDS";
const PATIENCE: &str = "HAFT_TEST_PATIENCE_MS";
/// What a host says when it has come so far.
const PHASE: &str = "phase: ";
/// What the witness says of each thing that is left.
const LEFT: &str = "left: ";
/// What it says when all rounds are over.
const SEEN: &str = "seen to the end";

/// In whose name hosts are killed, and who makes their namespaces.
pub(crate) struct Way {
    ordinary_user: bool,
    bubblewrap: bool,
}

impl Way {
    /// As whoever runs this test, and as it was told.
    pub(crate) fn this() -> Way {
        Way { ordinary_user: false, bubblewrap: std::env::var_os(MAKER).is_some() }
    }

    /// All that can be tried here.
    pub(crate) fn all() -> Vec<Way> {
        let makers = [false, true].into_iter().filter(|bubblewrap| !bubblewrap || is_installed());
        let users = [false, true].into_iter().filter(|ordinary_user| !ordinary_user || is_root());
        let users: Vec<bool> = users.collect();
        makers
            .flat_map(|bubblewrap| users.iter().map(move |user| Way { ordinary_user: *user, bubblewrap }))
            .collect()
    }

    pub(crate) fn words(&self) -> String {
        let who = if self.ordinary_user || !is_root() { "an ordinary user" } else { "root" };
        format!("as {who}{}", if self.bubblewrap { ", through bubblewrap" } else { "" })
    }

    /// Runs a test of this program that begins with [`begin`]. Gives what was left, a line for each.
    pub(crate) fn witness(&self, test: &str, rounds: u32, patience: Duration) -> Vec<String> {
        let own = std::env::current_exe().unwrap();
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut witness = Command::new(&own);
        witness
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(ROUNDS, rounds.to_string())
            .env(PATIENCE, patience.as_millis().to_string())
            .env_remove(MAKER)
            .stdout(Stdio::null());
        if self.bubblewrap {
            witness.env(MAKER, "bubblewrap");
        }
        if self.ordinary_user {
            assert!(reaches(&own), "{} must be readable for other users", own.display());
            std::os::unix::fs::chown(home.path(), Some(USER), Some(USER)).unwrap();
            witness.env("HOME", home.path()).env("TMPDIR", "/tmp").uid(USER).gid(USER);
        }
        let said = witness.output().unwrap();
        let words = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.status.success() && words.contains(SEEN), "{}: {words}", self.words());
        words.lines().filter_map(|line| line.strip_prefix(LEFT)).map(str::to_owned).collect()
    }
}

/// Long enough for the kernel on any machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// In the witness: becomes the one whom all are left to, and has `each` round say what is left. Does nothing
/// elsewhere.
pub(crate) fn begin(mut each: impl FnMut(u32) -> Vec<String>) {
    let Some(rounds) = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()) else { return };
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    for round in 0..rounds {
        for left in each(round) {
            say(std::io::stderr(), &format!("{LEFT}round {round}: {left}"));
        }
    }
    say(std::io::stderr(), SEEN);
}

fn say(mut to: impl std::io::Write, words: &str) {
    writeln!(to, "{words}").unwrap();
}

/// A host that runs: this program again.
pub(crate) struct Host {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Host {
    pub(crate) fn start(test: &str, root: &Path) -> Host {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env("HAFT_TEST_ROOT", root)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let says = BufReader::new(process.stdout.take().unwrap());
        Host { process, says }
    }

    /// Kills it at a moment that is another one in each round: while it starts, while the helper does, when
    /// that is ready, and in the middle of several calls. Gives what is left when all had their time to end.
    pub(crate) fn kill(mut self, round: u32) -> Vec<String> {
        let phase = round % 4;
        if phase > 0 {
            self.wait_for(phase);
        }
        // The helper is made faster than everything else.
        let within = if phase == 1 { 8_000 } else { 40_000 };
        self.run_for(Duration::from_micros(u64::from(round * 7919 % within)));
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        left()
    }

    fn wait_for(&mut self, phase: u32) {
        let wanted = format!("{PHASE}{phase}");
        let mut line = String::new();
        while !line.contains(&wanted) {
            line.clear();
            assert_ne!(self.says.read_line(&mut line).unwrap(), 0, "the host has ended by itself");
        }
    }

    fn run_for(&self, time: Duration) {
        let pid = Pid::from_child(&self.process);
        let ended = rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
        let ended = poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&time));
        assert_ne!(ended, Ok(1), "the host has ended by itself");
    }
}

/// In a host: says how far it has come.
pub(crate) fn reached(phase: u32) {
    say(std::io::stdout(), &format!("{PHASE}{phase}"));
}

/// Waits until this process has no child any more. Describes those that stay, and kills them.
fn left() -> Vec<String> {
    let patience = std::env::var(PATIENCE).unwrap().parse().unwrap();
    if is_alone_within(Duration::from_millis(patience)) {
        return Vec::new();
    }
    let left = below(rustix::process::getpid());
    for process in &left {
        let _ = rustix::process::kill_process(process.pid, Signal::KILL);
    }
    assert!(is_alone_within(LONG), "what is left can't be killed: {left:?}");
    left.iter().map(|process| format!("{process:?}")).collect()
}

fn is_alone_within(time: Duration) -> bool {
    let end = Instant::now() + time;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Err(Errno::CHILD) => return true,
            Ok(None) if Instant::now() > end => return false,
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Ok(Some(_)) | Err(_) => {}
        }
    }
}

/// What can be said of a process from outside.
#[derive(Debug)]
#[expect(dead_code, reason = "it is printed")]
struct Seen {
    pid: Pid,
    parent: i32,
    /// Whether it will do anything more.
    lives: bool,
    state: String,
    waits_in: String,
    command: String,
    numbers: String,
    started: String,
}

/// All processes below this one.
fn below(ancestor: Pid) -> Vec<Seen> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut others: Vec<Seen> = entries.filter_map(|entry| look(&entry.path())).collect();
    let (mut found, mut parents) = (Vec::new(), vec![ancestor.as_raw_nonzero().get()]);
    while let Some(parent) = parents.pop() {
        let (children, rest) = others.into_iter().partition(|seen: &Seen| seen.parent == parent);
        others = rest;
        parents.extend(children.iter().map(|child: &Seen| child.pid.as_raw_nonzero().get()));
        found.extend(children);
    }
    found
}

fn look(process: &Path) -> Option<Seen> {
    const EXITING: u32 = 0x4;
    let pid = Pid::from_raw(process.file_name()?.to_str()?.parse().ok()?)?;
    let read = |name: &str| {
        let text = std::fs::read(process.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&text).replace('\0', " ").trim().to_owned()
    };
    let stat = read("stat");
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let status = read("status");
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let kill = 1 << (Signal::KILL.as_raw() - 1);
    let killed = ["SigPnd:", "ShdPnd:"]
        .iter()
        .any(|name| u64::from_str_radix(&line(name), 16).is_ok_and(|pending| pending & kill != 0));
    let exiting = fields.get(6)?.parse::<u32>().ok()? & EXITING != 0;
    let state = (*fields.first()?).to_owned();
    Some(Seen {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        lives: !exiting && !killed && !["Z", "X"].contains(&&*state),
        state,
        waits_in: read("wchan"),
        command: read("cmdline"),
        numbers: line("NSpid:"),
        started: (*fields.get(19)?).to_owned(),
    })
}

/// The control: what really is left is seen, also if it is in a session of its own and has another name.
#[test]
fn what_is_left_is_seen() {
    let left = Way::this().witness(
        "witness::witness_of_a_host_that_leaves_something",
        1,
        Duration::from_millis(100),
    );
    assert!(
        left.len() == 1 && left[0].contains("lives: true") && left[0].contains("\"sleep 1000\""),
        "{left:?}"
    );
}

#[test]
#[ignore = "it is a part of another test"]
fn witness_of_a_host_that_leaves_something() {
    begin(|_| Host::start("witness::host_that_leaves_something", Path::new("/")).kill(1));
}

#[test]
#[ignore = "it is a part of another test"]
fn host_that_leaves_something() {
    if std::env::var_os("HAFT_TEST_ROOT").is_none() {
        return;
    }
    let mut leaves = Command::new("setsid");
    let leaves = leaves.args(["--fork", "sleep", "1000"]).stdin(Stdio::null());
    assert!(leaves.stdout(Stdio::null()).status().unwrap().success());
    reached(1);
    loop {
        std::thread::park();
    }
}
