//! Evaluators for text of other languages in arguments: they find the commands that the text runs, as far
//! as they can parse it.
//!
//! Most languages aren't parsed. A text with a name that starts programs is uncertain; a text without one
//! counts as an ordinary command. A hidden name goes unnoticed, and then only the sandbox protects. A plain
//! command in the text is found, so that a deny rule matches it. None of the functions here knows which
//! program the text is for.

mod awk;
mod sed;

pub(crate) use awk::read_awk;
pub(crate) use sed::read_sed;

use super::model::CommandEscapes;

/// The commands that a text runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TextFindings {
    /// Texts for a shell.
    pub(crate) commands: Vec<String>,
    /// Something else runs, or may run.
    pub(crate) unknown: bool,
    /// Only an exact rule allows it.
    pub(crate) exact: bool,
}

/// Reads code of an interpreter: words that start programs, load code or evaluate text make it uncertain.
pub(crate) fn read_code(signs: &[&str], text: &str) -> TextFindings {
    if !signs.iter().any(|sign| text.contains(sign)) {
        return TextFindings::default();
    }
    TextFindings { commands: quoted_commands(text), unknown: true, exact: false }
}

/// The maximum number of strings in a code that are examined, and the maximum length of one.
const STRINGS_MAX: usize = 8;
const STRING_CHARS_MAX: usize = 400;

/// Returns the plain strings of a code that may be commands: those in quotes directly after `(` or next to
/// a pipe, or between backticks.
fn quoted_commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, quote) in text.char_indices().filter(|(_, c)| matches!(c, '"' | '\'' | '`')) {
        let before = text[..at].trim_end();
        let Some(end) = text[at + 1..].find(quote) else { continue };
        let inside = &text[at + 1..at + 1 + end];
        let opens = before.ends_with(['(', '`', '{', '|', '&'])
            || before.ends_with("system")
            || before.ends_with("exec")
            || quote == '`'
            || text[at + end + 2..].trim_start().starts_with('|');
        let plain = !inside.is_empty()
            && inside.len() < STRING_CHARS_MAX
            && inside.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '.'))
            && !inside.contains(['\\', '\n', '$', '(', ')', '{', '`', '\'', '"']);
        if opens && plain && found.len() < STRINGS_MAX {
            found.push(inside.to_owned());
        }
    }
    found
}

/// Reads lines of commands of which some run a shell.
pub(crate) fn read_commands(escapes: &CommandEscapes, text: &str) -> TextFindings {
    let mut found = TextFindings::default();
    for line in text.lines() {
        let line = line.trim().trim_start_matches([':', ' ']);
        let shell = escapes.shell.iter().find_map(|start| after_command(escapes, line, start));
        let anywhere =
            escapes.anywhere.and_then(|sign| Some(line.split_once(sign)?.1.trim_start_matches(sign)));
        if let Some(command) = shell.or(anywhere) {
            found.commands.push(command.trim().to_owned());
            continue;
        }
        let unread = escapes.unread.iter().any(|start| after_command(escapes, line, start).is_some());
        let folded = line.to_ascii_lowercase();
        let signs = escapes.signs.iter().any(|sign| line.contains(sign) || folded.contains(sign));
        let pipes = escapes.pipes.is_some_and(|start| line.starts_with(start) && line.contains('|'));
        let other = !escapes.plain.is_empty() && !is_plain_line(escapes.plain, line);
        found.unknown |= unread || signs || pipes || other;
        found.exact |= escapes.exact;
    }
    found
}

/// Returns the text after a command name at the start of a line. Some languages accept abbreviated names.
fn after_command<'t>(escapes: &CommandEscapes, line: &'t str, start: &str) -> Option<&'t str> {
    if !escapes.abbreviated || start.starts_with(|c: char| !(c.is_alphanumeric() || c == '.')) {
        return line.strip_prefix(start);
    }
    let mut rest = line;
    for known in start.split_whitespace() {
        let (name, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        if name != known && !(name.len() > 2 && known.starts_with(name)) {
            return None;
        }
        rest = behind.trim_start();
    }
    Some(rest)
}

/// Returns whether a line is in a list: `#` matches a number, and `…` anything that runs nothing.
fn is_plain_line(plain: &str, line: &str) -> bool {
    line.is_empty()
        || plain.split(',').any(|pattern| match pattern.strip_suffix('…') {
            Some(start) => line.starts_with(start) && !line.contains(['|', '!', '&']),
            None if pattern == "#" => line.bytes().all(|b| b.is_ascii_digit()),
            None => line == pattern,
        })
}

/// Reads a makefile: lines that begin with a tab, and the text after `;` in a rule.
pub(crate) fn read_makefile(text: &str) -> TextFindings {
    let recipe =
        |line: &'_ str| line.strip_prefix('\t').or_else(|| Some(line.split_once(';')?.1)).map(str::to_owned);
    let commands = text.lines().filter_map(recipe);
    let plain = commands.map(|recipe| recipe.trim_start().trim_start_matches(['@', '-', '+']).to_owned());
    TextFindings { commands: plain.collect(), unknown: true, exact: false }
}

/// Reads `syscmd(x)` and `esyscmd(x)` of a macro processor.
pub(crate) fn read_macros(text: &str) -> TextFindings {
    let mut found = TextFindings::default();
    for after in text.split("syscmd").skip(1) {
        if let Some(command) = after.strip_prefix('(').and_then(|inside| inside.split(')').next()) {
            found.commands.push(command.trim_matches(['`', '\'', ' ']).to_owned());
        }
        found.unknown = true;
    }
    found
}
