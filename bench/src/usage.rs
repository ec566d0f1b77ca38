//! Processor time and I/O of the process, the machine and the disk, from the kernel's counters.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Counters at one moment.
pub struct ProcessUsage {
    at: Instant,
    process_cpu_seconds: f64,
    machine_cpu_seconds: f64,
    written: u64,
    disk: Option<[u64; 5]>,
}

/// Differences of the counters between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageDelta {
    /// Seconds between the two moments.
    pub seconds: f64,
    /// CPU seconds of this process and of its children that have ended.
    pub cpu_seconds: f64,
    /// Cores that all other processes kept busy.
    pub other_cores: f64,
    /// Bytes that this process caused to be written to storage.
    pub written: u64,
    /// Counters of the disk for all processes. Absent if the directory is on no block device.
    pub disk: Option<BlockDeviceCounters>,
}

/// Counters of a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockDeviceCounters {
    /// Reads completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Flushes completed.
    pub flushes: u64,
}

impl ProcessUsage {
    /// Reads the counters. `directory` selects the disk.
    pub fn now(directory: &Path) -> Result<ProcessUsage> {
        Ok(ProcessUsage {
            at: Instant::now(),
            process_cpu_seconds: cpu_seconds(),
            machine_cpu_seconds: machine_seconds()?,
            written: written()?,
            disk: disk(directory),
        })
    }

    /// Differences since this reading.
    pub fn until_now(&self, directory: &Path) -> Result<UsageDelta> {
        let now = ProcessUsage::now(directory)?;
        let seconds = (now.at - self.at).as_secs_f64();
        let cpu_seconds = now.process_cpu_seconds - self.process_cpu_seconds;
        let disk = self.disk.zip(now.disk).map(|(old, new)| {
            let [reads, read_bytes, writes, write_bytes, flushes] =
                std::array::from_fn(|at| new[at].saturating_sub(old[at]));
            BlockDeviceCounters { reads, read_bytes, writes, write_bytes, flushes }
        });
        Ok(UsageDelta {
            seconds,
            cpu_seconds,
            other_cores: (now.machine_cpu_seconds - self.machine_cpu_seconds - cpu_seconds) / seconds,
            written: now.written.saturating_sub(self.written),
            disk,
        })
    }
}

/// User and system time of this process and of the children that it has waited for.
fn cpu_seconds() -> f64 {
    let of = |who| {
        // SAFETY: all zeros is a valid `rusage`, and the kernel fills exactly one.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(who, &mut usage);
            usage
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}

/// Busy time of all processors: user, nice, system, interrupts.
fn machine_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let busy: u64 = [0, 1, 2, 5, 6].iter().filter_map(|at| ticks.get(*at)).sum();
    Ok(busy as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Bytes that this process caused to be written, without those truncated before they were written.
fn written() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/io").context("/proc/self/io")?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    Ok(field("write_bytes:").saturating_sub(field("cancelled_write_bytes:")))
}

/// Reads, bytes read, writes, bytes written and flushes of the disk under a directory.
fn disk(directory: &Path) -> Option<[u64; 5]> {
    let device = fs::metadata(directory).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let stat = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    let fields: Vec<u64> = stat.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let field = |at: usize| fields.get(at).copied().unwrap_or(0);
    Some([field(0), field(2) * 512, field(4), field(6) * 512, field(15)])
}

/// Peak resident memory of this process in bytes.
pub fn peak_memory() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
