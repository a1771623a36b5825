//! The items that a workspace would run or loosen.
//!
//! An item knows its kind but not how it was found; `collect.rs` finds them. The hash covers the contents
//! of items and not lines or comments, so that a new deny rule or a comment needs no new approval.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::collect::{self, CollectedItems};
use super::digest::Digest;
use super::{hash_files, referenced_files};
use crate::settings::{HookAction, SettingsLayers, SettingsPlaces};
use crate::source::SettingsSource;

/// The maximum number of items of one workspace.
pub const ITEMS_MAX: usize = 10_000;
/// The maximum number of characters kept of an item's name and text.
const ITEM_CHARS_MAX: usize = 400;

/// The kind of an item, in display order: what runs comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrustItemKind {
    /// A hook.
    Hook,
    /// A hook whose failure doesn't block.
    FailingOpen,
    /// A server that is started or contacted.
    Server,
    /// A command that produces headers for a server.
    HeadersHelper,
    /// A command that decides in the user's place.
    Classifier,
    /// A file that one of these runs, or would run if it existed.
    Script,
    /// A file of a script tool.
    ToolFile,
    /// An agent.
    Agent,
    /// Tools that a skill or command may use without asking.
    SkillTools,
    /// An allow rule.
    AllowRule,
    /// An additional working directory.
    Directory,
    /// Effects that the workspace declares for a tool.
    Effects,
    /// An environment variable.
    Env,
    /// A sandbox setting.
    Sandbox,
    /// An approval of servers.
    ServerApproval,
    /// Hosts that hooks may reach, or variables that they may send.
    HookReach,
    /// A repetition guard that asks later than the default, or never.
    RepetitionGuard,
}

impl TrustItemKind {
    /// Returns the singular and the plural of the kind.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            TrustItemKind::Hook => ("hook", "hooks"),
            TrustItemKind::FailingOpen => ("hook that fails open", "hooks that fail open"),
            TrustItemKind::Server => ("server", "servers"),
            TrustItemKind::HeadersHelper => ("header helper", "header helpers"),
            TrustItemKind::Classifier => ("classifier", "classifiers"),
            TrustItemKind::Script => ("script", "scripts"),
            TrustItemKind::ToolFile => ("file of a script tool", "files of script tools"),
            TrustItemKind::Agent => ("agent", "agents"),
            TrustItemKind::SkillTools => ("skill with tools of its own", "skills with tools of their own"),
            TrustItemKind::AllowRule => ("allow rule", "allow rules"),
            TrustItemKind::Directory => ("added directory", "added directories"),
            TrustItemKind::Effects => ("declaration of effects", "declarations of effects"),
            TrustItemKind::Env => ("environment variable", "environment variables"),
            TrustItemKind::Sandbox => ("sandbox setting", "sandbox settings"),
            TrustItemKind::ServerApproval => ("approval of servers", "approvals of servers"),
            TrustItemKind::HookReach => ("allowance for hooks", "allowances for hooks"),
            TrustItemKind::RepetitionGuard => ("looser repetition guard", "looser repetition guards"),
        }
    }
}

/// One thing that a workspace would run or loosen.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrustItem {
    /// The kind.
    pub kind: TrustItemKind,
    /// The name. An item with the same name and other contents is the same item, changed.
    pub name: String,
    /// The content, for display: control characters are escaped and long text is truncated.
    pub text: String,
    /// The origin, such as `.haft/settings.json:7`.
    pub place: String,
    /// The digest of the content, and of a file's bytes.
    pub digest: Digest,
    /// The file whose bytes count, where it is one.
    pub(crate) file: Option<PathBuf>,
}

impl TrustItem {
    /// Creates an item with a text as its content.
    pub(crate) fn new(
        kind: TrustItemKind,
        name: &str,
        text: &str,
        place: String,
        content: &str,
    ) -> TrustItem {
        let digest = Digest::from_parts([name.as_bytes(), content.as_bytes()]);
        TrustItem { kind, name: printable_text(name), text: printable_text(text), place, digest, file: None }
    }
}

