//! The path in `Read(…)` and `Edit(…)`: its anchor, its segments, and how far below it reaches.
//!
//! The syntax is gitignore's. Where gitignore's syntax is ambiguous, deny and ask rules match more than
//! allow rules: `secrets/*` denies everything below `secrets` but allows only its direct children. `src/**`
//! denies any folder named `src` but allows only the one in the working directory.

use std::fmt;
use std::path::{Component, Path};

use super::pattern::{IndexedPattern, SegmentPattern};
use crate::source::RuleList;

/// The maximum number of segments in a rule's path.
pub const SEGMENTS_MAX: usize = 128;

/// The path of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathSpec {
    pub(super) anchor: PathAnchor,
    pub(super) steps: Vec<PathStep>,
    pub(super) end: PathEnd,
}

/// The directory that the first segment is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathAnchor {
    /// `//p`: the root of the file system.
    Root,
    /// `~/p`: the user's home directory.
    Home,
    /// `/p`: the directory of the settings file that contains the rule.
    Source,
    /// `p` and `./p`: the working directory.
    Cwd,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum PathStep {
    /// `**`: any number of folders, including none.
    Any,
    One(SegmentPattern),
}

/// What the last segment matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PathEnd {
    /// That file or folder.
    Itself,
    /// That path and everything below it.
    Tree,
    /// Everything below it.
    Below,
}

/// The reason why a path is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InvalidPathSpec {
    /// The path begins with `!`.
    Excepts,
    /// The path contains `..`.
    GoesUp,
    /// The path has too many segments; the field is their number.
    Long(usize),
}

impl fmt::Display for InvalidPathSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidPathSpec::Excepts => f.write_str(
                "a path can't begin with `!`: nothing is excepted from a rule; for a file whose name begins so \
                 write `\\!`",
            ),
            InvalidPathSpec::GoesUp => f.write_str(
                "a path can't go up with `..`: a rule matches only below its anchor; write `//` and the absolute \
                 path, or `~/` and the path from home",
            ),
            InvalidPathSpec::Long(segments) => {
                write!(f, "a path of {segments} segments; at most {SEGMENTS_MAX} are accepted")
            }
        }
    }
}

impl PathSpec {
    /// Parses the text between the parentheses.
    ///
    /// # Errors
    /// Returns the reason why the path is invalid.
    pub(super) fn parse(text: &str, list: RuleList) -> Result<PathSpec, InvalidPathSpec> {
        let drive = from_drive(text);
        let text = drive.as_deref().unwrap_or(text);
        let text = without_trailing_blanks(text);
        if text.starts_with('!') {
            return Err(InvalidPathSpec::Excepts);
        }
        let (anchor, rest) = if let Some(rest) = text.strip_prefix("//") {
            (PathAnchor::Root, rest)
        } else if let Some(rest) = text.strip_prefix("~/").or((text == "~").then_some("")) {
            (PathAnchor::Home, rest)
        } else if let Some(rest) = text.strip_prefix('/') {
            (PathAnchor::Source, rest)
        } else {
            (PathAnchor::Cwd, text)
        };
        let dotted = anchor == PathAnchor::Cwd && rest.starts_with("./");
        let mut steps: Vec<PathStep> = Vec::new();
        for segment in rest.split('/') {
            match segment {
                "" | "." => {}
                ".." => return Err(InvalidPathSpec::GoesUp),
                "**" if steps.last() == Some(&PathStep::Any) => {}
                "**" => steps.push(PathStep::Any),
                name => steps.push(PathStep::One(SegmentPattern::new(name))),
            }
        }
        if steps.len() > SEGMENTS_MAX {
            return Err(InvalidPathSpec::Long(steps.len()));
        }
        Ok(Self::ended(anchor, steps, dotted, rest.ends_with('/'), list))
    }

