//! From the tools that there are to the tools that a turn offers, stage by stage.
//!
//! base tools → build features → run-time gates → deny rules by name → external tools → duplicates → order.
//! The result depends on the *set* of tools and on nothing else: not on the order of registration, not on a
//! hash seed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{LoadedNames, OfferedTool, RegisteredTool, Snapshot, ToolListing, ToolOrigin, pin_tools};
use crate::decision::{DecisionReason, DecisionSource, Verdict};
use crate::limits;
use crate::ports::{Authorizer, HostPorts, PortName};
use crate::text::truncate_chars;
use crate::tool::{AnyTool, ToolExposure};

/// The circumstances under which tools are offered.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct AssemblyInputs<'a> {
    /// What is switched off.
    pub gates: &'a ToolGates,
    /// The rules, for tools that are denied whatever their input.
    pub authorizer: Option<&'a dyn Authorizer>,
    /// The ports that there are.
    pub ports: &'a HostPorts,
    /// Names that were found by searching.
    pub(crate) loaded: Option<&'a LoadedNames>,
}

impl<'a> AssemblyInputs<'a> {
    /// Everything on, with these ports.
    pub fn new(gates: &'a ToolGates, ports: &'a HostPorts) -> AssemblyInputs<'a> {
        AssemblyInputs { gates, authorizer: None, ports, loaded: None }
    }

    /// With these rules.
    #[must_use]
    pub fn authorizer(mut self, authorizer: &'a dyn Authorizer) -> AssemblyInputs<'a> {
        self.authorizer = Some(authorizer);
        self
    }
}

/// What is switched off at run time, and when tools are deferred.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolGates {
    /// Groups that are off.
    pub groups_off: HashSet<String>,
    /// Tools that are off, by name.
    pub tools_off: HashSet<String>,
    /// Build features that are off; a tool of such a feature is not there.
    pub features_off: HashSet<String>,
    /// With more tools than this, those that can be are deferred: those that say so and those from outside.
    pub defer_above: usize,
    /// So they are if the definitions of all tools take more than this part of the model's window, in
    /// percent.
    pub defer_above_percent: u8,
    /// How many tokens fit into the model's window. Where that isn't known only the count decides.
    pub window_tokens: Option<u64>,
    /// Tools that are never deferred, by name; `mcp__github__*` are all whose names begin so.
    pub always_load: HashSet<String>,
}

impl ToolGates {
    /// Whether a tool of this name is never deferred.
    fn loads_always(&self, name: &str) -> bool {
        let begins = |wanted: &String| wanted.strip_suffix('*').is_some_and(|begin| name.starts_with(begin));
        self.always_load.contains(name) || self.always_load.iter().any(begins)
    }
}

impl Default for ToolGates {
    fn default() -> ToolGates {
        ToolGates {
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
pub enum WithheldReason {
    /// Its build feature is off.
    Feature(String),
    /// It, or its group, is switched off.
    SwitchedOff,
    /// It says itself why it can't be offered.
    Unavailable(String),
    /// A port that it can't do without is absent.
    PortAbsent(PortName),
    /// It needs a user and there is none.
    NeedsUser,
    /// A rule denies it whatever its input.
    Denied(DecisionReason),
    /// A built-in tool has its name.
    Shadowed,
}

impl std::fmt::Display for WithheldReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WithheldReason::Feature(feature) => write!(f, "its build feature `{feature}` is off"),
            WithheldReason::SwitchedOff => f.write_str("it is switched off"),
            WithheldReason::Unavailable(reason) => f.write_str(reason),
            WithheldReason::PortAbsent(port) => write!(f, "this host has no {port}"),
            WithheldReason::NeedsUser => f.write_str("it needs a user, and this session has none"),
            WithheldReason::Denied(because) => write!(f, "denied by {because}"),
            WithheldReason::Shadowed => f.write_str("a built-in tool has its name"),
        }
    }
}

