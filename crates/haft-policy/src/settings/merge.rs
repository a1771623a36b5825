//! Merges all layers into one tree of settings.
//!
//! The files of a workspace are treated differently, because they came with the files that an agent works
//! on. What they tighten always applies. What they loosen or run applies once the workspace is trusted.
//! Endpoints, keys, the program path and a looser mode never apply. The table has the rules for each key.

use super::Settings;
use super::de::{LayerPlace, ReadContext, TreeReader};
use super::hook::{DISABLE, MANAGED_HOOKS, is_event};
use super::jsonc::{JsonKey, JsonNode, JsonValue, NO_SPOT, TextPosition};
use super::layer::{SettingsLayer, SettingsLayers, SettingsWarning, limit_warnings};
use super::table::{
    MergeRule, SectionSpec, SettingAuthority, SettingRule, SettingsSection, SettingsTree, TableEntry,
    find_value,
};
use crate::source::SourceScope;

/// Whether a workspace's files may run and loosen things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustStatus {
    /// The user reviewed the workspace and approved it.
    Trusted,
    /// The workspace's files may only tighten.
    Untrusted,
}

impl SettingsLayers {
    /// Merges the layers into typed settings.
    pub fn merge(&self, standing: TrustStatus) -> Settings {
        let mut merge = TreeMerge { layers: &self.layers, standing, warnings: Vec::new() };
        let given = self.layers.iter().map(|layer| (layer, &layer.root)).collect();
        let root = JsonNode {
            json: JsonValue::Object(merge.merge_section(self.table, "", given)),
            ..JsonNode::default()
        };
        let mut warnings = merge.warnings;
        let layers: Vec<LayerPlace> = self.layers.iter().map(|layer| layer.place.clone()).collect();
        let context = ReadContext { layers: &layers, places: Some(&self.places), ..ReadContext::default() };
        let read = Settings::read(TreeReader::new(&root, &context));
        let mut settings = read.expect("each layer was checked with the types of the table");
        settings.tree = SettingsTree { table: self.table, root, layers: layers.into() };
        settings.hooks.groups = std::mem::take(&mut settings.hooks.by_event.0);
        settings.serve.complete();
        settings.mcp.complete(self, standing);
        let warning = settings.permissions.complete(self);
        warnings.extend(warning.map(|(source, message)| SettingsWarning { source, message }));
        settings.warnings = self.warnings.iter().cloned().chain(warnings).collect();
        limit_warnings(&mut settings.warnings);
        settings
    }
}

/// The values of one key, the strongest layer's first.
type LayerValues<'a> = Vec<(&'a SettingsLayer, &'a JsonNode)>;

struct TreeMerge<'a> {
    layers: &'a [SettingsLayer],
    standing: TrustStatus,
    warnings: Vec<SettingsWarning>,
}

impl<'a> TreeMerge<'a> {
    fn warn(&mut self, layer: &SettingsLayer, at: TextPosition, message: String) {
        self.warnings.push(SettingsWarning { source: layer.source(at), message });
    }

    fn merge_section(
        &mut self,
        section: &SectionSpec,
        path: &str,
        mut given: LayerValues<'a>,
    ) -> Vec<(JsonKey, JsonNode)> {
        if let Some(reason) = section.own {
            let message = format!("`{path}` counts in your own settings only: {reason}");
            given.retain(|(layer, node)| {
                if layer.is_workspaces() {
                    self.warn(layer, node.at, message.clone());
                }
                !layer.is_workspaces()
            });
        }
        let mut fields = Vec::new();
        for (key, entry) in &section.entries {
            let given: LayerValues<'a> =
                given.iter().filter_map(|(layer, node)| Some((*layer, node.get(key)?))).collect();
            if given.is_empty() {
                continue;
            }
            let path = super::table::join_key(path, key);
            let merged = match entry {
                TableEntry::Section(section) => Some(object_node(self.merge_section(section, &path, given))),
                TableEntry::Setting(setting) => self.merge_setting(&setting.rule, &path, given),
            };
            fields.extend(merged.map(|node| (plain_key(key), node)));
        }
        fields
    }

