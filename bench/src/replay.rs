//! Replay of closed generations by a passive copy, with nothing of the database in memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use ese_engine::{CacheSource, InstanceOptions, ReplaySummary, Replayer, TornPageProtection};
use ese_format::log::header::LogHeader;
use ese_format::{Generation, LogPosition};
use jetcell_vfs::{RealOptions, RealVfs};
use serde::Serialize;

use crate::driver;
use crate::measure::{VERIFY_STEP, drop_page_cache, print};
use crate::store_args::{MixArgs, StoreArgs};
use crate::usage::ProcessUsage;
use crate::workload::StoreRecords;

/// Bytes of a segment of the log.
const SEGMENT: u64 = 4096;

#[derive(Serialize)]
struct ReplayResult {
    /// Updates in the log.
    updates: u64,
    /// Bytes of log replayed.
    log_bytes: u64,
    /// Seconds until every change is in the file and durable.
    seconds: f64,
    /// CPU seconds until then.
    cpu_seconds: f64,
    /// Cores that other processes used.
    other_cores: f64,
    /// Page changes that the database lacked.
    changed: u64,
    /// Pages read.
    pages_read: u64,
    /// Pages written.
    pages_written: u64,
}

/// Copies a closed store, makes updates in the original, and brings the copy forward with its logs. Prints the times
/// of the latter.
pub fn replay(store: &StoreArgs, args: &MixArgs, updates: u64) -> Result<()> {
    ensure!(store.engine == "jetcell", "only jetcell can replay the logs of another engine");
    let mix = args.mix(1.0)?;
    let records = store.take_records()?;
    let (active, passive) = (store.directory(), store.directory().with_extension("passive"));
    if passive.exists() {
        fs::remove_dir_all(&passive)?;
    }
    fs::create_dir_all(&passive)?;
    fs::copy(active.join("records.edb"), passive.join("records.edb"))?;
    // Files of earlier generations wait to be used again.
    let first = newest_generation(&active)?;
    let open = store.open_with_all_logs()?;
    let (updates, records) = driver::update(&*open, mix, updates, records)?;
    open.close()?;

    let logs = logs_from(&active, first)?;
    [&active, &passive].into_iter().try_for_each(|directory| drop_page_cache(directory))?;
    let group = store.limit();
    let before = ProcessUsage::now(&passive)?;
    let start = Instant::now();
    let replayed = replay_logs(store, &logs, &passive)?;
    let seconds = start.elapsed().as_secs_f64();
    let used = before.until_now(&passive)?;

    let open = store.open_in(&passive)?;
    driver::verify(&*open, &records, VERIFY_STEP)?;
    open.close()?;
    fs::remove_dir_all(&passive)?;
    StoreRecords::save(&records, &store.record_list())?;
    let result = ReplayResult {
        updates,
        log_bytes: log_bytes(&logs, replayed.position)?,
        seconds,
        cpu_seconds: used.cpu_seconds,
        other_cores: used.other_cores,
        changed: replayed.changed,
        pages_read: replayed.pages_read,
        pages_written: replayed.pages_written,
    };
    print(store, &group.limit, result)
}

fn replay_logs(store: &StoreArgs, logs: &[PathBuf], passive: &Path) -> Result<ReplaySummary> {
    let (Some(first), Some(newest)) = (logs.first(), logs.last()) else {
        bail!("the store does not have logs")
    };
    let files = Arc::new(RealVfs::new(RealOptions::default())?);
    let mut options = InstanceOptions::with_vfs(files, passive.to_path_buf());
    options.cache = CacheSource::Own { bytes: store.cache_bytes() as usize };
    options.checkpoint.depth = store.checkpoint_depth();
    options.torn_page_protection = TornPageProtection::Off;
    options.recovery.database_paths.search(passive);
    let mut replayer = Replayer::open(options, first)?;
    for log in &logs[..logs.len() - 1] {
        replayer.replay(log)?;
    }
    // It ends with the shutdown of the active engine.
    replayer.replay_until(newest, LogPosition::MAX)?;
    Ok(replayer.stop()?)
}

/// The generation of the current log file.
fn newest_generation(directory: &Path) -> Result<Generation> {
    let path = directory.join("E00.log");
    let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
    Ok(LogHeader::decode(&bytes)?.generation)
}

/// The log files of a closed store from a generation on, in order; the current one is the last.
fn logs_from(directory: &Path, first: Generation) -> Result<Vec<PathBuf>> {
    let first = format!("E00{:08X}.log", first.0);
    let mut logs = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.len() == first.len() && name.ends_with(".log") && name >= first {
            logs.push(path);
        }
    }
    logs.sort();
    logs.push(directory.join("E00.log"));
    Ok(logs)
}

/// Bytes of these logs up to `end`, which is in the last one.
fn log_bytes(logs: &[PathBuf], end: LogPosition) -> Result<u64> {
    let mut bytes = u64::from(end.segment) * SEGMENT + u64::from(end.offset);
    for closed in &logs[..logs.len() - 1] {
        bytes += fs::metadata(closed)?.len();
    }
    Ok(bytes)
}
