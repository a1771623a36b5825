//! A run as plain lines: what pipes, CI and simple terminals get.
//!
//! A line is written when something is over, never rewritten. What the model says between its calls goes to
//! standard error with them; its last words are the result and go to standard output.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use haft::event::EventKind;
use haft::sync::lock;
use haft::text::{truncate_chars, truncate_with_ellipsis};
use haft::view::{CallProgress, ViewPart};
use haft::{ErrorKind, ToolResult};
use haft_agent::{ReplyDelta, RunEvent, RunOutcome, RunSink, StopReason};
use haft_terminal::thousands;

use crate::ExitStatus;
use crate::output::{self, OutputReader, one_line};
use haft_session::run::prompt::relative_path;

/// How many lines of what a call shows are printed.
const BODY_LINES_MAX: usize = 6;
/// How many lines of a change are printed.
const DIFF_LINES_MAX: usize = 40;
/// How wide a line of it is at most, in characters.
const BODY_CHARS_MAX: usize = 160;
/// The columns of a call's line.
const NAME_WIDTH: usize = 6;
const TITLE_WIDTH: usize = 38;
const SUMMARY_WIDTH: usize = 24;

/// A run as plain lines.
pub(crate) struct PlainOutput {
    cwd: PathBuf,
    began: Instant,
    said: Mutex<UnshownText>,
}

/// What the model said and nobody was shown yet.
#[derive(Default)]
struct UnshownText {
    text: String,
    /// The tools that were named as left out.
    left_out: bool,
    /// Words of the user so far; the first are known to whoever said them.
    prompts: usize,
}

impl PlainOutput {
    pub(super) fn new(cwd: &Path) -> PlainOutput {
        PlainOutput { cwd: cwd.to_owned(), began: Instant::now(), said: Mutex::default() }
    }

    fn said<T>(&self, change: impl FnOnce(&mut UnshownText) -> T) -> T {
        change(&mut lock(&self.said))
    }

    /// Shows what the model said so far as words between calls.
    fn flush(&self) {
        let text = self.said(|said| std::mem::take(&mut said.text));
        let mut lines = text.trim().lines();
        if let Some(first) = lines.next() {
            output::print_line(&format!("\n● {first}"));
            lines.for_each(|line| output::print_line(format!("  {line}").trim_end()));
        }
    }

    fn delta(&self, delta: &ReplyDelta) {
        match delta {
            ReplyDelta::Text(text) => self.said(|said| said.text.push_str(text)),
            // What is shown of a call comes after what was said before it.
            ReplyDelta::CallBegun { .. } => self.flush(),
            ReplyDelta::Restarted => self.said(|said| said.text.clear()),
            ReplyDelta::Retrying { failure, attempt, wait } => output::print_line(&format!(
                "  … {}; asked again in {:.1} s (attempt {attempt})",
                one_line(&failure.to_string()),
                wait.as_secs_f64()
            )),
            _ => {}
        }
    }

    /// The answer on standard output, what it took on standard error.
    pub(super) fn end(&self, outcome: &RunOutcome) -> Result<(), ExitStatus> {
        output::end_progress();
        let text = self.said(|said| std::mem::take(&mut said.text));
        if !text.trim().is_empty() {
            output::print_line("");
        }
        let written = output::write_result(text.trim(), OutputReader::Sampler);
        output::print_line(&format!("\n{}", summarize_run(outcome, self.began.elapsed())));
        written
    }
}

impl RunSink for PlainOutput {
    fn send(&self, event: RunEvent) {
        match &event {
            RunEvent::Asked { left_out, .. } => {
                self.flush();
                if !left_out.is_empty() && !self.said(|said| std::mem::replace(&mut said.left_out, true)) {
                    output::print_warning(&format!(
                        "the provider can't take these tools: {}",
                        left_out.join(", ")
                    ));
                }
            }
            RunEvent::Model(delta) => self.delta(delta),
            RunEvent::Replied { stop: StopReason::Calls, .. } => self.flush(),
            RunEvent::Tool(tool) => match &tool.what {
                EventKind::Finished(result) => {
                    output::end_progress();
                    output::print_line(&render_call(result, &self.cwd));
                }
                EventKind::BackgroundFinished(result) => {
                    output::print_line(&format!("{}   in the background", render_call(result, &self.cwd)));
                }
                _ => print_notice(&event),
            },
            RunEvent::Agent { agent, event: inner, .. } => match &**inner {
                RunEvent::Tool(tool) => match &tool.what {
                    EventKind::Finished(result) => {
                        output::end_progress();
                        output::print_line(&of_agent(agent, &render_call(result, &self.cwd)));
                    }
                    EventKind::BackgroundFinished(result) => {
                        let line = format!("{}   in the background", render_call(result, &self.cwd));
                        output::print_line(&of_agent(agent, &line));
                    }
                    _ => print_notice(&event),
                },
                _ => print_notice(&event),
            },
            RunEvent::Said(words) => {
                let at = self.said(|said| {
                    said.prompts += 1;
                    said.prompts
                });
                if at > 1 {
                    self.flush();
                    output::print_line(&format!("\n» {}", one_line(words)));
                }
            }
            _ => print_notice(&event),
        }
    }
}

