//! Power logs. They are written by [`PowerRecorder`], or by any program that writes CSV with these columns.
//!
//! | column | content |
//! | --- | --- |
//! | `unix_ms`, `unix_seconds` or `time` | time of the reading; `time` is in RFC 3339 format |
//! | `watts`, `joules` or `kwh` | power at that time, or an energy counter; or `watts` and a counter |
//! | `scope` | optional: see [`MeterScope::name`] |

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use chrono::DateTime;

use crate::energy::{EnergyPoint, EnergyUse};
use crate::error::{PowerError, PowerLogError, PowerRowError};
use crate::meter::MeterReading;
use crate::scope::MeterScope;

/// Maximum number of rows in a log. This allows one row per second for more than a year.
const MAX_ROWS: usize = 50_000_000;
/// Limits for valid times and values. The time limit is the year 33658. The energy limit is about humanity's daily
/// consumption.
const MAX_TIME_MS: i64 = 1_000_000_000_000_000;
const MAX_ENERGY: f64 = 1e18;
/// A log of a power meter's readings.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerLog {
    path: PathBuf,
    /// Scope of the measurement.
    pub scope: MeterScope,
    /// Energy, computed by integrating power over time.
    power: Option<Vec<EnergyPoint>>,
    /// Energy from the meter's counter, which does not miss energy used between two rows. At least one of `power` and
    /// `counter` is set. Each has at least two points, in chronological order.
    counter: Option<Vec<EnergyPoint>>,
}

/// Positions of the columns in a row.
struct PowerLogColumns {
    time: usize,
    watts: Option<usize>,
    /// Column of the counter, and the number of joules per unit.
    counter: Option<(usize, f64)>,
    scope: Option<usize>,
}

impl PowerLogColumns {
    fn from_headers(headers: &csv::StringRecord) -> Result<PowerLogColumns, PowerLogError> {
        let column_index = |name: &str| headers.iter().position(|header| header == name);
        let time = ["unix_ms", "unix_seconds", "time"].into_iter().find_map(column_index);
        let counter =
            column_index("joules").map(|at| (at, 1.0)).or_else(|| column_index("kwh").map(|at| (at, 3.6e6)));
        let watts = column_index("watts");
        match time {
            None => Err(PowerLogError::NoColumn("unix_ms, unix_seconds, time")),
            Some(_) if watts.is_none() && counter.is_none() => {
                Err(PowerLogError::NoColumn("watts, joules, kwh"))
            }
            Some(time) => Ok(PowerLogColumns { time, watts, counter, scope: column_index("scope") }),
        }
    }
}

/// Energy summed row by row.
#[derive(Default)]
struct EnergySum {
    points: Vec<EnergyPoint>,
    last: f64,
}

impl EnergySum {
    /// Adds a row. `joules` computes the energy used since the previous row from the previous value, the current
    /// value, and the number of seconds between the rows.
    fn add(&mut self, unix_ms: i64, value: f64, joules: impl Fn(f64, f64, f64) -> f64) {
        let joules = self.points.last().map_or(0.0, |before| {
            before.joules + joules(self.last, value, (unix_ms - before.unix_ms) as f64 / 1000.0)
        });
        self.last = value;
        self.points.push(EnergyPoint { unix_ms, joules });
    }
}

impl PowerLog {
    /// Reads a log. `scope` is used if the log does not specify a scope. Returns an error if the log specifies a
    /// different one.
    pub fn read(path: &Path, scope: Option<MeterScope>) -> Result<PowerLog, PowerError> {
        let io_error = |error| PowerError::Io { path: path.into(), error };
        // Opening a pipe would block until its other end is open.
        if !path.metadata().map_err(io_error)?.is_file() {
            return Err(PowerError::NotAFile(path.into()));
        }
        let file = File::open(path).map_err(io_error)?;
        PowerLog::from_csv(path, file, scope).map_err(|error| PowerError::Log { path: path.into(), error })
    }

