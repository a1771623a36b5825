//! Markdown as it is written: words, gaps between them, marks around them, what each line begins with, and
//! tables.
//!
//! Nothing is written before there is something to say: gaps, marks and the beginnings of lines wait for the
//! next word, so an empty paragraph, item, link or emphasis leaves no trace. The writer knows no HTML.

/// How many columns a table may have; further cells of a row are left out.
const COLUMNS_MAX: usize = 100;

/// How many beginnings a line may have.
const PREFIXES_MAX: usize = 32;

/// What stands between the last word and the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum WordGap {
    #[default]
    Nothing,
    Space,
    Line,
    Block,
}

/// Code that is written as it stands.
#[derive(Debug, Default)]
pub(super) struct CodeLiteral {
    pub(super) text: String,
    pub(super) language: Option<String>,
    is_block: bool,
}

impl CodeLiteral {
    pub(super) fn inline() -> CodeLiteral {
        CodeLiteral::default()
    }

    pub(super) fn block() -> CodeLiteral {
        CodeLiteral { is_block: true, ..CodeLiteral::default() }
    }
}

/// What lines begin with.
#[derive(Debug)]
struct LinePrefix {
    /// The first line, until it was written.
    first: Option<String>,
    /// Every further one.
    rest: String,
    /// There is no further one: breaks are spaces.
    single: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MarkState {
    Waiting,
    Written,
    Dropped,
}

#[derive(Debug)]
struct MarkdownMark {
    text: &'static str,
    state: MarkState,
}

/// A text of its own: the page, or a cell.
#[derive(Debug, Default)]
struct WriterFrame {
    out: String,
    gap: WordGap,
    prefixes: Vec<LinePrefix>,
    marks: Vec<MarkdownMark>,
    /// How many marks wait.
    waiting: usize,
    /// How many links were begun and not ended.
    links: usize,
}

#[derive(Debug, Default)]
struct MarkdownTable {
    caption: String,
    rows: Vec<Vec<String>>,
    has_blocks: bool,
}

#[derive(Debug, Default)]
pub(super) struct MarkdownWriter {
    frame: WriterFrame,
    /// Those around it, innermost last.
    outer: Vec<WriterFrame>,
    tables: Vec<MarkdownTable>,
}

impl WriterFrame {
    /// Gets ready for a word. `apart` says that it has to stand on a line of its own.
    fn begin(&mut self, apart: bool) {
        let single = self.prefixes.iter().any(|prefix| prefix.first.is_none() && prefix.single);
        let gap = match std::mem::take(&mut self.gap) {
            gap if apart => gap.max(WordGap::Line),
            WordGap::Line | WordGap::Block if single || self.links > 0 => WordGap::Space,
            gap => gap,
        };
        let starts = self.out.is_empty() || gap >= WordGap::Line;
        if !self.out.is_empty() {
            match gap {
                WordGap::Nothing => {}
                WordGap::Space => self.out.push(' '),
                WordGap::Line => self.out.push('\n'),
                WordGap::Block => {
                    self.out.push('\n');
                    let begun = self.prefixes.iter().take_while(|prefix| prefix.first.is_none());
                    begun.for_each(|prefix| self.out.push_str(&prefix.rest));
                    self.out.truncate(self.out.trim_end_matches(' ').len());
                    self.out.push('\n');
                }
            }
        }
        if starts {
            for prefix in &mut self.prefixes {
                match prefix.first.take() {
                    Some(first) => self.out.push_str(&first),
                    None => self.out.push_str(&prefix.rest),
                }
            }
        }
        if self.waiting > 0 {
            for mark in self.marks.iter_mut().filter(|mark| mark.state == MarkState::Waiting) {
                mark.state = if apart { MarkState::Dropped } else { MarkState::Written };
                if !apart {
                    self.out.push_str(mark.text);
                    self.links += usize::from(mark.text == "[");
                }
            }
            self.waiting = 0;
        }
    }

    fn next_line(&mut self) {
        self.out.push('\n');
        self.prefixes.iter().for_each(|prefix| self.out.push_str(&prefix.rest));
    }

