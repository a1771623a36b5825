//! "Always" answers: rules from the user's answers, stored per workspace in the state folder.
//!
//! The file has one JSON object per line and is append-only, so that a rule keeps its line number, which
//! messages show. An invalid line is skipped with a warning: the user is asked again.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::atomic_write;
use crate::settings::read_file::{self, UnreadableFile};
use crate::source::{RuleList, SettingsSource, SourceScope, UnparsedRule};

/// The maximum number of answers of one workspace.
pub const REMEMBERED_MAX: usize = 1_000;
/// The maximum size of a file of answers, in bytes.
pub const REMEMBERED_BYTES_MAX: u64 = 1024 * 1024;
/// The maximum length of a stored rule, in bytes.
const RULE_BYTES_MAX: usize = 16 * 1024;
/// The maximum number of warnings about invalid lines.
const WARNINGS_MAX: usize = 3;

/// The answers of one workspace.
#[derive(Debug, Clone)]
pub struct RememberedRules {
    file: PathBuf,
    workspace: Arc<Path>,
}

#[derive(Serialize, Deserialize)]
struct RuleLine {
    rule: String,
    list: VerdictWord,
    /// Seconds since 1970.
    at: u64,
    /// For users who look at the file.
    workspace: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum VerdictWord {
    Allow,
    Ask,
    Deny,
}

impl RememberedRules {
    /// Opens the answers of a workspace in a state folder. Nothing is created before the first answer.
    pub fn open(state_dir: &Path, workspace: &Path) -> RememberedRules {
        let workspace = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
        let file = state_dir.join("remembered").join(format!("{}.jsonl", atomic_write::key(&workspace)));
        RememberedRules { file, workspace: workspace.into() }
    }

    /// Returns the file that stores the answers.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns all rules, and the problems of lines that can't be used.
    pub fn rules(&self) -> (Vec<UnparsedRule>, Vec<String>) {
        let say = |words: String| format!("{}: {words}; answers kept there don't count", self.file.display());
        let bytes = match read_file::read_bytes(&self.file, REMEMBERED_BYTES_MAX) {
            Ok(None) => return (Vec::new(), Vec::new()),
            Ok(Some(bytes)) => match atomic_write::is_ours(&self.file) {
                Ok(()) => bytes,
                Err(words) => return (Vec::new(), vec![say(words)]),
            },
            Err(UnreadableFile { why, .. }) => return (Vec::new(), vec![say(why)]),
        };
        let file: Arc<Path> = self.file.as_path().into();
        let (mut rules, mut bad) = (Vec::new(), Vec::new());
        for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let Ok(line) = serde_json::from_slice::<RuleLine>(line) else {
                bad.push(format!("{}:{number}: not an answer; it doesn't count", self.file.display()));
                continue;
            };
            if rules.len() == REMEMBERED_MAX {
                bad.push(say(format!("more than {REMEMBERED_MAX} answers")));
                break;
            }
            let list = match line.list {
                VerdictWord::Allow => RuleList::Allow,
                VerdictWord::Ask => RuleList::Ask,
                VerdictWord::Deny => RuleList::Deny,
            };
            let (scope, anchor) = (SourceScope::Session, self.workspace.clone());
            let source = SettingsSource { scope, file: Some(file.clone()), line: Some(number), anchor };
            rules.push(UnparsedRule::plain(line.rule, list, source));
        }
        bad.truncate(WARNINGS_MAX);
        (rules, bad)
    }

    /// Adds a rule, unless it exists already.
    ///
    /// # Errors
    /// Returns an error if there are too many rules, if the rule is too long, or if the file can't be
    /// written.
    pub fn add(&self, rule: &str, list: RuleList) -> io::Result<()> {
        if rule.len() > RULE_BYTES_MAX {
            return Err(io::Error::other(format!("a rule of more than {RULE_BYTES_MAX} bytes is not kept")));
        }
        let folder = self.file.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let _lock = atomic_write::lock_folder(folder)?;
        let (rules, _) = self.rules();
        if rules.iter().any(|known| known.rule == rule && known.list == list) {
            return Ok(());
        }
        if rules.len() >= REMEMBERED_MAX {
            let file = self.file.display();
            return Err(io::Error::other(format!(
                "{REMEMBERED_MAX} answers are kept already; remove some from {file}"
            )));
        }
        let list = match list {
            RuleList::Allow => VerdictWord::Allow,
            RuleList::Ask => VerdictWord::Ask,
            RuleList::Deny => VerdictWord::Deny,
        };
        let workspace = self.workspace.display().to_string();
        let line = serde_json::to_string(&RuleLine {
            rule: rule.to_owned(),
            list,
            at: atomic_write::unix_seconds(),
            workspace,
        })?;
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(&self.file)?;
        let length = file.metadata()?.len();
        if length + line.len() as u64 + 2 > REMEMBERED_BYTES_MAX {
            let file = self.file.display();
            return Err(io::Error::other(format!("{file} is full; remove some answers from it")));
        }
        // A line that a crash truncated must not be joined with this one.
        let gap = if length == 0 || ends_with_newline(&self.file, length)? { "" } else { "\n" };
        file.write_all(format!("{gap}{line}\n").as_bytes())?;
        file.sync_all()
    }

    /// Removes all answers of this workspace. Returns their number. A file that can't be read is removed as
    /// well.
    ///
    /// # Errors
    /// Returns the I/O error of the removal.
    pub fn forget(&self) -> io::Result<usize> {
        let (rules, _) = self.rules();
        match std::fs::remove_file(&self.file) {
            Ok(()) => Ok(rules.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }
}

fn ends_with_newline(path: &Path, length: u64) -> io::Result<bool> {
    use std::os::unix::fs::FileExt;
    let mut last = [0];
    std::fs::File::open(path)?.read_exact_at(&mut last, length - 1)?;
    Ok(last == *b"\n")
}
