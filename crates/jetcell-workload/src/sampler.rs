//! Samples: what happened in each interval, written to `samples.csv` while the run goes on.
//!
//! One line per interval and instance; rates are per second of the interval, latencies are means weighted by
//! operations. Each interval is flushed, so that a killed run leaves all but its last.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::engine::{CacheState, InstanceIo};
use crate::measure::IoRates;

/// I/O of one instance in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InstanceSample {
    /// Database reads.
    pub database_read: IoRates,
    /// Database writes.
    pub database_write: IoRates,
    /// Log reads.
    pub log_read: IoRates,
    /// Log writes.
    pub log_write: IoRates,
}

/// One interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// End of the interval, in seconds since the measurement began.
    pub at_seconds: f64,
    /// Its length.
    pub seconds: f64,
    /// Operations of the load per second.
    pub operations_per_second: f64,
    /// Cache in use at its end.
    pub cache_used_bytes: u64,
    /// Waits for a free page in it.
    pub page_fault_stalls: u64,
    /// I/O per instance.
    pub instances: Vec<InstanceSample>,
}

impl Sample {
    /// The interval between two states.
    pub fn between(before: &Snapshot, after: &Snapshot, began: f64) -> Sample {
        let seconds = after.at - before.at;
        let instance = |(earlier, later): (&InstanceIo, &InstanceIo)| InstanceSample {
            database_read: later.database_read.since(&earlier.database_read).rates(seconds),
            database_write: later.database_write.since(&earlier.database_write).rates(seconds),
            log_read: later.log_read.since(&earlier.log_read).rates(seconds),
            log_write: later.log_write.since(&earlier.log_write).rates(seconds),
        };
        Sample {
            at_seconds: after.at - began,
            seconds,
            operations_per_second: (after.operations - before.operations) as f64 / seconds,
            cache_used_bytes: after.cache.used_bytes,
            page_fault_stalls: after.cache.stalls.saturating_sub(before.cache.stalls),
            instances: before.io.iter().zip(&after.io).map(instance).collect(),
        }
    }

    /// Transactional I/O of all instances per second.
    pub fn iops(&self) -> f64 {
        self.instances.iter().map(|i| i.database_read.per_second + i.database_write.per_second).sum()
    }
}

/// Everything that counts, at one instant.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Seconds since the run began.
    pub at: f64,
    /// I/O per instance.
    pub io: Vec<InstanceIo>,
    /// Cache.
    pub cache: CacheState,
    /// Operations of the load.
    pub operations: u64,
}

const HEADER: &str = "at_seconds,seconds,instance,operations_per_second,cache_used_bytes,page_fault_stalls,\
    database_reads_per_second,database_read_ms,database_read_bytes,\
    database_writes_per_second,database_write_ms,database_write_bytes,\
    log_reads_per_second,log_read_ms,log_read_bytes,log_writes_per_second,log_write_ms,log_write_bytes";

/// Writes `samples.csv`.
pub struct SampleFile(BufWriter<File>);

impl SampleFile {
    /// Starts the file.
    pub fn create(path: &Path) -> io::Result<SampleFile> {
        let mut file = BufWriter::new(File::create(path)?);
        writeln!(file, "{HEADER}")?;
        file.flush()?;
        Ok(SampleFile(file))
    }

    /// Forgets what was written: another window is measured instead.
    pub fn restart(&mut self) -> io::Result<()> {
        self.0.flush()?;
        self.0.get_mut().set_len(0)?;
        self.0.seek(io::SeekFrom::Start(0))?;
        writeln!(self.0, "{HEADER}")?;
        self.0.flush()
    }

    /// Adds an interval.
    pub fn add(&mut self, sample: &Sample) -> io::Result<()> {
        for (number, instance) in sample.instances.iter().enumerate() {
            write!(
                self.0,
                "{:.3},{:.3},{},{:.3},{},{}",
                sample.at_seconds,
                sample.seconds,
                number + 1,
                sample.operations_per_second,
                sample.cache_used_bytes,
                sample.page_fault_stalls
            )?;
            for rates in
                [instance.database_read, instance.database_write, instance.log_read, instance.log_write]
            {
                write!(
                    self.0,
                    ",{:.3},{:.3},{:.0}",
                    rates.per_second, rates.average_ms, rates.average_bytes
                )?;
            }
            writeln!(self.0)?;
        }
        self.0.flush()
    }
}

/// Longest `samples.csv` that is read: a day of 3,000 instances at one sample per second would not reach it.
const LONGEST_FILE: u64 = 16 << 30;
/// More instances than any run has.
const MOST_INSTANCES: usize = 100_000;

