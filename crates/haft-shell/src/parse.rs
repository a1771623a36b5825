//! The grammar of bash, from the outside in: lists, pipelines, compound and simple commands.
//!
//! The parser is written by hand, because the property that matters is "nothing that bash would start is
//! missed", and it is tested against bash itself. A construct that bash parses in more than one way, or
//! only with options that are off in a script (`extglob`, aliases, history), is rejected as not understood
//! rather than guessed. Every step of the parser advances in the text and every nesting is counted, so time
//! is linear and the stack is bounded. The alternative was brush-parser 0.4. It overflows the stack on a
//! few thousand nested groups (an abort, not a panic that could be caught), drops carriage returns that
//! bash keeps, doesn't support `select`, and has thirty dependencies.
//!
//! Words and their expansions are in [`super::word`], redirections and here-documents in
//! [`super::redirect`].

use super::redirect::PendingDocument;
use super::tree::{
    AndOrList, AssignmentNode, CommandNode, CompoundCommand, CompoundKind, PipelineStep, RedirectNode,
    RedirectOperator, ScriptNode, SimpleCommand, SourceWord, StepJoin,
};
use super::{CHARS_MAX, COMMANDS_MAX, DEPTH_MAX, Doubt};

pub(super) type ParseResult<T> = Result<T, Doubt>;

/// Facts found besides the tree.
#[derive(Debug, Default, Clone)]
pub(super) struct ParseNotes {
    /// Something evaluates the text of a variable as an expression, which can run a substitution in it.
    pub(super) evaluates: bool,
    /// A quoted text contains a substitution that would run if the text were evaluated.
    pub(super) hides: bool,
    /// Variables that `${name:=value}` sets.
    pub(super) sets: Vec<String>,
    /// The texts that are evaluated.
    pub(super) expressions: Vec<String>,
}

impl ParseNotes {
    /// Records a text that is evaluated as an expression.
    pub(super) fn evaluate(&mut self, text: &str) {
        self.evaluates = true;
        self.expressions.push(text.to_owned());
    }
}

/// A parsed command.
#[derive(Debug)]
pub(super) struct ParsedText {
    pub(super) script: ScriptNode,
    /// The expanded words of here-documents, by the number in their redirections.
    pub(super) documents: Vec<SourceWord>,
    pub(super) notes: ParseNotes,
}

impl ParsedText {
    /// Returns the text of a here-document or here-string, if the redirection is for standard input. The
    /// inner `None` is an unknown text.
    pub(super) fn given_text<'t>(&'t self, redirect: &'t RedirectNode) -> Option<Option<&'t str>> {
        match (redirect.op, redirect.document) {
            (RedirectOperator::Here, Some(number)) => {
                Some(self.documents.get(number).and_then(SourceWord::literal))
            }
            (RedirectOperator::Here, None) => Some(redirect.target.literal()),
            (RedirectOperator::Read | RedirectOperator::DupIn, _) => Some(None),
            _ => None,
        }
    }
}

#[derive(Default)]
pub(super) struct Parser<'s> {
    pub(super) src: &'s str,
    pub(super) pos: usize,
    pub(super) depth: usize,
    pub(super) left: usize,
    pub(super) notes: ParseNotes,
    /// Here-documents that begin after this line.
    pub(super) pending: Vec<PendingDocument>,
    /// The parser is inside the text of a here-document, where shells differ on quotes in `${…}`.
    pub(super) in_document: bool,
    /// The expanded words of here-documents, by number.
    pub(super) documents: Vec<SourceWord>,
}

/// The end of a script.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScriptEnd {
    End,
    Paren,
    /// `;;` and its variants, or `esac`.
    Case,
    Words(&'static [&'static str]),
}

/// Parses a whole command.
pub(super) fn parse_text(src: &str, depth: usize) -> ParseResult<ParsedText> {
    if src.len() > CHARS_MAX && src.chars().count() > CHARS_MAX {
        return Err(Doubt::TooLong);
    }
    let is_strange = |c: &char| (c.is_control() && !matches!(c, '\n' | '\t')) || is_bidi(*c);
    let is_plain = src.bytes().all(|b| matches!(b, b' '..=b'~' | b'\n' | b'\t'));
    if !is_plain && let Some(strange) = src.chars().find(is_strange) {
        return Err(Doubt::Character(strange));
    }
    let mut parser = Parser { src, depth, left: COMMANDS_MAX, ..Parser::default() };
    let script = parser.parse_script(ScriptEnd::End)?;
    if !parser.pending.is_empty() {
        return Err(parser.syntax_error("a here-document without its end"));
    }
    Ok(ParsedText { script, documents: parser.documents, notes: parser.notes })
}

