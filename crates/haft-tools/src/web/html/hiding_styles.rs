//! Whether a page's own styles hide an element: inline styles, and rules of `<style>` for one element alone.
//!
//! Understood are selectors of a tag, classes and ids without anything around them (`.a`, `#b`, `p.c.d`),
//! with what the cascade makes of several rules. Selectors that depend on other elements, on a state or on
//! the size of the screen, and sheets that are elsewhere aren't looked at. A page is an adversary: every
//! look-up is bounded, whatever it says.

use std::collections::HashMap;

use super::entities;
use super::tokenizer::{ElementName, HtmlToken, HtmlTokenizer, OpenTag};

/// How much of all `<style>` elements is read, in bytes.
const SHEET_BYTES_MAX: usize = 1024 * 1024;
/// How deep blocks such as `@media screen` may lie in each other.
const BLOCKS_MAX: usize = 4;
/// How many classes and ids one selector may name.
const SELECTOR_PARTS_MAX: usize = 8;
/// How many selectors of several parts begin with the same one.
const COMPOUNDS_MAX: usize = 64;
/// How many classes of one element are looked up.
const CLASSES_MAX: usize = 64;
/// How often a selector of several parts is compared with an element, on one page.
const COMPARED_MAX: usize = 2_000_000;
/// From which opacity on, and above which size in pixels, something is seen.
const OPACITY_MIN: f64 = 0.05;
const PIXELS_MIN: f64 = 1.0;
/// How far to the left or the top nothing is seen any more.
const OFF_SCREEN: f64 = -200.0;

/// What about an element can hide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HidingProperty {
    Display,
    Visibility,
    Opacity,
    FontSize,
    Color,
    Clip,
    Place,
    Scale,
    /// Hides together with the next one.
    Size,
    Overflow,
}

const PROPERTIES: usize = HidingProperty::Overflow as usize + 1;

/// What a declaration says of a property, and how strongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct StyleDeclaration {
    weight: CascadeWeight,
    hides: bool,
}

/// What wins in the cascade: the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct CascadeWeight {
    is_important: bool,
    is_inline: bool,
    ids: usize,
    classes: usize,
    tags: usize,
    order: usize,
}

/// What several declarations come to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct ElementStyle([Option<StyleDeclaration>; PROPERTIES]);

impl ElementStyle {
    fn set(&mut self, property: HidingProperty, said: StyleDeclaration) {
        let known = &mut self.0[property as usize];
        if known.is_none_or(|known| known.weight <= said.weight) {
            *known = Some(said);
        }
    }

    /// Takes over what is stronger.
    fn add(&mut self, other: &ElementStyle) {
        for (known, said) in self.0.iter_mut().zip(other.0) {
            if said.is_some_and(|said| known.is_none_or(|known| known.weight <= said.weight)) {
                *known = said;
            }
        }
    }

    fn hides(&self) -> bool {
        let hides = |property: HidingProperty| self.0[property as usize].is_some_and(|said| said.hides);
        use HidingProperty::*;
        [Display, Visibility, Opacity, FontSize, Color, Clip, Place, Scale].into_iter().any(hides)
            || (hides(Size) && hides(Overflow))
    }

    /// Reads declarations, all of one weight but for `!important`.
    fn read(css: &str, weight: CascadeWeight) -> ElementStyle {
        let css = plain_css(css);
        let declarations = || css.split(';').filter_map(|declaration| declaration.split_once(':'));
        let names = |wanted: &[&str]| {
            declarations().any(|(name, _)| wanted.iter().any(|wanted| name.trim().contains(wanted)))
        };
        // What begins invisible may become visible by itself, and what has no colour may show its background.
        let moves = names(&["animation", "transition"]);
        let is_painted = names(&["background-clip"]);
        let mut style = ElementStyle::default();
        for (name, value) in declarations() {
            let (value, is_important) = match value.trim().strip_suffix("!important") {
                Some(value) => (value.trim(), true),
                None => (value.trim(), false),
            };
            let Some((property, hides)) = judge_declaration(name.trim(), value) else { continue };
            let hides = hides
                && !(moves && property == HidingProperty::Opacity)
                && !(is_painted && property == HidingProperty::Color);
            style.set(property, StyleDeclaration { weight: CascadeWeight { is_important, ..weight }, hides });
        }
        style
    }
}

