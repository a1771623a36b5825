//! Runs the hooks of one event concurrently and collects their answers.
//!
//! Answers are returned in configuration order. A background hook is awaited by its own task, which ends
//! with the hooks. Its answer can no longer decide anything and is kept as a report.

use std::ffi::OsString;
use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use haft::Cancel;
use haft::ports::{
    CapturedOutput, ConfinementLevel, ProcessError, ProcessExit, ProcessOutcome, ProcessRequest,
    ProtectionLevel,
};
use haft::sync::lock;
use serde_json::{Map, Value};
use tokio::sync::Notify;

use super::event::HookEvent;
use super::reply::{self, CommandExit, HookReply};
use super::tool_use::{HookToolUse, put_in};
use super::{ConfiguredHook, HooksInner, limits};
use crate::settings::{BackgroundMode as How, HookAction, OnFailure, Shell};
use crate::source::SourceScope;

/// One event that fires.
pub(super) struct FiredEvent<'a> {
    pub(super) object: Map<String, Value>,
    pub(super) cwd: &'a Path,
    pub(super) cancel: &'a Cancel,
}

/// The result of one hook.
pub(super) struct HookRun {
    pub(super) hook: Arc<ConfiguredHook>,
    /// The answer; `None` if the hook went to the background.
    pub(super) outcome: Result<Option<HookReply>, String>,
}

