//! Effects declared as data, for tools that can't say in code what they touch: `{"reads": ["src/{file}"]}`.
//!
//! `{name}` is the argument `name` of the call; `{{` and `}}` are braces. A list gives one text for each of
//! its items.
//!
//! Script tools declare so for themselves ([`EffectTemplates::effects`]): an argument that isn't given, or is
//! null, gives no text at all, since who wrote the script knows what it does without; whatever else can't be
//! written as text refuses the call. Users declare in settings for tools that declare nothing
//! ([`EffectTemplates::told`]): there nobody knows what a server does without an argument, so what the list
//! would name isn't known.
//!
//! Hosts are read as browsers read them ([`parse_host`]), however they are spelt: rules for hosts compare
//! what is reached.

use serde_json::Value;
use url::{Host, Url};

use super::{AccessKind, Effects, PathSet};
use crate::schema::InputViolation;
use crate::text::truncate_chars;

/// What a declaration says, as it was written.
#[derive(Debug, Clone, Copy, Default)]
pub struct EffectLists<'a> {
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
/// use haft::effects::template::{EffectTemplates, EffectLists};
/// use serde_json::json;
///
/// let writes = ["out/{name}.txt".to_owned()];
/// let lists = EffectLists { writes: &writes, ..EffectLists::default() };
/// let declaration = EffectTemplates::read(&lists, None, &mut |place, words| panic!("{place}: {words}"));
/// assert_eq!(declaration.effects(&json!({"name": "a"})), Ok(Effects::writes("out/a.txt")));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EffectTemplates {
    reads: Vec<TextTemplate>,
    writes: Vec<TextTemplate>,
    deletes: Vec<TextTemplate>,
    runs: Vec<TextTemplate>,
    reaches: Vec<(AccessKind, TextTemplate)>,
}

/// A list of a declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EffectList {
    /// What is read.
    Reads,
    /// What is created or changed.
    Writes,
    /// What is removed.
    Deletes,
    /// What is run.
    Runs,
    /// What is reached.
    Reaches,
}

/// What a declaration says of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilledEffects {
    /// What is touched as far as the arguments say.
    pub effects: Effects,
    /// Lists of which something isn't known, each with the argument and what is wrong with it.
    pub open: Vec<(EffectList, InputViolation)>,
}

/// Reads one entry: a template, and whether it only looks.
type EntryParser<'a> = dyn Fn(&str) -> Result<(AccessKind, TextTemplate), String> + 'a;

