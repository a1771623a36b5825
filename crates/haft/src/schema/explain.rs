//! Why an input was refused, in the words of someone who wants it to succeed next time.
//!
//! The validator knows which keyword failed; the message is made from that, the offending value,
//! and what the schema accepts at that place. Alternatives get special care, because "matches none
//! of the given schemas" helps nobody: where one branch is evidently meant, its problems are told.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::Value;

use super::InputViolation;
use super::accepted::{describe_accepted, join_words};
use super::bounds::{IN_PLACE_LISTS, depth_over};
use super::show::{escape_pointer, nearest_name, resolve_reference, shorten_text, shorten_value};
use crate::limits::{VALUE_CHARS_MAX, VIOLATION_NODES_MAX};

/// Returns the problems of an input that the validator refused, by path and without duplicates.
pub(super) fn explain_violations(
    root: &Value,
    validator: &jsonschema::Validator,
    explained_depth: usize,
    input: &Value,
) -> Vec<InputViolation> {
    let mut violations = Vec::new();
    if depth_over(input, explained_depth) {
        let message = format!(
            "{} does not fit the schema; {} is accepted",
            shorten_value(input),
            describe_accepted(root, root)
        );
        violations.push(InputViolation::new("", message));
    } else if count_over(input, &mut { VIOLATION_NODES_MAX }) {
        if let Err(error) = validator.validate(input) {
            add_violations(root, &error, &mut violations);
        }
    } else {
        for error in validator.iter_errors(input) {
            add_violations(root, &error, &mut violations);
        }
    }
    violations.sort();
    violations.dedup();
    violations
}

fn count_over(value: &Value, room: &mut usize) -> bool {
    if *room == 0 {
        return true;
    }
    *room -= 1;
    match value {
        Value::Array(items) => items.iter().any(|item| count_over(item, room)),
        Value::Object(fields) => fields.values().any(|field| count_over(field, room)),
        _ => false,
    }
}

fn add_violations(root: &Value, error: &ValidationError<'_>, violations: &mut Vec<InputViolation>) {
    let path = error.instance_path().as_str();
    let value: &Value = error.instance();
    let place = schema_at(root, error);
    let wanted =
        || place.map_or_else(|| "something else".to_owned(), |schema| describe_accepted(root, schema));
    let mut say = |message: String| violations.push(InputViolation::new(path, message));
    let off = |what: &str| format!("{} is {what}; {} is accepted", shorten_value(value), wanted());

    match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let schema = place.and_then(|place| place.get("properties")?.get(name));
            let wanted =
                schema.map_or_else(|| "a value".to_owned(), |schema| describe_accepted(root, schema));
            violations
                .push(InputViolation::new(child_path(path, name), format!("missing; {wanted} is required")));
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let known = place.map(|place| property_names(root, place)).unwrap_or_default();
            for name in unexpected {
                violations.push(InputViolation::new(child_path(path, name), unknown_field(name, &known)));
            }
        }
        Kind::Type { .. } => say(match value {
            Value::Null => format!("null is not accepted; {} is", wanted()),
            _ => off(kind_of(value)),
        }),
        Kind::Enum { .. } | Kind::Constant { .. } => {
            say(format!("{} is not accepted; {} is", shorten_value(value), wanted()));
        }
        Kind::Minimum { .. } | Kind::ExclusiveMinimum { .. } => say(off("too small")),
        Kind::Maximum { .. } | Kind::ExclusiveMaximum { .. } => say(off("too large")),
        Kind::MinLength { .. } => say(off("too short")),
        Kind::MaxLength { .. } => say(off("too long")),
        Kind::MinItems { limit } => say(count_items(value, *limit, "at least")),
        Kind::MaxItems { limit } => say(count_items(value, *limit, "at most")),
        Kind::AdditionalItems { limit } => {
            say(count_items(value, u64::try_from(*limit).unwrap_or(u64::MAX), "at most"))
        }
        Kind::MinProperties { limit } => say(count_fields(value, *limit, "at least")),
        Kind::MaxProperties { limit } => say(count_fields(value, *limit, "at most")),
        Kind::UniqueItems => say("the items repeat; each may appear once".to_owned()),
        Kind::MultipleOf { multiple_of } => say(off(&format!("not a multiple of {multiple_of}"))),
        Kind::Pattern { pattern } => say(format!(
            "{} does not match; a string that matches `{}` is accepted",
            shorten_value(value),
            shorten_text(pattern, VALUE_CHARS_MAX)
        )),
        Kind::Format { format } => say(format!(
            "{} is not in the format {}; a string in that format is accepted",
            shorten_value(value),
            shorten_text(format, VALUE_CHARS_MAX)
        )),
        Kind::PropertyNames { error } => {
            let name = error.instance().as_str().unwrap_or_default();
            let wanted = schema_at(root, error)
                .map_or_else(|| "another name".to_owned(), |schema| describe_accepted(root, schema));
            violations.push(InputViolation::new(
                child_path(path, name),
                format!("the name is not accepted; {wanted} is"),
            ));
        }
        Kind::FalseSchema => say("not accepted here; leave it out".to_owned()),
        Kind::Contains => say(format!("no item of {} is the one that is required", shorten_value(value))),
        Kind::Not { .. } => {
            say(format!("{} is excluded by the schema; give another value", shorten_value(value)))
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            add_alternatives(root, place, error, context, violations);
        }
        Kind::OneOfMultipleValid { .. } => say(format!(
            "{} fits several alternatives; exactly one of them is accepted: {}",
            shorten_value(value),
            wanted()
        )),
        _ => say(shorten_text(&error.to_string(), 200)),
    }
}

