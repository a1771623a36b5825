//! Collects what a workspace would run or loosen: from its settings, its servers, and the folders that are
//! loaded from it.
//!
//! It uses the parsed settings that will take effect and doesn't parse them a second time. Values that
//! never apply (refused variables, a looser mode) and values that only tighten are not listed: there is
//! nothing to approve.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::digest::Digest;
use super::inventory::{ScriptReference, TrustItem, TrustItemKind, UserScript, printable_text};
use super::{hash_files, referenced_files};
use crate::settings::table::{LooseningSetting, each_loosening, find_value};
use crate::settings::{
    JsonNode, McpServer, McpTransport, SettingsLayer, SettingsLayers, SettingsPlaces, TextPosition,
    is_refused_variable, read_file,
};

/// The maximum number of bytes of a skill or command that are read for its tools.
const SKILL_BYTES_MAX: u64 = 1024 * 1024;

/// The collected items.
#[derive(Default)]
pub(crate) struct CollectedItems {
    pub(crate) items: Vec<TrustItem>,
    /// Why files can't be hashed, as text.
    pub(crate) obstacles: Vec<String>,
    /// The scripts that an item names, by the item's key.
    pub(crate) scripts: BTreeMap<String, BTreeSet<PathBuf>>,
}

/// Returns all items, and the files that can't be hashed.
pub(crate) fn collect_items(layers: &SettingsLayers) -> CollectedItems {
    let mut collect =
        ItemCollector { places: &layers.places, found: CollectedItems::default(), seen: BTreeSet::new() };
    for layer in layers.layers.iter().filter(|layer| layer.is_workspaces()) {
        collect.hooks(layer);
        each_loosening(layers.table, &layer.root, |loosening| collect.setting(layer, loosening));
    }
    for server in layers.servers.iter().filter(|server| server.of_workspace) {
        collect.server(server);
    }
    collect.tools();
    for folder in [".claude", ".haft"] {
        collect.agents(&layers.places.cwd.join(folder).join("agents"));
        collect.skills(&layers.places.cwd.join(folder).join("skills"), "SKILL.md");
        collect.skills(&layers.places.cwd.join(folder).join("commands"), ".md");
    }
    collect.found
}

/// Returns the additional working directories.
pub(crate) fn added_directories(layers: &SettingsLayers) -> Vec<PathBuf> {
    let lists =
        layers.layers.iter().filter_map(|layer| find_value(&layer.root, "permissions.additionalDirectories"));
    let of_settings = lists.flat_map(JsonNode::items).filter_map(JsonNode::as_str).map(PathBuf::from);
    let dirs = layers.flags.add_dirs.iter().cloned().chain(of_settings);
    let dirs = dirs.map(|dir| match (dir.strip_prefix("~"), &layers.places.home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => layers.places.cwd.join(&dir),
    });
    dirs.map(|dir| dir.canonicalize().unwrap_or(dir)).collect()
}

/// Returns scripts in the workspace that hooks and classifiers of user and managed settings name.
pub(crate) fn collect_user_scripts(layers: &SettingsLayers, dirs: &[PathBuf]) -> Vec<UserScript> {
    let places = &layers.places;
    let mut found = Vec::new();
    let mut add = |by: String, paths: Vec<PathBuf>| {
        for path in paths.into_iter().filter(|path| is_script(path)) {
            let digest = hash_files::hash_file(&path);
            found.push(UserScript { by: by.clone(), path, digest });
        }
    };
    let bases: Vec<&Path> =
        [places.cwd.as_path()].into_iter().chain(dirs.iter().map(PathBuf::as_path)).collect();
    for layer in layers.layers.iter().filter(|layer| !layer.is_workspaces()) {
        for (_, _, handler) in layer.handlers() {
            add(ScriptReference::Hook(&layer.source(handler.at)).key(), named_by(handler, places, &bases));
        }
        if let Some(classifier) = find_value(&layer.root, "classifier.command") {
            add("classifier".into(), referenced_files::in_args(list_texts(classifier), places, &bases));
        }
    }
    found
}

