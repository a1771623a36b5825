//! Checks recorded results against the output schemas of the current tools.
//!
//! The program behind a tool may have changed its output since. A client that relies on the schema, such as
//! a client of `haft serve`, should learn of it before a model does. A truncated result has no valid form
//! any more, so it isn't checked.

use std::collections::BTreeMap;

use haft::EngineBuilder;
use haft::schema::InputSchema;
use serde_json::Value;

use super::recording::{CallRecording, RecordedCall, RecordedOutcome};

/// The maximum number of reported violations of a result.
const FAULTS_MAX: usize = 3;
/// The text that marks a truncated result.
const CUT: &str = "the whole result is in ";

/// The output schemas of the current tools, by their names in a recording.
pub(super) struct OutputSchemas(BTreeMap<String, InputSchema>);

impl OutputSchemas {
    pub(super) fn new(engine: &EngineBuilder, recording: &CallRecording) -> OutputSchemas {
        let snapshot = engine.snapshot();
        let mut schemas = BTreeMap::new();
        for recorded in &recording.calls {
            if schemas.contains_key(&recorded.name) {
                continue;
            }
            let schema =
                snapshot.find(&recorded.name).ok().and_then(|found| found.tool().output_schema().cloned());
            // A schema that can't be compiled is ignored.
            if let Some(schema) = schema.and_then(|schema| InputSchema::of_output(schema).ok()) {
                schemas.insert(recorded.name.clone(), schema);
            }
        }
        OutputSchemas(schemas)
    }

    /// Returns why a recorded result violates the current output schema; `None` if it conforms, or if there
    /// is no schema.
    pub(super) fn violation(&self, recorded: &RecordedCall) -> Option<String> {
        let (schema, text) = (self.0.get(&recorded.name)?, recorded.text.as_deref()?);
        if recorded.outcome != RecordedOutcome::Ran || text.contains(CUT) {
            return None;
        }
        let Ok(value) = serde_json::from_str::<Value>(text) else {
            return Some(
                "the recorded result is no JSON, and the tool promises a value of its output schema"
                    .to_owned(),
            );
        };
        let faults: Vec<String> =
            schema.violations(&value).iter().take(FAULTS_MAX).map(ToString::to_string).collect();
        (!faults.is_empty()).then(|| {
            format!("the recorded result does not fit the tool's output schema: {}", faults.join("; "))
        })
    }
}
