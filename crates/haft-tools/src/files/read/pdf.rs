//! A PDF as a model reads it: the text of its pages, or pictures of them.

use haft::isolate::ChildResources;
use haft::{Context, ResultBlock, ToolError, ToolOutput};
use serde::{Deserialize, Serialize};

use super::text::PAGE_CHARS_MAX;
use super::{PageRanges, ReadInput};
use crate::decoding::{DecoderOutput, decode_isolated};
use crate::paths::count_noun;
use crate::pdf::PdfDocument;

/// Pages whose text one call returns.
const TEXT_PAGES_MAX: usize = 100;
/// Pages of which one call returns pictures.
const PICTURE_PAGES_MAX: usize = 10;

/// What is wanted of a document.
#[derive(Serialize, Deserialize)]
struct PdfRequest {
    name: String,
    /// Begins the text of errors.
    failure: String,
    pages: Option<PageRanges>,
    as_pictures: bool,
}

/// The blocks of a document.
pub(super) async fn read_pdf(
    input: &ReadInput,
    bytes: &[u8],
    shown: &str,
    cx: &Context,
) -> Result<ToolOutput, ToolError> {
    let request = PdfRequest {
        name: shown.to_owned(),
        failure: format!("`{shown}`, a PDF document, can't be read"),
        pages: input.pages.as_deref().map(PageRanges::parse).transpose()?,
        as_pictures: input.images.unwrap_or(false),
    };
    let decoded = decode_isolated(&request.failure, decode_pages, &request, bytes, cx).await?;
    Ok(decoded.into_output(shown))
}

fn decode_pages(request: PdfRequest, resources: &ChildResources) -> Result<DecoderOutput, ToolError> {
    let PdfRequest { name, failure, pages, as_pictures } = request;
    let document = PdfDocument::open(resources.read_content()?);
    let document = document.map_err(|why| ToolError::new(format!("{failure}: {why}")))?;
    let total = document.pages();
    let pages = match pages {
        Some(wanted) => wanted.page_numbers(total).map_err(|page| {
            let pages = count_noun(total, "page", "pages");
            ToolError::new(format!("`{name}` has {pages}; there is no page {page}"))
        })?,
        None => (0..total).collect(),
    };
    let work = PdfWork { document, name, total, pages };
    Ok(if as_pictures { work.pictures() } else { work.text() })
}

impl PageRanges {
    /// The pages, counted from 0, in the order in which they were named; or one that there isn't.
    fn page_numbers(&self, total: usize) -> Result<Vec<usize>, usize> {
        let mut pages = Vec::new();
        for (first, last) in &self.0 {
            // A range may go beyond the end, as long as it begins before.
            if *first > total {
                return Err(*first);
            }
            pages.extend(first - 1..last.unwrap_or(total).min(total));
        }
        Ok(pages)
    }
}

struct PdfWork {
    document: PdfDocument,
    name: String,
    total: usize,
    pages: Vec<usize>,
}

impl PdfWork {
    fn head(&self) -> String {
        format!("[PDF `{}`: {}]", self.name, count_noun(self.total, "page", "pages"))
    }

    fn summary(&self) -> String {
        match self.pages.len() {
            shown if shown == self.total => count_noun(shown, "page", "pages"),
            shown => format!("{shown} of {} pages", self.total),
        }
    }

