//! Evaluates a set of rules for a call.
//!
//! Deny and ask rules come first, by name, argument, path, command and host. The first matching deny rule
//! decides, otherwise the first matching ask rule. Then come the allow rules, which have to cover every
//! effect. A deny or ask rule applies wherever it might match, an allow rule only where it certainly
//! matches.

use std::fmt;
use std::path::Path;

use haft::decision::Verdict;
use haft::effects::RootExtent;
use serde_json::Value;

use super::argument::RequiredMatches;
use super::command_line::NormalizedLine;
use super::path::PathNames;
use super::path_tree::PathMatch;
use super::rule_set::RuleSet;
use super::subject::{EffectKind, EffectRef, RuleSubject, SubjectCommand, SubjectEffects, SubjectPath};
use super::{RuleId, RuleSpecifier, ToolPattern, known_tools};
use crate::source::RuleList;

/// What the rules say of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleMatches {
    /// The verdict of the rules. `None` leaves the decision to the mode.
    pub verdict: Option<Verdict>,
    /// The deciding rule. Of several deny or ask rules it is the first in the set; a rule for every use of
    /// the tool counts only if no narrower one asks. Of several allow rules it is the first that was
    /// needed.
    pub by: Option<RuleId>,
    /// The effects that no allow rule covers. Empty if the call was allowed. [`RuleSet::decide`] leaves it
    /// empty for a denied or asked call too.
    pub uncovered: Vec<EffectRef>,
    /// A rule restricts part of a folder that is read, so the tool has to [leave that part
    /// out](RuleSubject::leaves_out).
    pub leaves_out: bool,
    /// Every other rule that matched. Filled only by [`RuleSet::explain`].
    pub others: Vec<(RuleId, NotDecidingReason)>,
}

/// The reason why a matching rule did not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotDecidingReason {
    /// An earlier rule already gave the same verdict.
    SaysTheSame,
    /// A deny rule takes precedence.
    Denied,
    /// An ask rule takes precedence.
    Asked,
    /// A deny rule that may apply takes precedence.
    MayBeDenied,
    /// The rule covers this effect, and other rules cover the rest.
    Covers(EffectRef),
    /// The rule covers this effect, but another effect is not covered.
    CoversOnly(EffectRef),
    /// The rule denies something that may be in the affected folder, so the call asks.
    MayBeInside,
    /// The rule restricts part of the folder that is read, and the tool leaves that part out.
    LeftOut,
    /// The rule matches only one of the given path and the resolved path, and both are required.
    OnePathOnly(EffectRef),
    /// The rule would cover this effect, but the tool is not confined to its declared effects. A rule for
    /// the tool's name is needed.
    NotEnforced(EffectRef),
    /// The rule matches a command whose effects can't be determined.
    NotUnderstood(EffectRef),
    /// The rule has a wildcard, and this command needs an exact rule.
    NeedsExact(EffectRef),
    /// The rule names the tool, and this path is outside of the working directories.
    Outside(EffectRef),
    /// The rule allows a command, which grants no path and no host.
    NotGranted(EffectRef),
    /// The rule is for web addresses, and this is not one.
    NoAddress,
}

impl fmt::Display for NotDecidingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotDecidingReason::SaysTheSame => "says the same",
            NotDecidingReason::Denied => "a deny rule goes first",
            NotDecidingReason::Asked => "an ask rule goes first",
            NotDecidingReason::MayBeDenied => "a deny rule that may apply goes first",
            NotDecidingReason::Covers(_) => "covers a part",
            NotDecidingReason::CoversOnly(_) => "covers a part, and the rest is not covered",
            NotDecidingReason::MayBeInside => "denies something that may be in this folder, so the call asks",
            NotDecidingReason::LeftOut => "what it names is left out",
            NotDecidingReason::OnePathOnly(_) => {
                "matches only one of the path as given and the path as resolved"
            }
            NotDecidingReason::NotEnforced(_) => {
                "nothing keeps this tool to what it declares; allow it by its name"
            }
            NotDecidingReason::NotUnderstood(_) => "the command is not understood",
            NotDecidingReason::NeedsExact(_) => "this command needs an exact rule",
            NotDecidingReason::Outside(_) => "this lies outside of the working directories",
            NotDecidingReason::NotGranted(_) => {
                "a rule for a command grants no path outside of the sandbox and no host"
            }
            NotDecidingReason::NoAddress => "this is no address with `http` or `https` and a host",
        })
    }
}

