//! Composes the live region, from top to bottom: the open part of the run, a question or the run's
//! activity, the input line, and a status line. It is never higher than the terminal.

use std::time::Instant;

use super::ScreenThread;
use crate::frame_painter::LiveRegion;
use crate::limits::SPIN;
use crate::style::{Line, Style};

impl ScreenThread {
    /// Returns the current live region.
    pub(super) fn compose(&self, now: Instant) -> LiveRegion {
        if self.closing {
            return LiveRegion::default();
        }
        let columns = self.columns();
        let height = self.size.0.saturating_sub(1).max(3);
        let spin = (now.saturating_duration_since(self.began).as_millis() / SPIN.as_millis()) as usize;
        let (input, at) = self.input(columns, height);
        let status_lines = self.status_lines(columns);
        let left = height.saturating_sub(input.len() + status_lines.len());

        let mut cursor_in_panel = None;
        let middle = match self.panels.front() {
            Some(panel) => {
                let accepted_keys = self.accepted_keys(panel, now);
                let (lines, cursor) = panel.lines(columns, left.max(1), accepted_keys, self.transcript.cwd());
                cursor_in_panel = cursor;
                lines
            }
            None => self.activity_lines(now, spin, columns),
        };
        let asked = self.panels.front().and_then(|panel| panel.call_id());
        let above = self.transcript.live_lines(now, spin, left.saturating_sub(middle.len() + 1), asked);

        let mut lines = above;
        if !lines.is_empty() || self.transcript.has_output() {
            lines.push(Line::default());
        }
        let panel_at = lines.len();
        lines.extend(middle);
        let input_at = lines.len();
        lines.extend(input);
        lines.extend(status_lines);
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

    fn activity_lines(&self, now: Instant, spin: usize, columns: usize) -> Vec<Line> {
        let Some(segments) = self.transcript.status_text(now) else { return Vec::new() };
        let running = self.transcript.running();
        let mut line = Line::default();
        match self.interrupts {
            0 => {
                const DOTS: [&str; 4] = ["·  ", "·· ", "···", "   "];
                line.push(&format!("  {} ", DOTS[spin / 3 % DOTS.len()]), Style::ACTIVITY);
                line.push(&segments, Style::DIM);
                line.push(" · ctrl-c stops", Style::DIM);
            }
            1 if running.is_empty() => line.push("  stopping; ctrl-c again forces it", Style::WARNING),
            1 => {
                let tools = running.join(", ");
                line.push(
                    &format!("  stopping; still running: {tools}; ctrl-c again stops it by force"),
                    Style::WARNING,
                );
            }
            _ => line.push("  stopping by force", Style::WARNING),
        }
        vec![line.truncate_to(columns)]
    }

    fn status_lines(&self, columns: usize) -> Vec<Line> {
        let mut line = Line::default();
        match &self.hint {
            Some(hint) => line.push(&format!("  {hint}"), Style::WARNING),
            None => {
                let mut segments: Vec<String> = Vec::new();
                if !self.mode.is_empty() {
                    segments.push(format!("mode {}", self.mode));
                }
                if !self.footer.is_empty() {
                    segments.push(self.footer.clone());
                }
                segments.push(
                    if self.mode.is_empty() { "/help" } else { "shift-tab changes the mode · /help" }
                        .to_owned(),
                );
                line.push(&format!("  {}", segments.join(" · ")), Style::DIM);
            }
        }
        vec![line.truncate_to(columns)]
    }
}
