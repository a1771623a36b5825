//! The planned prompts of a session, and the wait for the next.
//!
//! Time is read from a clock that people and networks change, so nothing relies on how long a wait took:
//! after each, and at least twice a minute, the clock is read again. A slot that the clock jumped over is due
//! at once, several of one prompt together once. A clock that is put back by less than three hours repeats
//! nothing; if it is put back further, what was planned by the wrong time is planned anew.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, SystemTime};

use haft::sync::lock;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::Notify;

use super::expression::CronExpression;
use super::persistent_crons::{CronFile, PersistentCron, PersistentCrons};
use super::{CRONS_MAX, PROMPT_CHARS_MAX};

/// How long the clock is trusted.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// How late a slot of a prompt that comes again is still told when a session begins.
const LATE: i64 = 90;
/// By how many seconds a clock may be put back before what was planned is planned anew.
const STEP_BACK: i64 = 3 * 60 * 60;

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// The time of day.
    fn now(&self) -> SystemTime;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A prompt whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueCron {
    /// Which.
    pub id: String,
    /// When it was planned for: minute, hour, day, month, weekday.
    pub cron: String,
    /// What was planned.
    pub prompt: String,
    /// The slot, as its zone has it.
    pub slot: String,
}

impl DueCron {
    /// What the model is told: it planned this itself, and the user may not know of it.
    pub fn words(&self) -> String {
        format!("This was planned for now with CronCreate ({}, `{}`):\n\n{}", self.id, self.cron, self.prompt)
    }
}

/// A prompt to be planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCron {
    /// When: minute, hour, day of the month, month, day of the week.
    pub cron: String,
    /// What the model is told then.
    pub prompt: String,
    /// Every time, and not only the first.
    pub recurring: bool,
    /// Kept for later sessions.
    pub durable: bool,
}

/// A prompt that is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CronState {
    /// Its name, for example `cron-1`.
    pub id: String,
    /// When.
    pub cron: String,
    /// What the model is told then.
    pub prompt: String,
    /// Every time, and not only the first.
    pub recurring: bool,
    /// Kept for later sessions.
    pub durable: bool,
    /// The next time, in the zone of the machine, as `2026-03-01T08:30:00+01:00[Europe/Vienna]`.
    pub next: String,
}

impl CronState {
    fn new(id: String, new: NewCron, next: String) -> CronState {
        let NewCron { cron, prompt, recurring, durable } = new;
        CronState { id, cron, prompt, recurring, durable, next }
    }
}

impl fmt::Display for CronState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let often = if self.recurring { "every time" } else { "once" };
        let kept = if self.durable { ", kept for later sessions" } else { "" };
        write!(f, "{}  `{}`  {often}{kept}, next {}", self.id, self.cron, self.next)
    }
}

/// Planned prompts: those of a session in memory, those that outlive it in a file.
///
/// ```
/// use haft_tools::cron::{CronTable, NewCron, TimeZone};
///
/// let table = CronTable::new(TimeZone::UTC);
/// let new = NewCron { cron: "*/5 * * * *".into(), prompt: "look again".into(), recurring: true, durable: false };
/// assert_eq!(table.create(new).unwrap().id, "cron-1");
/// // And in the loop: `while let due = table.due().await { … }`
/// ```
pub struct CronTable {
    /// Read from the system when it is first needed, if it wasn't given.
    zone: OnceLock<TimeZone>,
    clock: Arc<dyn Clock>,
    kept: Option<CronFile>,
    fires: AtomicBool,
    live: Mutex<CronMemory>,
    changed: Notify,
}

#[derive(Default)]
struct CronMemory {
    crons: Vec<PlannedCron>,
    /// The last number that was given.
    last: u64,
    /// The latest time that the clock showed.
    seen: Option<i64>,
    /// Why the file could not be used, if that wasn't told.
    trouble: Option<String>,
}

struct PlannedCron {
    id: u64,
    of: NewCron,
    expression: CronExpression,
    /// The next slot, in seconds since 1970.
    next: i64,
}

