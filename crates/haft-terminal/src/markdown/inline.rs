//! Emphasis, code and links within one line.
//!
//! A link shows its address: what is shown must be where it leads. One walk over the line; a mark that is never closed
//! is looked for once and is then a character like any other, so that no line takes longer than its length.

use crate::limits::INLINE_DEPTH_MAX;
use crate::style::{Line, Style};

/// Whether all of a line is there. In one that isn't, what is open is shown as if it were closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineCompleteness {
    Yes,
    No,
}

/// A line of Markdown as styled text.
pub(super) fn inline(text: &str, style: Style, whole: LineCompleteness) -> Line {
    let mut line = Line::default();
    if text.bytes().any(|byte| matches!(byte, b'*' | b'_' | b'`' | b'~' | b'[' | b'\\' | b'<')) {
        walk(text, style, whole, 0, &mut line);
    } else {
        line.push(text, style);
    }
    line
}

/// What was looked for and is not there.
#[derive(Default)]
struct AbsentMarkers {
    stars: [bool; 4],
    lines: [bool; 4],
    strikes: bool,
    code: bool,
    /// The next `]`, as far as it is known.
    bracket: Option<usize>,
    angle: bool,
}

fn walk(text: &str, style: Style, whole: LineCompleteness, depth: usize, out: &mut Line) {
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
                let run = run(bytes, at);
                let inner = at + run;
                let end = if missing.code { None } else { closing_code(bytes, inner, run) };
                missing.code |= end.is_none() && run == 1;
                if let Some(end) = end {
                    out.push(&text[from..at], style);
                    out.push(trimmed(&text[inner..end]), Style::CODE);
                    at = end + run;
                    from = at;
                    continue;
                }
                if whole == LineCompleteness::No && inner < bytes.len() {
                    out.push(&text[from..at], style);
                    out.push(&text[inner..], Style::CODE);
                    return;
                }
                at = inner;
                continue;
            }
            mark @ (b'*' | b'_' | b'~') if depth < INLINE_DEPTH_MAX => {
                let run = run(bytes, at);
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
                let end = if *gone { None } else { closing(bytes, inner, mark, length) };
                *gone |= end.is_none();
                let inside = match (mark, length) {
                    (b'~', _) => style.struck(),
                    (_, 1) => style.italic(),
                    (_, 2) => style.bold(),
                    _ => style.bold().italic(),
                };
                if let Some(end) = end {
                    out.push(&text[from..at], style);
                    walk(&text[inner..end], inside, LineCompleteness::Yes, depth + 1, out);
                    at = end + length;
                    from = at;
                    continue;
                }
                if whole == LineCompleteness::No {
                    out.push(&text[from..at], style);
                    return walk(&text[inner..], inside, whole, depth + 1, out);
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
                        walk(shown, Style::LINK, LineCompleteness::Yes, INLINE_DEPTH_MAX, out);
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

fn run(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().take_while(|byte| **byte == bytes[at]).count()
}

fn closing_code(bytes: &[u8], mut at: usize, length: usize) -> Option<usize> {
    while at < bytes.len() {
        if bytes[at] == b'`' {
            let run = run(bytes, at);
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

/// Where emphasis ends: at as many marks, after something that is no blank.
fn closing(bytes: &[u8], from: usize, mark: u8, length: usize) -> Option<usize> {
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == mark => {
                let run = run(bytes, at);
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

/// Code that begins or ends with a mark has blanks around it.
fn trimmed(code: &str) -> &str {
    let inner = code.strip_prefix(' ').and_then(|code| code.strip_suffix(' '));
    inner.filter(|inner| !inner.trim().is_empty()).unwrap_or(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn styled(text: &str, whole: LineCompleteness) -> String {
        let mut out = String::new();
        inline(text, Style::PLAIN, whole).write(crate::style::ColorMode::Styled, &mut out);
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
        // Quadratic work on these would not end within the test's patience.
        for text in ["*a ", "[", "**a _b ", "`` ` ", "<a", "[a](", "~~a *", "***a **b *c "] {
            let long = text.repeat(200_000 / text.len());
            assert!(!inline(&long, Style::PLAIN, LineCompleteness::Yes).is_empty());
        }
    }
}