/// Returns the files that a handler's command names.
fn named_by(handler: &JsonNode, places: &SettingsPlaces, bases: &[&Path]) -> Vec<PathBuf> {
    let command = handler.get("command").and_then(JsonNode::as_str).unwrap_or_default();
    match handler.get("args") {
        Some(args) => {
            referenced_files::in_args(std::iter::once(command).chain(list_texts(args)), places, bases)
        }
        None => referenced_files::in_line(command, places, bases),
    }
}

/// Returns the texts of a list.
fn list_texts(list: &JsonNode) -> impl Iterator<Item = &str> + Clone {
    list.items().iter().filter_map(JsonNode::as_str)
}

/// Returns whether an existing file is executed and not only read: it is executable, or looks like a
/// script.
fn is_script(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(found) = path.metadata() else { return false };
    let ends = path.to_str().is_some_and(haft_shell::is_script_name);
    found.is_file() && (ends || found.permissions().mode() & 0o111 != 0)
}

/// Returns the digest of an item that is a file.
pub(crate) fn file_digest(name: &str, content: Result<Option<Digest>, String>) -> Result<Digest, String> {
    let content = content?;
    let there: &[u8] = if content.is_some() { b"file" } else { b"no file" };
    Ok(Digest::from_parts([name.as_bytes(), there, content.as_ref().map_or(&[][..], Digest::bytes)]))
}

struct ItemCollector<'a> {
    places: &'a SettingsPlaces,
    found: CollectedItems,
    /// Files that already are items.
    seen: BTreeSet<(TrustItemKind, PathBuf)>,
}

