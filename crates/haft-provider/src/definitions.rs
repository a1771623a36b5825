//! Tool definitions: the `tools` array of a request, from the tools of one snapshot.
//!
//! The array is the same bytes for the same set of tools, in any process, because a provider's prompt cache is keyed by
//! them. It is kept: as long as the tools stay the same, asking again costs a clone of an [`Arc`]. When some change,
//! only those are made anew.
//!
//! A tool that a provider can't take is left out alone, with the reason; the others are not affected.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use haft::{AnyTool, Class, ListedClass, Offer, Snapshot};
use serde_json::Value;

use crate::Wire;
use crate::limits::{
    ANTHROPIC_STRICT_OPTIONAL_MAX, ANTHROPIC_STRICT_TOOLS_MAX, ANTHROPIC_STRICT_UNIONS_MAX,
    PROPERTY_CHARS_MAX,
};
use crate::schema::{Demands, Dialect, Refused, WireSchema, emit};

/// The form of a `tools` array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// `{name, description, input_schema, strict?}`.
    Anthropic,
    /// `{type, name, description, parameters, strict}`.
    OpenAi,
    /// `{type, function: {name, description, parameters, strict}}`.
    OpenAiChat,
    /// One `{functionDeclarations: [{name, description, parametersJsonSchema?}]}`.
    Gemini,
    /// `{name, description, inputSchema, outputSchema?, annotations?}`, as an MCP server lists its tools.
    Mcp,
}

impl From<Wire> for Form {
    fn from(wire: Wire) -> Form {
        match wire {
            Wire::Anthropic => Form::Anthropic,
            Wire::OpenAi => Form::OpenAi,
            Wire::OpenAiChat => Form::OpenAiChat,
            Wire::Gemini => Form::Gemini,
        }
    }
}

impl Form {
    fn dialect(self, strict: bool) -> Dialect {
        match self {
            Form::Anthropic if strict => Dialect::AnthropicStrict,
            Form::OpenAi | Form::OpenAiChat if strict => Dialect::OpenAiStrict,
            Form::Gemini => Dialect::Gemini,
            _ => Dialect::Plain,
        }
    }
}

/// Makes definitions and keeps them.
///
/// ```
/// use haft::{Engine, NoInput, Registry, tool};
/// use haft_provider::{Definitions, Form};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let now = tool("now", "Returns the time.", |_: NoInput, _| async { Ok("noon") });
/// let engine = Engine::new(Registry::new().with(now)?);
///
/// let definitions = Definitions::new(Form::Anthropic);
/// let turn = engine.turn();                            // pins the tools: what is sent is what can be called
/// let tools = definitions.of(turn.snapshot());
/// assert_eq!(
///     tools.json(),
///     r#"[{"name":"now","description":"Returns the time.","input_schema":{"type":"object","properties":{},"additionalProperties":false}}]"#
/// );
/// assert!(tools.left_out().is_empty());
/// # Ok(()) }
/// ```
pub struct Definitions {
    form: Form,
    strict: bool,
    deferred: bool,
    kept: Mutex<Option<Kept>>,
}

/// What was made last.
struct Kept {
    snapshot: Snapshot,
    tools: Tools,
    pieces: HashMap<Arc<str>, (AnyTool, Piece)>,
}

impl Definitions {
    /// Definitions of this form.
    ///
    /// Strict mode is used for OpenAI wherever a schema can be made legal for it without losing what it means, and not
    /// at all for Anthropic, who takes only a few strict tools a request; see [`strict`](Definitions::strict).
    pub fn new(form: impl Into<Form>) -> Definitions {
        let form = form.into();
        let strict = matches!(form, Form::OpenAi | Form::OpenAiChat);
        Definitions { form, strict, deferred: false, kept: Mutex::new(None) }
    }

