//! Drives for logs: one group, on which each log is written from its beginning to its end, and again.

use std::collections::VecDeque;

use crate::config::{BLOCK, CHUNK, Level, Log};
use crate::drive::Access;
use crate::in_place::{Groups, Phase};

/// Blocks that follow each other on a drive and are one write of a consistency point, at most.
const TOGETHER: u64 = 64;

/// The logs with their drives.
pub struct Logs {
    options: Log,
    groups: Groups,
    drives: Vec<usize>,
    /// Bytes of a drive.
    capacity: u64,
    /// Bytes that were written to each log, and the log that is written next.
    written: Vec<u64>,
    /// Whether a write of each log is under way, and how many wait for its end. They become one write, as commits of a group do.
    is_under_way: Vec<bool>,
    waiting: Vec<u64>,
    next: usize,
    /// Writes that the databases have brought and no log has got yet.
    owed: f64,
    /// On a volume that is written anywhere: bytes for the next consistency point, and where it goes on.
    pending: u64,
    stripe: u64,
}

impl Logs {
    /// Logs on drives with the numbers from `first` on.
    pub fn new(options: Log, level: Level, first: usize, capacity: u64) -> Logs {
        let count = if level == Level::Raid10 { options.drives / 2 * 2 } else { options.drives };
        Logs {
            options,
            groups: Groups::one(level, first, count),
            drives: (first..first + count).collect(),
            capacity,
            written: vec![0; options.logs as usize],
            is_under_way: vec![false; options.logs as usize],
            waiting: vec![0; options.logs as usize],
            next: 0,
            owed: 0.0,
            pending: 0,
            stripe: 0,
        }
    }

    /// How many writes of logs a write of a database brings.
    pub fn owed(&mut self) -> u64 {
        self.owed += self.options.writes_per_database_write;
        let whole = self.owed.floor();
        self.owed -= whole;
        whole as u64
    }

    /// Adds a write to the next log. Returns the log and the bytes to write, unless a write of it is under way.
    pub fn add(&mut self) -> Option<(usize, u64)> {
        let log = self.next;
        self.next = (log + 1) % self.written.len();
        self.waiting[log] += 1;
        if self.is_under_way[log] { None } else { self.start(log) }
    }

    /// A write of a log has ended. Returns the next one.
    pub fn ended(&mut self, log: usize) -> Option<(usize, u64)> {
        self.is_under_way[log] = false;
        self.start(log)
    }

    /// What waits becomes one write, up to the end of a chunk.
    fn start(&mut self, log: usize) -> Option<(usize, u64)> {
        if self.waiting[log] == 0 {
            return None;
        }
        let bytes = self.options.write_bytes;
        let together = ((CHUNK - self.written[log] % CHUNK) / bytes).clamp(1, self.waiting[log]);
        self.waiting[log] -= together;
        self.is_under_way[log] = true;
        Some((log, together * bytes))
    }

    /// A write of a log in place.
    pub fn write(&mut self, log: usize, bytes: u64) -> VecDeque<Phase> {
        let columns = self.groups.data_drives(0) as u64;
        let region = (self.capacity / self.written.len() as u64 / CHUNK * CHUNK).max(CHUNK);
        let offset = self.written[log] % (region * columns);
        self.written[log] += bytes;
        let (chunk, column) = (offset / CHUNK / columns, offset / CHUNK % columns);
        let position = log as u64 * region + chunk * CHUNK + offset % CHUNK;
        let cells = self.groups.row(0, position / CHUNK);
        self.groups.write(&cells, column as usize, position, bytes)
    }

    /// A write of a log is in the log of the volume, and waits for the consistency point.
    pub fn note(&mut self, bytes: u64) {
        self.pending += bytes;
    }

    /// Whole stripes with what was noted since the last time.
    pub fn consistency_point(&mut self) -> Phase {
        let blocks = std::mem::take(&mut self.pending).div_ceil(BLOCK);
        let mut left = blocks.div_ceil(self.groups.data_drives(0) as u64);
        let mut writes = Phase::new();
        while left > 0 {
            if (self.stripe + TOGETHER) * BLOCK > self.capacity {
                self.stripe = 0;
            }
            let stripes = left.min(TOGETHER);
            let access = Access { position: self.stripe * BLOCK, bytes: stripes * BLOCK, is_write: true };
            writes.extend(self.drives.iter().map(|drive| (*drive, access)));
            (self.stripe, left) = (self.stripe + stripes, left - stripes);
        }
        writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(level: Level) -> Logs {
        let options = Log { drives: 11, logs: 2, writes_per_database_write: 0.75, write_bytes: 8192 };
        Logs::new(options, level, 100, 1 << 30)
    }

    #[test]
    fn writes_of_a_log_follow_each_other_and_cost_what_the_level_costs() {
        let mut dp = logs(Level::RaidDp);
        assert_eq!((0..8).map(|_| dp.owed()).sum::<u64>(), 6);
        let places: Vec<(usize, u64)> = (0..6)
            .map(|_| {
                let (log, bytes) = dp.add().unwrap();
                let phases = dp.write(log, bytes);
                assert_eq!(dp.ended(log), None);
                assert_eq!(phases.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
                (phases[0][0].0, phases[0][0].1.position)
            })
            .collect();
        let half = 1 << 29;
        assert_eq!(
            places,
            [(100, 0), (100, half), (100, 8192), (100, half + 8192), (100, 16384), (100, half + 16384)]
        );
        let mut pairs = logs(Level::Raid10);
        assert_eq!((pairs.drives.len(), pairs.write(0, 8192).iter().map(Vec::len).sum::<usize>()), (10, 2));
    }

    #[test]
    fn writes_that_wait_for_their_log_become_one() {
        let mut logs = logs(Level::RaidDp);
        assert_eq!([logs.add(), logs.add()], [Some((0, 8192)), Some((1, 8192))]);
        assert!((0..24).all(|_| logs.add().is_none()));
        logs.write(0, 8192);
        // Twelve wait for each; seven are left to the end of the chunk.
        assert_eq!(logs.ended(0), Some((0, 7 * 8192)));
        logs.write(0, 7 * 8192);
        assert_eq!((logs.ended(0), logs.ended(0)), (Some((0, 5 * 8192)), None));
    }

    #[test]
    fn a_consistency_point_writes_whole_stripes_with_few_commands() {
        let mut logs = logs(Level::RaidDp);
        (0..900).for_each(|_| logs.note(8192));
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