impl ItemCollector<'_> {
    /// Adds an item: `name` identifies it, `text` is displayed, `content` is hashed.
    fn add(
        &mut self,
        layer: &SettingsLayer,
        at: TextPosition,
        kind: TrustItemKind,
        name: &str,
        text: &str,
        content: &Value,
    ) {
        let place = layer.source(at).to_string();
        let file = layer.path.as_deref().map(|path| self.name(path));
        let content = haft::canonical::to_string(&json!([file, content]));
        self.found.items.push(TrustItem::new(kind, name, text, place, &content));
    }

    /// Adds a setting that needs trust. Its name and content are part of the hash that the user approved.
    fn setting(&mut self, layer: &SettingsLayer, loosening: &LooseningSetting<'_>) {
        let LooseningSetting { kind, key, name, node } = *loosening;
        let value = node.to_value();
        let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let (name, text, content) = match (kind, name) {
            // Handlers are separate items.
            (TrustItemKind::Hook, _) => return,
            (TrustItemKind::AllowRule, _) => {
                let rule = node.get("rule").and_then(JsonNode::as_str).map_or(plain, str::to_owned);
                (rule.clone(), rule.clone(), json!(rule))
            }
            (TrustItemKind::Env, Some(name)) if is_refused_variable(name) => return,
            (TrustItemKind::Env, Some(name)) => (name.to_owned(), format!("{name}={plain}"), json!(plain)),
            (TrustItemKind::Effects, Some(name)) => (name.to_owned(), format!("{name}: {value}"), value),
            (TrustItemKind::Directory, _) => (plain.clone(), plain, value),
            (TrustItemKind::RepetitionGuard, _) => (key.to_owned(), plain, value),
            (TrustItemKind::Classifier, _) => {
                let command =
                    find_value(node, "command").map(|command| list_texts(command).collect::<Vec<_>>());
                let command = command.unwrap_or_default();
                self.scripts(referenced_files::in_args(
                    command.iter().copied(),
                    self.places,
                    &[&self.places.cwd],
                ));
                (key.to_owned(), command.join(" "), value)
            }
            (TrustItemKind::ServerApproval, _) if key == "enabledMcpjsonServers" => {
                (plain.clone(), plain, value)
            }
            (TrustItemKind::ServerApproval, _) if key == "allowedMcpServers" => {
                let text = format!("allowed: {value}");
                (text.clone(), text, value)
            }
            (TrustItemKind::ServerApproval, _) => {
                ("all".to_owned(), "all servers of .mcp.json".to_owned(), value)
            }
            (_, name) => {
                let key = key.strip_prefix("sandbox.").unwrap_or(key);
                let (plain, value) = match name {
                    Some(name) => (json!({ name: value }).to_string(), json!({ name: value })),
                    None => (plain, value),
                };
                let text = format!("{key}: {plain}");
                (text.clone(), text, value)
            }
        };
        self.add(layer, node.at, kind, &name, &text, &content);
    }

    fn hooks(&mut self, layer: &SettingsLayer) {
        for (event, matcher, handler) in layer.handlers() {
            let given = handler.to_value();
            let text = format!("{event} {matcher}: {}", describe_handler(&given));
            let content = json!([event, matcher, given]);
            self.add(layer, handler.at, TrustItemKind::Hook, &text, &text, &content);
            if given["onFailure"] == "continue" {
                self.add(layer, handler.at, TrustItemKind::FailingOpen, &text, &text, &content);
            }
            let found = named_by(handler, self.places, &[&self.places.cwd]);
            let hook = ScriptReference::Hook(&layer.source(handler.at)).key();
            self.found.scripts.entry(hook).or_default().extend(found.iter().cloned());
            self.scripts(found);
        }
    }

    /// Returns a file's name, which is the same on every machine: relative to the workspace or to the
    /// repository root.
    fn name(&self, path: &Path) -> String {
        let of_root = self.places.git_root.as_ref().and_then(|root| path.strip_prefix(root).ok());
        match (path.strip_prefix(&self.places.cwd), of_root) {
            (Ok(inside), _) => inside.display().to_string(),
            (Err(_), Some(inside)) => format!(":/{}", inside.display()),
            (Err(_), None) => path.display().to_string(),
        }
    }

    fn scripts(&mut self, found: Vec<PathBuf>) {
        for path in found {
            self.file(TrustItemKind::Script, &path);
        }
    }

    /// Adds a file with its content.
    fn file(&mut self, kind: TrustItemKind, path: &Path) {
        let name = self.name(path);
        if !self.seen.insert((kind, path.to_owned())) {
            return;
        }
        match file_digest(&name, hash_files::hash_file(path)) {
            Ok(digest) => {
                let (place, text) = (printable_text(&name), printable_text(&name));
                // The name is not truncated: it is part of the digest.
                self.found.items.push(TrustItem {
                    kind,
                    name,
                    text,
                    place,
                    digest,
                    file: Some(path.to_owned()),
                });
            }
            Err(words) => {
                self.found.obstacles.push(format!("`{}` can't be hashed: {words}", printable_text(&name)))
            }
        }
    }

    fn server(&mut self, server: &McpServer) {
        let place = server.source.to_string();
        let (text, content) = match &server.transport {
            McpTransport::Stdio { command, args, env } => {
                let words = std::iter::once(command).chain(args).map(String::as_str);
                let found = referenced_files::in_args(words.clone(), self.places, &[&self.places.cwd]);
                self.scripts(found);
                let mut text = format!("{}: {}", server.name, words.collect::<Vec<_>>().join(" "));
                if !env.is_empty() {
                    let names: Vec<_> = env.keys().map(String::as_str).collect();
                    text += &format!(" (with {})", names.join(", "));
                }
                (text, json!(["stdio", command, args, env]))
            }
            McpTransport::Remote { kind, url, headers, headers_helper, oauth } => {
                if let Some(helper) = headers_helper {
                    let text = format!("{}: {helper}", server.name);
                    self.found.items.push(TrustItem::new(
                        TrustItemKind::HeadersHelper,
                        &server.name,
                        &text,
                        place.clone(),
                        helper,
                    ));
                    let found = referenced_files::in_line(helper, self.places, &[&self.places.cwd]);
                    self.scripts(found);
                }
                let text = format!("{}: {url}", server.name);
                (text, json!(["remote", format!("{kind:?}"), url, headers, headers_helper, oauth]))
            }
        };
        let content = haft::canonical::to_string(&content);
        self.found.items.push(TrustItem::new(TrustItemKind::Server, &server.name, &text, place, &content));
    }

    /// Adds everything in the folders of script tools, and the files outside of them that their commands
    /// name.
    fn tools(&mut self) {
        let folder = self.places.cwd.join(".haft/tools");
        for path in self.listed(&folder) {
            self.file(TrustItemKind::ToolFile, &path);
            if path.file_name().is_some_and(|name| name == "tool.json") {
                let Ok(Some(text)) = read_file::read_text(&path, crate::settings::SETTINGS_BYTES_MAX) else {
                    continue;
                };
                // Uses the parser that will load the file: what it rejects is no tool.
                let Ok(tool) = haft::schema::parse_json(&text) else { continue };
                let command: Vec<&str> =
                    tool["command"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                let own = path.parent().unwrap_or(&folder).to_owned();
                let found = referenced_files::in_args(command, self.places, &[&own, &self.places.cwd]);
                let found: Vec<_> = found.into_iter().filter(|path| !path.starts_with(&folder)).collect();
                let tool = ScriptReference::Tool(&own).key();
                self.found.scripts.entry(tool).or_default().extend(found.iter().cloned());
                self.scripts(found);
            }
        }
    }

    fn agents(&mut self, folder: &Path) {
        for path in self.listed(folder).into_iter().filter(|path| has_end(path, ".md")) {
            self.file(TrustItemKind::Agent, &path);
        }
    }

    /// Adds skills and commands that give themselves tools or hooks. Their text for the model isn't part of
    /// the item, so that it can be edited.
    fn skills(&mut self, folder: &Path, end: &str) {
        for path in self.listed(folder).into_iter().filter(|path| has_end(path, end)) {
            let name = self.name(&path);
            match read_file::read_text(&path, SKILL_BYTES_MAX) {
                Ok(Some(text)) => {
                    let Some(head) = head_with_tools(&text) else { continue };
                    let own = path.parent().unwrap_or(folder).to_owned();
                    let found = referenced_files::in_line(&head, self.places, &[&own, &self.places.cwd]);
                    self.found.items.push(TrustItem::new(
                        TrustItemKind::SkillTools,
                        &name,
                        &name,
                        printable_text(&name),
                        &head,
                    ));
                    self.scripts(found.into_iter().filter(|path| path.exists()).collect());
                }
                Ok(None) => {}
                Err(read_file::UnreadableFile { why: words, .. }) => {
                    self.found.obstacles.push(format!("`{}` can't be read: {words}", printable_text(&name)));
                }
            }
        }
    }

    fn listed(&mut self, folder: &Path) -> Vec<PathBuf> {
        hash_files::list_files(folder).unwrap_or_else(|words| {
            let name = printable_text(&self.places.show(folder));
            self.found.obstacles.push(format!("`{name}` can't be listed: {words}"));
            Vec::new()
        })
    }
}

