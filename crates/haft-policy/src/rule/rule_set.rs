//! Many rules compiled into one set: by name, by path, by command, by host.
//!
//! There are two of each index: one for rules that stop (deny and ask, names folded) and one for rules that let
//! through. Everything that costs is done here, once; a set is never changed, a new rule makes a new set.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

use haft::effects::{AccessKind, RootExtent};

use super::evaluate::{RuleEvaluation, RuleMatches};
use super::examples::BuildSubject;
use super::host::HostIndex;
use super::lint::{self, RuleLint};
use super::path::{PathAnchor, PathEnd, PathNames, PathSpec, PathStep};
use super::path_tree::{PathMatch, PathTree};
use super::pattern::WildcardPattern;
use super::pattern_index::PatternIndex;
use super::subject::{EffectKind, RuleSubject, SubjectCommand, SubjectPath};
use super::{Rule, RuleId, RuleSpecifier, ToolPattern, examples, known_tools};
use crate::source::RuleList;

/// The directories that paths in rules start from, and those in which a session works.
#[derive(Debug, Clone)]
pub struct RuleAnchors {
    /// Where `~/` leads.
    pub home: PathBuf,
    /// Where a relative path starts.
    pub cwd: PathBuf,
    /// Directories that were added to the working directory.
    pub added: Vec<PathBuf>,
    /// Directories that are reached through a link, each with where it really is. A rule that is anchored in one is
    /// anchored in the other too.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Paths of rules that lead through a link, each with where that really is. A rule in `deny` or `ask` speaks of both;
    /// one in `allow` of what it names, as both paths of a call have to be allowed.
    pub leads: Vec<(PathBuf, PathBuf)>,
    /// A folder that lasts as long as the session. Rules for what lies in it name it by this path.
    pub private: Option<PathBuf>,
}

impl RuleAnchors {
    /// Two directories, with nothing added and no links.
    pub fn new(home: impl Into<PathBuf>, cwd: impl Into<PathBuf>) -> RuleAnchors {
        RuleAnchors {
            home: home.into(),
            cwd: cwd.into(),
            added: Vec::new(),
            links: Vec::new(),
            leads: Vec::new(),
            private: None,
        }
    }

    /// Adds a working directory.
    #[must_use]
    pub fn with_added(mut self, directory: impl Into<PathBuf>) -> RuleAnchors {
        self.added.push(directory.into());
        self
    }

    /// Says where a directory really is.
    #[must_use]
    pub fn with_link(mut self, given: impl Into<PathBuf>, real: impl Into<PathBuf>) -> RuleAnchors {
        self.links.push((given.into(), real.into()));
        self
    }

    /// The path, and where links say it really is.
    fn ways<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
        let linked = self.links.iter().filter_map(|(given, real)| {
            let below = path.strip_prefix(given).ok()?;
            Some(if below.as_os_str().is_empty() { real.clone() } else { real.join(below) })
        });
        std::iter::once(path.to_owned()).chain(linked.filter(move |way| way != path))
    }

    /// Where a rule's own path really leads, if elsewhere.
    fn lead(&self, path: &Path) -> Option<&Path> {
        self.leads.iter().find(|(given, _)| given == path).map(|(_, real)| &**real)
    }

    /// Every working directory, both ways.
    fn working(&self) -> Vec<PathBuf> {
        std::iter::once(&self.cwd).chain(&self.added).flat_map(|directory| self.ways(directory)).collect()
    }
}

/// Rules, compiled.
#[derive(Debug, Clone)]
pub struct RuleSet {
    pub(super) rules: Vec<Rule>,
    /// Which of them count.
    pub(super) used: Vec<bool>,
    pub(super) facts: Vec<RuleFacts>,
    pub(super) stop: RuleIndexes,
    pub(super) allow: RuleIndexes,
    pub(super) anchors: RuleAnchors,
    working: Vec<PathBuf>,
    may_stop: MayStop,
}

