//! From the text a model sent to the value a tool takes.
//!
//! The way is: `json` makes a value of the text, [`InputSchema::validate`] holds it against the schema,
//! [`decode_input`] makes the typed input. Each step either succeeds or says, in [`InputViolation`]s, which
//! field is wrong, what came and what is accepted; [`describe_violations`] writes them as the one message
//! that the model reads.
//!
//! There are two sources of schemas and they are trusted differently. Those derived from a Rust
//! type are ours: they are closed, inlined and bounded in `derive`. Those known only at run time
//! are used exactly as given, after `bounds` made sure that they are small, stay in their
//! document and cannot be made to run for ever. Nothing here opens a file or a connection.
//!
//! Inputs with the right content in the wrong dress (`5.0` for `5`, an object inside a string) are
//! understood, but only after the strict reading failed: the common case pays nothing for them.

mod accepted;
mod bounds;
mod coerce;
mod derive;
mod explain;
pub(crate) mod json;
mod places;
mod show;

use std::fmt;
use std::sync::{Arc, OnceLock};

use jsonschema::{PatternOptions, Validator, error::ValidationErrorKind};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

pub use self::derive::derive_output;
pub use self::json::parse_json;
use self::show::{escape_pointer, shorten_text};
use crate::limits::{
    INPUT_DEPTH_MAX, PATTERN_BYTES_MAX, VIOLATION_CHARS_MAX, VIOLATION_PATH_CHARS_MAX, VIOLATIONS_MAX,
};
use crate::view::visible_line;

/// One thing that is wrong with an input, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InputViolation {
    path: String,
    message: String,
}

impl InputViolation {
    /// Returns a violation at a JSON pointer; the empty pointer is the whole input.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> InputViolation {
        InputViolation { path: path.into(), message: message.into() }
    }

    /// Returns the JSON pointer to the offending place; empty for the whole input.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns what is wrong and what is accepted.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for InputViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError {
    path: String,
    message: String,
}

impl SchemaError {
    fn new(message: impl Into<String>) -> SchemaError {
        SchemaError::at("", message)
    }

    fn at(path: &str, message: impl Into<String>) -> SchemaError {
        SchemaError { path: path.to_owned(), message: message.into() }
    }

    /// Returns the JSON pointer to the offending part of the schema; empty for the whole.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(
                f,
                "at `{}`: {}",
                shorten_text(&visible_line(&self.path), VIOLATION_PATH_CHARS_MAX),
                self.message
            )
        }
    }
}

impl std::error::Error for SchemaError {}

/// The schema of a tool's input: what is sent to a model, and the validator made from it.
///
/// Cheap to clone; all clones share one validator. That of a schema known only at run time is made once to
/// see that it can be made, and again when the first input comes: there may be thousands of such tools, few
/// are ever called, and a validator takes ten times the room of its schema.
#[derive(Clone)]
pub struct InputSchema {
    inner: Arc<CompiledSchema>,
}

struct CompiledSchema {
    raw: Value,
    description: Option<String>,
    validator: OnceLock<Validator>,
    explained_depth: usize,
}

impl CompiledSchema {
    fn validator(&self) -> &Validator {
        self.validator.get_or_init(|| build_validator(&self.raw).expect("it could be made before"))
    }
}

impl InputSchema {
    /// Returns the schema of a Rust type: inlined, closed, with bounded integers.
    ///
    /// Unknown fields are refused even though serde would ignore them. Names given only by
    /// `#[serde(alias)]` are unknown, because `schemars` does not know them.
    ///
    /// # Errors
    /// When the type is not read from a JSON object.
    pub fn derive<T: JsonSchema>() -> Result<InputSchema, SchemaError> {
        let (raw, description) = derive::input_schema::<T>()?;
        InputSchema::compile(raw, description, RetainedForm::Validator)
    }

    /// Returns a schema known only at run time, used exactly as given.
    ///
    /// # Errors
    /// When it is no valid schema, is too large or too deep (also once its `$ref`s are followed),
    /// refers to another document, has a pattern that needs backtracking, or accepts no object.
    pub fn given(schema: Value) -> Result<InputSchema, SchemaError> {
        InputSchema::compile(schema, None, RetainedForm::Schema)
    }

    /// Returns a schema known only at run time of what a tool gives back: any type may stand at its root.
    ///
    /// # Errors
    /// As [`given`](InputSchema::given), but for the object.
    pub fn of_output(schema: Value) -> Result<InputSchema, SchemaError> {
        InputSchema::compile_any(schema, None, RetainedForm::Schema)
    }

    /// Holds a value against the schema exactly as it is, and says what is wrong with it; nothing if it fits.
    pub fn violations(&self, value: &Value) -> Vec<InputViolation> {
        if let Err(violations) = check_depth(value) {
            return violations;
        }
        let inner = &*self.inner;
        if inner.validator().is_valid(value) {
            return Vec::new();
        }
        let mut violations =
            explain::explain_violations(&inner.raw, inner.validator(), inner.explained_depth, value);
        if violations.is_empty() {
            violations.push(InputViolation::new("", "the value does not fit the schema"));
        }
        violations
    }

