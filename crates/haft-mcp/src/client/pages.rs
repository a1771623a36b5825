//! Pages that the user has to open before a server carries out a request: it refuses the request and names
//! them (revision 2025-11-25), and may say later that the user is done there.
//!
//! A request that was refused so was not carried out, in the server's own words. That is why it may be made
//! again.

use std::collections::BTreeSet;

use serde_json::Value;
use tokio::sync::watch;

use crate::limits::REQUESTS_OPEN_MAX;

/// The protocol's number for such a refusal.
pub(crate) const NEEDS_PAGES: i32 = -32042;
/// By which a server says that the user is done with a page.
pub(crate) const DONE: &str = "notifications/elicitation/complete";

/// The pages that a refusal names, as parameters of a question for each; none if it names too many.
pub(crate) fn named_in(code: i32, data: Option<&Value>) -> Vec<Value> {
    let named = data.filter(|_| code == NEEDS_PAGES).and_then(|data| data["elicitations"].as_array());
    let pages = named.filter(|pages| pages.len() <= REQUESTS_OPEN_MAX);
    pages.into_iter().flatten().filter(|page| page["mode"] == "url").cloned().collect()
}

/// Pages that somebody waits for, by the names that their server gave them.
pub(crate) struct OpenPages(watch::Sender<BTreeSet<String>>);

impl Default for OpenPages {
    fn default() -> OpenPages {
        OpenPages(watch::Sender::new(BTreeSet::new()))
    }
}

impl OpenPages {
    /// Waits for these from now on.
    pub(crate) fn wait_for<'a>(&'a self, pages: &[Value]) -> PageWait<'a> {
        let names: Vec<String> =
            pages.iter().filter_map(|page| Some(page["elicitationId"].as_str()?.to_owned())).collect();
        self.0.send_modify(|open| open.extend(names.iter().cloned()));
        PageWait { open: self, names }
    }

    /// The server says that the user is done with one.
    pub(crate) fn done(&self, params: &Value) {
        if let Some(name) = params["elicitationId"].as_str() {
            self.0.send_if_modified(|open| open.remove(name));
        }
    }
}

/// Somebody who waits; dropped, nobody does.
pub(crate) struct PageWait<'a> {
    open: &'a OpenPages,
    names: Vec<String>,
}

impl PageWait<'_> {
    /// Completes when the server has said of all of them that the user is done.
    pub(crate) async fn done(&self) {
        let done = |open: &BTreeSet<String>| self.names.iter().all(|name| !open.contains(name));
        let _ = self.open.0.subscribe().wait_for(done).await;
    }
}

impl Drop for PageWait<'_> {
    fn drop(&mut self) {
        self.open.0.send_modify(|open| open.retain(|name| !self.names.contains(name)));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_pages_are_taken_and_only_of_that_refusal() {
        let page = json!({"mode": "url", "url": "https://x.example"});
        let with = |pages: Vec<Value>| json!({"elicitations": pages});
        let data = with(vec![page.clone(), json!({"mode": "form"}), json!(3)]);
        assert_eq!(named_in(NEEDS_PAGES, Some(&data)), std::slice::from_ref(&page));
        assert!(named_in(-32602, Some(&data)).is_empty() && named_in(NEEDS_PAGES, None).is_empty());
        assert!(named_in(NEEDS_PAGES, Some(&with(vec![page; REQUESTS_OPEN_MAX + 1]))).is_empty());
    }

    #[test]
    fn a_page_is_waited_for_until_the_server_says_that_it_is_done() {
        let open = OpenPages::default();
        let named = |name: &str| json!({"elicitationId": name});
        open.done(&named("a"));
        let waiting = open.wait_for(&[named("a"), named("b"), json!({})]);
        for (name, is_done) in [("a", false), ("c", false), ("b", true)] {
            open.done(&named(name));
            assert_eq!(waiting.done().now_or_never().is_some(), is_done, "{name}");
        }
        drop(open.wait_for(&[named("d")]));
        assert!(open.0.borrow().is_empty(), "nothing is kept that nobody waits for");
    }
}
