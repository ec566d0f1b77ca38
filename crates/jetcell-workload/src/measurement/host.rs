//! Resource usage of the machine during a run, from `/proc`: processors, memory and the disks under the directories
//! of the run. Counters of the whole machine include all other programs.

use std::collections::BTreeMap;
use std::fs;

use jetcell_host::{kibibytes_field, processor_ticks};
use serde::{Deserialize, Serialize};

/// Size of a sector in `/proc/diskstats` in bytes, independent of the sector size of the device.
const SECTOR: u64 = 512;

/// The host's resource counters at one point in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostCounters {
    cpu_busy: u64,
    cpu_all: u64,
    process_ticks: u64,
    memory_available: u64,
    disks: BTreeMap<String, [u64; 6]>,
}

/// The machine's resource usage during an interval. A value that could not be read is zero or missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostUsage {
    /// End of the interval, in seconds since the start of the measurement.
    pub at_seconds: f64,
    /// Length of the interval in seconds.
    pub seconds: f64,
    /// Busy time of all processors in percent, including all programs. Waiting for I/O does not count as busy.
    pub cpu_percent: f64,
    /// Processor time of this process as a percentage of all processors.
    pub process_cpu_percent: f64,
    /// Available memory at the end of the interval, in bytes.
    pub memory_available_bytes: u64,
    /// The devices under the directories of the run.
    pub disks: Vec<DiskUsage>,
}

/// Block device usage during an interval, from the kernel's counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskUsage {
    /// Kernel name of the device.
    pub device: String,
    /// Reads completed per second.
    pub reads_per_second: f64,
    /// Writes completed per second.
    pub writes_per_second: f64,
    /// Bytes read per second.
    pub read_bytes_per_second: f64,
    /// Bytes written per second.
    pub written_bytes_per_second: f64,
    /// Percentage of time in which at least one request was in progress. A device that processes many requests in
    /// parallel may show 100 and still accept more.
    pub busy_percent: f64,
    /// Mean number of requests in progress.
    pub queue: f64,
}

impl HostCounters {
    /// Reads the counters. `devices` contains the kernel names of disks.
    pub(crate) fn read(devices: &[String]) -> HostCounters {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        HostCounters::parse(
            &text("/proc/stat"),
            &text("/proc/self/stat"),
            &text("/proc/meminfo"),
            &text("/proc/diskstats"),
            devices,
        )
    }

    fn parse(stat: &str, own: &str, memory: &str, disks: &str, devices: &[String]) -> HostCounters {
        // The fields are: user nice system idle iowait irq softirq steal. Guest time is already included in user.
        let cpu: Vec<u64> = stat
            .lines()
            .next()
            .unwrap_or("")
            .split_whitespace()
            .skip(1)
            .take(8)
            .map(|number| number.parse().unwrap_or(0))
            .collect();
        let cpu_all = cpu.iter().sum::<u64>();
        let idle = cpu.iter().skip(3).take(2).sum::<u64>();
        let mut found = BTreeMap::new();
        for line in disks.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some(name) = words.get(2).filter(|name| devices.iter().any(|device| device == *name)) else {
                continue;
            };
            let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(0);
            found.insert(name.to_string(), [3, 5, 7, 9, 12, 13].map(number));
        }
        HostCounters {
            cpu_busy: cpu_all.saturating_sub(idle),
            cpu_all,
            process_ticks: processor_ticks(own),
            memory_available: kibibytes_field(memory, "MemAvailable").unwrap_or(0),
            disks: found,
        }
    }

    /// Returns the usage between an earlier state and this state.
    pub(crate) fn since(&self, earlier: &HostCounters, at_seconds: f64, seconds: f64) -> HostUsage {
        let all = self.cpu_all.saturating_sub(earlier.cpu_all);
        let percent = |part: u64| if all == 0 { 0.0 } else { 100.0 * part as f64 / all as f64 };
        let rate = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
        let disk = |(name, now): (&String, &[u64; 6])| {
            let before = earlier.disks.get(name)?;
            let [reads, read_sectors, writes, written_sectors, busy_ms, queue_ms] =
                std::array::from_fn(|at| rate(now[at].saturating_sub(before[at])));
            Some(DiskUsage {
                device: name.clone(),
                reads_per_second: reads,
                writes_per_second: writes,
                read_bytes_per_second: read_sectors * SECTOR as f64,
                written_bytes_per_second: written_sectors * SECTOR as f64,
                busy_percent: (busy_ms / 10.0).min(100.0),
                queue: queue_ms / 1000.0,
            })
        };
        HostUsage {
            at_seconds,
            seconds,
            cpu_percent: percent(self.cpu_busy.saturating_sub(earlier.cpu_busy)),
            process_cpu_percent: percent(self.process_ticks.saturating_sub(earlier.process_ticks)).min(100.0),
            memory_available_bytes: self.memory_available,
            disks: self.disks.iter().filter_map(disk).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_the_difference_between_two_readings() {
        let read = |stat, own, disks| {
            HostCounters::parse(stat, own, "MemAvailable:  2048 kB\n", disks, &["vda".into()])
        };
        let before = read(
            "cpu 100 0 50 800 50 0 0 0 9 9\n",
            "1 (a) b) S 1 1 1 1 1 1 1 1 1 1 30 10 0",
            "252 0 vda 10 0 80 5 20 0 160 5 0 100 400\n252 1 vda1 1 1 1 1 1 1 1 1 1 1 1\n",
        );
        let after = read(
            "cpu 160 0 70 900 70 0 0 0 9 9\n",
            "1 (a) b) S 1 1 1 1 1 1 1 1 1 1 60 20 0",
            "252 0 vda 30 0 240 5 60 0 480 5 0 1100 4400\n",
        );
        let used = after.since(&before, 2.0, 2.0);
        assert_eq!(
            (used.cpu_percent, used.process_cpu_percent, used.memory_available_bytes),
            (40.0, 20.0, 2 << 20)
        );
        let disk = DiskUsage {
            device: "vda".into(),
            reads_per_second: 10.0,
            writes_per_second: 20.0,
            read_bytes_per_second: 40960.0,
            written_bytes_per_second: 81920.0,
            busy_percent: 50.0,
            queue: 2.0,
        };
        assert_eq!(used.disks, [disk]);
    }

    #[test]
    fn this_machine_has_counters_and_invalid_text_is_zero() {
        assert!(HostCounters::read(&[]).cpu_all > 0);
        assert_eq!(HostCounters::parse("x", ")", "", "1 2 vda", &["vda".into()]).cpu_all, 0);
    }
}
