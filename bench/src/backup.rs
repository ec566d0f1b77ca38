//! Reading of a whole database as a backup does it, compared with reads of the same file without verification.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use ese_engine::{BackupKind, Instance, InstanceOptions, PageReadOptions, PageSize};
use jetcell_vfs::{IoBuffer, IoReason, OpenMode, RealOptions, RealVfs, Transfer, TransferKind, Vfs};
use serde::Serialize;

use crate::measure::print;
use crate::store_args::StoreArgs;
use crate::table::median;
use crate::usage::ProcessUsage;

/// Bytes of one read, as in Jetstress.
const READ: usize = 256 << 10;
/// Number of reads in flight.
const DEPTH: usize = 8;
/// Rounds of all reads in turn, each beginning with another one than the round before; the first round does not
/// count.
const ROUNDS: usize = 13;
/// Page size of the store.
const PAGE: u32 = 32 << 10;

#[derive(Serialize)]
struct BackupResult {
    /// Bytes of one round.
    bytes: u64,
    /// Bytes per second with every page verified, median of the rounds.
    backup_bytes_per_second: f64,
    /// Bytes per second without verification, median of the rounds.
    raw_bytes_per_second: f64,
    /// Bytes per second if the bytes are added up and not verified, median of the rounds: what it costs that the
    /// processor sees the bytes at all.
    summed_bytes_per_second: f64,
    /// Cores that other processes used.
    other_cores: f64,
}

/// Reads a closed store in turn as a backup and without verification. Prints the rates of both.
pub fn backup(store: &StoreArgs) -> Result<()> {
    ensure!(store.engine == "jetcell", "only jetcell supports this kind of backup");
    let directory = store.directory();
    let path = directory.join("records.edb");
    let files: Arc<dyn Vfs> = Arc::new(RealVfs::new(RealOptions::default())?);
    let options = InstanceOptions::with_vfs(files.clone(), directory.clone())
        .page_size(PageSize::new(PAGE).ok_or_else(|| anyhow!("page size"))?)
        .cache_bytes(store.cache_bytes() as usize)
        .circular_log(true);
    let instance = Instance::open(options)?;
    let database = instance.attach(&path, 256)?;
    let group = store.limit();
    let before = ProcessUsage::now(&directory)?;
    let kinds = [ReadPurpose::Verified, ReadPurpose::Summed, ReadPurpose::Raw];
    let (mut rates, mut bytes) = ([const { Vec::new() }; 3], 0);
    for round in 0..ROUNDS {
        for turn in 0..kinds.len() {
            let kind = (round + turn) % kinds.len();
            let began = Instant::now();
            bytes = match kinds[kind] {
                ReadPurpose::Verified => verified(&instance)?,
                ReadPurpose::Summed => unverified(&*files, &path, |bytes| {
                    black_box(sum(bytes));
                })?,
                ReadPurpose::Raw => unverified(&*files, &path, |_| ())?,
            };
            if round > 0 {
                rates[kind].push(bytes as f64 / began.elapsed().as_secs_f64());
            }
        }
    }
    let [verified, summed, raw] = rates.map(|rates| median(rates).unwrap_or(0.0));
    let used = before.until_now(&directory)?;
    drop(database);
    instance.shutdown()?;
    let result = BackupResult {
        bytes,
        backup_bytes_per_second: verified,
        raw_bytes_per_second: raw,
        summed_bytes_per_second: summed,
        other_cores: used.other_cores,
    };
    print(store, &group.limit, result)
}

/// Use of the bytes that were read.
#[derive(Clone, Copy)]
enum ReadPurpose {
    Verified,
    Summed,
    Raw,
}

/// Reads all pages as a backup, and verifies them.
fn verified(instance: &Instance) -> Result<u64> {
    let backup = instance.begin_backup(BackupKind::Copy)?;
    let database = backup.databases().first().cloned().ok_or_else(|| anyhow!("no database"))?;
    let options = PageReadOptions { read_bytes: READ, reads_in_flight: DEPTH, ..PageReadOptions::default() };
    let mut pages = backup.read_pages(&database, options)?;
    while let Some(extent) = pages.next_extent()? {
        pages.recycle(extent);
    }
    ensure!(pages.reads().bad == 0, "{} bad pages", pages.reads().bad);
    Ok(pages.reads().bytes)
}

/// Reads the file with the same number of reads of the same size in flight. `look` gets the bytes of each after the
/// next read was begun.
fn unverified(files: &dyn Vfs, path: &Path, look: impl Fn(&[u8])) -> Result<u64> {
    let file = files.open(path, OpenMode::Read)?;
    let len = file.len()?;
    let (sender, done) = channel();
    let submit = |offset: u64, mut buffer: IoBuffer| {
        buffer.resize((len - offset).min(READ as u64) as usize);
        let sender = sender.clone();
        let done = Box::new(move |result: std::io::Result<()>, buffer| drop(sender.send((result, buffer))));
        let (kind, reason) = (TransferKind::Read, IoReason::Other);
        file.submit(vec![Transfer { kind, offset, buffer, reason, done }]);
    };
    let (mut next, mut running) = (0, 0);
    while running < DEPTH && next < len {
        submit(next, IoBuffer::zeroed(READ));
        (next, running) = (next + READ as u64, running + 1);
    }
    let mut spare = IoBuffer::zeroed(READ);
    while running > 0 {
        let (result, buffer) = done.recv()?;
        result?;
        running -= 1;
        if next < len {
            submit(next, spare);
            (next, running) = (next + READ as u64, running + 1);
        }
        look(&buffer);
        spare = buffer;
    }
    Ok(len)
}

/// Reads each byte once, as fast as the processor can.
fn sum(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks();
    words.iter().fold(0, |sum: u64, word| sum.wrapping_add(u64::from_ne_bytes(*word)))
}
