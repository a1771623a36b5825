//! Finding what a workspace would run or loosen: in its settings, its servers, and the folders that are loaded from it.
//!
//! The settings are the parsed ones that will be used, not a second reading. What never counts (refused variables, a
//! looser mode) and what only tightens isn't listed: there is nothing to say yes to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::digest::Digest;
use super::inventory::{Item, Kind, Named, UsersScript, shown};
use super::{files, named};
use crate::settings::table::{LooseningSetting, each_loosening, find};
use crate::settings::{Layer, Layers, Node, Places, Server, Spot, Transport, input, is_refused_variable};

/// How many bytes of a skill or command are read for its tools.
const SKILL_BYTES_MAX: u64 = 1024 * 1024;

/// What was found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) items: Vec<Item>,
    /// What can't be hashed, in words.
    pub(crate) obstacles: Vec<String>,
    /// The scripts that something names, by its key.
    pub(crate) scripts: BTreeMap<String, BTreeSet<PathBuf>>,
}

/// All items, and what can't be hashed.
pub(crate) fn collect(layers: &Layers) -> Found {
    let mut collect = Collect { places: &layers.places, found: Found::default(), seen: BTreeSet::new() };
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

/// Directories that are worked in beside the working directory.
pub(crate) fn added(layers: &Layers) -> Vec<PathBuf> {
    let lists =
        layers.layers.iter().filter_map(|layer| find(&layer.root, "permissions.additionalDirectories"));
    let of_settings = lists.flat_map(Node::items).filter_map(Node::as_str).map(PathBuf::from);
    let dirs = layers.flags.add_dirs.iter().cloned().chain(of_settings);
    let dirs = dirs.map(|dir| match (dir.strip_prefix("~"), &layers.places.home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => layers.places.cwd.join(&dir),
    });
    dirs.map(|dir| dir.canonicalize().unwrap_or(dir)).collect()
}

/// Scripts in the workspace that the hooks and the classifier of the user and of the machine's owner name.
pub(crate) fn of_user(layers: &Layers, dirs: &[PathBuf]) -> Vec<UsersScript> {
    let places = &layers.places;
    let mut found = Vec::new();
    let mut add = |by: String, paths: Vec<PathBuf>| {
        for path in paths.into_iter().filter(|path| is_script(path)) {
            let digest = files::digest(&path);
            found.push(UsersScript { by: by.clone(), path, digest });
        }
    };
    let bases: Vec<&Path> =
        [places.cwd.as_path()].into_iter().chain(dirs.iter().map(PathBuf::as_path)).collect();
    for layer in layers.layers.iter().filter(|layer| !layer.is_workspaces()) {
        for (_, _, handler) in layer.handlers() {
            add(Named::Hook(&layer.source(handler.at)).key(), named_by(handler, places, &bases));
        }
        if let Some(classifier) = find(&layer.root, "classifier.command") {
            add("classifier".into(), named::in_args(words(classifier), places, &bases));
        }
    }
    found
}

/// The files that the command of a handler names.
fn named_by(handler: &Node, places: &Places, bases: &[&Path]) -> Vec<PathBuf> {
    let command = handler.get("command").and_then(Node::as_str).unwrap_or_default();
    match handler.get("args") {
        Some(args) => named::in_args(std::iter::once(command).chain(words(args)), places, bases),
        None => named::in_line(command, places, bases),
    }
}

/// The texts of a list.
fn words(list: &Node) -> impl Iterator<Item = &str> + Clone {
    list.items().iter().filter_map(Node::as_str)
}

/// Whether a file that is there is run, and not only read: it may be, or looks like it.
fn is_script(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(found) = path.metadata() else { return false };
    let ends = path.to_str().is_some_and(haft_shell::is_script_name);
    found.is_file() && (ends || found.permissions().mode() & 0o111 != 0)
}

/// The digest of an item that is a file.
pub(crate) fn file_digest(name: &str, content: Result<Option<Digest>, String>) -> Result<Digest, String> {
    let content = content?;
    let there: &[u8] = if content.is_some() { b"file" } else { b"no file" };
    Ok(Digest::of([name.as_bytes(), there, content.as_ref().map_or(&[][..], Digest::bytes)]))
}

struct Collect<'a> {
    places: &'a Places,
    found: Found,
    /// Files that are among the items already.
    seen: BTreeSet<(Kind, PathBuf)>,
}

