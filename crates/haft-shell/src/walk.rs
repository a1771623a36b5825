//! Walks a parsed command: finds every program that could be started, and follows `cd`.
//!
//! The walk is in execution order, so that a relative path has its run-time base. A `cd` may fail, so after
//! it there are two possible folders, unless `&&` proves its success. If a loop, a function or something
//! unknown changes the directory, the folder and every relative path are unknown.

use std::path::{Path, PathBuf};

use super::bindings::VariableBindings;
use super::environment::{self, VariableWeight};
use super::evaluation::{self, ExpressionCheck};
use super::examine::{
    CommandInput, Finding, HeldCommand, HeldFinding, HeldShell, LayerFinding, examine_command, names_below,
    pattern_folder,
};
use super::folders::WorkingFolders;
use super::model::RunLocation;
use super::parse::{self, ParsedText};
use super::questions::{self, CommandPlace};
use super::tree::{
    AndOrList, AssignmentNode, CommandNode, CompoundCommand, CompoundKind, PipelineStep, RedirectNode,
    RedirectOperator, ScriptNode, SimpleCommand, StepJoin, WordPiece,
};
use super::{
    Assignment, COMMANDS_MAX, CommandAnalysis, CommandLayer, DEPTH_MAX, Doubt, FileAccess, FileRedirect,
    ShellDirectories, StartMethod, SubCommand, Word, normalize_path, programs, streams, tree,
};

pub(super) fn walk_command(command: &str, place: &ShellDirectories) -> CommandAnalysis {
    let walker = Walker::new(place, true).walk_all(command);
    // If something else sets a loop variable too, its value isn't the one from the loop.
    let walker = if walker.rebinds { Walker::new(place, false).walk_all(command) } else { walker };
    walker.found
}

struct Walker<'p> {
    place: &'p ShellDirectories,
    found: CommandAnalysis,
    depth: usize,
    within: Option<usize>,
    /// A function or trap changes the directory, so no folder is known any more.
    lost: bool,
    /// Whether a text is evaluated, and whether one contains what could be evaluated.
    notes: (bool, bool),
    /// Loop variables, each with a pattern that matches all of its values.
    bound: Vec<(String, Word)>,
    variables: VariableBindings,
    /// The simple command certainly runs, in this shell.
    is_certain: bool,
    binds: bool,
    rebinds: bool,
    /// The names of files that the last command prints.
    prints: Option<Word>,
    /// Whether the last command prints only numbers.
    prints_numbers: bool,
    expressions: ExpressionCheck,
    /// Assignments that no program sees unless a later one is started.
    unseen: Vec<usize>,
}

impl<'p> Walker<'p> {
    fn new(place: &'p ShellDirectories, binds: bool) -> Walker<'p> {
        Walker {
            place,
            found: CommandAnalysis::default(),
            depth: 0,
            within: None,
            lost: false,
            notes: (false, false),
            bound: Vec::new(),
            variables: VariableBindings::default(),
            is_certain: false,
            binds,
            rebinds: false,
            prints: None,
            prints_numbers: false,
            expressions: ExpressionCheck::default(),
            unseen: Vec::new(),
        }
    }

    fn walk_all(mut self, command: &str) -> Walker<'p> {
        self.walk_text(command, WorkingFolders::Start);
        if self.notes == (true, true) {
            self.add_doubt(Doubt::Evaluates);
        }
        let unseen = &self.unseen;
        let looks = |(at, command): (usize, &SubCommand)| unseen.contains(&at) || command.read_only.is_ok();
        if self.found.doubts.is_empty() && self.found.commands.iter().enumerate().all(looks) {
            for at in &self.unseen {
                let command = &mut self.found.commands[*at];
                (command.read_only, command.effects) = (Ok(()), Some(haft::Effects::none()));
            }
        }
        if self.expressions.evaluates_data() {
            self.distrust(command);
        }
        self
    }

