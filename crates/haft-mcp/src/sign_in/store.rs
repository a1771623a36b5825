//! Where tokens are kept: a port, and a folder of files.
//!
//! A refresh token may be good for one use only. Two processes that renew at once would each spend it, and
//! the one that comes second would sign the user out. So a renewal holds a lock, reads again what is kept,
//! and only then asks.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Read as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::future::BoxFuture;
use haft::private_file::{ReplaceOptions, create_private_dir, replace_private_file};
use haft::sync::lock;
use tokio::time::{Instant, sleep};

use super::secret::Secret;
use crate::limits::{TOKENS_BYTES_MAX, TOKENS_LOCK_WAIT};

/// Keeps what was given at a sign-in, one text for each server.
///
/// Called from tasks of a connection and from [`Server::sign_in`](crate::ServerHandle::sign_in). A key is
/// made of letters, digits, `_` and `-`, and names one server at one address under one client. What is kept
/// is secret: an implementation shows it nowhere, and gives it back as it came.
pub trait TokenStore: Send + Sync + 'static {
    /// What is kept.
    ///
    /// # Errors
    /// It can't be read, in words without any of it. It counts as not there.
    fn load(&self, key: &str) -> Result<Option<Secret>, String>;

    /// Keeps this in place of what was; whole or not at all.
    ///
    /// # Errors
    /// It can't be kept, in words.
    fn save(&self, key: &str, value: &Secret) -> Result<(), String>;

    /// Forgets it.
    ///
    /// # Errors
    /// It is still there, in words.
    fn forget(&self, key: &str) -> Result<(), String>;

    /// Keeps all others from changing it, in every process, until the value is dropped.
    ///
    /// # Errors
    /// Somebody holds it for too long, in words.
    fn lock<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Box<dyn Send>, String>>;
}

/// Keeps tokens until the process ends.
#[derive(Default)]
pub struct MemoryTokens {
    kept: Mutex<HashMap<String, Secret>>,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl MemoryTokens {
    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<String, Secret>> {
        lock(&self.kept)
    }
}

impl TokenStore for MemoryTokens {
    fn load(&self, key: &str) -> Result<Option<Secret>, String> {
        Ok(self.kept().get(key).cloned())
    }

    fn save(&self, key: &str, value: &Secret) -> Result<(), String> {
        self.kept().insert(key.to_owned(), value.clone());
        Ok(())
    }

    fn forget(&self, key: &str) -> Result<(), String> {
        self.kept().remove(key);
        Ok(())
    }

    fn lock<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Box<dyn Send>, String>> {
        let lock = self.lock.clone();
        Box::pin(async move { Ok(Box::new(lock.lock_owned().await) as Box<dyn Send>) })
    }
}

/// Keeps tokens in a folder: one file for each server, which nobody but the user can read.
///
/// ```
/// use haft_mcp::{FileTokens, Secret, TokenStore};
///
/// # let state = tempfile::tempdir().unwrap();
/// let tokens = FileTokens::new(state.path().join("mcp-tokens"));
/// tokens.save("docs-0a1b", &Secret::new("{}")).unwrap();
/// assert_eq!(tokens.load("docs-0a1b").unwrap().unwrap().reveal(), "{}");
/// ```
#[derive(Debug, Clone)]
pub struct FileTokens {
    folder: PathBuf,
}

impl FileTokens {
    /// In this folder, which is made when it is needed.
    pub fn new(folder: impl Into<PathBuf>) -> FileTokens {
        FileTokens { folder: folder.into() }
    }

    fn file(&self, key: &str, ending: &str) -> Result<PathBuf, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if !key.is_empty() && key.len() <= 200 && key.chars().all(plain) {
            Ok(self.folder.join(format!("{key}.{ending}")))
        } else {
            Err("tokens can't be kept under this name".to_owned())
        }
    }

    /// Makes the folder, and closes it to others.
    fn prepare(&self) -> Result<(), String> {
        let failed =
            |error: std::io::Error| format!("`{}` can't be used for tokens: {error}", self.folder.display());
        create_private_dir(&self.folder).map_err(failed)?;
        let found = fs::metadata(&self.folder).map_err(failed)?.permissions();
        if found.mode() & 0o077 != 0 {
            fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        }
        Ok(())
    }
}

fn store_error(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("`{path}`: {error}")
}

