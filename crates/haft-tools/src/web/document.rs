//! What came of an answer: text, a picture, a PDF.
//!
//! Servers say what they send, and some are wrong: pictures and PDFs are known by their first bytes whatever
//! the header says, and what is said to be text and holds zeros is none. Everything else is taken as it is
//! announced.

#[cfg(feature = "images")]
use haft::ResultBlock;
use haft::{Context, ToolError};
use haft_net::fetch::FetchResponse;
use http::header::CONTENT_TYPE;
use url::Url;

use super::untrusted_text;
use super::{charset, html};
use crate::blocking::off_thread;
#[cfg(feature = "images")]
use crate::decoding::decode_isolated;
#[cfg(feature = "images")]
use crate::images::{self, ModelImageFormat};

/// The largest picture, in bytes: what models take once it is written in base64.
const IMAGE_BYTES_MAX: usize = 3_750_000;
/// The largest picture that is scaled until it fits, in bytes.
const PICTURE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The largest PDF that is passed on whole, in bytes.
const PDF_BYTES_MAX: usize = 8_000_000;
/// How far text is looked into for bytes that no text has.
const LOOKED_AT_MAX: usize = 8 * 1024;

/// What a page is to a model.
#[derive(Debug, PartialEq)]
pub(crate) struct WebDocument {
    pub(crate) title: Option<String>,
    /// What it is, for example `text/html`.
    pub(crate) media_type: String,
    /// How many bytes it had.
    pub(crate) size: usize,
    /// Whether its end is missing.
    pub(crate) cut: bool,
    pub(crate) body: DocumentBody,
}

#[derive(Debug, PartialEq)]
pub(crate) enum DocumentBody {
    Text(String),
    Image(Vec<u8>),
    /// A PDF whose text this build can't read.
    #[cfg_attr(feature = "pdf", expect(dead_code, reason = "its text is read"))]
    Pdf(Vec<u8>),
}

impl WebDocument {
    #[cfg(test)]
    pub(crate) fn text(text: &str) -> WebDocument {
        let media_type = "text/plain".to_owned();
        WebDocument {
            title: None,
            media_type,
            size: text.len(),
            cut: false,
            body: DocumentBody::Text(text.to_owned()),
        }
    }