    fn text(self) -> DecoderOutput {
        let mut text = self.head();
        let mut chars = 0;
        let (mut shown, mut unreadable, mut letters) = (0, 0, 0);
        let pages = self.pages.iter().copied().take(TEXT_PAGES_MAX);
        self.document.texts(pages, |at, page| {
            let len = page.text.chars().count();
            if chars + len > PAGE_CHARS_MAX && shown > 0 {
                return false;
            }
            text.push_str(&format!("\n\n--- page {}\n", at + 1));
            match (page.text.is_empty(), page.has_pictures) {
                (true, true) => text.push_str("[no text, but pictures; set `images` to see the page]"),
                (true, false) => text.push_str("[no text]"),
                _ => text.push_str(&page.text),
            }
            (chars, shown) = (chars + len, shown + 1);
            (unreadable, letters) = (unreadable + page.unreadable, letters + len);
            true
        });
        if unreadable > 0 {
            let much = if unreadable * 2 > letters { "; set `images` to see the pages" } else { "" };
            text.push_str(&format!(
                "\n\n[{}, shown as �: the file does not say what they are{much}]",
                count_noun(unreadable, "character is unreadable", "characters are unreadable")
            ));
        }
        if let Some(rest) = self.rest(shown) {
            text.push_str(&format!("\n\n[{rest}]"));
        }
        DecoderOutput::new(&[ResultBlock::text(text)], self.summary())
    }

    fn pictures(self) -> DecoderOutput {
        let mut blocks = vec![ResultBlock::text(self.head())];
        let mut shown = 0;
        for at in self.pages.iter().copied().take(PICTURE_PAGES_MAX) {
            match self.document.picture(at) {
                Ok(picture) => {
                    blocks.push(ResultBlock::text(format!("--- page {}", at + 1)));
                    blocks.push(ResultBlock::image(picture.media_type, picture.bytes));
                }
                Err(why) => {
                    blocks.push(ResultBlock::text(format!("--- page {}\n[can't be drawn: {why}]", at + 1)))
                }
            }
            shown += 1;
        }
        blocks.extend(self.rest(shown).map(|rest| ResultBlock::text(format!("[{rest}]"))));
        DecoderOutput::new(&blocks, self.summary())
    }

