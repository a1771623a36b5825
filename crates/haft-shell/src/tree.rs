//! The syntax tree of a shell command: scripts, commands, words and redirections.
//!
//! The tree keeps what is needed to find and judge commands, and nothing that only execution needs: a loop,
//! a condition and a choice differ only in how often their bodies run. Substitutions are attached to the
//! word that contains them, so a walk over all words finds them all.

use super::{DynamicWord, marks, programs};

/// A sequence of commands.
#[derive(Debug, Default)]
pub(super) struct ScriptNode {
    pub(super) items: Vec<AndOrList>,
    /// Its output becomes a part of an expression.
    pub(super) evaluated: bool,
}

/// Pipelines joined by `&&` and `||`, up to `;`, `&` or the end of the line.
#[derive(Debug)]
pub(super) struct AndOrList {
    pub(super) steps: Vec<PipelineStep>,
    /// Ends in `&`, so it runs in a separate shell.
    pub(super) background: bool,
}

#[derive(Debug)]
pub(super) struct PipelineStep {
    pub(super) join: StepJoin,
    /// Commands joined by `|`. If there are several, each runs in a separate shell.
    pub(super) commands: Vec<CommandNode>,
    /// Negated or timed, so that the next step says nothing about its success.
    pub(super) negated: bool,
}

/// How a step is joined to the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepJoin {
    First,
    And,
    Or,
}

#[derive(Debug)]
pub(super) enum CommandNode {
    Simple(SimpleCommand),
    Compound(CompoundCommand),
}

/// Assignments, words and redirections. Only a simple command starts a program.
#[derive(Debug, Default)]
pub(super) struct SimpleCommand {
    pub(super) assignments: Vec<AssignmentNode>,
    pub(super) words: Vec<SourceWord>,
    pub(super) redirects: Vec<RedirectNode>,
}

/// A command with a body.
#[derive(Debug)]
pub(super) struct CompoundCommand {
    pub(super) kind: CompoundKind,
    /// The words that are looped over, tested or compared.
    pub(super) words: Vec<SourceWord>,
    pub(super) bodies: Vec<ScriptNode>,
    pub(super) redirects: Vec<RedirectNode>,
    /// Whether something in it changes the working directory, or may.
    pub(super) moves: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CompoundKind {
    /// `( … )` and `coproc …`.
    Subshell,
    Group,
    /// `if` and `case`: a body may or may not run.
    Choice,
    /// `for`, `select`, `while`, `until`, with the variable that is set.
    Loop(Option<String>),
    Function(String),
    /// `[[ … ]]` and `(( … ))`.
    Test,
}

#[derive(Debug)]
pub(super) struct AssignmentNode {
    pub(super) name: String,
    /// The scalar value; `None` for `name=` and for arrays.
    pub(super) value: Option<SourceWord>,
    /// The elements of `name=( … )`, and words in a subscript.
    pub(super) others: Vec<SourceWord>,
    pub(super) raw: String,
}

#[derive(Debug)]
pub(super) struct RedirectNode {
    pub(super) op: RedirectOperator,
    /// The target, or the delimiter of a here-document.
    pub(super) target: SourceWord,
    /// The number of the here-document.
    pub(super) document: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RedirectOperator {
    /// `>`, `>|`, `&>`, `<>`.
    Write,
    /// `>>`, `&>>`.
    Append,
    Read,
    /// `>&` and `<&`: a descriptor, or for `>&` a file.
    DupOut,
    DupIn,
    /// `<<`, `<<-`, `<<<`.
    Here,
}

/// One word of the source.
#[derive(Debug, Default)]
pub(super) struct SourceWord {
    /// As written.
    pub(super) raw: String,
    pub(super) pieces: Vec<WordPiece>,
    /// The scripts in all substitutions of this word.
    pub(super) scripts: Vec<ScriptNode>,
    /// A part is quoted, so an empty word is a word.
    pub(super) quoted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WordPiece {
    /// Literal text.
    Text(String),
    /// An unquoted `*`, `?` or `[`.
    Glob(char),
    /// An unquoted `{a,b}` or `{a..b}`, which makes several words.
    Brace,
    /// `~` or `~name` at the start.
    Tilde(String),
    /// `$x`, `$(…)`, `<(…)` and the like. A quoted one makes exactly one word.
    Expansion { quoted: bool },
}

impl SourceWord {
    /// Creates a word of literal text.
    pub(super) fn plain(text: &str) -> SourceWord {
        SourceWord {
            raw: text.to_owned(),
            pieces: vec![WordPiece::Text(text.to_owned())],
            ..SourceWord::default()
        }
    }

