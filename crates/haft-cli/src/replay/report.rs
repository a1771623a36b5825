//! What a replay found: a row a call, as a table or as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::recording::{Past, Recording};
use crate::output::one_line;

/// The most of an input in a table, in characters.
const INPUT_CHARS_MAX: usize = 48;
/// The most of a reason in a table, in characters.
const WHY_CHARS_MAX: usize = 160;
/// The most of a text in JSON, in characters.
const TEXT_CHARS_MAX: usize = 2_000;
/// How many rows a table shows.
const ROWS_MAX: usize = 1_000;

/// How calls were replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Judged alone.
    Dry,
    /// With their recorded results.
    Recorded,
    /// Made again.
    Run,
}

/// What a replay found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Report {
    /// The file or session.
    pub(crate) source: String,
    /// What kind of file it is.
    pub(crate) form: String,
    /// How it was replayed.
    pub(crate) mode: Mode,
    /// How many calls there are.
    pub(crate) calls: usize,
    /// In how many messages of the model.
    pub(crate) turns: usize,
    /// How many calls differ from what was recorded.
    pub(crate) differ: usize,
    /// How many calls there are of each word of today.
    pub(crate) today: std::collections::BTreeMap<String, usize>,
    /// The calls that differ; all of them with `--all`.
    pub(crate) rows: Vec<Row>,
}

/// A call, then and now.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Row {
    /// Its number in the recording, from 1.
    pub(crate) n: usize,
    /// The message of the model that it was in, from 1.
    pub(crate) turn: usize,
    /// The line of the file, where the file has lines.
    pub(crate) line: Option<usize>,
    /// Its id.
    pub(crate) id: String,
    /// The sub-agent that made it.
    pub(crate) agent: Option<String>,
    /// The tool as it was named then.
    pub(crate) name: String,
    /// The tool that answers to that name today.
    pub(crate) tool: String,
    /// The beginning of its input.
    pub(crate) input: String,
    /// What was recorded: `ran`, `failed`, `no result`, or the kind of a refusal.
    pub(crate) recorded: String,
    /// What today says: `allow`, `ask`, `deny`, `unknown tool`, `invalid input`; with results `same` and how they differ.
    pub(crate) today: String,
    /// Why.
    pub(crate) why: String,
    /// Whether that can't both be.
    pub(crate) differs: bool,
}

impl Row {
    pub(super) fn of(at: usize, past: &Past, tool: String, today: &str, why: String, differs: bool) -> Row {
        let input = past.input.as_deref().unwrap_or_default();
        Row {
            n: at + 1,
            turn: past.turn,
            line: past.line,
            id: past.id.clone(),
            agent: past.agent.clone(),
            name: past.name.clone(),
            tool,
            input: shortened(input, INPUT_CHARS_MAX * 4),
            recorded: past.outcome.word(),
            today: today.to_owned(),
            why: shortened(&why, TEXT_CHARS_MAX),
            differs,
        }
    }
}

impl Report {
    pub(super) fn new(mode: Mode, recording: &Recording, rows: Vec<Row>, all: bool) -> Report {
        let mut today = std::collections::BTreeMap::new();
        for row in &rows {
            *today.entry(row.today.clone()).or_insert(0) += 1;
        }
        let mut turns: Vec<(Option<&str>, usize)> =
            rows.iter().map(|row| (row.agent.as_deref(), row.turn)).collect();
        turns.sort_unstable();
        turns.dedup();
        Report {
            source: recording.source.clone(),
            form: recording.form.clone(),
            mode,
            calls: rows.len(),
            turns: turns.len(),
            differ: rows.iter().filter(|row| row.differs).count(),
            today,
            rows: rows.into_iter().filter(|row| all || row.differs).collect(),
        }
    }

    /// For people.
    pub(super) fn table(&self) -> String {
        let call = |row: &Row| {
            let name = match row.name == row.tool {
                true => one_line(&row.name),
                false => format!("{} → {}", one_line(&row.name), one_line(&row.tool)),
            };
            let agent =
                row.agent.as_deref().map(|agent| format!("{}: ", one_line(agent))).unwrap_or_default();
            format!("{agent}{name} {}", shortened(&one_line(&row.input), INPUT_CHARS_MAX))
        };
        let mut lines = vec![["#", "turn", "call", "recorded", "today"].map(str::to_owned)];
        for row in self.rows.iter().take(ROWS_MAX) {
            lines.push([
                row.n.to_string(),
                row.turn.to_string(),
                call(row),
                row.recorded.clone(),
                row.today.clone(),
            ]);
        }
        let wide = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths = [0, 1, 2, 3, 4].map(wide);
        let mut text = String::new();
        for (at, line) in lines.iter().enumerate().filter(|_| !self.rows.is_empty()) {
            let mark = if at > 0 && self.rows[at - 1].differs { '≠' } else { ' ' };
            let [n, turn, call, recorded, today] = line;
            let [w0, w1, w2, w3, _] = widths;
            let shown = format!("{mark} {n:>w0$}  {turn:>w1$}  {call:<w2$}  {recorded:<w3$}  {today}");
            let _ = writeln!(text, "{}", shown.trim_end());
            if let Some(row) = at.checked_sub(1).map(|at| &self.rows[at]).filter(|row| !row.why.is_empty()) {
                let _ = writeln!(
                    text,
                    "  {:>1$}  {2}",
                    "",
                    widths[0],
                    shortened(&one_line(&row.why), WHY_CHARS_MAX)
                );
            }
        }
        if self.rows.len() > ROWS_MAX {
            let _ = writeln!(text, "  … {} more; `--output json` has all", self.rows.len() - ROWS_MAX);
        }
        if !self.rows.is_empty() {
            text.push('\n');
        }
        let many =
            |count: usize, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
        let differ = match self.differ {
            0 => "nothing differs".to_owned(),
            1 => "1 differs".to_owned(),
            count => format!("{count} differ"),
        };
        let today: Vec<String> = self.today.iter().map(|(word, count)| format!("{count} {word}")).collect();
        let today = if today.is_empty() { String::new() } else { format!(" ({})", today.join(", ")) };
        let _ = writeln!(
            text,
            "{}: {}, {} in {}{today}: {differ}",
            one_line(&self.source),
            self.form,
            many(self.calls, "call"),
            many(self.turns, "turn")
        );
        text
    }
}

/// The beginning of a text.
pub(super) fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
