//! What a model receives when a session is resumed: results of calls that an earlier process
//! started, and notes.
//!
//! The program and the simulator both use this code, so the proofs cover what runs. The caller
//! parses the provider's JSON and passes the calls of the message.

use haft::{ResultBlock, ToolCall, ToolError, ToolOutput, ToolResult};

use crate::limits::STRAY_CALLS_MAX;
use crate::record::RecordedBlock;
use crate::recovery::{CallState, RecoveredSession};

impl RecoveredSession {
    /// Returns the known results of the interrupted message's calls: recorded results, and error
    /// texts for calls with unknown outcome. Calls without a result here may be run.
    pub fn results(&self, calls: &[ToolCall]) -> Vec<ToolResult> {
        let mut results: Vec<ToolResult> =
            self.calls.iter().filter_map(|(id, state)| call_result(id, state)).collect();
        if self.is_damaged {
            // A call that is missing in a damaged journal may have run.
            let missing = calls.iter().filter(|call| !self.calls.contains_key(&*call.id));
            results.extend(missing.map(|call| {
                let error = ToolError::new(format!(
                    "whether {} ran is unknown: the journal of the session is damaged. It was not run \
                     again. Look at what is there before you repeat it.",
                    call.name
                ));
                ToolResult::kept(call.id.clone(), call.name.clone(), Err(error))
            }));
        }
        results
    }

    /// Returns notes for the model: changes that the conversation doesn't contain, background tasks
    /// that ended with the old process, and the caller's own lines.
    pub fn resume_notes(&self, more: &[&str]) -> Option<String> {
        // The newest calls matter most.
        let left_out = self.stray.len().saturating_sub(STRAY_CALLS_MAX);
        let damage = self.is_damaged.then(|| {
            "The journal of the session is damaged, and parts of the conversation or of the work are \
             missing here. Look at what is there before you repeat anything."
                .to_owned()
        });
        let older = (left_out > 0)
            .then(|| format!("{left_out} older calls that may have changed something are left out here."));
        let stray = self.stray.iter().skip(left_out).map(ToString::to_string);
        let stray = damage.into_iter().chain(older).chain(stray);
        let tasks = self.tasks.iter().map(|(id, words)| {
            format!(
                "{id} ran in the background and ended with the old process: {words}. It was not \
                     started again."
            )
        });
        let lines: Vec<String> = stray.chain(tasks).collect();
        let was_cut_off = if lines.is_empty() { "" } else { "was cut off and " };
        let lines: Vec<String> =
            lines.into_iter().chain(more.iter().map(|line| (*line).to_owned())).collect();
        if lines.is_empty() {
            return None;
        }
        let list: String = lines.iter().map(|line| format!("\n- {line}")).collect();
        Some(format!("This session {was_cut_off}goes on in a new process.{list}"))
    }
}

fn call_result(id: &str, state: &CallState) -> Option<ToolResult> {
    let (tool, outcome) = match state {
        CallState::Finished { tool, error, blocks } => {
            let content: Vec<ResultBlock> = blocks.iter().cloned().map(RecordedBlock::into_content).collect();
            let outcome = match error {
                None => Ok(ToolOutput::new(content)),
                Some(_) => Err(ToolError::new(join_texts(&content))),
            };
            (tool, outcome)
        }
        CallState::Unknown(started) => (&started.tool, Err(ToolError::new(started.to_string()))),
        CallState::Run => return None,
    };
    Some(ToolResult::kept(id, tool.as_str(), outcome))
}

fn join_texts(content: &[ResultBlock]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        ResultBlock::Text(text) => Some(text.as_ref()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
