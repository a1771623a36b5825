//! `haft stats`: what sessions did, counted: calls, errors, denials, how long each tool takes, how many ran
//! at once.
//!
//! Everything is counted from journals, so it is about sessions that are kept. A call counts for its tool
//! once it began; what was refused counts as a denial where rules, a user or a hook said no, and as an error
//! otherwise.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, IsTerminal as _};

use haft::text::truncate_chars;
use haft_journal::{JournalContents, JournalStore, OutcomeRecord, Record};
use haft_terminal::{ColorMode, Line, OutputMode, Style, bar, spark, thousands};
use serde::Serialize;

use super::args::StatsArgs;
use super::manage;
use crate::args::{CommonArgs, OutputForm};
use crate::output::{self, OutputReader, one_line};
use crate::{ExitStatus, UsageError};

/// The steps of the histogram: below 1 ms, 3 ms, 10 ms and so on up to 100 s, and above.
const STEPS_MS: [f64; 11] =
    [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0, 30_000.0, 100_000.0];
/// Kinds of refusals that are a no, and no mistake of the model.
const DENIALS: [&str; 4] = ["Denied", "Rejected", "Blocked", "NotInteractive"];
/// The widest name of a tool in the table.
const NAME_CHARS_MAX: usize = 32;
/// Columns of a bar.
const BAR_COLUMNS: usize = 12;

pub(crate) fn run(args: &StatsArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let (store, _) = manage::session_store(common)?;
    let said = |error: haft_journal::StoreError| UsageError(error.to_string());
    let ids: Vec<String> = match (&args.id, args.all) {
        (Some(id), _) => vec![store.find(id).map_err(said)?.id],
        (None, true) => store.list().into_iter().map(|session| session.id).collect(),
        (None, false) => store.list().into_iter().take(1).map(|session| session.id).collect(),
    };
    if ids.is_empty() {
        return Err(UsageError("no sessions are kept".to_owned()));
    }
    let stats = count_sessions(&store, &ids, args.all).map_err(said)?;
    if stats.damaged_lines > 0 {
        output::print_warning(&format!("{} lines are damaged and not counted", stats.damaged_lines));
    }
    if args.output == OutputForm::Json {
        let text = serde_json::to_string(&stats).expect("counts have text keys");
        return Ok(output::write_result(&text, OutputReader::Whole).err().unwrap_or(ExitStatus::Done));
    }
    let fit = OutputMode::for_environment(|name| std::env::var(name).ok(), io::stdout().is_terminal());
    let look = if let OutputMode::Live(look) = fit { look } else { ColorMode::Plain };
    let mut text = String::new();
    for line in stats.lines() {
        line.write(look, &mut text);
        text.push('\n');
    }
    // Lines are safe already, and styles have to reach the terminal as they are.
    match output::write_bytes(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Ok(ExitStatus::Failed),
        _ => Ok(ExitStatus::Done),
    }
}

/// What sessions did.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SessionStats {
    /// Their ids.
    sessions: Vec<String>,
    /// Calls that began.
    calls: usize,
    /// Of these, calls that could change something.
    changes: usize,
    /// Calls that began and failed.
    errors: usize,
    /// Calls that were not run because of a rule, a mode, a hook or the user.
    denials: usize,
    /// Calls that were not run for another reason: no such tool, an input that doesn't fit.
    invalid: usize,
    /// Calls that began and of which no end was recorded.
    unknown: usize,
    /// How many calls ran at once at most.
    concurrency: usize,
    /// Calls that ran beside another.
    beside: usize,
    /// Results that tools gave from their own caches.
    cache_hits: usize,
    /// Results whose whole was kept in a file.
    offloaded: usize,
    /// How long those are together.
    offloaded_bytes: u64,
    /// Tokens of the model.
    tokens: TokenCounts,
    /// Lines of journals that could not be read.
    damaged_lines: usize,
    /// By tool, the most called first.
    tools: Vec<ToolStats>,
}

/// Tokens of the model.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Tokens"))]
pub(crate) struct TokenCounts {
    /// Messages of the model of which it is known.
    messages: usize,
    /// Sent.
    input: u64,
    /// Of these, read from the provider's prompt cache.
    cached: u64,
    /// Written by the model.
    output: u64,
}

/// What is counted of one tool.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Tool"))]
pub(crate) struct ToolStats {
    /// Its name; of a call that was not run, the name that the model used.
    tool: String,
    /// Calls that began.
    calls: usize,
    /// Of these, those that failed.
    errors: usize,
    /// Calls that were denied.
    denials: usize,
    /// Calls that were not run for another reason.
    invalid: usize,
    /// Results from its own cache.
    cache_hits: usize,
    /// Bytes of results that were kept in files.
    offloaded_bytes: u64,
    /// How long half of the calls took at most, in milliseconds; none where none has ended.
    p50_ms: Option<f64>,
    /// The same of 95 of a hundred.
    p95_ms: Option<f64>,
    /// The same of 99 of a hundred.
    p99_ms: Option<f64>,
    /// The longest.
    max_ms: Option<f64>,
    /// All together.
    total_ms: f64,
    /// How many calls took less than 1, 3, 10, 30 … 100,000 ms, each counted once, and more than that.
    histogram: Vec<u64>,
    #[serde(skip)]
    times: Vec<u64>,
}

