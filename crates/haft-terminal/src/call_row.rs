//! The line of a call: its subject, its progress, its result.
//!
//! Neighbouring lines share their columns, and a bracket joins calls that ran concurrently. The
//! content is the tool's view; no tool is known by name.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft::view::{CallProgress, CallView};
use haft::{ErrorKind, ToolResult};

use crate::folded_lines::{self, FoldedLines, fold_body};
use crate::limits::{DIFF_LINES, REASON_LINES, RESULT_LINES, ROW_COLUMNS_MAX, WRITING_LINES};
use crate::partial_input::PartialInput;
use crate::style::{Line, Style};
use crate::text;

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// The width of a progress bar.
const BAR_COLUMNS: usize = 10;
/// The preferred width of a title, so that lines that are printed separately are aligned too.
const TITLE_COLUMNS: usize = 26;
/// The width of the duration.
const TIME_COLUMNS: usize = 8;
/// The width of a bracket with its label.
const BRACKET_COLUMNS: usize = 13;

/// A call on the screen.
#[derive(Debug)]
pub(crate) struct CallRow {
    pub(crate) agent: Arc<str>,
    pub(crate) turn: u64,
    /// The index in the turn, once the call is complete.
    pub(crate) index: Option<usize>,
    /// The number in the message, if the model was seen writing the call.
    pub(crate) number: Option<usize>,
    /// The id of the call.
    pub(crate) id: Arc<str>,
    pub(crate) tool: String,
    pub(crate) view: CallView,
    pub(crate) state: CallState,
    /// The start of the current state.
    pub(crate) since: Instant,
    /// The start and end of the run, counted in events: overlapping calls ran concurrently.
    pub(crate) run_span: Option<(u64, Option<u64>)>,
    pub(crate) progress: CallProgress,
    /// The last line of the output so far.
    pub(crate) last_output: Option<String>,
    /// The error message, if the call failed.
    pub(crate) reason: Option<String>,
}

#[derive(Debug)]
pub(crate) enum CallState {
    /// The model is writing the input.
    Writing(PartialInput),
    /// The call is queued.
    Waiting,
    /// The user is being asked.
    Asking,
    Running,
    Done {
        mark: ResultMark,
        took: Duration,
        offloaded: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultMark {
    Good,
    Failed,
    /// A rule, a hook or the user refused the call.
    Refused,
    Cancelled,
}

impl ResultMark {
    pub(crate) fn for_result(result: &ToolResult) -> ResultMark {
        match result.error_kind() {
            None => ResultMark::Good,
            Some(ErrorKind::Denied | ErrorKind::Rejected | ErrorKind::Blocked) => ResultMark::Refused,
            Some(ErrorKind::Cancelled) => ResultMark::Cancelled,
            Some(_) => ResultMark::Failed,
        }
    }

    fn sign(self) -> (&'static str, Style) {
        match self {
            ResultMark::Good => ("✓", Style::SUCCESS),
            ResultMark::Failed => ("✗", Style::ERROR),
            ResultMark::Refused => ("⊘", Style::WARNING),
            ResultMark::Cancelled => ("–", Style::WARNING),
        }
    }
}

impl CallRow {
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, CallState::Done { .. })
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, CallState::Running)
    }

    pub(crate) fn finish(&mut self, result: &ToolResult, at: u64) {
        self.view = result.view();
        self.tool = result.tool_name().to_owned();
        self.reason = result.error().map(|error| error.message().to_owned());
        self.run_span = self.run_span.map(|(from, to)| (from, to.or(Some(at))));
        let offloaded = result.offloaded_to().is_some();
        self.state =
            CallState::Done { mark: ResultMark::for_result(result), took: result.duration(), offloaded };
    }
}

/// The column widths that lines share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SharedColumns {
    /// The whole screen.
    screen: usize,
    /// A call's line.
    line: usize,
    name: usize,
    title: usize,
    summary: usize,
}

impl SharedColumns {
    pub(crate) fn for_rows<'a>(
        rows: impl Iterator<Item = &'a CallRow>,
        screen: usize,
        cwd: &Path,
    ) -> SharedColumns {
        let (mut name, mut title) = (6, TITLE_COLUMNS);
        for row in rows {
            name = name.max(text::width(&row.tool).min(20));
            title =
                title.max(text::width(&text::sanitize(&folded_lines::relative_title(&row.view.title, cwd))));
        }
        let line = screen.min(ROW_COLUMNS_MAX);
        let bracket = if line >= 72 { BRACKET_COLUMNS } else { 2 };
        let middle = line.saturating_sub(4 + name + 2 + 2 + TIME_COLUMNS + bracket);
        let title = title.min(middle * 3 / 5).max(middle.min(12));
        SharedColumns { screen, line, name, title, summary: middle.saturating_sub(title) }
    }

    /// Returns the column where the duration ends.
    fn time_end(&self) -> usize {
        4 + self.name + 2 + self.title + 2 + self.summary + TIME_COLUMNS
    }
}