/// The evaluation of one call.
pub(super) struct RuleEvaluation<'r, 's> {
    set: &'r RuleSet,
    subject: &'r RuleSubject<'s>,
    deny: FirstRule,
    ask: FirstRule,
    /// The first ask rule for every use of the tool. A host may skip such a rule where it may not skip a
    /// narrower one.
    ask_always: FirstRule,
    /// The first rule that was needed to cover an effect.
    covered_by: Option<u32>,
    uncovered: Vec<EffectRef>,
    leaves_out: bool,
    /// The notes for `explain`; `None` for `decide`.
    notes: Option<Vec<(u32, NotDecidingReason)>>,
}

impl<'r, 's> RuleEvaluation<'r, 's> {
    pub(super) fn new(
        set: &'r RuleSet,
        subject: &'r RuleSubject<'s>,
        explain: bool,
    ) -> RuleEvaluation<'r, 's> {
        RuleEvaluation {
            set,
            subject,
            deny: FirstRule::default(),
            ask: FirstRule::default(),
            ask_always: FirstRule::default(),
            covered_by: None,
            uncovered: Vec::new(),
            leaves_out: false,
            notes: explain.then(Vec::new),
        }
    }

    pub(super) fn run(mut self) -> RuleMatches {
        self.stop();
        let ask = self.ask.0.or(self.ask_always.0);
        let stopped = self.deny.0.is_some() || ask.is_some();
        if !stopped || self.notes.is_some() {
            self.allow();
        }
        let (verdict, by) = match (self.deny.0, ask) {
            (Some(rule), _) => (Some(Verdict::Deny), Some(rule)),
            (None, Some(rule)) => (Some(Verdict::Ask), Some(rule)),
            (None, None) => match self.covered_by.filter(|_| self.uncovered.is_empty()) {
                Some(rule) => (Some(Verdict::Allow), Some(rule)),
                None => (None, None),
            },
        };
        RuleMatches {
            verdict,
            by: by.map(RuleId),
            others: self.explained(verdict, by),
            uncovered: self.uncovered,
            leaves_out: self.leaves_out,
        }
    }

    fn note(&mut self, rule: u32, why: NotDecidingReason) {
        if let Some(notes) = &mut self.notes {
            notes.push((rule, why));
        }
    }

    /// Returns one reason for each rule, given the verdict.
    fn explained(&mut self, verdict: Option<Verdict>, by: Option<u32>) -> Vec<(RuleId, NotDecidingReason)> {
        let mut notes = self.notes.take().unwrap_or_default();
        notes.retain(|(rule, _)| Some(*rule) != by);
        // The reason why a rule did not cover an effect is more useful than an effect that it covers.
        notes.sort_by_key(|(rule, why)| (*rule, matches!(why, NotDecidingReason::Covers(_))));
        notes.dedup_by_key(|(rule, _)| *rule);
        let perhaps = by.is_some_and(|rule| self.set.facts[rule as usize].list == RuleList::Deny);
        let seen = |(rule, why): (u32, NotDecidingReason)| {
            let why = match (why, verdict) {
                (NotDecidingReason::SaysTheSame, Some(Verdict::Deny))
                    if self.set.facts[rule as usize].list == RuleList::Ask =>
                {
                    NotDecidingReason::Denied
                }
                (NotDecidingReason::MayBeInside | NotDecidingReason::Covers(_), Some(Verdict::Deny)) => {
                    NotDecidingReason::Denied
                }
                (NotDecidingReason::Covers(_), Some(Verdict::Ask)) if perhaps => {
                    NotDecidingReason::MayBeDenied
                }
                (NotDecidingReason::Covers(_), Some(Verdict::Ask)) => NotDecidingReason::Asked,
                (NotDecidingReason::Covers(effect), None) => NotDecidingReason::CoversOnly(effect),
                (why, _) => why,
            };
            (RuleId(rule), why)
        };
        notes.into_iter().map(seen).collect()
    }
}

