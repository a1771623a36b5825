//! Typed values from trees whose leaves know their location: the trait `FromTree`, and a serde deserializer
//! for types without locations inside.
//!
//! Unknown keys are no error. They are collected together with the type's known keys, so that a warning can
//! name the closest one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use haft::ports::PermissionMode;
use haft::text::truncate_chars;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::value::StrDeserializer;
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, Error as _, Expected, MapAccess, SeqAccess, Unexpected,
    Visitor,
};

use super::jsonc::{JsonKey, JsonNode, JsonValue, SettingsFault, TextPosition};
use super::places::{SettingsPlaces, normalize_path};
use crate::source::{SettingsSource, SourceScope};

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingValue<T> {
    /// The value.
    pub value: T,
    /// The origin.
    pub source: SettingsSource,
}

/// The origin of a layer of settings.
#[derive(Debug, Clone)]
pub(crate) struct LayerPlace {
    pub(crate) scope: SourceScope,
    /// The file name for display; `None` for flags.
    pub(crate) shown: Option<Arc<Path>>,
    pub(crate) anchor: Arc<Path>,
}

impl LayerPlace {
    /// Returns the origin of a value in this layer.
    pub(crate) fn source(&self, at: TextPosition) -> SettingsSource {
        let line = self.shown.is_some().then_some(at.line);
        SettingsSource { scope: self.scope, file: self.shown.clone(), line, anchor: self.anchor.clone() }
    }
}

/// A key that its object doesn't support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownKey {
    pub(crate) at: TextPosition,
    pub(crate) key: String,
    /// The key of the object itself; `None` for the whole file.
    pub(crate) inside: Option<String>,
    /// The keys that the object supports.
    pub(crate) known: Rc<[&'static str]>,
}

/// The input of a read, and its findings besides the value.
#[derive(Default)]
pub(crate) struct ReadContext<'a> {
    pub(crate) layers: &'a [LayerPlace],
    pub(crate) places: Option<&'a SettingsPlaces>,
    pub(crate) unknown: RefCell<Vec<UnknownKey>>,
    /// Findings that are not errors.
    pub(crate) notes: RefCell<Vec<(TextPosition, String)>>,
    /// Errors after which reading continues, so that all of them are reported.
    pub(crate) faults: RefCell<Vec<SettingsFault>>,
}

/// A value in a tree, ready to be converted to a type.
#[derive(Clone, Copy)]
pub(crate) struct TreeReader<'a> {
    pub(crate) node: &'a JsonNode,
    /// The closest enclosing key.
    inside: Option<&'a str>,
    pub(crate) context: &'a ReadContext<'a>,
}

impl<'a> TreeReader<'a> {
    pub(crate) fn new(node: &'a JsonNode, context: &'a ReadContext<'a>) -> TreeReader<'a> {
        TreeReader { node, inside: None, context }
    }

    /// Returns a reader for a value below this one.
    pub(crate) fn at(self, node: &'a JsonNode, key: Option<&'a str>) -> TreeReader<'a> {
        TreeReader { node, inside: key.or(self.inside), context: self.context }
    }

