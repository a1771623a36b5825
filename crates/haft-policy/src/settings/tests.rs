//! Tests of the table as a whole: one row is enough for a setting, and each file may set what its row
//! permits.

use super::page::settings_page;
use super::schema::table_schema;
use super::table::{SectionSpec, SettingsSection as _, TableEntry, each_loosening, trusted};
use super::*;
use crate::source::SourceScope;
use crate::trust::TrustInventory;

/// Managed, workspace and user files; an empty text is no file.
struct SettingsFiles<'a> {
    managed: &'a str,
    project: &'a str,
    user: &'a str,
}

fn read(table: &'static SectionSpec, files: &SettingsFiles<'_>) -> Result<SettingsLayers, SettingsError> {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        if !text.is_empty() {
            std::fs::write(path, text).unwrap();
        }
    };
    write("etc/settings.json", files.managed);
    write("work/.haft/settings.json", files.project);
    write("config/settings.json", files.user);
    let mut places = SettingsPlaces::from_env(&root.join("work"), &|_| None).unwrap();
    places.managed = Some(root.join("etc/settings.json"));
    places.claude_managed_dir = None;
    places.config_dir = Some(root.join("config"));
    SettingsLayers::read_with(table, &places, &SettingsFlags::default())
}

fn standard(files: &SettingsFiles<'_>) -> SettingsLayers {
    read(SectionSpec::standard(), files).unwrap()
}

/// Returns the effective keys, without their names, and the number of warnings.
fn keys(layers: &SettingsLayers, standing: TrustStatus) -> (Vec<String>, usize) {
    let settings = layers.merge(standing);
    let set = settings.tree.entries().into_iter().filter(|(_, entries)| !entries.is_empty());
    (set.map(|(key, _)| key).collect(), settings.warnings.len())
}

/// Returns a table with one additional row.
fn table_with_row() -> &'static SectionSpec {
    let mut table = SectionSpec { docs: Settings::DOCS, own: None, entries: Vec::new() };
    Settings::describe(&mut table);
    let sandbox = table.entries.iter_mut().find(|(key, _)| *key == "sandbox");
    let Some((_, TableEntry::Section(sandbox))) = sandbox else { panic!("there is a sandbox") };
    let docs = "Devices that commands may open.";
    sandbox.add::<Vec<SettingValue<String>>>("devices", docs, trusted(TrustItemKind::Sandbox).concat());
    Box::leak(Box::new(table))
}