impl CronTable {
    /// A table of this session, by the clock of the machine, in this zone.
    pub fn new(zone: TimeZone) -> CronTable {
        CronTable { zone: OnceLock::from(zone), ..CronTable::of_system() }
    }

    /// A table of this session, by the clock and the zone of the machine.
    pub fn of_system() -> CronTable {
        CronTable {
            zone: OnceLock::new(),
            clock: Arc::new(SystemClock),
            kept: None,
            fires: AtomicBool::new(true),
            live: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// By another clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> CronTable {
        self.clock = Arc::new(clock);
        self
    }

    /// Keeps what is durable in this file.
    #[must_use]
    pub fn kept_in(mut self, file: &Path) -> CronTable {
        self.kept = Some(CronFile::at(file));
        self
    }

    /// Nobody waits for what is due before it [begins](CronTable::begin): only what is kept for later can be
    /// planned.
    #[must_use]
    pub fn without_firing(mut self) -> CronTable {
        self.fires = AtomicBool::new(false);
        self
    }

    /// To be called when a session begins, and somebody waits for what is due: what comes again and was
    /// missed meanwhile waits for its next time; what was to come once is still due.
    pub fn begin(&self) {
        self.fires.store(true, Ordering::Relaxed);
        let now = self.now();
        let missed = |cron: &PersistentCron| cron.recurring && cron.next < now - LATE;
        // Most workspaces have none, and nothing is made for them.
        let there = self.kept.as_ref().and_then(|kept| kept.read().ok()).unwrap_or_default();
        if !there.crons.iter().any(missed) {
            return;
        }
        let moved = self.change_kept(|kept| {
            for cron in kept.crons.iter_mut().filter(|cron| cron.recurring && cron.next < now - LATE) {
                if let Some(next) = self.next(&cron.cron, now) {
                    cron.next = next;
                }
            }
        });
        self.note(moved.err());
    }

    /// Waits for the next prompt whose time has come.
    ///
    /// # Cancel safety
    /// Nothing is lost: a slot is taken in the moment in which the future is ready.
    pub async fn due(&self) -> DueCron {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // What is planned from here on wakes the wait.
            changed.as_mut().enable();
            let wait = match self.look() {
                Ok(due) => return due,
                Err(wait) => wait,
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = &mut changed => {}
            }
        }
    }

    /// How many would end with the session.
    pub fn unkept(&self) -> usize {
        self.live().crons.len()
    }

    /// Why planned prompts could not be read or written since this was last asked.
    pub fn take_trouble(&self) -> Option<String> {
        self.live().trouble.take()
    }

