//! The tools of a snapshot as a client is told of them: all of them, with hints that say no more than is known.
//!
//! Hints are for a client's screen; what may run is decided here. They come from the class that a tool is listed with, never
//! from what a connected server says of its own tools.

use haft::{Class, ListedClass, Offer, Origin, Snapshot};
use haft_mcp::server::Listing;
use haft_provider::{Definitions, Form};
use serde_json::{Value, json};

use crate::output;

/// The listing, and its text by which a change is seen.
pub(super) fn of(snapshot: &Snapshot) -> (Listing, String) {
    let defined = Definitions::new(Form::Mcp).with_deferred(true).of(snapshot);
    for left_out in defined.left_out() {
        output::warning(&output::one_line(&left_out.to_string()));
    }
    let mut definitions = match defined.to_value() {
        Value::Array(definitions) => definitions,
        _ => Vec::new(),
    };
    for definition in &mut definitions {
        let offer = definition["name"].as_str().and_then(|name| snapshot.find(name).ok());
        if let Some(offer) = offer {
            let hints = hints(offer);
            definition["annotations"] = hints;
        }
    }
    let text = serde_json::to_string(&definitions).unwrap_or_default();
    (Listing::new(definitions), text)
}

fn hints(offer: &Offer) -> Value {
    let tool = offer.tool();
    let looks = tool.listed_class() == ListedClass::Always(Class::ReadOnly);
    // Tools for files reach files and nothing else; of all others that isn't known.
    let is_closed = *offer.origin() == Origin::BuiltIn && tool.group() == "files";
    json!({"title": offer.name(), "readOnlyHint": looks, "destructiveHint": !looks, "openWorldHint": !is_closed})
}
