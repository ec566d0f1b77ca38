//! LUNs and named files on the blocks of an array.
//!
//! | part | content |
//! | --- | --- |
//! | `luns` | LUNs that are never written in place: thin, with snapshots and clones |
//! | `volume` | named files on an array or a LUN, as a [`jetcell_vfs::Vfs`] |

#![forbid(unsafe_code)]

mod luns;
#[cfg(test)]
mod soak_tests;
#[cfg(test)]
#[path = "tests/test_blocks.rs"]
mod test_blocks;
mod volume;

pub use luns::{
    CleaningProgress, Lun, LunCounters, LunStatus, LunVolume, SharedLunVolume, SnapshotStatus, TornRows,
    WriteLogOptions, check_lun_name, has_write_log,
};
pub use volume::{HostWriteCounters, Volume};
