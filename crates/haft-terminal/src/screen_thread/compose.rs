//! The live part of the screen, from top to bottom: what is open of the run, a question or what the run is doing, the
//! input line, and one line about the session. It never has more lines than the terminal.

use std::time::Instant;

use super::ScreenThread;
use crate::frame_painter::LiveRegion;
use crate::limits::SPIN;
use crate::style::{Line, Style};

impl ScreenThread {
    /// What is to be seen now.
    pub(super) fn compose(&self, now: Instant) -> LiveRegion {
        if self.closing {
            return LiveRegion::default();
        }
        let columns = self.columns();
        let height = self.size.0.saturating_sub(1).max(3);
        let spin = (now.saturating_duration_since(self.began).as_millis() / SPIN.as_millis()) as usize;
        let (input, at) = self.input(columns, height);
        let foot = self.foot(columns);
        let left = height.saturating_sub(input.len() + foot.len());

        let mut cursor_in_panel = None;
        let middle = match self.panels.front() {
            Some(panel) => {
                let accepts = self.accepts(panel, now);
                let (lines, cursor) = panel.lines(columns, left.max(1), accepts, self.story.cwd());
                cursor_in_panel = cursor;
                lines
            }
            None => self.doing(now, spin, columns),
        };
        let asked = self.panels.front().and_then(|panel| panel.call_id());
        let above = self.story.live(now, spin, left.saturating_sub(middle.len() + 1), asked);

        let mut lines = above;
        if !lines.is_empty() || self.story.has_told() {
            lines.push(Line::default());
        }
        let panel_at = lines.len();
        lines.extend(middle);
        let input_at = lines.len();
        lines.extend(input);
        lines.extend(foot);
        let cursor = match cursor_in_panel {
            Some((row, column)) => (panel_at + row, column),
            None => (input_at + at.0, at.1),
        };
        let over = lines.len().saturating_sub(height);
        lines.drain(..over);
        LiveRegion { lines, cursor: (cursor.0.saturating_sub(over), cursor.1) }
    }

    fn input(&self, columns: usize, height: usize) -> (Vec<Line>, (usize, usize)) {
        let (text, (row, column)) = self.editor.lay_out(columns.saturating_sub(2));
        let most = (height / 3).max(1);
        let first = (row + 1).saturating_sub(most);
        let mut lines = Vec::new();
        for (at, line) in text.iter().enumerate().skip(first).take(most) {
            let mark = if at == 0 { "> " } else { "  " };
            let mut shown = Line::from_text(mark, Style::BOLD);
            shown.append(line);
            lines.push(shown);
        }
        (lines, (row - first, column + 2))
    }

    fn doing(&self, now: Instant, spin: usize, columns: usize) -> Vec<Line> {
        let Some(words) = self.story.doing(now) else { return Vec::new() };
        let running = self.story.running();
        let mut line = Line::default();
        match self.interrupts {
            0 => {
                const DOTS: [&str; 4] = ["·  ", "·· ", "···", "   "];
                line.push(&format!("  {} ", DOTS[spin / 3 % DOTS.len()]), Style::MOVES);
                line.push(&words, Style::DIM);
                line.push(" · ctrl-c stops", Style::DIM);
            }
            1 if running.is_empty() => line.push("  stopping; ctrl-c again forces it", Style::WARNS),
            1 => {
                let tools = running.join(", ");
                line.push(
                    &format!("  stopping; still running: {tools}; ctrl-c again stops it by force"),
                    Style::WARNS,
                );
            }
            _ => line.push("  stopping by force", Style::WARNS),
        }
        vec![line.cut(columns)]
    }

    fn foot(&self, columns: usize) -> Vec<Line> {
        let mut line = Line::default();
        match &self.hint {
            Some(hint) => line.push(&format!("  {hint}"), Style::WARNS),
            None => {
                let mut words: Vec<String> = Vec::new();
                if !self.mode.is_empty() {
                    words.push(format!("mode {}", self.mode));
                }
                if !self.footer.is_empty() {
                    words.push(self.footer.clone());
                }
                words.push(
                    if self.mode.is_empty() { "/help" } else { "shift-tab changes the mode · /help" }
                        .to_owned(),
                );
                line.push(&format!("  {}", words.join(" · ")), Style::DIM);
            }
        }
        vec![line.cut(columns)]
    }
}
