//! The sandbox of commands as settings describe it: what is written, and what all files say together.
//!
//! Two tables name every key that counts, once: how it is read, where it goes, and which of its values loosens. Merging,
//! the list of what a workspace would loosen, and the list that people are shown are walks over these tables, so a key
//! can't be read and forgotten. Keys that mean something on other systems only are read, so that a wrong type is still
//! told, and go nowhere. Nothing here builds a sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::de::{Spanned, Table};
use super::jsonc::Spot;
use super::merge::At;
use crate::source::{Scope, Source};

/// The sandbox of commands.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(rename = "Sandbox", extend("additionalProperties" = false))]
pub(crate) struct RawSandbox {
    /// Whether commands run in the sandbox. Default: yes.
    enabled: Option<Spanned<bool>>,
    /// Whether commands run unasked because they run in the sandbox. Default: no.
    auto_allow_bash_if_sandboxed: Option<Spanned<bool>>,
    /// Whether a session ends where the sandbox can't be had.
    fail_if_unavailable: Option<Spanned<bool>>,
    /// Whether a command may ask to run without the sandbox. Not from a workspace.
    allow_unsandboxed_commands: Option<Spanned<bool>>,
    /// Commands that run without the sandbox.
    excluded_commands: Option<Vec<Spanned<String>>>,
    /// Commands that write repositories of git, beside those that are known to.
    git_writers: Option<Vec<Spanned<String>>>,
    /// Files.
    filesystem: Option<RawFiles>,
    /// The network.
    network: Option<RawNetwork>,
    /// Secrets that commands don't see.
    credentials: Option<RawCredentials>,
    /// Presets of hosts that are allowed together.
    presets: Option<Vec<Spanned<String>>>,
    /// Refusals that are not reported: paths by command, `*` for every command.
    ignore_violations: Option<Table<Vec<String>>>,
    /// A weaker sandbox inside of containers.
    enable_weaker_nested_sandbox: Option<Spanned<bool>>,
    /// A weaker separation from the network.
    enable_weaker_network_isolation: Option<Spanned<bool>>,
    /// macOS only; means nothing here.
    allow_apple_events: Option<bool>,
    /// The program of another sandbox; means nothing here.
    bwrap_path: Option<String>,
    /// The program of another sandbox; means nothing here.
    socat_path: Option<String>,
    /// The program of another sandbox; means nothing here.
    ripgrep: Option<RawProgram>,
}

/// Files in the sandbox.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(rename = "SandboxFiles", extend("additionalProperties" = false))]
struct RawFiles {
    /// Paths that may be written beside the workspace.
    allow_write: Option<Vec<Spanned<String>>>,
    /// Paths that are never written.
    deny_write: Option<Vec<Spanned<String>>>,
    /// Paths that may be read although a wider one is denied.
    allow_read: Option<Vec<Spanned<String>>>,
    /// Paths that are never read.
    deny_read: Option<Vec<Spanned<String>>>,
    /// Managed settings only: no `allowRead` but that of managed settings.
    allow_managed_read_paths_only: Option<Spanned<bool>>,
}

/// The network in the sandbox.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(rename = "SandboxNetwork", extend("additionalProperties" = false))]
struct RawNetwork {
    /// Hosts that may be reached.
    allowed_domains: Option<Vec<Spanned<String>>>,
    /// Hosts that are never reached.
    denied_domains: Option<Vec<Spanned<String>>>,
    /// Managed settings only: no hosts but managed ones.
    allow_managed_domains_only: Option<Spanned<bool>>,
    /// Names that may lead to private addresses, for mirrors. Not from a workspace.
    private_hosts: Option<Vec<Spanned<RawPrivateHost>>>,
    /// Sockets of the machine that are visible.
    allow_unix_sockets: Option<Vec<Spanned<String>>>,
    /// Whether all sockets of the machine are visible.
    allow_all_unix_sockets: Option<Spanned<bool>>,
    /// Whether ports of this machine may be listened on.
    allow_local_binding: Option<Spanned<bool>>,
    /// The port of a proxy of one's own for HTTP. Not from a workspace.
    http_proxy_port: Option<Spanned<u16>>,
    /// The port of a proxy of one's own for SOCKS. Not from a workspace.
    socks_proxy_port: Option<Spanned<u16>>,
    /// macOS only; means nothing here.
    allow_mach_lookup: Option<Vec<String>>,
}