/// What is said of an event in every form: that something is doubtful, or has to be waited for.
pub(super) fn print_notice(event: &RunEvent) {
    match event {
        RunEvent::Finishing { tools } => {
            let tools = tools.join(", ");
            output::print_line(&format!("waiting for {tools} to finish; interrupt again to stop it"));
        }
        RunEvent::Cleared { results: 1 } => output::print_line("  … 1 old result was cleared to make room"),
        RunEvent::Cleared { results } => {
            output::print_line(&format!("  … {results} old results were cleared to make room"));
        }
        RunEvent::Summarised { .. } => {
            output::print_line("  … the conversation was replaced by a summary of it to make room");
        }
        RunEvent::Agent { agent, event, .. } => {
            if let RunEvent::Tool(event) = &**event {
                let tool = event.call.as_ref().map(|call| format!("{}: ", call.tool)).unwrap_or_default();
                match &event.what {
                    EventKind::Warning(words) => output::print_warning(&format!("{agent}: {tool}{words}")),
                    EventKind::Message(words) => output::print_line(&format!("{agent}: {tool}{words}")),
                    _ => {}
                }
            }
        }
        RunEvent::Tool(event) => {
            let tool = event.call.as_ref().map(|call| format!("{}: ", call.tool)).unwrap_or_default();
            match &event.what {
                EventKind::Warning(words) => output::print_warning(&format!("{tool}{words}")),
                EventKind::Message(words) => output::print_line(&format!("{tool}{words}")),
                EventKind::BlocksThread { since } => {
                    output::print_warning(&format!(
                        "{tool}keeps a thread busy since {} ms",
                        since.as_millis()
                    ));
                }
                EventKind::Progress(CallProgress { fraction, message }) => {
                    let percent = fraction.map(|fraction| format!("{:.0} % ", fraction * 100.0));
                    let (percent, message) =
                        (percent.unwrap_or_default(), message.as_deref().unwrap_or_default());
                    output::show_progress(&format!("{tool}{percent}{message}"));
                }
                EventKind::Finished(_) => output::end_progress(),
                _ => {}
            }
        }
        _ => {}
    }
}

/// Lines of a call under the name of the agent that made it.
fn of_agent(agent: &str, lines: &str) -> String {
    let mut lines = lines.lines();
    let first = format!("    {} {}", one_line(agent), lines.next().unwrap_or_default().trim_start());
    std::iter::once(first).chain(lines.map(|line| format!("    {line}"))).collect::<Vec<_>>().join("\n")
}

/// A call that is over, and what came of it.
fn render_call(result: &ToolResult, cwd: &Path) -> String {
    let view = result.view();
    let mark = if result.is_error() { '✗' } else { '✓' };
    let title = one_line(&relative_path(Path::new(&view.title), cwd).display().to_string());
    let title = shorten_text(&title, TITLE_WIDTH);
    let summary = match result.error_kind() {
        Some(kind) => went_wrong(kind).to_owned(),
        None => shorten_text(&one_line(&view.summary.unwrap_or_default()), SUMMARY_WIDTH),
    };
    let name = result.tool_name();
    let mut shown = format!("  {mark} {name:NAME_WIDTH$} {title:TITLE_WIDTH$} {summary:SUMMARY_WIDTH$}");
    if !result.duration().is_zero() {
        shown.push_str(&format!(" {:>7}", format_duration(result.duration())));
    }
    if result.was_concurrent() {
        shown.push_str("   beside others");
    }
    shown.truncate(shown.trim_end().len());
    match result.error() {
        Some(error) => {
            fold_lines(error.message().lines().map(str::to_owned).collect(), BODY_LINES_MAX, &mut shown)
        }
        None => view.body.iter().for_each(|part| push_part(part, &mut shown)),
    }
    if let Some(path) = result.offloaded_to() {
        shown.push_str(&format!("\n      too long for the model; the whole is in {}", path.display()));
    }
    shown
}

