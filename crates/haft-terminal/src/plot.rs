//! One-line plots, in characters that common terminal fonts contain.

/// Bar heights in eighths.
const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Widths of the last character of a horizontal bar, in eighths.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Renders counts as columns, scaled to the largest. Non-zero counts are always visible.
///
/// ```
/// assert_eq!(haft_terminal::spark(&[0, 1, 4, 8]), " ▁▄█");
/// ```
pub fn spark(counts: &[u64]) -> String {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let height = |count: u64| {
        let eighths = (count as f64 / most as f64 * 8.0).round() as usize;
        HEIGHTS[eighths.clamp(usize::from(count > 0), 8)]
    };
    counts.iter().map(|count| height(*count)).collect()
}

/// Renders a bar of at most `columns` columns with a length of `part` / `whole`. A non-zero part is
/// always visible.
///
/// ```
/// assert_eq!(haft_terminal::bar(1, 2, 4), "██");
/// assert_eq!(haft_terminal::bar(5, 8, 1), "▋");
/// ```
pub fn bar(part: u64, whole: u64, columns: usize) -> String {
    let share = (part as f64 / whole.max(1) as f64).min(1.0);
    let eighths = ((share * columns as f64 * 8.0).round() as usize).max(usize::from(part > 0));
    let mut bar: String = std::iter::repeat_n('█', eighths / 8).collect();
    bar.extend((eighths % 8 > 0).then(|| EIGHTHS[eighths % 8]));
    bar
}
