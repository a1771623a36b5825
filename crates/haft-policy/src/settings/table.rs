//! The table of settings: one row for each key, with its type, its documentation, the files that may set
//! it, its merge rule, and the values that loosen.
//!
//! Checking a file, merging, trust items, `haft settings show`, the JSON Schema and the documentation all
//! use this table. A row is declared once, with the macro `settings_section`, together with the field that
//! the program reads.

use std::sync::LazyLock;

use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use super::Settings;
use super::de::{FromTree, ReadContext, TreeReader, expect_object, null_fault};
use super::jsonc::{JsonNode, JsonValue, SettingsFault};
use crate::trust::TrustItemKind;

/// The files that may set a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingAuthority {
    /// Every file.
    Anyone,
    /// A workspace's files once the workspace is trusted. Before that, only values that don't loosen.
    Trusted,
    /// A workspace's files only if the value doesn't loosen, even if the workspace is trusted.
    Tightening,
    /// No file of a workspace.
    Own,
    /// No file of a workspace for this purpose. The workspace may set the key for another purpose, so there
    /// is no warning.
    OwnSilently,
    /// Only managed settings.
    Managed,
}

/// How the values of several layers are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MergeRule {
    /// The strongest layer's value.
    Strongest,
    /// Lists are concatenated, the strongest layer's items first.
    Concat,
    /// Lists of hook groups are concatenated, the weakest layer's first; equal handlers run once.
    Hooks,
    /// Set once any layer sets it; no layer reverts it.
    Any,
    /// Checked and then ignored: it applies to other systems only.
    Ignored,
}

/// Returns whether a value is looser than the previous one.
type IsLooser = fn(&JsonNode, Option<&JsonNode>) -> bool;

/// Returns why a name with its value is left out, as an error. The last argument says whether a workspace's
/// file sets it.
type CheckName = fn(&str, &JsonNode, bool) -> Result<(), String>;

/// How a setting is merged and protected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SettingRule {
    pub(crate) authority: SettingAuthority,
    pub(crate) merge: MergeRule,
    /// The number of name levels between the key and the merged value.
    pub(crate) names: u8,
    /// Which values loosen; `None` means all.
    pub(crate) loosens: Option<IsLooser>,
    /// The kind of trust item if a workspace sets it.
    pub(crate) trust: Option<TrustItemKind>,
    /// The managed key that drops all values but managed ones.
    pub(crate) managed_by: Option<&'static str>,
    /// Whether the value is hidden when settings are displayed.
    pub(crate) is_secret: bool,
    /// The range of a number.
    bounds: Option<(u64, Option<u64>)>,
    /// Reads and checks the value instead of only reading its type.
    check: Option<fn(TreeReader<'_>) -> Result<(), SettingsFault>>,
    pub(crate) check_name: Option<CheckName>,
}

impl SettingRule {
    const fn new(authority: SettingAuthority) -> SettingRule {
        SettingRule {
            authority,
            merge: MergeRule::Strongest,
            names: 0,
            loosens: None,
            trust: None,
            managed_by: None,
            is_secret: false,
            bounds: None,
            check: None,
            check_name: None,
        }
    }

    pub(crate) const fn concat(self) -> SettingRule {
        SettingRule { merge: MergeRule::Concat, ..self }
    }

    pub(crate) const fn merged(self, merge: MergeRule) -> SettingRule {
        SettingRule { merge, ..self }
    }

    /// Merges by name, below the given number of name levels.
    pub(crate) const fn by_name(self, names: u8) -> SettingRule {
        SettingRule { names, ..self }
    }

    pub(crate) const fn loosens(self, loosens: IsLooser) -> SettingRule {
        SettingRule { loosens: Some(loosens), ..self }
    }

    pub(crate) const fn managed_by(self, key: &'static str) -> SettingRule {
        SettingRule { managed_by: Some(key), ..self }
    }

    pub(crate) const fn secret(self) -> SettingRule {
        SettingRule { is_secret: true, ..self }
    }

    pub(crate) const fn at_least(self, min: u64) -> SettingRule {
        SettingRule { bounds: Some((min, None)), ..self }
    }

    pub(crate) const fn between(self, min: u64, max: u64) -> SettingRule {
        SettingRule { bounds: Some((min, Some(max))), ..self }
    }