/// Counts sessions one after the other; of all of them, one that is gone meanwhile is left out.
fn count_sessions(
    store: &JournalStore,
    ids: &[String],
    all: bool,
) -> Result<SessionStats, haft_journal::StoreError> {
    let mut stats = SessionStats::default();
    let mut tools = BTreeMap::new();
    for id in ids {
        match store.read(id) {
            Ok(kept) => stats.add(id, &kept, &mut tools),
            Err(_) if all => {}
            Err(error) => return Err(error),
        }
    }
    stats.tools = tools.into_values().map(ToolStats::done).collect();
    stats.tools.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.tool.cmp(&b.tool)));
    Ok(stats)
}

impl SessionStats {
    fn add(&mut self, id: &str, kept: &JournalContents, tools: &mut BTreeMap<String, ToolStats>) {
        fn tool<'a>(tools: &'a mut BTreeMap<String, ToolStats>, name: &str) -> &'a mut ToolStats {
            tools
                .entry(name.to_owned())
                .or_insert_with(|| ToolStats { tool: name.to_owned(), ..ToolStats::default() })
        }
        self.sessions.push(id.to_owned());
        self.damaged_lines += kept.damage.len();
        let mut outcomes: HashMap<(&str, u64, &str), &OutcomeRecord> = HashMap::new();
        for stamped in &kept.records {
            if let Record::Outcome(outcome) = &stamped.record {
                outcomes.insert((&outcome.agent, outcome.turn, &outcome.call), outcome);
            }
        }
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for stamped in &kept.records {
            match &stamped.record {
                Record::Intent(intent) => {
                    let of = tool(tools, &intent.tool);
                    of.calls += 1;
                    self.calls += 1;
                    self.changes += usize::from(intent.changes);
                    // Each outcome once: a call that goes on in another process has a second intent.
                    let key = (intent.agent.as_str(), intent.turn, intent.call.as_str());
                    let Some(outcome) = outcomes.remove(&key) else {
                        self.unknown += 1;
                        continue;
                    };
                    of.times.push(outcome.micros);
                    if outcome.error.is_some() {
                        of.errors += 1;
                        self.errors += 1;
                    }
                    if outcome.cached {
                        of.cache_hits += 1;
                        self.cache_hits += 1;
                    }
                    if outcome.kept.is_some() {
                        let bytes = outcome.kept_bytes.unwrap_or(0);
                        of.offloaded_bytes += bytes;
                        self.offloaded_bytes += bytes;
                        self.offloaded += 1;
                    }
                    self.beside += usize::from(outcome.beside);
                    if let Some(ended) = outcome.ended.filter(|_| outcome.beside) {
                        spans.push((ended.saturating_sub(outcome.micros), ended));
                    }
                }
                Record::Refused(refused) => {
                    let of = tool(tools, &refused.tool);
                    if DENIALS.contains(&refused.kind.as_str()) {
                        of.denials += 1;
                        self.denials += 1;
                    } else {
                        of.invalid += 1;
                        self.invalid += 1;
                    }
                }
                Record::Spent { input, cached, output, .. } => {
                    self.tokens.messages += 1;
                    self.tokens.input += input;
                    self.tokens.cached += cached;
                    self.tokens.output += output;
                }
                _ => {}
            }
        }
        // One that ran beside others has at least one of them, also where clocks are too coarse to tell.
        let least = match (self.calls, self.beside) {
            (0, _) => 0,
            (_, 0) => 1,
            _ => 2,
        };
        self.concurrency = self.concurrency.max(most_at_once(spans)).max(least);
    }

    /// For people.
    fn lines(&self) -> Vec<Line> {
        let number = |count: usize| thousands(count as u64);
        let many = |count: usize, one: &str, more: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{} {more}", number(count)),
        };
        let mut lines = Vec::new();
        let of = match &self.sessions[..] {
            [only] => format!("session {}", one_line(only)),
            all => many(all.len(), "session", "sessions"),
        };
        lines.push(Line::from_text(&of, Style::BOLD));
        let mut facts = vec![
            many(self.calls, "call", "calls"),
            format!("{} could change something", number(self.changes)),
            many(self.errors, "error", "errors"),
            many(self.denials, "denial", "denials"),
        ];
        facts.extend((self.invalid > 0).then(|| format!("{} not valid", number(self.invalid))));
        facts.extend((self.unknown > 0).then(|| format!("{} of unknown outcome", number(self.unknown))));
        facts.push(format!("at most {} at once", self.concurrency));
        lines.push(Line::plain(&facts.join(" · ")));
        let mut facts = vec![
            many(self.cache_hits, "cache hit", "cache hits"),
            format!(
                "{} bytes of {} offloaded",
                thousands(self.offloaded_bytes),
                many(self.offloaded, "result", "results")
            ),
        ];
        if self.tokens.messages > 0 {
            let TokenCounts { input, cached, output, .. } = self.tokens;
            let share = (cached as f64 / input.max(1) as f64 * 100.0).round();
            facts.push(format!(
                "{} tokens in, {share} % of them from the prompt cache, {} out",
                thousands(input),
                thousands(output)
            ));
        }
        lines.push(Line::plain(&facts.join(" · ")));
        if self.tools.is_empty() {
            return lines;
        }
        lines.push(Line::plain(""));
        let name = |tool: &ToolStats| truncate_chars(&one_line(&tool.tool), NAME_CHARS_MAX).to_owned();
        let wide = self.tools.iter().map(|tool| name(tool).chars().count()).max().unwrap_or(0).max(4);
        lines.push(Line::from_text(
            &format!(
                "{:<wide$}  {:>7} {:<BAR_COLUMNS$} {:>6} {:>6}  {:>8} {:>8} {:>8} {:>8}  1 ms … 100 s",
                "tool", "calls", "", "errors", "denied", "p50", "p95", "p99", "max"
            ),
            Style::DIM,
        ));
        let most = self.tools.iter().map(|tool| tool.calls).max().unwrap_or(0) as u64;
        for tool in &self.tools {
            let [p50, p95, p99, max] =
                [tool.p50_ms, tool.p95_ms, tool.p99_ms, tool.max_ms].map(format_millis);
            let style = |count: usize, bad: Style| if count > 0 { bad } else { Style::DIM };
            let line = Line::plain(&format!("{:<wide$}  {:>7} ", name(tool), number(tool.calls)))
                .with(
                    &format!("{:<BAR_COLUMNS$}", bar(tool.calls as u64, most, BAR_COLUMNS)),
                    Style::ACTIVITY,
                )
                .with(&format!(" {:>6}", number(tool.errors)), style(tool.errors, Style::ERROR))
                .with(&format!(" {:>6}", number(tool.denials)), style(tool.denials, Style::WARNING))
                .with(&format!("  {p50:>8} {p95:>8} {p99:>8} {max:>8}  "), Style::PLAIN)
                .with(&spark(&tool.histogram), Style::ACTIVITY);
            lines.push(line);
        }
        lines
    }
}

