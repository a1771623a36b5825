//! Tool definitions: the `tools` array of a request, from the tools of one snapshot.
//!
//! The array is the same bytes for the same set of tools, in any process, because a provider's prompt cache
//! is keyed by them. It is kept: as long as the tools stay the same, asking again costs a clone of an
//! [`Arc`]. When some change, only those are made anew.
//!
//! A tool that a provider can't take is left out alone, with the reason; the others are not affected.
//!
//! Tools that the model has to search for are not in the array, or in it and marked, or found in the
//! conversation: see [`ToolDefiner`].

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use haft::effects::table::ConcurrencyClass;
use haft::registry::{OfferedTool, Snapshot, ToolListing};
use haft::search::TOOL_SEARCH;
use haft::sync::lock;
use haft::tool::{AnyTool, ListedClass};

use crate::Wire;
use crate::limits::{
    ANTHROPIC_STRICT_OPTIONAL_MAX, ANTHROPIC_STRICT_TOOLS_MAX, ANTHROPIC_STRICT_UNIONS_MAX,
    PROPERTY_CHARS_MAX,
};
use crate::schema::{SchemaDialect, SchemaRefusal, StrictDemands, WireSchema, encode_schema};
use haft_agent::{SkippedTool, ToolDeferral, ToolDefiner, ToolDefinitions};

/// The form of a `tools` array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DefinitionForm {
    /// The form of a provider's wire.
    Wire(Wire),
    /// `{name, description, inputSchema, outputSchema?, annotations?}`, as an MCP server lists its tools.
    Mcp,
}

impl From<Wire> for DefinitionForm {
    fn from(wire: Wire) -> DefinitionForm {
        DefinitionForm::Wire(wire)
    }
}

impl DefinitionForm {
    fn format(self) -> &'static DefinitionFormat {
        match self {
            DefinitionForm::Wire(wire) => &wire.format().definitions,
            DefinitionForm::Mcp => &MCP_FORMAT,
        }
    }
}

/// How a form writes definitions.
pub(crate) struct DefinitionFormat {
    /// What stands before the first definition and after the last one.
    pub(crate) list: (&'static str, &'static str),
    pub(crate) dialect: SchemaDialect,
    /// The dialect of the strict mode, where there is one.
    pub(crate) strict_dialect: Option<SchemaDialect>,
    pub(crate) is_strict_by_default: bool,
    /// Whether the API limits what all strict tools of a request have together.
    pub(crate) limits_strict_tools: bool,
    /// Whether the API rejects the whole request for an unusual name of a property.
    pub(crate) limits_property_names: bool,
    /// Writes the definition of a tool.
    pub(crate) write: fn(&str, &AnyTool, &WireSchema) -> String,
    /// The provider's own form of deferred tools, where it has one.
    pub(crate) deferral: Option<DeferralFormat>,
}