impl TokenStore for FileTokens {
    fn load(&self, key: &str) -> Result<Option<Secret>, String> {
        let path = self.file(key, "json")?;
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(store_error(&path)(error)),
        };
        let found = file.metadata().map_err(store_error(&path))?;
        if !found.is_file() || found.permissions().mode() & 0o077 != 0 {
            return Err(format!(
                "`{}` is not used: others can read or change it; sign in again, or make it yours alone (mode 600)",
                path.display()
            ));
        }
        let mut text = String::new();
        let read = file.take(TOKENS_BYTES_MAX + 1).read_to_string(&mut text).map_err(store_error(&path))?;
        if read as u64 > TOKENS_BYTES_MAX {
            Err(format!("`{}` is too large to be ours", path.display()))
        } else {
            Ok(Some(Secret::new(text)))
        }
    }

    fn save(&self, key: &str, value: &Secret) -> Result<(), String> {
        self.prepare()?;
        let path = self.file(key, "json")?;
        let durable = ReplaceOptions { is_durable: true, ..ReplaceOptions::default() };
        replace_private_file(&path, value.reveal().as_bytes(), &durable).map_err(store_error(&path))
    }

    fn forget(&self, key: &str) -> Result<(), String> {
        let path = self.file(key, "json")?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(store_error(&path)(error)),
            _ => Ok(()),
        }
    }

    fn lock<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Box<dyn Send>, String>> {
        Box::pin(async move {
            self.prepare()?;
            // A file of its own that stays: the other one is replaced by each save.
            let path = self.file(key, "lock")?;
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
            let file = file.map_err(store_error(&path))?;
            let end = Instant::now() + TOKENS_LOCK_WAIT;
            loop {
                match file.try_lock() {
                    Ok(()) => return Ok(Box::new(file) as Box<dyn Send>),
                    Err(TryLockError::Error(error)) => return Err(store_error(&path)(error)),
                    Err(TryLockError::WouldBlock) if Instant::now() >= end => {
                        return Err(format!("another process holds `{}` for too long", path.display()));
                    }
                    Err(TryLockError::WouldBlock) => sleep(Duration::from_millis(20)).await,
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_are_the_users_alone_and_replaced_whole() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("state/tokens");
        let store = FileTokens::new(&folder);
        assert_eq!(store.load("a").unwrap(), None);
        store.save("a", &Secret::new("one")).unwrap();
        store.save("a", &Secret::new("two")).unwrap();
        assert_eq!(store.load("a").unwrap().unwrap().reveal(), "two");
        assert_eq!((mode(&folder), mode(&folder.join("a.json"))), (0o700, 0o600));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");

        fs::set_permissions(folder.join("a.json"), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(store.load("a").unwrap_err().contains("mode 600"));
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        store.save("a", &Secret::new("three")).unwrap();
        assert_eq!((mode(&folder), mode(&folder.join("a.json"))), (0o700, 0o600), "both are closed again");
        store.forget("a").unwrap();
        store.forget("a").unwrap();
        assert_eq!(store.load("a").unwrap(), None);
        for bad in ["", "../a", "a/b", "a.b", &"x".repeat(201)] {
            assert!(store.save(bad, &Secret::new("x")).is_err(), "{bad}");
        }
        fs::write(folder.join("b.json"), vec![b'x'; TOKENS_BYTES_MAX as usize + 1]).unwrap();
        fs::set_permissions(folder.join("b.json"), fs::Permissions::from_mode(0o600)).unwrap();
        assert!(store.load("b").unwrap_err().contains("too large"));
    }

    #[test]
    fn a_folder_that_can_not_be_written_leaves_what_was() {
        let place = tempfile::tempdir().unwrap();
        let store = FileTokens::new(place.path());
        store.save("a", &Secret::new("one")).unwrap();
        fs::create_dir(place.path().join("b.json")).unwrap();
        assert!(store.save("b", &Secret::new("s3cret")).is_err_and(|words| !words.contains("s3cret")));
        let left: Vec<_> =
            fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_keeps_others_out_until_it_is_dropped() {
        let place = tempfile::tempdir().unwrap();
        let stores: [Box<dyn TokenStore>; 2] =
            [Box::new(FileTokens::new(place.path())), Box::new(MemoryTokens::default())];
        for store in stores {
            let held = store.lock("a").await.unwrap();
            let second = tokio::time::timeout(Duration::from_secs(1), store.lock("a")).await;
            assert!(second.is_err(), "it waits");
            drop(held);
            store.lock("a").await.unwrap();
        }
        let store = FileTokens::new(place.path());
        let _held = store.lock("a").await.unwrap();
        assert!(store.lock("a").await.is_err_and(|words| words.contains("for too long")));
        store.lock("b").await.unwrap();
    }
}
