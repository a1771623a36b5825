//! Which file a program is, and why it could not be started.
//!
//! The search along `PATH` is ours and not the C library's, because a folder of it that isn't absolute means
//! "wherever you are", which must not decide what runs; and because whoever wrote a command wants to know
//! which part of it is wrong.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use haft::ports::ProcessRequest;
use rustix::fs::Access;
use rustix::io::Errno;

use crate::before_main;
use crate::profile::display_path;
use crate::start::{DESCRIPTOR_MIN, ProcessRestraints, StartPlan, StartStep};

/// Where programs are looked for if the child has no `PATH`.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// More than the kernel reads of a `#!` line.
const FIRST_LINE_BYTES: usize = 256;

/// The open file of this program, for a request that runs it.
pub(crate) fn this_program(request: &ProcessRequest) -> Result<Option<OwnedFd>, String> {
    if !request.is_this_program {
        return Ok(None);
    }
    // It would run `main` once more.
    if !before_main::has_run() {
        return Err(
            "this program can't run its own code in a child: functions in `.init_array` didn't run".into()
        );
    }
    let opened = std::fs::File::open("/proc/self/exe");
    let high = opened.and_then(|opened| Ok(rustix::io::fcntl_dupfd_cloexec(opened, DESCRIPTOR_MIN)?));
    high.map(Some).map_err(|error| format!("the file of this program can't be opened: {error}"))
}

/// What the kernel is to be given, or what is wrong with the request. A program that is open isn't looked
/// for.
pub(crate) fn start_plan(
    argv: &[OsString],
    cwd: &Path,
    environment: &BTreeMap<OsString, OsString>,
    opened: Option<OwnedFd>,
) -> Result<StartPlan, String> {
    let [program, arguments @ ..] = argv else {
        return Err("there is no program to start".into());
    };
    let path = environment.get(OsStr::new("PATH")).map_or(OsStr::new(PATH), OsString::as_os_str);
    let program = match &opened {
        Some(_) => PathBuf::from(program),
        None => find_program(program, cwd, path)?,
    };
    let mut argv = vec![program.clone().into_os_string()];
    argv.extend(arguments.iter().cloned());
    let variable = |(name, value): (&OsString, &OsString)| {
        OsString::from_vec([name.as_bytes(), b"=", value.as_bytes()].concat())
    };
    let texts = |what: &str, texts: Vec<OsString>| -> Result<Vec<CString>, String> {
        texts.into_iter().map(|text| c_string(what, text)).collect()
    };
    Ok(StartPlan {
        program: c_string("the program", program.into_os_string())?,
        opened,
        argv: texts("an argument", argv)?,
        envp: texts("a variable", environment.iter().map(variable).collect())?,
        cwd: c_string("the working directory", cwd.to_owned().into_os_string())?,
        locks: ProcessRestraints::default(),
        group: None,
        dies_with_us: true,
    })
}

fn c_string(what: &str, text: OsString) -> Result<CString, String> {
    CString::new(text.into_vec()).map_err(|error| {
        let shown = String::from_utf8_lossy(&error.into_vec()).replace('\0', "\\0");
        format!("{what} holds a NUL byte, which no program can be given: `{shown}`")
    })
}

/// The file of a program: as it is if there is a `/` in it, else the first on the path that may be run.
fn find_program(program: &OsStr, cwd: &Path, path: &OsStr) -> Result<PathBuf, String> {
    if program.is_empty() {
        return Err("there is no program to start: its name is empty".into());
    }
    if program.as_bytes().contains(&b'/') {
        return Ok(cwd.join(program));
    }
    let mut seen = None;
    for dir in std::env::split_paths(path).filter(|dir| dir.is_absolute()) {
        let file = dir.join(program);
        if !file.is_file() {
            continue;
        }
        if may_run(&file) {
            return Ok(file);
        }
        seen.get_or_insert(file);
    }
    Err(match seen {
        Some(file) => not_executable(&file),
        None => {
            format!("`{}` is not there: no folder of PATH has a program of this name", display_path(&program))
        }
    })
}

fn may_run(file: &Path) -> bool {
    rustix::fs::access(file, Access::EXEC_OK).is_ok()
}

fn not_executable(file: &Path) -> String {
    format!("`{0}` is not executable; `chmod +x {0}` makes it so", display_path(&file))
}

/// Why a child could not be started, and what can be done.
pub(crate) fn explain_failure(plan: &StartPlan, step: StartStep, errno: Errno) -> String {
    let path = |text: &CString| PathBuf::from(OsStr::from_bytes(text.as_bytes()));
    let (program, cwd) = (path(&plan.program), path(&plan.cwd));
    let because = std::io::Error::from(errno).to_string();
    let because = because.split(" (os error").next().unwrap_or(&because).to_lowercase();
    match (step, errno) {
        (StartStep::Clone, _) => format!("no process can be started: {because}"),
        (StartStep::SetUp | StartStep::Lock, _) => format!("a process could not be set up: {because}"),
        (StartStep::Enter, Errno::NOENT) => {
            format!("the working directory `{}` does not exist any more", display_path(&cwd))
        }
        (StartStep::Enter, _) => {
            format!("the working directory `{}` can't be entered: {because}", display_path(&cwd))
        }
        (StartStep::Exec, errno) => not_run(&program, errno, &because),
    }
}

fn not_run(program: &Path, errno: Errno, because: &str) -> String {
    let shown = display_path(&program);
    match errno {
        Errno::NOENT | Errno::NOTDIR => match script_interpreter(program) {
            Some(name) if name.ends_with('\r') => format!(
                "`{shown}` can't be started: its first line ends in a carriage return; save it with Unix line ends"
            ),
            Some(name) => {
                format!("`{shown}` can't be started: its first line names `{name}`, which does not exist")
            }
            None if program.exists() => format!("`{shown}` can't be started: what loads it is missing"),
            None => format!("`{shown}` does not exist"),
        },
        Errno::ACCESS if program.is_dir() => format!("`{shown}` is a folder and no program"),
        Errno::ACCESS if !may_run(program) => not_executable(program),
        Errno::ACCESS => match script_interpreter(program) {
            Some(name) => {
                format!("`{shown}` can't be started: its first line names `{name}`, which can't be run")
            }
            None => format!(
                "`{shown}` can't be started: permissions, or the file system it is on, don't allow it"
            ),
        },
        Errno::NOEXEC => format!(
            "`{shown}` is not a program, and has no line that says what runs it; begin it with one such as `#!/bin/sh`"
        ),
        Errno::TOOBIG => {
            format!(
                "`{shown}` can't be started: arguments and environment are too long; give long values by standard input"
            )
        }
        Errno::TXTBSY => format!("`{shown}` can't be started: something is writing it; try again"),
        _ => format!("`{shown}` can't be started: {because}"),
    }
}

/// What the first line of a script names.
fn script_interpreter(program: &Path) -> Option<String> {
    // What could not be run may be anything, a FIFO that nobody writes among it.
    program.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut first = Vec::new();
    std::fs::File::open(program).ok()?.take(FIRST_LINE_BYTES as u64).read_to_end(&mut first).ok()?;
    let line = first.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line).into_owned();
    let name = line.trim_start_matches([' ', '\t']).split([' ', '\t']).next().unwrap_or_default();
    Some(name.to_owned())
}
