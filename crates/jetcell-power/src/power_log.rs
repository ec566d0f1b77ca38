//! Logs of meters: written by [`Recorder`], or by any program that writes CSV with these columns.
//!
//! | column | content |
//! | --- | --- |
//! | `unix_ms`, `unix_seconds` or `time` | when; `time` is RFC 3339 |
//! | `watts`, `joules` or `kwh` | power at that time, or a counter of energy |
//! | `scope` | optional: see [`Scope::name`] |

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use chrono::DateTime;

use crate::error::PowerError;
use crate::meter::Reading;
use crate::scope::Scope;

/// Most rows of a log: three years of one a second would be more.
const MOST_ROWS: usize = 50_000_000;
/// How far a window may reach out of the log: the times of a run have whole seconds.
const TOLERANCE_MS: i64 = 1000;
/// Times and values beyond these are mistakes: the year 33658, and all that mankind uses in a day.
const LATEST_MS: i64 = 1_000_000_000_000_000;
const MOST_ENERGY: f64 = 1e18;
/// Longest time between two rows, as a share of the window that is asked for.
const LONGEST_GAP: f64 = 0.1;

/// Energy up to a time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    unix_ms: i64,
    joules: f64,
}

/// What a meter recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerLog {
    path: PathBuf,
    /// What was measured.
    pub scope: Scope,
    /// Whether the meter counted energy itself, so that nothing is lost between two rows.
    counted: bool,
    /// At least two, in the order of their times.
    points: Vec<Point>,
}

/// Energy in a window of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    /// Joules.
    pub joules: f64,
    /// Length of the window in seconds.
    pub seconds: f64,
}

impl Used {
    /// Mean power.
    pub fn watts(&self) -> f64 {
        self.joules / self.seconds
    }
}

/// How the value of a row becomes energy.
#[derive(Clone, Copy)]
enum Column {
    Watts,
    /// A counter, with joules for each unit.
    Counter(f64),
}

