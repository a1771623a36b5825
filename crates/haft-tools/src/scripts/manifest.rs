//! `tool.json`: its fields, the schema that is published for it, and what is wrong with one.
//!
//! The schema is made from the type below and is what a file is held against, so the two can't disagree; what
//! no schema can say (a template that names no argument, claims that contradict each other) is checked after
//! it. All problems of a file are said at once.

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use haft::results::ResultLimit;
use haft::schema::{InputSchema, InputViolation, decode_input, parse_json};
use haft::tool::Interrupt;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::script_effects::DeclaredEffects;
use super::{RESULT_CHARS_MIN, TIMEOUT_MS_MAX};

/// A tool in any language: `tool.json`, beside the program that it names.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "tool.json of a script tool")]
pub struct ScriptManifest {
    /// The schema of this file, for editors.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// The name by which a model calls it.
    #[schemars(regex(pattern = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$"))]
    pub name: String,
    /// What a model is told: what it does, when to use it, and when not.
    #[schemars(regex(pattern = r"\S"))]
    pub description: String,
    /// The JSON Schema of the arguments; its root accepts an object.
    pub input_schema: Map<String, Value>,
    /// The JSON Schema of what it prints; only with `"output": "json"`.
    #[serde(default)]
    pub output_schema: Option<Map<String, Value>>,
    /// The program and its arguments. A program that begins with `./` lies in this folder; others are
    /// absolute or looked for on PATH. It runs in the working directory.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub command: Vec<String>,
    /// What standard output is: text (default), or one JSON value.
    #[serde(default)]
    pub output: OutputForm,
    /// What a call touches. Without it, and without `read_only`, anything: the call runs alone.
    #[serde(default)]
    pub effects: Option<ScriptEffects>,
    /// Changes nothing. Without `effects` it may read anything in the working directory.
    #[serde(default)]
    pub read_only: Option<bool>,
    /// Destroys what can't be brought back, whatever the effects say.
    #[serde(default)]
    pub destructive: Option<bool>,
    /// May run beside others although it changes something, because it takes care of that itself; or, if
    /// false, must run alone.
    #[serde(default)]
    pub concurrency_safe: Option<bool>,
    /// How long a call may take, in milliseconds. Default: ten minutes.
    #[serde(default)]
    #[schemars(range(min = 1, max = TIMEOUT_MS_MAX))]
    pub timeout_ms: Option<u64>,
    /// How many characters of a result a model sees at once; a longer one is kept in a file. Default:
    /// 100,000.
    #[serde(default)]
    #[schemars(schema_with = "limit_schema")]
    pub max_result_chars: Option<ResultLimit>,
    /// How many calls of this tool may run at once.
    #[serde(default)]
    pub max_concurrency: Option<NonZeroUsize>,
    /// What an interrupt by the user does to a running call: let it finish (default), or stop it.
    #[serde(default)]
    pub interrupt: Option<OnInterrupt>,
    /// Other names of the tool.
    #[serde(default)]
    #[schemars(inner(regex(pattern = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")))]
    pub aliases: Vec<String>,
    /// Where there are many tools, a model has to search for this one before it sees the schema.
    #[serde(default)]
    pub defer: bool,
    /// A model sees the schema from the start, however many tools there are.
    #[serde(default)]
    pub always_load: bool,
    /// Words by which the tool is found.
    #[serde(default)]
    pub search_hint: Option<String>,
    /// Can't be used where no user can be asked.
    #[serde(default)]
    pub requires_user: bool,
    /// Names of environment variables that the program gets beside those that every program gets.
    #[serde(default)]
    #[schemars(inner(regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$")))]
    pub env: Vec<String>,
}

/// What standard output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OutputForm {
    /// Text, for the model to read as it is.
    #[default]
    Text,
    /// One JSON value.
    Json,
}

/// What an interrupt by the user does to a running call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnInterrupt {
    /// The call goes on to its end.
    #[default]
    Block,
    /// The call is stopped.
    Cancel,
}

impl From<OnInterrupt> for Interrupt {
    fn from(on: OnInterrupt) -> Interrupt {
        match on {
            OnInterrupt::Block => Interrupt::Block,
            OnInterrupt::Cancel => Interrupt::Cancel,
        }
    }
}

/// What a call touches. In each text, `{name}` stands for the argument of that name; `{{` and `}}` for
/// braces.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptEffects {
    /// Files that are read; with `/` or `/**` at the end, everything below a folder.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub reads: Vec<String>,
    /// Files that are created or changed.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub writes: Vec<String>,
    /// Files that are removed.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub deletes: Vec<String>,
    /// Commands that are run, as text to show.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub runs: Vec<String>,
    /// Hosts that are reached: `api.example.com` where it only looks something up, `change api.example.com`
    /// where it may change something there.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub reaches: Vec<String>,
}

fn limit_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"anyOf": [{"type": "integer", "minimum": RESULT_CHARS_MIN}, {"const": "unlimited"}]})
}

/// The JSON Schema of `tool.json`, as it is published.
pub fn manifest_schema() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.into_generator().into_root_schema_for::<ScriptManifest>().to_value()
}

