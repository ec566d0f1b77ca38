//! Benchmarks of Jetcell's engine beside the device and other embedded engines, on the same work.
//!
//! One process measures one thing: `load`, `run`, `crash` and `recover` work on a store, under a memory limit, and
//! print JSON. `table` starts such processes in turn and prints what became of them.

mod drive;
mod engines;
mod limit;
mod page_io;
mod pulse;
mod store;
mod table;
mod usage;
mod work;
mod yardstick;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use serde::Serialize;

use crate::drive::Mix;
use crate::limit::{Group, Limit};
use crate::store::{Store, StoreOptions, Transfers};
use crate::work::Records;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "Benchmarks of Jetcell's engine beside the device and other engines")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fills a new store with records in key order
    Load {
        #[command(flatten)]
        place: Place,
    },
    /// Drives a store with the mail mix, filling it first if it is not there
    Run {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        load: MixArgs,
        /// Measured time in seconds; warm-up is a quarter of it, at least 3 s
        #[arg(long, default_value_t = 15.0)]
        seconds: f64,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Makes updates after a checkpoint, commits the last one durably and kills itself
    Crash {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        load: MixArgs,
        /// Updates to make
        #[arg(long, default_value_t = 60_000)]
        updates: u64,
        /// Leave checkpoints to the engine
        #[arg(long)]
        no_checkpoint: bool,
    },
    /// Runs interleaved rounds of everything and prints the table
    Table(table::TableArgs),
    /// Times the opening of a store that was killed, with nothing of it in the kernel's cache
    Recover {
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Args)]
struct Place {
    /// Engine
    #[arg(long, default_value = "jetcell", value_parser = PossibleValuesParser::new(engines::ALL))]
    engine: String,
    /// Directory of the stores; the engine's is made in it
    #[arg(long, default_value = "bench/target/data")]
    dir: PathBuf,
    /// MiB of records that a store is filled with
    #[arg(long, default_value_t = 2048)]
    size_mib: u64,
    /// MiB of cache; default: a sixteenth of the size
    #[arg(long)]
    cache_mib: Option<u64>,
    /// MiB of log that a restart may have to read
    #[arg(long, default_value_t = 512)]
    checkpoint_depth_mib: u64,
    /// Our engine writes an image of each page before the page, so that torn pages can be put back. Tests of storage,
    /// and the rows of the table, do without, as ESE does
    #[arg(long)]
    page_protection: bool,
    /// Our engine writes every dirty page before it leaves the cache, as it does in tests of storage and as ESE does,
    /// instead of keeping what was changed
    #[arg(long)]
    write_all: bool,
    /// MiB of memory, page cache included; 0: no limit; default: as much as the rows of the table have
    #[arg(long)]
    limit_mib: Option<u64>,
}

#[derive(Args)]
struct MixArgs {
    /// Threads
    #[arg(long, default_value_t = 8)]
    threads: u32,
    /// Updates per transaction
    #[arg(long, default_value_t = 1)]
    updates_per_txn: u32,
    /// Percent of updating transactions that are durable
    #[arg(long, default_value_t = 30)]
    durable_percent: u64,
    /// Replace only this many records of each thread, over and over, instead of the mail mix
    #[arg(long)]
    near: Option<usize>,
    /// Seed of the stream of operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl MixArgs {
    fn mix(&self, seconds: f64) -> Result<Mix> {
        if self.threads == 0 || self.updates_per_txn == 0 || !(seconds > 0.0 && seconds < 1e6) {
            bail!("threads, updates and seconds must be more than 0");
        }
        Ok(Mix {
            threads: self.threads,
            updates: self.updates_per_txn,
            durable_percent: self.durable_percent,
            window: Duration::from_secs_f64(seconds),
            near: self.near,
            seed: self.seed,
        })
    }
}

impl Place {
    fn store(&self) -> PathBuf {
        self.dir.join(&self.engine)
    }

    fn list(&self) -> PathBuf {
        list_of(&self.dir, &self.engine, self.size_mib)
    }

    fn options(&self) -> StoreOptions {
        StoreOptions {
            directory: self.store(),
            cache: self.cache_mib.unwrap_or(self.size_mib / 16) << 20,
            checkpoint_depth: self.checkpoint_depth_mib << 20,
            write_all: self.write_all,
            page_protection: self.page_protection,
        }
    }

    /// Engines need more than their cache; all get the same.
    fn limit(&self) -> Group {
        let default = 3 * self.options().cache + (80 << 20);
        match self.limit_mib {
            Some(0) => Group::none("asked not to"),
            limit => Group::enter(limit.map_or(default, |mib| mib << 20)),
        }
    }

    fn open(&self) -> Result<Box<dyn Store>> {
        engines::open(&self.engine, &self.options()).with_context(|| format!("cannot open {}", self.engine))
    }

    fn fill(&self) -> Result<drive::LoadResult> {
        let directory = self.store();
        if directory.exists() {
            fs::remove_dir_all(&directory).with_context(|| directory.display().to_string())?;
        }
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        remove_lists(&self.dir, &self.engine)?;
        let store = self.open()?;
        let (result, records) = drive::load(store, self.size_mib << 20, &directory)?;
        records.save(&self.list())?;
        Ok(result)
    }

    /// Takes the list of records away, so that a store whose use was interrupted is filled again.
    fn take_records(&self) -> Result<Records> {
        let records = Records::read(&self.list())?;
        fs::remove_file(self.list())?;
        Ok(records)
    }
}

