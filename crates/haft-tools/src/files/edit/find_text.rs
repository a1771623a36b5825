//! Where the old text is, in the line ends of the file; and where it nearly is.

use std::borrow::Cow;

use haft::text::truncate_with_ellipsis;
use memchr::memmem;

/// How many lines of the file a hint shows.
const LINES_SHOWN: usize = 12;
/// How many characters of a line a hint shows.
const LINE_CHARS_SHOWN: usize = 200;
/// How many lines are compared while looking for the closest place.
const COMPARED_MAX: usize = 2_000_000;

/// The matches of a text in a file.
///
/// Text that has no `\r` matches either line end, because Read doesn't show which one a line has; what is put
/// in its place has those that were there. Text with `\r` means what it says.
pub(super) struct TextMatches<'a> {
    /// Where each begins, in the text that was searched; those that overlap are all there.
    at: Vec<usize>,
    /// How long a match is, in the text that was searched.
    len: usize,
    new: Cow<'a, str>,
    /// Where in the text that was searched a line end is that the file has as `\r\n`. Nothing if it is the
    /// file itself, to the byte.
    double: Option<Vec<usize>>,
}

impl<'a> TextMatches<'a> {
    pub(super) fn find(file: &[u8], old: &str, new: &'a str) -> TextMatches<'a> {
        if old.contains('\r') {
            let at = find_matches(file, old);
            if !at.is_empty() {
                return TextMatches { at, len: old.len(), new: new.into(), double: None };
            }
        }
        let (text, double) = without_returns(file);
        let (mut old, mut new) = (Cow::Borrowed(old), Cow::Borrowed(new));
        if old.contains("\r\n") {
            // One who gives `\r\n` for a place that has none means its line ends.
            (old, new) = (old.replace("\r\n", "\n").into(), new.replace("\r\n", "\n").into());
        }
        TextMatches { at: find_matches(&text, &old), len: old.len(), new, double: Some(double) }
    }

    pub(super) fn len(&self) -> usize {
        self.at.len()
    }

    /// Where in the file each begins.
    pub(super) fn starts(&self) -> impl Iterator<Item = usize> {
        self.at.iter().map(|at| self.in_file(*at))
    }

    /// Where in the file a place of the text is that was searched.
    fn in_file(&self, at: usize) -> usize {
        at + self.double.as_ref().map_or(0, |double| double.partition_point(|end| *end < at))
    }

    /// The file with the new text at every place; and those places, without any that overlaps one before.
    pub(super) fn replace(&self, file: &[u8]) -> (Vec<u8>, Vec<usize>) {
        let mut new = Vec::with_capacity(file.len() + self.new.len());
        let (mut from, mut replaced) = (0, Vec::new());
        let mut near = LineEndCache::default();
        // To the byte, where nothing has to be looked up.
        let to_byte = self.double.is_none() || !self.new.contains('\n');
        for &at in &self.at {
            let (start, end) = (self.in_file(at), self.in_file(at + self.len));
            if start < from {
                continue;
            }
            new.extend_from_slice(&file[from..start]);
            if to_byte {
                new.extend_from_slice(self.new.as_bytes());
            } else {
                let inside = (start..end).filter(|at| file[*at] == b'\n').map(|at| is_double(file, at));
                let mut inside = inside.peekable();
                let first = if inside.peek().is_none() { near.end(file, end) } else { false };
                put_text(&mut new, &self.new, inside, first);
            }
            from = end;
            replaced.push(start);
        }
        new.extend_from_slice(&file[from..]);
        (new, replaced)
    }
}

/// Whether a line end is `\r\n`.
fn is_double(file: &[u8], at: usize) -> bool {
    at > 0 && file[at - 1] == b'\r'
}

/// The end of the line that a place is in, kept for the places that follow in the same line.
#[derive(Default)]
struct LineEndCache {
    until: usize,
    double: bool,
}

impl LineEndCache {
    /// Whether the line ends with `\r\n`; the last one may have no end, and is taken for one like the line
    /// before.
    fn end(&mut self, file: &[u8], at: usize) -> bool {
        if at > self.until || self.until == 0 {
            let newline = |byte: &u8| *byte == b'\n';
            let after = file[at..].iter().position(newline).map(|after| at + after);
            let end = after.or_else(|| file.iter().rposition(newline));
            self.until = after.unwrap_or(file.len());
            self.double = end.is_some_and(|end| is_double(file, end));
        }
        self.double
    }
}

/// The text with every `\r\n` as `\n`; and where those are.
fn without_returns(file: &[u8]) -> (Cow<'_, [u8]>, Vec<usize>) {
    if memmem::find(file, b"\r\n").is_none() {
        return (Cow::Borrowed(file), Vec::new());
    }
    let (mut text, mut double) = (Vec::with_capacity(file.len()), Vec::new());
    for line in file.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\r\n") {
            Some(line) => {
                text.extend_from_slice(line);
                double.push(text.len());
                text.push(b'\n');
            }
            None => text.extend_from_slice(line),
        }
    }
    (text.into(), double)
}

