//! All path rules of one kind in one tree of path segments. A path is matched in one walk, however many
//! rules there are.
//!
//! Every pattern is absolute here: the names of its anchor are its first segments. `**` is a node that
//! stays active while the path continues, so the walk holds a small set of nodes. Each node also stores the
//! rules that could match *below* a path, for calls that touch a whole folder.

use std::collections::HashMap;

use haft::effects::RootExtent;

use super::path::{PathEnd, PathNames, PathStep};
use super::pattern::{IndexedPattern, SegmentPattern};
use super::pattern_index::PatternIndex;

#[derive(Debug, Clone)]
pub(super) struct PathTree {
    nodes: Vec<TreeNode>,
    /// Whether names are folded before they are compared.
    folded: bool,
    /// The transitions between nodes, needed only while rules are inserted.
    built: HashMap<(u32, PathStep), u32>,
}

#[derive(Debug, Clone, Default)]
struct TreeNode {
    next: PatternIndex<SegmentPattern>,
    /// The node of a following `**`.
    any: Option<u32>,
    /// Whether this node is a `**`.
    stays: bool,
    ends: Vec<(PathEnd, u32)>,
    /// Rules that end further down, each with whether only literal names lie between.
    below: Vec<(u32, bool)>,
}

/// How a rule matches a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathMatch {
    /// The rule covers everything that is touched.
    Whole,
    /// A folder is touched, and the rule matches a path in it.
    Inside,
    /// A folder is touched, and the rule matches names that may exist in it.
    Perhaps,
}

impl PathTree {
    pub(super) fn new(folded: bool) -> PathTree {
        PathTree { nodes: vec![TreeNode::default()], folded, built: HashMap::new() }
    }

    pub(super) fn insert(&mut self, anchor: &PathNames, steps: &[PathStep], end: PathEnd, rule: u32) {
        let folded = self.folded;
        let steps: Vec<PathStep> = anchor
            .iter()
            .map(|name| PathStep::One(SegmentPattern::literal(name)))
            .chain(steps.iter().cloned())
            .map(|step| match step {
                PathStep::One(segment) if folded => PathStep::One(segment.folded()),
                other => other,
            })
            .collect();
        let is_name = |step: &PathStep| matches!(step, PathStep::One(segment) if segment.exact().is_some());
        // After this segment there are only literal names.
        let names_from = steps.iter().rposition(|step| !is_name(step)).map_or(0, |last| last + 1);
        let mut at = 0;
        for (place, step) in steps.into_iter().enumerate() {
            let certain = place >= names_from && !self.nodes[at as usize].stays;
            self.nodes[at as usize].below.push((rule, certain));
            at = self.step(at, step);
        }
        self.nodes[at as usize].ends.push((end, rule));
    }

    fn step(&mut self, from: u32, step: PathStep) -> u32 {
        if let Some(node) = self.built.get(&(from, step.clone())) {
            return *node;
        }
        let node = u32::try_from(self.nodes.len()).expect("fewer rules than that");
        self.nodes.push(TreeNode { stays: step == PathStep::Any, ..TreeNode::default() });
        match &step {
            PathStep::Any => self.nodes[from as usize].any = Some(node),
            PathStep::One(segment) => self.nodes[from as usize].next.insert(segment.clone(), node),
        }
        self.built.insert((from, step), node);
        node
    }

    /// Frees the data that only insertion needs.
    pub(super) fn finish(&mut self) {
        self.built = HashMap::new();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.len() == 1 && self.nodes[0].ends.is_empty()
    }

    /// Returns whether names have to be folded for this tree.
    pub(super) fn folded(&self) -> bool {
        self.folded
    }

    /// Calls `met` for every rule that matches the path, possibly more than once.
    pub(super) fn walk(&self, path: &PathNames, extent: RootExtent, mut met: impl FnMut(u32, PathMatch)) {
        let (mut active, mut after) = (Vec::with_capacity(8), Vec::with_capacity(8));
        self.arrive(0, &mut active);
        self.ends(&active, path.len() == 0, extent, &mut met);
        for (place, name) in path.iter().enumerate() {
            for node in &active {
                if self.nodes[*node as usize].stays {
                    push_once(&mut after, *node);
                }
                self.nodes[*node as usize].next.each(name, |next| self.arrive(next, &mut after));
            }
            if after.is_empty() {
                return;
            }
            self.ends(&after, place + 1 == path.len(), extent, &mut met);
            std::mem::swap(&mut active, &mut after);
            after.clear();
        }
        if extent == RootExtent::Subtree {
            let below = active.iter().flat_map(|node| &self.nodes[*node as usize].below);
            for (rule, certain) in below {
                met(*rule, if *certain { PathMatch::Inside } else { PathMatch::Perhaps });
            }
        }
    }

    /// Activates a node, and a following `**`, which may match no segment.
    fn arrive(&self, node: u32, active: &mut Vec<u32>) {
        active.push(node);
        if let Some(any) = self.nodes[node as usize].any {
            push_once(active, any);
        }
    }

    fn ends(&self, active: &[u32], last: bool, extent: RootExtent, met: &mut impl FnMut(u32, PathMatch)) {
        for node in active {
            for (end, rule) in &self.nodes[*node as usize].ends {
                let whole = match end {
                    PathEnd::Tree => true,
                    PathEnd::Below => !last || extent == RootExtent::Subtree,
                    PathEnd::Itself => last && extent == RootExtent::File,
                };
                if whole {
                    met(*rule, PathMatch::Whole);
                }
            }
        }
    }
}

/// Several transitions may lead to one `**`; it is activated once.
fn push_once(active: &mut Vec<u32>, node: u32) {
    if !active.contains(&node) {
        active.push(node);
    }
}
