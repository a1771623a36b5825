//! The grammar of bash, from the outside in: lists, pipelines, compound and simple commands.
//!
//! Written by hand, because the property that matters is "nothing that bash would start is missed", and it is
//! tested against bash itself. What bash reads in more than one way, or only with options that are off in a script
//! (`extglob`, aliases, history), is refused as not understood rather than guessed. Every step of the parser goes
//! forward in the text and every nesting is counted, so time is linear and the stack bounded. Tried instead:
//! brush-parser 0.4, which overflows the stack on a few thousand nested groups (an abort, not a panic that could be
//! caught), drops carriage returns that bash keeps, doesn't know `select`, and brings thirty crates.
//!
//! Words and what is expanded in them are in [`super::word`], redirections and here-documents in [`super::redirect`].

use super::redirect::Pending;
use super::tree::{Assign, Command, Compound, Item, Join, Kind, Script, Simple, Step, Word};
use super::{CHARS_MAX, COMMANDS_MAX, DEPTH_MAX, Doubt};

pub(super) type Res<T> = Result<T, Doubt>;

/// What was learnt beside the tree.
#[derive(Debug, Default, Clone)]
pub(super) struct Notes {
    /// Something evaluates the text of a variable as an expression, which can run a substitution in it.
    pub(super) evaluates: bool,
    /// Some quoted text holds a substitution that would run if it were evaluated.
    pub(super) hides: bool,
    /// Variables that `${name:=value}` sets.
    pub(super) sets: Vec<String>,
    /// The texts that are evaluated.
    pub(super) expressions: Vec<String>,
}

impl Notes {
    /// Some text is evaluated as an expression.
    pub(super) fn evaluate(&mut self, text: &str) {
        self.evaluates = true;
        self.expressions.push(text.to_owned());
    }
}

/// A parsed command.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) script: Script,
    /// What here-documents expand, by the number in their redirections.
    pub(super) documents: Vec<Word>,
    pub(super) notes: Notes,
}

pub(super) struct Parser<'s> {
    pub(super) src: &'s str,
    pub(super) pos: usize,
    pub(super) depth: usize,
    pub(super) left: usize,
    pub(super) notes: Notes,
    /// Here-documents that begin after this line.
    pub(super) pending: Vec<Pending>,
    /// Inside the text of a here-document, where quotes in `${…}` are read in different ways.
    pub(super) in_document: bool,
    /// What here-documents expand, by number.
    pub(super) documents: Vec<Word>,
}

/// Where a script ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    End,
    Paren,
    /// `;;` and the like, or `esac`.
    Case,
    Words(&'static [&'static str]),
}

/// Parses a whole command.
pub(super) fn parse(src: &str, depth: usize) -> Res<Tree> {
    if src.chars().count() > CHARS_MAX {
        return Err(Doubt::TooLong);
    }
    if let Some(strange) = src.chars().find(|c| (c.is_control() && !matches!(c, '\n' | '\t')) || is_bidi(*c))
    {
        return Err(Doubt::Character(strange));
    }
    let mut parser = Parser {
        src,
        pos: 0,
        depth,
        left: COMMANDS_MAX,
        notes: Notes::default(),
        pending: Vec::new(),
        in_document: false,
        documents: Vec::new(),
    };
    let script = parser.script(Stop::End)?;
    if !parser.pending.is_empty() {
        return Err(parser.syntax("a here-document without its end"));
    }
    Ok(Tree { script, documents: parser.documents, notes: parser.notes })
}

/// Characters that turn the order of what is shown.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Characters that look like a blank or like nothing.
pub(super) fn is_invisible(c: char) -> bool {
    !c.is_ascii()
        && (c.is_whitespace()
            || matches!(c, '\u{AD}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}'))
}

pub(super) fn is_meta(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')')
}

pub(super) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Commands whose arguments may be arrays.
const DECLARATIONS: &[&str] = &["declare", "typeset", "local", "export", "readonly"];

