//! Maintenance windows: the hours of the week during which maintenance may run.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::{Error, Result, UsageError};

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
const WEEK_MS: i64 = 7 * DAY_MS;

/// Milliseconds from a Monday, 0:00 UTC, to 1970-01-01, which was a Thursday.
const FIRST_DAY_MS: i64 = 3 * DAY_MS;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A maintenance window that begins at a given time on some days of the week and lasts for a given length.
///
/// The text form consists of the days, the start and the length, such as `mon-fri 01:00 4h`, `sat,sun 22:30 90m` or
/// `daily 02:00 3h`. Times are in UTC unless followed by an offset, such as `daily 02:00 3h +01:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaintenanceWindow {
    /// Days on which the window begins; the lowest bit is Monday.
    days: u8,
    /// Start of the window in milliseconds after midnight.
    start_ms: i64,
    length_ms: i64,
    /// Offset of local time from UTC, in milliseconds.
    offset_ms: i64,
}

impl MaintenanceWindow {
    /// Creates a window that begins on `days` (the lowest bit is Monday), at `start` after midnight UTC.
    ///
    /// # Errors
    /// Returns [`Error::Usage`] if `days` is empty, if the window begins a day or more after midnight, or if it is
    /// shorter than a minute or longer than a day.
    pub fn new(days: u8, start: Duration, length: Duration) -> Result<MaintenanceWindow> {
        let [start_ms, length_ms] =
            [start, length].map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        if !(1..=0x7f).contains(&days) || start_ms >= DAY_MS || !(MINUTE_MS..=DAY_MS).contains(&length_ms) {
            return Err(UsageError::WindowBounds.into());
        }
        Ok(MaintenanceWindow { days, start_ms, length_ms, offset_ms: 0 })
    }

    /// Returns the window in a time zone that is `minutes` minutes ahead of UTC.
    #[must_use]
    pub fn with_offset(self, minutes: i32) -> MaintenanceWindow {
        MaintenanceWindow { offset_ms: i64::from(minutes) * MINUTE_MS, ..self }
    }

    /// Returns part number `index` of `count` equal, consecutive parts of the window. Tasks or databases that share
    /// the window use one part each.
    #[must_use]
    pub fn part(self, index: u32, count: u32) -> MaintenanceWindow {
        let count = i64::from(count.max(1));
        let index = i64::from(index).min(count - 1);
        let part_offset = |index: i64| self.length_ms * index / count;
        let (start_ms, length_ms) =
            (self.start_ms + part_offset(index), part_offset(index + 1) - part_offset(index));
        MaintenanceWindow { start_ms, length_ms, ..self }
    }

    /// Returns the part for one task on one database. Each task gets an equal part of the window, which the databases
    /// share equally. ESE: half of the window for the scan and half for online defragmentation, if both run.
    ///
    /// # Errors
    /// Returns [`Error::Usage`] if a part is shorter than a minute.
    pub fn share(self, task: (u32, u32), database: (u32, u32)) -> Result<MaintenanceWindow> {
        let share = self.part(task.0, task.1).part(database.0, database.1);
        if share.length_ms < MINUTE_MS {
            let length = Duration::from_millis(self.length_ms as u64);
            let (tasks, databases) = (task.1, database.1);
            return Err(UsageError::WindowTooShort { length, tasks, databases }.into());
        }
        Ok(share)
    }

    /// Returns how long maintenance must wait at the time `unix_ms`, in milliseconds since 1970 UTC. Returns zero
    /// inside the window.
    pub fn wait(&self, unix_ms: i64) -> Duration {
        let of_week = (unix_ms + self.offset_ms + FIRST_DAY_MS).rem_euclid(WEEK_MS);
        let days = (0..7).filter(|day| self.days >> day & 1 == 1);
        let until = days.map(|day| {
            let begins = day * DAY_MS + self.start_ms;
            // Time since the window last started on this day of the week.
            let since = (of_week - begins).rem_euclid(WEEK_MS);
            if since < self.length_ms { 0 } else { WEEK_MS - since }
        });
        Duration::from_millis(until.min().unwrap_or(0) as u64)
    }
}