/// A name that may lead to private addresses.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
#[schemars(rename = "PrivateHost", extend("additionalProperties" = false))]
struct RawPrivateHost {
    /// The host.
    host: String,
    /// The range of the addresses, such as `10.20.0.0/16`.
    cidr: String,
}

/// Secrets that commands don't see.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(rename = "SandboxCredentials", extend("additionalProperties" = false))]
struct RawCredentials {
    /// Files.
    files: Option<Vec<Spanned<RawHiddenFile>>>,
    /// Environment variables.
    env_vars: Option<Vec<Spanned<RawHiddenVariable>>>,
}

/// A file that commands don't see.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
#[schemars(rename = "HiddenFile", extend("additionalProperties" = false))]
struct RawHiddenFile {
    /// The path.
    path: String,
    /// What commands may do with it.
    #[expect(dead_code, reason = "there is one word for it")]
    mode: RawHidden,
}

/// A variable that commands don't see.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
#[schemars(rename = "HiddenVariable", extend("additionalProperties" = false))]
struct RawHiddenVariable {
    /// The name.
    name: String,
    /// What commands may do with it.
    #[expect(dead_code, reason = "there is one word for it")]
    mode: RawHidden,
}

/// The one word that there is.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Hidden")]
enum RawHidden {
    /// Nothing.
    Deny,
}

/// A program and its arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
#[schemars(rename = "Program", extend("additionalProperties" = false))]
struct RawProgram {
    /// The program.
    #[expect(dead_code, reason = "read for its type alone")]
    command: String,
    /// Its arguments.
    #[expect(dead_code, reason = "read for its type alone")]
    args: Option<Vec<String>>,
}

/// The sandbox, as all files together want it. Paths and hosts are as they were written; each knows its place, and with
/// it the directory that a relative path starts from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sandbox {
    /// Whether commands run in it.
    pub enabled: Option<At<bool>>,
    /// Whether commands run unasked because they run in it.
    pub auto_allow_bash: Option<At<bool>>,
    /// Whether a session ends where it can't be had.
    pub fail_if_unavailable: Option<At<bool>>,
    /// Whether a command may ask to run without it.
    pub allow_unsandboxed: Option<At<bool>>,
    /// Whether a weaker one will do inside of a container.
    pub weaker_nested: Option<At<bool>>,
    /// Whether a weaker separation from the network will do.
    pub weaker_network: Option<At<bool>>,
    /// Commands that run without it.
    pub excluded_commands: Vec<At<String>>,
    /// Commands that write repositories of git.
    pub git_writers: Vec<At<String>>,
    /// Presets of hosts.
    pub presets: Vec<At<String>>,
    /// Refusals that are not reported: paths by command, `*` for every command.
    pub ignored_violations: BTreeMap<String, Vec<At<String>>>,
    /// Files.
    pub files: SandboxFiles,
    /// The network.
    pub network: SandboxNetwork,
    /// Environment variables that commands don't get.
    pub hidden_variables: Vec<At<String>>,
}

impl Sandbox {
    /// The absolute paths of a list: a relative path starts from the working directory, one that begins with `~/` from the
    /// home folder.
    pub fn absolute_paths(list: &[At<String>], home: Option<&Path>, cwd: &Path) -> Vec<PathBuf> {
        let absolute = |at: &At<String>| match (at.value.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => cwd.join(&at.value),
        };
        list.iter().map(absolute).collect()
    }
}

/// Files in the sandbox.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SandboxFiles {
    /// Paths that may be written beside the workspace.
    pub allow_write: Vec<At<String>>,
    /// Paths that are never written; stronger than what may be.
    pub deny_write: Vec<At<String>>,
    /// Paths that may be read although a wider one is denied.
    pub allow_read: Vec<At<String>>,
    /// Paths that are never read.
    pub deny_read: Vec<At<String>>,
    /// Files with secrets: not read, whatever else is allowed.
    pub hidden: Vec<At<String>>,
}