    /// How much is kept of it.
    pub(crate) fn bytes(&self) -> usize {
        match &self.body {
            DocumentBody::Text(text) => text.len(),
            DocumentBody::Image(bytes) | DocumentBody::Pdf(bytes) => bytes.len(),
        }
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// For the model: it is nothing that can be read.
    pub(crate) async fn read(answer: FetchResponse, cx: &Context) -> Result<WebDocument, ToolError> {
        let (size, cut) = (answer.body.len(), answer.is_truncated);
        let is = |media_type: &str, body| WebDocument {
            title: None,
            media_type: media_type.to_owned(),
            size,
            cut,
            body,
        };
        if let Some(image) = image_type(&answer.body) {
            // Without a decoder it is passed on as it came, if a model may take it.
            let most = if cfg!(feature = "images") { PICTURE_BYTES_MAX } else { IMAGE_BYTES_MAX };
            if cut || size > most {
                let most = untrusted_text::format_size(most);
                return Err(ToolError::new(format!(
                    "it is a picture ({image}) of more than {most}, which is too large to be shown"
                )));
            }
            let (media_type, bytes) = fit_image(answer.body, image, cx).await?;
            return Ok(is(&media_type, DocumentBody::Image(bytes)));
        }
        if answer.body.starts_with(b"%PDF-") {
            if cut || size > PDF_BYTES_MAX {
                let most = untrusted_text::format_size(PDF_BYTES_MAX);
                return Err(ToolError::new(format!(
                    "it is a PDF of more than {most}; download it with Bash and read it with Read"
                )));
            }
            return Ok(is("application/pdf", pdf_body(answer.body, cx).await?));
        }
        off_thread(size, move || WebDocument::of_text(answer)).await?.map_err(ToolError::new)
    }

    /// Reads an answer that is text, in one form or another.
    fn of_text(answer: FetchResponse) -> Result<WebDocument, String> {
        let header = answer.header(CONTENT_TYPE).unwrap_or_default().to_owned();
        let (said, charset) = media_type(&header);
        let (size, cut) = (answer.body.len(), answer.is_truncated);
        let kind = DocumentKind::from_media_type(&said, &answer.body);
        let wide = answer.body.starts_with(b"\xff\xfe") || answer.body.starts_with(b"\xfe\xff");
        let looked_at = &answer.body[..size.min(LOOKED_AT_MAX)];
        if kind == DocumentKind::Binary
            || (!wide && !is_wide(charset.as_deref()) && memchr::memchr(0, looked_at).is_some())
        {
            let said = if said.is_empty() { "something without a type" } else { &said };
            let size = untrusted_text::format_size(size);
            return Err(format!(
                "it is {} of {size}, which is not text; download it with Bash if it is needed",
                haft_net::host::printable_excerpt(said)
            ));
        }
        let tld = match answer.target.host() {
            haft_net::host::Host::Name(name) => name.rsplit('.').next().map(str::to_owned),
            haft_net::host::Host::Address(_) => None,
        };
        let text = charset::decode_page(answer.body, charset.as_deref(), tld.as_deref());
        let (title, text) = match kind {
            DocumentKind::Html => {
                let base = Url::parse(answer.target.as_str()).ok();
                let page = html::convert_page(&text, base.as_ref());
                (page.title.map(|title| untrusted_text::visible_text(&title).into_owned()), page.markdown)
            }
            DocumentKind::Json if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok() => {
                (None, untrusted_text::indent_json(&text))
            }
            _ => (None, text),
        };
        let text = match untrusted_text::visible_text(&text) {
            std::borrow::Cow::Borrowed(_) => text,
            std::borrow::Cow::Owned(seen) => seen,
        };
        let media_type = if said.is_empty() { kind.usual() } else { &said };
        Ok(WebDocument {
            title,
            media_type: media_type.to_owned(),
            size,
            cut,
            body: DocumentBody::Text(text),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DocumentKind {
    Html,
    Json,
    Text,
    Binary,
}

impl DocumentKind {
    fn from_media_type(said: &str, body: &[u8]) -> DocumentKind {
        match said {
            "text/html" | "application/xhtml+xml" => DocumentKind::Html,
            "application/json" | "text/json" => DocumentKind::Json,
            _ if said.ends_with("+json") => DocumentKind::Json,
            _ if said.starts_with("text/") || said.ends_with("+xml") => DocumentKind::Text,
            "application/xml"
            | "application/javascript"
            | "application/x-javascript"
            | "application/ecmascript"
            | "application/yaml"
            | "application/x-yaml"
            | "application/toml"
            | "application/x-ndjson"
            | "application/jsonl"
            | "application/sql"
            | "application/x-sh"
            | "application/graphql" => DocumentKind::Text,
            "" | "application/octet-stream" | "application/x-octet-stream" | "application/unknown" => {
                sniff_kind(body)
            }
            _ => DocumentKind::Binary,
        }
    }

    fn usual(self) -> &'static str {
        match self {
            DocumentKind::Html => "text/html",
            DocumentKind::Json => "application/json",
            DocumentKind::Text | DocumentKind::Binary => "text/plain",
        }
    }
}

/// What bytes look like that come without a word.
fn sniff_kind(body: &[u8]) -> DocumentKind {
    let start = &body[..body.len().min(LOOKED_AT_MAX)];
    let begins = start.trim_ascii_start();
    let starts = |text: &str| {
        begins.get(..text.len()).is_some_and(|given| given.eq_ignore_ascii_case(text.as_bytes()))
    };
    if starts("<!doctype html") || starts("<html") {
        return DocumentKind::Html;
    }
    let is_text = match std::str::from_utf8(start) {
        Ok(_) => true,
        // The last character may be cut in two.
        Err(bad) => bad.error_len().is_none(),
    };
    match is_text && memchr::memchr(0, start).is_none() {
        true if matches!(begins.first(), Some(b'{' | b'[')) => DocumentKind::Json,
        true => DocumentKind::Text,
        false => DocumentKind::Binary,
    }
}

fn is_wide(charset: Option<&str>) -> bool {
    charset.is_some_and(|charset| charset.to_ascii_lowercase().starts_with("utf-16"))
}

/// The type and the charset of a header.
fn media_type(header: &str) -> (String, Option<String>) {
    let mut parts = header.split(';');
    let said = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    });
    (said, charset)
}

/// A picture as models take it: decoded, so that a damaged one is an error here, and scaled if it is too
/// large.
#[cfg(feature = "images")]
async fn fit_image(bytes: Vec<u8>, media_type: &str, cx: &Context) -> Result<(String, Vec<u8>), ToolError> {
    let failure = format!("it is a picture ({media_type}) that can't be shown");
    let damaged = || ToolError::new(format!("{failure}: it is damaged"));
    let format = ModelImageFormat::detect(&bytes).ok_or_else(damaged)?;
    let request = images::ImageRequest { format, failure: failure.clone(), name: None };
    let decoded = decode_isolated(&failure, images::decode_picture, &request, &bytes, cx).await?;
    match decoded.blocks().pop() {
        Some(ResultBlock::Image(blob)) => Ok((blob.media_type.to_string(), blob.bytes.to_vec())),
        _ => Err(damaged()),
    }
}

/// A picture as it came: this build has no decoder.
#[cfg(not(feature = "images"))]
async fn fit_image(bytes: Vec<u8>, media_type: &str, _: &Context) -> Result<(String, Vec<u8>), ToolError> {
    Ok((media_type.to_owned(), bytes))
}

/// The text of a PDF.
#[cfg(feature = "pdf")]
async fn pdf_body(bytes: Vec<u8>, cx: &Context) -> Result<DocumentBody, ToolError> {
    let failure = "it is a PDF that can't be read".to_owned();
    Ok(DocumentBody::Text(decode_isolated(&failure, crate::pdf::decode_text, &failure, &bytes, cx).await?))
}

/// A PDF as it came: this build has no decoder.
#[cfg(not(feature = "pdf"))]
async fn pdf_body(bytes: Vec<u8>, _: &Context) -> Result<DocumentBody, ToolError> {
    Ok(DocumentBody::Pdf(bytes))
}

/// The type of a picture that models take, by its first bytes.
fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}