/// A change as its lines; other parts are folded more tightly.
fn push_part(part: &ViewPart, shown: &mut String) {
    let lines: Vec<String> = match part {
        ViewPart::Diff { lines, .. } => lines
            .iter()
            .map(|line| format!("{:5} {} {}", line.number, line.change.sign(), line.text))
            .collect(),
        ViewPart::Text { text } | ViewPart::Code { text, .. } => {
            text.lines().map(|line| format!("| {line}")).collect()
        }
        _ => Vec::new(),
    };
    let most = if matches!(part, ViewPart::Diff { .. }) { DIFF_LINES_MAX } else { BODY_LINES_MAX };
    fold_lines(lines, most, shown);
}

/// Lines beneath a call; of too many the middle is left out.
fn fold_lines(lines: Vec<String>, most: usize, shown: &mut String) {
    let left_out = lines.len().saturating_sub(most);
    // One line that says that one line is left out takes as much room as the line.
    let (left_out, head) = if left_out > 1 { (left_out + 1, most / 2) } else { (0, lines.len()) };
    for (at, line) in lines.iter().enumerate() {
        if at == head && left_out > 0 {
            shown.push_str(&format!("\n      … {left_out} lines"));
        }
        if at < head || at >= head + left_out {
            let cut = truncate_chars(line, BODY_CHARS_MAX);
            shown.push_str(&format!("\n      {}", cut.trim_end()));
        }
    }
}

/// What went wrong, in a word or two; the words of the error follow.
fn went_wrong(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::UnknownTool => "no such tool",
        ErrorKind::InvalidInput => "invalid input",
        ErrorKind::Denied => "denied",
        ErrorKind::Rejected => "you said no",
        ErrorKind::Blocked => "blocked by a hook",
        ErrorKind::HookFailed => "a hook failed",
        ErrorKind::TimedOut => "took too long",
        ErrorKind::Cancelled => "cancelled",
        ErrorKind::NotInteractive => "needs a user",
        _ => "failed",
    }
}

/// The text in at most so many characters: the end of a path says more than its beginning.
fn shorten_text(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    if text.contains(' ') {
        truncate_with_ellipsis(text, width - 1)
    } else {
        std::iter::once('…').chain(text.chars().skip(count - width + 1)).collect()
    }
}

fn format_duration(duration: Duration) -> String {
    match duration.as_millis() {
        ms if ms < 10_000 => format!("{ms} ms"),
        ms => format!("{} s", ms / 1_000),
    }
}

/// What a run took, on one line.
fn summarize_run(outcome: &RunOutcome, elapsed: Duration) -> String {
    let many = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        more => format!("{} {one}s", thousands(more as u64)),
    };
    let mut parts = vec![many(outcome.turns as usize, "turn"), many(outcome.calls.len(), "call")];
    let denied = outcome.denials().count();
    if denied > 0 {
        parts.push(format!("{denied} denied"));
    }
    let usage = &outcome.usage;
    let cached = match usage.cache_read_tokens {
        0 => String::new(),
        cached => format!(" ({} cached)", thousands(cached)),
    };
    parts.push(format!(
        "{} tokens in{cached}, {} out",
        thousands(usage.input_tokens),
        thousands(usage.output_tokens)
    ));
    if let Some(cost) = outcome.cost {
        parts.push(format!("cost {cost:.4}"));
    }
    parts.push(format!("{:.1} s", elapsed.as_secs_f64()));
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_short() {
        assert_eq!(shorten_text("src/very/long/path.rs", 10), "…g/path.rs");
        assert_eq!(shorten_text("cargo test --all", 10), "cargo tes…");
        assert_eq!(shorten_text("short", 10), "short");
    }

    #[test]
    fn the_middle_of_much_is_left_out() {
        let fold = |count: usize| {
            let mut shown = String::new();
            fold_lines((1..=count).map(|n| n.to_string()).collect(), 6, &mut shown);
            shown.lines().skip(1).map(|line| line.trim().to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(fold(6), "1 2 3 4 5 6");
        assert_eq!(fold(7), "1 2 3 4 5 6 7");
        assert_eq!(fold(8), "1 2 3 … 3 lines 7 8");
        assert_eq!(fold(20), "1 2 3 … 15 lines 19 20");
    }
}