impl PowerLog {
    /// Reads a log. `scope` is that of a log that names none; a log that names another one is refused.
    pub fn read(path: &Path, scope: Option<Scope>) -> Result<PowerLog, PowerError> {
        let failed = |error| PowerError::Io { path: path.into(), error };
        // The open of a pipe would wait for its other end.
        if !path.metadata().map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("this is not a file; give a regular file")));
        }
        let file = File::open(path).map_err(failed)?;
        PowerLog::from_csv(path, file, scope)
    }

    fn from_csv(path: &Path, input: impl io::Read, scope: Option<Scope>) -> Result<PowerLog, PowerError> {
        let wrong = |what: String| PowerError::Log { path: path.into(), what };
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(input);
        let headers = reader.headers().map_err(|error| wrong(error.to_string()))?.clone();
        let find = |names: &[&str]| {
            let found = names.iter().find_map(|name| headers.iter().position(|header| header == *name));
            found.ok_or_else(|| {
                wrong(format!("it has no column {}; give a log that has one of them", names.join(", ")))
            })
        };
        let time = find(&["unix_ms", "unix_seconds", "time"])?;
        let value = find(&["watts", "joules", "kwh"])?;
        let column = match headers.get(value) {
            Some("joules") => Column::Counter(1.0),
            Some("kwh") => Column::Counter(3.6e6),
            _ => Column::Watts,
        };
        let own_scope = headers.iter().position(|header| header == "scope");
        let (mut points, mut scope): (Vec<Point>, _) = (Vec::new(), scope);
        let (mut last_value, mut row) = (0.0, csv::StringRecord::new());
        while reader.read_record(&mut row).map_err(|error| wrong(error.to_string()))? {
            let line = row.position().map_or(0, csv::Position::line);
            let cell = |at: usize| row.get(at).unwrap_or_default();
            let unix_ms = milliseconds(headers.get(time).unwrap_or_default(), cell(time))
                .ok_or_else(|| wrong(format!("line {line}: \"{}\" is no time", cell(time))))?;
            let found: f64 = cell(value).parse().unwrap_or(f64::NAN);
            if !(0.0..=MOST_ENERGY).contains(&found) {
                return Err(wrong(format!("line {line}: \"{}\" is no power or energy", cell(value))));
            }
            if let Some(at) = own_scope {
                let named: Scope = cell(at).parse().map_err(|what| wrong(format!("line {line}: {what}")))?;
                if *scope.get_or_insert(named) != named {
                    return Err(wrong(format!(
                        "line {line}: the scope is {}, and not the one given",
                        named.name()
                    )));
                }
            }
            let joules = match (points.last(), column) {
                (None, _) => 0.0,
                (Some(before), _) if unix_ms <= before.unix_ms => {
                    return Err(wrong(format!(
                        "line {line}: the time is not after that of the line before; the clock jumped"
                    )));
                }
                (Some(before), Column::Watts) => {
                    before.joules + (last_value + found) / 2.0 * (unix_ms - before.unix_ms) as f64 / 1000.0
                }
                (Some(_), Column::Counter(_)) if found < last_value => {
                    return Err(wrong(format!(
                        "line {line}: the counter went back; use the log before or after it"
                    )));
                }
                (Some(before), Column::Counter(joules)) => before.joules + (found - last_value) * joules,
            };
            last_value = found;
            points.push(Point { unix_ms, joules });
            if points.len() > MOST_ROWS {
                return Err(wrong(format!("it has more than {MOST_ROWS} rows; cut it")));
            }
        }
        if points.len() < 2 {
            return Err(wrong("it has fewer than two rows, so no energy".into()));
        }
        let scope = scope.ok_or_else(|| {
            wrong(
                "it does not say what was measured; give a scope: drive, enclosure, server or processor"
                    .into(),
            )
        })?;
        Ok(PowerLog { path: path.into(), scope, counted: matches!(column, Column::Counter(_)), points })
    }

    /// Energy of the whole log.
    pub fn whole(&self) -> Result<Used, PowerError> {
        self.between(self.first().unix_ms, self.last().unix_ms)
    }

    /// Energy between two times, in milliseconds since 1970 UTC. Refused if the log lacks more than a second or more than half of the time
    /// between them, or has gaps of more than a tenth of it.
    pub fn between(&self, from_ms: i64, to_ms: i64) -> Result<Used, PowerError> {
        let wrong = |what: String| PowerError::Log { path: self.path.clone(), what };
        let asked = to_ms.saturating_sub(from_ms);
        let seconds = asked as f64 / 1000.0;
        let (first, last) = (self.first().unix_ms, self.last().unix_ms);
        let outside = first.saturating_sub(from_ms).max(0).saturating_add(to_ms.saturating_sub(last).max(0));
        if from_ms < first - TOLERANCE_MS || to_ms > last + TOLERANCE_MS || outside > asked / 2 {
            return Err(wrong(format!(
                "{:.1} s of the window of {seconds:.1} s are not in the log",
                outside as f64 / 1000.0
            )));
        }
        let (from_ms, to_ms) = (from_ms.max(first), to_ms.min(last));
        if from_ms >= to_ms {
            return Err(wrong("the window has no length".into()));
        }
        let seconds = (to_ms - from_ms) as f64 / 1000.0;
        let is_cut = |pair: &[Point], at: i64| pair[0].unix_ms < at && at < pair[1].unix_ms;
        let inside =
            self.points.windows(2).filter(|pair| pair[1].unix_ms > from_ms && pair[0].unix_ms < to_ms);
        let unknown = inside.filter(|pair| !self.counted || is_cut(pair, from_ms) || is_cut(pair, to_ms));
        let gap = unknown.map(|pair| pair[1].unix_ms - pair[0].unix_ms).max().unwrap_or(0) as f64 / 1000.0;
        if gap > seconds * LONGEST_GAP {
            return Err(wrong(format!(
                "the meter said nothing for {gap:.1} s of a window of {seconds:.1} s"
            )));
        }
        Ok(Used { joules: self.at(to_ms) - self.at(from_ms), seconds })
    }

    fn first(&self) -> Point {
        self.points[0]
    }

    fn last(&self) -> Point {
        self.points[self.points.len() - 1]
    }

    /// Joules up to a time inside the log.
    fn at(&self, unix_ms: i64) -> f64 {
        let next = self.points.partition_point(|point| point.unix_ms < unix_ms).min(self.points.len() - 1);
        let (before, after) = (self.points[next.saturating_sub(1)], self.points[next]);
        if after.unix_ms == before.unix_ms {
            return after.joules;
        }
        let share = (unix_ms - before.unix_ms) as f64 / (after.unix_ms - before.unix_ms) as f64;
        before.joules + (after.joules - before.joules) * share
    }
}

fn milliseconds(column: &str, text: &str) -> Option<i64> {
    let unix_ms = match column {
        "unix_ms" => text.parse().ok(),
        "unix_seconds" => {
            let seconds: f64 = text.parse().ok()?;
            Some((seconds * 1000.0) as i64)
        }
        _ => DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_millis()),
    };
    unix_ms.filter(|unix_ms| (-LATEST_MS..=LATEST_MS).contains(unix_ms))
}

/// Writes a log while a test runs. Each row is in the file at once.
pub struct Recorder {
    path: PathBuf,
    file: File,
    scope: Scope,
}

impl Recorder {
    /// Starts a log, which must not exist, with a first reading.
    pub fn create(path: &Path, scope: Scope, unix_ms: i64, first: Reading) -> Result<Recorder, PowerError> {
        let file = File::create_new(path).map_err(|error| PowerError::Io { path: path.into(), error })?;
        let mut recorder = Recorder { path: path.into(), file, scope };
        let unit = match first {
            Reading::Watts(_) => "watts",
            Reading::Joules(_) => "joules",
        };
        recorder.line(&format!("unix_ms,{unit},scope\n"))?;
        recorder.add(unix_ms, first)?;
        Ok(recorder)
    }

    /// Adds a reading of the same kind as the first.
    pub fn add(&mut self, unix_ms: i64, reading: Reading) -> Result<(), PowerError> {
        let (Reading::Watts(value) | Reading::Joules(value)) = reading;
        let scope = self.scope.name();
        self.line(&format!("{unix_ms},{value:.6},{scope}\n"))
    }

