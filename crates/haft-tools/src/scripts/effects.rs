//! What a script declares, and what that means for one call.
//!
//! The declaration is the user's own: it decides what runs beside what, and what is shown. It can't be enforced without a
//! sandbox, which is why it allows nothing by itself. A call whose arguments say nothing of what it would touch is refused: as
//! an unknown one it would be less bound than one that says it.

use haft::effects::Access;
use haft::effects::table::{Class, Facts};
use haft::schema::Violation;
use haft::{Effects, ListedClass, PathSet};
use serde_json::Value;

use super::manifest::{Manifest, ScriptEffects};
use super::template::Template;

/// How much of a text is shown that is no host.
const TEXT_SHOWN_CHARS: usize = 100;

/// Reads one entry: a template, and whether it only looks.
type Read<'a> = dyn Fn(&str) -> Result<(Access, Template), String> + 'a;

/// Everything that a manifest says about effects, read.
#[derive(Debug, Clone, Default)]
pub(super) struct Declared {
    /// Whether anything was declared; else anything may happen.
    known: bool,
    reads: Vec<Template>,
    writes: Vec<Template>,
    deletes: Vec<Template>,
    runs: Vec<Template>,
    reaches: Vec<(Access, Template)>,
    read_only: Option<bool>,
    destructive: Option<bool>,
    concurrency_safe: Option<bool>,
}

impl Declared {
    /// Reads what a manifest declares; says what is wrong with it by field.
    pub(super) fn of(manifest: &Manifest, wrong: &mut impl FnMut(&str, String)) -> Declared {
        let properties = manifest.input_schema.get("properties").and_then(Value::as_object);
        let arguments: Vec<&str> = properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        let Manifest { read_only, destructive, concurrency_safe, .. } = *manifest;
        let mut declared = Declared { read_only, destructive, concurrency_safe, ..Declared::default() };
        if let Some(ScriptEffects { reads, writes, deletes, runs, reaches }) = &manifest.effects {
            declared.known = true;
            let mut each = |field: &str, texts: &[String], read: &Read<'_>| {
                let mut templates = Vec::new();
                for (at, text) in texts.iter().enumerate() {
                    match read(text) {
                        Ok(template) => templates.push(template),
                        Err(words) => wrong(&format!("/effects/{field}/{at}"), words),
                    }
                }
                templates
            };
            let path = |text: &str| {
                let template = Template::parse(text, &arguments)?;
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
            let plain = |text: &str| Ok((Access::Observe, Template::parse(text, &arguments)?));
            let reach = |text: &str| reach(text, &arguments);
            let only =
                |templates: Vec<(Access, Template)>| templates.into_iter().map(|(_, one)| one).collect();
            declared.reads = only(each("reads", reads, &path));
            declared.writes = only(each("writes", writes, &path));
            declared.deletes = only(each("deletes", deletes, &path));
            declared.runs = only(each("runs", runs, &plain));
            declared.reaches = each("reaches", reaches, &reach);
        } else if read_only == Some(true) {
            declared.known = true;
            declared.reads.push(Template::parse("./", &[]).expect("a text without arguments"));
        }
        declared.contradictions(wrong);
        declared
    }

    /// Finds claims that the declaration refutes, each by itself.
    fn contradictions(&self, wrong: &mut impl FnMut(&str, String)) {
        if self.read_only == Some(true) && self.destructive == Some(true) {
            wrong("/destructive", "contradicts `read_only`; set one of them".into());
        }
        let claims = [
            ("/read_only", Declared { destructive: None, concurrency_safe: None, ..self.clone() }),
            ("/destructive", Declared { read_only: None, concurrency_safe: None, ..self.clone() }),
            ("/concurrency_safe", Declared { read_only: None, destructive: None, ..self.clone() }),
        ];
        for (field, alone) in claims {
            if let Err(contradiction) = alone.sample().consistent() {
                wrong(field, contradiction.to_string());
            }
        }
    }

    /// Effects of the same shape, whatever the arguments.
    fn sample(&self) -> Effects {
        let some = |count: usize| vec![PathSet::file("x"); count];
        let mut effects = if self.known { Effects::none() } else { Effects::unknown() };
        effects.reads = some(self.reads.len());
        effects.writes = some(self.writes.len());
        effects.deletes = some(self.deletes.len());
        for _ in &self.runs {
            effects = effects.and(Effects::runs("x"));
        }
        for (access, _) in &self.reaches {
            effects = effects.and(reached(*access, "x".into()));
        }
        self.claimed(effects)
    }

    fn claimed(&self, mut effects: Effects) -> Effects {
        effects.claims.read_only = self.read_only;
        effects.claims.destructive = self.destructive;
        effects.claims.concurrency_safe = self.concurrency_safe;
        effects
    }

    /// How the tool is listed: the worst that a call of it can be.
    pub(super) fn listed_class(&self) -> ListedClass {
        let facts = Facts { reads_outside: false, overwrites: true, confined: false };
        let judgement = self.sample().judge(&facts);
        // The list says who runs alone.
        let class = if judgement.concurrency_safe {
            judgement.class
        } else {
            judgement.class.max(Class::WriteExclusive)
        };
        class.into()
    }