    /// Adds a doubt if an expression may contain a substitution from elsewhere and run it.
    fn distrust(&mut self, command: &str) {
        const WHY: &str = "evaluates text that is known only when it runs";
        if self.found.commands.is_empty() {
            let expression = SubCommand { text: command.trim().to_owned(), ..SubCommand::default() };
            self.found.commands.push(expression);
        }
        for command in &mut self.found.commands {
            command.exact_only = command.exact_only.or(Some(WHY));
            if command.read_only.is_ok() {
                command.read_only = Err(WHY.to_owned());
            }
        }
    }
}

/// The folders after a step that succeeded, and after one that failed.
type FoldersAfter = (WorkingFolders, WorkingFolders);

impl Walker<'_> {
    fn add_doubt(&mut self, doubt: Doubt) {
        if !self.found.doubts.contains(&doubt) && self.found.doubts.len() < COMMANDS_MAX {
            self.found.doubts.push(doubt);
        }
    }

    /// Parses a text and walks it. Returns the folders at its end.
    fn walk_text(&mut self, text: &str, here: WorkingFolders) -> WorkingFolders {
        match parse::parse_text(text, self.depth) {
            Ok(tree) => {
                self.notes.0 |= tree.notes.evaluates;
                self.notes.1 |= tree.notes.hides;
                for name in &tree.notes.sets {
                    self.set_variable(name, None);
                    self.expressions.assign(name, "", true);
                }
                for text in &tree.notes.expressions {
                    self.expressions.evaluate(text);
                    // An expression may assign variables.
                    for name in evaluation::names_in(text) {
                        self.rebinds |= self.variables.assign(&name);
                    }
                }
                self.walk_script(&tree.script, &tree, here)
            }
            Err(doubt) => {
                self.add_doubt(doubt);
                WorkingFolders::Unknown
            }
        }
    }

    fn set_variable(&mut self, name: &str, value: Option<&str>) -> VariableWeight {
        self.rebinds |= self.bound.iter().any(|(bound, _)| bound == name);
        self.rebinds |= self.variables.assign(name);
        let weight = environment::variable_weight(name, value);
        if weight == VariableWeight::Dangerous {
            self.add_doubt(Doubt::Environment(name.to_owned()));
        }
        weight
    }

    fn walk_script(
        &mut self,
        script: &ScriptNode,
        tree: &ParsedText,
        mut here: WorkingFolders,
    ) -> WorkingFolders {
        self.depth += 1;
        if self.depth > DEPTH_MAX * 2 {
            self.add_doubt(Doubt::TooDeep);
            return WorkingFolders::Unknown;
        }
        for item in &script.items {
            here = self.walk_list(item, tree, here);
        }
        self.depth -= 1;
        here
    }

    fn walk_list(&mut self, item: &AndOrList, tree: &ParsedText, here: WorkingFolders) -> WorkingFolders {
        let before = here.clone();
        let (mut well, mut badly) = (here.clone(), here);
        let mut lasting = self.variables.len();
        for step in &item.steps {
            self.is_certain =
                self.depth == 1 && step.join != StepJoin::Or && !item.background && step.commands.len() == 1;
            match step.join {
                StepJoin::First => {
                    (well, badly) = self.walk_step(step, tree, &well);
                    lasting = self.variables.len();
                }
                StepJoin::And => {
                    let (after, failed) = self.walk_step(step, tree, &well);
                    (well, badly) = (after, badly.or(&failed));
                }
                StepJoin::Or => {
                    self.variables.truncate(lasting);
                    let (after, failed) = self.walk_step(step, tree, &badly);
                    (well, badly) = (well.or(&after), failed);
                }
            }
        }
        self.variables.truncate(lasting);
        let after = if item.background { before } else { well.or(&badly) };
        if self.lost { WorkingFolders::Unknown } else { after }
    }

    fn walk_step(&mut self, step: &PipelineStep, tree: &ParsedText, here: &WorkingFolders) -> FoldersAfter {
        let here = if self.lost { WorkingFolders::Unknown } else { here.clone() };
        let mut after = (here.clone(), here.clone());
        let alone = step.commands.len() == 1;
        let mut names = None;
        for command in &step.commands {
            (self.prints, self.prints_numbers) = (None, false);
            let ends = match command {
                CommandNode::Simple(simple) => self.walk_simple(simple, tree, &here, names.take()),
                CommandNode::Compound(compound) => {
                    let end = self.walk_compound(compound, tree, &here);
                    self.prints_numbers = false;
                    (end.clone(), end)
                }
            };
            names = self.prints.take();
            if alone {
                after = ends;
            }
        }
        if step.negated { (after.0.clone().or(&after.1), after.1.or(&after.0)) } else { after }
    }

    fn walk_compound(
        &mut self,
        compound: &CompoundCommand,
        tree: &ParsedText,
        here: &WorkingFolders,
    ) -> WorkingFolders {
        let mut data = compound.words.is_empty();
        for word in &compound.words {
            data |= self.walk_substitutions(word, tree, here);
        }
        for redirect in &compound.redirects {
            self.walk_redirect(redirect, tree, here);
        }
        let mut at = here.clone();
        match &compound.kind {
            CompoundKind::Test => {}
            CompoundKind::Subshell => {
                for body in &compound.bodies {
                    self.walk_script(body, tree, at.clone());
                }
            }
            CompoundKind::Group => {
                for body in &compound.bodies {
                    at = self.walk_script(body, tree, at);
                }
            }
            CompoundKind::Choice => {
                for body in &compound.bodies {
                    let end = self.walk_script(body, tree, at.clone());
                    at = at.or(&end);
                }
            }
            CompoundKind::Loop(variable) => {
                let bound = self.bound.len();
                if let Some(name) = variable {
                    self.set_variable(name, None);
                    self.expressions.assign(name, "", data);
                    compound.words.iter().for_each(|word| self.expressions.assign(name, &word.raw, false));
                    let values = self.loop_values(&compound.words).filter(|_| self.binds);
                    self.bound.extend(values.map(|values| (name.clone(), values)));
                }
                if compound.moves {
                    at = WorkingFolders::Unknown;
                }
                for body in &compound.bodies {
                    self.walk_script(body, tree, at.clone());
                }
                // After a loop the variable has any of its values, or none.
                self.bound.truncate(bound);
            }
            CompoundKind::Function(name) => {
                if programs::is_special(name) {
                    self.add_doubt(Doubt::Elsewhere(format!("{name} ()")));
                }
                self.lost |= compound.moves;
                // The function may be called from any folder.
                let body_at =
                    if tree.script.moves() || self.lost { WorkingFolders::Unknown } else { here.clone() };
                for body in &compound.bodies {
                    self.walk_script(body, tree, body_at.clone());
                }
            }
        }
        at
    }

    /// Walks the substitutions of a word, each in a separate shell. Returns whether they or file names may
    /// give the word any text.
    fn walk_substitutions(
        &mut self,
        word: &tree::SourceWord,
        tree: &ParsedText,
        here: &WorkingFolders,
    ) -> bool {
        let mut data = word.pieces.iter().any(|piece| matches!(piece, WordPiece::Glob(_)));
        for script in &word.scripts {
            self.walk_script(script, tree, here.clone());
            let alone = matches!(&script.items[..], [item] if item.steps.len() == 1);
            let numbers = alone && self.prints_numbers;
            data |= !numbers;
            if script.evaluated && !numbers {
                self.expressions.evaluate_output();
            }
        }
        data
    }

    fn walk_redirect(&mut self, redirect: &RedirectNode, tree: &ParsedText, here: &WorkingFolders) {
        self.walk_substitutions(&redirect.target, tree, here);
        if let Some(document) = redirect.document.and_then(|number| tree.documents.get(number)) {
            self.walk_substitutions(document, tree, here);
        }
        let target = self.resolve_word(&redirect.target);
        let access = match redirect.op {
            RedirectOperator::Write | RedirectOperator::Append => FileAccess::Write,
            RedirectOperator::Read => FileAccess::Read,
            RedirectOperator::Here | RedirectOperator::DupIn => return,
            RedirectOperator::DupOut => match target.literal() {
                Some(text) if streams::is_descriptor(text) => return,
                _ => FileAccess::Write,
            },
        };
        // The shell decides what `~` is. Rules see the likely file, and the command asks in any case.
        let paths = match target.literal() {
            Some(text) => here.join(Path::new(text)),
            None => questions::below_home(&target, self.place).map(|path| vec![path]),
        };
        if !target.literal().is_some_and(streams::is_stream) {
            if paths.is_none() || target.literal().is_none() {
                self.add_doubt(Doubt::Target(target.plain().to_owned()));
            }
            self.found.redirects.push(FileRedirect { access, target, paths });
        }
    }

    fn walk_simple(
        &mut self,
        simple: &SimpleCommand,
        tree: &ParsedText,
        here: &WorkingFolders,
        names: Option<Word>,
    ) -> FoldersAfter {
        let stay = (here.clone(), here.clone());
        for assignment in &simple.assignments {
            let mut data = false;
            for word in assignment.value.iter().chain(&assignment.others) {
                data |= self.walk_substitutions(word, tree, here);
            }
            self.expressions.assign(&assignment.name, &assignment.raw, data);
        }
        for word in &simple.words {
            self.walk_substitutions(word, tree, here);
        }
        for redirect in &simple.redirects {
            self.walk_redirect(redirect, tree, here);
        }
        let is_certain = self.is_certain && self.depth == 1 && self.binds;
        let alone = is_certain && simple.words.is_empty() && simple.redirects.is_empty();
        let (assignments, heaviest) = self.apply_assignments(&simple.assignments, alone);
        if simple.words.is_empty() {
            if !assignments.is_empty() {
                let text =
                    assignments.iter().map(|assignment| &*assignment.text).collect::<Vec<_>>().join(" ");
                let read_only = if heaviest <= VariableWeight::Ordinary {
                    Ok(())
                } else {
                    Err(unclear_assignments(&assignments))
                };
                let effects = read_only.is_ok().then(haft::Effects::none);
                let within = self.within;
                let number = self.push(SubCommand {
                    text,
                    assignments,
                    within,
                    read_only,
                    effects,
                    ..SubCommand::default()
                });
                if heaviest == VariableWeight::Unclear {
                    self.unseen.push(number);
                }
            }
            return stay;
        }
        let written: Vec<&str> = simple.words.iter().map(|word| &*word.raw).collect();
        let argv: Vec<Word> = simple.words.iter().map(|word| self.resolve_word(word)).collect();
        let input = simple.redirects.iter().rev().find_map(|redirect| tree.given_text(redirect));
        let names = if input.is_some() { None } else { names };
        let incoming = CommandInput { text: input.flatten(), names: names.as_ref() };
        let started = StartedCommand { argv, written: &written, assignments, heaviest, incoming };
        let after = self.walk_command(started, here);
        // Error output may be any text.
        self.prints_numbers &=
            simple.redirects.iter().all(|redirect| redirect.op != RedirectOperator::DupOut);
        after
    }

    fn apply_assignments(
        &mut self,
        assigns: &[AssignmentNode],
        binds: bool,
    ) -> (Vec<Assignment>, VariableWeight) {
        let mut heaviest = VariableWeight::Harmless;
        let mut assignments = Vec::new();
        for assign in assigns {
            let value = match &assign.value {
                Some(value) => value.literal(),
                None => Some(""),
            };
            let is_first = !self.variables.is_assigned(&assign.name);
            let weight = self.set_variable(&assign.name, value);
            if binds && assign.others.is_empty() && assign.raw[assign.name.len()..].starts_with('=') {
                self.variables.bind(&assign.name, value.unwrap_or_default(), is_first);
            }
            heaviest = heaviest.max(weight);
            let harmless = weight == VariableWeight::Harmless && value.is_some();
            assignments.push(Assignment { name: assign.name.clone(), text: assign.raw.clone(), harmless });
        }
        (assignments, heaviest)
    }

    fn push(&mut self, command: SubCommand) -> usize {
        if self.found.commands.len() >= COMMANDS_MAX {
            self.add_doubt(Doubt::TooMany);
        } else {
            self.found.commands.push(command);
        }
        self.found.commands.len() - 1
    }

    /// Analyzes one command: removes wrappers, judges the rest, and walks the commands that it contains.
    fn walk_command(&mut self, started: StartedCommand<'_>, here: &WorkingFolders) -> FoldersAfter {
        let StartedCommand { argv, written, assignments, heaviest, incoming } = started;
        let front = assignments.iter().map(|assignment| &*assignment.text);
        let text = front.chain(written.iter().copied()).collect::<Vec<_>>().join(" ");
        let first = if self.within.is_some() { StartMethod::Held } else { StartMethod::Directly };
        let mut layers = vec![CommandLayer { text: written.join(" "), argv, started: first }];
        let mut at = here.clone();
        let unwrapped = self.unwrap(&mut layers, written, &mut at, incoming);
        let UnwrappedCommand { mut findings, outer, mut exact_only, starter, contained } = unwrapped;
        let argv = &layers[layers.len() - 1].argv;
        let program = argv[0].literal().unwrap_or_default();
        let looks_at = CommandPlace { here: &at, place: self.place }.looks_at(&findings);
        if looks_at.is_none() {
            let changes = "works on the repository of a folder that isn't known";
            findings.extend([Finding::Open, Finding::Changes(changes.to_owned())]);
        }
        self.add_doubts(&findings, argv, Some(&text));
        let heaviest = heaviest.max(self.set_variables(&findings));
        exact_only = exact_only.or(questions::exact_only(&findings));
        let mut read_only = match (&starter, heaviest > VariableWeight::Ordinary) {
            (_, true) => Err(unclear_assignments(&assignments)),
            (Some(starter), _) => Err(format!("`{starter}` starts another command")),
            (None, false) => questions::read_only(&findings),
        };
        let critical = questions::critical_removal(&findings, &at, self.place);
        let destroys = questions::find_destruction(&findings);
        let held: Vec<HeldFinding> = outer.iter().chain(&findings).filter_map(held_of).cloned().collect();
        let starts = |finding: &Finding| {
            matches!(finding, Finding::CommandsIn(_) | Finding::Undetermined | Finding::ShellState)
        };
        let known = starter.is_none()
            && held.iter().all(|held| held.quiet)
            && !findings.iter().any(starts)
            && heaviest <= VariableWeight::Ordinary;
        let files: [&[Finding]; 2] = if contained { [&outer, &[]] } else { [&findings, &outer] };
        let command_place = CommandPlace { here: &at, place: self.place };
        let touched = command_place.effects(program, files);
        let repository = command_place.repository_use(files);
        let effects = touched.effects.filter(|_| !(contained && outer.is_empty()));
        exact_only = exact_only.or(touched.exact_only);
        // A program that reads unknown files may read files that rules deny.
        if read_only.is_ok() && (!known || effects.as_ref().is_none_or(|effects| effects.unknown)) {
            read_only = Err("which files it reads isn't known".to_owned());
        }
        let effects = effects.map(|effects| questions::known_effects(effects, known, argv));
        let plain = layers
            .iter()
            .all(|layer| !matches!(layer.started, StartMethod::Executed | StartMethod::Launched));
        let after = self.folders_after(&findings, plain, &at, here);
        let prints = findings.iter().find_map(|finding| match finding {
            Finding::PrintsPaths(word) if read_only.is_ok() => Some(word.clone()),
            _ => None,
        });
        let numbers = layers.len() == 1 && findings.contains(&Finding::PrintsNumbers);
        let looks = read_only.is_ok();
        let number = self.push(SubCommand {
            text,
            assignments,
            layers,
            within: self.within,
            read_only,
            exact_only,
            critical,
            destroys,
            effects,
            repository,
            looks_at: looks_at.unwrap_or_default(),
        });
        let doubts = self.found.doubts.len();
        let after = self.walk_held(held, number, &at).unwrap_or(after);
        let mut inner = self.found.commands.iter().skip(number + 1);
        if looks && (self.found.doubts.len() > doubts || inner.any(|inner| inner.read_only.is_err())) {
            let outer = &mut self.found.commands[number];
            outer.read_only = Err("what it starts may change something".to_owned());
        }
        (self.prints, self.prints_numbers) = (prints, numbers);
        after
    }

    /// Removes wrappers until the command starts nothing with its last words.
    fn unwrap(
        &mut self,
        layers: &mut Vec<CommandLayer>,
        written: &[&str],
        at: &mut WorkingFolders,
        incoming: CommandInput<'_>,
    ) -> UnwrappedCommand {
        let mut rewritten: Option<Vec<String>> = None;
        let mut unwrapped = UnwrappedCommand::default();
        loop {
            let argv = &layers[layers.len() - 1].argv;
            if argv[0].literal().is_none_or(str::is_empty) {
                self.add_doubt(Doubt::Command(argv[0].plain().to_owned()));
            }
            let mut findings = examine_command(argv, incoming);
            let mut starts = take_layers(&mut findings);
            let likely = starts.iter().position(|layer| layer.likely).unwrap_or(0);
            if starts.is_empty() {
                unwrapped.findings = findings;
                return unwrapped;
            }
            let next = starts.remove(likely);
            let shown = rewritten.take();
            let shown = shown.unwrap_or_else(|| written.iter().map(|word| (*word).to_owned()).collect());
            if layers.len() + starts.len() >= DEPTH_MAX {
                self.add_doubt(Doubt::TooDeep);
                unwrapped.findings = findings;
                return unwrapped;
            }
            self.add_doubts(&findings, argv, None);
            self.set_variables(&findings);
            if !next.quiet && unwrapped.starter.is_none() {
                unwrapped.starter = Some(argv[0].plain().to_owned());
            }
            let executed =
                (next.started == StartMethod::Executed).then_some("starts another command in its own way");
            unwrapped.exact_only = unwrapped.exact_only.or(executed).or(questions::exact_only(&findings));
            unwrapped.contained |= next.location == RunLocation::OtherMachine;
            if next.location != RunLocation::Here
                || findings.contains(&Finding::Undetermined)
                || findings.contains(&Finding::LosesDirectory)
            {
                *at = WorkingFolders::Unknown;
            }
            unwrapped.outer.extend(findings.into_iter().filter(is_beside));
            for other in starts {
                let text = as_written(&shown, &other);
                layers.push(CommandLayer { text: text.join(" "), argv: other.argv, started: other.started });
            }
            let next_written = as_written(&shown, &next);
            layers.push(CommandLayer {
                text: next_written.join(" "),
                argv: next.argv,
                started: next.started,
            });
            rewritten = Some(next_written);
        }
    }

    /// Adds a doubt for each unknown command that is started.
    fn add_doubts(&mut self, findings: &[Finding], argv: &[Word], text: Option<&str>) {
        for finding in findings {
            match finding {
                Finding::Undetermined => self.add_doubt(Doubt::Starts(display_argv(argv))),
                Finding::ShellState => {
                    self.rebinds |= !self.bound.is_empty() || self.variables.len() > 0;
                    self.add_doubt(Doubt::Elsewhere(display_argv(argv)));
                }
                Finding::CommandsIn(_) => {
                    let shown = text.map_or_else(|| display_argv(argv), str::to_owned);
                    self.add_doubt(Doubt::Starts(shown));
                }
                _ => {}
            }
        }
    }

    /// Records the variables that a command sets.
    fn set_variables(&mut self, findings: &[Finding]) -> VariableWeight {
        let mut heaviest = VariableWeight::Harmless;
        for finding in findings {
            if let Finding::Variable { name, value } = finding {
                heaviest = heaviest.max(self.set_variable(name, value.as_deref()));
                self.expressions.assign(name, value.as_deref().unwrap_or_default(), value.is_none());
            }
            if *finding == Finding::ShellState {
                heaviest = VariableWeight::Dangerous;
            }
        }
        heaviest
    }

    /// Returns the folders after this command.
    fn folders_after(
        &mut self,
        findings: &[Finding],
        plain: bool,
        at: &WorkingFolders,
        here: &WorkingFolders,
    ) -> FoldersAfter {
        let stay = here.clone();
        if findings.contains(&Finding::LosesDirectory) {
            self.variables.close();
            self.lost |=
                findings.iter().any(|found| matches!(found, Finding::ShellState | Finding::Undetermined));
            return (WorkingFolders::Unknown, stay);
        }
        let target = findings.iter().find_map(|finding| match finding {
            Finding::ChangeDirectory(target) => Some(target),
            _ => None,
        });
        let target = match target {
            None => return (stay.clone(), stay),
            Some(_) if !plain => None,
            Some(None) => self.place.home.clone(),
            Some(Some(word)) => match word.literal() {
                Some(text) => Some(PathBuf::from(text)),
                None => questions::below_home(word, self.place),
            },
        };
        match target.filter(|target| !target.as_os_str().is_empty()) {
            // Back to the session's directory.
            Some(target) if normalize_path(&target) == self.place.cwd => (WorkingFolders::Start, stay),
            Some(target) => (at.enter(&target), stay),
            None => (WorkingFolders::Unknown, stay),
        }
    }

    /// Walks the commands in another one's arguments. Returns the folders afterwards for the same shell.
    fn walk_held(
        &mut self,
        held: Vec<HeldFinding>,
        number: usize,
        at: &WorkingFolders,
    ) -> Option<FoldersAfter> {
        let outer = self.within.replace(number);
        let mut after = None;
        self.depth += 1;
        for HeldFinding { command, elsewhere, shell, .. } in held {
            // Over the limit there already is a doubt, and nothing more to find.
            if self.found.commands.len() >= COMMANDS_MAX {
                break;
            }
            let start = if elsewhere { WorkingFolders::Unknown } else { at.clone() };
            match command {
                HeldCommand::Words(argv) => self.walk_given(argv, &start),
                HeldCommand::Text(text) => {
                    if shell == HeldShell::Later {
                        self.lost |=
                            parse::parse_text(&text, self.depth).is_ok_and(|tree| tree.script.moves());
                    }
                    // Another shell doesn't have the variables of this one.
                    let another = shell == HeldShell::Another;
                    let variables = another.then(|| std::mem::take(&mut self.variables));
                    let end = self.walk_text(&text, start);
                    self.variables = variables.unwrap_or_else(|| std::mem::take(&mut self.variables));
                    if shell == HeldShell::This {
                        let end = end.or(at);
                        after = Some((end.clone(), end));
                    }
                }
            }
        }
        self.depth -= 1;
        self.within = outer;
        after
    }

    /// Walks a command whose words another command provides.
    fn walk_given(&mut self, argv: Vec<Word>, at: &WorkingFolders) {
        if self.depth > DEPTH_MAX * 2 {
            return self.add_doubt(Doubt::TooDeep);
        }
        let words = argv.iter().filter(|word| !word.is_anything());
        let written: Vec<String> = words.map(|word| word.plain().to_owned()).collect();
        let written: Vec<&str> = written.iter().map(|text| &**text).collect();
        let (assignments, heaviest, incoming) =
            (Vec::new(), VariableWeight::Harmless, CommandInput::default());
        self.depth += 1;
        self.walk_command(StartedCommand { argv, written: &written, assignments, heaviest, incoming }, at);
        self.depth -= 1;
    }

    /// Returns a pattern that matches all values of a loop, if they are file names in this folder.
    fn loop_values(&self, words: &[tree::SourceWord]) -> Option<Word> {
        let words: Vec<Word> = words.iter().map(|word| self.resolve_word(word)).collect();
        let plain = |word: &Word| match word {
            Word::Literal(text) => {
                !text.starts_with(['/', '-']) && text.split('/').all(|part| !matches!(part, ".." | ""))
            }
            Word::Dynamic(_) => pattern_folder(word).is_some(),
        };
        match &words[..] {
            [] => None,
            [only @ Word::Dynamic(_)] if plain(only) => Some(only.clone()),
            words => words.iter().all(plain).then(|| names_below(".")),
        }
    }

    /// Resolves the known variables and loop values in a word.
    fn resolve_word(&self, from: &tree::SourceWord) -> Word {
        let bound = |(name, _): &&(String, Word)| {
            from.raw == format!("\"${name}\"") || from.raw == format!("\"${{{name}}}\"")
        };
        if let Some(text) = self.variables.expand(&from.raw) {
            return Word::Literal(text);
        }
        match (self.bound.iter().rev().find(bound), from.to_argument()) {
            (Some((_, Word::Dynamic(values))), Word::Dynamic(open)) => {
                Word::Dynamic(super::DynamicWord { shape: values.shape.clone(), splits: false, ..open })
            }
            (_, word) => word,
        }
    }
}

