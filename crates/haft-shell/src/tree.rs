//! What a shell command is made of, once it is parsed: scripts, commands, words and redirections.
//!
//! The tree keeps what matters for finding commands and judging them, and nothing for running them: a loop, a
//! condition and a choice differ only in how often their bodies run. Substitutions hang at the word in which they
//! stand, so whoever walks the words finds them all.

use super::{Open, marks, programs};

/// Commands one after the other.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) items: Vec<Item>,
    /// What it prints becomes a part of an expression.
    pub(super) evaluated: bool,
}

/// Pipelines joined by `&&` and `||`, up to `;`, `&` or the end of the line.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) steps: Vec<Step>,
    /// Ends in `&`, so runs in a shell of its own.
    pub(super) background: bool,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) join: Join,
    /// Commands joined by `|`; each runs in a shell of its own if there are several.
    pub(super) commands: Vec<Command>,
    /// Negated or timed, so that what follows says nothing about its success.
    pub(super) negated: bool,
}

/// How a step hangs on the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    First,
    And,
    Or,
}

#[derive(Debug)]
pub(super) enum Command {
    Simple(Simple),
    Compound(Compound),
}

/// Assignments, words, redirections: the only thing that starts a program.
#[derive(Debug, Default)]
pub(super) struct Simple {
    pub(super) assignments: Vec<Assign>,
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redir>,
}

/// Anything with a body.
#[derive(Debug)]
pub(super) struct Compound {
    pub(super) kind: Kind,
    /// What is looped over, tested or compared.
    pub(super) words: Vec<Word>,
    pub(super) bodies: Vec<Script>,
    pub(super) redirects: Vec<Redir>,
    /// Whether something in it changes the directory, or may.
    pub(super) moves: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
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
pub(super) struct Assign {
    pub(super) name: String,
    /// The scalar value; none for `name=` and for arrays.
    pub(super) value: Option<Word>,
    /// The elements of `name=( … )`, and words in a subscript.
    pub(super) others: Vec<Word>,
    pub(super) raw: String,
}

#[derive(Debug)]
pub(super) struct Redir {
    pub(super) op: Op,
    /// The target; the delimiter for a here-document.
    pub(super) target: Word,
    /// The number of the here-document.
    pub(super) document: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
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
pub(super) struct Word {
    /// As written.
    pub(super) raw: String,
    pub(super) pieces: Vec<Piece>,
    /// Every script in a substitution of this word.
    pub(super) scripts: Vec<Script>,
    /// Some part is quoted, so an empty word is a word.
    pub(super) quoted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
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

impl Word {
    /// A word that stands for itself.
    pub(super) fn plain(text: &str) -> Word {
        Word { raw: text.to_owned(), pieces: vec![Piece::Text(text.to_owned())], ..Word::default() }
    }

    /// The text of the word, if nothing in it is expanded.
    pub(super) fn literal(&self) -> Option<String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(part) => text.push_str(part),
                _ => return None,
            }
        }
        Some(text)
    }

    /// The word as a program gets it.
    pub(super) fn to_argument(&self) -> super::Word {
        if let Some(text) = self.literal() {
            return super::Word::Literal(text);
        }
        let mut shape = String::new();
        // Lists stay lists in quotes; an address with `@` is none.
        let mut splits =
            ["$@", "${@", "[@]", "@}", "[*]", "$*", "${*"].iter().any(|list| self.raw.contains(list));
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => {
                    shape.extend(text.chars().map(|c| if c <= marks::GLOB { '?' } else { c }))
                }
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
        super::Word::Dynamic(Open { written: self.raw.clone(), shape, splits })
    }

    /// The literal text before the first expansion.
    pub(super) fn prefix(&self) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(part) => text.push_str(part),
                _ => break,
            }
        }
        text
    }

    /// What its substitutions print, from the given one on, is evaluated.
    pub(super) fn evaluate_from(&mut self, first: usize) {
        self.scripts.iter_mut().skip(first).for_each(|script| script.evaluated = true);
    }

    pub(super) fn push_text(&mut self, part: &str) {
        if let Some(Piece::Text(text)) = self.pieces.last_mut() {
            text.push_str(part);
        } else {
            self.pieces.push(Piece::Text(part.to_owned()));
        }
    }
}

impl Script {
    pub(super) fn from_step(step: Step) -> Script {
        Script { items: vec![Item { steps: vec![step], background: false }], evaluated: false }
    }

    /// Whether something in it changes the directory of the shell that runs it, or may.
    pub(super) fn moves(&self) -> bool {
        self.items.iter().flat_map(|item| &item.steps).flat_map(|step| &step.commands).any(|command| {
            match command {
                Command::Simple(simple) => simple.moves(),
                Command::Compound(compound) => compound.moves,
            }
        })
    }
}

impl Simple {
    fn moves(&self) -> bool {
        let first_is_open = self.words.first().is_some_and(|word| word.literal().is_none());
        first_is_open || self.words.iter().any(|word| programs::may_move(&word.prefix()))
    }
}
