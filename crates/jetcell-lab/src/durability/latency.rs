//! Syncs that are too fast to be true.

use jetcell_workload::machine::Storage;
use jetcell_workload::measurement::LatencySummary;
use serde::{Deserialize, Serialize};

use super::journal::Level;

/// A drive of 15,000 turns a minute, the fastest ever sold, needs 4 ms for a turn: a write waits for half of one on average.
const HALF_A_TURN_US: u64 = 2000;
/// No command to a device and back is faster.
const ROUND_TRIP_US: u64 = 10;
/// Fewer syncs tell nothing.
const ENOUGH: u64 = 20;

/// Why latencies of syncs are suspicious.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncDoubt {
    /// The file system is in memory.
    Memory,
    /// A spinning disk cannot have written that fast; a cache answered.
    FasterThanTheDisk,
    /// No device was asked.
    NoRoundTrip,
}

impl SyncDoubt {
    /// What it means, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            SyncDoubt::Memory => "the file system is in memory: nothing survives a power cut",
            SyncDoubt::FasterThanTheDisk => {
                "half of the syncs took less than half a turn of the fastest disk: a cache answers; it must be protected \
                 against power loss"
            }
            SyncDoubt::NoRoundTrip => {
                "half of the syncs took less than a command to a device and back: the kernel asks no device"
            }
        }
    }
}

/// What is suspicious about the latencies of syncs.
pub(super) fn doubt(sync: &LatencySummary, level: Level, storage: Option<&Storage>) -> Option<SyncDoubt> {
    // On this level there are operations without a sync among the latencies.
    if sync.count < ENOUGH || level == Level::Process {
        return None;
    }
    let file_system = storage.and_then(|storage| storage.mount.as_ref()).map(|mount| &*mount.file_system);
    let device = storage.and_then(|storage| storage.device.as_ref());
    let spins = device.is_some_and(|device| device.rotational == Some(true));
    // The kernel sends no flush to such a device: the write itself was the promise.
    let writes_through = device.is_some_and(|device| device.write_cache.as_deref() == Some("write through"));
    match file_system {
        Some("tmpfs" | "ramfs") => Some(SyncDoubt::Memory),
        _ if spins && sync.p50 < HALF_A_TURN_US => Some(SyncDoubt::FasterThanTheDisk),
        _ if sync.p50 < ROUND_TRIP_US && !writes_through => Some(SyncDoubt::NoRoundTrip),
        _ => None,
    }
}
