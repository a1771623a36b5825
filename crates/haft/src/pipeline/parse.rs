//! Step 2: from the text of a model to an input that the tool can use.
//!
//! JSON first (strict: no duplicate keys, bounded), then the tool's schema, compiled once, then the typed
//! input. The first version that all three accept is kept; every later reader gets that one.

use std::sync::Arc;

use serde_json::Value;

use super::{CallAttempt, DecodedInput, effects_of};
use crate::call::CallInput;
use crate::canonical;
use crate::error::{ErrorKind, ToolError};
use crate::future::catch_panic;
use crate::ports::Authorizer;
use crate::registry::RegisteredTool;
use crate::schema::json::parse_json;
use crate::schema::{InputViolation, describe_violations};
use crate::tool::AnyTool;

/// Reads the input of one call. `deferred` tools have a schema that the model was not shown: an error carries
/// it.
pub(super) fn parse_input(
    entry: &RegisteredTool,
    input: CallInput,
    deferred: bool,
) -> Result<CallAttempt, ToolError> {
    read_as(entry.name(), entry.tool(), input, deferred)
}

/// Reads the input of one call of a tool under a name.
pub(super) fn read_as(
    name: &str,
    tool: &AnyTool,
    input: CallInput,
    deferred: bool,
) -> Result<CallAttempt, ToolError> {
    let refused = |violations: &[InputViolation]| {
        let mut words = describe_violations(name, violations);
        if deferred {
            words.push_str("\nthe input schema is ");
            words.push_str(&canonical::to_string(tool.input_schema()));
        }
        ToolError::with_kind(ErrorKind::InvalidInput, words)
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
    let decode = |value: &Value| catch_panic(|| tool.invoke(value)).map_err(|_| super::panic_error(name));
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
    Ok(CallAttempt { input: Arc::new(value), invocation: DecodedInput::new(invocation), effects })
}

impl CallAttempt {
    /// Takes over what the rules know of a tool that can't say itself what it touches.
    pub(super) fn take_rule_effects(&mut self, authorizer: &dyn Authorizer, name: &str, tool: &AnyTool) {
        if !self.effects.unknown {
            return;
        }
        if let Ok(Some(effects)) = catch_panic(|| authorizer.effects(name, tool, &self.input))
            && effects.consistent().is_ok()
        {
            self.effects = Arc::new(effects);
        }
    }
}
