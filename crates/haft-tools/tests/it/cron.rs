//! Times against a model that walks minute by minute, and the table by a clock that a test moves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use haft::testing::TestCaller;
use haft::{ErrorKind, ToolOutput};
use jiff::civil::DateTime;
use proptest::prelude::*;
use serde_json::{Value, json};

use haft_tools::cron::*;
use haft_tools::{CronCreate, CronDelete, CronList};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn vienna() -> TimeZone {
    TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
}

/// The next times after one, in UTC.
fn nexts(cron: &str, zone: &TimeZone, after: &str, count: usize) -> Vec<String> {
    let cron: CronExpression = cron.parse().unwrap();
    let mut now = at(after);
    (0..count)
        .map(|_| {
            now = cron.next_after(now, zone).unwrap();
            now.to_string()
        })
        .collect()
}

#[test]
fn clocks_are_put_forward() {
    // In 2026 on the 29th of March, from two to three.
    let before = "2026-03-28T12:00:00Z";
    assert_eq!(
        nexts("30 2 * * *", &vienna(), before, 2),
        ["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"],
        "half an hour after the gap began, and then at its own time"
    );
    assert_eq!(nexts("30 2,3 * * *", &vienna(), before, 2), ["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"]);
    assert_eq!(
        nexts("0 * * * *", &vienna(), "2026-03-28T23:30:00Z", 3),
        ["2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"],
        "every real hour"
    );
}

#[test]
fn clocks_are_put_back() {
    // In 2026 on the 25th of October, from three to two.
    let before = "2026-10-24T12:00:00Z";
    assert_eq!(
        nexts("30 2 * * *", &vienna(), before, 2),
        ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        "once, the first time"
    );
    assert_eq!(
        nexts("*/30 * * * *", &vienna(), "2026-10-25T00:00:00Z", 4),
        ["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"]
    );
}

#[test]
fn days_and_names() {
    let utc = TimeZone::UTC;
    assert_eq!(
        nexts("0 0 29 2 *", &utc, "2026-01-01T00:00:00Z", 2),
        ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]
    );
    assert_eq!(nexts("0 0 29 2 *", &utc, "2096-03-01T00:00:00Z", 1), ["2104-02-29T00:00:00Z"]);
    // The 13th, or a Friday.
    assert_eq!(
        nexts("0 0 13 * fri", &utc, "2026-11-01T00:00:00Z", 3),
        ["2026-11-06T00:00:00Z", "2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z"]
    );
    assert_eq!(
        nexts("5/20 6 * JAN-mar 7", &utc, "2026-11-01T00:00:00Z", 2),
        ["2027-01-03T06:05:00Z", "2027-01-03T06:25:00Z"]
    );
}

#[test]
fn what_is_no_time_says_why() {
    for (cron, words) in [
        ("* * * *", "it has 4 fields"),
        ("60 * * * *", "`60` is no minute: 0 to 59 is accepted"),
        ("* 24 * * *", "`24` is no hour"),
        ("* * 0 * *", "`0` is no day of the month: 1 to 31"),
        ("* * * foo *", "`foo` is no month: 1 to 12 is accepted, or a name, jan to dec"),
        ("* * * * 8", "`8` is no day of the week"),
        ("5-1 * * * *", "the first is after the last"),
        ("*/0 * * * *", "a step of 1 to 59"),
        ("+1 * * * *", "`+1` is no minute"),
        (", * * * *", "`` is no minute"),
        ("0 0 30 2 *", "so it never comes"),
        ("0 0 31 4,6 *", "so it never comes"),
    ] {
        let error = cron.parse::<CronExpression>().unwrap_err().to_string();
        assert!(error.contains(words), "{cron}: {error}");
    }
    assert!("0 0 30 2 mon".parse::<CronExpression>().is_ok(), "Mondays come");
}

/// Fields as sets, and as the text that means them.
#[derive(Debug, Clone)]
struct Fields {
    minutes: BTreeSet<i8>,
    hours: BTreeSet<i8>,
    days: Option<BTreeSet<i8>>,
    weekdays: Option<BTreeSet<i8>>,
}

impl Fields {
    fn text(&self) -> String {
        let list = |set: &BTreeSet<i8>| set.iter().map(i8::to_string).collect::<Vec<_>>().join(",");
        let hours = if self.hours.len() == 24 { "*".to_owned() } else { list(&self.hours) };
        let or_star = |set: &Option<BTreeSet<i8>>| set.as_ref().map_or("*".to_owned(), list);
        format!("{} {hours} {} * {}", list(&self.minutes), or_star(&self.days), or_star(&self.weekdays))
    }

