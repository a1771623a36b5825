//! From the tools that there are to the tools that a turn offers, stage by stage.
//!
//! base tools → build features → run-time gates → deny rules by name → external tools → duplicates → order. The
//! result depends on the *set* of tools and on nothing else: not on the order of registration, not on a hash seed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{Entry, Listing, Loaded, Offer, Origin, Snapshot, pinned};
use crate::decision::{DecisionReason, DecisionSource, Verdict};
use crate::limits;
use crate::ports::{Authorizer, Port, Ports};
use crate::text::truncate_chars;
use crate::tool::{AnyTool, Exposure};

/// The circumstances under which tools are offered.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Assembly<'a> {
    /// What is switched off.
    pub gates: &'a Gates,
    /// The rules, for tools that are denied whatever their input.
    pub authorizer: Option<&'a dyn Authorizer>,
    /// The ports that there are.
    pub ports: &'a Ports,
    /// Names that were found by searching.
    pub(crate) loaded: Option<&'a Loaded>,
}

impl<'a> Assembly<'a> {
    /// Everything on, with these ports.
    pub fn new(gates: &'a Gates, ports: &'a Ports) -> Assembly<'a> {
        Assembly { gates, authorizer: None, ports, loaded: None }
    }

    /// With these rules.
    #[must_use]
    pub fn authorizer(mut self, authorizer: &'a dyn Authorizer) -> Assembly<'a> {
        self.authorizer = Some(authorizer);
        self
    }
}

/// What is switched off at run time, and when tools are deferred.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gates {
    /// Groups that are off.
    pub groups_off: HashSet<String>,
    /// Tools that are off, by name.
    pub tools_off: HashSet<String>,
    /// Build features that are off; a tool of such a feature is not there.
    pub features_off: HashSet<String>,
    /// With more tools than this, those that can be are deferred: those that say so and those from outside.
    pub defer_above: usize,
    /// So they are if the definitions of all tools take more than this part of the model's window, in percent.
    pub defer_above_percent: u8,
    /// How many tokens fit into the model's window. Where that isn't known only the count decides.
    pub window_tokens: Option<u64>,
    /// Tools that are never deferred, by name; `mcp__github__*` are all whose names begin so.
    pub always_load: HashSet<String>,
}

impl Gates {
    /// Whether a tool of this name is never deferred.
    fn loads_always(&self, name: &str) -> bool {
        let begins = |wanted: &String| wanted.strip_suffix('*').is_some_and(|begin| name.starts_with(begin));
        self.always_load.contains(name) || self.always_load.iter().any(begins)
    }
}

impl Default for Gates {
    fn default() -> Gates {
        Gates {
            groups_off: HashSet::new(),
            tools_off: HashSet::new(),
            features_off: HashSet::new(),
            defer_above: limits::DEFER_ABOVE,
            defer_above_percent: limits::DEFER_ABOVE_PERCENT,
            window_tokens: None,
            always_load: HashSet::new(),
        }
    }
}

/// Why a tool isn't offered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Withheld {
    /// Its build feature is off.
    Feature(String),
    /// It, or its group, is switched off.
    SwitchedOff,
    /// It says itself why it can't be offered.
    Unavailable(String),
    /// A port that it can't do without is absent.
    PortAbsent(Port),
    /// It needs a user and there is none.
    NeedsUser,
    /// A rule denies it whatever its input.
    Denied(DecisionReason),
    /// A built-in tool has its name.
    Shadowed,
}

impl std::fmt::Display for Withheld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Withheld::Feature(feature) => write!(f, "its build feature `{feature}` is off"),
            Withheld::SwitchedOff => f.write_str("it is switched off"),
            Withheld::Unavailable(reason) => f.write_str(reason),
            Withheld::PortAbsent(port) => write!(f, "this host has no {port}"),
            Withheld::NeedsUser => f.write_str("it needs a user, and this session has none"),
            Withheld::Denied(because) => write!(f, "denied by {because}"),
            Withheld::Shadowed => f.write_str("a built-in tool has its name"),
        }
    }
}

