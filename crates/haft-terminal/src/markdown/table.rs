//! Tables with aligned columns; cells that don't fit are wrapped.

use super::inline::{LineCompleteness, inline};
use crate::limits::TABLE_COLUMNS_MAX;
use crate::style::{Line, Style};

/// The minimum width of a column.
const COLUMN_MIN: usize = 4;

#[derive(Clone, Copy, PartialEq)]
enum ColumnAlignment {
    Left,
    Right,
    Middle,
}

/// Lays out the rows of a table; rows that form no table are shown as their source.
pub(super) fn lay_out(rows: &[String], columns: usize) -> Vec<Line> {
    let as_written = || {
        rows.iter()
            .flat_map(|row| inline(row.trim(), Style::PLAIN, LineCompleteness::Yes).wrap(columns, 2))
            .collect()
    };
    let Some(sides) = rows.get(1).and_then(|row| parse_alignments(row)) else { return as_written() };
    let mut cells: Vec<Vec<Line>> = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate().filter(|(at, _)| *at != 1) {
        let style = if at == 0 { Style::BOLD } else { Style::PLAIN };
        cells.push(split(row).into_iter().map(|cell| inline(cell, style, LineCompleteness::Yes)).collect());
    }
    let count = sides.len();
    if count > TABLE_COLUMNS_MAX || count * (COLUMN_MIN + 3) > columns + 3 {
        return as_written();
    }
    let mut widths: Vec<usize> = (0..count)
        .map(|column| {
            cells.iter().filter_map(|row| row.get(column)).map(Line::width).max().unwrap_or(0).max(1)
        })
        .collect();
    let room = columns - 3 * (count - 1);
    while widths.iter().sum::<usize>() > room {
        // The widest column shrinks first, down to what the others need.
        let over = widths.iter().sum::<usize>() - room;
        let widest = widths.iter_mut().max().expect("a table has columns");
        *widest = widest.saturating_sub(over.div_ceil(2)).max(COLUMN_MIN);
    }
    let mut lines = Vec::new();
    for (at, row) in cells.into_iter().enumerate() {
        lay_out_row(row, &widths, &sides, &mut lines);
        if at == 0 {
            let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            lines.push(Line::from_text(&rule.join("─┼─"), Style::DIM));
        }
    }
    lines
}

/// Lays out one row, with as many lines as its highest cell.
fn lay_out_row(row: Vec<Line>, widths: &[usize], sides: &[ColumnAlignment], lines: &mut Vec<Line>) {
    let mut cells: Vec<Vec<Line>> =
        row.into_iter().zip(widths).map(|(cell, width)| cell.wrap(*width, 0)).collect();
    cells.resize(widths.len(), Vec::new());
    let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
    for at in 0..height {
        let mut line = Line::default();
        for ((cell, width), side) in cells.iter().zip(widths).zip(sides) {
            if !line.is_empty() || !std::ptr::eq(cell, &cells[0]) {
                line.push(" │ ", Style::DIM);
            }
            let empty = Line::default();
            let part = cell.get(at).unwrap_or(&empty);
            let blank = width - part.width().min(*width);
            let before = match side {
                ColumnAlignment::Left => 0,
                ColumnAlignment::Right => blank,
                ColumnAlignment::Middle => blank / 2,
            };
            line.push_spaces(before);
            line.append(part);
            line.push_spaces(blank - before);
        }
        lines.push(line.trim_end());
    }
}

/// Returns the cells of a row; a `|` in code or after a backslash doesn't separate cells.
fn split(row: &str) -> Vec<&str> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let (mut cells, mut from, mut code, mut escaped) = (Vec::new(), 0, false, false);
    for (at, byte) in row.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'`' => code = !code,
            b'|' if !code => {
                cells.push(row[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    if !row[from..].trim().is_empty() {
        cells.push(row[from..].trim());
    }
    cells
}

/// Parses the delimiter row, which defines the number of columns and their alignment.
fn parse_alignments(row: &str) -> Option<Vec<ColumnAlignment>> {
    let side = |cell: &str| {
        let dashes = cell.trim_matches(':');
        let is = !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-');
        is.then(|| match (cell.starts_with(':'), cell.ends_with(':')) {
            (true, true) => ColumnAlignment::Middle,
            (false, true) => ColumnAlignment::Right,
            _ => ColumnAlignment::Left,
        })
    };
    let sides: Option<Vec<ColumnAlignment>> = split(row).into_iter().map(side).collect();
    sides.filter(|sides| !sides.is_empty())
}
