//! A page as Markdown: what is worth reading of it.
//!
//! One pass over the tokens, straight into text. What surrounds the content (navigation, banners, footers,
//! what isn't shown) is left out, and where the page says what its content is (`main`, a single `article`),
//! only that is kept; if too little would be left, the page is read again with everything. Headings, lists,
//! tables, code, links and emphasis stay.
//!
//! Text is not escaped: the reader is a model, and a stray `*` costs it less than a backslash in every name.
//! What can't be seen on the page is not told either, since nobody who looks at it could know of it: what an
//! attribute or the page's own styles hide, on any element but the whole page.

mod elements;
mod entities;
mod hiding_styles;
mod markdown_writer;
mod tokenizer;

use haft::text::{single_line, truncate_chars};
use url::Url;

use self::elements::{DEPTH_MAX, ElementStack, Pushed, is_formatting};
use self::hiding_styles::StyleSheet;
use self::markdown_writer::{CodeLiteral, MarkdownWriter};
use self::tokenizer::{ElementName, HtmlToken, HtmlTokenizer, OpenTag};

/// How deep tables may lie in each other; those below are read as text.
const TABLES_MAX: usize = 8;
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
pub struct MarkdownPage {
    /// What it calls itself.
    pub title: Option<String>,
    /// Its content.
    pub markdown: String,
}

/// Reads a page. Links are made whole from `base`, where there is one.
///
/// ```
/// let page = haft_tools::web::html::convert_page("<title>T</title><nav>x</nav><h1>A</h1><p>b <b>c</b>", None);
/// assert_eq!(page.title.as_deref(), Some("T"));
/// assert_eq!(page.markdown, "# A\n\nb **c**");
/// ```
pub fn convert_page(html: &str, base: Option<&Url>) -> MarkdownPage {
    let sheet = &mut StyleSheet::from_html(html);
    let page = PageConverter::new(base, SurroundingsMode::LeftOut, sheet).page(html);
    if page.markdown.len() >= CONTENT_BYTES_MIN {
        return page;
    }
    let whole = PageConverter::new(base, SurroundingsMode::Kept, sheet).page(html);
    if whole.markdown.len() > 2 * page.markdown.len() + CONTENT_BYTES_MIN { whole } else { page }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SurroundingsMode {
    LeftOut,
    Kept,
}

/// What has to be done at the end of an element.
#[derive(Debug)]
enum Role {
    Strong,
    Em,
    Struck,
    Heading,
    Link { href: String },
    Item,
    List { number: Option<u64> },
    Quote,
    Quotation,
    Literal,
    Table,
    Cell,
    Caption,
    Main { start: usize },
    Article { start: usize },
}

/// An element that is passed over, with all that is in it.
#[derive(Debug)]
struct Skipped {
    name: ElementName,
    /// Its place among the open elements. None if what is in it can't be followed: what was hidden is rather
    /// lost than shown.
    place: Option<usize>,
}

struct PageConverter<'b> {
    base: Option<std::borrow::Cow<'b, Url>>,
    surroundings: SurroundingsMode,
    sheet: &'b mut StyleSheet,
    elements: ElementStack<'b, Role>,
    /// An element that is passed over.
    skipped: Option<Skipped>,
    in_head: bool,
    in_title: bool,
    title: Option<String>,
    out: MarkdownWriter,
    main: Option<(usize, usize)>,
    articles: Vec<(usize, usize)>,
    /// Code that is being read.
    literal: Option<CodeLiteral>,
}

