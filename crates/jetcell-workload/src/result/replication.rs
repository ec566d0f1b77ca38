//! What a replication test found: the I/O of passive copies beside that of their active side.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::measurement::InstanceIo;

/// The copies of all databases, as a result stores them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Replication {
    /// All copies.
    pub copies: Vec<ReplicatedCopy>,
    /// Cache of each copy in bytes: as much as the active side has for each database.
    pub cache_bytes: u64,
    /// How much log redo of a copy may lack, in bytes.
    pub checkpoint_depth: u64,
    /// Bytes of a log.
    pub log_bytes: u64,
    /// The copies follow, with nothing to catch up with. `None`: the test ended before.
    pub steady: Option<ReplicationPart>,
    /// The copies were held for a time, and catch up while the load goes on. `None`: the test ended before.
    pub catch_up: Option<ReplicationPart>,
    /// Whether the copies have caught up, and have replayed everything at the end.
    pub complete: bool,
    /// Both sides over time.
    pub samples: Vec<ReplicationSample>,
}

/// One copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplicatedCopy {
    /// Name of the database that it is a copy of, without its extension.
    pub instance: String,
    /// Its directory.
    pub directory: PathBuf,
    /// Whether the replaying engine and its cache are kept between two batches of logs (Exchange 2007 SP1), or thrown away (RTM).
    pub keep_instance: bool,
    /// Whether it also got what was durable of the log that was being written (block mode).
    #[serde(default)]
    pub stream_log: bool,
    /// Logs that it has replayed.
    pub logs: u64,
    /// Most generations that it was behind while it was not held.
    pub most_behind: u32,
    /// Longest lag while it was not held, in seconds.
    pub longest_lag_seconds: u64,
    /// Why it did not follow any more; `None`: it did.
    pub failure: Option<String>,
}

/// I/O of one side: all databases together, or one copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideIo {
    /// Database reads.
    pub database_reads: u64,
    /// Database writes.
    pub database_writes: u64,
    /// Bytes of both.
    pub database_bytes: u64,
    /// Log reads; of a copy, those of the active side's logs, too.
    pub log_reads: u64,
    /// Log writes.
    pub log_writes: u64,
    /// Bytes of both.
    pub log_bytes: u64,
}

/// A part of the test: both sides in the same time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplicationPart {
    /// Seconds.
    pub seconds: f64,
    /// Generations that all databases together closed.
    pub generations: u64,
    /// Logs that each copy replayed.
    pub logs: Vec<u64>,
    /// The active side.
    pub active: SideIo,
    /// Each copy.
    pub copies: Vec<SideIo>,
    /// The log that each copy lacked.
    #[serde(default)]
    pub missing_log: Vec<MissingLog>,
}

/// Log that was durable on the active side and not on the copy, in bytes: what a failover would have lost. It is looked at ten times a
/// second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingLog {
    /// On average.
    pub mean_bytes: u64,
    /// At most.
    pub most_bytes: u64,
    /// Bytes of logs that arrived while they were being written.
    pub streamed_bytes: u64,
}

/// Both sides at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplicationSample {
    /// Seconds since the measurement began; negative while the caches were warmed.
    pub at_seconds: f64,
    /// I/O of the active side so far.
    pub active: SideIo,
    /// Generations that all databases together have closed so far.
    pub generations: u64,
    /// Each copy.
    pub copies: Vec<CopySample>,
}

/// A copy at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CopySample {
    /// Its I/O so far.
    pub io: SideIo,
    /// Closed generations that it does not have.
    pub copy_queue: u32,
    /// Generations that it has and has not replayed.
    pub replay_queue: u32,
    /// Age of what it has replayed, in seconds.
    pub lag_seconds: Option<u64>,
    /// Logs that it has replayed so far.
    pub logs: u64,
    /// The log that it lacked since the sample before; bytes that arrived of open logs so far.
    #[serde(default)]
    pub missing_log: MissingLog,
}

/// A figure of both sides.
pub type SideFigure = fn(&SideIo) -> u64;

