//! One call of a script: arguments in, result out.
//!
//! Standard output is the result and nothing else; standard error is read only when the program fails. How
//! the program is started, bounded and ended is the business of the host's `Processes`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use haft::files::GrantedRoot;
use haft::ports::{
    CapturedOutput, ProcessExit, ProcessOutcome, ProcessRequest, ProtectionLevel, SpillFile, signal_name,
};
use haft::results::ResultLimit;
use haft::schema::{InputSchema, describe_violations, parse_json};
use haft::text::truncate_chars;
use haft::{Context, Effects, ErrorKind, ResultBlock, ToolError, ToolOutput};
use haft_git::RepositoryLevel;
use serde_json::Value;

use super::manifest::{CheckedManifest, OutputForm};
use super::script_effects::DeclaredEffects;
use crate::shell::bash::render_result::describe_refusals;

/// How long ending a program may take after its time was over, before the engine answers in its place.
pub(super) const ENDING: Duration = Duration::from_secs(10);
/// The longest JSON result, in bytes.
const JSON_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of a text result that are held in memory; a longer one goes to a file while it comes.
const TEXT_BYTES_MAX: usize = 1024 * 1024;
/// How many bytes of standard error become an error's message: its beginning and its end.
const WORDS_BYTES_MAX: usize = 8 * 1024;
/// How many characters of the output are shown where an error is about them.
const SHOWN_CHARS: usize = 200;

/// What is needed to run a script.
pub(super) struct ScriptRunner {
    name: String,
    folder: PathBuf,
    argv: Vec<OsString>,
    env: Vec<String>,
    output: OutputForm,
    output_schema: Option<InputSchema>,
    timeout: Duration,
    limit: ResultLimit,
    declared: DeclaredEffects,
}

impl ScriptRunner {
    pub(super) fn new(checked: &CheckedManifest, folder: &Path, program: PathBuf) -> ScriptRunner {
        let CheckedManifest { manifest, declared, output_schema } = checked;
        let arguments = manifest.command[1..].iter().map(OsString::from);
        ScriptRunner {
            name: manifest.name.clone(),
            folder: folder.to_owned(),
            argv: std::iter::once(program.into_os_string()).chain(arguments).collect(),
            env: manifest.env.clone(),
            output: manifest.output,
            output_schema: output_schema.clone(),
            timeout: manifest.timeout_ms.map_or(haft::limits::CALL_TIMEOUT, Duration::from_millis),
            limit: manifest.max_result_chars.unwrap_or_default(),
            declared: declared.clone(),
        }
    }

    /// How long one run may take.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// What one call touches.
    ///
    /// # Errors
    /// Its arguments don't say it, so it must not run.
    pub(super) fn effects(&self, arguments: &Value) -> Result<Effects, ToolError> {
        let refused = |violation| ToolError::invalid_input(describe_violations(&self.name, &[violation]));
        self.declared.effects(arguments).map_err(refused)
    }

    /// How much of the result is held in memory.
    fn bytes_max(&self) -> usize {
        match (self.output, self.limit) {
            (OutputForm::Json, _) | (_, ResultLimit::Unlimited) => JSON_BYTES_MAX,
            // A character has at most four bytes.
            (_, ResultLimit::Chars(chars)) => chars.saturating_mul(4).clamp(TEXT_BYTES_MAX, JSON_BYTES_MAX),
        }
    }
}

/// Runs the program once.
pub(super) async fn run_script(
    script: Arc<ScriptRunner>,
    arguments: Value,
    cx: Context,
) -> Result<ToolOutput, ToolError> {
    let Some(processes) = cx.ports().processes() else {
        return Err(ToolError::new(format!("{} can't run: this host starts no processes", script.name)));
    };
    let mut stdin = serde_json::to_vec(&arguments)?;
    stdin.push(b'\n');
    let effects = script.effects(&arguments)?;
    let progress = cx.clone();
    let mut request = ProcessRequest::new(script.argv.iter().cloned(), cx.cwd())
        .with_declared_effects(&effects, cx.access(), cx.location().workspace().paths())
        .with_stdin(stdin)
        .with_passed_env(script.env.iter())
        .with_protection(ProtectionLevel { number: RepositoryLevel::Data.number(), folders: Vec::new() })
        .with_timeout(script.timeout)
        .with_output_bytes_max(script.bytes_max())
        .with_on_line(move |line| progress.tell_progress_line(line))
        .with_child_requests(cx.ports().child_requests())
        .with_background(cx.background().state().clone())
        .with_cancel(cx.cancel().clone());
    // The program itself, wherever it lies.
    request.access.read.extend([GrantedRoot::subtree(&script.folder), GrantedRoot::file(&script.argv[0])]);
    if let (OutputForm::Text, Some(store)) = (script.output, cx.ports().result_store()) {
        request = request.with_spill(SpillFile::new(store.clone(), &script.name));
    }
    let outcome = processes
        .run(request)
        .await
        .map_err(|error| ToolError::new(format!("{} can't run: {error}", script.name)).with_source(error))?;
    let refused = describe_refusals(&outcome.refused, cx.cwd());
    match outcome.exit {
        ProcessExit::Code(0) => {
            refused.into_iter().for_each(|refused| cx.warn(format!("{}: {refused}", script.name)));
            match script.output {
                OutputForm::Text => text_output(&outcome.stdout, &cx),
                OutputForm::Json => json_output(&script, &outcome.stdout),
            }
        }
        _ => Err(failure_error(&script, &outcome, &refused)),
    }
}

