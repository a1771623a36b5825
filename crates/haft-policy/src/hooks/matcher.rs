//! Matchers: which tools, or which kinds of an event, a group of hooks applies to.
//!
//! Plain names are compared as a whole. Anything else is a regular expression that may match anywhere, with
//! JavaScript syntax including lookaround. An expression that takes too many steps counts as matching: it
//! is better to run a hook too often than to leave a gate open.

use fancy_regex::{Regex, RegexBuilder};

use super::limits;

/// A parsed matcher.
#[derive(Debug, Clone)]
pub(super) enum HookMatcher {
    All,
    Names(Vec<String>),
    Pattern(Box<Regex>),
}

impl HookMatcher {
    /// Parses a matcher.
    ///
    /// # Errors
    /// Returns a message that says what is wrong.
    pub(super) fn parse(written: Option<&str>) -> Result<HookMatcher, String> {
        let written = written.unwrap_or("");
        if written.is_empty() || written == "*" {
            return Ok(HookMatcher::All);
        }
        if written.chars().nth(limits::MATCHER_CHARS_MAX).is_some() {
            let most = limits::MATCHER_CHARS_MAX;
            return Err(format!("a matcher has at most {most} characters"));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ' ' | ',' | '|' | '-');
        if written.chars().all(plain) {
            let names = written.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty());
            return Ok(HookMatcher::Names(names.map(str::to_owned).collect()));
        }
        RegexBuilder::new(written)
            .backtrack_limit(limits::MATCHER_STEPS_MAX)
            .build()
            .map(|regex| HookMatcher::Pattern(Box::new(regex)))
            .map_err(|error| {
                format!("the matcher `{written}` is neither names nor a regular expression: {error}")
            })
    }

    /// Returns whether the matcher matches this tool or kind.
    pub(super) fn matches(&self, subject: &str) -> bool {
        // Sub-agents used to be called `Task`, and existing hooks still use that name.
        self.matches_name(subject) || (subject == "Agent" && self.matches_name("Task"))
    }

    fn matches_name(&self, subject: &str) -> bool {
        match self {
            HookMatcher::All => true,
            HookMatcher::Names(names) => names.iter().any(|name| name == subject),
            HookMatcher::Pattern(regex) => regex.is_match(subject).unwrap_or(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(matcher: &str, hits: &[&str], misses: &[&str]) {
        let matcher = HookMatcher::parse(Some(matcher)).expect("it can be read");
        for name in hits {
            assert!(matcher.matches(name), "{matcher:?} should match {name}");
        }
        for name in misses {
            assert!(!matcher.matches(name), "{matcher:?} should not match {name}");
        }
    }

    #[test]
    fn names_are_whole_and_anything_else_is_an_expression() {
        check("*", &["Bash", "mcp__a__b", ""], &[]);
        check("", &["Bash"], &[]);
        check("Bash", &["Bash"], &["BashOutput", "bash"]);
        check("Edit|Write", &["Edit", "Write"], &["NotebookEdit", "Edit|Write"]);
        check("Edit, Write", &["Edit", "Write"], &["MultiEdit"]);
        check("mcp__memory", &["mcp__memory"], &["mcp__memory__create"]);
        check("mcp__memory__.*", &["mcp__memory__create"], &["mcp__other__create"]);
        check("mcp__.*__write", &["mcp__fs__write", "mcp__fs__write_file"], &["mcp__fs__read"]);
        check("Edit.*", &["Edit", "NotebookEdit", "EditX"], &["Read"]);
        check("^Edit$", &["Edit"], &["NotebookEdit"]);
        check("^(?!Bash$).*", &["Edit", "BashX"], &["Bash"]);
        check("Task", &["Agent", "Task"], &["TaskCreate"]);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let error = HookMatcher::parse(Some("Edit(")).unwrap_err();
        assert!(
            error.starts_with("the matcher `Edit(` is neither names nor a regular expression"),
            "{error}"
        );
        assert!(HookMatcher::parse(Some(&"a".repeat(2_001))).is_err());
    }

    #[test]
    fn an_expression_that_takes_too_long_matches() {
        check(r"^(?=(a+)+$)(a|aa)+\1$x", &[&"a".repeat(60)], &[]);
    }
}
