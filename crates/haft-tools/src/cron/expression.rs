//! When something is due: five fields, and the next time that fits them.
//!
//! A *slot* is a minute that fits. What happens where the clocks of a zone are changed follows from one rule:
//! a time of day happens once, and every hour happens as often as there are hours.
//!
//! * Hours are named (`30 2 * * *`): a slot is a minute of the calendar. One that is skipped comes as much
//!   later as the clocks were put forward, so nothing is left out; one that is repeated comes the first time
//!   only.
//! * Every hour fits (`*/10 * * * *`): a slot is a minute that really passes. Skipped ones aren't there,
//!   repeated ones come again, so that what runs every ten minutes does.

use std::fmt;

use haft::text::truncate_chars;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, TimeZone};

/// The longest expression, in characters.
const CHARS_MAX: usize = 200;
/// How many days are looked through: a 29th of February can be eight years away.
const DAYS_MAX: usize = 366 * 9;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Minute, hour, day of the month, month, day of the week, as cron has them: `*`, numbers, `1-5`, `*/10`,
/// `1-30/5`, lists of them with commas, names of months and weekdays. Where both days are given, either may
/// fit.
///
/// ```
/// use haft_tools::cron::{CronExpression, TimeZone, Timestamp};
///
/// let weekdays: CronExpression = "30 8 * * mon-fri".parse().unwrap();
/// let friday: Timestamp = "2026-11-13T09:00:00Z".parse().unwrap();
/// let next = weekdays.next_after(friday, &TimeZone::UTC).unwrap();
/// assert_eq!(next.to_string(), "2026-11-16T08:30:00Z");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronExpression {
    text: String,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether days of the month, and of the week, are not simply all.
    by_day: bool,
    by_weekday: bool,
}

/// Why a text is no expression, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidCronExpression(String);

impl fmt::Display for InvalidCronExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidCronExpression {}

impl fmt::Display for CronExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

struct CronField {
    name: &'static str,
    least: u8,
    most: u8,
    names: &'static [&'static str],
}

const FIELDS: [CronField; 5] = [
    CronField { name: "minute", least: 0, most: 59, names: &[] },
    CronField { name: "hour", least: 0, most: 23, names: &[] },
    CronField { name: "day of the month", least: 1, most: 31, names: &[] },
    CronField { name: "month", least: 1, most: 12, names: &MONTHS },
    CronField { name: "day of the week", least: 0, most: 7, names: &WEEKDAYS },
];

impl std::str::FromStr for CronExpression {
    type Err = InvalidCronExpression;

    fn from_str(text: &str) -> Result<CronExpression, InvalidCronExpression> {
        if text.chars().count() > CHARS_MAX {
            return Err(InvalidCronExpression(format!("it has more than {CHARS_MAX} characters")));
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(InvalidCronExpression(format!(
                "it has {} field{}; five are accepted: minute, hour, day of the month, month, day of the week, as in \
                 \"30 8 * * 1-5\"",
                fields.len(),
                if fields.len() == 1 { "" } else { "s" }
            )));
        };
        let mut weekday_bits = FIELDS[4].bits(weekdays)?;
        // Sunday has two numbers.
        weekday_bits |= weekday_bits >> 7 & 1;
        weekday_bits &= 0x7f;
        let expression = CronExpression {
            text: fields.join(" "),
            minutes: FIELDS[0].bits(minutes)?,
            hours: FIELDS[1].bits(hours)?,
            days: FIELDS[2].bits(days)?,
            months: FIELDS[3].bits(months)?,
            weekdays: weekday_bits,
            by_day: !days.starts_with('*'),
            by_weekday: !weekdays.starts_with('*'),
        };
        if !expression.ever_comes() {
            return Err(InvalidCronExpression(format!(
                "no month of `{months}` has a day `{days}`, so it never comes"
            )));
        }
        Ok(expression)
    }
}

impl CronField {
    fn bits(&self, text: &str) -> Result<u64, InvalidCronExpression> {
        text.split(',').try_fold(0, |bits, part| Ok(bits | self.part(part)?))
    }

