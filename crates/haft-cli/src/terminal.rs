//! Asking the user at the terminal.
//!
//! Questions go to standard error, answers come from standard input, one line each; without both being
//! terminals there is nobody to ask. Calls that ask at once queue. What was typed before a question was shown
//! is thrown away: it was no answer to it. Only a clear yes is a yes; nothing, the end of the input and
//! anything unclear are a no.

use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haft::Effects;
use haft::future::BoxFuture;
use haft::ports::{ApprovalAnswer, ApprovalRequest, Asker, UserQuestion};
use haft::text::truncate_chars;
use haft::view::ViewPart;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{QueueSelector, tcflush};
use serde_json::Value;
use tokio::sync::{Mutex, oneshot};

use crate::output::{self, one_line};

/// How much of an input is shown.
const INPUT_CHARS_MAX: usize = 2_000;
/// How many lines of a change or a text are shown.
const LINES_MAX: usize = 60;
/// How many unclear answers are heard before they count as a no.
const TRIES_MAX: usize = 3;
/// The longest line that is taken.
const LINE_BYTES_MAX: usize = 1024 * 1024;

const KEYS: &str = "y once   n no   r no, because …   e edit the input";
/// Where an answer can become a rule.
const LASTING_KEYS: &str =
    "y once   s for this session   a always   n no   r no, because …   e edit the input";

/// The user at the terminal.
pub(crate) struct TerminalUser {
    cwd: Arc<Path>,
    /// Held for as long as a question is on the screen.
    console: Mutex<Box<dyn UserConsole>>,
}

/// Screen and keyboard.
trait UserConsole: Send + Sync {
    fn show(&self, words: &str);

    /// Shows a prompt and returns the line that is typed after it; nothing at the end of the input.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait; what is typed later belongs to the next question.
    fn line<'a>(&'a self, prompt: &'a str) -> BoxFuture<'a, Option<String>>;
}

/// Opens the terminal for a session, if the program runs at one.
pub(crate) struct TerminalSource;

impl haft_session::AskerSource for TerminalSource {
    fn open(&self, cwd: &Path) -> Option<Arc<dyn Asker>> {
        Some(Arc::new(TerminalUser::open(cwd)?))
    }
}

impl TerminalUser {
    /// The terminal, if there is one.
    pub(crate) fn open(cwd: &Path) -> Option<TerminalUser> {
        has_user().then(|| TerminalUser::on(StandardStreams, cwd))
    }

    fn on(console: impl UserConsole + 'static, cwd: &Path) -> TerminalUser {
        TerminalUser { cwd: cwd.into(), console: Mutex::new(Box::new(console)) }
    }
}

impl Asker for TerminalUser {
    fn approve<'a>(&'a self, approval: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let console = self.console.lock().await;
            console.show(&approval_question(approval, &self.cwd));
            let lasting = !approval.lasting_rules.is_empty();
            let keys = if lasting { LASTING_KEYS } else { KEYS };
            for _ in 0..TRIES_MAX {
                let prompt = format!("  allow this call?   {keys}   [n] ");
                let Some(line) = console.line(&prompt).await else { return ApprovalAnswer::No };
                match PromptReply::read(&line) {
                    PromptReply::Answer(ApprovalAnswer::Session | ApprovalAnswer::Always) if !lasting => {
                        console.show("  no rule can be made of this call; y, n, r or e is an answer\n");
                    }
                    PromptReply::Answer(answer) => return answer,
                    PromptReply::WantsReason => {
                        let reason = non_empty_line(&**console, "  because: ").await;
                        return reason.map_or(ApprovalAnswer::No, ApprovalAnswer::NoBecause);
                    }
                    PromptReply::WantsInput => {
                        let text = non_empty_line(&**console, "  new input, as JSON on one line: ").await;
                        match text.map(|text| serde_json::from_str::<Value>(&text)) {
                            None => {}
                            Some(Ok(input)) => return ApprovalAnswer::Edit(input),
                            Some(Err(error)) => console.show(&format!("  that is not JSON: {error}\n")),
                        }
                    }
                    PromptReply::Unclear if lasting => console.show("  y, s, a, n, r or e is an answer\n"),
                    PromptReply::Unclear => console.show("  y, n, r or e is an answer\n"),
                }
            }
            console.show("  taken as a no\n");
            ApprovalAnswer::No
        })
    }

    fn question<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(async move {
            let console = self.console.lock().await;
            console.show(&describe_choices(question));
            for _ in 0..TRIES_MAX {
                let line = non_empty_line(&**console, "  > ").await?;
                match parse_choice(question, &line) {
                    Some(answers) => return Some(answers),
                    None => console.show("  give the number of a choice\n"),
                }
            }
            None
        })
    }
}