pub(super) fn assemble(entries: &[Arc<Entry>], assembly: &Assembly<'_>) -> Snapshot {
    let mut withheld: Vec<(Arc<Entry>, Withheld)> = Vec::new();
    let mut keep = |entry: &Arc<Entry>| match reason_to_withhold(entry.tool(), assembly) {
        Some(why) => {
            withheld.push((entry.clone(), why));
            false
        }
        None => true,
    };
    let (built_in, external): (Vec<_>, Vec<_>) = entries
        .iter()
        .filter(|entry| keep(entry))
        .cloned()
        .partition(|entry| *entry.origin() == Origin::BuiltIn);

    // Sorted maps by name: the order of the result, and the place where duplicates meet.
    let built_in: BTreeMap<Arc<str>, Arc<Entry>> =
        built_in.into_iter().map(|entry| (entry.name().clone(), entry)).collect();
    // A denied or absent built-in tool keeps its names from being taken over, its other names too.
    let reserved: HashSet<&str> = entries
        .iter()
        .filter(|entry| *entry.origin() == Origin::BuiltIn)
        .flat_map(|entry| entry.names())
        .collect();
    let mut named: BTreeMap<Arc<str>, Arc<Entry>> = BTreeMap::new();
    let mut external = external;
    external.sort_by(|a, b| (a.name(), a.origin()).cmp(&(b.name(), b.origin())));
    for entry in external {
        if reserved.contains(&**entry.name()) {
            withheld.push((entry, Withheld::Shadowed));
            continue;
        }
        let entry = if named.contains_key(entry.name()) { entry.renamed(suffixed(&entry)) } else { entry };
        match hidden(entry.name(), entry.tool(), assembly) {
            Some(why) => withheld.push((entry, why)),
            None => {
                named.entry(entry.name().clone()).or_insert(entry);
            }
        }
    }

    let offer = |(name, entry): (Arc<str>, Arc<Entry>)| Offer { entry, name, listing: Listing::Shown };
    let mut offers: Vec<Offer> = built_in.into_iter().chain(named).map(offer).collect();
    defer(&mut offers, assembly);
    withheld.sort_by(|(a, _), (b, _)| (a.name(), a.origin()).cmp(&(b.name(), b.origin())));
    pinned(offers, withheld)
}

fn reason_to_withhold(tool: &AnyTool, assembly: &Assembly<'_>) -> Option<Withheld> {
    let (spec, gates) = (tool.spec(), assembly.gates);
    if let Some(feature) = spec.feature.as_deref().filter(|feature| gates.features_off.contains(*feature)) {
        return Some(Withheld::Feature(feature.to_owned()));
    }
    if gates.groups_off.contains(&*spec.group) || gates.tools_off.contains(tool.name()) {
        return Some(Withheld::SwitchedOff);
    }
    if spec.needs_user && !assembly.ports.has(Port::Asker) {
        return Some(Withheld::NeedsUser);
    }
    if let Some(port) = spec.needs.iter().find(|port| !assembly.ports.has(**port)) {
        return Some(Withheld::PortAbsent(*port));
    }
    if let Some(reason) = tool.unavailable_reason() {
        return Some(Withheld::Unavailable(reason));
    }
    hidden(tool.name(), tool, assembly)
}

/// Whether a rule denies a tool under the name by which it would be offered.
fn hidden(name: &str, tool: &AnyTool, assembly: &Assembly<'_>) -> Option<Withheld> {
    let hides = |authorizer: &dyn Authorizer| {
        let panicked =
            || Some(DecisionReason::new(DecisionSource::Failure, Verdict::Deny, "the rules, which failed"));
        crate::future::guarded(|| authorizer.hides(name, tool)).unwrap_or_else(|_| panicked())
    };
    assembly.authorizer.and_then(hides).map(Withheld::Denied)
}

/// The name of an outside tool whose plain name another outside tool has: always the same for the same source.
fn suffixed(entry: &Entry) -> Arc<str> {
    let hash = Sha256::digest(format!("{}\0{}", entry.origin(), entry.name()));
    let suffix: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let most = limits::NAME_CHARS_MAX - suffix.len() - 1;
    let plain = truncate_chars(entry.name(), most);
    format!("{plain}_{suffix}").into()
}

/// Marks what the model has to search for. Only if there are too many tools, and only if it can search.
///
/// What was found counts as before: a session whose tools are deferred doesn't change that by finding some.
fn defer(offers: &mut [Offer], assembly: &Assembly<'_>) {
    let searchable = offers.iter().any(Offer::is_search);
    if !searchable || !are_too_many(offers, assembly.gates) {
        return;
    }
    for offer in offers {
        let external = *offer.origin() != Origin::BuiltIn;
        let can_wait = match offer.tool().spec().exposure {
            Exposure::AlwaysLoaded => false,
            Exposure::Deferred => true,
            Exposure::Normal => external,
        };
        if !can_wait || offer.is_search() || assembly.gates.loads_always(&offer.name) {
            continue;
        }
        let found = assembly.loaded.is_some_and(|loaded| loaded.contains(&offer.name));
        offer.listing = if found { Listing::Found } else { Listing::Deferred };
    }
}

/// Whether there are more tools than a model does well with, or their definitions leave too little of its window.
fn are_too_many(offers: &[Offer], gates: &Gates) -> bool {
    if offers.len() > gates.defer_above {
        return true;
    }
    let Some(window) = gates.window_tokens else { return false };
    let tokens = offers.iter().map(Offer::tokens_guess).fold(0, u64::saturating_add);
    tokens.saturating_mul(100) > window.saturating_mul(gates.defer_above_percent.into())
}
