//! Classifiers decide a call in the user's place, after rules and hooks and before the user is asked.
//!
//! There are two: a built-in one without dependencies, used by the mode `auto`, and an external program
//! that receives the call as JSON. If a classifier fails for any reason, the user is asked. Classifiers are
//! not consulted when a rule asks for the user, nor for deletions that always need the user's approval.

use std::sync::Arc;
use std::time::Duration;

use haft::Effects;
use haft::decision::{DecisionReason, DecisionSource, Verdict};
use haft::future::BoxFuture;
use haft::ports::{AuthorizationRequest, PermissionMode, ProcessExit, ProcessRequest, Processes};
use haft::text::truncate_chars;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::gate::CallAnalysis;
use crate::settings::{self, ProtectedPaths};

/// The default timeout of a classifier.
pub const CLASSIFIER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest timeout that settings may configure.
pub const CLASSIFIER_TIMEOUT_MAX: Duration = Duration::from_secs(120);
/// The maximum length of a classifier's reason; the rest is truncated.
pub const REASON_CHARS_MAX: usize = 1_000;

/// Decides calls in the user's place.
///
/// The task that makes the call invokes the classifier, one call at a time and without holding a lock. The
/// classifier may take its time. Its future is dropped when the call is cancelled. If it panics, the user
/// is asked.
pub trait CallClassifier: Send + Sync + 'static {
    /// Decides one call.
    fn classify<'a>(&'a self, call: &'a ClassifierInput<'a>) -> BoxFuture<'a, Option<DecisionReason>>;
}

/// A call that would ask the user, as presented to a classifier.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClassifierInput<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// The final input.
    pub input: &'a Value,
    /// The declared effects.
    pub effects: &'a Effects,
    /// The parsed commands of a shell call.
    pub commands: Vec<String>,
    /// The reason why the call would ask.
    pub reason: &'a str,
    /// The permission mode.
    pub mode: PermissionMode,
    /// The agent that makes the call.
    pub agent: &'a str,
    /// The working directory.
    pub cwd: &'a std::path::Path,
    /// Affected paths outside of the working directories.
    pub outside: Vec<String>,
    /// The call destroys data that can't be restored.
    pub destructive: bool,
    /// The call changes a protected file, one that decides which programs run.
    pub protected: bool,
    /// All effects of the call are known, and it is confined to them.
    pub held: bool,
}

impl<'a> ClassifierInput<'a> {
    pub(crate) fn for_request(
        request: &'a AuthorizationRequest<'a>,
        case: &CallAnalysis<'_>,
        mode: PermissionMode,
        reason: &'a str,
        protected: &ProtectedPaths,
    ) -> ClassifierInput<'a> {
        let outside = case.places().filter(|(effect, place)| !case.is_inside(effect.touch, place));
        let is_protected = |path: &std::path::Path| protected.judge(path).is_some();
        let known = case.failed.is_none() && case.doubts().is_empty();
        // A shell command line that the sandbox confines was already allowed earlier.
        let told = case.line().is_none() && case.subject.enforced && !case.subject.open;
        ClassifierInput {
            tool: request.name,
            input: request.input,
            effects: request.declared(),
            commands: case.commands.iter().map(|command| command.text.clone()).collect(),
            reason,
            mode,
            agent: request.agent,
            cwd: request.workspace.cwd(),
            outside: outside.map(|(_, place)| place.given.display().to_string()).collect(),
            destructive: case.is_destructive(),
            protected: case.places().any(|(effect, place)| {
                effect.touch != crate::rule::EffectKind::Reads
                    && (is_protected(&place.given) || is_protected(&place.real))
            }),
            held: known && told && (!case.child || case.confined),
        }
    }
}

/// The built-in classifier. It allows calls that stay inside the working directories, destroy nothing,
/// reach no host and are confined to their declared effects. For everything else it asks.
#[derive(Debug, Clone, Copy, Default)]
pub struct CautiousClassifier;

impl CallClassifier for CautiousClassifier {
    fn classify<'a>(&'a self, call: &'a ClassifierInput<'a>) -> BoxFuture<'a, Option<DecisionReason>> {
        Box::pin(std::future::ready(CautiousClassifier::reason(call)))
    }
}

impl CautiousClassifier {
    /// Returns the reason for its decision, without awaiting anything.
    pub(crate) fn reason(call: &ClassifierInput<'_>) -> Option<DecisionReason> {
        let ClassifierInput { effects, outside, destructive, protected, held, .. } = call;
        let stays = outside.is_empty() && effects.reaches.is_empty();
        let fine = *held && stays && !destructive && !protected;
        let text = "mode `auto`: it stays inside and destroys nothing";
        fine.then(|| DecisionReason::new(DecisionSource::Classifier, Verdict::Allow, text))
    }
}