/// The property that a declaration is about, and whether it hides by it.
fn judge_declaration(name: &str, value: &str) -> Option<(HidingProperty, bool)> {
    use HidingProperty::*;
    Some(match name {
        "display" => (Display, value == "none"),
        "visibility" => (Visibility, value == "hidden" || value == "collapse"),
        "content-visibility" => (Visibility, value == "hidden"),
        "opacity" => (
            Opacity,
            parse_number(value).is_some_and(|(opacity, unit)| {
                opacity < if unit == "%" { OPACITY_MIN * 100.0 } else { OPACITY_MIN }
            }),
        ),
        "filter" => {
            (Opacity, value.strip_prefix("opacity(").and_then(parse_number).is_some_and(|(it, _)| it == 0.0))
        }
        "font-size" => (FontSize, is_tiny(value)),
        "font" => (
            FontSize,
            value
                .split_whitespace()
                .any(|part| parse_number(part).is_some_and(|(size, unit)| size == 0.0 && !unit.is_empty())),
        ),
        "color" | "-webkit-text-fill-color" => (Color, is_transparent(value)),
        "clip" => (
            Clip,
            value.strip_prefix("rect(").is_some_and(|rest| {
                let sides = rest.trim_end_matches(')').split([',', ' ']).filter(|side| !side.is_empty());
                sides.into_iter().all(is_tiny)
            }),
        ),
        "clip-path" | "-webkit-clip-path" => (Clip, {
            let inside = |shape: &str| value.strip_prefix(shape).and_then(parse_number);
            inside("inset(").is_some_and(|(inset, unit)| unit.starts_with('%') && inset >= 50.0)
                || inside("circle(").is_some_and(|(radius, _)| radius == 0.0)
        }),
        "text-indent" | "left" | "top" | "right" | "bottom" | "margin-left" | "margin-top"
        | "margin-right" | "margin" | "inset" => (Place, value.split_whitespace().any(is_far)),
        "transform" => match value.strip_prefix("scale") {
            Some(scale) => (
                Scale,
                scale
                    .split_once('(')
                    .and_then(|(_, scale)| parse_number(scale))
                    .is_some_and(|(scale, _)| scale == 0.0),
            ),
            None => (
                Place,
                value.strip_prefix("translate").is_some_and(|to| to.split(['(', ',', ')', ' ']).any(is_far)),
            ),
        },
        "width" | "height" | "max-width" | "max-height" => (Size, is_tiny(value)),
        "overflow" | "overflow-x" | "overflow-y" => (Overflow, value == "hidden" || value == "clip"),
        _ => return None,
    })
}

/// A number at the beginning, and what follows it.
fn parse_number(value: &str) -> Option<(f64, &str)> {
    let value = value.trim_start();
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
    let end = value.find(|c| !is_part(c)).unwrap_or(value.len());
    Some((value[..end].parse().ok()?, value[end..].trim()))
}

/// Whether a length is nothing to see.
fn is_tiny(value: &str) -> bool {
    parse_number(value)
        .is_some_and(|(size, unit)| size <= 0.0 || (size <= PIXELS_MIN && matches!(unit, "px" | "pt")))
}

fn is_far(value: &str) -> bool {
    parse_number(value).is_some_and(|(length, unit)| {
        length <= OFF_SCREEN || (length <= OFF_SCREEN / 10.0 && matches!(unit, "em" | "rem"))
    })
}

fn is_transparent(value: &str) -> bool {
    let alpha = value.strip_suffix(')').and_then(|value| value.rsplit([',', '/', ' ', '(']).next());
    let has_alpha = value.starts_with("rgba(") || value.starts_with("hsla(") || value.contains('/');
    let hex = value.strip_prefix('#').unwrap_or_default();
    value == "transparent"
        || (has_alpha && alpha.and_then(parse_number).is_some_and(|(alpha, _)| alpha == 0.0))
        || (hex.len() == 8 && hex.ends_with("00"))
        || (hex.len() == 4 && hex.ends_with('0'))
}

/// CSS without comments and escapes, in small letters.
fn plain_css(css: &str) -> String {
    let mut text = String::with_capacity(css.len());
    let mut rest = css;
    while let Some(at) = rest.find(['/', '\\']) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.find("*/").map_or("", |end| &comment[end + 2..]);
        } else if let Some((c, after)) = parse_escape(rest) {
            text.push(c);
            rest = after;
        } else {
            text.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    text.push_str(rest);
    text.make_ascii_lowercase();
    text
}

/// The character that an escape at the beginning stands for, and what follows it.
fn parse_escape(css: &str) -> Option<(char, &str)> {
    let rest = css.strip_prefix('\\')?;
    let digits = rest.bytes().take(6).take_while(u8::is_ascii_hexdigit).count();
    if digits == 0 {
        let c = rest.chars().next()?;
        return Some((c, &rest[c.len_utf8()..]));
    }
    let c = u32::from_str_radix(&rest[..digits], 16).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
    let after = &rest[digits..];
    Some((c, after.strip_prefix([' ', '\n', '\t']).unwrap_or(after)))
}