    fn compile(
        raw: Value,
        description: Option<String>,
        keep: RetainedForm,
    ) -> Result<InputSchema, SchemaError> {
        let schema = InputSchema::compile_any(raw, description, keep)?;
        let raw = &schema.inner.raw;
        if !places::accepted_types(raw, raw).meets(places::TypeSet::OBJECT) {
            return Err(SchemaError::new(
                "the schema accepts no object; the root has to accept `type: object`",
            ));
        }
        Ok(schema)
    }

    fn compile_any(
        raw: Value,
        description: Option<String>,
        keep: RetainedForm,
    ) -> Result<InputSchema, SchemaError> {
        let facts = bounds::check_bounds(&raw)?;
        if !matches!(raw, Value::Object(_) | Value::Bool(_)) {
            return Err(SchemaError::new(format!(
                "the schema is {}; a JSON object is accepted",
                show::shorten_value(&raw)
            )));
        }
        let made = build_validator(&raw).map_err(|error| match error.kind() {
            ValidationErrorKind::Referencing(_) => {
                bounds::dangling_reference(&raw).unwrap_or_else(|| schema_error(&error))
            }
            _ => schema_error(&error),
        })?;
        let validator = match keep {
            RetainedForm::Validator => OnceLock::from(made),
            RetainedForm::Schema => OnceLock::new(),
        };
        Ok(InputSchema {
            inner: Arc::new(CompiledSchema {
                raw,
                description,
                validator,
                explained_depth: facts.explained_depth,
            }),
        })
    }

    /// Returns the schema as it is sent to a model.
    pub fn as_value(&self) -> &Value {
        &self.inner.raw
    }

    /// Returns the doc comment of a derived type. It is taken out of the schema.
    pub fn description(&self) -> Option<&str> {
        self.inner.description.as_deref()
    }

    /// Holds an input against the schema and gives it back, untouched if it fits.
    ///
    /// An input that does not fit is coerced where that is unambiguous, see [`Self::coerced`]. What is not an
    /// object does not fit, whatever the schema says: the arguments of a call are one.
    ///
    /// # Errors
    /// The problems of the input, by path, at least one.
    pub fn validate(&self, input: Value) -> Result<Value, Vec<InputViolation>> {
        check_depth(&input)?;
        self.validate_bounded(input)
    }

    /// [`validate`](InputSchema::validate) for an input whose depth was checked before, as that of parsed
    /// text.
    pub(crate) fn validate_bounded(&self, input: Value) -> Result<Value, Vec<InputViolation>> {
        let inner = &*self.inner;
        if inner.validator().is_valid(&input) {
            return require_object(input);
        }
        let input = match coerce::coerce_input(&inner.raw, &input) {
            None => input,
            Some(coerced) => {
                check_depth(&coerced)?;
                if inner.validator().is_valid(&coerced) {
                    return require_object(coerced);
                }
                // What is still wrong is easier to see without the dress.
                coerced
            }
        };
        let mut violations =
            explain::explain_violations(&inner.raw, inner.validator(), inner.explained_depth, &input);
        if violations.is_empty() {
            violations.push(InputViolation::new("", "the input does not fit the schema"));
        }
        Err(violations)
    }

    /// Returns the input with integral floats as integers, JSON in strings as JSON and without the nulls that
    /// stand for what was left out, where the schema wants that. `None` if nothing changed or the result does
    /// not fit.
    ///
    /// JSON Schema takes `5.0` for an integer and serde does not, so a valid input can still fail
    /// to decode; this is what to try then.
    pub fn coerced(&self, input: &Value) -> Option<Value> {
        check_depth(input).ok()?;
        let coerced = coerce::coerce_input(&self.inner.raw, input)?;
        check_depth(&coerced).ok()?;
        self.inner.validator().is_valid(&coerced).then_some(coerced)
    }
}

impl fmt::Debug for InputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InputSchema").field(&self.inner.raw).finish()
    }
}

/// What is kept of a schema until the first input comes.
enum RetainedForm {
    Validator,
    Schema,
}

fn build_validator(raw: &Value) -> Result<Validator, jsonschema::ValidationError<'static>> {
    let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
    jsonschema::options().offline().with_pattern_options(patterns).build(raw)
}

/// The input if it is an object.
fn require_object(input: Value) -> Result<Value, Vec<InputViolation>> {
    if input.is_object() {
        return Ok(input);
    }
    let message = format!("{} came; a JSON object is accepted", show::shorten_value(&input));
    Err(vec![InputViolation::new("", message)])
}

