//! `haft log`: who ran what, with which input, allowed by which rule, touching what, for how long. Secrets
//! are redacted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use haft::decision::DecisionSource;
use haft::redact::{redact_json, redact_text};
use haft::text::truncate_chars;
use haft_journal::{IntentRecord, JournalContents, OutcomeRecord, Record, RefusedRecord};
use serde::Serialize;
use serde_json::Value;

use super::args::LogArgs;
use super::manage;
use crate::args::{CommonArgs, OutputForm};
use crate::output::{self, OutputReader, one_line};
use crate::{ExitStatus, UsageError};

/// The most of an input on one line, in characters.
const INPUT_CHARS_MAX: usize = 100;

/// Which of the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryFilter {
    All,
    Calls,
    Denials,
    Changes,
}

pub(crate) fn run(args: &LogArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let (store, _) = manage::session_store(common)?;
    let said = |error: haft_journal::StoreError| UsageError(error.to_string());
    let id = match &args.id {
        Some(id) => store.find(id).map_err(said)?.id,
        None => match store.list().into_iter().next() {
            Some(session) => session.id,
            None => return Err(UsageError("no sessions are kept".to_owned())),
        },
    };
    let kept = store.read(&id).map_err(said)?;
    let which = match (args.calls, args.denials, args.changes) {
        (true, ..) => EntryFilter::Calls,
        (_, true, _) => EntryFilter::Denials,
        (.., true) => EntryFilter::Changes,
        _ => EntryFilter::All,
    };
    if !kept.damage.is_empty() {
        output::print_warning(&format!(
            "{} lines of session {id} are damaged and left out",
            kept.damage.len()
        ));
    }
    let (text, reader) = match args.output {
        OutputForm::Text => (render_log(&kept, which), OutputReader::Sampler),
        OutputForm::Json => {
            let json = |entry: &LogEntry<'_>| redact_json(&output::format_json(entry)).into_owned() + "\n";
            (log_entries(&kept, which).iter().map(json).collect(), OutputReader::Whole)
        }
    };
    Ok(output::write_result(text.trim_end(), reader).err().unwrap_or(ExitStatus::Done))
}

/// The outcome of a request of a running command that was granted.
const ALLOWED: &str = "allowed";

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LogEntry<'a> {
    /// Its place in the journal.
    n: u64,
    /// Milliseconds since 1970.
    at: u64,
    /// What it is: `began`, `said`, `call`, `refused`, `hook`, `request`, `note`, `ended`.
    kind: &'static str,
    /// Whose call.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    /// The call's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<&'a str>,
    /// The tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    /// Its input.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a Value>,
    /// What it declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    effects: Option<&'a str>,
    /// Whether it could change something.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<bool>,
    /// Who allowed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_by: Option<&'a str>,
    /// The source of the decision on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<DecisionSource>,
    /// How it ended: `ok`, the kind of an error, or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
    /// How long it ran, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<f64>,
    /// Words: why it was refused, what was said or noted.
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<String>,
}

/// What the journal says, a line each.
fn log_entries(kept: &JournalContents, which: EntryFilter) -> Vec<LogEntry<'_>> {
    // Turns are counted by process, and ids by turn.
    let mut outcomes: BTreeMap<(u64, &str, u64, &str), &OutcomeRecord> = BTreeMap::new();
    let mut started: BTreeSet<(u64, &str, u64, &str)> = BTreeSet::new();
    let mut process = 0;
    for stamped in &kept.records {
        match &stamped.record {
            Record::Began(_) => process += 1,
            Record::Outcome(outcome) => {
                outcomes.insert((process, &outcome.agent, outcome.turn, &outcome.call), outcome);
            }
            Record::Intent(intent) => {
                started.insert((process, &intent.agent, intent.turn, &intent.call));
            }
            _ => {}
        }
    }
    let mut process = 0;
    let mut entries = Vec::new();
    for stamped in &kept.records {
        let bare = |kind, words: Option<String>| LogEntry::bare(stamped.n, stamped.at, kind, words);
        process += u64::from(matches!(stamped.record, Record::Began(_)));
        let entry = match &stamped.record {
            Record::Intent(intent)
                if which != EntryFilter::Denials && (which != EntryFilter::Changes || intent.changes) =>
            {
                let outcome = outcomes.get(&(process, &*intent.agent, intent.turn, &*intent.call));
                bare("call", None).called(intent, outcome.copied())
            }
            // A call that was cancelled while it ran has its outcome already.
            Record::Refused(refused)
                if matches!(which, EntryFilter::All | EntryFilter::Calls | EntryFilter::Denials)
                    && !started.contains(&(process, &*refused.agent, refused.turn, &*refused.call)) =>
            {
                bare("refused", None).refused(refused)
            }
            Record::Hook { agent, call, when, hook, outcome, .. } if which != EntryFilter::Changes => {
                // Whoever asks for denials wants to know of those that hooks made, and they are refused
                // calls.
                if which == EntryFilter::Denials {
                    continue;
                }
                let of = call.as_ref().map(|call| format!(" {call}")).unwrap_or_default();
                let words = format!("hook `{hook}` {when}{of}: {outcome}");
                LogEntry { agent: Some(agent), call: call.as_deref(), ..bare("hook", Some(words)) }
            }
            Record::Request { agent, call, wanted, outcome, source, .. }
                if matches!(which, EntryFilter::All | EntryFilter::Calls)
                    || (which == EntryFilter::Denials && outcome != ALLOWED) =>
            {
                let source_name = serde_json::to_value(source).ok();
                let by = source_name.as_ref().and_then(Value::as_str).unwrap_or_default();
                let words = format!("{} for {call}: {outcome} ({by})", wanted.join(", "));
                LogEntry {
                    agent: Some(agent),
                    call: Some(call),
                    source: Some(*source),
                    ..bare("request", Some(words))
                }
            }
            _ if which != EntryFilter::All => continue,
            Record::Began(began) => {
                let model = if began.model.is_empty() { "" } else { " with " };
                bare("began", Some(format!("in {}{model}{}", began.cwd.display(), began.model)))
            }
            Record::Title { text } => bare("said", Some(text.clone())),
            Record::Note { text } if text != "turn" => bare("note", Some(text.clone())),
            Record::Task { id, words } => {
                bare("note", Some(format!("{id} goes on in the background: {words}")))
            }
            Record::TaskEnded { id } => bare("note", Some(format!("{id} has ended"))),
            Record::Worktree { path, .. } => bare("note", Some(format!("worktree {}", path.display()))),
            Record::Tools { names, hash } => {
                let short = hash.get(..12).unwrap_or(hash);
                bare("note", Some(format!("{} tools are offered ({short})", names.len())))
            }
            Record::Ended { why } => bare("ended", Some(why.clone())),
            _ => continue,
        };
        entries.push(entry);
    }
    entries
}