/// The records of a closed store are listed here, with the size it was filled to in the name; a store without a list
/// cannot be used.
fn list_of(directory: &Path, engine: &str, size_mib: u64) -> PathBuf {
    directory.join(format!("{engine}.{size_mib}.records"))
}

/// Removes the lists of an engine's store, whatever its size: it is about to go.
fn remove_lists(directory: &Path, engine: &str) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&format!("{engine}.")) && name.ends_with(".records") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// What `load`, `run` and `recover` print: the measurement and its circumstances.
#[derive(Serialize)]
struct Outcome<T> {
    engine: String,
    limit: Limit,
    /// Bytes of all files of the store afterwards.
    files: u64,
    /// Bytes of the largest of them; of all engines but the LSM trees that is the data without logs.
    largest_file: u64,
    #[serde(flatten)]
    result: T,
}

fn print<T: Serialize>(place: &Place, limit: &Limit, result: T) -> Result<()> {
    let (files, largest_file) = file_bytes(&place.store())?;
    let outcome = Outcome { engine: place.engine.clone(), limit: limit.clone(), files, largest_file, result };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

/// Bytes of all files in a directory and below, and of the largest of them: what they take on the disk, because some
/// engines make sparse files.
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

/// Drops what the kernel caches of the files of a directory.
fn forget(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            forget(&path)?;
            continue;
        }
        let file = fs::File::open(&path)?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

fn run(place: &Place, args: &MixArgs, seconds: f64, json: bool) -> Result<()> {
    let mix = args.mix(seconds)?;
    let group = place.limit();
    if !place.list().exists() {
        eprintln!("filling {} with {} MiB", place.engine, place.size_mib);
        let load = place.fill()?;
        eprintln!("filled at {:.0} MB/s", load.logical as f64 / 1e6 / load.used.seconds);
    }
    forget(&place.store())?;
    let records = place.take_records()?;
    let store = place.open()?;
    let (result, records) = drive::mix(&*store, mix, records, &place.store())?;
    store.close()?;
    records.save(&place.list())?;
    if json {
        return print(place, &group.limit, result);
    }
    let per = |count: u64| count as f64 / result.operations.max(1) as f64;
    let used = &result.used;
    println!("{}: {} threads, {} updates per transaction", place.engine, mix.threads, mix.updates);
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
    let (files, largest) = file_bytes(&place.store())?;
    let per_live = |bytes: u64| bytes as f64 / result.live as f64;
    println!("  files/live bytes   {:.3}, largest file {:.3}", per_live(files), per_live(largest));
    println!("  peak memory MiB    {}", result.peak_memory >> 20);
    println!("  other cores        {:.2}", used.other_cores);
    match &group.limit {
        Limit::ControlGroup(bytes) => println!("  memory limit MiB   {}", bytes >> 20),
        Limit::None(why) => println!("  memory limit       none: {why}"),
    }
    Ok(())
}

/// One of so many records is read after a crash.
const VERIFY_STEP: usize = 97;

#[derive(Serialize)]
struct CrashResult {
    updates: u64,
}

fn crash(place: &Place, args: &MixArgs, updates: u64, no_checkpoint: bool) -> Result<()> {
    let mix = args.mix(1.0)?;
    let group = place.limit();
    let records = place.take_records()?;
    let store = place.open()?;
    if !no_checkpoint {
        store.checkpoint()?;
    }
    let (updates, records) = drive::update(&*store, mix, updates, records)?;
    records.save(&place.list())?;
    print(place, &group.limit, CrashResult { updates })?;
    drop(group);
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?;
    bail!("outlived its own killing")
}

#[derive(Serialize)]
struct RecoverResult {
    /// Seconds until the store was open.
    seconds: f64,
    /// CPU seconds of it.
    cpu_seconds: f64,
    /// From the start of opening until every change is in the file and durable.
    settled_seconds: f64,
    /// Cores that others used.
    other_cores: f64,
    /// Log records read, if the engine tells.
    records: Option<u64>,
    /// Pages moved until then, if the engine tells.
    transfers: Option<Transfers>,
}

fn recover(place: &Place) -> Result<()> {
    let group = place.limit();
    forget(&place.store())?;
    let before = usage::Usage::now(&place.store())?;
    let start = Instant::now();
    let store = place.open()?;
    let seconds = start.elapsed().as_secs_f64();
    let used = before.until_now(&place.store())?;
    let (records, transfers) = (store.recovered().records, store.transfers());
    // What opening left for later.
    store.checkpoint()?;
    let settled_seconds = start.elapsed().as_secs_f64();
    // Nothing that was durable may be missing, or the time is worth nothing.
    drive::verify(&*store, &Records::read(&place.list())?, VERIFY_STEP)?;
    store.close()?;
    let (cpu_seconds, other_cores) = (used.cpu_seconds, used.other_cores);
    let result = RecoverResult { seconds, cpu_seconds, settled_seconds, other_cores, records, transfers };
    print(place, &group.limit, result)
}

fn main() -> ExitCode {
    match execute(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("jetcell-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn execute(command: Command) -> Result<()> {
    match command {
        Command::Load { place } => {
            let group = place.limit();
            let result = place.fill()?;
            print(&place, &group.limit, result)
        }
        Command::Run { place, load, seconds, json } => run(&place, &load, seconds, json),
        Command::Crash { place, load, updates, no_checkpoint } => {
            crash(&place, &load, updates, no_checkpoint)
        }
        Command::Recover { place } => recover(&place),
        Command::Table(args) => table::run(&args),
    }
}
