//! The thread that draws and reads keys: one place that waits, one state, one write for each frame.
//!
//! It waits for keys, for what is sent to it, for signals and for the time of the next frame. Keys are drawn at once,
//! events at most thirty times a second, all that came since the last frame together. A question counts as seen only after
//! the frame that shows it was written and everything was read that had been typed before; until then, and for a moment
//! more, keys go to the input line, where nothing happens by accident. A digit that comes with other text in one read, or
//! right after it, is text: it is how a paste arrives from a terminal that doesn't mark pastes.

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

use crate::folded_lines::body;
use crate::frame_painter::FramePainter;
use crate::history::InputHistory;
use crate::inbox::{ScreenInbox, ScreenNote};
use crate::key_decoder::{KeyDecoder, TerminalKey};
use crate::limits::{ESCAPE_WAIT, FRAME, QUESTION_SEEN, SPIN, UNFOLDED_LINES_MAX};
use crate::line_editor::{EditOutcome, LineEditor};
use crate::markdown::MarkdownWriter;
use crate::question::{AnswerKeys, KeyContext, PanelAction, PanelReply, PendingPrompts, PromptPanel, Yes};
use crate::raw_terminal::{RawTerminal, SignalFlags, can_stop};
use crate::screen::{ScreenChange, ScreenOptions};
use crate::style::{Line, Style};
use crate::text::thousands;
use crate::transcript::RunTranscript;
use crate::user_input::{LineMeaning, UserInput, completed, meant};

