//! "Always" answers: rules that the user made by answering, kept by workspace in the state folder.
//!
//! One JSON object a line, only ever added to, so that the line of a rule stays its line and can be shown. A line that
//! can't be read is skipped with a warning: a lost answer is asked again.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::atomic_write;
use crate::settings::read_file::{self, UnreadableFile};
use crate::source::{RuleList, SettingsSource, SourceScope, UnparsedRule};

/// How many answers one workspace may have.
pub const REMEMBERED_MAX: usize = 1_000;
/// The longest file of answers, in bytes.
pub const REMEMBERED_BYTES_MAX: u64 = 1024 * 1024;
/// The longest rule that is kept, in bytes.
const RULE_BYTES_MAX: usize = 16 * 1024;
/// How many warnings about lines are given.
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
    /// For people who look at the file.
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
    /// The answers in a state folder, for a workspace given by its real path; nothing is created before an answer.
    pub fn open(state_dir: &Path, workspace: &Path) -> RememberedRules {
        let workspace = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
        let file = state_dir.join("remembered").join(format!("{}.jsonl", atomic_write::key(&workspace)));
        RememberedRules { file, workspace: workspace.into() }
    }

    /// The file that they are kept in.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// All rules, and what is wrong with lines that can't be used, in words.
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

    /// Adds a rule; one that is there already isn't added again.
    ///
    /// # Errors
    /// Too many or too long rules, and the disk's.
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
        // A line that was cut off by a crash must not swallow this one.
        let gap = if length == 0 || ends_with_newline(&self.file, length)? { "" } else { "\n" };
        file.write_all(format!("{gap}{line}\n").as_bytes())?;
        file.sync_all()
    }

    /// Removes all answers of this workspace; says how many there were. A file that can't be read is removed as well.
    ///
    /// # Errors
    /// The disk's.
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
