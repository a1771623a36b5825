//! The drawing part of a screen without a terminal, for benchmarks. Not a part of the interface.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use haft_agent::RunEvent;

use crate::frame_painter::{FramePainter, LiveRegion};
use crate::inbox::{ScreenInbox, ScreenNote};
use crate::style::{ColorMode, Line};
use crate::transcript::RunTranscript;

/// Events in, bytes of frames out: the way through inbox, story and painter.
pub struct ScreenBench<W> {
    inbox: ScreenInbox,
    _wake: std::io::PipeReader,
    story: RunTranscript,
    painter: FramePainter,
    out: W,
    rows: usize,
}

impl<W: Write> ScreenBench<W> {
    /// On a terminal of this size.
    pub fn new(out: W, columns: usize, rows: usize) -> ScreenBench<W> {
        let (wake, waker) = std::io::pipe().expect("a pipe can be made");
        ScreenBench {
            inbox: ScreenInbox::new(waker),
            _wake: wake,
            story: RunTranscript::new(columns - 1, Path::new("."), Instant::now()),
            painter: FramePainter::new(ColorMode::Styled),
            out,
            rows,
        }
    }

    /// Takes an event as the sink does.
    pub fn event(&mut self, event: RunEvent) {
        self.inbox.event(event);
    }

    /// Draws what came.
    pub fn frame(&mut self) {
        let now = Instant::now();
        for note in self.inbox.take().notes {
            if let ScreenNote::Event(event) = note {
                self.story.event(event, now);
            }
        }
        self.story.look(now);
        let finished = self.story.take();
        let mut lines = self.story.live(now, 0, self.rows - 4, None);
        lines.push(Line::plain("> "));
        let cursor = (lines.len() - 1, 2);
        let mut frame = String::new();
        self.painter.frame(&finished, LiveRegion { lines, cursor }, &mut frame);
        self.out.write_all(frame.as_bytes()).expect("somebody reads");
    }
}
