//! A full scan in key order of a table whose rows were inserted in random order, before and after sequential layout.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use ese_engine::{
    ColumnDefinition, ColumnType, CommitMode, Database, DatabaseOptions, DefragKind, DefragOptions,
    IndexDefinition, Instance, InstanceOptions, PageSize, Table, TableDefinition, Value,
};
use ese_format::record::ColumnId;
use jetcell_vfs::{CountedVfs, IoOperation, IoReason, RealOptions, RealVfs};
use serde::Serialize;

use crate::control_group::ControlGroup;
use crate::disk_limit::{DiskLimit, DiskLimitKind};
use crate::table::median;

/// Rows, of a KiB each: four times the cache.
const TABLE_ROWS: u64 = 64 << 10;
/// Bytes of the cache.
const CACHE_BYTES: usize = 16 << 20;
/// Rounds of both scans in turn; the first does not count.
const ROUNDS: usize = 6;
/// Reads per second of the limited disk: two spindles.
const LIMITED_READS_PER_SECOND: u64 = 300;
const TABLE: &str = "Scattered";

/// The scans of the same rows, where they were inserted and laid out.
#[derive(Serialize)]
pub struct KeyOrder {
    scattered: ScanResult,
    laid_out: ScanResult,
    /// Rows per second of both on a disk with a limited number of reads.
    limited: std::result::Result<[f64; 2], String>,
}

#[derive(Serialize)]
struct ScanResult {
    /// Reads of the database.
    reads: u64,
    /// Median of the rounds.
    rows_per_second: f64,
}

/// Makes the table below `directory`, and measures.
pub fn key_order(directory: &Path, memory: &ControlGroup) -> Result<KeyOrder> {
    let stores = ["scattered", "laid-out"].map(|name| directory.with_extension(name));
    let result = make(&stores).and_then(|()| measure(&stores, memory));
    for store in &stores {
        fs::remove_dir_all(store).with_context(|| store.display().to_string())?;
    }
    result
}

fn make([scattered, laid_out]: &[PathBuf; 2]) -> Result<()> {
    for store in [scattered, laid_out] {
        if store.exists() {
            fs::remove_dir_all(store)?;
        }
        fs::create_dir_all(store)?;
    }
    let opened = KeyOrderInstance::new(scattered, true)?;
    opened.insert()?;
    opened.close()?;
    for entry in fs::read_dir(scattered)? {
        let path = entry?.path();
        fs::copy(&path, laid_out.join(path.file_name().unwrap_or_default()))?;
    }
    let opened = KeyOrderInstance::new(laid_out, false)?;
    opened.lay_out()?;
    opened.close()
}

fn measure(stores: &[PathBuf; 2], memory: &ControlGroup) -> Result<KeyOrder> {
    let (mut rates, mut reads) = ([const { Vec::new() }; 2], [0; 2]);
    for round in 0..ROUNDS {
        for turn in 0..2 {
            let which = (round + turn) % 2;
            let (rate, read) = scan(&stores[which])?;
            reads[which] = read;
            if round > 0 {
                rates[which].push(rate);
            }
        }
    }
    let limited = || {
        let _limit =
            DiskLimit::enter(&stores[0], DiskLimitKind::ReadsPerSecond(LIMITED_READS_PER_SECOND), memory)?;
        Ok([scan(&stores[0])?.0, scan(&stores[1])?.0])
    };
    let limited = limited().map_err(|error: anyhow::Error| format!("{error:#}"));
    let [scattered, laid_out] = rates.map(|all| median(all).unwrap_or(0.0));
    Ok(KeyOrder {
        scattered: ScanResult { reads: reads[0], rows_per_second: scattered },
        laid_out: ScanResult { reads: reads[1], rows_per_second: laid_out },
        limited,
    })
}