impl HookRun {
    /// Returns whether a failure of the hook blocks.
    pub(super) fn blocks(&self) -> bool {
        self.hook.on_failure == OnFailure::Block
    }
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl HooksInner {
    /// Returns the hooks that match an event, in order. Of identical hooks only the first is returned.
    pub(super) fn matching(
        &self,
        event: HookEvent,
        subject: Option<&str>,
        condition: impl Fn(&ConfiguredHook) -> bool,
    ) -> Vec<Arc<ConfiguredHook>> {
        let mut found: Vec<Arc<ConfiguredHook>> = Vec::new();
        for hook in self.hooks.get(&event).into_iter().flatten() {
            let same = |other: &Arc<ConfiguredHook>| other.same == hook.same;
            if subject.is_none_or(|subject| hook.matcher.matches(subject))
                && condition(hook)
                && !found.iter().any(same)
            {
                found.push(hook.clone());
            }
        }
        found.retain(|hook| !(hook.handler.once && hook.ran.swap(true, Ordering::Relaxed)));
        found
    }

    /// Runs the hooks of one event concurrently; `begin` is called for each.
    pub(super) async fn run(
        &self,
        hooks: Vec<Arc<ConfiguredHook>>,
        fire: FiredEvent<'_>,
        begin: impl Fn(&ConfiguredHook),
    ) -> Vec<HookRun> {
        if hooks.is_empty() {
            return Vec::new();
        }
        let stdin: Arc<[u8]> = Value::Object(fire.object.clone()).to_string().into_bytes().into();
        let each = hooks.into_iter().map(|hook| {
            begin(&hook);
            let stdin = stdin.clone();
            let fire = &fire;
            let run: BoxFuture<'_, HookRun> = Box::pin(async move {
                let outcome = self.run_one(&hook, fire, stdin).await;
                HookRun { hook, outcome }
            });
            run
        });
        join_all(each.collect()).await
    }

    async fn run_one(
        &self,
        hook: &Arc<ConfiguredHook>,
        fire: &FiredEvent<'_>,
        stdin: Arc<[u8]>,
    ) -> Result<Option<HookReply>, String> {
        if let Some(verify) = &self.session.verify {
            verify(&hook.handler).map_err(|why| format!("it was not started: {why}"))?;
        }
        match &hook.handler.action {
            HookAction::Command { command, args, shell, background } => {
                let argv = self.argv(command, args.as_deref(), *shell);
                let request = self.request(hook, argv, fire.cwd, &stdin);
                match background {
                    Some(how) => self.in_background(hook, request, *how).map(|()| None),
                    None => self.command(hook, request.with_cancel(fire.cancel.clone())).await,
                }
            }
            #[cfg(feature = "http-hooks")]
            HookAction::Http { url, headers, allowed_env_vars } => {
                self.web.may_reach(url)?;
                let headers = self.web.headers(headers, allowed_env_vars, &self.session);
                let sent = self.web.post(url, headers, stdin.to_vec(), hook.timeout);
                let (body, cut) = or_cancelled(fire.cancel, sent).await??;
                reply::parse_http_body(hook.event, &body, cut).map(Some)
            }
            HookAction::McpTool { server, tool, input } if self.session.call_tool.is_some() => {
                let Some(call) = &self.session.call_tool else { return Ok(None) };
                let said = call(HookToolUse {
                    server: server.clone(),
                    tool: tool.clone(),
                    input: put_in(input, &fire.object),
                    source: hook.handler.source.clone(),
                });
                let limited = tokio::time::timeout(hook.timeout, said);
                let late = |_| format!("it took longer than {} s", hook.timeout.as_secs_f64());
                let text = or_cancelled(fire.cancel, limited).await?.map_err(late)??;
                let cut = text.len() > limits::OUTPUT_BYTES_MAX;
                reply::parse_http_body(hook.event, &text, cut).map(Some)
            }
            other => {
                let kind = super::action_kind(other);
                Err(format!("hooks of the type `{kind}` are not run here; use `command`, or remove it"))
            }
        }
    }

    /// Waits for a command, or detaches it if its first output asks for that.
    async fn command(
        &self,
        hook: &Arc<ConfiguredHook>,
        request: ProcessRequest,
    ) -> Result<Option<HookReply>, String> {
        let asked = Arc::new((Notify::new(), Mutex::new(Vec::new())));
        let heard = asked.clone();
        let request = request.with_on_output(move |bytes| {
            let mut first = lock(&heard.1);
            if first.len() < limits::ASYNC_REPLY_BYTES_MAX {
                first.extend_from_slice(bytes);
                if reply::as_async(&first).is_some() {
                    heard.0.notify_one();
                }
            }
        });
        let mut run = self.start(request);
        let mut goes = std::pin::pin!(asked.0.notified());
        let ended = poll_fn(|task| match run.as_mut().poll(task) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending => goes.as_mut().poll(task).map(|()| None),
        })
        .await;
        let printed = lock(&asked.1).clone();
        match (ended, reply::as_async(&printed)) {
            (Some(outcome), None) => parse_outcome(hook, outcome).map(Some),
            // The hook asked to continue in the background, but has already ended.
            (Some(_), Some(_)) => Ok(None),
            (None, limit) => {
                let limit = limit.flatten().map_or(hook.timeout, Duration::from_millis);
                self.detach(hook, run, limit, How::Quiet).map(|()| None)
            }
        }
    }

    fn start(&self, request: ProcessRequest) -> BoxFuture<'static, Result<ProcessOutcome, ProcessError>> {
        let processes = self.processes.clone();
        Box::pin(async move { processes.run(request).await })
    }

    fn in_background(
        &self,
        hook: &Arc<ConfiguredHook>,
        request: ProcessRequest,
        how: How,
    ) -> Result<(), String> {
        let request = request.with_cancel(self.background.cancel.child());
        self.detach(hook, self.start(request), hook.timeout, how)
    }

    /// Detaches a command.
    fn detach(
        &self,
        hook: &Arc<ConfiguredHook>,
        run: BoxFuture<'static, Result<ProcessOutcome, ProcessError>>,
        limit: Duration,
        how: How,
    ) -> Result<(), String> {
        let place = BackgroundSlot::take(&self.background)?;
        let (hook, cancel) = (hook.clone(), self.background.cancel.clone());
        tokio::spawn(async move {
            let waited = tokio::time::timeout(limit.saturating_add(limits::TIMEOUT_GRACE), run);
            let Ok(Ok(outcome)) = or_cancelled(&cancel, waited).await else { return };
            let report =
                |words: String, wakes: bool| BackgroundReport { hook: hook.label.clone(), words, wakes };
            match parse_outcome(&hook, outcome) {
                Err(words) => place.0.report(report(words, false)),
                Ok(reply) => {
                    if let Some(reason) = reply.denial().filter(|_| how == How::Rewake) {
                        place.0.report(report(reason, true));
                    }
                }
            }
        });
        Ok(())
    }

    fn argv(&self, command: &str, args: Option<&[String]>, shell: Option<Shell>) -> Vec<OsString> {
        match (args, shell) {
            (Some(args), _) => std::iter::once(command)
                .chain(args.iter().map(String::as_str))
                .map(|part| self.substituted(part).into())
                .collect(),
            (None, Some(Shell::Powershell)) => ["pwsh", "-NoProfile", "-NonInteractive", "-Command"]
                .into_iter()
                .map(Into::into)
                .chain([self.substituted(command).into()])
                .collect(),
            // The shell reads `${CLAUDE_PROJECT_DIR}` from its environment: a path is never parsed as a
            // command.
            (None, _) => {
                let shell = if self.bash { "bash" } else { "sh" };
                vec![shell.into(), "-c".into(), command.into()]
            }
        }
    }

    fn substituted(&self, text: &str) -> String {
        let dir = self.session.project_dir.to_string_lossy();
        text.replace("${CLAUDE_PROJECT_DIR}", &dir).replace("${HAFT_PROJECT_DIR}", &dir)
    }

    /// Returns `PATH` without the folders that commands can write to, or `None` if it has no such folders.
    fn path_without_workspace(&self, request: &ProcessRequest) -> Option<OsString> {
        let path = request.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, path)| path)?;
        let project = &self.session.project_dir;
        let is_ours = |folder: &PathBuf| {
            let real = folder.canonicalize();
            folder.is_absolute()
                && !folder.starts_with(project)
                && !real.is_ok_and(|real| real.starts_with(project))
        };
        let all: Vec<PathBuf> = std::env::split_paths(path).collect();
        let left: Vec<&PathBuf> = all.iter().filter(|folder| is_ours(folder)).collect();
        if left.len() == all.len() { None } else { std::env::join_paths(left).ok() }
    }

    fn request(
        &self,
        hook: &ConfiguredHook,
        argv: Vec<OsString>,
        cwd: &Path,
        stdin: &[u8],
    ) -> ProcessRequest {
        // A user's hook is the user's own program, unless it is in the workspace. A hook in the workspace
        // may run code that a call has just written, so it is confined like a command.
        let confinement = match hook.handler.source.scope {
            SourceScope::Project | SourceScope::Local => ConfinementLevel::Session,
            _ if self.session.confined.as_ref().is_some_and(|confined| confined(&hook.handler)) => {
                ConfinementLevel::Session
            }
            _ => ConfinementLevel::Outside,
        };
        let text = argv.get(2).filter(|_| argv.get(1).is_some_and(|option| option == "-c"));
        let text = text.and_then(|text| text.to_str()).unwrap_or_default();
        let used =
            haft_shell::analyse_command(text, &haft_shell::ShellDirectories::new(cwd)).repository_use();
        let protection = ProtectionLevel { number: used.level.number(), folders: used.folders };
        let mut request = ProcessRequest::new(argv, cwd)
            .with_protection(protection)
            .with_stdin(stdin)
            .with_confinement(confinement)
            .with_timeout(hook.timeout)
            .with_output_bytes_max(limits::OUTPUT_BYTES_MAX);
        request.env.extend(self.session.environment.iter().chain(&self.env).cloned());
        if confinement == ConfinementLevel::Outside {
            let path = self.path_without_workspace(&request);
            request.env.extend(path.map(|path| ("PATH".into(), path)));
        }
        for name in ["CLAUDE_PROJECT_DIR", "HAFT_PROJECT_DIR"] {
            request = request.with_env(name, &self.session.project_dir);
        }
        if let (HookEvent::SessionStart, Some(file)) = (hook.event, &self.session.env_file) {
            request = request.with_env("CLAUDE_ENV_FILE", file);
        }
        request
    }
}