    pub(crate) fn get(self, key: &'static str) -> Option<TreeReader<'a>> {
        Some(self.at(self.node.get(key)?, Some(key)))
    }

    /// Reads the value of a key, or returns the default if it is missing.
    pub(crate) fn field<T: FromTree + Default>(self, key: &'static str) -> Result<T, SettingsFault> {
        self.get(key).map_or_else(
            || Ok(T::default()),
            |reader| T::from_tree(reader).map_err(|fault| fault.inside(key)),
        )
    }

    pub(crate) fn read<T: FromTree>(self) -> Result<T, SettingsFault> {
        T::from_tree(self)
    }

    pub(crate) fn source(self) -> SettingsSource {
        let layer = self.context.layers.get(usize::from(self.node.layer));
        layer.map_or_else(|| SettingsSource::new(SourceScope::User, "/"), |layer| layer.source(self.node.at))
    }

    /// Returns an error that the value is not accepted.
    pub(crate) fn reject<T>(self, accepted: &str) -> Result<T, SettingsFault> {
        let fault = SettingsFault::custom(not_accepted(unexpected_value(self.node), &accepted));
        Err(self.with_place(fault))
    }

    /// Returns an error that an object lacks a key.
    pub(crate) fn missing<T>(self, key: &'static str) -> Result<T, SettingsFault> {
        Err(self.with_place(SettingsFault::missing_field(key)))
    }

    /// Records the unknown keys of an object.
    pub(crate) fn note_unknown(self, known: &[&'static str]) {
        let mut unknown = self.node.fields().iter().filter(|(key, _)| !known.contains(&key.name.as_str()));
        let Some(first) = unknown.next() else { return };
        let known: Rc<[&'static str]> = known.into();
        let note = |(key, _): &(JsonKey, JsonNode)| UnknownKey {
            at: key.at,
            key: key.name.clone(),
            inside: self.inside.map(str::to_owned),
            known: known.clone(),
        };
        self.context.unknown.borrow_mut().extend(std::iter::once(first).chain(unknown).map(note));
    }

    fn with_place(self, fault: SettingsFault) -> SettingsFault {
        SettingsFault { at: fault.at.or(Some(self.node.at)), ..fault }
    }
}

/// A type that is read from a tree and may keep locations.
pub(crate) trait FromTree: Sized {
    fn from_tree(reader: TreeReader<'_>) -> Result<Self, SettingsFault>;

    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

impl<T: FromTree> FromTree for SettingValue<T> {
    fn from_tree(reader: TreeReader<'_>) -> Result<SettingValue<T>, SettingsFault> {
        Ok(SettingValue { value: T::from_tree(reader)?, source: reader.source() })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        T::schema(generator)
    }
}

impl<T: FromTree> FromTree for Option<T> {
    fn from_tree(reader: TreeReader<'_>) -> Result<Option<T>, SettingsFault> {
        T::from_tree(reader).map(Some)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        T::schema(generator)
    }
}

impl<T: FromTree> FromTree for Vec<T> {
    fn from_tree(reader: TreeReader<'_>) -> Result<Vec<T>, SettingsFault> {
        let JsonValue::List(items) = &reader.node.json else { return reader.reject("a list") };
        let read = |node| T::from_tree(reader.at(node, None));
        let item = |(index, node)| read(node).map_err(|fault| fault.inside(format!("[{index}]")));
        items.iter().enumerate().map(item).collect()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "array", "items": T::schema(generator)})
    }
}

impl<T: FromTree> FromTree for BTreeMap<String, T> {
    fn from_tree(reader: TreeReader<'_>) -> Result<Self, SettingsFault> {
        let entry = |JsonKey { name, .. }: &JsonKey, node: &JsonNode| {
            let value =
                T::from_tree(reader.at(node, Some(name))).map_err(|fault| fault.inside(name.as_str()))?;
            Ok((name.clone(), value))
        };
        expect_object(reader.node)?.iter().map(|(key, node)| entry(key, node)).collect()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "additionalProperties": T::schema(generator)})
    }
}

/// A directory: `~` is the home directory, a relative path starts in the working directory.
impl FromTree for PathBuf {
    fn from_tree(reader: TreeReader<'_>) -> Result<PathBuf, SettingsFault> {
        let text = String::deserialize(reader)?;
        let Some(places) = reader.context.places else { return Ok(text.into()) };
        let in_home = text.strip_prefix("~/").or_else(|| (text == "~").then_some(""));
        Ok(match (in_home, &places.home) {
            (Some(rest), Some(home)) => normalize_path(home, Path::new(rest)),
            _ => normalize_path(&places.cwd, Path::new(&text)),
        })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<String>()
    }
}

/// Implements `FromTree` through serde. Such types keep no locations.
macro_rules! read_by_serde {
    ($($type:ty),* $(,)?) => {
        $(impl $crate::settings::de::FromTree for $type {
            fn from_tree(
                reader: $crate::settings::de::TreeReader<'_>,
            ) -> Result<$type, $crate::settings::jsonc::SettingsFault> {
                serde::Deserialize::deserialize(reader)
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                generator.subschema_for::<$type>()
            }
        })*
    };
}
pub(crate) use read_by_serde;

read_by_serde!(bool, u16, u64, f64, String, PermissionMode);

/// Reads a type from a value outside of the settings layers.
pub(crate) fn from_node<T: for<'de> Deserialize<'de>>(
    node: &JsonNode,
) -> Result<(T, Vec<UnknownKey>), SettingsFault> {
    let context = ReadContext::default();
    let value = T::deserialize(TreeReader::new(node, &context))?;
    Ok((value, context.unknown.into_inner()))
}

/// Returns the entries of an object.
///
/// # Errors
/// Returns a fault if the value is not an object.
pub(crate) fn expect_object(node: &JsonNode) -> Result<&[(JsonKey, JsonNode)], SettingsFault> {
    let at = Some(node.at);
    match &node.json {
        JsonValue::Object(fields) => Ok(fields),
        JsonValue::Null => Err(SettingsFault { at, ..null_fault() }),
        _ => Err(SettingsFault {
            at,
            ..SettingsFault::custom(not_accepted(unexpected_value(node), &"an object"))
        }),
    }
}

/// Returns the error for `null`. If `null` were accepted, emptying a key by accident would remove a list of
/// rules.
pub(crate) fn null_fault() -> SettingsFault {
    SettingsFault::custom("`null` is not accepted; leave the key out, or give it a value")
}

impl<'de> Deserializer<'de> for TreeReader<'_> {
    type Error = SettingsFault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsFault> {
        match &self.node.json {
            JsonValue::Null => visitor.visit_unit(),
            JsonValue::Bool(value) => visitor.visit_bool(*value),
            JsonValue::String(value) => visitor.visit_str(value),
            JsonValue::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            JsonValue::List(items) => {
                visitor.visit_seq(ItemAccess { reader: self, items: items.iter(), index: 0 })
            }
            JsonValue::Object(fields) => {
                visitor.visit_map(FieldAccess { reader: self, fields: fields.iter(), value: None })
            }
        }
        .map_err(|fault| self.with_place(fault))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsFault> {
        if let JsonValue::Null = self.node.json {
            return Err(self.with_place(null_fault()));
        }
        visitor.visit_some(self).map_err(|fault| self.with_place(fault))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, SettingsFault> {
        visitor.visit_newtype_struct(self).map_err(|fault| self.with_place(fault))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SettingsFault> {
        // A derived type would accept a list as its fields in order, which is never intended.
        if let JsonValue::List(_) = &self.node.json {
            return Err(self.with_place(SettingsFault::invalid_type(Unexpected::Seq, &visitor)));
        }
        self.note_unknown(known);
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SettingsFault> {
        let JsonValue::String(name) = &self.node.json else { return self.reject("a string") };
        let read = visitor.visit_enum(StrDeserializer::new(name));
        read.map_err(|fault| self.with_place(fault))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsFault> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier
    }
}

fn unexpected_value(node: &JsonNode) -> Unexpected<'_> {
    match &node.json {
        JsonValue::Null => Unexpected::Unit,
        JsonValue::Bool(value) => Unexpected::Bool(*value),
        JsonValue::Number(number) => Unexpected::Float(number.as_f64().unwrap_or(f64::NAN)),
        JsonValue::String(value) => Unexpected::Str(value),
        JsonValue::List(_) => Unexpected::Seq,
        JsonValue::Object(_) => Unexpected::Map,
    }
}

struct ItemAccess<'a> {
    reader: TreeReader<'a>,
    items: std::slice::Iter<'a, JsonNode>,
    index: usize,
}

impl<'de> SeqAccess<'de> for ItemAccess<'_> {
    type Error = SettingsFault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, SettingsFault> {
        let Some(node) = self.items.next() else { return Ok(None) };
        let index = self.index;
        self.index += 1;
        let value = seed.deserialize(self.reader.at(node, None));
        value.map(Some).map_err(|fault| fault.inside(format!("[{index}]")))
    }
}

struct FieldAccess<'a> {
    reader: TreeReader<'a>,
    fields: std::slice::Iter<'a, (JsonKey, JsonNode)>,
    value: Option<&'a (JsonKey, JsonNode)>,
}

