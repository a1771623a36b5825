//! The files that settings come from, each read once, in order, strongest first.
//!
//! What is read here is what is judged, hashed and merged later: no file is opened a second time between showing it to
//! a person and using it. A file that can't be understood stops everything; there is no way to go on without its rules.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::text::{truncate_chars, truncate_with_ellipsis};
use serde_json::Value;

use super::added::{self, Added};
use super::de::{self, Unknown};
use super::hook::{EVENTS, HookGroup};
use super::input::{self, Unreadable};
use super::jsonc::{self, Fault, Spot};
use super::known::{ELSEWHERE, closest};
use super::mcp::{self, Server};
use super::places::{Places, lexical};
use super::raw::{RawPermissions, RawRule, RawSettings};
use super::sandbox::RawSandbox;
use super::servers::ToolSearchSettings;
use crate::hooks;
use crate::rule::Rule;
use crate::source::{List, Scope, Source, WrittenRule};
use haft::ports::PermissionMode;

/// The longest settings file, in bytes.
pub const SETTINGS_BYTES_MAX: u64 = 1024 * 1024;
/// How many warnings about settings are kept; the rest is counted.
pub const WARNINGS_MAX: usize = 100;
/// How many files the folder of managed pieces may hold.
const MANAGED_PIECES_MAX: usize = 200;
/// How many characters of an unknown key are shown.
const KEY_CHARS_MAX: usize = 80;
/// How many characters of a rule that can't be understood are shown.
const RULE_CHARS_MAX: usize = 200;

/// Where a key belongs that stands in the wrong object, in words.
fn belongs(key: &str) -> Option<String> {
    let places = [
        ("at the top of the file", de::keys_of::<RawSettings>()),
        ("in `permissions`", de::keys_of::<RawPermissions>()),
        ("in `sandbox`", de::keys_of::<RawSandbox>()),
    ];
    places.iter().find(|(_, keys)| keys.contains(&key)).map(|(place, _)| format!("it belongs {place}"))
}

/// What flags say about settings.
#[derive(Debug, Clone, Default)]
pub struct Flags {
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
    /// Directories to work in, beside the current one.
    pub add_dirs: Vec<PathBuf>,
    /// `--mcp-config`.
    pub mcp_config: Vec<PathBuf>,
    /// `--trust-hash`.
    pub trust_hash: Option<String>,
}

/// Something wrong in a file that stops everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file as a person finds it, or the flag.
    pub file: String,
    /// Where in it.
    pub at: Option<Spot>,
    /// What is wrong and what is accepted.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(Spot { line, column }) => write!(f, "{}:{line}:{column}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// Settings that can't be used: every file that is wrong, with its first problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError {
    /// At least one.
    pub problems: Vec<Problem>,
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

/// Something that a person should know and that stops nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where.
    pub source: Source,
    /// What.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.message)
    }
}

/// One file of settings, or one flag with JSON in it.
#[derive(Debug)]
pub struct Layer {
    pub(crate) scope: Scope,
    /// The file; none where a flag holds the JSON.
    pub(crate) path: Option<PathBuf>,
    shown: Arc<Path>,
    anchor: Arc<Path>,
    pub(crate) raw: RawSettings,
    pub(crate) hooks: Vec<HookGroup>,
    /// The whole file, without its places.
    pub(crate) given: Value,
}

impl Layer {
    /// The place of something in this file.
    pub(crate) fn source(&self, at: Spot) -> Source {
        let (file, anchor) = (Some(self.shown.clone()), self.anchor.clone());
        Source { scope: self.scope, file, line: Some(at.line), anchor }
    }

    /// Whether it lies in the workspace, so that anybody who writes there has written it.
    pub(crate) fn is_workspaces(&self) -> bool {
        is_workspaces(self.scope)
    }
}

/// Whether settings of a scope lie in the workspace.
pub(crate) fn is_workspaces(scope: Scope) -> bool {
    matches!(scope, Scope::Project | Scope::Local)
}

/// Everything that was read.
#[derive(Debug)]
pub struct Layers {
    /// Strongest first.
    pub(crate) layers: Vec<Layer>,
    pub(crate) servers: Vec<Server>,
    pub(crate) flags: Flags,
    pub(crate) places: Places,
    pub(crate) warnings: Vec<Warning>,
}

impl Layers {
    /// Reads all files. Runs nothing, writes nothing.
    ///
    /// # Errors
    /// Files that can't be read or understood.
    pub fn read(places: &Places, flags: &Flags) -> Result<Layers, SettingsError> {
        let mut reading = Reading { places, layers: Vec::new(), warnings: Vec::new(), problems: Vec::new() };
        reading.settings(flags);
        let servers = reading.servers(flags);
        let Reading { layers, mut warnings, problems, .. } = reading;
        if !problems.is_empty() {
            return Err(SettingsError { problems });
        }
        bound(&mut warnings);
        Ok(Layers { layers, servers, flags: flags.clone(), places: places.clone(), warnings })
    }