impl TrustItem {
    /// The file whose bytes count, where it is one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

impl fmt::Display for TrustItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind.words().0, self.text)
    }
}

/// Makes a text safe to display: one line, truncated, with control and invisible characters escaped.
pub(crate) fn printable_text(text: &str) -> String {
    let mut safe = String::new();
    for (index, c) in text.chars().enumerate() {
        if index == ITEM_CHARS_MAX {
            safe.push('…');
            break;
        }
        // Bidirectional controls and zero-width characters make a text look like another one.
        let hides = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
        if c.is_control() || hides { safe.extend(c.escape_default()) } else { safe.push(c) }
    }
    safe
}

/// Everything that a workspace would run or loosen.
#[derive(Debug, Clone, Default)]
pub struct TrustInventory {
    items: Vec<TrustItem>,
    obstacles: Vec<String>,
    /// The scripts that items name, by the item's origin.
    scripts: BTreeMap<String, BTreeSet<PathBuf>>,
    /// Scripts in the workspace that hooks of the user name, with their digests at the time of creation.
    users: Vec<UserScript>,
    /// The location of the workspace and its additional directories.
    around: Option<(SettingsPlaces, Vec<PathBuf>)>,
}

/// A script in the workspace that runs for the user.
#[derive(Debug, Clone)]
pub(crate) struct UserScript {
    /// The key of the item that names it.
    pub(crate) by: String,
    pub(crate) path: PathBuf,
    pub(crate) digest: Result<Option<Digest>, String>,
}

impl TrustInventory {
    /// Builds the inventory from the loaded settings and the files that they name.
    pub fn from_layers(layers: &SettingsLayers) -> TrustInventory {
        let CollectedItems { mut items, mut obstacles, scripts } = collect::collect_items(layers);
        items.sort();
        // The same rule in two files is one item, and so is one script of two hooks.
        items.dedup_by(|a, b| a.kind == b.kind && a.name == b.name && a.digest == b.digest);
        if items.len() > ITEMS_MAX {
            items.truncate(ITEMS_MAX);
            obstacles.push(format!("there are more than {ITEMS_MAX} items; nobody can read them all"));
        }
        let dirs = collect::added_directories(layers);
        let users = collect::collect_user_scripts(layers, &dirs);
        TrustInventory { items, obstacles, scripts, users, around: Some((layers.places.clone(), dirs)) }
    }

    /// Returns the scripts in the workspace that hooks of user and managed settings name. Callers protect
    /// them from writes.
    pub fn users_files(&self) -> impl Iterator<Item = &Path> {
        self.users.iter().map(|script| script.path.as_path())
    }

    /// Returns a script of one hook that has changed since the session began, if there is one.
    pub fn stale_users(&self, hook: &ScriptReference<'_>) -> Option<&Path> {
        let key = hook.key();
        let of_hook = self.users.iter().filter(|script| script.by == key);
        let mut changed = of_hook.filter(|script| hash_files::hash_file(&script.path) != script.digest);
        changed.next().map(|script| script.path.as_path())
    }

    /// Returns whether a hook may run a file in the workspace, whoever configured the hook: a command could
    /// have written that file.
    pub fn runs_workspace(&self, action: &HookAction) -> bool {
        let (Some((places, dirs)), HookAction::Command { command, args, .. }) = (&self.around, action) else {
            return false;
        };
        match args {
            Some(args) => {
                let words = std::iter::once(command).chain(args).map(String::as_str);
                referenced_files::args_run_inside(words, places, dirs)
            }
            None => referenced_files::line_runs_inside(command, places, dirs),
        }
    }

    /// Returns the items in display order.
    pub fn items(&self) -> &[TrustItem] {
        &self.items
    }