/// What a line means.
#[derive(Debug, PartialEq)]
enum PromptReply {
    Answer(ApprovalAnswer),
    WantsReason,
    WantsInput,
    Unclear,
}

impl PromptReply {
    fn read(line: &str) -> PromptReply {
        let line = line.trim();
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match (key.to_ascii_lowercase().as_str(), rest) {
            ("", _) | ("n" | "no", "") => PromptReply::Answer(ApprovalAnswer::No),
            ("y" | "yes", "") => PromptReply::Answer(ApprovalAnswer::Once),
            ("s", "") => PromptReply::Answer(ApprovalAnswer::Session),
            ("a", "") => PromptReply::Answer(ApprovalAnswer::Always),
            ("r", "") => PromptReply::WantsReason,
            ("r", reason) => PromptReply::Answer(ApprovalAnswer::NoBecause(reason.to_owned())),
            ("e", "") => PromptReply::WantsInput,
            _ => PromptReply::Unclear,
        }
    }
}

/// What the user is shown of a call, line by line. Everything in it that others wrote stays on its line.
fn approval_question(approval: &ApprovalRequest, cwd: &Path) -> String {
    approval_text(approval, cwd, "always")
}

/// The same where the answer that makes rules is called otherwise.
pub(crate) fn approval_text(approval: &ApprovalRequest, cwd: &Path, lasting: &str) -> String {
    let mut shown = format!("? {}   {}\n", approval.tool, relative_title(&approval.view.title, cwd));
    let mut row = |name: &str, words: &str| shown.push_str(&format!("    {name:9} {}\n", one_line(words)));
    if let Some(agent) = &approval.agent {
        row("agent", agent);
    }
    if approval.again {
        row("changed", "what it touches is not what it was when you said yes");
    }
    if let Some(description) = &approval.description {
        row("does", description);
    }
    row("input", &shorten_text(&approval.input.to_string()));
    row("effects", &shorten_text(&describe_effects(&approval.effects)));
    for warning in approval.warnings() {
        row("CAREFUL", &warning.to_string());
    }
    if approval.unconfined && approval.effects.unknown {
        row("believed", "nothing confines this tool, and it doesn't say what it touches");
    } else if approval.unconfined {
        row("believed", "nothing confines the program that it runs: it can do more than it says");
    }
    row("why", &approval.reason());
    for (at, rules) in approval.lasting_lines().iter().enumerate() {
        row(if at == 0 { lasting } else { "" }, rules);
    }
    if let (Some(words), []) = (&approval.proposed_rule, &*approval.lasting_rules) {
        row("to allow", words);
    }
    for part in &approval.view.body {
        push_part(part, &mut shown);
    }
    shown
}

/// What a call touches, and after its commands what they touch, as far as that is known.
fn describe_effects(effects: &Effects) -> String {
    let mut shown = effects.to_string();
    let mut known: Vec<String> = Vec::new();
    for inner in command_effects(effects).filter(|inner| !inner.is_none()) {
        for part in inner.to_string().split(" · ") {
            if !known.iter().any(|known| known == part) {
                known.push(part.to_owned());
            }
        }
    }
    for part in known {
        shown.push_str(" · ");
        shown.push_str(&part);
    }
    shown
}

/// What the commands of a call touch.
fn command_effects(effects: &Effects) -> impl Iterator<Item = &Effects> {
    effects.runs.iter().filter_map(|command| command.effects.as_deref())
}

fn push_part(part: &ViewPart, shown: &mut String) {
    let lines: Vec<String> = match part {
        ViewPart::Text { text } | ViewPart::Code { text, .. } => text.lines().map(one_line).collect(),
        ViewPart::Diff { lines, .. } => lines
            .iter()
            .map(|line| format!("{:5} {} {}", line.number, line.change.sign(), one_line(&line.text)))
            .collect(),
        _ => Vec::new(),
    };
    for line in lines.iter().take(LINES_MAX) {
        shown.push_str(&format!("    | {line}\n"));
    }
    if lines.len() > LINES_MAX {
        shown.push_str(&format!("    | … {} more lines\n", lines.len() - LINES_MAX));
    }
}

/// A title that is a path inside, as it is seen from the working directory.
fn relative_title(title: &str, cwd: &Path) -> String {
    let inside = Path::new(title).strip_prefix(cwd).ok().filter(|rest| !rest.as_os_str().is_empty());
    one_line(&inside.map_or_else(|| title.to_owned(), |path| path.display().to_string()))
}

fn shorten_text(text: &str) -> String {
    let kept = truncate_chars(text, INPUT_CHARS_MAX);
    if kept.len() < text.len() {
        format!("{kept}… (cut; {} characters)", text.chars().count())
    } else {
        text.to_owned()
    }
}

