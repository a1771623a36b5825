//! What the tests of this folder play with: a tool that does what it is told, and a call of it.
//!
//! The other end of the pipe is a task of the same process. The clock is paused, so whatever hangs reaches
//! [`within`]'s limit at once.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_scheduler::sync::lock;
use haft_scheduler::{Cancel, Cause};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::*;
use crate::content::{Blob, Content, Output};
use crate::context::Host;
use crate::error::ErrorKind;
use crate::event::{CallRef, Event, EventSink, What};
use crate::files::{Access, Root, WriteMode};
use crate::future::BoxFuture;
use crate::ports::{self, Approval, Asker, Choice, Ports, UserQuestion};
use crate::{Effects, ToolSpec, Workspace};

/// Does what it is told.
#[derive(Deserialize, schemars::JsonSchema)]
pub(super) struct Work {
    act: String,
    #[serde(default)]
    path: PathBuf,
}

pub(super) struct Worker;

/// The causes that cancelled workers saw, by the id of their call.
static CAUSES: Mutex<Vec<(String, Cause)>> = Mutex::new(Vec::new());

pub(super) fn causes_of(id: &str) -> Vec<Cause> {
    lock(&CAUSES).iter().filter(|(of, _)| of == id).map(|(_, cause)| *cause).collect()
}

pub(super) fn picture() -> Output {
    let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
    Output::new(vec![
        Content::text("text with ü and \u{0}"),
        Content::Image(Blob { media_type: "image/png".into(), bytes: bytes.clone().into(), name: None }),
        Content::Document(Blob { media_type: "a/b".into(), bytes: bytes.into(), name: Some("n".into()) }),
        Content::Structured(json!({"a": [1, -2, 0.1, 1e300, u64::MAX, null, "\"\n"]})),
        Content::link("file:///x", "x"),
        Content::text(""),
    ])
}

