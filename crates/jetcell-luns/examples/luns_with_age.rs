//! Counts the member writes per client write, on a volume of LUNs that fills and ages.
//!
//! ```text
//! cargo run --release -p jetcell-luns --example luns_with_age
//! ```
//!
//! The array is RAID-DP of 14 + 2 members in memory, with a LUN that is written in random pages of 8 KiB. For each
//! fill level, it writes all pages for the first time (young), then all pages again in random order (aged), then a
//! quarter of them after cleaning (cleaned). Commands are writes to members (data, parity, records, catalogue and
//! journal). Blocks are the 4 KiB blocks of these writes. The write log is not counted.

use std::path::PathBuf;
use std::sync::Arc;

use jetcell_array::{Array, AssembleOptions, BLOCK, BlockStore, CreateArrayOptions, RaidLevel};
use jetcell_luns::{LunVolume, WriteLogOptions};
use jetcell_vfs::{OpenMode, SimVfs, Vfs};

const MEMBERS: usize = 16;
const MEMBER_BYTES: u64 = 12 << 20;
const LOG_BYTES: u64 = 8 << 20;

/// Returns a permutation of the page numbers.
fn shuffled(pages: u64, seed: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..pages).collect();
    let mut state = seed;
    for index in (1..order.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(index, (state >> 33) as usize % (index + 1));
    }
    order
}

/// Writes pages, with a flush after every 64 pages, and prints the cost.
fn measure(volume: &mut LunVolume, what: &str, pages: &[u64]) -> jetcell_array::Result<()> {
    let (before, luns) = (volume.array().counters(), volume.counters());
    for (number, page) in pages.iter().enumerate() {
        volume.lun("a")?.write_blocks(page * 2, &vec![*page as u8 + 1; 2 * BLOCK])?;
        if number % 64 == 63 {
            volume.flush()?;
        }
    }
    volume.consistency_point()?;
    let (after, now) = (volume.array().counters(), volume.counters());
    let members = after.members.total().since(&before.members.total());
    let writes = (now.host_writes - luns.host_writes) as f64;
    let blocks = (now.host_blocks - luns.host_blocks) as f64;
    let written = (now.data_blocks + now.map_blocks - luns.data_blocks - luns.map_blocks) as f64;
    println!(
        "  {what:<8} {:>6.2} commands, {:>5.2} blocks; {:>3.0} % in whole rows, {:>5.2} blocks of maps for each block",
        members.writes as f64 / writes,
        members.blocks_written as f64 / blocks,
        (now.blocks_in_whole_rows - luns.blocks_in_whole_rows) as f64 / written * 100.0,
        (now.map_blocks - luns.map_blocks) as f64 / blocks,
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("(n+m)/n is {:.2}", MEMBERS as f64 / (MEMBERS - 2) as f64);
    for fill in [25, 50, 70, 80, 90, 95] {
        let vfs = Arc::new(SimVfs::new());
        let members: Vec<PathBuf> = (0..MEMBERS).map(|member| format!("/m/{member}").into()).collect();
        for member in &members {
            vfs.open(member, OpenMode::CreateNew)?.grow(MEMBER_BYTES)?;
        }
        Array::create(&*vfs, &members, &CreateArrayOptions::new(RaidLevel::RaidDp { prime: 17 }, 1))?;
        let array = Array::assemble(vfs.clone(), &members, AssembleOptions::default())?;
        let log = WriteLogOptions { bytes: LOG_BYTES, ..WriteLogOptions::new(vfs, "/log".into()) };
        let mut volume = LunVolume::create(array, &log)?;
        let pages = volume.free_bytes() * fill / 100 / (2 * BLOCK as u64);
        volume.create_lun("a", pages * 2)?;
        println!("{fill} % of {} MiB in use", volume.free_bytes() >> 20);
        measure(&mut volume, "young", &shuffled(pages, 1))?;
        measure(&mut volume, "aged", &shuffled(pages, 2))?;
        let mut steps = 0;
        while volume.clean_step()?.moved > 0 && steps < 50 {
            steps += 1;
        }
        println!("  cleaning moved {} blocks in {steps} steps", volume.counters().blocks_moved);
        measure(&mut volume, "cleaned", &shuffled(pages / 4, 3))?;
    }
    Ok(())
}
