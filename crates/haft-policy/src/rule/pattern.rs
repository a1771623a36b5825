//! Texts with wildcards: whole texts for commands, names and values, and single segments of paths.
//!
//! Two kinds, because their costs differ: [`WildcardPattern`] knows only `*`, so it is matched by looking for
//! its parts one after the other, in time linear in the text; a [`SegmentPattern`] knows `?` and `[…]` too
//! and goes back to its last star, which is fine for the few hundred bytes of a file name. Regular
//! expressions would do both, and would let a rule that somebody pasted decide how long every call takes to
//! judge.

/// What an [index](super::pattern_index) needs to know of a pattern.
pub(super) trait IndexedPattern: Clone + Eq + std::hash::Hash {
    /// Returns the only text that the pattern matches, if there is only one.
    fn exact(&self) -> Option<&str>;
    /// Returns the literal prefix of every matching text.
    fn head(&self) -> &str;
    /// Returns the literal suffix of every matching text.
    fn tail(&self) -> &str;
    /// Returns whether the pattern matches the text.
    fn matches(&self, text: &str) -> bool;
}

/// A pattern in which `*` matches any run of characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct WildcardPattern {
    /// The parts between the stars; a single part if there is no star.
    parts: Vec<Box<str>>,
}

impl WildcardPattern {
    /// Creates a pattern that matches only this text.
    pub(super) fn literal(text: &str) -> WildcardPattern {
        WildcardPattern { parts: vec![text.into()] }
    }

    /// Creates a pattern that matches every text with this prefix.
    pub(super) fn starting(head: &str) -> WildcardPattern {
        WildcardPattern { parts: vec![head.into(), "".into()] }
    }

    /// Parses a pattern in which every `*` is a wildcard.
    pub(super) fn new(text: &str) -> WildcardPattern {
        WildcardPattern::from_parts(text.split('*').map(str::to_owned))
    }

    /// As [`WildcardPattern::new`]; but if there is a star at all, `\*` is a star and `\\` a backslash.
    pub(super) fn escaped(text: &str) -> WildcardPattern {
        if text.contains('*') { WildcardPattern::read(text) } else { WildcardPattern::literal(text) }
    }

    /// Parses escapes even if the text contains no star.
    pub(super) fn read(text: &str) -> WildcardPattern {
        let mut parts = vec![String::new()];
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            let part = parts.last_mut().expect("there is always a part");
            match c {
                '*' => parts.push(String::new()),
                '\\' => part.push(rest.next_if(|c| matches!(c, '*' | '\\')).unwrap_or('\\')),
                _ => part.push(c),
            }
        }
        WildcardPattern::from_parts(parts.into_iter())
    }

    /// The text that [`WildcardPattern::escaped`] reads as exactly this one.
    pub(super) fn escape(text: &str) -> String {
        if text.contains('*') { text.replace('\\', r"\\").replace('*', r"\*") } else { text.to_owned() }
    }

    /// Merges consecutive stars.
    fn from_parts(parts: impl Iterator<Item = String>) -> WildcardPattern {
        let mut kept: Vec<Box<str>> = Vec::new();
        let mut parts = parts.peekable();
        while let Some(part) = parts.next() {
            let between = !kept.is_empty() && parts.peek().is_some();
            if !(between && part.is_empty()) {
                kept.push(part.into());
            }
        }
        WildcardPattern { parts: kept }
    }

    /// Returns a copy with each part changed.
    pub(super) fn map(&self, change: impl Fn(&str) -> String) -> WildcardPattern {
        WildcardPattern { parts: self.parts.iter().map(|part| change(part).into()).collect() }
    }

    /// Returns the pattern for [normalized lines](super::line).
    pub(super) fn as_line(&self) -> WildcardPattern {
        // A command line that contains this character is not understood.
        const STAR: &str = "\u{1}";
        let line = super::command_line::NormalizedLine::new(&self.parts.join(STAR));
        WildcardPattern { parts: line.text().split(STAR).map(Into::into).collect() }
    }

    /// Returns whether the pattern contains one of these characters literally.
    pub(super) fn contains<const N: usize>(&self, letters: [char; N]) -> bool {
        self.parts.iter().any(|part| part.contains(letters))
    }

    /// Returns whether the pattern may match a text of which only these pieces are known. Between two
    /// pieces stands either nothing, or a space followed by anything.
    pub(super) fn may_match(&self, pieces: &[String]) -> bool {
        let [first, .., last] = pieces else { return pieces.iter().any(|text| self.matches(text)) };
        let goes_on = |text: &str| {
            text.strip_prefix(&**first).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        if let Some(text) = self.exact() {
            let open = WildcardPattern { parts: pieces.iter().map(|piece| (**piece).into()).collect() };
            return goes_on(text) && open.matches(text);
        }
        // Both have a gap in the middle that can hold what the other requires there.
        let (head, tail) = (self.head(), self.tail());
        (goes_on(head) || first.starts_with(head)) && (tail.ends_with(&**last) || last.ends_with(tail))
    }

    /// Returns whether the pattern matches every text.
    pub(super) fn is_all(&self) -> bool {
        self.parts.len() == 2 && self.parts.iter().all(|part| part.is_empty())
    }
}

