//! What a view shows under a call's line: changes, code and text, folded where they are long.

use std::path::Path;

use haft::view::{Change, DiffLine, Part, View};

use crate::style::{Line, Style};
use crate::text;

/// Columns before the text of a changed line.
const GUTTER: usize = 8;

/// Lines, and how many more there would be.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct FoldedLines {
    pub(crate) lines: Vec<Line>,
    pub(crate) hidden: usize,
}

impl FoldedLines {
    /// The lines, the last one saying how many are missing.
    pub(crate) fn with_count(mut self, indent: usize, hint: &str) -> Vec<Line> {
        if self.hidden > 0 {
            let lines = if self.hidden == 1 { "line" } else { "lines" };
            let mut line = Line::default();
            line.blanks(indent);
            line.push(&format!("… {} more {lines}{hint}", self.hidden), Style::DIM);
            self.lines.push(line);
        }
        self.lines
    }

    /// Adds one line of what is shown, which may be several of the screen. One that is cut counts as hidden.
    fn add(&mut self, lines: Vec<Line>, most: usize) {
        let room = most.saturating_sub(self.lines.len());
        self.hidden += usize::from(lines.len() > room);
        self.lines.extend(lines.into_iter().take(room));
    }
}

/// Whether a view has a change in it.
pub(crate) fn has_change(view: &View) -> bool {
    view.body.iter().any(|part| matches!(part, Part::Diff { .. }))
}

/// The body of a view in so many columns and lines.
pub(crate) fn body(view: &View, columns: usize, most: usize) -> FoldedLines {
    let mut folded = FoldedLines::default();
    for part in &view.body {
        match part {
            Part::Text { text } | Part::Code { text, .. } => {
                let style = if matches!(part, Part::Code { .. }) { Style::CODE } else { Style::DIM };
                for line in text::lines(text) {
                    if folded.lines.len() >= most {
                        folded.hidden += 1;
                    } else {
                        folded.add(indented(Line::from_text(line, style), 6, columns), most);
                    }
                }
            }
            Part::Diff { lines, .. } => {
                for line in lines {
                    if folded.lines.len() >= most {
                        folded.hidden += 1;
                    } else {
                        folded.add(changed(line, columns), most);
                    }
                }
            }
            _ => {}
        }
    }
    folded
}

/// The last lines of a view's change.
pub(crate) fn change_end(view: &View, columns: usize, most: usize) -> Vec<Line> {
    let lines: Vec<&DiffLine> = view
        .body
        .iter()
        .filter_map(|part| match part {
            Part::Diff { lines, .. } => Some(lines),
            _ => None,
        })
        .flatten()
        .collect();
    let from = lines.len().saturating_sub(most);
    lines[from..].iter().map(|line| changed_line(line).cut(columns)).collect()
}

fn style_of(change: Change) -> Style {
    match change {
        Change::Same => Style::DIM,
        Change::Added => Style::GOOD,
        Change::Removed => Style::BAD,
    }
}

fn changed_line(line: &DiffLine) -> Line {
    let style = style_of(line.change);
    let mut shown = Line::from_text(&format!("{:>w$} ", line.number, w = GUTTER), Style::DIM);
    shown.push(&format!("{} ", line.change.sign()), style);
    shown.push(&line.text, style);
    shown
}

/// A changed line, whole: what is longer than a line goes on below, where the numbers are blank.
fn changed(line: &DiffLine, columns: usize) -> Vec<Line> {
    let whole = changed_line(line);
    if whole.width() <= columns {
        return vec![whole];
    }
    let head = GUTTER + 3;
    let style = style_of(line.change);
    let parts = Line::from_text(&line.text, style).chop(columns.saturating_sub(head).max(8));
    let mut lines = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let mut shown = match at {
            0 => changed_line(&DiffLine { text: String::new(), ..line.clone() }),
            _ => Line::default(),
        };
        shown.pad_to(head);
        shown.append(part);
        lines.push(shown);
    }
    lines
}

/// A line under an indent, whole.
pub(crate) fn indented(line: Line, indent: usize, columns: usize) -> Vec<Line> {
    let shown = |part: &Line| {
        let mut shown = Line::default();
        shown.blanks(indent);
        shown.append(part);
        shown
    };
    line.chop(columns.saturating_sub(indent).max(8)).iter().map(shown).collect()
}

/// A title that is a path inside, as it is seen from the working directory.
pub(crate) fn title<'a>(title: &'a str, cwd: &Path) -> std::borrow::Cow<'a, str> {
    let inside = Path::new(title).strip_prefix(cwd).ok().filter(|rest| !rest.as_os_str().is_empty());
    inside.map_or(std::borrow::Cow::Borrowed(title), Path::to_string_lossy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff() -> View {
        let line = |change, number, text: &str| DiffLine { change, number, text: text.into() };
        View::titled("a").with(Part::Diff {
            path: "a".into(),
            lines: vec![
                line(Change::Removed, 87, "    while x {"),
                line(Change::Added, 87, "    for y {"),
                line(Change::Same, 88, "        z"),
            ],
        })
    }

    #[test]
    fn changes_have_numbers_and_signs() {
        let folded = body(&diff(), 60, 2);
        let shown: Vec<String> = folded.lines.iter().map(Line::text).collect();
        assert_eq!(shown, ["      87 -     while x {", "      87 +     for y {"]);
        assert_eq!(folded.hidden, 1);
        assert_eq!(folded.with_count(6, "")[2].text(), "      … 1 more line");
    }

    #[test]
    fn nothing_of_a_long_line_is_hidden() {
        let text = "x".repeat(50);
        let view = View::titled("a").with(Part::Diff {
            path: "a".into(),
            lines: vec![DiffLine { change: Change::Added, number: 1, text }],
        });
        let folded = body(&view, 31, 10);
        assert_eq!(folded.lines.len(), 3);
        assert_eq!(folded.lines.iter().map(|line| line.text().matches('x').count()).sum::<usize>(), 50);
        assert!(folded.lines.iter().all(|line| line.width() <= 31));
    }

    #[test]
    fn paths_inside_are_short() {
        assert_eq!(title("/w/src/a.rs", Path::new("/w")), "src/a.rs");
        assert_eq!(title("/etc/hosts", Path::new("/w")), "/etc/hosts");
        assert_eq!(title("/w", Path::new("/w")), "/w");
    }
}