/// One part of a selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SelectorPart {
    Tag(String),
    Class(String),
    Id(String),
}

/// A selector of several parts, but for the one that it is found by.
#[derive(Debug)]
struct CompoundSelector {
    others: Vec<SelectorPart>,
    style: ElementStyle,
}

/// The rules of a page's own style sheets that can hide or show something.
#[derive(Debug, Default)]
pub(super) struct StyleSheet {
    single: HashMap<SelectorPart, ElementStyle>,
    compounds: HashMap<SelectorPart, Vec<CompoundSelector>>,
    order: usize,
    /// How often a compound may still be compared.
    compared: usize,
}

impl StyleSheet {
    /// The rules of all `<style>` elements, wherever they stand.
    pub(super) fn from_html(html: &str) -> StyleSheet {
        let mut sheet = StyleSheet { compared: COMPARED_MAX, ..StyleSheet::default() };
        let mut remaining = SHEET_BYTES_MAX;
        let mut counts = false;
        for token in HtmlTokenizer::new(html) {
            match token {
                HtmlToken::Open(tag) => {
                    counts = tag.name == ElementName::Style && is_for_screens(tag.attribute("media"))
                }
                HtmlToken::Raw(css) if counts && css.len() <= remaining => {
                    remaining -= css.len();
                    sheet.rules(css, 0);
                }
                _ => {}
            }
        }
        sheet
    }

    /// Whether the page's styles hide an element.
    pub(super) fn hides(&mut self, tag: &OpenTag<'_>) -> bool {
        let mut style = ElementStyle::default();
        if !self.single.is_empty() || !self.compounds.is_empty() {
            let class = entities::decode_entities(tag.attribute("class").unwrap_or_default());
            let mut parts: Vec<SelectorPart> = class
                .split_ascii_whitespace()
                .take(CLASSES_MAX)
                .map(|class| SelectorPart::Class(class.into()))
                .collect();
            parts.extend(
                tag.attribute("id").map(|id| SelectorPart::Id(entities::decode_entities(id).into_owned())),
            );
            parts.push(SelectorPart::Tag(tag.text.to_ascii_lowercase()));
            for part in &parts {
                if let Some(said) = self.single.get(part) {
                    style.add(said);
                }
                for compound in self.compounds.get(part).into_iter().flatten() {
                    self.compared = self.compared.saturating_sub(1);
                    if self.compared > 0 && compound.others.iter().all(|other| parts.contains(other)) {
                        style.add(&compound.style);
                    }
                }
            }
        }
        if let Some(own) = tag.attribute("style") {
            let weight = CascadeWeight { is_inline: true, ..CascadeWeight::default() };
            style.add(&ElementStyle::read(&entities::decode_entities(own), weight));
        }
        style.hides()
    }

    fn rules(&mut self, css: &str, depth: usize) {
        let mut rest = css;
        while let Some(at) = find_outside_of_comments(rest, &['{', ';', '}']) {
            let (head, after) = (&rest[..at], &rest[at + 1..]);
            if !rest[at..].starts_with('{') {
                rest = after;
                continue;
            }
            let end = block_end(after);
            let (block, next) = (&after[..end], after.get(end + 1..).unwrap_or_default());
            let head = without_comments(head);
            match head.trim().strip_prefix('@') {
                Some(rule) if depth < BLOCKS_MAX && is_always(rule) => self.rules(block, depth + 1),
                Some(_) => {}
                None => self.rule(&head, block),
            }
            rest = next;
        }
    }

    fn rule(&mut self, selectors: &str, block: &str) {
        let style = ElementStyle::read(block, CascadeWeight::default());
        if style == ElementStyle::default() {
            return;
        }
        for selector in selectors.split(',') {
            let Some(mut parts) = parts_of(selector.trim()) else { continue };
            self.order += 1;
            let count = |wanted: fn(&SelectorPart) -> bool| parts.iter().filter(|part| wanted(part)).count();
            let weight = CascadeWeight {
                ids: count(|part| matches!(part, SelectorPart::Id(_))),
                classes: count(|part| matches!(part, SelectorPart::Class(_))),
                tags: count(|part| matches!(part, SelectorPart::Tag(_))),
                order: self.order,
                ..CascadeWeight::default()
            };
            let mut style = style;
            for said in style.0.iter_mut().flatten() {
                said.weight = CascadeWeight { is_important: said.weight.is_important, ..weight };
            }
            // A tag is what most elements share, so it is the last by which something is looked up.
            let Some(found_by) = parts.pop() else { continue };
            if parts.is_empty() {
                self.single.entry(found_by).or_default().add(&style);
                continue;
            }
            let compounds = self.compounds.entry(found_by).or_default();
            if compounds.len() < COMPOUNDS_MAX {
                compounds.push(CompoundSelector { others: parts, style });
            }
        }
    }
}

