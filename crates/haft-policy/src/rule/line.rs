//! Command lines for rules that speak of more than one command: `Bash(curl * | sh)` in `deny` and `ask`.
//!
//! Such a rule is text, and the same line can be written in many ways: without blanks around an operator, on two lines,
//! behind another command, in a group. So the line and the rule are brought into one form, one blank between any two
//! words or operators, and the rule is held against every stretch of the line from the beginning of a command to the end
//! of one.
//!
//! This isn't the grammar of a shell and knows no more of it than where words, quotes and operators are: it only finds
//! more to stop, never anything to let through. What single commands are is read elsewhere, with the whole grammar.

/// How many beginnings, and how many ends, of stretches are looked at; a line with more commands isn't understood anyway.
const STRETCH_ENDS_MAX: usize = 256;

/// Longest first, so that the first that fits is the one that a shell takes.
const OPERATORS: &[&str] = &[
    "&>>", "<<<", "<<-", "&&", "||", "|&", ";;", "&>", ">&", "<&", ">>", "<<", "<>", ">|", "|", ";", "&",
    ">", "<",
];

/// Words after which a command begins, if they begin one themselves.
const BEFORE_COMMANDS: &[&str] = &[
    "!", "builtin", "command", "do", "elif", "else", "env", "exec", "if", "nohup", "sudo", "then", "time",
    "until", "while", "{",
];

/// A line in its one form.
#[derive(Debug, Default)]
pub(super) struct Line {
    text: String,
    /// Where commands begin.
    starts: Vec<usize>,
    /// Where commands, or what stands before a redirection, end.
    ends: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Word,
    /// Between two commands, or around a group of them.
    Between,
    Redirection,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Quotes,
    Group,
    Ticks,
}

impl Line {
    pub(super) fn new(text: &str) -> Line {
        let mut reader = Reader { line: Line::default(), word: String::new(), last: None, begins: true };
        reader.read(text);
        reader.end();
        reader.line
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

struct Reader {
    line: Line,
    word: String,
    last: Option<Token>,
    /// The next word is the first of a command.
    begins: bool,
}

impl Reader {
    fn read(&mut self, text: &str) {
        let mut within: Vec<Within> = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let quoted = within.last() == Some(&Within::Quotes);
            let mut length = c.len_utf8();
            match c {
                '\\' => {
                    length += rest[1..].chars().next().map_or(0, char::len_utf8);
                    if &rest[..length] != "\\\n" {
                        self.word.push_str(&rest[..length]);
                    }
                }
                '"' => {
                    self.word.push('"');
                    if quoted {
                        within.pop();
                    } else {
                        within.push(Within::Quotes);
                    }
                }
                '`' => {
                    let closes = within.last() == Some(&Within::Ticks);
                    if closes {
                        within.pop();
                    } else {
                        within.push(Within::Ticks);
                    }
                    self.operator("`", Token::Between);
                }
                '$' if rest.starts_with("$(") => {
                    length = 2;
                    within.push(Within::Group);
                    self.operator("$(", Token::Between);
                }
                _ if quoted => self.word.push(c),
                '\'' => {
                    length = rest[1..].find('\'').map_or(rest.len(), |at| at + 2);
                    self.word.push_str(&rest[..length]);
                }
                ' ' | '\t' => self.end_word(),
                '\n' => {
                    self.end_word();
                    if self.last == Some(Token::Word) {
                        self.operator(";", Token::Between);
                    }
                }
                '#' if self.word.is_empty() => length = rest.find('\n').unwrap_or(rest.len()),
                '<' | '>' if rest[1..].starts_with('(') => {
                    length = 2;
                    within.push(Within::Group);
                    self.operator(&rest[..length], Token::Between);
                }
                '(' => {
                    within.push(Within::Group);
                    self.operator("(", Token::Between);
                }
                ')' => {
                    if within.last() == Some(&Within::Group) {
                        within.pop();
                    }
                    self.operator(")", Token::Between);
                }
                '|' | '&' | ';' | '<' | '>' => {
                    let operator = OPERATORS.iter().find(|operator| rest.starts_with(**operator));
                    let operator = operator.expect("each of these is an operator by itself");
                    length = operator.len();
                    match *operator {
                        "|&" => self.operator("|", Token::Between),
                        _ if operator.contains(['<', '>']) => {
                            // A number just before it is which descriptor is meant.
                            let number = self.word.bytes().all(|b| b.is_ascii_digit());
                            let number = if number { std::mem::take(&mut self.word) } else { String::new() };
                            self.operator(&format!("{number}{operator}"), Token::Redirection);
                        }
                        _ => self.operator(operator, Token::Between),
                    }
                }
                _ => self.word.push(c),
            }
            rest = &rest[length..];
        }
    }

    fn put(&mut self, token: &str) -> usize {
        if !self.line.text.is_empty() {
            self.line.text.push(' ');
        }
        let at = self.line.text.len();
        self.line.text.push_str(token);
        at
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        if word.is_empty() {
            return;
        }
        let at = self.put(&word);
        self.last = Some(Token::Word);
        if !std::mem::replace(&mut self.begins, false) {
            return;
        }
        self.line.starts.push(at);
        if let Some(slash) = word.rfind('/').filter(|slash| slash + 1 < word.len()) {
            self.line.starts.push(at + slash + 1);
        }
        let name = word.split_once('=').map(|(name, _)| name).filter(|name| !name.is_empty());
        let assigns = name.is_some_and(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
        self.begins = assigns || BEFORE_COMMANDS.contains(&&*word);
    }

    fn operator(&mut self, operator: &str, token: Token) {
        self.end_word();
        self.end();
        self.put(operator);
        self.last = Some(token);
        self.begins = token == Token::Between;
    }

    /// What was read so far may be the end of a stretch.
    fn end(&mut self) {
        self.end_word();
        if self.last == Some(Token::Word) {
            self.line.ends.push(self.line.text.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretches(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        Line::new(text).each_stretch(|_| true, |stretch| found.push(stretch.to_owned()));
        found
    }

    #[test]
    fn one_form_for_all_ways_of_writing() {
        let form = "a x | b > f";
        for text in ["a x | b > f", "a x|b>f", " a  x\t|\\\nb >f", "a x |& b > f # c", "a x |\nb > f"] {
            assert_eq!(Line::new(text).text(), form, "{text:?}");
        }
        for (text, form) in [
            ("a 'x|y'  \"p  | q\" \\| z", "a 'x|y' \"p  | q\" \\| z"),
            ("a 2>&1 >>f", "a 2>& 1 >> f"),
            ("a\nb\n\nc", "a ; b ; c"),
            ("a&&b||c;d&", "a && b || c ; d &"),
            ("é|ü", "é | ü"),
            ("a \\", "a \\"),
            ("a 'open", "a 'open"),
            ("", ""),
        ] {
            assert_eq!(Line::new(text).text(), form, "{text:?}");
        }
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
        ] {
            assert!(stretches(line).iter().any(|found| found == stretch), "{line}: {:?}", stretches(line));
        }
        // Text is text.
        for line in ["echo 'b x | c'", "echo \"b x | c\"", "echo b x | c", "b x \\| c"] {
            assert!(!stretches(line).iter().any(|found| found == "b x | c"), "{line}");
        }
    }
}