/// The first rule of each list that stops something of a kind: `deny`, then `ask`.
#[derive(Debug, Clone, Copy, Default)]
struct MayStop {
    reads: [Option<u32>; 2],
    writes: [Option<u32>; 2],
    hosts: [Option<u32>; 2],
    commands: [Option<u32>; 2],
}

/// What is asked of a rule while a call is judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuleFacts {
    pub(super) list: RuleList,
    /// A path rule for writing.
    pub(super) edits: bool,
    /// A command without wildcards.
    pub(super) exact: bool,
}

/// Rules by what they speak of.
#[derive(Debug, Clone)]
pub(super) struct RuleIndexes {
    pub(super) names: PatternIndex<WildcardPattern>,
    pub(super) paths: PathTree,
    pub(super) bash: PatternIndex<WildcardPattern>,
    /// Those with an operator in them, such as `curl * | sh`, which no single command has.
    pub(super) lines: PatternIndex<WildcardPattern>,
    pub(super) monitor: PatternIndex<WildcardPattern>,
    pub(super) powershell: PatternIndex<WildcardPattern>,
    pub(super) hosts: HostIndex,
}

impl RuleIndexes {
    fn new(folded: bool) -> RuleIndexes {
        RuleIndexes {
            names: PatternIndex::default(),
            paths: PathTree::new(folded),
            bash: PatternIndex::default(),
            lines: PatternIndex::default(),
            monitor: PatternIndex::default(),
            powershell: PatternIndex::default(),
            hosts: HostIndex::default(),
        }
    }
}

impl RuleSet {
    /// Compiles rules and says what is doubtful about them. Examples of rules are taken at their word: a command is one
    /// command, a path leads where it says; see [`RuleSet::compile_with`].
    pub fn compile(rules: Vec<Rule>, anchors: &RuleAnchors) -> (RuleSet, Vec<RuleLint>) {
        RuleSet::compile_with(rules, anchors, &|tool, input| {
            examples::plain_subject(tool, input, &anchors.cwd)
        })
    }

    /// As [`RuleSet::compile`], with somebody who knows what an example would do. Effects count as enforced for examples.
    pub fn compile_with(
        rules: Vec<Rule>,
        anchors: &RuleAnchors,
        examine: &BuildSubject<'_>,
    ) -> (RuleSet, Vec<RuleLint>) {
        let mut lints = lint::lint_rules(&rules);
        let failing = examples::check_examples(&rules, anchors, examine);
        let drops = |id: usize| {
            rules[id].list() == RuleList::Allow && failing.iter().any(|lint| lint.rule.index() == id)
        };
        let used: Vec<bool> = (0..rules.len()).map(|id| !drops(id)).collect();
        lints.extend(failing);
        lints.sort_by_key(|lint| lint.rule);
        (RuleSet::build(rules, anchors, used), lints)
    }

    /// Compiles those rules that are used, without a look at what is doubtful.
    pub(super) fn build(rules: Vec<Rule>, anchors: &RuleAnchors, used: Vec<bool>) -> RuleSet {
        let facts = |rule: &Rule| RuleFacts {
            list: rule.list(),
            edits: rule.tool == "Edit",
            exact: matches!(&rule.spec, RuleSpecifier::Command(spec) if spec.exact),
        };
        let mut set = RuleSet {
            facts: rules.iter().map(facts).collect(),
            stop: RuleIndexes::new(true),
            allow: RuleIndexes::new(false),
            working: anchors.working(),
            anchors: anchors.clone(),
            rules: Vec::new(),
            used: Vec::new(),
            may_stop: MayStop::default(),
        };
        for (id, rule) in (0..).zip(&rules) {
            if used[id as usize] && !lint::is_skipped(rule) {
                set.insert(id, rule);
            }
        }
        set.stop.paths.finish();
        set.allow.paths.finish();
        (set.rules, set.used) = (rules, used);
        set
    }