    fn text(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut at = 0;
        loop {
            let start = at;
            while let Some(length) = space_len(bytes, at) {
                at += length;
            }
            if at > start {
                self.gap = self.gap.max(WordGap::Space);
            }
            if at == bytes.len() {
                return;
            }
            let start = at;
            // Single spaces are copied with the words around them.
            while at < bytes.len() {
                match space_len(bytes, at) {
                    None => at += 1,
                    Some(_)
                        if bytes[at] == b' '
                            && at + 1 < bytes.len()
                            && space_len(bytes, at + 1).is_none() =>
                    {
                        at += 1
                    }
                    Some(_) => break,
                }
            }
            self.begin(false);
            self.out.push_str(&text[start..at]);
        }
    }
}

/// How long the space is that stands here, if one does.
fn space_len(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b' ' | b'\n' | b'\t' | b'\r' | b'\x0c' => Some(1),
        0xc2 if bytes.get(at + 1) == Some(&0xa0) => Some(2),
        _ => None,
    }
}

impl MarkdownWriter {
    /// Words; runs of space are one.
    pub(super) fn text(&mut self, text: &str) {
        self.frame.text(text);
    }

    /// Something that is not looked into.
    pub(super) fn word(&mut self, word: &str) {
        self.frame.begin(false);
        self.frame.out.push_str(word);
    }

    /// What follows stands in a paragraph of its own.
    pub(super) fn block(&mut self) {
        let waits = self.frame.prefixes.last().is_some_and(|prefix| prefix.first.is_some());
        self.frame.gap = self.frame.gap.max(if waits { WordGap::Line } else { WordGap::Block });
    }

    /// What follows stands on a line of its own.
    pub(super) fn newline(&mut self) {
        self.frame.gap = self.frame.gap.max(WordGap::Line);
    }

    /// A break; two of them are a paragraph.
    pub(super) fn line(&mut self) {
        let gap = self.frame.gap;
        self.frame.gap = if gap >= WordGap::Line { WordGap::Block } else { WordGap::Line };
    }

    pub(super) fn rule(&mut self) {
        if self.frame.out.is_empty() || self.frame.links > 0 {
            return self.block();
        }
        self.block();
        self.word("---");
        self.block();
    }

    /// Lines from here on begin like this.
    pub(super) fn begin_line(&mut self, first: &str, rest: &str) {
        // Deeper than that, lines would be longer than what stands on them.
        let (first, rest) = if self.frame.prefixes.len() < PREFIXES_MAX { (first, rest) } else { ("", "") };
        let single = first.starts_with('#');
        self.frame.prefixes.push(LinePrefix { first: Some(first.to_owned()), rest: rest.to_owned(), single });
    }

    /// Lines from here on begin as they did before.
    pub(super) fn end_line(&mut self) {
        self.frame.prefixes.pop();
    }

    /// A mark before the next word.
    pub(super) fn mark(&mut self, text: &'static str) {
        self.frame.marks.push(MarkdownMark { text, state: MarkState::Waiting });
        self.frame.waiting += 1;
    }

    /// The mark that ends it.
    pub(super) fn unmark(&mut self, text: &str) {
        if self.pop_mark() {
            self.frame.out.push_str(text);
        }
    }

    /// Takes the last mark away; whether there is one to end.
    fn pop_mark(&mut self) -> bool {
        let Some(mark) = self.frame.marks.pop() else { return false };
        self.frame.waiting -= usize::from(mark.state == MarkState::Waiting);
        mark.state == MarkState::Written
    }

    pub(super) fn end_link(&mut self, href: &str) {
        if self.pop_mark() {
            self.frame.links -= 1;
            self.frame.out.push_str("](");
            self.frame.out.push_str(href);
            self.frame.out.push(')');
        }
    }

