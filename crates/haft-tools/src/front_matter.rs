//! The head of a Markdown file: a few keys between two lines of dashes, and the text after them. Agents and
//! skills have one.
//!
//! It is written in YAML by habit, by people and by models, and only the plain part of that is understood:
//! `key: value`, values in quotes, lists in brackets, with commas or one `- item` a line, and texts that go
//! on over indented lines. A colon in a value, which would end a YAML parser, is part of it. A head that has
//! no end, or a line that is no key, is an error with its line: half of a head could let somebody do more
//! than its author meant. A value of another form is an error of that value, for who needs it.

use haft::text::truncate_chars;

/// A file with a head.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FrontMatter {
    /// The keys, in their order.
    pub keys: Vec<FrontMatterKey>,
    /// The text after the head, without blank lines around it.
    pub text: String,
}

/// A key of the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontMatterKey {
    /// Its line, from 1.
    pub line: usize,
    /// Its name, as it is written.
    pub name: String,
    /// What stands behind the colon, as it is written.
    pub raw: String,
    /// What it says, or why that isn't understood.
    pub value: Result<FrontMatterValue, String>,
}

/// A value of the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrontMatterValue {
    /// One text.
    Text(String),
    /// Several.
    List(Vec<String>),
}

impl FrontMatterValue {
    /// The value as one text.
    pub fn text(&self) -> Option<&str> {
        match self {
            FrontMatterValue::Text(text) => Some(text),
            FrontMatterValue::List(_) => None,
        }
    }

    /// The value as a list: of a text what commas part, but not within parentheses.
    pub fn list(&self) -> Vec<String> {
        match self {
            FrontMatterValue::List(list) => list.clone(),
            FrontMatterValue::Text(text) => split_list(text),
        }
    }
}

impl FrontMatter {
    /// The key of this name, however it is written.
    pub fn key(&self, name: &str) -> Option<&FrontMatterKey> {
        self.keys.iter().find(|key| key.name.eq_ignore_ascii_case(name))
    }

    /// The text of a key, if it has one.
    ///
    /// # Errors
    /// What can't be understood, with its line.
    pub fn text_of(&self, name: &str) -> Result<Option<&str>, String> {
        let Some(key) = self.key(name) else { return Ok(None) };
        Ok(key.understood()?.text().filter(|text| !text.is_empty()))
    }
}

impl FrontMatterKey {
    /// What it says.
    ///
    /// # Errors
    /// What can't be understood, with its line.
    pub fn understood(&self) -> Result<&FrontMatterValue, String> {
        self.value.as_ref().map_err(|why| format!("line {}: `{}` {why}", self.line, self.name))
    }
}

/// Reads a file; nothing if it has no head.
///
/// # Errors
/// What can't be understood, with its line.
pub fn parse_front_matter(file: &str) -> Result<Option<FrontMatter>, String> {
    let file = file.strip_prefix('\u{feff}').unwrap_or(file);
    let mut lines = file.lines().enumerate().map(|(at, line)| (at + 1, line)).peekable();
    if lines.next().is_none_or(|(_, line)| line.trim_end() != "---") {
        return Ok(None);
    }
    let mut front = FrontMatter::default();
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
        let wrong = || format!("line {at}: `{}` is no `key: value`", truncate_chars(line.trim(), 60));
        let (name, value) = line.split_once(':').ok_or_else(wrong)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(wrong());
        }
        if front.key(name).is_some() {
            return Err(format!("line {at}: `{name}` is there twice"));
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
        let (raw, value) = (value.trim().to_owned(), value_of(value.trim(), &more));
        front.keys.push(FrontMatterKey { line: at, name: name.to_owned(), raw, value });
    }
    front.text = lines.map(|(_, line)| line).collect::<Vec<_>>().join("\n").trim().to_owned();
    Ok(Some(front))
}

fn value_of(first: &str, more: &[&str]) -> Result<FrontMatterValue, String> {
    let first = if first.starts_with('#') { "" } else { first };
    let strange = || Err("has a value of a form that is not read here; give a plain text or a list".into());
    if first.starts_with(['&', '*', '!', '{']) {
        return strange();
    }
    if matches!(first, "|" | "|-" | "|+" | ">" | ">-" | ">+") {
        let between = if first.starts_with('|') { "\n" } else { " " };
        return Ok(FrontMatterValue::Text(more.join(between)));
    }
    if first.is_empty() && more.iter().any(|line| line.starts_with("- ")) {
        if let Some(odd) = more.iter().find(|line| !line.starts_with("- ")) {
            return Err(format!("is a list, and `{odd}` is no item of it"));
        }
        return Ok(FrontMatterValue::List(
            more.iter().map(|line| unquote(line[2..].trim())).collect::<Result<_, _>>()?,
        ));
    }
    // Something nested.
    if first.is_empty() && more.iter().any(|line| line.contains(": ") || line.ends_with(':')) {
        return strange();
    }
    let whole = std::iter::once(first).chain(more.iter().copied()).collect::<Vec<_>>().join(" ");
    let whole = whole.trim();
    match whole.strip_prefix('[') {
        Some(list) => {
            let list = list.strip_suffix(']').ok_or("has a list without its `]`")?;
            Ok(FrontMatterValue::List(
                split_list(list).iter().map(|item| unquote(item)).collect::<Result<_, _>>()?,
            ))
        }
        None => Ok(FrontMatterValue::Text(unquote(whole)?)),
    }
}

