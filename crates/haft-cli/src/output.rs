//! Everything that is written: results to standard output, everything else to standard error.
//!
//! Nothing else in this crate writes. Words for people never carry control characters: a file's name, or a
//! tool's output on a terminal, must not be able to move the cursor, recolour a question or hide a part of
//! it.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};

use haft::text::truncate_chars;
use haft::view::escape_invisible;
use haft_session::{NoticeSink, SessionNotice};
use haft_terminal::OutputMode;

use crate::ExitStatus;

/// How much of a panic's message is shown.
const PANIC_CHARS_MAX: usize = 200;

/// Takes the line back that shows progress, and the cursor to its start.
const CLEAR: &str = "\r\x1b[K";

/// The most of a line of progress: one that wraps could not be taken back.
const PROGRESS_CHARS_MAX: usize = 79;

/// Whether a line of progress is shown that has to be taken back.
static PROGRESS: AtomicBool = AtomicBool::new(false);

/// Shows how far something is, in place of what was shown so before; only on a terminal that can take a line
/// back, and nowhere that lines are kept.
pub(crate) fn show_progress(words: &str) {
    let mut err = io::stderr().lock();
    let fit = OutputMode::for_environment(|name| std::env::var(name).ok(), err.is_terminal());
    if matches!(fit, OutputMode::Live(_)) {
        let line = one_line(words);
        let line = truncate_chars(&line, PROGRESS_CHARS_MAX);
        PROGRESS.store(true, Ordering::Relaxed);
        let _ = err.write_all(format!("{CLEAR}{line}").as_bytes());
    }
}

/// JSON as a result. What a terminal would obey or hide is escaped, which means the same to every reader of
/// JSON.
pub(crate) fn format_json(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_string(value).expect("results have text keys");
    let is_hidden = |c: char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    if !json.contains(is_hidden) {
        return json;
    }
    let mut text = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_hidden(c) { text.push_str(&format!("\\u{:04x}", u32::from(c))) } else { text.push(c) }
    }
    text
}

/// Takes the progress back.
pub(crate) fn end_progress() {
    let mut err = io::stderr().lock();
    if PROGRESS.swap(false, Ordering::Relaxed) {
        let _ = err.write_all(CLEAR.as_bytes());
    }
}

/// Who reads a result, for the case that they leave before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputReader {
    /// Somebody who may stop when they have seen enough, as `head` does: a part is what they wanted.
    Sampler,
    /// A program that needs all of it: calls ran, and what they did is known by this text alone.
    Whole,
}

/// Writes a result and its final line break to standard output; empty text writes nothing.
///
/// What could not be written is said and is the program's failure. A reader who has a part and closed the
/// pipe may have had enough; one who took nothing was never there.
pub(crate) fn write_result(text: &str, reader: OutputReader) -> Result<(), ExitStatus> {
    if text.is_empty() {
        return Ok(());
    }
    let out = io::stdout().lock();
    let shown = if out.is_terminal() { escape_invisible(text) } else { Cow::Borrowed(text) };
    let end: &[u8] = if shown.ends_with('\n') { b"" } else { b"\n" };
    let written = write_all(&out, shown.as_bytes());
    match written.and_then(|()| write_all(&out, end).map_err(|(error, _)| (error, true))) {
        Ok(()) => Ok(()),
        Err((error, begun)) => write_failure(&error, begun, reader),
    }
}

/// Writes a part of a result to standard output as it is.
pub(crate) fn write_bytes(bytes: &[u8]) -> io::Result<()> {
    write_all(&io::stdout().lock(), bytes).map_err(|(error, _)| error)
}

/// Writes past the buffer of the standard library, which doesn't tell how much was taken: an error says
/// whether anything was.
fn write_all(out: &io::StdoutLock<'_>, bytes: &[u8]) -> Result<(), (io::Error, bool)> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::write(out, rest)) {
            Ok(0) => return Err((io::ErrorKind::WriteZero.into(), rest.len() < bytes.len())),
            Ok(count) => rest = &rest[count..],
            Err(error) => return Err((error.into(), rest.len() < bytes.len())),
        }
    }
    Ok(())
}

fn write_failure(error: &io::Error, begun: bool, reader: OutputReader) -> Result<(), ExitStatus> {
    if error.kind() == io::ErrorKind::BrokenPipe && begun && reader == OutputReader::Sampler {
        return Ok(());
    }
    let reason = match error.kind() {
        io::ErrorKind::BrokenPipe => "its reader is gone".to_owned(),
        _ => error.to_string(),
    };
    self::print_error(&format!("standard output can't be written: {reason}"));
    Err(ExitStatus::Failed)
}

/// Says why nothing was run, in the form of clap's own errors.
pub(crate) fn print_error(words: &str) {
    print_line(&format!("error: {words}"));
}

/// Says something that should be looked at.
pub(crate) fn print_warning(words: &str) {
    print_line(&format!("warning: {words}"));
}

/// Writes the notices of a session.
pub(crate) fn notice_sink() -> NoticeSink {
    NoticeSink::new(|notice| match notice {
        SessionNotice::Progress(text) => show_progress(&text),
        SessionNotice::ProgressEnded => end_progress(),
        notice => print_line(&notice.to_string()),
    })
}

/// Writes words and a line break to standard error.
pub(crate) fn print_line(words: &str) {
    print_text(&format!("{words}\n"));
}

/// Writes words to standard error. There is nobody to tell if that fails.
pub(crate) fn print_text(words: &str) {
    // Where a screen is open, words go above its live part.
    if haft_terminal::show(words) {
        return;
    }
    end_progress();
    let _ = io::stderr().lock().write_all(escape_invisible(words).as_bytes());
}

/// The text on one line, with nothing in it that a terminal obeys.
pub(crate) fn one_line(text: &str) -> String {
    haft::view::visible_line(text)
}

/// Says a panic in one line: its result says the rest, and a backtrace helps nobody who can't build the
/// program.
pub(crate) fn report_panic(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let message = payload.downcast_ref::<&str>().copied();
    let message =
        message.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
    print_line(&panic_line(message, place.as_deref().unwrap_or_default()));
}

fn panic_line(message: &str, place: &str) -> String {
    let line = one_line(message);
    let line = truncate_chars(&line, PANIC_CHARS_MAX);
    format!("haft: panicked: {line}{place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_one_short_line() {
        assert_eq!(
            panic_line("two\nlines\x1b[0m", " (a.rs:3)"),
            "haft: panicked: two\\nlines\\u{1b}[0m (a.rs:3)"
        );
        assert!(panic_line(&"x".repeat(5_000), "").len() < 300);
    }
}
