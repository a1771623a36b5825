//! Decoders of foreign data, in a child process: a crash, a loop or a decompression bomb is an error of one
//! call.
//!
//! The child gets the data as a descriptor and sees no file of the user's. Its memory and its time are
//! limited; what a decoder would unpack is counted nowhere.

use std::time::Duration;

use haft::isolate::{IsolatedFunction, IsolatedRun};
use haft::{CallView, Context, ErrorKind, ResultBlock, ToolError, ToolOutput};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How much address space a decoder may have, in bytes; less in tests, which reach it sooner so.
const MEMORY_BYTES_MAX: u64 =
    if cfg!(test) { 512 * 1024 * 1024 } else { haft::limits::ISOLATED_MEMORY_BYTES_MAX };
/// How long a decoder may take.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Runs a decoder on `content`. `failure` begins the text of errors: "`a.pdf`, a PDF document, can't be
/// read".
///
/// # Cancel safety
/// Dropping the future kills the child.
pub(crate) async fn decode_isolated<I: Serialize + DeserializeOwned, O: Serialize + DeserializeOwned>(
    failure: &str,
    decoder: IsolatedFunction<I, O>,
    input: &I,
    content: &[u8],
    cx: &Context,
) -> Result<O, ToolError> {
    let name = format!("{failure}: its decoder");
    let run = IsolatedRun::new(&name).with_content(content).with_timeout(TIME_MAX);
    let run = run.with_memory_limit(MEMORY_BYTES_MAX);
    run.run(decoder, input, cx).await.map_err(|error| match error.kind() {
        ErrorKind::Panicked => {
            ToolError::new(format!("{failure}: it is damaged, or has something that can't be read"))
        }
        ErrorKind::TimedOut => ToolError::new(error.message()),
        _ => error,
    })
}

/// What a decoder found: blocks for the model, and a summary for the user.
#[derive(Serialize, Deserialize)]
pub(crate) struct DecoderOutput {
    /// As [`ResultBlock::to_json`] writes them.
    blocks: Vec<Value>,
    summary: String,
}

impl DecoderOutput {
    pub(crate) fn new(blocks: &[ResultBlock], summary: impl Into<String>) -> DecoderOutput {
        DecoderOutput { blocks: blocks.iter().map(ResultBlock::to_json).collect(), summary: summary.into() }
    }

    pub(crate) fn blocks(&self) -> Vec<ResultBlock> {
        self.blocks.iter().filter_map(ResultBlock::from_json).collect()
    }

    pub(crate) fn into_output(self, title: &str) -> ToolOutput {
        let view = CallView::titled(title).summary(&*self.summary);
        ToolOutput::new(self.blocks()).with_view(view)
    }
}