impl Tool for Worker {
    type Input = Work;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("worker").timeout(Duration::from_secs(60))
    }

    fn effects(&self, _: &Work) -> Effects {
        Effects::none()
    }

    async fn call(&self, Work { act, path }: Work, cx: &Context) -> Result<Output, ToolError> {
        let files = cx.files();
        let said = match &*act {
            "read" => files.read_to_string(&path).await?,
            "write" => format!("{:?}", files.write(&path, b"\0\xffnew", WriteMode::Create).await?),
            "list" => {
                let listed = files.list(&path).await?;
                listed.iter().map(|entry| format!("{:?} {:?}\n", entry.name, entry.kind)).collect()
            }
            "walk" => {
                let dir = files.open_dir(&path).await?;
                let walked = tokio::task::spawn_blocking(move || {
                    let mut found = String::new();
                    walk(&*dir, &mut found).map(|()| found)
                });
                walked.await??
            }
            "look" => format!("{:?}", files.metadata(&path).await?),
            "tidy" => {
                files.create_dir(&path.join("new/dir")).await?;
                files.write(&path.join("new/dir/a"), b"a", WriteMode::Replace).await?;
                files.rename(&path.join("new/dir/a"), &path.join("new/b")).await?;
                files.remove(&path.join("new/dir")).await?;
                files.remove(&path.join("new/b")).await?;
                "tidied".to_owned()
            }
            "seek" => {
                let mut file = files.open(&path).await?;
                file.seek(3);
                let mut bytes = file.read(2).await?;
                // Dropped in the middle: the offset stays, and so does the file.
                drop(file.read(2));
                bytes.extend(file.read(2).await?);
                assert!(file.read(0).await?.is_empty());
                file.seek(u64::MAX);
                assert!(file.read(9).await?.is_empty());
                String::from_utf8(bytes)?
            }
            "many" => {
                let names: Vec<_> = (0..40).map(|n| path.join(format!("{n}"))).collect();
                let reads: Vec<_> =
                    names.iter().map(|name| (name, Box::pin(files.read_to_string(name)))).collect();
                let mut read = String::new();
                // Begun all together, finished in reverse.
                let mut reads: Vec<_> = poll_once(reads).await;
                while let Some((_, work)) = reads.pop() {
                    read.push_str(&work.await?);
                }
                read
            }
            "hoard" => {
                let mut open = Vec::new();
                let refusal = loop {
                    match files.open(&path).await {
                        Ok(file) => open.push(file),
                        Err(error) => break error,
                    }
                };
                let held = open.len();
                drop(open);
                files.open(&path).await?;
                format!("{held}, then: {refusal}")
            }
            "tell" => {
                cx.progress(0.5, "half");
                cx.progress(None, "");
                cx.partial("some");
                cx.warn("look");
                (0..1000).for_each(|n| cx.progress(None, format!("{n}")));
                "told".to_owned()
            }
            "ask" => {
                let choices = vec![Choice { label: "a".into(), description: Some("A".into()) }];
                let question = UserQuestion { text: "which?".into(), choices, several: true };
                let asker = cx.ports().asker().ok_or_else(|| ToolError::new("nobody to ask"))?;
                format!("{:?}", asker.question(&question).await)
            }
            "withdraw" => {
                let asker = cx.ports().asker().ok_or_else(|| ToolError::new("nobody to ask"))?;
                let question = UserQuestion { text: "which?".into(), choices: Vec::new(), several: true };
                let asked = poll_once(vec![((), asker.question(&question))]).await;
                files.metadata(Path::new("in")).await?;
                drop(asked);
                std::future::pending().await
            }
            "crowd" => {
                let asker = cx.ports().asker().ok_or_else(|| ToolError::new("nobody to ask"))?;
                let question = UserQuestion { text: "which?".into(), choices: Vec::new(), several: true };
                let asked = (0..40).map(|_| ((), asker.question(&question))).collect();
                let asked = poll_once(asked).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
                drop(asked);
                files.read_to_string(Path::new("in")).await?
            }
            "wait" => {
                let cause = cx.cancelled().await;
                lock(&CAUSES).push((cx.call().id().to_owned(), cause));
                std::future::pending().await
            }
            "panic" => panic!("told to"),
            "fail" => {
                let hidden = std::io::Error::other("secret source");
                return Err(ToolError::of(ErrorKind::Blocked, "no, ü").retryable().with_source(hidden));
            }
            "senseless" => return Err(ToolError::senseless("makes none")),
            "picture" => return Ok(picture()),
            "huge" => return Ok(Output::new(vec![Content::text("x".repeat(81 << 20))])),
            "who" => format!(
                "{} {} {} {} {} {:?} {:?}",
                cx.call().session_id(),
                cx.call().agent_id(),
                cx.call().turn(),
                cx.call().id(),
                cx.call().index(),
                cx.cwd() == cx.location().workspace().cwd(),
                cx.access().read.len(),
            ),
            // A bit of everything that crosses the pipe.
            "tour" => {
                cx.progress(0.1, "begun");
                let text = files.read_to_string(&path.join("in")).await?;
                files.write(&path.join("out"), text.as_bytes(), WriteMode::Replace).await?;
                let listed = files.list(&path).await?.len();
                let refused = files.read(Path::new("/etc/passwd")).await.is_err();
                let question = UserQuestion { text: "on?".into(), choices: Vec::new(), several: false };
                let answer = match cx.ports().asker() {
                    Some(asker) => asker.question(&question).await,
                    None => None,
                };
                format!("{text} {listed} {refused} {answer:?}")
            }
            other => unreachable!("{other}"),
        };
        Ok(Output::new(vec![Content::text(said)]))
    }
}

/// Every entry with its kind, files with their text; links and `..` are tried and refused.
fn walk(dir: &dyn crate::files::OpenDir, found: &mut String) -> Result<(), crate::files::FileError> {
    use crate::files::Kind;
    use std::io::Read as _;
    let mut entries = Vec::new();
    dir.each(&mut |name, kind| entries.push((name.to_owned(), kind)))?;
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    for (name, kind) in entries {
        found.push_str(&format!("{name:?} {kind:?}"));
        match kind {
            Kind::Directory => {
                found.push_str(" (\n");
                walk(&*dir.open_dir(&name)?, found)?;
                found.push(')');
            }
            Kind::File => {
                let mut text = String::new();
                dir.open(&name)?.read_to_string(&mut text).expect("it is text");
                found.push_str(&format!(" {text} {}", dir.metadata(&name)?.len));
            }
            Kind::Link | Kind::Other => {
                let refused = [dir.open(&name).is_err(), dir.open_dir(&name).is_err()];
                found.push_str(&format!(" refused {refused:?}"));
            }
        }
        found.push('\n');
    }
    assert!(dir.open_dir(std::ffi::OsStr::new("..")).is_err());
    Ok(())
}

