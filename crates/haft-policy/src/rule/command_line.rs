//! Command lines for rules that speak of more than one command: `Bash(curl * | sh)` in `deny` and `ask`.
//!
//! Such a rule is text, and the same line can be written in many ways: without blanks around an operator, on two lines,
//! behind another command, in a group. So the line and the rule are brought into one form, one blank between any two
//! tokens, and the rule is held against every stretch of the line from the beginning of a command to the end of one.
//!
//! The tokens are found without the grammar of a shell, so that a line that can't be parsed is denied as well: this only
//! finds more to stop, never anything to let through.

use haft_shell::{Token, TokenKind, precedes_command, tokenize_line};

/// How many beginnings, and how many ends, of stretches are looked at; a line with more commands isn't understood anyway.
const STRETCH_ENDS_MAX: usize = 256;

/// A line in its one form.
#[derive(Debug, Default)]
pub(super) struct NormalizedLine {
    text: String,
    /// Where commands begin.
    starts: Vec<usize>,
    /// Where commands, or what stands before a redirection, end.
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

    /// A command begins at a word: as written, and without its folder.
    fn begin(&mut self, at: usize, token: &Token) {
        self.starts.push(at);
        if let Some(slash) = token.text.rfind('/').filter(|slash| slash + 1 < token.text.len()) {
            self.starts.push(at + slash + 1);
        }
    }

    /// The whole of it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Hands over every stretch from the beginning of a command to the end of one, if anything `begins` like what is left
    /// there. The first command always counts: what begins with a wildcard and fits a later stretch fits one from here.
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

/// Whether a word sets a variable for the command behind it.
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
        // Text is text.
        for line in ["echo 'b x | c'", "echo \"b x | c\"", "echo b x | c", "b x \\| c"] {
            assert!(!stretches(line).iter().any(|found| found == "b x | c"), "{line}");
        }
    }
}