/// Writes a text with these line ends, one after the other; the last one goes on.
fn put_text(into: &mut Vec<u8>, text: &str, mut ends: impl Iterator<Item = bool>, mut double: bool) {
    for line in text.split_inclusive('\n') {
        let Some(plain) = line.strip_suffix('\n') else {
            into.extend_from_slice(line.as_bytes());
            continue;
        };
        double = ends.next().unwrap_or(double);
        into.extend_from_slice(plain.as_bytes());
        if double && !plain.ends_with('\r') {
            into.push(b'\r');
        }
        into.push(b'\n');
    }
}

/// Where `needle` begins, each place, also where two overlap. It is UTF-8, so wherever its bytes are, they
/// are characters: no character begins with a byte that another one goes on with.
///
/// After a match the next one can begin no sooner than the needle repeats itself, and if it begins there only
/// what it has more is compared. So a file of one letter, and a needle of many of them, take no longer than
/// any other.
fn find_matches(file: &[u8], needle: &str) -> Vec<usize> {
    let needle = needle.as_bytes();
    let finder = memmem::Finder::new(needle);
    let Some(mut at) = finder.find(file) else { return Vec::new() };
    let step = text_period(needle);
    let more = &needle[needle.len() - step..];
    let mut all = vec![at];
    loop {
        let from = at + step;
        at = if file[at + needle.len()..].starts_with(more) {
            from
        } else {
            match finder.find(&file[from..]) {
                Some(further) => from + further,
                None => return all,
            }
        };
        all.push(at);
    }
}

/// After how many bytes a text is the same as from its beginning, as far as it goes; its length, if it never
/// is.
fn text_period(text: &[u8]) -> usize {
    // How much of each beginning is its end as well, itself aside.
    let mut border = vec![0; text.len()];
    for at in 1..text.len() {
        let mut len: usize = border[at - 1];
        while len > 0 && text[at] != text[len] {
            len = border[len - 1];
        }
        border[at] = len + usize::from(text[at] == text[len]);
    }
    text.len() - border.last().copied().unwrap_or(0)
}

/// What to say of a text that isn't there: where it nearly is.
pub(super) fn describe_closest(file: &[u8], old: &str) -> String {
    let text = String::from_utf8_lossy(file);
    let lines: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = old.lines().collect();
    if let Some(plain) = without_numbers(&wanted)
        && memmem::find(file, plain.trim_end_matches('\n').as_bytes()).is_some()
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
    match best_match(&lines, wanted) {
        Some((at, same)) if same == wanted.len() => format!(
            "; {} {} but for white space:\n{}\ngive it as it stands there",
            line_range(at, wanted.len()),
            if wanted.len() == 1 { "matches" } else { "match" },
            line_excerpt(&lines, at, wanted.len())
        ),
        Some((at, same)) => {
            let (given, there) = (wanted[same], lines.get(at + same));
            let there = there.map_or("the file ends".to_owned(), |line| {
                format!("the file has `{}`", truncate_with_ellipsis(line, LINE_CHARS_SHOWN))
            });
            format!(
                "; line {} is where it begins to match, but at line {} {there} and `old_string` has `{}`\n\
                 give it as it stands in the file, or read it again",
                at + 1,
                at + same + 1,
                truncate_with_ellipsis(given, LINE_CHARS_SHOWN)
            )
        }
        None => "; no line of it is there\nread the file again, or look for the place with Grep".to_owned(),
    }
}