    fn from_csv(
        path: &Path,
        input: impl io::Read,
        scope: Option<MeterScope>,
    ) -> Result<PowerLog, PowerLogError> {
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(input);
        let headers = reader.headers()?.clone();
        let columns = PowerLogColumns::from_headers(&headers)?;
        let time = headers.get(columns.time).unwrap_or_default();
        let (mut scope, mut last_ms, mut rows) = (scope, None, 0);
        let mut power = columns.watts.map(|_| EnergySum::default());
        let mut counter = columns.counter.map(|_| EnergySum::default());
        let mut row = csv::StringRecord::new();
        while reader.read_record(&mut row)? {
            let line = row.position().map_or(0, csv::Position::line);
            let wrong = |error| PowerLogError::Row { line, error };
            let cell = |at: usize| row.get(at).unwrap_or_default();
            let unix_ms = milliseconds(time, cell(columns.time))
                .ok_or_else(|| wrong(PowerRowError::Time(cell(columns.time).into())))?;
            if last_ms.is_some_and(|last| unix_ms <= last) {
                return Err(wrong(PowerRowError::TimeOrder));
            }
            last_ms = Some(unix_ms);
            let amount = |at: usize| {
                let found: Option<f64> = cell(at).parse().ok();
                let found = found.filter(|found| (0.0..=MAX_ENERGY).contains(found));
                found.ok_or_else(|| wrong(PowerRowError::Value(cell(at).into())))
            };
            if let (Some(sum), Some(at)) = (&mut power, columns.watts) {
                sum.add(unix_ms, amount(at)?, |before, watts, seconds| (before + watts) / 2.0 * seconds);
            }
            if let (Some(sum), Some((at, unit))) = (&mut counter, columns.counter) {
                match amount(at) {
                    Ok(found) if found >= sum.last => {
                        sum.add(unix_ms, found, |before, found, _| (found - before) * unit);
                    }
                    // The counter was reset or has stopped, but the power can still be used.
                    _ if power.is_some() => counter = None,
                    Ok(_) => return Err(wrong(PowerRowError::CounterDecreased)),
                    Err(error) => return Err(error),
                }
            }
            if let Some(at) = columns.scope {
                let named: MeterScope =
                    cell(at).parse().map_err(|error| wrong(PowerRowError::UnknownScope(error)))?;
                if *scope.get_or_insert(named) != named {
                    return Err(wrong(PowerRowError::OtherScope(named)));
                }
            }
            rows += 1;
            if rows > MAX_ROWS {
                return Err(PowerLogError::TooManyRows { limit: MAX_ROWS });
            }
        }
        if rows < 2 {
            return Err(PowerLogError::TooFewRows);
        }
        let scope = scope.ok_or(PowerLogError::NoScope)?;
        let points = |sum: Option<EnergySum>| sum.map(|sum| sum.points);
        Ok(PowerLog { path: path.into(), scope, power: points(power), counter: points(counter) })
    }

    /// Returns the energy used over the whole log.
    pub fn total_energy(&self) -> Result<EnergyUse, PowerError> {
        let points = self.power.as_deref().or(self.counter.as_deref()).unwrap_or_default();
        let ends =
            points.first().zip(points.last()).map_or((0, 0), |(one, other)| (one.unix_ms, other.unix_ms));
        self.energy_between(ends.0, ends.1)
    }

    /// Returns the energy used between two times, which are given in milliseconds since 1970 UTC. If the log has both
    /// power and a counter, the counter is used, provided that it advanced by many steps.
    ///
    /// # Errors
    /// Returns an error if more than a second, or more than half of the window, is outside the log, or if the log has
    /// gaps longer than a tenth of the window.
    pub fn energy_between(&self, from_ms: i64, to_ms: i64) -> Result<EnergyUse, PowerError> {
        let used =
            EnergyUse::between(self.power.as_deref(), self.counter.as_deref(), self.scope, (from_ms, to_ms));
        used.map_err(|error| PowerError::Log { path: self.path.clone(), error })
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
    unix_ms.filter(|unix_ms| (-MAX_TIME_MS..=MAX_TIME_MS).contains(unix_ms))
}

/// Records a power meter's readings to a log while a test runs. Each row is written to the file immediately.
pub struct PowerRecorder {
    path: PathBuf,
    file: File,
    scope: MeterScope,
    /// Whether the rows contain both power and a counter.
    has_counter_and_power: bool,
}

impl PowerRecorder {
    /// Creates a log that contains a first reading. The file must not exist yet.
    pub fn create(
        path: &Path,
        scope: MeterScope,
        unix_ms: i64,
        first: MeterReading,
    ) -> Result<PowerRecorder, PowerError> {
        let file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|error| PowerError::Io { path: path.into(), error })?;
        let counts = matches!(first, MeterReading::WattsAndJoules(..));
        let mut recorder = PowerRecorder { path: path.into(), file, scope, has_counter_and_power: counts };
        let unit = match first {
            MeterReading::Watts(_) => "watts",
            MeterReading::Joules(_) => "joules",
            MeterReading::WattsAndJoules(..) => "watts,joules",
        };
        recorder.line(&format!("unix_ms,{unit},scope\n"))?;
        recorder.add(unix_ms, first)?;
        Ok(recorder)
    }

