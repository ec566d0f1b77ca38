//! Samples: what happened in each interval, written to `samples.csv` while the run goes on.
//!
//! One line per interval and instance; rates are per second of the interval, latencies are means weighted by
//! operations. Each interval is flushed, so that a killed run leaves all but its last.

use std::fs::File;
use std::io::{self, BufWriter, Write};
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
}
