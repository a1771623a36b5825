//! Finding tools that the model was not shown: the index, the search of an engine over its tools, and the
//! tool.
//!
//! With hundreds of tools a model is sent few with their schemas and the names of the rest. [`ToolSearch`] is
//! what it finds the rest by. An engine has the search over its tools by itself; a host registers the tool
//! and refreshes between turns:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use haft::registry::ToolGates;
//! use haft::search::ToolSearch;
//! use haft::tool::ToolExposure;
//! use haft::{Effects, Engine, NoInput, Registry, ToolCall, tool};
//!
//! let rain = tool("forecast", "Says whether it will rain.", |_: NoInput, _| async { Ok("no") })
//!     .effects(|_| Effects::none())
//!     .exposure(ToolExposure::Deferred);
//! let mut gates = ToolGates::default();
//! gates.defer_above = 1;
//! let engine = Engine::builder(Registry::new().with(rain)?.with(ToolSearch)?).gates(gates).build();
//!
//! assert!(engine.snapshot().find("forecast").unwrap().is_deferred());
//! engine.turn().run([ToolCall::new("1", "ToolSearch", r#"{"query": "rain"}"#)]).await;
//! engine.refresh();                                                // before the next turn
//! assert!(!engine.snapshot().find("forecast").unwrap().is_deferred());
//! # Ok(()) }
//! ```

mod index;
mod words;

use std::sync::{Arc, OnceLock};

use haft_scheduler::sync::{Mutex, lock};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::context::Context;
use crate::effects::Effects;
use crate::effects::table::ConcurrencyClass;
use crate::error::ToolError;
use crate::limits::{SEARCH_RESULTS, SEARCH_RESULTS_MAX};
use crate::registry::{OfferedTool, Snapshot};
use crate::text::truncate_in_place;
use crate::tool::{Tool, ToolExposure, ToolSpec};

pub use index::{SearchIndex, SearchableTool};

/// The search over the tools of an engine's snapshot. [`ToolSearch`] finds it in the context of its call.
#[derive(Default)]
pub(crate) struct ToolFinder(Mutex<FinderState>);

#[derive(Default)]
struct FinderState {
    over: Option<Arc<IndexedSnapshot>>,
    loaded: Vec<String>,
}

/// A snapshot and the index over its tools, position by position.
struct IndexedSnapshot {
    snapshot: Snapshot,
    /// Made when something is searched: most sessions never do.
    index: Arc<OnceLock<SearchIndex>>,
}

impl IndexedSnapshot {
    fn index(&self) -> &SearchIndex {
        self.index.get_or_init(|| SearchIndex::new(self.snapshot.offers().iter().map(to_searchable)))
    }
}

impl ToolFinder {
    /// Searches this snapshot from now on. Costs little if it offers the same tools as the one before.
    pub(crate) fn update(&self, snapshot: &Snapshot) {
        let before = self.over();
        let index = match &before {
            Some(over) if over.snapshot.is(snapshot) => return,
            Some(over) if over.snapshot.offers_the_same(snapshot) => over.index.clone(),
            _ => Arc::default(),
        };
        let over = IndexedSnapshot { snapshot: snapshot.clone(), index };
        let replaced = lock(&self.0).over.replace(Arc::new(over));
        drop(replaced);
    }

    /// The names that were loaded since the last call.
    pub(crate) fn take_loaded(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.0).loaded)
    }

    fn over(&self) -> Option<Arc<IndexedSnapshot>> {
        lock(&self.0).over.clone()
    }

    /// The names of the tools that fit a query best, the best first: at most `limit`.
    fn search(&self, query: &str, limit: usize) -> Vec<String> {
        let Some(over) = self.over() else { return Vec::new() };
        let hits = over.index().find(query, limit.saturating_add(1)).into_iter();
        // The search itself is no answer to a search.
        let offers = hits.map(|at| &over.snapshot.offers()[at]).filter(|offer| !offer.is_search());
        offers.take(limit).map(|offer| offer.name().to_owned()).collect()
    }

    /// Shows these tools from the next turn on, and returns those that there are.
    fn load(&self, names: &[String]) -> Vec<OfferedTool> {
        let Some(over) = self.over() else { return Vec::new() };
        let offers: Vec<OfferedTool> =
            names.iter().filter_map(|name| over.snapshot.find(name).ok().cloned()).collect();
        let mut finding = lock(&self.0);
        for offer in &offers {
            if !finding.loaded.iter().any(|loaded| *loaded == *offer.name()) {
                finding.loaded.push(offer.name().to_owned());
            }
        }
        offers
    }
}

fn to_searchable(offer: &OfferedTool) -> SearchableTool<'_> {
    let tool = offer.tool();
    SearchableTool {
        name: offer.name(),
        hint: tool.spec().search_hint.as_deref().unwrap_or_default(),
        description: tool.description(),
        input_schema: tool.input_schema(),
    }
}

/// What the model is told of a tool that was found.
fn definition(offer: &OfferedTool) -> Value {
    let tool = offer.tool();
    json!({"name": offer.name(), "description": tool.description(), "input_schema": tool.input_schema()})
}

/// Finds tools that you were given only the names of, and gives you their descriptions and schemas.
///
/// You can call what it finds from your next message on. Ask for what you want to do ("send a message"), or
/// for names that you know.
#[derive(Deserialize, JsonSchema)]
pub struct ToolSearchInput {
    /// Words for what the tool should do. `+word` has to be there. `select:NAME,NAME` takes exactly these.
    query: String,
    /// How many tools to return at most; 5 if left out.
    max_results: Option<u8>,
}

/// The name of [`ToolSearch`].
pub const TOOL_SEARCH: &str = "ToolSearch";

/// The tool that finds tools.
pub struct ToolSearch;

impl Tool for ToolSearch {
    type Input = ToolSearchInput;
    type Output = Value;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(TOOL_SEARCH)
            .alias("tool_search")
            .finds_tools()
            .exposure(ToolExposure::AlwaysLoaded)
            .listed_class(ConcurrencyClass::ReadOnly)
            .group("agent")
    }

    fn effects(&self, _: &ToolSearchInput) -> Effects {
        Effects::reads_state("session:tools")
    }

    async fn call(&self, input: ToolSearchInput, cx: &Context) -> Result<Value, ToolError> {
        let finder = &cx.host().finder;
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
            None => finder.search(query, most),
        };
        let loaded = finder.load(&names);
        if loaded.is_empty() {
            let mut shown = query.to_owned();
            truncate_in_place(&mut shown, 100);
            return Err(ToolError::new(format!(
                "no tool fits `{shown}`; try other words for what it should do, or fewer `+`"
            )));
        }
        Ok(loaded.iter().map(definition).collect())
    }
}