    pub(crate) const fn check(self, check: fn(TreeReader<'_>) -> Result<(), SettingsFault>) -> SettingRule {
        SettingRule { check: Some(check), ..self }
    }

    pub(crate) const fn check_name(self, check: CheckName) -> SettingRule {
        SettingRule { check_name: Some(check), ..self }
    }

    /// Returns an error if a number is out of range.
    fn check_bounds(&self, node: &JsonNode, key: &str) -> Result<(), SettingsFault> {
        let (Some((min, max)), JsonValue::Number(number)) = (self.bounds, &node.json) else { return Ok(()) };
        let value = number.as_f64().unwrap_or(f64::NAN);
        // The limits are small enough to be exact.
        let (low, high) = (min as f64, max.map_or(f64::INFINITY, |max| max as f64));
        if (low..=high).contains(&value) {
            return Ok(());
        }
        let accepted = match max {
            None => format!("at least {min}"),
            Some(max) if min == 0 => format!("at most {max}"),
            Some(max) => format!("between {min} and {max}"),
        };
        Err(SettingsFault::new(node.at, format!("`{key}` is {accepted}")))
    }
}

/// Every file may set it.
pub(crate) const fn anyone() -> SettingRule {
    SettingRule::new(SettingAuthority::Anyone)
}

/// The value loosens: a workspace's file may set it once the workspace is trusted. Trust shows it as an
/// item of this kind.
pub(crate) const fn trusted(kind: TrustItemKind) -> SettingRule {
    SettingRule { trust: Some(kind), ..SettingRule::new(SettingAuthority::Trusted) }
}

/// A workspace's file may only tighten it.
pub(crate) const fn tightening(loosens: IsLooser) -> SettingRule {
    SettingRule::new(SettingAuthority::Tightening).loosens(loosens)
}

/// A workspace's file may not set it.
pub(crate) const fn own() -> SettingRule {
    SettingRule::new(SettingAuthority::Own)
}

/// A workspace's file sets it only for the workspace: it is left out without a warning.
pub(crate) const fn own_silently() -> SettingRule {
    SettingRule::new(SettingAuthority::OwnSilently)
}

/// Only managed settings may set it.
pub(crate) const fn managed() -> SettingRule {
    SettingRule::new(SettingAuthority::Managed).merged(MergeRule::Any)
}

/// The value is checked and ignored.
pub(crate) const fn ignored() -> SettingRule {
    SettingRule::new(SettingAuthority::Anyone).merged(MergeRule::Ignored)
}

/// `true` loosens.
pub(crate) fn true_loosens(node: &JsonNode, _: Option<&JsonNode>) -> bool {
    node.is_true()
}

/// `false` loosens.
pub(crate) fn false_loosens(node: &JsonNode, _: Option<&JsonNode>) -> bool {
    !node.is_true()
}

/// One setting.
#[derive(Debug, Clone)]
pub(crate) struct SettingSpec {
    pub(crate) docs: &'static str,
    pub(crate) rule: SettingRule,
    read: fn(TreeReader<'_>) -> Result<(), SettingsFault>,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

impl SettingSpec {
    pub(crate) fn new<T: FromTree>(docs: &'static str, rule: SettingRule) -> SettingSpec {
        SettingSpec {
            docs: docs.trim(),
            rule,
            read: |reader| T::from_tree(reader).map(drop),
            schema: T::schema,
        }
    }

    pub(crate) fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        let mut schema = (self.schema)(generator);
        if let Some((min, max)) = self.rule.bounds {
            schema.insert("minimum".to_owned(), min.into());
            max.map(|max| schema.insert("maximum".to_owned(), max.into()));
        }
        schema.insert("description".to_owned(), self.docs.into());
        schema
    }

    fn check(&self, reader: TreeReader<'_>, key: &str) -> Result<(), SettingsFault> {
        if let JsonValue::Null = reader.node.json {
            return Err(SettingsFault { at: Some(reader.node.at), ..null_fault() });
        }
        // A custom check reads the type, too.
        self.rule.check.unwrap_or(self.read)(reader)?;
        self.rule.check_bounds(reader.node, key)
    }
}

/// An object of settings.
#[derive(Debug, Clone)]
pub(crate) struct SectionSpec {
    pub(crate) docs: &'static str,
    /// Why no file of a workspace may have this object, if none may.
    pub(crate) own: Option<&'static str>,
    pub(crate) entries: Vec<(&'static str, TableEntry)>,
}

/// The entry of a key.
#[derive(Debug, Clone)]
pub(crate) enum TableEntry {
    Setting(SettingSpec),
    Section(SectionSpec),
}

/// A part of the typed settings whose fields are rows of the table.
pub(crate) trait SettingsSection: Sized + Default {
    const DOCS: &'static str;
    const OWN: Option<&'static str>;

    fn read(reader: TreeReader<'_>) -> Result<Self, SettingsFault>;

    fn describe(section: &mut SectionSpec);
}

impl SectionSpec {
    /// Returns the table of all settings.
    pub(crate) fn standard() -> &'static SectionSpec {
        static TABLE: LazyLock<SectionSpec> = LazyLock::new(SectionSpec::for_type::<Settings>);
        &TABLE
    }

