//! Measures rates of rebuilds, scrubs and degraded reads, compared with healthy reads and with plain reads of the
//! member files.
//!
//! ```text
//! cargo run --release -p jetcell-array --example rebuild_rates -- DIRECTORY
//! ```
//!
//! DIRECTORY must be empty. The files are not removed afterwards. Each of three rounds runs every measurement once,
//! on RAID 6 of 6 + 2. Rates count the data that a user asks for: bytes read, bytes of the array that were verified,
//! bytes of the new member that were filled. A rebuild reads seven blocks for each block that it fills, so its rate
//! is also given for all bytes that it moves.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use jetcell_array::{Array, AssembleOptions, BLOCK, CreateArrayOptions, RaidLevel, ScrubReport};
use jetcell_vfs::{
    Clock, IoBuffer, IoReason, OpenMode, RealClock, RealOptions, RealVfs, Transfer, TransferKind, Vfs,
};

const MEMBERS: usize = 8;
const MEMBER_BYTES: u64 = 66 << 20;
const TRANSFER: usize = 1 << 20;
const ROUNDS: usize = 3;

type BoxedError = Box<dyn std::error::Error>;

/// Returns megabytes per second of a run. `run` returns the number of bytes that it moves.
fn rate(run: impl FnOnce() -> Result<u64, BoxedError>) -> Result<f64, BoxedError> {
    let clock = RealClock::new();
    let bytes = run()?;
    Ok(bytes as f64 / clock.monotonic().as_secs_f64() / 1e6)
}

/// Reads all files concurrently. Returns the number of bytes.
fn read_files(vfs: &dyn Vfs, paths: &[PathBuf]) -> Result<u64, BoxedError> {
    let files: Result<Vec<_>, _> = paths.iter().map(|path| vfs.open(path, OpenMode::Read)).collect();
    let files = files?;
    let mut bytes = 0;
    for offset in (0..MEMBER_BYTES).step_by(TRANSFER) {
        let (sender, ended) = mpsc::channel();
        for file in &files {
            let sender = sender.clone();
            let buffer = IoBuffer::zeroed(TRANSFER);
            let done = Box::new(move |result, _| _ = sender.send(result));
            file.submit(vec![Transfer {
                kind: TransferKind::Read,
                offset,
                buffer,
                reason: IoReason::Other,
                done,
            }]);
        }
        drop(sender);
        for result in ended {
            result?;
            bytes += TRANSFER as u64;
        }
    }
    Ok(bytes)
}

fn read_all(array: &mut Array) -> Result<u64, BoxedError> {
    let mut buffer = vec![0; TRANSFER];
    let blocks = (TRANSFER / BLOCK) as u64;
    let end = array.layout().blocks() / blocks;
    for transfer in 0..end {
        array.read(transfer * blocks, &mut buffer)?;
    }
    Ok(end * TRANSFER as u64)
}

fn scrub(array: &mut Array) -> Result<u64, BoxedError> {
    let mut report = ScrubReport::default();
    while !array.scrub_zones(u64::MAX, &mut report)? {}
    if report.is_clean() { Ok(array.layout().bytes()) } else { Err(format!("{report:?}").into()) }
}

fn rebuild(array: &mut Array) -> Result<u64, BoxedError> {
    while !array.rebuild_rows(u64::MAX)?.is_complete() {}
    Ok(array.layout().rows * BLOCK as u64)
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn main() -> Result<(), BoxedError> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, directory] = &arguments[..] else { return Err("specify a directory".into()) };
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new(RealOptions::default())?);
    let make = |number: usize| -> Result<PathBuf, BoxedError> {
        let path = Path::new(directory).join(format!("m{number}"));
        vfs.open(&path, OpenMode::CreateNew)?.grow(MEMBER_BYTES)?;
        Ok(path)
    };
    let members: Vec<PathBuf> = (0..MEMBERS).map(make).collect::<Result<_, _>>()?;
    Array::create(&*vfs, &members, &CreateArrayOptions::new(RaidLevel::Raid6, 1))?;
    let mut array = Array::assemble(vfs.clone(), &members, AssembleOptions::default())?;
    let blocks = (TRANSFER / BLOCK) as u64;
    for transfer in 0..array.layout().blocks() / blocks {
        let data: Vec<u8> = (0..TRANSFER).map(|at| (at as u64 * 31 + transfer) as u8).collect();
        array.write(transfer * blocks, &data)?;
    }
    array.flush()?;

    let mut rates: [Vec<f64>; 5] = Default::default();
    let members_of = |array: &Array| -> Vec<PathBuf> {
        array.status().slots.into_iter().filter_map(|slot| slot.member).collect()
    };
    for round in 0..ROUNDS {
        let files = members_of(&array);
        rates[0].push(rate(|| read_files(&*vfs, &files))?);
        rates[1].push(rate(|| read_all(&mut array))?);
        rates[2].push(rate(|| scrub(&mut array))?);
        array.fail(round)?;
        rates[3].push(rate(|| read_all(&mut array))?);
        array.replace(round, &make(MEMBERS + round)?, false)?;
        rates[4].push(rate(|| rebuild(&mut array))?);
    }
    array.close()?;
    let [plain, healthy, scrub, degraded, rebuild] = rates.map(median);
    println!("plain files, read at the same time    {plain:6.0} MB/s");
    println!(
        "reads, all members present            {healthy:6.0} MB/s   {:.2} of the plain files",
        healthy / plain
    );
    println!(
        "reads, one member failed              {degraded:6.0} MB/s   {:.2} of the healthy reads",
        degraded / healthy
    );
    println!(
        "scrub                                 {scrub:6.0} MB/s   {:.2} of the healthy reads",
        scrub / healthy
    );
    let moved = rebuild * MEMBERS as f64;
    println!(
        "rebuild of a member                   {rebuild:6.0} MB/s   {:.2} of the plain files with all that it moves ({moved:.0} MB/s)",
        moved / plain
    );
    Ok(())
}
