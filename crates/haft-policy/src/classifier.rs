//! Classifiers: who decides on a call in the user's place, after rules and hooks and before the user.
//!
//! There are two: a careful one that needs nothing, for the mode `auto`, and a program of the user's that is given the
//! call as JSON. Whatever goes wrong with a classifier asks. None of them is asked about what a rule wants the user to
//! see, nor about what nobody may remove unasked.

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

/// How long a classifier may take, unless settings say otherwise.
pub const CLASSIFIER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest that settings may say.
pub const CLASSIFIER_TIMEOUT_MAX: Duration = Duration::from_secs(120);
/// How many characters of a classifier's reason are used.
pub const REASON_CHARS_MAX: usize = 1_000;

/// Decides on calls in the user's place.
///
/// Called for one call at a time by the task that makes it, holding nothing; it may take its time, and is dropped when
/// the call is cancelled. A panic asks the user.
pub trait CallClassifier: Send + Sync + 'static {
    /// Decides on one call.
    fn classify<'a>(&'a self, call: &'a ClassifierInput<'a>) -> BoxFuture<'a, Option<DecisionReason>>;
}

/// A call that would ask, as a classifier sees it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClassifierInput<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Its input, final.
    pub input: &'a Value,
    /// What it declares to touch.
    pub effects: &'a Effects,
    /// The commands of a shell call, taken apart.
    pub commands: Vec<String>,
    /// Why it would ask.
    pub reason: &'a str,
    /// The mode.
    pub mode: PermissionMode,
    /// The agent that makes it.
    pub agent: &'a str,
    /// Where it works.
    pub cwd: &'a std::path::Path,
    /// Paths that it touches outside of the working directories.
    pub outside: Vec<String>,
    /// It destroys what can't be brought back.
    pub destructive: bool,
    /// It changes a file that decides what runs.
    pub protected: bool,
    /// All that it does is known, and it can do no more.
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
        // A shell line that the sandbox holds didn't come so far.
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

/// The classifier that needs nothing: lets through what stays inside, destroys nothing, reaches nobody, and is held to
/// what it says. Asks for the rest.
#[derive(Debug, Clone, Copy, Default)]
pub struct CautiousClassifier;

impl CallClassifier for CautiousClassifier {
    fn classify<'a>(&'a self, call: &'a ClassifierInput<'a>) -> BoxFuture<'a, Option<DecisionReason>> {
        Box::pin(std::future::ready(CautiousClassifier::reason(call)))
    }
}

impl CautiousClassifier {
    /// What it says, at once.
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
/// What it is given: `tool_name`, `tool_input`, `cwd`, `permission_mode`, `agent_id`, `reason`, `effects`, `commands`,
/// `outside`, `destructive`, `protected`. What it prints: [`ClassifierOutput`].
pub struct ProgramClassifier {
    argv: Vec<String>,
    timeout: Duration,
    processes: Arc<dyn Processes>,
    cwd: std::path::PathBuf,
}

/// What a classifier's program prints.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub struct ClassifierOutput {
    /// What becomes of the call.
    pub decision: Verdict,
    /// Why: to the model on a denial, to the user on a question.
    #[serde(default)]
    pub reason: Option<String>,
}

impl ProgramClassifier {
    /// The classifier of the settings, run in `cwd`.
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
        // The implementation keeps the time; should it not, nobody waits for ever.
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

/// A program of the user's that can't be started, because the host starts no processes. It asks about every call: what the
/// user's program would deny must not be left to the built-in classifier.
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
