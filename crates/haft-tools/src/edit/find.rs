//! Where the old text is, in the line ends of the file; and where it nearly is.

use std::borrow::Cow;

/// How many lines of the file a hint shows.
const LINES_SHOWN: usize = 12;
/// How many characters of a line a hint shows.
const LINE_CHARS_SHOWN: usize = 200;
/// How many lines are compared while looking for the closest place.
const COMPARED_MAX: usize = 2_000_000;

/// The matches of a text in a file.
pub(super) struct Places {
    /// Where each begins; those that overlap are all there.
    pub(super) at: Vec<usize>,
    old: String,
    new: String,
}

impl Places {
    pub(super) fn find(file: &[u8], old: &str, new: &str) -> Places {
        let ends = file.iter().filter(|byte| **byte == b'\n').count();
        let double = file.windows(2).filter(|two| two == b"\r\n").count();
        let as_is = || Places { at: matches(file, old), old: old.to_owned(), new: new.to_owned() };
        let with = |convert: fn(&str) -> Cow<'_, str>| {
            let (old, new) = (convert(old).into_owned(), convert(new).into_owned());
            Places { at: matches(file, &old), old, new }
        };
        if double == 0 {
            return if old.contains("\r\n") { with(to_single) } else { as_is() };
        }
        if double == ends {
            return with(to_double);
        }
        // Both kinds are in the file: as it was given, or else all of one kind.
        let places = as_is();
        if places.at.is_empty() { with(to_double) } else { places }
    }

    /// The file with the new text at every place; and those places, without any that overlaps one before.
    pub(super) fn replace(&self, file: &[u8]) -> (Vec<u8>, Vec<usize>) {
        let mut new = Vec::with_capacity(file.len() + self.new.len());
        let (mut from, mut replaced) = (0, Vec::new());
        for &at in self.at.iter() {
            if at < from {
                continue;
            }
            new.extend_from_slice(&file[from..at]);
            new.extend_from_slice(self.new.as_bytes());
            from = at + self.old.len();
            replaced.push(at);
        }
        new.extend_from_slice(&file[from..]);
        (new, replaced)
    }
}

fn to_single(text: &str) -> Cow<'_, str> {
    Cow::Owned(text.replace("\r\n", "\n"))
}

fn to_double(text: &str) -> Cow<'_, str> {
    if text.contains('\n') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\n', "\r\n"))
    } else {
        text.into()
    }
}

/// Where `needle` begins, each place, also where two overlap. It is UTF-8, so it lies in what is UTF-8 of the file.
fn matches(file: &[u8], needle: &str) -> Vec<usize> {
    let mut all = Vec::new();
    let step = needle.chars().next().map_or(1, char::len_utf8);
    let mut begin = 0;
    for chunk in file.utf8_chunks() {
        let text = chunk.valid();
        let mut from = 0;
        while let Some(at) = text[from..].find(needle) {
            all.push(begin + from + at);
            from += at + step;
        }
        begin += text.len() + chunk.invalid().len();
    }
    all
}

/// The number of the line at an offset.
pub(super) fn line_of(file: &[u8], at: usize) -> usize {
    1 + file[..at].iter().filter(|byte| **byte == b'\n').count()
}

/// What to say of a text that isn't there: where it nearly is.
pub(super) fn closest(file: &[u8], old: &str) -> String {
    let text = String::from_utf8_lossy(file);
    let lines: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = old.lines().collect();
    if let Some(plain) = without_numbers(&wanted)
        && !matches(file, plain.trim_end_matches('\n')).is_empty()
    {
        return "; it begins its lines with numbers, which Read shows and the file does not have\n\
                leave out the numbers and the tab after each"
            .to_owned();
    }
    let begin = wanted.iter().position(|line| !line.trim().is_empty());
    let Some(begin) = begin else {
        return "; give a text that is in the file, or read it again".to_owned();
    };
    // Empty lines at the ends say nothing about the place.
    let end = wanted.iter().rposition(|line| !line.trim().is_empty()).map_or(wanted.len(), |end| end + 1);
    let wanted = &wanted[begin..end];
    match best(&lines, wanted) {
        Some((at, same)) if same == wanted.len() => format!(
            "; {} {} but for white space:\n{}\ngive it as it stands there",
            place(at, wanted.len()),
            if wanted.len() == 1 { "matches" } else { "match" },
            excerpt(&lines, at, wanted.len())
        ),
        Some((at, same)) => {
            let (given, there) = (wanted[same], lines.get(at + same));
            let there =
                there.map_or("the file ends".to_owned(), |line| format!("the file has `{}`", cut(line)));
            format!(
                "; line {} is where it begins to match, but at line {} {there} and `old_string` has `{}`\n\
                 give it as it stands in the file, or read it again",
                at + 1,
                at + same + 1,
                cut(given)
            )
        }
        None => "; no line of it is there\nread the file again, or look for the place with Grep".to_owned(),
    }
}

