//! Views: which tools somebody is offered, under which rules and mode.
//!
//! The one called `default` is for whoever comes without a token of their own; each client of the settings has one. A view has
//! walls of its own around its children: what its rules deny, the kernel denies.

use std::collections::BTreeMap;
use std::sync::Arc;

use haft::Registry;
use haft_mcp::server::Principal;
use haft_policy::settings::{At, RepetitionGuard, ServeClient, Settings};
use haft_policy::source::{List, WrittenRule};

use crate::session::{self, Base, Ground};
use crate::{Usage, output};

/// The view of whoever has no other.
pub(super) const DEFAULT: &str = "default";
/// Begins the names of principals that an authorization server knows.
pub(super) const BY_OAUTH: &str = "oauth:";

/// What somebody is offered.
pub(super) struct View {
    pub(super) base: Base,
    /// The tools, each a list of which one has to fit; none given is all.
    tools: Vec<Vec<String>>,
}

impl View {
    /// The tools of this view among these.
    pub(super) fn filtered(&self, registry: &Registry) -> Registry {
        match self.tools.is_empty() {
            true => registry.clone(),
            false => registry.only(|entry| self.has(entry.tool().name())),
        }
    }

    /// Whether a tool of this name is in it.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tools.iter().all(|globs| globs.iter().any(|glob| fits(glob, name)))
    }
}

/// All views.
pub(super) struct Views {
    default: Arc<View>,
    others: BTreeMap<String, Arc<View>>,
}

impl Views {
    /// Makes the views of the settings; the default one is that of `chosen` where it is given.
    pub(super) fn new(ground: &Ground, chosen: Option<&str>, tools: &[String]) -> Result<Views, Usage> {
        let clients = &ground.settings().serve.clients;
        let find = |name: &str| clients.iter().find(|client| client.value.name == name);
        let default = match chosen {
            Some(name) => Some(find(name).ok_or_else(|| unknown(name, clients))?),
            None => find(DEFAULT),
        };
        for glob in tools {
            named(ground, glob)
                .map_err(|words| Usage(format!("--tools `{}`: {words}", output::one_line(glob))))?;
        }
        for At { value, source } in clients {
            for glob in value.tools.iter().flatten() {
                if let Err(words) = named(ground, glob) {
                    output::warning(&output::one_line(&format!("{source}: `tools`, `{glob}`: {words}")));
                }
            }
        }
        let default = view(ground, default, tools)?;
        let mut others = BTreeMap::new();
        for client in clients.iter().filter(|client| client.value.name != DEFAULT) {
            let name = &client.value.name;
            others.insert(name.clone(), view(ground, Some(client), tools)?);
        }
        Ok(Views { default, others })
    }

    pub(super) fn default(&self) -> &Arc<View> {
        &self.default
    }

    /// The view of somebody.
    pub(super) fn of(&self, principal: Option<&Principal>) -> &Arc<View> {
        principal.and_then(|principal| self.others.get(&*principal.name)).unwrap_or(&self.default)
    }
}

/// Whether a pattern is for any tool that there is, or that a server may have.
///
/// # Errors
/// It is for none, with what is there.
fn named(ground: &Ground, glob: &str) -> Result<(), String> {
    let own: Vec<&str> = ground.registry().entries().map(|entry| entry.tool().name()).collect();
    let servers: Vec<String> = ground.servers().map(|server| format!("mcp__{server}__")).collect();
    // The part before the first `*` says whose tools are meant; which ones a server has is known later.
    let begin = glob.split('*').next().unwrap_or_default();
    let of_server = |server: &String| match glob.contains('*') {
        true => begin.starts_with(server.as_str()) || server.starts_with(begin),
        false => glob.starts_with(server.as_str()),
    };
    let of_all =
        ["GetMcpPrompt", "ListMcpPrompts", "ListMcpResources", "ReadMcpResource", "WaitForMcpServers"];
    let is_there = own.iter().any(|name| fits(glob, name))
        || servers.iter().any(of_server)
        || (!servers.is_empty() && of_all.iter().any(|name| fits(glob, name)));
    if is_there {
        return Ok(());
    }
    let letters = |name: &str| name.chars().flat_map(char::to_lowercase).take(64).collect::<Vec<char>>();
    let wanted = letters(glob);
    let near = own.iter().filter(|name| haft::spelling::edits(&wanted, &letters(name)) <= 2);
    let near: Vec<String> = near.take(3).map(|name| format!("`{name}`")).collect();
    let hint = match near.is_empty() {
        true => {
            "names as `haft tools` shows them, with `*` for any run of characters, are accepted".to_owned()
        }
        false => format!("closest: {}", near.join(", ")),
    };
    Err(format!("no tool is called that; {hint}"))
}

