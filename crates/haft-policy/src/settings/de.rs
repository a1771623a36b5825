//! From values with places to types: a serde deserializer that says where a value stands and which keys nobody asked
//! for.
//!
//! Types that want to know their place are wrapped in [`Spanned`]. Keys that a struct doesn't have are not an error
//! but are noted, with the names that the struct does have, so that a person can be told the closest one.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use haft::text::truncate_chars;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::{StrDeserializer, U32Deserializer};
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, IntoDeserializer,
    MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};

use super::jsonc::{Fault, Json, Key, Node, Spot};

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) at: Spot,
}

/// An object whose keys are free: an ordered map that keeps the places of its keys.
#[derive(Debug, Clone)]
pub(crate) struct Table<T>(pub(crate) Vec<(Spanned<String>, T)>);

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table(Vec::new())
    }
}

/// A key that the struct around it doesn't have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) at: Spot,
    pub(crate) key: String,
    /// The key that the struct itself is the value of; none for the whole file.
    pub(crate) inside: Option<String>,
    /// The keys that the struct has.
    pub(crate) known: &'static [&'static str],
}

/// Reads a type from a value.
pub(crate) fn from_node<T: for<'de> Deserialize<'de>>(node: &Node) -> Result<(T, Vec<Unknown>), Fault> {
    let unknown = RefCell::new(Vec::new());
    let value = T::deserialize(Reader { node, inside: None, unknown: &unknown })?;
    Ok((value, unknown.into_inner()))
}

/// The keys that an object of this type has, as its reader asks for them; none of them may be needed.
pub(crate) fn keys_of<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let strange = super::jsonc::parse(r#"{"": true}"#).and_then(|node| from_node::<T>(&node));
    strange.ok().and_then(|(_, unknown)| unknown.first().map(|unknown| unknown.known)).unwrap_or_default()
}

/// The name by which [`Spanned`] asks for its place.
const SPANNED: &str = "$haft::Spanned";

#[derive(Clone, Copy)]
struct Reader<'a> {
    node: &'a Node,
    inside: Option<&'a str>,
    unknown: &'a RefCell<Vec<Unknown>>,
}

impl<'a> Reader<'a> {
    fn at(self, fault: Fault) -> Fault {
        Fault { at: fault.at.or(Some(self.node.at)), ..fault }
    }

    fn any<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.json {
            Json::Null => visitor.visit_unit(),
            Json::Bool(value) => visitor.visit_bool(*value),
            Json::String(value) => visitor.visit_str(value),
            Json::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::List(items) => visitor.visit_seq(Items { reader: self, items: items.iter(), index: 0 }),
            Json::Object(fields) => {
                visitor.visit_map(Fields { reader: self, fields: fields.iter(), value: None })
            }
        }
        .map_err(|fault| self.at(fault))
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        // A key that was emptied by hand or by a program would else be a list of rules that is gone.
        if let Json::Null = self.node.json {
            return Err(
                self.at(Fault::custom("`null` is not accepted; leave the key out, or give it a value"))
            );
        }
        visitor.visit_some(self).map_err(|fault| self.at(fault))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let read = match name {
            SPANNED => visitor.visit_seq(Place { at: self.node.at, given: 0, value: Some(self) }),
            _ => visitor.visit_newtype_struct(self),
        };
        read.map_err(|fault| self.at(fault))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        // A derived type would take a list as its fields in order, which nobody means.
        if let Json::List(_) = &self.node.json {
            return Err(self.at(Fault::invalid_type(Unexpected::Seq, &visitor)));
        }
        if let Json::Object(fields) = &self.node.json {
            let inside = self.inside.map(str::to_owned);
            let strange = fields.iter().filter(|(key, _)| !known.contains(&key.name.as_str()));
            self.unknown.borrow_mut().extend(strange.map(|(key, _)| Unknown {
                at: key.at,
                key: key.name.clone(),
                inside: inside.clone(),
                known,
            }));
        }
        self.any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let Json::String(name) = &self.node.json else {
            return Err(self.at(Fault::invalid_type(unexpected(self.node), &"a string")));
        };
        visitor.visit_enum(Name(name)).map_err(|fault| self.at(fault))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier
    }
}

fn unexpected(node: &Node) -> Unexpected<'_> {
    match &node.json {
        Json::Null => Unexpected::Unit,
        Json::Bool(value) => Unexpected::Bool(*value),
        Json::Number(number) => Unexpected::Float(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(value) => Unexpected::Str(value),
        Json::List(_) => Unexpected::Seq,
        Json::Object(_) => Unexpected::Map,
    }
}

struct Items<'a> {
    reader: Reader<'a>,
    items: std::slice::Iter<'a, Node>,
    index: usize,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(node) = self.items.next() else { return Ok(None) };
        let index = self.index;
        self.index += 1;
        let value = seed.deserialize(Reader { node, ..self.reader });
        value.map(Some).map_err(|fault| inside(fault, format!("[{index}]")))
    }
}

struct Fields<'a> {
    reader: Reader<'a>,
    fields: std::slice::Iter<'a, (Key, Node)>,
    value: Option<&'a (Key, Node)>,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        self.value = self.fields.next();
        let Some((key, _)) = self.value else { return Ok(None) };
        seed.deserialize(KeyReader(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let (key, node) = self.value.expect("serde asks for a value after its key");
        let reader = Reader { node, inside: Some(&key.name), unknown: self.reader.unknown };
        seed.deserialize(reader).map_err(|fault| inside(fault, key.name.clone()))
    }
}