    fn insert(&mut self, id: u32, rule: &Rule) {
        self.may_stop.see(id, rule);
        let indexes = if rule.list() == RuleList::Allow { &mut self.allow } else { &mut self.stop };
        match &rule.spec {
            RuleSpecifier::Every | RuleSpecifier::Called(_) | RuleSpecifier::Argument(_) => {
                insert_names(&mut indexes.names, rule, id);
            }
            RuleSpecifier::Command(spec) => {
                if rule.list() != RuleList::Allow && spec.has_operator() {
                    let forms = spec.patterns.iter().flat_map(|pattern| [pattern.clone(), pattern.as_line()]);
                    forms.for_each(|form| indexes.lines.insert(form, id));
                }
                let index = match &*rule.tool {
                    "Monitor" => &mut indexes.monitor,
                    "PowerShell" => &mut indexes.powershell,
                    _ => &mut indexes.bash,
                };
                spec.patterns.iter().for_each(|pattern| index.insert(pattern.clone(), id));
            }
            RuleSpecifier::Path(spec) => {
                // The names after the anchor may lead through a link as well.
                let names = spec.names();
                let mut start = anchor_directory(&self.anchors, rule, spec).to_owned();
                start.extend(&names);
                let after = &spec.steps[names.len()..];
                for way in self.anchors.ways(&start) {
                    let way = PathNames::from_path(&way, indexes.paths.folded());
                    indexes.paths.insert(&way, after, spec.end, id);
                }
                if rule.list() != RuleList::Allow
                    && let Some((own, after)) = own_path(&self.anchors, rule, spec)
                    && let Some(real) = self.anchors.lead(&own)
                {
                    let real = PathNames::from_path(real, indexes.paths.folded());
                    indexes.paths.insert(&real, after, spec.end, id);
                }
            }
            RuleSpecifier::Host(spec) => indexes.hosts.insert(spec, id),
            RuleSpecifier::Never(_) => return,
        }
        // To stop, `Edit` alone is `Edit` of everything: who forbids it doesn't mean that `Write` is fine.
        if rule.list() != RuleList::Allow && is_every_edit(rule) {
            indexes.paths.insert(&PathNames::default(), &[], PathEnd::Tree, id);
        }
        // For letting through, `Read` and `Edit` speak of the files of every tool: all of them, and the working
        // directories.
        if rule.list() == RuleList::Allow && rule.spec == RuleSpecifier::Every {
            match &*rule.tool {
                "Read" => indexes.paths.insert(&PathNames::default(), &[], PathEnd::Tree, id),
                "Edit" => {
                    for directory in &self.working {
                        indexes.paths.insert(&PathNames::from_path(directory, false), &[], PathEnd::Tree, id);
                    }
                }
                _ => {}
            }
        }
    }

    /// What the rules say of a call.
    pub fn decide(&self, subject: &RuleSubject<'_>) -> RuleMatches {
        RuleEvaluation::new(self, subject, false).run()
    }

    /// The same with every rule that had something to say, and why it didn't decide.
    pub fn explain(&self, subject: &RuleSubject<'_>) -> RuleMatches {
        RuleEvaluation::new(self, subject, true).run()
    }

    /// The rule that keeps a tool from being offered at all, if one does.
    pub fn tool_denial(&self, tool: &str) -> Option<RuleId> {
        let by = |name: &str, counts: fn(&Rule) -> bool| {
            let mut found: Option<u32> = None;
            self.stop.names.each(name, |id| {
                let denies = self.facts[id as usize].list == RuleList::Deny;
                if denies && counts(&self.rules[id as usize]) {
                    found = Some(found.map_or(id, |other| other.min(id)));
                }
            });
            found
        };
        let edits = || {
            (known_tools::specifier_kind(tool) == known_tools::SpecifierKind::PathOf("Edit"))
                .then(|| by("Edit", is_every_edit))
        };
        // What it does is run a command.
        let commands = || (tool == "Monitor").then(|| by("Bash", Rule::is_bare));
        by(tool, Rule::is_bare).or_else(|| edits().flatten()).or_else(|| commands().flatten()).map(RuleId)
    }

