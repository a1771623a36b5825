//! What was fetched lately, so that a second question about a page doesn't fetch it again. Bounded by age,
//! number and bytes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::sync::lock;
use tokio::time::Instant;

use super::document::WebDocument;

/// How long a page is good for.
pub(crate) const KEPT: Duration = Duration::from_secs(15 * 60);
/// How many pages are kept; the oldest goes first.
const PAGES_MAX: usize = 64;
/// How many bytes all of them may have.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// Pages by their address.
#[derive(Default)]
pub(crate) struct PageCache(Mutex<VecDeque<CachedPage>>);

struct CachedPage {
    url: String,
    since: Instant,
    document: Arc<WebDocument>,
}

impl PageCache {
    /// The page of this address, if it is not too old.
    pub(crate) fn get(&self, url: &str) -> Option<Arc<WebDocument>> {
        let mut pages = lock(&self.0);
        pages.retain(|kept| kept.since.elapsed() < KEPT);
        pages.iter().find(|kept| kept.url == url).map(|kept| kept.document.clone())
    }

    /// Keeps a page.
    pub(crate) fn put(&self, url: &str, document: &Arc<WebDocument>) {
        if document.bytes() > BYTES_MAX / 4 {
            return;
        }
        let mut pages = lock(&self.0);
        pages.retain(|kept| kept.url != url && kept.since.elapsed() < KEPT);
        pages.push_back(CachedPage {
            url: url.to_owned(),
            since: Instant::now(),
            document: document.clone(),
        });
        let over = |pages: &VecDeque<CachedPage>| {
            pages.len() > PAGES_MAX
                || pages.iter().map(|kept| kept.document.bytes()).sum::<usize>() > BYTES_MAX
        };
        while over(&pages) {
            pages.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: usize) -> Arc<WebDocument> {
        Arc::new(WebDocument::text(&"x".repeat(bytes)))
    }

    #[tokio::test(start_paused = true)]
    async fn pages_grow_old() {
        let cache = PageCache::default();
        cache.put("a", &page(1));
        tokio::time::advance(KEPT - Duration::from_secs(1)).await;
        assert!(cache.get("a").is_some() && cache.get("b").is_none());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(cache.get("a").is_none());
        assert!(cache.0.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn the_oldest_make_room() {
        let cache = PageCache::default();
        (0..100).for_each(|n| cache.put(&n.to_string(), &page(10)));
        assert!(cache.get("35").is_none() && cache.get("36").is_some() && cache.get("99").is_some());
        (0..10).for_each(|n| cache.put(&format!("big {n}"), &page(BYTES_MAX / 5)));
        assert!(cache.get("big 4").is_none() && cache.get("big 9").is_some() && cache.get("99").is_none());
        cache.put("huge", &page(BYTES_MAX / 2));
        assert!(cache.get("huge").is_none());
    }
}
