//! The form of a patch: sections for files, changes in them, lines with a sign.
//!
//! What surrounds the patch when a model writes it as a command (`apply_patch <<'EOF'`, a code fence) is left
//! out. A line without a sign that is empty counts as an empty line that stays, because the space before it
//! often gets lost.

use std::path::{Path, PathBuf};

use haft::ToolError;
use haft::text::truncate_chars;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";

/// One section of a patch.
#[derive(Debug, PartialEq)]
pub(super) enum PatchSection {
    Add { path: PathBuf, text: String },
    Delete { path: PathBuf },
    Update { path: PathBuf, to: Option<PathBuf>, hunks: Vec<PatchHunk> },
}

/// One change in a file.
#[derive(Debug, PartialEq, Default)]
pub(super) struct PatchHunk {
    /// Lines of the file that lead to the place, each after the one before.
    pub(super) headers: Vec<String>,
    pub(super) lines: Vec<PatchLine>,
    /// The change is at the end of the file.
    pub(super) at_end: bool,
    /// Where it begins in the patch, counted from 1.
    pub(super) number: usize,
}

#[derive(Debug, PartialEq)]
pub(super) enum PatchLine {
    Stays(String),
    Goes(String),
    Comes(String),
}

impl PatchSection {
    pub(super) fn path(&self) -> &Path {
        match self {
            PatchSection::Add { path, .. }
            | PatchSection::Delete { path }
            | PatchSection::Update { path, .. } => path,
        }
    }

    pub(super) fn to(&self) -> Option<&Path> {
        match self {
            PatchSection::Update { to, .. } => to.as_deref(),
            _ => None,
        }
    }
}

/// The sections of a patch.
pub(super) fn parse_patch(patch: &str) -> Result<Vec<PatchSection>, ToolError> {
    let senseless = |words: String| Err(ToolError::invalid_input(words));
    let lines: Vec<&str> = patch.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let Some(begin) = lines.iter().position(|line| line.trim() == BEGIN) else {
        return senseless(format!(
            "`input` is no patch: it has no line `{BEGIN}`; a patch begins with it and ends with `{END}`"
        ));
    };
    let Some(end) = lines.iter().rposition(|line| line.trim() == END).filter(|end| *end > begin) else {
        return senseless(format!("the patch has no line `{END}`; it may be cut off, give all of it"));
    };
    let mut sections: Vec<PatchSection> = Vec::new();
    for (at, line) in lines.iter().enumerate().take(end).skip(begin + 1) {
        let number = at + 1;
        let path = |prefix: &str| line.trim_end().strip_prefix(prefix.trim_end()).map(str::trim);
        if let Some(path) = path(ADD) {
            sections.push(PatchSection::Add { path: path.into(), text: String::new() });
        } else if let Some(path) = path(DELETE) {
            sections.push(PatchSection::Delete { path: path.into() });
        } else if let Some(path) = path(UPDATE) {
            sections.push(PatchSection::Update { path: path.into(), to: None, hunks: Vec::new() });
        } else {
            match sections.last_mut() {
                Some(PatchSection::Add { text, .. }) => match line.strip_prefix('+') {
                    Some(line) => {
                        text.push_str(line);
                        text.push('\n');
                    }
                    None if line.trim().is_empty() => {}
                    None => {
                        return senseless(wrong_line(
                            number,
                            line,
                            "every line of a new file begins with `+`",
                        ));
                    }
                },
                Some(PatchSection::Update { to, hunks, .. }) => match path(MOVE) {
                    Some(path) if hunks.is_empty() && to.is_none() => *to = Some(path.into()),
                    _ => parse_change(hunks, line, number)?,
                },
                _ if line.trim().is_empty() => {}
                _ => {
                    let wanted = "`*** Add File: `, `*** Update File: ` or `*** Delete File: ` comes first";
                    return senseless(wrong_line(number, line, wanted));
                }
            }
        }
    }
    if sections.is_empty() {
        return senseless("the patch names no file, so nothing would change".to_owned());
    }
    for section in &mut sections {
        if let PatchSection::Update { path, to, hunks } = section {
            hunks.iter_mut().for_each(PatchHunk::tidy);
            hunks.retain(|hunk| !hunk.lines.is_empty());
            let changes =
                |hunk: &PatchHunk| hunk.lines.iter().any(|line| !matches!(line, PatchLine::Stays(_)));
            if to.is_none() && !hunks.iter().any(changes) {
                return senseless(format!(
                    "the section for `{}` changes nothing; lines that go begin with `-`, lines that come with `+`",
                    path.display()
                ));
            }
        }
    }
    Ok(sections)
}

