//! The path in `Read(…)` and `Edit(…)`: where it is anchored, its segments, and how far below it reaches.
//!
//! The syntax is gitignore's. Where that leaves room, a rule that stops reaches further than a rule that lets through:
//! `secrets/*` denies everything below `secrets` but allows only what lies directly in it, `src/**` denies any folder
//! named `src` but allows only the one in the working directory.

use std::fmt;
use std::path::{Component, Path};

use super::pattern::{Segment, Shape};
use crate::source::List;

/// How many segments a path in a rule may have.
pub const SEGMENTS_MAX: usize = 128;

/// A path as a rule writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathSpec {
    pub(super) anchor: Anchor,
    pub(super) steps: Vec<Step>,
    pub(super) end: End,
}

/// Where the first segment is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    /// `//p`: the root of the file system.
    Root,
    /// `~/p`: the user's home.
    Home,
    /// `/p`: the directory of the settings that hold the rule.
    Source,
    /// `p` and `./p`: the working directory.
    Cwd,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// `**`: any number of folders, also none.
    Any,
    One(Segment),
}

/// What is matched at the last segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum End {
    /// That file or folder.
    Itself,
    /// That, and everything below it.
    Tree,
    /// Everything below it.
    Below,
}

/// What is wrong with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadPath {
    /// It begins with `!`.
    Excepts,
    /// It has a `..` in it.
    GoesUp,
    /// It has that many segments.
    Long(usize),
}

impl fmt::Display for BadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadPath::Excepts => f.write_str(
                "a path can't begin with `!`: nothing is excepted from a rule; for a file whose name begins so \
                 write `\\!`",
            ),
            BadPath::GoesUp => f.write_str(
                "a path can't go up with `..`: a rule matches only below its anchor; write `//` and the absolute \
                 path, or `~/` and the path from home",
            ),
            BadPath::Long(segments) => {
                write!(f, "a path of {segments} segments; at most {SEGMENTS_MAX} are accepted")
            }
        }
    }
}

impl PathSpec {
    /// Reads the text between the parentheses.
    ///
    /// # Errors
    /// What is wrong and what to write instead.
    pub(super) fn parse(text: &str, list: List) -> Result<PathSpec, BadPath> {
        let drive = from_drive(text);
        let text = drive.as_deref().unwrap_or(text);
        let text = without_trailing_blanks(text);
        if text.starts_with('!') {
            return Err(BadPath::Excepts);
        }
        let (anchor, rest) = if let Some(rest) = text.strip_prefix("//") {
            (Anchor::Root, rest)
        } else if let Some(rest) = text.strip_prefix("~/").or((text == "~").then_some("")) {
            (Anchor::Home, rest)
        } else if let Some(rest) = text.strip_prefix('/') {
            (Anchor::Source, rest)
        } else {
            (Anchor::Cwd, text)
        };
        let dotted = anchor == Anchor::Cwd && rest.starts_with("./");
        let mut steps: Vec<Step> = Vec::new();
        for segment in rest.split('/') {
            match segment {
                "" | "." => {}
                ".." => return Err(BadPath::GoesUp),
                "**" if steps.last() == Some(&Step::Any) => {}
                "**" => steps.push(Step::Any),
                name => steps.push(Step::One(Segment::new(name))),
            }
        }
        if steps.len() > SEGMENTS_MAX {
            return Err(BadPath::Long(steps.len()));
        }
        Ok(Self::ended(anchor, steps, dotted, rest.ends_with('/'), list))
    }

    fn ended(anchor: Anchor, mut steps: Vec<Step>, dotted: bool, slash: bool, list: List) -> PathSpec {
        let allows = list == List::Allow;
        let all_below = steps.pop_if(|last| *last == Step::Any).is_some();
        let wild = matches!(steps.last(), Some(Step::One(segment)) if segment.exact().is_none());
        let end = match () {
            () if all_below => End::Below,
            () if slash && allows && !steps.is_empty() => End::Below,
            () if wild && allows => End::Itself,
            () => End::Tree,
        };
        let folder = all_below || slash;
        let any_depth = anchor == Anchor::Cwd
            && matches!(&*steps, [Step::One(_)])
            && if allows { !folder && !dotted } else { true };
        if any_depth {
            steps.insert(0, Step::Any);
        }
        PathSpec { anchor, steps, end }
    }
}