    fn for_type<T: SettingsSection>() -> SectionSpec {
        let mut section = SectionSpec { docs: T::DOCS.trim(), own: T::OWN, entries: Vec::new() };
        T::describe(&mut section);
        section
    }

    pub(crate) fn add<T: FromTree>(&mut self, key: &'static str, docs: &'static str, rule: SettingRule) {
        self.entries.push((key, TableEntry::Setting(SettingSpec::new::<T>(docs, rule))));
    }

    /// Adds an object. If the key is empty, its entries are added to this object.
    pub(crate) fn add_section<T: SettingsSection>(&mut self, key: &'static str) {
        match key {
            "" => T::describe(self),
            key => self.entries.push((key, TableEntry::Section(SectionSpec::for_type::<T>()))),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&TableEntry> {
        self.entries.iter().find(|(known, _)| *known == key).map(|(_, entry)| entry)
    }

    pub(crate) fn keys(&self) -> Vec<&'static str> {
        self.entries.iter().map(|(key, _)| *key).collect()
    }

    /// Checks an object of a file, whether or not its values apply in the end.
    pub(crate) fn check(&self, reader: TreeReader<'_>) -> Result<(), SettingsFault> {
        let fields = expect_object(reader.node)?;
        reader.note_unknown(&self.keys());
        for (key, node) in fields {
            let value = reader.at(node, Some(&key.name));
            let checked = match self.get(&key.name) {
                Some(TableEntry::Setting(setting)) => setting.check(value, &key.name),
                Some(TableEntry::Section(section)) => section.check(value),
                None => Ok(()),
            };
            checked.map_err(|fault| fault.inside(key.name.as_str()))?;
        }
        Ok(())
    }

    /// Returns every setting with its full key, in the order of the table.
    pub(crate) fn settings(&self) -> Vec<(String, &SettingSpec)> {
        let mut all = Vec::new();
        self.collect("", &mut all);
        all
    }

    fn collect<'a>(&'a self, prefix: &str, all: &mut Vec<(String, &'a SettingSpec)>) {
        for (key, entry) in &self.entries {
            let key = join_key(prefix, key);
            match entry {
                TableEntry::Setting(setting) => all.push((key, setting)),
                TableEntry::Section(section) => section.collect(&key, all),
            }
        }
    }
}

/// Joins a key with its enclosing keys.
pub(crate) fn join_key(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// Returns the value of a full key in a tree.
pub(crate) fn find_value<'a>(root: &'a JsonNode, key: &str) -> Option<&'a JsonNode> {
    key.split('.').try_fold(root, |node, key| node.get(key))
}

/// A value that needs trust if a workspace sets it.
pub(crate) struct LooseningSetting<'a> {
    pub(crate) kind: TrustItemKind,
    /// The full key.
    pub(crate) key: &'a str,
    /// The name, if the setting is a table of names.
    pub(crate) name: Option<&'a str>,
    pub(crate) node: &'a JsonNode,
}

/// Calls `found` for each value of a tree that needs trust.
pub(crate) fn each_loosening(
    table: &SectionSpec,
    root: &JsonNode,
    mut found: impl FnMut(&LooseningSetting<'_>),
) {
    for (key, setting) in table.settings() {
        let (Some(kind), Some(node)) = (setting.rule.trust, find_value(root, &key)) else { continue };
        let mut add = |name, node| found(&LooseningSetting { kind, key: &key, name, node });
        match (setting.rule.names, setting.rule.merge) {
            (0, MergeRule::Concat) => node.items().iter().for_each(|item| add(None, item)),
            (0, _) if setting.rule.loosens.is_some_and(|loosens| !loosens(node, None)) => {}
            (0, _) => add(None, node),
            _ => node.fields().iter().for_each(|(name, node)| add(Some(name.name.as_str()), node)),
        }
    }
}

/// An effective value.
#[derive(Debug, Clone)]
pub struct SettingEntry {
    /// The full key, with names: `env.PATH`.
    pub key: String,
    /// The value as written; `"(hidden)"` for a secret.
    pub value: Value,
    /// The origin.
    pub source: crate::source::SettingsSource,
}

/// Collects the values of one setting in a merged tree: one for each list item and for each hook handler.
fn collect_entries(
    setting: &SettingSpec,
    key: &str,
    reader: TreeReader<'_>,
    names: u8,
    all: &mut Vec<SettingEntry>,
) {
    let rule = &setting.rule;
    if names > 0 {
        for (name, node) in reader.node.fields() {
            collect_entries(setting, &join_key(key, &name.name), reader.at(node, None), names - 1, all);
        }
        return;
    }
    let mut add = |node: &JsonNode, matcher: Option<&JsonNode>| {
        let mut value = if rule.is_secret { "(hidden)".into() } else { node.to_value() };
        if let Some(matcher) = matcher {
            value["matcher"] = matcher.to_value();
        }
        all.push(SettingEntry { key: key.to_owned(), value, source: reader.at(node, None).source() });
    };
    match rule.merge {
        MergeRule::Concat => reader.node.items().iter().for_each(|item| add(item, None)),
        MergeRule::Hooks => {
            for group in reader.node.items() {
                let handlers = group.get("hooks").map(JsonNode::items).unwrap_or_default();
                handlers.iter().for_each(|handler| add(handler, group.get("matcher")));
            }
        }
        _ => add(reader.node, None),
    }
}

/// The merged settings as a tree, with the table by which they were merged.
#[derive(Debug, Clone)]
pub struct SettingsTree {
    pub(crate) table: &'static SectionSpec,
    pub(crate) root: JsonNode,
    pub(crate) layers: std::sync::Arc<[super::de::LayerPlace]>,
}

impl Default for SettingsTree {
    fn default() -> SettingsTree {
        let layers = std::sync::Arc::new([]);
        SettingsTree { table: SectionSpec::standard(), root: JsonNode::default(), layers }
    }
}

impl SettingsTree {
    /// Returns the keys of all settings in the order of the documentation, each with its effective values.
    pub fn entries(&self) -> Vec<(String, Vec<SettingEntry>)> {
        let context = ReadContext { layers: &self.layers, ..ReadContext::default() };
        let each = self.table.settings().into_iter().map(|(key, setting)| {
            let mut all = Vec::new();
            if let Some(node) = find_value(&self.root, &key) {
                collect_entries(setting, &key, TreeReader::new(node, &context), setting.rule.names, &mut all);
            }
            (key, all)
        });
        each.collect()
    }
}

/// Declares a part of the settings: its fields are rows of the table.
///
/// `settings` are keys with a rule, `sections` are objects of keys (with an empty key: the same object),
/// `ignored` are keys without a field that are only checked, `derived` are fields computed from the others.
macro_rules! settings_section {
    (
        $(#[doc = $docs:expr])*
        $(own $own:literal)?
        pub struct $name:ident {
            $(
                settings {
                    $($(#[doc = $setting_docs:expr])* $setting_vis:vis $setting:ident: $type:ty = $key:literal, $rule:expr;)*
                }
                $(sections {
                    $($(#[doc = $section_docs:expr])* $section:ident: $section_type:ty = $section_key:literal;)*
                })?
            )+
            $(ignored { $($(#[doc = $ignored_docs:expr])* $ignored_key:literal: $ignored_type:ty;)* })?
            $(derived { $($(#[doc = $derived_docs:expr])* $derived:ident: $derived_type:ty;)* })?
        }
    ) => {
        $(#[doc = $docs])*
        #[derive(Debug, Clone, Default)]
        pub struct $name {
            $(
                $($(#[doc = $setting_docs])* $setting_vis $setting: $type,)*
                $($($(#[doc = $section_docs])* pub $section: $section_type,)*)?
            )+
            $($($(#[doc = $derived_docs])* pub $derived: $derived_type,)*)?
        }

        impl $crate::settings::table::SettingsSection for $name {
            const DOCS: &'static str = concat!($($docs),*);
            const OWN: Option<&'static str> = $crate::settings::table::first_name(&[$($own)?]);

            fn read(
                reader: $crate::settings::de::TreeReader<'_>,
            ) -> Result<$name, $crate::settings::jsonc::SettingsFault> {
                Ok($name {
                    $(
                        $($setting: reader.field($key)?,)*
                        $($($section: $crate::settings::table::read_section(reader, $section_key)?,)*)?
                    )+
                    $($($derived: Default::default(),)*)?
                })
            }

            fn describe(section: &mut $crate::settings::table::SectionSpec) {
                $(
                    $(section.add::<$type>($key, concat!($($setting_docs),*), $rule);)*
                    $($(section.add_section::<$section_type>($section_key);)*)?
                )+
                $($(section.add::<$ignored_type>($ignored_key, concat!($($ignored_docs),*), $crate::settings::table::ignored());)*)?
            }
        }
    };
}
pub(crate) use settings_section;

pub(crate) const fn first_name(all: &[&'static str]) -> Option<&'static str> {
    match all {
        [first, ..] => Some(first),
        [] => None,
    }
}

/// Reads an object of settings. If the key is empty, its keys are in the enclosing object.
pub(crate) fn read_section<T: SettingsSection>(
    reader: TreeReader<'_>,
    key: &'static str,
) -> Result<T, SettingsFault> {
    match key {
        "" => T::read(reader),
        key => reader.get(key).map_or_else(|| Ok(T::default()), T::read),
    }
}
