//! Whole results of one client, as resources: where its calls got only a part, the rest is read by an address
//! that nobody can guess, page by page if it is long.
//!
//! The files are the engine's, in a folder of this client alone. An address says nothing of them; what isn't
//! in this table isn't there.

use haft::sync::lock;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use haft_mcp::server::{
    ContentBlock, ErrorData, MetaObject, ReadResourceResult, Resource, ResourceContents, binary_contents,
    random_secret, unknown_resource,
};
use serde_json::{Value, json};

/// How many results of a client are kept; the oldest goes first.
pub(super) const RESULTS_MAX: usize = 1_000;
/// How many bytes a client gets at once; what is longer comes in pages.
pub(super) const PAGE_BYTES: u64 = 4 * 1024 * 1024;
/// The largest structured result that goes out whole beside its preview.
const STRUCTURED_BYTES_MAX: u64 = 8 * 1024 * 1024;

const ADDRESS: &str = "haft://results/";
/// Where the address of the next page stands.
const NEXT: &str = "haft/next";

/// The results of one client that are kept.
#[derive(Default)]
pub(super) struct StoredResults(Mutex<VecDeque<StoredResult>>);

#[derive(Clone)]
struct StoredResult {
    uri: String,
    path: PathBuf,
    tool: String,
    bytes: u64,
}

impl StoredResult {
    fn media_type(&self) -> &'static str {
        match self.path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => "application/json",
            _ => "text/plain",
        }
    }

    fn definition(&self) -> Value {
        let StoredResult { uri, tool, bytes, .. } = self;
        let about = if *bytes > PAGE_BYTES {
            format!(
                "All {bytes} bytes of what {tool} gave back, in pages: each says in `_meta` under `{NEXT}` where the next one is."
            )
        } else {
            format!("All {bytes} bytes of what {tool} gave back.")
        };
        json!({"uri": uri, "name": format!("{tool} result"), "description": about,
            "mimeType": self.media_type(), "size": bytes})
    }
}

impl StoredResults {
    fn lock(&self) -> MutexGuard<'_, VecDeque<StoredResult>> {
        lock(&self.0)
    }

    /// Keeps a whole result, and returns the block that leads to it; nothing if there is no such file any
    /// more.
    pub(super) fn keep(&self, path: &Path, tool: &str, takes_links: bool) -> Option<ContentBlock> {
        let bytes = std::fs::metadata(path).ok()?.len();
        let uri = format!("{ADDRESS}{}", random_secret(16)?);
        let kept = StoredResult { uri, path: path.to_owned(), tool: tool.to_owned(), bytes };
        let block = if takes_links {
            let link: Resource = serde_json::from_value(kept.definition()).ok()?;
            ContentBlock::ResourceLink(link)
        } else {
            ContentBlock::text(format!("The whole result is the resource `{}`.", kept.uri))
        };
        let mut all = self.lock();
        all.push_back(kept);
        if all.len() > RESULTS_MAX
            && let Some(oldest) = all.pop_front()
        {
            let _ = std::fs::remove_file(oldest.path);
        }
        Some(block)
    }

    /// The value of a structured result that was kept, if it isn't too large to go out whole.
    pub(super) fn structured(path: &Path) -> Option<Value> {
        let size = std::fs::metadata(path).ok()?.len();
        let text = (size <= STRUCTURED_BYTES_MAX).then(|| std::fs::read(path).ok()).flatten()?;
        serde_json::from_slice(&text).ok()
    }

    /// All of them, as they are listed.
    pub(super) fn definitions(&self) -> Vec<Value> {
        self.lock().iter().map(StoredResult::definition).collect()
    }

    /// Whether an address is one of these, known or not.
    pub(super) fn has_form(uri: &str) -> bool {
        uri.starts_with(ADDRESS)
    }

    /// What a result holds, or a page of it.
    pub(super) fn read(&self, uri: &str) -> Result<ReadResourceResult, ErrorData> {
        let unknown = || unknown_resource(uri);
        let (address, from) = match uri.split_once("?from=") {
            Some((address, from)) => (address, from.parse().map_err(|_| unknown())?),
            None => (uri, 0),
        };
        let kept = self.lock().iter().find(|kept| kept.uri == address).cloned().ok_or_else(unknown)?;
        let (bytes, next) = read_page(&kept.path, from).map_err(|_| unknown())?;
        let contents = match String::from_utf8(bytes) {
            Ok(text) => ResourceContents::text(text, uri).with_mime_type(kept.media_type()),
            Err(error) => binary_contents(uri, "application/octet-stream", error.as_bytes()),
        };
        let contents = match next {
            Some(next) => contents.with_meta(page_meta(&format!("{address}?from={next}"), kept.bytes)),
            None => contents,
        };
        Ok(ReadResourceResult::new(vec![contents]))
    }
}

