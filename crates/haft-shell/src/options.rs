//! Reading options as `getopt_long` does, from a list of those that are known.
//!
//! Only full names are known. GNU programs take any unambiguous beginning of a long option (`--compress-prog`), and a
//! list that tried to follow would have to hold every option of every version; so a shortened name is simply unknown,
//! and what is unknown is never harmless.

/// The options of one program that are known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    /// Single letters without a value.
    pub(super) flags: &'static str,
    /// Single letters with a value.
    pub(super) valued: &'static str,
    /// Names without a value, or with one after `=` that may be left out.
    pub(super) long: &'static [&'static str],
    /// Names with a value.
    pub(super) long_valued: &'static [&'static str],
}

/// One option that was found in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found<'w> {
    Flag(&'w str),
    /// With its value, if that is in the same word.
    Valued(&'w str, Option<&'w str>),
    Unknown,
}

impl Options {
    /// The options in one word that begins with `-`.
    pub(super) fn read<'w>(&self, word: &'w str) -> Vec<Found<'w>> {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            return vec![if self.long_valued.contains(&name) {
                Found::Valued(name, value)
            } else if self.long.contains(&name) {
                Found::Flag(name)
            } else {
                Found::Unknown
            }];
        }
        let letters = &word[1..];
        let mut found = Vec::new();
        for (at, letter) in letters.char_indices() {
            let name = &letters[at..at + letter.len_utf8()];
            let rest = &letters[at + letter.len_utf8()..];
            if self.valued.contains(letter) {
                found.push(Found::Valued(name, (!rest.is_empty()).then_some(rest)));
                break;
            }
            found.push(if self.flags.contains(letter) { Found::Flag(name) } else { Found::Unknown });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SORT: Options = Options { flags: "nru", valued: "kt", long: &["reverse"], long_valued: &["key"] };

    #[test]
    fn clusters_values_and_names() {
        assert_eq!(SORT.read("-nr"), [Found::Flag("n"), Found::Flag("r")]);
        assert_eq!(SORT.read("-nk2"), [Found::Flag("n"), Found::Valued("k", Some("2"))]);
        assert_eq!(SORT.read("-k"), [Found::Valued("k", None)]);
        assert_eq!(SORT.read("--key=2"), [Found::Valued("key", Some("2"))]);
        assert_eq!(SORT.read("--reverse"), [Found::Flag("reverse")]);
        assert_eq!(SORT.read("-no"), [Found::Flag("n"), Found::Unknown]);
        assert_eq!(SORT.read("--rev"), [Found::Unknown], "a shortened name is unknown");
        assert_eq!(SORT.read("--compress-prog=x"), [Found::Unknown]);
    }
}
