//! The message about tools that the model has to search for: their names, or where there are too many, where
//! they are.
//!
//! It is a part of the system prompt that stays the same while the session finds tools: those that were found
//! are named in it as before.

use std::collections::BTreeMap;
use std::sync::Arc;

use haft::registry::{OfferedTool, Snapshot, ToolListing};

use crate::limits::DEFERRED_NAMES_CHARS_MAX;

/// The message, if anything is deferred.
pub(super) fn note(snapshot: &Snapshot) -> Option<Arc<str>> {
    let search = snapshot.offers().iter().find(|offer| offer.is_search())?.name();
    let hidden = || snapshot.offers().iter().filter(|offer| offer.listing() != ToolListing::Shown);
    let count = hidden().count();
    if count == 0 {
        return None;
    }
    let length: usize = hidden().map(|offer| offer.name().len() + 2).sum();
    if length <= DEFERRED_NAMES_CHARS_MAX {
        let names: Vec<&str> = hidden().map(OfferedTool::name).collect();
        let names = names.join(", ");
        return Some(
            format!("These tools are there as well. Find them with {search} before you call them: {names}")
                .into(),
        );
    }
    let mut sources: BTreeMap<String, (usize, &str)> = BTreeMap::new();
    for offer in hidden() {
        sources.entry(offer.origin().to_string()).or_insert((0, offer.name())).0 += 1;
    }
    let mut said =
        format!("{count} more tools are there. Find them with {search} before you call them. They are from:");
    for (source, (count, first)) in sources {
        let line = format!("\n{source}: {count} tools, such as {first}");
        if said.len() + line.len() > DEFERRED_NAMES_CHARS_MAX {
            said.push_str("\n…");
            break;
        }
        said.push_str(&line);
    }
    Some(said.into())
}
