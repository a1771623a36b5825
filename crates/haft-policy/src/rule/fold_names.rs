//! Name folding: removes differences that a file system may ignore, such as case, Unicode composition and
//! invisible characters.
//!
//! Deny and ask rules compare folded names, so they match `.ENV` and a decomposed `é` however the rule
//! spells them. Allow rules never fold: names with the same folded form may be two files.

use unicode_normalization::UnicodeNormalization;

/// Returns the folded form. Folding is idempotent.
pub(super) fn fold_name(name: &str) -> String {
    let mut folded = String::with_capacity(name.len());
    fold_into(name, &mut folded);
    folded
}

/// Appends the folded form.
pub(super) fn fold_into(name: &str, folded: &mut String) {
    if name.is_ascii() {
        let start = folded.len();
        folded.push_str(name);
        folded[start..].make_ascii_lowercase();
        return;
    }
    let mut last = fold_once(name);
    // Normalization may produce a character that has another case. Two rounds are enough for every existing
    // character.
    for _ in 0..ROUNDS_MAX {
        let next = fold_once(&last);
        if next == last {
            break;
        }
        last = next;
    }
    folded.push_str(&last);
}

/// The maximum number of folding rounds.
const ROUNDS_MAX: usize = 4;

fn fold_once(name: &str) -> String {
    // Upper case comes first: it merges letters that lower case keeps apart, such as the two small sigmas.
    name.nfkc()
        .filter(|c| !is_invisible(*c))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .nfkc()
        .collect()
}

/// Returns whether some file systems ignore the character when they compare names.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_disk_may_take_for_the_same_is_the_same() {
        let same = |a: &str, b: &str| assert_eq!(fold_name(a), fold_name(b), "{a} {b}");
        same(".ENV", ".env");
        same("caf\u{e9}", "cafe\u{301}");
        same("STRASSE", "straße");
        same("ΟΔΟΣ", "οδος");
        same(".g\u{200c}it", ".git");
        same("\u{ff53}ecrets", "secrets");
        assert_ne!(fold_name("secret"), fold_name("secrets"));
    }

    #[test]
    fn every_character_is_folded_for_good() {
        // Characters beyond, and those in the large blocks of ideographs and syllables, have no case.
        let plain = |c: &char| ('\u{3400}'..='\u{9fff}').contains(c) || ('\u{ac00}'..='\u{d7a3}').contains(c);
        for c in ('\u{80}'..='\u{1ffff}').filter(|c| !plain(c)) {
            let once = super::fold_once(c.encode_utf8(&mut [0; 4]));
            let twice = super::fold_once(&once);
            assert_eq!(super::fold_once(&twice), twice, "{}", c.escape_unicode());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn folding_twice_is_folding_once(name in "\\PC{0,12}") {
            let once = fold_name(&name);
            prop_assert_eq!(fold_name(&once), once);
        }
    }
}