/// A row's part of a bracket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OverlapBracket {
    sign: &'static str,
    /// The number of concurrent calls, on one of the rows.
    count: Option<usize>,
}

/// Returns the brackets of the rows: those with overlapping runs share one.
pub(crate) fn brackets(rows: &[&CallRow]) -> Vec<Option<OverlapBracket>> {
    let mut brackets = vec![None; rows.len()];
    let mut from = 0;
    while from < rows.len() {
        let Some((_, mut end)) = run_span(rows[from]) else {
            from += 1;
            continue;
        };
        let mut to = from + 1;
        while let Some((_, ended)) = rows.get(to).and_then(|row| run_span(row)).filter(|run| run.0 < end) {
            end = end.max(ended);
            to += 1;
        }
        let size = to - from;
        let count = max_concurrent(&rows[from..to]);
        if count > 1 {
            for (at, bracket) in brackets[from..to].iter_mut().enumerate() {
                let sign = match at {
                    0 => "┐",
                    at if at + 1 == size => "┘",
                    _ => "│",
                };
                *bracket = Some(OverlapBracket { sign, count: (at == (size - 1) / 2).then_some(count) });
            }
        }
        from = to;
    }
    brackets
}

fn run_span(row: &CallRow) -> Option<(u64, u64)> {
    row.run_span.map(|(from, to)| (from, to.unwrap_or(u64::MAX)))
}

fn max_concurrent(rows: &[&CallRow]) -> usize {
    let runs: Vec<(u64, u64)> = rows.iter().filter_map(|row| run_span(row)).collect();
    let at = |when: u64| runs.iter().filter(|(from, to)| *from <= when && when < *to).count();
    runs.iter().map(|(from, _)| at(*from)).max().unwrap_or(1)
}

/// How rows are rendered.
pub(crate) struct RowLayout<'a> {
    pub(crate) columns: SharedColumns,
    pub(crate) cwd: &'a Path,
    pub(crate) now: Instant,
    /// The spinner's frame.
    pub(crate) spin: usize,
    /// Whether the body below the line is rendered.
    pub(crate) bodies: bool,
}

