//! Log drives: one group, on which each log is written cyclically from beginning to end.

use std::collections::VecDeque;

use crate::config::{BLOCK, CHUNK, LogDriveConfig, SimulatedLevel};
use crate::drive::DriveAccess;
use crate::in_place::{ConcurrentAccesses, DriveGroups};

/// Maximum number of consecutive blocks that a consistency point writes to a drive at a time.
const MAX_BLOCKS_PER_WRITE: u64 = 64;

/// The simulated logs, and the drives that store them.
pub struct SimulatedLogs {
    options: LogDriveConfig,
    groups: DriveGroups,
    drives: Vec<usize>,
    /// Capacity of a drive in bytes.
    capacity: u64,
    /// Number of bytes written to each log so far. `next` is the log that receives the next write.
    written: Vec<u64>,
    /// Whether a write to each log is in flight. `waiting` is the number of writes that wait for it to complete. They
    /// are then combined into one write, like a group commit.
    is_in_flight: Vec<bool>,
    waiting: Vec<u64>,
    next: usize,
    /// Number of log writes that earlier database writes require and that have not been issued yet.
    due: f64,
    /// On a write-anywhere volume, the number of bytes that the next consistency point writes. `stripe` is the stripe
    /// at which it begins to write.
    pending: u64,
    stripe: u64,
}

impl SimulatedLogs {
    /// Creates logs on drives that are numbered from `first`.
    pub fn new(options: LogDriveConfig, level: SimulatedLevel, first: usize, capacity: u64) -> SimulatedLogs {
        let count = if level == SimulatedLevel::Raid10 { options.drives / 2 * 2 } else { options.drives };
        SimulatedLogs {
            options,
            groups: DriveGroups::single_group(level, first, count),
            drives: (first..first + count).collect(),
            capacity,
            written: vec![0; options.logs as usize],
            is_in_flight: vec![false; options.logs as usize],
            waiting: vec![0; options.logs as usize],
            next: 0,
            due: 0.0,
            pending: 0,
            stripe: 0,
        }
    }

    /// Counts another database write, and returns the number of log writes that are due because of it.
    pub fn take_due_writes(&mut self) -> u64 {
        self.due += self.options.writes_per_database_write;
        let whole = self.due.floor();
        self.due -= whole;
        whole as u64
    }

    /// Adds a write to the next log. Returns the log and the number of bytes to write, unless a write to this log is
    /// already in flight.
    pub fn add(&mut self) -> Option<(usize, u64)> {
        let log = self.next;
        self.next = (log + 1) % self.written.len();
        self.waiting[log] += 1;
        if self.is_in_flight[log] { None } else { self.start(log) }
    }

    /// Records that a write to a log has completed. Returns the next write to this log, if there is one.
    pub fn finish_write(&mut self, log: usize) -> Option<(usize, u64)> {
        self.is_in_flight[log] = false;
        self.start(log)
    }

    /// Combines waiting writes into a single write that ends at a chunk boundary at the latest.
    fn start(&mut self, log: usize) -> Option<(usize, u64)> {
        if self.waiting[log] == 0 {
            return None;
        }
        let bytes = self.options.write_bytes;
        let together = ((CHUNK - self.written[log] % CHUNK) / bytes).clamp(1, self.waiting[log]);
        self.waiting[log] -= together;
        self.is_in_flight[log] = true;
        Some((log, together * bytes))
    }

    /// Returns the accesses for an in-place log write.
    pub fn write(&mut self, log: usize, bytes: u64) -> VecDeque<ConcurrentAccesses> {
        let columns = self.groups.data_drives(0) as u64;
        let region = (self.capacity / self.written.len() as u64 / CHUNK * CHUNK).max(CHUNK);
        let offset = self.written[log] % (region * columns);
        self.written[log] += bytes;
        let (chunk, column) = (offset / CHUNK / columns, offset / CHUNK % columns);
        let position = log as u64 * region + chunk * CHUNK + offset % CHUNK;
        let cells = self.groups.row(0, position / CHUNK);
        self.groups.write(&cells, column as usize, position, bytes)
    }