    /// Whether to use the provider's strict mode where a schema is legal for it.
    ///
    /// Anthropic bounds what all strict tools of a request have together; here the first tools that fit are strict and
    /// the rest plain. Gemini and MCP have no strict mode.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Definitions {
        self.strict = strict;
        self
    }

    /// Whether tools that the model would have to search for are included. Default: they are not.
    #[must_use]
    pub fn with_deferred(mut self, deferred: bool) -> Definitions {
        self.deferred = deferred;
        self
    }

    /// The definitions of a snapshot's tools.
    pub fn of(&self, snapshot: &Snapshot) -> Tools {
        // Made while others wait: they want the same.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &*kept
            && kept.snapshot.is(snapshot)
        {
            return kept.tools.clone();
        }
        let mut before = kept.take();
        let old = before.as_mut().map(|kept| std::mem::take(&mut kept.pieces)).unwrap_or_default();
        let mut pieces = HashMap::with_capacity(snapshot.offers().len());
        let mut in_order = Vec::with_capacity(snapshot.offers().len());
        let mut changed = false;
        for offer in snapshot.offers().iter().filter(|offer| self.deferred || !offer.is_deferred()) {
            let piece = match old.get(offer.name()) {
                Some((tool, piece)) if tool.is(offer.tool()) => piece.clone(),
                _ => {
                    changed = true;
                    self.piece(offer)
                }
            };
            in_order.push((Arc::from(offer.name()), piece.clone()));
            pieces.insert(Arc::from(offer.name()), (offer.tool().clone(), piece));
        }
        let tools = match before {
            Some(before) if !changed && pieces.len() == old.len() => before.tools,
            _ => self.assemble(in_order),
        };
        *kept = Some(Kept { snapshot: snapshot.clone(), tools: tools.clone(), pieces });
        tools
    }

    fn assemble(&self, pieces: Vec<(Arc<str>, Piece)>) -> Tools {
        let mut left_out = Vec::new();
        let mut json =
            String::from(if self.form == Form::Gemini { "[{\"functionDeclarations\":[" } else { "[" });
        let mut budget = StrictBudget::new();
        let mut any = false;
        for (name, piece) in pieces {
            match piece {
                Ok(made) => {
                    if any {
                        json.push(',');
                    }
                    any = true;
                    let strict = made.strict.as_ref().filter(|(demands, _)| budget.takes(self.form, demands));
                    json.push_str(strict.map_or(&made.plain, |(_, json)| json));
                }
                Err(reason) => left_out.push(LeftOut { name, reason }),
            }
        }
        json.push_str(if self.form == Form::Gemini { "]}]" } else { "]" });
        if !any {
            json = "[]".to_owned();
        }
        Tools(Arc::new(Made { json: json.into(), left_out }))
    }

    fn piece(&self, offer: &Offer) -> Piece {
        let made = || -> Result<Pair, Refused> {
            let tool = offer.tool();
            let schema = emit(tool.input_schema(), self.form.dialect(self.strict))?;
            // Anthropic refuses the whole request for such a name.
            if let Some(name) = schema.odd_property.as_ref().filter(|_| self.form == Form::Anthropic) {
                return Err(Refused(format!(
                    "its argument `{name}` has a name that this provider doesn't take; letters, digits, `_`, `.` and `-` are accepted, at most {PROPERTY_CHARS_MAX}"
                )));
            }
            let (name, description) = (offer.name(), tool.description());
            match (self.form, schema.strict) {
                // Whether it may be strict is decided over all tools, so both are needed.
                (Form::Anthropic, Some(demands)) => {
                    let plain = emit(tool.input_schema(), Dialect::Plain)?;
                    let strict = anthropic(name, description, &schema);
                    Ok(Pair { plain: anthropic(name, description, &plain), strict: Some((demands, strict)) })
                }
                _ => Ok(Pair { plain: definition(self.form, offer, &schema), strict: None }),
            }
        };
        made().map(Arc::new).map_err(|Refused(reason)| Arc::from(reason))
    }
}

impl fmt::Debug for Definitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Definitions");
        shown.field("form", &self.form).field("strict", &self.strict).finish_non_exhaustive()
    }
}

/// One tool's definition, or why there is none.
type Piece = Result<Arc<Pair>, Arc<str>>;

struct Pair {
    plain: String,
    strict: Option<(Demands, String)>,
}

/// What the strict tools of one request may still have.
struct StrictBudget {
    tools: usize,
    optional: usize,
    unions: usize,
}