/// A command that is about to be started.
struct StartedCommand<'a> {
    argv: Vec<Word>,
    written: &'a [&'a str],
    assignments: Vec<Assignment>,
    heaviest: VariableWeight,
    incoming: CommandInput<'a>,
}

/// A command without its wrappers.
#[derive(Default)]
struct UnwrappedCommand {
    /// The findings of the last layer.
    findings: Vec<Finding>,
    /// What wrappers do besides starting it.
    outer: Vec<Finding>,
    exact_only: Option<&'static str>,
    /// The first program that does more than start it.
    starter: Option<String>,
    /// It has other files.
    contained: bool,
}

/// Returns whether a finding is an effect of a wrapper besides starting a command.
fn is_beside(finding: &Finding) -> bool {
    matches!(
        finding,
        Finding::Read { .. }
            | Finding::Write { .. }
            | Finding::Delete { .. }
            | Finding::Connect { .. }
            | Finding::Held(_)
    )
}

fn take_layers(findings: &mut Vec<Finding>) -> Vec<LayerFinding> {
    let is_layer = |finding: &mut Finding| matches!(finding, Finding::Layer(_));
    let layers = findings.extract_if(.., is_layer);
    layers
        .filter_map(|finding| if let Finding::Layer(layer) = finding { Some(layer) } else { None })
        .collect()
}

fn held_of(finding: &Finding) -> Option<&HeldFinding> {
    match finding {
        Finding::Held(held) => Some(held),
        _ => None,
    }
}

/// Returns the words of a layer as written. Words that were changed are shown as they are started.
fn as_written(written: &[String], layer: &LayerFinding) -> Vec<String> {
    match layer.from {
        Some(from) => written.get(from..).unwrap_or(&[]).to_vec(),
        None => {
            let words = layer.argv.iter().filter(|word| !word.is_anything());
            words.map(|word| word.plain().to_owned()).collect()
        }
    }
}

/// Returns the beginning of a command, for a doubt about it.
fn display_argv(argv: &[Word]) -> String {
    argv.iter().take(4).map(Word::plain).collect::<Vec<_>>().join(" ")
}

fn unclear_assignments(assignments: &[Assignment]) -> String {
    let names: Vec<_> = assignments.iter().filter(|one| !one.harmless).map(|one| &*one.name).collect();
    if names.is_empty() { "sets variables".to_owned() } else { format!("sets {}", names.join(", ")) }
}