    /// What one call touches.
    ///
    /// # Errors
    /// An argument that doesn't say it.
    pub(super) fn effects(&self, arguments: &Value) -> Result<Effects, Violation> {
        let mut effects = if self.known { Effects::none() } else { Effects::unknown() };
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
        Ok(self.claimed(effects))
    }
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
fn reach(text: &str, arguments: &[&str]) -> Result<(Access, Template), String> {
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
fn host(text: &str) -> Option<&str> {
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

    fn manifest(fields: Value) -> Manifest {
        let mut all = json!({
            "name": "t", "description": "A tool.", "command": ["true"],
            "input_schema": {"type": "object", "properties": {"path": {}, "url": {}}},
        });
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    fn declared(fields: Value) -> Result<Declared, Vec<String>> {
        let mut found = Vec::new();
        let declared =
            Declared::of(&manifest(fields), &mut |path, words| found.push(format!("{path}: {words}")));
        if found.is_empty() { Ok(declared) } else { Err(found) }
    }

    #[track_caller]
    fn check(fields: Value, arguments: Value, expected: &Effects) {
        assert_eq!(declared(fields).unwrap().effects(&arguments).as_ref(), Ok(expected));
    }

    #[test]
    fn a_declaration_and_arguments_make_effects() {
        check(json!({}), json!({}), &Effects::unknown());
        check(json!({"effects": {}}), json!({}), &Effects::none());
        check(json!({"effects": {"reads": ["{path}"]}}), json!({"path": "a"}), &Effects::reads("a"));
        check(json!({"effects": {"reads": ["{path}"]}}), json!({}), &Effects::none());
        check(json!({"effects": {"reads": ["{path}/"]}}), json!({"path": "a"}), &Effects::reads_tree("a"));
        check(json!({"effects": {"writes": ["out/**"]}}), json!({}), &Effects::writes_tree("out"));
        check(json!({"effects": {"deletes": ["/"]}}), json!({}), &Effects::deletes_tree("/"));
        check(
            json!({"effects": {"runs": ["git -C {path} log"]}}),
            json!({"path": "a"}),
            &Effects::runs("git -C a log"),
        );
        check(json!({"effects": {"reaches": ["x.io"]}}), json!({}), &Effects::observes("x.io"));
        check(
            json!({"effects": {"reaches": ["change {url}"]}}),
            json!({"url": "x.io"}),
            &Effects::changes("x.io"),
        );
        let mut reads = Effects::reads_tree(".");
        reads.claims.read_only = Some(true);
        check(json!({"read_only": true}), json!({}), &reads);
    }

    #[test]
    fn what_does_not_say_what_it_touches_is_refused() {
        let refused = |field: &str, template: &str, arguments: Value| {
            let fields = json!({"effects": {field: [template]}});
            declared(fields).unwrap().effects(&arguments).unwrap_err().to_string()
        };
        let accepted = "which doesn't say what the call would touch; a string, a number, a boolean or an array of these is accepted";
        for field in ["reads", "writes", "deletes"] {
            let object = refused(field, "{path}", json!({"path": {"a": 1}}));
            assert_eq!(object, format!("/path: is an object, {accepted}"));
            let empty = refused(field, "{path}/", json!({"path": ""}));
            assert_eq!(empty, format!("/path: is empty, {accepted}"));
        }
        assert_eq!(
            refused("reaches", "{url}", json!({"url": "no host"})),
            "/url: `no host` has no host; a host's name, its address or a URL is accepted"
        );
        assert_eq!(refused("reaches", "{url}", json!({"url": ""})), format!("/url: is empty, {accepted}"));
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

    #[test]
    fn contradictions_name_their_field() {
        let refused = |fields: Value| declared(fields).unwrap_err();
        let changes = "claims to be read-only and declares a change";
        assert_eq!(
            refused(json!({"read_only": true, "effects": {"writes": ["a"]}})),
            [format!("/read_only: {changes}")]
        );
        assert_eq!(
            refused(json!({"read_only": true, "effects": {"runs": ["a"]}})),
            [format!("/read_only: {changes}")]
        );
        assert_eq!(
            refused(json!({"destructive": false, "effects": {"deletes": ["a"]}})),
            ["/destructive: claims to destroy nothing and declares a removal"]
        );
        assert_eq!(
            refused(json!({"concurrency_safe": true})),
            ["/concurrency_safe: claims to be safe beside others and declares that anything may happen"]
        );
    }

    #[test]
    fn mistakes_name_their_place() {
        let refused = |fields: Value| declared(json!({"effects": fields})).unwrap_err();
        assert_eq!(
            refused(json!({"reads": ["ok", "{nope}"], "reaches": ["https://x.io"]})),
            [
                "/effects/reads/1: `{nope}` is no argument of `input_schema`; they are `path`, `url`",
                "/effects/reaches/0: `https://x.io` is not a host; give its name or address, without scheme, port and path",
            ]
        );
        assert_eq!(
            refused(json!({"reaches": ["delete x.io"]})),
            [
                "/effects/reaches/0: `delete x.io` is not accepted; `HOST` is where it only looks something up, `change HOST` where it may change something"
            ]
        );
        assert_eq!(
            refused(json!({"writes": ["src/*.rs"]})),
            [
                "/effects/writes/0: `src/*.rs`: a `*` is understood only in `/**` at the end, for a whole folder"
            ]
        );
    }

    #[test]
    fn the_list_says_who_runs_alone() {
        let class = |fields: Value| declared(fields).unwrap().listed_class();
        assert_eq!(class(json!({})), ListedClass::Always(Class::Unsafe));
        assert_eq!(class(json!({"read_only": true})), ListedClass::Always(Class::ReadOnly));
        assert_eq!(class(json!({"effects": {"writes": ["a"]}})), ListedClass::Always(Class::WriteExclusive));
        assert_eq!(class(json!({"effects": {"runs": ["a"]}})), ListedClass::Always(Class::Unsafe));
        let alone = json!({"effects": {"reads": ["a"]}, "concurrency_safe": false});
        assert_eq!(class(alone), ListedClass::Always(Class::WriteExclusive));
    }
}