    /// Returns the files that run for the workspace. Callers protect them from writes.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.items.iter().filter_map(|item| item.file.as_deref())
    }

    /// Returns why the workspace can't be trusted: a file that can't be hashed can change undetected.
    pub fn obstacles(&self) -> &[String] {
        &self.obstacles
    }

    /// Returns whether there is nothing to trust.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.obstacles.is_empty()
    }

    /// Returns the hash of all items, which is the same in every folder and on every machine.
    pub fn hash(&self) -> Digest {
        let items: BTreeSet<(&str, Digest)> =
            self.items.iter().map(|item| (item.kind.words().0, item.digest)).collect();
        let parts = items.iter().flat_map(|(kind, digest)| [kind.as_bytes(), digest.bytes()]);
        Digest::from_parts(std::iter::once(&b"haft trust 1"[..]).chain(parts))
    }

    /// Returns the number of items of each kind: `2 hooks, 1 allow rule`.
    pub fn summary(&self) -> String {
        let mut counts: BTreeMap<TrustItemKind, usize> = BTreeMap::new();
        self.items.iter().for_each(|item| *counts.entry(item.kind).or_default() += 1);
        let words = counts.iter().map(|(kind, count)| {
            let (one, several) = kind.words();
            format!("{count} {}", if *count == 1 { one } else { several })
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Returns which files of the selected items have changed on disk since they were hashed. Callers check
    /// this before they run something for a trusted workspace.
    pub fn stale(&self, which: impl Fn(&TrustItem) -> bool) -> Vec<TrustChange> {
        let mut changes = Vec::new();
        for item in self.items.iter().filter(|item| which(item)) {
            let Some(path) = &item.file else { continue };
            let now = collect::file_digest(&item.name, hash_files::hash_file(path));
            if now.as_ref() != Ok(&item.digest) {
                changes.push(TrustChange::Changed {
                    kind: item.kind,
                    before: item.text.clone(),
                    now: item.text.clone(),
                });
            }
        }
        changes
    }

    /// Returns which scripts of one hook, or of the tool in one folder, have changed on disk since they
    /// were hashed.
    pub fn stale_scripts(&self, of: &ScriptReference<'_>) -> Vec<TrustChange> {
        let Some(named) = self.scripts.get(&of.key()) else { return Vec::new() };
        self.stale(|item| {
            item.kind == TrustItemKind::Script && item.file.as_ref().is_some_and(|file| named.contains(file))
        })
    }

    /// Returns the differences from an earlier inventory.
    pub(crate) fn changes_from(&self, before: &[StoredItem]) -> Vec<TrustChange> {
        let kept: BTreeSet<(TrustItemKind, &str, Digest)> =
            before.iter().map(|item| (item.kind, item.name.as_str(), item.digest)).collect();
        let now: BTreeSet<(TrustItemKind, &str, Digest)> =
            self.items.iter().map(|item| (item.kind, item.name.as_str(), item.digest)).collect();
        let mut gone: Vec<&StoredItem> = before
            .iter()
            .filter(|item| !now.contains(&(item.kind, item.name.as_str(), item.digest)))
            .collect();
        let mut changes = Vec::new();
        for item in self.items.iter().filter(|item| !kept.contains(&(item.kind, &item.name, item.digest))) {
            let same = gone.iter().position(|other| (other.kind, &other.name) == (item.kind, &item.name));
            changes.push(match same {
                Some(index) => {
                    let before = gone.remove(index).text.clone();
                    TrustChange::Changed { kind: item.kind, before, now: item.text.clone() }
                }
                None => TrustChange::Added { kind: item.kind, text: item.text.clone() },
            });
        }
        changes.extend(
            gone.into_iter().map(|item| TrustChange::Removed { kind: item.kind, text: item.text.clone() }),
        );
        changes
    }

    pub(crate) fn kept(&self) -> Vec<StoredItem> {
        let kept = self.items.iter().map(|item| StoredItem {
            kind: item.kind,
            name: item.name.clone(),
            text: item.text.clone(),
            digest: item.digest,
        });
        kept.collect()
    }
}

/// An item as stored with the approval, so that changes can be named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredItem {
    pub(crate) kind: TrustItemKind,
    pub(crate) name: String,
    pub(crate) text: String,
    #[serde(with = "hex")]
    pub(crate) digest: Digest,
}

/// Serializes digests as hexadecimal text.
pub(crate) mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::Digest;

    pub(crate) fn serialize<S: Serializer>(digest: &Digest, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(digest)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// An item that names scripts.
#[derive(Debug, Clone, Copy)]
pub enum ScriptReference<'a> {
    /// A hook, by its origin.
    Hook(&'a SettingsSource),
    /// A script tool, by its folder.
    Tool(&'a Path),
}

impl ScriptReference<'_> {
    /// Returns the key. Two hooks on one line share a key, and each is then responsible for the scripts of
    /// both.
    pub(crate) fn key(&self) -> String {
        match self {
            ScriptReference::Hook(source) => format!("hook {source}"),
            ScriptReference::Tool(folder) => format!("tool {}", folder.display()),
        }
    }
}

/// A difference from the state that the user approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustChange {
    /// A new item.
    Added {
        /// The kind.
        kind: TrustItemKind,
        /// What it says.
        text: String,
    },
    /// A removed item.
    Removed {
        /// The kind.
        kind: TrustItemKind,
        /// The former content.
        text: String,
    },
    /// An item with the same name and other contents.
    Changed {
        /// The kind.
        kind: TrustItemKind,
        /// The former content.
        before: String,
        /// What it says.
        now: String,
    },
}

impl fmt::Display for TrustChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrustChange::Added { kind, text } => write!(f, "new {} `{text}`", kind.words().0),
            TrustChange::Removed { kind, text } => write!(f, "{} `{text}` is gone", kind.words().0),
            TrustChange::Changed { kind, before, now } if before == now => {
                write!(f, "changed {} `{now}`", kind.words().0)
            }
            TrustChange::Changed { kind, before, now } => {
                write!(f, "changed {} `{now}`, before `{before}`", kind.words().0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_not_hide() {
        assert_eq!(printable_text("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(printable_text("x\u{202e}y\u{200b}"), "x\\u{202e}y\\u{200b}");
        assert_eq!(printable_text("grün 木"), "grün 木");
        assert_eq!(printable_text(&"x".repeat(1000)).chars().count(), ITEM_CHARS_MAX + 1);
    }

    fn inventory(items: &[(TrustItemKind, &str, &str)]) -> TrustInventory {
        let items = items
            .iter()
            .map(|(kind, name, content)| TrustItem::new(*kind, name, name, String::new(), content));
        TrustInventory { items: items.collect(), ..TrustInventory::default() }
    }

    #[test]
    fn differences_are_named_item_by_item() {
        let before = inventory(&[
            (TrustItemKind::Hook, "a", "1"),
            (TrustItemKind::Env, "E", "x"),
            (TrustItemKind::AllowRule, "r", "r"),
        ]);
        let now = inventory(&[
            (TrustItemKind::Hook, "a", "2"),
            (TrustItemKind::AllowRule, "r", "r"),
            (TrustItemKind::Server, "s", "s"),
        ]);
        let changes: Vec<String> = now.changes_from(&before.kept()).iter().map(ToString::to_string).collect();
        assert_eq!(changes, ["changed hook `a`", "new server `s`", "environment variable `E` is gone"]);
        assert!(now.changes_from(&now.kept()).is_empty());
        assert_ne!(before.hash(), now.hash());
    }

    #[test]
    fn the_hash_does_not_depend_on_order_or_count() {
        let one = inventory(&[(TrustItemKind::Hook, "a", "1"), (TrustItemKind::Env, "E", "x")]);
        let other = inventory(&[
            (TrustItemKind::Env, "E", "x"),
            (TrustItemKind::Hook, "a", "1"),
            (TrustItemKind::Hook, "a", "1"),
        ]);
        assert_eq!(one.hash(), other.hash());
        assert_eq!(one.summary(), "1 hook, 1 environment variable");
    }
}
