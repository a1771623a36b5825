//! Many rules compiled into one set: by name, by path, by command, by host.
//!
//! There are two of each index: one for rules that stop (deny and ask, names folded) and one for rules that let
//! through. Everything that costs is done here, once; a set is never changed, a new rule makes a new set.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

use haft::Extent;

use super::decide::{Decision, Judge};
use super::examples::Examine;
use super::host::Hosts;
use super::index::Index;
use super::lint::{self, Lint};
use super::path::{Anchor, End, Names as PathNames};
use super::pattern::Wild;
use super::subject::{Place, Subject, Touch};
use super::tree::{Meets, Tree};
use super::{Names, Rule, RuleId, Spec, examples};
use crate::source::List;

/// The directories that paths in rules start from, and those in which a session works.
#[derive(Debug, Clone)]
pub struct Anchors {
    /// Where `~/` leads.
    pub home: PathBuf,
    /// Where a relative path starts.
    pub cwd: PathBuf,
    /// Directories that were added to the working directory.
    pub added: Vec<PathBuf>,
    /// Directories that are reached through a link, each with where it really is. A rule that is anchored in one is
    /// anchored in the other too.
    pub links: Vec<(PathBuf, PathBuf)>,
}

impl Anchors {
    /// Two directories, with nothing added and no links.
    pub fn new(home: impl Into<PathBuf>, cwd: impl Into<PathBuf>) -> Anchors {
        Anchors { home: home.into(), cwd: cwd.into(), added: Vec::new(), links: Vec::new() }
    }

    /// Adds a working directory.
    #[must_use]
    pub fn with_added(mut self, directory: impl Into<PathBuf>) -> Anchors {
        self.added.push(directory.into());
        self
    }

    /// Says where a directory really is.
    #[must_use]
    pub fn with_link(mut self, given: impl Into<PathBuf>, real: impl Into<PathBuf>) -> Anchors {
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
    pub(super) facts: Vec<Facts>,
    pub(super) stop: Indexes,
    pub(super) allow: Indexes,
    pub(super) anchors: Anchors,
    working: Vec<PathBuf>,
}

/// What is asked of a rule while a call is judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub(super) list: List,
    /// A path rule for writing.
    pub(super) edits: bool,
    /// A command without wildcards.
    pub(super) exact: bool,
}

/// Rules by what they speak of.
#[derive(Debug, Clone)]
pub(super) struct Indexes {
    pub(super) names: Index<Wild>,
    pub(super) paths: Tree,
    pub(super) bash: Index<Wild>,
    /// Those with an operator in them, such as `curl * | sh`, which no single command has.
    pub(super) lines: Index<Wild>,
    pub(super) monitor: Index<Wild>,
    pub(super) powershell: Index<Wild>,
    pub(super) hosts: Hosts,
}

impl Indexes {
    fn new(folded: bool) -> Indexes {
        Indexes {
            names: Index::default(),
            paths: Tree::new(folded),
            bash: Index::default(),
            lines: Index::default(),
            monitor: Index::default(),
            powershell: Index::default(),
            hosts: Hosts::default(),
        }
    }
}

impl RuleSet {
    /// Compiles rules and says what is doubtful about them. Examples of rules are taken at their word: a command is one
    /// command, a path leads where it says; see [`RuleSet::compile_with`].
    pub fn compile(rules: Vec<Rule>, anchors: &Anchors) -> (RuleSet, Vec<Lint>) {
        RuleSet::compile_with(rules, anchors, &|tool, input| examples::plain(tool, input, &anchors.cwd))
    }

    /// As [`RuleSet::compile`], with somebody who knows what an example would do. Effects count as enforced for examples.
    pub fn compile_with(rules: Vec<Rule>, anchors: &Anchors, examine: &Examine<'_>) -> (RuleSet, Vec<Lint>) {
        let mut lints = lint::rules(&rules);
        let failing = examples::check(&rules, anchors, examine);
        let drops =
            |id: usize| rules[id].list() == List::Allow && failing.iter().any(|lint| lint.rule.index() == id);
        let used: Vec<bool> = (0..rules.len()).map(|id| !drops(id)).collect();
        lints.extend(failing);
        lints.sort_by_key(|lint| lint.rule);
        (RuleSet::build(rules, anchors, used), lints)
    }