/// The schema that holds the failing keyword.
fn schema_at<'s>(root: &'s Value, error: &ValidationError<'_>) -> Option<&'s Value> {
    let path = error.schema_path().as_str();
    root.pointer(path.rsplit_once('/').map_or("", |(schema, _)| schema))
}

fn child_path(path: &str, name: &str) -> String {
    format!("{path}/{}", escape_pointer(name))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn count_items(value: &Value, limit: u64, bound: &str) -> String {
    too_many_or_few(value.as_array().map_or(0, Vec::len), "item", limit, bound)
}

fn count_fields(value: &Value, limit: u64, bound: &str) -> String {
    too_many_or_few(value.as_object().map_or(0, serde_json::Map::len), "field", limit, bound)
}

fn too_many_or_few(count: usize, what: &str, limit: u64, bound: &str) -> String {
    let (s, are) = (if count == 1 { "" } else { "s" }, if limit == 1 { "is" } else { "are" });
    format!("has {count} {what}{s}; {bound} {limit} {are} accepted")
}

fn unknown_field(name: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return "unknown field; no fields are accepted here".to_owned();
    }
    let words: Vec<String> = known.iter().map(|name| shorten_text(name, VALUE_CHARS_MAX)).collect();
    let accepted = join_words(&words, ", ");
    match nearest_name(name, known.iter().copied()) {
        Some(near) => {
            format!(
                "unknown field; did you mean `{}`? accepted: {accepted}",
                shorten_text(near, VALUE_CHARS_MAX)
            )
        }
        None => format!("unknown field; accepted: {accepted}"),
    }
}

/// The names of the fields that a schema declares, here and in what applies in place.
fn property_names<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s str> {
    fn collect<'s>(root: &'s Value, schema: &'s Value, hops: usize, names: &mut Vec<&'s str>) {
        names.extend(
            schema
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
                .map(|(name, _)| name.as_str()),
        );
        if hops == 0 || names.len() > 1000 {
            return;
        }
        if let Some(target) = schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|reference| resolve_reference(root, reference))
        {
            collect(root, target, hops - 1, names);
        }
        for branch in IN_PLACE_LISTS.iter().filter_map(|key| schema.get(*key)?.as_array()).flatten() {
            collect(root, branch, hops - 1, names);
        }
    }
    let mut all = Vec::new();
    collect(root, schema, 4, &mut all);
    all.sort_unstable();
    all.dedup();
    all
}