    /// The first rule that stops something of a kind (reads, writes, hosts or commands), whatever it names: where nobody
    /// knows what is touched, it could be that. With `asks_only` rules that deny don't count.
    pub fn may_stop(&self, touch: EffectKind, asks_only: bool) -> Option<RuleId> {
        let MayStop { reads, writes, hosts, commands } = &self.may_stop;
        let [deny, ask] = match touch {
            EffectKind::Reads => *reads,
            // What may not be read may not be changed either.
            EffectKind::Writes | EffectKind::Deletes => [writes[0].or(reads[0]), writes[1]],
            EffectKind::Reaches => *hosts,
            EffectKind::Runs => *commands,
            EffectKind::Call | EffectKind::Anything => return None,
        };
        deny.filter(|_| !asks_only).or(ask).map(RuleId)
    }

    /// What rules deny to write and name without a wildcard, but perhaps `/**` at the end; for a name at any depth where it
    /// starts. Not what git keeps: it has to write that, and what of it runs is protected by others.
    pub fn denied_writes(&self) -> Vec<PathBuf> {
        let denied = self.rules.iter().filter(|rule| rule.list() == RuleList::Deny && rule.tool == "Edit");
        let named = denied.filter_map(|rule| match &rule.spec {
            RuleSpecifier::Path(spec) => {
                own_path(&self.anchors, rule, spec).filter(|(_, after)| after.is_empty())
            }
            _ => None,
        });
        named.map(|(path, _)| path).filter(|path| !path.iter().any(|name| name == ".git")).collect()
    }

    /// Rules that deny reading, each with what it names before its first wildcard, and whether it is for all of that.
    pub fn denied_reads(&self) -> Vec<(RuleId, PathBuf, bool)> {
        let mut found = Vec::new();
        for (id, rule) in (0..).zip(&self.rules) {
            let RuleSpecifier::Path(spec) = &rule.spec else { continue };
            let counts = self.used[id as usize] && !lint::is_skipped(rule);
            if rule.list() != RuleList::Deny || rule.tool == "Edit" || !counts {
                continue;
            }
            let names = spec.names();
            let mut start = anchor_directory(&self.anchors, rule, spec).to_owned();
            start.extend(&names);
            let whole = names.len() == spec.steps.len();
            found.extend(self.anchors.ways(&start).map(|way| (RuleId(id), way, whole)));
            let own = own_path(&self.anchors, rule, spec);
            let lead = own.and_then(|(own, after)| Some((self.anchors.lead(&own)?, after.is_empty())));
            found.extend(lead.map(|(real, whole)| (RuleId(id), real.to_owned(), whole)));
        }
        found
    }

    /// Whether this rule denies reading a path.
    pub fn denies_read(&self, rule: RuleId, path: &Path) -> bool {
        let mut found = false;
        self.stopping("Bash", EffectKind::Reads, &SubjectPath::at(path), |id, meets| {
            found |= RuleId(id) == rule && meets == PathMatch::Whole;
        });
        found
    }

    /// The first rule that could stop a command of which some words are known only when it runs.
    pub fn may_run(&self, tool: &str, command: &SubjectCommand<'_>) -> Option<RuleId> {
        if command.open.is_empty() || self.may_stop.commands == [None; 2] {
            return None;
        }
        let speaks = |rule: &Rule| match &rule.spec {
            // What has an operator in it is for whole lines.
            RuleSpecifier::Command(spec) if rule.list() != RuleList::Allow && !spec.has_operator() => {
                let of_tool = rule.tool == "Bash" || rule.tool == tool;
                let may =
                    |pieces: &Vec<String>| spec.patterns.iter().any(|pattern| pattern.may_match(pieces));
                of_tool && command.open.iter().any(may)
            }
            _ => false,
        };
        let found = |list: RuleList| {
            let mut rules = (0..).zip(&self.rules).filter(|(_, rule)| rule.list() == list);
            rules.find(|(_, rule)| speaks(rule)).map(|(id, _)| RuleId(id))
        };
        found(RuleList::Deny).or_else(|| found(RuleList::Ask))
    }