impl EffectTemplates {
    /// Reads a declaration for a tool with these arguments, or with any; says what is wrong by list and place
    /// in it, as in `reads/0`. What is wrong is left out.
    pub fn read(
        lists: &EffectLists<'_>,
        arguments: Option<&[&str]>,
        wrong: &mut dyn FnMut(&str, String),
    ) -> EffectTemplates {
        let mut each = |field: &str, texts: &[String], read: &EntryParser<'_>| {
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
            let template = TextTemplate::parse(text, arguments)?;
            if text == "~" || text.starts_with("~/") {
                return Err(format!("`{text}`: `~` is not expanded; give the whole path"));
            }
            let stars = text.strip_suffix("/**").unwrap_or(text).contains('*');
            if stars && template.texts().any(|text| text.contains('*')) {
                return Err(format!(
                    "`{text}`: a `*` is understood only in `/**` at the end, for a whole folder"
                ));
            }
            Ok((AccessKind::Observe, template))
        };
        let plain = |text: &str| Ok((AccessKind::Observe, TextTemplate::parse(text, arguments)?));
        let reach = |text: &str| parse_reach(text, arguments);
        let only =
            |templates: Vec<(AccessKind, TextTemplate)>| templates.into_iter().map(|(_, one)| one).collect();
        EffectTemplates {
            reads: only(each("reads", lists.reads, &path)),
            writes: only(each("writes", lists.writes, &path)),
            deletes: only(each("deletes", lists.deletes, &path)),
            runs: only(each("runs", lists.runs, &plain)),
            reaches: each("reaches", lists.reaches, &reach),
        }
    }

    /// Everything in the working directory is read, and nothing else done.
    pub fn reads_all() -> EffectTemplates {
        let here = TextTemplate(vec![TemplatePiece::Text("./".to_owned())]);
        EffectTemplates { reads: vec![here], ..EffectTemplates::default() }
    }

    /// What one call touches. What isn't given isn't touched.
    ///
    /// # Errors
    /// An argument that doesn't say what the call would touch: anything may happen.
    pub fn effects(&self, arguments: &Value) -> Result<Effects, InputViolation> {
        let lenient = |filled: Result<Vec<String>, FillError>| match filled {
            Err(FillError::NotGiven(_)) => Ok(Vec::new()),
            Err(FillError::Refused(violation)) => Err(violation),
            Ok(texts) => Ok(texts),
        };
        let mut effects = Effects::none();
        for (kind, access, template) in self.entries() {
            for text in lenient(template.fill(arguments, kind == EffectList::Runs))? {
                effects = effects.and(template.effect(kind, access, text)?);
            }
        }
        Ok(effects)
    }

    /// What one call touches as far as its arguments say, and which of its lists aren't complete: for a tool
    /// whose maker didn't write the declaration. Effects are unknown if one isn't.
    pub fn told(&self, arguments: &Value) -> FilledEffects {
        let mut told = FilledEffects { effects: Effects::none(), open: Vec::new() };
        for (kind, access, template) in self.entries() {
            let texts = template.fill(arguments, kind == EffectList::Runs).map_err(FillError::into_violation);
            let filled = texts.and_then(|texts| {
                texts
                    .into_iter()
                    .map(|text| template.effect(kind, access, text))
                    .collect::<Result<Vec<_>, _>>()
            });
            match filled {
                Ok(all) => told.effects = all.into_iter().fold(told.effects, Effects::and),
                Err(violation) => told.open.push((kind, violation)),
            }
        }
        told.effects.unknown = !told.open.is_empty();
        told
    }

    fn entries(&self) -> impl Iterator<Item = (EffectList, AccessKind, &TextTemplate)> {
        let lists = [
            (EffectList::Reads, &self.reads),
            (EffectList::Writes, &self.writes),
            (EffectList::Deletes, &self.deletes),
            (EffectList::Runs, &self.runs),
        ];
        let one = |kind: EffectList| move |template| (kind, AccessKind::Observe, template);
        let paths = lists.into_iter().flat_map(move |(kind, templates)| templates.iter().map(one(kind)));
        paths.chain(self.reaches.iter().map(|(access, template)| (EffectList::Reaches, *access, template)))
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
            effects = effects.and(host_effects(*access, "x".into()));
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
struct TextTemplate(Vec<TemplatePiece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePiece {
    Text(String),
    Argument(String),
}

/// Why a template gives no text.
enum FillError {
    /// An argument of this name isn't given, or is null.
    NotGiven(String),
    /// Something that is no text.
    Refused(InputViolation),
}

impl FillError {
    fn into_violation(self) -> InputViolation {
        match self {
            FillError::NotGiven(name) => InputViolation::new(json_pointer(&name), "isn't given".to_owned()),
            FillError::Refused(violation) => violation,
        }
    }
}

impl TextTemplate {
    /// Reads a template whose arguments are among these, or any.
    fn parse(text: &str, arguments: Option<&[&str]>) -> Result<TextTemplate, String> {
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
                pieces.push(TemplatePiece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(TemplatePiece::Argument(name.to_owned()));
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() || pieces.is_empty() {
            pieces.push(TemplatePiece::Text(plain));
        }
        Ok(TextTemplate(pieces))
    }

    /// The text, if no argument is in it.
    fn plain(&self) -> Option<&str> {
        match self.0.as_slice() {
            [TemplatePiece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The pieces of text between the arguments.
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            TemplatePiece::Text(text) => Some(text.as_str()),
            TemplatePiece::Argument(_) => None,
        })
    }

    /// The texts for these arguments, none of which is empty unless it may be.
    fn fill(&self, arguments: &Value, may_be_empty: bool) -> Result<Vec<String>, FillError> {
        let mut texts = vec![String::new()];
        for piece in &self.0 {
            let values = match piece {
                TemplatePiece::Text(text) => vec![text.clone()],
                TemplatePiece::Argument(name) => match arguments.get(name) {
                    None | Some(Value::Null) => return Err(FillError::NotGiven(name.clone())),
                    Some(Value::Array(items)) => {
                        let each = items.iter().enumerate();
                        let text = |(at, item)| {
                            scalar_text(item, &format!("{}/{at}", json_pointer(name)), may_be_empty)
                        };
                        each.map(text).collect::<Result<_, _>>().map_err(FillError::Refused)?
                    }
                    Some(value) => {
                        vec![
                            scalar_text(value, &json_pointer(name), may_be_empty)
                                .map_err(FillError::Refused)?,
                        ]
                    }
                },
            };
            if texts.len() * values.len() > TEXTS_MAX {
                let words = format!("gives too many texts; at most {TEXTS_MAX} are accepted");
                return Err(FillError::Refused(self.refused(words)));
            }
            texts = texts
                .iter()
                .flat_map(|text| values.iter().map(move |value| format!("{text}{value}")))
                .collect();
        }
        Ok(texts)
    }

    /// What a text stands for.
    ///
    /// # Errors
    /// A text that is no host.
    fn effect(&self, kind: EffectList, access: AccessKind, text: String) -> Result<Effects, InputViolation> {
        let mut effects = Effects::none();
        match kind {
            EffectList::Reads => effects.reads.push(path_set(&text)),
            EffectList::Writes => effects.writes.push(path_set(&text)),
            EffectList::Deletes => effects.deletes.push(path_set(&text)),
            EffectList::Runs => effects = Effects::runs(text),
            EffectList::Reaches => {
                let host = parse_host(&text).ok_or_else(|| {
                    let shown = truncate_chars(&text, TEXT_SHOWN_CHARS);
                    let accepted = "a host's name, its address or a URL is accepted";
                    self.refused(format!("`{shown}` has no host; {accepted}"))
                })?;
                effects = host_effects(access, host);
            }
        }
        Ok(effects)
    }

    /// Something that is wrong with what the arguments gave, at the first of them.
    fn refused(&self, words: String) -> InputViolation {
        let argument = self.0.iter().find_map(|piece| match piece {
            TemplatePiece::Argument(name) => Some(name.as_str()),
            TemplatePiece::Text(_) => None,
        });
        InputViolation::new(argument.map(json_pointer).unwrap_or_default(), words)
    }
}

fn json_pointer(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn scalar_text(value: &Value, at: &str, may_be_empty: bool) -> Result<String, InputViolation> {
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
    Err(InputViolation::new(at, words))
}

fn host_effects(access: AccessKind, host: String) -> Effects {
    match access {
        AccessKind::Observe => Effects::observes(host),
        AccessKind::Change => Effects::changes(host),
    }
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
fn parse_reach(text: &str, arguments: Option<&[&str]>) -> Result<(AccessKind, TextTemplate), String> {
    let (access, place) = match text.split_once(' ') {
        Some(("change", host)) => (AccessKind::Change, host.trim()),
        Some((_, _)) => {
            return Err(format!(
                "`{text}` is not accepted; `HOST` is where it only looks something up, `change HOST` where it may change something"
            ));
        }
        None => (AccessKind::Observe, text),
    };
    let template = TextTemplate::parse(place, arguments)?;
    if template.plain().is_some_and(|plain| !is_host(plain)) {
        return Err(format!(
            "`{place}` is not a host; give its name or address, without scheme, port and path"
        ));
    }
    Ok((access, template))
}

/// The host of a URL, of `parse_host:port` or of a bare name or address, as browsers read it: small letters,
/// `xn--` labels, addresses in their one form, no brackets, no dot at the end. Nothing if there is none.
///
/// ```
/// use haft::effects::template::parse_host;
///
/// for text in ["https:EXAMPLE.com", r"http:\\ex%61mple.com\x", "example.com.", "example.com:8080"] {
///     assert_eq!(parse_host(text).as_deref(), Some("example.com"));
/// }
/// assert_eq!(parse_host("http://0x7f.1/").as_deref(), Some("127.0.0.1"));
/// ```
pub fn parse_host(text: &str) -> Option<String> {
    match Url::parse(text) {
        Ok(url) if url.has_host() => url.host_str().and_then(host_name),
        // The parser forgets the host of a file behind a drive's letter, which the standard keeps.
        Ok(url) if url.scheme() == "file" => {
            let place = text.split_once("://")?.1;
            host_name(place.split(['/', '\\', '?', '#']).next()?)
        }
        // `localhost:80` has the form of a scheme and a path.
        Ok(url) => {
            let (name, port) = text.trim().rsplit_once(':')?;
            (port.parse::<u16>().is_ok() && url.cannot_be_a_base()).then(|| host_name(name))?
        }
        Err(_) => host_name(text).or_else(|| {
            let (name, port) = text.rsplit_once(':')?;
            port.parse::<u16>().is_ok().then(|| host_name(name))?
        }),
    }
}

/// What is touched by whoever reads this address, as far as the address says: a file of this machine, a host
/// of the web, and nothing for any other kind.
///
/// ```
/// use haft::effects::template::read_at;
///
/// assert_eq!(read_at("file:///etc/hosts").to_string(), "reads /etc/hosts");
/// assert_eq!(read_at("https://Example.com/x").to_string(), "reaches example.com");
/// assert!(read_at("note://7").is_none());
/// ```
pub fn read_at(address: &str) -> Effects {
    let address = address.trim();
    // Some take a bare path for an address.
    if address.starts_with('/') && !address.starts_with("//") {
        return Effects::reads(address);
    }
    let Ok(url) = Url::parse(address) else { return Effects::none() };
    match url.scheme() {
        "file" => {
            // Whoever ignores the host reads the file of this machine.
            let here = Url::parse(&format!("file://{}", url.path())).ok();
            let path = here.and_then(|url| url.to_file_path().ok());
            path.map_or_else(Effects::unknown, Effects::reads)
        }
        "http" | "https" => parse_host(address).map_or_else(Effects::unknown, Effects::observes),
        _ => Effects::none(),
    }
}

/// A host by itself.
fn host_name(text: &str) -> Option<String> {
    let host = match text.parse::<std::net::Ipv6Addr>() {
        Ok(address) => Host::Ipv6(address),
        Err(_) => Host::parse(text).ok()?,
    };
    let name = match host {
        Host::Domain(name) => name,
        Host::Ipv4(address) => return Some(address.to_string()),
        Host::Ipv6(address) => return Some(address.to_string()),
    };
    let name = name.strip_suffix('.').unwrap_or(&name);
    (!name.is_empty() && name.len() <= HOST_CHARS_MAX).then(|| name.to_ascii_lowercase())
}

/// The longest name of a host.
const HOST_CHARS_MAX: usize = 253;

fn is_host(text: &str) -> bool {
    host_name(text).is_some() && !text.contains(['*', '%'])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ACCEPTED: &str = ", which doesn't say what the call would touch; a string, a number, a boolean or an array of these is accepted";
    const ARGUMENTS: [&str; 3] = ["a", "b", "list"];

    #[test]
    fn an_address_says_what_is_read_however_it_is_spelt() {
        for (address, words) in [
            ("file:///a/b", "reads /a/b"),
            ("FILE:/a/b", "reads /a/b"),
            ("file://localhost/a%20b", "reads /a b"),
            ("file://elsewhere/a", "reads /a"),
            ("file:///w/../etc/x", "reads /etc/x"),
            ("file:///w/%2e%2e/etc/x", "reads /etc/x"),
            (" file:///a#b", "reads /a"),
            ("/etc/x", "reads /etc/x"),
            ("HTTPS://Example.com:8443/x", "reaches example.com"),
            ("http:example.com", "reaches example.com"),
            ("note://1", "touches nothing"),
            ("words", "touches nothing"),
            ("//host/x", "touches nothing"),
        ] {
            assert_eq!(read_at(address).to_string(), words, "{address}");
        }
    }

    #[track_caller]
    fn check(template: &str, arguments: Value, expected: Result<&[&str], &str>) {
        let filled = TextTemplate::parse(template, Some(&ARGUMENTS)).unwrap().fill(&arguments, false);
        let filled = match filled {
            Err(FillError::NotGiven(_)) => Ok(Vec::new()),
            filled => filled.map_err(FillError::into_violation),
        };
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
            TextTemplate::parse("git log {a}", Some(&ARGUMENTS)).unwrap().fill(&json!({"a": ""}), true);
        assert_eq!(may_be_empty.ok(), Some(vec!["git log ".to_owned()]));
    }

    #[test]
    fn mistakes_are_found_when_a_tool_is_loaded() {
        let refused = |template: &str| TextTemplate::parse(template, Some(&ARGUMENTS)).unwrap_err();
        assert_eq!(refused("{c}"), "`{c}` is no argument of `input_schema`; they are `a`, `b`, `list`");
        assert_eq!(refused("{a"), "`{a` has a single `{`; write `{{` for the character");
        assert_eq!(refused("a}"), "`a}` has a single `}`; write `}}` for the character");
        assert_eq!(refused("{}"), "`{}` is no argument of `input_schema`; they are `a`, `b`, `list`");
        assert_eq!(
            TextTemplate::parse("{c}", Some(&[])).unwrap_err(),
            "`{c}` is no argument of `input_schema`; it has none"
        );
    }

    /// Who declares for a stranger's tool doesn't know what it does without an argument.
    #[test]
    fn what_is_not_given_is_not_known_of_a_stranger() {
        let texts = |text: &str| vec![text.to_owned()];
        let (reads, writes, reaches) = (texts("{a}"), texts("out/{b}"), texts("{list}"));
        let lists =
            EffectLists { reads: &reads, writes: &writes, reaches: &reaches, ..EffectLists::default() };
        let declaration = EffectTemplates::read(&lists, None, &mut |place, words| panic!("{place}: {words}"));
        let check = |arguments: Value, open: &[(EffectList, &str)], known: Effects| {
            let told = declaration.told(&arguments);
            let said: Vec<_> = told.open.iter().map(|(kind, why)| (*kind, why.to_string())).collect();
            let expected: Vec<_> =
                open.iter().map(|(kind, why)| (*kind, why.replace('…', ACCEPTED))).collect();
            assert_eq!(said, expected, "{arguments}");
            assert_eq!(told.effects, Effects { unknown: !open.is_empty(), ..known }, "{arguments}");
        };
        let both = Effects::reads("x").and(Effects::writes("out/y"));
        let hosts = Effects::observes("p.io").and(Effects::observes("q.io"));
        check(json!({"a": "x", "b": "y", "list": ["p.io", "https://q.io/x"]}), &[], both.clone().and(hosts));
        check(json!({"a": "x", "b": "y", "list": []}), &[], both.clone());
        check(json!({"a": "x", "b": "y"}), &[(EffectList::Reaches, "/list: isn't given")], both.clone());
        check(
            json!({"a": "x", "b": null, "list": []}),
            &[(EffectList::Writes, "/b: isn't given")],
            Effects::reads("x"),
        );
        check(
            json!({"a": {"deep": 1}, "b": "y", "list": "a b"}),
            &[
                (EffectList::Reads, "/a: is an object…"),
                (
                    EffectList::Reaches,
                    "/list: `a b` has no host; a host's name, its address or a URL is accepted",
                ),
            ],
            Effects::writes("out/y"),
        );
    }

    #[test]
    fn the_host_of_an_address() {
        for (text, expected) in [
            ("x.io", Some("x.io")),
            ("X.io.", Some("x.io")),
            ("x.io:80", Some("x.io")),
            ("localhost:80", Some("localhost")),
            ("127.0.0.1:80", Some("127.0.0.1")),
            ("[::1]:80", Some("::1")),
            ("0:0:0:0:0:0:0:1", Some("::1")),
            ("https://x.io", Some("x.io")),
            ("https://me:pw@x.io:8080/a?b#c", Some("x.io")),
            ("http://[::1]:80/", Some("::1")),
            ("https://a@b@x.io/", Some("x.io")),
            ("https://x.io\\@y.io/", Some("x.io")),
            ("https:x.io", Some("x.io")),
            ("https:/x.io", Some("x.io")),
            ("https:\\\\x.io\\y", Some("x.io")),
            ("http://\u{ff58}.\u{ff49}o/", Some("x.io")),
            ("http://x\u{ad}.io/", Some("x.io")),
            ("ht\ntp://x\t.io/", Some("x.io")),
            ("http://%78.io/", Some("x.io")),
            ("http://b\u{fc}cher.de/", Some("xn--bcher-kva.de")),
            ("http://2130706433/", Some("127.0.0.1")),
            ("http://0x7f.1/", Some("127.0.0.1")),
            ("https://", None),
            ("a b", None),
            ("x.io/path", None),
            ("mailto:x", None),
            ("file:///etc/passwd", None),
            ("file://x.io/C:/", Some("x.io")),
            ("", None),
        ] {
            assert_eq!(parse_host(text).as_deref(), expected, "{text}");
        }
    }
}
