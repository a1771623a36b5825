//! The port to the search over tools.

/// Finds tools that the model was not shown.
///
/// Called from a search tool. Answers from the current snapshot, quickly, without waiting.
pub trait ToolIndex: Send + Sync + 'static {
    /// The best matches, best first; an exact name before everything else.
    fn search(&self, query: &str, most: usize) -> Vec<Found>;

    /// Makes tools visible from the next turn on; returns those that there are.
    fn load(&self, names: &[String]) -> Vec<Found>;
}

/// A tool that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its input schema.
    pub input_schema: serde_json::Value,
}