    fn fits(&self, time: DateTime) -> bool {
        let in_set =
            |set: &Option<BTreeSet<i8>>, value: i8| set.as_ref().is_some_and(|set| set.contains(&value));
        let (day, weekday) =
            (in_set(&self.days, time.day()), in_set(&self.weekdays, time.weekday().to_sunday_zero_offset()));
        let date = match (&self.days, &self.weekdays) {
            (None, None) => true,
            _ => day || weekday,
        };
        date && self.hours.contains(&time.hour()) && self.minutes.contains(&time.minute())
    }

    /// All slots of some minutes, by looking at each.
    fn naive(&self, zone: &TimeZone, from: i64, minutes: i64) -> Vec<i64> {
        let offset =
            |second: i64| i64::from(zone.to_offset(Timestamp::from_second(second).unwrap()).seconds());
        let shown = |second: i64, offset: i64| {
            TimeZone::UTC.to_datetime(Timestamp::from_second(second + offset).unwrap())
        };
        let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
        // A day before, to know what was there already; and when clocks were put forward last.
        let mut skipped: Option<(i64, i64)> = None;
        for second in (from - 86_400..=from + minutes * 60).step_by(60) {
            let (now, before) = (offset(second), offset(second - 60));
            if now > before {
                skipped = Some((second + (now - before), before));
            }
            let time = shown(second, now);
            let fits = if self.hours.len() == 24 {
                self.fits(time)
            } else {
                let own = seen.insert(time) && self.fits(time);
                let late = skipped
                    .filter(|(until, _)| second < *until)
                    .is_some_and(|(_, before)| self.fits(shown(second, before)));
                own || late
            };
            if fits && second > from {
                found.push(second);
            }
        }
        found
    }
}

