//! Effects declared as data, for tools that can't say in code what they touch: `{"reads": ["src/{file}"]}`.
//!
//! `{name}` is the argument `name` of the call; `{{` and `}}` are braces. A list gives one text for each of its items. An
//! argument that isn't given, or is null, gives no text at all: what isn't asked for isn't touched. Whatever else can't be
//! written as text makes the call one that can't be judged, and says which argument and what is accepted.
//!
//! Script tools declare so for themselves, and users in settings for tools that declare nothing.

use serde_json::Value;

use super::{Access, Effects, PathSet};
use crate::schema::Violation;

/// What a declaration says, as it was written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lists<'a> {
    /// Files that are read; `/` or `/**` at the end means everything below a folder.
    pub reads: &'a [String],
    /// Files that are created or changed.
    pub writes: &'a [String],
    /// Files that are removed.
    pub deletes: &'a [String],
    /// Commands that are run.
    pub runs: &'a [String],
    /// Hosts that are reached: `HOST`, or `change HOST`.
    pub reaches: &'a [String],
}

/// Effects with arguments in them, read.
///
/// ```
/// use haft::Effects;
/// use haft::effects::template::{Declaration, Lists};
/// use serde_json::json;
///
/// let writes = ["out/{name}.txt".to_owned()];
/// let lists = Lists { writes: &writes, ..Lists::default() };
/// let declaration = Declaration::read(&lists, None, &mut |place, words| panic!("{place}: {words}"));
/// assert_eq!(declaration.effects(&json!({"name": "a"})), Ok(Effects::writes("out/a.txt")));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declaration {
    reads: Vec<Template>,
    writes: Vec<Template>,
    deletes: Vec<Template>,
    runs: Vec<Template>,
    reaches: Vec<(Access, Template)>,
}

/// Reads one entry: a template, and whether it only looks.
type Read<'a> = dyn Fn(&str) -> Result<(Access, Template), String> + 'a;

impl Declaration {
    /// Reads a declaration for a tool with these arguments, or with any; says what is wrong by list and place in it, as in
    /// `reads/0`. What is wrong is left out.
    pub fn read(
        lists: &Lists<'_>,
        arguments: Option<&[&str]>,
        wrong: &mut dyn FnMut(&str, String),
    ) -> Declaration {
        let mut each = |field: &str, texts: &[String], read: &Read<'_>| {
            let mut templates = Vec::new();
            for (at, text) in texts.iter().enumerate() {
                match read(text) {
                    Ok(template) => templates.push(template),
                    Err(words) => wrong(&format!("{field}/{at}"), words),
                }
            }
            templates
        };
        let path = |text: &str| {
            let template = Template::parse(text, arguments)?;
            if text == "~" || text.starts_with("~/") {
                return Err(format!("`{text}`: `~` is not expanded; give the whole path"));
            }
            let stars = text.strip_suffix("/**").unwrap_or(text).contains('*');
            if stars && template.texts().any(|text| text.contains('*')) {
                return Err(format!(
                    "`{text}`: a `*` is understood only in `/**` at the end, for a whole folder"
                ));
            }
            Ok((Access::Observe, template))
        };
        let plain = |text: &str| Ok((Access::Observe, Template::parse(text, arguments)?));
        let reach = |text: &str| reach(text, arguments);
        let only = |templates: Vec<(Access, Template)>| templates.into_iter().map(|(_, one)| one).collect();
        Declaration {
            reads: only(each("reads", lists.reads, &path)),
            writes: only(each("writes", lists.writes, &path)),
            deletes: only(each("deletes", lists.deletes, &path)),
            runs: only(each("runs", lists.runs, &plain)),
            reaches: each("reaches", lists.reaches, &reach),
        }
    }

    /// Everything in the working directory is read, and nothing else done.
    pub fn reads_all() -> Declaration {
        let here = Template(vec![Piece::Text("./".to_owned())]);
        Declaration { reads: vec![here], ..Declaration::default() }
    }

    /// What one call touches.
    ///
    /// # Errors
    /// An argument that doesn't say what the call would touch: anything may happen.
    pub fn effects(&self, arguments: &Value) -> Result<Effects, Violation> {
        let mut effects = Effects::none();
        effects.reads = paths(&self.reads, arguments)?;
        effects.writes = paths(&self.writes, arguments)?;
        effects.deletes = paths(&self.deletes, arguments)?;
        for template in &self.runs {
            for text in template.fill(arguments, true)? {
                effects = effects.and(Effects::runs(text));
            }
        }
        for (access, template) in &self.reaches {
            for text in template.fill(arguments, false)? {
                let no_host = || {
                    let shown: String = text.chars().take(TEXT_SHOWN_CHARS).collect();
                    template.refused(format!(
                        "`{shown}` has no host; a host's name, its address or a URL is accepted"
                    ))
                };
                effects = effects.and(reached(*access, host(&text).ok_or_else(no_host)?.to_owned()));
            }
        }
        Ok(effects)
    }

    /// Effects of the same shape, whatever the arguments.
    pub fn sample(&self) -> Effects {
        let some = |count: usize| vec![PathSet::file("x"); count];
        let mut effects = Effects::none();
        effects.reads = some(self.reads.len());
        effects.writes = some(self.writes.len());
        effects.deletes = some(self.deletes.len());
        for _ in &self.runs {
            effects = effects.and(Effects::runs("x"));
        }
        for (access, _) in &self.reaches {
            effects = effects.and(reached(*access, "x".into()));
        }
        effects
    }
}