impl Collect<'_> {
    /// `name` is what makes it this one, `text` what people read, `content` all of it.
    fn add(&mut self, layer: &Layer, at: Spot, kind: Kind, name: &str, text: &str, content: &Value) {
        let place = layer.source(at).to_string();
        let file = layer.path.as_deref().map(|path| self.name(path));
        let content = haft::canonical::to_string(&json!([file, content]));
        self.found.items.push(Item::new(kind, name, text, place, &content));
    }

    /// A setting that needs trust. Its name and content are part of the hash that the user trusted.
    fn setting(&mut self, layer: &Layer, loosening: &LooseningSetting<'_>) {
        let LooseningSetting { kind, key, name, node } = *loosening;
        let value = node.to_value();
        let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let (name, text, content) = match (kind, name) {
            // Handlers are items of their own.
            (Kind::Hook, _) => return,
            (Kind::AllowRule, _) => {
                let rule = node.get("rule").and_then(Node::as_str).map_or(plain, str::to_owned);
                (rule.clone(), rule.clone(), json!(rule))
            }
            (Kind::Env, Some(name)) if is_refused_variable(name) => return,
            (Kind::Env, Some(name)) => (name.to_owned(), format!("{name}={plain}"), json!(plain)),
            (Kind::Effects, Some(name)) => (name.to_owned(), format!("{name}: {value}"), value),
            (Kind::Directory, _) => (plain.clone(), plain, value),
            (Kind::RepetitionGuard, _) => (key.to_owned(), plain, value),
            (Kind::Classifier, _) => {
                let command = find(node, "command").map(|command| words(command).collect::<Vec<_>>());
                let command = command.unwrap_or_default();
                self.scripts(named::in_args(command.iter().copied(), self.places, &[&self.places.cwd]));
                (key.to_owned(), command.join(" "), value)
            }
            (Kind::ServerApproval, _) if key == "enabledMcpjsonServers" => (plain.clone(), plain, value),
            (Kind::ServerApproval, _) if key == "allowedMcpServers" => {
                let text = format!("allowed: {value}");
                (text.clone(), text, value)
            }
            (Kind::ServerApproval, _) => ("all".to_owned(), "all servers of .mcp.json".to_owned(), value),
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

    fn hooks(&mut self, layer: &Layer) {
        for (event, matcher, handler) in layer.handlers() {
            let given = handler.to_value();
            let text = format!("{event} {matcher}: {}", action(&given));
            let content = json!([event, matcher, given]);
            self.add(layer, handler.at, Kind::Hook, &text, &text, &content);
            if given["onFailure"] == "continue" {
                self.add(layer, handler.at, Kind::FailingOpen, &text, &text, &content);
            }
            let found = named_by(handler, self.places, &[&self.places.cwd]);
            let hook = Named::Hook(&layer.source(handler.at)).key();
            self.found.scripts.entry(hook).or_default().extend(found.iter().cloned());
            self.scripts(found);
        }
    }

    /// A file's name, the same on every machine: from the workspace, or from the root of the repository.
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
            self.file(Kind::Script, &path);
        }
    }

    /// A file, by its bytes.
    fn file(&mut self, kind: Kind, path: &Path) {
        let name = self.name(path);
        if !self.seen.insert((kind, path.to_owned())) {
            return;
        }
        match file_digest(&name, files::digest(path)) {
            Ok(digest) => {
                let (place, text) = (shown(&name), shown(&name));
                // The name stays whole: it is part of the digest.
                self.found.items.push(Item { kind, name, text, place, digest, file: Some(path.to_owned()) });
            }
            Err(words) => self.found.obstacles.push(format!("`{}` can't be hashed: {words}", shown(&name))),
        }
    }

    fn server(&mut self, server: &Server) {
        let place = server.source.to_string();
        let (text, content) = match &server.transport {
            Transport::Stdio { command, args, env } => {
                let words = std::iter::once(command).chain(args).map(String::as_str);
                let found = named::in_args(words.clone(), self.places, &[&self.places.cwd]);
                self.scripts(found);
                let mut text = format!("{}: {}", server.name, words.collect::<Vec<_>>().join(" "));
                if !env.is_empty() {
                    let names: Vec<_> = env.keys().map(String::as_str).collect();
                    text += &format!(" (with {})", names.join(", "));
                }
                (text, json!(["stdio", command, args, env]))
            }
            Transport::Remote { kind, url, headers, headers_helper, oauth } => {
                if let Some(helper) = headers_helper {
                    let text = format!("{}: {helper}", server.name);
                    self.found.items.push(Item::new(
                        Kind::HeadersHelper,
                        &server.name,
                        &text,
                        place.clone(),
                        helper,
                    ));
                    let found = named::in_line(helper, self.places, &[&self.places.cwd]);
                    self.scripts(found);
                }
                let text = format!("{}: {url}", server.name);
                (text, json!(["remote", format!("{kind:?}"), url, headers, headers_helper, oauth]))
            }
        };
        let content = haft::canonical::to_string(&content);
        self.found.items.push(Item::new(Kind::Server, &server.name, &text, place, &content));
    }

    /// Everything in the folders of script tools, and what their commands name outside of them.
    fn tools(&mut self) {
        let folder = self.places.cwd.join(".haft/tools");
        for path in self.listed(&folder) {
            self.file(Kind::ToolFile, &path);
            if path.file_name().is_some_and(|name| name == "tool.json") {
                let Ok(Some(text)) = input::text(&path, crate::settings::SETTINGS_BYTES_MAX) else {
                    continue;
                };
                // By the reader that reads it when it is loaded: what that refuses is no tool.
                let Ok(tool) = haft::schema::parse_json(&text) else { continue };
                let command: Vec<&str> =
                    tool["command"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                let own = path.parent().unwrap_or(&folder).to_owned();
                let found = named::in_args(command, self.places, &[&own, &self.places.cwd]);
                let found: Vec<_> = found.into_iter().filter(|path| !path.starts_with(&folder)).collect();
                let tool = Named::Tool(&own).key();
                self.found.scripts.entry(tool).or_default().extend(found.iter().cloned());
                self.scripts(found);
            }
        }
    }

    fn agents(&mut self, folder: &Path) {
        for path in self.listed(folder).into_iter().filter(|path| has_end(path, ".md")) {
            self.file(Kind::Agent, &path);
        }
    }

    /// Skills and commands that give themselves tools or hooks. The words for the model don't count, so that they can
    /// be edited.
    fn skills(&mut self, folder: &Path, end: &str) {
        for path in self.listed(folder).into_iter().filter(|path| has_end(path, end)) {
            let name = self.name(&path);
            match input::text(&path, SKILL_BYTES_MAX) {
                Ok(Some(text)) => {
                    let Some(head) = head_with_tools(&text) else { continue };
                    let own = path.parent().unwrap_or(folder).to_owned();
                    let found = named::in_line(&head, self.places, &[&own, &self.places.cwd]);
                    self.found.items.push(Item::new(Kind::SkillTools, &name, &name, shown(&name), &head));
                    self.scripts(found.into_iter().filter(|path| path.exists()).collect());
                }
                Ok(None) => {}
                Err(input::Unreadable { why: words, .. }) => {
                    self.found.obstacles.push(format!("`{}` can't be read: {words}", shown(&name)));
                }
            }
        }
    }

    fn listed(&mut self, folder: &Path) -> Vec<PathBuf> {
        files::below(folder).unwrap_or_else(|words| {
            let name = shown(&self.places.show(folder));
            self.found.obstacles.push(format!("`{name}` can't be listed: {words}"));
            Vec::new()
        })
    }
}

fn has_end(path: &Path, end: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().to_lowercase().ends_with(&end.to_lowercase()))
}

/// The head of a skill or command, if it gives itself something; the whole text where its head has no end.
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

/// What a handler does, in a line.
fn action(handler: &Value) -> String {
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
