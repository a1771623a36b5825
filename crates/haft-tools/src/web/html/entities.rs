//! Character references: `&amp;`, `&#8212;`, `&#x2014;`.
//!
//! Numbers are read as browsers read them: those of the old code page for Windows mean what they meant there,
//! and what is no character is a replacement character. A name needs its semicolon; without one only the few
//! count that everybody leaves it out of.

use std::borrow::Cow;

/// The longest name, with `&` and `;`, in bytes.
const NAME_BYTES_MAX: usize = 34;
/// Names that are read without a semicolon.
const BARE: [(&str, &str); 5] =
    [("&amp", "&"), ("&lt", "<"), ("&gt", ">"), ("&quot", "\""), ("&nbsp", "\u{a0}")];
/// What the numbers 0x80 to 0x9f mean.
const WINDOWS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}',
    '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// The text that is meant.
pub(super) fn decode_entities(text: &str) -> Cow<'_, str> {
    if memchr::memchr(b'&', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'&', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = write_reference(rest, &mut out).unwrap_or_else(|| {
            out.push('&');
            1
        });
        rest = &rest[taken..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Writes what the reference at the start means; how long it is.
fn write_reference(text: &str, out: &mut String) -> Option<usize> {
    let bytes = text.as_bytes();
    if bytes.get(1) == Some(&b'#') {
        let (start, radix) = if matches!(bytes.get(2), Some(b'x' | b'X')) { (3, 16) } else { (2, 10) };
        let digits = bytes[start..].iter().take_while(|byte| char::from(**byte).is_digit(radix)).count();
        if digits == 0 {
            return None;
        }
        let end = start + digits;
        // A number that is too long is no character either.
        let number = u32::from_str_radix(&text[start..end], radix).unwrap_or(u32::MAX);
        out.push(match number {
            0x80..=0x9f => WINDOWS[number as usize - 0x80],
            0 => '\u{fffd}',
            number => char::from_u32(number).unwrap_or('\u{fffd}'),
        });
        return Some(end + usize::from(bytes.get(end) == Some(&b';')));
    }
    let name =
        bytes.iter().skip(1).take(NAME_BYTES_MAX).take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let end = 1 + name;
    if name > 0 && bytes.get(end) == Some(&b';') {
        let whole = &text[..=end];
        let meant = html_escape::decode_html_entities(whole);
        if meant != whole {
            out.push_str(&meant);
            return Some(end + 1);
        }
    }
    let (bare, meant) = BARE.iter().find(|(bare, _)| text.starts_with(bare))?;
    out.push_str(meant);
    Some(bare.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_mean_what_browsers_make_of_them() {
        for (text, meant) in [
            ("a &amp; b", "a & b"),
            ("&lt;b&gt;", "<b>"),
            ("&eacute;&mdash;&hellip;&NotEqualTilde;", "é—…≂̸"),
            ("&#65;&#x42;&#X43;", "ABC"),
            ("&#150;&#x80;", "–€"),
            ("&#0;&#xD800;&#99999999999;", "\u{fffd}\u{fffd}\u{fffd}"),
            ("a&b; &; &#; &#x; &unknown; &", "a&b; &; &#; &#x; &unknown; &"),
            ("x&nbsp y&amp=1", "x\u{a0} y&=1"),
            ("&amp;lt;", "&lt;"),
            ("&é;", "&é;"),
        ] {
            assert_eq!(decode_entities(text), meant, "{text}");
        }
    }
}