impl<'b> PageConverter<'b> {
    fn new(
        base: Option<&'b Url>,
        surroundings: SurroundingsMode,
        sheet: &'b mut StyleSheet,
    ) -> PageConverter<'b> {
        PageConverter {
            base: base.map(std::borrow::Cow::Borrowed),
            surroundings,
            sheet,
            elements: ElementStack::new(),
            skipped: None,
            in_head: false,
            in_title: false,
            title: None,
            out: MarkdownWriter::default(),
            main: None,
            articles: Vec::new(),
            literal: None,
        }
    }

    fn page(mut self, html: &'b str) -> MarkdownPage {
        for token in HtmlTokenizer::new(html) {
            match token {
                HtmlToken::Text(text) => self.text(text),
                HtmlToken::Raw(text) => self.raw(text),
                HtmlToken::Open(tag) => self.start_tag(&tag),
                HtmlToken::Close(name, text) => self.end_tag(name, text),
            }
        }
        self.end_from(0);
        let PageConverter { title, out, main, articles, surroundings, .. } = self;
        let whole = out.finish();
        let part = |range: &(usize, usize)| whole.get(range.0..range.1).unwrap_or_default().trim();
        let content = match (surroundings, &main, articles.as_slice()) {
            (SurroundingsMode::LeftOut, Some(main), _) if part(main).len() >= CONTENT_BYTES_MIN => part(main),
            (SurroundingsMode::LeftOut, None, [article]) if part(article).len() >= CONTENT_BYTES_MIN => {
                part(article)
            }
            _ => whole.trim(),
        };
        MarkdownPage { title, markdown: content.to_owned() }
    }

    fn text(&mut self, text: &str) {
        if self.skipped.is_some() || self.in_head && text.trim().is_empty() {
            return;
        }
        self.in_head = false;
        let text = entities::decode_entities(text);
        match &mut self.literal {
            Some(literal) => literal.text.push_str(&text),
            None => self.out.text(&text),
        }
    }

    fn raw(&mut self, text: &str) {
        if self.in_title && self.title.is_none() {
            let text = entities::decode_entities(text);
            let title = truncate_chars(&single_line(&text), TITLE_CHARS_MAX).to_owned();
            self.title = Some(title).filter(|title| !title.is_empty());
        }
    }

    fn start_tag(&mut self, tag: &OpenTag<'b>) {
        if let Some(place) = self.elements.ended_by_start(tag.name) {
            self.end_at(place);
        }
        let is_skipped = self.skipped.is_none() && self.is_skipped(tag);
        let pushed = self.elements.push(tag);
        match &mut self.skipped {
            Some(skipped) if pushed == Pushed::Full => skipped.place = None,
            Some(_) => {}
            None if is_skipped => {
                let place = if let Pushed::At(place) = pushed { Some(place) } else { None };
                self.skipped = (pushed != Pushed::Nothing).then_some(Skipped { name: tag.name, place });
            }
            None if self.literal.is_some() && tag.name != ElementName::Pre => self.start_in_literal(tag),
            None => self.start(tag, pushed),
        }
    }

    fn start_in_literal(&mut self, tag: &OpenTag<'b>) {
        let Some(literal) = &mut self.literal else { return };
        match tag.name {
            ElementName::Br => literal.text.push('\n'),
            ElementName::Code | ElementName::Samp if literal.language.is_none() => {
                literal.language = code_language(tag)
            }
            _ => {}
        }
    }

    /// Writes what an element that is shown begins with.
    fn start(&mut self, tag: &OpenTag<'b>, pushed: Pushed) {
        use ElementName::*;
        let name = tag.name;
        match name {
            Title => self.in_title = self.title.is_none(),
            Head => self.in_head = true,
            Base => {
                let href = tag.attribute("href").map(entities::decode_entities);
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
                self.enter(pushed, Role::Heading);
            }
            A => {
                if let Some(href) = tag.attribute("href").and_then(|href| self.link(href)) {
                    self.out.mark("[");
                    self.enter(pushed, Role::Link { href });
                }
            }
            B | Strong => self.marked(pushed, "**", Role::Strong),
            I | Em => self.marked(pushed, "*", Role::Em),
            S | Strike | Del => self.marked(pushed, "~~", Role::Struck),
            Q => {
                self.out.text("\"");
                self.enter(pushed, Role::Quotation);
            }
            Code | Kbd | Samp | Tt => {
                self.literal = Some(CodeLiteral::inline());
                self.enter(pushed, Role::Literal);
            }
            Pre | Xmp => {
                self.end_literal();
                let mut literal = CodeLiteral::block();
                literal.language = code_language(tag);
                self.literal = Some(literal);
                self.enter(pushed, Role::Literal);
            }
            Ul | Menu => self.list(pushed, None),
            Ol => {
                let start = tag.attribute("start").and_then(|start| start.trim().parse().ok());
                self.list(pushed, Some(start.unwrap_or(1)));
            }
            Li => self.item(pushed),
            Blockquote => {
                self.out.block();
                self.out.begin_line("> ", "> ");
                self.enter(pushed, Role::Quote);
            }
            Dt => self.out.block(),
            Dd => {
                self.out.newline();
                self.out.text(":");
                self.out.text(" ");
            }
            Table => self.table(pushed),
            Tr => {
                if self.in_table() {
                    self.out.row();
                } else {
                    self.out.newline();
                }
            }
            Td | Th => {
                if self.in_table() {
                    self.out.begin_cell();
                    self.enter(pushed, Role::Cell);
                } else {
                    self.out.text(" ");
                }
            }
            Caption if self.in_table() => {
                self.out.begin_cell();
                self.enter(pushed, Role::Caption);
            }
            Main => self.region(pushed, |start| Role::Main { start }),
            Article => self.region(pushed, |start| Role::Article { start }),
            _ if is_block(name) && is_main(tag) => self.region(pushed, |start| Role::Main { start }),
            _ if is_block(name) => self.out.block(),
            _ => {}
        }
    }

    fn end_tag(&mut self, name: ElementName, text: &str) {
        match name {
            ElementName::Title => self.in_title = false,
            ElementName::Head => self.in_head = false,
            _ => {}
        }
        if let Some(place) = self.elements.ended_by_end(name, text) {
            self.end_at(place);
        }
        if is_block(name) && self.literal.is_none() && self.skipped.is_none() {
            self.out.block();
        }
    }

    /// Ends an element: with all that is in it, or, if it is formatting, with the formatting in it.
    fn end_at(&mut self, place: usize) {
        if !is_formatting(self.elements.name(place)) {
            return self.end_from(place);
        }
        for place in (place..self.elements.len()).rev() {
            if is_formatting(self.elements.name(place)) {
                self.end(place);
            }
        }
    }

    fn end_from(&mut self, place: usize) {
        for place in (place..self.elements.len()).rev() {
            self.end(place);
        }
    }

    fn end(&mut self, place: usize) {
        let role = self.elements.remove(place).role;
        if let Some(Skipped { place: Some(skipped), name }) = &mut self.skipped {
            if *skipped == place {
                let name = *name;
                self.skipped = None;
                if is_block(name) {
                    self.out.block();
                }
            } else if *skipped > place {
                *skipped -= 1;
            }
        }
        if let Some(role) = role {
            self.leave(role);
        }
    }

    /// Gives an element that was opened a role.
    fn enter(&mut self, pushed: Pushed, role: Role) {
        match pushed {
            Pushed::At(place) => self.elements.set_role(place, role),
            Pushed::Nothing | Pushed::Full => self.leave(role),
        }
    }

    fn leave(&mut self, role: Role) {
        match role {
            Role::Strong => self.out.unmark("**"),
            Role::Em => self.out.unmark("*"),
            Role::Struck => self.out.unmark("~~"),
            Role::Heading | Role::Quote => {
                self.out.end_line();
                self.out.block();
            }
            Role::Item => {
                self.out.end_line();
                self.out.newline();
            }
            Role::List { .. } => {
                let inner = self.elements.roles().any(|role| matches!(role, Role::List { .. }));
                if inner { self.out.newline() } else { self.out.block() }
            }
            Role::Link { href } => self.out.end_link(&href),
            Role::Quotation => self.out.text("\""),
            Role::Literal => self.end_literal(),
            Role::Cell => self.out.end_cell(),
            Role::Caption => self.out.end_caption(),
            Role::Table => self.out.end_table(),
            Role::Main { start } => {
                let range = (start, self.out.place());
                self.main = self.main.filter(|main| main.1 - main.0 >= range.1 - range.0).or(Some(range));
                self.out.block();
            }
            Role::Article { start } => {
                let nested = self.elements.roles().any(|role| matches!(role, Role::Article { .. }));
                if !nested {
                    self.articles.push((start, self.out.place()));
                }
                self.out.block();
            }
        }
    }

    fn is_skipped(&mut self, tag: &OpenTag<'_>) -> bool {
        use ElementName::*;
        match tag.name {
            Script | Style | Template | Svg | Canvas | Object | Video | Iframe | Noembed | Noframes
            | Button | Select | Textarea | Dialog => return true,
            // A page that is hidden as a whole is shown by a script.
            Html | Head | Body => return false,
            A if is_anchor(tag) => return true,
            _ => {}
        }
        let is_hidden = tag.attribute("hidden").is_some()
            || tag.attribute("aria-hidden").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || self.sheet.hides(tag);
        let is_content = |role: &Role| matches!(role, Role::Main { .. } | Role::Article { .. });
        let around = || {
            let role = tag.attribute("role").unwrap_or_default();
            match tag.name {
                Nav | Aside | Footer | Search => true,
                Header => !self.elements.roles().any(is_content),
                _ => ["navigation", "banner", "contentinfo", "search", "complementary"].contains(&role),
            }
        };
        is_hidden || (self.surroundings == SurroundingsMode::LeftOut && around())
    }

    fn marked(&mut self, pushed: Pushed, mark: &'static str, role: Role) {
        self.out.mark(mark);
        self.enter(pushed, role);
    }

    fn end_literal(&mut self) {
        if let Some(literal) = self.literal.take() {
            self.out.literal(&literal);
        }
    }

    fn list(&mut self, pushed: Pushed, number: Option<u64>) {
        let inner = self.elements.roles().any(|role| matches!(role, Role::Item));
        if inner {
            self.out.newline()
        } else {
            self.out.block()
        }
        self.enter(pushed, Role::List { number });
    }

    fn item(&mut self, pushed: Pushed) {
        let list = self.elements.roles_mut().find_map(|role| match role {
            Role::List { number } => Some(number),
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
        self.enter(pushed, Role::Item);
    }

    fn table(&mut self, pushed: Pushed) {
        let tables = self.elements.roles().filter(|role| matches!(role, Role::Table)).count();
        if tables < TABLES_MAX && self.elements.len() < DEPTH_MAX - 4 {
            self.out.begin_table();
            self.enter(pushed, Role::Table);
        } else {
            self.out.block();
        }
    }

    fn in_table(&self) -> bool {
        let of_table = |role: &&Role| matches!(role, Role::Table | Role::Cell | Role::Caption);
        self.elements.roles().find(of_table).is_some_and(|role| matches!(role, Role::Table))
    }

    /// A part of the page that may be all of its content.
    fn region(&mut self, pushed: Pushed, role: impl FnOnce(usize) -> Role) {
        self.out.block();
        if self.out.is_at_the_root() {
            let role = role(self.out.place());
            self.enter(pushed, role);
        }
    }

    fn image(&mut self, tag: &OpenTag<'_>) {
        let alt = entities::decode_entities(tag.attribute("alt").unwrap_or_default());
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
        let href = entities::decode_entities(href.trim());
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
fn is_anchor(tag: &OpenTag<'_>) -> bool {
    let class = tag.attribute("class").unwrap_or_default();
    let mut classes = class.split_ascii_whitespace();
    tag.attribute("href").is_some_and(|href| href.starts_with('#'))
        && classes.any(|class| ["anchor", "headerlink", "header-anchor", "hash-link"].contains(&class))
}

fn is_main(tag: &OpenTag<'_>) -> bool {
    tag.attribute("role") == Some("main")
}

/// The language that code says it is in.
fn code_language(tag: &OpenTag<'_>) -> Option<String> {
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
fn is_block(name: ElementName) -> bool {
    use ElementName::*;
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
