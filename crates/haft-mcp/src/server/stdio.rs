//! Standard input and output without blocking threads: pipes and sockets are registered with the runtime.
//!
//! Tokio's own handles read and write in blocking threads, which costs more than everything else in a small
//! call. They remain for files and terminals.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// Standard input.
pub(crate) fn open_stdin() -> Box<dyn AsyncRead + Send + Unpin> {
    match duplicate_stream(std::io::stdin()) {
        Some(StdioDescriptor::Pipe(file)) => {
            if let Ok(pipe) = pipe::Receiver::from_file(file) {
                return Box::new(pipe);
            }
        }
        Some(StdioDescriptor::Socket(fd)) => {
            if let Ok(socket) = tokio_socket(fd) {
                return Box::new(socket);
            }
        }
        None => {}
    }
    Box::new(tokio::io::stdin())
}

/// Standard output.
pub(crate) fn open_stdout() -> Box<dyn AsyncWrite + Send + Unpin> {
    match duplicate_stream(std::io::stdout()) {
        Some(StdioDescriptor::Pipe(file)) => {
            if let Ok(pipe) = pipe::Sender::from_file(file) {
                return Box::new(pipe);
            }
        }
        Some(StdioDescriptor::Socket(fd)) => {
            if let Ok(socket) = tokio_socket(fd) {
                return Box::new(socket);
            }
        }
        None => {}
    }
    Box::new(tokio::io::stdout())
}

enum StdioDescriptor {
    Pipe(File),
    /// Some programs start others with sockets for pipes.
    Socket(OwnedFd),
}

fn duplicate_stream(stream: impl AsFd) -> Option<StdioDescriptor> {
    let file = File::from(stream.as_fd().try_clone_to_owned().ok()?);
    let kind = file.metadata().ok()?.file_type();
    if kind.is_fifo() {
        return Some(StdioDescriptor::Pipe(file));
    }
    kind.is_socket().then(|| StdioDescriptor::Socket(file.into()))
}

fn tokio_socket(fd: OwnedFd) -> std::io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(fd);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}
