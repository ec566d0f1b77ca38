//! Options of a store and of the mix, and the files of a store: its directory and the list of its records.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::control_group::ControlGroup;
use crate::driver::{self, LoadResult, MixOptions};
use crate::engines;
use crate::store::{BenchStore, StoreOptions};
use crate::workload::StoreRecords;

/// Which store, and how it is opened.
#[derive(Args)]
pub struct StoreArgs {
    /// Engine
    #[arg(long, default_value = "jetcell", value_parser = PossibleValuesParser::new(engines::ALL))]
    pub engine: String,
    /// Directory of the stores; each engine has a subdirectory
    #[arg(long, default_value = "bench/target/data")]
    dir: PathBuf,
    /// MiB of records in a new store
    #[arg(long, default_value_t = 2048)]
    pub size_mib: u64,
    /// MiB of cache; default: one sixteenth of the size
    #[arg(long)]
    cache_mib: Option<u64>,
    /// MiB of log that a restart may have to read
    #[arg(long, default_value_t = 512)]
    checkpoint_depth_mib: u64,
    /// Jetcell engine: protect pages against torn writes. Off in tests of storage and in rows 1 to 13, as in ESE
    #[arg(long)]
    page_protection: bool,
    /// Jetcell engine: write every dirty page before it is evicted, as in tests of storage and in ESE
    #[arg(long)]
    no_delta_store: bool,
    /// Read the records of a transaction together before its first statement: preread of the Jetcell engine (default:
    /// true), MultiGet of RocksDB (default: false)
    #[arg(long)]
    batch_reads: Option<bool>,
    /// Fill a new store with the engine's fastest method: bulk load, SST ingestion, append
    #[arg(long)]
    bulk: bool,
    /// MiB of memory, including the page cache; 0: no limit; default: the limit of the table
    #[arg(long)]
    limit_mib: Option<u64>,
}

/// Options of the load on a store.
#[derive(Args)]
pub struct MixArgs {
    /// Number of threads
    #[arg(long, default_value_t = 8)]
    threads: u32,
    /// Updates per transaction
    #[arg(long, default_value_t = 1)]
    updates_per_txn: u32,
    /// Share of updating transactions that are durable, in percent
    #[arg(long, default_value_t = 30)]
    durable_percent: u64,
    /// Replace only this many records of each thread, instead of running the mail mix
    #[arg(long)]
    hot_records: Option<usize>,
    /// Seed of the operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl MixArgs {
    /// The mix with a window of `seconds`.
    pub fn mix(&self, seconds: f64) -> Result<MixOptions> {
        if self.threads == 0 || self.updates_per_txn == 0 || !(seconds > 0.0 && seconds < 1e6) {
            bail!("threads, updates and seconds must be greater than 0");
        }
        Ok(MixOptions {
            threads: self.threads,
            updates: self.updates_per_txn,
            durable_percent: self.durable_percent,
            window: Duration::from_secs_f64(seconds),
            hot_records: self.hot_records,
            seed: self.seed,
        })
    }
}

impl StoreArgs {
    /// Directory of the store.
    pub fn directory(&self) -> PathBuf {
        self.dir.join(&self.engine)
    }

    /// Path of the list of records.
    pub fn record_list(&self) -> PathBuf {
        record_list(&self.dir, &self.engine, self.size_mib)
    }

    fn options(&self) -> StoreOptions {
        StoreOptions {
            directory: self.directory(),
            cache: self.cache_bytes(),
            checkpoint_depth: self.checkpoint_depth(),
            delta_store: !self.no_delta_store,
            page_protection: self.page_protection,
            circular_logging: true,
            batch_reads: self.batch_reads.unwrap_or(self.engine == "jetcell"),
            bulk_load: false,
        }
    }

    /// Limits the memory of this process. Engines need more than their cache; all engines have the same limit.
    pub fn limit(&self) -> ControlGroup {
        let default = 3 * self.options().cache + (80 << 20);
        match self.limit_mib {
            Some(0) => ControlGroup::none("--limit-mib 0"),
            limit => ControlGroup::enter(limit.map_or(default, |mib| mib << 20)),
        }
    }

    /// Bytes of cache.
    pub fn cache_bytes(&self) -> u64 {
        self.cache_mib.unwrap_or(self.size_mib / 16) << 20
    }

    /// Bytes of log that a restart may have to read.
    pub fn checkpoint_depth(&self) -> u64 {
        self.checkpoint_depth_mib << 20
    }

    /// Opens the store.
    pub fn open(&self) -> Result<Box<dyn BenchStore>> {
        self.open_as(&self.options())
    }

    /// Opens the store and keeps all its logs.
    pub fn open_with_all_logs(&self) -> Result<Box<dyn BenchStore>> {
        self.open_as(&StoreOptions { circular_logging: false, ..self.options() })
    }

    /// Opens a copy of the store in another directory.
    pub fn open_in(&self, directory: &Path) -> Result<Box<dyn BenchStore>> {
        self.open_as(&StoreOptions { directory: directory.to_path_buf(), ..self.options() })
    }

    fn open_as(&self, options: &StoreOptions) -> Result<Box<dyn BenchStore>> {
        engines::open(&self.engine, options).with_context(|| format!("cannot open {}", self.engine))
    }

    /// Creates the store anew and fills it.
    pub fn fill(&self) -> Result<LoadResult> {
        let directory = self.directory();
        if directory.exists() {
            fs::remove_dir_all(&directory).with_context(|| directory.display().to_string())?;
        }
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        remove_record_lists(&self.dir, &self.engine)?;
        let store = self.open_as(&StoreOptions { bulk_load: self.bulk, ..self.options() })?;
        let (result, records) = driver::load(store, self.size_mib << 20, &directory, self.bulk)?;
        records.save(&self.record_list())?;
        Ok(result)
    }

    /// Reads and removes the list of records. If the use of the store is interrupted, the next use fills it again.
    pub fn take_records(&self) -> Result<StoreRecords> {
        let records = StoreRecords::read(&self.record_list())?;
        fs::remove_file(self.record_list())?;
        Ok(records)
    }
}

/// Path of the list of records of a closed store. Its name has the size that the store was filled to. A store without
/// a list cannot be used.
pub fn record_list(directory: &Path, engine: &str, size_mib: u64) -> PathBuf {
    directory.join(format!("{engine}.{size_mib}.records"))
}

/// Removes the lists of an engine's store, for all sizes. The caller removes the store next.
pub fn remove_record_lists(directory: &Path, engine: &str) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&format!("{engine}.")) && name.ends_with(".records") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