    /// Adds a reading of the same kind as the first one. If the meter has both power and a counter, the counter may
    /// be missing.
    pub fn add(&mut self, unix_ms: i64, reading: MeterReading) -> Result<(), PowerError> {
        let scope = self.scope.name();
        let values = match reading {
            MeterReading::WattsAndJoules(watts, joules) if self.has_counter_and_power => {
                format!("{watts:.6},{joules:.6}")
            }
            MeterReading::Watts(watts) if self.has_counter_and_power => format!("{watts:.6},"),
            MeterReading::Watts(value)
            | MeterReading::Joules(value)
            | MeterReading::WattsAndJoules(value, _) => {
                format!("{value:.6}")
            }
        };
        self.line(&format!("{unix_ms},{values},{scope}\n"))
    }

    fn line(&mut self, line: &str) -> Result<(), PowerError> {
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|error| PowerError::Io { path: self.path.clone(), error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Result<PowerLog, PowerLogError> {
        PowerLog::from_csv("p.csv".as_ref(), text.as_bytes(), Some(MeterScope::Server))
    }

    #[test]
    fn power_is_integrated_and_counters_are_subtracted() {
        let rows: String =
            (0..=100).map(|second| format!("{},{}\n", second * 1000, 40 + second % 2 * 20)).collect();
        let used = log(&format!("unix_ms,watts\n{rows}")).unwrap().energy_between(10_500, 90_500).unwrap();
        assert_eq!((used.seconds, used.watts().round()), (80.0, 50.0));
        let counted = log("time,kwh\n2026-01-01T00:00:00Z,7.5\n2026-01-02T03:30:00Z,8.6\n")
            .unwrap()
            .total_energy()
            .unwrap();
        assert!((counted.watts() - 40.0).abs() < 1e-9, "{counted:?}");
        let joules = log("unix_seconds,joules\n1.5,10\n2.5,25\n3.5,40\n").unwrap();
        assert_eq!(joules.total_energy().unwrap(), EnergyUse { joules: 30.0, seconds: 2.0, counted: true });
    }

    #[test]
    fn an_energy_counter_is_used_after_enough_increments() {
        // The plug actually draws 40 W but reports 60 W. Its counter has a resolution of one watt-hour.
        let row = |second: u64, counter: &str| format!("{},60,{counter}\n", second * 1000);
        let rows = |hours: u64| -> String {
            let seconds = (0..=hours * 3600).step_by(10);
            seconds
                .map(|second| row(second, &format!("{:.3}", (second * 40 / 3600) as f64 / 1000.0)))
                .collect()
        };
        let log = |rows: String| log(&format!("unix_ms,watts,kwh\n{rows}")).unwrap();
        let long = log(rows(5)).total_energy().unwrap();
        assert!(long.counted && (long.watts() - 40.0).abs() < 0.4, "{long:?}");
        // The counter advances by 40 steps in an hour.
        let short = log(rows(1)).total_energy().unwrap();
        assert!(!short.counted && (short.watts() - 60.0).abs() < 1e-9, "{short:?}");
        // The counter is reset, stops, or is missing from one row.
        for broken in [row(18_010, "0.001"), row(18_010, ""), row(18_010, "x")] {
            let found = log(rows(5) + &broken).total_energy().unwrap();
            assert!(!found.counted && (found.watts() - 60.0).abs() < 1e-9, "{broken}: {found:?}");
        }
        let still = log((0..60).map(|second| row(second, "7")).collect()).total_energy().unwrap();
        assert!(!still.counted, "a counter that does not rise is ignored");
    }

    #[test]
    fn processor_counters_that_may_have_wrapped_give_no_figure() {
        let log = |scope| {
            let rows = "unix_seconds,joules\n0,0\n50,500\n111,1110\n150,1500\n";
            PowerLog::from_csv("p.csv".as_ref(), rows.as_bytes(), Some(scope)).unwrap()
        };
        let refused = log(MeterScope::Processor).total_energy().unwrap_err().to_string();
        assert!(refused.contains("were not read for 61.0 s"), "{refused}");
        assert!(log(MeterScope::Processor).energy_between(111_000, 150_000).is_ok(), "after the gap");
        assert!(log(MeterScope::Server).total_energy().is_ok(), "the counter of a server does not wrap");
    }

    #[test]
    fn a_log_that_does_not_cover_the_window_gives_no_figure() {
        let rows = |seconds: &[i64]| {
            let lines: String = seconds.iter().map(|second| format!("{},40\n", second * 1000)).collect();
            log(&format!("unix_ms,watts\n{lines}")).unwrap()
        };
        let whole = rows(&(0..=60).collect::<Vec<_>>());
        assert!(whole.energy_between(0, 60_000).is_ok());
        for (from, to, said) in [
            (-5_000, 30_000, "5.0 s of the 35.0 s window"),
            (0, 62_000, "2.0 s"),
            (59_600, 60_900, "0.9 s of the 1.3 s window"),
            (9, 9, "is empty"),
        ] {
            let found = whole.energy_between(from, to).unwrap_err().to_string();
            assert!(found.contains(said), "{found}");
        }
        let gap = rows(&[0, 1, 2, 3, 40, 41, 42, 60]).energy_between(0, 60_000).unwrap_err().to_string();
        assert!(gap.contains("did not report for 37.0 s"), "{gap}");
        // A counter does not miss energy between rows, but its value at a time between two rows is unknown.
        let counter = log("unix_seconds,kwh\n0,1\n10,2\n60,3\n").unwrap();
        assert!(counter.energy_between(0, 60_000).is_ok() && counter.energy_between(0, 50_000).is_err());
    }

    #[test]
    fn an_invalid_power_log_is_refused_with_the_line_number() {
        for (text, said) in [
            ("a,b\n1,2\n", "does not have a column unix_ms"),
            ("unix_ms,b\n1,2\n", "does not have a column watts"),
            ("unix_ms,watts\n1,2\n", "fewer than two rows"),
            ("unix_ms,watts\n1,2\n1,2\n", "line 3: the time is not after"),
            ("unix_ms,watts\n1,2\nx,2\n", "line 3: \"x\" is not a valid time"),
            ("unix_ms,watts\n-9223372036854775808,2\n9223372036854775807,2\n", "is not a valid time"),
            ("unix_seconds,watts\n1,2\n1e300,2\n", "is not a valid time"),
            ("unix_ms,watts\n1,2\n2,1e300\n", "is not a valid power"),
            ("unix_ms,watts\n1,2\n2,-2\n", "line 3: \"-2\" is not a valid power"),
            ("unix_ms,watts\n1,2\n2,inf\n", "is not a valid power"),
            ("unix_ms,joules\n1,5\n2,4\n", "line 3: the counter decreased"),
            ("unix_ms,watts,scope\n1,2,drive\n2,2,drive\n", "line 2: the scope is drive"),
            ("unix_ms,watts,scope\n1,2,house\n2,2,drive\n", "line 2: \"house\" is not a valid scope"),
            ("unix_ms,watts\n1,2\n2\n", "record"),
        ] {
            let found = log(text).err().unwrap().to_string();
            assert!(found.contains(said), "{text:?}: {found}");
        }
        let unknown = PowerLog::from_csv("p.csv".as_ref(), &b"unix_ms,watts\n1,2\n2,2\n"[..], None);
        assert!(unknown.unwrap_err().advice().unwrap().starts_with("specify a scope"));
    }

    #[test]
    fn a_power_log_round_trips_and_never_overwrites_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("power.csv");
        let mut recorder =
            PowerRecorder::create(&path, MeterScope::Processor, 1000, MeterReading::Joules(0.0)).unwrap();
        (1..=20)
            .for_each(|at| recorder.add(1000 + at * 500, MeterReading::Joules(at as f64 * 10.0)).unwrap());
        let log = PowerLog::read(&path, None).unwrap();
        assert_eq!(
            (log.scope, log.total_energy().unwrap()),
            (MeterScope::Processor, EnergyUse { joules: 200.0, seconds: 10.0, counted: true })
        );
        let plug = directory.path().join("plug.csv");
        let both = |at: f64| MeterReading::WattsAndJoules(40.0, at * 40.0);
        let mut recorder = PowerRecorder::create(&plug, MeterScope::Drive, 0, both(0.0)).unwrap();
        (1..=200).for_each(|at| recorder.add(at * 1000, both(at as f64)).unwrap());
        let used = PowerLog::read(&plug, None).unwrap().total_energy().unwrap();
        assert_eq!(used, EnergyUse { joules: 8000.0, seconds: 200.0, counted: true });
        recorder.add(201_000, MeterReading::Watts(40.0)).unwrap();
        assert!(!PowerLog::read(&plug, None).unwrap().total_energy().unwrap().counted);
        assert!(PowerRecorder::create(&path, MeterScope::Server, 0, MeterReading::Watts(1.0)).is_err());
    }
}