/// A manifest in which everything makes sense, as far as it can be told without looking at the disk.
pub(super) struct CheckedManifest {
    pub(super) manifest: ScriptManifest,
    pub(super) declared: DeclaredEffects,
    pub(super) output_schema: Option<InputSchema>,
}

/// Reads a manifest, or says everything that is wrong with it.
pub(super) fn check_manifest(bytes: &[u8]) -> Result<CheckedManifest, Vec<InputViolation>> {
    static SCHEMA: LazyLock<InputSchema> = LazyLock::new(|| {
        InputSchema::of_output(manifest_schema()).expect("the schema of a type of ours is a schema")
    });
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes)
        .map_err(|error| vec![InputViolation::new("", format!("is not JSON: {error}"))])?;
    let value = parse_json(text).map_err(|violation| vec![violation])?;
    let mut violations = SCHEMA.violations(&value);
    if !violations.is_empty() {
        let blank =
            value.get("description").and_then(Value::as_str).is_some_and(|text| text.trim().is_empty());
        for violation in violations.iter_mut().filter(|violation| blank && violation.path() == "/description")
        {
            *violation =
                InputViolation::new("/description", "is empty; say what the tool does and when to use it");
        }
        return Err(violations);
    }
    let manifest: ScriptManifest = decode_input(&value).map_err(|violation| vec![violation])?;
    let mut violations = Vec::new();
    let mut wrong = |path: &str, words: String| violations.push(InputViolation::new(path, words));
    let declared = DeclaredEffects::from_manifest(&manifest, &mut wrong);
    let mut output_schema = None;
    if let Some(schema) = &manifest.output_schema {
        if manifest.output == OutputForm::Text {
            wrong("/output_schema", "text has no schema; set `output` to \"json\", or leave this out".into());
        }
        match InputSchema::of_output(schema.clone().into()) {
            Ok(schema) => output_schema = Some(schema),
            Err(error) => wrong("/output_schema", error.to_string()),
        }
    }
    for (at, word) in manifest.command.iter().enumerate().filter(|(_, word)| word.contains('\0')) {
        let word = word.replace('\0', "\\0");
        wrong(&format!("/command/{at}"), format!("`{word}` has a NUL, which no program can be given"));
    }
    for (at, alias) in manifest.aliases.iter().enumerate() {
        if *alias == manifest.name {
            wrong(&format!("/aliases/{at}"), format!("`{alias}` is the name already; leave it out"));
        } else if manifest.aliases[..at].contains(alias) {
            wrong(&format!("/aliases/{at}"), format!("`{alias}` is given twice; give it once"));
        }
    }
    if manifest.defer && manifest.always_load {
        wrong("/always_load", "contradicts `defer`; set one of them".into());
    }
    if violations.is_empty() {
        Ok(CheckedManifest { manifest, declared, output_schema })
    } else {
        Err(violations)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A validator that isn't ours, on the published file, and the loader: what fits one fits the other.
    #[test]
    fn the_published_schema_and_the_loader_agree() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/tool.schema.json");
        let published: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let published = jsonschema::draft202012::new(&published).unwrap();
        // Each field with values that are right and values that are not.
        let values = json!({
            "name": ["x", "_a-1", "", "1a", "a b", 7, "x".repeat(64), "x".repeat(65)],
            "description": ["What it does.", "", " \n", 1],
            "input_schema": [{"type": "object"}, {}, [], "x", true],
            "command": [["true"], ["true", "-x"], [], [""], ["true", ""], "true", [1]],
            "output": ["text", "json", "xml", 1],
            "effects": [{}, {"reads": []}, {"reads": ["x"]}, {"reads": [""]}, {"reads": "x"}, {"other": []}, []],
            "read_only": [true, false, "true", 1],
            "destructive": [true, "yes"],
            "concurrency_safe": [false, 0],
            "timeout_ms": [1, 86_400_000, 0, -1, 1.5, "5", 86_400_001],
            "max_result_chars": [0, 99, 100, "unlimited", "all", -1, 1.5],
            "max_concurrency": [1, 10, 0, -1],
            "interrupt": ["block", "cancel", "stop"],
            "aliases": [[], ["a"], ["a b"], "a"],
            "defer": [true, false, 1],
            "always_load": [true, "no"],
            "search_hint": ["words", "", 1],
            "requires_user": [true, 1],
            "env": [[], ["A"], ["A=B"], ["1"], [""]],
            "unknown": [1],
        });
        let mut both = (0, 0);
        for (field, values) in values.as_object().unwrap() {
            for value in values.as_array().unwrap() {
                let mut manifest =
                    json!({"name": "t", "description": "d", "input_schema": {}, "command": ["true"]});
                manifest[field] = value.clone();
                let loads = check_manifest(manifest.to_string().as_bytes()).is_ok();
                assert_eq!(loads, published.is_valid(&manifest), "{field}: {value}");
                if loads { both.0 += 1 } else { both.1 += 1 }
            }
        }
        assert!(both.0 > 25 && both.1 > 40, "{both:?}");
    }
}
