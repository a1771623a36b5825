//! What a tool declares is what it touches: its example is traced, and compared with what `haft check` said
//! of it.
//!
//! The session is played twice under `strace`, with the call and without it; what only the first run opened,
//! made, changed or connected to has to be declared. The tests that do so for every tool are in `tool_pages`:
//! one run with the call serves the page and the trace. What the program keeps for itself (its state folder,
//! temporary files) is not the tool's. Commands that a tool runs are held by the sandbox, which has tests of
//! its own, so tools that declare that they run something are judged by what the program itself touched.
//! Before a command and after it the sandbox looks for repositories where it runs; that is excused where the
//! call started a process, as the trace says, and nowhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::room::Room;
use crate::tool_example;

#[test]
fn what_is_not_declared_is_found() {
    if !has_strace() {
        println!("skipped: there is no strace");
        return;
    }
    let examples = tool_example::all();
    let played = |tool: &str, with_call: bool| {
        Traced::parse(&if with_call {
            examples[tool].play(tool, strace).trace
        } else {
            examples[tool].play_without_the_call(tool, strace)
        })
    };
    for (tool, expected) in [("Read", "Reads"), ("Write", "Changes")] {
        let (with, without) = (played(tool, true), played(tool, false));
        assert_eq!(with.starts, without.starts, "{tool} starts nothing");
        let found = undeclared_touches(&with, &without, &nothing());
        assert!(found.iter().any(|touch| format!("{touch:?}").starts_with(expected)), "{tool}: {found:?}");
    }
    let (with, without) = (played("Bash", true), played("Bash", false));
    assert!(with.starts > without.starts, "{} {}", with.starts, without.starts);
}

/// What the sandbox looks at for a command is nothing that any other tool may look at.
#[test]
fn a_repository_is_looked_at_only_for_commands() {
    let trace = "7 openat(AT_FDCWD<ROOM/work>, \".git/HEAD\", O_RDONLY) = 3<ROOM/work/.git/HEAD>\n";
    let child = "7 clone(child_stack=0x7, flags=CLONE_VM|CLONE_VFORK|SIGCHLD <unfinished ...>\n";
    let thread = "7 clone3({flags=CLONE_VM|CLONE_THREAD}, 88) = 8\n";
    let others =
        "8 clone(child_stack=NULL, flags=SIGCHLD) = 9\n9 clone(child_stack=NULL, flags=SIGCHLD) = 10\n";
    let quiet = Traced::parse("7 execve(\"haft\") = 0\n");
    let looks = |trace: &str| undeclared_touches(&Traced::parse(trace), &quiet, &nothing());
    assert_eq!(looks(&format!("{trace}{thread}")), [Touch::Reads("ROOM/work/.git/HEAD".into())]);
    assert_eq!(looks(&format!("{trace}{child}")), []);
    let changes = format!("{child}7 unlink(\"ROOM/work/.git/HEAD\") = 0\n");
    assert_eq!(looks(&changes), [Touch::Changes("ROOM/work/.git/HEAD".into())]);
    let more = format!("{child}7 open(\"ROOM/work/.git/index\", O_RDONLY) = 3\n");
    assert_eq!(looks(&more), [Touch::Reads("ROOM/work/.git/index".into())]);
    assert_eq!(Traced::parse(&format!("{thread}{others}")).starts, 1, "a child's children are its own");
}

/// On a busy machine most calls of a thread are written as two lines.
#[test]
fn calls_that_strace_splits_are_read_as_one() {
    let trace = "7 execve(\"haft\") = 0\n\
        7 clone3({flags=CLONE_VM|CLONE_THREAD} <unfinished ...>\n\
        8 openat(AT_FDCWD<ROOM/work>, \"a.txt\", O_RDONLY <unfinished ...>\n\
        7 <... clone3 resumed> => {parent_tid=[8]}, 88) = 8\n\
        8 <... openat resumed>) = 3<ROOM/work/a.txt>\n\
        8 openat(AT_FDCWD<ROOM/work>, \"none.txt\", O_RDONLY <unfinished ...>\n\
        8 <... openat resumed>) = -1 ENOENT (No such file or directory)\n\
        8 clone(child_stack=0x7, flags=CLONE_VM|CLONE_VFORK|SIGCHLD <unfinished ...>\n\
        9 openat(AT_FDCWD<ROOM/work>, \"b.txt\", O_RDONLY) = 3<ROOM/work/b.txt>\n\
        8 <... clone resumed>, parent_tid=[9]) = 9\n";
    let traced = Traced::parse(trace);
    assert_eq!(traced.touched, BTreeSet::from([Touch::Reads("ROOM/work/a.txt".into())]));
    assert_eq!(traced.starts, 1);
}

fn nothing() -> Value {
    json!({"reads": [], "writes": [], "deletes": [], "reaches": [], "runs": []})
}

/// Something that a process did to the world.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Touch {
    Reads(PathBuf),
    Changes(PathBuf),
    Connects(String),
}

/// What a session did.
pub(crate) struct Traced {
    /// What was touched in the room and outside of it, with the room's own path as `ROOM`.
    touched: BTreeSet<Touch>,
    /// How many processes the program started.
    starts: usize,
}