/// A program of the user's that is given each call as JSON on standard input, and prints its answer as JSON.
///
/// What it is given: `tool_name`, `tool_input`, `cwd`, `permission_mode`, `agent_id`, `reason`, `effects`,
/// `commands`, `outside`, `destructive`, `protected`. What it prints: [`ClassifierOutput`].
pub struct ProgramClassifier {
    argv: Vec<String>,
    timeout: Duration,
    processes: Arc<dyn Processes>,
    cwd: std::path::PathBuf,
}

/// The output of a classifier program.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub struct ClassifierOutput {
    /// The verdict.
    pub decision: Verdict,
    /// The reason: shown to the model on a denial, to the user in a prompt.
    #[serde(default)]
    pub reason: Option<String>,
}

impl ProgramClassifier {
    /// Creates the classifier from its settings. The program runs in `cwd`.
    pub fn new(
        given: &settings::Classifier,
        processes: Arc<dyn Processes>,
        cwd: impl Into<std::path::PathBuf>,
    ) -> ProgramClassifier {
        let timeout = given.timeout_ms.map_or(CLASSIFIER_TIMEOUT, Duration::from_millis);
        let timeout = timeout.min(CLASSIFIER_TIMEOUT_MAX);
        ProgramClassifier { argv: given.command.clone(), timeout, processes, cwd: cwd.into() }
    }

    async fn ask(&self, call: &ClassifierInput<'_>) -> Result<ClassifierOutput, String> {
        let given = json!({
            "tool_name": call.tool,
            "tool_input": call.input,
            "cwd": call.cwd,
            "permission_mode": call.mode,
            "agent_id": call.agent,
            "reason": call.reason,
            "effects": call.effects,
            "commands": call.commands,
            "outside": call.outside,
            "destructive": call.destructive,
            "protected": call.protected,
        });
        let request = ProcessRequest::new(self.argv.iter(), &self.cwd)
            .with_stdin(given.to_string())
            .with_timeout(self.timeout);
        // The process runner enforces the timeout. This one is a backstop in case it doesn't.
        let limit = self.timeout + Duration::from_secs(5);
        let run = tokio::time::timeout(limit, self.processes.run(request)).await;
        let outcome = run.map_err(|_| "it took too long".to_owned())?.map_err(|error| error.to_string())?;
        match outcome.exit {
            ProcessExit::Code(0) => {}
            ProcessExit::Code(code) => return Err(format!("it ended with code {code}")),
            ProcessExit::Signal(signal) => return Err(format!("it was ended by signal {signal}")),
            ProcessExit::TimedOut => {
                return Err(format!("it took longer than {} ms", self.timeout.as_millis()));
            }
            ProcessExit::Cancelled => return Err("it was cancelled".to_owned()),
            ProcessExit::Killed(reason) => return Err(format!("it was killed: {reason}")),
        }
        let printed = outcome.stdout.whole().ok_or("it printed too much")?;
        serde_json::from_slice(printed).map_err(|_| {
            "what it printed is no answer; {\"decision\": \"allow\", \"deny\" or \"ask\", \"reason\": …} is accepted"
                .to_owned()
        })
    }
}

/// An external classifier that can't be started, because the host has no process runner. It asks about
/// every call: calls that the user's program would deny must not be left to the built-in classifier.
pub(crate) struct UnavailableClassifier {
    program: String,
}

impl UnavailableClassifier {
    pub(crate) fn new(given: &settings::Classifier) -> UnavailableClassifier {
        UnavailableClassifier { program: given.command.first().cloned().unwrap_or_default() }
    }
}

impl CallClassifier for UnavailableClassifier {
    fn classify<'a>(&'a self, _: &'a ClassifierInput<'a>) -> BoxFuture<'a, Option<DecisionReason>> {
        let text =
            format!("the classifier `{}` can't be started: no processes are started here", self.program);
        let reason = DecisionReason::new(DecisionSource::Classifier, Verdict::Ask, text);
        Box::pin(std::future::ready(Some(reason)))
    }
}

impl CallClassifier for ProgramClassifier {
    fn classify<'a>(&'a self, call: &'a ClassifierInput<'a>) -> BoxFuture<'a, Option<DecisionReason>> {
        Box::pin(async move {
            let name = || format!("classifier `{}`", self.argv.first().map_or("", |name| name));
            match self.ask(call).await {
                Ok(ClassifierOutput { decision, reason }) => {
                    let reason = reason.map(|text| truncate_chars(&text, REASON_CHARS_MAX).to_owned());
                    let said = |verdict, text: String| {
                        Some(DecisionReason::new(DecisionSource::Classifier, verdict, text))
                    };
                    match decision {
                        Verdict::Ask => reason.and_then(|text| said(Verdict::Ask, text)),
                        verdict => said(verdict, name()).map(|said| match reason {
                            Some(message) => said.with_message(message),
                            None => said,
                        }),
                    }
                }
                Err(why) => {
                    let text = format!("the {} failed: {why}", name());
                    Some(DecisionReason::new(DecisionSource::Classifier, Verdict::Ask, text))
                }
            }
        })
    }
}