/// Where deferred tools are.
pub(crate) enum DeferralFormat {
    /// In the list, at most so many, each with a mark in place of the last bracket of its definition.
    Marked { tools_max: usize, mark: &'static str },
    /// In the conversation, once they were found. The search has a form of its own, made from its definition.
    InConversation { write_search: fn(&str) -> String },
}

impl DefinitionFormat {
    /// A format with a bare list and nothing special.
    pub(crate) const fn plain(write: fn(&str, &AnyTool, &WireSchema) -> String) -> DefinitionFormat {
        DefinitionFormat {
            list: ("[", "]"),
            dialect: SchemaDialect::Plain,
            strict_dialect: None,
            is_strict_by_default: false,
            limits_strict_tools: false,
            limits_property_names: false,
            write,
            deferral: None,
        }
    }
}

static MCP_FORMAT: DefinitionFormat = DefinitionFormat::plain(write_mcp_definition);

/// Makes definitions and keeps them.
///
/// ```
/// use haft::{Engine, NoInput, Registry, tool};
/// use haft_provider::{DefinitionCache, Wire};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let now = tool("now", "Returns the time.", |_: NoInput, _| async { Ok("noon") });
/// let engine = Engine::new(Registry::new().with(now)?);
///
/// let definitions = DefinitionCache::new(Wire::Anthropic);
/// let turn = engine.turn();                            // pins the tools: what is sent is what can be called
/// let tools = definitions.define(turn.snapshot());
/// assert_eq!(
///     tools.json(),
///     r#"[{"name":"now","description":"Returns the time.","input_schema":{"type":"object","properties":{},"additionalProperties":false}}]"#
/// );
/// assert!(tools.left_out().is_empty());
/// # Ok(()) }
/// ```
pub struct DefinitionCache {
    form: DefinitionForm,
    strict: bool,
    deferred: bool,
    kept: Mutex<Option<CachedDefinitions>>,
}

/// What was made last.
struct CachedDefinitions {
    snapshot: Snapshot,
    tools: ToolDefinitions,
    ways: Vec<ToolPlacement>,
    pieces: HashMap<Arc<str>, (AnyTool, DefinitionResult)>,
}

impl DefinitionCache {
    /// Definitions of this form.
    ///
    /// Strict mode is used for OpenAI wherever a schema can be made legal for it without losing what it
    /// means, and not at all for Anthropic, who takes only a few strict tools a request; see
    /// [`strict`](DefinitionCache::strict).
    pub fn new(form: impl Into<DefinitionForm>) -> DefinitionCache {
        let form = form.into();
        let strict = form.format().is_strict_by_default;
        DefinitionCache { form, strict, deferred: false, kept: Mutex::new(None) }
    }

    /// Whether to use the provider's strict mode where a schema is legal for it.
    ///
    /// Anthropic bounds what all strict tools of a request have together; here the first tools that fit are
    /// strict and the rest plain. Gemini and MCP have no strict mode.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> DefinitionCache {
        self.strict = strict;
        self
    }

    /// Whether tools that the model would have to search for are included. Default: they are not.
    #[must_use]
    pub fn with_deferred(mut self, deferred: bool) -> DefinitionCache {
        self.deferred = deferred;
        self
    }

    /// The definitions of a snapshot's tools. Those that the model has to search for are not among them until
    /// they were found.
    pub fn define(&self, snapshot: &Snapshot) -> ToolDefinitions {
        self.define_tools(snapshot, ToolDeferral::Fallback, &HashSet::new())
    }

    /// The definition of one tool by itself, as JSON text. Nothing is kept.
    ///
    /// # Errors
    /// The form can't take it.
    pub fn define_one(&self, offer: &OfferedTool) -> Result<String, SkippedTool> {
        match self.piece(offer) {
            Ok(pair) => Ok(pair.plain.clone()),
            Err(reason) => Err(SkippedTool { name: Arc::from(offer.name()), reason }),
        }
    }

    /// The deferral that these tools allow.
    fn possible(&self, snapshot: &Snapshot, deferral: ToolDeferral) -> ToolDeferral {
        let most = match &self.form.format().deferral {
            Some(DeferralFormat::Marked { tools_max, .. }) => *tools_max,
            Some(DeferralFormat::InConversation { .. }) => usize::MAX,
            None => return ToolDeferral::Fallback,
        };
        if deferral == ToolDeferral::Fallback || self.deferred {
            return ToolDeferral::Fallback;
        }
        let count = snapshot.offers().iter().filter(|offer| offer.listing() != ToolListing::Shown).count();
        let mut searches = snapshot.offers().iter().filter(|offer| offer.is_search());
        let is_ours = searches.next().is_some_and(|offer| offer.name() == TOOL_SEARCH);
        if (1..=most).contains(&count) && is_ours && searches.next().is_none() {
            ToolDeferral::Native
        } else {
            ToolDeferral::Fallback
        }
    }

    fn way(&self, offer: &OfferedTool, deferral: ToolDeferral, known: &HashSet<String>) -> ToolPlacement {
        let is_marked = matches!(self.form.format().deferral, Some(DeferralFormat::Marked { .. }));
        match (offer.listing(), deferral) {
            (ToolListing::Deferred, ToolDeferral::Fallback) if !self.deferred => ToolPlacement::Left,
            (_, ToolDeferral::Fallback) => ToolPlacement::Plain,
            (ToolListing::Shown, _) if offer.is_search() && !is_marked => ToolPlacement::Search,
            (ToolListing::Shown, _) => ToolPlacement::Plain,
            (ToolListing::Found, _) if !known.contains(offer.name()) => ToolPlacement::Plain,
            (ToolListing::Found | ToolListing::Deferred, _) if is_marked => ToolPlacement::Marked,
            (ToolListing::Found | ToolListing::Deferred, _) => ToolPlacement::Elsewhere,
        }
    }

