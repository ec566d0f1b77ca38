//! Baselines of the device: fio, and one writer that syncs an existing log.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use jetcell_vfs::IoBuffer;
use serde::Serialize;
use serde_json::Value;

use crate::driver::BenchLatencies;
use crate::usage::ProcessUsage;
use crate::workload::FastRandom;

/// Bytes of the log file.
const LOG: u64 = 64 << 20;
/// Bytes of a log write.
const LOG_WRITE: usize = 4096;

/// Creates a file of bytes that do not compress, unless it exists with this size.
pub fn prepare(path: &Path, bytes: u64) -> Result<()> {
    let context = || path.display().to_string();
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() == bytes) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).with_context(context)?;
    }
    let file = File::create(path).with_context(context)?;
    let mut random = FastRandom::new(bytes);
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < bytes {
        buffer.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.next_u64().to_le_bytes()));
        let len = (bytes - at).min(buffer.len() as u64);
        file.write_all_at(&buffer[..len as usize], at).with_context(context)?;
        at += len;
    }
    file.sync_all().with_context(context)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// Reads a file once from start to end. A virtual disk has caches below it that this process cannot see. Of two files
/// that are compared, the file that was used last would be faster.
pub fn warm(path: &Path) -> Result<()> {
    let context = || path.display().to_string();
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(direct).open(path).with_context(context)?;
    let mut buffer = IoBuffer::zeroed(1 << 20);
    let mut at = 0;
    loop {
        match file.read_at(&mut buffer, at).with_context(context)? {
            0 => return Ok(()),
            read => at += read as u64,
        }
    }
}

/// Version of fio.
pub fn fio_version() -> Result<String> {
    let output =
        Command::new("fio").arg("--version").output().context("cannot run fio; install the package fio")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().trim_start_matches("fio-").to_string())
}

/// A run of fio.
pub struct FioRun<'a> {
    /// An existing file.
    pub file: &'a Path,
    /// fio's `rw`.
    pub pattern: &'a str,
    /// Bytes per transfer.
    pub block: u64,
    /// Number of transfers in flight.
    pub depth: u32,
    /// Percent of reads where the pattern mixes.
    pub read_percent: f64,
    /// Duration of the measurement in seconds.
    pub seconds: f64,
    /// Work before that does not count.
    pub warm_up: f64,
}

/// Throughput and latency that fio measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FioResult {
    /// Transfers per second, both ways.
    pub iops: f64,
    /// Bytes per second, both ways.
    pub bytes_per_second: f64,
    /// 99 of 100 reads took no longer, in microseconds.
    pub read_p99_us: f64,
    /// CPU seconds per 10,000 transfers.
    pub cpu_per_10k: f64,
}

impl FioRun<'_> {
    /// Runs it: one job, O_DIRECT, io_uring.
    pub fn run(&self) -> Result<FioResult> {
        let size = fs::metadata(self.file).with_context(|| self.file.display().to_string())?.len();
        let output = Command::new("fio")
            .args(["--name=device", "--direct=1", "--ioengine=io_uring", "--norandommap", "--time_based"])
            .args(["--output-format=json", "--invalidate=1", "--random_generator=tausworthe64"])
            .arg(format!("--filename={}", self.file.display()))
            .arg(format!("--size={}", size / self.block * self.block))
            .arg(format!("--rw={}", self.pattern))
            .arg(format!("--bs={}", self.block))
            .arg(format!("--iodepth={}", self.depth))
            .arg(format!("--rwmixread={:.0}", self.read_percent))
            .arg(format!("--runtime={:.0}", self.seconds.max(1.0)))
            .arg(format!("--ramp_time={:.0}", self.warm_up))
            .output()
            .context("cannot run fio; install the package fio")?;
        if !output.status.success() {
            bail!("fio failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        // fio may print warnings before the JSON.
        let text = String::from_utf8_lossy(&output.stdout);
        let start = text.find('{').context("fio printed no JSON")?;
        let all: Value = serde_json::from_str(&text[start..]).context("fio's JSON")?;
        let job = &all["jobs"][0];
        let sum = |name: &str| {
            job["read"][name].as_f64().unwrap_or(0.0) + job["write"][name].as_f64().unwrap_or(0.0)
        };
        let cpu = job["usr_cpu"].as_f64().unwrap_or(0.0) + job["sys_cpu"].as_f64().unwrap_or(0.0);
        let iops = sum("iops");
        Ok(FioResult {
            iops,
            bytes_per_second: sum("bw_bytes"),
            read_p99_us: job["read"]["clat_ns"]["percentile"]["99.000000"].as_f64().unwrap_or(0.0) / 1000.0,
            cpu_per_10k: if iops > 0.0 { cpu / 100.0 / iops * 1e4 } else { 0.0 },
        })
    }
}

/// Result of one writer that syncs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SyncResult {
    /// Durable writes per second.
    pub per_second: f64,
    /// Latency of a write with its sync, in microseconds.
    pub us: BenchLatencies,
    /// Cores that other processes used.
    pub other_cores: f64,
}

/// Writes 4 KiB and syncs, repeatedly, around a log file that has its full size.
pub fn sync_rate(path: &Path, time: Duration) -> Result<SyncResult> {
    prepare(path, LOG)?;
    let directory = path.parent().unwrap_or(Path::new("."));
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = OpenOptions::new().write(true).custom_flags(direct).open(path)?;
    let mut buffer = IoBuffer::zeroed(LOG_WRITE);
    let mut us = Histogram::<u64>::new_with_max(60_000_000, 3).expect("three digits are supported");
    let mut random = FastRandom::new(0);
    let before = ProcessUsage::now(directory)?;
    let start = Instant::now();
    let mut count = 0u64;
    while start.elapsed() < time {
        buffer[..8].copy_from_slice(&random.next_u64().to_le_bytes());
        let began = Instant::now();
        file.write_all_at(&buffer, count * LOG_WRITE as u64 % LOG)?;
        rustix::fs::fdatasync(&file)?;
        us.saturating_record(began.elapsed().as_micros() as u64);
        count += 1;
    }
    let used = before.until_now(directory)?;
    Ok(SyncResult {
        per_second: count as f64 / used.seconds,
        us: BenchLatencies::from_histogram(&us),
        other_cores: used.other_cores,
    })
}