fn place(at: usize, lines: usize) -> String {
    if lines == 1 { format!("line {}", at + 1) } else { format!("lines {} to {}", at + 1, at + lines) }
}

/// The place whose lines match longest from the first one on, white space aside; and how many do.
fn best(lines: &[&str], wanted: &[&str]) -> Option<(usize, usize)> {
    let same = |one: &str, other: &str| one.split_whitespace().eq(other.split_whitespace());
    let mut best: Option<(usize, usize)> = None;
    let mut compared = 0;
    for at in 0..lines.len() {
        let count = lines[at..].iter().zip(wanted).take_while(|(line, wanted)| same(line, wanted)).count();
        if count > best.map_or(0, |(_, count)| count) {
            best = Some((at, count));
        }
        compared += count + 1;
        if compared > COMPARED_MAX || count == wanted.len() {
            break;
        }
    }
    best
}

/// The lines as they are, for the model to copy.
fn excerpt(lines: &[&str], at: usize, count: usize) -> String {
    let mut shown: Vec<String> =
        lines[at..].iter().take(count.min(LINES_SHOWN)).map(|line| cut(line)).collect();
    if count > LINES_SHOWN {
        shown.push(format!("… {} more lines", count - LINES_SHOWN));
    }
    shown.join("\n")
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS_SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// The text without the numbers that Read puts before lines; nothing if not every line has one.
fn without_numbers(lines: &[&str]) -> Option<String> {
    let mut plain = String::new();
    for line in lines {
        let (number, rest) = line.trim_start().split_once('\t')?;
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        plain.push_str(rest);
        plain.push('\n');
    }
    (!lines.is_empty()).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(file: &str, old: &str, new: &str, expected: Option<&str>) {
        let places = Places::find(file.as_bytes(), old, new);
        let found = (!places.at.is_empty()).then(|| places.replace(file.as_bytes()).0);
        assert_eq!(found.map(|bytes| String::from_utf8(bytes).unwrap()).as_deref(), expected);
    }

    #[test]
    fn line_ends_are_those_of_the_file() {
        check("a\nb\n", "a\nb", "x\ny", Some("x\ny\n"));
        check("a\r\nb\r\n", "a\nb", "x\ny", Some("x\r\ny\r\n"));
        check("a\r\nb\r\n", "a\r\nb", "x\r\ny", Some("x\r\ny\r\n"));
        check("a\r\nb\r\n", "b", "x\ny", Some("a\r\nx\r\ny\r\n"));
        check("a\nb\n", "a\r\nb", "x\r\ny", Some("x\ny\n"));
        check("a\nb\n", "b", "x\r\n", Some("a\nx\r\n\n"));
        check("a\r\nb\nc\n", "b\nc", "x\ny", Some("a\r\nx\ny\n"));
        check("a\r\nb\r\nc\n", "a\nb", "x\ny", Some("x\r\ny\r\nc\n"));
        check("one line", "one", "two", Some("two line"));
        check("a\nb", "c", "d", None);
    }

    #[test]
    fn matches_are_counted_where_they_overlap_and_replaced_where_they_do_not() {
        assert_eq!(matches(b"aaaa", "aa"), [0, 1, 2]);
        check("aaaaa", "aa", "b", Some("bba"));
        assert_eq!(matches("äöä".as_bytes(), "ä"), [0, 4]);
        assert_eq!(matches(b"\xff\xfeab\xffab\xe2\x82", "ab"), [2, 5]);
        assert_eq!(matches(b"\xe2\x82", "\u{20ac}"), [0usize; 0]);
    }

    #[test]
    fn a_text_that_is_not_there_is_told_where_it_nearly_is() {
        let file = b"fn main() {\n    let a = 1;\n    let b = 2;\n}\n";
        let said = |old: &str| closest(file, old);
        assert_eq!(
            said("let a = 1;\nlet b = 2;"),
            "; lines 2 to 3 match but for white space:\n    let a = 1;\n    let b = 2;\ngive it as it stands there"
        );
        assert_eq!(
            said("    let a = 1;\n    let c = 3;"),
            "; line 2 is where it begins to match, but at line 3 the file has `    let b = 2;` and `old_string` has \
             `    let c = 3;`\ngive it as it stands in the file, or read it again"
        );
        assert_eq!(
            said("}\nmore"),
            "; line 4 is where it begins to match, but at line 5 the file ends and `old_string` has `more`\n\
             give it as it stands in the file, or read it again"
        );
        assert!(said("2\t    let a = 1;").contains("leave out the numbers"));
        assert!(said("nowhere").contains("no line of it is there"));
        assert!(said("\n\n\n").contains("give a text"));
    }
}
