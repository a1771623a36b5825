//! Converts a call into the form that rules and mode evaluate: both forms of every path, and parsed shell
//! commands.
//!
//! Paths of file tools arrive resolved with the request. Paths in commands are resolved here, since the
//! effects of a command are derived from its text and not declared. A path that can't be resolved counts as
//! touched under its given form, and only `bypassPermissions` allows it.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::Effects;
use haft::effects::resolved::{ResolvedPath, Workspace};
use haft::effects::table::EffectClass;
use haft::effects::{PathSet, RootExtent};
use haft::files::resolve::ResolveErrorKind;
use haft::files::{PathTable, resolve_path};
use haft::ports::{AuthorizationRequest, SandboxView};
use serde_json::Value;

use super::repository::RepositoryCheck;
use super::{PolicyContext, grants};
use crate::conventions::{self, UrlHost};
use crate::rule::{
    BLANKS, EffectKind, EffectRef, Rule, RuleAnchors, RuleSubject, SubjectCommand, SubjectEffects,
    SubjectPath,
};
use crate::settings::normalize_path;
use haft_shell::{
    CommandAnalysis, CommandLayer, Doubt, FileAccess, ShellAnalyzer, StartMethod, SubCommand, Word,
};

/// The working directories of a session, and the confinement of its child processes.
pub(super) struct SessionContext {
    pub(super) anchors: RuleAnchors,
    shell: ShellAnalyzer,
    no_sandbox: bool,
    confined: bool,
    repositories: RepositoryCheck,
    pub(super) view: Option<Arc<dyn SandboxView>>,
}

impl SessionContext {
    pub(super) fn new(setup: &PolicyContext<'_>) -> SessionContext {
        let PolicyContext { places, workspace, no_sandbox, confined, .. } = setup;
        // Without a home directory no path is below it.
        let home = places.home.clone().unwrap_or_else(|| PathBuf::from("/nonexistent"));
        let mut anchors = RuleAnchors::new(&home, workspace.cwd());
        let mut link = |given: &Path, real: &Path| {
            if given != real {
                anchors.links.push((given.to_owned(), real.to_owned()));
                anchors.links.push((real.to_owned(), given.to_owned()));
            }
        };
        for (named, real) in workspace.named_dirs() {
            link(named, real);
        }
        // A rule with a wildcard at the session's path also applies to the private folder mapped there.
        if let Some((prefix, folder)) = workspace.paths().prefix().zip(workspace.paths().private_folder()) {
            link(prefix, folder);
        }
        for place in
            [Some(&home), places.config_dir.as_ref(), places.claude_dir.as_ref()].into_iter().flatten()
        {
            if let Ok(real) = place.canonicalize() {
                link(place, &real);
            }
        }
        let added = workspace.dirs().skip(1).map(Path::to_owned);
        anchors.private = workspace.paths().private_folder().map(Path::to_owned);
        anchors.added = added.chain(anchors.private.clone()).collect();
        let shell = setup
            .analyzer
            .clone()
            .unwrap_or_else(|| super::shell_analyzer(workspace, places.home.as_deref()));
        let repositories = RepositoryCheck::new(places.home.clone());
        let view = setup.view.clone();
        let (no_sandbox, confined) = (*no_sandbox, *confined);
        SessionContext { anchors, shell, no_sandbox, confined, repositories, view }
    }

    /// Returns the anchors with the real paths of these rules. The file system is read once, when rules are
    /// compiled. A symlink that changes later is noticed through the paths of a call, which are resolved
    /// each time.
    pub(super) fn leading(&self, rules: &[Rule]) -> RuleAnchors {
        let mut anchors = self.anchors.clone();
        for path in rules.iter().filter_map(|rule| rule.own_path(&self.anchors)) {
            if let Ok(found) = resolve_path(&self.anchors.cwd, &path)
                && found.real != path
            {
                anchors.leads.push((path, found.real));
            }
        }
        anchors.leads.sort();
        anchors.leads.dedup();
        anchors
    }