impl Parser<'_> {
    pub(super) fn peek(&self) -> Option<u8> {
        self.src.as_bytes().get(self.pos).copied()
    }

    pub(super) fn at(&self, text: &str) -> bool {
        self.src.as_bytes()[self.pos..].starts_with(text.as_bytes())
    }

    pub(super) fn take(&mut self, text: &str) -> bool {
        let here = self.at(text);
        self.pos += if here { text.len() } else { 0 };
        here
    }

    pub(super) fn syntax(&self, what: &'static str) -> Doubt {
        Doubt::Syntax { what, at: self.pos }
    }

    pub(super) fn enter(&mut self) -> Res<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(Doubt::TooDeep) } else { Ok(()) }
    }

    /// Blanks and joined lines, not the end of a line.
    pub(super) fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.pos += 1,
                Some(b'\\') if self.at("\\\n") => self.pos += 2,
                _ => return,
            }
        }
    }

    fn comment(&mut self) {
        if self.peek() == Some(b'#') {
            while self.peek().is_some_and(|b| b != b'\n') {
                self.pos += 1;
            }
        }
    }

    /// Blanks, comments and ends of lines, with the here-documents that begin after a line.
    fn lines(&mut self) -> Res<()> {
        loop {
            self.blanks();
            self.comment();
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            self.pos += 1;
            self.bodies()?;
        }
    }

    /// The unquoted word here, if it could be a reserved one.
    fn reserved(&self) -> &str {
        let rest = &self.src[self.pos..];
        let end = rest.bytes().position(is_meta).unwrap_or(rest.len());
        &rest[..end]
    }

    fn keyword(&mut self, word: &str) -> bool {
        let here = self.reserved() == word;
        self.pos += if here { word.len() } else { 0 };
        here
    }

    fn expect(&mut self, word: &'static str) -> Res<()> {
        self.lines()?;
        if self.keyword(word) { Ok(()) } else { Err(self.syntax(word)) }
    }

    pub(super) fn script(&mut self, stop: Stop) -> Res<Script> {
        let mut script = Script::default();
        let mut separated = true;
        loop {
            let before = self.pos;
            self.lines()?;
            separated |= self.src[before..self.pos].contains('\n');
            let ended = match self.peek() {
                None if stop == Stop::End => true,
                None => return Err(self.syntax("the end of a command")),
                Some(b')') if stop == Stop::Paren => true,
                Some(b';') if stop == Stop::Case && (self.at(";;") || self.at(";&")) => true,
                Some(b';' | b'&' | b'|' | b')') => return Err(self.syntax("a command")),
                Some(_) => match stop {
                    Stop::Words(words) => words.contains(&self.reserved()),
                    Stop::Case => self.reserved() == "esac",
                    Stop::End | Stop::Paren => false,
                },
            };
            if ended {
                return Ok(script);
            }
            if !separated {
                return Err(self.syntax("`;` or a new line"));
            }
            let mut item = self.item()?;
            self.blanks();
            separated = false;
            if self.peek() == Some(b';') && !self.at(";;") && !self.at(";&") {
                self.pos += 1;
                separated = true;
            } else if self.peek() == Some(b'&') {
                self.pos += 1;
                item.background = true;
                separated = true;
            }
            script.items.push(item);
        }
    }

    fn item(&mut self) -> Res<Item> {
        let mut item = Item { steps: Vec::new(), background: false };
        let mut join = Join::First;
        loop {
            item.steps.push(self.pipeline(join)?);
            self.blanks();
            join = if self.take("&&") {
                Join::And
            } else if self.take("||") {
                Join::Or
            } else {
                return Ok(item);
            };
            self.lines()?;
        }
    }

    fn pipeline(&mut self, join: Join) -> Res<Step> {
        let mut step = Step { join, commands: Vec::new(), negated: false };
        let start = self.pos;
        let mut timed: Vec<&'static str> = Vec::new();
        loop {
            self.blanks();
            if self.keyword("!") {
                step.negated = true;
            } else if self.reserved() == "time" {
                self.pos += "time".len();
                self.blanks();
                timed.push("time");
                if self.keyword("-p") {
                    timed.push("-p");
                    self.blanks();
                }
                self.keyword("--");
            } else {
                break;
            }
        }
        // `time` and `!` alone are commands too.
        if self.pos > start && matches!(self.peek(), None | Some(b'\n' | b';' | b')')) {
            return Ok(step);
        }
        loop {
            self.blanks();
            step.commands.push(self.command()?);
            self.blanks();
            if let [Command::Simple(simple)] = &mut step.commands[..] {
                timed_words(simple, &mut timed);
            }
            if self.at("||") || !(self.take("|&") || self.take("|")) {
                return Ok(step);
            }
            self.lines()?;
            if self.reserved() == "!" {
                return Err(self.syntax("a command after `|`"));
            }
        }
    }

    fn command(&mut self) -> Res<Command> {
        self.left = self.left.checked_sub(1).ok_or(Doubt::TooMany)?;
        self.enter()?;
        let command = self.command_inside();
        self.depth -= 1;
        command
    }

    fn command_inside(&mut self) -> Res<Command> {
        if self.at("((") {
            self.pos += 2;
            let mut word = Word::default();
            self.arithmetic(&mut word)?;
            return self.compound(Kind::Test, vec![word], Vec::new());
        }
        if self.take("(") {
            let body = self.closed()?;
            return self.compound(Kind::Subshell, Vec::new(), vec![body]);
        }
        let word = self.reserved().to_owned();
        match &*word {
            "{" => {
                self.pos += 1;
                let body = self.script(Stop::Words(&["}"]))?;
                self.expect("}")?;
                self.compound(Kind::Group, Vec::new(), vec![body])
            }
            "if" => self.condition(),
            "while" | "until" => {
                self.pos += word.len();
                let test = self.script(Stop::Words(&["do"]))?;
                let body = self.body()?;
                self.compound(Kind::Loop(None), Vec::new(), vec![test, body])
            }
            "for" | "select" => {
                self.pos += word.len();
                self.each()
            }
            "case" => self.case(),
            "[[" => {
                self.pos += 2;
                let words = self.test()?;
                self.compound(Kind::Test, words, Vec::new())
            }
            "function" => {
                self.pos += word.len();
                self.blanks();
                let name = self.reserved().to_owned();
                self.pos += name.len();
                self.blanks();
                if self.take("(") {
                    self.blanks();
                    if !self.take(")") {
                        return Err(self.syntax("`()`"));
                    }
                }
                self.function(name)
            }
            "coproc" => {
                self.pos += word.len();
                self.blanks();
                // `coproc NAME { …; }`: the name is there only before a compound command.
                let name = self.reserved().to_owned();
                if is_name(&name) && !is_reserved(&name) {
                    let start = self.pos;
                    self.pos += name.len();
                    self.blanks();
                    if !(self.peek() == Some(b'(') || is_reserved(self.reserved())) {
                        self.pos = start;
                    }
                }
                let command = self.command()?;
                let step = Step { join: Join::First, commands: vec![command], negated: false };
                let body = Script::from_step(step);
                self.compound(Kind::Subshell, Vec::new(), vec![body])
            }
            "then" | "else" | "elif" | "fi" | "do" | "done" | "esac" | "in" | "}" | "]]"
                if word != "in" && word != "]]" =>
            {
                Err(self.syntax("a command"))
            }
            _ => self.simple_or_function(),
        }
    }

    /// A compound command with the redirections behind it.
    fn compound(&mut self, kind: Kind, words: Vec<Word>, bodies: Vec<Script>) -> Res<Command> {
        let mut redirects = Vec::new();
        loop {
            self.blanks();
            match self.redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => break,
            }
        }
        let moves = kind != Kind::Subshell && bodies.iter().any(Script::moves);
        Ok(Command::Compound(Compound { kind, words, bodies, redirects, moves }))
    }

    /// A script up to its `)`.
    fn closed(&mut self) -> Res<Script> {
        let script = self.script(Stop::Paren)?;
        if self.take(")") { Ok(script) } else { Err(self.syntax("`)`")) }
    }

    /// The script of `$( … )` or `<( … )`, after the opening. Its here-documents are its own.
    pub(super) fn substitution(&mut self) -> Res<Script> {
        self.enter()?;
        let outer = std::mem::take(&mut self.pending);
        let in_document = std::mem::take(&mut self.in_document);
        let start = self.pos;
        let script = self.closed()?;
        if !self.pending.is_empty() || (!outer.is_empty() && self.src[start..self.pos].contains('\n')) {
            return Err(self.syntax("here-documents and substitutions that don't overlap"));
        }
        self.pending = outer;
        self.in_document = in_document;
        self.depth -= 1;
        Ok(script)
    }

    fn condition(&mut self) -> Res<Command> {
        self.pos += "if".len();
        let mut bodies = vec![self.script(Stop::Words(&["then"]))?];
        self.expect("then")?;
        loop {
            bodies.push(self.script(Stop::Words(&["elif", "else", "fi"]))?);
            if self.keyword("elif") {
                bodies.push(self.script(Stop::Words(&["then"]))?);
                self.expect("then")?;
            } else if self.keyword("else") {
                bodies.push(self.script(Stop::Words(&["fi"]))?);
            } else {
                self.expect("fi")?;
                return self.compound(Kind::Choice, Vec::new(), bodies);
            }
        }
    }

    /// `do … done`, or the old form in braces.
    fn body(&mut self) -> Res<Script> {
        self.lines()?;
        if self.keyword("{") {
            let body = self.script(Stop::Words(&["}"]))?;
            self.expect("}")?;
            return Ok(body);
        }
        self.expect("do")?;
        let body = self.script(Stop::Words(&["done"]))?;
        self.expect("done")?;
        Ok(body)
    }

    fn each(&mut self) -> Res<Command> {
        self.blanks();
        let mut words = Vec::new();
        let mut variable = None;
        if self.take("((") {
            let mut word = Word::default();
            self.arithmetic(&mut word)?;
            words.push(word);
            self.blanks();
            self.take(";");
        } else {
            let name = self.reserved().to_owned();
            if !is_name(&name) {
                return Err(self.syntax("the name of a variable"));
            }
            self.pos += name.len();
            variable = Some(name);
            self.lines()?;
            if self.keyword("in") {
                loop {
                    self.blanks();
                    match self.peek() {
                        Some(b';') => {
                            self.pos += 1;
                            break;
                        }
                        Some(b'\n') => break,
                        Some(b'#') => self.comment(),
                        _ => words.push(self.word()?),
                    }
                }
            } else {
                self.take(";");
            }
        }
        let body = self.body()?;
        self.compound(Kind::Loop(variable), words, vec![body])
    }

    fn case(&mut self) -> Res<Command> {
        self.pos += "case".len();
        self.blanks();
        let mut words = vec![self.word()?];
        self.expect("in")?;
        let mut bodies = Vec::new();
        loop {
            self.lines()?;
            if self.keyword("esac") {
                return self.compound(Kind::Choice, words, bodies);
            }
            self.take("(");
            loop {
                self.blanks();
                words.push(self.word()?);
                self.blanks();
                if self.take(")") {
                    break;
                }
                if !self.take("|") {
                    return Err(self.syntax("`)` after a pattern"));
                }
            }
            bodies.push(self.script(Stop::Case)?);
            if !(self.take(";;&") || self.take(";;") || self.take(";&")) && self.reserved() != "esac" {
                return Err(self.syntax("`;;`"));
            }
        }
    }

    fn function(&mut self, name: String) -> Res<Command> {
        if name.is_empty() || name.contains(['$', '`', '"', '\'', '\\', '{', '}', '*', '?', '[', '~', '#']) {
            return Err(self.syntax("a plain name for the function"));
        }
        self.lines()?;
        let compound = self.peek() == Some(b'(')
            || matches!(self.reserved(), "{" | "if" | "while" | "until" | "for" | "select" | "case" | "[[");
        if !compound {
            return Err(self.syntax("the body of a function"));
        }
        let body = self.command()?;
        let moves = match &body {
            Command::Compound(compound) => compound.moves,
            Command::Simple(_) => false,
        };
        let step = Step { join: Join::First, commands: vec![body], negated: false };
        let bodies = vec![Script::from_step(step)];
        let kind = Kind::Function(name);
        Ok(Command::Compound(Compound { kind, words: Vec::new(), bodies, redirects: Vec::new(), moves }))
    }

    /// `[[ … ]]`: operators and words up to the closing one.
    fn test(&mut self) -> Res<Vec<Word>> {
        let mut words: Vec<Word> = Vec::new();
        let mut open = 0_usize;
        loop {
            self.blanks();
            match self.peek() {
                None => return Err(self.syntax("`]]`")),
                Some(b'\n') => {
                    self.pos += 1;
                    self.bodies()?;
                }
                Some(b'(') => {
                    self.pos += 1;
                    open += 1;
                }
                Some(b')') => {
                    self.pos += 1;
                    open = open.checked_sub(1).ok_or_else(|| self.syntax("`(`"))?;
                }
                Some(b'&' | b'|') => {
                    if !(self.take("&&") || self.take("||")) {
                        return Err(self.syntax("`&&` or `||`"));
                    }
                }
                // A comparison of strings, unless it opens a substitution.
                Some(b'<' | b'>') if !self.at("<(") && !self.at(">(") => self.pos += 1,
                Some(b';') => return Err(self.syntax("`]]`")),
                Some(_) if self.reserved() == "]]" && open == 0 => {
                    self.pos += 2;
                    self.evaluate_operands(&mut words);
                    return Ok(words);
                }
                Some(_) => {
                    let after_regex = words.last().is_some_and(|word| word.raw == "=~");
                    let word = if after_regex { self.regex()? } else { self.word()? };
                    words.push(word);
                }
            }
        }
    }

    /// Notes the operands of a test that are evaluated as expressions.
    fn evaluate_operands(&mut self, words: &mut [Word]) {
        let evaluates =
            |word: &Word| matches!(&*word.raw, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" | "-v" | "-R");
        let operators: Vec<usize> = (0..words.len()).filter(|at| evaluates(&words[*at])).collect();
        for at in operators.iter().flat_map(|at| [at.wrapping_sub(1), at + 1]) {
            if let Some(word) = words.get_mut(at) {
                word.evaluate_from(0);
                self.notes.evaluate(&word.raw);
            }
        }
    }

    fn simple_or_function(&mut self) -> Res<Command> {
        let mut simple = Simple::default();
        loop {
            self.blanks();
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
                continue;
            }
            match self.peek() {
                None | Some(b'\n' | b';' | b'&' | b'|' | b')') => break,
                Some(b'#') => {
                    self.comment();
                    continue;
                }
                Some(b'(') => {
                    // Only `name ()` may stand here.
                    let lone = simple.assignments.is_empty()
                        && simple.redirects.is_empty()
                        && simple.words.len() == 1
                        && !simple.words[0].quoted;
                    self.pos += 1;
                    self.blanks();
                    if !lone || !self.take(")") {
                        return Err(self.syntax("no `(` inside a command"));
                    }
                    let name = simple.words.remove(0).raw;
                    return self.function(name);
                }
                Some(_) => {}
            }
            let declares = simple
                .words
                .first()
                .is_some_and(|word| word.literal().is_some_and(|name| DECLARATIONS.contains(&&*name)));
            if simple.words.is_empty() {
                if let Some(assignment) = self.assignment()? {
                    simple.assignments.push(assignment);
                    continue;
                }
            } else if declares && let Some(mut assignment) = self.assignment()? {
                let mut word = Word { raw: assignment.raw.clone(), quoted: true, ..Word::default() };
                word.push_text(&format!("{}=", assignment.name));
                for part in assignment.value.iter_mut().chain(&mut assignment.others) {
                    word.pieces.append(&mut part.pieces);
                    word.scripts.append(&mut part.scripts);
                }
                simple.words.push(word);
                continue;
            }
            let word = self.word()?;
            if simple.words.is_empty() && word.raw.contains("\\\n") {
                return Err(self.syntax("the name of a command on one line"));
            }
            simple.words.push(word);
        }
        if simple.words.is_empty() && simple.assignments.is_empty() && simple.redirects.is_empty() {
            return Err(self.syntax("a command"));
        }
        Ok(Command::Simple(simple))
    }

    /// `name=value`, `name+=value`, `name[…]=value`, `name=( … )`.
    fn assignment(&mut self) -> Res<Option<Assign>> {
        let start = self.pos;
        let rest = &self.src[start..];
        let end = rest.bytes().position(|b| !(b.is_ascii_alphanumeric() || b == b'_')).unwrap_or(rest.len());
        let name = &rest[..end];
        if !is_name(name) {
            return Ok(None);
        }
        let name = name.to_owned();
        self.pos += end;
        let mut others = Vec::new();
        if self.peek() == Some(b'[') {
            self.pos += 1;
            let subscript = self.subscript()?;
            others.push(subscript);
            if !(self.at("=") || self.at("+=")) {
                return Err(self.syntax("`=` after a subscript"));
            }
        }
        if !(self.take("+=") || self.take("=")) {
            self.pos = start;
            return Ok(None);
        }
        let mut value = None;
        if self.take("(") {
            loop {
                self.lines()?;
                match self.peek() {
                    None => return Err(self.syntax("`)` of an array")),
                    Some(b')') => {
                        self.pos += 1;
                        break;
                    }
                    Some(b'[') => {
                        // `[subscript]=value` evaluates the subscript.
                        let mut word = self.word()?;
                        word.evaluate_from(0);
                        self.notes.evaluate(&word.raw);
                        others.push(word);
                    }
                    Some(_) => others.push(self.word()?),
                }
            }
        } else if self.peek().is_some_and(|b| !is_meta(b)) || self.at("<(") || self.at(">(") {
            value = Some(self.value()?);
        }
        let raw = self.src[start..self.pos].to_owned();
        Ok(Some(Assign { name, value, others, raw }))
    }

    /// Parses another text with the same bounds.
    pub(super) fn inner<T>(&mut self, src: &str, run: impl FnOnce(&mut Parser<'_>) -> Res<T>) -> Res<T> {
        self.enter()?;
        let mut inner = Parser {
            src,
            pos: 0,
            depth: self.depth,
            left: self.left,
            notes: std::mem::take(&mut self.notes),
            pending: Vec::new(),
            in_document: false,
            documents: std::mem::take(&mut self.documents),
        };
        let result = run(&mut inner)?;
        if inner.pos < src.len() || !inner.pending.is_empty() {
            return Err(inner.syntax("the end of a substitution"));
        }
        (self.left, self.notes, self.documents) = (inner.left, inner.notes, inner.documents);
        self.depth -= 1;
        Ok(result)
    }
}

/// Words that begin or structure a command.
fn is_reserved(word: &str) -> bool {
    matches!(word, "{" | "if" | "while" | "until" | "for" | "select" | "case" | "[[" | "(")
}

/// Words of the grammar behind which a command begins.
pub(super) fn precedes_command(word: &str) -> bool {
    matches!(word, "!" | "{" | "coproc" | "do" | "elif" | "else" | "if" | "then" | "until" | "while")
}

/// `time` is a word of the grammar, and a program for shells that keep to the standard; rules see it as the latter.
fn timed_words(simple: &mut Simple, timed: &mut Vec<&'static str>) {
    let named = simple.words.first().is_some_and(|word| !word.raw.starts_with('-'));
    if named && simple.assignments.is_empty() {
        simple.words.splice(0..0, timed.drain(..).map(Word::plain));
    }
}