    /// The files that were there, strongest first, with their scopes.
    pub fn files(&self) -> impl Iterator<Item = (&Path, Scope)> {
        self.layers.iter().filter_map(|layer| Some((layer.path.as_deref()?, layer.scope)))
    }
}

pub(crate) fn bound(warnings: &mut Vec<Warning>) {
    let more = warnings.len().saturating_sub(WARNINGS_MAX);
    if more > 0 {
        warnings.truncate(WARNINGS_MAX);
        if let Some(last) = warnings.last_mut() {
            last.message = format!("and {} more warnings about settings", more + 1);
        }
    }
}

struct Reading<'a> {
    places: &'a Places,
    layers: Vec<Layer>,
    warnings: Vec<Warning>,
    problems: Vec<Problem>,
}

impl Reading<'_> {
    fn settings(&mut self, flags: &Flags) {
        let places = self.places;
        let cwd: Arc<Path> = places.cwd.as_path().into();
        if let Some(managed) = &places.managed {
            self.file(Scope::Managed, managed, &folder_of(managed), Needed::No);
        }
        if let Some(folder) = &places.claude_managed_dir {
            let anchor: Arc<Path> = folder.as_path().into();
            for path in self.managed_pieces(folder) {
                self.file(Scope::Managed, &path, &anchor, Needed::No);
            }
        }
        // Of two flags the later one is stronger.
        for given in flags.settings.iter().rev() {
            if given.trim_start().starts_with('{') {
                let shown: Arc<Path> = Path::new("inline settings").into();
                self.understand(Scope::CommandLine, None, shown, &cwd, given);
            } else {
                let path = lexical(&places.cwd, Path::new(given));
                self.file(
                    Scope::CommandLine,
                    &path,
                    &folder_of(&path),
                    Needed::Yes(", or JSON that begins with `{`"),
                );
            }
        }
        let users: Vec<PathBuf> = [&places.config_dir, &places.claude_dir]
            .into_iter()
            .flatten()
            .map(|dir| dir.join("settings.json"))
            .collect();
        let own: Vec<PathBuf> = users.iter().filter_map(|path| path.canonicalize().ok()).collect();
        // In the home folder the workspace's `.claude` is the user's: one file is read once, as the user's.
        let is_users = |path: &Path| path.canonicalize().is_ok_and(|path| own.contains(&path));
        let root = places.git_root.as_deref().unwrap_or(&places.cwd);
        let workspaces = [
            (Scope::Local, places.cwd.join(".haft/settings.local.json")),
            (Scope::Local, root.join(".claude/settings.local.json")),
            (Scope::Project, places.cwd.join(".haft/settings.json")),
            (Scope::Project, places.cwd.join(".claude/settings.json")),
        ];
        for (scope, path) in workspaces {
            if !is_users(&path) {
                self.file(scope, &path, &cwd, Needed::No);
            }
        }
        for path in users {
            self.file(Scope::User, &path, &folder_of(&path), Needed::No);
        }
    }

    /// The machine owner's files for Claude Code, strongest first: of the pieces in a folder a later name has the last
    /// word, and all of them have it over the file.
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
            self.problems.push(Problem { file, at: None, message });
        }
        found.sort();
        found.reverse();
        found.push(folder.join("managed-settings.json"));
        found
    }

    fn no_folder(&mut self, folder: &Path, error: &std::io::Error) {
        let message = format!("can't be listed: {error}");
        self.problems.push(Problem { file: folder.display().to_string(), at: None, message });
    }

    fn file(&mut self, scope: Scope, path: &Path, anchor: &Arc<Path>, needed: Needed) {
        if let Some((text, shown)) = self.text(path, needed) {
            self.understand(scope, Some(path.to_owned()), shown, anchor, &text);
        }
    }

    /// The text of a file, and its name for people.
    fn text(&mut self, path: &Path, needed: Needed) -> Option<(String, Arc<Path>)> {
        let shown: Arc<Path> = PathBuf::from(self.places.show(path)).into();
        let read = input::text(path, SETTINGS_BYTES_MAX);
        let (at, message) = match (read, needed) {
            (Ok(Some(text)), _) => return Some((text, shown)),
            (Ok(None), Needed::No) => match input::folder_fault(path) {
                None => return None,
                Some(Unreadable { why, at }) => (at, format!("can't be read: {why}")),
            },
            (Ok(None), Needed::Yes(or)) => (None, format!("there is no such file; give one that exists{or}")),
            (Err(Unreadable { why, at }), _) => (at, format!("can't be read: {why}")),
        };
        self.problems.push(Problem { file: shown.display().to_string(), at, message });
        None
    }

    fn understand(
        &mut self,
        scope: Scope,
        path: Option<PathBuf>,
        shown: Arc<Path>,
        anchor: &Arc<Path>,
        text: &str,
    ) {
        let file = shown.display().to_string();
        let read = jsonc::parse(text).and_then(|root| {
            let (raw, unknown) = de::from_node::<RawSettings>(&root)?;
            Ok((raw, unknown, root.to_value()))
        });
        let layer = read.and_then(|(raw, unknown, given)| {
            let mut layer =
                Layer { scope, path, shown, anchor: anchor.clone(), raw, hooks: Vec::new(), given };
            self.note_unknown(&layer, unknown);
            layer.hooks = self.hooks(&layer)?;
            check(&layer.raw)?;
            Ok(layer)
        });
        match layer {
            Ok(layer) => {
                self.rules(&layer);
                self.layers.push(layer);
            }
            Err(fault) => self.problem(file, &fault),
        }
    }

    fn problem(&mut self, file: String, fault: &Fault) {
        self.problems.push(Problem { file, at: fault.at, message: fault.to_string() });
    }

    /// Every rule has to be understood, whether or not it counts today: a file with one that isn't is wrong.
    fn rules(&mut self, layer: &Layer) {
        let bad = rules_of(layer).filter_map(|(at, rule)| Some((at, Rule::parse(rule).err()?)));
        let problems = bad.map(|(at, bad)| Problem {
            file: layer.shown.display().to_string(),
            at: Some(at),
            message: format!("bad rule `{}`: {}", cut(&bad.rule), bad.what),
        });
        self.problems.extend(problems);
    }

    fn note_unknown(&mut self, layer: &Layer, unknown: Vec<Unknown>) {
        for Unknown { at, key, inside, known } in unknown {
            if inside.is_none() && ELSEWHERE.contains(&key.as_str()) {
                continue;
            }
            let place = inside.map_or_else(|| "settings".to_owned(), |inside| format!("`{inside}`"));
            // Beyond what is shown nobody reads the closest name, and finding it takes time.
            let few = self.warnings.len() < WARNINGS_MAX;
            let near = || {
                let near =
                    || closest(&key, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
                belongs(&key).or_else(near)
            };
            let near = few.then(near).flatten().map_or_else(String::new, |near| format!("; {near}"));
            let key = truncate_chars(&key, KEY_CHARS_MAX);
            let message = format!("`{key}` is not a key of {place} and does nothing{near}");
            self.warnings.push(Warning { source: layer.source(at), message });
        }
    }

    /// Hooks by event, understood.
    fn hooks(&mut self, layer: &Layer) -> Result<Vec<HookGroup>, Fault> {
        let mut all = Vec::new();
        for (event, groups) in layer.raw.hooks.iter().flat_map(|table| &table.0) {
            if !EVENTS.iter().any(|(known, _)| *known == event.value) {
                let near = closest(&event.value, EVENTS.iter().map(|(known, _)| *known));
                let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                let message = format!("there is no event `{}`, so its hooks never run{near}", event.value);
                self.warnings.push(Warning { source: layer.source(event.at), message });
                continue;
            }
            for group in groups {
                if let Some(matcher) = &group.value.matcher {
                    hooks::check_matcher(&matcher.value).map_err(|words| Fault::new(matcher.at, words))?;
                }
                let handlers = group.value.hooks.iter().map(|handler| {
                    let handler = handler.value.understand(handler.at, layer.source(handler.at));
                    handler.map_err(|(at, words)| Fault::new(at, words))
                });
                all.push(HookGroup {
                    event: event.value.clone(),
                    matcher: group.value.matcher.as_ref().map(|matcher| matcher.value.clone()),
                    handlers: handlers.collect::<Result<_, _>>()?,
                });
            }
        }
        Ok(all)
    }

    fn servers(&mut self, flags: &Flags) -> Vec<Server> {
        let places = self.places;
        let anchor: Arc<Path> = places.cwd.as_path().into();
        let mut servers: Vec<Server> = Vec::new();
        // Of two flags the later one is stronger.
        for path in flags.mcp_config.iter().rev() {
            let path = lexical(&places.cwd, path);
            servers.extend(self.servers_in(Scope::CommandLine, &path, &anchor, Needed::Yes("")));
        }
        // The user's own list before that of the other program.
        let own = places.own_servers();
        let files = [own.as_deref(), places.claude_json.as_deref()];
        let (mut local, mut user) = (Vec::new(), Vec::new());
        for path in files.into_iter().flatten() {
            let (here, everywhere) = self.added_servers(path, &anchor);
            local.extend(here);
            user.extend(everywhere);
        }
        servers.extend(local);
        servers.extend(self.servers_in(Scope::Project, &places.cwd.join(".mcp.json"), &anchor, Needed::No));
        servers.extend(user);
        servers
    }

    fn servers_in(&mut self, scope: Scope, path: &Path, anchor: &Arc<Path>, needed: Needed) -> Vec<Server> {
        let Some((text, shown)) = self.text(path, needed) else { return Vec::new() };
        match mcp::read(&text, scope, &shown, anchor) {
            Ok((found, odd)) => {
                for (at, message) in odd {
                    let source = Source::in_file(scope, &*shown, at.line, &**anchor);
                    self.warnings.push(Warning { source, message });
                }
                found
            }
            Err(fault) => {
                self.problem(shown.display().to_string(), &fault);
                Vec::new()
            }
        }
    }

    /// Servers that the user added for this workspace, and for all. Such a file is written by programs and holds no rules,
    /// so one that can't be read loosens nothing and is told.
    fn added_servers(&mut self, path: &Path, anchor: &Arc<Path>) -> (Vec<Server>, Vec<Server>) {
        let shown: Arc<Path> = PathBuf::from(self.places.show(path)).into();
        let roots = [Some(self.places.cwd.as_path()), self.places.git_root.as_deref()];
        let roots: Vec<&Path> = roots.into_iter().flatten().collect();
        let source = |scope| Source { scope, file: Some(shown.clone()), line: None, anchor: anchor.clone() };
        match added::read(path, &roots, &source) {
            Ok(Added { local, user, odd }) => {
                self.warnings
                    .extend(odd.into_iter().map(|message| Warning { source: source(Scope::User), message }));
                (local, user)
            }
            Err(words) => {
                let message = format!("{words}; the servers in it are left out");
                self.warnings.push(Warning { source: source(Scope::User), message });
                (Vec::new(), Vec::new())
            }
        }
    }
}

