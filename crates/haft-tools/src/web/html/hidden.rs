//! The extent of an element that is passed over: from its tag to where a browser ends it.
//!
//! The ends of some elements may be left out (`p`, `li`, `td` …); another tag ends them then, or the end of the element around
//! them. Which elements are around is followed as far as it matters for that. Where a page nests too deeply to tell, an
//! element is taken to go on: what was hidden is rather lost than shown.

use super::is_block;
use super::tokens::{Name, Tag};

/// How deep elements are followed.
const DEPTH_MAX: usize = 200;

/// An element that is passed over, and what was opened in it.
pub(super) struct Skipped<'a> {
    open: Vec<(Name, &'a str)>,
    /// More was opened in it than can be followed.
    is_endless: bool,
}

/// What a tag means for an element that is passed over.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Extent {
    GoesOn,
    /// It ends with this tag, which was its own.
    Ends,
    /// It has ended before this tag, which belongs to what follows.
    Ended,
}

impl<'a> Skipped<'a> {
    pub(super) fn new(tag: &Tag<'a>) -> Skipped<'a> {
        Skipped { open: vec![(tag.name, tag.text)], is_endless: false }
    }

    pub(super) fn name(&self) -> Name {
        self.open[0].0
    }

    pub(super) fn opened(&mut self, tag: &Tag<'a>) -> Extent {
        if !self.is_endless && self.is_ended_by(tag.name) {
            return Extent::Ended;
        }
        if self.open.len() >= DEPTH_MAX {
            self.is_endless = true;
        } else if !tag.name.is_void() {
            self.open.push((tag.name, tag.text));
        }
        Extent::GoesOn
    }

    /// `around` are the elements that it lies in.
    pub(super) fn closed(&mut self, name: Name, text: &str, around: &Around) -> Extent {
        let same = |(open, open_text): &(Name, &str)| {
            *open == name && (name != Name::Other || open_text.eq_ignore_ascii_case(text))
        };
        if self.is_endless {
            return Extent::GoesOn;
        }
        match self.open.iter().rposition(same) {
            Some(0) => Extent::Ends,
            Some(at) => {
                self.open.truncate(at);
                Extent::GoesOn
            }
            None if self.may_lack_end() && around.is_closed_by(name) => Extent::Ended,
            None => Extent::GoesOn,
        }
    }

    fn may_lack_end(&self) -> bool {
        use Name::*;
        matches!(self.name(), P | Li | Dt | Dd | Td | Th | Tr | Tbody | Thead | Tfoot | Caption)
    }

    /// Whether an element that opens now ends this one.
    fn is_ended_by(&self, name: Name) -> bool {
        use Name::*;
        let has_inside = |wanted: &[Name]| self.open[1..].iter().any(|(open, _)| wanted.contains(open));
        let is_row_group = matches!(name, Tbody | Thead | Tfoot);
        match self.name() {
            _ if has_inside(&[Table]) => false,
            P => {
                is_block(name)
                    || matches!(name, H1 | H2 | H3 | H4 | H5 | H6 | Hr | Ol | Table | Ul | Menu | Xmp)
            }
            Li => name == Li && !has_inside(&[Ul, Ol, Menu]),
            Dt | Dd => matches!(name, Dt | Dd) && !has_inside(&[Dl]),
            Td | Th => matches!(name, Td | Th | Tr) || is_row_group,
            Tr => name == Tr || is_row_group,
            Tbody | Thead | Tfoot => is_row_group,
            Caption => matches!(name, Td | Th | Tr) || is_row_group,
            _ => false,
        }
    }
}

/// The elements around the place where a page is read, of the kinds whose end ends others.
#[derive(Default)]
pub(super) struct Around(Vec<Name>);

impl Around {
    pub(super) fn opened(&mut self, name: Name) {
        // What isn't followed can end nothing.
        if is_container(name) && self.0.len() < DEPTH_MAX {
            self.0.push(name);
        }
    }

    pub(super) fn closed(&mut self, name: Name) {
        if let Some(at) = self.find(name) {
            self.0.truncate(at);
        }
    }

    fn is_closed_by(&self, name: Name) -> bool {
        self.find(name).is_some()
    }

    /// What lies in a cell ends with it; nothing in it closes what is around the table.
    fn find(&self, name: Name) -> Option<usize> {
        use Name::*;
        let is_of_table =
            |name: &Name| matches!(name, Table | Caption | Tr | Td | Th | Tbody | Thead | Tfoot);
        let at =
            self.0.iter().rposition(|open| *open == name || (!is_of_table(&name) && is_of_table(open)))?;
        (self.0[at] == name).then_some(at)
    }
}

fn is_container(name: Name) -> bool {
    use Name::*;
    let lists = matches!(name, Ul | Ol | Menu | Li | Dt | Dd);
    let tables = matches!(name, Table | Caption | Tr | Td | Th | Tbody | Thead | Tfoot);
    lists || tables || (is_block(name) && !matches!(name, P | Body))
}
