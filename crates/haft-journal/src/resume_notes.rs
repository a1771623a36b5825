//! What a model is told when a session goes on: the results of calls that an earlier process began, and what it has to know
//! beside them.
//!
//! The program and the simulator both go on with this, so that what is proven is what runs. Which calls a message has is
//! told by whoever can read the provider's JSON.

use haft::{Content, Output, ToolCall, ToolError, ToolResult};

use crate::limits::STRAY_TOLD_MAX;
use crate::record::RecordedBlock;
use crate::recovery::{CallState, RecoveredSession};

impl RecoveredSession {
    /// What is known of these calls, which are those of the message that was cut off: results that were recorded, and words
    /// for those whose outcome nobody knows. Calls without a result here may be run.
    pub fn results(&self, calls: &[ToolCall]) -> Vec<ToolResult> {
        let mut results: Vec<ToolResult> =
            self.calls.iter().filter_map(|(id, state)| result(id, state)).collect();
        if self.is_damaged {
            // What isn't in a damaged journal may have run.
            let missing = calls.iter().filter(|call| !self.calls.contains_key(&*call.id));
            results.extend(missing.map(|call| {
                let error = ToolError::new(format!(
                    "whether {} ran is unknown: the journal of the session is damaged. It was not run again. Look at what \
                     is there before you repeat it.",
                    call.name
                ));
                ToolResult::kept(call.id.clone(), call.name.clone(), Err(error))
            }));
        }
        results
    }

    /// What the model has to know beside its calls: changes that nobody has told it of, what ended with the old process, and
    /// what else there is to say.
    pub fn told(&self, more: &[&str]) -> Option<String> {
        // The newest count most.
        let left_out = self.stray.len().saturating_sub(STRAY_TOLD_MAX);
        let damage = self.is_damaged.then(|| {
            "The journal of the session is damaged, and something that was said or done is missing here. Look at what is there \
             before you repeat anything."
                .to_owned()
        });
        let older = (left_out > 0)
            .then(|| format!("{left_out} older calls that may have changed something are left out here."));
        let stray = self.stray.iter().skip(left_out).map(ToString::to_string);
        let stray = damage.into_iter().chain(older).chain(stray);
        let tasks = self.tasks.iter().map(|(id, words)| {
            format!("{id} ran in the background and ended with the old process: {words}. It was not started again.")
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

fn result(id: &str, state: &CallState) -> Option<ToolResult> {
    let (tool, outcome) = match state {
        CallState::Finished { tool, error, blocks } => {
            let content: Vec<Content> = blocks.iter().cloned().map(RecordedBlock::into_content).collect();
            let outcome = match error {
                None => Ok(Output::new(content)),
                Some(_) => Err(ToolError::new(text(&content))),
            };
            (tool, outcome)
        }
        CallState::Unknown(started) => (&started.tool, Err(ToolError::new(started.to_string()))),
        CallState::Run => return None,
    };
    Some(ToolResult::kept(id, tool.as_str(), outcome))
}

fn text(content: &[Content]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        Content::Text(text) => Some(text.as_ref()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