impl ToolStats {
    /// What follows from the times that were collected.
    fn done(mut self) -> ToolStats {
        self.times.sort_unstable();
        let ms = |micros: u64| micros as f64 / 1_000.0;
        // The nearest rank: the smallest time that so many of the calls don't exceed.
        let rank = |share: f64| {
            let at = (share * self.times.len() as f64).ceil() as usize;
            self.times.get(at.saturating_sub(1)).copied().map(ms)
        };
        [self.p50_ms, self.p95_ms, self.p99_ms] = [rank(0.5), rank(0.95), rank(0.99)];
        self.max_ms = self.times.last().copied().map(ms);
        self.total_ms = self.times.iter().copied().map(ms).sum();
        let mut histogram = vec![0; STEPS_MS.len() + 1];
        for time in &self.times {
            histogram[STEPS_MS.partition_point(|step| *step <= ms(*time))] += 1;
        }
        self.histogram = histogram;
        self
    }
}

/// How many spans overlap at most; one that begins when another ends doesn't.
fn most_at_once(spans: Vec<(u64, u64)>) -> usize {
    let mut edges: Vec<(u64, i32)> =
        spans.into_iter().flat_map(|(from, to)| [(from, 1), (to.max(from + 1), -1)]).collect();
    edges.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in edges {
        now += change;
        most = most.max(now);
    }
    usize::try_from(most).unwrap_or(0)
}

fn format_millis(ms: Option<f64>) -> String {
    match ms {
        None => "-".to_owned(),
        Some(ms) if ms < 10.0 => format!("{ms:.1} ms"),
        Some(ms) if ms < 10_000.0 => format!("{ms:.0} ms"),
        Some(ms) => format!("{:.0} s", ms / 1_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let tool =
            ToolStats { times: (1..=100).rev().map(|ms| ms * 1_000).collect(), ..ToolStats::default() }
                .done();
        assert_eq!(
            [tool.p50_ms, tool.p95_ms, tool.p99_ms, tool.max_ms],
            [Some(50.0), Some(95.0), Some(99.0), Some(100.0)]
        );
        let one = ToolStats { times: vec![500], ..ToolStats::default() }.done();
        assert_eq!([one.p50_ms, one.p99_ms, one.max_ms], [Some(0.5); 3]);
        assert_eq!(one.histogram[0], 1);
        assert_eq!(ToolStats::default().done().p50_ms, None);
        assert_eq!(tool.histogram.iter().sum::<u64>(), 100);
    }

    #[test]
    fn spans_that_touch_do_not_overlap() {
        assert_eq!(most_at_once(vec![(0, 10), (10, 20), (20, 30)]), 1);
        assert_eq!(most_at_once(vec![(0, 10), (5, 20), (6, 7), (8, 9)]), 3);
        assert_eq!(most_at_once(Vec::new()), 0);
    }
}
