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
use crate::ports::Authorizer;
use crate::registry::Entry;
use crate::schema::json::parse_json;
use crate::schema::{Violation, problems};
use crate::tool::AnyTool;

/// Reads the input of one call. `deferred` tools have a schema that the model was not shown: an error carries it.
pub(super) fn read(entry: &Entry, input: CallInput, deferred: bool) -> Result<Attempt, ToolError> {
    read_as(entry.name(), entry.tool(), input, deferred)
}

/// Reads the input of one call of a tool under a name.
pub(super) fn read_as(
    name: &str,
    tool: &AnyTool,
    input: CallInput,
    deferred: bool,
) -> Result<Attempt, ToolError> {
    let refused = |violations: &[Violation]| {
        let mut words = problems(name, violations);
        if deferred {
            words.push_str("\nthe input schema is ");
            words.push_str(&canonical::to_string(tool.input_schema()));
        }
        ToolError::of(ErrorKind::InvalidInput, words)
    };
    let schema = tool.schema();
    let validated = match input {
        // Models leave the arguments of a call without arguments out in different ways.
        CallInput::Text(text) if text.trim().is_empty() => {
            schema.validate(Value::Object(serde_json::Map::new()))
        }
        CallInput::Text(text) => parse_json(&text)
            .map_err(|violation| vec![violation])
            .and_then(|value| schema.validate_bounded(value)),
        CallInput::Value(value) => schema.validate(value),
    };
    let mut value = validated.map_err(|violations| refused(&violations))?;
    let decode = |value: &Value| guarded(|| tool.invoke(value)).map_err(|_| super::panicked(name));
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

impl Attempt {
    /// Takes over what the rules know of a tool that can't say itself what it touches.
    pub(super) fn declare(&mut self, authorizer: &dyn Authorizer, name: &str, tool: &AnyTool) {
        if !self.effects.unknown {
            return;
        }
        if let Ok(Some(effects)) = guarded(|| authorizer.effects(name, tool, &self.input))
            && effects.consistent().is_ok()
        {
            self.effects = Arc::new(effects);
        }
    }
}
