//! The user's approvals of a workspace's servers: one file for each workspace in the state folder.
//!
//! Definitions are stored as they were approved, so that a change can be shown as a difference. A damaged
//! file, or one that another user could have written, approves nothing. A server that settings approve by
//! its name needs no prompt: its tools are approved as they are when they are first seen. A changed tool is
//! withheld like any other.

use haft::sync::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use haft_mcp::{ApprovalFingerprint, ApprovalStore, ApprovalSubject, KnownApproval, StoredApproval};
use haft_policy::trust::StateFile;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The maximum size of the approvals file, in bytes.
const BYTES_MAX: u64 = 32 * 1024 * 1024;
const VERSION: u32 = 1;

/// The approved definitions of servers, and of their tools.
type StoredApprovals = BTreeMap<(String, Option<String>), Value>;

/// The approvals of one workspace.
pub struct FileApprovals {
    file: Option<StateFile>,
    workspace: String,
    /// Servers whose tools are approved when they are first seen.
    enabled: BTreeSet<String>,
    state: Mutex<ApprovalState>,
}

#[derive(Default)]
struct ApprovalState {
    /// `None` before the file is read.
    known: Option<StoredApprovals>,
    /// The approvals of this process.
    accepted: StoredApprovals,
    /// First seen, and not stored yet.
    first_seen: Vec<ApprovalSubject>,
    /// The problem with the file.
    damaged: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ApprovalFile {
    version: u32,
    /// For users who look at the file. The file's name is what counts.
    workspace: String,
    entries: Vec<StoredApproval>,
}

impl FileApprovals {
    /// Creates the approvals of a workspace. Nothing is read before it is needed.
    pub fn new(
        state_dir: Option<&Path>,
        workspace: &Path,
        enabled: impl IntoIterator<Item = String>,
    ) -> FileApprovals {
        FileApprovals {
            file: state_dir.map(|state| self::approvals_file(state, workspace)),
            workspace: workspace.display().to_string(),
            enabled: enabled.into_iter().collect(),
            state: Mutex::default(),
        }
    }

    /// Records the user's approval of these subjects for this process.
    pub fn accept(&self, subjects: &[ApprovalSubject]) {
        let mut state = self.state();
        for subject in subjects {
            state.accepted.insert((subject.server.clone(), subject.tool.clone()), subject.value.clone());
        }
    }

    /// Stores the user's approval of all these subjects at once.
    ///
    /// # Errors
    /// Returns a message if there is no state folder, or if the file can't be written.
    pub fn approve_all(&self, subjects: &[ApprovalSubject]) -> Result<(), String> {
        let file = self.file.as_ref().ok_or(
            "there is no folder to keep an approval in; set HAFT_STATE_DIR, or HOME, to an absolute path",
        )?;
        let mut kept = BTreeMap::new();
        file.change(BYTES_MAX, |before| {
            // A damaged file approves nothing, so nothing is lost by replacing it.
            kept = before.and_then(|bytes| parse_entries(&bytes).ok()).unwrap_or_default();
            for subject in subjects {
                kept.insert((subject.server.clone(), subject.tool.clone()), subject.value.clone());
            }
            let entries = kept.iter().map(|((server, tool), value)| StoredApproval {
                server: server.clone(),
                tool: tool.clone(),
                value: value.clone(),
            });
            let record = ApprovalFile {
                version: VERSION,
                workspace: self.workspace.clone(),
                entries: entries.collect(),
            };
            serde_json::to_vec(&record).map_err(|error| error.to_string())
        })?;
        let mut state = self.state();
        state.damaged = None;
        state.known = Some(kept);
        Ok(())
    }

    /// Stores the first seen definitions of servers that settings approve.
    ///
    /// # Errors
    /// Returns a message if the file can't be written.
    pub fn keep_first_seen(&self) -> Result<(), String> {
        let first_seen = std::mem::take(&mut self.state().first_seen);
        if first_seen.is_empty() { Ok(()) } else { self.approve_all(&first_seen) }
    }

    /// Returns the problem with the file, if there is one.
    pub fn damaged(&self) -> Option<String> {
        self.state().damaged.clone()
    }

    fn read(&self) -> (StoredApprovals, Option<String>) {
        let Some(file) = &self.file else { return Default::default() };
        let read = file.read(BYTES_MAX).and_then(|bytes| match bytes {
            Some(bytes) => {
                parse_entries(&bytes).map_err(|words| format!("{}: {words}", file.path().display()))
            }
            None => Ok(BTreeMap::new()),
        });
        match read {
            Ok(known) => (known, None),
            Err(words) => (BTreeMap::new(), Some(words)),
        }
    }

    fn state(&self) -> MutexGuard<'_, ApprovalState> {
        lock(&self.state)
    }
}

/// Removes the approvals of a workspace. Returns whether there were any.
///
/// # Errors
/// Returns the I/O error of the removal.
pub fn forget_approvals(state_dir: &Path, workspace: &Path) -> std::io::Result<bool> {
    approvals_file(state_dir, workspace).forget()
}

fn approvals_file(state_dir: &Path, workspace: &Path) -> StateFile {
    StateFile::for_workspace(state_dir, "mcp-approvals", workspace, "json")
}

