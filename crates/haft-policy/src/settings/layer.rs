//! The files that settings come from, each read once, strongest first.
//!
//! The trees that are read here are also evaluated, hashed and merged later: no file is opened a second
//! time between showing it to the user and using it. An invalid file stops everything: haft can't run
//! without its rules.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::text::truncate_chars;
use serde_json::{Map, Value, json};

use super::de::{LayerPlace, ReadContext, TreeReader, UnknownKey};
use super::hook::is_event;
use super::jsonc::{self, JsonNode, NO_SPOT, SettingsFault, TextPosition};
use super::known_names::{closest_name, foreign_keys};
use super::mcp_servers::{self, McpServer};
use super::places::{SettingsPlaces, normalize_path};
use super::read_file::{self, UnreadableFile};
use super::table::{SectionSpec, TableEntry};
use super::user_servers::{self, UserServers};
use crate::source::{SettingsSource, SourceScope};
use haft::ports::PermissionMode;

/// The maximum size of a settings file, in bytes.
pub const SETTINGS_BYTES_MAX: u64 = 1024 * 1024;
/// The maximum number of warnings about settings; the rest is only counted.
pub const WARNINGS_MAX: usize = 100;
/// The maximum number of files in the folder of managed fragments.
const MANAGED_PIECES_MAX: usize = 200;
/// The maximum number of characters shown of an unknown key.
const KEY_CHARS_MAX: usize = 80;
/// Returns a message with the correct object for a key in the wrong one.
fn misplaced_key_hint(table: &SectionSpec, key: &str) -> Option<String> {
    if table.get(key).is_some() {
        return Some("it belongs at the top of the file".to_owned());
    }
    let has =
        |entry: &TableEntry| matches!(entry, TableEntry::Section(section) if section.get(key).is_some());
    let section = table.entries.iter().find(|(_, entry)| has(entry));
    section.map(|(section, _)| format!("it belongs in `{section}`"))
}

/// The command-line flags that affect settings.
#[derive(Debug, Clone, Default)]
pub struct SettingsFlags {
    /// `--settings`: a file, or the JSON itself.
    pub settings: Vec<String>,
    /// `--allow`.
    pub allow: Vec<String>,
    /// `--ask`.
    pub ask: Vec<String>,
    /// `--deny`.
    pub deny: Vec<String>,
    /// `--permission-mode`.
    pub permission_mode: Option<PermissionMode>,
    /// Additional working directories.
    pub add_dirs: Vec<PathBuf>,
    /// `--mcp-config`.
    pub mcp_config: Vec<PathBuf>,
    /// `--trust-hash`.
    pub trust_hash: Option<String>,
}

/// An error in a file, which stops everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsProblem {
    /// The file name for display, or the flag.
    pub file: String,
    /// The location in the file.
    pub at: Option<TextPosition>,
    /// The problem, and what is accepted.
    pub message: String,
}

impl fmt::Display for SettingsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(TextPosition { line, column }) => {
                write!(f, "{}:{line}:{column}: {}", self.file, self.message)
            }
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// The error for invalid settings: every invalid file, with its first problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError {
    /// The problems, at least one.
    pub problems: Vec<SettingsProblem>,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n" };
            write!(f, "{gap}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsError {}

/// A warning for the user, which stops nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsWarning {
    /// The origin.
    pub source: SettingsSource,
    /// The message.
    pub message: String,
}

impl fmt::Display for SettingsWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.message)
    }
}

/// One settings file, or the settings of a flag.
#[derive(Debug)]
pub struct SettingsLayer {
    /// The file; `None` if a flag contains the JSON.
    pub(crate) path: Option<PathBuf>,
    pub(crate) place: LayerPlace,
    pub(crate) root: JsonNode,
}

impl SettingsLayer {
    pub(crate) fn source(&self, at: TextPosition) -> SettingsSource {
        self.place.source(at)
    }

