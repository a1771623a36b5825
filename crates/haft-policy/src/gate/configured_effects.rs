//! Effects from settings, for tools that declare none.

use haft::Effects;
use haft::effects::template::{EffectLists, EffectTemplates, FilledEffects};
use serde_json::Value;

use crate::settings::{SettingValue, ToolEffects};

/// Declarations by name or glob, strongest first.
pub(super) struct ConfiguredEffects(Vec<(String, EffectTemplates)>);

impl ConfiguredEffects {
    /// Parses the declarations of the settings. An invalid one becomes a notice, and its tool keeps unknown
    /// effects.
    pub(super) fn read(given: &[SettingValue<ToolEffects>]) -> (ConfiguredEffects, Vec<String>) {
        let mut notices = Vec::new();
        let read =
            given.iter().filter_map(|SettingValue { value: ToolEffects { tool, effects }, source }| {
                let lists = EffectLists {
                    reads: &effects.reads,
                    writes: &effects.writes,
                    deletes: &effects.deletes,
                    runs: &effects.runs,
                    reaches: &effects.reaches,
                };
                let before = notices.len();
                let declaration = EffectTemplates::read(&lists, None, &mut |place, words| {
                    notices
                        .push(format!("{source}: effects of `{tool}`, {place}: {words}; they don't count"));
                });
                (notices.len() == before).then(|| (tool.clone(), declaration))
            });
        let read = read.collect();
        (ConfiguredEffects(read), notices)
    }

    /// Returns the configured effects of a call.
    pub(super) fn find(&self, name: &str, input: &Value) -> Option<Effects> {
        Some(self.told(name, input)?.effects)
    }

    /// Returns the configured effects of a call, and those that its arguments leave open.
    pub(super) fn told(&self, name: &str, input: &Value) -> Option<FilledEffects> {
        let exact = self.0.iter().find(|(tool, _)| tool == name);
        // The prefix of a hashed name may belong to another server.
        let globs = || self.0.iter().find(|(tool, _)| !is_hashed(name) && matches_pattern(tool, name));
        let (_, declaration) = exact.or_else(globs)?;
        Some(declaration.told(input))
    }
}

/// Returns whether the name of a server's tool may contain a hash, which is added if the plain name would
/// be ambiguous.
pub(super) fn is_hashed(name: &str) -> bool {
    let hash = name.starts_with("mcp__").then(|| name.rsplit_once('_')).flatten();
    hash.is_some_and(|(_, hash)| {
        hash.len() == 8 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Returns whether a whole name matches a pattern in which `*` is any run of characters.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_run() {
        for (pattern, name, expected) in [
            ("mcp__a__b", "mcp__a__b", true),
            ("mcp__a__b", "mcp__a__bc", false),
            ("mcp__a__get_*", "mcp__a__get_x", true),
            ("mcp__a__get_*", "mcp__a__set_x", false),
            ("*", "anything", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
    }
}
