//! A text with arguments in it: `src/{file}`.
//!
//! `{name}` is the argument `name` of the call, and has to be one of the tool's `input_schema`; `{{` and `}}` are braces.
//! A list gives one text for each of its items. An argument that isn't given, or is null, gives no text at all: what isn't
//! asked for isn't touched. Whatever else can't be written as text makes the call one that can't be judged, so it is
//! refused, and says which argument and what is accepted.

use haft::schema::Violation;
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

    /// The texts for these arguments, none of which is empty unless it may be.
    ///
    /// # Errors
    /// An argument from which no text can be made.
    pub(super) fn fill(&self, arguments: &Value, may_be_empty: bool) -> Result<Vec<String>, Violation> {
        let mut texts = vec![String::new()];
        for piece in &self.0 {
            let values = match piece {
                Piece::Text(text) => vec![text.clone()],
                Piece::Argument(name) => match arguments.get(name) {
                    None | Some(Value::Null) => return Ok(Vec::new()),
                    Some(Value::Array(items)) => {
                        let each = items.iter().enumerate();
                        let text =
                            |(at, item)| scalar(item, &format!("{}/{at}", pointer(name)), may_be_empty);
                        each.map(text).collect::<Result<_, _>>()?
                    }
                    Some(value) => vec![scalar(value, &pointer(name), may_be_empty)?],
                },
            };
            if texts.len() * values.len() > TEXTS_MAX {
                return Err(self.refused(format!("gives too many texts; at most {TEXTS_MAX} are accepted")));
            }
            texts = texts
                .iter()
                .flat_map(|text| values.iter().map(move |value| format!("{text}{value}")))
                .collect();
        }
        Ok(texts)
    }

    /// Something that is wrong with what the arguments gave, at the first of them.
    pub(super) fn refused(&self, words: String) -> Violation {
        let argument = self.0.iter().find_map(|piece| match piece {
            Piece::Argument(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        });
        Violation::new(argument.map(pointer).unwrap_or_default(), words)
    }
}

fn pointer(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn scalar(value: &Value, at: &str, may_be_empty: bool) -> Result<String, Violation> {
    let what = match value {
        Value::String(text) if text.is_empty() && !may_be_empty => "is empty",
        Value::String(text) => return Ok(text.clone()),
        Value::Number(number) => return Ok(number.to_string()),
        Value::Bool(value) => return Ok(value.to_string()),
        Value::Null => "is null",
        Value::Array(_) => "is an array",
        Value::Object(_) => "is an object",
    };
    let words = format!(
        "{what}, which doesn't say what the call would touch; a string, a number, a boolean or an array of these is accepted"
    );
    Err(Violation::new(at, words))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ACCEPTED: &str = ", which doesn't say what the call would touch; a string, a number, a boolean or an array of these is accepted";
    const ARGUMENTS: [&str; 3] = ["a", "b", "list"];

    #[track_caller]
    fn check(template: &str, arguments: Value, expected: Result<&[&str], &str>) {
        let filled = Template::parse(template, &ARGUMENTS).unwrap().fill(&arguments, false);
        assert_eq!(
            filled.map_err(|violation| violation.to_string()),
            expected
                .map(|texts| texts.iter().map(|text| (*text).to_owned()).collect())
                .map_err(|words| words.replace('…', ACCEPTED)),
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
    fn what_is_no_text_is_refused() {
        check("{a}", json!({"a": {"deep": 1}}), Err("/a: is an object…"));
        check("{a}/", json!({"a": ""}), Err("/a: is empty…"));
        check("{list}", json!({"list": ["x", ""]}), Err("/list/1: is empty…"));
        check("{list}", json!({"list": ["x", null]}), Err("/list/1: is null…"));
        check("{list}", json!({"list": [["x"]]}), Err("/list/0: is an array…"));
        check(
            "{list}{list}",
            json!({"list": vec![1; 40]}),
            Err("/list: gives too many texts; at most 1000 are accepted"),
        );
        let may_be_empty = Template::parse("git log {a}", &ARGUMENTS).unwrap().fill(&json!({"a": ""}), true);
        assert_eq!(may_be_empty, Ok(vec!["git log ".to_owned()]));
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