    /// Returns whether the file is in the workspace, so that anyone who can write there controls it.
    pub(crate) fn is_workspaces(&self) -> bool {
        is_workspaces(self.place.scope)
    }

    pub(crate) fn is_managed(&self) -> bool {
        self.place.scope == SourceScope::Managed
    }

    /// Returns the handlers of known events, each with its event and matcher.
    pub(crate) fn handlers(&self) -> impl Iterator<Item = (&str, &str, &JsonNode)> {
        let events = self.root.get("hooks").map(JsonNode::fields).unwrap_or_default().iter();
        let known = events.filter(|(event, _)| is_event(&event.name));
        let groups = known.flat_map(|(event, groups)| groups.items().iter().map(move |group| (event, group)));
        groups.flat_map(|(event, group)| {
            let matcher = group.get("matcher").and_then(JsonNode::as_str).unwrap_or("*");
            let handlers = group.get("hooks").map(JsonNode::items).unwrap_or_default();
            handlers.iter().map(move |handler| (event.name.as_str(), matcher, handler))
        })
    }
}

/// Returns whether settings of a scope are in the workspace.
pub(crate) fn is_workspaces(scope: SourceScope) -> bool {
    matches!(scope, SourceScope::Project | SourceScope::Local)
}

/// All layers that were read.
#[derive(Debug)]
pub struct SettingsLayers {
    pub(crate) table: &'static SectionSpec,
    /// The layers, strongest first.
    pub(crate) layers: Vec<SettingsLayer>,
    pub(crate) servers: Vec<McpServer>,
    pub(crate) flags: SettingsFlags,
    pub(crate) places: SettingsPlaces,
    pub(crate) warnings: Vec<SettingsWarning>,
}

impl SettingsLayers {
    /// Reads all files. Runs nothing, writes nothing.
    ///
    /// # Errors
    /// Returns [`SettingsError`] if files can't be read or parsed.
    pub fn read(places: &SettingsPlaces, flags: &SettingsFlags) -> Result<SettingsLayers, SettingsError> {
        SettingsLayers::read_with(SectionSpec::standard(), places, flags)
    }

    /// Reads all files with a given table of settings.
    pub(crate) fn read_with(
        table: &'static SectionSpec,
        places: &SettingsPlaces,
        flags: &SettingsFlags,
    ) -> Result<SettingsLayers, SettingsError> {
        let mut reader =
            LayerReader { table, places, layers: Vec::new(), warnings: Vec::new(), problems: Vec::new() };
        reader.settings(flags);
        let servers = reader.servers(flags);
        let LayerReader { layers, mut warnings, problems, .. } = reader;
        if !problems.is_empty() {
            return Err(SettingsError { problems });
        }
        limit_warnings(&mut warnings);
        Ok(SettingsLayers { table, layers, servers, flags: flags.clone(), places: places.clone(), warnings })
    }

    /// Returns the existing files, strongest first, with their scopes.
    pub fn files(&self) -> impl Iterator<Item = (&Path, SourceScope)> {
        self.layers.iter().filter_map(|layer| Some((layer.path.as_deref()?, layer.place.scope)))
    }
}

pub(crate) fn limit_warnings(warnings: &mut Vec<SettingsWarning>) {
    let more = warnings.len().saturating_sub(WARNINGS_MAX);
    if more > 0 {
        warnings.truncate(WARNINGS_MAX);
        if let Some(last) = warnings.last_mut() {
            last.message = format!("and {} more warnings about settings", more + 1);
        }
    }
}

struct LayerReader<'a> {
    table: &'static SectionSpec,
    places: &'a SettingsPlaces,
    layers: Vec<SettingsLayer>,
    warnings: Vec<SettingsWarning>,
    problems: Vec<SettingsProblem>,
}

