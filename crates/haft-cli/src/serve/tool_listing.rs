//! The tools of a snapshot as a client is told of them: all of them, with hints that say no more than is
//! known.
//!
//! Hints are for a client's screen; what may run is decided here. They come from the class that a tool is
//! listed with, never from what a connected server says of its own tools.
//!
//! There may be thousands of them, and servers come and go one by one. So a definition is written once for
//! all clients, and kept as long as the tool is the same; a list of them costs no more than its length.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use haft::effects::table::ConcurrencyClass;
use haft::registry::{OfferedTool, Snapshot, ToolOrigin};
use haft::sync::lock;
use haft::tool::{AnyTool, ListedClass};
use haft_mcp::server::{DefinitionList, ListedDefinition};
use haft_provider::{DefinitionCache, DefinitionForm};
use serde_json::{Value, json};

use crate::output;

/// How many definitions are kept beyond those of the list that was made last, before what isn't in that one
/// is forgotten.
const SPARE: usize = 1_000;

/// Definitions of tools by the names under which they are offered; none for a tool that can't be defined.
#[derive(Default)]
pub(super) struct ToolDefinitionCache(Mutex<HashMap<Arc<str>, CachedDefinition>>);

/// The tool that a definition is of, and the definition.
type CachedDefinition = (AnyTool, Option<ListedDefinition>);

impl ToolDefinitionCache {
    /// The listing of a snapshot.
    pub(super) fn listing(&self, snapshot: &Snapshot) -> DefinitionList {
        let mut kept = lock(&self.0);
        let defined: Vec<ListedDefinition> = snapshot
            .offers()
            .iter()
            .filter_map(|offer| match kept.get(offer.name()) {
                Some((tool, definition)) if tool.is(offer.tool()) => definition.clone(),
                _ => {
                    let definition = define_tool(offer);
                    kept.insert(Arc::from(offer.name()), (offer.tool().clone(), definition.clone()));
                    definition
                }
            })
            .collect();
        if kept.len() > snapshot.offers().len() + SPARE {
            kept.retain(|name, _| snapshot.find(name).is_ok_and(|offer| offer.name() == &**name));
        }
        defined.into_iter().collect()
    }
}

fn define_tool(offer: &OfferedTool) -> Option<ListedDefinition> {
    let defined = DefinitionCache::new(DefinitionForm::Mcp).define_one(offer);
    let text =
        defined.map_err(|left_out| output::print_warning(&output::one_line(&left_out.to_string()))).ok()?;
    let mut definition: Value = serde_json::from_str(&text).ok()?;
    definition["annotations"] = tool_hints(offer);
    ListedDefinition::new(definition)
}

fn tool_hints(offer: &OfferedTool) -> Value {
    let tool = offer.tool();
    let looks = tool.listed_class() == ListedClass::Always(ConcurrencyClass::ReadOnly);
    // Tools for files reach files and nothing else; of all others that isn't known.
    let is_closed = *offer.origin() == ToolOrigin::BuiltIn && tool.group() == "files";
    json!({"title": offer.name(), "readOnlyHint": looks, "destructiveHint": !looks, "openWorldHint": !is_closed})
}
