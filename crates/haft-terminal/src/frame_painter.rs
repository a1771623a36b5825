//! Draws frames: finished lines scroll away above, and the live region below them is redrawn in
//! place.
//!
//! A frame is one write. It uses synchronized output, hides the cursor, and disables wrapping, so a
//! character that the terminal considers wider than we do costs a column and not the layout. If
//! only some live lines changed, only those are written. All movement is relative to the cursor:
//! the painter never needs the region's position on the screen.

use std::fmt::Write as _;

use crate::style::{ColorMode, Line};

/// Starts a synchronized frame; hides the cursor and disables wrapping.
const BEGIN: &str = "\x1b[?2026h\x1b[?25l\x1b[?7l";
const END: &str = "\x1b[?7h\x1b[?25h\x1b[?2026l";

/// The region below the finished lines.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct LiveRegion {
    pub(crate) lines: Vec<Line>,
    /// The row and column of the cursor.
    pub(crate) cursor: (usize, usize),
}

/// Draws frames and remembers what is on the terminal.
pub(crate) struct FramePainter {
    color_mode: ColorMode,
    shown: LiveRegion,
}

impl FramePainter {
    pub(crate) fn new(color_mode: ColorMode) -> FramePainter {
        FramePainter { color_mode, shown: LiveRegion::default() }
    }

    /// Returns how many lines of the live region are above the cursor.
    pub(crate) fn above_cursor(&self) -> usize {
        self.shown.cursor.0
    }

    /// Writes the bytes that update the terminal; nothing if it is up to date. Lines must be
    /// narrower than the terminal, and the live region must be lower.
    pub(crate) fn frame(&mut self, finished: &[Line], live: LiveRegion, out: &mut String) {
        if finished.is_empty() && live == self.shown {
            return;
        }
        out.push_str(BEGIN);
        if finished.is_empty() && live.lines.len() == self.shown.lines.len() {
            self.changed_lines(&live, out);
        } else {
            self.to_top(out);
            for line in finished {
                line.write(self.color_mode, out);
                out.push_str("\x1b[K\r\n");
            }
            for (at, line) in live.lines.iter().enumerate() {
                if at > 0 {
                    out.push_str("\r\n");
                }
                line.write(self.color_mode, out);
                out.push_str("\x1b[K");
            }
            out.push_str("\x1b[J");
            let last = live.lines.len().saturating_sub(1);
            move_to(last, live.cursor, out);
        }
        out.push_str(END);
        self.shown = live;
    }

    fn changed_lines(&self, live: &LiveRegion, out: &mut String) {
        let mut at = self.shown.cursor.0;
        for (number, (new, old)) in live.lines.iter().zip(&self.shown.lines).enumerate() {
            if new != old {
                move_to(at, (number, 0), out);
                new.write(self.color_mode, out);
                out.push_str("\x1b[K");
                at = number;
            }
        }
        move_to(at, live.cursor, out);
    }

    fn to_top(&self, out: &mut String) {
        move_to(self.shown.cursor.0, (0, 0), out);
    }

    /// Removes the live region; the next output starts where it began.
    pub(crate) fn clear(&mut self, out: &mut String) {
        out.push_str(BEGIN);
        self.to_top(out);
        out.push_str("\x1b[J");
        out.push_str(END);
        self.shown = LiveRegion::default();
    }

    /// Removes the live region after a resize, which has rewrapped its lines.
    pub(crate) fn resized(&mut self, columns: usize, out: &mut String) {
        let columns = columns.max(1);
        let (row, column) = self.shown.cursor;
        let rows = |line: &Line| line.width().max(1).div_ceil(columns);
        let above: usize = self.shown.lines.iter().take(row).map(rows).sum::<usize>() + column / columns;
        self.shown.cursor = (above, 0);
        self.clear(out);
    }
}