fn describe_choices(question: &UserQuestion) -> String {
    let mut shown = String::new();
    for (at, line) in question.text.lines().enumerate() {
        shown.push_str(&format!("{} {}\n", if at == 0 { "?" } else { "   " }, one_line(line)));
    }
    for (at, choice) in question.choices.iter().enumerate() {
        let what = choice.description.as_deref().map(|text| format!("   {}", one_line(text)));
        shown.push_str(&format!("    {} {}{}\n", at + 1, one_line(&choice.label), what.unwrap_or_default()));
    }
    if question.several {
        shown.push_str("  several can be chosen, with a comma between them\n");
    }
    shown
}

/// The labels of the numbers in a line, or the line itself where nothing has to be chosen.
fn parse_choice(question: &UserQuestion, line: &str) -> Option<Vec<String>> {
    if question.choices.is_empty() {
        return Some(vec![line.to_owned()]);
    }
    let label = |number: &str| {
        let at = number.trim().parse::<usize>().ok()?.checked_sub(1)?;
        question.choices.get(at).map(|choice| choice.label.clone())
    };
    let labels: Option<Vec<String>> = line.split(',').map(label).collect();
    labels.filter(|labels| question.several || labels.len() == 1)
}

/// A line with something on it.
async fn non_empty_line(console: &dyn UserConsole, prompt: &str) -> Option<String> {
    console.line(prompt).await.map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

/// Asks for a yes or no where no runtime is needed for it; nothing if there is no terminal. Only a clear yes
/// is a yes.
pub(crate) fn ask_confirmation(prompt: &str) -> Option<bool> {
    if !has_user() {
        return None;
    }
    let (stopped, _keep) = io::pipe().ok()?;
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    output::print_text(prompt);
    let line = wait_for_line(&stopped).unwrap_or_default();
    Some(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Whether questions can be shown and answers typed.
pub(crate) fn has_user() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Standard error and standard input, which are terminals.
struct StandardStreams;

impl UserConsole for StandardStreams {
    fn show(&self, words: &str) {
        output::print_text(words);
    }

    /// Waits on a thread of its own: a terminal can't be waited for otherwise without a runtime that polls
    /// it.
    fn line<'a>(&'a self, prompt: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            // Whatever was typed so far was no answer to what comes now.
            let _ = tcflush(io::stdin(), QueueSelector::IFlush);
            output::print_text(prompt);
            let (stopped, stop) = io::pipe().ok()?;
            let (send, answer) = oneshot::channel();
            let wait = move || {
                let _ = send.send(wait_for_line(&stopped));
            };
            std::thread::Builder::new().name("haft-terminal".into()).spawn(wait).ok()?;
            let waiting = PendingLine::begin(stop);
            let line = answer.await.ok().flatten();
            waiting.answered();
            line
        })
    }
}

/// Shows a prompt and returns the line that the user types.
///
/// # Cancel safety
/// Dropping the future ends the wait; what is typed later belongs to the next question.
pub(crate) async fn read_line(prompt: &str) -> Option<String> {
    StandardStreams.line(prompt).await
}

/// Whether a line on the screen waits for its answer.
static WAITS: AtomicBool = AtomicBool::new(false);

/// Ends the line that waits for an answer, if there is one: the program ends, and what comes next begins a
/// line.
pub(crate) fn cancel_line() {
    if WAITS.swap(false, Ordering::Relaxed) {
        output::print_text("\n");
    }
}

/// Ends the thread that waits, by closing the pipe, and the line on the screen.
struct PendingLine {
    _stop: io::PipeWriter,
}

impl PendingLine {
    fn begin(stop: io::PipeWriter) -> PendingLine {
        WAITS.store(true, Ordering::Relaxed);
        PendingLine { _stop: stop }
    }

    fn answered(self) {
        WAITS.store(false, Ordering::Relaxed);
    }
}

impl Drop for PendingLine {
    fn drop(&mut self) {
        if WAITS.swap(false, Ordering::Relaxed) {
            output::print_text("\n  (no longer asked)\n");
        }
    }
}

fn wait_for_line(stopped: &io::PipeReader) -> Option<String> {
    let stdin = io::stdin();
    let mut line = Vec::new();
    loop {
        let mut ready = [
            PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
            Ok(_) => {}
        }
        if !ready[1].revents().is_empty() {
            return None;
        }
        // Not through a buffer: what is after the line stays in the terminal, where it can be thrown away.
        let mut bytes = [0; 4096];
        match rustix::io::read(&stdin, &mut bytes) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) | Ok(0) => return None,
            Ok(count) => line.extend_from_slice(&bytes[..count]),
        }
        if line.contains(&b'\n') || line.len() > LINE_BYTES_MAX {
            let text = String::from_utf8_lossy(&line);
            return text.lines().next().map(str::to_owned);
        }
    }
}

#[cfg(test)]
mod tests;
