//! What protected names held when a command began, written down for the session after one that is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use haft::ports::ConfinementRefusal;

use super::history::{ReaderRoom, RepositoryHistory};
use super::quarantine::QuarantineFolder;
use super::snapshot::{LeafContent, NameSnapshot};
use super::{ProtectedFiles, ProtectedState};
use crate::profile::limits;
use crate::profile::undo_journal::{RecordFields, push_field, to_path};

impl ProtectedFiles {
    /// What is needed to undo what commands that run now do. Large files are left out, and not compared then.
    pub(in crate::profile) fn to_record(&self) -> Vec<u8> {
        let mut record = Vec::new();
        let mut field = |bytes: &[u8]| push_field(&mut record, bytes);
        for root in &self.roots {
            field(b"root");
            field(root.as_os_str().as_bytes());
        }
        for history in &self.histories {
            field(b"work");
            field(history.work.as_os_str().as_bytes());
            field(history.objects.as_os_str().as_bytes());
            field(b"tips");
            field(history.work.as_os_str().as_bytes());
            field(history.tips_text().as_bytes());
        }
        for (path, content) in self.state().saved.leaves() {
            let (kind, bytes): (&[u8], &[u8]) = match content {
                LeafContent::File { bytes, executable } if bytes.len() <= limits::RECORDED_BYTES_MAX => {
                    (if *executable { b"program" } else { b"file" }, bytes)
                }
                LeafContent::Symlink(target) => (b"symlink", target.as_os_str().as_bytes()),
                LeafContent::File { .. } | LeafContent::LargeFile { .. } | LeafContent::Other => {
                    (b"other", b"")
                }
            };
            field(kind);
            field(path.as_os_str().as_bytes());
            field(bytes);
        }
        record
    }

    /// Undoes what was done since such a record was written. Of the history only what is reached from tips in
    /// the record is trusted: a command of the killed session may have moved branches, and no command can
    /// write the record.
    pub(in crate::profile) fn undo_since(
        record: &[u8],
        others: &BTreeSet<PathBuf>,
        search_path: Option<&OsStr>,
        caches: &Path,
    ) -> Vec<ConfinementRefusal> {
        let RecordedNames { mut roots, works, tips, mut leaves, uncompared } = RecordedNames::parse(record);
        roots.retain(|root| root.is_dir());
        let others: BTreeSet<PathBuf> = others.iter().chain(leaves.keys()).cloned().collect();
        let now = NameSnapshot::take(&roots, &others, &NameSnapshot::default());
        leaves.retain(|path, _| roots.iter().any(|root| path.starts_with(root)));
        leaves.extend(
            uncompared.into_iter().filter_map(|path| now.leaf(&path).cloned().map(|now| (path, now))),
        );
        let mut state =
            ProtectedState { saved: NameSnapshot::from_leaves(leaves), ..ProtectedState::default() };
        let files = ProtectedFiles {
            reader_room: ReaderRoom::new(search_path, caches.join("git-reader"), &roots),
            roots,
            histories: works
                .into_iter()
                .map(|(work, objects)| {
                    let tips = tips.get(&work).map_or("", String::as_str);
                    RepositoryHistory::with_tips(work, objects, tips)
                })
                .collect(),
            collected: OnceLock::new(),
            caches: caches.to_owned(),
            quarantine: QuarantineFolder::new(caches),
            state: Mutex::default(),
        };
        files.compare(&mut state, &others)
    }
}

/// What a record says.
#[derive(Debug, Default)]
pub(super) struct RecordedNames {
    roots: Vec<PathBuf>,
    /// Work trees, each with where git keeps its objects.
    works: Vec<(PathBuf, PathBuf)>,
    /// Tips of their histories when the session began.
    tips: BTreeMap<PathBuf, String>,
    leaves: BTreeMap<PathBuf, LeafContent>,
    /// What is there and isn't compared.
    uncompared: Vec<PathBuf>,
}

impl RecordedNames {
    pub(super) fn parse(record: &[u8]) -> RecordedNames {
        let mut recorded = RecordedNames::default();
        let mut fields = RecordFields(record);
        while let Some((kind, path)) = fields.next().zip(fields.next().map(to_path)) {
            if kind == b"root" {
                recorded.roots.push(path);
                continue;
            }
            let bytes = fields.next().unwrap_or_default();
            match kind {
                b"work" => recorded.works.push((path, to_path(bytes))),
                b"tips" => drop(recorded.tips.insert(path, String::from_utf8_lossy(bytes).into_owned())),
                b"symlink" => drop(recorded.leaves.insert(path, LeafContent::Symlink(to_path(bytes)))),
                b"file" | b"program" => {
                    let content = LeafContent::File { bytes: bytes.into(), executable: kind == b"program" };
                    recorded.leaves.insert(path, content);
                }
                _ => recorded.uncompared.push(path),
            }
        }
        recorded
    }