impl IndexedPattern for WildcardPattern {
    fn exact(&self) -> Option<&str> {
        if let [only] = &*self.parts { Some(only) } else { None }
    }

    fn head(&self) -> &str {
        &self.parts[0]
    }

    fn tail(&self) -> &str {
        &self.parts[self.parts.len() - 1]
    }

    fn matches(&self, text: &str) -> bool {
        let [head, between @ .., tail] = &*self.parts else { return text == self.head() };
        let Some(mut rest) = text.strip_prefix(&**head).and_then(|rest| rest.strip_suffix(&**tail)) else {
            return false;
        };
        // The leftmost match of each part leaves the most room for the parts after it.
        between.iter().all(|part| match rest.find(&**part) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    }
}

/// One path segment in gitignore syntax: `*`, `?`, `[a-z]`, `[!a]`, and `\` before a literal character.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SegmentPattern {
    tokens: Vec<SegmentToken>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SegmentToken {
    Text(String),
    Star,
    One,
    Class { negated: bool, ranges: Vec<(char, char)>, folded: bool },
}

impl SegmentPattern {
    /// Creates a segment that matches only this name.
    pub(super) fn literal(name: &str) -> SegmentPattern {
        SegmentPattern { tokens: vec![SegmentToken::Text(name.to_owned())] }
    }

    pub(super) fn new(text: &str) -> SegmentPattern {
        let mut tokens: Vec<SegmentToken> = Vec::new();
        let letters: Vec<char> = text.chars().collect();
        let mut at = 0;
        while at < letters.len() {
            let c = letters[at];
            at += 1;
            match c {
                '*' => {
                    if tokens.last() != Some(&SegmentToken::Star) {
                        tokens.push(SegmentToken::Star);
                    }
                }
                '?' => tokens.push(SegmentToken::One),
                '[' => match parse_class(&letters[at..]) {
                    Some((found, length)) => {
                        tokens.push(found);
                        at += length;
                    }
                    None => push_char(&mut tokens, '['),
                },
                '\\' if at < letters.len() => {
                    push_char(&mut tokens, letters[at]);
                    at += 1;
                }
                _ => push_char(&mut tokens, c),
            }
        }
        SegmentPattern { tokens }
    }

    /// The text that [`SegmentPattern::new`] reads as exactly this name.
    pub(super) fn escape(name: &str) -> String {
        let mut text = String::with_capacity(name.len());
        for c in name.chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '\\') {
                text.push('\\');
            }
            text.push(c);
        }
        text
    }

    /// Returns whether the segment contains a character class `[…]`.
    pub(super) fn has_class(&self) -> bool {
        self.tokens.iter().any(|token| matches!(token, SegmentToken::Class { .. }))
    }

    /// Returns the segment for folded names.
    pub(super) fn folded(&self) -> SegmentPattern {
        let fold = |token: &SegmentToken| match token {
            SegmentToken::Text(text) => SegmentToken::Text(super::fold_names::fold_name(text)),
            SegmentToken::Class { negated, ranges, .. } => {
                SegmentToken::Class { negated: *negated, ranges: ranges.clone(), folded: true }
            }
            other => other.clone(),
        };
        SegmentPattern { tokens: self.tokens.iter().map(fold).collect() }
    }
}