impl PathSpec {
    /// The names with which it begins, before the first wildcard.
    pub(super) fn names(&self) -> Vec<&str> {
        self.names_after(0)
    }

    /// The names after so many segments, before the next wildcard.
    pub(super) fn names_after(&self, skipped: usize) -> Vec<&str> {
        let steps = self.steps.iter().skip(skipped);
        steps.map_while(|step| if let Step::One(segment) = step { segment.exact() } else { None }).collect()
    }
}

/// A path of another system, `C:\x`, as it is written here: `//c/x`.
fn from_drive(text: &str) -> Option<String> {
    let mut letters = text.chars();
    let drive = letters.next().filter(char::is_ascii_alphabetic)?;
    let rest = letters.as_str().strip_prefix(':')?;
    let rest = rest.strip_prefix(['\\', '/'])?;
    Some(format!("//{}/{}", drive.to_ascii_lowercase(), rest.replace('\\', "/")))
}

/// Blanks at the end don't count unless a backslash keeps them.
fn without_trailing_blanks(text: &str) -> &str {
    let kept = text.trim_end_matches(' ');
    let backslashes = kept.len() - kept.trim_end_matches('\\').len();
    if kept.len() < text.len() && backslashes % 2 == 1 { &text[..=kept.len()] } else { kept }
}

/// The rule's text for exactly this absolute path; `below` for everything below it instead.
pub(super) fn written(path: &Path, below: bool) -> Option<String> {
    let mut text = String::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => {
                text.push('/');
                text.push_str(&Segment::escape(name.to_str()?));
            }
            Component::RootDir => {}
            _ => return None,
        }
    }
    if below {
        text.push_str("/**");
    } else if text == "/" {
        text.push('/');
    }
    if text.ends_with(' ') {
        text.insert(text.len() - 1, '\\');
    }
    Some(text)
}

/// The names of an absolute path, one after the other in one buffer; `..` takes one away.
#[derive(Debug, Default)]
pub(super) struct Names {
    text: String,
    ends: Vec<usize>,
}

impl Names {
    pub(super) fn of(path: &Path, folded: bool) -> Names {
        let path = path.to_string_lossy();
        let mut names = Names { text: String::with_capacity(path.len()), ends: Vec::with_capacity(16) };
        for name in path.split('/') {
            match name {
                "" | "." => {}
                ".." => {
                    names.ends.pop();
                    names.text.truncate(names.ends.last().copied().unwrap_or(0));
                }
                name => {
                    if folded {
                        super::fold::fold_into(name, &mut names.text);
                    } else {
                        names.text.push_str(name);
                    }
                    names.ends.push(names.text.len());
                }
            }
        }
        names
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..*end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_path_are_plain() {
        let names = |path: &str, folded| {
            Names::of(Path::new(path), folded).iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(names("/w/./A//b/../c/", false), ["w", "A", "c"]);
        assert_eq!(names("/W/\u{c9}a", true), ["w", "\u{e9}a"]);
        assert_eq!(names("/../..", false), Vec::<String>::new());
    }

    #[test]
    fn blanks_at_the_end_need_a_backslash() {
        assert_eq!(without_trailing_blanks("a  "), "a");
        assert_eq!(without_trailing_blanks(r"a\  "), r"a\ ");
        assert_eq!(without_trailing_blanks(r"a\\ "), r"a\\");
        assert_eq!(without_trailing_blanks(r"a\"), r"a\");
    }

    #[test]
    fn a_written_path_is_escaped() {
        let check = |path: &str, text: &str| {
            assert_eq!(written(Path::new(path), false).as_deref(), Some(text));
        };
        check("/w/a.rs", "//w/a.rs");
        check("/w/[a]*?/b ", r"//w/\[a\]\*\?/b\ ");
        check("/", "//");
        assert_eq!(written(Path::new("/w"), true).as_deref(), Some("//w/**"));
        assert_eq!(written(Path::new("/"), true).as_deref(), Some("//**"));
        assert_eq!(written(Path::new("w"), false).as_deref(), Some("//w"));
    }
}