async fn poll_once<K, F: Future + Unpin>(mut works: Vec<(K, F)>) -> Vec<(K, F)> {
    std::future::poll_fn(|task| {
        works.iter_mut().for_each(|(_, work)| assert!(std::pin::Pin::new(work).poll(task).is_pending()));
        std::task::Poll::Ready(())
    })
    .await;
    works
}

pub(super) fn tools() -> Vec<Isolated> {
    vec![isolated(|| Worker)]
}

/// A user who always says the same, or never.
pub(super) struct User {
    answers: bool,
    waits: Arc<Notify>,
}

struct Withdrawn(Arc<Notify>);

impl Drop for Withdrawn {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Asker for User {
    fn approve<'a>(&'a self, _: &'a Approval) -> BoxFuture<'a, ports::Answer> {
        unreachable!("approvals don't cross the pipe")
    }

    fn question<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        let withdrawn = Withdrawn(self.waits.clone());
        Box::pin(async move {
            let _withdrawn = withdrawn;
            if !self.answers {
                std::future::pending::<()>().await;
            }
            Some(vec![question.text.clone(), format!("{:?}", question.choices.len()), String::new()])
        })
    }
}

#[derive(Default)]
pub(super) struct Recorded(pub(super) Mutex<Vec<What>>);

impl EventSink for Arc<Recorded> {
    fn send(&self, event: Event) {
        lock(&self.0).push(event.what);
    }
}

/// A call with a directory of its own, inside of which it may do everything.
pub(super) struct Scene {
    pub(super) dir: tempfile::TempDir,
    pub(super) inside: PathBuf,
    pub(super) outside: PathBuf,
    pub(super) cx: Context,
    pub(super) cancel: Cancel,
    pub(super) events: Arc<Recorded>,
    pub(super) question_gone: Arc<Notify>,
}

pub(super) fn scene() -> Scene {
    scene_of("call-1", Some(true))
}

pub(super) fn scene_without_answers() -> Scene {
    scene_of("call-1", Some(false))
}

pub(super) fn scene_of(id: &str, user_answers: Option<bool>) -> Scene {
    // In memory where that is possible: writes that replace a file wait for the disk.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let real = dir.path().canonicalize().unwrap();
    let (inside, outside) = (real.join("in side"), real.join("outside"));
    for (dir, text) in [(&inside, "granted"), (&outside, "SECRET")] {
        std::fs::create_dir(dir).unwrap();
        std::fs::write(dir.join("in"), text).unwrap();
    }
    std::fs::write(outside.join("HIDDEN"), "SECRET").unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
    let (events, question_gone) = (Arc::new(Recorded::default()), Arc::new(Notify::new()));
    let mut ports = Ports::default();
    if let Some(answers) = user_answers {
        ports.asker = Some(Arc::new(User { answers, waits: question_gone.clone() }));
    }
    let workspace = Workspace::new(&inside).unwrap();
    let host = Host {
        session: "session".into(),
        agent: "agent".into(),
        base_access: Arc::new(workspace.access()),
        workspace,
        ports,
        events: Some(Arc::new(events.clone())),
        results: None,
        background: Arc::default(),
        confined: false,
        place: std::sync::Mutex::default(),
    };
    let cancel = Cancel::new();
    let call = CallRef { index: 3, id: id.into(), tool: "worker".into() };
    let access = Access { write: vec![Root::subtree(&inside)], ..Access::default() };
    let cx = Context::proxied(Arc::new(host), 7, call, cancel.clone(), access, &inside);
    Scene { dir, inside, outside, cx, cancel, events, question_gone }
}

/// Fails the test if the work hangs; with the clock paused that is noticed at once.
pub(super) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), work).await.expect("hangs")
}

pub(super) fn child(pipe: impl Pipe) -> JoinHandle<()> {
    tokio::spawn(async move { run_child(pipe, &tools()).await })
}

pub(super) fn narrow() -> (DuplexStream, DuplexStream) {
    tokio::io::duplex(53)
}

pub(super) fn input(act: &str, path: &Path) -> Value {
    json!({"act": act, "path": path})
}