    fn line(&mut self, line: &str) -> Result<(), PowerError> {
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|error| PowerError::Io { path: self.path.clone(), error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Result<PowerLog, PowerError> {
        PowerLog::from_csv("p.csv".as_ref(), text.as_bytes(), Some(Scope::Server))
    }

    #[test]
    fn power_is_integrated_and_counters_are_subtracted() {
        let rows: String =
            (0..=100).map(|second| format!("{},{}\n", second * 1000, 40 + second % 2 * 20)).collect();
        let used = log(&format!("unix_ms,watts\n{rows}")).unwrap().between(10_500, 90_500).unwrap();
        assert_eq!((used.seconds, used.watts().round()), (80.0, 50.0));
        let counted =
            log("time,kwh\n2026-01-01T00:00:00Z,7.5\n2026-01-02T03:30:00Z,8.6\n").unwrap().whole().unwrap();
        assert!((counted.watts() - 40.0).abs() < 1e-9, "{counted:?}");
        let joules = log("unix_seconds,joules\n1.5,10\n2.5,25\n3.5,40\n").unwrap();
        assert_eq!(joules.points.last().map(|point| point.joules), Some(30.0));
    }

    #[test]
    fn a_log_that_does_not_cover_the_window_gives_no_figure() {
        let rows = |seconds: &[i64]| {
            let lines: String = seconds.iter().map(|second| format!("{},40\n", second * 1000)).collect();
            log(&format!("unix_ms,watts\n{lines}")).unwrap()
        };
        let whole = rows(&(0..=60).collect::<Vec<_>>());
        assert!(whole.between(0, 60_000).is_ok());
        for (from, to, said) in [
            (-5_000, 30_000, "5.0 s of the window of 35.0 s"),
            (0, 62_000, "2.0 s"),
            (59_600, 60_900, "0.9 s of the window of 1.3 s"),
            (9, 9, "no length"),
        ] {
            let found = whole.between(from, to).unwrap_err().to_string();
            assert!(found.contains(said), "{found}");
        }
        let gap = rows(&[0, 1, 2, 3, 40, 41, 42, 60]).between(0, 60_000).unwrap_err().to_string();
        assert!(gap.contains("said nothing for 37.0 s"), "{gap}");
        // A counter has no gaps, but its value inside of one is unknown.
        let counter = log("unix_seconds,kwh\n0,1\n10,2\n60,3\n").unwrap();
        assert!(counter.between(0, 60_000).is_ok() && counter.between(0, 50_000).is_err());
    }

    #[test]
    fn what_is_no_log_is_refused_with_its_line() {
        for (text, said) in [
            ("a,b\n1,2\n", "no column unix_ms"),
            ("unix_ms,b\n1,2\n", "no column watts"),
            ("unix_ms,watts\n1,2\n", "fewer than two rows"),
            ("unix_ms,watts\n1,2\n1,2\n", "line 3: the time is not after"),
            ("unix_ms,watts\n1,2\nx,2\n", "line 3: \"x\" is no time"),
            ("unix_ms,watts\n-9223372036854775808,2\n9223372036854775807,2\n", "is no time"),
            ("unix_seconds,watts\n1,2\n1e300,2\n", "is no time"),
            ("unix_ms,watts\n1,2\n2,1e300\n", "is no power"),
            ("unix_ms,watts\n1,2\n2,-2\n", "line 3: \"-2\" is no power"),
            ("unix_ms,watts\n1,2\n2,inf\n", "is no power"),
            ("unix_ms,joules\n1,5\n2,4\n", "line 3: the counter went back"),
            ("unix_ms,watts,scope\n1,2,drive\n2,2,drive\n", "line 2: the scope is drive"),
            ("unix_ms,watts,scope\n1,2,house\n2,2,drive\n", "line 2: \"house\" is no scope"),
            ("unix_ms,watts\n1,2\n2\n", "record"),
        ] {
            let found = log(text).err().unwrap().to_string();
            assert!(found.contains(said), "{text:?}: {found}");
        }
        let unknown = PowerLog::from_csv("p.csv".as_ref(), &b"unix_ms,watts\n1,2\n2,2\n"[..], None);
        assert!(unknown.unwrap_err().to_string().contains("give a scope"));
    }

    #[test]
    fn what_is_recorded_is_read_back_and_nothing_is_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("power.csv");
        let mut recorder = Recorder::create(&path, Scope::Processor, 1000, Reading::Joules(0.0)).unwrap();
        (1..=20).for_each(|at| recorder.add(1000 + at * 500, Reading::Joules(at as f64 * 10.0)).unwrap());
        let log = PowerLog::read(&path, None).unwrap();
        assert_eq!(
            (log.scope, log.whole().unwrap()),
            (Scope::Processor, Used { joules: 200.0, seconds: 10.0 })
        );
        assert!(Recorder::create(&path, Scope::Server, 0, Reading::Watts(1.0)).is_err());
    }
}