    /// Returns the effects of a call of a conventional tool, for the examples of rules. Doesn't access the
    /// file system.
    pub(super) fn example<'a>(&self, tool: &'a str, input: &'a Value) -> RuleSubject<'a> {
        let mut subject = RuleSubject::new(tool, input);
        subject.server = conventions::target_server(tool, input);
        subject.hosts_only = conventions::is_hosts_only(tool);
        let at = |path: &Path, _: EffectKind| {
            let path = normalize_path(&self.anchors.cwd, path);
            Ok((path.clone(), path))
        };
        let cwd = &self.shell.place().cwd;
        let (failed, written) = (None, Vec::new());
        let mut reader =
            EffectReader { shell: &self.shell, cwd, resolve: &at, repositories: None, failed, written };
        if let Some(line) = shell_line(tool, input) {
            reader.shell(line, &mut subject);
        } else if let Some(effects) = conventions::declared_effects(tool, input) {
            let touches = reader.touches(&effects);
            subject.touches = touches;
            subject.open = effects.unknown;
        }
        subject
    }
}

/// Returns the command line of a shell call.
pub(super) fn shell_line<'a>(tool: &str, input: &'a Value) -> Option<&'a str> {
    conventions::is_shell(tool).then(|| input.get("command")?.as_str())?
}

/// A call in the form that rules and mode evaluate.
pub(crate) struct CallAnalysis<'a> {
    pub(crate) subject: RuleSubject<'a>,
    /// The analysis of the subject's commands, in the same order.
    pub(crate) commands: Vec<SubCommand>,
    /// The parts that aren't understood, as text. If there are any, the call asks.
    doubts: Vec<String>,
    /// The first doubt that makes every effect possible. The other doubts concern only `targets`.
    pub(super) unread: Option<String>,
    /// Redirections whose file is known only at run time.
    pub(super) targets: Vec<(FileAccess, String)>,
    /// A critical path that the call removes, which always needs approval.
    pub(crate) critical: Option<String>,
    /// A path that can't be resolved, and the reason.
    pub(crate) failed: Option<(PathBuf, String)>,
    /// The whole line, for a shell.
    line: Option<&'a str>,
    /// The call runs a program in a child process.
    pub(crate) child: bool,
    /// The child process is confined to the call's effects, or the user disabled the sandbox.
    pub(crate) held: bool,
    /// The child process is confined to the call's effects.
    pub(crate) confined: bool,
    /// The kernel enforces deny rules for the child process.
    pub(super) caged: bool,
    pub(crate) workspace: &'a Workspace,
    pub(crate) declared: &'a Effects,
    pub(crate) effect_class: &'a EffectClass,
}

impl<'a> CallAnalysis<'a> {
    pub(super) fn for_request(
        request: &'a AuthorizationRequest<'a>,
        surroundings: &SessionContext,
    ) -> CallAnalysis<'a> {
        let AuthorizationRequest { name, tool, input, workspace, .. } = *request;
        let declared = request.declared();
        let line = shell_line(name, input);
        let in_child = tool.spec().runs_in_child();
        let child = line.is_some() || in_child;
        let confined = if in_child { !request.unconfined_child } else { surroundings.confined };
        // An external tool that presents itself as a shell may do anything with the command.
        let stranger = line.is_some() && request.external;
        let held = !stranger && (confined || surroundings.no_sandbox);
        let caged = child && !stranger && confined && !surroundings.no_sandbox;

        let mut subject = RuleSubject::new(name, input);
        subject.aliases = tool.aliases().iter().map(String::as_str).collect();
        subject.server = conventions::target_server(name, input).filter(|_| !request.external);
        subject.of_server = request.source.filter(|_| name.starts_with("mcp__"));
        let keeps = is_granted_files_only(request);
        subject.enforced = keeps || (child && held);
        subject.hosts_only = !request.external && tool.spec().is_hosts_only();
        // Such a tool walks a tree by descriptors, which omit hidden paths.
        let walks = request.effects.reads.iter().any(|path| path.extent == RootExtent::Subtree);
        subject.leaves_out = keeps && walks;