/// Moves the cursor to a line and column.
fn move_to(from: usize, (line, column): (usize, usize), out: &mut String) {
    out.push('\r');
    match line.cmp(&from) {
        std::cmp::Ordering::Less => {
            let _ = write!(out, "\x1b[{}A", from - line);
        }
        std::cmp::Ordering::Greater => {
            let _ = write!(out, "\x1b[{}B", line - from);
        }
        std::cmp::Ordering::Equal => {}
    }
    if column > 0 {
        let _ = write!(out, "\x1b[{column}C");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn live(lines: &[&str]) -> LiveRegion {
        let lines: Vec<Line> = lines.iter().map(|line| Line::plain(line)).collect();
        let cursor = (lines.len().saturating_sub(1), 0);
        LiveRegion { lines, cursor }
    }

    fn grid(terminal: &vt100::Parser) -> Vec<String> {
        let (_, columns) = terminal.screen().size();
        let rows = terminal.screen().rows(0, columns);
        let mut rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }

    /// Returns the number of empty lines at the end.
    fn all_blank(lines: &[&str]) -> usize {
        lines.iter().rev().take_while(|line| line.is_empty()).count()
    }

    struct Stage {
        terminal: vt100::Parser,
        painter: FramePainter,
        written: usize,
    }

    impl Stage {
        fn new(rows: u16, columns: u16) -> Stage {
            Stage {
                terminal: vt100::Parser::new(rows, columns, 1_000),
                painter: FramePainter::new(ColorMode::Styled),
                written: 0,
            }
        }

        fn frame(&mut self, finished: &[&str], shown: LiveRegion) -> Vec<String> {
            let finished: Vec<Line> = finished.iter().map(|line| Line::plain(line)).collect();
            let mut out = String::new();
            self.painter.frame(&finished, shown, &mut out);
            self.written = out.len();
            self.terminal.process(out.as_bytes());
            grid(&self.terminal)
        }
    }

    #[test]
    fn finished_lines_stay_above_the_live_ones() {
        let mut stage = Stage::new(6, 20);
        assert_eq!(stage.frame(&[], live(&["live", "> "])), ["live", ">"]);
        assert_eq!(stage.frame(&["one"], live(&["live 2", "> "])), ["one", "live 2", ">"]);
        assert_eq!(stage.frame(&["two"], live(&["> "])), ["one", "two", ">"]);
        assert_eq!(stage.frame(&["3", "4", "5"], live(&["a", "b"])), ["two", "3", "4", "5", "a", "b"]);
        let mut out = String::new();
        stage.painter.clear(&mut out);
        stage.terminal.process(out.as_bytes());
        assert_eq!(grid(&stage.terminal), ["two", "3", "4", "5"]);
    }

    #[test]
    fn only_what_changed_is_written() {
        let mut stage = Stage::new(10, 40);
        stage.frame(&[], live(&["aaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbb", "> "]));
        assert_eq!(
            stage.frame(&[], live(&["aaaaaaaaaaaaaaaaaaaa", "c", "> "])),
            ["aaaaaaaaaaaaaaaaaaaa", "c", ">"]
        );
        assert!(stage.written < 70, "{}", stage.written);
        stage.frame(&[], live(&["aaaaaaaaaaaaaaaaaaaa", "c", "> "]));
        assert_eq!(stage.written, 0, "nothing changed");
    }

    #[test]
    fn the_cursor_is_where_it_belongs() {
        let mut stage = Stage::new(10, 40);
        let mut shown = live(&["a", "> hello", "status"]);
        shown.cursor = (1, 7);
        stage.frame(&["x"], shown.clone());
        assert_eq!(stage.terminal.screen().cursor_position(), (2, 7));
        shown.cursor = (1, 2);
        stage.frame(&[], shown);
        assert_eq!(stage.terminal.screen().cursor_position(), (2, 2));
        assert_eq!(stage.painter.above_cursor(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// After any sequence of frames, the grid ends with the last finished lines and the live
        /// region.
        #[test]
        fn the_grid_is_what_was_asked_for(
            frames in proptest::collection::vec(
                (proptest::collection::vec("[a-z日]{0,8}", 0..4), proptest::collection::vec("[a-z日]{0,8}", 1..5), 0usize..5),
                1..12,
            )
        ) {
            let mut stage = Stage::new(6, 18);
            let mut all: Vec<String> = Vec::new();
            for (finished, lines, cursor) in frames {
                let finished: Vec<&str> = finished.iter().map(String::as_str).collect();
                let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                all.extend(finished.iter().map(|line| (*line).to_owned()));
                let mut shown = live(&lines);
                shown.cursor = (cursor.min(lines.len() - 1), 0);
                let seen = stage.frame(&finished, shown);
                let mut expected: Vec<String> = all.iter().cloned().chain(lines.iter().map(|line| (*line).to_owned())).collect();
                while expected.last().is_some_and(String::is_empty) {
                    expected.pop();
                }
                prop_assert!(seen.len() >= expected.len().min(lines.len()).saturating_sub(all_blank(&lines)));
                prop_assert!(expected.ends_with(&seen), "{seen:?} of {expected:?}");
            }
        }
    }
}