    /// Records a log write that is in the volume's write log and will be written by the next consistency point.
    pub fn record_logged(&mut self, bytes: u64) {
        self.pending += bytes;
    }

    /// Returns writes of whole stripes that contain the data recorded since the previous call.
    pub fn consistency_point(&mut self) -> ConcurrentAccesses {
        let blocks = std::mem::take(&mut self.pending).div_ceil(BLOCK);
        let mut left = blocks.div_ceil(self.groups.data_drives(0) as u64);
        let mut writes = ConcurrentAccesses::new();
        while left > 0 {
            if (self.stripe + MAX_BLOCKS_PER_WRITE) * BLOCK > self.capacity {
                self.stripe = 0;
            }
            let stripes = left.min(MAX_BLOCKS_PER_WRITE);
            let access =
                DriveAccess { position: self.stripe * BLOCK, bytes: stripes * BLOCK, is_write: true };
            writes.extend(self.drives.iter().map(|drive| (*drive, access)));
            (self.stripe, left) = (self.stripe + stripes, left - stripes);
        }
        writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(level: SimulatedLevel) -> SimulatedLogs {
        let options =
            LogDriveConfig { drives: 11, logs: 2, writes_per_database_write: 0.75, write_bytes: 8192 };
        SimulatedLogs::new(options, level, 100, 1 << 30)
    }

    #[test]
    fn log_writes_are_sequential_and_cost_depends_on_the_level() {
        let mut dp = logs(SimulatedLevel::RaidDp);
        assert_eq!((0..8).map(|_| dp.take_due_writes()).sum::<u64>(), 6);
        let places: Vec<(usize, u64)> = (0..6)
            .map(|_| {
                let (log, bytes) = dp.add().unwrap();
                let phases = dp.write(log, bytes);
                assert_eq!(dp.finish_write(log), None);
                assert_eq!(phases.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
                (phases[0][0].0, phases[0][0].1.position)
            })
            .collect();
        let half = 1 << 29;
        assert_eq!(
            places,
            [(100, 0), (100, half), (100, 8192), (100, half + 8192), (100, 16384), (100, half + 16384)]
        );
        let mut pairs = logs(SimulatedLevel::Raid10);
        assert_eq!((pairs.drives.len(), pairs.write(0, 8192).iter().map(Vec::len).sum::<usize>()), (10, 2));
    }

    #[test]
    fn pending_log_writes_are_merged() {
        let mut logs = logs(SimulatedLevel::RaidDp);
        assert_eq!([logs.add(), logs.add()], [Some((0, 8192)), Some((1, 8192))]);
        assert!((0..24).all(|_| logs.add().is_none()));
        logs.write(0, 8192);
        // Twelve writes wait for each log, and seven of them fit before the end of the chunk.
        assert_eq!(logs.finish_write(0), Some((0, 7 * 8192)));
        logs.write(0, 7 * 8192);
        assert_eq!((logs.finish_write(0), logs.finish_write(0)), (Some((0, 5 * 8192)), None));
    }

    #[test]
    fn a_consistency_point_writes_whole_stripes_with_few_commands() {
        let mut logs = logs(SimulatedLevel::RaidDp);
        (0..900).for_each(|_| logs.record_logged(8192));
        // 1,800 blocks on nine data drives are 200 stripes.
        let writes = logs.consistency_point();
        let of_one: Vec<u64> = writes
            .iter()
            .filter(|(drive, _)| *drive == 110)
            .map(|(_, access)| access.bytes / BLOCK)
            .collect();
        assert_eq!((writes.len(), of_one), (44, vec![64, 64, 64, 8]));
        assert!(logs.consistency_point().is_empty());
    }
}