    /// What is due now, or how long to wait before looking again.
    fn look(&self) -> Result<DueCron, Duration> {
        let now = self.now();
        let (own, back) = self.look_at_own(now);
        let own = match own {
            CronCheck::Due(due) => return Ok(due),
            CronCheck::First(first) => first,
        };
        let kept = match self.look_at_kept(now, back) {
            CronCheck::Due(due) => return Ok(due),
            CronCheck::First(first) => first,
        };
        let first = own.into_iter().chain(kept).min();
        let wait = first.map(|first| Duration::from_secs(u64::try_from(first - now).unwrap_or(1)));
        Err(wait.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN))
    }

    /// The prompts of this session, and whether the clock was put far back.
    fn look_at_own(&self, now: i64) -> (CronCheck, bool) {
        let mut live = self.live();
        let back = live.seen.is_some_and(|seen| now < seen - STEP_BACK);
        live.seen = Some(live.seen.filter(|_| !back).map_or(now, |seen| seen.max(now)));
        if back {
            for cron in &mut live.crons {
                cron.next = self.after(&cron.expression, now).map_or(cron.next, |next| next.min(cron.next));
            }
        }
        let Some(at) = live.crons.iter().position(|cron| cron.next <= now) else {
            return (CronCheck::First(live.crons.iter().map(|cron| cron.next).min()), back);
        };
        let cron = &mut live.crons[at];
        let due = self.told(format!("cron-{}", cron.id), &cron.of.cron, &cron.of.prompt, cron.next);
        match self.after(&cron.expression, now).filter(|_| cron.of.recurring) {
            Some(next) => cron.next = next,
            None => drop(live.crons.remove(at)),
        }
        (CronCheck::Due(due), back)
    }

    /// The prompts that are kept.
    fn look_at_kept(&self, now: i64, back: bool) -> CronCheck {
        let Some(kept) = &self.kept else { return CronCheck::First(None) };
        let there = match kept.read() {
            Ok(there) => there.crons,
            Err(error) => {
                self.note(Some(error.to_string()));
                return CronCheck::First(None);
            }
        };
        let is_due = |cron: &PersistentCron| cron.next <= now;
        if !back && !there.iter().any(is_due) {
            return CronCheck::First(there.iter().map(|cron| cron.next).min());
        }
        // A lock, and the file anew: another session may have been quicker.
        let taken = self.change_kept(|kept| {
            if back {
                for cron in &mut kept.crons {
                    cron.next = self.next(&cron.cron, now).map_or(cron.next, |next| next.min(cron.next));
                }
            }
            let Some(at) = kept.crons.iter().position(is_due) else {
                return CronCheck::First(kept.crons.iter().map(|cron| cron.next).min());
            };
            let cron = kept.crons[at].clone();
            match self.next(&cron.cron, now).filter(|_| cron.recurring) {
                Some(next) => kept.crons[at].next = next,
                None => drop(kept.crons.remove(at)),
            }
            CronCheck::Due(self.told(kept_id(cron.id), &cron.cron, &cron.prompt, cron.next))
        });
        taken.unwrap_or_else(|words| {
            // What can't be written down as taken isn't taken.
            self.note(Some(words));
            CronCheck::First(None)
        })
    }

    fn told(&self, id: String, cron: &str, prompt: &str, slot: i64) -> DueCron {
        DueCron { id, cron: cron.to_owned(), prompt: prompt.to_owned(), slot: self.shown(slot) }
    }

    fn now(&self) -> i64 {
        let now = self.clock.now();
        match now.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX),
        }
    }

    fn after(&self, expression: &CronExpression, now: i64) -> Option<i64> {
        let next = expression.next_after(Timestamp::from_second(now).ok()?, self.zone())?;
        Some(next.as_second())
    }

    fn next(&self, cron: &str, now: i64) -> Option<i64> {
        self.after(&cron.parse().ok()?, now)
    }

    fn shown(&self, seconds: i64) -> String {
        let time = Timestamp::from_second(seconds).map(|time| time.to_zoned(self.zone().clone()));
        time.map(|time| time.to_string()).unwrap_or_default()
    }

    fn zone(&self) -> &TimeZone {
        self.zone.get_or_init(TimeZone::system)
    }

    fn live(&self) -> MutexGuard<'_, CronMemory> {
        lock(&self.live)
    }

    fn note(&self, trouble: Option<String>) {
        if let Some(words) = trouble {
            self.live().trouble = Some(words);
        }
    }

    fn change_kept<T>(&self, change: impl FnOnce(&mut PersistentCrons) -> T) -> Result<T, String> {
        let kept = self.kept.as_ref().ok_or("there is no folder to keep it in")?;
        kept.change(change).map_err(|error| format!("planned prompts can't be kept: {error}"))
    }

    fn of_kept(&self, cron: &PersistentCron) -> CronState {
        let PersistentCron { id, cron, prompt, recurring, next } = cron.clone();
        CronState::new(kept_id(id), NewCron { cron, prompt, recurring, durable: true }, self.shown(next))
    }

    /// One that was missed while no session was open: it waits for its next time if it comes again, as
    /// [`begin`] has it, and is told at once if it doesn't.
    ///
    /// [`begin`]: CronTable::begin
    fn as_it_will_be(&self, cron: &PersistentCron) -> (i64, CronState) {
        let now = self.now();
        if cron.next >= now - LATE {
            return (cron.next, self.of_kept(cron));
        }
        if cron.recurring
            && let Some(next) = self.next(&cron.cron, now)
        {
            return (next, self.of_kept(&PersistentCron { next, ..cron.clone() }));
        }
        let mut state = self.of_kept(cron);
        state.next = format!("when a session begins here; it was planned for {}", state.next);
        (cron.next, state)
    }

    fn of_own(&self, cron: &PlannedCron) -> CronState {
        CronState::new(format!("cron-{}", cron.id), cron.of.clone(), self.shown(cron.next))
    }
}

