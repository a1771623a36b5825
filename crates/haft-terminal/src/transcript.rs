//! The transcript of a run: converts events to finished lines, and renders the open part for the
//! live region.
//!
//! Finished lines never change: they go to the scrollback and are dropped here. Open are the end of
//! the answer and the calls that have not ended. Concurrent calls stay open until all of them have
//! ended, so that one bracket can join them; text that the model writes meanwhile is printed before
//! them. The transcript knows no terminal: it is the same on a screen and in a pipe.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft::call::CallInput;
use haft::event::{Event, EventKind};
use haft::text::truncate_chars;
use haft::view::{CallProgress, CallStage, CallView};
use haft::{ToolCall, ToolResult};
use haft_agent::{ReplyDelta, RunEnd, RunEvent, StopReason, TokenUsage};
use serde_json::Value;

use crate::call_row::{CallRow, CallState, ResultMark, RowLayout, SharedColumns, brackets, format_duration};
use crate::limits::{FRAME, TYPED_MAX};
use crate::markdown::MarkdownWriter;
use crate::partial_input::PartialInput;
use crate::style::{Line, Style};
use crate::text::{self, thousands};

/// How much of the model's thinking is stored, in bytes.
const THINKING_BYTES: usize = 1_024;
/// The maximum length of a note, in characters.
const NOTE_CHARS_MAX: usize = 4_000;

/// Returns the view of a call by the name of its tool; `None` if the tool is unknown.
pub(crate) type ToolViews = Arc<dyn Fn(&str, &CallStage<'_>) -> Option<CallView> + Send + Sync>;

/// The kind of the last output.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PassageKind {
    Nothing,
    UserMessage,
    Text,
    Calls,
    Note,
}

/// The phase of the run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RunPhase {
    Idle,
    /// The model has not replied yet.
    AwaitingModel,
    Thinking,
    Writing,
    /// The message is complete and its calls run.
    Calls,
    Retrying {
        until: Instant,
        message: String,
    },
}

/// The transcript of a run.
pub(crate) struct RunTranscript {
    columns: usize,
    cwd: PathBuf,
    views: Option<ToolViews>,
    out: Vec<Line>,
    last: PassageKind,
    text: Option<MarkdownWriter>,
    thinking: String,
    rows: Vec<CallRow>,
    /// The number of complete calls of this message.
    ready: usize,
    /// Calls of this turn that were printed: agent, turn, index. Later events of them are ignored.
    finished_calls: HashSet<(Arc<str>, u64, usize)>,
    /// Counts events, to detect overlapping calls.
    at: u64,
    phase: RunPhase,
    /// The start of the run; `changed` is the start of the phase.
    began: Option<Instant>,
    changed: Instant,
    turns: u64,
    /// User messages that were not yet sent to the model.
    waiting: VecDeque<String>,
    hide_first_message: bool,
    reported_left_out: bool,
    /// The time of the next refresh of partial views.
    next_view: Instant,
    /// The last result that was folded.
    folded: Option<CallView>,
}

impl RunTranscript {
    pub(crate) fn new(columns: usize, cwd: &Path, now: Instant) -> RunTranscript {
        RunTranscript {
            columns,
            cwd: cwd.to_owned(),
            views: None,
            out: Vec::new(),
            last: PassageKind::Nothing,
            text: None,
            thinking: String::new(),
            rows: Vec::new(),
            ready: 0,
            finished_calls: HashSet::new(),
            at: 0,
            phase: RunPhase::Idle,
            began: None,
            changed: now,
            turns: 0,
            waiting: VecDeque::new(),
            hide_first_message: false,
            reported_left_out: false,
            next_view: now,
            folded: None,
        }
    }

    pub(crate) fn set_views(&mut self, views: ToolViews) {
        self.views = Some(views);
    }

    /// Hides the next user message, which is already visible.
    pub(crate) fn hide_first_message(&mut self) {
        self.hide_first_message = true;
    }

