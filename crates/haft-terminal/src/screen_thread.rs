//! The thread that draws and reads keys: one wait loop, one state, one write per frame.
//!
//! It waits for keys, queued events, signals and the time of the next frame. Keys are drawn
//! immediately. Events are drawn together, at most thirty times per second. A question counts as
//! shown only after its frame was written and all earlier input was read. Until then, and for a
//! short time after, keys go to the input line, where they can't approve anything. A digit that
//! arrives together with other text, or right after it, is text: a terminal without bracketed paste
//! sends pastes like this.

mod compose;

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_agent::RunEvent;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCONT, SIGINT, SIGTSTP, SIGWINCH};
use tokio::sync::mpsc;

use crate::folded_lines::fold_body;
use crate::frame_painter::FramePainter;
use crate::history::InputHistory;
use crate::inbox::{ScreenInbox, ScreenNote};
use crate::key_decoder::{KeyDecoder, TerminalKey};
use crate::limits::{ESCAPE_WAIT, FRAME, QUESTION_SEEN, SPIN, UNFOLDED_LINES_MAX};
use crate::line_editor::{EditOutcome, LineEditor};
use crate::markdown::MarkdownWriter;
use crate::question::{
    AnswerKeys, BulkAnswer, KeyContext, PanelAction, PanelReply, PendingPrompts, PromptPanel,
};
use crate::raw_terminal::{RawTerminal, SignalFlags, has_job_control};
use crate::screen::{ScreenChange, ScreenOptions};
use crate::style::{Line, Style};
use crate::text::thousands;
use crate::transcript::RunTranscript;
use crate::user_input::{LineMeaning, UserInput, complete_command, parse_line};

/// The state of the screen.
pub(crate) struct ScreenThread {
    tty: RawTerminal,
    signals: SignalFlags,
    wake: io::PipeReader,
    inbox: Arc<ScreenInbox>,
    typed: mpsc::Sender<UserInput>,
    options: ScreenOptions,
    painter: FramePainter,
    transcript: RunTranscript,
    decoder: KeyDecoder,
    editor: LineEditor,
    history: InputHistory,
    panels: VecDeque<PromptPanel>,
    /// The kind of question that the user has allowed for the rest of this message.
    allowed_kind: Option<(String, String)>,
    mode: String,
    footer: String,
    /// The hint below the input, until the next key.
    hint: Option<String>,
    /// Whether the current keys were read together and are text.
    is_text_batch: bool,
    /// When text was last sent to the input line.
    last_text_input: Option<Instant>,
    /// How often Ctrl-C was pressed in this run or on an empty line.
    interrupts: u32,
    /// Rows and columns of the terminal.
    size: (usize, usize),
    began: Instant,
    drawn: Option<Instant>,
    /// Whether something changed since the last frame.
    needs_redraw: bool,
    /// When an incomplete key sequence started.
    partial_key_since: Option<Instant>,
    input_ended: bool,
    closing: bool,
}

impl ScreenThread {
    pub(crate) fn new(
        tty: RawTerminal,
        signals: SignalFlags,
        wake: io::PipeReader,
        inbox: Arc<ScreenInbox>,
        typed: mpsc::Sender<UserInput>,
        options: ScreenOptions,
    ) -> ScreenThread {
        let now = Instant::now();
        let size = tty.size();
        let mut transcript = RunTranscript::new(size.1.saturating_sub(1).max(10), options.cwd(), now);
        if options.hide_first_words {
            transcript.hide_first_message();
        }
        ScreenThread {
            painter: FramePainter::new(options.color_mode),
            history: InputHistory::new(options.history.clone()),
            transcript,
            tty,
            signals,
            wake,
            inbox,
            typed,
            options,
            decoder: KeyDecoder::default(),
            editor: LineEditor::default(),
            panels: VecDeque::new(),
            allowed_kind: None,
            mode: String::new(),
            footer: String::new(),
            hint: None,
            is_text_batch: false,
            last_text_input: None,
            interrupts: 0,
            size,
            began: now,
            drawn: None,
            needs_redraw: true,
            partial_key_since: None,
            input_ended: false,
            closing: false,
        }
    }

