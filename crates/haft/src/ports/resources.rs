//! The port to resources of connected servers.

use std::fmt;

use crate::content::Content;
use crate::future::BoxFuture;

/// Lists and reads resources that servers offer.
///
/// Called by tools from their own tasks. An implementation bounds what it returns.
pub trait Resources: Send + Sync + 'static {
    /// The resources of one server, or of all.
    fn list<'a>(&'a self, server: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Resource>, ResourceError>>;

    /// The content of one resource.
    fn read<'a>(
        &'a self,
        server: &'a str,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Content>, ResourceError>>;
}

/// A resource that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Whose it is.
    pub server: String,
    /// Where it is.
    pub uri: String,
    /// What to call it.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// Its media type, where known.
    pub media_type: Option<String>,
}

/// A resource that could not be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceError {
    /// What was wrong.
    pub message: String,
}

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ResourceError {}