/// Deny and ask rules.
impl<'r> RuleEvaluation<'r, '_> {
    fn stop(&mut self) {
        let (set, subject) = (self.set, self.subject);
        let server = subject.at_server();
        let others = subject.aliases.iter().copied().chain(server.as_deref());
        for name in std::iter::once(subject.tool).chain(others) {
            set.stop.names.each(known_tools::current_name(name), |rule| {
                if self.applies(rule, RequiredMatches::One) {
                    self.stopped(rule, PathMatch::Whole);
                }
            });
        }
        if self.uses_bash_rules() {
            set.stop.names.each("Bash", |rule| {
                if set.rules[rule as usize].is_bare() {
                    self.stopped(rule, PathMatch::Whole);
                }
            });
        }
        self.stop_touches(&subject.touches);
        if let Some(line) = self.line().filter(|_| !subject.part && !set.stop.lines.is_empty()) {
            set.stop.lines.each(line, |rule| self.stopped(rule, PathMatch::Whole));
            let scripts = subject.scripts.iter().map(|script| &**script);
            for line in std::iter::once(line).chain(scripts) {
                let begins = |rest: &str| set.stop.lines.begins(rest);
                NormalizedLine::new(line).each_stretch(begins, |stretch| {
                    set.stop.lines.each(stretch, |rule| self.stopped(rule, PathMatch::Whole));
                });
            }
        }
        for command in &subject.commands {
            for text in &command.for_deny {
                set.stop.bash.each(text, |rule| self.stopped(rule, PathMatch::Whole));
                match subject.tool {
                    "Monitor" => set.stop.monitor.each(text, |rule| self.stopped(rule, PathMatch::Whole)),
                    "PowerShell" if !set.stop.powershell.is_empty() => {
                        let text = text.to_lowercase();
                        set.stop.powershell.each(&text, |rule| self.stopped(rule, PathMatch::Whole));
                    }
                    _ => {}
                }
            }
            self.stop_touches(&command.touches);
        }
    }

    fn stop_touches(&mut self, touches: &SubjectEffects<'_>) {
        let (set, subject) = (self.set, self.subject);
        let kinds = [
            (EffectKind::Reads, &touches.reads),
            (EffectKind::Writes, &touches.writes),
            (EffectKind::Deletes, &touches.deletes),
        ];
        for (touch, places) in kinds {
            for place in places {
                set.stopping(subject.tool, touch, place, |rule, meets| {
                    if touch == EffectKind::Reads && subject.leaves_out && meets != PathMatch::Whole {
                        self.leaves_out = true;
                        self.note(rule, NotDecidingReason::LeftOut);
                    } else {
                        self.stopped(rule, meets);
                    }
                });
            }
        }
        for host in &touches.hosts {
            set.stop.hosts.each(host, |rule| self.stopped(rule, PathMatch::Whole));
        }
    }

    /// Records that a rule denies or asks. Of several the first in the set decides, so the order of effects
    /// doesn't matter.
    fn stopped(&mut self, rule: u32, meets: PathMatch) {
        match (self.set.facts[rule as usize].list, meets) {
            (RuleList::Deny, PathMatch::Perhaps) => {
                self.ask.see(rule);
                self.note(rule, NotDecidingReason::MayBeInside);
            }
            (RuleList::Deny, _) => {
                self.deny.see(rule);
                self.note(rule, NotDecidingReason::SaysTheSame);
            }
            _ => {
                let bare = self.set.rules[rule as usize].is_bare();
                let ask = if bare { &mut self.ask_always } else { &mut self.ask };
                ask.see(rule);
                self.note(rule, NotDecidingReason::SaysTheSame);
            }
        }
    }

    /// Returns whether a rule for one MCP server applies to the server of this call. Tool names don't tell:
    /// those of a server `a__b` begin like those of `a`.
    fn is_of_its_server(&self, rule: u32) -> bool {
        let rule = &self.set.rules[rule as usize];
        let (Some(server), Some(named)) = (self.subject.about_server(), rule.tool.strip_prefix("mcp__"))
        else {
            return true;
        };
        match rule.names {
            // Only one tool has this name.
            ToolPattern::One => true,
            ToolPattern::Server => named == server,
            ToolPattern::Matching(_) => named.split_once("__").is_some_and(|(named, _)| named == server),
        }
    }

    /// Returns whether the rule's specifier matches the input. The tool's name already matches.
    fn applies(&self, rule: u32, needs: RequiredMatches) -> bool {
        let (rule, subject) = (&self.set.rules[rule as usize], self.subject);
        match &rule.spec {
            RuleSpecifier::Every => true,
            RuleSpecifier::Argument(spec) => spec.matches(subject.input, needs),
            RuleSpecifier::Called(spec) => {
                match (known_tools::invocation_texts(&rule.tool, subject.input), needs) {
                    (Some((name, full)), RequiredMatches::One) => spec.matches(&name) || spec.matches(&full),
                    // Both are names of the same agent.
                    (Some((name, full)), RequiredMatches::All)
                        if known_tools::current_name(&rule.tool) == "Agent" =>
                    {
                        spec.matches(&name) || spec.matches(&full)
                    }
                    (Some((_, full)), RequiredMatches::All) => spec.matches(&full),
                    (None, _) => false,
                }
            }
            _ => false,
        }
    }

    /// Returns the whole command line of a shell tool, as the model sent it.
    fn line(&self) -> Option<&'r str> {
        let is_shell = known_tools::specifier_kind(self.subject.tool) == known_tools::SpecifierKind::Command;
        Some(self.subject.input.get("command").filter(|_| is_shell)?.as_str()?.trim_matches(BLANKS))
    }

    /// Returns whether rules for every use of `Bash` apply to this call too.
    fn uses_bash_rules(&self) -> bool {
        self.subject.tool == "Monitor" && !self.subject.commands.is_empty()
    }
}