    /// Returns the text of the word, if it has no expansions.
    pub(super) fn literal(&self) -> Option<&str> {
        match &self.pieces[..] {
            [] => Some(""),
            [WordPiece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Converts the word to the argument that a program receives.
    pub(super) fn to_argument(&self) -> super::Word {
        if let Some(text) = self.literal() {
            return super::Word::Literal(text.to_owned());
        }
        let mut shape = String::new();
        // Lists remain lists in quotes. An address with `@` is not a list.
        let mut splits =
            ["$@", "${@", "[@]", "@}", "[*]", "$*", "${*"].iter().any(|list| self.raw.contains(list));
        for piece in &self.pieces {
            match piece {
                WordPiece::Text(text) => {
                    shape.extend(text.chars().map(|c| if c <= marks::GLOB { '?' } else { c }))
                }
                WordPiece::Glob(_) => shape.push(marks::GLOB),
                WordPiece::Brace => shape.push(marks::BRACE),
                WordPiece::Tilde(name) => {
                    shape.push(marks::HOME);
                    shape.push_str(name);
                }
                WordPiece::Expansion { .. } => shape.push(marks::EXPANSION),
            }
            splits |= matches!(
                piece,
                WordPiece::Glob(_) | WordPiece::Brace | WordPiece::Expansion { quoted: false }
            );
        }
        super::Word::Dynamic(DynamicWord { written: self.raw.clone(), shape, splits })
    }

    /// Returns the literal text before the first expansion.
    pub(super) fn prefix(&self) -> &str {
        match self.pieces.first() {
            Some(WordPiece::Text(text)) => text,
            _ => "",
        }
    }

    /// Marks the output of its substitutions, beginning with the given one, as evaluated.
    pub(super) fn evaluate_from(&mut self, first: usize) {
        self.scripts.iter_mut().skip(first).for_each(|script| script.evaluated = true);
    }

    /// Appends the pieces and scripts of another word.
    pub(super) fn append(&mut self, other: SourceWord) {
        for piece in other.pieces {
            match piece {
                WordPiece::Text(text) => self.push_text(&text),
                piece => self.pieces.push(piece),
            }
        }
        self.scripts.extend(other.scripts);
    }

    /// Appends text. Adjacent pieces of text are merged.
    pub(super) fn push_text(&mut self, part: &str) {
        if let Some(WordPiece::Text(text)) = self.pieces.last_mut() {
            text.push_str(part);
        } else {
            self.pieces.push(WordPiece::Text(part.to_owned()));
        }
    }
}

impl ScriptNode {
    pub(super) fn from_step(step: PipelineStep) -> ScriptNode {
        ScriptNode { items: vec![AndOrList { steps: vec![step], background: false }], evaluated: false }
    }

    /// Returns whether something in it changes the working directory of its shell, or may.
    pub(super) fn moves(&self) -> bool {
        self.items.iter().flat_map(|item| &item.steps).flat_map(|step| &step.commands).any(|command| {
            match command {
                CommandNode::Simple(simple) => simple.moves(),
                CommandNode::Compound(compound) => compound.moves,
            }
        })
    }
}

impl SimpleCommand {
    fn moves(&self) -> bool {
        let first_is_open = self.words.first().is_some_and(|word| word.literal().is_none());
        first_is_open || self.words.iter().any(|word| programs::may_move(word.prefix()))
    }
}
