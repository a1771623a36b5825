//! The tools that there are, and the snapshot of them that one turn works with.
//!
//! A [`Registry`] is immutable: registering gives a new one, and a clash of names is an error there and not
//! at run time. For each turn a [`Snapshot`] is taken *before* the request is sent; calls of that turn are
//! dispatched from it and from nothing else, so what was advertised is what can be called.

mod assemble;
mod closest;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::tool::breaker::ToolCircuit;
use crate::tool::{AnyTool, IntoTools, InvalidTool};

pub use assemble::{AssemblyInputs, ToolGates, WithheldReason};
pub(crate) use closest::closest_names;

/// Where a tool comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToolOrigin {
    /// Registered by the program itself.
    BuiltIn,
    /// Brought in at run time: the name of the server or folder. Such a tool never shadows another.
    External(Arc<str>),
}

impl ToolOrigin {
    /// The server or folder that it was brought in from.
    pub fn source(&self) -> Option<&str> {
        match self {
            ToolOrigin::BuiltIn => None,
            ToolOrigin::External(source) => Some(source),
        }
    }
}

impl fmt::Display for ToolOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolOrigin::BuiltIn => f.write_str("built-in"),
            ToolOrigin::External(source) => f.write_str(source),
        }
    }
}

/// A registered tool.
pub struct RegisteredTool {
    tool: AnyTool,
    origin: ToolOrigin,
    number: u32,
    /// One for all agents that share the registry.
    pub(crate) gate: Option<Arc<Semaphore>>,
    /// The same.
    pub(crate) circuit: Option<Arc<ToolCircuit>>,
    name: Arc<str>,
    fingerprint: OnceLock<[u8; 32]>,
    tokens: OnceLock<u64>,
}

impl RegisteredTool {
    fn new(tool: AnyTool, origin: ToolOrigin) -> Arc<RegisteredTool> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let gate = tool.spec().concurrency.map(|calls| Arc::new(Semaphore::new(calls)));
        let circuit = tool.spec().breaker.map(|policy| Arc::new(ToolCircuit::new(policy)));
        let name = Arc::from(tool.name());
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (fingerprint, tokens) = (OnceLock::new(), OnceLock::new());
        Arc::new(RegisteredTool { tool, origin, number, gate, circuit, name, fingerprint, tokens })
    }

    /// The same tool under another name.
    fn renamed(&self, name: Arc<str>) -> Arc<RegisteredTool> {
        let RegisteredTool { tool, origin, number, gate, circuit, .. } = self;
        let (tool, origin, gate, circuit) = (tool.clone(), origin.clone(), gate.clone(), circuit.clone());
        let (fingerprint, tokens) = (OnceLock::new(), OnceLock::new());
        Arc::new(RegisteredTool { tool, origin, number: *number, gate, circuit, name, fingerprint, tokens })
    }

    /// The tool.
    pub fn tool(&self) -> &AnyTool {
        &self.tool
    }

    /// Where it comes from.
    pub fn origin(&self) -> &ToolOrigin {
        &self.origin
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The hash of what the model was told of this tool; computed when first needed.
    pub fn fingerprint(&self) -> &[u8; 32] {
        self.fingerprint.get_or_init(|| {
            let mut hash = Sha256::new();
            let schema = crate::canonical::to_string(self.tool.input_schema());
            for part in [&*self.name, self.tool.description(), &schema] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
            hash.finalize().into()
        })
    }
}

impl RegisteredTool {
    /// About how many tokens the definition of this tool takes: a quarter of its characters, for lack of the
    /// model's own count. Worked out when first needed.
    pub fn tokens_guess(&self) -> u64 {
        *self.tokens.get_or_init(|| {
            let schema = LengthCounter::count_json(self.tool.input_schema());
            (self.name.len() + self.tool.description().len() + schema) as u64 / 4
        })
    }
}

/// Counts what is written.
struct LengthCounter(usize);

impl LengthCounter {
    /// The bytes that a value has as JSON.
    fn count_json(value: &serde_json::Value) -> usize {
        let mut length = LengthCounter(0);
        serde_json::to_writer(&mut length, value).expect("counting takes everything");
        length.0
    }
}

impl std::io::Write for LengthCounter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The tools that there are. Cheap to clone, never changed.
#[derive(Clone, Default)]
pub struct Registry {
    entries: Arc<Vec<Arc<RegisteredTool>>>,
}

impl Registry {
    /// No tools.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// These tools besides.
    ///
    /// # Errors
    /// A tool that can't be registered, or a name or alias that is taken.
    pub fn with<Kind>(&self, tools: impl IntoTools<Kind>) -> Result<Registry, RegistryError> {
        let tools = tools.into_tools().map_err(RegistryError::Bad)?;
        self.add(tools, &ToolOrigin::BuiltIn)
    }

