//! What a script declares, and what that means for one call.
//!
//! The declaration is the user's own: it decides what runs beside what, and what is shown. It can't be
//! enforced without a sandbox, which is why it allows nothing by itself. A call whose arguments say nothing
//! of what it would touch is refused: as an unknown one it would be less bound than one that says it.

use haft::Effects;
use haft::effects::table::{ConcurrencyClass, EffectFacts};
use haft::effects::template::{EffectLists, EffectTemplates};
use haft::schema::InputViolation;
use haft::tool::ListedClass;
use serde_json::Value;

use super::manifest::{ScriptEffects, ScriptManifest};

/// Everything that a manifest says about effects, read.
#[derive(Debug, Clone, Default)]
pub(super) struct DeclaredEffects {
    /// What was declared; if nothing was, anything may happen.
    declaration: Option<EffectTemplates>,
    read_only: Option<bool>,
    destructive: Option<bool>,
    concurrency_safe: Option<bool>,
}

impl DeclaredEffects {
    /// Reads what a manifest declares; says what is wrong with it by field.
    pub(super) fn from_manifest(
        manifest: &ScriptManifest,
        wrong: &mut impl FnMut(&str, String),
    ) -> DeclaredEffects {
        let properties = manifest.input_schema.get("properties").and_then(Value::as_object);
        let arguments: Vec<&str> = properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        let ScriptManifest { read_only, destructive, concurrency_safe, .. } = *manifest;
        let mut declared =
            DeclaredEffects { read_only, destructive, concurrency_safe, ..DeclaredEffects::default() };
        if let Some(ScriptEffects { reads, writes, deletes, runs, reaches }) = &manifest.effects {
            let lists = EffectLists { reads, writes, deletes, runs, reaches };
            let mut found = |place: &str, words| wrong(&format!("/effects/{place}"), words);
            declared.declaration = Some(EffectTemplates::read(&lists, Some(&arguments), &mut found));
        } else if read_only == Some(true) {
            declared.declaration = Some(EffectTemplates::reads_all());
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
            ("/read_only", DeclaredEffects { destructive: None, concurrency_safe: None, ..self.clone() }),
            ("/destructive", DeclaredEffects { read_only: None, concurrency_safe: None, ..self.clone() }),
            ("/concurrency_safe", DeclaredEffects { read_only: None, destructive: None, ..self.clone() }),
        ];
        for (field, alone) in claims {
            if let Err(contradiction) = alone.sample().consistent() {
                wrong(field, contradiction.to_string());
            }
        }
    }

    /// Effects of the same shape, whatever the arguments.
    fn sample(&self) -> Effects {
        let declared = self.declaration.as_ref().map(EffectTemplates::sample);
        self.claimed(declared.unwrap_or_else(Effects::unknown))
    }

    fn claimed(&self, mut effects: Effects) -> Effects {
        effects.claims.read_only = self.read_only;
        effects.claims.destructive = self.destructive;
        effects.claims.concurrency_safe = self.concurrency_safe;
        effects
    }

    /// How the tool is listed: the worst that a call of it can be.
    pub(super) fn listed_class(&self) -> ListedClass {
        let facts = EffectFacts { reads_outside: false, overwrites: true, confined: false };
        let judgement = self.sample().judge(&facts);
        // The list says who runs alone.
        let class = if judgement.concurrency_safe {
            judgement.class
        } else {
            judgement.class.max(ConcurrencyClass::WriteExclusive)
        };
        class.into()
    }

    /// What one call touches.
    ///
    /// # Errors
    /// An argument that doesn't say it.
    pub(super) fn effects(&self, arguments: &Value) -> Result<Effects, InputViolation> {
        let effects = match &self.declaration {
            Some(declaration) => declaration.effects(arguments)?,
            None => Effects::unknown(),
        };
        Ok(self.claimed(effects))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest(fields: Value) -> ScriptManifest {
        let mut all = json!({
            "name": "t", "description": "A tool.", "command": ["true"],
            "input_schema": {"type": "object", "properties": {"path": {}, "url": {}}},
        });
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    fn declared(fields: Value) -> Result<DeclaredEffects, Vec<String>> {
        let mut found = Vec::new();
        let declared = DeclaredEffects::from_manifest(&manifest(fields), &mut |path, words| {
            found.push(format!("{path}: {words}"))
        });
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
        assert_eq!(class(json!({})), ListedClass::Always(ConcurrencyClass::Unsafe));
        assert_eq!(class(json!({"read_only": true})), ListedClass::Always(ConcurrencyClass::ReadOnly));
        assert_eq!(
            class(json!({"effects": {"writes": ["a"]}})),
            ListedClass::Always(ConcurrencyClass::WriteExclusive)
        );
        assert_eq!(class(json!({"effects": {"runs": ["a"]}})), ListedClass::Always(ConcurrencyClass::Unsafe));
        let alone = json!({"effects": {"reads": ["a"]}, "concurrency_safe": false});
        assert_eq!(class(alone), ListedClass::Always(ConcurrencyClass::WriteExclusive));
    }
}
