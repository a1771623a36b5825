//! The published schema and the loader agree on every file.

use std::path::Path;

use haft_policy::settings::{SettingsFlags, schema};

use crate::room::Room;

/// Compares the committed schema with the types; `UPDATE_SCHEMAS=1 cargo test -p haft-policy` writes it.
#[test]
fn the_committed_schema_is_current() {
    let expected = format!("{:#}\n", schema());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas/settings.schema.json");
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &expected).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        committed, expected,
        "docs/schemas/settings.schema.json is not current; write it with UPDATE_SCHEMAS=1"
    );
}

const GOOD: &[&str] = &[
    "{}",
    r#"{"$schema": "x", "model": "opus", "statusLine": {"type": "command"}}"#,
    r#"{"permissions": {"allow": ["A", {"rule": "B", "match": ["x", {"a": 1}], "not_match": [], "message": "m"}], "ask": []}}"#,
    r#"{"permissions": {"defaultMode": "manual"}}"#,
    r#"{"permissions": {"defaultMode": "acceptEdits", "additionalDirectories": ["a"], "disableBypassPermissionsMode": "disable", "disableAutoMode": "disable"}}"#,
    r#"{"permissions": {"blockReadsOutsideWorkingDirectories": true, "blockWritesOutsideWorkingDirectories": false, "denyInsteadOfPrompting": true}}"#,
    r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "x", "args": ["a"], "shell": "bash", "async": true, "asyncRewake": false, "timeout": 1.5, "if": "Bash(x)", "statusMessage": "s", "once": true, "onFailure": "block"}]}], "Stop": []}}"#,
    r#"{"hooks": {"Stop": [{"hooks": [{"type": "http", "url": "u", "headers": {"a": "b"}, "allowedEnvVars": ["X"]}, {"type": "mcp_tool", "server": "s", "tool": "t", "input": {"a": 1}}, {"type": "prompt", "prompt": "p", "model": "m", "continueOnBlock": true}, {"type": "agent", "prompt": "p"}]}]}}"#,
    r#"{"disableAllHooks": true, "allowedHttpHookUrls": [], "httpHookAllowedEnvVars": ["A"]}"#,
    r#"{"env": {"A": "x", "B": 1, "C": true, "D": 1.5}}"#,
    r#"{"effects": {"t": {"reads": ["a"], "writes": [], "deletes": [], "runs": ["x"], "reaches": ["h"]}, "u": {}}}"#,
    r#"{"sandbox": {"enabled": true, "autoAllowBashIfSandboxed": false, "excludedCommands": ["docker"], "filesystem": {"allowWrite": ["/x"]}, "network": {"allowedDomains": ["x"], "httpProxyPort": 8080}}}"#,
    r#"{"sandbox": {"credentials": {"files": [{"path": "~/.k", "mode": "deny"}], "envVars": [{"name": "K", "mode": "deny"}]}, "ignoreViolations": {"*": ["/x"]}}}"#,
    r#"{"sandbox": {"allowAppleEvents": true, "bwrapPath": "/b", "socatPath": "/s", "ripgrep": {"command": "rg"}, "network": {"allowMachLookup": ["x"]}}}"#,
    r#"{"enableAllProjectMcpServers": true, "enabledMcpjsonServers": ["a"], "disabledMcpjsonServers": [], "allowedMcpServers": [{"serverName": "a"}], "deniedMcpServers": [{"serverCommand": ["a"]}, {"serverUrl": "u"}]}"#,
    r#"{"classifier": {"command": ["x"], "timeoutMs": 5}, "repetitionGuard": 2}"#,
    r#"{"repetitionGuard": false}"#,
    r#"{"run": {"provider": "openai-chat", "openai-chat": {"model": "m", "baseUrl": "http://h/v1", "apiKey": "k", "windowTokens": 8000}, "anthropic": {}, "prices": {"m": {"input": 3, "output": 15.5, "cacheRead": 0.3}}, "maxTurns": 3, "maxTokens": 9, "maxSeconds": 60, "maxCost": 0.5}}"#,
    r#"{"serve": {"clients": [{"name": "a", "tokenSha256": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "mode": "plan", "tools": ["Re*"], "allow": ["A"], "ask": [], "deny": ["B"]}, {"name": "b", "tokenFile": "~/t"}], "hosts": ["h"], "origins": ["https://o"]}}"#,
    r#"{"serve": {"oauth": {"resource": "https://h/mcp", "authorizationServers": ["https://a"], "introspection": "https://a/i", "clientId": "c", "clientSecretFile": "/s", "scopes": ["x"]}}}"#,
];