/// How many texts one template may give for one call.
const TEXTS_MAX: usize = 1_000;
/// How much of a text is shown that is no host.
const TEXT_SHOWN_CHARS: usize = 100;

/// A text with arguments in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Argument(String),
}

impl Template {
    /// Reads a template whose arguments are among these, or any.
    fn parse(text: &str, arguments: Option<&[&str]>) -> Result<Template, String> {
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
            if let Some(arguments) = arguments.filter(|arguments| !arguments.contains(&name)) {
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
    fn plain(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The pieces of text between the arguments.
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Argument(_) => None,
        })
    }

    /// The texts for these arguments, none of which is empty unless it may be.
    ///
    /// # Errors
    /// An argument from which no text can be made.
    fn fill(&self, arguments: &Value, may_be_empty: bool) -> Result<Vec<String>, Violation> {
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
    fn refused(&self, words: String) -> Violation {
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

fn reached(access: Access, host: String) -> Effects {
    match access {
        Access::Observe => Effects::observes(host),
        Access::Change => Effects::changes(host),
    }
}

fn paths(templates: &[Template], arguments: &Value) -> Result<Vec<PathSet>, Violation> {
    let mut sets = Vec::new();
    for template in templates {
        sets.extend(template.fill(arguments, false)?.iter().map(|text| path_set(text)));
    }
    Ok(sets)
}

/// A file, or with `/` or `/**` at the end everything below a folder.
fn path_set(text: &str) -> PathSet {
    match text.strip_suffix("/**").or_else(|| text.strip_suffix('/')) {
        Some("") => PathSet::subtree("/"),
        Some(folder) => PathSet::subtree(folder),
        None => PathSet::file(text),
    }
}

/// `HOST`, or `change HOST`; the host is a name, an address or an argument.
fn reach(text: &str, arguments: Option<&[&str]>) -> Result<(Access, Template), String> {
    let (access, place) = match text.split_once(' ') {
        Some(("change", host)) => (Access::Change, host.trim()),
        Some((_, _)) => {
            return Err(format!(
                "`{text}` is not accepted; `HOST` is where it only looks something up, `change HOST` where it may change something"
            ));
        }
        None => (Access::Observe, text),
    };
    let template = Template::parse(place, arguments)?;
    if template.plain().is_some_and(|plain| !is_host(plain)) {
        return Err(format!(
            "`{place}` is not a host; give its name or address, without scheme, port and path"
        ));
    }
    Ok((access, template))
}

/// The host of an argument, which is often a whole address of the web.
pub fn host(text: &str) -> Option<&str> {
    let Some((_, rest)) = text.split_once("://") else { return is_host(text).then_some(text) };
    let place = rest.split(['/', '\\', '?', '#']).next()?;
    let place = place.rsplit('@').next()?;
    let host = match place.strip_prefix('[') {
        Some(address) => address.split_once(']')?.0,
        None => place.split(':').next()?,
    };
    is_host(host).then_some(host)
}

fn is_host(text: &str) -> bool {
    let name = |c: char| c.is_alphanumeric() || "-._".contains(c);
    let address = text.parse::<std::net::Ipv6Addr>().is_ok();
    address || (!text.is_empty() && text.len() <= 253 && text.chars().all(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ACCEPTED: &str = ", which doesn't say what the call would touch; a string, a number, a boolean or an array of these is accepted";
    const ARGUMENTS: [&str; 3] = ["a", "b", "list"];

    #[track_caller]
    fn check(template: &str, arguments: Value, expected: Result<&[&str], &str>) {
        let filled = Template::parse(template, Some(&ARGUMENTS)).unwrap().fill(&arguments, false);
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
        let may_be_empty =
            Template::parse("git log {a}", Some(&ARGUMENTS)).unwrap().fill(&json!({"a": ""}), true);
        assert_eq!(may_be_empty, Ok(vec!["git log ".to_owned()]));
    }

    #[test]
    fn mistakes_are_found_when_a_tool_is_loaded() {
        let refused = |template: &str| Template::parse(template, Some(&ARGUMENTS)).unwrap_err();
        assert_eq!(refused("{c}"), "`{c}` is no argument of `input_schema`; they are `a`, `b`, `list`");
        assert_eq!(refused("{a"), "`{a` has a single `{`; write `{{` for the character");
        assert_eq!(refused("a}"), "`a}` has a single `}`; write `}}` for the character");
        assert_eq!(refused("{}"), "`{}` is no argument of `input_schema`; they are `a`, `b`, `list`");
        assert_eq!(
            Template::parse("{c}", Some(&[])).unwrap_err(),
            "`{c}` is no argument of `input_schema`; it has none"
        );
    }

    #[test]
    fn the_host_of_an_address() {
        for (text, expected) in [
            ("x.io", Some("x.io")),
            ("https://x.io", Some("x.io")),
            ("https://me:pw@x.io:8080/a?b#c", Some("x.io")),
            ("http://[::1]:80/", Some("::1")),
            ("https://a@b@x.io/", Some("x.io")),
            ("https://", None),
            ("a b", None),
            ("x.io/path", None),
            ("https://x.io\\@y.io/", Some("x.io")),
        ] {
            assert_eq!(host(text), expected, "{text}");
        }
    }
}
