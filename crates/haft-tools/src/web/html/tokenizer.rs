//! HTML cut into tags and text: one look at each byte, whatever the page does.
//!
//! What browsers agree on is followed where it shows: quotes around attributes, comments, elements whose
//! inside is text (`script`, `style`, `title` …), tags that never end. Nothing is copied and no tree is made.
//! A tokenizer of our own, because a page is an adversary here: those made for browsers compare every
//! attribute of a tag with every other, and a tag may have a million.

use memchr::{memchr, memchr2, memmem};

/// A piece of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HtmlToken<'a> {
    /// Text with its character references as they stand.
    Text(&'a str),
    /// The inside of an element in which there are no tags; references count only in some.
    Raw(&'a str),
    /// A tag that opens an element.
    Open(OpenTag<'a>),
    /// The name in a tag that closes one, and as it stands.
    Close(ElementName, &'a str),
}

/// A tag that opens an element.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) struct OpenTag<'a> {
    pub(super) name: ElementName,
    /// The name as it stands.
    pub(super) text: &'a str,
    /// Everything between name and end.
    attributes: &'a str,
}

macro_rules! names {
    ($($text:literal $name:ident)*) => {
        /// The elements that mean something here.
        #[derive(Debug, PartialEq, Eq, Clone, Copy)]
        pub(super) enum ElementName { $($name,)* Other }

        impl ElementName {
            fn from_text(text: &str) -> ElementName {
                let mut small = [0; 12];
                let Some(small) = small.get_mut(..text.len()) else { return ElementName::Other };
                small.copy_from_slice(text.as_bytes());
                small.make_ascii_lowercase();
                match std::str::from_utf8(small) {
                    $(Ok($text) => ElementName::$name,)*
                    _ => ElementName::Other,
                }
            }

            fn text(self) -> &'static str {
                match self { $(ElementName::$name => $text,)* ElementName::Other => "" }
            }
        }
    };
}

names! {
    "a" A "abbr" Abbr "address" Address "area" Area "article" Article "aside" Aside "b" B "base" Base
    "blockquote" Blockquote "body" Body "br" Br "button" Button "canvas" Canvas "caption" Caption
    "center" Center "cite" Cite "code" Code "col" Col "dd" Dd "del" Del "details" Details "dialog" Dialog "div" Div
    "dl" Dl "dt" Dt "em" Em "embed" Embed "fieldset" Fieldset "figcaption" Figcaption "figure" Figure "font" Font
    "footer" Footer "form" Form "h1" H1 "h2" H2 "h3" H3 "h4" H4 "h5" H5 "h6" H6 "head" Head "header" Header
    "hr" Hr "html" Html "i" I "iframe" Iframe "img" Img "input" Input "ins" Ins "kbd" Kbd "label" Label "legend" Legend
    "li" Li "link" Link "main" Main "mark" Mark "menu" Menu "meta" Meta "nav" Nav "noembed" Noembed "noframes" Noframes
    "object" Object "ol" Ol "p" P "param" Param "pre" Pre "q" Q "s" S "samp" Samp "script" Script "search" Search
    "section" Section "select" Select "small" Small "source" Source "span" Span "strike" Strike "strong" Strong "style" Style
    "sub" Sub "summary" Summary "sup" Sup "svg" Svg "table" Table "tbody" Tbody "td" Td "template" Template
    "textarea" Textarea "tfoot" Tfoot "th" Th "thead" Thead "time" Time "title" Title "tr" Tr "track" Track "tt" Tt "u" U
    "ul" Ul "video" Video "wbr" Wbr "xmp" Xmp
}

impl ElementName {
    /// Whether it has no inside and no end.
    pub(super) fn is_void(self) -> bool {
        use ElementName::{
            Area, Base, Br, Col, Embed, Hr, Img, Input, Link, Meta, Param, Source, Track, Wbr,
        };
        matches!(
            self,
            Area | Base | Br | Col | Embed | Hr | Img | Input | Link | Meta | Param | Source | Track | Wbr
        )
    }

    /// Whether its inside is text and nothing else.
    fn is_raw(self) -> bool {
        use ElementName::{Iframe, Noembed, Noframes, Script, Style, Textarea, Title, Xmp};
        matches!(self, Script | Style | Textarea | Title | Iframe | Noembed | Noframes | Xmp)
    }
}

impl<'a> OpenTag<'a> {
    /// Whether it ends with `/>`, which counts in drawings and formulas only.
    pub(super) fn is_self_closing(&self) -> bool {
        self.attributes.ends_with('/')
    }

    /// The value of an attribute as it stands; empty for one without a value.
    pub(super) fn attribute(&self, wanted: &str) -> Option<&'a str> {
        let text = self.attributes;
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            while at < bytes.len() && (bytes[at].is_ascii_whitespace() || bytes[at] == b'/') {
                at += 1;
            }
            let start = at;
            // A name may begin with `=`.
            while at < bytes.len()
                && !bytes[at].is_ascii_whitespace()
                && bytes[at] != b'/'
                && (bytes[at] != b'=' || at == start)
            {
                at += 1;
            }
            let name = &text[start..at];
            let mut value_at = at;
            while value_at < bytes.len() && bytes[value_at].is_ascii_whitespace() {
                value_at += 1;
            }
            let mut value = "";
            if bytes.get(value_at) == Some(&b'=') {
                at = value_at + 1;
                while at < bytes.len() && bytes[at].is_ascii_whitespace() {
                    at += 1;
                }
                match bytes.get(at) {
                    Some(quote @ (b'"' | b'\'')) => {
                        let end = memchr(*quote, &bytes[at + 1..]).map_or(bytes.len(), |end| at + 1 + end);
                        value = &text[at + 1..end];
                        at = (end + 1).min(bytes.len());
                    }
                    _ => {
                        let start = at;
                        while at < bytes.len() && !bytes[at].is_ascii_whitespace() {
                            at += 1;
                        }
                        value = &text[start..at];
                    }
                }
            }
            if !name.is_empty() && name.eq_ignore_ascii_case(wanted) {
                return Some(value);
            }
        }
        None
    }
}