/// The parts of a selector for one element alone, a tag first.
fn parts_of(selector: &str) -> Option<Vec<SelectorPart>> {
    let mut parts = Vec::new();
    let mut rest = selector.strip_prefix('*').unwrap_or(selector);
    while let Some(first) = rest.chars().next() {
        let (make, after): (fn(String) -> SelectorPart, &str) = match first {
            '.' => (SelectorPart::Class, &rest[1..]),
            '#' => (SelectorPart::Id, &rest[1..]),
            _ if parts.is_empty() => (|tag| SelectorPart::Tag(tag.to_ascii_lowercase()), rest),
            _ => return None,
        };
        let (name, next) = parse_identifier(after)?;
        parts.push(make(name));
        rest = next;
    }
    (1..=SELECTOR_PARTS_MAX).contains(&parts.len()).then_some(parts)
}

fn parse_identifier(css: &str) -> Option<(String, &str)> {
    let (mut name, mut rest) = (String::new(), css);
    while let Some(c) = rest.chars().next() {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') || !c.is_ascii() {
            name.push(c);
            rest = &rest[c.len_utf8()..];
        } else if let Some((c, after)) = parse_escape(rest) {
            name.push(c);
            rest = after;
        } else {
            break;
        }
    }
    (!name.is_empty()).then_some((name, rest))
}

/// Whether the media of a sheet are those of a person at a screen of any size.
fn is_for_screens(media: Option<&str>) -> bool {
    let media = media.unwrap_or_default().trim();
    media.is_empty()
        || media.split(',').any(|one| matches!(&*one.trim().to_ascii_lowercase(), "all" | "screen"))
}

/// Whether what is in such a block holds for everybody.
fn is_always(rule: &str) -> bool {
    let (name, condition) =
        rule.split_at(rule.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rule.len()));
    match &*name.to_ascii_lowercase() {
        "media" => is_for_screens(Some(condition)),
        "layer" | "supports" => true,
        _ => false,
    }
}

/// Where one of these characters stands that isn't in a comment.
fn find_outside_of_comments(css: &str, wanted: &[char]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + css[from..].find(|c| c == '/' || wanted.contains(&c))?;
        match css[at..].strip_prefix("/*") {
            Some(comment) => from = at + 2 + comment.find("*/")? + 2,
            None if css[at..].starts_with('/') => from = at + 1,
            None => return Some(at),
        }
    }
}

/// Where the bracket stands that closes a block, or the end.
fn block_end(css: &str) -> usize {
    let (mut at, mut depth) = (0, 1_usize);
    while let Some(found) = find_outside_of_comments(&css[at..], &['{', '}']) {
        at += found;
        depth = if css[at..].starts_with('{') { depth + 1 } else { depth - 1 };
        if depth == 0 {
            return at;
        }
        at += 1;
    }
    css.len()
}

