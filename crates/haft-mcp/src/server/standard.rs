//! Standard input and output, as fast as they can be: pipes and sockets are waited for like any other connection.
//!
//! The runtime's own handles read and write in threads that block, which costs more than everything else that happens to a small
//! call. They are used for what can't be waited for, files and terminals.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// Standard input.
pub(crate) fn input() -> Box<dyn AsyncRead + Send + Unpin> {
    match Kind::of(std::io::stdin()) {
        Some(Kind::Pipe(file)) => match pipe::Receiver::from_file(file) {
            Ok(pipe) => Box::new(pipe),
            Err(_) => Box::new(tokio::io::stdin()),
        },
        Some(Kind::Socket(fd)) => match socket(fd) {
            Ok(socket) => Box::new(socket),
            Err(_) => Box::new(tokio::io::stdin()),
        },
        None => Box::new(tokio::io::stdin()),
    }
}

/// Standard output.
pub(crate) fn output() -> Box<dyn AsyncWrite + Send + Unpin> {
    match Kind::of(std::io::stdout()) {
        Some(Kind::Pipe(file)) => match pipe::Sender::from_file(file) {
            Ok(pipe) => Box::new(pipe),
            Err(_) => Box::new(tokio::io::stdout()),
        },
        Some(Kind::Socket(fd)) => match socket(fd) {
            Ok(socket) => Box::new(socket),
            Err(_) => Box::new(tokio::io::stdout()),
        },
        None => Box::new(tokio::io::stdout()),
    }
}

enum Kind {
    Pipe(File),
    /// Some programs start others with sockets for pipes.
    Socket(OwnedFd),
}

impl Kind {
    fn of(stream: impl AsFd) -> Option<Kind> {
        let file = File::from(stream.as_fd().try_clone_to_owned().ok()?);
        let kind = file.metadata().ok()?.file_type();
        if kind.is_fifo() {
            Some(Kind::Pipe(file))
        } else if kind.is_socket() {
            Some(Kind::Socket(file.into()))
        } else {
            None
        }
    }
}

fn socket(fd: OwnedFd) -> std::io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(fd);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}