    /// Tools from outside: an MCP server, a folder of scripts. They never shadow what is there: one whose
    /// name a built-in tool has is withheld when a snapshot is made, and says so there.
    ///
    /// # Errors
    /// A tool that can't be registered, or two of this source with one name.
    pub fn with_external<Kind>(
        &self,
        source: impl Into<Arc<str>>,
        tools: impl IntoTools<Kind>,
    ) -> Result<Registry, RegistryError> {
        let tools = tools.into_tools().map_err(RegistryError::Bad)?;
        self.add(tools, &ToolOrigin::External(source.into()))
    }

    fn add(&self, tools: Vec<AnyTool>, origin: &ToolOrigin) -> Result<Registry, RegistryError> {
        // Clashes are looked for among equals only: assembly decides between partitions.
        let mut taken: HashMap<&str, &str> = HashMap::new();
        for entry in self.entries.iter().filter(|entry| entry.origin == *origin) {
            taken.extend(entry.names().map(|name| (name, entry.tool.name())));
        }
        for tool in &tools {
            for name in std::iter::once(tool.name()).chain(tool.spec().aliases.iter().map(String::as_str)) {
                if let Some(owner) = taken.insert(name, tool.name()) {
                    let (name, tool, owner) = (name.to_owned(), tool.name().to_owned(), owner.to_owned());
                    return Err(RegistryError::Clash { name, tool, owner });
                }
            }
        }
        let mut entries = Vec::clone(&self.entries);
        entries.extend(tools.into_iter().map(|tool| RegisteredTool::new(tool, origin.clone())));
        Ok(Registry { entries: Arc::new(entries) })
    }

    /// Without the tools of one outside source.
    #[must_use]
    pub fn without_external(&self, source: &str) -> Registry {
        self.only(|entry| !matches!(&entry.origin, ToolOrigin::External(name) if **name == *source))
    }

    /// A filtered view, for a worker that should have less: the same tools, fewer of them.
    #[must_use]
    pub fn only(&self, keep: impl Fn(&RegisteredTool) -> bool) -> Registry {
        Registry { entries: Arc::new(self.entries.iter().filter(|entry| keep(entry)).cloned().collect()) }
    }

    /// The same tools, with those of `replacements` in the place of tools that have their name and origin:
    /// for tools that belong to one session, where several sessions share the others.
    #[must_use]
    pub fn replace_tools(&self, replacements: &Registry) -> Registry {
        let replacement = |entry: &Arc<RegisteredTool>| {
            let same =
                |other: &&Arc<RegisteredTool>| other.name == entry.name && other.origin == entry.origin;
            replacements.entries.iter().find(same).unwrap_or(entry).clone()
        };
        Registry { entries: Arc::new(self.entries.iter().map(replacement).collect()) }
    }

    /// All tools, in the order of registration.
    pub fn entries(&self) -> impl Iterator<Item = &RegisteredTool> {
        self.entries.iter().map(Arc::as_ref)
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The tools that are offered under these circumstances, in their final order.
    pub fn snapshot(&self, assembly: &AssemblyInputs<'_>) -> Snapshot {
        assemble::assemble_offers(&self.entries, assembly)
    }
}

impl RegisteredTool {
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.name).chain(self.tool.spec().aliases.iter().map(String::as_str))
    }
}

/// Why a registry could not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistryError {
    /// A tool that can't be registered.
    Bad(InvalidTool),
    /// A name that is taken.
    Clash {
        /// The name or alias.
        name: String,
        /// The tool that wants it.
        tool: String,
        /// The tool that has it.
        owner: String,
    },
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegistryError::Bad(bad) => bad.fmt(f),
            RegistryError::Clash { name, tool, owner } => {
                write!(f, "tool `{tool}` can't be called `{name}`: that is a name of `{owner}`")
            }
        }
    }
}

impl std::error::Error for RegistryError {}

/// A tool as it is offered.
#[derive(Clone)]
pub struct OfferedTool {
    pub(crate) entry: Arc<RegisteredTool>,
    pub(crate) name: Arc<str>,
    pub(crate) listing: ToolListing,
}

/// How the model knows of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolListing {
    /// With its schema, from the start.
    Shown,
    /// With its schema, since it was searched for.
    Found,
    /// By its name alone, until it is searched for.
    Deferred,
}

impl OfferedTool {
    /// The name under which it is offered: its own, or one with a suffix where two outside tools clash.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tool.
    pub fn tool(&self) -> &AnyTool {
        self.entry.tool()
    }

    /// Where it comes from.
    pub fn origin(&self) -> &ToolOrigin {
        self.entry.origin()
    }

    /// How the model knows of it.
    pub fn listing(&self) -> ToolListing {
        self.listing
    }

    /// Whether the model is given only the name, until it searches.
    pub fn is_deferred(&self) -> bool {
        self.listing == ToolListing::Deferred
    }

    /// Whether it is the tool by which the model searches for others.
    pub fn is_search(&self) -> bool {
        self.tool().spec().finds_tools
    }

    /// About how many tokens its definition takes.
    pub fn tokens_guess(&self) -> u64 {
        self.entry.tokens_guess()
    }
}

