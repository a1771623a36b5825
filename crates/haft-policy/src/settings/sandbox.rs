//! Settings of the sandbox for commands. This file builds no sandbox.
//!
//! Keys for other systems are checked, so that a wrong type is still reported, and then ignored.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::de::{SettingValue, read_by_serde};
use super::table::{
    SettingRule, anyone, false_loosens, managed, own, settings_section, true_loosens, trusted,
};
use crate::trust::TrustItemKind;

/// The key with which managed settings drop all other allowed hosts.
const MANAGED_DOMAINS: &str = "sandbox.network.allowManagedDomainsOnly";
/// The key with which managed settings drop all other readable paths.
const MANAGED_READS: &str = "sandbox.filesystem.allowManagedReadPathsOnly";

/// A list whose items loosen.
const fn loosening_list() -> SettingRule {
    trusted(TrustItemKind::Sandbox).concat()
}

/// A key whose value `true` loosens.
const fn loose_if_true() -> SettingRule {
    trusted(TrustItemKind::Sandbox).loosens(true_loosens)
}

/// A key whose value `false` loosens.
const fn loose_if_false() -> SettingRule {
    trusted(TrustItemKind::Sandbox).loosens(false_loosens)
}

settings_section! {
    /// The sandbox of commands. A path is absolute, begins with `~/`, or is relative to the working
    /// directory.
    pub struct SandboxSettings {
        settings {
            /// Whether commands run in the sandbox. Default: yes.
            pub enabled: Option<SettingValue<bool>> = "enabled", loose_if_false();
            /// Whether commands run without asking because they run in the sandbox. Default: no (Claude
            /// Code: yes).
            pub auto_allow_bash: Option<SettingValue<bool>> = "autoAllowBashIfSandboxed", loose_if_true();
            /// Whether a session ends if the sandbox is unavailable.
            pub fail_if_unavailable: Option<SettingValue<bool>> = "failIfUnavailable", loose_if_false();
            /// Whether a command may request to run without the sandbox; the user is asked each time. Not
            /// from a workspace.
            pub allow_unsandboxed: Option<SettingValue<bool>> = "allowUnsandboxedCommands", own();
            /// Uses a weaker sandbox inside of containers.
            pub weaker_nested: Option<SettingValue<bool>> = "enableWeakerNestedSandbox", loose_if_true();
            /// Uses a weaker network isolation.
            pub weaker_network: Option<SettingValue<bool>> = "enableWeakerNetworkIsolation", loose_if_true();
            /// Commands that run without the sandbox.
            pub excluded_commands: Vec<SettingValue<String>> = "excludedCommands", loosening_list();
            /// Additional commands that write git repositories, by their first words. Only in haft.
            pub git_writers: Vec<SettingValue<String>> = "gitWriters", loosening_list();
        }
        sections {
            /// Files.
            files: SandboxFiles = "filesystem";
            /// The network.
            network: SandboxNetwork = "network";
            /// Secrets that are hidden from commands.
            credentials: SandboxCredentials = "credentials";
        }
        settings {
            /// Presets of hosts that are allowed together. Only in haft.
            pub presets: Vec<SettingValue<String>> = "presets", loosening_list().managed_by(MANAGED_DOMAINS);
            /// Denied accesses that are not reported: paths by command, `*` for every command.
            pub ignored_violations: BTreeMap<String, Vec<SettingValue<String>>> = "ignoreViolations", loosening_list().by_name(1);
        }
        ignored {
            /// macOS only; ignored here.
            "allowAppleEvents": bool;
            /// The program of another sandbox; ignored here.
            "bwrapPath": String;
            /// The program of another sandbox; ignored here.
            "socatPath": String;
            /// The program of another sandbox; ignored here.
            "ripgrep": SearchProgram;
        }
    }
}

settings_section! {
    /// Files in the sandbox.
    pub struct SandboxFiles {
        settings {
            /// Writable paths besides the workspace.
            pub allow_write: Vec<SettingValue<String>> = "allowWrite", loosening_list();
            /// Paths that are never writable. Overrides `allowWrite`.
            pub deny_write: Vec<SettingValue<String>> = "denyWrite", anyone().concat();
            /// Readable paths inside a denied one.
            pub allow_read: Vec<SettingValue<String>> = "allowRead", loosening_list().managed_by(MANAGED_READS);
            /// Paths that are never readable.
            pub deny_read: Vec<SettingValue<String>> = "denyRead", anyone().concat();
            /// Managed settings only: ignores every `allowRead` but that of managed settings.
            pub managed_reads_only: Option<SettingValue<bool>> = "allowManagedReadPathsOnly", managed();
        }
    }
}