        let look = |path: &Path, touch: EffectKind| {
            let look = match touch {
                EffectKind::Reads => PathTable::resolve_read,
                EffectKind::Deletes => PathTable::resolve_entry,
                _ => PathTable::resolve,
            };
            match look(workspace.paths(), workspace.cwd(), path) {
                Ok(found) => Ok((found.given, found.real)),
                // Nothing exists below a file, and nothing can be created there. Such a path is one of
                // several guesses about what a command writes.
                Err(error) if error.kind == ResolveErrorKind::NotADirectory => {
                    let path = normalize_path(workspace.cwd(), path);
                    Ok((path.clone(), path))
                }
                Err(error) => Err(error.to_string()),
            }
        };
        let mut reader = EffectReader {
            shell: &surroundings.shell,
            cwd: workspace.cwd(),
            resolve: &look,
            repositories: Some(&surroundings.repositories),
            failed: request.effects.failed.clone(),
            written: Vec::new(),
        };
        let (mut commands, mut doubts, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        let mut unread = None;
        let mut take = |analysis: CommandAnalysis| {
            let other = analysis.doubts.iter().find(|doubt| !matches!(doubt, Doubt::Target(_)));
            unread = unread.take().or(other.map(ToString::to_string));
            let before = targets.len();
            let open = analysis.redirects.iter().filter(|redirect| redirect.paths.is_none());
            targets.extend(open.map(|redirect| (redirect.access, redirect.target.plain().to_owned())));
            if targets.len() == before {
                let named = analysis.doubts.iter().filter_map(|doubt| match doubt {
                    Doubt::Target(text) => Some(text),
                    _ => None,
                });
                let both = [FileAccess::Read, FileAccess::Write];
                targets.extend(named.flat_map(|text| both.map(|access| (access, text.clone()))));
            }
            doubts.extend(analysis.doubts.iter().map(ToString::to_string));
            commands.extend(analysis.commands);
        };
        match line {
            Some(line) => {
                take(reader.shell(line, &mut subject));
                // Effects that the tool declares besides the commands, beyond their redirections.
                add_new(&mut subject.touches.reads, request, &declared.reads, &request.effects.reads);
                add_new(&mut subject.touches.writes, request, &declared.writes, &request.effects.writes);
                add_new(&mut subject.touches.deletes, request, &declared.deletes, &request.effects.deletes);
            }
            None => {
                subject.open = declared.unknown;
                let places = |paths: &'a [ResolvedPath]| paths.iter().map(subject_path).collect();
                subject.touches.reads = places(&request.effects.reads);
                subject.touches.writes = places(&request.effects.writes);
                subject.touches.deletes = places(&request.effects.deletes);
                for command in &declared.runs {
                    take(reader.shell(&command.text, &mut subject));
                }
            }
        }
        subject.touches.hosts.extend(declared.reaches.iter().map(|reach| Cow::Borrowed(&*reach.host)));
        if let Some(address) = conventions::fetched_url(name, input).map(UrlHost::parse) {
            // Rules match the host that a browser would reach, however the tool parses the address. Only a
            // web address counts.
            subject.open |= !address.plain;
            let known = |host: &String| subject.touches.hosts.iter().any(|other| **other == **host);
            if let Some(host) = address.host.filter(|host| !known(host)) {
                subject.touches.hosts.push(Cow::Owned(host));
            }
        }
        let failed = reader.failed;
        if let Some((path, _)) = &failed {
            let path = normalize_path(workspace.cwd(), path);
            let place = || SubjectPath {
                given: Cow::Owned(path.clone()),
                real: Cow::Owned(path.clone()),
                extent: RootExtent::Subtree,
                open: false,
                partial: false,
            };
            // The kind of access is unknown, so a rule for reading or for writing stops the call.
            subject.touches.reads.push(place());
            if !(declared.writes.is_empty() && declared.deletes.is_empty()) || line.is_some() {
                subject.touches.writes.push(place());
            }
        }
        if !doubts.is_empty() {
            subject.commands.iter_mut().for_each(|command| command.understood = false);
        }
        // haft confines nothing that a server does.
        let has_walls = !surroundings.no_sandbox && (surroundings.confined || surroundings.view.is_some());
        subject.walled = has_walls && (in_child || !request.external) && subject.server.is_none();
        if subject.walled {
            grants::mark_open(&mut subject, workspace, surroundings.view.as_deref(), line.is_some(), child);
            if !request.external && tool.spec().has_configured_hosts() {
                subject.open_hosts.extend(subject.touches.hosts.iter().map(ToString::to_string));
            }
        }
        let critical = commands.iter().find_map(|command: &SubCommand| command.critical.clone());
        let effect_class = request.effect_class;
        CallAnalysis {
            subject,
            commands,
            doubts,
            unread,
            targets,
            critical,
            failed,
            line,
            child,
            held,
            confined,
            caged,
            workspace,
            declared,
            effect_class,
        }
    }

    /// Returns whether the call destroys data that can't be restored, as far as is known.
    pub(crate) fn is_destructive(&self) -> bool {
        if self.line.is_none() {
            return self.effect_class.destructive;
        }
        self.places().any(|(effect, place)| match effect.touch {
            EffectKind::Deletes => true,
            EffectKind::Writes => place.real.symlink_metadata().is_ok(),
            _ => false,
        })
    }

