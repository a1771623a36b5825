//! What came of a command, in words: for the model, for a person, for hooks.
//!
//! Output comes first and as it is; a line follows only where it says something that the output doesn't. An
//! exit code other than 0 is a failure, but for the programs that answer a question with it. A failure is
//! short, with its beginning and its end; whatever is left out anywhere is in a file that is named.

use std::path::Path;
use std::time::Duration;

use haft::ports::{ConfinementLevel, ConfinementRefusal, ProcessExit};
use haft::results::OffloadStore;
use haft::text::truncate_chars;
use haft::view::{ViewPart, visible_line};
use haft::{CallView, Cause, Context, ErrorKind, ResultBlock, ToolError, ToolOutput};
use haft_shell::CommandAnalysis;
use serde_json::{Value, json};

use super::command_run::{CommandEnd, RunningCommand};
use super::output_log::CommandOutput;
use super::{RESULT_CHARS, reached_hosts};

/// Characters of the output of a command that failed: its beginning and its end.
pub const FAILURE_CHARS_MAX: usize = 9_000;
/// Lines of output that a person is shown.
const LINES_SHOWN: usize = 20;
/// How many things that were refused are named.
const REFUSALS_SHOWN: usize = 8;

/// What is known of a run besides how it ended.
pub(crate) struct RunFacts<'a> {
    pub(crate) command: &'a str,
    pub(crate) analysis: &'a CommandAnalysis,
    pub(crate) confinement: ConfinementLevel,
    /// Whether the host holds it to that.
    pub(crate) confined: bool,
    pub(crate) limit: Duration,
    /// What else there is to say.
    pub(crate) notes: Vec<String>,
}

/// The result of a command that ended.
pub(crate) fn render_result(
    ended: CommandEnd,
    facts: RunFacts<'_>,
    cx: &Context,
) -> Result<ToolOutput, ToolError> {
    let CommandEnd { exit, printed, refused, left_running, held, .. } = ended;
    let answers = exit_meaning(&exit, facts.analysis);
    let failed = !(exit == ProcessExit::Code(0) || answers.is_some());
    let mut notes = left_out(&printed);
    let ended = exit_words(&exit, answers, facts.limit);
    match held_words(&held) {
        None => notes.extend(ended),
        Some(words) => {
            notes.extend(ended.map(|ended| ended.replacen("ended by haft", "given up by haft", 1)));
            notes.push(words);
        }
    }
    // What only seems to have been wanted, and whom nobody kept it from, matters where it may be why the
    // command failed.
    let certain = |refusal: &&ConfinementRefusal| {
        !matches!(refusal, ConfinementRefusal::Path { .. } | ConfinementRefusal::Unreached { .. })
    };
    let told = refused.iter().filter(|refusal| failed || certain(refusal)).cloned();
    notes.extend(describe_refusals(&told.collect::<Vec<_>>(), cx.cwd()));
    if left_running && matches!(exit, ProcessExit::Code(_)) {
        notes.push(LEFT_RUNNING.to_owned());
    }
    let looked = failed && facts.confined && facts.confinement == ConfinementLevel::ReadOnly;
    if looked && wanted_more(&printed, &refused) {
        notes.push(ONLY_LOOKED.to_owned());
    }
    if failed
        && facts.confined
        && facts.confinement != ConfinementLevel::Outside
        && wanted_own_port(&exit, &printed, &facts)
    {
        notes.push(OWN_PORT.to_owned());
    }
    notes.extend(facts.notes);
    let view = command_view(facts.command, &exit, &printed);
    if failed {
        let kind = match exit {
            ProcessExit::TimedOut => ErrorKind::TimedOut,
            ProcessExit::Cancelled => ErrorKind::Cancelled,
            ProcessExit::Code(_) | ProcessExit::Signal(_) | ProcessExit::Killed(_) => ErrorKind::Failed,
        };
        return Err(ToolError::with_kind(
            kind,
            render_failure(&printed, &notes, cx.ports().result_store().map(|store| &**store)),
        ));
    }
    let response = hook_response(&printed, false);
    let output = match (&printed.kept, cx.ports().result_store()) {
        (Some(kept), Some(store)) => {
            let tail = with_notes(&printed.tail, &notes);
            store.show(kept, &printed.head, &tail)
        }
        _ => ToolOutput::from(ResultBlock::text(with_notes(&whole_text(&printed), &notes))),
    };
    Ok(output.with_view(view).with_response(response))
}