    /// Merges the values of one setting, if any of them applies.
    fn merge_setting(
        &mut self,
        rule: &SettingRule,
        key: &str,
        mut given: LayerValues<'a>,
    ) -> Option<JsonNode> {
        let only_managed = rule.managed_by.is_some_and(|by| self.is_set_by_owner(by));
        given.retain(|(layer, node)| {
            (!only_managed || layer.is_managed()) && self.may_set(rule, key, layer, node)
        });
        match rule.merge {
            MergeRule::Ignored => None,
            MergeRule::Hooks => self.merge_hooks(given),
            _ => self.merge_names(rule, key, rule.names, given),
        }
    }

    /// Returns whether managed settings set a key to `true`.
    fn is_set_by_owner(&self, key: &str) -> bool {
        let managed = self.layers.iter().filter(|layer| layer.is_managed());
        managed.into_iter().any(|layer| find_value(&layer.root, key).is_some_and(JsonNode::is_true))
    }

    /// Returns whether a layer may set a key at all.
    fn may_set(&mut self, rule: &SettingRule, key: &str, layer: &SettingsLayer, node: &JsonNode) -> bool {
        let last = key.rsplit('.').next().unwrap_or(key);
        match rule.authority {
            SettingAuthority::Managed if !layer.is_managed() => {
                self.warn(layer, node.at, format!("`{last}` counts in managed settings only"));
                false
            }
            SettingAuthority::Own if layer.is_workspaces() => {
                let message = format!("a workspace can't set `{key}`; set it in your own settings");
                self.warn(layer, node.at, message);
                false
            }
            SettingAuthority::OwnSilently => !layer.is_workspaces(),
            SettingAuthority::Trusted if layer.is_workspaces() && rule.loosens.is_none() => {
                self.standing == TrustStatus::Trusted
            }
            _ => true,
        }
    }

    /// Merges below the given number of name levels.
    fn merge_names(
        &mut self,
        rule: &SettingRule,
        key: &str,
        names: u8,
        given: LayerValues<'a>,
    ) -> Option<JsonNode> {
        if names == 0 || !given.iter().all(|(_, node)| matches!(node.json, JsonValue::Object(_))) {
            return self.merge_values(rule, key, given);
        }
        let mut fields: Vec<(JsonKey, LayerValues<'a>)> = Vec::new();
        let is_empty = given.is_empty();
        for (layer, node) in given {
            for (key, value) in node.fields() {
                if let Some(Err(message)) =
                    rule.check_name.map(|check| check(&key.name, value, layer.is_workspaces()))
                {
                    self.warn(layer, key.at, message);
                    continue;
                }
                match fields.iter_mut().find(|(known, _)| known.name == key.name) {
                    Some((_, values)) => values.push((layer, value)),
                    None => fields.push((key.clone(), vec![(layer, value)])),
                }
            }
        }
        let merged = fields.into_iter().filter_map(|(key_node, values)| {
            let node = self.merge_names(rule, key, names - 1, values)?;
            Some((key_node, node))
        });
        let merged: Vec<_> = merged.collect();
        (!is_empty).then(|| object_node(merged))
    }

    fn merge_values(&mut self, rule: &SettingRule, key: &str, given: LayerValues<'a>) -> Option<JsonNode> {
        match rule.merge {
            MergeRule::Concat if !given.is_empty() => {
                let items = given.iter().flat_map(|(_, node)| node.items()).cloned();
                Some(JsonNode { json: JsonValue::List(items.collect()), ..JsonNode::default() })
            }
            MergeRule::Any => {
                let set = given.iter().find(|(_, node)| !matches!(node.json, JsonValue::Bool(false)));
                set.map(|(_, node)| (*node).clone())
            }
            _ => self.strongest_value(rule, key, &given).cloned(),
        }
    }

    /// Returns the strongest value that applies. A value that a workspace may only tighten is compared with
    /// the value that would apply without it.
    fn strongest_value(
        &mut self,
        rule: &SettingRule,
        key: &str,
        given: &LayerValues<'a>,
    ) -> Option<&'a JsonNode> {
        let mut found: Option<&'a JsonNode> = None;
        for (layer, node) in given.iter().rev() {
            let may_loosen = match rule.authority {
                SettingAuthority::Tightening => !layer.is_workspaces(),
                SettingAuthority::Trusted => !layer.is_workspaces() || self.standing == TrustStatus::Trusted,
                _ => true,
            };
            if may_loosen || rule.loosens.is_some_and(|loosens| !loosens(node, found)) {
                found = Some(node);
            } else if rule.authority == SettingAuthority::Tightening {
                let (last, value) = (key.rsplit('.').next().unwrap_or(key), node.to_value());
                let message = format!(
                    "a workspace can't loosen `{last}` to {value}; set it in your own settings, or for this run"
                );
                self.warn(layer, node.at, message);
            }
        }
        found
    }