impl StrictBudget {
    fn new() -> StrictBudget {
        StrictBudget {
            tools: ANTHROPIC_STRICT_TOOLS_MAX,
            optional: ANTHROPIC_STRICT_OPTIONAL_MAX,
            unions: ANTHROPIC_STRICT_UNIONS_MAX,
        }
    }

    fn takes(&mut self, form: Form, demands: &Demands) -> bool {
        if form != Form::Anthropic {
            return true;
        }
        let left = (
            self.tools.checked_sub(1),
            self.optional.checked_sub(demands.optional),
            self.unions.checked_sub(demands.unions),
        );
        let (Some(tools), Some(optional), Some(unions)) = left else { return false };
        *self = StrictBudget { tools, optional, unions };
        true
    }
}

/// A finished `tools` array. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tools(Arc<Made>);

#[derive(Debug)]
struct Made {
    json: Arc<str>,
    left_out: Vec<LeftOut>,
}

impl Tools {
    /// No tools, for a request that offers none.
    pub fn none() -> Tools {
        Tools(Arc::new(Made { json: "[]".into(), left_out: Vec::new() }))
    }

    /// The array as JSON text: what belongs under `tools` of a request.
    pub fn json(&self) -> &str {
        &self.0.json
    }

    /// The same, to keep.
    pub fn shared(&self) -> Arc<str> {
        self.0.json.clone()
    }

    /// The array as a value, for hosts that build requests as values.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.0.json).expect("definitions are JSON")
    }

    /// The tools that the provider can't take, in the order of the snapshot.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.0.left_out
    }
}

/// A tool that could not be defined for a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name.
    pub name: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is left out: {}", self.name, self.reason)
    }
}

fn definition(form: Form, offer: &Offer, schema: &WireSchema) -> String {
    let (name, description) = (offer.name(), offer.tool().description());
    match form {
        Form::Anthropic => anthropic(name, description, schema),
        Form::OpenAi => format!(
            "{{\"type\":\"function\",\"name\":{},\"description\":{},\"parameters\":{},\"strict\":{}}}",
            text(name),
            text(description),
            schema.json,
            schema.strict.is_some()
        ),
        Form::OpenAiChat => format!(
            "{{\"type\":\"function\",\"function\":{{\"name\":{},\"description\":{},\"parameters\":{},\"strict\":{}}}}}",
            text(name),
            text(description),
            schema.json,
            schema.strict.is_some()
        ),
        Form::Gemini => {
            let mut json = format!("{{\"name\":{},\"description\":{}", text(name), text(description));
            // A function without parameters has none; an object without properties is refused by some models.
            if schema.has_properties {
                json.push_str(&format!(",\"parametersJsonSchema\":{}", schema.json));
            }
            json.push('}');
            json
        }
        Form::Mcp => mcp(name, offer.tool(), schema),
    }
}

fn anthropic(name: &str, description: &str, schema: &WireSchema) -> String {
    let strict = if schema.strict.is_some() { ",\"strict\":true" } else { "" };
    format!(
        "{{\"name\":{},\"description\":{},\"input_schema\":{}{strict}}}",
        text(name),
        text(description),
        schema.json
    )
}

fn mcp(name: &str, tool: &AnyTool, schema: &WireSchema) -> String {
    let description = text(tool.description());
    let mut json =
        format!("{{\"name\":{},\"description\":{description},\"inputSchema\":{}", text(name), schema.json);
    // Older revisions take only objects here; whatever can't be said is simply not promised.
    let output = tool.output_schema().filter(|schema| schema.get("type").is_some_and(|of| of == "object"));
    if let Some(Ok(output)) = output.map(|schema| emit(schema, Dialect::Plain)) {
        json.push_str(&format!(",\"outputSchema\":{}", output.json));
    }
    // Without a hint the worst is assumed, which is right for everything else.
    if tool.listed_class() == ListedClass::Always(Class::ReadOnly) {
        json.push_str(",\"annotations\":{\"readOnlyHint\":true}");
    }
    json.push('}');
    json
}

fn text(text: &str) -> String {
    serde_json::to_string(text).expect("text is JSON")
}