/// Returns the answer of a command that has ended.
fn parse_outcome(
    hook: &ConfiguredHook,
    outcome: Result<ProcessOutcome, ProcessError>,
) -> Result<HookReply, String> {
    let outcome = outcome.map_err(|error| format!("it could not be started: {error}"))?;
    let (stdout, stderr) = (captured_text(&outcome.stdout), captured_text(&outcome.stderr));
    let exit: ProcessExit = outcome.exit;
    let cut = outcome.stdout.whole().is_none();
    let limit_s = hook.timeout.as_secs_f64();
    reply::parse_command_output(
        hook.event,
        &CommandExit { exit, stdout: &stdout, stderr: &stderr, cut, limit_s },
    )
}

/// Returns the captured output. Of a long output only the beginning and the end were kept.
fn captured_text(captured: &CapturedOutput) -> String {
    let (head, tail) = captured.to_text();
    if captured.whole().is_some() {
        return head;
    }
    let left_out = captured.total_bytes.saturating_sub((captured.head.len() + captured.tail.len()) as u64);
    format!("{head}\n… ({left_out} bytes left out)\n{tail}")
}

/// The report of a background hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundReport {
    /// The hook's name.
    pub hook: String,
    /// Its message, or the reason of its failure.
    pub words: String,
    /// Whether the message is for the model, which should be woken (`asyncRewake`).
    pub wakes: bool,
}