/// What is said of a command whose call was cancelled while it ran: why, and what it had printed.
pub(crate) fn render_cancelled(running: RunningCommand, cause: Cause, cx: &Context) -> ToolError {
    let RunningCommand { log, work, .. } = running;
    // Ends it.
    drop(work);
    let printed = log.finish();
    let notes = [left_out(&printed), vec![format!("Bash was {}", cause.words())]].concat();
    ToolError::cancelled(
        cause,
        &render_failure(&printed, &notes, cx.ports().result_store().map(|store| &**store)),
    )
}

/// All of the text, or what there is of it. What could not be kept is cut here to what a result may have: cut
/// later, the word on what is missing would be missing too.
fn whole_text(printed: &CommandOutput) -> String {
    let Some(why) = &printed.lost else { return printed.head.clone() };
    let (head, tail) = (printed.head.as_str(), printed.tail.as_str());
    if (head.len() + tail.len()) as u64 == printed.bytes && printed.bytes <= RESULT_CHARS as u64 {
        return format!("{head}{tail}");
    }
    let head = truncate_chars(head, RESULT_CHARS / 3 * 2);
    let tail = &tail[tail.char_indices().nth_back(RESULT_CHARS / 4).map_or(0, |(at, _)| at)..];
    let missing = printed.bytes.saturating_sub((head.len() + tail.len()) as u64);
    format!("{head}\n[haft left out {missing} bytes here, which could not be kept in a file: {why}]\n{tail}")
}

/// The text without its last line break, and what there is to say about it.
pub(crate) fn with_notes(text: &str, notes: &[String]) -> String {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = if text.trim().is_empty() { "(no output)" } else { text };
    if notes.is_empty() { text.to_owned() } else { format!("{text}\n{}", notes.join("\n")) }
}

/// A failure within its bound: what is too long goes to a file.
fn render_failure(printed: &CommandOutput, notes: &[String], store: Option<&OffloadStore>) -> String {
    let text = whole_text(printed);
    if printed.is_whole() && text.chars().count() <= FAILURE_CHARS_MAX {
        return with_notes(&text, notes);
    }
    let (bytes, place) = match (&printed.kept, store) {
        (Some(kept), _) => (printed.bytes, Some(kept.path().display().to_string())),
        (None, Some(store)) if printed.lost.is_none() => {
            let kept = store.keep("Bash", "txt", text.as_bytes()).ok();
            (text.len() as u64, kept.map(|path| path.display().to_string()))
        }
        _ => (printed.bytes, None),
    };
    let half = FAILURE_CHARS_MAX / 2;
    let tail = if printed.tail.is_empty() { &text } else { &printed.tail };
    let head_end = truncate_chars(&printed.head, half).len();
    let tail_from = tail.char_indices().nth_back(half - 1).map_or(0, |(at, _)| at);
    let whole = match place {
        Some(place) => format!("all {bytes} bytes are in {place}"),
        None => format!("there were {bytes} bytes in all, which could not be kept"),
    };
    let cut = format!(
        "{}\n[… the middle was left out; {whole}]\n{}",
        &printed.head[..head_end],
        &tail[tail_from..]
    );
    with_notes(&cut, notes)
}

/// What the text doesn't show.
fn left_out(printed: &CommandOutput) -> Vec<String> {
    let mut notes = Vec::new();
    if printed.left_out.invalid {
        notes.push("[haft: this is not all UTF-8; \u{FFFD} stands for what is not]".to_owned());
    }
    if printed.left_out.nuls > 0 {
        notes.push(format!("[haft left out {} NUL bytes]", printed.left_out.nuls));
    }
    let held = printed.kept.as_ref().map(|kept| (kept.held_bytes(), kept.bytes()));
    if let Some((held, bytes)) = held.filter(|(held, bytes)| held < bytes) {
        notes.push(format!("[haft kept the first {held} of {bytes} bytes in the file]"));
    }
    notes
}

/// What an exit code of 1 means, for programs that answer with it; nothing if it is a failure.
fn exit_meaning(exit: &ProcessExit, analysis: &CommandAnalysis) -> Option<&'static str> {
    if *exit != ProcessExit::Code(1) || !analysis.doubts.is_empty() {
        return None;
    }
    let last = analysis.commands.iter().rev().find(|command| command.within.is_none())?;
    last.exit_one()
}