impl FromStr for MaintenanceWindow {
    type Err = Error;

    fn from_str(text: &str) -> Result<MaintenanceWindow> {
        let wrong = || Error::from(UsageError::Window(text.to_string()));
        let words: Vec<&str> = text.split_whitespace().collect();
        let (days, start, length, offset) = match words[..] {
            [days, start, length] => (days, start, length, "+00:00"),
            [days, start, length, offset] => (days, start, length, offset),
            _ => return Err(wrong()),
        };
        let offset = offset_of(offset).ok_or_else(wrong)?;
        let start = minutes_of(start).ok_or_else(wrong)?;
        let split = length.len().saturating_sub(1);
        let (number, unit) = length.split_at_checked(split).ok_or_else(wrong)?;
        let unit_minutes = match unit {
            "h" => 60,
            "m" => 1,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let minutes_to = |minutes: u64| Duration::from_secs(minutes.saturating_mul(60));
        let days = days_of(days).ok_or_else(wrong)?;
        let length = minutes_to(number.saturating_mul(unit_minutes));
        Ok(MaintenanceWindow::new(days, minutes_to(start), length)?.with_offset(offset))
    }
}

/// Parses a time such as `01:30`, and returns it in minutes.
fn minutes_of(text: &str) -> Option<u64> {
    let (hours, minutes) = text.split_once(':')?;
    let digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    let [hours, minutes] = [hours, minutes].map(|part| part.parse().ok().filter(|_| digits(part)));
    let (hours, minutes): (u64, u64) = hours.zip(minutes)?;
    (minutes < 60).then_some(hours * 60 + minutes)
}

/// Parses an offset from UTC such as `-05:30`, and returns it in minutes.
fn offset_of(text: &str) -> Option<i32> {
    let (ahead, time) = match text.split_at_checked(1)? {
        ("+", time) => (1, time),
        ("-", time) => (-1, time),
        _ => return None,
    };
    let minutes = i32::try_from(minutes_of(time)?).ok()?;
    (minutes <= 14 * 60).then_some(ahead * minutes)
}

/// Parses a list of days such as `mon-wed,sun`.
fn days_of(text: &str) -> Option<u8> {
    if text == "daily" {
        return Some(0x7f);
    }
    let number = |name: &str| DAYS.iter().position(|day| *day == name);
    let mut days = 0;
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        let count = (last + 7 - first) % 7 + 1;
        (0..count).for_each(|day| days |= 1 << ((first + day) % 7));
    }
    Some(days)
}

