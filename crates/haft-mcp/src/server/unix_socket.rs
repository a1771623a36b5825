//! A Unix socket that only its owner can open.
//!
//! It is created in a private folder and moved to its path when its mode is set: no other user can connect in
//! between.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

use crate::limits::BACKLOG;

/// A listening Unix socket. Dropping it removes the file.
#[derive(Debug)]
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl UnixSocket {
    /// Creates it, on a runtime.
    ///
    /// # Errors
    /// The path is another file, or another process listens on it.
    pub fn bind(path: &Path) -> io::Result<UnixSocket> {
        let in_use = |message: &str| io::Error::new(io::ErrorKind::AddrInUse, message);
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(in_use("the path is a file that is no socket"));
            }
            Ok(_) => {
                if std::os::unix::net::UnixStream::connect(path).is_ok() {
                    return Err(in_use("another process listens on it"));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut folder = path.as_os_str().to_owned();
        folder.push(format!(".{}", std::process::id()));
        let folder = PathBuf::from(folder);
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let created = (|| {
            let socket = folder.join("s");
            let listener = UnixListener::bind(&socket)?;
            rustix::net::listen(&listener, BACKLOG)?;
            std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
            std::fs::rename(&socket, path)?;
            Ok(listener)
        })();
        if created.is_err() {
            let _ = std::fs::remove_file(folder.join("s"));
        }
        let _ = std::fs::remove_dir(&folder);
        created.map(|listener| UnixSocket { listener, path: path.to_owned() })
    }

    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
