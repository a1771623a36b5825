//! Words: quotes, escapes and expansions.
//!
//! A word is parsed into pieces, so that later steps can tell its known parts from the unknown ones.
//! Substitutions are parsed immediately, with the same limits. Quoted text that would be a substitution if
//! it were evaluated is recorded, because some constructs evaluate it.

use super::parse::{ParseResult, Parser, is_invisible, is_meta, is_name};
use super::tree::{SourceWord, WordPiece};

impl Parser<'_> {
    /// Parses an ordinary word, up to a space or an operator.
    pub(super) fn parse_word(&mut self) -> ParseResult<SourceWord> {
        let word = self.parse_value()?;
        if word.raw.is_empty() { Err(self.syntax_error("a word")) } else { Ok(word) }
    }

    /// Parses the value of an assignment: `~` is expanded after `:` as well, and there are no patterns and
    /// lists.
    pub(super) fn parse_value(&mut self) -> ParseResult<SourceWord> {
        let start = self.pos;
        let mut word = SourceWord::default();
        self.parse_tilde(&mut word);
        self.parse_pieces(&mut word, false)?;
        self.src[start..self.pos].clone_into(&mut word.raw);
        Ok(word)
    }

    /// Parses the word after `=~`, in which parentheses and `|` are part of the expression.
    pub(super) fn parse_regex(&mut self) -> ParseResult<SourceWord> {
        let start = self.pos;
        let mut word = SourceWord::default();
        let mut open = 0_usize;
        loop {
            self.parse_pieces(&mut word, true)?;
            match self.peek() {
                Some(b'(') => open += 1,
                Some(b')') if open > 0 => open -= 1,
                Some(b'|') if open > 0 || !self.at("||") => {}
                Some(b' ' | b'\t' | b'\n') if open == 0 => break,
                _ => return Err(self.syntax_error("a plain regular expression")),
            }
            self.pos += 1;
        }
        self.src[start..self.pos].clone_into(&mut word.raw);
        Ok(word)
    }

    fn parse_tilde(&mut self, word: &mut SourceWord) {
        if self.peek() == Some(b'~') {
            let rest = &self.src[self.pos + 1..];
            let end = rest.bytes().position(|b| {
                is_meta(b)
                    || matches!(
                        b,
                        b'/' | b':' | b'"' | b'\'' | b'\\' | b'$' | b'`' | b'*' | b'?' | b'[' | b'{'
                    )
            });
            let name = &rest[..end.unwrap_or(rest.len())];
            word.pieces.push(WordPiece::Tilde(name.to_owned()));
            self.pos += 1 + name.len();
        }
    }

    fn parse_pieces(&mut self, word: &mut SourceWord, regex: bool) -> ParseResult<()> {
        let mut brace = false;
        loop {
            let Some(b) = self.peek() else { return Ok(()) };
            match b {
                b'\\' => {
                    self.pos += 1;
                    match self.src[self.pos..].chars().next() {
                        None => return Err(self.syntax_error("a character after `\\`")),
                        Some('\n') => self.pos += 1,
                        Some(c) => {
                            self.pos += c.len_utf8();
                            word.push_text(c.encode_utf8(&mut [0; 4]));
                            word.quoted = true;
                        }
                    }
                }
                b'\'' => {
                    self.pos += 1;
                    let rest = &self.src[self.pos..];
                    let end = rest.find('\'').ok_or_else(|| self.syntax_error("a closing `'`"))?;
                    let text = &rest[..end];
                    self.notes.hides |= text.contains("$(") || text.contains('`');
                    word.push_text(text);
                    word.quoted = true;
                    self.pos += end + 1;
                }
                b'"' => {
                    self.pos += 1;
                    self.parse_double_quotes(word)?;
                }
                b'$' => self.parse_dollar(word, false)?,
                b'`' => self.parse_backtick(word, false)?,
                b'<' | b'>' if self.at("<(") || self.at(">(") => {
                    self.pos += 2;
                    let script = self.parse_substitution()?;
                    word.scripts.push(script);
                    word.pieces.push(WordPiece::Expansion { quoted: true });
                }
                _ if is_meta(b) => return Ok(()),
                b'*' | b'?' | b'[' => {
                    self.pos += 1;
                    if matches!(b, b'*' | b'?') && self.peek() == Some(b'(') && !regex {
                        return Err(self.syntax_error("no extended pattern"));
                    }
                    let lone = b == b'[' && word.pieces.is_empty() && self.peek().is_none_or(is_meta);
                    if lone {
                        word.push_text("[");
                    } else {
                        word.pieces.push(WordPiece::Glob(b as char));
                    }
                }
                // In a word that looks like an assignment bash expands it there too.
                b'~' if self.pos > 0 && matches!(self.src.as_bytes()[self.pos - 1], b'=' | b':') => {
                    self.pos += 1;
                    word.pieces.push(WordPiece::Tilde(String::new()));
                }
                b'{' => {
                    self.pos += 1;
                    word.push_text("{");
                    brace |= self.peek() != Some(b'}');
                }
                b',' if brace => {
                    self.pos += 1;
                    word.pieces.push(WordPiece::Brace);
                }
                b'.' if brace && self.at("..") => {
                    self.pos += 2;
                    word.pieces.push(WordPiece::Brace);
                }
                _ => {
                    let rest = &self.src[self.pos..];
                    let c =
                        rest.chars().next().expect("there is a byte here, and positions are at characters");
                    if is_invisible(c) {
                        return Err(super::Doubt::Character(c));
                    }
                    // A run of plain characters at once. Inside braces some characters are special.
                    let end = rest.bytes().position(|b| {
                        let plain = matches!(b, b'-' | b'_' | b'/' | b'=' | b':' | b'@' | b'+' | b'%');
                        !(b.is_ascii_alphanumeric() || plain || (!brace && matches!(b, b'.' | b',')))
                    });
                    let end = end.unwrap_or(rest.len()).max(c.len_utf8());
                    word.push_text(&rest[..end]);
                    self.pos += end;
                }
            }
        }
    }

    /// Parses text inside double quotes, after the opening one.
    fn parse_double_quotes(&mut self, word: &mut SourceWord) -> ParseResult<()> {
        word.quoted = true;
        word.push_text("");
        loop {
            let Some(b) = self.peek() else { return Err(self.syntax_error("a closing `\"`")) };
            match b {
                b'"' => {
                    self.pos += 1;
                    return Ok(());
                }
                b'\\' => self.parse_escape(word)?,
                b'$' => self.parse_dollar(word, true)?,
                b'`' => self.parse_backtick(word, true)?,
                _ => self.parse_plain(word, b"\"\\$`"),
            }
        }
    }

    /// Parses a here-document with expansions, in which double quotes are literal.
    pub(super) fn parse_document(&mut self) -> ParseResult<SourceWord> {
        let mut word = SourceWord { quoted: true, ..SourceWord::default() };
        self.in_document = true;
        while let Some(b) = self.peek() {
            match b {
                b'\\' => self.parse_escape(&mut word)?,
                b'$' => self.parse_dollar(&mut word, true)?,
                b'`' => self.parse_backtick(&mut word, true)?,
                _ => self.parse_plain(&mut word, b"\\$`"),
            }
        }
        Ok(word)
    }

    fn parse_plain(&mut self, word: &mut SourceWord, ends: &[u8]) {
        let rest = &self.src[self.pos..];
        let end = rest.bytes().position(|b| ends.contains(&b)).unwrap_or(rest.len());
        word.push_text(&rest[..end]);
        self.pos += end;
    }

    /// Parses a backslash inside double quotes.
    fn parse_escape(&mut self, word: &mut SourceWord) -> ParseResult<()> {
        self.pos += 1;
        match self.src[self.pos..].chars().next() {
            None => return Err(self.syntax_error("a character after `\\`")),
            Some('\n') => self.pos += 1,
            Some(c @ ('$' | '`' | '"' | '\\')) => {
                self.notes.hides |= c == '`' || (c == '$' && self.at("$("));
                self.pos += 1;
                word.push_text(c.encode_utf8(&mut [0; 4]));
            }
            Some(_) => word.push_text("\\"),
        }
        Ok(())
    }

    fn parse_backtick(&mut self, word: &mut SourceWord, quoted: bool) -> ParseResult<()> {
        self.pos += 1;
        let mut text = String::new();
        loop {
            let mut rest = self.src[self.pos..].chars();
            let c = rest.next().ok_or_else(|| self.syntax_error("a closing backtick"))?;
            self.pos += c.len_utf8();
            match (c, rest.next()) {
                ('`', _) => break,
                ('\\', Some(next @ ('$' | '`' | '\\'))) => {
                    text.push(next);
                    self.pos += 1;
                }
                // Shells differ on these.
                ('\\', Some('"')) if quoted => return Err(self.syntax_error("no `\\\"` between backticks")),
                ('"', _) if quoted => return Err(self.syntax_error("no quotes between quoted backticks")),
                _ => text.push(c),
            }
        }
        let script = self.parse_inner(&text, |inner| inner.parse_script(super::parse::ScriptEnd::End))?;
        word.scripts.push(script);
        word.pieces.push(WordPiece::Expansion { quoted });
        Ok(())
    }

    fn parse_dollar(&mut self, word: &mut SourceWord, quoted: bool) -> ParseResult<()> {
        self.pos += 1;
        match self.peek() {
            Some(b'\\') if self.at("\\\n") => return Err(self.syntax_error("`$` and its name on one line")),
            Some(b'(') if self.at("((") => {
                self.pos += 2;
                self.parse_arithmetic(word)?;
                word.pieces.push(WordPiece::Expansion { quoted });
            }
            Some(b'(') => {
                self.pos += 1;
                let script = self.parse_substitution()?;
                word.scripts.push(script);
                word.pieces.push(WordPiece::Expansion { quoted });
            }
            Some(b'{') if self.take("{HOME}") => word.pieces.push(expansion_piece("HOME", quoted)),
            Some(b'{') => {
                self.pos += 1;
                self.enter()?;
                self.parse_parameter(word, quoted)?;
                self.depth -= 1;
                word.pieces.push(WordPiece::Expansion { quoted });
            }
            Some(b'[') => return Err(self.syntax_error("`$((…))` instead of `$[…]`")),
            Some(b'\'') if !quoted => {
                self.pos += 1;
                self.parse_ansi_quotes(word)?;
            }
            Some(b'"') if !quoted => {
                // The text is translated before it is used, so it is unknown.
                self.pos += 1;
                self.parse_double_quotes(word)?;
                word.pieces.push(WordPiece::Expansion { quoted: true });
            }
            Some(b) if b.is_ascii_alphabetic() || b == b'_' => {
                let rest = &self.src[self.pos..];
                let end = rest.bytes().position(|b| !(b.is_ascii_alphanumeric() || b == b'_'));
                let name = &rest[..end.unwrap_or(rest.len())];
                // `$a[…]` isn't a subscript in bash, so the word ends here.
                word.pieces.push(expansion_piece(name, quoted));
                self.pos += name.len();
            }
            Some(b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!') => {
                self.pos += 1;
                word.pieces.push(WordPiece::Expansion { quoted });
            }
            _ => word.push_text("$"),
        }
        Ok(())
    }

    /// Parses `${…}`, after the brace.
    fn parse_parameter(&mut self, word: &mut SourceWord, quoted: bool) -> ParseResult<()> {
        let start = self.pos;
        if matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'|' | b'(')) {
            return Err(self.syntax_error("a parameter, not a command, in `${…}`"));
        }
        let indirect = self.peek() == Some(b'!');
        self.pos += usize::from(indirect);
        if self.peek() == Some(b'#') && !self.at("#}") {
            self.pos += 1;
        }
        let rest = &self.src[self.pos..];
        let end = rest.bytes().position(|b| !(b.is_ascii_alphanumeric() || b == b'_')).unwrap_or(rest.len());
        let name = &rest[..end];
        let named = is_name(name);
        if !named && !name.bytes().all(|b| b.is_ascii_digit()) {
            return Err(self.syntax_error("the name of a parameter"));
        }
        if name.is_empty() {
            match self.peek() {
                Some(b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!') => self.pos += 1,
                Some(b'}') if self.pos > start => {}
                _ => return Err(self.syntax_error("the name of a parameter")),
            }
        }
        let name = name.to_owned();
        if indirect {
            // The text of the variable is evaluated as a name, with its subscript.
            self.notes.evaluate(&format!("${name}"));
        }
        self.pos += end;
        if named && self.peek() == Some(b'[') {
            self.pos += 1;
            if !(self.take("@]") || self.take("*]")) {
                let subscript = self.parse_subscript()?;
                word.scripts.extend(subscript.scripts);
            }
        }
        match self.peek() {
            Some(b'}') => {
                self.pos += 1;
                return Ok(());
            }
            // `@P` expands the text as a prompt, which runs substitutions in it.
            Some(b'@') => {
                self.pos += 1;
                let harmless =
                    matches!(self.peek(), Some(b'U' | b'u' | b'L' | b'Q' | b'E' | b'a' | b'A' | b'K' | b'k'));
                self.pos += usize::from(harmless);
                if harmless && self.take("}") {
                    return Ok(());
                }
                return Err(self.syntax_error("a transformation that runs nothing"));
            }
            Some(b':')
                if !matches!(self.src.as_bytes().get(self.pos + 1), Some(b'-' | b'=' | b'?' | b'+')) =>
            {
                // A substring: offset and length are expressions.
                let (start, first) = (self.pos + 1, word.scripts.len());
                self.parse_operand(word, quoted)?;
                word.evaluate_from(first);
                let text = &self.src[start..self.pos - 1];
                if text.contains(|c: char| c.is_ascii_alphabetic() || c == '$' || c == '`') {
                    self.notes.evaluate(text);
                }
                return Ok(());
            }
            Some(b':' | b'=') => {
                let sets = self.at(":=") || self.at("=");
                if sets {
                    self.notes.sets.push(name);
                }
            }
            Some(b'-' | b'?' | b'+' | b'#' | b'%' | b'/' | b'^' | b',') => {}
            _ => return Err(self.syntax_error("an operator in `${…}`")),
        }
        self.parse_operand(word, quoted)
    }

    /// Parses the rest of `${name…}` up to its brace.
    fn parse_operand(&mut self, word: &mut SourceWord, quoted: bool) -> ParseResult<()> {
        let mut inside = SourceWord::default();
        loop {
            let Some(b) = self.peek() else { return Err(self.syntax_error("a closing `}`")) };
            match b {
                b'}' => break,
                b'\'' if quoted => return Err(self.syntax_error("no `'` in a quoted `${…}`")),
                b'\'' => {
                    self.pos += 1;
                    let rest = &self.src[self.pos..];
                    let end = rest.find('\'').ok_or_else(|| self.syntax_error("a closing `'`"))?;
                    self.notes.hides |= rest[..end].contains("$(") || rest[..end].contains('`');
                    self.pos += end + 1;
                }
                b'\\' => {
                    self.pos += 1;
                    let c = self.src[self.pos..].chars().next();
                    let c = c.ok_or_else(|| self.syntax_error("a character after `\\`"))?;
                    self.notes.hides |= c == '$' || c == '`';
                    self.pos += c.len_utf8();
                }
                b'"' if self.in_document => {
                    return Err(self.syntax_error("no quotes in `${…}` of a here-document"));
                }
                b'"' => {
                    self.pos += 1;
                    self.parse_double_quotes(&mut inside)?;
                }
                b'$' => self.parse_dollar(&mut inside, quoted)?,
                b'`' => self.parse_backtick(&mut inside, quoted)?,
                b'<' | b'>' if self.at("<(") || self.at(">(") => {
                    if quoted {
                        return Err(self.syntax_error("no `<(` in a quoted `${…}`"));
                    }
                    self.pos += 2;
                    let script = self.parse_substitution()?;
                    inside.scripts.push(script);
                }
                b'{' => return Err(self.syntax_error("no brace in `${…}`")),
                _ => {
                    let c = self.src[self.pos..].chars().next().expect("there is a byte here");
                    self.pos += c.len_utf8();
                }
            }
        }
        self.pos += 1;
        word.scripts.append(&mut inside.scripts);
        Ok(())
    }

    /// Parses the content of `[…]` after a name, including the closing bracket. Bash evaluates it.
    pub(super) fn parse_subscript(&mut self) -> ParseResult<SourceWord> {
        let (mut word, start) = (SourceWord::default(), self.pos);
        loop {
            let Some(b) = self.peek() else { return Err(self.syntax_error("`]`")) };
            match b {
                b']' => break,
                b'$' => self.parse_dollar(&mut word, true)?,
                b'`' => self.parse_backtick(&mut word, true)?,
                b'0'..=b'9' | b'+' | b'-' | b'*' | b' ' | b'/' | b'%' | b'_' | b'.' => self.pos += 1,
                b if b.is_ascii_alphabetic() => self.pos += 1,
                _ => return Err(self.syntax_error("a plain subscript")),
            }
        }
        self.note_expression(&mut word, 0, start);
        self.pos += 1;
        Ok(word)
    }

    /// Parses an expression up to `))`, after the opening.
    pub(super) fn parse_arithmetic(&mut self, word: &mut SourceWord) -> ParseResult<()> {
        self.enter()?;
        let (mut open, start, first) = (0_usize, self.pos, word.scripts.len());
        loop {
            let Some(b) = self.peek() else { return Err(self.syntax_error("`))`")) };
            match b {
                b')' if open == 0 => {
                    if !self.take("))") {
                        return Err(self.syntax_error("`))`"));
                    }
                    break;
                }
                b')' => {
                    open -= 1;
                    self.pos += 1;
                }
                b'(' => {
                    open += 1;
                    self.pos += 1;
                }
                b'$' => self.parse_dollar(word, true)?,
                b'`' => self.parse_backtick(word, true)?,
                b'"' | b'\'' | b'\\' | b'{' | b'}' => return Err(self.syntax_error("a plain expression")),
                b if b.is_ascii() => self.pos += 1,
                _ => return Err(self.syntax_error("a plain expression")),
            }
        }
        self.note_expression(word, first, start);
        self.depth -= 1;
        Ok(())
    }

    /// Records the text since `start`, and the output of the word's substitutions, as an expression.
    fn note_expression(&mut self, word: &mut SourceWord, first: usize, start: usize) {
        let text = &self.src[start..self.pos];
        word.evaluate_from(first);
        if text.contains(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '.' | '$' | '`')) {
            self.notes.evaluate(text);
        }
    }

    /// Parses `$'…'`, after the opening quote.
    fn parse_ansi_quotes(&mut self, word: &mut SourceWord) -> ParseResult<()> {
        word.quoted = true;
        word.push_text("");
        let mut text = String::new();
        loop {
            let c = self.src[self.pos..].chars().next().ok_or_else(|| self.syntax_error("a closing `'`"))?;
            self.pos += c.len_utf8();
            match c {
                '\'' => break,
                '\\' => {
                    let escaped = self.peek().ok_or_else(|| self.syntax_error("an escaped character"))?;
                    self.pos += 1;
                    match escaped {
                        b'n' => text.push('\n'),
                        b't' => text.push('\t'),
                        b'r' => text.push('\r'),
                        b'a' => text.push('\x07'),
                        b'e' | b'E' => text.push('\x1b'),
                        b'\\' | b'\'' | b'"' | b'?' => text.push(escaped as char),
                        b'x' => text.push(self.parse_number(16, 2)?),
                        b'u' => text.push(self.parse_number(16, 4)?),
                        b'U' => text.push(self.parse_number(16, 8)?),
                        b'0'..=b'7' => {
                            self.pos -= 1;
                            let c = self.parse_number(8, 3)?;
                            text.push(c);
                        }
                        _ => return Err(self.syntax_error("a known escape in `$'…'`")),
                    }
                }
                c => text.push(c),
            }
        }
        self.notes.hides |= text.contains("$(") || text.contains('`');
        word.push_text(&text);
        Ok(())
    }

    /// Parses up to `digits` digits as a character. A single byte outside ASCII is not a character, and NUL
    /// ends the text.
    fn parse_number(&mut self, radix: u32, digits: usize) -> ParseResult<char> {
        let rest = &self.src[self.pos..];
        let end = rest.bytes().take(digits).take_while(|b| (*b as char).is_digit(radix)).count();
        let value = u32::from_str_radix(&rest[..end], radix).map_err(|_| self.syntax_error("a number"))?;
        self.pos += end;
        let known = char::from_u32(value).filter(|_| value != 0 && (value < 128 || digits >= 4));
        known.ok_or_else(|| self.syntax_error("a character in `$'…'`"))
    }
}

/// Returns the piece for `$name`. `$HOME` is the same as `~`; setting it is rejected elsewhere.
fn expansion_piece(name: &str, quoted: bool) -> WordPiece {
    if name == "HOME" { WordPiece::Tilde(String::new()) } else { WordPiece::Expansion { quoted } }
}