impl<'de> MapAccess<'de> for FieldAccess<'_> {
    type Error = SettingsFault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, SettingsFault> {
        self.value = self.fields.next();
        let Some((key, _)) = self.value else { return Ok(None) };
        let name = seed.deserialize(StrDeserializer::<SettingsFault>::new(&key.name));
        name.map(Some).map_err(|fault| SettingsFault { at: fault.at.or(Some(key.at)), ..fault })
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, SettingsFault> {
        let (key, node) = self.value.expect("serde asks for a value after its key");
        let value = seed.deserialize(self.reader.at(node, Some(&key.name)));
        value.map_err(|fault| fault.inside(key.name.as_str()))
    }
}

/// The maximum number of characters shown of a rejected value.
const SHOWN_CHARS_MAX: usize = 60;

impl de::Error for SettingsFault {
    fn custom<T: fmt::Display>(message: T) -> SettingsFault {
        SettingsFault { at: None, path: Some(Vec::new()), message: message.to_string() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> SettingsFault {
        SettingsFault::custom(not_accepted(found, expected))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> SettingsFault {
        SettingsFault::invalid_type(found, expected)
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> SettingsFault {
        let known: Vec<_> = known.iter().map(|name| format!("\"{name}\"")).collect();
        SettingsFault::custom(not_accepted(
            Unexpected::Str(found),
            &format!("one of {}", known.join(", ")).as_str(),
        ))
    }

    fn missing_field(name: &'static str) -> SettingsFault {
        SettingsFault::custom(format!("the key `{name}` is missing"))
    }
}

fn not_accepted(found: Unexpected<'_>, accepted: &dyn Expected) -> String {
    // serde's names for its own types are those of a programmer.
    let accepted = match accepted.to_string().as_str() {
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "f64" => "a number".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 on".to_owned(),
        other => other.to_owned(),
    };
    format!("{} is not accepted; {accepted} is", show_unexpected(found))
}

fn show_unexpected(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => format!("`{value}`"),
        Unexpected::Unsigned(value) => format!("the number {value}"),
        Unexpected::Signed(value) => format!("the number {value}"),
        Unexpected::Float(value) => format!("the number {value}"),
        Unexpected::Str(text) => {
            let cut = truncate_chars(text, SHOWN_CHARS_MAX);
            let more = if cut.len() < text.len() { "…" } else { "" };
            format!("the string {cut:?}{more}")
        }
        Unexpected::Unit | Unexpected::Option => "`null`".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "an object".to_owned(),
        other => other.to_string(),
    }
}

impl fmt::Display for SettingsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut path = String::new();
        for key in self.path.iter().flatten() {
            if !key.starts_with('[') && !path.is_empty() {
                path.push('.');
            }
            path.push_str(key);
        }
        if path.is_empty() { f.write_str(&self.message) } else { write!(f, "`{path}`: {}", self.message) }
    }
}

impl std::error::Error for SettingsFault {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::jsonc::parse_jsonc;