    fn ended(
        anchor: PathAnchor,
        mut steps: Vec<PathStep>,
        dotted: bool,
        slash: bool,
        list: RuleList,
    ) -> PathSpec {
        let allows = list == RuleList::Allow;
        let all_below = steps.pop_if(|last| *last == PathStep::Any).is_some();
        let wild = matches!(steps.last(), Some(PathStep::One(segment)) if segment.exact().is_none());
        let end = match () {
            () if all_below => PathEnd::Below,
            () if slash && allows && !steps.is_empty() => PathEnd::Below,
            () if wild && allows => PathEnd::Itself,
            () => PathEnd::Tree,
        };
        let folder = all_below || slash;
        let any_depth = anchor == PathAnchor::Cwd
            && matches!(&*steps, [PathStep::One(_)])
            && if allows { !folder && !dotted } else { true };
        if any_depth {
            steps.insert(0, PathStep::Any);
        }
        PathSpec { anchor, steps, end }
    }
}

impl PathSpec {
    /// Returns the leading names before the first wildcard.
    pub(super) fn names(&self) -> Vec<&str> {
        self.names_after(0)
    }

    /// Returns the names after `skipped` segments, before the next wildcard.
    pub(super) fn names_after(&self, skipped: usize) -> Vec<&str> {
        let steps = self.steps.iter().skip(skipped);
        steps
            .map_while(|step| if let PathStep::One(segment) = step { segment.exact() } else { None })
            .collect()
    }
}

/// Converts a Windows path, `C:\x`, to the rule syntax, `//c/x`.
fn from_drive(text: &str) -> Option<String> {
    let mut letters = text.chars();
    let drive = letters.next().filter(char::is_ascii_alphabetic)?;
    let rest = letters.as_str().strip_prefix(':')?;
    let rest = rest.strip_prefix(['\\', '/'])?;
    Some(format!("//{}/{}", drive.to_ascii_lowercase(), rest.replace('\\', "/")))
}

/// Removes trailing spaces that no backslash escapes.
fn without_trailing_blanks(text: &str) -> &str {
    let kept = text.trim_end_matches(' ');
    let backslashes = kept.len() - kept.trim_end_matches('\\').len();
    if kept.len() < text.len() && backslashes % 2 == 1 { &text[..=kept.len()] } else { kept }
}

/// Returns the rule text for exactly this absolute path, or for everything below it if `below` is set.
pub(super) fn path_rule_text(path: &Path, below: bool) -> Option<String> {
    let mut text = String::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => {
                text.push('/');
                text.push_str(&SegmentPattern::escape(name.to_str()?));
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

/// The names of an absolute path in one buffer. `..` removes the previous name.
#[derive(Debug, Default)]
pub(super) struct PathNames {
    text: String,
    ends: Vec<usize>,
}

impl PathNames {
    pub(super) fn from_path(path: &Path, folded: bool) -> PathNames {
        let path = path.to_string_lossy();
        let mut names = PathNames { text: String::with_capacity(path.len()), ends: Vec::with_capacity(16) };
        for name in path.split('/') {
            match name {
                "" | "." => {}
                ".." => {
                    names.ends.pop();
                    names.text.truncate(names.ends.last().copied().unwrap_or(0));
                }
                name => {
                    if folded {
                        super::fold_names::fold_into(name, &mut names.text);
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
            PathNames::from_path(Path::new(path), folded).iter().map(str::to_owned).collect::<Vec<_>>()
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
            assert_eq!(path_rule_text(Path::new(path), false).as_deref(), Some(text));
        };
        check("/w/a.rs", "//w/a.rs");
        check("/w/[a]*?/b ", r"//w/\[a\]\*\?/b\ ");
        check("/", "//");
        assert_eq!(path_rule_text(Path::new("/w"), true).as_deref(), Some("//w/**"));
        assert_eq!(path_rule_text(Path::new("/"), true).as_deref(), Some("//**"));
        assert_eq!(path_rule_text(Path::new("w"), false).as_deref(), Some("//w"));
    }
}
