//! A page as Markdown: what is worth reading of it.
//!
//! One pass over the tokens, straight into text. What surrounds the content (navigation, banners, footers, what isn't shown)
//! is left out, and where the page says what its content is (`main`, a single `article`), only that is kept; if too little
//! would be left, the page is read again with everything. Headings, lists, tables, code, links and emphasis stay.
//!
//! Text is not escaped: the reader is a model, and a stray `*` costs it less than a backslash in every name. What can't be seen
//! on the page is not told either, since nobody who looks at it could know of it: what an attribute or the page's own styles
//! hide, on any element but the whole page.

mod entities;
mod hidden;
mod style;
mod tokens;
mod writer;

use haft::text::{single_line, truncate_chars};
use url::Url;

use self::hidden::{Around, Extent, Skipped};
use self::style::Sheet;
use self::tokens::{Name, Tag, Token, Tokens};
use self::writer::{Literal, Writer};

/// How deep elements may lie in each other; those below are read as if they were not there.
const DEPTH_MAX: usize = 200;
/// How deep tables may lie in each other; those below are read as text.
const TABLES_MAX: usize = 4;
/// The longest address of a link, in bytes; a longer one is left out.
const LINK_BYTES_MAX: usize = 2_000;
/// What counts as content, in bytes.
const CONTENT_BYTES_MIN: usize = 200;
/// Languages that code is marked with by their name alone.
const LANGUAGES: [&str; 14] = [
    "bash",
    "c",
    "cpp",
    "css",
    "go",
    "html",
    "java",
    "javascript",
    "json",
    "python",
    "ruby",
    "rust",
    "sql",
    "typescript",
];
/// The longest title, in characters.
const TITLE_CHARS_MAX: usize = 300;

/// A page that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// What it calls itself.
    pub title: Option<String>,
    /// Its content.
    pub markdown: String,
}

/// Reads a page. Links are made whole from `base`, where there is one.
///
/// ```
/// let page = haft_tools::web::html::read("<title>T</title><nav>x</nav><h1>A</h1><p>b <b>c</b>", None);
/// assert_eq!(page.title.as_deref(), Some("T"));
/// assert_eq!(page.markdown, "# A\n\nb **c**");
/// ```
pub fn read(html: &str, base: Option<&Url>) -> Page {
    let sheet = &mut Sheet::of(html);
    let page = Reader::new(base, Surroundings::LeftOut, sheet).page(html);
    if page.markdown.len() >= CONTENT_BYTES_MIN {
        return page;
    }
    let whole = Reader::new(base, Surroundings::Kept, sheet).page(html);
    if whole.markdown.len() > 2 * page.markdown.len() + CONTENT_BYTES_MIN { whole } else { page }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Surroundings {
    LeftOut,
    Kept,
}

/// An element that has to be closed.
#[derive(Debug)]
enum Open {
    Strong,
    Em,
    Struck,
    Heading,
    Link { href: String },
    Item,
    List { number: Option<u64> },
    Quote,
    Literal,
    Table,
    Row,
    Cell,
    Caption,
    Main { start: usize },
    Article { start: usize },
}

struct Reader<'b> {
    base: Option<std::borrow::Cow<'b, Url>>,
    surroundings: Surroundings,
    sheet: &'b mut Sheet,
    open: Vec<(Name, Open)>,
    around: Around,
    /// An element that is passed over.
    skipped: Option<Skipped<'b>>,
    in_head: bool,
    in_title: bool,
    title: Option<String>,
    out: Writer,
    main: Option<(usize, usize)>,
    articles: Vec<(usize, usize)>,
    /// Code that is being read.
    literal: Option<Literal>,
}

