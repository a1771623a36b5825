//! The head of a Markdown file: a few keys between two lines of dashes, and the text after them.
//!
//! It is written in YAML by habit, and only the plain part of that is understood: `key: value`, values in quotes, lists in
//! brackets, with commas or one `- item` a line, and texts that go on over indented lines. Whatever else is there is said,
//! with its line, and the file is left out: half of a head could let an agent do more than its author meant.

/// A file with a head.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Front {
    /// Keys in their order, each with its line and its value.
    pub(super) keys: Vec<(usize, String, Value)>,
    /// The text after the head.
    pub(super) text: String,
}

/// A value of the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    List(Vec<String>),
}

impl Value {
    /// The value as one text.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            Value::List(_) => None,
        }
    }

    /// The value as a list: of a text what commas part, but not within parentheses.
    pub(super) fn list(&self) -> Vec<String> {
        match self {
            Value::List(list) => list.clone(),
            Value::Text(text) => parted(text),
        }
    }
}

/// Reads a file.
///
/// # Errors
/// What can't be understood, with its line.
pub(super) fn read(file: &str) -> Result<Front, String> {
    let file = file.strip_prefix('\u{feff}').unwrap_or(file);
    let mut lines = file.lines().enumerate().map(|(at, line)| (at + 1, line)).peekable();
    if lines.next().is_none_or(|(_, line)| line.trim_end() != "---") {
        return Err(
            "it has no head; the first line is `---`, then keys such as `name` and `description`".into()
        );
    }
    let mut front = Front::default();
    loop {
        let Some((at, line)) = lines.next() else {
            return Err("its head has no end; put a line `---` after the keys".into());
        };
        if line.trim_end() == "---" {
            break;
        }
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let wrong = || {
            format!("line {at}: `{}` is no `key: value`", line.trim().chars().take(60).collect::<String>())
        };
        let (key, value) = line.split_once(':').ok_or_else(wrong)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if key.is_empty() || !key.chars().all(plain) {
            return Err(wrong());
        }
        if front.keys.iter().any(|(_, known, _)| known == key) {
            return Err(format!("line {at}: `{key}` is there twice"));
        }
        let mut more = Vec::new();
        while let Some((_, next)) = lines.peek() {
            let goes_on =
                next.starts_with([' ', '\t']) || next.trim_start().starts_with("- ") || next.is_empty();
            if !goes_on || next.trim_end() == "---" {
                break;
            }
            more.push(lines.next().map(|(_, line)| line.trim()).unwrap_or_default());
        }
        while more.last().is_some_and(|line| line.is_empty()) {
            more.pop();
        }
        let value = value_of(value.trim(), &more).map_err(|why| format!("line {at}: `{key}` {why}"))?;
        front.keys.push((at, key.to_owned(), value));
    }
    front.text = lines.map(|(_, line)| line).collect::<Vec<_>>().join("\n").trim().to_owned();
    Ok(front)
}

fn value_of(first: &str, more: &[&str]) -> Result<Value, String> {
    if first.starts_with(['&', '*', '!', '{']) {
        return Err("has a value of a form that is not read here; give a plain text or a list".into());
    }
    if matches!(first, "|" | "|-" | "|+" | ">" | ">-" | ">+") {
        let between = if first.starts_with('|') { "\n" } else { " " };
        return Ok(Value::Text(more.join(between)));
    }
    if first.is_empty() && more.iter().any(|line| line.starts_with("- ")) {
        if let Some(odd) = more.iter().find(|line| !line.starts_with("- ")) {
            return Err(format!("is a list, and `{odd}` is no item of it"));
        }
        return Ok(Value::List(
            more.iter().map(|line| unquoted(line[2..].trim())).collect::<Result<_, _>>()?,
        ));
    }
    let whole = std::iter::once(first).chain(more.iter().copied()).collect::<Vec<_>>().join(" ");
    let whole = whole.trim();
    match whole.strip_prefix('[') {
        Some(list) => {
            let list = list.strip_suffix(']').ok_or("has a list without its `]`")?;
            Ok(Value::List(parted(list).iter().map(|item| unquoted(item)).collect::<Result<_, _>>()?))
        }
        None => Ok(Value::Text(unquoted(whole)?)),
    }
}

fn parted(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0_usize);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match parts.last_mut() {
            Some(last) if c != ',' || depth > 0 => last.push(c),
            _ => parts.push(String::new()),
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

fn unquoted(text: &str) -> Result<String, String> {
    let inner = |quote: char| {
        let rest = text.strip_prefix(quote)?;
        Some(rest.strip_suffix(quote).filter(|_| text.len() > 1))
    };
    match (inner('"'), inner('\'')) {
        (Some(Some(inner)), _) => {
            serde_json::from_str(&format!("\"{inner}\"")).map_err(|_| "has quotes that don't fit".to_owned())
        }
        (_, Some(Some(inner))) => Ok(inner.replace("''", "'")),
        (None, None) => {
            // A comment behind a value is none of it.
            let end = text.find(" #").unwrap_or(text.len());
            Ok(text[..end].trim().to_owned())
        }
        _ => Err("has a quote without its end".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(head: &str, expected: &[(&str, Value)]) {
        let front = read(&format!("---\n{head}\n---\n\nText.\n")).unwrap();
        let keys: Vec<(&str, Value)> =
            front.keys.iter().map(|(_, key, value)| (key.as_str(), value.clone())).collect();
        assert_eq!((keys.as_slice(), front.text.as_str()), (expected, "Text."), "{head}");
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn list(items: &[&str]) -> Value {
        Value::List(items.iter().map(|item| (*item).to_owned()).collect())
    }

    #[test]
    fn heads_are_read() {
        check("name: a", &[("name", text("a"))]);
        check("name: \"a: \\\"b\\\"\" \n# no\n", &[("name", text("a: \"b\""))]);
        check("d: 'it''s'", &[("d", text("it's"))]);
        check("d: Use it: often # or not", &[("d", text("Use it: often"))]);
        check("d: >\n  one\n  two\ne: x", &[("d", text("one two")), ("e", text("x"))]);
        check("d: |\n  one\n  two", &[("d", text("one\ntwo"))]);
        check("d: one\n  two", &[("d", text("one two"))]);
        check("tools: [Read, 'Grep']", &[("tools", list(&["Read", "Grep"]))]);
        check("tools:\n  - Read\n  - Grep", &[("tools", list(&["Read", "Grep"]))]);
        check("tools:\n- Read\n- Grep", &[("tools", list(&["Read", "Grep"]))]);
        check("tools:", &[("tools", text(""))]);
        assert_eq!(text("Read, Bash(a, b),").list(), ["Read", "Bash(a, b)"]);
    }

    #[test]
    fn what_is_not_understood_is_said_with_its_line() {
        for (file, part) in [
            ("", "no head"),
            ("name: x", "no head"),
            ("---\nname: x\n", "no end"),
            ("---\nname\n---", "line 2"),
            ("---\na: 1\na: 2\n---", "line 3: `a` is there twice"),
            ("---\na: &x y\n---", "line 2"),
            ("---\na: {b: c}\n---", "line 2"),
            ("---\na: \"b\n---", "without its end"),
            ("---\na: [b\n---", "without its `]`"),
            ("---\na:\n- b\n  c\n---", "no item"),
        ] {
            let error = read(file).unwrap_err();
            assert!(error.contains(part), "{file:?}: {error}");
        }
    }
}