/// Whether a file has to be there.
#[derive(Clone, Copy)]
enum Needed {
    /// A flag names it; what else the flag takes.
    Yes(&'static str),
    No,
}

fn folder_of(path: &Path) -> Arc<Path> {
    path.parent().unwrap_or(Path::new("/")).into()
}

/// So much of a rule as a message has room for: a pasted page is no help to anybody.
pub(crate) fn cut(rule: &str) -> String {
    truncate_with_ellipsis(rule, RULE_CHARS_MAX)
}

/// The rules of a file, each with the place of its text.
pub(crate) fn rules_of(layer: &Layer) -> impl Iterator<Item = (Spot, WrittenRule)> {
    let lists = layer.raw.permissions.iter().flat_map(|permissions| {
        [(List::Deny, &permissions.deny), (List::Ask, &permissions.ask), (List::Allow, &permissions.allow)]
    });
    let each = lists.flat_map(|(list, given)| given.iter().flatten().map(move |rule| (list, rule)));
    each.map(|(list, given)| {
        let RawRule { rule, at, matches, not_matches, message } = given.value.clone();
        let source = layer.source(given.at);
        (at.unwrap_or(given.at), WrittenRule { rule, list, matches, not_matches, message, source })
    })
}

/// What types alone don't say.
fn check(raw: &RawSettings) -> Result<(), Fault> {
    for given in [&raw.allowed_mcp_servers, &raw.denied_mcp_servers].into_iter().flatten().flatten() {
        let server = &given.value;
        let empty = server.server_command.as_ref().is_some_and(Vec::is_empty);
        let keys =
            [server.server_name.is_some(), server.server_command.is_some(), server.server_url.is_some()];
        if empty || keys.into_iter().filter(|given| *given).count() != 1 {
            let words = "exactly one of `serverName`, `serverCommand` and `serverUrl` is accepted, and not an empty one";
            return Err(Fault::new(given.at, words));
        }
    }
    if let Some(classifier) = &raw.classifier {
        if classifier.value.command.is_empty() {
            return Err(Fault::new(classifier.at, "`command` names a program at least"));
        }
        if classifier.value.timeout_ms == Some(0) {
            return Err(Fault::new(classifier.at, "`timeoutMs` is at least 1"));
        }
    }
    if let Some(run) = &raw.run {
        run.value.check(run.at)?;
    }
    if let Some(mcp) = &raw.mcp {
        mcp.value.check(mcp.at)?;
    }
    if let Some(serve) = &raw.serve {
        serve.value.check(serve.at)?;
    }
    if let Some(web) = &raw.web {
        web.value.check(web.at)?;
    }
    raw.tool_search.as_ref().map_or(Ok(()), ToolSearchSettings::check)?;
    Ok(())
}
