//! Walks a parsed command: finds every program that could be started, and follows `cd`.
//!
//! The order of the walk is the order of execution, so that a relative path counts from the folder that the command
//! would be in. A `cd` may fail, so after it there are two folders, unless `&&` says that it didn't; where a loop, a
//! function or something unknown moves, the folder is unknown and so is every relative path.

use std::path::{Component, Path, PathBuf};

use super::environment::{self, Sets, Weight};
use super::parse::{self, Tree};
use super::told::{self, Held, Told};
use super::tree::{Assign, Command, Compound, Item, Join, Kind, Op, Piece, Redir, Script, Simple, Step};
use super::wrap::{self, Inner};
use super::{
    Analysis, Assignment, COMMANDS_MAX, DEPTH_MAX, Doubt, FOLDERS_MAX, FileAccess, Layer, Open, Place,
    Redirect, Started, SubCommand, Word, base_name, critical, marks, normal, programs, streams, touch, tree,
};

/// The folders that a relative path may count from; relative to where the command begins. Nothing: unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Here(Option<Vec<PathBuf>>);

impl Here {
    fn start() -> Here {
        Here(Some(vec![PathBuf::new()]))
    }

    fn unknown() -> Here {
        Here(None)
    }

    fn or(mut self, other: &Here) -> Here {
        match (&mut self.0, &other.0) {
            (Some(mine), Some(theirs)) => {
                for path in theirs {
                    if !mine.contains(path) {
                        mine.push(path.clone());
                    }
                }
                if mine.len() > FOLDERS_MAX {
                    self.0 = None;
                }
            }
            _ => self.0 = None,
        }
        self
    }

    pub(super) fn moved(&self) -> bool {
        *self != Here::start()
    }

    /// The folders, if they are known.
    pub(super) fn folders(&self) -> Option<&[PathBuf]> {
        self.0.as_deref()
    }

    /// Where a path may be.
    pub(super) fn join(&self, path: &Path) -> Option<Vec<PathBuf>> {
        if path.is_absolute() {
            return Some(vec![path.to_owned()]);
        }
        self.0.as_ref().map(|folders| folders.iter().map(|folder| folder.join(path)).collect())
    }

    /// After `cd path`. Going up from a folder that may be a link is left unknown.
    fn enter(&self, path: &Path) -> Here {
        let Some(paths) = self.join(path) else { return Here::unknown() };
        let plain = |path: &PathBuf| {
            let mut named = false;
            path.components().all(|part| {
                let up = part == Component::ParentDir;
                let fine = !(named && up);
                named |= !up;
                fine
            })
        };
        if paths.iter().all(plain) { Here(Some(paths)) } else { Here::unknown() }
    }
}

pub(super) fn analyse(command: &str, place: &Place) -> Analysis {
    let mut walker = Walker {
        place,
        found: Analysis::default(),
        depth: 0,
        within: None,
        lost: false,
        notes: (false, false),
    };
    walker.text(command, Here::start());
    if walker.notes == (true, true) {
        walker.doubt(Doubt::Evaluates);
    }
    walker.found
}

struct Walker<'p> {
    place: &'p Place,
    found: Analysis,
    depth: usize,
    within: Option<usize>,
    /// A function or trap moves, so no folder is known any more.
    lost: bool,
    /// Whether some text evaluates, and some hides what could be evaluated.
    notes: (bool, bool),
}

/// Where the shell is after a step that went well, and after one that didn't.
type After = (Here, Here);