/// A line of a section that changes a file.
fn parse_change(hunks: &mut Vec<PatchHunk>, line: &str, number: usize) -> Result<(), ToolError> {
    if let Some(header) = line.strip_prefix("@@") {
        // `@@ -1,2 +1,2 @@` has numbers, which nobody trusts here, and perhaps a line after them.
        let header = match header.trim_start().strip_prefix('-').and_then(|rest| rest.split_once("@@")) {
            Some((_, after)) => after.trim(),
            None => header.strip_prefix(' ').unwrap_or(header),
        };
        let follows = hunks.last().is_some_and(|hunk| hunk.lines.is_empty());
        if !follows {
            hunks.push(PatchHunk { number, ..PatchHunk::default() });
        }
        if let Some(hunk) = hunks.last_mut().filter(|_| !header.trim().is_empty()) {
            hunk.headers.push(header.to_owned());
        }
        return Ok(());
    }
    if hunks.last().is_none_or(|hunk| hunk.at_end) {
        hunks.push(PatchHunk { number, ..PatchHunk::default() });
    }
    let Some(hunk) = hunks.last_mut() else { return Ok(()) };
    if line.trim_end() == END_OF_FILE {
        hunk.at_end = true;
        return Ok(());
    }
    let mut chars = line.chars();
    hunk.lines.push(match chars.next() {
        None => PatchLine::Stays(String::new()),
        Some(' ') => PatchLine::Stays(chars.as_str().to_owned()),
        Some('-') => PatchLine::Goes(chars.as_str().to_owned()),
        Some('+') => PatchLine::Comes(chars.as_str().to_owned()),
        Some(_) => {
            let wanted = "a line of a change begins with a space, `-` or `+`, and a new place with `@@`";
            return Err(ToolError::invalid_input(wrong_line(number, line, wanted)));
        }
    });
    Ok(())
}

impl PatchHunk {
    /// Empty lines before the next section are no part of the file.
    fn tidy(&mut self) {
        if !self.at_end && self.lines.iter().all(|line| *line == PatchLine::Stays(String::new())) {
            self.lines.clear();
        }
    }
}

fn wrong_line(number: usize, line: &str, wanted: &str) -> String {
    let shown = truncate_chars(line, 80);
    format!("line {number} of the patch is `{shown}`; {wanted}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(patch: &str, expected: &str) {
        let said = match parse_patch(patch) {
            Ok(sections) => sections.iter().map(show).collect::<Vec<_>>().join("; "),
            Err(error) => error.message().to_owned(),
        };
        assert_eq!(said, expected);
    }

    fn show(section: &PatchSection) -> String {
        match section {
            PatchSection::Add { path, text } => format!("add {} {text:?}", path.display()),
            PatchSection::Delete { path } => format!("delete {}", path.display()),
            PatchSection::Update { path, to, hunks } => {
                let hunks: Vec<String> = hunks.iter().map(show_hunk).collect();
                let to = to.as_ref().map(|to| format!(" to {}", to.display())).unwrap_or_default();
                format!("update {}{to} {}", path.display(), hunks.join(" "))
            }
        }
    }

    fn show_hunk(hunk: &PatchHunk) -> String {
        let lines: Vec<String> = hunk
            .lines
            .iter()
            .map(|line| match line {
                PatchLine::Stays(text) => format!("={text}"),
                PatchLine::Goes(text) => format!("-{text}"),
                PatchLine::Comes(text) => format!("+{text}"),
            })
            .collect();
        format!("[{}{}{}]", hunk.headers.join("/"), lines.join("|"), if hunk.at_end { "$" } else { "" })
    }

    #[test]
    fn sections_and_changes_are_told_apart() {
        check(
            "*** Begin Patch\n*** Add File: a b.txt\n+one\n+\n+two\n*** Delete File: c\n*** Update File: d\n\
             *** Move to: e\n@@ fn main() {\n-x\n+y\n\n z\n*** End of File\n*** End Patch\n",
            r#"add a b.txt "one\n\ntwo\n"; delete c; update d to e [fn main() {-x|+y|=|=z$]"#,
        );
        check(
            "*** Begin Patch\n*** Update File: d\n-x\n+y\n@@ a\n@@ b\n+c\n*** End Patch",
            "update d [-x|+y] [a/b+c]",
        );
        check(
            "*** Begin Patch\n*** Update File: d\n@@ -1,2 +3,4 @@ fn x\n-a\n*** End Patch",
            "update d [fn x-a]",
        );
        check(
            "apply_patch <<'EOF'\n*** Begin Patch\r\n*** Delete File: d\r\n*** End Patch\r\nEOF\n",
            "delete d",
        );
        check("*** Begin Patch\n*** Update File: d\n*** Move to: e\n*** End Patch", "update d to e ");
    }

    #[test]
    fn what_is_no_patch_is_told_why() {
        check(
            "hello",
            "`input` is no patch: it has no line `*** Begin Patch`; a patch begins with it and ends with `*** End Patch`",
        );
        check(
            "*** Begin Patch\n*** Delete File: d",
            "the patch has no line `*** End Patch`; it may be cut off, give all of it",
        );
        check("*** Begin Patch\n*** End Patch", "the patch names no file, so nothing would change");
        check(
            "*** Begin Patch\nx\n*** End Patch",
            "line 2 of the patch is `x`; `*** Add File: `, `*** Update File: ` or `*** Delete File: ` comes first",
        );
        check(
            "*** Begin Patch\n*** Update File: d\nx\n*** End Patch",
            "line 3 of the patch is `x`; a line of a change begins with a space, `-` or `+`, and a new place with `@@`",
        );
        check(
            "*** Begin Patch\n*** Update File: d\n x\n*** End Patch",
            "the section for `d` changes nothing; lines that go begin with `-`, lines that come with `+`",
        );
        check(
            "*** Begin Patch\n*** Add File: d\nx\n*** End Patch",
            "line 3 of the patch is `x`; every line of a new file begins with `+`",
        );
    }
}