/// The network in the sandbox.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SandboxNetwork {
    /// Hosts that may be reached.
    pub allowed_domains: Vec<At<String>>,
    /// Hosts that are never reached; stronger than those that may be.
    pub denied_domains: Vec<At<String>>,
    /// Where all hosts but managed ones were dropped: a host that isn't listed is refused and not asked about.
    pub managed_domains_only: Option<Source>,
    /// Names that may lead to private addresses.
    pub private_hosts: Vec<At<PrivateHost>>,
    /// Sockets of the machine that are visible.
    pub unix_sockets: Vec<At<String>>,
    /// Whether all of them are.
    pub all_unix_sockets: Option<At<bool>>,
    /// Whether ports of this machine may be listened on.
    pub local_binding: Option<At<bool>>,
    /// The port of a proxy of the user's own for HTTP.
    pub http_proxy_port: Option<At<u16>>,
    /// The port of a proxy of the user's own for SOCKS.
    pub socks_proxy_port: Option<At<u16>>,
}

/// A name that may lead to private addresses, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateHost {
    /// The host.
    pub host: String,
    /// The range of the addresses.
    pub cidr: String,
}

/// A key that is on or off.
struct Flag {
    key: &'static str,
    raw: fn(&RawSandbox) -> Option<&Spanned<bool>>,
    to: fn(&mut Sandbox) -> &mut Option<At<bool>>,
    of: fn(&Sandbox) -> &Option<At<bool>>,
    /// The value that holds commands tighter; anybody may say it.
    tight: bool,
    /// No workspace decides it, whatever it says and however trusted it is.
    own: bool,
}

macro_rules! flag {
    ($key:literal, [$($raw:ident).+], [$($to:ident).+], tight: $tight:literal) => {
        flag!($key, [$($raw).+], [$($to).+], tight: $tight, own: false)
    };
    ($key:literal, [$($raw:ident).+], [$($to:ident).+], tight: $tight:literal, own: $own:literal) => {
        Flag {
            key: $key,
            raw: |raw| flag!(@raw raw, $($raw).+),
            to: |sandbox| &mut sandbox.$($to).+,
            of: |sandbox| &sandbox.$($to).+,
            tight: $tight,
            own: $own,
        }
    };
    (@raw $from:ident, $key:ident) => { $from.$key.as_ref() };
    (@raw $from:ident, $inside:ident . $key:ident) => { $from.$inside.as_ref()?.$key.as_ref() };
}

const FLAGS: [Flag; 8] = [
    flag!("enabled", [enabled], [enabled], tight: true),
    flag!("autoAllowBashIfSandboxed", [auto_allow_bash_if_sandboxed], [auto_allow_bash], tight: false),
    flag!("failIfUnavailable", [fail_if_unavailable], [fail_if_unavailable], tight: true),
    flag!("allowUnsandboxedCommands", [allow_unsandboxed_commands], [allow_unsandboxed], tight: false, own: true),
    flag!("enableWeakerNestedSandbox", [enable_weaker_nested_sandbox], [weaker_nested], tight: false),
    flag!("enableWeakerNetworkIsolation", [enable_weaker_network_isolation], [weaker_network], tight: false),
    flag!("network.allowAllUnixSockets", [network.allow_all_unix_sockets], [network.all_unix_sockets], tight: false),
    flag!("network.allowLocalBinding", [network.allow_local_binding], [network.local_binding], tight: false),
];

/// A key with a list of texts.
struct Texts {
    key: &'static str,
    raw: fn(&RawSandbox) -> Vec<Spanned<&str>>,
    to: fn(&mut Sandbox) -> &mut Vec<At<String>>,
    of: fn(&Sandbox) -> &Vec<At<String>>,
    way: Way,
}