    /// Whether a rule allows exactly this command, word by word.
    pub fn allows_exactly(&self, tool: &str, text: &str) -> bool {
        let mut found = false;
        self.each_naming(tool, text, |id| found |= self.facts[id as usize].exact);
        found
    }

    /// Whether a rule that names commands allows this one; a bare rule names none.
    pub(crate) fn allows_by_name(&self, tool: &str, text: &str) -> bool {
        let mut found = false;
        self.each_naming(tool, text, |_| found = true);
        found
    }

    fn each_naming(&self, tool: &str, text: &str, mut see: impl FnMut(u32)) {
        match tool {
            "PowerShell" => self.allow.powershell.each(&text.to_lowercase(), see),
            _ => {
                self.allow.bash.each(text, &mut see);
                if tool == "Monitor" {
                    self.allow.monitor.each(text, see);
                }
            }
        }
    }

    /// The rule that keeps a tool from touching a place so, if one does: for tools that walk a folder and leave out what
    /// they may not touch. Rules that ask count, since nobody is asked in the middle of a walk.
    pub fn stops(&self, tool: &str, touch: EffectKind, place: &SubjectPath<'_>) -> Option<RuleId> {
        let mut found: Option<u32> = None;
        self.stopping(tool, touch, place, |id, meets| {
            if meets == PathMatch::Whole {
                found = Some(found.map_or(id, |other| other.min(id)));
            }
        });
        found.map(RuleId)
    }

    /// The rule that keeps every tool from reaching a host, if one does.
    pub fn stops_host(&self, host: &str) -> Option<RuleId> {
        let mut found: Option<u32> = None;
        self.stop.hosts.each(host, |id| found = Some(found.map_or(id, |other| other.min(id))));
        found.map(RuleId)
    }

    /// Hands over every rule that stops a place from being touched so, by either of its paths.
    pub(super) fn stopping(
        &self,
        tool: &str,
        touch: EffectKind,
        place: &SubjectPath<'_>,
        mut met: impl FnMut(u32, PathMatch),
    ) {
        let tree = &self.stop.paths;
        if tree.is_empty() {
            return;
        }
        let applies = |facts: &RuleFacts| match touch {
            EffectKind::Reads => !facts.edits,
            // What may not be read may not be changed either; notebooks are the exception that people know.
            _ => facts.edits || (facts.list == RuleList::Deny && tool != "NotebookEdit"),
        };
        let mut way = |path: &Path, extent: RootExtent| {
            tree.walk(&PathNames::from_path(path, true), extent, |id, meets| {
                if applies(&self.facts[id as usize]) {
                    met(id, meets);
                }
            });
        };
        way(&place.given, place.extent);
        if place.real != place.given {
            way(&place.real, place.extent);
        }
    }

    /// Whether a path lies in a working directory.
    pub(super) fn is_working(&self, path: &Path) -> bool {
        let plain: Cow<'_, Path> = match path.components().any(|part| part == Component::ParentDir) {
            true => PathNames::from_path(path, false)
                .iter()
                .fold(PathBuf::from("/"), |path, name| path.join(name))
                .into(),
            false => path.into(),
        };
        self.working.iter().any(|directory| plain.starts_with(directory))
    }

    /// A rule of this set.
    ///
    /// # Panics
    /// An id of another set.
    pub fn rule(&self, id: RuleId) -> &Rule {
        &self.rules[id.index()]
    }

    /// All rules, those that are never looked at included, in the order in which they came.
    pub fn rules(&self) -> impl Iterator<Item = (RuleId, &Rule)> {
        (0..).map(RuleId).zip(&self.rules)
    }
}