    /// How to read on, if there is more.
    fn rest(&self, shown: usize) -> Option<String> {
        let next = self.pages.get(shown)? + 1;
        let left = count_noun(self.pages.len() - shown, "page more", "pages more");
        Some(format!("{left}; read on with `pages` \"{next}-\""))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;
    use crate::pdf::tests::sample;
    use crate::room::Room;

    fn room(pages: usize) -> Room {
        let pages: Vec<String> =
            (1..=pages).map(|page| format!("BT /F1 12 Tf 20 150 Td (This is page {page}.) Tj ET")).collect();
        let room = Room::new();
        room.put("d.pdf", sample(&pages.iter().map(String::as_str).collect::<Vec<_>>()));
        room
    }

    #[test]
    fn pages_are_read_all_or_some() {
        let room = room(3);
        assert_eq!(
            room.text("Read", json!({"file_path": "d.pdf"})),
            "[PDF `d.pdf`: 3 pages]\n\n--- page 1\nThis is page 1.\n\n--- page 2\nThis is page 2.\n\n--- page 3\nThis is page 3."
        );
        assert_eq!(
            room.text("Read", json!({"file_path": "d.pdf", "pages": "3,1-1"})),
            "[PDF `d.pdf`: 3 pages]\n\n--- page 3\nThis is page 3.\n\n--- page 1\nThis is page 1."
        );
        let view = room.view("Read", json!({"file_path": "d.pdf", "pages": "2-"}));
        assert_eq!(view.summary.as_deref(), Some("2 of 3 pages"));
        let (_, words) = room.error("Read", json!({"file_path": "d.pdf", "pages": "4"}));
        assert_eq!(words, "`d.pdf` has 3 pages; there is no page 4");
        for pages in ["0", "x", "3-1", "", "1,,2", "-5"] {
            let (kind, words) = room.error("Read", json!({"file_path": "d.pdf", "pages": pages}));
            assert_eq!(kind, haft::ErrorKind::InvalidInput, "{words}");
        }
        room.put("t.txt", "x");
        let (_, words) = room.error("Read", json!({"file_path": "t.txt", "pages": "1"}));
        assert_eq!(words, "`pages` is for PDF, and `t.txt` is none; for text give `offset` and `limit`");
    }

    #[test]
    fn many_pages_are_read_in_parts() {
        let room = room(130);
        let text = room.text("Read", json!({"file_path": "d.pdf"}));
        assert!(
            text.ends_with(
                "--- page 100\nThis is page 100.\n\n[30 pages more; read on with `pages` \"101-\"]"
            ),
            "{text}"
        );
        let text = room.text("Read", json!({"file_path": "d.pdf", "pages": "101-"}));
        assert!(text.ends_with("This is page 130."), "{text}");
    }

    /// Whatever is read whole says that it is another one now, as text does.
    #[test]
    fn a_document_a_picture_and_a_notebook_that_changed_say_so() {
        let room = room(1);
        let pixel = |bright: u8| {
            let mut bytes = std::io::Cursor::new(Vec::new());
            image::GrayImage::from_pixel(2, 2, image::Luma([bright]))
                .write_to(&mut bytes, image::ImageFormat::Png)
                .unwrap();
            bytes.into_inner()
        };
        let notebook = |text: &str| crate::notebook::tests::SAMPLE.replace("42", text).into_bytes();
        let document = |text: &str| sample(&[&format!("BT /F1 12 Tf 20 150 Td ({text}) Tj ET")]);
        for (name, then, now) in [
            ("d.pdf", document("one"), document("two")),
            ("p.png", pixel(1), pixel(200)),
            ("n.ipynb", notebook("42"), notebook("43")),
        ] {
            room.put(name, &then);
            let says =
                || room.text("Read", json!({"file_path": name})).contains("[the file has changed since");
            assert!(!says() && !says(), "{name}");
            room.put(name, &now);
            assert!(says() && !says(), "{name}");
        }
    }

    #[test]
    fn pages_can_be_seen() {
        let room = room(2);
        let result = room.call("Read", json!({"file_path": "d.pdf", "images": true}));
        let blocks = result.outcome().unwrap().blocks();
        assert_eq!(blocks.len(), 5);
        assert!(matches!(&blocks[2], ResultBlock::Image(blob) if &*blob.media_type == "image/png"));
    }

    /// A few kilobytes that become gigabytes are one failed call.
    #[test]
    fn a_decompression_bomb_is_one_failed_call() {
        let whole = String::from_utf8(sample(&["PAGE"])).unwrap();
        let (before, after) = whole.split_once("PAGE").unwrap();
        let before = before.replace("/Length 4", "/Filter [/FlateDecode /RunLengthDecode] /Length LENGTH");
        // Runs of 128 spaces, each in two bytes, and all of them packed once more: 5 KB that become 600 MB.
        let runs = [129, b' '].repeat(5 << 20);
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&runs).unwrap();
        let packed = encoder.finish().unwrap();
        let before = before.replace("LENGTH", &packed.len().to_string());
        let room = Room::new();
        room.put("bomb.pdf", [before.as_bytes(), &packed, after.as_bytes()].concat());
        room.put("d.pdf", sample(&["BT /F1 12 Tf 20 150 Td (fine) Tj ET"]));
        let (kind, words) = room.error("Read", json!({"file_path": "bomb.pdf"}));
        assert_eq!(
            (kind, &*words),
            (
                haft::ErrorKind::Failed,
                "`bomb.pdf`, a PDF document, can't be read: its decoder did not finish: its process needed more than \
                 512 MB of memory"
            )
        );
        assert!(room.text("Read", json!({"file_path": "d.pdf"})).ends_with("fine"));
    }

    #[test]
    fn a_damaged_document_is_an_error_with_words() {
        let room = Room::new();
        room.put("d.pdf", "%PDF-1.7\nnothing");
        assert_eq!(
            room.error("Read", json!({"file_path": "d.pdf"})).1,
            "`d.pdf`, a PDF document, can't be read: it is damaged: its structure can't be read"
        );
    }
}
