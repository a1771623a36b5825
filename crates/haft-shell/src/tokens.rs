//! Words and operators of a line, also of one that can't be parsed.
//!
//! This knows no more of the grammar than where words, quotes and operators are. It serves rules and checks
//! that only find more to stop: a line that isn't understood still shows what stands in it. What is run is
//! found by [`super::analyse_command`].

use super::{parse, programs};

/// A word or an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The kind of token.
    pub kind: TokenKind,
    /// The text as written, with line continuations removed.
    pub text: String,
}

/// The kinds of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A word.
    Word,
    /// An operator between two commands, or around a group of them: `|`, `;`, `$(`.
    Separator,
    /// An operator before a file: `>`, `2>>`, `<`.
    Redirection,
}

/// Longest first, so that the first match is the one that a shell takes.
const OPERATORS: &[&str] = &[
    "&>>", "<<<", "<<-", "&&", "||", "|&", ";;", "&>", ">&", "<&", ">>", "<<", "<>", ">|", "|", ";", "&",
    ">", "<",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenNesting {
    Quotes,
    Group,
    Backticks,
}

/// The words and operators of a line. `|&` is read as `|`, and the end of a line as `;`; comments are left
/// out.
///
/// ```
/// use haft_shell::tokenize_line;
///
/// let texts: Vec<String> = tokenize_line("a 'b c'|d >f && (").into_iter().map(|token| token.text).collect();
/// assert_eq!(texts, ["a", "'b c'", "|", "d", ">", "f", "&&", "("]);
/// ```
pub fn tokenize_line(line: &str) -> Vec<Token> {
    let mut lexer = Lexer::default();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        rest = &rest[lexer.read(c, rest)..];
    }
    lexer.end_word();
    lexer.tokens
}

/// Returns whether a command begins after this word: `then`, `sudo`, `time`.
pub fn precedes_command(word: &str) -> bool {
    parse::precedes_command(word) || programs::starts_operands(word)
}

impl Token {
    /// Returns the text without quotes and escapes.
    pub fn unquoted(&self) -> String {
        let (mut text, mut quote) = (String::new(), None);
        let mut chars = self.text.chars();
        while let Some(c) = chars.next() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '"' | '\'') => quote = Some(c),
                (None | Some('"'), '\\') => text.extend(chars.next()),
                (_, c) => text.push(c),
            }
        }
        text
    }
}

#[derive(Default)]
struct Lexer {
    tokens: Vec<Token>,
    word: String,
    nesting: Vec<TokenNesting>,
}

impl Lexer {
    /// Reads the token at this position. Returns its length in bytes.
    fn read(&mut self, c: char, rest: &str) -> usize {
        let quoted = self.nesting.last() == Some(&TokenNesting::Quotes);
        match c {
            '\\' => {
                let length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                if &rest[..length] != "\\\n" {
                    self.word.push_str(&rest[..length]);
                }
                length
            }
            '"' => {
                self.word.push('"');
                self.toggle(TokenNesting::Quotes);
                1
            }
            '`' => {
                self.toggle(TokenNesting::Backticks);
                self.separator("`")
            }
            '$' if rest.starts_with("$(") => self.open(&rest[..2]),
            _ if quoted => {
                self.word.push(c);
                c.len_utf8()
            }
            '\'' => {
                let length = rest[1..].find('\'').map_or(rest.len(), |at| at + 2);
                self.word.push_str(&rest[..length]);
                length
            }
            ' ' | '\t' => self.end_word(),
            '\n' => {
                self.end_word();
                match self.tokens.last().map(|token| token.kind) {
                    Some(TokenKind::Word) => self.separator(";"),
                    _ => 1,
                }
            }
            '#' if self.word.is_empty() => rest.find('\n').unwrap_or(rest.len()),
            '<' | '>' if rest[1..].starts_with('(') => self.open(&rest[..2]),
            '(' => self.open("("),
            ')' => {
                self.nesting.pop_if(|nesting| *nesting == TokenNesting::Group);
                self.separator(")")
            }
            '|' | '&' | ';' | '<' | '>' => self.operator(rest),
            _ => {
                self.word.push(c);
                c.len_utf8()
            }
        }
    }

    fn toggle(&mut self, nesting: TokenNesting) {
        if self.nesting.pop_if(|last| *last == nesting).is_none() {
            self.nesting.push(nesting);
        }
    }

    fn open(&mut self, operator: &str) -> usize {
        self.nesting.push(TokenNesting::Group);
        self.separator(operator)
    }

    fn operator(&mut self, rest: &str) -> usize {
        let operator = OPERATORS.iter().find(|operator| rest.starts_with(**operator));
        let operator = operator.expect("each of these is an operator by itself");
        if !operator.contains(['<', '>']) {
            self.separator(if *operator == "|&" { "|" } else { operator });
        } else if self.word.bytes().all(|b| b.is_ascii_digit()) {
            // A number directly before it is the descriptor.
            let text = format!("{}{operator}", std::mem::take(&mut self.word));
            self.tokens.push(Token { kind: TokenKind::Redirection, text });
        } else {
            self.end_word();
            self.tokens.push(Token { kind: TokenKind::Redirection, text: (*operator).to_owned() });
        }
        operator.len()
    }

    fn separator(&mut self, operator: &str) -> usize {
        self.end_word();
        self.tokens.push(Token { kind: TokenKind::Separator, text: operator.to_owned() });
        operator.len()
    }

    /// Ends a word. Returns the length of the space after it.
    fn end_word(&mut self) -> usize {
        let text = std::mem::take(&mut self.word);
        if !text.is_empty() {
            self.tokens.push(Token { kind: TokenKind::Word, text });
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_form_for_all_ways_of_writing() {
        for (line, form) in [
            ("a x | b > f", "a x | b > f"),
            ("a x|b>f", "a x | b > f"),
            (" a  x\t|\\\nb >f", "a x | b > f"),
            ("a x |& b > f # c", "a x | b > f"),
            ("a x |\nb > f", "a x | b > f"),
            ("a 'x|y'  \"p  | q\" \\| z", "a 'x|y' \"p  | q\" \\| z"),
            ("a 2>&1 >>f", "a 2>& 1 >> f"),
            ("a\nb\n\nc", "a ; b ; c"),
            ("a&&b||c;d&", "a && b || c ; d &"),
            ("é|ü", "é | ü"),
            ("a \\", "a \\"),
            ("a 'open", "a 'open"),
            ("", ""),
        ] {
            let texts: Vec<String> = tokenize_line(line).into_iter().map(|token| token.text).collect();
            assert_eq!(texts.join(" "), form, "{line:?}");
        }
    }

    #[test]
    fn quotes_and_escapes_are_removed() {
        for (line, word) in [("a\\ 'b c'\"d\\\"e\"", "a b cd\"e"), ("'a\\b'", "a\\b"), ("'open", "open")] {
            assert_eq!(tokenize_line(line)[0].unquoted(), word, "{line:?}");
        }
    }
}