    /// Merges groups of hooks, the weakest layer's first. A handler that another group has for the same
    /// matcher is dropped.
    fn merge_hooks(&mut self, given: LayerValues<'a>) -> Option<JsonNode> {
        let off: Vec<SourceScope> = self
            .layers
            .iter()
            .filter(|layer| layer.root.get(DISABLE).is_some_and(JsonNode::is_true))
            .map(|layer| layer.place.scope)
            .collect();
        let managed_only = self.is_set_by_owner(MANAGED_HOOKS);
        let is_workspaces = super::layer::is_workspaces;
        let users = off.iter().find(|scope| !is_workspaces(**scope));
        let runs = |layer: &SettingsLayer| {
            let is_off = match users {
                Some(scope) => !layer.is_managed() || *scope == SourceScope::Managed,
                None => !off.is_empty() && layer.is_workspaces(),
            };
            !is_off && (!managed_only || layer.is_managed())
        };
        let mut events: Vec<(JsonKey, Vec<JsonNode>)> = Vec::new();
        for (_, node) in given.into_iter().rev().filter(|(layer, _)| runs(layer)) {
            let known = node.fields().iter().filter(|(event, _)| is_event(&event.name));
            for (event, groups) in known {
                let index =
                    events.iter().position(|(known, _)| known.name == event.name).unwrap_or_else(|| {
                        events.push((event.clone(), Vec::new()));
                        events.len() - 1
                    });
                groups.items().iter().for_each(|group| add_group(&mut events[index].1, group));
            }
        }
        (!events.is_empty()).then(|| {
            let list =
                |(event, groups)| (event, JsonNode { json: JsonValue::List(groups), ..JsonNode::default() });
            object_node(events.into_iter().map(list).collect())
        })
    }
}

/// Adds a group without the handlers that exist for the same matcher.
fn add_group(groups: &mut Vec<JsonNode>, group: &JsonNode) {
    let matcher = |group: &JsonNode| group.get("matcher").and_then(JsonNode::as_str).map(str::to_owned);
    let handlers = |group: &JsonNode| group.get("hooks").map(JsonNode::items).unwrap_or_default().to_vec();
    let same = groups.iter().filter(|other| matcher(other) == matcher(group));
    let mut known: Vec<_> = same.flat_map(handlers).map(|handler| handler.to_value()).collect();
    let mut added = handlers(group);
    added.retain(|handler| {
        let value = handler.to_value();
        let is_new = !known.contains(&value);
        known.push(value);
        is_new
    });
    if !added.is_empty() {
        let mut group = group.clone();
        if let JsonValue::Object(fields) = &mut group.json {
            let hooks = fields.iter_mut().filter(|(key, _)| key.name == "hooks");
            hooks.for_each(|(_, node)| node.json = JsonValue::List(added.clone()));
        }
        groups.push(group);
    }
}

fn object_node(fields: Vec<(JsonKey, JsonNode)>) -> JsonNode {
    JsonNode { json: JsonValue::Object(fields), ..JsonNode::default() }
}

fn plain_key(key: &str) -> JsonKey {
    JsonKey { at: NO_SPOT, name: key.to_owned() }
}