/// The `_meta` of a page that is followed by another one.
fn page_meta(next: &str, bytes: u64) -> MetaObject {
    MetaObject(
        [(NEXT.to_owned(), json!(next)), ("haft/bytes".to_owned(), json!(bytes))].into_iter().collect(),
    )
}

/// A page of a file, and where the next one begins. A page ends with a line if it has any, else between two
/// characters.
fn read_page(path: &Path, from: u64) -> io::Result<(Vec<u8>, Option<u64>)> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(PAGE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= PAGE_BYTES {
        return Ok((bytes, None));
    }
    bytes.pop();
    let line = bytes.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
    let end = line.unwrap_or_else(|| match std::str::from_utf8(&bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
        _ => bytes.len(),
    });
    bytes.truncate(end);
    Ok((bytes, Some(from + end as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(results: &StoredResults) -> String {
        results.definitions().last().unwrap()["uri"].as_str().unwrap().to_owned()
    }

    #[test]
    fn pages_make_the_whole() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["short".to_owned(), "ü line\n".repeat(1_500_000), "€".repeat(3_000_000)] {
            let path = dir.path().join("a.txt");
            std::fs::write(&path, &text).unwrap();
            let results = StoredResults::default();
            assert!(results.keep(&path, "Bash", true).is_some());
            let (mut whole, mut next) = (String::new(), Some(uri(&results)));
            while let Some(address) = next {
                let read = results.read(&address).unwrap();
                let [ResourceContents::TextResourceContents { text: page, meta, .. }] = &read.contents[..]
                else {
                    panic!("a page is text")
                };
                assert!(page.len() as u64 <= PAGE_BYTES);
                whole.push_str(page);
                next = meta.as_ref().and_then(|meta| meta[NEXT].as_str()).map(str::to_owned);
            }
            assert!(whole == text, "{} of {}", whole.len(), text.len());
        }
    }

    #[test]
    fn nothing_else_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        std::fs::write(&path, "{\"a\":1}").unwrap();
        let (mine, others) = (StoredResults::default(), StoredResults::default());
        assert!(mine.keep(&path, "t", true).is_some());
        let address = uri(&mine);
        assert!(mine.read(&address).is_ok() && others.read(&address).is_err());
        for wrong in [
            format!("{address}x"),
            format!("{address}?from=x"),
            format!("{ADDRESS}../a.json"),
            format!("file://{}", path.display()),
            String::new(),
        ] {
            assert!(mine.read(&wrong).is_err(), "{wrong}");
        }
        assert_eq!(StoredResults::structured(&path), Some(json!({"a": 1})));
    }

    #[test]
    fn the_oldest_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let results = StoredResults::default();
        for number in 0..=RESULTS_MAX {
            let path = dir.path().join(number.to_string());
            std::fs::write(&path, "x").unwrap();
            assert!(results.keep(&path, "t", false).is_some());
        }
        assert_eq!(results.definitions().len(), RESULTS_MAX);
        assert!(!dir.path().join("0").exists() && dir.path().join("1").exists());
    }
}
