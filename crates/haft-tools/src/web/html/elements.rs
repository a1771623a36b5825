//! The stack of open elements: which of them a tag ends.
//!
//! Many elements have no end tag (`p`, `li`, `td` …), and many end tags have no element. The rules here are
//! those of a browser's tree builder as far as they decide what lies in what: headings, lists, tables, the
//! main content and hidden text all end where this stack says. No tree is made, and the stack has a bound, so
//! the work for a tag is bounded, too.

use super::is_block;
use super::tokenizer::{ElementName, OpenTag};

/// How many elements are open at once; deeper ones are read as if they were not there.
pub(super) const DEPTH_MAX: usize = 200;

/// An element that was opened and not ended.
#[derive(Debug)]
pub(super) struct OpenElement<'a, R> {
    pub(super) name: ElementName,
    /// The name as the page writes it, by which elements without a meaning here are told apart.
    text: &'a str,
    /// What has to be done at its end, if anything.
    pub(super) role: Option<R>,
}

/// What became of an element that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pushed {
    /// It is open, at this place.
    At(usize),
    /// Nothing can lie in it, or all of the page does.
    Nothing,
    /// There is no room for it.
    Full,
}

/// The open elements, innermost last. `R` is what has to be done at the end of one.
#[derive(Debug)]
pub(super) struct ElementStack<'a, R>(Vec<OpenElement<'a, R>>);

impl<'a, R> ElementStack<'a, R> {
    pub(super) fn new() -> ElementStack<'a, R> {
        ElementStack(Vec::new())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn name(&self, place: usize) -> ElementName {
        self.0[place].name
    }

    pub(super) fn push(&mut self, tag: &OpenTag<'a>) -> Pushed {
        let is_whole_page = matches!(tag.name, ElementName::Html | ElementName::Head | ElementName::Body);
        if tag.name.is_void() || is_whole_page || (tag.is_self_closing() && self.is_in_foreign_content()) {
            return Pushed::Nothing;
        }
        if self.len() == DEPTH_MAX {
            return Pushed::Full;
        }
        self.0.push(OpenElement { name: tag.name, text: tag.text, role: None });
        Pushed::At(self.len() - 1)
    }

    pub(super) fn remove(&mut self, place: usize) -> OpenElement<'a, R> {
        self.0.remove(place)
    }

    pub(super) fn set_role(&mut self, place: usize, role: R) {
        self.0[place].role = Some(role);
    }

    /// The roles of the open elements, innermost first.
    pub(super) fn roles(&self) -> impl Iterator<Item = &R> {
        self.0.iter().rev().filter_map(|element| element.role.as_ref())
    }

    /// The same, to be changed.
    pub(super) fn roles_mut(&mut self) -> impl Iterator<Item = &mut R> {
        self.0.iter_mut().rev().filter_map(|element| element.role.as_mut())
    }

    /// Returns the place of the outermost element that ends because another one begins.
    pub(super) fn ended_by_start(&self, name: ElementName) -> Option<usize> {
        use ElementName::*;
        match name {
            A => self.ended_by_end(A, ""),
            Li => self.outermost(&[Li], |name| is_scope(name) || matches!(name, Ul | Ol | Menu)),
            Dt | Dd => self.outermost(&[Dt, Dd], |name| is_scope(name) || name == Dl),
            Td | Th | Caption => self.outermost(&CELLS, |name| name == Table),
            Tr => self.outermost(&ROWS, |name| name == Table),
            Tbody | Thead | Tfoot => self.outermost(&ROW_GROUPS, |name| name == Table),
            H1 | H2 | H3 | H4 | H5 | H6 => self.outermost(&[P, H1, H2, H3, H4, H5, H6], is_scope),
            Hr | Ol | Table | Ul | Menu | Xmp => self.outermost(&[P], is_scope),
            _ if is_block(name) => self.outermost(&[P], is_scope),
            _ => None,
        }
    }

    /// Returns the place of the element that an end tag ends.
    pub(super) fn ended_by_end(&self, name: ElementName, text: &str) -> Option<usize> {
        let is_same = |element: &OpenElement<'_, R>| match name {
            ElementName::Other => element.name == name && element.text.eq_ignore_ascii_case(text),
            _ if is_heading(name) => is_heading(element.name),
            _ => element.name == name,
        };
        let is_boundary = |other: ElementName| match () {
            () if is_of_table(name) => other == ElementName::Table,
            () if is_special(name) || is_formatting(name) => is_scope(other),
            // One without rules of its own ends nothing that has some.
            () => is_scope(other) || is_special(other),
        };
        for (place, element) in self.0.iter().enumerate().rev() {
            if is_same(element) {
                return Some(place);
            }
            if is_boundary(element.name) {
                return None;
            }
        }
        None
    }

    fn outermost(&self, names: &[ElementName], is_boundary: impl Fn(ElementName) -> bool) -> Option<usize> {
        let mut found = None;
        for (place, element) in self.0.iter().enumerate().rev() {
            if names.contains(&element.name) {
                found = Some(place);
            } else if is_boundary(element.name) {
                break;
            }
        }
        found
    }

    /// Whether this is the inside of a drawing or a formula, where a tag may end itself.
    fn is_in_foreign_content(&self) -> bool {
        self.0.iter().any(|open| open.name == ElementName::Svg || open.text.eq_ignore_ascii_case("math"))
    }
}

const CELLS: [ElementName; 3] = [ElementName::Td, ElementName::Th, ElementName::Caption];
const ROWS: [ElementName; 4] = [ElementName::Tr, ElementName::Td, ElementName::Th, ElementName::Caption];
const ROW_GROUPS: [ElementName; 7] = [
    ElementName::Tbody,
    ElementName::Thead,
    ElementName::Tfoot,
    ElementName::Tr,
    ElementName::Td,
    ElementName::Th,
    ElementName::Caption,
];

/// Whether the end of an element leaves those open that were opened in it.
pub(super) fn is_formatting(name: ElementName) -> bool {
    use ElementName::*;
    matches!(name, A | B | Code | Em | Font | I | S | Small | Strike | Strong | Tt | U)
}

fn is_heading(name: ElementName) -> bool {
    use ElementName::*;
    matches!(name, H1 | H2 | H3 | H4 | H5 | H6)
}

fn is_of_table(name: ElementName) -> bool {
    use ElementName::*;
    matches!(name, Table | Caption | Tr | Td | Th | Tbody | Thead | Tfoot)
}

/// Whether tags in an element end nothing around it.
fn is_scope(name: ElementName) -> bool {
    use ElementName::*;
    matches!(name, Table | Caption | Td | Th | Template | Object)
}

/// Whether an element is one of those whose place in the page decides what lies in what.
fn is_special(name: ElementName) -> bool {
    use ElementName::*;
    is_block(name)
        || is_heading(name)
        || is_of_table(name)
        || matches!(name, Ul | Ol | Menu | Li | Dt | Dd | Xmp | Svg)
}