impl<'a> LogEntry<'a> {
    fn bare(n: u64, at: u64, kind: &'static str, words: Option<String>) -> LogEntry<'a> {
        LogEntry {
            n,
            at,
            kind,
            words,
            agent: None,
            call: None,
            tool: None,
            input: None,
            effects: None,
            changes: None,
            allowed_by: None,
            source: None,
            outcome: None,
            ms: None,
        }
    }

    fn called(self, intent: &'a IntentRecord, outcome: Option<&'a OutcomeRecord>) -> LogEntry<'a> {
        LogEntry {
            agent: Some(&intent.agent),
            call: Some(&intent.call),
            tool: Some(&intent.tool),
            input: Some(&intent.input),
            effects: Some(&intent.effects),
            changes: Some(intent.changes),
            allowed_by: Some(&intent.by),
            source: intent.source,
            outcome: Some(match outcome {
                None => "unknown",
                Some(outcome) => outcome.error.as_deref().unwrap_or("ok"),
            }),
            ms: outcome.map(|outcome| outcome.micros as f64 / 1000.0),
            ..self
        }
    }

    fn refused(self, refused: &'a RefusedRecord) -> LogEntry<'a> {
        LogEntry {
            agent: Some(&refused.agent),
            call: Some(&refused.call),
            tool: Some(&refused.tool),
            input: Some(&refused.input),
            outcome: Some(&refused.kind),
            source: refused.source,
            words: Some(refused.why.clone()),
            ..self
        }
    }

    fn line(&self) -> String {
        let time = format_time(self.at);
        let Some(tool) = self.tool else {
            return format!(
                "{time}  {:<7} {}",
                self.kind,
                one_line(&redact_text(self.words.as_deref().unwrap_or_default()))
            );
        };
        let agent =
            self.agent.filter(|agent| *agent != "main").map(|agent| format!("{agent}: ")).unwrap_or_default();
        let input = self.input.map(ToString::to_string).unwrap_or_default();
        let input = one_line(&redact_json(&input));
        let input = truncate_chars(&input, INPUT_CHARS_MAX);
        let mut line = format!(
            "{time}  {:<7} {}{} {input}",
            self.outcome.unwrap_or_default(),
            one_line(&agent),
            one_line(tool)
        );
        if let Some(ms) = self.ms {
            let _ = write!(line, "  {ms:.1} ms");
        }
        for (before, words) in [("", self.effects), ("by ", self.allowed_by), ("", self.words.as_deref())] {
            if let Some(words) = words.filter(|words| !words.is_empty()) {
                let _ = write!(line, "\n{:19}{before}{}", "", one_line(&redact_text(words)));
            }
        }
        line
    }
}

/// The log for people.
pub(super) fn render_log(kept: &JournalContents, which: EntryFilter) -> String {
    let lines: Vec<String> = log_entries(kept, which).iter().map(LogEntry::line).collect();
    if lines.is_empty() { "nothing of that kind".to_owned() } else { lines.join("\n") + "\n" }
}

/// `12:30:05`, in universal time.
fn format_time(at: u64) -> String {
    let seconds = at / 1000 % (24 * 60 * 60);
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// `2026-11-15 12:30`, in universal time.
pub(super) fn day_and_time(at: u64) -> String {
    // Days since 1970 to a date, by the civil calendar: years begin in March, so that a leap day is the last
    // of one.
    let days = i64::try_from(at / 1000 / (24 * 60 * 60)).unwrap_or(0) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {}", &format_time(at)[..5])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        assert_eq!(day_and_time(0), "1970-01-01 00:00");
        assert_eq!(day_and_time(951_782_400_000), "2000-02-29 00:00");
        assert_eq!(day_and_time(1_794_789_059_000), "2026-11-16 00:30");
    }
}
