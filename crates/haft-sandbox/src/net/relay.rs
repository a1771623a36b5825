//! Bytes from one connection to another, until one is done, gone, or neither says anything for too long.
//!
//! Each direction has one buffer and reads no further than the other side takes, so a fast server doesn't
//! fill our memory on behalf of a slow program.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;

use super::limits;

/// When something last moved on a connection.
pub(super) struct ConnectionActivity {
    since: Instant,
    /// Milliseconds since then.
    last_ms: AtomicU64,
}

impl ConnectionActivity {
    pub(super) fn new() -> ConnectionActivity {
        ConnectionActivity { since: Instant::now(), last_ms: AtomicU64::new(0) }
    }

    fn note(&self) {
        let now = self.since.elapsed().as_millis();
        self.last_ms.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Waits until nothing has moved for so long.
    pub(super) async fn idle(&self, at_most: Duration) {
        loop {
            let end = self.since + Duration::from_millis(self.last_ms.load(Ordering::Relaxed)) + at_most;
            if Instant::now() >= end {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}

/// Copies to the end of `from`; returns how much that was.
pub(super) async fn copy_until_idle(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &ConnectionActivity,
) -> io::Result<u64> {
    let mut buffer = vec![0; limits::COPY_BYTES];
    let mut copied = 0;
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            to.flush().await?;
            return Ok(copied);
        }
        activity.note();
        to.write_all(&buffer[..count]).await?;
        activity.note();
        copied += count as u64;
    }
}

/// Copies both ways until both ends are reached, one fails, or nothing moves.
pub(super) async fn relay_both(
    (mut client_in, mut client_out): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    (mut server_in, mut server_out): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    idle: Duration,
) {
    let activity = ConnectionActivity::new();
    let there = async {
        copy_until_idle(&mut client_in, &mut server_out, &activity).await?;
        server_out.shutdown().await
    };
    let back = async {
        copy_until_idle(&mut server_in, &mut client_out, &activity).await?;
        client_out.shutdown().await
    };
    tokio::select! {
        // What went wrong is seen by both as the end of the connection.
        _ = async { tokio::try_join!(there, back) } => {}
        () = activity.idle(idle) => {}
    }
}