pub(super) fn assemble_offers(entries: &[Arc<RegisteredTool>], assembly: &AssemblyInputs<'_>) -> Snapshot {
    let mut withheld: Vec<(Arc<RegisteredTool>, WithheldReason)> = Vec::new();
    let mut keep = |entry: &Arc<RegisteredTool>| match reason_to_withhold(entry.tool(), assembly) {
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
        .partition(|entry| *entry.origin() == ToolOrigin::BuiltIn);

    // Sorted maps by name: the order of the result, and the place where duplicates meet.
    let built_in: BTreeMap<Arc<str>, Arc<RegisteredTool>> =
        built_in.into_iter().map(|entry| (entry.name().clone(), entry)).collect();
    // A denied or absent built-in tool keeps its names from being taken over, its other names too.
    let reserved: HashSet<&str> = entries
        .iter()
        .filter(|entry| *entry.origin() == ToolOrigin::BuiltIn)
        .flat_map(|entry| entry.names())
        .collect();
    let mut named: BTreeMap<Arc<str>, Arc<RegisteredTool>> = BTreeMap::new();
    let mut external = external;
    external.sort_by(|a, b| (a.name(), a.origin()).cmp(&(b.name(), b.origin())));
    for entry in external {
        if reserved.contains(&**entry.name()) {
            withheld.push((entry, WithheldReason::Shadowed));
            continue;
        }
        let entry =
            if named.contains_key(entry.name()) { entry.renamed(suffixed_name(&entry)) } else { entry };
        match withheld_reason(entry.name(), entry.tool(), assembly) {
            Some(why) => withheld.push((entry, why)),
            None => {
                named.entry(entry.name().clone()).or_insert(entry);
            }
        }
    }

    let offer = |(name, entry): (Arc<str>, Arc<RegisteredTool>)| OfferedTool {
        entry,
        name,
        listing: ToolListing::Shown,
    };
    let mut offers: Vec<OfferedTool> = built_in.into_iter().chain(named).map(offer).collect();
    defer_tools(&mut offers, assembly);
    withheld.sort_by(|(a, _), (b, _)| (a.name(), a.origin()).cmp(&(b.name(), b.origin())));
    pin_tools(offers, withheld)
}

fn reason_to_withhold(tool: &AnyTool, assembly: &AssemblyInputs<'_>) -> Option<WithheldReason> {
    let (spec, gates) = (tool.spec(), assembly.gates);
    if let Some(feature) = spec.feature.as_deref().filter(|feature| gates.features_off.contains(*feature)) {
        return Some(WithheldReason::Feature(feature.to_owned()));
    }
    if gates.groups_off.contains(&*spec.group) || gates.tools_off.contains(tool.name()) {
        return Some(WithheldReason::SwitchedOff);
    }
    if spec.needs_user && !assembly.ports.has(PortName::Asker) {
        return Some(WithheldReason::NeedsUser);
    }
    if let Some(port) = spec.needs.iter().find(|port| !assembly.ports.has(**port)) {
        return Some(WithheldReason::PortAbsent(*port));
    }
    if let Some(reason) = tool.unavailable_reason() {
        return Some(WithheldReason::Unavailable(reason));
    }
    withheld_reason(tool.name(), tool, assembly)
}

/// Whether a rule denies a tool under the name by which it would be offered.
fn withheld_reason(name: &str, tool: &AnyTool, assembly: &AssemblyInputs<'_>) -> Option<WithheldReason> {
    let hides = |authorizer: &dyn Authorizer| {
        let panicked =
            || Some(DecisionReason::new(DecisionSource::Failure, Verdict::Deny, "the rules, which failed"));
        crate::future::catch_panic(|| authorizer.tool_denial(name, tool)).unwrap_or_else(|_| panicked())
    };
    assembly.authorizer.and_then(hides).map(WithheldReason::Denied)
}

/// The name of an outside tool whose plain name another outside tool has: always the same for the same
/// source.
fn suffixed_name(entry: &RegisteredTool) -> Arc<str> {
    let hash = Sha256::digest(format!("{}\0{}", entry.origin(), entry.name()));
    let suffix: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let most = limits::NAME_CHARS_MAX - suffix.len() - 1;
    let plain = truncate_chars(entry.name(), most);
    format!("{plain}_{suffix}").into()
}

/// Marks what the model has to search for. Only if there are too many tools, and only if it can search.
///
/// What was found counts as before: a session whose tools are deferred doesn't change that by finding some.
fn defer_tools(offers: &mut [OfferedTool], assembly: &AssemblyInputs<'_>) {
    let searchable = offers.iter().any(OfferedTool::is_search);
    if !searchable || !are_too_many(offers, assembly.gates) {
        return;
    }
    for offer in offers {
        let external = *offer.origin() != ToolOrigin::BuiltIn;
        let can_wait = match offer.tool().spec().exposure {
            ToolExposure::AlwaysLoaded => false,
            ToolExposure::Deferred => true,
            ToolExposure::Normal => external,
        };
        if !can_wait || offer.is_search() || assembly.gates.loads_always(&offer.name) {
            continue;
        }
        let found = assembly.loaded.is_some_and(|loaded| loaded.contains(&offer.name));
        offer.listing = if found { ToolListing::Found } else { ToolListing::Deferred };
    }
}

/// Whether there are more tools than a model does well with, or their definitions leave too little of its
/// window.
fn are_too_many(offers: &[OfferedTool], gates: &ToolGates) -> bool {
    if offers.len() > gates.defer_above {
        return true;
    }
    let Some(window) = gates.window_tokens else { return false };
    let tokens = offers.iter().map(OfferedTool::tokens_guess).fold(0, u64::saturating_add);
    tokens.saturating_mul(100) > window.saturating_mul(gates.defer_above_percent.into())
}