impl Walker<'_> {
    fn doubt(&mut self, doubt: Doubt) {
        if !self.found.doubts.contains(&doubt) && self.found.doubts.len() < COMMANDS_MAX {
            self.found.doubts.push(doubt);
        }
    }

    /// Parses a text and walks it; returns where it ends.
    fn text(&mut self, text: &str, here: Here) -> Here {
        match parse::parse(text, self.depth) {
            Ok(tree) => {
                self.notes.0 |= tree.notes.evaluates;
                self.notes.1 |= tree.notes.hides;
                for name in &tree.notes.sets {
                    self.set(name, None);
                }
                self.script(&tree.script, &tree, here)
            }
            Err(doubt) => {
                self.doubt(doubt);
                Here::unknown()
            }
        }
    }

    fn set(&mut self, name: &str, value: Option<&str>) -> Weight {
        let weight = environment::weight(name, value);
        if weight == Weight::Dangerous {
            self.doubt(Doubt::Environment(name.to_owned()));
        }
        weight
    }

    fn script(&mut self, script: &Script, tree: &Tree, mut here: Here) -> Here {
        self.depth += 1;
        if self.depth > DEPTH_MAX * 2 {
            self.doubt(Doubt::TooDeep);
            return Here::unknown();
        }
        for item in &script.items {
            here = self.item(item, tree, here);
        }
        self.depth -= 1;
        here
    }

    fn item(&mut self, item: &Item, tree: &Tree, here: Here) -> Here {
        let before = here.clone();
        let (mut well, mut badly) = (here.clone(), here);
        for step in &item.steps {
            match step.join {
                Join::First => (well, badly) = self.step(step, tree, &well),
                Join::And => {
                    let (after, failed) = self.step(step, tree, &well);
                    (well, badly) = (after, badly.or(&failed));
                }
                Join::Or => {
                    let (after, failed) = self.step(step, tree, &badly);
                    (well, badly) = (well.or(&after), failed);
                }
            }
        }
        let after = if item.background { before } else { well.or(&badly) };
        if self.lost { Here::unknown() } else { after }
    }

    fn step(&mut self, step: &Step, tree: &Tree, here: &Here) -> After {
        let here = if self.lost { Here::unknown() } else { here.clone() };
        let mut after = (here.clone(), here.clone());
        let alone = step.commands.len() == 1;
        for command in &step.commands {
            let ends = match command {
                Command::Simple(simple) => self.simple(simple, tree, &here),
                Command::Compound(compound) => {
                    let end = self.compound(compound, tree, &here);
                    (end.clone(), end)
                }
            };
            if alone {
                after = ends;
            }
        }
        if step.negated { (after.0.clone().or(&after.1), after.1.or(&after.0)) } else { after }
    }

    fn compound(&mut self, compound: &Compound, tree: &Tree, here: &Here) -> Here {
        for word in &compound.words {
            self.inside(word, tree, here);
        }
        for redirect in &compound.redirects {
            self.redirect(redirect, tree, here);
        }
        let mut at = here.clone();
        match &compound.kind {
            Kind::Test => {}
            Kind::Subshell => {
                for body in &compound.bodies {
                    self.script(body, tree, at.clone());
                }
            }
            Kind::Group => {
                for body in &compound.bodies {
                    at = self.script(body, tree, at);
                }
            }
            Kind::Choice => {
                for body in &compound.bodies {
                    let end = self.script(body, tree, at.clone());
                    at = at.or(&end);
                }
            }
            Kind::Loop(variable) => {
                if let Some(name) = variable {
                    self.set(name, None);
                }
                if compound.moves {
                    at = Here::unknown();
                }
                for body in &compound.bodies {
                    self.script(body, tree, at.clone());
                }
            }
            Kind::Function(name) => {
                if wrap::is_special(name) {
                    self.doubt(Doubt::Elsewhere(format!("{name} ()")));
                }
                self.lost |= compound.moves;
                // It is called from wherever the shell is then.
                let body_at = if tree.script.moves() || self.lost { Here::unknown() } else { here.clone() };
                for body in &compound.bodies {
                    self.script(body, tree, body_at.clone());
                }
            }
        }
        at
    }

    /// Walks the substitutions of a word, each in a shell of its own.
    fn inside(&mut self, word: &tree::Word, tree: &Tree, here: &Here) {
        for script in &word.scripts {
            self.script(script, tree, here.clone());
        }
    }

    fn redirect(&mut self, redirect: &Redir, tree: &Tree, here: &Here) {
        self.inside(&redirect.target, tree, here);
        if let Some(document) = redirect.document.and_then(|number| tree.documents.get(number)) {
            self.inside(document, tree, here);
        }
        let target = word(&redirect.target);
        let access = match redirect.op {
            Op::Write | Op::Append => FileAccess::Write,
            Op::Read => FileAccess::Read,
            Op::Here | Op::DupIn => return,
            Op::DupOut => match target.literal() {
                Some(text) if is_descriptor(text) => return,
                _ => FileAccess::Write,
            },
        };
        // What `~` is, the shell says: the likely file counts for rules that stop, and it asks all the same.
        let paths = match target.literal() {
            Some(text) => here.join(Path::new(text)),
            None => touch::below_home(&target, self.place).map(|path| vec![path]),
        };
        if !target.literal().is_some_and(streams::is_stream) {
            if paths.is_none() || target.literal().is_none() {
                self.doubt(Doubt::Target(target.plain().to_owned()));
            }
            self.found.redirects.push(Redirect { access, target, paths });
        }
    }

    fn simple(&mut self, simple: &Simple, tree: &Tree, here: &Here) -> After {
        let stay = (here.clone(), here.clone());
        for assignment in &simple.assignments {
            for word in assignment.value.iter().chain(&assignment.others) {
                self.inside(word, tree, here);
            }
        }
        for word in &simple.words {
            self.inside(word, tree, here);
        }
        for redirect in &simple.redirects {
            self.redirect(redirect, tree, here);
        }
        let (assignments, heaviest) = self.assignments(&simple.assignments);
        if simple.words.is_empty() {
            if !assignments.is_empty() {
                let text =
                    assignments.iter().map(|assignment| &*assignment.text).collect::<Vec<_>>().join(" ");
                let read_only =
                    if heaviest <= Weight::Ordinary { Ok(()) } else { Err(unclear(&assignments)) };
                let effects = read_only.is_ok().then(haft::Effects::none);
                self.push(SubCommand {
                    text,
                    assignments,
                    layers: Vec::new(),
                    within: self.within,
                    read_only,
                    exact_only: None,
                    critical: None,
                    effects,
                });
            }
            return stay;
        }
        let written: Vec<&str> = simple.words.iter().map(|word| &*word.raw).collect();
        let argv: Vec<Word> = simple.words.iter().map(word).collect();
        let input = simple.redirects.iter().rev().find_map(|redirect| given_text(redirect, tree));
        self.command(argv, &written, assignments, heaviest, input, here)
    }

    fn assignments(&mut self, assigns: &[Assign]) -> (Vec<Assignment>, Weight) {
        let mut heaviest = Weight::Harmless;
        let mut assignments = Vec::new();
        for assign in assigns {
            let value = match &assign.value {
                Some(value) => value.literal(),
                None => Some(String::new()),
            };
            let weight = self.set(&assign.name, value.as_deref());
            heaviest = heaviest.max(weight);
            let harmless = weight == Weight::Harmless && value.is_some();
            assignments.push(Assignment { name: assign.name.clone(), text: assign.raw.clone(), harmless });
        }
        (assignments, heaviest)
    }

    fn push(&mut self, command: SubCommand) -> usize {
        if self.found.commands.len() >= COMMANDS_MAX {
            self.doubt(Doubt::TooMany);
        } else {
            self.found.commands.push(command);
        }
        self.found.commands.len() - 1
    }

    /// One command with its words: takes wrappers off, judges what is left, and walks what it holds.
    fn command(
        &mut self,
        argv: Vec<Word>,
        written: &[&str],
        assignments: Vec<Assignment>,
        heaviest: Weight,
        input: Option<Input>,
        here: &Here,
    ) -> After {
        let front = assignments.iter().map(|assignment| &*assignment.text);
        let text = front.chain(written.iter().copied()).collect::<Vec<_>>().join(" ");
        let first = if self.within.is_some() { Started::Held } else { Started::Directly };
        let mut layers = vec![Layer { text: written.join(" "), argv, started: first }];
        let mut at = here.clone();
        let mut exact_only = None;
        let inner = self.unwrap(&mut layers, written, &mut at, &mut exact_only);
        let last = &layers[layers.len() - 1].argv;
        let name = last[0].literal().map(base_name).unwrap_or_default().to_owned();
        let given = match &input {
            Some(Input::Text(text)) => Some(text.clone()),
            _ => None,
        };
        let inner = match (inner, input) {
            (Inner::Input, Some(Input::Text(text))) => Inner::Text { text, here: false },
            (inner, _) => inner,
        };
        let told = told::by(last, given.as_deref());
        exact_only = exact_only.or(self.holds(&inner, &text, last)).or(told.exact);
        if told.unknown {
            self.doubt(Doubt::Starts(shown(last)));
        }
        let heaviest = heaviest.max(self.variables(last));
        let mut read_only = self.read_only(&layers, &inner, heaviest, &assignments, at.moved());
        if read_only.is_ok() && (told.exact.is_some() || told.unknown) {
            read_only = Err(format!("`{name}` can be told to run another command"));
        }
        let critical =
            matches!(&*name, "rm" | "rmdir").then(|| critical::removal(last, &at, self.place)).flatten();
        let plain =
            layers.iter().all(|layer| !matches!(layer.started, Started::Executed | Started::Launched));
        let logs = layers.iter().any(|layer| layer.argv[0].literal().map(base_name) == Some("nohup"));
        let known = plain
            && !logs
            && matches!(inner, Inner::Nothing)
            && told.held.is_empty()
            && !told.unknown
            && heaviest <= Weight::Ordinary;
        let only_looks = matches!(inner, Inner::Nothing | Inner::Several(_))
            && programs::only_looks(last, at.moved()).is_ok();
        let touched = touch::layers(&layers, &inner, &at, self.place, only_looks);
        exact_only = exact_only.or(touched.open);
        let mut effects = touched.effects;
        // What the program touches by its arguments it touches behind a wrapper as well, beside what that may add.
        if let Some(effects) = effects.as_mut().filter(|_| !known) {
            effects.unknown = true;
        }
        // Who reads what isn't known may read what nobody may.
        if read_only.is_ok() && effects.as_ref().is_none_or(|effects| effects.unknown) {
            read_only = Err("which files it reads isn't known".to_owned());
        }
        let after = self.moves(&name, last, plain, &at, here);
        let last = last.clone();
        let number = self.push(SubCommand {
            text,
            assignments,
            layers,
            within: self.within,
            read_only,
            exact_only,
            critical,
            effects,
        });
        self.walk_told(told, number, &name, &at);
        self.walk_inner(inner, number, &name, &last, &at).unwrap_or(after)
    }

    /// Takes wrappers off until there is something that starts nothing, or starts it in another way.
    fn unwrap(
        &mut self,
        layers: &mut Vec<Layer>,
        written: &[&str],
        at: &mut Here,
        exact_only: &mut Option<&'static str>,
    ) -> Inner {
        let mut written: Vec<String> = written.iter().map(|word| (*word).to_owned()).collect();
        loop {
            let argv = &layers[layers.len() - 1].argv;
            if argv[0].literal().is_none_or(str::is_empty) {
                let doubt = Doubt::Command(argv[0].plain().to_owned());
                self.doubt(doubt);
                return Inner::Nothing;
            }
            let (argv, from, started) = match wrap::inner(argv) {
                Inner::Words { from, started, moved } => {
                    self.given_environment(&layers[layers.len() - 1].argv[..from]);
                    if moved {
                        *at = Here::unknown();
                    }
                    (layers[layers.len() - 1].argv[from..].to_vec(), from, started)
                }
                Inner::Perhaps { from, started } => {
                    self.doubt(Doubt::Starts(shown(argv)));
                    *at = Here::unknown();
                    let outer = argv.clone();
                    let (likely, others) = from.split_last().expect("there is a place where it may begin");
                    for from in others {
                        let text = written.get(*from..).unwrap_or(&[]).join(" ");
                        layers.push(Layer { text, argv: outer[*from..].to_vec(), started });
                    }
                    (outer[*likely..].to_vec(), *likely, started)
                }
                Inner::Given { argv: given, from, started } => {
                    // What isn't as it was written is shown as it is started.
                    if argv.get(from) != given.first() {
                        let words = given.iter().filter(|word| **word != Word::anything());
                        written = words.map(|word| word.plain().to_owned()).collect();
                        (given, 0, started)
                    } else {
                        (given, from, started)
                    }
                }
                other => return other,
            };
            if started == Started::Executed {
                *exact_only = exact_only.or(Some("starts another command in its own way"));
            }
            written.drain(..from.min(written.len()));
            if layers.len() >= DEPTH_MAX {
                self.doubt(Doubt::TooDeep);
                return Inner::Nothing;
            }
            layers.push(Layer { text: written.join(" "), argv, started });
        }
    }

    /// Walks what a command is told to run by an option, a script or a setting.
    fn walk_told(&mut self, told: Told, number: usize, name: &str, at: &Here) {
        // Past the bound there is a doubt already, and nothing more to find.
        if told.held.is_empty() || self.found.commands.len() >= COMMANDS_MAX {
            return;
        }
        let outer = self.within.replace(number);
        // These run it elsewhere: at the top of a repository, on another machine.
        let at =
            if matches!(name, "git" | "make" | "tmux" | "screen") { Here::unknown() } else { at.clone() };
        self.depth += 1;
        for held in told.held {
            match held {
                Held::Words(argv) => self.given(argv, &at),
                Held::Text(text) => {
                    self.text(&text, at.clone());
                }
            }
        }
        self.depth -= 1;
        self.within = outer;
    }

    /// A command whose words are given by another.
    fn given(&mut self, argv: Vec<Word>, at: &Here) {
        if self.depth > DEPTH_MAX * 2 {
            return self.doubt(Doubt::TooDeep);
        }
        let words = argv.iter().filter(|word| **word != Word::anything());
        let written: Vec<String> = words.map(|word| word.plain().to_owned()).collect();
        let written: Vec<&str> = written.iter().map(|text| &**text).collect();
        self.depth += 1;
        self.command(argv, &written, Vec::new(), Weight::Harmless, None, at);
        self.depth -= 1;
    }

    /// Why only an exact rule allows a command because of what it holds, with a doubt where that isn't known.
    fn holds(&mut self, inner: &Inner, text: &str, argv: &[Word]) -> Option<&'static str> {
        match inner {
            Inner::Unknown => {
                self.doubt(Doubt::Starts(shown(argv)));
                Some("starts another command")
            }
            Inner::Elsewhere => {
                self.doubt(Doubt::Elsewhere(shown(argv)));
                Some("takes commands from elsewhere")
            }
            Inner::Input => {
                self.doubt(Doubt::Starts(text.to_owned()));
                Some("runs what it is given")
            }
            Inner::Text { .. } | Inner::Several(_) => Some("runs what it is given"),
            Inner::Nothing | Inner::Words { .. } | Inner::Perhaps { .. } | Inner::Given { .. } => None,
        }
    }

    fn read_only(
        &self,
        layers: &[Layer],
        inner: &Inner,
        heaviest: Weight,
        assignments: &[Assignment],
        moved: bool,
    ) -> Result<(), String> {
        if heaviest > Weight::Ordinary {
            return Err(unclear(assignments));
        }
        let wrapper = |name: &str| Err(format!("`{name}` starts another command"));
        for pair in layers.windows(2) {
            let name = pair[0].argv[0].plain();
            // `nohup` writes what the command prints to a file.
            let quiet = pair[1].started == Started::Wrapped || base_name(name) == "xargs";
            if !quiet || base_name(name) == "nohup" {
                return wrapper(name);
            }
        }
        let last = &layers[layers.len() - 1].argv;
        match inner {
            Inner::Nothing => programs::only_looks(last, moved),
            _ => wrapper(last[0].plain()),
        }
    }

    /// Variables that `env` and `sudo` set.
    fn given_environment(&mut self, words: &[Word]) {
        for word in words.iter().skip(1) {
            if let Some((name, value)) = word.prefix().split_once('=')
                && parse::is_name(name)
            {
                let value = word.literal().is_some().then_some(value);
                self.set(name, value);
            }
        }
    }

    /// Variables that a built-in command sets.
    fn variables(&mut self, argv: &[Word]) -> Weight {
        match environment::sets(argv) {
            Sets::Nothing => Weight::Harmless,
            Sets::Names(names) => {
                let weights = names.iter().map(|(name, value)| self.set(name, value.as_deref()));
                weights.max().unwrap_or(Weight::Harmless)
            }
            Sets::Unknown => {
                self.doubt(Doubt::Elsewhere(shown(argv)));
                Weight::Dangerous
            }
        }
    }

    /// Where the shell is after this command.
    fn moves(&self, name: &str, argv: &[Word], plain: bool, at: &Here, here: &Here) -> After {
        let stay = here.clone();
        match name {
            "cd" if plain => {
                let mut operands = programs::operands(&argv[1..]);
                let target = match (operands.next(), operands.next()) {
                    (None, _) => self.place.home.clone(),
                    (Some(word), None) => match word.literal() {
                        Some("-") => None,
                        Some(text) => Some(PathBuf::from(text)),
                        None => touch::below_home(word, self.place),
                    },
                    _ => None,
                };
                // `cd -P` and the like resolve links, `CDPATH` is refused elsewhere.
                let options = argv[1..].iter().any(|word| word.prefix().starts_with('-'));
                match target.filter(|target| !options && !target.as_os_str().is_empty()) {
                    // Back to where the session is.
                    Some(target) if normal(&target) == self.place.cwd => (Here::start(), stay),
                    Some(target) => (at.enter(&target), stay),
                    None => (Here::unknown(), stay),
                }
            }
            "pushd" | "popd" | "cd" => (Here::unknown(), stay),
            _ => (stay.clone(), stay),
        }
    }

    /// Walks the commands in the arguments of another. Returns where the shell is then, if it is the same shell.
    fn walk_inner(
        &mut self,
        inner: Inner,
        number: usize,
        name: &str,
        argv: &[Word],
        at: &Here,
    ) -> Option<After> {
        let outer = self.within.replace(number);
        let mut after = None;
        match inner {
            Inner::Text { text, here } => {
                self.depth += 1;
                let remote =
                    matches!(name, "ssh" | "autossh" | "trap" | "su" | "runuser" | "at" | "batch" | "heroku");
                let start = if remote { Here::unknown() } else { at.clone() };
                let end = self.text(&text, start);
                self.depth -= 1;
                if here && name == "trap" {
                    self.lost |= text.contains("cd") || text.contains("pushd") || text.contains("popd");
                } else if here {
                    let end = end.or(at);
                    after = Some((end.clone(), end));
                }
            }
            Inner::Several(commands) => {
                let moved = argv.iter().any(|word| matches!(word.literal(), Some("-execdir" | "-okdir")));
                let at = if moved { Here::unknown() } else { at.clone() };
                for argv in commands {
                    self.given(argv, &at);
                }
            }
            Inner::Elsewhere => {
                self.lost |= matches!(name, "source" | ".");
            }
            Inner::Unknown => self.lost |= name == "eval",
            Inner::Nothing
            | Inner::Words { .. }
            | Inner::Perhaps { .. }
            | Inner::Given { .. }
            | Inner::Input => {}
        }
        self.within = outer;
        after
    }
}