/// The tokens of a page.
pub(super) struct HtmlTokenizer<'a> {
    text: &'a str,
    at: usize,
    raw: Option<ElementName>,
}

impl<'a> HtmlTokenizer<'a> {
    pub(super) fn new(text: &'a str) -> HtmlTokenizer<'a> {
        HtmlTokenizer { text, at: 0, raw: None }
    }

    /// The end of a tag, where its name ends here: of its attributes, and of itself.
    fn tag_end(&self, mut at: usize) -> (usize, usize) {
        let bytes = self.text.as_bytes();
        loop {
            // Quotes count after `=` only.
            let Some(found) = memchr2(b'>', b'=', &bytes[at..]) else { return (bytes.len(), bytes.len()) };
            at += found;
            if bytes[at] == b'>' {
                return (at, at + 1);
            }
            at += 1;
            while at < bytes.len() && bytes[at].is_ascii_whitespace() {
                at += 1;
            }
            if let Some(quote @ (b'"' | b'\'')) = bytes.get(at) {
                let Some(end) = memchr(*quote, &bytes[at + 1..]) else { return (bytes.len(), bytes.len()) };
                at += end + 2;
            }
        }
    }

    /// The inside of an element without tags.
    fn raw(&mut self, name: ElementName) -> &'a str {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let wanted = name.text();
        let mut at = start;
        while let Some(found) = memmem::find(&bytes[at..], b"</") {
            at += found;
            let after = at + 2 + wanted.len();
            let same =
                bytes.get(at + 2..after).is_some_and(|given| given.eq_ignore_ascii_case(wanted.as_bytes()));
            let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/');
            if same && bytes.get(after).is_some_and(ends) {
                self.at = at;
                return &self.text[start..at];
            }
            at += 2;
        }
        self.at = bytes.len();
        &self.text[start..]
    }
}

impl<'a> Iterator for HtmlTokenizer<'a> {
    type Item = HtmlToken<'a>;

