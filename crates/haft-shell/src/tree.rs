//! What a shell command is made of, once it is parsed: scripts, commands, words and redirections.
//!
//! The tree keeps what matters for finding commands and judging them, and nothing for running them: a loop, a
//! condition and a choice differ only in how often their bodies run. Substitutions hang at the word in which they
//! stand, so a walk over all words finds them all.

use super::{DynamicWord, marks, programs};

/// Commands one after the other.
#[derive(Debug, Default)]
pub(super) struct ScriptNode {
    pub(super) items: Vec<AndOrList>,
    /// What it prints becomes a part of an expression.
    pub(super) evaluated: bool,
}

/// Pipelines joined by `&&` and `||`, up to `;`, `&` or the end of the line.
#[derive(Debug)]
pub(super) struct AndOrList {
    pub(super) steps: Vec<PipelineStep>,
    /// Ends in `&`, so runs in a shell of its own.
    pub(super) background: bool,
}

#[derive(Debug)]
pub(super) struct PipelineStep {
    pub(super) join: StepJoin,
    /// Commands joined by `|`; each runs in a shell of its own if there are several.
    pub(super) commands: Vec<CommandNode>,
    /// Negated or timed, so that what follows says nothing about its success.
    pub(super) negated: bool,
}

/// How a step hangs on the one before it.
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

/// Assignments, words, redirections: the only thing that starts a program.
#[derive(Debug, Default)]
pub(super) struct SimpleCommand {
    pub(super) assignments: Vec<AssignmentNode>,
    pub(super) words: Vec<SourceWord>,
    pub(super) redirects: Vec<RedirectNode>,
}

/// Anything with a body.
#[derive(Debug)]
pub(super) struct CompoundCommand {
    pub(super) kind: CompoundKind,
    /// What is looped over, tested or compared.
    pub(super) words: Vec<SourceWord>,
    pub(super) bodies: Vec<ScriptNode>,
    pub(super) redirects: Vec<RedirectNode>,
    /// Whether something in it changes the directory, or may.
    pub(super) moves: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CompoundKind {
    /// `( … )` and `coproc …`.
    Subshell,
    Group,
    /// `if` and `case`: a body may run or not.
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
    /// The scalar value; none for `name=` and for arrays.
    pub(super) value: Option<SourceWord>,
    /// The elements of `name=( … )`, and words in a subscript.
    pub(super) others: Vec<SourceWord>,
    pub(super) raw: String,
}

#[derive(Debug)]
pub(super) struct RedirectNode {
    pub(super) op: RedirectOperator,
    /// The target; the delimiter for a here-document.
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

/// One word as it stands in the source.
#[derive(Debug, Default)]
pub(super) struct SourceWord {
    /// As written.
    pub(super) raw: String,
    pub(super) pieces: Vec<WordPiece>,
    /// Every script in a substitution of this word.
    pub(super) scripts: Vec<ScriptNode>,
    /// Some part is quoted, so an empty word is a word.
    pub(super) quoted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WordPiece {
    /// Stands for itself.
    Text(String),
    /// An unquoted `*`, `?` or `[`.
    Glob(char),
    /// An unquoted `{a,b}` or `{a..b}`, which makes several words.
    Brace,
    /// `~` or `~name` at the start.
    Tilde(String),
    /// `$x`, `$(…)`, `<(…)` and the like; `quoted` ones make exactly one word.
    Expansion { quoted: bool },
}

impl SourceWord {
    /// A word that stands for itself.
    pub(super) fn plain(text: &str) -> SourceWord {
        SourceWord {
            raw: text.to_owned(),
            pieces: vec![WordPiece::Text(text.to_owned())],
            ..SourceWord::default()
        }
    }

    /// The text of the word, if nothing in it is expanded.
    pub(super) fn literal(&self) -> Option<&str> {
        match &self.pieces[..] {
            [] => Some(""),
            [WordPiece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The word as a program gets it.
    pub(super) fn to_argument(&self) -> super::Word {
        if let Some(text) = self.literal() {
            return super::Word::Literal(text.to_owned());
        }
        let mut shape = String::new();
        // Lists stay lists in quotes; an address with `@` is none.
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

    /// The literal text before the first expansion.
    pub(super) fn prefix(&self) -> &str {
        match self.pieces.first() {
            Some(WordPiece::Text(text)) => text,
            _ => "",
        }
    }

    /// What its substitutions print, from the given one on, is evaluated.
    pub(super) fn evaluate_from(&mut self, first: usize) {
        self.scripts.iter_mut().skip(first).for_each(|script| script.evaluated = true);
    }

    /// Adds the pieces and scripts of another word.
    pub(super) fn append(&mut self, other: SourceWord) {
        for piece in other.pieces {
            match piece {
                WordPiece::Text(text) => self.push_text(&text),
                piece => self.pieces.push(piece),
            }
        }
        self.scripts.extend(other.scripts);
    }

    /// Adds text; two pieces of text never stand side by side.
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

    /// Whether something in it changes the directory of the shell that runs it, or may.
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
