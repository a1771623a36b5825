//! From the input to what is searched for and where: matchers, and the errors of those that can't be built.

use std::path::Path;

use globset::escape;
use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use haft::ToolError;
use haft::spelling::edit_distance;
use ignore::Match;
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use regex_syntax::hir::{Hir, HirKind};

use super::{ENTRIES, GrepInput, OutputMode};

/// The longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 100_000;
/// The size of one compiled pattern, in bytes.
const PATTERN_COMPILED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// What a search remembers of a pattern while it runs, in bytes and for each thread.
const PATTERN_CACHE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How many characters repetitions may stand for beyond those that are written: the work for each character
/// that is searched grows with it.
const REPEATED_MAX: usize = 5_000;
/// How many types are given for an unknown one.
const TYPES_SHOWN_MAX: usize = 3;

/// A search that can begin.
pub(super) struct GrepQuery {
    pub(super) matcher: RegexMatcher,
    pub(super) mode: OutputMode,
    pub(super) before: usize,
    pub(super) after: usize,
    pub(super) line_numbers: bool,
    pub(super) only_matching: bool,
    pub(super) multiline: bool,
    pub(super) offset: usize,
    /// How many entries are returned; nothing if all.
    pub(super) limit: Option<usize>,
    globs: Override,
    types: Types,
    /// The pattern as it was given, for words.
    pub(super) pattern: String,
}

impl GrepQuery {
    pub(super) fn compile(input: &GrepInput, place: &Path, cwd: &Path) -> Result<GrepQuery, ToolError> {
        let multiline = input.multiline.unwrap_or(false);
        let around = input.around.or(input.context).unwrap_or(0);
        let mode = input.mode();
        let lines = |given: Option<u32>| {
            let lines = given.unwrap_or(around) as usize;
            if mode == OutputMode::Content { lines } else { 0 }
        };
        Ok(GrepQuery {
            matcher: build_matcher(&input.pattern, input.ignore_case.unwrap_or(false), multiline)?,
            before: lines(input.before),
            after: lines(input.after),
            mode,
            line_numbers: input.line_numbers.unwrap_or(true),
            only_matching: input.only_matching.unwrap_or(false),
            multiline,
            offset: input.offset.unwrap_or(0) as usize,
            limit: Some(input.head_limit.unwrap_or(ENTRIES) as usize).filter(|limit| *limit > 0),
            globs: build_globs(input.glob.as_deref(), place, cwd)?,
            types: build_types(input.file_type.as_deref())?,
            pattern: input.pattern.clone(),
        })
    }

    /// What the call itself says of an entry: in, out, or nothing.
    pub(super) fn chooses(&self, path: &Path, is_dir: bool) -> Option<bool> {
        match self.globs.matched(path, is_dir) {
            Match::None => None,
            Match::Ignore(_) => Some(false),
            Match::Whitelist(_) => Some(true),
        }
    }

    /// Whether a file is of another type than the one that is searched.
    pub(super) fn is_of_other_type(&self, path: &Path) -> bool {
        self.types.matched(path, false).is_ignore()
    }
}

fn build_matcher(pattern: &str, ignore_case: bool, multiline: bool) -> Result<RegexMatcher, ToolError> {
    if pattern.len() > PATTERN_BYTES_MAX {
        let words = format!("`pattern` has more than {PATTERN_BYTES_MAX} bytes; give a shorter one");
        return Err(ToolError::invalid_input(words));
    }
    let places = regex_syntax::parse(pattern).map_or(0, |parsed| count_positions(&parsed));
    if places > pattern.len() + REPEATED_MAX {
        let words = format!(
            "`pattern` is too large: its repetitions stand for {places} characters, and at most {REPEATED_MAX} can be \
             searched for; repeat less, or without a bound (`*`, `+`)"
        );
        return Err(ToolError::invalid_input(words));
    }
    let mut builder = RegexMatcherBuilder::new();
    // `^` and `$` are the ends of a line, as in every grep.
    builder.multi_line(true).case_insensitive(ignore_case).size_limit(PATTERN_COMPILED_BYTES_MAX);
    builder.dfa_size_limit(PATTERN_CACHE_BYTES_MAX);
    // `$` stands before `\r\n` too, unless the pattern itself speaks of `\r`.
    builder.crlf(!pattern.contains('\r') && !pattern.contains("\\r")).line_terminator(None);
    if multiline {
        builder.dot_matches_new_line(true);
    } else {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(pattern).map_err(|error| match error.kind() {
        ErrorKind::NotAllowed(_) => ToolError::invalid_input(
            "`pattern` has an end of line in it, and matches are looked for within one line; set `multiline`",
        ),
        _ => ToolError::invalid_input(explain_misfit(pattern, &error.to_string())),
    })
}

/// How many characters a pattern stands for, each repetition with a bound written out.
fn count_positions(pattern: &Hir) -> usize {
    match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(_) => 1,
        HirKind::Capture(group) => count_positions(&group.sub),
        HirKind::Repetition(repeated) => {
            let times = repeated.max.unwrap_or(repeated.min).max(1) as usize;
            count_positions(&repeated.sub).saturating_mul(times)
        }
        HirKind::Concat(all) | HirKind::Alternation(all) => {
            all.iter().map(count_positions).fold(0, usize::saturating_add)
        }
    }
}

