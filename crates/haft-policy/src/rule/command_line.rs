//! Command lines for rules that match more than one command: `Bash(curl * | sh)` in `deny` and `ask`.
//!
//! Such a rule is text, and the same line can be written in many ways: without spaces around an operator,
//! on two lines, after another command, in a group. So line and rule are normalized, with one space between
//! any two tokens. The rule is compared with every stretch of the line from the beginning of a command to
//! the end of one.
//!
//! Tokens are found without a shell grammar, so a line that can't be parsed is denied as well. This can
//! only deny more, never allow more.

use haft_shell::{Token, TokenKind, precedes_command, tokenize_line};

/// The maximum number of stretch beginnings, and of ends, that are compared. A line with more commands is
/// not understood anyway.
const STRETCH_ENDS_MAX: usize = 256;

/// A normalized line.
#[derive(Debug, Default)]
pub(super) struct NormalizedLine {
    text: String,
    /// The offsets where commands begin.
    starts: Vec<usize>,
    /// The offsets where a command ends, or the part before a redirection.
    ends: Vec<usize>,
}

impl NormalizedLine {
    pub(super) fn new(text: &str) -> NormalizedLine {
        let (mut line, mut begins) = (NormalizedLine::default(), true);
        let tokens = tokenize_line(text);
        for (number, token) in tokens.iter().enumerate() {
            let at = line.push(&token.text);
            if token.kind != TokenKind::Word {
                begins = token.kind == TokenKind::Separator;
                continue;
            }
            if begins {
                line.begin(at, token);
                begins = is_assignment(&token.text) || precedes_command(&token.text);
            }
            if tokens.get(number + 1).is_none_or(|next| next.kind != TokenKind::Word) {
                line.ends.push(line.text.len());
            }
        }
        line
    }

    fn push(&mut self, token: &str) -> usize {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        let at = self.text.len();
        self.text.push_str(token);
        at
    }

    /// Records the beginning of a command, as written and with the folder of the program removed.
    fn begin(&mut self, at: usize, token: &Token) {
        self.starts.push(at);
        if let Some(slash) = token.text.rfind('/').filter(|slash| slash + 1 < token.text.len()) {
            self.starts.push(at + slash + 1);
        }
    }

    /// Returns the whole normalized line.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Calls `found` for every stretch from the beginning of a command to the end of one, where `begins`
    /// accepts the rest of the line. The first command always counts: a pattern that begins with a wildcard
    /// and matches a later stretch matches one from there.
    pub(super) fn each_stretch(&self, begins: impl Fn(&str) -> bool, mut found: impl FnMut(&str)) {
        for (at, start) in self.starts.iter().take(STRETCH_ENDS_MAX).enumerate() {
            if at > 0 && !begins(&self.text[*start..]) {
                continue;
            }
            for end in self.ends.iter().take(STRETCH_ENDS_MAX).filter(|end| *end > start) {
                found(&self.text[*start..*end]);
            }
        }
    }
}

/// Returns whether a word assigns a variable for the following command.
fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name).filter(|name| !name.is_empty());
    name.is_some_and(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretches(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        NormalizedLine::new(text).each_stretch(|_| true, |stretch| found.push(stretch.to_owned()));
        found
    }

    #[test]
    fn stretches_begin_and_end_with_commands() {
        assert_eq!(
            stretches("a; b x | c"),
            ["a", "a ; b x", "a ; b x | c", "b x", "b x | c", "c"].map(str::to_owned)
        );
        for (line, stretch) in [
            ("(b x|c)", "b x | c"),
            ("echo $(b x|c) y", "b x | c"),
            ("echo \"$(b x|c)\"", "b x | c"),
            ("echo `b x|c`", "b x | c"),
            ("{ b x|c; }", "b x | c"),
            ("if b x|c; then d; fi", "b x | c"),
            ("b x|c >f", "b x | c"),
            ("A=1 sudo /bin/b x|c", "b x | c"),
            ("b x|c&&d", "b x | c"),
            ("nice nohup b x|c; (", "b x | c"),
        ] {
            assert!(stretches(line).iter().any(|found| found == stretch), "{line}: {:?}", stretches(line));
        }
        // Quoted and escaped text contains no commands.
        for line in ["echo 'b x | c'", "echo \"b x | c\"", "echo b x | c", "b x \\| c"] {
            assert!(!stretches(line).iter().any(|found| found == "b x | c"), "{line}");
        }
    }
}
