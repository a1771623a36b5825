//! What rules want of the walls around child processes.
//!
//! A rule about a path or a host is worth more where the kernel keeps it. This is what whoever builds the walls has to
//! know of the rules; how they are built is another crate's matter.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::files::Hidden;

use super::Policy;
use super::live::Sets;
use crate::rule::{Place, Rule, Touch};
use crate::settings::lexical;
use crate::source::{List, Scope, Source, WrittenRule};

/// What children may not touch, and which hosts rules speak of, as of now.
pub struct Walls {
    /// Says which files no child may read, if a rule speaks of any. Rules that ask count: a child isn't asked in the
    /// middle of its run.
    pub unreadable: Option<Hidden>,
    /// The rules among these that deny, each by where it begins.
    pub denied_reads: Vec<DeniedReads>,
    /// Says which files no child may write, if a rule speaks of any.
    pub unwritable: Option<Hidden>,
    /// What of it rules name, whether it exists or not.
    pub unwritable_names: Vec<PathBuf>,
    /// Hosts of `WebFetch(domain:…)` in `allow`, in `ask` and in `deny`. A bare `WebFetch` in `allow` is every host; in the
    /// other lists it is about the tool.
    pub allowed_hosts: Vec<String>,
    /// Hosts that only an answer opens.
    pub asked_hosts: Vec<String>,
    /// Hosts that nothing opens.
    pub denied_hosts: Vec<String>,
}

/// A rule that denies reading.
pub struct DeniedReads {
    /// As it is written.
    pub rule: String,
    /// What it names before its first wildcard.
    pub path: PathBuf,
    /// It is for all of that, with everything below; otherwise for some of what lies there.
    pub whole: bool,
    /// Says what this rule, by itself, is for.
    pub covers: Hidden,
}

impl Policy {
    /// What the rules want of the walls around child processes.
    ///
    /// ```no_run
    /// # fn look(policy: &haft_policy::gate::Policy) {
    /// let walls = policy.walls();
    /// let may_read = |path: &str| !walls.unreadable.as_ref().is_some_and(|hidden| hidden.covers(path.as_ref()));
    /// # }
    /// ```
    pub fn walls(&self) -> Walls {
        self.walls_denying(&[])
    }

    /// The same where settings deny reading these absolute paths too. Each counts as a rule in `deny` would: with wildcards,
    /// in any case, for what lies below it and behind links. One that can't be read as a rule is left out.
    pub fn walls_denying(&self, paths: &[PathBuf]) -> Walls {
        let sets = self.0.live.sets();
        let hosts = |list: List| {
            let of_list = sets.rules.rules().filter(move |(_, rule)| rule.list() == list);
            of_list.filter_map(|(_, rule)| host(rule).map(str::to_owned)).collect()
        };
        let of_settings = self.denying(paths);
        let mut denied_reads = denied_reads(&sets);
        if let Some(more) = &of_settings {
            denied_reads.extend(self::denied_reads(more).into_iter().map(of_setting));
        }
        let unreadable =
            either(stopped(&sets, Touch::Reads), of_settings.and_then(|more| stopped(&more, Touch::Reads)));
        Walls {
            unreadable,
            denied_reads,
            unwritable: stopped(&sets, Touch::Writes),
            unwritable_names: sets.rules.denied_writes(),
            allowed_hosts: hosts(List::Allow),
            asked_hosts: hosts(List::Ask),
            denied_hosts: hosts(List::Deny),
        }
    }
}

impl Policy {
    /// Rules that deny reading these paths, if there are any.
    fn denying(&self, paths: &[PathBuf]) -> Option<Arc<Sets>> {
        let surroundings = &self.0.surroundings;
        let cwd = &surroundings.anchors.cwd;
        let source = Source::of(Scope::User, cwd);
        let rule = |path: &PathBuf| {
            let path = lexical(Path::new("/"), path);
            let written =
                WrittenRule::plain(format!("Read(/{})", path.to_str()?), List::Deny, source.clone());
            Rule::parse(written).ok()
        };
        let rules: Vec<Rule> = paths.iter().filter_map(rule).collect();
        (!rules.is_empty()).then(|| Arc::new(Sets::compile(rules, surroundings).0))
    }
}

/// Named as it stands in settings.
fn of_setting(denied: DeniedReads) -> DeniedReads {
    let path = denied.rule.strip_prefix("Read(/").and_then(|rest| rest.strip_suffix(')'));
    DeniedReads { rule: format!("sandbox.filesystem.denyRead: {}", path.unwrap_or(&denied.rule)), ..denied }
}

/// What one of the two covers.
fn either(one: Option<Hidden>, other: Option<Hidden>) -> Option<Hidden> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Hidden::new(move |path| one.covers(path) || other.covers(path))),
        (one, other) => one.or(other),
    }
}

/// The hosts that a rule opens or shuts to children.
fn host(rule: &Rule) -> Option<&str> {
    let every = || {
        let meant = rule.list() == List::Allow || rule.to_string().contains("domain:");
        (rule.tool() == "WebFetch" && rule.is_bare() && meant).then_some("*")
    };
    rule.host().or_else(every)
}

fn denied_reads(sets: &Arc<Sets>) -> Vec<DeniedReads> {
    let begins = sets.rules.denied_reads().into_iter();
    let with_all = begins.map(|(id, path, whole)| {
        let own = sets.clone();
        let covers = Hidden::new(move |path| own.rules.denies_read(id, path));
        DeniedReads { rule: sets.rules.rule(id).to_string(), path, whole, covers }
    });
    with_all.collect()
}

/// Says what rules keep a command from touching so; nothing if no rule speaks of it.
fn stopped(sets: &Arc<Sets>, touch: Touch) -> Option<Hidden> {
    sets.rules.may_stop(touch, false)?;
    let sets = sets.clone();
    Some(Hidden::new(move |path| sets.rules.stops("Bash", touch, &Place::at(path)).is_some()))
}