fn without_comments(css: &str) -> String {
    let mut text = String::new();
    let mut rest = css;
    while let Some((before, comment)) = rest.split_once("/*") {
        text.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the elements with an id are hidden.
    #[track_caller]
    fn check(html: &str, expected: &str) {
        let mut sheet = StyleSheet::from_html(html);
        let mut hidden = Vec::new();
        for token in HtmlTokenizer::new(html) {
            if let HtmlToken::Open(tag) = token
                && let Some(id) = tag.attribute("id")
                && sheet.hides(&tag)
            {
                hidden.push(id);
            }
        }
        assert_eq!(hidden.join(" "), expected, "{html}");
    }

    #[test]
    fn inline_styles_hide() {
        for css in [
            "display:none",
            "DISPLAY : None !important",
            "color:red;display:/**/none",
            "d\\69splay:none",
            "display&colon;none",
            "visibility:hidden",
            "opacity:0",
            "opacity: 0.0",
            "opacity:0%",
            "font-size:0",
            "font-size:1px",
            "font:0px/1 x",
            "color:transparent",
            "color:rgba(0, 0, 0, 0)",
            "color:#ffffff00",
            "clip:rect(0 0 0 0)",
            "clip-path:inset(100%)",
            "text-indent:-9999px",
            "position:absolute;left:-9999px",
            "margin-left:-1000em",
            "transform:scale(0)",
            "transform:translateX(-9999px)",
            "height:0;overflow:hidden",
            "width:1px;height:1px;overflow:hidden",
            "content-visibility:hidden",
            "filter:opacity(0)",
        ] {
            check(&format!("<p id=x style=\"{css}\">"), "x");
        }
        for css in [
            "",
            "display:block",
            "opacity:0.5",
            "opacity:1",
            "font-size:12px",
            "color:#fff",
            "color:#fff0f0",
            "color:transparent;background-clip:text",
            "opacity:0;animation:fade 1s",
            "height:0",
            "overflow:hidden",
            "left:-10px",
            "margin:-1px",
            "display:none;display:block",
            "transform:scale(1.1)",
            "text-indent:-1em",
        ] {
            check(&format!("<p id=x style=\"{css}\">"), "");
        }
    }

    #[test]
    fn simple_selectors_hide() {
        check("<style>.a{display:none}</style><p id=x class='b a'><p id=y class=b>", "x");
        check("<p id=x class=a><style>#x , .b { color: red ; opacity : 0 }</style><p id=y class=b>", "x y");
        check("<style>/* { */.a/**/{/*}*/display:none}</style><i id=x class=a>", "x");
        check(
            "<style>p.a.b{display:none}</style><p id=x class='a b'><p id=y class=a><i id=z class='a b'>",
            "x",
        );
        check("<style>.md\\:hide{display:none}</style><p id=x class=md:hide>", "x");
        check("<style>aside{display:none}my-x{display:none}</style><aside id=x></aside><my-x id=y>", "x y");
        check(
            "<style>@media screen{.a{display:none}}@layer x{.b{display:none}}</style><p id=x class=a><p id=y class=b>",
            "x y",
        );
        check("<style media=screen>.a{display:none}</style><p id=x class=a>", "x");
        check("<style>.a{display:none", "");
        check("<style>@import 'x';.a{display:none}</style><p id=x class=a>", "x");
    }

    #[test]
    fn other_rules_hide_nothing() {
        for css in [
            ".b .a{display:none}",
            ".a:hover{display:none}",
            ".a::before{display:none}",
            ".b>.a{display:none}",
            "[class=a]{display:none}",
            "@media print{.a{display:none}}",
            "@media (max-width:600px){.a{display:none}}",
            "@keyframes a{from{opacity:0}}",
            ".a{opacity:0;transition:opacity 1s}",
            "/*.a{display:none}*/",
            ".A{display:none}",
            "*{display:none}",
        ] {
            check(&format!("<style>{css}</style><p id=x class=a>"), "");
        }
        check("<style media=print>.a{display:none}</style><p id=x class=a>", "");
        check("<script>.a{display:none}</script><p id=x class=a>", "");
    }

    #[test]
    fn the_cascade_decides() {
        check(
            "<style>.t{display:none}.t.on{display:block}</style><p id=x class=t><p id=y class='t on'>",
            "x",
        );
        check("<style>.t{display:block}.t{display:none}</style><p id=x class=t>", "x");
        check("<style>.t{display:none}.t{display:block}</style><p id=x class=t>", "");
        check("<style>#x{display:block}.t{display:none}</style><p id=x class=t>", "");
        check("<style>.t{display:none!important}#x{display:block}</style><p id=x class=t>", "x");
        check("<style>.t{display:none}</style><p id=x class=t style='display:block'>", "");
        check("<style>.t{display:none!important}</style><p id=x class=t style='display:block'>", "x");
        check("<style>.t{visibility:hidden}.t{display:block}</style><p id=x class=t>", "x");
    }

    #[test]
    fn sheets_that_were_made_to_be_slow_are_not() {
        let n = 20_000;
        for css in [
            ".a{display:none}".repeat(n),
            "{".repeat(n),
            "@media all{".repeat(n),
            "/*".repeat(n),
            "/".repeat(n),
            format!("{}{{display:none}}", ".a".repeat(n)),
            format!("{}{{display:none}}", ".a,".repeat(n)),
            (0..n).map(|number| format!(".a.b{number}{{display:none}}")).collect(),
            format!(".a{{{}}}", "display:none;".repeat(n)),
            "\\".repeat(n),
        ] {
            let html = format!("<style>{css}</style>{}", "<p class='a b c d e f' style='a:b'>".repeat(n));
            let mut sheet = StyleSheet::from_html(&html);
            let tags = HtmlTokenizer::new(&html);
            let _ = tags.filter(|token| matches!(token, HtmlToken::Open(tag) if sheet.hides(tag))).count();
        }
    }
}