/// What is wrong with a pattern: where, and what to do.
///
/// The search puts the pattern into a group of its own before it parses it, so its errors point at places
/// that the model never wrote. The parser beneath it is asked again.
fn explain_misfit(pattern: &str, said: &str) -> String {
    let (what, at) = match regex_syntax::Parser::new().parse(pattern) {
        Err(regex_syntax::Error::Parse(error)) => (error.kind().to_string(), error.span().start),
        Err(regex_syntax::Error::Translate(error)) => (error.kind().to_string(), error.span().start),
        _ if said.contains("size limit") => {
            return format!(
                "`pattern` is too large: compiled it has more than {} MB; repeat less (`{{1,100}}`), or give a simpler one",
                PATTERN_COMPILED_BYTES_MAX / (1024 * 1024)
            );
        }
        _ => return format!("`pattern` can't be searched for: {said}; give a simpler one"),
    };
    let braces = what.starts_with("repetition quantifier").then_some('{');
    let sign = braces.or(pattern[at.offset..].chars().next()).filter(|c| "(){}[]*+?".contains(*c));
    let advice = match sign {
        _ if what.contains("look-around") || what.contains("backreference") => {
            "search for more and look at the lines".to_owned()
        }
        Some(sign) => format!("if `{sign}` is meant as itself, write `\\{sign}`"),
        None => "put `\\` before a sign that is meant as itself".to_owned(),
    };
    let line = if at.line > 1 { format!(" in line {}", at.line) } else { String::new() };
    format!("`pattern` is not a regular expression at character {}{line}: {what}; {advice}", at.column)
}

/// The globs of the call. One with a slash may begin at the working directory or at the place that is
/// searched.
fn build_globs(given: Option<&str>, place: &Path, cwd: &Path) -> Result<Override, ToolError> {
    let Some(given) = given.filter(|given| !given.trim().is_empty()) else { return Ok(Override::empty()) };
    let root = if place.starts_with(cwd) { cwd } else { place };
    let below = place.strip_prefix(root).ok().and_then(Path::to_str).filter(|below| !below.is_empty());
    let mut builder = OverrideBuilder::new(root);
    for glob in split_globs(given) {
        let senseless = |error: ignore::Error| {
            ToolError::invalid_input(format!("`glob` has `{glob}`, which is not understood: {error}"))
        };
        let (not, plain) = glob.strip_prefix('!').map_or(("", glob), |plain| ("!", plain));
        if let Some(inside) = glob_below(plain, root) {
            builder.add(&format!("{not}/{inside}")).map_err(senseless)?;
            continue;
        }
        builder.add(glob).map_err(senseless)?;
        if let Some(below) = below.filter(|_| plain.contains('/') && !plain.starts_with("**/")) {
            let nested = format!("{not}{}/{}", escape(below), plain.trim_start_matches('/'));
            builder.add(&nested).map_err(senseless)?;
        }
    }
    builder.build().map_err(|error| ToolError::invalid_input(format!("`glob` is not understood: {error}")))
}

/// What an absolute glob has after the directory that globs begin at; nothing if it isn't one, or leads
/// elsewhere. (A glob that only begins with a slash is meant from that directory on, as in `.gitignore`.)
fn glob_below<'a>(glob: &'a str, root: &Path) -> Option<&'a str> {
    let inside = glob.strip_prefix(root.to_str()?.trim_end_matches('/'))?.strip_prefix('/')?;
    (root != Path::new("/") && !inside.is_empty()).then_some(inside)
}

