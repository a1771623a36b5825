//! What a tool gives back: content blocks, and the conversions into them.
//!
//! The model, the hooks, the screen and the log each read the same blocks; how one of them is written on a
//! provider's wire is the provider crate's business.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::error::ToolError;
use crate::limits;
use crate::results::OffloadedPreview;
use crate::view::CallView;

/// One block of a result.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ResultBlock {
    /// Plain text.
    Text(Arc<str>),
    /// A picture.
    Image(BinaryContent),
    /// A document that the model can read as such, for example a PDF.
    Document(BinaryContent),
    /// A JSON value; the model reads its text, code reads the value.
    Structured(Value),
    /// Something that lies elsewhere and can be fetched.
    Link(ResourceLink),
}

/// Bytes with a media type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinaryContent {
    /// For example `image/png`.
    pub media_type: Arc<str>,
    /// The bytes themselves, not encoded.
    pub bytes: Arc<[u8]>,
    /// A name to show, where there is one.
    pub name: Option<Arc<str>>,
}

/// A pointer to a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceLink {
    /// Where it is.
    pub uri: Arc<str>,
    /// What to call it.
    pub name: Arc<str>,
    /// Its media type, where known.
    pub media_type: Option<Arc<str>>,
}

impl ResultBlock {
    /// A text block.
    pub fn text(text: impl Into<Arc<str>>) -> ResultBlock {
        ResultBlock::Text(text.into())
    }

    /// An image block.
    pub fn image(media_type: impl Into<Arc<str>>, bytes: impl Into<Arc<[u8]>>) -> ResultBlock {
        ResultBlock::Image(BinaryContent { media_type: media_type.into(), bytes: bytes.into(), name: None })
    }

    /// A document block.
    pub fn document(media_type: impl Into<Arc<str>>, bytes: impl Into<Arc<[u8]>>) -> ResultBlock {
        ResultBlock::Document(BinaryContent {
            media_type: media_type.into(),
            bytes: bytes.into(),
            name: None,
        })
    }

    /// A link block.
    pub fn link(uri: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> ResultBlock {
        ResultBlock::Link(ResourceLink { uri: uri.into(), name: name.into(), media_type: None })
    }
}

/// Everything one call gave back, before limits.
///
/// An output without blocks is a tool that had nothing to say; it reaches the model as empty text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    blocks: BlockList,
    /// Boxed, because nearly no output has one.
    view: Option<Box<CallView>>,
    /// Where the text is a preview already, of a file that the tool itself wrote.
    kept: Option<Box<OffloadedPreview>>,
    /// What hooks see instead of the blocks.
    response: Option<Box<Value>>,
    /// It was not made for this call.
    cached: bool,
}

/// Nearly every output is one block; those need no list.
#[derive(Debug, Clone)]
enum BlockList {
    One(ResultBlock),
    List(Vec<ResultBlock>),
}

impl Default for BlockList {
    fn default() -> BlockList {
        BlockList::List(Vec::new())
    }
}

impl PartialEq for BlockList {
    fn eq(&self, other: &BlockList) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl BlockList {
    fn as_slice(&self) -> &[ResultBlock] {
        match self {
            BlockList::One(block) => std::slice::from_ref(block),
            BlockList::List(blocks) => blocks,
        }
    }
}

impl From<ResultBlock> for ToolOutput {
    fn from(block: ResultBlock) -> ToolOutput {
        ToolOutput { blocks: BlockList::One(block), view: None, kept: None, response: None, cached: false }
    }
}

impl ToolOutput {
    /// An output of these blocks.
    pub fn new(blocks: Vec<ResultBlock>) -> ToolOutput {
        ToolOutput { blocks: BlockList::List(blocks), view: None, kept: None, response: None, cached: false }
    }

    /// Says what a person sees of this result, in place of what [`Tool::view`](crate::Tool::view) makes of
    /// it.
    ///
    /// For what the model need not read, such as the lines of a change that it wrote itself. It stays in the
    /// process: a result that is kept in a file, or comes from an isolated tool, has none.
    #[must_use]
    pub fn with_view(mut self, view: CallView) -> ToolOutput {
        self.view = Some(Box::new(view));
        self
    }

    /// Says what hooks are given of this result, where people's hooks expect the tool to answer with an
    /// object.
    #[must_use]
    pub fn with_response(mut self, response: Value) -> ToolOutput {
        self.response = Some(Box::new(response));
        self
    }

    /// Says that it was kept from an earlier call and not made anew: for whoever counts.
    #[must_use]
    pub fn cached(mut self) -> ToolOutput {
        self.cached = true;
        self
    }

    pub(crate) fn set_cached(&mut self, cached: bool) {
        self.cached = cached;
    }