impl IndexedPattern for SegmentPattern {
    fn exact(&self) -> Option<&str> {
        match &*self.tokens {
            [] => Some(""),
            [SegmentToken::Text(text)] => Some(text),
            _ => None,
        }
    }

    fn head(&self) -> &str {
        if let Some(SegmentToken::Text(text)) = self.tokens.first() { text } else { "" }
    }

    fn tail(&self) -> &str {
        if let Some(SegmentToken::Text(text)) = self.tokens.last() { text } else { "" }
    }

    fn matches(&self, name: &str) -> bool {
        let (mut token, mut rest) = (0, name);
        // Where to continue after a mismatch: after the last star, one character later.
        let mut retry: Option<(usize, &str)> = None;
        loop {
            let step = match self.tokens.get(token) {
                Some(SegmentToken::Star) => {
                    retry = Some((token + 1, rest));
                    Some(rest)
                }
                Some(SegmentToken::Text(text)) => rest.strip_prefix(&**text),
                Some(one) => {
                    let mut letters = rest.chars();
                    letters.next().filter(|c| one.takes(*c)).map(|_| letters.as_str())
                }
                None if rest.is_empty() => return true,
                None => None,
            };
            match (step, retry) {
                (Some(after), _) => (token, rest) = (token + 1, after),
                (None, Some((after_star, from))) => {
                    let mut letters = from.chars();
                    if letters.next().is_none() {
                        return false;
                    }
                    retry = Some((after_star, letters.as_str()));
                    (token, rest) = (after_star, letters.as_str());
                }
                (None, None) => return false,
            }
        }
    }
}

impl SegmentToken {
    fn takes(&self, c: char) -> bool {
        let SegmentToken::Class { negated, ranges, folded } = self else {
            return matches!(self, SegmentToken::One);
        };
        let within = |c: char| ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated;
        // A folded name has lost its case, so the class matches if either case does.
        within(c) || (*folded && (c.to_uppercase().any(within) || c.to_lowercase().any(within)))
    }
}

fn push_char(tokens: &mut Vec<SegmentToken>, c: char) {
    match tokens.last_mut() {
        Some(SegmentToken::Text(text)) => text.push(c),
        _ => tokens.push(SegmentToken::Text(c.into())),
    }
}

