//! Activity and state of the arrays that store the databases.

use serde::{Deserialize, Serialize};

/// Array counters since the arrays were started, and the arrays' state. The values are sums over all arrays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayCounters {
    /// Number of writes that the test issued.
    pub host_writes: u64,
    /// Number of blocks that the test wrote.
    pub host_blocks: u64,
    /// Number of read commands sent to members.
    pub member_reads: u64,
    /// Number of write commands sent to members.
    pub member_writes: u64,
    /// Number of blocks in the write commands to members.
    pub member_blocks_written: u64,
    /// Number of zones that running rebuilds have completed. `zones` is the total number of zones. Both are 0 if no
    /// rebuild is running.
    pub zones_done: u64,
    /// Total number of zones of the running rebuilds.
    pub zones: u64,
    /// Number of slots that have no complete member, one that stores all of the slot's blocks.
    pub missing: u64,
}

/// Array activity during an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArraySample {
    /// End of the interval, in seconds since the start of the measurement.
    pub at_seconds: f64,
    /// Writes issued by the test per second.
    pub host_writes_per_second: f64,
    /// Read commands to members per second.
    pub member_reads_per_second: f64,
    /// Write commands to members per second.
    pub member_writes_per_second: f64,
    /// Write commands to members for each write issued by the test, or `None` if the test wrote nothing in the
    /// interval.
    pub member_writes_per_host_write: Option<f64>,
    /// Blocks written to members per block written by the test, or `None` if the test wrote nothing in the interval.
    pub member_blocks_per_host_block: Option<f64>,
    /// Progress of the rebuild at the end of the interval in percent, or `None` if no rebuild is running.
    pub rebuilt_percent: Option<f64>,
    /// Number of slots without a complete member at the end of the interval.
    pub missing_members: u64,
}

impl ArrayCounters {
    /// Adds the counters of another array to these.
    pub fn add(&mut self, other: &ArrayCounters) {
        self.host_writes += other.host_writes;
        self.host_blocks += other.host_blocks;
        self.member_reads += other.member_reads;
        self.member_writes += other.member_writes;
        self.member_blocks_written += other.member_blocks_written;
        self.zones_done += other.zones_done;
        self.zones += other.zones;
        self.missing += other.missing;
    }

    /// Returns the activity in the interval of `seconds` between `earlier` and these counters.
    pub(crate) fn since(&self, earlier: &ArrayCounters, at_seconds: f64, seconds: f64) -> ArraySample {
        let increase = |count: fn(&ArrayCounters) -> u64| count(self).saturating_sub(count(earlier)) as f64;
        let rate =
            |count: fn(&ArrayCounters) -> u64| if seconds > 0.0 { increase(count) / seconds } else { 0.0 };
        let each = |members: f64, host: f64| (host > 0.0).then(|| members / host);
        ArraySample {
            at_seconds,
            host_writes_per_second: rate(|all| all.host_writes),
            member_reads_per_second: rate(|all| all.member_reads),
            member_writes_per_second: rate(|all| all.member_writes),
            member_writes_per_host_write: each(
                increase(|all| all.member_writes),
                increase(|all| all.host_writes),
            ),
            member_blocks_per_host_block: each(
                increase(|all| all.member_blocks_written),
                increase(|all| all.host_blocks),
            ),
            rebuilt_percent: each(100.0 * self.zones_done as f64, self.zones as f64),
            missing_members: self.missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_counter_differences_and_the_final_state() {
        let before =
            ArrayCounters { host_writes: 10, host_blocks: 20, member_writes: 7, ..Default::default() };
        let mut after = ArrayCounters {
            host_writes: 30,
            host_blocks: 60,
            member_reads: 8,
            member_writes: 107,
            member_blocks_written: 80,
            ..Default::default()
        };
        after.add(&ArrayCounters { zones_done: 3, zones: 12, missing: 1, ..Default::default() });
        let sample = after.since(&before, 9.0, 2.0);
        assert_eq!((sample.host_writes_per_second, sample.member_writes_per_second), (10.0, 50.0));
        assert_eq!(
            (sample.member_writes_per_host_write, sample.member_blocks_per_host_block),
            (Some(5.0), Some(2.0))
        );
        assert_eq!((sample.rebuilt_percent, sample.missing_members, sample.at_seconds), (Some(25.0), 1, 9.0));
        let idle = before.since(&before, 1.0, 0.0);
        assert_eq!((idle.member_writes_per_host_write, idle.rebuilt_percent), (None, None));
    }
}