    /// Returns the parts that aren't understood, as text.
    pub(crate) fn doubts(&self) -> &[String] {
        &self.doubts
    }

    /// The whole line, for a shell.
    pub(crate) fn line(&self) -> Option<&'a str> {
        Some(self.line?.trim_matches(BLANKS))
    }

    /// Returns the command line as one command that only an exact rule allows, for lines that aren't
    /// understood.
    pub(super) fn whole_line(&self) -> Option<RuleSubject<'a>> {
        let line = self.line()?;
        let mut whole = RuleSubject::new(self.subject.tool, self.subject.input);
        whole.commands.push(SubjectCommand {
            exact_only: true,
            for_deny: Vec::new(),
            ..SubjectCommand::plain(line)
        });
        Some(whole)
    }

    /// Returns one command with its effects, as if it were the whole line and understood.
    pub(super) fn only(&self, command: usize) -> CallAnalysis<'a> {
        let mut part = self.with(SubjectEffects::default());
        part.subject.commands =
            vec![SubjectCommand { understood: true, ..self.subject.commands[command].clone() }];
        part.commands = vec![self.commands[command].clone()];
        part.critical.clone_from(&self.commands[command].critical);
        part
    }

    /// Returns one redirection as if it were the whole call.
    pub(super) fn only_place(&self, effect: EffectRef) -> CallAnalysis<'a> {
        let mut touches = SubjectEffects::default();
        let places = match effect.touch {
            EffectKind::Reads => &mut touches.reads,
            _ => &mut touches.writes,
        };
        places.extend(self.place(effect).cloned());
        self.with(touches)
    }

    fn with(&self, touches: SubjectEffects<'a>) -> CallAnalysis<'a> {
        let subject = RuleSubject { touches, commands: Vec::new(), part: true, ..self.subject.clone() };
        let (commands, doubts, targets) = (Vec::new(), Vec::new(), Vec::new());
        let (unread, critical, failed) = (None, None, None);
        let CallAnalysis { child, held, confined, caged, workspace, declared, effect_class, .. } = *self;
        CallAnalysis {
            subject,
            commands,
            doubts,
            unread,
            targets,
            critical,
            failed,
            line: None,
            child,
            held,
            confined,
            caged,
            workspace,
            declared,
            effect_class,
        }
    }

    /// Returns every path that the call touches.
    pub(crate) fn places(&self) -> impl Iterator<Item = (EffectRef, &SubjectPath<'a>)> {
        fn paths_of<'t, 'a>(
            command: Option<usize>,
            touches: &'t SubjectEffects<'a>,
        ) -> impl Iterator<Item = (EffectRef, &'t SubjectPath<'a>)> {
            let kinds = [
                (EffectKind::Reads, &touches.reads),
                (EffectKind::Writes, &touches.writes),
                (EffectKind::Deletes, &touches.deletes),
            ];
            kinds.into_iter().flat_map(move |(touch, places)| {
                let effect = move |index| EffectRef { touch, command, index };
                places.iter().enumerate().map(move |(index, place)| (effect(index), place))
            })
        }
        let commands = self.subject.commands.iter().enumerate();
        paths_of(None, &self.subject.touches)
            .chain(commands.flat_map(|(at, command)| paths_of(Some(at), &command.touches)))
    }

    /// Returns whether a command moves a path that it removes. A path that is only deleted is not read, and
    /// nothing else is written.
    pub(crate) fn is_moved(&self, effect: EffectRef, place: &SubjectPath<'_>) -> bool {
        let touches = effect.command.map(|at| &self.subject.commands[at].touches);
        let reads = |touches: &SubjectEffects<'_>| touches.reads.iter().any(|read| read.real == place.real);
        effect.touch == EffectKind::Deletes
            && touches.is_some_and(|touches| !touches.writes.is_empty() && reads(touches))
    }

    /// Returns the path of an effect that has one.
    pub(crate) fn place(&self, effect: EffectRef) -> Option<&SubjectPath<'a>> {
        self.subject.place(effect)
    }

    /// Returns whether a path is in the working directories. For a read, paths that are always readable
    /// count too.
    pub(crate) fn is_inside(&self, touch: EffectKind, place: &SubjectPath<'_>) -> bool {
        match touch {
            EffectKind::Reads => self.workspace.is_readable_both(&place.given, &place.real),
            _ => self.workspace.contains_both(&place.given, &place.real),
        }
    }
}

