//! A set of rules, indexed by name, path, command and host.
//!
//! Each index exists twice: for deny and ask rules with folded names, and for allow rules. All expensive
//! work is done here, once. A set is immutable: a new rule makes a new set.

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

/// The directories that rule paths are relative to, and the working directories of a session.
#[derive(Debug, Clone)]
pub struct RuleAnchors {
    /// The directory of `~/`.
    pub home: PathBuf,
    /// The directory of relative paths.
    pub cwd: PathBuf,
    /// Additional working directories.
    pub added: Vec<PathBuf>,
    /// Directories that are reached through a symlink, each with its real path. A rule that is anchored in
    /// one is anchored in the other too.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Rule paths that pass through a symlink, each with its real path. A rule in `deny` or `ask` matches
    /// both. A rule in `allow` matches only the path that it names, since both paths of a call have to be
    /// allowed.
    pub leads: Vec<(PathBuf, PathBuf)>,
    /// A folder that exists as long as the session. Proposed rules for files in it use this path.
    pub private: Option<PathBuf>,
}

impl RuleAnchors {
    /// Creates anchors with two directories, without additional directories and symlinks.
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

    /// Adds the real path of a directory.
    #[must_use]
    pub fn with_link(mut self, given: impl Into<PathBuf>, real: impl Into<PathBuf>) -> RuleAnchors {
        self.links.push((given.into(), real.into()));
        self
    }

    /// Returns the path, and its real paths through the known symlinks.
    fn ways<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
        let linked = self.links.iter().filter_map(|(given, real)| {
            let below = path.strip_prefix(given).ok()?;
            Some(if below.as_os_str().is_empty() { real.clone() } else { real.join(below) })
        });
        std::iter::once(path.to_owned()).chain(linked.filter(move |way| way != path))
    }

    /// Returns the real path of a rule's own path, if it differs.
    fn lead(&self, path: &Path) -> Option<&Path> {
        self.leads.iter().find(|(given, _)| given == path).map(|(_, real)| &**real)
    }

    /// Returns every working directory, as given and as resolved.
    fn working(&self) -> Vec<PathBuf> {
        std::iter::once(&self.cwd).chain(&self.added).flat_map(|directory| self.ways(directory)).collect()
    }
}

/// A compiled set of rules.
#[derive(Debug, Clone)]
pub struct RuleSet {
    pub(super) rules: Vec<Rule>,
    /// Which of the rules are evaluated.
    pub(super) used: Vec<bool>,
    pub(super) facts: Vec<RuleFacts>,
    pub(super) stop: RuleIndexes,
    pub(super) allow: RuleIndexes,
    pub(super) anchors: RuleAnchors,
    working: Vec<PathBuf>,
    may_stop: MayStop,
}

/// The first deny rule and the first ask rule for each kind of effect.
#[derive(Debug, Clone, Copy, Default)]
struct MayStop {
    reads: [Option<u32>; 2],
    writes: [Option<u32>; 2],
    hosts: [Option<u32>; 2],
    commands: [Option<u32>; 2],
}

/// The facts about a rule that an evaluation needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuleFacts {
    pub(super) list: RuleList,
    /// The rule is a path rule for writing.
    pub(super) edits: bool,
    /// The rule is a command without wildcards.
    pub(super) exact: bool,
}

/// Rules indexed by what they match.
#[derive(Debug, Clone)]
pub(super) struct RuleIndexes {
    pub(super) names: PatternIndex<WildcardPattern>,
    pub(super) paths: PathTree,
    pub(super) bash: PatternIndex<WildcardPattern>,
    /// Rules with an operator, such as `curl * | sh`, which no single command matches.
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
    /// Compiles rules and returns lints for them. Examples of rules are taken literally: a command line is
    /// one command, and no path is a symlink. See [`RuleSet::compile_with`].
    pub fn compile(rules: Vec<Rule>, anchors: &RuleAnchors) -> (RuleSet, Vec<RuleLint>) {
        RuleSet::compile_with(rules, anchors, &|tool, input| {
            examples::plain_subject(tool, input, &anchors.cwd)
        })
    }

    /// As [`RuleSet::compile`], with a function that determines the effects of an example. Effects of
    /// examples count as enforced.
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