/// The background hooks.
pub(super) struct BackgroundHooks {
    pub(super) cancel: Cancel,
    pub(super) running: AtomicUsize,
    pub(super) reports: Mutex<Vec<BackgroundReport>>,
}

impl BackgroundHooks {
    fn report(&self, report: BackgroundReport) {
        let mut reports = lock(&self.reports);
        if reports.len() < limits::REPORTS_MAX {
            reports.push(report);
        }
    }

    pub(super) fn take(&self) -> Vec<BackgroundReport> {
        std::mem::take(&mut *lock(&self.reports))
    }
}

/// A slot of one hook, out of [`limits::BACKGROUND_MAX`].
struct BackgroundSlot(Arc<BackgroundHooks>);

impl BackgroundSlot {
    fn take(background: &Arc<BackgroundHooks>) -> Result<BackgroundSlot, String> {
        if background.running.fetch_add(1, Ordering::Relaxed) >= limits::BACKGROUND_MAX {
            background.running.fetch_sub(1, Ordering::Relaxed);
            let most = limits::BACKGROUND_MAX;
            return Err(format!("{most} hooks run in the background already, and no more may"));
        }
        Ok(BackgroundSlot(background.clone()))
    }
}

impl Drop for BackgroundSlot {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits for work or for a cancellation, whichever comes first.
async fn or_cancelled<T>(cancel: &Cancel, work: impl Future<Output = T>) -> Result<T, String> {
    let (mut work, mut cancelled) = (std::pin::pin!(work), cancel.cancelled());
    poll_fn(|task| match work.as_mut().poll(task) {
        Poll::Ready(value) => Poll::Ready(Ok(value)),
        Poll::Pending => Pin::new(&mut cancelled).poll(task).map(|_| Err("it was cancelled".to_owned())),
    })
    .await
}

/// Runs all futures concurrently and returns their outputs in the order of the futures.
async fn join_all<T>(futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut waiting: Vec<Option<BoxFuture<'_, T>>> = futures.into_iter().map(Some).collect();
    let mut done: Vec<Option<T>> = waiting.iter().map(|_| None).collect();
    poll_fn(|task| {
        for (future, done) in waiting.iter_mut().zip(&mut done) {
            if let Some(running) = future
                && let Poll::Ready(value) = running.as_mut().poll(task)
            {
                (*future, *done) = (None, Some(value));
            }
        }
        if waiting.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}