impl<'b> Reader<'b> {
    fn new(base: Option<&'b Url>, surroundings: Surroundings, sheet: &'b mut Sheet) -> Reader<'b> {
        Reader {
            base: base.map(std::borrow::Cow::Borrowed),
            surroundings,
            sheet,
            open: Vec::new(),
            around: Around::default(),
            skipped: None,
            in_head: false,
            in_title: false,
            title: None,
            out: Writer::default(),
            main: None,
            articles: Vec::new(),
            literal: None,
        }
    }

    fn page(mut self, html: &'b str) -> Page {
        for token in Tokens::of(html) {
            match token {
                Token::Text(text) => self.text(text),
                Token::Raw(text) => self.raw(text),
                Token::Open(tag) => self.opened(&tag),
                Token::Close(name, text) => self.end_tag(name, text),
            }
        }
        while let Some((_, open)) = self.open.pop() {
            self.leave(open);
        }
        let Reader { title, out, main, articles, surroundings, .. } = self;
        let whole = out.finish();
        let part = |range: &(usize, usize)| whole.get(range.0..range.1).unwrap_or_default().trim();
        let content = match (surroundings, &main, articles.as_slice()) {
            (Surroundings::LeftOut, Some(main), _) if part(main).len() >= CONTENT_BYTES_MIN => part(main),
            (Surroundings::LeftOut, None, [article]) if part(article).len() >= CONTENT_BYTES_MIN => {
                part(article)
            }
            _ => whole.trim(),
        };
        Page { title, markdown: content.to_owned() }
    }

    fn text(&mut self, text: &str) {
        if self.skipped.is_some() || self.in_head && text.trim().is_empty() {
            return;
        }
        self.in_head = false;
        let text = entities::decoded(text);
        match &mut self.literal {
            Some(literal) => literal.text.push_str(&text),
            None => self.out.text(&text),
        }
    }

    fn raw(&mut self, text: &str) {
        if self.in_title && self.title.is_none() {
            let text = entities::decoded(text);
            let title = truncate_chars(&single_line(&text), TITLE_CHARS_MAX).to_owned();
            self.title = Some(title).filter(|title| !title.is_empty());
        }
    }

    fn opened(&mut self, tag: &Tag<'b>) {
        use Name::*;
        let name = tag.name;
        if let Some(skipped) = &mut self.skipped {
            match skipped.opened(tag) {
                Extent::GoesOn => return,
                Extent::Ends | Extent::Ended => self.end_skipped(),
            }
        }
        if self.is_skipped(tag) {
            if !name.is_void() {
                self.skipped = Some(Skipped::new(tag));
            }
            return;
        }
        self.around.opened(name);
        if let Some(literal) = &mut self.literal {
            match name {
                Br => literal.text.push('\n'),
                Code | Samp if literal.language.is_none() => literal.language = language(tag),
                Pre => {
                    self.close_literal();
                    self.opened(tag);
                }
                _ => {}
            }
            return;
        }
        match name {
            Title => self.in_title = self.title.is_none(),
            Head => self.in_head = true,
            Base => {
                let href = tag.attribute("href").map(entities::decoded);
                let base = href.and_then(|href| match &self.base {
                    Some(base) => base.join(&href).ok(),
                    None => Url::parse(&href).ok(),
                });
                self.base = base.map(std::borrow::Cow::Owned).or(self.base.take());
            }
            Body => self.in_head = false,
            Br => self.out.line(),
            Hr => self.out.rule(),
            Img => self.image(tag),
            H1 | H2 | H3 | H4 | H5 | H6 => {
                self.close_heading();
                let level = match name {
                    H1 => "# ",
                    H2 => "## ",
                    H3 => "### ",
                    H4 => "#### ",
                    H5 => "##### ",
                    _ => "###### ",
                };
                self.out.block();
                self.out.begin_line(level, "");
                self.enter(name, Open::Heading);
            }
            A => {
                self.closed(A);
                if let Some(href) = tag.attribute("href").and_then(|href| self.link(href)) {
                    self.out.mark("[");
                    self.enter(A, Open::Link { href });
                }
            }
            B | Strong => self.marked(name, "**", Open::Strong),
            I | Em => self.marked(name, "*", Open::Em),
            S | Strike | Del => self.marked(name, "~~", Open::Struck),
            Q => self.out.text("\""),
            Code | Kbd | Samp | Tt => {
                self.literal = Some(Literal::inline());
                self.enter(name, Open::Literal);
            }
            Pre | Xmp => {
                let mut literal = Literal::block();
                literal.language = language(tag);
                self.literal = Some(literal);
                self.enter(name, Open::Literal);
            }
            Ul | Menu => self.list(name, None),
            Ol => {
                let start = tag.attribute("start").and_then(|start| start.trim().parse().ok());
                self.list(name, Some(start.unwrap_or(1)));
            }
            Li => self.item(),
            Blockquote => {
                self.out.block();
                self.out.begin_line("> ", "> ");
                self.enter(name, Open::Quote);
            }
            Dt => self.out.block(),
            Dd => {
                self.out.newline();
                self.out.text(":");
                self.out.text(" ");
            }
            Table => self.table(),
            Tr => {
                self.closed(Tr);
                if self.in_table() {
                    self.out.row();
                    self.enter(Tr, Open::Row);
                } else {
                    self.out.newline();
                }
            }
            Td | Th => {
                self.close_cell();
                if self.in_table() {
                    self.out.begin_cell();
                    self.enter(name, Open::Cell);
                } else {
                    self.out.text(" ");
                }
            }
            Caption if self.in_table() => {
                self.out.begin_cell();
                self.enter(name, Open::Caption);
            }
            Main => self.region(name, |start| Open::Main { start }),
            Article => self.region(name, |start| Open::Article { start }),
            _ if is_main(tag) => self.region(name, |start| Open::Main { start }),
            _ if is_block(name) => self.out.block(),
            _ => {}
        }
    }

    fn end_tag(&mut self, name: Name, text: &str) {
        if let Some(skipped) = &mut self.skipped {
            match skipped.closed(name, text, &self.around) {
                Extent::GoesOn => return,
                Extent::Ends => return self.end_skipped(),
                Extent::Ended => self.end_skipped(),
            }
        }
        self.around.closed(name);
        self.closed(name);
    }

    fn end_skipped(&mut self) {
        if self.skipped.take().is_some_and(|skipped| is_block(skipped.name())) {
            self.out.block();
        }
    }

    fn closed(&mut self, name: Name) {
        use Name::*;
        match name {
            Title => self.in_title = false,
            Head => self.in_head = false,
            Q if self.literal.is_none() => self.out.text("\""),
            P if self.literal.is_none() => self.out.block(),
            _ => {}
        }
        // What lies in a cell ends with it; nothing in it closes what is around the table.
        let within =
            self.open.iter().rposition(|(open, _)| *open == name || (*open == Table && name != Table));
        let found = within.filter(|at| self.open[*at].0 == name);
        let heading = |name| matches!(name, H1 | H2 | H3 | H4 | H5 | H6);
        if let Some(at) = found {
            while self.open.len() > at {
                let Some((_, open)) = self.open.pop() else { break };
                self.leave(open);
            }
        } else if heading(name) {
            self.close_heading();
        }
        if is_block(name) && self.literal.is_none() {
            self.out.block();
        }
    }

    /// Remembers an element that has to be closed.
    fn enter(&mut self, name: Name, open: Open) {
        if self.open.len() < DEPTH_MAX {
            self.open.push((name, open));
        } else {
            self.leave(open);
        }
    }

    fn leave(&mut self, open: Open) {
        match open {
            Open::Strong => self.out.unmark("**"),
            Open::Em => self.out.unmark("*"),
            Open::Struck => self.out.unmark("~~"),
            Open::Heading | Open::Quote => {
                self.out.end_line();
                self.out.block();
            }
            Open::Item => {
                self.out.end_line();
                self.out.newline();
            }
            Open::List { .. } => {
                let inner = self.open.iter().any(|(_, open)| matches!(open, Open::List { .. }));
                if inner { self.out.newline() } else { self.out.block() }
            }
            Open::Link { href } => self.out.end_link(&href),
            Open::Literal => {
                if let Some(literal) = self.literal.take() {
                    self.out.literal(&literal);
                }
            }
            Open::Cell => self.out.end_cell(),
            Open::Caption => self.out.end_caption(),
            Open::Row => {}
            Open::Table => self.out.end_table(),
            Open::Main { start } => {
                let range = (start, self.out.place());
                self.main = self.main.filter(|main| main.1 - main.0 >= range.1 - range.0).or(Some(range));
                self.out.block();
            }
            Open::Article { start } => {
                let nested = self.open.iter().any(|(_, open)| matches!(open, Open::Article { .. }));
                if !nested {
                    self.articles.push((start, self.out.place()));
                }
                self.out.block();
            }
        }
    }

    fn is_skipped(&mut self, tag: &Tag<'_>) -> bool {
        use Name::*;
        match tag.name {
            Script | Style | Template | Svg | Canvas | Object | Video | Iframe | Noembed | Noframes
            | Button | Select | Textarea | Dialog => return true,
            // A page that is hidden as a whole is shown by a script.
            Head | Body => return false,
            Other if tag.text.eq_ignore_ascii_case("html") => return false,
            A if is_anchor(tag) => return true,
            _ => {}
        }
        let is_hidden = tag.attribute("hidden").is_some()
            || tag.attribute("aria-hidden").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || self.sheet.hides(tag);
        let within = |wanted: fn(&Open) -> bool| self.open.iter().any(|(_, open)| wanted(open));
        let around = || {
            let role = tag.attribute("role").unwrap_or_default();
            match tag.name {
                Nav | Aside | Footer | Search => true,
                Header => !within(|open| matches!(open, Open::Main { .. } | Open::Article { .. })),
                _ => ["navigation", "banner", "contentinfo", "search", "complementary"].contains(&role),
            }
        };
        is_hidden || (self.surroundings == Surroundings::LeftOut && around())
    }

    fn marked(&mut self, name: Name, mark: &'static str, open: Open) {
        self.out.mark(mark);
        self.enter(name, open);
    }

    fn close_literal(&mut self) {
        while self.literal.is_some() {
            match self.open.pop() {
                Some((_, open)) => self.leave(open),
                None => self.literal = None,
            }
        }
    }

    fn close_heading(&mut self) {
        let inner =
            self.open.iter().rposition(|(name, open)| matches!(open, Open::Heading) || *name == Name::Table);
        if let Some(at) = inner.filter(|at| matches!(self.open[*at].1, Open::Heading)) {
            self.closed(self.open[at].0);
        }
    }

    fn list(&mut self, name: Name, number: Option<u64>) {
        let inner = self.open.iter().any(|(_, open)| matches!(open, Open::Item));
        if inner {
            self.out.newline()
        } else {
            self.out.block()
        }
        self.enter(name, Open::List { number });
    }

    fn item(&mut self) {
        // A new item ends the one before it, and none of a list further out.
        let inner = self
            .open
            .iter()
            .rposition(|(_, open)| matches!(open, Open::Item | Open::List { .. } | Open::Table));
        if inner.is_some_and(|at| matches!(self.open[at].1, Open::Item)) {
            self.closed(Name::Li);
        }
        let list = self.open.iter_mut().rev().find_map(|(_, open)| match open {
            Open::List { number } => Some(number),
            _ => None,
        });
        self.out.newline();
        match list {
            Some(Some(number)) => {
                let first = format!("{number}. ");
                *number = number.saturating_add(1);
                let rest = " ".repeat(first.len());
                self.out.begin_line(&first, &rest);
            }
            _ => self.out.begin_line("- ", "  "),
        }
        self.enter(Name::Li, Open::Item);
    }

    fn table(&mut self) {
        let tables = self.open.iter().filter(|(_, open)| matches!(open, Open::Table)).count();
        if tables < TABLES_MAX && self.open.len() < DEPTH_MAX - 4 {
            self.out.begin_table();
            self.enter(Name::Table, Open::Table);
        } else {
            self.out.block();
        }
    }

    fn in_table(&self) -> bool {
        let inner =
            self.open.iter().rev().find(|(_, open)| matches!(open, Open::Table | Open::Cell | Open::Caption));
        inner.is_some_and(|(_, open)| matches!(open, Open::Table))
    }

    fn close_cell(&mut self) {
        let inner =
            self.open.iter().rev().find(|(_, open)| matches!(open, Open::Table | Open::Cell | Open::Caption));
        if let Some((name, Open::Cell | Open::Caption)) = inner {
            self.closed(*name);
        }
    }

    /// A part of the page that may be all of its content.
    fn region(&mut self, name: Name, open: impl FnOnce(usize) -> Open) {
        self.out.block();
        if self.out.is_at_the_root() {
            let place = self.out.place();
            self.enter(name, open(place));
        }
    }

    fn image(&mut self, tag: &Tag<'_>) {
        let alt = entities::decoded(tag.attribute("alt").unwrap_or_default());
        let alt: Vec<&str> = alt.split_whitespace().collect();
        if alt.is_empty() {
            return;
        }
        let alt = alt.join(" ").replace(['[', ']'], "");
        match tag.attribute("src").and_then(|src| self.link(src)) {
            Some(src) => self.out.word(&format!("![{alt}]({src})")),
            None => self.out.text(&alt),
        }
    }

    /// Where a link leads, if it leads anywhere.
    fn link(&self, href: &str) -> Option<String> {
        let href = entities::decoded(href.trim());
        if href.is_empty() || href.starts_with('#') || href.len() > LINK_BYTES_MAX {
            return None;
        }
        let scheme = href.split_once(':').map(|(scheme, _)| scheme);
        let named = scheme.filter(|scheme| {
            scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        });
        let whole = match (named, &self.base) {
            (Some(scheme), _)
                if !["http", "https", "mailto"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) =>
            {
                return None;
            }
            (Some(_), _) | (None, None) => href.into_owned(),
            (None, Some(base)) => base.join(&href).ok()?.into(),
        };
        // What would end the link early.
        let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '(' | ')' | '<' | '>');
        if !whole.contains(odd) {
            return Some(whole);
        }
        let mut safe = String::with_capacity(whole.len() + 8);
        for c in whole.chars() {
            if odd(c) {
                let mut bytes = [0; 4];
                c.encode_utf8(&mut bytes).bytes().for_each(|byte| safe.push_str(&format!("%{byte:02X}")));
            } else {
                safe.push(c);
            }
        }
        Some(safe)
    }
}