/// The characters that a shell ignores around a line. Other white space is part of a word.
pub(crate) const BLANKS: [char; 3] = [' ', '\t', '\n'];

/// How much a rule for the tool or the command covers of its effects.
#[derive(Debug, Clone, Copy)]
enum AllowExtent {
    /// Nothing: each effect needs its own rule.
    Nothing,
    /// A command in a sandbox, by any rule for it: paths in the working directories, and paths and hosts
    /// that are open.
    Walled(u32),
    /// A command by a wildcard, or a tool by its name that is not confined to its declared effects: hosts,
    /// and paths in the working directories.
    Inside(u32),
    /// A tool by its name that the engine confines to its declared effects: hosts, reads, and writes in the
    /// working directories.
    Named(u32),
    /// A shell by its name, or a command without wildcards, without a sandbox: everything. For a shell by
    /// its name, writes of its redirections are excluded.
    Whole(u32),
}

impl AllowExtent {
    fn rule(self) -> Option<u32> {
        match self {
            AllowExtent::Nothing => None,
            AllowExtent::Walled(rule)
            | AllowExtent::Inside(rule)
            | AllowExtent::Named(rule)
            | AllowExtent::Whole(rule) => Some(rule),
        }
    }
}

/// Allow rules.
impl RuleEvaluation<'_, '_> {
    fn allow(&mut self) {
        let subject = self.subject;
        let call = EffectRef { touch: EffectKind::Call, command: None, index: 0 };
        let is_shell = known_tools::specifier_kind(subject.tool) == known_tools::SpecifierKind::Command;
        let named = self.by_name(call);
        let whole = if subject.walled { AllowExtent::Walled } else { AllowExtent::Whole };
        let grant = match named {
            Some(rule) if is_shell => whole(rule),
            Some(rule) if subject.open && subject.hosts_only => {
                self.note(rule, NotDecidingReason::NoAddress);
                AllowExtent::Nothing
            }
            Some(rule) if subject.enforced => AllowExtent::Named(rule),
            Some(rule) => AllowExtent::Inside(rule),
            None => self.by_whole_command(call).map_or(AllowExtent::Nothing, whole),
        };
        if subject.open {
            self.needs(grant.rule(), EffectRef { touch: EffectKind::Anything, ..call });
        } else if subject.touches.is_empty() && subject.commands.is_empty() {
            self.needs(grant.rule(), call);
        }
        let mut all_granted = !subject.commands.is_empty();
        for (at, command) in subject.commands.iter().enumerate() {
            let runs = EffectRef { touch: EffectKind::Runs, command: Some(at), index: 0 };
            let own = self.by_command(command, runs);
            let grant = if grant.rule().is_some() { grant } else { own };
            self.needs(grant.rule(), runs);
            let granted = grant.rule().is_some();
            all_granted &= granted;
            self.allow_touches(&command.touches, Some(at), grant, subject.enforced || granted);
        }
        // A shell opens exactly the files that its redirections name. So once every command is allowed,
        // path rules apply to them. A tool that is allowed by name is trusted to declare its effects.
        let counts = subject.enforced || all_granted || grant.rule().is_some();
        // A rule for a shell's name covers every command. Files that the shell itself writes elsewhere need
        // their own rules.
        let own = match named.filter(|_| is_shell && !subject.walled) {
            Some(rule) => self.by_whole_command(call).map_or(AllowExtent::Named(rule), AllowExtent::Whole),
            None => grant,
        };
        self.allow_touches(&subject.touches, None, own, counts);
    }

    /// Records an effect with the rule that covers it, or as uncovered.
    fn needs(&mut self, rule: Option<u32>, effect: EffectRef) {
        match rule {
            Some(rule) => self.covered_by = self.covered_by.or(Some(rule)),
            None => self.uncovered.push(effect),
        }
    }