fn unknown(name: &str, clients: &[At<ServeClient>]) -> Usage {
    let names: Vec<String> = clients.iter().map(|client| format!("`{}`", client.value.name)).collect();
    let there = match names.is_empty() {
        true => "the settings name none (`serve.clients`)".to_owned(),
        false => format!("there are {}", names.join(", ")),
    };
    Usage(format!("--view `{}`: no client is called that; {there}", output::one_line(name)))
}

fn view(ground: &Ground, client: Option<&At<ServeClient>>, tools: &[String]) -> Result<Arc<View>, Usage> {
    let mut lists: Vec<Vec<String>> = Vec::new();
    if !tools.is_empty() {
        lists.push(tools.to_vec());
    }
    if let Some(At { value, source }) = client {
        lists.extend(value.tools.clone());
        if let Some(by) = value.mode.and_then(|mode| ground.settings().permissions.forbids(mode)) {
            let mode = value.mode.map(|mode| mode.to_string()).unwrap_or_default();
            return Err(Usage(format!("{source}: the mode `{mode}` is forbidden by {by}")));
        }
    }
    let ground = ground.with_settings(|settings| change(settings, client));
    let base = Base::open(ground, |words| match client {
        Some(client) if client.value.name != DEFAULT => format!("{}: {words}", client.value.name),
        _ => words,
    })?;
    session::register(base.process_guard());
    Ok(Arc::new(View { base, tools: lists }))
}

/// Makes the settings those of a client.
fn change(settings: &mut Settings, client: Option<&At<ServeClient>>) {
    // Calls come one by one here, and whether they belong to one turn of a model nobody knows: a client that polls isn't stuck.
    if settings.repetition_guard.is_none() {
        let source = haft_policy::source::Source::of(haft_policy::source::Scope::User, "/");
        settings.repetition_guard = Some(At { value: RepetitionGuard::Off, source });
    }
    let Some(At { value: client, source }) = client else { return };
    let permissions = &mut settings.permissions;
    if let Some(mode) = client.mode {
        permissions.default_mode = Some(At { value: mode, source: source.clone() });
    }
    let may_allow = permissions.managed_rules_only.is_none();
    for (list, rules) in [(List::Deny, &client.deny), (List::Ask, &client.ask), (List::Allow, &client.allow)]
    {
        if list != List::Allow || may_allow {
            let written = rules.iter().map(|rule| WrittenRule::plain(rule, list, source.clone()));
            permissions.rules.extend(written);
        }
    }
}

/// Whether a pattern, with `*` for any run of characters, is the whole of a name.
fn fits(glob: &str, name: &str) -> bool {
    let Some((begin, rest)) = glob.split_once('*') else { return glob == name };
    let Some(mut left) = name.strip_prefix(begin) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_for_whole_names() {
        for (glob, name, is) in [
            ("Read", "Read", true),
            ("Read", "ReadMcpResource", false),
            ("mcp__time__*", "mcp__time__now", true),
            ("mcp__time__*", "mcp__timer__now", false),
            ("*", "anything", true),
            ("mcp__*__get_*", "mcp__a__get_b", true),
            ("mcp__*__get", "mcp__a__get_b", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(fits(glob, name), is, "{glob} {name}");
        }
    }
}