    /// Compiles the used rules, without linting them.
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
                // The names after the anchor may pass through a symlink as well.
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
        // A bare `Edit` in `deny` or `ask` restricts every edit: an author who forbids it doesn't mean to
        // permit `Write`.
        if rule.list() != RuleList::Allow && is_every_edit(rule) {
            indexes.paths.insert(&PathNames::default(), &[], PathEnd::Tree, id);
        }
        // In `allow`, bare `Read` and `Edit` apply to the files of every tool: `Read` to all files, `Edit`
        // to the working directories.
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

    /// Evaluates the rules for a call and returns every rule that matched, with the reason why it didn't
    /// decide.
    pub fn explain(&self, subject: &RuleSubject<'_>) -> RuleMatches {
        RuleEvaluation::new(self, subject, true).run()
    }

    /// Returns the rule that hides a tool from the model, if there is one.
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
        // `Monitor` runs a command.
        let commands = || (tool == "Monitor").then(|| by("Bash", Rule::is_bare));
        by(tool, Rule::is_bare).or_else(|| edits().flatten()).or_else(|| commands().flatten()).map(RuleId)
    }

    /// Returns the first deny or ask rule for a kind of effect (reads, writes, hosts or commands), whatever
    /// it names. If a call's effect is unknown, it could be the one that the rule restricts. With
    /// `asks_only` deny rules don't count.
    pub fn may_stop(&self, touch: EffectKind, asks_only: bool) -> Option<RuleId> {
        let MayStop { reads, writes, hosts, commands } = &self.may_stop;
        let [deny, ask] = match touch {
            EffectKind::Reads => *reads,
            // A file that may not be read may not be changed either.
            EffectKind::Writes | EffectKind::Deletes => [writes[0].or(reads[0]), writes[1]],
            EffectKind::Reaches => *hosts,
            EffectKind::Runs => *commands,
            EffectKind::Call | EffectKind::Anything => return None,
        };
        deny.filter(|_| !asks_only).or(ask).map(RuleId)
    }

    /// Returns the paths of deny rules for writing that have no wildcard except a trailing `/**`. A name at
    /// any depth is returned at its anchor. Files that git maintains are excluded: git has to write them,
    /// and other protections cover those that git executes.
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

    /// Returns the rules that deny reading, each with the path before its first wildcard and whether the
    /// rule covers everything below that path.
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

    /// Returns whether this rule denies reading a path.
    pub fn denies_read(&self, rule: RuleId, path: &Path) -> bool {
        let mut found = false;
        self.stopping("Bash", EffectKind::Reads, &SubjectPath::at(path), |id, meets| {
            found |= RuleId(id) == rule && meets == PathMatch::Whole;
        });
        found
    }

    /// Returns the first deny or ask rule that could match a command of which some words are known only at
    /// run time.
    pub fn may_run(&self, tool: &str, command: &SubjectCommand<'_>) -> Option<RuleId> {
        if command.open.is_empty() || self.may_stop.commands == [None; 2] {
            return None;
        }
        let speaks = |rule: &Rule| match &rule.spec {
            // Rules with an operator apply only to whole lines.
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

    /// Returns whether a rule without wildcards allows exactly this command.
    pub fn allows_exactly(&self, tool: &str, text: &str) -> bool {
        let mut found = false;
        self.each_naming(tool, text, |id| found |= self.facts[id as usize].exact);
        found
    }

    /// Returns whether a rule with a command specifier allows this command. A bare rule has none.
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

    /// Returns the rule that prevents a tool's access to a path, if there is one. Tools that walk a folder
    /// use it to leave out restricted paths. Ask rules count too, since a tool can't ask during a walk.
    pub fn stops(&self, tool: &str, touch: EffectKind, place: &SubjectPath<'_>) -> Option<RuleId> {
        let mut found: Option<u32> = None;
        self.stopping(tool, touch, place, |id, meets| {
            if meets == PathMatch::Whole {
                found = Some(found.map_or(id, |other| other.min(id)));
            }
        });
        found.map(RuleId)
    }

    /// Returns the rule that prevents every tool from reaching a host, if there is one.
    pub fn stops_host(&self, host: &str) -> Option<RuleId> {
        let mut found: Option<u32> = None;
        self.stop.hosts.each(host, |id| found = Some(found.map_or(id, |other| other.min(id))));
        found.map(RuleId)
    }

    /// Calls `found` for every deny or ask rule that matches this access to a path, by its given or its
    /// resolved form.
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
            // A file that may not be read may not be changed either. `NotebookEdit` is an established
            // exception.
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

    /// Returns whether a path is in a working directory.
    pub(super) fn is_working(&self, path: &Path) -> bool {
        let plain: Cow<'_, Path> = if path.components().any(|part| part == Component::ParentDir) {
            PathNames::from_path(path, false)
                .iter()
                .fold(PathBuf::from("/"), |path, name| path.join(name))
                .into()
        } else {
            path.into()
        };
        self.working.iter().any(|directory| plain.starts_with(directory))
    }

    /// Returns a rule of this set.
    ///
    /// # Panics
    /// Panics if the id is from another set.
    pub fn rule(&self, id: RuleId) -> &Rule {
        &self.rules[id.index()]
    }

    /// Returns all rules in their original order, including those that are never evaluated.
    pub fn rules(&self) -> impl Iterator<Item = (RuleId, &Rule)> {
        (0..).map(RuleId).zip(&self.rules)
    }
}