/// What a look at planned prompts found.
enum CronCheck {
    /// One is due, and was taken.
    Due(DueCron),
    /// The first slot of those that aren't.
    First(Option<i64>),
}

fn kept_id(id: u64) -> String {
    format!("kept-{id}")
}

fn table_full() -> String {
    format!("{CRONS_MAX} prompts are planned already, and no more fit; delete one with CronDelete")
}

impl CronTable {
    /// Plans a prompt. One that is durable is on disk when this returns.
    ///
    /// # Errors
    /// In words for the model: no such time, too many already, nothing would fire here, or it can't be kept.
    pub fn create(&self, new: NewCron) -> Result<CronState, String> {
        let expression: CronExpression =
            new.cron.parse().map_err(|bad| format!("`cron` can't be understood: {bad}"))?;
        if new.prompt.trim().is_empty() || new.prompt.chars().count() > PROMPT_CHARS_MAX {
            return Err(format!("`prompt` has 1 to {PROMPT_CHARS_MAX} characters"));
        }
        if !new.durable && !self.fires.load(Ordering::Relaxed) {
            return Err("nobody is there when the time comes: this session ends with this call; set `durable` to keep it \
                        for the next session of `haft run` here"
                .to_owned());
        }
        let next = self.after(&expression, self.now()).ok_or("no such time comes in the next years")?;
        let new = NewCron { cron: expression.to_string(), ..new };
        let state = if new.durable {
            self.change_kept(|kept| {
                if kept.crons.len() >= CRONS_MAX {
                    return Err(table_full());
                }
                kept.last += 1;
                let NewCron { cron, prompt, recurring, .. } = new;
                let cron = PersistentCron { id: kept.last, cron, prompt, recurring, next };
                let state = self.of_kept(&cron);
                kept.crons.push(cron);
                Ok(state)
            })??
        } else {
            let mut live = self.live();
            if live.crons.len() >= CRONS_MAX {
                return Err(table_full());
            }
            live.last += 1;
            let cron = PlannedCron { id: live.last, of: new, expression, next };
            let state = self.of_own(&cron);
            live.crons.push(cron);
            state
        };
        self.changed.notify_waiters();
        Ok(state)
    }

    /// Forgets one; what it was, if there was one of this name.
    ///
    /// # Errors
    /// It can't be forgotten for good, in words.
    pub fn delete(&self, id: &str) -> Result<Option<CronState>, String> {
        let number = |prefix: &str| id.trim().strip_prefix(prefix)?.parse::<u64>().ok();
        if let Some(id) = number("kept-") {
            return self.change_kept(|kept| {
                let at = kept.crons.iter().position(|cron| cron.id == id)?;
                Some(self.of_kept(&kept.crons.remove(at)))
            });
        }
        let Some(id) = number("cron-") else { return Ok(None) };
        let mut live = self.live();
        let at = live.crons.iter().position(|cron| cron.id == id);
        Ok(at.map(|at| live.crons.remove(at)).map(|cron| self.of_own(&cron)))
    }

    /// All of them, by the time at which they are due.
    pub fn list(&self) -> Vec<CronState> {
        let mut all: Vec<(i64, CronState)> =
            self.live().crons.iter().map(|cron| (cron.next, self.of_own(cron))).collect();
        if let Some(kept) = &self.kept {
            match kept.read() {
                Ok(kept) => all.extend(kept.crons.iter().map(|cron| self.as_it_will_be(cron))),
                Err(error) => self.note(Some(error.to_string())),
            }
        }
        all.sort_by(|(a, one), (b, other)| (a, &one.id).cmp(&(b, &other.id)));
        all.into_iter().map(|(_, state)| state).collect()
    }
}
