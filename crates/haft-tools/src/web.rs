//! Tools for the web, and what they share: pages as text, what was fetched lately, and words about it.
//!
//! - [`html`] makes Markdown of a page; `charset` finds out how its bytes are meant.
//! - `document` is what came of an answer: text, a picture, a PDF, or nothing that can be read.
//! - `cache` keeps documents for a while.
//! - `words` marks text that is not the user's.
//!
//! Where bytes come from, and that they come from nowhere else, is `haft-net`'s business.

mod charset;
pub(crate) mod document;
pub mod html;
mod page_cache;
pub(crate) mod untrusted_text;
pub mod web_fetch;
pub mod web_search;

use haft::future::BoxFuture;

pub(crate) use page_cache::PageCache;
pub use web_fetch::WebFetch;
pub use web_search::WebSearch;

/// A model that answers a question about a page, where the host has one.
///
/// Called once for each fetch that has a `prompt`, with the page as text between marks that say what it is.
/// Whoever implements this gives that model no tools. An error is words for the model that asked, which then
/// gets the page itself.
pub trait PageReader: Send + Sync + 'static {
    /// The answer.
    fn answer<'a>(&'a self, question: &'a str, page: &'a str) -> BoxFuture<'a, Result<String, String>>;
}
