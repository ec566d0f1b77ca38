//! Drive cache: data that was read or read ahead, and cached writes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Maximum number of bytes of cached writes that are written to the platters at a time.
const MAX_DESTAGE: u64 = 256 << 10;

/// Cache parameters for a simulated drive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheParameters {
    /// Size in megabytes (10^6).
    pub mb: f64,
    /// Kilobytes (10^3) that the drive reads ahead after each read while it is otherwise idle.
    pub read_ahead_kb: f64,
    /// Transfer rate of the interface in megabytes (10^6) per second.
    pub interface_mb_per_second: f64,
    /// Whether writes complete once they are in the cache, before they reach the platters.
    #[serde(default)]
    pub writes: bool,
}

impl CacheParameters {
    pub(crate) fn is_possible(&self) -> bool {
        (0.001..=1e6).contains(&self.mb)
            && (0.0..=self.mb * 1e3).contains(&self.read_ahead_kb)
            && (0.001..=1e9).contains(&self.interface_mb_per_second)
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.mb * 1e6) as u64
    }

    pub(crate) fn read_ahead(&self) -> u64 {
        (self.read_ahead_kb * 1e3) as u64
    }

    /// Returns how long the interface takes to transfer this many bytes, in milliseconds.
    pub(crate) fn interface_ms(&self, bytes: u64) -> f64 {
        bytes as f64 / (self.interface_mb_per_second * 1e3)
    }
}

/// Contents of a simulated drive's cache, as byte ranges on the drive.
#[derive(Clone, Debug, Default)]
pub(crate) struct DriveCache {
    /// Ranges that were read, oldest first.
    read: VecDeque<Range<u64>>,
    /// Start and end of each range that is not on the platters yet. The ranges do not touch each other.
    unwritten: BTreeMap<u64, u64>,
    unwritten_bytes: u64,
}

impl DriveCache {
    pub fn unwritten_bytes(&self) -> u64 {
        self.unwritten_bytes
    }

    /// Returns true if the whole range is cached.
    pub fn has(&self, range: &Range<u64>) -> bool {
        let covers = |start: u64, end: u64| start <= range.start && range.end <= end;
        let before = self.unwritten.range(..=range.start).next_back();
        before.is_some_and(|(start, end)| covers(*start, *end))
            || self.read.iter().any(|of| covers(of.start, of.end))
    }

    /// Adds a range that was read. The oldest ranges are evicted until all data fits.
    pub fn add_read(&mut self, range: Range<u64>, room: u64) {
        match self.read.back_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.read.push_back(range),
        }
        let room = room.saturating_sub(self.unwritten_bytes);
        while self.read.len() > 1 && self.read.iter().map(|of| of.end - of.start).sum::<u64>() > room {
            self.read.pop_front();
        }
        // If a single range does not fit, only its end is retained.
        if let [only] = self.read.make_contiguous() {
            only.start = only.start.max(only.end.saturating_sub(room));
        }
    }

    /// Adds a write to the cache.
    pub fn add_write(&mut self, range: Range<u64>) {
        self.remove_write(&range);
        let Range { mut start, mut end } = range;
        if let Some((before, _)) = self.unwritten.range(..start).next_back().filter(|(_, to)| **to == start) {
            start = *before;
        }
        if let Some(behind) = self.unwritten.remove(&end) {
            end = behind;
        }
        self.unwritten_bytes += range.end - range.start;
        self.unwritten.insert(start, end);
    }

    /// Removes a range that is about to be written to the platters, because the cached data is outdated.
    pub fn remove_write(&mut self, range: &Range<u64>) {
        self.read.retain(|of| of.end <= range.start || range.end <= of.start);
        let overlapping: Vec<(u64, u64)> = self
            .unwritten
            .range(..range.end)
            .rev()
            .take_while(|(_, end)| **end > range.start)
            .map(|(start, end)| (*start, *end))
            .collect();
        for (start, end) in overlapping {
            self.unwritten.remove(&start);
            if start < range.start {
                self.unwritten.insert(start, range.start);
            }
            if end > range.end {
                self.unwritten.insert(range.end, end);
            }
            self.unwritten_bytes -= end.min(range.end) - start.max(range.start);
        }
    }

    /// Returns the next cached write to be written to the platters: the first one at or after `position` or, if there
    /// is none, the first one overall.
    pub fn next_unwritten(&self, position: u64) -> Option<Range<u64>> {
        let next = self.unwritten.range(position..).next().or_else(|| self.unwritten.iter().next())?;
        Some(*next.0..(*next.1).min(next.0 + MAX_DESTAGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_writes_are_merged_and_later_data_wins() {
        let mut cache = DriveCache::default();
        for range in [100..200, 300..400, 200..300, 150..160] {
            cache.add_write(range);
        }
        assert_eq!((cache.unwritten.clone(), cache.unwritten_bytes()), ([(100, 400)].into(), 300));
        cache.remove_write(&(180..220));
        assert_eq!((cache.unwritten.len(), cache.unwritten_bytes()), (2, 260));
        assert!(cache.has(&(100..180)) && !cache.has(&(100..181)) && cache.has(&(220..400)));
        // The elevator moves upwards, and then starts again at the beginning.
        assert_eq!([150, 230].map(|at| cache.next_unwritten(at).unwrap()), [220..400, 100..180]);
        let long = 1 << 30..(1 << 30) + 3 * MAX_DESTAGE;
        cache.add_write(long.clone());
        assert_eq!(cache.next_unwritten(500), Some(long.start..long.start + MAX_DESTAGE));
    }

    #[test]
    fn the_oldest_reads_are_evicted_first_keeping_long_tails() {
        let mut cache = DriveCache::default();
        cache.add_read(0..100, 250);
        cache.add_read(1000..1100, 250);
        cache.add_read(1100..1200, 250);
        assert!(!cache.has(&(0..100)) && cache.has(&(1000..1200)));
        cache.add_read(1200..1400, 250);
        assert!(cache.has(&(1150..1400)) && !cache.has(&(1149..1400)));
        cache.remove_write(&(1200..1201));
        assert!(!cache.has(&(1300..1301)));
    }
}