    /// Whether path and host rules `count` depends on whether the tool is confined to its declared effects.
    fn allow_touches(
        &mut self,
        touches: &SubjectEffects<'_>,
        command: Option<usize>,
        grant: AllowExtent,
        count: bool,
    ) {
        let kinds = [
            (EffectKind::Reads, &touches.reads),
            (EffectKind::Writes, &touches.writes),
            (EffectKind::Deletes, &touches.deletes),
        ];
        for (touch, places) in kinds {
            for (index, place) in places.iter().enumerate() {
                let effect = EffectRef { touch, command, index };
                let granted = self.by_grant(grant, place, effect);
                // An explanation lists every rule, so the search goes on.
                let own = match granted {
                    Some(_) if self.notes.is_none() => None,
                    _ => self.by_path(place, effect, count),
                };
                self.needs(granted.or(own), effect);
            }
        }
        for (index, host) in touches.hosts.iter().enumerate() {
            let effect = EffectRef { touch: EffectKind::Reaches, command, index };
            let own = self.by_host(host, effect, count || self.subject.hosts_only);
            let granted = match grant {
                AllowExtent::Walled(rule) if !self.subject.is_open_host(host) => {
                    self.note(rule, NotDecidingReason::NotGranted(effect));
                    None
                }
                grant => grant.rule(),
            };
            self.needs(granted.or(own), effect);
        }
    }

    fn by_grant(&mut self, grant: AllowExtent, place: &SubjectPath<'_>, effect: EffectRef) -> Option<u32> {
        let inside = || self.set.is_working(&place.given) && self.set.is_working(&place.real);
        let rule = grant.rule()?;
        let granted = match grant {
            AllowExtent::Nothing => false,
            AllowExtent::Walled(_) => place.open || inside(),
            AllowExtent::Inside(_) => inside(),
            AllowExtent::Named(_) => effect.touch == EffectKind::Reads || inside(),
            AllowExtent::Whole(_) => true,
        };
        if !granted {
            let walled = matches!(grant, AllowExtent::Walled(_));
            self.note(
                rule,
                if walled {
                    NotDecidingReason::NotGranted(effect)
                } else {
                    NotDecidingReason::Outside(effect)
                },
            );
        }
        granted.then_some(rule)
    }

    /// Finds a rule for the tool by its name, and by its input where the rule has a specifier.
    fn by_name(&mut self, effect: EffectRef) -> Option<u32> {
        let (set, subject) = (self.set, self.subject);
        let mut found = FirstRule::default();
        let server = subject.at_server();
        for name in std::iter::once(known_tools::current_name(subject.tool)).chain(server.as_deref()) {
            set.allow.names.each(name, |rule| {
                if self.is_of_its_server(rule) && self.applies(rule, RequiredMatches::All) {
                    found.see(rule);
                    self.note(rule, NotDecidingReason::Covers(effect));
                }
            });
        }
        if self.uses_bash_rules() {
            set.allow.names.each("Bash", |rule| {
                if set.rules[rule as usize].is_bare() {
                    found.see(rule);
                    self.note(rule, NotDecidingReason::Covers(effect));
                }
            });
        }
        found.0
    }

    /// Finds a rule for the whole command line without wildcards, which covers everything in it.
    fn by_whole_command(&mut self, effect: EffectRef) -> Option<u32> {
        let subject = self.subject;
        let understood =
            !subject.commands.is_empty() && subject.commands.iter().all(|command| command.understood);
        if !understood {
            return None;
        }
        let text = self.line()?;
        let mut found = FirstRule::default();
        self.each_command_rule(text, |judge, rule, _| {
            if judge.set.facts[rule as usize].exact {
                found.see(rule);
                judge.note(rule, NotDecidingReason::Covers(effect));
            }
        });
        found.0
    }

