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
use crate::settings::{
    Action, EVENTS, Layer, Layers, Places, RepetitionGuard, Server, Spot, Transport, input,
    is_refused_variable,
};

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
        collect.settings(layer);
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
    let of_settings = layers.layers.iter().filter_map(|layer| layer.raw.permissions.as_ref());
    let of_settings = of_settings.flat_map(|permissions| permissions.additional_directories.iter().flatten());
    let of_settings = of_settings.map(|dir| PathBuf::from(&dir.value));
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
        for handler in layer.hooks.iter().flat_map(|group| &group.handlers) {
            let Action::Command { command, args, .. } = &handler.action else { continue };
            let paths = match args {
                Some(args) => {
                    let words = std::iter::once(command).chain(args).map(String::as_str);
                    named::in_args(words, places, &bases)
                }
                None => named::in_line(command, places, &bases),
            };
            add(Named::Hook(&handler.source).key(), paths);
        }
        if let Some(classifier) = &layer.raw.classifier {
            let words = classifier.value.command.iter().map(String::as_str);
            add("classifier".into(), named::in_args(words, places, &bases));
        }
    }
    found
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

    fn settings(&mut self, layer: &Layer) {
        let raw = &layer.raw;
        self.hooks(layer);
        if let Some(classifier) = &raw.classifier {
            let command = &classifier.value.command;
            self.add(
                layer,
                classifier.at,
                Kind::Classifier,
                "classifier",
                &command.join(" "),
                &layer.given["classifier"],
            );
            let found = named::in_args(command.iter().map(String::as_str), self.places, &[&self.places.cwd]);
            self.scripts(found);
        }
        if let Some(permissions) = &raw.permissions {
            for rule in permissions.allow.iter().flatten() {
                let text = &rule.value.rule;
                self.add(layer, rule.at, Kind::AllowRule, text, text, &json!(text));
            }
            for dir in permissions.additional_directories.iter().flatten() {
                self.add(layer, dir.at, Kind::Directory, &dir.value, &dir.value, &json!(dir.value));
            }
        }
        for (tool, _) in raw.effects.iter().flat_map(|table| &table.0) {
            let given = &layer.given["effects"][&tool.value];
            let text = format!("{}: {given}", tool.value);
            self.add(layer, tool.at, Kind::Effects, &tool.value, &text, given);
        }
        for (name, value) in raw.env.iter().flat_map(|table| &table.0) {
            if !is_refused_variable(&name.value) {
                let text = format!("{}={}", name.value, value.0);
                self.add(layer, name.at, Kind::Env, &name.value, &text, &json!(value.0));
            }
        }
        self.sandbox(layer);
        self.servers_of(layer);
        let reach = [
            ("allowedHttpHookUrls", &raw.allowed_http_hook_urls),
            ("httpHookAllowedEnvVars", &raw.http_hook_allowed_env_vars),
        ];
        for (key, list) in reach {
            for given in list.iter().flatten() {
                let text = format!("{key}: {}", given.value);
                self.add(layer, given.at, Kind::HookReach, &text, &text, &json!(given.value));
            }
        }
        if let Some(guard) = &raw.repetition_guard
            && !guard.value.is_within(RepetitionGuard::default())
        {
            let given = &layer.given["repetitionGuard"];
            self.add(layer, guard.at, Kind::RepetitionGuard, "repetitionGuard", &given.to_string(), given);
        }
    }

    fn hooks(&mut self, layer: &Layer) {
        for (event, groups) in layer.raw.hooks.iter().flat_map(|table| &table.0) {
            if !EVENTS.iter().any(|(known, _)| *known == event.value) {
                continue;
            }
            let given = layer.given["hooks"][&event.value].as_array();
            for (group, given) in groups.iter().zip(given.into_iter().flatten()) {
                let matcher = group.value.matcher.as_ref().map_or("*", |matcher| matcher.value.as_str());
                let handlers = given["hooks"].as_array().into_iter().flatten();
                for (handler, given) in group.value.hooks.iter().zip(handlers) {
                    let text = format!("{} {matcher}: {}", event.value, action(given));
                    let content = json!([event.value, matcher, given]);
                    self.add(layer, handler.at, Kind::Hook, &text, &text, &content);
                    if given["onFailure"] == "continue" {
                        self.add(layer, handler.at, Kind::FailingOpen, &text, &text, &content);
                    }
                    self.scripts_of(&Named::Hook(&layer.source(handler.at)), given);
                }
            }
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

    /// The files that a handler names.
    fn scripts_of(&mut self, hook: &Named<'_>, handler: &Value) {
        let bases: [&Path; 1] = [&self.places.cwd];
        let command = handler["command"].as_str().unwrap_or_default();
        let found = match handler["args"].as_array() {
            Some(args) => {
                let args = args.iter().filter_map(Value::as_str);
                named::in_args(std::iter::once(command).chain(args), self.places, &bases)
            }
            None => named::in_line(command, self.places, &bases),
        };
        self.found.scripts.entry(hook.key()).or_default().extend(found.iter().cloned());
        self.scripts(found);
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

    /// What the sandbox would let through that it doesn't by itself.
    fn sandbox(&mut self, layer: &Layer) {
        for (key, value, at) in layer.raw.sandbox.iter().flat_map(|raw| raw.value.loosening()) {
            let text = match &value {
                Value::String(value) => format!("{key}: {value}"),
                value => format!("{key}: {value}"),
            };
            self.add(layer, at, Kind::Sandbox, &text, &text, &value);
        }
    }

    fn servers_of(&mut self, layer: &Layer) {
        let raw = &layer.raw;
        if let Some(all) = raw.enable_all_project_mcp_servers.as_ref().filter(|all| all.value) {
            self.add(layer, all.at, Kind::ServerApproval, "all", "all servers of .mcp.json", &json!(true));
        }
        for name in raw.enabled_mcpjson_servers.iter().flatten() {
            self.add(layer, name.at, Kind::ServerApproval, &name.value, &name.value, &json!(name.value));
        }
        let given = layer.given["allowedMcpServers"].as_array();
        let allowed = raw.allowed_mcp_servers.iter().flatten().zip(given.into_iter().flatten());
        for (server, given) in allowed {
            let text = format!("allowed: {given}");
            self.add(layer, server.at, Kind::ServerApproval, &text, &text, given);
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
