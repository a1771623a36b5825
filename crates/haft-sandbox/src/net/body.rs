//! Passes on the body of a request, exactly as much as its head announced. Chunks are read and written anew,
//! so that a server never sees a border that was not understood here; what comes after the body stays where
//! it is.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::limits;
use super::relay::{ConnectionActivity, copy_until_idle};
use super::request_head::BodyLength;

/// Passes on one body.
///
/// # Errors
/// It ended early, a chunk is malformed, or one of the two is gone. What was passed on then is no whole
/// request.
pub(super) async fn forward_body(
    body: BodyLength,
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &ConnectionActivity,
) -> io::Result<()> {
    match body {
        BodyLength::Nothing => Ok(()),
        BodyLength::Bytes(count) => forward_exactly(count, from, to, activity).await,
        BodyLength::Chunks => {
            loop {
                let size = chunk_size(&read_line(from).await?)?;
                if size == 0 {
                    break;
                }
                to.write_all(format!("{size:x}\r\n").as_bytes()).await?;
                forward_exactly(size, from, to, activity).await?;
                if !read_line(from).await?.is_empty() {
                    return Err(malformed_error());
                }
                to.write_all(b"\r\n").await?;
            }
            for _ in 0..limits::TRAILERS_MAX {
                if read_line(from).await?.is_empty() {
                    return to.write_all(b"0\r\n\r\n").await;
                }
            }
            Err(malformed_error())
        }
    }
}

async fn forward_exactly(
    count: u64,
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &ConnectionActivity,
) -> io::Result<()> {
    let copied = copy_until_idle(&mut from.take(count), to, activity).await?;
    if copied == count { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// One line without its CR LF.
async fn read_line(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.take(limits::CHUNK_LINE_BYTES_MAX as u64).read_until(b'\n', &mut line).await?;
    if !line.ends_with(b"\r\n") {
        return Err(malformed_error());
    }
    line.truncate(line.len() - 2);
    Ok(line)
}

/// The size of a chunk: digits and nothing else. Extensions are known for being read in two ways.
fn chunk_size(line: &[u8]) -> io::Result<u64> {
    let digits = (1..=15).contains(&line.len()) && line.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(line).ok().filter(|_| digits);
    text.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or_else(malformed_error)
}

fn malformed_error() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the chunks of the body are malformed")
}