fn has_end(path: &Path, end: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().to_lowercase().ends_with(&end.to_lowercase()))
}

/// Returns the front matter of a skill or command if it gives itself tools or hooks, or the whole text if
/// the front matter doesn't end.
fn head_with_tools(text: &str) -> Option<String> {
    let plain: String = text.to_lowercase().chars().filter(|c| !matches!(c, '-' | '_')).collect();
    let gives =
        ["allowedtools", "tools:", "hooks:", "tools\":", "hooks\":"].iter().any(|key| plain.contains(key));
    if !gives {
        return None;
    }
    let text = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    let Some(rest) = text.strip_prefix("---") else { return Some(text.to_owned()) };
    let end = rest.find("\n---").map_or(text.len(), |end| "---".len() + end);
    Some(text[..end].to_owned())
}

/// Describes what a handler does, in one line.
fn describe_handler(handler: &Value) -> String {
    let text = |key: &str| handler[key].as_str().unwrap_or_default();
    match text("type") {
        "command" => {
            let args = handler["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
            std::iter::once(text("command")).chain(args).collect::<Vec<_>>().join(" ")
        }
        "http" => text("url").to_owned(),
        "mcp_tool" => format!("{}/{}", text("server"), text("tool")),
        other => format!("{other}: {}", text("prompt")),
    }
}