impl LayerReader<'_> {
    fn settings(&mut self, flags: &SettingsFlags) {
        let places = self.places;
        let cwd: Arc<Path> = places.cwd.as_path().into();
        if let Some(managed) = &places.managed {
            self.file(SourceScope::Managed, managed, &folder_of(managed), FileRequirement::No);
        }
        if let Some(folder) = &places.claude_managed_dir {
            let anchor: Arc<Path> = folder.as_path().into();
            for path in self.managed_pieces(folder) {
                self.file(SourceScope::Managed, &path, &anchor, FileRequirement::No);
            }
        }
        self.flags(flags, &cwd);
        // The last flag is the strongest.
        for given in flags.settings.iter().rev() {
            if given.trim_start().starts_with('{') {
                let shown: Arc<Path> = Path::new("inline settings").into();
                self.understand(SourceScope::CommandLine, None, shown, &cwd, given);
            } else {
                let path = normalize_path(&places.cwd, Path::new(given));
                self.file(
                    SourceScope::CommandLine,
                    &path,
                    &folder_of(&path),
                    FileRequirement::Yes(", or JSON that begins with `{`"),
                );
            }
        }
        let users: Vec<PathBuf> = [&places.config_dir, &places.claude_dir]
            .into_iter()
            .flatten()
            .map(|dir| dir.join("settings.json"))
            .collect();
        let own: Vec<PathBuf> = users.iter().filter_map(|path| path.canonicalize().ok()).collect();
        // If the workspace is the home folder, its `.claude` is the user's. The file is read once, as the
        // user's.
        let is_users = |path: &Path| path.canonicalize().is_ok_and(|path| own.contains(&path));
        let root = places.git_root.as_deref().unwrap_or(&places.cwd);
        let workspaces = [
            (SourceScope::Local, places.cwd.join(".haft/settings.local.json")),
            (SourceScope::Local, root.join(".claude/settings.local.json")),
            (SourceScope::Project, places.cwd.join(".haft/settings.json")),
            (SourceScope::Project, places.cwd.join(".claude/settings.json")),
        ];
        for (scope, path) in workspaces {
            if !is_users(&path) {
                self.file(scope, &path, &cwd, FileRequirement::No);
            }
        }
        for path in users {
            self.file(SourceScope::User, &path, &folder_of(&path), FileRequirement::No);
        }
    }

    /// Builds a layer from the permission flags. Their rules are checked together with those of all layers.
    fn flags(&mut self, flags: &SettingsFlags, cwd: &Arc<Path>) {
        let mode = flags.permission_mode.map(|mode| json!(mode.to_string()));
        let lists = [("deny", &flags.deny), ("ask", &flags.ask), ("allow", &flags.allow)];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        let lists = lists.map(|(key, list)| (key.to_owned(), json!(list)));
        let permissions: Map<String, Value> =
            lists.chain(mode.map(|mode| ("defaultMode".to_owned(), mode))).collect();
        if !permissions.is_empty() {
            let root = JsonNode::from_value(json!({"permissions": permissions}), NO_SPOT, self.next_layer());
            let place = LayerPlace { scope: SourceScope::CommandLine, shown: None, anchor: cwd.clone() };
            self.layers.push(SettingsLayer { path: None, place, root });
        }
    }

    /// Returns the index of the next layer.
    fn next_layer(&self) -> u16 {
        u16::try_from(self.layers.len()).unwrap_or(u16::MAX)
    }

    /// Returns the managed files of Claude Code, strongest first. Fragments with later names override
    /// earlier ones, and all fragments override the file.
    fn managed_pieces(&mut self, folder: &Path) -> Vec<PathBuf> {
        let pieces = folder.join("managed-settings.d");
        let mut found = Vec::new();
        match std::fs::read_dir(&pieces) {
            Ok(entries) => {
                for entry in entries {
                    match entry {
                        Ok(entry) => found.push(entry.path()),
                        Err(error) => self.no_folder(&pieces, &error),
                    }
                }
            }
            Err(_) if pieces.symlink_metadata().is_err() => {}
            Err(error) => self.no_folder(&pieces, &error),
        }
        found.retain(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(".json") && !name.starts_with('.')
        });
        if found.len() > MANAGED_PIECES_MAX {
            let file = pieces.display().to_string();
            let message = format!("there are more than {MANAGED_PIECES_MAX} files in it");
            self.problems.push(SettingsProblem { file, at: None, message });
        }
        found.sort();
        found.reverse();
        found.push(folder.join("managed-settings.json"));
        found
    }

    fn no_folder(&mut self, folder: &Path, error: &std::io::Error) {
        let message = format!("can't be listed: {error}");
        self.problems.push(SettingsProblem { file: folder.display().to_string(), at: None, message });
    }

    fn file(&mut self, scope: SourceScope, path: &Path, anchor: &Arc<Path>, needed: FileRequirement) {
        if let Some((text, shown)) = self.text(path, needed) {
            self.understand(scope, Some(path.to_owned()), shown, anchor, &text);
        }
    }

    /// Returns the text of a file, and its name for display.
    fn text(&mut self, path: &Path, needed: FileRequirement) -> Option<(String, Arc<Path>)> {
        let shown: Arc<Path> = PathBuf::from(self.places.show(path)).into();
        let read = read_file::read_text(path, SETTINGS_BYTES_MAX);
        let (at, message) = match (read, needed) {
            (Ok(Some(text)), _) => return Some((text, shown)),
            (Ok(None), FileRequirement::No) => match read_file::folder_fault(path) {
                None => return None,
                Some(UnreadableFile { why, at }) => (at, format!("can't be read: {why}")),
            },
            (Ok(None), FileRequirement::Yes(or)) => {
                (None, format!("there is no such file; give one that exists{or}"))
            }
            (Err(UnreadableFile { why, at }), _) => (at, format!("can't be read: {why}")),
        };
        self.problems.push(SettingsProblem { file: shown.display().to_string(), at, message });
        None
    }

    fn understand(
        &mut self,
        scope: SourceScope,
        path: Option<PathBuf>,
        shown: Arc<Path>,
        anchor: &Arc<Path>,
        text: &str,
    ) {
        let file = shown.display().to_string();
        let place = LayerPlace { scope, shown: Some(shown), anchor: anchor.clone() };
        let read = jsonc::parse_layer(text, self.next_layer());
        let checked = read.and_then(|root| self.check(&place, &root).map(|faults| (root, faults)));
        match checked {
            Ok((root, faults)) => {
                faults.iter().for_each(|fault| self.problem(file.clone(), fault));
                self.layers.push(SettingsLayer { path, place, root });
            }
            Err(fault) => self.problem(file, &fault),
        }
    }

    fn problem(&mut self, file: String, fault: &SettingsFault) {
        self.problems.push(SettingsProblem { file, at: fault.at, message: fault.to_string() });
    }

    /// Checks a whole file by the table. Returns faults that leave the rest of the file usable.
    fn check(&mut self, place: &LayerPlace, root: &JsonNode) -> Result<Vec<SettingsFault>, SettingsFault> {
        let context = ReadContext { places: Some(self.places), ..ReadContext::default() };
        self.table.check(TreeReader::new(root, &context))?;
        let warn = |at: TextPosition, message: String| SettingsWarning { source: place.source(at), message };
        self.note_unknown(&warn, context.unknown.into_inner());
        self.warnings.extend(context.notes.into_inner().into_iter().map(|(at, message)| warn(at, message)));
        Ok(context.faults.into_inner())
    }

    fn note_unknown(
        &mut self,
        warn: &dyn Fn(TextPosition, String) -> SettingsWarning,
        unknown: Vec<UnknownKey>,
    ) {
        for UnknownKey { at, key, inside, known } in unknown {
            if inside.is_none() && foreign_keys().any(|foreign| foreign == key) {
                continue;
            }
            let object = inside.map_or_else(|| "settings".to_owned(), |inside| format!("`{inside}`"));
            // Beyond the shown warnings a suggestion helps no reader, and computing it takes time.
            let few = self.warnings.len() < WARNINGS_MAX;
            let near =
                || closest_name(&key, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
            let near = few.then(|| misplaced_key_hint(self.table, &key).or_else(near)).flatten();
            let near = near.map_or_else(String::new, |near| format!("; {near}"));
            let key = truncate_chars(&key, KEY_CHARS_MAX);
            let message = format!("`{key}` is not a key of {object} and does nothing{near}");
            self.warnings.push(warn(at, message));
        }
    }

    fn servers(&mut self, flags: &SettingsFlags) -> Vec<McpServer> {
        let places = self.places;
        let anchor: Arc<Path> = places.cwd.as_path().into();
        let mut servers: Vec<McpServer> = Vec::new();
        // The last flag is the strongest.
        for path in flags.mcp_config.iter().rev() {
            let path = normalize_path(&places.cwd, path);
            servers.extend(self.servers_in(
                SourceScope::CommandLine,
                &path,
                &anchor,
                FileRequirement::Yes(""),
            ));
        }
        // haft's own list takes precedence over Claude Code's.
        let own = places.own_servers();
        let files = [own.as_deref(), places.claude_json.as_deref()];
        let (mut local, mut user) = (Vec::new(), Vec::new());
        for path in files.into_iter().flatten() {
            let (here, everywhere) = self.added_servers(path, &anchor);
            local.extend(here);
            user.extend(everywhere);
        }
        servers.extend(local);
        servers.extend(self.servers_in(
            SourceScope::Project,
            &places.cwd.join(".mcp.json"),
            &anchor,
            FileRequirement::No,
        ));
        servers.extend(user);
        servers
    }

    fn servers_in(
        &mut self,
        scope: SourceScope,
        path: &Path,
        anchor: &Arc<Path>,
        needed: FileRequirement,
    ) -> Vec<McpServer> {
        let Some((text, shown)) = self.text(path, needed) else { return Vec::new() };
        match mcp_servers::parse_servers(&text, scope, &shown, anchor) {
            Ok((found, odd)) => {
                for (at, message) in odd {
                    let source = SettingsSource::in_file(scope, &*shown, at.line, &**anchor);
                    self.warnings.push(SettingsWarning { source, message });
                }
                found
            }
            Err(fault) => {
                self.problem(shown.display().to_string(), &fault);
                Vec::new()
            }
        }
    }

    /// Returns the servers that the user added for this workspace, and those for all. Programs write this
    /// file and it contains no rules, so an unreadable file loosens nothing and is only reported.
    fn added_servers(&mut self, path: &Path, anchor: &Arc<Path>) -> (Vec<McpServer>, Vec<McpServer>) {
        let shown: Arc<Path> = PathBuf::from(self.places.show(path)).into();
        let roots = [Some(self.places.cwd.as_path()), self.places.git_root.as_deref()];
        let roots: Vec<&Path> = roots.into_iter().flatten().collect();
        let source =
            |scope| SettingsSource { scope, file: Some(shown.clone()), line: None, anchor: anchor.clone() };
        match user_servers::read_user_servers(path, &roots, &source) {
            Ok(UserServers { local, user, odd }) => {
                self.warnings.extend(
                    odd.into_iter()
                        .map(|message| SettingsWarning { source: source(SourceScope::User), message }),
                );
                (local, user)
            }
            Err(words) => {
                let message = format!("{words}; the servers in it are left out");
                self.warnings.push(SettingsWarning { source: source(SourceScope::User), message });
                (Vec::new(), Vec::new())
            }
        }
    }
}

/// Whether a file has to exist.
#[derive(Clone, Copy)]
enum FileRequirement {
    /// A flag names the file. Contains the other form that the flag accepts.
    Yes(&'static str),
    No,
}

fn folder_of(path: &Path) -> Arc<Path> {
    path.parent().unwrap_or(Path::new("/")).into()
}