    /// Runs until the screen is closed or the terminal is gone.
    pub(crate) fn run(mut self) {
        let ended = self.run_loop();
        self.inbox.close();
        let mut out = String::new();
        if ended.is_ok() {
            self.painter.clear(&mut out);
            let _ = self.tty.write(&out);
        } else {
            let _ = self.typed.try_send(UserInput::Leave);
        }
        self.tty.leave();
    }

    fn run_loop(&mut self) -> io::Result<()> {
        loop {
            let (keys, woken, signalled) = self.wait()?;
            if woken {
                // One byte stands for any number of queued notes.
                let _ = io::Read::read(&mut self.wake, &mut [0; 64]);
                self.needs_redraw = true;
            }
            if signalled {
                self.handle_signals()?;
            }
            let mut at_once = false;
            if keys {
                at_once = self.read_keys();
            }
            at_once |= self.settle_keys();
            let now = Instant::now();
            let due = self.drawn.is_none_or(|drawn| now >= drawn + FRAME);
            if at_once || (due && (self.needs_redraw || self.is_redraw_due(now))) {
                self.take_notes(now);
                self.draw(now)?;
            }
            if self.closing {
                return Ok(());
            }
        }
    }

    /// Waits; returns whether there are keys, notes and signals.
    fn wait(&self) -> io::Result<(bool, bool, bool)> {
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.pipe(), PollFlags::IN),
        ];
        if !self.input_ended {
            fds.push(PollFd::from_borrowed_fd(self.tty.input(), PollFlags::IN));
        }
        let timeout = self.timeout().map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: timeout.subsec_nanos().into(),
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        Ok((ready(2), ready(0), ready(1)))
    }

    /// Returns the time until the next timed redraw.
    fn timeout(&self) -> Option<Duration> {
        let now = Instant::now();
        let drawn = self.drawn.unwrap_or(now);
        let until = |at: Instant| at.saturating_duration_since(now);
        let mut waits = Vec::with_capacity(4);
        if self.needs_redraw {
            waits.push(until(drawn + FRAME));
        }
        if self.transcript.is_busy() {
            waits.push(until(drawn + SPIN));
        }
        if let Some(seen) = self.panels.front().and_then(|panel| panel.shown_since)
            && drawn < seen + QUESTION_SEEN
        {
            waits.push(until(seen + QUESTION_SEEN).max(until(drawn + FRAME)));
        }
        if let Some(began) = self.partial_key_since {
            waits.push(until(began + ESCAPE_WAIT));
        }
        waits.into_iter().min()
    }

    /// Returns whether the screen must be redrawn without a new event.
    fn is_redraw_due(&self, now: Instant) -> bool {
        let drawn = self.drawn.unwrap_or(now);
        let spins = self.transcript.is_busy() && now >= drawn + SPIN;
        let seen = self.panels.front().and_then(|panel| panel.shown_since).map(|seen| seen + QUESTION_SEEN);
        spins || seen.is_some_and(|at| drawn < at && now >= at)
    }

    fn handle_signals(&mut self) -> io::Result<()> {
        for signal in self.signals.raised() {
            match signal {
                SIGWINCH => self.resize()?,
                SIGTSTP => self.suspend()?,
                SIGCONT => self.reenter_terminal()?,
                SIGINT => self.interrupt(),
                end => {
                    self.close_terminal();
                    let _ = signal_hook::low_level::emulate_default_handler(end);
                }
            }
        }
        Ok(())
    }

    fn close_terminal(&mut self) {
        let mut out = String::new();
        self.painter.clear(&mut out);
        let _ = self.tty.write(&out);
        self.tty.leave();
    }

    fn resize(&mut self) -> io::Result<()> {
        let size = self.tty.size();
        if size != self.size {
            let mut out = String::new();
            self.painter.resized(size.1, &mut out);
            self.tty.write(&out)?;
            self.size = size;
            self.transcript.resize(self.columns());
            self.needs_redraw = true;
        }
        Ok(())
    }

    /// Returns the usable columns. The last column stays empty, because the cursor position after
    /// writing to it differs between terminals.
    fn columns(&self) -> usize {
        self.size.1.saturating_sub(1).max(10)
    }

    /// Suspends the process as shells expect; continues at SIGCONT.
    fn suspend(&mut self) -> io::Result<()> {
        if !has_job_control() {
            return Ok(());
        }
        let mut out = String::new();
        self.painter.clear(&mut out);
        self.tty.write(&out)?;
        self.tty.leave();
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        self.reenter_terminal()
    }

    fn reenter_terminal(&mut self) -> io::Result<()> {
        self.tty.enter()?;
        self.resize()?;
        self.needs_redraw = true;
        self.drawn = None;
        Ok(())
    }

    /// Reads and handles keys; returns whether there were any.
    fn read_keys(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.tty.read(&mut bytes) {
            Ok(0) => self.end_input(),
            Ok(count) => {
                let mut keys = Vec::new();
                self.decoder.feed(&bytes[..count], &mut keys);
                self.partial_key_since = self.decoder.is_waiting().then(Instant::now);
                self.is_text_batch = keys.iter().filter(|key| key.is_text()).count() > 1;
                keys.iter().for_each(|key| self.handle_key(key));
                self.is_text_batch = false;
                return !keys.is_empty();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.end_input(),
        }
        false
    }

    fn end_input(&mut self) {
        self.input_ended = true;
        // Without input, questions can't be answered; dropping the panels answers them with no.
        self.panels.clear();
        self.send_input(UserInput::Leave);
    }

    fn settle_keys(&mut self) -> bool {
        if self.partial_key_since.is_none_or(|began| began.elapsed() < ESCAPE_WAIT) {
            return false;
        }
        self.partial_key_since = None;
        let mut keys = Vec::new();
        self.decoder.settle(&mut keys);
        keys.iter().for_each(|key| self.handle_key(key));
        true
    }

    fn handle_key(&mut self, key: &TerminalKey) {
        self.needs_redraw = true;
        if *key == TerminalKey::Ctrl('c') {
            return self.interrupt();
        }
        if !matches!(key, TerminalKey::Unknown) {
            self.hint = None;
            if !self.transcript.is_busy() {
                self.interrupts = 0;
            }
        }
        match key {
            TerminalKey::Ctrl('z') => {
                if has_job_control()
                    && rustix::process::kill_current_process_group(rustix::process::Signal::TSTP).is_err()
                {
                    self.hint = Some("this program can't be stopped here".to_owned());
                }
                return;
            }
            TerminalKey::Ctrl('l') => {
                let _ = self.tty.write("\x1b[2J\x1b[H");
                self.painter = FramePainter::new(self.options.color_mode);
                return;
            }
            _ => {}
        }
        if self.panels.front().is_some_and(|panel| is_shown_long_enough(panel, Instant::now())) {
            return self.panel_key(key);
        }
        self.input_key(key);
    }

    fn panel_key(&mut self, key: &TerminalKey) {
        let context = self.key_context(Instant::now());
        let Some(panel) = self.panels.front_mut() else { return };
        // In a text of several lines, the arrow keys move the cursor.
        let is_vertical = matches!(key, TerminalKey::Up | TerminalKey::Down);
        if is_vertical && panel.is_list_unfocused() && self.editor.apply(key) == EditOutcome::Edited {
            return;
        }
        match panel.key(key, context) {
            PanelAction::Stay => {}
            PanelAction::InputLine => self.input_key(key),
            PanelAction::Answer(reply) => self.answer(reply),
            PanelAction::All(yes) => self.answer_all(yes),
            PanelAction::Show => {
                let lines = panel.all_lines(self.transcript.columns(), self.transcript.cwd());
                self.transcript.notes(lines);
            }
            PanelAction::OpenEditor(text) => {
                let edited = self.edit_externally(&text).map_err(|error| error.to_string());
                if let Some(panel) = self.panels.front_mut() {
                    panel.set_edited_input(edited);
                }
            }
        }
    }

    fn key_context(&self, now: Instant) -> KeyContext {
        let recent = |at: Instant| now.saturating_duration_since(at) < QUESTION_SEEN;
        KeyContext {
            has_editor: self.options.editor.is_some(),
            line_is_empty: self.editor.is_empty(),
            in_text: self.is_text_batch || self.last_text_input.is_some_and(recent),
        }
    }

    fn answer(&mut self, reply: PanelReply) {
        if let Some(panel) = self.panels.pop_front() {
            let line = panel.answer(reply, self.transcript.cwd());
            line.into_iter().for_each(|line| self.transcript.note(line));
        }
    }

    /// Answers all questions. Allowing excludes destructive calls, which are answered one by one.
    fn answer_all(&mut self, yes: BulkAnswer) {
        if yes == BulkAnswer::BulkAnswer {
            self.allowed_kind = self.panels.front().and_then(PromptPanel::kind);
        }
        for panel in std::mem::take(&mut self.panels) {
            let fits = match yes {
                BulkAnswer::BulkAnswer => panel.is_harmless_approval(),
                BulkAnswer::No => panel.is_approval(),
            };
            if fits {
                let answer = match yes {
                    BulkAnswer::BulkAnswer => haft::ports::ApprovalAnswer::Once,
                    BulkAnswer::No => haft::ports::ApprovalAnswer::No,
                };
                let line = panel.answer(PanelReply::Approval(answer), self.transcript.cwd());
                line.into_iter().for_each(|line| self.transcript.note(line));
            } else {
                self.panels.push_back(panel);
            }
        }
        if yes == BulkAnswer::BulkAnswer && !self.panels.is_empty() {
            self.hint = Some("destructive calls are answered one by one".to_owned());
        }
    }

    fn edit_externally(&mut self, text: &str) -> io::Result<String> {
        let Some(editor) = self.options.editor.clone() else { return Ok(text.to_owned()) };
        let mut out = String::new();
        self.painter.clear(&mut out);
        self.tty.write(&out)?;
        self.tty.leave();
        let edited = editor(text);
        self.reenter_terminal()?;
        edited
    }

    fn input_key(&mut self, key: &TerminalKey) {
        if key.is_text() {
            self.last_text_input = Some(Instant::now());
        }
        match key {
            TerminalKey::Enter if self.editor.ends_with_backslash() => {
                self.editor.apply(&TerminalKey::Backspace);
                self.editor.apply(&TerminalKey::NewLine);
            }
            TerminalKey::Enter => self.submit(),
            TerminalKey::Ctrl('d') if self.editor.is_empty() => self.send_input(UserInput::Leave),
            TerminalKey::BackTab => self.send_input(UserInput::NextMode),
            TerminalKey::Tab => {
                if let Some(text) = complete_command(self.editor.text(), &self.options.commands) {
                    self.editor.set(text);
                }
            }
            TerminalKey::Ctrl('o') => self.unfold(),
            TerminalKey::Ctrl('g') if self.options.editor.is_some() => {
                let text = self.editor.text().to_owned();
                match self.edit_externally(&text) {
                    Ok(text) => self.editor.set(text.trim_end()),
                    Err(error) => self.hint = Some(format!("the editor could not be used: {error}")),
                }
            }
            TerminalKey::Ctrl('p') => self.older(),
            TerminalKey::Ctrl('n') => self.newer(),
            TerminalKey::Up | TerminalKey::Down => {
                if self.editor.apply(key) == EditOutcome::Nothing {
                    if *key == TerminalKey::Up { self.older() } else { self.newer() }
                }
            }
            key => {
                if self.editor.apply(key) == EditOutcome::Edited
                    && !matches!(key, TerminalKey::Left | TerminalKey::Right)
                {
                    self.history.reset_position();
                }
            }
        }
    }

    fn older(&mut self) {
        let now = self.editor.text().to_owned();
        if let Some(text) = self.history.older(&now) {
            let text = text.to_owned();
            self.editor.set(text);
        }
    }

    fn newer(&mut self) {
        if let Some(text) = self.history.newer() {
            self.editor.set(text);
        }
    }

    fn submit(&mut self) {
        let text = self.editor.text().trim_end().to_owned();
        if text.trim().is_empty() {
            return;
        }
        match parse_line(&text, &self.options.commands) {
            LineMeaning::Words => {
                if self.transcript.is_busy() {
                    self.transcript.queue_message(&text);
                }
                self.send_input(UserInput::Words(text.clone()));
            }
            LineMeaning::Command { name, .. } if name == "exit" => self.send_input(UserInput::Leave),
            LineMeaning::Command { name, rest } => {
                self.transcript.note(Line::from_text(&format!("> {text}"), Style::BOLD));
                match name.as_str() {
                    "help" => self.help(),
                    _ => self.send_input(UserInput::Command { name, rest }),
                }
            }
            LineMeaning::Unknown(name) => {
                let names: Vec<String> =
                    self.options.commands.iter().map(|command| format!("/{}", command.name)).collect();
                self.hint = Some(format!("no command `/{name}`; there are {}", names.join(" ")));
                return;
            }
        }
        self.history.add(&text);
        self.editor.take();
    }

    fn help(&mut self) {
        let mut lines = vec![Line::from_text("  commands", Style::BOLD)];
        for command in &self.options.commands {
            lines.push(Line::plain(&format!("    /{:14} {}", command.name, command.description)));
        }
        lines.push(Line::from_text("  keys", Style::BOLD));
        let editor_key = ("ctrl-g", "opens your editor");
        let keys = [
            ("enter", "sends; while calls run, the words go in with their results"),
            ("alt-enter", "makes a line more, and so does \\ at the end of a line"),
            ("↑ ↓", "what was typed before"),
            ("shift-tab", "the next permission mode"),
            ("ctrl-c", "stops what may be stopped; a second time, everything"),
            ("ctrl-o", "shows all of the last result"),
            ("ctrl-d", "leaves"),
        ];
        for (key, does) in keys.into_iter().chain(self.options.editor.is_some().then_some(editor_key)) {
            lines.push(Line::plain(&format!("    {key:15} {does}")));
        }
        self.transcript.notes(lines);
    }

    /// Prints the last folded result in full.
    fn unfold(&mut self) {
        match self.transcript.take_folded() {
            Some(view) => {
                self.transcript.note(Line::from_text(&format!("  {}", view.title), Style::BOLD));
                let lines = fold_body(&view, self.transcript.columns(), UNFOLDED_LINES_MAX).with_count(6, "");
                self.transcript.notes(lines);
            }
            None => self.hint = Some("nothing is folded".to_owned()),
        }
    }

    fn interrupt(&mut self) {
        self.needs_redraw = true;
        if let Some(panel) = self.panels.front_mut().filter(|panel| panel.is_typing()) {
            return panel.return_to_list();
        }
        if self.transcript.is_busy() {
            self.interrupts += 1;
            return self.send_input(UserInput::Interrupt(self.interrupts));
        }
        if !self.editor.is_empty() {
            self.editor.take();
            self.interrupts = 0;
            return;
        }
        self.interrupts += 1;
        if self.interrupts > 1 {
            self.send_input(UserInput::Leave);
        } else {
            self.hint = Some("ctrl-c again leaves, and so do ctrl-d and /exit".to_owned());
        }
    }

    fn send_input(&mut self, typed: UserInput) {
        if self.typed.try_send(typed).is_err() {
            self.hint = Some("the input was dropped: too much is queued".to_owned());
        }
    }

    fn take_notes(&mut self, now: Instant) {
        let batch = self.inbox.take();
        for note in batch.notes {
            match note {
                ScreenNote::Event(event) => {
                    if matches!(event, RunEvent::Asked { .. } | RunEvent::Ended { .. }) {
                        self.allowed_kind = None;
                    }
                    let was_busy = self.transcript.is_busy();
                    self.transcript.event(event, now);
                    if was_busy && !self.transcript.is_busy() {
                        self.interrupts = 0;
                    }
                }
                ScreenNote::OpenPrompt(ask) if self.input_ended => drop(ask),
                ScreenNote::OpenPrompt(ask) => self.add_panel(PromptPanel::new(ask)),
                ScreenNote::Withdrawn(id) => self.panels.retain(|panel| panel.id() != id),
                ScreenNote::ScreenChange(change) => self.apply_change(change),
            }
        }
        if batch.lost_bytes > 0 {
            let message =
                format!("{} bytes are not shown: the terminal was too slow", thousands(batch.lost_bytes));
            self.transcript.note_text(&message, Style::WARNING);
        }
        if batch.lost_events > 0 {
            let message =
                format!("{} events are not shown: the terminal was too slow", thousands(batch.lost_events));
            self.transcript.note_text(&message, Style::WARNING);
        }
        self.transcript.refresh_partial_views(now);
    }

    /// Shows a question, unless the user has allowed all of its kind.
    fn add_panel(&mut self, panel: PromptPanel) {
        if self.allowed_kind.is_some() && panel.kind() == self.allowed_kind {
            let line =
                panel.answer(PanelReply::Approval(haft::ports::ApprovalAnswer::Once), self.transcript.cwd());
            line.into_iter().for_each(|line| self.transcript.note(line));
        } else {
            self.panels.push_back(panel);
        }
    }

    /// Returns the prompts that can be answered together with the current one.
    fn pending_prompts(&self) -> PendingPrompts {
        let Some(first) = self.panels.front().filter(|panel| panel.is_approval()) else {
            return PendingPrompts::default();
        };
        let asked = self.panels.iter().filter(|panel| panel.is_approval()).count() - 1;
        let coming = match (first.kind(), first.tool()) {
            (Some(_), Some(tool)) => self.transcript.upcoming_calls(tool),
            _ => 0,
        };
        PendingPrompts { asked, coming }
    }

    fn apply_change(&mut self, change: ScreenChange) {
        match change {
            ScreenChange::Print(lines) => self.transcript.notes(lines),
            ScreenChange::Markdown(text) => {
                let mut lines = Vec::new();
                let mut markdown = MarkdownWriter::new(self.transcript.columns(), Line::plain("  "));
                markdown.push(&text, &mut lines);
                markdown.finish(&mut lines);
                self.transcript.notes(lines);
            }
            ScreenChange::Mode(name) => self.mode = name,
            ScreenChange::Footer(message) => self.footer = message,
            ScreenChange::ToolViews(views) => self.transcript.set_views(views),
            ScreenChange::Clear => {
                let _ = self.tty.write("\x1b[2J\x1b[H");
                self.painter = FramePainter::new(self.options.color_mode);
            }
            ScreenChange::Close => self.closing = true,
        }
    }

    fn draw(&mut self, now: Instant) -> io::Result<()> {
        // The signal may arrive after the new size is in effect.
        self.resize()?;
        let finished = self.transcript.take();
        let pending = self.pending_prompts();
        if let Some(panel) = self.panels.front_mut() {
            panel.pending = pending;
        }
        let live = self.compose(now);
        let mut out = String::new();
        self.painter.frame(&finished, live, &mut out);
        self.tty.write_frame(&out, self.painter.above_cursor())?;
        self.drawn = Some(now);
        self.needs_redraw = false;
        if self.panels.front().is_some_and(|panel| panel.shown_since.is_none()) {
            self.mark_question_shown();
        }
        Ok(())
    }

    /// Marks the question as shown. Input that is available now was typed before, for something
    /// else.
    fn mark_question_shown(&mut self) {
        loop {
            let mut fds = [PollFd::from_borrowed_fd(self.tty.input(), PollFlags::IN)];
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            let there = !self.input_ended && poll(&mut fds, Some(&none)).is_ok_and(|count| count > 0);
            if !there || !self.read_keys() {
                break;
            }
        }
        if let Some(panel) = self.panels.front_mut() {
            panel.shown_since = Some(Instant::now());
        }
    }

    /// Returns the keys that answer a question now.
    fn accepted_keys(&self, panel: &PromptPanel, now: Instant) -> AnswerKeys {
        match is_shown_long_enough(panel, now) {
            false => AnswerKeys::Nothing,
            true if self.editor.is_empty() => AnswerKeys::Digits,
            true => AnswerKeys::Arrows,
        }
    }
}

/// Returns whether a question was visible long enough for a key to be its answer.
fn is_shown_long_enough(panel: &PromptPanel, now: Instant) -> bool {
    panel.shown_since.is_some_and(|seen| now.saturating_duration_since(seen) >= QUESTION_SEEN)
}
