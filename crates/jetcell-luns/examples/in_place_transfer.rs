//! Measures sequential writes to a file on an array that is written in place (RAID-DP of 14 + 2 plain files),
//! compared with a plain file. It measures both rows that were never written and rows that are overwritten.
//!
//! ```text
//! cargo run --release -p jetcell-luns --example in_place_transfer -- DIRECTORY [MIB] [ROUNDS]
//! ```
//!
//! Each round creates a new array on the same members. The first round is a warm-up and is not counted: it writes all
//! files once. Files get their full size before their content, so no file system allocates space during a
//! measurement. Each measurement ends with a sync, for the array and for the plain file. See `bench/array.sh`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;

use jetcell_array::{Array, AssembleOptions, CreateArrayOptions, RaidLevel};
use jetcell_luns::Volume;
use jetcell_vfs::{
    Clock, File, IoBuffer, IoReason, OpenMode, RealClock, RealOptions, RealVfs, Transfer, TransferKind, Vfs,
};

const MEMBERS: usize = 16;
const DATA_MEMBERS: f64 = 14.0;
const TRANSFER: usize = 1 << 20;
const DEPTH: usize = 4;

/// Writes a file from beginning to end and syncs it. Returns bytes per second.
fn write(file: &dyn File, mib: u64, clock: &RealClock) -> Result<f64, Box<dyn Error>> {
    let (sender, written) = channel();
    let mut free: Vec<IoBuffer> = (0..DEPTH).map(|_| IoBuffer::zeroed(TRANSFER)).collect();
    let start = clock.monotonic();
    for transfer in 0..mib {
        let mut buffer = match free.pop() {
            Some(buffer) => buffer,
            None => {
                let (result, buffer): (std::io::Result<()>, IoBuffer) = written.recv()?;
                result.map(|()| buffer)?
            }
        };
        // No two blocks are equal.
        let numbers = (transfer * 256..).map(u64::to_le_bytes);
        buffer.chunks_mut(4096).zip(numbers).for_each(|(block, number)| block[..8].copy_from_slice(&number));
        let sender = sender.clone();
        let done = Box::new(move |result, buffer| drop(sender.send((result, buffer))));
        let offset = transfer * TRANSFER as u64;
        file.submit(vec![Transfer {
            kind: TransferKind::Write,
            offset,
            buffer,
            reason: IoReason::Other,
            done,
        }]);
    }
    drop(sender);
    for (result, _) in written {
        result?;
    }
    file.sync(IoReason::Other)?;
    Ok((mib * TRANSFER as u64) as f64 / (clock.monotonic() - start).as_secs_f64())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(directory) = arguments.first().map(PathBuf::from) else {
        return Err("specify a directory".into());
    };
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse::<u64>());
    let (mib, rounds) = (number(1, 1024)?, number(2, 5)?);
    let clock = Arc::new(RealClock::new());
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new(RealOptions::default())?);
    let members: Vec<PathBuf> = (0..MEMBERS).map(|number| directory.join(format!("m{number}"))).collect();
    for member in &members {
        vfs.open(member, OpenMode::CreateNew)?.grow((mib << 20) / 14 + (32 << 20))?;
    }
    let plain = vfs.open(&directory.join("plain"), OpenMode::CreateNew)?;
    plain.grow(mib << 20)?;
    let mut rates = [vec![], vec![], vec![]];
    for round in 0..=rounds {
        let options = CreateArrayOptions {
            force: true,
            ..CreateArrayOptions::new(RaidLevel::RaidDp { prime: 17 }, round.into())
        };
        Array::create(&*vfs, &members, &options)?;
        let array = Array::assemble(vfs.clone(), &members, AssembleOptions::default())?;
        let volume = Volume::mount(array, clock.clone(), Path::new("/volume"))?;
        let file = volume.open(Path::new("/volume/file"), OpenMode::CreateNew)?;
        file.grow(mib << 20)?;
        file.sync(IoReason::Other)?;
        let before = write(&*plain, mib, &clock)?;
        let new = write(&*file, mib, &clock)?;
        let overwritten = write(&*file, mib, &clock)?;
        let after = write(&*plain, mib, &clock)?;
        if round > 0 {
            let figures = [new, overwritten, (before + after) / 2.0];
            rates.iter_mut().zip(figures).for_each(|(rates, rate)| rates.push(rate));
        }
        drop(file);
        volume.close()?;
    }
    let [new, overwritten, plain] = rates;
    for (name, goal, rates) in [("new rows", "0.9", new), ("overwritten", "half of it at most", overwritten)]
    {
        let ratios = rates.iter().zip(&plain).map(|(array, plain)| array / plain);
        let ratio = median(ratios.collect()) * MEMBERS as f64 / DATA_MEMBERS;
        let (array, plain) = (median(rates) / 1e6, median(plain.clone()) / 1e6);
        println!(
            "in-place  {name:15} {array:6.0} MB/s, plain file {plain:6.0} MB/s, {ratio:.2} of what the members allow, goal {goal}"
        );
    }
    Ok(())
}
