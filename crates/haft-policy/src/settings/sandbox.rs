//! Settings of the sandbox of commands. Nothing here builds a sandbox.
//!
//! Keys that mean something on other systems only are checked, so that a wrong type is still reported, and ignored.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::de::{SettingValue, read_by_serde};
use super::table::{
    SettingRule, anyone, false_loosens, managed, own, settings_section, true_loosens, trusted,
};
use crate::trust::TrustItemKind;

/// The key by which the machine's owner drops all hosts but managed ones.
const MANAGED_DOMAINS: &str = "sandbox.network.allowManagedDomainsOnly";
/// The key by which the machine's owner drops all readable paths but managed ones.
const MANAGED_READS: &str = "sandbox.filesystem.allowManagedReadPathsOnly";

/// A list that loosens.
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
    /// The sandbox of commands. A path is absolute, or begins with `~/`, or starts in the working directory.
    pub struct SandboxSettings {
        settings {
            /// Whether commands run in the sandbox. Default: yes.
            pub enabled: Option<SettingValue<bool>> = "enabled", loose_if_false();
            /// Whether commands run unasked because they run in the sandbox. Default: no (elsewhere yes).
            pub auto_allow_bash: Option<SettingValue<bool>> = "autoAllowBashIfSandboxed", loose_if_true();
            /// Whether a session ends where the sandbox can't be had.
            pub fail_if_unavailable: Option<SettingValue<bool>> = "failIfUnavailable", loose_if_false();
            /// Whether a command may ask to run without the sandbox; each time the user is asked. Not from a workspace.
            pub allow_unsandboxed: Option<SettingValue<bool>> = "allowUnsandboxedCommands", own();
            /// A weaker sandbox inside of containers.
            pub weaker_nested: Option<SettingValue<bool>> = "enableWeakerNestedSandbox", loose_if_true();
            /// A weaker separation from the network.
            pub weaker_network: Option<SettingValue<bool>> = "enableWeakerNetworkIsolation", loose_if_true();
            /// Commands that run without the sandbox.
            pub excluded_commands: Vec<SettingValue<String>> = "excludedCommands", loosening_list();
            /// Commands that write repositories of git, beside those that are known to, by their first words; haft's own key.
            pub git_writers: Vec<SettingValue<String>> = "gitWriters", loosening_list();
        }
        sections {
            /// Files.
            files: SandboxFiles = "filesystem";
            /// The network.
            network: SandboxNetwork = "network";
            /// Secrets that commands don't see.
            credentials: SandboxCredentials = "credentials";
        }
        settings {
            /// Presets of hosts that are allowed together; haft's own key.
            pub presets: Vec<SettingValue<String>> = "presets", loosening_list().managed_by(MANAGED_DOMAINS);
            /// Refusals that are not reported: paths by command, `*` for every command.
            pub ignored_violations: BTreeMap<String, Vec<SettingValue<String>>> = "ignoreViolations", loosening_list().by_name(1);
        }
        ignored {
            /// macOS only; means nothing here.
            "allowAppleEvents": bool;
            /// The program of another sandbox; means nothing here.
            "bwrapPath": String;
            /// The program of another sandbox; means nothing here.
            "socatPath": String;
            /// The program of another sandbox; means nothing here.
            "ripgrep": SearchProgram;
        }
    }
}

settings_section! {
    /// Files in the sandbox.
    pub struct SandboxFiles {
        settings {
            /// Paths that may be written beside the workspace.
            pub allow_write: Vec<SettingValue<String>> = "allowWrite", loosening_list();
            /// Paths that are never written; stronger than what may be.
            pub deny_write: Vec<SettingValue<String>> = "denyWrite", anyone().concat();
            /// Paths that may be read although a wider one is denied.
            pub allow_read: Vec<SettingValue<String>> = "allowRead", loosening_list().managed_by(MANAGED_READS);
            /// Paths that are never read.
            pub deny_read: Vec<SettingValue<String>> = "denyRead", anyone().concat();
            /// Managed settings only: no `allowRead` but that of managed settings.
            pub managed_reads_only: Option<SettingValue<bool>> = "allowManagedReadPathsOnly", managed();
        }
    }
}

settings_section! {
    /// The network in the sandbox.
    pub struct SandboxNetwork {
        settings {
            /// Hosts that may be reached.
            pub allowed_domains: Vec<SettingValue<String>> = "allowedDomains", loosening_list().managed_by(MANAGED_DOMAINS);
            /// Hosts that are never reached; stronger than those that may be.
            pub denied_domains: Vec<SettingValue<String>> = "deniedDomains", anyone().concat();
            /// Sockets of the machine that are visible.
            pub unix_sockets: Vec<SettingValue<String>> = "allowUnixSockets", loosening_list();
            /// Whether all sockets of the machine are visible.
            pub all_unix_sockets: Option<SettingValue<bool>> = "allowAllUnixSockets", loose_if_true();
            /// Whether ports of this machine may be listened on.
            pub local_binding: Option<SettingValue<bool>> = "allowLocalBinding", loose_if_true();
            /// The port of a proxy of one's own for HTTP, which gets everything that is sent. Not from a workspace.
            pub http_proxy_port: Option<SettingValue<u16>> = "httpProxyPort", own();
            /// The port of a proxy of one's own for SOCKS, which gets everything that is sent. Not from a workspace.
            pub socks_proxy_port: Option<SettingValue<u16>> = "socksProxyPort", own();
            /// Names that may lead to private addresses, for mirrors; haft's own key. Not from a workspace.
            pub private_hosts: Vec<SettingValue<PrivateHost>> = "privateHosts", own().concat().managed_by(MANAGED_DOMAINS);
            /// Managed settings only: no hosts but managed ones, and no question about others.
            pub managed_domains_only: Option<SettingValue<bool>> = "allowManagedDomainsOnly", managed();
        }
        ignored {
            /// macOS only; means nothing here.
            "allowMachLookup": Vec<String>;
        }
    }
}

settings_section! {
    /// Secrets that commands don't see.
    pub struct SandboxCredentials {
        settings {
            /// Files: not read, whatever else is allowed.
            pub files: Vec<SettingValue<HiddenFile>> = "files", anyone().concat();
            /// Environment variables.
            pub variables: Vec<SettingValue<HiddenVariable>> = "envVars", anyone().concat();
        }
    }
}

/// A name that may lead to private addresses.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
#[schemars(extend("additionalProperties" = false))]
pub struct PrivateHost {
    /// The host.
    pub host: String,
    /// The range of the addresses, such as `10.20.0.0/16`.
    pub cidr: String,
}

/// A file that commands don't see.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
#[schemars(extend("additionalProperties" = false))]
pub struct HiddenFile {
    /// The path.
    pub path: String,
    /// What commands may do with it.
    mode: HiddenMode,
}

/// A variable that commands don't see.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
#[schemars(extend("additionalProperties" = false))]
pub struct HiddenVariable {
    /// The name.
    pub name: String,
    /// What commands may do with it.
    mode: HiddenMode,
}

/// The one word that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Hidden")]
enum HiddenMode {
    /// Nothing.
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
    /// The absolute paths of a list: a relative path starts from the working directory, one that begins with `~/` from the
    /// home folder.
    pub fn absolute_paths(list: &[SettingValue<String>], home: Option<&Path>, cwd: &Path) -> Vec<PathBuf> {
        let absolute = |at: &SettingValue<String>| match (at.value.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => cwd.join(&at.value),
        };
        list.iter().map(absolute).collect()
    }
}
