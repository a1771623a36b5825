//! Alternative spellings of an argument's text. The tool of a server may treat the text as a path, decode
//! it, or ignore its case; haft can't know which.
//!
//! So deny and ask rules match every equivalent spelling, and an allow rule may not be left through one:
//! `path:/a/*` in `allow` doesn't cover `/a/../etc`, as no rule for commands and files does. Symlinks are
//! not followed, and the base of a relative path is unknown. For a tool whose paths matter, `effects` in
//! the settings describe them, and `Read` and `Edit` rules then apply.

use std::borrow::Cow;

use super::fold_names::fold_name;

/// The maximum number of nested encodings that are decoded.
const DECODINGS_MAX: usize = 4;

/// Returns the text itself, then its decoded form, with slashes for backslashes, as the path of a `file:`
/// URL, and with `..` resolved; each folded.
pub(super) fn all_spellings(text: &str) -> Vec<String> {
    let mut spellings = vec![text.to_owned()];
    add_spelling(&mut spellings, percent_decode(text));
    add_each(&mut spellings, |text| Some(text.replace('\\', "/")));
    add_each(&mut spellings, |text| path_of_file(text).map(str::to_owned));
    add_each(&mut spellings, |text| Some(resolve_segments(text)));
    let mut folded = Vec::with_capacity(spellings.len());
    spellings
        .iter()
        .for_each(|spelling| add_spelling(&mut folded, fold_name(spelling.trim_matches(is_nothing))));
    add_spelling(&mut folded, fold_name(text));
    folded
}

/// Returns the resolved path of a text that contains `..`.
pub(super) fn going_back(text: &str) -> Option<String> {
    if !text.contains(['/', '\\', '%']) && text.is_ascii() {
        return (segment_kind(text) == SegmentKind::Back).then(|| resolve_segments(text));
    }
    let text = percent_decode(text).replace(['\\', '\u{ff0f}', '\u{ff3c}'], "/");
    text.split('/').any(|segment| segment_kind(segment) == SegmentKind::Back).then(|| resolve_segments(&text))
}

fn add_spelling(spellings: &mut Vec<String>, spelling: String) {
    if !spellings.contains(&spelling) {
        spellings.push(spelling);
    }
}

fn add_each(spellings: &mut Vec<String>, change: impl Fn(&str) -> Option<String>) {
    let changed: Vec<String> = spellings.iter().filter_map(|spelling| change(spelling)).collect();
    changed.into_iter().for_each(|spelling| add_spelling(spellings, spelling));
}

/// Returns whether a character is ignored around a name or terminates it.
fn is_nothing(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

#[derive(PartialEq, Eq)]
enum SegmentKind {
    Here,
    Back,
    Name,
}

fn segment_kind(segment: &str) -> SegmentKind {
    let folded = if segment.is_ascii() { Cow::Borrowed(segment) } else { Cow::Owned(fold_name(segment)) };
    match folded.trim_matches(is_nothing) {
        "" | "." => SegmentKind::Here,
        ".." => SegmentKind::Back,
        _ => SegmentKind::Name,
    }
}

/// Removes empty segments, `.` and `..`. The scheme of a URL is kept, and so is `..` at the beginning of a
/// relative path.
fn resolve_segments(text: &str) -> String {
    let (scheme, path) = match text.split_once("://") {
        Some((scheme, _)) if is_scheme(scheme) => text.split_at(scheme.len() + 3),
        _ => ("", text),
    };
    let absolute = scheme.is_empty() && path.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    // `..` can't leave the host of a URL.
    let floor = usize::from(!scheme.is_empty());
    for segment in path.split('/') {
        match segment_kind(segment) {
            SegmentKind::Here => {}
            SegmentKind::Name => kept.push(segment),
            SegmentKind::Back
                if kept.len() > floor
                    && kept.last().is_some_and(|last| segment_kind(last) == SegmentKind::Name) =>
            {
                kept.pop();
            }
            SegmentKind::Back if absolute || floor > 0 => {}
            SegmentKind::Back => kept.push(".."),
        }
    }
    format!("{scheme}{}{}", if absolute { "/" } else { "" }, kept.join("/"))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

fn path_of_file(text: &str) -> Option<&str> {
    let text = text.trim_start_matches(is_nothing);
    let rest = text.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("file:")).map(|_| &text[5..])?;
    match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').map(|at| &rest[at..]),
        None => Some(rest),
    }
}

/// Decodes percent encoding, also if it is nested.
fn percent_decode(text: &str) -> String {
    let mut text = text.to_owned();
    for _ in 0..DECODINGS_MAX {
        if !text.contains('%') {
            break;
        }
        let next = decoded_once(&text);
        if next == text {
            break;
        }
        text = next;
    }
    text
}

fn decoded_once(text: &str) -> String {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = match bytes[at] {
            b'%' => digit(bytes.get(at + 1)).zip(digit(bytes.get(at + 2))),
            _ => None,
        };
        match code.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_come_to_the_same_is_found() {
        for text in [
            "/a/b",
            "//a/b",
            "/./a//b/",
            "/x/../a/b",
            "/../a/b",
            "/%61/b",
            "/%2561/b",
            "\\a\\b",
            "file:///a/b",
            " /a/b\n",
            "file://localhost/a/b",
            "FILE:/a/b",
            "/A/B",
            "/a/\u{200b}b",
            "/\u{ff41}/b",
            "/x/%2e%2e/a/b",
            "/x%2f..%5Ca/b",
            "/a/b\0",
        ] {
            assert!(
                all_spellings(text).iter().any(|spelling| spelling == "/a/b"),
                "{text:?}: {:?}",
                all_spellings(text)
            );
        }
        for text in ["a/b", "/a/b/c", "/a", "/a/../b", "", "%", "%zz", "/a%"] {
            assert!(
                !all_spellings(text).iter().any(|spelling| spelling == "/a/b"),
                "{text:?}: {:?}",
                all_spellings(text)
            );
        }
        assert!(all_spellings("https://x/v1/../Admin").iter().any(|spelling| spelling == "https://x/admin"));
        assert!(all_spellings("https://x/../../y").iter().any(|spelling| spelling == "https://x/y"));
    }

    #[test]
    fn only_what_goes_back_is_resolved() {
        for (text, end) in [
            ("/a/../etc", Some("/etc")),
            ("/a/%2e%2E/etc", Some("/etc")),
            ("/a/..%2fetc", Some("/etc")),
            ("/a\\..\\etc", Some("/etc")),
            ("/a/..\0/etc", Some("/etc")),
            ("/a/.. /etc", Some("/etc")),
            ("/a/\u{2025}/etc", Some("/etc")),
            ("a/../../b", Some("../b")),
            ("..", Some("..")),
            ("https://x/v1/../y", Some("https://x/y")),
            ("/a/./b", None),
            ("/a/...", None),
            ("see the end.. / of it", None),
            ("100% sure", None),
            ("words...", None),
        ] {
            assert_eq!(going_back(text).as_deref(), end, "{text:?}");
        }
    }
}