#[test]
fn a_setting_is_one_row() {
    let table = table_with_row();
    let schema = &table_schema(table)["properties"]["sandbox"]["properties"]["devices"];
    assert_eq!((&schema["type"], &schema["items"]["type"]), (&"array".into(), &"string".into()));
    let row =
        "| `devices` | list: string | once trusted | all, strongest first | Devices that commands may open |";
    assert!(settings_page(table).contains(row), "{}", settings_page(table));

    let device = |name: &str| format!(r#"{{"sandbox": {{"devices": ["{name}"]}}}}"#);
    let (project, user) = (device("/dev/theirs"), device("/dev/mine"));
    let layers = read(table, &SettingsFiles { managed: "", project: &project, user: &user }).unwrap();
    let values = |standing| {
        let entries = layers.merge(standing).tree.entries().into_iter();
        let entries = entries.flat_map(|(_, entries)| entries);
        entries
            .map(|entry| format!("{} {} {:?}", entry.key, entry.value, entry.source.scope))
            .collect::<Vec<_>>()
    };
    let (mine, theirs) = ("sandbox.devices \"/dev/mine\" User", "sandbox.devices \"/dev/theirs\" Project");
    assert_eq!(values(TrustStatus::Trusted), [theirs, mine]);
    assert_eq!(values(TrustStatus::Untrusted), [mine]);
    let items: Vec<_> =
        TrustInventory::from_layers(&layers).items().iter().map(ToString::to_string).collect();
    assert_eq!(items, ["sandbox setting `devices: /dev/theirs`"]);

    let files = SettingsFiles { managed: "", project: r#"{"sandbox": {"devices": ["/d", 1]}}"#, user: "" };
    let error = read(table, &files).unwrap_err().to_string();
    let expected =
        ".haft/settings.json:1:32: `sandbox.devices[1]`: the number 1 is not accepted; a string is";
    assert_eq!(error, expected);
    let files = SettingsFiles { managed: "", project: r#"{"sandbox": {"device": []}}"#, user: "" };
    let warnings = read(table, &files).unwrap().merge(TrustStatus::Trusted).warnings;
    assert!(warnings[0].message.ends_with("did you mean `devices`?"), "{warnings:?}");
}

const SANDBOX: &str = r#"{"sandbox": {
    "enabled": VALUE, "autoAllowBashIfSandboxed": VALUE, "failIfUnavailable": VALUE, "allowUnsandboxedCommands": VALUE,
    "enableWeakerNestedSandbox": VALUE, "enableWeakerNetworkIsolation": VALUE, "excludedCommands": ["docker *"],
    "gitWriters": ["make release"], "presets": ["npm"], "ignoreViolations": {"*": ["/x"]},
    "filesystem": {"allowWrite": ["/w"], "denyWrite": ["/dw"], "allowRead": ["/r"], "denyRead": ["/dr"]},
    "network": {"allowedDomains": ["a"], "deniedDomains": ["b"], "allowUnixSockets": ["/s"],
                "allowAllUnixSockets": VALUE, "allowLocalBinding": VALUE, "httpProxyPort": 1, "socksProxyPort": 2,
                "allowMachLookup": ["x"], "privateHosts": [{"host": "m", "cidr": "10.0.0.0/8"}]},
    "credentials": {"files": [{"path": "/k", "mode": "deny"}], "envVars": [{"name": "K", "mode": "deny"}]},
    "allowAppleEvents": true, "bwrapPath": "/b", "socatPath": "/s", "ripgrep": {"command": "rg", "args": []}
}}"#;
/// Sandbox keys that a workspace's file can't set.
const OWN: [&str; 4] =
    ["allowUnsandboxedCommands", "network.httpProxyPort", "network.socksProxyPort", "network.privateHosts"];
const ALWAYS_TIGHTEN: [&str; 5] = [
    "filesystem.denyWrite",
    "filesystem.denyRead",
    "network.deniedDomains",
    "credentials.files",
    "credentials.envVars",
];

#[test]
fn each_key_of_the_sandbox_counts_for_the_files_that_may_set_it() {
    let check = |value: &str, tight: &[&str]| {
        let text = SANDBOX.replace("VALUE", value);
        let (all, warnings) =
            keys(&standard(&SettingsFiles { managed: "", project: "", user: &text }), TrustStatus::Untrusted);
        // Without the keys that are only checked, and the two that only managed settings may set.
        assert_eq!((all.len(), warnings), (24, 0), "{all:?}");
        let layers = standard(&SettingsFiles { managed: "", project: &text, user: "" });
        let without = |keys: &[&str]| {
            let is_kept = |key: &&String| !keys.iter().any(|left| **key == format!("sandbox.{left}"));
            all.iter().filter(is_kept).cloned().collect::<Vec<_>>()
        };
        assert_eq!(keys(&layers, TrustStatus::Trusted), (without(&OWN), OWN.len()));
        let (untrusted, warnings) = keys(&layers, TrustStatus::Untrusted);
        let mut expected: Vec<String> =
            tight.iter().chain(&ALWAYS_TIGHTEN).map(|key| format!("sandbox.{key}")).collect();
        expected.sort();
        let mut sorted = untrusted.clone();
        sorted.sort();
        assert_eq!((sorted, warnings), (expected, OWN.len()));
        // The keys that need trust are those that a trusted workspace may set and an untrusted one may not.
        let mut needs: Vec<String> = Vec::new();
        each_loosening(layers.table, &layers.layers[0].root, |found| needs.push(found.key.to_owned()));
        let mut gained = without(&OWN);
        gained.retain(|key| !untrusted.contains(key));
        assert_eq!(needs, gained);
    };
    check("true", &["enabled", "failIfUnavailable"]);
    check(
        "false",
        &[
            "autoAllowBashIfSandboxed",
            "enableWeakerNestedSandbox",
            "enableWeakerNetworkIsolation",
            "network.allowAllUnixSockets",
            "network.allowLocalBinding",
        ],
    );
}

/// Only user settings, managed settings and flags decide whether a command may ask to leave the sandbox.
#[test]
fn no_workspace_decides_whether_commands_may_leave_the_sandbox() {
    let text = |value: Option<bool>| {
        value.map_or(String::new(), |value| {
            format!(r#"{{"sandbox": {{"allowUnsandboxedCommands": {value}}}}}"#)
        })
    };
    let values = [None, Some(true), Some(false)];
    for case in 0..27 {
        let (managed, project, user) = (values[case / 9], values[case / 3 % 3], values[case % 3]);
        let (managed_text, project_text, user_text) = (text(managed), text(project), text(user));
        let layers =
            standard(&SettingsFiles { managed: &managed_text, project: &project_text, user: &user_text });
        for standing in [TrustStatus::Trusted, TrustStatus::Untrusted] {
            let settings = layers.merge(standing);
            let found = settings.sandbox.allow_unsandboxed.map(|at| at.value);
            assert_eq!(found, managed.or(user), "{managed:?} {project:?} {user:?}");
            assert_eq!(settings.warnings.len(), usize::from(project.is_some()));
        }
    }
}

/// Each of these objects is the user's own: a workspace's is reported and left out, even if the workspace
/// is trusted.
#[test]
fn objects_of_the_user_are_never_a_workspaces() {
    let own = r#"{"run": {"maxTurns": 1, "anthropic": {"model": "m"}, "prices": {"m": {"input": 1, "output": 2}}},
        "mcp": {"connectTimeoutMs": 1, "servers": {"a": {"sampling": true}}}, "serve": {"hosts": ["h"]},
        "journal": {"redact": ["A"]}, "web": {"preapproved": ["h"], "search": "none"}}"#;
    let (all, warnings) =
        keys(&standard(&SettingsFiles { managed: "", project: "", user: own }), TrustStatus::Trusted);
    assert_eq!((all.len(), warnings), (9, 0), "{all:?}");
    let layers = standard(&SettingsFiles { managed: "", project: own, user: "" });
    assert!(TrustInventory::from_layers(&layers).is_empty(), "there is nothing to say yes to");
    for standing in [TrustStatus::Trusted, TrustStatus::Untrusted] {
        assert_eq!(keys(&layers, standing), (Vec::new(), 5));
    }
}

#[test]
fn names_merge_key_by_key_and_the_stronger_file_has_the_last_word() {
    let managed = r#"{"run": {"prices": {"a": {"input": 1, "output": 1}}, "openai": {"model": "strong"}},
        "mcp": {"servers": {"s": {"sampling": true}}}}"#;
    let user = r#"{"run": {"prices": {"a": {"input": 2, "output": 2}, "b": {"input": 3, "output": 3}},
        "openai": {"model": "weak", "baseUrl": "u"}}, "mcp": {"servers": {"s": {"sampling": false, "concurrency": 2}}}}"#;
    let layers = standard(&SettingsFiles { managed, project: "", user });
    let settings = layers.merge(TrustStatus::Trusted);
    let run = &settings.run;
    assert_eq!((run.prices["a"].input, run.prices["b"].input), (1.0, 3.0));
    let openai = run.for_provider(Provider::OpenAi);
    assert_eq!((openai.model.as_deref(), openai.base_url.as_deref()), (Some("strong"), Some("u")));
    let server = &settings.mcp.options.servers["s"];
    assert_eq!((server.sampling, server.concurrency), (Some(true), Some(2)));
    let scope = |key: &str| {
        let entries = settings.tree.entries().into_iter().flat_map(|(_, entries)| entries);
        entries.filter(|entry| entry.key == key).map(|entry| entry.source.scope).collect::<Vec<_>>()
    };
    assert_eq!(scope("mcp.servers.s.sampling"), [SourceScope::Managed]);
    assert_eq!(scope("mcp.servers.s.concurrency"), [SourceScope::User]);
}

#[test]
fn every_row_is_documented() {
    for (key, setting) in SectionSpec::standard().settings() {
        assert!(setting.docs.ends_with('.'), "{key}: {}", setting.docs);
    }
}