/// Returns whether a call opens only the files that it is granted. An external tool's claim doesn't count.
pub(super) fn is_granted_files_only(request: &AuthorizationRequest<'_>) -> bool {
    !request.external && request.tool.spec().is_granted_files_only()
}

/// Converts a resolved path.
pub(super) fn subject_path(path: &ResolvedPath) -> SubjectPath<'_> {
    let (given, real) = (Cow::Borrowed(&*path.at.given), Cow::Borrowed(&*path.at.real));
    // A folder includes its contents, whatever the tool declares: removing it removes them too.
    let extent = if path.at.is_dir { RootExtent::Subtree } else { path.extent };
    SubjectPath { given, real, extent, open: false, partial: false }
}

fn add_new<'a>(
    places: &mut Vec<SubjectPath<'a>>,
    request: &AuthorizationRequest<'_>,
    declared: &[PathSet],
    resolved: &'a [ResolvedPath],
) {
    // After a failure the two lists no longer correspond.
    let own = if request.effects.failed.is_none() { declared.len() } else { resolved.len() };
    for path in resolved.iter().take(own) {
        let place = subject_path(path);
        let there = |other: &SubjectPath<'_>| other.given == place.given && other.real == place.real;
        if !places.iter().any(there) {
            places.push(place);
        }
    }
}

type ResolvePath<'r> = dyn Fn(&Path, EffectKind) -> Result<(PathBuf, PathBuf), String> + 'r;

/// Converts commands and their effects.
struct EffectReader<'r> {
    shell: &'r ShellAnalyzer,
    cwd: &'r Path,
    /// Returns both forms of a path. For a removal the last component is not resolved.
    resolve: &'r ResolvePath<'r>,
    /// `None` if the file system isn't accessed.
    repositories: Option<&'r RepositoryCheck>,
    failed: Option<(PathBuf, String)>,
    /// The paths that the line changes. Where it reads them again, it reads its own output.
    written: Vec<PathBuf>,
}

impl EffectReader<'_> {
    /// Adds the commands of a line to a subject.
    fn shell(&mut self, line: &str, subject: &mut RuleSubject<'_>) -> CommandAnalysis {
        let mut analysis = match subject.tool {
            "PowerShell" => analyze_foreign_command(line),
            _ => CommandAnalysis::clone(&self.shell.analyse_in(line, self.cwd)),
        };
        for command in &mut analysis.commands {
            let runs = command.looks_at.iter().filter(|_| command.read_only.is_ok());
            let runs = runs.filter_map(|folder| self.repositories?.runs_code(folder)).next();
            if let Some(why) = runs {
                command.read_only = Err(why);
            }
            let programs = command.layers.iter().filter_map(|layer| layer.argv.first()?.literal());
            let climbs = programs.into_iter().any(goes_up_again);
            command.exact_only =
                command.exact_only.or(climbs.then_some("names its program by a path with `..`"));
        }
        let understood = analysis.doubts.is_empty();
        let effects = analysis.commands.iter().filter_map(|command| command.effects.as_ref());
        let changed = effects.flat_map(|effects| effects.writes.iter().chain(&effects.deletes));
        self.written = changed.map(|set| set.path.clone()).collect();
        let redirected = analysis.redirects.iter().filter(|redirect| redirect.access == FileAccess::Write);
        self.written.extend(redirected.flat_map(|redirect| redirect.paths.iter().flatten().cloned()));
        for command in &analysis.commands {
            let owned = |texts: Vec<String>| texts.into_iter().map(Cow::Owned).collect();
            subject.commands.push(SubjectCommand {
                for_allow: owned(command.texts_for_allow()),
                for_deny: owned(command.texts_for_deny()),
                understood,
                read_only: command.read_only.is_ok(),
                exact_only: command.exact_only.is_some(),
                touches: command.effects.as_ref().map(|effects| self.touches(effects)).unwrap_or_default(),
                open: command.layers.iter().filter_map(|layer| in_pieces(&layer.argv)).flatten().collect(),
            });
        }
        let holders = analysis.commands.iter().filter_map(|command| analysis.commands.get(command.within?));
        let words = holders.flat_map(|holder| holder.layers.last()).flat_map(|layer| &layer.argv);
        for script in
            words.filter_map(Word::literal).filter(|word| word.contains(['|', '&', ';', '\n', '>', '<']))
        {
            if !subject.scripts.iter().any(|known| known == script) {
                subject.scripts.push(Cow::Owned(script.to_owned()));
            }
        }
        for redirect in &analysis.redirects {
            if let Some(host) = redirect.host() {
                subject.touches.hosts.push(Cow::Owned(host.to_owned()));
                continue;
            }
            let (touch, places) = match redirect.access {
                FileAccess::Read => (EffectKind::Reads, &mut subject.touches.reads),
                FileAccess::Write => (EffectKind::Writes, &mut subject.touches.writes),
            };
            for path in redirect.paths.iter().flatten() {
                if let Some(place) = self.at(path, RootExtent::File, touch) {
                    places.push(place);
                }
            }
        }
        analysis
    }

    fn touches(&mut self, effects: &Effects) -> SubjectEffects<'static> {
        let mut all = |sets: &[PathSet], touch: EffectKind| {
            let place = |set: &PathSet| {
                let place = self.at(&set.path, set.extent, touch)?;
                Some(SubjectPath { partial: set.partial, ..place })
            };
            sets.iter().filter_map(place).collect()
        };
        SubjectEffects {
            reads: all(&effects.reads, EffectKind::Reads),
            writes: all(&effects.writes, EffectKind::Writes),
            deletes: all(&effects.deletes, EffectKind::Deletes),
            hosts: effects.reaches.iter().map(|reach| Cow::Owned(reach.host.clone())).collect(),
        }
    }

    fn at(&mut self, path: &Path, extent: RootExtent, touch: EffectKind) -> Option<SubjectPath<'static>> {
        let is_own = touch == EffectKind::Reads && self.written.iter().any(|written| written == path);
        let touch = if is_own { EffectKind::Writes } else { touch };
        match (self.resolve)(path, touch) {
            Ok((given, real)) => {
                let (given, real) = (Cow::Owned(given), Cow::Owned(real));
                Some(SubjectPath { given, real, extent, open: false, partial: false })
            }
            Err(why) => {
                self.failed.get_or_insert_with(|| (self.cwd.join(path), why));
                None
            }
        }
    }
}