/// What could not be ended, where there is something.
pub(crate) fn held_words(held: &[u32]) -> Option<String> {
    const SHOWN: usize = 8;
    let names: Vec<String> = held.iter().take(SHOWN).map(u32::to_string).collect();
    let more = if held.len() > SHOWN { format!(" and {} more", held.len() - SHOWN) } else { String::new() };
    let (processes, are, they) = match held {
        [] => return None,
        [_] => ("process", "is", "it"),
        _ => ("processes", "are", "they"),
    };
    Some(format!(
        "{processes} {}{more} of it could not be ended and {are} still there: killed, but held by the kernel, as where a file \
         system doesn't answer, or of another user. What {they} began may still happen",
        names.join(", ")
    ))
}

/// How it ended, where that has to be said.
fn exit_words(exit: &ProcessExit, answers: Option<&str>, limit: Duration) -> Option<String> {
    Some(match (exit, answers) {
        (ProcessExit::Code(0), _) => return None,
        (ProcessExit::Code(code), Some(answer)) => format!("exit code {code}: {answer}"),
        (ProcessExit::Code(126), _) => "exit code 126: a program in it could not be executed".to_owned(),
        (ProcessExit::Code(127), _) => "exit code 127: a program in it was not found".to_owned(),
        // How a shell says that what it ran was killed.
        (ProcessExit::Code(code), None) => {
            match signal_name(code - 128).filter(|_| ends_programs(code - 128)) {
                Some(name) => format!(
                    "exit code {code}: a program in it was killed by {name} ({}){}",
                    code - 128,
                    signal_hint(code - 128)
                ),
                None => format!("exit code {code}"),
            }
        }
        (ProcessExit::Signal(signal), _) => {
            let name = signal_name(*signal).unwrap_or("a signal");
            format!("killed by {name} ({signal}){}", signal_hint(*signal))
        }
        (ProcessExit::TimedOut, _) => {
            let seconds = limit.as_secs_f64();
            format!(
                "ended by haft: it did not finish within {seconds} s; the user did not interrupt. Give a longer `timeout`, or `run_in_background`"
            )
        }
        (ProcessExit::Cancelled, _) => "ended by haft: it was stopped".to_owned(),
        (ProcessExit::Killed(reason), _) => format!("ended by haft: {reason}"),
    })
}

/// Whether 128 and this number stand for a signal as a rule. Programs use codes such as 129 and 130
/// themselves: git does for wrong usage, and what is interrupted by hand isn't here.
fn ends_programs(signal: i32) -> bool {
    matches!(signal, 4..=9 | 11 | 13 | 15 | 24 | 25 | 31)
}

/// The name of a signal that ends programs.
pub(crate) fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}

/// Why a signal may have come.
fn signal_hint(signal: i32) -> &'static str {
    match signal {
        9 => ", as when memory runs out or a limit is reached",
        24 => ": it used all the processor time that it may",
        25 => ": a file became larger than it may",
        31 => ": it made a system call that is not allowed here",
        _ => "",
    }
}

/// What it was kept from, each on one line: names are the command's, and could be words of ours.
pub(crate) fn describe_refusals(refused: &[ConfinementRefusal], cwd: &Path) -> Vec<String> {
    let mut words: Vec<String> = refused
        .iter()
        .take(REFUSALS_SHOWN)
        .map(|refusal| match refusal {
            ConfinementRefusal::Host { host, port: Some(port), why, .. } => {
                format!("it could not reach {host}:{port}: {why}")
            }
            ConfinementRefusal::Host { host, port: None, why, .. } => {
                format!("it could not reach {host}: {why}")
            }
            ConfinementRefusal::Unreached { host, port, why } => {
                format!("it could not reach {host}:{port}: {why}")
            }
            ConfinementRefusal::Held { paths, why } => {
                let short = |path: &Path| path.strip_prefix(cwd).unwrap_or(path).display().to_string();
                let paths: Vec<String> = paths.iter().map(|path| format!("`{}`", short(path))).collect();
                format!("it could not change {}, it seems: {why}", paths.join(", "))
            }
            ConfinementRefusal::Unseen { why, .. } => why.clone(),
            ConfinementRefusal::Path { path, write: true } => {
                format!("it could not write `{}`, it seems", path.display())
            }
            ConfinementRefusal::Path { path, write: false } => {
                format!("it could not read `{}`, it seems", path.display())
            }
            ConfinementRefusal::Changed { path, done } => {
                format!("`{}` changed while it ran: {done}", path.display())
            }
            ConfinementRefusal::Protected { path, done } => {
                format!("`{}` changed while it ran, which no command may do: {done}", path.display())
            }
        })
        .map(|words| visible_line(&words))
        .collect();
    if refused.len() > REFUSALS_SHOWN {
        words.push(format!("and {} more like that", refused.len() - REFUSALS_SHOWN));
    }
    words
}