const BAD: &[&str] = &[
    r#"{"serve": []}"#,
    r#"{"serve": {"clients": [{"tokenFile": "/t"}]}}"#,
    r#"{"serve": {"clients": [{"name": ""}]}}"#,
    r#"{"serve": {"clients": [{"name": "a", "tokenSha256": "0123"}]}}"#,
    r#"{"serve": {"clients": [{"name": "a", "mode": "yolo"}]}}"#,
    r#"{"serve": {"oauth": {"clientId": "c"}}}"#,
    "[]",
    "3",
    r#"{"permissions": []}"#,
    r#"{"permissions": {"allow": "A"}}"#,
    r#"{"permissions": {"allow": [1]}}"#,
    r#"{"permissions": {"allow": [{"match": []}]}}"#,
    r#"{"permissions": {"allow": [{"rule": 1}]}}"#,
    r#"{"permissions": {"allow": [{"rule": "A", "match": "x"}]}}"#,
    r#"{"permissions": {"defaultMode": "yolo"}}"#,
    r#"{"permissions": {"disableBypassPermissionsMode": true}}"#,
    r#"{"permissions": {"denyInsteadOfPrompting": "yes"}}"#,
    r#"{"permissions": {"additionalDirectories": [1]}}"#,
    r#"{"hooks": []}"#,
    r#"{"hooks": {"Stop": {}}}"#,
    r#"{"hooks": {"Stop": [{}]}}"#,
    r#"{"hooks": {"Stop": [{"hooks": [{}]}]}}"#,
    r#"{"hooks": {"Stop": [{"hooks": [{"type": "command"}]}]}}"#,
    r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": null}]}]}}"#,
    r#"{"hooks": {"Stop": [{"hooks": [{"type": "http"}]}]}}"#,
    r#"{"hooks": {"Stop": [{"hooks": [{"type": "mcp_tool", "server": "s"}]}]}}"#,
    r#"{"hooks": {"Stop": [{"hooks": [{"type": "prompt"}]}]}}"#,
    r#"{"hooks": {"Stop": [{"hooks": [{"type": "magic", "command": "x"}]}]}}"#,
    r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": 0}]}]}}"#,
    r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": 1e9}]}]}}"#,
    r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "args": "a"}]}]}}"#,
    r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "onFailure": "ignore"}]}]}}"#,
    r#"{"disableAllHooks": 1}"#,
    r#"{"env": {"A": {}}}"#,
    r#"{"env": {"A": null}}"#,
    r#"{"env": []}"#,
    r#"{"permissions": null}"#,
    r#"{"permissions": {"deny": null}}"#,
    r#"{"permissions": {"deny": [null]}}"#,
    r#"{"permissions": {"deny": [{"rule": "A", "match": null}]}}"#,
    r#"{"hooks": null}"#,
    r#"{"hooks": {"Stop": [{"matcher": null, "hooks": []}]}}"#,
    r#"{"classifier": null}"#,
    r#"{"$schema": null}"#,
    r#"{"sandbox": {"filesystem": {"denyRead": null}}}"#,
    r#"{"sandbox": {"credentials": {"files": [{"path": "/k", "mode": "allow"}]}}}"#,
    r#"{"sandbox": {"credentials": {"files": [{"path": "/k"}]}}}"#,
    r#"{"sandbox": {"ignoreViolations": {"*": "/x"}}}"#,
    r#"{"effects": {"t": {"reads": "a"}}}"#,
    r#"{"effects": {"t": {"reads": null}}}"#,
    r#"{"sandbox": true}"#,
    r#"{"sandbox": {"enabled": "yes"}}"#,
    r#"{"sandbox": {"network": {"httpProxyPort": 70000}}}"#,
    r#"{"allowedMcpServers": [{}]}"#,
    r#"{"allowedMcpServers": [{"serverName": "a", "serverUrl": "b"}]}"#,
    r#"{"deniedMcpServers": [{"serverCommand": []}]}"#,
    r#"{"classifier": {}}"#,
    r#"{"classifier": {"command": []}}"#,
    r#"{"classifier": {"command": "x"}}"#,
    r#"{"classifier": {"command": ["x"], "timeoutMs": 0}}"#,
    r#"{"repetitionGuard": 1}"#,
    r#"{"repetitionGuard": true}"#,
    r#"{"repetitionGuard": 1001}"#,
    r#"{"repetitionGuard": 2.5}"#,
    r#"{"run": {"provider": "scripted"}}"#,
    r#"{"run": {"maxTurns": 0}}"#,
    r#"{"run": {"gemini": {"windowTokens": 0}}}"#,
    r#"{"run": {"maxCost": -1}}"#,
    r#"{"run": {"prices": {"m": {"input": 1}}}}"#,
    r#"{"run": {"prices": {"m": {"input": 1, "output": -1}}}}"#,
];

/// A file that loads with a warning violates the schema, so editors mark it.
const ODD: &[&str] = &[
    r#"{"permision": {}}"#,
    r#"{"permissions": {"alow": []}}"#,
    r#"{"permissions": {"allow": [{"rule": "A", "matches": []}]}}"#,
    r#"{"hooks": {"PreTooluse": []}}"#,
    r#"{"hooks": {"Stop": [{"hooks": [], "mather": "x"}]}}"#,
    r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "timout": 1}]}]}}"#,
    r#"{"effects": {"t": {"read": []}}}"#,
    r#"{"sandbox": {"enabld": true}}"#,
    r#"{"sandbox": {"network": {"allow": []}}}"#,
    r#"{"classifier": {"command": ["x"], "timeout": 3}}"#,
    r#"{"run": {"openai": {"baseURL": "x"}}}"#,
];

#[test]
fn schema_and_loader_agree() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let check = |text: &str, loads: bool, silent: bool| {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        let loaded = Room::new().with("config/settings.json", text).try_load(&SettingsFlags::default());
        match &loaded {
            Ok(loaded) => {
                assert!(loads, "{text} should not load");
                let warnings = &loaded.settings.warnings;
                assert_eq!(warnings.is_empty(), silent, "{text}: {warnings:?}");
            }
            Err(error) => assert!(!loads, "{text}: {error}"),
        }
        assert_eq!(
            validator.is_valid(&value),
            loads && silent,
            "{text}: {:?}",
            validator.iter_errors(&value).map(|error| error.to_string()).collect::<Vec<_>>()
        );
    };
    GOOD.iter().for_each(|text| check(text, true, true));
    BAD.iter().for_each(|text| check(text, false, false));
    ODD.iter().for_each(|text| check(text, true, false));
}
