//! Text for display.

/// Returns the text on one line, with control characters escaped.
pub(crate) fn one_line(text: &str) -> String {
    haft::view::visible_line(text)
}
