//! Small plots of one line, in characters that every terminal font has.

/// Heights, from nothing to all.
const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Widths of the last character of a bar.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Counts side by side, each as high as it is to the largest. What isn't zero is seen.
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

/// A bar of at most so many columns, as long as `part` is to `whole`. What isn't zero is seen.
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