/// What one more entry of a list does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// More is possible.
    Loosens,
    /// Less is possible; anybody may say it.
    Tightens,
}

fn texts(list: Option<&Vec<Spanned<String>>>) -> Vec<Spanned<&str>> {
    let each = list.into_iter().flatten();
    each.map(|item| Spanned { value: item.value.as_str(), at: item.at }).collect()
}

macro_rules! list {
    ($key:literal, $raw:expr, [$($to:ident).+], $way:ident) => {
        Texts {
            key: $key,
            raw: $raw,
            to: |sandbox| &mut sandbox.$($to).+,
            of: |sandbox| &sandbox.$($to).+,
            way: Way::$way,
        }
    };
}

fn files(raw: &RawSandbox, key: fn(&RawFiles) -> &Option<Vec<Spanned<String>>>) -> Vec<Spanned<&str>> {
    texts(raw.filesystem.as_ref().and_then(|files| key(files).as_ref()))
}

fn network(raw: &RawSandbox, key: fn(&RawNetwork) -> &Option<Vec<Spanned<String>>>) -> Vec<Spanned<&str>> {
    texts(raw.network.as_ref().and_then(|network| key(network).as_ref()))
}

fn hidden_files(raw: &RawSandbox) -> Vec<Spanned<&str>> {
    let given = raw.credentials.iter().flat_map(|credentials| credentials.files.iter().flatten());
    given.map(|file| Spanned { value: file.value.path.as_str(), at: file.at }).collect()
}

fn hidden_variables(raw: &RawSandbox) -> Vec<Spanned<&str>> {
    let given = raw.credentials.iter().flat_map(|credentials| credentials.env_vars.iter().flatten());
    given.map(|variable| Spanned { value: variable.value.name.as_str(), at: variable.at }).collect()
}

const LISTS: [Texts; 12] = [
    list!("excludedCommands", |raw| texts(raw.excluded_commands.as_ref()), [excluded_commands], Loosens),
    list!("gitWriters", |raw| texts(raw.git_writers.as_ref()), [git_writers], Loosens),
    list!("filesystem.allowWrite", |raw| files(raw, |f| &f.allow_write), [files.allow_write], Loosens),
    list!("filesystem.denyWrite", |raw| files(raw, |f| &f.deny_write), [files.deny_write], Tightens),
    list!("filesystem.allowRead", |raw| files(raw, |f| &f.allow_read), [files.allow_read], Loosens),
    list!("filesystem.denyRead", |raw| files(raw, |f| &f.deny_read), [files.deny_read], Tightens),
    list!(
        "network.allowedDomains",
        |raw| network(raw, |n| &n.allowed_domains),
        [network.allowed_domains],
        Loosens
    ),
    list!(
        "network.deniedDomains",
        |raw| network(raw, |n| &n.denied_domains),
        [network.denied_domains],
        Tightens
    ),
    list!(
        "network.allowUnixSockets",
        |raw| network(raw, |n| &n.allow_unix_sockets),
        [network.unix_sockets],
        Loosens
    ),
    list!("credentials.files", hidden_files, [files.hidden], Tightens),
    list!("credentials.envVars", hidden_variables, [hidden_variables], Tightens),
    list!("presets", |raw| texts(raw.presets.as_ref()), [presets], Loosens),
];

/// A key with a port, which no workspace sets: it would send everything somewhere.
struct Port {
    key: &'static str,
    raw: fn(&RawNetwork) -> &Option<Spanned<u16>>,
    to: fn(&mut SandboxNetwork) -> &mut Option<At<u16>>,
    of: fn(&SandboxNetwork) -> &Option<At<u16>>,
}

const PORTS: [Port; 2] = [
    Port {
        key: "network.httpProxyPort",
        raw: |raw| &raw.http_proxy_port,
        to: |network| &mut network.http_proxy_port,
        of: |network| &network.http_proxy_port,
    },
    Port {
        key: "network.socksProxyPort",
        raw: |raw| &raw.socks_proxy_port,
        to: |network| &mut network.socks_proxy_port,
        of: |network| &network.socks_proxy_port,
    },
];