/// Rows per second and reads of a scan with a cold cache.
fn scan(store: &Path) -> Result<(f64, u64)> {
    let opened = KeyOrderInstance::new(store, false)?;
    let reads = |opened: &KeyOrderInstance| {
        let (done, reasons) = (opened.counted.snapshot(), [IoReason::DatabaseRead, IoReason::Preread]);
        reasons.map(|reason| done.get(reason, IoOperation::Read).operations).iter().sum::<u64>()
    };
    let (before, began) = (reads(&opened), Instant::now());
    let mut session = opened.instance.session();
    let mut table = session.open_table(&opened.database, TABLE)?;
    let body = column(&table, "Body")?;
    let (mut rows, mut more) = (0, table.first(&mut session)?);
    while more {
        std::hint::black_box(table.get(&mut session, body)?);
        rows += 1;
        more = table.next(&mut session)?;
    }
    ensure!(rows == TABLE_ROWS, "expected {TABLE_ROWS} rows, found {rows}");
    let result = (rows as f64 / began.elapsed().as_secs_f64(), reads(&opened) - before);
    drop((table, session));
    opened.close()?;
    Ok(result)
}

fn column(table: &Table, name: &str) -> Result<ColumnId> {
    table.column(name).ok_or_else(|| anyhow!("column {name} does not exist"))
}

/// An instance with the database of the table.
struct KeyOrderInstance {
    instance: Arc<Instance>,
    database: Arc<Database>,
    counted: Arc<CountedVfs>,
}

impl KeyOrderInstance {
    fn new(directory: &Path, create: bool) -> Result<KeyOrderInstance> {
        let counted = Arc::new(CountedVfs::new(Arc::new(RealVfs::new(RealOptions::default())?)));
        let options = InstanceOptions::with_vfs(counted.clone(), directory.to_path_buf())
            .page_size(PageSize::new(32 << 10).ok_or_else(|| anyhow!("page size"))?)
            .cache_bytes(CACHE_BYTES)
            .circular_log(true);
        let (instance, path) = (Instance::open(options)?, directory.join("scattered.edb"));
        let database = if create {
            instance.create_database(&path, &DatabaseOptions::default())?
        } else {
            instance.attach(&path, 256)?
        };
        Ok(KeyOrderInstance { instance, database, counted })
    }

    fn insert(&self) -> Result<()> {
        let definition = TableDefinition {
            name: TABLE.to_string(),
            columns: vec![
                ColumnDefinition::new("Id", ColumnType::LongLong),
                ColumnDefinition::new("Body", ColumnType::LongBinary),
            ],
            indexes: vec![IndexDefinition::new("ById", &["Id"]).primary()],
            ..TableDefinition::default()
        };
        let mut session = self.instance.session();
        session.begin()?;
        session.create_table(&self.database, &definition)?;
        let mut table = session.open_table(&self.database, TABLE)?;
        let (id, body) = (column(&table, "Id")?, column(&table, "Body")?);
        for row in 0..TABLE_ROWS {
            // An odd factor permutes the numbers below a power of two.
            let key = row.wrapping_mul(0x9e37_79b1) % TABLE_ROWS;
            let bytes: Vec<u8> = (0..960_u64).map(|at| (key.wrapping_mul(at + 7) >> 5) as u8).collect();
            table.insert(&mut session, &[(id, Value::LongLong(key as i64)), (body, Value::Binary(bytes))])?;
            if row % 500 == 499 {
                session.commit(CommitMode::Lazy)?;
                session.begin()?;
            }
        }
        Ok(session.commit(CommitMode::Durable).map(|_| ())?)
    }

    fn lay_out(&self) -> Result<()> {
        let options = DefragOptions {
            kind: DefragKind::SequentialLayout,
            single_pass: true,
            ..DefragOptions::default()
        };
        ensure!(self.instance.start_defragmentation(&self.database, options)?, "a layout is already running");
        loop {
            let progress = self.database.layout_progress();
            ensure!(progress.failure.is_none() && progress.skipped == 0, "the layout failed: {progress:?}");
            if !progress.running {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn close(self) -> Result<()> {
        drop(self.database);
        Ok(self.instance.shutdown()?)
    }
}
