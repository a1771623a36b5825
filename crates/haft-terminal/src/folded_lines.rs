//! Renders the body of a view below a call's line: diffs, code and text, folded if they are long.

use std::path::Path;

use haft::view::{CallView, DiffLine, LineChange, ViewPart};

use crate::style::{Line, Style};
use crate::text;

/// Columns before the text of a diff line.
const GUTTER_COLUMNS: usize = 8;

/// Lines, and the number of hidden ones.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct FoldedLines {
    pub(crate) lines: Vec<Line>,
    pub(crate) hidden: usize,
}

impl FoldedLines {
    /// Returns the lines, with a last line that counts the hidden ones.
    pub(crate) fn with_count(mut self, indent: usize, hint: &str) -> Vec<Line> {
        if self.hidden > 0 {
            let lines = if self.hidden == 1 { "line" } else { "lines" };
            let mut line = Line::default();
            line.push_spaces(indent);
            line.push(&format!("… {} more {lines}{hint}", self.hidden), Style::DIM);
            self.lines.push(line);
        }
        self.lines
    }

    /// Appends one source line, which may take several lines on the screen. A truncated one counts
    /// as hidden.
    fn add(&mut self, lines: Vec<Line>, most: usize) {
        let room = most.saturating_sub(self.lines.len());
        self.hidden += usize::from(lines.len() > room);
        self.lines.extend(lines.into_iter().take(room));
    }
}

/// Returns whether a view contains a diff.
pub(crate) fn has_change(view: &CallView) -> bool {
    view.body.iter().any(|part| matches!(part, ViewPart::Diff { .. }))
}

/// Renders the body of a view in at most `most` lines.
pub(crate) fn fold_body(view: &CallView, columns: usize, most: usize) -> FoldedLines {
    let mut folded = FoldedLines::default();
    for part in &view.body {
        match part {
            ViewPart::Text { text } | ViewPart::Code { text, .. } => {
                let style = if matches!(part, ViewPart::Code { .. }) { Style::CODE } else { Style::DIM };
                for line in text::lines(text) {
                    if folded.lines.len() >= most {
                        folded.hidden += 1;
                    } else {
                        folded.add(indent_line(Line::from_text(line, style), 6, columns), most);
                    }
                }
            }
            ViewPart::Diff { lines, .. } => {
                for line in lines {
                    if folded.lines.len() >= most {
                        folded.hidden += 1;
                    } else {
                        folded.add(wrap_changed_line(line, columns), most);
                    }
                }
            }
            _ => {}
        }
    }
    folded
}

/// Returns the last lines of a view's diff.
pub(crate) fn last_changed_lines(view: &CallView, columns: usize, most: usize) -> Vec<Line> {
    let lines: Vec<&DiffLine> = view
        .body
        .iter()
        .filter_map(|part| match part {
            ViewPart::Diff { lines, .. } => Some(lines),
            _ => None,
        })
        .flatten()
        .collect();
    let from = lines.len().saturating_sub(most);
    lines[from..].iter().map(|line| render_changed_line(line).truncate_to(columns)).collect()
}

fn change_style(change: LineChange) -> Style {
    match change {
        LineChange::Same => Style::DIM,
        LineChange::Added => Style::SUCCESS,
        LineChange::Removed => Style::ERROR,
    }
}

fn render_changed_line(line: &DiffLine) -> Line {
    let style = change_style(line.change);
    let mut shown = Line::from_text(&format!("{:>w$} ", line.number, w = GUTTER_COLUMNS), Style::DIM);
    shown.push(&format!("{} ", line.change.sign()), style);
    shown.push(&line.text, style);
    shown
}

/// Renders a complete diff line; continuation lines have no number.
fn wrap_changed_line(line: &DiffLine, columns: usize) -> Vec<Line> {
    let whole = render_changed_line(line);
    if whole.width() <= columns {
        return vec![whole];
    }
    let head = GUTTER_COLUMNS + 3;
    let style = change_style(line.change);
    let parts = Line::from_text(&line.text, style).chop(columns.saturating_sub(head).max(8));
    let mut lines = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let mut shown = match at {
            0 => render_changed_line(&DiffLine { text: String::new(), ..line.clone() }),
            _ => Line::default(),
        };
        shown.pad_to(head);
        shown.append(part);
        lines.push(shown);
    }
    lines
}

/// Renders a complete line with an indent.
pub(crate) fn indent_line(line: Line, indent: usize, columns: usize) -> Vec<Line> {
    let shown = |part: &Line| {
        let mut shown = Line::default();
        shown.push_spaces(indent);
        shown.append(part);
        shown
    };
    line.chop(columns.saturating_sub(indent).max(8)).iter().map(shown).collect()
}

/// Returns a title relative to the working directory if it is a path inside.
pub(crate) fn relative_title<'a>(title: &'a str, cwd: &Path) -> std::borrow::Cow<'a, str> {
    let inside = Path::new(title).strip_prefix(cwd).ok().filter(|rest| !rest.as_os_str().is_empty());
    inside.map_or(std::borrow::Cow::Borrowed(title), Path::to_string_lossy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff() -> CallView {
        let line = |change, number, text: &str| DiffLine { change, number, text: text.into() };
        CallView::titled("a").with(ViewPart::Diff {
            path: "a".into(),
            lines: vec![
                line(LineChange::Removed, 87, "    while x {"),
                line(LineChange::Added, 87, "    for y {"),
                line(LineChange::Same, 88, "        z"),
            ],
        })
    }

    #[test]
    fn changes_have_numbers_and_signs() {
        let folded = fold_body(&diff(), 60, 2);
        let shown: Vec<String> = folded.lines.iter().map(Line::text).collect();
        assert_eq!(shown, ["      87 -     while x {", "      87 +     for y {"]);
        assert_eq!(folded.hidden, 1);
        assert_eq!(folded.with_count(6, "")[2].text(), "      … 1 more line");
    }

    #[test]
    fn nothing_of_a_long_line_is_hidden() {
        let text = "x".repeat(50);
        let view = CallView::titled("a").with(ViewPart::Diff {
            path: "a".into(),
            lines: vec![DiffLine { change: LineChange::Added, number: 1, text }],
        });
        let folded = fold_body(&view, 31, 10);
        assert_eq!(folded.lines.len(), 3);
        assert_eq!(folded.lines.iter().map(|line| line.text().matches('x').count()).sum::<usize>(), 50);
        assert!(folded.lines.iter().all(|line| line.width() <= 31));
    }

    #[test]
    fn paths_inside_are_short() {
        assert_eq!(relative_title("/w/src/a.rs", Path::new("/w")), "src/a.rs");
        assert_eq!(relative_title("/etc/hosts", Path::new("/w")), "/etc/hosts");
        assert_eq!(relative_title("/w", Path::new("/w")), "/w");
    }
}