    fn assemble(
        &self,
        pieces: Vec<(Arc<str>, ToolPlacement, DefinitionResult)>,
        deferral: ToolDeferral,
        mut referred: HashSet<Arc<str>>,
    ) -> ToolDefinitions {
        let (mut left_out, mut names) = (Vec::new(), Vec::new());
        let format = self.form.format();
        let mut json = String::from(format.list.0);
        let mut budget = StrictBudget::new();
        let (mut any, mut last) = (false, None);
        for (name, way, piece) in pieces {
            match piece {
                Ok(made) => {
                    if any {
                        json.push(',');
                    }
                    any = true;
                    names.push(name.clone());
                    let strict = made.strict.as_ref().filter(|(demands, _)| budget.takes(demands));
                    let plain = strict.map_or(&made.plain, |(_, json)| json);
                    match (way, &format.deferral) {
                        (ToolPlacement::Search, Some(DeferralFormat::InConversation { write_search })) => {
                            json.push_str(&write_search(plain));
                        }
                        (ToolPlacement::Marked, Some(DeferralFormat::Marked { mark, .. })) => {
                            json.push_str(plain.strip_suffix('}').unwrap_or(plain));
                            json.push_str(mark);
                            referred.insert(name);
                        }
                        _ => json.push_str(plain),
                    }
                    if way != ToolPlacement::Marked {
                        last = Some(json.len() - 1);
                    }
                }
                Err(reason) => left_out.push(SkippedTool { name, reason }),
            }
        }
        json.push_str(format.list.1);
        if !any {
            json = "[]".to_owned();
        }
        let tools = ToolDefinitions::new(json, names).with_left_out(left_out);
        tools.with_deferral(deferral, referred).with_cacheable(last)
    }

    fn piece(&self, offer: &OfferedTool) -> DefinitionResult {
        let format = self.form.format();
        let (name, tool) = (offer.name(), offer.tool());
        let write = || -> Result<DefinitionPair, SchemaRefusal> {
            let dialect = format.strict_dialect.filter(|_| self.strict).unwrap_or(format.dialect);
            let schema = encode_schema(tool.input_schema(), dialect)?;
            if let Some(name) = schema.odd_property.as_ref().filter(|_| format.limits_property_names) {
                return Err(SchemaRefusal(format!(
                    "its argument `{name}` has a name that this provider doesn't take; letters, digits, `_`, `.` and `-` are accepted, at most {PROPERTY_CHARS_MAX}"
                )));
            }
            let definition = (format.write)(name, tool, &schema);
            match schema.strict.filter(|_| format.limits_strict_tools) {
                // Whether it may be strict is decided over all tools, so both are needed.
                Some(demands) => {
                    let plain = encode_schema(tool.input_schema(), format.dialect)?;
                    let plain = (format.write)(name, tool, &plain);
                    Ok(DefinitionPair { plain, strict: Some((demands, definition)) })
                }
                None => Ok(DefinitionPair { plain: definition, strict: None }),
            }
        };
        write().map(Arc::new).map_err(|SchemaRefusal(reason)| Arc::from(reason))
    }
}