/// Explains a value that fits none of several alternatives, each with its own errors.
fn add_alternatives(
    root: &Value,
    place: Option<&Value>,
    error: &ValidationError<'_>,
    branches: &[Vec<ValidationError<'static>>],
    violations: &mut Vec<InputViolation>,
) {
    let path = error.instance_path().as_str();
    let value: &Value = error.instance();
    let here = |error: &ValidationError<'_>| error.instance_path().as_str() == path;
    let typed: Vec<&Vec<_>> = branches
        .iter()
        .filter(|errors| {
            let wrong_type = |error: &ValidationError<'_>| {
                here(error)
                    && matches!(error.kind(), Kind::Type { .. } | Kind::Enum { .. } | Kind::Constant { .. })
            };
            !errors.is_empty() && !errors.iter().any(wrong_type)
        })
        .collect();

    // A tag that names no branch, or no tag at all.
    let tags: Option<Vec<(String, &Value)>> =
        typed.iter().map(|errors| union_tag(root, path, errors)).collect();
    if let Some([(first, _), rest @ ..]) = tags.as_deref()
        && rest.iter().all(|(path, _)| path == first)
        && !rest.is_empty()
    {
        let words: Vec<String> = tags.iter().flatten().map(|(_, constant)| shorten_value(constant)).collect();
        let choice = format!("one of {}", join_words(&words, ", "));
        let name = first.strip_prefix(path).unwrap_or(first);
        violations.push(match value.pointer(name) {
            Some(found) => InputViolation::new(
                first.as_str(),
                format!("{} is not accepted; {choice} is", shorten_value(found)),
            ),
            None => InputViolation::new(first.as_str(), format!("missing; {choice} is required")),
        });
        return;
    }

    // The one branch that is evidently meant: of the right type, or with the right tag, or with the
    // right fields.
    let tagged: Vec<&Vec<_>> =
        typed.iter().copied().filter(|errors| union_tag(root, path, errors).is_none()).collect();
    let misfit = |error: &ValidationError<'_>| {
        here(error) && matches!(error.kind(), Kind::Required { .. } | Kind::AdditionalProperties { .. })
    };
    let fitting: Vec<&Vec<_>> = tagged.iter().copied().filter(|errors| !errors.iter().any(misfit)).collect();
    let meant = [&typed, &tagged, &fitting].into_iter().find_map(|errors| match errors.as_slice() {
        [only] => Some(*only),
        _ => None,
    });
    if let Some(errors) = meant {
        errors.iter().for_each(|error| add_violations(root, error, violations));
        return;
    }
    let wanted = place.map_or_else(
        || "another value".to_owned(),
        |schema| {
            let keyword = if matches!(error.kind(), Kind::AnyOf { .. }) { "anyOf" } else { "oneOf" };
            let alone = serde_json::json!({keyword: schema.get(keyword)});
            describe_accepted(root, &alone)
        },
    );
    violations
        .push(InputViolation::new(path, format!("{} is not accepted; {wanted} is", shorten_value(value))));
}

/// The constant field that keeps a branch from fitting: its path and the value it has to have.
fn union_tag<'e>(
    root: &'e Value,
    path: &str,
    errors: &'e [ValidationError<'static>],
) -> Option<(String, &'e Value)> {
    errors.iter().find_map(|error| match error.kind() {
        Kind::Constant { expected_value } => {
            let at = error.instance_path().as_str();
            let step = at.strip_prefix(path)?.strip_prefix('/')?;
            (!step.contains('/')).then(|| (at.to_owned(), &**expected_value))
        }
        Kind::Required { property } if error.instance_path().as_str() == path => {
            let name = property.as_str()?;
            let constant = schema_at(root, error)?.get("properties")?.get(name)?.get("const")?;
            Some((child_path(path, name), constant))
        }
        _ => None,
    })
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
