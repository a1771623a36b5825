//! How the bytes of a page are meant: as browsers find it out, and a little further.
//!
//! A byte order mark wins, then the header, then what the page says of itself at its start. Where nobody says
//! anything, bytes that are UTF-8 are that, and others are guessed from what they look like and where they
//! come from.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// How far a page is looked into for what it says of itself, in bytes.
const LOOKED_AT_MAX: usize = 4 * 1024;
/// How many bytes a guess is made from.
const GUESSED_FROM_MAX: usize = 256 * 1024;

/// The text that was meant. `label` is what the header says, `tld` the last part of the host's name.
pub(super) fn decode_page(bytes: Vec<u8>, label: Option<&str>, tld: Option<&str>) -> String {
    if Encoding::for_bom(&bytes).is_none() && is_utf8(label) {
        // Nearly every page is this, and needs no copy.
        match String::from_utf8(bytes) {
            Ok(text) => return text,
            Err(bad) => return decode_with(bad.as_bytes(), label, tld),
        }
    }
    decode_with(&bytes, label, tld)
}

fn is_utf8(label: Option<&str>) -> bool {
    label.and_then(|label| Encoding::for_label(label.as_bytes())) == Some(UTF_8)
}

fn decode_with(bytes: &[u8], label: Option<&str>, tld: Option<&str>) -> String {
    let said = label.and_then(|label| Encoding::for_label(label.as_bytes())).or_else(|| of_page(bytes));
    let encoding = said.unwrap_or_else(|| {
        if std::str::from_utf8(bytes).is_ok() { UTF_8 } else { guess_encoding(bytes, tld) }
    });
    // Heeds a byte order mark before anything else.
    encoding.decode(bytes).0.into_owned()
}

/// What the start of a page says: `<meta charset=…>`, `<meta … content="…; charset=…">`,
/// `<?xml encoding=…?>`.
fn of_page(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = &bytes[..bytes.len().min(LOOKED_AT_MAX)];
    let lower = start.to_ascii_lowercase();
    let end = memchr::memmem::find(&lower, b"<body").unwrap_or(lower.len());
    let lower = &lower[..end];
    let xml = lower.starts_with(b"<?xml").then(|| attribute_value(lower, b"encoding")).flatten();
    let meta = || {
        memchr::memmem::find_iter(lower, b"<meta").find_map(|at| {
            let end = memchr::memchr(b'>', &lower[at..]).map_or(lower.len(), |end| at + end);
            attribute_value(&lower[at..end], b"charset")
        })
    };
    let found = xml.or_else(meta)?;
    Some(match Encoding::for_label(found)? {
        // It could not have been read as what it is.
        wide if wide == UTF_16BE || wide == UTF_16LE => UTF_8,
        other => other,
    })
}

/// What stands after a name and `=`.
fn attribute_value<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let after = memchr::memmem::find(text, name)? + name.len();
    let rest = text[after..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"").or(rest.strip_prefix(b"'")).unwrap_or(rest);
    let end = rest.iter().position(|byte| byte.is_ascii_whitespace() || b"\"';/>?".contains(byte));
    Some(&rest[..end.unwrap_or(rest.len())])
}

fn guess_encoding(bytes: &[u8], tld: Option<&str>) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(&bytes[..bytes.len().min(GUESSED_FROM_MAX)], true);
    let plain = |tld: &&str| tld.bytes().all(|byte| byte.is_ascii_lowercase());
    let guess = detector.guess(tld.filter(plain).map(str::as_bytes), Utf8Detection::Deny);
    if guess.is_ascii_compatible() { guess } else { WINDOWS_1252 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], label: Option<&str>, meant: &str) {
        assert_eq!(decode_page(bytes.to_vec(), label, None), meant);
    }

    #[test]
    fn marks_then_headers_then_pages_then_guesses() {
        check("é".as_bytes(), None, "é");
        check("é".as_bytes(), Some("utf-8"), "é");
        check(b"\xe9", Some("ISO-8859-1"), "é");
        check(b"\xef\xbb\xbf\xc3\xa9", Some("windows-1252"), "é");
        check(b"\xff\xfea\0", None, "a");
        check(b"<meta charset=windows-1251>\xef\xf0", None, "<meta charset=windows-1251>пр");
        check(
            b"<META http-equiv=x content='text/html; charset=Shift_JIS'>\x93\xfa",
            None,
            "<META http-equiv=x content='text/html; charset=Shift_JIS'>日",
        );
        check(
            b"<?xml version='1.0' encoding='koi8-r'?>\xc1",
            None,
            "<?xml version='1.0' encoding='koi8-r'?>а",
        );
        check("<meta charset=utf-16>é".as_bytes(), None, "<meta charset=utf-16>é");
        check("<meta charset=nonsense>é".as_bytes(), Some("nonsense"), "<meta charset=nonsense>é");
        check(b"caf\xe9 au lait, d\xe9j\xe0 vu", None, "café au lait, déjà vu");
        check(b"a\xffb", Some("utf-8"), "a\u{fffd}b");
        let japanese =
            encoding_rs::SHIFT_JIS.encode("これは日本語の文章です。文字コードは書いてありません。").0;
        check(&japanese, None, "これは日本語の文章です。文字コードは書いてありません。");
    }
}
