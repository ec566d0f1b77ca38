//! Results of a replication test: I/O of the passive copies compared with I/O of the active side.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::measurement::InstanceIo;

/// The stored result of replicating all databases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplicationTestResult {
    /// Results for all copies.
    pub copies: Vec<ReplicatedCopy>,
    /// Cache size of each copy in bytes. It equals the active side's cache size per database.
    pub cache_bytes: u64,
    /// Maximum amount of log, in bytes, that redo on a copy may have to replay.
    pub checkpoint_depth: u64,
    /// Size of a log in bytes.
    pub log_bytes: u64,
    /// Part of the test in which the copies replicate without a backlog. `None` if the test ended before that.
    pub steady: Option<ReplicationPart>,
    /// Part of the test in which the previously suspended copies catch up while the load continues. `None` if the
    /// test ended before that.
    pub catch_up: Option<ReplicationPart>,
    /// Whether the copies caught up and had replayed all logs by the end.
    pub complete: bool,
    /// I/O of both sides over time.
    pub samples: Vec<ReplicationSample>,
}

/// Replication result for one passive copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplicatedCopy {
    /// Name of the source database, without its extension.
    pub instance: String,
    /// Directory of the copy.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub directory: PathBuf,
    /// Whether the replaying engine and its cache stay open between batches of logs (Exchange 2007 SP1), or are
    /// discarded (RTM).
    pub keep_instance: bool,
    /// Whether the copy also received the durable part of the current log as it was written (block mode).
    #[serde(default)]
    pub stream_log: bool,
    /// Number of logs that the copy has replayed.
    pub logs: u64,
    /// Maximum number of generations that the copy lagged while it was not suspended.
    pub most_behind: u32,
    /// Maximum lag in seconds while the copy was not suspended.
    pub longest_lag_seconds: u64,
    /// Error that stopped replication, or `None` if the copy did not fail.
    pub failure: Option<String>,
}

/// I/O counters for one side: all active databases together, or one copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicationSideIo {
    /// Number of database reads.
    pub database_reads: u64,
    /// Number of database writes.
    pub database_writes: u64,
    /// Bytes of database reads and writes.
    pub database_bytes: u64,
    /// Number of log reads. For a copy, this includes its reads of the active side's logs.
    pub log_reads: u64,
    /// Number of log writes.
    pub log_writes: u64,
    /// Bytes of log reads and writes.
    pub log_bytes: u64,
}

/// I/O on both sides during one part of a replication test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplicationPart {
    /// Duration in seconds.
    pub seconds: f64,
    /// Total number of generations that all databases closed.
    pub generations: u64,
    /// Number of logs that each copy replayed.
    pub logs: Vec<u64>,
    /// I/O of the active side.
    pub active: ReplicationSideIo,
    /// I/O of each copy.
    pub copies: Vec<ReplicationSideIo>,
    /// Amount of log that each copy had not received.
    #[serde(default)]
    pub missing_log: Vec<MissingLogAmount>,
}

/// Amount of log, in bytes, that was durable on the active side but not on the copy. A failover would have lost it.
/// It is measured ten times per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingLogAmount {
    /// Mean number of bytes.
    pub mean_bytes: u64,
    /// Maximum number of bytes.
    pub most_bytes: u64,
    /// Bytes of logs that were received while they were being written.
    pub streamed_bytes: u64,
}

/// State of both sides of a replication test at one point in time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplicationSample {
    /// Seconds since the start of the measurement. Negative during the warm-up.
    pub at_seconds: f64,
    /// I/O of the active side so far.
    pub active: ReplicationSideIo,
    /// Total number of generations that all databases have closed so far.
    pub generations: u64,
    /// State of each copy.
    pub copies: Vec<CopySample>,
}

/// A passive copy's state at one point in time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CopySample {
    /// I/O of the copy so far.
    pub io: ReplicationSideIo,
    /// Number of closed generations that the copy lacks.
    pub copy_queue: u32,
    /// Number of generations that the copy has received but not replayed.
    pub replay_queue: u32,
    /// Age in seconds of the newest state that the copy contains completely.
    pub lag_seconds: Option<u64>,
    /// Number of logs that the copy has replayed so far.
    pub logs: u64,
    /// Amount of log that the copy had not received, observed since the previous sample. The streamed bytes are the
    /// total so far.
    #[serde(default)]
    pub missing_log: MissingLogAmount,
}

/// A function that selects one value from a side's I/O counters.
pub type SideFigure = fn(&ReplicationSideIo) -> u64;

impl ReplicationSideIo {
    /// Extracts the transfers of an instance or copy.
    pub fn from_io(io: &InstanceIo) -> ReplicationSideIo {
        ReplicationSideIo {
            database_reads: io.database_read.operations,
            database_writes: io.database_write.operations,
            database_bytes: io.database_read.bytes + io.database_write.bytes,
            log_reads: io.log_read.operations,
            log_writes: io.log_write.operations,
            log_bytes: io.log_read.bytes + io.log_write.bytes,
        }
    }

