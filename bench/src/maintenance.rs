//! Maintenance of a database compared with the device: the checksum scan with reads of the same size, page zeroing
//! with writes of the same size, the scans of two databases of a disk one after the other and at the same time, and
//! what sequential layout gains.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use ese_engine::{
    Database, Instance, InstanceOptions, MaintenanceThrottle, PageSize, ScanOptions, TornPageProtection,
};
use jetcell_vfs::{
    CountedVfs, IoBuffer, IoOperation, IoReason, IoSnapshot, OpenMode, RealOptions, RealVfs, Vfs,
};
use serde::Serialize;

use crate::control_group::ControlGroup;
use crate::disk_limit::{DiskLimit, DiskLimitKind};
use crate::key_order::{KeyOrder, key_order};
use crate::measure::print;
use crate::store_args::StoreArgs;
use crate::table::median;
use crate::usage::ProcessUsage;

/// Bytes of one read, as in Exchange 2013.
const BATCH_BYTES: usize = 256 << 10;
/// Rounds of all reads in turn; the first round does not count.
const ROUNDS: usize = 8;
/// Bytes per second of the limited disk, in each direction: a drive with a SATA interface.
const LIMITED_BYTES_PER_SECOND: u64 = 500_000_000;
/// Page size of the store.
const PAGE_BYTES: u32 = 32 << 10;

#[derive(Serialize)]
struct MaintenanceResult {
    /// Bytes of one scan.
    bytes: u64,
    /// Bytes per second, medians of the rounds.
    scan_bytes_per_second: f64,
    raw_bytes_per_second: f64,
    /// Two databases: bytes of both per second.
    in_turn_bytes_per_second: f64,
    together_bytes_per_second: f64,
    /// Processors that the scan, and the reads without verification, kept busy.
    scan_processors: f64,
    raw_processors: f64,
    zeroing: ZeroingSpeed,
    /// On the disk with a limit.
    limited: std::result::Result<ZeroingSpeed, String>,
    key_order: KeyOrder,
}

#[derive(Serialize)]
struct ZeroingSpeed {
    /// Bytes of the database that the pass wrote, and of its log.
    written_bytes: u64,
    log_bytes: u64,
    /// Bytes of one write to the database, on average.
    write_bytes: u64,
    /// Database and log, until everything is durable.
    bytes_per_second: f64,
    /// Rate of the same writes, one after the other, to an existing file, until they are durable.
    raw_bytes_per_second: f64,
    processors: f64,
}

/// An instance with its database.
struct MaintainedInstance {
    instance: Arc<Instance>,
    database: Arc<Database>,
    path: PathBuf,
    counted: Arc<CountedVfs>,
}

impl MaintainedInstance {
    fn new(files: &Arc<dyn Vfs>, directory: &Path, cache_bytes: u64) -> Result<MaintainedInstance> {
        let path = directory.join("records.edb");
        let counted = Arc::new(CountedVfs::new(files.clone()));
        let options = InstanceOptions::with_vfs(counted.clone(), directory.to_path_buf())
            .page_size(PageSize::new(PAGE_BYTES).ok_or_else(|| anyhow!("page size"))?)
            .cache_bytes(cache_bytes as usize)
            .circular_log(true)
            .torn_page_protection(TornPageProtection::Off);
        let instance = Instance::open(options)?;
        let database = instance.attach(&path, 256)?;
        Ok(MaintainedInstance { instance, database, path, counted })
    }

    fn start(&self, zero: bool) -> Result<()> {
        let throttle = MaintenanceThrottle::default();
        let options = ScanOptions {
            throttle,
            batch_bytes: BATCH_BYTES,
            zero,
            single_pass: true,
            ..ScanOptions::default()
        };
        ensure!(self.instance.start_maintenance(&self.database, options)?, "a scan is already running");
        Ok(())
    }