/// What a file may say.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum May {
    /// Everything: it is the user's or the machine owner's.
    Everything,
    /// What a workspace may that is trusted.
    Loosen,
    /// What a workspace may that isn't.
    Tighten,
}

impl RawSandbox {
    /// `allowManagedReadPathsOnly`.
    pub(crate) fn managed_reads_only(&self) -> Option<&Spanned<bool>> {
        self.filesystem.as_ref()?.allow_managed_read_paths_only.as_ref()
    }

    /// `allowManagedDomainsOnly`.
    pub(crate) fn managed_domains_only(&self) -> Option<&Spanned<bool>> {
        self.network.as_ref()?.allow_managed_domains_only.as_ref()
    }

    /// What needs trust where a workspace says it: key, value and place of each.
    pub(crate) fn loosening(&self) -> Vec<(&'static str, Value, Spot)> {
        let flags = FLAGS.iter().filter_map(|flag| {
            let given = (flag.raw)(self).filter(|given| given.value != flag.tight && !flag.own)?;
            Some((flag.key, json!(given.value), given.at))
        });
        let lists = LISTS
            .iter()
            .filter(|list| list.way == Way::Loosens)
            .flat_map(|list| (list.raw)(self).into_iter().map(|item| (list.key, json!(item.value), item.at)));
        let silent = self.ignore_violations.iter().flat_map(|table| &table.0);
        let silent = silent
            .map(|(command, paths)| ("ignoreViolations", json!({ &*command.value: paths }), command.at));
        flags.chain(lists).chain(silent).collect()
    }
}

impl Sandbox {
    /// Takes what one more file says; files come strongest first. Gives what was left out, in words.
    pub(crate) fn take(
        &mut self,
        raw: &RawSandbox,
        may: May,
        source: impl Fn(Spot) -> Source,
    ) -> Vec<(Source, String)> {
        let mut refused = Vec::new();
        let not_theirs =
            |key: &str| format!("a workspace can't set `sandbox.{key}`; set it in your own settings");
        for flag in &FLAGS {
            let Some(given) = (flag.raw)(raw) else { continue };
            if flag.own && may != May::Everything {
                refused.push((source(given.at), not_theirs(flag.key)));
                continue;
            }
            let to = (flag.to)(self);
            if to.is_none() && (may != May::Tighten || given.value == flag.tight) {
                *to = Some(At { value: given.value, source: source(given.at) });
            }
        }
        for list in LISTS.iter().filter(|list| may != May::Tighten || list.way == Way::Tightens) {
            let given = (list.raw)(raw);
            let given = given.iter().map(|item| At { value: item.value.to_owned(), source: source(item.at) });
            (list.to)(self).extend(given);
        }
        if may != May::Tighten {
            for (command, paths) in raw.ignore_violations.iter().flat_map(|table| &table.0) {
                let paths = paths.iter().map(|path| At { value: path.clone(), source: source(command.at) });
                self.ignored_violations.entry(command.value.clone()).or_default().extend(paths);
            }
        }
        for given in raw.network.iter().flat_map(|network| network.private_hosts.iter().flatten()) {
            let RawPrivateHost { host, cidr } = given.value.clone();
            match may {
                May::Everything => {
                    let value = PrivateHost { host, cidr };
                    self.network.private_hosts.push(At { value, source: source(given.at) });
                }
                May::Loosen | May::Tighten => {
                    refused.push((source(given.at), not_theirs("network.privateHosts")));
                }
            }
        }
        for port in &PORTS {
            let given = raw.network.as_ref().and_then(|network| (port.raw)(network).as_ref());
            let Some(given) = given else { continue };
            let to = (port.to)(&mut self.network);
            match may {
                May::Everything if to.is_none() => {
                    *to = Some(At { value: given.value, source: source(given.at) });
                }
                May::Everything => {}
                May::Loosen | May::Tighten => {
                    refused.push((source(given.at), not_theirs(port.key)));
                }
            }
        }
        refused
    }