settings_section! {
    /// The network in the sandbox.
    pub struct SandboxNetwork {
        settings {
            /// Hosts that commands may reach.
            pub allowed_domains: Vec<SettingValue<String>> = "allowedDomains", loosening_list().managed_by(MANAGED_DOMAINS);
            /// Hosts that commands never reach. Overrides `allowedDomains`.
            pub denied_domains: Vec<SettingValue<String>> = "deniedDomains", anyone().concat();
            /// Visible Unix sockets of the machine.
            pub unix_sockets: Vec<SettingValue<String>> = "allowUnixSockets", loosening_list();
            /// Whether all Unix sockets of the machine are visible.
            pub all_unix_sockets: Option<SettingValue<bool>> = "allowAllUnixSockets", loose_if_true();
            /// Whether commands may listen on ports of this machine.
            pub local_binding: Option<SettingValue<bool>> = "allowLocalBinding", loose_if_true();
            /// The port of a custom HTTP proxy, which receives everything that is sent. Not from a
            /// workspace.
            pub http_proxy_port: Option<SettingValue<u16>> = "httpProxyPort", own();
            /// The port of a custom SOCKS proxy, which receives everything that is sent. Not from a
            /// workspace.
            pub socks_proxy_port: Option<SettingValue<u16>> = "socksProxyPort", own();
            /// Host names that may resolve to private addresses, such as mirrors. Only in haft. Not from a
            /// workspace.
            pub private_hosts: Vec<SettingValue<PrivateHost>> = "privateHosts", own().concat().managed_by(MANAGED_DOMAINS);
            /// Managed settings only: allows only managed hosts, and never asks about others.
            pub managed_domains_only: Option<SettingValue<bool>> = "allowManagedDomainsOnly", managed();
        }
        ignored {
            /// macOS only; ignored here.
            "allowMachLookup": Vec<String>;
        }
    }
}

settings_section! {
    /// Secrets that are hidden from commands.
    pub struct SandboxCredentials {
        settings {
            /// Files that are never readable, whatever else is allowed.
            pub files: Vec<SettingValue<HiddenFile>> = "files", anyone().concat();
            /// Environment variables.
            pub variables: Vec<SettingValue<HiddenVariable>> = "envVars", anyone().concat();
        }
    }
}

/// A host name that may resolve to private addresses.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
#[schemars(extend("additionalProperties" = false))]
pub struct PrivateHost {
    /// The host.
    pub host: String,
    /// The address range, such as `10.20.0.0/16`.
    pub cidr: String,
}

/// A file that is hidden from commands.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
#[schemars(extend("additionalProperties" = false))]
pub struct HiddenFile {
    /// The path.
    pub path: String,
    /// The access of commands.
    mode: HiddenMode,
}

/// A variable that is hidden from commands.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
#[schemars(extend("additionalProperties" = false))]
pub struct HiddenVariable {
    /// The name.
    pub name: String,
    /// The access of commands.
    mode: HiddenMode,
}

/// The only accepted value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Hidden")]
enum HiddenMode {
    /// No access.
    Deny,
}

/// A program and its arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
#[schemars(rename = "Program", extend("additionalProperties" = false))]
#[expect(dead_code, reason = "read for its type alone")]
struct SearchProgram {
    /// The program.
    command: String,
    /// Its arguments.
    args: Option<Vec<String>>,
}

read_by_serde!(PrivateHost, HiddenFile, HiddenVariable, SearchProgram);

impl SandboxSettings {
    /// Returns the absolute paths of a list: a relative path starts in the working directory, one that
    /// begins with `~/` in the home directory.
    pub fn absolute_paths(list: &[SettingValue<String>], home: Option<&Path>, cwd: &Path) -> Vec<PathBuf> {
        let absolute = |at: &SettingValue<String>| match (at.value.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => cwd.join(&at.value),
        };
        list.iter().map(absolute).collect()
    }
}
