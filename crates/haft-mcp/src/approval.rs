//! What a user has approved of servers that came with a workspace, bound to what they saw.
//!
//! An approval belongs to a fingerprint, never to a name: a server whose command changed and a tool whose
//! definition changed are new. The store is the host's; here is what it has to answer, and one that lives in
//! memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use haft::sync::lock;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use similar::TextDiff;

use crate::text;

/// The hash of a value, whatever the order of its keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApprovalFingerprint([u8; 32]);

impl ApprovalFingerprint {
    /// The fingerprint of a value.
    ///
    /// ```
    /// use haft_mcp::ApprovalFingerprint;
    /// use serde_json::json;
    ///
    /// assert_eq!(ApprovalFingerprint::for_value(&json!({"a": 1, "b": 2})), ApprovalFingerprint::for_value(&json!({"b": 2, "a": 1})));
    /// assert_ne!(ApprovalFingerprint::for_value(&json!({"a": 1})), ApprovalFingerprint::for_value(&json!({"a": "1"})));
    /// ```
    pub fn for_value(value: &Value) -> ApprovalFingerprint {
        ApprovalFingerprint(Sha256::digest(haft::canonical::to_string(value)).into())
    }
}

impl fmt::Display for ApprovalFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ApprovalFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Something that needs an approval.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalSubject {
    /// The server.
    pub server: String,
    /// The tool; nothing for the server itself. No tool has the empty name: that is for the server's
    /// instructions.
    pub tool: Option<String>,
    /// What was seen: [`ServerConfig::identity`](crate::ServerConfig::identity), or the definition of the
    /// tool.
    pub value: Value,
}

impl ApprovalSubject {
    /// What a server says about how to use it, as a model would be told.
    pub fn instructions(server: &str, words: &str) -> ApprovalSubject {
        let value = serde_json::json!({"instructions": words});
        ApprovalSubject { server: server.to_owned(), tool: Some(String::new()), value }
    }

    /// Whether it is what a server says about how to use it.
    pub fn is_instructions(&self) -> bool {
        self.tool.as_deref() == Some("")
    }

    /// Its fingerprint.
    pub fn fingerprint(&self) -> ApprovalFingerprint {
        ApprovalFingerprint::for_value(&self.value)
    }
}

/// What is known of a subject.
#[derive(Debug, Clone, PartialEq)]
pub enum KnownApproval {
    /// It was approved as it is.
    Approved,
    /// It was never approved.
    New,
    /// It was approved when it was like this.
    Changed(Value),
}

/// Remembers approvals.
///
/// Asked whenever a server connects or its list of tools changes, from the server's own task; quick, or it
/// holds that server up. What can't be answered is [`KnownApproval::New`]: not approved.
pub trait ApprovalStore: Send + Sync + 'static {
    /// What is known of a subject.
    fn known(&self, subject: &ApprovalSubject) -> KnownApproval;

    /// Remembers that the user approved it, in place of what was approved under its name before.
    ///
    /// # Errors
    /// In words.
    fn approve(&self, subject: &ApprovalSubject) -> Result<(), String>;
}

/// Approvals that end with the process, or that the host keeps: see [`entries`](MemoryApprovals::entries).
#[derive(Debug, Default)]
pub struct MemoryApprovals(Mutex<BTreeMap<(String, Option<String>), Value>>);

/// One approval, as a host may store it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredApproval {
    /// The server.
    pub server: String,
    /// The tool; nothing for the server itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What was approved.
    pub value: Value,
}

impl MemoryApprovals {
    /// These approvals.
    pub fn from_entries(entries: impl IntoIterator<Item = StoredApproval>) -> MemoryApprovals {
        let known = entries.into_iter().map(|entry| ((entry.server, entry.tool), entry.value));
        MemoryApprovals(Mutex::new(known.collect()))
    }