/// The whole screen.
pub(crate) struct ScreenThread {
    tty: RawTerminal,
    signals: SignalFlags,
    wake: io::PipeReader,
    inbox: Arc<ScreenInbox>,
    typed: mpsc::Sender<UserInput>,
    options: ScreenOptions,
    painter: FramePainter,
    story: RunTranscript,
    decoder: KeyDecoder,
    editor: LineEditor,
    history: InputHistory,
    panels: VecDeque<PromptPanel>,
    /// The kind of question that the user has said yes to for the rest of this message.
    alike: Option<(String, String)>,
    mode: String,
    footer: String,
    /// What is said below the input until the next key.
    hint: Option<String>,
    /// The keys being handled were read together and are a text.
    reads_text: bool,
    /// When the last text went to the input line.
    text_typed: Option<Instant>,
    /// How often Ctrl-C was pressed in this run, or on an empty line.
    interrupts: u32,
    /// Lines and columns of the terminal.
    size: (usize, usize),
    began: Instant,
    drawn: Option<Instant>,
    /// Something changed since.
    stale: bool,
    /// When a key began that isn't whole.
    half_key: Option<Instant>,
    keys_end: bool,
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
        let mut story = RunTranscript::new(size.1.saturating_sub(1).max(10), options.cwd(), now);
        if options.hide_first_words {
            story.hide_said();
        }
        ScreenThread {
            painter: FramePainter::new(options.look),
            history: InputHistory::new(options.history.clone()),
            story,
            tty,
            signals,
            wake,
            inbox,
            typed,
            options,
            decoder: KeyDecoder::default(),
            editor: LineEditor::default(),
            panels: VecDeque::new(),
            alike: None,
            mode: String::new(),
            footer: String::new(),
            hint: None,
            reads_text: false,
            text_typed: None,
            interrupts: 0,
            size,
            began: now,
            drawn: None,
            stale: true,
            half_key: None,
            keys_end: false,
            closing: false,
        }
    }

    /// Until the screen is closed, or the terminal is gone.
    pub(crate) fn run(mut self) {
        let ended = self.go();
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

    fn go(&mut self) -> io::Result<()> {
        loop {
            let (keys, woken, signalled) = self.wait()?;
            if woken {
                // One byte stands for everything that came.
                let _ = io::Read::read(&mut self.wake, &mut [0; 64]);
                self.stale = true;
            }
            if signalled {
                self.signalled()?;
            }
            let mut at_once = false;
            if keys {
                at_once = self.read_keys();
            }
            at_once |= self.settle_keys();
            let now = Instant::now();
            let due = self.drawn.is_none_or(|drawn| now >= drawn + FRAME);
            if at_once || (due && (self.stale || self.is_moving(now))) {
                self.take_notes(now);
                self.draw(now)?;
            }
            if self.closing {
                return Ok(());
            }
        }
    }

    /// What is there: keys, notes, signals.
    fn wait(&self) -> io::Result<(bool, bool, bool)> {
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.pipe(), PollFlags::IN),
        ];
        if !self.keys_end {
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

    /// How long nothing has to be done by itself.
    fn timeout(&self) -> Option<Duration> {
        let now = Instant::now();
        let drawn = self.drawn.unwrap_or(now);
        let until = |at: Instant| at.saturating_duration_since(now);
        let mut waits = Vec::with_capacity(4);
        if self.stale {
            waits.push(until(drawn + FRAME));
        }
        if self.story.is_busy() {
            waits.push(until(drawn + SPIN));
        }
        if let Some(seen) = self.panels.front().and_then(|panel| panel.seen)
            && drawn < seen + QUESTION_SEEN
        {
            waits.push(until(seen + QUESTION_SEEN).max(until(drawn + FRAME)));
        }
        if let Some(began) = self.half_key {
            waits.push(until(began + ESCAPE_WAIT));
        }
        waits.into_iter().min()
    }

    /// Whether the screen changes without anything having happened.
    fn is_moving(&self, now: Instant) -> bool {
        let drawn = self.drawn.unwrap_or(now);
        let spins = self.story.is_busy() && now >= drawn + SPIN;
        let seen = self.panels.front().and_then(|panel| panel.seen).map(|seen| seen + QUESTION_SEEN);
        spins || seen.is_some_and(|at| drawn < at && now >= at)
    }

    fn signalled(&mut self) -> io::Result<()> {
        for signal in self.signals.raised() {
            match signal {
                SIGWINCH => self.resize()?,
                SIGTSTP => self.stop()?,
                SIGCONT => self.again()?,
                SIGINT => self.interrupt(),
                end => {
                    self.close_for_good();
                    let _ = signal_hook::low_level::emulate_default_handler(end);
                }
            }
        }
        Ok(())
    }

    fn close_for_good(&mut self) {
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
            self.story.resize(self.columns());
            self.stale = true;
        }
        Ok(())
    }

    /// Columns that are used: the last one stays empty, since what is written there leaves the cursor in doubt.
    fn columns(&self) -> usize {
        self.size.1.saturating_sub(1).max(10)
    }

    /// Stops, as a shell expects it; goes on at SIGCONT.
    fn stop(&mut self) -> io::Result<()> {
        if !can_stop() {
            return Ok(());
        }
        let mut out = String::new();
        self.painter.clear(&mut out);
        self.tty.write(&out)?;
        self.tty.leave();
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        self.again()
    }

    fn again(&mut self) -> io::Result<()> {
        self.tty.enter()?;
        self.resize()?;
        self.stale = true;
        self.drawn = None;
        Ok(())
    }

    /// Reads what was typed; whether something was.
    fn read_keys(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.tty.read(&mut bytes) {
            Ok(0) => self.keys_are_over(),
            Ok(count) => {
                let mut keys = Vec::new();
                self.decoder.feed(&bytes[..count], &mut keys);
                self.half_key = self.decoder.is_waiting().then(Instant::now);
                self.reads_text = keys.iter().filter(|key| key.is_text()).count() > 1;
                keys.iter().for_each(|key| self.key(key));
                self.reads_text = false;
                return !keys.is_empty();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.keys_are_over(),
        }
        false
    }

    fn keys_are_over(&mut self) {
        self.keys_end = true;
        // Nobody can answer any more: those who ask get a no.
        self.panels.clear();
        self.send(UserInput::Leave);
    }

    fn settle_keys(&mut self) -> bool {
        if self.half_key.is_none_or(|began| began.elapsed() < ESCAPE_WAIT) {
            return false;
        }
        self.half_key = None;
        let mut keys = Vec::new();
        self.decoder.settle(&mut keys);
        keys.iter().for_each(|key| self.key(key));
        true
    }

    fn key(&mut self, key: &TerminalKey) {
        self.stale = true;
        if *key == TerminalKey::Ctrl('c') {
            return self.interrupt();
        }
        if !matches!(key, TerminalKey::Unknown) {
            self.hint = None;
            if !self.story.is_busy() {
                self.interrupts = 0;
            }
        }
        match key {
            TerminalKey::Ctrl('z') => {
                if can_stop()
                    && rustix::process::kill_current_process_group(rustix::process::Signal::TSTP).is_err()
                {
                    self.hint = Some("this program can't be stopped here".to_owned());
                }
                return;
            }
            TerminalKey::Ctrl('l') => {
                let _ = self.tty.write("\x1b[2J\x1b[H");
                self.painter = FramePainter::new(self.options.look);
                return;
            }
            _ => {}
        }
        if self.panels.front().is_some_and(|panel| is_seen(panel, Instant::now())) {
            return self.panel_key(key);
        }
        self.input_key(key);
    }

    fn panel_key(&mut self, key: &TerminalKey) {
        let context = self.key_context(Instant::now());
        let Some(panel) = self.panels.front_mut() else { return };
        // In a text of several lines the arrows move the cursor.
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
                let lines = panel.whole(self.story.columns(), self.story.cwd());
                self.story.notes(lines);
            }
            PanelAction::Outside(text) => {
                let edited = self.outside(&text).map_err(|error| error.to_string());
                if let Some(panel) = self.panels.front_mut() {
                    panel.edited(edited);
                }
            }
        }
    }

    fn key_context(&self, now: Instant) -> KeyContext {
        let recent = |at: Instant| now.saturating_duration_since(at) < QUESTION_SEEN;
        KeyContext {
            has_editor: self.options.editor.is_some(),
            line_is_empty: self.editor.is_empty(),
            in_text: self.reads_text || self.text_typed.is_some_and(recent),
        }
    }

    fn answer(&mut self, reply: PanelReply) {
        if let Some(panel) = self.panels.pop_front() {
            let line = panel.answer(reply, self.story.cwd());
            line.into_iter().for_each(|line| self.story.note(line));
        }
    }

    /// The same for all; a yes leaves those that destroy something to be answered one by one.
    fn answer_all(&mut self, yes: Yes) {
        if yes == Yes::Yes {
            self.alike = self.panels.front().and_then(PromptPanel::kind);
        }
        for panel in std::mem::take(&mut self.panels) {
            let fits = match yes {
                Yes::Yes => panel.is_harmless_approval(),
                Yes::No => panel.is_approval(),
            };
            if fits {
                let answer = match yes {
                    Yes::Yes => haft::ports::Answer::Once,
                    Yes::No => haft::ports::Answer::No,
                };
                let line = panel.answer(PanelReply::Approval(answer), self.story.cwd());
                line.into_iter().for_each(|line| self.story.note(line));
            } else {
                self.panels.push_back(panel);
            }
        }
        if yes == Yes::Yes && !self.panels.is_empty() {
            self.hint = Some("what destroys something is answered one by one".to_owned());
        }
    }

    fn outside(&mut self, text: &str) -> io::Result<String> {
        let Some(editor) = self.options.editor.clone() else { return Ok(text.to_owned()) };
        let mut out = String::new();
        self.painter.clear(&mut out);
        self.tty.write(&out)?;
        self.tty.leave();
        let edited = editor(text);
        self.again()?;
        edited
    }

    fn input_key(&mut self, key: &TerminalKey) {
        if key.is_text() {
            self.text_typed = Some(Instant::now());
        }
        match key {
            TerminalKey::Enter if self.editor.ends_with_backslash() => {
                self.editor.apply(&TerminalKey::Backspace);
                self.editor.apply(&TerminalKey::NewLine);
            }
            TerminalKey::Enter => self.submit(),
            TerminalKey::Ctrl('d') if self.editor.is_empty() => self.send(UserInput::Leave),
            TerminalKey::BackTab => self.send(UserInput::NextMode),
            TerminalKey::Tab => {
                if let Some(text) = completed(self.editor.text(), &self.options.commands) {
                    self.editor.set(text);
                }
            }
            TerminalKey::Ctrl('o') => self.unfold(),
            TerminalKey::Ctrl('g') if self.options.editor.is_some() => {
                let text = self.editor.text().to_owned();
                match self.outside(&text) {
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
                    self.history.leave();
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
        match meant(&text, &self.options.commands) {
            LineMeaning::Words => {
                if self.story.is_busy() {
                    self.story.wait(&text);
                }
                self.send(UserInput::Words(text.clone()));
            }
            LineMeaning::Command { name, .. } if name == "exit" => self.send(UserInput::Leave),
            LineMeaning::Command { name, rest } => {
                self.story.note(Line::from_text(&format!("> {text}"), Style::BOLD));
                match name.as_str() {
                    "help" => self.help(),
                    _ => self.send(UserInput::Command { name, rest }),
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
            lines.push(Line::plain(&format!("    /{:14} {}", command.name, command.does)));
        }
        lines.push(Line::from_text("  keys", Style::BOLD));
        let outside = ("ctrl-g", "opens your editor");
        let keys = [
            ("enter", "sends; while calls run, the words go in with their results"),
            ("alt-enter", "makes a line more, and so does \\ at the end of a line"),
            ("↑ ↓", "what was typed before"),
            ("shift-tab", "the next permission mode"),
            ("ctrl-c", "stops what may be stopped; a second time, everything"),
            ("ctrl-o", "shows all of the last result"),
            ("ctrl-d", "leaves"),
        ];
        for (key, does) in keys.into_iter().chain(self.options.editor.is_some().then_some(outside)) {
            lines.push(Line::plain(&format!("    {key:15} {does}")));
        }
        self.story.notes(lines);
    }

    /// Shows all of the last result that was folded.
    fn unfold(&mut self) {
        match self.story.take_folded() {
            Some(view) => {
                self.story.note(Line::from_text(&format!("  {}", view.title), Style::BOLD));
                let lines = body(&view, self.story.columns(), UNFOLDED_LINES_MAX).with_count(6, "");
                self.story.notes(lines);
            }
            None => self.hint = Some("nothing is folded".to_owned()),
        }
    }

    fn interrupt(&mut self) {
        self.stale = true;
        if let Some(panel) = self.panels.front_mut().filter(|panel| panel.is_typing()) {
            return panel.back();
        }
        if self.story.is_busy() {
            self.interrupts += 1;
            return self.send(UserInput::Interrupt(self.interrupts));
        }
        if !self.editor.is_empty() {
            self.editor.take();
            self.interrupts = 0;
            return;
        }
        self.interrupts += 1;
        if self.interrupts > 1 {
            self.send(UserInput::Leave);
        } else {
            self.hint = Some("ctrl-c again leaves, and so do ctrl-d and /exit".to_owned());
        }
    }

    fn send(&mut self, typed: UserInput) {
        if self.typed.try_send(typed).is_err() {
            self.hint = Some("nobody listens at the moment".to_owned());
        }
    }

    fn take_notes(&mut self, now: Instant) {
        let taken = self.inbox.take();
        for note in taken.notes {
            match note {
                ScreenNote::Event(event) => {
                    if matches!(event, RunEvent::Asked { .. } | RunEvent::Ended { .. }) {
                        self.alike = None;
                    }
                    let was_busy = self.story.is_busy();
                    self.story.event(event, now);
                    if was_busy && !self.story.is_busy() {
                        self.interrupts = 0;
                    }
                }
                ScreenNote::OpenPrompt(ask) if self.keys_end => drop(ask),
                ScreenNote::OpenPrompt(ask) => self.ask(PromptPanel::new(ask)),
                ScreenNote::Withdrawn(id) => self.panels.retain(|panel| panel.id() != id),
                ScreenNote::ScreenChange(change) => self.change(change),
            }
        }
        if taken.lost_bytes > 0 {
            let words =
                format!("{} bytes are not shown: the terminal was too slow", thousands(taken.lost_bytes));
            self.story.words(&words, Style::WARNS);
        }
        if taken.lost_events > 0 {
            let words =
                format!("{} events are not shown: the terminal was too slow", thousands(taken.lost_events));
            self.story.words(&words, Style::WARNS);
        }
        self.story.look(now);
    }

    /// Asks, unless the user has answered all that are alike.
    fn ask(&mut self, panel: PromptPanel) {
        if self.alike.is_some() && panel.kind() == self.alike {
            let line = panel.answer(PanelReply::Approval(haft::ports::Answer::Once), self.story.cwd());
            line.into_iter().for_each(|line| self.story.note(line));
        } else {
            self.panels.push_back(panel);
        }
    }

    /// What could be answered together with the question that is asked.
    fn others(&self) -> PendingPrompts {
        let Some(first) = self.panels.front().filter(|panel| panel.is_approval()) else {
            return PendingPrompts::default();
        };
        let asked = self.panels.iter().filter(|panel| panel.is_approval()).count() - 1;
        let coming = match (first.kind(), first.tool()) {
            (Some(_), Some(tool)) => self.story.coming(tool),
            _ => 0,
        };
        PendingPrompts { asked, coming }
    }

    fn change(&mut self, change: ScreenChange) {
        match change {
            ScreenChange::Print(lines) => self.story.notes(lines),
            ScreenChange::MarkdownWriter(text) => {
                let mut lines = Vec::new();
                let mut markdown = MarkdownWriter::new(self.story.columns(), Line::plain("  "));
                markdown.push(&text, &mut lines);
                markdown.finish(&mut lines);
                self.story.notes(lines);
            }
            ScreenChange::Mode(name) => self.mode = name,
            ScreenChange::Footer(words) => self.footer = words,
            ScreenChange::ToolViews(views) => self.story.set_views(views),
            ScreenChange::Clear => {
                let _ = self.tty.write("\x1b[2J\x1b[H");
                self.painter = FramePainter::new(self.options.look);
            }
            ScreenChange::Close => self.closing = true,
        }
    }

    fn draw(&mut self, now: Instant) -> io::Result<()> {
        // A signal may come later than the size that it tells of.
        self.resize()?;
        let finished = self.story.take();
        let others = self.others();
        if let Some(panel) = self.panels.front_mut() {
            panel.others = others;
        }
        let live = self.compose(now);
        let mut out = String::new();
        self.painter.frame(&finished, live, &mut out);
        self.tty.write_frame(&out, self.painter.above_cursor())?;
        self.drawn = Some(now);
        self.stale = false;
        if self.panels.front().is_some_and(|panel| panel.seen.is_none()) {
            self.see_question();
        }
        Ok(())
    }

    /// The question is on the screen now. What is there already was typed before, for something else.
    fn see_question(&mut self) {
        loop {
            let mut fds = [PollFd::from_borrowed_fd(self.tty.input(), PollFlags::IN)];
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            let there = !self.keys_end && poll(&mut fds, Some(&none)).is_ok_and(|count| count > 0);
            if !there || !self.read_keys() {
                break;
            }
        }
        if let Some(panel) = self.panels.front_mut() {
            panel.seen = Some(Instant::now());
        }
    }

    /// Which keys answer a question.
    fn accepts(&self, panel: &PromptPanel, now: Instant) -> AnswerKeys {
        match is_seen(panel, now) {
            false => AnswerKeys::Nothing,
            true if self.editor.is_empty() => AnswerKeys::Digits,
            true => AnswerKeys::Arrows,
        }
    }
}

/// Whether a question was on the screen long enough for a key to be its answer.
fn is_seen(panel: &PromptPanel, now: Instant) -> bool {
    panel.seen.is_some_and(|seen| now.saturating_duration_since(seen) >= QUESTION_SEEN)
}
