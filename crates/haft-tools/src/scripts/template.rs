//! A text with arguments in it: `src/{file}`.
//!
//! `{name}` is the argument `name` of the call, and has to be one of the tool's `input_schema`; `{{` and `}}` are braces.
//! A list gives one text for each of its items. An argument that isn't given, or is null, gives no text at all: what isn't
//! asked for isn't touched. Whatever else can't be written as text gives nothing that could be relied on.

use serde_json::Value;

/// How many texts one template may give for one call.
const TEXTS_MAX: usize = 1_000;

/// A text with arguments in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Argument(String),
}

/// Arguments from which no text can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Untellable;

impl Template {
    /// Reads a template whose arguments are among these.
    pub(super) fn parse(text: &str, arguments: &[&str]) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
                continue;
            }
            let name = (brace == "{").then(|| rest.split_once('}')).flatten();
            let Some((name, after)) = name else {
                return Err(format!(
                    "`{text}` has a single `{brace}`; write `{brace}{brace}` for the character"
                ));
            };
            if !arguments.contains(&name) {
                let known = match arguments {
                    [] => "it has none".to_owned(),
                    known => format!("they are `{}`", known.join("`, `")),
                };
                return Err(format!("`{{{name}}}` is no argument of `input_schema`; {known}"));
            }
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Argument(name.to_owned()));
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() || pieces.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Template(pieces))
    }

    /// The text, if no argument is in it.
    pub(super) fn plain(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The pieces of text between the arguments.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Argument(_) => None,
        })
    }

    /// The texts for these arguments.
    pub(super) fn fill(&self, arguments: &Value) -> Result<Vec<String>, Untellable> {
        let mut texts = vec![String::new()];
        for piece in &self.0 {
            let values = match piece {
                Piece::Text(text) => vec![text.clone()],
                Piece::Argument(name) => match arguments.get(name) {
                    None | Some(Value::Null) => return Ok(Vec::new()),
                    Some(Value::Array(items)) => items.iter().map(scalar).collect::<Result<_, _>>()?,
                    Some(value) => vec![scalar(value)?],
                },
            };
            if texts.len() * values.len() > TEXTS_MAX {
                return Err(Untellable);
            }
            texts = texts
                .iter()
                .flat_map(|text| values.iter().map(move |value| format!("{text}{value}")))
                .collect();
        }
        Ok(texts)
    }
}

fn scalar(value: &Value) -> Result<String, Untellable> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(Untellable),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ARGUMENTS: [&str; 3] = ["a", "b", "list"];

    #[track_caller]
    fn check(template: &str, arguments: Value, expected: Result<&[&str], Untellable>) {
        let filled = Template::parse(template, &ARGUMENTS).unwrap().fill(&arguments);
        assert_eq!(
            filled,
            expected.map(|texts| texts.iter().map(|text| (*text).to_owned()).collect()),
            "{template}"
        );
    }

    #[test]
    fn arguments_become_text() {
        check("src", json!({}), Ok(&["src"]));
        check("{a}", json!({"a": "x"}), Ok(&["x"]));
        check("src/{a}-{b}.txt", json!({"a": "x", "b": 7}), Ok(&["src/x-7.txt"]));
        check("{{{a}}}", json!({"a": true}), Ok(&["{true}"]));
        check("{a}", json!({"a": "{b}"}), Ok(&["{b}"]));
        check("{list}/", json!({"list": ["x", "y"]}), Ok(&["x/", "y/"]));
        check("{list}/{list}", json!({"list": [1, 2]}), Ok(&["1/1", "1/2", "2/1", "2/2"]));
        check("{list}", json!({"list": []}), Ok(&[]));
    }

    #[test]
    fn what_is_not_given_is_not_touched() {
        check("{a}", json!({}), Ok(&[]));
        check("x/{a}", json!({"a": null}), Ok(&[]));
    }

    #[test]
    fn what_is_no_text_can_not_be_relied_on() {
        check("{a}", json!({"a": {"deep": 1}}), Err(Untellable));
        check("{list}", json!({"list": ["x", null]}), Err(Untellable));
        check("{list}", json!({"list": [["x"]]}), Err(Untellable));
        check("{list}{list}", json!({"list": vec![1; 40]}), Err(Untellable));
    }

    #[test]
    fn mistakes_are_found_when_a_tool_is_loaded() {
        let refused = |template: &str| Template::parse(template, &ARGUMENTS).unwrap_err();
        assert_eq!(refused("{c}"), "`{c}` is no argument of `input_schema`; they are `a`, `b`, `list`");
        assert_eq!(refused("{a"), "`{a` has a single `{`; write `{{` for the character");
        assert_eq!(refused("a}"), "`a}` has a single `}`; write `}}` for the character");
        assert_eq!(refused("{}"), "`{}` is no argument of `input_schema`; they are `a`, `b`, `list`");
        assert_eq!(
            Template::parse("{c}", &[]).unwrap_err(),
            "`{c}` is no argument of `input_schema`; it has none"
        );
    }
}