    fn by_command(&mut self, command: &SubjectCommand<'_>, effect: EffectRef) -> AllowExtent {
        let (mut exact, mut wild) = (FirstRule::default(), FirstRule::default());
        for text in &command.for_allow {
            self.each_command_rule(text, |judge, rule, counts| {
                let is_exact = judge.set.facts[rule as usize].exact;
                let why = match () {
                    () if !command.understood => NotDecidingReason::NotUnderstood(effect),
                    () if command.exact_only && !is_exact => NotDecidingReason::NeedsExact(effect),
                    () if !counts => NotDecidingReason::NotEnforced(effect),
                    () if is_exact => {
                        exact.see(rule);
                        NotDecidingReason::Covers(effect)
                    }
                    () => {
                        wild.see(rule);
                        NotDecidingReason::Covers(effect)
                    }
                };
                judge.note(rule, why);
            });
        }
        let walled = self.subject.walled;
        let whole = exact.0.map(if walled { AllowExtent::Walled } else { AllowExtent::Whole });
        whole
            .or(wild.0.map(if walled { AllowExtent::Walled } else { AllowExtent::Inside }))
            .unwrap_or(AllowExtent::Nothing)
    }

    /// Calls `found` for each rule that matches a command, with whether the rule counts for this tool.
    fn each_command_rule(&mut self, text: &str, mut found: impl FnMut(&mut Self, u32, bool)) {
        let (allow, tool) = (&self.set.allow, self.subject.tool);
        if tool == "PowerShell" {
            if !allow.powershell.is_empty() {
                allow.powershell.each(&text.to_lowercase(), |rule| found(self, rule, true));
            }
            return;
        }
        let counts = matches!(tool, "Bash" | "Monitor") || self.subject.enforced;
        allow.bash.each(text, |rule| found(self, rule, counts));
        if tool == "Monitor" {
            allow.monitor.each(text, |rule| found(self, rule, true));
        }
    }

    /// Both the given and the resolved path have to be allowed, by one rule or by two.
    fn by_path(&mut self, place: &SubjectPath<'_>, effect: EffectRef, counts: bool) -> Option<u32> {
        if self.set.allow.paths.is_empty() || !(counts || self.notes.is_some()) {
            return None;
        }
        let given = self.by_one_path(&place.given, place.extent, effect);
        let real = if place.real == place.given {
            given.clone()
        } else {
            self.by_one_path(&place.real, place.extent, effect)
        };
        let why = match () {
            () if given.first.0.is_none() || real.first.0.is_none() => NotDecidingReason::OnePathOnly(effect),
            () if !counts => NotDecidingReason::NotEnforced(effect),
            () => NotDecidingReason::Covers(effect),
        };
        for rule in given.all.into_iter().chain(real.all) {
            self.note(rule, why);
        }
        if matches!(why, NotDecidingReason::Covers(_)) { given.first.0 } else { None }
    }

    fn by_one_path(&self, path: &Path, extent: RootExtent, effect: EffectRef) -> PathMatches {
        let mut found = PathMatches::default();
        self.set.allow.paths.walk(&PathNames::from_path(path, false), extent, |rule, meets| {
            let speaks = effect.touch == EffectKind::Reads || self.set.facts[rule as usize].edits;
            if speaks && meets == PathMatch::Whole {
                found.first.see(rule);
                if self.notes.is_some() {
                    found.all.push(rule);
                }
            }
        });
        found
    }

    fn by_host(&mut self, host: &str, effect: EffectRef, counts: bool) -> Option<u32> {
        let mut found = FirstRule::default();
        self.set.allow.hosts.each(host, |rule| {
            if counts {
                found.see(rule);
            }
            self.note(
                rule,
                if counts {
                    NotDecidingReason::Covers(effect)
                } else {
                    NotDecidingReason::NotEnforced(effect)
                },
            );
        });
        found.0
    }
}

impl RuleSet {
    /// Returns whether path rules allow this access to a path.
    pub fn grants_path(&self, touch: EffectKind, place: &SubjectPath<'_>) -> bool {
        let effect = EffectRef { touch, command: None, index: 0 };
        RuleEvaluation::new(self, &RuleSubject::new("", &Value::Null), false)
            .by_path(place, effect, true)
            .is_some()
    }

    /// Returns whether host rules allow reaching a host.
    pub fn grants_host(&self, host: &str) -> bool {
        let effect = EffectRef { touch: EffectKind::Reaches, command: None, index: 0 };
        RuleEvaluation::new(self, &RuleSubject::new("", &Value::Null), false)
            .by_host(host, effect, true)
            .is_some()
    }
}

/// The first rule seen.
#[derive(Debug, Clone, Copy, Default)]
struct FirstRule(Option<u32>);

impl FirstRule {
    fn see(&mut self, rule: u32) {
        self.0 = Some(self.0.map_or(rule, |other| other.min(rule)));
    }
}

/// The rules that match a path; all of them only for an explanation.
#[derive(Debug, Clone, Default)]
struct PathMatches {
    first: FirstRule,
    all: Vec<u32>,
}