pub(crate) fn has_strace() -> bool {
    Command::new("strace").arg("-V").output().is_ok()
}

/// Puts `strace` before `haft`; the trace is `trace.txt` in the room.
///
/// Programs that `haft` starts are let go when they begin (`-b execve`): a browser that is traced takes
/// several times as long, and only what `haft` itself touches is judged. The filter of `--seccomp-bpf` would
/// stay with them.
pub(crate) fn strace(command: Command, room: &Room) -> Command {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-b", "execve", "-y", "-qq", "-s", "4096", "-e", "signal=none"]);
    strace
        .args(["-e", "trace=%file,connect,clone,clone3,fork,vfork", "-o"])
        .arg(room.path("trace.txt"))
        .arg("--");
    strace.arg(command.get_program()).args(command.get_args());
    strace.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    strace.current_dir(command.get_current_dir().unwrap());
    strace.stdout(Stdio::piped()).stderr(Stdio::piped());
    strace
}

impl Traced {
    pub(crate) fn parse(trace: &str) -> Traced {
        let lines = join_split_calls(trace);
        let own = own_processes(&lines);
        let own_lines = || lines.iter().map(String::as_str).filter(|line| own.contains(pid(line)));
        let touched = own_lines().filter_map(touch).filter(|touch| !is_private(touch)).collect();
        Traced { touched, starts: own_lines().filter(|line| starts_process(line)).count() }
    }
}

/// The calls of a trace, one a line, in the order in which they began.
///
/// While a call runs, `strace` may have to write a line of another thread: the busier the machine, the more
/// often. It then writes the call as two lines, `PID call(… <unfinished ...>` and `PID <... call resumed>…`.
fn join_split_calls(trace: &str) -> Vec<String> {
    let mut calls: Vec<String> = Vec::new();
    let mut unfinished: BTreeMap<&str, usize> = BTreeMap::new();
    for line in trace.lines() {
        let resumed = line.split_once("<... ").and_then(|(_, rest)| rest.split_once(" resumed>"));
        if let (Some((_, rest)), Some(at)) = (resumed, unfinished.remove(pid(line))) {
            calls[at].push_str(rest);
        } else if let Some(begin) = line.strip_suffix("<unfinished ...>") {
            unfinished.insert(pid(line), calls.len());
            calls.push(begin.trim_end().to_owned());
        } else {
            calls.push(line.to_owned());
        }
    }
    calls
}

/// Whether a line is the beginning of another process, and no thread.
fn starts_process(line: &str) -> bool {
    let call = line.split_once(' ').map_or("", |(_, call)| call.trim_start());
    let starts = ["clone(", "clone3(", "fork(", "vfork("].iter().any(|name| call.starts_with(name));
    starts && !line.contains("CLONE_THREAD")
}

/// The program's own process and its threads; commands, and what confines them, are others.
fn own_processes(calls: &[String]) -> BTreeSet<&str> {
    let mut own: BTreeSet<&str> = calls.first().map(|line| pid(line)).into_iter().collect();
    for line in calls.iter().filter(|line| line.contains("CLONE_THREAD")) {
        if own.contains(pid(line))
            && let Some((_, thread)) = line.rsplit_once(" = ")
        {
            own.insert(thread.split(['<', ' ']).next().unwrap_or(thread));
        }
    }
    own
}

fn pid(line: &str) -> &str {
    line.split_once(' ').map_or("", |(pid, _)| pid)
}

/// Reads `PID call(…) = result` as what it did; calls that failed did nothing.
fn touch(line: &str) -> Option<Touch> {
    let (_, rest) = line.split_once(' ')?;
    let rest = rest.trim_start();
    let (call, rest) = rest.split_once('(')?;
    let (args, result) = rest.rsplit_once(" = ")?;
    if call == "connect" {
        // Ports and numbers of descriptors differ from run to run.
        let address = args.split_once("inet_addr(\"").or_else(|| args.split_once("inet_pton(AF_INET6, \""));
        return address
            .and_then(|(_, rest)| rest.split_once('"'))
            .map(|(at, _)| Touch::Connects(at.to_owned()));
    }
    if result.starts_with('-') || result.starts_with('?') {
        return None;
    }
    let paths = paths(args);
    match call {
        "open" | "openat" | "openat2" | "creat" => {
            let path = paths.first()?.clone();
            if args.contains("O_PATH") || args.contains("O_TMPFILE") {
                return None;
            }
            let changes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| args.contains(flag));
            Some(if changes { Touch::Changes(path) } else { Touch::Reads(path) })
        }
        "rename" | "renameat" | "renameat2" | "link" | "linkat" | "symlink" | "symlinkat" => {
            Some(Touch::Changes(paths.last()?.clone()))
        }
        "mkdir" | "mkdirat" | "unlink" | "unlinkat" | "rmdir" | "chmod" | "fchmodat" | "chown"
        | "fchownat" | "truncate" | "utimensat" | "setxattr" | "removexattr" => {
            Some(Touch::Changes(paths.first()?.clone()))
        }
        _ => None,
    }
}