    fn next(&mut self) -> Option<HtmlToken<'a>> {
        if let Some(name) = self.raw.take() {
            let inside = self.raw(name);
            if !inside.is_empty() {
                return Some(HtmlToken::Raw(inside));
            }
        }
        let bytes = self.text.as_bytes();
        let mut from = self.at;
        loop {
            if self.at >= bytes.len() {
                return None;
            }
            let Some(found) = memchr(b'<', &bytes[from..]) else {
                let text = &self.text[self.at..];
                self.at = bytes.len();
                return Some(HtmlToken::Text(text));
            };
            let at = from + found;
            let begins = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'/' | b'!' | b'?');
            if !bytes.get(at + 1).is_some_and(begins) {
                // Less than, and no tag.
                from = at + 1;
                continue;
            }
            if at > self.at {
                let text = &self.text[self.at..at];
                self.at = at;
                return Some(HtmlToken::Text(text));
            }
            match bytes[at + 1] {
                b'!' if bytes[at..].starts_with(b"<!--") => {
                    let inside = at + 4;
                    let short: Option<usize> = match &bytes[inside..] {
                        [b'>', ..] => Some(1),
                        [b'-', b'>', ..] => Some(2),
                        _ => None,
                    };
                    let end = short.or_else(|| Some(memmem::find(&bytes[inside..], b"-->")? + 3));
                    self.at = end.map_or(bytes.len(), |end| inside + end);
                }
                b'!' | b'?' => {
                    self.at = memchr(b'>', &bytes[at..]).map_or(bytes.len(), |end| at + end + 1);
                }
                first => {
                    let start = if first == b'/' { at + 2 } else { at + 1 };
                    let is_name = |byte: &u8| !byte.is_ascii_whitespace() && !matches!(byte, b'>' | b'/');
                    let name_end = start + bytes[start..].iter().take_while(|byte| is_name(byte)).count();
                    let text = &self.text[start..name_end];
                    let name = ElementName::from_text(text);
                    let (attributes_end, end) = self.tag_end(name_end);
                    self.at = end;
                    if first == b'/' {
                        return Some(HtmlToken::Close(name, text));
                    }
                    self.raw = Some(name).filter(|name| name.is_raw());
                    let attributes = &self.text[name_end..attributes_end];
                    return Some(HtmlToken::Open(OpenTag { name, text, attributes }));
                }
            }
            from = self.at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(html: &str) -> String {
        let one = |token| match token {
            HtmlToken::Text(text) => format!("{text:?}"),
            HtmlToken::Raw(text) => format!("raw {text:?}"),
            HtmlToken::Open(tag) => format!("<{:?}>", tag.name),
            HtmlToken::Close(name, _) => format!("</{name:?}>"),
        };
        HtmlTokenizer::new(html).map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tags_text_and_what_is_neither() {
        for (html, tokens) in [
            ("a<b>c</b>", r#""a" <B> "c" </B>"#),
            ("1 < 2 <3", r#""1 < 2 <3""#),
            ("<!-- <b> --><i>", "<I>"),
            ("<!--><i>", "<I>"),
            ("<!doctype html><?php ?><P/>", "<P>"),
            (r#"<a href="x>y" t='>'>z"#, r#"<A> "z""#),
            (r#"<a title=it's>z</a>"#, r#"<A> "z" </A>"#),
            ("<script>if (a</b) '</p>'</SCRIPT >x", r#"<Script> raw "if (a</b) '</p>'" </Script> "x""#),
            ("<title>a &amp; <b></title>", r#"<Title> raw "a &amp; <b>" </Title>"#),
            ("<style>x", r#"<Style> raw "x""#),
            ("<a href=\"x", "<A>"),
            ("x<", r#""x<""#),
            ("</>a", r#"</Other> "a""#),
            ("", ""),
        ] {
            assert_eq!(shown(html), tokens, "{html}");
        }
    }

    #[test]
    fn attributes_are_found_in_every_spelling() {
        let value = |html: &'static str, name: &str| {
            let Some(HtmlToken::Open(tag)) = HtmlTokenizer::new(html).next() else {
                panic!("{html} is a tag")
            };
            tag.attribute(name)
        };
        assert_eq!(value(r#"<a href="x y" id=b>"#, "href"), Some("x y"));
        assert_eq!(value(r#"<a href="x y" id=b>"#, "id"), Some("b"));
        assert_eq!(value("<a HREF = 'q'>", "href"), Some("q"));
        assert_eq!(value("<a hidden/>", "hidden"), Some(""));
        assert_eq!(value("<a data-href=x>", "href"), None);
        assert_eq!(value("<a title='href=x'>", "href"), None);
        assert_eq!(value("<a = href=x>", "href"), Some("x"));
    }

    #[test]
    fn a_page_made_to_be_slow_is_not() {
        // Each of these would take hours if anything were looked at again.
        let n = 400_000;
        for html in [
            "<".repeat(n),
            "<!--".repeat(n),
            "</".repeat(n),
            "<a ".repeat(n),
            "<a b='".repeat(n),
            format!("<a {}>", "b ".repeat(n)),
            format!("<script>{}", "</scrip".repeat(n)),
            "<script>".repeat(n),
            "&".repeat(n),
            "<title></title".repeat(n),
        ] {
            let _ = HtmlTokenizer::new(&html).count();
        }
    }
}