/// The tools of one turn: definitions and implementations, pinned.
#[derive(Clone)]
pub struct Snapshot(Arc<PinnedTools>);

struct PinnedTools {
    offers: Vec<OfferedTool>,
    by_name: HashMap<Arc<str>, usize, ShortNames>,
    /// Other names of tools that are offered.
    aliases: HashMap<String, usize>,
    withheld: Vec<(Arc<RegisteredTool>, WithheldReason)>,
}

impl Snapshot {
    /// The tools that are offered, built-in ones first, each part by name.
    pub fn offers(&self) -> &[OfferedTool] {
        &self.0.offers
    }

    /// The tools that the model is shown with their schemas.
    pub fn definitions(&self) -> impl Iterator<Item = &OfferedTool> {
        self.0.offers.iter().filter(|offer| !offer.is_deferred())
    }

    /// The tools that the model has to search for.
    pub fn deferred(&self) -> impl Iterator<Item = &OfferedTool> {
        self.0.offers.iter().filter(|offer| offer.is_deferred())
    }

    /// Whether this is the same snapshot, and not only one of the same tools.
    pub fn is(&self, other: &Snapshot) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether it offers the same tools under the same names, whatever the model knows of them.
    pub(crate) fn offers_the_same(&self, other: &Snapshot) -> bool {
        let (own, others) = (self.offers(), other.offers());
        let same = |(a, b): (&OfferedTool, &OfferedTool)| a.name == b.name && a.tool().is(b.tool());
        own.len() == others.len() && own.iter().zip(others).all(same)
    }

    /// The tools that are not offered, and why.
    pub fn withheld(&self) -> impl Iterator<Item = (&RegisteredTool, &WithheldReason)> {
        self.0.withheld.iter().map(|(entry, why)| (&**entry, why))
    }

    /// Finds a tool by its name, or by another of its names that nothing is really called.
    pub fn find(&self, name: &str) -> Result<&OfferedTool, ToolNotFound> {
        let pinned = &*self.0;
        if let Some(index) = pinned.by_name.get(name).or_else(|| pinned.aliases.get(name)) {
            return Ok(&pinned.offers[*index]);
        }
        let withheld = pinned.withheld.iter().find(|(entry, _)| entry.names().any(|own| own == name));
        if let Some((entry, why)) = withheld {
            return Err(ToolNotFound::Withheld(entry.name().clone(), why.clone()));
        }
        let aliases =
            pinned.aliases.iter().map(|(alias, index)| (alias.as_str(), Some(&*pinned.offers[*index].name)));
        let names = pinned.offers.iter().map(|offer| (&*offer.name, None)).chain(aliases);
        Err(ToolNotFound::Unknown(closest_names(name, names)))
    }
}

/// A name that finds no tool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolNotFound {
    /// There is one, but it isn't offered.
    Withheld(Arc<str>, WithheldReason),
    /// There is none; these are the closest names, in words.
    Unknown(Vec<String>),
}

pub(super) fn pin_tools(
    offers: Vec<OfferedTool>,
    withheld: Vec<(Arc<RegisteredTool>, WithheldReason)>,
) -> Snapshot {
    let by_name: HashMap<_, _, ShortNames> =
        offers.iter().enumerate().map(|(at, offer)| (offer.name.clone(), at)).collect();
    // An alias leads to its tool where no tool is called that. What a built-in tool has goes first, then the
    // sources by their names; they take no name of a tool that isn't offered, since a tool that is denied
    // keeps its names.
    let mut taken: HashSet<&str> = by_name.keys().map(|name| &**name).collect();
    let (built_in, mut external): (Vec<usize>, Vec<usize>) =
        (0..offers.len()).partition(|at| *offers[*at].origin() == ToolOrigin::BuiltIn);
    external.sort_by_key(|at| offers[*at].origin());
    let mut aliases = HashMap::new();
    for (tools, not_offered) in [(built_in, &[][..]), (external, &withheld)] {
        for (entry, _) in not_offered {
            let with_aliases = if entry.origin == ToolOrigin::BuiltIn { usize::MAX } else { 1 };
            taken.extend(entry.names().take(with_aliases));
        }
        for at in tools {
            let own = offers[at].tool().spec().aliases.iter();
            aliases.extend(own.filter(|alias| taken.insert(alias.as_str())).map(|alias| (alias.clone(), at)));
        }
    }
    Snapshot(Arc::new(PinnedTools { offers, by_name, aliases, withheld }))
}

/// FNV-1a: quick for short names. The keys are tools that were registered; what a model asks for is only
/// looked up, so there is nothing to flood.
#[derive(Clone, Copy, Default)]
struct ShortNames;

impl std::hash::BuildHasher for ShortNames {
    type Hasher = FnvHasher;

    fn build_hasher(&self) -> FnvHasher {
        FnvHasher(0xcbf2_9ce4_8422_2325)
    }
}

struct FnvHasher(u64);

impl std::hash::Hasher for FnvHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The names that a session has loaded by searching.
pub(crate) type LoadedNames = HashSet<Arc<str>>;