impl fmt::Display for MaintenanceWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days: Vec<&str> = (0..7).filter(|day| self.days >> day & 1 == 1).map(|day| DAYS[day]).collect();
        let days = if days.len() == 7 { "daily".to_string() } else { days.join(",") };
        let (start, length) = (self.start_ms / MINUTE_MS, self.length_ms / MINUTE_MS);
        write!(f, "{days} {:02}:{:02} ", start / 60, start % 60)?;
        if length % 60 == 0 { write!(f, "{}h", length / 60) } else { write!(f, "{length}m") }?;
        let offset = self.offset_ms / MINUTE_MS;
        if offset == 0 {
            return Ok(());
        }
        let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs());
        write!(f, " {sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 60 * MINUTE_MS;
    /// Monday, 2026-11-23, 0:00 UTC.
    const MONDAY: i64 = 20_780 * DAY_MS;

    fn hours(window: &MaintenanceWindow, unix_ms: i64) -> f64 {
        window.wait(unix_ms).as_secs_f64() / 3600.0
    }

    #[test]
    fn a_window_is_open_only_between_start_and_end() {
        let window: MaintenanceWindow = "mon-wed 01:00 4h".parse().unwrap();
        let hours_at = |hour: i64| hours(&window, MONDAY + hour * HOUR_MS);
        assert_eq!([hours_at(0), hours_at(1), hours_at(4), hours_at(5)], [1.0, 0.0, 0.0, 20.0]);
        // The wait lasts from Wednesday until the next Monday.
        assert_eq!(hours_at(2 * 24 + 5), 5.0 * 24.0 - 4.0);
        assert_eq!(window.wait(MONDAY + 5 * HOUR_MS - 1), Duration::ZERO);
        // In a time zone two hours ahead of UTC, the window begins two hours earlier.
        assert_eq!(hours(&window.with_offset(120), MONDAY - HOUR_MS), 0.0);
    }

    #[test]
    fn a_window_continues_past_midnight_and_into_the_next_week() {
        let window: MaintenanceWindow = "sun 22:00 6h".parse().unwrap();
        assert_eq!(hours(&window, MONDAY + 3 * HOUR_MS), 0.0);
        assert_eq!(hours(&window, MONDAY + 4 * HOUR_MS), 6.0 * 24.0 + 18.0);
        assert_eq!(hours(&window, MONDAY - 2 * HOUR_MS), 0.0);
    }

    #[test]
    fn parts_are_consecutive_and_cover_the_window() {
        let window: MaintenanceWindow = "daily 23:00 5h".parse().unwrap();
        let halves = [0, 1].map(|half| window.part(half, 2));
        for minute in 0..24 * 60 {
            let now = MONDAY + minute * MINUTE_MS;
            let open = halves.map(|half| half.wait(now).is_zero());
            assert_eq!(open[0] || open[1], window.wait(now).is_zero(), "minute {minute}");
            assert!(!(open[0] && open[1]), "minute {minute}");
        }
        assert_eq!(halves[1].wait(MONDAY + HOUR_MS + 30 * MINUTE_MS), Duration::ZERO);
        assert_eq!(window.part(0, 0), window);
    }

    #[test]
    fn tasks_and_databases_divide_a_window_down_to_a_minimum() {
        let window: MaintenanceWindow = "daily 22:00 4h".parse().unwrap();
        // The part for the second of two databases, in the second of two tasks.
        let share = window.share((1, 2), (1, 2)).unwrap();
        assert_eq!((share.start_ms, share.length_ms), (25 * HOUR_MS, HOUR_MS));
        assert_eq!(window.share((0, 1), (0, 1)).unwrap(), window);
        assert!(matches!(window.share((0, 2), (7, 121)), Err(Error::Usage(_))));
    }

    #[test]
    fn window_text_round_trips() {
        for text in [
            "daily 02:00 3h",
            "mon,tue,wed,thu,fri 01:00 4h",
            "sat,sun 22:30 90m",
            "daily 00:00 24h",
            "daily 00:00 24h +02:00",
            "mon 23:59 1m -05:30",
        ] {
            assert_eq!(text.parse::<MaintenanceWindow>().unwrap().to_string(), text);
        }
        let east: MaintenanceWindow = "mon 01:00 4h +02:00".parse().unwrap();
        assert_eq!(hours(&east, MONDAY - HOUR_MS), 0.0);
        let wraps: MaintenanceWindow = "fri-mon 01:00 4h".parse().unwrap();
        assert_eq!(wraps.to_string(), "mon,fri,sat,sun 01:00 4h");
        for wrong in [
            "",
            "daily",
            "daily 02:00",
            "noday 02:00 3h",
            "daily 24:00 3h",
            "daily 02:60 3h",
            "daily 2:00 3h",
            "daily 02:00 0h",
            "daily 02:00 25h",
            "daily 02:00 3",
            "daily 02:00 -3h",
            "daily 02:00 99999999999999999999h",
            "mon- 02:00 3h",
            "daily 02:00 3h x",
            "daily 02:00 3h 01:00",
            "daily 02:00 3h +1:00",
            "daily 02:00 3h +15:00",
            "daily 02:00 3h +01:00 x",
            "daily +2:00 3h",
            "daily 02:00 é",
        ] {
            assert!(matches!(wrong.parse::<MaintenanceWindow>(), Err(Error::Usage(_))), "{wrong}");
        }
    }
}