    /// Drops what only the machine's owner may add, where they say so.
    pub(crate) fn keep_managed(&mut self, reads: bool, domains: Option<Source>) {
        let is_managed = |at: &At<String>| at.source.scope == Scope::Managed;
        if reads {
            self.files.allow_read.retain(is_managed);
        }
        if domains.is_some() {
            self.network.allowed_domains.retain(is_managed);
            // A preset is nothing but hosts.
            self.presets.retain(is_managed);
            self.network.private_hosts.retain(|at| at.source.scope == Scope::Managed);
        }
        self.network.managed_domains_only = domains;
    }

    /// Every value that counts, under the key by which it is written, in the order of the documents.
    pub fn each(&self) -> Vec<(String, At<Value>)> {
        let mut all = Vec::new();
        let mut add = |key: &str, value: Value, source: &Source| {
            all.push((format!("sandbox.{key}"), At { value, source: source.clone() }));
        };
        for flag in &FLAGS {
            if let Some(At { value, source }) = (flag.of)(self) {
                add(flag.key, json!(value), source);
            }
        }
        for list in &LISTS {
            (list.of)(self).iter().for_each(|At { value, source }| add(list.key, json!(value), source));
        }
        for port in &PORTS {
            if let Some(At { value, source }) = (port.of)(&self.network) {
                add(port.key, json!(value), source);
            }
        }
        for At { value: PrivateHost { host, cidr }, source } in &self.network.private_hosts {
            add("network.privateHosts", json!({"host": host, "cidr": cidr}), source);
        }
        for (command, paths) in &self.ignored_violations {
            for At { value, source } in paths {
                add(&format!("ignoreViolations.{command}"), json!(value), source);
            }
        }
        if let Some(source) = &self.network.managed_domains_only {
            add("network.allowManagedDomainsOnly", json!(true), source);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{de, jsonc};

    const ALL: &str = r#"{
        "enabled": true, "autoAllowBashIfSandboxed": true, "failIfUnavailable": true, "allowUnsandboxedCommands": true,
        "enableWeakerNestedSandbox": true, "enableWeakerNetworkIsolation": true, "excludedCommands": ["docker *"],
        "gitWriters": ["make release"], "presets": ["npm"], "ignoreViolations": {"*": ["/x"]},
        "filesystem": {"allowWrite": ["/w"], "denyWrite": ["/dw"], "allowRead": ["/r"], "denyRead": ["/dr"]},
        "network": {"allowedDomains": ["a"], "deniedDomains": ["b"], "allowUnixSockets": ["/s"],
                    "allowAllUnixSockets": true, "allowLocalBinding": true, "httpProxyPort": 1, "socksProxyPort": 2,
                    "allowMachLookup": ["x"], "privateHosts": [{"host": "m", "cidr": "10.0.0.0/8"}]},
        "credentials": {"files": [{"path": "/k", "mode": "deny"}], "envVars": [{"name": "K", "mode": "deny"}]},
        "allowAppleEvents": true, "bwrapPath": "/b", "socatPath": "/s", "ripgrep": {"command": "rg", "args": []}
    }"#;

    fn raw(text: &str) -> RawSandbox {
        let (raw, unknown) = de::from_node(&jsonc::parse(text).unwrap()).unwrap();
        assert!(unknown.is_empty(), "{unknown:?}");
        raw
    }

    fn keys(may: May) -> (Vec<String>, usize) {
        let mut sandbox = Sandbox::default();
        let refused = sandbox.take(&raw(ALL), may, |at| Source::in_file(Scope::User, "f", at.line, "/"));
        let short = |key: String| key.trim_start_matches("sandbox.").to_owned();
        (sandbox.each().into_iter().map(|(key, _)| short(key)).collect(), refused.len())
    }

    #[test]
    fn every_key_arrives_and_who_may_say_it() {
        let (all, refused) = keys(May::Everything);
        assert_eq!(refused, 0);
        let expected = FLAGS.map(|flag| flag.key).into_iter().chain(LISTS.map(|list| list.key));
        let expected = expected.chain(PORTS.map(|port| port.key));
        let expected = expected.chain(["network.privateHosts", "ignoreViolations.*"]);
        assert_eq!(all, expected.collect::<Vec<_>>());

        let own = PORTS.len() + 1 + FLAGS.iter().filter(|flag| flag.own).count();
        let (trusted, refused) = keys(May::Loosen);
        assert_eq!((trusted.len(), refused), (all.len() - own, own));

        let (untrusted, refused) = keys(May::Tighten);
        assert_eq!(
            untrusted,
            [
                "enabled",
                "failIfUnavailable",
                "filesystem.denyWrite",
                "filesystem.denyRead",
                "network.deniedDomains",
                "credentials.files",
                "credentials.envVars"
            ]
        );
        assert_eq!(refused, own);
    }

    /// Whether a command may ask to leave the sandbox is for the user, the machine's owner and who starts the program.
    #[test]
    fn no_workspace_decides_who_may_leave_the_sandbox() {
        let says = |value: Option<bool>| {
            raw(&value.map_or("{}".into(), |value| format!(r#"{{"allowUnsandboxedCommands": {value}}}"#)))
        };
        let at = |scope: Scope| move |spot: Spot| Source::in_file(scope, "f", spot.line, "/");
        for project in [None, Some(true), Some(false)] {
            for may in [May::Loosen, May::Tighten] {
                for user in [None, Some(true), Some(false)] {
                    let mut sandbox = Sandbox::default();
                    let refused = sandbox.take(&says(project), may, at(Scope::Project));
                    assert_eq!(refused.len(), usize::from(project.is_some()));
                    assert_eq!(sandbox.take(&says(user), May::Everything, at(Scope::User)), []);
                    let found = sandbox.allow_unsandboxed.map(|at| at.value);
                    assert_eq!(found, user, "project {project:?}");
                }
            }
        }
        // Of those who may, the stronger has the word.
        for (managed, user) in [(true, false), (false, true)] {
            let mut sandbox = Sandbox::default();
            sandbox.take(&says(Some(managed)), May::Everything, at(Scope::Managed));
            sandbox.take(&says(Some(user)), May::Everything, at(Scope::User));
            assert_eq!(sandbox.allow_unsandboxed.map(|at| at.value), Some(managed));
        }
    }

    #[test]
    fn what_needs_trust_is_what_an_untrusted_workspace_may_not_say() {
        let needs: Vec<_> = raw(ALL).loosening().into_iter().map(|(key, ..)| key).collect();
        let (trusted, _) = keys(May::Loosen);
        let (untrusted, _) = keys(May::Tighten);
        let mut expected: Vec<_> = trusted.into_iter().filter(|key| !untrusted.contains(key)).collect();
        let mut needs: Vec<_> =
            needs.iter().map(|key| key.replace("ignoreViolations", "ignoreViolations.*")).collect();
        expected.sort();
        needs.sort();
        assert_eq!(needs, expected);
    }

    #[test]
    fn the_stronger_file_has_the_word_and_lists_add_up() {
        let mut sandbox = Sandbox::default();
        let at = |scope: Scope| move |spot: Spot| Source::in_file(scope, "f", spot.line, "/");
        let weaker = raw(r#"{"enabled": true, "network": {"allowedDomains": ["b"]}}"#);
        let stronger = raw(r#"{"enabled": false, "network": {"allowedDomains": ["a"]}}"#);
        sandbox.take(&stronger, May::Everything, at(Scope::Managed));
        sandbox.take(&weaker, May::Everything, at(Scope::User));
        assert_eq!(sandbox.enabled.as_ref().map(|at| at.value), Some(false));
        let hosts = |sandbox: &Sandbox| -> Vec<String> {
            sandbox.network.allowed_domains.iter().map(|at| at.value.clone()).collect()
        };
        assert_eq!(hosts(&sandbox), ["a", "b"]);
        sandbox.keep_managed(true, Some(at(Scope::Managed)(Spot { line: 1, column: 1 })));
        assert_eq!(hosts(&sandbox), ["a"]);
    }
}