/// Globs with commas between them, outside of braces; or with spaces, where each has a star.
fn split_globs(given: &str) -> Vec<&str> {
    let (mut inside, mut from, mut all) = (0_i32, 0, Vec::new());
    for (at, c) in given.char_indices() {
        match c {
            '{' | '[' => inside += 1,
            '}' | ']' => inside -= 1,
            ',' if inside <= 0 => {
                all.push(&given[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    all.push(&given[from..]);
    let starred = |globs: &[&str]| globs.len() > 1 && globs.iter().all(|glob| glob.contains('*'));
    let apart = all.into_iter().flat_map(|glob| {
        let parts: Vec<&str> = glob.split_whitespace().collect();
        if starred(&parts) { parts } else { vec![glob.trim()] }
    });
    apart.filter(|glob| !glob.is_empty()).collect()
}

fn build_types(name: Option<&str>) -> Result<Types, ToolError> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(Types::empty()) };
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    let known = builder.definitions();
    if !known.iter().any(|known| known.name() == name) {
        let near = closest_names(name, known.iter().map(ignore::types::FileTypeDef::name));
        let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
        let near = if near.is_empty() { String::new() } else { format!("closest: {}; or ", near.join(", ")) };
        let plain = name.trim_start_matches(['*', '.']);
        let words = format!("`type` has no `{name}`; {near}give `glob`, such as `*.{plain}`");
        return Err(ToolError::invalid_input(words));
    }
    builder.select(name);
    builder.build().map_err(|error| ToolError::invalid_input(format!("`type` is not understood: {error}")))
}

fn closest_names<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let chars = |name: &str| -> Vec<char> { name.to_lowercase().chars().take(64).collect() };
    let wanted = chars(wanted.trim_start_matches(['*', '.']));
    // Alike is what differs in a third of its letters at most.
    let distance = |name: &str| {
        let name = chars(name);
        Some(edit_distance(&wanted, &name)).filter(|edits| *edits <= wanted.len().max(name.len()) / 3)
    };
    let near = names.filter_map(|name| distance(name).map(|distance| (distance, name)));
    let mut near: Vec<(usize, &str)> = near.collect();
    near.sort_unstable();
    near.into_iter().take(TYPES_SHOWN_MAX).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_pattern_is_told_where_and_what_to_do() {
        let said = |pattern: &str| build_matcher(pattern, false, false).unwrap_err().message().to_owned();
        assert_eq!(
            said("a(b"),
            "`pattern` is not a regular expression at character 2: unclosed group; \
             if `(` is meant as itself, write `\\(`"
        );
        assert!(
            said("interface{}").ends_with("if `{` is meant as itself, write `\\{`"),
            "{}",
            said("interface{}")
        );
        assert!(said("(?=x)").contains("look at the lines"), "{}", said("(?=x)"));
        assert!(said("a\\nb").contains("set `multiline`"), "{}", said("a\\nb"));
        assert!(said(r"\p{Foo}").contains("put `\\`"), "{}", said(r"\p{Foo}"));
        assert!(said(&"(a{1000}){1000}".repeat(3)).contains("3000000 characters"), "bounded");
        assert!(said(r"\w{4000}").contains("compiled it has more than 32 MB"), "{}", said(r"\w{4000}"));
        assert!(said("(x{0,200000}y|z*)").starts_with("`pattern` is too large"));
        assert!(said("x{200000}y").starts_with("`pattern` is too large"));
        for usual in [r"\w{100}", r"(?i)\p{L}{20}", r"[^\s]{1,200}=\d{1,50}"] {
            assert!(build_matcher(usual, true, true).is_ok(), "{usual}");
        }
        assert!(build_matcher("a\\nb", false, true).is_ok());
    }

    #[test]
    fn globs_come_apart_outside_of_braces() {
        let check = |given: &str, expected: &[&str]| assert_eq!(split_globs(given), expected, "{given}");
        check("*.rs", &["*.rs"]);
        check("*.{ts,tsx}", &["*.{ts,tsx}"]);
        check("*.rs, *.toml", &["*.rs", "*.toml"]);
        check("*.rs *.toml", &["*.rs", "*.toml"]);
        check("my notes/*.md", &["my notes/*.md"]);
        check("[a,b]*,!c", &["[a,b]*", "!c"]);
    }

    #[test]
    fn an_unknown_type_is_answered_with_close_ones() {
        let said = build_types(Some("rst2")).unwrap_err().message().to_owned();
        assert!(said.starts_with("`type` has no `rst2`; closest: `rst`"), "{said}");
        let said = build_types(Some("nope")).unwrap_err().message().to_owned();
        assert_eq!(said, "`type` has no `nope`; give `glob`, such as `*.nope`");
        assert!(build_types(Some("rust")).is_ok() && build_types(None).is_ok());
    }
}