    /// All approvals, in order.
    pub fn entries(&self) -> Vec<StoredApproval> {
        let known = lock(&self.0);
        let entry = |((server, tool), value): (&(String, Option<String>), &Value)| StoredApproval {
            server: server.clone(),
            tool: tool.clone(),
            value: value.clone(),
        };
        known.iter().map(entry).collect()
    }
}

impl ApprovalStore for MemoryApprovals {
    fn known(&self, subject: &ApprovalSubject) -> KnownApproval {
        let known = lock(&self.0);
        match known.get(&(subject.server.clone(), subject.tool.clone())) {
            None => KnownApproval::New,
            Some(before) if ApprovalFingerprint::for_value(before) == subject.fingerprint() => {
                KnownApproval::Approved
            }
            Some(before) => KnownApproval::Changed(before.clone()),
        }
    }

    fn approve(&self, subject: &ApprovalSubject) -> Result<(), String> {
        let key = (subject.server.clone(), subject.tool.clone());
        lock(&self.0).insert(key, subject.value.clone());
        Ok(())
    }
}

/// Something that is not offered until it is approved.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WithheldItem {
    /// What.
    pub subject: ApprovalSubject,
    /// What was approved before, if something was.
    pub before: Option<Value>,
}

impl WithheldItem {
    /// Something that is withheld, and what was approved before.
    pub fn new(subject: ApprovalSubject, before: Option<Value>) -> WithheldItem {
        WithheldItem { subject, before }
    }

    /// What there is to approve, for a person: the whole of something new, or what changed. Nothing in it is
    /// hidden.
    pub fn diff(&self) -> String {
        let lines = |value: &Value| text::escape_invisible(&pretty_json(value)).into_owned();
        let now = lines(&self.subject.value);
        let before = self.before.as_ref().map(lines).unwrap_or_default();
        TextDiff::from_lines(&before, &now).unified_diff().context_radius(2).to_string()
    }
}

/// A value over several lines, keys in order, texts with their line breaks, so that a change shows as one.
fn pretty_json(value: &Value) -> String {
    let ordered: Value = serde_json::from_str(&haft::canonical::to_string(value)).unwrap_or(Value::Null);
    let mut text = serde_json::to_string_pretty(&ordered).unwrap_or_default().replace("\\n", "\n      ");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(description: &str) -> ApprovalSubject {
        let value = json!({"name": "t", "description": description, "inputSchema": {"type": "object"}});
        ApprovalSubject { server: "s".into(), tool: Some("t".into()), value }
    }

    #[test]
    fn an_approval_counts_for_what_was_seen_and_nothing_else() {
        let approvals = MemoryApprovals::default();
        assert_eq!(approvals.known(&tool("a")), KnownApproval::New);
        approvals.approve(&tool("a")).unwrap();
        assert_eq!(approvals.known(&tool("a")), KnownApproval::Approved);
        assert_eq!(approvals.known(&tool("b")), KnownApproval::Changed(tool("a").value));
        let elsewhere = ApprovalSubject { server: "other".into(), ..tool("a") };
        assert_eq!(approvals.known(&elsewhere), KnownApproval::New);
        let stored = serde_json::to_string(&approvals.entries()).unwrap();
        let again =
            MemoryApprovals::from_entries(serde_json::from_str::<Vec<StoredApproval>>(&stored).unwrap());
        assert_eq!(again.known(&tool("a")), KnownApproval::Approved);
    }

    #[test]
    fn a_diff_shows_what_changed_and_hides_nothing() {
        let changed = WithheldItem { subject: tool("b\u{202e}"), before: Some(tool("a").value) };
        let diff = changed.diff();
        assert!(diff.contains("-  \"description\": \"a\""), "{diff}");
        assert!(diff.contains("+  \"description\": \"b\\u{202e}\""), "{diff}");
        let new = WithheldItem { subject: tool("a"), before: None }.diff();
        assert!(new.contains("+  \"name\": \"t\"") && !new.contains("\n-"), "{new}");
    }
}
