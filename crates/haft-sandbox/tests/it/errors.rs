//! What can't be started says why, and what to do.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use haft::ports::{ProcessExit, ProcessRequest, Processes as _};
use haft_sandbox::LocalProcesses;

use crate::{run, sh};

/// A file with this mode.
fn file(dir: &Path, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

async fn words(program: impl Into<std::ffi::OsString>, dir: &Path) -> String {
    let error = run(ProcessRequest::new([program.into()], dir)).await.unwrap_err();
    error.to_string().replace(dir.to_str().unwrap(), "DIR")
}

#[tokio::test]
async fn each_reason_has_its_words() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let path = |name: &str| dir.join(name).into_os_string();
    file(dir, "plain.sh", b"#!/bin/sh\n", 0o644);
    file(dir, "lost", b"#!/usr/bin/no-such-thing -x\n", 0o755);
    file(dir, "dos", b"#!/bin/sh\r\necho hi\r\n", 0o755);
    file(dir, "bare", b"echo hi\n", 0o755);
    file(dir, "locked", format!("#!{}\n", dir.join("plain.sh").display()).as_bytes(), 0o755);
    fs::create_dir(dir.join("folder")).unwrap();
    for (program, expected) in [
        (path("missing"), "`DIR/missing` does not exist"),
        (
            "no-such-program".into(),
            "`no-such-program` is not there: no folder of PATH has a program of this name",
        ),
        (path("plain.sh"), "`DIR/plain.sh` is not executable; `chmod +x DIR/plain.sh` makes it so"),
        (path("folder"), "`DIR/folder` is a folder and no program"),
        (
            path("lost"),
            "`DIR/lost` can't be started: its first line names `/usr/bin/no-such-thing`, which does not exist",
        ),
        (
            path("dos"),
            "`DIR/dos` can't be started: its first line ends in a carriage return; save it with Unix line ends",
        ),
        (
            path("locked"),
            "`DIR/locked` can't be started: its first line names `DIR/plain.sh`, which can't be run",
        ),
        (
            path("bare"),
            "`DIR/bare` is not a program, and has no line that says what runs it; begin it with one such as `#!/bin/sh`",
        ),
        ("".into(), "there is no program to start: its name is empty"),
        ("a\0b".into(), "the program holds a NUL byte, which no program can be given: `DIR/a\\0b`"),
    ] {
        // A name with a NUL is no name to look for, so give it as a path.
        let program = if program == "a\0b" { path("a\0b") } else { program };
        assert_eq!(words(program, dir).await, expected);
    }
    let empty = ProcessRequest::new(Vec::<String>::new(), dir);
    assert_eq!(run(empty).await.unwrap_err().to_string(), "there is no program to start");
}

#[tokio::test]
async fn arguments_that_are_too_long_are_said_to_be() {
    let request = ProcessRequest::new(["/bin/echo".to_owned(), "x".repeat(4_000_000)], "/");
    let expected = "`/bin/echo` can't be started: arguments and environment are too long; give long values by standard input";
    assert_eq!(run(request).await.unwrap_err().to_string(), expected);
}

#[tokio::test]
async fn a_folder_that_vanished_is_said_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let gone = dir.path().join("gone");
    let error = run(ProcessRequest::new(["true"], &gone)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the working directory `{}` does not exist any more", gone.display())
    );
    let file = file(dir.path(), "file", b"", 0o644);
    let error = run(ProcessRequest::new(["true"], &file)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the working directory `{}` can't be entered: not a directory", file.display())
    );
}

/// A program that is still being written is tried again; this writer ends while we do.
#[tokio::test]
async fn a_program_that_is_being_written_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    fs::copy("/bin/true", &program).unwrap();
    let writer = fs::File::options().append(true).open(&program).unwrap();
    let busy = run(ProcessRequest::new([&program], "/")).await.unwrap_err();
    assert_eq!(
        busy.to_string(),
        format!("`{}` can't be started: something is writing it; try again", program.display())
    );
    let processes = crate::processes();
    let mut running = processes.run(ProcessRequest::new([&program], "/"));
    std::future::poll_fn(|task| {
        assert!(running.as_mut().poll(task).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    drop(writer);
    assert_eq!(running.await.unwrap().exit, ProcessExit::Code(0));
}

/// Folders of PATH that depend on where one stands decide nothing, and the first that may be run is taken.
#[tokio::test]
async fn programs_are_looked_for_in_absolute_folders_only() {
    let dir = tempfile::tempdir().unwrap();
    for (folder, mode) in [("locked", 0o644), ("open", 0o755), ("here", 0o755)] {
        fs::create_dir(dir.path().join(folder)).unwrap();
        file(&dir.path().join(folder), "tool", format!("#!/bin/sh\necho {folder}\n").as_bytes(), mode);
    }
    let with_path = |path: String| LocalProcesses::new([("PATH".into(), path.into())]);
    let tool = || ProcessRequest::new(["tool"], dir.path().join("here"));
    let (locked, open) = (dir.path().join("locked"), dir.path().join("open"));
    let path = format!(".::{}:{}", locked.display(), open.display());
    let outcome = with_path(path).run(tool()).await.unwrap();
    assert_eq!(outcome.stdout.whole(), Some(&b"open\n"[..]));
    let error = with_path(format!(".:{}", locked.display())).run(tool()).await.unwrap_err();
    assert!(error.to_string().contains("is not executable; `chmod +x"), "{error}");
    let without = LocalProcesses::new([]).run(sh("echo $PATH | grep -c .")).await.unwrap();
    assert_eq!(without.exit, ProcessExit::Code(0), "sh is found without a PATH");
}