    /// Takes what was there when this was written for what should be there.
    pub(super) fn apply(self, saved: &mut NameSnapshot) {
        let RecordedNames { roots, leaves, uncompared, .. } = self;
        let is_recorded = |path: &Path| {
            roots.iter().any(|root| path.starts_with(root)) && !uncompared.iter().any(|other| other == path)
        };
        saved.adopt_leaves(leaves, is_recorded);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_done_since_the_record_was_written_is_undone() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (work, caches) = (root.join("work"), root.join("state/caches"));
        fs::create_dir_all(work.join(".vscode")).unwrap();
        fs::create_dir_all(work.join("sub")).unwrap();
        fs::create_dir_all(&caches).unwrap();
        for name in [".npmrc", ".vscode/tasks.json", "sub/.envrc"] {
            fs::write(work.join(name), "mine").unwrap();
        }
        fs::write(work.join(".pnp.cjs"), vec![b'x'; limits::RECORDED_BYTES_MAX + 1]).unwrap();
        std::os::unix::fs::symlink("sub", work.join(".idea")).unwrap();
        let others = BTreeSet::from([work.join("sub/.envrc")]);
        let files = ProtectedFiles::new(std::slice::from_ref(&work), &[], None, &caches, &others);
        let record = files.to_record();
        let undo = |others: &BTreeSet<PathBuf>| {
            let said = ProtectedFiles::undo_since(&record, others, None, &caches);
            said.iter()
                .map(|said| match said {
                    ConfinementRefusal::Protected { path, .. } => {
                        path.strip_prefix(&work).unwrap().display().to_string()
                    }
                    other => panic!("{other:?}"),
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(undo(&others), [] as [String; 0]);
        fs::write(work.join(".npmrc"), "evil").unwrap();
        fs::write(work.join(".mcp.json"), "evil").unwrap();
        fs::write(work.join(".pnp.cjs"), "other").unwrap();
        fs::write(work.join("sub/.envrc"), "evil").unwrap();
        fs::remove_file(work.join(".idea")).unwrap();
        fs::create_dir(work.join("new")).unwrap();
        fs::write(work.join("new/.envrc"), "evil").unwrap();
        let others = BTreeSet::from([work.join("sub/.envrc"), work.join("new/.envrc")]);
        assert_eq!(undo(&others), [".idea", ".mcp.json", ".npmrc", "new/.envrc", "sub/.envrc"]);
        assert_eq!(undo(&others), [] as [String; 0]);
        assert_eq!(fs::read_to_string(work.join("sub/.envrc")).unwrap(), "mine");
        assert_eq!(fs::read_to_string(work.join(".pnp.cjs")).unwrap(), "other");
        assert_eq!(fs::read_link(work.join(".idea")).unwrap(), Path::new("sub"));
        assert!(!work.join(".mcp.json").exists() && !work.join("new/.envrc").exists());
    }

    /// What the killed session had checked out stays, and what its commands have committed doesn't.
    #[test]
    fn content_of_the_history_at_the_start_of_the_killed_session_stays() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (work, caches) = (root.join("work"), root.join("state/caches"));
        fs::create_dir_all(&work).unwrap();
        fs::create_dir_all(&caches).unwrap();
        let git = |script: &str| {
            let names = ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"];
            let mut bash = std::process::Command::new("bash");
            bash.envs(names.map(|name| (name, "a@b")));
            assert!(bash.args(["-ec", script]).current_dir(&work).status().unwrap().success());
        };
        git("git init -qb main; echo 1 > .envrc; git add -A; git commit -qm 1
             git switch -qc side; echo 2 > .envrc; git commit -qam 2; git switch -q main");
        let works = [(work.clone(), work.join(".git"))];
        let search_path = std::env::var_os("PATH");
        let search_path = search_path.as_deref();
        let none = BTreeSet::new();
        let files = ProtectedFiles::new(std::slice::from_ref(&work), &works, search_path, &caches, &none);
        let record = files.to_record();
        git("git switch -q side");
        assert_eq!(ProtectedFiles::undo_since(&record, &none, search_path, &caches), []);
        assert_eq!(fs::read_to_string(work.join(".envrc")).unwrap(), "2\n");
        git("echo evil > .envrc; git commit -qam 3; git branch -qf main");
        assert_eq!(ProtectedFiles::undo_since(&record, &none, search_path, &caches).len(), 1);
        assert_eq!(fs::read_to_string(work.join(".envrc")).unwrap(), "1\n");
    }
}