/// The directory that a rule's path starts in.
fn anchor_directory<'a>(anchors: &'a RuleAnchors, rule: &'a Rule, spec: &PathSpec) -> &'a Path {
    match spec.anchor {
        PathAnchor::Root => Path::new("/"),
        PathAnchor::Home => &anchors.home,
        PathAnchor::Source => &rule.source().anchor,
        PathAnchor::Cwd => &anchors.cwd,
    }
}

/// The path that a rule names before its first wildcard, and what comes after it; for a name at any depth the one where it
/// starts. None if it names nothing.
fn own_path<'r>(anchors: &RuleAnchors, rule: &Rule, spec: &'r PathSpec) -> Option<(PathBuf, &'r [PathStep])> {
    let skipped = usize::from(matches!(spec.steps.first(), Some(PathStep::Any)));
    let names = spec.names_after(skipped);
    // `**/a/b` isn't one place.
    if names.is_empty() || (skipped == 1 && names.len() < spec.steps.len() - 1) {
        return None;
    }
    let mut path = anchor_directory(anchors, rule, spec).to_owned();
    path.extend(&names);
    Some((path, &spec.steps[skipped + names.len()..]))
}

/// A path that a rule names, before its first wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPath {
    /// The path.
    pub path: PathBuf,
    /// How a rule in `allow` lets it be used.
    pub allowed: Option<AccessKind>,
    /// Whether the rule is for all that lies below it.
    pub is_subtree: bool,
}

impl Rule {
    /// The path that the rule names before its first wildcard, if it names one.
    pub fn named_path(&self, anchors: &RuleAnchors) -> Option<NamedPath> {
        let RuleSpecifier::Path(spec) = &self.spec else { return None };
        let (path, after) = own_path(anchors, self, spec)?;
        let access = if self.tool == "Edit" { AccessKind::Change } else { AccessKind::Observe };
        let allowed = (self.list() == RuleList::Allow).then_some(access);
        Some(NamedPath { path, allowed, is_subtree: after.is_empty() && spec.end != PathEnd::Itself })
    }

    /// The path that a rule in `deny` or `ask` names before its first wildcard, for whoever looks where it leads.
    pub fn own_path(&self, anchors: &RuleAnchors) -> Option<PathBuf> {
        match &self.spec {
            RuleSpecifier::Path(spec) if self.list() != RuleList::Allow => {
                Some(own_path(anchors, self, spec)?.0)
            }
            _ => None,
        }
    }
}

/// Whether a rule is `Edit`, for every use.
fn is_every_edit(rule: &Rule) -> bool {
    rule.tool == "Edit" && rule.is_bare()
}

impl MayStop {
    fn see(&mut self, id: u32, rule: &Rule) {
        let place = match rule.list() {
            RuleList::Deny => 0,
            RuleList::Ask => 1,
            RuleList::Allow => return,
        };
        let first = |kind: &mut [Option<u32>; 2]| {
            kind[place].get_or_insert(id);
        };
        match &rule.spec {
            RuleSpecifier::Path(_) if rule.tool == "Edit" => first(&mut self.writes),
            RuleSpecifier::Path(_) => first(&mut self.reads),
            RuleSpecifier::Host(_) => first(&mut self.hosts),
            RuleSpecifier::Command(_) => first(&mut self.commands),
            _ if is_every_edit(rule) => first(&mut self.writes),
            _ => {}
        }
    }
}

fn insert_names(index: &mut PatternIndex<WildcardPattern>, rule: &Rule, id: u32) {
    match &rule.names {
        ToolPattern::One => {
            index.insert(WildcardPattern::literal(&rule.tool), id);
            // A server's name may hold `__` itself: what stops a tool stops a server of that name.
            if rule.list() != RuleList::Allow && rule.tool.starts_with("mcp__") {
                index.insert(WildcardPattern::starting(&format!("{}__", rule.tool)), id);
            }
        }
        ToolPattern::Server => index.insert(WildcardPattern::starting(&format!("{}__", rule.tool)), id),
        ToolPattern::Matching(pattern) => index.insert(pattern.clone(), id),
    }
}
