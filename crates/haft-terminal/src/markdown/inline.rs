//! Emphasis, code and links within one line.
//!
//! A link shows its address, so that the target is always visible. The parser walks over the line
//! once. An unclosed marker is searched once and then treated as a plain character, so the time is
//! linear in the length of the line.

use crate::limits::INLINE_DEPTH_MAX;
use crate::style::{Line, Style};

/// Whether the line is complete. In an incomplete line, open markers count as closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineCompleteness {
    Yes,
    No,
}

/// Renders a line of Markdown as styled text.
pub(super) fn inline(text: &str, style: Style, completeness: LineCompleteness) -> Line {
    let mut line = Line::default();
    if text.bytes().any(|byte| matches!(byte, b'*' | b'_' | b'`' | b'~' | b'[' | b'\\' | b'<')) {
        render_inline(text, style, completeness, 0, &mut line);
    } else {
        line.push(text, style);
    }
    line
}

/// Closing markers that are known to be absent.
#[derive(Default)]
struct AbsentMarkers {
    stars: [bool; 4],
    lines: [bool; 4],
    strikes: bool,
    code: bool,
    /// The next `]`, if it is known.
    bracket: Option<usize>,
    angle: bool,
}

fn render_inline(text: &str, style: Style, completeness: LineCompleteness, depth: usize, out: &mut Line) {
    let bytes = text.as_bytes();
    let mut missing = AbsentMarkers::default();
    let (mut from, mut at) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if bytes.get(at + 1).is_some_and(u8::is_ascii_punctuation) => {
                out.push(&text[from..at], style);
                from = at + 1;
                at += 2;
                continue;
            }
            b'`' => {
                let run = marker_run(bytes, at);
                let inner = at + run;
                let end = if missing.code { None } else { find_closing_code(bytes, inner, run) };
                missing.code |= end.is_none() && run == 1;
                if let Some(end) = end {
                    out.push(&text[from..at], style);
                    out.push(trim_code(&text[inner..end]), Style::CODE);
                    at = end + run;
                    from = at;
                    continue;
                }
                if completeness == LineCompleteness::No && inner < bytes.len() {
                    out.push(&text[from..at], style);
                    out.push(&text[inner..], Style::CODE);
                    return;
                }
                at = inner;
                continue;
            }
            mark @ (b'*' | b'_' | b'~') if depth < INLINE_DEPTH_MAX => {
                let run = marker_run(bytes, at);
                let length = run.min(if mark == b'~' { 2 } else { 3 });
                let inner = at + length;
                let may_open = (mark != b'~' || run == 2)
                    && run <= 3
                    && bytes.get(inner).is_some_and(|byte| *byte != b' ')
                    && (mark != b'_' || at == 0 || !is_word(bytes[at - 1]));
                if !may_open {
                    at += run;
                    continue;
                }
                let gone = match mark {
                    b'*' => &mut missing.stars[length],
                    b'_' => &mut missing.lines[length],
                    _ => &mut missing.strikes,
                };
                let end = if *gone { None } else { find_closing(bytes, inner, mark, length) };
                *gone |= end.is_none();
                let inside = match (mark, length) {
                    (b'~', _) => style.struck(),
                    (_, 1) => style.italic(),
                    (_, 2) => style.bold(),
                    _ => style.bold().italic(),
                };
                if let Some(end) = end {
                    out.push(&text[from..at], style);
                    render_inline(&text[inner..end], inside, LineCompleteness::Yes, depth + 1, out);
                    at = end + length;
                    from = at;
                    continue;
                }
                if completeness == LineCompleteness::No {
                    out.push(&text[from..at], style);
                    return render_inline(&text[inner..], inside, completeness, depth + 1, out);
                }
                at += run;
                continue;
            }
            b'[' => {
                let known = missing.bracket.filter(|end| *end > at);
                let end = known.unwrap_or_else(|| {
                    bytes[at..].iter().position(|b| *b == b']').map_or(bytes.len(), |n| at + n)
                });
                missing.bracket = Some(end);
                let link = (bytes.get(end + 1) == Some(&b'('))
                    .then(|| bytes[end + 2..].iter().take(2_048).position(|byte| *byte == b')'))
                    .flatten();
                if let Some(length) = link {
                    let address = text[end + 2..end + 2 + length].trim();
                    let shown = &text[at + 1..end];
                    let picture = at > from && bytes[at - 1] == b'!';
                    out.push(&text[from..if picture { at - 1 } else { at }], style);
                    if shown != address {
                        render_inline(shown, Style::LINK, LineCompleteness::Yes, INLINE_DEPTH_MAX, out);
                        out.push(" (", Style::DIM);
                        out.push(address, Style::DIM);
                        out.push(")", Style::DIM);
                    } else {
                        out.push(address, Style::LINK);
                    }
                    at = end + 3 + length;
                    from = at;
                    continue;
                }
            }
            b'<' if !missing.angle => {
                let end = bytes[at..].iter().position(|byte| matches!(byte, b'>' | b' '));
                let address = end.filter(|end| bytes[at + end] == b'>').map(|end| &text[at + 1..at + end]);
                missing.angle = end.is_none();
                if let Some(address) = address.filter(|address| address.contains("://")) {
                    let next = at + address.len() + 2;
                    out.push(&text[from..at], style);
                    out.push(address, Style::LINK);
                    (from, at) = (next, next);
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    out.push(&text[from..], style);
}

fn marker_run(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().take_while(|byte| **byte == bytes[at]).count()
}

fn find_closing_code(bytes: &[u8], mut at: usize, length: usize) -> Option<usize> {
    while at < bytes.len() {
        if bytes[at] == b'`' {
            let run = marker_run(bytes, at);
            if run == length {
                return Some(at);
            }
            at += run;
        } else {
            at += 1;
        }
    }
    None
}

/// Returns the end of emphasis: the same number of markers after a non-space.
fn find_closing(bytes: &[u8], from: usize, mark: u8, length: usize) -> Option<usize> {
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == mark => {
                let run = marker_run(bytes, at);
                let after = bytes.get(at + run);
                let ends = run >= length
                    && (run == length || run >= 3)
                    && at > from
                    && bytes[at - 1] != b' '
                    && (mark != b'_' || !after.is_some_and(|byte| is_word(*byte)));
                if ends {
                    return Some(at + run - length);
                }
                at += run;
            }
            _ => at += 1,
        }
    }
    None
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// Removes the spaces around code that starts or ends with a backtick.
fn trim_code(code: &str) -> &str {
    let inner = code.strip_prefix(' ').and_then(|code| code.strip_suffix(' '));
    inner.filter(|inner| !inner.trim().is_empty()).unwrap_or(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn styled(text: &str, completeness: LineCompleteness) -> String {
        let mut out = String::new();
        inline(text, Style::PLAIN, completeness).write(crate::style::ColorMode::Styled, &mut out);
        out.replace("\x1b[0m", "}").replace("\x1b[0;", "{").replace('m', ":")
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(styled(text, LineCompleteness::Yes), expected, "{text}");
    }

    #[test]
    fn emphasis_and_code() {
        check("a **b** *c* _d_ ~~e~~", "a {1:b} {3:c} {3:d} {9:e}");
        check("**a *b* c**", "{1:a }{1;3:b}{1: c}");
        check("`a **b**` ``c ` d``", "{36:a **b**} {36:c ` d}");
        check("snake_case_na and 2 * 3 * 4", "snake_case_na and 2 * 3 * 4");
        check(r"\*a\* **open", r"*a* **open");
    }

    #[test]
    fn a_link_says_where_it_leads() {
        check("[here](https://evil.io) x", "{4;34:here}{2: (https://evil.io)} x");
        check("![pic](a.png) <https://a.io>", "{4;34:pic}{2: (a.png)} {4;34:https://a.io}");
        check("[a] [b", "[a] [b");
    }

    #[test]
    fn what_is_open_is_shown_as_closed_while_it_is_written() {
        assert_eq!(styled("a **b", LineCompleteness::No), "a {1:b}");
        assert_eq!(styled("a `b", LineCompleteness::No), "a {36:b}");
    }

    #[test]
    fn marks_without_end_take_no_time() {
        // Quadratic time would exceed the test timeout.
        for text in ["*a ", "[", "**a _b ", "`` ` ", "<a", "[a](", "~~a *", "***a **b *c "] {
            let long = text.repeat(200_000 / text.len());
            assert!(!inline(&long, Style::PLAIN, LineCompleteness::Yes).is_empty());
        }
    }
}