/// Returns whether a character changes the direction of displayed text.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Returns whether a character looks like a space or is invisible.
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

impl<'s> Parser<'s> {
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

    pub(super) fn syntax_error(&self, what: &'static str) -> Doubt {
        Doubt::Syntax { what, at: self.pos }
    }

    pub(super) fn enter(&mut self) -> ParseResult<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(Doubt::TooDeep) } else { Ok(()) }
    }

    /// Skips spaces and line continuations, but not the end of a line.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.pos += 1,
                Some(b'\\') if self.at("\\\n") => self.pos += 2,
                _ => return,
            }
        }
    }

    fn skip_comment(&mut self) {
        if self.peek() == Some(b'#') {
            while self.peek().is_some_and(|b| b != b'\n') {
                self.pos += 1;
            }
        }
    }

    /// Skips spaces, comments and ends of lines, and reads the here-documents that begin after a line.
    fn skip_lines(&mut self) -> ParseResult<()> {
        loop {
            self.skip_blanks();
            self.skip_comment();
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            self.pos += 1;
            self.parse_documents()?;
        }
    }

    /// Returns the unquoted word at this position, if it could be a reserved one.
    fn peek_word(&self) -> &'s str {
        let rest = &self.src[self.pos..];
        let end = rest.bytes().position(is_meta).unwrap_or(rest.len());
        &rest[..end]
    }

    fn take_keyword(&mut self, word: &str) -> bool {
        let here = self.peek_word() == word;
        self.pos += if here { word.len() } else { 0 };
        here
    }

    fn expect_keyword(&mut self, word: &'static str) -> ParseResult<()> {
        self.skip_lines()?;
        if self.take_keyword(word) { Ok(()) } else { Err(self.syntax_error(word)) }
    }

    pub(super) fn parse_script(&mut self, stop: ScriptEnd) -> ParseResult<ScriptNode> {
        let mut script = ScriptNode::default();
        let mut separated = true;
        loop {
            let before = self.pos;
            self.skip_lines()?;
            separated |= self.src[before..self.pos].contains('\n');
            let ended = match self.peek() {
                None if stop == ScriptEnd::End => true,
                None => return Err(self.syntax_error("the end of a command")),
                Some(b')') if stop == ScriptEnd::Paren => true,
                Some(b';') if stop == ScriptEnd::Case && (self.at(";;") || self.at(";&")) => true,
                Some(b';' | b'&' | b'|' | b')') => return Err(self.syntax_error("a command")),
                Some(_) => match stop {
                    ScriptEnd::Words(words) => words.contains(&self.peek_word()),
                    ScriptEnd::Case => self.peek_word() == "esac",
                    ScriptEnd::End | ScriptEnd::Paren => false,
                },
            };
            if ended {
                return Ok(script);
            }
            if !separated {
                return Err(self.syntax_error("`;` or a new line"));
            }
            let mut item = self.parse_list()?;
            self.skip_blanks();
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

    fn parse_list(&mut self) -> ParseResult<AndOrList> {
        let mut item = AndOrList { steps: Vec::new(), background: false };
        let mut join = StepJoin::First;
        loop {
            item.steps.push(self.parse_pipeline(join)?);
            self.skip_blanks();
            join = if self.take("&&") {
                StepJoin::And
            } else if self.take("||") {
                StepJoin::Or
            } else {
                return Ok(item);
            };
            self.skip_lines()?;
        }
    }

    fn parse_pipeline(&mut self, join: StepJoin) -> ParseResult<PipelineStep> {
        let mut step = PipelineStep { join, commands: Vec::new(), negated: false };
        let start = self.pos;
        let mut timed: Vec<&'static str> = Vec::new();
        loop {
            self.skip_blanks();
            if self.take_keyword("!") {
                step.negated = true;
            } else if self.peek_word() == "time" {
                self.pos += "time".len();
                self.skip_blanks();
                timed.push("time");
                if self.take_keyword("-p") {
                    timed.push("-p");
                    self.skip_blanks();
                }
                self.take_keyword("--");
            } else {
                break;
            }
        }
        // `time` and `!` alone are commands too.
        if self.pos > start && matches!(self.peek(), None | Some(b'\n' | b';' | b')')) {
            return Ok(step);
        }
        loop {
            self.skip_blanks();
            step.commands.push(self.parse_command()?);
            self.skip_blanks();
            if let [CommandNode::Simple(simple)] = &mut step.commands[..] {
                timed_words(simple, &mut timed);
            }
            if self.at("||") || !(self.take("|&") || self.take("|")) {
                return Ok(step);
            }
            self.skip_lines()?;
            if self.peek_word() == "!" {
                return Err(self.syntax_error("a command after `|`"));
            }
        }
    }

    fn parse_command(&mut self) -> ParseResult<CommandNode> {
        self.left = self.left.checked_sub(1).ok_or(Doubt::TooMany)?;
        self.enter()?;
        let command = self.parse_nested_command();
        self.depth -= 1;
        command
    }

    fn parse_nested_command(&mut self) -> ParseResult<CommandNode> {
        if self.at("((") {
            self.pos += 2;
            let mut word = SourceWord::default();
            self.parse_arithmetic(&mut word)?;
            return self.parse_compound(CompoundKind::Test, vec![word], Vec::new());
        }
        if self.take("(") {
            let body = self.parse_closed_script()?;
            return self.parse_compound(CompoundKind::Subshell, Vec::new(), vec![body]);
        }
        let word = self.peek_word();
        match word {
            "{" => {
                self.pos += 1;
                let body = self.parse_script(ScriptEnd::Words(&["}"]))?;
                self.expect_keyword("}")?;
                self.parse_compound(CompoundKind::Group, Vec::new(), vec![body])
            }
            "if" => self.parse_condition(),
            "while" | "until" => {
                self.pos += word.len();
                let test = self.parse_script(ScriptEnd::Words(&["do"]))?;
                let body = self.parse_body()?;
                self.parse_compound(CompoundKind::Loop(None), Vec::new(), vec![test, body])
            }
            "for" | "select" => {
                self.pos += word.len();
                self.parse_for()
            }
            "case" => self.parse_case(),
            "[[" => {
                self.pos += 2;
                let words = self.parse_test()?;
                self.parse_compound(CompoundKind::Test, words, Vec::new())
            }
            "function" => {
                self.pos += word.len();
                self.skip_blanks();
                let name = self.peek_word().to_owned();
                self.pos += name.len();
                self.skip_blanks();
                if self.take("(") {
                    self.skip_blanks();
                    if !self.take(")") {
                        return Err(self.syntax_error("`()`"));
                    }
                }
                self.parse_function(name)
            }
            "coproc" => {
                self.pos += word.len();
                self.skip_blanks();
                // `coproc NAME { …; }`: the name is allowed only before a compound command.
                let name = self.peek_word();
                if is_name(name) && !is_reserved(name) {
                    let start = self.pos;
                    self.pos += name.len();
                    self.skip_blanks();
                    if !(self.peek() == Some(b'(') || is_reserved(self.peek_word())) {
                        self.pos = start;
                    }
                }
                let command = self.parse_command()?;
                let step = PipelineStep { join: StepJoin::First, commands: vec![command], negated: false };
                let body = ScriptNode::from_step(step);
                self.parse_compound(CompoundKind::Subshell, Vec::new(), vec![body])
            }
            "then" | "else" | "elif" | "fi" | "do" | "done" | "esac" | "}" => {
                Err(self.syntax_error("a command"))
            }
            _ => self.parse_simple_or_function(),
        }
    }

    /// Parses a compound command with its redirections.
    fn parse_compound(
        &mut self,
        kind: CompoundKind,
        words: Vec<SourceWord>,
        bodies: Vec<ScriptNode>,
    ) -> ParseResult<CommandNode> {
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks();
            match self.parse_redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => break,
            }
        }
        let moves = kind != CompoundKind::Subshell && bodies.iter().any(ScriptNode::moves);
        Ok(CommandNode::Compound(CompoundCommand { kind, words, bodies, redirects, moves }))
    }

    /// Parses a script up to its `)`.
    fn parse_closed_script(&mut self) -> ParseResult<ScriptNode> {
        let script = self.parse_script(ScriptEnd::Paren)?;
        if self.take(")") { Ok(script) } else { Err(self.syntax_error("`)`")) }
    }

    /// Parses the script of `$( … )` or `<( … )`, after the opening. Its here-documents are separate.
    pub(super) fn parse_substitution(&mut self) -> ParseResult<ScriptNode> {
        self.enter()?;
        let outer = std::mem::take(&mut self.pending);
        let in_document = std::mem::take(&mut self.in_document);
        let start = self.pos;
        let script = self.parse_closed_script()?;
        if !self.pending.is_empty() || (!outer.is_empty() && self.src[start..self.pos].contains('\n')) {
            return Err(self.syntax_error("here-documents and substitutions that don't overlap"));
        }
        self.pending = outer;
        self.in_document = in_document;
        self.depth -= 1;
        Ok(script)
    }

    fn parse_condition(&mut self) -> ParseResult<CommandNode> {
        self.pos += "if".len();
        let mut bodies = vec![self.parse_script(ScriptEnd::Words(&["then"]))?];
        self.expect_keyword("then")?;
        loop {
            bodies.push(self.parse_script(ScriptEnd::Words(&["elif", "else", "fi"]))?);
            if self.take_keyword("elif") {
                bodies.push(self.parse_script(ScriptEnd::Words(&["then"]))?);
                self.expect_keyword("then")?;
            } else if self.take_keyword("else") {
                bodies.push(self.parse_script(ScriptEnd::Words(&["fi"]))?);
            } else {
                self.expect_keyword("fi")?;
                return self.parse_compound(CompoundKind::Choice, Vec::new(), bodies);
            }
        }
    }

    /// Parses `do … done`, or the old form in braces.
    fn parse_body(&mut self) -> ParseResult<ScriptNode> {
        self.skip_lines()?;
        if self.take_keyword("{") {
            let body = self.parse_script(ScriptEnd::Words(&["}"]))?;
            self.expect_keyword("}")?;
            return Ok(body);
        }
        self.expect_keyword("do")?;
        let body = self.parse_script(ScriptEnd::Words(&["done"]))?;
        self.expect_keyword("done")?;
        Ok(body)
    }

    fn parse_for(&mut self) -> ParseResult<CommandNode> {
        self.skip_blanks();
        let mut words = Vec::new();
        let mut variable = None;
        if self.take("((") {
            let mut word = SourceWord::default();
            self.parse_arithmetic(&mut word)?;
            words.push(word);
            self.skip_blanks();
            self.take(";");
        } else {
            let name = self.peek_word().to_owned();
            if !is_name(&name) {
                return Err(self.syntax_error("the name of a variable"));
            }
            self.pos += name.len();
            variable = Some(name);
            self.skip_lines()?;
            if self.take_keyword("in") {
                loop {
                    self.skip_blanks();
                    match self.peek() {
                        Some(b';') => {
                            self.pos += 1;
                            break;
                        }
                        Some(b'\n') => break,
                        Some(b'#') => self.skip_comment(),
                        _ => words.push(self.parse_word()?),
                    }
                }
            } else {
                self.take(";");
            }
        }
        let body = self.parse_body()?;
        self.parse_compound(CompoundKind::Loop(variable), words, vec![body])
    }

    fn parse_case(&mut self) -> ParseResult<CommandNode> {
        self.pos += "case".len();
        self.skip_blanks();
        let mut words = vec![self.parse_word()?];
        self.expect_keyword("in")?;
        let mut bodies = Vec::new();
        loop {
            self.skip_lines()?;
            if self.take_keyword("esac") {
                return self.parse_compound(CompoundKind::Choice, words, bodies);
            }
            self.take("(");
            loop {
                self.skip_blanks();
                words.push(self.parse_word()?);
                self.skip_blanks();
                if self.take(")") {
                    break;
                }
                if !self.take("|") {
                    return Err(self.syntax_error("`)` after a pattern"));
                }
            }
            bodies.push(self.parse_script(ScriptEnd::Case)?);
            if !(self.take(";;&") || self.take(";;") || self.take(";&")) && self.peek_word() != "esac" {
                return Err(self.syntax_error("`;;`"));
            }
        }
    }

    fn parse_function(&mut self, name: String) -> ParseResult<CommandNode> {
        if name.is_empty() || name.contains(['$', '`', '"', '\'', '\\', '{', '}', '*', '?', '[', '~', '#']) {
            return Err(self.syntax_error("a plain name for the function"));
        }
        self.skip_lines()?;
        let compound = self.peek() == Some(b'(')
            || matches!(self.peek_word(), "{" | "if" | "while" | "until" | "for" | "select" | "case" | "[[");
        if !compound {
            return Err(self.syntax_error("the body of a function"));
        }
        let body = self.parse_command()?;
        let moves = match &body {
            CommandNode::Compound(compound) => compound.moves,
            CommandNode::Simple(_) => false,
        };
        let step = PipelineStep { join: StepJoin::First, commands: vec![body], negated: false };
        let bodies = vec![ScriptNode::from_step(step)];
        let kind = CompoundKind::Function(name);
        Ok(CommandNode::Compound(CompoundCommand {
            kind,
            words: Vec::new(),
            bodies,
            redirects: Vec::new(),
            moves,
        }))
    }

    /// Parses `[[ … ]]`: operators and words up to the closing one.
    fn parse_test(&mut self) -> ParseResult<Vec<SourceWord>> {
        let mut words: Vec<SourceWord> = Vec::new();
        let mut open = 0_usize;
        loop {
            self.skip_blanks();
            match self.peek() {
                None => return Err(self.syntax_error("`]]`")),
                Some(b'\n') => {
                    self.pos += 1;
                    self.parse_documents()?;
                }
                Some(b'(') => {
                    self.pos += 1;
                    open += 1;
                }
                Some(b')') => {
                    self.pos += 1;
                    open = open.checked_sub(1).ok_or_else(|| self.syntax_error("`(`"))?;
                }
                Some(b'&' | b'|') => {
                    if !(self.take("&&") || self.take("||")) {
                        return Err(self.syntax_error("`&&` or `||`"));
                    }
                }
                // A string comparison, unless it opens a substitution.
                Some(b'<' | b'>') if !self.at("<(") && !self.at(">(") => self.pos += 1,
                Some(b';') => return Err(self.syntax_error("`]]`")),
                Some(_) if self.peek_word() == "]]" && open == 0 => {
                    self.pos += 2;
                    self.evaluate_operands(&mut words);
                    return Ok(words);
                }
                Some(_) => {
                    let after_regex = words.last().is_some_and(|word| word.raw == "=~");
                    let word = if after_regex { self.parse_regex()? } else { self.parse_word()? };
                    words.push(word);
                }
            }
        }
    }

    /// Records the operands of a test that are evaluated as expressions.
    fn evaluate_operands(&mut self, words: &mut [SourceWord]) {
        let evaluates = |word: &SourceWord| {
            matches!(&*word.raw, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" | "-v" | "-R")
        };
        let operators: Vec<usize> = (0..words.len()).filter(|at| evaluates(&words[*at])).collect();
        for at in operators.iter().flat_map(|at| [at.wrapping_sub(1), at + 1]) {
            if let Some(word) = words.get_mut(at) {
                word.evaluate_from(0);
                self.notes.evaluate(&word.raw);
            }
        }
    }

    fn parse_simple_or_function(&mut self) -> ParseResult<CommandNode> {
        let mut simple = SimpleCommand::default();
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.parse_redirect()? {
                simple.redirects.push(redirect);
                continue;
            }
            match self.peek() {
                None | Some(b'\n' | b';' | b'&' | b'|' | b')') => break,
                Some(b'#') => {
                    self.skip_comment();
                    continue;
                }
                Some(b'(') => {
                    // Only `name ()` is allowed here.
                    let lone = simple.assignments.is_empty()
                        && simple.redirects.is_empty()
                        && simple.words.len() == 1
                        && !simple.words[0].quoted;
                    self.pos += 1;
                    self.skip_blanks();
                    if !lone || !self.take(")") {
                        return Err(self.syntax_error("no `(` inside a command"));
                    }
                    let name = simple.words.remove(0).raw;
                    return self.parse_function(name);
                }
                Some(_) => {}
            }
            let declares = simple
                .words
                .first()
                .is_some_and(|word| word.literal().is_some_and(|name| DECLARATIONS.contains(&name)));
            if simple.words.is_empty() {
                if let Some(assignment) = self.parse_assignment()? {
                    simple.assignments.push(assignment);
                    continue;
                }
            } else if declares && let Some(assignment) = self.parse_assignment()? {
                let mut word = SourceWord { raw: assignment.raw, quoted: true, ..SourceWord::default() };
                word.push_text(&format!("{}=", assignment.name));
                assignment.value.into_iter().chain(assignment.others).for_each(|part| word.append(part));
                simple.words.push(word);
                continue;
            }
            let word = self.parse_word()?;
            if simple.words.is_empty() && word.raw.contains("\\\n") {
                return Err(self.syntax_error("the name of a command on one line"));
            }
            simple.words.push(word);
        }
        if simple.words.is_empty() && simple.assignments.is_empty() && simple.redirects.is_empty() {
            return Err(self.syntax_error("a command"));
        }
        Ok(CommandNode::Simple(simple))
    }

    /// `name=value`, `name+=value`, `name[…]=value`, `name=( … )`.
    fn parse_assignment(&mut self) -> ParseResult<Option<AssignmentNode>> {
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
            let subscript = self.parse_subscript()?;
            others.push(subscript);
            if !(self.at("=") || self.at("+=")) {
                return Err(self.syntax_error("`=` after a subscript"));
            }
        }
        if !(self.take("+=") || self.take("=")) {
            self.pos = start;
            return Ok(None);
        }
        let mut value = None;
        if self.take("(") {
            loop {
                self.skip_lines()?;
                match self.peek() {
                    None => return Err(self.syntax_error("`)` of an array")),
                    Some(b')') => {
                        self.pos += 1;
                        break;
                    }
                    Some(b'[') => {
                        // `[subscript]=value` evaluates the subscript.
                        let mut word = self.parse_word()?;
                        word.evaluate_from(0);
                        self.notes.evaluate(&word.raw);
                        others.push(word);
                    }
                    Some(_) => others.push(self.parse_word()?),
                }
            }
        } else if self.peek().is_some_and(|b| !is_meta(b)) || self.at("<(") || self.at(">(") {
            value = Some(self.parse_value()?);
        }
        let raw = self.src[start..self.pos].to_owned();
        Ok(Some(AssignmentNode { name, value, others, raw }))
    }

    /// Parses another text with the same limits.
    pub(super) fn parse_inner<T>(
        &mut self,
        src: &str,
        run: impl FnOnce(&mut Parser<'_>) -> ParseResult<T>,
    ) -> ParseResult<T> {
        self.enter()?;
        let mut inner = Parser {
            src,
            depth: self.depth,
            left: self.left,
            notes: std::mem::take(&mut self.notes),
            documents: std::mem::take(&mut self.documents),
            ..Parser::default()
        };
        let result = run(&mut inner)?;
        if inner.pos < src.len() || !inner.pending.is_empty() {
            return Err(inner.syntax_error("the end of a substitution"));
        }
        (self.left, self.notes, self.documents) = (inner.left, inner.notes, inner.documents);
        self.depth -= 1;
        Ok(result)
    }
}

/// Returns whether a word begins or structures a command.
fn is_reserved(word: &str) -> bool {
    matches!(word, "{" | "if" | "while" | "until" | "for" | "select" | "case" | "[[" | "(")
}

/// Returns whether a command begins after this reserved word.
pub(super) fn precedes_command(word: &str) -> bool {
    matches!(word, "!" | "{" | "coproc" | "do" | "elif" | "else" | "if" | "then" | "until" | "while")
}

/// `time` is a reserved word in bash, and a program in POSIX shells. Rules see it as a program.
fn timed_words(simple: &mut SimpleCommand, timed: &mut Vec<&'static str>) {
    let named = simple.words.first().is_some_and(|word| !word.raw.starts_with('-'));
    if named && simple.assignments.is_empty() {
        simple.words.splice(0..0, timed.drain(..).map(SourceWord::plain));
    }
}
