//! What is left out of a schema that is too long, and in which order.

use super::schema_node::{FACTS, SchemaNode};

/// How many times detail is taken away before nested levels go.
pub(super) const LEVELS: usize = 6;

/// Takes the detail of one level away: 1 examples, 2 defaults, 3 titles, 4 patterns, formats and words for
/// what has no keyword, 5 descriptions below the properties of the root, 6 descriptions of these.
pub(super) fn trim_level(node: &mut SchemaNode<'_>, level: usize) {
    trim_below(node, level, 0);
}

fn trim_below(node: &mut SchemaNode<'_>, level: usize, depth: usize) {
    let without = |node: &mut SchemaNode<'_>, names: &[&str]| {
        node.facts.retain(|(fact, _)| !names.contains(&FACTS[*fact]))
    };
    match level {
        1 => without(node, &["examples"]),
        2 => without(node, &["default"]),
        3 => node.title = None,
        4 => {
            without(node, &["pattern", "format", "dependentRequired"]);
            node.words.clear();
        }
        5 if depth > 1 => node.description = None,
        6 if depth > 0 => node.description = None,
        _ => {}
    }
    node.each_part(&mut |part| trim_below(part, level, depth + 1));
}
