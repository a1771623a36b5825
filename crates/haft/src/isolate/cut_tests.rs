//! The connection ends after every single byte: always exactly one result, and never a wait for what won't come.

use std::io;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use super::scene::{Scene, child, input, scene, within};
use super::*;
use crate::content::Output;
use crate::error::ErrorKind;

/// A pipe that is cut after so many bytes in each direction, and counts them.
struct Cut {
    pipe: DuplexStream,
    reads_left: usize,
    writes_left: usize,
}

impl AsyncRead for Cut {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut part = to.take(self.reads_left);
        if part.capacity() == 0 {
            return Poll::Ready(Ok(()));
        }
        std::task::ready!(Pin::new(&mut self.pipe).poll_read(task, &mut part))?;
        let read = part.filled().len();
        let initialized = part.initialized().len();
        self.reads_left -= read;
        assert!(initialized >= read, "the chunk is initialized memory");
        to.initialize_unfilled_to(read);
        to.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Cut {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Task<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let room = from.len().min(self.writes_left);
        if room == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let written = std::task::ready!(Pin::new(&mut self.pipe).poll_write(task, &from[..room]))?;
        self.writes_left -= written;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(task)
    }
}

/// Which end is cut, in which direction.
#[derive(Debug, Clone, Copy)]
enum Side {
    ParentReads,
    ParentWrites,
    ChildReads,
    ChildWrites,
}

async fn cut(scene: &Scene, side: Side, after: usize, width: usize) -> Result<Output, ToolError> {
    let (ours, theirs) = tokio::io::duplex(width);
    let whole = |pipe| Cut { pipe, reads_left: usize::MAX, writes_left: usize::MAX };
    let (mut ours, mut theirs) = (whole(ours), whole(theirs));
    match side {
        Side::ParentReads => ours.reads_left = after,
        Side::ParentWrites => ours.writes_left = after,
        Side::ChildReads => theirs.reads_left = after,
        Side::ChildWrites => theirs.writes_left = after,
    }
    let child = child(theirs);
    let outcome =
        within(serve_parent(Box::new(ours), "worker", &input("tour", &scene.inside), &scene.cx)).await;
    within(child).await.expect("a child never panics");
    outcome
}

async fn check(side: Side, width: usize) {
    let scene = scene();
    let mut failures = 0;
    for after in 0.. {
        match cut(&scene, side, after, width).await {
            Ok(output) => {
                assert_eq!(output.to_text(), "granted 3 true Some([\"on?\", \"0\", \"\"])");
                break;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Failed);
                assert!(error.message().contains("its process ended"), "{side:?} {after}: {error}");
                failures += 1;
            }
        }
        // All or nothing, whenever it was cut.
        let written = std::fs::read(scene.inside.join("out")).unwrap_or_default();
        assert!(written.is_empty() || written == b"granted");
        let _ = std::fs::remove_file(scene.inside.join("out"));
        std::fs::write(scene.inside.join("out"), "").unwrap();
        assert_eq!(std::fs::read(scene.outside.join("in")).unwrap(), b"SECRET");
    }
    assert!(failures > 300, "{side:?}: only {failures} places to cut");
    assert!(scene.dir.path().exists());
}

#[tokio::test(start_paused = true)]
async fn the_child_dies_after_every_byte_that_is_received() {
    check(Side::ParentReads, 4096).await;
}

#[tokio::test(start_paused = true)]
async fn the_child_dies_after_every_byte_that_it_sends() {
    check(Side::ChildWrites, 11).await;
}

#[tokio::test(start_paused = true)]
async fn the_child_stops_listening_after_every_byte() {
    check(Side::ChildReads, 4096).await;
}

#[tokio::test(start_paused = true)]
async fn the_child_stops_listening_after_every_byte_that_is_sent() {
    check(Side::ParentWrites, 11).await;
}