    pub(super) fn literal(&mut self, literal: &CodeLiteral) {
        let text = &literal.text;
        let runs = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        if !literal.is_block {
            let words: Vec<&str> = text.split_whitespace().collect();
            if words.is_empty() {
                return self.text(text);
            }
            let fence = "`".repeat(if runs == 0 { 1 } else { runs + 1 });
            let space = if text.trim().starts_with('`') || text.trim().ends_with('`') { " " } else { "" };
            if text.starts_with(char::is_whitespace) {
                self.text(" ");
            }
            self.word(&format!("{fence}{space}{}{space}{fence}", words.join(" ")));
            if text.ends_with(char::is_whitespace) {
                self.text(" ");
            }
            return;
        }
        // The break after the tag is not part of it.
        let text = text.strip_prefix('\n').unwrap_or(text).trim_end();
        if text.trim().is_empty() {
            return;
        }
        self.block();
        self.frame.begin(true);
        let fence = "`".repeat(runs.max(2) + 1);
        self.frame.out.push_str(&fence);
        self.frame.out.push_str(literal.language.as_deref().unwrap_or_default());
        for line in text.lines() {
            self.frame.next_line();
            self.frame.out.push_str(line);
        }
        self.frame.next_line();
        self.frame.out.push_str(&fence);
        self.block();
    }

    pub(super) fn begin_table(&mut self) {
        self.block();
        if let Some(around) = self.tables.last_mut() {
            around.has_blocks = true;
        }
        self.tables.push(MarkdownTable::default());
    }

    pub(super) fn row(&mut self) {
        if let Some(table) = self.tables.last_mut() {
            table.rows.push(Vec::new());
        }
    }

    pub(super) fn begin_cell(&mut self) {
        self.outer.push(std::mem::take(&mut self.frame));
    }

    fn cell(&mut self) -> String {
        let outer = self.outer.pop().unwrap_or_default();
        std::mem::replace(&mut self.frame, outer).out
    }

    pub(super) fn end_cell(&mut self) {
        let cell = self.cell();
        let Some(table) = self.tables.last_mut() else { return };
        table.has_blocks |= cell.contains("\n\n") || cell.contains("```");
        if table.rows.is_empty() {
            table.rows.push(Vec::new());
        }
        if let Some(row) = table.rows.last_mut().filter(|row| row.len() < COLUMNS_MAX) {
            row.push(cell);
        }
    }

    pub(super) fn end_caption(&mut self) {
        let caption = self.cell();
        if let Some(table) = self.tables.last_mut() {
            table.caption = caption;
        }
    }

    pub(super) fn end_table(&mut self) {
        let Some(MarkdownTable { caption, rows, has_blocks }) = self.tables.pop() else { return };
        self.block();
        if !caption.is_empty() {
            self.lines(&caption);
        }
        let full = |row: &&Vec<String>| row.iter().any(|cell| !cell.is_empty());
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        if has_blocks || columns < 2 {
            // Made for the layout: what is in it, one after the other.
            rows.iter().flatten().filter(|cell| !cell.is_empty()).for_each(|cell| self.lines(cell));
            return;
        }
        let mut rows = rows.iter().filter(full);
        let Some(head) = rows.next() else { return };
        self.frame.begin(true);
        self.columns(head, columns);
        self.frame.next_line();
        (0..columns).for_each(|_| self.frame.out.push_str("| --- "));
        self.frame.out.push('|');
        for row in rows {
            self.frame.next_line();
            self.columns(row, columns);
        }
        self.block();
    }

    fn columns(&mut self, row: &[String], columns: usize) {
        let out = &mut self.frame.out;
        for at in 0..columns {
            out.push_str("| ");
            for c in row.get(at).map(String::as_str).unwrap_or_default().chars() {
                match c {
                    '|' => out.push_str("\\|"),
                    '\n' => out.push(' '),
                    c => out.push(c),
                }
            }
            out.push(' ');
        }
        out.push('|');
    }

    /// Lines that were made already.
    fn lines(&mut self, text: &str) {
        self.block();
        self.frame.begin(true);
        for (at, line) in text.lines().enumerate() {
            if at > 0 {
                self.frame.next_line();
            }
            self.frame.out.push_str(line);
        }
        self.block();
    }

    /// How much was written of the page itself.
    pub(super) fn place(&self) -> usize {
        self.outer.first().unwrap_or(&self.frame).out.len()
    }

    /// Whether what is written now is the page itself.
    pub(super) fn is_at_the_root(&self) -> bool {
        self.outer.is_empty()
    }

    pub(super) fn finish(mut self) -> String {
        while !self.outer.is_empty() {
            self.end_cell();
        }
        while !self.tables.is_empty() {
            self.end_table();
        }
        self.frame.out
    }
}