/// Returns the directory that anchors a rule's path.
fn anchor_directory<'a>(anchors: &'a RuleAnchors, rule: &'a Rule, spec: &PathSpec) -> &'a Path {
    match spec.anchor {
        PathAnchor::Root => Path::new("/"),
        PathAnchor::Home => &anchors.home,
        PathAnchor::Source => &rule.source().anchor,
        PathAnchor::Cwd => &anchors.cwd,
    }
}

/// Returns the path that a rule names before its first wildcard, and the remaining steps. For a name at any
/// depth it is the path at the anchor. `None` if the rule names no path.
fn own_path<'r>(anchors: &RuleAnchors, rule: &Rule, spec: &'r PathSpec) -> Option<(PathBuf, &'r [PathStep])> {
    let skipped = usize::from(matches!(spec.steps.first(), Some(PathStep::Any)));
    let names = spec.names_after(skipped);
    // `**/a/b` is not one path.
    if names.is_empty() || (skipped == 1 && names.len() < spec.steps.len() - 1) {
        return None;
    }
    let mut path = anchor_directory(anchors, rule, spec).to_owned();
    path.extend(&names);
    Some((path, &spec.steps[skipped + names.len()..]))
}

/// The path that a rule names before its first wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPath {
    /// The path.
    pub path: PathBuf,
    /// The access that a rule in `allow` gives.
    pub allowed: Option<AccessKind>,
    /// Whether the rule covers everything below the path.
    pub is_subtree: bool,
}

impl Rule {
    /// Returns the path that the rule names before its first wildcard, if it names one.
    pub fn named_path(&self, anchors: &RuleAnchors) -> Option<NamedPath> {
        let RuleSpecifier::Path(spec) = &self.spec else { return None };
        let (path, after) = own_path(anchors, self, spec)?;
        let access = if self.tool == "Edit" { AccessKind::Change } else { AccessKind::Observe };
        let allowed = (self.list() == RuleList::Allow).then_some(access);
        Some(NamedPath { path, allowed, is_subtree: after.is_empty() && spec.end != PathEnd::Itself })
    }

    /// Returns the path that a deny or ask rule names before its first wildcard. Callers resolve its
    /// symlinks.
    pub fn own_path(&self, anchors: &RuleAnchors) -> Option<PathBuf> {
        match &self.spec {
            RuleSpecifier::Path(spec) if self.list() != RuleList::Allow => {
                Some(own_path(anchors, self, spec)?.0)
            }
            _ => None,
        }
    }
}

/// Returns whether the rule is a bare `Edit`.
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
            // A server's name may itself contain `__`, so a rule that denies a tool also denies a server of
            // that name.
            if rule.list() != RuleList::Allow && rule.tool.starts_with("mcp__") {
                index.insert(WildcardPattern::starting(&format!("{}__", rule.tool)), id);
            }
        }
        ToolPattern::Server => index.insert(WildcardPattern::starting(&format!("{}__", rule.tool)), id),
        ToolPattern::Matching(pattern) => index.insert(pattern.clone(), id),
    }
}