    /// Compiles those rules that are used, without a look at what is doubtful.
    pub(super) fn build(rules: Vec<Rule>, anchors: &Anchors, used: Vec<bool>) -> RuleSet {
        let facts = |rule: &Rule| Facts {
            list: rule.list(),
            edits: rule.tool == "Edit",
            exact: matches!(&rule.spec, Spec::Command(spec) if spec.exact),
        };
        let mut set = RuleSet {
            facts: rules.iter().map(facts).collect(),
            stop: Indexes::new(true),
            allow: Indexes::new(false),
            working: anchors.working(),
            anchors: anchors.clone(),
            rules: Vec::new(),
            used: Vec::new(),
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
        let indexes = if rule.list() == List::Allow { &mut self.allow } else { &mut self.stop };
        match &rule.spec {
            Spec::Every | Spec::Called(_) | Spec::Argument(_) => {
                insert_names(&mut indexes.names, rule, id);
            }
            Spec::Command(spec) => {
                if rule.list() != List::Allow && spec.has_operator() {
                    spec.patterns.iter().for_each(|pattern| indexes.lines.insert(pattern.clone(), id));
                }
                let index = match &*rule.tool {
                    "Monitor" => &mut indexes.monitor,
                    "PowerShell" => &mut indexes.powershell,
                    _ => &mut indexes.bash,
                };
                spec.patterns.iter().for_each(|pattern| index.insert(pattern.clone(), id));
            }
            Spec::Path(spec) => {
                let anchor: &Path = match spec.anchor {
                    Anchor::Root => Path::new("/"),
                    Anchor::Home => &self.anchors.home,
                    Anchor::Source => &rule.source().anchor,
                    Anchor::Cwd => &self.anchors.cwd,
                };
                // The names after the anchor may lead through a link as well.
                let names = spec.names();
                let mut start = anchor.to_owned();
                start.extend(&names);
                for way in self.anchors.ways(&start) {
                    let way = PathNames::of(&way, indexes.paths.folded());
                    indexes.paths.insert(&way, &spec.steps[names.len()..], spec.end, id);
                }
            }
            Spec::Host(spec) => indexes.hosts.insert(spec, id),
            Spec::Never(_) => return,
        }
        // For letting through, `Read` and `Edit` speak of the files of every tool: all of them, and the working
        // directories.
        if rule.list() == List::Allow && rule.spec == Spec::Every {
            match &*rule.tool {
                "Read" => indexes.paths.insert(&PathNames::default(), &[], End::Tree, id),
                "Edit" => {
                    for directory in &self.working {
                        indexes.paths.insert(&PathNames::of(directory, false), &[], End::Tree, id);
                    }
                }
                _ => {}
            }
        }
    }

    /// What the rules say of a call.
    pub fn decide(&self, subject: &Subject<'_>) -> Decision {
        Judge::new(self, subject, false).run()
    }

    /// The same with every rule that had something to say, and why it didn't decide.
    pub fn explain(&self, subject: &Subject<'_>) -> Decision {
        Judge::new(self, subject, true).run()
    }

    /// The rule that keeps a tool from being offered at all, if one does.
    pub fn hides(&self, tool: &str) -> Option<RuleId> {
        let mut found: Option<u32> = None;
        self.stop.names.each(tool, |id| {
            let denies = self.facts[id as usize].list == List::Deny;
            if denies && self.rules[id as usize].is_bare() {
                found = Some(found.map_or(id, |other| other.min(id)));
            }
        });
        found.map(RuleId)
    }

    /// The rule that keeps a tool from touching a place so, if one does: for tools that walk a folder and leave out what
    /// they may not touch. Rules that ask count, since nobody is asked in the middle of a walk.
    pub fn stops(&self, tool: &str, touch: Touch, place: &Place<'_>) -> Option<RuleId> {
        let mut found: Option<u32> = None;
        self.stopping(tool, touch, place, |id, meets| {
            if meets == Meets::Whole {
                found = Some(found.map_or(id, |other| other.min(id)));
            }
        });
        found.map(RuleId)
    }

    /// Hands over every rule that stops a place from being touched so, by either of its paths.
    pub(super) fn stopping(
        &self,
        tool: &str,
        touch: Touch,
        place: &Place<'_>,
        mut met: impl FnMut(u32, Meets),
    ) {
        let tree = &self.stop.paths;
        if tree.is_empty() {
            return;
        }
        let applies = |facts: &Facts| match touch {
            Touch::Reads => !facts.edits,
            // What may not be read may not be changed either; notebooks are the exception that people know.
            _ => facts.edits || (facts.list == List::Deny && tool != "NotebookEdit"),
        };
        let mut way = |path: &Path, extent: Extent| {
            tree.walk(&PathNames::of(path, true), extent, |id, meets| {
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
            true => PathNames::of(path, false)
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

fn insert_names(index: &mut Index<Wild>, rule: &Rule, id: u32) {
    match &rule.names {
        Names::One => {
            index.insert(Wild::literal(&rule.tool), id);
            // A server's name may hold `__` itself: what stops a tool stops a server of that name.
            if rule.list() != List::Allow && rule.tool.starts_with("mcp__") {
                index.insert(Wild::starting(&format!("{}__", rule.tool)), id);
            }
        }
        Names::Server => index.insert(Wild::starting(&format!("{}__", rule.tool)), id),
        Names::Matching(pattern) => index.insert(pattern.clone(), id),
    }
}
