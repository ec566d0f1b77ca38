//! Measures sequential transfers of a LUN on RAID-DP of 14 + 2 plain files, without the layers above the LUN.
//!
//! ```text
//! cargo run --release -p jetcell-luns --example lun_transfer -- DIRECTORY LOG
//! ```
//!
//! DIRECTORY must be empty. LOG is the file of the write log, in memory such as /dev/shm. Neither is removed
//! afterwards. The write rate includes the last consistency point. `bench/array.sh` compares a LUN with a plain file;
//! this example compares two versions of the code, whose runs are interleaved.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jetcell_array::{Array, AssembleOptions, BLOCK, BlockStore, CreateArrayOptions, RaidLevel};
use jetcell_luns::{LunVolume, WriteLogOptions};
use jetcell_vfs::{Clock, OpenMode, RealClock, RealOptions, RealVfs, Vfs};

const MEMBERS: usize = 16;
const MEMBER_BYTES: u64 = 200 << 20;
const LOG_BYTES: u64 = 32 << 20;
const TRANSFER: usize = 1 << 20;
const TRANSFERS: u64 = 512;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, directory, log] = &arguments[..] else {
        return Err("specify a directory and a log file".into());
    };
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new(RealOptions::default())?);
    let member = |number| Path::new(directory).join(format!("m{number}"));
    let members: Vec<PathBuf> = (0..MEMBERS).map(member).collect();
    for member in &members {
        vfs.open(member, OpenMode::CreateNew)?.grow(MEMBER_BYTES)?;
    }
    Array::create(&*vfs, &members, &CreateArrayOptions::new(RaidLevel::RaidDp { prime: 17 }, 1))?;
    let array = Array::assemble(vfs.clone(), &members, AssembleOptions::default())?;
    let log = WriteLogOptions { bytes: LOG_BYTES, ..WriteLogOptions::new(vfs, log.into()) };
    let mut volume = LunVolume::create(array, &log)?;
    let blocks = (TRANSFER / BLOCK) as u64;
    volume.create_lun("a", 2 * TRANSFERS * blocks)?;

    let clock = RealClock::new();
    let rate = |start| (TRANSFERS * TRANSFER as u64) as f64 / (clock.monotonic() - start).as_secs_f64() / 1e6;
    let mut data = vec![7; TRANSFER];
    for round in ["first", "second"] {
        let start = clock.monotonic();
        for transfer in 0..TRANSFERS {
            volume.lun("a")?.write_blocks(transfer * blocks, &data)?;
        }
        volume.consistency_point()?;
        let written = rate(start);
        let start = clock.monotonic();
        for transfer in 0..TRANSFERS {
            let wanted: Vec<u64> = (transfer * blocks..(transfer + 1) * blocks).collect();
            let mut buffers: Vec<&mut [u8]> = data.chunks_exact_mut(BLOCK).collect();
            volume.lun("a")?.read_blocks(&wanted, &mut buffers)?;
        }
        println!("{round} time: writes {written:.0} MB/s, reads {:.0} MB/s", rate(start));
    }
    volume.close()?;
    Ok(())
}
