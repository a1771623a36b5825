//! Schemas for a wire: from what a tool accepts to what a provider takes.
//!
//! The way is: `flatten` reads a schema into a [`SchemaNode`] without references and `allOf`; `root` makes an
//! object of it; `strict` fits it to a provider's strict mode where that loses nothing; `trim` takes detail
//! away until it is small enough; `write` spells it, always in the same way. `merge` is the arithmetic that
//! the first two need.
//!
//! One rule holds for all of it: what comes out may accept more than the tool does, and must not accept less.
//! The call is validated against the tool's own schema anyway. This is why keywords that can't be loosened
//! safely (`not`, `if`) become words, and why a part that is cut accepts anything.
//!
//! A [`SchemaNode`] borrows from the schema that it was read from: names, texts and values are not copied
//! before they are written.

mod flatten;
mod json_types;
mod merge;
mod root;
mod schema_node;
mod strict;
mod trim;
mod write_schema;

use std::fmt;

use haft::text::truncate_chars;
use serde_json::Value;

pub(crate) use self::strict::StrictDemands;

use self::flatten::{FlattenError, PLANS, SchemaDocument};
use self::schema_node::SchemaNode;
use self::trim::LEVELS;
use self::write_schema::KeywordSupport;
use crate::limits::{PROPERTY_CHARS_MAX, WIRE_SCHEMA_BYTES_MAX};

/// Whose rules a schema has to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaDialect {
    /// Any keyword of JSON Schema.
    Plain,
    /// The keywords that Gemini lists.
    Gemini,
    /// Strict if that loses nothing, otherwise plain.
    OpenAiStrict,
    /// Strict if that loses nothing, otherwise plain.
    AnthropicStrict,
}

impl SchemaDialect {
    fn plain(self) -> SchemaDialect {
        match self {
            SchemaDialect::Gemini => SchemaDialect::Gemini,
            _ => SchemaDialect::Plain,
        }
    }
}

/// A schema as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WireSchema {
    /// Its JSON, in the one spelling.
    pub(crate) json: String,
    /// What it asks of the strict mode that it is legal for; `None` if it is plain.
    pub(crate) strict: Option<StrictDemands>,
    /// Whether an object with something in it is accepted.
    pub(crate) has_properties: bool,
    /// A property of the root whose name not every provider takes.
    pub(crate) odd_property: Option<String>,
}

/// Why a schema can't be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemaRefusal(pub(crate) String);

impl fmt::Display for SchemaRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Makes the schema of an object for a wire. The same schema gives the same bytes, whatever the order of its
/// keys.
pub(crate) fn encode_schema(schema: &Value, dialect: SchemaDialect) -> Result<WireSchema, SchemaRefusal> {
    let document = SchemaDocument::new(schema);
    let mut trimmed = 0;
    let mut least = None;
    for plan in PLANS {
        let node = match flatten::flatten_schema(&document, plan) {
            Ok(node) => node,
            Err(FlattenError::TooMany) => continue,
            Err(FlattenError::Refused(why)) => return Err(SchemaRefusal(why)),
        };
        let mut node = root::root_object(node)?;
        let dialect = if document.is_far() { dialect.plain() } else { dialect };
        let (takes, strict) = fit_strict(&mut node, dialect);
        for level in 0..=LEVELS {
            // What was too long with less detail is not tried with more.
            if level > 0 {
                trim::trim_level(&mut node, level);
            }
            if level < trimmed {
                continue;
            }
            trimmed = level;
            let json = write_schema::write_schema(&node, takes);
            if json.len() <= WIRE_SCHEMA_BYTES_MAX {
                let has_properties = !node.properties.is_empty() || node.is_open();
                let odd_property = odd_property(&node);
                return Ok(WireSchema { json, strict, has_properties, odd_property });
            }
            least = Some(json.len());
        }
    }
    Err(SchemaRefusal(match least {
        Some(bytes) => format!(
            "its schema has {bytes} bytes without any detail; at most {WIRE_SCHEMA_BYTES_MAX} are accepted"
        ),
        None => "its schema has too many parts even without any nested ones; split the tool".to_owned(),
    }))
}

/// The first property of the root that has more than letters, digits, `_`, `.` and `-` in its name, or is too
/// long.
fn odd_property(node: &SchemaNode<'_>) -> Option<String> {
    let plain = |name: &str| {
        (1..=PROPERTY_CHARS_MAX).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
    };
    let odd = node.properties.iter().map(|(name, _)| *name).find(|name| !plain(name))?;
    Some(truncate_chars(odd, PROPERTY_CHARS_MAX).to_owned())
}

/// Brings a node into the strict form of its dialect, where that is possible.
fn fit_strict(node: &mut SchemaNode<'_>, dialect: SchemaDialect) -> (KeywordSupport, Option<StrictDemands>) {
    match dialect {
        SchemaDialect::Plain => (KeywordSupport::All, None),
        SchemaDialect::Gemini => (KeywordSupport::Gemini, None),
        SchemaDialect::OpenAiStrict => match strict::make_openai_strict(node) {
            Some(demands) => (KeywordSupport::OpenAiStrict, Some(demands)),
            None => (KeywordSupport::All, None),
        },
        SchemaDialect::AnthropicStrict => match strict::make_anthropic_strict(node) {
            Some(demands) => (KeywordSupport::AnthropicStrict, Some(demands)),
            None => (KeywordSupport::All, None),
        },
    }
}

#[cfg(test)]
mod property_tests;
#[cfg(test)]
#[path = "schema/schema_tests.rs"]
mod tests;