fn inside(mut fault: Fault, key: String) -> Fault {
    fault.path.insert(0, key);
    fault
}

#[derive(Clone, Copy)]
struct KeyReader<'a>(&'a Key);

impl<'de> Deserializer<'de> for KeyReader<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor
            .visit_str(&self.0.name)
            .map_err(|fault: Fault| Fault { at: fault.at.or(Some(self.0.at)), ..fault })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match name {
            SPANNED => visitor.visit_seq(Place { at: self.0.at, given: 0, value: Some(self) }),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Hands out line, column and value of a [`Spanned`], in this order.
struct Place<D> {
    at: Spot,
    given: u8,
    value: Option<D>,
}

impl<'de, D: Deserializer<'de, Error = Fault>> SeqAccess<'de> for Place<D> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        self.given += 1;
        let number = |n: u32| -> U32Deserializer<Fault> { n.into_deserializer() };
        match (self.given, self.value.take()) {
            (1, value) => {
                self.value = value;
                seed.deserialize(number(self.at.line)).map(Some)
            }
            (2, value) => {
                self.value = value;
                seed.deserialize(number(self.at.column)).map(Some)
            }
            (_, Some(value)) => seed.deserialize(value).map(Some),
            (_, None) => Ok(None),
        }
    }
}

struct Name<'a>(&'a str);

impl<'de> EnumAccess<'de> for Name<'_> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        Ok((seed.deserialize(StrDeserializer::new(self.0))?, self))
    }
}

impl<'de> VariantAccess<'de> for Name<'_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, Fault> {
        Err(Fault::custom("a plain word is accepted"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Fault> {
        Err(Fault::custom("a plain word is accepted"))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Fault> {
        Err(Fault::custom("a plain word is accepted"))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spanned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Spanned<T>, D::Error> {
        struct Visit<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Visit<T> {
            type Value = Spanned<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value with its place")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Spanned<T>, A::Error> {
                let missing = || A::Error::custom("only settings files have places");
                let line = parts.next_element()?.ok_or_else(missing)?;
                let column = parts.next_element()?.ok_or_else(missing)?;
                let value = parts.next_element()?.ok_or_else(missing)?;
                Ok(Spanned { value, at: Spot { line, column } })
            }
        }
        deserializer.deserialize_newtype_struct(SPANNED, Visit(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Spanned<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> std::borrow::Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Table<T>, D::Error> {
        struct Visit<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Visit<T> {
            type Value = Table<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<Spanned<String>>()? {
                    entries.push((key, map.next_value()?));
                }
                Ok(Table(entries))
            }
        }
        deserializer.deserialize_map(Visit(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Table<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("TableOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        std::collections::BTreeMap::<String, T>::json_schema(generator)
    }
}

/// How much of a value that isn't accepted is shown.
const SHOWN_CHARS_MAX: usize = 60;

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Fault {
        Fault { at: None, path: Vec::new(), message: message.to_string() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Fault {
        Fault::custom(format!("{} is not accepted; {} is", show(found), accepted(expected)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Fault {
        Fault::invalid_type(found, expected)
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> Fault {
        let known: Vec<_> = known.iter().map(|name| format!("\"{name}\"")).collect();
        let accepted = known.join(", ");
        Fault::custom(format!("{} is not accepted; one of {accepted} is", show(Unexpected::Str(found))))
    }

    fn missing_field(name: &'static str) -> Fault {
        Fault::custom(format!("the key `{name}` is missing"))
    }
}

fn show(found: Unexpected<'_>) -> String {
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

/// The words of serde for its own types are those of a programmer.
fn accepted(expected: &dyn Expected) -> String {
    match expected.to_string().as_str() {
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "f64" => "a number".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 on".to_owned(),
        other => other.to_owned(),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut path = String::new();
        for key in &self.path {
            if !key.starts_with('[') && !path.is_empty() {
                path.push('.');
            }
            path.push_str(key);
        }
        if path.is_empty() { f.write_str(&self.message) } else { write!(f, "`{path}`: {}", self.message) }
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::jsonc::parse;

    #[derive(Debug, Default, serde::Deserialize)]
    #[serde(default, expecting = "an object")]
    struct Sample {
        list: Vec<Spanned<String>>,
        flag: Option<bool>,
        table: Table<Vec<f64>>,
        inner: Option<Box<Sample>>,
    }

    fn read(text: &str) -> Result<(Sample, Vec<Unknown>), String> {
        from_node(&parse(text).unwrap()).map_err(|fault| {
            let at = fault.at.unwrap();
            format!("{}:{} {fault}", at.line, at.column)
        })
    }

    #[test]
    fn values_know_their_lines_and_strange_keys_are_noted() {
        let (sample, unknown) =
            read("{\"list\": [\"a\",\n\"b\"],\n\"table\": {\"x\":\n[1]}, \"inner\": {\n\"flog\": true}}")
                .unwrap();
        assert_eq!(sample.list.iter().map(|item| item.at.line).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((sample.table.0[0].0.value.as_str(), sample.table.0[0].0.at.line), ("x", 3));
        assert!(sample.inner.is_some());
        let [unknown] = &unknown[..] else { panic!("{unknown:?}") };
        assert_eq!(
            (unknown.key.as_str(), unknown.inside.as_deref(), unknown.at.line),
            ("flog", Some("inner"), 5)
        );
    }

    #[test]
    fn wrong_types_are_told_with_path_and_place() {
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