/// Returns whether a path leaves a folder that it names, such as `scripts/../x`. It has the prefix
/// `scripts/` but isn't in that folder.
fn goes_up_again(path: &str) -> bool {
    let mut names = path.split('/').skip_while(|name| matches!(*name, "" | "." | ".."));
    names.any(|name| name == "..")
}

/// Returns the known pieces of a command's text, once with the program's path and once with its name.
/// `None` if the whole text is known.
fn in_pieces(argv: &[Word]) -> Option<Vec<Vec<String>>> {
    argv.iter().find(|word| word.literal().is_none())?;
    let text = |words: &mut dyn Iterator<Item = Option<&str>>| {
        let mut pieces = vec![String::new()];
        for (at, word) in words.enumerate() {
            let piece = pieces.last_mut().expect("there is always a piece");
            match word {
                Some(word) if at > 0 => piece.extend([" ", word]),
                Some(word) => piece.push_str(word),
                // The word may expand to nothing, so no space is assumed before it.
                None => pieces.push(String::new()),
            }
        }
        pieces
    };
    let mut texts = vec![text(&mut argv.iter().map(Word::literal))];
    let name = argv[0].literal().and_then(|program| program.rsplit_once('/')).map(|(_, name)| name);
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        texts.push(text(&mut std::iter::once(Some(name)).chain(argv[1..].iter().map(Word::literal))));
    }
    Some(texts)
}

/// Analyzes a command of a shell with an unsupported grammar: plain words are one command, anything else
/// isn't understood.
fn analyze_foreign_command(line: &str) -> CommandAnalysis {
    let text = line.trim().to_owned();
    let plain = |c: char| c.is_alphanumeric() || " -_./:\\=,".contains(c);
    let doubt = Doubt::Syntax { what: "plain words", at: 0 };
    let doubts = if text.chars().all(plain) { Vec::new() } else { vec![doubt] };
    let layer = CommandLayer {
        argv: text.split_whitespace().map(|word| Word::Literal(word.to_owned())).collect(),
        text: text.clone(),
        started: StartMethod::Directly,
    };
    let read_only = Err("what this program does isn't known".to_owned());
    let command = SubCommand { text, layers: vec![layer], read_only, ..SubCommand::default() };
    CommandAnalysis { commands: vec![command], redirects: Vec::new(), doubts }
}
