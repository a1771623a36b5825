//! Step 2: from the text of a model to an input that the tool can use.
//!
//! JSON first (strict: no duplicate keys, bounded), then the tool's schema, compiled once, then the typed input. The
//! first version that all three accept is kept; every later reader gets that one.

use std::sync::Arc;

use serde_json::Value;

use super::{Attempt, Decoded, effects_of};
use crate::call::CallInput;
use crate::canonical;
use crate::error::{ErrorKind, ToolError};
use crate::future::guarded;
use crate::registry::Entry;
use crate::schema::json::parse_json;
use crate::schema::{Violation, problems};

/// Reads the input of one call. `deferred` tools have a schema that the model was not shown: an error carries it.
pub(super) fn read(entry: &Entry, input: CallInput, deferred: bool) -> Result<Attempt, ToolError> {
    let refused = |violations: &[Violation]| {
        let mut words = problems(entry.name(), violations);
        if deferred {
            words.push_str("\nthe input schema is ");
            words.push_str(&canonical::to_string(entry.tool().input_schema()));
        }
        ToolError::of(ErrorKind::InvalidInput, words)
    };
    let value = match input {
        // Models leave the arguments of a call without arguments out in different ways.
        CallInput::Text(text) if text.trim().is_empty() => Value::Object(serde_json::Map::new()),
        CallInput::Text(text) => parse_json(&text).map_err(|violation| refused(&[violation]))?,
        CallInput::Value(value) => value,
    };
    let tool = entry.tool();
    let mut value = tool.schema().validate(value).map_err(|violations| refused(&violations))?;
    let decode = |value: &Value| guarded(|| tool.invoke(value)).map_err(|_| super::panicked(entry.name()));
    let mut invocation = decode(&value)?;
    if invocation.is_err() {
        // The schema is satisfied but the type isn't: `5.0` for an integer, JSON inside a string.
        if let Some(coerced) = tool.schema().coerced(&value) {
            invocation = decode(&coerced)?;
            value = coerced;
        }
    }
    let invocation = invocation.map_err(|violation| refused(&[violation]))?;
    let effects = effects_of(&*invocation);
    Ok(Attempt { input: Arc::new(value), invocation: Decoded::new(invocation), effects })
}
