//! Texts as words to search by: lower case, names taken apart, plurals as their singular.

/// Calls `word` for each word of a text. `buffer` is used for one word at a time, so that nothing is
/// allocated for each.
pub(super) fn each_word(text: &str, buffer: &mut String, mut word: impl FnMut(&str)) {
    if text.is_ascii() {
        return each_ascii_word(text, buffer, word);
    }
    buffer.clear();
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if !character.is_alphanumeric() {
            end_word(buffer, &mut word);
            before = character;
            continue;
        }
        // `createIssue` is two words, `HTTPServer` as well, `v2` is one.
        let begins = character.is_uppercase()
            && (before.is_lowercase()
                || before.is_numeric()
                || (before.is_uppercase() && characters.peek().is_some_and(|next| next.is_lowercase())));
        if begins {
            end_word(buffer, &mut word);
        }
        if character.is_ascii() {
            buffer.push(character.to_ascii_lowercase())
        } else {
            buffer.extend(character.to_lowercase())
        }
        before = character;
    }
    end_word(buffer, &mut word);
}

/// The same for plain text, which nearly all of it is: a word that is in lower case already is not even
/// copied.
fn each_ascii_word(text: &str, buffer: &mut String, mut word: impl FnMut(&str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_alphanumeric() {
            at += 1;
            continue;
        }
        let (start, mut upper) = (at, bytes[at].is_ascii_uppercase());
        at += 1;
        while at < bytes.len() && bytes[at].is_ascii_alphanumeric() {
            if bytes[at].is_ascii_uppercase() {
                let before = bytes[at - 1];
                let next_is_lower = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
                if !before.is_ascii_uppercase() || next_is_lower {
                    break;
                }
                upper = true;
            }
            at += 1;
        }
        let found = &text[start..at];
        if upper {
            buffer.clear();
            buffer.push_str(found);
            buffer.make_ascii_lowercase();
            word(stem_word(buffer));
        } else {
            word(stem_word(found));
        }
    }
}

fn end_word(buffer: &mut String, word: &mut impl FnMut(&str)) {
    if !buffer.is_empty() {
        word(stem_word(buffer));
        buffer.clear();
    }
}

/// The word without the ending of a plural. The same is done to queries, so it need not be right, only the
/// same.
fn stem_word(word: &str) -> &str {
    let plural = word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us");
    if plural { &word[..word.len() - 1] } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let mut words = Vec::new();
        each_word(text, &mut String::new(), |word| words.push(word.to_owned()));
        assert_eq!(words.join(" "), expected, "{text}");
    }

    #[test]
    fn plain_text_is_taken_apart_like_any_other() {
        for text in [
            "createIssue",
            "HTTPServer",
            "aB",
            "ABc",
            "A",
            "getURL2Go",
            "x_Y-Z9",
            "IDs of URLs",
            "v2API",
            "AB",
        ] {
            let (mut plain, mut other) = (Vec::new(), Vec::new());
            each_word(text, &mut String::new(), |word| plain.push(word.to_owned()));
            each_word(&format!("{text} ü"), &mut String::new(), |word| other.push(word.to_owned()));
            assert_eq!(other.pop().as_deref(), Some("ü"));
            assert_eq!(plain, other, "{text}");
        }
    }

    #[test]
    fn names_are_taken_apart_and_plurals_are_one() {
        check("mcp__github__create_issue", "mcp github create issue");
        check("createIssue HTTPServer v2 getURL", "create issue http server v2 get url");
        check("Lists all issues; the status, class.", "list all issue the status class");
        check("Grüße ÄRGER 世界", "grüße ärger 世界");
        check("", "");
        check("--- a.b/c", "a b c");
    }
}