    /// Whether it was kept from an earlier call.
    pub fn is_cached(&self) -> bool {
        self.cached
    }

    /// What hooks are given of it, where the tool said so.
    pub fn response(&self) -> Option<&Value> {
        self.response.as_deref()
    }

    /// What a person sees of it, where the tool said so.
    pub fn view(&self) -> Option<&CallView> {
        self.view.as_deref()
    }

    /// The blocks, in order.
    pub fn blocks(&self) -> &[ResultBlock] {
        self.blocks.as_slice()
    }

    /// Gives the blocks away.
    pub fn into_blocks(self) -> Vec<ResultBlock> {
        match self.blocks {
            BlockList::One(block) => vec![block],
            BlockList::List(blocks) => blocks,
        }
    }

    /// A text that stands for a file of whole results.
    pub(crate) fn with_preview(text: String, preview: OffloadedPreview) -> ToolOutput {
        ToolOutput {
            blocks: BlockList::One(ResultBlock::text(text)),
            view: None,
            kept: Some(Box::new(preview)),
            response: None,
            cached: false,
        }
    }

    /// Takes what the text is a preview of.
    pub(crate) fn take_preview(&mut self) -> Option<OffloadedPreview> {
        self.kept.take().map(|preview| *preview)
    }

    /// The same with links that are too long to be links said to be that.
    pub(crate) fn with_bounded_links(self) -> ToolOutput {
        let too_long = |block: &ResultBlock| match block {
            ResultBlock::Link(link) => link.uri.len() + link.name.len() > limits::LINK_BYTES_MAX,
            _ => false,
        };
        if !self.blocks().iter().any(too_long) {
            return self;
        }
        let bounded = |block: ResultBlock| {
            let words = format!("[a link of more than {} bytes was left out]", limits::LINK_BYTES_MAX);
            if too_long(&block) { ResultBlock::text(words) } else { block }
        };
        ToolOutput::new(self.into_blocks().into_iter().map(bounded).collect())
    }

    /// The output as JSON: a string for text, the value for a structured result, an array of blocks
    /// otherwise.
    pub fn to_json(&self) -> Value {
        match self.blocks() {
            [] => Value::String(String::new()),
            [ResultBlock::Text(text)] => Value::String(text.to_string()),
            [ResultBlock::Structured(value)] => value.clone(),
            blocks => Value::Array(blocks.iter().map(ResultBlock::to_json).collect()),
        }
    }

    /// The output as one text, pictures and documents as a line that names them.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for block in self.blocks() {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&block.to_text());
        }
        text
    }
}

impl ResultBlock {
    /// The block as a JSON object with a `type`, bytes in base64.
    pub fn to_json(&self) -> Value {
        use serde_json::json;
        match self {
            ResultBlock::Text(text) => json!({"type": "text", "text": &**text}),
            ResultBlock::Structured(value) => json!({"type": "structured", "value": value}),
            ResultBlock::Image(blob) => blob.to_json("image"),
            ResultBlock::Document(blob) => blob.to_json("document"),
            ResultBlock::Link(link) => {
                json!({"type": "resource_link", "uri": &*link.uri, "name": &*link.name, "media_type": link.media_type.as_deref()})
            }
        }
    }

    /// The block that [`ResultBlock::to_json`] has written; `None` for anything else.
    pub fn from_json(block: &Value) -> Option<ResultBlock> {
        let text = |name: &str| Some(block.get(name)?.as_str()?.into());
        Some(match block.get("type")?.as_str()? {
            "text" => ResultBlock::Text(text("text")?),
            "structured" => ResultBlock::Structured(block.get("value")?.clone()),
            "image" => ResultBlock::Image(BinaryContent::from_json(block)?),
            "document" => ResultBlock::Document(BinaryContent::from_json(block)?),
            "resource_link" => ResultBlock::Link(ResourceLink {
                uri: text("uri")?,
                name: text("name")?,
                media_type: text("media_type"),
            }),
            _ => return None,
        })
    }

    /// The block as text for a reader who can't see pictures.
    pub fn to_text(&self) -> std::borrow::Cow<'_, str> {
        match self {
            ResultBlock::Text(text) => (&**text).into(),
            ResultBlock::Structured(Value::String(text)) => text.into(),
            ResultBlock::Structured(value) => value.to_string().into(),
            ResultBlock::Image(blob) => blob.to_line("image").into(),
            ResultBlock::Document(blob) => blob.to_line("document").into(),
            ResultBlock::Link(link) => format!("[{}: {}]", link.name, link.uri).into(),
        }
    }
}

impl BinaryContent {
    /// The bytes in standard base64 with padding.
    pub fn to_base64(&self) -> String {
        BASE64_STANDARD.encode(&self.bytes)
    }