/// At commas that are in no quotes and no parentheses.
fn split_list(text: &str) -> Vec<String> {
    let (mut parts, mut quote, mut depth) = (vec![String::new()], None, 0_usize);
    for c in text.chars() {
        let begins = parts.last().is_none_or(|part| part.trim().is_empty());
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            // Only at the beginning: an apostrophe is no quote.
            (None, '"' | '\'') if begins => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        match parts.last_mut() {
            Some(last) if c != ',' || depth > 0 || quote.is_some() => last.push(c),
            _ => parts.push(String::new()),
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

fn unquote(text: &str) -> Result<String, String> {
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
    fn check(head: &str, expected: &[(&str, FrontMatterValue)]) {
        let front = parse_front_matter(&format!("---\n{head}\n---\n\nText.\n")).unwrap().unwrap();
        let keys: Vec<(&str, FrontMatterValue)> =
            front.keys.iter().map(|key| (key.name.as_str(), key.value.clone().unwrap())).collect();
        assert_eq!((keys.as_slice(), front.text.as_str()), (expected, "Text."), "{head}");
    }

    fn text(text: &str) -> FrontMatterValue {
        FrontMatterValue::Text(text.to_owned())
    }

    fn list(items: &[&str]) -> FrontMatterValue {
        FrontMatterValue::List(items.iter().map(|item| (*item).to_owned()).collect())
    }

    #[test]
    fn heads_are_read() {
        check("name: a", &[("name", text("a"))]);
        check("name: \"a: \\\"b\\\"\" \n# no\n", &[("name", text("a: \"b\""))]);
        check("d: 'it''s'", &[("d", text("it's"))]);
        check("d: Use it: often # or not", &[("d", text("Use it: often"))]);
        check("d: >-\n  one\n  two\ne: x", &[("d", text("one two")), ("e", text("x"))]);
        check("d: |\n  one\n  two", &[("d", text("one\ntwo"))]);
        check("d: one\n  two", &[("d", text("one two"))]);
        check("tools: [Read, 'Grep']", &[("tools", list(&["Read", "Grep"]))]);
        check("t: [Bash(git add *, x), \"q, r\"]", &[("t", list(&["Bash(git add *, x)", "q, r"]))]);
        check("tools:\n  - Read\n  - Grep", &[("tools", list(&["Read", "Grep"]))]);
        check("tools:\n- Read\n- 'b c'", &[("tools", list(&["Read", "b c"]))]);
        check("tools:", &[("tools", text(""))]);
        check("tools: # none", &[("tools", text(""))]);
        assert_eq!(text("Read, Bash(a, b),").list(), ["Read", "Bash(a, b)"]);
        assert_eq!(text("don't, can't").list(), ["don't", "can't"]);
    }

    #[test]
    fn a_file_without_a_head_is_all_text() {
        for file in ["", "# Title\n", "--- x\n", "----\nname: a\n---\n", "name: x"] {
            assert_eq!(parse_front_matter(file), Ok(None), "{file:?}");
        }
        let front = parse_front_matter("\u{feff}---\r\nName: a\r\n---\r\n# Body\n---\n").unwrap().unwrap();
        assert_eq!((front.text_of("name"), front.text.as_str()), (Ok(Some("a")), "# Body\n---"));
    }

    #[test]
    fn what_is_not_understood_is_said_with_its_line() {
        for (file, part) in [
            ("---\nname: x\n", "no end"),
            ("---\nname\n---", "line 2"),
            ("---\na: 1\na: 2\n---", "line 3: `a` is there twice"),
        ] {
            let error = parse_front_matter(file).unwrap_err();
            assert!(error.contains(part), "{file:?}: {error}");
        }
        for (head, part) in [
            ("a: &x y", "of a form"),
            ("a: {b: c}", "of a form"),
            ("a:\n  b: c", "of a form"),
            ("a: \"b", "without its end"),
            ("a: [b", "without its `]`"),
            ("a:\n- b\n  c", "no item"),
        ] {
            let front = parse_front_matter(&format!("---\n{head}\nb: x\n---")).unwrap().unwrap();
            let error = front.text_of("a").unwrap_err();
            assert!(error.starts_with("line 2: `a`") && error.contains(part), "{head:?}: {error}");
            assert_eq!(front.text_of("b"), Ok(Some("x")), "others count");
        }
    }
}
