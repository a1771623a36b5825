//! Finding tools that the model was not shown: the index, the port over it, and the tool.
//!
//! With hundreds of tools a model is sent few with their schemas and the names of the rest. [`ToolSearch`] is what it finds
//! the rest by. An engine has the search over its tools by itself; a host registers the tool and refreshes between turns:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use haft::registry::Gates;
//! use haft::search::ToolSearch;
//! use haft::tool::Exposure;
//! use haft::{Effects, Engine, NoInput, Registry, ToolCall, tool};
//!
//! let rain = tool("forecast", "Says whether it will rain.", |_: NoInput, _| async { Ok("no") })
//!     .effects(|_| Effects::none())
//!     .exposure(Exposure::Deferred);
//! let mut gates = Gates::default();
//! gates.defer_above = 1;
//! let engine = Engine::builder(Registry::new().with(rain)?.with(ToolSearch)?).gates(gates).build();
//!
//! assert!(engine.snapshot().find("forecast").unwrap().is_deferred());
//! engine.turn().run([ToolCall::new("1", "ToolSearch", r#"{"query": "rain"}"#)]).await;
//! engine.refresh();                                                // before the next turn
//! assert!(!engine.snapshot().find("forecast").unwrap().is_deferred());
//! # Ok(()) }
//! ```
//!
//! A host that gives the engine a port of its own keeps it up to date itself: a [`ToolFinder`] is told of each snapshot, and
//! what it says was loaded goes to [`Engine::load`](crate::Engine::load).

mod index;
mod words;

use std::sync::{Arc, OnceLock};

use haft_scheduler::sync::{Mutex, lock};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::context::Context;
use crate::effects::Effects;
use crate::effects::table::Class;
use crate::error::ToolError;
use crate::limits::{SEARCH_RESULTS, SEARCH_RESULTS_MAX};
use crate::ports::{Found, Port, ToolIndex};
use crate::registry::{Offer, Snapshot};
use crate::text::truncate_in_place;
use crate::tool::{Exposure, Tool, ToolSpec};

pub use index::{SearchIndex, Searchable};

/// The port [`ToolIndex`] over the tools of a snapshot. Clones are the same.
#[derive(Clone, Default)]
pub struct ToolFinder(Arc<Mutex<Finding>>);

#[derive(Default)]
struct Finding {
    over: Option<Arc<Over>>,
    loaded: Vec<String>,
}

/// A snapshot and the index over its tools, position by position.
struct Over {
    snapshot: Snapshot,
    /// Made when something is searched: most sessions never do.
    index: Arc<OnceLock<SearchIndex>>,
}

impl Over {
    fn index(&self) -> &SearchIndex {
        self.index.get_or_init(|| SearchIndex::new(self.snapshot.offers().iter().map(searchable)))
    }
}

impl ToolFinder {
    /// One that finds nothing yet.
    pub fn new() -> ToolFinder {
        ToolFinder::default()
    }

    /// Searches this snapshot from now on. Costs little if it offers the same tools as the one before.
    pub fn update(&self, snapshot: &Snapshot) {
        let before = self.over();
        let index = match &before {
            Some(over) if over.snapshot.is(snapshot) => return,
            Some(over) if over.snapshot.offers_the_same(snapshot) => over.index.clone(),
            _ => Arc::default(),
        };
        let over = Over { snapshot: snapshot.clone(), index };
        let replaced = lock(&self.0).over.replace(Arc::new(over));
        drop(replaced);
    }

    /// The names that were loaded since this was asked last, for [`Engine::load`](crate::Engine::load).
    pub fn take_loaded(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.0).loaded)
    }

    fn over(&self) -> Option<Arc<Over>> {
        lock(&self.0).over.clone()
    }
}

fn searchable(offer: &Offer) -> Searchable<'_> {
    let tool = offer.tool();
    Searchable {
        name: offer.name(),
        hint: tool.spec().search_hint.as_deref().unwrap_or_default(),
        description: tool.description(),
        input_schema: tool.input_schema(),
    }
}

fn found(offer: &Offer) -> Found {
    let tool = offer.tool();
    Found {
        name: offer.name().to_owned(),
        description: tool.description().to_owned(),
        input_schema: tool.input_schema().clone(),
    }
}

impl ToolIndex for ToolFinder {
    fn search(&self, query: &str, most: usize) -> Vec<Found> {
        let Some(over) = self.over() else { return Vec::new() };
        // The search itself is no answer to a search.
        let hits = over
            .index()
            .find(query, most.saturating_add(1))
            .into_iter()
            .map(|at| &over.snapshot.offers()[at]);
        hits.filter(|offer| !offer.is_search()).take(most).map(found).collect()
    }

    fn load(&self, names: &[String]) -> Vec<Found> {
        let Some(over) = self.over() else { return Vec::new() };
        let offers: Vec<Offer> =
            names.iter().filter_map(|name| over.snapshot.find(name).ok().cloned()).collect();
        let mut finding = lock(&self.0);
        for offer in &offers {
            if !finding.loaded.iter().any(|loaded| *loaded == *offer.name()) {
                finding.loaded.push(offer.name().to_owned());
            }
        }
        drop(finding);
        offers.iter().map(found).collect()
    }
}

/// Finds tools that you were given only the names of, and gives you their descriptions and schemas.
///
/// You can call what it finds from your next message on. Ask for what you want to do ("send a message"), or for names
/// that you know.
#[derive(Deserialize, JsonSchema)]
pub struct ToolSearchInput {
    /// Words for what the tool should do. `+word` has to be there. `select:NAME,NAME` takes exactly these.
    query: String,
    /// How many tools to return at most; 5 if left out.
    max_results: Option<u8>,
}

/// The name of [`ToolSearch`].
pub const TOOL_SEARCH: &str = "ToolSearch";

/// The tool that finds tools, over the port [`ToolIndex`].
pub struct ToolSearch;

impl Tool for ToolSearch {
    type Input = ToolSearchInput;
    type Output = Value;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(TOOL_SEARCH)
            .alias("tool_search")
            .finds_tools()
            .needs(Port::ToolIndex)
            .exposure(Exposure::AlwaysLoaded)
            .listed_class(Class::ReadOnly)
            .group("agent")
    }

    fn effects(&self, _: &ToolSearchInput) -> Effects {
        Effects::reads_state("session:tools")
    }

    async fn call(&self, input: ToolSearchInput, cx: &Context) -> Result<Value, ToolError> {
        let index =
            cx.ports().tool_index().ok_or_else(|| ToolError::new("this host has no search over tools"))?;
        let most =
            input.max_results.map_or(SEARCH_RESULTS, |most| usize::from(most).clamp(1, SEARCH_RESULTS_MAX));
        let query = input.query.trim();
        let names: Vec<String> = match query.strip_prefix("select:") {
            Some(names) => names
                .split(',')
                .map(|name| name.trim().to_owned())
                .filter(|name| !name.is_empty())
                .take(SEARCH_RESULTS_MAX)
                .collect(),
            None => index.search(query, most).into_iter().map(|found| found.name).collect(),
        };
        let loaded = index.load(&names);
        if loaded.is_empty() {
            let mut shown = query.to_owned();
            truncate_in_place(&mut shown, 100);
            return Err(ToolError::new(format!(
                "no tool fits `{shown}`; try other words for what it should do, or fewer `+`"
            )));
        }
        let shown = |found: Found| json!({"name": found.name, "description": found.description, "input_schema": found.input_schema});
        Ok(loaded.into_iter().map(shown).collect())
    }
}