fn some(range: std::ops::Range<i8>, most: usize) -> impl Strategy<Value = BTreeSet<i8>> {
    proptest::collection::btree_set(range, 1..=most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn times_are_those_of_the_naive_model(
        minutes in some(0..60, 4),
        hours in prop_oneof![3 => some(0..24, 5), 1 => Just((0..24).collect::<BTreeSet<i8>>())],
        days in proptest::option::of(some(1..32, 12)),
        weekdays in proptest::option::of(some(0..7, 4)),
        zone in prop_oneof![
            Just("CET-1CEST,M3.5.0,M10.5.0/3"),
            Just("EST5EDT,M3.2.0,M11.1.0"),
            // Half an hour, at midnight, the other way round, and never.
            Just("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"),
            Just("CST5CDT,M3.2.0/0,M11.1.0/1"),
            Just("IST-1GMT0,M10.5.0,M3.5.0/1"),
            Just("<+0530>-5:30"),
        ],
        // Around a change of clocks in 2026, mostly.
        start in prop_oneof![
            Just("2026-03-07"), Just("2026-03-28"), Just("2026-10-24"), Just("2026-10-31"), Just("2026-04-04"), Just("2026-10-03"),
            Just("2026-07-01"),
        ],
        minute in 0i64..1440,
    ) {
        let fields = Fields { minutes, hours, days, weekdays };
        let zone = TimeZone::posix(zone).unwrap();
        let from = at(&format!("{start}T00:00:00Z")).as_second() + minute * 60;
        let expected = fields.naive(&zone, from, 3 * 1440);
        let expression: CronExpression = match fields.text().parse() {
            Ok(expression) => expression,
            Err(_) => return Ok(()),
        };
        let mut now = at(&format!("{start}T00:00:00Z")) + jiff::SignedDuration::from_mins(minute);
        let mut found = Vec::new();
        while let Some(next) = expression.next_after(now, &zone) {
            if next.as_second() > from + 3 * 1440 * 60 {
                break;
            }
            found.push(next.as_second());
            now = next;
        }
        prop_assert_eq!(found, expected, "{}", fields.text());
    }
}

/// A clock that goes as tokio's paused one does, and that a test puts forward and back.
#[derive(Clone)]
struct TestClock {
    began: tokio::time::Instant,
    shows: i64,
    put: Arc<AtomicI64>,
}

impl TestClock {
    fn at(time: &str) -> TestClock {
        TestClock { began: tokio::time::Instant::now(), shows: at(time).as_second(), put: Arc::default() }
    }

    fn put(&self, seconds: i64) {
        self.put.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> SystemTime {
        let shows = (self.shows + self.put.load(Ordering::SeqCst)) as u64;
        SystemTime::UNIX_EPOCH + Duration::from_secs(shows) + self.began.elapsed()
    }
}

fn new(cron: &str, prompt: &str) -> NewCron {
    NewCron { cron: cron.into(), prompt: prompt.into(), recurring: true, durable: false }
}

/// What is due within some seconds, with its slot.
async fn within(table: &CronTable, seconds: u64) -> Vec<String> {
    let mut told = Vec::new();
    let end = tokio::time::Instant::now() + Duration::from_secs(seconds);
    while let Ok(due) = tokio::time::timeout_at(end, table.due()).await {
        told.push(format!("{} {}", due.prompt, due.slot.split('+').next().unwrap_or_default()));
    }
    told
}

#[tokio::test(start_paused = true)]
async fn what_is_planned_is_told_in_time_and_once() {
    let table = CronTable::new(TimeZone::UTC).clock(TestClock::at("2026-11-16T07:58:30Z"));
    table.create(new("0 8 * * *", "morning")).unwrap();
    table.create(NewCron { recurring: false, ..new("*/1 * * * *", "once") }).unwrap();
    table.create(new("*/2 * * * *", "often")).unwrap();
    assert_eq!(
        within(&table, 5 * 60).await,
        [
            "once 2026-11-16T07:59:00",
            "morning 2026-11-16T08:00:00",
            "often 2026-11-16T08:00:00",
            "often 2026-11-16T08:02:00"
        ]
    );
    let left: Vec<String> = table.list().into_iter().map(|cron| cron.prompt).collect();
    assert_eq!(left, ["often", "morning"]);
    table.delete("cron-3").unwrap().unwrap();
    assert!(table.delete("cron-3").unwrap().is_none() && table.delete("x").unwrap().is_none());
    assert_eq!(within(&table, 3600).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_is_planned_while_somebody_waits_is_heard() {
    let table = Arc::new(CronTable::new(TimeZone::UTC).clock(TestClock::at("2026-11-16T07:58:30Z")));
    let waiting = tokio::spawn({
        let table = table.clone();
        async move { table.due().await.prompt }
    });
    tokio::time::sleep(Duration::from_secs(10)).await;
    table.create(new("* * * * *", "soon")).unwrap();
    assert_eq!(waiting.await.unwrap(), "soon");
}

#[tokio::test(start_paused = true)]
async fn clocks_that_jump() {
    let clock = TestClock::at("2026-11-16T08:00:10Z");
    let table = CronTable::new(TimeZone::UTC).clock(clock.clone());
    table.create(new("*/10 * * * *", "x")).unwrap();
    assert_eq!(within(&table, 600).await, ["x 2026-11-16T08:10:00"]);
    // Over four slots, as after a sleep of the machine: told once.
    clock.put(45 * 60);
    assert_eq!(within(&table, 60).await, ["x 2026-11-16T08:20:00"]);
    assert_eq!(table.list()[0].next, "2026-11-16T09:00:00+00:00[UTC]");
    // Back by half an hour: no slot comes again.
    clock.put(-30 * 60);
    assert_eq!(within(&table, 30 * 60).await, Vec::<String>::new());
    assert_eq!(within(&table, 4 * 60).await, ["x 2026-11-16T09:00:00"]);
    // Back by a day: the clock was wrong before, and a day without anything would be wrong too.
    clock.put(-24 * 60 * 60);
    assert_eq!(within(&table, 10 * 60).await, ["x 2026-11-15T09:10:00"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_is_told_once_by_whoever_is_first() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("cron/work.json");
    let clock = TestClock::at("2026-11-16T07:59:50Z");
    let table = || CronTable::new(TimeZone::UTC).clock(clock.clone()).kept_in(&file);
    let (one, two) = (table(), table());
    let kept = one.create(NewCron { durable: true, ..new("0 * * * *", "kept") }).unwrap();
    assert_eq!(kept.id, "kept-1");
    one.create(NewCron { durable: true, recurring: false, ..new("5 8 * * *", "once") }).unwrap();
    let (mine, others) = tokio::join!(within(&one, 700), within(&two, 700));
    let mut all: Vec<String> = mine.into_iter().chain(others).collect();
    all.sort();
    assert_eq!(all, ["kept 2026-11-16T08:00:00", "once 2026-11-16T08:05:00"]);
    drop((one, two));
    // Nobody is there for two slots; the next session begins in between.
    let late = table();
    late.create(NewCron { durable: true, recurring: false, ..new("30 8 * * *", "missed") }).unwrap();
    drop(late);
    clock.put(2 * 60 * 60);
    let next = table();
    let told: Vec<String> = next.list().into_iter().map(|cron| cron.next).collect();
    assert_eq!(
        told,
        [
            "when a session begins here; it was planned for 2026-11-16T08:30:00+00:00[UTC]",
            "2026-11-16T11:00:00+00:00[UTC]"
        ],
        "no time that has passed, also where no session has begun"
    );
    next.begin();
    assert_eq!(
        within(&next, 60).await,
        ["missed 2026-11-16T08:30:00"],
        "what comes again waits for its next time"
    );
    assert_eq!(next.list()[0].next, "2026-11-16T11:00:00+00:00[UTC]");
    next.delete("kept-1").unwrap().unwrap();
    assert!(table().list().is_empty());
}

#[tokio::test(start_paused = true)]
async fn tables_have_bounds_and_say_what_is_wrong() {
    let table = CronTable::new(TimeZone::UTC);
    for at in 0..CRONS_MAX {
        table.create(new(&format!("{} 1 1 1 *", at % 60), "x")).unwrap();
    }
    assert!(table.create(new("0 0 * * *", "x")).unwrap_err().contains("50 prompts are planned already"));
    assert_eq!(table.unkept(), CRONS_MAX);
    let durable = NewCron { durable: true, ..new("0 0 * * *", "x") };
    assert!(table.create(durable.clone()).unwrap_err().contains("no folder to keep it in"));
    let once = CronTable::new(TimeZone::UTC).without_firing();
    assert!(once.create(new("0 0 * * *", "x")).unwrap_err().contains("set `durable`"));
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("work.json");
    std::fs::write(&file, "{]").unwrap();
    let broken = CronTable::new(TimeZone::UTC).kept_in(&file);
    assert!(broken.create(durable).unwrap_err().contains("can't be understood"));
    assert!(broken.list().is_empty() && broken.take_trouble().unwrap().contains("remove it"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{]", "nothing of it is lost");
}

async fn say(caller: &TestCaller, tool: &str, input: Value) -> String {
    let result = caller.call(tool, input).await;
    match result.outcome() {
        Ok(output) => ToolOutput::to_text(output),
        Err(error) => format!("! {}", error.message()),
    }
}

#[tokio::test(start_paused = true)]
async fn the_tools_plan_list_and_delete() {
    let temp = tempfile::tempdir().unwrap();
    let table = CronTable::new(TimeZone::UTC)
        .clock(TestClock::at("2026-11-16T07:58:30Z"))
        .kept_in(&temp.path().join("x.json"));
    let crons = Some(Arc::new(table));
    let caller = TestCaller::new()
        .tool(CronCreate::new(crons.clone()))
        .tool(CronDelete::new(crons.clone()))
        .tool(CronList::new(crons));
    assert_eq!(
        say(&caller, "CronCreate", json!({"cron": "0  9 * * *", "prompt": "look at\nthe build"})).await,
        "planned cron-1  `0 9 * * *`  every time, next 2026-11-16T09:00:00+00:00[UTC]"
    );
    assert_eq!(
        say(&caller, "CronList", json!({})).await,
        "cron-1  `0 9 * * *`  every time, next 2026-11-16T09:00:00+00:00[UTC]\n    look at the build"
    );
    assert!(
        say(&caller, "CronCreate", json!({"cron": "9", "prompt": "x"})).await.contains("five are accepted")
    );
    assert_eq!(
        say(&caller, "CronDelete", json!({"id": "cron-2"})).await,
        "! no planned prompt `cron-2`; there are `cron-1`"
    );
    assert_eq!(
        say(&caller, "CronDelete", json!({"id": "cron-1"})).await,
        "deleted cron-1: `0 9 * * *` look at\nthe build"
    );
    // What outlives the session is for the user to allow.
    let durable =
        caller.call("CronCreate", json!({"cron": "0 9 * * *", "prompt": "x", "durable": true})).await;
    assert_eq!(durable.error_kind(), Some(ErrorKind::Denied));
    // And for the user to take away.
    for id in ["kept-1", "nonsense"] {
        let kept = caller.call("CronDelete", json!({ "id": id })).await;
        assert_eq!(kept.error_kind(), Some(ErrorKind::Denied), "{id}");
    }
    let nowhere = TestCaller::new()
        .tool(CronCreate::default())
        .call("CronCreate", json!({"cron": "0 9 * * *", "prompt": "x"}))
        .await;
    assert!(nowhere.is_error());
}
