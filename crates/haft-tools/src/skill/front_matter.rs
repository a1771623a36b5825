//! The head of a Markdown file: `key: value` lines between two lines of `---`.
//!
//! Heads are written by hand and by models, and are YAML only nearly: a colon in a description would end a YAML parser. This
//! reads the forms that occur (plain, quoted, folded and literal texts, lists in brackets or with dashes) line by line, leaves
//! out what is nested deeper, and never fails.

use std::collections::BTreeMap;

/// A head: each key with its values; a text is a list of one.
pub type Head = BTreeMap<String, Vec<String>>;

/// The head of a text, and what comes after it. A text without a head is all body.
pub fn split(text: &str) -> (Head, &str) {
    let text = text.trim_start_matches('\u{feff}');
    let Some(rest) = text
        .strip_prefix("---")
        .and_then(|rest| rest.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n'))
    else {
        return (Head::new(), text);
    };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return (parse(&rest[..at]), &rest[at + line.len()..]);
        }
        at += line.len();
    }
    // A head without an end: nothing of it is for the model.
    (parse(rest), "")
}

/// The one text of a key.
pub fn text<'h>(head: &'h Head, key: &str) -> Option<&'h str> {
    match head.get(key).map(Vec::as_slice) {
        Some([text]) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// The names of a list, or of a text that has them one after the other, with commas or blanks between: what is in parentheses
/// stays together, as in `Read, Bash(git add *)`.
pub fn names(head: &Head, key: &str) -> Vec<String> {
    let mut names = Vec::new();
    for text in head.get(key).into_iter().flatten() {
        let (mut name, mut depth) = (String::new(), 0usize);
        for c in text.chars().chain([',']) {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && (c == ',' || c.is_whitespace()) {
                if !name.is_empty() {
                    names.push(std::mem::take(&mut name));
                }
            } else {
                name.push(c);
            }
        }
    }
    names
}

fn parse(head: &str) -> Head {
    let mut found = Head::new();
    let mut lines = head.lines().peekable();
    while let Some(line) = lines.next() {
        let top = !line.starts_with([' ', '\t', '#', '-']);
        let Some((key, value)) = line.split_once(':').filter(|_| top) else { continue };
        let (key, value) = (key.trim().trim_matches(['"', '\'']).to_lowercase(), value.trim());
        let value = if value.starts_with('#') { "" } else { value };
        // What is indented, or begins with a dash, belongs to the key above.
        let mut under: Vec<&str> = Vec::new();
        while let Some(next) = lines.peek() {
            if !(next.trim().is_empty() || next.starts_with([' ', '\t', '-'])) {
                break;
            }
            under.push(lines.next().unwrap_or_default());
        }
        // A hint is for people, and mostly in brackets.
        let given = match key.as_str() {
            "argument-hint" => vec![unquoted(value)],
            _ => values(value, &under),
        };
        found.entry(key).or_insert(given);
    }
    found
}

fn values(value: &str, under: &[&str]) -> Vec<String> {
    let trimmed = || under.iter().map(|line| line.trim());
    match value.chars().next() {
        Some('>') => vec![trimmed().filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")],
        Some('|') => vec![trimmed().collect::<Vec<_>>().join("\n").trim().to_owned()],
        Some('[') => {
            let whole = std::iter::once(value).chain(trimmed()).collect::<Vec<_>>().join(" ");
            let inner = whole.trim_start_matches('[').trim_end().trim_end_matches(']').to_owned();
            split_commas(&inner).iter().map(|item| unquoted(item)).filter(|item| !item.is_empty()).collect()
        }
        None if trimmed().any(|line| line.starts_with('-')) => {
            let items = trimmed().filter_map(|line| line.strip_prefix('-')).map(|item| unquoted(item.trim()));
            items.filter(|item| !item.is_empty()).collect()
        }
        // Something nested: no text.
        None if trimmed().any(|line| line.contains(':')) => Vec::new(),
        _ => {
            let whole: Vec<&str> =
                std::iter::once(value).chain(trimmed()).filter(|line| !line.is_empty()).collect();
            vec![unquoted(&whole.join(" "))]
        }
    }
}

/// At commas that are in no quotes and no parentheses.
fn split_commas(text: &str) -> Vec<String> {
    let (mut items, mut item, mut quote, mut depth) = (Vec::new(), String::new(), None, 0usize);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c == ',' && quote.is_none() && depth == 0 {
            items.push(std::mem::take(&mut item));
        } else {
            item.push(c);
        }
    }
    items.push(item);
    items
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    match (inside('"'), inside('\'')) {
        (Some(inner), _) => inner.replace("\\\"", "\"").replace("\\n", "\n").replace("\\\\", "\\"),
        (_, Some(inner)) => inner.replace("''", "'"),
        _ => match text.split_once(" #") {
            Some((before, _)) => before.trim_end().to_owned(),
            None => text.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_as_people_write_them() {
        let (head, body) = split(
            "---\nname: pdf\ndescription: Use when: a PDF is meant # really\nquoted: \"a \\\"b\\\"\"\nfolded: >-\n  one\n  two\n\
             list:\n- a\n  - 'b c'\nflow: [Read, Bash(git add *, x), \"q, r\"]\nnested:\n  x: 1\nempty:\nallowed-tools: Read, Bash(git commit *) Grep\n\
             long: begins\n  and goes on\n---\n\n# Body\n---\n",
        );
        assert_eq!(text(&head, "name"), Some("pdf"));
        assert_eq!(text(&head, "description"), Some("Use when: a PDF is meant"));
        assert_eq!(text(&head, "quoted"), Some("a \"b\""));
        assert_eq!(text(&head, "folded"), Some("one two"));
        assert_eq!(head["list"], ["a", "b c"]);
        assert_eq!(head["flow"], ["Read", "Bash(git add *, x)", "q, r"]);
        assert_eq!(text(&head, "long"), Some("begins and goes on"));
        assert_eq!((text(&head, "nested"), text(&head, "empty"), text(&head, "none")), (None, None, None));
        assert_eq!(names(&head, "allowed-tools"), ["Read", "Bash(git commit *)", "Grep"]);
        assert_eq!(names(&head, "flow")[1], "Bash(git add *, x)");
        assert_eq!(body, "\n# Body\n---\n");
    }

    #[test]
    fn texts_without_a_head() {
        for whole in ["", "# Title\n", "--- x\n", "----\nname: a\n---\n"] {
            assert_eq!(split(whole), (Head::new(), whole), "{whole:?}");
        }
        let (head, body) = split("---\nname: a\nno end\n");
        assert_eq!((text(&head, "name"), body), (Some("a"), ""));
        assert_eq!(split("\u{feff}---\r\nname: a\r\n---\r\nb").1, "b");
    }
}
