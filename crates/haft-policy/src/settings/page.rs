//! Generates the tables of keys in `docs/settings.md` from the table of settings.

use std::fmt::Write as _;

use serde_json::Value;

use super::jsonc::{JsonNode, JsonValue};
use super::schema::table_schema;
use super::table::{MergeRule, SectionSpec, SettingAuthority, SettingSpec, join_key};

const HEADER: &str =
    "| key | value | from a workspace | of several files | meaning |\n|---|---|---|---|---|\n";

/// Returns one table for each top-level object, and one for the other keys.
pub(crate) fn settings_page(table: &SectionSpec) -> String {
    let schema = table_schema(table);
    let mut page = String::new();
    let mut begun: Option<String> = None;
    let mut shown = Vec::new();
    let settings = table.settings();
    let of_object = |key: &str| key.split_once('.').map(|(object, _)| object.to_owned());
    let mut sorted: Vec<_> = settings.iter().map(|(key, setting)| (of_object(key), key, setting)).collect();
    // Keys outside of an object come first; otherwise the order is kept.
    sorted.sort_by_key(|(object, ..)| object.is_some());
    for (object, key, setting) in sorted {
        if page.is_empty() || begun != object {
            let title = object.as_ref().map_or("At the top:".to_owned(), |object| format!("In `{object}`:"));
            let gap = if page.is_empty() { "" } else { "\n" };
            let _ = write!(page, "{gap}{title}\n\n{HEADER}");
            begun = object.clone();
        }
        let key = object.map_or(key.as_str(), |object| &key[object.len() + 1..]);
        let name =
            (0..setting.rule.names).fold(key.to_owned(), |key, level| match (setting.rule.merge, level) {
                (MergeRule::Hooks, _) => join_key(&key, "EVENT"),
                (_, 0) => join_key(&key, "NAME"),
                _ => key,
            });
        let mut generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
        let own = setting.schema(&mut generator).to_value();
        let value = below_names(&own, setting.rule.names.min(1));
        let (from, merged) = (authority_label(setting, &own), merge_label(setting));
        write_row(&mut page, &name, &type_label(value, &schema), from, merged, setting.docs);
        write_parts(&mut page, &name, value, &schema, &mut shown);
    }
    page
}

fn write_row(page: &mut String, key: &str, value: &str, from: &str, merged: &str, docs: &str) {
    let docs = docs.replace('|', "\\|");
    let _ = writeln!(page, "| `{key}` | {value} | {from} | {merged} | {} |", docs.trim_end_matches('.'));
}

/// Returns the schema of the values below the given number of name levels.
fn below_names(schema: &Value, names: u8) -> &Value {
    (0..names).fold(schema, |schema, _| &schema["additionalProperties"])
}

/// Writes rows for the keys of a value that is an object or a list of objects. Each type is written once.
fn write_parts(page: &mut String, key: &str, value: &Value, root: &Value, shown: &mut Vec<Value>) {
    let value = resolve_reference(value, root);
    if value["type"] == "array" {
        return write_parts(page, &format!("{key}[]"), &value["items"], root, shown);
    }
    let objects = std::iter::once(value).chain(value["anyOf"].as_array().into_iter().flatten());
    for object in objects.map(|object| resolve_reference(object, root)) {
        let Some(properties) = object["properties"].as_object().filter(|_| !shown.contains(object)) else {
            continue;
        };
        shown.push(object.clone());
        for (name, part) in properties {
            let docs = part["description"].as_str().unwrap_or_default();
            write_row(page, &join_key(key, name), &type_label(part, root), "", "", docs);
            write_parts(page, &join_key(key, name), part, root, shown);
        }
    }
}

fn resolve_reference<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
    name.map_or(schema, |name| &root["$defs"][name])
}

/// Returns the name of a value's type for the page.
fn type_label(schema: &Value, root: &Value) -> String {
    let range = |schema: &Value| match (&schema["minimum"], &schema["maximum"]) {
        (Value::Number(min), Value::Number(max)) => format!(", {min} to {max}"),
        (Value::Number(min), _) if min.as_f64() != Some(0.0) => format!(", at least {min}"),
        _ => String::new(),
    };
    let (given, schema) = (schema, resolve_reference(schema, root));
    let each = |key: &str| {
        let all = schema[key].as_array().into_iter().flatten();
        all.map(|one| type_label(one, root)).collect::<Vec<_>>()
    };
    if let Some(value) = schema.get("const") {
        return format!("`{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    match &schema["type"] {
        _ if schema.get("oneOf").is_some() => each("oneOf").join(", "),
        _ if schema.get("anyOf").is_some() => each("anyOf").join(" or "),
        Value::String(_) if schema.get("enum").is_some() => {
            let words = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
            words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        }
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        Value::String(kind) => match kind.as_str() {
            "array" => format!("list: {}", type_label(&schema["items"], root)),
            "integer" => format!("whole number{}", range(given)),
            "object" if schema["additionalProperties"].is_object() => {
                format!("by name: {}", type_label(&schema["additionalProperties"], root))
            }
            kind => format!("{kind}{}", range(given)),
        },
        _ => "any".to_owned(),
    }
}

fn authority_label(setting: &SettingSpec, schema: &Value) -> &'static str {
    let rule = &setting.rule;
    let is_loose = |value| {
        let node = JsonNode { json: JsonValue::Bool(value), ..JsonNode::default() };
        rule.loosens.is_some_and(|loosens| loosens(&node, None))
    };
    match (rule.authority, rule.loosens) {
        _ if rule.merge == MergeRule::Ignored => "–",
        (SettingAuthority::Anyone, _) => "yes",
        (SettingAuthority::Trusted, None) => "once trusted",
        (SettingAuthority::Trusted, _) if schema["type"] != "boolean" => "tighter; looser once trusted",
        (SettingAuthority::Trusted, _) if is_loose(true) => "`false`; `true` once trusted",
        (SettingAuthority::Trusted, _) => "`true`; `false` once trusted",
        (SettingAuthority::Tightening, _) => "tighter only",
        (SettingAuthority::Own, _) => "never",
        (SettingAuthority::OwnSilently, _) => "for what is its own",
        (SettingAuthority::Managed, _) => "never: managed only",
    }
}

fn merge_label(setting: &SettingSpec) -> &'static str {
    match (setting.rule.merge, setting.rule.names) {
        (MergeRule::Ignored, _) => "–",
        (MergeRule::Strongest, 0) => "the strongest",
        (MergeRule::Strongest, _) => "by name the strongest",
        (MergeRule::Concat, 0) => "all, strongest first",
        (MergeRule::Concat, _) => "by name all",
        (MergeRule::Hooks, _) => "all, weakest first",
        (MergeRule::Any, _) => "holds if any says so",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const BEGIN: &str = "<!-- keys: HAFT_WRITE_PAGES=1 cargo test -p haft-policy page -->\n";
    const END: &str = "<!-- end of keys -->";

    /// `HAFT_WRITE_PAGES=1` writes the tables.
    #[test]
    fn the_tables_of_the_page_are_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = text.split_once(BEGIN).expect("the tables have a beginning");
        let (_, after) = rest.split_once(END).expect("the tables have an end");
        let current = format!("{before}{BEGIN}{}{END}{after}", settings_page(SectionSpec::standard()));
        if std::env::var_os("HAFT_WRITE_PAGES").is_some() {
            std::fs::write(&path, &current).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(written == current, "docs/settings.md is out of date; HAFT_WRITE_PAGES=1 writes its tables");
    }
}
