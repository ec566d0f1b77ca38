//! Detects syncs that are implausibly fast.

use jetcell_host::machine::DirectoryStorage;
use jetcell_workload::measurement::LatencySummary;
use serde::{Deserialize, Serialize};

use super::journal::FailureLevel;

/// Time for half a revolution, in microseconds, at 15,000 revolutions per minute, the fastest drives ever sold. A
/// revolution takes 4 ms, and a write waits half a revolution on average.
const HALF_REVOLUTION_US: u64 = 2000;
/// Minimum time for a command's round trip to a device, in microseconds.
const ROUND_TRIP_US: u64 = 10;
/// Minimum number of syncs needed for a conclusion.
const MIN_SYNCS: u64 = 20;

/// Reason why sync latencies look suspicious.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspiciousSyncReason {
    /// The file system is stored in memory.
    Memory,
    /// A spinning disk cannot write this fast, so a cache must have acknowledged the syncs.
    FasterThanTheDisk,
    /// The syncs were acknowledged without a command to the device.
    NoRoundTrip,
}

impl SuspiciousSyncReason {
    /// Returns a human-readable explanation.
    pub fn meaning(self) -> &'static str {
        match self {
            SuspiciousSyncReason::Memory => {
                "the file system is in memory: its data does not survive a power cut"
            }
            SuspiciousSyncReason::FasterThanTheDisk => {
                "half of the syncs took less than half a revolution of the fastest disk: a cache \
                 acknowledges them, and must be protected against power loss"
            }
            SuspiciousSyncReason::NoRoundTrip => {
                "half of the syncs took less than the round trip of a device command: the kernel does not \
                 send the syncs to a device"
            }
        }
    }
}

/// Returns the reason why the sync latencies are suspicious, or `None` if they are not.
pub(crate) fn doubt(
    sync: &LatencySummary,
    level: FailureLevel,
    storage: Option<&DirectoryStorage>,
) -> Option<SuspiciousSyncReason> {
    // At the process level, the latencies include operations other than syncs.
    if sync.count < MIN_SYNCS || level == FailureLevel::Process {
        return None;
    }
    let file_system = storage.and_then(|storage| storage.mount.as_ref()).map(|mount| &*mount.file_system);
    let device = storage.and_then(|storage| storage.device.as_ref());
    let spins = device.is_some_and(|device| device.rotational == Some(true));
    // The kernel sends no flush to a write-through device, because a completed write is already durable.
    let writes_through = device.is_some_and(|device| device.write_cache.as_deref() == Some("write through"));
    match file_system {
        Some("tmpfs" | "ramfs") => Some(SuspiciousSyncReason::Memory),
        _ if spins && sync.p50 < HALF_REVOLUTION_US => Some(SuspiciousSyncReason::FasterThanTheDisk),
        _ if sync.p50 < ROUND_TRIP_US && !writes_through => Some(SuspiciousSyncReason::NoRoundTrip),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use jetcell_host::machine::{BlockDevice, Mount};

    use super::*;

    /// Returns storage with this file system, kind of device, and write cache setting.
    fn storage(file_system: &str, rotational: bool, write_cache: &str) -> DirectoryStorage {
        let mount = Mount {
            point: "/mnt".into(),
            file_system: file_system.into(),
            source: "/dev/sdz".into(),
            options: "rw".into(),
        };
        let device = BlockDevice {
            name: "sdz".into(),
            model: None,
            rotational: Some(rotational),
            scheduler: None,
            queue_requests: None,
            write_cache: Some(write_cache.into()),
        };
        DirectoryStorage { directory: "/mnt".into(), mount: Some(mount), device: Some(device), array: None }
    }

    fn doubt_for(
        count: u64,
        p50: u64,
        level: FailureLevel,
        storage: Option<&DirectoryStorage>,
    ) -> Option<SuspiciousSyncReason> {
        doubt(&LatencySummary { count, p50, ..LatencySummary::default() }, level, storage)
    }

    #[test]
    fn implausibly_fast_syncs_are_flagged() {
        let (disk, flash) = (storage("ext4", true, "write back"), storage("xfs", false, "write back"));
        let through = storage("ext4", false, "write through");
        let memory = storage("tmpfs", false, "write back");
        let median =
            |us: u64, storage: &DirectoryStorage| doubt_for(100, us, FailureLevel::Power, Some(storage));
        // A spinning disk has to rotate, flash needs only a command round trip, and memory is never durable.
        assert_eq!(median(1999, &disk), Some(SuspiciousSyncReason::FasterThanTheDisk));
        assert_eq!(median(2000, &disk), None);
        assert_eq!(median(9, &flash), Some(SuspiciousSyncReason::NoRoundTrip));
        assert_eq!((median(10, &flash), median(9, &through)), (None, None));
        assert_eq!(median(50_000, &memory), Some(SuspiciousSyncReason::Memory));
        assert_eq!(doubt_for(100, 9, FailureLevel::Reset, None), Some(SuspiciousSyncReason::NoRoundTrip));
        // A few syncs prove nothing, and at the process level the latencies include operations other than syncs.
        assert_eq!(doubt_for(19, 9, FailureLevel::Power, Some(&flash)), None);
        assert_eq!(
            doubt_for(20, 9, FailureLevel::Power, Some(&flash)),
            Some(SuspiciousSyncReason::NoRoundTrip)
        );
        assert_eq!(doubt_for(100, 1, FailureLevel::Process, Some(&memory)), None);
    }
}