    #[derive(Debug, Default, serde::Deserialize)]
    #[serde(default, expecting = "an object")]
    struct Sample {
        list: Vec<String>,
        flag: Option<bool>,
        table: BTreeMap<String, Vec<f64>>,
        inner: Option<Box<Sample>>,
    }

    fn read(text: &str) -> Result<(Sample, Vec<UnknownKey>), String> {
        from_node(&parse_jsonc(text).unwrap()).map_err(|fault| {
            let at = fault.at.unwrap();
            format!("{}:{} {fault}", at.line, at.column)
        })
    }

    #[test]
    fn values_keep_their_lines_and_unknown_keys_are_noted() {
        let node = parse_jsonc("{\"list\": [\"a\",\n\"b\"]}").unwrap();
        let layers = [LayerPlace {
            scope: SourceScope::User,
            shown: Some(Path::new("f").into()),
            anchor: Path::new("/").into(),
        }];
        let context = ReadContext { layers: &layers, ..ReadContext::default() };
        let list: Vec<SettingValue<String>> = TreeReader::new(&node, &context).field("list").unwrap();
        let lines: Vec<_> = list.iter().map(|item| item.source.to_string()).collect();
        assert_eq!(lines, ["f:1", "f:2"]);
        let (sample, unknown) = read("{\"inner\": {\n\"flog\": true}}").unwrap();
        assert!(sample.inner.is_some());
        let [unknown] = &unknown[..] else { panic!("{unknown:?}") };
        assert_eq!(
            (unknown.key.as_str(), unknown.inside.as_deref(), unknown.at.line),
            ("flog", Some("inner"), 2)
        );
    }

    #[test]
    fn wrong_types_are_reported_with_path_and_place() {
        let check = |text: &str, expected: &str| assert_eq!(read(text).unwrap_err(), expected);
        check("[]", "1:1 a list is not accepted; an object is");
        check("{\"list\":\n \"a\"}", "2:2 `list`: the string \"a\" is not accepted; a list is");
        check("{\"list\": [\"a\", 2]}", "1:16 `list[1]`: the number 2 is not accepted; a string is");
        check("{\"flag\": \"yes\"}", "1:10 `flag`: the string \"yes\" is not accepted; `true` or `false` is");
        check(
            "{\"inner\": {\"table\": {\"x\": [{}]}}}",
            "1:28 `inner.table.x[0]`: an object is not accepted; a number is",
        );
    }
}