    fn part(&self, part: &str) -> Result<u64, InvalidCronExpression> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.least, self.most.min(if self.names.len() == 7 { 6 } else { 59 })),
            Some((first, last)) => (self.number(first, part)?, self.number(last, part)?),
            None => {
                let only = self.number(range, part)?;
                // `5/15` is from 5 on.
                (only, if step.is_some() { self.most } else { only })
            }
        };
        let step = match step {
            None => 1,
            Some(step) => match step.parse::<u8>() {
                Ok(step) if step > 0 && step <= self.most => step,
                _ => return Err(self.bad(part, &format!("a step of 1 to {} is accepted", self.most))),
            },
        };
        if first > last {
            return Err(self.bad(part, "the first is after the last; give two ranges with a comma"));
        }
        Ok((first..=last).step_by(step.into()).fold(0, |bits, at| bits | 1 << at))
    }

    fn number(&self, text: &str, part: &str) -> Result<u8, InvalidCronExpression> {
        let lower = text.to_lowercase();
        if let Some(at) = self.names.iter().position(|name| *name == lower) {
            return Ok(at as u8 + self.least);
        }
        let plain = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u8>() {
            Ok(number) if plain && (self.least..=self.most).contains(&number) => Ok(number),
            _ => {
                let names = match self.names {
                    [first, .., last] => format!(", or a name, {first} to {last}"),
                    _ => String::new(),
                };
                Err(self.bad(part, &format!("{} to {} is accepted{names}", self.least, self.most)))
            }
        }
    }

    fn bad(&self, part: &str, words: &str) -> InvalidCronExpression {
        let part = truncate_chars(part, 40);
        InvalidCronExpression(format!("`{part}` is no {}: {words}", self.name))
    }
}

impl CronExpression {
    fn ever_comes(&self) -> bool {
        const LONGEST: [u8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let first = self.days.trailing_zeros();
        let fits = |month: usize| self.months >> month & 1 == 1 && u32::from(LONGEST[month - 1]) >= first;
        self.by_weekday || (1..=12).any(fits)
    }

    /// Whether it comes every hour.
    fn is_hourly(&self) -> bool {
        self.hours == (1 << 24) - 1
    }

    fn fits(&self, date: Date) -> bool {
        let month = self.months >> date.month() & 1 == 1;
        let day = self.days >> date.day() & 1 == 1;
        let weekday = self.weekdays >> date.weekday().to_sunday_zero_offset() & 1 == 1;
        month
            && match (self.by_day, self.by_weekday) {
                (true, true) => day || weekday,
                _ => day && weekday,
            }
    }

    /// The next time that is later than `after`; nothing if there is none that can be told.
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        // What a day's clock shows may come later than the day, where it was skipped.
        let mut day = zone.to_datetime(after).date().yesterday().ok()?;
        for _ in 0..DAYS_MAX {
            let next_day = day.tomorrow().ok()?;
            if let Some(first) = self.first_of(day, after, zone) {
                let other = self.first_of(next_day, after, zone);
                return Some(other.map_or(first, |other| first.min(other)));
            }
            day = next_day;
        }
        None
    }

    /// The first slot of a day after a time.
    fn first_of(&self, date: Date, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if !self.fits(date) {
            return None;
        }
        let mut first: Option<Timestamp> = None;
        let mut take = |time: Timestamp| {
            if time > after && first.is_none_or(|first| time < first) {
                first = Some(time);
            }
        };
        for hour in (0..24).filter(|hour| self.hours >> hour & 1 == 1) {
            for minute in (0..60).filter(|minute| self.minutes >> minute & 1 == 1) {
                let found = zone.to_ambiguous_timestamp(date.at(hour, minute, 0, 0));
                match (found.offset(), self.is_hourly()) {
                    (AmbiguousOffset::Unambiguous { .. }, _) | (AmbiguousOffset::Gap { .. }, false) => {
                        found.compatible().into_iter().for_each(&mut take);
                    }
                    (AmbiguousOffset::Gap { .. }, true) => {}
                    (AmbiguousOffset::Fold { .. }, hourly) => {
                        found.earlier().into_iter().for_each(&mut take);
                        if hourly {
                            found.later().into_iter().for_each(&mut take);
                        }
                    }
                }
            }
        }
        first
    }
}
