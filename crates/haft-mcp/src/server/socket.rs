//! A socket in the file system that nobody but its owner ever could open.
//!
//! It is made where nobody else may look, and moved to its place when it is closed to others: between the two there is no moment in
//! which somebody else could connect.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// A socket in the file system that is listened on. It is removed with this.
#[derive(Debug)]
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl UnixSocket {
    /// Makes it. Needs a runtime.
    ///
    /// # Errors
    /// Something else is there, or somebody listens there already.
    pub fn bind(path: &Path) -> io::Result<UnixSocket> {
        let taken = |words: &str| io::Error::new(io::ErrorKind::AddrInUse, words);
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(taken("it is there already, and is no socket"));
            }
            Ok(_) => {
                if std::os::unix::net::UnixStream::connect(path).is_ok() {
                    return Err(taken("it is served already"));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut within = path.as_os_str().to_owned();
        within.push(format!(".{}", std::process::id()));
        let within = PathBuf::from(within);
        std::fs::DirBuilder::new().mode(0o700).create(&within)?;
        let made = (|| {
            let place = within.join("s");
            let listener = UnixListener::bind(&place)?;
            std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o600))?;
            std::fs::rename(&place, path)?;
            Ok(listener)
        })();
        if made.is_err() {
            let _ = std::fs::remove_file(within.join("s"));
        }
        let _ = std::fs::remove_dir(&within);
        made.map(|listener| UnixSocket { listener, path: path.to_owned() })
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