impl RowLayout<'_> {
    /// Renders a row with its body.
    pub(crate) fn row(&self, row: &CallRow, bracket: Option<OverlapBracket>) -> Vec<Line> {
        let columns = &self.columns;
        let indent = if &*row.agent == "main" { 2 } else { 4 };
        let mut line = Line::default();
        line.push_spaces(indent);
        let (sign, style) = match &row.state {
            CallState::Writing(_) => (SPINNER[self.spin % SPINNER.len()], Style::DIM),
            CallState::Waiting => ("·", Style::DIM),
            CallState::Asking => ("?", Style::PROMPT),
            CallState::Running => (SPINNER[self.spin % SPINNER.len()], Style::ACTIVITY),
            CallState::Done { mark, .. } => mark.sign(),
        };
        line.push(sign, style);
        line.push_spaces(1);
        line.append(&Line::from_text(&row.tool, Style::BOLD).truncate_to(columns.name));
        line.pad_to(4 + columns.name + 2);
        let title_end = 4 + columns.name + 2 + columns.title;
        let mut title = Line::default();
        if &*row.agent != "main" {
            // Agents work in parallel, so each call names its agent.
            title.push(&format!("{} ", row.agent), Style::DIM);
        }
        title.append(&Line::plain(&folded_lines::relative_title(&row.view.title, self.cwd)));
        line.append(&title.truncate_to(title_end - line.width().min(title_end)));
        line.pad_to(title_end + 2);
        let (summary, below) = self.summary(row);
        line.append(&summary.truncate_to(columns.summary));
        let time = self.time(row);
        if !time.is_empty() {
            line.pad_to(columns.time_end().saturating_sub(time.len()));
            line.push(&time, Style::DIM);
        }
        if let Some(bracket) = bracket {
            line.pad_to(columns.time_end() + 1);
            line.push(bracket.sign, Style::DIM);
            if let Some(count) = bracket.count.filter(|_| columns.line >= 72) {
                line.push(&format!(" {count} at once"), Style::DIM);
            }
        }
        let mut lines = vec![line.truncate_to(columns.screen)];
        if self.bodies {
            let goes_on = bracket.is_some_and(|bracket| bracket.sign != "┘");
            for mut line in below.into_iter().chain(self.body_lines(row, bracket.is_some())) {
                if goes_on && line.width() < columns.time_end() {
                    line.pad_to(columns.time_end() + 1);
                    line.push("│", Style::DIM);
                }
                lines.push(line.truncate_to(columns.screen));
            }
        }
        lines
    }

    /// Returns the summary, and the lines of an error message that doesn't fit.
    fn summary(&self, row: &CallRow) -> (Line, Vec<Line>) {
        let message = row.view.summary.as_deref().unwrap_or_default();
        match &row.state {
            CallState::Running => (self.progress(row), Vec::new()),
            CallState::Writing(writing) if message.is_empty() => {
                (Line::from_text(&format_bytes(writing.bytes()), Style::DIM), Vec::new())
            }
            CallState::Asking => (Line::from_text("waits for your answer", Style::WARNING), Vec::new()),
            CallState::Done { mark: ResultMark::Good, offloaded, .. } => {
                let file_note = if *offloaded { " · kept in a file" } else { "" };
                (Line::plain(message).with(file_note, Style::DIM), Vec::new())
            }
            CallState::Done { .. } => {
                let shown = Line::from_text(message, Style::WARNING);
                if shown.width() <= self.columns.summary {
                    return (shown, Vec::new());
                }
                let columns = self.columns.line.saturating_sub(6).max(20);
                let reason = row.reason.as_deref().unwrap_or(message);
                let wrapped: Vec<Line> = text::lines(reason)
                    .flat_map(|line| Line::from_text(line, Style::WARNING).wrap(columns, 0))
                    .collect();
                let hidden = wrapped.len().saturating_sub(REASON_LINES);
                let lines = wrapped
                    .iter()
                    .take(REASON_LINES)
                    .flat_map(|line| folded_lines::indent_line(line.clone(), 6, self.columns.line));
                let folded = FoldedLines { lines: lines.collect(), hidden };
                (Line::default(), folded.with_count(6, ""))
            }
            CallState::Waiting | CallState::Writing(_) => (Line::from_text(message, Style::DIM), Vec::new()),
        }
    }

    fn progress(&self, row: &CallRow) -> Line {
        let message = row.progress.message.as_deref().or(row.last_output.as_deref());
        let mut line = Line::from_text(message.unwrap_or_default(), Style::DIM);
        if let Some(fraction) = row.progress.fraction.filter(|fraction| fraction.is_finite()) {
            let full = (fraction.clamp(0.0, 1.0) * BAR_COLUMNS as f64).round() as usize;
            line = line.truncate_to(self.columns.summary.saturating_sub(BAR_COLUMNS + 2));
            if !line.is_empty() {
                line.push_spaces(2);
            }
            line.push(&"▓".repeat(full), Style::ACTIVITY);
            line.push(&"░".repeat(BAR_COLUMNS - full), Style::DIM);
        }
        line
    }

    fn time(&self, row: &CallRow) -> String {
        match &row.state {
            CallState::Done { took, .. } if took.is_zero() => String::new(),
            CallState::Done { took, .. } => format_duration(*took),
            CallState::Running => {
                let so_far = self.now.saturating_duration_since(row.since);
                if so_far.as_millis() < 100 { String::new() } else { format_duration(so_far) }
            }
            _ => String::new(),
        }
    }

    fn body_lines(&self, row: &CallRow, bracketed: bool) -> Vec<Line> {
        let columns = self.columns.line;
        match &row.state {
            CallState::Writing(_) if folded_lines::has_change(&row.view) => {
                folded_lines::last_changed_lines(&row.view, columns, WRITING_LINES)
            }
            CallState::Writing(writing) => {
                let lines = writing.tail().unwrap_or_default();
                lines
                    .into_iter()
                    .map(|line| {
                        Line::default()
                            .with("      ", Style::PLAIN)
                            .with(line, Style::CODE)
                            .truncate_to(columns)
                    })
                    .collect()
            }
            CallState::Done { mark, .. } => {
                let most = match (folded_lines::has_change(&row.view), mark) {
                    (true, _) => DIFF_LINES,
                    (false, ResultMark::Good) if bracketed => 0,
                    // The reason is in the line.
                    (false, ResultMark::Refused | ResultMark::Cancelled) => 0,
                    (false, _) => RESULT_LINES,
                };
                let few = row.view.body.is_empty() || most == 0;
                if few { Vec::new() } else { fold_body(&row.view, columns, most).with_count(6, "") }
            }
            _ => Vec::new(),
        }
    }
}

