//! The drawing part of a screen without a terminal, for benchmarks. Not public API.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use haft_agent::RunEvent;

use crate::frame_painter::{FramePainter, LiveRegion};
use crate::inbox::{ScreenInbox, ScreenNote};
use crate::style::{ColorMode, Line};
use crate::transcript::RunTranscript;

/// Processes events through inbox, transcript and painter, and writes the bytes of frames.
pub struct ScreenBench<W> {
    inbox: ScreenInbox,
    _wake: std::io::PipeReader,
    transcript: RunTranscript,
    painter: FramePainter,
    out: W,
    rows: usize,
}

impl<W: Write> ScreenBench<W> {
    /// Creates a screen for a terminal of this size.
    pub fn new(out: W, columns: usize, rows: usize) -> ScreenBench<W> {
        let (wake, waker) = std::io::pipe().expect("a pipe can be made");
        ScreenBench {
            inbox: ScreenInbox::new(waker),
            _wake: wake,
            transcript: RunTranscript::new(columns - 1, Path::new("."), Instant::now()),
            painter: FramePainter::new(ColorMode::Styled),
            out,
            rows,
        }
    }

    /// Processes an event as the sink does.
    pub fn event(&mut self, event: RunEvent) {
        self.inbox.event(event);
    }

    /// Draws a frame.
    pub fn frame(&mut self) {
        let now = Instant::now();
        for note in self.inbox.take().notes {
            if let ScreenNote::Event(event) = note {
                self.transcript.event(event, now);
            }
        }
        self.transcript.refresh_partial_views(now);
        let finished = self.transcript.take();
        let mut lines = self.transcript.live_lines(now, 0, self.rows - 4, None);
        lines.push(Line::plain("> "));
        let cursor = (lines.len() - 1, 2);
        let mut frame = String::new();
        self.painter.frame(&finished, LiveRegion { lines, cursor }, &mut frame);
        self.out.write_all(frame.as_bytes()).expect("the pipe has a reader");
    }
}
