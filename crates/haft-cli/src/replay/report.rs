//! What a replay found: a row a call, as a table or as JSON.

use std::fmt::Write as _;

use haft::text::truncate_with_ellipsis as shortened;
use haft_session::replay::{CallRecording, ReplayedCall};
use serde::Serialize;

use crate::output::one_line;

/// The most of an input in a table, in characters.
const INPUT_CHARS_MAX: usize = 48;
/// The most of a reason in a table, in characters.
const WHY_CHARS_MAX: usize = 160;
/// How many rows a table shows.
const ROWS_MAX: usize = 1_000;

/// How calls were replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, schemars(rename = "Mode"))]
pub(crate) enum ReplayMode {
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
pub(crate) struct ReplayReport {
    /// The file or session.
    pub(crate) source: String,
    /// What kind of file it is.
    pub(crate) form: String,
    /// How it was replayed.
    pub(crate) mode: ReplayMode,
    /// How many calls there are.
    pub(crate) calls: usize,
    /// In how many messages of the model.
    pub(crate) turns: usize,
    /// How many calls differ from what was recorded.
    pub(crate) differ: usize,
    /// How many calls there are of each word of today.
    pub(crate) today: std::collections::BTreeMap<String, usize>,
    /// The calls that differ; all of them with `--all`.
    pub(crate) rows: Vec<ReplayedCall>,
}

impl ReplayReport {
    pub(super) fn new(
        mode: ReplayMode,
        recording: &CallRecording,
        rows: Vec<ReplayedCall>,
        all: bool,
    ) -> ReplayReport {
        let mut today = std::collections::BTreeMap::new();
        for row in &rows {
            *today.entry(row.today.clone()).or_insert(0) += 1;
        }
        let mut turns: Vec<(Option<&str>, usize)> =
            rows.iter().map(|row| (row.agent.as_deref(), row.turn)).collect();
        turns.sort_unstable();
        turns.dedup();
        ReplayReport {
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
        let call = |row: &ReplayedCall| {
            let name = if row.name == row.tool {
                one_line(&row.name)
            } else {
                format!("{} → {}", one_line(&row.name), one_line(&row.tool))
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