/// Words in which programs and the C library say that they were kept from writing or reaching something.
const KEPT_FROM: [&str; 7] = [
    "Read-only file system",
    "Permission denied",
    "Operation not permitted",
    "Network is unreachable",
    "Temporary failure in name resolution",
    "Could not resolve",
    "unable to resolve",
];

/// Whether a command that failed where it could only look seems to have wanted more. The words are its own: a
/// reason to explain, and no proof.
fn wanted_more(printed: &CommandOutput, refused: &[ConfinementRefusal]) -> bool {
    let told = |text: &str| KEPT_FROM.iter().any(|words| text.contains(words));
    !refused.is_empty() || told(&printed.head) || told(&printed.tail)
}

/// Whether a command that names this machine seems to have found nobody there.
fn wanted_own_port(exit: &ProcessExit, printed: &CommandOutput, facts: &RunFacts<'_>) -> bool {
    let told = |text: &str| NOBODY_THERE.iter().any(|words| text.contains(words));
    // What curl ends with, however silent.
    let silent = *exit == ProcessExit::Code(7);
    (silent || told(&printed.head) || told(&printed.tail))
        && reached_hosts(facts.analysis).any(|host| is_this_machine(&host))
}

fn is_this_machine(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.starts_with("127.") || name == "[::1]"
}

/// How programs say that nobody listens.
const NOBODY_THERE: [&str; 3] = ["onnection refused", "ould not connect", "ECONNREFUSED"];

const OWN_PORT: &str = "`localhost` is this session's own network, where servers that a task of it started are reached; \
                        `localhost:PORT` in `sandbox.network.allowedDomains` opens a port of the user's machine";

const LEFT_RUNNING: &str =
    "what it left running with `&` was ended with it; to let something go on set `run_in_background`";

const ONLY_LOOKED: &str = "it was taken for a command that only looks, so it ran where nothing can be written and no host \
                           reached";

/// What hooks see of it.
fn hook_response(printed: &CommandOutput, interrupted: bool) -> Value {
    let mut response =
        json!({"stdout": whole_text(printed), "stderr": "", "interrupted": interrupted, "isImage": false});
    if let Some(kept) = &printed.kept {
        response["persistedOutputPath"] = kept.path().display().to_string().into();
        response["persistedOutputSize"] = kept.held_bytes().into();
    }
    response
}

/// What hooks see of a command that goes on in the background.
pub(crate) fn background_response(stdout: &str, task: &str) -> Value {
    json!({"stdout": stdout, "stderr": "", "interrupted": false, "isImage": false, "backgroundTaskId": task})
}

/// The command as a title.
pub(crate) fn command_title(command: &str) -> String {
    format!("$ {}", command.trim())
}

fn command_view(command: &str, exit: &ProcessExit, printed: &CommandOutput) -> CallView {
    let text = if printed.tail.is_empty() { &printed.head } else { &printed.tail };
    let lines = if printed.is_whole() {
        printed.head.lines().count()
    } else {
        printed.kept.as_ref().map_or(0, |_| usize::MAX)
    };
    let size = match lines {
        0 => "no output".to_owned(),
        1 => "1 line".to_owned(),
        usize::MAX => format!("{} bytes", printed.bytes),
        lines => format!("{lines} lines"),
    };
    let summary = match exit {
        ProcessExit::Code(0) => size,
        ProcessExit::Code(code) => format!("exit code {code}, {size}"),
        _ => size,
    };
    with_tail(CallView::titled(command_title(command)).summary(summary), text)
}

/// The view with the last lines of a text.
pub(crate) fn with_tail(view: CallView, text: &str) -> CallView {
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return view;
    }
    let mut shown = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
    if lines.len() > LINES_SHOWN {
        shown.insert_str(0, &format!("… {} lines before\n", lines.len() - LINES_SHOWN));
    }
    view.with(ViewPart::Code { language: None, text: shown })
}