    pub(crate) fn resize(&mut self, columns: usize) {
        self.columns = columns;
        if let Some(text) = &mut self.text {
            text.resize(columns);
        }
    }

    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.phase != RunPhase::Idle
    }

    /// Takes the finished lines.
    pub(crate) fn take(&mut self) -> Vec<Line> {
        self.flush();
        std::mem::take(&mut self.out)
    }

    /// Takes the last view that was folded.
    pub(crate) fn take_folded(&mut self) -> Option<CallView> {
        self.folded.take()
    }

    /// Returns the tools of the running calls.
    pub(crate) fn running(&self) -> Vec<&str> {
        self.rows.iter().filter(|row| row.is_running()).map(|row| row.tool.as_str()).collect()
    }

    /// Returns the number of this message's calls of a tool that have not asked yet.
    pub(crate) fn upcoming_calls(&self, tool: &str) -> usize {
        let upcoming_calls = |row: &&CallRow| {
            row.is_main()
                && row.tool == tool
                && matches!(row.state, CallState::Waiting | CallState::Writing(_))
        };
        self.rows.iter().filter(upcoming_calls).count()
    }

    /// Queues a user message that is sent later.
    pub(crate) fn queue_message(&mut self, text: &str) {
        if self.waiting.len() < TYPED_MAX {
            self.waiting.push_back(text.to_owned());
        }
    }

    /// Prints a line on its own.
    pub(crate) fn note(&mut self, line: Line) {
        self.end_text();
        self.begin_passage(PassageKind::Note);
        self.out.extend(line.wrap(self.columns, 2));
    }

    pub(crate) fn notes(&mut self, lines: Vec<Line>) {
        lines.into_iter().for_each(|line| self.note(line));
    }

    pub(crate) fn note_text(&mut self, message: &str, style: Style) {
        for line in text::lines(truncate_chars(message, NOTE_CHARS_MAX)) {
            self.note(Line::from_text(&format!("  {line}"), style));
        }
    }

    pub(crate) fn event(&mut self, event: RunEvent, now: Instant) {
        self.at += 1;
        match event {
            RunEvent::Asked { turn, left_out } => {
                self.end_turn();
                self.turns = turn;
                self.began.get_or_insert(now);
                self.set_phase(RunPhase::AwaitingModel, now);
                if !left_out.is_empty() && !std::mem::replace(&mut self.reported_left_out, true) {
                    let names: Vec<&str> = left_out.iter().map(|name| &**name).collect();
                    self.note_text(
                        &format!("the provider can't take these tools: {}", names.join(", ")),
                        Style::WARNING,
                    );
                }
            }
            RunEvent::Model(delta) => self.model_event(delta, now),
            RunEvent::Tool(event) => self.tool_event(event, now),
            // The calls of other agents are shown; their text is for the agent that started them.
            RunEvent::Agent { event, .. } => {
                if let RunEvent::Tool(event) = *event {
                    self.tool_event(event, now);
                }
            }
            RunEvent::Replied { stop, .. } => {
                self.end_text();
                self.thinking.clear();
                self.rows.retain(|row| !matches!(row.state, CallState::Writing(_)));
                self.set_phase(RunPhase::Calls, now);
                if matches!(stop, StopReason::MaxTokens { .. } | StopReason::Cut | StopReason::ContextFull) {
                    self.note_text(&format!("{stop}"), Style::WARNING);
                }
            }
            RunEvent::Answered { results, .. } => {
                for (index, result) in results.iter().enumerate() {
                    let at = self.at;
                    if let Some(row) =
                        self.rows.iter_mut().find(|row| row.is_main() && row.index == Some(index))
                        && !row.is_done()
                    {
                        row.finish(result, at);
                    }
                }
                self.end_turn();
            }
            RunEvent::Said(message) => self.show_user_message(&message),
            RunEvent::Cleared { results } => {
                self.note_text(&format!("{results} old results were cleared to make room"), Style::DIM);
            }
            RunEvent::Summarised { .. } => {
                self.note_text("the conversation was replaced by a summary of it, to make room", Style::DIM);
            }
            RunEvent::Ended { why, usage } => self.show_end(&why, &usage, now),
            _ => {}
        }
    }

    fn model_event(&mut self, delta: ReplyDelta, now: Instant) {
        match delta {
            ReplyDelta::Text(message) => {
                self.thinking.clear();
                self.set_phase(RunPhase::Writing, now);
                if self.text.is_none() {
                    if message.trim().is_empty() {
                        return;
                    }
                    self.begin_passage(PassageKind::Text);
                    self.text = Some(MarkdownWriter::new(self.columns, Line::plain("● ")));
                }
                if let Some(text) = &mut self.text {
                    text.push(&message, &mut self.out);
                }
            }
            ReplyDelta::Thinking(message) => {
                self.set_phase(RunPhase::Thinking, now);
                self.thinking.push_str(&message);
                if self.thinking.len() > 2 * THINKING_BYTES {
                    let from = self.thinking.len() - THINKING_BYTES;
                    self.thinking.drain(..self.thinking.ceil_char_boundary(from));
                }
            }
            ReplyDelta::CallBegun { call, name, .. } => {
                self.end_text();
                self.thinking.clear();
                self.set_phase(RunPhase::Writing, now);
                let row = self.new_row(name, CallState::Writing(PartialInput::default()), now);
                self.rows.push(CallRow { number: Some(call), ..row });
            }
            ReplyDelta::CallInput { call, json } => {
                let row = self.rows.iter_mut().rev().find(|row| row.number == Some(call));
                if let Some(CallState::Writing(writing)) = row.map(|row| &mut row.state) {
                    writing.push(&json);
                }
            }
            ReplyDelta::CallReady { call, ready } => self.call_ready(call, &ready, now),
            ReplyDelta::Restarted => {
                self.end_text();
                self.rows.retain(|row| !row.is_main() || row.is_done());
                self.note_text("the connection was lost; the answer begins anew", Style::WARNING);
            }
            ReplyDelta::Retrying { failure, attempt, wait } => {
                let message = format!("(attempt {attempt}): {failure}");
                self.set_phase(RunPhase::Retrying { until: now + wait, message }, now);
            }
            _ => {}
        }
    }

    fn call_ready(&mut self, number: usize, call: &ToolCall, now: Instant) {
        self.end_text();
        let index = self.ready;
        self.ready += 1;
        // The engine receives the call before this event and may have finished it.
        if self.finished_calls.contains(&("main".into(), 0, index)) {
            return;
        }
        let parsed;
        let input = match &call.input {
            CallInput::Value(value) => value,
            CallInput::Text(text) => {
                parsed = serde_json::from_str(text).unwrap_or(Value::Null);
                &parsed
            }
        };
        let view = self.view(&call.name, &CallStage::Use { input, complete: true });
        let known = self.rows.iter().rposition(|row| {
            row.is_main() && (row.index == Some(index) || (row.number == Some(number) && row.index.is_none()))
        });
        let at = known.unwrap_or_else(|| {
            let row = self.new_row(call.name.to_string(), CallState::Waiting, now);
            self.rows.push(CallRow { number: Some(number), ..row });
            self.rows.len() - 1
        });
        let row = &mut self.rows[at];
        row.index = Some(index);
        row.number = Some(number);
        row.id = call.id.clone();
        if matches!(row.state, CallState::Writing(_) | CallState::Waiting | CallState::Asking) {
            row.view = view;
        }
        if matches!(row.state, CallState::Writing(_)) {
            row.state = CallState::Waiting;
            row.since = now;
        }
    }

    fn tool_event(&mut self, event: Event, now: Instant) {
        let Event { agent, turn, call, what, .. } = event;
        match &what {
            EventKind::Warning(message) | EventKind::Message(message) => {
                let style = if matches!(what, EventKind::Warning(_)) { Style::WARNING } else { Style::PLAIN };
                return self.note_text(message, style);
            }
            EventKind::BackgroundFinished(result) => return self.show_background_result(result),
            _ => {}
        }
        let Some(call) = call else { return };
        let main = &*agent == "main";
        let row_index = self.rows.iter().position(|row| {
            row.index == Some(call.index)
                && row.agent == agent
                && (main || row.turn == turn)
                && !row.is_done()
        });
        let turn = if main { 0 } else { turn };
        if row_index.is_none() && self.finished_calls.contains(&(agent.clone(), turn, call.index)) {
            return;
        }
        // Calls become complete in the order of the message: an unknown one is the next that is
        // being written.
        let written = || {
            let mut open =
                self.rows.iter().enumerate().filter(|(_, row)| row.is_main() && row.index.is_none());
            open.nth(call.index.checked_sub(self.ready)?).map(|(at, _)| at)
        };
        let at = row_index.or_else(|| written().filter(|_| main)).unwrap_or_else(|| {
            let row = self.new_row(call.tool.to_string(), CallState::Waiting, now);
            self.rows.push(CallRow { agent: agent.clone(), turn, ..row });
            self.rows.len() - 1
        });
        let seen = self.at;
        let row = &mut self.rows[at];
        row.index = Some(call.index);
        row.id = call.id.clone();
        match what {
            EventKind::Asking => row.state = CallState::Asking,
            EventKind::Started { view, .. } => {
                row.tool = call.tool.to_string();
                row.view = view;
                row.state = CallState::Running;
                row.since = now;
                row.run_span = Some((seen, None));
            }
            EventKind::Progress(progress) => row.progress = progress,
            EventKind::Partial(output) => {
                let last = output.lines().rev().find(|line| !line.trim().is_empty());
                row.last_output =
                    last.map(|line| truncate_chars(line, 200).to_owned()).or(row.last_output.take());
            }
            EventKind::Finished(result) => row.finish(&result, seen),
            EventKind::BlocksThread { since } => {
                row.last_output = Some(format!("keeps a thread busy for {}", format_duration(since)))
            }
            _ => {}
        }
        if !main && row.is_done() {
            // The parent call is still open, and an agent may make hundreds of calls.
            let row = self.rows.remove(at);
            self.end_text();
            self.put_rows(vec![row]);
        }
    }

    fn show_background_result(&mut self, result: &ToolResult) {
        let view = result.view();
        let sign = if result.is_error() { "✗" } else { "✓" };
        let summary = view.summary.unwrap_or_default();
        let message = format!("  {sign} {} in the background: {} {summary}", result.tool_name(), view.title);
        self.note(Line::plain(&message).truncate_to(self.columns));
    }

    fn show_user_message(&mut self, message: &str) {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting == message) {
            self.waiting.drain(..=at);
        }
        self.end_text();
        if std::mem::take(&mut self.hide_first_message) {
            self.last = PassageKind::UserMessage;
            return;
        }
        self.begin_passage(PassageKind::UserMessage);
        for (at, line) in text::lines(message).enumerate() {
            let mark = if at == 0 { "> " } else { "  " };
            self.out.extend(Line::from_text(&format!("{mark}{line}"), Style::BOLD).wrap(self.columns, 2));
        }
    }

    fn show_end(&mut self, why: &RunEnd, usage: &TokenUsage, now: Instant) {
        self.end_text();
        for row in &mut self.rows {
            if !row.is_done() {
                row.state =
                    CallState::Done { mark: ResultMark::Cancelled, took: Duration::ZERO, offloaded: false };
                row.view.summary = Some("not run".to_owned());
                row.run_span = None;
            }
        }
        self.end_turn();
        self.thinking.clear();
        self.waiting.clear();
        if !why.is_finished() {
            self.note_text(&why.to_string(), Style::WARNING);
        }
        let took = self
            .began
            .take()
            .map_or(String::new(), |began| format_duration(now.saturating_duration_since(began)));
        let turns = if self.turns == 1 { "turn" } else { "turns" };
        let mut message = format!("  {} {turns} · {took}", self.turns);
        if usage.total_tokens() > 0 {
            message.push_str(&format!(" · {} tokens in", thousands(usage.input_tokens)));
            if usage.cache_read_tokens > 0 {
                message.push_str(&format!(" ({} from the cache)", thousands(usage.cache_read_tokens)));
            }
            message.push_str(&format!(", {} out", thousands(usage.output_tokens)));
        }
        self.out.push(Line::default());
        self.out.push(Line::from_text(&message, Style::DIM).truncate_to(self.columns));
        self.last = PassageKind::Note;
        self.turns = 0;
        self.phase = RunPhase::Idle;
    }

    /// Closes everything that is open in this turn.
    fn end_turn(&mut self) {
        self.end_text();
        self.flush();
        let rest: Vec<CallRow> = std::mem::take(&mut self.rows);
        let (finished_calls, still_open): (Vec<CallRow>, Vec<CallRow>) =
            rest.into_iter().partition(|row| row.is_main() && row.is_done());
        self.put_rows(finished_calls);
        // Calls of other agents outlive the turns of the main agent.
        self.rows = still_open.into_iter().filter(|row| !row.is_main()).collect();
        self.ready = 0;
        self.finished_calls.clear();
    }

    fn end_text(&mut self) {
        if let Some(mut text) = self.text.take() {
            text.finish(&mut self.out);
        }
    }

    /// Prints the calls that no open call can overlap any more.
    fn flush(&mut self) {
        let done = self.rows.iter().take_while(|row| row.is_done()).count();
        let running = self.rows.iter().filter_map(|row| row.run_span).filter(|(_, to)| to.is_none());
        let first = running.map(|(from, _)| from).min().unwrap_or(u64::MAX);
        let (mut put, mut end) = (0, 0);
        for (at, row) in self.rows[..done].iter().enumerate() {
            // A row that starts after all rows before it have ended starts a new group.
            if row.run_span.is_none_or(|(from, _)| from >= end) && end <= first {
                put = at;
            }
            end = end.max(row.run_span.and_then(|(_, to)| to).unwrap_or(end));
        }
        if end <= first {
            put = done;
        }
        if put > 0 {
            let rows: Vec<CallRow> = self.rows.drain(..put).collect();
            self.put_rows(rows);
        }
    }

    fn put_rows(&mut self, rows: Vec<CallRow>) {
        if rows.is_empty() {
            return;
        }
        let layout = RowLayout {
            columns: SharedColumns::for_rows(rows.iter().chain(&self.rows), self.columns, &self.cwd),
            cwd: &self.cwd.clone(),
            now: self.changed,
            spin: 0,
            bodies: true,
        };
        let all: Vec<&CallRow> = rows.iter().collect();
        let brackets = brackets(&all);
        self.begin_passage(PassageKind::Calls);
        for row in &rows {
            self.finished_calls.extend(row.index.map(|index| (row.agent.clone(), row.turn, index)));
        }
        for (row, bracket) in rows.iter().zip(brackets) {
            self.out.extend(layout.row(row, bracket));
        }
        if let Some(row) = rows.into_iter().rev().find(|row| !row.view.body.is_empty()) {
            self.folded = Some(row.view);
        }
    }

    /// Inserts an empty line before output of another kind; calls belong to the text before them.
    fn begin_passage(&mut self, kind: PassageKind) {
        let together = match self.last {
            PassageKind::Nothing => true,
            PassageKind::UserMessage => kind == PassageKind::Note,
            PassageKind::Text | PassageKind::Calls | PassageKind::Note => {
                matches!(kind, PassageKind::Calls | PassageKind::Note)
            }
        };
        if !together {
            self.out.push(Line::default());
        }
        self.last = kind;
    }

    fn set_phase(&mut self, phase: RunPhase, now: Instant) {
        if self.phase != phase {
            self.phase = phase;
            self.changed = now;
        }
    }

    fn new_row(&self, tool: String, state: CallState, now: Instant) -> CallRow {
        CallRow {
            agent: "main".into(),
            turn: 0,
            index: None,
            number: None,
            id: "".into(),
            tool,
            view: CallView::default(),
            state,
            since: now,
            run_span: None,
            progress: CallProgress::default(),
            last_output: None,
            reason: None,
        }
    }

    fn view(&self, tool: &str, stage: &CallStage<'_>) -> CallView {
        let own = self.views.as_ref().and_then(|views| views(tool, stage));
        own.unwrap_or_else(|| match stage.input() {
            Value::Null => CallView::default(),
            Value::Object(fields) if fields.is_empty() => CallView::default(),
            input => CallView::titled(truncate_chars(&input.to_string(), 200)),
        })
    }

    /// Recomputes the views of partial inputs. Slow views are recomputed less often.
    pub(crate) fn refresh_partial_views(&mut self, now: Instant) {
        if now < self.next_view {
            return;
        }
        let writing = |row: &CallRow| match &row.state {
            CallState::Writing(writing) => Some((row.tool.clone(), writing.value())),
            _ => None,
        };
        let inputs: Vec<_> = self.rows.iter().map(writing).collect();
        if inputs.iter().all(Option::is_none) {
            return;
        }
        let began = Instant::now();
        for (at, input) in inputs.into_iter().enumerate() {
            if let Some((tool, input)) = input {
                self.rows[at].view = self.view(&tool, &CallStage::Use { input: &input, complete: false });
            }
        }
        self.next_view = now + FRAME.max(began.elapsed() * 10);
    }

    /// Returns whether anything was printed.
    pub(crate) fn has_output(&self) -> bool {
        self.last != PassageKind::Nothing
    }

    /// Renders the open part in at most `most` lines, without the call that the current question is
    /// about.
    pub(crate) fn live_lines(
        &self,
        now: Instant,
        spin: usize,
        most: usize,
        asked: Option<&str>,
    ) -> Vec<Line> {
        let mut lines = Vec::new();
        if let Some(text) = &self.text {
            lines = text.tail();
        }
        if !self.thinking.is_empty() {
            let last: Vec<&str> =
                text::lines(&self.thinking).filter(|line| !line.trim().is_empty()).collect();
            for line in last.iter().rev().take(2).rev() {
                lines.push(
                    Line::from_text(&format!("  {line}"), Style::DIM.italic()).truncate_to(self.columns),
                );
            }
        }
        let is_open = |row: &&CallRow| !matches!(row.state, CallState::Asking) || asked != Some(&*row.id);
        let rows: Vec<&CallRow> = self.rows.iter().filter(is_open).collect();
        if !rows.is_empty() {
            let apart =
                if lines.is_empty() { self.last == PassageKind::UserMessage } else { self.text.is_some() };
            if apart {
                lines.push(Line::default());
            }
            lines.extend(self.live_rows(&rows, now, spin, most.saturating_sub(lines.len().min(most / 2))));
        }
        for message in &self.waiting {
            lines.push(Line::from_text(&format!("  ⧗ {message}"), Style::DIM).truncate_to(self.columns));
        }
        let over = lines.len().saturating_sub(most);
        lines.drain(..over);
        lines
    }

    fn live_rows(&self, rows: &[&CallRow], now: Instant, spin: usize, most: usize) -> Vec<Line> {
        let columns = SharedColumns::for_rows(rows.iter().copied(), self.columns, &self.cwd);
        let mut layout = RowLayout { columns, cwd: &self.cwd, now, spin, bodies: true };
        let brackets = brackets(rows);
        let laid = |layout: &RowLayout<'_>| -> Vec<Line> {
            rows.iter().zip(&brackets).flat_map(|(row, bracket)| layout.row(row, *bracket)).collect()
        };
        if rows.len() <= most {
            let lines = laid(&layout);
            if lines.len() <= most {
                return lines;
            }
            // An input that is being written is more interesting than results of other calls.
            layout.bodies = false;
            let mut lines = laid(&layout);
            if let Some((at, row)) =
                rows.iter().enumerate().find(|(_, row)| matches!(row.state, CallState::Writing(_)))
            {
                layout.bodies = true;
                let body = layout.row(row, None).into_iter().skip(1);
                let room = most - lines.len();
                let body: Vec<Line> = body.collect();
                let from = body.len().saturating_sub(room);
                lines.splice(at + 1..at + 1, body[from..].iter().cloned());
            }
            return lines;
        }
        layout.bodies = false;
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|at| match rows[*at].state {
            CallState::Asking => 0,
            CallState::Running => 1,
            CallState::Writing(_) => 2,
            CallState::Waiting => 3,
            CallState::Done { .. } => 4,
        });
        order.truncate(most.saturating_sub(1));
        order.sort_unstable();
        let mut lines: Vec<Line> = order.iter().flat_map(|at| layout.row(rows[*at], None)).collect();
        lines.push(Line::from_text(&format!("  … {} more calls", rows.len() - order.len()), Style::DIM));
        lines
    }

    /// Describes what the run does; `None` if it is idle.
    pub(crate) fn status_text(&self, now: Instant) -> Option<String> {
        let since = self.began.map_or(self.changed, |began| began);
        let total = now.saturating_duration_since(since);
        let total =
            if total.as_secs() == 0 { String::new() } else { format!(" · {}", format_duration(total)) };
        Some(match &self.phase {
            RunPhase::Idle => return None,
            RunPhase::AwaitingModel => format!("waiting for the model{total}"),
            RunPhase::Thinking => format!("thinking{total}"),
            RunPhase::Writing => format!("the model writes{total}"),
            RunPhase::Calls => {
                let running = self.rows.iter().filter(|row| row.is_running()).count();
                match running {
                    0 => format!("working{total}"),
                    1 => format!("1 call runs{total}"),
                    running => format!("{running} calls run{total}"),
                }
            }
            RunPhase::Retrying { until, message } => {
                let left = until.saturating_duration_since(now);
                format!("trying again in {} {message}", format_duration(left))
            }
        })
    }
}

impl CallRow {
    fn is_main(&self) -> bool {
        &*self.agent == "main"
    }
}

#[cfg(test)]
mod tests;
