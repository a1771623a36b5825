//! Logs of servers, stored so that another process can show them: `haft mcp logs`.
//!
//! The state folder contains the current log file and the previous one for each server of a workspace. A
//! file's size is limited, and so is the amount written in a minute. Omitted output is noted.

use haft::sync::lock;
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use haft_policy::trust::StateFile;

/// The size at which the next file begins, in bytes. One previous file is kept.
pub const FILE_BYTES_MAX: u64 = 256 * 1024;
/// The maximum number of bytes written for one server in a minute.
const MINUTE_BYTES_MAX: u64 = 512 * 1024;
/// How long unused logs of a workspace are kept.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The maximum number of folders that one session removes.
const SWEPT_MAX: usize = 100;

/// The logs of a workspace's servers.
pub struct ServerLogs {
    folder: PathBuf,
    open: Mutex<BTreeMap<String, OpenLog>>,
}

/// A log file that is being written.
struct OpenLog {
    /// `None` if it can't be written: then the output is discarded.
    file: Option<File>,
    bytes: u64,
    minute: Instant,
    in_minute: u64,
    left_out: u64,
}

impl ServerLogs {
    /// Returns the logs of a workspace. Nothing is created before the first output.
    pub fn new(state_dir: &Path, workspace: &Path) -> ServerLogs {
        let folder = StateFile::for_workspace(state_dir, "mcp-logs", workspace, "d").path().to_owned();
        ServerLogs { folder, open: Mutex::default() }
    }

    /// Appends the output of a server.
    pub fn add(&self, server: &str, bytes: &[u8]) {
        let mut open = lock(&self.open);
        if !open.contains_key(server) {
            open.insert(server.to_owned(), self.begin(server));
        }
        let Some(log) = open.get_mut(server) else { return };
        if log.minute.elapsed() >= Duration::from_secs(60) {
            (log.minute, log.in_minute) = (Instant::now(), 0);
        }
        log.in_minute += bytes.len() as u64;
        if log.in_minute > MINUTE_BYTES_MAX {
            log.left_out += bytes.len() as u64;
            return;
        }
        if log.left_out > 0 {
            let words = format!("\n[haft left out {} bytes: too much in a minute]\n", log.left_out);
            log.left_out = 0;
            log.write(words.as_bytes());
        }
        log.write(bytes);
        if log.bytes > FILE_BYTES_MAX {
            let path = self.path(server);
            let _ = std::fs::rename(&path, previous_log(&path));
            *log = OpenLog { file: create_log(&path), bytes: 0, ..OpenLog::none() };
        }
    }

    fn begin(&self, server: &str) -> OpenLog {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        if made.is_err() {
            return OpenLog::none();
        }
        self.sweep();
        let path = self.path(server);
        let file = create_log(&path);
        let bytes = file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |found| found.len());
        let mut log = OpenLog { file, bytes, ..OpenLog::none() };
        let seconds =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
        log.write(format!("[process {} at {}]\n", std::process::id(), format_utc(seconds)).as_bytes());
        log
    }

    /// Returns the stored output of a server, oldest first; `None` if there is none.
    pub fn read(&self, server: &str) -> Option<Vec<u8>> {
        let path = self.path(server);
        let parts = [previous_log(&path), path].map(|path| log_tail(&path));
        let mut text: Option<Vec<u8>> = None;
        for part in parts.into_iter().flatten() {
            text.get_or_insert_default().extend(part);
        }
        text
    }

    fn path(&self, server: &str) -> PathBuf {
        self.folder.join(format!("{server}.log"))
    }

    /// Removes the logs of workspaces that have been unused for a long time.
    fn sweep(&self) {
        let Some(Ok(all)) = self.folder.parent().map(std::fs::read_dir) else { return };
        let old = |entry: &std::fs::DirEntry| {
            let modified = entry.metadata().and_then(|found| found.modified()).ok();
            modified.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > KEPT)
        };
        let others = all.flatten().filter(|entry| entry.path() != self.folder && old(entry));
        for entry in others.take(SWEPT_MAX) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl OpenLog {
    fn none() -> OpenLog {
        OpenLog { file: None, bytes: 0, minute: Instant::now(), in_minute: 0, left_out: 0 }
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(file) = &mut self.file {
            let _ = file.write_all(bytes);
            self.bytes += bytes.len() as u64;
        }
    }
}

fn create_log(path: &Path) -> Option<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path).ok()
}

fn previous_log(path: &Path) -> PathBuf {
    path.with_extension("log.1")
}

/// Returns the end of a file.
fn log_tail(path: &Path) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    let most = 2 * FILE_BYTES_MAX;
    let size = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(most))).ok()?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Formats a time for display.
fn format_utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March of year 0, so that leap days are at the end of a year.
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", rest / 3_600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_can_read_what_was_kept() {
        let dir = tempfile::tempdir().unwrap();
        let logs = || ServerLogs::new(&dir.path().join("state"), dir.path());
        assert_eq!(logs().read("s"), None);
        let writer = logs();
        writer.add("s", b"it hurts\n");
        writer.add("other", b"fine\n");
        let text = String::from_utf8(logs().read("s").unwrap()).unwrap();
        assert!(text.starts_with("[process ") && text.ends_with(" UTC]\nit hurts\n"), "{text}");
    }

    #[test]
    fn a_flood_has_bounds_on_disk() {
        let dir = tempfile::tempdir().unwrap();
        let logs = ServerLogs::new(dir.path(), dir.path());
        for _ in 0..1_000 {
            logs.add("s", &[b'x'; 10_000]);
        }
        let text = logs.read("s").unwrap();
        assert!(text.len() as u64 <= MINUTE_BYTES_MAX + 1_000, "{}", text.len());
        let on_disk: u64 = std::fs::read_dir(&logs.folder)
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!(on_disk <= 2 * FILE_BYTES_MAX + 20_000, "{on_disk}");
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(format_utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(format_utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(format_utc(1_735_689_599), "2024-12-31 23:59:59 UTC");
    }
}