    /// Returns the number of database reads and writes.
    pub fn transfers(io: &ReplicationSideIo) -> u64 {
        io.database_reads + io.database_writes
    }

    /// Returns the sum of two sides.
    #[must_use]
    pub fn plus(self, other: ReplicationSideIo) -> ReplicationSideIo {
        ReplicationSideIo {
            database_reads: self.database_reads + other.database_reads,
            database_writes: self.database_writes + other.database_writes,
            database_bytes: self.database_bytes + other.database_bytes,
            log_reads: self.log_reads + other.log_reads,
            log_writes: self.log_writes + other.log_writes,
            log_bytes: self.log_bytes + other.log_bytes,
        }
    }

    /// Returns the I/O since an earlier state.
    #[must_use]
    pub fn since(self, earlier: ReplicationSideIo) -> ReplicationSideIo {
        ReplicationSideIo {
            database_reads: self.database_reads.saturating_sub(earlier.database_reads),
            database_writes: self.database_writes.saturating_sub(earlier.database_writes),
            database_bytes: self.database_bytes.saturating_sub(earlier.database_bytes),
            log_reads: self.log_reads.saturating_sub(earlier.log_reads),
            log_writes: self.log_writes.saturating_sub(earlier.log_writes),
            log_bytes: self.log_bytes.saturating_sub(earlier.log_bytes),
        }
    }
}

impl ReplicationPart {
    /// Computes the part of the test spanned by these samples. Returns `None` if there are no samples.
    pub fn from_samples(samples: &[ReplicationSample]) -> Option<ReplicationPart> {
        let (first, last) = samples.first().zip(samples.last())?;
        let copies = || last.copies.iter().zip(&first.copies);
        Some(ReplicationPart {
            seconds: last.at_seconds - first.at_seconds,
            generations: last.generations.saturating_sub(first.generations),
            logs: copies().map(|(last, first)| last.logs.saturating_sub(first.logs)).collect(),
            active: last.active.since(first.active),
            copies: copies().map(|(last, first)| last.io.since(first.io)).collect(),
            missing_log: (0..last.copies.len())
                .map(|copy| MissingLogAmount::from_samples(samples, copy))
                .collect(),
        })
    }
}

impl MissingLogAmount {
    /// Computes the amount of log that a copy had not received during these samples. The first sample only marks the
    /// start.
    fn from_samples(samples: &[ReplicationSample], copy: usize) -> MissingLogAmount {
        let (mut byte_seconds, mut most) = (0.0, 0);
        for pair in samples.windows(2) {
            let Some(missing) = pair[1].copies.get(copy).map(|copy| copy.missing_log) else { continue };
            byte_seconds += missing.mean_bytes as f64 * (pair[1].at_seconds - pair[0].at_seconds);
            most = most.max(missing.most_bytes);
        }
        let seconds = samples
            .last()
            .zip(samples.first())
            .map_or(0.0, |(last, first)| last.at_seconds - first.at_seconds);
        let streamed =
            |sample: &ReplicationSample| sample.copies.get(copy).map(|copy| copy.missing_log.streamed_bytes);
        let first = samples.first().and_then(streamed).unwrap_or(0);
        MissingLogAmount {
            mean_bytes: if seconds > 0.0 { (byte_seconds / seconds) as u64 } else { 0 },
            most_bytes: most,
            streamed_bytes: samples.last().and_then(streamed).unwrap_or(0).saturating_sub(first),
        }
    }

    /// Combines several copies: averages the means and the streamed bytes, and takes the maximum of the maxima.
    fn combine(all: &[MissingLogAmount]) -> Option<MissingLogAmount> {
        let count = Some(all.len() as u64).filter(|count| *count > 0)?;
        let sum = |figure: fn(&MissingLogAmount) -> u64| all.iter().map(figure).sum::<u64>();
        Some(MissingLogAmount {
            mean_bytes: sum(|one| one.mean_bytes) / count,
            most_bytes: all.iter().map(|one| one.most_bytes).max().unwrap_or(0),
            streamed_bytes: sum(|one| one.streamed_bytes) / count,
        })
    }
}

impl ReplicationTestResult {
    /// Returns true if there are copies with this setting of [`ReplicatedCopy::keep_instance`].
    pub fn has_copies(&self, keep_instance: bool) -> bool {
        self.copies.iter().any(|copy| copy.keep_instance == keep_instance)
    }

    /// Returns the ratio of a figure for the copies selected by `keep_instance` to the same figure for the active side.
    /// The copies' figure is computed by [`ReplicationTestResult::per_copy`]. Returns `None` if there are no such
    /// copies or if the active side's figure is zero.
    pub fn ratio(&self, part: &ReplicationPart, keep_instance: bool, figure: SideFigure) -> Option<f64> {
        let active = Some(figure(&part.active)).filter(|active| *active > 0)? as f64;
        Some(self.per_copy(part, keep_instance, figure)? / active)
    }