/// Formats a duration.
pub(crate) fn format_duration(time: Duration) -> String {
    let ms = time.as_millis();
    let s = time.as_secs();
    match () {
        () if ms < 1_000 => format!("{} ms", ms.max(1)),
        () if s < 10 => format!("{:.1} s", time.as_secs_f64()),
        () if s < 60 => format!("{s} s"),
        () if s < 3_600 => format!("{} m {:02}", s / 60, s % 60),
        () => format!("{} h {:02}", s / 3_600, s / 60 % 60),
    }
}

/// Formats a size.
fn format_bytes(bytes: usize) -> String {
    match bytes {
        0 => String::new(),
        bytes if bytes < 10_000 => format!("{bytes} bytes"),
        bytes if bytes < 10_000_000 => format!("{} KB", bytes / 1_000),
        bytes => format!("{} MB", bytes / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tool: &str, title: &str, state: CallState, run_span: Option<(u64, Option<u64>)>) -> CallRow {
        CallRow {
            agent: "main".into(),
            turn: 1,
            index: Some(0),
            number: None,
            id: "".into(),
            tool: tool.into(),
            view: CallView::titled(title).summary("214 lines"),
            state,
            since: Instant::now(),
            run_span,
            progress: CallProgress::default(),
            last_output: None,
            reason: None,
        }
    }

    fn done() -> CallState {
        CallState::Done { mark: ResultMark::Good, took: Duration::from_millis(3), offloaded: false }
    }

    fn shown(rows: &[CallRow], screen: usize) -> Vec<String> {
        let cwd = Path::new("/w");
        let columns = SharedColumns::for_rows(rows.iter(), screen, cwd);
        let layout = RowLayout { columns, cwd, now: Instant::now(), spin: 2, bodies: true };
        let all: Vec<&CallRow> = rows.iter().collect();
        let brackets = brackets(&all);
        rows.iter()
            .zip(brackets)
            .flat_map(|(row, bracket)| layout.row(row, bracket))
            .map(|line| line.text())
            .collect()
    }

    #[test]
    fn calls_that_ran_at_once_are_held_together() {
        let rows = [
            row("Read", "/w/src/parser.rs", done(), Some((1, Some(5)))),
            row("Read", "/w/src/lexer.rs", done(), Some((2, Some(4)))),
            row("Grep", "\"last_line\" in src", done(), Some((3, Some(6)))),
            row("Bash", "cargo test", done(), Some((7, Some(8)))),
        ];
        let shown = shown(&rows, 90);
        assert_eq!(
            shown,
            [
                "  ✓ Read    src/parser.rs               214 lines                        3 ms ┐",
                "  ✓ Read    src/lexer.rs                214 lines                        3 ms │ 3 at once",
                "  ✓ Grep    \"last_line\" in src          214 lines                        3 ms ┘",
                "  ✓ Bash    cargo test                  214 lines                        3 ms",
            ]
        );
    }

    #[test]
    fn a_running_call_shows_how_far_it_is() {
        let mut one = row("Bash", "cargo test parser", CallState::Running, Some((1, None)));
        one.progress = CallProgress { fraction: Some(0.6), message: Some("compiling 41/68".into()) };
        let shown = shown(&[one], 100);
        assert!(
            shown[0].starts_with("  ⠹ Bash    cargo test parser           compiling 41/68  ▓▓▓▓▓▓░░░░"),
            "{}",
            shown[0]
        );
    }

    #[test]
    fn narrow_screens_cut_and_never_overflow() {
        for screen in 10..120 {
            let mut long =
                row("a_tool_with_a_long_name_indeed", &"日本".repeat(100), done(), Some((1, Some(3))));
            long.view.summary = Some("x".repeat(300));
            let failed = CallState::Done { mark: ResultMark::Failed, took: Duration::ZERO, offloaded: false };
            let mut bad = row("b", "t", failed, Some((2, Some(4))));
            bad.view.summary = Some("reason ".repeat(100));
            for line in shown(&[long, bad], screen) {
                assert!(text::width(&line) <= screen.max(20), "{screen}: {line}");
            }
        }
    }

    #[test]
    fn times_are_short() {
        let text = |ms| format_duration(Duration::from_millis(ms));
        assert_eq!([text(0), text(999), text(1_500), text(12_000)], ["1 ms", "999 ms", "1.5 s", "12 s"]);
        assert_eq!([text(65_000), text(3_660_000)], ["1 m 05", "1 h 01"]);
    }
}