fn check_depth(input: &Value) -> Result<(), Vec<InputViolation>> {
    if !bounds::depth_over(input, INPUT_DEPTH_MAX) {
        return Ok(());
    }
    let message =
        format!("nested too deep; at most {INPUT_DEPTH_MAX} objects and arrays may be inside one another");
    Err(vec![InputViolation::new("", message)])
}

/// Turns the compiler's refusal of a schema into words.
fn schema_error(error: &jsonschema::ValidationError<'_>) -> SchemaError {
    // A schema that breaks its meta-schema is the instance; one that breaks in compilation has its
    // place in the schema path.
    let instance = error.instance_path().as_str();
    let path = if instance.is_empty() { error.schema_path().as_str() } else { instance };
    match error.kind() {
        ValidationErrorKind::Format { format } if format == "regex" => SchemaError::at(
            path,
            format!(
                "the pattern {} is not accepted; regular expressions without look-around and back-references are, up to {PATTERN_BYTES_MAX} bytes compiled",
                show::shorten_value(error.instance())
            ),
        ),
        ValidationErrorKind::Referencing(error) => {
            SchemaError::at(path, shorten_text(&error.to_string(), 200))
        }
        _ => SchemaError::at(
            path,
            format!("not a valid schema: {}", shorten_text(&visible_line(&error.to_string()), 200)),
        ),
    }
}

/// Says what is wrong with a text that is no JSON, and where, in the words that a model reads of its
/// arguments.
///
/// ```
/// let error = serde_json::from_str::<serde_json::Value>("{a: 1}").unwrap_err();
/// assert_eq!(haft::schema::not_json(&error), "expected a key in double quotes at line 1 column 2");
/// ```
pub fn not_json(error: &serde_json::Error) -> String {
    format!("{} at line {} column {}", json::describe_error(error), error.line(), error.column())
}

/// Makes the typed input of a value that fits the schema.
///
/// # Errors
/// What serde still objects to, with the path of the place.
pub fn decode_input<T: DeserializeOwned>(input: &Value) -> Result<T, InputViolation> {
    T::deserialize(input).or_else(|_| decode_again(input))
}

/// The second attempt pays for a path, which only a failure needs.
#[cold]
fn decode_again<T: DeserializeOwned>(input: &Value) -> Result<T, InputViolation> {
    // A unit struct is `null` to serde and `{}` to a model.
    if input.as_object().is_some_and(serde_json::Map::is_empty)
        && let Ok(unit) = T::deserialize(&Value::Null)
    {
        return Ok(unit);
    }
    serde_path_to_error::deserialize(input).map_err(|error| {
        let mut path = String::new();
        for segment in error.path() {
            let step = match segment {
                Segment::Seq { index } => index.to_string(),
                Segment::Map { key } => key.clone(),
                // A variant is a step only where it is a key of the input.
                Segment::Enum { variant } => {
                    match input.pointer(&path).and_then(|value| value.get(variant.as_str())) {
                        Some(_) => variant.clone(),
                        None => continue,
                    }
                }
                Segment::Unknown => break,
            };
            path.push('/');
            path.push_str(&escape_pointer(&step));
        }
        InputViolation::new(path, error.inner().to_string())
    })
}

/// Writes the problems of an input as one message for the model that made them.
///
/// ```
/// use haft::schema::{InputViolation, describe_violations};
///
/// let violations = [InputViolation::new("/pattern", "missing; a string is required")];
/// assert_eq!(
///     describe_violations("Grep", &violations),
///     "invalid input for Grep (1 problem):\n  /pattern   missing; a string is required\nfix this field and call Grep again"
/// );
/// ```
pub fn describe_violations(tool: &str, violations: &[InputViolation]) -> String {
    let rows: Vec<(String, String)> = violations
        .iter()
        .take(VIOLATIONS_MAX)
        .map(|violation| {
            let path = if violation.path.is_empty() { "(input)" } else { &violation.path };
            let path = shorten_text(&visible_line(path), VIOLATION_PATH_CHARS_MAX);
            (path, shorten_text(&visible_line(&violation.message), VIOLATION_CHARS_MAX))
        })
        .collect();
    // One long path should not push all the others to the right.
    let width = rows.iter().map(|(path, _)| path.chars().count()).max().unwrap_or_default().min(40);

    let (problems, these) =
        if violations.len() == 1 { ("problem", "this field") } else { ("problems", "these fields") };
    let mut text = format!("invalid input for {tool} ({} {problems}):\n", violations.len());
    for (path, message) in &rows {
        text.push_str(&format!("  {path:width$}   {message}\n"));
    }
    if violations.len() > rows.len() {
        text.push_str(&format!("  and {} more\n", violations.len() - rows.len()));
    }
    text.push_str(&format!("fix {these} and call {tool} again"));
    text
}

#[cfg(test)]
#[path = "schema/schema_tests.rs"]
mod tests;