/// Where the endpoint knows deferred tools, finding a tool doesn't change a byte: for Anthropic all tools are
/// in the array and those that can wait are marked `defer_loading`, for OpenAI they are not in it and
/// `ToolSearch` is a `tool_search`. A tool that was found and that the conversation doesn't hold any more is
/// defined like any other. Where nothing is deferred, where there are more than the API takes, and in forms
/// that have none for it, the fallback is used.
impl ToolDefiner for DefinitionCache {
    fn define_tools(
        &self,
        snapshot: &Snapshot,
        deferral: ToolDeferral,
        loaded: &HashSet<String>,
    ) -> ToolDefinitions {
        let deferral = self.possible(snapshot, deferral);
        let ways: Vec<ToolPlacement> =
            snapshot.offers().iter().map(|offer| self.way(offer, deferral, loaded)).collect();
        // Made while others wait: they want the same.
        let mut kept = lock(&self.kept);
        if let Some(kept) = &*kept
            && kept.snapshot.is(snapshot)
            && kept.ways == ways
        {
            return kept.tools.clone();
        }
        let mut before = kept.take();
        let old = before.as_mut().map(|kept| std::mem::take(&mut kept.pieces)).unwrap_or_default();
        let mut pieces = HashMap::with_capacity(old.len());
        let mut in_order = Vec::with_capacity(old.len());
        let mut changed = false;
        for (offer, way) in snapshot.offers().iter().zip(&ways).filter(|(_, way)| way.is_defined()) {
            let name: Arc<str> = Arc::from(offer.name());
            let piece = match old.get(offer.name()) {
                Some((tool, piece)) if tool.is(offer.tool()) => piece.clone(),
                _ => {
                    changed = true;
                    self.piece(offer)
                }
            };
            in_order.push((name.clone(), *way, piece.clone()));
            pieces.insert(name, (offer.tool().clone(), piece));
        }
        let tools = match before {
            Some(before) if !changed && pieces.len() == old.len() && before.ways == ways => before.tools,
            _ => self.assemble(in_order, deferral, conversation_tools(snapshot, &ways)),
        };
        *kept = Some(CachedDefinitions { snapshot: snapshot.clone(), tools: tools.clone(), ways, pieces });
        tools
    }
}

impl fmt::Debug for DefinitionCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Definitions");
        shown.field("form", &self.form).field("strict", &self.strict).finish_non_exhaustive()
    }
}

/// How a tool gets into a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolPlacement {
    /// Defined.
    Plain,
    /// Defined, and marked as one to search for.
    Marked,
    /// It is the search itself, which the provider has a form for.
    Search,
    /// In the conversation, once it was found.
    Elsewhere,
    /// Not at all.
    Left,
}

impl ToolPlacement {
    fn is_defined(self) -> bool {
        matches!(self, ToolPlacement::Plain | ToolPlacement::Marked | ToolPlacement::Search)
    }
}

/// The names of tools that get into a request by the conversation.
fn conversation_tools(snapshot: &Snapshot, ways: &[ToolPlacement]) -> HashSet<Arc<str>> {
    let offers = snapshot.offers().iter().zip(ways).filter(|(_, way)| **way == ToolPlacement::Elsewhere);
    offers.map(|(offer, _)| Arc::from(offer.name())).collect()
}

/// One tool's definition, or why there is none.
type DefinitionResult = Result<Arc<DefinitionPair>, Arc<str>>;

struct DefinitionPair {
    plain: String,
    strict: Option<(StrictDemands, String)>,
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

    fn takes(&mut self, demands: &StrictDemands) -> bool {
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

fn write_mcp_definition(name: &str, tool: &AnyTool, schema: &WireSchema) -> String {
    let description = json_text(tool.description());
    let mut json = format!(
        "{{\"name\":{},\"description\":{description},\"inputSchema\":{}",
        json_text(name),
        schema.json
    );
    // Older revisions take only objects here; whatever can't be said is simply not promised.
    let output = tool.output_schema().filter(|schema| schema.get("type").is_some_and(|of| of == "object"));
    if let Some(Ok(output)) = output.map(|schema| encode_schema(schema, SchemaDialect::Plain)) {
        json.push_str(&format!(",\"outputSchema\":{}", output.json));
    }
    // Without a hint the worst is assumed, which is right for everything else.
    if tool.listed_class() == ListedClass::Always(ConcurrencyClass::ReadOnly) {
        json.push_str(",\"annotations\":{\"readOnlyHint\":true}");
    }
    json.push('}');
    json
}

/// Writes a text as JSON.
pub(crate) fn json_text(text: &str) -> String {
    serde_json::to_string(text).expect("text is JSON")
}
