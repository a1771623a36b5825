//! A picture of a terminal, made from text: what a program printed, as the README shows it.
//!
//! The text is kept in the repository because a run takes its own time each time; the picture is made from it
//! alone, so it can be checked like every other page. Colours stand for what a mark at the beginning of a
//! line means; nothing in the text itself is obeyed.

/// Longer lines are continued on the next, as a terminal would.
const COLUMNS: usize = 116;
/// How far a tab goes.
const TAB: usize = 4;

const LINE_HEIGHT: usize = 16;
/// The width of a character of 12 pixels in the fonts that are named.
const CHAR_WIDTH: f64 = 7.23;
const MARGIN: usize = 16;

const STYLE: &str = "text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; \
                     fill: #d7dae0; white-space: pre } .dim { fill: #8b919c } .good { fill: #7ec699 } \
                     .bad { fill: #f08d7f } .note { fill: #7fb5f0 } .head { fill: #ffffff; font-weight: bold }";

/// Returns the picture of `command` and what it printed.
pub(crate) fn picture(command: &str, printed: &str) -> String {
    let mut lines: Vec<(&str, String)> = vec![("head", format!("$ {command}")), ("", String::new())];
    for line in printed.lines() {
        let class = class(line);
        lines.extend(wrapped(&line.replace('\t', &" ".repeat(TAB))).into_iter().map(|part| (class, part)));
    }
    while lines.last().is_some_and(|(_, line)| line.trim().is_empty()) {
        lines.pop();
    }
    let (width, height) =
        ((COLUMNS as f64 * CHAR_WIDTH) as usize + 2 * MARGIN, lines.len() * LINE_HEIGHT + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{}\">\n<style>{STYLE}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#1d2026\"/>\n",
        escaped(&format!("What {command} prints"))
    );
    for (at, (class, line)) in lines.iter().enumerate() {
        let y = MARGIN + at * LINE_HEIGHT + 12;
        if !line.trim().is_empty() {
            svg.push_str(&format!(
                "<text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\" class=\"{class}\">{}</text>\n",
                escaped(line)
            ));
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// The colour of a line, by what it begins with.
fn class(line: &str) -> &'static str {
    let text = line.trim_start();
    // A line of a change has its number first.
    let changed = text.trim_start_matches(|c: char| c.is_ascii_digit());
    match text.chars().next() {
        Some('●') => "head",
        Some('»' | '?') => "note",
        Some(first) if first.is_ascii_digit() && changed.starts_with(" + ") => "good",
        Some(first) if first.is_ascii_digit() && changed.starts_with(" - ") => "bad",
        _ if !line.starts_with(' ') => "plain",
        Some('✓') => "good",
        Some('✗') => "bad",
        Some('[') => "note",
        _ if text.starts_with("the model ") => "dim",
        _ => "plain",
    }
}

/// A line in pieces of at most [`COLUMNS`] characters, later ones as far in as the first.
fn wrapped(line: &str) -> Vec<String> {
    let indent: String = line.chars().take_while(|c| *c == ' ').collect();
    let mut pieces = vec![String::new()];
    for word in line.split_inclusive(' ') {
        let last = pieces.last().expect("there is one from the start").chars().count();
        if last + word.trim_end().chars().count() > COLUMNS && last > indent.chars().count() {
            pieces.push(indent.clone());
        }
        pieces.last_mut().expect("there is one from the start").push_str(word);
    }
    pieces.into_iter().map(|piece| piece.trim_end().to_string()).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_go_on_further_down() {
        let line = format!("   {}", "word ".repeat(40).trim_end());
        let pieces = wrapped(&line);
        assert_eq!(pieces.len(), 2);
        assert!(pieces.iter().all(|piece| piece.starts_with("   word") && piece.chars().count() <= COLUMNS));
        assert_eq!(wrapped(""), [""]);
    }

    #[test]
    fn a_picture_shows_lines_by_their_marks_and_obeys_nothing() {
        let svg = picture("run <it>", "● First\n\n   ✓ a & b\n   4 - old\n   4 + new\n");
        assert!(
            svg.contains(">$ run &lt;it&gt;<") && svg.contains("class=\"good\">   ✓ a &amp; b<"),
            "{svg}"
        );
        assert!(
            svg.contains("class=\"bad\">   4 - old<") && svg.contains("class=\"good\">   4 + new<"),
            "{svg}"
        );
        assert_eq!(svg.matches("<text").count(), 5);
    }
}
