//! The tool definitions of a request, as text that only the provider reads.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use haft::registry::Snapshot;
use serde_json::Value;

/// Makes the definitions of a snapshot's tools in the form of a provider.
///
/// A run asks its definer before each request, from the run's own task. The same tools must give the same
/// bytes, because a provider's prompt cache is keyed by them; an implementation should reuse what it made
/// before.
pub trait ToolDefiner: Send + Sync + 'static {
    /// Defines the tools. `deferral` says where tools are kept that the model has to search for; `loaded` are
    /// the tools whose definitions the conversation holds already.
    fn define_tools(
        &self,
        snapshot: &Snapshot,
        deferral: ToolDeferral,
        loaded: &HashSet<String>,
    ) -> ToolDefinitions;
}

/// Finished tool definitions of a request. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ToolDefinitions(Arc<DefinitionParts>);

#[derive(Debug, Clone)]
struct DefinitionParts {
    text: Arc<str>,
    names: Vec<Arc<str>>,
    left_out: Vec<SkippedTool>,
    deferral: ToolDeferral,
    referable: HashSet<Arc<str>>,
    cacheable: Option<usize>,
}

impl ToolDefinitions {
    /// Creates definitions from the text that goes out with the request, and the names of the tools in it.
    pub fn new(text: impl Into<Arc<str>>, names: Vec<Arc<str>>) -> ToolDefinitions {
        ToolDefinitions(Arc::new(DefinitionParts {
            text: text.into(),
            names,
            left_out: Vec::new(),
            deferral: ToolDeferral::Fallback,
            referable: HashSet::new(),
            cacheable: None,
        }))
    }

    /// Creates the definitions of a request that offers no tools.
    pub fn none() -> ToolDefinitions {
        ToolDefinitions::new("[]", Vec::new())
    }

    /// Sets the tools that the provider can't take, in the order of the snapshot.
    #[must_use]
    pub fn with_left_out(mut self, left_out: Vec<SkippedTool>) -> ToolDefinitions {
        self.parts().left_out = left_out;
        self
    }

    /// Sets where deferred tools are kept, and the tools that the result of a search may refer to by name.
    #[must_use]
    pub fn with_deferral(mut self, deferral: ToolDeferral, referable: HashSet<Arc<str>>) -> ToolDefinitions {
        let parts = self.parts();
        (parts.deferral, parts.referable) = (deferral, referable);
        self
    }

    /// Sets where the last definition ends that a prompt cache may hold, as a position in the text.
    #[must_use]
    pub fn with_cacheable(mut self, end: Option<usize>) -> ToolDefinitions {
        self.parts().cacheable = end;
        self
    }

    fn parts(&mut self) -> &mut DefinitionParts {
        Arc::make_mut(&mut self.0)
    }

    /// Returns the definitions as the text that goes out with the request.
    pub fn json(&self) -> &str {
        &self.0.text
    }

    /// Returns the same, to keep.
    pub fn shared(&self) -> Arc<str> {
        self.0.text.clone()
    }

    /// Returns the definitions as a value, for hosts that build requests as values.
    ///
    /// # Panics
    /// The text is no JSON.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.0.text).expect("definitions are JSON")
    }

    /// Returns the names of the defined tools, in order.
    pub fn names(&self) -> &[Arc<str>] {
        &self.0.names
    }

    /// Returns the tools that the provider can't take, in the order of the snapshot.
    pub fn left_out(&self) -> &[SkippedTool] {
        &self.0.left_out
    }

    /// Returns where tools are kept that the model has to search for.
    pub fn deferral(&self) -> ToolDeferral {
        self.0.deferral
    }

    /// Returns whether the result of a search may refer to this tool by name instead of describing it.
    pub fn is_referable(&self, name: &str) -> bool {
        self.0.referable.contains(name)
    }

    /// Returns where the last definition ends that a prompt cache may hold, as a position in the text.
    pub fn cacheable(&self) -> Option<usize> {
        self.0.cacheable
    }
}

/// A tool that could not be defined for a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedTool {
    /// Its name.
    pub name: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
}

impl fmt::Display for SkippedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is left out: {}", self.name, self.reason)
    }
}

/// Where tools are kept that the model has to search for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolDeferral {
    /// With the provider, which knows deferred tools. The definitions stay the same when something is found.
    Native,
    /// Here: what was found is added to the definitions.
    Fallback,
}

impl fmt::Display for ToolDeferral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ToolDeferral::Native => "native",
            ToolDeferral::Fallback => "fallback",
        })
    }
}

impl FromStr for ToolDeferral {
    type Err = UnknownDeferral;

    fn from_str(name: &str) -> Result<ToolDeferral, UnknownDeferral> {
        match name {
            "native" => Ok(ToolDeferral::Native),
            "fallback" => Ok(ToolDeferral::Fallback),
            _ => Err(UnknownDeferral(name.to_owned())),
        }
    }
}

/// A word that names no way to defer tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownDeferral(String);

impl fmt::Display for UnknownDeferral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no way to defer tools; `native` and `fallback` are", self.0)
    }
}

impl std::error::Error for UnknownDeferral {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_deferrals_parse_back() {
        for deferral in [ToolDeferral::Native, ToolDeferral::Fallback] {
            assert_eq!(deferral.to_string().parse(), Ok(deferral));
        }
        let message = "auto".parse::<ToolDeferral>().unwrap_err().to_string();
        assert_eq!(message, "`auto` is no way to defer tools; `native` and `fallback` are");
    }
}
