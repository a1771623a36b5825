//! Edits a file of servers and leaves everything else as it was: order, comments, blank lines.
//!
//! Users write such files by hand and keep them under version control. Writing the whole file anew would
//! lose their formatting and comments. A file that can't be parsed is not changed.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value;

use super::jsonc;

const KEY: &str = "mcpServers";
/// The order of a server's keys.
const ORDER: [&str; 6] = ["type", "command", "args", "env", "url", "headers"];

/// Returns the text with a server added or replaced. `project` is the key of a workspace in a file for many
/// workspaces.
///
/// ```
/// use haft_policy::settings::edit::with_server;
/// use serde_json::json;
///
/// let text = with_server("", None, "time", &json!({"command": "uvx", "args": ["mcp-server-time"]})).unwrap();
/// assert!(text.contains("\"command\": \"uvx\""));
/// let text = with_server("{\n  // mine\n  \"other\": 1\n}", None, "time", &json!({"command": "uvx"})).unwrap();
/// assert!(text.starts_with("{\n  // mine\n  \"other\": 1,\n  \"mcpServers\": {"));
/// ```
///
/// # Errors
/// Returns a message if the text is not an object of servers.
pub fn with_server(text: &str, project: Option<&str>, name: &str, server: &Value) -> Result<String, String> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root = parse_file(text)?;
    let mut object = root.object_value().ok_or("it is not an object")?;
    let path = project.into_iter().flat_map(|project| ["projects", project]).chain([KEY]);
    for key in path {
        object = object.object_value_or_create(key).ok_or_else(|| format!("`{key}` is not an object"))?;
    }
    match object.get(name) {
        Some(known) => known.set_value(to_cst_value(server)),
        None => _ = object.append(name, to_cst_value(server)),
    }
    render_file(&root)
}

/// Returns the text without a server, or `None` if there is no server of that name.
///
/// # Errors
/// Returns a message if the text is not an object of servers.
pub fn without_server(text: &str, project: Option<&str>, name: &str) -> Result<Option<String>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let root = parse_file(text)?;
    let mut object: CstObject = root.object_value().ok_or("it is not an object")?;
    let path = project.into_iter().flat_map(|project| ["projects", project]).chain([KEY]);
    for key in path {
        match object.object_value(key) {
            Some(inner) => object = inner,
            None => return Ok(None),
        }
    }
    let Some(found) = object.get(name) else { return Ok(None) };
    found.remove();
    render_file(&root).map(Some)
}

fn parse_file(text: &str) -> Result<CstRootNode, String> {
    // A file that the loader rejects, for example for a duplicate key, isn't changed either.
    jsonc::parse_jsonc(text).map_err(|fault| fault.message)?;
    CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| error.to_string())
}

fn render_file(root: &CstRootNode) -> Result<String, String> {
    let mut text = root.to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    jsonc::parse_jsonc(&text).map_err(|fault| fault.message)?;
    Ok(text)
}

fn to_cst_value(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(value) => CstInputValue::String(value.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(to_cst_value).collect()),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            // The usual order first, other keys by name.
            fields.sort_by_key(|(key, _)| ORDER.iter().position(|known| known == key).unwrap_or(ORDER.len()));
            CstInputValue::Object(
                fields.into_iter().map(|(key, value)| (key.clone(), to_cst_value(value))).collect(),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(text: &str) -> Value {
        jsonc_parser::parse_to_value(text, &ParseOptions::default())
            .map(|_| ())
            .unwrap_or_else(|error| panic!("{error}: {text}"));
        let plain: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        serde_json::from_str(&plain).unwrap()
    }

    #[test]
    fn what_else_stands_there_stays() {
        let before = "{\n  // ours, ask Ann\n  \"mcpServers\": {\n    // for tickets\n    \"a\": {\"command\": \"x\"}\n  }\n}\n";
        let after =
            with_server(before, None, "b", &json!({"command": "y", "args": ["\"q\"", "é\n"]})).unwrap();
        assert!(
            after.contains("// ours, ask Ann")
                && after.contains("// for tickets\n    \"a\": {\"command\": \"x\"}")
        );
        assert_eq!(value(&after)["mcpServers"]["b"], json!({"command": "y", "args": ["\"q\"", "é\n"]}));
        assert_eq!(value(&after)["mcpServers"]["a"], json!({"command": "x"}));
        let changed = with_server(&after, None, "a", &json!({"command": "z"})).unwrap();
        assert_eq!(value(&changed)["mcpServers"]["a"], json!({"command": "z"}));
        let gone = without_server(&after, None, "b").unwrap().unwrap();
        assert_eq!(value(&gone), value(before));
        assert!(gone.contains("// for tickets"));
        assert_eq!(without_server(&gone, None, "b"), Ok(None));
        assert_eq!(without_server("", None, "b"), Ok(None));
    }

    #[test]
    fn servers_of_a_workspace_stand_beside_those_of_others() {
        let text = with_server("", Some("/w/a"), "s", &json!({"command": "x"})).unwrap();
        let text = with_server(&text, Some("/w/b"), "s", &json!({"command": "y"})).unwrap();
        let both = json!({"projects": {"/w/a": {"mcpServers": {"s": {"command": "x"}}},
            "/w/b": {"mcpServers": {"s": {"command": "y"}}}}});
        assert_eq!(value(&text), both);
        let text = without_server(&text, Some("/w/a"), "s").unwrap().unwrap();
        assert_eq!(value(&text)["projects"]["/w/a"]["mcpServers"], json!({}));
    }

    #[test]
    fn what_makes_no_sense_is_not_changed() {
        for bad in ["[]", "3", "{", "{\"mcpServers\": []}", "{\"a\": 1, \"a\": 2}"] {
            assert!(with_server(bad, None, "s", &json!({})).is_err(), "{bad}");
        }
    }
}