impl SideIo {
    /// The transfers of an instance, or of a copy.
    pub fn of(io: &InstanceIo) -> SideIo {
        SideIo {
            database_reads: io.database_read.operations,
            database_writes: io.database_write.operations,
            database_bytes: io.database_read.bytes + io.database_write.bytes,
            log_reads: io.log_read.operations,
            log_writes: io.log_write.operations,
            log_bytes: io.log_read.bytes + io.log_write.bytes,
        }
    }

    /// Database reads and writes.
    pub fn transfers(io: &SideIo) -> u64 {
        io.database_reads + io.database_writes
    }

    /// Both sums.
    pub fn plus(self, other: SideIo) -> SideIo {
        SideIo {
            database_reads: self.database_reads + other.database_reads,
            database_writes: self.database_writes + other.database_writes,
            database_bytes: self.database_bytes + other.database_bytes,
            log_reads: self.log_reads + other.log_reads,
            log_writes: self.log_writes + other.log_writes,
            log_bytes: self.log_bytes + other.log_bytes,
        }
    }

    /// What was done since an earlier state.
    pub fn since(self, earlier: SideIo) -> SideIo {
        SideIo {
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
    /// What happened from the first to the last of these samples. `None`: there are none.
    pub fn of(samples: &[ReplicationSample]) -> Option<ReplicationPart> {
        let (first, last) = samples.first().zip(samples.last())?;
        let copies = || last.copies.iter().zip(&first.copies);
        Some(ReplicationPart {
            seconds: last.at_seconds - first.at_seconds,
            generations: last.generations.saturating_sub(first.generations),
            logs: copies().map(|(last, first)| last.logs.saturating_sub(first.logs)).collect(),
            active: last.active.since(first.active),
            copies: copies().map(|(last, first)| last.io.since(first.io)).collect(),
            missing_log: (0..last.copies.len()).map(|copy| MissingLog::over(samples, copy)).collect(),
        })
    }
}

impl MissingLog {
    /// What a copy lacked over the time of these samples. The first one is its begin.
    fn over(samples: &[ReplicationSample], copy: usize) -> MissingLog {
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
        MissingLog {
            mean_bytes: if seconds > 0.0 { (byte_seconds / seconds) as u64 } else { 0 },
            most_bytes: most,
            streamed_bytes: samples.last().and_then(streamed).unwrap_or(0).saturating_sub(first),
        }
    }

    /// Of several copies: the means and sums of one, the highest maximum of all.
    fn of_all(all: &[MissingLog]) -> Option<MissingLog> {
        let count = Some(all.len() as u64).filter(|count| *count > 0)?;
        let sum = |figure: fn(&MissingLog) -> u64| all.iter().map(figure).sum::<u64>();
        Some(MissingLog {
            mean_bytes: sum(|one| one.mean_bytes) / count,
            most_bytes: all.iter().map(|one| one.most_bytes).max().unwrap_or(0),
            streamed_bytes: sum(|one| one.streamed_bytes) / count,
        })
    }
}

impl Replication {
    /// Whether there are copies of this kind.
    pub fn has(&self, keep_instance: bool) -> bool {
        self.copies.iter().any(|copy| copy.keep_instance == keep_instance)
    }

    /// A figure of the copies of one kind over that of the active side: of one copy of every database, on average. `None`
    /// without such copies, or if the active side has none of it.
    pub fn ratio(&self, part: &ReplicationPart, keep_instance: bool, figure: SideFigure) -> Option<f64> {
        let active = Some(figure(&part.active)).filter(|active| *active > 0)? as f64;
        Some(self.of_one(part, keep_instance, figure)? / active)
    }

    /// A figure of one copy of every database, on average over the copies of a kind.
    pub fn of_one(&self, part: &ReplicationPart, keep_instance: bool, figure: SideFigure) -> Option<f64> {
        let kind: Vec<_> = self.copies.iter().map(|copy| copy.keep_instance == keep_instance).collect();
        let of_kind = part.copies.iter().zip(&kind).filter(|(_, of_kind)| **of_kind);
        let count = kind.iter().filter(|of_kind| **of_kind).count();
        let sum: u64 = of_kind.map(|(io, _)| figure(io)).sum();
        (count > 0).then(|| sum as f64 * self.databases() as f64 / count as f64)
    }

    /// The log that the copies of a kind lacked: of one copy, on average; the most of any.
    pub fn missing_log(&self, part: &ReplicationPart, keep_instance: bool) -> Option<MissingLog> {
        let of_kind = part.missing_log.iter().zip(&self.copies);
        let of_kind = of_kind.filter(|(_, copy)| copy.keep_instance == keep_instance);
        MissingLog::of_all(&of_kind.map(|(missing, _)| *missing).collect::<Vec<_>>())
    }

    /// The share of the log of a part that arrived on one copy of a kind while it was being written, on average.
    pub fn streamed_share(&self, part: &ReplicationPart, keep_instance: bool) -> Option<f64> {
        let written = part.generations * self.log_bytes / self.databases() as u64;
        let streamed = self.missing_log(part, keep_instance)?.streamed_bytes;
        (written > 0).then(|| (streamed as f64 / written as f64).min(1.0))
    }

    /// Whether copies got the log as it was written.
    pub fn is_in_block_mode(&self) -> bool {
        self.copies.iter().any(|copy| copy.stream_log)
    }

    fn databases(&self) -> usize {
        let mut names: Vec<&str> = self.copies.iter().map(|copy| copy.instance.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.len().max(1)
    }

    /// Whether the steady part wrote so much log that the copies had to write their pages: more than redo may lack.
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
    fn a_ratio_is_that_of_one_copy_of_every_database() {
        let copy = |instance: &str, keep_instance| ReplicatedCopy {
            instance: instance.into(),
            keep_instance,
            ..ReplicatedCopy::default()
        };
        let io = |reads| SideIo { database_reads: reads, ..SideIo::default() };
        // Two databases; two kept copies and one that is thrown away of each.
        let copies = ["a", "b"].into_iter().flat_map(|name| [true, true, false].map(|kept| copy(name, kept)));
        let replication = Replication { copies: copies.collect(), ..Replication::default() };
        let part = ReplicationPart {
            active: io(100),
            copies: [20, 40, 200, 10, 30, 300].map(io).into(),
            ..ReplicationPart::default()
        };
        let ratio = |kept| replication.ratio(&part, kept, |io| io.database_reads);
        // (20 + 40 + 10 + 30) / 2 and 200 + 300, over 100.
        assert_eq!((ratio(true), ratio(false)), (Some(0.5), Some(5.0)));
        assert_eq!(replication.ratio(&part, true, |io| io.log_reads), None);
        assert!(replication.has(false) && !Replication::default().has(true));
    }

    #[test]
    fn missing_log_is_weighted_by_time_and_is_that_of_one_copy() {
        let sample = |at_seconds: f64, missing: [(u64, u64, u64); 2]| ReplicationSample {
            at_seconds,
            copies: missing
                .map(|(mean_bytes, most_bytes, streamed_bytes)| CopySample {
                    missing_log: MissingLog { mean_bytes, most_bytes, streamed_bytes },
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
        let part = ReplicationPart::of(&samples).unwrap();
        let first = MissingLog { mean_bytes: 175, most_bytes: 300, streamed_bytes: 40 };
        assert_eq!(part.missing_log, [first, MissingLog { mean_bytes: 7, most_bytes: 8, streamed_bytes: 0 }]);
        let copies =
            [true, true].map(|keep_instance| ReplicatedCopy { keep_instance, ..ReplicatedCopy::default() });
        let replication = Replication { copies: copies.into(), ..Replication::default() };
        let both = MissingLog { mean_bytes: 91, most_bytes: 300, streamed_bytes: 20 };
        assert_eq!(replication.missing_log(&part, true), Some(both));
        assert_eq!(replication.missing_log(&part, false), None);
        assert_eq!(ReplicationPart::of(&[]), None);
    }
}