fn parse_entries(bytes: &[u8]) -> Result<StoredApprovals, String> {
    let record: ApprovalFile = serde_json::from_slice(bytes).map_err(|error| format!("damaged: {error}"))?;
    if record.version != VERSION {
        return Err("another version of haft wrote it".to_owned());
    }
    Ok(record.entries.into_iter().map(|entry| ((entry.server, entry.tool), entry.value)).collect())
}

impl ApprovalStore for FileApprovals {
    fn known(&self, subject: &ApprovalSubject) -> KnownApproval {
        let mut state = self.state();
        // Another process may have stored an approval in the meantime.
        if state.known.is_none() || subject.tool.is_none() {
            let (known, damaged) = self.read();
            (state.known, state.damaged) = (Some(known), damaged);
        }
        let enabled = self.enabled.contains(&subject.server);
        if enabled && subject.tool.is_none() {
            return KnownApproval::Approved;
        }
        let key = (subject.server.clone(), subject.tool.clone());
        let before = state.accepted.get(&key).or_else(|| state.known.as_ref()?.get(&key));
        match before {
            Some(before) if ApprovalFingerprint::for_value(before) == subject.fingerprint() => {
                KnownApproval::Approved
            }
            Some(before) => KnownApproval::Changed(before.clone()),
            None if enabled => {
                state.known.get_or_insert_default().insert(key, subject.value.clone());
                state.first_seen.push(subject.clone());
                KnownApproval::Approved
            }
            None => KnownApproval::New,
        }
    }

    fn approve(&self, subject: &ApprovalSubject) -> Result<(), String> {
        self.approve_all(std::slice::from_ref(subject))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    fn subject(tool: Option<&str>, value: &str) -> ApprovalSubject {
        ApprovalSubject { server: "s".into(), tool: tool.map(str::to_owned), value: json!({"d": value}) }
    }

    fn file_of(approvals: &FileApprovals) -> &Path {
        approvals.file.as_ref().unwrap().path()
    }

    #[test]
    fn an_approval_outlives_the_process_and_is_the_users_alone() {
        let dir = tempfile::tempdir().unwrap();
        let open = || FileApprovals::new(Some(&dir.path().join("state")), dir.path(), []);
        assert_eq!(open().known(&subject(None, "a")), KnownApproval::New);
        open().approve_all(&[subject(None, "a"), subject(Some("t"), "b")]).unwrap();
        let again = open();
        assert_eq!(again.known(&subject(None, "a")), KnownApproval::Approved);
        assert_eq!(again.known(&subject(Some("t"), "b")), KnownApproval::Approved);
        assert_eq!(again.known(&subject(Some("t"), "c")), KnownApproval::Changed(json!({"d": "b"})));
        let mode = std::fs::metadata(file_of(&again)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let elsewhere = tempfile::tempdir().unwrap();
        let other = FileApprovals::new(Some(&dir.path().join("state")), elsewhere.path(), []);
        assert_eq!(other.known(&subject(None, "a")), KnownApproval::New, "another workspace");
    }

    #[test]
    fn what_another_process_approved_counts_at_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let open = || FileApprovals::new(Some(dir.path()), dir.path(), []);
        let running = open();
        assert_eq!(running.known(&subject(None, "a")), KnownApproval::New);
        open().approve(&subject(None, "a")).unwrap();
        assert_eq!(running.known(&subject(None, "a")), KnownApproval::Approved);
        running.approve(&subject(Some("t"), "b")).unwrap();
        assert_eq!(open().known(&subject(None, "a")), KnownApproval::Approved, "neither forgets the other's");
    }

    #[test]
    fn a_torn_or_foreign_file_approves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let open = || FileApprovals::new(Some(dir.path()), dir.path(), []);
        open().approve(&subject(None, "a")).unwrap();
        let whole = std::fs::read(file_of(&open())).unwrap();
        for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
            std::fs::write(file_of(&open()), &whole[..cut]).unwrap();
            let torn = open();
            assert_eq!(torn.known(&subject(None, "a")), KnownApproval::New, "{cut}");
            assert!(torn.damaged().is_some(), "{cut}");
        }
        std::fs::write(file_of(&open()), &whole).unwrap();
        std::fs::set_permissions(file_of(&open()), std::fs::Permissions::from_mode(0o606)).unwrap();
        assert_eq!(open().known(&subject(None, "a")), KnownApproval::New);
    }

    #[test]
    fn what_settings_approve_counts_as_it_was_first_seen() {
        let dir = tempfile::tempdir().unwrap();
        let open = || FileApprovals::new(Some(dir.path()), dir.path(), ["s".to_owned()]);
        let first = open();
        assert_eq!(first.known(&subject(None, "a")), KnownApproval::Approved);
        assert_eq!(first.known(&subject(Some("t"), "a")), KnownApproval::Approved);
        assert_eq!(first.known(&subject(Some("t"), "b")), KnownApproval::Changed(json!({"d": "a"})));
        first.keep_first_seen().unwrap();
        let second = open();
        assert_eq!(second.known(&subject(None, "another command")), KnownApproval::Approved);
        assert_eq!(second.known(&subject(Some("t"), "b")), KnownApproval::Changed(json!({"d": "a"})));
    }
}