/// A sign beside a heading that leads to it.
fn is_anchor(tag: &Tag<'_>) -> bool {
    let class = tag.attribute("class").unwrap_or_default();
    let mut classes = class.split_ascii_whitespace();
    tag.attribute("href").is_some_and(|href| href.starts_with('#'))
        && classes.any(|class| ["anchor", "headerlink", "header-anchor", "hash-link"].contains(&class))
}

fn is_main(tag: &Tag<'_>) -> bool {
    tag.name == Name::Div && tag.attribute("role") == Some("main")
}

/// The language that code says it is in.
fn language(tag: &Tag<'_>) -> Option<String> {
    let class = tag.attribute("class")?;
    let mut found = class.split_ascii_whitespace().filter_map(|class| {
        if LANGUAGES.contains(&class) {
            return Some(class.to_owned());
        }
        let name =
            ["language-", "lang-", "highlight-source-"].iter().find_map(|start| class.strip_prefix(start))?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+-#._".contains(&byte);
        (!name.is_empty() && name.len() <= 30 && name.bytes().all(plain)).then(|| name.to_owned())
    });
    found.next()
}

/// Whether an element stands apart from the text around it.
fn is_block(name: Name) -> bool {
    use Name::*;
    matches!(
        name,
        Address
            | Article
            | Aside
            | Blockquote
            | Center
            | Details
            | Dialog
            | Div
            | Dl
            | Fieldset
            | Figcaption
            | Figure
            | Footer
            | Form
            | Header
            | Legend
            | Main
            | Nav
            | P
            | Pre
            | Section
            | Summary
            | Search
            | Body
    )
}

#[cfg(test)]
mod tests;
