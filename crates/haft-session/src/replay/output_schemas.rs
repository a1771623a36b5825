//! Whether recorded results have the form that today's tools promise: their output schemas.
//!
//! A program behind a tool may have learned to answer otherwise since; whoever relies on the promise, such as a client of
//! `haft serve`, should hear of it before a model does. What was cut in the middle has no form any more, and isn't asked for it.

use std::collections::BTreeMap;

use haft::EngineBuilder;
use haft::schema::InputSchema;
use serde_json::Value;

use super::recording::{CallRecording, RecordedCall, RecordedOutcome};

/// How many violations of a result are reported.
const FAULTS_MAX: usize = 3;
/// What stands in a result of which a part was shown.
const CUT: &str = "the whole result is in ";

/// The promises of today's tools, by the names that a recording has for them.
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
            // A schema that no value can be held against promises nothing.
            if let Some(schema) = schema.and_then(|schema| InputSchema::of_output(schema).ok()) {
                schemas.insert(recorded.name.clone(), schema);
            }
        }
        OutputSchemas(schemas)
    }

    /// Why a recorded result isn't what today's tool promises; nothing where it is, or where nothing is promised.
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