    fn to_json(&self, kind: &str) -> Value {
        serde_json::json!({
            "type": kind,
            "media_type": &*self.media_type,
            "name": self.name.as_deref(),
            "data": self.to_base64(),
        })
    }

    fn from_json(block: &Value) -> Option<BinaryContent> {
        let text = |name: &str| block.get(name)?.as_str();
        let bytes = BASE64_STANDARD.decode(text("data")?).ok()?.into();
        Some(BinaryContent {
            media_type: text("media_type")?.into(),
            bytes,
            name: text("name").map(Arc::from),
        })
    }

    fn to_line(&self, kind: &str) -> String {
        let name = self.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
        format!("[{kind}{name}: {}, {} bytes]", self.media_type, self.bytes.len())
    }
}

/// A value that a tool may return.
///
/// Implemented for text, numbers, booleans, `()`, [`serde_json::Value`], [`ResultBlock`], `Vec<ResultBlock>`,
/// [`ToolOutput`], `Option` of these, and for any serialisable type inside [`Json`].
pub trait IntoOutput: Send + 'static {
    /// Turns the value into content blocks.
    ///
    /// # Errors
    /// A value that can't be written as JSON.
    fn into_output(self) -> Result<ToolOutput, ToolError>;

    /// The JSON Schema of what this type gives, where it is known. Default: none is published.
    fn output_schema() -> Option<Value> {
        None
    }
}

/// A structured result: its JSON is the output, its type gives the tool's output schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema + Send + 'static> IntoOutput for Json<T> {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ResultBlock::Structured(serde_json::to_value(self.0)?).into())
    }

    fn output_schema() -> Option<Value> {
        Some(crate::schema::derive_output::<T>())
    }
}

impl IntoOutput for ToolOutput {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self)
    }
}

impl IntoOutput for () {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::default())
    }
}

impl IntoOutput for ResultBlock {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self.into())
    }
}

impl IntoOutput for Vec<ResultBlock> {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::new(self))
    }
}

impl IntoOutput for Value {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ResultBlock::Structured(self).into())
    }
}

impl<T: IntoOutput> IntoOutput for Option<T> {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        self.map_or_else(|| Ok(ToolOutput::default()), T::into_output)
    }
}

macro_rules! text_outputs {
    ($($text:ty),*) => {$(
        impl IntoOutput for $text {
            fn into_output(self) -> Result<ToolOutput, ToolError> {
                Ok(ResultBlock::Text(self.into()).into())
            }
        }
    )*};
}
text_outputs!(String, &'static str, Arc<str>, Box<str>);

macro_rules! scalar_outputs {
    ($($scalar:ty),*) => {$(
        impl IntoOutput for $scalar {
            fn into_output(self) -> Result<ToolOutput, ToolError> {
                Ok(ResultBlock::Structured(Value::from(self)).into())
            }
        }
    )*};
}
scalar_outputs!(bool, u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_comes_back_from_its_json() {
        let blob = |name: Option<&str>| BinaryContent {
            media_type: "image/png".into(),
            bytes: (0..=255).cycle().take(1000).collect(),
            name: name.map(Arc::from),
        };
        for block in [
            ResultBlock::text("text with ü and \u{0}"),
            ResultBlock::Image(blob(None)),
            ResultBlock::Document(blob(Some("n"))),
            ResultBlock::Structured(serde_json::json!({"a": [1, -2, 0.1, 1e300, u64::MAX, null, "\"\n"]})),
            ResultBlock::link("file:///x", "x"),
        ] {
            let text = block.to_json().to_string();
            assert_eq!(ResultBlock::from_json(&serde_json::from_str(&text).unwrap()), Some(block), "{text}");
        }
        for other in [
            serde_json::json!("text"),
            serde_json::json!({"type": "video"}),
            serde_json::json!({"type": "image", "media_type": "a/b", "data": "*"}),
        ] {
            assert_eq!(ResultBlock::from_json(&other), None, "{other}");
        }
    }

    #[test]
    fn json_of_an_output_follows_its_blocks() {
        let json = |output: Result<ToolOutput, ToolError>| output.unwrap().to_json();
        assert_eq!(json(().into_output()), "");
        assert_eq!(json("hi".into_output()), "hi");
        assert_eq!(json(412usize.into_output()), 412);
        assert_eq!(json(Json(vec![1, 2]).into_output()), serde_json::json!([1, 2]));
        let picture = ResultBlock::image("image/png", *b"abc");
        let blocks = vec![ResultBlock::text("see"), picture];
        assert_eq!(
            json(blocks.into_output()),
            serde_json::json!([
                {"type": "text", "text": "see"},
                {"type": "image", "media_type": "image/png", "name": null, "data": "YWJj"},
            ])
        );
    }
}