/// The text without its last line break; what was too long for memory by its file.
fn text_output(stdout: &CapturedOutput, cx: &Context) -> Result<ToolOutput, ToolError> {
    let (mut head, tail) = stdout.to_text();
    if stdout.whole().is_some() {
        let invalid = std::str::from_utf8(&stdout.head).is_err();
        if head.ends_with('\n') {
            head.pop();
        }
        if invalid {
            head.push_str("\n[haft: this is not all UTF-8; \u{FFFD} stands for what is not]");
        }
        return Ok(ResultBlock::text(head).into());
    }
    if let (Some(kept), Some(store)) = (&stdout.kept, cx.ports().result_store()) {
        return Ok(store.show(kept, &head, &tail));
    }
    let why = stdout.not_kept.as_deref().unwrap_or("there is no place for it");
    let lost = stdout.total_bytes - (stdout.head.len() + stdout.tail.len()) as u64;
    let text = format!(
        "{head}\n[haft left out {lost} bytes here, which could not be kept in a file: {why}]\n{tail}"
    );
    Ok(ResultBlock::text(text).into())
}

/// The one value that was printed, if it is one and fits.
fn json_output(script: &ScriptRunner, stdout: &CapturedOutput) -> Result<ToolOutput, ToolError> {
    const FAULT: &str = "this is a fault of the tool, not of your input";
    let name = &script.name;
    let Some(bytes) = stdout.whole() else {
        let words = format!(
            "{name} printed {} bytes; a JSON result may have at most {JSON_BYTES_MAX}, so ask for less",
            stdout.total_bytes
        );
        return Err(ToolError::new(words));
    };
    if bytes.trim_ascii().is_empty() {
        return Err(ToolError::new(format!(
            "{name} printed nothing, and its output has to be JSON; {FAULT}"
        )));
    }
    let wrong = |why: String| {
        let begins = quote_text(&String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN_CHARS)]));
        ToolError::new(format!(
            "{name} printed something that is not one JSON value: {why}; {FAULT}\nit begins: {begins}"
        ))
    };
    // As strictly as what a model sends: nothing is merged, nothing becomes another number.
    let text = std::str::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
    let value = parse_json(text).map_err(|violation| wrong(violation.to_string()))?;
    let violations =
        script.output_schema.as_ref().map(|schema| schema.violations(&value)).unwrap_or_default();
    if violations.is_empty() {
        return Ok(ResultBlock::Structured(value).into());
    }
    let problems: Vec<String> = violations
        .iter()
        .take(haft::limits::VIOLATIONS_MAX)
        .map(|violation| format!("\n  {violation}"))
        .collect();
    let words =
        format!("{name} printed a value that does not fit its output_schema; {FAULT}{}", problems.concat());
    Err(ToolError::new(words))
}

/// How it failed, told apart, with what it said.
fn failure_error(script: &ScriptRunner, outcome: &ProcessOutcome, refused: &[String]) -> ToolError {
    let name = &script.name;
    let said = stderr_excerpt(&outcome.stderr);
    let (kind, mut message) = match outcome.exit {
        // What the program says is the message, as it is.
        ProcessExit::Code(_) if !said.is_empty() => (ErrorKind::Failed, said.clone()),
        ProcessExit::Code(code) => {
            (ErrorKind::Failed, format!("{name} ended with exit code {code} and said nothing"))
        }
        ProcessExit::Signal(signal) => {
            (ErrorKind::Failed, format!("{name} was killed by signal {signal}{}", signal_name(signal)))
        }
        ProcessExit::TimedOut => {
            let limit = script.timeout.as_secs_f64();
            let words = format!(
                "{name} was stopped: it did not finish within {limit} s; the user did not interrupt. Ask for less at once"
            );
            (ErrorKind::TimedOut, words)
        }
        ProcessExit::Cancelled => (ErrorKind::Cancelled, format!("{name} was cancelled")),
        ProcessExit::Killed(reason) => (ErrorKind::Failed, format!("{name} was killed: {reason}")),
    };
    if said.is_empty() {
        let printed = stdout_tail(&outcome.stdout);
        if !printed.is_empty() {
            message.push_str(&format!("; its output ends: {printed}"));
        }
    } else if !matches!(outcome.exit, ProcessExit::Code(_)) {
        message.push_str(&format!("; it said: {said}"));
    }
    if let Some(kept) = &outcome.stdout.kept {
        message.push_str(&format!(
            "\nwhat it printed ({} bytes) is in {}",
            kept.bytes(),
            kept.path().display()
        ));
    }
    refused.iter().for_each(|refused| message.push_str(&format!("\n[haft: {refused}]")));
    ToolError::with_kind(kind, message)
}

/// Standard error as a message: its beginning and its end.
fn stderr_excerpt(stderr: &CapturedOutput) -> String {
    let all = [stderr.head.as_slice(), stderr.tail.as_slice()].concat();
    let mut cut = CapturedOutput::cut(all, WORDS_BYTES_MAX);
    cut.total_bytes = cut.total_bytes.max(stderr.total_bytes);
    let whole = cut.whole().is_some();
    let (head, tail) = cut.to_text();
    if whole { head.trim().to_owned() } else { format!("{}\n…\n{}", head.trim(), tail.trim()) }
}

/// The last characters that were printed.
fn stdout_tail(stdout: &CapturedOutput) -> String {
    let (head, tail) = stdout.to_text();
    let text = if tail.is_empty() { head } else { tail };
    let text = text.trim();
    let from = text.char_indices().rev().nth(SHOWN_CHARS - 1).map_or(0, |(at, _)| at);
    text[from..].to_owned()
}

fn quote_text(text: &str) -> String {
    truncate_chars(text.trim(), SHOWN_CHARS).to_owned()
}