/// Parses a class after its `[` and returns it with its length; `None` if it isn't closed.
fn parse_class(letters: &[char]) -> Option<(SegmentToken, usize)> {
    let mut at = 0;
    let negated = matches!(letters.first(), Some('!' | '^'));
    at += usize::from(negated);
    let first = at;
    let mut ranges = Vec::new();
    let letter = |at: &mut usize| {
        if letters.get(*at) == Some(&'\\') {
            *at += 1;
        }
        let found = letters.get(*at).copied();
        *at += 1;
        found
    };
    loop {
        if letters.get(at) == Some(&']') && at > first {
            return Some((SegmentToken::Class { negated, ranges, folded: false }, at + 1));
        }
        let from = letter(&mut at)?;
        if letters.get(at) == Some(&'-') && letters.get(at + 1).is_some_and(|c| *c != ']') {
            at += 1;
            ranges.push((from, letter(&mut at)?));
        } else {
            ranges.push((from, from));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_stand_for_any_run() {
        let check = |pattern: &str, yes: &[&str], no: &[&str]| {
            let wild = WildcardPattern::escaped(pattern);
            yes.iter().for_each(|text| assert!(wild.matches(text), "{pattern} should match {text}"));
            no.iter().for_each(|text| assert!(!wild.matches(text), "{pattern} should not match {text}"));
        };
        check("ls", &["ls"], &["ls ", "lsof", ""]);
        check("ls*", &["ls", "lsof", "ls -la"], &["als"]);
        check("git * main", &["git push main", "git  main"], &["git main", "git push main2"]);
        check("a*b*c", &["abc", "aXbXc", "abbc"], &["acb", "ab"]);
        check("ab*ba", &["abba"], &["aba"]);
        check("*", &["", "x y"], &[]);
        check(r"ls \*.rs", &["ls *.rs"], &["ls a.rs", r"ls \*.rs"]);
        check(r"a\\*", &[r"a\", r"a\x"], &["a*"]);
        check(r"a\b", &[r"a\b"], &["ab"]);
    }

    #[test]
    fn segments_are_read_as_gitignore_reads_them() {
        let check = |pattern: &str, yes: &[&str], no: &[&str]| {
            let segment = SegmentPattern::new(pattern);
            yes.iter().for_each(|name| assert!(segment.matches(name), "{pattern} should match {name}"));
            no.iter().for_each(|name| assert!(!segment.matches(name), "{pattern} should not match {name}"));
        };
        check("*.rs", &[".rs", "a.rs", "a.b.rs"], &["a.rsx"]);
        check("a?c", &["abc", "aéc"], &["ac", "abbc"]);
        check("[a-c]x", &["ax", "cx"], &["dx", "x"]);
        check("[!a-c]x", &["dx"], &["ax"]);
        check("[]]", &["]"], &["["]);
        check("[a", &["[a"], &["a"]);
        check(r"\*", &["*"], &["a"]);
        check(r"a\", &[r"a\"], &["a"]);
        check("*a*b", &["ab", "xaxb", "aab"], &["ba"]);
        check("", &[""], &["a"]);
    }

    #[test]
    fn a_long_pattern_of_stars_is_cheap() {
        let text = "a".repeat(20_000);
        assert!(!WildcardPattern::new(&format!("{}b", "a*".repeat(2_000))).matches(&text));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn an_escaped_text_matches_itself_alone(text in ".{0,20}", other in ".{0,20}") {
            let wild = WildcardPattern::escaped(&WildcardPattern::escape(&text));
            prop_assert!(wild.matches(&text));
            prop_assert_eq!(wild.matches(&other), text == other);
            let segment = SegmentPattern::new(&SegmentPattern::escape(&text));
            prop_assert!(segment.matches(&text));
            prop_assert_eq!(segment.matches(&other), text == other);
        }

        /// `may_match` accepts a partial text exactly if some completion of it matches.
        #[test]
        fn what_may_match_is_found(
            pattern in "[ab *]{0,4}", first in "[ab]{1,2}", last in "( [ab]{1,2})?", between in "( [ab ]{0,4})?",
        ) {
            let (wild, pieces) = (WildcardPattern::new(&pattern), [first.clone(), last.clone()]);
            if wild.matches(&format!("{first}{between}{last}")) {
                prop_assert!(wild.may_match(&pieces), "{} {:?} {}", pattern, pieces, between);
            }
            if wild.may_match(&pieces) {
                let mut betweens = vec![String::new(), " ".to_owned()];
                let mut found = false;
                while let Some(between) = betweens.pop() {
                    found |= wild.matches(&format!("{first}{between}{last}"));
                    if !found && between.starts_with(' ') && between.len() < 6 {
                        betweens.extend(["a", "b", " "].map(|c| format!("{between}{c}")));
                    }
                }
                prop_assert!(found, "{} {:?}", pattern, pieces);
            }
        }

        /// Both kinds agree on patterns that mean the same in both.
        #[test]
        fn the_two_kinds_agree_on_stars(pattern in "[ab*]{0,8}", text in "[ab]{0,8}") {
            prop_assert_eq!(WildcardPattern::new(&pattern).matches(&text), SegmentPattern::new(&pattern).matches(&text));
        }

        #[test]
        fn a_match_has_head_and_tail(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            let segment = SegmentPattern::new(&pattern);
            if segment.matches(&text) {
                prop_assert!(text.starts_with(segment.head()) && text.ends_with(segment.tail()));
            }
        }
    }
}