fn line_range(at: usize, lines: usize) -> String {
    if lines == 1 { format!("line {}", at + 1) } else { format!("lines {} to {}", at + 1, at + lines) }
}

/// The place whose lines match longest from the first one on, white space aside; and how many do.
fn best_match(lines: &[&str], wanted: &[&str]) -> Option<(usize, usize)> {
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
fn line_excerpt(lines: &[&str], at: usize, count: usize) -> String {
    let mut shown: Vec<String> = lines[at..]
        .iter()
        .take(count.min(LINES_SHOWN))
        .map(|line| truncate_with_ellipsis(line, LINE_CHARS_SHOWN))
        .collect();
    if count > LINES_SHOWN {
        shown.push(format!("… {} more lines", count - LINES_SHOWN));
    }
    shown.join("\n")
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
        let places = TextMatches::find(file.as_bytes(), old, new);
        let found = (places.len() > 0).then(|| places.replace(file.as_bytes()).0);
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
        check("one\r\nlast", "last", "x\ny", Some("one\r\nx\r\ny"));
        check("a\nb", "c", "d", None);
    }

    #[test]
    fn each_place_keeps_the_line_ends_that_it_has() {
        let mixed = "a\r\nb\r\nb\n";
        assert_eq!(TextMatches::find(mixed.as_bytes(), "b\n", "").len(), 2);
        assert!(TextMatches::find(mixed.as_bytes(), "b\n", "").starts().eq([3, 6]));
        check(mixed, "b\n", "x\ny\n", Some("a\r\nx\r\ny\r\nx\ny\n"));
        check(mixed, "b", "x\ny", Some("a\r\nx\r\ny\r\nx\ny\n"));
        check("a\r\nb\nc", "a\nb\n", "x\ny\nz\n", Some("x\r\ny\nz\nc"));
        check("a\r\nb", "\n", "", Some("ab"));
        check("\r\n\r\n", "\n\n", "\n", Some("\r\n"));
    }

    #[test]
    fn a_text_with_a_carriage_return_means_what_it_says() {
        check("a\r\nb\r\n", "\r\n", "\n", Some("a\nb\n"));
        check("a\r\nb\nc\r\n", "\r", "", Some("a\nb\nc\n"));
        check("a\r\nb\r\nb\n", "b\r\n", "x\ny\n", Some("a\r\nx\ny\nb\n"));
        check("a\rb", "\r", "\r\n", Some("a\r\nb"));
    }

    #[test]
    fn matches_are_counted_where_they_overlap_and_replaced_where_they_do_not() {
        assert_eq!(find_matches(b"aaaa", "aa"), [0, 1, 2]);
        check("aaaaa", "aa", "b", Some("bba"));
        assert_eq!(find_matches("äöä".as_bytes(), "ä"), [0, 4]);
        assert_eq!(find_matches(b"\xff\xfeab\xffab\xe2\x82", "ab"), [2, 5]);
        assert_eq!(find_matches(b"\xe2\x82", "\u{20ac}"), [0usize; 0]);
    }

    #[test]
    fn every_match_is_found_in_texts_that_repeat_themselves() {
        let words = |mut seed: usize, count: usize| -> String {
            let mut text = String::new();
            for _ in 0..count {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(["a", "a", "b", "aab", "ä"][(seed >> 33) % 5]);
            }
            text
        };
        for seed in 0..3_000 {
            let (file, needle) = (words(seed, 40), words(seed % 97, 1 + seed % 5));
            let slowly: Vec<usize> =
                (0..file.len()).filter(|at| file.as_bytes()[*at..].starts_with(needle.as_bytes())).collect();
            assert_eq!(find_matches(file.as_bytes(), &needle), slowly, "{file} {needle}");
        }
        // To compare all of it at each place would be 100,000,000,000 steps.
        let file = vec![b'a'; 1 << 20];
        assert_eq!(find_matches(&file, &"a".repeat(100_000)).len(), file.len() - 100_000 + 1);
    }

    #[test]
    fn a_text_that_is_not_there_is_told_where_it_nearly_is() {
        let file = b"fn main() {\n    let a = 1;\n    let b = 2;\n}\n";
        let said = |old: &str| describe_closest(file, old);
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