/// The paths among the arguments: quoted ones, joined to the folder of the descriptor before them.
fn paths(args: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut base: Option<PathBuf> = None;
    let mut rest = args;
    while let Some(at) = rest.find(['<', '"']) {
        let (mark, after) = (rest.as_bytes()[at], &rest[at + 1..]);
        let end = if mark == b'<' { '>' } else { '"' };
        let Some((inside, after)) = after.split_once(end) else { break };
        if mark == b'<' {
            base = Some(PathBuf::from(inside));
        } else {
            // The room's path begins with its name in place of a slash.
            let base = base.take().filter(|_| !inside.starts_with("ROOM")).unwrap_or_default();
            paths.push(plain(&base.join(inside)));
        }
        rest = after;
    }
    paths
}

/// Without `.` and `..`, as text alone: what is traced was opened, so links on the way were meant.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            // What replaces a file has another name each time.
            Component::Normal(name) if is_ours(name) => plain.push(".haft-TEMPORARY"),
            other => plain.push(other),
        }
    }
    plain
}

/// Whether it is a name under which a file is written before it gets its own.
fn is_ours(name: &std::ffi::OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with(".haft-") && name.ends_with(".tmp")
}

/// What the sandbox reads in a working directory before the first command and after each one: where the
/// repository, links and other repositories would be, and the tips of the history.
const LOOKED_AT: [&str; 19] = [
    "",
    ".git",
    ".git/HEAD",
    ".git/config",
    ".git/hooks",
    ".git/info",
    ".git/logs",
    ".git/logs/HEAD",
    ".git/logs/refs",
    ".git/logs/refs/heads",
    ".git/logs/refs/heads/main",
    ".git/objects",
    ".git/objects/info",
    ".git/objects/pack",
    ".git/packed-refs",
    ".git/refs",
    ".git/refs/heads",
    ".git/refs/heads/main",
    ".git/refs/tags",
];

/// What the sandbox looks at in the tool chains whose programs are on `PATH`, to show their parts without
/// credentials.
const TOOL_CHAIN_PARTS: [&str; 7] = ["bin", "installs", "lib", "libexec", "plugins", "shims", "versions"];

fn is_of_tool_chain(path: &Path) -> bool {
    let of = |folder: PathBuf| {
        let parts = folder.parent().map(|around| TOOL_CHAIN_PARTS.map(|part| around.join(part)));
        path == folder || parts.iter().flatten().any(|part| path.starts_with(part))
    };
    std::env::var_os("PATH").is_some_and(|folders| std::env::split_paths(&folders).any(of))
}

/// What the program keeps for itself, and what the system has for everybody.
fn is_private(touch: &Touch) -> bool {
    let (Touch::Reads(path) | Touch::Changes(path)) = touch else { return false };
    let of_all = ["/proc", "/sys", "/dev", "/run"];
    let to_read = ["/usr", "/lib", "/lib64", "/bin", "/etc"];
    let own =
        ["ROOM/home/.local", "ROOM/home/.config/haft", "ROOM/home/.cache", "ROOM/tmp", "ROOM/script.json"];
    of_all.iter().chain(&own).any(|place| path.starts_with(place))
        || matches!(touch, Touch::Reads(_)) && to_read.iter().any(|place| path.starts_with(place))
}

/// What was touched only with the call, and isn't in its declaration.
pub(crate) fn undeclared_touches(with: &Traced, without: &Traced, effects: &Value) -> Vec<Touch> {
    let list = |name: &str| -> Vec<PathBuf> {
        effects[name].as_array().into_iter().flatten().filter_map(Value::as_str).map(PathBuf::from).collect()
    };
    let (reads, writes, deletes) = (list("reads"), list("writes"), list("deletes"));
    let changed: Vec<PathBuf> = writes.into_iter().chain(deletes).collect();
    // What an open page asks for goes through the session's proxy, whenever it likes.
    let browses = effects["summary"].as_str().is_some_and(|summary| summary.contains("browser"));
    let reaches = browses || !list("reaches").is_empty();
    let by_sandbox = |path: &Path| {
        let is_of_repository = || LOOKED_AT.iter().any(|place| path == Path::new("ROOM/work").join(place));
        with.starts > without.starts && (is_of_repository() || is_of_tool_chain(path))
    };
    let within = |path: &Path, places: &[PathBuf]| places.iter().any(|place| path.starts_with(place));
    let declared = |touch: &Touch| match touch {
        Touch::Reads(path) => {
            // A folder on the way to what is declared is opened to get there.
            let on_the_way = reads.iter().chain(&changed).any(|place| place.starts_with(path));
            within(path, &reads) || within(path, &changed) || on_the_way || by_sandbox(path)
        }
        Touch::Changes(path) => {
            // What replaces a file is written beside it first, under a name of ours.
            let beside = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".haft"))
                && changed.iter().any(|place| place.parent() == path.parent());
            // A new file may need new folders.
            within(path, &changed) || beside || changed.iter().any(|place| place.starts_with(path))
        }
        Touch::Connects(_) => reaches,
    };
    with.touched.difference(&without.touched).filter(|touch| !declared(touch)).cloned().collect()
}