/// The beginning of a command, for a doubt about it.
fn shown(argv: &[Word]) -> String {
    argv.iter().take(4).map(Word::plain).collect::<Vec<_>>().join(" ")
}

fn unclear(assignments: &[Assignment]) -> String {
    let names: Vec<_> = assignments.iter().filter(|one| !one.harmless).map(|one| &*one.name).collect();
    if names.is_empty() { "sets variables".to_owned() } else { format!("sets {}", names.join(", ")) }
}

/// What comes in to a command by its redirections.
enum Input {
    /// This text.
    Text(String),
    /// Something that isn't known.
    Unknown,
}

/// What a here-document or here-string gives, if the redirection is one of the input.
fn given_text(redirect: &Redir, tree: &Tree) -> Option<Input> {
    let text = match (redirect.op, redirect.document) {
        (Op::Here, Some(number)) => tree.documents.get(number).and_then(tree::Word::literal),
        (Op::Here, None) => redirect.target.literal(),
        (Op::Read | Op::DupIn, _) => None,
        _ => return None,
    };
    Some(text.map_or(Input::Unknown, Input::Text))
}

/// Whether the target of `>&` is a descriptor.
fn is_descriptor(text: &str) -> bool {
    let digits = text.strip_suffix('-').unwrap_or(text);
    text == "-" || (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// A word for those who judge it.
fn word(from: &tree::Word) -> Word {
    if let Some(text) = from.literal() {
        return Word::Literal(text);
    }
    let mut shape = String::new();
    // Lists stay lists in quotes; an address with `@` is none.
    let mut splits =
        ["$@", "${@", "[@]", "@}", "[*]", "$*", "${*"].iter().any(|list| from.raw.contains(list));
    for piece in &from.pieces {
        match piece {
            Piece::Text(text) => shape.extend(text.chars().map(|c| if c <= marks::GLOB { '?' } else { c })),
            Piece::Glob(_) => shape.push(marks::GLOB),
            Piece::Brace => shape.push(marks::BRACE),
            Piece::Tilde(name) => {
                shape.push(marks::HOME);
                shape.push_str(name);
            }
            Piece::Expansion { .. } => shape.push(marks::EXPANSION),
        }
        splits |= matches!(piece, Piece::Glob(_) | Piece::Brace | Piece::Expansion { quoted: false });
    }
    Word::Dynamic(Open { written: from.raw.clone(), shape, splits })
}