    /// Returns a figure for one copy of every database, averaged over the copies selected by `keep_instance`.
    pub fn per_copy(&self, part: &ReplicationPart, keep_instance: bool, figure: SideFigure) -> Option<f64> {
        let kind: Vec<_> = self.copies.iter().map(|copy| copy.keep_instance == keep_instance).collect();
        let of_kind = part.copies.iter().zip(&kind).filter(|(_, of_kind)| **of_kind);
        let count = kind.iter().filter(|of_kind| **of_kind).count();
        let sum: u64 = of_kind.map(|(io, _)| figure(io)).sum();
        (count > 0).then(|| sum as f64 * self.databases() as f64 / count as f64)
    }

    /// Returns the amount of log that the copies selected by `keep_instance` had not received: the average and the
    /// maximum over these copies.
    pub fn missing_log(&self, part: &ReplicationPart, keep_instance: bool) -> Option<MissingLogAmount> {
        let of_kind = part.missing_log.iter().zip(&self.copies);
        let of_kind = of_kind.filter(|(_, copy)| copy.keep_instance == keep_instance);
        MissingLogAmount::combine(&of_kind.map(|(missing, _)| *missing).collect::<Vec<_>>())
    }

    /// Returns the share of a part's log that copies received while it was being written. The share is averaged over
    /// the copies selected by `keep_instance`.
    pub fn streamed_share(&self, part: &ReplicationPart, keep_instance: bool) -> Option<f64> {
        let written = part.generations * self.log_bytes / self.databases() as u64;
        let streamed = self.missing_log(part, keep_instance)?.streamed_bytes;
        (written > 0).then(|| (streamed as f64 / written as f64).min(1.0))
    }

    /// Returns true if copies received the log while it was being written.
    pub fn is_in_block_mode(&self) -> bool {
        self.copies.iter().any(|copy| copy.stream_log)
    }

    fn databases(&self) -> usize {
        let mut names: Vec<&str> = self.copies.iter().map(|copy| copy.instance.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.len().max(1)
    }

    /// Returns true if the steady part wrote more log than redo may have to replay. This forces the copies to write
    /// their pages.
    pub fn has_written_pages(&self) -> bool {
        let bytes = |part: &ReplicationPart| part.generations * self.log_bytes;
        let each = self.checkpoint_depth.saturating_mul(self.databases() as u64);
        self.steady.as_ref().is_some_and(|part| bytes(part) > each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_covers_one_copy_per_database() {
        let copy = |instance: &str, keep_instance| ReplicatedCopy {
            instance: instance.into(),
            keep_instance,
            ..ReplicatedCopy::default()
        };
        let io = |reads| ReplicationSideIo { database_reads: reads, ..ReplicationSideIo::default() };
        // There are two databases. Each has two copies with a persistent instance and one copy whose instance is
        // discarded after each batch.
        let copies = ["a", "b"].into_iter().flat_map(|name| [true, true, false].map(|kept| copy(name, kept)));
        let replication =
            ReplicationTestResult { copies: copies.collect(), ..ReplicationTestResult::default() };
        let part = ReplicationPart {
            active: io(100),
            copies: [20, 40, 200, 10, 30, 300].map(io).into(),
            ..ReplicationPart::default()
        };
        let ratio = |kept| replication.ratio(&part, kept, |io| io.database_reads);
        // The expected ratios are (20 + 40 + 10 + 30) / 2 and 200 + 300, divided by 100.
        assert_eq!((ratio(true), ratio(false)), (Some(0.5), Some(5.0)));
        assert_eq!(replication.ratio(&part, true, |io| io.log_reads), None);
        assert!(replication.has_copies(false) && !ReplicationTestResult::default().has_copies(true));
    }

    #[test]
    fn missing_log_is_time_weighted_per_copy() {
        let sample = |at_seconds: f64, missing: [(u64, u64, u64); 2]| ReplicationSample {
            at_seconds,
            copies: missing
                .map(|(mean_bytes, most_bytes, streamed_bytes)| CopySample {
                    missing_log: MissingLogAmount { mean_bytes, most_bytes, streamed_bytes },
                    ..CopySample::default()
                })
                .into(),
            ..ReplicationSample::default()
        };
        let samples = [
            sample(1.0, [(900, 9000, 50), (0, 0, 0)]),
            sample(2.0, [(100, 300, 60), (7, 8, 0)]),
            sample(5.0, [(200, 250, 90), (7, 8, 0)]),
        ];
        let part = ReplicationPart::from_samples(&samples).unwrap();
        let first = MissingLogAmount { mean_bytes: 175, most_bytes: 300, streamed_bytes: 40 };
        assert_eq!(
            part.missing_log,
            [first, MissingLogAmount { mean_bytes: 7, most_bytes: 8, streamed_bytes: 0 }]
        );
        let copies =
            [true, true].map(|keep_instance| ReplicatedCopy { keep_instance, ..ReplicatedCopy::default() });
        let replication = ReplicationTestResult { copies: copies.into(), ..ReplicationTestResult::default() };
        let both = MissingLogAmount { mean_bytes: 91, most_bytes: 300, streamed_bytes: 20 };
        assert_eq!(replication.missing_log(&part, true), Some(both));
        assert_eq!(replication.missing_log(&part, false), None);
        assert_eq!(ReplicationPart::from_samples(&[]), None);
    }
}
