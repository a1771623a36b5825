//! A search over tools, in memory.

use std::sync::{Arc, Mutex};

use haft_scheduler::sync::lock;

use crate::ports::{Found, ToolIndex};
use crate::registry::Snapshot;

/// A [`ToolIndex`] over a list: exact names first, then names and descriptions that hold the query, in the order of
/// the list. It keeps what was searched and loaded.
///
/// ```
/// use haft::ports::{Found, ToolIndex};
/// use haft::testing::MemoryToolIndex;
///
/// let found = |name: &str, description: &str| Found {
///     name: name.into(),
///     description: description.into(),
///     input_schema: serde_json::json!({"type": "object"}),
/// };
/// let index = MemoryToolIndex::new([found("send_mail", "Sends."), found("mail", "Lists mail.")]);
/// let names: Vec<_> = index.search("mail", 5).into_iter().map(|found| found.name).collect();
/// assert_eq!(names, ["mail", "send_mail"]);
/// assert_eq!(index.load(&["mail".into(), "none".into()]).len(), 1);
/// assert_eq!(index.loaded(), ["mail"]);
/// ```
#[derive(Clone)]
pub struct MemoryToolIndex {
    tools: Arc<Vec<Found>>,
    searches: Arc<Mutex<Vec<String>>>,
    loaded: Arc<Mutex<Vec<String>>>,
}

impl MemoryToolIndex {
    /// An index over these.
    pub fn new(tools: impl IntoIterator<Item = Found>) -> MemoryToolIndex {
        MemoryToolIndex {
            tools: Arc::new(tools.into_iter().collect()),
            searches: Arc::default(),
            loaded: Arc::default(),
        }
    }

    /// An index over the deferred tools of a snapshot.
    pub fn of(snapshot: &Snapshot) -> MemoryToolIndex {
        MemoryToolIndex::new(snapshot.deferred().map(|offer| Found {
            name: offer.name().to_owned(),
            description: offer.tool().description().to_owned(),
            input_schema: offer.tool().input_schema().clone(),
        }))
    }

    /// What was searched for, in order.
    pub fn searches(&self) -> Vec<String> {
        lock(&self.searches).clone()
    }

    /// The names that were loaded, in order.
    pub fn loaded(&self) -> Vec<String> {
        lock(&self.loaded).clone()
    }
}

impl ToolIndex for MemoryToolIndex {
    fn search(&self, query: &str, most: usize) -> Vec<Found> {
        lock(&self.searches).push(query.to_owned());
        let wanted = query.to_lowercase();
        let holds = |text: &str| text.to_lowercase().contains(&wanted);
        let exact = |found: &&Found| found.name == query;
        let rest = |found: &&Found| !exact(found) && (holds(&found.name) || holds(&found.description));
        let tools = self.tools.iter();
        tools.clone().filter(exact).chain(tools.filter(rest)).take(most).cloned().collect()
    }

    fn load(&self, names: &[String]) -> Vec<Found> {
        let found: Vec<Found> = names
            .iter()
            .filter_map(|name| self.tools.iter().find(|found| found.name == *name))
            .cloned()
            .collect();
        lock(&self.loaded).extend(found.iter().map(|found| found.name.clone()));
        found
    }
}