/// Reads `samples.csv`. Columns are found by name, unknown ones are skipped; a last line that a kill cut short is
/// left out, anything else that is wrong is an error with its line.
pub fn read_samples(path: &Path) -> io::Result<Vec<Sample>> {
    let wrong = |number: usize, what: &str| {
        io::Error::new(io::ErrorKind::InvalidData, format!("line {number}: {what}"))
    };
    let mut lines = BufReader::new(File::open(path)?.take(LONGEST_FILE));
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let names: Vec<String> = line.trim_end().split(',').map(str::to_string).collect();
    let column = |name: &str| names.iter().position(|known| known == name);
    if let Some(missing) = HEADER.split(',').find(|name| column(name).is_none()) {
        return Err(wrong(1, &format!("column {missing} is missing")));
    }
    let columns: Vec<usize> = HEADER.split(',').filter_map(column).collect();
    let mut samples: Vec<Sample> = Vec::new();
    for number in 2.. {
        line.clear();
        if lines.read_line(&mut line)? == 0 || !line.ends_with('\n') {
            break;
        }
        let fields: Vec<&str> = line.trim_end().split(',').collect();
        let parsed: Option<Vec<f64>> = columns
            .iter()
            .map(|at| fields.get(*at)?.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0))
            .collect();
        let Some(values) = parsed.filter(|_| fields.len() == names.len()) else {
            return Err(wrong(number, "not the numbers that the header announces"));
        };
        let [at_seconds, seconds, instance, operations, cache, stalls, rates @ ..] = values.as_slice() else {
            return Err(wrong(number, "too few columns"));
        };
        let io = |kind: usize| {
            let value = |column: usize| rates.get(kind * 3 + column).copied().unwrap_or(0.0);
            IoRates { per_second: value(0), average_ms: value(1), average_bytes: value(2) }
        };
        let instance_io =
            InstanceSample { database_read: io(0), database_write: io(1), log_read: io(2), log_write: io(3) };
        if *instance == 1.0 {
            samples.push(Sample {
                at_seconds: *at_seconds,
                seconds: *seconds,
                operations_per_second: *operations,
                cache_used_bytes: *cache as u64,
                page_fault_stalls: *stalls as u64,
                instances: Vec::new(),
            });
        }
        match samples.last_mut() {
            Some(sample)
                if *instance == (sample.instances.len() + 1) as f64
                    && sample.instances.len() < MOST_INSTANCES =>
            {
                sample.instances.push(instance_io);
            }
            _ => return Err(wrong(number, "instances are not in order")),
        }
    }
    // A kill between the lines of one interval leaves some of its instances.
    let complete = samples.first().map_or(0, |sample| sample.instances.len());
    if samples.last().is_some_and(|last| last.instances.len() < complete) {
        samples.pop();
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_differences_and_reach_the_file_at_once() {
        let mut before = Snapshot { at: 5.0, io: vec![InstanceIo::default()], ..Snapshot::default() };
        before.io[0].database_read.record(32768, 99_000);
        let mut after = before.clone();
        after.at = 7.0;
        after.operations = 30;
        after.io[0].database_read.record(32768, 4_000);
        after.io[0].database_write.record(65536, 2_000);
        after.cache.stalls = 3;
        let sample = Sample::between(&before, &after, 5.0);
        assert_eq!((sample.at_seconds, sample.operations_per_second, sample.iops()), (2.0, 15.0, 1.0));
        assert_eq!((sample.instances[0].database_read.average_ms, sample.page_fault_stalls), (4.0, 3));

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("samples.csv");
        let mut file = SampleFile::create(&path).unwrap();
        file.add(&sample).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
        assert!(lines[1].starts_with("2.000,2.000,1,15.000,0,3,0.500,4.000,32768,0.500,2.000,65536,"));
    }

    #[test]
    fn samples_are_read_back_and_a_cut_line_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("samples.csv");
        let rates = IoRates { per_second: 2.5, average_bytes: 4096.0, average_ms: 1.25 };
        let instance = InstanceSample { database_read: rates, log_write: rates, ..InstanceSample::default() };
        let sample = |at: f64| Sample {
            at_seconds: at,
            seconds: 1.0,
            operations_per_second: 7.5,
            cache_used_bytes: 1 << 20,
            page_fault_stalls: 2,
            instances: vec![instance; 2],
        };
        let mut file = SampleFile::create(&path).unwrap();
        file.add(&sample(1.0)).unwrap();
        file.restart().unwrap();
        assert_eq!(read_samples(&path).unwrap(), []);
        file.add(&sample(1.0)).unwrap();
        file.add(&sample(2.0)).unwrap();
        assert_eq!(read_samples(&path).unwrap(), [sample(1.0), sample(2.0)]);

        let whole = std::fs::read(&path).unwrap();
        for cut in [whole.len() - 1, whole.len() - 60] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(read_samples(&path).unwrap(), [sample(1.0)], "cut at {cut}");
        }
        for garbage in [
            "",
            "a,b\n1,2\n",
            "\u{0}\u{1}",
            &format!("{HEADER}\nx\n"),
            &format!("{HEADER}\n{}\n", "1,".repeat(17) + "1e999"),
        ] {
            std::fs::write(&path, garbage).unwrap();
            assert!(read_samples(&path).is_err(), "{garbage:?}");
        }
    }
}
