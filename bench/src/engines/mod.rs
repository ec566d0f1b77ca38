//! The engines, each as a [`BenchStore`].

use anyhow::{Result, anyhow, bail};

use crate::store::{BenchStore, StoreOptions};

#[cfg(feature = "fjall")]
mod fjall;
mod jetcell;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "wiredtiger")]
mod wiredtiger;

/// Names of all engines, whether or not this binary contains them.
pub const ALL: [&str; 7] = ["jetcell", "wiredtiger", "rocksdb", "sqlite", "lmdb", "redb", "fjall"];

/// Opens a store, or creates it if the directory is empty.
pub fn open(engine: &str, options: &StoreOptions) -> Result<Box<dyn BenchStore>> {
    Ok(match engine {
        "jetcell" => Box::new(jetcell::Jetcell::open(options)?),
        #[cfg(feature = "wiredtiger")]
        "wiredtiger" => Box::new(wiredtiger::WiredTiger::open(options)?),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Box::new(rocksdb::RocksDb::open(options)?),
        #[cfg(feature = "sqlite")]
        "sqlite" => Box::new(sqlite::Sqlite::open(options)?),
        #[cfg(feature = "lmdb")]
        "lmdb" => Box::new(lmdb::Lmdb::open(options)?),
        #[cfg(feature = "redb")]
        "redb" => Box::new(redb::Redb::open(options)?),
        #[cfg(feature = "fjall")]
        "fjall" => Box::new(fjall::Fjall::open(options)?),
        other if ALL.contains(&other) => {
            bail!("this build does not include {other}; run cargo build --features {other}")
        }
        other => bail!("unknown engine {other}; engines: {}", ALL.join(", ")),
    })
}

/// Version of an engine's library. Libraries in C and C++ report it at run time; for Rust crates it is the version in
/// `Cargo.lock`, which is what was compiled in.
pub fn version(engine: &str) -> Result<String> {
    Ok(match engine {
        "jetcell" => {
            let commit = option_env!("BENCH_COMMIT").unwrap_or("unknown");
            format!("{} (commit {commit})", env!("BENCH_VERSION_ESE_ENGINE"))
        }
        #[cfg(feature = "wiredtiger")]
        "wiredtiger" => wiredtiger::version(),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => rocksdb::version(),
        #[cfg(feature = "sqlite")]
        "sqlite" => format!("{} (rusqlite {})", ::rusqlite::version(), env!("BENCH_VERSION_RUSQLITE")),
        #[cfg(feature = "lmdb")]
        "lmdb" => format!("{} (heed {})", ::heed::lmdb_version().string, env!("BENCH_VERSION_HEED")),
        #[cfg(feature = "redb")]
        "redb" => env!("BENCH_VERSION_REDB").to_string(),
        #[cfg(feature = "fjall")]
        "fjall" => env!("BENCH_VERSION_FJALL").to_string(),
        other => return Err(anyhow!("this build does not include {other}")),
    })
}
