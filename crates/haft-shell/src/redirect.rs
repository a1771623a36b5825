//! Redirections, and here-documents, whose text follows the line that announces them.

use super::parse::{ParseResult, Parser, is_name};
use super::tree::{RedirectNode, RedirectOperator, SourceWord};

/// An announced here-document that has not been read yet.
pub(super) struct PendingDocument {
    delimiter: String,
    quoted: bool,
    tabs: bool,
    number: usize,
}

impl Parser<'_> {
    /// Parses a redirection, if one begins here.
    pub(super) fn parse_redirect(&mut self) -> ParseResult<Option<RedirectNode>> {
        let start = self.pos;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.pos += 1;
        }
        if self.pos == start && self.peek() == Some(b'{') {
            let rest = &self.src[start + 1..];
            let end = rest.find('}').unwrap_or(0);
            if is_name(&rest[..end]) && matches!(rest.as_bytes().get(end + 1), Some(b'<' | b'>')) {
                self.pos += end + 2;
            }
        }
        let numbered = self.pos > start;
        if self.at("<(") || self.at(">(") {
            self.pos = start;
            return Ok(None);
        }
        const OPS: &[(&str, RedirectOperator)] = &[
            ("&>>", RedirectOperator::Append),
            ("&>", RedirectOperator::Write),
            (">>", RedirectOperator::Append),
            (">|", RedirectOperator::Write),
            (">&", RedirectOperator::DupOut),
            (">", RedirectOperator::Write),
            ("<<<", RedirectOperator::Here),
            ("<<-", RedirectOperator::Here),
            ("<<", RedirectOperator::Here),
            ("<&", RedirectOperator::DupIn),
            ("<>", RedirectOperator::Write),
            ("<", RedirectOperator::Read),
        ];
        let found = OPS.iter().find(|(text, _)| self.at(text) && !(numbered && text.starts_with('&')));
        let Some(&(text, op)) = found else {
            self.pos = start;
            return Ok(None);
        };
        self.pos += text.len();
        self.skip_blanks();
        let target = self.parse_word()?;
        let mut document = None;
        if matches!(text, "<<" | "<<-") {
            let delimiter = target.literal().filter(|_| !target.raw.contains(['$', '`']));
            let delimiter =
                delimiter.ok_or_else(|| self.syntax_error("a plain end of a here-document"))?.to_owned();
            let number = self.documents.len();
            self.documents.push(SourceWord::default());
            let tabs = text == "<<-";
            self.pending.push(PendingDocument { delimiter, quoted: target.quoted, tabs, number });
            document = Some(number);
        }
        Ok(Some(RedirectNode { op, target, document }))
    }

    /// Reads the here-documents that the previous line announced.
    pub(super) fn parse_documents(&mut self) -> ParseResult<()> {
        for pending in std::mem::take(&mut self.pending) {
            let mut text = String::new();
            loop {
                if self.pos >= self.src.len() {
                    return Err(self.syntax_error("the end of a here-document"));
                }
                let mut line = self.take_line();
                // Unless the delimiter is quoted, continued lines are joined before they are compared.
                while !pending.quoted && line.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1 {
                    if pending.tabs || self.pos >= self.src.len() {
                        return Err(self.syntax_error("a here-document without joined lines"));
                    }
                    line.pop();
                    line.push_str(&self.take_line());
                }
                let shown = if pending.tabs { line.trim_start_matches('\t') } else { &line };
                if shown == pending.delimiter {
                    break;
                }
                text.push_str(shown);
                text.push('\n');
            }
            if pending.quoted {
                self.notes.hides |= text.contains("$(") || text.contains('`');
                self.documents[pending.number].push_text(&text);
            } else {
                let word = self.parse_inner(&text, |inner| inner.parse_document())?;
                self.documents[pending.number] = word;
            }
        }
        Ok(())
    }

    fn take_line(&mut self) -> String {
        let rest = &self.src[self.pos..];
        let end = rest.find('\n').unwrap_or(rest.len());
        self.pos = (self.pos + end + 1).min(self.src.len());
        rest[..end].to_owned()
    }
}
