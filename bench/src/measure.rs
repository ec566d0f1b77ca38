//! One measurement in this process: load, mix, crash, recovery.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::control_group::MemoryLimitSource;
use crate::driver::{self, MixResult};
use crate::store::EngineTransfers;
use crate::store_args::{MixArgs, StoreArgs};
use crate::usage::ProcessUsage;
use crate::workload::StoreRecords;

/// A result and its circumstances, as `load`, `run` and `recover` print them.
#[derive(Serialize)]
struct BenchMeasurement<T> {
    engine: String,
    limit: MemoryLimitSource,
    /// Bytes of all files of the store after the measurement.
    files: u64,
    /// Bytes of the largest file. Except for LSM trees, that is the data without logs.
    largest_file: u64,
    #[serde(flatten)]
    result: T,
}

pub fn print<T: Serialize>(store: &StoreArgs, limit: &MemoryLimitSource, result: T) -> Result<()> {
    let (files, largest_file) = file_bytes(&store.directory())?;
    let measurement =
        BenchMeasurement { engine: store.engine.clone(), limit: limit.clone(), files, largest_file, result };
    println!("{}", serde_json::to_string(&measurement)?);
    Ok(())
}

/// Bytes of all files in a directory and below, and of the largest file. Allocated bytes count, because some engines
/// create sparse files.
fn file_bytes(directory: &Path) -> Result<(u64, u64)> {
    let (mut sum, mut largest) = (0, 0);
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let (all, one) = if metadata.is_dir() {
            file_bytes(&entry.path())?
        } else {
            (metadata.blocks() * 512, metadata.blocks() * 512)
        };
        sum += all;
        largest = largest.max(one);
    }
    Ok((sum, largest))
}

/// Drops the kernel's page cache of the files in a directory.
pub fn drop_page_cache(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            drop_page_cache(&path)?;
            continue;
        }
        let file = fs::File::open(&path)?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

/// Fills a store and prints the result.
pub fn load(store: &StoreArgs) -> Result<()> {
    let group = store.limit();
    let result = store.fill()?;
    print(store, &group.limit, result)
}

/// Drives a store with the mix and prints the result.
pub fn run(store: &StoreArgs, args: &MixArgs, seconds: f64, json: bool) -> Result<()> {
    let mix = args.mix(seconds)?;
    let group = store.limit();
    if !store.record_list().exists() {
        eprintln!("filling {} with {} MiB", store.engine, store.size_mib);
        let load = store.fill()?;
        eprintln!("filled at {:.0} MB/s", load.logical as f64 / 1e6 / load.used.seconds);
    }
    drop_page_cache(&store.directory())?;
    let records = store.take_records()?;
    let open = store.open()?;
    let (result, records) = driver::mix(&*open, mix, records, &store.directory())?;
    open.close()?;
    records.save(&store.record_list())?;
    if json {
        return print(store, &group.limit, result);
    }
    println!("{}: {} threads, {} updates per transaction", store.engine, mix.threads, mix.updates);
    print_text(&result);
    let (files, largest) = file_bytes(&store.directory())?;
    let per_live = |bytes: u64| bytes as f64 / result.live as f64;
    println!("  files/live bytes   {:.3}, largest file {:.3}", per_live(files), per_live(largest));
    match &group.limit {
        MemoryLimitSource::ControlGroup(bytes) => println!("  memory limit MiB   {}", bytes >> 20),
        MemoryLimitSource::None(why) => println!("  memory limit       none: {why}"),
    }
    Ok(())
}

/// Prints a result of the mix for people.
fn print_text(result: &MixResult) {
    let per = |count: u64| count as f64 / result.operations.max(1) as f64;
    let used = &result.used;
    println!("  operations/s       {:.0}", result.operations as f64 / used.seconds);
    println!("  CPU s/10k ops      {:.3}", used.cpu_seconds / result.operations as f64 * 1e4);
    if let Some(io) = &result.transfers {
        println!(
            "  pages read/op      {:.3} in {:.3} transfers",
            per(io.read_bytes) / 32768.0,
            per(io.reads)
        );
        println!(
            "  pages written/op   {:.3} in {:.3} transfers",
            per(io.write_bytes) / 32768.0,
            per(io.writes)
        );
        println!("  log writes/op      {:.3}, {:.0} bytes", per(io.log_writes), per(io.log_bytes));
        println!("  database IOPS      {:.0}", (io.reads + io.writes) as f64 / used.seconds);
    }
    if let Some(disk) = &used.disk {
        println!("  disk reads/op      {:.3}, {:.0} bytes", per(disk.reads), per(disk.read_bytes));
        println!("  disk writes/op     {:.3}, {:.0} bytes", per(disk.writes), per(disk.write_bytes));
    }
    println!("  written/logical    {:.1}", used.written as f64 / result.logical.max(1) as f64);
    for (name, one) in [("lazy", result.lazy_us), ("durable", result.durable_us), ("read", result.read_us)] {
        println!("  {name:8} us        p50 {} p99 {} p99.9 {} max {}", one.p50, one.p99, one.p999, one.max);
    }
    println!("  durable commits/s  {:.0}", result.durable as f64 / used.seconds);
    println!("  peak memory MiB    {}", result.peak_memory >> 20);
    println!("  other cores        {:.2}", used.other_cores);
}

/// After a crash, every record at this distance is read.
pub const VERIFY_STEP: usize = 97;

#[derive(Serialize)]
struct CrashResult {
    updates: u64,
}

/// Makes updates, prints their number, and kills this process.
pub fn crash(store: &StoreArgs, args: &MixArgs, updates: u64, no_checkpoint: bool) -> Result<()> {
    let mix = args.mix(1.0)?;
    let group = store.limit();
    let records = store.take_records()?;
    let open = store.open()?;
    if !no_checkpoint {
        open.checkpoint()?;
    }
    let (updates, records) = driver::update(&*open, mix, updates, records)?;
    records.save(&store.record_list())?;
    print(store, &group.limit, CrashResult { updates })?;
    drop(group);
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?;
    bail!("the process survived SIGKILL")
}

#[derive(Serialize)]
struct RecoverResult {
    /// Seconds until the store was open.
    seconds: f64,
    /// CPU seconds until then.
    cpu_seconds: f64,
    /// Seconds from the start of opening until every change is in the file and durable.
    checkpointed_seconds: f64,
    /// Cores that other processes used.
    other_cores: f64,
    /// Log records read, if the engine reports them.
    records: Option<u64>,
    /// I/O until the store was open, if the engine reports it.
    transfers: Option<EngineTransfers>,
}

/// Opens a store after a crash, verifies its records and prints the times.
pub fn recover(store: &StoreArgs) -> Result<()> {
    let group = store.limit();
    drop_page_cache(&store.directory())?;
    let before = ProcessUsage::now(&store.directory())?;
    let start = Instant::now();
    let open = store.open()?;
    let seconds = start.elapsed().as_secs_f64();
    let used = before.until_now(&store.directory())?;
    let (records, transfers) = (open.recovered().records, open.transfers());
    // Completes the work that opening left for later.
    open.checkpoint()?;
    let checkpointed_seconds = start.elapsed().as_secs_f64();
    // The time counts only if no durable record is missing.
    driver::verify(&*open, &StoreRecords::read(&store.record_list())?, VERIFY_STEP)?;
    open.close()?;
    let (cpu_seconds, other_cores) = (used.cpu_seconds, used.other_cores);
    let result =
        RecoverResult { seconds, cpu_seconds, checkpointed_seconds, other_cores, records, transfers };
    print(store, &group.limit, result)
}