    /// Waits for the end of the pass.
    fn wait(&self) -> Result<()> {
        loop {
            let progress = self.database.scan_progress();
            ensure!(progress.bad == 0 && progress.failure.is_none(), "the scan failed: {progress:?}");
            if !progress.running {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn bytes(&self) -> Result<u64> {
        Ok(fs::metadata(&self.path)?.len())
    }

    fn close(self) -> Result<()> {
        drop(self.database);
        Ok(self.instance.shutdown()?)
    }
}

/// Measures maintenance of a store that was just loaded, so that no page was zeroed before. Prints the rates.
pub fn maintenance(store: &StoreArgs) -> Result<()> {
    ensure!(store.engine == "jetcell", "only jetcell supports this maintenance");
    let directory = store.directory();
    let second = directory.with_extension("second");
    copy_database(&directory, &second)?;
    let files: Arc<dyn Vfs> = Arc::new(RealVfs::new(RealOptions::default())?);
    let opened = [&directory, &second]
        .map(|directory| MaintainedInstance::new(&files, directory, store.cache_bytes() / 2));
    let [one, other] = opened;
    let (one, other) = (one?, other?);
    let group = store.limit();
    let bytes = one.bytes()?;

    let (mut rates, mut processors) = ([const { Vec::new() }; 4], [const { Vec::new() }; 4]);
    for round in 0..ROUNDS {
        for turn in 0..4 {
            let kind = (round + turn) % 4;
            let before = ProcessUsage::now(&directory)?;
            let read = match kind {
                0 => scan_in_turn(&[&one])?,
                1 => read_raw(&*files, &one.path)?,
                2 => scan_in_turn(&[&one, &other])?,
                _ => scan_together(&[&one, &other])?,
            };
            let used = before.until_now(&directory)?;
            if round > 0 {
                rates[kind].push(read as f64 / used.seconds);
                processors[kind].push(used.cpu_seconds / used.seconds);
            }
        }
    }
    let [scan, raw, in_turn, together] = rates.map(|rates| median(rates).unwrap_or(0.0));
    let [scan_processors, raw_processors, ..] = processors.map(|all| median(all).unwrap_or(0.0));
    let zeroing = zero(&one, &directory, &*files)?;
    one.close()?;
    let limited = zero_on_limited_disk(&other, &directory, &*files, &group);
    other.close()?;
    fs::remove_dir_all(&second).with_context(|| second.display().to_string())?;
    let key_order = key_order(&directory, &group)?;
    let result = MaintenanceResult {
        bytes,
        scan_bytes_per_second: scan,
        raw_bytes_per_second: raw,
        in_turn_bytes_per_second: in_turn,
        together_bytes_per_second: together,
        scan_processors,
        raw_processors,
        zeroing,
        limited: limited.map_err(|error| format!("{error:#}")),
        key_order,
    };
    print(store, &group.limit, result)
}

/// Copies a database that was shut down to a directory of its own. It can be attached with other logs there.
fn copy_database(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    fs::copy(from.join("records.edb"), to.join("records.edb"))?;
    fs::File::open(to.join("records.edb"))?.sync_all()?;
    Ok(())
}

fn scan_in_turn(all: &[&MaintainedInstance]) -> Result<u64> {
    all.iter().try_fold(0, |sum, one| {
        one.start(false)?;
        one.wait()?;
        Ok(sum + one.bytes()?)
    })
}

fn scan_together(all: &[&MaintainedInstance]) -> Result<u64> {
    all.iter().try_for_each(|one| one.start(false))?;
    all.iter().try_fold(0, |sum, one| {
        one.wait()?;
        Ok(sum + one.bytes()?)
    })
}

/// Reads the file in reads of the same size, one after the other.
fn read_raw(files: &dyn Vfs, path: &Path) -> Result<u64> {
    let file = files.open(path, OpenMode::Read)?;
    let (len, mut buffer) = (file.len()?, IoBuffer::zeroed(BATCH_BYTES));
    for offset in (0..len).step_by(BATCH_BYTES) {
        buffer.resize((len - offset).min(BATCH_BYTES as u64) as usize);
        file.read_at(offset, &mut buffer, IoReason::Other)?;
    }
    Ok(len)
}

/// Zeroes the database, and then writes as many bytes to another file.
fn zero(one: &MaintainedInstance, directory: &Path, files: &dyn Vfs) -> Result<ZeroingSpeed> {
    let (before, used) = (one.counted.snapshot(), ProcessUsage::now(directory)?);
    one.start(true)?;
    one.wait()?;
    one.instance.flush()?;
    one.instance.checkpoint()?;
    let used = used.until_now(directory)?;
    let done = one.counted.snapshot().since(&before);
    let (operations, written) = writes(&done, &[IoReason::CheckpointWrite, IoReason::EvictionWrite]);
    let (_, log) = writes(&done, &[IoReason::LogWrite]);
    ensure!(operations > 0, "the pass did not write: the store was already zeroed");
    let page = u64::from(PAGE_BYTES);
    let size = (written / operations).next_multiple_of(page);
    let path = directory.join("raw.dat");
    let raw = write_raw(files, &path, written + log, size as usize)?;
    fs::remove_file(&path)?;
    Ok(ZeroingSpeed {
        written_bytes: written,
        log_bytes: log,
        write_bytes: size,
        bytes_per_second: (written + log) as f64 / used.seconds,
        raw_bytes_per_second: raw,
        processors: used.cpu_seconds / used.seconds,
    })
}

fn zero_on_limited_disk(
    one: &MaintainedInstance,
    directory: &Path,
    files: &dyn Vfs,
    memory: &ControlGroup,
) -> Result<ZeroingSpeed> {
    let _limit =
        DiskLimit::enter(directory, DiskLimitKind::BytesPerSecond(LIMITED_BYTES_PER_SECOND), memory)?;
    zero(one, directory, files)
}

/// Operations and bytes of the writes for some reasons.
fn writes(done: &IoSnapshot, reasons: &[IoReason]) -> (u64, u64) {
    let counts = reasons.iter().map(|reason| done.get(*reason, IoOperation::Write));
    counts.fold((0, 0), |(operations, bytes), one| (operations + one.operations, bytes + one.bytes))
}

/// Bytes per second of overwriting a file.
fn write_raw(files: &dyn Vfs, path: &Path, bytes: u64, size: usize) -> Result<f64> {
    let file = files.open(path, OpenMode::CreateNew)?;
    let mut buffer = IoBuffer::zeroed(size);
    buffer.iter_mut().enumerate().for_each(|(at, byte)| *byte = ((at * 31) >> 3) as u8);
    let mut rate = 0.0;
    // The first time, blocks are allocated.
    for _ in 0..2 {
        let began = Instant::now();
        for offset in (0..bytes).step_by(size) {
            file.write_at(offset, &buffer, IoReason::Other)?;
        }
        file.sync(IoReason::Other)?;
        rate = bytes as f64 / began.elapsed().as_secs_f64();
    }
    Ok(rate)
}
